"""The reference machine: the documented rules of the simulated machine as plain objects, dicts and lists.

It runs the same program image as the engine and is compared with it micro-op by micro-op.  It follows
``slubviz.hw.isa`` and the module docstrings of ``slubviz.hw`` and knows nothing of the engine's layout.
What it leaves out: breakpoints, limits and the backing store, which do not change what a program does.

A register whose value nobody has set (a place where the engine keeps a frame's header) is None here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from slubviz.hw.isa import FRAME_WORDS, WORDS, CpuState, Fault, Op
from slubviz.hw.machine import STACK_WORDS, MemoryPlan, ProgramImage
from slubviz.hw.machine_file import MachineSpec
from tests.hw.reference_memory import (
    MASK_32,
    MASK_64,
    ReferenceCaches,
    ReferenceFault,
    ReferenceMemory,
    Request,
    signed,
)

INTERRUPT_PREEMPT = 65536
LOCAL_OPS = (Op.CMPXCHG_LOCAL, Op.CMPXCHG_DOUBLE_LOCAL, Op.ATOMIC_ADD_LOCAL)
DOUBLE_OPS = (Op.CMPXCHG_DOUBLE_LOCAL, Op.CMPXCHG_DOUBLE)

COST_NAMES: dict[str, str] = {
    "multiply": "MUL MULI",
    "divide": "DIV MOD DIVI MODI",
    "bit_scan": "FLS",
    "call": "CALL",
    "return": "RET",
    "load": "LD LDS PREEMPT_COUNT",
    "store": "ST UNLOCK",
    "cmpxchg_local": "CMPXCHG_LOCAL ATOMIC_ADD_LOCAL",
    "cmpxchg_double_local": "CMPXCHG_DOUBLE_LOCAL",
    "locked_operation": "CMPXCHG CMPXCHG_DOUBLE XCHG ATOMIC_ADD LOCK TRYLOCK UNLOCK_LOCKED",
    "irq_save": "IRQ_SAVE",
    "irq_restore": "IRQ_RESTORE",
    "irq_disable": "IRQ_DISABLE",
    "irq_enable": "IRQ_ENABLE",
    "preempt": "PREEMPT_DISABLE PREEMPT_ENABLE",
    "cpu_id": "CPU_ID NODE_ID",
    "rdtsc": "RDTSC",
    "pause": "PAUSE",
    "": "COUNT COUNT_N LOCK_NOTE OWNER_NOTE GRANULE RENDEZVOUS",
}
COST_OF_OP = {Op[op]: name for name, ops in COST_NAMES.items() for op in ops.split()}
#: A kernel for one CPU has no lock prefix, but xchg locks without one.
UP_LOCAL = {
    Op.CMPXCHG: Op.CMPXCHG_LOCAL,
    Op.CMPXCHG_DOUBLE: Op.CMPXCHG_DOUBLE_LOCAL,
    Op.ATOMIC_ADD: Op.ATOMIC_ADD_LOCAL,
}
BARRIERS = ("", "barrier_write", "barrier_read", "barrier_full")

ALU: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda x, y: x + y,
    Op.SUB: lambda x, y: x - y,
    Op.MUL: lambda x, y: x * y,
    Op.AND: lambda x, y: x & y,
    Op.OR: lambda x, y: x | y,
    Op.XOR: lambda x, y: x ^ y,
    Op.SHL: lambda x, y: x << (y & 63),
    Op.SHR: lambda x, y: x >> (y & 63),
    Op.SEQ: lambda x, y: int(x == y),
    Op.SNE: lambda x, y: int(x != y),
    Op.SLT: lambda x, y: int(x < y),
    Op.SLE: lambda x, y: int(x <= y),
    Op.DIV: lambda x, y: x // y,
    Op.MOD: lambda x, y: x % y,
}
ALU_IMMEDIATE = {
    Op.ADDI: Op.ADD,
    Op.MULI: Op.MUL,
    Op.DIVI: Op.DIV,
    Op.MODI: Op.MOD,
    Op.ANDI: Op.AND,
    Op.ORI: Op.OR,
    Op.XORI: Op.XOR,
    Op.SHLI: Op.SHL,
    Op.SHRI: Op.SHR,
}
BRANCHES: dict[Op, Callable[[int, int], bool]] = {
    Op.BEQ: lambda x, y: x == y,
    Op.BNE: lambda x, y: x != y,
    Op.BLT: lambda x, y: x < y,
    Op.BLE: lambda x, y: x <= y,
    Op.BEQI: lambda x, y: x == y,
    Op.BNEI: lambda x, y: x != y,
    Op.BLTI: lambda x, y: x < y,
    Op.BLEI: lambda x, y: x <= y,
    Op.BGTI: lambda x, y: x > y,
    Op.BGEI: lambda x, y: x >= y,
}


@dataclass
class Frame:
    """A function that runs, or waits for a callee or an interrupt above it."""

    function: int
    window: int
    return_pc: int = -1
    result: int = -1
    interrupt: bool = False
    was_halted: bool = False


@dataclass
class Pending:
    """An interrupt that has not come yet; with a period the next one of a source."""

    function: int
    arguments: tuple[int, ...]
    at_micro_op: int | None
    at_millicycles: int | None
    period: int = 0
    spread: int = 0
    seed: int = 0
    left: int | None = 1  # None: no end

    def due(self, clock: int, micro_ops: int) -> bool:
        return self.when <= (clock if self.at_micro_op is None else micro_ops)

    @property
    def when(self) -> int:
        when = self.at_millicycles if self.at_micro_op is None else self.at_micro_op
        assert when is not None
        return when

    def following(self, clock: int, micro_ops: int) -> Pending | None:
        """The source's next one, after one that is delivered now; None if there is none."""
        if not self.period or self.left == 1:
            return None
        now = clock if self.at_micro_op is None else micro_ops
        when = self.when + self.period
        while when <= now:  # those that nobody was there for
            when += self.period
        seed = signed(self.seed * 6364136223846793005 + 1442695040888963407)
        when += (seed >> 16 & 0x7FFFFFFFFFFF) % (self.spread + 1)
        return replace(
            self,
            at_micro_op=None if self.at_micro_op is None else when,
            at_millicycles=when if self.at_micro_op is None else None,
            seed=seed,
            left=None if self.left is None else self.left - 1,
        )


