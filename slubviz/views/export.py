"""Pictures and tables to files, whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPoint
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QWidget

from slubviz.model.atomic_file import write_atomic
from slubviz.model.errors import UserError
from slubviz.model.results import runs_csv

if TYPE_CHECKING:
    from slubviz.model.results import CellResult


def picture_of(widget: QWidget, scale: float = 2.0) -> QImage:
    """Draw a widget and all in it.

    Parameters
    ----------
    scale : float
        Pixels per logical pixel, at least 1 device pixel each.

    Returns
    -------
    QImage
        Of ``widget.size() * scale`` pixels.
    """
    image = QImage(round(widget.width() * scale), round(widget.height() * scale), QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(widget.palette().window().color())
    painter = QPainter(image)
    widget.render(painter, QPoint(0, 0))
    painter.end()
    return image


def png_bytes(image: QImage) -> bytes:
    """A picture as PNG."""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]
    buffer.close()
    return bytes(data.data())


def export_png(widget: QWidget, path: Path) -> None:
    """Write a picture of a widget.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    write_atomic(path, png_bytes(picture_of(widget)))


def export_csv(results: Sequence[CellResult], path: Path) -> None:
    """Write the measured cells as ``runs.csv``.

    Raises
    ------
    UserError
        If there are none, or the file cannot be written.
    """
    if not results:
        raise UserError(
            "No cell is measured yet: let a run reach the end of a measured phase, then export again."
        )
    write_atomic(path, runs_csv(results))
