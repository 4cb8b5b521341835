"""The map's pixels: states told apart, drawing only what changed, and few draw calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint
from PySide6.QtGui import QImage, QPainter
from pytestqt.qtbot import QtBot

from slubviz.model.snapshot import SlabState
from slubviz.views.slab_layout import Detail, group_slabs, lay_out, tile_style
from slubviz.views.slab_legend import SlabLegend
from slubviz.views.slab_map import SlabMap, slab_facts
from slubviz.views.slab_raster import SlabRaster, colours_of, looks_of, tile_pixels
from slubviz.views.slab_summary import FROZEN_FLAG, LOCKED_FLAG, SlabSummary, summarise
from slubviz.views.theme import DARK, LIGHT
from tests.views.helpers import A, C, F, many_slabs, snapshot_of, table

COLOURS = colours_of(LIGHT)
WIDTH, HEIGHT = 500, 420


def colour(state: int) -> int:
    return int(COLOURS.objects[state])


def test_every_object_has_its_colour() -> None:
    style = tile_style(4, 40, 1.0)
    tile = tile_pixels(style, np.array([[1, A, C, F, A]], dtype=np.uint8), COLOURS)[0]
    inset = style.frame + style.padding
    seen = [
        int(tile[inset + row * style.cell_height, inset + column * style.cell_width])
        for row in range(2)
        for column in range(2)
    ]
    assert seen == [colour(A), colour(C), colour(F), colour(A)]


def test_frames_differ_in_shape_not_in_colour_alone() -> None:
    style = tile_style(4, 40, 1.0)
    codes = [
        SlabState.EMPTY,
        SlabState.PARTIAL,
        SlabState.FULL,
        SlabState.FULL + FROZEN_FLAG,
        SlabState.FULL + LOCKED_FLAG,
    ]
    looks = np.array([[int(code), F, F, F, F] for code in codes], dtype=np.uint8)
    shapes = {
        (tile != colour(F)).__and__(tile != COLOURS.background).tobytes()
        for tile in tile_pixels(style, looks, COLOURS)
    }
    assert len(shapes) == len(codes)


@pytest.mark.parametrize("size", [64, 40, 24, 16, 10])
def test_frames_are_told_apart_at_every_framed_size(size: int) -> None:
    style = tile_style(64, size, 1.0)
    rows = [[int(state) + frozen, *([F] * 64)] for state in SlabState for frozen in (0, FROZEN_FLAG)]
    summary_rows = np.array(rows, dtype=np.uint8)
    if style.detail is Detail.BAR:
        summary_rows = summary_rows[:, :3]
        summary_rows[:, 1:] = 0
    pictures = {tile.tobytes() for tile in tile_pixels(style, summary_rows, COLOURS)}
    assert len(pictures) == 4  # three fill states, and frozen, whose frame is always whole


@pytest.mark.parametrize(
    ("states", "rows"),
    [
        ([A] * 64, {A: 10}),
        ([F] * 64, {F: 10}),
        ([A] * 32 + [F] * 32, {A: 5, F: 5}),
        ([A] + [F] * 63, {A: 1, F: 9}),  # a single object can still be seen
        ([A] * 63 + [F], {A: 9, F: 1}),
        ([A] * 16 + [C] * 16 + [F] * 32, {A: 2, C: 3, F: 5}),
    ],
)
def test_a_bar_is_as_full_as_its_slab(states: list[int], rows: dict[int, int]) -> None:
    style = tile_style(64, 12, 1.0)
    assert style.detail is Detail.BAR
    assert style.cell_height == 10
    summary = summarise(table([states]))
    tile = tile_pixels(style, looks_of(style, summary, np.array([0])), COLOURS)[0]
    column = Counter(int(value) for value in tile[1:11, 5])
    assert column == {colour(state): count for state, count in rows.items()}
    assert int(tile[10, 5]) == colour(A if A in rows else F)  # it fills from the floor


def test_dots_show_the_main_state() -> None:
    style = tile_style(4, 2, 1.0)
    summary = summarise(table([[A, A, F, F], [A, F, F, F], [C, C, C, F]], cpu=[-1, -1, 0]))
    tiles = tile_pixels(style, looks_of(style, summary, np.arange(3)), COLOURS)
    assert [int(tile[0, 0]) for tile in tiles] == [colour(A), colour(F), colour(C)]


def draw(raster: SlabRaster, summary: SlabSummary, slabs: object, width: int = WIDTH) -> np.ndarray:
    groups = group_slabs(slabs, [0, 1, 2], [True] * 3)  # type: ignore[arg-type]
    layout = lay_out(groups, summary.objects_per_slab, width, HEIGHT, 1.0, 90)
    raster.update(layout, summary, COLOURS)
    return raster.pixels.copy()


slab_lists = st.lists(
    st.tuples(
        st.lists(st.sampled_from([F, C, A]), min_size=4, max_size=4), st.integers(-1, 2), st.booleans()
    ),
    min_size=0,
    max_size=30,
)


@given(slab_lists, slab_lists)
def test_drawing_the_changes_gives_the_same_picture_as_drawing_all(first: list, second: list) -> None:  # type: ignore[type-arg]
    raster = SlabRaster()
    for slabs in (first, second):
        made = table(
            [states for states, _, _ in slabs],
            last_cpu=[cpu for _, cpu, _ in slabs],
            partial=[on_list for _, _, on_list in slabs],
        )
        summary = summarise(made)
        if not slabs:
            summary = replace(summary, states=np.zeros((0, 4), dtype=np.uint8))
        picture = draw(raster, summary, made)
        assert np.array_equal(picture, draw(SlabRaster(), summary, made))


def test_only_changed_tiles_are_drawn() -> None:
    slabs = many_slabs(2000, 16)
    raster = SlabRaster()
    layout = lay_out(group_slabs(slabs, list(range(8)), [True] * 8), 16, 900, 700, 1.0, 90)
    raster.update(layout, summarise(slabs), COLOURS)
    assert raster.tiles_drawn == 2000
    raster.update(layout, summarise(slabs), COLOURS)
    assert raster.tiles_drawn == 0
    states = slabs.object_state.copy()
    states[16 * 100] = F
    states[16 * 1500 : 16 * 1500 + 16] = F
    raster.update(layout, summarise(replace(slabs, object_state=states)), COLOURS)
    assert raster.tiles_drawn == 2
    raster.update(layout, summarise(slabs), colours_of(DARK))
    assert raster.tiles_drawn == 2000


class CountingPainter(QPainter):
    """Counts the calls that draw."""

    def __init__(self, image: QImage) -> None:
        super().__init__(image)
        self.calls: Counter[str] = Counter()

    def drawImage(self, *arguments: object) -> None:
        self.calls["image"] += 1
        super().drawImage(*arguments)  # type: ignore[call-overload]

    def drawText(self, *arguments: object) -> None:
        self.calls["text"] += 1
        super().drawText(*arguments)  # type: ignore[call-overload]

    def drawLine(self, *arguments: object) -> None:
        self.calls["line"] += 1
        super().drawLine(*arguments)  # type: ignore[call-overload]

    def drawRect(self, *arguments: object) -> None:
        self.calls["rect"] += 1
        super().drawRect(*arguments)  # type: ignore[call-overload]

    def fillRect(self, *arguments: object) -> None:
        self.calls["fill"] += 1
        super().fillRect(*arguments)  # type: ignore[call-overload]


def shown_map(qtbot: QtBot, count: int, objects: int = 16) -> SlabMap:
    slab_map = SlabMap(LIGHT)
    qtbot.addWidget(slab_map)
    slab_map.resize(900, 700)
    slabs = many_slabs(count, objects)
    slab_map.show_slabs(snapshot_of(slabs), summarise(slabs))
    return slab_map


def calls_of(slab_map: SlabMap) -> Counter[str]:
    image = QImage(900, 700, QImage.Format.Format_RGB32)
    painter = CountingPainter(image)
    slab_map.draw(painter)
    painter.end()
    return painter.calls


def test_twenty_thousand_slabs_take_as_many_draw_calls_as_twenty(qtbot: QtBot) -> None:
    few, many = shown_map(qtbot, 24), shown_map(qtbot, 20_000)
    assert calls_of(few) == calls_of(many) == {"image": 1, "text": 18, "line": 8}
    assert many.tiles_drawn == 20_000
    assert many.map_layout is not None
    assert many.map_layout.hidden == 0


def test_the_painted_picture_is_the_raster(qtbot: QtBot) -> None:
    slab_map = shown_map(qtbot, 40)
    image = slab_map.grab().toImage()
    assert slab_map.map_layout is not None
    grid = slab_map.map_layout.grids[0]
    inset = grid.style.frame + grid.style.padding
    second = grid.x + inset + grid.style.cell_width
    assert image.pixel(second, grid.y + inset) == colour(A)


def test_tooltip_tells_slab_and_object(qtbot: QtBot) -> None:
    slab_map = SlabMap(LIGHT)
    qtbot.addWidget(slab_map)
    slab_map.resize(600, 500)
    slabs = table([[A, C, F, F]], cpu=[1], last_cpu=[1], locked=[True])
    slab_map.show_slabs(snapshot_of(slabs), summarise(slabs))
    assert slab_map.map_layout is not None
    grid = slab_map.map_layout.grids[0]
    inset = grid.style.frame + grid.style.padding
    second = QPoint(grid.x + inset + grid.style.cell_width, grid.y + inset)
    assert slab_map.tooltip_at(second).splitlines() == [
        "Slab at page frame 100, node 0",
        "Partial, frozen, locked",
        "Cpu slab of CPU 1",
        "4\u202fobjects: 1 allocated, 1 on the CPU freelist, 2 on the slab freelist",
        "Counter inuse: 2",
        "Object 1: free, on the CPU's freelist",
    ]
    assert slab_map.tooltip_at(QPoint(1, 1)) == ""


def test_facts_of_slabs_without_a_cpu() -> None:
    slabs = table([[A, F], [A, A], [A, A]], last_cpu=[3, 3, -1], partial=[True, False, False], node=[2, 0, 0])
    owners = [slab_facts(slabs, summarise(slabs), index).splitlines()[2] for index in range(3)]
    assert owners == [
        "On the partial list of node 2, last cpu slab of CPU 3",
        "Last cpu slab of CPU 3",
        "Last owner unknown",
    ]


def test_a_size_of_the_page_allocator_says_why_there_is_no_slab(qtbot: QtBot) -> None:
    slab_map = SlabMap(LIGHT)
    qtbot.addWidget(slab_map)
    nothing = table([])
    slab_map.show_slabs(snapshot_of(nothing, cache_name=""), summarise(nothing))
    assert slab_map.map_layout is None
    assert slab_map.facts() == "no slabs"
    image = QImage(900, 700, QImage.Format.Format_RGB32)
    painter = CountingPainter(image)
    slab_map.draw(painter)
    painter.end()
    assert painter.calls == {"fill": 1, "text": 1}


def test_rows_stay_while_a_cpu_is_between_two_slabs(qtbot: QtBot) -> None:
    slab_map = SlabMap(LIGHT)
    qtbot.addWidget(slab_map)
    slab_map.resize(600, 700)
    heights = []
    for count in (8, 7, 8):  # the slab of one CPU is gone for a moment
        slabs = many_slabs(count, 16)
        slab_map.show_slabs(snapshot_of(slabs), summarise(slabs))
        assert slab_map.map_layout is not None
        heights.append([row.height for row in slab_map.map_layout.rows])
    assert heights[0] == heights[1] == heights[2]


def test_the_legend_wraps_instead_of_being_cut(qtbot: QtBot) -> None:
    legend = SlabLegend(LIGHT)
    qtbot.addWidget(legend)
    assert legend.heightForWidth(1000) < legend.heightForWidth(300) < legend.heightForWidth(160)
