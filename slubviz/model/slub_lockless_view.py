"""Reads the structures of lockless SLUB out of a machine: every slab of a cache, and where each of its
objects is.

A slab is a CPU's slab, or on a CPU's chain of partial slabs, or on its node's list, or on nothing (full).
The first two are frozen.  Free objects of a slab on a chain are on the slab's own freelist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.model.booted import BootedKernel
from slubviz.model.memory_scan import walk_freelists
from slubviz.model.page_lists import list_frames, page_flag
from slubviz.model.slub_view import cpu_slabs
from slubviz.model.snapshot import ObjectState, SlabState, SlabTable

IntArray = NDArray[np.int64]
_INUSE, _OBJECTS_SHIFT, _OBJECTS, _FROZEN_SHIFT = 0xFFFF, 16, 0x7FFF, 31


@dataclass(frozen=True)
class CacheView:
    """Slabs of one cache with what a check needs beyond the table; arrays of length S."""

    table: SlabTable
    own_free: IntArray  #: length of the slab's own freelist; negative: see memory_scan.walk_freelist
    cpu_free: IntArray  #: length of the owning CPU's freelist, 0 without owner; negative likewise
    orders: IntArray  #: order of the slab's block of pages
    partial_pages: dict[int, IntArray]  #: node -> page frames on its partial list, in order
    chains: dict[int, IntArray]  #: CPU -> page frames on its chain, the first to be taken first
    nr_partial: IntArray
    nr_slabs: IntArray
    total_objects: IntArray  #: per node


@dataclass(frozen=True)
class _Slabs:
    """The page structures of a cache's slabs; arrays of length S."""

    frames: IntArray
    flags: IntArray
    heads: IntArray  #: first object of the slab's own freelist
    inuse: IntArray
    objects: IntArray
    frozen: NDArray[np.bool_]
    first: IntArray  #: S + 1 offsets of their objects
    bases: IntArray  #: address of the first object


def node_addresses(kernel: BootedKernel, index: int) -> list[int]:
    """Addresses of a cache's kmem_cache_node structures, one per node."""
    size = kernel.program.struct("kmem_cache_node").size_bytes
    nodes = range(kernel.machine.spec.nodes)
    return [kernel.memory.global_address("cache_nodes", node) + index * size for node in nodes]


def frame_of(kernel: BootedKernel, page: int) -> int | None:
    """Page frame of the page structure at an address; None if it is no page structure."""
    pages = kernel.program.globals["mem_map"]
    frame, rest = divmod(page - pages.address, pages.stride_bytes)
    return frame if rest == 0 and 0 <= frame < pages.count else None


def chain_frames(kernel: BootedKernel, first: int) -> IntArray:
    """Page frames of a CPU's chain of partial slabs.

    Parameters
    ----------
    first : address of the first page structure, NULL for an empty chain

    Raises
    ------
    ValueError
        If the chain leads to no page, or never ends.
    """
    pages = kernel.memory.global_structs("mem_map")
    frames: list[int] = []
    page = first
    while page:
        frame = frame_of(kernel, page)
        if frame is None:
            raise ValueError("it leads to something that is no page")
        if len(frames) > len(pages):
            raise ValueError("it never ends")
        frames.append(frame)
        page = int(pages[frame]["chain"]["next"])
    return np.array(frames, dtype=np.int64)


def read_cache(kernel: BootedKernel, index: int, *, strict: bool = True) -> CacheView:
    """Everything about one cache.

    Parameters
    ----------
    index : the cache's index in kmalloc_caches
    strict : complain about broken lists; not while an operation is under way

    Raises
    ------
    ValueError
        If a partial list or a chain is broken, or a slab's counters are impossible.
    """
    slabs = _read_slabs(kernel, index)
    size = int(kernel.memory.one(kernel.cache_address(index), "kmem_cache")["size"])
    states = np.full(int(slabs.first[-1]), int(ObjectState.ALLOCATED), dtype=np.uint8)
    own_free = _walk(kernel, slabs, slabs.heads, np.arange(len(slabs.frames)), size, states, ObjectState.FREE)
    owner, cpu_free = _cpu_side(kernel, index, slabs, size, states)
    lists, nr_partial, nr_slabs, total_objects = _read_nodes(kernel, index, strict)
    chains = _read_chains(kernel, index, strict)
    # A slab whose freelist is still being built has handed out nothing, whatever its chain looks like by now.
    building = slabs.frozen & (owner < 0) & (slabs.inuse == slabs.objects)
    for frames in chains.values():
        building &= ~np.isin(slabs.frames, frames)
    states[np.repeat(building, slabs.objects)] = int(ObjectState.FREE)
    table = _table(kernel, slabs, owner, cpu_free, states, lists, chains)
    return CacheView(
        table,
        own_free,
        cpu_free,
        _orders(kernel, slabs.frames, slabs.flags),
        lists,
        chains,
        nr_partial,
        nr_slabs,
        total_objects,
    )


def _read_slabs(kernel: BootedKernel, index: int) -> _Slabs:
    pages = kernel.memory.global_structs("mem_map")
    flags = pages["flags"].astype(np.int64)
    is_slab = page_flag(kernel, flags, "PG_slab") & (pages["slab"] == kernel.cache_address(index))
    frames = np.flatnonzero(is_slab).astype(np.int64)
    records = pages[frames]
    counters = records["slab_counters"].astype(np.int64)
    objects = counters >> _OBJECTS_SHIFT & _OBJECTS
    size = int(kernel.memory.one(kernel.cache_address(index), "kmem_cache")["size"])
    room = kernel.machine.spec.page_size_bytes << _orders(kernel, frames, flags[frames])
    if size <= 0 or np.any(objects * size > room):
        raise ValueError(f"a slab has more objects of {size} bytes than fit into its pages")
    first = np.zeros(len(frames) + 1, dtype=np.int64)
    np.cumsum(objects, out=first[1:])
    return _Slabs(
        frames=frames,
        flags=flags[frames],
        heads=records["freelist"].astype(np.int64),
        inuse=counters & _INUSE,
        objects=objects,
        frozen=counters >> _FROZEN_SHIFT & 1 == 1,
        first=first,
        bases=frames * kernel.machine.spec.page_size_bytes,
    )


