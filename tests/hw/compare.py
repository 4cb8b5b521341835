"""Run a program on the engine and on the reference machine side by side, and say where they differ.

What is compared is everything that the rules determine: CPUs, live registers, memory, caches, directory,
buses, prefetchers, lock queues, counters and the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState, Status
from slubviz.hw.locks import lock_row
from slubviz.hw.machine import Machine
from slubviz.hw.machine_file import CacheGeometry, MachineSpec
from tests.hw.assemble import Assembler, small_memory
from tests.hw.reference import ReferenceMachine
from tests.hw.reference_memory import Cache

COUNTER_NAMES: dict[int, str] = {
    L.N_L2_HIT: "l2_hit",
    L.N_TRANSFER_SIBLING: "transfer_same_l2",
    L.N_TRANSFER_PACKAGE: "transfer_same_package",
    L.N_TRANSFER_SYSTEM: "transfer_other_package",
    L.N_TRANSFER_NODE: "transfer_other_node",
    L.N_MEMORY_LOCAL: "memory_local",
    L.N_MEMORY_REMOTE: "memory_remote",
    L.N_UPGRADE: "upgrade",
    L.N_PREFETCHED: "prefetched",
    L.N_LOCKS_TAKEN: "locks_taken",
    L.N_LOCKS_CONTENDED: "locks_contended",
    L.N_LOCK_WAIT_MILLICYCLES: "lock_wait",
    L.N_INTERRUPTS: "interrupts",
    L.N_LOCKED_OPS: "locked_ops",
    L.N_STORE_STALL_MILLICYCLES: "store_stall",
    L.N_CMPXCHG_FAILED: "cmpxchg_failed",
    L.N_L2_EVICTION: "l2_eviction",
    L.N_L3_HIT: "l3_hit",
    L.N_TRANSFER_L3: "transfer_same_l3",
    L.N_L3_EVICTION: "l3_eviction",
}

View = dict[str, Any]


def _sets(words: Sequence[int], ways: int) -> list[list[int]]:
    return [[w for w in words[i : i + ways] if w] for i in range(0, len(words), ways)]


Tags = list[list[list[int]]]  # cache, set, way: the most recent first


def _tags(machine: Machine, start: int, count: int, shape: CacheGeometry) -> Tags:
    words = shape.sets(machine.spec.line_bytes) * shape.ways
    regions = machine.state[start : start + count * words].reshape(count, words)
    return [_sets(region.tolist(), shape.ways) for region in regions]


def cache_contents(machine: Machine) -> tuple[Tags, Tags, Tags]:
    """L1, middle and outer tags."""
    state, spec = machine.state, machine.spec
    l1_count = -(-spec.cpus // spec.cpus_per_l1)
    return (
        _tags(machine, int(state[L.H_L1]), l1_count, spec.l1),
        _tags(machine, int(state[L.H_MIDDLE]), spec.l2_count, spec.l2) if spec.l3 else [],
        _tags(machine, int(state[L.H_L2]), spec.outer_count, spec.outer),
    )


def waiters(machine: Machine, address: int) -> list[int]:
    """CPUs in the queue of a lock, in order."""
    row = int(lock_row(machine.state, address, 0))
    found: list[int] = []
    following = int(machine.state[row + L.K_HEAD]) if row >= 0 else 0
    while following:
        found.append(following - 1)
        following = machine.cpu_word(following - 1, L.C_WAIT_NEXT)
    return found


def directory(machine: Machine) -> dict[int, int]:
    """The rows of the line directory: line -> info."""
    base, size = int(machine.state[L.H_DIRECTORY]), int(machine.state[L.H_DIRECTORY_SIZE])
    rows = machine.state[base : base + 2 * size].reshape(size, 2).tolist()
    return {line: info for line, info in rows if line}


def engine_cpu(machine: Machine, cpu: int) -> View:
    block = machine.cpu_blocks()[cpu].tolist()
    return {
        "clock": block[L.C_CLOCK],
        "pc": block[L.C_PC],
        "state": CpuState(block[L.C_STATE]).name,
        "irq_enabled": block[L.C_IRQ_ENABLED],
        "preempt": block[L.C_PREEMPT],
        "irq_depth": block[L.C_IRQ_DEPTH],
        "micro_ops": block[L.C_MICRO_OPS],
        "woken": bool(block[L.C_WOKEN]),
        "store_busy": max(block[L.C_STORE_BUSY], block[L.C_CLOCK]),
        "held": [
            (block[L.C_HELD_ADDRESS + i], block[L.C_HELD_SINCE + i])
            for i in range(min(block[L.C_HELD], L.HELD_MAX))
        ],
    }


def reference_cpu(machine: ReferenceMachine, cpu: int) -> View:
    this = machine.cpus[cpu]
    return {
        "clock": this.clock,
        "pc": this.pc,
        "state": this.state.name,
        "irq_enabled": this.irq_enabled,
        "preempt": this.preempt,
        "irq_depth": this.irq_depth,
        "micro_ops": this.micro_ops,
        "woken": this.woken,
        "store_busy": max(this.store_busy, this.clock),
        "held": this.held,
    }


def reference_caches(machine: ReferenceMachine) -> tuple[Tags, Tags, Tags]:
    caches = machine.caches

    def entries(level: list[Cache]) -> Tags:
        return [[[e.number << 1 | e.writable for e in ways] for ways in cache.sets] for cache in level]

    return (
        entries(caches.l1s),
        entries(caches.middles),
        [[[e.number for e in ways] for ways in cache.sets] for cache in caches.outers],
    )


def reference_directory(machine: ReferenceMachine, coarse_shift: int) -> dict[int, int]:
    """What the directory has to say, from the caches' contents."""
    caches = machine.caches
    lines = {e.number for cache in caches.outers for entries in cache.sets for e in entries}
    lines |= {line for line, count in caches.pollers.items() if count}
    rows: dict[int, int] = {}
    for line in lines:
        mask = 0
        for number, cache in enumerate(caches.outers):
            if cache.find(line):
                mask |= 1 << (number >> coarse_shift)
        rows[line] = mask << 16 | caches.pollers[line] << 1 | (line in caches.modified)
    return rows


