"""The marks of a timeline: their shapes, where they are drawn, and which one is under the pointer.

Every kind has a shape of its own.  Marks that fall into the same few pixels become one, of the kind that
matters most; a kind that would cover a lane is left out there until the scale is larger.  A hollow mark
stands for something that is known to be in a stretch of the run but not where in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPen, QPixmap, QPolygonF

from slubviz.views.theme import Theme
from slubviz.views.timeline_window import TimeWindow

#: Marks nearer to each other than this many logical pixels become one.
BIN_PIXELS = 11
#: A kind is left out of a lane if it would fill more than this part of it, but a few are always drawn.
_FULL_SHARE = 0.1
_ALWAYS = 3
#: Of each kind in all lanes: more would take too long to draw.
_MOST_OF_A_KIND = 320
NO_CPU = -1


class Sign(IntEnum):
    """Kinds of marks; of several at one place the largest is drawn."""

    SLOW_PATH = 0
    INTERRUPT = 1
    CONTENDED = 2
    RETRY = 3
    PHASE = 4
    FORK = 5
    CHANGE = 6
    BOOKMARK = 7
    FAULT = 8


#: Those of a CPU's lane; the others belong to the whole run.
LANE_SIGNS = (Sign.SLOW_PATH, Sign.INTERRUPT, Sign.CONTENDED, Sign.RETRY)
NAMES = {
    Sign.SLOW_PATH: "slow path",
    Sign.INTERRUPT: "interrupt",
    Sign.CONTENDED: "lock contended",
    Sign.RETRY: "retry",
    Sign.PHASE: "phase",
    Sign.FORK: "branch",
    Sign.CHANGE: "change",
    Sign.BOOKMARK: "bookmark",
    Sign.FAULT: "fault",
}
_MANY = {
    Sign.SLOW_PATH: "slow paths",
    Sign.INTERRUPT: "interrupts",
    Sign.CONTENDED: "contended locks",
    Sign.RETRY: "retries",
}
_MEANINGS = {
    Sign.SLOW_PATH: "plot_published",
    Sign.INTERRUPT: "interrupt",
    Sign.CONTENDED: "lock_contended",
    Sign.RETRY: "text",
    Sign.PHASE: "text_muted",
    Sign.FORK: "cpu_running",
    Sign.CHANGE: "interrupt",
    Sign.BOOKMARK: "accent",
    Sign.FAULT: "error_text",
}


@dataclass(frozen=True)
class MarkTable:
    """Marks in the order of their positions, one row each.

    Attributes
    ----------
    position, last_position : (n,) int64
        The same for an exact mark, else the stretch of the run that it is in.
    cpu : (n,) int64
        ``NO_CPU`` for marks of the whole run.
    sign : (n,) int64
    count : (n,) int64
        Events that it stands for.
    texts : sequence of str
        What they are called; empty for marks of CPUs.
    """

    position: NDArray[np.int64]
    last_position: NDArray[np.int64]
    cpu: NDArray[np.int64]
    sign: NDArray[np.int64]
    count: NDArray[np.int64]
    texts: Sequence[str] = ()


def no_marks() -> MarkTable:
    """An empty table."""
    none = np.empty(0, dtype=np.int64)
    return MarkTable(none, none, none, none, none)


def joined(tables: Sequence[MarkTable]) -> MarkTable:
    """Several tables of CPUs' marks in one, sorted."""
    if not tables:
        return no_marks()
    columns = [
        np.concatenate([getattr(table, name) for table in tables])
        for name in ("position", "last_position", "cpu", "sign", "count")
    ]
    order = np.argsort(columns[0], kind="stable")
    position, last_position, cpu, sign, count = (column[order] for column in columns)
    return MarkTable(position, last_position, cpu, sign, count)


@dataclass(frozen=True)
class PlacedMarks:
    """Marks that are drawn; one row each, arrays of the same length.

    Attributes
    ----------
    x : (n,) float64
        Logical pixels from the left edge of the lanes.
    row : (n,) int64
        The CPU, or ``NO_CPU``.
    first : (n,) int64
        Row in the table of the first mark that it stands for.
    count : (n,) int64
        Events that it stands for.
    """

    x: NDArray[np.float64]
    row: NDArray[np.int64]
    sign: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    exact: NDArray[np.bool_]


