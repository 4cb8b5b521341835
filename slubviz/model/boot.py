"""Boot: compile a kernel for a machine, lay out its memory and bring the structures into the state after
start-up.

What the real kernel does once at boot is done here from outside, at no simulated cost: the buddy lists, the
per-CPU page lists, the kmalloc caches with their per-CPU and per-node structures.  A share of the memory is
fragmented, in an order that the seed decides, as on a machine that has run for a while.

On a NUMA machine a CPU's and a node's own structures and the page structures of a node's memory lie on that
node; all other static memory lies on node 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.machine import Machine, MemoryPlan, ProgramImage
from slubviz.hw.machine_file import MachineSpec
from slubviz.model.booted import BootedKernel, link
from slubviz.model.errors import UserError
from slubviz.model.families import family_of
from slubviz.model.geometry import MAX_ORDER
from slubviz.model.kernel_memory import KernelMemory
from slubviz.model.lang import Program
from slubviz.model.requests import BLOCK_PAGES, SessionJob, compile_kernel, memory_frames

WATERMARK_PAGES = 128


def splitmix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A fixed hash of 64-bit numbers (Steele, Lea, Flood 2014), the same with every numpy version."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
        return hashed


def _hashes(seed: int, stream: int, count: int) -> NDArray[np.uint64]:
    start = np.array([(seed * 1_000_003 + stream) & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    with np.errstate(over="ignore"):
        places: NDArray[np.uint64] = np.add(
            splitmix64(start), np.arange(count), dtype=np.uint64, casting="unsafe"
        )
        return splitmix64(places)


def boot(job: SessionJob) -> BootedKernel:
    """A machine with the kernel started.

    Raises
    ------
    UserError
        If the kernel does not compile or lacks something, or the machine does not fit into memory.
    """
    program = compile_kernel(job)
    frames, nodes = memory_frames(job.machine, job.pages_per_node)
    image = ProgramImage(
        program.code,
        tuple(f.entry_pc for f in program.functions),
        tuple(f.window_words for f in program.functions),
        len(program.counters),
    )
    pages = program.globals["mem_map"]
    plan = MemoryPlan(
        first_frame=BLOCK_PAGES,
        page_frames=frames,
        static_base=program.static_base,
        static_bytes=program.static_end - program.static_base,
        node_of_frame=nodes,
        noted_bytes=pages.address + pages.size_bytes - program.static_base,
        node_of_static_frame=_static_nodes(program, job.machine, nodes),
    )
    try:
        machine = Machine(job.machine, image, plan)
    except (MemoryError, OSError) as error:  # OSError: what mmap raises
        raise UserError(
            f"not enough memory to simulate {job.machine.name} with {job.machine.cpus} CPUs and "
            f"{program.static_end - program.static_base:,} bytes of globals: use fewer --ops or --cpus"
        ) from error
    memory = KernelMemory(machine, program)
    kernel = BootedKernel(machine, program, memory, job.variant, family_of(job.variant), job.orders)
    _start_page_allocator(kernel, job.spec.seed)
    try:
        kernel.family.start(kernel)
    except (OverflowError, KeyError, MemoryError) as error:  # from constants and fields of the kernel file
        if job.variant.user_file is None:
            raise
        raise UserError(
            f"{job.variant.name}: the boot cannot fill in the structures of the kernel file: {error}; "
            "compare its structures and constants with what slubviz source prints"
        ) from error
    return kernel


def _static_nodes(program: Program, spec: MachineSpec, node_of_frame: NDArray[np.int64]) -> NDArray[np.int64]:
    """The node of each page of static memory.

    Parameters
    ----------
    program : compiled with per-CPU and per-node elements on whole pages, if the machine has several nodes
    node_of_frame : node of each page frame from ``BLOCK_PAGES`` on
    """
    page_size = spec.page_size_bytes
    nodes = np.zeros(-(-(program.static_end - program.static_base) // page_size), dtype=np.int64)
    if spec.nodes == 1:
        return nodes
    for variable in program.globals.values():
        if variable.per and variable.size_bytes:
            first = (variable.address - program.static_base) // page_size
            owners = np.arange(variable.count) // (spec.cpus_per_node if variable.per == "cpu" else 1)
            end = first + variable.size_bytes // page_size
            nodes[first:end] = np.repeat(owners, variable.stride_bytes // page_size)
    _put_page_structs(program, page_size, nodes, node_of_frame)
    return nodes


def _put_page_structs(
    program: Program, page_size: int, nodes: NDArray[np.int64], node_of_frame: NDArray[np.int64]
) -> None:
    """A page of mem_map lies on the node of the page frame whose structure is the first to begin in it."""
    pages, offset = program.globals["mem_map"], program.globals["mem_map"].address - program.static_base
    first, end = offset // page_size, -(-(offset + pages.size_bytes) // page_size)
    starts = np.arange(first, end, dtype=np.int64) * page_size - offset
    frames = np.clip(-(-starts // pages.stride_bytes), 0, pages.count - 1)
    node_of_struct = np.concatenate([np.zeros(BLOCK_PAGES, dtype=np.int64), node_of_frame])
    nodes[first:end] = node_of_struct[frames]


# --- page allocator --------------------------------------------------------------------------------


def _free_blocks(first_frame: int, blocks: int, share: float, seed: int, node: int) -> list[tuple[int, int]]:
    """(frame, order) of the free blocks of a node, in the order in which they lie on the lists."""
    # Shares up to 1 in units of 2**-32, so that 1 means all.
    fragmented = (_hashes(seed, 2 * node, blocks) >> np.uint64(32)) < np.uint64(int(share * 2**32))
    free: list[tuple[int, int]] = []
    for block in range(blocks):
        frame = first_frame + block * BLOCK_PAGES
        if not fragmented[block]:
            free.append((frame, MAX_ORDER - 1))
            continue
        usable = (_hashes(seed, 1_000_000 + frame, BLOCK_PAGES) & np.uint64(1)).astype(bool)
        free.extend(_buddies(frame, usable))
    order_of = _hashes(seed, 2 * node + 1, len(free))
    return [free[i] for i in np.argsort(order_of, kind="stable")]


def _buddies(frame: int, usable: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Largest aligned blocks of a 1024-page block of which some pages are usable."""
    if usable.all():
        return [(frame, len(usable).bit_length() - 1)]
    if not usable.any():
        return []
    half = len(usable) // 2
    return _buddies(frame, usable[:half]) + _buddies(frame + half, usable[half:])


