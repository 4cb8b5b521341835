"""What a look at the syntax of functions tells the code generators: does it call, how is a name used."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slubviz.model.lang.unit import FunctionDecl, Unit


def calls_function(unit: Unit, nodes: Iterable[ast.AST], within: frozenset[str] = frozenset()) -> bool:
    """Whether code for ``nodes`` may hold a CALL, which overwrites the outgoing arguments."""
    for root in nodes:
        for node in ast.walk(root):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            name = node.func.id
            decl = unit.functions.get(name)
            if decl is None or name in within:  # recursion of inline functions is an error elsewhere
                continue
            if not decl.inline or calls_function(unit, decl.body, within | {name}):
                return True
    return False


def uses(decl: FunctionDecl, name: str) -> tuple[int, int]:
    """How often a function reads ``name``: as the base of a field or element, and as a value."""
    as_base = 0
    total = 0
    for statement in decl.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name:
                total += 1
            elif isinstance(node, (ast.Attribute, ast.Subscript)):
                as_base += isinstance(node.value, ast.Name) and node.value.id == name
    return as_base, total - as_base


def returned_local(decl: FunctionDecl) -> str:
    """The local, not a parameter, that a function returns most often; "" if none."""
    params = {name for name, _, _ in decl.params}
    names = [r.value.id for r in decl.returns if isinstance(r.value, ast.Name) and r.value.id not in params]
    names = [name for name in names if name in decl.assigned]
    return max(names, key=names.count) if names else ""
