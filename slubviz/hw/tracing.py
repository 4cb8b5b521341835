"""Runs a machine and writes down what every micro-op did: spans, marks, executions, calls.

A ``Tracer`` has an ``engine`` for ``Machine.run``.  It executes one micro-op at a time and compares the
state before and after.  What it finds grows in arrays; nothing of the run changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.isa import Status
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_CLOCK,
    C_FUNCTION,
    C_IRQ_DEPTH,
    C_MICRO_OPS,
    C_PC,
    C_STATE,
    C_WINDOW,
    CPU_WORDS,
    FUNCTION_WORDS,
    H_COUNTER_WORDS,
    H_COUNTERS,
    H_CPU_BLOCKS,
    H_CPUS,
    H_MICRO_OPS,
    N_CMPXCHG_FAILED,
    N_LOCKS_CONTENDED,
    NEVER,
    P_COUNT,
)
from slubviz.hw.machine import IntArray
from slubviz.hw.stepping import ARRAY, STEP, next_cpu, stepping_loop

_RUNNING, _WAITING_LOCK = 1, 2
_IDLE, _WAITING = 0, 4  # as the viewers number activities
SLOW_PATH = 3
M_SLOW_PATH, M_RETRY, M_CONTENDED, M_INTERRUPT = 0, 1, 2, 3
_GOES_ON = int(Status.MICRO_OPS)
_FULL = int(Status.BREAKPOINT)

#: W: words of the tracer's own state.
W_EVENTS, W_MARKS, W_CALLS, W_CPUS = 0, 1, 2, 3
W_LAST = 8  #: per CPU: activity, depth, what it did when it last ran at this depth
_LAST_WORDS = 3
EVENT_WORDS = 5  #: position, CPU, millicycles, activity, depth
MARK_WORDS = 4  #: position, millicycles, CPU, kind
CALL_WORDS = 6  #: position, millicycles, CPU, micro-op, value, depth
_ROOM = 1 << 14


@njit("int64(int64[::1], int64, int64[::1])", internal=True)
def activity_of(S, block, classes):
    """What the CPU of a block is doing."""
    state = S[block + C_STATE]
    if state == _RUNNING:
        pc = S[block + C_PC]
        return classes[pc] if 0 <= pc < len(classes) else _IDLE
    return _WAITING if state == _WAITING_LOCK else _IDLE


@njit("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def note_changes(S, classes, W, events, marks):
    """Write an event for every CPU that does something else than before, and marks for what that tells."""
    for cpu in range(S[H_CPUS]):
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        last = W_LAST + cpu * _LAST_WORDS
        now = activity_of(S, block, classes)
        depth = S[block + C_IRQ_DEPTH]
        if now == W[last] and depth == W[last + 1]:
            continue
        at = W[W_EVENTS] * EVENT_WORDS
        events[at] = S[H_MICRO_OPS]
        events[at + 1] = cpu
        events[at + 2] = S[block + C_CLOCK]
        events[at + 3] = now
        events[at + 4] = depth
        W[W_EVENTS] += 1
        kind = -1
        if depth > W[last + 1]:
            kind = M_INTERRUPT
        elif now == SLOW_PATH and W[last + 2] != SLOW_PATH and depth == W[last + 1]:
            kind = M_SLOW_PATH
        if kind >= 0:
            note_mark(S, block, cpu, kind, W, marks)
        W[last] = now
        W[last + 1] = depth
        if now != _WAITING:
            W[last + 2] = now


@njit("void(int64[::1], int64, int64, int64, int64[::1], int64[::1])", internal=True)
def note_mark(S, block, cpu, kind, W, marks):
    """Write one mark at the position just reached."""
    at = W[W_MARKS] * MARK_WORDS
    marks[at] = S[H_MICRO_OPS]
    marks[at + 1] = S[block + C_CLOCK]
    marks[at + 2] = cpu
    marks[at + 3] = kind
    W[W_MARKS] += 1


@stepping_loop(ARRAY, ARRAY, ARRAY, ARRAY)
def trace_spans(step, S, code, P, limit, classes, W, events, marks):
    """Run up to ``limit`` and write events and marks; BREAKPOINT when there is no room for more."""
    cpus = S[H_CPUS]
    status = _GOES_ON
    while S[H_MICRO_OPS] < limit:
        if (W[W_EVENTS] + cpus) * EVENT_WORDS > len(events) or (W[W_MARKS] + cpus + 2) * MARK_WORDS > len(
            marks
        ):
            return _FULL
        cpu = next_cpu(S)
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        counters = S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS]
        failed = S[counters + N_CMPXCHG_FAILED]
        contended = S[counters + N_LOCKS_CONTENDED]
        status = step(S, code, P, S[H_MICRO_OPS] + 1, NEVER)
        if S[counters + N_CMPXCHG_FAILED] != failed:
            note_mark(S, block, cpu, M_RETRY, W, marks)
        if S[counters + N_LOCKS_CONTENDED] != contended:
            note_mark(S, block, cpu, M_CONTENDED, W, marks)
        note_changes(S, classes, W, events, marks)
        if status != _GOES_ON:
            return status
    return status


@stepping_loop(ARRAY, ARRAY)
def trace_costs(step, S, code, P, limit, times, millicycles):
    """Run up to ``limit`` and count executions and cost of each micro-op."""
    status = _GOES_ON
    while S[H_MICRO_OPS] < limit:
        cpu = next_cpu(S)
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        pc, clock, depth = S[block + C_PC], S[block + C_CLOCK], S[block + C_IRQ_DEPTH]
        done = S[block + C_MICRO_OPS]
        status = step(S, code, P, S[H_MICRO_OPS] + 1, NEVER)
        if S[block + C_MICRO_OPS] != done:
            if S[block + C_IRQ_DEPTH] > depth:  # the handler's first micro-op was executed
                pc = P[P_COUNT + S[block + C_FUNCTION] * FUNCTION_WORDS]
            if 0 <= pc < len(times):
                times[pc] += 1
                millicycles[pc] += S[block + C_CLOCK] - clock
        if status != _GOES_ON:
            return status
    return status


@stepping_loop(ARRAY, ARRAY, ARRAY)
def trace_calls(step, S, code, P, limit, registers, W, calls):
    """Run up to ``limit`` and write the value of a register before each micro-op that has one to look at.

    ``registers[pc]`` is that register plus one; 0 for the others.
    """
    status = _GOES_ON
    while S[H_MICRO_OPS] < limit:
        if (W[W_CALLS] + 1) * CALL_WORDS > len(calls):
            return _FULL
        cpu = next_cpu(S)
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        pc, depth, done = S[block + C_PC], S[block + C_IRQ_DEPTH], S[block + C_MICRO_OPS]
        register = registers[pc] if 0 <= pc < len(registers) else 0
        value = S[S[block + C_WINDOW] + register - 1] if register else 0
        status = step(S, code, P, S[H_MICRO_OPS] + 1, NEVER)
        if register and S[block + C_MICRO_OPS] != done and S[block + C_IRQ_DEPTH] <= depth:
            at = W[W_CALLS] * CALL_WORDS
            calls[at] = S[H_MICRO_OPS]
            calls[at + 1] = S[block + C_CLOCK]
            calls[at + 2] = cpu
            calls[at + 3] = pc
            calls[at + 4] = value
            calls[at + 5] = depth
            W[W_CALLS] += 1
        if status != _GOES_ON:
            return status
    return status


class Tracer:
    """Spans and marks of a stretch of a run.

    Parameters
    ----------
    classes : activity of each micro-op, shape (micro-ops,)
    cpus : number of CPUs
    """

    def __init__(self, classes: NDArray[np.int64], cpus: int) -> None:
        self._classes = np.ascontiguousarray(classes, dtype=np.int64)
        self._w = np.zeros(W_LAST + cpus * _LAST_WORDS, dtype=np.int64)
        self._w[W_LAST:] = -1
        room = max(_ROOM, 4 * cpus)
        self._events = np.zeros(room * EVENT_WORDS, dtype=np.int64)
        self._marks = np.zeros(room * MARK_WORDS, dtype=np.int64)
        self._kept: list[tuple[IntArray, IntArray]] = []

    def begin(self, S: IntArray) -> None:
        """The stretch begins with this state."""
        self.look(S)
        self._w[W_MARKS] = 0  # what was so before did not happen here

    def look(self, S: IntArray) -> None:
        """The state may have been changed from outside."""
        self._make_room()
        note_changes(S, self._classes, self._w, self._events, self._marks)

    def engine(self, S: IntArray, code: IntArray, P: IntArray, limit: int, _: int) -> int:
        """See ``Machine.run``."""
        while True:
            status = int(
                trace_spans(
                    STEP, S, code, P, limit, self._classes, self._w, self._events, self._marks
                )
            )
            if status != _FULL:
                return status
            self._make_room()

    def _make_room(self) -> None:
        events = self._events[: self._w[W_EVENTS] * EVENT_WORDS].copy()
        marks = self._marks[: self._w[W_MARKS] * MARK_WORDS].copy()
        self._kept.append((events, marks))
        self._w[W_EVENTS] = self._w[W_MARKS] = 0

    def spans(self, last: int) -> IntArray:
        """Rows of CPU, first and last position, first and last millicycles, activity, depth; by CPU.

        ``last`` is the position at which the stretch ends.
        """
        self._make_room()
        events = np.concatenate([events for events, _ in self._kept]).reshape(-1, EVENT_WORDS)
        events = events[np.argsort(events[:, 1], kind="stable")]
        spans = np.empty((len(events), 7), dtype=np.int64)
        spans[:, 0] = events[:, 1]
        spans[:, 1] = events[:, 0]
        spans[:, 3] = events[:, 2]
        spans[:, 5:] = events[:, 3:]
        spans[:-1, 2] = events[1:, 0]
        spans[:-1, 4] = events[1:, 2]
        ends = np.append(events[1:, 1] != events[:-1, 1], True) if len(events) else np.zeros(0, dtype=bool)
        spans[ends, 2] = last
        # A span that is still open ends where its CPU is.
        spans[ends, 4] = np.maximum(spans[ends, 3], self._clocks_at_end[spans[ends, 0]])
        kept: IntArray = spans[spans[:, 2] > spans[:, 1]]
        return kept

    def end(self, S: IntArray) -> None:
        """The stretch ends with this state."""
        blocks = S[S[H_CPU_BLOCKS] :][: int(S[H_CPUS]) * CPU_WORDS].reshape(-1, CPU_WORDS)
        self._clocks_at_end = blocks[:, C_CLOCK].copy()

    def marks(self) -> IntArray:
        """Rows of position, millicycles, CPU, kind; by position."""
        self._make_room()
        found: IntArray = np.concatenate([marks for _, marks in self._kept]).reshape(-1, MARK_WORDS)
        return found
