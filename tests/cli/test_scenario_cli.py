"""``slubviz scenario``: lists, shows and plays; says by its exit code whether a scenario ends as it says."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from slubviz.model.scenarios import load_scenario, scenario_files
from tests.cli.conftest import Invoke

NAME = "preempt-count-drifts"


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    """A scenario of one's own: one that expects what does not happen."""
    path = tmp_path / "mine.toml"
    text = load_scenario(NAME).text
    assert text.count('kind = "broken"') == 1
    path.write_text(text.replace('kind = "broken"', 'kind = "deadlock"'), encoding="utf-8")
    return path


def test_list_names_every_scenario_with_its_title(invoke: Invoke) -> None:
    outcome = invoke("scenario", "list")
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (0, "")
    assert [line.split()[0] for line in lines] == list(scenario_files())
    assert all(line.endswith(load_scenario(line.split()[0]).title) for line in lines)


def test_list_and_show_do_not_load_the_engine() -> None:
    for arguments in (["list"], ["show", NAME], ["--help"]):
        code = (
            "import sys; from slubviz.cli import main; "
            f"code = main(['scenario', *{arguments!r}]); sys.exit(code or 'numba' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr


def test_show_prints_what_the_file_says(invoke: Invoke) -> None:
    outcome = invoke("scenario", "show", "abba-deadlock")
    assert outcome.code == 0
    for part in (
        "machine  e5345_8p, 3 CPUs",
        "kernel   slub",
        "  -         state = slab_trylock(page)",
        "  +         state = slab_lock(page) | FROZEN  # never 0",
        "CPU 1 runs free_last(1024)",
        "outcome: deadlock",
        "beside: As it is: trylock: fine",
    ):
        assert part in outcome.out
    assert "[get_partial_node, before spin_lock]" in " ".join(outcome.out.split())
    aba = invoke("scenario", "show", "aba").out
    assert "interrupt irq_alloc_alloc_free_first(64) at slab_alloc, before cmpxchg_local" in aba


def test_run_prints_steps_and_outcome(invoke: Invoke) -> None:
    outcome = invoke("scenario", "run", NAME)
    assert (outcome.code, outcome.err) == (0, "")
    text = " ".join(outcome.out.split())
    for caption in (step.caption for step in load_scenario(NAME).steps):
        assert caption in text
    assert "expected broken, found broken" in text
    assert "found: CPU 0 has a preempt count of -4, not 0" in text
    assert "beside: With get_cpu() (kernel slub+pekka) expected fine, found fine" in text
    assert max(map(len, outcome.out.splitlines())) <= 100


def test_run_ends_with_1_if_it_does_not_end_as_it_says(invoke: Invoke, own_file: Path) -> None:
    outcome = invoke("scenario", "run", NAME, str(own_file))
    assert outcome.code == 1
    text = " ".join(outcome.out.split())
    assert "NOT AS EXPECTED: expected deadlock, found broken: CPU 0 has a preempt count of -4" in text
    assert outcome.out.splitlines()[-1] == "2 scenarios; not as expected: mine"


def test_json_and_csv_say_the_same(invoke: Invoke, tmp_path: Path, own_file: Path) -> None:
    path = tmp_path / "steps.csv"
    outcome = invoke("scenario", "run", str(own_file), NAME, "--json", "--csv", str(path))
    assert outcome.code == 1
    mine, shipped = json.loads(outcome.out)
    assert (mine["name"], mine["as_expected"], mine["found"]) == ("mine", False, "broken")
    assert (shipped["name"], shipped["as_expected"], shipped["expected"]) == (NAME, True, "broken")
    assert shipped["counters"]["ALLOC_FASTPATH"] == 3
    assert shipped["beside"][0]["found"] == "fine"
    assert mine["steps"] == shipped["steps"]
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    told = [(mine["name"], step) for step in mine["steps"]] + [(NAME, step) for step in shipped["steps"]]
    assert [(row["scenario"], int(row["position_micro_ops"]), row["caption"]) for row in rows] == [
        (name, step["position_micro_ops"], step["caption"]) for name, step in told
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["run", "abba"], 2, "unknown scenario 'abba'; did you mean aba?"),
        (["run", "all", "aba"], 2, "give it alone"),
        (["run", "./none.toml"], 2, "'none.toml' does not exist"),
        (["show", "./none.toml"], 2, "'none.toml' does not exist"),
        (["run"], 2, "Missing argument"),
        (["run", "aba", "--csv", "/proc/none/x.csv"], 1, "/proc/none/x.csv"),
    ],
)
def test_what_cannot_be_is_one_line(invoke: Invoke, arguments: list[str], code: int, complaint: str) -> None:
    outcome = invoke("scenario", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert complaint in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_file_with_a_fault_names_its_line(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "faulty.toml"
    text = load_scenario("aba").text.replace("    alloc_to(1, size)", "    aloc_to(1, size)")
    path.write_text(text, encoding="utf-8")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "aloc_to" in line)
    outcome = invoke("scenario", "run", str(path))
    assert (outcome.code, outcome.out) == (1, "")
    assert f"{path}: line {line}, in program: " in outcome.err
    assert "did you mean alloc_to?" in outcome.err


def test_steps_never_take_the_place_of_the_scenario(own_file: Path, invoke: Invoke) -> None:
    before = own_file.read_bytes()
    outcome = invoke("scenario", "run", str(own_file), "--csv", str(own_file))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"slubviz: {str(own_file)!r} is read here: give another file to write\n"
    assert own_file.read_bytes() == before


def test_without_a_command_one_line_names_them(invoke: Invoke) -> None:
    outcome = invoke("scenario")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "slubviz: say what to do: slubviz scenario list, show NAME or run NAME\n"
