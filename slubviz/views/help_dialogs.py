"""Help → Keys and Help → About, as windows that block nothing."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLabel,
    QLayout,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

import slubviz
from slubviz.views.actions import ACTIONS, plain_text

_MOUSE = (
    ("Point at a slab", "Facts of the slab and of the object under the pointer"),
    ("Point at a CPU", "Its whole call stack, next micro-op and clock"),
    ("Click a CPU", "More of its source; click again for less"),
    ("Drag on the timeline", "Scrub; the wheel zooms, a click on a mark goes there"),
    ("Click a slab or an object", "On the page Steps: its facts in the inspector"),
    ("Click beside a source line", "A breakpoint there, or none"),
)

#: Height of the Keys window, of the window's; and in pixels, at least.
_KEYS_SHARE, _LOWEST_KEYS = 0.9, 400


def keys_dialog(parent: QWidget) -> QDialog:
    """All keys, made from the table of actions, and what the mouse does."""
    dialog, layout = _dialog(parent, "Keys")
    table = QWidget()
    grid = QGridLayout(table)
    grid.setHorizontalSpacing(24)
    grid.setVerticalSpacing(4)
    rows = [(spec.shortcut, plain_text(spec), spec.tooltip) for spec in ACTIONS if spec.shortcut]
    for row, (key, name, text) in enumerate(rows):
        for column, part in enumerate((key, name, text)):
            grid.addWidget(
                _label(part, "headline" if column == 0 else "muted" if column == 2 else ""), row, column
            )
    for row, (what, text) in enumerate(_MOUSE, len(rows) + 1):
        grid.addWidget(_label(what, "headline"), row, 0, 1, 2)
        grid.addWidget(_label(text, "muted"), row, 2)
    grid.setRowMinimumHeight(len(rows), 12)
    # More rows than a small screen is high.
    scroll = QScrollArea()
    scroll.setWidgetResizable(True)
    scroll.setFrameShape(QScrollArea.Shape.NoFrame)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    scroll.setWidget(table)
    layout.insertWidget(0, scroll)
    height = min(table.sizeHint().height() + 90, round(parent.height() * _KEYS_SHARE))
    dialog.resize(table.sizeHint().width() + 80, max(height, _LOWEST_KEYS))
    return dialog


def about_dialog(parent: QWidget) -> QDialog:
    """Name, version, what is simulated and what is not."""
    dialog, layout = _dialog(parent, "About slubviz")
    dialog.setMinimumWidth(460)
    layout.insertWidget(0, _label(f"slubviz {slubviz.__version__}", "headline"))
    text = _label(
        "A laboratory for the Linux slab allocators. The allocators run as programs on a simulated "
        "machine; what the window shows is read from that machine's memory. Cycles are those of the "
        "simulated machine, held against the published measurements."
    )
    text.setWordWrap(True)
    text.setFixedSize(412, text.heightForWidth(412))
    layout.insertWidget(1, text)
    layout.insertWidget(2, _label("MIT licence. Uses Qt for Python (LGPL), pyqtgraph and numpy.", "muted"))
    return dialog


def _dialog(parent: QWidget, title: str) -> tuple[QDialog, QVBoxLayout]:
    dialog = QDialog(parent)
    dialog.setWindowTitle(title)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    layout = QVBoxLayout(dialog)
    layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
    layout.setContentsMargins(24, 20, 24, 16)
    layout.setSpacing(12)
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    buttons.rejected.connect(dialog.close)
    layout.addWidget(buttons)
    return dialog, layout


def _label(text: str, name: str = "") -> QLabel:
    label = QLabel(text)
    label.setObjectName(name)
    return label
