"""The command palette: type a few letters, choose a command, a place or a name.

Knows entries (a text, a hint, what to call) and how to find them; what they do is the window's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPalette
from PySide6.QtWidgets import (
    QDialog,
    QLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

_WIDTH, _ROWS = 620, 12
_MOST_SHOWN = 60
_ROW_PADDING = 10
_NOTHING = "Nothing found"
_HINT = int(Qt.ItemDataRole.UserRole)
#: Keys of the field that move in the list.
_LIST_KEYS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


@dataclass(frozen=True)
class Entry:
    """Something that can be chosen."""

    text: str
    hint: str  #: on the right: a key, a place
    choose: Callable[[], object]
    enabled: bool = True
    name: str = ""  #: another name under which it is found


#: Entries that depend on what is typed, e.g. "go to micro-op 1234"; they come first.
Offers = Callable[[str], Sequence[Entry]]


def score(query: str, text: str) -> int | None:
    """How well a text fits what is typed; None if it does not.

    The letters must occur in order.  Those at the start of a word and next to each other count more, and of
    two texts that fit equally the shorter one is better.
    """
    # A hyphen counts as a space: "list-lock" finds "list lock" and the other way round.
    query, found = query.casefold().replace("-", " ").strip(), text.casefold().replace("-", " ")
    wanted = query.replace(" ", "")
    if not wanted:
        return 0
    whole = found.find(query)
    if whole >= 0:
        starts_word = whole == 0 or not found[whole - 1].isalnum()
        return 1000 + (200 if starts_word else 0) - len(found)
    total, last = 0, -1
    for letter in wanted:
        place = _best_place(found, letter, last + 1)
        if place < 0:
            return None
        total += 8 if place == last + 1 else 0
        total += 6 if place == 0 or not found[place - 1].isalnum() else 0
        last = place
    return total - len(found) // 4


def _best_place(text: str, letter: str, first: int) -> int:
    """The next place of a letter: if that is no neighbour, rather the start of a word than just anywhere."""
    place = text.find(letter, first)
    if place <= first:
        return place
    for index in range(place, len(text)):
        if text[index] == letter and not text[index - 1].isalnum():
            return index
    return place


def matching(query: str, entries: Sequence[Entry]) -> list[Entry]:
    """Entries that fit, the best first; of equals in their order."""
    rated = [(_best_score(query, entry), index) for index, entry in enumerate(entries)]
    fitting = sorted((-rating, index) for rating, index in rated if rating is not None)
    return [entries[index] for _, index in fitting]


def _best_score(query: str, entry: Entry) -> int | None:
    """Of the text and the other name, the one that fits better."""
    ratings = [score(query, text) for text in (entry.text, entry.name) if text]
    return max((rating for rating in ratings if rating is not None), default=None)


class Palette(QDialog):
    """A field and a list in the upper middle of the window; Return chooses, Esc leaves."""

    def __init__(
        self, entries: Sequence[Entry], offers: Offers | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Command palette")
        self.setWindowFlag(Qt.WindowType.FramelessWindowHint)
        self.setObjectName("palette")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._entries = entries
        self._offers = offers
        self._shown: list[Entry] = []
        self.field = QLineEdit()
        self.field.setPlaceholderText("Command, function, bookmark, scenario, or a micro-op's number")
        self.field.setAccessibleName("Command palette")
        self.field.setClearButtonEnabled(True)
        self.list = QListWidget()
        self.list.setAccessibleName("What fits")
        self.list.setItemDelegate(_Rows(self.list))
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        layout = QVBoxLayout(self)
        layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        layout.setContentsMargins(12, 12, 12, 12)
        layout.setSpacing(8)
        layout.addWidget(self.field)
        layout.addWidget(self.list, 1)
        self.field.textChanged.connect(self._fill)
        self.field.returnPressed.connect(self._choose)
        self.list.itemClicked.connect(lambda _item: self._choose())
        self.field.installEventFilter(self)
        self._fill("")
        self._place()

    @property
    def texts(self) -> list[str]:
        """Texts of what is shown."""
        return [entry.text for entry in self._shown]

    def ask(self, text: str) -> None:
        """Start with something typed already."""
        self.field.setText(text)
        self.field.setCursorPosition(len(text))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in _LIST_KEYS:
                self._move(event.key())
                return True
        return super().eventFilter(watched, event)

    def _move(self, key: int) -> None:
        by = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_PageUp: -_ROWS, Qt.Key.Key_PageDown: _ROWS}
        row = self.list.currentRow() + by[Qt.Key(key)]
        self.list.setCurrentRow(min(max(row, 0), self.list.count() - 1))

    def _fill(self, query: str) -> None:
        offered = list(self._offers(query)) if self._offers is not None else []
        self._shown = (offered + matching(query, self._entries))[:_MOST_SHOWN]
        self.list.clear()
        for entry in self._shown:
            item = QListWidgetItem(entry.text)
            item.setData(_HINT, entry.hint)
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{entry.text} {entry.hint}")
            if not entry.enabled:
                item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsEnabled)
            self.list.addItem(item)
        if not self._shown:
            nothing = QListWidgetItem(_NOTHING)
            nothing.setFlags(Qt.ItemFlag.ItemIsEnabled)  # to be read, not to be chosen
            self.list.addItem(nothing)
        self.list.setCurrentRow(0 if self._shown else -1)

    def _choose(self) -> None:
        row = self.list.currentRow()
        if not 0 <= row < len(self._shown) or not self._shown[row].enabled:
            return
        entry = self._shown[row]
        self.close()
        entry.choose()

    def _place(self) -> None:
        height = self.fontMetrics().height() + _ROW_PADDING
        self.resize(_WIDTH, height * _ROWS + 64)
        parent = self.parentWidget()
        if parent is not None:
            width = min(_WIDTH, parent.width() - 32)
            self.resize(width, min(self.height(), parent.height() - 120))
            self.move(parent.mapToGlobal(parent.rect().topLeft()))
            self.move(self.x() + (parent.width() - width) // 2, self.y() + 72)


class _Rows(QStyledItemDelegate):
    """Paints a row: the text on the left, shortened where it must be, the hint on the right."""

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(100, option.fontMetrics.height() + _ROW_PADDING)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        palette = option.palette
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        enabled = bool(option.state & QStyle.StateFlag.State_Enabled)
        group = QPalette.ColorGroup.Active if enabled else QPalette.ColorGroup.Disabled
        plain = QPalette.ColorRole.HighlightedText if chosen else QPalette.ColorRole.Text
        faint = QPalette.ColorRole.HighlightedText if chosen else QPalette.ColorRole.PlaceholderText
        painter.save()
        if chosen:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(palette.color(QPalette.ColorRole.Highlight))
            painter.drawRoundedRect(option.rect, 4, 4)
        metrics, place = option.fontMetrics, option.rect.adjusted(10, 0, -10, 0)
        hint = str(index.data(_HINT) or "")
        painter.setPen(palette.color(group, faint))
        painter.drawText(place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, hint)
        room = place.width() - metrics.horizontalAdvance(hint) - 16
        text = str(index.data(Qt.ItemDataRole.DisplayRole) or "").split("\n")[0]
        painter.setPen(palette.color(group, plain))
        painter.drawText(
            place,
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
            metrics.elidedText(text, Qt.TextElideMode.ElideRight, room),
        )
        painter.restore()
