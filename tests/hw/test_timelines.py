"""Clocks added up by hand: what each micro-op costs, and what caches, locks and interrupts add to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState, Op, Status
from slubviz.hw.machine import Machine
from tests.hw.assemble import LINE_BYTES, PAGE_BYTES, PAGES, STATIC, Assembler, small_machine, small_memory

FAR = STATIC + PAGE_BYTES


def clocks(machine: Machine, cpu: int = 0) -> list[int]:
    """Run to the end; a CPU's clock in cycles after each of its micro-ops."""
    return [clock for number, clock in timeline(machine) if number == cpu]


def timeline(machine: Machine) -> Iterator[tuple[int, int]]:
    """Run to the end; which CPU executed each micro-op, and its clock in cycles afterwards."""
    while True:
        before = machine.cpu_blocks()[:, L.C_MICRO_OPS].copy()
        status = machine.step()
        done = machine.cpu_blocks()[:, L.C_MICRO_OPS] - before
        assert status in (Status.MICRO_OPS, Status.HALTED)
        if not done.any():
            return
        assert done.sum() == 1
        cpu = int(done.argmax())
        yield cpu, machine.cpu_word(cpu, L.C_CLOCK) // 1000


def counter(machine: Machine, number: int, cpu: int = 0) -> int:
    return int(machine.counters()[cpu, number])


def one_line_program(op: Op, **fields: int) -> tuple[Assembler, int]:
    """A function that owns a line with the store buffer empty, then executes one micro-op.

    r0 = 0, r1 = address of an owned line, r2 .. r5 = 0, r6 = 1.
    """
    out = Assembler()
    out.function("leaf")
    out.ret()
    function = out.function("main")
    out.op(Op.ST, b=1, c=0)
    out.op(Op.BARRIER, imm=3)
    if op == Op.UNLOCK or op == Op.UNLOCK_LOCKED:
        out.op(Op.LOCK, b=1, aux=1)
    if op == Op.CALL:
        out.call("leaf")
    else:
        out.op(op, **fields)
    out.op(Op.NOP)
    out.ret()
    return out, function


