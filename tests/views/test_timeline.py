"""The timeline widget: zoom, pan, scrub, marks, markers, details, and what is painted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from slubviz.model.travel.activity import Activity
from slubviz.views.theme import DARK, LIGHT
from slubviz.views.timeline import TimelineView
from slubviz.views.timeline_content import TimelineContent
from slubviz.views.timeline_marks import NO_CPU, Sign
from slubviz.views.timeline_requests import DETAIL_MICRO_OPS, REST_MILLISECONDS
from tests.views.fake_timeline import (
    CYCLES_PER_MICRO_OP,
    END,
    exact_detail,
    fake_content,
    fake_detail,
    fake_overview,
)

THIN = "\u202f"
LEFT, MIDDLE = Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton


class Signals:
    """Everything that a timeline emits, in order."""

    def __init__(self, view: TimelineView) -> None:
        self.scrubbed: list[int] = []
        self.sought: list[int] = []
        self.details: list[tuple[int, int]] = []
        view.scrubbed.connect(self.scrubbed.append)
        view.seek.connect(self.sought.append)
        view.wanted_detail.connect(lambda first, last: self.details.append((first, last)))


def shown(
    qtbot: QtBot, content: TimelineContent | None = None, width: int = 1000, height: int = 176
) -> tuple[TimelineView, Signals]:
    view = TimelineView(LIGHT)
    qtbot.addWidget(view)
    signals = Signals(view)
    view.resize(width, height)
    view.show()
    view.show_content(content or fake_content())
    return view, signals


def lane_point(view: TimelineView, position: float, cpu: int = 0) -> QPoint:
    return QPointF(view.x_of(position), view.layout_shown.lane_y(cpu)).toPoint()


def flag_point(view: TimelineView, position: float) -> QPoint:
    layout = view.layout_shown
    return QPointF(view.x_of(position), layout.flags_y + layout.flags_height / 2).toPoint()


def ruler_point(view: TimelineView, position: float) -> QPoint:
    return QPointF(view.x_of(position), view.layout_shown.ruler_y + 3).toPoint()


def wheel(
    view: TimelineView,
    at: QPoint,
    up: int = 0,
    sideways: int = 0,
    modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
) -> None:
    event = QWheelEvent(
        QPointF(at),
        QPointF(view.mapToGlobal(at)),
        QPoint(),
        QPoint(sideways, up),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view, event)


def drag(qtbot: QtBot, view: TimelineView, points: list[QPoint], button: Qt.MouseButton = LEFT) -> None:
    qtbot.mousePress(view, button, pos=points[0])
    for point in points[1:]:
        move(view, point, button)
    qtbot.mouseRelease(view, button, pos=points[-1])


def move(view: TimelineView, point: QPoint, button: Qt.MouseButton = LEFT) -> None:
    from PySide6.QtGui import QMouseEvent

    event = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(point),
        QPointF(view.mapToGlobal(point)),
        Qt.MouseButton.NoButton,
        button,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(view, event)


# --- zoom and pan -------------------------------------------------------------------------------------
def test_a_new_run_is_shown_whole_and_its_end_is_followed(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    assert (view.window_shown.first, view.window_shown.visible) == (0, END)
    view.show_content(fake_content(end=2 * END))
    assert (view.window_shown.first, view.window_shown.visible) == (0, 2 * END)
    view.zoom(2)
    zoomed = view.window_shown
    view.show_content(fake_content(end=3 * END))
    assert view.window_shown == zoomed


@pytest.mark.parametrize("place", [0.1, 0.5, 0.93])
def test_the_wheel_keeps_the_position_under_the_pointer(qtbot: QtBot, place: float) -> None:
    view, _ = shown(qtbot)
    at = lane_point(view, place * END)
    for up in (120, 120, 240, 1200, -120, 360):
        before = view.window_shown
        fraction = view.layout_shown.fraction(at.x())
        wheel(view, at, up=up)
        assert view.window_shown.visible == pytest.approx(before.visible / 1.25 ** (up / 120))
        assert view.window_shown.position_at(fraction) == pytest.approx(
            before.position_at(fraction), abs=1e-3
        )


def test_the_wheel_goes_from_the_whole_run_to_one_micro_op_and_back(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    at = lane_point(view, END / 3)
    wheel(view, at, up=12_000)
    assert view.window_shown.visible == 1
    wheel(view, at, up=-12_000)
    assert (view.window_shown.first, view.window_shown.visible) == (0, END)


def test_shift_and_the_sideways_wheel_pan(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    view.show_range(400_000, 500_000)
    wheel(view, lane_point(view, 450_000), up=-120, modifiers=Qt.KeyboardModifier.ShiftModifier)
    assert view.window_shown.first == pytest.approx(410_000)
    wheel(view, lane_point(view, 450_000), sideways=120)
    assert view.window_shown.first == pytest.approx(400_000)
    assert view.window_shown.visible == pytest.approx(100_000)


def test_keys_zoom_around_the_cursor_and_home_shows_all(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    qtbot.keyClick(view, Qt.Key.Key_Plus)
    assert view.window_shown.visible == pytest.approx(END / 1.6)
    assert view.window_shown.fraction_of(420_000) == pytest.approx(0.42)
    qtbot.keyClick(view, Qt.Key.Key_Minus)
    assert view.window_shown.visible == pytest.approx(END)
    view.show_range(0, 1000)
    qtbot.keyClick(view, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert view.window_shown.first == pytest.approx(200)
    qtbot.keyClick(view, Qt.Key.Key_Home)
    assert (view.window_shown.first, view.window_shown.visible) == (0, END)


@pytest.mark.parametrize("with_space", [False, True])
def test_dragging_with_the_middle_button_or_space_pans(qtbot: QtBot, with_space: bool) -> None:
    view, signals = shown(qtbot)
    view.show_range(400_000, 500_000)
    start = lane_point(view, 450_000)
    button = LEFT if with_space else MIDDLE
    if with_space:
        qtbot.keyPress(view, Qt.Key.Key_Space)
    grabbed = view.window_shown.position_at(view.layout_shown.fraction(start.x()))
    drag(qtbot, view, [start, start + QPoint(50, 0), start + QPoint(120, 0)], button)
    under = view.window_shown.position_at(view.layout_shown.fraction(start.x() + 120))
    assert under == pytest.approx(grabbed)
    assert view.window_shown.visible == pytest.approx(100_000)
    assert signals.scrubbed == []
    if with_space:
        qtbot.keyRelease(view, Qt.Key.Key_Space)
        drag(qtbot, view, [start, start + QPoint(50, 0)])
        assert signals.scrubbed


def test_the_scroll_bar_pans(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    assert not view._bars.run.isVisible()
    view.show_range(0, 100_000)
    assert view._bars.run.isVisible()
    view._bars.run.setValue(view._bars.run.maximum())
    assert view.window_shown.first == pytest.approx(900_000, rel=1e-5)
    assert view.window_shown.visible == pytest.approx(100_000)


def test_the_view_follows_a_cursor_that_leaves_it_but_not_one_that_was_outside(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    view.show_range(400_000, 500_000)
    content = fake_content()
    view.show_content(replace(content, position=499_999))
    assert view.window_shown.first == 400_000
    view.show_content(replace(content, position=500_010))
    assert view.window_shown.first == pytest.approx(500_010 - 20_000)
    view.show_range(100_000, 200_000)
    view.show_content(replace(content, position=500_011))
    assert view.window_shown.first == pytest.approx(100_000)
    view.reveal_cursor()
    assert view.window_shown.fraction_of(500_011) == pytest.approx(0.2)


def test_another_run_begins_anew_and_another_branch_does_not(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    view.show_range(400_000, 500_000)
    view.set_marker("A", 1)
    view.set_marker("B", 2)
    view.show_content(fake_content(end=600_000, branch=1))
    assert view.window_shown.first == pytest.approx(400_000)
    assert view.difference_text()
    view.show_content(fake_content(end=600_000, run=1))
    assert (view.window_shown.first, view.window_shown.visible) == (0, 600_000)
    assert view.difference_text() == ""


# --- scrub, seek, marks ---------------------------------------------------------------------------------
def test_dragging_scrubs_all_the_way(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    points = [ruler_point(view, position) for position in (200_000, 300_000, 250_000)]
    drag(qtbot, view, points)
    assert signals.scrubbed == [view.position_at(point.x()) for point in points]
    assert signals.scrubbed == pytest.approx([200_000, 300_000, 250_000], abs=END / 900)
    assert signals.sought == []
    assert view.cursor_position == signals.scrubbed[-1]
    view.show_content(fake_content(position=7))
    assert view.cursor_position == 7


def test_content_that_comes_while_dragging_does_not_move_the_cursor(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    qtbot.mousePress(view, LEFT, pos=ruler_point(view, 300_000))
    view.show_content(fake_content(position=5))
    assert view.cursor_position == signals.scrubbed[-1]
    qtbot.mouseRelease(view, LEFT, pos=ruler_point(view, 300_000))


def test_scrubbing_stays_inside_the_run(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    start = ruler_point(view, 500_000)
    drag(qtbot, view, [start, start - QPoint(5000, 0), start + QPoint(5000, 0)])
    assert signals.scrubbed[1:] == [0, END]


def test_a_click_on_a_mark_of_a_lane_goes_exactly_there(qtbot: QtBot) -> None:
    detail = exact_detail(400_000, 500_000, 8, marks=((443_211, 3, "RETRY"),))
    view, signals = shown(qtbot, fake_content(detail=detail))
    view.show_range(400_000, 500_000)
    qtbot.mouseClick(view, LEFT, pos=lane_point(view, 443_211, 3) + QPoint(2, 0))
    assert signals.sought == [443_211]
    assert signals.scrubbed == []
    qtbot.mouseClick(view, LEFT, pos=lane_point(view, 443_211, 4))
    assert signals.sought == [443_211]
    assert len(signals.scrubbed) == 1


def test_dragging_from_a_mark_scrubs(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    start = flag_point(view, END // 4)
    drag(qtbot, view, [start, start + QPoint(2, 0), start + QPoint(30, 0)])
    assert signals.sought == []
    assert signals.scrubbed == [view.position_at(start.x() + 30)]


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (END // 4, "Bookmark: first refill\nthe partial list is empty"),
        (END * 7 // 10, "Change: interrupt on CPU 0: irq_alloc(64)"),
        (END * 6 // 10, "Branch: with an interrupt begins"),
        (END // 2, "Phase: measured: kmalloc 64"),
        (END * 9 // 10, "Fault: page 7 is not on the list"),
    ],
)
def test_marks_of_the_run_tell_their_facts_and_are_gone_to(qtbot: QtBot, position: int, text: str) -> None:
    view, signals = shown(qtbot, fake_content(fault=(END * 9 // 10, "page 7 is not on the list")))
    point = flag_point(view, position)
    assert view.tooltip_at(QPointF(point)).startswith(text)
    qtbot.mouseClick(view, LEFT, pos=point)
    assert signals.sought == [position]


def test_overview_marks_are_counts_of_a_stretch(qtbot: QtBot) -> None:
    overview = fake_overview()
    counts = np.zeros_like(overview.retries)
    counts[300, 2] = 3
    view, signals = shown(qtbot, fake_content(overview=replace(overview, retries=counts)))
    lanes, _ = view.placed_marks
    mine = np.flatnonzero(lanes.sign == Sign.RETRY)
    assert lanes.row[mine].tolist() == [2]
    assert not lanes.exact[mine].any()
    point = lane_point(view, 300_000, 2)
    text = view.tooltip_at(QPointF(point))
    assert text == f"3 retries on CPU 2\nBetween micro-ops 300{THIN}000 and 301{THIN}000"
    qtbot.mouseClick(view, LEFT, pos=point)
    assert signals.sought == [300_000]


def test_marks_of_a_detail_take_the_place_of_those_of_its_buckets(qtbot: QtBot) -> None:
    overview = fake_overview()
    counts = np.zeros_like(overview.retries)
    counts[[100, 300], 2] = 1
    detail = exact_detail(300_000, 301_000, 8, marks=((300_777, 2, "RETRY"),))
    view, _ = shown(qtbot, fake_content(overview=replace(overview, retries=counts), detail=detail))
    lanes, _ = view.placed_marks
    mine = lanes.sign == Sign.RETRY
    assert lanes.exact[mine].tolist() == [False, True]
    assert lanes.x[mine] == pytest.approx(
        [view.x_of(p) - view.layout_shown.plot_x for p in (100_000, 300_777)]
    )


# --- markers ----------------------------------------------------------------------------------------------
def test_a_and_b_at_the_cursor_give_the_exact_difference(qtbot: QtBot) -> None:
    view, _ = shown(qtbot, fake_content(position=123_457))
    qtbot.keyClick(view, Qt.Key.Key_A)
    assert view.difference_text() == ""
    view.show_content(
        replace(fake_content(position=223_458), clock_cycles=123_457.0 * CYCLES_PER_MICRO_OP + 9)
    )
    qtbot.keyClick(view, Qt.Key.Key_B)
    assert view.difference_text() == f"B − A: 100{THIN}001{THIN}micro-ops, 9{THIN}cycles"
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert view.difference_text() == ""


def test_a_double_click_sets_a_marker_whose_clock_is_learnt_later(qtbot: QtBot) -> None:
    view, _ = shown(qtbot, fake_content(position=0))
    view.set_marker("A")
    point = ruler_point(view, 333_333)
    qtbot.mouseDClick(view, LEFT, Qt.KeyboardModifier.ShiftModifier, pos=point)
    position = view.position_at(point.x())
    assert f"≈{THIN}" in view.difference_text()
    view.show_content(replace(fake_content(position=position), clock_cycles=55.0))
    count = f"{position:,}".replace(",", THIN)
    assert view.difference_text() == f"B − A: {count}{THIN}micro-ops, 55{THIN}cycles"


def test_the_difference_is_in_the_description(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    view.set_marker("A", 0)
    view.set_marker("B", END)
    view.show_content(fake_content())
    assert view.difference_text() in view.accessibleDescription()
    assert f"420{THIN}000 of 1{THIN}000{THIN}000" in view.accessibleDescription()


def test_own_keys_come_before_commands_of_the_window(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)

    def taken(key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> bool:
        event = QKeyEvent(QEvent.Type.ShortcutOverride, key, modifiers)
        event.ignore()
        QApplication.sendEvent(view, event)
        return event.isAccepted()

    assert taken(Qt.Key.Key_Home)
    assert taken(Qt.Key.Key_A)
    assert not taken(Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert not taken(Qt.Key.Key_Escape)  # without markers it is free
    assert not taken(Qt.Key.Key_F5)


def test_left_and_right_go_one_micro_op(qtbot: QtBot) -> None:
    view, signals = shown(qtbot, fake_content(position=1))
    qtbot.keyClick(view, Qt.Key.Key_Right)
    qtbot.keyClick(view, Qt.Key.Key_Left)
    assert signals.sought == [2, 0]
    view.show_content(fake_content(position=0))
    qtbot.keyClick(view, Qt.Key.Key_Left)
    assert signals.sought == [2, 0]


# --- detail -------------------------------------------------------------------------------------------------
def test_a_detail_is_asked_for_once_when_the_view_rests(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    qtbot.wait(200)
    assert signals.details == []  # all of the run is too much
    for first in (500_000, 510_000, 520_000):
        view.show_range(first, first + 20_000)
    qtbot.waitUntil(lambda: bool(signals.details), timeout=5000)
    assert signals.details == [(515_000, 545_000)]
    view.show_content(fake_content())
    view.show_range(516_000, 544_000)  # what was asked for covers it
    qtbot.wait(200)
    assert len(signals.details) == 1
    view.show_content(fake_content(detail=fake_detail(515_000, 545_000, 100)))
    qtbot.wait(200)
    assert len(signals.details) == 1
    view.show_range(540_000, 560_000)
    qtbot.waitUntil(lambda: len(signals.details) == 2, timeout=5000)


def test_a_detail_is_asked_for_while_pictures_come_and_the_view_rests(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    view.show_range(500_000, 520_000)
    for step in range(12):
        view.show_content(fake_content(position=505_000 + step))
        qtbot.wait(REST_MILLISECONDS // 4)
    assert signals.details == [(495_000, 525_000)]


def test_a_detail_that_came_short_is_not_asked_for_again_and_again(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    view.show_range(500_000, 600_000)
    qtbot.waitUntil(lambda: bool(signals.details), timeout=5000)
    view.show_content(fake_content(detail=fake_detail(475_000, 550_000, 100)))
    qtbot.wait(200)
    assert len(signals.details) == 1


def test_another_branch_needs_another_detail(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    view.show_range(0, DETAIL_MICRO_OPS)
    qtbot.waitUntil(lambda: bool(signals.details), timeout=5000)
    assert signals.details == [(0, 250_000)]
    view.show_content(fake_content(branch=1))
    qtbot.waitUntil(lambda: len(signals.details) == 2, timeout=5000)


def test_no_detail_of_what_is_too_much(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    view.show_range(0, DETAIL_MICRO_OPS + 2)
    qtbot.wait(200)
    assert signals.details == []


# --- pixels -------------------------------------------------------------------------------------------------
def image_of(view: TimelineView) -> QImage:
    return view.grab().toImage()


def base_colour(view: TimelineView, image: QImage, position: float, cpu: int) -> str:
    layout = view.layout_shown
    y = layout.lanes_y + (cpu - layout.cpus.start + 1) * layout.pitch - 3
    return QColor(image.pixel(QPointF(view.x_of(position), y).toPoint())).name()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_lanes_have_the_colour_of_what_the_cpu_does(qtbot: QtBot, theme: object) -> None:
    rows = [
        (0, 400_000, 450_000, Activity.FAST_PATH, 0),
        (0, 450_000, 500_000, Activity.SLOW_PATH, 0),
        (1, 400_000, 500_000, Activity.WORKLOAD, 2),
        (7, 400_000, 500_000, Activity.IDLE, 0),
    ]
    view, _ = shown(qtbot, fake_content(detail=exact_detail(400_000, 500_000, 8, rows)))
    view.set_theme(theme)  # type: ignore[arg-type]
    view.show_range(400_000, 500_000)
    image = image_of(view)
    for position, cpu, meaning in (
        (430_000, 0, "activity_fast"),
        (470_000, 0, "activity_slow"),
        (470_000, 1, "activity_workload"),
        (470_000, 7, "activity_idle"),
        (470_000, 5, "panel"),  # nothing is known of it
    ):
        assert base_colour(view, image, position, cpu) == getattr(theme, meaning), (cpu, meaning)
    layout = view.layout_shown
    lane = [
        QColor(image.pixel(round(view.x_of(470_000)), round(layout.lanes_y + layout.pitch) + y)).name()
        for y in range(round(layout.pitch))
    ]
    assert lane.count(theme.interrupt) == 2  # type: ignore[attr-defined]


def test_the_overview_is_shown_until_the_detail_comes(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    view.show_range(100_000, 110_000)
    before = image_of(view)
    rows = [(cpu, 100_000, 110_000, Activity.IDLE, 0) for cpu in range(8)]
    assert base_colour(view, before, 105_500, 0) != LIGHT.activity_idle
    view.show_content(fake_content(detail=exact_detail(100_000, 110_000, 8, rows)))
    assert base_colour(view, image_of(view), 105_500, 0) == LIGHT.activity_idle


def test_a_detail_of_a_part_leaves_the_rest_to_the_overview(qtbot: QtBot) -> None:
    rows = [(cpu, 105_000, 110_000, Activity.IDLE, 0) for cpu in range(8)]
    view, _ = shown(qtbot, fake_content(detail=exact_detail(105_000, 110_000, 8, rows)))
    view.show_range(100_000, 115_000)
    image = image_of(view)
    colours = [base_colour(view, image, place, 0) for place in (104_500, 105_500, 109_500, 110_500)]
    idle = LIGHT.activity_idle
    assert [colour == idle for colour in colours] == [False, True, True, False]


def test_only_the_cursor_moves_without_a_new_picture(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    content = fake_content()
    view.show_content(content)
    first = image_of(view)
    drawn = view.pictures_drawn
    view.show_content(replace(content, position=700_001))
    second = image_of(view)
    assert view.pictures_drawn == drawn
    assert first != second
    x = round(view.x_of(700_001))
    y = round(view.layout_shown.lanes_y + 1)
    assert LIGHT.text in {QColor(second.pixel(x + dx, y)).name() for dx in (-1, 0, 1)}
    view.zoom(2)
    image_of(view)
    assert view.pictures_drawn == drawn + 1


def test_the_focus_is_a_frame_and_hides_nothing(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    view, _ = shown(qtbot)
    monkeypatch.setattr(view, "hasFocus", lambda: False)
    without = image_of(view)
    monkeypatch.setattr(view, "hasFocus", lambda: True)
    with_focus = image_of(view)
    inner = view.rect().adjusted(1, 1, -1, -1)
    assert with_focus.copy(inner) == without.copy(inner)
    assert QColor(with_focus.pixel(0, 0)).name() == LIGHT.accent


def test_theme_and_size_change_everything(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    assert QColor(image_of(view).pixel(2, 2)).name() == LIGHT.panel
    view.set_theme(DARK)
    assert QColor(image_of(view).pixel(2, 2)).name() == DARK.panel
    view.resize(500, 300)
    assert view.layout_shown.width == 500
    assert image_of(view).width() == 500
    assert view.x_of(END) == pytest.approx(500 - 8)
    view.resize(60, 40)  # nothing fits: no fault
    image_of(view)


def test_no_run(qtbot: QtBot) -> None:
    view, signals = shown(qtbot)
    view.show_content(None)
    image_of(view)
    assert view.tooltip_at(QPointF(300, 120)) == ""
    qtbot.mouseClick(view, LEFT, pos=QPoint(300, 120))
    wheel(view, QPoint(300, 120), up=120)
    for key in (Qt.Key.Key_A, Qt.Key.Key_Plus, Qt.Key.Key_Home, Qt.Key.Key_Right):
        qtbot.keyClick(view, key)
    assert (signals.scrubbed, signals.sought, signals.details) == ([], [], [])
    assert view.accessibleDescription() == "No run"


def test_a_run_that_has_not_begun(qtbot: QtBot) -> None:
    content = TimelineContent(cpus=2, position=0, end=0)
    view, signals = shown(qtbot, content)
    image_of(view)
    qtbot.mouseClick(view, LEFT, pos=ruler_point(view, 0.5))
    assert signals.scrubbed == [0]
    qtbot.wait(200)
    assert signals.details == []


@pytest.mark.parametrize("cpus", [1, 64, 300])
def test_one_cpu_and_many(qtbot: QtBot, cpus: int) -> None:
    view, _ = shown(qtbot, fake_content(cpus=cpus))
    image_of(view)
    layout = view.layout_shown
    assert view._bars.lanes.isVisible() == (len(layout.cpus) < cpus)
    assert layout.cpus.start == 0
    view._bars.lanes.setValue(cpus)
    assert view.layout_shown.cpus.stop == cpus
    text = view.tooltip_at(QPointF(lane_point(view, 17_000.0, cpus - 1)))
    assert f"CPU {cpus - 1}" in text
    view.show_content(fake_content(cpus=2))
    assert view.layout_shown.cpus == range(2)


def test_the_wheel_over_the_labels_scrolls_the_lanes(qtbot: QtBot) -> None:
    view, _ = shown(qtbot, fake_content(cpus=64))
    wheel(view, QPoint(10, 120), up=-120)
    assert view.layout_shown.cpus.start == 1
    assert view.window_shown.visible == END


# --- tooltips -----------------------------------------------------------------------------------------------
def test_a_lane_tells_cpu_place_activity_and_function(qtbot: QtBot) -> None:
    rows = [
        (2, 420_000, 420_002, Activity.SLOW_PATH, 1),
        (3, 420_000, 420_010, Activity.SLOW_PATH, 1),
        (3, 420_010, 420_020, Activity.WAITING, 0),
    ]
    content = fake_content(
        detail=exact_detail(420_000, 420_020, 8, rows), functions=("", "", "", "__slab_alloc"), bookmarks=()
    )
    view, _ = shown(qtbot, content)
    view.show_range(420_000, 420_020)
    lines = view.tooltip_at(QPointF(lane_point(view, 420_000, 3))).splitlines()
    assert lines[0].startswith(f"CPU 3, micro-op 420{THIN}000, cycle")
    assert lines[0].endswith(f"1{THIN}260{THIN}000")
    assert lines[1:] == [
        f"Slow path, interrupt depth 1, micro-ops 420{THIN}000 to 420{THIN}010",
        "In __slab_alloc",
    ]
    assert view.tooltip_at(QPointF(lane_point(view, 420_003, 2))).splitlines()[1].startswith("Micro-ops 420")
    later = view.tooltip_at(QPointF(lane_point(view, 420_015, 3))).splitlines()
    assert later[1:] == [f"Waiting for a lock, micro-ops 420{THIN}010 to 420{THIN}020"]


def test_a_lane_of_the_overview_tells_what_was_counted(qtbot: QtBot) -> None:
    view, _ = shown(qtbot)
    text = view.tooltip_at(QPointF(lane_point(view, 900_500, 1)))
    overview = fake_overview()
    assert text.splitlines()[1].startswith(
        f"Micro-ops 900{THIN}000 to 901{THIN}000: {overview.fast_ops[900, 1]} fast, "
    )
    assert "of waits ended" in text
    assert view.tooltip_at(QPointF(3, view.layout_shown.lanes_y + 5)) == ""
    for corner in (QPointF(300, 5), QPointF(5, 30)):
        assert "Hollow marks" in view.tooltip_at(corner)


def test_the_legend_shows_the_marks_that_there_are(qtbot: QtBot) -> None:
    plain = TimelineContent(cpus=2, position=0, end=100)
    view, _ = shown(qtbot, plain)
    assert view._prepared.signs == []
    view.show_content(fake_content())
    assert Sign.BOOKMARK in view._prepared.signs
    assert Sign.FAULT not in view._prepared.signs
    assert NO_CPU not in view.placed_marks[0].row
