"""The call stack panel: words, places of cards and boxes, what is chosen, and what is emitted."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from slubviz.hw.isa import CpuState
from slubviz.model.snapshot import SourceSpan
from slubviz.model.travel.call_stack import CallStackView
from slubviz.views.call_stack import CallStackPanel
from slubviz.views.call_stack_chooser import chip_rows
from slubviz.views.call_stack_content import (
    CpuTab,
    StackContent,
    arrivals_of,
    call_text,
    cards_of,
    definition_line,
    expression,
    levels_of,
    parameters_of,
    source_line,
    tabs_of,
)
from slubviz.views.call_stack_layout import (
    Amount,
    Box,
    CardNeed,
    Measures,
    StackLayout,
    cells_of,
    lay_out_stack,
)
from slubviz.views.call_stack_painter import header_ground
from slubviz.views.call_stack_status import fitting_pills, pills_of
from slubviz.views.theme import DARK, LIGHT, Theme
from tests.views import fake_stacks as fake
from tests.views.fake_stacks import FILE, LINES, SOURCES, at, deep, idle, nested
from tests.views.fake_timeline import exact_detail
from tests.views.test_theme_and_actions import VISION, contrast, lab, linear

THIN = "\u202f"
MEASURES = Measures(
    name=26, slim=20, code=22, row=18, note=18, header=38, header_slim=22, ghost=24, pad=5, column=150
)


def content(*stacks: CallStackView, cpu: int = 0, moment: object = 1, **changes: object) -> StackContent:
    tabs = tuple(
        CpuTab(number, "cpu_running", "running", False, 0, number == 0)
        for number in range(max(2, len(stacks)))
    )
    return replace(StackContent(stacks, tabs, cpu, SOURCES, moment), **changes)  # type: ignore[arg-type]


@pytest.fixture
def panel(qtbot: QtBot) -> CallStackPanel:
    made = CallStackPanel(LIGHT)
    qtbot.addWidget(made)
    made.resize(420, 900)
    made.show()
    return made


def emitted(panel: CallStackPanel) -> list[tuple[object, ...]]:
    """Every signal of the panel from now on, with its arguments."""
    seen: list[tuple[object, ...]] = []
    panel.cpu_chosen.connect(lambda cpu: seen.append(("cpu", cpu)))
    panel.frame_chosen.connect(lambda cpu, frame: seen.append(("frame", cpu, frame)))
    panel.variable_chosen.connect(lambda cpu, frame, name: seen.append(("variable", cpu, frame, name)))
    return seen


def image_of(widget: QWidget) -> np.ndarray:
    """The pixels of a widget, as numbers 0xffrrggbb."""
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    words = np.frombuffer(image.constBits(), dtype=np.uint32).reshape(image.height(), -1)
    return words[:, : image.width()].copy()


def count_of(pixels: np.ndarray, colour: str) -> int:
    return int((pixels == 0xFF000000 | int(QColor(colour).rgb() & 0xFFFFFF)).sum())


# --- words -------------------------------------------------------------------------------------------


def test_a_card_has_the_line_of_source_without_indentation_and_the_columns_of_the_expression() -> None:
    text, (start, end) = source_line(SOURCES, at("cmpxchg_local(c.freelist, object, object.next)"))
    assert text == "found = cmpxchg_local(c.freelist, object, object.next)"
    assert text[start:end] == "cmpxchg_local(c.freelist, object, object.next)"
    longer = replace(at("while True"), end_line=at("while True").line + 2, end_column=5)
    text, (start, end) = source_line(SOURCES, longer)
    assert text[start:end] == "while True:"  # to the end of its first line
    assert source_line(SOURCES, SourceSpan("other.py", 3, 1, 3, 4)) == ("", (0, 0))
    assert source_line(SOURCES, SourceSpan(FILE, len(LINES) + 1, 1, len(LINES) + 1, 4)) == ("", (0, 0))


def test_an_expression_over_lines_becomes_one_line_and_is_shortened() -> None:
    lines = {"f.py": ("x = call(a,", "         b)", "y = 1")}
    assert expression(lines, SourceSpan("f.py", 1, 5, 2, 12)) == "call(a, b)"
    assert expression(lines, SourceSpan("f.py", 3, 1, 3, 2)) == "y"
    assert expression(lines, SourceSpan("g.py", 1, 1, 1, 2)) == ""
    long = {"f.py": ("z" * 100,)}
    assert expression(long, SourceSpan("f.py", 1, 1, 1, 101)) == "z" * 59 + "…"


def test_parameters_are_read_from_the_text() -> None:
    assert parameters_of(LINES, "slab_alloc") == ("s", "gfpflags", "node")
    assert parameters_of(LINES, "irq_alloc") == ("size",)
    assert parameters_of(LINES, "nothing") == ()
    assert parameters_of(("def f():", "    pass"), "f") == ()
    assert parameters_of(("def f(a: ptr[page],", "      b: int) -> ptr:", "    pass"), "f") == ("a", "b")
    assert definition_line(LINES, "kmalloc") == 23
    assert definition_line(LINES, "kmallo") == 0


def test_a_handler_is_named_with_its_arguments_if_all_are_live() -> None:
    handler = fake.interrupt(1, 64)[0]
    assert call_text(handler, SOURCES) == "irq_alloc(64)"
    assert call_text(replace(handler, variables=()), SOURCES) == "irq_alloc"
    assert call_text(handler, {}) == "irq_alloc"


def test_three_nested_interrupts_say_what_they_are_and_where_they_came() -> None:
    cards = cards_of(nested(3), SOURCES)
    levels = levels_of(cards, SOURCES, {1: 1234})
    assert [level.title for level in levels] == [
        "Interrupt level 1: irq_alloc(64)",
        "Interrupt level 2: irq_alloc(128)",
        "Interrupt level 3: irq_alloc(256)",
    ]
    assert [cards[level.first].frame.function for level in levels] == ["irq_alloc"] * 3
    assert [level.first for level in levels] == [3, 6, 9]
    before = "in slab_alloc, before cmpxchg_local(c.freelist, object, object.next)"
    assert levels[0].arrival == f"arrived between micro-ops 1{THIN}234 and 1{THIN}235 {before}"
    assert levels[0].short == f"after micro-op 1{THIN}234, {before}"
    assert levels[1].arrival == f"arrived {before}"
    assert levels[1].short == before


def test_before_a_mere_name_the_line_says_where_that_is() -> None:
    stack = nested(1)
    span = at("object = cast(free_object, c.freelist)")
    name = replace(stack.frames[2], line=span.line, span=replace(span, end_column=span.column + 6))
    frames = (*stack.frames[:2], name, *stack.frames[3:])
    (level,) = levels_of(cards_of(replace(stack, frames=frames), SOURCES), SOURCES)
    assert level.short == "in slab_alloc, before object in “object = cast(free_object, c.freelist)”"


def test_an_interrupt_of_an_idle_cpu_came_into_no_function() -> None:
    stack = replace(nested(1), frames=fake.interrupt(1))
    (level,) = levels_of(cards_of(stack, SOURCES), SOURCES)
    assert (level.first, level.arrival) == (0, "arrived on the idle CPU")


def test_without_a_card_an_inlined_function_is_named_by_the_one_it_is_in() -> None:
    cards = cards_of(nested(1), SOURCES, inlined=False)
    assert [card.frame.function for card in cards] == ["test_kmalloc", "kmalloc", "irq_alloc", "kmalloc"]
    assert [card.hidden for card in cards] == [(), ("slab_alloc",), (), ("slab_alloc",)]
    assert [card.innermost for card in cards] == [False, False, False, True]
    assert [card.index for card in cards] == [0, 1, 3, 4]
    assert levels_of(cards, SOURCES)[0].arrival == "arrived in slab_alloc"


def test_values_that_differ_from_the_moment_before_are_changed_but_not_in_a_new_frame() -> None:
    before = nested(0)
    inner = before.frames[2]
    changed = replace(
        inner, variables=(*inner.variables[:4], fake.variable("object", 5), fake.variable("x", 1))
    )
    after = replace(before, frames=(*before.frames[:2], changed))
    assert [card.changed for card in cards_of(after, SOURCES, before)] == [
        frozenset(),
        frozenset(),
        frozenset({"object", "x"}),
    ]
    other = replace(changed, function="other")
    assert (
        cards_of(replace(before, frames=(*before.frames[:2], other)), SOURCES, before)[2].changed
        == frozenset()
    )
    assert all(card.changed == frozenset() for card in cards_of(after, SOURCES))


def test_arrivals_are_where_the_depth_last_rose() -> None:
    rows = [  # CPU, first, last, activity, depth
        (0, 100, 110, 1, 0),
        (1, 100, 200, 1, 1),
        (0, 110, 120, 1, 1),
        (0, 120, 130, 1, 0),
        (0, 130, 140, 1, 1),
        (0, 140, 150, 2, 1),
        (0, 150, 160, 1, 3),
        (0, 160, 200, 1, 2),
    ]
    detail = exact_detail(100, 200, 2, rows)
    assert arrivals_of(detail, 0, 125) == {}
    assert arrivals_of(detail, 0, 115) == {1: 110}
    assert arrivals_of(detail, 0, 145) == {1: 130}
    assert arrivals_of(detail, 0, 155) == {1: 130, 2: 150, 3: 150}
    assert arrivals_of(detail, 0, 170) == {1: 130, 2: 150}
    assert arrivals_of(detail, 1, 150) == {}  # it came before the detail begins
    assert arrivals_of(detail, 0, 300) == {}


def test_tabs_tell_the_state_of_every_cpu() -> None:
    from tests.views.fake_session import FakeSession, fake_job

    cpu = FakeSession(fake_job()).snapshot().cpus[0]
    cpus = (
        replace(cpu, number=0, state=int(CpuState.RUNNING), interrupt_depth=2),
        replace(cpu, number=1, state=int(CpuState.HALTED), interrupt_depth=0),
        replace(cpu, number=2, state=int(CpuState.RUNNING), interrupt_depth=0),
    )
    assert tabs_of(cpus, (nested(0, cpu=2),), 100.0) == (
        CpuTab(0, "interrupt", "in an interrupt", False, 2, False),
        CpuTab(1, "cpu_halted", "halted", True, 0, False),
        CpuTab(2, "cpu_running", "running", False, 0, True),
    )


def test_flags_depth_and_locks_are_pills() -> None:
    stack = replace(nested(2), irq_enabled=False, held_locks=("list_lock kmalloc-64 node 0",))
    assert [(pill.text, pill.filled) for pill in pills_of(stack)] == [
        ("next", True),
        ("irq off", True),
        ("depth 2", True),
        ("preempt 1", False),
        ("holds list_lock kmalloc-64 node 0", False),
    ]
    assert [pill.text for pill in pills_of(idle())] == ["irq on", "preempt 0"]
    assert fitting_pills([50, 50, 50], 160, 30) == 3
    assert fitting_pills([50, 50, 50], 159, 30) == 2  # two and the count of the rest
    assert fitting_pills([50, 50, 50], 139, 30) == 1
    assert fitting_pills([50], 40, 30) == 0


# --- places ------------------------------------------------------------------------------------------


@st.composite
def stacks(draw: st.DrawFn) -> list[CardNeed]:
    count = draw(st.integers(1, 40))
    needs, level = [], 0
    for index in range(count):
        rises = index > 0 and draw(st.integers(0, 5)) == 0 and level < 6
        if rises:
            needs[-1] = replace(needs[-1], interrupted=True)
            level += 1
        needs.append(
            CardNeed(
                level=level,
                widths=tuple(draw(st.lists(st.integers(20, 600), max_size=7))),
                has_code=draw(st.booleans()),
                slim=draw(st.booleans()),
                header=rises,
                key=index == count - 1,
                note=index == count - 1,
            )
        )
    chosen = draw(st.integers(0, count - 1))
    needs[chosen] = replace(needs[chosen], key=True, asked=chosen < count - 1)
    return needs


def inside(inner: Box, outer: Box) -> bool:
    return (
        outer.x <= inner.x
        and inner.x + inner.width <= outer.x + outer.width
        and outer.y <= inner.y
        and inner.bottom <= outer.bottom
    )


@settings(max_examples=150, deadline=None)
@given(stacks(), st.integers(0, 5), st.integers(200, 900), st.integers(80, 1500), st.booleans())
def test_cards_are_in_order_in_their_boxes_and_no_larger_than_what_is_scrolled(
    needs: list[CardNeed], ghosts: int, width: int, height: int, fold: bool
) -> None:
    layout = lay_out_stack(needs, ghosts, width, height, MEASURES, fold=fold)
    assert len(layout.cards) == len(needs)
    assert len(layout.levels) == max(need.level for need in needs)
    handlers = [index for index, need in enumerate(needs) if need.header]
    boxes = [card.box for card in layout.cards]
    for index, need in enumerate(needs):
        card = layout.cards[index]
        assert card.box.x >= 0
        assert card.box.x + card.box.width <= width
        for level, place in enumerate(layout.levels, 1):
            assert inside(card.box, place.box) == (need.level >= level)
        if need.key:
            assert card.amount is Amount.ALL
        if card.amount is Amount.FOLDED:
            assert any(row.first <= index <= row.last and row.box == card.box for row in layout.folds)
        elif index:
            assert card.box.y >= boxes[index - 1].bottom
    for number, index in enumerate(handlers):
        header = layout.levels[number].header
        assert boxes[index - 1].bottom <= header.y
        assert header.bottom <= boxes[index].y
        if number:
            outer = layout.levels[number - 1].box
            assert inside(layout.levels[number].box, outer)
            assert layout.levels[number].box.bottom < outer.bottom  # its edge can be seen
    for row in layout.folds:
        assert row.last > row.first
        assert len({needs[i].level for i in range(row.first, row.last + 1)}) == 1
        assert layout.card_at(row.box.x + 1, row.box.y + 1) == row.last
    lowest = max([boxes[-1].bottom, *(place.box.bottom for place in layout.levels)])
    for ghost in layout.ghosts:
        assert ghost.y >= lowest
        lowest = ghost.bottom
    assert lowest <= layout.height
    assert len(layout.ghosts) in (ghosts, min(1, ghosts))
    if not fold:
        assert not layout.folds


@settings(max_examples=80, deadline=None)
@given(stacks(), st.integers(0, 3), st.integers(250, 900), st.integers(100, 1500))
def test_nothing_is_folded_or_scrolled_without_need(
    needs: list[CardNeed], ghosts: int, width: int, height: int
) -> None:
    layout = lay_out_stack(needs, ghosts, width, height, MEASURES)
    unfolded = lay_out_stack(needs, ghosts, width, 0, MEASURES, fold=False)  # a line each
    if unfolded.height <= height:
        assert not layout.folds
        assert layout.height <= height
        assert len(layout.ghosts) == ghosts
    if layout.height > height:  # scrolled: everything that can be folded is
        assert all(
            card.amount is Amount.FOLDED or need.key or _alone(layout, index)
            for index, (need, card) in enumerate(zip(needs, layout.cards, strict=True))
        )


def _alone(layout: StackLayout, index: int) -> bool:
    # A card that could only be folded with itself.
    return not any(row.first <= index <= row.last for row in layout.folds)


def test_detail_goes_to_the_innermost_cards_first() -> None:
    needs = [CardNeed(0, widths=(100, 100)) for _ in range(6)]
    needs[-1] = replace(needs[-1], key=True)
    heights = {
        Amount.NAME: MEASURES.name,
        Amount.CODE: MEASURES.name + MEASURES.code + MEASURES.pad,
        Amount.ALL: MEASURES.name + MEASURES.code + MEASURES.pad + MEASURES.row,
    }
    lines = 4 + 5 * (heights[Amount.NAME] + 4) + heights[Amount.ALL] + 4
    assert [c.amount for c in lay_out_stack(needs, 0, 400, lines, MEASURES).cards] == [
        *[Amount.NAME] * 5,
        Amount.ALL,
    ]
    two = lines + 2 * (heights[Amount.CODE] - heights[Amount.NAME])
    assert [c.amount for c in lay_out_stack(needs, 0, 400, two, MEASURES).cards] == [
        *[Amount.NAME] * 3,
        *[Amount.CODE] * 2,
        Amount.ALL,
    ]
    assert {c.amount for c in lay_out_stack(needs, 0, 400, 2000, MEASURES).cards} == {Amount.ALL}


def test_outer_frames_are_folded_first_and_headers_get_shorter_after_that() -> None:
    needs = [CardNeed(0) for _ in range(10)] + [CardNeed(0, key=True)]
    full = lay_out_stack(needs, 0, 400, 10_000, MEASURES, fold=False)
    assert not full.folds
    # A gap, a row of names, seven cards of one line, and the innermost with its code; each with a gap.
    enough = (
        4 + (MEASURES.slim + 4) + 7 * (MEASURES.name + 4) + (MEASURES.name + MEASURES.code + MEASURES.pad + 4)
    )
    for room, last in ((enough, 2), (enough - 1, 3)):
        some = lay_out_stack(needs, 0, 400, room, MEASURES)
        assert [(row.first, row.last) for row in some.folds] == [(0, last)]
        assert some.height <= room
    needs = [CardNeed(0, interrupted=True), CardNeed(1, header=True), CardNeed(1, key=True)]
    least = lay_out_stack(needs, 0, 400, 0, MEASURES)
    assert least.levels[0].header.height == MEASURES.header_slim
    assert lay_out_stack(needs, 0, 400, 1000, MEASURES).levels[0].header.height == MEASURES.header


@given(
    st.lists(st.integers(1, 700), max_size=12), st.integers(100, 900), st.integers(60, 300), st.integers(1, 5)
)
def test_variables_are_in_a_grid_and_those_left_out_are_counted(
    widths: list[int], room: int, column: int, most_rows: int
) -> None:
    cells = cells_of(widths, room, column, most_rows)
    for one, other in pairwise(cells):
        assert (one.row, one.x + one.width) <= (other.row, other.x) or one.row < other.row
    assert all(cell.x >= 0 and cell.x + cell.width <= room for cell in cells)
    assert all(cell.row < most_rows for cell in cells)
    shown = [cell.index for cell in cells if cell.index >= 0]
    assert shown == list(range(len(shown)))
    assert (len(shown) == len(widths)) == (not cells or cells[-1].index >= 0)
    for cell in cells:
        if cell.index >= 0:
            assert cell.width >= min(widths[cell.index], room) - 1


def test_nothing_has_no_layout() -> None:
    assert lay_out_stack([], 0, 300, 300, MEASURES) == StackLayout()
    pending = lay_out_stack([], 2, 300, 300, MEASURES)
    assert len(pending.ghosts) == 2
    assert pending.card_at(10, 10) == -1


@given(st.integers(0, 300), st.data(), st.integers(30, 900))
def test_the_chosen_cpu_always_has_a_chip(count: int, data: st.DataObject, width: int) -> None:
    chosen = data.draw(st.integers(0, max(0, count - 1)))
    shown = chip_rows(count, chosen, width, 44)
    assert 0 <= shown.first <= shown.last <= count
    assert shown.rows <= 2
    if count:
        assert shown.first <= chosen < shown.last
        assert shown.columns == 1 or shown.columns * 48 - 4 <= width


# --- the panel ---------------------------------------------------------------------------------------


def centre(panel: CallStackPanel, index: int) -> QPoint:
    # A little right of the middle of the card's first line, where there is no variable.
    rect = panel.view.card_rect(index)
    return QPointF(rect.center().x(), rect.top() + 6).toPoint()


def click_card(qtbot: QtBot, panel: CallStackPanel, index: int) -> None:
    qtbot.mouseClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=centre(panel, index))


def test_the_innermost_frame_is_chosen_until_the_user_chooses(panel: CallStackPanel, qtbot: QtBot) -> None:
    seen = emitted(panel)
    panel.show_stacks(content(nested(3)))
    assert (panel.chosen_frame(), panel.follows) == (11, True)
    assert seen == []  # only what the user does is emitted
    click_card(qtbot, panel, 5)
    assert seen == [("frame", 0, 5)]
    assert (panel.chosen_frame(), panel.follows) == (5, False)
    click_card(qtbot, panel, 11)
    assert seen[1:] == [("frame", 0, 11)]
    assert panel.follows


def test_keys_choose_frames_and_cpus(panel: CallStackPanel, qtbot: QtBot) -> None:
    panel.show_stacks(content(nested(1), nested(0, cpu=1)))
    seen = emitted(panel)
    view = panel.view
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Return):
        qtbot.keyClick(view, key)
    assert seen == [("frame", 0, 4), ("frame", 0, 3), ("frame", 0, 4), ("frame", 0, 4)]
    seen.clear()
    qtbot.keyClick(view, Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(view, Qt.Key.Key_Up)  # there is nothing above
    qtbot.keyClick(view, Qt.Key.Key_Down, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(view, Qt.Key.Key_Down)  # nor below
    qtbot.keyClick(view, Qt.Key.Key_Right)
    qtbot.keyClick(view, Qt.Key.Key_Left)  # CPU 0 is the first, as long as nobody shows another
    assert seen == [("frame", 0, 0), ("frame", 0, 5), ("cpu", 1)]
    seen.clear()
    qtbot.keyClick(panel.chooser, "1")
    qtbot.keyClick(panel.chooser, "0")  # is chosen already
    qtbot.keyClick(panel.chooser, "7")  # there is none
    qtbot.keyClick(panel.chooser, Qt.Key.Key_Right)
    panel.choose_frame(-1)
    assert seen == [("cpu", 1), ("cpu", 1), ("frame", 0, 4)]


def test_a_click_on_a_chip_asks_for_that_cpu(panel: CallStackPanel, qtbot: QtBot) -> None:
    panel.show_stacks(content(nested(0), idle(1)))
    seen = emitted(panel)
    places = {panel.chooser.cpu_at(QPointF(x, 10)): QPoint(x, 10) for x in range(200)}
    assert set(places) == {-1, 0, 1}
    qtbot.mouseClick(panel.chooser, Qt.MouseButton.LeftButton, pos=places[1])
    qtbot.mouseClick(panel.chooser, Qt.MouseButton.LeftButton, pos=places[-1])
    assert seen == [("cpu", 1)]
    assert panel.chooser.tooltip_at(QPointF(places[0])) == "CPU 0: running\nExecutes the next micro-op"
    assert panel.chooser.tooltip_at(QPointF(places[-1])) == ""


def test_a_chosen_frame_stays_while_it_is_there(panel: CallStackPanel, qtbot: QtBot) -> None:
    stack = nested(1)
    panel.show_stacks(content(stack, nested(0, cpu=1)))
    click_card(qtbot, panel, 1)
    panel.show_stacks(content(nested(2), nested(0, cpu=1), moment=2))
    assert panel.chosen_frame() == 1  # an interrupt came above it
    outer = replace(stack, frames=stack.frames[:2], depth=0)
    panel.show_stacks(content(outer, nested(0, cpu=1), moment=3))
    assert (panel.chosen_frame(), panel.follows) == (1, True)  # it is the innermost now, but stays chosen
    panel.show_stacks(content(stack, nested(0, cpu=1), moment=3))
    assert (panel.chosen_frame(), panel.follows) == (1, False)
    panel.show_stacks(content(outer, nested(0, cpu=1), moment=3))
    panel.show_stacks(content(replace(outer, frames=outer.frames[:1]), moment=4))
    assert panel.follows  # it returned
    panel.show_stacks(content(stack, nested(0, cpu=1), moment=5))
    click_card(qtbot, panel, 1)
    other = replace(stack.frames[0], function="other")
    panel.show_stacks(content(replace(stack, frames=(other, *stack.frames[1:])), moment=6))
    assert panel.follows  # another call of the same function
    panel.show_stacks(content(stack, nested(0, cpu=1), moment=7))
    click_card(qtbot, panel, 1)
    panel.show_stacks(content(stack, nested(0, cpu=1), cpu=1, moment=7))
    assert panel.follows  # another CPU


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_interrupts_are_boxes_of_their_colours_one_in_the_other(panel: CallStackPanel, theme: Theme) -> None:
    panel.set_theme(theme)
    panel.show_stacks(content(nested(3)))
    pixels = image_of(panel.view.viewport())
    for number, place in enumerate(panel.view.stack_layout.levels, 1):
        header = place.header
        row = pixels[header.y + header.height - 3, header.x + 4 : header.x + header.width - 4]
        assert count_of(row, header_ground(theme, number).name()) > header.width * 0.6
    assert panel.view.stack_layout.levels[2].box.x > panel.view.stack_layout.levels[0].box.x


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_read_and_levels_told_apart_by_everyone(theme: Theme) -> None:
    ink = theme.text if theme.dark else theme.on_interrupt
    for number in (1, 2, 3):
        assert contrast(ink, header_ground(theme, number).name()) >= 4.5
    for cpu in range(8):
        assert contrast(theme.on_cpu, theme.cpu_color(cpu).name()) >= 4.5
    for kind in ("keyword", "string", "comment", "number", "intrinsic", "constant"):
        assert contrast(getattr(theme, f"syntax_{kind}"), theme.panel) >= 4.5
    assert contrast(theme.text, theme.value_changed) >= 4.5
    assert theme.level_color(4) == theme.level_color(1)
    assert theme.cpu_color(8) == theme.cpu_color(0)
    for vision in ("normal", "protanopia", "deuteranopia"):
        seen = [lab(VISION[vision] @ linear(theme.level_color(number).name())) for number in (1, 2, 3)]
        for one, other in combinations(seen, 2):
            assert np.linalg.norm(one - other) > 14


def test_the_executing_expression_is_marked_in_the_innermost_card_only(panel: CallStackPanel) -> None:
    panel.show_stacks(content(nested(2)))
    pixels = image_of(panel.view.viewport())
    marked = pixels == LIGHT.argb("code_mark")
    rows = np.flatnonzero(marked.any(axis=1))
    rect = panel.view.card_rect(8)
    assert len(rows)
    assert rect.top() < rows[0]
    assert rows[-1] < rect.bottom()


def test_changed_values_have_a_ground_until_the_run_moves_on(panel: CallStackPanel) -> None:
    first = nested(0)
    inner = first.frames[2]
    variables = (*inner.variables[:4], fake.variable("object", 7, "object 2 of slab 812"))
    second = replace(first, frames=(*first.frames[:2], replace(inner, variables=variables)))
    changed = LIGHT.value_changed

    def marked() -> bool:
        return count_of(image_of(panel.view.viewport()), changed) > 0

    panel.show_stacks(content(first, moment=1))
    assert not marked()
    panel.show_stacks(content(second, moment=2))
    assert marked()
    panel.show_stacks(content(second, moment=2, cpu=0))  # the same moment again
    assert marked()
    panel.show_stacks(content(second, moment=3))
    assert not marked()


@pytest.mark.parametrize("height", [250, 400, 900])
@pytest.mark.parametrize("count", [1, 2, 12, 40])
def test_the_innermost_card_can_be_seen_wherever_one_scrolls(
    panel: CallStackPanel, count: int, height: int
) -> None:
    panel.resize(420, height)
    panel.show_stacks(content(deep(count)))
    bar = panel.view.verticalScrollBar()
    assert bar.value() == bar.maximum()
    panel.choose_frame(-1)
    panel.view.card_chosen.emit(0)
    for value in range(0, bar.maximum() + 1, 13):
        bar.setValue(value)
        rect = panel.view.card_rect(count - 1)
        assert rect.top() >= 0
        assert rect.bottom() <= panel.view.viewport().height()
        assert panel.view.card_at(rect.center().toPoint()) == count - 1


def test_forty_frames_fold_and_a_click_unfolds_them(panel: CallStackPanel, qtbot: QtBot) -> None:
    panel.resize(420, 500)
    panel.show_stacks(content(deep(40)))
    seen = emitted(panel)
    (row,) = panel.view.stack_layout.folds
    assert row.first == 0
    text = panel.view.tooltip_at(QPoint(row.box.x + 20, row.box.y + 5))
    assert text.startswith("level_0\nlevel_1\n")
    qtbot.mouseClick(
        panel.view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(row.box.x + 20, row.box.y + 5)
    )
    assert seen == [("frame", 0, row.last)]
    assert panel.view.stack_layout.folds == ()
    assert panel.view.verticalScrollBar().maximum() > 0
    qtbot.keyClick(panel.view, Qt.Key.Key_Down, Qt.KeyboardModifier.ControlModifier)
    assert len(panel.view.stack_layout.folds) == 1


@pytest.mark.parametrize("unfolded", [False, True])
def test_walking_with_keys_shows_each_frame_above_the_pinned_card(
    panel: CallStackPanel, qtbot: QtBot, unfolded: bool
) -> None:
    panel.resize(420, 340)
    panel.show_stacks(content(deep(40)))
    if unfolded:
        row = panel.view.stack_layout.folds[0].box
        qtbot.mouseClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(row.x + 20, row.y + 5))
    qtbot.keyClick(panel.view, Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier)
    walk = [(Qt.Key.Key_Down, index) for index in range(1, 39)]
    walk += [(Qt.Key.Key_Up, index) for index in range(37, -1, -1)]
    for key, expected in walk:
        qtbot.keyClick(panel.view, key)
        assert panel.chosen_frame() == expected
        rect = panel.view.card_rect(expected)
        assert rect.top() >= 0
        assert rect.bottom() <= panel.view.card_rect(39).top()
        card = panel.view.stack_layout.cards[expected]
        assert [cell.index for cell in card.cells] == [0, 1, 2]  # all variables, whatever the room


def test_a_click_on_a_variable_names_it(panel: CallStackPanel, qtbot: QtBot) -> None:
    panel.show_stacks(content(nested(0)))
    seen = emitted(panel)
    view = panel.view
    found = {}
    for y in range(0, view.viewport().height(), 3):
        for x in range(0, view.viewport().width(), 3):
            hit = view.variable_at(QPoint(x, y))
            if hit is not None:
                found.setdefault((hit[0], hit[1].name), QPoint(x, y))
    wanted = {(i, v.name) for i, frame in enumerate(nested(0).frames) for v in frame.variables}
    assert set(found) == wanted
    place = found[2, "object"]
    assert view.tooltip_at(place) == "object: ptr[free_object]\nobject 1 of slab 812\n3326016 (0x32c040)"
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert seen == [("frame", 0, 2), ("variable", 0, 2, "object")]


def test_tooltips_have_what_is_elided(panel: CallStackPanel) -> None:
    panel.show_stacks(content(nested(1), arrivals={1: 99}))
    view = panel.view
    header = view.stack_layout.levels[0].header
    text = view.tooltip_at(QPoint(header.x + 5, header.y + 5))
    assert text.startswith(
        "Interrupt level 1: irq_alloc(64)\narrived between micro-ops 99 and 100 in slab_alloc"
    )
    text = view.tooltip_at(centre(panel, 2))
    assert text.splitlines()[:3] == [
        f"slab_alloc  {FILE}:14  (inlined)",
        "found = cmpxchg_local(c.freelist, object, object.next)",
        "An interrupt came before the marked expression",
    ]
    assert "clock 123" in panel.status.full_text()


def test_pending_interrupts_are_below_the_innermost_card(panel: CallStackPanel) -> None:
    stack = replace(nested(0), pending=("irq_free()", "softirq_batch(4, 64)"))
    panel.show_stacks(content(stack))
    layout = panel.view.stack_layout
    first, second = layout.ghosts
    assert layout.cards[-1].box.bottom <= first.y < second.y
    assert panel.view.tooltip_at(QPoint(first.x + 5, first.y + 5)) == "To come: irq_free()"
    panel.resize(420, 200)
    (only,) = panel.view.stack_layout.ghosts
    y = only.y - panel.view.verticalScrollBar().value()
    assert panel.view.tooltip_at(QPoint(only.x + 5, y + 5)) == "To come: irq_free(), softirq_batch(4, 64)"


def test_an_idle_cpu_says_so_and_a_waiting_one_for_what(panel: CallStackPanel) -> None:
    assert panel.view.stack.empty == ""
    panel.show_stacks(StackContent())
    assert panel.view.stack.empty == "No run yet"
    panel.show_stacks(content(nested(0), idle(1), cpu=1))
    assert panel.view.stack.empty == "CPU 1: idle\nNo function runs on it"
    assert panel.chosen() is None
    assert panel.chosen_frame() == -1
    ink = image_of(panel.view.viewport())
    assert len(np.unique(ink)) > 2  # the words are painted
    waits = "waits for list_lock kmalloc-64, held by CPU 2, for 310 cycles"
    panel.show_stacks(content(replace(nested(0), state_text=waits)))
    assert panel.status.headline() == f"CPU 0: {waits}"
    assert panel.status.headline_lines() == 2
    panel.show_stacks(content(cpu=1))  # only its tab is known while the run is fast
    assert panel.status.headline() == "CPU 1: running"


def test_frames_without_source_are_shown_by_their_names(panel: CallStackPanel) -> None:
    panel.show_stacks(content(nested(1), sources={}))
    assert [card.code for card in panel.cards] == [""] * 6
    image_of(panel)  # paints
    assert panel.view.stack.levels[0].arrival == "arrived in slab_alloc, line 14"


def test_inlined_functions_can_be_left_out(panel: CallStackPanel, qtbot: QtBot) -> None:
    panel.show_stacks(content(nested(1)))
    seen = emitted(panel)
    panel.inlined.setChecked(False)
    assert [card.frame.function for card in panel.cards] == [
        "test_kmalloc",
        "kmalloc",
        "irq_alloc",
        "kmalloc",
    ]
    assert panel.chosen_frame() == 4
    click_card(qtbot, panel, 1)
    assert seen == [("frame", 0, 1)]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_theme_can_be_changed_while_it_is_shown(panel: CallStackPanel, theme: Theme) -> None:
    panel.show_stacks(content(nested(2)))
    panel.set_theme(DARK)
    panel.set_theme(theme)
    pixels = image_of(panel.view.viewport())
    assert count_of(pixels, theme.code_mark) > 100
    other = DARK if theme is LIGHT else LIGHT
    assert count_of(pixels, other.code_mark) == 0


def test_a_talk_is_larger(panel: CallStackPanel) -> None:
    panel.show_stacks(content(nested(0)))
    small = [card.box.height for card in panel.view.stack_layout.cards]
    chips = panel.chooser.height()
    panel.set_text_scale(2.0)
    assert all(
        new > 1.7 * old
        for new, old in zip((c.box.height for c in panel.view.stack_layout.cards), small, strict=True)
    )
    assert panel.chooser.height() > 1.6 * chips
    for wrong in (0.0, 10.0):
        with pytest.raises(ValueError, match="not between"):
            panel.set_text_scale(wrong)


def test_long_names_do_not_run_out_of_their_cards(panel: CallStackPanel) -> None:
    long = replace(nested(1).frames[1], function="a_function_with_a_very_long_name_" * 4)
    stack = replace(nested(1), frames=(nested(1).frames[0], long))
    panel.show_stacks(content(stack))
    pixels = image_of(panel.view.viewport())
    box = panel.view.stack_layout.cards[-1].box
    ground = pixels[2, 1]
    assert (pixels[box.y + 6 : box.y + 20, box.x + box.width + 1 :] == ground).all()


def test_whoever_cannot_see_it_hears_the_chosen_frame(panel: CallStackPanel) -> None:
    panel.show_stacks(content(nested(0), idle(1)))
    assert panel.view.accessibleDescription() == (
        "slab_alloc, line 14: found = cmpxchg_local(c.freelist, object, object.next)"
    )
    panel.choose_frame(-1)
    assert panel.view.accessibleDescription().startswith("kmalloc, line 26")
    assert panel.chooser.accessibleDescription() == "CPU 0: running"


def test_the_same_content_gives_the_same_picture(panel: CallStackPanel) -> None:
    pictures: list[np.ndarray] = []
    for moment in (1, 2):
        panel.show_stacks(content(nested(3), moment=moment))
        pictures.append(image_of(panel))
    assert np.array_equal(*pictures)
