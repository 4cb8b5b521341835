"""The page Steps: source in the middle, panels around it that can be moved, floated, hidden and put back.

A window inside the window, so that Qt does the docking.  It hands an update to each panel; what the panels
ask for is connected by ``steps_wiring``.
"""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabBar, QTabWidget, QVBoxLayout, QWidget

from slubviz.views.branch_panel import BranchPanel
from slubviz.views.breakpoint_panel import BreakpointPanel
from slubviz.views.call_stack import CallStackPanel
from slubviz.views.call_stack_content import stack_content
from slubviz.views.caption_bar import CaptionBar
from slubviz.views.inspector import InspectorPanel
from slubviz.views.lock_panel import LockPanel
from slubviz.views.slab_layout import CLICKABLE
from slubviz.views.slab_legend import SlabLegend
from slubviz.views.slab_map import SlabMap
from slubviz.views.source_panel import SourcePanel
from slubviz.views.source_panel_content import source_content
from slubviz.views.theme import Theme
from slubviz.views.travel_view import TravelView
from slubviz.views.view_update import ViewUpdate
from slubviz.views.watch_panel import WatchPanel

#: Of the layout that settings keep: a layout of other panels is not restored.
LAYOUT_VERSION = 1
#: What a step of a scenario is about, and the panel that shows it.
_FOCUS_PANELS = {"cpu": "stack", "slab": "slabs", "list": "slabs", "lock": "locks"}
_LEGEND_PIXELS = 260
_LEFT_SHARE, _RIGHT_SHARE, _BELOW_SHARE = 0.32, 0.26, 0.26


class _MapBox(QWidget):
    """The map with its legend, where there is room for both."""

    def __init__(self, slab_map: SlabMap, legend: SlabLegend) -> None:
        super().__init__()
        self._legend = legend
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 4, 8, 8)
        layout.setSpacing(6)
        layout.addWidget(slab_map, 1)
        layout.addWidget(legend, 0)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, 80)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._legend.setVisible(event.size().height() >= _LEGEND_PIXELS)


