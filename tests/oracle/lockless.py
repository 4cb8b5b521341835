"""Lockless SLUB (3.1 to 4.3) with Python lists: slow and obvious, one whole operation at a time.

Written from the description of the algorithm, sharing no code with the simulator.  Exchanges never fail
here, for nothing comes between: what is modelled is where every slab and object ends up, which counters
move, how often a node's list is locked, and how many steps each CPU's transaction id takes.

The first element of a list is its head.  A chain is a CPU's own list of partial slabs, the next to be
taken first.  ``Shape`` says which kernel it is.  Left out: failing exchanges, memory running out, and what
`tests.oracle.slub` leaves out; the window in which pages are allocated with interrupts on can be used
(``in_window``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .counters import zero_counters
from .pages import PageAllocator, default_pcp_batch

COUNTERS = (
    "ALLOC_FASTPATH",
    "ALLOC_SLOWPATH",
    "FREE_FASTPATH",
    "FREE_SLOWPATH",
    "FREE_FROZEN",
    "FREE_ADD_PARTIAL",
    "FREE_REMOVE_PARTIAL",
    "ALLOC_FROM_PARTIAL",
    "ALLOC_SLAB",
    "ALLOC_REFILL",
    "ALLOC_NODE_MISMATCH",
    "FREE_SLAB",
    "CPUSLAB_FLUSH",
    "DEACTIVATE_FULL",
    "DEACTIVATE_EMPTY",
    "DEACTIVATE_TO_HEAD",
    "DEACTIVATE_TO_TAIL",
    "DEACTIVATE_REMOTE_FREES",
    "DEACTIVATE_BYPASS",
    "ORDER_FALLBACK",
    "CMPXCHG_DOUBLE_CPU_FAIL",
    "CMPXCHG_DOUBLE_FAIL",
    "CPU_PARTIAL_ALLOC",
    "CPU_PARTIAL_FREE",
    "CPU_PARTIAL_NODE",
    "CPU_PARTIAL_DRAIN",
    "LIST_LOCK",
)
PRIVATE = "private"


class Place(NamedTuple):
    """An object: its slab's number and its index in it, ascending with the address."""

    slab: int
    slot: int


@dataclass(frozen=True)
class Shape:
    """Which kernel, on which machine."""

    cpus: int = 3
    nodes: int = 1
    page_size: int = 4096
    min_objects: int | None = None  #: of a slab; None: by the number of CPUs
    max_order: int = 3
    min_partial: int | None = None  #: empty slabs kept on a node; None: by object size
    chains: bool = True  #: per-CPU chains of partial slabs (3.2 and later)
    locks_first: bool = True  #: unfreeze_partials of 3.6; else the one before
    late: bool = False  #: 4.3
    bulk: int = 0
    bulk_alloc_tid: bool = False
    search_remote: bool = False  #: look at the other nodes' lists whenever the own has nothing

    def node_of(self, cpu: int) -> int:
        return cpu * self.nodes // self.cpus

    @property
    def wanted_objects(self) -> int:
        if self.min_objects is not None:
            return self.min_objects
        bits = 0
        while self.cpus >> bits:
            bits += 1
        return 4 * (bits + 1)


def slab_shape(shape: Shape, size: int) -> tuple[int, int]:
    """(order, objects) of a slab."""
    most = (shape.page_size << shape.max_order) // size
    for wanted in range(min(shape.wanted_objects, most), 1, -1):
        for share in (16, 8, 4):
            for order in range(shape.max_order + 1):
                room = shape.page_size << order
                if room >= wanted * size and room % size <= room // share:
                    return order, room // size
    for order in range(11):
        if shape.page_size << order >= size:
            return order, (shape.page_size << order) // size
    raise ValueError(f"no slab for {size} bytes")


def kept_slabs(size: int) -> int:
    """min_partial."""
    halved = 0
    while size >= 4:
        size //= 4
        halved += 1
    return 5 if halved < 5 else min(halved, 10)


def kept_on_chain(shape: Shape, size: int) -> int:
    """cpu_partial, in objects."""
    if size >= shape.page_size:
        return 2
    return 6 if size >= 1024 else 13 if size >= 256 else 30


@dataclass(eq=False)
class Slab:
    """Objects are named by their index."""

    number: int
    node: int
    frame: int
    objects: int
    freelist: list[int]
    inuse: int
    frozen: bool = True
    promised: int = 0  #: what the chain counted for this slab and those behind it when it came


