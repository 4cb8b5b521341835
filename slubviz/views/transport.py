"""The transport bar: buttons that move through a recorded run, how far a step goes, speed, position.

Knows a TransportState and nothing else; every button, field and choice ends in a signal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QProgressBar,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from slubviz.model.travel.movements import Move
from slubviz.views import numbers
from slubviz.views.icons import icon
from slubviz.views.theme import LIGHT, Theme
from slubviz.views.transport_position import PositionField, ToCycle, ToPosition
from slubviz.views.transport_speed import SpeedField

_FIELD_HEIGHT = 28
_SIDE_PIXELS = 190
#: The bar can be made as narrow as this.
_LEAST_PIXELS = 720
_PROGRESS_PIXELS = 40


@dataclass(frozen=True)
class TransportState:
    """What the bar shows.

    Attributes
    ----------
    position, end : int
        The cursor and where the recorded run ends, in micro-ops.
    clock_cycles : float
        At the cursor.
    ready : bool
        There is a run.
    finished : bool
        The run does not go on behind ``end``.
    playing : int
        +1 forwards, -1 backwards, 0 not at all.
    branch : str
        Name of the branch; empty while there is only one.
    moving : str
        What is being searched for; empty for no search.
    progress : float or None
        Of the search, 0 to 1; None if it is not known.
    """

    position: int = 0
    end: int = 0
    clock_cycles: float = 0.0
    ready: bool = False
    finished: bool = False
    playing: int = 0
    branch: str = ""
    moving: str = ""
    progress: float | None = None


@dataclass(frozen=True)
class _Button:
    id: str
    icon: str
    text: str
    shortcut: str


_BUTTONS = (
    _Button("to_start", "to_start", "To the start", "Home"),
    _Button("previous_event", "previous_event", "Previous event on any CPU", "["),
    _Button("step_back", "step_back", "Step back", "Shift+F10"),
    _Button("play_back", "run_back", "Play backwards", "Shift+F5"),
    _Button("pause", "pause", "Pause", "F6"),
    _Button("play", "run", "Play forwards", "F5"),
    _Button("step", "step", "Step", "F10"),
    _Button("next_event", "next_event", "Next event on any CPU", "]"),
    _Button("to_end", "to_end", "To the end of what is recorded", "End"),
)
_GAP_BEFORE = ("play_back", "step")
_BACKWARDS = ("to_start", "previous_event", "step_back", "play_back")
_FORWARDS = ("play", "step", "next_event")
#: What the step buttons move by, as told in the choice.
STEPS: tuple[tuple[Move, str, str], ...] = (
    (Move.MICRO_OP, "micro-op", "One micro-op of the CPU whose turn it is"),
    (Move.LINE, "source line", "To another source line of this CPU"),
    (Move.OVER, "over call", "A source line, calls and interrupts included"),
    (Move.OUT, "out of function", "To where this function was called"),
    (Move.EVENT_ANY_CPU, "event", "Slow path, retry, lock, interrupt or phase, on any CPU"),
    (Move.INTERRUPT_ENTRY, "interrupt", "Where an interrupt strikes this CPU"),
    (Move.SLOW_PATH, "slow path", "Where the kernel counts a slow path"),
    (Move.RETRY, "retry", "A compare-and-exchange that fails"),
    (Move.CONTENDED, "contention", "A lock that another CPU holds"),
    (Move.BREAKPOINT, "breakpoint", "The next breakpoint"),
)


class TransportBar(QFrame):
    """Buttons, step choice, speed, position, branch, and the search that runs."""

    moved = Signal(object, int)  # Move, +1 or -1
    seek = Signal(object)  # position in micro-ops
    seek_cycle = Signal(object)  # clock in cycles
    play = Signal(int)  # +1 or -1
    pause = Signal()
    speed = Signal(float)  # micro-ops per second, infinity for no limit
    step_changed = Signal(object)  # Move
    entered = Signal()  # a speed or position was typed: the fields do not need the keys any more
    cancel = Signal()

    def __init__(self, theme: Theme = LIGHT, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("transport")
        self._theme = theme
        self._state = TransportState()
        self.buttons: dict[str, QToolButton] = {}
        self.step_by = QComboBox()
        self.speed_field = SpeedField()
        self.position = PositionField()
        self._total = QLabel()
        self._cycle = QLabel()
        self._row = QHBoxLayout(self)
        self._side = QStackedWidget()
        self._spare: tuple[QWidget, ...] = ()
        self._why_refused = ""
        self._branch_icon, self._branch, self._refusal = QLabel(), QLabel(), QLabel()
        self._moving = QLabel()
        self._progress = QProgressBar()
        self.cancel_button = QToolButton()
        self._build()
        self._connect()
        self.set_theme(theme)
        self.show_state(TransportState())

    @property
    def step_move(self) -> Move:
        """What the step buttons move by."""
        return STEPS[max(self.step_by.currentIndex(), 0)][0]

    def set_step_move(self, move: Move) -> None:
        """Choose what the step buttons move by; moves that are no choice change nothing."""
        for index, (choice, _, _) in enumerate(STEPS):
            if choice is move:
                self.step_by.setCurrentIndex(index)

    def set_shortcuts(self, shortcuts: Mapping[str, str]) -> None:
        """Name the keys in the tooltips, by the buttons' ids; those that are not named stay."""
        for button in _BUTTONS:
            key = shortcuts.get(button.id, button.shortcut)
            self.buttons[button.id].setToolTip(f"{button.text} ({key})" if key else button.text)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self._branch_icon.setPixmap(icon("branch", theme).pixmap(16, 16))
        self.cancel_button.setIcon(icon("stop", theme))
        self._draw_icons()

    def show_state(self, state: TransportState) -> None:
        """Show where the run is and what it does."""
        playing_changed = state.playing != self._state.playing
        search_changed = bool(state.moving) != bool(self._state.moving)
        self._state = state
        self.position.show_position(state.position, state.end if state.finished else None)
        grown = _show_number(self._total, f"/ {numbers.integer(state.end)}")
        if (
            _show_number(self._cycle, f"cycle {numbers.integer(state.clock_cycles)}")
            or grown
            or search_changed
        ):
            self._make_room(self.width())
        self._enable(state)
        self._show_side(state)
        if playing_changed:
            self._draw_icons()

    def total_text(self) -> str:
        """What stands behind the position."""
        return self._total.text()

    def cycle_text(self) -> str:
        """The clock at the cursor."""
        return self._cycle.text()

    def side_text(self) -> str:
        """What is wrong with the position that was typed, or the search that runs, or the branch."""
        return self._why_refused or self._state.moving or self._state.branch

    def progress_percent(self) -> int | None:
        """Of the search that runs; None if it is not known or there is none."""
        if not self._state.moving or self._progress.maximum() == 0:
            return None
        return self._progress.value()

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST_PIXELS, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room(event.size().width())

    def _make_room(self, width: int) -> None:
        # What can be missed is hidden on a narrow bar, one after the other, until the rest fits; then what
        # is smaller than the gap that is left comes back.
        # A search can always be stopped, and what is wrong is always told.
        needed = bool(self._state.moving or self._why_refused)
        spare = [one for one in self._spare if one is not self._side or not needed]
        for widget in self._spare:
            widget.setVisible(True)
        hidden = []
        for widget in spare:
            if self._fits(width):
                break
            widget.setVisible(False)
            hidden.append(widget)
        for widget in reversed(hidden[:-1]):
            widget.setVisible(True)
            if not self._fits(width):
                widget.setVisible(False)

    def _fits(self, width: int) -> bool:
        self._row.invalidate()
        return self._row.sizeHint().width() <= width

    def _build(self) -> None:
        layout = self._row
        layout.setContentsMargins(12, 5, 12, 5)
        layout.setSpacing(4)
        for button in _BUTTONS:
            if button.id in _GAP_BEFORE:
                layout.addSpacing(8)
            layout.addWidget(self._button(button))
        layout.addSpacing(8)
        self._fill_steps()
        captions = [
            _caption("Step by", self.step_by),
            _caption("Speed", self.speed_field.field),
            _caption("Micro-op", self.position),
        ]
        layout.addWidget(captions[0])
        layout.addWidget(self.step_by)
        layout.addSpacing(8)
        layout.addWidget(captions[1])
        layout.addWidget(self.speed_field, 2)
        layout.addSpacing(8)
        layout.addWidget(captions[2])
        metrics = self.fontMetrics()
        self.position.setFixedSize(metrics.horizontalAdvance("9 999 999 999") + 20, _FIELD_HEIGHT)
        layout.addWidget(self.position)
        for label in (self._total, self._cycle):
            label.setObjectName("muted")
            layout.addWidget(label)
        self._cycle.setToolTip("Clock of the CPU that is furthest ahead")
        layout.addStretch(1)
        layout.addWidget(self._side_pages())
        layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        step, speed, place = captions
        self._spare = (place, step, self.speed_field.slider, speed, self._cycle, self._side, self._total)

    def _button(self, spec: _Button) -> QToolButton:
        button = QToolButton()
        button.setObjectName(spec.id)
        button.setAccessibleName(spec.text)
        button.setToolTip(f"{spec.text} ({spec.shortcut})")
        button.setFixedSize(30, _FIELD_HEIGHT)
        button.setIconSize(QSize(18, 18))
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setProperty("command", "true")
        button.setProperty("primary", "false")
        button.setAutoRepeat(spec.id in ("step", "step_back"))
        self.buttons[spec.id] = button
        return button

    def _fill_steps(self) -> None:
        self.step_by.setAccessibleName("Step by")
        self.step_by.setToolTip("How far a step goes, forwards and backwards")
        self.step_by.setFixedHeight(_FIELD_HEIGHT)
        self.step_by.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        for index, (_, text, tip) in enumerate(STEPS):
            self.step_by.addItem(text)
            self.step_by.setItemData(index, tip, Qt.ItemDataRole.ToolTipRole)

    def _side_pages(self) -> QStackedWidget:
        # Branch and search share one place, so that nothing moves when a search begins.
        self._refusal.setObjectName("refusal")
        self._branch.setObjectName("muted")
        self._moving.setObjectName("muted")
        for label in (self._branch, self._moving):
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._progress.setFixedHeight(6)
        self._progress.setTextVisible(False)
        self._progress.setFixedWidth(_PROGRESS_PIXELS)
        self.cancel_button.setFixedSize(_FIELD_HEIGHT, _FIELD_HEIGHT)
        self.cancel_button.setProperty("command", "true")
        self.cancel_button.setToolTip("Stop the search; the cursor stays where it was (Esc)")
        self.cancel_button.setAccessibleName("Stop the search")
        self.cancel_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._side.addWidget(_row(self._branch, self._branch_icon, self._branch))
        self._side.addWidget(_row(self._moving, self._moving, self._progress, self.cancel_button))
        self._side.addWidget(self._refusal)
        self._side.setFixedWidth(_SIDE_PIXELS)
        return self._side

    def _connect(self) -> None:
        moves = {
            "to_start": (Move.START, -1),
            "previous_event": (Move.EVENT_ANY_CPU, -1),
            "next_event": (Move.EVENT_ANY_CPU, +1),
            "to_end": (Move.END, +1),
        }
        for name, (move, direction) in moves.items():
            self.buttons[name].clicked.connect(lambda *_, m=move, d=direction: self.moved.emit(m, d))
        self.buttons["step_back"].clicked.connect(lambda: self.moved.emit(self.step_move, -1))
        self.buttons["step"].clicked.connect(lambda: self.moved.emit(self.step_move, +1))
        self.buttons["play_back"].clicked.connect(lambda: self.play.emit(-1))
        self.buttons["play"].clicked.connect(lambda: self.play.emit(+1))
        self.buttons["pause"].clicked.connect(self.pause.emit)
        self.cancel_button.clicked.connect(self.cancel.emit)
        self.speed_field.rate_changed.connect(self.speed.emit)
        self.speed_field.entered.connect(self.entered.emit)
        self.step_by.currentIndexChanged.connect(lambda _: self.step_changed.emit(self.step_move))
        self.position.place_entered.connect(self._place_entered)
        self.position.refused.connect(self._refused)

    def _place_entered(self, place: ToPosition | ToCycle) -> None:
        if isinstance(place, ToPosition):
            self.seek.emit(place.position)
        else:
            self.seek_cycle.emit(place.clock_cycles)
        self.entered.emit()

    def _refused(self, why: str) -> None:
        self._why_refused = why
        self._show_side(self._state)
        self._make_room(self.width())

    def _enable(self, state: TransportState) -> None:
        at_end = state.position >= state.end
        for name in _BACKWARDS:
            self.buttons[name].setEnabled(state.ready and state.position > 0)
        for name in _FORWARDS:
            self.buttons[name].setEnabled(state.ready and not (state.finished and at_end))
        self.buttons["to_end"].setEnabled(state.ready and not at_end)
        self.buttons["pause"].setEnabled(state.ready and (state.playing != 0 or bool(state.moving)))
        self.position.setEnabled(state.ready)
        self.step_by.setEnabled(state.ready)

    def _show_side(self, state: TransportState) -> None:
        self._side.setCurrentIndex(2 if self._why_refused else 1 if state.moving else 0)
        self._refusal.setText(self._shortened(self._why_refused, _SIDE_PIXELS))
        self._refusal.setToolTip(self._why_refused)
        self._branch.setText(self._shortened(state.branch, _SIDE_PIXELS - 24))
        self._branch.setToolTip(f"Branch: {state.branch}" if state.branch else "")
        self._branch_icon.setVisible(bool(state.branch))
        self._moving.setText(self._shortened(state.moving, _SIDE_PIXELS - _PROGRESS_PIXELS - 44))
        self._moving.setToolTip(state.moving)
        self._progress.setRange(0, 0 if state.moving and state.progress is None else 100)
        self._progress.setValue(round(100 * (state.progress or 0.0)))

    def _shortened(self, text: str, room: int) -> str:
        return self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room)

    def _draw_icons(self) -> None:
        # The button that plays has the ground of the accent colour.
        active = {1: "play", -1: "play_back"}.get(self._state.playing, "")
        for spec in _BUTTONS:
            button, on = self.buttons[spec.id], spec.id == active
            button.setIcon(icon(spec.icon, self._theme, on_accent=on))
            if button.property("primary") != ("true" if on else "false"):
                button.setProperty("primary", "true" if on else "false")
                button.style().unpolish(button)
                button.style().polish(button)


def _show_number(label: QLabel, text: str) -> bool:
    # Its place grows with the number but does not shrink, so that nothing beside it jitters.
    label.setText(text)
    before = label.minimumWidth()
    label.setMinimumWidth(max(before, label.sizeHint().width() + 4))
    return label.minimumWidth() > before


def _caption(text: str, buddy: QWidget) -> QLabel:
    label = QLabel(text)
    label.setObjectName("caption")
    label.setBuddy(buddy)
    return label


def _row(stretched: QWidget, *widgets: QWidget) -> QWidget:
    holder = QWidget()
    layout = QHBoxLayout(holder)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(6)
    for widget in widgets:
        layout.addWidget(widget, 1 if widget is stretched else 0)
    return holder
