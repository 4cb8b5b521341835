"""The bus and lines that waiters poll, added up by hand."""

from __future__ import annotations

import pytest

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState, Op, Status
from slubviz.hw.machine import Machine
from tests.hw.assemble import LINE_BYTES, PAGE_BYTES, PAGES, STATIC, Assembler, small_machine
from tests.hw.test_three_levels import three_levels
from tests.hw.test_timelines import clocks, loads_of, two_programs


def bus(machine: Machine) -> list[int]:
    """When each node's bus is free, in cycles."""
    return [at // 1000 for at in machine.state[int(machine.state[L.H_BUS]) :][: machine.spec.nodes].tolist()]


def test_loads_wait_for_the_bus() -> None:
    out, function = loads_of([0, 1, 2, 2])
    machine = out.load(small_machine(cycles={"bus_transaction": 600}))
    machine.start(0, function, [STATIC])
    # Issued at 2, 504, 1104; the bus is free at 0, 602, 1202.
    assert clocks(machine) == [502, 602 + 500, 1202 + 500, 1704, 1709]
    assert bus(machine) == [1802]


def test_stores_ask_for_the_bus_when_they_are_issued() -> None:
    out, function = loads_of([0, 1], Op.ST)
    machine = out.load(small_machine(cycles={"bus_transaction": 100}))
    machine.start(0, function, [STATIC])
    # The second is issued at 12 and waits until 106: 594, of which half is behind the end of the first (506).
    assert clocks(machine) == [6, 12, 17]
    assert machine.cpu_word(0, L.C_STORE_BUSY) == (506 + 297) * 1000
    assert bus(machine) == [206]


def test_what_falls_out_of_the_outer_cache_takes_the_bus_as_well() -> None:
    out, function = loads_of([0, 8, 16, 24])  # one set of the L2, which has two ways
    machine = out.load(small_machine(cycles={"bus_transaction": 300}))
    machine.start(0, function, [STATIC])
    # The third occupies it from 1006 to 1606, the fourth is issued at 1508.
    assert clocks(machine) == [502, 1004, 1506, 1606 + 500, 2111]
    assert bus(machine) == [1606 + 600]


def test_on_a_machine_with_an_l3_only_its_lines_take_the_bus() -> None:
    # L2: 4 sets, L3: 16, two ways each.  Line 8 throws line 0 out of the L2 only; line 32 line 0 out of both.
    for lines, moved in (([0, 4, 8], 3), ([0, 16, 32], 4)):
        out, function = loads_of(lines)
        machine = out.load(three_levels().with_costs({"bus_transaction": 100}))
        machine.start(0, function, [STATIC])
        assert clocks(machine)[2] == 3 * 502
        assert bus(machine) == [2 * 502 + 2 + 100 * (moved - 2)]


@pytest.mark.parametrize(("held", "moved"), [(False, 2), (True, 1)])
def test_an_adjacent_line_takes_the_bus_if_it_comes(held: bool, moved: int) -> None:
    """CPU 2, under another L2, may have it; it has read line 1 when line 0 was in the caches already."""
    out, function = loads_of([0])
    writes = out.function("writes")
    out.op(Op.ST, b=0, c=1, imm=LINE_BYTES)
    out.ret()
    machine = out.load(small_machine(4, adjacent_line_prefetch=True, cycles={"bus_transaction": 100}))
    if held:
        machine.start(2, writes, [STATIC])  # brings line 0 as well …
        machine.run()
        machine.start(2, writes, [STATIC - LINE_BYTES])  # … and makes it its own, so that CPU 0 misses
        machine.run()
    before = bus(machine)[0]
    machine.start(0, function, [STATIC])
    machine.run()
    issued = max(2, before)
    assert bus(machine) == [issued + 100 * moved]


def test_each_node_has_its_bus() -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.LD, a=2, b=0)
    out.op(Op.LD, a=2, b=1)
    out.ret()
    machine = out.load(small_machine(2, cpus_per_node=1, cpus_per_l2=1, cycles={"bus_transaction": 900}))
    near, far = PAGES, PAGES + 7 * PAGE_BYTES  # page frames of node 0 and node 1
    machine.start(0, function, [near, far])
    machine.start(1, function, [near + LINE_BYTES, far + LINE_BYTES])
    clock_0, clock_1 = clocks_of_two(machine)
    # CPU 0: near at 2, far at 504 (800 from the other node).  CPU 1: near at 2, but that bus is busy until
    # 902; then 800.  Far at 1704: its bus was taken at 504, free at 1404.
    assert clock_0 == [502, 504 + 800, 1309]
    assert clock_1 == [902 + 800, 1704 + 500, 2209]
    assert bus(machine) == [1802, 2604]


