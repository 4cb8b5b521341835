"""Errors against published values, the published tables, and the CSV and JSON forms."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.model.published import lookup
from slubviz.model.results import (
    CellResult,
    Progress,
    RunRequest,
    counters_csv,
    error_percent,
    one_decimal,
    results_json,
    runs_csv,
    signed_percent,
    summarise_errors,
    totals,
)

REQUEST = RunRequest("m", ("slub",), ("A",), (8,), 10, 1)
CELL = CellResult(
    machine="m",
    kernel="slub",
    test="A",
    operation="kmalloc",
    size_bytes=8,
    cpus=8,
    ops=10,
    cycles_per_op=86.04,
    cycles_per_op_min_cpu=85.0,
    cycles_per_op_max_cpu=90.26,
    published_low=86.0,
    published_high=86.0,
    error_percent=0.0465,
    counters={"ALLOC_FASTPATH": 9, "ALLOC_SLOWPATH": 1},
    micro_ops=1234,
    simulated_seconds=1e-6,
)


@pytest.mark.parametrize(
    ("cycles", "published", "error"),
    [
        (110.0, (100.0, 100.0), 10.0),
        (80.0, (100.0, 100.0), -20.0),
        (140.0, (137.0, 146.0), 0.0),
        (137.0, (137.0, 146.0), 0.0),
        (146.0, (137.0, 146.0), 0.0),
        (73.0, (146.0, 200.0), -50.0),
        (300.0, (100.0, 200.0), 50.0),
        (5.0, None, None),
    ],
)
def test_error(cycles: float, published: tuple[float, float] | None, error: float | None) -> None:
    assert error_percent(cycles, published) == error


@given(st.floats(0, 1e6), st.floats(1, 1e6), st.floats(0, 1e6))
def test_error_is_zero_exactly_inside_the_range(cycles: float, low: float, width: float) -> None:
    error = error_percent(cycles, (low, low + width))
    assert error is not None
    assert (error == 0) == (low <= cycles <= low + width)
    assert (error < 0) == (cycles < low)


@pytest.mark.parametrize("published", [(2.0, 1.0), (0.0, 1.0), (-1.0, 1.0)])
def test_an_impossible_range_is_refused(published: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="published range"):
        error_percent(1.0, published)


# Spot values read in the mail itself, two per test.
@pytest.mark.parametrize(
    ("machine", "test", "kernel", "size", "published"),
    [
        ("e5345_8p", "A", "slub", 8, (86, 86)),
        ("e5345_8p", "A", "slub-o", 256, (285, 285)),
        ("e5345_8p", "B", "slub+", 16, (132, 132)),
        ("e5345_8p", "C", "slab", 8, (137, 146)),
        ("e5345_8p", "C", "slub+", 96, (68, 72)),
        ("e5345_8p", "E", "slub", 4096, (151, 153)),
        ("ia64_8p_4n", "F", "slub+", 16384, (8013, 8013)),
        ("e5345_8p", "A", "slub", 96, None),
        ("e5345_8p", "A", "SLUB", 8, None),
        ("ia64_8p_4n", "C", "slub-o", 8, None),
        ("my_machine", "A", "slub", 8, None),
    ],
)
def test_published(
    machine: str, test: str, kernel: str, size: int, published: tuple[int, int] | None
) -> None:
    assert lookup(machine, test, kernel, size) == published


def test_runs_csv() -> None:
    unknown = replace(CELL, published_low=None, published_high=None, error_percent=None, kernel='my,"slub')
    assert runs_csv([CELL, unknown]).decode() == (
        "machine,kernel,test,operation,size_bytes,cpus,ops,cycles_per_op,cycles_per_op_min_cpu,"
        "cycles_per_op_max_cpu,published_low,published_high,error_percent\n"
        "m,slub,A,kmalloc,8,8,10,86.0,85.0,90.3,86.0,86.0,+0.0\n"
        'm,"my,""slub",A,kmalloc,8,8,10,86.0,85.0,90.3,,,\n'
    )


def test_counters_csv() -> None:
    assert counters_csv([CELL]).decode() == (
        "machine,kernel,test,size_bytes,counter,value\nm,slub,A,8,ALLOC_FASTPATH,9\nm,slub,A,8,ALLOC_SLOWPATH,1\n"
    )


def test_numbers_never_show_a_negative_zero() -> None:
    assert signed_percent(-0.04) == "+0.0"
    assert signed_percent(-0.06) == "-0.1"
    assert signed_percent(12.34) == "+12.3"
    assert signed_percent(None) == ""
    assert one_decimal(-0.01) == "0.0"
    assert one_decimal(None) == ""


@given(st.lists(st.floats(0, 1e9), max_size=5))
def test_runs_csv_reads_back(values: list[float]) -> None:
    cells = [replace(CELL, cycles_per_op=value) for value in values]
    rows = list(csv.DictReader(io.StringIO(runs_csv(cells).decode())))
    assert [float(row["cycles_per_op"]) for row in rows] == pytest.approx(values, abs=0.051)


def test_json_reads_back() -> None:
    document = json.loads(results_json(REQUEST, [CELL], "9.9"))
    assert document["slubviz"] == "9.9"
    assert document["request"]["ops"] == 10
    assert document["cells"][0]["cycles_per_op"] == 86.04
    assert document["cells"][0]["counters"] == {"ALLOC_FASTPATH": 9, "ALLOC_SLOWPATH": 1}
    assert document["totals"] == {"cells": 1, "micro_ops": 1234, "simulated_seconds": 1e-6}


def test_error_summary_takes_the_median_of_sizes_and_keeps_the_sign_of_the_worst() -> None:
    cells = [
        replace(CELL, size_bytes=size, error_percent=error)
        for size, error in ((8, 1.0), (16, -30.0), (32, 20.0), (64, None))
    ]
    (summary,) = summarise_errors([*cells, replace(CELL, kernel="other", error_percent=None)])
    assert (summary.kernel, summary.test, summary.cells) == ("slub", "A", 3)
    assert summary.median_percent == 20.0
    assert (summary.worst_percent, summary.worst_size_bytes) == (-30.0, 16)


def test_totals() -> None:
    assert totals([CELL, CELL]).micro_ops == 2468
    assert totals([]).cells == 0


def test_progress_is_described_in_words() -> None:
    from slubviz.cli.progress import describe

    assert describe(Progress(0, 3)) == "running"
    assert describe(Progress(1, 3, "slub", "A", 64)) == "slub test A    64 B"
    assert describe(Progress(1, 3, message="compiling")) == "compiling"
