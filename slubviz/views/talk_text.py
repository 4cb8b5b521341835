"""Text for a talk: as large as its place allows, up to a size that goes with the height of the screen."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from slubviz.views.theme import Theme

_WRAP = int(Qt.TextFlag.TextWordWrap)
_SMALLEST_PIXELS = 10


def fitting_pixels(text: str, font: QFont, width: int, height: int, largest: int) -> int:
    """Pixel size, from ``largest`` down, at which a wrapped text fits; 10 if none does."""
    low, high = _SMALLEST_PIXELS, max(largest, _SMALLEST_PIXELS)
    while low < high:
        middle = (low + high + 1) // 2
        sized = QFont(font)
        sized.setPixelSize(middle)
        needed = QFontMetrics(sized).boundingRect(QRect(0, 0, width, 1 << 20), _WRAP, text)
        if needed.width() <= width and needed.height() <= height:
            low = middle
        else:
            high = middle - 1
    return low


class FittedText(QWidget):
    """A wrapped text that fills its place.

    Parameters
    ----------
    colour : str
        Meaning of its colour in the theme.
    bold : bool
        Heavier strokes.
    """

    def __init__(
        self, theme: Theme, colour: str = "text", *, bold: bool = False, centred: bool = False
    ) -> None:
        super().__init__()
        self._theme = theme
        self._colour = colour
        self._bold = bold
        self._across = Qt.AlignmentFlag.AlignHCenter if centred else Qt.AlignmentFlag.AlignLeft
        self._text = ""
        self._largest = 40
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def text(self) -> str:
        """What it says."""
        return self._text

    @property
    def pixels(self) -> int:
        """Size of its letters now."""
        return fitting_pixels(self._text, self._font(), self.width(), self.height(), self._largest)

    def sizeHint(self) -> QSize:
        return QSize(200, 2 * self._largest)

    def set_text(self, text: str, colour: str = "") -> None:
        """Say something else."""
        self._text = text
        self._colour = colour or self._colour
        self.setAccessibleName(text)
        self.update()

    def set_look(self, theme: Theme, largest: int) -> None:
        """Change the colours, and the size in pixels that is not exceeded."""
        self._theme, self._largest = theme, largest
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        font = self._font()
        font.setPixelSize(self.pixels)
        painter.setFont(font)
        painter.setPen(self._theme.color(self._colour))
        flags = _WRAP | int(self._across) | int(Qt.AlignmentFlag.AlignVCenter)
        painter.drawText(QRectF(self.rect()), flags, self._text)
        painter.end()

    def _font(self) -> QFont:
        font = QFont(self.font())
        if self._bold:
            font.setWeight(QFont.Weight.DemiBold)
        return font
