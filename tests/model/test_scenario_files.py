"""Anchors are met where the source says, and scenario files that are wrong are refused in one line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.model.errors import UserError
from slubviz.model.scenarios import Scenario, ScenarioError, load_scenario, parse_scenario
from slubviz.model.scenarios import job as job_module
from slubviz.model.scenarios.anchors import AnchorError, Kind, When, parse_anchor
from slubviz.model.scenarios.files import MOST_BYTES
from slubviz.model.scenarios.job import scenario_spec
from slubviz.model.scenarios.places import PlaceFinder
from slubviz.model.scenarios.run import ScenarioCancelled, ScenarioRun
from slubviz.model.scenarios.scenario import OutcomeKind
from tests.model.scenario_helpers import (
    BUDGET_BYTES,
    HEAD,
    PROGRAM,
    TABLES,
    one_line_or_nothing,
    play,
    positions,
    small,
    steps,
    text_of,
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


# --- files that are wrong --------------------------------------------------------------------------------


@contextmanager
def refused(*parts: str) -> Iterator[None]:
    with pytest.raises(UserError) as caught:
        yield
    text = str(caught.value)
    assert all(part in text for part in parts), text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("small.toml: format: is missing",)),
        ("format = [", ("not TOML",)),
        ("format = 2", ("format: is 2; this slubviz reads format 1",)),
        ("format = true", ("format: is true; give a whole number",)),
        ("format = " + "9" * 5000, ("small.toml",)),
        ("a" * (MOST_BYTES + 1), ("too large",)),
        ("x = " + "[" * 5000, ("small.toml",)),
        (text_of(head=HEAD + "titel = 3\n"), ("titel: is not known here; did you mean title?",)),
        (text_of(head=HEAD.replace('"A title"', "3")), ("title: is 3; give a text",)),
        (text_of(head=HEAD.replace("64", "0")), ("size: is 0; give a whole number from 1",)),
        (text_of(head=HEAD.replace('"A title"', '"\\u0007"')), ("title: has the character",)),
        (text_of(tables=TABLES.replace("[machine]", "[maschine]")), ("the table [machine] is missing",)),
        (text_of(tables=TABLES.replace("e5345_8p", "e5345")), ("[machine] name", "did you mean e5345_8p?")),
        (text_of(tables=TABLES.replace("cpus = 2", "cpus = 4096")), ("[machine] cpus",)),
        (text_of(tables=TABLES.replace("slub+", "slub++")), ("[kernel] name", "did you mean slub+?")),
        (text_of(tables=TABLES.replace("slub+", "/etc/x.py")), ("[kernel] name", "unknown kernel")),
        (text_of(tables=TABLES.replace("number = 0", "number = 2")), ("[[cpu]] 1, number: is 2",)),
        (text_of(tables=TABLES.replace("[64, 3]", '["x"]')), ("[[cpu]] 1, arguments: is 'x'",)),
        (text_of(tables=TABLES.replace("[[cpu]]", "[cpu]")), ("cpu: is a table; give tables, [[cpu]]",)),
        (text_of('[[cpu]]\nnumber = 0\nrun = "work"\n'), ("[[cpu]] 2, number: CPU 0 has a table already",)),
        (text_of(tables=TABLES.replace('kind = "fine"', 'kind = "fin"')), ("did you mean fine?",)),
        (text_of('[[step]]\nat = "end"\n'), ("[[step]] 1, caption: is missing",)),
        (text_of('[[step]]\nat = "befor x"\ncaption = "c"\n'), ("[[step]] 1, at:",)),
        (text_of(steps("end") + 'focus = "slob"\n'), ("[[step]] 1, focus: is 'slob'; did you mean slab?",)),
        (
            text_of('[[interrupt]]\ncpu = 0\nat = "end"\nhandler = "x"\n'),
            ("[[interrupt]] 1, at: 'end' is for steps",),
        ),
        (text_of('[[migrate]]\ncpu = 0\nat = "kfree"\nto = 0\n'), ("[[migrate]] 1, to: is 0",)),
        (text_of("micro_op_limt = 3"), ("[outcome]", "micro_op_limt")),
    ],
)
def test_a_file_that_is_wrong_is_refused(text: str, parts: tuple[str, ...]) -> None:
    with refused(*parts):
        parse_scenario(text, "small", "small.toml")


def test_without_a_cpu_nothing_is_executed() -> None:
    tables = TABLES.replace('[[cpu]]\nnumber = 0\nrun = "work"\narguments = [64, 3]\n', "")
    with refused("nothing is executed"):
        small(tables=tables)


STRIKE = '[[interrupt]]\ncpu = 0\nat = "kfree"\nhandler = "irq_two"\narguments = []\n'


@pytest.mark.parametrize(
    ("scenario", "parts"),
    [
        (
            lambda: small(program="\ndef work(size, n):\n    x = = 3\n"),
            ("line 7, in program", "syntax error"),
        ),
        (
            lambda: small(program="\n\n\ndef work(size, n):\n    y = nothing\n"),
            ("line 9, in program", "nothing"),
        ),
        (lambda: small(program="\ndef kfree(x):\n    pass\n"), ("line 6, in program",)),
        (
            lambda: small(tables=TABLES.replace('run = "work"', 'run = "wrok"')),
            ("[[cpu]] 1, run: unknown function 'wrok'; did you mean work?",),
        ),
        (
            lambda: small(tables=TABLES.replace("[64, 3]", "[64]")),
            ("[[cpu]] 1, run: work takes (size, n); 1 arguments are given",),
        ),
        (
            lambda: small(tables=TABLES.replace('run = "work"', 'run = "helper"')),
            ("unknown function 'helper'",),
        ),
        (lambda: small(STRIKE.replace("irq_two", "irq_tow")), ("[[interrupt]] 1, handler", "irq_two?")),
        (lambda: small(STRIKE.replace("[]", "[1]")), ("irq_two takes no arguments; 1 arguments are given",)),
        (
            lambda: small(STRIKE.replace('"kfree"', '"slab_alloc, before cmpxchg_local, 9th time"')),
            (
                "[[interrupt]] 1, at: ran to the end: slab_alloc, before cmpxchg_local happened 3 times "
                "on CPU 0, the 9th is asked for",
            ),
        ),
        (
            lambda: small(steps("before count of FREE_FASTPATH, in interrupt")),
            (
                "[[step]] 1, at: ran to the end",
                "never happened (4 times on other CPUs or called from",
            ),
        ),
        (
            lambda: small(steps("kfree, 1st time", "slab_alloc, before cmpxchg_local, 1st time")),
            ("[[step]] 2, at:", "before the step above it", "put the steps in order"),
        ),
        (
            lambda: small(steps("kfree, 3rd time", "helper")),
            ("[[step]] 2, at: ran to the end: helper happened once, and not after the step above it",),
        ),
        (
            lambda: small(steps("slab_aloc")),
            ("[[step]] 1, at:", "there is no function slab_aloc", "did you mean slab_alloc?"),
        ),
        (
            lambda: small('[[edit]]\nfile = "slub.py"\nfind = "no such text"\nreplace = ""\n'),
            ("[[edit]] 1: find must be in slub.py exactly once", "'no such text' is not there"),
        ),
        (
            lambda: small('[[edit]]\nfind = "count("\n'),
            ("[[edit]] 1: find must be in the files of kernel slub+ exactly once", "is there"),
        ),
        (
            lambda: small('[[edit]]\nfile = "slob.py"\nfind = "x"\n'),
            ("[[edit]] 1: kernel slub+ has no file 'slob.py' (it has",),
        ),
        (
            lambda: small('[[edit]]\nfind = "FREE_SLAB = counter()\\n"\n'),
            ("the kernel does not compile with the edits", "FREE_SLAB"),
        ),
        (
            lambda: small(tables=TABLES.replace('slub+"', 'slub+"\n[kernel.options]\nPATCH_8 = 1')),
            ("did you mean PATCH_08?",),
        ),
        (
            lambda: small("[outcome.counters]\nALLOC_SLAP = 1\n"),
            ("[outcome.counters]: there is no counter ALLOC_SLAP; did you mean ALLOC_SLAB?",),
        ),
        (
            lambda: small(
                program="\ndef work(size, n):\n    while True:\n        pass\n",
                head=HEAD + "micro_op_limit = 5000\n",
            ),
            ("does not come to an end within 5,000 micro-ops; CPU 0 is at line 8 of the file",),
        ),
        (
            lambda: small('[[migrate]]\ncpu = 0\nat = "get_new_slab, after call of discard_slab"\nto = 1\n'),
            ("[[migrate]] 1, at: ran to the end",),
        ),
        (
            lambda: small('[[migrate]]\ncpu = 0\nat = "get_new_slab"\nto = 1\n'),
            ("[[migrate]] 1: the task of CPU 0 cannot move to CPU 1: interrupts are disabled there",),
        ),
    ],
)
def test_a_scenario_that_does_not_fit_its_kernel_is_refused(
    scenario: Callable[[], Scenario], parts: tuple[str, ...]
) -> None:
    with refused(*parts):
        play(scenario())


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with refused("unknown scenario 'abba'", "did you mean aba?"):
        load_scenario("abba")
    with refused("does not exist"):
        load_scenario(str(tmp_path / "none.toml"))
    with refused("does not exist or is not a file"):
        load_scenario(str(tmp_path) + "/")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with refused("not a text file in UTF-8"):
        load_scenario(str(binary))
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (MOST_BYTES + 1))
    with refused("too large"):
        load_scenario(str(large))


def test_reading_executes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is text until it is played, and is compiled by the kernel language's compiler then."""
    program = "import os\nos.system('x')\n\n\ndef work(size, n):\n    pass\n"
    path = tmp_path / "hostile.toml"
    path.write_text(text_of(program="\n" + program), encoding="utf-8")
    compiled: list[object] = []
    monkeypatch.setattr(job_module, "compile_kernel", compiled.append)
    assert load_scenario(str(path)).program == program
    assert compiled == []
    monkeypatch.undo()
    with refused(f"{path}: line 6, in program"):
        play(load_scenario(str(path)))


_TEXT = text_of(steps("helper", "end") + STRIKE)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, len(_TEXT) - 1), st.integers(0, 60), st.text(max_size=30))
def test_a_damaged_file_is_read_or_refused_in_one_line(start: int, length: int, put: str) -> None:
    damaged = _TEXT[:start] + put + _TEXT[start + length :]
    with one_line_or_nothing():
        parse_scenario(damaged, "small", "small.toml")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "small", "small.toml")
    assert "\n" not in str(caught.value)


def test_a_run_beside_has_its_own_kernel_and_options() -> None:
    tables = TABLES + '\n[[beside]]\ntitle = "x"\nkind = "fine"\n[beside.options]\nPATCH_10 = 0\n'
    tables = tables.replace('"slub+"', '"slub+"\n[kernel.options]\nPATCH_09 = 0')
    scenario = small(tables=tables)
    assert dict(scenario_spec(scenario, scenario.beside[0]).options) == {"PATCH_09": 0, "PATCH_10": 0}
    other = replace(scenario.beside[0], kernel="slub")
    assert dict(scenario_spec(scenario, other).options) == {"PATCH_10": 0}
