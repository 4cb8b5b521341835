"""Code for expressions: values into registers, places in memory, loads and stores.

Conventions: a destination register is written by the last micro-op of an expression only, so it may
hold an operand of that same expression.  Memory is accessed in the order of the source text.
"""

from __future__ import annotations

import ast

from slubviz.hw.isa import Op
from slubviz.model.lang import calls, conditions, constants, layout, operators
from slubviz.model.lang.arithmetic import fits_immediate, fold_unary, power_of_two, wrap
from slubviz.model.lang.builder import Builder, Label, Place, Value, integer
from slubviz.model.lang.errors import did_you_mean
from slubviz.model.lang.refusals import refuse_expression
from slubviz.model.lang.types import INT, POINTER, Array, Pointer, Scalar, StructRef, Type, merged


# --- values ------------------------------------------------------------------------------------
def value(b: Builder, node: ast.expr, dest: int | None = None) -> Value:
    """Compile an expression.

    Parameters
    ----------
    dest
        Where the last micro-op should leave its result.  Constants, plain locals and sums with a
        constant need no micro-op and ignore it; ``into`` insists.
    """
    if isinstance(node, ast.Constant):
        number = constants.literal(b.source, node)
        return integer(number)
    if isinstance(node, ast.Name):
        found = _name(b, node)
        return found if isinstance(found, Value) else load(b, found, node, dest)
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return load(b, place(b, node), node, dest)
    if isinstance(node, ast.BinOp):
        constants.check_operator(b.source, node, node.op)
        left = value(b, node.left)
        right = value(b, node.right)
        return operators.binary(b, node.op, left, right, node, (node.left, node.right), dest)
    if isinstance(node, ast.UnaryOp):
        return _unary(b, node, dest)
    if isinstance(node, ast.Compare):
        return conditions.compare_value(b, node, dest)
    if isinstance(node, ast.BoolOp):
        return conditions.truth_value(b, node, dest)
    if isinstance(node, ast.IfExp):
        return _choice(b, node, dest)
    if isinstance(node, ast.Call):
        given = calls.call(b, node, dest, wanted=True)
        assert given is not None
        return given
    refuse_expression(b.source, node)
    raise b.error(node, "this is not an expression of the language")


def into(b: Builder, node: ast.expr, dest: int) -> Type:
    """Compile an expression and leave its value in ``dest``; returns its type."""
    result = value(b, node, dest)
    to_register(b, result, node, dest)
    return result.type


def register(b: Builder, node: ast.expr) -> int:
    """Compile an expression; the register that holds its value may be a local's own."""
    return to_register(b, value(b, node), node)


def to_register(b: Builder, given: Value, node: ast.AST, dest: int | None = None) -> int:
    """A register that holds ``given``: its own if it has one and ``dest`` is None, else ``dest``."""
    if given.reg is not None and given.number == 0:
        if dest is None or dest == given.reg:
            return given.reg
        b.emit(Op.MOV, node, a=dest, b=given.reg)
        return dest
    target = b.temporary() if dest is None else dest
    if given.reg is None:
        _load_constant(b, given.number, node, target)
    elif fits_immediate(given.number):
        b.emit(Op.ADDI, node, a=target, b=given.reg, imm=given.number)
    else:
        extra = b.temporary()
        _load_constant(b, given.number, node, extra)
        b.emit(Op.ADD, node, a=target, b=given.reg, c=extra)
    return target


def _load_constant(b: Builder, number: int, node: ast.AST, dest: int) -> None:
    number = wrap(number)
    if fits_immediate(number):
        b.emit(Op.LI, node, a=dest, imm=number)
        return
    low = number & 0xFFFFFFFF
    b.emit(Op.LI64, node, a=dest, imm=low - ((low & 0x80000000) << 1), aux=number >> 32)


def _name(b: Builder, node: ast.Name) -> Value | Place:
    """A local's register, a constant, or a global's place."""
    name = node.id
    local = b.scope.locals.get(name)
    if local is not None:
        if not local.assigned:
            raise b.error(node, f"{name} has no value yet", "assign it first")
        return local.value
    number = constants.named(b.unit, b.source, node, name)
    if number is not None:
        return Value(None, number, POINTER if name == "NULL" else INT)
    made = b.unit.globals.get(name)
    if made is None:
        raise _unknown_name(b, node, name)
    if made.per:
        access = "this_cpu(%s) or per_cpu(%s, cpu)" if made.per == "cpu" else "per_node(%s, node)"
        hint = f"write {access.replace('%s', name)}"
        raise b.error(node, f"{name} exists once for every {made.per}", hint)
    return Place(None, made.address, made.shape)


