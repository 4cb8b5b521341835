"""The source panel: colours, marks, values at line ends, the margin, finding, and what is emitted."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QGuiApplication, QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from slubviz.model.snapshot import SourceSpan
from slubviz.model.travel.breakpoints import Breakpoint, BreakpointKind
from slubviz.model.travel.heat import Heat, LineHeat
from slubviz.views.source_panel import SourcePanel
from slubviz.views.source_panel_content import (
    CpuPlace,
    LineValue,
    SourceContent,
    heat_text,
    hottest,
    line_breakpoints,
    places_of,
    values_of,
)
from slubviz.views.source_panel_marks import Marks, fitting_values, span_rect
from slubviz.views.source_panel_syntax import inside_after, states, tokens
from slubviz.views.theme import DARK, LIGHT, Theme, code_font
from tests.views.fake_stacks import FILE, LINES, at, frame, idle, interrupt, nested, task, variable

THIN = "\u202f"
LONG = "long.py"
LONG_LINES = tuple(f"    value_{number} = {number}" for number in range(1, 601))
SOURCES = {FILE: LINES, LONG: LONG_LINES, "empty.py": ()}
CODE = {FILE: frozenset({7, 8, 9, 14}), LONG: frozenset(range(1, 601))}
CMPXCHG = at("cmpxchg_local(c.freelist, object, object.next)")
HEAT = Heat(
    100,
    5100,
    {
        (FILE, 14): LineHeat(1200, 2400, 30000.4, 0.0),
        (FILE, 9): LineHeat(1, 2, 10000.0, 0.0),
        (FILE, 8): LineHeat(7, 8, 100.0, 20000.0),
        (LONG, 3): LineHeat(5, 5, 5.0, 0.0),
    },
    40105.4,
    20000.0,
)


def content(**changes: object) -> SourceContent:
    base = SourceContent(
        SOURCES,
        CODE,
        (CpuPlace(0, CMPXCHG), CpuPlace(1, at("cast(free_object, c.freelist)")), CpuPlace(2, CMPXCHG)),
        0,
        task()[2],
        moment=1,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.fixture
def panel(qtbot: QtBot) -> SourcePanel:
    made = SourcePanel(LIGHT)
    qtbot.addWidget(made)
    made.resize(900, 640)
    made.show()
    return made


def emitted(panel: SourcePanel) -> list[tuple[object, ...]]:
    """Every signal of the panel from now on, with its arguments."""
    seen: list[tuple[object, ...]] = []
    panel.breakpoint_toggled.connect(lambda file, line: seen.append(("breakpoint", file, line)))
    panel.heat_wanted.connect(lambda on: seen.append(("heat", on)))
    return seen


def shown_lines(panel: SourcePanel) -> list[int]:
    return [placed.number for placed in panel.editor.visible_lines()]


def line_rect(panel: SourcePanel, line: int) -> QRectF:
    return next(placed.rect for placed in panel.editor.visible_lines() if placed.number == line)


def image_of(widget: QWidget) -> np.ndarray:
    """The pixels of a widget, as numbers 0xffrrggbb."""
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    words = np.frombuffer(image.constBits(), dtype=np.uint32).reshape(image.height(), -1)
    return words[:, : image.width()].copy()


def gutter_click(qtbot: QtBot, panel: SourcePanel, line: int) -> None:
    y = line_rect(panel, line).center().toPoint().y()
    qtbot.mouseClick(panel.editor.gutter, Qt.MouseButton.LeftButton, pos=QPoint(8, y))


# --- words -------------------------------------------------------------------------------------------


def kinds(line: str, inside: int = 0) -> list[tuple[str, str]]:
    return [(line[start : start + length], kind) for start, length, kind in tokens(line, inside)]


def test_words_of_the_language_have_colours() -> None:
    assert kinds("def slab_alloc(s, node) -> ptr:  # fast") == [
        ("def", "syntax_keyword"),
        ("slab_alloc", "text"),
        ("# fast", "syntax_comment"),
    ]
    assert kinds("    flags = irq_save() + 0x10 if NULL else my_irq_save") == [
        ("irq_save", "syntax_intrinsic"),
        ("0x10", "syntax_number"),
        ("if", "syntax_keyword"),
        ("NULL", "syntax_constant"),
        ("else", "syntax_keyword"),
    ]
    assert kinds("""bug_on(x, "a # 'b' \\" c") # d""") == [
        ("bug_on", "syntax_intrinsic"),
        ('"a # \'b\' \\" c"', "syntax_string"),
        ("# d", "syntax_comment"),
    ]
    assert kinds("@inline") == [("@inline", "syntax_constant")]
    assert kinds("") == []


