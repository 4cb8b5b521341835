"""Prefetching added up by hand: the stream prefetcher, the adjacent-line prefetcher, and PREFETCH."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slubviz.hw import layout as L
from slubviz.hw.isa import Op, Status
from slubviz.hw.machine import Machine
from slubviz.hw.machine_file import CacheGeometry
from tests.hw.assemble import LINE_BYTES, PAGE_BYTES, PAGES, STATIC, Assembler, small_machine, small_memory
from tests.hw.compare import Pair
from tests.hw.reference import ReferenceMachine
from tests.hw.test_timelines import clocks, counter, differences, loads_of, two_programs

FAR, NEAR = 502, 32  # a load from memory; one that the prefetcher asked for when the one before came


def walk(step_lines: int, count: int, reach: int, first: int = STATIC) -> list[int]:
    """Cost of each load of a walk with one micro-op; the loop's other rows are taken off."""
    out = Assembler()
    function = out.function("main")
    out.label("again")
    out.op(Op.LD, a=1, b=0)
    out.op(Op.ADDI, a=0, b=0, imm=step_lines * LINE_BYTES)
    out.op(Op.ADDI, a=2, b=2, imm=-1)
    out.op(Op.BNEI, b=2, imm=0, aux="again")
    out.ret()
    machine = out.load(small_machine(prefetch_reach_lines=reach))
    machine.start(0, function, [first, 0, count])
    costs = differences(clocks(machine))[::4][:count]
    assert counter(machine, L.N_PREFETCHED) == count - costs.count(FAR)
    return costs


def test_the_stream_prefetcher_follows_a_short_stride_that_repeats() -> None:
    # Of 500 a quarter is left, 125.  If the load before came 505 earlier, or 95, a hit of the L2 remains; if
    # it came 30 + 5 earlier, 90.
    assert walk(1, 6, 1) == [FAR, FAR, FAR, NEAR, 92, NEAR]
    # Line 16 starts a new page.
    assert walk(1, 20, 1) == [FAR] * 3 + [NEAR, 92] * 6 + [NEAR] + [FAR] * 3 + [NEAR]
    assert walk(-1, 5, 1, STATIC + 15 * LINE_BYTES) == [FAR, FAR, FAR, NEAR, 92]
    assert walk(2, 6, 1) == [FAR] * 6
    assert walk(2, 6, 2) == [FAR, FAR, FAR, NEAR, 92, NEAR]
    assert walk(1, 6, 0) == [FAR] * 6


@pytest.mark.parametrize(
    ("lines", "prefetched"),
    [
        ([0, 1, 2, 3], [3]),
        ([0, 1, 1, 2, 3], [4]),  # the second 1 is an L1 hit: not seen
        ([0, 1, 2, 4, 5, 6, 7], [6]),  # a gap longer than the reach starts anew
        ([0, 2, 1, 3, 4, 5, 6], [6]),
        ([3, 2, 1, 2, 3, 4, 5, 6, 7], [8]),  # the first lines back are L1 hits: from 1 to 4 is too far
        ([0, 16, 1, 17, 2, 18, 3, 19], [6, 7]),  # two pages, a walk in each
    ],
)
def test_which_accesses_are_expected(lines: list[int], prefetched: list[int]) -> None:
    out, function = loads_of(lines)
    machine = out.load(small_machine(prefetch_reach_lines=1, l1_lines=32, l2_lines=64))
    machine.start(0, function, [STATIC])
    costs = differences(clocks(machine))[: len(lines)]
    assert [place for place, cost in enumerate(costs) if cost not in (2, FAR)] == prefetched
    assert counter(machine, L.N_PREFETCHED) == len(prefetched)


@pytest.mark.parametrize(("other_page", "prefetched"), [(15, 1), (16, 0), (17, 1)])
def test_sixteen_pages_are_remembered(other_page: int, prefetched: int) -> None:
    """Page n + 16 takes the entry of page n."""
    out, function = loads_of([0, 1, 2, 16 * other_page, 3])
    spec = small_machine(prefetch_reach_lines=1)
    plan = replace(small_memory(spec), static_bytes=20 * PAGE_BYTES)
    image = out.image()
    pair = Pair(Machine(spec, image, plan), ReferenceMachine(spec, image, plan))
    pair.start(0, function, [STATIC])
    assert pair.run_compared(10) == Status.HALTED
    assert counter(pair.engine, L.N_PREFETCHED) == prefetched


