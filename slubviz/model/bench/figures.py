"""What the benchmark is asked for, what it gives, and how that becomes JSON and CSV.

A *figure* is one quantity measured several times, in base units (seconds, bytes, micro-ops per second).
Each sample is taken twice: by the wall clock, which is what a user waits for and what the goals mean, and by
the CPU time of the process, which other programs on a busy computer disturb less.  Leaves out any judgement
of noise beyond median, minimum and maximum.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

#: Groups in the order in which they run, with what they measure.
GROUPS: Mapping[str, str] = {
    "engine": "micro-ops per second, tests D and E, whole cost model on",
    "simpy": "SimPy executing bare timeouts, one process per CPU, for comparison",
    "matrix": "time of tests A to F at all sizes, one kernel, one core",
    "session": "time of boot, single step, state copy, snapshot",
    "compile": "time to compile the engine and a kernel",
    "window": "time from start to the first frame of the window",
    "time-travel": "cost of recording, seeks, steps back and scrubbing in a long run",
}
DEFAULT_CPUS = (1, 8, 64, 1024)
CSV_COLUMNS = (
    "name",
    "group",
    "unit",
    "best",
    "median",
    "minimum",
    "maximum",
    "samples",
    "count",
    "best_by_cpu_time",
    "goal",
    "verdict",
    "reason",
    "detail",
)


class Verdict(StrEnum):
    """A figure against its goal."""

    MET = "met"
    NOT_MET = "not met"
    MET_BY_CPU_TIME = "by CPU time only"
    NOT_MEASURED = "not measured"
    NO_GOAL = ""


@dataclass(frozen=True)
class Timing:
    """How long something took: for whoever waits, and for this process alone."""

    wall_seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Figure:
    """One measured quantity.

    Attributes
    ----------
    name : str
        Stable name for programs, unique in a report.
    group : str
        Key of ``GROUPS``.
    title : str
        What a person reads.
    unit : str
        ``"micro-ops/s"``, ``"timeouts/s"``, ``"s"``, ``"bytes"``, ``"pictures/s"`` or ``"percent"``;
        always a base unit.
    samples : tuple of float
        By the wall clock, in the order in which they were taken; empty if not measured.
    cpu_time_samples : tuple of float
        The same by CPU time; empty for a size.
    higher_is_better : bool
        True for a rate, False for a time or a size.
    goal : float or None
        The least rate or the longest time that is wanted.
    detail : str
        What ran.
    reason : str
        Why it was not measured; empty if it was.
    count : int
        How many things (micro-ops, steps, copies) each sample covers.
    """

    name: str
    group: str
    title: str
    unit: str
    samples: tuple[float, ...] = ()
    cpu_time_samples: tuple[float, ...] = ()
    higher_is_better: bool = False
    goal: float | None = None
    detail: str = ""
    reason: str = ""
    count: int = 1

    def _best_of(self, samples: Sequence[float]) -> float | None:
        if not samples:
            return None
        return max(samples) if self.higher_is_better else min(samples)

    @property
    def best(self) -> float | None:
        """Best sample by the wall clock."""
        return self._best_of(self.samples)

    @property
    def best_by_cpu_time(self) -> float | None:
        """Best sample by CPU time."""
        return self._best_of(self.cpu_time_samples)

    @property
    def median(self) -> float | None:
        """Median by the wall clock."""
        return median(self.samples) if self.samples else None

    def _reaches_goal(self, value: float | None) -> bool:
        if value is None or self.goal is None:
            return False
        return value >= self.goal if self.higher_is_better else value <= self.goal

    @property
    def verdict(self) -> Verdict:
        """The best sample against the goal."""
        if not self.samples:
            return Verdict.NOT_MEASURED
        if self.goal is None:
            return Verdict.NO_GOAL
        if self._reaches_goal(self.best):
            return Verdict.MET
        return Verdict.MET_BY_CPU_TIME if self._reaches_goal(self.best_by_cpu_time) else Verdict.NOT_MET


def rate_figure(
    name: str,
    group: str,
    title: str,
    unit: str,
    count: int,
    timings: Sequence[Timing],
    *,
    goal: float | None = None,
    detail: str = "",
) -> Figure:
    """A figure of ``count`` things per second, from the times that they took."""
    return Figure(
        name,
        group,
        title,
        unit,
        tuple(_per_second(count, timing.wall_seconds) for timing in timings),
        tuple(_per_second(count, timing.cpu_seconds) for timing in timings),
        True,
        goal,
        detail,
        count=count,
    )


def time_figure(
    name: str,
    group: str,
    title: str,
    timings: Sequence[Timing],
    *,
    count: int = 1,
    goal: float | None = None,
    detail: str = "",
) -> Figure:
    """A figure in seconds for one of the ``count`` things that each timing covers."""
    return Figure(
        name,
        group,
        title,
        "s",
        tuple(timing.wall_seconds / count for timing in timings),
        tuple(timing.cpu_seconds / count for timing in timings),
        False,
        goal,
        detail,
        count=count,
    )


def _per_second(count: int, seconds: float) -> float:
    # A clock of coarse grain may say that no time passed: such a sample then counts its finest step.
    return count / max(seconds, 1e-9)


@dataclass(frozen=True)
class Work:
    """How much each part of the benchmark does.

    ``total_ops`` maps a test to rows (CPUs, operations of all CPUs together); a machine takes the first row
    that has at least as many CPUs.
    """

    total_ops: Mapping[str, tuple[tuple[int, int], ...]]
    matrix_ops: int
    matrix_sizes: tuple[int, ...] | None  #: bytes; None for the machine's ten sizes
    warm_up_micro_ops: int  #: before stepping, so that slabs and locks exist
    steps: int
    copies: int
    snapshots: int
    session_ops: int  #: operations per CPU of the session that is stepped, copied and shown
    simpy_timeouts: int | None  #: None: as many as test D executes micro-ops
    travel_ops: int = 10_000  #: operations per CPU of the run that is recorded
    travel_seeks: int = 50

    def ops_per_cpu(self, test: str, cpus: int) -> int:
        """Operations of each CPU, at least 1."""
        rows = self.total_ops[test]
        total = next((ops for most, ops in rows if cpus <= most), rows[-1][1])
        return max(1, total // cpus)


#: About three seconds for each case of the engine on a processor of 2024.
FULL_WORK = Work(
    total_ops={
        "D": ((1, 1_600_000), (8, 800_000), (64, 400_000), (4096, 200_000)),
        "E": ((1, 6_000_000), (8, 2_400_000), (64, 1_600_000), (4096, 400_000)),
    },
    matrix_ops=10_000,
    matrix_sizes=None,
    warm_up_micro_ops=50_000,
    steps=20_000,
    copies=20,
    snapshots=20,
    session_ops=10_000,
    simpy_timeouts=1_000_000,
    travel_ops=205_000,
    travel_seeks=200,
)
QUICK_WORK = Work(
    total_ops={
        "D": ((1, 160_000), (8, 80_000), (64, 40_000), (4096, 40_000)),
        "E": ((1, 600_000), (8, 240_000), (64, 160_000), (4096, 80_000)),
    },
    matrix_ops=1_000,
    matrix_sizes=None,
    warm_up_micro_ops=50_000,
    steps=2_000,
    copies=5,
    snapshots=5,
    session_ops=1_000,
    simpy_timeouts=100_000,
)


@dataclass(frozen=True)
class BenchRequest:
    """What to measure."""

    groups: tuple[str, ...] = tuple(GROUPS)
    cpus: tuple[int, ...] = DEFAULT_CPUS
    repeat: int = 3
    quick: bool = False
    machine: str = "e5345_8p"
    kernel: str = "slub"
    work: Work = FULL_WORK


@dataclass(frozen=True)
class Report:
    """Everything that one benchmark gave."""

    request: BenchRequest
    host: Mapping[str, str | int | float | None]
    figures: tuple[Figure, ...] = field(default_factory=tuple)


def report_json(report: Report, version: str) -> bytes:
    """The report as JSON: base units, every sample, the verdict of each figure."""
    document = {
        "slubviz": version,
        "host": dict(report.host),
        "request": _plain_request(report.request),
        "figures": [_record(figure) for figure in report.figures],
    }
    return (json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode("utf-8")


def _plain_request(request: BenchRequest) -> dict[str, Any]:
    record = asdict(request)
    record["work"]["total_ops"] = {test: list(rows) for test, rows in request.work.total_ops.items()}
    return record


def _record(figure: Figure) -> dict[str, Any]:
    return {
        **asdict(figure),
        "best": figure.best,
        "median": figure.median,
        "minimum": min(figure.samples, default=None),
        "maximum": max(figure.samples, default=None),
        "best_by_cpu_time": figure.best_by_cpu_time,
        "verdict": figure.verdict.value,
    }


def report_csv(report: Report) -> bytes:
    """The report as CSV: one row per figure, base units; unknown values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for figure in report.figures:
        writer.writerow({**_record(figure), "samples": len(figure.samples)})
    return text.getvalue().encode("utf-8")
