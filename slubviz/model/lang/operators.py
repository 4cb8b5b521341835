"""Code for binary operators: folding, immediate forms, shifts for powers of two."""

from __future__ import annotations

import ast

from slubviz.hw.isa import Op
from slubviz.model.lang import expressions
from slubviz.model.lang.arithmetic import fits_immediate, fold_binary, power_of_two, wrap
from slubviz.model.lang.builder import Builder, Value, integer
from slubviz.model.lang.types import INT

_REGISTER_FORM: dict[type[ast.operator], Op] = {
    ast.Add: Op.ADD,
    ast.Sub: Op.SUB,
    ast.Mult: Op.MUL,
    ast.FloorDiv: Op.DIV,
    ast.Mod: Op.MOD,
    ast.BitAnd: Op.AND,
    ast.BitOr: Op.OR,
    ast.BitXor: Op.XOR,
    ast.LShift: Op.SHL,
    ast.RShift: Op.SHR,
}
_IMMEDIATE_FORM: dict[type[ast.operator], Op] = {
    ast.Mult: Op.MULI,
    ast.FloorDiv: Op.DIVI,
    ast.Mod: Op.MODI,
    ast.BitAnd: Op.ANDI,
    ast.BitOr: Op.ORI,
    ast.BitXor: Op.XORI,
    ast.LShift: Op.SHLI,
    ast.RShift: Op.SHRI,
}
_COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
#: Operators for which ``x op 0`` is ``x``.
_ZERO_KEEPS = (ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)


def binary(
    b: Builder,
    operator: ast.operator,
    left: Value,
    right: Value,
    node: ast.AST,
    operands: tuple[ast.AST, ast.AST],
    dest: int | None,
) -> Value:
    """``left operator right``.

    Parameters
    ----------
    node, operands
        The source of the whole and of both sides.
    """
    if left.constant and right.constant:
        return integer(_fold(b, operator, left.number, right.number, node))
    if left.constant and isinstance(operator, _COMMUTATIVE):
        left, right, operands = right, left, (operands[1], operands[0])
    if right.constant:
        found = _with_constant(b, operator, left, right.number, node, operands[0], dest)
        if found is not None:
            return found
    first = expressions.to_register(b, left, operands[0])
    second = expressions.to_register(b, right, operands[1])
    target = b.temporary() if dest is None else dest
    b.emit(_REGISTER_FORM[type(operator)], node, a=target, b=first, c=second)
    return Value(target, 0, INT)


def _fold(b: Builder, operator: ast.operator, left: int, right: int, node: ast.AST) -> int:
    try:
        return fold_binary(type(operator), left, right)
    except (ZeroDivisionError, ValueError) as problem:
        if b.dead:
            return 0
        zero = isinstance(problem, ZeroDivisionError)
        raise b.error(node, "division by zero" if zero else str(problem)) from None


def _with_constant(
    b: Builder,
    operator: ast.operator,
    left: Value,
    number: int,
    node: ast.AST,
    left_node: ast.AST,
    dest: int | None,
) -> Value | None:
    """``left operator number`` if there is a form without a second register."""
    if isinstance(operator, ast.Add):
        return Value(left.reg, wrap(left.number + number), INT)
    if isinstance(operator, ast.Sub):
        return Value(left.reg, wrap(left.number - number), INT)
    if isinstance(operator, (ast.LShift, ast.RShift, ast.FloorDiv, ast.Mod)):
        _fold(b, operator, 1, number, node)  # refuses shifts out of range and division by zero
        if b.dead and number == 0:
            return integer(0)
    if number == 0 and isinstance(operator, _ZERO_KEEPS):
        return left.typed(INT)
    if number == 1 and isinstance(operator, (ast.Mult, ast.FloorDiv)):
        return left.typed(INT)
    op, imm = _IMMEDIATE_FORM[type(operator)], number
    exponent = power_of_two(number)
    if exponent is not None:
        if op is Op.MULI:
            op, imm = Op.SHLI, exponent
        elif op is Op.DIVI:
            op, imm = Op.SHRI, exponent
        elif op is Op.MODI:
            op, imm = Op.ANDI, number - 1
    if not fits_immediate(imm):
        return None
    source = expressions.to_register(b, left, left_node)
    target = b.temporary() if dest is None else dest
    b.emit(op, node, a=target, b=source, imm=imm)
    return Value(target, 0, INT)
