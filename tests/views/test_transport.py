"""The transport bar: every button, the step choice, speed and position as typed, what is disabled when."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from slubviz.model.travel.movements import Move
from slubviz.views.theme import DARK, LIGHT
from slubviz.views.transport import STEPS, TransportBar, TransportState
from slubviz.views.transport_position import ToCycle, ToPosition, parse_place
from slubviz.views.transport_speed import (
    FASTEST,
    UNLIMITED_STEP,
    SpeedField,
    parse_rate,
    rate_of_step,
    rate_text,
    step_of_rate,
)

THIN = "\u202f"
LEFT = Qt.MouseButton.LeftButton
MIDDLE_OF_RUN = TransportState(position=500, end=1000, clock_cycles=1234.0, ready=True)


class Signals:
    """Everything that a bar emits, in order."""

    def __init__(self, bar: TransportBar) -> None:
        self.all: list[tuple[object, ...]] = []
        bar.moved.connect(lambda move, direction: self.all.append(("moved", move, direction)))
        bar.seek.connect(lambda position: self.all.append(("seek", position)))
        bar.seek_cycle.connect(lambda cycles: self.all.append(("seek_cycle", cycles)))
        bar.play.connect(lambda direction: self.all.append(("play", direction)))
        bar.pause.connect(lambda: self.all.append(("pause",)))
        bar.speed.connect(lambda rate: self.all.append(("speed", rate)))
        bar.step_changed.connect(lambda move: self.all.append(("step_changed", move)))
        bar.cancel.connect(lambda: self.all.append(("cancel",)))


def shown(
    qtbot: QtBot, state: TransportState = MIDDLE_OF_RUN, width: int = 1280
) -> tuple[TransportBar, Signals]:
    bar = TransportBar(LIGHT)
    qtbot.addWidget(bar)
    signals = Signals(bar)
    bar.resize(width, bar.sizeHint().height())
    bar.show()
    bar.show_state(state)
    return bar, signals


def enabled(bar: TransportBar) -> set[str]:
    return {name for name, button in bar.buttons.items() if button.isEnabled()}


# --- buttons ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("to_start", ("moved", Move.START, -1)),
        ("previous_event", ("moved", Move.EVENT_ANY_CPU, -1)),
        ("step_back", ("moved", Move.MICRO_OP, -1)),
        ("play_back", ("play", -1)),
        ("play", ("play", 1)),
        ("step", ("moved", Move.MICRO_OP, 1)),
        ("next_event", ("moved", Move.EVENT_ANY_CPU, 1)),
        ("to_end", ("moved", Move.END, 1)),
    ],
)
def test_buttons_say_what_they_do(qtbot: QtBot, name: str, signal: tuple[object, ...]) -> None:
    bar, signals = shown(qtbot)
    qtbot.mouseClick(bar.buttons[name], LEFT)
    assert signals.all == [signal]


def test_pause_while_it_plays(qtbot: QtBot) -> None:
    bar, signals = shown(qtbot, replace(MIDDLE_OF_RUN, playing=-1))
    qtbot.mouseClick(bar.buttons["pause"], LEFT)
    assert signals.all == [("pause",)]


@pytest.mark.parametrize(("index", "move"), list(enumerate(move for move, _, _ in STEPS)))
def test_step_buttons_go_as_far_as_chosen(qtbot: QtBot, index: int, move: Move) -> None:
    bar, signals = shown(qtbot)
    bar.step_by.setCurrentIndex((index + 1) % len(STEPS))
    bar.step_by.setCurrentIndex(index)
    signals.all.clear()
    qtbot.mouseClick(bar.buttons["step"], LEFT)
    qtbot.mouseClick(bar.buttons["step_back"], LEFT)
    assert signals.all == [("moved", move, 1), ("moved", move, -1)]


def test_the_step_choice_is_announced_and_can_be_set(qtbot: QtBot) -> None:
    bar, signals = shown(qtbot)
    bar.set_step_move(Move.RETRY)
    assert bar.step_move is Move.RETRY
    assert signals.all == [("step_changed", Move.RETRY)]
    bar.set_step_move(Move.START)  # is no choice
    assert bar.step_move is Move.RETRY


def test_choices_are_those_asked_for() -> None:
    texts = [text for _, text, _ in STEPS]
    assert texts == [
        "micro-op",
        "source line",
        "over call",
        "out of function",
        "event",
        "interrupt",
        "slow path",
        "retry",
        "contention",
        "breakpoint",
    ]


BACK = {"to_start", "previous_event", "step_back", "play_back"}
FORTH = {"play", "step", "next_event"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ready": False}, set()),
        ({}, BACK | FORTH | {"to_end"}),
        ({"position": 0}, FORTH | {"to_end"}),
        ({"position": 1000}, BACK | FORTH),
        ({"position": 1000, "finished": True}, BACK),
        ({"position": 999, "finished": True}, BACK | FORTH | {"to_end"}),
        ({"playing": 1}, BACK | FORTH | {"to_end", "pause"}),
        ({"moving": "Next retry"}, BACK | FORTH | {"to_end", "pause"}),
    ],
)
def test_buttons_that_mean_nothing_are_disabled(
    qtbot: QtBot, changes: dict[str, object], expected: set[str]
) -> None:
    bar, _ = shown(qtbot, replace(MIDDLE_OF_RUN, **changes))  # type: ignore[arg-type]
    assert enabled(bar) == expected
    assert bar.position.isEnabled() == bool(changes.get("ready", True))


def test_the_button_that_plays_is_marked(qtbot: QtBot) -> None:
    bar, _ = shown(qtbot)
    for playing, marked in ((1, ["play"]), (-1, ["play_back"]), (0, [])):
        bar.show_state(replace(MIDDLE_OF_RUN, playing=playing))
        assert [name for name, one in bar.buttons.items() if one.property("primary") == "true"] == marked


def test_tooltips_name_the_keys(qtbot: QtBot) -> None:
    bar, _ = shown(qtbot)
    assert bar.buttons["step_back"].toolTip() == "Step back (Shift+F10)"
    bar.set_shortcuts({"step_back": "Ctrl+J", "step": ""})
    assert bar.buttons["step_back"].toolTip() == "Step back (Ctrl+J)"
    assert bar.buttons["step"].toolTip() == "Step"
    assert all(button.toolTip() and button.accessibleName() for button in bar.buttons.values())


# --- what is shown --------------------------------------------------------------------------------------
def test_position_total_clock_and_branch(qtbot: QtBot) -> None:
    bar, signals = shown(
        qtbot, replace(MIDDLE_OF_RUN, position=1234567, end=2345678, branch="with an interrupt")
    )
    assert bar.position.text() == f"1{THIN}234{THIN}567"
    assert bar.total_text() == f"/ 2{THIN}345{THIN}678"
    assert bar.cycle_text() == f"cycle 1{THIN}234"
    assert bar.side_text() == "with an interrupt"
    assert signals.all == []  # showing is not announced


def test_a_search_is_shown_with_its_progress_and_can_be_stopped(qtbot: QtBot) -> None:
    bar, signals = shown(qtbot)
    assert not bar.cancel_button.isVisible()
    bar.show_state(replace(MIDDLE_OF_RUN, moving="Next retry", progress=0.375))
    assert (bar.side_text(), bar.progress_percent()) == ("Next retry", 38)
    qtbot.mouseClick(bar.cancel_button, LEFT)
    assert signals.all == [("cancel",)]
    bar.show_state(replace(MIDDLE_OF_RUN, moving="Next retry", progress=None))
    assert bar.progress_percent() is None
    bar.show_state(MIDDLE_OF_RUN)
    assert not bar.cancel_button.isVisible()


def right_edges_fit(bar: TransportBar) -> bool:
    inner = [bar.position, bar.speed_field.field, bar.step_by, *bar.buttons.values()]
    return all(one.mapTo(bar, one.rect().bottomRight()).x() < bar.width() for one in inner if one.isVisible())


@pytest.mark.parametrize("width", [720, 800, 1000, 1280, 1920])
def test_a_narrow_bar_leaves_out_what_can_be_missed(qtbot: QtBot, width: int) -> None:
    state = replace(MIDDLE_OF_RUN, position=123_456_789, end=999_999_999, clock_cycles=4e9, branch="main")
    bar, _ = shown(qtbot, state, width)
    QApplication.processEvents()
    assert bar.width() == width
    assert right_edges_fit(bar)
    assert bar.position.isVisible()
    assert bar.speed_field.field.isVisible()
    assert bar.speed_field.slider.isVisible() == (width >= 1280)
    bar.resize(1920, bar.height())
    assert bar.speed_field.slider.isVisible()


def test_a_search_can_be_stopped_on_a_narrow_bar(qtbot: QtBot) -> None:
    bar, _ = shown(qtbot, replace(MIDDLE_OF_RUN, branch="main"), 760)
    assert not bar._branch.isVisible()
    bar.show_state(replace(MIDDLE_OF_RUN, moving="Next retry"))
    assert bar.cancel_button.isVisible()
    bar.show_state(MIDDLE_OF_RUN)
    assert not bar.cancel_button.isVisible()


def test_theme_changes_icons(qtbot: QtBot) -> None:
    bar, _ = shown(qtbot)

    def picture() -> object:
        return bar.buttons["next_event"].icon().pixmap(32, 32).toImage()

    light = picture()
    bar.set_theme(DARK)
    assert picture() != light


def test_every_button_has_a_picture_of_its_own(qtbot: QtBot) -> None:
    bar, _ = shown(qtbot)
    pictures = [button.icon().pixmap(32, 32).toImage() for button in bar.buttons.values()]
    assert all(one != other for index, one in enumerate(pictures) for other in pictures[index + 1 :])


# --- position as typed ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0", ToPosition(0)),
        ("1234", ToPosition(1234)),
        (f" 1{THIN}234 567 ", ToPosition(1_234_567)),
        ("1,234", ToPosition(1234)),
        ("+50", ToPosition(550)),
        ("-50", ToPosition(450)),
        ("−50", ToPosition(450)),
        ("-501", ToPosition(0)),
        ("cycle 9000", ToCycle(9000)),
        ("Cycle 9,000", ToCycle(9000)),
        ("9000 cycles", ToCycle(9000)),
        ("c 7", ToCycle(7)),
        ("", None),
        ("x", None),
        ("1.5", None),
        ("cycle", None),
        ("cycle -4", None),
        ("--4", None),
        ("٣", None),
        ("²", None),
        ("1" * 19, None),
        ("__import__('os')", None),
    ],
)
def test_places_that_can_be_typed(text: str, place: object) -> None:
    assert parse_place(text, here=500) == place


@given(st.integers(0, 10**17))
def test_a_position_that_is_shown_can_be_typed_back(position: int) -> None:
    grouped = f"{position:,}".replace(",", THIN)
    assert parse_place(grouped, here=3) == ToPosition(position)


def enter(qtbot: QtBot, bar: TransportBar, text: str) -> None:
    bar.position.setFocus()
    bar.position.selectAll()
    qtbot.keyClicks(bar.position, text)
    qtbot.keyClick(bar.position, Qt.Key.Key_Return)


@pytest.mark.parametrize(
    ("text", "signal"),
    [("77", ("seek", 77)), ("+5000000000", ("seek", 5_000_000_500)), ("cycle 88", ("seek_cycle", 88))],
)
def test_typing_a_place_goes_there(qtbot: QtBot, text: str, signal: tuple[object, ...]) -> None:
    bar, signals = shown(qtbot)
    enter(qtbot, bar, text)
    assert signals.all == [signal]


def test_a_wrong_place_is_marked_and_told_and_nothing_moves(qtbot: QtBot) -> None:
    bar, signals = shown(qtbot, replace(MIDDLE_OF_RUN, finished=True))
    for text, why in (
        ("nonsense", "Expected 1234, +50 or cycle 9000"),
        ("1001", f"The run ends at 1{THIN}000"),
    ):
        enter(qtbot, bar, text)
        assert bar.position.property("invalid") is True
        assert bar.side_text() == why
    assert signals.all == []
    enter(qtbot, bar, "1000")
    assert signals.all == [("seek", 1000)]
    assert not bar.position.property("invalid")
    assert bar.side_text() == ""


def test_an_update_does_not_disturb_who_types_and_escape_gives_up(qtbot: QtBot) -> None:
    bar, signals = shown(qtbot)
    bar.position.setFocus()
    bar.position.selectAll()
    qtbot.keyClicks(bar.position, "12")
    bar.show_state(replace(MIDDLE_OF_RUN, position=600))
    assert bar.position.text() == "12"
    override = QKeyEvent(QEvent.Type.ShortcutOverride, Qt.Key.Key_Escape, Qt.KeyboardModifier.NoModifier)
    override.ignore()
    QApplication.sendEvent(bar.position, override)
    assert override.isAccepted()
    qtbot.keyClick(bar.position, Qt.Key.Key_Escape)
    assert bar.position.text() == "600"
    bar.show_state(replace(MIDDLE_OF_RUN, position=601))
    assert bar.position.text() == "601"
    assert signals.all == []


# --- speed ------------------------------------------------------------------------------------------------
def test_the_scale_goes_from_one_micro_op_a_second_to_unlimited() -> None:
    assert rate_of_step(0) == 1
    assert rate_of_step(UNLIMITED_STEP - 1) == FASTEST
    assert math.isinf(rate_of_step(UNLIMITED_STEP))
    rates = [rate_of_step(step) for step in range(UNLIMITED_STEP)]
    assert rates == sorted(rates)
    assert {1.0, 10.0, 1e3, 1e6}.issubset(rates)
    assert all(later / before < 1.25 for before, later in pairwise(rates[8:]))


@pytest.mark.parametrize("step", range(UNLIMITED_STEP + 1))
def test_slider_and_rate_agree(step: int) -> None:
    assert rate_of_step(step_of_rate(rate_of_step(step))) == rate_of_step(step)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1", 1.0),
        ("250", 250.0),
        ("1.5k", 1500.0),
        ("1,5 k", 1500.0),
        (f"2{THIN}M", 2e6),
        ("3 micro-ops/s", 3.0),
        ("unlimited", math.inf),
        ("MAX", math.inf),
        ("∞", math.inf),
        ("9G", math.inf),
        ("0", None),
        ("0.5", None),
        ("-3", None),
        ("", None),
        ("fast", None),
        ("1e5", None),
        ("nan", None),
    ],
)
def test_speeds_that_can_be_typed(text: str, rate: float | None) -> None:
    assert parse_rate(text) == rate


@given(st.integers(1, 10**8))
def test_a_speed_that_is_shown_is_exact(rate: int) -> None:
    assert parse_rate(rate_text(rate)) == pytest.approx(rate, rel=1e-12)


def speed_field(qtbot: QtBot) -> tuple[SpeedField, list[float]]:
    field = SpeedField()
    qtbot.addWidget(field)
    rates: list[float] = []
    field.rate_changed.connect(rates.append)
    return field, rates


def test_sliding_shows_the_exact_speed_and_announces_it(qtbot: QtBot) -> None:
    field, rates = speed_field(qtbot)
    field.slider.setValue(60)
    assert rates == [1000.0]
    assert field.field.text() == f"1{THIN}k"
    field.slider.setValue(UNLIMITED_STEP)
    assert math.isinf(rates[-1])
    assert field.field.text() == "unlimited"


def test_typing_a_speed_moves_the_slider(qtbot: QtBot) -> None:
    field, rates = speed_field(qtbot)
    for text, rate, step in (("1234", 1234.0, 62), ("unlimited", math.inf, UNLIMITED_STEP), ("1", 1.0, 0)):
        field.field.setText(text)
        field.field.editingFinished.emit()
        assert rates[-1] == rate
        assert field.rate == rate
        assert field.slider.value() == step
    field.field.setText("fast")
    field.field.editingFinished.emit()
    assert field.field.property("invalid") is True
    assert len(rates) == 3
    field.set_rate(50.0)
    assert not field.field.property("invalid")
    assert len(rates) == 3
    assert field.slider.value() == step_of_rate(50.0)