def _unknown_name(b: Builder, node: ast.Name, name: str) -> Exception:
    if name in b.scope.decl.assigned:
        others = [*b.scope.locals, *b.unit.constant_names(), *b.unit.globals]
        hint = did_you_mean(name, others, "assign it first")
        return b.error(node, f"{name} is used before it is assigned", hint)
    kind = b.unit.kind_of(name)
    if kind == "counter":
        return b.error(node, f"{name} is a counter, not a value", f"write count({name})")
    if kind == "function":
        return b.error(node, f"{name} is a function, not a value", f"call it: {name}(...)")
    known = [*b.scope.locals, *b.unit.constant_names(), *b.unit.globals]
    hint = did_you_mean(name, known, f"{name} is a struct" if kind == "struct" else "")
    return b.error(node, f"unknown name {name}", hint)


def _unary(b: Builder, node: ast.UnaryOp, dest: int | None) -> Value:
    if isinstance(node.op, ast.Not):
        return conditions.not_value(b, node, dest)
    operand = value(b, node.operand)
    if operand.constant:
        return integer(fold_unary(type(node.op), operand.number))
    if isinstance(node.op, ast.UAdd):
        return operand.typed(INT)
    source = to_register(b, operand, node.operand)
    target = b.temporary() if dest is None else dest
    b.emit(Op.NEG if isinstance(node.op, ast.USub) else Op.NOT, node, a=target, b=source)
    return Value(target, 0, INT)


def _choice(b: Builder, node: ast.IfExp, dest: int | None) -> Value:
    """``body if test else orelse``."""
    known = conditions.constant(b, node.test)
    if known is not None:
        return value(b, node.body if known else node.orelse, dest)
    otherwise, end = Label(), Label()
    target = b.temporary() if dest is None else dest
    conditions.branch(b, node.test, otherwise, jump_if=False)
    first = into(b, node.body, target)
    b.jump(node.body, end)
    b.place(otherwise)
    second = into(b, node.orelse, target)
    b.place(end)
    return Value(target, 0, merged(first, second))


# --- places ------------------------------------------------------------------------------------
def place(b: Builder, node: ast.expr) -> Place:
    """The memory that an lvalue names: a field, an element, or a scalar global."""
    if isinstance(node, ast.Name):
        found = _name(b, node)
        if isinstance(found, Place):
            return found
        kind = "a constant" if node.id not in b.scope.locals else "kept in a register"
        hint = "a field, an element or a global is expected here"
        raise b.error(node, f"{node.id} is {kind} and has no address", hint)
    if isinstance(node, ast.Attribute):
        return _field(b, node)
    if isinstance(node, ast.Subscript):
        return _element(b, node)
    raise b.error(node, "this has no address", "a field, an element or a global is expected here")


def _base(b: Builder, node: ast.expr) -> Value | Place:
    """What stands before ``.field`` or ``[index]``: a place that contains it, or a pointer to it."""
    if isinstance(node, ast.Name):
        found = _name(b, node)
    elif isinstance(node, (ast.Attribute, ast.Subscript)):
        found = place(b, node)
    else:
        found = value(b, node)
    if isinstance(found, Place) and not isinstance(found.type, (StructRef, Array)):
        return load(b, found, node)
    return found


def _field(b: Builder, node: ast.Attribute) -> Place:
    base = _base(b, node.value)
    target = base.type
    if isinstance(base, Value) and isinstance(target, Pointer) and target.target is not None:
        target = target.target
    if not isinstance(target, StructRef):
        raise _no_fields(b, node, base)
    found = layout.find_field(b.unit, b.source, node, target.name, node.attr)
    offset = base.number if isinstance(base, Value) else base.offset
    return Place(base.reg, wrap(offset + found.offset_bytes), found.shape)


