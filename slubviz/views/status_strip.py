"""The line at the bottom: state, phase, micro-ops, clock, speed reached."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QStatusBar, QWidget

from slubviz.model.snapshot import Snapshot
from slubviz.views import numbers
from slubviz.views.theme import Theme
from slubviz.views.worker import ViewUpdate, WorkerState

_STATE_TEXT = {
    WorkerState.EMPTY: "Ready",
    WorkerState.LOADING: "Compiling…",
    WorkerState.PAUSED: "Paused",
    WorkerState.RUNNING: "Running",
    WorkerState.FINISHED: "Finished",
    WorkerState.FAULTED: "Stopped by a fault",
    WorkerState.MEASURED: "Measured; Run continues with the clean-up",
    WorkerState.MOVING: "Searching…",
}
_STATE_COLOUR = {
    WorkerState.RUNNING: "cpu_running",
    WorkerState.LOADING: "accent",
    WorkerState.MOVING: "accent",
    WorkerState.MEASURED: "accent",
    WorkerState.FAULTED: "cpu_waiting",
}


class StatusStrip(QStatusBar):
    """Shows an update's facts as labels; the left one is the state."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setSizeGripEnabled(False)
        self.setContentsMargins(12, 0, 12, 0)
        self._state = QLabel(_STATE_TEXT[WorkerState.EMPTY])
        self._state.setObjectName("headline")
        self._phase = QLabel()
        self._hint = QLabel()
        self._hint.setObjectName("muted")
        self._counts = QLabel()
        self._counts.setObjectName("muted")
        self.addWidget(self._state)
        self.addWidget(self._phase)
        self.addWidget(self._hint, 1)
        self.addPermanentWidget(self._counts)
        self._colour = "text"
        self._hint_text, self._note = "", ""

    @property
    def state_text(self) -> str:
        """The state in words."""
        return self._state.text()

    @property
    def counts_text(self) -> str:
        """Micro-ops, clock and speed."""
        return self._counts.text()

    @property
    def phase_text(self) -> str:
        """What is measured."""
        return self._phase.text()

    @property
    def hint_text(self) -> str:
        """What the user may want to know now."""
        return self._hint.text()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self._paint_state()

    def show_hint(self, text: str) -> None:
        """Say something beside the state; empty to say nothing."""
        self._hint_text = text
        self._hint.setText(text or self._note)

    def show_note(self, text: str) -> None:
        """Say what the last movement found, where no hint is in its place."""
        self._note = text
        self._hint.setText(self._hint_text or text)

    def show_update(self, update: ViewUpdate) -> None:
        """Show an update's state and numbers."""
        backwards = update.travel.direction < 0
        self._state.setText("Running backwards" if backwards else _STATE_TEXT[update.state])
        self._colour = _STATE_COLOUR.get(update.state, "text")
        self._paint_state()
        snapshot = update.snapshot
        self._phase.setText(phase_text(snapshot) if snapshot else "")
        self._counts.setText(counts_text(update))

    def _paint_state(self) -> None:
        style = f"color: {getattr(self._theme, self._colour)};"
        if style != self._state.styleSheet():  # a style sheet is costly even when it is the same
            self._state.setStyleSheet(style)


def phase_text(snapshot: Snapshot) -> str:
    """What is being done, and how far phase and job are."""
    phase = snapshot.phase
    if phase is None:
        return ""
    what = f"test {phase.test}: {phase.operation}"
    point = numbers.point(phase.size_bytes, phase.objects)
    what = f"{what}, {point}" if point else what
    parts = [what if phase.measured else f"{what}, not measured"]
    if phase.measured and phase.operations_total > 0:
        done = sum(cpu.operations for cpu in snapshot.cpus)
        parts.append(f"{min(100, done * 100 // phase.operations_total)}{numbers.THIN}%")
    parts.append(f"phase {phase.index + 1} of {phase.count}")
    return "  ·  ".join(parts)


def counts_text(update: ViewUpdate) -> str:
    """Micro-ops, clock, and the speed reached while running."""
    snapshot = update.snapshot
    if snapshot is None:
        return ""
    parts = [
        numbers.plural(snapshot.micro_ops, "micro-op"),
        f"clock {numbers.cycles(snapshot.clock_cycles)}",
    ]
    if update.state is WorkerState.RUNNING and update.micro_ops_per_second > 0:
        parts.insert(0, f"{numbers.short(update.micro_ops_per_second)}{numbers.THIN}micro-ops/s")
    return "  ·  ".join(parts)
