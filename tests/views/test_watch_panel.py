"""The watch list: values, what changed, editing the list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTableWidgetItem
from pytestqt.qtbot import QtBot

from slubviz.views.theme import DARK, LIGHT, Theme, style_sheet_of
from slubviz.views.watch_panel import WatchPanel
from tests.views.fake_travel import WATCHES, show_docked


@pytest.fixture
def panel(qtbot: QtBot) -> Iterator[WatchPanel]:
    panel = WatchPanel(LIGHT)
    host = show_docked(qtbot, panel)
    yield panel
    host.hide()


def cell(panel: WatchPanel, row: int, column: int) -> QTableWidgetItem:
    item = panel.table.item(row, column)
    assert item is not None
    return item


def lists(panel: WatchPanel) -> list[tuple[str, ...]]:
    """The lists that the panel asks for, from now on."""
    wanted: list[tuple[str, ...]] = []
    panel.changed.connect(wanted.append)
    return wanted


def test_values_and_errors_are_shown(panel: WatchPanel) -> None:
    panel.show_watches(WATCHES, "")
    shown = [(cell(panel, row, 0).text(), cell(panel, row, 1).text()) for row in range(3)]
    assert shown == [
        ("page(812).inuse", "3"),
        ("cpu0.freelist", "object 4 of slab 812"),
        ("foo.bar", "there is no variable foo"),
    ]
    assert cell(panel, 2, 1).foreground().color().name() == LIGHT.text_muted


def test_numbers_are_grouped_as_everywhere_in_the_window(panel: WatchPanel) -> None:
    panel.show_watches((replace(WATCHES[0], text="{ inuse = 36,908, frozen = 1 }", value=36908),), "")
    assert cell(panel, 0, 1).text() == "{ inuse = 36\u202f908, frozen = 1 }"
    assert "36\u202f908" in cell(panel, 0, 1).toolTip()


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_a_changed_value_has_its_ground_also_in_the_chosen_row(panel: WatchPanel, theme: Theme) -> None:
    panel.setStyleSheet(style_sheet_of(theme))
    panel.set_theme(theme)
    panel.show_watches(WATCHES, "page(812).inuse")
    assert panel.table.selectionModel().selectedRows()[0].row() == 0
    image = panel.table.viewport().grab().toImage()

    def ground(row: int, column: int) -> str:
        rect = panel.table.visualItemRect(cell(panel, row, column))
        ratio = image.devicePixelRatio()
        x, y = rect.right() - 4, rect.center().y()
        return image.pixelColor(round(x * ratio), round(y * ratio)).name()

    assert ground(0, 1) == theme.value_changed
    assert ground(1, 1) == theme.panel
    assert ground(0, 0) == theme.notice_surface
    assert len({ground(0, 0), ground(0, 1), ground(1, 0)}) == 3


def test_return_adds_an_expression_at_the_end(panel: WatchPanel, qtbot: QtBot) -> None:
    panel.show_watches(WATCHES[:1], "")
    wanted = lists(panel)
    panel.field.setText(" x ")
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)  # twice is not meant
    assert wanted == [("page(812).inuse", "x")]
    panel.show_watches(WATCHES[:1], "")  # of before
    assert panel.field.text().strip() == "x"
    panel.show_watches((WATCHES[0], replace(WATCHES[1], item="x")), "")
    assert panel.field.text() == ""


def test_remove_takes_the_chosen_one_and_delete_does_the_same(panel: WatchPanel, qtbot: QtBot) -> None:
    panel.show_watches(WATCHES, "")
    wanted = lists(panel)
    panel.table.selectRow(1)
    panel.remove.click()
    assert wanted == [("page(812).inuse", "foo.bar")]
    panel.table.setFocus()
    qtbot.keyClick(panel.table, Qt.Key.Key_Delete)
    assert wanted[1:] == [("page(812).inuse", "foo.bar")]


def test_editing_an_expression_replaces_it_in_its_place(panel: WatchPanel) -> None:
    panel.show_watches(WATCHES, "")
    wanted = lists(panel)
    cell(panel, 1, 0).setText("cpu1.freelist")
    assert wanted == [("page(812).inuse", "cpu1.freelist", "foo.bar")]


def test_showing_values_asks_for_nothing(panel: WatchPanel) -> None:
    wanted, chosen = lists(panel), []
    panel.chosen.connect(chosen.append)
    panel.show_watches(WATCHES, "cpu0.freelist")
    panel.show_watches((replace(WATCHES[0], text="4"), *WATCHES[1:]), "cpu0.freelist")
    assert (wanted, chosen) == ([], [])
    assert cell(panel, 0, 1).text() == "4"


def test_only_a_word_in_memory_has_a_next_change(panel: WatchPanel) -> None:
    panel.show_watches(WATCHES, "")
    chosen: list[str] = []
    panel.chosen.connect(chosen.append)
    panel.table.selectRow(2)
    assert not panel.next.isEnabled()
    panel.table.selectRow(1)
    assert panel.next.isEnabled()
    assert panel.back.isEnabled()
    assert chosen == ["foo.bar", "cpu0.freelist"]
    moves: list[int] = []
    panel.moved.connect(moves.append)
    panel.back.click()
    panel.next.click()
    assert moves == [-1, +1]


def test_an_empty_list_says_what_to_do(panel: WatchPanel) -> None:
    assert panel.empty.isVisible()
    assert not panel.table.isVisible()
    assert not panel.remove.isEnabled()
    panel.show_watches(WATCHES, "")
    assert panel.table.isVisible()
    assert not panel.empty.isVisible()
    panel.show_watches((), "")
    assert panel.empty.isVisible()
    assert not panel.table.isVisible()


def test_it_fits_a_narrow_dock(panel: WatchPanel) -> None:
    panel.show_watches(WATCHES, "")
    assert panel.minimumSizeHint().width() <= 300
