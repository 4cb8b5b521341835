"""The legend of the slab map, drawn with the map's own tiles."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from slubviz.model.snapshot import ObjectState, SlabState
from slubviz.views.slab_layout import tile_style
from slubviz.views.slab_raster import colours_of, tile_pixels
from slubviz.views.slab_summary import CHAINED_FLAG, FROZEN_FLAG, LOCKED_FLAG
from slubviz.views.theme import Theme

_TILE = 18
_SPACE = 6
_BETWEEN = 16
_A, _C, _F = int(ObjectState.ALLOCATED), int(ObjectState.CPU_FREE), int(ObjectState.FREE)
#: Text, frame code, states of the four objects; the first three show one object without a frame.
Entry = tuple[str, int, tuple[int, ...]]
_ALLOCATED: Entry = ("allocated", -1, (_A,))
_FREE: Entry = ("free", -1, (_F,))
_FILLING: tuple[Entry, ...] = (
    ("full", int(SlabState.FULL), (_A, _A, _A, _A)),
    ("partial", int(SlabState.PARTIAL), (_A, _F, _A, _F)),
    ("empty", int(SlabState.EMPTY), (_F, _F, _F, _F)),
)
_FROZEN: Entry = ("frozen (cpu slab)", int(SlabState.FULL) + FROZEN_FLAG, (_A, _A, _C, _C))
_LOCKED: Entry = ("locked", int(SlabState.FULL) + LOCKED_FLAG, (_A, _A, _A, _A))
_CHAINED: Entry = ("on a CPU's partial chain", int(SlabState.PARTIAL) + CHAINED_FLAG, (_A, _F, _A, _F))
_SLUB: tuple[Entry, ...] = (_ALLOCATED, ("on CPU freelist", -1, (_C,)), _FREE, *_FILLING, _FROZEN, _LOCKED)
_SLAB: tuple[Entry, ...] = (
    _ALLOCATED,
    ("in a CPU's, the shared or an alien array", -1, (_C,)),
    _FREE,
    *_FILLING,
)
_ENTRIES: dict[str, tuple[Entry, ...]] = {"slab": _SLAB, "slub_lockless": (*_SLUB[:-1], _CHAINED, _LOCKED)}


def entries_of(family: str) -> tuple[Entry, ...]:
    """What the legend says of a kind of allocator."""
    return _ENTRIES.get(family, _SLUB)


#: That many entries are about objects, the rest about slabs.
_OBJECT_ENTRIES = 3


class SlabLegend(QWidget):
    """Says what colours and frames mean; wraps to the width it has."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._entries = _SLUB
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._name()

    @property
    def texts(self) -> tuple[str, ...]:
        """What stands in it."""
        return tuple(text for text, _, _ in self._entries)

    def set_family(self, family: str) -> None:
        """Show what a kind of allocator has."""
        entries = entries_of(family)
        if entries is not self._entries:
            self._entries = entries
            self._name()
            self.updateGeometry()
            self.update()

    def _name(self) -> None:
        self.setAccessibleName("Legend: " + ", ".join(self.texts))

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.update()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        lines = max(line for line, _ in self._places(width)) + 1
        return lines * self._line_height()

    def sizeHint(self) -> QSize:
        return QSize(480, self.heightForWidth(480))

    def minimumSizeHint(self) -> QSize:
        return QSize(160, self._line_height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self._theme.color("text_muted"))
        height = self._line_height()
        for (text, code, states), (line, x) in zip(self._entries, self._places(self.width()), strict=True):
            top = line * height
            image = self._sample(code, states)
            side = image.height() / image.devicePixelRatio()
            painter.drawImage(QPointF(x, top + (height - side) / 2), image)
            place = QRectF(x + _TILE + _SPACE, top, self._text_width(text), height)
            painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()

    def _line_height(self) -> int:
        return max(_TILE + 6, self.fontMetrics().height() + 4)

    def _text_width(self, text: str) -> int:
        return self.fontMetrics().horizontalAdvance(text) + 2

    def _places(self, width: int) -> list[tuple[int, int]]:
        # Line and x of each entry.
        places, line, x = [], 0, 0
        for index, (text, _, _) in enumerate(self._entries):
            if index == _OBJECT_ENTRIES:  # the slabs start on a line of their own
                line, x = line + 1, 0
            wide = _TILE + _SPACE + self._text_width(text)
            if x and x + wide > width:
                line, x = line + 1, 0
            places.append((line, x))
            x += wide + _BETWEEN
        return places

    def _sample(self, code: int, states: tuple[int, ...]) -> QImage:
        unit = self.devicePixelRatioF()
        colours = colours_of(self._theme)
        if code < 0:
            side = round(12 * unit)
            pixels = np.full((side, side), colours.objects[states[0]], dtype=np.uint32)
        else:
            style = tile_style(len(states), round(_TILE * unit), unit)
            looks = np.array([[code, *states]], dtype=np.uint8)
            pixels = np.ascontiguousarray(tile_pixels(style, looks, colours)[0])
        height, width = pixels.shape
        image = QImage(pixels.data, width, height, width * 4, QImage.Format.Format_RGB32).copy()
        image.setDevicePixelRatio(unit)
        return image
