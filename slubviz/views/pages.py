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
        self.button = _big_button(run)
        layout.addLayout(_button_row(self.button, run))


class ActionPage(QWidget):
    """Says that there is nothing yet and what a command would do, with its button."""

    def __init__(self, headline: str, action: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        card, layout = _card(self)
        layout.addWidget(_headline(headline, card))
        self._text = _wrapped("", _CARD_WIDTH - 2 * _CARD_MARGIN)
        layout.addWidget(self._text)
        layout.addSpacing(8)
        self.button = _big_button(action)
        layout.addLayout(_button_row(self.button, action))

    @property
    def text(self) -> str:
        """What it says below the headline."""
        return self._text.text()

    def set_text(self, text: str) -> None:
        """Say something else."""
        if text != self._text.text():
            self._text.setText(text)
            self._text.setFixedHeight(max(0, self._text.heightForWidth(self._text.width())))


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


def _big_button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    button.setProperty("command", "true")
    button.setProperty("primary", "true")
    button.setMinimumSize(120, 36)
    return button


def _button_row(button: QToolButton, action: QAction) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setSpacing(12)
    row.addWidget(button)
    key = QLabel(f"or press {action.shortcut().toString()}")
    key.setObjectName("muted")
    row.addWidget(key)
    row.addStretch(1)
    return row


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
    label.setFixedSize(width, max(0, label.heightForWidth(width)))
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