def test_long_strings_go_over_lines() -> None:
    lines = ['x = """a', "def b", 'c""" + 1', "'''d'''", '# """', "y = 2"]
    assert states(lines) == [0, 1, 1, 0, 0, 0]
    assert kinds(lines[1], 1) == [("def b", "syntax_string")]
    assert kinds(lines[2], 1) == [('c"""', "syntax_string"), ("1", "syntax_number")]
    assert kinds(lines[3]) == [("'''d'''", "syntax_string")]
    assert kinds(lines[4]) == [('# """', "syntax_comment")]


@given(st.lists(st.text("a1 \"'#\\@=", max_size=12), max_size=6), st.integers(0, 2))
def test_parts_of_a_line_do_not_overlap_and_strings_end_where_the_next_line_says(
    lines: list[str], inside: int
) -> None:
    for line in lines:
        end = 0
        for start, length, _ in tokens(line, inside):
            assert start >= end
            end = start + length
            assert end <= len(line)
        after = inside_after(line, inside)
        # A line that ends inside of a string ends with a string.
        if after and line:
            assert list(tokens(line, inside))[-1][2] == "syntax_string"
            assert end == len(line)
        inside = after


def test_values_are_at_the_definition_at_the_last_assignment_and_at_the_executing_line() -> None:
    inner = task()[2]
    values = values_of(inner, LINES)
    assert {line: [value.name for value in found] for line, found in values.items()} == {
        5: ["s", "gfpflags", "node"],
        8: ["c"],
        12: ["object"],
        14: ["c", "object"],
    }
    assert values[14][1] == LineValue("object", "object 1 of slab 812")
    earlier = replace(inner, line=9, span=at("cast(free_object, c.freelist)"))
    assert {line: [v.name for v in found] for line, found in values_of(earlier, LINES).items()} == {
        5: ["s", "gfpflags", "node"],
        8: ["c"],
        9: ["object", "c"],
    }


def test_values_know_loops_and_do_not_take_fields_comparisons_or_strings_for_variables() -> None:
    lines = (
        "def f(n):",
        "    for i in range(n):",
        "        x: int = 1",
        "        x += 1",
        "        p.x = 3",
        "        if x == 1:",
        '            g("x", p.i, n)  # i',
    )
    span = SourceSpan("f.py", 7, 13, 7, 27)
    values = [variable(name, 1) for name in ("n", "i", "x", "p")]
    found = values_of(frame("f", span, *values), lines)
    assert {line: [value.name for value in line_values] for line, line_values in found.items()} == {
        1: ["n"],
        2: ["i"],
        4: ["x"],
        7: ["p", "n"],
    }
    assert values_of(frame("other", span, *values), lines) == {}
    assert values_of(frame("f", span, *values), ()) == {}


def test_heat_is_given_in_exact_numbers() -> None:
    assert heat_text(HEAT, FILE, 14) == (
        f"30{THIN}000{THIN}cycles, 74.8{THIN}% of all\n"
        f"executed 1{THIN}200{THIN}times, 2{THIN}400{THIN}micro-ops\n"
        f"from micro-op 100 to 5{THIN}100"
    )
    assert heat_text(HEAT, FILE, 15) == ""
    assert heat_text(HEAT, FILE, 8).splitlines()[1] == f"and 20{THIN}000{THIN}cycles of waiting for a lock"
    assert hottest(HEAT) == 30000.4
    assert hottest(Heat(0, 0, {}, 0.0, 0.0)) > 0


def test_places_and_breakpoints_are_taken_from_what_the_model_says() -> None:
    assert places_of((nested(1), idle(1))) == (CpuPlace(0, CMPXCHG),)
    points = (
        Breakpoint(1, BreakpointKind.LINE, file=FILE, line=9, enabled=False),
        Breakpoint(2, BreakpointKind.LINE, file=FILE, line=14),
        Breakpoint(3, BreakpointKind.LINE, file=FILE, line=9),
        Breakpoint(4, BreakpointKind.FUNCTION, name="kmalloc"),
    )
    assert line_breakpoints(points) == {(FILE, 9): True, (FILE, 14): True}
    assert line_breakpoints(points[::-1]) == {(FILE, 9): True, (FILE, 14): True}
    assert line_breakpoints(points[:1]) == {(FILE, 9): False}