def clocks_of_two(machine: Machine) -> tuple[list[int], list[int]]:
    """Run to the end; the clocks of CPUs 0 and 1 after each of their micro-ops."""
    times: tuple[list[int], list[int]] = ([], [])
    while True:
        before = machine.cpu_blocks()[:, L.C_MICRO_OPS].copy()
        machine.step()
        done = machine.cpu_blocks()[:, L.C_MICRO_OPS] - before
        if not done.any():
            return times
        times[int(done.argmax())].append(machine.cpu_word(int(done.argmax()), L.C_CLOCK) // 1000)


@pytest.mark.parametrize(("other", "lines"), [(1, 0), (2, 1), (4, 1)])
@pytest.mark.parametrize("owner", [Op.ST, Op.LD])
def test_a_transfer_takes_the_bus_unless_it_stays_under_the_outer_cache(
    owner: Op, other: int, lines: int
) -> None:
    """A line that another CPU holds, modified or not, is taken to be written."""
    out, first, second = two_programs([owner], [Op.XCHG])
    machine = out.load(small_machine(8, cycles={"bus_transaction": 50}))
    machine.start(0, first, [STATIC])
    machine.run()
    machine.start(other, second, [STATIC])
    before = bus(machine)[0]
    machine.run()
    assert bus(machine)[0] - before == 50 * lines


def test_an_upgrade_takes_the_bus() -> None:
    out, reads, changes = two_programs([Op.LD], [Op.LD, Op.XCHG])
    machine = out.load(small_machine(4, cycles={"bus_transaction": 700}))
    machine.start(2, reads, [STATIC])
    machine.run()
    machine.start(0, changes, [STATIC])
    # CPU 2 read at 2, CPU 0 reads at 702: 700 + 2 + 500.  It writes at 1202 + 19, the bus is free at 1402,
    # and the transfer takes 200.
    assert clocks(machine)[:2] == [1202, 1402 + 200]
    assert bus(machine) == [2102]


def test_zero_counts_frees_what_was_busy() -> None:
    """Counts start anew: what was taken until some clock would be busy for ever after."""
    out, function = loads_of([0, 1, 2, 3])
    machine = out.load(small_machine(prefetch_reach_lines=1, cycles={"bus_transaction": 600}))
    machine.start(0, function, [STATIC])
    machine.run()
    machine.state[int(machine.state[L.H_LINE_BUSY]) :][:3] = 5_000_000
    machine.align_clocks()
    machine.zero_counts()
    assert bus(machine) == [0]
    for where, words in ((L.H_LINE_BUSY, L.LINE_BUSY_ENTRIES), (L.H_STRIDES, 0)):
        assert not machine.state[int(machine.state[where]) :][:words].any()
    strides = machine.state[int(machine.state[L.H_STRIDES]) :][: int(machine.state[L.H_STRIDE_ENTRIES]) * 4]
    assert strides.reshape(-1, 4)[:, 0].any()  # caches and what prefetchers have seen stay
    assert not strides.reshape(-1, 4)[:, L.STRIDE_TIME].any()
    other, again = loads_of([8])
    fresh = other.load(small_machine(cycles={"bus_transaction": 600}))
    fresh.start(0, again, [STATIC])
    assert clocks(fresh)[0] == 502
    machine.start(0, function, [STATIC + 8 * LINE_BYTES])
    assert clocks(machine)[0] == 502


# --- lines that waiters poll ----------------------------------------------------------------------


def waiting(ops: list[Op], cpus: int = 3, **cycles: float) -> tuple[Machine, int]:
    """CPU 0 holds the lock at STATIC, CPUs 1 .. wait for it; the line was last taken by the last of them.

    CPU 0 is about to execute ``ops`` on the word beside it; returns its clock.  CPUs 4 and 5, of the other
    package, are idle; function 2 reads the line.
    """
    out = Assembler()
    holds = out.function("holds")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.RENDEZVOUS)
    out.op(Op.INSTRUCTIONS, imm=20_000)
    first = out.pc
    for op in ops:
        out.op(op, a=1, b=0, c=2, imm=8)
    out.ret()
    waits = out.function("waits")
    out.op(Op.RENDEZVOUS)
    out.op(Op.LOCK, b=0, aux=1)
    out.ret()
    out.function("reads")
    out.op(Op.LD, a=1, b=0, imm=16)
    out.ret()
    machine = out.load(small_machine(6, cycles=cycles))
    machine.expect_rendezvous(cpus)
    for cpu in range(cpus):
        machine.start(cpu, waits if cpu else holds, [STATIC])
    machine.set_breakpoint(first)
    assert machine.run() == Status.BREAKPOINT
    machine.set_breakpoint(first, on=False)
    assert [machine.cpu_word(cpu, L.C_STATE) for cpu in range(1, cpus)] == [CpuState.WAITING_LOCK] * (
        cpus - 1
    )
    return machine, machine.cpu_word(0, L.C_CLOCK) // 1000


