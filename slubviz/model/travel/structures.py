"""Structures in a machine's memory by type: what lies at an address, and the word at a path.

Works on the layouts of the running program alone; which slab an address belongs to is said in ``places``.
"""

from __future__ import annotations

from dataclasses import dataclass

from slubviz.hw.machine import Machine
from slubviz.model.booted import BootedKernel
from slubviz.model.lang import Program
from slubviz.model.lang.types import Array, Pointer, Scalar, StructRef, Type


@dataclass(frozen=True)
class Located:
    """Something with a type at an address."""

    path: str  #: "cache_cpus[0].slot[6].freelist"
    type: Type
    address: int

    @property
    def struct(self) -> str:
        """Name of the struct, or "" if it is none."""
        return self.type.name if isinstance(self.type, StructRef) else ""


def size_of(program: Program, type_: Type) -> int:
    """Bytes of a value of a type in memory."""
    match type_:
        case Scalar():
            return type_.size_bytes
        case Pointer():
            return program.target.word_bytes
        case StructRef():
            return program.structs[type_.name].size_bytes
        case Array():
            return size_of(program, type_.element) * type_.count


def located(program: Program, address: int) -> tuple[Located, ...]:
    """What contains an address, the outermost first; empty if it is in no global.

    Of fields that lie over one another the first counts.
    """
    for variable in program.globals.values():
        offset = address - variable.address
        if not 0 <= offset < variable.size_bytes:
            continue
        if not variable.per:
            return tuple(_inside(program, Located(variable.name, variable.shape, variable.address), address))
        element, rest = divmod(offset, variable.stride_bytes)
        if rest >= size_of(program, variable.shape):
            return ()  # the space between two elements
        start = variable.address + element * variable.stride_bytes
        return tuple(_inside(program, Located(f"{variable.name}[{element}]", variable.shape, start), address))
    return ()


def _inside(program: Program, outer: Located, address: int) -> list[Located]:
    found = [outer]
    offset = address - outer.address
    match outer.type:
        case Array(element=element, count=count):
            each = size_of(program, element)
            index = offset // each
            if index < count:
                start = outer.address + index * each
                found += _inside(program, Located(f"{outer.path}[{index}]", element, start), address)
        case StructRef(name=name):
            for field in program.structs[name].fields.values():
                if 0 <= offset - field.offset_bytes < field.size_bytes:
                    start = outer.address + field.offset_bytes
                    inner = Located(f"{outer.path}.{field.name}", field.shape, start)
                    return found + _inside(program, inner, address)
        case _:
            pass
    return found


def read_value(machine: Machine, program: Program, address: int, type_: Type) -> int:
    """The value of a scalar or pointer at an address.

    Raises
    ------
    MachineError
        If nothing is stored there.
    """
    size = size_of(program, type_)
    signed = isinstance(type_, Scalar) and type_.signed
    return machine.read(address, size, signed=signed)


def read_field(kernel: BootedKernel, address: int, struct: str, field: str) -> int:
    """A scalar field of the struct at an address, in static memory or in a page.

    Raises
    ------
    MachineError
        If nothing is stored there.
    KeyError
        If the program has no such struct or field.
    """
    found = kernel.program.struct(struct).fields[field]
    return read_value(kernel.machine, kernel.program, address + found.offset_bytes, found.shape)
