"""Static memory lies on the nodes that the memory plan says; counts start anew only on a quiet machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import Op, Status
from slubviz.hw.machine import Machine, MachineError
from slubviz.hw.memory import set_page_granule
from tests.hw.assemble import (
    CYCLES,
    FIRST_FRAME,
    PAGE_BYTES,
    STATIC,
    STATIC_BYTES,
    Assembler,
    small_machine,
    small_memory,
)

STATIC_PAGES = STATIC_BYTES // PAGE_BYTES


def machine_with(nodes: list[int] | None, cpus: int = 4) -> tuple[Machine, int]:
    """A machine of two-CPU nodes with a function that reads the word at its argument."""
    out = Assembler()
    function = out.function("read")
    out.op(Op.LD, a=1, b=0)
    out.ret(1)
    spec = small_machine(cpus, cpus_per_node=2)
    table = None if nodes is None else np.array(nodes, dtype=np.int64)
    return Machine(spec, out.image(), replace(small_memory(spec), node_of_static_frame=table)), function


@given(st.lists(st.integers(0, 1), min_size=STATIC_PAGES, max_size=STATIC_PAGES), st.integers(0, 3))
def test_a_miss_costs_by_the_node_of_the_page(nodes: list[int], cpu: int) -> None:
    machine, function = machine_with(nodes)
    for page, node in enumerate(nodes):
        counters = machine.counters()[cpu].copy()
        before = machine.cpu_word(cpu, L.C_CLOCK)
        machine.write(STATIC + page * PAGE_BYTES, 7)
        machine.start(cpu, function, [STATIC + page * PAGE_BYTES])
        assert machine.run() == Status.HALTED
        local = node == cpu // 2
        gained = machine.counters()[cpu] - counters
        assert (gained[L.N_MEMORY_LOCAL], gained[L.N_MEMORY_REMOTE]) == (local, not local)
        cycles = CYCLES["load"] + CYCLES["return"] + CYCLES["memory_local" if local else "memory_remote"]
        assert machine.cpu_word(cpu, L.C_CLOCK) - before == 1000 * cycles
        assert machine.read(STATIC + page * PAGE_BYTES) == 7


def test_without_a_table_static_memory_is_on_node_0() -> None:
    assert machine_with(None)[0].state_hash() == machine_with([0] * STATIC_PAGES)[0].state_hash()
    assert machine_with(None)[0].state_hash() != machine_with([0, 0, 0, 1])[0].state_hash()


def test_page_memory_keeps_its_nodes() -> None:
    tables = []
    for nodes in (None, [1, 1, 1, 1]):
        machine, _ = machine_with(nodes)
        start = int(machine.state[L.H_FRAMES]) + FIRST_FRAME
        assert set_page_granule(machine.state, FIRST_FRAME, 4) == 0
        entries = machine.state[start : start + 8]
        tables.append(entries.tolist())
        assert (entries >> L.FRAME_NODE_SHIFT & L.FRAME_NODE_MASK).tolist() == [0] * 4 + [1] * 4
    assert tables[0] == tables[1]


@pytest.mark.parametrize("nodes", [[0, 1], [0, 1, 0, 1, 0], [0, 0, 0, 2], [-1, 0, 0, 0]])
def test_a_wrong_table_is_refused(nodes: list[int]) -> None:
    message = "node_of_static_frame must give each of 4 page frames a node from 0 to 1"
    with pytest.raises(MachineError, match=message):
        machine_with(nodes)


@pytest.mark.parametrize("when", [{"at_cycle": 1e9}, {"at_micro_op": 1000}, {}])
def test_counts_do_not_start_anew_while_an_interrupt_is_pending(when: dict[str, int]) -> None:
    machine, function = machine_with(None)
    machine.start(0, function, [STATIC])
    assert machine.run() == Status.HALTED
    before = machine.trace_hash
    machine.zero_counts()
    machine.start(0, function, [STATIC])
    assert machine.run() == Status.HALTED
    assert machine.micro_ops == 2
    assert machine.trace_hash != before  # the line is in the cache now
    machine.inject(1, function, STATIC, **when)
    state = machine.copy_state()
    with pytest.raises(MachineError, match="no interrupt is pending"):
        machine.zero_counts()
    assert (machine.state == state).all()
