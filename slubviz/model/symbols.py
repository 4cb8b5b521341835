"""Names for addresses: ``mem_map[812].flags``, and the words people use for the well-known locks."""

from __future__ import annotations

import re

from slubviz.model.booted import BootedKernel
from slubviz.model.lang import Program

_ZONE_LOCK = re.compile(r"zones\[(\d+)\]\.lock$")
_PAGE_FLAGS = re.compile(r"mem_map\[(\d+)\]\.flags$")


def address_path(program: Program, address: int) -> str:
    """The global, element and field at an address; the address itself when it is in no global."""
    for variable in program.globals.values():
        offset = address - variable.address
        if not 0 <= offset < variable.size_bytes:
            continue
        element, rest = divmod(offset, variable.stride_bytes)
        path = variable.name + (f"[{element}]" if variable.count > 1 or variable.per else "")
        return path + _inside(program, variable.type, rest)
    return f"{address:#x}"


def _inside(program: Program, type_name: str, offset: int) -> str:
    array = re.match(r"array\[(\w+),", type_name)
    if array and array[1] in program.structs:
        element, rest = divmod(offset, program.structs[array[1]].size_bytes)
        return f"[{element}]" + _inside(program, array[1], rest)
    struct = program.structs.get(type_name)
    if struct is None:
        return ""
    for field in struct.fields.values():
        rest = offset - field.offset_bytes
        if 0 <= rest < field.size_bytes:
            each = field.size_bytes // field.count
            element, rest = divmod(rest, each)
            index = f"[{element}]" if field.count > 1 else ""
            return f".{field.name}{index}" + _inside(program, field.type, rest)
    return ""


def lock_name(kernel: BootedKernel, address: int) -> str:
    """What people call a lock, e.g. ``zone->lock node 0`` or ``slab_lock page 1812``."""
    path = address_path(kernel.program, address)
    if match := _ZONE_LOCK.match(path):
        return f"zone->lock node {match[1]}"
    if match := _PAGE_FLAGS.match(path):
        return f"slab_lock page {match[1]}"
    return kernel.family.lock_name(kernel, path) or path
