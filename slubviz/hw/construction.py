"""The state of a machine that has done nothing yet: what it is made from, how large it is, what is in it.

``new_state`` is all that ``machine`` needs; where things lie is for ``layout`` to say.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.errors import MachineError
from slubviz.hw.isa import FRAME_WORDS
from slubviz.hw.machine_file import DIRECTORY_BITS, MachineSpec
from slubviz.hw.memory import WORD_SHIFT

IntArray = NDArray[np.int64]

STACK_WORDS = 768
FIRST_HASH = 0x1234567
INTERRUPT_ROWS = 256
STRIDE_ENTRIES = 16  # a power of two
#: States larger than this are kept sparse.
SPARSE_BYTES = 64 << 20
FIRST_STORE_WORDS = 1 << 16


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


def new_state(spec: MachineSpec, image: ProgramImage, memory: MemoryPlan) -> IntArray:
    """The state of a machine that has done nothing yet.

    Raises
    ------
    MachineError
        If ``memory`` does not give each static page frame a node of the machine.
    """
    header = _header_values(spec, image, memory)
    state = zeroed_words(_place_regions(spec, memory, header))
    for where, value in header.items():
        state[where] = value
    _clear_tree(state)
    _map_page_frames(state, memory)
    _map_static_frames(state, memory, spec.nodes)
    for cpu in range(spec.cpus):
        _init_cpu(state, spec, cpu)
    return state


def _clear_tree(state: IntArray) -> None:
    keys, tree, leaves = (int(state[where]) for where in (L.H_KEYS, L.H_TREE, L.H_LEAVES))
    state[keys : keys + leaves] = L.NEVER
    state[tree + leaves : tree + 2 * leaves] = np.arange(leaves)
    level = leaves
    while level > 1:  # equal keys: the smaller number wins, so that no node names a CPU outside its half
        level >>= 1
        state[tree + level : tree + 2 * level] = state[tree + 2 * level : tree + 4 * level : 2]


def _map_page_frames(state: IntArray, memory: MemoryPlan) -> None:
    first, count = memory.first_frame, memory.page_frames
    start = int(state[L.H_FRAMES]) + first
    slots = state[L.H_OWN_SLOTS] + 2 * np.arange(first, first + count, dtype=np.int64)
    nodes = memory.node_of_frame << L.FRAME_NODE_SHIFT
    state[start : start + count] = (slots << L.FRAME_SLOT_SHIFT) | nodes | state[L.H_PAGE_SHIFT]


def _map_static_frames(state: IntArray, memory: MemoryPlan, machine_nodes: int) -> None:
    page_shift = int(state[L.H_PAGE_SHIFT])
    first = memory.static_base >> page_shift
    count = int(state[L.H_PAGE_FRAMES]) - first
    start = int(state[L.H_FRAMES]) + first
    slots = state[L.H_STATIC] + (np.arange(count, dtype=np.int64) << (page_shift - 3))
    state[start : start + count] = (slots << L.FRAME_SLOT_SHIFT) | WORD_SHIFT
    nodes = memory.node_of_static_frame
    if nodes is None:
        return
    if nodes.shape != (count,) or nodes.min(initial=0) < 0 or nodes.max(initial=0) >= machine_nodes:
        raise MachineError(
            f"node_of_static_frame must give each of {count} page frames a node from 0 to {machine_nodes - 1}"
        )
    state[start : start + count] |= nodes << L.FRAME_NODE_SHIFT


def _init_cpu(state: IntArray, spec: MachineSpec, cpu: int) -> None:
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
