"""Shared by the tests: a target, a one-file compile, and readable code."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from slubviz.hw.isa import WORDS, Op
from slubviz.model.lang import (
    KernelLanguageError,
    Program,
    SourceFile,
    Target,
    compile_program,
    disassemble,
)
from tests.lang.reference_machine import ReferenceMachine

STATIC_BASE = 0x10000
TARGET = Target(8, {"PAGE_SIZE": 4096, "PAGE_SHIFT": 12, "NR_CPUS": 8, "NR_NODES": 4}, STATIC_BASE)
TARGET_32 = Target(4, {"PAGE_SIZE": 4096, "PAGE_SHIFT": 12, "NR_CPUS": 1, "NR_NODES": 1}, STATIC_BASE)


def compiled(text: str, target: Target = TARGET, options: Mapping[str, int] | None = None) -> Program:
    """Compile one file named ``t.py``; the text may be indented."""
    return compile_program([SourceFile("t.py", textwrap.dedent(text))], target, options or {})


def machine(text: str, target: Target = TARGET, **state: int) -> ReferenceMachine:
    """A machine that holds the compiled text."""
    return ReferenceMachine(compiled(text, target), **state)


def listing(program: Program, name: str) -> list[str]:
    """A function's micro-ops, disassembled; jump targets count from the function's start."""
    function = program.function(name)
    lines = []
    for pc in range(function.entry_pc, function.end_pc):
        text = disassemble(program, pc)
        head, goto, target = text.rpartition("goto ")
        lines.append(f"{head}goto {int(target) - function.entry_pc}" if goto else text)
    return lines


def operations(program: Program, name: str) -> list[Op]:
    """The opcodes of a function."""
    function = program.function(name)
    rows = program.code.reshape(-1, WORDS)
    return [Op(int(rows[pc, 0])) for pc in range(function.entry_pc, function.end_pc)]


def span_text(program: Program, pc: int) -> str:
    """The source text a micro-op belongs to."""
    span = program.span(pc)
    lines = program.sources[span.file].split("\n")
    if span.line == span.end_line:
        return lines[span.line - 1][span.column - 1 : span.end_column - 1]
    return lines[span.line - 1][span.column - 1 :]


def error_of(text: str, target: Target = TARGET, options: Mapping[str, int] | None = None) -> str:
    """The whole message that compiling gives."""
    with pytest.raises(KernelLanguageError) as caught:
        compiled(text, target, options)
    message = str(caught.value)
    assert "\n" not in message
    return message
