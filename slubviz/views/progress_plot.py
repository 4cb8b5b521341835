"""Live plot of cycles per operation, with the published value beside it.

A single published value is a line, a published range a band.  The number above the plot is the
mean so far and its distance from what was published.
"""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from slubviz.model.plan import WORKLOADS, Sweep
from slubviz.model.results import CellResult, error_percent
from slubviz.model.snapshot import PhaseView, ProgressSeries, Snapshot
from slubviz.views import numbers
from slubviz.views.theme import Theme

#: More points than this are thinned out before they are drawn.
_MOST_POINTS = 2_000
#: Operations per CPU of the published tables that sweep sizes: other runs are not held against them in
#: percent.  The mails on bulk calls and on cmpxchg_local repeat as often as it takes for a steady mean.
PUBLISHED_OPS = 10_000
#: What is counted along the axis; operations unless named.
_UNITS = {"bulk": "objects", "irq-cmpxchg": "rounds", "hackbench": "messages, all CPUs"}
_PUBLISHED_RUN = f"{numbers.integer(PUBLISHED_OPS)} ops"
#: Height of the reference's label, of the plot's.
_LABEL_SHARE = 0.15
_NO_POINTS = (np.empty(0), np.empty(0))


class ProgressPlot(QWidget):
    """Shows the running mean of the measured phase."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._phase: PhaseView | None = None
        self._points = _NO_POINTS
        self._micro_ops = 0
        self._final: float | None = None
        self._value = QLabel("–")
        self._compare = QLabel()
        self._compare.setObjectName("muted")
        self._compare.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._plot = pg.PlotWidget(axisItems={side: _ThinAxis(side) for side in ("left", "bottom")})
        self._curve = self._plot.plot([], [])
        self._published_line = pg.InfiniteLine(angle=0, movable=False)
        self._mean_line = pg.InfiniteLine(angle=0, movable=False)
        self._published_band = pg.LinearRegionItem(orientation="horizontal", movable=False)
        self._published_text = pg.TextItem(anchor=(1, 1))
        self._build()
        self.set_theme(theme)

    def sizeHint(self) -> QSize:
        return QSize(320, 240)

    @property
    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Operations and cycles per operation that are drawn."""
        x, y = self._curve.getData()
        return (np.empty(0), np.empty(0)) if x is None else (x, y)

    @property
    def reference(self) -> tuple[float, float] | None:
        """The published value or range that is drawn; None if none is."""
        if self._published_line.isVisible():
            return float(self._published_line.value()), float(self._published_line.value())
        if self._published_band.isVisible():
            low, high = self._published_band.getRegion()
            return float(low), float(high)
        return None

    @property
    def axes_visible(self) -> bool:
        """Whether the axes are shown."""
        return all(self._plot.getAxis(name).isVisible() for name in ("left", "bottom"))

    @property
    def mean_line(self) -> float | None:
        """The mean of a finished cell that is drawn; None if none is."""
        return float(self._mean_line.value()) if self._mean_line.isVisible() else None

    @property
    def reference_text(self) -> str:
        """The label of the reference; empty if none is drawn."""
        return str(self._published_text.toPlainText()) if self.reference else ""

    @property
    def axis_text(self) -> str:
        """What the horizontal axis counts."""
        return str(self._plot.getAxis("bottom").labelText)

    @property
    def value_text(self) -> str:
        """The number above the plot."""
        return self._value.text()

    @property
    def compare_text(self) -> str:
        """What stands beside the number."""
        return self._compare.text()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self._plot.setBackground(theme.panel)
        self._curve.setPen(pg.mkPen(theme.plot_line, width=2))
        self._curve.setSymbolPen(None)
        self._curve.setSymbolBrush(theme.plot_line)
        self._published_line.setPen(pg.mkPen(theme.plot_published, width=1.5, style=Qt.PenStyle.DashLine))
        self._mean_line.setPen(pg.mkPen(theme.plot_line, width=1))
        band = QColor(theme.plot_published)
        band.setAlpha(48)
        self._published_band.setBrush(band)
        for line in self._published_band.lines:
            line.setPen(pg.mkPen(theme.plot_published, width=1))
        self._published_text.setColor(theme.color("plot_published"))
        for name in ("left", "bottom"):
            axis = self._plot.getAxis(name)
            axis.setPen(pg.mkPen(theme.border))
            axis.setTextPen(pg.mkPen(theme.text_muted))
        self._label_axes()

    def show_progress(self, snapshot: Snapshot | None, last: CellResult | None = None) -> None:
        """Show a snapshot's running mean.

        Parameters
        ----------
        snapshot : Snapshot or None
            A phase without points yet, or one that is not measured, leaves the last measured phase on
            show; None, or a run that has gone back, clears the plot.
        last : CellResult or None
            The cell measured last: its mean comes in the place of a running mean whose phase is over.
        """
        if snapshot is None or snapshot.micro_ops < self._micro_ops:
            self._phase, self._points = None, _NO_POINTS
        self._micro_ops = snapshot.micro_ops if snapshot else 0
        running = snapshot is not None and snapshot.phase is not None and snapshot.phase.measured
        points = thinned(snapshot.progress) if running and snapshot else _NO_POINTS
        if points[0].size and snapshot:
            self._phase, self._points = snapshot.phase, points
            last = None
        if last is not None:
            if not _is_of(last, self._phase):
                self._phase, self._points = _phase_of(last), _NO_POINTS
            # Also what no picture was taken of: between the measured phases the series is the last one's.
            ended = thinned(snapshot.progress) if snapshot and not running else _NO_POINTS
            self._points = ended if ended[0].size else self._points
        self._final = None if last is None else last.cycles_per_op
        # A line through a single point is nothing to see.
        self._curve.setData(*self._points, symbol="o" if self._points[0].size == 1 else None)
        self._show_axes(self._points[0].size > 0 or self._final is not None)
        if self.axis_text != axis_text(self._phase):
            self._label_axes()
        self._show_reference(self._phase)
        self._show_numbers(self._phase)

    def facts(self) -> str:
        """What is shown, for the panel's head."""
        phase = self._phase
        if phase is None:
            return ""
        return ", ".join(filter(None, (phase.operation, numbers.point(phase.size_bytes, phase.objects))))

    def _build(self) -> None:
        big = QFont(self.font())
        big.setPointSizeF(max(18.0, self.font().pointSizeF() * 1.7))
        big.setWeight(QFont.Weight.DemiBold)
        self._value.setFont(big)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self._value)
        head.addWidget(self._compare, 1, Qt.AlignmentFlag.AlignBottom)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(head)
        layout.addWidget(self._plot, 1)
        self._plot.setMinimumHeight(90)
        self._plot.setMouseEnabled(x=False, y=False)
        self._plot.setMenuEnabled(False)
        self._plot.hideButtons()
        self._plot.showGrid(x=False, y=True, alpha=0.15)
        for item in (self._published_band, self._published_line, self._mean_line, self._published_text):
            item.setVisible(False)
            self._plot.addItem(item, ignoreBounds=True)
        self._published_band.setZValue(-10)
        for name in ("left", "bottom"):
            axis = self._plot.getAxis(name)
            axis.setStyle(tickFont=self.font(), tickLength=-4)
            axis.enableAutoSIPrefix(False)
        # A fixed width: one that follows the numbers moves the whole plot about.
        self._plot.getAxis("left").setWidth(self.fontMetrics().horizontalAdvance("000 000") + 12)

    def _label_axes(self) -> None:
        style = {"color": self._theme.text_muted, "font-size": f"{self.font().pointSizeF():.0f}pt"}
        self._plot.setLabel("bottom", axis_text(self._phase), **style)

    def _show_axes(self, visible: bool) -> None:
        for name in ("left", "bottom"):
            if self._plot.getAxis(name).isVisible() != visible:
                self._plot.showAxis(name, visible)

    def _show_reference(self, phase: PhaseView | None) -> None:
        limits = published(phase)
        self._published_line.setVisible(limits is not None and limits[0] == limits[1])
        self._published_band.setVisible(limits is not None and limits[0] != limits[1])
        self._published_text.setVisible(limits is not None)
        self._mean_line.setVisible(self._final is not None)
        values = settled(*self._points)
        if self._final is not None:
            self._mean_line.setValue(self._final)
            values = np.append(values, self._final)
        bottom, top = value_range(values, limits)
        self._plot.setYRange(bottom, top, padding=0)
        # The axis ends where the phase ends, so that the curve also shows how far it is.
        ends = [1, *self._points[0][-1:], phase.operations_total if phase else 1]
        right = float(max(ends))
        self._plot.setXRange(0.0, right, padding=0.01)
        if limits is None:
            return
        low, high = limits
        if low == high:
            self._published_line.setValue(low)
        else:
            self._published_band.setRegion((low, high))
        self._published_text.setText(reference_label(phase, (low, high)))
        # On the side of the reference where the curve is not, if the label has room there.
        mean = self._mean()
        under = mean is not None and mean > (low + high) / 2
        under = under and low - bottom > _LABEL_SHARE * (top - bottom)
        self._published_text.setAnchor((1, 0) if under else (1, 1))
        self._published_text.setPos(right, low if under else high)

    def _mean(self) -> float | None:
        if self._final is not None:
            return self._final
        return float(self._points[1][-1]) if self._points[1].size else None

    def _show_numbers(self, phase: PhaseView | None) -> None:
        mean = self._mean()
        if mean is None:
            self._value.setText("–")
            self._compare.setText("nothing measured yet")
            return
        self._value.setText(value_text(mean))
        limits = published(phase)
        if limits is None:
            self._compare.setText("nothing published")
            return
        if not is_comparable(phase):
            self._compare.setText(f"published {range_text(*limits)} ({_PUBLISHED_RUN})")
            return
        error = error_percent(mean, limits)
        distance = "within" if not error else numbers.signed_percent(error)
        self._compare.setText(f"published {range_text(*limits)}  ·  {distance}")


