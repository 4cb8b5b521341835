"""Lockless SLUB an operation at a time: a driver, and a pair of machine and oracle that do the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slubviz.hw.isa import Status
from slubviz.model.families.slub_lockless_geometry import PRIVATE_CACHE, cache_index
from slubviz.model.invariants import check
from slubviz.model.slub_lockless_invariants import kernel_tid_step
from slubviz.model.slub_lockless_view import CacheView, read_cache
from slubviz.model.slub_view import cpu_slabs
from tests.model.driver import PAGE_SHIFT, Driver
from tests.oracle.lockless import COUNTERS, PRIVATE, Lockless, Place, Shape

#: Slabs of few objects, so that every case comes up often: 4, 4, 2 and 1 in a slab.
SMALL_SLABS = {"slub_min_objects": 4, "slub_max_order": 1}
SIZES = (1024, 2048, 4096, 8192)
GFP_KERNEL = 1
#: get_any_partial looks when the cycle counter modulo 1024 is not above the ratio.
NEVER, ALWAYS = 0, 1024


class LocklessDriver(Driver):
    """See ``Driver``; knows the caches of lockless SLUB and its bulk functions."""

    def index(self, size: int | str) -> int:
        """Index of the cache that serves a size; the private one by its name."""
        if isinstance(size, str):
            return PRIVATE_CACHE
        index = cache_index(size, 1 << PAGE_SHIFT)
        assert index is not None
        return index

    def cache(self, size: int | str) -> int:
        """Address of a kmem_cache."""
        return self.kernel.cache_address(self.index(size))

    def counters(self) -> dict[str, int]:
        """The kernel's own counters since the start."""
        now = self.all_counters()
        return {name: now[name] - self.before[name] for name in COUNTERS}

    def view(self, size: int | str) -> CacheView:
        """All slabs of a cache."""
        return read_cache(self.kernel, self.index(size))

    def flush(self, cpu: int, size: int | str) -> None:
        """Take everything that a CPU has of a cache."""
        self.run(cpu, "flush_cpu_slab", self.cache(size))

    def alloc_bulk(self, cpu: int, size: int | str, number: int) -> list[int]:
        """Addresses of so many new objects, at most 64."""
        self.run(cpu, "kmem_cache_alloc_bulk", self.cache(size), GFP_KERNEL, number, self.kept[cpu])
        return [self.machine.read(self.kept[cpu] + 8 * i) for i in range(number)]

    def free_bulk(self, cpu: int, size: int | str, addresses: Sequence[int]) -> None:
        """Free objects of one cache together, at most 64."""
        for i, address in enumerate(addresses):
            self.machine.write(self.kept[cpu] + 8 * i, address)
        self.run(cpu, "kmem_cache_free_bulk", self.cache(size), len(addresses), self.kept[cpu])

    def tid_steps(self, cpu: int, size: int | str) -> int:
        """Steps that a CPU's transaction id has taken since boot."""
        tid = int(cpu_slabs(self.kernel, self.index(size))[cpu]["tid"])
        steps, rest = divmod(tid - cpu, kernel_tid_step(self.kernel))
        assert rest == 0
        return steps


@dataclass(frozen=True)
class SlabState:
    """All that both sides know of a slab."""

    node: int
    inuse: int
    frozen: bool
    cpu: int | None
    chain: tuple[int, int] | None  #: CPU and place on its chain
    listed: int | None  #: place on the node's list
    freelist: tuple[int, ...]
    cpu_freelist: tuple[int, ...]


