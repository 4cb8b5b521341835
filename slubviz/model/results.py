"""What a run is asked for, what it returns, and how results become CSV and JSON.

A *cell* is one number of the published tables: one machine, kernel, test, operation and point (an object
size, or objects per bulk call).  Its cost is held against the published value as the mail gives it, so a
cell of test F is the time of all frees divided by the operations of one CPU, not by all frees.  A run with
several seeds has each cell once per seed; ``over_seeds`` makes one of them, with its spread.  Leaves out how
a cell is measured: see the runner.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, median, stdev
from typing import Any

from slubviz.model.workload import point_label

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
    "objects",
    "seeds",
    "cycles_per_op_sd",
    "cycles_per_op_min_seed",
    "cycles_per_op_max_seed",
)
COUNTERS_COLUMNS = (
    "machine",
    "kernel",
    "test",
    "size_bytes",
    "counter",
    "value",
    "operation",
    "objects",
    "seed",
)


@dataclass(frozen=True)
class RunRequest:
    """What to run.  Names are as the user gave them; a machine or kernel may be a path."""

    machine: str
    kernels: tuple[str, ...]
    tests: tuple[str, ...]
    sizes: tuple[int, ...] | None  #: bytes; None means those of the test on the machine
    ops: int  #: operations per CPU
    seed: int
    cpus: int | None = None  #: None means the machine's own number
    options: Mapping[str, int] = field(default_factory=dict)  #: overrides of a kernel's or a test's options
    fresh_boot: bool = False  #: boot for every cell instead of running the sizes in one sequence
    jobs: int = 1  #: threads
    check: bool = False  #: check the allocator's invariants at the end of each phase
    objects: tuple[int, ...] | None = None  #: objects per bulk call; None means the published ones
    seeds: tuple[int, ...] = ()  #: run with each of these; empty means just ``seed``

    @property
    def asked_seeds(self) -> tuple[int, ...]:
        """Seeds to run with."""
        return self.seeds or (self.seed,)


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
    objects: int | None = None  #: objects per bulk call

    @property
    def point_label(self) -> str:
        """``64 B``, ``N=32`` or nothing."""
        unit = " B" if self.objects is None and self.size_bytes else ""
        return point_label(self.size_bytes, self.objects) + unit


@dataclass(frozen=True)
class SeedSpread:
    """How a cell varies from seed to seed, in cycles per operation."""

    seeds: int
    lowest: float
    highest: float
    standard_deviation: float  #: of the sample, n - 1


@dataclass(frozen=True)
class CellResult:
    """One measured cell.

    ``cycles_per_op`` is the mean over the measuring CPUs, or for test F the time of all frees divided
    by ``ops``.  ``simulated_seconds`` is how long the cell took on the simulated machine, set-up included.
    With a ``spread`` the cell stands for several seeds: cycles are means, counters means rounded to whole
    numbers, micro-ops and seconds sums.
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
    objects: int | None = None  #: objects per call, in tests of bulk calls
    seed: int | None = None  #: None in a cell that stands for several
    spread: SeedSpread | None = None  #: over the seeds, if there were several

    @property
    def point(self) -> int:
        """What the cells of a test differ in: objects per bulk call, or the object size; 0 if nothing."""
        return self.size_bytes if self.objects is None else self.objects

    @property
    def point_label(self) -> str:
        """The point for a table: ``64``, ``N=32``, or the operation where nothing is swept."""
        return point_label(self.size_bytes, self.objects) or self.operation


@dataclass(frozen=True)
class ErrorSummary:
    """How far the cells of one kernel and test are from the published values."""

    kernel: str
    test: str
    cells: int  #: cells with a published value
    median_percent: float  #: median of the absolute errors
    worst_percent: float  #: largest error by size, with its sign
    worst_size_bytes: int
    worst_point: str = ""  #: as tables name it: ``64``, ``N=32``, ``irq_save``


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
    groups: dict[tuple[str, str], list[tuple[float, CellResult]]] = {}
    for cell in cells:
        if cell.error_percent is not None:
            groups.setdefault((cell.kernel, cell.test), []).append((cell.error_percent, cell))
    summaries = []
    for (kernel, test), errors in groups.items():
        worst, where = max(errors, key=lambda pair: abs(pair[0]))
        middle = median(abs(error) for error, _ in errors)
        summaries.append(
            ErrorSummary(kernel, test, len(errors), middle, worst, where.size_bytes, where.point_label)
        )
    return summaries