ADDRESS = {"b": 1}
#: Every opcode: its plain cost in cycles, and row fields that make it run.
PLAIN_COST: dict[Op, tuple[int, dict[str, int]]] = {
    **dict.fromkeys(
        [
            Op.NOP,
            Op.MOV,
            Op.LI,
            Op.LI64,
            Op.ADD,
            Op.SUB,
            Op.AND,
            Op.OR,
            Op.XOR,
            Op.SHL,
            Op.SHR,
            Op.ADDI,
            Op.ANDI,
            *(Op.ORI, Op.XORI, Op.SHLI, Op.SHRI, Op.NEG, Op.NOT, Op.SEQ, Op.SNE, Op.SLT, Op.SLE),
        ],
        (1, {"a": 7, "b": 6, "c": 6}),
    ),
    **dict.fromkeys([Op.BEQ, Op.BNE, Op.BLT, Op.BLE], (1, {"b": 2, "c": 3, "aux": -1})),
    **dict.fromkeys([Op.BEQI, Op.BNEI, Op.BLTI, Op.BLEI, Op.BGTI, Op.BGEI, Op.JMP], (1, {"b": 2, "aux": -1})),
    Op.MUL: (3, {"a": 7, "b": 6, "c": 6}),
    Op.MULI: (3, {"a": 7, "b": 6, "imm": 5}),
    Op.DIV: (20, {"a": 7, "b": 6, "c": 6}),
    Op.MOD: (20, {"a": 7, "b": 6, "c": 6}),
    Op.DIVI: (20, {"a": 7, "b": 6, "imm": 5}),
    Op.MODI: (20, {"a": 7, "b": 6, "imm": 5}),
    Op.FLS: (24, {"a": 7, "b": 6}),
    Op.CALL: (4, {}),
    Op.LD: (2, {"a": 7} | ADDRESS),
    Op.LDS: (2, {"a": 7, "size": 4} | ADDRESS),
    Op.ST: (6, ADDRESS),
    Op.CMPXCHG_LOCAL: (7, {"a": 7, "c": 2, "aux": 3} | ADDRESS),
    Op.CMPXCHG: (19, {"a": 7, "c": 2, "aux": 3} | ADDRESS),
    Op.CMPXCHG_DOUBLE_LOCAL: (8, {"a": 7, "c": 2} | ADDRESS),
    Op.CMPXCHG_DOUBLE: (19, {"a": 7, "c": 2} | ADDRESS),
    Op.XCHG: (19, {"a": 7, "c": 2} | ADDRESS),
    Op.ATOMIC_ADD_LOCAL: (7, {"a": 7, "c": 2} | ADDRESS),
    Op.ATOMIC_ADD: (19, {"a": 7, "c": 2} | ADDRESS),
    Op.LOCK: (19, {"aux": 1} | ADDRESS),
    Op.LOCK_IRQSAVE: (9 + 19, {"a": 7, "aux": 1} | ADDRESS),
    Op.TRYLOCK: (19, {"a": 7, "aux": 1} | ADDRESS),
    Op.UNLOCK: (6, {"aux": 1} | ADDRESS),
    Op.UNLOCK_LOCKED: (19, {"aux": 1} | ADDRESS),
    Op.LOCK_NOTE: (0, {"imm": 1} | ADDRESS),
    Op.OWNER_NOTE: (0, ADDRESS),
    Op.PREFETCH: (1, ADDRESS),
    Op.IRQ_SAVE: (9, {"a": 7}),
    Op.IRQ_RESTORE: (11, {"b": 6}),
    Op.IRQ_DISABLE: (12, {}),
    Op.IRQ_ENABLE: (13, {}),
    Op.PREEMPT_DISABLE: (14, {}),
    Op.PREEMPT_ENABLE: (14, {}),
    Op.RDTSC: (21, {"a": 7}),
    Op.CPU_ID: (15, {"a": 7}),
    Op.NODE_ID: (15, {"a": 7}),
    Op.COUNT: (0, {}),
    Op.COUNT_N: (0, {"b": 6}),
    Op.GRANULE: (0, {"b": 8, "c": 9, "aux": 10}),
    Op.RENDEZVOUS: (0, {}),
    Op.PAUSE: (22, {}),
    Op.PREEMPT_COUNT: (2, {"a": 7}),
}
#: Measured on their own below: their cost depends on a field, they end the run, or both.
ELSEWHERE = {Op.RET, Op.BARRIER, Op.INSTRUCTIONS, Op.BUG}


def test_every_opcode_has_an_expected_cost() -> None:
    assert set(PLAIN_COST) | ELSEWHERE == set(Op)


@pytest.mark.parametrize("op", PLAIN_COST, ids=lambda op: op.name)
def test_plain_cost(op: Op) -> None:
    cost, fields = PLAIN_COST[op]
    out, function = one_line_program(op, **fields)
    if fields.get("aux") == -1:
        out.rows[-3][5] = out.pc - 2  # a branch to the next row
    machine = out.load(small_machine())
    machine.expect_rendezvous(1)
    machine.start(0, function, [0, STATIC, 0, 0, 0, 0, 1, 0, PAGES, PAGE_BYTES, 8])
    pc = out.pc - 3
    machine.set_breakpoint(pc)
    assert machine.run() == Status.BREAKPOINT
    before = machine.cpu_word(0, L.C_CLOCK)
    machine.step()
    assert machine.cpu_word(0, L.C_CLOCK) - before == cost * 1000


@pytest.mark.parametrize(("kind", "cost"), [(0, 0), (1, 16), (2, 17), (3, 18)])
def test_barriers(kind: int, cost: int) -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.BARRIER, imm=kind)
    out.ret()
    machine = out.load(small_machine())
    machine.start(0, function)
    assert clocks(machine) == [cost, cost + 5]


def test_straight_line_instructions_cost_their_number() -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.INSTRUCTIONS, imm=37)
    out.op(Op.INSTRUCTIONS, imm=0)
    out.ret()
    machine = out.load(small_machine(cycles={"instruction": 0.7}))
    machine.start(0, function)
    machine.run()
    assert machine.cpu_word(0, L.C_CLOCK) == 37 * 700 + 5000


