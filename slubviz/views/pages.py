"""What the window shows instead of a run: the first start, and the compile."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QProgressBar, QToolButton, QVBoxLayout, QWidget

_CARD_WIDTH = 560
_CARD_MARGIN = 32
_NUMBER_WIDTH = 16
_NUMBER_SPACE = 12
_STEPS = (
    "Choose a machine, a kernel, a test and an object size in the bar above.",
    "Run shows the slabs, the CPUs and the locks live, and measures cycles per operation.",
    "Pause at any time, then Step executes one micro-op at a time. The slider sets the speed.",
)


class WelcomePage(QWidget):
    """Tells what to do first, with a button that does it."""

    def __init__(self, run: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        card, layout = _card(self)
        layout.addWidget(_headline("Nothing is running yet", card))
        for number, text in enumerate(_STEPS, 1):
            layout.addLayout(_step(number, text))
        layout.addSpacing(8)
        self.button = QToolButton()
        self.button.setDefaultAction(run)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setProperty("command", "true")
        self.button.setProperty("primary", "true")
        self.button.setMinimumSize(120, 36)
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(self.button)
        key = QLabel(f"or press {run.shortcut().toString()}")
        key.setObjectName("muted")
        row.addWidget(key)
        row.addStretch(1)
        layout.addLayout(row)


class CompilePage(QWidget):
    """Says that the simulated machine is being compiled, and that this is no hang."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        card, layout = _card(self)
        self._headline = _headline("Compiling…", card)
        layout.addWidget(self._headline)
        text = (
            "The simulated machine is compiled for this computer. That takes about ten seconds the first "
            "time; later starts load it from a cache."
        )
        layout.addWidget(_wrapped(text, _CARD_WIDTH - 2 * _CARD_MARGIN))
        busy = QProgressBar()
        busy.setRange(0, 0)
        busy.setTextVisible(False)
        busy.setFixedHeight(8)
        busy.setAccessibleName("Compiling")
        layout.addWidget(busy)

    @property
    def text(self) -> str:
        """The headline."""
        return self._headline.text()


def _card(page: QWidget) -> tuple[QFrame, QVBoxLayout]:
    card = QFrame()
    card.setObjectName("card")
    card.setFixedWidth(_CARD_WIDTH)
    layout = QVBoxLayout(card)
    layout.setContentsMargins(_CARD_MARGIN, 24, _CARD_MARGIN, 24)
    layout.setSpacing(12)
    outer = QVBoxLayout(page)
    outer.addStretch(2)
    outer.addWidget(card, 0, Qt.AlignmentFlag.AlignHCenter)
    outer.addStretch(3)
    return card, layout


def _headline(text: str, like: QWidget) -> QLabel:
    label = QLabel(text)
    font = QFont(like.font())
    font.setPointSizeF(font.pointSizeF() * 1.5)
    label.setFont(font)
    label.setObjectName("headline")
    return label


def _wrapped(text: str, width: int) -> QLabel:
    # A centred card asks no label how tall it is at its width: it has to be told.
    label = QLabel(text)
    label.setWordWrap(True)
    label.setFixedSize(width, label.heightForWidth(width))
    return label


def _step(number: int, text: str) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setSpacing(_NUMBER_SPACE)
    count = QLabel(str(number))
    count.setObjectName("headline")
    count.setFixedWidth(_NUMBER_WIDTH)
    row.addWidget(count, 0, Qt.AlignmentFlag.AlignTop)
    row.addWidget(_wrapped(text, _CARD_WIDTH - 2 * _CARD_MARGIN - _NUMBER_WIDTH - _NUMBER_SPACE), 1)
    return row
