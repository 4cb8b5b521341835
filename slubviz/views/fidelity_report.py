"""A comparison as tables of text: cells, errors, goals.  Arithmetic and words; no Qt.

The same figures as ``slubviz compare`` prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slubviz.views import numbers
from slubviz.views.progress_plot import range_text, value_text

if TYPE_CHECKING:
    from slubviz.model.compare import ComparedCell, Comparison
    from slubviz.model.compare_redos import RedoComparison
    from slubviz.model.compare_summary import VerdictRow

Row = tuple[str, ...]
ERROR_HEADERS = ("Machine", "Test", "Kernel", "Cells", "Median", "90th percentile", "Bias", "Worst")
GOAL_HEADERS = ("Goal", "Wanted", "Found", "Cells", "Result")
_REACHED = {True: "reached", False: "not reached", None: "not all was run"}
#: The point of a cell that stands for all sizes, as in ``compare_table``; that module is loaded late.
ALL_POINTS = 0
#: Marks a verdict with another winner than the author's.
DISAGREES = "(!)"


@dataclass(frozen=True)
class CellTable:
    """The cells of one test on one machine."""

    machine: str
    test: str
    title: str  #: test and operation
    headers: Row
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Names the table: machine and title."""
        return self.machine, self.title


@dataclass(frozen=True)
class Report:
    """All tables of a comparison."""

    tables: tuple[CellTable, ...] = ()
    errors: tuple[Row, ...] = ()
    goals: tuple[Row, ...] = ()
    headline: str = ""  #: one line on the whole
    #: by machine and title of a test
    medians: Mapping[tuple[str, str], str] = field(default_factory=dict)


def report_of(comparison: Comparison) -> Report:
    """Work out all tables; a comparison that still runs gives what there is so far."""
    from slubviz.model.compare_summary import goal_results, statistics_of, summarise, verdict_rows

    verdicts = verdict_rows(comparison)
    tables = [
        table
        for machine in comparison.machines
        for table in _machine_tables(comparison, machine, [row for row in verdicts if row.machine == machine])
    ]
    if comparison.redos:
        tables.append(_redo_table(comparison.redos))
    errors = [
        (
            line.machine,
            line.test or "all",
            line.kernel or "all",
            numbers.integer(line.statistics.cells),
            _percent(line.statistics.median),
            _percent(line.statistics.p90),
            numbers.signed_percent(line.statistics.bias),
            numbers.signed_percent(line.statistics.worst),
        )
        for line in summarise(comparison)
    ]
    goals = [
        (
            goal.title,
            goal.goal.replace("<=", "≤").replace(">=", "≥"),
            goal.found,
            str(goal.cells) if goal.cells == goal.wanted else f"{goal.cells} of {goal.wanted}",
            _REACHED[goal.reached],
        )
        for goal in goal_results(comparison)
    ]
    goals += [(f"Left out: {note.reason}", "", "", str(note.cells), "") for note in comparison.skipped]
    found = statistics_of(comparison.cells)
    headline = (
        ""
        if found is None
        else f"{found.cells} of {comparison.wanted} cells  ·  median {_percent(found.median)}  ·  "
        f"90th percentile {_percent(found.p90)}  ·  bias {numbers.signed_percent(found.bias)}"
    )
    return Report(tuple(tables), tuple(errors), tuple(goals), headline, _medians(comparison.cells))


def _medians(cells: Sequence[ComparedCell]) -> dict[tuple[str, str], str]:
    from slubviz.model.compare_summary import statistics_of

    groups: dict[tuple[str, str], list[ComparedCell]] = {}
    for cell in cells:
        key = cell.key
        groups.setdefault((key.machine, cell_title(key.test, key.operation)), []).append(cell)
    found = {name: statistics_of(group) for name, group in groups.items()}
    return {
        name: f"median {statistics.median:.0f}{numbers.THIN}%"
        for name, statistics in found.items()
        if statistics
    }


def cell_title(test: str, operation: str) -> str:
    """``A  kmalloc``."""
    return f"{test}  {operation}"


def point_label(test: str, point: int) -> str:
    """A row's name: a size with its unit, objects per bulk call, or ``all``."""
    if point == ALL_POINTS:
        return "all"
    return numbers.point(0, point) if test == "bulk" else numbers.size(point)


