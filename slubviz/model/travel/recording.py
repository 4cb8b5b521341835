"""A recorded run: any position of it can be visited again.

A run is a pure function of its session and of the changes made to it, so nothing of it needs to be written
down while it runs: a position is reached by restoring the nearest checkpoint before it and running again
from there.  Checkpoints are made while the run is recorded, at a rate that costs an eighth of its time, a
quarter at most, and given up evenly when the memory budget is used up.  For steps back one more is made
shortly before the place at which the user looks.

A *position* is the number of micro-ops that all CPUs have executed since the start.  What is seen at a
position includes the changes made there, and, where the kernel program failed, its fault.

One thread at a time uses a recording.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.checkpoints import copied_state
from slubviz.hw.isa import Status
from slubviz.hw.machine import Engine, IntArray, plain_engine
from slubviz.hw.pricing import millicycles
from slubviz.model.session import Session
from slubviz.model.travel.bookmarks import Bookmark
from slubviz.model.travel.branches import Branch
from slubviz.model.travel.changes import Change, ChangeError, What
from slubviz.model.travel.checkpoint_keeper import FEWEST_MICRO_OPS_APART, CheckpointKeeper, next_clock
from slubviz.model.travel.checkpoint_list import CheckpointList, Kept
from slubviz.model.travel.timeline import Overview, OverviewRecorder

DEFAULT_BUDGET_BYTES = 512 << 20
_FURTHEST_CYCLE = 1e15  #: so that its millicycles fit a word
#: Micro-ops between two looks at the stop flag and at whether a checkpoint is due.
PIECE_MICRO_OPS = 200_000


@dataclass(frozen=True)
class RecordingStats:
    """What a recording takes."""

    used_bytes: int
    budget_bytes: int
    checkpoints: int
    branches: int


class Recording:
    """A session with all its past; see the module.

    Parameters
    ----------
    session : the run; it must only be moved through the recording
    budget_bytes : memory for checkpoints; at least three times the state of the machine is taken
    """

    def __init__(self, session: Session, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self.session = session
        self.bookmarks: list[Bookmark] = []
        self._budget_bytes = budget_bytes

    # --- life ---------------------------------------------------------------------------------------
    def boot(self) -> None:
        """Boot the session and keep its start.

        Branches, changes and bookmarks in branches are forgotten; bookmarks in the first branch stay.

        Raises
        ------
        UserError
            As ``Session.boot``.
        """
        self.session.boot()
        self.bookmarks[:] = [mark for mark in self.bookmarks if mark.branch == 0]
        self._keeper = CheckpointKeeper(self.session, self._budget_bytes)
        self._branches = [Branch(0, None, 0, (), "main", 0)]
        self._branch = 0
        self._applied = 0
        self._fault_at: dict[int, int] = {}  # branch -> position of its fault
        self._overviews = {0: OverviewRecorder()}
        self._overviews[0].begin(self.session)
        self._keep()

    # --- looking ----------------------------------------------------------------------------------
    @property
    def position(self) -> int:
        """Micro-ops executed at the cursor."""
        return self.session.machine.micro_ops

    @property
    def end(self) -> int:
        """Furthest recorded position of the branch."""
        return self.branch.end

    @property
    def branch(self) -> Branch:
        """The branch at the cursor."""
        return self._branches[self._branch]

    @property
    def branches(self) -> tuple[Branch, ...]:
        """All branches by number."""
        return tuple(self._branches)

    @property
    def over(self) -> bool:
        """Whether nothing follows the cursor: the run is finished or the kernel program failed."""
        return self.session.finished or bool(self.session.fault)

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes that lead to the end of the branch, in order."""
        found: tuple[Change, ...] = ()
        for number, below in reversed(self._lineage()):
            # A change of a parent at the very place of the fork was made before it.
            found += tuple(c for c in self._branches[number].changes if c.position <= below)
        return found

    @property
    def trace_hash(self) -> int:
        """Hash over every micro-op up to the cursor."""
        return self.session.machine.trace_hash

    def state_hash(self) -> str:
        """SHA-256 of the whole state at the cursor."""
        return self.session.machine.state_hash()

    def overview(self) -> Overview:
        """What happened on the branch, in buckets."""
        return self._overviews[self._branch].overview()

    def stats(self) -> RecordingStats:
        """Memory and checkpoints."""
        return RecordingStats(
            self._keeper.pool.used_bytes, self._keeper.pool.budget_bytes, len(self._kept), len(self._branches)
        )

    def checkpoints(self) -> list[int]:
        """Positions from which the branch can be run again, ascending."""
        return [kept.position for kept in self._kept.seen_from(self._lineage())]

    def checkpoint_counters(self, position: int) -> NDArray[np.int64]:
        """All counters at a checkpoint, shape (CPUs, counters).

        Raises
        ------
        ValueError
            If there is no checkpoint at that position.
        """
        kept = self._kept.last(self._lineage(), position)
        if kept.position != position:
            raise ValueError(f"there is no checkpoint at {position}")
        return kept.counters

    # --- moving ----------------------------------------------------------------------------------
    def run(
        self,
        micro_ops: int,
        *,
        engine: Engine | None = None,
        stop: threading.Event | None = None,
        stop_at_phase_end: bool = False,
    ) -> Status:
        """Run up to ``micro_ops`` micro-ops further; records what was not recorded before.

        Parameters
        ----------
        engine, stop_at_phase_end : see ``Session.run``
        stop : end early when it is set

        Returns
        -------
        Status
            As ``Session.run``; MICRO_OPS also when ``stop`` ended it.
        """
        target = self.position + micro_ops
        phase = self.session.phase_index
        while self.position < target and not self.over:
            if stop and stop.is_set():
                break
            status = self._run_piece(self._next_stop(target), engine, stop_at_phase_end)
            if status == Status.BREAKPOINT:
                return status
            if stop_at_phase_end and self.session.phase_index != phase:
                break
        if self.over:
            return Status.FAULT if self.session.fault else Status.HALTED
        return Status.MICRO_OPS

    def step(self) -> None:
        """Execute one micro-op of the CPU that is next."""
        self.run(1)

    def step_back(self) -> bool:
        """Take one micro-op back; False at the start."""
        if self.position == 0:
            return False
        return self.seek(self.position - 1)

    def seek(
        self,
        position: int,
        *,
        stop: threading.Event | None = None,
        progress: Callable[[float], None] | None = None,
        prepare: bool = True,
    ) -> bool:
        """Go to a position; beyond the recorded end the run is continued and recorded.

        Parameters
        ----------
        position : in micro-ops; where the run ends before, its end
        stop : when it is set, the search ends somewhere on the way
        progress : called with the done share
        prepare : see to it that steps back from there are fast; costs some milliseconds

        Returns
        -------
        bool
            False if ``stop`` ended it.

        Raises
        ------
        ValueError
            For a negative position.
        """
        if position < 0:
            raise ValueError(f"position {position} is before the start")
        base = self._nearest(position)
        near = self._keeper.near_micro_ops
        if prepare and position - base > 2 * near and not self._advance(position - near, stop, progress):
            return False
        if prepare and position - base > 2 * near:
            self._keep(near=True)
        if not self._advance(position, stop, progress):
            return False
        if prepare:
            self.prepare_steps_back()
        return True

    def seek_cycle(
        self,
        cycles: float,
        *,
        stop: threading.Event | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> bool:
        """Go to the first position at which the clock of the CPU that is next has reached ``cycles``.

        Parameters and result as ``seek``.

        Raises
        ------
        ValueError
            For a negative number of cycles.
        """
        if not cycles >= 0:  # no number is not either
            raise ValueError(f"cycle {cycles:g} is before the start")
        wanted = millicycles(min(cycles, _FURTHEST_CYCLE))
        seen = self._kept.seen_from(self._lineage())
        before = [kept for kept in seen if kept.next_millicycles < wanted]
        self._restore(before[-1] if before else seen[0])

        def engine(S: IntArray, code: IntArray, P: IntArray, limit: int, _: int) -> int:
            status = plain_engine(S, code, P, limit, wanted)
            return int(Status.BREAKPOINT) if status == Status.CYCLE else status

        while not self.over and self._next_millicycles() < wanted:
            if stop and stop.is_set():
                return False
            self._run_piece(self._next_stop(self.position + PIECE_MICRO_OPS), engine, False)
            if progress:
                progress(min(1.0, self._next_millicycles() / max(wanted, 1)))
        self.prepare_steps_back()
        return True

    def prepare_steps_back(self) -> None:
        """See to it that steps back from the cursor are fast: keep a moment some way before it."""
        position, near = self.position, self._keeper.near_micro_ops
        before = self._kept.last(self._lineage(), position)
        wanted = position - near
        if before.position and position - before.position < near // 4:
            wanted = before.position - near
            before = self._kept.last(self._lineage(), before.position - 1)
        if wanted - before.position <= near:
            return
        self._restore(before)
        self._advance(wanted, None, None)
        self._keep(near=True)  # which may give up any other one
        self._advance(position, None, None)

    @contextmanager
    def excursion(self) -> Iterator[Session]:
        """Look around: move as you like, and be back at the cursor in the end."""
        machine = self.session.machine
        state, progress = machine.state, self.session.progress()
        branch, applied = self._branch, self._applied
        machine.state = copied_state(state)
        try:
            yield self.session
        finally:
            machine.state = state
            self.session.resume(progress)
            self._branch, self._applied = branch, applied

    # --- changing --------------------------------------------------------------------------------
    def change(self, what: What) -> Branch:
        """Change the run at the cursor; the future that was recorded there stays as a branch.

        Returns
        -------
        Branch
            The branch at the cursor: a new one, unless nothing was recorded after the cursor.

        Raises
        ------
        UserError
            If that is impossible here (ChangeError) or always; nothing has changed then.
        """
        if self.session.finished:
            raise ChangeError("the run is finished here: go back to a moment at which it runs")
        position, failed = self.position, bool(self.session.fault)
        self._without_fault()
        if self.session.fault:  # a deadlock or a broken invariant: no micro-op failed that could go otherwise
            raise ChangeError("nothing can go on here: go back to a moment before the failure")
        before = copied_state(self.session.machine.state)
        progress = self.session.progress()
        try:
            what.apply(self.session)
        except BaseException:
            self.session.machine.state = before
            self.session.resume(progress)
            if failed:
                self._arrive()
            raise
        if failed or position < self.end:
            self._fork(position)
        branch = self.branch
        self._branches[self._branch] = replace(branch, changes=(*branch.changes, Change(position, what)))
        self._applied += 1
        for kept in self._kept.from_on(self._branch, position):
            self._give_up(kept)
        self._keep()
        return self.branch

    def switch(
        self, number: int, position: int | None = None, *, stop: threading.Event | None = None
    ) -> bool:
        """Go to a branch, at a position or as near to the cursor's as it has.

        Parameters
        ----------
        stop : when it is set, the search ends somewhere on the way, in that branch

        Returns
        -------
        bool
            False if ``stop`` ended it.

        Raises
        ------
        ValueError
            If there is no such branch.
        """
        if not 0 <= number < len(self._branches):
            raise ValueError(f"there is no branch {number}; there are {len(self._branches)}")
        wanted = min(self.position, self._branches[number].end) if position is None else position
        self._branch = number
        self._restore(self._kept.last(self._lineage(), wanted))
        return self.seek(wanted, stop=stop)

    def rename(self, number: int, name: str) -> None:
        """Give a branch another name."""
        self._branches[number] = self._branches[number].renamed(name)

    def _fork(self, position: int) -> None:
        number, parent = len(self._branches), self.branch
        while parent.parent is not None and position < parent.fork_position:
            parent = self._branches[parent.parent]  # whose past this moment belongs to
        self._branches.append(Branch(number, parent.number, position, (), f"branch {number}", position))
        self._overviews[number] = self._overviews[self._branch].copy()
        self._overviews[number].truncate(position)
        self._branch = number

    def _without_fault(self) -> None:
        """Where the program failed: the moment before, at the same position."""
        if self.session.fault:
            position = self.position
            self._restore(self._kept.last(self._lineage(), position), fail=False)
            while self.position < position:
                self._run_piece(self._next_stop(position), None, False, fail=False)

    # --- running ---------------------------------------------------------------------------------
    def _next_stop(self, target: int) -> int:
        """Where to stop on the way to ``target``: for a change, a checkpoint, a bucket of the overview."""
        limit = min(target, self.position + PIECE_MICRO_OPS)
        changes = self.changes
        if self._applied < len(changes):
            limit = min(limit, changes[self._applied].position)
        if self.position < self.end:
            limit = min(limit, self.end)
        return limit

    def _run_piece(
        self, limit: int, engine: Engine | None, stop_at_phase_end: bool, *, fail: bool = True
    ) -> Status:
        started, before = time.thread_time(), self.position
        overview = self._overviews[self._branch]
        if before < self.end:
            used = engine
        elif engine is None:
            used = overview.engine
        else:
            used, limit = engine, min(limit, max(overview.next_position(), before + 1))
        # A phase that begins is noted at its place.
        stop_at_phase_end |= before >= self.end
        status = self.session.run(limit - before, engine=used, stop_at_phase_end=stop_at_phase_end)
        seconds = time.thread_time() - started
        if status == Status.BREAKPOINT:
            self._arrive_again(self.position)
            return status
        if self.session.fault:
            self._fault_at.setdefault(self._branch, self.position)
        self._arrive(fail)
        if self.position > self.end or (self.over and self.position == self.end):
            self._record(seconds, self.position - before, engine is None)
        return status

    def _arrive_again(self, position: int) -> None:
        """An engine has stopped at a position in its own way: be there as everybody else is.

        It may have ended a phase without the session, or entered an interrupt that is still to come.
        """
        self._restore(self._kept.last(self._lineage(), position))
        self._advance(position, None, None)

    def _arrive(self, fail: bool = True) -> None:
        """Make the changes of this position, and fail where the program failed."""
        changes = self.changes
        while self._applied < len(changes) and changes[self._applied].position == self.position:
            changes[self._applied].what.apply(self.session)
            self._applied += 1
        if fail and self._fault_at.get(self._branch) == self.position and not self.session.fault:
            self.session.run(1)

    def _record(self, seconds: float, micro_ops: int, plain: bool) -> None:
        """Something was run for the first time."""
        self._branches[self._branch] = replace(self.branch, end=self.position)
        self._overviews[self._branch].piece(self.session)
        if not self._keeper.is_due(seconds, micro_ops, plain=plain) and not self.over:
            return
        last = self._kept.last(self._lineage(), self.position)
        if self.position - last.position >= FEWEST_MICRO_OPS_APART:
            self._keep()

    def _advance(
        self, position: int, stop: threading.Event | None, progress: Callable[[float], None] | None
    ) -> bool:
        first = self.position
        while self.position < position and not self.over:
            if stop and stop.is_set():
                return False
            self._run_piece(self._next_stop(position), None, False)
            if progress:
                progress((self.position - first) / max(position - first, 1))
        return True

    # --- checkpoints -------------------------------------------------------------------------------
    @property
    def _kept(self) -> CheckpointList:
        return self._keeper.list

    def _lineage(self) -> list[tuple[int, int]]:
        """(branch, position below which it counts), the cursor's branch first."""
        found = [(self._branch, L.NEVER)]
        branch = self.branch
        while branch.parent is not None:
            found.append((branch.parent, branch.fork_position))
            branch = self._branches[branch.parent]
        return found

    def _nearest(self, position: int) -> int:
        """Be at the nearest known moment at or before a position; returns where that is."""
        kept = self._kept.last(self._lineage(), position)
        if not kept.position <= self.position <= position or (
            self.session.fault and self.position < position
        ):
            self._restore(kept)
        return self.position

    def _restore(self, kept: Kept, *, fail: bool = True) -> None:
        machine = self.session.machine
        machine.state = self._keeper.pool.restore(kept.checkpoint, machine.state)
        self.session.resume(kept.progress)
        self._applied = sum(change.position <= kept.position for change in self.changes)
        self._arrive(fail)

    def _keep(self, *, near: bool = False) -> None:
        """Keep this moment, if there is room."""
        if self._kept.has(self._branch, self.position) or self.session.fault:
            return
        self._keeper.keep(self._branch, self._next_millicycles(), near=near)

    def _give_up(self, kept: Kept) -> None:
        self._keeper.give_up(kept)

    def _next_millicycles(self) -> int:
        return next_clock(self.session)
