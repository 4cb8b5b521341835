"""The talk: slides, keys, sizes that go with the window, the outcome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetricsF
from pytestqt.qtbot import QtBot

from slubviz.model.scenarios.outcome import Found, PlayedBeside, PlayedOutcome
from slubviz.model.scenarios.run import PlayedStep
from slubviz.model.scenarios.scenario import OutcomeKind
from slubviz.model.snapshot import LockView, SourceSpan
from slubviz.views.source_panel_marks import span_rect
from slubviz.views.talk_outcome import evidence, verdict
from slubviz.views.talk_text import fitting_pixels
from slubviz.views.talk_view import TalkView
from slubviz.views.theme import DARK, LIGHT
from slubviz.views.travel_view import ProgramView, ScenarioView, TravelView
from slubviz.views.view_update import ViewUpdate
from tests.views.fake_stacks import SOURCES, nested
from tests.views.fake_travel import BRANCHES
from tests.views.helpers import A, F, snapshot_of, table, update_with

CAPTIONS = ("The task has A in its hands.", "An interrupt takes\n   A and B.", "Two owners of one object.")


def result_of(
    found: OutcomeKind = OutcomeKind.BROKEN, differences: tuple[str, ...] = (), lines: int = 1
) -> SimpleNamespace:
    """The part of a result that the talk shows."""
    proof = tuple(f"proof {number}" for number in range(lines))
    outcome = PlayedOutcome(
        OutcomeKind.BROKEN, Found(found, proof, {}, 900, 2000.0), "Only the head\n is compared.", differences
    )
    fine = PlayedOutcome(OutcomeKind.FINE, Found(OutcomeKind.FINE, (), {}, 900, 2000.0), "", ())
    beside = (PlayedBeside("with a number", "slub", fine, ()),)
    return SimpleNamespace(outcome=outcome, beside=beside, as_expected=not differences)


def scenario_at(step: int, result: object = None) -> ScenarioView:
    steps = tuple(PlayedStep(100 * n, text, 0, None, "") for n, text in enumerate(CAPTIONS))
    return ScenarioView("aba", "ABA", "What it is about.", steps, step, result or result_of())  # type: ignore[arg-type]


def update_at(step: int, **changes: object) -> ViewUpdate:
    travel = TravelView(
        position=100 * max(step, 0),
        end=900,
        branch=BRANCHES[0],
        branches=BRANCHES[:1],
        program=ProgramView(SOURCES),
        call_stacks=(nested(1),),
        scenario=scenario_at(step),
    )
    slabs = table([[A, A, F, F]], cpu=[0])
    return replace(update_with(snapshot_of(slabs)), travel=replace(travel, **changes))  # type: ignore[arg-type]


@pytest.fixture
def talk(qtbot: QtBot) -> Iterator[TalkView]:
    view = TalkView(LIGHT)
    qtbot.addWidget(view)
    view.resize(1280, 720)
    view.show()
    view.show_update(update_at(0))
    yield view
    view.hide()


def asked(talk: TalkView) -> list[int]:
    steps: list[int] = []
    talk.step.connect(steps.append)
    return steps


def test_a_step_has_its_caption_number_stack_source_and_slabs(talk: TalkView) -> None:
    talk.show_update(update_at(1))
    assert talk.title.text == "ABA"
    assert talk.number.text == "2 of 3"
    assert talk.caption.text == "An interrupt takes A and B."
    assert [card.frame.function for card in talk.stack.cards][-1] == "slab_alloc"
    assert talk.source.file == "slub_fastpath.py"
    assert talk.map.map_layout is not None


@pytest.mark.parametrize(("width", "height"), [(640, 360), (1280, 720), (1920, 1080)])
def test_letters_go_with_the_window_and_nothing_is_pushed_out(
    talk: TalkView, qtbot: QtBot, width: int, height: int
) -> None:
    talk.resize(width, height)
    qtbot.wait(20)
    assert (talk.width(), talk.height()) == (width, height)
    assert 0.05 * height <= talk.caption.pixels <= 0.07 * height
    for part in (talk.title, talk.number, talk.caption, talk.stack, talk.source, talk.map):
        corner = part.mapTo(talk, part.rect().bottomRight())
        assert part.isVisible()
        assert part.height() > 10
        assert corner.x() < width
        assert corner.y() < height


def test_a_long_caption_gets_smaller_letters_and_is_all_there(talk: TalkView) -> None:
    short = talk.caption.pixels
    talk.caption.set_text("Many words that go on and on. " * 20)
    assert 10 < talk.caption.pixels < short


def test_fitting_pixels_is_the_largest_size_that_fits(talk: TalkView) -> None:
    font = talk.font()
    sizes = [fitting_pixels("some words to wrap", font, 200, height, 60) for height in range(10, 300, 10)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 10
    assert 20 < sizes[-1] <= 60
    assert fitting_pixels("", font, 200, 300, 60) == 60


@pytest.mark.parametrize("key", [Qt.Key.Key_PageDown, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Space])
def test_keys_forwards(talk: TalkView, qtbot: QtBot, key: Qt.Key) -> None:
    steps = asked(talk)
    qtbot.keyClick(talk, key)
    assert steps == [+1]


@pytest.mark.parametrize("key", [Qt.Key.Key_PageUp, Qt.Key.Key_Left, Qt.Key.Key_Up])
def test_keys_backwards_as_far_as_there_are_steps(talk: TalkView, qtbot: QtBot, key: Qt.Key) -> None:
    steps = asked(talk)
    qtbot.keyClick(talk, key)
    assert steps == []
    talk.show_update(update_at(1))
    qtbot.keyClick(talk, key)
    assert steps == [-1]


def test_after_the_last_step_comes_the_outcome_and_back(talk: TalkView, qtbot: QtBot) -> None:
    steps = asked(talk)
    talk.show_update(update_at(2))
    for _ in range(2):  # once more changes nothing
        qtbot.keyClick(talk, Qt.Key.Key_PageDown)
    assert talk.shows_outcome
    assert talk.outcome.isVisible()
    assert talk.number.text == "outcome"
    assert talk.outcome.explanation.text == "Only the head is compared."
    assert talk.outcome.beside.text == "with a number: fine"
    talk.show_update(update_at(2))  # an update of the same step does not take it away
    assert talk.shows_outcome
    qtbot.keyClick(talk, Qt.Key.Key_PageUp)
    assert not talk.shows_outcome
    assert talk.caption.isVisible()
    assert steps == []


def test_another_step_takes_the_outcome_away(talk: TalkView) -> None:
    talk.show_update(update_at(2))
    talk.go(+1)
    talk.show_update(update_at(0))
    assert not talk.shows_outcome
    assert talk.number.text == "1 of 3"


def test_without_a_result_there_is_no_outcome(talk: TalkView) -> None:
    talk.show_update(update_at(2, scenario=replace(scenario_at(2), result=None)))
    talk.go(+1)
    assert not talk.shows_outcome


def test_the_verdict_tells_expected_from_found() -> None:
    assert verdict(result_of()) == "Found as expected: broken"  # type: ignore[arg-type]
    other = result_of(OutcomeKind.FINE, ("broken was expected",))
    assert verdict(other) == "Expected: broken. Found: fine"  # type: ignore[arg-type]
    assert evidence(other) == ["proof 0", "broken was expected"]  # type: ignore[arg-type]
    assert evidence(result_of(lines=7))[-2:] == ["proof 3", "and 3 more"]  # type: ignore[arg-type]


def test_before_the_first_step_it_is_the_summary(talk: TalkView) -> None:
    talk.show_update(update_at(-1))
    assert talk.caption.text == "What it is about."
    assert talk.number.text == "start"


def test_without_a_scenario_it_says_so_and_keys_do_nothing(talk: TalkView, qtbot: QtBot) -> None:
    steps = asked(talk)
    talk.show_update(update_at(0, scenario=None))
    assert "No scenario is open" in talk.caption.text
    qtbot.keyClick(talk, Qt.Key.Key_PageDown)
    assert steps == []
    talk.show_update(ViewUpdate())
    assert "No scenario is open" in talk.caption.text


def test_escape_leaves(talk: TalkView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(talk.closed):
        qtbot.keyClick(talk, Qt.Key.Key_Escape)
    assert not talk.isVisible()


def test_the_theme_can_be_changed_while_it_is_shown(talk: TalkView) -> None:
    def ground() -> str:
        return talk.grab().toImage().pixelColor(2, 2).name()

    assert ground() == LIGHT.window
    talk.set_theme(DARK)
    assert ground() == DARK.window


def test_locks_are_below_the_map_while_there_are_any(talk: TalkView, qtbot: QtBot) -> None:
    update = update_at(0)
    assert update.snapshot is not None
    locks = (LockView("list_lock", 64, 1, 5.0, (2, 3)), LockView("zone->lock", 128, 0, 5.0, ()))
    talk.show_update(replace(update, snapshot=replace(update.snapshot, locks=locks)))
    qtbot.wait(20)
    assert talk.locks.isVisible()
    assert talk.locks.height() >= talk.locks.height_for(2)
    assert talk.locks.mapTo(talk, QPoint()).y() >= talk.map.mapTo(talk, talk.map.rect().bottomLeft()).y()
    talk.show_update(replace(update, snapshot=replace(update.snapshot, locks=())))
    assert not talk.locks.isVisible()


def test_the_slab_of_a_scenario_is_as_large_as_its_panel_allows(talk: TalkView, qtbot: QtBot) -> None:
    update = update_at(0)
    assert update.snapshot is not None
    talk.show_update(replace(update, snapshot=replace(update.snapshot, cpus=update.snapshot.cpus[:1])))
    qtbot.wait(20)
    layout = talk.map.map_layout
    assert layout is not None
    assert max(grid.style.width for grid in layout.grids) > 0.6 * talk.map.width()


@pytest.mark.parametrize("width", [640, 900, 1280, 1920])
def test_an_expression_is_seen_from_the_beginning_of_its_line(
    talk: TalkView, qtbot: QtBot, width: int
) -> None:
    talk.resize(width, width * 9 // 16)
    qtbot.wait(20)
    editor = talk.source.editor
    span = editor.marks.span
    assert span is not None
    text = editor.document().findBlockByNumber(span.line - 1).text()
    indent = QFontMetricsF(editor.font()).horizontalAdvance(text[: len(text) - len(text.lstrip())])
    assert editor.horizontalScrollBar().value() <= round(indent)
    placed = next(line for line in editor.visible_lines() if line.number == span.line)
    assert span_rect(placed, span).left() < editor.viewport().width()


def test_a_wide_expression_gets_smaller_letters_and_a_narrow_one_gets_them_back(
    talk: TalkView, qtbot: QtBot
) -> None:
    talk.resize(1920, 1080)
    qtbot.wait(20)
    editor = talk.source.editor
    texts = ["def f():", "    short()", "    call(" + "x, " * 12 + "y)", "    call(" + "x, " * 60 + "y)"]
    editor.set_document(editor.make_document(texts))
    sizes, scrolled = [], []
    for line in (2, 3, 4, 2):
        editor.show_span(SourceSpan("f.py", line, 5, line, len(texts[line - 1]) + 1))
        sizes.append(editor.font().pointSizeF())
        scrolled.append(editor.horizontalScrollBar().value())
    assert sizes[0] == sizes[3] > sizes[1] > sizes[2] == pytest.approx(0.75 * sizes[0])
    indent = QFontMetricsF(editor.font()).horizontalAdvance("    ") * 0.75
    assert scrolled[0] == scrolled[1] == scrolled[3] == 0
    assert abs(scrolled[2] - indent) <= 2


def test_the_margin_is_narrow_without_breakpoints_and_second_cpus(talk: TalkView) -> None:
    gutter = talk.source.editor.gutter
    narrow = gutter.needed_width()
    gutter.set_compact(False)
    assert narrow < 0.7 * gutter.needed_width()