def place_marks(table: MarkTable, window: TimeWindow, width: float, rows: range) -> PlacedMarks:
    """Find out which marks are drawn where.

    Parameters
    ----------
    table : MarkTable
        All marks.
    window : TimeWindow
        What ``width`` logical pixels show.
    rows : range
        CPUs whose lanes are visible; a range that holds ``NO_CPU`` takes the marks of the whole run.
    """
    low, high = np.searchsorted(table.position, [window.first, np.nextafter(window.last, np.inf)])
    # A stretch that begins before the left edge still reaches into the view: it is drawn at the edge.
    position = table.position[low:high]
    row, sign = table.cpu[low:high], table.sign[low:high]
    scale = width / window.visible
    x = (position - window.first) * scale
    seen = np.flatnonzero((row >= rows.start) & (row < rows.stop))
    bins = int(width // BIN_PIXELS) + 1
    row, sign, x = row[seen], sign[seen], x[seen]
    cell = ((row - rows.start) * bins + np.minimum((x // BIN_PIXELS).astype(np.int64), bins - 1)) * len(Sign)
    cell += sign
    size = len(rows) * bins * len(Sign)
    counts = np.bincount(cell, weights=table.count[low:high][seen], minlength=size).astype(np.int64)
    first = np.zeros(size, dtype=np.int64)
    first[cell[::-1]] = (seen + low)[::-1]  # the first of equal ones is written last
    return _chosen(table, window, scale, counts.reshape(-1, bins, len(Sign)), first, rows)


def _chosen(
    table: MarkTable,
    window: TimeWindow,
    scale: float,
    counts: NDArray[np.int64],
    first: NDArray[np.int64],
    rows: range,
) -> PlacedMarks:
    # One mark for each bin, of the largest sign that does not fill its lane.
    _, bins, signs = counts.shape
    present = counts > 0
    most = max(_ALWAYS, min(int(bins * _FULL_SHARE), _MOST_OF_A_KIND // max(len(rows), 1)))
    crowded = present.sum(axis=1) > most
    crowded[:, [sign for sign in Sign if sign not in LANE_SIGNS]] = False
    present &= ~crowded[:, None, :]
    row, place = np.nonzero(present.any(axis=2))
    sign = signs - 1 - np.argmax(present[row, place, ::-1], axis=1)
    chosen = first[(row * bins + place) * signs + sign]
    return PlacedMarks(
        x=(table.position[chosen] - window.first) * scale,
        row=row + rows.start,
        sign=sign,
        first=chosen,
        count=counts[row, place, sign],
        exact=table.position[chosen] == table.last_position[chosen],
    )


def signs_of(*tables: MarkTable) -> list[Sign]:
    """The kinds of marks that a run has, for its legend."""
    present = sum((np.bincount(table.sign, minlength=len(Sign)) for table in tables), np.zeros(len(Sign)))
    return [sign for sign in Sign if present[sign]]


def count_text(sign: Sign, count: int) -> str:
    """``retry``, ``3 retries``."""
    return NAMES[sign] if count == 1 else f"{count} {_MANY.get(sign, NAMES[sign] + 's')}"


def _polygon(*points: tuple[float, float]) -> QPainterPath:
    path = QPainterPath()
    path.addPolygon(QPolygonF([QPointF(x, y) for x, y in points]))
    path.closeSubpath()
    return path


def shape_of_sign(sign: Sign) -> QPainterPath:
    """A mark's outline in the square from -1 to 1, y downwards."""
    if sign is Sign.SLOW_PATH:
        return _polygon((0, -0.9), (1, 0.9), (-1, 0.9))
    if sign is Sign.INTERRUPT:
        return _polygon((-1, -0.9), (1, -0.9), (0, 0.9))
    if sign is Sign.CONTENDED:
        return _polygon((-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8))
    if sign is Sign.RETRY:
        return _polygon((0, -1.1), (0.85, 0), (0, 1.1), (-0.85, 0))
    if sign is Sign.PHASE:
        return _polygon((-0.6, -1), (0.9, -0.5), (-0.3, 0), (-0.3, 1), (-0.6, 1))
    if sign is Sign.BOOKMARK:
        return _polygon((-0.7, -1), (0.7, -1), (0.7, 1), (0, 0.4), (-0.7, 1))
    if sign is Sign.CHANGE:
        t = 0.32
        return _polygon(
            (-t, -1), (t, -1), (t, -t), (1, -t), (1, t), (t, t),
            (t, 1), (-t, 1), (-t, t), (-1, t), (-1, -t), (-t, -t),
        )  # fmt: skip
    if sign is Sign.FAULT:
        t = 0.4
        return _polygon(
            (-1, -1 + t), (-1 + t, -1), (0, -t), (1 - t, -1), (1, -1 + t), (t, 0),
            (1, 1 - t), (1 - t, 1), (0, t), (-1 + t, 1), (-1, 1 - t), (-t, 0),
        )  # fmt: skip
    # One line becomes two.
    return _polygon((0.8, -1), (0.8, -0.45), (-0.1, 0), (0.8, 0.45), (0.8, 1), (-0.9, 0.3), (-0.9, -0.3))


class MarkStamps:
    """Pictures of all marks in a theme's colours, drawn once."""

    def __init__(self, theme: Theme, size: float, unit: float) -> None:
        self._size = size
        self._half = size / 2 + 1.5
        self._stamps = {
            (sign, exact): self._stamp(sign, theme, unit, exact) for sign in Sign for exact in (True, False)
        }

    def draw(self, painter: QPainter, sign: Sign, x: float, y: float, exact: bool = True) -> None:
        """Draw a mark with its centre at a place."""
        painter.drawPixmap(QPointF(x - self._half, y - self._half), self._stamps[sign, exact])

    def _stamp(self, sign: Sign, theme: Theme, unit: float, exact: bool) -> QPixmap:
        side = 2 * self._half
        pixmap = QPixmap(round(side * unit), round(side * unit))
        pixmap.setDevicePixelRatio(unit)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(self._half, self._half)
        scale = self._size / 2
        painter.scale(scale, scale)
        path = shape_of_sign(sign)
        colour = theme.color(_MEANINGS[sign])
        # A rim of the ground's colour keeps it apart from the lane.
        painter.strokePath(path, QPen(theme.color("panel"), 2.4 / scale, j=Qt.PenJoinStyle.RoundJoin))
        if exact:
            painter.fillPath(path, colour)
        else:
            painter.fillPath(path, theme.color("panel"))
            painter.strokePath(path, QPen(colour, 1.2 / scale, j=Qt.PenJoinStyle.MiterJoin))
        painter.end()
        return pixmap


def hit(marks: PlacedMarks, x: float, row: int, reach: float) -> int:
    """The drawn mark of a row nearest to ``x``, at most ``reach`` pixels away; -1 for none."""
    if not marks.x.size:
        return -1
    distance = np.where(marks.row == row, np.abs(marks.x - x), np.inf)
    nearest = int(np.argmin(distance))
    return nearest if distance[nearest] <= reach else -1


def stamp_area(x: float, y: float, size: float) -> QRectF:
    """The square that a mark covers."""
    return QRectF(x - size / 2, y - size / 2, size, size)
