"""The list of breakpoints: boxes, texts, completion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QListWidgetItem, QStyle, QStyleOptionViewItem
from pytestqt.qtbot import QtBot

from slubviz.views.breakpoint_panel import BreakpointPanel
from slubviz.views.theme import DARK, LIGHT, Theme, palette_of, style_sheet_of
from tests.views.fake_travel import BREAKPOINTS, PROGRAM, show_docked


@pytest.fixture
def panel(qtbot: QtBot) -> Iterator[BreakpointPanel]:
    panel = BreakpointPanel(LIGHT)
    host = show_docked(qtbot, panel)
    yield panel
    host.hide()


def item(panel: BreakpointPanel, row: int) -> QListWidgetItem:
    found = panel.list.item(row)
    assert found is not None
    return found


def test_texts_and_boxes_are_those_of_the_breakpoints(panel: BreakpointPanel) -> None:
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    rows = [item(panel, row) for row in range(panel.list.count())]
    assert [row.text() for row in rows] == [
        "function __slab_alloc",
        "slub.py:120 if cpu == 2",
        "counter FREE_SLOWPATH",
    ]
    on = Qt.CheckState.Checked
    assert [row.checkState() is on for row in rows] == [True, True, False]


def test_a_box_switches_its_own_breakpoint(panel: BreakpointPanel) -> None:
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    switched: list[tuple[int, bool]] = []
    panel.switched.connect(lambda number, on: switched.append((number, on)))
    item(panel, 1).setCheckState(Qt.CheckState.Unchecked)
    item(panel, 2).setCheckState(Qt.CheckState.Checked)
    assert switched == [(4, False), (7, True)]


def test_the_space_bar_works_a_box(panel: BreakpointPanel, qtbot: QtBot) -> None:
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    panel.list.setCurrentRow(0)
    panel.list.setFocus()
    with qtbot.waitSignal(panel.switched) as switched:
        qtbot.keyClick(panel.list, Qt.Key.Key_Space)
    assert switched.args == [1, False]


def test_editing_asks_for_another_text(panel: BreakpointPanel) -> None:
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    edited: list[tuple[int, str]] = []
    panel.edited.connect(lambda number, text: edited.append((number, text)))
    item(panel, 1).setText("slub.py:121 ")
    assert edited == [(4, "slub.py:121")]
    item(panel, 0).setText("  ")  # nothing: as it was
    assert item(panel, 0).text() == "function __slab_alloc"
    assert len(edited) == 1


def test_return_adds_what_was_typed(panel: BreakpointPanel, qtbot: QtBot) -> None:
    added: list[str] = []
    panel.added.connect(added.append)
    panel.field.setText(" lock contended ")
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)
    assert added == ["lock contended"]


def test_a_refused_text_stays_until_it_is_in_the_list(panel: BreakpointPanel, qtbot: QtBot) -> None:
    panel.show_breakpoints(BREAKPOINTS[:1], PROGRAM)
    added: list[str] = []
    panel.added.connect(added.append)
    panel.field.setText("lock contendet")
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)
    panel.show_breakpoints(BREAKPOINTS[:1], PROGRAM)  # refused
    assert panel.field.text() == "lock contendet"
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)  # it may be tried again
    panel.show_breakpoints(BREAKPOINTS[:1], PROGRAM)
    panel.field.setText("lock contended")
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)
    assert added == ["lock contendet", "lock contendet", "lock contended"]
    assert panel.field.text() == "lock contended"
    panel.show_breakpoints(BREAKPOINTS[:2], PROGRAM)
    assert panel.field.text() == ""
    panel.field.setText("function")  # what is typed meanwhile is nobody's answer
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    assert panel.field.text() == "function"


def test_remove_and_clear(panel: BreakpointPanel, qtbot: QtBot) -> None:
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    removed: list[object] = []
    panel.removed.connect(removed.append)
    panel.list.setCurrentRow(1)
    panel.remove.click()
    panel.list.setFocus()
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    panel.clear.click()
    assert removed == [4, 4, None]


def test_names_of_the_program_complete_what_is_typed(panel: BreakpointPanel) -> None:
    panel.show_breakpoints((), PROGRAM)
    completer = panel.field.completer()
    assert completer is not None
    completer.setCompletionPrefix("KMAL")
    assert completer.currentCompletion() == "function kmalloc"
    completer.setCompletionPrefix("fastpath")
    assert completer.currentCompletion() == "counter ALLOC_FASTPATH"


def test_there_is_a_next_stop_only_if_one_is_on(panel: BreakpointPanel) -> None:
    panel.show_breakpoints([replace(one, enabled=False) for one in BREAKPOINTS], PROGRAM)
    assert not panel.next.isEnabled()
    assert not panel.back.isEnabled()
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    moves: list[int] = []
    panel.moved.connect(moves.append)
    panel.back.click()
    panel.next.click()
    assert moves == [-1, +1]


def test_the_chosen_row_stays_when_the_list_changes(panel: BreakpointPanel) -> None:
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    panel.list.setCurrentRow(2)
    panel.show_breakpoints((*BREAKPOINTS[:2], replace(BREAKPOINTS[2], enabled=True)), PROGRAM)
    assert panel.list.currentRow() == 2
    panel.show_breakpoints(BREAKPOINTS[:1], PROGRAM)
    assert panel.list.currentRow() == 0


def test_an_empty_list_says_how_to_get_one(panel: BreakpointPanel) -> None:
    assert panel.empty.isVisible()
    assert not panel.list.isVisible()
    assert not panel.clear.isEnabled()
    assert not panel.remove.isEnabled()
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    assert panel.list.isVisible()
    assert not panel.empty.isVisible()


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_boxes_can_be_seen_on_and_off(panel: BreakpointPanel, theme: Theme) -> None:
    panel.setPalette(palette_of(theme))
    panel.setStyleSheet(style_sheet_of(theme))
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    panel.list.clearSelection()
    image = panel.list.viewport().grab().toImage()
    mark = QColor(theme.breakpoint)
    centres, rims = [], []
    for row in range(3):
        box = _box(panel, row)
        colours = [image.pixelColor(x, box.center().y()) for x in range(box.left(), box.right() + 1)]
        centres.append(image.pixelColor(box.center()) == mark)
        rims.append(mark in colours)
    assert centres == [True, True, False]
    assert rims == [True, True, True]


def _box(panel: BreakpointPanel, row: int) -> QRect:
    view = panel.list
    option = QStyleOptionViewItem()
    option.initFrom(view)
    option.rect = view.visualItemRect(item(panel, row))  # type: ignore[attr-defined]
    option.features = QStyleOptionViewItem.ViewItemFeature.HasCheckIndicator  # type: ignore[attr-defined]
    element = QStyle.SubElement.SE_ItemViewItemCheckIndicator
    return view.style().subElementRect(element, option, view)


def test_it_fits_a_narrow_dock(panel: BreakpointPanel) -> None:
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    assert panel.minimumSizeHint().width() <= 300


def test_a_text_that_is_refused_goes_back_to_what_it_was(panel: BreakpointPanel) -> None:
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    item(panel, 1).setText("nowhere.py:1")
    panel.show_breakpoints(BREAKPOINTS, PROGRAM)
    assert item(panel, 1).text() == "slub.py:120 if cpu == 2"
