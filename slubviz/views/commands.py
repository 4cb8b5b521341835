"""What the window can ask of the worker, as frozen dataclasses.

A ``Movement`` goes to another place in time; it takes the place of one that is still under way.  Kinds of
movements are the values of ``slubviz.model.travel.movements.Move``.  Leaves out how anything is done: see
``worker`` and ``traveller``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slubviz.views.job import JobSpec

if TYPE_CHECKING:
    from slubviz.model.travel.changes import What
    from slubviz.model.travel.movements import Move


@dataclass(frozen=True)
class Command:
    """Something the worker is asked to do."""


@dataclass(frozen=True)
class Movement(Command):
    """Ends at another position, or at another run."""


# The run as a whole


@dataclass(frozen=True)
class Load(Movement):
    """Build a session for a job, and run or step it then if asked to."""

    job: JobSpec
    then_run: bool = False
    then_step: bool = False


@dataclass(frozen=True)
class Reset(Movement):
    """Build the same session anew; what was recorded and bookmarked is dropped."""


@dataclass(frozen=True)
class OpenSession(Movement):
    """Read a session file and go to its cursor."""

    path: str


@dataclass(frozen=True)
class OpenScenario(Movement):
    """Play a scenario through and go to its first step."""

    name: str  #: or the path of the user's own file


@dataclass(frozen=True)
class SaveSession(Command):
    """Write a session file."""

    path: str


# Playing


@dataclass(frozen=True)
class Run(Movement):
    """Play forwards; after the end, from the start."""


@dataclass(frozen=True)
class Play(Movement):
    """Play forwards (+1) or backwards (-1)."""

    direction: int


@dataclass(frozen=True)
class Pause(Command):
    """Stop playing, or give up a movement that is under way."""


@dataclass(frozen=True)
class Cancel(Command):
    """Give up a movement that is under way, or what is computed for the picture."""


@dataclass(frozen=True)
class SetRate(Command):
    """Speed of playing; infinity for no limit."""

    micro_ops_per_second: float


@dataclass(frozen=True)
class SetPauseMeasured(Command):
    """Whether to pause before a clean-up that follows the last measured phase."""

    wanted: bool


# Moving


@dataclass(frozen=True)
class Step(Movement):
    """One micro-op forwards."""


@dataclass(frozen=True)
class StepBack(Movement):
    """One micro-op backwards."""


@dataclass(frozen=True)
class MoveBy(Movement):
    """To the next or previous place of a kind."""

    kind: Move
    direction: int = 1  #: +1 or -1


@dataclass(frozen=True)
class Seek(Movement):
    """To a position of the cursor's branch."""

    position: int


@dataclass(frozen=True)
class Scrub(Movement):
    """The same while the pointer is dragged: of many that wait only the newest counts."""

    position: int


@dataclass(frozen=True)
class SeekCycle(Movement):
    """To the first position at which the clock has reached so many cycles."""

    cycle: float


@dataclass(frozen=True)
class SwitchBranch(Movement):
    """To another branch, at a position or as far on as the cursor is now."""

    number: int
    position: int | None = None


@dataclass(frozen=True)
class ScenarioStep(Movement):
    """To the next or previous step of the scenario; or to the step with a number."""

    by: int = 1
    number: int | None = None  #: from 0


# Changing the run


@dataclass(frozen=True)
class Apply(Movement):
    """Change the run at the cursor: an interrupt, an edit.  Makes a branch where a future is recorded."""

    what: What


@dataclass(frozen=True)
class RenameBranch(Command):
    """Another name for a branch."""

    number: int
    name: str


# Bookmarks, breakpoints, watches: kept with the session


@dataclass(frozen=True)
class AddBookmark(Command):
    """At the cursor."""

    name: str
    note: str = ""


@dataclass(frozen=True)
class EditBookmark(Command):
    """Another name and note."""

    name: str
    new_name: str
    note: str | None = None  #: None keeps the one it has


@dataclass(frozen=True)
class RemoveBookmark(Command):
    """Forget one."""

    name: str


@dataclass(frozen=True)
class GoToBookmark(Movement):
    """To its branch and position."""

    branch: int
    position: int


@dataclass(frozen=True)
class AddBreakpoint(Command):
    """From its text, e.g. ``slub.py:120`` or ``function __slab_alloc if cpu == 2``."""

    text: str


@dataclass(frozen=True)
class ToggleBreakpoint(Command):
    """Set a breakpoint on a source line, or take it away."""

    file: str
    line: int


@dataclass(frozen=True)
class EnableBreakpoint(Command):
    """On or off, without forgetting it."""

    number: int
    enabled: bool


@dataclass(frozen=True)
class ChangeBreakpoint(Command):
    """Another text for one."""

    number: int
    text: str


@dataclass(frozen=True)
class RemoveBreakpoint(Command):
    """Forget one; None forgets all."""

    number: int | None


@dataclass(frozen=True)
class SetWatches(Command):
    """The expressions of the watch list."""

    texts: tuple[str, ...]


# What is looked at


@dataclass(frozen=True)
class ChooseCpu(Command):
    """The CPU whose stack is shown and whose events are meant by moves."""

    cpu: int


@dataclass(frozen=True)
class ChooseWatched(Command):
    """What "next change" looks for: an expression of the watch list, or a ``Watched`` of the model."""

    what: object | None


@dataclass(frozen=True)
class Inspect(Command):
    """Show what is known about something; None shows nothing."""

    target: object | None


@dataclass(frozen=True)
class WantDetail(Command):
    """Every activity of a piece of the run, for the timeline."""

    first: int
    last: int


@dataclass(frozen=True)
class WantHeat(Command):
    """How often each line was executed and for how long, or not."""

    wanted: bool


@dataclass(frozen=True)
class WantHistory(Command):
    """Every allocation and free of the object at an address."""

    address: int


# Two runs side by side


@dataclass(frozen=True)
class Compare(Command):
    """About the run that the one at the cursor is held against."""


@dataclass(frozen=True)
class CompareBranch(Compare):
    """Against another branch."""

    number: int


@dataclass(frozen=True)
class CompareKernel(Compare):
    """Against the same job with another kernel, which is recorded for it."""

    kernel: str


@dataclass(frozen=True)
class CompareFile(Compare):
    """Against what a session file holds."""

    path: str


@dataclass(frozen=True)
class CompareBy(Compare):
    """What makes two moments correspond: "micro-op", "operation" or "cycle"."""

    by: str


@dataclass(frozen=True)
class FindParting(Compare):
    """Find where the two runs part for the first time."""


@dataclass(frozen=True)
class CloseCompare(Compare):
    """Compare no more."""
