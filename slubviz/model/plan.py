"""What a run does, phase by phase: which function runs on which CPU, and what of it is measured.

Tests share a boot as they did in the original module: A and B are the two halves of one test; C, D, E and F
each have their own.  Within a boot the sizes run in ascending order on one machine, so that caches and free
pages are as the size before left them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TESTS: dict[str, str] = {
    "A": "one CPU allocates, keeping the objects",
    "B": "one CPU frees the objects of test A in the same order",
    "C": "one CPU allocates and frees at once",
    "D": "every CPU allocates at the same time",
    "E": "every CPU allocates and frees at once, at the same time",
    "F": "CPUs 1 and up allocate, CPU 0 frees everything",
}
OPERATIONS = {
    "A": "kmalloc",
    "B": "kfree",
    "C": "kmalloc+kfree",
    "D": "kmalloc",
    "E": "kmalloc+kfree",
    "F": "kfree",
}
BOOT_GROUPS = (("A", "B"), ("C",), ("D",), ("E",), ("F",))
#: Smallest of the sizes that the tests run through.
SMALLEST_SIZE = 8
#: Operations of all CPUs together in a warm-up; the published tests have 10,000 on each of 8.
MOST_WARM_UP_OPS = 80_000
#: Tests that need a second CPU.
NEEDS_OTHER_CPUS = ("F",)


@dataclass(frozen=True)
class Start:
    """One function to start on one CPU."""

    cpu: int
    function: str
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Phase:
    """Functions that start together; the phase ends when all have returned."""

    test: str
    operation: str  #: "kmalloc", "kfree", "kmalloc+kfree", "setup" or "cleanup"
    size_bytes: int
    measured: bool
    starts: tuple[Start, ...]
    operations_per_cpu: int  #: measured operations of each starting CPU
    ops: int  #: the divisor of a cell
    kept_after: int = 0  #: objects that the workload holds when the phase has ended

    @property
    def operations_total(self) -> int:
        """Operations of all CPUs."""
        return self.operations_per_cpu * len(self.starts)


def boot_groups(tests: Sequence[str]) -> list[tuple[str, ...]]:
    """The asked tests by the boot that they share."""
    groups = (tuple(test for test in group if test in tests) for group in BOOT_GROUPS)
    return [group for group in groups if group]


def phases_for(tests: tuple[str, ...], size: int, ops: int, cpus: int) -> list[Phase]:
    """The phases of the tests of one boot group at one size."""
    everyone = range(cpus)
    one = (Start(0, "test_alloc", (size, ops)),)
    free_own = (Start(0, "test_free", (0, 1, ops)),)
    if tests[0] in ("A", "B"):
        first = Phase("A", "kmalloc" if "A" in tests else "setup", size, "A" in tests, one, ops, ops, ops)
        second = Phase("B", "kfree" if "B" in tests else "cleanup", size, "B" in tests, free_own, ops, ops)
        return [first, second]
    if tests[0] in ("C", "E"):
        cpu_range = everyone if tests[0] == "E" else range(1)
        starts = tuple(Start(cpu, "test_pairs", (size, ops)) for cpu in cpu_range)
        return [Phase(tests[0], OPERATIONS["C"], size, True, starts, ops, ops)]
    if tests[0] == "D":
        starts = tuple(Start(cpu, "test_alloc", (size, ops)) for cpu in everyone)
        cleanup = tuple(Start(cpu, "test_free", (cpu, cpu + 1, ops)) for cpu in everyone)
        return [
            Phase("D", "kmalloc", size, True, starts, ops, ops, ops * cpus),
            Phase("D", "cleanup", size, False, cleanup, ops, ops),
        ]
    starts = tuple(Start(cpu, "test_alloc", (size, ops)) for cpu in range(1, cpus))
    free_all = (Start(0, "test_free", (1, cpus, ops)),)
    return [
        Phase("F", "setup", size, False, starts, ops, ops, ops * (cpus - 1)),
        Phase("F", "kfree", size, True, free_all, ops * (cpus - 1), ops),
    ]


def size_below(size: int) -> int | None:
    """The size that runs before this one in the full sequence: the next smaller power of two from 8 on."""
    return 1 << (size - 1).bit_length() - 1 if size > SMALLEST_SIZE else None


def warm_up_ops(ops: int, cpus: int) -> int:
    """Operations per CPU of a warm-up: as many as will be measured, within what a tenth of a second runs."""
    return min(ops, max(MOST_WARM_UP_OPS // cpus, 1))


def allocating_cpus(tests: tuple[str, ...], cpus: int) -> int:
    """How many CPUs keep objects at the same time."""
    if tests[0] in ("A", "B"):
        return 1
    if tests[0] in ("C", "E"):
        return 0
    return cpus if tests[0] == "D" else cpus - 1
