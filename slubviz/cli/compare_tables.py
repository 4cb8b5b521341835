"""The tables of ``slubviz compare`` and the live view while it runs.

Into a file or pipe they are plain text, the same bytes for the same comparison.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from slubviz.model.compare import ComparedCell, Comparison
from slubviz.model.compare_redos import RedoComparison
from slubviz.model.compare_summary import (
    ErrorStatistics,
    SummaryLine,
    VerdictRow,
    goal_results,
    statistics_of,
    summarise,
    verdict_rows,
    winner_agreement,
)
from slubviz.model.compare_table import ALL_POINTS, PUBLISHED_OPS
from slubviz.model.results import one_decimal, signed_percent

#: A row of four kernels; wider than most terminals' 80, and never cut.
_WIDTH = 160
_SMALL_CYCLES = 1000.0
_REACHED = {True: "reached", False: "not reached", None: "not all was run"}


def print_comparison(comparison: Comparison) -> None:
    """Print every table: cells, errors, verdicts, goals, and what was left out."""
    console = Console(file=sys.stdout, width=_WIDTH, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        for machine in comparison.machines:
            _print_machine(console, comparison, machine)
        if comparison.redos:
            _print_redos(console, comparison.redos)
        _print_goals(console, comparison)
        for note in comparison.skipped:
            console.print(f"left out: {note.cells} cells, because {note.reason}")
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    sys.stdout.write(text + "\n")


def _print_machine(console: Console, comparison: Comparison, machine: str) -> None:
    request = comparison.request
    seeds = ", ".join(map(str, request.seeds))
    console.print(f"machine {machine}, {request.ops} operations per CPU, seed {seeds}")
    if request.ops != PUBLISHED_OPS:
        console.print(f"(the published values were measured with {PUBLISHED_OPS} operations per CPU)")
    verdicts = {(row.test, row.point): row for row in verdict_rows(comparison) if row.machine == machine}
    cells = comparison.of_machine(machine)
    for test, operation in dict.fromkeys((cell.key.test, cell.key.operation) for cell in cells):
        own = [cell for cell in cells if (cell.key.test, cell.key.operation) == (test, operation)]
        console.print(f"\ntest {test}, {operation}: cycles simulated and published, error in percent")
        console.print(
            _cell_table(own, {point: row for (name, point), row in verdicts.items() if name == test})
        )
        if any(cell.published_low != cell.published_high for cell in own):
            console.print(_range_note(own))
    console.print("\nabsolute error: median / 90th percentile, and bias, in percent")
    console.print(_error_table(summarise(comparison), machine))
    if verdicts:
        console.print(_agreement_line(list(verdicts.values())))
    console.print()


def _range_note(cells: Sequence[ComparedCell]) -> str:
    spans = ", ".join(f"{c.key.kernel} {c.points_low:.0f}-{c.points_high:.0f}" for c in cells)
    return (
        "published for all sizes at once; simulated: the median of the sizes served from slab caches, "
        f"which range over\n{spans}"
    )


def _cell_table(cells: Sequence[ComparedCell], verdicts: dict[int, VerdictRow]) -> Table:
    kernels = list(dict.fromkeys(cell.key.kernel for cell in cells))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("\npoint" if cells[0].key.test == "bulk" else "\nsize", justify="right", no_wrap=True)
    for kernel in kernels:
        for title in (f"{kernel}\nsim.", "\npubl.", "\nerr."):
            table.add_column(title, justify="right", no_wrap=True)
    if verdicts:
        table.add_column("verdict\nauthor", no_wrap=True)
        table.add_column("\nours", no_wrap=True)
    places = {(cell.key.point, cell.key.kernel): cell for cell in cells}
    for point in dict.fromkeys(cell.key.point for cell in cells):
        row = ["all" if point == ALL_POINTS else str(point)]
        for kernel in kernels:
            row += _cell_texts(places.get((point, kernel)))
        if verdicts:
            verdict = verdicts.get(point)
            row += [verdict.author, _our_text(verdict)] if verdict else ["", ""]
        table.add_row(*row)
    return table


def _cell_texts(cell: ComparedCell | None) -> list[str]:
    if cell is None:
        return ["", "", ""]
    spread = f" ±{_cycles(cell.sd)}" if len(cell.samples) > 1 else ""
    return [_cycles(cell.mean) + spread, published_text(cell), signed_percent(cell.error_percent)]


def _our_text(verdict: VerdictRow) -> str:
    return verdict.simulated if verdict.agrees else f"{verdict.simulated}  (!)"


def _cycles(cycles: float) -> str:
    return one_decimal(cycles) if cycles < _SMALL_CYCLES else f"{cycles:.0f}"


def published_text(cell: ComparedCell) -> str:
    """``86`` or ``137-146``."""
    low, high = f"{cell.published_low:g}", f"{cell.published_high:g}"
    return low if low == high else f"{low}-{high}"


def _error_table(lines: Sequence[SummaryLine], machine: str) -> Table:
    own = {(line.test, line.kernel): line.statistics for line in lines if line.machine == machine}
    tests = list(dict.fromkeys(test for test, _ in own))
    kernels = list(dict.fromkeys(kernel for _, kernel in own))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("test", no_wrap=True)
    for kernel in kernels:
        table.add_column(kernel or "all", justify="right", no_wrap=True)
    for test in tests:
        table.add_row(test or "all", *(_statistics_text(own.get((test, kernel))) for kernel in kernels))
    return table


def _statistics_text(found: ErrorStatistics | None) -> str:
    return f"{found.median:.1f} / {found.p90:.1f}  {signed_percent(found.bias):>6}" if found else "-"


def _agreement_line(rows: Sequence[VerdictRow]) -> str:
    found = winner_agreement(rows)
    return (
        f"winner, slab or slub+: as the author has it in {found.right} of the {found.rows} rows in which he "
        f"sees one ({found.percent:.1f} %); with his '=' rows, {found.all_right} of {found.all_rows}.  "
        "(!) marks the others"
    )


def _print_redos(console: Console, redos: RedoComparison) -> None:
    mean, error = redos.difference
    console.print("unfreeze_partials before and after its rewrite: locked redos of hackbench")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("", "before", "after", "change"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    table.add_row(
        f"simulated, mean of {redos.seeds} seeds",
        one_decimal(sum(redos.before) / redos.seeds),
        one_decimal(sum(redos.after) / redos.seeds),
        f"{signed_percent(redos.change_percent)} %",
    )
    table.add_row("smallest and largest", _span(redos.before), _span(redos.after), "")
    table.add_row(
        "published",
        str(redos.published_before),
        str(redos.published_after),
        f"{signed_percent(redos.published_change_percent)} %",
    )
    console.print(table)
    console.print(
        f"after less before: {mean:+.1f}, standard error {error:.1f}; fewer with {redos.fewer} seeds\n"
    )


def _span(numbers: Sequence[int]) -> str:
    return f"{min(numbers)}-{max(numbers)}"


def _print_goals(console: Console, comparison: Comparison) -> None:
    results = goal_results(comparison)
    if not results:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left")
    for name in ("goal", "wanted", "found", "cells", ""):
        table.add_column(name, no_wrap=True, justify="right" if name == "cells" else "left")
    for result in results:
        share = str(result.cells) if result.cells == result.wanted else f"{result.cells} of {result.wanted}"
        table.add_row(result.title, result.goal, result.found, share, _REACHED[result.reached])
    console.print(table)


def live_table(comparison: Comparison) -> Table:
    """Median error so far per machine and kernel (rows) and test (columns), for a terminal."""
    cells = comparison.cells
    tests = list(dict.fromkeys(cell.key.test for cell in cells))
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title="median absolute error so far, %"
    )
    table.add_column("machine", no_wrap=True)
    table.add_column("kernel", no_wrap=True)
    for test in tests:
        table.add_column(test, justify="right", no_wrap=True)
    for machine, kernel in dict.fromkeys((cell.key.machine, cell.key.kernel) for cell in cells):
        row = [machine, kernel]
        for test in tests:
            own = [c for c in cells if (c.key.machine, c.key.kernel, c.key.test) == (machine, kernel, test)]
            found = statistics_of(own)
            row.append(f"{found.median:.1f} ({found.cells})" if found else "")
        table.add_row(*row)
    return table
