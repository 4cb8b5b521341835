"""Branches and bookmarks of a recording, as one tree: each branch under the one that it left.

Double-click or Return goes to a branch, a change or a bookmark; F2 renames.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QTreeWidget,
    QTreeWidgetItem,
    QTreeWidgetItemIterator,
    QWidget,
)

from slubviz.views import numbers
from slubviz.views.icons import icon
from slubviz.views.panel_parts import button_row, empty_note, panel_layout, small_button
from slubviz.views.theme import Theme
from slubviz.views.travel_view import TravelView

if TYPE_CHECKING:
    from slubviz.model.travel.branches import Branch

_KIND, _NUMBER, _PLACE = (Qt.ItemDataRole.UserRole + i for i in range(3))
_BRANCH, _CHANGE, _BOOKMARK = "branch", "change", "bookmark"


class BranchPanel(QWidget):
    """See the module."""

    switched = Signal(int)  # branch
    renamed = Signal(int, str)  # branch, name
    go = Signal(int, int)  # branch, position
    bookmark_renamed = Signal(str, str)  # name, new name
    bookmark_removed = Signal(str)  # name
    bookmark_wanted = Signal()  # at the cursor
    compared = Signal(int)  # with this branch

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: tuple[object, ...] | None = None
        self._travel = TravelView()
        self._filling = False
        self._items: dict[int, QTreeWidgetItem] = {}  # of the branches
        self.tree = QTreeWidget()
        self.empty = empty_note("No run yet. Its branches and bookmarks are listed here.")
        self.add = small_button("Bookmark…", "Name the cursor's place")
        self.compare = small_button("Compare", "Show the cursor's branch and the chosen one side by side")
        self.remove = small_button("Remove", "Forget the chosen bookmark (Del)")
        self._build()

    def _build(self) -> None:
        tree = self.tree
        tree.setAccessibleName("Branches and bookmarks")
        tree.setObjectName("branches")
        tree.setIndentation(14)
        tree.setHeaderLabels(["Branch, change, bookmark", "Micro-op"])
        tree.setFrameShape(QFrame.Shape.NoFrame)
        tree.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        tree.header().setStretchLastSection(False)
        tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        tree.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        tree.itemActivated.connect(self._activated)
        tree.itemChanged.connect(self._changed)
        tree.itemSelectionChanged.connect(self._enable)
        self.add.clicked.connect(self.bookmark_wanted)
        self.compare.clicked.connect(self._compare)
        self.remove.clicked.connect(self._remove)
        QShortcut(
            QKeySequence(Qt.Key.Key_Delete), tree, self._remove, context=Qt.ShortcutContext.WidgetShortcut
        )
        layout = panel_layout(self)
        layout.addWidget(self.empty, 1)
        layout.addWidget(tree, 1)
        layout.addLayout(button_row((self.add, self.compare), (self.remove,)))
        self.show_travel(TravelView())

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self._shown = None
        self.show_travel(self._travel)

    def show_travel(self, travel: TravelView) -> None:
        """Show the branches, changes and bookmarks of a recording."""
        number = travel.branch.number if travel.branch is not None else -1
        # Not the ends: they grow while a run is recorded.
        content = (tuple(replace(one, end=0) for one in travel.branches), travel.bookmarks, number)
        self._travel = travel
        self.empty.setVisible(not travel.exists)
        self.tree.setVisible(travel.exists)
        if content != self._shown:
            self._shown = content
            self._refill(number)
        self._filling = True
        for branch in travel.branches:
            self._items[branch.number].setToolTip(0, _branch_tip(branch, branch.number == number))
        self._filling = False
        self._enable()

    def _refill(self, current: int) -> None:
        self._filling = True
        folded = {number for number, item in self._items.items() if not item.isExpanded()}
        chosen = self._item()
        kept = _key(chosen) if chosen is not None else None
        self.tree.clear()
        items = self._items = {}
        for branch in self._travel.branches:
            item = self._branch_item(branch, branch.number == current)
            items[branch.number] = item
            if branch.parent is None:
                self.tree.addTopLevelItem(item)
            else:
                items[branch.parent].addChild(item)
            for mark in self._travel.bookmarks:
                if mark.branch == branch.number:
                    row = self._row(mark.name, mark.position, mark.note or mark.name)
                    row.setData(0, _KIND, _BOOKMARK)
                    row.setData(0, _NUMBER, branch.number)
                    row.setData(0, _PLACE, mark.name)
                    row.setIcon(0, icon("bookmark", self._theme))
                    row.setFlags(row.flags() | Qt.ItemFlag.ItemIsEditable)
                    item.addChild(row)
        self.tree.expandAll()
        for number in folded & items.keys():
            items[number].setExpanded(False)
        for item in _all_items(self.tree):
            if _key(item) == kept:
                self.tree.setCurrentItem(item)
        self._filling = False

    def _branch_item(self, branch: Branch, current: bool) -> QTreeWidgetItem:
        item = self._row(branch.name, branch.fork_position, "")
        item.setData(0, _KIND, _BRANCH)
        item.setData(0, _NUMBER, branch.number)
        item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
        item.setIcon(0, icon("branch", self._theme))
        if current:
            font = QFont(self.tree.font())
            font.setBold(True)
            item.setFont(0, font)
            item.setForeground(0, self._theme.color("accent"))
        for change in branch.changes:
            row = self._row(change.what.text(), change.position, change.what.text())
            row.setForeground(0, self._theme.color("text_muted"))
            row.setData(0, _KIND, _CHANGE)
            row.setData(0, _NUMBER, branch.number)
            item.addChild(row)
        return item

    def _row(self, text: str, position: int, tip: str) -> QTreeWidgetItem:
        row = QTreeWidgetItem([text, numbers.integer(position)])
        row.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row.setToolTip(0, tip)
        row.setData(1, _PLACE, position)
        return row

    def _item(self) -> QTreeWidgetItem | None:
        chosen = self.tree.selectedItems()
        return chosen[0] if chosen else None

    def _enable(self) -> None:
        item = self._item()
        kind = item.data(0, _KIND) if item is not None else ""
        current = self._travel.branch.number if self._travel.branch is not None else -1
        self.add.setEnabled(self._travel.exists)
        self.remove.setEnabled(kind == _BOOKMARK)
        self.compare.setEnabled(item is not None and item.data(0, _NUMBER) != current)

    def _activated(self, item: QTreeWidgetItem) -> None:
        if item.data(0, _KIND) == _BRANCH:
            self.switched.emit(item.data(0, _NUMBER))
        else:
            self.go.emit(item.data(0, _NUMBER), item.data(1, _PLACE))

    def _changed(self, item: QTreeWidgetItem, column: int) -> None:
        if self._filling or column != 0:
            return
        text = item.text(0).strip()
        if not text:
            self._shown = None
            self.show_travel(self._travel)
            return
        self._shown = None  # if the name is refused, the next update shows the old one
        if item.data(0, _KIND) == _BRANCH:
            self.renamed.emit(item.data(0, _NUMBER), text)
        else:
            self.bookmark_renamed.emit(item.data(0, _PLACE), text)

    def _compare(self) -> None:
        item = self._item()
        if item is not None:
            self.compared.emit(item.data(0, _NUMBER))

    def _remove(self) -> None:
        item = self._item()
        if item is not None and item.data(0, _KIND) == _BOOKMARK:
            self.bookmark_removed.emit(item.data(0, _PLACE))


def _branch_tip(branch: Branch, current: bool) -> str:
    here = ": the cursor is here" if current else ""
    return f"{branch.name}{here}\nrecorded to micro-op {numbers.integer(branch.end)}"


def _key(item: QTreeWidgetItem) -> tuple[object, ...]:
    # What an item is about, also after the tree was filled anew.
    return (item.data(0, _KIND), item.data(0, _NUMBER), item.data(1, _PLACE), item.text(0))


def _all_items(tree: QTreeWidget) -> Iterator[QTreeWidgetItem]:
    walk = QTreeWidgetItemIterator(tree)
    while (item := walk.value()) is not None:
        yield item
        walk += 1
