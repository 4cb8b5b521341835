"""Published cells and how to run each of them.

Interface: ``PublishedCell``, ``published_cells``, ``boots_for``, ``simulated_values``.  A *published cell*
is one number (or one range) of the mails' tables.  A *boot* is what runs it: a kernel with the tests that
share a boot, over all points in one ascending sequence, because a point depends on what ran before it.

Tests C and E were published as one range for all sizes.  Their simulated value is the median over the sizes
that the kernel serves from slab caches; where larger ones go to the page allocator, the mail sets them
apart itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import median

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.families import family_of
from slubviz.model.kernels import KERNELS, load_kernel
from slubviz.model.plan import TESTS, WORKLOADS, Sweep, boot_groups
from slubviz.model.published import published_table
from slubviz.model.requests import SessionSpec, session_job
from slubviz.model.results import CellResult

#: The point of a cell that holds for all sizes.
ALL_POINTS = 0
#: Operations per CPU of the published tests A to F.
PUBLISHED_OPS = 10_000


@dataclass(frozen=True, order=True)
class CellKey:
    """Names one number: what was measured, where, on which kernel."""

    machine: str
    kernel: str
    test: str
    operation: str
    point: int  #: bytes, or objects of a bulk; ``ALL_POINTS`` for one number that stands for all


@dataclass(frozen=True)
class PublishedCell:
    """One published number in cycles; ``low`` and ``high`` differ where a range was published."""

    key: CellKey
    low: float
    high: float


@dataclass(frozen=True)
class Boot:
    """One session that gives some of the cells."""

    kernel: str
    tests: tuple[str, ...]
    points: tuple[int, ...]
    seed: int = 1
    ops: int = PUBLISHED_OPS
    work: int = 0  #: operations in all its phases: how long it takes, roughly
    options: tuple[tuple[str, int], ...] = ()  #: of the kernel

    @property
    def measured_cells(self) -> int:
        """Numbers that it measures."""
        per_point = sum(len(WORKLOADS[test].operations) for test in self.tests)
        return per_point * max(len(self.points), 1)

    def session_spec(self, machine: str) -> SessionSpec:
        """The session to run."""
        return SessionSpec(
            machine=machine,
            kernel=self.kernel,
            test=self.tests[0],
            sizes=self.points if WORKLOADS[self.tests[0]].sweep == Sweep.SIZE else (),
            objects=self.points if WORKLOADS[self.tests[0]].sweep == Sweep.OBJECTS else (),
            ops=self.ops,
            seed=self.seed,
            options=dict(self.options),
            warm_up=True,
            tests=self.tests,
        )


@dataclass(frozen=True)
class Skipped:
    """Published cells that cannot be run here, and why."""

    reason: str
    cells: int = 0
    keys: tuple[CellKey, ...] = field(default=(), repr=False)


@cache
def published_cells() -> tuple[PublishedCell, ...]:
    """Every published number in cycles, table by table.  One that holds for any kernel is run on SLUB."""
    return tuple(
        PublishedCell(
            CellKey(machine, kernel or "slub", test, operation or WORKLOADS[test].operations[0], point),
            low,
            high,
        )
        for (machine, test, kernel, operation, point), (low, high) in published_table().items()
    )


def published_machines() -> list[str]:
    """Names of the machines for which something is published, in the order of the tables."""
    return list(dict.fromkeys(cell.key.machine for cell in published_cells()))


def split_runnable(
    cells: Iterable[PublishedCell], machines: Container[str]
) -> tuple[list[PublishedCell], list[Skipped]]:
    """The cells that can be run here, and notes on the others.

    Parameters
    ----------
    cells
        Published cells.
    machines
        Names of the machines that are there.
    """
    runnable: list[PublishedCell] = []
    missing: dict[str, list[CellKey]] = {}
    for cell in cells:
        reason = _missing(cell.key, machines)
        if reason:
            missing.setdefault(reason, []).append(cell.key)
        else:
            runnable.append(cell)
    return runnable, [Skipped(reason, len(keys), tuple(keys)) for reason, keys in missing.items()]


def _missing(key: CellKey, machines: Container[str]) -> str:
    if key.machine not in machines:
        return f"there is no machine {key.machine}"
    if key.kernel not in KERNELS:
        return f"there is no kernel {key.kernel}"
    return "" if key.test in TESTS else f"there is no test {key.test}"


def boots_for(cells: Sequence[PublishedCell], machine: MachineSpec, seed: int, ops: int) -> list[Boot]:
    """The boots that give all of ``cells``, the longest first.

    Every boot runs each test of its group that is asked for, over all points that any of these cells names.
    A cell that stands for all points takes those of the workload.
    """
    boots = []
    for kernel in dict.fromkeys(cell.key.kernel for cell in cells):
        own = [cell.key for cell in cells if cell.key.kernel == kernel]
        for tests in boot_groups([key.test for key in own]):
            keys = [key for key in own if key.test in tests]
            named = {key.point for key in keys if key.point != ALL_POINTS}
            points = tuple(sorted(named)) or WORKLOADS[tests[0]].points(machine.page_size_bytes)
            boot = Boot(kernel, tests, points, seed, ops)
            phases = session_job(boot.session_spec(machine.name), machine).phases
            boots.append(replace(boot, work=sum(phase.operations_total for phase in phases)))
    return sorted(boots, key=lambda boot: -boot.work)


def simulated_values(
    cells: Sequence[PublishedCell], results: Iterable[CellResult], machine: MachineSpec
) -> dict[CellKey, tuple[float, ...]]:
    """What the simulation gave for each published cell, from the results of one seed.

    Returns
    -------
    dict
        Cycles: one number, or for a cell that stands for all sizes one per size that the kernel serves from a
        slab cache.  Cells without results are left out.
    """
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for result in results:
        points = found.setdefault((result.kernel, result.test, result.operation), {})
        points[result.point] = result.cycles_per_op
    values: dict[CellKey, tuple[float, ...]] = {}
    for cell in cells:
        key = cell.key
        points = found.get((key.kernel, key.test, key.operation), {})
        if key.point in points:
            values[key] = (points[key.point],)
        elif key.point == ALL_POINTS and points:
            values[key] = tuple(
                points[size] for size in sorted(points) if from_slab_cache(key.kernel, size, machine)
            )
    return {key: numbers for key, numbers in values.items() if numbers}


def from_slab_cache(kernel: str, size_bytes: int, machine: MachineSpec) -> bool:
    """Whether a kernel serves a size from a slab cache rather than from the page allocator."""
    return family_of(load_kernel(kernel)).cache_index(size_bytes, machine) is not None


def central(values: Sequence[float]) -> float:
    """The one number that is held against the published one: the median."""
    return float(median(values))
