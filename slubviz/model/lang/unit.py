"""A program's declarations: everything at the outermost level of its files, by name.

``declarations`` fills a ``Unit``; layouts and constants are worked out on demand, because a struct may
need a constant (the length of an array) and a constant a struct (``sizeof``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from slubviz.model.lang.errors import KernelLanguageError, did_you_mean
from slubviz.model.lang.program import Global, Option, Struct, Target
from slubviz.model.lang.source import Source
from slubviz.model.lang.types import INT, TYPE_NAMES, Type


@dataclass(eq=False)
class ConstantDecl:
    """``NAME = expression``; ``value`` is None until it is worked out."""

    source: Source
    node: ast.AST
    expression: ast.expr
    value: int | None = None
    busy: bool = False


@dataclass(eq=False)
class OptionDecl:
    """``NAME = option(default, "doc")`` or ``NAME = option(default, "doc", lowest, highest)``."""

    source: Source
    node: ast.AST
    default: ast.expr
    doc: str
    limits: tuple[ast.expr, ...] = ()  #: none, or the lowest and the highest value


@dataclass(eq=False)
class StructDecl:
    """``class name(struct): ...``."""

    source: Source
    node: ast.ClassDef
    size: ast.expr | None
    align: ast.expr | None
    busy: bool = False


@dataclass(eq=False)
class GlobalDecl:
    """``name: type``; ``per`` is "", "cpu" or "node"."""

    source: Source
    node: ast.AST
    name: str
    annotation: ast.expr
    per: str


@dataclass(eq=False)
class FunctionDecl:
    """A function; parameter and return types are read after all structs are known."""

    source: Source
    node: ast.FunctionDef
    inline: bool
    override: bool
    index: int = -1
    params: list[tuple[str, Type, ast.arg]] = field(default_factory=list)
    return_type: Type | None = INT  #: None: "-> None", gives no value
    #: Names that the body assigns, in order of their first assignment.
    assigned: list[str] = field(default_factory=list)
    #: The body's return statements in source order.
    returns: list[ast.Return] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.node.name

    @property
    def body(self) -> list[ast.stmt]:
        """The statements without the docstring."""
        return self.node.body[1:] if ast.get_docstring(self.node) is not None else self.node.body


@dataclass(eq=False)
class Unit:
    """All declarations of a program, and the names they use."""

    target: Target
    sources: list[Source]
    places: dict[str, tuple[Source, ast.AST]] = field(default_factory=dict)
    constants: dict[str, ConstantDecl] = field(default_factory=dict)
    option_decls: dict[str, OptionDecl] = field(default_factory=dict)
    options: dict[str, Option] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    struct_decls: dict[str, StructDecl] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)
    global_decls: dict[str, GlobalDecl] = field(default_factory=dict)
    globals: dict[str, Global] = field(default_factory=dict)
    functions: dict[str, FunctionDecl] = field(default_factory=dict)
    bug_messages: dict[str, int] = field(default_factory=dict)

    def constant_names(self) -> Iterator[str]:
        """Every name with a compile-time value."""
        yield from ("NULL", "True", "False")
        yield from self.target.constants
        yield from self.options
        yield from self.constants

    def message_number(self, text: str) -> int:
        """The number of a BUG message; equal texts share one."""
        return self.bug_messages.setdefault(text, len(self.bug_messages))

    def kind_of(self, name: str) -> str:
        """What a module-level name is, for messages; "" if it is unknown."""
        if name in self.counters:
            return "counter"
        if name in self.options:
            return "option"
        if name in self.constants or name in self.target.constants or name in ("NULL", "True", "False"):
            return "constant"
        if name in self.global_decls:
            return "global"
        if name in self.functions:
            return "function"
        return "struct" if name in self.struct_decls else ""

    def unknown_struct(self, source: Source, node: ast.AST, name: str) -> KernelLanguageError:
        """The error for a type name that does not exist."""
        hints = {
            "int": "write word, int32 or uint32",
            "bool": "write int32",
            "float": "the language has integers only",
            "str": "the language has integers only",
            "long": "write word",
            "void": "write ptr for an untyped pointer, None for no result",
        }
        suggestion = did_you_mean(
            name, [*self.struct_decls, *TYPE_NAMES], f"declare it: class {name}(struct):"
        )
        return source.error(node, f"unknown type {name}", hints.get(name, suggestion))
