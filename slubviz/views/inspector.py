"""Everything known about one thing: an object, a slab, a lock, a list, a CPU; and an object's history.

A value that names something else is a link.  *Back* and *Forward* go through what was inspected.  The history
lists every allocation and free of the object; a click goes to that moment.
"""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenu,
    QTextBrowser,
    QToolButton,
    QWidget,
)

from slubviz.views import numbers
from slubviz.views.panel_parts import button_row, panel_layout, small_button
from slubviz.views.tables import TableView, TextTable
from slubviz.views.theme import Theme

if TYPE_CHECKING:
    from slubviz.model.travel.inspector import Inspection
    from slubviz.views.travel_view import HistoryView

_HINT = "812/3 (an object), 812 (a slab), cpu 0, a lock"
_EMPTY = "Click an object or slab in the map, or type what to look at above."


class HistoryStrip(QWidget):
    """When the object was allocated over the run: a bar while it was, a gap while it was free."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._spans: list[tuple[float, float]] = []
        self._cursor = 0.0
        self.setFixedHeight(18)
        self.setAccessibleName("History of the object over the run")

    def sizeHint(self) -> QSize:
        return QSize(200, 18)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.update()

    def show_history(self, history: HistoryView | None, position: int, end: int) -> None:
        """Show the spans of a history over 0 to ``end`` micro-ops."""
        whole = max(end, 1)
        spans: list[tuple[float, float]] = []
        since: int | None = None
        for event in history.events if history else ():
            if event.allocated:
                since = event.position
            elif since is not None:
                spans.append((since / whole, event.position / whole))
                since = None
        if since is not None:
            spans.append((since / whole, 1.0))
        self._spans, self._cursor = spans, position / whole
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("object_free"))
        painter.drawRect(QRectF(0, 5, self.width(), 8))
        painter.setBrush(self._theme.color("object_allocated"))
        for first, last in self._spans:
            left = first * self.width()
            painter.drawRect(QRectF(left, 5, max((last - first) * self.width(), 1.5), 8))
        painter.setBrush(self._theme.color("text"))
        painter.drawRect(QRectF(min(self._cursor * self.width(), self.width() - 2), 0, 2, 18))
        painter.end()


class InspectorPanel(QWidget):
    """See the module."""

    inspected = Signal(object)  # a Target, or a text that names one
    seek = Signal(int)  # position
    history_wanted = Signal(int)  # address of the object
    watch_wanted = Signal(str)  # expression
    break_wanted = Signal(str)  # text of a breakpoint
    edit_wanted = Signal(int)  # address
    change_wanted = Signal(object)  # a Watched: go to its next change

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._inspection: Inspection | None = None
        self._history: HistoryView | None = None
        self._past: list[object] = []
        self._future: list[object] = []
        self._stepping = False
        self.field = QLineEdit()
        self.field.setPlaceholderText(_HINT)
        self.field.setAccessibleName("What to inspect")
        self.field.returnPressed.connect(self._typed)
        self.back, self.forward = QToolButton(), QToolButton()
        self.facts = QTextBrowser()
        self.strip = HistoryStrip(theme)
        self.events = TextTable(("Micro-op", "CPU", "What", "By"), left_columns=4)
        self.history_table = TableView(self.events, "History of the object", "")
        self.history_note = QLabel()
        self.history = small_button("History", "Every allocation and free of the object")
        self.stop = small_button("Break", "Stop when the object is freed or allocated")
        self.watch = small_button("Watch", "Put the object's first word on the watch list")
        self.change = small_button(
            "Next change", "Go to where it changes next; F9 and Shift+F9 go on from there"
        )
        self.edit = small_button("Edit…", "Another value for the object's first word")
        self._build()
        self._refill()

    def _build(self) -> None:
        for tool, text, name, handler in (
            (self.back, "‹", "Back", self._go_back),
            (self.forward, "›", "Forward", self._go_forward),
        ):
            tool.setText(text)
            tool.setToolTip(name)
            tool.setAccessibleName(name)
            tool.setAutoRaise(True)
            tool.clicked.connect(handler)
        top = QHBoxLayout()
        top.setSpacing(4)
        top.addWidget(self.back)
        top.addWidget(self.forward)
        top.addWidget(self.field, 1)
        self.facts.setFrameShape(QFrame.Shape.NoFrame)
        self.facts.setOpenLinks(False)
        self.facts.setAccessibleName("Facts")
        self.facts.anchorClicked.connect(self._clicked)
        self.history_note.setObjectName("panelInfo")
        self.history_table.clicked.connect(lambda index: self._go_to_event(index.row()))
        self.history_table.activated.connect(lambda index: self._go_to_event(index.row()))
        self.history.clicked.connect(self._want_history)
        menu = QMenu(self.stop)
        for event in ("freed", "allocated"):
            menu.addAction(f"When it is {event}", partial(self._want_break, event))
        self.stop.setMenu(menu)
        self.watch.clicked.connect(self._want_watch)
        self.change.clicked.connect(lambda: self.change_wanted.emit(self._watched))
        self.edit.clicked.connect(self._want_edit)
        header = self.history_table.horizontalHeader()
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(3, QHeaderView.ResizeMode.Stretch)
        layout = panel_layout(self)
        layout.addLayout(top)
        layout.addWidget(self.facts, 3)
        layout.addLayout(button_row((self.history, self.stop, self.watch, self.edit, self.change)))
        layout.addWidget(self.history_note)
        layout.addWidget(self.strip)
        layout.addWidget(self.history_table, 2)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.strip.set_theme(theme)
        self._refill()

    def show_inspection(
        self, inspection: Inspection | None, history: HistoryView | None, position: int = 0, end: int = 0
    ) -> None:
        """Show facts, and the history of the object at ``position`` in a run of ``end`` micro-ops."""
        if inspection != self._inspection:
            self._remember(inspection)
            self._inspection = inspection
            self._refill()
        if history != self._history:
            self._history = history
            self._show_history()
        self.strip.show_history(history, position, end)

    def _remember(self, following: Inspection | None) -> None:
        before = self._inspection
        moved = before is not None and following is not None and before.target != following.target
        if moved and not self._stepping:
            assert before is not None
            self._past.append(before.target)
            self._future.clear()
        self._stepping = False

    @property
    def _address(self) -> int | None:
        if self._inspection is None:  # what follows loads the engine, which shall not delay an empty window
            return None
        from slubviz.model.travel.inspector import ObjectTarget

        target = self._inspection.target
        return target.address if isinstance(target, ObjectTarget) else None

    def _refill(self) -> None:
        bar = self.facts.verticalScrollBar().value()
        self.facts.setHtml(self._html())
        self.facts.verticalScrollBar().setValue(bar)
        self.back.setEnabled(bool(self._past))
        self.forward.setEnabled(bool(self._future))
        is_object = self._address is not None
        for part in (self.history, self.stop, self.watch, self.edit):
            part.setVisible(is_object)
        self.change.setVisible(self._watched is not None)
        self._show_history()

    @property
    def _watched(self) -> object | None:
        """The slab, lock or list that is shown, to be watched as a whole."""
        if self._inspection is None:
            return None
        from slubviz.model.travel.inspector import watched_of

        return watched_of(self._inspection.target)

    def _html(self) -> str:
        theme = self._theme
        if self._inspection is None:
            return f'<p style="color:{theme.text_muted}">{_EMPTY}</p>'
        rows = []
        for index, row in enumerate(self._inspection.rows):
            value = escape(row.value)
            if row.link is not None:
                value = f'<a style="color:{theme.accent}" href="link:{index}">{value}</a>'
            elif row.position is not None:
                value = f'<a style="color:{theme.accent}" href="go:{index}">{value}</a>'
            rows.append(
                f'<tr><td style="color:{theme.text_muted};padding:2px 12px 2px 0">{escape(row.name)}</td>'
                f'<td style="padding:2px 0">{value}</td></tr>'
            )
        return f"<h3>{escape(self._inspection.title)}</h3><table>{''.join(rows)}</table>"

    def _show_history(self) -> None:
        history = self._history if self._address is not None else None
        shown = history is not None and history.address == self._address
        for part in (self.history_note, self.strip, self.history_table):
            part.setVisible(shown)
        if not shown or history is None:
            self.events.set_rows(())
            return
        count = len(history.events)
        self.history_note.setText(
            f"History is being read … {round(100 * history.fraction)} %"
            if history.reading
            else f"{numbers.plural(count, 'allocation or free', 'allocations and frees')} in what is recorded"
        )
        self.events.set_rows(
            [
                (
                    numbers.integer(event.position),
                    str(event.cpu),
                    "allocated" if event.allocated else "freed",
                    f"{event.caller}{', in an interrupt' if event.in_interrupt else ''}",
                )
                for event in history.events
            ]
        )

    def _typed(self) -> None:
        text = self.field.text().strip()
        if text:
            self.inspected.emit(text)

    def _clicked(self, url: QUrl) -> None:
        kind, _, index = url.toString().partition(":")
        if self._inspection is None:
            return
        row = self._inspection.rows[int(index)]
        if kind == "link":
            self.inspected.emit(row.link)
        elif row.position is not None:
            self.seek.emit(row.position)

    def _go_back(self) -> None:
        self._step(self._past, self._future)

    def _go_forward(self) -> None:
        self._step(self._future, self._past)

    def _step(self, source: list[object], other: list[object]) -> None:
        if source and self._inspection is not None:
            other.append(self._inspection.target)
            self._stepping = True
            self.inspected.emit(source.pop())

    def _go_to_event(self, row: int) -> None:
        if self._history is not None and row < len(self._history.events):
            self.seek.emit(self._history.events[row].position)

    def _want_history(self) -> None:
        if self._address is not None:
            self.history_wanted.emit(self._address)

    def _want_break(self, event: str) -> None:
        if self._address is not None:
            self.break_wanted.emit(f"object {self._address:#x} {event}")

    def _want_watch(self) -> None:
        if self._address is not None:
            self.watch_wanted.emit(f"{self._address:#x}")

    def _want_edit(self) -> None:
        if self._address is not None:
            self.edit_wanted.emit(self._address)