def _no_fields(b: Builder, node: ast.Attribute, base: Value | Place) -> Exception:
    what = b.source.segment(node.value)
    if isinstance(base.type, Array):
        return b.error(
            node, f"{what} is an array and has no fields", f"index it first: {what}[i].{node.attr}"
        )
    owners = [s.name for s in b.unit.structs.values() if node.attr in s.fields]
    example = owners[0] if owners else "struct_name"
    hint = f"say what it points to: cast({example}, {what}).{node.attr}"
    if isinstance(node.value, ast.Name) and node.value.id in b.scope.locals:
        hint = f"annotate it, e.g. {what}: {example}, or cast({example}, {what})"
    kind = "an integer" if isinstance(base.type, Scalar) else f"of type {base.type.name}"
    return b.error(node, f"{what} is {kind} and has no fields", hint)


def _element(b: Builder, node: ast.Subscript) -> Place:
    base = _base(b, node.value)
    kind = base.type
    what = b.source.segment(node.value)
    if isinstance(kind, Array):
        element: Type = kind.element
    elif isinstance(kind, Pointer) and kind.target is not None and isinstance(base, Value):
        element = kind.target
    else:
        hint = f"write cast(ptr[ptr], {what})[...] to say what it points to"
        raise b.error(node, f"{what} is of type {kind.name} and has no elements", hint)
    if isinstance(node.slice, (ast.Slice, ast.Tuple)):
        raise b.error(node, "an element has one index", "write v[i]")
    index = value(b, node.slice)
    if isinstance(kind, Array) and index.constant and kind.count and not 0 <= index.number < kind.count:
        if not b.dead:
            raise b.error(node, f"index {index.number} is outside 0 .. {kind.count - 1}")
    size = layout.size_of(b.unit, b.source, node, element)
    offset = base.number if isinstance(base, Value) else base.offset
    return scaled(b, base.reg, offset, index, size, element, node, node.slice)


def scaled(
    b: Builder,
    base: int | None,
    offset: int,
    index: Value,
    size_bytes: int,
    element: Type,
    node: ast.AST,
    index_node: ast.AST,
) -> Place:
    """The place ``base + offset + index * size_bytes``."""
    offset = wrap(offset + index.number * size_bytes)
    if index.reg is None:
        return Place(base, offset, element)
    scaled_index = index.reg
    if size_bytes != 1:
        scaled_index = b.temporary()
        shift = power_of_two(size_bytes)
        if shift is None:
            b.emit(Op.MULI, index_node, a=scaled_index, b=index.reg, imm=size_bytes)
        else:
            b.emit(Op.SHLI, index_node, a=scaled_index, b=index.reg, imm=shift)
    if base is None:
        return Place(scaled_index, offset, element)
    address = b.temporary()
    b.emit(Op.ADD, node, a=address, b=base, c=scaled_index)
    return Place(address, offset, element)


def address(b: Builder, where: Place, node: ast.AST) -> tuple[int, int]:
    """Register and immediate offset with which a micro-op reaches a place."""
    if where.reg is not None and fits_immediate(where.offset):
        return where.reg, where.offset
    return to_register(b, Value(where.reg, where.offset, INT), node), 0


def access_bytes(b: Builder, where: Place, node: ast.AST) -> int:
    """Size of the memory access to a place; structs and arrays cannot be accessed whole."""
    if isinstance(where.type, (StructRef, Array)):
        what = b.source.segment(node)
        kind = "an array" if isinstance(where.type, Array) else f"a whole {where.type.name}"
        raise b.error(
            node, f"{what} is {kind}, not a value", f"write addressof({what}), or name a part of it"
        )
    return layout.size_of(b.unit, b.source, node, where.type)


def load(b: Builder, where: Place, node: ast.AST, dest: int | None = None) -> Value:
    """Read a place."""
    size = access_bytes(b, where, node)
    base, imm = address(b, where, node)
    target = b.temporary() if dest is None else dest
    signed = isinstance(where.type, Scalar) and where.type.signed
    b.emit(Op.LDS if signed else Op.LD, node, a=target, b=base, imm=imm, size=size)
    return Value(target, 0, where.type)


def store(b: Builder, where: Place, source: int, node: ast.AST) -> None:
    """Write a register to a place."""
    size = access_bytes(b, where, node)
    base, imm = address(b, where, node)
    b.emit(Op.ST, node, b=base, c=source, imm=imm, size=size)
