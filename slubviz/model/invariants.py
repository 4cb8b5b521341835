"""Checks that must hold in a machine's memory: ``check(kernel)`` returns what is broken, one line each.

Two kinds.  Some rules hold whenever no CPU is inside the allocator ("quiet"): every object is in exactly
one place, chains end correctly, counters agree with the lists, locks are free, interrupts are enabled and
preempt counts are zero.  In the middle of an operation they are expected to be broken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState
from slubviz.model.boot import BootedKernel
from slubviz.model.geometry import MAX_ORDER, kmalloc_cache_sizes
from slubviz.model.requests import BLOCK_PAGES
from slubviz.model.slub_view import (
    CacheView,
    cpu_slabs,
    has_end_markers,
    list_frames,
    page_flag,
    read_cache,
)
from slubviz.model.symbols import lock_name

IntArray = NDArray[np.int64]
_WALK_ERRORS = {
    -1: "leads out of the slab or is misaligned",
    -2: "holds an object twice, or one that another list holds",
    -3: "cannot be read",
    -4: "does not end in the slab's own end",
}


def check(kernel: BootedKernel, expected_allocated: int | None = None) -> list[str]:
    """Everything that is wrong while no CPU is inside the allocator.

    Parameters
    ----------
    kernel : the booted kernel
    expected_allocated : objects that are handed out from all kmalloc caches together, None if not known

    Returns
    -------
    list of str; empty when all is well.
    """
    problems = check_cpus(kernel)
    allocated = 0
    slab_pages = 0
    for index in kmalloc_cache_sizes(kernel.machine.spec.page_size_bytes):
        try:
            view = read_cache(kernel, index)
        except ValueError as error:
            problems.append(f"{kernel.cache_name(index)}: {error}")
            continue
        problems += check_cache(kernel, index, view)
        allocated += int((view.table.object_state == 2).sum())
        order = int(kernel.memory.one(kernel.cache_address(index), "kmem_cache")["order"])
        slab_pages += len(view.table.page_frame) << order
    if expected_allocated is not None and allocated != expected_allocated:
        problems.append(f"{allocated} objects are handed out, {expected_allocated} should be")
    problems += check_page_allocator(kernel, slab_pages)
    return problems


def check_cpus(kernel: BootedKernel) -> list[str]:
    """Locks free, interrupts on, preempt counts zero on every CPU."""
    problems = []
    for cpu, block in enumerate(kernel.machine.cpu_blocks()):
        held = min(int(block[L.C_HELD]), L.HELD_MAX)
        addresses = block[L.C_HELD_ADDRESS : L.C_HELD_ADDRESS + held]
        problems += [f"CPU {cpu} holds {lock_name(kernel, int(address))}" for address in addresses]
        if block[L.C_STATE] == CpuState.WAITING_LOCK:
            problems.append(f"CPU {cpu} waits for {lock_name(kernel, int(block[L.C_WAIT_ADDRESS]))}")
        if not block[L.C_IRQ_ENABLED]:
            problems.append(f"CPU {cpu} has interrupts disabled")
        if block[L.C_PREEMPT]:
            problems.append(f"CPU {cpu} has a preempt count of {int(block[L.C_PREEMPT])}, not 0")
        if block[L.C_IRQ_DEPTH]:
            problems.append(f"CPU {cpu} is {int(block[L.C_IRQ_DEPTH])} interrupts deep, not 0")
    return problems


def check_cache(kernel: BootedKernel, index: int, view: CacheView) -> list[str]:
    """One kmalloc cache: chains, counts, list membership, per-CPU structures."""
    table, name = view.table, kernel.cache_name(index)
    problems: list[str] = []

    def complain(slabs: NDArray[np.bool_], what: str) -> None:
        if slabs.any():
            frames = table.page_frame[np.flatnonzero(slabs)[:4]]
            problems.extend(f"{name}: slab of page {int(frame)} {what}" for frame in frames)

    for code, text in _WALK_ERRORS.items():
        complain(view.own_free == code, f"has a freelist that {text}")
        complain(view.cpu_free == code, f"has a cpu freelist that {text}")
    sound = (view.own_free >= 0) & (view.cpu_free >= 0)
    complain(
        sound & (table.inuse + view.own_free != table.objects),
        "has a use count that does not match the length of its freelist",
    )
    owned = table.cpu >= 0
    complain(table.frozen & ~owned, "is frozen but no CPU owns it")
    complain(owned & ~table.frozen, "is a cpu slab but not frozen")
    complain(table.locked, "is locked")
    has_free = table.inuse < table.objects
    complain(~owned & has_free & ~table.on_partial_list, "has free objects but is on no list")
    complain(table.on_partial_list & ~has_free, "is on the partial list but full")
    complain(table.on_partial_list & owned, "is on the partial list but a CPU owns it")
    for node, frames in view.partial_pages.items():
        if len(frames) != view.nr_partial[node]:
            problems.append(
                f"{name}: nr_partial of node {node} is {view.nr_partial[node]}, the list has {len(frames)}"
            )
        if len(np.unique(frames)) != len(frames):
            problems.append(f"{name}: a slab is on the partial list of node {node} twice")
        known = np.isin(frames, table.page_frame[table.node == node])
        problems += [
            f"{name}: page {int(frame)} on the partial list of node {node} is no slab of it"
            for frame in frames[~known][:4]
        ]
        slabs = int((table.node == node).sum())
        if slabs != view.nr_slabs[node]:
            problems.append(
                f"{name}: nr_slabs of node {node} is {view.nr_slabs[node]}, there are {slabs} slabs"
            )
    references = kernel.memory.global_structs("mem_map")["_count"][table.page_frame]
    complain(references != 1, "has a page reference count that is not 1")
    if has_end_markers(kernel):
        complain(view.ends & 1 == 0, "has no end marker")
        _, slab, slabs_with = np.unique(view.ends, return_inverse=True, return_counts=True)
        complain(slabs_with[slab] > 1, "has the same end marker as another slab")
    return problems + _check_cpu_slabs(kernel, index, view)


def _check_cpu_slabs(kernel: BootedKernel, index: int, view: CacheView) -> list[str]:
    """Each kmem_cache_cpu: its slab is one of this cache and nobody else's; its copies of fields agree."""
    name, table = kernel.cache_name(index), view.table
    cache = kernel.memory.one(kernel.cache_address(index), "kmem_cache")
    page_bytes = kernel.program.struct("page").size_bytes
    addresses = kernel.memory.global_address("mem_map") + table.page_frame * page_bytes
    slab_of = {int(address): i for i, address in enumerate(addresses)}
    owner_of: dict[int, int] = {}
    fields = kernel.program.struct("kmem_cache_cpu").fields  # a user's kernel may have no node in it
    problems = []
    for cpu, slab in enumerate(cpu_slabs(kernel, index)):
        where, page = f"{name}: CPU {cpu}", int(slab["page"])
        if slab["objects"] != cache["objects"]:
            problems.append(f"{where} notes {slab['objects']} objects per slab, not {cache['objects']}")
        if slab["objsize"] != cache["objsize"]:
            problems.append(f"{where} notes objects of {slab['objsize']} bytes, not {cache['objsize']}")
        if page == 0:
            problems += _check_empty_cpu_slab(kernel, where, int(slab["freelist"]))
            continue
        if page not in slab_of:
            problems.append(f"{where} has a cpu slab {page:#x} that is no slab of this cache")
            continue
        if page in owner_of:
            problems.append(f"{where} has the same cpu slab as CPU {owner_of[page]}")
        owner_of[page] = cpu
        node = int(table.node[slab_of[page]])
        if "node" in fields and slab["node"] != node:
            problems.append(f"{where} notes node {slab['node']} for a cpu slab of node {node}")
    return problems


