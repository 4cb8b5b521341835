"""Hand-written programs and small machines for the tests of the simulated machine.

Programs are written row by row with ``Assembler``; machines have tiny caches and round costs, all
different, so that an expected clock can be added up by hand and a mistaken cost shows.  Nothing here runs
anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slubviz.hw.isa import FRAME_WORDS, WORDS, Op
from slubviz.hw.machine import Machine, MemoryPlan, ProgramImage
from slubviz.hw.machine_file import COST_TABLE, L3_COST_TABLE, CacheGeometry, Cost, MachineSpec

LINE_BYTES = 64
PAGE_BYTES = 1024
#: Page memory: frames 2 .. 9.  Frames 1, 10 and 11 do not exist, frame 0 is the NULL page.
FIRST_FRAME = 2
PAGE_FRAMES = 8
PAGES = FIRST_FRAME * PAGE_BYTES
STATIC = 12 * PAGE_BYTES
STATIC_BYTES = 4 * PAGE_BYTES

#: Cycles; every kind of cost has its own number.
CYCLES: dict[str, float] = {
    "instruction": 1,
    "multiply": 3,
    "divide": 20,
    "bit_scan": 24,
    "call": 4,
    "return": 5,
    "load": 2,
    "store": 6,
    "cmpxchg_local": 7,
    "cmpxchg_double_local": 8,
    "locked_operation": 19,
    "irq_save": 9,
    "irq_restore": 11,
    "irq_disable": 12,
    "irq_enable": 13,
    "preempt": 14,
    "cpu_id": 15,
    "barrier_write": 16,
    "barrier_read": 17,
    "barrier_full": 18,
    "rdtsc": 21,
    "pause": 22,
    "interrupt_entry": 150,
    "interrupt_exit": 70,
    "l2_hit": 30,
    "l3_hit": 90,
    "transfer_same_l2": 40,
    "transfer_same_l3": 110,
    "transfer_same_package": 200,
    "transfer_other_package": 300,
    "transfer_other_node": 400,
    "memory_local": 500,
    "memory_remote": 800,
    "store_window": 1000,
    "bus_transaction": 0,
    "spinner_reread": 60,
    "spinner_retry": 25,
    "store_miss_share": 0.5,
    "prefetch_leftover": 0.25,
}


def small_machine(
    cpus: int = 1,
    *,
    cpus_per_node: int | None = None,
    cpus_per_l1: int = 1,
    cpus_per_l2: int = 2,
    l2_per_package: int = 2,
    l1_lines: int = 4,
    l2_lines: int = 16,
    cpus_per_l3: int = 0,
    l3_per_package: int = 2,
    l3_lines: int = 32,
    prefetch_reach_lines: int = 0,
    adjacent_line_prefetch: bool = False,
    smp_kernel: bool = True,
    cycles: Mapping[str, float] | None = None,
) -> MachineSpec:
    """A machine with round costs; all caches have two ways.  An L3 if ``cpus_per_l3`` is given."""
    values = CYCLES | dict(cycles or {})
    table = COST_TABLE | (L3_COST_TABLE if cpus_per_l3 else {})
    return MachineSpec(
        name="small",
        title="small machine of the tests",
        cpus=cpus,
        cpus_per_l1=cpus_per_l1,
        cpus_per_l2=cpus_per_l2,
        l2_per_package=0 if cpus_per_l3 else l2_per_package,
        cpus_per_l3=cpus_per_l3,
        l3_per_package=l3_per_package if cpus_per_l3 else 0,
        cpus_per_node=cpus_per_node or cpus,
        page_size_bytes=PAGE_BYTES,
        word_bytes=8,
        fragmented_share=0.0,
        clock_hz=1e9,
        line_bytes=LINE_BYTES,
        l1=CacheGeometry(l1_lines * LINE_BYTES, 2),
        l2=CacheGeometry(l2_lines * LINE_BYTES, 2),
        l3=CacheGeometry(l3_lines * LINE_BYTES, 2) if cpus_per_l3 else None,
        prefetch_reach_lines=prefetch_reach_lines,
        adjacent_line_prefetch=adjacent_line_prefetch,
        fast_cmpxchg_local=True,
        smp_kernel=smp_kernel,
        costs={
            name: Cost(values[name], unit, "made up", 0.0, 1e6, False) for name, (unit, _) in table.items()
        },
    )


def small_memory(spec: MachineSpec) -> MemoryPlan:
    """Eight page frames, the upper half on the last node, and four pages of static memory."""
    node_of_frame = np.zeros(PAGE_FRAMES, dtype=np.int64)
    node_of_frame[PAGE_FRAMES // 2 :] = spec.nodes - 1
    return MemoryPlan(FIRST_FRAME, PAGE_FRAMES, STATIC, STATIC_BYTES, node_of_frame)


@dataclass(frozen=True)
class _Function:
    number: int
    entry_pc: int
    local_words: int
    window_words: int


@dataclass
class Assembler:
    """A program under construction: functions, labels and rows, in order.

    ``function`` starts one, ``op`` adds a row (a text as ``aux`` is a label), ``call`` a call of a function
    named earlier.  Arguments of a call go to registers ``outgoing(0)``, ``outgoing(1)``, … of the caller.
    """

    counters: int = 8
    rows: list[list[int | str]] = field(default_factory=list)
    functions: dict[str, _Function] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    _local_words: int = 0

    @property
    def pc(self) -> int:
        """Number of the next row."""
        return len(self.rows)

    def function(self, name: str, local_words: int = 16, arguments: int = 4) -> int:
        """Start a function; returns its number.  ``arguments`` is the most that any call in it passes."""
        number = len(self.functions)
        self.functions[name] = _Function(number, self.pc, local_words, local_words + FRAME_WORDS + arguments)
        self._local_words = local_words
        return number

    def outgoing(self, argument: int) -> int:
        """Register of the running function in which a callee finds its argument."""
        return self._local_words + FRAME_WORDS + argument

    def label(self, name: str) -> None:
        """Name the next row."""
        self.labels[name] = self.pc

    def op(
        self, op: Op, a: int = 0, b: int = 0, c: int = 0, imm: int = 0, aux: int | str = 0, size: int = 8
    ) -> int:
        """Add a row; returns its number."""
        self.rows.append([int(op), a, b, c, imm, aux, size, 0])
        return self.pc - 1

    def call(self, name: str, result: int = -1) -> int:
        """Add a call; returns the row's number."""
        callee = self.functions[name]
        return self.op(
            Op.CALL, a=result, c=callee.number, imm=self._local_words + FRAME_WORDS, aux=callee.entry_pc
        )

    def ret(self, b: int = -1) -> int:
        """Add a return of register b (-1: of 0)."""
        return self.op(Op.RET, b=b)

    def image(self) -> ProgramImage:
        """The finished program."""
        code = np.array(
            [[self.labels[word] if isinstance(word, str) else word for word in row] for row in self.rows],
            dtype=np.int32,
        ).reshape(-1)
        assert len(code) == WORDS * len(self.rows)
        functions = self.functions.values()
        return ProgramImage(
            code,
            tuple(f.entry_pc for f in functions),
            tuple(f.window_words for f in functions),
            self.counters,
        )

    def load(self, spec: MachineSpec) -> Machine:
        """A machine with this program."""
        return Machine(spec, self.image(), small_memory(spec))
