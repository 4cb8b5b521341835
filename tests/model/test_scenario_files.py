"""Scenario files that are wrong, or do not fit their kernel, are refused in one line that says where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slubviz.model.errors import UserError
from slubviz.model.scenarios import Scenario, ScenarioError, load_scenario, parse_scenario
from slubviz.model.scenarios import job as job_module
from slubviz.model.scenarios.files import MOST_BYTES
from slubviz.model.scenarios.job import scenario_spec
from tests.model.scenario_helpers import (
    HEAD,
    TABLES,
    one_line_or_nothing,
    play,
    small,
    steps,
    text_of,
)

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