def engine_queues(machine: Machine) -> View:
    """When buses and polled lines are free, and what the stream prefetcher remembers."""
    state, spec = machine.state, machine.spec

    def words(where: int, count: int) -> list[int]:
        return state[int(state[where]) :][:count].tolist()

    entries = int(state[L.H_STRIDE_ENTRIES])
    table = words(L.H_STRIDES, spec.cpus * entries * L.STRIDE_WORDS)
    rows = [table[at : at + L.STRIDE_WORDS] for at in range(0, len(table), L.STRIDE_WORDS)]
    return {
        "bus": words(L.H_BUS, spec.nodes),
        "polled": words(L.H_LINE_BUSY, L.LINE_BUSY_ENTRIES),
        "walks": {divmod(n, entries): (row[0], row[L.STRIDE_TIME]) for n, row in enumerate(rows) if row[0]},
    }


def reference_queues(machine: ReferenceMachine) -> View:
    caches = machine.caches
    return {
        "bus": caches.bus_free,
        "polled": caches.served,
        "walks": {slot: (walk.lines[-1], walk.when) for slot, walk in caches.walks.items()},
    }


@dataclass
class Pair:
    """One program on both machines, driven together."""

    engine: Machine
    reference: ReferenceMachine

    @classmethod
    def of(cls, program: Assembler, spec: MachineSpec) -> Pair:
        image = program.image()
        return cls(
            Machine(spec, image, small_memory(spec)), ReferenceMachine(spec, image, small_memory(spec))
        )

    def start(self, cpu: int, function: int, arguments: Sequence[int] = ()) -> None:
        self.engine.start(cpu, function, arguments)
        self.reference.start(cpu, function, arguments)

    def expect_rendezvous(self, cpus: int) -> None:
        self.engine.expect_rendezvous(cpus)
        self.reference.expect_rendezvous(cpus)

    def inject(
        self,
        cpu: int,
        function: int,
        argument: int | Sequence[int] = 0,
        *,
        at_micro_op: int | None = None,
        at_cycle: float | None = None,
        **source: Any,
    ) -> None:
        for machine in (self.engine, self.reference):
            machine.inject(cpu, function, argument, at_micro_op=at_micro_op, at_cycle=at_cycle, **source)

    def migrate(self, cpu: int, to_cpu: int) -> None:
        for machine in (self.engine, self.reference):
            machine.migrate(cpu, to_cpu)

    # --- comparing ----------------------------------------------------------------------------
    def check_cpus(self) -> None:
        """Every CPU is in the same place in both machines, with the same registers."""
        for cpu in range(self.engine.spec.cpus):
            assert engine_cpu(self.engine, cpu) == reference_cpu(self.reference, cpu), f"CPU {cpu}"
            this = self.reference.cpus[cpu]
            if this.state != CpuState.HALTED:
                self._check_registers(cpu)
        assert self.engine.micro_ops == self.reference.micro_ops
        assert self.engine.trace_hash == self.reference.trace_hash

    def _check_registers(self, cpu: int) -> None:
        this = self.reference.cpus[cpu]
        frame = this.frames[-1]
        words = self.engine.image.window_words[frame.function]
        expected = this.registers[frame.window : frame.window + words]
        window = self.engine.cpu_word(cpu, L.C_WINDOW)
        base = self.engine.cpu_word(cpu, L.C_STACK_BASE)
        assert window - base == frame.window, f"CPU {cpu}: window"
        assert self.engine.cpu_word(cpu, L.C_FUNCTION) == frame.function
        actual = self.engine.state[window : window + words].tolist()
        assert [a for a, e in zip(actual, expected, strict=True) if e is not None] == [
            e for e in expected if e is not None
        ], f"CPU {cpu}: registers"

    def check_rest(self) -> None:
        """Memory, caches, directory, lock queues and counters agree."""
        engine, reference = self.engine, self.reference
        assert cache_contents(engine) == reference_caches(reference)
        assert engine_queues(engine) == reference_queues(reference)
        shift = int(engine.state[L.H_COARSE_SHIFT])
        assert directory(engine) == reference_directory(reference, shift)
        for (frame, granule), value in reference.memory.values.items():
            offset = 8 * reference.memory.stored_word[frame, granule]
            address = frame * engine.spec.page_size_bytes + offset
            assert engine.read(address) & ((1 << 64) - 1) == value, f"memory at {address:#x}"
        queues = {address: [cpu.number for cpu in queue] for address, queue in reference.queues.items()}
        assert {address: waiters(engine, address) for address in queues} == queues
        waiting = [c.number for c in reference.cpus if c.state == CpuState.WAITING_LOCK]
        assert sorted(cpu for queue in queues.values() for cpu in queue) == waiting
        self.check_counters()

    def check_counters(self) -> None:
        for cpu, row in enumerate(self.engine.counters().tolist()):
            hardware = {name: row[number] for number, name in COUNTER_NAMES.items()}
            assert hardware == {name: self.reference.counters[cpu][name] for name in hardware}, f"CPU {cpu}"
            own = dict(enumerate(row[L.HARDWARE_COUNTERS :]))
            assert own == {i: self.reference.program_counters[cpu][i] for i in own}, f"CPU {cpu}"

    def check_fault(self) -> None:
        """Both stopped with the same program error."""
        state = self.engine.state
        assert self.reference.fault is not None
        fault, cpu, pc, address = self.reference.fault
        assert self.engine.fault == fault
        assert [int(state[i]) for i in (L.H_FAULT_CPU, L.H_FAULT_PC)] == [cpu, pc]
        if address:
            assert int(state[L.H_FAULT_ADDRESS]) == address

    def _deliver_as_engine(self) -> None:
        """The engine may have taken a due interrupt already, before the micro-op limit stopped it."""
        taken = int(self.engine.counters()[:, L.N_INTERRUPTS].sum())
        if taken > sum(counts["interrupts"] for counts in self.reference.counters):
            self.reference.deliver()

    # --- running -------------------------------------------------------------------------------
    def run_compared(self, micro_ops: int, each: Callable[[int], None] | None = None) -> Status:
        """Step both machines, comparing after every micro-op; ``each`` may interfere before one."""
        for number in range(micro_ops):
            if each is not None:
                each(number)
            before = self.engine.micro_ops
            status = self.engine.step()
            self.reference.run(self.reference.micro_ops + 1)
            if status == Status.FAULT:
                self.check_fault()
                return status
            assert self.reference.fault is None, self.reference.fault
            self._deliver_as_engine()
            self.check_cpus()
            self.check_rest()
            if self.engine.micro_ops == before:
                assert status in (Status.HALTED, Status.DEADLOCK)
                assert self.reference.next_cpu() is None
                return status
        return Status.MICRO_OPS

    def run_to_end(self, micro_ops: int) -> Status:
        """Run both at once, the engine without stops, and compare at the end."""
        status = self.engine.run(micro_ops)
        self.reference.run(micro_ops)
        if status == Status.FAULT:
            self.check_fault()
            return status
        assert self.reference.fault is None, self.reference.fault
        self._deliver_as_engine()
        self.check_cpus()
        self.check_rest()
        return status