@dataclass(eq=False)
class Cpu:
    slab: Slab | None = None
    freelist: list[int] = field(default_factory=list)
    chain: list[Slab] = field(default_factory=list)
    steps: int = 0  #: of the transaction id


@dataclass(eq=False)
class Cache:
    size: int
    order: int
    objects: int
    min_partial: int
    cpu_partial: int
    cpus: list[Cpu]
    lists: list[list[Slab]]
    slabs: dict[int, Slab] = field(default_factory=dict)


class Lockless:
    """kmalloc and the bulk functions of one kernel."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.page_counters = zero_counters()
        batch = default_pcp_batch(shape.page_size)
        self.pages = PageAllocator(shape.cpus, shape.nodes, batch, 6 * batch, self.page_counters)
        self.caches: dict[int | str, Cache] = {}
        for key in (PRIVATE, 96, 192, *(1 << bit for bit in range(3, (2 * shape.page_size).bit_length()))):
            size = 256 if isinstance(key, str) else key
            order, objects = slab_shape(shape, size)
            self.caches[key] = Cache(
                size,
                order,
                objects,
                kept_slabs(size) if shape.min_partial is None else shape.min_partial,
                kept_on_chain(shape, size),
                [Cpu() for _ in range(shape.cpus)],
                [[] for _ in range(shape.nodes)],
            )
        self.made = 0
        self.held: dict[Place, Cache] = {}

    def cache_for(self, size: int | str) -> Cache:
        """The cache of a size class, or the private one."""
        if isinstance(size, str):
            return self.caches[size]
        return self.caches[min(key for key in self.caches if not isinstance(key, str) and key >= size)]

    # --- what a caller uses -----------------------------------------------------------------------

    def alloc(
        self,
        cpu: int,
        size: int | str,
        node: int | None = None,
        in_window: Callable[[], object] | None = None,
    ) -> Place:
        """kmalloc, or kmalloc_node if a node is given."""
        cache = self.cache_for(size)
        c = cache.cpus[cpu]
        if c.slab is not None and c.freelist and node in (None, c.slab.node):
            self._count("ALLOC_FASTPATH")
            c.steps += 1
            return self._hand_out(cache, c.slab, c.freelist.pop(0))
        place = self._slow_alloc(cache, cpu, node, in_window)
        if self.shape.late:
            self._count("ALLOC_SLOWPATH")
        return place

    def free(self, cpu: int, place: Place) -> None:
        """kfree."""
        self._free_together(self.held[place], cpu, [place])

    def alloc_bulk(self, cpu: int, size: int | str, number: int) -> list[Place]:
        """kmem_cache_alloc_bulk."""
        if self.shape.bulk == 0:
            return [self.alloc(cpu, size) for _ in range(number)]
        cache = self.cache_for(size)
        c = cache.cpus[cpu]
        places = []
        for _ in range(number):
            if c.freelist:
                assert c.slab is not None
                places.append(self._hand_out(cache, c.slab, c.freelist.pop(0)))
            else:
                c.steps += self.shape.bulk_alloc_tid
                places.append(self._slow_alloc(cache, cpu, None, None))
        c.steps += 1
        return places

    def free_bulk(self, cpu: int, places: Sequence[Place]) -> None:
        """kmem_cache_free_bulk, of at least one object; all are of one cache."""
        if self.shape.bulk == 0:
            for place in places:
                self.free(cpu, place)
        elif self.shape.bulk == 1:
            self._free_with_interrupts_off(cpu, places)
        else:
            for group in together(places):
                self._free_together(self.held[group[0]], cpu, group)

    def flush(self, cpu: int, size: int | str) -> None:
        """flush_cpu_slab."""
        cache = self.cache_for(size)
        if cache.cpus[cpu].slab is not None:
            self._flush(cache, cpu)
        self._empty_chain(cache, cpu)

    # --- allocation ----------------------------------------------------------------------------------

    def _hand_out(self, cache: Cache, slab: Slab, slot: int) -> Place:
        place = Place(slab.number, slot)
        assert place not in self.held
        self.held[place] = cache
        return place

    def _slow_alloc(
        self, cache: Cache, cpu: int, node: int | None, in_window: Callable[[], object] | None
    ) -> Place:
        c = cache.cpus[cpu]
        slots: list[int] = []
        while not slots:
            slots = self._from_cpu_slab(cache, cpu, node)
            if slots:
                break
            if c.chain:
                c.slab = c.chain.pop(0)
                self._count("CPU_PARTIAL_ALLOC")
                continue
            slots = self._from_lists(cache, cpu, node) or self._grow(cache, cpu, node, in_window)
        assert c.slab is not None
        c.freelist = slots[1:]
        c.steps += 1
        return self._hand_out(cache, c.slab, slots[0])

    def _from_cpu_slab(self, cache: Cache, cpu: int, node: int | None) -> list[int]:
        """What was freed to the cpu slab from elsewhere; gives up a slab that has nothing or is of another
        node."""
        c = cache.cpus[cpu]
        slab = c.slab
        if slab is None:
            return []
        if node not in (None, slab.node):
            self._count("ALLOC_NODE_MISMATCH")
            self._give_up(cache, cpu, slab, c.freelist)
            c.slab, c.freelist = None, []
            return []
        assert not c.freelist, "the fast path would have taken it"
        if not self.shape.late:
            self._count("ALLOC_SLOWPATH")
        slots, slab.freelist = slab.freelist, []
        slab.inuse = slab.objects
        if slots:
            self._count("ALLOC_REFILL")
        else:
            self._count("DEACTIVATE_BYPASS")
            slab.frozen = False
            c.slab = None
        return slots

    def _from_lists(self, cache: Cache, cpu: int, node: int | None) -> list[int]:
        wanted = self.shape.node_of(cpu) if node is None else node
        slots = self._from_list(cache, cpu, wanted)
        if slots or node is not None or not self.shape.search_remote:
            return slots
        for step in range(self.shape.nodes):
            number = (self.shape.node_of(cpu) + step) % self.shape.nodes
            if len(cache.lists[number]) > cache.min_partial:
                return self._from_list(cache, cpu, number)
        return []

    def _from_list(self, cache: Cache, cpu: int, number: int) -> list[int]:
        """The first listed slab becomes the cpu slab; more go to the chain."""
        c = cache.cpus[cpu]
        if not cache.lists[number]:
            return []
        self._count("LIST_LOCK")
        slots: list[int] = []
        available = 0
        while cache.lists[number]:
            slab = cache.lists[number].pop(0)
            slab.frozen = True
            if self.shape.late:
                available += len(slab.freelist)
            if not slots:
                self._count("ALLOC_FROM_PARTIAL")
                slots, slab.freelist, slab.inuse = slab.freelist, [], slab.objects
                c.slab = slab
            else:
                self._count("CPU_PARTIAL_NODE")
                self._put_on_chain(cache, cpu, slab)
                if not self.shape.late:
                    available = slab.promised
            if not self.shape.chains or available > cache.cpu_partial // 2:
                break
        return slots

    def _grow(
        self, cache: Cache, cpu: int, node: int | None, in_window: Callable[[], object] | None
    ) -> list[int]:
        wanted = self.shape.node_of(cpu) if node is None else node
        frame = self.pages.alloc(cpu, wanted, cache.order)
        if in_window is not None:
            in_window()
        slab = Slab(self.made, wanted, frame, cache.objects, [], cache.objects)
        self.made += 1
        cache.slabs[slab.number] = slab
        c = cache.cpus[cpu]
        if c.slab is not None:
            self._flush(cache, cpu)
        self._count("ALLOC_SLAB")
        c.slab = slab
        return list(range(cache.objects))

    # --- giving up -----------------------------------------------------------------------------------

    def _flush(self, cache: Cache, cpu: int) -> None:
        c = cache.cpus[cpu]
        assert c.slab is not None
        self._count("CPUSLAB_FLUSH")
        self._give_up(cache, cpu, c.slab, c.freelist)
        c.slab, c.freelist = None, []
        c.steps += 1

    def _give_up(self, cache: Cache, cpu: int, slab: Slab, slots: list[int]) -> None:
        """deactivate_slab."""
        had_remote_frees = bool(slab.freelist)
        if had_remote_frees:
            self._count("DEACTIVATE_REMOTE_FREES")
        slab.freelist = [*reversed(slots), *slab.freelist]
        slab.inuse -= len(slots)
        slab.frozen = False
        if slab.inuse == 0 and self._enough(cache, slab.node):
            self._count("DEACTIVATE_EMPTY")
            self._discard(cache, cpu, slab)
        elif not slab.freelist:
            self._count("DEACTIVATE_FULL")
        else:
            self._count("LIST_LOCK")
            self._count("DEACTIVATE_TO_TAIL" if had_remote_frees else "DEACTIVATE_TO_HEAD")
            here = cache.lists[slab.node]
            here.insert(len(here) if had_remote_frees else 0, slab)

    def _enough(self, cache: Cache, node: int) -> bool:
        listed = len(cache.lists[node])
        return listed >= cache.min_partial if self.shape.late else listed > cache.min_partial

    def _discard(self, cache: Cache, cpu: int, slab: Slab) -> None:
        self._count("FREE_SLAB")
        del cache.slabs[slab.number]
        self.pages.free(cpu, slab.frame)

    # --- chains --------------------------------------------------------------------------------------

    def _put_on_chain(self, cache: Cache, cpu: int, slab: Slab) -> None:
        chain = cache.cpus[cpu].chain
        slab.promised = len(slab.freelist) + (chain[0].promised if chain else 0)
        chain.insert(0, slab)

    def _empty_chain(self, cache: Cache, cpu: int) -> None:
        """unfreeze_partials, in either form."""
        chain = cache.cpus[cpu].chain
        locked: int | None = None
        empty: list[Slab] = []
        while chain:
            slab = chain.pop(0)
            if self.shape.locks_first:
                locked = self._lock(locked, slab.node)
                given_back = slab.inuse == 0 and self._enough(cache, slab.node)
            else:
                # The node asked is the one that happens to be locked.
                given_back = slab.inuse == 0 and (locked is None or self._enough(cache, locked))
                if not given_back:
                    locked = self._lock(locked, slab.node)
            slab.frozen = False
            if given_back:
                empty.insert(0, slab)
            else:
                cache.lists[slab.node].append(slab)
                self._count("FREE_ADD_PARTIAL")
        for slab in empty:
            self._count("DEACTIVATE_EMPTY")
            self._discard(cache, cpu, slab)

    def _lock(self, locked: int | None, wanted: int) -> int:
        if locked != wanted:
            self._count("LIST_LOCK")
        return wanted

    # --- free ----------------------------------------------------------------------------------------

    def _free_together(self, cache: Cache, cpu: int, places: Sequence[Place]) -> None:
        """Objects of one slab, chained in this order, freed as one."""
        for place in places:
            del self.held[place]
        slab = cache.slabs[places[0].slab]
        c = cache.cpus[cpu]
        slots = [place.slot for place in places]
        if c.slab is slab:
            self._count("FREE_FASTPATH")
            c.freelist = slots + c.freelist
            c.steps += 1
        else:
            self._slow_free(cache, cpu, slab, slots)

    def _slow_free(self, cache: Cache, cpu: int, slab: Slab, slots: list[int]) -> None:
        self._count("FREE_SLOWPATH")
        was_full = not slab.freelist
        slab.freelist = slots + slab.freelist
        slab.inuse -= len(slots)
        if slab.frozen:
            self._count("FREE_FROZEN")
        elif was_full and self.shape.chains:
            slab.frozen = True
            chain = cache.cpus[cpu].chain
            if chain and chain[0].promised > cache.cpu_partial:
                self._empty_chain(cache, cpu)
                self._count("CPU_PARTIAL_DRAIN")
            self._put_on_chain(cache, cpu, slab)
            self._count("CPU_PARTIAL_FREE")
        elif was_full or slab.inuse == 0:
            self._count("LIST_LOCK")
            if slab.inuse == 0 and self._enough(cache, slab.node):
                if not was_full:
                    cache.lists[slab.node].remove(slab)
                    self._count("FREE_REMOVE_PARTIAL")
                self._discard(cache, cpu, slab)
            elif was_full:
                cache.lists[slab.node].append(slab)
                self._count("FREE_ADD_PARTIAL")

    def _free_with_interrupts_off(self, cpu: int, places: Sequence[Place]) -> None:
        """The bulk free of 4.3."""
        for place in places:
            cache = self.held.pop(place)
            slab, c = cache.slabs[place.slab], cache.cpus[cpu]
            if c.slab is slab:
                c.freelist.insert(0, place.slot)
            else:
                c.steps += 1
                self._slow_free(cache, cpu, slab, [place.slot])
        cache.cpus[cpu].steps += 1

    def _count(self, name: str) -> None:
        self.counters[name] += 1


def together(places: Sequence[Place]) -> list[list[Place]]:
    """How the bulk free of 4.4 groups an array: from its end, objects of one slab up to the third object of
    another; then again from the first that was left."""
    left = list(places)
    groups = []
    while left:
        slab = left[-1].slab
        others = [i for i, place in enumerate(left) if place.slab != slab]
        stop = others[-3] if len(others) >= 3 else -1
        taken = [i for i in range(stop + 1, len(left)) if left[i].slab == slab]
        groups.append([left[i] for i in taken])
        last_other = others[-1] if others else -1
        left = [place for i, place in enumerate(left[: last_other + 1]) if i not in taken]
    return groups
