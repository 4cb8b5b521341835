"""The thread that owns the session: obeys commands, runs bounded chunks, leaves the latest picture.

One thread makes every call into the session, so the session needs no locks.  Between chunks of
about 8 ms it looks for commands, so Pause and Close are obeyed at once.  What the window shows is
left in a slot that holds only the newest ViewUpdate; the window fetches it when it has time.
Leaves out: cancelling a compile, which runs to its end (the window stays alive meanwhile).
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from slubviz.model.errors import UserError
from slubviz.model.snapshot import PhaseView, Snapshot
from slubviz.views.job import JobSpec, SessionFactory, SessionLike
from slubviz.views.slab_summary import SlabSummary, summarise
from slubviz.views.speed import Pacer

if TYPE_CHECKING:
    from slubviz.model.results import CellResult

#: No more pictures a second than a screen shows.
_PUBLISH_SECONDS = 0.030
#: A picture comes after a run of so many times what the last one took, but not later than the longest.
_RUN_SHARE = 4.0
_LONGEST_PUBLISH_SECONDS = 0.25


class WorkerState(IntEnum):
    """What the worker is doing."""

    EMPTY = 0  #: no session yet
    LOADING = 1  #: the session is being built; may compile
    PAUSED = 2
    RUNNING = 3
    FINISHED = 4
    FAULTED = 5  #: the simulated machine stopped with a fault
    MEASURED = 6  #: paused between the last measured phase and its clean-up


@dataclass(frozen=True)
class Load:
    """Build a session for a job, and run or step it then if asked to."""

    job: JobSpec
    then_run: bool = False
    then_step: bool = False


@dataclass(frozen=True)
class Run:
    pass


@dataclass(frozen=True)
class Pause:
    pass


@dataclass(frozen=True)
class Step:
    pass


@dataclass(frozen=True)
class Reset:
    pass


@dataclass(frozen=True)
class SetRate:
    micro_ops_per_second: float


@dataclass(frozen=True)
class SetPauseMeasured:
    """Whether to pause before a clean-up that follows the last measured phase."""

    wanted: bool


Command = Load | Run | Pause | Step | Reset | SetRate | SetPauseMeasured

#: The states from which Run and Step go on.
_HELD = (WorkerState.PAUSED, WorkerState.MEASURED)


@dataclass(frozen=True)
class ViewUpdate:
    """Everything the widgets show at one moment."""

    state: WorkerState = WorkerState.EMPTY
    job: JobSpec | None = None  #: of the session that is loaded
    snapshot: Snapshot | None = None
    summary: SlabSummary | None = None
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: lines of each file seen
    results: tuple[CellResult, ...] = ()
    micro_ops_per_second: float = 0.0  #: measured while running, else 0
    asked_rate: float = 0.0
    error: str = ""  #: one line; stays until the next command
    error_serial: int = 0  #: grows with each new error


class SessionWorker(threading.Thread):
    """Runs a session; see the module.

    Parameters
    ----------
    make_session : SessionFactory
        Called on this thread for each Load; raises UserError for a bad job.

    Notes
    -----
    The thread is no daemon: a process that ends while a compile runs waits for it, which is better than
    an interpreter that is torn down under a running compiler.
    """

    def __init__(self, make_session: SessionFactory) -> None:
        super().__init__(name="session")
        self._make_session = make_session
        self._condition = threading.Condition()
        self._commands: deque[Command] = deque()
        self._stop_asked = False
        self._slot: ViewUpdate | None = None
        # Below: this thread only.
        self._session: SessionLike | None = None
        self._job: JobSpec | None = None
        self._state = WorkerState.EMPTY
        self._pacer = Pacer()
        self._pause_measured = True
        self._sources: dict[str, tuple[str, ...]] = {}
        self._last_snapshot: Snapshot | None = None
        self._last_summary: SlabSummary | None = None
        self._last_published = 0.0
        self._publish_took = 0.0
        self._meter = _RateMeter()
        self._error = ""
        self._error_serial = 0

    # Interface: any thread

    def send(self, command: Command) -> None:
        """Queue a command."""
        with self._condition:
            self._commands.append(command)
            self._condition.notify()

    def take(self) -> ViewUpdate | None:
        """The newest update, once; None if there is none that was not taken already."""
        with self._condition:
            update, self._slot = self._slot, None
            return update

    def stop(self) -> None:
        """Ask the thread to end after the chunk that runs; does not wait."""
        with self._condition:
            self._stop_asked = True
            self._condition.notify()

    # The thread

    def run(self) -> None:
        while True:
            command = self._next_command()
            if self._stop_asked:
                return
            try:
                if command is not None:
                    self._obey(command)
                elif self._state is WorkerState.RUNNING:
                    self._run_chunk()
            except UserError as error:
                self._fail(str(error))
            except Exception as error:  # the window must outlive a defect in the simulation
                traceback.print_exc()
                self._fail(
                    f"Internal error in the simulation: {type(error).__name__}: {error}".split("\n")[0]
                )

    def _next_command(self) -> Command | None:
        with self._condition:
            if not self._commands and not self._stop_asked:
                if self._state is not WorkerState.RUNNING:
                    self._condition.wait()
                elif not self._runs_now():
                    self._condition.wait(self._pacer.wait_seconds())
            return self._commands.popleft() if self._commands else None

    def _runs_now(self) -> bool:
        return self._pacer.wait_seconds() == 0.0

    def _obey(self, command: Command) -> None:
        if not isinstance(command, SetRate | SetPauseMeasured):
            self._error = ""
        match command:
            case Load():
                if not self._newer_load_waits():
                    self._load(command)
                return
            case SetRate(rate):
                self._pacer.set_rate(rate)
                self._meter.restart()
            case SetPauseMeasured(wanted):
                self._pause_measured = wanted
            case Run():
                self._start()
            case Pause():
                if self._state is WorkerState.RUNNING:
                    self._state = WorkerState.PAUSED
            case Step():
                self._step()
            case Reset():
                self._reset()
        self._publish()

    def _newer_load_waits(self) -> bool:
        # A compile takes seconds: only the newest choice is worth it.
        with self._condition:
            return any(isinstance(command, Load) for command in self._commands)

    def _load(self, command: Load) -> None:
        self._state = WorkerState.LOADING
        self._job = command.job
        self._session = None
        self._forget_picture()
        self._publish()
        session = self._make_session(command.job)
        session.boot()
        self._session = session
        self._state = WorkerState.PAUSED
        if command.then_run:
            self._start()
        elif command.then_step:
            self._step()
        self._publish()

    def _forget_picture(self) -> None:
        self._last_snapshot = None
        self._last_summary = None
        self._sources = {}

    def _start(self) -> None:
        if self._session is None or self._state not in (*_HELD, WorkerState.FINISHED):
            return
        if self._state is WorkerState.FINISHED:  # Run after the end means once more
            self._session.reset()
        self._pacer.restart()
        self._meter.restart()
        self._state = WorkerState.RUNNING

    def _step(self) -> None:
        if self._session is None or self._state not in (*_HELD, WorkerState.RUNNING):
            return
        self._state = WorkerState.PAUSED
        self._session.step()
        self._check_end()

    def _reset(self) -> None:
        if self._session is None:
            return
        self._session.reset()
        self._state = WorkerState.PAUSED

    def _run_chunk(self) -> None:
        assert self._session is not None
        before = time.monotonic()
        count = self._pacer.due(before)
        if count > 0:
            may_pause = self._pause_measured and is_last_measured(self._session.phase_view())
            self._session.run(count, stop_at_phase_end=may_pause)
            after = time.monotonic()
            self._pacer.ran(count, after - before)
            self._meter.add(count, after)
            if may_pause and is_clean_up(self._session.phase_view()):
                self._state = WorkerState.MEASURED
            self._check_end()
        if self._state is not WorkerState.RUNNING or self._slot_is_due(count):
            self._publish()

    def _slot_is_due(self, count: int) -> bool:
        # A picture of very many slabs takes long: most of the time is for the run.
        interval = min(max(_PUBLISH_SECONDS, _RUN_SHARE * self._publish_took), _LONGEST_PUBLISH_SECONDS)
        if count == 0 or time.monotonic() - self._last_published < interval:
            return False
        with self._condition:
            return self._slot is None

    def _check_end(self) -> None:
        assert self._session is not None
        if self._session.fault:
            self._state = WorkerState.FAULTED
        elif self._session.finished:
            self._state = WorkerState.FINISHED

    def _fail(self, message: str) -> None:
        self._error = message
        self._error_serial += 1
        if self._session is None:
            self._state = WorkerState.EMPTY
            self._job = None
        elif self._state is WorkerState.RUNNING:
            self._state = WorkerState.FAULTED if self._session.fault else WorkerState.PAUSED
        try:
            self._publish()
        except Exception:  # a session that cannot be looked at is dropped, the window stays
            traceback.print_exc()
            self._session, self._job, self._state = None, None, WorkerState.EMPTY
            self._publish()

    def _publish(self) -> None:
        started = time.monotonic()
        results: tuple[CellResult, ...] = ()
        if self._session is not None:
            snapshot = self._session.snapshot()
            self._last_snapshot = snapshot
            self._last_summary = summarise(snapshot.slabs)
            self._read_sources(self._session, snapshot)
            results = tuple(self._session.results)
        running = self._state is WorkerState.RUNNING
        update = ViewUpdate(
            state=self._state,
            job=self._job,
            snapshot=self._last_snapshot,
            summary=self._last_summary,
            sources=dict(self._sources),
            results=results,
            micro_ops_per_second=self._meter.rate() if running else 0.0,
            asked_rate=self._pacer.rate,
            error=self._error,
            error_serial=self._error_serial,
        )
        with self._condition:
            self._slot = update
        self._last_published = time.monotonic()
        self._publish_took = self._last_published - started

    def _read_sources(self, session: SessionLike, snapshot: Snapshot) -> None:
        wanted = {frame.file for cpu in snapshot.cpus for frame in cpu.frames}
        wanted |= {cpu.span.file for cpu in snapshot.cpus if cpu.span is not None}
        for file in wanted - self._sources.keys():
            try:
                self._sources[file] = tuple(session.source_text(file).splitlines())
            except (UserError, OSError, KeyError):
                self._sources[file] = ()  # shown as "source not found"; not worth stopping a run


def is_last_measured(phase: PhaseView | None) -> bool:
    """Whether a phase is measured and one phase, perhaps a clean-up, is left."""
    return phase is not None and phase.measured and phase.index == phase.count - 2


def is_clean_up(phase: PhaseView | None) -> bool:
    """Whether a phase is the last one and not measured."""
    return phase is not None and not phase.measured and phase.index == phase.count - 1


class _RateMeter:
    # Micro-ops per second over about the last second.

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def restart(self) -> None:
        self._samples.clear()

    def add(self, micro_ops: int, now_seconds: float) -> None:
        self._samples.append((now_seconds, micro_ops))
        while now_seconds - self._samples[0][0] > 1.0 and len(self._samples) > 2:
            self._samples.popleft()

    def rate(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        elapsed = self._samples[-1][0] - self._samples[0][0]
        counted = sum(count for _, count in list(self._samples)[1:])
        return counted / elapsed if elapsed > 0 else 0.0
