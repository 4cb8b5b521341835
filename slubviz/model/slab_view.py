"""Reads SLAB's structures out of a machine: every slab of a cache, and where each of its objects is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.model.booted import BootedKernel
from slubviz.model.families.slab_start import LISTS
from slubviz.model.geometry import LARGEST_ORDER
from slubviz.model.memory_scan import walk_list
from slubviz.model.page_lists import page_flag
from slubviz.model.slab_memory import CHAIN_UNREADABLE, read_slab_structs, walk_chains
from slubviz.model.snapshot import ObjectState, SlabState, SlabTable

IntArray = NDArray[np.int64]
_NOT_SEEN = int(ObjectState.ALLOCATED)


class ObjectPositions:
    """Finds objects by address: position in the table's object_state, -1 for what is no object's start."""

    def __init__(
        self, kernel: BootedKernel, frames: IntArray, order: int, s_mem: IntArray, size: int, objects: int
    ) -> None:
        self.shift = kernel.machine.spec.page_size_bytes.bit_length() - 1
        self.frames, self.order, self.s_mem = frames, order, s_mem
        self.size, self.objects = size, objects

    def __call__(self, addresses: IntArray) -> IntArray:
        if not len(self.frames):
            return np.full(len(addresses), -1, dtype=np.int64)
        frame = addresses >> self.shift >> self.order << self.order
        slab = np.minimum(np.searchsorted(self.frames, frame), len(self.frames) - 1)
        number, rest = np.divmod(addresses - self.s_mem[slab], self.size)
        sound = (self.frames[slab] == frame) & (rest == 0) & (number >= 0) & (number < self.objects)
        return np.where(sound, slab * self.objects + number, -1)


@dataclass(frozen=True)
class ArrayView:
    """One array of free objects."""

    name: str  #: "CPU 3", "shared array of node 0", "alien cache of node 0 for node 1"
    node: int  #: whose objects it may hold
    address: int
    kind: str  #: "cpu", "shared" or "alien"
    entries: IntArray  #: addresses of its objects, the oldest first


@dataclass(frozen=True)
class CacheView:
    """Slabs of one cache with what a check needs beyond the table; arrays of length S unless said."""

    table: SlabTable
    slab_address: IntArray  #: of struct slab
    readable: NDArray[np.bool_]  #: whether struct slab lies where something is stored
    colouroff: IntArray
    s_mem: IntArray
    nodeid: IntArray
    chain: IntArray  #: length of the chain of free objects; negative: see slab_memory.walk_chains
    on_chain: NDArray[np.bool_]  #: which objects are on their slab's chain, as object_state
    lists: dict[tuple[int, str], IntArray]  #: (node, list) -> addresses of the struct slabs on it, in order
    arrays: tuple[ArrayView, ...]
    array_object: tuple[IntArray, ...]  #: for each array, position in object_state of its entries; -1 is none
    nr_partial: IntArray  #: per node
    nr_slabs: IntArray  #: per node
    position: ObjectPositions


def list3_addresses(kernel: BootedKernel, index: int) -> list[int]:
    """Addresses of a cache's kmem_list3 structures, one per node."""
    size = kernel.program.struct("kmem_list3").size_bytes
    base = [kernel.memory.global_address("cache_list3", node) for node in range(kernel.machine.spec.nodes)]
    return [address + index * size for address in base]


