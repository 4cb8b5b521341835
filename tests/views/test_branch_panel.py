"""The tree of branches, changes and bookmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTreeWidgetItem
from pytestqt.qtbot import QtBot

from slubviz.views.branch_panel import BranchPanel
from slubviz.views.theme import DARK, LIGHT
from slubviz.views.travel_view import TravelView
from tests.views.fake_travel import BRANCHES, TRAVEL, show_docked


@pytest.fixture
def panel(qtbot: QtBot) -> Iterator[BranchPanel]:
    panel = BranchPanel(LIGHT)
    host = show_docked(qtbot, panel)
    yield panel
    host.hide()


def outline(item: QTreeWidgetItem) -> tuple[object, ...]:
    """Text and place of an item, with those below it."""
    children = [item.child(i) for i in range(item.childCount())]
    return (item.text(0), item.text(1), *(outline(child) for child in children if child is not None))


def find(panel: BranchPanel, text: str, place: str = "") -> QTreeWidgetItem:
    found = panel.tree.findItems(text, Qt.MatchFlag.MatchExactly | Qt.MatchFlag.MatchRecursive)
    return next(item for item in found if place in ("", item.text(1)))


def test_each_branch_hangs_under_the_one_it_left(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    assert panel.tree.topLevelItemCount() == 1
    top = panel.tree.topLevelItem(0)
    assert top is not None
    interrupt = "interrupt on CPU 0: irq_alloc(64)"
    assert outline(top) == (
        "main",
        "0",
        ("the refill", "5\u202f000"),
        (
            "with an interrupt",
            "12\u202f410",
            (interrupt, "12\u202f410"),
            ("in the handler", "15\u202f000"),
            ("branch 2", "30\u202f000", (interrupt, "30\u202f000")),
        ),
    )


def test_the_cursor_s_branch_is_marked(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    names = ("main", "with an interrupt", "branch 2")
    assert [find(panel, name).font(0).bold() for name in names] == [False, True, False]
    panel.show_travel(replace(TRAVEL, branch=BRANCHES[0]))
    assert [find(panel, name).font(0).bold() for name in names] == [True, False, False]


def test_activating_goes_to_a_branch_a_change_or_a_bookmark(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    went: list[object] = []
    panel.switched.connect(lambda number: went.append(number))
    panel.go.connect(lambda branch, position: went.append((branch, position)))
    for item in (
        find(panel, "branch 2"),
        find(panel, "in the handler"),
        find(panel, "interrupt on CPU 0: irq_alloc(64)", "30\u202f000"),
    ):
        panel.tree.itemActivated.emit(item, 0)
    assert went == [2, (1, 15_000), (2, 30_000)]


def test_another_name_renames_a_branch_or_a_bookmark(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    renamed: list[object] = []
    panel.renamed.connect(lambda number, name: renamed.append((number, name)))
    panel.bookmark_renamed.connect(lambda name, new: renamed.append((name, new)))
    find(panel, "branch 2").setText(0, " late ")
    find(panel, "the refill").setText(0, "refill")
    assert renamed == [(2, "late"), ("the refill", "refill")]
    find(panel, "main").setText(0, "  ")  # no name: the old one comes back
    assert find(panel, "main").text(0) == "main"
    assert len(renamed) == 2


def test_changes_have_no_names_to_edit(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    editable = Qt.ItemFlag.ItemIsEditable
    assert not find(panel, "interrupt on CPU 0: irq_alloc(64)").flags() & editable
    assert find(panel, "the refill").flags() & editable


def test_compare_is_for_another_branch(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    assert not panel.compare.isEnabled()
    panel.tree.setCurrentItem(find(panel, "with an interrupt"))
    assert not panel.compare.isEnabled()
    panel.tree.setCurrentItem(find(panel, "branch 2"))
    compared: list[int] = []
    panel.compared.connect(compared.append)
    panel.compare.click()
    assert compared == [2]


def test_only_a_bookmark_can_be_removed(panel: BranchPanel, qtbot: QtBot) -> None:
    panel.show_travel(TRAVEL)
    removed: list[str] = []
    panel.bookmark_removed.connect(removed.append)
    panel.tree.setFocus()
    panel.tree.setCurrentItem(find(panel, "main"))
    assert not panel.remove.isEnabled()
    qtbot.keyClick(panel.tree, Qt.Key.Key_Delete)
    panel.tree.setCurrentItem(find(panel, "the refill"))
    panel.remove.click()
    qtbot.keyClick(panel.tree, Qt.Key.Key_Delete)
    assert removed == ["the refill", "the refill"]


def test_a_note_is_the_bookmark_s_tooltip(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    assert find(panel, "the refill").toolTip(0) == "the first slow path"


def test_what_is_chosen_stays_chosen_while_the_run_grows(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    panel.tree.setCurrentItem(find(panel, "in the handler"))
    grown = (BRANCHES[0], replace(BRANCHES[1], end=90_000), BRANCHES[2])
    panel.show_travel(replace(TRAVEL, branches=grown, branch=grown[1]))
    assert [item.text(0) for item in panel.tree.selectedItems()] == ["in the handler"]


def test_what_is_folded_stays_folded(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    find(panel, "with an interrupt").setExpanded(False)
    panel.show_travel(replace(TRAVEL, bookmarks=TRAVEL.bookmarks[:1]))
    assert not find(panel, "with an interrupt").isExpanded()
    assert find(panel, "main").isExpanded()


def test_without_a_run_it_says_so(panel: BranchPanel) -> None:
    panel.show_travel(TravelView())
    assert panel.empty.isVisible()
    assert not panel.tree.isVisible()
    assert not panel.add.isEnabled()
    panel.show_travel(TRAVEL)
    assert panel.tree.isVisible()
    assert panel.add.isEnabled()


def test_it_fits_a_narrow_dock_and_follows_the_theme(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    assert panel.minimumSizeHint().width() <= 300
    panel.set_theme(DARK)
    assert find(panel, "with an interrupt").foreground(0).color().name() == DARK.accent


def test_a_name_that_is_refused_goes_back_to_what_it_was(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    find(panel, "the refill").setText(0, "in the handler")
    panel.show_travel(TRAVEL)
    assert find(panel, "the refill").text(1) == "5\u202f000"


def test_the_tooltip_tells_how_far_a_branch_is_recorded(panel: BranchPanel) -> None:
    panel.show_travel(TRAVEL)
    item = find(panel, "main")
    panel.show_travel(replace(TRAVEL, branches=(replace(BRANCHES[0], end=2_000_000), *BRANCHES[1:])))
    assert find(panel, "main") is item  # not filled anew
    assert item.toolTip(0) == "main\nrecorded to micro-op 2\u202f000\u202f000"
