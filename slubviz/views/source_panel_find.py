"""The bar below the program text that finds a text or goes to a line."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QLineEdit, QToolButton, QWidget


class FindBar(QFrame):
    """Hidden until it is wanted; ``:120`` in its field is a line."""

    changed = Signal(str)  # a text to be found; empty for none
    step = Signal(int)  # to the next (1) or the previous (-1) place
    line_entered = Signal(int)
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = QLineEdit()
        self.field.setPlaceholderText("Find, or :line")
        self.field.setClearButtonEnabled(True)
        self.field.setAccessibleName("Find in the program text")
        self.count = QLabel()
        self.count.setObjectName("muted")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 4, 8, 4)
        layout.addWidget(self.field, 1)
        layout.addWidget(self.count)
        for text, tip, step in (("↑", "Previous place (Shift+Enter)", -1), ("↓", "Next place (Enter)", 1)):
            button = QToolButton()
            button.setText(text)
            button.setToolTip(tip)
            button.setAutoRaise(True)
            button.clicked.connect(lambda _checked=False, by=step: self.step.emit(by))
            layout.addWidget(button)
        close = QToolButton()
        close.setText("✕")
        close.setToolTip("Close (Esc)")
        close.setAutoRaise(True)
        close.clicked.connect(self.close_bar)
        layout.addWidget(close)
        self.field.textChanged.connect(self._text_changed)
        self.hide()

    def open_for(self, text: str) -> None:
        """Show the bar with a text in its field."""
        self.show()
        if text != self.field.text():
            self.field.setText(text)
        else:
            self._text_changed(text)
        self.field.setFocus(Qt.FocusReason.OtherFocusReason)  # other reasons select everything
        if text == ":":
            self.field.end(False)
        else:
            self.field.selectAll()

    def close_bar(self) -> None:
        """Hide the bar; nothing is marked as found any more."""
        self.hide()
        self.changed.emit("")
        self.closed.emit()

    def show_count(self, at: int, count: int) -> None:
        """Say how many places there are; ``at`` from 1."""
        text = self.field.text()
        if not text or text.startswith(":"):
            self.count.setText("")
        else:
            self.count.setText(f"{at} of {count}" if count else "not found")

    def event(self, event: QEvent) -> bool:
        # Escape is for the bar while it is open, not for a command of the window.
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Escape:
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close_bar()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._entered(event)
        else:
            super().keyPressEvent(event)

    def _entered(self, event: QKeyEvent) -> None:
        text = self.field.text()
        if not text.startswith(":"):
            self.step.emit(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
        elif text[1:].strip().isdecimal() and len(text) < 10:
            self.line_entered.emit(int(text[1:]))
            self.close_bar()

    def _text_changed(self, text: str) -> None:
        self.changed.emit("" if text.startswith(":") else text)