def warm_then_walk(walk_op: Op) -> Machine:
    """Lines 0, 1, 2 in the L2 but not in the L1, then a walk over lines 0 to 3."""
    out, function = loads_of([0, 1, 2, 16, 18, 17, 19])
    for line in range(4):
        out.rows.insert(-1, [int(walk_op), 1, 0, 2, line * LINE_BYTES, 0, 8, 0])
    machine = out.load(small_machine(prefetch_reach_lines=1))
    machine.start(0, function, [STATIC])
    return machine


def test_a_load_is_spared_the_time_since_the_one_before() -> None:
    machine = warm_then_walk(Op.LD)
    # Hits of the L2 are part of the walk.  The last one came 30 + 2 ago: 125 - 32 are left of memory's 500.
    assert differences(clocks(machine))[7:] == [32, 32, 32, 2 + 125 - 32, 5]
    assert counter(machine, L.N_PREFETCHED) == 1


def test_a_store_keeps_its_share_of_the_latency() -> None:
    machine = warm_then_walk(Op.ST)
    # Issued at 6 each after 3514, the last at 3538; those before end at 3550, 3565, 3580: it ends 125 after
    # its issue.
    before = 7 * 502
    assert clocks(machine)[-2] == before + 4 * 6
    assert machine.cpu_word(0, L.C_STORE_BUSY) == (before + 24 + 125) * 1000
    assert counter(machine, L.N_PREFETCHED) == 1


def test_transfers_are_prefetched_too() -> None:
    out, writes = loads_of([0, 1, 2, 3], Op.ST)
    reads = out.function("reads")
    for line in range(4):
        out.op(Op.LD, a=1, b=0, imm=line * LINE_BYTES)
    out.ret()
    machine = out.load(small_machine(4, prefetch_reach_lines=1))
    machine.start(0, writes, [STATIC])
    machine.run()
    machine.start(2, reads, [STATIC])
    assert differences(clocks(machine, 2)) == [202, 202, 202, 32, 5]  # of 200 a quarter, 50, at least 30
    assert counter(machine, L.N_TRANSFER_PACKAGE, 2) == 4
    assert counter(machine, L.N_PREFETCHED, 2) == 1


def test_a_line_that_others_take_again_and_again_is_no_walk() -> None:
    out, writes, reads = two_programs([Op.ST], [Op.LD])
    machine = out.load(small_machine(4, prefetch_reach_lines=2))
    for _ in range(6):
        for cpu, function in ((0, writes), (2, reads)):
            machine.start(cpu, function, [STATIC])
            assert machine.run() == Status.HALTED
    assert counter(machine, L.N_PREFETCHED, 0) == counter(machine, L.N_PREFETCHED, 2) == 0
    assert counter(machine, L.N_TRANSFER_PACKAGE, 2) == 6


def test_a_load_after_a_store_that_still_waits_is_not_expected() -> None:
    """A store asks for the next line when it leaves the store buffer: that is later than this load."""
    out, function = loads_of([0, 1, 2], Op.ST)
    out.rows.insert(-1, [int(Op.LD), 1, 0, 2, 3 * LINE_BYTES, 0, 8, 0])
    machine = out.load(small_machine(prefetch_reach_lines=1))
    machine.start(0, function, [STATIC])
    assert clocks(machine)[3] == 18 + FAR
    assert counter(machine, L.N_PREFETCHED) == 0


# --- adjacent lines ------------------------------------------------------------------------------


def test_a_miss_brings_the_other_line_of_its_pair() -> None:
    out, function = loads_of([0, 1, 3, 2, 1, 4])
    machine = out.load(small_machine(adjacent_line_prefetch=True))
    machine.start(0, function, [STATIC])
    # The other line is in the L2, not in the L1.
    assert differences(clocks(machine)) == [502, 32, 502, 32, 2, 502, 5]
    assert counter(machine, L.N_MEMORY_LOCAL) == 3