def read_arrays(kernel: BootedKernel, index: int) -> tuple[ArrayView, ...]:
    """The arrays of a cache: of each CPU, then of each node the shared one and the alien caches."""
    spec, memory, program = kernel.machine.spec, kernel.memory, kernel.program
    found: list[ArrayView] = []

    def add(name: str, node: int, kind: str, address: int) -> None:
        struct = "cpu_array" if kind == "cpu" else f"{kind}_array"
        room = (program.struct(struct).size_bytes - first) // spec.word_bytes
        count = min(int(memory.one(address, "array_cache")["avail"]), room)
        raw = memory.static_bytes()[address + first - kernel.machine.memory.static_base :]
        entries = raw[: count * spec.word_bytes].view(f"<u{spec.word_bytes}").astype(np.int64)
        found.append(ArrayView(name, node, address, kind, entries))

    first = program.struct("array_cache").fields["entry"].offset_bytes
    step = program.struct("cpu_array").size_bytes
    for cpu in range(spec.cpus):
        address = memory.global_address("cpu_arrays", cpu) + index * step
        add(f"CPU {cpu}", cpu // spec.cpus_per_node, "cpu", address)
    for node, list3 in enumerate(list3_addresses(kernel, index)):
        record = memory.one(list3, "kmem_list3")
        step = program.struct("shared_array").size_bytes
        if record["shared"]:
            address = memory.global_address("shared_arrays", node) + index * step
            add(f"shared array of node {node}", node, "shared", address)
        if record["alien"]:
            step = program.struct("alien_array").size_bytes
            base = memory.global_address("alien_caches", node)
            base += index * program.struct("alien_arrays").size_bytes
            for other in range(spec.nodes):
                if other != node:
                    add(f"alien cache of node {node} for node {other}", other, "alien", base + other * step)
    return tuple(found)


def _read_lists(kernel: BootedKernel, index: int, strict: bool) -> dict[tuple[int, str], IntArray]:
    offset = kernel.program.struct("slab").fields["list"].offset_bytes
    longest = kernel.machine.memory.page_frames + 1
    found = {}
    for node, address in enumerate(list3_addresses(kernel, index)):
        for name in LISTS:
            head = kernel.memory.field_address(address, "kmem_list3", name)
            out = np.zeros(longest, dtype=np.int64)
            word_bytes = kernel.program.target.word_bytes
            length = int(walk_list(kernel.machine.state, head, word_bytes, int(strict), out))
            if length < 0:
                wrong = "a pointer is wrong" if length == -1 else "it does not come back to its head"
                raise ValueError(f"{name} of node {node} is broken: {wrong}")
            found[node, name] = out[:length] - offset
    return found


def _shape(kernel: BootedKernel, index: int) -> tuple[int, int, int]:
    """(object size, objects, order) of a cache; a program can have written anything there, and arrays of that
    length follow."""
    cache = kernel.memory.one(kernel.cache_address(index), "kmem_cache")
    size, objects, order = int(cache["buffer_size"]), int(cache["num"]), int(cache["gfporder"])
    possible = size > 0 and objects > 0 and order <= LARGEST_ORDER
    if not possible or objects * size > kernel.machine.spec.page_size_bytes << order:
        raise ValueError(f"{objects} objects of {size} bytes make no slab of order {order}")
    return size, objects, order


def _slab_frames(kernel: BootedKernel, index: int) -> IntArray:
    """First page frames of a cache's slabs, ascending: the pages that name the cache."""
    pages = kernel.memory.global_structs("mem_map")
    # What is free or belongs to others is most; ask for the cache first.
    frames = np.flatnonzero(pages["lru"]["next"] == kernel.cache_address(index)).astype(np.int64)
    flags = pages["flags"][frames].astype(np.int64)
    tail = kernel.program.constants["PAGE_TAIL"]
    slabs: IntArray = frames[page_flag(kernel, flags, "PG_slab") & (flags & tail != tail)]
    return slabs


def read_cache(kernel: BootedKernel, index: int, *, strict: bool = True) -> CacheView:
    """Everything about one kmalloc cache.

    Parameters
    ----------
    index : the cache's index in kmalloc_caches
    strict : complain about broken back pointers; not while an operation is under way

    Raises
    ------
    ValueError
        If a list of slabs is broken, or the cache's geometry is impossible.
    """
    size, objects, order = _shape(kernel, index)
    pages = kernel.memory.global_structs("mem_map")
    frames = _slab_frames(kernel, index)
    count = len(frames)
    addresses = pages["lru"]["prev"][frames].astype(np.int64)
    fields, readable = read_slab_structs(kernel, addresses)
    states = np.full((count, objects), _NOT_SEEN, dtype=np.uint8)
    chain = np.full(count, CHAIN_UNREADABLE, dtype=np.int64)
    chain[readable] = _chains(kernel, addresses, fields["free"], readable, states)
    on_chain = states.reshape(-1) == int(ObjectState.FREE)
    lists = _read_lists(kernel, index, strict)
    inuse = fields["inuse"]
    # A slab that is still being built has handed out nothing, whatever its chain looks like by now.
    listed = np.concatenate(list(lists.values()))
    building = (inuse == 0) & ~np.isin(addresses, listed)
    states[building] = int(ObjectState.FREE)
    flat = states.reshape(-1)
    arrays = read_arrays(kernel, index)
    position = ObjectPositions(kernel, frames, order, fields["s_mem"], size, objects)
    places = tuple(position(array.entries) for array in arrays)
    for place in places:
        flat[place[place >= 0]] = int(ObjectState.CPU_FREE)
    handed_out = (states == int(ObjectState.ALLOCATED)).sum(axis=1)
    state = np.full(count, int(SlabState.PARTIAL), dtype=np.uint8)
    state[handed_out == 0] = int(SlabState.EMPTY)
    state[handed_out == objects] = int(SlabState.FULL)
    nodes = range(kernel.machine.spec.nodes)
    partial = np.concatenate([lists[node, "slabs_partial"] for node in nodes])
    page_addresses = kernel.memory.global_address("mem_map") + frames * pages.strides[0]
    none = np.zeros(count, dtype=np.bool_)
    table = SlabTable(
        page_frame=frames,
        node=pages["flags"][frames].astype(np.int64) >> kernel.program.constants["NODE_SHIFT"],
        cpu=np.full(count, -1, dtype=np.int64),
        state=state,
        frozen=none,
        locked=none,
        on_partial_list=np.isin(addresses, partial),
        objects=np.full(count, objects, dtype=np.int64),
        inuse=inuse,
        first_object=np.arange(count + 1, dtype=np.int64) * objects,
        object_state=flat,
        last_cpu=kernel.machine.owners(page_addresses),
    )
    return CacheView(
        table=table,
        slab_address=addresses,
        readable=readable,
        colouroff=fields["colouroff"],
        s_mem=fields["s_mem"],
        nodeid=fields["nodeid"],
        chain=chain,
        on_chain=on_chain,
        lists=lists,
        arrays=arrays,
        array_object=places,
        nr_partial=np.array([len(lists[node, "slabs_partial"]) for node in nodes], dtype=np.int64),
        position=position,
        nr_slabs=np.array([sum(len(lists[node, name]) for name in LISTS) for node in nodes], dtype=np.int64),
    )


def _chains(
    kernel: BootedKernel,
    addresses: IntArray,
    heads: IntArray,
    readable: NDArray[np.bool_],
    states: NDArray[np.uint8],
) -> IntArray:
    """Lengths of the chains of the slabs that can be read; their objects are marked."""
    marked = states[readable]
    lengths = walk_chains(
        kernel, addresses[readable], heads[readable], marked, _NOT_SEEN, int(ObjectState.FREE)
    )
    states[readable] = marked
    return lengths
