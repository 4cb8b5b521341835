"""Constant expressions outside functions, and type annotations.

Both are read on demand and may need each other: ``array[word, SIZE]``, ``sizeof(page)``.
"""

from __future__ import annotations

import ast

from slubviz.model.lang import layout
from slubviz.model.lang.arithmetic import (
    FOREIGN_OPERATORS,
    OPERATOR_TEXT,
    fold_binary,
    fold_compare,
    fold_unary,
    wrap,
)
from slubviz.model.lang.errors import did_you_mean
from slubviz.model.lang.source import Source
from slubviz.model.lang.types import POINTER, SCALAR_NAMES, Array, Pointer, StructRef, Type, scalar
from slubviz.model.lang.unit import Unit

BUILT_IN = {"NULL": 0, "True": 1, "False": 0}
_LARGEST_ARRAY = 1 << 24


def literal(source: Source, node: ast.Constant) -> int:
    """The value of an integer literal; anything else is an error."""
    value = node.value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        if value >= 1 << 64:
            raise source.error(node, "the number does not fit in 64 bits")
        return wrap(value)
    if value is None:
        raise source.error(node, "None is not part of the language", "write NULL")
    if isinstance(value, (str, bytes)):
        hint = "text is allowed only as a message: bug(...), bug_on(..., ...), assert ..., ..."
        raise source.error(node, "text is not a value", hint)
    if isinstance(value, (float, complex)):
        raise source.error(node, "the language has integers only", "write a whole number")
    raise source.error(node, "this is not a value")