def line_busy(machine: Machine) -> int:
    """Until when requests for the lock's line are served, in cycles."""
    slot = STATIC // LINE_BYTES % L.LINE_BUSY_ENTRIES
    return int(machine.state[int(machine.state[L.H_LINE_BUSY]) + slot]) // 1000


def steps(machine: Machine, ops: int) -> list[int]:
    """The next micro-ops of CPU 0: its clock after each, in cycles."""
    times = []
    for _ in range(ops):
        assert machine.step() == Status.MICRO_OPS
        times.append(machine.cpu_word(0, L.C_CLOCK) // 1000)
    return times


def test_a_burst_of_stores_to_a_polled_line_is_paid_once() -> None:
    machine, start = waiting([Op.ST, Op.ST, *[Op.PAUSE] * 9, Op.ST])
    times = steps(machine, 12)
    # The first takes the line from the other L2 (200).  Then the two pollers read it: requests are
    # served until 6 + 200 + 2 * 60 = 326.  The second comes before that.
    assert [time - start for time in times[:2]] == [6, 12]
    # The third, at 216, is more than 200 after the first: it takes the line back (200), at 326.
    assert times[-1] - start == 12 + 9 * 22 + 6
    assert machine.cpu_word(0, L.C_STORE_BUSY) // 1000 - start == 326 + 200
    assert line_busy(machine) - start == 326 + 200 + 2 * 60


@pytest.mark.parametrize(("fillers", "cycles", "paid"), [(5, 194, False), (6, 202, True)])
def test_how_long_a_burst_is(fillers: int, cycles: int, paid: bool) -> None:
    """The first store is issued at 6, and its burst lasts until 206."""
    between = [*[Op.PAUSE] * 7, *[Op.INSTRUCTIONS] * fillers]  # 22 and 8 cycles each
    machine, start = waiting([Op.ST, *between, Op.ST])
    times = steps(machine, len(between) + 2)
    assert times[-1] - start == 6 + cycles + 6
    assert machine.cpu_word(0, L.C_STORE_BUSY) // 1000 - start == (526 if paid else 206)


def test_a_locked_operation_waits_for_the_pollers() -> None:
    machine, start = waiting([Op.XCHG, Op.XCHG])
    # 19 + 200; the second is issued at 238, served from 19 + 200 + 2 * 60 = 339 on, and takes 200.
    assert [time - start for time in steps(machine, 2)] == [219, 539]


def test_taking_a_line_back_from_pollers_takes_the_bus() -> None:
    machine, start = waiting([Op.XCHG, Op.XCHG], bus_transaction=450)
    # The first transfer occupies it until 19 + 450: 231 to wait at 238.
    assert [time - start for time in steps(machine, 2)] == [219, 539 + 231]
    assert bus(machine)[0] - start == 19 + 2 * 450


def test_reads_of_a_polled_line_queue_unless_the_outer_cache_has_it() -> None:
    machine, start = waiting([Op.ST, *[Op.INSTRUCTIONS] * 200])
    steps(machine, 1)
    assert line_busy(machine) - start == 326
    machine.align_clocks()
    for cpu, expected, busy in ((4, 8 + 318 + 300, 526), (5, 8 + 30, 526)):
        # CPU 4 reads at 8, is served at 326 over the other package's distance; CPU 5 shares its L2.
        machine.start(cpu, 2, [STATIC])
        while machine.cpu_word(cpu, L.C_MICRO_OPS) == 0:
            assert machine.step() == Status.MICRO_OPS
        assert machine.cpu_word(cpu, L.C_CLOCK) // 1000 - start == expected
        assert line_busy(machine) - start == busy


def test_a_line_that_nobody_polls_has_no_queue() -> None:
    out, writes, reads = two_programs([Op.ST], [Op.LD])
    machine = out.load(small_machine(4))
    for cpu, function in ((0, writes), (2, reads), (0, writes)):
        machine.start(cpu, function, [STATIC])
        machine.run()
    assert line_busy(machine) == 0


@pytest.mark.parametrize("retry", [0, 25, 700])
def test_a_retry_makes_the_other_waiters_try_too(retry: int) -> None:
    """CPU 1 gets the lock; the other two have occupied the line when it wants to release it."""
    out = Assembler()
    function = out.function("main")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=1000)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.ret()
    machine = out.load(small_machine(4, cycles={"spinner_retry": retry}))
    for cpu in range(4):
        machine.start(cpu, function, [STATIC])
    while machine.cpu_word(1, L.C_WOKEN) == 0:
        assert machine.step() == Status.MICRO_OPS
    woken = machine.cpu_word(1, L.C_CLOCK) // 1000
    while machine.cpu_word(1, L.C_WOKEN):
        assert machine.step() == Status.MICRO_OPS
    taken = machine.cpu_word(1, L.C_CLOCK) // 1000
    # The release reached the line at 1525, so the line is busy until 1525 + 200 + 3 * 60; the retry is served
    # then, takes 40 from CPU 0's L1, and the line is busy with it, the re-reads of two, and their own tries.
    assert woken == 1525 + 200 + 40
    assert taken == 1525 + 200 + 180 + 40
    assert line_busy(machine) == 1905 + 200 + 2 * 60 + 2 * retry
    while machine.cpu_word(2, L.C_WOKEN) == 0:
        assert machine.step() == Status.MICRO_OPS
    # CPU 1 releases 1006 later, 200 to take the line from its pollers, and 200 for CPU 2 to read it.
    assert machine.cpu_word(2, L.C_CLOCK) // 1000 == max(taken + 1006, 2225 + 2 * retry) + 200 + 200


