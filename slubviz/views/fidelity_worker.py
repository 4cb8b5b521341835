"""The thread that runs a comparison with the published tables, and leaves the latest picture of it.

It plans what the page has chosen, so that the page can say how many numbers that is and how long it takes,
and runs a plan in worker processes.  What the page shows is left in a slot that holds only the newest
CompareUpdate; tables are worked out here, so that the window has only to show them.  Stopping takes about
half a second; closing the window ends the processes at once.  Leaves out: going on with a stopped comparison.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from slubviz.model.errors import UserError
from slubviz.views.fidelity_report import Report, report_of

if TYPE_CHECKING:
    from slubviz.model.compare import ComparePlan, CompareRequest, Comparison, RunningComparison
    from slubviz.model.compare_pool import ProcessPool
    from slubviz.model.compare_table import CellKey
    from slubviz.model.results import Progress

#: A report takes some milliseconds: so many a second are enough to see cells appear.
_REPORT_SECONDS = 0.25
#: Operations of all CPUs that a process simulates in a second, about, on a computer of the year 2024.
_OPERATIONS_PER_SECOND = 400_000
#: Until the processes have started and booted.
_START_SECONDS = 3.0

Watch = Callable[["Progress", "RunningComparison"], "bool | None"]
RunPlan = Callable[["ComparePlan", Watch, "ProcessPool"], "Comparison"]


class CompareState(IntEnum):
    """What the worker is doing."""

    EMPTY = 0  #: nothing can be run yet
    PLANNED = 1  #: a choice that can be run
    RUNNING = 2
    DONE = 3
    STOPPED = 4  #: ended before its end, by the user or by an error


@dataclass(frozen=True)
class Choice:
    """What a request means, before it runs."""

    request: CompareRequest
    cells: int  #: published numbers
    estimate_seconds: float  #: roughly, with the processes that it asks for


@dataclass(frozen=True)
class CompareUpdate:
    """Everything the page shows at one moment."""

    state: CompareState = CompareState.EMPTY
    choice: Choice | None = None  #: of the newest request; None if it cannot be run
    published: Mapping[CellKey, tuple[float, float]] = field(default_factory=dict)  #: shown cells, in order
    progress: Progress | None = None
    comparison: Comparison | None = None  #: kept until another one starts
    report: Report = field(default_factory=Report)
    elapsed_seconds: float = 0.0
    error: str = ""  #: one line; stays until the next command
    error_serial: int = 0  #: grows with each new error


class _Backend(Protocol):
    def plan(self, request: CompareRequest) -> ComparePlan: ...

    def run(self, plan: ComparePlan, watch: Watch, pool: ProcessPool) -> Comparison: ...


class ModelBackend:
    """The real comparison; loaded when it is first asked for."""

    def plan(self, request: CompareRequest) -> ComparePlan:
        """See ``compare.plan_comparison``."""
        from slubviz.model.compare import plan_comparison

        return plan_comparison(request)

    def run(self, plan: ComparePlan, watch: Watch, pool: ProcessPool) -> Comparison:
        """See ``compare.run_comparison``."""
        from slubviz.model.compare import run_comparison

        return run_comparison(plan, watch, pool)


@dataclass(frozen=True)
class _Command:
    request: CompareRequest
    run: bool


class _WindowGoneError(Exception):
    """Nobody looks at the comparison any more."""


class CompareWorker(threading.Thread):
    """Plans and runs comparisons; see the module.

    Parameters
    ----------
    backend
        Plans and runs; a test puts another one in its place.
    """

    def __init__(self, backend: _Backend | None = None) -> None:
        super().__init__(name="comparison")
        self._backend = backend or ModelBackend()
        self._condition = threading.Condition()
        self._command: _Command | None = None
        self._cancel_asked = False
        self._stop_asked = False
        self._slot: CompareUpdate | None = None
        self._pool: ProcessPool | None = None
        self._measured = False  #: whether the comparison that runs has found something
        # Below: this thread only.
        self._update = CompareUpdate()
        self._last_report = 0.0
        self._began = 0.0

    # Interface: any thread

    def plan(self, request: CompareRequest) -> None:
        """Work out what a request means, after the comparison that runs; only the newest request counts."""
        self._send(_Command(request, run=False))

    def start_comparison(self, request: CompareRequest) -> None:
        """Run a request."""
        self._send(_Command(request, run=True))

    def cancel(self) -> None:
        """Stop the comparison that runs, keeping what it has found."""
        with self._condition:
            self._cancel_asked = True
            pool = None if self._measured else self._pool
        if pool is not None:  # it may be compiling, and has found nothing yet
            _kill(pool)

    def stop(self) -> None:
        """End the thread and every process at once; does not wait."""
        with self._condition:
            self._stop_asked = True
            self._condition.notify()
            pool = self._pool
        if pool is not None:
            _kill(pool)

    def take(self) -> CompareUpdate | None:
        """The newest update, once; None if there is none that was not taken already."""
        with self._condition:
            update, self._slot = self._slot, None
            return update

    # The thread

    def run(self) -> None:
        while True:
            with self._condition:
                while self._command is None and not self._stop_asked:
                    self._condition.wait()
                command, self._command = self._command, None
                if self._stop_asked or command is None:
                    return
                self._cancel_asked = False
            self._obey(command)

    def _send(self, command: _Command) -> None:
        with self._condition:
            self._command = command
            self._condition.notify()

    def _obey(self, command: _Command) -> None:
        try:
            plan = self._plan(command)
            if command.run:
                self._run(plan)
        except UserError as error:
            self._fail(str(error))
        except Exception as error:  # the window must outlive a defect in the simulation
            if not self._ends():
                traceback.print_exc()
            self._fail(f"Internal error in the comparison: {type(error).__name__}: {error}".split("\n")[0])

    def _plan(self, command: _Command) -> ComparePlan:
        before = self._update
        self._update = replace(before, choice=None, error="")
        plan = self._backend.plan(command.request)
        choice = Choice(command.request, len(plan.cells), estimate_seconds(plan))
        if command.run or before.comparison is None:
            published = {cell.key: (cell.low, cell.high) for cell in plan.cells}
            serial = before.error_serial
            self._update = CompareUpdate(CompareState.PLANNED, choice, published, error_serial=serial)
        else:  # what was found stays until another comparison starts
            self._update = replace(self._update, choice=choice)
        self._publish()
        return plan

    def _run(self, plan: ComparePlan) -> None:
        from slubviz.model.compare_pool import ProcessPool
        from slubviz.model.results import Progress

        self._began = time.monotonic()
        first = Progress(0, plan.measured_cells, message="starting")
        self._update = replace(self._update, state=CompareState.RUNNING, progress=first)
        self._publish()
        with ProcessPool(plan.request.jobs) as pool:
            with self._condition:
                self._pool, self._measured = pool, False
            try:
                comparison = self._backend.run(plan, self._watch, pool)
            finally:
                with self._condition:
                    self._pool = None
        ended = len(comparison.cells) == comparison.wanted and not self._ends()
        self._show(comparison, CompareState.DONE if ended else CompareState.STOPPED)

    def _watch(self, progress: Progress, running: RunningComparison) -> bool:
        with self._condition:
            if self._stop_asked:  # what is returned while the processes start is not looked at
                raise _WindowGoneError
            self._measured = progress.done_cells > 0
            if self._cancel_asked:
                return False
        self._update = replace(self._update, progress=progress)
        now = time.monotonic()
        if progress.done_cells and now - self._last_report > _REPORT_SECONDS:
            self._last_report = now
            self._show(running.comparison(), CompareState.RUNNING)
        else:
            self._publish()
        return True

    def _ends(self) -> bool:
        with self._condition:
            return self._stop_asked or self._cancel_asked

    def _show(self, comparison: Comparison, state: CompareState) -> None:
        self._update = replace(
            self._update,
            state=state,
            comparison=comparison,
            report=report_of(comparison),
            elapsed_seconds=time.monotonic() - self._began,
        )
        self._publish()

    def _fail(self, message: str) -> None:
        state = self._update.state
        if state is CompareState.RUNNING:
            state = CompareState.STOPPED
            message = "" if self._ends() else message  # a process that was killed with the window
        elif self._update.comparison is None:
            state = CompareState.EMPTY
        serial = self._update.error_serial + 1
        self._update = replace(self._update, state=state, error=message, error_serial=serial)
        self._publish()

    def _publish(self) -> None:
        if self._update.state is CompareState.RUNNING:
            self._update = replace(self._update, elapsed_seconds=time.monotonic() - self._began)
        with self._condition:
            self._slot = self._update


def _kill(pool: ProcessPool) -> None:
    # The thread may wait for a process that compiles: it hears the process end.
    for process_id in pool.process_ids():
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)


def estimate_seconds(plan: ComparePlan) -> float:
    """How long a plan takes, roughly, with the processes that it asks for."""
    from slubviz.model.compare_pool import default_jobs

    work = [boot.work for _, boot in plan.boots]
    jobs = min(plan.request.jobs or default_jobs(), len(work))
    # No faster than its longest boot.
    return _START_SECONDS + max(sum(work) / jobs, max(work)) / _OPERATIONS_PER_SECOND
