"""The result tables on standard output.

Into a file or pipe they are plain text of a fixed layout, the same bytes for the same run; on a
terminal rich adds colour.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from slubviz.model.results import (
    CellResult,
    RunRequest,
    one_decimal,
    over_seeds,
    seeds_text,
    signed_percent,
    summarise_errors,
    totals,
)

#: Wide enough for every table here; a narrower terminal wraps lines rather than losing digits.
_WIDTH = 160
_LARGE_CYCLES = 1e8
_LARGE_PERCENT = 1e6
#: Operations per CPU of the published tables.
_PUBLISHED_OPS = 10_000
#: Tests in which that matters.
_PER_CPU_TESTS = ("A", "B", "C", "D", "E", "F", "kmalloc-kfree", "kmalloc-kfree-pairs")


def print_results(request: RunRequest, cells: Sequence[CellResult]) -> None:
    """Print the run's cells, its errors against the published values, and its totals."""
    together = over_seeds(cells)
    console = Console(file=sys.stdout, width=_WIDTH, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(_heading(request, cells))
        console.print(_cell_table(together))
        errors = _error_table(together)
        if errors is not None:
            console.print("\nerror against the published values")
            if request.ops != _PUBLISHED_OPS and any(cell.test in _PER_CPU_TESTS for cell in cells):
                console.print(
                    f"(measured with {_PUBLISHED_OPS} operations per CPU; this run has {request.ops})"
                )
            console.print(errors)
        console.print(_totals_line(cells))
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    sys.stdout.write(text + "\n")


def _heading(request: RunRequest, cells: Sequence[CellResult]) -> str:
    machine = cells[0].machine if cells else request.machine
    parts = [f"machine {machine}", f"{request.ops} operations per CPU", seeds_text(request)]
    if request.fresh_boot:
        parts.append("fresh boot for every cell")
    parts += [f"{name}={value}" for name, value in request.options.items()]
    return ", ".join(parts)


def _cell_table(cells: Sequence[CellResult]) -> Table:
    with_objects = any(cell.objects is not None for cell in cells)
    with_spread = any(cell.spread is not None for cell in cells)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("kernel", "test", "operation"):
        table.add_column(name, no_wrap=True)
    names = ["size", "N"] if with_objects else ["size"]
    names += ["CPUs", "cycles/op", "min CPU", "max CPU"]
    names += ["sd", "min seed", "max seed"] if with_spread else []
    for name in (*names, "published", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    for index, cell in enumerate(cells):
        following = cells[index + 1] if index + 1 < len(cells) else None
        table.add_row(
            cell.kernel,
            cell.test,
            cell.operation,
            str(cell.size_bytes) if cell.size_bytes else "-",
            *(["-" if cell.objects is None else str(cell.objects)] if with_objects else []),
            str(cell.cpus),
            _cycles_text(cell.cycles_per_op),
            _cycles_text(cell.cycles_per_op_min_cpu),
            _cycles_text(cell.cycles_per_op_max_cpu),
            *(_spread_texts(cell) if with_spread else []),
            published_text(cell),
            _percent_text(cell.error_percent),
            end_section=following is not None
            and (following.kernel, following.test) != (cell.kernel, cell.test),
        )
    return table


def _spread_texts(cell: CellResult) -> list[str]:
    """Standard deviation, lowest and highest over the seeds."""
    spread = cell.spread
    if spread is None:
        return ["-", "-", "-"]
    return [_cycles_text(value) for value in (spread.standard_deviation, spread.lowest, spread.highest)]


def _cycles_text(cycles: float) -> str:
    """One decimal; very large values, as of thousands of CPUs at one lock, in powers of ten."""
    return one_decimal(cycles) if cycles < _LARGE_CYCLES else f"{cycles:.3e}"


def published_text(cell: CellResult) -> str:
    """The published value as the mail prints it: "86", "137-146", or "-" where there is none."""
    if cell.published_low is None or cell.published_high is None:
        return "-"
    low, high = f"{cell.published_low:g}", f"{cell.published_high:g}"
    return low if low == high else f"{low}-{high}"


def _percent_text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{signed_percent(value)} %" if abs(value) < _LARGE_PERCENT else f"{value:+.1e} %"


def _error_table(cells: Sequence[CellResult]) -> Table | None:
    summaries = summarise_errors(cells)
    if not summaries:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("kernel", "test"):
        table.add_column(name, no_wrap=True)
    swept = {cell.objects is None and cell.size_bytes > 0 for cell in cells if cell.error_percent is not None}
    for name in ("cells", "median", "worst", "at size" if swept == {True} else "at"):
        table.add_column(name, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(
            summary.kernel,
            summary.test,
            str(summary.cells),
            f"{summary.median_percent:.1f} %",
            _percent_text(summary.worst_percent),
            summary.worst_point,
        )
    return table


def _totals_line(cells: Sequence[CellResult]) -> str:
    total = totals(cells)
    cell_word = "cell" if total.cells == 1 else "cells"
    line = f"{total.cells} {cell_word}, {total.micro_ops} micro-ops"
    return f"{line}, {total.simulated_seconds:.6f} simulated seconds" if total.simulated_seconds else line
