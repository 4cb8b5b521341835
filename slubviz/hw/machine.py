"""A simulated machine: its state array, and the few things one does with it.

Interface: build one from a MachineSpec, a ProgramImage and a MemoryPlan; ``start`` functions on CPUs;
``run`` or ``step``; ``inject`` interrupts; ``read`` and ``write`` memory without cost; ``copy_state`` /
``restore_state`` / ``state_hash``. The whole state is ``machine.state``; the engine keeps nothing
elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from slubviz.hw import layout as L
from slubviz.hw.construction import (
    FIRST_HASH,
    FIRST_STORE_WORDS,
    INTERRUPT_ROWS,
    STACK_WORDS,
    STRIDE_ENTRIES,
    IntArray,
    MemoryPlan,
    ProgramImage,
    new_state,
    zeroed_words,
)
from slubviz.hw.engine import run
from slubviz.hw.errors import MachineError
from slubviz.hw.injection import row_words, timing
from slubviz.hw.interrupts import hold_sources, refresh_due, release_sources
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
from slubviz.hw.machine_file import MachineSpec
from slubviz.hw.memory import word_index
from slubviz.hw.migration import move_task, why_not
from slubviz.hw.pricing import cost_parameters, machine_code
from slubviz.hw.scheduler import set_key

__all__ = [
    "FIRST_STORE_WORDS",
    "INTERRUPT_ROWS",
    "NO_LIMIT",
    "STACK_WORDS",
    "Engine",
    "IntArray",
    "Machine",
    "MachineError",
    "MemoryPlan",
    "ProgramImage",
    "plain_engine",
    "zeroed_words",
]

NO_LIMIT = L.NEVER


def _run_interpreted(*arguments: Any) -> int:
    """The engine without jit: numpy would warn that the trace hash wraps, which it does on purpose."""
    with np.errstate(over="ignore"):
        return int(run(*arguments))


#: Runs a state, code, parameters up to a total micro-op count or a clock in millicycles; returns a Status.
Engine = Callable[[IntArray, IntArray, IntArray, int, int], int]
plain_engine: Engine = run if jit_enabled else _run_interpreted


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
        self.state: IntArray = new_state(spec, image, memory)

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
        release_sources(self.state)
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

    def run(
        self,
        micro_op_limit: int = NO_LIMIT,
        millicycle_limit: int = NO_LIMIT,
        engine: Engine | None = None,
    ) -> Status:
        """Run until a limit, a breakpoint, a fault, or until nobody can run.

        Parameters
        ----------
        micro_op_limit : total micro-op count at which to stop
        millicycle_limit : clock in millicycles at which to stop
        engine : runs in the place of ``engine.run``, to look at each micro-op; BREAKPOINT is its way to stop
        """
        run_it = engine or plain_engine
        while True:
            status = Status(run_it(self.state, self.code, self.parameters, micro_op_limit, millicycle_limit))
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
        argument: int | Sequence[int] = 0,
        *,
        at_micro_op: int | None = None,
        at_cycle: float | None = None,
        period_cycles: float = 0,
        spread_cycles: float = 0,
        period_micro_ops: int = 0,
        spread_micro_ops: int = 0,
        seed: int = 0,
        count: int = 1,
    ) -> None:
        """Schedule an interrupt: by a CPU's own micro-op count, by cycle, or (neither given) now.

        Now is before a running CPU's next micro-op.  An idle or waiting CPU executes none, so an interrupt
        by its count comes only when it runs again.

        Parameters
        ----------
        argument : of the handler; or up to three
        at_micro_op, at_cycle : when; with a period, when for the first time
        period_cycles, period_micro_ops : makes it a source, which gives one interrupt after the other;
            see ``interrupts`` for the exact times
        spread_cycles, spread_micro_ops : the most that chance adds to the period
        seed : of the source's random numbers
        count : interrupts of the source in all, 0 for no end

        Raises
        ------
        MachineError
            If 256 are pending already, for more arguments than there is room for, or for a timing that
            makes no sense.
        """
        block = self._block(cpu)
        times = timing(
            at_micro_op,
            at_cycle,
            (period_cycles, spread_cycles),
            (period_micro_ops, spread_micro_ops),
            seed,
            count,
        )
        arguments = tuple(argument) if isinstance(argument, Sequence) else (argument,)
        self._check_arguments(function, len(arguments))
        first = int(self.state[L.H_IRQS])
        rows = self.state[first : first + INTERRUPT_ROWS * L.IRQ_ROW].reshape(INTERRUPT_ROWS, L.IRQ_ROW)
        free = np.flatnonzero(rows[:, L.I_ACTIVE] == 0)
        if len(free) == 0:
            raise MachineError(f"{INTERRUPT_ROWS} interrupts are pending already; run some of them first")
        now = int(self.state[block + L.C_MICRO_OPS]) if times.by_micro_op else self._now(block)
        rows[free[0]] = row_words(cpu, function, arguments, times, now, int(self.state[L.H_SEQUENCE]))
        self.state[L.H_SEQUENCE] += 1
        self.state[L.H_IRQS_USED] = max(int(self.state[L.H_IRQS_USED]), int(free[0]) + 1)
        refresh_due(self.state, cpu)
        self._rekey(cpu)

    def _check_arguments(self, function: int, arguments: int) -> None:
        if arguments > L.MOST_ARGUMENTS:
            raise MachineError(f"{arguments} arguments are given; a handler takes {L.MOST_ARGUMENTS} at most")
        room = self.image.window_words[function]
        if arguments > max(1, room):
            raise MachineError(f"{arguments} arguments are given; the handler has room for {room}")

    def _rekey(self, cpu: int) -> None:
        """Let the scheduler know when a CPU wants to run next; a running one's key follows its clock."""
        block = self._block(cpu)
        if self.state[block + L.C_STATE] != CpuState.RUNNING and self.state[block + L.C_IRQ_ENABLED]:
            set_key(self.state, cpu, int(self.state[block + L.C_IRQ_CYCLE]))
            self.state[L.H_CURRENT_CPU] = self.state[self.state[L.H_TREE] + 1]

    def migrate(self, cpu: int, to_cpu: int) -> None:
        """Let the task that runs on a CPU go on on an idle one, with all its frames.

        The clock of the CPU that it moves to becomes the later one of both.

        Raises
        ------
        MachineError
            If a scheduler could not do that now: nothing runs there, the other CPU is busy, the task waits or
            holds a lock, or it cannot be preempted (in an interrupt, interrupts or preemption disabled).
        """
        for number in (cpu, to_cpu):
            self._block(number)
        block, target = (self.cpu_blocks()[number] for number in (cpu, to_cpu))
        reason = why_not(block, target)
        if reason:
            raise MachineError(f"the task of CPU {cpu} cannot move to CPU {to_cpu}: {reason}")
        move_task(self.state, block, target, self.image.window_words)
        set_key(self.state, cpu, L.NEVER)
        self._rekey(cpu)
        set_key(self.state, to_cpu, int(target[L.C_CLOCK]))
        self.state[L.H_CURRENT_CPU] = self.state[self.state[L.H_TREE] + 1]

    def _now(self, block: int) -> int:
        """A CPU's clock; for one that does not run, not before the CPU that is next."""
        own = int(self.state[block + L.C_CLOCK])
        if self.state[block + L.C_STATE] == CpuState.RUNNING:
            return own
        following = self._next_key()
        return max(own, following) if following < L.NEVER else own

    def _next_key(self) -> int:
        """When the CPU that is next runs, sources that stand still left out; NEVER if nobody can."""
        while True:
            cpu = int(self.state[self.state[L.H_TREE] + 1])
            key = int(self.state[self.state[L.H_KEYS] + cpu])
            runs = self.cpu_word(cpu, L.C_STATE) == CpuState.RUNNING
            if key >= L.NEVER or runs or not hold_sources(self.state, cpu, key):
                return key

    def copy_state(self) -> IntArray:
        """A checkpoint: one copy of the whole state."""
        return self.state.copy()

    def restore_state(self, checkpoint: IntArray) -> None:
        """Go back to a checkpoint (which stays usable)."""
        self.state = checkpoint.copy()
