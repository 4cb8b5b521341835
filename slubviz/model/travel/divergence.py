"""Two runs beside each other: where they part, and which moment of one belongs to a moment of the other.

A ``Side`` is a branch of a recording; the two sides may be of one recording or of two.  Up to a point runs
of one request are the same; from there on nothing is, so that point is found by bisection over the hash of
the trace, with seeks to checkpoints.  Runs of different kernels part at once; their operations can be
compared one by one all the same.

Cursors stay where they are.  Nothing beyond what is recorded is looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from slubviz.hw import layout as L
from slubviz.hw.checkpoints import copied_state
from slubviz.hw.engine import CLOCK_FACTOR
from slubviz.hw.executed import HASH_INVERSE
from slubviz.model.errors import UserError
from slubviz.model.lang import Program, disassemble
from slubviz.model.travel.operation_log import OperationLog, read_operations
from slubviz.model.travel.picture_differences import Difference, differences, differing_objects
from slubviz.model.travel.recording import Recording
from slubviz.model.travel.session_file_replay import proof_of

__all__ = [
    "By",
    "CompareCancelled",
    "Difference",
    "Divergence",
    "Side",
    "aligned_position",
    "differences",
    "differing_objects",
    "first_divergence",
]

#: The first part of a run in which operations are compared; twice as much each time that all are equal.
_FIRST_WINDOW_MICRO_OPS = 20_000
_MASK = (1 << 64) - 1


class By(StrEnum):
    """What two runs are compared by."""

    MICRO_OP = "micro-op"
    OPERATION = "operation"
    CYCLE = "cycle"


class CompareCancelled(UserError):
    """The user has ended a comparison."""


@dataclass(frozen=True)
class Side:
    """One of two runs: a branch of a recording."""

    recording: Recording
    branch: int = 0

    @property
    def end(self) -> int:
        """Furthest recorded position."""
        return self.recording.branches[self.branch].end

    def go(self, position: int, stop: threading.Event | None = None) -> None:
        """Be at a position of this side."""
        if stop and stop.is_set():
            raise CompareCancelled("the comparison was cancelled")
        if self.recording.branch.number != self.branch:
            self.recording.switch(self.branch, min(position, self.end))
        if not self.recording.seek(min(position, self.end), stop=stop, prepare=False):
            raise CompareCancelled("the comparison was cancelled")


@dataclass(frozen=True)
class Executed:
    """What one micro-op was; ``text`` says it in words."""

    cpu: int
    pc: int
    text: str


@dataclass(frozen=True)
class Divergence:
    """Where two runs part.

    By micro-op and by cycle: up to these positions, which are equal, all that was executed is the same; the
    micro-ops that follow are not.  By operation: right after the first operation that differs.
    """

    by: By
    position_a: int  #: micro-ops
    position_b: int
    cycles_a: float  #: clock of the CPU that is next there; by operation, of the CPU of the operation
    cycles_b: float
    a: str  #: what the first side does there, one line
    b: str
    changed_at: int | None = None  #: position of the change from outside that made them differ, if one did
    cpu: int | None = None  #: of the operation
    operation: int | None = None  #: its number on that CPU

    def text(self) -> str:
        """One line."""
        if self.operation is not None:
            which = f"operation {self.operation:,} of CPU {self.cpu}"
            return f"{which} is the first that differs: {self.a}; {self.b}"
        where = f"after micro-op {self.position_a:,}, cycle {self.cycles_a:,.0f}"
        if self.cycles_a != self.cycles_b:
            where += f" and {self.cycles_b:,.0f}"
        changed = "" if self.changed_at is None else f" (changed from outside at {self.changed_at:,})"
        return f"they part {where}{changed}: {self.a}; {self.b}"


@contextmanager
def cursors_kept(*sides: Side) -> Iterator[None]:
    """Look around on both sides and be back at both cursors in the end."""
    recordings = list({id(side.recording): side.recording for side in sides}.values())
    if len(recordings) == 1:
        with recordings[0].excursion():
            yield
    else:
        with recordings[0].excursion(), recordings[1].excursion():
            yield


def first_divergence(
    a: Side,
    b: Side,
    by: By = By.MICRO_OP,
    *,
    stop: threading.Event | None = None,
    progress: Callable[[float], None] | None = None,
) -> Divergence | None:
    """Where two runs part for the first time, within what is recorded of both.

    Parameters
    ----------
    by : MICRO_OP and CYCLE: the first micro-op with another CPU, another place in the program or another
        clock.  OPERATION: the first operation, counted per CPU, that took other cycles or, between kernels
        of one family, was about another object (see ``OperationLog.objects_by_appearance``).
    stop : when it is set, the search ends
    progress : called with the done share

    Returns
    -------
    Divergence or None
        None if nothing differs.

    Raises
    ------
    CompareCancelled
        If ``stop`` ended it.
    """
    search = _Search(a, b, stop, progress)
    with cursors_kept(a, b):
        if by == By.OPERATION:
            return search.by_operation()
        return search.by_trace(by)


class _Search:
    def __init__(
        self, a: Side, b: Side, stop: threading.Event | None, progress: Callable[[float], None] | None
    ) -> None:
        self.a, self.b = a, b
        self.sides = (a, b)
        self._stop = stop
        self._progress = progress
        self._common_end = min(a.end, b.end)

    # --- by what was executed ------------------------------------------------------------------------
    def by_trace(self, by: By) -> Divergence | None:
        parted = self._parted_at()
        if parted is None:
            return None
        position, changed_at = parted
        cycles = [self._next_cycles(side, position) for side in self.sides]
        texts = [self._next_text(side, position) for side in self.sides]
        return Divergence(by, position, position, cycles[0], cycles[1], texts[0], texts[1], changed_at)

    def _parted_at(self) -> tuple[int, int | None] | None:
        """(last common position, change that did it); None if the sides never part."""
        changed_at = self._changed_at()
        same, step = changed_at or 0, 1
        while True:  # most changes show soon
            probe = min(same + step, self._common_end)
            if not self._same_trace(probe):
                break
            if probe == self._common_end:
                return (probe, changed_at) if self._one_ends(probe) else None
            same, step = probe, 2 * step
        other = probe
        while other - same > 1:
            self._report(1 - (other - same) / (self._common_end + 1))
            middle = (same + other) // 2
            if self._same_trace(middle):
                same = middle
            else:
                other = middle
        return same, changed_at

    def _changed_at(self) -> int | None:
        """The first position at which the states differ because one side was changed there.

        None if they differ for another reason, or not at all.
        """
        if not self._same_moment(0, code=True):
            changes = [self._changes(side) for side in self.sides]
            at_start = any(position == 0 for side in changes for position in side)
            return 0 if at_start and self._same_request() else None
        for position in sorted(set(self._changes(self.a)) | set(self._changes(self.b))):
            if position > self._common_end or not self._same_trace(position):
                return None
            if not self._same_moment(position, code=True):
                return position
        return None

    def _same_request(self) -> bool:
        first, second = (side.recording.session for side in self.sides)
        return first.spec == second.spec and first.machine_spec == second.machine_spec

    def _changes(self, side: Side) -> list[int]:
        side.go(0, self._stop)
        return [change.position for change in side.recording.changes]

    def _same_trace(self, position: int) -> bool:
        hashes = []
        for side in self.sides:
            side.go(position, self._stop)
            hashes.append(side.recording.trace_hash)
        return hashes[0] == hashes[1]

    def _same_moment(self, position: int, *, code: bool) -> bool:
        proofs, codes = [], []
        for side in self.sides:
            side.go(position, self._stop)
            proofs.append(proof_of(side.recording.session))
            codes.append(side.recording.session.machine.code)
        return proofs[0] == proofs[1] and np.array_equal(codes[0], codes[1])

    def _one_ends(self, position: int) -> bool:
        """Whether, after the same trace, one side ends here and the other goes on or ends otherwise."""
        ends = []
        for side in self.sides:
            side.go(position, self._stop)
            session = side.recording.session
            over = session.finished or bool(session.fault)
            ends.append((over, session.fault, not over and side.end > position))
        goes_on = any(end[2] for end in ends)
        both_over = all(end[0] for end in ends)
        return (goes_on and any(end[0] for end in ends)) or (both_over and ends[0] != ends[1])

    def _next_cycles(self, side: Side, position: int) -> float:
        side.go(position, self._stop)
        return next_millicycles(side.recording) / L.MILLI

    def _next_text(self, side: Side, position: int) -> str:
        side.go(position, self._stop)
        session = side.recording.session
        if session.fault:
            return f"fails: {session.fault}"
        if session.finished:
            return "is finished"
        executed = next_executed(side.recording)
        return executed.text if executed else "fails at its next micro-op"

    # --- by operation ----------------------------------------------------------------------------------
    def by_operation(self) -> Divergence | None:
        parted = self._parted_at()
        if parted is None:
            return None
        # A little before, so that of the first ones too it is known since when they ran.
        first = max(0, parted[0] - _FIRST_WINDOW_MICRO_OPS)
        window = 2 * _FIRST_WINDOW_MICRO_OPS
        while True:
            logs = [self._log(side, first, first + window) for side in self.sides]
            found = self._first_different(logs[0], logs[1])
            if found:
                return self._operation(logs[0], logs[1], *found)
            if first + window >= max(side.end for side in self.sides):
                return None
            self._report(window / max(side.end for side in self.sides))
            window *= 2

    def _log(self, side: Side, first: int, last: int) -> OperationLog:
        side.go(first, self._stop)
        log = read_operations(side.recording, first, last, stop=self._stop)
        if log is None:
            raise CompareCancelled("the comparison was cancelled")
        return log

    def _first_different(self, a: OperationLog, b: OperationLog) -> tuple[int, int] | None:
        """Indexes of the first operation of ``a`` that is another one in ``b``."""
        index = {key: i for i, key in enumerate(zip(b.cpu.tolist(), b.number.tolist(), strict=True))}
        objects = [self._objects(log) for log in (a, b)]
        for i, key in enumerate(zip(a.cpu.tolist(), a.number.tolist(), strict=True)):
            k = index.get(key)
            if k is None:
                continue
            known = a.millicycles[i] >= 0 and b.millicycles[k] >= 0
            cycles = a.millicycles[i] != b.millicycles[k] if known else False
            if cycles or a.clock_millicycles[i] != b.clock_millicycles[k] or objects[0][i] != objects[1][k]:
                return i, k
        return None

    def _objects(self, log: OperationLog) -> list[tuple[int, int]]:
        sessions = [side.recording.session for side in self.sides]
        families = {session.job.family.name for session in sessions}
        pages = {session.machine_spec.page_size_bytes for session in sessions}
        if len(families) > 1 or len(pages) > 1:
            return [(0, 0)] * len(log)  # other structures: no object of one is one of the other
        return log.objects_by_appearance(pages.pop().bit_length() - 1)

    def _operation(self, a: OperationLog, b: OperationLog, i: int, k: int) -> Divergence:
        return Divergence(
            By.OPERATION,
            int(a.position[i]),
            int(b.position[k]),
            int(a.clock_millicycles[i]) / L.MILLI,
            int(b.clock_millicycles[k]) / L.MILLI,
            _operation_text(a, i),
            _operation_text(b, k),
            cpu=int(a.cpu[i]),
            operation=int(a.number[i]),
        )

    def _report(self, share: float) -> None:
        if self._progress:
            self._progress(min(1.0, share))


def _operation_text(log: OperationLog, index: int) -> str:
    took = int(log.millicycles[index])
    cycles = f"{took / L.MILLI:,.1f} cycles" if took >= 0 else "done"
    address = int(log.object[index])
    at = f" for object {address:#x}" if address else ""
    return f"{cycles}{at} until cycle {int(log.clock_millicycles[index]) / L.MILLI:,.1f}"


def next_millicycles(recording: Recording) -> int:
    """When the next micro-op begins; where none follows, the latest clock."""
    state = recording.session.machine.state
    following = int(state[state[L.H_KEYS] + state[state[L.H_TREE] + 1]])
    return following if following < L.NEVER else recording.session.machine.clock_millicycles


def next_executed(recording: Recording) -> Executed | None:
    """The micro-op that comes next, which is tried out and taken back; None if the program fails at it."""
    machine, program = recording.session.machine, recording.session.booted.program
    kept = copied_state(machine.state)
    counts = machine.cpu_blocks()[:, L.C_MICRO_OPS].copy()
    try:
        before = machine.trace_hash & _MASK
        machine.run(machine.micro_ops + 1)
        advanced = np.flatnonzero(machine.cpu_blocks()[:, L.C_MICRO_OPS] != counts)
        if len(advanced) != 1:
            return None
        cpu = int(advanced[0])
        # The hash of the trace has taken in nothing else: CPU, place in the program, clock.
        taken_in = (((machine.trace_hash * HASH_INVERSE) & _MASK) ^ before) - (cpu << 24)
        clock = machine.cpu_word(cpu, L.C_CLOCK)
    finally:
        machine.state = kept
    # An interrupt that was due behind the micro-op has been entered already.
    for after in (0, int(machine.parameters[L.P_INTERRUPT_ENTRY])):
        pc = (taken_in - (clock - after) * CLOCK_FACTOR) & _MASK
        if pc < program.micro_ops:
            return Executed(cpu, pc, _executed_text(program, cpu, pc))
    return None


def _executed_text(program: Program, cpu: int, pc: int) -> str:
    span, function = program.span(pc), program.inline_stack(pc)[-1][0].name
    return f"CPU {cpu}: {function} ({span.file}:{span.line}), micro-op {pc}: {disassemble(program, pc)}"


# --- the moment of one run that belongs to a moment of the other -----------------------------------------


def aligned_position(
    a: Side,
    b: Side,
    by: By,
    at: int,
    *,
    cpu: int | None = None,
    stop: threading.Event | None = None,
) -> int:
    """The position in ``b`` that belongs to position ``at`` of ``a``; the end of ``b`` if it is not so far.

    Parameters
    ----------
    by : MICRO_OP: as many micro-ops.  CYCLE: the first position at which the next micro-op begins as late or
        later.  OPERATION: the first position at which as many operations are done.
    cpu : whose operations count; None for those of all together

    Raises
    ------
    CompareCancelled
        If ``stop`` ended it.
    """
    if by == By.MICRO_OP:
        return min(at, b.end)
    with cursors_kept(a, b):
        a.go(at, stop)
        if by == By.CYCLE:
            wanted = next_millicycles(a.recording)
            return _first_position(b, lambda recording: next_millicycles(recording) >= wanted, stop)
        done = operations_done(a.recording, cpu)
        return _first_position(b, lambda recording: operations_done(recording, cpu) >= done, stop)


def operations_done(recording: Recording, cpu: int | None = None) -> int:
    """Operations since the start, of one CPU or of all."""
    session = recording.session
    column = L.HARDWARE_COUNTERS + session.booted.program.counters.index("OPERATIONS")
    counts = session.machine.counters()[:, column]
    return int(counts.sum() if cpu is None else counts[cpu])


def _first_position(side: Side, reached: Callable[[Recording], bool], stop: threading.Event | None) -> int:
    """The first position at which something that stays true is true; the end if it never is."""

    def is_reached(position: int) -> bool:
        side.go(position, stop)
        return reached(side.recording)

    if is_reached(0):
        return 0
    low, high = 0, side.end
    if not is_reached(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if is_reached(middle):
            high = middle
        else:
            low = middle
    return high
