"""The watch list: expressions over the kernel's variables with their values at the cursor.

A row is an expression and its value.  A value that changed since the last look has a coloured ground, in the
chosen row too.  *Previous* and *Next* go to where the chosen row gets another value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QFontDatabase, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from slubviz.views import numbers
from slubviz.views.panel_parts import button_row, empty_note, panel_layout, small_button
from slubviz.views.theme import Theme

if TYPE_CHECKING:
    from slubviz.model.travel.watch import WatchValue

_HINT = "an expression, e.g. page(812).inuse"
_EMPTY = "Nothing is watched. Type an expression above and press Return."
_CHANGED = Qt.ItemDataRole.UserRole


class _ValueDelegate(QStyledItemDelegate):
    # A changed value keeps its ground when its row is chosen: what changed matters more than what is chosen.

    def initStyleOption(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        if index.data(_CHANGED):
            option.state &= ~QStyle.StateFlag.State_Selected


class WatchPanel(QWidget):
    """See the module."""

    changed = Signal(tuple)  # all texts: the list was edited
    chosen = Signal(str)  # the expression that "next change" means
    moved = Signal(int)  # to its next (+1) or previous (-1) change

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._values: tuple[WatchValue, ...] = ()
        self._watched = ""
        self._filling = False
        self._asked = ""  # stays in the field until it is in the list
        self._waits = False
        self.field = QLineEdit()
        self.field.setPlaceholderText(_HINT)
        self.field.setAccessibleName("New watch expression")
        self.field.returnPressed.connect(self._add)
        self.table = QTableWidget(0, 2)
        self.empty = empty_note(_EMPTY)
        self.back = small_button("‹ Previous", "")
        self.next = small_button("Next ›", "")
        self.remove = small_button("Remove", "Forget the chosen one (Del)")
        self._build()
        self.show_watches((), "")

    def _build(self) -> None:
        table = self.table
        table.setHorizontalHeaderLabels(["Expression", "Value"])
        table.setAccessibleName("Watch list")
        table.setObjectName("watches")
        table.verticalHeader().hide()
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + 10)
        table.setItemDelegateForColumn(1, _ValueDelegate(table))
        table.horizontalHeader().setDefaultAlignment(
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        )
        table.horizontalHeader().setHighlightSections(False)
        table.setFrameShape(QFrame.Shape.NoFrame)
        table.setShowGrid(False)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        table.horizontalHeader().setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        table.itemChanged.connect(self._edited)
        table.itemSelectionChanged.connect(self._selected)
        self.back.clicked.connect(lambda: self.moved.emit(-1))
        self.next.clicked.connect(lambda: self.moved.emit(+1))
        self.remove.clicked.connect(self._remove)
        QShortcut(
            QKeySequence(Qt.Key.Key_Delete), table, self._remove, context=Qt.ShortcutContext.WidgetShortcut
        )
        layout = panel_layout(self)
        layout.addWidget(self.field)
        layout.addWidget(self.empty, 1)
        layout.addWidget(table, 1)
        layout.addLayout(button_row((self.back, self.next), (self.remove,)))

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        values, self._values = self._values, ()
        self.show_watches(values, self._watched)

    def show_watches(self, values: Sequence[WatchValue], watched: str) -> None:
        """Show expressions with their values; ``watched`` is the chosen one's text."""
        new = tuple(values)
        self._clear_accepted(new)
        self.empty.setVisible(not new)
        self.table.setVisible(bool(new))
        if new == self._values and watched == self._watched and self.table.rowCount() == len(new):
            self._enable()
            return
        self._values, self._watched = new, watched
        self._filling = True
        self.table.setRowCount(len(new))
        for row, value in enumerate(new):
            self._fill(row, value)
            if value.item == watched:
                self.table.selectRow(row)
        self._filling = False
        self._enable()

    def _fill(self, row: int, value: WatchValue) -> None:
        expression = QTableWidgetItem(value.item)
        expression.setToolTip("Double-click to edit")
        text = numbers.thin(value.text)
        shown = QTableWidgetItem(value.error or text)
        shown.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
        shown.setToolTip(value.error or "  ".join(part for part in (text, value.type) if part))
        if value.error:
            shown.setForeground(self._theme.color("text_muted"))
        elif value.changed:
            shown.setData(_CHANGED, True)
            shown.setBackground(self._theme.color("value_changed"))
            shown.setForeground(self._theme.color("text"))
        for item in (expression, shown):
            item.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.table.setItem(row, 0, expression)
        self.table.setItem(row, 1, shown)

    def _enable(self) -> None:
        row = self._row()
        has_word = row is not None and self._values[row].address is not None
        for button in (self.back, self.next):
            button.setEnabled(has_word)
            button.setToolTip(
                "Where it gets another value" if has_word else "Choose an expression that is a word in memory"
            )
        self.remove.setEnabled(row is not None)

    def _row(self) -> int | None:
        rows = self.table.selectionModel().selectedRows()
        return rows[0].row() if rows and rows[0].row() < len(self._values) else None

    def _texts(self) -> list[str]:
        return [value.item for value in self._values]

    def _add(self) -> None:
        text = self.field.text().strip()
        if text and not (self._waits and text == self._asked):  # else Return was pressed twice
            self._asked, self._waits = text, True
            self.changed.emit((*self._texts(), text))

    def _clear_accepted(self, values: Sequence[WatchValue]) -> None:
        # A text that is refused stays, so that it can be mended.
        self._waits = False
        if self._asked and any(value.item == self._asked for value in values):
            if self.field.text().strip() == self._asked:
                self.field.clear()
            self._asked = ""

    def _remove(self) -> None:
        row = self._row()
        if row is not None:
            texts = self._texts()
            del texts[row]
            self.changed.emit(tuple(texts))

    def _edited(self, item: QTableWidgetItem) -> None:
        if self._filling or item.column() != 0:
            return
        texts = self._texts()
        text = item.text().strip()
        if text and text != texts[item.row()]:
            texts[item.row()] = text
            self.changed.emit(tuple(texts))

    def _selected(self) -> None:
        row = self._row()
        if not self._filling and row is not None and self._values[row].item != self._watched:
            self._watched = self._values[row].item
            self.chosen.emit(self._watched)
        self._enable()
