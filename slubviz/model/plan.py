"""What a run does, phase by phase: which function runs on which CPU, and what of it is measured.

Tests share a boot as they did in the original module: A and B are the two halves of one test; all others
have their own.  Within a boot the points of a test (sizes, or objects per bulk call) run in ascending order
on one machine, so that caches and free pages are as the point before left them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slubviz.model.errors import RequestError
from slubviz.model.workload import Parameter, Phase, Setting, Start, Sweep, Workload
from slubviz.model.workload_table import MOST_BULK_OBJECTS, SMALLEST_SIZE, WORKLOADS

__all__ = [
    "TESTS",
    "WORKLOADS",
    "Phase",
    "Setting",
    "Start",
    "Sweep",
    "Workload",
    "boot_groups",
    "check_objects",
    "parameters_of",
    "phases_for",
    "point_below",
    "points_for",
    "size_below",
    "takes_sizes",
    "warm_up_ops",
]

TESTS: dict[str, str] = {name: workload.title for name, workload in WORKLOADS.items()}
#: Operations of all CPUs together in a warm-up; the published tests have 10,000 on each of 8.
MOST_WARM_UP_OPS = 80_000


def boot_groups(tests: Sequence[str]) -> list[tuple[str, ...]]:
    """The asked tests by the boot that they share, in the order of the table."""
    groups: dict[str, list[str]] = {}
    for name, workload in WORKLOADS.items():
        if name in tests:
            groups.setdefault(workload.boot, []).append(name)
    return [tuple(group) for group in groups.values()]


def takes_sizes(test: str) -> bool:
    """Whether a known test's cells differ in the object size."""
    return test in WORKLOADS and WORKLOADS[test].sweep == Sweep.SIZE


def phases_for(tests: Sequence[str], point: int, setting: Setting) -> list[Phase]:
    """The phases of the tests of one boot at one point.

    Parameters
    ----------
    tests : names that share a boot
    point : object size in bytes, objects per bulk call, or ``NO_POINT``
    setting : operations, CPUs, seed and the value of every parameter
    """
    return WORKLOADS[tests[0]].phases(tests, point, setting)


def points_for(
    workload: Workload, page_size_bytes: int, sizes: Sequence[int] | None, objects: Sequence[int] | None
) -> tuple[int, ...]:
    """The points to run: the given ones of the workload's kind, else its own."""
    if workload.sweep == Sweep.SIZE and sizes is not None:
        return tuple(sizes)
    if workload.sweep == Sweep.OBJECTS and objects:
        return tuple(objects)
    return workload.points(page_size_bytes)


def parameters_of(workload: Workload, given: Mapping[str, int]) -> dict[str, int]:
    """The value of every parameter of a workload: the given one, else its default.

    Raises
    ------
    RequestError
        If a given one is out of range.
    """
    return {parameter.name: _checked(workload, parameter, given) for parameter in workload.parameters}


def _checked(workload: Workload, parameter: Parameter, given: Mapping[str, int]) -> int:
    value = given.get(parameter.name, parameter.default)
    if not parameter.lowest <= value <= parameter.highest:
        raise RequestError(
            f"{parameter.name}={value} of test {workload.name} must be from {parameter.lowest} "
            f"to {parameter.highest}"
        )
    return value


def check_objects(objects: Iterable[int]) -> None:
    """Raise RequestError for a number of objects that no bulk call takes."""
    for count in objects:
        if not 1 <= count <= MOST_BULK_OBJECTS:
            raise RequestError(
                f"{count} objects per call is out of range: bulk calls take 1 to {MOST_BULK_OBJECTS}"
            )


def size_below(size: int) -> int | None:
    """The size that runs before this one in the full sequence: the next smaller power of two from 8 on."""
    return 1 << (size - 1).bit_length() - 1 if size > SMALLEST_SIZE else None


def point_below(workload: Workload, point: int) -> int | None:
    """The point to warm up with; None where nothing runs before, or a point does not depend on it."""
    return size_below(point) if workload.sweep == Sweep.SIZE else None


def warm_up_ops(ops: int, cpus: int) -> int:
    """Operations per CPU of a warm-up: as many as will be measured, within what a tenth of a second runs."""
    return min(ops, max(MOST_WARM_UP_OPS // cpus, 1))
