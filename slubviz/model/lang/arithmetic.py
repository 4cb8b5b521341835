"""The machine's 64-bit arithmetic on Python integers: what constant folding computes with.

Numbers are signed 64-bit and wrap, division rounds down, shifts to the right keep the sign:
exactly what the micro-ops do.
"""

from __future__ import annotations

import ast

_SIGN = 1 << 63
_MASK = (1 << 64) - 1

OPERATOR_TEXT: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}

#: Operators of Python that the language lacks, and what to write instead.
FOREIGN_OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Div: ("`/` gives fractions", "write // for integer division"),
    ast.Pow: ("`**` is not part of the language", "write 1 << n for powers of two"),
    ast.MatMult: ("`@` is not part of the language", ""),
    ast.Is: ("`is` is not part of the language", "compare with =="),
    ast.IsNot: ("`is not` is not part of the language", "compare with !="),
    ast.In: ("`in` is not part of the language", "compare with == or loop"),
    ast.NotIn: ("`not in` is not part of the language", "compare with != or loop"),
}


def wrap(value: int) -> int:
    """``value`` as a signed 64-bit number."""
    return ((value + _SIGN) & _MASK) - _SIGN


def fits_immediate(value: int) -> bool:
    """Whether ``value`` fits a micro-op's signed 32-bit ``imm``."""
    return -(1 << 31) <= value < (1 << 31)


def power_of_two(value: int) -> int | None:
    """The exponent if ``value`` is 1, 2, 4, ..., else None."""
    if value > 0 and value & (value - 1) == 0:
        return value.bit_length() - 1
    return None


def fold_binary(operator: type[ast.AST], left: int, right: int) -> int:
    """``left operator right`` as the machine computes it.

    Raises
    ------
    ZeroDivisionError
        Division or remainder by zero.
    ValueError
        A shift by less than 0 or more than 63.
    """
    if operator in (ast.LShift, ast.RShift):
        if not 0 <= right <= 63:
            raise ValueError(f"shift by {right}: a shift goes from 0 to 63")
        return wrap(left << right) if operator is ast.LShift else left >> right
    if operator is ast.Add:
        return wrap(left + right)
    if operator is ast.Sub:
        return wrap(left - right)
    if operator is ast.Mult:
        return wrap(left * right)
    if operator is ast.FloorDiv:
        return wrap(left // right)
    if operator is ast.Mod:
        return left % right
    if operator is ast.BitAnd:
        return left & right
    if operator is ast.BitOr:
        return left | right
    if operator is ast.BitXor:
        return left ^ right
    raise KeyError(operator)


def fold_compare(operator: type[ast.AST], left: int, right: int) -> bool:
    """``left operator right`` for one of ``== != < <= > >=``."""
    if operator is ast.Eq:
        return left == right
    if operator is ast.NotEq:
        return left != right
    if operator is ast.Lt:
        return left < right
    if operator is ast.LtE:
        return left <= right
    if operator is ast.Gt:
        return left > right
    if operator is ast.GtE:
        return left >= right
    raise KeyError(operator)


def fold_unary(operator: type[ast.AST], value: int) -> int:
    """``-value``, ``~value``, ``+value`` or ``not value``."""
    if operator is ast.USub:
        return wrap(-value)
    if operator is ast.Invert:
        return ~value
    if operator is ast.Not:
        return int(value == 0)
    return value
