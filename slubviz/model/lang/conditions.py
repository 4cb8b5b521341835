"""Code for conditions: comparisons fused with branches, and truth values where one is kept."""

from __future__ import annotations

import ast

from slubviz.hw.isa import Op
from slubviz.model.lang import calls, constants, expressions
from slubviz.model.lang.arithmetic import fits_immediate, fold_binary, fold_compare, fold_unary
from slubviz.model.lang.builder import Builder, Label, Value, integer
from slubviz.model.lang.errors import KernelLanguageError
from slubviz.model.lang.types import INT

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
_EXCHANGED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}
_BRANCH_IMMEDIATE: dict[type[ast.cmpop], Op] = {
    ast.Eq: Op.BEQI,
    ast.NotEq: Op.BNEI,
    ast.Lt: Op.BLTI,
    ast.LtE: Op.BLEI,
    ast.Gt: Op.BGTI,
    ast.GtE: Op.BGEI,
}
#: Operator -> (branch, set, exchange the operands)
_REGISTER_FORM: dict[type[ast.cmpop], tuple[Op, Op, bool]] = {
    ast.Eq: (Op.BEQ, Op.SEQ, False),
    ast.NotEq: (Op.BNE, Op.SNE, False),
    ast.Lt: (Op.BLT, Op.SLT, False),
    ast.LtE: (Op.BLE, Op.SLE, False),
    ast.Gt: (Op.BLT, Op.SLT, True),
    ast.GtE: (Op.BLE, Op.SLE, True),
}


def constant(b: Builder, node: ast.expr) -> int | None:
    """The value of ``node`` if it is known at compile time, without emitting anything."""
    try:
        return _constant(b, node)
    except (KernelLanguageError, ZeroDivisionError, ValueError, KeyError):
        return None  # compiling it for real reports what is wrong


def _constant(b: Builder, node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant):
        return constants.literal(b.source, node)
    if isinstance(node, ast.Name):
        local = b.scope.locals.get(node.id)
        if local is not None:
            return local.value.number if local.value.constant else None
        return constants.named(b.unit, b.source, node, node.id)
    if isinstance(node, ast.UnaryOp):
        inner = _constant(b, node.operand)
        return None if inner is None else fold_unary(type(node.op), inner)
    if isinstance(node, ast.BinOp):
        left, right = _constant(b, node.left), _constant(b, node.right)
        return None if left is None or right is None else fold_binary(type(node.op), left, right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _constant(b, node.left), _constant(b, node.comparators[0])
        return None if left is None or right is None else int(fold_compare(type(node.ops[0]), left, right))
    if isinstance(node, ast.BoolOp):
        return _constant_bool(b, node)
    if isinstance(node, ast.IfExp):
        test = _constant(b, node.test)
        return None if test is None else _constant(b, node.body if test else node.orelse)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("sizeof", "offsetof")
    ):
        return constants.evaluate(b.unit, b.source, node)
    return None


def _constant_bool(b: Builder, node: ast.BoolOp) -> int | None:
    """``and`` / ``or`` up to the operand that decides."""
    stop = isinstance(node.op, ast.Or)
    for operand in node.values:
        known = _constant(b, operand)
        if known is None:
            return None
        if (known != 0) == stop:
            return int(stop)
    return int(not stop)


def branch(b: Builder, node: ast.expr, label: Label, *, jump_if: bool) -> None:
    """Go to ``label`` if the truth of ``node`` is ``jump_if``, else continue behind."""
    known = constant(b, node)
    if known is not None:
        if (known != 0) == jump_if:
            b.jump(node, label)
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        branch(b, node.operand, label, jump_if=not jump_if)
    elif isinstance(node, ast.BoolOp):
        _branch_bool(b, node, label, jump_if)
    elif isinstance(node, ast.Compare):
        _branch_compare(b, node, label, jump_if)
    elif isinstance(node, ast.IfExp):
        otherwise, end = Label(), Label()
        branch(b, node.test, otherwise, jump_if=False)
        branch(b, node.body, label, jump_if=jump_if)
        b.jump(node.body, end)
        b.place(otherwise)
        branch(b, node.orelse, label, jump_if=jump_if)
        b.place(end)
    elif isinstance(node, ast.Call) and calls.branch_on_inline(b, node, label, jump_if=jump_if):
        return
    else:
        given = _operand(b, node, ast.NotEq, 0)
        branch_compare_values(b, ast.NotEq, given, integer(0), (node, node, node), label, jump_if=jump_if)