# --- files and places --------------------------------------------------------------------------------


def test_without_a_program_it_says_so(panel: SourcePanel) -> None:
    assert panel.file == ""
    assert panel.empty.isVisible()
    panel.show_source(content())
    assert not panel.empty.isVisible()
    assert panel.editor.isVisible()
    panel.show_source(SourceContent())
    assert panel.empty.isVisible()
    assert panel.tabs.count() == 0


def test_it_follows_the_chosen_frame_from_file_to_file(panel: SourcePanel) -> None:
    panel.resize(900, 300)
    panel.show_source(content())
    assert panel.file == FILE
    assert 14 in shown_lines(panel)
    far = SourceSpan(LONG, 400, 5, 400, 14)
    panel.show_source(content(moment=2, frame=frame("f", far)))
    assert panel.file == LONG
    assert panel.tabs.tabText(panel.tabs.currentIndex()) == LONG
    lines = shown_lines(panel)
    assert lines[0] + 2 < 400 < lines[-1] - 2  # not at an edge
    near = SourceSpan(LONG, 402, 5, 402, 14)
    panel.show_source(content(moment=3, frame=frame("f", near)))
    assert shown_lines(panel) == lines  # a line in view does not move


def test_who_looks_elsewhere_is_left_alone_until_the_run_moves(panel: SourcePanel) -> None:
    panel.resize(900, 300)
    panel.show_source(content())
    assert panel.go_to(LONG, 300)
    panel.show_source(content())  # the same moment again
    assert panel.file == LONG
    assert 300 in shown_lines(panel)
    panel.show_source(content(moment=2))
    assert panel.file == FILE
    panel.follow.setChecked(False)
    assert panel.go_to(LONG, 300)
    panel.show_source(content(moment=3))
    assert panel.file == LONG
    panel.follow.setChecked(True)
    assert panel.file == FILE
    assert panel.go_to(LONG, 1) is True
    assert 300 in shown_lines(panel) or 1 in shown_lines(panel)
    assert panel.go_to("no such file", 1) is False
    assert panel.file == LONG


def test_a_frame_whose_file_has_no_text_leaves_the_panel_where_it_is(panel: SourcePanel) -> None:
    panel.show_source(content())
    other = SourceSpan("gone.py", 3, 1, 3, 5)
    panel.show_source(content(moment=2, frame=frame("f", other), places=(CpuPlace(0, other),)))
    assert panel.file == FILE
    assert panel.editor.marks == Marks(cpu=0)


def test_a_new_program_has_new_texts(panel: SourcePanel) -> None:
    panel.show_source(content())
    new = {FILE: ("x = 1",), "other.py": ("y = 2",)}
    panel.show_source(content(sources=new, frame=None, places=(), moment=2))
    assert [panel.tabs.tabText(index) for index in range(panel.tabs.count())] == [FILE, "other.py"]
    assert panel.file == FILE
    assert panel.editor.toPlainText() == "x = 1"
    same = dict(new)
    panel.tabs.setCurrentIndex(1)
    panel.show_source(content(sources=same, frame=None, places=(), moment=3))
    assert panel.file == "other.py"  # an equal program is the same one


