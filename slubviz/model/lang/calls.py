"""Code for calls: arguments into the callee's window, and the expansion of inline functions."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slubviz.hw.isa import Op
from slubviz.model.lang import conditions, constants, expressions, facts, intrinsics, statements
from slubviz.model.lang.builder import ARGUMENT_BASE, Builder, Label, Returns, Scope, Site, Value, integer
from slubviz.model.lang.errors import did_you_mean
from slubviz.model.lang.types import INT, Pointer, StructRef, Type, compatible
from slubviz.model.lang.unit import FunctionDecl


def call(b: Builder, node: ast.Call, dest: int | None, *, wanted: bool, raw: bool = False) -> Value | None:
    """Compile a call.

    Parameters
    ----------
    wanted
        The result is used.
    raw
        An atomic operation on an int32 need not extend its result's sign.

    Returns
    -------
    Value or None
        None only if ``wanted`` is False: the result is dropped.
    """
    if not isinstance(node.func, ast.Name):
        if isinstance(node.func, ast.Attribute):
            hint = f"write {node.func.attr}({b.source.segment(node.func.value)}, ...)"
            raise b.error(node, "there are no methods", hint)
        raise b.error(node, "only functions can be called")
    name = node.func.id
    decl = b.unit.functions.get(name)
    if decl is not None:
        if wanted and decl.return_type is None:
            raise b.error(node, f"{name} gives no value", "it is declared -> None")
        if decl.inline:
            if wanted:
                return _expand_value(b, node, decl, dest)
            _expand_effect(b, node, decl)
            return None
        return _call_function(b, node, decl, dest, wanted)
    known = intrinsics.INTRINSICS.get(name)
    if known is None:
        raise _unknown_function(b, node, name)
    return intrinsics.compile_intrinsic(b, node, known, dest, wanted=wanted, raw=raw)


def _unknown_function(b: Builder, node: ast.Call, name: str) -> Exception:
    hints = {
        "range": "range is possible only in: for i in range(...)",
        "print": "count events with count(COUNTER)",
        "len": "name the length with a constant",
        "min": "write a if a < b else b",
        "max": "write a if a > b else b",
        "abs": "write -x if x < 0 else x",
        "counter": "counters are defined outside functions",
        "option": "options are defined outside functions",
    }
    known = [*b.unit.functions, *intrinsics.INTRINSICS]
    return b.error(node, f"unknown function {name}", hints.get(name, did_you_mean(name, known)))


def _arguments(b: Builder, node: ast.Call, decl: FunctionDecl) -> list[ast.expr]:
    names = ", ".join(name for name, _, _ in decl.params)
    count = len(decl.params)
    return constants.plain_arguments(b.source, node, count, count, f"{decl.name}({names})")


def _check_type(b: Builder, node: ast.AST, wanted: Type, given: Type, what: str) -> None:
    if not compatible(wanted, given):
        assert isinstance(wanted, Pointer)
        target = wanted.target
        target_name = target.name if isinstance(target, StructRef) else wanted.name
        hint = f"write cast({target_name}, {b.source.segment(node)}) if it is meant"
        raise b.error(node, f"{what} is a {wanted.name}, this is a {given.name}", hint)


# --- ordinary calls ----------------------------------------------------------------------------
def _call_function(
    b: Builder, node: ast.Call, decl: FunctionDecl, dest: int | None, wanted: bool
) -> Value | None:
    arguments = _arguments(b, node, decl)
    late: list[tuple[int, Value, ast.expr]] = []
    for k, (argument, (name, kind, _)) in enumerate(zip(arguments, decl.params, strict=True)):
        if facts.calls_function(b.unit, arguments[k + 1 :]):
            # a later argument calls, and that would overwrite this one: keep it aside
            given = expressions.value(b, argument)
        else:
            given = expressions.value(b, argument, ARGUMENT_BASE + k)
        _check_type(b, argument, kind, given.type, f"parameter {name}")
        if given.reg != ARGUMENT_BASE + k or given.number:
            late.append((k, given, argument))
    for k, given, argument in late:
        expressions.to_register(b, given, argument, ARGUMENT_BASE + k)
    result = -1
    if wanted:
        result = b.temporary() if dest is None else dest
    # imm is the callee's first register, set when this function's register count is known; aux holds
    # the number of arguments until the entry of the callee is known
    b.emit(Op.CALL, node, a=result, c=decl.index, aux=len(arguments))
    return Value(result, 0, decl.return_type or INT) if wanted else None


# --- inline expansion --------------------------------------------------------------------------
def _enter(b: Builder, node: ast.Call, decl: FunctionDecl, returns: Returns, kept: str = "") -> Scope:
    """Evaluate the arguments and open the scope of an expansion."""
    chain = [scope.decl.name for scope in b.scopes]
    if decl.name in chain:
        path = " -> ".join([*chain[chain.index(decl.name) :], decl.name])
        raise b.error(node, f"inline function {decl.name} expands itself: {path}", "remove @inline from one")
    arguments = _arguments(b, node, decl)
    values: list[Value] = []
    for argument, (name, kind, _) in zip(arguments, decl.params, strict=True):
        given = _parameter_value(b, decl, name, argument)
        _check_type(b, argument, kind, given.type, f"parameter {name}")
        values.append(given.typed(kind))
    taken = {given.reg for given in values}
    if returns.dest in taken:
        kept = ""  # the body still reads what the destination holds
    site = len(b.sites)
    position = b.source.position(node)
    b.sites.append(Site(decl.index, b.source.index, position, b.scope.decl.index, b.scope.site))
    scope = Scope(decl, site, returns)
    b.open_scope(scope, [name for name, _, _ in decl.params], kept)
    for (name, _, argument_node), given in zip(decl.params, values, strict=True):
        b.declare(name, given, declared=argument_node.annotation is not None)
    return scope


def _parameter_value(b: Builder, decl: FunctionDecl, name: str, argument: ast.expr) -> Value:
    """The value that stands for a parameter: the argument itself if the body can use it as it is."""
    given = expressions.value(b, argument)
    if name in decl.assigned:
        own = b.temporary()
        expressions.to_register(b, given, argument, own)
        return Value(own, 0, given.type)
    if given.reg is not None and given.number == 0:
        return given
    as_base, as_value = facts.uses(decl, name)
    if given.constant:
        # a number folds into the body; an address used more than once is loaded once
        compute = isinstance(given.type, Pointer) and given.number != 0 and as_base + as_value > 1
    else:
        compute = as_value > 1
    if not compute:
        return given
    return Value(expressions.to_register(b, given, argument), 0, given.type)


def _kept_in(b: Builder, decl: FunctionDecl, dest: int) -> str:
    """The local of an inline function that can live in the destination from the start."""
    if dest < 0 or (dest >= ARGUMENT_BASE and facts.calls_function(b.unit, decl.body)):
        return ""
    return facts.returned_local(decl)


def _live(b: Builder, body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of an inlined body that constant conditions leave, up to the first ``return``.

    The excluded ones have been checked in the function's own code.
    """
    live: list[ast.stmt] = []
    for node in body:
        known = conditions.constant(b, node.test) if isinstance(node, ast.If) else None
        if isinstance(node, ast.If) and known is not None:
            live += _live(b, node.body if known else node.orelse)
        else:
            live.append(node)
        if live and isinstance(live[-1], ast.Return):
            break
    return live


