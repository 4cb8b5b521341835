"""What a comparison says: errors per test and kernel, verdicts beside the author's, goals reached or not.

Interface: ``summarise``, ``verdict_rows``, ``winner_agreement``, ``goal_results``.  Median and 90th
percentile are of absolute errors in percent (percentiles interpolate linearly).  *Bias* is the geometric
mean of simulated / published, less one: it tells a model that is too slow everywhere from one that
scatters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slubviz.model.compare import ComparedCell, Comparison
from slubviz.model.compare_redos import REDO_SEEDS
from slubviz.model.compare_table import published_cells
from slubviz.model.verdicts import Winner, author_verdicts, verdict_of, winner_of

#: The kernels between which the author's verdict decides.
VERDICT_KERNELS = ("slab", "slub+")
_A_TO_F = ("A", "B", "C", "D", "E", "F")


@dataclass(frozen=True)
class ErrorStatistics:
    """How far some cells are from what was published, in percent."""

    cells: int
    median: float
    p90: float
    bias: float
    worst: float  #: the largest error by size, with its sign


def statistics_of(cells: Sequence[ComparedCell]) -> ErrorStatistics | None:
    """Errors of some cells; None for no cells."""
    if not cells:
        return None
    errors = [cell.error_percent for cell in cells]
    absolute = np.abs(errors)
    # 1 + error/100 is simulated / published, or 1 inside a published range.
    bias = math.exp(float(np.mean(np.log1p(np.array(errors) / 100)))) - 1
    return ErrorStatistics(
        cells=len(cells),
        median=float(np.median(absolute)),
        p90=float(np.percentile(absolute, 90)),
        bias=100 * bias,
        worst=max(errors, key=abs),
    )


@dataclass(frozen=True)
class SummaryLine:
    """Errors of one group of cells; "" stands for all kernels or all tests."""

    machine: str
    test: str
    kernel: str
    statistics: ErrorStatistics


def summarise(comparison: Comparison) -> list[SummaryLine]:
    """Errors per machine: each test on each kernel, each test, each kernel, all; as the tables go."""
    lines = []
    for machine in comparison.machines:
        cells = comparison.of_machine(machine)
        tests = list(dict.fromkeys(cell.key.test for cell in cells))
        kernels = list(dict.fromkeys(cell.key.kernel for cell in cells))
        for test in [*tests, ""]:
            for kernel in [*kernels, ""]:
                group = [c for c in cells if test in ("", c.key.test) and kernel in ("", c.key.kernel)]
                found = statistics_of(group)
                if found is not None:
                    lines.append(SummaryLine(machine, test, kernel, found))
    return lines


# --- verdicts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VerdictRow:
    """One row of the author's tables: his mark, and the rule's from his and from the simulated cycles."""

    machine: str
    test: str
    point: int  #: bytes; 0: all sizes
    author: str
    from_published: str
    simulated: str

    @property
    def winner_seen(self) -> bool:
        """Whether the author sees a winner."""
        return winner_of(self.author) != Winner.NEITHER

    @property
    def agrees(self) -> bool:
        """Whether the simulation has the author's winner."""
        return winner_of(self.simulated) == winner_of(self.author)


def verdict_rows(comparison: Comparison) -> list[VerdictRow]:
    """The rows for which both kernels were simulated, in the order of the author's tables."""
    simulated = {cell.key: cell.mean for cell in comparison.cells}
    published = {cell.key: (cell.low + cell.high) / 2 for cell in published_cells()}
    keys = {(key.machine, key.test, key.point, key.kernel): key for key in published}
    rows = []
    for (machine, test, point), author in author_verdicts().items():
        slab, slub = (keys[machine, test, point, kernel] for kernel in VERDICT_KERNELS)
        if slab in simulated and slub in simulated:
            rows.append(
                VerdictRow(
                    machine=machine,
                    test=test,
                    point=point,
                    author=author,
                    from_published=verdict_of(published[slab], published[slub]),
                    simulated=verdict_of(simulated[slab], simulated[slub]),
                )
            )
    return rows


@dataclass(frozen=True)
class Agreement:
    """In how many rows the simulation has the author's winner."""

    rows: int  #: in which he sees one
    right: int
    all_rows: int
    all_right: int  #: rows without a winner included

    @property
    def percent(self) -> float:
        """Share of the rows with a winner; 0 without rows."""
        return 100 * self.right / self.rows if self.rows else 0.0