def _machine_tables(comparison: Comparison, machine: str, verdicts: Sequence[VerdictRow]) -> list[CellTable]:
    groups: dict[tuple[str, str], list[ComparedCell]] = {}
    for cell in comparison.of_machine(machine):
        groups.setdefault((cell.key.test, cell.key.operation), []).append(cell)
    return [
        _cell_table(machine, test, operation, cells, {v.point: v for v in verdicts if v.test == test})
        for (test, operation), cells in groups.items()
    ]


def _cell_table(
    machine: str,
    test: str,
    operation: str,
    cells: Sequence[ComparedCell],
    verdicts: Mapping[int, VerdictRow],
) -> CellTable:
    kernels = list(dict.fromkeys(cell.key.kernel for cell in cells))
    headers = ["Objects" if test == "bulk" else "Size"]
    if verdicts:
        headers += ["Verdict\nauthor's", "\nours"]
    for kernel in kernels:
        headers += [f"{kernel}\nsimulated", "\npublished", "\nerror"]
    places = {(cell.key.point, cell.key.kernel): cell for cell in cells}
    rows = []
    for point in sorted({cell.key.point for cell in cells}):
        row = [point_label(test, point)]
        if verdicts:
            row += _verdict_texts(verdicts.get(point))
        for kernel in kernels:
            row += _cell_texts(places.get((point, kernel)))
        rows.append(tuple(row))
    return CellTable(
        machine, test, cell_title(test, operation), tuple(headers), tuple(rows), _spread_note(cells)
    )


def _cell_texts(cell: ComparedCell | None) -> list[str]:
    if cell is None:
        return ["", "", ""]
    spread = f" ± {value_text(cell.sd)}" if len(cell.samples) > 1 else ""
    return [
        value_text(cell.mean) + spread,
        range_text(cell.published_low, cell.published_high),
        numbers.signed_percent(cell.error_percent),
    ]


def _verdict_texts(verdict: VerdictRow | None) -> list[str]:
    if verdict is None:
        return ["", ""]
    ours = verdict.simulated
    return [verdict.author, ours if verdict.agrees else f"{ours}  {DISAGREES}"]


def _spread_note(cells: Sequence[ComparedCell]) -> str:
    wide = [cell for cell in cells if cell.key.point == ALL_POINTS and cell.points_low != cell.points_high]
    if not wide:
        return ""
    spans = ", ".join(
        f"{cell.key.kernel} {numbers.integer(cell.points_low)}–{numbers.integer(cell.points_high)}"
        for cell in wide
    )
    return f"Published for all sizes at once; simulated is the median of the sizes, which range over {spans}."


def _redo_table(redos: RedoComparison) -> CellTable:
    from slubviz.model.compare_redos import REDO_MACHINE, REDO_TEST

    seeds = redos.seeds
    rows: tuple[Row, ...] = (
        (
            f"simulated, mean of {numbers.plural(seeds, 'seed')}",
            value_text(sum(redos.before) / seeds),
            value_text(sum(redos.after) / seeds),
            numbers.signed_percent(redos.change_percent),
        ),
        ("smallest and largest", _span(redos.before), _span(redos.after), ""),
        (
            "published",
            numbers.integer(redos.published_before),
            numbers.integer(redos.published_after),
            numbers.signed_percent(redos.published_change_percent),
        ),
    )
    mean, error = redos.difference
    note = f"After less before: {mean:+.1f} ± {error:.1f}; fewer with {numbers.plural(redos.fewer, 'seed')}."
    headers = ("Locked redos", "before", "after", "change")
    return CellTable(REDO_MACHINE, REDO_TEST, cell_title(REDO_TEST, "unfreeze_partials"), headers, rows, note)


def _span(found: Sequence[int]) -> str:
    return range_text(min(found), max(found))


def _percent(value: float) -> str:
    return f"{value:.1f}{numbers.THIN}%"


def duration_text(seconds: float) -> str:
    """About how long: ``10 seconds``, ``2 minutes``."""
    if seconds < 55:
        return numbers.plural(max(5, 5 * round(seconds / 5)), "second")
    return numbers.plural(max(1, round(seconds / 60)), "minute")
