"""What of Python the kernel language leaves out, and what to write instead."""

from __future__ import annotations

import ast

from slubviz.model.lang.source import Source

_STATEMENTS: dict[str, tuple[str, str]] = {
    "Import": ("`import` is not part of the language", "give the files to the compiler in order"),
    "ImportFrom": ("`import` is not part of the language", "give the files to the compiler in order"),
    "Global": ("`global` is not needed", "assigning to the name of a global stores to it"),
    "Nonlocal": ("`nonlocal` is not part of the language", ""),
    "Try": ("`try` is not part of the language", "return a code and test it"),
    "TryStar": ("`try` is not part of the language", "return a code and test it"),
    "Raise": ("`raise` is not part of the language", 'write bug("message")'),
    "With": ("`with` is not part of the language", "write the lock and unlock calls"),
    "AsyncWith": ("`async` is not part of the language", ""),
    "AsyncFor": ("`async` is not part of the language", ""),
    "AsyncFunctionDef": ("`async` is not part of the language", "write def"),
    "Match": ("`match` is not part of the language", "write if / elif / else"),
    "Delete": ("`del` is not part of the language", ""),
    "TypeAlias": ("`type` is not part of the language", ""),
}

_EXPRESSIONS: dict[str, tuple[str, str]] = {
    "Tuple": ("tuples are not part of the language", "use one variable for each value"),
    "List": ("lists are not part of the language", "declare a global: name: array[type, length]"),
    "Set": ("sets are not part of the language", ""),
    "Dict": ("dictionaries are not part of the language", ""),
    "ListComp": ("comprehensions are not part of the language", "write a for loop"),
    "SetComp": ("comprehensions are not part of the language", "write a for loop"),
    "DictComp": ("comprehensions are not part of the language", "write a for loop"),
    "GeneratorExp": ("comprehensions are not part of the language", "write a for loop"),
    "Lambda": ("`lambda` is not part of the language", "write an @inline function"),
    "NamedExpr": ("`:=` is not part of the language", "assign in a statement of its own"),
    "Await": ("`await` is not part of the language", ""),
    "Yield": ("`yield` is not part of the language", ""),
    "YieldFrom": ("`yield` is not part of the language", ""),
    "JoinedStr": ("text is not a value", "messages are plain text without placeholders"),
    "TemplateStr": ("text is not a value", "messages are plain text without placeholders"),
    "Starred": ("`*` is not part of the language", "name each argument"),
    "Slice": ("slices are not part of the language", "index one element"),
}


def refuse_statement(source: Source, node: ast.stmt) -> None:
    """Raise the error for a statement that the language lacks; return if it knows it."""
    found = _STATEMENTS.get(type(node).__name__)
    if found is not None:
        raise source.error(node, *found)


def refuse_expression(source: Source, node: ast.AST) -> None:
    """Raise the error for an expression that the language lacks; return if it knows it."""
    found = _EXPRESSIONS.get(type(node).__name__)
    if found is not None:
        raise source.error(node, *found)
