"""Boot: compile a kernel for a machine, lay out its memory and bring the structures into the state after
start-up.

What the real kernel does once at boot is done here from outside, at no simulated cost: the buddy lists,
the per-CPU page lists, the kmalloc
caches with their per-CPU and per-node structures.  A share of the memory is fragmented, in an order that
the seed decides, as on a machine that has run for
a while.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.machine import Machine, MemoryPlan, ProgramImage
from slubviz.hw.machine_file import MachineSpec
from slubviz.model.errors import RequestError, UserError, unknown_name
from slubviz.model.geometry import (
    MAX_ORDER,
    OrderOptions,
    kmalloc_cache_sizes,
    kmalloc_index,
    slab_geometry,
)
from slubviz.model.kernel_memory import KernelMemory
from slubviz.model.kernels import KernelVariant
from slubviz.model.lang import KernelLanguageError, Program, Target, compile_program

BLOCK_PAGES = 1 << (MAX_ORDER - 1)
#: Share of the blocks of 1024 pages that are fragmented at boot; half of their groups of 4 pages are in
#: use.
FRAGMENTED_SHARE = 1 / 16
FRAGMENT_PAGES = 4
#: Largest memory that is simulated, in pages.
MOST_PAGES = 1 << 22
PG_BUDDY = 19
NODE_SHIFT = 20
WATERMARK_PAGES = 128
#: Boot parameters of the slab geometry; options too, but not of the kernel program.
ORDER_OPTIONS = ("slub_min_order", "slub_max_order", "slub_min_objects")
_COMPILING = threading.Lock()
SIZE_INDEX_LIMIT = 192
#: Functions that a workload and the boot need.
NEEDED_FUNCTIONS = ("kmalloc", "kfree")
NEEDED_GLOBALS = ("kmalloc_caches", "size_index", "cache_cpus", "cache_nodes")


@dataclass
class BootedKernel:
    """A machine with a kernel in it, ready to run."""

    machine: Machine
    program: Program
    memory: KernelMemory
    variant: KernelVariant
    orders: OrderOptions

    def cache_address(self, index: int) -> int:
        """Address of a kmalloc cache by its index."""
        base = self.memory.global_address("kmalloc_caches")
        return base + index * self.program.struct("kmem_cache").size_bytes

    def cache_name(self, index: int) -> str:
        """Name of a kmalloc cache."""
        return f"kmalloc-{kmalloc_cache_sizes(self.machine.spec.page_size_bytes)[index]}"


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


def memory_plan(spec: MachineSpec, pages: int) -> tuple[int, NDArray[np.int64]]:
    """Page frames for a run that needs ``pages`` pages on each node at the worst.

    Returns
    -------
    (number of page frames, node of each frame); whole blocks of 1024 pages on every node.

    Raises
    ------
    UserError
        If that is more than is simulated.
    """
    usable_share = 1 - FRAGMENTED_SHARE / 2
    blocks = max(4, int(pages / usable_share / BLOCK_PAGES) + 2)
    frames = blocks * BLOCK_PAGES * spec.nodes
    if frames > MOST_PAGES:
        gigabytes = frames * spec.page_size_bytes / (1 << 30)
        raise UserError(
            f"this run needs {gigabytes:,.1f} GB of simulated memory; at most {MOST_PAGES:,} pages "
            "are simulated: lower --ops, --size or --cpus"
        )
    return frames, np.repeat(np.arange(spec.nodes, dtype=np.int64), blocks * BLOCK_PAGES)


def compile_kernel(
    spec: MachineSpec,
    variant: KernelVariant,
    page_frames: int,
    objects_per_cpu: int,
    options: Mapping[str, int],
) -> Program:
    """Compile a kernel and the workload for a machine.

    Raises
    ------
    UserError
        With file, line, column and what to write instead; or what the file lacks.
    """
    top = BLOCK_PAGES + page_frames
    constants = {
        "PAGE_SIZE": spec.page_size_bytes,
        "PAGE_SHIFT": spec.page_size_bytes.bit_length() - 1,
        "NR_CPUS": spec.cpus,
        "NR_NODES": spec.nodes,
        "CACHE_LINE_BYTES": spec.line_bytes,
        "WORD_BYTES": spec.word_bytes,
        "NR_PAGE_FRAMES": top,
        "OBJECTS_PER_CPU": objects_per_cpu,
    }
    target = Target(spec.word_bytes, constants, top * spec.page_size_bytes, spec.line_bytes)
    try:
        # One at a time: CPython 3.11 loses count of its recursion when two threads build syntax trees.
        with _COMPILING:
            program = compile_program(variant.sources(), target, {**variant.options, **options})
    except KernelLanguageError as error:
        if error.line == 0:
            raise _wrong_option(variant, options, error) from error
        raise
    names = {function.name for function in program.functions}
    missing = [f"function {name}" for name in NEEDED_FUNCTIONS if name not in names]
    missing += [f"global {name}" for name in NEEDED_GLOBALS if name not in program.globals]
    if missing:
        raise UserError(
            f"{variant.name}: the kernel file lacks {', '.join(missing)}; compare it with slub.py"
        )
    return program


def _wrong_option(
    variant: KernelVariant, options: Mapping[str, int], error: KernelLanguageError
) -> UserError:
    """The complaint about an option, with the boot parameters among the known ones."""
    listed = str(error).rsplit("known options: ", 1)
    if len(listed) < 2:
        return RequestError(f"kernel {variant.name}: {error}")
    known = [*listed[1].rstrip(")").split(", "), *ORDER_OPTIONS]
    wrong = next((name for name in options if name not in known), "")
    return unknown_name(f"option of kernel {variant.name}:", wrong, known)


def boot(
    spec: MachineSpec,
    variant: KernelVariant,
    *,
    pages_per_node: int,
    objects_per_cpu: int,
    seed: int,
    options: Mapping[str, int] | None = None,
    orders: OrderOptions | None = None,
) -> BootedKernel:
    """A machine with the kernel started.

    Parameters
    ----------
    spec : the machine
    variant : the kernel
    pages_per_node : pages that the workload needs on a node at the worst
    objects_per_cpu : pointers that the workload keeps per CPU
    seed : decides which memory is fragmented
    options : overrides of the kernel's options
    orders : slub_min_order, slub_max_order, slub_min_objects; None for the kernel's defaults

    Raises
    ------
    UserError
        If the kernel does not compile or the memory is too large.
    """
    frames, nodes = memory_plan(spec, pages_per_node)
    program = compile_kernel(spec, variant, frames, objects_per_cpu, options or {})
    image = ProgramImage(
        program.code,
        tuple(f.entry_pc for f in program.functions),
        tuple(f.window_words for f in program.functions),
        len(program.counters),
    )
    static_bytes = program.static_end - program.static_base
    noted = program.globals["mem_map"].address + program.globals["mem_map"].size_bytes - program.static_base
    plan = MemoryPlan(BLOCK_PAGES, frames, program.static_base, static_bytes, nodes, noted)
    machine = Machine(spec, image, plan)
    kernel = BootedKernel(
        machine,
        program,
        KernelMemory(machine, program),
        variant,
        orders or OrderOptions.default(spec.page_size_bytes),
    )
    _start_page_allocator(kernel, seed)
    _start_slub(kernel)
    return kernel


# --- page allocator --------------------------------------------------------------------------------


def _free_blocks(first_frame: int, blocks: int, seed: int, node: int) -> list[tuple[int, int]]:
    """(frame, order) of the free blocks of a node, in the order in which they lie on the lists."""
    fragmented = _hashes(seed, 2 * node, blocks) < np.uint64(int(FRAGMENTED_SHARE * 2**64))
    free: list[tuple[int, int]] = []
    for block in range(blocks):
        frame = first_frame + block * BLOCK_PAGES
        if not fragmented[block]:
            free.append((frame, MAX_ORDER - 1))
            continue
        groups = BLOCK_PAGES // FRAGMENT_PAGES
        usable = (_hashes(seed, 1_000_000 + frame, groups) & np.uint64(1)).astype(bool)
        free.extend(_buddies(frame, usable))
    order_of = _hashes(seed, 2 * node + 1, len(free))
    return [free[i] for i in np.argsort(order_of, kind="stable")]


def _buddies(frame: int, usable: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Largest aligned blocks of a 1024-page block of which some groups are usable."""
    if usable.all():
        return [(frame, (len(usable) * FRAGMENT_PAGES).bit_length() - 1)]
    if not usable.any():
        return []
    half = len(usable) // 2
    return _buddies(frame, usable[:half]) + _buddies(frame + half * FRAGMENT_PAGES, usable[half:])


