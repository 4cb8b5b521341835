"""Compiles source files of the kernel language to a ``Program``.

Files are one unit: every file sees the names of all.  A function replaces an earlier one of the same
name if it is marked ``@override``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

import numpy as np

from slubviz.hw.isa import Op
from slubviz.model.lang import statements
from slubviz.model.lang.arithmetic import wrap
from slubviz.model.lang.builder import Builder, Label, Returns, Scope, Site, Value
from slubviz.model.lang.constants import BUILT_IN
from slubviz.model.lang.declarations import read_declarations
from slubviz.model.lang.errors import KernelLanguageError
from slubviz.model.lang.intrinsics import INTRINSICS
from slubviz.model.lang.linker import FunctionCode, encode, link_function, used_sites
from slubviz.model.lang.program import Function, InlineSite, Program, SourceSpan, Target, Variable
from slubviz.model.lang.source import Position, Source, SourceFile
from slubviz.model.lang.unit import FunctionDecl, Unit

_NO_OPTIONS: Mapping[str, int] = {}


def compile_program(
    files: Sequence[SourceFile], target: Target, options: Mapping[str, int] = _NO_OPTIONS
) -> Program:
    """Compile files as one program.

    Parameters
    ----------
    files
        In order; their names appear in messages and spans and must differ.
    target
        Word size, predefined constants and the address of the first global.
    options
        Values for the program's options; the others keep their defaults.

    Returns
    -------
    Program
        The same for the same arguments.

    Raises
    ------
    KernelLanguageError
        For the first thing that is wrong in the program or the options.
    ValueError
        If the target or the list of files makes no sense.
    """
    if target.word_bytes not in (4, 8):
        raise ValueError(f"word_bytes is {target.word_bytes}; a word has 4 or 8 bytes")
    names = [file.name for file in files]
    if len(set(names)) != len(names):
        raise ValueError(f"two files have the same name: {', '.join(names)}")
    sources = [Source(index, file) for index, file in enumerate(files)]
    try:
        unit, static_end = read_declarations(sources, target, options, frozenset(INTRINSICS))
        sites: list[Site] = []
        code = [_compile_function(unit, decl, sites) for decl in unit.functions.values()]
    except RecursionError:
        raise KernelLanguageError(
            "the program is nested too deeply", file=", ".join(names), line=0, column=0, text=""
        ) from None
    return _assemble(unit, code, sites, static_end)


def _compile_function(unit: Unit, decl: FunctionDecl, sites: list[Site]) -> FunctionCode:
    b = Builder(unit, decl, sites)
    params = [name for name, _, _ in decl.params]
    registers = [b.temporary() for _ in params]
    b.open_scope(Scope(decl, -1, Returns("function", Label())), params)
    for register, (name, kind, argument) in zip(registers, decl.params, strict=True):
        b.declare(name, Value(register, 0, kind), declared=argument.annotation is not None)
    statements.function_body(b)
    b.close_scope()
    return link_function(b)


def _assemble(unit: Unit, code: list[FunctionCode], sites: list[Site], static_end: int) -> Program:
    """Put the functions one behind the other and build the program's tables."""
    starts = np.cumsum([0, *(len(part.instructions) for part in code)]).tolist()
    instructions = [item for part in code for item in part.instructions]
    renumbered = used_sites(instructions, sites)
    for part, start in zip(code, starts, strict=False):
        for item in part.instructions:
            if item.op is Op.CALL:
                item.aux = starts[item.c]
            elif item.target is not None:
                item.aux += start
    functions = tuple(
        _function(decl, part, start, renumbered)
        for decl, part, start in zip(unit.functions.values(), code, starts, strict=False)
    )
    spans = [(item.file, *item.position, item.function) for item in instructions]
    files = tuple(source.name for source in unit.sources)
    constants = {
        **BUILT_IN,
        **unit.target.constants,
        **{name: decl.value for name, decl in unit.constants.items() if decl.value is not None},
    }
    return Program(
        code=encode(instructions),
        spans=np.array(spans, dtype=np.int32).reshape(-1, 6),
        inline_site=np.array([renumbered.get(item.site, -1) for item in instructions], dtype=np.int32),
        inline_sites=tuple(_inline_site(files, sites[old], renumbered) for old in renumbered),
        functions=functions,
        structs=dict(unit.structs),
        globals=dict(unit.globals),
        static_base=unit.target.static_base,
        static_end=static_end,
        counters=tuple(unit.counters),
        bug_messages=tuple(unit.bug_messages),
        options=dict(unit.options),
        constants={name: wrap(value) for name, value in constants.items()},
        files=files,
        sources={source.name: source.text for source in unit.sources},
        target=unit.target,
    )


def _function(decl: FunctionDecl, part: FunctionCode, start: int, renumbered: dict[int, int]) -> Function:
    variables = tuple(
        Variable(
            v.name, v.register, v.type_name, v.first_pc + start, v.end_pc + start,
            renumbered.get(v.site, -1), v.value,
        )
        for v in part.variables
        if v.site < 0 or v.site in renumbered
    )  # fmt: skip
    return Function(
        name=decl.name,
        index=decl.index,
        entry_pc=start,
        end_pc=start + len(part.instructions),
        params=tuple(name for name, _, _ in decl.params),
        locals_count=part.locals_count,
        window_words=part.window_words,
        variables=variables,
        file=decl.source.name,
        line=decl.node.lineno,
        inline=decl.inline,
        doc=ast.get_docstring(decl.node) or "",
    )


def _inline_site(files: Sequence[str], site: Site, renumbered: dict[int, int]) -> InlineSite:
    return InlineSite(
        function=site.function,
        call=_source_span(files[site.file], site.position),
        caller=site.caller,
        parent=renumbered.get(site.parent, -1),
    )


def _source_span(file: str, position: Position) -> SourceSpan:
    line, column, end_line, end_column = position
    return SourceSpan(file, line, column, end_line, end_column)
