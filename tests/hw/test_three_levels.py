"""A machine with L2s between L1 and L3: clocks added up by hand, and what must hold in its caches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import Op, Status
from slubviz.hw.machine import Machine
from slubviz.hw.machine_file import MachineSpec
from tests.hw.assemble import LINE_BYTES, STATIC, Assembler, small_machine
from tests.hw.compare import Pair, cache_contents
from tests.hw.programs import Builder, Statement, statements
from tests.hw.test_timelines import clocks, counter, differences, loads_of, two_programs


def three_levels(cpus: int = 1, **shape: int) -> MachineSpec:
    """L1: 2 sets, L2: 4, L3: 16, two ways each; a CPU has its own L1 and L2 unless ``shape`` says else."""
    return small_machine(cpus, **{"cpus_per_l2": 1, "l2_lines": 8, "cpus_per_l3": 2} | shape)  # type: ignore[arg-type]


def test_each_level_answers_at_its_cost() -> None:
    # Lines 0, 4, 8 share a set of the L2 (4 sets) and of the L1 (2 sets), 0 and 16 one of the L3.
    out, function = loads_of([0, 2, 6, 0, 4, 8, 0, 0])
    machine = out.load(three_levels())
    machine.start(0, function, [STATIC])
    # cold three times (the last pushes line 0 out of the L1), L2 hit, cold twice (line 8 pushes line 0 out
    # of the L2: lines 4 and 8 are younger), L3 hit, L1 hit
    assert differences(clocks(machine)) == [502, 502, 502, 32, 502, 502, 92, 2, 5]
    assert counter(machine, L.N_L2_HIT) == 1
    assert counter(machine, L.N_L3_HIT) == 1
    assert counter(machine, L.N_MEMORY_LOCAL) == 5
    # line 8 pushed out line 0, line 0 then line 4
    assert counter(machine, L.N_L2_EVICTION) == 2
    assert counter(machine, L.N_L3_EVICTION) == 0


def test_an_l1_hit_does_not_refresh_the_l2_which_includes_the_l1() -> None:
    out, function = loads_of([0, 4, 0, 0, 8, 0])
    machine = out.load(three_levels(l1_lines=8))
    machine.start(0, function, [STATIC])
    # Line 8 throws line 0 out of the L2, and so out of the L1 that used it last; the L3 still has it.
    assert differences(clocks(machine)) == [502, 502, 2, 2, 502, 92, 5]


def test_the_l3_includes_everything_above() -> None:
    out, function = loads_of([0, 16, 32, 16, 0])
    machine = out.load(three_levels(l1_lines=16, l2_lines=32))
    machine.start(0, function, [STATIC])
    # Two ways: line 32 throws line 0 out of all levels although L1 and L2 have room.
    assert differences(clocks(machine)) == [502, 502, 502, 2, 502, 5]
    assert counter(machine, L.N_L3_EVICTION) == 2
    assert counter(machine, L.N_L2_EVICTION) == 0


#: CPUs 0, 1 share an L2; 0 .. 3 an L3; 0 .. 7 a package; 0 .. 15 a node.
SHARED = {"cpus_per_l2": 2, "cpus_per_l3": 4, "cpus_per_node": 16}
DISTANCES = [
    (1, 40, L.N_TRANSFER_SIBLING),
    (2, 110, L.N_TRANSFER_L3),
    (4, 200, L.N_TRANSFER_PACKAGE),
    (8, 300, L.N_TRANSFER_SYSTEM),
    (16, 400, L.N_TRANSFER_NODE),
]


@pytest.mark.parametrize(("other", "transfer", "kind"), DISTANCES)
def test_a_modified_line_comes_from_its_owner(other: int, transfer: int, kind: int) -> None:
    out, writes, reads = two_programs([Op.ST], [Op.LD, Op.LD])
    machine = out.load(three_levels(32, **SHARED))
    machine.start(0, writes, [STATIC])
    machine.run()
    machine.start(other, reads, [STATIC])
    assert clocks(machine, other) == [2 + transfer, 4 + transfer, 9 + transfer]
    assert counter(machine, kind, other) == 1
    # The owner keeps it, read-only: writing again takes it back from the reader.
    machine.start(0, writes, [STATIC])
    machine.run()
    assert counter(machine, kind, 0) == 1


@pytest.mark.parametrize(("other", "cost"), [(1, 30), (2, 90), (4, 500), (16, 800)])
def test_a_clean_line_comes_from_the_nearest_cache_or_from_memory(other: int, cost: int) -> None:
    out, first, second = two_programs([Op.LD], [Op.LD])
    machine = out.load(three_levels(32, **SHARED))
    machine.start(0, first, [STATIC])
    machine.run()
    machine.start(other, second, [STATIC])
    assert clocks(machine, other) == [2 + cost, 7 + cost]


@pytest.mark.parametrize(("other", "transfer", "kind"), DISTANCES)
def test_a_write_takes_the_line_from_readers(other: int, transfer: int, kind: int) -> None:
    out, reads, changes = two_programs([Op.LD], [Op.LD, Op.XCHG, Op.XCHG])
    machine = out.load(three_levels(32, **SHARED))
    machine.start(0, reads, [STATIC])
    machine.run()
    machine.start(other, changes, [STATIC])
    costs = differences(clocks(machine, other))
    assert costs[1:3] == [19 + transfer, 19]
    assert counter(machine, kind, other) == 1
    # The reader has lost it everywhere: it comes back from the writer, at the same distance.
    machine.start(0, reads, [STATIC])
    machine.run()
    assert counter(machine, kind, 0) == 1


@pytest.mark.parametrize(("sibling", "dearest"), [(40, 110), (150, 150)])
def test_of_two_takings_within_an_l3_the_dearer_counts(sibling: int, dearest: int) -> None:
    out, reads, changes = two_programs([Op.LD], [Op.XCHG])
    machine = out.load(three_levels(4, **SHARED).with_costs({"transfer_same_l2": sibling}))
    for cpu in (0, 1, 2):
        machine.start(cpu, reads, [STATIC])
        machine.run()
    machine.start(0, changes, [STATIC])
    before = machine.cpu_word(0, L.C_CLOCK)
    machine.step()
    assert machine.cpu_word(0, L.C_CLOCK) - before == (19 + dearest) * 1000
    assert counter(machine, L.N_TRANSFER_SIBLING, 0) == counter(machine, L.N_TRANSFER_L3, 0) == 1


def test_a_line_modified_in_an_l2_alone_still_comes_from_there() -> None:
    """Out of its owner's L1, a modified line has no writable L1 entry left anywhere; the L2 knows."""
    out, writes, reads = two_programs([Op.ST], [Op.LD])
    fills = out.function("fills")
    for line in (2, 6):
        out.op(Op.LD, a=1, b=0, imm=line * LINE_BYTES)
    out.ret()
    machine = out.load(three_levels(2))
    for function in (writes, fills):
        machine.start(0, function, [STATIC])
        machine.run()
    machine.start(1, reads, [STATIC])
    assert clocks(machine, 1) == [2 + 110, 7 + 110]


