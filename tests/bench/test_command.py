"""``slubviz bench`` on made-up figures: options, table, files, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slubviz.cli import backend, main
from slubviz.model.bench.figures import (
    FULL_WORK,
    QUICK_WORK,
    BenchRequest,
    Figure,
    Report,
    Timing,
    rate_figure,
    time_figure,
)
from slubviz.model.errors import RequestError

FIGURES = (
    rate_figure(
        "micro_ops_per_second_D_8_cpus",
        "engine",
        "test D, 8 CPUs",
        "micro-ops/s",
        30_000_000,
        [Timing(1.0, 1.0), Timing(2.0, 1.0)],
        goal=25e6,
        detail="what ran",
    ),
    rate_figure(
        "simpy_timeouts_per_second_8_cpus", "simpy", "SimPy", "timeouts/s", 2_000_000, [Timing(1.0, 1.0)]
    ),
    time_figure("matrix", "matrix", "the matrix", [Timing(7.25, 5.5)], goal=6.0),
    time_figure("step", "session", "one step", [Timing(0.05, 0.05)], count=20_000),
    Figure("state_size", "session", "size", "bytes", (20_500_000.0,)),
    Figure("first_frame", "window", "first frame", "s", goal=2.0, reason="Qt is not installed"),
)


class FakeBench:
    """Stands for the suite; keeps the request."""

    def __init__(self) -> None:
        self.request: BenchRequest | None = None
        self.interrupt = False

    def validate(self, request: BenchRequest) -> None:
        self.request = request
        if request.kernel != "slub":
            raise RequestError("no such kernel")

    def measure(self, request: BenchRequest, tell: Callable[[str], None] | None = None) -> Report:
        if self.interrupt:
            raise KeyboardInterrupt
        assert tell is not None
        tell("something")
        host = {"processor": "Test CPU", "cores": 2, "load_average": 0.1, "system": "Linux", "python": "3.11"}
        return Report(request, {**host, "numba": "1", "numpy": "2", "simpy": None}, FIGURES)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    fake = FakeBench()
    monkeypatch.setattr(backend, "load_benchmark", lambda: fake)
    return fake


def row(text: str, title: str) -> list[str]:
    """The words of a table's row after its title."""
    line = next(line for line in text.splitlines() if line.startswith(title))
    return line.removeprefix(title).split()


def test_the_table_shows_values_units_goals_and_verdicts(
    bench: FakeBench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench"]) == 0
    out = capsys.readouterr().out
    assert row(out, "test D, 8 CPUs") == "30.0 22.5 15.0 30.0 30.0 M micro-ops/s ≥ 25 met".split()
    assert row(out, "the matrix") == "7.25 7.25 7.25 7.25 5.50 s ≤ 6 by CPU time only".split()
    assert row(out, "one step") == "2.50 2.50 2.50 2.50 2.50 µs".split()
    assert row(out, "size") == "20.5 20.5 20.5 20.5 - MB".split()
    assert row(out, "first frame") == "- - - - - s ≤ 2 not measured: Qt is not installed".split()
    assert "Test CPU, 2 cores" in out
    assert "simpy not installed" in out
    assert "  test D, 8 CPUs: what ran" in out
    assert "8 CPUs: 15.0 micro-ops of test D in the time of one timeout" in out
    assert out.splitlines()[-1] == "1 of 3 goals met"
    assert "other programs run" not in out
    assert all(len(line) <= 110 for line in out.splitlines())


def test_the_options_make_the_request(bench: FakeBench) -> None:
    assert main(["bench"]) == 0
    assert bench.request == BenchRequest()
    assert bench.request.work is FULL_WORK
    arguments = "--quick --repeat 7 --cpus 64,1,64 --only window,Engine".split()
    assert main(["bench", *arguments]) == 0
    assert bench.request == BenchRequest(("engine", "window"), (1, 64), 7, True, work=QUICK_WORK)


@pytest.mark.parametrize(("text", "timeouts"), [("5000", 5000), ("all", None)])
def test_simpy_timeouts(bench: FakeBench, text: str, timeouts: int | None) -> None:
    assert main(["bench", "--simpy-timeouts", text]) == 0
    assert bench.request is not None
    assert bench.request.work.simpy_timeouts == timeouts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--repeat 0", "--repeat '0' must be a whole number from 1 to 1000"),
        ("--repeat x", "--repeat 'x' must be a whole number from 1 to 1000"),
        ("--cpus 0", "--cpus '0' must be a whole number from 1 to 4096"),
        ("--cpus 8,,", "--cpus '' must be a whole number from 1 to 4096"),
        ("--cpus 5000", "--cpus '5000' must be a whole number from 1 to 4096"),
        ("--only engines", "unknown group 'engines'; did you mean engine? (known: engine, simpy, "),
        (
            "--simpy-timeouts some",
            "--simpy-timeouts 'some' must be a whole number from 1 to 1000000000, or all",
        ),
        ("--nonsense", "No such option"),
        ("extra", "unexpected extra argument"),
    ],
)
def test_bad_options_end_in_one_line(
    bench: FakeBench, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    assert main(["bench", *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
    assert bench.request is None


def test_files_hold_all_figures(bench: FakeBench, tmp_path: Path) -> None:
    json_file, csv_file = tmp_path / "b.json", tmp_path / "b.csv"
    assert main(["bench", "--json", str(json_file), "--csv", str(csv_file)]) == 0
    names = [figure.name for figure in FIGURES]
    document = json.loads(json_file.read_text(encoding="utf-8"))
    assert [record["name"] for record in document["figures"]] == names
    rows = csv_file.read_text(encoding="utf-8").splitlines()
    assert [line.partition(",")[0] for line in rows] == ["name", *names]


def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    bench: FakeBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--json", str(tmp_path / "missing" / "b.json")]) == 1
    assert "the folder" in capsys.readouterr().err
    assert bench.request is None


def test_a_full_disk_is_told_after_the_table(bench: FakeBench, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    assert main(["bench", "--csv", "/dev/full"]) == 1
    captured = capsys.readouterr()
    assert "1 of 3 goals met" in captured.out
    assert captured.err.count("\n") == 1
    assert "no space left" in captured.err


def test_ctrl_c_ends_in_one_line(bench: FakeBench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.interrupt = True
    assert main(["bench"]) == 130
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "slubviz: interrupted\n")


def test_help_lists_the_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    for group in ("engine", "simpy", "matrix", "session", "compile", "window"):
        assert f"\n    {group} " in out