def winner_agreement(rows: Iterable[VerdictRow]) -> Agreement:
    """Count the rows in which the winner is right."""
    listed = list(rows)
    seen = [row for row in listed if row.winner_seen]
    return Agreement(
        len(seen), sum(row.agrees for row in seen), len(listed), sum(row.agrees for row in listed)
    )


# --- goals -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GoalResult:
    """One goal and whether it is reached."""

    title: str
    goal: str
    found: str  #: what was found; "" if nothing of it was run
    cells: int  #: cells or rows that were run
    wanted: int  #: that it is about
    reached: bool | None  #: None: not all of it was run


@dataclass(frozen=True)
class _ErrorGoal:
    title: str
    machine: str  #: "" for any
    tests: tuple[str, ...]
    wanted: int
    median: float
    p90: float

    def covers(self, cell: ComparedCell) -> bool:
        return self.machine in ("", cell.key.machine) and cell.key.test in self.tests


_KMALLOC_TESTS = ("kmalloc-kfree", "kmalloc-kfree-pairs")
_GOALS = (
    _ErrorGoal("E5345, tests A to F", "e5345_8p", _A_TO_F, 168, 6, 18),
    _ErrorGoal("IA64, tests A to F", "ia64_8p_4n", _A_TO_F, 150, 8, 22),
    _ErrorGoal("Pentium 4, kmalloc and kfree", "p4_3ghz_up", _KMALLOC_TESTS, 72, 6, 18),
    _ErrorGoal("i7-4790K, bulk", "i7_4790k", ("bulk",), 28, 8, 20),
)
_MICRO_TEST = "irq-cmpxchg"
_MICRO_CELLS, _MICRO_PERCENT = 6, 2.0
_WINNER_ROWS, _WINNER_PERCENT = 92, 95.0


def goal_results(comparison: Comparison) -> list[GoalResult]:
    """Every goal that the comparison touches.  One of which not all was run is neither reached nor missed."""
    results = [_error_goal(goal, comparison) for goal in _GOALS]
    results += [_micro_goal(comparison), _winner_goal(comparison), _redo_goal(comparison)]
    return [result for result in results if result.cells]


def _error_goal(goal: _ErrorGoal, comparison: Comparison) -> GoalResult:
    cells = [cell for cell in comparison.cells if goal.covers(cell)]
    found = statistics_of(cells)
    text = f"median <= {goal.median:g} %, 90th percentile <= {goal.p90:g} %"
    if found is None:
        return GoalResult(goal.title, text, "", 0, goal.wanted, None)
    reached = found.median <= goal.median and found.p90 <= goal.p90
    return _goal_result(
        goal.title, text, f"{found.median:.1f} %, {found.p90:.1f} %", len(cells), goal.wanted, reached
    )


def _micro_goal(comparison: Comparison) -> GoalResult:
    errors = [abs(cell.error_percent) for cell in comparison.cells if cell.key.test == _MICRO_TEST]
    worst = max(errors, default=0.0)
    return _goal_result(
        "irq and cmpxchg micro-test",
        f"every cell within {_MICRO_PERCENT:g} %",
        f"worst {worst:.1f} %",
        len(errors),
        _MICRO_CELLS,
        worst <= _MICRO_PERCENT,
    )


def _winner_goal(comparison: Comparison) -> GoalResult:
    found = winner_agreement(verdict_rows(comparison))
    return _goal_result(
        "the author's winner, SLAB or SLUB+",
        f"right in >= {_WINNER_PERCENT:g} % of the rows with one",
        f"{found.percent:.1f} % ({found.right} of {found.rows})",
        found.all_rows,
        _WINNER_ROWS,
        found.percent >= _WINNER_PERCENT,
    )


def _redo_goal(comparison: Comparison) -> GoalResult:
    redos = comparison.redos
    mean, error = redos.difference if redos else (0.0, 0.0)
    found = f"{mean:+.1f} ± {error:.1f}, fewer with {redos.fewer} seeds" if redos else ""
    return _goal_result(
        "unfreeze_partials rewritten",
        f"fewer locked redos, {len(REDO_SEEDS)} seeds, by two errors",
        found,
        redos.seeds if redos else 0,
        len(REDO_SEEDS),
        mean < -2 * error,
    )


def _goal_result(title: str, goal: str, found: str, cells: int, wanted: int, reached: bool) -> GoalResult:
    return GoalResult(title, goal, found, cells, wanted, reached if cells == wanted else None)
