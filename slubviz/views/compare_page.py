"""The page Compare: two runs side by side, in step, with what differs and where they part.

The left side is the run at the cursor, so all movements work on; the right side follows.  The other run is
another branch of the recording, the same request with another kernel, or a session file.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from slubviz.views import numbers
from slubviz.views.compare_view import CompareSide, CompareView, difference_rows, number_rows
from slubviz.views.cpu_layout import Pace
from slubviz.views.cpu_panel import CpuPanel
from slubviz.views.panel import Panel
from slubviz.views.slab_layout import CLICKABLE
from slubviz.views.slab_map import SlabMap
from slubviz.views.tables import TableView, TextTable
from slubviz.views.theme import Theme
from slubviz.views.travel_view import TravelView

_BY = (("micro-op", "in step by micro-op"), ("operation", "by operation"), ("cycle", "by cycle"))
_EMPTY = (
    "Nothing is compared.\n\nChoose above what the run shall be held against: another branch of it, the same "
    "test with another kernel, or a session file."
)
_CHOOSE = "choose …"
_FILE, _KERNEL, _BRANCH = "file", "kernel", "branch"
#: Differences beyond that are counted, not listed.
MOST_DIFFERENCES = 500


class _Side(QWidget):
    # One run: a head line, its CPUs, its slabs.

    def __init__(self, theme: Theme, code_font: QFont, name: str) -> None:
        super().__init__()
        self.cpus = CpuPanel(theme, code_font)
        self.map = SlabMap(theme, limits=CLICKABLE)
        self._panels = (Panel(name, self.cpus), Panel("Slabs", self.map))
        split = QSplitter(Qt.Orientation.Vertical)
        split.setChildrenCollapsible(False)
        split.setHandleWidth(8)
        for panel in self._panels:
            split.addWidget(panel)
        split.setSizes([600, 400])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(split)

    def set_theme(self, theme: Theme) -> None:
        self.cpus.set_theme(theme)
        self.map.set_theme(theme)

    def info(self) -> str:
        return self._panels[0].info()

    def show_side(self, side: CompareSide, marked: frozenset[int]) -> None:
        self.cpus.show_cpus(side.snapshot, side.sources, Pace.STILL)
        self.map.show_slabs(side.snapshot, side.summary)
        self.map.set_marked(marked)
        self._panels[0].set_title(side.title)
        self._panels[0].set_info(
            f"micro-op {numbers.integer(side.position)} of {numbers.integer(side.end)}  ·  "
            f"{numbers.integer(side.clock_cycles)}{numbers.THIN}cyc"
        )
        self._panels[1].set_info(self.map.facts())


class ComparePage(QWidget):
    """See the module."""

    branch_chosen = Signal(int)
    kernel_chosen = Signal(str)
    file_chosen = Signal(str)
    by_chosen = Signal(str)
    parting_wanted = Signal()
    search_stopped = Signal()
    closed = Signal()
    seek = Signal(int)  # position of the left side

    def __init__(
        self, theme: Theme, code_font: QFont, kernels: Sequence[str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._kernels = tuple(kernels)
        self._view: CompareView | None = None
        self._listed: tuple[object, ...] | None = None
        self._told: CompareView | None = None
        self._pictured: tuple[object, ...] = (
            None,
            None,
            None,
        )  # as long as they are the same, so is the page
        self.other = QComboBox()
        self.by = QComboBox()
        self.parting = QPushButton("First divergence")
        self.close_button = QPushButton("Stop comparing")
        self.result = QLabel()
        self.go = QPushButton("Go there")
        self.left = _Side(theme, code_font, "This run")
        self.right = _Side(theme, code_font, "The other run")
        self.differences = TextTable(("What", "This run", "The other run"), left_columns=3)
        self.numbers = TextTable(("", "This run", "Other", "Difference"))
        self._stack = QStackedWidget()
        self._build()
        self.show_compare(None, TravelView())

    def _build(self) -> None:
        self.other.setAccessibleName("What the run is compared with")
        self.other.setMinimumWidth(220)
        self.by.setAccessibleName("How the two are kept in step")
        for name, text in _BY:
            self.by.addItem(text, name)
        self.other.activated.connect(self._chosen)
        self.by.activated.connect(lambda index: self.by_chosen.emit(self.by.itemData(index)))
        self.parting.setToolTip("Search for the first moment at which the two runs do something else")
        self.parting.clicked.connect(self._parting_clicked)
        self.close_button.clicked.connect(self.closed)
        self.go.clicked.connect(self._go)
        self.result.setObjectName("panelInfo")
        self.result.setWordWrap(True)
        bar = QHBoxLayout()
        bar.setSpacing(8)
        bar.addWidget(QLabel("Compare with"))
        for widget in (self.other, self.by, self.parting):
            bar.addWidget(widget)
        bar.addStretch(1)
        bar.addWidget(self.close_button)
        self._answer = QWidget()
        answer = QHBoxLayout(self._answer)
        answer.setContentsMargins(0, 0, 0, 0)
        answer.setSpacing(8)
        answer.addWidget(self.result, 1)
        answer.addWidget(self.go)
        empty = QLabel(_EMPTY)
        empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        empty.setWordWrap(True)
        empty.setObjectName("panelInfo")
        self._stack.addWidget(empty)
        self._stack.addWidget(self._pictures())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.setSpacing(8)
        layout.addLayout(bar)
        layout.addWidget(self._answer)
        layout.addWidget(self._stack, 1)

    def _pictures(self) -> QWidget:
        tabs = QTabWidget()
        tabs.setDocumentMode(True)
        listed = TableView(self.differences, "Differences", "The two pictures are equal.")
        listed.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        counted = TableView(self.numbers, "Numbers", "")
        for table, name in ((listed, "Differences"), (counted, "Numbers")):
            table.setTextElideMode(Qt.TextElideMode.ElideRight)
            tabs.addTab(table, name)
        tabs.tabBar().setExpanding(False)
        tabs.tabBar().setDrawBase(False)
        self._tabs = tabs
        split = QSplitter(Qt.Orientation.Horizontal)
        split.setChildrenCollapsible(False)
        split.setHandleWidth(8)
        for part in (self.left, self.right, Panel("", tabs)):
            split.addWidget(part)
        split.setSizes([340, 340, 380])
        return split

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self.left.set_theme(theme)
        self.right.set_theme(theme)

    def show_compare(self, view: CompareView | None, travel: TravelView) -> None:
        """Show two runs; None if nothing is compared."""
        self._list_choices(travel)
        self._view = view
        self._stack.setCurrentIndex(0 if view is None else 1)
        for part in (self.by, self.parting, self.close_button):
            part.setEnabled(view is not None)
        self.go.setVisible(view is not None and view.parting_position is not None)
        searching = view.searching if view is not None else None
        self.parting.setText("First divergence" if searching is None else "Stop searching")
        self.result.setText(_result_text(view))
        self._answer.setVisible(bool(self.result.text()))
        if view is not self._told:  # what is compared now stands where it is chosen
            self._told = view
            self.other.setItemText(0, _CHOOSE if view is None else view.b.title)
            self.other.setCurrentIndex(0)
        if view is None:
            return
        self.by.setCurrentIndex(max(self.by.findData(view.by), 0))
        shown = (view.a, view.b, view.differences)
        if any(one is not before for one, before in zip(shown, self._pictured, strict=True)):
            self._pictured = shown
            self._show_pictures(view)

    def _show_pictures(self, view: CompareView) -> None:
        marked = frozenset(int(one.key) for one in view.differences if one.kind == "slab")
        self.left.show_side(view.a, marked)
        self.right.show_side(view.b, marked)
        self.differences.set_rows(difference_rows(view, MOST_DIFFERENCES))
        self.numbers.set_rows(number_rows(view))
        self._tabs.setTabText(0, f"Differences ({numbers.integer(len(view.differences))})")

    def _list_choices(self, travel: TravelView) -> None:
        current = travel.branch.number if travel.branch is not None else -1
        branches = tuple((one.number, one.name) for one in travel.branches if one.number != current)
        if self._listed == (branches, travel.exists):
            return
        self._listed = (branches, travel.exists)
        self.other.clear()
        self.other.addItem(_CHOOSE if self._told is None else self._told.b.title, None)
        for number, name in branches:
            self.other.addItem(f"branch: {name}", (_BRANCH, number))
        for kernel in self._kernels:
            self.other.addItem(f"kernel: {kernel}", (_KERNEL, kernel))
        self.other.addItem("session file …", (_FILE, ""))
        self.other.setEnabled(travel.exists)

    def _chosen(self, index: int) -> None:
        choice = self.other.itemData(index)
        if choice is None:
            return
        kind, what = choice
        if kind == _BRANCH:
            self.branch_chosen.emit(what)
        elif kind == _KERNEL:
            self.kernel_chosen.emit(what)
        else:
            path, _ = QFileDialog.getOpenFileName(self, "Compare with", "", "Sessions (*.slubviz)")
            if path:
                self.file_chosen.emit(path)

    def _parting_clicked(self) -> None:
        searching = self._view is not None and self._view.searching is not None
        (self.search_stopped if searching else self.parting_wanted).emit()

    def _go(self) -> None:
        if self._view is not None and self._view.parting_position is not None:
            self.seek.emit(self._view.parting_position)


def _result_text(view: CompareView | None) -> str:
    if view is None:
        return ""
    if view.searching is not None:
        return f"Looking for where they part … {round(100 * view.searching)} %"
    return "  ".join(part for part in (view.parting, view.note) if part)