def test_each_file_keeps_its_place(panel: SourcePanel, qtbot: QtBot) -> None:
    panel.resize(900, 300)
    panel.show_source(content())
    panel.go_to(LONG, 250)
    top = panel.editor.verticalScrollBar().value()
    assert top > 200
    qtbot.keyClick(panel.editor, Qt.Key.Key_PageUp, Qt.KeyboardModifier.ControlModifier)
    assert panel.file == FILE
    qtbot.keyClick(panel.editor, Qt.Key.Key_PageDown, Qt.KeyboardModifier.ControlModifier)
    assert panel.file == LONG
    assert panel.editor.verticalScrollBar().value() == top
    qtbot.keyClick(panel.editor, Qt.Key.Key_PageDown, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(panel.editor, Qt.Key.Key_PageDown, Qt.KeyboardModifier.ControlModifier)
    assert panel.file == "empty.py"  # the last one


# --- marks -------------------------------------------------------------------------------------------


def test_the_mark_is_exactly_under_the_expression(panel: SourcePanel) -> None:
    panel.show_source(content(places=(CpuPlace(0, CMPXCHG),)))
    placed = next(line for line in panel.editor.visible_lines() if line.number == 14)
    rect = span_rect(placed, CMPXCHG)
    character = QFontMetricsF(panel.editor.font()).horizontalAdvance("0")
    assert rect.width() == pytest.approx(character * (CMPXCHG.end_column - CMPXCHG.column) + 4, abs=1.0)
    pixels = image_of(panel.editor.viewport()) == LIGHT.argb("code_mark")
    rows, columns = np.flatnonzero(pixels.any(axis=1)), np.flatnonzero(pixels.any(axis=0))
    assert rect.top() - 1 <= rows[0] <= rows[-1] <= rect.bottom() + 1
    assert rect.left() - 1 <= columns[0] <= rect.left() + 4
    assert rect.right() - 4 <= columns[-1] <= rect.right() + 1


def test_a_span_over_lines_is_marked_in_each(panel: SourcePanel) -> None:
    span = SourceSpan(FILE, 7, 5, 9, 11)
    panel.show_source(content(places=(CpuPlace(0, span),)))
    pixels = image_of(panel.editor.viewport()) == LIGHT.argb("code_mark")
    character = QFontMetricsF(panel.editor.font()).horizontalAdvance("0")
    lengths = {7: len("preempt_off()"), 8: len("c = get_cpu_slab(s)"), 9: len("object")}
    for line, length in lengths.items():
        rect = line_rect(panel, line)
        columns = np.flatnonzero(pixels[int(rect.top()) + 2 : int(rect.bottom()) - 2].any(axis=0))
        assert columns[-1] - columns[0] == pytest.approx(character * length, abs=6)
    rect = line_rect(panel, 10)
    assert not pixels[int(rect.top()) + 2 : int(rect.bottom()) - 2].any()


def test_every_cpu_has_its_badge_and_the_chosen_one_is_the_first(panel: SourcePanel) -> None:
    panel.show_source(content(cpu=2))
    gutter = panel.editor.gutter
    assert gutter.content.cpus == {14: (2, 0), 9: (1,)}
    pixels = image_of(gutter)
    rect = line_rect(panel, 14)
    row = pixels[int(rect.top()) : int(rect.bottom())]
    columns = {cpu: np.flatnonzero((row == LIGHT.argb(f"cpu_{cpu}")).any(axis=0)) for cpu in (0, 1, 2)}
    assert len(columns[2])
    assert len(columns[0])
    assert columns[2].max() < columns[0].min()
    assert not len(columns[1])
    many = tuple(CpuPlace(cpu, CMPXCHG) for cpu in range(8))
    panel.show_source(content(places=many, cpu=5, moment=2))
    row = image_of(gutter)[int(rect.top()) : int(rect.bottom())]
    assert (row == LIGHT.argb("cpu_5")).any()  # the chosen one keeps its badge
    assert not (row == LIGHT.argb("cpu_7")).any()
    assert "Here: CPU 5, CPU 0, CPU 1" in gutter.tooltip_of(14)


def test_an_outer_frame_is_marked_and_its_values_are_shown(panel: SourcePanel) -> None:
    panel.show_source(content())
    assert panel.editor.marks.innermost
    outer = interrupt(1)[1]
    panel.show_source(content(frame=outer, innermost=False, moment=2))
    marks = panel.editor.marks
    assert marks.line == 26
    assert not marks.innermost
    assert [value.name for value in marks.values[26]] == ["s", "flags"]
    with_values = image_of(panel.editor.viewport())
    panel.show_source(content(frame=replace(outer, variables=()), innermost=False, moment=2))
    without = image_of(panel.editor.viewport())
    rect = line_rect(panel, 26)
    rows = slice(int(rect.top()), int(rect.bottom()))
    assert (with_values[rows] != without[rows]).any()


def test_values_that_have_no_room_are_left_out_not_painted_over_the_text(panel: SourcePanel) -> None:
    panel.resize(330, 400)
    panel.follow.setChecked(False)
    panel.show_source(content())
    panel.go_to(FILE, 14)
    with_values = image_of(panel.editor.viewport())
    panel.show_source(content(frame=replace(task()[2], variables=())))
    rect = line_rect(panel, 14)
    rows = slice(int(rect.top()), int(rect.bottom()))
    assert (with_values[rows] == image_of(panel.editor.viewport())[rows]).all()


def test_as_many_values_as_have_room() -> None:
    font = code_font()
    metrics = QFontMetricsF(font)
    character = metrics.horizontalAdvance("0")
    values = (LineValue("a", "1" * 20), LineValue("b", "2"))
    whole = "a = 11111111111111111111   b = 2"
    assert fitting_values(values, character * len(whole) + 1, metrics) == whole
    assert fitting_values(values, character * (len(whole) - 1), metrics) == whole[:24]
    cut = fitting_values(values, character * 15, metrics)
    assert cut.startswith("a = 1111")
    assert cut.endswith("…")
    assert fitting_values(values, character * 8, metrics) == ""
    assert fitting_values(values[1:], character * 8, metrics) == "b = 2"  # short, and whole


def test_a_file_can_be_chosen_from_the_list(panel: SourcePanel) -> None:
    panel.show_source(content())
    entries = panel.files.menu().actions()
    assert [entry.text() for entry in entries] == [FILE, LONG, "empty.py"]
    entries[1].trigger()
    assert panel.file == LONG
    assert panel.tabs.currentIndex() == 1


def test_an_expression_beyond_the_edge_is_scrolled_to(panel: SourcePanel) -> None:
    panel.resize(400, 400)
    panel.show_source(content(frame=None))
    assert panel.editor.horizontalScrollBar().value() == 0
    panel.show_source(content(moment=2))
    placed = next(line for line in panel.editor.visible_lines() if line.number == 14)
    rect = span_rect(placed, CMPXCHG)
    assert panel.editor.horizontalScrollBar().value() > 0
    assert 10 <= rect.left() <= 30  # it is too wide: its beginning is in view
    start = replace(task()[2], line=7, span=SourceSpan(FILE, 7, 5, 7, 18))
    panel.show_source(content(moment=3, frame=start))
    assert panel.editor.horizontalScrollBar().value() == 0


# --- the margin --------------------------------------------------------------------------------------


def test_a_click_in_the_margin_asks_for_a_breakpoint_where_there_is_code(
    panel: SourcePanel, qtbot: QtBot
) -> None:
    panel.show_source(content(breakpoints={(FILE, 11): True, (LONG, 3): True}))
    seen = emitted(panel)
    gutter_click(qtbot, panel, 9)
    gutter_click(qtbot, panel, 10)  # no code
    gutter_click(qtbot, panel, 11)  # no code, but a breakpoint: it can be taken away
    assert seen == [("breakpoint", FILE, 9), ("breakpoint", FILE, 11)]
    gutter = panel.editor.gutter
    assert gutter.content.breakpoints == {11: True}
    assert gutter.tooltip_of(9) == f"{FILE}:9\nClick to set a breakpoint\nHere: CPU 1"
    assert gutter.tooltip_of(10) == f"{FILE}:10\nNo code here"
    assert gutter.tooltip_of(11) == f"{FILE}:11\nBreakpoint; click to take it away"
    assert gutter.tooltip_of(0) == ""


def test_breakpoints_are_set_from_the_keyboard_too(panel: SourcePanel, qtbot: QtBot) -> None:
    panel.show_source(content())
    seen = emitted(panel)
    panel.editor.go_to_line(9)
    qtbot.keyClick(panel.editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(panel.editor, Qt.Key.Key_Down)
    qtbot.keyClick(panel.editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)  # no code
    panel.editor.go_to_line(14)
    panel.toggle_breakpoint()
    assert seen == [("breakpoint", FILE, 9), ("breakpoint", FILE, 14)]


def test_a_disabled_breakpoint_is_a_ring(panel: SourcePanel) -> None:
    def red(enabled: bool) -> int:
        panel.show_source(content(breakpoints={(FILE, 9): enabled}, places=()))
        return int((image_of(panel.editor.gutter) == LIGHT.argb("breakpoint")).sum())

    assert red(True) > 2 * red(False) > 0


def test_heat_is_shown_when_it_is_wanted(panel: SourcePanel) -> None:
    panel.show_source(content(heat=HEAT))
    seen = emitted(panel)
    narrow = panel.editor.gutter.width()
    assert "cycles" not in panel.editor.gutter.tooltip_of(14)
    panel.heat.setChecked(True)
    assert seen == [("heat", True)]
    gutter = panel.editor.gutter
    assert gutter.width() > narrow
    assert gutter.tooltip_of(14).endswith(heat_text(HEAT, FILE, 14))
    assert gutter.tooltip_of(7).endswith("not executed")
    pixels = image_of(gutter)
    ground = LIGHT.argb("sunken")

    def bar(line: int) -> int:
        row = int(line_rect(panel, line).center().y())
        return int((pixels[row, gutter.width() - 34 :] != ground).sum())

    assert bar(14) > 2 * bar(9) > 0
    assert bar(8) > bar(9)
    row = pixels[int(line_rect(panel, 8).center().y())]
    assert (row == LIGHT.argb("activity_waiting")).sum() > 10
    assert bar(7) == 0
    panel.heat.setChecked(False)
    assert gutter.width() == narrow
    assert seen == [("heat", True), ("heat", False)]


def test_the_margin_goes_along_when_the_text_is_scrolled(panel: SourcePanel) -> None:
    panel.resize(900, 300)
    panel.show_source(content())
    panel.go_to(LONG, 1)
    bar = panel.editor.verticalScrollBar()
    for value in range(0, bar.maximum(), 37):
        bar.setValue(value)
        lines = shown_lines(panel)
        assert lines[0] == value + 1
        for placed in panel.editor.visible_lines()[:-1]:
            assert panel.editor.gutter.line_at(placed.rect.center()) == placed.number
            assert (
                panel.editor.cursorForPosition(placed.rect.center().toPoint()).blockNumber() + 1
                == placed.number
            )


# --- text --------------------------------------------------------------------------------------------


def test_text_can_be_copied(panel: SourcePanel, qtbot: QtBot) -> None:
    panel.show_source(content())
    panel.editor.selectAll()
    qtbot.keyClick(panel.editor, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "\n".join(LINES)
    assert panel.editor.isReadOnly()


def test_find_goes_from_place_to_place(panel: SourcePanel, qtbot: QtBot) -> None:
    panel.resize(900, 300)
    panel.show_source(content(frame=None))
    qtbot.keyClick(panel.editor, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    bar = panel.find_bar
    assert bar.isVisible()
    qtbot.keyClicks(bar.field, "FREELIST")
    wanted = [number for number, line in enumerate(LINES, 1) for _ in range(line.count("freelist"))]
    assert bar.count.text() == f"1 of {len(wanted)}"
    visited = [panel.editor.caret_line()]
    for _ in range(len(wanted)):
        qtbot.keyClick(bar.field, Qt.Key.Key_Return)
        visited.append(panel.editor.caret_line())
        assert visited[-1] in shown_lines(panel)
    assert visited == [*wanted, wanted[0]]
    qtbot.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert panel.editor.caret_line() == wanted[-1]
    assert len(panel.editor.extraSelections()) == len(wanted)
    qtbot.keyClicks(bar.field, "x")
    assert bar.count.text() == "not found"
    qtbot.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert panel.editor.extraSelections() == []
    assert panel.editor.marks.places  # what executes is still marked


def test_find_begins_at_what_is_in_view(panel: SourcePanel) -> None:
    panel.resize(900, 300)
    panel.show_source(content())
    panel.go_to(LONG, 300)
    panel.open_find()
    panel.find_bar.field.setText("value_")
    assert panel.editor.caret_line() == shown_lines(panel)[0] or 280 < panel.editor.caret_line() <= 300


def test_go_to_a_line(panel: SourcePanel, qtbot: QtBot) -> None:
    panel.resize(900, 300)
    panel.show_source(content())
    panel.go_to(LONG, 1)
    qtbot.keyClick(panel.editor, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
    assert panel.find_bar.field.text() == ":"
    qtbot.keyClicks(panel.find_bar.field, "500")
    qtbot.keyClick(panel.find_bar.field, Qt.Key.Key_Return)
    assert not panel.find_bar.isVisible()
    assert panel.editor.caret_line() == 500
    assert 500 in shown_lines(panel)
    for text, line in ((":9999", 600), (":0", 1), (":x", 1), (":", 1)):
        panel.find_bar.open_for(text)
        qtbot.keyClick(panel.find_bar.field, Qt.Key.Key_Return)
        assert panel.editor.caret_line() == line


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_theme_can_be_changed_while_it_is_shown(panel: SourcePanel, theme: Theme) -> None:
    panel.show_source(content(heat=HEAT))
    panel.heat.setChecked(True)
    for each in (DARK, LIGHT, theme):
        panel.set_theme(each)
    for area in (panel.editor.viewport(), panel.editor.gutter):
        pixels = image_of(area)
        ground = "panel" if area is panel.editor.viewport() else "sunken"
        assert (pixels == theme.argb(ground)).mean() > 0.5
    assert (image_of(panel.editor.viewport()) == theme.argb("code_mark")).any()
    assert _has_ink(panel, theme.syntax_keyword, 10)


def _has_ink(panel: SourcePanel, colour: str, line: int) -> bool:
    # Letters are smoothed: a pixel that is nearer to the colour than to anything else will do.
    rect = line_rect(panel, line)
    rows = image_of(panel.editor.viewport())[int(rect.top()) : int(rect.bottom())]
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    parts = np.stack([(rows >> shift) & 0xFF for shift in (16, 8, 0)], axis=-1).astype(int)
    return bool((np.abs(parts - wanted).sum(axis=-1) < 24).any())


def test_lines_are_coloured_when_they_come_into_view(panel: SourcePanel) -> None:
    panel.resize(900, 300)
    panel.show_source(content(frame=None))
    panel.go_to(LONG, 1)

    def coloured() -> set[int]:
        document = panel.editor.document()
        return {
            number + 1
            for number in range(document.blockCount())
            if document.findBlockByNumber(number).layout().formats()
        }

    first = coloured()
    assert first == set(shown_lines(panel))
    panel.editor.verticalScrollBar().setValue(300)
    assert coloured() == first | set(shown_lines(panel))


def test_a_talk_is_larger(panel: SourcePanel) -> None:
    panel.show_source(content())
    panel.go_to(LONG, 5)
    panel.go_to(FILE, 7)
    height, width = line_rect(panel, 7).height(), panel.editor.gutter.width()
    panel.set_text_scale(2.0)
    panel.go_to(FILE, 7)
    assert line_rect(panel, 7).height() > 1.7 * height
    assert panel.editor.gutter.width() > 1.5 * width
    panel.go_to(LONG, 5)  # made before
    assert line_rect(panel, 5).height() > 1.7 * height
    panel.go_to("empty.py", 1)  # not yet
    assert line_rect(panel, 1).height() > 1.7 * height
    panel.go_to(LONG, 5)
    assert line_rect(panel, 5).height() > 1.7 * height
    with pytest.raises(ValueError, match="not between"):
        panel.set_text_scale(9.0)


def test_an_update_without_a_change_paints_nothing(panel: SourcePanel, qtbot: QtBot) -> None:
    panel.show_source(content())
    painted: list[int] = []
    original = panel.editor.paintEvent
    panel.editor.paintEvent = lambda event: (painted.append(1), original(event))  # type: ignore[method-assign]
    qtbot.wait(20)
    painted.clear()
    panel.show_source(content())
    qtbot.wait(20)
    assert painted == []
    panel.show_source(content(moment=2, places=(CpuPlace(0, at("preempt_off()")),)))
    qtbot.wait(20)
    assert painted


_SHORTER_FILES = """
from slubviz.views.app import configured_application
from slubviz.views.source_panel_editor import SourceEditor
from slubviz.views.theme import LIGHT, code_font

application = configured_application()
editor = SourceEditor(LIGHT, code_font())
editor.show()
long = [f"    line {number} " + "x" * 90 for number in range(157)]
short = [f"    line {number}" + "x" * (90 if number % 2 else 3) for number in range(40)]
for height in (335, 351, 368):
    editor.resize(593, height)
    first, second = editor.make_document(long), editor.make_document(short)
    for top in (59, 99, 150):
        editor.set_document(first)
        editor.go_to_line(157)
        editor.verticalScrollBar().setValue(top)
        editor.horizontalScrollBar().setValue(30)
        application.processEvents()
        editor.set_document(second)
        application.processEvents()
    editor.forget_documents()
print("shown")
"""


def test_a_shorter_file_can_be_shown_from_the_end_of_a_longer_one() -> None:
    """Qt's scroll bar moves without end if it is left where the new text has no line: so in a process."""
    done = subprocess.run(
        [sys.executable, "-c", _SHORTER_FILES], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.stderr.strip(), done.returncode) == ("shown", "", 0)
