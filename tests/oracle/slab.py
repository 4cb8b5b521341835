"""SLAB of 2.6.24 with Python lists: slow and obvious.

One `Slab24` is a kernel's kmalloc.  The first element of a list of slabs is its head; the last element of an
array of free objects is the newest.  Functions carry the kernel's names; each does what it does whole, before
anything else runs, except for what a test puts into the moment when pages are fetched.

Sizes, objects per slab and queue lengths are tables here, copied from nothing in the package.  Left out:
addresses, pages, time; memory does not run out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

#: Page size -> object size -> (objects per slab, bytes of management if it is off the slab, colours).
GEOMETRY: dict[int, dict[int, tuple[int, int, int]]] = {
    4096: {
        32: (112, 0, 0), 64: (59, 0, 0), 128: (30, 0, 1), 192: (20, 0, 2), 256: (15, 0, 2), 512: (8, 80, 0),
        1024: (4, 64, 0), 2048: (2, 56, 0), 4096: (1, 52, 0), 8192: (1, 52, 0), 16384: (1, 52, 0),
    },
    16384: {
        64: (240, 0, 0), 128: (123, 0, 0), 256: (62, 0, 1), 512: (31, 0, 2), 1024: (15, 0, 7),
        2048: (8, 80, 0), 4096: (4, 64, 0), 8192: (2, 56, 0), 16384: (1, 52, 0), 32768: (1, 52, 0),
    },
}  # fmt: skip
#: Page size -> object size -> (limit, batch, entries of the shared array on a machine of several CPUs).
QUEUES: dict[int, dict[int, tuple[int, int, int]]] = {
    4096: {
        32: (120, 60, 480), 64: (120, 60, 480), 128: (120, 60, 480), 192: (120, 60, 480),
        256: (120, 60, 480), 512: (54, 27, 216), 1024: (54, 27, 216), 2048: (24, 12, 96),
        4096: (24, 12, 96), 8192: (8, 4, 0), 16384: (8, 4, 0),
    },
    16384: {
        64: (120, 60, 480), 128: (120, 60, 480), 256: (120, 60, 480), 512: (54, 27, 216),
        1024: (54, 27, 216), 2048: (24, 12, 96), 4096: (24, 12, 96), 8192: (24, 12, 96),
        16384: (24, 12, 96), 32768: (8, 4, 0),
    },
}  # fmt: skip
ALIEN_LIMIT = 12
FIRST_BATCH = 16  #: of an array that was not refilled since the reaper looked at it
REAP_TICKS = 4 * 250


class Object(NamedTuple):
    """Where an object is: its slab's number, its index there, ascending with the address."""

    slab: int
    index: int


@dataclass(eq=False)
class SlabState:
    """struct slab."""

    number: int
    node: int
    colour: int
    chain: list[int]  #: free objects, the next one to be taken first
    objects: int
    management: Object | None = None

    @property
    def inuse(self) -> int:
        return self.objects - len(self.chain)


@dataclass(eq=False)
class Array:
    """array_cache."""

    limit: int
    entries: list[Object] = field(default_factory=list)
    touched: bool = False


@dataclass(eq=False)
class Node:
    """kmem_list3."""

    partial: list[SlabState] = field(default_factory=list)
    full: list[SlabState] = field(default_factory=list)
    free: list[SlabState] = field(default_factory=list)
    free_limit: int = 0
    colour_next: int = 0
    shared: Array | None = None
    alien: dict[int, Array] = field(default_factory=dict)
    free_touched: bool = False
    next_reap: int = 0

    @property
    def slabs(self) -> list[SlabState]:
        return [*self.partial, *self.full, *self.free]

    @property
    def free_objects(self) -> int:
        return sum(len(slab.chain) for slab in self.slabs)

    def unlink(self, slab: SlabState) -> None:
        for which in (self.partial, self.full, self.free):
            if slab in which:
                which.remove(slab)


@dataclass(eq=False)
class Cache:
    """kmem_cache."""

    size: int
    objects: int
    management_bytes: int  #: 0 if it is in the slab
    colours: int
    batch: int
    cpus: list[Array]
    nodes: list[Node]
    counters: Counter[str] = field(default_factory=Counter)


