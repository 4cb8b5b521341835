"""Breakpoints: a list with a box each, and a line to type new ones.

A breakpoint is written as text: ``slub.py:120``, ``function __slab_alloc``, ``counter FREE_SLOWPATH``,
``word 0x1234``, ``slab 1023 full``, ``lock contended``, ``object 0x4000 freed``, each with ``if cpu == 2 and
depth >= 1`` behind it if wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QStringListModel, Qt, Signal
from PySide6.QtGui import QFontDatabase, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QCompleter,
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QWidget,
)

from slubviz.views.panel_parts import button_row, empty_note, panel_layout, small_button
from slubviz.views.theme import Theme

if TYPE_CHECKING:
    from slubviz.model.travel.breakpoints import Breakpoint
    from slubviz.views.travel_view import ProgramView

_HINT = "slub.py:120, function, counter, word, slab, lock, object …"
_FORMS = (
    "lock contended",
    "slab any frozen",
    "slab any full",
    "slab any partial",
    "slab any empty",
)


class BreakpointPanel(QWidget):
    """See the module."""

    added = Signal(str)  # its text
    edited = Signal(int, str)  # number, new text
    switched = Signal(int, bool)  # number, on
    removed = Signal(object)  # number, None for all
    moved = Signal(int)  # to the next (+1) or previous (-1) place where one stops

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._breakpoints: tuple[Breakpoint, ...] = ()
        self._program: ProgramView | None = None
        self._filling = False
        self._refused = False
        self._asked = ""  # stays in the field until it is in the list
        self._waits = False
        self.field = QLineEdit()
        self.field.setPlaceholderText(_HINT)
        self.field.setAccessibleName("New breakpoint")
        self.field.returnPressed.connect(self._add)
        self._words = QStringListModel(list(_FORMS), self)
        completer = QCompleter(self._words, self)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        self.field.setCompleter(completer)
        self.list = QListWidget()
        self.empty = empty_note("No breakpoints. Type one above, or click beside a line of source.")
        self.back = small_button("‹ Previous", "Back to the last place where one stops")
        self.next = small_button("Next ›", "On to the next place where one stops")
        self.remove = small_button("Remove", "Forget the chosen one (Del)")
        self.clear = small_button("Clear", "Forget all")
        self._build()
        self.show_breakpoints((), None)

    def _build(self) -> None:
        self.list.setAccessibleName("Breakpoints")
        self.list.setObjectName("breakpoints")
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.list.setWordWrap(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.itemChanged.connect(self._changed)
        self.list.itemSelectionChanged.connect(self._enable)
        self.back.clicked.connect(lambda: self.moved.emit(-1))
        self.next.clicked.connect(lambda: self.moved.emit(+1))
        self.remove.clicked.connect(self._remove)
        self.clear.clicked.connect(lambda: self.removed.emit(None))
        QShortcut(
            QKeySequence(Qt.Key.Key_Delete),
            self.list,
            self._remove,
            context=Qt.ShortcutContext.WidgetShortcut,
        )
        layout = panel_layout(self)
        layout.addWidget(self.field)
        layout.addWidget(self.empty, 1)
        layout.addWidget(self.list, 1)
        layout.addLayout(button_row((self.back, self.next), (self.remove, self.clear)))

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme

    def show_breakpoints(self, breakpoints: Sequence[Breakpoint], program: ProgramView | None) -> None:
        """Show breakpoints; the program's names complete what is typed."""
        if program is not None and program is not self._program:
            self._program = program
            names = [f"function {name}" for name in sorted(program.functions)]
            self._words.setStringList([*_FORMS, *names, *(f"counter {name}" for name in program.counters)])
        new = tuple(breakpoints)
        self._clear_accepted(len(new))
        if new != self._breakpoints or self.list.count() != len(new) or self._refused:
            self._refused = False
            self._breakpoints = new
            self._refill()
        self.empty.setVisible(not new)
        self.list.setVisible(bool(new))
        self._enable()

    def _refill(self) -> None:
        self._filling = True
        row = self.list.currentRow()
        self.list.clear()
        for one in self._breakpoints:
            item = QListWidgetItem(one.text())
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsEditable)
            item.setCheckState(Qt.CheckState.Checked if one.enabled else Qt.CheckState.Unchecked)
            item.setToolTip(f"{one.text()}\nDouble-click to edit; the box turns it on and off")
            self.list.addItem(item)
        if self._breakpoints:
            self.list.setCurrentRow(min(max(row, 0), len(self._breakpoints) - 1))
        self._filling = False

    def _enable(self) -> None:
        some = bool(self._breakpoints)
        for button in (self.back, self.next):
            button.setEnabled(any(one.enabled for one in self._breakpoints))
        self.clear.setEnabled(some)
        self.remove.setEnabled(some and self.list.currentRow() >= 0)

    def _add(self) -> None:
        text = self.field.text().strip()
        if text and not (self._waits and text == self._asked):  # else Return was pressed twice
            self._asked, self._waits = text, True
            self.added.emit(text)

    def _clear_accepted(self, count: int) -> None:
        # A text that is refused stays, so that it can be mended.
        self._waits = False
        if self._asked and count > len(self._breakpoints):
            if self.field.text().strip() == self._asked:
                self.field.clear()
            self._asked = ""

    def _remove(self) -> None:
        row = self.list.currentRow()
        if 0 <= row < len(self._breakpoints):
            self.removed.emit(self._breakpoints[row].number)

    def _changed(self, item: QListWidgetItem) -> None:
        row = self.list.row(item)
        if self._filling or not 0 <= row < len(self._breakpoints):
            return
        one = self._breakpoints[row]
        enabled = item.checkState() is Qt.CheckState.Checked
        if enabled != one.enabled:
            self.switched.emit(one.number, enabled)
        elif item.text().strip() and item.text() != one.text():
            self._refused = True  # perhaps: then the next update shows the old text
            self.edited.emit(one.number, item.text().strip())
        else:
            self._refill()