def thinned(series: ProgressSeries | None) -> tuple[np.ndarray, np.ndarray]:
    """The points to draw: all, or evenly chosen ones with the last among them."""
    if series is None or series.operations.size == 0:
        return np.empty(0), np.empty(0)
    count = int(series.operations.size)
    keep = np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(np.int64))
    return series.operations[keep].astype(np.float64), series.cycles_per_op[keep]


def published(phase: PhaseView | None) -> tuple[float, float] | None:
    """A measured phase's published range; None if there is none."""
    if phase is None or not phase.measured or phase.published_low is None:
        return None
    high = phase.published_low if phase.published_high is None else phase.published_high
    return phase.published_low, high


def is_comparable(phase: PhaseView | None) -> bool:
    """Whether a phase has as many operations as the published measurements."""
    return phase is not None and has_published_ops(phase.test, phase.ops)


def has_published_ops(test: str, ops: int) -> bool:
    """Whether so many operations per CPU are what the published numbers of a test were measured with."""
    swept = test not in WORKLOADS or WORKLOADS[test].sweep == Sweep.SIZE
    return ops == PUBLISHED_OPS or not swept


def axis_text(phase: PhaseView | None) -> str:
    """What the horizontal axis counts."""
    return "operations, all CPUs" if phase is None else _UNITS.get(phase.test, "operations, all CPUs")


