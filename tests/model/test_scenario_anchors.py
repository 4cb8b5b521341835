"""Anchors are met where the source says, whatever is edited; what is no anchor is refused."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.model.scenarios import Scenario, load_scenario
from slubviz.model.scenarios.anchors import AnchorError, Kind, When, parse_anchor
from slubviz.model.scenarios.places import PlaceFinder
from slubviz.model.scenarios.run import ScenarioCancelled, ScenarioRun
from slubviz.model.scenarios.scenario import OutcomeKind
from tests.model.scenario_helpers import (
    BUDGET_BYTES,
    PROGRAM,
    TABLES,
    one_line_or_nothing,
    play,
    positions,
    small,
    steps,
)


def executed(scenario: Scenario) -> list[tuple[int, tuple[str, ...], str]]:
    """CPU, functions and source of each micro-op of a run, found by single steps: what anchors must find."""
    recording = play(scenario).recording
    session = recording.session
    recording.seek(0)
    program, found = session.booted.program, []
    while recording.position < recording.end:
        machine = session.machine
        cpu = int(machine.state[L.H_CURRENT_CPU])
        pc = machine.cpu_word(cpu, L.C_PC)
        names = tuple(function.name for function, _ in program.inline_stack(pc))
        span = program.span(pc)
        line = program.sources[span.file].splitlines()[span.line - 1]
        end = span.end_column - 1 if span.end_line == span.line else None
        found.append((cpu, names, line[span.column - 1 : end]))
        recording.step()
    return found


def test_anchors_are_where_single_steps_find_them() -> None:
    trace = executed(small())
    exchanges = [
        at
        for at, (_, names, text) in enumerate(trace)
        if "slab_alloc" in names and text.startswith("cmpxchg_l")
    ]
    assert len(exchanges) == 3
    found = positions(
        "slab_alloc, before cmpxchg_local, 1st time",
        "slab_alloc, after cmpxchg_local, 1st time",
        "slab_alloc, before cmpxchg_local, second time",
        "slab_alloc, before cmpxchg_local, 3rd time",
        "slab_alloc, after cmpxchg_local, third time",
    )
    assert found == [exchanges[0], exchanges[0] + 1, exchanges[1], exchanges[2], exchanges[2] + 1]
    enters = [
        at for at in range(1, len(trace)) if "helper" in trace[at][1] and "helper" not in trace[at - 1][1]
    ]
    # It calls kmalloc and kfree, in which it is not left: it is over where work goes on by itself.
    left = next(at for at in range(enters[0], len(trace)) if trace[at][1] == ("work",))
    assert positions("helper", "after call of helper", "end") == [enters[0], left, len(trace)]


def test_a_step_without_a_number_follows_the_one_above_it() -> None:
    first, second, third = positions(
        *["slab_alloc, after cmpxchg_local"] * 2, "slab_alloc, before cmpxchg_local"
    )
    assert first == second  # it is not before the step above
    assert third > second
    numbered = positions(*(f"slab_alloc, before cmpxchg_local, {n} time" for n in ("1st", "2nd", "3rd")))
    assert numbered == sorted(set(numbered))


def test_places_later_by_a_number_of_micro_ops() -> None:
    first, later, last = positions("helper", "5 micro-ops later", "100000 micro-ops later")
    assert later == first + 5
    assert last == play(small()).recording.end


def test_returns_lines_counts_and_loads() -> None:
    before, after = positions("kmalloc, before return", "kmalloc, after return")
    assert after == before + 1
    line, load, count = positions(
        "before line matching `found = cmpxchg_local(`",
        "slab_alloc, before load of `object.next`",
        "before count of ALLOC_FASTPATH",
    )
    # The line begins with the load of the successor, an argument of the exchange.
    assert line == load
    assert count == load + 3


def test_an_interrupted_line_is_met_once() -> None:
    """An interrupt before the exchange returns to it: the exchange is not met a second time."""
    strike = '[[interrupt]]\ncpu = 0\nat = "slab_alloc, before cmpxchg_local"\nhandler = "irq_two"\n'
    quiet = positions(*(f"slab_alloc, before cmpxchg_local, {n} time" for n in ("1st", "2nd")))
    struck = positions(*(f"slab_alloc, before cmpxchg_local, {n} time" for n in ("1st", "2nd")), extra=strike)
    handler = positions("irq_two", "irq_two, after return", extra=strike)
    assert struck[0] == quiet[0]
    length = handler[1] - (handler[0] - 1)
    assert struck[1] == quiet[1] + length
    assert handler[0] == quiet[0] + 1


LOOP = """
def work(size, n):
    for i in range(n):
        if i == 2:
            smp_mb()
        total = i * 3 + n
        instructions(2)
