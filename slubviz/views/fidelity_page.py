"""The fidelity page: every published number beside the simulated one, as a heat map and as tables.

Shows what the comparison's worker leaves, and asks it through the bridge.  Before the first comparison it
says what to press and how long that takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QSplitter,
    QStackedWidget,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from slubviz.views.fidelity_bridge import FidelityBridge
from slubviz.views.fidelity_controls import FidelityControls, published_names
from slubviz.views.fidelity_report import ERROR_HEADERS, GOAL_HEADERS, CellTable, Report, duration_text
from slubviz.views.fidelity_worker import CompareState, CompareUpdate
from slubviz.views.heat_map import HeatLegend, HeatMap
from slubviz.views.pages import ActionPage
from slubviz.views.panel import Panel
from slubviz.views.tables import TableView, TextTable
from slubviz.views.theme import Theme

_TITLE = "Errors in percent"
_KEY_ROLE = int(Qt.ItemDataRole.UserRole)


class FidelityPage(QWidget):
    """Runs and shows comparisons.

    Parameters
    ----------
    bridge
        To the comparison's worker; started when the page is shown for the first time.
    actions
        Commands of the window; the page has buttons for ``compare`` and ``compare_cancel``.
    """

    cell_chosen = Signal(object)  # CellKey
    problem = Signal(str)  # what is wrong, one line; empty when it is mended

    def __init__(
        self,
        bridge: FidelityBridge,
        actions: Mapping[str, QAction],
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._actions = actions
        self._report = Report()
        self._told = ("", 0)
        self._asked_once = False
        self.controls = FidelityControls(actions)
        self.heat_map = HeatMap(theme)
        self.legend = HeatLegend(theme)
        self.tests = QListWidget()
        self.cells = TextTable(("Size",))
        self.errors = TextTable(ERROR_HEADERS, left_columns=3)
        self.goals = TextTable(GOAL_HEADERS, left_columns=5)
        self.tabs = QTabWidget()
        self.empty = ActionPage("Nothing is compared yet", actions["compare"])
        self.stack = QStackedWidget()
        self._note = QLabel()
        self._heat_panel = Panel(_TITLE, self._heat_with_legend())
        self._build()
        self._connect()
        self.show_update(CompareUpdate())

    @property
    def seed(self) -> int:
        """The first seed of the comparison that is shown."""
        comparison = self._bridge.latest.comparison
        return comparison.request.seeds[0] if comparison else 1

    @property
    def ops(self) -> int:
        """Operations per CPU of the comparison that is shown."""
        comparison = self._bridge.latest.comparison
        return comparison.request.ops if comparison else self.controls.ops.value()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self.heat_map.set_theme(theme)
        self.legend.set_theme(theme)

    def compare(self) -> None:
        """Start what is chosen."""
        request = self.controls.request()
        if request is not None:
            self._bridge.compare(request)

    def show_update(self, update: CompareUpdate) -> None:
        """Show an update in every part."""
        self.controls.show_update(update)
        shows = update.comparison is not None or update.state is CompareState.RUNNING
        self.stack.setCurrentWidget(self._results if shows else self.empty)
        self.heat_map.show_cells(update.published, update.comparison, update.report.medians)
        self._heat_panel.set_info(update.report.headline)
        self._show_report(update.report)
        self.empty.set_text(empty_text(update))
        self._enable_commands(update)
        told = (update.error, update.error_serial if update.error else 0)
        if told != self._told:  # a message that the user has closed stays closed
            self._told = told
            self.problem.emit(update.error)

    def show_test(self, machine: str, title: str) -> None:
        """Show the table of a test."""
        for row in range(self.tests.count()):
            if self.tests.item(row).data(_KEY_ROLE) == (machine, title):
                self.tests.setCurrentRow(row)
                self.tabs.setCurrentIndex(0)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._asked_once:
            self._asked_once = True
            self.controls.set_names(published_names())
            self._ask_plan()

    # Parts

    def _heat_with_legend(self) -> QWidget:
        box = QWidget()
        layout = QVBoxLayout(box)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.heat_map, 1)
        layout.addWidget(self.legend, 0)
        return box

    def _cells_tab(self) -> QWidget:
        box = QWidget()
        self.tests.setFrameShape(QListWidget.Shape.NoFrame)
        self.tests.setAccessibleName("Tests")
        self.tests.setFixedWidth(
            self.fontMetrics().horizontalAdvance("kmalloc-kfree-pairs  kmalloc+kfree") + 12
        )
        self._table = TableView(self.cells, "Cells", "No cell is measured yet.")
        self._table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        self._note.setObjectName("muted")
        self._note.setWordWrap(True)
        right = QVBoxLayout()
        right.setSpacing(4)
        right.addWidget(self._table, 1)
        right.addWidget(self._note, 0)
        layout = QHBoxLayout(box)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(12)
        layout.addWidget(self.tests, 0)
        layout.addLayout(right, 1)
        return box

    def _build(self) -> None:
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setExpanding(False)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.addTab(self._cells_tab(), "Cells")
        errors = TableView(self.errors, "Errors", "No cell is measured yet.")
        goals = TableView(self.goals, "Goals", "No goal is touched yet.")
        for view in (errors, goals):
            view.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        self.tabs.addTab(errors, "Errors by test and kernel")
        self.tabs.addTab(goals, "Goals")
        self._results = QSplitter(Qt.Orientation.Vertical)
        self._results.addWidget(self._heat_panel)
        self._results.addWidget(Panel("", self.tabs))
        self._results.setHandleWidth(8)
        self._results.setChildrenCollapsible(False)
        self._results.setSizes([620, 380])
        self._results.setStretchFactor(0, 62)
        self._results.setStretchFactor(1, 38)
        framed = QWidget()
        inner = QVBoxLayout(framed)
        inner.setContentsMargins(8, 8, 8, 8)
        inner.addWidget(self.stack)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self._results)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.controls)
        layout.addWidget(framed, 1)

    def _connect(self) -> None:
        self._bridge.updated.connect(self.show_update)
        self.controls.changed.connect(self._ask_plan)
        self.controls.problem.connect(self.problem)
        self.heat_map.cell_chosen.connect(self.cell_chosen)
        self.heat_map.test_chosen.connect(self.show_test)
        self.tests.currentItemChanged.connect(lambda *_items: self._show_table())

    def _ask_plan(self) -> None:
        if self._asked_once:
            request = self.controls.request()
            if request is not None:
                self._bridge.plan(request)

    def _enable_commands(self, update: CompareUpdate) -> None:
        running = update.state is CompareState.RUNNING
        self._actions["compare"].setEnabled(not running)
        self._actions["compare_cancel"].setEnabled(running)

    def _show_report(self, report: Report) -> None:
        if report is self._report:
            return
        self._report = report
        self.errors.set_rows(report.errors)
        self.goals.set_rows(report.goals)
        keys = [table.key for table in report.tables]
        if keys != [self.tests.item(row).data(_KEY_ROLE) for row in range(self.tests.count())]:
            self._fill_tests(report.tables)
        self._show_table()

    def _fill_tests(self, tables: tuple[CellTable, ...]) -> None:
        # The tests of a machine below its name; the chosen one stays chosen.
        current = self.tests.currentItem()
        chosen = current.data(_KEY_ROLE) if current else None
        self.tests.blockSignals(True)
        self.tests.clear()
        for table in tables:
            item = QListWidgetItem(f"{table.title}\n{table.machine}")
            item.setData(_KEY_ROLE, table.key)
            item.setSizeHint(QSize(0, 2 * self.fontMetrics().height() + 6))
            self.tests.addItem(item)
            if table.key == chosen:
                self.tests.setCurrentItem(item)
        if self.tests.currentItem() is None and tables:
            self.tests.setCurrentRow(0)
        self.tests.blockSignals(False)

    def _show_table(self) -> None:
        current = self.tests.currentItem()
        key = current.data(_KEY_ROLE) if current else None
        table = next((table for table in self._report.tables if table.key == key), None)
        self.cells.set_headers(table.headers if table else ("Size",))
        self.cells.set_rows(table.rows if table else ())
        self._note.setText(table.note if table else "")
        self._note.setVisible(bool(table and table.note))


def empty_text(update: CompareUpdate) -> str:
    """What the page says before the first comparison."""
    what = (
        "Compare simulates every published number that is chosen above and shows it beside the published "
        "one, with the error. "
    )
    choice = update.choice
    if choice is None:
        return what + "Choose what to compare."
    duration = duration_text(choice.estimate_seconds)
    return what + (
        f"There are {choice.cells} of them, which takes about {duration} on this computer when it is idle. "
        "The first ones appear at once, and it can be stopped at any time."
    )