@pytest.mark.parametrize(("other", "transfer"), [(1, 40), (2, 110), (4, 200), (8, 300), (16, 400)])
def test_a_woken_waiter_reads_the_lock_again_over_its_distance(other: int, transfer: int) -> None:
    out = Assembler()
    holds = out.function("holds")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=5000)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.ret()
    waits = out.function("waits")
    out.op(Op.INSTRUCTIONS, imm=2000)
    out.op(Op.LOCK, b=0, aux=1)
    out.ret()
    machine = out.load(three_levels(32, **SHARED))
    machine.start(0, holds, [STATIC])
    machine.start(other, waits, [STATIC])
    while machine.cpu_word(other, L.C_WOKEN) == 0:
        assert machine.step() == Status.MICRO_OPS
    released = max(machine.cpu_word(0, L.C_CLOCK), machine.cpu_word(0, L.C_STORE_BUSY))
    assert machine.cpu_word(other, L.C_CLOCK) - released == transfer * 1000


# --- what must hold --------------------------------------------------------------------------------

SHAPES = {
    "private": three_levels(4, l3_lines=16),
    "shared": three_levels(4, cpus_per_l2=2, cpus_per_l3=4, l3_lines=8),
    "threads": three_levels(8, cpus_per_l1=2, cpus_per_l2=2, l2_lines=4, cpus_per_l3=4, l3_lines=8),
}