class Slab24:
    """kmalloc.

    Parameters
    ----------
    page_size : bytes, 4096 or 16384
    cpus, nodes : CPU ``c`` is on node ``c * nodes // cpus``
    alien_caches : whether objects of other nodes are collected
    """

    def __init__(
        self, page_size: int = 4096, cpus: int = 8, nodes: int = 1, *, alien_caches: bool = True
    ) -> None:
        self.cpus = cpus
        self.node_of_cpu = [cpu * nodes // cpus for cpu in range(cpus)]
        self.reap_node = [(node + 1) % nodes for node in self.node_of_cpu]
        self.caches: dict[int, Cache] = {}
        self.jiffies = 0
        for size, (objects, management, colours) in GEOMETRY[page_size].items():
            limit, batch, shared = QUEUES[page_size][size]
            cache = Cache(size, objects, management, colours, batch, [Array(limit) for _ in range(cpus)], [])
            for node in range(nodes):
                lists = Node(free_limit=(1 + self.node_of_cpu.count(node)) * batch + objects)
                lists.shared = Array(shared) if shared and cpus > 1 else None
                if alien_caches:
                    lists.alien = {other: Array(ALIEN_LIMIT) for other in range(nodes) if other != node}
                cache.nodes.append(lists)
            self.caches[size] = cache
        self.slabs: dict[int, tuple[SlabState, Cache]] = {}
        self.slabs_made = 0
        self.running = 0  #: CPU of the operation
        self.in_window: Callable[[], None] | None = None

    # --- what a user sees ------------------------------------------------------------------------

    @property
    def counters(self) -> Counter[str]:
        """What all caches counted together."""
        return sum((cache.counters for cache in self.caches.values()), Counter())

    def cache_for(self, size: int) -> Cache:
        """The smallest cache that is large enough."""
        return self.caches[min(known for known in self.caches if known >= size)]

    def alloc(
        self, cpu: int, size: int, node: int | None = None, in_window: Callable[[], None] | None = None
    ) -> Object:
        """Allocate.  ``in_window`` is called once, when pages are fetched first."""
        self.in_window = in_window
        self.running = cpu
        return self._alloc(self.cache_for(size), cpu, node)

    def free(self, cpu: int, thing: Object) -> None:
        """Free."""
        self.running = cpu
        self._free(thing)

    def reap(self, cpu: int) -> None:
        """One run of a CPU's cache_reap; larger caches were made later, and come first."""
        self.running = cpu
        node = self.node_of_cpu[cpu]
        for cache in sorted(self.caches.values(), key=lambda cache: -cache.size):
            lists = cache.nodes[node]
            alien = lists.alien.get(self.reap_node[cpu])
            if alien is not None and alien.entries:
                cache.counters["ALIEN_LOCK"] += 1
                self._drain_alien(cache, alien, self.reap_node[cpu])
            self._drain_array(cache, lists, cache.cpus[cpu], node)
            if lists.next_reap > self.jiffies:
                continue
            lists.next_reap = self.jiffies + REAP_TICKS
            if lists.shared is not None:
                self._drain_array(cache, lists, lists.shared, node)
            if lists.free_touched:
                lists.free_touched = False
                continue
            share = 5 * cache.objects
            for _ in range((lists.free_limit + share - 1) // share):  # rounded up
                if not lists.free:
                    break
                self._lock(cache)
                cache.counters["REAPED"] += 1
                self._destroy(cache, lists.free.pop())
        self.reap_node[cpu] = (self.reap_node[cpu] + 1) % len(self.caches[4096].nodes)

    # --- allocation --------------------------------------------------------------------------------

    def _alloc(self, cache: Cache, cpu: int, node: int | None) -> Object:
        here = self.node_of_cpu[cpu]
        if node is not None and node != here:
            cache.counters["ALLOC_SLOWPATH"] += 1
            return self._alloc_node(cache, cpu, node)
        array = cache.cpus[cpu]
        if array.entries:
            cache.counters["ALLOC_FASTPATH"] += 1
        else:
            cache.counters["ALLOC_SLOWPATH"] += 1
            self._refill(cache, cpu, here)
        array.touched = True
        return array.entries.pop()

    def _refill(self, cache: Cache, cpu: int, node: int) -> None:
        array, lists = cache.cpus[cpu], cache.nodes[node]
        while not array.entries:
            batch = cache.batch if array.touched else min(cache.batch, FIRST_BATCH)
            self._lock(cache)
            if lists.shared is not None and lists.shared.entries:
                self._transfer(lists.shared, array, batch)
                cache.counters["REFILL_SHARED"] += 1
                return
            while len(array.entries) < batch:
                slab = self._first_with_free(lists)
                if slab is None:
                    break
                while slab.chain and len(array.entries) < batch:
                    array.entries.append(Object(slab.number, slab.chain.pop(0)))
                self._list_after_alloc(lists, slab)
            if array.entries:
                cache.counters["REFILL_SLABS"] += 1
            else:
                cache.counters["REFILL_EMPTY"] += 1
                self._grow(cache, cpu, node)

    def _alloc_node(self, cache: Cache, cpu: int, node: int) -> Object:
        lists = cache.nodes[node]
        while True:
            self._lock(cache)
            slab = self._first_with_free(lists)
            if slab is not None:
                cache.counters["NODEALLOCS"] += 1
                thing = Object(slab.number, slab.chain.pop(0))
                self._list_after_alloc(lists, slab)
                return thing
            self._grow(cache, cpu, node)

    @staticmethod
    def _first_with_free(lists: Node) -> SlabState | None:
        if lists.partial:
            return lists.partial[0]
        lists.free_touched = True
        return lists.free[0] if lists.free else None

    @staticmethod
    def _list_after_alloc(lists: Node, slab: SlabState) -> None:
        lists.unlink(slab)
        (lists.partial if slab.chain else lists.full).insert(0, slab)

    def _grow(self, cache: Cache, cpu: int, node: int) -> None:
        lists = cache.nodes[node]
        self._lock(cache)
        colour = lists.colour_next
        lists.colour_next = colour + 1 if colour + 1 < cache.colours else 0
        window, self.in_window = self.in_window, None
        if window is not None:
            window()
        management = None
        if cache.management_bytes:
            serving = self.cache_for(cache.management_bytes)
            management = self._alloc(serving, cpu, node)
        number = self.slabs_made
        self.slabs_made += 1
        slab = SlabState(number, node, colour, list(range(cache.objects)), cache.objects, management)
        self.slabs[number] = (slab, cache)
        self._lock(cache)
        lists.free.append(slab)
        cache.counters["GROWN"] += 1

    # --- free ----------------------------------------------------------------------------------------

    def _free(self, thing: Object) -> None:
        slab, cache = self.slabs[thing.slab]
        here = self.node_of_cpu[self.running]
        if slab.node != here:
            self._free_remote(cache, here, thing, slab.node)
            return
        array = cache.cpus[self.running]
        if len(array.entries) < array.limit:
            cache.counters["FREE_FASTPATH"] += 1
        else:
            cache.counters["FREE_SLOWPATH"] += 1
            self._flush(cache, here, array)
        array.entries.append(thing)

    def _flush(self, cache: Cache, node: int, array: Array) -> None:
        lists = cache.nodes[node]
        self._lock(cache)
        shared = lists.shared
        room = shared.limit - len(shared.entries) if shared is not None else 0
        if shared is not None and room:
            moved = min(room, cache.batch)
            shared.entries += array.entries[:moved]
            cache.counters["FLUSH_SHARED"] += 1
        else:
            moved = cache.batch
            self._free_block(cache, lists, array.entries[:moved])
            cache.counters["FLUSH_SLABS"] += 1
        del array.entries[:moved]

    def _free_block(self, cache: Cache, lists: Node, things: list[Object]) -> None:
        for thing in things:
            slab, _ = self.slabs[thing.slab]
            lists.unlink(slab)
            # The slab is on no list now: what is free in it has to be counted apart.
            slab.chain.insert(0, thing.index)
            free = lists.free_objects + len(slab.chain)
            if slab.inuse:
                lists.partial.append(slab)
            elif free > lists.free_limit:
                self._destroy(cache, slab)
            else:
                lists.free.insert(0, slab)

    def _destroy(self, cache: Cache, slab: SlabState) -> None:
        cache.counters["DESTROYED"] += 1
        del self.slabs[slab.number]
        if slab.management is not None:
            self._free(slab.management)

    def _free_remote(self, cache: Cache, here: int, thing: Object, node: int) -> None:
        cache.counters["NODEFREES"] += 1
        cache.counters["FREE_SLOWPATH"] += 1
        alien = cache.nodes[here].alien.get(node)
        if alien is None:
            self._lock(cache)
            self._free_block(cache, cache.nodes[node], [thing])
            return
        cache.counters["ALIEN_LOCK"] += 1
        if len(alien.entries) == alien.limit:
            cache.counters["ACOVERFLOW"] += 1
            self._drain_alien(cache, alien, node)
        alien.entries.append(thing)

    def _drain_alien(self, cache: Cache, alien: Array, node: int) -> None:
        lists = cache.nodes[node]
        self._lock(cache)
        if lists.shared is not None:
            self._transfer(alien, lists.shared, alien.limit)
        self._free_block(cache, lists, alien.entries)
        alien.entries.clear()

    def _drain_array(self, cache: Cache, lists: Node, array: Array, node: int) -> None:
        if not array.entries:
            return
        if array.touched:
            array.touched = False
            return
        self._lock(cache)
        drained = (array.limit + 4) // 5
        if drained > len(array.entries):
            drained = (len(array.entries) + 1) // 2
        self._free_block(cache, lists, array.entries[:drained])
        del array.entries[:drained]

    @staticmethod
    def _transfer(source: Array, target: Array, most: int) -> None:
        """The newest objects, in their order."""
        moved = min(len(source.entries), most, target.limit - len(target.entries))
        if not moved:
            return
        target.entries += source.entries[-moved:]
        del source.entries[-moved:]
        target.touched = True

    @staticmethod
    def _lock(cache: Cache) -> None:
        cache.counters["LIST_LOCK"] += 1
