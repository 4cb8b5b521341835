"""What happened in a run, for a picture of all of it and for a picture of a part to the micro-op.

The *overview* is counted while the run is recorded: at most ``MOST_BUCKETS`` buckets of equal length in
micro-ops; when they are full, two become one.  The *detail* is found by running a part again and looking at
every micro-op: what each CPU does from when to when, and marks.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.isa import Status
from slubviz.model.travel.activity import activity_of_micro_ops

if TYPE_CHECKING:
    from slubviz.hw.tracing import Tracer
    from slubviz.model.session import Session
    from slubviz.model.travel.recording import Recording

IntArray = NDArray[np.int64]

MOST_BUCKETS = 4096
FIRST_BUCKET_MICRO_OPS = 64
#: The most micro-ops of which a detail is made.
MOST_DETAIL_MICRO_OPS = 2_000_000


class MarkKind(IntEnum):
    """Something that happened at one position."""

    SLOW_PATH = 0  #: a slow path was entered
    RETRY = 1  #: a compare-and-exchange failed
    CONTENDED = 2  #: a lock was found taken
    INTERRUPT = 3  #: a handler was entered
    PHASE = 4
    CHANGE = 5
    BOOKMARK = 6
    FAULT = 7


@dataclass(frozen=True)
class Phase:
    """Where a phase of the test begins."""

    position: int  #: micro-ops
    name: str


@dataclass(frozen=True, eq=False)
class Overview:
    """The whole of a branch in ``B`` buckets; ``C`` CPUs."""

    positions: IntArray  #: edges of the buckets, shape (B + 1,)
    clock_cycles: NDArray[np.float64]  #: latest clock of any CPU at each edge, shape (B + 1,)
    fast_ops: IntArray  #: fast allocations and frees of each CPU, shape (B, C)
    slow_ops: IntArray  #: slow ones
    wait_cycles: NDArray[np.float64]  #: cycles spent waiting for locks
    interrupts: IntArray  #: handlers entered
    retries: IntArray  #: compare-and-exchanges that failed
    contended: IntArray  #: locks found taken
    max_depth: IntArray  #: of interrupts: deepest seen at the edges, at least 1 where a handler was entered
    phases: tuple[Phase, ...]
    activity: IntArray  #: Activity of each CPU at each edge, shape (B + 1, C): samples, for shares of time


@dataclass(frozen=True, eq=False)
class Detail:
    """A part of a run to the micro-op: ``N`` spans, by CPU and position, and ``M`` marks, by position."""

    first: int  #: position of the beginning
    last: int  #: position of the end
    cpu: IntArray  #: (N,)
    first_position: IntArray  #: (N,)
    last_position: IntArray  #: (N,); where the CPU's next span begins
    first_cycle: NDArray[np.float64]  #: the CPU's clock
    last_cycle: NDArray[np.float64]
    activity: IntArray  #: Activity
    depth: IntArray  #: of interrupts
    mark_position: IntArray  #: (M,); the micro-op that ends there did it
    mark_cycle: NDArray[np.float64]
    mark_cpu: IntArray
    mark_kind: IntArray  #: MarkKind


class OverviewRecorder:
    """Counts buckets while a run is recorded: run it with ``engine``, or tell each ``piece``."""

    def begin(self, session: Session) -> None:
        """The run is at its start."""
        from slubviz.hw.counting import W_COLUMNS

        names = session.counter_names()
        columns = (
            [i for i, name in enumerate(names) if name in ("ALLOC_FASTPATH", "FREE_FASTPATH")],
            [i for i, name in enumerate(names) if name in ("ALLOC_SLOWPATH", "FREE_SLOWPATH")],
            [L.N_LOCK_WAIT_MILLICYCLES],
            [L.N_INTERRUPTS],
            [L.N_CMPXCHG_FAILED],
            [L.N_LOCKS_CONTENDED],
        )
        cpus, edges = session.machine_spec.cpus, MOST_BUCKETS + 1
        listed = [word for column in columns for word in (len(column), *column)]
        self._w = np.array([0, FIRST_BUCKET_MICRO_OPS, edges, len(columns), *listed], dtype=np.int64)
        assert len(self._w) == W_COLUMNS + len(listed)
        self._positions = np.zeros(edges, dtype=np.int64)
        self._clocks = np.zeros(edges, dtype=np.int64)
        # Totals at each edge, so that two buckets become one by leaving an edge out.
        self._totals = np.zeros((edges, len(columns), cpus), dtype=np.int64)
        self._depth = np.zeros((edges, cpus), dtype=np.int64)
        self._doing = np.zeros((edges, cpus), dtype=np.int64)
        self._classes = activity_of_micro_ops(session.booted.program)
        self._session = session
        self._phases: list[tuple[int, Phase]] = []  # with the number of each
        self._write(session)
        self._note_phase(session)

    @property
    def _edges(self) -> int:
        return int(self._w[0])

    def next_position(self) -> int:
        """Where the next bucket ends."""
        return int(self._positions[self._edges - 1]) + int(self._w[1])

    def engine(self, S: IntArray, code: IntArray, P: IntArray, limit: int, _: int) -> int:
        """See ``Machine.run``."""
        from slubviz.hw.counting import count_buckets
        from slubviz.hw.stepping import STEP

        self._note_phase(self._session)  # one that has begun just now
        while True:
            arrays = (
                self._w,
                self._classes,
                self._positions,
                self._clocks,
                self._totals.reshape(-1),
                self._depth.reshape(-1),
                self._doing.reshape(-1),
            )
            status = int(count_buckets(STEP, S, code, P, limit, *arrays))
            if status != Status.BREAKPOINT or self._edges <= MOST_BUCKETS:  # else there is no room
                return status
            self._merge()

    def piece(self, session: Session) -> None:
        """The run has gone on, with ``engine`` or with another one and at most to ``next_position``."""
        position = session.machine.micro_ops
        last = int(self._positions[self._edges - 1])
        if position > last and (position >= self.next_position() or session.finished or session.fault):
            if self._edges == MOST_BUCKETS + 1:
                self._merge()
            self._write(session)
        self._note_phase(session)

    def truncate(self, position: int) -> None:
        """Forget all after a position, for a branch that begins there."""
        self._w[0] = int(np.searchsorted(self._positions[: self._edges], position, side="right"))
        self._phases = [phase for phase in self._phases if phase[1].position <= position]

    def copy(self) -> OverviewRecorder:
        """One that goes on by itself."""
        other = OverviewRecorder()
        other.__dict__ = {
            name: value.copy() if isinstance(value, np.ndarray | list) else value
            for name, value in self.__dict__.items()
        }
        return other

    def overview(self) -> Overview:
        """All that was counted so far."""
        edges = self._edges
        gained = np.diff(self._totals[:edges], axis=0)
        interrupts = gained[:, 3]
        deepest = np.maximum(self._depth[: edges - 1], self._depth[1:edges])
        return Overview(
            self._positions[:edges].copy(),
            self._clocks[:edges] / L.MILLI,
            gained[:, 0],
            gained[:, 1],
            gained[:, 2] / L.MILLI,
            interrupts,
            gained[:, 4],
            gained[:, 5],
            np.maximum(deepest, interrupts > 0),
            tuple(phase for _, phase in self._phases),
            self._doing[:edges].copy(),
        )

    def _write(self, session: Session) -> None:
        from slubviz.hw.counting import write_edge

        per_cpu = (self._totals.reshape(-1), self._depth.reshape(-1), self._doing.reshape(-1))
        write_edge(session.machine.state, self._w, self._classes, self._positions, self._clocks, *per_cpu)

    def _note_phase(self, session: Session) -> None:
        last = self._phases[-1][0] if self._phases else -1
        if session.phase_index > last and session.phase is not None:
            position = session.progress().micro_ops_before
            self._phases.append((session.phase_index, Phase(position, _phase_name(session))))

    def _merge(self) -> None:
        """Two buckets become one."""
        half = MOST_BUCKETS // 2
        for values in (self._positions, self._clocks, self._totals, self._doing):
            values[: half + 1] = values[::2].copy()
        self._depth[1 : half + 1] = np.maximum(self._depth[1::2], self._depth[2::2])
        self._w[0] = half + 1
        self._w[1] *= 2


def _phase_name(session: Session) -> str:
    phase = session.phase
    assert phase is not None
    size = f" {phase.size_bytes}" if phase.size_bytes else ""
    return f"{phase.test} {phase.operation}{size}"


def trace_detail(
    recording: Recording, first: int, last: int, stop: threading.Event | None = None
) -> Detail | None:
    """What every CPU did between two positions; the cursor stays where it is.

    Parameters
    ----------
    first, last : positions in micro-ops, as far as the run is recorded
    stop : give up when it is set

    Returns
    -------
    Detail, or None if ``stop`` was set.
    """
    from slubviz.hw.tracing import Tracer

    first = max(0, min(first, recording.end))
    last = max(first, min(last, recording.end, first + MOST_DETAIL_MICRO_OPS))
    with recording.excursion() as session:
        if not recording.seek(first, stop=stop, prepare=False):
            return None
        tracer = Tracer(activity_of_micro_ops(session.booted.program), session.machine_spec.cpus)
        tracer.begin(session.machine.state)
        while recording.position < last and not recording.over:
            if stop and stop.is_set():
                return None
            recording.run(min(last - recording.position, 50_000), engine=tracer.engine)
            tracer.look(session.machine.state)  # a phase may have begun
        tracer.end(session.machine.state)
        return _detail(first, recording.position, tracer)


def _detail(first: int, last: int, tracer: Tracer) -> Detail:
    spans, marks = tracer.spans(last), tracer.marks()
    cycles = spans[:, 3:5] / L.MILLI
    return Detail(
        first,
        last,
        spans[:, 0],
        spans[:, 1],
        spans[:, 2],
        cycles[:, 0],
        cycles[:, 1],
        spans[:, 5],
        spans[:, 6],
        marks[:, 0],
        marks[:, 1] / L.MILLI,
        marks[:, 2],
        marks[:, 3],
    )