def check_levels(machine: Machine) -> None:
    """Inclusion, and at most one place that may write a line."""
    spec = machine.spec
    l1s, middles, outers = cache_contents(machine)
    held = [{e >> 1: e & 1 for ways in cache for e in ways} for cache in l1s]
    middle = [{e >> 1: e & 1 for ways in cache for e in ways} for cache in middles]
    outer = [{e for ways in cache for e in ways} for cache in outers]
    for number, lines in enumerate(held):
        under = middle[number * spec.cpus_per_l1 // spec.cpus_per_l2]
        assert lines.keys() <= under.keys()
        assert all(under[line] for line, writable in lines.items() if writable)
    for number, lines in enumerate(middle):
        assert lines.keys() <= outer[number * spec.cpus_per_l2 // spec.cpus_per_l3]
    for level in (held, middle):
        for number, lines in enumerate(level):
            for line in (line for line, writable in lines.items() if writable):
                assert not any(line in other for i, other in enumerate(level) if i != number)


@pytest.mark.parametrize("name", SHAPES)
def test_levels_include_each_other_and_one_writer_is_alone(name: str) -> None:
    spec = SHAPES[name]

    @settings(max_examples=25)
    @given(st.lists(statements, min_size=spec.cpus, max_size=spec.cpus), st.integers(1, 40))
    def check(bodies: list[list[Statement]], stride: int) -> None:
        machine = started(spec, bodies)
        while machine.run(machine.micro_ops + stride) == Status.MICRO_OPS:
            check_levels(machine)
        check_levels(machine)

    check()


def started(spec: MachineSpec, bodies: list[list[Statement]]) -> Machine:
    builder = Builder()
    functions = [builder.cpu_function(cpu, body) for cpu, body in enumerate(bodies)]
    machine = builder.out.load(spec)
    machine.start(0, builder.out.functions["format"].number)
    assert machine.run() == Status.HALTED
    for cpu, function in enumerate(functions):
        machine.start(cpu, function)
    return machine


#: Caches from which nothing ever falls out.
ROOMY = {"l1_lines": 1024, "l2_lines": 2048, "l3_lines": 4096}
SAME_COSTS = {"l2_hit": 30, "l3_hit": 30, "transfer_same_l2": 40, "transfer_same_l3": 40}


@pytest.mark.parametrize("private", [1, 2], ids=["an L2 each", "an L2 for two"])
@settings(max_examples=40)
@given(bodies=st.lists(statements, min_size=4, max_size=4))
def test_a_middle_level_that_never_overflows_is_invisible(
    private: int, bodies: list[list[Statement]]
) -> None:
    """At the costs of the outer one: three levels run as two do, to the millicycle."""
    two = small_machine(4, cpus_per_l2=2, l2_per_package=1, l1_lines=1024, l2_lines=4096, cycles=SAME_COSTS)
    three = small_machine(4, cpus_per_l2=private, cpus_per_l3=2, l3_per_package=1, cycles=SAME_COSTS, **ROOMY)  # type: ignore[arg-type]
    ends = []
    for spec in (two, three):
        machine = started(spec, bodies)
        assert machine.run() == Status.HALTED
        ends.append((machine.trace_hash, machine.clock_millicycles))
    assert ends[0] == ends[1]


def test_a_long_walk_against_the_reference() -> None:
    """More lines than any level holds, by two CPUs that share the L3, twice."""
    out = Assembler()
    function = out.function("main")
    for _ in range(2):
        for line in range(24):
            out.op(Op.LD if line % 3 else Op.ST, a=1, b=0, c=2, imm=(line * 7 % 24) * LINE_BYTES)
    out.ret()
    pair = Pair.of(out, three_levels(2, l3_lines=16))
    for cpu in (0, 1):
        pair.start(cpu, function, [STATIC])
    assert pair.run_compared(200) == Status.HALTED
    counts = pair.engine.counters()
    assert (counts[:, [L.N_L2_EVICTION, L.N_L3_EVICTION, L.N_L3_HIT, L.N_TRANSFER_L3]].sum(axis=0) > 0).all()


@pytest.mark.parametrize("name", SHAPES)
def test_contention_against_the_reference(name: str) -> None:
    """Every CPU takes one lock three times and adds to a word beside it, which waiters poll with it."""
    out = Assembler()
    function = out.function("main")
    out.op(Op.LI, a=1, imm=3)
    out.label("again")
    out.op(Op.LOCK, b=0, aux=1)
    for offset in (8, LINE_BYTES):  # the lock's line and the next
        out.op(Op.LD, a=2, b=0, imm=offset)
        out.op(Op.ADDI, a=2, b=2, imm=1)
        out.op(Op.ST, b=0, c=2, imm=offset)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.op(Op.LD, a=2, b=0, imm=8)
    out.op(Op.INSTRUCTIONS, imm=700)  # else the holder is back before a waiter has read the lock
    out.op(Op.ADDI, a=1, b=1, imm=-1)
    out.op(Op.BGTI, b=1, imm=0, aux="again")
    out.ret()
    pair = Pair.of(out, SHAPES[name])
    cpus = SHAPES[name].cpus
    for cpu in range(cpus):
        pair.start(cpu, function, [STATIC])
    assert pair.run_compared(2000) == Status.HALTED
    assert [pair.engine.read(STATIC + offset) for offset in (8, LINE_BYTES)] == [3 * cpus] * 2
    assert pair.engine.counters()[:, L.N_LOCKS_CONTENDED].sum() >= cpus