def _start_page_allocator(kernel: BootedKernel, seed: int) -> None:
    spec, memory, program = kernel.machine.spec, kernel.memory, kernel.program
    plan = kernel.machine.memory
    pages = memory.global_structs("mem_map")
    page_bytes = program.struct("page").size_bytes
    lru = program.struct("page").fields["lru"].offset_bytes
    map_address = memory.global_address("mem_map")
    per_node = plan.page_frames // spec.nodes
    node_shift, buddy = program.constants["NODE_SHIFT"], 1 << program.constants["PG_buddy"]
    pages["flags"][plan.first_frame :] = plan.node_of_frame.astype(np.uint64) << np.uint64(node_shift)
    # The map count of a page that nobody maps lies where SLUB of 2.6.24 has inuse.
    map_count = "inuse" if "inuse" in program.struct("page").fields else "_mapcount"
    pages[map_count][plan.first_frame :] = -1
    areas = program.struct("zone").fields["free_area"].offset_bytes
    area_bytes = program.struct("free_area").size_bytes
    for node in range(spec.nodes):
        address = memory.global_address("zones", node)
        zone = memory.one(address, "zone")
        first = plan.first_frame + node * per_node
        zone["nid"] = node
        zone["first_frame"] = first
        zone["last_frame"] = first + per_node
        zone["pages_low"] = WATERMARK_PAGES
        lists: dict[int, list[int]] = {order: [] for order in range(MAX_ORDER)}
        for frame, order in _free_blocks(first, per_node // BLOCK_PAGES, spec.fragmented_share, seed, node):
            pages[frame]["flags"] |= buddy
            pages[frame]["private"] = order
            lists[order].append(map_address + frame * page_bytes + lru)
        zone["nr_free_pages"] = sum(len(entries) << order for order, entries in lists.items())
        for order, entries in lists.items():
            area = address + areas + order * area_bytes
            link(memory, area, entries)
            memory.one(area, "free_area")["nr_free"] = len(entries)
    _start_pagesets(kernel)


def pageset_batch(page_size_bytes: int) -> tuple[int, int]:
    """(batch, high) of the per-CPU page lists: 31 and 186 on 4 KB pages, 7 and 42 on larger ones."""
    return (31, 186) if page_size_bytes == 4096 else (7, 42)


def stat_threshold(spec: MachineSpec, pages_per_node: int) -> int:
    """How far a CPU's share of a zone counter may drift (the rule of 2.6.24: CPUs and zone size, at most
    125)."""
    blocks_of_128_mb = (pages_per_node * spec.page_size_bytes) >> 27
    return min(125, 2 * spec.cpus.bit_length() * (1 + blocks_of_128_mb.bit_length()))


def _start_pagesets(kernel: BootedKernel) -> None:
    spec, memory, program = kernel.machine.spec, kernel.memory, kernel.program
    batch, high = pageset_batch(spec.page_size_bytes)
    threshold = stat_threshold(spec, kernel.machine.memory.page_frames // spec.nodes)
    size = program.struct("per_cpu_pageset").size_bytes
    list_offset = program.struct("per_cpu_pages").fields["list"].offset_bytes
    for cpu in range(spec.cpus):
        base = memory.global_address("pagesets", cpu)
        for node in range(spec.nodes):
            address = base + node * size
            pageset = memory.one(address, "per_cpu_pageset")
            pageset["pcp"]["batch"] = batch
            pageset["pcp"]["high"] = high
            pageset["stat_threshold"] = threshold
            link(memory, address + list_offset, [])
