"""What must hold in the structures of lockless SLUB while no CPU is inside the allocator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.model.booted import BootedKernel
from slubviz.model.cache_checks import check_each_cache
from slubviz.model.families.family import CachesCheck
from slubviz.model.memory_scan import WALK_ERRORS
from slubviz.model.slub_lockless_view import CacheView, frame_of, read_cache
from slubviz.model.slub_view import cpu_slabs
from slubviz.model.snapshot import ObjectState

#: At most so many slabs are named for one complaint.
_MOST_NAMED = 4


def check_caches(kernel: BootedKernel) -> CachesCheck:
    """Every cache, the private one too."""

    def look(index: int) -> tuple[list[str], int, int]:
        view = read_cache(kernel, index)
        allocated = int((view.table.object_state == int(ObjectState.ALLOCATED)).sum())
        return check_cache(kernel, index, view), allocated, int((1 << view.orders).sum())

    return check_each_cache(kernel, look)


def check_cache(kernel: BootedKernel, index: int, view: CacheView) -> list[str]:
    """One cache: freelists, counters, where its slabs are, per-CPU structures."""
    name = kernel.cache_name(index)
    found = _check_slabs(kernel, view) + _check_nodes(view) + _check_chains(kernel, view)
    return [f"{name}: {problem}" for problem in found + _check_cpus(kernel, index, view)]


def _check_slabs(kernel: BootedKernel, view: CacheView) -> list[str]:
    table = view.table
    problems: list[str] = []

    def complain(slabs: NDArray[np.bool_], what: str) -> None:
        frames = table.page_frame[np.flatnonzero(slabs)[:_MOST_NAMED]]
        problems.extend(f"slab of page {int(frame)} {what}" for frame in frames)

    for code, text in WALK_ERRORS.items():
        complain(view.own_free == code, f"has a freelist that {text}")
        complain(view.cpu_free == code, f"has a cpu freelist that {text}")
    complain(
        (view.own_free >= 0) & (table.inuse + view.own_free != table.objects),
        "has a use count that does not match the length of its freelist",
    )
    owned, chained = table.cpu >= 0, table.on_cpu_partial >= 0
    complain(table.frozen & ~owned & ~chained, "is frozen but no CPU has it")
    complain((owned | chained) & ~table.frozen, "is with a CPU but not frozen")
    complain(owned & chained, "is a cpu slab and on a CPU's partial chain")
    complain(table.on_partial_list & (owned | chained), "is on the partial list but a CPU has it")
    has_free = table.inuse < table.objects
    nowhere = ~owned & ~chained & ~table.on_partial_list
    complain(nowhere & has_free, "has free objects but is nowhere")
    complain((table.on_partial_list | chained) & ~has_free, "is among the partial slabs but full")
    complain(table.locked, "is locked")
    references = kernel.memory.global_structs("mem_map")["_count"][table.page_frame]
    complain(references != 1, "has a page reference count that is not 1")
    return problems


def _check_nodes(view: CacheView) -> list[str]:
    """Counters of each node against its list and its slabs."""
    table = view.table
    problems = []
    for node, frames in view.partial_pages.items():
        here = table.node == node
        counted = {
            "nr_partial": (int(view.nr_partial[node]), len(frames)),
            "nr_slabs": (int(view.nr_slabs[node]), int(here.sum())),
            "total_objects": (int(view.total_objects[node]), int(table.objects[here].sum())),
        }
        problems += [
            f"{name} of node {node} is {noted}, there are {real}"
            for name, (noted, real) in counted.items()
            if noted != real
        ]
        if len(np.unique(frames)) != len(frames):
            problems.append(f"a slab is on the partial list of node {node} twice")
        strangers = frames[~np.isin(frames, table.page_frame[here])]
        problems += [
            f"page {int(frame)} on the partial list of node {node} is no slab of it"
            for frame in strangers[:_MOST_NAMED]
        ]
    return problems


def _check_chains(kernel: BootedKernel, view: CacheView) -> list[str]:
    """Each CPU's chain: slabs of this cache, each on one chain once, counts right.

    ``pages`` is the length of the chain from a slab on.  ``pobjects`` was added up when the slabs came, so
    that a slab's share is at least 1 unless it was full, and at most what it has free now.
    """
    pages = kernel.memory.global_structs("mem_map")
    free = dict(
        zip(view.table.page_frame.tolist(), (view.table.objects - view.table.inuse).tolist(), strict=True)
    )
    seen: set[int] = set()
    problems = []
    for cpu, frames in view.chains.items():
        where = f"the partial chain of CPU {cpu}"
        behind = pages_behind = 0
        for frame in reversed(frames.tolist()):
            if frame not in free:
                problems.append(f"page {frame} on {where} is no slab of this cache")
                continue
            if frame in seen:
                problems.append(f"slab of page {frame} is on two chains, or twice on {where}")
            seen.add(frame)
            link = pages[frame]["chain"]
            pages_behind += 1
            if link["pages"] != pages_behind:
                problems.append(
                    f"{where} counts {link['pages']} slabs from page {frame} on, not {pages_behind}"
                )
            share = int(link["pobjects"]) - behind
            behind = int(link["pobjects"])
            if not 1 <= share <= free[frame]:
                problems.append(f"{where} counts {share} free objects for page {frame}, it has {free[frame]}")
    return problems


def _check_cpus(kernel: BootedKernel, index: int, view: CacheView) -> list[str]:
    """Each kmem_cache_cpu: its slab is one of this cache and nobody else's; its transaction id is its own."""
    slabs = set(view.table.page_frame.tolist())
    step = kernel_tid_step(kernel)
    owner_of: dict[int, int] = {}
    problems = []
    for cpu, structure in enumerate(cpu_slabs(kernel, index)):
        where, page = f"CPU {cpu}", int(structure["page"])
        if step > 1 and int(structure["tid"]) % step != cpu:
            problems.append(
                f"{where} has transaction id {int(structure['tid'])}, which is not one of its own"
            )
        if page == 0:
            if structure["freelist"] != 0:
                problems.append(f"{where} has a freelist without a slab")
            continue
        frame = frame_of(kernel, page)
        if frame not in slabs:
            problems.append(f"{where} has a cpu slab {page:#x} that is no slab of this cache")
            continue
        if page in owner_of:
            problems.append(f"{where} has the same cpu slab as CPU {owner_of[page]}")
        owner_of[page] = cpu
    return problems


def kernel_tid_step(kernel: BootedKernel) -> int:
    """By how much an operation moves the transaction id on: the CPUs, rounded up to a power of two, in a
    preemptible kernel; else 1."""
    if not kernel.program.options["CONFIG_PREEMPT"].value:
        return 1
    return 1 << (kernel.machine.spec.cpus - 1).bit_length()
