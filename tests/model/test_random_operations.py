"""Random allocations and frees on random CPUs, step for step beside the oracle, with all invariants after
each."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from slubviz.hw.isa import Status
from slubviz.hw.layout import HARDWARE_COUNTERS
from slubviz.model.invariants import check
from slubviz.model.session import Session
from slubviz.model.slub_view import read_cache
from slubviz.model.snapshot import ObjectState
from tests.model.helpers import session
from tests.oracle.counters import KERNEL_COUNTERS
from tests.oracle.slub import Slub

CPUS = 3
KERNELS = {"slub": "SLUB", "slub+": "SLUB+"}
#: Few objects per slab, so that every case of the slow paths comes up often.
SIZES = (512, 1024, 2048)


class Bench:
    """One machine, driven one operation at a time."""

    def __init__(self, kernel: str) -> None:
        self.session: Session = session("D", (8,), 4, kernel, cpus=CPUS, small_caches=True)
        machine, program = self.session.machine, self.session.booted.program
        machine.run()  # the session's own first phase
        self.machine, self.program = machine, program
        memory = self.session.booted.memory
        self.kept = [memory.global_address("objects", cpu) for cpu in range(CPUS)]
        self._call("test_free", (0, CPUS, 4), 0)
        self.before = self._counters()

    def _call(self, function: str, arguments: tuple[int, ...], cpu: int) -> None:
        self.machine.align_clocks()
        self.machine.start(cpu, self.program.function(function).index, arguments)
        assert self.machine.run() == Status.HALTED

    def alloc(self, cpu: int, size: int) -> int:
        self._call("test_alloc", (size, 1), cpu)
        return self.machine.read(self.kept[cpu])

    def free(self, cpu: int, address: int) -> None:
        self.machine.write(self.kept[cpu], address)
        self._call("test_free", (cpu, cpu + 1, 1), cpu)

    def _counters(self) -> dict[str, int]:
        sums = self.machine.counters().sum(axis=0)[HARDWARE_COUNTERS:]
        return {name: int(value) for name, value in zip(self.program.counters, sums, strict=True)}

    def counters(self) -> dict[str, int]:
        now = self._counters()
        return {name: now[name] - self.before[name] for name in KERNEL_COUNTERS}


operation = st.tuples(st.booleans(), st.integers(0, CPUS - 1), st.sampled_from(SIZES), st.integers(0, 10**6))


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(operations=st.lists(operation, max_size=60))
def test_every_operation_agrees_with_the_oracle(
    kernel: str, operations: list[tuple[bool, int, int, int]]
) -> None:
    bench = Bench(kernel)
    oracle = Slub(page_size=4096, variant=KERNELS[kernel], cpus=CPUS)
    live: list[tuple[int, int, int]] = []  # address, the oracle's object, size
    for allocate, cpu, size, pick in operations:
        if allocate or not live:
            live.append((bench.alloc(cpu, size), oracle.alloc(cpu, size), size))
        else:
            address, known, _ = live.pop(pick % len(live))
            bench.free(cpu, address)
            oracle.free(cpu, known)
        assert check(bench.session.booted, expected_allocated=len(live)) == []
        assert len({address for address, _, _ in live}) == len(live)
        assert bench.counters() == {name: oracle.counters[name] for name in KERNEL_COUNTERS}
    for address, known, size in live:
        assert address % 4096 % size == 0
        # The slot in a slab is the same on both sides; which page a slab has is the page allocator's
        # business.
        order = 1 if size == 2048 else 0
        assert address % (4096 << order) // size == oracle.address(known).slot


def test_the_view_of_a_cache_shows_each_object_where_it_is() -> None:
    bench = Bench("slub")
    addresses = [bench.alloc(0, 512) for _ in range(3)]
    bench.free(1, addresses[0])  # remote: goes to the slab's own freelist
    bench.free(0, addresses[1])  # local: goes to the CPU's
    view = read_cache(bench.session.booted, 9)
    assert view.table.cpu.tolist() == [0]
    assert view.table.frozen.tolist() == [True]
    assert view.table.object_state.tolist() == [
        ObjectState.FREE,
        ObjectState.CPU_FREE,
        ObjectState.ALLOCATED,
        *[ObjectState.CPU_FREE] * 5,
    ]


def test_the_view_remembers_whose_slab_it_was() -> None:
    bench = Bench("slub")
    for cpu in (2, 1):
        for _ in range(9):  # one slab of 8 objects and the first of the next
            bench.alloc(cpu, 512)
    table = read_cache(bench.session.booted, 9).table
    assert sorted(zip(table.last_cpu.tolist(), table.cpu.tolist(), strict=True)) == [
        (1, -1),
        (1, 1),
        (2, -1),
        (2, 2),
    ]


def test_a_list_in_the_middle_of_a_change_can_still_be_shown() -> None:
    made = session("AB", (1024,), 12, small_caches=True)
    lengths = set()
    while not made.finished:
        made.step()
        if made.phase is not None and made.phase.test == "B":
            listed = read_cache(made.booted, 10, strict=False).partial_pages[0].tolist()
            assert len(set(listed)) == len(listed)
            lengths.add(len(listed))
    assert lengths == {0, 1}
