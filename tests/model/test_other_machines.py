"""The kernels on machines of other shapes: NUMA nodes, 32-bit words, large pages and lines, one CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.invariants import check
from slubviz.model.machines import load_machine
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.slub_view import read_cache

BASE = load_machine("e5345_8p")
MACHINES = {
    "two_nodes": replace(BASE, cpus_per_node=4),
    "four_nodes": replace(BASE, cpus_per_node=2),
    "words_of_32_bits": replace(BASE, word_bytes=4),
    "pages_of_16_kb": replace(BASE, page_size_bytes=16384, line_bytes=128),
    "ia64_like": replace(BASE, page_size_bytes=16384, line_bytes=128, cpus_per_node=2),
    "one_cpu": replace(BASE, cpus=1, cpus_per_node=1, cpus_per_l2=1),
}
SIZES = (8, 96, 192, 512, 2048, 4096, 16384)


def run(machine: MachineSpec, kernel: str, tests: str, ops: int = 150) -> Session:
    spec = SessionSpec("x", kernel, tests[0], SIZES, ops, 1, tests=tuple(tests), check=True)
    made = Session(spec, machine)
    made.run_to_end()
    return made


@pytest.mark.parametrize("tests", ["AB", "C", "D", "E", "F"])
@pytest.mark.parametrize("kernel", ["slub", "slub+"])
@pytest.mark.parametrize("name", MACHINES)
def test_every_test_runs_and_breaks_nothing(name: str, kernel: str, tests: str) -> None:
    machine = MACHINES[name]
    if tests == "F" and machine.cpus == 1:
        pytest.skip("F needs a second CPU")
    made = run(machine, kernel, tests)
    assert len(made.results) == len(SIZES) * len(tests)
    assert check(made.booted, expected_allocated=0) == []


def test_each_cpu_allocates_from_its_own_node() -> None:
    machine = MACHINES["four_nodes"]
    made = Session(SessionSpec("x", "slub", "D", (512,), 50, 1), machine)
    assert made.machine.run().name == "HALTED"
    table = read_cache(made.booted, 9).table
    assert np.array_equal(table.node, table.last_cpu // 2)
    assert sorted(set(table.node.tolist())) == [0, 1, 2, 3]


def test_remote_frees_go_to_the_partial_list_of_the_slabs_node() -> None:
    machine = MACHINES["four_nodes"]
    made = Session(SessionSpec("x", "slub", "D", (1024,), 12, 1), machine)
    made.machine.run()
    program = made.booted.program
    kept = [made.booted.memory.global_address("objects", cpu) for cpu in range(8)]
    # CPU 0 frees the first object of each CPU's first, full slab.
    for cpu in range(1, 8):
        made.machine.write(kept[0], made.machine.read(kept[cpu]))
        made.machine.align_clocks()
        made.machine.start(0, program.function("test_free").index, (0, 1, 1))
        made.machine.run()
    view = read_cache(made.booted, 10)
    assert view.nr_partial.tolist() == [1, 2, 2, 2]
    for node, frames in view.partial_pages.items():
        assert all(view.table.node[view.table.page_frame == frame] == node for frame in frames)


def test_defrag_ratio_looks_at_other_nodes_now_and_then() -> None:
    """get_any_partial: about one in ten of the node-local misses searches the other nodes."""
    machine = MACHINES["two_nodes"]
    spec = SessionSpec("x", "slub", "D", (1024,), 400, 1)
    made = Session(spec, machine)
    made.machine.run()
    program, memory = made.booted.program, made.booted.memory
    # CPU 4, on node 1, frees one object of each of its slabs: many partial slabs on node 1.
    kept = memory.global_address("objects", 4)
    for slab in range(60):
        made.machine.write(kept, made.machine.read(kept + 8 * (4 * slab + 8)))
        made.machine.align_clocks()
        made.machine.start(4, program.function("test_free").index, (4, 5, 1))
        made.machine.run()
    assert read_cache(made.booted, 10).nr_partial[1] > 50
    made.machine.align_clocks()
    made.machine.start(0, program.function("test_alloc").index, (1024, 400))
    made.machine.run()
    left = int(read_cache(made.booted, 10).nr_partial[1])
    assert 20 < left < 60