def loads_of(lines: list[int], op: Op = Op.LD) -> tuple[Assembler, int]:
    """One access to each of some lines of static memory; r0 = STATIC."""
    out = Assembler()
    function = out.function("main")
    for line in lines:
        out.op(op, a=1, b=0, c=2, imm=line * LINE_BYTES)
    out.ret()
    return out, function


def differences(times: list[int]) -> list[int]:
    return [b - a for a, b in zip([0, *times], times, strict=False)]


def test_load_hits_and_misses() -> None:
    # L1: 2 sets of 2 ways, so even lines share a set.  L2: 8 sets of 2 ways, so lines 0, 8 and 16 share
    # one.
    out, function = loads_of([0, 0, 2, 4, 0, 8, 16, 0, 4])
    machine = out.load(small_machine())
    machine.start(0, function, [STATIC])
    # cold, L1 hit, cold, cold (line 0 leaves the L1), L2 hit, cold, cold (line 0 leaves the L2), memory,
    # L2 hit; return
    assert differences(clocks(machine)) == [502, 2, 502, 502, 32, 502, 502, 502, 32, 5]
    assert counter(machine, L.N_MEMORY_LOCAL) == 6
    assert counter(machine, L.N_L2_HIT) == 2
    assert counter(machine, L.N_L2_EVICTION) == 2


def test_an_l1_hit_refreshes_its_line() -> None:
    out, function = loads_of([0, 2, 0, 4, 0, 2])
    machine = out.load(small_machine())
    machine.start(0, function, [STATIC])
    # Line 4 pushes out line 2, the least recently used; line 0 still hits, line 2 comes from the L2.
    assert differences(clocks(machine)) == [502, 502, 2, 502, 2, 32, 5]


def test_the_l2_includes_its_l1s() -> None:
    out, function = loads_of([0, 8, 0, 0, 16, 0])
    machine = out.load(small_machine(l1_lines=8))
    machine.start(0, function, [STATIC])
    # Line 0 is the most recent of the L1, but the L2 saw it first and throws it out: out of the L1 as well.
    assert differences(clocks(machine)) == [502, 502, 2, 2, 502, 502, 5]


def test_stores_fill_the_store_buffer() -> None:
    out, function = loads_of([0, 1, 2, 3, 4, 5], Op.ST)
    machine = out.load(small_machine())
    machine.start(0, function, [STATIC])
    # The first one ends at 506, each further one half of 500 later: at 756, 1006, 1256, 1506, 1756.  The
    # buffer may be 1000 behind.
    assert clocks(machine) == [6, 12, 18, 1256 - 1000, 1506 - 1000, 1756 - 1000, 761]
    assert machine.cpu_word(0, L.C_STORE_BUSY) == 1756_000
    assert counter(machine, L.N_STORE_STALL_MILLICYCLES) == (256 - 24 + 506 - 262 + 756 - 512) * 1000


@pytest.mark.parametrize(("share", "last"), [(0, 18 + 500), (0.004, 506 + 2 * 2 + 8), (1, 506 + 2 * 500)])
def test_overlapping_store_misses(share: float, last: int) -> None:
    """Each ends its whole latency after its issue at the earliest, and its share after the one before."""
    out, function = loads_of([0, 1, 2], Op.ST)
    machine = out.load(small_machine(cycles={"store_miss_share": share, "store_window": 10_000}))
    machine.start(0, function, [STATIC])
    assert clocks(machine) == [6, 12, 18, 23]
    assert machine.cpu_word(0, L.C_STORE_BUSY) == last * 1000


@pytest.mark.parametrize(
    ("op", "after"), [(Op.XCHG, 506), (Op.CMPXCHG, 506), (Op.CMPXCHG_LOCAL, 13), (Op.LD, 8), (Op.ST, 12)]
)
def test_only_locked_operations_wait_for_the_store_buffer(op: Op, after: int) -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.ST, b=0, c=1)
    out.op(op, a=2, b=0, c=1, aux=1)
    out.ret()
    machine = out.load(small_machine())
    machine.start(0, function, [STATIC, 0])
    assert clocks(machine)[:2] == [6, after]