def test_it_brings_nothing_that_a_cache_has() -> None:
    """CPU 2, under another L2, holds line 1: it stays the only one to do so."""
    out, writes, reads = two_programs([Op.ST], [Op.LD])
    both = out.function("both")
    out.op(Op.LD, a=1, b=0)
    out.op(Op.LD, a=1, b=0, imm=LINE_BYTES)
    out.ret()
    for first, second in ((writes, 200), (reads, 500)):
        machine = out.load(small_machine(4, adjacent_line_prefetch=True))
        machine.start(2, first, [STATIC + LINE_BYTES])
        machine.run()
        # CPU 2's miss has brought line 0 as well: throw that out.
        machine.start(0, writes, [STATIC])
        machine.run()
        before = machine.cpu_word(0, L.C_CLOCK) // 1000
        machine.start(0, both, [STATIC])
        assert differences([time - before for time in clocks(machine)]) == [2, 2 + second, 5]


def test_a_neighbour_throws_out_a_line_of_its_own_set() -> None:
    # L2: 8 sets of 2 ways.  Lines 1 and 9 fill set 1; with line 16 comes 17, and line 1 goes.
    out, function = loads_of([1, 9, 16, 1])
    machine = out.load(small_machine(adjacent_line_prefetch=True))
    machine.start(0, function, [STATIC])
    assert differences(clocks(machine)) == [502, 502, 502, 502, 5]
    # With 16 go 0 and 1, the pair of the first miss; with 1 and 0 go 9 and 8.
    assert counter(machine, L.N_L2_EVICTION) == 4


def test_a_line_as_large_as_a_page_has_no_neighbour() -> None:
    out, function = loads_of([0])
    spec = small_machine(adjacent_line_prefetch=True)
    for line_bytes, on in ((PAGE_BYTES, 0), (PAGE_BYTES // 2, 1)):
        shape = CacheGeometry(16 * line_bytes, 2)
        machine = out.load(replace(spec, line_bytes=line_bytes, l1=shape, l2=shape))
        assert machine.parameters[L.P_ADJACENT_LINE] == on
        machine.start(0, function, [STATIC])
        assert machine.run() == Status.HALTED
        base, ways = int(machine.state[L.H_L2]), int(machine.state[L.H_L2_WAYS])
        held = machine.state[base : base + 8 * ways]
        assert sorted(held[held != 0].tolist()) == [
            STATIC // line_bytes + neighbour for neighbour in range(1 + on)
        ]


# --- the micro-op ------------------------------------------------------------------------------


def test_a_prefetched_line_is_in_the_cache() -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.PREFETCH, b=0)
    out.op(Op.PREFETCH, b=0)
    out.op(Op.LD, a=1, b=0)
    out.op(Op.ST, b=0, c=1)
    out.ret()
    machine = out.load(small_machine())
    machine.start(0, function, [STATIC + 12])
    machine.state[machine.cpu_word(0, L.C_WINDOW)] = STATIC
    assert clocks(machine) == [1, 2, 4, 10, 15]
    assert counter(machine, L.N_MEMORY_LOCAL) == 1


def test_a_prefetch_takes_a_modified_line_from_its_owner() -> None:
    out, writes, asks = two_programs([Op.ST], [Op.PREFETCH, Op.LD])
    machine = out.load(small_machine(4))
    machine.start(0, writes, [STATIC])
    machine.run()
    machine.start(2, asks, [STATIC])
    assert clocks(machine, 2) == [1, 3, 8]
    assert counter(machine, L.N_TRANSFER_PACKAGE, 2) == 1


@pytest.mark.parametrize(
    "address",
    [0, 8, PAGES - 8, STATIC - 1, 16 * PAGE_BYTES, -8, -(1 << 63), (1 << 63) - 1],
    ids=["NULL", "NULL page", "gap", "gap before static memory", "end", "-8", "lowest", "highest"],
)
def test_a_prefetch_of_no_memory_does_nothing(address: int) -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.PREFETCH, b=0)
    out.ret()
    pair = Pair.of(out, small_machine(adjacent_line_prefetch=True, prefetch_reach_lines=1))
    pair.start(0, function, [address])
    assert pair.run_compared(10) == Status.HALTED
    assert pair.engine.cpu_word(0, L.C_CLOCK) == 6000
    assert pair.engine.counters()[0].sum() == 0