@pytest.mark.parametrize("retry", [0, 25, 700])
def test_a_retry_in_vain_makes_the_others_try_too(retry: int) -> None:
    """CPU 4 takes the lock between CPU 0's release and the retry of CPU 1; CPU 2 waits all the time."""
    out = Assembler()
    function = out.function("main")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=1000)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.ret()
    thief = out.function("thief")
    out.op(Op.INSTRUCTIONS, imm=1600)
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=9000)
    out.ret()
    machine = out.load(small_machine(5, cycles={"spinner_retry": retry}))
    for cpu in (0, 1, 2, 4):
        machine.start(cpu, thief if cpu == 4 else function, [STATIC])
    while machine.cpu_word(1, L.C_WOKEN) == 0:
        assert machine.step() == Status.MICRO_OPS
    while machine.cpu_word(1, L.C_WOKEN):
        assert machine.step() == Status.MICRO_OPS
    assert machine.cpu_word(1, L.C_STATE) == CpuState.WAITING_LOCK
    # The release reached the line at 1525: busy until 1525 + 200 + 2 * 60 = 1845.  CPU 4 asked at 1619, is
    # served then, and CPU 2 reads again: busy until 1845 + 200 + 60 = 2105.  CPU 1 asks at 1765 + 19, is
    # served then, over the distance of the other package, and finds the lock taken.
    assert machine.cpu_word(1, L.C_CLOCK) // 1000 == 2105 + 300
    assert line_busy(machine) == 2105 + 200 + 60 + retry
    assert machine.counters()[1, L.N_LOCKS_CONTENDED] == 1