def test_a_full_barrier_waits_for_the_store_buffer() -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.ST, b=0, c=1)
    out.op(Op.BARRIER, imm=1)
    out.op(Op.BARRIER, imm=3)
    out.op(Op.BARRIER, imm=3)
    out.ret()
    machine = out.load(small_machine())
    machine.start(0, function, [STATIC, 0])
    assert clocks(machine) == [6, 22, 506, 524, 529]


def two_programs(first: list[Op], second: list[Op]) -> tuple[Assembler, int, int]:
    """Two functions that access the line at r0."""
    out = Assembler()
    numbers = []
    for name, ops in (("first", first), ("second", second)):
        numbers.append(out.function(name))
        for op in ops:
            out.op(op, a=1, b=0, c=2)
        out.ret()
    return out, numbers[0], numbers[1]


# CPUs 0, 1 share an L2; 0 .. 3 a package; 0 .. 7 a node.
DISTANCES = [(1, 40), (2, 200), (4, 300), (8, 400)]


@pytest.mark.parametrize(("other", "transfer"), DISTANCES)
def test_a_modified_line_comes_from_its_owner(other: int, transfer: int) -> None:
    out, writes, reads = two_programs([Op.ST], [Op.LD, Op.LD])
    machine = out.load(small_machine(16, cpus_per_node=8))
    machine.start(0, writes, [STATIC])
    machine.run()
    machine.start(other, reads, [STATIC])
    assert clocks(machine, other) == [2 + transfer, 4 + transfer, 9 + transfer]
    kinds = {
        40: L.N_TRANSFER_SIBLING,
        200: L.N_TRANSFER_PACKAGE,
        300: L.N_TRANSFER_SYSTEM,
        400: L.N_TRANSFER_NODE,
    }
    assert counter(machine, kinds[transfer], other) == 1


@pytest.mark.parametrize(("other", "cost"), [(1, 30), (2, 500), (4, 500), (8, 800)])
def test_a_clean_line_comes_from_the_l2_or_from_memory(other: int, cost: int) -> None:
    out, first, second = two_programs([Op.LD], [Op.LD])
    machine = out.load(small_machine(16, cpus_per_node=8))
    machine.start(0, first, [STATIC])
    machine.run()
    machine.start(other, second, [STATIC])
    assert clocks(machine, other) == [2 + cost, 7 + cost]


@pytest.mark.parametrize(("other", "transfer"), DISTANCES)
def test_a_write_takes_the_line_from_readers(other: int, transfer: int) -> None:
    out, reads, changes = two_programs([Op.LD], [Op.LD, Op.XCHG, Op.XCHG])
    machine = out.load(small_machine(16, cpus_per_node=8))
    machine.start(0, reads, [STATIC])
    machine.run()
    machine.start(other, changes, [STATIC])
    first = {1: 32, 8: 802}.get(other, 502)
    assert differences(clocks(machine, other)) == [first, 19 + transfer, 19, 5]
    assert counter(machine, L.N_UPGRADE, other) == 1
    # The reader has lost it.
    machine.start(0, reads, [STATIC])
    before = machine.cpu_word(0, L.C_CLOCK) // 1000
    assert clocks(machine)[0] - before == 2 + transfer


def test_the_dearest_of_several_readers_is_paid() -> None:
    out, reads, changes = two_programs([Op.LD], [Op.XCHG])
    machine = out.load(small_machine(16, cpus_per_node=8))
    for cpu in (2, 4, 8):
        machine.start(cpu, reads, [STATIC])
        machine.run()
    machine.start(0, changes, [STATIC])
    assert clocks(machine)[0] == 19 + 400
    assert counter(machine, L.N_TRANSFER_NODE) == 1
    assert counter(machine, L.N_TRANSFER_PACKAGE) == 0


def test_memory_of_another_node_costs_more() -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.LD, a=2, b=0)
    out.op(Op.LD, a=2, b=1)
    out.ret()
    machine = out.load(small_machine(2, cpus_per_node=1, cpus_per_l2=1))
    near, far = PAGES, PAGES + 7 * PAGE_BYTES  # of the page frames, the upper half is on node 1
    machine.start(0, function, [near, far])
    machine.run()
    machine.start(1, function, [near + LINE_BYTES, far + LINE_BYTES])
    machine.run()
    for cpu in (0, 1):
        assert machine.cpu_word(cpu, L.C_CLOCK) == (502 + 802 + 5) * 1000
        assert counter(machine, L.N_MEMORY_REMOTE, cpu) == 1


