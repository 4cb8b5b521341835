"""The tables of ``slubviz calibrate``: plain text, the same bytes for the same fit."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from slubviz.model.calibrate import Calibration
from slubviz.model.calibrate_report import (
    ErrorLine,
    HoldOut,
    correlated_pairs,
    error_lines,
    parameter_lines,
)

_WIDTH = 160
_LARGEST_SHOWN_PERCENT = 300.0


def print_calibration(fit: Calibration, held: Sequence[HoldOut]) -> None:
    """Print parameters, errors before and after, and hold-outs."""
    console = Console(file=sys.stdout, width=_WIDTH, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        solution = fit.solution
        console.print(
            f"machine {fit.machine.name}: {len(fit.names)} parameters fitted to {len(fit.cells)} cells, "
            f"{solution.evaluations} evaluations; ended because {solution.reason}"
        )
        console.print(f"loss {solution.start_loss:.5f} -> {solution.loss:.5f}\n")
        console.print(_parameter_table(fit))
        for first, second, correlation in correlated_pairs(fit):
            console.print(f"hardly told apart: {first} and {second}, correlation {correlation:+.2f}")
        console.print("\nabsolute error in percent: median / 90th percentile")
        console.print(_error_table(error_lines(fit.cells, fit.before, fit.after), ("before", "after")))
        for result in held:
            _print_hold_out(console, result)
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    sys.stdout.write(text + "\n")


def _parameter_table(fit: Calibration) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("parameter", no_wrap=True)
    for name in ("start", "fitted", "plausible range"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("standard error", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for line in parameter_lines(fit):
        large = line.error_percent > _LARGEST_SHOWN_PERCENT
        table.add_row(
            line.name,
            f"{line.start:.4g}",
            f"{line.fitted:.4g}",
            f"{line.low:g} to {line.high:g}",
            line.unit,
            f"> {_LARGEST_SHOWN_PERCENT:.0f} %" if large else f"{line.error_percent:.1f} %",
            line.note,
        )
    return table


def _error_table(lines: Sequence[ErrorLine], titles: tuple[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("cells", *titles):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        name = f"test {line.test}" if line.test else line.kernel or "all"
        table.add_row(
            name,
            str(line.cells),
            f"{line.median_before:.1f} / {line.p90_before:.1f}",
            f"{line.median_after:.1f} / {line.p90_after:.1f}",
        )
    return table


def _print_hold_out(console: Console, result: HoldOut) -> None:
    console.print(
        f"\nhold-out {result.title}, from the middle of the ranges: {result.fitted_cells} cells fitted to "
        f"{result.fitted_median:.1f} / {result.fitted_p90:.1f}, {result.held_cells} predicted within "
        f"{result.held_median:.1f} / {result.held_p90:.1f}"
    )
    console.print(_error_table(result.by_group, ("not fitted", "predicted")))
