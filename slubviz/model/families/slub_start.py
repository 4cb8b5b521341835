"""The kmalloc caches of SLUB after start-up: what a kernel program must have for it, and their structures.

``check_contract`` refuses a user's allocator file that lacks something before anything is written into
memory; it leaves out the types of the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slubviz.model.errors import UserError
from slubviz.model.families.contract import Needs
from slubviz.model.geometry import slab_geometry
from slubviz.model.lang import Program

if TYPE_CHECKING:
    from slubviz.model.booted import BootedKernel

NEEDED_FUNCTIONS = ("kmalloc", "kfree")
NEEDED_GLOBALS = ("kmalloc_caches", "size_index", "cache_cpus", "cache_nodes")
NEEDED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "kmem_cache": (
        "size",
        "objsize",
        "inuse",
        "order",
        "objects",
        "refcount",
        "align",
        "defrag_ratio",
        "local_node",
        "node",
        "cpu_slab",
    ),
    "kmem_cache_cpu": ("freelist", "page", "objsize", "objects"),
    "kmem_cache_node": ("partial", "nr_partial", "nr_slabs"),
}
#: Global -> the struct of which it holds one for every kmalloc cache (for each CPU or node).
_TABLES = {
    "kmalloc_caches": "kmem_cache",
    "cache_cpus": "kmem_cache_cpu",
    "cache_nodes": "kmem_cache_node",
}

_NEEDS = Needs("slub", NEEDED_FUNCTIONS, NEEDED_GLOBALS, NEEDED_FIELDS)


def check_contract(kernel: str, program: Program, caches: int, largest_bytes: int) -> None:
    """Refuse a kernel program that cannot be booted.

    Parameters
    ----------
    kernel : name for the message
    program : the compiled program
    caches : length of ``kmalloc_caches``
    largest_bytes : object size of the largest of them

    Raises
    ------
    UserError
        One line: what the kernel file lacks.
    """
    _NEEDS.check(kernel, program)
    largest = program.constants.get("KMALLOC_MAX", largest_bytes)
    if largest != largest_bytes:
        raise UserError(
            f"{kernel}: kmalloc caches go up to {largest} bytes in the kernel file, the boot makes them up "
            f"to {largest_bytes}; KMALLOC_4K belongs to files based on kernel slub-2.6.25"
        )
    _NEEDS.check_room(kernel, program, _TABLES, caches)


def start_caches(kernel: BootedKernel) -> None:
    """All kmalloc caches empty, as after start-up; ``size_index`` filled."""
    spec, program = kernel.machine.spec, kernel.program
    if "EMPTY_FREELIST" not in program.constants:
        raise UserError(
            f"{kernel.variant.name}: the kernel file lacks constant EMPTY_FREELIST, the freelist of a CPU "
            "without a slab; compare it with what slubviz source slub prints"
        )
    empty = program.constants["EMPTY_FREELIST"]
    for index, size in kernel.family.cache_sizes(spec).items():
        _start_cache(kernel, index, size, empty)
    table = program.globals["size_index"]
    for entry in range(table.count):
        served = kernel.family.cache_index(8 * (entry + 1), spec)
        kernel.machine.write(table.address + entry * table.stride_bytes, served or 0, 4)


def _start_cache(kernel: BootedKernel, index: int, size: int, empty: int) -> None:
    from slubviz.model.booted import link  # loads the machine

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
    link(memory, local + partial, [])
    nodes = []
    for node in range(spec.nodes):
        structure = memory.global_address("cache_nodes", node) + index * node_struct.size_bytes
        link(memory, structure + partial, [])
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
