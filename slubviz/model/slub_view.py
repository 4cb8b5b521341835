"""Reads SLUB's structures out of a machine: every slab of a cache, and where each of its objects is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.model.booted import BootedKernel
from slubviz.model.geometry import LARGEST_ORDER
from slubviz.model.memory_scan import walk_freelists
from slubviz.model.page_lists import list_frames, page_flag
from slubviz.model.snapshot import ObjectState, SlabState, SlabTable

IntArray = NDArray[np.int64]
WRONG_END = -4  #: walk_freelist's result for a list that ends in another value
_NOT_SEEN = int(ObjectState.ALLOCATED)


@dataclass(frozen=True)
class CacheView:
    """Slabs of one cache with what a check needs beyond the table; arrays of length S."""

    table: SlabTable
    own_free: IntArray  #: length of the slab's own freelist; negative: see memory_scan.walk_freelist
    cpu_free: IntArray  #: length of the owning CPU's freelist, 0 without owner; negative likewise
    ends: IntArray  #: what ends the slab's freelists: NULL, one end for all, or a marker of its own
    partial_pages: dict[int, IntArray]  #: node -> page frames on its partial list, in order
    nr_partial: IntArray
    nr_slabs: IntArray


def has_sequence_numbers(kernel: BootedKernel) -> bool:
    """Whether a CPU's freelist is a sequence number and an offset from a base."""
    return "base" in kernel.program.struct("kmem_cache_cpu").fields


def has_end_markers(kernel: BootedKernel) -> bool:
    """Whether each slab's freelists end in a marker of their own (patch 06), not in NULL or one for all."""
    return kernel.program.constants["EMPTY_FREELIST"] != 0 and not has_sequence_numbers(kernel)


def cpu_freelists(kernel: BootedKernel, index: int) -> IntArray:
    """First object of each CPU's freelist in a cache, or what ends the list; shape (CPUs,)."""
    slabs = cpu_slabs(kernel, index)
    heads: IntArray = slabs["freelist"].astype(np.int64)
    if not has_sequence_numbers(kernel):
        return heads
    constants = kernel.program.constants
    # An empty list is the end of all lists, whatever its base.
    pointers = slabs["base"].astype(np.int64) | (heads & constants["OFFSET_MASK"])
    return np.where(heads & 1, constants["END"], pointers)


def cpu_slabs(kernel: BootedKernel, index: int) -> NDArray[np.void]:
    """The kmem_cache_cpu structures of a cache, shape (CPUs,)."""
    variable = kernel.program.globals["cache_cpus"]
    offset = index * kernel.program.struct("kmem_cache_cpu").size_bytes
    return kernel.memory.array(
        variable.address + offset, "kmem_cache_cpu", kernel.machine.spec.cpus, variable.stride_bytes
    )


def node_addresses(kernel: BootedKernel, index: int) -> list[int]:
    """Addresses of a cache's kmem_cache_node structures, one per node."""
    if kernel.machine.spec.nodes == 1:
        return [kernel.memory.field_address(kernel.cache_address(index), "kmem_cache", "local_node")]
    size = kernel.program.struct("kmem_cache_node").size_bytes
    return [
        kernel.memory.global_address("cache_nodes", node) + index * size
        for node in range(kernel.machine.spec.nodes)
    ]


