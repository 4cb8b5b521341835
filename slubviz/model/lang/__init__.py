"""The kernel language: a subset of Python's syntax, compiled to micro-ops and never executed as Python.

Interface: ``compile_program`` turns ``SourceFile``s into a ``Program`` for a ``Target``; ``disassemble``
shows one micro-op; ``KernelLanguageError`` says what does not compile.  ``docs/kernel-language.md`` describes
the language.
"""

from slubviz.model.lang.compiler import compile_program
from slubviz.model.lang.disassembler import disassemble
from slubviz.model.lang.errors import KernelLanguageError
from slubviz.model.lang.program import (
    Field,
    Function,
    Global,
    InlineSite,
    Option,
    Program,
    SourceSpan,
    Struct,
    Target,
    Variable,
)
from slubviz.model.lang.source import SourceFile

__all__ = [
    "Field",
    "Function",
    "Global",
    "InlineSite",
    "KernelLanguageError",
    "Option",
    "Program",
    "SourceFile",
    "SourceSpan",
    "Struct",
    "Target",
    "Variable",
    "compile_program",
    "disassemble",
]
