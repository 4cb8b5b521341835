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
from slubviz.model.booted import BootedKernel
from slubviz.model.geometry import MAX_ORDER
from slubviz.model.page_lists import list_frames, page_flag
from slubviz.model.requests import BLOCK_PAGES
from slubviz.model.symbols import lock_name

IntArray = NDArray[np.int64]


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
    caches = kernel.family.check(kernel)
    problems += caches.problems
    if expected_allocated is not None and caches.allocated != expected_allocated:
        problems.append(f"{caches.allocated} objects are handed out, {expected_allocated} should be")
    problems += check_page_allocator(kernel, caches.slab_pages)
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
