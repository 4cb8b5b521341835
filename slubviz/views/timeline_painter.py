"""Draws a timeline: the picture that only changes with the view, and what moves on top of it.

The picture (legend, rulers, lanes, marks) is drawn once into a pixmap for each view; the cursor, the A and B
markers and the end of the recording are a few lines over it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter, QPen, QPixmap, QPolygonF

from slubviz.model.travel.activity import Activity
from slubviz.views import numbers
from slubviz.views.theme import Theme
from slubviz.views.timeline_layout import TimelineLayout
from slubviz.views.timeline_marks import (
    NAMES,
    NO_CPU,
    MarkStamps,
    MarkTable,
    PlacedMarks,
    Sign,
    place_marks,
)
from slubviz.views.timeline_raster import (
    MEANINGS,
    BucketTable,
    Columns,
    LaneColours,
    Pixels,
    SpanArrays,
    bucket_columns,
    lane_pixels,
    shape_of,
    span_columns,
)
from slubviz.views.timeline_window import ClockScale, TimeWindow, ticks, with_room

#: Pixels of a mark.
MARK_PIXELS = 9
_SWATCH = 11
_LABEL_X = 8.0
_TICK_GAP = 4.0
#: Columns times lanes; more would not be drawn in time for the next picture.
_MOST_CELLS = 100_000
_VCENTER = Qt.AlignmentFlag.AlignVCenter
_LEGEND = (
    (Activity.FAST_PATH, "fast path"),
    (Activity.SLOW_PATH, "slow path"),
    (Activity.WAITING, "waiting for a lock"),
    (Activity.WORKLOAD, "workload"),
    (Activity.IDLE, "idle"),
)
#: From this many pixels per micro-op on, each one has a line.
_GRID_PIXELS = 12.0


@dataclass(frozen=True)
class Scene:
    """All that the picture depends on."""

    window: TimeWindow
    layout: TimelineLayout
    clock: ClockScale
    buckets: BucketTable | None
    spans: SpanArrays | None
    lane_marks: MarkTable
    run_marks: MarkTable


@dataclass(frozen=True)
class Picture:
    """What was drawn, and the marks on it for the pointer to find."""

    pixmap: QPixmap
    lane_marks: PlacedMarks
    run_marks: PlacedMarks


class TimelinePainter:
    """Draws with one theme and font at one resolution."""

    def __init__(self, theme: Theme, font: QFont, unit: float, colours: LaneColours) -> None:
        self._theme = theme
        self._font = font
        self._metrics = QFontMetricsF(font)
        self._stamps = MarkStamps(theme, MARK_PIXELS, unit)
        self._unit = unit
        self._colours = colours
        # Kept from picture to picture: new ones of this size cost more than what is drawn into them.
        self._pixmap = QPixmap()
        self._pixels: Pixels | None = None

    def picture(self, scene: Scene) -> Picture:
        """Draw everything that does not move."""
        layout = scene.layout
        size = (max(round(layout.width * self._unit), 1), max(round(layout.height * self._unit), 1))
        if (self._pixmap.width(), self._pixmap.height()) != size:
            self._pixmap = QPixmap(*size)
            self._pixmap.setDevicePixelRatio(self._unit)
        pixmap = self._pixmap
        pixmap.fill(self._theme.color("panel"))
        lane_marks = place_marks(scene.lane_marks, scene.window, layout.plot_width, layout.cpus)
        run_marks = place_marks(scene.run_marks, scene.window, layout.plot_width, range(NO_CPU, NO_CPU + 1))
        painter = QPainter(pixmap)
        painter.setFont(self._font)
        self._draw_lanes(painter, scene)
        self._draw_rulers(painter, scene)
        self._draw_labels(painter, layout)
        self._draw_lane_marks(painter, layout, lane_marks)
        self._draw_run_marks(painter, layout, run_marks, scene.run_marks)
        painter.end()
        return Picture(pixmap, lane_marks, run_marks)

    def _draw_lanes(self, painter: QPainter, scene: Scene) -> None:
        layout = scene.layout
        shape = shape_of(layout.pitch_device)
        self._pixels = lane_pixels(columns_of(scene), shape, self._colours, self._pixels)
        height, width = self._pixels.shape
        image = QImage(self._pixels.data, width, height, width * 4, QImage.Format.Format_RGB32)
        place = QRectF(layout.plot_x, layout.lanes_y, layout.columns / self._unit, height / self._unit)
        painter.drawImage(place, image)

    def _draw_rulers(self, painter: QPainter, scene: Scene) -> None:
        layout, window = scene.layout, scene.window
        painter.setPen(self._theme.color("text_muted"))
        rows = [("micro-ops", layout.ruler_y), ("cycles", layout.cycles_y)]
        for name, y in rows[: 2 if layout.has_cycles else 1]:
            place = QRectF(_LABEL_X, y, layout.plot_x - _LABEL_X, layout.line)
            painter.drawText(place, _VCENTER, name)
        most = self._most_labels(layout, numbers.integer(window.last))
        grid = layout.plot_width / window.visible >= _GRID_PIXELS
        left, width = layout.plot_x, layout.plot_width
        values = ticks(window.first, window.last, most)
        places = [left + window.fraction_of(value) * width for value in values]
        self._draw_ruler(painter, layout, layout.ruler_y, places, values, grid)
        if scene.clock.empty or not layout.has_cycles:
            return
        first, last = scene.clock.cycles_at(window.first), scene.clock.cycles_at(window.last)
        values = ticks(first, last, self._most_labels(layout, numbers.integer(last)))
        places = [left + window.fraction_of(scene.clock.position_of(value)) * width for value in values]
        self._draw_ruler(painter, layout, layout.cycles_y, places, values)

    def _most_labels(self, layout: TimelineLayout, longest: str) -> int:
        return max(int(layout.plot_width // (self._metrics.horizontalAdvance(longest) + 36)), 1)

    def _draw_ruler(
        self,
        painter: QPainter,
        layout: TimelineLayout,
        y: float,
        places: list[float],
        values: list[int],
        grid: bool = False,
    ) -> None:
        texts = [numbers.integer(value) for value in values]
        widths = [self._metrics.horizontalAdvance(text) for text in texts]
        bottom = layout.lanes_y + layout.lanes_height if grid else y + layout.line - 2
        labels = [x + _TICK_GAP for x in places]
        room = with_room(labels, widths, layout.width - 2, _TICK_GAP)
        for x, text, width, shown in zip(places, texts, widths, room, strict=True):
            if not layout.plot_x - 1 <= x <= layout.plot_x + layout.plot_width + 1:
                continue
            painter.setPen(self._theme.color("border"))
            painter.drawLine(QPointF(x, y + 3), QPointF(x, bottom))
            if shown:
                painter.setPen(self._theme.color("text_muted"))
                painter.drawText(QRectF(x + _TICK_GAP, y, width + 1, layout.line), _VCENTER, text)

    def _draw_labels(self, painter: QPainter, layout: TimelineLayout) -> None:
        painter.setPen(self._theme.color("text_muted"))
        stride = max(1, int(np.ceil(self._metrics.capHeight() * 1.25 / layout.pitch)))
        for cpu in layout.cpus:
            if (cpu - layout.cpus.start) % stride:
                continue
            place = QRectF(_LABEL_X, layout.lane_y(cpu) - layout.line / 2, layout.plot_x, layout.line)
            painter.drawText(place, _VCENTER, f"CPU{numbers.THIN}{cpu}")

    def _draw_lane_marks(self, painter: QPainter, layout: TimelineLayout, marks: PlacedMarks) -> None:
        for x, row, sign, exact in zip(
            marks.x.tolist(), marks.row.tolist(), marks.sign.tolist(), marks.exact.tolist(), strict=True
        ):
            self._stamps.draw(painter, Sign(sign), layout.plot_x + x, layout.lane_y(row), exact)

    def _draw_run_marks(
        self, painter: QPainter, layout: TimelineLayout, marks: PlacedMarks, table: MarkTable
    ) -> None:
        y = layout.flags_y + layout.flags_height / 2
        ends = np.append(marks.x[1:], layout.plot_width)
        painter.setPen(self._theme.color("text_muted"))
        for index, (x, sign) in enumerate(zip(marks.x.tolist(), marks.sign.tolist(), strict=True)):
            left = layout.plot_x + x
            if sign == Sign.PHASE:
                room = float(ends[index]) - x - 2 * MARK_PIXELS
                text = table.texts[int(marks.first[index])]
                if room > self._metrics.horizontalAdvance(text):
                    place = QRectF(left + MARK_PIXELS, layout.flags_y, room, layout.flags_height)
                    painter.drawText(place, _VCENTER, text)
            self._stamps.draw(painter, Sign(sign), left, y)

    def draw_legend(self, painter: QPainter, layout: TimelineLayout, signs: list[Sign], right: float) -> int:
        """Draw as many entries as have room left of ``right``; returns how many."""
        painter.setFont(self._font)
        x, y, drawn = float(layout.plot_x), layout.legend_y, 0
        middle = y + layout.line / 2
        entries: list[tuple[Activity | Sign | None, str]] = [*_LEGEND, (None, "interrupt depth")]
        entries += [(sign, NAMES[sign]) for sign in signs]
        for what, text in entries:
            width = _SWATCH + 5 + self._metrics.horizontalAdvance(text)
            if x + width > right:
                break
            if isinstance(what, Sign):
                self._stamps.draw(painter, what, x + _SWATCH / 2, middle)
            else:
                self._draw_swatch(painter, what, QRectF(x, middle - _SWATCH / 2, _SWATCH, _SWATCH))
            painter.setPen(self._theme.color("text_muted"))
            painter.drawText(QRectF(x + _SWATCH + 5, y, width, layout.line), _VCENTER, text)
            x += width + 14
            drawn += 1
        return drawn

    def _draw_swatch(self, painter: QPainter, activity: Activity | None, place: QRectF) -> None:
        if activity is None:  # three levels of interrupts, as steps
            for level, share in enumerate((1.0, 0.66, 0.33)):
                height = place.height() / 3
                step = QRectF(
                    place.left(), place.bottom() - (level + 1) * height, place.width() * share, height
                )
                painter.fillRect(step, QColor(int(self._colours.levels[level % 2])))
            return
        painter.fillRect(place, self._theme.color(MEANINGS[activity]))
        if activity is Activity.WAITING:
            painter.save()
            painter.setClipRect(place)
            painter.setPen(QPen(QColor(self._colours.hatch), 1.5))
            for offset in (-4, 2, 8):
                low = QPointF(place.left() + offset, place.bottom())
                painter.drawLine(low, low + QPointF(place.height(), -place.height()))
            painter.restore()

    def draw_cursor(self, painter: QPainter, layout: TimelineLayout, x: float) -> None:
        """A line over all lanes with a handle on the ruler."""
        top, bottom = layout.ruler_y, layout.lanes_y + layout.lanes_height
        painter.setPen(QPen(self._theme.color("panel"), 4))
        painter.drawLine(QPointF(x, top), QPointF(x, bottom))
        painter.setPen(QPen(self._theme.color("text"), 2))
        painter.drawLine(QPointF(x, top), QPointF(x, bottom))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("text"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.drawPolygon(QPolygonF([QPointF(x - 6, top), QPointF(x + 6, top), QPointF(x, top + 7)]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def draw_marker(self, painter: QPainter, layout: TimelineLayout, x: float, letter: str) -> None:
        """The A or B marker: a dashed line with a letter."""
        bottom = layout.lanes_y + layout.lanes_height
        painter.setPen(QPen(self._theme.color("accent"), 1.5, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, layout.ruler_y + 2), QPointF(x, bottom))
        side = layout.flags_height
        place = QRectF(x - side / 2, layout.flags_y, side, side)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("accent"))
        painter.drawRoundedRect(place, 3, 3)
        painter.setPen(self._theme.color("on_accent"))
        painter.setFont(self._font)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, letter)

    def draw_between(self, painter: QPainter, layout: TimelineLayout, left: float, right: float) -> None:
        """The stretch between the markers."""
        shade = self._theme.color("accent")
        shade.setAlpha(40)
        height = layout.lanes_y + layout.lanes_height - layout.flags_y
        painter.fillRect(QRectF(left, layout.flags_y, right - left, height), shade)

    def draw_end(self, painter: QPainter, layout: TimelineLayout, x: float) -> None:
        """Where the recording ends."""
        painter.setPen(QPen(self._theme.color("text_muted"), 1, Qt.PenStyle.DotLine))
        painter.drawLine(QPointF(x, layout.flags_y), QPointF(x, layout.lanes_y + layout.lanes_height))


def columns_of(scene: Scene) -> Columns:
    """What every pixel column of a scene shows: the detail where there is one, elsewhere the overview."""
    layout, window = scene.layout, scene.window
    columns, cpus = _columns(layout), layout.cpus
    spans = scene.spans
    if spans is None:
        return _from_buckets(scene)
    scale = columns / window.visible
    first = min(max(int(np.ceil((spans.first - window.first) * scale - 1e-6)), 0), columns)
    last = min(max(int(np.floor((spans.last - window.first) * scale + 1e-6)), 0), columns)
    if last <= first:
        return _from_buckets(scene)
    exact = span_columns(spans, window, columns, cpus, first, last)
    if last - first == columns:
        return exact
    rest = _from_buckets(scene)
    rest.shares[:, :, first:last] = exact.shares
    rest.depth[:, first:last] = exact.depth
    return rest


def _columns(layout: TimelineLayout) -> int:
    # Columns that are computed; on a large screen full of lanes each is drawn some pixels wide.
    coarse = -(-layout.columns * len(layout.cpus) // _MOST_CELLS)
    return max(layout.columns // max(coarse, 1), 1)


def _from_buckets(scene: Scene) -> Columns:
    layout = scene.layout
    if scene.buckets is not None:
        return bucket_columns(scene.buckets, scene.window, _columns(layout), layout.cpus)
    shares = np.zeros((len(layout.cpus), len(Activity), _columns(layout)), dtype=np.float32)
    return Columns(shares, np.zeros((len(layout.cpus), _columns(layout)), dtype=np.uint8))