def _check_empty_cpu_slab(kernel: BootedKernel, where: str, head: int) -> list[str]:
    """The freelist of a CPU without a slab: NULL, or any end marker, for the last slab's stays there."""
    if head and not head & 1:
        return [f"{where} has a freelist without a slab"]
    if has_end_markers(kernel) and head == 0:
        return [f"{where} has NULL where an end marker belongs"]
    if head and not has_end_markers(kernel):
        return [f"{where} has an end marker where NULL belongs"]
    return []


def check_page_allocator(kernel: BootedKernel, slab_pages: int | None = None) -> list[str]:
    """Buddy lists: every free page once, counts right; per-CPU lists: length as counted.

    Parameters
    ----------
    kernel : the booted kernel
    slab_pages : pages that slabs hold, to check the zones' statistics; None if not known
    """
    memory, program = kernel.memory, kernel.program
    pages = memory.global_structs("mem_map")
    flags = pages["flags"].astype(np.int64)
    covered = np.zeros(len(pages), dtype=np.int64)
    problems: list[str] = []
    areas = program.struct("zone").fields["free_area"].offset_bytes
    area_bytes = program.struct("free_area").size_bytes
    free_total = slab_total = 0
    for node in range(kernel.machine.spec.nodes):
        address = memory.global_address("zones", node)
        for order in range(MAX_ORDER):
            area = address + areas + order * area_bytes
            where = f"node {node}, free list of order {order}"
            try:
                frames = list_frames(kernel, area)
            except ValueError as error:
                problems.append(f"{where} is broken: {error}")
                continue
            if len(frames) != int(memory.one(area, "free_area")["nr_free"]):
                problems.append(f"{where}: nr_free does not match its length {len(frames)}")
            if np.any(frames & ((1 << order) - 1)):
                problems.append(f"{where}: a block is not aligned to its size")
            marked = page_flag(kernel, flags[frames], "PG_buddy")
            if not marked.all() or np.any(pages["private"][frames] != order):
                problems.append(f"{where}: a block is not marked as free with this order")
            # A list holds blocks of its own zone only: a buddy on it could have been merged.
            if order < MAX_ORDER - 1 and np.any(np.isin(frames ^ (1 << order), frames)):
                problems.append(f"{where}: a block and its buddy are both free and not merged")
            for frame in frames:
                covered[frame : frame + (1 << order)] += 1
            free_total += len(frames) << order
        zone = memory.one(address, "zone")
        problems += _check_pagesets(kernel, node, covered)
        free_total -= _statistic(kernel, node, "nr_free_diff") + _signed(kernel, zone["nr_free_pages"])
        slab_total += _statistic(kernel, node, "nr_slab_diff") + _signed(kernel, zone["nr_slab_pages"])
    if free_total:
        problems.append(f"the zones count {-free_total} more free pages than their lists hold")
    if slab_pages is not None and slab_total != slab_pages:
        problems.append(f"the zones count {slab_total} slab pages, slabs hold {slab_pages}")
    if np.any(covered > 1):
        problems.append(f"page {int(np.flatnonzero(covered > 1)[0])} is free twice")
    used = page_flag(kernel, flags, "PG_slab")
    if np.any(used & (covered > 0)):
        problems.append(f"page {int(np.flatnonzero(used & (covered > 0))[0])} is a slab and free")
    held = (pages["_count"] != 0) & (covered > 0)
    if np.any(held):
        problems.append(f"page {int(np.flatnonzero(held)[0])} is free and has references")
    if np.any(covered[:BLOCK_PAGES]):
        problems.append("a page below the first one is free")
    return problems


