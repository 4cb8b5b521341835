"""A click on the slab map names the object or the slab under it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from slubviz.views.slab_layout import CLICKABLE
from slubviz.views.slab_map import SlabMap
from slubviz.views.slab_summary import summarise
from slubviz.views.theme import LIGHT
from tests.views.fake_travel import show_docked
from tests.views.helpers import A, F, snapshot_of, table

Clicks = list[tuple[int, ...]]


@pytest.fixture
def clicked(qtbot: QtBot) -> Iterator[tuple[SlabMap, Clicks]]:
    view = SlabMap(LIGHT)
    host = show_docked(qtbot, view, width=600)
    slabs = table([[A, A, F, F], [A, F, F, F], [A, A, A, A]], cpu=[0, -1, -1], partial=[False, True, False])
    view.show_slabs(snapshot_of(slabs), summarise(slabs))
    clicks: Clicks = []
    view.object_clicked.connect(lambda frame, index: clicks.append((frame, index)))
    view.slab_clicked.connect(lambda frame: clicks.append((frame,)))
    yield view, clicks
    host.hide()


def places(view: SlabMap) -> dict[tuple[int, int], QPoint]:
    """One point for each (slab, object) that the layout tells apart."""
    layout = view.map_layout
    assert layout is not None
    found: dict[tuple[int, int], QPoint] = {}
    for y in range(layout.height):
        for x in range(layout.width):
            place = layout.place_at(x, y)
            if place[0] >= 0:
                found.setdefault(place, QPoint(x, y))
    return found


def test_each_object_and_frame_is_named_by_a_click(clicked: tuple[SlabMap, Clicks], qtbot: QtBot) -> None:
    view, clicks = clicked
    shown = places(view)
    assert {slab for slab, _ in shown} == {0, 1, 2}
    for (slab, index), point in shown.items():
        clicks.clear()
        qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=point)
        # Page frames of the table begin at 100; a cell beyond the fourth object belongs to the slab only.
        expected = (100 + slab, index) if 0 <= index < 4 else (100 + slab,)
        assert clicks == [expected]
    assert {index for _, index in shown} >= {-1, 0, 1, 2, 3}


def test_other_places_and_other_buttons_name_nothing(clicked: tuple[SlabMap, Clicks], qtbot: QtBot) -> None:
    view, clicks = clicked
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(1, 1))
    point = places(view)[(0, 0)]
    qtbot.mouseClick(view, Qt.MouseButton.RightButton, pos=point)
    assert clicks == []
    view.show_slabs(None, None)
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=point)
    assert clicks == []


def test_a_small_map_of_many_slabs_scrolls_and_every_slab_can_be_clicked(qtbot: QtBot) -> None:
    view = SlabMap(LIGHT, limits=CLICKABLE)
    host = show_docked(qtbot, view, width=400)
    slabs = table([[A, F]] * 1500, cpu=[0] + [-1] * 1499, last_cpu=[0] * 1500)
    snapshot, summary = snapshot_of(slabs), summarise(slabs)
    view.show_slabs(snapshot, summary)
    assert view.bar.isVisible()
    assert 0 < view.tiles_drawn < 1500  # what is in view, no more
    found: set[int] = set()
    for value in [*range(0, view.bar.maximum(), view.height() // 2), view.bar.maximum()]:
        view.bar.setValue(value)
        layout = view.map_layout
        assert layout is not None
        for grid in layout.grids:
            found.update(grid.slabs.tolist())
            assert min(grid.style.width, grid.style.height) >= 8
    assert found == set(range(1500))
    layout = view.map_layout
    assert layout is not None
    grid = layout.grids[-1]
    clicks: list[int] = []
    view.slab_clicked.connect(clicks.append)
    view.object_clicked.connect(lambda frame, _: clicks.append(frame))
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(grid.x + 1, grid.y + 1))
    assert clicks == [100 + int(grid.slabs[0])]
    view.show_slabs(None, None)
    assert view.bar.isHidden()
    host.hide()
