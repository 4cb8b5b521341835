"""The one error of the kernel language: where it is, what is wrong and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from slubviz.model.errors import UserError

_LONGEST_TEXT = 70


class KernelLanguageError(UserError):
    """A program that does not compile.

    Attributes
    ----------
    file, line, column
        Place of the error; line and column are 1-based, both 0 when it is not in a file.
    text
        The offending source text, first line only.
    message, suggestion
        What is wrong, and what to do about it ("" when there is nothing to suggest).
    """

    def __init__(
        self, message: str, *, file: str, line: int, column: int, text: str, suggestion: str = ""
    ) -> None:
        self.file = file
        self.line = line
        self.column = column
        self.text = text
        self.message = message
        self.suggestion = suggestion
        super().__init__(message)

    def __str__(self) -> str:
        """``file:line:col: message: `text` (suggestion)``, always one line."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        line = f"{place}: {self.message}"
        if self.text:
            line += f": `{shortened(self.text)}`"
        if self.suggestion:
            line += f" ({self.suggestion})"
        return line


def shortened(text: str) -> str:
    """The first line of ``text``, cut to a readable length."""
    lines = text.strip().splitlines()
    first = lines[0] if lines else ""
    more = len(lines) > 1 or len(first) > _LONGEST_TEXT
    return first[:_LONGEST_TEXT].rstrip() + (" ..." if more else "")


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """``did you mean X?`` for the known name nearest to ``name``, else ``otherwise``."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else otherwise
