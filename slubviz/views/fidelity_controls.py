"""The bar of the fidelity page: what to compare, the buttons, how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QProgressBar,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from slubviz.model.errors import UserError
from slubviz.model.selection import parse_seeds
from slubviz.views import numbers
from slubviz.views.control_bar import CountBox, ElidedCombo
from slubviz.views.fidelity_report import duration_text
from slubviz.views.fidelity_worker import CompareState, CompareUpdate
from slubviz.views.multi_choice import MultiChoice

if TYPE_CHECKING:
    from slubviz.model.compare import CompareRequest

_FIELD_HEIGHT = 28
_MOST_OPS = 1_000_000
_ALL = "all"
_BUTTONS = ("compare", "compare_cancel")


@dataclass(frozen=True)
class PublishedNames:
    """Names for which something is published."""

    machines: Sequence[str]
    kernels: Sequence[str]
    tests: Sequence[str]


def published_names() -> PublishedNames:
    """The names in the published tables, in their order; reads files, some milliseconds."""
    from slubviz.model.compare_redos import REDO_KERNEL, REDO_TEST
    from slubviz.model.compare_table import published_cells

    keys = [cell.key for cell in published_cells()]
    return PublishedNames(
        tuple(dict.fromkeys(key.machine for key in keys)),
        tuple(dict.fromkeys([*(key.kernel for key in keys), REDO_KERNEL])),
        tuple(dict.fromkeys([*(key.test for key in keys), REDO_TEST])),
    )


class FidelityControls(QFrame):
    """Fields, buttons and the progress of a comparison."""

    changed = Signal()
    problem = Signal(str)  # what is wrong with a field; empty when it is mended

    def __init__(self, actions: Mapping[str, QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("bar")
        self.machine = ElidedCombo()
        self.machine.setAccessibleName("Machine")
        self.machine.addItem("All machines", _ALL)
        self.kernels = MultiChoice("kernels")
        self.tests = MultiChoice("tests")
        self.ops = CountBox()
        self.seeds = QLineEdit("1")
        self.bar = QProgressBar()
        self.status = QLabel()
        self._has_problem = False
        self._fields: tuple[QWidget, ...] = (self.machine, self.kernels, self.tests, self.ops, self.seeds)
        self._build(actions)
        self._connect()

    def set_names(self, names: PublishedNames) -> None:
        """Offer the names of the published tables."""
        if self.machine.count() == 1:
            for name in names.machines:
                self.machine.addItem(name, name)
        self.kernels.set_names(names.kernels)
        self.tests.set_names(names.tests)

    def request(self) -> CompareRequest | None:
        """What is chosen; None, with ``problem`` emitted, where the seeds make no sense."""
        from slubviz.model.compare import CompareRequest

        try:
            seeds = parse_seeds(self.seeds.text())
        except UserError as error:
            self._has_problem = True
            self.problem.emit(str(error).replace("--seeds", "Seeds"))
            return None
        if self._has_problem:
            self._has_problem = False
            self.problem.emit("")
        return CompareRequest(
            machine=str(self.machine.currentData()),
            kernels=self.kernels.chosen,
            tests=self.tests.chosen,
            ops=self.ops.value(),
            seeds=seeds,
        )

    def show_update(self, update: CompareUpdate) -> None:
        """Show how far a comparison is."""
        running = update.state is CompareState.RUNNING
        for field in self._fields:
            field.setEnabled(not running)
        progress = update.progress
        if progress is not None and progress.done_cells:
            self.bar.setRange(0, max(1, progress.total_cells))
            self.bar.setValue(progress.done_cells)
        else:
            self.bar.setRange(0, 0 if running else 1)
            self.bar.reset()
        self.status.setText(status_text(update))
        self.status.setToolTip(self.status.text())

    def _build(self, actions: Mapping[str, QAction]) -> None:
        self.ops.setRange(1, _MOST_OPS)
        self.ops.setSingleStep(1000)
        self.ops.setValue(10_000)
        self.ops.setKeyboardTracking(False)
        self.ops.setAccessibleName("Operations per CPU")
        self.ops.setToolTip("Operations of each CPU; the published tables have 10 000")
        self.seeds.setAccessibleName("Seeds")
        self.seeds.setToolTip("A cell is the mean over these seeds: 1-5 or 1,7")
        self.seeds.setMinimumWidth(48)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.bar.setAccessibleName("Progress of the comparison")
        self.status.setObjectName("muted")
        self.status.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 8, 16, 8)
        layout.setSpacing(8)
        captions = ("Machine", "Kernels", "Tests", "Ops per CPU", "Seeds")
        for caption, field, stretch in zip(captions, self._fields, (3, 3, 3, 1, 1), strict=True):
            field.setFixedHeight(_FIELD_HEIGHT)
            layout.addLayout(_captioned(caption, field), stretch)
        layout.addSpacing(8)
        for name in _BUTTONS:
            layout.addWidget(_button(actions[name], name == "compare"), 0, Qt.AlignmentFlag.AlignBottom)
        layout.addSpacing(8)
        layout.addLayout(self._progress_field(), 6)

    def _progress_field(self) -> QVBoxLayout:
        field = QVBoxLayout()
        field.setSpacing(6)
        field.addStretch(1)
        field.addWidget(self.status)
        field.addWidget(self.bar)
        field.addSpacing(6)
        return field

    def _connect(self) -> None:
        self.machine.currentIndexChanged.connect(self.changed)
        self.kernels.changed.connect(self.changed)
        self.tests.changed.connect(self.changed)
        self.ops.valueChanged.connect(self.changed)
        self.seeds.editingFinished.connect(self.changed)


def status_text(update: CompareUpdate) -> str:
    """One line on how far a comparison is."""
    progress, elapsed = update.progress, f"{update.elapsed_seconds:.0f}{numbers.THIN}s"
    if update.state is CompareState.RUNNING and progress is not None:
        if not progress.done_cells:
            return f"{progress.message or 'starting'}…".replace("starting", "Starting the processes")
        what = f"{progress.kernel}, test {progress.test} {progress.point_label}".rstrip()
        return f"{progress.done_cells} of {progress.total_cells} measurements  ·  {elapsed}  ·  {what}"
    choice = update.choice
    if update.comparison is None or (choice is not None and choice.request != update.comparison.request):
        return "" if choice is None else choice_text(choice.cells, choice.estimate_seconds)
    if update.state is CompareState.DONE:
        return f"Finished in {elapsed}"
    return f"Stopped after {elapsed}: {len(update.comparison.cells)} of {update.comparison.wanted} cells"


def choice_text(cells: int, seconds: float) -> str:
    """How much is chosen."""
    return f"{numbers.plural(cells, 'published number')}  ·  about {duration_text(seconds)}"


def _button(action: QAction, primary: bool) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    button.setFixedHeight(_FIELD_HEIGHT)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.setProperty("command", "true")
    button.setProperty("primary", "true" if primary else "false")
    return button


def _captioned(text: str, field: QWidget) -> QVBoxLayout:
    box = QVBoxLayout()
    box.setSpacing(2)
    label = QLabel(text)
    label.setObjectName("caption")
    label.setBuddy(field)
    box.addWidget(label)
    box.addWidget(field)
    return box