def over_seeds(cells: Sequence[CellResult]) -> list[CellResult]:
    """One cell for the runs of each with different seeds, in the order of first appearance.

    Cells of a single seed come back as they are.
    """
    groups: dict[tuple[str, str, str, str, int, int | None], list[CellResult]] = {}
    for cell in cells:
        key = (cell.machine, cell.kernel, cell.test, cell.operation, cell.size_bytes, cell.objects)
        groups.setdefault(key, []).append(cell)
    return [_together(group) if len(group) > 1 else group[0] for group in groups.values()]


def _together(cells: Sequence[CellResult]) -> CellResult:
    cycles = [cell.cycles_per_op for cell in cells]
    mean = fmean(cycles)
    first = cells[0]
    published = None
    if first.published_low is not None and first.published_high is not None:
        published = (first.published_low, first.published_high)
    return replace(
        first,
        cycles_per_op=mean,
        cycles_per_op_min_cpu=fmean(cell.cycles_per_op_min_cpu for cell in cells),
        cycles_per_op_max_cpu=fmean(cell.cycles_per_op_max_cpu for cell in cells),
        error_percent=error_percent(mean, published),
        counters={
            name: round(fmean(cell.counters.get(name, 0) for cell in cells)) for name in first.counters
        },
        micro_ops=sum(cell.micro_ops for cell in cells),
        simulated_seconds=sum(cell.simulated_seconds for cell in cells),
        trace_hash="",
        seed=None,
        spread=SeedSpread(len(cells), min(cycles), max(cycles), stdev(cycles)),
    )


def seeds_text(request: RunRequest) -> str:
    """``seed 3``, or ``seeds 1-30``, or ``seeds 1,5,9``."""
    seeds = request.asked_seeds
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    whole = seeds[-1] - seeds[0] == len(seeds) - 1
    return f"seeds {seeds[0]}-{seeds[-1]}" if whole else f"seeds {','.join(map(str, seeds))}"


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
    """``runs.csv``: one row per cell, the seeds together, columns ``RUNS_COLUMNS``; unknown is empty."""
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
                _number(cell.objects),
                *_spread_fields(cell.spread),
            )
            for cell in over_seeds(cells)
        ),
    )


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _spread_fields(spread: SeedSpread | None) -> tuple[str, str, str, str]:
    """Seeds, standard deviation, lowest and highest."""
    if spread is None:
        return "1", "", "", ""
    return (
        str(spread.seeds),
        one_decimal(spread.standard_deviation),
        one_decimal(spread.lowest),
        one_decimal(spread.highest),
    )


def counters_csv(cells: Sequence[CellResult]) -> bytes:
    """``counters.csv``: one row per cell, seed and counter, columns ``COUNTERS_COLUMNS``."""
    return _csv_bytes(
        COUNTERS_COLUMNS,
        (
            (
                cell.machine,
                cell.kernel,
                cell.test,
                cell.size_bytes,
                name,
                value,
                cell.operation,
                _number(cell.objects),
                _number(cell.seed),
            )
            for cell in cells
            for name, value in cell.counters.items()
        ),
    )


def results_json(request: RunRequest, cells: Sequence[CellResult], version: str) -> bytes:
    """The whole run as JSON: the request, every cell (of each seed) with its counters, totals and errors.

    Same inputs give the same bytes: keys keep their order and floats are rounded to three decimals
    (``simulated_seconds`` to nine).
    """
    document = {
        "slubviz": version,
        "request": asdict(replace(request, options=dict(request.options))),
        "cells": [_rounded(asdict(cell)) for cell in cells],
        "totals": _rounded(asdict(totals(cells))),
        "errors": [_rounded(asdict(summary)) for summary in summarise_errors(over_seeds(cells))],
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
