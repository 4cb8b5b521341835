"""Random machines, each mechanism on or off: engine and reference machine run the same programs alike.

Besides the caches' shapes and the sharing, what is drawn is the bus, both prefetchers, how store misses
overlap, what polling a line costs, and a kernel for one CPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import Status
from slubviz.hw.machine import Machine
from slubviz.hw.machine_file import MachineSpec
from tests.hw.assemble import small_machine
from tests.hw.programs import Injection, Statement, injections, statements
from tests.hw.test_random_programs import pair_of

#: Costs of the mechanisms; 0 or 1 is off, or as simple as can be.
COSTS: dict[str, tuple[float, ...]] = {
    "bus_transaction": (0, 7, 35, 150),
    "spinner_reread": (0, 60, 300),
    "spinner_retry": (0, 25, 170),
    "store_miss_share": (0, 0.3, 1),
    "store_window": (0, 300, 1000),
    "prefetch_leftover": (0, 0.25, 1),
}


@st.composite
def machines(draw: Any, most_cpus: int = 6) -> MachineSpec:
    """A machine with small caches, any sharing of them, and any choice of mechanisms."""
    cpus = draw(st.integers(1, most_cpus))
    per_l1 = draw(st.sampled_from((1, 1, 2)))
    per_l2 = per_l1 * draw(st.integers(1, 2))
    has_l3 = draw(st.booleans())
    per_outer = per_l2 * draw(st.integers(1, 2)) if has_l3 else per_l2
    l1_lines = draw(st.sampled_from((2, 4, 8)))
    l2_lines = l1_lines * draw(st.sampled_from((1, 2, 4)))
    return small_machine(
        cpus,
        cpus_per_node=draw(st.sampled_from((per_outer, 2 * per_outer, 8))),
        cpus_per_l1=per_l1,
        cpus_per_l2=per_l2,
        l2_per_package=draw(st.integers(1, 2)),
        l1_lines=l1_lines,
        l2_lines=l2_lines,
        cpus_per_l3=per_outer if has_l3 else 0,
        l3_per_package=draw(st.integers(1, 2)),
        l3_lines=l2_lines * draw(st.sampled_from((1, 2))),
        prefetch_reach_lines=draw(st.sampled_from((0, 1, 2, 20))),
        adjacent_line_prefetch=draw(st.booleans()),
        smp_kernel=cpus > 1 or draw(st.booleans()),
        cycles={name: draw(st.sampled_from(values)) for name, values in COSTS.items()},
    )


Run = tuple[MachineSpec, list[list[Statement]], list[Injection], int]


@st.composite
def runs(draw: Any, most_cpus: int = 6) -> Run:
    """A machine, a program for each of its CPUs, interrupts, and the number of rendezvous."""
    spec = draw(machines(most_cpus))
    bodies = draw(st.lists(statements, min_size=spec.cpus, max_size=spec.cpus))
    return spec, bodies, draw(injections(spec.cpus)), draw(st.integers(0, 1))


@settings(max_examples=120)
@given(runs(4))
def test_every_micro_op(run: Run) -> None:
    spec, bodies, interrupts, meetings = run
    pair = pair_of(spec, bodies, interrupts, meetings)
    assert pair.run_compared(3000) == Status.HALTED


@settings(max_examples=200)
@given(runs())
def test_whole_runs(run: Run) -> None:
    spec, bodies, interrupts, meetings = run
    pair = pair_of(spec, bodies, interrupts, meetings)
    assert pair.run_to_end(20_000) == Status.HALTED


def machine_of(run: Run) -> Machine:
    """The engine alone, started."""
    spec, bodies, interrupts, meetings = run
    return pair_of(spec, bodies, interrupts, meetings).engine


def times(machine: Machine, where: int, count: int) -> list[int]:
    return machine.state[int(machine.state[where]) :][:count].tolist()


@settings(max_examples=60)
@given(runs(4))
def test_what_is_busy_is_never_free_earlier_than_before(run: Run) -> None:
    """Buses, polled lines and store buffers; and a store buffer is never further behind than its window."""
    machine = machine_of(run)
    spec = machine.spec
    window = round(spec.costs["store_window"].value * 1000)
    before = None
    while machine.step() == Status.MICRO_OPS:
        blocks = machine.cpu_blocks()
        assert (blocks[:, L.C_STORE_BUSY] - blocks[:, L.C_CLOCK] <= window).all()
        now = times(machine, L.H_BUS, spec.nodes) + times(machine, L.H_LINE_BUSY, L.LINE_BUSY_ENTRIES)
        now += blocks[:, L.C_STORE_BUSY].tolist()
        assert before is None or all(old <= new for old, new in zip(before, now, strict=True))
        before = now


@settings(max_examples=60)
@given(runs(4))
def test_a_bus_without_cost_is_no_bus(run: Run) -> None:
    spec, *rest = run
    machine = machine_of((spec.with_costs({"bus_transaction": 0}), *rest))
    assert machine.run() == Status.HALTED
    assert times(machine, L.H_BUS, spec.nodes) == [0] * spec.nodes


@settings(max_examples=80)
@given(
    machines(1),
    statements,
    st.sampled_from(("bus_transaction", "store_miss_share", "store_window")),
    st.sampled_from((0, 0.4, 1)),
)
def test_a_dearer_mechanism_never_shortens_a_run_of_one_cpu(
    spec: MachineSpec, body: list[Statement], name: str, share: float
) -> None:
    """But for the stream prefetcher, which gains on a slower program; so there is none."""
    spec = replace(spec, prefetch_reach_lines=0)
    dear = max(COSTS[name])
    ends = []
    for value in (0, share * dear, dear):
        machine = machine_of((spec.with_costs({name: value}), [body], [], 0))
        assert machine.run() == Status.HALTED
        ends.append(max(machine.cpu_word(0, word) for word in (L.C_CLOCK, L.C_STORE_BUSY)))
    assert ends == sorted(ends, reverse=name == "store_window")