"""


def test_after_is_only_where_it_was_before() -> None:
    """What follows the barrier is reached without it, too."""
    (before,) = positions("work, before smp_mb", program=LOOP)
    (after,) = positions("work, after smp_mb", program=LOOP)
    assert after == before + 1
    trace = executed(small(program=LOOP))
    follows = [at for at in range(1, len(trace)) if trace[at][2].startswith("i * 3")]
    assert follows[0] < before


def test_a_task_that_moves_is_where_it_was() -> None:
    """It comes to the line once, on the CPU that it leaves, and leaves it on the other one."""
    line = "work, before line matching `total = `"
    move = f'[[migrate]]\ncpu = 0\nat = "{line}"\nto = 1\n'
    second, third = (f"{line}, {time} time" for time in ("2nd", "3rd"))
    assert positions(line, second, third, extra=move, program=LOOP) == positions(
        line, second, third, program=LOOP
    )
    after = "work, after line matching `total = `"
    assert positions(f"{after}, on cpu 1", extra=move, program=LOOP) == positions(after, program=LOOP)


def test_who_is_asked_for_decides_what_counts() -> None:
    both = TABLES.replace("[outcome]", '[[cpu]]\nnumber = 1\nrun = "work"\narguments = [64, 3]\n\n[outcome]')
    anchor = "slab_alloc, before cmpxchg_local, 2nd time"
    on_0, on_1 = (positions(f"{anchor}, on cpu {cpu}", tables=both)[0] for cpu in (0, 1))
    anywhere = positions(anchor, tables=both)[0]
    assert on_0 != on_1
    assert anywhere < max(on_0, on_1)
    inside = positions("before count of ALLOC_FASTPATH, inside work, in task, depth 0")
    assert inside == positions("before count of ALLOC_FASTPATH")


LINES = "    barrier()\n    instructions(1)\n"


@pytest.mark.parametrize("place", ["def work(size, n):\n", "    helper(size)\n"])
def test_anchors_survive_edits(place: str) -> None:
    """Lines put into the program and into the kernel move every micro-op; anchors go with the source."""
    anchors = ("helper", "slab_alloc, before cmpxchg_local, 3rd time", "kfree, before return, 2nd time")

    def marks(scenario: Scenario) -> list[tuple[str, ...]]:
        trace, result = executed(scenario), play(scenario)
        return [(*trace[step.position][1], trace[step.position][2]) for step in result.steps]

    plain = small(steps(*anchors))
    edit = (
        '[[edit]]\nfile = "slub_fastpath.py"\n'
        'find = "            found = cmpxchg_local(c.freelist, object, object.next)\\n"\n'
        'replace = """\n            barrier()\n            instructions(3)\n'
        '            found = cmpxchg_local(c.freelist, object, object.next)\n"""\n'
    )
    edited = small(steps(*anchors) + edit, program=PROGRAM.replace(place, place + LINES))
    assert marks(edited) == marks(plain)
    assert [s.position for s in play(edited).steps] != [s.position for s in play(plain).steps]


def test_faults_and_deadlocks_are_outcomes() -> None:
    for statement, kind, text in (
        ('bug_on(True, "it is over")', "fault", "it is over"),
        ("spin_lock(places.of[1])\n    spin_lock(places.of[1])", "deadlock", "holds itself"),
    ):
        tables = TABLES.replace('kind = "fine"', f'kind = "{kind}"\ntext = "{text}"')
        scenario = small(program=f"\ndef work(size, n):\n    {statement}\n", tables=tables)
        result = play(scenario)
        assert result.outcome.differences == ()
        assert text in result.outcome.found.evidence[0]


def test_what_is_not_as_expected_is_said() -> None:
    tables = TABLES.replace('kind = "fine"', 'kind = "retry"') + "\n[outcome.counters]\nALLOC_FASTPATH = 7\n"
    wrong = play(small(tables=tables)).outcome
    assert not wrong.as_expected
    assert wrong.differences == (
        "expected retry, found fine: all invariants hold",
        "expected ALLOC_FASTPATH = 7, found 3",
    )
    tables = TABLES + '\n[[beside]]\ntitle = "x"\nkernel = "slub"\nkind = "fine"\n'
    tables += '[beside.compare]\nALLOC_FASTPATH = "more"\nALLOC_SLAB = "equal"\n'
    beside = play(small(tables=tables)).beside[0]
    assert beside.outcome.differences == ("expected ALLOC_FASTPATH to be more here, found 3 beside 3",)
    assert beside.compared == (("ALLOC_FASTPATH", 3, 3), ("ALLOC_SLAB", 1, 1))


