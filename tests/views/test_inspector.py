"""The inspector: facts as links, back and forward, the object's history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt, QUrl
from pytestqt.qtbot import QtBot

from slubviz.model.travel.inspector import (
    CpuTarget,
    Inspection,
    ListTarget,
    LockTarget,
    ObjectTarget,
    SlabTarget,
)
from slubviz.model.travel.watched import WatchedList, WatchedLock, WatchedSlab
from slubviz.views.inspector import InspectorPanel
from slubviz.views.theme import DARK, LIGHT
from slubviz.views.travel_view import HistoryView
from tests.views.fake_travel import ADDRESS, CPU, HISTORY, OBJECT, SLAB, show_docked


@pytest.fixture
def panel(qtbot: QtBot) -> Iterator[InspectorPanel]:
    panel = InspectorPanel(LIGHT)
    host = show_docked(qtbot, panel)
    yield panel
    host.hide()


def asked(panel: InspectorPanel) -> list[object]:
    """What the panel asks to inspect, from now on."""
    wanted: list[object] = []
    panel.inspected.connect(wanted.append)
    return wanted


def test_an_empty_panel_says_what_to_do_and_offers_nothing_else(panel: InspectorPanel) -> None:
    panel.show_inspection(None, None)
    assert "Click an object" in panel.facts.toPlainText()
    hidden = (
        panel.history,
        panel.stop,
        panel.watch,
        panel.change,
        panel.edit,
        panel.strip,
        panel.history_table,
    )
    assert not any(part.isVisible() for part in hidden)
    assert not panel.back.isEnabled()
    assert not panel.forward.isEnabled()


def test_facts_are_shown_as_they_are_and_never_as_markup(panel: InspectorPanel) -> None:
    panel.show_inspection(OBJECT, None)
    text = panel.facts.toPlainText()
    assert text.startswith("object 3 of slab 812 (kmalloc-64)")
    assert "a < b & c" in text


def test_a_link_inspects_and_a_position_is_gone_to(panel: InspectorPanel, qtbot: QtBot) -> None:
    panel.show_inspection(OBJECT, None)
    with qtbot.waitSignal(panel.inspected) as inspected:
        panel.facts.anchorClicked.emit(QUrl("link:1"))
    assert inspected.args == [SlabTarget(812)]
    with qtbot.waitSignal(panel.seek) as sought:
        panel.facts.anchorClicked.emit(QUrl("go:3"))
    assert sought.args == [12_410]


def test_only_rows_that_lead_somewhere_are_links(panel: InspectorPanel) -> None:
    panel.show_inspection(OBJECT, None)
    html = panel.facts.toHtml()
    assert [f'href="{name}"' in html for name in ("link:0", "link:1", "link:2", "go:3", "link:4")] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_a_typed_text_is_inspected_without_its_blanks(panel: InspectorPanel, qtbot: QtBot) -> None:
    wanted = asked(panel)
    panel.field.setText("  812/3 ")
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)
    panel.field.setText("   ")
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)
    assert wanted == ["812/3"]


def test_back_and_forward_go_through_what_was_inspected(panel: InspectorPanel) -> None:
    wanted = asked(panel)
    for inspection in (OBJECT, SLAB, CPU):
        panel.show_inspection(inspection, None)
    panel.back.click()
    panel.show_inspection(SLAB, None)
    panel.back.click()
    panel.show_inspection(OBJECT, None)
    assert wanted == [SlabTarget(812), ObjectTarget(ADDRESS)]
    assert not panel.back.isEnabled()
    panel.forward.click()
    panel.show_inspection(SLAB, None)
    assert wanted[-1] == SlabTarget(812)
    assert panel.forward.isEnabled()
    # Something new ends the way forward.
    panel.show_inspection(OBJECT, None)
    assert not panel.forward.isEnabled()
    panel.back.click()
    assert wanted[-1] == SlabTarget(812)


def test_new_facts_about_the_same_thing_are_no_step(panel: InspectorPanel) -> None:
    panel.show_inspection(OBJECT, None)
    panel.show_inspection(replace(OBJECT, title="object 3, freed"), None)
    assert not panel.back.isEnabled()
    assert "freed" in panel.facts.toPlainText()


def test_a_target_that_cannot_be_inspected_keeps_the_way_back(panel: InspectorPanel) -> None:
    wanted = asked(panel)
    panel.show_inspection(OBJECT, None)
    panel.show_inspection(SLAB, None)
    panel.back.click()
    panel.show_inspection(None, None)  # there is no such object at this moment
    panel.show_inspection(CPU, None)
    assert wanted == [ObjectTarget(ADDRESS)]
    panel.back.click()
    assert wanted[-1] in (SlabTarget(812), ObjectTarget(ADDRESS))


def test_the_history_lists_every_event_and_a_click_goes_there(panel: InspectorPanel, qtbot: QtBot) -> None:
    panel.show_inspection(OBJECT, HISTORY, 500, 20_000)
    assert panel.events.rows == (
        ("100", "0", "allocated", "test_kmalloc"),
        ("4\u202f000", "2", "freed", "test_kmalloc"),
        ("12\u202f410", "0", "allocated", "irq_alloc, in an interrupt"),
    )
    assert panel.history_note.text() == "3\u202fallocations and frees in what is recorded"
    panel.show_inspection(OBJECT, HistoryView(ADDRESS, HISTORY.events[:1]), 500, 20_000)
    assert panel.history_note.text() == "1\u202fallocation or free in what is recorded"
    panel.show_inspection(OBJECT, HISTORY, 500, 20_000)
    with qtbot.waitSignal(panel.seek) as sought:
        panel.history_table.clicked.emit(panel.events.index(1, 0))
    assert sought.args == [4_000]


def test_the_strip_has_a_bar_while_the_object_was_allocated(panel: InspectorPanel) -> None:
    panel.strip.resize(200, 18)
    panel.strip.show_history(HISTORY, 0, 20_000)
    image = panel.strip.grab().toImage()
    y = image.height() // 2
    allocated, free = LIGHT.object_allocated, LIGHT.object_free
    at = {
        place: image.pixelColor(round(place / 20_000 * image.width()), y).name() for place in (2_000, 8_000)
    }
    assert at == {2_000: allocated, 8_000: free}
    # Not freed again: the bar goes to the end of the run.
    assert image.pixelColor(image.width() - 2, y).name() == allocated


def test_a_history_that_is_read_says_how_far(panel: InspectorPanel) -> None:
    panel.show_inspection(OBJECT, HistoryView(ADDRESS, (), True, 0.426), 0, 100)
    assert panel.history_note.text() == "History is being read … 43 %"


def test_a_history_of_something_else_is_not_shown(panel: InspectorPanel) -> None:
    panel.show_inspection(OBJECT, HISTORY, 0, 100)
    panel.show_inspection(SLAB, HISTORY, 0, 100)
    assert panel.events.rows == ()
    assert not panel.history_table.isVisible()
    assert not panel.history.isVisible()


def test_buttons_ask_about_the_object(panel: InspectorPanel, qtbot: QtBot) -> None:
    panel.show_inspection(OBJECT, None)
    with qtbot.waitSignals([panel.history_wanted, panel.watch_wanted, panel.edit_wanted]):
        panel.history.click()
        panel.watch.click()
        panel.edit.click()
    texts: list[str] = []
    panel.break_wanted.connect(texts.append)
    menu = panel.stop.menu()
    for action in menu.actions():
        action.trigger()
    assert texts == ["object 0x32c0c0 freed", "object 0x32c0c0 allocated"]


def test_a_slab_a_lock_and_a_list_can_be_watched_as_a_whole(panel: InspectorPanel, qtbot: QtBot) -> None:
    for target, watched in (
        (SlabTarget(812), WatchedSlab(812)),
        (LockTarget(0x1400000), WatchedLock(0x1400000)),
        (ListTarget(0x1400040), WatchedList(0x1400040)),
    ):
        panel.show_inspection(Inspection("it", (), target), None)
        assert panel.change.isVisibleTo(panel)
        with qtbot.waitSignal(panel.change_wanted) as asked_for:
            panel.change.click()
        assert asked_for.args == [watched]
    panel.show_inspection(Inspection("an object", (), ObjectTarget(0x4000)), None)
    assert not panel.change.isVisibleTo(panel)


def test_it_fits_a_narrow_dock_in_both_themes(panel: InspectorPanel) -> None:
    panel.show_inspection(OBJECT, HISTORY, 0, 100)
    assert panel.minimumSizeHint().width() <= 300
    panel.set_theme(DARK)
    assert DARK.accent in panel.facts.toHtml()


def test_cpu_targets_have_no_object_buttons(panel: InspectorPanel) -> None:
    panel.show_inspection(CPU, None)
    assert CPU.target == CpuTarget(0)
    assert not panel.stop.isVisible()