class StepsPage(QMainWindow):
    """Panels around the source; see the module."""

    def __init__(self, theme: Theme, actions: Mapping[str, QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowFlags(Qt.WindowType.Widget)
        self.setObjectName("steps")
        self.caption = CaptionBar(actions)
        self.source = SourcePanel(theme)
        self.stack = CallStackPanel(theme)
        self.inspector = InspectorPanel(theme)
        self.watch = WatchPanel(theme)
        self.breakpoints = BreakpointPanel(theme)
        self.branches = BranchPanel(theme)
        self.map = SlabMap(theme, limits=CLICKABLE)
        self.legend = SlabLegend(theme)
        self.locks = LockPanel(theme)
        self.docks: dict[str, QDockWidget] = {}
        self._placed = False
        self._travel = TravelView()
        self._step_shown: tuple[int, int] | None = None
        self.setCentralWidget(self._source_with_caption())
        self.setDockNestingEnabled(True)
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        self._build()
        self._first_layout = self.saveState(LAYOUT_VERSION)

    def _build(self) -> None:
        left, right, below = (
            Qt.DockWidgetArea.LeftDockWidgetArea,
            Qt.DockWidgetArea.RightDockWidgetArea,
            Qt.DockWidgetArea.BottomDockWidgetArea,
        )
        self._dock("stack", "Call stack", self.stack, left)
        for name, title, panel in (
            ("inspector", "Inspector", self.inspector),
            ("watch", "Watch", self.watch),
            ("breakpoints", "Breakpoints", self.breakpoints),
            ("branches", "Branches", self.branches),
        ):
            self._dock(name, title, panel, right)
        for name in ("watch", "breakpoints", "branches"):
            self.tabifyDockWidget(self.docks["inspector"], self.docks[name])
        self.docks["inspector"].raise_()
        for bar in self.findChildren(QTabBar):
            bar.setDrawBase(False)
        self._dock("slabs", "Slabs", self._map_with_legend(), below)
        self._dock("locks", "Locks", self.locks, below)
        self.splitDockWidget(self.docks["slabs"], self.docks["locks"], Qt.Orientation.Horizontal)
        self.setCorner(Qt.Corner.BottomLeftCorner, left)
        self.setCorner(Qt.Corner.BottomRightCorner, right)

    def _dock(self, name: str, title: str, panel: QWidget, area: Qt.DockWidgetArea) -> None:
        dock = QDockWidget(title, self)
        dock.setObjectName(f"dock_{name}")
        dock.setWidget(panel)
        dock.toggleViewAction().setObjectName("")
        self.addDockWidget(area, dock)
        self.docks[name] = dock

    def _source_with_caption(self) -> QWidget:
        box = QWidget()
        layout = QVBoxLayout(box)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.caption)
        layout.addWidget(self.source, 1)
        return box

    def _map_with_legend(self) -> QWidget:
        self.map.setMinimumHeight(60)
        return _MapBox(self.map, self.legend)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        for part in (
            self.source,
            self.stack,
            self.inspector,
            self.watch,
            self.breakpoints,
            self.branches,
            self.map,
            self.legend,
            self.locks,
        ):
            part.set_theme(theme)

    # The layout

    def layout_bytes(self) -> QByteArray:
        """Where the panels are, for the settings."""
        return self.saveState(LAYOUT_VERSION)

    def restore_layout(self, layout: QByteArray) -> bool:
        """Put the panels where they were; False if that was another version's layout."""
        restored = self.restoreState(layout, LAYOUT_VERSION)
        self._placed = self._placed or restored
        return restored

    def reset_layout(self) -> None:
        """Put the panels where they were at first."""
        self.restoreState(self._first_layout, LAYOUT_VERSION)
        self._place(self.width(), self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if not self._placed and event.size().width() > 400:
            self._place(event.size().width(), event.size().height())

    def _place(self, width: int, height: int) -> None:
        docks = self.docks
        self.resizeDocks(
            [docks["stack"], docks["inspector"]],
            [round(width * _LEFT_SHARE), round(width * _RIGHT_SHARE)],
            Qt.Orientation.Horizontal,
        )
        self.resizeDocks([docks["slabs"]], [round(height * _BELOW_SHARE)], Qt.Orientation.Vertical)

    # Updates

    def show_update(self, update: ViewUpdate) -> None:
        """Show an update in every panel."""
        travel, snapshot = update.travel, update.snapshot
        self._travel = travel
        self.stack.show_stacks(stack_content(travel, snapshot))
        self._show_source()
        self.inspector.show_inspection(travel.inspection, travel.history, travel.position, travel.end)
        self.watch.show_watches(travel.watches, travel.watched)
        self.breakpoints.show_breakpoints(travel.breakpoints, travel.program)
        self.branches.show_travel(travel)
        if self.docks["slabs"].isVisible():
            self.map.show_slabs(snapshot, update.summary)
            self.legend.set_family(snapshot.family if snapshot else "slub")
        self.locks.show_locks(snapshot)
        self.caption.show_scenario(travel.scenario)
        self._show_scenario(travel)

    def show_frame(self) -> None:
        """Another frame is chosen on the call stack: show its source."""
        self._show_source()

    def show_source(self, file: str, line: int) -> None:
        """Show a line, wherever the run is."""
        self.source.go_to(file, line)

    def raise_panel(self, name: str) -> None:
        """Show a panel in front of those that share its place."""
        self.docks[name].setVisible(True)
        self.docks[name].raise_()

    def _show_source(self) -> None:
        self.source.show_source(
            source_content(self._travel, self.stack.chosen(), innermost=self.stack.follows)
        )

    def _show_scenario(self, travel: TravelView) -> None:
        """What a step of a scenario is about comes to the front, once."""
        scenario = travel.scenario
        shown = (travel.opened_serial, scenario.step) if scenario is not None else None
        if shown == self._step_shown:
            return
        self._step_shown = shown
        if scenario is None or not 0 <= scenario.step < len(scenario.steps):
            return
        panel = _FOCUS_PANELS.get(str(scenario.steps[scenario.step].focus or ""))
        if panel:
            self.raise_panel(panel)
