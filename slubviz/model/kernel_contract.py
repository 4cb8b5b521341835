"""What the boot, the workloads and the checks need of a kernel program: functions, globals, fields.

A user's allocator file may lack any of it, or make a table smaller than the boot fills; ``check_contract``
says so before anything is written into memory.  Leaves out the types of the fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from slubviz.model.errors import UserError
from slubviz.model.geometry import kmalloc_cache_sizes
from slubviz.model.lang import Program

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


def check_contract(kernel: str, program: Program, page_size_bytes: int) -> None:
    """Refuse a kernel program that cannot be booted.

    Parameters
    ----------
    kernel : name for the message
    program : the compiled program
    page_size_bytes : decides how many kmalloc caches there are

    Raises
    ------
    UserError
        One line: what the kernel file lacks.
    """
    names = {function.name for function in program.functions}
    missing = [f"function {name}" for name in NEEDED_FUNCTIONS if name not in names]
    missing += [f"global {name}" for name in NEEDED_GLOBALS if name not in program.globals]
    for struct, fields in NEEDED_FIELDS.items():
        if struct not in program.structs:
            missing.append(f"struct {struct}")
            continue
        present = program.structs[struct].fields
        missing += [f"field {struct}.{name}" for name in fields if name not in present]
    if missing:
        raise UserError(f"{kernel}: the kernel file lacks {', '.join(missing)}; compare it with slub.py")
    caches = max(kmalloc_cache_sizes(page_size_bytes)) + 1
    for name, struct in _TABLES.items():
        variable = program.globals[name]
        room = variable.stride_bytes if variable.per else variable.size_bytes
        if room < caches * program.structs[struct].size_bytes:
            raise UserError(
                f"{kernel}: global {name} is too small: the boot fills {caches} structures {struct} in it; "
                "compare it with slub.py"
            )
