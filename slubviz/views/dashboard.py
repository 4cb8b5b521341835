"""The panels of a run, side by side: CPUs, slab map, and on the right plot, locks and tables."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QSplitter, QTabWidget, QVBoxLayout, QWidget

from slubviz.model.snapshot import Snapshot
from slubviz.views import numbers
from slubviz.views.cpu_layout import Pace
from slubviz.views.cpu_panel import CpuPanel
from slubviz.views.lock_panel import LockPanel
from slubviz.views.panel import Panel
from slubviz.views.progress_plot import ProgressPlot
from slubviz.views.slab_legend import SlabLegend
from slubviz.views.slab_map import SlabMap
from slubviz.views.tables import (
    COUNTER_HEADERS,
    RESULT_HEADERS,
    TableView,
    TextTable,
    counter_rows,
    result_rows,
)
from slubviz.views.theme import Theme
from slubviz.views.worker import ViewUpdate, WorkerState

#: Above this speed the cards change faster than one can read: they are shown less often.
_READABLE_RATE = 2_000.0
_CARDS_EVERY = 4
#: Milliseconds between two pictures of what is slow to paint and not looked at while things move.
_REST_MILLISECONDS = 150
#: Below this speed one can follow whose turn is next.
_FOLLOWED_RATE = 1_000.0


class Dashboard(QWidget):
    """Shows updates; the panels read them and know nothing of each other."""

    def __init__(self, theme: Theme, code_font: QFont, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cpus = CpuPanel(theme, code_font)
        self.map = SlabMap(theme)
        self.legend = SlabLegend(theme)
        self.locks = LockPanel(theme)
        self.plot = ProgressPlot(theme)
        self.results = TextTable(RESULT_HEADERS)
        self.counters = TextTable(COUNTER_HEADERS)
        self._cpu_panel = Panel("CPUs", self.cpus)
        self._map_panel = Panel("Slabs", self._map_with_legend())
        self._lock_panel = Panel("Locks", self.locks)
        self._plot_panel = Panel("Cycles per operation", self.plot)
        self._splitter = QSplitter(Qt.Orientation.Horizontal)
        self._right = QSplitter(Qt.Orientation.Vertical)
        self._shown_state = WorkerState.EMPTY
        self._updates = 0
        self._rest: ViewUpdate | None = None
        self._rest_shown = False
        self._rest_timer = QTimer(self)
        self._rest_timer.setSingleShot(True)
        self._rest_timer.setInterval(_REST_MILLISECONDS)
        self._rest_timer.timeout.connect(self._show_rest)
        self._placed = False
        self._build()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        for widget in (self.cpus, self.map, self.legend, self.locks, self.plot):
            widget.set_theme(theme)

    def show_update(self, update: ViewUpdate) -> None:
        """Show an update in every panel."""
        snapshot = update.snapshot
        self.map.show_slabs(snapshot, update.summary)
        self.locks.show_locks(snapshot)
        self._rest = update
        if not self._rest_timer.isActive() or not self._rest_shown:  # the first picture of a run is whole
            self._show_rest()
        if self._cards_are_due(update):
            self.cpus.show_cpus(snapshot, update.sources, pace_of(update))
            self._cpu_panel.set_info(self.cpus.facts())
        self.legend.setVisible(self.map.has_slabs())
        self.legend.set_family(snapshot.family if snapshot else "slub")
        self._map_panel.set_title(map_title(snapshot))
        self._map_panel.set_info(self.map.facts())
        self._lock_panel.set_info(self.locks.facts())

    def _show_rest(self) -> None:
        """Plot and tables: at once, then again when some time has passed and there is something newer."""
        update, self._rest = self._rest, None
        if update is None:
            return
        snapshot = update.snapshot
        self._rest_shown = snapshot is not None
        self.plot.show_progress(snapshot, update.results[-1] if update.results else None)
        self.results.set_rows(result_rows(update.results))
        self.counters.set_rows(counter_rows(snapshot.counters) if snapshot else [])
        self._plot_panel.set_info(self.plot.facts())
        self._rest_timer.start()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if not self._placed:
            self._place(event.size().width(), event.size().height())

    def _cards_are_due(self, update: ViewUpdate) -> bool:
        self._updates += 1
        changed = update.state is not self._shown_state
        self._shown_state = update.state
        fast = update.state is WorkerState.RUNNING and update.micro_ops_per_second > _READABLE_RATE
        return changed or not fast or self._updates % _CARDS_EVERY == 0

    def _map_with_legend(self) -> QWidget:
        box = QWidget()
        layout = QVBoxLayout(box)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.map, 1)
        layout.addWidget(self.legend, 0)
        return box

    def _tables(self) -> Panel:
        tabs = QTabWidget()
        tabs.setDocumentMode(True)
        tabs.addTab(TableView(self.results, "Results", "No cell is measured yet."), "Results")
        tabs.addTab(TableView(self.counters, "Counters", "Nothing is counted yet."), "Counters")
        tabs.tabBar().setExpanding(False)
        tabs.tabBar().setDrawBase(False)
        return Panel("", tabs)

    def _build(self) -> None:
        for panel in (self._plot_panel, self._lock_panel, self._tables()):
            self._right.addWidget(panel)
        for part in (self._cpu_panel, self._map_panel, self._right):
            self._splitter.addWidget(part)
        for splitter in (self._splitter, self._right):
            splitter.setHandleWidth(8)
            splitter.setChildrenCollapsible(False)
        self._splitter.splitterMoved.connect(self._user_placed)
        self._right.splitterMoved.connect(self._user_placed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addWidget(self._splitter)

    def _user_placed(self) -> None:
        self._placed = True

    def _place(self, width: int, height: int) -> None:
        # Shares of the window until the user drags a border.
        self._splitter.setSizes([round(width * 0.31), round(width * 0.41), round(width * 0.28)])
        self._right.setSizes([round(height * 0.42), round(height * 0.27), round(height * 0.31)])


def pace_of(update: ViewUpdate) -> Pace:
    """How fast the run goes for the eye."""
    if update.state is not WorkerState.RUNNING:
        return Pace.STILL
    return Pace.SLOW if update.asked_rate < _FOLLOWED_RATE else Pace.FAST


def map_title(snapshot: Snapshot | None) -> str:
    """Name of the shown cache."""
    if snapshot is None:
        return "Slabs"
    if snapshot.phase is not None and snapshot.phase.size_bytes == 0:
        return "Slabs"
    if not snapshot.cache_name:
        return f"Page allocator, {numbers.size(snapshot.cache_size_bytes)}"
    return f"Slabs of {snapshot.cache_name}"