def _signed(kernel: BootedKernel, word: np.unsignedinteger[Any]) -> int:
    """A machine word that may be negative: an atomic counter of which the CPUs hold differences."""
    bits = 8 * kernel.program.target.word_bytes
    value = int(word)
    return value - (1 << bits) if value >> (bits - 1) else value


def _statistic(kernel: BootedKernel, node: int, field: str) -> int:
    """Sum of a per-CPU difference of a node over all CPUs."""
    size = kernel.program.struct("per_cpu_pageset").size_bytes
    variable = kernel.program.globals["pagesets"]
    records = kernel.memory.array(
        variable.address + node * size, "per_cpu_pageset", kernel.machine.spec.cpus, variable.stride_bytes
    )
    return int(records[field].sum())


def _check_pagesets(kernel: BootedKernel, node: int, covered: IntArray) -> list[str]:
    memory, program = kernel.memory, kernel.program
    size = program.struct("per_cpu_pageset").size_bytes
    list_offset = program.struct("per_cpu_pages").fields["list"].offset_bytes
    problems = []
    for cpu in range(kernel.machine.spec.cpus):
        address = memory.global_address("pagesets", cpu) + node * size
        where = f"page list of CPU {cpu} for node {node}"
        try:
            frames = list_frames(kernel, address + list_offset)
        except ValueError as error:
            problems.append(f"{where} is broken: {error}")
            continue
        counted = int(memory.one(address, "per_cpu_pages")["count"])
        if counted != len(frames):
            problems.append(f"{where} has {len(frames)} pages, its count says {counted}")
        covered[frames] += 1
    return problems
