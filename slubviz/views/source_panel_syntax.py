"""Colours of a program text in the kernel language, which has Python's syntax.

Own rules rather than a general lexer: a file is coloured in a few milliseconds, and the machine's own
operations (``irq_save``, ``cmpxchg_local``) have a colour.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence

from PySide6.QtGui import QFont, QTextBlock, QTextCharFormat, QTextLayout

from slubviz.model.lang.intrinsics import INTRINSICS
from slubviz.views.theme import Theme

_TOKEN = re.compile(
    r"(?P<comment>\#.*)"
    r"|(?P<long>\"\"\"|''')"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<decorator>@\w+)"
    r"|(?P<number>\b(?:0[xX][0-9a-fA-F_]+|\d[\d_]*)\b)"
    r"|(?P<word>[A-Za-z_]\w*)"
)
_WORDS = frozenset(keyword.kwlist) - {"None"}
_QUOTES = ('"""', "'''")


class Token:
    """Names of the kinds of tokens, as the theme has them."""

    KEYWORD, STRING, COMMENT, NUMBER, INTRINSIC, CONSTANT, DEFINITION = (
        "syntax_keyword",
        "syntax_string",
        "syntax_comment",
        "syntax_number",
        "syntax_intrinsic",
        "syntax_constant",
        "text",
    )


def tokens(line: str, inside: int = 0) -> Iterator[tuple[int, int, str]]:
    """Parts of a line that have a colour.

    Parameters
    ----------
    inside : int
        0, or which kind of long string the line begins in: 1 for double, 2 for single quotes.

    Yields
    ------
    start, length, kind
        ``kind`` is a meaning of the theme.
    """
    at = 0
    if inside:
        end = line.find(_QUOTES[inside - 1])
        at = len(line) if end < 0 else end + 3
        yield 0, at, Token.STRING
    defines = False
    while (match := _TOKEN.search(line, at)) is not None:
        start, at = match.span()
        kind, text = match.lastgroup, match.group()
        if kind == "long":
            end = line.find(text, at)
            at = len(line) if end < 0 else end + 3
            yield start, at - start, Token.STRING
            continue
        colour = _word_kind(text, defines) if kind == "word" else _KINDS[str(kind)]
        defines = text in ("def", "class")
        if colour:
            yield start, at - start, colour


def inside_after(line: str, inside: int = 0) -> int:
    """Which kind of long string the next line begins in, 0 for none."""
    at = 0
    while True:
        if inside:
            end = line.find(_QUOTES[inside - 1], at)
            if end < 0:
                return inside
            at, inside = end + 3, 0
        match = _TOKEN.search(line, at)
        if match is None:
            return 0
        at = match.end()
        if match.lastgroup == "long":
            inside = _QUOTES.index(match.group()) + 1


_KINDS = {
    "comment": Token.COMMENT,
    "string": Token.STRING,
    "decorator": Token.CONSTANT,
    "number": Token.NUMBER,
}


def _word_kind(word: str, defines: bool) -> str:
    if defines:
        return Token.DEFINITION
    if word in _WORDS:
        return Token.KEYWORD
    if word in INTRINSICS:
        return Token.INTRINSIC
    if len(word) > 1 and word.isupper():
        return Token.CONSTANT
    return ""


class Colouring:
    """Colours the lines of one document, each when it first comes into view."""

    def __init__(self, lines: Sequence[str], theme: Theme) -> None:
        self._inside = states(lines)
        self._theme = theme
        self._formats = _formats(theme)
        self._done: set[int] = set()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours; lines get them when they come into view."""
        if theme is not self._theme:
            self._theme, self._formats = theme, _formats(theme)
            self._done.clear()

    def colour(self, block: QTextBlock) -> bool:
        """Colour a line; False if it is coloured already."""
        number = block.blockNumber()
        if number in self._done or number >= len(self._inside):
            return False
        self._done.add(number)
        ranges = []
        for start, length, kind in tokens(block.text(), self._inside[number]):
            part = QTextLayout.FormatRange()
            part.start, part.length, part.format = start, length, self._formats[kind]
            ranges.append(part)
        block.layout().setFormats(ranges)
        return True


def states(lines: Sequence[str]) -> list[int]:
    """For each line, which kind of long string it begins in, 0 for none."""
    result, inside = [], 0
    for line in lines:
        result.append(inside)
        if inside or '"""' in line or "'''" in line:
            inside = inside_after(line, inside)
    return result


def _formats(theme: Theme) -> dict[str, QTextCharFormat]:
    made: dict[str, QTextCharFormat] = {}
    for kind in (
        Token.KEYWORD,
        Token.STRING,
        Token.COMMENT,
        Token.NUMBER,
        Token.INTRINSIC,
        Token.CONSTANT,
        Token.DEFINITION,
    ):
        form = QTextCharFormat()
        form.setForeground(theme.color(kind))
        if kind in (Token.KEYWORD, Token.DEFINITION):
            form.setFontWeight(QFont.Weight.DemiBold)
        form.setFontItalic(kind == Token.COMMENT)
        made[kind] = form
    return made
