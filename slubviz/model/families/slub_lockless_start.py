"""The caches of lockless SLUB after start-up: what a kernel program must have for it, and their structures.

As ``slub_start``, for the structures of ``slub_lockless.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slubviz.model.families import slub_lockless_geometry as geometry
from slubviz.model.families.contract import Needs
from slubviz.model.lang import Program

if TYPE_CHECKING:
    from slubviz.model.booted import BootedKernel

NEEDED_FUNCTIONS = ("kmalloc", "kfree")
NEEDED_CONSTANTS = ("ORDER_SHIFT",)
NEEDED_OPTIONS = ("MIN_PARTIAL", "CPU_PARTIAL", "CPU_PARTIAL_OBJECTS")
NEEDED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "kmem_cache": (
        "cpu_slab",
        "min_partial",
        "size",
        "objsize",
        "cpu_partial",
        "oo",
        "max",
        "min",
        "refcount",
        "inuse",
        "align",
        "remote_node_defrag_ratio",
        "node",
    ),
    "kmem_cache_cpu": ("freelist", "tid", "page", "partial"),
    "kmem_cache_node": ("partial", "nr_partial", "nr_slabs", "total_objects"),
    "page": ("freelist", "counters", "slab_counters", "chain"),
}
#: Global -> the struct of which it holds one for every cache (for each CPU or node).
TABLES = {
    "kmalloc_caches": "kmem_cache",
    "cache_cpus": "kmem_cache_cpu",
    "cache_nodes": "kmem_cache_node",
}
NEEDED_GLOBALS = (*TABLES, "kmalloc_table", "size_index")
REMOTE_NODE_DEFRAG_RATIO = 1000

_NEEDS = Needs(
    "slub-cpu-partial",
    NEEDED_FUNCTIONS,
    NEEDED_GLOBALS,
    NEEDED_FIELDS,
    constants=NEEDED_CONSTANTS,
    options=NEEDED_OPTIONS,
)


def check_contract(kernel: str, program: Program, page_size_bytes: int) -> None:
    """Refuse a kernel program that cannot be booted.

    Parameters
    ----------
    kernel : name for the message
    program : the compiled program
    page_size_bytes : decides how many caches there are

    Raises
    ------
    UserError
        One line: what the kernel file lacks.
    """
    _NEEDS.check(kernel, program)
    caches = max(geometry.cache_sizes(page_size_bytes)) + 1
    _NEEDS.check_room(kernel, program, TABLES, caches)


def start_caches(kernel: BootedKernel) -> None:
    """All caches empty, as after start-up; the tables of caches and sizes filled."""
    spec, program, machine = kernel.machine.spec, kernel.program, kernel.machine
    table = program.globals["kmalloc_table"]
    for index, size in geometry.cache_sizes(spec.page_size_bytes).items():
        _start_cache(kernel, index, size)
        machine.write(table.address + index * spec.word_bytes, kernel.cache_address(index), spec.word_bytes)
    sizes = program.globals["size_index"]
    for entry in range(sizes.count):
        served = geometry.cache_index(8 * (entry + 1), spec.page_size_bytes)
        machine.write(sizes.address + entry * sizes.stride_bytes, served or 0, 4)


def _start_cache(kernel: BootedKernel, index: int, size: int) -> None:
    from slubviz.model.booted import link  # loads the machine

    spec, memory, program = kernel.machine.spec, kernel.memory, kernel.program
    options = {name: program.options[name].value for name in NEEDED_OPTIONS}
    address = kernel.cache_address(index)
    cache = memory.one(address, "kmem_cache")
    wanted = geometry.slab_geometry(size, spec.page_size_bytes, kernel.orders)
    smallest = geometry.smallest_slab(size, spec.page_size_bytes)
    shift = program.constants["ORDER_SHIFT"]
    cache["size"] = cache["objsize"] = cache["inuse"] = size
    cache["oo"] = cache["max"] = wanted.order << shift | wanted.objects
    cache["min"] = smallest.order << shift | smallest.objects
    cache["refcount"] = 1
    cache["align"] = spec.word_bytes if index != geometry.PRIVATE_CACHE else spec.line_bytes
    cache["min_partial"] = _given_or(options["MIN_PARTIAL"], geometry.min_partial(size))
    if options["CPU_PARTIAL"]:
        chain = geometry.cpu_partial(size, spec.page_size_bytes)
        cache["cpu_partial"] = _given_or(options["CPU_PARTIAL_OBJECTS"], chain)
    cache["remote_node_defrag_ratio"] = REMOTE_NODE_DEFRAG_RATIO
    node_bytes = program.struct("kmem_cache_node").size_bytes
    nodes = []
    for node in range(spec.nodes):
        structure = memory.global_address("cache_nodes", node) + index * node_bytes
        for field in ("partial", "full"):
            if field in program.struct("kmem_cache_node").fields:
                link(memory, memory.field_address(structure, "kmem_cache_node", field), [])
        nodes.append(structure)
    cache["node"] = nodes if spec.nodes > 1 else nodes[0]
    cpu_bytes = program.struct("kmem_cache_cpu").size_bytes
    cache["cpu_slab"] = memory.global_address("cache_cpus", 0) + index * cpu_bytes
    for cpu in range(spec.cpus):
        structure = memory.global_address("cache_cpus", cpu) + index * cpu_bytes
        memory.one(structure, "kmem_cache_cpu")["tid"] = cpu  # tells CPUs apart if the step is larger


def _given_or(given: int, rule: int) -> int:
    """An option's value, where a negative one stands for the kernel's own rule."""
    return rule if given < 0 else given