def locking_program(hold: int = 100) -> tuple[Assembler, int]:
    """Take the lock at r0, hold it for so many instructions, release it."""
    out = Assembler()
    function = out.function("main")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=hold)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.ret()
    return out, function


def test_a_lock_is_handed_over() -> None:
    out, function = locking_program()
    machine = out.load(small_machine(2))
    machine.start(0, function, [STATIC])
    machine.start(1, function, [STATIC])
    times = list(timeline(machine))
    first, second = ([clock for number, clock in times if number == cpu] for cpu in (0, 1))
    # CPU 1 takes the line (40) at once, finds the lock taken and waits.  CPU 0 takes the line back for the
    # release: 40 in the store buffer.  At 665 CPU 1 sees it; reading costs it 40, at 705 it tries again:
    # 19 + 40.
    assert first == [519, 619, 625, 630]
    assert second[:2] == [59, 764]
    assert counter(machine, L.N_LOCK_WAIT_MILLICYCLES, 1) == (764 - 59) * 1000
    assert counter(machine, L.N_LOCKS_CONTENDED, 1) == 1
    assert counter(machine, L.N_LOCKS_TAKEN, 1) == 1
    assert counter(machine, L.N_LOCKS_CONTENDED, 0) == 0


def test_more_waiters_lengthen_the_hand_over() -> None:
    out, function = locking_program()
    machine = out.load(small_machine(4))
    for cpu in range(4):
        machine.start(cpu, function, [STATIC])
    woken: list[tuple[int, int, int]] = []  # waiter, its wake-up time, waiters left
    for _ in timeline(machine):
        for cpu in range(4):
            if machine.cpu_word(cpu, L.C_WOKEN) and cpu not in [w[0] for w in woken]:
                left = sum(machine.cpu_word(c, L.C_STATE) == CpuState.WAITING_LOCK for c in range(4))
                woken.append((cpu, machine.cpu_word(cpu, L.C_CLOCK) // 1000, left))
    # All come at 0 and ask for the line at 19.  CPU 0 takes the lock at 519 (memory), 1 waits from 59.  From
    # then on the line is polled and serves one request after another, 200 each and 60 for each poller's read
    # after it.  CPU 2 asks at 19: the line is busy until 19 + 200 + 60 = 279; CPU 3 after it: until 279 + 200
    # + 120.  The release at 625 takes the line from the other L2 (200): 825, and 40 to CPU 1.  Busy until 625
    # + 200 + 3 * 60 = 1005: that is when the retry (865 + 19) is served, + 40 = 1045.  Then busy until 1005 +
    # 200 + 2 * 60, + 2 * 25 for the other two, who tried as well: 1375.  CPU 1 releases at 1045 + 100 + 6; it
    # takes the line from the pollers (200), at 1375: 1575, and 200 to CPU 2.  Busy until 1375 + 200 + 2 * 60
    # = 1695.  CPU 2 retries at 1775 + 19: 1994; busy until 1794 + 200 + 60 + 25 = 2079.  It releases at 2100,
    # 200 later it is seen, and 40 to CPU 3.
    assert woken == [(1, 825 + 40, 2), (2, 1575 + 200, 1), (3, 2300 + 40, 0)]


def test_an_interrupt_costs_entry_and_exit() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.RDTSC, a=1)
    out.op(Op.PREEMPT_COUNT, a=2)
    out.ret()
    function = out.function("main")
    for _ in range(4):
        out.op(Op.NOP)
    out.op(Op.PREEMPT_COUNT, a=3)
    out.ret()
    machine = out.load(small_machine())
    machine.start(0, function)
    machine.inject(0, handler, at_micro_op=2)
    # Two NOPs and the entry; RDTSC, PREEMPT_COUNT, return and exit; two NOPs, PREEMPT_COUNT, return
    assert clocks(machine) == [1, 2 + 150, 152 + 21, 175, 175 + 5 + 70, 251, 252, 254, 259]
    assert counter(machine, L.N_INTERRUPTS) == 1


def test_an_interrupt_by_time_comes_before_the_first_micro_op_at_or_after_it() -> None:
    for at_cycle, before in ((0, 0), (1, 1), (1.5, 2), (3, 3), (3.001, 4)):
        out = Assembler()
        handler = out.function("handler")
        out.ret()
        function = out.function("main")
        for _ in range(6):
            out.op(Op.NOP)
        out.ret()
        machine = out.load(small_machine())
        machine.start(0, function)
        machine.inject(0, handler, at_cycle=at_cycle)
        expected = [*range(1, before), *([before + 150] if before else []), before + 150 + 5 + 70]
        assert clocks(machine)[: before + 1] == expected, at_cycle


def test_ties_go_to_the_smaller_cpu_number() -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.INSTRUCTIONS, imm=3)
    out.op(Op.NOP)
    out.op(Op.INSTRUCTIONS, imm=2)
    out.ret()
    machine = out.load(small_machine(4))
    for cpu in (3, 1, 2, 0):
        machine.start(cpu, function)
    assert [cpu for cpu, _ in timeline(machine)] == [0, 1, 2, 3] * 4


