"""The operations of a workload one by one: when each was done, how long it took, which object it was about.

A workload counts its finished operations (counter OPERATIONS), so the n-th operation of a CPU can be found
in any run, whatever the kernel.  The log is read by running a part of a recording again with breakpoints in a
copy of the program.  Leaves out: objects of bulk calls, and what interrupts allocate and free.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.isa import BREAK_BIT, F_B, F_IMM, F_OP, WORDS, Op, Status
from slubviz.hw.machine import Engine, IntArray, plain_engine
from slubviz.model.lang import Program
from slubviz.model.travel.activity import ALLOCATING
from slubviz.model.travel.breakpoint_search import object_entries
from slubviz.model.travel.recording import Recording

_PIECE_MICRO_OPS = 1_000_000


@dataclass(frozen=True)
class OperationLog:
    """Operations in the order in which they were finished; all arrays have one entry each."""

    cpu: NDArray[np.int64]
    number: NDArray[np.int64]  #: how many the CPU has done since the start, this one included
    position: NDArray[np.int64]  #: micro-ops: right after it was counted
    clock_millicycles: NDArray[np.int64]  #: of the CPU, at that moment
    millicycles: NDArray[np.int64]  #: since its operation before; -1 if that is not in the log
    object: NDArray[np.int64]  #: address of what it allocated or freed last, 0 if not known

    def __len__(self) -> int:
        return len(self.cpu)

    def objects_by_appearance(self, page_shift: int) -> list[tuple[int, int]]:
        """(number of its page in the order of first use, offset in it) of each object; (-1, 0) for none.

        Two kernels take other pages for the same slabs, so this is how their objects can be compared.
        """
        seen: dict[int, int] = {}
        places = []
        for address in self.object.tolist():
            page, offset = address >> page_shift, address & ((1 << page_shift) - 1)
            places.append((seen.setdefault(page, len(seen)), offset) if address else (-1, 0))
        return places


def read_operations(
    recording: Recording,
    first: int,
    last: int,
    *,
    stop: threading.Event | None = None,
    progress: Callable[[float], None] | None = None,
) -> OperationLog | None:
    """The operations that the cursor's branch finishes after one position and up to another.

    The cursor is somewhere between the two afterwards.

    Parameters
    ----------
    first, last : in micro-ops; no further than the branch is recorded
    stop : when it is set, reading ends
    progress : called with the done share

    Returns
    -------
    OperationLog or None
        None if ``stop`` ended it.
    """
    last = min(last, recording.end)
    recording.seek(first, stop=stop, prepare=False)
    reader = _Reader(recording)
    phase = recording.session.phase_index
    if first == 0:
        reader.phase_begins()
    while recording.position < last and not recording.over:
        if stop and stop.is_set():
            return None
        piece = min(last - recording.position, _PIECE_MICRO_OPS)
        recording.run(piece, engine=reader.engine, stop_at_phase_end=True)
        if recording.session.phase_index != phase:
            phase = recording.session.phase_index
            reader.phase_begins()
        if progress:
            progress((recording.position - first) / max(last - first, 1))
    return reader.log()


class _Reader:
    """Notes operations while the machine runs."""

    def __init__(self, recording: Recording) -> None:
        self._session = recording.session
        program = self._session.booted.program
        self._counts = _count_micro_ops(program)
        self._returns, self._takes = _object_micro_ops(program)
        self._counter = L.HARDWARE_COUNTERS + program.counters.index("OPERATIONS")
        self._marked_of: IntArray | None = None
        self._marked: IntArray = np.zeros(0, dtype=np.int64)
        cpus = self._session.machine_spec.cpus
        self._objects = [0] * cpus
        self._clocks = [-1] * cpus  # of the last operation, -1 while unknown
        self._columns = tuple(array("q") for _ in range(6))
        self.engine: Engine = self._run

    def phase_begins(self) -> None:
        """The clocks of all CPUs have been set to the same; the first operation counts from there."""
        self._clocks = [self._session.progress().clock_before_millicycles] * len(self._clocks)

    def log(self) -> OperationLog:
        """What was noted."""
        return OperationLog(*(np.array(column, dtype=np.int64) for column in self._columns))

    def _run(self, S: IntArray, code: IntArray, P: IntArray, limit: int, millicycle_limit: int) -> int:
        if code is not self._marked_of:  # the first time, and after a change of an option
            self._marked_of, self._marked = code, code.copy()
            for pc in (*self._counts, *self._returns, *self._takes):
                self._marked[pc * WORDS + F_OP] += BREAK_BIT
        while True:
            status = plain_engine(S, self._marked, P, limit, millicycle_limit)
            if status != Status.BREAKPOINT:
                return status
            self._note(S)
            S[L.H_SKIP_BREAK] = 1

    def _note(self, S: IntArray) -> None:
        cpu = int(S[L.H_CURRENT_CPU])
        block = int(S[L.H_CPU_BLOCKS]) + cpu * L.CPU_WORDS
        pc, window = int(S[block + L.C_PC]), int(S[block + L.C_WINDOW])
        if S[block + L.C_IRQ_DEPTH] > 0:
            return
        if pc in self._returns:
            self._objects[cpu] = int(S[window + self._returns[pc]])
        elif pc in self._takes:
            self._objects[cpu] = int(S[window + self._takes[pc]])
        else:
            register = self._counts[pc]
            counted = 1 if register is None else int(S[window + register])
            if counted > 0:
                self._note_operation(S, cpu, block, counted)

    def _note_operation(self, S: IntArray, cpu: int, block: int, counted: int) -> None:
        clock = int(S[block + L.C_CLOCK])
        counters = int(S[L.H_COUNTERS]) + cpu * int(S[L.H_COUNTER_WORDS])
        before, self._clocks[cpu] = self._clocks[cpu], clock
        row = (
            cpu,
            int(S[counters + self._counter]) + counted,
            int(S[L.H_MICRO_OPS]) + 1,
            clock,
            clock - before if before >= 0 else -1,
            self._objects[cpu],
        )
        self._objects[cpu] = 0
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)


def _count_micro_ops(program: Program) -> dict[int, int | None]:
    """Micro-ops that count finished operations, and the register that says how many; None is one."""
    rows = program.code.reshape(-1, WORDS)
    of_operations = rows[:, F_IMM] == program.counters.index("OPERATIONS")
    ones = np.flatnonzero((rows[:, F_OP] == Op.COUNT) & of_operations)
    more = np.flatnonzero((rows[:, F_OP] == Op.COUNT_N) & of_operations)
    return {int(pc): None for pc in ones} | {int(pc): int(rows[pc, F_B]) for pc in more}


def _object_micro_ops(program: Program) -> tuple[dict[int, int], dict[int, int]]:
    """Returns of allocations and starts of frees, each with the register that holds the object."""
    rows = program.code.reshape(-1, WORDS)
    returns = {}
    for function in program.functions:
        if function.name in ALLOCATING and not function.inline:
            for pc in range(function.entry_pc, function.end_pc):
                if rows[pc, F_OP] == Op.RET and rows[pc, F_B] >= 0:
                    returns[pc] = int(rows[pc, F_B])
    return returns, object_entries(program)
