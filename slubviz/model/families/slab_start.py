"""The kmalloc caches of SLAB after start-up: what a kernel program must have for it, and their structures.

``check_contract`` refuses a user's allocator file that lacks something before anything is written into
memory; it leaves out the types of the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slubviz.model.errors import UserError
from slubviz.model.families.contract import Needs
from slubviz.model.families.slab_geometry import (
    Shape,
    cache_index,
    malloc_sizes,
    queue_sizes,
    slab_layout,
)
from slubviz.model.lang import Program

if TYPE_CHECKING:
    from slubviz.model.booted import BootedKernel

NEEDED_FUNCTIONS = ("kmalloc", "kfree")
NEEDED_CONSTANTS = ("BUFCTL_END", "CFLGS_OFF_SLAB", "REAPTIMEOUT_LIST3", "ALIEN_LIMIT")
NEEDED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "slab": ("list", "colouroff", "s_mem", "inuse", "free", "nodeid"),
    "array_cache": ("avail", "limit", "batchcount", "touched", "lock", "entry"),
    "kmem_list3": (
        "slabs_partial", "slabs_full", "slabs_free", "free_objects", "free_limit", "colour_next",
        "list_lock", "shared", "alien", "next_reap", "free_touched",
    ),
    "kmem_cache": (
        "array", "batchcount", "limit", "shared", "buffer_size", "reciprocal_buffer_size", "flags", "num",
        "gfporder", "colour", "colour_off", "slabp_cache", "slab_size", "next", "nodelists",
    ),
    "cache_sizes": ("cs_size", "cs_cachep"),
}  # fmt: skip
#: Global -> the struct of which it holds one for every kmalloc cache (for each CPU or node).
_TABLES = {
    "kmalloc_caches": "kmem_cache",
    "cpu_arrays": "cpu_array",
    "cache_list3": "kmem_list3",
    "shared_arrays": "shared_array",
    "alien_caches": "alien_arrays",
    "alien_tables": "alien_table",
}
NEEDED_GLOBALS = (*_TABLES, "malloc_sizes", "cache_chain", "reap_node")
#: Lists of slabs of a node.
LISTS = ("slabs_partial", "slabs_full", "slabs_free")

_NEEDS = Needs("slab", NEEDED_FUNCTIONS, NEEDED_GLOBALS, NEEDED_FIELDS, _TABLES.values(), NEEDED_CONSTANTS)


def check_contract(kernel: str, program: Program, shape: Shape) -> None:
    """Refuse a kernel program that cannot be booted.

    Parameters
    ----------
    kernel : name for the message
    program : the compiled program
    shape : decides how many kmalloc caches there are and how long their arrays

    Raises
    ------
    UserError
        One line: what the kernel file lacks.
    """
    _NEEDS.check(kernel, program)
    if program.struct("slab").size_bytes != shape.slab_struct_bytes:
        raise UserError(
            f"{kernel}: struct slab has {program.struct('slab').size_bytes} bytes; the layout of slabs "
            f"counts on {shape.slab_struct_bytes}: {_NEEDS.advice}"
        )
    _check_room(kernel, program, shape)


def _check_room(kernel: str, program: Program, shape: Shape) -> None:
    caches = len(malloc_sizes(shape))
    _NEEDS.check_room(kernel, program, _TABLES, caches)
    _NEEDS.check_room(kernel, program, {"malloc_sizes": "cache_sizes"}, caches + 1)
    queues = [queue_sizes(size, shape) for size in malloc_sizes(shape)]
    first = program.struct("array_cache").fields["entry"].offset_bytes
    for struct, entries in (
        ("cpu_array", max(q.limit for q in queues)),
        ("shared_array", max(q.shared_entries for q in queues)),
        ("alien_array", program.constants["ALIEN_LIMIT"]),
    ):
        size = program.structs[struct].size_bytes if struct in program.structs else 0
        if size < first + entries * shape.word_bytes:
            raise UserError(f"{kernel}: struct {struct} is too small for {entries} entries; {_NEEDS.advice}")


def start_caches(kernel: BootedKernel) -> None:
    """All kmalloc caches empty, as after start-up; the table of sizes filled, the newest cache first on the
    cache chain."""
    from slubviz.model.booted import link  # loads the machine

    shape, memory, program = Shape.of(kernel.machine.spec), kernel.memory, kernel.program
    sizes = malloc_sizes(shape)
    for index, size in enumerate(sizes):
        _start_cache(kernel, index, size)
    rows = memory.array(program.globals["malloc_sizes"].address, "cache_sizes", len(sizes) + 1)
    for index, size in enumerate(sizes):
        rows[index]["cs_size"] = size
        rows[index]["cs_cachep"] = kernel.cache_address(index)
    rows[len(sizes)]["cs_size"] = (1 << (63 if shape.word_bytes == 8 else 32)) - 1
    entries = [memory.field_address(kernel.cache_address(i), "kmem_cache", "next") for i in range(len(sizes))]
    link(memory, memory.global_address("cache_chain"), entries[::-1])
    spec = kernel.machine.spec
    for cpu in range(spec.cpus):
        after = (cpu // spec.cpus_per_node + 1) % spec.nodes
        kernel.machine.write(memory.global_address("reap_node", cpu), after, spec.word_bytes)


def _start_cache(kernel: BootedKernel, index: int, size: int) -> None:
    spec, memory = kernel.machine.spec, kernel.memory
    shape = Shape.of(spec)
    layout, queues = slab_layout(size, shape), queue_sizes(size, shape)
    cache = memory.one(kernel.cache_address(index), "kmem_cache")
    cache["batchcount"], cache["limit"] = queues.batch, queues.limit
    cache["shared"] = queues.shared_entries // queues.batch
    cache["buffer_size"] = size
    cache["reciprocal_buffer_size"] = -(-(1 << 32) // size)
    cache["flags"] = kernel.program.constants["CFLGS_OFF_SLAB"] if layout.off_slab else 0
    cache["num"], cache["gfporder"] = layout.objects, layout.order
    cache["colour"], cache["colour_off"] = layout.colours, layout.colour_bytes
    cache["slab_size"] = layout.management_bytes
    if layout.off_slab:
        serving = cache_index(layout.management_bytes, shape)
        assert serving is not None  # a structure and a few indices
        cache["slabp_cache"] = kernel.cache_address(serving)
    step = kernel.program.struct("cpu_array").size_bytes
    arrays = [memory.global_address("cpu_arrays", cpu) + index * step for cpu in range(spec.cpus)]
    for address in arrays:
        _start_array(kernel, address, queues.limit, queues.batch)
    cache["array"] = arrays if spec.cpus > 1 else arrays[0]
    step = kernel.program.struct("kmem_list3").size_bytes
    nodes = [memory.global_address("cache_list3", node) + index * step for node in range(spec.nodes)]
    for node in range(spec.nodes):
        _start_node(kernel, index, size, node, nodes[node])
    cache["nodelists"] = nodes if spec.nodes > 1 else nodes[0]


def _start_array(kernel: BootedKernel, address: int, limit: int, batch: int) -> None:
    array = kernel.memory.one(address, "array_cache")
    array["limit"], array["batchcount"] = limit, batch


def _start_node(kernel: BootedKernel, index: int, size: int, node: int, address: int) -> None:
    from slubviz.model.booted import link

    spec, memory, constants = kernel.machine.spec, kernel.memory, kernel.program.constants
    shape = Shape.of(spec)
    layout, queues = slab_layout(size, shape), queue_sizes(size, shape)
    lists = memory.one(address, "kmem_list3")
    for name in LISTS:
        link(memory, memory.field_address(address, "kmem_list3", name), [])
    cpus = min(spec.cpus_per_node, spec.cpus - node * spec.cpus_per_node)
    lists["free_limit"] = (1 + cpus) * queues.batch + layout.objects
    wait = constants["REAPTIMEOUT_LIST3"]
    lists["next_reap"] = wait + kernel.cache_address(index) % max(wait, 1)
    if queues.shared_entries:
        step = kernel.program.struct("shared_array").size_bytes
        shared = memory.global_address("shared_arrays", node) + index * step
        _start_array(kernel, shared, queues.shared_entries, 0)
        lists["shared"] = shared
    if spec.nodes > 1 and constants["ALIEN_LIMIT"]:
        lists["alien"] = _start_aliens(
            kernel, index, node, alien_limit(queues.limit, constants["ALIEN_LIMIT"])
        )


def alien_limit(limit: int, most: int) -> int:
    """Limit of the alien caches of a cache, from that of its CPUs' arrays: the same for all but 1."""
    return most if limit > 1 else min(limit, most)


def _start_aliens(kernel: BootedKernel, index: int, node: int, limit: int) -> int:
    """A node's alien caches of one cache; returns the address of their table."""
    spec, memory, program = kernel.machine.spec, kernel.memory, kernel.program
    table = memory.global_address("alien_tables", node) + index * program.struct("alien_table").size_bytes
    arrays = memory.global_address("alien_caches", node) + index * program.struct("alien_arrays").size_bytes
    step = program.struct("alien_array").size_bytes
    for other in range(spec.nodes):
        if other != node:
            _start_array(kernel, arrays + other * step, limit, 0)
            kernel.machine.write(table + other * spec.word_bytes, arrays + other * step, spec.word_bytes)
    return table