def test_a_rendezvous_lets_all_go_on_at_the_latest_clock() -> None:
    out = Assembler()
    function = out.function("main")
    out.label("wait")
    out.op(Op.NOP)
    out.op(Op.ADDI, a=0, b=0, imm=-1)
    out.op(Op.BGTI, b=0, imm=0, aux="wait")
    out.op(Op.RENDEZVOUS)
    out.op(Op.RDTSC, a=1)
    out.ret(1)
    machine = out.load(small_machine(4))
    machine.expect_rendezvous(3)
    for cpu, rounds in ((0, 5), (1, 90), (3, 1)):
        machine.start(cpu, function, [rounds])
    machine.run()
    ends = [machine.cpu_word(cpu, L.C_CLOCK) // 1000 for cpu in range(4)]
    assert ends == [270 + 21 + 5, 270 + 21 + 5, 0, 270 + 21 + 5]


def test_values_a_program_can_ask_for() -> None:
    out = Assembler()
    function = out.function("main")
    for register, op in enumerate((Op.CPU_ID, Op.NODE_ID, Op.RDTSC, Op.IRQ_SAVE, Op.IRQ_SAVE)):
        out.op(op, a=register + 1)
    out.op(Op.IRQ_RESTORE, b=4)
    out.op(Op.COUNT, imm=3)
    out.op(Op.COUNT_N, b=1, imm=4)
    out.op(Op.PREEMPT_DISABLE)
    out.op(Op.PREEMPT_COUNT, a=6)
    for register in range(1, 7):
        out.op(Op.ST, b=0, c=register, imm=8 * register)
    out.ret()
    machine = out.load(small_machine(8, cpus_per_node=4))
    machine.start(6, function, [STATIC])
    machine.run()
    assert [machine.read(STATIC + 8 * i) for i in range(1, 7)] == [6, 1, 15 + 15 + 21, 1, 0, 1]
    assert machine.cpu_word(6, L.C_IRQ_ENABLED) == 1
    assert list(machine.counters()[6, L.HARDWARE_COUNTERS :]) == [0, 0, 0, 1, 6, 0, 0, 0]


def test_the_last_cpu_that_claimed_a_structure_is_noted() -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.OWNER_NOTE, b=0)
    out.ret()
    spec = small_machine(2)
    machine = Machine(spec, out.image(), replace(small_memory(spec), noted_bytes=128))
    for cpu, address in (
        (1, STATIC),
        (0, STATIC + 40),
        (1, STATIC + 96),
        (0, STATIC + 96),
        (1, PAGES),
        (1, 1 << 40),
    ):
        machine.start(cpu, function, [address])
        assert machine.run() == Status.HALTED
    noted = machine.owners(np.array([STATIC, STATIC + 8, STATIC + 32, STATIC + 64, STATIC + 96]))
    assert noted.tolist() == [1, 1, 0, -1, 0]
