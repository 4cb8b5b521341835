"""Runs a machine and writes down what every micro-op did: spans, marks, executions, calls.

``Tracer``, ``CostCounter`` and ``CallFinder`` have an ``engine`` for ``Machine.run``.  It executes one
micro-op at a time and compares the state before and after; nothing of the run changes.  What is found grows
in arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.counting import IDLE, SLOW_PATH, WAITING, class_of
from slubviz.hw.executed import (
    K_ALL,
    K_CONTENDED,
    K_CPUS,
    K_FAILED,
    K_FUNCTION,
    K_PC,
    K_START,
    K_WAITED,
    K_WINDOW,
    K_WORDS,
    entered,
    entered_after,
    executed_cpu,
    executed_pc,
    new_notes,
    note_next,
)
from slubviz.hw.isa import (
    BREAK_BIT,
    F_B,
    F_C,
    F_OP,
    FRAME_KIND,
    FRAME_RETURN_PC,
    FRAME_RETURN_WINDOW,
    KIND_CALL,
    WORDS,
    Op,
    Status,
)
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_CLOCK,
    C_CONTENDED,
    C_IRQ_DEPTH,
    C_PC,
    C_STATE,
    C_WINDOW,
    CPU_WORDS,
    H_COUNTER_WORDS,
    H_COUNTERS,
    H_CPU_BLOCKS,
    H_CPUS,
    H_EVENT_CPU,
    H_MICRO_OPS,
    N_CMPXCHG_FAILED,
    N_LOCK_WAIT_MILLICYCLES,
    N_LOCKS_CONTENDED,
    NEVER,
    P_INTERRUPT_ENTRY,
)
from slubviz.hw.machine import IntArray
from slubviz.hw.memory import word_index
from slubviz.hw.stepping import ARRAY, INT, STEP, stepping_loop

#: As the viewers number marks.
M_SLOW_PATH, M_RETRY, M_CONTENDED, M_INTERRUPT = 0, 1, 2, 3
#: What an object history looks for at a function, see ``CallFinder``.
T_NOTHING, T_RETURNS, T_TAKES, T_RETURNS_MANY, T_TAKES_MANY = range(5)
_RUNNING, _WAITING_LOCK = 1, 2
_GOES_ON = int(Status.MICRO_OPS)
_FULL = int(Status.BREAKPOINT)
_OP_MASK = BREAK_BIT - 1
_UNTOUCHED = -2
_CALL, _RET, _RENDEZVOUS = int(Op.CALL), int(Op.RET), int(Op.RENDEZVOUS)

#: W: words of a tracer's own state.
W_EVENTS, W_MARKS, W_CALLS = 0, 1, 2
W_LAST = 8  #: per CPU: activity, depth, depth at which it found a lock taken; then one activity per depth
LAST_ACTIVITY, LAST_DEPTH, LAST_CONTENDED, LAST_AT_DEPTH = 0, 1, 2, 3
MOST_DEPTH = 64
LAST_WORDS = LAST_AT_DEPTH + MOST_DEPTH
EVENT_WORDS = 5  #: position, CPU, millicycles, activity, depth
MARK_WORDS = 4  #: position, millicycles, CPU, kind
CALL_WORDS = 6  #: position, millicycles, CPU, function, micro-op of the call, depth
_ROOM = 1 << 14
#: An array that a bulk function is given is not read further than this.
_MOST_BULK = 1 << 16


# --- activities ---------------------------------------------------------------------------------------
@njit("void(int64[::1], int64, int64, int64[::1], int64[::1])", internal=True)
def note_mark(S, cpu, kind, W, marks):
    """Write one mark at the position just reached."""
    at = W[W_MARKS] * MARK_WORDS
    marks[at] = S[H_MICRO_OPS]
    marks[at + 1] = S[S[H_CPU_BLOCKS] + cpu * CPU_WORDS + C_CLOCK]
    marks[at + 2] = cpu
    marks[at + 3] = kind
    W[W_MARKS] += 1


@njit("int64(int64[::1], int64, int64, int64[::1], int64[::1])", internal=True)
def activity_of(S, cpu, depth, classes, W):
    """What a CPU is doing."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    last = W_LAST + cpu * LAST_WORDS
    if S[block + C_CONTENDED] == 0:
        W[last + LAST_CONTENDED] = -1
    elif W[last + LAST_CONTENDED] < 0:
        W[last + LAST_CONTENDED] = depth  # a handler that comes meanwhile does not wait for that lock
    if S[block + C_STATE] == _RUNNING:
        return WAITING if W[last + LAST_CONTENDED] == depth else class_of(S, block, classes)
    return WAITING if S[block + C_STATE] == _WAITING_LOCK else IDLE


