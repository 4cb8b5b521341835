"""Random multi-CPU programs: after every micro-op the engine and the reference machine are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import Op, Status
from slubviz.hw.machine_file import MachineSpec
from tests.hw.assemble import STATIC, Assembler, small_machine
from tests.hw.compare import Pair
from tests.hw.programs import HANDLERS, Builder, Injection, Statement, injections, statements

MACHINES: dict[str, MachineSpec] = {
    "one": small_machine(1, prefetch_reach_lines=2, cycles={"store_window": 300}),
    "two_share_l2": small_machine(2, cycles={"store_window": 300, "store_miss_share": 0.9}),
    "four_packages": small_machine(4, l2_per_package=1),
    "four_share_l1": small_machine(4, cpus_per_l1=2, cpus_per_l2=4),
    "eight_two_nodes": small_machine(8, cpus_per_node=4, prefetch_reach_lines=2),
    "one_up": small_machine(1, smp_kernel=False, cycles={"store_window": 300}),
    "three_levels": small_machine(4, cpus_per_l2=1, l2_lines=8, cpus_per_l3=2, l3_lines=16),
    "three_levels_share_l2": small_machine(
        5, cpus_per_l2=2, l2_lines=8, cpus_per_l3=4, l3_lines=8, l3_per_package=1
    ),
    "three_levels_threads": small_machine(
        8, cpus_per_l1=2, cpus_per_l2=2, l2_lines=4, cpus_per_l3=4, l3_lines=8, cpus_per_node=4
    ),
}
#: 100 L2s: a bit of the directory stands for four of them.
COARSE = small_machine(100, cpus_per_l2=1, l2_per_package=2, cpus_per_node=50)


def pair_of(
    spec: MachineSpec,
    bodies: list[list[Statement]],
    interrupts: list[Injection],
    meetings: int = 0,
    cpus: Sequence[int] | None = None,
) -> Pair:
    """Both machines, the CPUs (the first ones) with a function each, interrupts injected."""
    builder = Builder()
    cpus = range(len(bodies)) if cpus is None else cpus
    functions = [builder.cpu_function(cpu, body, meetings) for cpu, body in zip(cpus, bodies, strict=True)]
    pair = Pair.of(builder.out, spec)
    pair.start(0, builder.out.functions["format"].number)
    assert pair.run_to_end(100) == Status.HALTED
    pair.expect_rendezvous(len(bodies))
    for cpu, function in zip(cpus, functions, strict=True):
        pair.start(cpu, function)
    for one in interrupts:
        handler = builder.out.functions[one.handler].number
        pair.inject(one.cpu, handler, one.argument, at_micro_op=one.at_micro_op, at_cycle=one.at_cycle)
    return pair


def runs(spec: MachineSpec) -> st.SearchStrategy[Any]:
    cpu = st.integers(0, spec.cpus - 1)
    return st.tuples(
        st.lists(statements, min_size=min(2, spec.cpus), max_size=min(4, spec.cpus)),
        injections(spec.cpus),
        st.lists(st.tuples(st.integers(0, 120), cpu, st.sampled_from(HANDLERS)), max_size=2),
        st.integers(0, 2),
    )


@pytest.mark.parametrize("name", MACHINES)
def test_every_micro_op(name: str) -> None:
    """Compared after every micro-op; interrupts also come unannounced."""
    spec = MACHINES[name]

    @settings(max_examples=40)
    @given(runs(spec))
    def compare(run: Any) -> None:
        bodies, interrupts, injected_now, meetings = run
        pair = pair_of(spec, bodies, interrupts, meetings)
        numbers = {handler: pair.engine.image.entry_pc.index(entry) for handler, entry in entries.items()}

        def interfere(number: int) -> None:
            for when, cpu, handler in injected_now:
                if when == number:
                    pair.inject(cpu, numbers[handler], 3)

        assert pair.run_compared(3000, interfere) == Status.HALTED

    entries = {handler: Builder().out.functions[handler].entry_pc for handler in HANDLERS}
    compare()


@pytest.mark.parametrize("name", MACHINES)
def test_whole_runs(name: str) -> None:
    """Compared at the end, the engine without a stop."""
    spec = MACHINES[name]

    @settings(max_examples=100)
    @given(
        st.lists(statements, min_size=spec.cpus, max_size=spec.cpus),
        injections(spec.cpus, 8),
        st.integers(0, 2),
    )
    def compare(bodies: list[list[Statement]], interrupts: list[Injection], meetings: int) -> None:
        pair = pair_of(spec, bodies, interrupts, meetings)
        assert pair.run_to_end(20_000) == Status.HALTED

    compare()


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, COARSE.cpus - 1), min_size=6, max_size=6, unique=True),
    st.lists(statements, min_size=6, max_size=6),
)
def test_a_coarse_directory(cpus: list[int], bodies: list[list[Statement]]) -> None:
    pair = pair_of(COARSE, bodies, [], 1, cpus)
    assert pair.engine.state[L.H_COARSE_SHIFT] == 2
    assert pair.run_to_end(20_000) == Status.HALTED


def test_a_coarse_directory_with_neighbours_in_one_group() -> None:
    """CPUs 0 .. 3 share a bit: when one of two readers loses the line, the bit has to stay for the
    other."""
    out = Assembler()
    reads = out.function("reads")
    for line in (0, 8, 16):  # the third one throws the first one out
        out.op(Op.LD, a=1, b=0, imm=line * 64)
    out.ret()
    keeps = out.function("keeps")
    out.op(Op.LD, a=1, b=0)
    out.ret()
    writes = out.function("writes")
    out.op(Op.XCHG, a=1, b=0, c=0)
    out.ret()
    pair = Pair.of(out, COARSE)
    for cpu, function in ((1, keeps), (2, reads), (60, writes), (1, keeps)):
        pair.start(cpu, function, [STATIC])
        assert pair.run_compared(10) == Status.HALTED
    assert pair.engine.counters()[60, L.N_TRANSFER_NODE] == 1
    assert pair.engine.counters()[1, L.N_TRANSFER_NODE] == 1