def read_cache(kernel: BootedKernel, index: int, *, strict: bool = True) -> CacheView:
    """Everything about one kmalloc cache.

    Parameters
    ----------
    index : the cache's index in kmalloc_caches
    strict : complain about broken lists; not while an operation is under way

    Raises
    ------
    ValueError
        If a partial list is broken, or the cache's geometry is impossible.
    """
    machine, memory = kernel.machine, kernel.memory
    pages = memory.global_structs("mem_map")
    address = kernel.cache_address(index)
    cache = memory.one(address, "kmem_cache")
    flags = pages["flags"].astype(np.int64)
    is_slab = page_flag(kernel, flags, "PG_slab") & (pages["slab"] == address)
    frames = np.flatnonzero(is_slab).astype(np.int64)
    flags = flags[frames]
    records = pages[frames]
    count = len(frames)
    objects = np.full(count, _objects_per_slab(cache, machine.spec.page_size_bytes), dtype=np.int64)
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(objects, out=first[1:])
    states = np.full(int(first[-1]), _NOT_SEEN, dtype=np.uint8)
    shift = machine.spec.page_size_bytes.bit_length() - 1
    bases = frames << shift
    size, word_bytes = int(cache["size"]), machine.spec.word_bytes
    own_free = np.zeros(count, dtype=np.int64)
    heads = records["freelist"].astype(np.int64)
    marked = has_end_markers(kernel)
    ends = records["end"].astype(np.int64) if marked else np.full(count, _common_end(kernel), dtype=np.int64)
    walk_freelists(
        machine.state,
        heads,
        ends,
        bases,
        objects,
        first[:-1],
        size,
        word_bytes,
        states,
        own_free,
        int(ObjectState.FREE),
    )
    owner, cpu_free = _cpu_side(kernel, index, frames, ends, bases, objects, first, size, states)
    partial, nr_partial, nr_slabs = {}, [], []
    for node, node_address in enumerate(node_addresses(kernel, index)):
        structure = memory.one(node_address, "kmem_cache_node")
        head = memory.field_address(node_address, "kmem_cache_node", "partial")
        try:
            partial[node] = list_frames(kernel, head, strict=strict)
        except ValueError as error:
            raise ValueError(f"partial list of node {node} is broken: {error}") from error
        nr_partial.append(int(structure["nr_partial"]))
        nr_slabs.append(int(structure["nr_slabs"]))
    listed = np.concatenate(list(partial.values())) if partial else np.zeros(0, dtype=np.int64)
    inuse = records["inuse"].astype(np.int64)
    # A slab that new_slab is still building has handed out nothing, whatever its chain looks like by now.
    building = (inuse <= 0) & (owner < 0) & (own_free != objects)
    states[np.repeat(building, objects)] = int(ObjectState.FREE)
    # A slab that a CPU owns counts its CPU's free objects as in use; what is shown is how many are really
    # handed out.
    handed_out = np.maximum(inuse - np.maximum(cpu_free, 0), 0)
    state = np.full(count, int(SlabState.PARTIAL), dtype=np.uint8)
    page_bytes = kernel.program.struct("page").size_bytes
    noted = machine.owners(memory.global_address("mem_map") + frames * page_bytes)
    state[handed_out == 0] = int(SlabState.EMPTY)
    state[handed_out >= objects] = int(SlabState.FULL)
    table = SlabTable(
        page_frame=frames,
        node=flags >> kernel.program.constants["NODE_SHIFT"],
        cpu=owner,
        state=state,
        frozen=page_flag(kernel, flags, "PG_active"),
        locked=page_flag(kernel, flags, "PG_locked"),
        on_partial_list=np.isin(frames, listed),
        objects=objects,
        inuse=inuse,
        first_object=first,
        object_state=states,
        last_cpu=np.where(owner >= 0, owner, noted),
    )
    return CacheView(
        table,
        own_free,
        cpu_free,
        ends,
        partial,
        np.array(nr_partial, dtype=np.int64),
        np.array(nr_slabs, dtype=np.int64),
    )


def _common_end(kernel: BootedKernel) -> int:
    """What ends the freelists of all slabs alike."""
    return kernel.program.constants["END"] if has_sequence_numbers(kernel) else 0


def _objects_per_slab(cache: np.void, page_size_bytes: int) -> int:
    """What the cache says; a program can have written anything there, and arrays of that length follow."""
    size, objects, order = int(cache["size"]), int(cache["objects"]), int(cache["order"])
    possible = size > 0 and objects >= 0 and 0 <= order <= LARGEST_ORDER
    if not possible or objects * size > page_size_bytes << order:
        raise ValueError(f"{objects} objects of {size} bytes make no slab of order {order}")
    return objects


def _cpu_side(
    kernel: BootedKernel,
    index: int,
    frames: IntArray,
    ends: IntArray,
    bases: IntArray,
    objects: IntArray,
    first: IntArray,
    size: int,
    states: NDArray[np.uint8],
) -> tuple[IntArray, IntArray]:
    """Owner CPU of each slab (-1 none) and the length of that CPU's freelist."""
    owner = np.full(len(frames), -1, dtype=np.int64)
    lengths = np.zeros(len(frames), dtype=np.int64)
    page = kernel.program.struct("page").size_bytes
    map_address = kernel.memory.global_address("mem_map")
    slabs = cpu_slabs(kernel, index)
    heads = cpu_freelists(kernel, index)
    owned = (slabs["page"].astype(np.int64) - map_address) // page
    for cpu in np.flatnonzero(slabs["page"] != 0):
        at = int(np.searchsorted(frames, owned[cpu]))
        if at >= len(frames) or frames[at] != owned[cpu]:
            continue  # no slab of this cache: nothing to show; the invariants complain
        owner[at] = cpu
        one = np.array([at])
        length = np.zeros(1, dtype=np.int64)
        own_states = slice(int(first[at]), int(first[at + 1]))
        before = states[own_states].copy()
        for end in _cpu_list_ends(kernel, int(ends[at]), slabs[cpu]):
            states[own_states] = before
            walk_freelists(
                kernel.machine.state,
                heads[[cpu]],
                np.array([end]),
                bases[one],
                objects[one],
                first[one],
                size,
                kernel.machine.spec.word_bytes,
                states,
                length,
                int(ObjectState.CPU_FREE),
            )
            if length[0] != WRONG_END:
                break
        lengths[at] = length[0]
    return owner, lengths


def _cpu_list_ends(kernel: BootedKernel, end: int, slab: np.void) -> tuple[int, ...]:
    """What may end a CPU's freelist: the slab's end; with sequence numbers, also its low half under the
    CPU's base, which is what an object that is freed to an empty list is linked to."""
    if not has_sequence_numbers(kernel):
        return (end,)
    return (end, int(np.int64(slab["base"])) | 1)
