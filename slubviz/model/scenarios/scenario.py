"""What a scenario says, as plain values; ``files`` reads it, ``run`` plays it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from slubviz.model.errors import UserError
from slubviz.model.scenarios.anchors import Anchor


class ScenarioError(UserError):
    """A scenario file is wrong, or what it says does not happen; names the file and the place in it."""


class OutcomeKind(StrEnum):
    """How a scenario can end, the worst first."""

    FAULT = "fault"  #: the machine stopped the program
    DEADLOCK = "deadlock"  #: nobody can run any more
    BROKEN = "broken"  #: it ran to its end, and an invariant does not hold
    RETRY = "retry"  #: all is well, after a compare-and-exchange that failed
    FINE = "fine"  #: all is well at once


class Focus(StrEnum):
    """What to look at in a step."""

    CPU = "cpu"
    SLAB = "slab"
    LIST = "list"
    LOCK = "lock"


class Relation(StrEnum):
    """How a counter of the run beside compares with the scenario's own."""

    LESS = "less"
    MORE = "more"
    EQUAL = "equal"


@dataclass(frozen=True)
class Edit:
    """A change of the kernel's source."""

    file: str  #: of the kernel, "" for whichever has the text
    find: str  #: must be there exactly once
    replace: str


@dataclass(frozen=True)
class CpuStart:
    """What a CPU does."""

    cpu: int
    function: str
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Strike:
    """An interrupt, or (with ``to_cpu``) the task of a CPU that moves to another one."""

    cpu: int
    at: Anchor
    handler: str
    arguments: tuple[int, ...]
    to_cpu: int | None = None
    place: str = ""  #: of its table in the file


@dataclass(frozen=True)
class Step:
    """A slide."""

    at: Anchor
    cpu: int | None  #: to look at; None for the one that the anchor is met on
    caption: str
    focus: Focus | None
    place: str = ""  #: of its table in the file


@dataclass(frozen=True)
class Expected:
    """How the scenario must end."""

    kind: OutcomeKind
    text: str  #: part of what the checks or the machine say, "" for anything
    counters: Mapping[str, int]  #: counter -> exact value over all CPUs
    explanation: str


@dataclass(frozen=True)
class Beside:
    """Another kernel that does the same, for comparison."""

    title: str
    kernel: str
    options: Mapping[str, int]
    edits: bool  #: whether the scenario's edits are made in it too
    kind: OutcomeKind
    compare: Mapping[str, Relation]  #: counter -> how its value compares with the scenario's own
    explanation: str


@dataclass(frozen=True)
class Scenario:
    """One scenario."""

    name: str
    where: str  #: of the file, for messages
    text: str = field(repr=False)
    title: str = ""
    summary: str = ""
    machine: str = ""
    cpus: int = 1
    kernel: str = ""
    options: Mapping[str, int] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    size_bytes: int = 64  #: of the cache that is shown
    program: str = ""
    program_line: int = 1  #: line of the file on which the program begins
    starts: tuple[CpuStart, ...] = ()
    strikes: tuple[Strike, ...] = ()
    steps: tuple[Step, ...] = ()
    expected: Expected = Expected(OutcomeKind.FINE, "", {}, "")
    beside: tuple[Beside, ...] = ()
    micro_op_limit: int = 0
    seed: int = 1

    def fail(self, place: str, what: str) -> ScenarioError:
        """The complaint about a place in the file."""
        return ScenarioError(f"{self.where}: {place}: {what}" if place else f"{self.where}: {what}")
