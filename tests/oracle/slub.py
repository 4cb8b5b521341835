"""SLUB of 2.6.24-rc1 and SLUB+ with Python lists: slow and obvious.

One `Slub` is a kernel's kmalloc: one cache a size class, on a page allocator of its own.  The first
element of a list is its head.  Functions carry the kernel's names; each does what the table of its
branch says, whole, before anything else runs.

The variants differ in two things that can be counted.  Deactivation (patch 01): SLUB puts a partly used
slab at the head of the partial list, SLUB+ at the tail unless the CPU still had local objects.
Locked instructions (patch 09): SLUB needs two for a pair of slab_lock and slab_unlock, SLUB+ one.
Patches 02 to 07 change no count.  Patch 08 changes only fast paths and interrupts, which are not counted.
Patch 10 drops a test of the slab's freelist; see `Slub.alloc`.

SLUB of 2.6.25 ("SLUB-2.6.25") differs in more; `Rules` has the list.  "SLUB-seq" is that with the sequence
number of March 2008.  The number itself cannot be counted, but its rule about bases can: the slow path gives
an empty list the base of its end, which no object has, so that no object is freed the fast way to it.  By
the letter of the mail ("SLUB-seq-letter") the last object of a list is not had the fast way either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from . import geometry
from .counters import Counters, counters_sum, zero_counters
from .pages import PageAllocator, default_pcp_batch


class Rules(NamedTuple):
    """What a variant does that can be counted."""

    #: an empty slab is kept on deactivation while its node has fewer partial slabs than this
    min_partial: int = 2
    #: patch 01: a slab without local objects goes to the list's tail when it is given up
    tail_without_local: bool = False
    #: a full slab that gets an object back goes to the tail
    free_to_tail: bool = False
    #: a pair of slab_lock and slab_unlock takes one locked instruction, not two
    plain_unlock: bool = False
    #: a slab that somebody installed meanwhile is flushed, whatever its node
    flush_installed: bool = False
    #: patch 10: such a slab is not looked at before its freelist is used
    trusts_installed: bool = False
    #: a list that the slow path made empty has another base than the slab
    sequence: bool = False
    #: the last object of a list takes the slow path
    last_slow: bool = False


PATCHED = Rules(tail_without_local=True, plain_unlock=True, trusts_installed=True)
AFTER_2_6_25 = Rules(
    min_partial=5, tail_without_local=True, free_to_tail=True, plain_unlock=True, flush_installed=True
)
RULES = {
    "SLUB": Rules(),
    "SLUB+": PATCHED,
    "SLUB-o": PATCHED,
    "SLUB-2.6.25": AFTER_2_6_25,
    "SLUB-seq": AFTER_2_6_25._replace(sequence=True),
    "SLUB-seq-letter": AFTER_2_6_25._replace(sequence=True, last_slow=True),
}


class SlabState(IntEnum):
    """How full a slab is, seen from its own counter; objects on a cpu freelist count as in use."""

    EMPTY = 0
    PARTIAL = 1
    FULL = 2


class Address(NamedTuple):
    """Where an object is.  Slab numbers count slabs and large objects as they were made; none comes twice."""

    slab: int
    slot: int  #: index in the slab, from 0, ascending with the address


@dataclass(eq=False)
class Slab:
    """One slab.  Objects are named by their index."""

    number: int
    cache: Cache
    node: int
    frame: int
    freelist: list[int]  #: the slab's own
    inuse: int = 0
    frozen: bool = False
    allocated: set[int] = field(default_factory=set)  #: model only: what the users hold


@dataclass(eq=False)
class CpuSlab:
    """kmem_cache_cpu."""

    slab: Slab | None = None
    freelist: list[int] = field(default_factory=list)
    node: int = 0
    based: bool = False  #: the list was last set to an object, not to an end


@dataclass(eq=False)
class Node:
    """kmem_cache_node.  nr_partial and nr_slabs are counted apart from the lists, as in the kernel."""

    partial: list[Slab] = field(default_factory=list)
    nr_partial: int = 0
    nr_slabs: int = 0


@dataclass(eq=False)
class Cache:
    """kmem_cache."""

    size_bytes: int
    order: int
    objects: int
    cpu_slabs: list[CpuSlab]
    nodes: list[Node]
    slabs: dict[int, Slab] = field(default_factory=dict)  #: model only: every live slab by number
    counters: Counters = field(default_factory=zero_counters)


class SlabView(NamedTuple):
    """One slab as `Slub.slabs` reports it."""

    number: int
    size_bytes: int  #: of an object
    node: int
    frame: int  #: page frame token of the first page
    objects: int
    inuse: int
    state: SlabState
    cpu: int | None  #: CPU whose cpu slab it is
    partial_position: int | None  #: place on the node's partial list, 0 is the head
    freelist: tuple[int, ...]  #: indices on the slab's own freelist, the head first
    cpu_freelist: tuple[int, ...]  #: indices on its CPU's freelist, the head first
    allocated: tuple[int, ...]  #: indices that users hold, ascending


class Slub:
    """kmalloc of one kernel.

    Parameters
    ----------
    page_size : int
        Bytes.
    variant : {"SLUB", "SLUB+", "SLUB-o", "SLUB-2.6.25", "SLUB-seq", "SLUB-seq-letter"}
    cpus, nodes : int
        CPU ``c`` is on node ``c * nodes // cpus``.
    max_order, min_objects, min_order : int, optional
        Boot options; defaults depend on variant and page size.
    pcp_batch, pcp_high : int, optional
        Of the per-cpu page lists; defaults are those of a large zone: 31 and 186 for 4K pages, 7 and 42
        for 16K pages.
    search_remote : callable, optional
        Asked, whenever the wanted node has no partial slab, whether to look at other nodes' lists
        (the kernel asks its cycle counter, about one time in ten says yes).  Default: never.

    Raises
    ------
    ValueError
        A parameter is unknown or out of range.
    """

    def __init__(
        self,
        page_size: int = 4096,
        variant: str = "SLUB",
        cpus: int = 8,
        nodes: int = 1,
        max_order: int | None = None,
        min_objects: int | None = None,
        min_order: int | None = None,
        pcp_batch: int | None = None,
        pcp_high: int | None = None,
        search_remote: Callable[[], bool] | None = None,
    ) -> None:
        if not 1 <= nodes <= cpus:
            raise ValueError(f"{cpus} cpus, {nodes} nodes: need 1 <= nodes <= cpus")
        self.page_size = page_size
        self.variant = variant
        self.cpus = cpus
        self.node_of_cpu = [cpu * nodes // cpus for cpu in range(cpus)]
        self.search_remote = search_remote
        limits = geometry.default_limits(page_size, variant, max_order, min_objects, min_order)
        self.rules = RULES[variant]
        self.caches: dict[int, Cache] = {}
        for size in geometry.kmalloc_sizes(page_size, variant):
            order = geometry.calculate_order(page_size, size, limits)
            self.caches[size] = Cache(
                size_bytes=size,
                order=order,
                objects=(page_size << order) // size,
                cpu_slabs=[CpuSlab() for _ in range(cpus)],
                nodes=[Node() for _ in range(nodes)],
            )
        self.page_counters = zero_counters()
        batch = default_pcp_batch(page_size) if pcp_batch is None else pcp_batch
        high = 6 * batch if pcp_high is None else pcp_high
        self.pages = PageAllocator(cpus, nodes, batch, high, self.page_counters)
        self.next_slab_number = 0
        #: object id -> slab and index, for every object of every live slab
        self.objects: dict[int, tuple[Slab, int]] = {}
        #: object id of the first object of each live slab
        self.first_object: dict[int, int] = {}
        self.next_object = 0
        #: object id -> slab number and page frame of every large object in use
        self.large: dict[int, tuple[int, int]] = {}

    # --- what a caller uses ------------------------------------------------------------------

    def alloc(
        self,
        cpu: int,
        size: int,
        node: int | None = None,
        in_window: Callable[[], object] | None = None,
    ) -> int:
        """Allocate `size` bytes on `cpu`; kmalloc, or kmalloc_node if `node` is given.

        Parameters
        ----------
        cpu, size : int
        node : int, optional
            Ask for memory of this node.  A large object ignores it.
        in_window : callable, optional
            Called once if a new slab is allocated, when its pages are there and interrupts are still
            on: what an interrupt or another task does on this CPU.  If it leaves a cpu slab of the right
            node there, the kernels of the time drop the new slab and take the other one's own
            freelist.  Objects on the cpu freelist are then lost if that freelist has any; if it
            has none, SLUB recovers, and SLUB+ (patch 10 dropped the test) goes on with the end marker
            as if it were an object.

        Returns
        -------
        int
            Object id.  Like a pointer it names the place: an object of a slab has the same id each time
            that it is handed out.  Ids of slabs and large objects that were given back do not come again.

        Raises
        ------
        ValueError
            No such CPU or node, or a size that cannot be had.
        RuntimeError
            SLUB+ took an end marker for an object.
        """
        self._check_cpu(cpu)
        if node is not None and not 0 <= node < len(self.pages.zones):
            raise ValueError(f"node {node}: there are nodes 0 to {len(self.pages.zones) - 1}")
        object_size = geometry.cache_size(self.page_size, size, self.variant)
        if object_size is None:
            return self._alloc_large(cpu, size)
        slab, index = self._slab_alloc(self.caches[object_size], cpu, node, in_window)
        slab.allocated.add(index)
        return self.first_object[slab.number] + index

    def free(self, cpu: int, obj: int) -> None:
        """Free an object on `cpu`; kfree.

        Raises
        ------
        ValueError
            No such CPU, or the object is not allocated.
        """
        self._check_cpu(cpu)
        if obj in self.large:
            _, frame = self.large.pop(obj)
            self.page_counters["large_free"] += 1
            self.pages.free(cpu, frame)
            return
        slab, index = self.objects.get(obj, (None, -1))
        if slab is None or index not in slab.allocated:
            raise ValueError(f"object {obj} is not allocated: freed twice, or never handed out")
        slab.allocated.remove(index)
        self._slab_free(slab, index, cpu)

    def flush(self, cpu: int, size: int) -> None:
        """Take the cpu slab away from `cpu` in the cache that serves `size` bytes; flush_slab."""
        self._check_cpu(cpu)
        cache = self._cache(size)
        if cache.cpu_slabs[cpu].slab is not None:
            self._flush_slab(cache, cpu)

    @property
    def counters(self) -> Counters:
        """Every counter, summed over all caches; a copy.  `COUNTER_MEANING` explains each."""
        return counters_sum([self.page_counters, *(cache.counters for cache in self.caches.values())])

    def cache_counters(self, size: int) -> Counters:
        """Counters of the cache that serves `size` bytes; a copy.  Those of the page allocator stay 0."""
        return dict(self._cache(size).counters)

    def address(self, obj: int) -> Address:
        """Place of an object, free or in use.

        Raises
        ------
        ValueError
            The object's slab, or the large object, was given back or never was.
        """
        if obj in self.large:
            return Address(self.large[obj][0], 0)
        if obj not in self.objects:
            raise ValueError(f"object {obj}: no such slab or large object is live")
        slab, index = self.objects[obj]
        return Address(slab.number, index)

    def nr_partial(self, size: int) -> list[int]:
        """Partial slabs of a cache, per node, as its counter says."""
        return [node.nr_partial for node in self._cache(size).nodes]

    def nr_slabs(self, size: int) -> list[int]:
        """Slabs of a cache, per node, as its counter says."""
        return [node.nr_slabs for node in self._cache(size).nodes]

    def slabs(self, size: int | None = None) -> list[SlabView]:
        """Every live slab, of one cache or of all, ascending by number."""
        caches = list(self.caches.values()) if size is None else [self._cache(size)]
        views = [_view(slab) for cache in caches for slab in cache.slabs.values()]
        return sorted(views, key=lambda view: view.number)

    def check(self) -> None:
        """Check every invariant; AssertionError says which one is broken."""
        from .invariants import check_slub

        check_slub(self)

    def _check_cpu(self, cpu: int) -> None:
        if not 0 <= cpu < self.cpus:
            raise ValueError(f"cpu {cpu}: there are cpus 0 to {self.cpus - 1}")

    def _cache(self, size: int) -> Cache:
        object_size = geometry.cache_size(self.page_size, size, self.variant)
        if object_size is None:
            largest = geometry.largest_cache(self.page_size, self.variant)
            raise ValueError(f"size {size}: no cache serves more than {largest} bytes")
        return self.caches[object_size]

    # --- allocation --------------------------------------------------------------------------

    def _alloc_large(self, cpu: int, size: int) -> int:
        self.page_counters["large_alloc"] += 1
        order = geometry.page_order(self.page_size, size)
        frame = self.pages.alloc(cpu, self.node_of_cpu[cpu], order)
        obj = self.next_object
        self.next_object += 1
        self.large[obj] = (self.next_slab_number, frame)
        self.next_slab_number += 1
        return obj

    def _slab_alloc(
        self, cache: Cache, cpu: int, node: int | None, in_window: Callable[[], object] | None
    ) -> tuple[Slab, int]:
        c = cache.cpu_slabs[cpu]
        least = 2 if self.rules.last_slow else 1
        if c.slab is not None and len(c.freelist) >= least and _node_match(c, node):
            cache.counters["ALLOC_FASTPATH"] += 1
            return c.slab, c.freelist.pop(0)
        return self._slow_alloc(cache, cpu, node, in_window)

    def _slow_alloc(
        self, cache: Cache, cpu: int, node: int | None, in_window: Callable[[], object] | None
    ) -> tuple[Slab, int]:
        """__slab_alloc."""
        c = cache.cpu_slabs[cpu]
        slab = c.slab
        if slab is not None:
            self._slab_lock(cache)
            if _node_match(c, node):
                cache.counters["alloc_refill_tried"] += 1
                # Only a list with objects is left for the sequence number's sake; they are given back first.
                if slab.freelist and not c.freelist:
                    cache.counters["ALLOC_REFILL"] += 1
                    return self._load_freelist(cache, c, slab)
            self._deactivate_slab(cache, cpu)
        wanted = self.node_of_cpu[cpu] if node is None else node
        while True:
            slab = self._get_partial(cache, cpu, wanted)
            if slab is not None:
                cache.counters["ALLOC_FROM_PARTIAL"] += 1
                break
            slab = self._grow(cache, cpu, node, wanted, in_window)
            in_window = None  # one call an allocation
            if slab.freelist:
                break
            # Only after in_window: the other task's cpu slab has nothing on its own freelist.
            if self.rules.trusts_installed:
                raise RuntimeError(f"slab {slab.number}: its end marker was taken for an object (patch 10)")
            cache.counters["alloc_retried"] += 1
            self._deactivate_slab(cache, cpu)
        return self._load_freelist(cache, c, slab)

    def _load_freelist(self, cache: Cache, c: CpuSlab, slab: Slab) -> tuple[Slab, int]:
        """Hand the locked slab's freelist to the CPU, the first object to the caller."""
        cache.counters["ALLOC_SLOWPATH"] += 1
        index = slab.freelist[0]
        c.slab = slab
        c.freelist = slab.freelist[1:]
        c.based = bool(c.freelist)
        c.node = slab.node
        slab.freelist = []
        slab.inuse = cache.objects
        return slab, index

    def _get_partial(self, cache: Cache, cpu: int, wanted: int) -> Slab | None:
        """A partial slab, locked and off its list; the wanted node's, else perhaps another's."""
        slab = self._get_partial_node(cache, wanted)
        if slab is None and self.search_remote is not None and self.search_remote():
            here = self.node_of_cpu[cpu]
            for step in range(len(cache.nodes)):
                number = (here + step) % len(cache.nodes)
                # Others keep their last few.
                if cache.nodes[number].nr_partial > self.rules.min_partial:
                    return self._get_partial_node(cache, number)
        return slab

    def _get_partial_node(self, cache: Cache, number: int) -> Slab | None:
        node = cache.nodes[number]
        if node.nr_partial == 0:  # looked at without the lock
            return None
        self._list_lock(cache)
        slab = node.partial[0]
        self._slab_lock(cache)  # a trylock in the kernel; nobody else holds it here
        node.partial.pop(0)
        node.nr_partial -= 1
        slab.frozen = True
        return slab

    def _grow(
        self,
        cache: Cache,
        cpu: int,
        node: int | None,
        wanted: int,
        in_window: Callable[[], object] | None,
    ) -> Slab:
        """A new slab, or the one that in_window left as cpu slab; locked and frozen."""
        new = self._new_slab(cache, cpu, wanted)
        cache.counters["ALLOC_SLAB"] += 1
        if in_window is not None:
            in_window()
        c = cache.cpu_slabs[cpu]
        if c.slab is not None:
            if _node_match(c, node) and not self.rules.flush_installed:
                cache.counters["new_slab_dropped"] += 1
                self._discard_slab(cache, new, cpu)
                self._slab_lock(cache)
                return c.slab
            self._flush_slab(cache, cpu)
        self._slab_lock(cache)
        new.frozen = True
        return new

    def _new_slab(self, cache: Cache, cpu: int, node: int) -> Slab:
        frame = self.pages.alloc(cpu, node, cache.order)
        cache.nodes[node].nr_slabs += 1
        cache.counters["locked_ops"] += 1
        slab = Slab(self.next_slab_number, cache, node, frame, freelist=list(range(cache.objects)))
        self.next_slab_number += 1
        cache.slabs[slab.number] = slab
        self.first_object[slab.number] = self.next_object
        for index in range(cache.objects):
            self.objects[self.next_object] = (slab, index)
            self.next_object += 1
        return slab

    # --- deactivation ------------------------------------------------------------------------

    def _flush_slab(self, cache: Cache, cpu: int) -> None:
        cache.counters["CPUSLAB_FLUSH"] += 1
        self._slab_lock(cache)
        self._deactivate_slab(cache, cpu)

    def _deactivate_slab(self, cache: Cache, cpu: int) -> None:
        """Give the locked cpu slab up; unlocks it."""
        c = cache.cpu_slabs[cpu]
        slab = c.slab
        assert slab is not None
        if slab.freelist:
            cache.counters["DEACTIVATE_REMOTE_FREES"] += 1
        had_local_objects = bool(c.freelist)
        while c.freelist:
            slab.freelist.insert(0, c.freelist.pop(0))
            slab.inuse -= 1
        c.slab = None
        self._unfreeze_slab(
            cache, slab, tail=self.rules.tail_without_local and not had_local_objects, cpu=cpu
        )

    def _unfreeze_slab(self, cache: Cache, slab: Slab, tail: bool, cpu: int) -> None:
        slab.frozen = False
        if slab.inuse > 0 and slab.freelist:
            self._add_partial(cache, slab, tail)
            cache.counters["DEACTIVATE_TO_TAIL" if tail else "DEACTIVATE_TO_HEAD"] += 1
        elif slab.inuse > 0:
            cache.counters["DEACTIVATE_FULL"] += 1
        else:
            cache.counters["DEACTIVATE_EMPTY"] += 1
            if cache.nodes[slab.node].nr_partial < self.rules.min_partial:
                self._add_partial(cache, slab, tail=True)
                cache.counters["deactivate_empty_kept"] += 1
            else:
                cache.counters["FREE_SLAB"] += 1
                self._discard_slab(cache, slab, cpu)

    # --- free --------------------------------------------------------------------------------

    def _slab_free(self, slab: Slab, index: int, cpu: int) -> None:
        c = slab.cache.cpu_slabs[cpu]
        if c.slab is slab and (c.based or not self.rules.sequence):
            slab.cache.counters["FREE_FASTPATH"] += 1
            c.freelist.insert(0, index)
        else:
            self._slow_free(slab.cache, slab, index, cpu)

    def _slow_free(self, cache: Cache, slab: Slab, index: int, cpu: int) -> None:
        """__slab_free."""
        cache.counters["FREE_SLOWPATH"] += 1
        self._slab_lock(cache)
        was_full = not slab.freelist
        slab.freelist.insert(0, index)
        slab.inuse -= 1
        if slab.frozen:
            cache.counters["FREE_FROZEN"] += 1
        elif slab.inuse == 0:
            if not was_full:
                self._remove_partial(cache, slab)
                cache.counters["FREE_REMOVE_PARTIAL"] += 1
            cache.counters["FREE_SLAB"] += 1
            self._discard_slab(cache, slab, cpu)
        elif was_full:
            self._add_partial(cache, slab, tail=self.rules.free_to_tail)
            cache.counters["FREE_ADD_PARTIAL"] += 1

    def _discard_slab(self, cache: Cache, slab: Slab, cpu: int) -> None:
        cache.nodes[slab.node].nr_slabs -= 1
        cache.counters["locked_ops"] += 1
        first = self.first_object.pop(slab.number)
        for obj in range(first, first + cache.objects):
            del self.objects[obj]
        del cache.slabs[slab.number]
        self.pages.free(cpu, slab.frame)

    # --- lists and locks -----------------------------------------------------------------------

    def _add_partial(self, cache: Cache, slab: Slab, tail: bool) -> None:
        self._list_lock(cache)
        node = cache.nodes[slab.node]
        node.nr_partial += 1
        node.partial.insert(len(node.partial) if tail else 0, slab)

    def _remove_partial(self, cache: Cache, slab: Slab) -> None:
        self._list_lock(cache)
        node = cache.nodes[slab.node]
        node.nr_partial -= 1
        node.partial.remove(slab)

    def _list_lock(self, cache: Cache) -> None:
        cache.counters["list_lock"] += 1
        cache.counters["locked_ops"] += 1

    def _slab_lock(self, cache: Cache) -> None:
        """Count a pair of lock and unlock."""
        cache.counters["slab_lock"] += 1
        cache.counters["locked_ops"] += 1 if self.rules.plain_unlock else 2


def _node_match(c: CpuSlab, node: int | None) -> bool:
    return node is None or c.node == node


def _view(slab: Slab) -> SlabView:
    cpu = next((n for n, c in enumerate(slab.cache.cpu_slabs) if c.slab is slab), None)
    partial = slab.cache.nodes[slab.node].partial
    state = SlabState.PARTIAL
    if slab.inuse == 0:
        state = SlabState.EMPTY
    elif slab.inuse == slab.cache.objects:
        state = SlabState.FULL
    return SlabView(
        number=slab.number,
        size_bytes=slab.cache.size_bytes,
        node=slab.node,
        frame=slab.frame,
        objects=slab.cache.objects,
        inuse=slab.inuse,
        state=state,
        cpu=cpu,
        partial_position=next((n for n, other in enumerate(partial) if other is slab), None),
        freelist=tuple(slab.freelist),
        cpu_freelist=() if cpu is None else tuple(slab.cache.cpu_slabs[cpu].freelist),
        allocated=tuple(sorted(slab.allocated)),
    )
