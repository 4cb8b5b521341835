"""Looks through a recording, forwards or backwards, for positions that an engine finds.

Backwards there is nothing to run: the pieces between the checkpoints are run again, the last one first, until
one has a hit; its last one before the cursor is the answer.  Pieces in which no counter changed that the
question is about are left out unseen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState, Status
from slubviz.hw.layout import NEVER
from slubviz.hw.machine import Engine, IntArray
from slubviz.hw.search_engine import Question, SearchEngine, Words
from slubviz.model.booted import BootedKernel
from slubviz.model.travel.recording import Recording

Progress = Callable[[float], None]
#: Micro-ops between two calls of ``progress``: about a tenth of a second.
SLICE_MICRO_OPS = 1_000_000


class Tracker(Protocol):
    """Knows which words of memory to watch, and which of their changes count."""

    def begin(self, kernel: BootedKernel) -> Words:
        """The words to watch (address, mask, trigger), and take note of what there is now."""

    def strikes(self, kernel: BootedKernel, trigger: int, cpu: int, changed: int) -> int:
        """A word changed, or something else struck: the trigger that counts, -1 if it does not count.

        ``changed`` is the word's address; see ``SearchEngine.changed``.
        """

    def words_now(self, kernel: BootedKernel) -> Words | None:
        """Other words to watch from now on; None for the same."""


@dataclass(frozen=True)
class Hit:
    """A position that was found."""

    position: int
    cause: int  #: trigger, or minus the bit that was wanted
    cpu: int  #: -1 for none in particular


class Cancelled(Exception):
    """The search was given up."""


class Finder:
    """One search; see the module.

    Parameters
    ----------
    tracker : decides about the hits, if they cannot be decided by the engine alone
    counters : columns of counters of which one changes at every hit; None if that cannot be said
    """

    def __init__(
        self,
        recording: Recording,
        question: Question,
        *,
        tracker: Tracker | None = None,
        counters: Sequence[int] | None = None,
        stop: threading.Event | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._recording = recording
        self._question = question
        self._tracker = tracker
        self._counters = counters
        self._stop = stop
        self._progress = progress

    @property
    def _kernel(self) -> BootedKernel:
        return self._recording.session.booted

    # --- forwards ----------------------------------------------------------------------------------
    def forward(self, last: int = NEVER) -> Hit | None:
        """Run to the first hit after the cursor, recording what is not recorded yet; None: there is none.

        The cursor ends at the hit, or wherever the search ended.

        Parameters
        ----------
        last : give up after this position

        Raises
        ------
        Cancelled
            When ``stop`` was set.
        """
        recording, first = self._recording, self._recording.position
        search = self._begin(stop=True, first=first + 1, last=last)
        found: list[Hit] = []
        engine = self._judging(search, last, found, stop=True)
        expected = max(recording.end, first + 1)
        while True:
            self._check_stop()
            target = min(recording.position + SLICE_MICRO_OPS, last)
            status = recording.run(target - recording.position, engine=engine, stop=self._stop)
            if not found and (recording.over or recording.position >= last):
                self._settle(engine)
            if found:
                self._go_to(found[0].position)
                return found[0]
            if recording.over or recording.position >= last:
                return None
            if status != Status.BREAKPOINT:
                done = recording.position - first
                self._tell(done / max(expected - first, done, 1))

    def here(self) -> Hit | None:
        """Whether the micro-op that is next is a marked one; the cursor does not move."""
        position = self._recording.position
        if not self._question.marks or self._recording.over or self._next_is_unmarked():
            return None
        with self._recording.excursion() as session:
            search = self._begin(stop=True, first=position, last=position)
            session.machine.run(position + 1, engine=search.engine)
        return Hit(search.hit, search.cause, search.cpu) if search.hit >= 0 else None

    def _next_is_unmarked(self) -> bool:
        """Whether the micro-op that is next is known, because no interrupt is due, and not marked."""
        machine = self._recording.session.machine
        block = machine.cpu_blocks()[machine.state[machine.state[L.H_TREE] + 1]]
        due = block[L.C_CLOCK] >= block[L.C_IRQ_CYCLE] or block[L.C_MICRO_OPS] >= block[L.C_IRQ_MICRO_OP]
        known = block[L.C_STATE] == CpuState.RUNNING and not (block[L.C_IRQ_ENABLED] and due)
        return bool(known) and int(block[L.C_PC]) not in self._question.marks

    def _go_to(self, position: int) -> None:
        """Be at a hit; the engine may have gone one micro-op further."""
        if self._recording.position != position:
            self._recording.seek(max(position - 1, 0), prepare=False)
        self._recording.seek(position)

    # --- backwards -----------------------------------------------------------------------------------
    def backward(self, last: int) -> Hit | None:
        """The last hit up to a position that lies before the cursor; the cursor does not move.

        Raises
        ------
        Cancelled
            When ``stop`` was set.
        """
        recording, cursor = self._recording, self._recording.position
        after = recording.session.machine.counters().copy()
        # With their counters, because a checkpoint may be given up meanwhile.
        starts = [(at, recording.checkpoint_counters(at)) for at in recording.checkpoints() if at < cursor]
        end = last
        with recording.excursion():
            for start, before in reversed(starts):
                self._check_stop()
                if self._may_have_hits(before, after) and (start < end or start == 0):
                    found = self._scan(start, end, cursor)
                    if found:
                        return found
                if start < end:
                    end = start
                after = before
                self._tell(1 - start / max(cursor, 1))
        return None

    def _may_have_hits(self, before: IntArray, after: IntArray) -> bool:
        if self._counters is None:
            return True
        columns = list(self._counters)
        return bool(np.any(before[:, columns] != after[:, columns]))

    def _scan(self, start: int, end: int, cursor: int) -> Hit | None:
        """The last hit after ``start`` up to ``end``; position 0 counts too."""
        recording = self._recording
        recording.seek(start, prepare=False)
        first = start + 1 if start else 0
        search = self._begin(stop=self._tracker is not None, first=first, last=end)
        found: list[Hit] = []
        engine = self._judging(search, end, found, stop=False) if self._tracker else search.engine
        target = min(end + 1, cursor)  # whether the micro-op that is next at ``end`` is marked, it tells
        while recording.position < target and not recording.over:
            self._check_stop()
            piece = min(target - recording.position, SLICE_MICRO_OPS)
            recording.run(piece, engine=engine, stop=self._stop)
        self._check_stop()
        self._settle(engine)
        if self._tracker:
            return found[-1] if found else None
        return Hit(search.hit, search.cause, search.cpu) if search.hit >= 0 else None

    # --- both ----------------------------------------------------------------------------------------
    def _begin(self, *, stop: bool, first: int, last: int) -> SearchEngine:
        question = self._question
        if self._tracker:
            question = question.and_words(self._tracker.begin(self._kernel))
        cpus = self._recording.session.machine_spec.cpus
        return SearchEngine(question, cpus, stop=stop, first=first, last=last)

    def _judging(self, search: SearchEngine, last: int, found: list[Hit], *, stop: bool) -> Engine:
        """The engine of a search that stops at hits: it decides about them, and notes those that count.

        ``stop``: return at one that counts.
        """

        def engine(S: IntArray, code: IntArray, P: IntArray, limit: int, millicycle_limit: int) -> int:
            while not (found and stop):
                status = search.engine(S, code, P, limit, millicycle_limit)
                if status != Status.BREAKPOINT:
                    return status
                hit = self._judge(search)
                found.extend([hit] if hit else [])
                # What does not count was no marked micro-op; one may come next at the same position.
                search.go_on(search.hit + 1 if hit else search.hit, last)
            return int(Status.BREAKPOINT)

        return engine

    def _judge(self, search: SearchEngine) -> Hit | None:
        """The hit if it counts; other words may be watched after it."""
        cause = search.cause
        if self._tracker:
            cause = self._tracker.strikes(self._kernel, cause, search.cpu, search.changed)
            words = self._tracker.words_now(self._kernel)
            if words is not None:
                search.watch(self._question.and_words(words).words, self._recording.session.machine.state)
            if cause == -1:
                return None
        return Hit(search.hit, cause, search.cpu)

    def _settle(self, engine: Engine) -> None:
        """Let the engine look at the state that the last micro-op, and whatever came after it, left."""
        machine = self._recording.session.machine
        engine(machine.state, machine.code, machine.parameters, machine.micro_ops, NEVER)

    def _check_stop(self) -> None:
        if self._stop and self._stop.is_set():
            raise Cancelled

    def _tell(self, share: float) -> None:
        if self._progress:
            self._progress(min(max(share, 0.0), 1.0))
