"""Random multi-CPU programs on the engine and on the reference machine: every micro-op gives the same machine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw.isa import Status
from slubviz.hw.machine_file import MachineSpec
from tests.hw.assemble import small_machine
from tests.hw.compare import Pair
from tests.hw.programs import HANDLERS, Builder, Injection, Statement, injections, statements

MACHINES: dict[str, MachineSpec] = {
    "one": small_machine(1, prefetch_reach_lines=4),
    "two_share_l2": small_machine(2),
    "four_packages": small_machine(4, l2_per_package=1),
    "four_share_l1": small_machine(4, cpus_per_l1=2, cpus_per_l2=4),
    "eight_two_nodes": small_machine(8, cpus_per_node=4, prefetch_reach_lines=4),
}


def pair_of(spec: MachineSpec, bodies: list[list[Statement]], interrupts: list[Injection]) -> Pair:
    """Both machines, every CPU with its own function, interrupts injected."""
    builder = Builder()
    functions = [builder.cpu_function(cpu, body) for cpu, body in enumerate(bodies)]
    pair = Pair.of(builder.out, spec)
    for cpu, function in enumerate(functions):
        pair.start(cpu, function)
    for one in interrupts:
        handler = builder.out.functions[one.handler].number
        pair.inject(one.cpu, handler, one.argument, at_micro_op=one.at_micro_op, at_cycle=one.at_cycle)
    return pair


def runs(spec: MachineSpec) -> st.SearchStrategy[Any]:
    return st.tuples(
        st.lists(statements, min_size=min(2, spec.cpus), max_size=min(4, spec.cpus)),
        injections(spec.cpus),
        st.lists(st.tuples(st.integers(0, 120), st.integers(0, spec.cpus - 1), st.sampled_from(HANDLERS)), max_size=2),
    )


@pytest.mark.parametrize("name", MACHINES)
def test_every_micro_op(name: str) -> None:
    spec = MACHINES[name]

    @settings(max_examples=25)
    @given(runs(spec))
    def compare(run: Any) -> None:
        bodies, interrupts, injected_now = run
        pair = pair_of(spec, bodies, interrupts)
        image_functions = {handler: i + 2 for i, handler in enumerate(HANDLERS)}

        def interfere(number: int) -> None:
            for when, cpu, handler in injected_now:
                if when == number:
                    pair.inject(cpu, image_functions[handler], 3)

        status = pair.run_compared(1500, interfere)
        assert status in (Status.HALTED, Status.MICRO_OPS)

    compare()


@pytest.mark.parametrize("name", MACHINES)
def test_whole_runs(name: str) -> None:
    spec = MACHINES[name]

    @settings(max_examples=60)
    @given(st.lists(statements, min_size=spec.cpus, max_size=spec.cpus), injections(spec.cpus, 8))
    def compare(bodies: list[list[Statement]], interrupts: list[Injection]) -> None:
        pair = pair_of(spec, bodies, interrupts)
        assert pair.run_to_end(20_000) == Status.HALTED

    compare()