def _start_page_allocator(kernel: BootedKernel, seed: int) -> None:
    spec, memory, program = kernel.machine.spec, kernel.memory, kernel.program
    plan = kernel.machine.memory
    pages = memory.global_structs("mem_map")
    page_bytes = program.struct("page").size_bytes
    lru = program.struct("page").fields["lru"].offset_bytes
    map_address = memory.global_address("mem_map")
    per_node = plan.page_frames // spec.nodes
    pages["flags"][plan.first_frame :] = plan.node_of_frame.astype(np.uint64) << np.uint64(NODE_SHIFT)
    pages["inuse"][plan.first_frame :] = -1  # the map count of a page that nobody maps
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
        for frame, order in _free_blocks(first, per_node // BLOCK_PAGES, seed, node):
            pages[frame]["flags"] |= 1 << PG_BUDDY
            pages[frame]["private"] = order
            lists[order].append(map_address + frame * page_bytes + lru)
        zone["nr_free_pages"] = sum(len(entries) << order for order, entries in lists.items())
        for order, entries in lists.items():
            area = address + areas + order * area_bytes
            _link(memory, area, entries)
            memory.one(area, "free_area")["nr_free"] = len(entries)
    _start_pagesets(kernel)


def _link(memory: KernelMemory, head: int, entries: list[int]) -> None:
    """A circular list of list_heads: head, then the entries in order."""
    ring = [head, *entries]
    for here, following in zip(ring, [*ring[1:], head], strict=True):
        memory.one(here, "list_head")["next"] = following
        memory.one(following, "list_head")["prev"] = here


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
            _link(memory, address + list_offset, [])


# --- SLUB ------------------------------------------------------------------------------------------------


def _start_slub(kernel: BootedKernel) -> None:
    spec, program = kernel.machine.spec, kernel.program
    sizes = kmalloc_cache_sizes(spec.page_size_bytes)
    empty = 1 if "PATCH_06" in program.options and program.options["PATCH_06"].value else 0
    for index, size in sizes.items():
        _start_cache(kernel, index, size, empty)
    table = program.globals["size_index"]
    for entry in range(table.count):
        served = kmalloc_index(8 * (entry + 1), spec.page_size_bytes)
        kernel.machine.write(table.address + entry * table.stride_bytes, served or 0, 4)


def _start_cache(kernel: BootedKernel, index: int, size: int, empty: int) -> None:
    spec, memory, program = kernel.machine.spec, kernel.memory, kernel.program
    geometry = slab_geometry(size, spec.page_size_bytes, kernel.orders)
    address = kernel.cache_address(index)
    cache = memory.one(address, "kmem_cache")
    node_struct = program.struct("kmem_cache_node")
    partial = node_struct.fields["partial"].offset_bytes
    cache["size"] = cache["objsize"] = cache["inuse"] = size
    cache["order"] = geometry.order
    cache["objects"] = geometry.objects
    cache["refcount"] = 1
    cache["align"] = spec.word_bytes
    cache["defrag_ratio"] = 100
    local = memory.field_address(address, "kmem_cache", "local_node")
    _link(memory, local + partial, [])
    nodes = []
    for node in range(spec.nodes):
        structure = memory.global_address("cache_nodes", node) + index * node_struct.size_bytes
        _link(memory, structure + partial, [])
        nodes.append(structure if spec.nodes > 1 else local)
    cache["node"] = nodes if spec.nodes > 1 else nodes[0]
    per_cpu = program.struct("kmem_cache_cpu").size_bytes
    cpus = []
    for cpu in range(spec.cpus):
        structure = memory.global_address("cache_cpus", cpu) + index * per_cpu
        slab = memory.one(structure, "kmem_cache_cpu")
        slab["freelist"] = empty
        slab["objsize"] = size
        slab["objects"] = geometry.objects
        cpus.append(structure)
    cache["cpu_slab"] = cpus if spec.cpus > 1 else cpus[0]