def _orders(kernel: BootedKernel, frames: IntArray, flags: IntArray) -> IntArray:
    """Order of each block of pages: the second page of a compound one keeps it."""
    pages = kernel.memory.global_structs("mem_map")
    compound = page_flag(kernel, flags, "PG_compound")
    second = np.minimum(frames + 1, len(pages) - 1)
    orders = np.where(compound, pages["lru"]["prev"][second].astype(np.int64), 0)
    if np.any((orders < 0) | (orders > 32)):
        raise ValueError("a compound page has an impossible order")
    return orders


def _walk(
    kernel: BootedKernel,
    slabs: _Slabs,
    heads: IntArray,
    which: IntArray,
    size: int,
    states: NDArray[np.uint8],
    mark: ObjectState,
) -> IntArray:
    """Length of each of some slabs' freelists, marking their objects."""
    lengths = np.zeros(len(which), dtype=np.int64)
    walk_freelists(
        kernel.machine.state,
        heads,
        np.zeros(len(which), dtype=np.int64),
        slabs.bases[which],
        slabs.objects[which],
        slabs.first[which],
        size,
        kernel.machine.spec.word_bytes,
        states,
        lengths,
        int(mark),
    )
    return lengths


def _cpu_side(
    kernel: BootedKernel, index: int, slabs: _Slabs, size: int, states: NDArray[np.uint8]
) -> tuple[IntArray, IntArray]:
    """Owner CPU of each slab (-1 none) and the length of that CPU's freelist."""
    owner = np.full(len(slabs.frames), -1, dtype=np.int64)
    lengths = np.zeros(len(slabs.frames), dtype=np.int64)
    structures = cpu_slabs(kernel, index)
    for cpu in np.flatnonzero(structures["page"] != 0):
        at = np.flatnonzero(slabs.frames == frame_of(kernel, int(structures["page"][cpu])))
        if not len(at):
            continue  # no slab of this cache: nothing to show; the invariants complain
        owner[at] = cpu
        heads = structures["freelist"][[cpu]].astype(np.int64)
        lengths[at] = _walk(kernel, slabs, heads, at, size, states, ObjectState.CPU_FREE)
    return owner, lengths


def _read_nodes(
    kernel: BootedKernel, index: int, strict: bool
) -> tuple[dict[int, IntArray], IntArray, IntArray, IntArray]:
    """Partial lists and the three counters of each node."""
    lists: dict[int, IntArray] = {}
    counters = []
    for node, address in enumerate(node_addresses(kernel, index)):
        structure = kernel.memory.one(address, "kmem_cache_node")
        head = kernel.memory.field_address(address, "kmem_cache_node", "partial")
        try:
            lists[node] = list_frames(kernel, head, strict=strict)
        except ValueError as error:
            raise ValueError(f"partial list of node {node} is broken: {error}") from error
        counters.append([int(structure[name]) for name in ("nr_partial", "nr_slabs", "total_objects")])
    columns = np.array(counters, dtype=np.int64)
    return lists, columns[:, 0], columns[:, 1], columns[:, 2]


def _read_chains(kernel: BootedKernel, index: int, strict: bool) -> dict[int, IntArray]:
    """Each CPU's chain; one that makes no sense just now is left out unless ``strict``."""
    chains: dict[int, IntArray] = {}
    for cpu, structure in enumerate(cpu_slabs(kernel, index)):
        try:
            chains[cpu] = chain_frames(kernel, int(structure["partial"]))
        except ValueError as error:
            if strict:
                raise ValueError(f"the partial chain of CPU {cpu} is broken: {error}") from error
    return chains


def _table(
    kernel: BootedKernel,
    slabs: _Slabs,
    owner: IntArray,
    cpu_free: IntArray,
    states: NDArray[np.uint8],
    lists: dict[int, IntArray],
    chains: dict[int, IntArray],
) -> SlabTable:
    frames = slabs.frames
    # The use count of a cpu slab includes its CPU's free objects; what is shown is how many are handed out.
    handed_out = np.maximum(slabs.inuse - np.maximum(cpu_free, 0), 0)
    state = np.full(len(frames), int(SlabState.PARTIAL), dtype=np.uint8)
    state[handed_out == 0] = int(SlabState.EMPTY)
    state[handed_out >= slabs.objects] = int(SlabState.FULL)
    chained = np.full(len(frames), -1, dtype=np.int64)
    for cpu, members in chains.items():
        chained[np.isin(frames, members)] = cpu
    noted = kernel.machine.owners(
        kernel.memory.global_address("mem_map") + frames * kernel.program.struct("page").size_bytes
    )
    return SlabTable(
        page_frame=frames,
        node=slabs.flags >> kernel.program.constants["NODE_SHIFT"],
        cpu=owner,
        state=state,
        frozen=slabs.frozen,
        locked=page_flag(kernel, slabs.flags, "PG_locked"),
        on_partial_list=np.isin(frames, np.concatenate(list(lists.values()))),
        objects=slabs.objects,
        inuse=slabs.inuse,
        first_object=slabs.first,
        object_state=states,
        last_cpu=np.where(owner >= 0, owner, noted),
        on_cpu_partial=chained,
    )