def test_a_lost_object_is_noticed() -> None:
    """An object that the program forgets is one that is handed out too many."""
    program = "\ndef work(size, n):\n    alloc_to(0, size)\n    places.of[0] = NULL\n"
    found = play(small(program=program)).outcome.found
    assert (found.kind, found.evidence) == (OutcomeKind.BROKEN, ("1 objects are handed out, 0 should be",))


def test_a_program_that_writes_over_everything_is_an_outcome() -> None:
    program = """
def work(size, n):
    for i in range(3000):
        mem_map[i + 1024].flags = -1
        mem_map[i + 1024].lru.next = 8
    places.of[0] = cast(ptr, 5000000)
    places.of[1] = cast(ptr, -8)
"""
    assert play(small(program=program)).outcome.found.kind == OutcomeKind.BROKEN


def test_it_can_be_cancelled() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(ScenarioCancelled):
        ScenarioRun(small()).play(stop)


def test_progress_goes_up_to_one() -> None:
    shares: list[float] = []
    ScenarioRun(load_scenario("partial-lists"), BUDGET_BYTES).play(progress=shares.append)
    assert shares == [0.5, 1.0]


# --- anchors as text ----------------------------------------------------------------------------------


def test_the_parts_of_an_anchor_come_in_any_order() -> None:
    anchor = parse_anchor(
        "3rd time, on CPU 1, before bit_spin_lock, inside f, in interrupt, slab_alloc, inside g"
    )
    assert (anchor.kind, anchor.when, anchor.function) == (Kind.OPERATION, When.BEFORE, "slab_alloc")
    assert (anchor.thing, anchor.time, anchor.cpu, anchor.inside) == ("spin_lock", 3, 1, ("f", "g"))
    assert anchor.interrupt is True
    assert anchor.place == "slab_alloc, before spin_lock"
    assert parse_anchor("line matching `a, b = c`").thing == "a, b = c"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has 1 to 300 characters"),
        ("x" * 400, "has 1 to 300 characters"),
        ("3rd time", "names no place"),
        ("slab_alloc, before cmpxchg_locl", "did you mean cmpxchg_local?"),
        ("slab_alloc, before new_slab", "for a function write call of new_slab"),
        ("slab_alloc, befor cmpxchg_local", "did you mean before?"),
        ("a, b", "says again"),
        ("a, 1st time, 2nd time", "says again"),
        ("a, 0th time", "give 1st to 1000000th"),
        ("a,, b", "empty part"),
        ("line matching `a", "without its partner"),
        ("99999999 micro-ops later", "too far"),
        ("before call of", "is not understood"),
        ("before line matching x", "is not understood"),
    ],
)
def test_what_is_no_anchor_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(AnchorError) as caught:
        parse_anchor(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=80))
def test_any_text_is_an_anchor_or_refused_in_one_line(text: str) -> None:
    with one_line_or_nothing():
        assert parse_anchor(text).text == " ".join(text.split())


@pytest.fixture(scope="module")
def finder() -> PlaceFinder:
    return PlaceFinder(play(small()).recording.session.booted.program)


@pytest.mark.parametrize(
    ("anchor", "complaint"),
    [
        ("slab_aloc, before cmpxchg_local", "no function slab_aloc in the program; did you mean slab_alloc?"),
        ("slab_alloc, before xchg", "it has cmpxchg_local"),
        ("kfree, before irq_enable", "irq_enable is in get_new_slab"),
        ("kfree, before call of new_slab", "new_slab is called in get_new_slab"),
        ("before call of irq_two", "nobody calls it"),
        ("kfree, before count of ALLOC_SLAB", "it is counted in get_new_slab"),
        ("before count of ALLOC_SLAP", "no counter ALLOC_SLAP; did you mean ALLOC_SLAB?"),
        ("slab_alloc, before return", "write after call of slab_alloc"),
        ("before line matching `found == objec)`", "near is"),
        ("before line matching `count(`", "give more of the text"),
        ("helper, inside nobody", "no function nobody"),
    ],
)
def test_a_place_that_is_not_there_is_told_with_what_is_near(
    finder: PlaceFinder, anchor: str, complaint: str
) -> None:
    with pytest.raises(AnchorError) as caught:
        finder.find(parse_anchor(anchor))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