def _branch_bool(b: Builder, node: ast.BoolOp, label: Label, jump_if: bool) -> None:
    stop = isinstance(node.op, ast.Or)  # the truth of one operand that decides
    behind = Label()
    for operand in node.values[:-1]:
        if stop == jump_if:
            branch(b, operand, label, jump_if=jump_if)
        else:
            branch(b, operand, behind, jump_if=stop)
    branch(b, node.values[-1], label, jump_if=jump_if)
    b.place(behind)


def _branch_compare(b: Builder, node: ast.Compare, label: Label, jump_if: bool) -> None:
    constants.check_compare(b.source, node)
    operator, (other,) = type(node.ops[0]), node.comparators
    left = _operand(b, node.left, operator, constant(b, other))
    right = _operand(b, other, operator, constant(b, node.left))
    nodes = (node, node.left, other)
    branch_compare_values(b, operator, left, right, nodes, label, jump_if=jump_if)


def _operand(b: Builder, node: ast.expr, operator: type[ast.cmpop], other: int | None) -> Value:
    """One side of a comparison.

    Whether an atomic operation on an int32 gave a small number that is not negative shows without
    extending the sign first, so that ``atomic_dec(p.refs) == 0`` is one micro-op and a branch.
    """
    if isinstance(node, ast.Call) and operator in (ast.Eq, ast.NotEq):
        if other is not None and 0 <= other < 1 << 31:
            given = calls.call(b, node, None, wanted=True, raw=True)
            assert given is not None
            return given
    return expressions.value(b, node)


def branch_compare_values(
    b: Builder,
    operator: type[ast.cmpop],
    left: Value,
    right: Value,
    nodes: tuple[ast.AST, ast.AST, ast.AST],
    label: Label,
    *,
    jump_if: bool,
) -> None:
    """Go to ``label`` if ``left operator right`` is ``jump_if``; ``nodes``: whole, left, right."""
    node, left_node, right_node = nodes
    if left.constant and right.constant:
        if fold_compare(operator, left.number, right.number) == jump_if:
            b.jump(node, label)
        return
    if left.constant:
        left, right, left_node, right_node = right, left, right_node, left_node
        operator = _EXCHANGED[operator]
    if not jump_if:
        operator = _OPPOSITE[operator]
    first = expressions.to_register(b, left, left_node)
    if right.constant and fits_immediate(right.number):
        b.emit(_BRANCH_IMMEDIATE[operator], node, b=first, imm=right.number, target=label)
        return
    second = expressions.to_register(b, right, right_node)
    op, _, exchange = _REGISTER_FORM[operator]
    if exchange:
        first, second = second, first
    b.emit(op, node, b=first, c=second, target=label)


def compare_value(b: Builder, node: ast.Compare, dest: int | None) -> Value:
    """A comparison as a number, 0 or 1."""
    constants.check_compare(b.source, node)
    operator, (other,) = type(node.ops[0]), node.comparators
    left = _operand(b, node.left, operator, constant(b, other))
    right = _operand(b, other, operator, constant(b, node.left))
    if left.constant and right.constant:
        return integer(int(fold_compare(operator, left.number, right.number)))
    first = expressions.to_register(b, left, node.left)
    second = expressions.to_register(b, right, other)
    return _set(b, operator, first, second, node, dest)


def _set(
    b: Builder, operator: type[ast.cmpop], first: int, second: int, node: ast.AST, dest: int | None
) -> Value:
    _, op, exchange = _REGISTER_FORM[operator]
    if exchange:
        first, second = second, first
    target = b.temporary() if dest is None else dest
    b.emit(op, node, a=target, b=first, c=second)
    return Value(target, 0, INT)


def not_value(b: Builder, node: ast.UnaryOp, dest: int | None) -> Value:
    """``not x`` as a number."""
    if isinstance(node.operand, (ast.BoolOp, ast.Compare, ast.UnaryOp, ast.IfExp)):
        return truth_value(b, node, dest)
    given = expressions.value(b, node.operand)
    if given.constant:
        return integer(int(given.number == 0))
    first = expressions.to_register(b, given, node.operand)
    zero = expressions.to_register(b, integer(0), node)
    return _set(b, ast.Eq, first, zero, node, dest)


def truth_value(b: Builder, node: ast.expr, dest: int | None) -> Value:
    """A condition as a number, 0 or 1, by branching."""
    known = constant(b, node)
    if known is not None:
        return integer(int(known != 0))
    false, end = Label(), Label()
    target = b.temporary() if dest is None else dest
    branch(b, node, false, jump_if=False)
    b.emit(Op.LI, node, a=target, imm=1)
    b.jump(node, end)
    b.place(false)
    b.emit(Op.LI, node, a=target, imm=0)
    b.place(end)
    return Value(target, 0, INT)
