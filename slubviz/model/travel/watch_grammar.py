"""Reads watch expressions.  Nothing is looked up and nothing is executed here: text in, tree out.

Grammar::

    watch   := primary step* [":" bytes]
    step    := "." name  |  "[" watch "]"
    primary := number | name | name "(" argument { "," argument } ")" | "(" watch ")"
    number  := digits | "0x" digits | "-" number

A name may end in a dash and digits, as caches' names do: ``kmalloc-64``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slubviz.model.errors import UserError, quoted

#: Longer texts are refused.
MOST_CHARACTERS = 300
MOST_NESTING = 20
_TOKEN = re.compile(r"\s*(?:(0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*(?:-\d+)?)|([.\[\]():,-]))")


class WatchError(UserError):
    """An expression cannot be read, or has no value now; one line."""


@dataclass(frozen=True)
class Number:
    """A number."""

    value: int


@dataclass(frozen=True)
class Name:
    """A variable, counter, constant or local variable."""

    name: str


@dataclass(frozen=True)
class Call:
    """One of the forms with arguments: ``page(812)``."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Member:
    """A field of a struct, or of what a pointer leads to."""

    of: Node
    field: str


@dataclass(frozen=True)
class Element:
    """An element of an array, or of what a pointer leads to."""

    of: Node
    index: Node


@dataclass(frozen=True)
class Word:
    """The word of so many bytes at the address that another expression gives."""

    at: Node
    size_bytes: int


Node = Number | Name | Call | Member | Element | Word


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise WatchError(f"watch {quoted(text)}: unexpected {quoted(text[at:].strip()[:1])}")
            self.tokens.append((match[0].strip(), match.end()))
            at = match.end()
        self.at = 0
        self.depth = 0

    def fail(self, wanted: str) -> WatchError:
        found = quoted(self.tokens[self.at][0]) if self.at < len(self.tokens) else "the end"
        return WatchError(f"watch {quoted(self.text)}: {wanted} is expected where {found} is")

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.fail(quoted(token))
        self.at += 1

    def watch(self) -> Node:
        self.depth += 1
        if self.depth > MOST_NESTING:
            raise WatchError(f"watch {quoted(self.text)}: it is nested too deeply")
        node = self.primary()
        while self.peek() in (".", "["):
            if self.take() == ".":
                if not _is_name(self.peek()):
                    raise self.fail("the name of a field")
                node = Member(node, self.take())
            else:
                node = Element(node, self.watch())
                self.expect("]")
        if self.peek() == ":":
            self.take()
            if self.peek() not in ("4", "8"):
                raise self.fail("4 or 8 (bytes)")
            node = Word(node, int(self.take()))
        self.depth -= 1
        return node

    def primary(self) -> Node:
        token = self.peek()
        if token == "(":
            self.take()
            node = self.watch()
            self.expect(")")
            return node
        if token == "-":
            self.take()
            if not self.peek()[:1].isdigit():
                raise self.fail("a number")
            return Number(-_integer(self.take()))
        if token[:1].isdigit():
            return Number(_integer(self.take()))
        if not _is_name(token):
            raise self.fail("a name or a number")
        self.take()
        return Call(token, self.arguments()) if self.peek() == "(" else Name(token)

    def arguments(self) -> tuple[Node, ...]:
        self.expect("(")
        found = [self.watch()]
        while self.peek() == ",":
            self.take()
            found.append(self.watch())
        self.expect(")")
        return tuple(found)


def _is_name(token: str) -> bool:
    return token[:1].isalpha() or token[:1] == "_"


def _integer(token: str) -> int:
    return int(token, 16) if token[:2].lower() == "0x" else int(token)


def read_watch(text: str) -> Node:
    """The tree of an expression.

    Raises
    ------
    WatchError
        If it is none; says where it goes wrong.
    """
    if len(text) > MOST_CHARACTERS:
        raise WatchError(f"watch: the expression is longer than {MOST_CHARACTERS} characters")
    if not text.strip():
        raise WatchError("watch: nothing is written; try page(812).inuse or this_cpu(cache_cpus)")
    reader = _Reader(text)
    node = reader.watch()
    if reader.at < len(reader.tokens):
        raise reader.fail("the end")
    return node
