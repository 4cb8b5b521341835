"""What the worker asks of the model about a recording: moves, stacks, traces, files.

``TravelModel`` is the plain one: it moves by micro-ops and knows nothing more, which is enough for a
recording that has no program behind it.  ``real_travel.RealTravel`` is the one of the application; a test
puts another one in its place.  All methods are called on the worker thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slubviz.model.errors import UserError
from slubviz.views.job import JobSpec, RecordingFactory, RecordingLike
from slubviz.views.travel_view import ProgramView, ScenarioView

if TYPE_CHECKING:
    from slubviz.model.travel.breakpoints import Breakpoint
    from slubviz.model.travel.call_stack import CallStackView
    from slubviz.model.travel.heat import Heat
    from slubviz.model.travel.inspector import Inspection
    from slubviz.model.travel.movements import Move
    from slubviz.model.travel.object_history import ObjectEvent
    from slubviz.model.travel.timeline import Detail, Overview
    from slubviz.model.travel.watch import WatchValue

Stop = threading.Event
Progress = Callable[[float], None]


class Stopped(Exception):
    """What was asked for is not wanted any more."""


@dataclass(frozen=True)
class Found:
    """Where a movement ended."""

    found: bool
    text: str = ""  #: one line


@dataclass(frozen=True)
class Opened:
    """A session file or a scenario, ready to be shown."""

    recording: RecordingLike
    job: JobSpec
    title: str
    note: str = ""  #: what is to be said about it
    breakpoints: tuple[Breakpoint, ...] = ()
    watches: tuple[str, ...] = ()
    scenario: ScenarioView | None = None
    same_run: bool = True  #: it came out as it was when it was kept, or as it must
    cpu: int = 0  #: to be looked at


class TravelModel:
    """Knows nothing of the program; see the module."""

    def move(
        self,
        recording: RecordingLike,
        kind: Move,
        direction: int,
        *,
        cpu: int,
        watched: object | None,
        breakpoints: tuple[Breakpoint, ...],
        stop: Stop,
        progress: Progress,
    ) -> Found:
        """Go to the next or previous place of a kind; the cursor stays if there is none.

        Raises
        ------
        UserError
            If there cannot be such a place, e.g. when nothing is watched.
        Stopped
            When ``stop`` was set; the cursor is where it was.
        """
        match str(kind):
            case "micro_op":
                recording.step() if direction > 0 else recording.step_back()
            case "start":
                self._seek(recording, 0, stop, progress)
            case "end":
                self._seek(recording, recording.end, stop, progress)
            case _:
                raise UserError(f"this run cannot be searched for {kind}")
        return Found(True)

    @staticmethod
    def _seek(recording: RecordingLike, position: int, stop: Stop, progress: Progress) -> None:
        if not recording.seek(position, stop=stop, progress=progress):
            raise Stopped

    def seek_cycle(self, recording: RecordingLike, cycle: float, stop: Stop, progress: Progress) -> None:
        """Go to the first position at which the clock has reached ``cycle``."""
        raise UserError("this run cannot be searched by cycles")

    def may_stop(self, recording: RecordingLike, breakpoints: tuple[Breakpoint, ...]) -> bool:
        """Whether playing has to look out for breakpoints."""
        return False

    def run_to_breakpoint(
        self, recording: RecordingLike, micro_ops: int, breakpoints: tuple[Breakpoint, ...], cpu: int
    ) -> Found:
        """Run forwards up to ``micro_ops`` micro-ops or to the first breakpoint."""
        recording.run(micro_ops)
        return Found(False)

    def cpus(self, recording: RecordingLike) -> int:
        """How many CPUs the machine has."""
        return len(recording.session.snapshot().cpus)

    def program(self, recording: RecordingLike) -> ProgramView:
        """What does not change while a run lasts."""
        return ProgramView()

    def overview(self, recording: RecordingLike) -> Overview | None:
        """The whole branch in coarse steps."""
        return None

    def call_stacks(
        self, recording: RecordingLike, cpus: tuple[int, ...] | None
    ) -> tuple[CallStackView, ...]:
        """The stacks of some CPUs, or of all."""
        return ()

    def watch(self, recording: RecordingLike, texts: tuple[str, ...], cpu: int) -> tuple[WatchValue, ...]:
        """The value of each expression, or what is wrong with it."""
        return ()

    def inspect(
        self, recording: RecordingLike, target: object, history: tuple[ObjectEvent, ...] | None
    ) -> Inspection | None:
        """Facts about something, with what is known of its history.

        Raises
        ------
        UserError
            If it names nothing.
        """
        return None

    def detail(self, recording: RecordingLike, first: int, last: int, stop: Stop) -> Detail | None:
        """Every activity between two positions; the cursor does not move."""
        return None

    def heat(self, recording: RecordingLike, first: int, last: int, stop: Stop) -> Heat | None:
        """Executions and cycles of each line between two positions; the cursor does not move."""
        return None

    def history(
        self, recording: RecordingLike, address: int, stop: Stop, progress: Progress
    ) -> tuple[ObjectEvent, ...]:
        """Allocations and frees of an object; the cursor does not move."""
        return ()

    def breakpoint(self, recording: RecordingLike, number: int, text: str) -> Breakpoint:
        """Read a breakpoint's text.

        Raises
        ------
        UserError
            If it names nothing in the program.
        """
        raise UserError("this run has no program to break in")

    def line_breakpoint(self, recording: RecordingLike, number: int, file: str, line: int) -> Breakpoint:
        """The breakpoint of a source line."""
        return self.breakpoint(recording, number, f"{file}:{line}")

    def open_session(self, path: str, stop: Stop, progress: Progress) -> Opened:
        """Read a session file and go to its cursor.

        Raises
        ------
        UserError
            If the file is damaged or cannot be run.
        """
        raise UserError("session files cannot be opened here")

    def with_kernel(
        self,
        recording: RecordingLike,
        job: JobSpec,
        kernel: str,
        scenario_text: str,
        make: RecordingFactory,
        stop: Stop,
    ) -> RecordingLike:
        """The same run with another kernel, booted; one of a scenario is at its end.

        Parameters
        ----------
        job : what the window shows of the run
        scenario_text : of the scenario that the run came from, or ""

        Raises
        ------
        UserError
            If the kernel cannot run that.
        Stopped
            When ``stop`` was set.
        """
        other = make(replace(job, kernel=kernel))
        other.boot()
        return other

    def save_session(
        self,
        recording: RecordingLike,
        path: str,
        breakpoints: tuple[Breakpoint, ...],
        watches: tuple[str, ...],
        scenario: ScenarioView | None,
    ) -> None:
        """Write a session file, whole or not at all.

        Raises
        ------
        UserError
            If it cannot be written.
        """
        raise UserError("session files cannot be written here")

    def open_scenario(self, name: str, stop: Stop, progress: Progress) -> Opened:
        """Play a scenario through and go to its first step.

        Raises
        ------
        UserError
            If there is no such scenario or its file is wrong.
        """
        raise UserError(f"unknown scenario {name!r}")