def _result_at_end(body: Sequence[ast.stmt]) -> ast.expr | None:
    """The value of the last statement if that is the one ``return`` of a body."""
    last = body[-1] if body else None
    count = sum(isinstance(node, ast.Return) for part in body for node in ast.walk(part))
    return last.value if count == 1 and isinstance(last, ast.Return) else None


def _expand_value(b: Builder, node: ast.Call, decl: FunctionDecl, dest: int | None) -> Value:
    kind = decl.return_type or INT
    target = -1 if dest is None else dest
    returns = Returns("value", Label(), target)
    _enter(b, node, decl, returns, _kept_in(b, decl, target))
    body = _live(b, decl.body)
    result = _result_at_end(body)
    if result is not None:
        statements.block(b, body[:-1])
        given = expressions.value(b, result, dest)
        check_return(b, result, given.type)
        if dest is not None:  # compute a pending sum here, where its source is
            given = Value(expressions.to_register(b, given, result, dest), 0, given.type)
        b.close_scope()
        return given.typed(kind)
    if dest is None:
        returns.dest = b.temporary()
    statements.block(b, body)
    expressions.to_register(b, integer(0), decl.node, returns.dest)
    b.place(returns.end)
    b.close_scope()
    return Value(returns.dest, 0, kind)


def _expand_effect(b: Builder, node: ast.Call, decl: FunctionDecl) -> None:
    end = Label()
    _enter(b, node, decl, Returns("effect", end))
    statements.block(b, _live(b, decl.body))
    b.place(end)
    b.close_scope()


def branch_on_inline(b: Builder, node: ast.Call, label: Label, *, jump_if: bool) -> bool:
    """Expand an inline function whose result is only tested; False if ``node`` calls no such function."""
    decl = b.unit.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
    if decl is None or not decl.inline or decl.return_type is None:
        return False
    end = Label()
    if_true, if_false = (label, end) if jump_if else (end, label)
    _enter(b, node, decl, Returns("branch", end, if_true=if_true, if_false=if_false))
    body = _live(b, decl.body)
    result = _result_at_end(body)
    if result is not None:
        statements.block(b, body[:-1])
        conditions.branch(b, result, label, jump_if=jump_if)
    else:
        statements.block(b, body)
        b.jump(decl.node, if_false)
    b.place(end)
    b.close_scope()
    return True


def check_return(b: Builder, node: ast.AST, given: Type) -> None:
    """Refuse a returned pointer of another type than declared."""
    wanted = b.scope.decl.return_type
    if wanted is not None:
        _check_type(b, node, wanted, given, f"the result of {b.scope.decl.name}")


def check_assigned(b: Builder, node: ast.AST, wanted: Type, given: Type, what: str) -> None:
    """Refuse storing a pointer where a pointer to something else is kept."""
    _check_type(b, node, wanted, given, what)