@dataclass
class ReferenceCpu:
    """One CPU; times in millicycles."""

    number: int
    clock: int = 0
    pc: int = -1
    state: CpuState = CpuState.HALTED
    irq_enabled: int = 1
    preempt: int = 0
    micro_ops: int = 0
    store_busy: int = 0
    frames: list[Frame] = field(default_factory=list)
    registers: list[int | None] = field(default_factory=lambda: [0] * STACK_WORDS)
    pending: list[Pending] = field(default_factory=list)
    held: list[tuple[int, int]] = field(default_factory=list)  # (address, since)
    wait_address: int = 0
    wait_mask: int = 0
    wait_since: int = 0
    woken: bool = False
    contended: bool = False
    arrived: bool = False  # waits at a rendezvous, or was interrupted there
    released: bool = False

    @property
    def irq_depth(self) -> int:
        return sum(frame.interrupt for frame in self.frames)


@dataclass
class Access:
    """What a read-modify-write works on."""

    address: int
    size: int
    old: int  # as read: 8 bytes signed, 4 bytes zero-extended
    polled: bool


class ReferenceMachine:
    """Slow and obvious; the interface is that of ``slubviz.hw.machine.Machine`` where it has the same."""

    def __init__(self, spec: MachineSpec, image: ProgramImage, plan: MemoryPlan) -> None:
        self.spec = spec
        self.image = image
        self.rows: list[list[int]] = image.code.reshape(-1, WORDS).tolist()
        self.memory = ReferenceMemory(spec, plan)
        self.caches = ReferenceCaches(spec)
        self.cost = self.caches.cost
        self.cpus = [ReferenceCpu(cpu) for cpu in range(spec.cpus)]
        self.queues: dict[int, list[ReferenceCpu]] = {}  # lock address -> who waits, the longest first
        self.program_counters = [Counter[int]() for _ in range(spec.cpus)]
        self.counters = self.caches.counters
        self.owners: dict[int, int] = {}  # structure -> CPU
        self.expected_at_rendezvous = 0
        self.trace_hash = 0x1234567
        self.micro_ops = 0
        self.fault: tuple[Fault, int, int, int] | None = None  # fault, CPU, pc, address

    # --- the same interface as Machine -------------------------------------------------------
    def start(self, cpu: int, function: int, arguments: Sequence[int] = ()) -> None:
        this = self.cpus[cpu]
        this.frames = [Frame(function, FRAME_WORDS)]
        this.registers[:FRAME_WORDS] = [None] * FRAME_WORDS
        this.registers[FRAME_WORDS : FRAME_WORDS + len(arguments)] = arguments
        this.pc = self.image.entry_pc[function]
        this.state = CpuState.RUNNING

    def expect_rendezvous(self, cpus: int) -> None:
        self.expected_at_rendezvous = cpus

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
        this = self.cpus[cpu]
        arguments = (argument,) if isinstance(argument, int) else tuple(argument)
        left = count or None
        if at_micro_op is not None or period_micro_ops:
            first = this.micro_ops if at_micro_op is None else at_micro_op
            pending = Pending(
                function, arguments, first, None, period_micro_ops, spread_micro_ops, seed, left
            )
        else:
            when = self._now(this) if at_cycle is None else round(at_cycle * 1000)
            period, spread = round(period_cycles * 1000), round(spread_cycles * 1000)
            pending = Pending(function, arguments, None, when, period, spread, seed, left)
        this.pending.append(pending)

    def migrate(self, cpu: int, to_cpu: int) -> None:
        """Move a task; that it may move is for the caller to know."""
        this, target = self.cpus[cpu], self.cpus[to_cpu]
        top = this.frames[-1]
        live = top.window + self.image.window_words[top.function]
        target.registers[:live] = this.registers[:live]
        target.frames, this.frames = this.frames, []
        target.pc, this.pc = this.pc, -1
        target.state, this.state = this.state, CpuState.HALTED
        target.irq_enabled, this.irq_enabled = this.irq_enabled, target.irq_enabled
        target.preempt, this.preempt = this.preempt, target.preempt
        target.clock = max(this.clock, target.clock)

    def _now(self, this: ReferenceCpu) -> int:
        """A CPU's clock; an idle or waiting one's is not before the CPU that is next."""
        following = self.next_cpu()
        if this.state == CpuState.RUNNING or following is None:
            return this.clock
        return max(this.clock, self._turn(following) or 0)

    # --- whose turn it is ----------------------------------------------------------------------
    def _turn(self, this: ReferenceCpu) -> int | None:
        """When a CPU wants to run; None if it cannot."""
        if this.state == CpuState.RUNNING:
            return this.clock
        # A CPU that waits or idles is woken by the next interrupt of a known time.
        sources = self._any_task() and any(cpu.state == CpuState.RUNNING for cpu in self.cpus)
        times = [
            p.at_millicycles
            for p in this.pending
            if p.at_millicycles is not None and (sources or not p.period)
        ]
        return min(times) if times and this.irq_enabled else None

    def _any_task(self) -> bool:
        """Whether some CPU has a function that was started, not just a handler."""
        return any(cpu.frames and not cpu.frames[0].interrupt for cpu in self.cpus)

    def next_cpu(self) -> ReferenceCpu | None:
        """The runnable CPU with the smallest clock; ties by number."""
        turns = [(turn, cpu.number) for cpu in self.cpus if (turn := self._turn(cpu)) is not None]
        return self.cpus[min(turns)[1]] if turns else None

    def step(self) -> bool:
        """Execute one micro-op of the next CPU; False if nobody can run or the program has a fault."""
        while (this := self.next_cpu()) is not None:
            try:
                if self._interrupt(this):
                    continue
                self._execute(this)
            except ReferenceFault as fault:
                self.fault = (fault.fault, this.number, this.pc, fault.address)
                return False
            return True
        return False

    def deliver(self) -> None:
        """Let the next CPU take its due interrupt now; when between two micro-ops is not laid down."""
        this = self.next_cpu()
        assert this is not None
        assert self._interrupt(this)

    def run(self, micro_ops: int) -> None:
        """Execute micro-ops up to so many in all."""
        while self.micro_ops < micro_ops and self.step():
            pass

    # --- interrupts -----------------------------------------------------------------------------
    def _interrupt(self, this: ReferenceCpu) -> bool:
        """Deliver the due interrupt that was injected first, if one is due and the CPU takes it."""
        turn = self._turn(this)
        assert turn is not None
        clock = max(this.clock, turn)
        sources = self._any_task()
        due = [p for p in this.pending if p.due(clock, this.micro_ops) and (sources or not p.period)]
        if not due or not this.irq_enabled:
            return False
        at = next(i for i, p in enumerate(this.pending) if p is due[0])
        del this.pending[at]
        following = due[0].following(clock, this.micro_ops)
        if following is not None:
            this.pending.append(following)
        if this.state == CpuState.WAITING_LOCK:
            self._stop_waiting(this)
        halted = this.state == CpuState.HALTED
        if halted:
            window = FRAME_WORDS
        else:
            top = this.frames[-1]
            window = top.window + self.image.window_words[top.function] + FRAME_WORDS
        self._check_stack(window, due[0].function)
        this.registers[window - FRAME_WORDS : window] = [None] * FRAME_WORDS
        this.registers[window : window + len(due[0].arguments)] = due[0].arguments
        this.frames.append(Frame(due[0].function, window, this.pc, interrupt=True, was_halted=halted))
        this.state = CpuState.RUNNING
        this.irq_enabled = 0
        this.preempt += INTERRUPT_PREEMPT
        this.clock = clock + self.cost["interrupt_entry"]
        this.pc = self.image.entry_pc[due[0].function]
        self.counters[this.number]["interrupts"] += 1
        if this.woken:
            # It was woken and cannot retry now: somebody else must get the chance.
            this.woken = False
            self._wake(this.wait_address, this, clock)
        return True

    def _check_stack(self, window: int, function: int) -> None:
        if window + self.image.window_words[function] >= STACK_WORDS:
            raise ReferenceFault(Fault.STACK_OVERFLOW)

    # --- locks ------------------------------------------------------------------------------------
    def _lock_size(self, address: int) -> int:
        return 8 if address % 8 == 0 else 4

    def _start_waiting(self, this: ReferenceCpu, address: int, mask: int) -> None:
        self.queues.setdefault(address, []).append(this)
        if not this.woken:
            self.counters[this.number]["locks_contended"] += 1
            this.wait_since = this.clock
        this.woken = False
        this.wait_address, this.wait_mask = address, mask
        this.state = CpuState.WAITING_LOCK
        self.caches.start_polling(address // self.spec.line_bytes)

    def _stop_waiting(self, this: ReferenceCpu) -> None:
        queue = self.queues[this.wait_address]
        queue.remove(this)
        if not queue:
            del self.queues[this.wait_address]
        this.state = CpuState.RUNNING
        self.caches.stop_polling(this.wait_address // self.spec.line_bytes)

    def _wake(self, address: int, releaser: ReferenceCpu, clock: int) -> None:
        """Let the one that has waited longest for lock bits that are clear now retry."""
        queue = self.queues.get(address, [])
        word = self.memory.read(address, self._lock_size(address))
        chosen = next((cpu for cpu in queue if word & cpu.wait_mask == 0), None)
        if chosen is None:
            return
        self._stop_waiting(chosen)
        chosen.woken = True
        reread = self.cost[self.caches.distance(releaser.number, chosen.number)]
        chosen.clock = max(chosen.clock, clock + reread)

    def _polled_write(self, this: ReferenceCpu, address: int, size: int, clock: int) -> None:
        """Somebody wrote bytes of a line that is polled: wake a waiter of each lock word that it
        touched."""
        first = address & ~7
        for lock in sorted(self.queues):
            if first <= lock < address + size:
                self._wake(lock, this, clock)

    def _taken(self, this: ReferenceCpu, address: int) -> None:
        self.counters[this.number]["locks_taken"] += 1
        this.held.append((address, this.clock))
        if this.woken:
            self.counters[this.number]["lock_wait"] += this.clock - this.wait_since
            this.woken = False

    def _dropped(self, this: ReferenceCpu, address: int) -> None:
        for i in reversed(range(len(this.held))):
            if this.held[i][0] == address:
                del this.held[i]
                return

    # --- one micro-op -------------------------------------------------------------------------------
    def _plain_cost(self, op: Op, imm: int) -> int:
        if op == Op.LOCK_IRQSAVE:
            return self.cost["irq_save"] + self.cost["locked_operation"]
        if op == Op.INSTRUCTIONS:
            return imm * self.cost["instruction"]
        name = BARRIERS[imm] if op == Op.BARRIER else COST_OF_OP.get(op, "instruction")
        return self.cost[name] if name else 0

    def _execute(self, this: ReferenceCpu) -> None:
        number, a, b, c, imm, aux, size, _ = self.rows[this.pc]
        op = Op(number)
        if not self.spec.smp_kernel:
            op, a, imm = self._as_for_one_cpu(op, a, imm)
        start_pc = this.pc
        this.clock += self._plain_cost(op, imm)
        this.pc += 1
        try:
            self._do(this, op, start_pc, a, b, c, imm, aux, size)
        except ReferenceFault:
            this.pc = start_pc
            raise
        this.micro_ops += 1
        self.micro_ops += 1
        mixed = signed(start_pc + (this.number << 24) + this.clock * 0x1E3779B97F4A7C15)
        self.trace_hash = signed((self.trace_hash ^ mixed) * 0x100000001B3)

    @staticmethod
    def _as_for_one_cpu(op: Op, a: int, imm: int) -> tuple[Op, int, int]:
        """What a kernel for one CPU has in the place of a micro-op: op, register and number."""
        if op in (Op.LOCK, Op.UNLOCK, Op.UNLOCK_LOCKED):
            return Op.INSTRUCTIONS, 0, 0
        if op == Op.TRYLOCK:
            return Op.LI, a, 1
        if op == Op.LOCK_IRQSAVE:
            return Op.IRQ_SAVE, a, imm
        if op == Op.BARRIER:
            return op, a, 0
        return UP_LOCAL.get(op, op), a, imm

    def get(self, this: ReferenceCpu, register: int) -> int:
        """Value of a register of the running function."""
        value = this.registers[this.frames[-1].window + register]
        assert value is not None, f"pc {this.pc - 1} reads register {register}, which nobody has set"
        return value

    def put(self, this: ReferenceCpu, register: int, value: int) -> None:
        """Set a register of the running function."""
        this.registers[this.frames[-1].window + register] = signed(value)

    def _do(
        self, this: ReferenceCpu, op: Op, pc: int, a: int, b: int, c: int, imm: int, aux: int, size: int
    ) -> None:
        if op in ALU or op in ALU_IMMEDIATE:
            right = self.get(this, c) if op in ALU else imm
            kind = ALU_IMMEDIATE.get(op, op)
            if kind in (Op.DIV, Op.MOD) and right == 0:
                raise ReferenceFault(Fault.DIVISION_BY_ZERO)
            self.put(this, a, ALU[kind](self.get(this, b), right))
        elif op in BRANCHES:
            right = self.get(this, c) if op in (Op.BEQ, Op.BNE, Op.BLT, Op.BLE) else imm
            if BRANCHES[op](self.get(this, b), right):
                this.pc = aux
        elif op in (Op.LD, Op.LDS):
            self._load(this, op, a, self.get(this, b) + imm, size)
        elif op in (Op.ST, Op.UNLOCK):
            self._store(this, op, self.get(this, b) + imm, size, c, aux)
        elif Op.CMPXCHG_LOCAL <= op <= Op.UNLOCK_LOCKED:
            self._read_modify_write(this, op, pc, a, self.get(this, b) + imm, c, aux, size)
        elif op == Op.CALL:
            self._call(this, a, c, imm, aux)
        elif op == Op.RET:
            self._return(this, self.get(this, b) if b >= 0 else 0)
        elif op == Op.RENDEZVOUS:
            self._rendezvous(this, pc)
        else:
            self._do_rest(this, op, a, b, c, imm, aux)

    def _do_rest(self, this: ReferenceCpu, op: Op, a: int, b: int, c: int, imm: int, aux: int) -> None:
        counts = self.program_counters[this.number]
        match op:
            case Op.NOP | Op.INSTRUCTIONS | Op.PAUSE:
                pass
            case Op.MOV:
                self.put(this, a, self.get(this, b))
            case Op.LI:
                self.put(this, a, imm)
            case Op.LI64:
                self.put(this, a, (aux << 32) | (imm & MASK_32))
            case Op.NEG:
                self.put(this, a, -self.get(this, b))
            case Op.NOT:
                self.put(this, a, ~self.get(this, b))
            case Op.FLS:
                self.put(this, a, (self.get(this, b) & MASK_64).bit_length())
            case Op.JMP:
                this.pc = aux
            case Op.LOCK_NOTE if imm == 2:
                if not this.contended:
                    self.counters[this.number]["locks_contended"] += 1
                    this.wait_since = this.clock
                    this.contended = True
            case Op.LOCK_NOTE if imm == 1:
                self._taken(this, self.get(this, b) + aux)
                if this.contended:
                    self.counters[this.number]["lock_wait"] += this.clock - this.wait_since
                    this.contended = False
            case Op.LOCK_NOTE:
                self._dropped(this, self.get(this, b) + aux)
            case Op.PREFETCH:
                self._prefetch(this, self.get(this, b))
            case Op.OWNER_NOTE:
                self.owners[self.get(this, b)] = this.number
            case Op.IRQ_SAVE:
                self.put(this, a, this.irq_enabled)
                this.irq_enabled = 0
            case Op.IRQ_RESTORE:
                this.irq_enabled = self.get(this, b)
            case Op.IRQ_DISABLE | Op.IRQ_ENABLE:
                this.irq_enabled = int(op == Op.IRQ_ENABLE)
            case Op.PREEMPT_DISABLE | Op.PREEMPT_ENABLE:
                this.preempt += 1 if op == Op.PREEMPT_DISABLE else -1
            case Op.PREEMPT_COUNT:
                self.put(this, a, this.preempt)
            case Op.BARRIER:
                if imm == 3:
                    this.clock = max(this.clock, this.store_busy)
            case Op.RDTSC:
                self.put(this, a, this.clock // 1000)
            case Op.CPU_ID:
                self.put(this, a, this.number)
            case Op.NODE_ID:
                self.put(this, a, self.caches.places[this.number].node)
            case Op.COUNT:
                counts[imm] += 1
            case Op.COUNT_N:
                counts[imm] += self.get(this, b)
            case Op.GRANULE:
                self.memory.set_granule(self.get(this, b), self.get(this, c), self.get(this, aux))
            case Op.BUG:
                raise ReferenceFault(Fault.BUG, imm)
            case _:
                raise AssertionError(f"no rule for {op.name}")

    # --- memory --------------------------------------------------------------------------------------
    def _access(self, this: ReferenceCpu, address: int, write: bool) -> tuple[int, bool]:
        reaches_cache = max(this.clock, this.store_busy) if write else this.clock
        request = Request(write, self.memory.node(address), this.clock, reaches_cache)
        return self.caches.access(this.number, address // self.spec.line_bytes, request)

    def _prefetch(self, this: ReferenceCpu, address: int) -> None:
        """Like a load for the caches, but nobody waits for it, and it may ask for what is not there."""
        if self.memory.exists(address):
            self._access(this, address, False)

    def _load(self, this: ReferenceCpu, op: Op, a: int, address: int, size: int) -> None:
        value = self.memory.read(address, size)
        this.clock += self._access(this, address, False)[0]
        self.put(this, a, signed(value, 32) if op == Op.LDS else value)

    def _store(self, this: ReferenceCpu, op: Op, address: int, size: int, c: int, mask: int) -> None:
        """A plain store: it goes through the store buffer, which ends stores in order, misses overlapping."""
        self.memory.cell(address, size, True)
        latency, polled = self._access(this, address, True)
        if latency:
            alone = this.clock + latency
            behind_the_last = this.store_busy + latency * self.cost["store_miss_share"] // 1000
            this.store_busy = max(alone, behind_the_last)
            stall = this.store_busy - self.cost["store_window"] - this.clock
            if stall > 0:
                self.counters[this.number]["store_stall"] += stall
                this.clock += stall
        if op == Op.UNLOCK:
            value = self._unlocked(this, address, size, mask)
        else:
            value = self.get(this, c)
        self.memory.write(address, size, value)
        if polled:
            self._polled_write(this, address, size, max(this.clock, this.store_busy))

    def _unlocked(self, this: ReferenceCpu, address: int, size: int, mask: int) -> int:
        old = self.memory.read(address, size)
        if old & mask == 0:
            raise ReferenceFault(Fault.UNLOCK_FREE, address)
        self._dropped(this, address)
        return old & ~mask

    def _read_modify_write(
        self, this: ReferenceCpu, op: Op, pc: int, a: int, address: int, c: int, aux: int, size: int
    ) -> None:
        self.memory.cell(address, size, True)
        if op in DOUBLE_OPS and address % (2 * size):
            raise ReferenceFault(Fault.MISALIGNED, address)
        if op not in LOCAL_OPS:
            self.counters[this.number]["locked_ops"] += 1
            this.clock = max(this.clock, this.store_busy)
        latency, polled = self._access(this, address, True)
        this.clock += latency
        access = Access(address, size, self.memory.read(address, size), polled)
        if op in DOUBLE_OPS:
            self._cmpxchg_double(this, access, a, c)
        elif op in (Op.LOCK, Op.LOCK_IRQSAVE, Op.TRYLOCK):
            if not self._lock(this, op, pc, access, a, aux):
                return
        elif op == Op.UNLOCK_LOCKED:
            self.memory.write(address, size, self._unlocked(this, address, size, aux))
        elif op in (Op.CMPXCHG, Op.CMPXCHG_LOCAL):
            expected = self.get(this, c)
            if access.old == (expected if size == 8 else expected & MASK_32):
                self.memory.write(address, size, self.get(this, aux))
            else:
                self.counters[this.number]["cmpxchg_failed"] += 1
            self.put(this, a, access.old)
        else:
            operand = self.get(this, c)
            self.memory.write(address, size, operand if op == Op.XCHG else access.old + operand)
            self.put(this, a, access.old if op == Op.XCHG else self.memory.read(address, size))
        if polled:
            self._polled_write(this, address, 2 * size if op in DOUBLE_OPS else size, this.clock)

    def _cmpxchg_double(self, this: ReferenceCpu, access: Access, a: int, c: int) -> None:
        second = access.address + access.size
        self.memory.cell(second, access.size, True)
        expected = [self.get(this, c), self.get(this, c + 1)]
        if access.size == 4:
            expected = [word & MASK_32 for word in expected]
        same = expected == [access.old, self.memory.read(second, access.size)]
        if same:
            self.memory.write(access.address, access.size, self.get(this, c + 2))
            self.memory.write(second, access.size, self.get(this, c + 3))
        else:
            self.counters[this.number]["cmpxchg_failed"] += 1
        self.put(this, a, int(same))

    def _lock(self, this: ReferenceCpu, op: Op, pc: int, access: Access, a: int, mask: int) -> bool:
        """LOCK, LOCK_IRQSAVE and TRYLOCK; False if the CPU waits now."""
        if this.woken:  # the others saw the lock free as well
            self.caches.rush(access.address // self.spec.line_bytes, len(self.queues.get(access.address, [])))
        if access.old & mask == 0:
            self.memory.write(access.address, access.size, access.old | mask)
            self._taken(this, access.address)
            if op == Op.TRYLOCK:
                self.put(this, a, 1)
            if op == Op.LOCK_IRQSAVE:
                self.put(this, a, this.irq_enabled)
                this.irq_enabled = 0
        elif op == Op.TRYLOCK:
            self.put(this, a, 0)
        else:
            if any(address == access.address for address, _ in this.held):
                raise ReferenceFault(Fault.SELF_DEADLOCK, access.address)
            self._start_waiting(this, access.address, mask)
            this.pc = pc
            return False
        return True

    # --- control ---------------------------------------------------------------------------------------
    def _call(self, this: ReferenceCpu, a: int, callee: int, offset: int, target: int) -> None:
        window = this.frames[-1].window + offset
        self._check_stack(window, callee)
        this.registers[window - FRAME_WORDS : window] = [None] * FRAME_WORDS
        this.frames.append(Frame(callee, window, this.pc, a))
        this.pc = target

    def _return(self, this: ReferenceCpu, value: int) -> None:
        frame = this.frames.pop()
        this.pc = frame.return_pc
        if frame.interrupt:
            this.irq_enabled = 1  # or it would not have been interrupted
            this.preempt -= INTERRUPT_PREEMPT
            this.clock += self.cost["interrupt_exit"]
        elif this.frames and frame.result >= 0:
            self.put(this, frame.result, value)
        if not this.frames or frame.was_halted:
            this.state = CpuState.HALTED
            this.pc = -1

    def _rendezvous(self, this: ReferenceCpu, pc: int) -> None:
        if this.released:
            this.released = False
            return
        this.arrived = True
        here = [cpu for cpu in self.cpus if cpu.arrived]
        if len(here) < self.expected_at_rendezvous:
            this.state = CpuState.WAITING_RENDEZVOUS
            this.pc = pc
            return
        # Those that an interrupt keeps away go on when they come back.
        waiting = [cpu for cpu in here if cpu.state == CpuState.WAITING_RENDEZVOUS]
        latest = max(cpu.clock for cpu in [*waiting, this])
        for cpu in here:
            cpu.arrived, cpu.released = False, cpu is not this
        for cpu in [*waiting, this]:
            cpu.clock = latest
            cpu.state = CpuState.RUNNING
