"""The position field: what can be typed into it, and the widget.

``1234`` is a micro-op, ``+50`` and ``-50`` are relative to the cursor, ``cycle 9000`` is a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from slubviz.views import numbers
from slubviz.views.transport_speed import mark_valid

_POSITION = re.compile(r"([+-]?)(\d+)")
_CYCLE = re.compile(r"(?:cycles?|c|t)=?(\d+)|(\d+)(?:cycles?|c)")
HELP = "Type a micro-op, +50 or -50 from here, or “cycle 9000”"
_EXPECTED = "Expected 1234, +50 or cycle 9000"
#: Longer numbers are no positions: the engine counts in 63 bits.
_MOST_DIGITS = 18


@dataclass(frozen=True)
class ToPosition:
    """Go to a micro-op."""

    position: int


@dataclass(frozen=True)
class ToCycle:
    """Go to a time."""

    clock_cycles: int


def parse_place(text: str, here: int) -> ToPosition | ToCycle | None:
    """What was typed; None if it is neither a micro-op nor a time.

    Parameters
    ----------
    text : str
        Spaces, thin spaces and commas between digits do not matter.
    here : int
        The cursor, for relative places; those before the start become the start.
    """
    word = (
        "".join(text.split()).replace(numbers.THIN, "").replace(",", "").replace(numbers.MINUS, "-").lower()
    )
    if not word.isascii() or sum(letter.isdigit() for letter in word) > _MOST_DIGITS:
        return None
    match = _POSITION.fullmatch(word)
    if match is not None:
        sign, digits = match.groups()
        if not sign:
            return ToPosition(int(digits))
        return ToPosition(max(0, here + int(sign + digits)))
    match = _CYCLE.fullmatch(word)
    if match is not None:
        return ToCycle(int(match.group(1) or match.group(2)))
    return None


class PositionField(QLineEdit):
    """Shows the cursor, and takes another place; an update does not disturb who is typing."""

    place_entered = Signal(object)  # ToPosition or ToCycle
    refused = Signal(str)  # why, or nothing once the text is good again

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._position = 0
        self._last: int | None = None
        self.setAccessibleName("Position in micro-ops")
        self.setToolTip(HELP)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.returnPressed.connect(self._entered)
        self.show_position(0)

    def show_position(self, position: int, last: int | None = None) -> None:
        """Show the cursor; ``last`` is where the run ends, if it has ended."""
        self._position, self._last = position, last
        if not self.isModified():
            self._restore()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.isModified():
            self._restore()
            return
        super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        # While somebody types, Escape is for the field and not for a command of the window.
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Escape and self.isModified():
                event.accept()
                return True
        return super().event(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self._restore()

    def _restore(self) -> None:
        self.setText(numbers.integer(self._position))
        self.setModified(False)
        self._accept()

    def _accept(self) -> None:
        if self.property("invalid"):
            mark_valid(self, valid=True)
            self.refused.emit("")

    def _entered(self) -> None:
        place = parse_place(self.text(), self._position)
        if place is None:
            self._refuse(_EXPECTED)
            return
        if isinstance(place, ToPosition) and self._last is not None and place.position > self._last:
            self._refuse(f"The run ends at {numbers.integer(self._last)}")
            return
        self.setModified(False)
        self._accept()
        self.place_entered.emit(place)

    def _refuse(self, why: str) -> None:
        mark_valid(self, valid=False)
        self.refused.emit(why)
