"""One line across the window for an error or a notice; never blocks, can be closed."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QWidget


class MessageBar(QFrame):
    """Hidden while there is nothing to say."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("message")
        self._text = QLabel()
        self._text.setWordWrap(True)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._close = QToolButton()
        self._close.setText("Close")
        self._close.setProperty("command", "true")
        self._close.setToolTip("Hide this message")
        self._close.clicked.connect(self.clear)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 6, 16, 6)
        layout.setSpacing(16)
        layout.addWidget(self._text, 1)
        layout.addWidget(self._close, 0)
        self.hide()

    @property
    def text(self) -> str:
        """What it says; empty while hidden."""
        return "" if self.isHidden() else self._text.text()

    @property
    def kind(self) -> str:
        """``"error"`` or ``"notice"``."""
        return str(self.property("kind") or "")

    def show_error(self, text: str) -> None:
        """Say what went wrong."""
        self._show(text, "error")

    def show_notice(self, text: str) -> None:
        """Say what was done."""
        self._show(text, "notice")

    def clear(self) -> None:
        """Hide it."""
        self.hide()

    def clear_notice(self) -> None:
        """Hide what was done; what went wrong stays."""
        if self.kind == "notice":
            self.clear()

    def _show(self, text: str, kind: str) -> None:
        self._text.setText(text)
        self.setAccessibleName(text)
        self.setProperty("kind", kind)
        for widget in (self, self._text):  # the style sheet asks for the property
            widget.style().unpolish(widget)
            widget.style().polish(widget)
        self.show()
