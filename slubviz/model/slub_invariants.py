"""What must hold in SLUB's structures while no CPU is inside the allocator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.model.booted import BootedKernel
from slubviz.model.cache_checks import check_each_cache
from slubviz.model.families.family import CachesCheck
from slubviz.model.memory_scan import WALK_ERRORS
from slubviz.model.slub_view import (
    CacheView,
    cpu_freelists,
    cpu_slabs,
    has_end_markers,
    has_sequence_numbers,
    read_cache,
)
from slubviz.model.snapshot import ObjectState


def check_caches(kernel: BootedKernel) -> CachesCheck:
    """Every kmalloc cache."""

    def look(index: int) -> tuple[list[str], int, int]:
        view = read_cache(kernel, index)
        order = int(kernel.memory.one(kernel.cache_address(index), "kmem_cache")["order"])
        allocated = int((view.table.object_state == int(ObjectState.ALLOCATED)).sum())
        return check_cache(kernel, index, view), allocated, len(view.table.page_frame) << order

    return check_each_cache(kernel, look)


def check_cache(kernel: BootedKernel, index: int, view: CacheView) -> list[str]:
    """One kmalloc cache: chains, counts, list membership, per-CPU structures."""
    table, name = view.table, kernel.cache_name(index)
    problems: list[str] = []

    def complain(slabs: NDArray[np.bool_], what: str) -> None:
        if slabs.any():
            frames = table.page_frame[np.flatnonzero(slabs)[:4]]
            problems.extend(f"{name}: slab of page {int(frame)} {what}" for frame in frames)

    for code, text in WALK_ERRORS.items():
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
    heads = cpu_freelists(kernel, index)
    for cpu, slab in enumerate(cpu_slabs(kernel, index)):
        where, page = f"{name}: CPU {cpu}", int(slab["page"])
        if slab["objects"] != cache["objects"]:
            problems.append(f"{where} notes {slab['objects']} objects per slab, not {cache['objects']}")
        if slab["objsize"] != cache["objsize"]:
            problems.append(f"{where} notes objects of {slab['objsize']} bytes, not {cache['objsize']}")
        if page == 0:
            problems += _check_empty_cpu_slab(kernel, where, int(heads[cpu]))
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
    """The freelist of a CPU without a slab: NULL, or the end of all lists, or any slab's end marker (that of
    the last slab stays there)."""
    if head and not head & 1:
        return [f"{where} has a freelist without a slab"]
    if has_end_markers(kernel) and head == 0:
        return [f"{where} has NULL where an end marker belongs"]
    if head and not has_end_markers(kernel) and not has_sequence_numbers(kernel):
        return [f"{where} has an end marker where NULL belongs"]
    return []
