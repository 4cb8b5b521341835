"""A titled, framed area: the frame of every part of the window."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget


class Panel(QFrame):
    """A title on the left, a line of facts on the right, the content below; no head without a title."""

    def __init__(self, title: str, content: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("panel")
        self._title = QLabel(title)
        self._title.setObjectName("panelTitle")
        self._info = QLabel()
        self._info.setObjectName("panelInfo")
        self._info.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        # The facts may be longer than a narrow panel: they give way, the title does not.
        self._info.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 12, 12)
        layout.setSpacing(8)
        if title:  # tabs are their own title
            layout.addLayout(self._head())
        layout.addWidget(content, 1)

    def _head(self) -> QHBoxLayout:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self._title)
        head.addWidget(self._info, 1)
        return head

    def set_title(self, text: str) -> None:
        """Change the title."""
        self._title.setText(text)

    def set_info(self, text: str) -> None:
        """Change the facts on the right."""
        self._info.setText(text)

    def info(self) -> str:
        """The facts on the right."""
        return self._info.text()
