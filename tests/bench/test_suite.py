"""The measuring itself, on work so small that it takes no time; no time is judged."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slubviz.model.bench import engine_rates, processes, simpy_rates, suite
from slubviz.model.bench.figures import GROUPS, BenchRequest, Figure, Verdict, Work, report_json
from slubviz.model.errors import RequestError, UserError

TINY = Work(
    total_ops={"D": ((8, 80),), "E": ((8, 80),)},
    matrix_ops=3,
    matrix_sizes=(64, 4096),
    warm_up_micro_ops=500,
    steps=20,
    copies=2,
    snapshots=2,
    session_ops=20,
    simpy_timeouts=None,
)
REQUEST = BenchRequest(groups=("engine", "simpy", "matrix", "session"), cpus=(1, 2), repeat=2, work=TINY)


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    suite.validate(REQUEST)
    told: list[str] = []
    report = suite.measure(REQUEST, told.append)
    assert "test D, 2 CPUs (2 of 2)" in told
    json.loads(report_json(report, "0"))  # every value can be written
    names = [figure.name for figure in report.figures]
    assert len(set(names)) == len(names)
    return {figure.name: figure for figure in report.figures}


def test_every_asked_group_gives_its_figures_in_order(figures: dict[str, Figure]) -> None:
    assert [*dict.fromkeys(figure.group for figure in figures.values())] == [
        group for group in GROUPS if group in REQUEST.groups
    ]
    assert list(figures)[:6] == [
        "micro_ops_per_second_D_1_cpus",
        "micro_ops_per_second_E_1_cpus",
        "micro_ops_per_second_D_2_cpus",
        "micro_ops_per_second_E_2_cpus",
        "simpy_timeouts_per_second_1_cpus",
        "simpy_timeouts_per_second_2_cpus",
    ]


def test_every_figure_has_as_many_samples_as_asked_and_a_base_unit(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        assert figure.unit in ("micro-ops/s", "timeouts/s", "s", "bytes")
        assert len(figure.samples) == (1 if figure.unit == "bytes" else 2), figure.name
        assert all(sample > 0 for sample in figure.samples), figure.name
        assert figure.higher_is_better == figure.unit.endswith("/s")


@pytest.mark.parametrize("test", engine_rates.RATE_TESTS)
def test_the_rate_counts_the_micro_ops_of_the_whole_run(figures: dict[str, Figure], test: str) -> None:
    session = engine_rates.rate_session(REQUEST, test, 2)
    assert session.spec.ops == 40
    session.boot()
    session.run_to_end()
    assert figures[f"micro_ops_per_second_{test}_2_cpus"].count == session.machine.micro_ops


def test_simpy_executes_as_many_timeouts_as_the_engine_micro_ops(figures: dict[str, Figure]) -> None:
    for cpus in (1, 2):
        engine = figures[f"micro_ops_per_second_D_{cpus}_cpus"]
        assert figures[f"simpy_timeouts_per_second_{cpus}_cpus"].count == engine.count


def test_goals_are_for_the_full_work_only(figures: dict[str, Figure]) -> None:
    assert figures["matrix"].goal is None
    assert {figure.verdict for figure in figures.values()} == {Verdict.NO_GOAL}


def test_the_issue_goals_are_set() -> None:
    assert engine_rates.GOALS == {8: 25e6, 1024: 8e6}
    request = replace(REQUEST, cpus=(8,), repeat=1)
    rates = list(engine_rates.measure_rates(request, lambda _: None))
    assert [figure.goal for figure in rates] == [25e6, 25e6]


@pytest.mark.parametrize(("cpus", "timeouts"), [(1, 7), (4, 10), (8, 3)])
def test_simpy_timeouts_are_all_executed(cpus: int, timeouts: int) -> None:
    simpy = pytest.importorskip("simpy")
    environments: list[object] = []

    class Counting:
        """Counts what is really asked of SimPy."""

        asked = 0

        @staticmethod
        def Environment() -> object:  # the name is SimPy's
            environment = simpy.Environment()
            plain = environment.timeout

            def timeout(delay: float) -> object:
                Counting.asked += 1
                return plain(delay)

            environment.timeout = timeout
            environments.append(environment)
            return environment

    assert simpy_rates.run_timeouts(Counting, cpus, timeouts) == timeouts
    assert Counting.asked == timeouts
    assert len(environments) == 1


def test_without_simpy_the_figure_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simpy_rates, "load_simpy", lambda: None)
    found = list(simpy_rates.measure_simpy(REQUEST, {}, lambda _: None))
    assert [figure.reason for figure in found] == ["SimPy is not installed: pip install simpy"] * 2
    assert {figure.verdict for figure in found} == {Verdict.NOT_MEASURED}


def test_a_machine_that_does_not_fit_is_told_and_the_rest_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail_on_two(request: BenchRequest, test: str, cpus: int) -> object:
        if cpus == 2:
            raise MemoryError
        return original(request, test, cpus)

    original = engine_rates.rate_session
    monkeypatch.setattr(engine_rates, "rate_session", fail_on_two)
    report = suite.measure(replace(REQUEST, groups=("engine", "simpy"), repeat=1))
    reasons = {figure.name: figure.reason for figure in report.figures}
    assert reasons["micro_ops_per_second_D_1_cpus"] == ""
    assert reasons["micro_ops_per_second_D_2_cpus"] == "this computer has not enough memory"
    assert reasons["simpy_timeouts_per_second_1_cpus"] == ""
    assert reasons["simpy_timeouts_per_second_2_cpus"].startswith("the engine's micro-ops are not known")


@pytest.mark.parametrize("missing", [("PySide6",), ("pyqtgraph",), ("PySide6", "pyqtgraph")])
def test_without_qt_the_window_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, missing: Sequence[str]
) -> None:
    monkeypatch.setattr(processes, "module_is_installed", lambda name: name not in missing)
    monkeypatch.setattr(processes, "run_child", lambda *_: pytest.fail("a window was started"))
    found = list(processes.measure_window(REQUEST, lambda _: None))
    assert [figure.name for figure in found] == ["first_frame", "first_frame_cold"]
    names = " and ".join("Qt" if name == "PySide6" else name for name in missing)
    verb = "is" if len(missing) == 1 else "are"
    assert {figure.reason for figure in found} == {f"{names} {verb} not installed"}


def test_the_window_is_timed_from_its_start_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def child(arguments: list[str], environment: dict[str, str]) -> dict[str, float]:
        assert arguments == ["-m", "slubviz.cli.first_frame"]
        seen.append(dict(environment))
        return {"monotonic_seconds": 12.0 + len(seen), "cpu_seconds": 0.5}

    monkeypatch.setattr(processes, "module_is_installed", lambda name: True)
    monkeypatch.setattr(processes, "run_child", child)
    monkeypatch.setattr(processes.time, "monotonic", lambda: 10.0)
    warm, cold = processes.measure_window(REQUEST, lambda _: None)
    # The first child compiles anew, the second warms up and does not count.
    assert (cold.samples, warm.samples, warm.cpu_time_samples) == ((3.0,), (5.0, 6.0), (0.5, 0.5))
    assert ["SLUBVIZ_CACHE_DIR" in environment for environment in seen] == [True, False, False, False]


def test_compile_times_come_from_an_empty_folder_and_then_the_same_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders: list[str] = []

    def child(arguments: list[str], environment: dict[str, str]) -> list[list[float]]:
        folders.append(environment["SLUBVIZ_CACHE_DIR"])
        first_time = folders.count(folders[-1]) == 1
        return [[1.0, 0.1], [1.5, 0.4], [9.5, 7.4] if first_time else [1.75, 0.6]]

    monkeypatch.setattr(processes, "run_child", child)
    cold, warm, libraries, kernel = processes.measure_compile(REQUEST, lambda _: None)
    assert cold.samples == (8.0, 8.0)
    assert cold.cpu_time_samples == (7.0, 7.0)
    assert warm.samples == (0.25, 0.25)
    assert libraries.samples == (0.5, 0.5)
    assert (cold.goal, cold.verdict) == (10.0, Verdict.MET)
    assert len(set(folders)) == 2
    assert kernel.name == "kernel_compile"
    assert len(kernel.samples) == 2


def test_a_child_that_fails_gives_a_reason() -> None:
    with pytest.raises(processes.ChildFailed, match=r"^ValueError: no luck$"):
        processes.run_child(["-c", "raise ValueError('no luck')"], {})
    with pytest.raises(processes.ChildFailed, match=r"^exit code 3$"):
        processes.run_child(["-c", "raise SystemExit(3)"], {})
    with pytest.raises(processes.ChildFailed, match="not what was expected"):
        processes.run_child(["-c", "print('hello')"], {})


def test_a_child_gets_its_environment_and_its_last_line_is_read() -> None:
    program = "import os; print('noise'); print('[' + os.environ['SLUBVIZ_X'] + ', 2]')"
    assert processes.run_child(["-c", program], {"SLUBVIZ_X": "1"}) == [1, 2]


def test_a_failing_child_is_a_figure_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def child(*_: object) -> object:
        raise processes.ChildFailed("no answer after 600 s")

    monkeypatch.setattr(processes, "module_is_installed", lambda name: True)
    monkeypatch.setattr(processes, "run_child", child)
    figures = [
        *processes.measure_window(REQUEST, lambda _: None),
        *list(processes.measure_compile(REQUEST, lambda _: None))[:3],
    ]
    assert {figure.reason for figure in figures} == {"no answer after 600 s"}
    assert {figure.samples for figure in figures} == {()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ("engin",)}, r"unknown group 'engin'; did you mean engine\?"),
        ({"machine": "vax"}, r"unknown machine 'vax'"),
        ({"kernel": "slob"}, r"unknown kernel 'slob'"),
        ({"cpus": (0, 8)}, "numbers of CPUs of at least 1"),
        ({"cpus": ()}, "numbers of CPUs of at least 1"),
        ({"repeat": 0}, "at least 1 sample"),
        ({"cpus": (5000,)}, "5000"),
        ({"groups": ("simpy",)}, r"measure the group engine"),
    ],
)
def test_what_cannot_be_measured_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        suite.validate(replace(REQUEST, **change))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_without_the_jit_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "jit_enabled", False)
    with pytest.raises(RequestError, match="NUMBA_DISABLE_JIT"):
        suite.validate(REQUEST)


def test_the_import_program_gives_three_ascending_marks() -> None:
    marks = processes.run_child(["-c", processes.IMPORT_PROGRAM], {})
    assert len(marks) == 3
    for clock in (0, 1):
        times = [mark[clock] for mark in marks]
        assert times == sorted(times)
        assert times[2] > times[0]


def test_the_window_really_paints_a_frame_and_quits(tmp_path: Path) -> None:
    pytest.importorskip("PySide6")
    before = time.monotonic()
    environment = {"QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(tmp_path)}
    answer = processes.run_child(["-m", "slubviz.cli.first_frame"], environment)
    assert set(answer) == {"monotonic_seconds", "cpu_seconds"}
    assert before < answer["monotonic_seconds"] < time.monotonic()
    assert answer["cpu_seconds"] > 0