@njit("void(int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])", internal=True)
def note_change(S, cpu, classes, W, events, marks):
    """Write an event if a CPU does something else than before, and a mark if that is a slow path."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    last = W_LAST + cpu * LAST_WORDS
    depth = min(S[block + C_IRQ_DEPTH], MOST_DEPTH - 1)
    now = activity_of(S, cpu, depth, classes, W)
    if now == W[last + LAST_ACTIVITY] and depth == W[last + LAST_DEPTH]:
        return
    at = W[W_EVENTS] * EVENT_WORDS
    events[at] = S[H_MICRO_OPS]
    events[at + 1] = cpu
    events[at + 2] = S[block + C_CLOCK]
    events[at + 3] = now
    events[at + 4] = depth
    W[W_EVENTS] += 1
    for level in range(W[last + LAST_DEPTH] + 1, depth + 1):
        W[last + LAST_AT_DEPTH + level] = IDLE
    if now == SLOW_PATH and W[last + LAST_AT_DEPTH + depth] != SLOW_PATH:
        note_mark(S, cpu, M_SLOW_PATH, W, marks)
    if now != WAITING:
        W[last + LAST_AT_DEPTH + depth] = now
    W[last + LAST_ACTIVITY] = now
    W[last + LAST_DEPTH] = depth


@njit("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def note_changes(S, classes, W, events, marks):
    """``note_change`` for every CPU."""
    for cpu in range(S[H_CPUS]):
        note_change(S, cpu, classes, W, events, marks)


@stepping_loop(ARRAY, ARRAY, ARRAY, ARRAY, ARRAY)
def trace_spans(step, S, code, P, limit, classes, K, W, events, marks):
    """Run up to ``limit`` and write events and marks; BREAKPOINT when there is no room for more."""
    cpus = S[H_CPUS]
    status = _GOES_ON
    while S[H_MICRO_OPS] < limit:
        room = min(len(events) // EVENT_WORDS - W[W_EVENTS], len(marks) // MARK_WORDS - W[W_MARKS])
        if room < 3 * cpus + 3:
            return _FULL
        cpu = note_next(S, K)
        woken_before = S[H_EVENT_CPU]
        S[H_EVENT_CPU] = _UNTOUCHED
        status = step(S, code, P, S[H_MICRO_OPS] + 1, NEVER)
        woken = S[H_EVENT_CPU]
        if woken == _UNTOUCHED:
            S[H_EVENT_CPU] = woken_before
        done = executed_cpu(S, K, cpu)
        for other in range(cpus if K[K_ALL] else 0):
            for _ in range(entered(S, K, other)):
                note_mark(S, other, M_INTERRUPT, W, marks)
        if done >= 0:
            for _ in range(0 if K[K_ALL] else entered(S, K, done)):
                note_mark(S, done, M_INTERRUPT, W, marks)
            counters = S[H_COUNTERS] + done * S[H_COUNTER_WORDS]
            at = K_CPUS + done * K_WORDS
            if S[counters + N_CMPXCHG_FAILED] != K[at + K_FAILED]:
                note_mark(S, done, M_RETRY, W, marks)
            if S[counters + N_LOCKS_CONTENDED] != K[at + K_CONTENDED]:
                note_mark(S, done, M_CONTENDED, W, marks)
        if (
            done < 0
            or K[K_ALL]
            or code[K[K_CPUS + done * K_WORDS + K_PC] * WORDS + F_OP] & _OP_MASK == _RENDEZVOUS
        ):
            note_changes(S, classes, W, events, marks)  # more than one CPU may do something else now
        else:
            note_change(S, done, classes, W, events, marks)
            if woken >= 0:
                note_change(S, woken, classes, W, events, marks)
        if status != _GOES_ON:
            return status
    return status


# --- costs ---------------------------------------------------------------------------------------------
@stepping_loop(ARRAY, ARRAY, ARRAY, ARRAY)
def trace_costs(step, S, code, P, limit, K, times, millicycles, waited):
    """Run up to ``limit`` and count executions, cost and waiting time of each micro-op."""
    status = _GOES_ON
    while S[H_MICRO_OPS] < limit:
        cpu = note_next(S, K)
        status = step(S, code, P, S[H_MICRO_OPS] + 1, NEVER)
        done = executed_cpu(S, K, cpu)
        if done >= 0:
            pc = executed_pc(S, P, K, done, len(times))
            at = K_CPUS + done * K_WORDS
            block = S[H_CPU_BLOCKS] + done * CPU_WORDS
            counters = S[H_COUNTERS] + done * S[H_COUNTER_WORDS]
            entry = entered_after(S, K, done, pc) * P[P_INTERRUPT_ENTRY]
            times[pc] += 1
            waited[pc] += S[counters + N_LOCK_WAIT_MILLICYCLES] - K[at + K_WAITED]
            if code[pc * WORDS + F_OP] & _OP_MASK != _RENDEZVOUS:  # waiting for the others is nobody's cost
                millicycles[pc] += S[block + C_CLOCK] - K[at + K_START] - entry
            if entry:
                millicycles[S[block + C_PC]] += entry
        for other in range(S[H_CPUS] if K[K_ALL] else 0):
            if other != done and entered(S, K, other):  # and another CPU came first then
                block = S[H_CPU_BLOCKS] + other * CPU_WORDS
                millicycles[S[block + C_PC]] += S[block + C_CLOCK] - K[K_CPUS + other * K_WORDS + K_START]
        if status != _GOES_ON:
            return status
    return status


# --- calls ---------------------------------------------------------------------------------------------
@njit("int64(int64[::1], int64, int64, int64, int64)", internal=True)
def is_in_array(S, array, count, word_bytes, address):
    """Whether one of the pointers in an array is ``address``."""
    for i in range(min(count, _MOST_BULK)):
        place = array + i * word_bytes
        index = word_index(S, place & ~7, 8, 0)
        if index < 0:
            return 0
        value = S[index]
        if word_bytes == 4:
            value = (value >> (32 if place & 4 else 0)) & 0xFFFFFFFF
        if value == address:
            return 1
    return 0


@njit("int64(int64[::1], int64[::1], int64, int64, int64, int64, int64)", internal=True)
def passes(S, kinds, function, window, value, address, word_bytes):
    """Whether a call (or return of ``value``) hands over the object at ``address``."""
    kind = kinds[function * 3]
    if kind == T_TAKES:
        return 1 if S[window + kinds[function * 3 + 1]] == address else 0
    if kind == T_RETURNS:
        return 1 if value == address else 0
    if kind == T_TAKES_MANY or (kind == T_RETURNS_MANY and value != 0):
        count, array = S[window + kinds[function * 3 + 1]], S[window + kinds[function * 3 + 2]]
        return is_in_array(S, array, count, word_bytes, address)
    return 0


@stepping_loop(ARRAY, INT, INT, ARRAY, ARRAY, ARRAY)
def trace_calls(step, S, code, P, limit, kinds, address, word_bytes, K, W, calls):
    """Run up to ``limit`` and write the calls and returns that hand over an object.

    ``kinds`` holds three words for each function: what it does, and registers of arguments.  BREAKPOINT when
    there is no room for more.
    """
    status = _GOES_ON
    while S[H_MICRO_OPS] < limit:
        if (W[W_CALLS] + 1) * CALL_WORDS > len(calls):
            return _FULL
        cpu = note_next(S, K)
        status = step(S, code, P, S[H_MICRO_OPS] + 1, NEVER)
        done = executed_cpu(S, K, cpu)
        if done >= 0:
            pc = executed_pc(S, P, K, done, len(code) // WORDS)
            op = code[pc * WORDS + F_OP] & _OP_MASK
            at = K_CPUS + done * K_WORDS
            block = S[H_CPU_BLOCKS] + done * CPU_WORDS
            after = entered_after(S, K, done, pc)
            function, window, call = -1, K[at + K_WINDOW], pc
            value = 0
            if op == _CALL:
                function, window = code[pc * WORDS + F_C], S[block + C_WINDOW]
                if after:  # under the handler's
                    window = S[window + FRAME_RETURN_WINDOW]
                if kinds[function * 3] != T_TAKES and kinds[function * 3] != T_TAKES_MANY:
                    function = -1
            elif op == _RET and entered(S, K, done) == after and S[window + FRAME_KIND] == KIND_CALL:
                function, call = K[at + K_FUNCTION], S[window + FRAME_RETURN_PC] - 1
                if kinds[function * 3] != T_RETURNS and kinds[function * 3] != T_RETURNS_MANY:
                    function = -1
                elif code[pc * WORDS + F_B] >= 0:
                    value = S[window + code[pc * WORDS + F_B]]
            if function >= 0 and passes(S, kinds, function, window, value, address, word_bytes):
                row = W[W_CALLS] * CALL_WORDS
                calls[row] = S[H_MICRO_OPS]
                calls[row + 1] = S[block + C_CLOCK]
                calls[row + 2] = done
                calls[row + 3] = function
                calls[row + 4] = call
                calls[row + 5] = S[block + C_IRQ_DEPTH] - after
                W[W_CALLS] += 1
        if status != _GOES_ON:
            return status
    return status


class Tracer:
    """Spans and marks of a stretch of a run.

    Parameters
    ----------
    classes : activity of each micro-op, or ``counting.AS_CALLER``, shape (micro-ops,)
    cpus : number of CPUs
    """

    def __init__(self, classes: NDArray[np.int64], cpus: int) -> None:
        self._classes = np.ascontiguousarray(classes, dtype=np.int64)
        self._notes = new_notes(cpus)
        self._w = np.full(W_LAST + cpus * LAST_WORDS, -1, dtype=np.int64)
        self._w[:W_LAST] = 0
        room = max(_ROOM, 8 * cpus)
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
        self.look(S)  # a phase may have begun
        while True:
            arrays = (self._classes, self._notes, self._w, self._events, self._marks)
            with np.errstate(over="ignore"):  # where nothing is jitted the trace hash wraps with a warning
                status = int(trace_spans(STEP, S, code, P, limit, *arrays))
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


class CostCounter:
    """Executions and cost of each micro-op over a stretch of a run.

    Attributes
    ----------
    times : executions, shape (micro-ops,)
    millicycles : what they took, entering an interrupt counts for the first micro-op of its handler; without
        waiting for locks and for other CPUs
    waited_millicycles : spent waiting for the lock that the micro-op took in the end
    """

    def __init__(self, micro_ops: int, cpus: int) -> None:
        self._notes = new_notes(cpus)
        self.times = np.zeros(micro_ops, dtype=np.int64)
        self.millicycles = np.zeros(micro_ops, dtype=np.int64)
        self.waited_millicycles = np.zeros(micro_ops, dtype=np.int64)

    def engine(self, S: IntArray, code: IntArray, P: IntArray, limit: int, _: int) -> int:
        """See ``Machine.run``."""
        arrays = (self._notes, self.times, self.millicycles, self.waited_millicycles)
        with np.errstate(over="ignore"):
            return int(trace_costs(STEP, S, code, P, limit, *arrays))


class CallFinder:
    """Calls and returns that hand over one object, over a stretch of a run.

    Parameters
    ----------
    kinds : for each function ``T_*`` and two registers, shape (functions, 3).  TAKES: the first holds the
        object.  TAKES_MANY, RETURNS_MANY: number of objects, and the array of pointers to them
    address : the object's
    word_bytes : size of a pointer
    cpus : number of CPUs
    """

    def __init__(self, kinds: NDArray[np.int64], address: int, word_bytes: int, cpus: int) -> None:
        self._kinds = np.ascontiguousarray(kinds, dtype=np.int64).reshape(-1)
        self._address, self._word_bytes = address, word_bytes
        self._notes = new_notes(cpus)
        self._w = np.zeros(W_LAST, dtype=np.int64)
        self._calls = np.zeros(_ROOM * CALL_WORDS, dtype=np.int64)
        self._kept: list[IntArray] = []

    def engine(self, S: IntArray, code: IntArray, P: IntArray, limit: int, _: int) -> int:
        """See ``Machine.run``."""
        while True:
            arrays = (self._notes, self._w, self._calls)
            wanted = (self._kinds, self._address, self._word_bytes)
            with np.errstate(over="ignore"):
                status = int(trace_calls(STEP, S, code, P, limit, *wanted, *arrays))
            if status != _FULL:
                return status
            self._keep()

    def _keep(self) -> None:
        self._kept.append(self._calls[: self._w[W_CALLS] * CALL_WORDS].copy())
        self._w[W_CALLS] = 0

    def calls(self) -> IntArray:
        """Rows of position, millicycles, CPU, function, micro-op of the call, depth of interrupts."""
        self._keep()
        found: IntArray = np.concatenate(self._kept).reshape(-1, CALL_WORDS)
        return found
