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
    SeedSpread,
    counters_csv,
    error_percent,
    one_decimal,
    over_seeds,
    results_json,
    runs_csv,
    seeds_text,
    signed_percent,
    summarise_errors,
    totals,
)
from slubviz.model.workload_table import BULK_POINTS

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


# Spot values read in the mails of 2007, 2008 and 2015.
@pytest.mark.parametrize(
    ("machine", "test", "kernel", "size", "operation", "objects", "published"),
    [
        ("p4_3ghz_up", "kmalloc-kfree", "slub-2.6.25", 8, "kmalloc", None, 184),
        ("p4_3ghz_up", "kmalloc-kfree", "slub-2.6.25", 16384, "kfree", None, 744),
        ("p4_3ghz_up", "kmalloc-kfree", "slub-seq", 4096, "kmalloc", None, 398),
        ("p4_3ghz_up", "kmalloc-kfree-pairs", "slub-2.6.25", 8, "kmalloc+kfree", None, 310),
        ("p4_3ghz_up", "kmalloc-kfree-pairs", "slub-seq", 1024, "kmalloc+kfree", None, 127),
        ("p4_3ghz_up", "kmalloc-kfree", "slub", 8, "kmalloc", None, None),
        ("p4_3ghz_up", "kmalloc-kfree", "slub-seq", 96, "kmalloc", None, None),
        ("p4_2007", "irq-cmpxchg", "slub-seq", 0, "irq_restore", None, 112),
        ("p4_2007", "irq-cmpxchg", "slab", 0, "irq_save", None, 82),
        ("amd64", "irq-cmpxchg", "slub", 0, "cmpxchg_local", None, 19),
        ("amd64", "irq-cmpxchg", "slub", 0, "irq_save", None, 102),
        ("ia64_8p_4n", "irq-cmpxchg", "slub", 0, "irq_save", None, None),  # an estimate in the mail
        ("i7_4790k", "bulk", "slub-bulk", 256, "alloc+free", 30, 18),
        ("i7_4790k", "bulk", "slub-bulk-fallback", 256, "alloc+free", 250, 102),
        ("i7_4790k", "bulk", "slub-bulk", 256, "alloc+free", 31, None),
        ("i7_4790k", "bulk", "slub-cpu-partial", 256, "alloc+free", 30, None),
    ],
)
def test_published_by_operation_and_objects(
    machine: str,
    test: str,
    kernel: str,
    size: int,
    operation: str,
    objects: int | None,
    published: int | None,
) -> None:
    found = lookup(machine, test, kernel, size, operation=operation, objects=objects)
    assert found == (None if published is None else (published, published))


def test_every_row_of_the_published_files_is_found() -> None:
    sizes = [1 << bit for bit in range(3, 15)]
    kernels = ("slub-2.6.25", "slub-seq")
    found_2008 = [
        lookup("p4_3ghz_up", test, kernel, size, operation=operation)
        for test, operations in (
            ("kmalloc-kfree", ("kmalloc", "kfree")),
            ("kmalloc-kfree-pairs", ("kmalloc+kfree",)),
        )
        for operation in operations
        for kernel in kernels
        for size in sizes
    ]
    assert len(found_2008) == 72
    assert None not in found_2008
    bulk = [
        lookup("i7_4790k", "bulk", kernel, 256, operation="alloc+free", objects=objects)
        for kernel in ("slub-bulk", "slub-bulk-fallback")
        for objects in BULK_POINTS
    ]
    assert len(bulk) == 28
    assert None not in bulk


def test_runs_csv() -> None:
    unknown = replace(CELL, published_low=None, published_high=None, error_percent=None, kernel='my,"slub')
    assert runs_csv([CELL, unknown]).decode() == (
        "machine,kernel,test,operation,size_bytes,cpus,ops,cycles_per_op,cycles_per_op_min_cpu,"
        "cycles_per_op_max_cpu,published_low,published_high,error_percent,objects,seeds,cycles_per_op_sd,"
        "cycles_per_op_min_seed,cycles_per_op_max_seed\n"
        "m,slub,A,kmalloc,8,8,10,86.0,85.0,90.3,86.0,86.0,+0.0,,1,,,\n"
        'm,"my,""slub",A,kmalloc,8,8,10,86.0,85.0,90.3,,,,,1,,,\n'
    )


def test_counters_csv() -> None:
    assert counters_csv([CELL]).decode() == (
        "machine,kernel,test,size_bytes,counter,value,operation,objects,seed\n"
        "m,slub,A,8,ALLOC_FASTPATH,9,kmalloc,,\nm,slub,A,8,ALLOC_SLOWPATH,1,kmalloc,,\n"
    )
    bulk = replace(CELL, test="bulk", objects=32, seed=7, counters={"FREE_SLOWPATH": 2})
    assert counters_csv([bulk]).decode().splitlines()[1:] == ["m,slub,bulk,8,FREE_SLOWPATH,2,kmalloc,32,7"]


