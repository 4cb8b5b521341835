"""Memory layout of structs and globals: C's natural alignment, globals on cache lines of their own.

Left out: bit fields, packed structs, C's ``long double`` and other types no allocator uses.
"""

from __future__ import annotations

import ast

from slubviz.model.lang import constants
from slubviz.model.lang.errors import did_you_mean
from slubviz.model.lang.program import Field, Global, Struct
from slubviz.model.lang.source import Source
from slubviz.model.lang.types import Array, Pointer, Scalar, StructRef, Type
from slubviz.model.lang.unit import GlobalDecl, StructDecl, Unit


def round_up(value: int, step: int) -> int:
    """The first multiple of ``step`` that is not below ``value``."""
    return -(-value // step) * step


def size_of(unit: Unit, source: Source, node: ast.AST, kind: Type) -> int:
    """Bytes that a type takes in memory; ``node`` is where an error points."""
    if isinstance(kind, Scalar):
        return kind.size_bytes
    if isinstance(kind, Pointer):
        return unit.target.word_bytes
    if isinstance(kind, Array):
        return kind.count * size_of(unit, source, node, kind.element)
    return struct_layout(unit, source, node, kind.name).size_bytes


def align_of(unit: Unit, source: Source, node: ast.AST, kind: Type) -> int:
    """Alignment of a type in bytes."""
    if isinstance(kind, Array):
        return align_of(unit, source, node, kind.element)
    if isinstance(kind, StructRef):
        return struct_layout(unit, source, node, kind.name).align
    return size_of(unit, source, node, kind)


def element_of(kind: Type) -> tuple[str, int]:
    """Name and number of the elements: ``("word", 4)`` for an array, ``("word", 1)`` for a scalar."""
    return (kind.element.name, kind.count) if isinstance(kind, Array) else (kind.name, 1)


def struct_layout(unit: Unit, source: Source, node: ast.AST, name: str) -> Struct:
    """The layout of a struct, worked out when first asked for."""
    done = unit.structs.get(name)
    if done is not None:
        return done
    decl = unit.struct_decls[name]
    if decl.busy:
        raise source.error(node, f"struct {name} contains itself", f"use a pointer: ptr[{name}]")
    decl.busy = True
    unit.structs[name] = struct = _lay_out(unit, decl)
    decl.busy = False
    return struct


def _lay_out(unit: Unit, decl: StructDecl) -> Struct:
    source, fields, offset, align = decl.source, dict[str, Field](), 0, 1
    for statement in _field_statements(decl):
        assert isinstance(statement.target, ast.Name)
        name = statement.target.id
        if name in fields:
            raise source.error(statement.target, f"field {name} is defined twice in struct {decl.node.name}")
        kind = constants.read_type(unit, source, statement.annotation, embed=True)
        size = size_of(unit, source, statement.annotation, kind)
        alignment = align_of(unit, source, statement.annotation, kind)
        if statement.value is None:
            place = round_up(offset, alignment)
        else:
            place = _place_at(source, statement.value, fields, alignment)
        element, count = element_of(kind)
        fields[name] = Field(name, place, size, element, count, kind)
        offset, align = max(offset, place + size), max(align, alignment)
    align = _fixed_align(unit, decl, align)
    return Struct(decl.node.name, _fixed_size(unit, decl, round_up(offset, align), align), align, fields)


def _field_statements(decl: StructDecl) -> list[ast.AnnAssign]:
    """The fields of a struct; refuses anything else in its body."""
    fields = []
    body = decl.node.body[1:] if ast.get_docstring(decl.node) is not None else decl.node.body
    for statement in body:
        if isinstance(statement, ast.Pass):
            continue
        if isinstance(statement, ast.FunctionDef):
            hint = "define the function outside and pass it a pointer"
            raise decl.source.error(statement, "a struct has no methods", hint)
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            raise decl.source.error(statement, "a struct holds fields only", "write name: type")
        fields.append(statement)
    return fields


def _place_at(source: Source, node: ast.expr, fields: dict[str, Field], alignment: int) -> int:
    """The offset that ``at("field")`` names."""
    if not (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "at"
        and len(node.args) == 1
        and not node.keywords
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ):
        raise source.error(
            node, "a field has no initial value", 'only name: type = at("other_field") is possible'
        )
    other = node.args[0].value
    if other not in fields:
        hint = did_you_mean(other, fields, "name a field defined above")
        raise source.error(node, f"no earlier field {other}", hint)
    place = fields[other].offset_bytes
    if place % alignment:
        raise source.error(node, f"offset {place} of {other} is not aligned to {alignment} bytes")
    return place


def _fixed_align(unit: Unit, decl: StructDecl, natural: int) -> int:
    if decl.align is None:
        return natural
    align = constants.evaluate(unit, decl.source, decl.align)
    if align < natural or align & (align - 1):
        hint = f"a power of two from {natural} on"
        raise decl.source.error(decl.align, f"struct {decl.node.name} cannot be aligned to {align}", hint)
    return align


def _fixed_size(unit: Unit, decl: StructDecl, natural: int, align: int) -> int:
    if decl.size is None:
        return natural
    size = constants.evaluate(unit, decl.source, decl.size)
    if size < natural or size % align:
        hint = f"at least {natural} and a multiple of {align}"
        raise decl.source.error(decl.size, f"struct {decl.node.name} cannot have {size} bytes", hint)
    return size


def find_field(unit: Unit, source: Source, node: ast.AST, struct: str, name: str) -> Field:
    """A field of a struct; an unknown one is an error that names the nearest."""
    layout = struct_layout(unit, source, node, struct)
    found = layout.fields.get(name)
    if found is None:
        hint = did_you_mean(name, layout.fields, f"fields: {', '.join(layout.fields) or 'none'}")
        raise source.error(node, f"struct {struct} has no field {name}", hint)
    return found


def offset_of_path(unit: Unit, source: Source, struct: str, path: ast.expr) -> tuple[int, Type]:
    """Offset and type of ``field`` or ``field.inner`` in a struct."""
    if isinstance(path, ast.Name):
        field = find_field(unit, source, path, struct, path.id)
        return field.offset_bytes, field.shape
    if not isinstance(path, ast.Attribute):
        raise source.error(path, "the name of a field is expected")
    offset, kind = offset_of_path(unit, source, struct, path.value)
    if not isinstance(kind, StructRef):
        raise source.error(path, f"{kind.name} has no fields")
    field = find_field(unit, source, path, kind.name, path.attr)
    return offset + field.offset_bytes, field.shape


def lay_out_globals(unit: Unit) -> int:
    """Give every global its address, in order of declaration.

    Returns
    -------
    int
        The first address after them, on a cache line.
    """
    line = unit.target.line_bytes
    address = round_up(unit.target.static_base, line)
    for decl in unit.global_decls.values():
        made = _lay_out_global(unit, decl, address)
        unit.globals[decl.name] = made
        address = round_up(made.address + made.size_bytes, line)
    return address


def _lay_out_global(unit: Unit, decl: GlobalDecl, address: int) -> Global:
    kind = constants.read_type(unit, decl.source, decl.annotation, embed=True)
    size = size_of(unit, decl.source, decl.annotation, kind)
    align = align_of(unit, decl.source, decl.annotation, kind)
    address = round_up(address, align)
    if not decl.per:
        element, count = element_of(kind)
        stride = size // count if count else 0
        return Global(decl.name, address, element, size, count, stride, "", kind)
    constant = "NR_CPUS" if decl.per == "cpu" else "NR_NODES"
    if constant not in unit.target.constants:
        raise decl.source.error(decl.node, f"the target does not say {constant}")
    count = unit.target.constants[constant]
    step = max(unit.target.element_align_bytes or unit.target.line_bytes, align)
    address, stride = round_up(address, step), round_up(size, step)
    return Global(decl.name, address, kind.name, count * stride, count, stride, decl.per, kind)
