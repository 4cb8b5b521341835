"""CPU cards: places, words, the marked expression, and painting only what is visible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from slubviz.hw.isa import CpuState
from slubviz.model.snapshot import CpuView, FrameView, Snapshot, SourceSpan
from slubviz.views import cpu_panel
from slubviz.views.cpu_card import CardPainter, clock_text, fitting_facts
from slubviz.views.cpu_layout import (
    Pace,
    crumbs,
    fitting_crumbs,
    lay_out_cards,
    next_cpu,
    scrolled,
    state_text,
    stepped_cpu,
)
from slubviz.views.cpu_panel import CpuPanel, cpu_facts
from slubviz.views.theme import LIGHT, code_font
from tests.views.fake_session import SOURCE, FakeSession, fake_job

THIN = "\u202f"
SOURCES = {"slub.py": tuple(SOURCE.splitlines())}


def a_cpu(**changes: object) -> CpuView:
    base = CpuView(
        number=3,
        node=1,
        state=int(CpuState.RUNNING),
        clock_cycles=2000.0,
        micro_ops=55,
        interrupts_enabled=False,
        preempt_count=1,
        interrupt_depth=0,
        frames=(FrameView("test_kmalloc", "slub.py", 1, False), FrameView("slab_alloc", "slub.py", 6, False)),
        span=SourceSpan("slub.py", 6, 14, 6, 24),
        micro_op_text="r4 = [c+0]",
        waits_for="",
        waits_since_cycles=0.0,
        operations=7,
        slow_path_operations=2,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def with_cpus(*cpus: CpuView) -> Snapshot:
    return replace(FakeSession(fake_job()).snapshot(), cpus=cpus, clock_cycles=2500.0)


@given(
    st.lists(st.booleans(), min_size=1, max_size=40),
    st.integers(300, 1500),
    st.integers(200, 1600),
    st.integers(-1, 45),
)
def test_cards_follow_each_other_without_overlap(
    idle: list[bool], width: int, height: int, focus: int
) -> None:
    layout = lay_out_cards(idle, width, height, focus, line=18)
    assert len(layout.places) == len(idle)
    for index, place in enumerate(layout.places):
        assert place.x >= 0
        assert place.x + place.width <= width
        assert place.y + place.height <= layout.content_height
        assert layout.card_at(place.x + 1, place.y + 1) == index
        if not idle[index]:
            assert place.height >= 3 * 18  # a card that has something to show shows its three lines


def test_eight_cards_fit_a_small_window() -> None:
    assert lay_out_cards([False] * 8, 370, 548, line=19).content_height <= 548


def test_focus_gets_the_most_room() -> None:
    heights = [place.height for place in lay_out_cards([False] * 8, 400, 900, focus=2, line=18).places]
    assert heights[2] == max(heights)
    assert heights[2] >= 2 * heights[0]


def test_idle_cards_leave_their_room() -> None:
    mixed = lay_out_cards([False] + [True] * 7, 400, 700, line=18)
    even = lay_out_cards([False] * 8, 400, 700, line=18)
    assert mixed.places[0].height > 3 * even.places[0].height
    assert mixed.content_height <= 700


@pytest.mark.parametrize(
    ("changes", "text", "meaning"),
    [
        ({}, "running", "cpu_running"),
        ({"interrupt_depth": 1}, "in an interrupt", "interrupt"),
        ({"state": int(CpuState.HALTED)}, "halted", "cpu_halted"),
        ({"state": int(CpuState.WAITING_RENDEZVOUS)}, "waits for the other CPUs", "cpu_rendezvous"),
        (
            {
                "state": int(CpuState.WAITING_LOCK),
                "waits_for": "zone->lock node 0",
                "waits_since_cycles": 1000.0,
            },
            f"waits 1{THIN}500{THIN}cycles for zone->lock node 0",
            "cpu_waiting",
        ),
    ],
)
def test_states_in_words(changes: dict[str, object], text: str, meaning: str) -> None:
    said = state_text(a_cpu(**changes), now_cycles=2500.0)
    assert (said.text, said.colour) == (text, meaning)


def test_interrupt_levels_of_the_stack() -> None:
    frames = [("main", False), ("kmalloc", False), ("timer", True), ("kfree", False), ("nmi", True)]
    views = tuple(FrameView(name, "f", 1, interrupt) for name, interrupt in frames)
    assert crumbs(views) == [("main", 0), ("kmalloc", 0), ("timer", 1), ("kfree", 1), ("nmi", 2)]


@given(st.lists(st.integers(1, 120), min_size=1, max_size=12), st.integers(20, 800))
def test_outer_crumbs_give_way_and_no_more_than_needed(widths: list[int], room: int) -> None:
    dropped = fitting_crumbs(widths, 10, 25, room)
    assert 0 <= dropped < len(widths)

    def needed(count: int) -> int:
        kept = widths[count:]
        return sum(kept) + 10 * (len(kept) - 1) + (25 if count else 0)

    assert needed(dropped) <= room or dropped == len(widths) - 1
    if dropped:
        assert needed(dropped - 1) > room


def test_facts_of_a_cpu() -> None:
    assert cpu_facts(a_cpu(), 2500.0).splitlines() == [
        "CPU 3, node 1: running",
        "test_kmalloc › slab_alloc",
        "Next micro-op: r4 = [c+0]",
        "irq off  preempt 1  interrupt depth 0",
        f"Clock 2{THIN}000{THIN}cycles, 55{THIN}micro-ops",
        f"7{THIN}operations, 2 on the slow path",
    ]


def marked_columns(image: QImage) -> tuple[int, int]:
    mark = QColor(LIGHT.code_mark).rgb()
    columns = [
        x for x in range(image.width()) if any(image.pixel(x, y) == mark for y in range(image.height()))
    ]
    return (min(columns), max(columns)) if columns else (-1, -1)


def shown(qtbot: QtBot, *cpus: CpuView, height: int = 300) -> CpuPanel:
    panel = CpuPanel(LIGHT, code_font())
    qtbot.addWidget(panel)
    panel.resize(420, height)
    panel.show_cpus(with_cpus(*cpus), SOURCES)
    panel.show()
    return panel


def test_the_mark_covers_the_expression_and_no_more(qtbot: QtBot) -> None:
    panel = shown(qtbot, a_cpu(), height=70)
    narrow = marked_columns(panel.viewport().grab().toImage())
    whole_line = replace(a_cpu(), span=SourceSpan("slub.py", 6, 5, 6, 24))
    panel.show_cpus(with_cpus(whole_line), SOURCES)
    wide = marked_columns(panel.viewport().grab().toImage())
    assert -1 not in narrow
    assert wide[1] == narrow[1]  # both end with the line
    letters = panel._fonts().code_metrics.horizontalAdvance("object = ")
    assert narrow[0] - wide[0] == pytest.approx(letters, abs=2)


@pytest.mark.parametrize(
    "span",
    [
        None,
        SourceSpan("missing.py", 3, 1, 3, 4),
        SourceSpan("slub.py", 999, 1, 999, 4),
        SourceSpan("slub.py", 0, 1, 0, 1),
        SourceSpan("slub.py", 4, 13, 9, 3),
        SourceSpan("slub.py", 2, 900, 2, 901),
    ],
)
def test_odd_spans_are_survived(qtbot: QtBot, span: SourceSpan | None) -> None:
    panel = shown(qtbot, a_cpu(span=span))
    assert not panel.viewport().grab().toImage().isNull()


def test_click_gives_room_and_takes_it_back(qtbot: QtBot) -> None:
    panel = shown(qtbot, *(a_cpu(number=number) for number in range(8)), height=800)
    before = [place.height for place in panel.card_layout.places]
    place = panel.card_layout.places[2]
    where = QPoint(place.x + 30, place.y + 10)
    qtbot.mouseClick(panel.viewport(), Qt.MouseButton.LeftButton, pos=where)
    assert panel.focus_card == 2
    assert panel.card_layout.places[2].height > before[2]
    qtbot.mouseClick(panel.viewport(), Qt.MouseButton.LeftButton, pos=panel_point(panel, 2))
    assert panel.focus_card == -1
    assert [place.height for place in panel.card_layout.places] == before


def panel_point(panel: CpuPanel, index: int) -> QPoint:
    place = panel.card_layout.places[index]
    return QPoint(place.x + 30, place.y + 10)


def test_thousands_of_cpus_paint_only_what_is_seen(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = shown(qtbot, *(a_cpu(number=number) for number in range(4096)), height=600)
    assert panel.verticalScrollBar().maximum() > 100_000
    drawn: list[int] = []

    class Counting(CardPainter):
        def draw(self, rect, cpu, *rest) -> None:  # type: ignore[no-untyped-def]
            drawn.append(cpu.number)

    monkeypatch.setattr(cpu_panel, "CardPainter", Counting)
    panel.verticalScrollBar().setValue(panel.verticalScrollBar().maximum())
    panel.viewport().grab()
    assert drawn[-1] == 4095
    assert len(set(drawn)) < 20


def test_a_cpu_must_be_halted_for_long_to_get_a_small_card(qtbot: QtBot) -> None:
    running = [a_cpu(number=number) for number in range(4)]
    panel = shown(qtbot, *running, height=600)
    tall = panel.card_layout.places[3].height
    halted = [*running[:3], a_cpu(number=3, state=int(CpuState.HALTED), frames=(), span=None)]
    for _ in range(5):
        panel.show_cpus(with_cpus(*halted), SOURCES)
        assert panel.card_layout.places[3].height == tall
    panel.show_cpus(with_cpus(*halted), SOURCES)
    assert panel.card_layout.places[3].height < tall
    panel.show_cpus(with_cpus(*running), SOURCES)
    assert panel.card_layout.places[3].height == tall


def test_tooltip_is_of_the_card_under_the_pointer(qtbot: QtBot) -> None:
    panel = shown(qtbot, a_cpu(number=0), a_cpu(number=1))
    assert panel.tooltip_at(panel_point(panel, 1)).startswith("CPU 1, node 1")
    assert panel.tooltip_at(QPoint(5, 5000)) == ""


def clocks(*cycles: float) -> list[CpuView]:
    return [a_cpu(number=number, clock_cycles=clock) for number, clock in enumerate(cycles)]


def test_the_running_cpu_with_the_smallest_clock_is_next() -> None:
    assert next_cpu(clocks(30.0, 20.0, 25.0)) == 1
    assert next_cpu(clocks(30.0, 20.0, 20.0)) == 1  # ties by number
    waiting = [*clocks(30.0, 40.0), a_cpu(number=2, clock_cycles=1.0, state=int(CpuState.WAITING_LOCK))]
    assert next_cpu(waiting) == 0
    assert next_cpu([a_cpu(state=int(CpuState.HALTED))]) == -1
    assert next_cpu([]) == -1


def test_who_stepped_is_told_only_of_single_micro_ops() -> None:
    before = [a_cpu(number=4, micro_ops=10), a_cpu(number=5, micro_ops=10)]
    assert stepped_cpu(before, [before[0], replace(before[1], micro_ops=11)]) == 5
    assert stepped_cpu(before, before) == -1
    assert stepped_cpu(before, [replace(cpu, micro_ops=11) for cpu in before]) == -1
    assert stepped_cpu(before, [before[0], replace(before[1], micro_ops=12)]) == -1
    assert stepped_cpu([], before) == -1


@given(st.text("abc ", min_size=1, max_size=120), st.data())
def test_a_line_is_scrolled_until_its_part_is_inside(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    columns = data.draw(st.integers(3, 80))
    shown, new_start, new_end = scrolled(text, start, end, columns)
    assert shown[new_start:new_end] == text[start:end]
    assert new_start < columns
    if end - start <= columns - 2:
        assert new_end <= columns - (new_end < len(shown))  # the ellipsis at the right covers none of it
    if shown == text:
        assert (new_start, new_end) == (start, end)
    else:
        assert shown[0] == "…"
        assert new_start >= 1


def test_a_line_that_fits_is_not_scrolled() -> None:
    assert scrolled("0123456789", 5, 10, 10) == ("0123456789", 5, 10)
    assert scrolled("0123456789", 5, 9, 9) == ("…23456789", 4, 8)


def test_an_expression_past_the_edge_is_marked_in_full(qtbot: QtBot) -> None:
    long = "    " + "a_long_name + " * 8 + "the_end(of_it)"
    first = long.index("the_end")
    panel = shown(qtbot, a_cpu(), height=70)
    panel.resize(320, 70)
    span = SourceSpan("slub.py", 1, first + 1, 1, len(long) + 1)
    panel.show_cpus(with_cpus(a_cpu(span=span)), {"slub.py": (long,)})
    left, right = marked_columns(panel.viewport().grab().toImage())
    width = panel._fonts().code_metrics.horizontalAdvance("the_end(of_it)")
    assert right - left + 1 == pytest.approx(width + 2, abs=2)


@pytest.mark.parametrize(
    ("pace", "text"), [(Pace.FAST, f"1.23{THIN}M{THIN}cyc"), (Pace.SLOW, f"1{THIN}234{THIN}567{THIN}cyc")]
)
def test_clocks_are_in_full_where_they_are_compared(pace: Pace, text: str) -> None:
    assert clock_text(1_234_567.0, pace) == text
    assert clock_text(1_234_567.0, Pace.STILL) == clock_text(1_234_567.0, Pace.SLOW)


def test_the_least_important_facts_give_way_and_the_first_stays() -> None:
    assert [fitting_facts([40.0, 60.0, 50.0], room) for room in (-5, 100, 105, 106, 161, 162)] == [
        1,
        1,
        1,
        2,
        2,
        3,
    ]
    assert fitting_facts([], 100.0) == 0


def has_colour(panel: CpuPanel, index: int, name: str, left: int = 0) -> bool:
    place = panel.card_layout.places[index]
    top = place.y - panel.verticalScrollBar().value()
    image = panel.viewport().grab().toImage()
    wanted = LIGHT.color(name).rgb()
    area = [(x, y) for x in range(place.x + left, place.x + place.width) for y in range(top, top + 30)]
    return any(image.valid(x, y) and image.pixel(x, y) == wanted for x, y in area)


def test_a_waiting_cpu_on_a_narrow_card_keeps_its_interrupt_flag(qtbot: QtBot) -> None:
    waits = a_cpu(state=int(CpuState.WAITING_LOCK), waits_for="list_lock kmalloc-64 node 0" * 3)
    panel = shown(qtbot, waits, height=90)
    panel.resize(300, 90)
    width = panel._fonts().text_metrics.horizontalAdvance("irq off")
    right = panel.card_layout.places[0].width - int(width) - 8
    assert has_colour(panel, 0, "interrupts_off", right)
    panel.show_cpus(with_cpus(replace(waits, interrupts_enabled=True)), SOURCES)
    assert not has_colour(panel, 0, "interrupts_off", right)


def test_the_next_cpu_is_marked_unless_the_run_is_fast(qtbot: QtBot) -> None:
    cpus = clocks(30.0, 20.0, 25.0)
    panel = shown(qtbot, *cpus, height=600)
    for pace, marked in ((Pace.FAST, -1), (Pace.SLOW, 1), (Pace.STILL, 1)):
        panel.show_cpus(with_cpus(*cpus), SOURCES, pace)
        assert panel.next_card == marked
        assert [has_colour(panel, index, "accent") for index in range(3)] == [False, marked == 1, False]
    assert "ties by number" in panel.tooltip_at(panel_point(panel, 1))
    assert "ties by number" not in panel.tooltip_at(panel_point(panel, 0))


def test_the_next_cpu_keeps_its_clock_on_a_narrow_card(qtbot: QtBot) -> None:
    cpu = a_cpu(clock_cycles=713_056.0)
    panel = shown(qtbot, cpu, height=90)
    panel.resize(300, 90)
    panel.show_cpus(with_cpus(cpu), SOURCES, Pace.STILL)
    with_clock = panel.viewport().grab().toImage()
    assert not has_colour(panel, 0, "cpu_running", 12)  # the word "running" gave way
    later = replace(cpu, clock_cycles=999_999.0)
    panel.show_cpus(with_cpus(later), SOURCES, Pace.STILL)
    assert panel.viewport().grab().toImage() != with_clock


def test_the_head_says_who_stepped_and_who_is_next(qtbot: QtBot) -> None:
    cpus = clocks(30.0, 20.0)
    panel = shown(qtbot, *cpus)
    panel.show_cpus(replace(with_cpus(*cpus), micro_ops=110), SOURCES, Pace.STILL)
    assert panel.facts() == "CPU 1 is next"
    stepped = [cpus[0], replace(cpus[1], micro_ops=cpus[1].micro_ops + 1, clock_cycles=99.0)]
    after = replace(with_cpus(*stepped), micro_ops=111)
    for _ in range(2):  # the same moment shown again
        panel.show_cpus(after, SOURCES, Pace.STILL)
        assert panel.facts() == "CPU 1 stepped  ·  CPU 0 is next"
    panel.show_cpus(after, SOURCES, Pace.FAST)
    assert panel.facts() == "2 of 2 running"


def test_the_next_cpu_is_scrolled_into_view_once_for_each_moment(qtbot: QtBot) -> None:
    cpus = clocks(*(1000.0 - number for number in range(60)))
    panel = shown(qtbot, *cpus, height=400)
    bar = panel.verticalScrollBar()

    def visible(index: int) -> bool:
        place = panel.card_layout.places[index]
        return bar.value() <= place.y and place.y + place.height <= bar.value() + panel.viewport().height()

    for pace in (Pace.FAST, Pace.SLOW):
        panel.show_cpus(replace(with_cpus(*cpus), micro_ops=7), SOURCES, pace)
        assert bar.value() == 0
    panel.show_cpus(replace(with_cpus(*cpus), micro_ops=7), SOURCES, Pace.STILL)
    assert visible(59)
    bar.setValue(0)  # whoever looks elsewhere is left alone
    panel.show_cpus(replace(with_cpus(*cpus), micro_ops=7), SOURCES, Pace.STILL)
    assert bar.value() == 0
    cpus[59] = replace(cpus[59], clock_cycles=5000.0)
    cpus[30] = replace(cpus[30], clock_cycles=1.0)
    panel.show_cpus(replace(with_cpus(*cpus), micro_ops=8), SOURCES, Pace.STILL)
    assert visible(30)
