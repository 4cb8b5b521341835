"""Snapshot: read-only arrays of everything that a view or an export shows.

A Snapshot is built by vectorised reads of the machine's memory and never changes afterwards,
so it can be handed to another thread.  Shapes: ``C`` CPUs, ``S`` slabs, ``B`` objects of all
slabs laid end to end, ``L`` locks in use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
ByteArray = NDArray[np.uint8]


class ObjectState(IntEnum):
    """Where an object is."""

    FREE = 0  #: on its slab's own freelist
    CPU_FREE = 1  #: on the freelist of the CPU that owns the slab
    ALLOCATED = 2


class SlabState(IntEnum):
    """How full a slab is, seen from its own counter."""

    EMPTY = 0
    PARTIAL = 1
    FULL = 2


@dataclass(frozen=True)
class FrameView:
    """One frame of a CPU's stack, innermost last."""

    function: str
    file: str
    line: int  #: 1-based line of the expression that executes next, or of the call
    interrupt: bool  #: this frame was pushed by an interrupt


@dataclass(frozen=True)
class SourceSpan:
    """Where a micro-op comes from; lines and columns are 1-based, end exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class CpuView:
    """One CPU."""

    number: int
    node: int
    state: int  #: a slubviz.hw.isa.CpuState
    clock_cycles: float
    micro_ops: int  #: executed so far
    interrupts_enabled: bool
    preempt_count: int  #: without the interrupts' share
    interrupt_depth: int
    frames: tuple[FrameView, ...]
    span: SourceSpan | None  #: the very expression that executes next
    micro_op_text: str  #: the next micro-op, readable
    waits_for: str  #: name of the lock it spins on, "" if none
    waits_since_cycles: float
    operations: int  #: measured operations done in this phase
    slow_path_operations: int
    extra: tuple[tuple[str, str], ...] = ()  #: what else the kernel keeps for this CPU: name and value


@dataclass(frozen=True)
class LockView:
    """One lock that is held or waited for."""

    name: str  #: e.g. "zone->lock node 0", "list_lock kmalloc-64 node 0", "slab_lock pfn 812"
    address: int
    holder: int  #: CPU, -1 when free
    held_since_cycles: float
    waiters: tuple[int, ...]  #: CPUs in order of arrival


@dataclass(frozen=True)
class SlabTable:
    """Every slab of the shown cache; all arrays have length S unless said."""

    page_frame: IntArray
    node: IntArray
    cpu: IntArray  #: CPU whose cpu slab it is, -1 if none
    state: ByteArray  #: SlabState
    frozen: NDArray[np.bool_]
    locked: NDArray[np.bool_]
    on_partial_list: NDArray[np.bool_]
    objects: IntArray  #: objects in the slab
    inuse: IntArray  #: the slab's own counter
    first_object: IntArray  #: S + 1 offsets into object_state
    object_state: ByteArray  #: B ObjectState
    last_cpu: IntArray  #: CPU whose cpu slab it was last, -1 unknown
    #: CPU on whose chain of partial slabs it is, -1 on none; all -1 for kernels without such chains
    on_cpu_partial: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if len(self.on_cpu_partial) != len(self.page_frame):
            object.__setattr__(self, "on_cpu_partial", np.full(len(self.page_frame), -1, dtype=np.int64))


@dataclass(frozen=True)
class ProgressSeries:
    """Running mean of the measured phase, for the live plot; length N, growing."""

    operations: IntArray  #: operations done by all CPUs
    cycles_per_op: NDArray[np.float64]


@dataclass(frozen=True)
class PhaseView:
    """What is being measured."""

    index: int
    count: int
    test: str  #: "A" .. "F"
    operation: str  #: "kmalloc", "kfree", "kmalloc+kfree", "setup", "cleanup"
    size_bytes: int
    measured: bool  #: False for setup and cleanup
    operations_total: int  #: of all CPUs
    published_low: float | None  #: cycles per operation
    published_high: float | None
    ops: int  #: operations asked for per CPU; the published tables are of 10,000
    objects: int | None = None  #: objects per call, in tests of bulk calls


@dataclass(frozen=True)
class Snapshot:
    """One instant of a session."""

    machine: str
    kernel: str
    micro_ops: int
    clock_cycles: float  #: the latest clock of any CPU
    finished: bool
    fault: str  #: "" if all is well, else one line with place and reason
    phase: PhaseView | None
    cpus: tuple[CpuView, ...]
    locks: tuple[LockView, ...]
    cache_name: str  #: e.g. "kmalloc-64"; "" for page-allocator sizes
    cache_size_bytes: int
    slabs: SlabTable
    nr_partial: IntArray  #: per node
    nr_slabs: IntArray  #: per node
    counters: dict[str, int] = field(default_factory=dict)
    progress: ProgressSeries | None = None
    total_slabs: int = 0
    family: str = "slub"  #: kind of allocator, a name in ``families.FAMILIES``
