"""Small parts that the docked panels share: narrow buttons in a row, a note where nothing is listed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget


def small_button(text: str, tip: str) -> QPushButton:
    """A button no wider than its text: four of them fit into a dock of 300 pixels."""
    button = QPushButton(text)
    button.setProperty("command", "true")
    button.setProperty("small", "true")
    button.setToolTip(tip)
    return button


def button_row(left: Sequence[QWidget], right: Sequence[QWidget] = ()) -> QHBoxLayout:
    """Buttons on the left and on the right."""
    row = QHBoxLayout()
    row.setSpacing(6)
    for button in left:
        row.addWidget(button)
    row.addStretch(1)
    for button in right:
        row.addWidget(button)
    return row


def empty_note(text: str) -> QLabel:
    """What a list says while it is empty, at its top."""
    label = QLabel(text)
    label.setObjectName("panelInfo")
    label.setWordWrap(True)
    label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
    label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
    return label


def panel_layout(panel: QWidget) -> QVBoxLayout:
    """The layout of a docked panel."""
    layout = QVBoxLayout(panel)
    layout.setContentsMargins(8, 8, 8, 8)
    layout.setSpacing(8)
    return layout