@dataclass
class Pair:
    """A machine and the oracle, doing the same."""

    driver: LocklessDriver
    oracle: Lockless
    #: address, the oracle's object, size
    live: list[tuple[int, Place, int | str]] = field(default_factory=list)
    #: the oracle's slab -> page frame, from the slab's first allocation on
    frame_of: dict[int, int] = field(default_factory=dict)
    sizes: tuple[int | str, ...] = SIZES

    def note(self, address: int, place: Place, size: int | str) -> None:
        """Both sides have handed out an object: it must be the same slot of the same slab."""
        start = address - place.slot * self.oracle.cache_for(size).size
        assert start % (1 << PAGE_SHIFT) == 0
        assert self.frame_of.setdefault(place.slab, start >> PAGE_SHIFT) == start >> PAGE_SHIFT
        self.live.append((address, place, size))

    def alloc(self, cpu: int, size: int, node: int | None = None) -> None:
        self.note(self.driver.alloc(cpu, size, node), self.oracle.alloc(cpu, size, node), size)

    def free(self, cpu: int, pick: int) -> None:
        address, place, _ = self.live.pop(pick % len(self.live))
        self.driver.free(cpu, address)
        self.oracle.free(cpu, place)

    def flush(self, cpu: int, size: int | str) -> None:
        self.driver.flush(cpu, size)
        self.oracle.flush(cpu, size)

    def alloc_bulk(self, cpu: int, size: int | str, number: int) -> None:
        addresses = self.driver.alloc_bulk(cpu, size, number)
        for address, place in zip(addresses, self.oracle.alloc_bulk(cpu, size, number), strict=True):
            self.note(address, place, size)

    def free_bulk(self, cpu: int, size: int | str, picks: Sequence[int]) -> None:
        """Free some of a size's objects together, chosen by numbers."""
        of_size = [entry for entry in self.live if entry[2] == size]
        chosen = [of_size.pop(pick % len(of_size)) for pick in picks[: len(of_size)]]
        if not chosen:
            return
        for entry in chosen:
            self.live.remove(entry)
        self.driver.free_bulk(cpu, size, [address for address, _, _ in chosen])
        self.oracle.free_bulk(cpu, [place for _, place, _ in chosen])

    def machine_slabs(self, size: int | str) -> dict[int, SlabState]:
        """Page frame -> slab, in the machine."""
        driver, view = self.driver, self.driver.view(size)
        table, cpus = view.table, cpu_slabs(driver.kernel, driver.index(size))
        bytes_each = self.oracle.cache_for(size).size
        found = {}
        for i, frame in enumerate(table.page_frame.tolist()):
            node, cpu, chained = int(table.node[i]), int(table.cpu[i]), int(table.on_cpu_partial[i])
            listed = view.partial_pages[node].tolist()

            def slots(head: int, start: int = frame << PAGE_SHIFT) -> tuple[int, ...]:
                return tuple((address - start) // bytes_each for address in driver.chain(head))

            own = int(driver.memory.one(driver.page_address(frame), "page")["freelist"])
            found[frame] = SlabState(
                node=node,
                inuse=int(table.inuse[i]),
                frozen=bool(table.frozen[i]),
                cpu=None if cpu < 0 else cpu,
                chain=None if chained < 0 else (chained, view.chains[chained].tolist().index(frame)),
                listed=listed.index(frame) if frame in listed else None,
                freelist=slots(own),
                cpu_freelist=() if cpu < 0 else slots(int(cpus[cpu]["freelist"])),
            )
        return found

    def oracle_slabs(self, size: int | str) -> dict[int, SlabState]:
        """The same from the oracle."""
        cache = self.oracle.cache_for(size)
        found = {}
        for slab in cache.slabs.values():
            owner = next((n for n, c in enumerate(cache.cpus) if c.slab is slab), None)
            chain = next(
                ((n, c.chain.index(slab)) for n, c in enumerate(cache.cpus) if slab in c.chain), None
            )
            here = cache.lists[slab.node]
            found[self.frame_of[slab.number]] = SlabState(
                node=slab.node,
                inuse=slab.inuse,
                frozen=slab.frozen,
                cpu=owner,
                chain=chain,
                listed=here.index(slab) if slab in here else None,
                freelist=tuple(slab.freelist),
                cpu_freelist=() if owner is None else tuple(cache.cpus[owner].freelist),
            )
        return found

    def compare(self) -> None:
        """Every slab, list and chain in its order, what chains count, every counter, every transaction id."""
        assert check(self.driver.kernel, expected_allocated=len(self.live)) == []
        assert len({address for address, _, _ in self.live}) == len(self.live)
        assert self.driver.counters() == self.oracle.counters
        for size in self.sizes:
            assert self.machine_slabs(size) == self.oracle_slabs(size)
            cache = self.oracle.cache_for(size)
            for cpu, c in enumerate(cache.cpus):
                assert self.driver.tid_steps(cpu, size) == c.steps
                assert self._counted(size, cpu) == [
                    (len(c.chain) - i, s.promised) for i, s in enumerate(c.chain)
                ]

    def _counted(self, size: int | str, cpu: int) -> list[tuple[int, int]]:
        """(pages, pobjects) of each slab on a CPU's chain."""
        pages = self.driver.memory.global_structs("mem_map")
        links = [pages[frame]["chain"] for frame in self.driver.view(size).chains[cpu]]
        return [(int(link["pages"]), int(link["pobjects"])) for link in links]


def pair(kernel: str, shape: Shape, sizes: tuple[int | str, ...] = SIZES, **options: int) -> Pair:
    """A machine and an oracle of the same shape.

    Parameters
    ----------
    kernel : name of the kernel
    shape : of the oracle; the machine gets its CPUs, nodes and slab geometry from it
    options : of the kernel, to match the shape
    """
    geometry = {"slub_max_order": shape.max_order}
    if shape.min_objects is not None:
        geometry["slub_min_objects"] = shape.min_objects
    if shape.min_partial is not None:
        geometry["MIN_PARTIAL"] = shape.min_partial
    driver = LocklessDriver(kernel, shape.cpus, shape.nodes, **geometry, **options)
    for index in driver.kernel.family.cache_sizes(driver.machine.spec):
        cache = driver.memory.one(driver.kernel.cache_address(index), "kmem_cache")
        cache["remote_node_defrag_ratio"] = ALWAYS if shape.search_remote else NEVER
    return Pair(driver, Lockless(shape), sizes=sizes)


def run_to_end(driver: Driver) -> None:
    """Let all started CPUs finish."""
    assert driver.machine.run() == Status.HALTED


__all__ = [
    "PRIVATE",
    "SIZES",
    "SMALL_SLABS",
    "LocklessDriver",
    "Pair",
    "Place",
    "Shape",
    "SlabState",
    "pair",
    "run_to_end",
]
