"""Small icons drawn from shapes, in the colours of the theme; no image files."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap, QPolygonF

from slubviz.views.theme import Theme

#: Shapes are drawn in a 16 x 16 square and rendered at these sizes in pixels.
_UNIT = 16
_SIZES = (16, 32, 64)


def _run(painter: QPainter) -> None:
    painter.drawPolygon(QPolygonF([QPointF(4, 2.5), QPointF(13, 8), QPointF(4, 13.5)]))


def _pause(painter: QPainter) -> None:
    painter.drawRect(QRectF(3.5, 3, 3.2, 10))
    painter.drawRect(QRectF(9.3, 3, 3.2, 10))


def _stop(painter: QPainter) -> None:
    painter.drawRect(QRectF(3.5, 3.5, 9, 9))


def _step(painter: QPainter) -> None:
    painter.drawPolygon(QPolygonF([QPointF(3, 3), QPointF(10, 8), QPointF(3, 13)]))
    painter.drawRect(QRectF(11, 3, 2, 10))


def _reset(painter: QPainter) -> None:
    painter.drawRect(QRectF(3, 3, 2, 10))
    painter.drawPolygon(QPolygonF([QPointF(13, 3), QPointF(6, 8), QPointF(13, 13)]))


def _bookmark(painter: QPainter) -> None:
    corners = [QPointF(4.5, 2), QPointF(11.5, 2), QPointF(11.5, 14), QPointF(8, 10.5), QPointF(4.5, 14)]
    painter.drawPolygon(QPolygonF(corners))


def _picture(painter: QPainter) -> None:
    _outline(painter)
    painter.drawRoundedRect(QRectF(2, 3, 12, 10), 1.5, 1.5)
    painter.drawPolyline(
        QPolygonF([QPointF(3, 12), QPointF(6, 7.5), QPointF(9, 11), QPointF(11, 9), QPointF(13, 12)])
    )


def _table(painter: QPainter) -> None:
    _outline(painter)
    painter.drawRoundedRect(QRectF(2, 3, 12, 10), 1.5, 1.5)
    painter.drawLine(QPointF(2, 6.5), QPointF(14, 6.5))
    painter.drawLine(QPointF(7, 3), QPointF(7, 13))


def _warning(painter: QPainter) -> None:
    painter.drawPolygon(QPolygonF([QPointF(8, 2), QPointF(14.5, 13.5), QPointF(1.5, 13.5)]))
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Clear)
    painter.drawRect(QRectF(7.2, 6, 1.6, 3.8))
    painter.drawRect(QRectF(7.2, 10.7, 1.6, 1.6))


def _app(painter: QPainter) -> None:
    # A slab of 3 x 3 objects, some of them allocated.
    for index in range(9):
        painter.setOpacity(1.0 if index in (0, 1, 2, 3, 5) else 0.35)
        painter.drawRect(QRectF(2 + index % 3 * 4.2, 2 + index // 3 * 4.2, 3.4, 3.4))


def _mirrored(shape: Callable[[QPainter], None]) -> Callable[[QPainter], None]:
    # The same backwards in time.
    def draw(painter: QPainter) -> None:
        painter.translate(_UNIT, 0)
        painter.scale(-1, 1)
        shape(painter)

    return draw


def _next_event(painter: QPainter) -> None:
    # An arrow to a mark.
    painter.drawRect(QRectF(1.5, 7.1, 5, 1.8))
    painter.drawPolygon(QPolygonF([QPointF(5, 4), QPointF(9, 8), QPointF(5, 12)]))
    painter.drawPolygon(QPolygonF([QPointF(12, 3.5), QPointF(15, 8), QPointF(12, 12.5), QPointF(9.6, 8)]))


def _to_end(painter: QPainter) -> None:
    painter.drawPolygon(QPolygonF([QPointF(2, 3.5), QPointF(7, 8), QPointF(2, 12.5)]))
    painter.drawPolygon(QPolygonF([QPointF(7, 3.5), QPointF(12, 8), QPointF(7, 12.5)]))
    painter.drawRect(QRectF(12.2, 3, 1.8, 10))


def _branch(painter: QPainter) -> None:
    # A line that forks.
    _outline(painter)
    painter.drawPolyline(QPolygonF([QPointF(4, 13), QPointF(4, 3)]))
    painter.drawPolyline(QPolygonF([QPointF(4, 10), QPointF(11, 7), QPointF(11, 3)]))
    painter.setBrush(painter.pen().color())
    for x, y in ((4, 13), (4, 3), (11, 3)):
        painter.drawEllipse(QPointF(x, y), 1.5, 1.5)


def _outline(painter: QPainter) -> None:
    color = painter.brush().color()
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(color, 1.3))


_SHAPES: dict[str, Callable[[QPainter], None]] = {
    "run": _run,
    "pause": _pause,
    "stop": _stop,
    "step": _step,
    "reset": _reset,
    "run_back": _mirrored(_run),
    "step_back": _mirrored(_step),
    "next_event": _next_event,
    "previous_event": _mirrored(_next_event),
    "to_end": _to_end,
    "to_start": _mirrored(_to_end),
    "branch": _branch,
    "bookmark": _bookmark,
    "picture": _picture,
    "table": _table,
    "warning": _warning,
    "app": _app,
}
#: Meaning of the colour of icons that do not have the text's.
_COLOURS = {"app": "accent", "warning": "cpu_waiting"}


def icon(name: str, theme: Theme, on_accent: bool = False) -> QIcon:
    """An icon by name.

    Parameters
    ----------
    name : str
        A key of the table above.
    on_accent : bool
        Draw it for a ground of the accent colour.

    Raises
    ------
    KeyError
        If there is no such icon.
    """
    shape = _SHAPES[name]
    result = QIcon()
    color = theme.on_accent if on_accent else getattr(theme, _COLOURS.get(name, "text"))
    for size in _SIZES:
        result.addPixmap(_render(shape, size, QColor(color)), QIcon.Mode.Normal)
        result.addPixmap(_render(shape, size, QColor(theme.cpu_halted)), QIcon.Mode.Disabled)
    return result


def _render(shape: Callable[[QPainter], None], size: int, color: QColor) -> QPixmap:
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(size / _UNIT, size / _UNIT)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(color)
    shape(painter)
    painter.end()
    return pixmap