def test_numbers_never_show_a_negative_zero() -> None:
    assert signed_percent(-0.04) == "+0.0"
    assert signed_percent(-0.06) == "-0.1"
    assert signed_percent(12.34) == "+12.3"
    assert signed_percent(None) == ""
    assert one_decimal(-0.01) == "0.0"
    assert one_decimal(None) == ""


@given(st.lists(st.floats(0, 1e9), max_size=5))
def test_runs_csv_reads_back(values: list[float]) -> None:
    cells = [replace(CELL, cycles_per_op=value, size_bytes=8 + i) for i, value in enumerate(values)]
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


def test_the_worst_cell_is_named_by_its_point() -> None:
    def worst(**changes: object) -> str:
        return summarise_errors([replace(CELL, **changes)])[0].worst_point  # type: ignore[arg-type]

    assert worst() == "8"
    assert worst(test="bulk", objects=32, size_bytes=256) == "N=32"
    assert worst(test="irq-cmpxchg", operation="irq_save", size_bytes=0) == "irq_save"


# --- several seeds -----------------------------------------------------------------------------------


def test_seeds_become_one_cell_with_mean_and_spread() -> None:
    runs = [
        replace(
            CELL,
            seed=seed,
            cycles_per_op=cycles,
            cycles_per_op_min_cpu=cycles - 2,
            cycles_per_op_max_cpu=cycles + 1,
            counters={"ALLOC_FASTPATH": 9, "ALLOC_SLOWPATH": seed},
        )
        for seed, cycles in ((1, 80.0), (2, 90.0), (4, 100.0))
    ]
    (cell,) = over_seeds(runs)
    assert (cell.cycles_per_op, cell.cycles_per_op_min_cpu, cell.cycles_per_op_max_cpu) == (90.0, 88.0, 91.0)
    assert cell.spread == SeedSpread(3, 80.0, 100.0, 10.0)  # of the sample: sqrt(200 / 2)
    assert cell.error_percent == pytest.approx((90 - 86) / 86 * 100)
    assert cell.counters == {"ALLOC_FASTPATH": 9, "ALLOC_SLOWPATH": 2}  # 7 / 3 rounded
    assert (cell.micro_ops, cell.seed, cell.trace_hash) == (3 * 1234, None, "")
    row = runs_csv(runs).decode().splitlines()[1]
    assert row == "m,slub,A,kmalloc,8,8,10,90.0,88.0,91.0,86.0,86.0,+4.7,,3,10.0,80.0,100.0"
    assert len(counters_csv(runs).splitlines()) == 1 + 3 * 2


def test_cells_of_one_seed_and_different_cells_stay_apart() -> None:
    cells = [CELL, replace(CELL, operation="kfree"), replace(CELL, objects=1), replace(CELL, objects=2)]
    assert over_seeds(cells) == cells


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=8))
def test_the_mean_lies_within_the_spread(values: list[float]) -> None:
    (cell,) = over_seeds([replace(CELL, seed=i, cycles_per_op=value) for i, value in enumerate(values)])
    assert cell.spread is not None
    assert cell.spread.lowest == min(values)
    assert cell.spread.highest == max(values)
    assert min(values) * (1 - 1e-12) <= cell.cycles_per_op <= max(values) * (1 + 1e-12)
    assert 0 <= cell.spread.standard_deviation <= (max(values) - min(values)) * 0.7072


def test_seeds_in_words() -> None:
    def words(*seeds: int) -> str:
        return seeds_text(replace(REQUEST, seed=3, seeds=seeds))

    assert words() == "seed 3"
    assert words(5) == "seed 5"
    assert words(1, 2, 3) == "seeds 1-3"
    assert words(1, 3) == "seeds 1,3"


def test_totals() -> None:
    assert totals([CELL, CELL]).micro_ops == 2468
    assert totals([]).cells == 0


def test_progress_is_described_in_words() -> None:
    from slubviz.cli.progress import describe

    assert describe(Progress(0, 3)) == "running"
    assert describe(Progress(1, 3, "slub", "A", 64)) == "slub test A    64 B"
    assert describe(Progress(1, 3, "slub", "bulk", 256, objects=32)) == "slub test bulk    N=32"
    assert describe(Progress(1, 3, "slub", "irq-cmpxchg", 0)).rstrip() == "slub test irq-cmpxchg"
    assert describe(Progress(1, 3, message="compiling")) == "compiling"
