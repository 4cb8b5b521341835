"""Random allocations and frees on random CPUs and nodes, step for step beside the oracle, with all invariants
after each."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from slubviz.hw.isa import Status
from slubviz.model.geometry import slab_geometry
from slubviz.model.invariants import check
from slubviz.model.slub_view import cpu_freelists, read_cache
from slubviz.model.snapshot import ObjectState
from tests.model.driver import PAGE_SHIFT, Driver
from tests.model.helpers import session
from tests.oracle.counters import KERNEL_COUNTERS
from tests.oracle.slub import Slub

BASIC = {"slub": "SLUB", "slub+": "SLUB+"}
KERNELS = BASIC | {
    "slub-o": "SLUB-o",
    "slub+pekka": "SLUB+",
    "slub-2.6.25": "SLUB-2.6.25",
    "slub-seq": "SLUB-seq",
    "slub-seq by the letter": "SLUB-seq-letter",
}
LETTER = " by the letter"
#: Few objects per slab, so that every case of the slow paths comes up often.
SIZES = (512, 1024, 2048)
#: get_any_partial looks when the cycle counter modulo 1024 is not above the ratio.
NEVER, ALWAYS = 0, 1024


@dataclass(frozen=True)
class Slab:
    """All that both sides know of a slab."""

    node: int
    inuse: int
    cpu: int | None
    partial_position: int | None
    freelist: tuple[int, ...]
    cpu_freelist: tuple[int, ...]


@dataclass
class Pair:
    """A machine and the oracle, doing the same."""

    driver: Driver
    oracle: Slub
    #: address, the oracle's object, size
    live: list[tuple[int, int, int]] = field(default_factory=list)
    #: the oracle's slab -> page frame, from the slab's first allocation on
    frame_of: dict[int, int] = field(default_factory=dict)

    def note(self, address: int, known: int, size: int) -> None:
        """Both sides have handed out an object: it must be the same slot of the same slab."""
        place = self.oracle.address(known)
        pages = 1 << slab_geometry(size, 1 << PAGE_SHIFT, self.driver.kernel.orders).order
        frame = (address >> PAGE_SHIFT) // pages * pages
        assert (address - (frame << PAGE_SHIFT)) / size == place.slot
        assert self.frame_of.setdefault(place.slab, frame) == frame
        self.live.append((address, known, size))

    def alloc(self, cpu: int, size: int, node: int | None = None) -> None:
        self.note(self.driver.alloc(cpu, size, node), self.oracle.alloc(cpu, size, node), size)

    def free(self, cpu: int, pick: int) -> None:
        address, known, _ = self.live.pop(pick % len(self.live))
        self.driver.free(cpu, address)
        self.oracle.free(cpu, known)

    def machine_slabs(self, size: int) -> dict[int, Slab]:
        """Page frame -> slab, in the machine."""
        driver = self.driver
        view = read_cache(driver.kernel, driver.index(size))
        table, heads = view.table, cpu_freelists(driver.kernel, driver.index(size))
        found = {}
        for i, frame in enumerate(table.page_frame.tolist()):
            node, cpu = int(table.node[i]), int(table.cpu[i])
            listed = view.partial_pages[node].tolist()

            def slots(head: int, start: int = frame << PAGE_SHIFT) -> tuple[int, ...]:
                return tuple((address - start) // size for address in driver.chain(head))

            own = int(driver.memory.one(driver.page_address(frame), "page")["freelist"])
            found[frame] = Slab(
                node=node,
                inuse=int(table.inuse[i]),
                cpu=None if cpu < 0 else cpu,
                partial_position=listed.index(frame) if frame in listed else None,
                freelist=slots(own),
                cpu_freelist=() if cpu < 0 else slots(int(heads[cpu])),
            )
        return found

    def oracle_slabs(self, size: int) -> dict[int, Slab]:
        """The same from the oracle."""
        return {
            self.frame_of[view.number]: Slab(
                view.node, view.inuse, view.cpu, view.partial_position, view.freelist, view.cpu_freelist
            )
            for view in self.oracle.slabs(size)
        }

    def compare(self) -> None:
        """Every slab, every list in its order, every counter."""
        assert check(self.driver.kernel, expected_allocated=len(self.live)) == []
        assert len({address for address, _, _ in self.live}) == len(self.live)
        assert self.driver.counters() == {name: self.oracle.counters[name] for name in KERNEL_COUNTERS}
        for size in SIZES:
            assert self.machine_slabs(size) == self.oracle_slabs(size)


def pair(kernel: str, cpus: int = 3, nodes: int = 1, defrag_ratio: int = NEVER) -> Pair:
    driver = Driver(
        kernel.removesuffix(LETTER), cpus, nodes, **({"LAST_OBJECT_SLOW": 1} if LETTER in kernel else {})
    )
    for size in SIZES:
        address = driver.kernel.cache_address(driver.index(size))
        driver.memory.one(address, "kmem_cache")["defrag_ratio"] = defrag_ratio
    return Pair(
        driver,
        Slub(
            page_size=1 << PAGE_SHIFT,
            variant=KERNELS[kernel],
            cpus=cpus,
            nodes=nodes,
            search_remote=lambda: defrag_ratio == ALWAYS,
        ),
    )


def operations(cpus: int, nodes: int) -> st.SearchStrategy[list[tuple[bool, int, int, int, int | None]]]:
    """Allocate or free, CPU, size, which object to free, node asked for."""
    node = st.one_of(st.none(), st.integers(0, nodes - 1)) if nodes > 1 else st.none()
    one = st.tuples(
        st.booleans(), st.integers(0, cpus - 1), st.sampled_from(SIZES), st.integers(0, 10**6), node
    )
    return st.lists(one, max_size=60)


def run(both: Pair, steps: list[tuple[bool, int, int, int, int | None]]) -> None:
    for allocate, cpu, size, pick, node in steps:
        if allocate or not both.live:
            both.alloc(cpu, size, node)
        else:
            both.free(cpu, pick)
        both.compare()


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(steps=operations(3, 1))
def test_every_operation_agrees_with_the_oracle(
    kernel: str, steps: list[tuple[bool, int, int, int, int | None]]
) -> None:
    run(pair(kernel), steps)


@pytest.mark.parametrize("defrag_ratio", [NEVER, ALWAYS])
@pytest.mark.parametrize("kernel", ["slub", "slub+", "slub-2.6.25", "slub-seq"])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(steps=operations(4, 2))
def test_every_operation_on_two_nodes_agrees_with_the_oracle(
    kernel: str, defrag_ratio: int, steps: list[tuple[bool, int, int, int, int | None]]
) -> None:
    run(pair(kernel, 4, 2, defrag_ratio), steps)


@pytest.mark.parametrize(
    ("local", "remote", "counted", "counted_patched"),
    [
        (0, 0, {"DEACTIVATE_FULL"}, {"DEACTIVATE_FULL"}),
        (1, 0, {"DEACTIVATE_TO_HEAD"}, {"DEACTIVATE_TO_HEAD"}),
        (
            0,
            1,
            {"DEACTIVATE_TO_HEAD", "DEACTIVATE_REMOTE_FREES"},
            {"DEACTIVATE_TO_TAIL", "DEACTIVATE_REMOTE_FREES"},
        ),
        (
            2,
            1,
            {"DEACTIVATE_TO_HEAD", "DEACTIVATE_REMOTE_FREES"},
            {"DEACTIVATE_TO_HEAD", "DEACTIVATE_REMOTE_FREES"},
        ),
        (4, 0, {"DEACTIVATE_EMPTY"}, {"DEACTIVATE_EMPTY"}),
        (
            0,
            4,
            {"DEACTIVATE_EMPTY", "DEACTIVATE_REMOTE_FREES"},
            {"DEACTIVATE_EMPTY", "DEACTIVATE_REMOTE_FREES"},
        ),
    ],
)
@pytest.mark.parametrize("kernel", BASIC)
def test_a_slab_is_given_up_for_one_of_another_node(
    kernel: str, local: int, remote: int, counted: set[str], counted_patched: set[str]
) -> None:
    """CPU 0 fills a slab of its node, it and CPU 1 free some objects, it asks for the other node."""
    both = pair(kernel, 4, 2)
    for cpu, objects in ((0, 4), (1, 5), (2, 5)):
        for _ in range(objects):
            both.alloc(cpu, 1024, 0)
    for pick in (9, 4):  # two slabs on the partial list, to see at which end the third is put
        both.free(3, pick)
    for cpu in [0] * local + [1] * remote:
        both.free(cpu, 0)
    both.compare()
    assert both.driver.counters()["FREE_FASTPATH"] == local
    both.alloc(0, 1024, 1)
    both.compare()
    counters = both.driver.counters()
    gained = {name for name, value in counters.items() if name.startswith("DEACTIVATE") and value}
    expected = counted_patched if kernel == "slub+" else counted
    assert gained == expected | {"DEACTIVATE_FULL"}  # CPUs 1 and 2 gave full slabs up


def in_the_window(both: Pair, node: int) -> Status:
    """CPU 0 allocates 1024 bytes on a node; while it gets pages an interrupt allocates the same."""
    driver = both.driver
    machine, program = driver.machine, driver.program
    pages = program.function("__alloc_pages").entry_pc
    machine.set_breakpoint(pages)
    driver.start(0, "test_alloc_node", 1024, 1, node)
    assert machine.run() == Status.BREAKPOINT
    machine.set_breakpoint(pages, False)
    machine.inject(0, program.function("irq_alloc").index, 1024)
    return machine.run()


@pytest.mark.parametrize("kernel", BASIC)
def test_a_slab_of_the_wrong_node_from_an_interrupt_is_flushed(kernel: str) -> None:
    both = pair(kernel, 4, 2)
    assert in_the_window(both, 1) == Status.HALTED
    inner: list[int] = []
    outer = both.oracle.alloc(0, 1024, 1, in_window=lambda: inner.append(both.oracle.alloc(0, 1024)))
    held = both.driver.memory.field_address(
        both.driver.memory.global_address("held", 0), "held_objects", "of"
    )
    both.note(both.driver.machine.read(held), inner[0], 1024)
    both.note(both.driver.machine.read(both.driver.kept[0]), outer, 1024)
    both.compare()
    assert both.driver.counters()["CPUSLAB_FLUSH"] == 1
    assert read_cache(both.driver.kernel, 10).nr_partial.tolist() == [1, 0]


def test_an_unused_new_slab_goes_back() -> None:
    """An interrupt has given the CPU a slab of the right node meanwhile: the new one is discarded."""
    both = pair("slub", 4, 2)
    assert in_the_window(both, 0) == Status.HALTED
    inner: list[int] = []
    outer = both.oracle.alloc(0, 1024, 0, in_window=lambda: inner.append(both.oracle.alloc(0, 1024)))
    held = both.driver.memory.field_address(
        both.driver.memory.global_address("held", 0), "held_objects", "of"
    )
    both.note(both.driver.machine.read(held), inner[0], 1024)
    both.note(both.driver.machine.read(both.driver.kept[0]), outer, 1024)
    both.compare()
    assert both.driver.counters()["ALLOC_SLAB"] == 2
    assert read_cache(both.driver.kernel, 10).nr_slabs.tolist() == [1, 0]


@settings(max_examples=10, deadline=None, derandomize=True)
@given(steps=operations(3, 1))
def test_the_end_marker_of_a_slab_is_its_own_first_object(
    steps: list[tuple[bool, int, int, int, int | None]],
) -> None:
    driver = Driver("slub+")
    live = []
    for allocate, cpu, size, pick, _ in steps:
        if allocate or not live:
            live.append(driver.alloc(cpu, size))
        else:
            driver.free(cpu, live.pop(pick % len(live)))
    for size in SIZES:
        view = read_cache(driver.kernel, driver.index(size))
        assert view.ends.tolist() == [frame << PAGE_SHIFT | 1 for frame in view.table.page_frame.tolist()]


def test_the_view_of_a_cache_shows_each_object_where_it_is() -> None:
    bench = Driver("slub")
    addresses = [bench.alloc(0, 512) for _ in range(3)]
    bench.free(1, addresses[0])  # remote: goes to the slab's own freelist
    bench.free(0, addresses[1])  # local: goes to the CPU's
    view = read_cache(bench.kernel, 9)
    assert view.table.cpu.tolist() == [0]
    assert view.table.frozen.tolist() == [True]
    assert view.table.object_state.tolist() == [
        ObjectState.FREE,
        ObjectState.CPU_FREE,
        ObjectState.ALLOCATED,
        *[ObjectState.CPU_FREE] * 5,
    ]


def test_the_view_remembers_whose_slab_it_was() -> None:
    bench = Driver("slub")
    for cpu in (2, 1):
        for _ in range(9):  # one slab of 8 objects and the first of the next
            bench.alloc(cpu, 512)
    table = read_cache(bench.kernel, 9).table
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
