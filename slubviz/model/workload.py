"""What a workload is: its programs, its swept parameter, its options and what its cells mean.

The known workloads are in ``workload_table``; ``plan`` works with all of them.  Nothing here loads the
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum


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
    operation: str  #: what a cell measures, e.g. "kmalloc"; "setup" or "cleanup" if nothing is measured
    size_bytes: int  #: of an object; 0 if there are none
    measured: bool
    starts: tuple[Start, ...]
    operations_total: int  #: of all CPUs
    ops: int  #: operations per CPU
    kept_after: int = 0  #: objects that the workload holds when the phase has ended
    objects: int | None = None  #: objects per call, in tests of bulk calls
    divisor: float = 0.0  #: what the cycles of a CPU are divided by; ``ops`` unless given

    def __post_init__(self) -> None:
        if not self.divisor:
            object.__setattr__(self, "divisor", float(self.ops))

    @property
    def operations_per_cpu(self) -> float:
        """Mean over the starting CPUs."""
        return self.operations_total / len(self.starts)


class Sweep(IntEnum):
    """What a workload's cells differ in."""

    SIZE = 0  #: the object size in bytes
    OBJECTS = 1  #: objects per bulk call
    NOTHING = 2


#: The point of a workload that sweeps nothing.
NO_POINT = 0


@dataclass(frozen=True)
class Parameter:
    """An option of a workload; the workload's programs see it as a constant of that name."""

    name: str
    default: int
    lowest: int
    highest: int
    text: str


@dataclass(frozen=True)
class Setting:
    """What the phases of a workload depend on beside its point."""

    ops: int  #: operations per CPU
    cpus: int
    seed: int
    parameters: Mapping[str, int] = field(default_factory=dict)  #: every parameter of the workload


@dataclass(frozen=True)
class Demand:
    """Objects that a workload holds at the worst, for the size of the simulated memory."""

    size_bytes: int
    objects: int  #: of each holding CPU
    cpus: int  #: that hold so many at once


PhasesOf = Callable[[Sequence[str], int, Setting], list[Phase]]
DemandOf = Callable[[int, Setting], Demand]


@dataclass(frozen=True)
class Workload:
    """One test that can be asked for.

    ``phases`` gets the asked tests of the boot, the point and the setting; workloads with the same
    ``boot`` share it.
    """

    name: str
    title: str  #: one line for lists
    operations: tuple[str, ...]  #: labels of its cells at one point, in order
    panel: tuple[str, str]  #: title and note of its chart
    phases: PhasesOf
    demand: DemandOf
    boot: str  #: name of the boot that it shares
    sweep: Sweep = Sweep.SIZE
    points: Callable[[int], tuple[int, ...]] = lambda page_size_bytes: (NO_POINT,)  #: what "all" stands for
    files: tuple[str, ...] = ()  #: kernel-language files beside those of tests A to F
    constants: Mapping[str, int] = field(default_factory=dict)  #: predefined in them
    needs: tuple[str, ...] = ()  #: functions of the kernel beside kmalloc and kfree
    cpus: int = 1  #: at least
    parameters: tuple[Parameter, ...] = ()
    once: Callable[[Setting], list[Phase]] = lambda setting: []  #: phases before the first point
    published: str = ""  #: file with the published values


def powers_of_two(lowest: int, highest: int) -> tuple[int, ...]:
    """From ``lowest``, itself one, to ``highest`` at most."""
    return tuple(1 << bit for bit in range(lowest.bit_length() - 1, highest.bit_length()))


def point_label(size_bytes: int, objects: int | None) -> str:
    """``64``, ``N=32``, or nothing for tests that sweep nothing."""
    if objects is not None:
        return f"N={objects}"
    return str(size_bytes) if size_bytes else ""


def mixed(seed: int, index: int) -> int:
    """A fixed hash of two numbers, 64 bits (the finaliser of splitmix64: Steele, Lea, Flood 2014)."""
    mask = 0xFFFFFFFFFFFFFFFF
    z = (seed * 1_000_003 + (index + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)