def reference_label(phase: PhaseView | None, limits: tuple[float, float]) -> str:
    """What stands at the reference: its value, or its operations where the run has other ones."""
    return f"published {range_text(*limits)}" if is_comparable(phase) else f"published ({_PUBLISHED_RUN})"


def _is_of(cell: CellResult, phase: PhaseView | None) -> bool:
    # Whether a phase is the one that gave a cell.
    if phase is None:
        return False
    shown = (phase.test, phase.operation, phase.size_bytes, phase.objects)
    return shown == (cell.test, cell.operation, cell.size_bytes, cell.objects)


def _phase_of(cell: CellResult) -> PhaseView:
    # A measured phase as far as a finished cell tells.
    low, high, ops = cell.published_low, cell.published_high, cell.ops
    return PhaseView(
        0, 1, cell.test, cell.operation, cell.size_bytes, True, ops, low, high, ops, cell.objects
    )


def range_text(low: float, high: float) -> str:
    """One number or a range of two."""
    return value_text(low) if low == high else f"{value_text(low)}–{value_text(high)}"


def value_text(value: float) -> str:
    """Cycles of an operation: a decimal where it matters and is there."""
    if value >= 1000 or value == round(value):
        return numbers.integer(value)
    return f"{value:.1f}"


def settled(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The part of a running mean that has few outliers: without its first quarter."""
    return y[x >= x[-1] / 4] if x.size else y


def value_range(y: np.ndarray, limits: tuple[float, float] | None) -> tuple[float, float]:
    """Range of the value axis: what matters in the middle, with room around it.

    What matters is the published range, the newest mean and most of the curve.  The first points of
    a running mean can be far out; they may not squeeze the rest.
    """
    finite = y[np.isfinite(y)]
    values = [] if limits is None else list(limits)
    if finite.size:
        values += [float(finite[-1]), float(np.percentile(finite, 10)), float(np.percentile(finite, 90))]
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    room = max(0.6 * (high - low), 0.15 * abs(high), 1.0)
    return max(0.0, low - room), high + room


class _ThinAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    # An axis whose numbers have thin separators.

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        if spacing >= 1:
            return [numbers.integer(value * scale) for value in values]
        return [str(text) for text in super().tickStrings(values, scale, spacing)]
