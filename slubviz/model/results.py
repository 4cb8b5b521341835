"""What a run is asked for, what it returns, and how results become CSV and JSON.

A *cell* is one number of the published tables: one machine, kernel, test and size.  Its cost is held
against the published value as the mail gives it, so a cell of test F is the time of all frees divided by
the operations of one CPU, not by all frees.  Leaves out how a cell is measured: see the runner.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

RUNS_COLUMNS = (
    "machine",
    "kernel",
    "test",
    "operation",
    "size_bytes",
    "cpus",
    "ops",
    "cycles_per_op",
    "cycles_per_op_min_cpu",
    "cycles_per_op_max_cpu",
    "published_low",
    "published_high",
    "error_percent",
)
COUNTERS_COLUMNS = ("machine", "kernel", "test", "size_bytes", "counter", "value")


@dataclass(frozen=True)
class RunRequest:
    """What to run.  Names are as the user gave them; a machine or kernel may be a path."""

    machine: str
    kernels: tuple[str, ...]
    tests: tuple[str, ...]
    sizes: tuple[int, ...] | None  #: bytes; None means the machine's default sizes
    ops: int  #: operations per CPU
    seed: int
    cpus: int | None = None  #: None means the machine's own number
    options: Mapping[str, int] = field(default_factory=dict)  #: overrides of a kernel's options
    fresh_boot: bool = False  #: boot for every cell instead of running the sizes in one sequence
    jobs: int = 1  #: threads
    check: bool = False  #: check the allocator's invariants at the end of each phase


@dataclass(frozen=True)
class Progress:
    """How far a run is.  Cells that run in parallel report in the order in which they end."""

    done_cells: int
    total_cells: int
    kernel: str = ""
    test: str = ""
    size_bytes: int = 0
    micro_ops: int = 0  #: executed so far in all cells
    message: str = ""  #: shown instead of the cell while it is not empty, e.g. "compiling"


@dataclass(frozen=True)
class CellResult:
    """One measured cell.

    ``cycles_per_op`` is the mean over the measuring CPUs, or for test F the time of all frees divided
    by ``ops``.  ``simulated_seconds`` is how long the cell took on the simulated machine, set-up included.
    """

    machine: str
    kernel: str
    test: str
    operation: str
    size_bytes: int
    cpus: int
    ops: int
    cycles_per_op: float
    cycles_per_op_min_cpu: float
    cycles_per_op_max_cpu: float
    published_low: float | None = None
    published_high: float | None = None
    error_percent: float | None = None
    counters: dict[str, int] = field(default_factory=dict)
    micro_ops: int = 0
    simulated_seconds: float = 0.0
    trace_hash: str = ""  #: of every micro-op since the boot, as 16 hex digits: equal runs have equal hashes


@dataclass(frozen=True)
class ErrorSummary:
    """How far the cells of one kernel and test are from the published values."""

    kernel: str
    test: str
    cells: int  #: cells with a published value
    median_percent: float  #: median of the absolute errors
    worst_percent: float  #: largest error by size, with its sign
    worst_size_bytes: int


def error_percent(cycles_per_op: float, published: tuple[float, float] | None) -> float | None:
    """Signed error against a published value or range.

    Parameters
    ----------
    cycles_per_op
        What the simulation gave.
    published
        ``(low, high)`` in cycles, or None where nothing was published.

    Returns
    -------
    float or None
        0 inside the range, else the distance to its nearest end in percent of that end.

    Raises
    ------
    ValueError
        If the range is empty or not positive.
    """
    if published is None:
        return None
    low, high = published
    if not 0 < low <= high:
        raise ValueError(f"published range {low}..{high} is not positive and ascending")
    nearest = min(max(cycles_per_op, low), high)
    return (cycles_per_op - nearest) / nearest * 100.0


def summarise_errors(cells: Sequence[CellResult]) -> list[ErrorSummary]:
    """Median and worst error per kernel and test, in the order of first appearance."""
    groups: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for cell in cells:
        if cell.error_percent is not None:
            errors = groups.setdefault((cell.kernel, cell.test), [])
            errors.append((cell.error_percent, cell.size_bytes))
    summaries = []
    for (kernel, test), errors in groups.items():
        worst, worst_size = max(errors, key=lambda pair: abs(pair[0]))
        middle = median(abs(error) for error, _ in errors)
        summaries.append(ErrorSummary(kernel, test, len(errors), middle, worst, worst_size))
    return summaries


def one_decimal(value: float | None) -> str:
    """``value`` with one decimal; "" for None.  Never "-0.0"."""
    return "" if value is None else f"{value:z.1f}"


def signed_percent(value: float | None) -> str:
    """``value`` with its sign and one decimal, ``+0.0`` for zero; "" for None."""
    return "" if value is None else f"{value:+z.1f}"


def _csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode("utf-8")


def runs_csv(cells: Sequence[CellResult]) -> bytes:
    """``runs.csv``: one row per cell, columns ``RUNS_COLUMNS``; unknown values are empty."""
    return _csv_bytes(
        RUNS_COLUMNS,
        (
            (
                cell.machine,
                cell.kernel,
                cell.test,
                cell.operation,
                cell.size_bytes,
                cell.cpus,
                cell.ops,
                one_decimal(cell.cycles_per_op),
                one_decimal(cell.cycles_per_op_min_cpu),
                one_decimal(cell.cycles_per_op_max_cpu),
                one_decimal(cell.published_low),
                one_decimal(cell.published_high),
                signed_percent(cell.error_percent),
            )
            for cell in cells
        ),
    )


def counters_csv(cells: Sequence[CellResult]) -> bytes:
    """``counters.csv``: one row per cell and counter, columns ``COUNTERS_COLUMNS``."""
    return _csv_bytes(
        COUNTERS_COLUMNS,
        (
            (cell.machine, cell.kernel, cell.test, cell.size_bytes, name, value)
            for cell in cells
            for name, value in cell.counters.items()
        ),
    )


def results_json(request: RunRequest, cells: Sequence[CellResult], version: str) -> bytes:
    """The whole run as JSON: the request, every cell with its counters, totals and errors.

    Same inputs give the same bytes: keys keep their order and floats are rounded to three decimals
    (``simulated_seconds`` to nine).
    """
    document = {
        "slubviz": version,
        "request": asdict(replace(request, options=dict(request.options))),
        "cells": [_rounded(asdict(cell)) for cell in cells],
        "totals": _rounded(asdict(totals(cells))),
        "errors": [_rounded(asdict(summary)) for summary in summarise_errors(cells)],
    }
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode("utf-8")


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    return {
        key: round(value, 9 if key.endswith("_seconds") else 3) if isinstance(value, float) else value
        for key, value in record.items()
    }


@dataclass(frozen=True)
class Totals:
    """Sums over all cells of a run."""

    cells: int
    micro_ops: int
    simulated_seconds: float


def totals(cells: Sequence[CellResult]) -> Totals:
    """Sums over ``cells``."""
    return Totals(
        cells=len(cells),
        micro_ops=sum(cell.micro_ops for cell in cells),
        simulated_seconds=sum(cell.simulated_seconds for cell in cells),
    )
