"""On NUMA machines a CPU's and a node's own structures lie on its node; on others nothing is spread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import Status
from slubviz.hw.machine_file import MachineSpec
from slubviz.model.boot import boot
from slubviz.model.booted import BootedKernel
from slubviz.model.errors import UserError
from slubviz.model.kernel_source import allocator_text
from slubviz.model.kernels import load_kernel
from slubviz.model.lang import SourceFile, Target, compile_program
from slubviz.model.machines import load_machine
from slubviz.model.requests import BLOCK_PAGES, SessionSpec, session_job

BASE = load_machine("e5345_8p")
MACHINES = {
    "one_node": BASE,
    "two_nodes": replace(BASE, cpus_per_node=4),
    "uneven": replace(BASE, cpus=7, cpus_per_node=4),
    "four_nodes_of_16_kb_pages": replace(BASE, cpus_per_node=2, page_size_bytes=16384, line_bytes=128),
    "words_of_32_bits": replace(BASE, cpus_per_node=2, word_bytes=4),
}
NUMA = [name for name in MACHINES if name != "one_node"]


def booted(machine: MachineSpec, kernel: str = "slub") -> BootedKernel:
    return boot(session_job(SessionSpec("x", kernel, "D", (64,), 50, 1), machine))


def node_at(kernel: BootedKernel, address: int) -> int:
    """The node of an address, from the machine's own page frame table."""
    state = kernel.machine.state
    entry = int(state[int(state[L.H_FRAMES]) + address // kernel.machine.spec.page_size_bytes])
    assert entry != 0
    return entry >> L.FRAME_NODE_SHIFT & L.FRAME_NODE_MASK


@pytest.mark.parametrize("name", NUMA)
def test_every_element_lies_wholly_on_its_node(name: str) -> None:
    kernel = booted(MACHINES[name])
    spec = kernel.machine.spec
    seen = set()
    for variable in kernel.program.globals.values():
        if not variable.per:
            continue
        seen.add(variable.per)
        assert variable.count == (spec.cpus if variable.per == "cpu" else spec.nodes)
        for element in range(variable.count):
            first = variable.address + element * variable.stride_bytes
            expected = element // spec.cpus_per_node if variable.per == "cpu" else element
            pages = range(first, first + variable.stride_bytes, spec.page_size_bytes)
            assert first % spec.page_size_bytes == 0
            assert {node_at(kernel, page) for page in pages} == {expected}
            assert node_at(kernel, first + variable.stride_bytes - 1) == expected
    assert seen == {"cpu", "node"}


@pytest.mark.parametrize("name", NUMA)
def test_page_structures_lie_on_the_node_of_their_pages(name: str) -> None:
    kernel = booted(MACHINES[name])
    page_size, plan = kernel.machine.spec.page_size_bytes, kernel.machine.memory
    pages = kernel.program.globals["mem_map"]
    wrong = []
    for frame in range(pages.count):
        address = pages.address + frame * pages.stride_bytes
        expected = 0 if frame < BLOCK_PAGES else int(plan.node_of_frame[frame - BLOCK_PAGES])
        if node_at(kernel, address) != expected:
            wrong.append(frame)
    # A page that holds structures of two nodes is on the node of the first to begin in it.
    for frame in wrong:
        address = pages.address + frame * pages.stride_bytes
        first = -(-(address // page_size * page_size - pages.address) // pages.stride_bytes)
        assert first < frame
        home = 0 if first < BLOCK_PAGES else int(plan.node_of_frame[first - BLOCK_PAGES])
        assert node_at(kernel, address) == home
    assert len(wrong) < kernel.machine.spec.nodes * page_size / pages.stride_bytes
    if page_size == 4096:  # whole blocks of page structures fill whole pages
        assert wrong == []


@pytest.mark.parametrize("name", NUMA)
def test_what_belongs_to_nobody_is_on_node_0(name: str) -> None:
    kernel = booted(MACHINES[name])
    for shared in ("kmalloc_caches", "size_index"):
        variable = kernel.program.globals[shared]
        pages = range(variable.address, variable.address + variable.size_bytes, 64)
        assert {node_at(kernel, address) for address in pages} == {0}


def test_one_node_machines_keep_their_dense_layout() -> None:
    kernel = booted(MACHINES["one_node"])
    assert kernel.program.target.element_align_bytes == 0
    end = 0
    for variable in kernel.program.globals.values():
        assert 0 <= variable.address - end < BASE.line_bytes or end == 0
        end = variable.address + variable.size_bytes
        if variable.per:
            assert variable.stride_bytes % BASE.line_bytes == 0
    assert kernel.program.globals["zones"].stride_bytes % BASE.page_size_bytes != 0
    assert kernel.machine.memory.node_of_static_frame is not None
    assert not kernel.machine.memory.node_of_static_frame.any()


READER = """

def read_cpu_structure(cpu):
    return per_cpu(cache_cpus, cpu).slot[5].objsize


def read_own_structure():
    return this_cpu(cache_cpus).slot[5].objsize


def read_node_structure(node):
    return per_node(cache_nodes, node)[5].nr_partial
"""


@pytest.fixture(scope="module")
def reading_kernel(tmp_path_factory: pytest.TempPathFactory) -> BootedKernel:
    """SLUB with functions that load one word, on two nodes of four CPUs."""
    path = tmp_path_factory.mktemp("kernel") / "reading.py"
    path.write_text(allocator_text(load_kernel("slub")) + READER, encoding="utf-8")
    return booted(MACHINES["two_nodes"], str(path))


def misses(kernel: BootedKernel, cpu: int, function: str, *arguments: int) -> tuple[int, int]:
    """Local and remote memory accesses of one run of a function, on a machine just booted."""
    machine = kernel.machine
    fresh = machine.copy_state()
    machine.start(cpu, kernel.program.function(function).index, arguments)
    assert machine.run() == Status.HALTED
    counters = machine.counters()[cpu]
    found = int(counters[L.N_MEMORY_LOCAL]), int(counters[L.N_MEMORY_REMOTE])
    machine.restore_state(fresh)
    return found


@pytest.mark.parametrize("cpu", range(8))
def test_a_load_of_a_cpus_or_nodes_own_data_is_local(reading_kernel: BootedKernel, cpu: int) -> None:
    assert misses(reading_kernel, cpu, "read_own_structure") == (1, 0)
    for other in range(8):
        local = cpu // 4 == other // 4
        assert misses(reading_kernel, cpu, "read_cpu_structure", other) == (local, not local)
    for node in range(2):
        local = cpu // 4 == node
        assert misses(reading_kernel, cpu, "read_node_structure", node) == (local, not local)


def test_a_kernel_without_the_empty_freelist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    text = allocator_text(load_kernel("slub"))
    lines = [line for line in text.splitlines() if not line.startswith("EMPTY_FREELIST")]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UserError, match=r"^mine: the kernel file lacks constant EMPTY_FREELIST, .* prints$"):
        booted(BASE, str(path))


@pytest.mark.parametrize(("kernel", "empty"), [("slub", 0), ("slub+", 1)])
def test_freelists_start_empty_as_the_kernel_says(kernel: str, empty: int) -> None:
    made = booted(MACHINES["two_nodes"], kernel)
    for cpu in range(8):
        pool = made.memory.array(made.memory.global_address("cache_cpus", cpu), "kmem_cache_cpu", 10)
        assert pool["freelist"][3:].tolist() == [empty] * 7


@given(
    st.integers(0, 300),
    st.integers(1, 9),
    st.sampled_from([0, 64, 128, 4096]),
    st.sampled_from([0x10000, 0x10008, 0x12345]),
)
def test_element_alignment(size: int, cpus: int, step: int, base: int) -> None:
    text = f"a: word\nx: per_cpu[array[word, {size + 1}]]\nb: word\ny: per_node[word]\nz: word\n"
    target = Target(8, {"NR_CPUS": cpus, "NR_NODES": 3}, base, element_align_bytes=step)
    program = compile_program([SourceFile("a.py", text)], target, {})
    x, y = program.globals["x"], program.globals["y"]
    used = step or 64
    assert x.address % used == y.address % used == 0
    assert (x.count, y.count) == (cpus, 3)
    assert x.stride_bytes == -(-8 * (size + 1) // used) * used
    assert y.stride_bytes == used
    end = base
    for variable in program.globals.values():  # in order, none overlaps, each starts a cache line
        assert variable.address >= end
        assert variable.address % 64 == 0
        end = variable.address + variable.size_bytes
    assert 0 <= program.static_end - end < 64
