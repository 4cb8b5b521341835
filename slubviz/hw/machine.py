"""A simulated machine: its state array, and the few things one does with it.

Interface: build one from a MachineSpec, a ProgramImage and a MemoryPlan; ``start`` functions on CPUs;
``run`` or ``step``; ``inject`` interrupts; ``read`` and ``write`` memory without cost; ``copy_state`` /
``restore_state`` / ``state_hash``. The whole state is ``machine.state``; the engine keeps nothing
elsewhere.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.engine import run
from slubviz.hw.interrupts import refresh_due
from slubviz.hw.isa import (
    BREAK_BIT,
    F_OP,
    FRAME_KIND,
    FRAME_WORDS,
    KIND_FIRST,
    WORDS,
    CpuState,
    Fault,
    Status,
)
from slubviz.hw.jit import jit_enabled
from slubviz.hw.machine_file import DIRECTORY_BITS, MachineSpec
from slubviz.hw.memory import WORD_SHIFT, word_index
from slubviz.hw.pricing import cost_parameters, machine_code, millicycles
from slubviz.hw.scheduler import set_key

IntArray = NDArray[np.int64]

STACK_WORDS = 768
FIRST_HASH = 0x1234567
INTERRUPT_ROWS = 256
STRIDE_ENTRIES = 16  # a power of two
#: States larger than this are kept sparse.
SPARSE_BYTES = 64 << 20
FIRST_STORE_WORDS = 1 << 16
NO_LIMIT = L.NEVER


class MachineError(RuntimeError):
    """The machine was asked for something impossible (address, CPU, full interrupt table)."""


@dataclass(frozen=True)
class ProgramImage:
    """What the machine needs of a program: rows of micro-ops and a table of functions."""

    code: NDArray[np.int32]
    entry_pc: tuple[int, ...]
    window_words: tuple[int, ...]  #: registers of a function including its outgoing argument area
    counters: int  #: counters the program declares


@dataclass(frozen=True)
class MemoryPlan:
    """Which page frames exist.

    Frame 0 is the NULL page.  ``page_frames`` frames from ``first_frame`` on are page memory;
    ``node_of_frame`` gives each one's node (length ``page_frames``).  Static memory follows at
    ``static_base`` (page aligned) and has ``static_bytes``; ``node_of_static_frame`` gives the node of each
    of its page frames.  Of its first ``noted_bytes`` the machine remembers who claimed each structure last
    (OWNER_NOTE).
    """

    first_frame: int
    page_frames: int
    static_base: int
    static_bytes: int
    node_of_frame: IntArray = field(repr=False)
    noted_bytes: int = 0
    node_of_static_frame: IntArray | None = field(default=None, repr=False)  #: None: all on node 0


def _power_of_two(at_least: int) -> int:
    return 1 << max(0, at_least - 1).bit_length()


def _run_interpreted(*arguments: Any) -> int:
    """The engine without jit: numpy would warn that the trace hash wraps, which it does on purpose."""
    with np.errstate(over="ignore"):
        return int(run(*arguments))


_run = run if jit_enabled else _run_interpreted


def zeroed_words(count: int) -> IntArray:
    """An int64 array of zeros whose untouched pages take no memory.

    Big caches of big machines are mostly untouched.  Huge pages would zero two megabytes for each word
    that is, so large arrays do without.
    """
    size = count * 8
    if size < SPARSE_BYTES or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.zeros(count, dtype=np.int64)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype=np.int64)


def _header_values(spec: MachineSpec, image: ProgramImage, memory: MemoryPlan) -> dict[int, int]:
    """Header word -> value, for all that do not say where a region starts."""
    page_shift = spec.page_size_bytes.bit_length() - 1
    line_shift = spec.line_bytes.bit_length() - 1
    static_frames = -(-memory.static_bytes // spec.page_size_bytes)
    frames = (memory.static_base >> page_shift) + static_frames
    outer, middle = spec.outer, spec.middle
    outer_lines = spec.outer_count * outer.sets(spec.line_bytes) * outer.ways
    return {
        L.H_CPUS: spec.cpus,
        L.H_LEAVES: _power_of_two(max(2, spec.cpus)),
        L.H_COUNTER_WORDS: L.HARDWARE_COUNTERS + image.counters,
        L.H_L1_SETS: spec.l1.sets(spec.line_bytes),
        L.H_L1_WAYS: spec.l1.ways,
        L.H_MIDDLE_SETS: middle.sets(spec.line_bytes) if middle else 0,
        L.H_MIDDLE_WAYS: middle.ways if middle else 0,
        L.H_MIDDLE_COUNT: spec.l2_count if middle else 0,
        L.H_MIDDLES_PER_L2: spec.cpus_per_outer // spec.cpus_per_l2 if middle else 0,
        L.H_CPUS_PER_GROUP: spec.cpus_per_l2,
        L.H_L2_SETS: outer.sets(spec.line_bytes),
        L.H_L2_WAYS: outer.ways,
        L.H_L2_COUNT: spec.outer_count,
        L.H_DIRECTORY_SIZE: _power_of_two(2 * min(outer_lines, frames << (page_shift - line_shift)) + 16),
        L.H_LOCKS_SIZE: _power_of_two(2 * spec.cpus + 2),
        L.H_IRQS_SIZE: INTERRUPT_ROWS,
        L.H_PAGE_FRAMES: frames,
        L.H_PAGE_SHIFT: page_shift,
        L.H_LINE_SHIFT: line_shift,
        L.H_TRACE_HASH: FIRST_HASH,
        L.H_CPUS_PER_L1: spec.cpus_per_l1,
        L.H_CPUS_PER_L2: spec.cpus_per_outer,
        L.H_L2_PER_PACKAGE: spec.outer_per_package,
        L.H_COARSE_SHIFT: max(0, (-(-spec.outer_count // DIRECTORY_BITS) - 1).bit_length()),
        L.H_OWNERS_SIZE: (memory.noted_bytes >> L.OWNER_SHIFT) + 1,
        L.H_STATIC_ADDRESS: memory.static_base,
        L.H_STRIDE_ENTRIES: STRIDE_ENTRIES,
    }


def _place_regions(spec: MachineSpec, memory: MemoryPlan, header: dict[int, int]) -> int:
    """Add to the header where each region starts, and how large the last one is; returns the end of all."""
    page_shift = header[L.H_PAGE_SHIFT]
    static_frames = header[L.H_PAGE_FRAMES] - (memory.static_base >> page_shift)
    start = L.HEADER_WORDS
    for where, words in (
        (L.H_CPU_BLOCKS, spec.cpus * L.CPU_WORDS),
        (L.H_KEYS, header[L.H_LEAVES]),
        (L.H_TREE, 2 * header[L.H_LEAVES]),
        (L.H_STACKS, spec.cpus * STACK_WORDS),
        (L.H_COUNTERS, spec.cpus * header[L.H_COUNTER_WORDS]),
        (L.H_STRIDES, spec.cpus * STRIDE_ENTRIES * L.STRIDE_WORDS),
        (L.H_BUS, spec.nodes),
        (L.H_LINE_BUSY, L.LINE_BUSY_ENTRIES),
        (L.H_L1, -(-spec.cpus // spec.cpus_per_l1) * header[L.H_L1_SETS] * header[L.H_L1_WAYS]),
        (L.H_MIDDLE, header[L.H_MIDDLE_COUNT] * header[L.H_MIDDLE_SETS] * header[L.H_MIDDLE_WAYS]),
        (L.H_L2, spec.outer_count * header[L.H_L2_SETS] * header[L.H_L2_WAYS]),
        (L.H_DIRECTORY, 2 * header[L.H_DIRECTORY_SIZE]),
        (L.H_LOCKS, header[L.H_LOCKS_SIZE] * L.LOCK_ROW),
        (L.H_IRQS, INTERRUPT_ROWS * L.IRQ_ROW),
        (L.H_OWNERS, header[L.H_OWNERS_SIZE]),
        (L.H_FRAMES, header[L.H_PAGE_FRAMES]),
        (L.H_STATIC, static_frames << (page_shift - 3)),
        (L.H_OWN_SLOTS, 2 * (memory.first_frame + memory.page_frames)),
    ):
        header[where] = start
        start += words
    header[L.H_STORE] = start
    # A sparse state has room for all from the start: growing would copy, and so touch, all of it.
    sparse = start * 8 >= SPARSE_BYTES
    header[L.H_STORE_WORDS] = memory.page_frames << (page_shift - 3) if sparse else FIRST_STORE_WORDS
    return start + header[L.H_STORE_WORDS]


class Machine:
    """One simulated machine with a program loaded.

    Parameters
    ----------
    spec : the machine
    image : the program
    memory : page frames and static memory

    Raises
    ------
    MachineError
        If ``memory`` does not give each static page frame a node of the machine.
    """

    def __init__(self, spec: MachineSpec, image: ProgramImage, memory: MemoryPlan) -> None:
        self.spec = spec
        self.image = image
        self.memory = memory
        self.code = machine_code(spec, image.code)
        table = [
            word
            for entry, words in zip(image.entry_pc, image.window_words, strict=True)
            for word in (entry, words, 0)
        ]
        self.parameters: IntArray = np.array(cost_parameters(spec) + table, dtype=np.int64)
        self.state: IntArray = self._new_state()

    # --- building -----------------------------------------------------------------------
    def _new_state(self) -> IntArray:
        header = _header_values(self.spec, self.image, self.memory)
        state = zeroed_words(_place_regions(self.spec, self.memory, header))
        for where, value in header.items():
            state[where] = value
        self._clear_tree(state)
        self._map_page_frames(state)
        self._map_static_frames(state)
        for cpu in range(self.spec.cpus):
            self._init_cpu(state, cpu)
        return state

    def _clear_tree(self, state: IntArray) -> None:
        keys, tree, leaves = (int(state[where]) for where in (L.H_KEYS, L.H_TREE, L.H_LEAVES))
        state[keys : keys + leaves] = L.NEVER
        state[tree + leaves : tree + 2 * leaves] = np.arange(leaves)
        level = leaves
        while level > 1:  # equal keys: the smaller number wins, so that no node names a CPU outside its half
            level >>= 1
            state[tree + level : tree + 2 * level] = state[tree + 2 * level : tree + 4 * level : 2]

    def _map_page_frames(self, state: IntArray) -> None:
        first, count = self.memory.first_frame, self.memory.page_frames
        start = int(state[L.H_FRAMES]) + first
        slots = state[L.H_OWN_SLOTS] + 2 * np.arange(first, first + count, dtype=np.int64)
        nodes = self.memory.node_of_frame << L.FRAME_NODE_SHIFT
        state[start : start + count] = (slots << L.FRAME_SLOT_SHIFT) | nodes | state[L.H_PAGE_SHIFT]

    def _map_static_frames(self, state: IntArray) -> None:
        page_shift = int(state[L.H_PAGE_SHIFT])
        first = self.memory.static_base >> page_shift
        count = int(state[L.H_PAGE_FRAMES]) - first
        start = int(state[L.H_FRAMES]) + first
        slots = state[L.H_STATIC] + (np.arange(count, dtype=np.int64) << (page_shift - 3))
        state[start : start + count] = (slots << L.FRAME_SLOT_SHIFT) | WORD_SHIFT
        nodes = self.memory.node_of_static_frame
        if nodes is None:
            return
        if nodes.shape != (count,) or nodes.min(initial=0) < 0 or nodes.max(initial=0) >= self.spec.nodes:
            raise MachineError(
                f"node_of_static_frame must give each of {count} page frames a node from 0 to "
                f"{self.spec.nodes - 1}"
            )
        state[start : start + count] |= nodes << L.FRAME_NODE_SHIFT

    def _init_cpu(self, state: IntArray, cpu: int) -> None:
        spec = self.spec
        block = int(state[L.H_CPU_BLOCKS]) + cpu * L.CPU_WORDS
        stack = int(state[L.H_STACKS]) + cpu * STACK_WORDS
        l1_words = int(state[L.H_L1_SETS] * state[L.H_L1_WAYS])
        l2 = cpu // spec.cpus_per_outer
        for where, value in (
            (L.C_PC, -1),
            (L.C_WINDOW, stack + FRAME_WORDS),
            (L.C_IRQ_ENABLED, 1),
            (L.C_IRQ_CYCLE, L.NEVER),
            (L.C_IRQ_MICRO_OP, L.NEVER),
            (L.C_STACK_BASE, stack),
            (L.C_STACK_END, stack + STACK_WORDS),
            (L.C_L1_BASE, int(state[L.H_L1]) + (cpu // spec.cpus_per_l1) * l1_words),
            (L.C_L2, l2),
            (L.C_GROUP, cpu // spec.cpus_per_l2),
            (L.C_PACKAGE, l2 // spec.outer_per_package),
            (L.C_NODE, cpu // spec.cpus_per_node),
        ):
            state[block + where] = value

    # --- looking -------------------------------------------------------------------------
    def _block(self, cpu: int) -> int:
        if not 0 <= cpu < self.spec.cpus:
            raise MachineError(f"CPU {cpu} does not exist; this machine has CPUs 0 to {self.spec.cpus - 1}")
        return int(self.state[L.H_CPU_BLOCKS]) + cpu * L.CPU_WORDS

    def cpu_word(self, cpu: int, word: int) -> int:
        """One word (layout ``C_*``) of a CPU's block."""
        return int(self.state[self._block(cpu) + word])

    def cpu_blocks(self) -> IntArray:
        """All CPU blocks, shape (CPUs, CPU_WORDS); a view of the state."""
        start = int(self.state[L.H_CPU_BLOCKS])
        return self.state[start : start + self.spec.cpus * L.CPU_WORDS].reshape(self.spec.cpus, L.CPU_WORDS)

    def counters(self) -> IntArray:
        """All counters, shape (CPUs, HARDWARE_COUNTERS + program's); a view of the state."""
        start, words = int(self.state[L.H_COUNTERS]), int(self.state[L.H_COUNTER_WORDS])
        return self.state[start : start + self.spec.cpus * words].reshape(self.spec.cpus, words)

    def owners(self, addresses: IntArray) -> IntArray:
        """The CPU that claimed the structure at each address last, -1 for none; shape as given."""
        index = (addresses - self.memory.static_base) >> L.OWNER_SHIFT
        start = int(self.state[L.H_OWNERS])
        found: IntArray = self.state[start + index] - 1
        return found

    @property
    def micro_ops(self) -> int:
        """Micro-ops executed since the start."""
        return int(self.state[L.H_MICRO_OPS])

    @property
    def trace_hash(self) -> int:
        """Hash over every executed (CPU, micro-op, clock)."""
        return int(self.state[L.H_TRACE_HASH])

    @property
    def clock_millicycles(self) -> int:
        """The latest clock of any CPU."""
        return int(self.cpu_blocks()[:, L.C_CLOCK].max())

    @property
    def fault(self) -> Fault:
        """The program error that stopped the machine, or NONE."""
        return Fault(int(self.state[L.H_FAULT])) if self.state[L.H_STATUS] == Status.FAULT else Fault.NONE

    def state_hash(self) -> str:
        """SHA-256 of the whole state."""
        return hashlib.sha256(self.state.tobytes()).hexdigest()

    def read(self, address: int, size: int = 8, *, signed: bool = False) -> int:
        """The value at a byte address, without cost.

        Raises
        ------
        MachineError
            If nothing is stored there.
        """
        index = int(word_index(self.state, address & ~7, 8, 0))
        if index < 0 or address % size:
            raise MachineError(f"no memory at address {address:#x}")
        word = int(self.state[index])
        if size == 8:
            return word
        half = (word >> (32 if address & 4 else 0)) & 0xFFFFFFFF
        return half - (1 << 32) if signed and half >> 31 else half

    def write(self, address: int, value: int, size: int = 8) -> None:
        """Write a value at a byte address, without cost and without waking anybody.

        Raises
        ------
        MachineError
            If nothing can be stored there.
        """
        index = int(word_index(self.state, address & ~7, 8, 1))
        if index < 0 or address % size:
            raise MachineError(f"no memory at address {address:#x}")
        if size == 8:
            self.state[index] = value
        else:
            shift = 32 if address & 4 else 0
            word = int(self.state[index]) & 0xFFFFFFFFFFFFFFFF
            word = (word & ~(0xFFFFFFFF << shift)) | ((value & 0xFFFFFFFF) << shift)
            self.state[index] = word - (1 << 64) if word >> 63 else word

    # --- doing ------------------------------------------------------------------------------
    def start(self, cpu: int, function: int, arguments: Sequence[int] = ()) -> None:
        """Let an idle CPU run a function from its own clock on.

        Raises
        ------
        MachineError
            If the CPU is busy.
        """
        block = self._block(cpu)
        if self.state[block + L.C_STATE] != CpuState.HALTED:
            raise MachineError(f"CPU {cpu} is busy")
        window = int(self.state[block + L.C_STACK_BASE]) + FRAME_WORDS
        self.state[window - FRAME_WORDS : window] = 0
        self.state[window + FRAME_KIND] = KIND_FIRST
        self.state[window : window + len(arguments)] = arguments
        self.state[block + L.C_WINDOW] = window
        self.state[block + L.C_PC] = self.image.entry_pc[function]
        self.state[block + L.C_FUNCTION] = function
        self.state[block + L.C_STATE] = CpuState.RUNNING
        set_key(self.state, cpu, int(self.state[block + L.C_CLOCK]))
        self.state[L.H_CURRENT_CPU] = self.state[self.state[L.H_TREE] + 1]

    def expect_rendezvous(self, cpus: int) -> None:
        """How many CPUs take part in ``rendezvous()`` from now on."""
        self.state[L.H_STARTED] = cpus
        self.state[L.H_RENDEZVOUS] = 0

    def align_clocks(self) -> int:
        """Set every idle CPU's clock to the latest of all; returns it in millicycles."""
        latest = self.clock_millicycles
        blocks = self.cpu_blocks()
        blocks[blocks[:, L.C_STATE] == CpuState.HALTED, L.C_CLOCK] = latest
        return latest

    def zero_counts(self) -> None:
        """Let clocks, micro-op counts, counters and the trace hash start anew; memory and caches stay.

        Raises
        ------
        MachineError
            If a CPU is busy or an interrupt is pending.
        """
        blocks = self.cpu_blocks()
        pending = blocks[:, [L.C_IRQ_CYCLE, L.C_IRQ_MICRO_OP]] < L.NEVER
        if (blocks[:, L.C_STATE] != CpuState.HALTED).any() or pending.any():
            raise MachineError(
                "counts can start anew only while every CPU is idle and no interrupt is pending"
            )
        for word in (L.C_CLOCK, L.C_STORE_BUSY, L.C_POLLED_UNTIL, L.C_MICRO_OPS, L.C_WAIT_SINCE):
            blocks[:, word] = 0
        self.counters()[:] = 0
        for where, words in ((L.H_BUS, self.spec.nodes), (L.H_LINE_BUSY, L.LINE_BUSY_ENTRIES)):
            self.state[self.state[where] :][:words] = 0
        strides = self.state[self.state[L.H_STRIDES] :][: self.spec.cpus * STRIDE_ENTRIES * L.STRIDE_WORDS]
        strides.reshape(-1, L.STRIDE_WORDS)[:, L.STRIDE_TIME] = 0
        self.state[L.H_MICRO_OPS] = 0
        self.state[L.H_TRACE_HASH] = FIRST_HASH

    def run(self, micro_op_limit: int = NO_LIMIT, millicycle_limit: int = NO_LIMIT) -> Status:
        """Run until a limit, a breakpoint, a fault, or until nobody can run.

        Parameters
        ----------
        micro_op_limit : total micro-op count at which to stop
        millicycle_limit : clock in millicycles at which to stop
        """
        while True:
            status = Status(_run(self.state, self.code, self.parameters, micro_op_limit, millicycle_limit))
            if status != Status.NEED_MEMORY:
                return status
            self._grow_store()
            self.skip_breakpoint()  # the micro-op that runs again had passed its breakpoint

    def _grow_store(self) -> None:
        more = max(FIRST_STORE_WORDS, int(self.state[L.H_STORE_WORDS]))
        grown = zeroed_words(len(self.state) + more)
        grown[: len(self.state)] = self.state
        self.state = grown
        self.state[L.H_STORE_WORDS] += more

    def step(self) -> Status:
        """Execute one micro-op of the next CPU, also one that a breakpoint marks."""
        self.skip_breakpoint()
        return self.run(self.micro_ops + 1)

    def skip_breakpoint(self) -> None:
        """Do not stop at the breakpoint of the very next micro-op."""
        self.state[L.H_SKIP_BREAK] = 1

    def set_breakpoint(self, pc: int, on: bool = True) -> None:
        """Stop before a micro-op (or no longer)."""
        row = pc * WORDS
        op = int(self.code[row + F_OP]) & (BREAK_BIT - 1)
        self.code[row + F_OP] = op + (BREAK_BIT if on else 0)

    def inject(
        self,
        cpu: int,
        function: int,
        argument: int = 0,
        *,
        at_micro_op: int | None = None,
        at_cycle: float | None = None,
    ) -> None:
        """Schedule an interrupt: by a CPU's own micro-op count, by cycle, or (neither given) now.

        Now is before a running CPU's next micro-op.  An idle or waiting CPU executes none, so an interrupt
        by
        its count comes only when it runs again.

        Raises
        ------
        MachineError
            If 256 are pending already.
        """
        block = self._block(cpu)
        first = int(self.state[L.H_IRQS])
        rows = self.state[first : first + INTERRUPT_ROWS * L.IRQ_ROW].reshape(INTERRUPT_ROWS, L.IRQ_ROW)
        free = np.flatnonzero(rows[:, L.I_ACTIVE] == 0)
        if len(free) == 0:
            raise MachineError(f"{INTERRUPT_ROWS} interrupts are pending already; run some of them first")
        row = rows[free[0]]
        row[L.I_ACTIVE] = 1
        row[L.I_CPU] = cpu
        row[L.I_BY_MICRO_OP] = at_micro_op is not None
        when = self._now(block) if at_cycle is None else millicycles(at_cycle)
        row[L.I_WHEN] = when if at_micro_op is None else at_micro_op
        row[L.I_FUNCTION] = function
        row[L.I_ARGUMENT] = argument
        row[L.I_SEQUENCE] = self.state[L.H_SEQUENCE]
        self.state[L.H_SEQUENCE] += 1
        refresh_due(self.state, cpu)
        if self.state[block + L.C_STATE] != CpuState.RUNNING and self.state[block + L.C_IRQ_ENABLED]:
            set_key(self.state, cpu, int(self.state[block + L.C_IRQ_CYCLE]))
            self.state[L.H_CURRENT_CPU] = self.state[self.state[L.H_TREE] + 1]

    def _now(self, block: int) -> int:
        """A CPU's clock; for one that does not run, not before the CPU that is next."""
        own = int(self.state[block + L.C_CLOCK])
        if self.state[block + L.C_STATE] == CpuState.RUNNING:
            return own
        following = int(self.state[self.state[L.H_KEYS] + self.state[self.state[L.H_TREE] + 1]])
        return max(own, following) if following < L.NEVER else own

    def copy_state(self) -> IntArray:
        """A checkpoint: one copy of the whole state."""
        return self.state.copy()

    def restore_state(self, checkpoint: IntArray) -> None:
        """Go back to a checkpoint (which stays usable)."""
        self.state = checkpoint.copy()
