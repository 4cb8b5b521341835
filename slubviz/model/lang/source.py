"""Source files of the kernel language: text, positions and errors that point into them.

``ast`` counts columns in UTF-8 bytes from 0; everything here is in characters, from 1.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

from slubviz.model.lang.errors import KernelLanguageError

_LINE_END = re.compile(r"\r\n|\r|\n")
_WORD = re.compile(rb"\w+")

#: line, column, end line, end column; 1-based, end exclusive
Position = tuple[int, int, int, int]


@dataclass(frozen=True)
class SourceFile:
    """One file of a program: the name shown in messages, and the whole text."""

    name: str
    text: str


class Source:
    """A parsed source file.

    Attributes
    ----------
    index
        Number of the file in the order given to the compiler.
    tree
        The syntax tree; it is only read, never executed.
    """

    def __init__(self, index: int, file: SourceFile) -> None:
        self.index = index
        self.name = file.name
        self.text = file.text.removeprefix("\ufeff")
        self.lines = _LINE_END.split(self.text)
        self.tree = self._parse()

    def _parse(self) -> ast.Module:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # e.g. "is with a literal": we report it ourselves
                return ast.parse(self.text, filename=self.name)
        except SyntaxError as problem:
            line = problem.lineno or 1
            column = max(problem.offset or 1, 1)
            text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
            raise KernelLanguageError(
                f"syntax error: {problem.msg}", file=self.name, line=line, column=column, text=text
            ) from None
        except (ValueError, MemoryError, RecursionError) as problem:
            reason = "it is nested too deeply" if isinstance(problem, RecursionError) else str(problem)
            raise KernelLanguageError(
                f"the file cannot be read as source text: {reason or 'it is nested too deeply'}",
                file=self.name,
                line=1,
                column=1,
                text="",
            ) from None

    def column(self, line: int, byte_offset: int) -> int:
        """1-based column in characters of a byte offset that ``ast`` gives."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return byte_offset + 1
        return len(text.encode("utf-8")[:byte_offset].decode("utf-8", "ignore")) + 1

    def position(self, node: ast.AST) -> Position:
        """Where ``node`` stands.  For statements with a body, only their header."""
        if isinstance(node, (ast.Module, ast.arguments)):
            return (1, 1, 1, 1)
        line: int = getattr(node, "lineno", 1)
        end_line: int = getattr(node, "end_lineno", None) or line
        offset: int = getattr(node, "col_offset", 0)
        end_offset: int = getattr(node, "end_col_offset", None) or offset
        header = _header_end(node)
        if header is None and isinstance(node, ast.stmt) and isinstance(getattr(node, "body", None), list):
            # with, try, match, async: only named in errors, by their keyword
            keyword = _WORD.match(self.lines[line - 1].encode("utf-8")[offset:])
            header = line, offset + (keyword.end() if keyword else 0)
        if header is not None:
            end_line, end_offset = header
        return (line, self.column(line, offset), end_line, self.column(end_line, end_offset))

    def segment(self, node: ast.AST) -> str:
        """The source text of ``node`` (of its header, if it has a body)."""
        line, column, end_line, end_column = self.position(node)
        if line == end_line:
            return self.lines[line - 1][column - 1 : end_column - 1]
        middle = self.lines[line : end_line - 1]
        return "\n".join(
            [self.lines[line - 1][column - 1 :], *middle, self.lines[end_line - 1][: end_column - 1]]
        )

    def error(self, node: ast.AST, message: str, suggestion: str = "") -> KernelLanguageError:
        """An error at ``node``, to be raised by the caller."""
        line, column, _, _ = self.position(node)
        return KernelLanguageError(
            message,
            file=self.name,
            line=line,
            column=column,
            text=self.segment(node),
            suggestion=suggestion,
        )


def _header_end(node: ast.AST) -> tuple[int, int] | None:
    """End of the header of a statement that has a body, None for other nodes."""
    last: ast.expr | None = None
    if isinstance(node, (ast.If, ast.While)):
        last = node.test
    elif isinstance(node, ast.For):
        last = node.iter
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        # "def name" / "class name"; the parameters may span lines
        keyword = 4 if isinstance(node, ast.FunctionDef) else 6
        return node.lineno, node.col_offset + keyword + len(node.name.encode("utf-8"))
    if last is None:
        return None
    return last.end_lineno or last.lineno, last.end_col_offset or 0