def named(unit: Unit, source: Source, node: ast.AST, name: str) -> int | None:
    """The value of a constant or option, None if ``name`` is neither."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in unit.target.constants:
        return wrap(unit.target.constants[name])
    if name in unit.options:
        return unit.options[name].value
    decl = unit.constants.get(name)
    if decl is None:
        return None
    if decl.value is None:
        if decl.busy:
            raise source.error(node, f"the constant {name} is defined by itself")
        decl.busy = True
        decl.value = evaluate(unit, decl.source, decl.expression)
        decl.busy = False
    return decl.value


def evaluate(unit: Unit, source: Source, node: ast.expr) -> int:
    """The value of a constant expression.

    Raises
    ------
    KernelLanguageError
        If it is not constant.
    """
    if isinstance(node, ast.Constant):
        return literal(source, node)
    if isinstance(node, ast.Name):
        value = named(unit, source, node, node.id)
        if value is not None:
            return value
        kind = unit.kind_of(node.id)
        if kind:
            raise source.error(node, f"a {kind} is not a constant")
        raise source.error(node, f"unknown name {node.id}", did_you_mean(node.id, unit.constant_names()))
    if isinstance(node, ast.UnaryOp):
        return fold_unary(type(node.op), evaluate(unit, source, node.operand))
    if isinstance(node, ast.BinOp):
        left = evaluate(unit, source, node.left)
        return binary(source, node, left, evaluate(unit, source, node.right))
    if isinstance(node, ast.Compare):
        left = evaluate(unit, source, node.left)
        return int(compare(source, node, left, evaluate(unit, source, node.comparators[0])))
    if isinstance(node, ast.BoolOp):
        stop = isinstance(node.op, ast.Or)
        return int(any((evaluate(unit, source, v) != 0) == stop for v in node.values) == stop)
    if isinstance(node, ast.IfExp):
        chosen = node.body if evaluate(unit, source, node.test) else node.orelse
        return evaluate(unit, source, chosen)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "sizeof":
            return size_of_call(unit, source, node)
        if node.func.id == "offsetof":
            return offset_of_call(unit, source, node)
    raise source.error(
        node, "this is not a constant expression", "use numbers, constants, sizeof and operators"
    )


def binary(source: Source, node: ast.BinOp, left: int, right: int) -> int:
    """Fold a binary operator; errors point at the whole expression."""
    check_operator(source, node, node.op)
    try:
        return fold_binary(type(node.op), left, right)
    except ZeroDivisionError:
        raise source.error(node, "division by zero") from None
    except ValueError as problem:
        raise source.error(node, str(problem)) from None


def compare(source: Source, node: ast.Compare, left: int, right: int) -> bool:
    """Fold a comparison."""
    check_compare(source, node)
    return fold_compare(type(node.ops[0]), left, right)


def check_operator(source: Source, node: ast.AST, operator: ast.operator) -> None:
    """Refuse operators that the language lacks."""
    if type(operator) not in OPERATOR_TEXT:
        message, hint = FOREIGN_OPERATORS[type(operator)]
        raise source.error(node, message, hint)


def check_compare(source: Source, node: ast.Compare) -> None:
    """Refuse chained comparisons, ``is`` and ``in``."""
    if len(node.ops) > 1:
        raise source.error(node, "comparisons cannot be chained", "write a < b and b < c")
    if type(node.ops[0]) in FOREIGN_OPERATORS:
        message, hint = FOREIGN_OPERATORS[type(node.ops[0])]
        raise source.error(node, message, hint)


def plain_arguments(source: Source, node: ast.Call, least: int, most: int, usage: str) -> list[ast.expr]:
    """The positional arguments of a call, after checking their number."""
    if node.keywords:
        raise source.error(node, "arguments cannot be named", f"write {usage}")
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            raise source.error(argument, "`*` is not part of the language", f"write {usage}")
    if not least <= len(node.args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        plural = "" if wanted == "1" else "s"
        raise source.error(
            node, f"{wanted} argument{plural} expected, {len(node.args)} given", f"write {usage}"
        )
    return node.args


def size_of_call(unit: Unit, source: Source, node: ast.Call) -> int:
    """``sizeof(type)``."""
    (argument,) = plain_arguments(source, node, 1, 1, "sizeof(type)")
    return layout.size_of(unit, source, argument, read_type(unit, source, argument, embed=True))


def offset_of_call(unit: Unit, source: Source, node: ast.Call) -> int:
    """``offsetof(struct, field)``; the field may be a path like ``lru.next``."""
    struct, path = plain_arguments(source, node, 2, 2, "offsetof(struct, field)")
    return layout.offset_of_path(unit, source, struct_name(unit, source, struct), path)[0]


def struct_name(unit: Unit, source: Source, node: ast.expr) -> str:
    """The name of the struct that ``node`` names."""
    if not isinstance(node, ast.Name):
        raise source.error(node, "the name of a struct is expected")
    if node.id not in unit.struct_decls:
        raise unit.unknown_struct(source, node, node.id)
    return node.id


def read_type(unit: Unit, source: Source, node: ast.expr, *, embed: bool) -> Type:
    """The type an annotation means.

    Parameters
    ----------
    embed
        What a struct's bare name means: the struct itself (fields, globals, ``sizeof``), or a pointer
        to it (parameters, locals, ``cast``).
    """
    if isinstance(node, ast.Name):
        if node.id == "ptr":
            return POINTER
        if node.id in SCALAR_NAMES:
            return scalar(node.id, unit.target.word_bytes)
        if node.id == "array":
            raise source.error(node, "an array needs a type and a length", "write array[type, length]")
        if node.id not in unit.struct_decls:
            raise unit.unknown_struct(source, node, node.id)
        return StructRef(node.id) if embed else Pointer(StructRef(node.id))
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return _read_subscript_type(unit, source, node, node.value.id, embed=embed)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        raise source.error(node, "a type is not written in quotes", f"write {node.value}")
    raise source.error(
        node, "this is not a type", "write word, int32, uint32, ptr, ptr[type] or a struct's name"
    )


def _read_subscript_type(unit: Unit, source: Source, node: ast.Subscript, kind: str, *, embed: bool) -> Type:
    if kind == "ptr":
        return Pointer(read_type(unit, source, node.slice, embed=True))
    if kind == "array":
        if not isinstance(node.slice, ast.Tuple) or len(node.slice.elts) != 2:
            raise source.error(node, "an array needs a type and a length", "write array[type, length]")
        element, length = node.slice.elts
        count = evaluate(unit, source, length)
        if not 0 <= count <= _LARGEST_ARRAY:
            raise source.error(length, f"an array's length goes from 0 to {_LARGEST_ARRAY}, not {count}")
        if not embed:
            hint = "use a pointer: ptr[type]"
            raise source.error(node, "an array cannot be kept in a register", hint)
        return Array(read_type(unit, source, element, embed=True), count)
    if kind in ("per_cpu", "per_node"):
        raise source.error(
            node, f"{kind} is possible only for a global", "declare it outside structs and functions"
        )
    if kind == "union":
        raise source.error(
            node, "there are no unions", 'place a field over another one: name: type = at("other")'
        )
    raise source.error(
        node, f"unknown type {kind}[...]", did_you_mean(kind, ["ptr", "array"], "write ptr[type]")
    )
