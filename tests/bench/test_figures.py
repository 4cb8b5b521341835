"""What a report says about its samples, and that it survives JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.model.bench.figures import (
    CSV_COLUMNS,
    FULL_WORK,
    GROUPS,
    QUICK_WORK,
    BenchRequest,
    Figure,
    Report,
    Timing,
    Verdict,
    rate_figure,
    report_csv,
    report_json,
    time_figure,
)

TIMINGS = (Timing(2.0, 1.0), Timing(4.0, 0.5), Timing(1.0, 0.8))
RATE = rate_figure("r", "engine", "a rate", "micro-ops/s", 100, TIMINGS, goal=90.0, detail="what, ran")
TIME = time_figure("t", "matrix", "a time", TIMINGS, count=2, goal=0.3)
SIZE = Figure("s", "session", "a size", "bytes", (4096.0,))
ABSENT = Figure("a", "window", "a frame", "s", goal=2.0, reason="Qt is not installed")
REPORT = Report(
    BenchRequest(groups=("engine", "window"), cpus=(1, 8), repeat=3),
    {"processor": "P", "cores": 2, "load_average": None},
    (RATE, TIME, SIZE, ABSENT),
)


def test_a_rate_is_best_when_the_time_is_shortest() -> None:
    assert RATE.samples == (50.0, 25.0, 100.0)
    assert RATE.cpu_time_samples == (100.0, 200.0, 125.0)
    assert (RATE.best, RATE.median, RATE.best_by_cpu_time, RATE.count) == (100.0, 50.0, 200.0, 100)


def test_a_time_is_for_one_of_the_things_timed() -> None:
    assert TIME.samples == (1.0, 2.0, 0.5)
    assert (TIME.best, TIME.median, TIME.best_by_cpu_time, TIME.count) == (0.5, 1.0, 0.25, 2)


def test_a_clock_that_stands_still_gives_a_finite_rate() -> None:
    assert rate_figure("r", "engine", "", "micro-ops/s", 7, [Timing(0.0, 0.0)]).best == pytest.approx(7e9)


@pytest.mark.parametrize(
    ("figure", "goal", "verdict"),
    [
        (RATE, 100.0, Verdict.MET),
        (RATE, 100.1, Verdict.MET_BY_CPU_TIME),
        (RATE, 200.1, Verdict.NOT_MET),
        (RATE, None, Verdict.NO_GOAL),
        (TIME, 0.5, Verdict.MET),
        (TIME, 0.49, Verdict.MET_BY_CPU_TIME),
        (TIME, 0.24, Verdict.NOT_MET),
        (SIZE, 4000.0, Verdict.NOT_MET),
        (ABSENT, 2.0, Verdict.NOT_MEASURED),
        (ABSENT, None, Verdict.NOT_MEASURED),
    ],
)
def test_verdicts(figure: Figure, goal: float | None, verdict: Verdict) -> None:
    assert replace(figure, goal=goal).verdict is verdict


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=9),
    st.booleans(),
    st.floats(1e-6, 1e6),
)
def test_a_goal_is_met_exactly_if_one_sample_reaches_it(
    samples: list[float], higher: bool, goal: float
) -> None:
    figure = Figure("f", "engine", "", "s", tuple(samples), (), higher, goal)
    reached = any(sample >= goal if higher else sample <= goal for sample in samples)
    assert (figure.verdict is Verdict.MET) == reached
    assert figure.best in samples
    assert figure.median is not None
    assert min(samples) <= figure.median <= max(samples)


def test_json_gives_every_figure_back() -> None:
    document = json.loads(report_json(REPORT, "1.2.3"))
    names = {field.name for field in fields(Figure)}
    restored = []
    for record in document["figures"]:
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
        restored.append(Figure(**{key: value for key, value in values.items() if key in names}))
    assert tuple(restored) == REPORT.figures
    assert document["slubviz"] == "1.2.3"
    assert document["host"] == REPORT.host
    assert document["request"]["cpus"] == [1, 8]
    assert document["request"]["work"]["total_ops"]["D"][0] == [1, 1_600_000]
    assert [record["verdict"] for record in document["figures"]] == [
        "met",
        "by CPU time only",
        "",
        "not measured",
    ]
    assert (document["figures"][0]["minimum"], document["figures"][0]["maximum"]) == (25.0, 100.0)
    assert document["figures"][3]["best"] is None


def test_csv_has_a_row_per_figure() -> None:
    rows = list(csv.DictReader(io.StringIO(report_csv(REPORT).decode())))
    assert list(rows[0]) == list(CSV_COLUMNS)
    assert [row["name"] for row in rows] == ["r", "t", "s", "a"]
    rate, _, size, absent = rows
    assert rate["detail"] == "what, ran"
    assert [rate[key] for key in ("unit", "best", "median", "minimum", "maximum", "samples", "count")] == [
        "micro-ops/s",
        "100.0",
        "50.0",
        "25.0",
        "100.0",
        "3",
        "100",
    ]
    assert (size["best"], size["best_by_cpu_time"]) == ("4096.0", "")
    assert (absent["best"], absent["samples"], absent["reason"]) == ("", "0", "Qt is not installed")


@pytest.mark.parametrize("work", [FULL_WORK, QUICK_WORK])
def test_the_work_is_shared_out_among_the_cpus(work: object) -> None:
    assert isinstance(work, type(FULL_WORK))
    for test, rows in work.total_ops.items():
        limits = [cpus for cpus, _ in rows]
        assert limits == sorted(limits)
        for cpus, total in rows:
            assert work.ops_per_cpu(test, cpus) * cpus <= total
            assert work.ops_per_cpu(test, cpus) >= 1


def test_more_cpus_than_any_row_take_the_last_one() -> None:
    work = replace(FULL_WORK, total_ops={"D": ((1, 100), (8, 80))})
    assert [work.ops_per_cpu("D", cpus) for cpus in (1, 2, 8, 16, 1000)] == [100, 40, 10, 5, 1]


def test_the_default_request_measures_everything() -> None:
    assert BenchRequest().groups == tuple(GROUPS)
    assert BenchRequest().cpus == (1, 8, 64, 1024)
