"""What the window shows of a recording at one moment; made on the worker thread, never changed.

The parts come from the model (``slubviz.model.travel``) and are handed on as they are.  What takes time
(detail, heat, history) is computed while nothing moves; until then the last one stays, with the branch and
range for which it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slubviz.model.handlers import Handler
    from slubviz.model.scenarios.run import PlayedStep, ScenarioResult
    from slubviz.model.travel.bookmarks import Bookmark
    from slubviz.model.travel.branches import Branch
    from slubviz.model.travel.breakpoints import Breakpoint
    from slubviz.model.travel.call_stack import CallStackView
    from slubviz.model.travel.changes import Change
    from slubviz.model.travel.heat import Heat
    from slubviz.model.travel.inspector import Inspection
    from slubviz.model.travel.object_history import ObjectEvent
    from slubviz.model.travel.timeline import Detail, Overview
    from slubviz.model.travel.watch import WatchValue
    from slubviz.views.compare_view import CompareView


@dataclass(frozen=True)
class Moving:
    """A movement that is under way."""

    text: str
    fraction: float | None = None  #: done so far, 0 to 1; None if nobody knows


@dataclass(frozen=True)
class ProgramView:
    """What is known of the program that runs; the same object for as long as it runs.

    Attributes
    ----------
    sources : mapping of str to tuple of str
        Lines of every file.
    code_lines : mapping of str to frozenset of int
        Lines of each file that have micro-ops, from 1.
    functions : mapping of str to (str, int)
        File and line of each function.
    counters : tuple of str
        Names that a breakpoint can ask for.
    handlers : tuple of Handler
        What an interrupt can run.
    """

    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    code_lines: Mapping[str, frozenset[int]] = field(default_factory=dict)
    functions: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    counters: tuple[str, ...] = ()
    handlers: tuple[Handler, ...] = ()


@dataclass(frozen=True)
class ScenarioView:
    """The scenario that is open."""

    name: str
    title: str
    summary: str
    steps: tuple[PlayedStep, ...]
    step: int  #: the one that is shown, from 0; -1 before the first
    result: ScenarioResult | None = None  #: what it came to, and what was expected
    text: str = field(default="", repr=False)  #: of its file, to be kept in session files

    @property
    def caption(self) -> str:
        """Of the step that is shown; the summary before the first."""
        return self.steps[self.step].caption if 0 <= self.step < len(self.steps) else self.summary


@dataclass(frozen=True)
class HistoryView:
    """Allocations and frees of one object."""

    address: int
    events: tuple[ObjectEvent, ...] = ()
    reading: bool = False  #: more will come
    fraction: float = 0.0


@dataclass(frozen=True)
class TravelView:
    """A recording at its cursor.

    Attributes
    ----------
    position, end : int
        The cursor and the furthest recorded position of its branch, in micro-ops of all CPUs.
    complete : bool
        The run has come to its end there: nothing can be recorded after it.
    direction : int
        +1 or -1 while playing, else 0.
    call_stacks : tuple of CallStackView
        Of the chosen CPU while time runs, of all CPUs when it stands still; find them by ``cpu``.
    detail_branch, heat_branch : int
        Branches for which they hold.
    note : str
        What the last movement found; one line.
    note_serial : int
        Grows with each note.
    opened_serial : int
        Grows with each session file or scenario that is opened.
    path : str
        Of the session file that is open, "" if none.
    unsaved : bool
        There is something in memory only: branches, bookmarks, breakpoints or watches.
    """

    position: int = 0
    end: int = 0
    complete: bool = False
    clock_cycles: float = 0.0
    direction: int = 0
    cpu: int = 0
    branch: Branch | None = None
    branches: tuple[Branch, ...] = ()
    changes: tuple[Change, ...] = ()
    bookmarks: tuple[Bookmark, ...] = ()
    program: ProgramView = field(default_factory=ProgramView)
    overview: Overview | None = None
    detail: Detail | None = None
    detail_branch: int = 0
    call_stacks: tuple[CallStackView, ...] = ()
    heat: Heat | None = None
    heat_branch: int = 0
    breakpoints: tuple[Breakpoint, ...] = ()
    watches: tuple[WatchValue, ...] = ()
    watched: str = ""
    inspection: Inspection | None = None
    history: HistoryView | None = None
    moving: Moving | None = None
    compare: CompareView | None = None
    scenario: ScenarioView | None = None
    note: str = ""
    note_serial: int = 0
    title: str = ""  #: of the session file or scenario
    opened_serial: int = 0
    path: str = ""
    unsaved: bool = False
    memory_bytes: int = 0  #: of the checkpoints

    @property
    def exists(self) -> bool:
        """Whether there is a recording."""
        return self.branch is not None

    def stack_of(self, cpu: int) -> CallStackView | None:
        """The call stack of a CPU, if it is among those computed."""
        return next((stack for stack in self.call_stacks if stack.cpu == cpu), None)
