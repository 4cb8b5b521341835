"""Checked reading of a JSON document that may be damaged or hostile.

``parse`` turns bytes into plain values within fixed bounds; a ``Reader`` gives checked access to one object
of the document.  Every complaint is one line that names the place, ``branches[2].changes[0].cpu``, and what
to write there instead.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from slubviz.model.errors import UserError, quoted

#: Larger files are refused unread; a session with a thousand changes takes a fortieth of it.
MOST_BYTES = 8 << 20
LOWEST_INTEGER, HIGHEST_INTEGER = -(1 << 63), (1 << 63) - 1

_NAME = re.compile(r"[^\W\d]\w*(\[\d+\])?", re.ASCII)

T = TypeVar("T")


class SessionFileError(UserError):
    """A session file is wrong; says where, and what to do."""


class _Refused(Exception):
    """Something that JSON or Python's parser of it takes and a session file has not."""


def parse(data: bytes) -> Mapping[str, Any]:
    """The object that a JSON document consists of.

    Raises
    ------
    SessionFileError
        If it is too large, no JSON in UTF-8, nested too deeply, no object, or has a key twice.
    """
    if len(data) > MOST_BYTES:
        raise SessionFileError(f"is too large; a session file has at most {MOST_BYTES:,} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SessionFileError(f"not a text in UTF-8 (byte {error.start:,})") from error
    try:
        document = json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_integer
        )
    except _Refused as error:
        raise SessionFileError(str(error)) from error
    except RecursionError as error:
        raise SessionFileError("is nested too deeply; no session is") from error
    except json.JSONDecodeError as error:
        ends = error.pos >= len(text.rstrip())
        reason = "ends too early" if ends and text.strip() else error.msg
        raise SessionFileError(f"not JSON: line {error.lineno}, column {error.colno}: {reason}") from error
    if not isinstance(document, dict):
        raise SessionFileError("is not a session: the document is no object in braces")
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _Refused(f"the key {quoted(twice)} is given twice in one object")
    return made


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is no number that a session file can hold")


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise _Refused(f"the number {digits[:20]}… has {len(digits):,} digits; no number needs more than 20")
    return int(digits)


def shown(value: object) -> str:
    """A value in a message: short, one line."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


class Reader:
    """Checked access to one object; ``place`` is where it stands in the document."""

    def __init__(self, values: object, place: str = "") -> None:
        self.place = place
        if not isinstance(values, dict):
            raise SessionFileError(f"{place}: is {shown(values)}; give an object in braces")
        self._values: Mapping[str, Any] = values
        self._seen: list[str] = []

    def fail(self, key: str, what: str) -> SessionFileError:
        """The complaint about a key."""
        return SessionFileError(f"{self.path(key)}: {what}")

    def path(self, key: str) -> str:
        """Where a key stands in the document."""
        name = key if len(key) <= 60 and _NAME.fullmatch(key) else quoted(key)
        return f"{self.place}.{name}" if self.place else name

    def has(self, key: str) -> bool:
        """Whether the document gives a key."""
        self._seen.append(key)
        return key in self._values

    def raw(self, key: str, wanted: str) -> Any:
        """A value as it is."""
        if not self.has(key):
            raise self.fail(key, f"is missing; give {wanted}")
        return self._values[key]

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self.raw(key, "true or false")
        if not isinstance(value, bool):
            raise self.fail(key, f"is {shown(value)}; give true or false")
        return value

    def integer(self, key: str, low: int = LOWEST_INTEGER, high: int = HIGHEST_INTEGER) -> int:
        """A whole number in bounds."""
        return self._checked_integer(key, self.raw(key, _whole(low, high)), low, high)

    def integer_or_none(self, key: str, low: int, high: int) -> int | None:
        """A whole number in bounds, or null."""
        value = self.raw(key, f"{_whole(low, high)} or null")
        return None if value is None else self._checked_integer(key, value, low, high)

    def _checked_integer(self, key: str, value: object, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fail(key, f"is {shown(value)}; give {_whole(low, high)}")
        return value

    def number(self, key: str, low: float, high: float) -> float:
        """A finite number in bounds."""
        value = self.raw(key, f"a number from {low:g} to {high:g}")
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or not low <= value <= high:
            raise self.fail(key, f"is {shown(value)}; give a number from {low:g} to {high:g}")
        return float(value)

    def line(self, key: str, longest: int = 200, *, empty: bool = False) -> str:
        """A text of one printable line."""
        return self._checked_line(key, self.raw(key, "a text in quotes"), longest, empty)

    def _checked_line(self, key: str, value: object, longest: int, empty: bool) -> str:
        if not isinstance(value, str) or not (value.isprintable() and len(value) <= longest):
            raise self.fail(
                key, f"is {shown(value)}; give one line of at most {longest} printable characters"
            )
        if not value and not empty:
            raise self.fail(key, "is empty; give a text")
        return value

    def text(self, key: str, longest: int) -> str:
        """A text of any number of lines, without control characters."""
        value = self.raw(key, "a text in quotes")
        if not isinstance(value, str) or len(value) > longest:
            raise self.fail(key, f"is {shown(value)}; give a text of at most {longest:,} characters")
        wrong = next(
            (c for c in value if (ord(c) < 32 and c not in "\n\t\r\f") or 0xD800 <= ord(c) < 0xE000), ""
        )
        if wrong:
            raise self.fail(key, f"has the character {wrong!a}, which no text has")
        return value

    def choice(self, key: str, known: Sequence[str], kind: str) -> str:
        """One of some words."""
        value = self.raw(key, f"one of {', '.join(known)}")
        if not isinstance(value, str) or value not in known:
            raise self.fail(key, f"is {shown(value)}, which is no {kind}; known are {', '.join(known)}")
        return value

    def hexadecimal(self, key: str, digits: int) -> str:
        """A hash: lower-case hexadecimal digits."""
        value = self.raw(key, f"{digits} hexadecimal digits")
        if not isinstance(value, str) or len(value) != digits or set(value) - set("0123456789abcdef"):
            raise self.fail(key, f"is {shown(value)}; give {digits} hexadecimal digits")
        return value

    def section(self, key: str) -> Reader:
        """An object inside this one."""
        return Reader(self.raw(key, "an object in braces"), self.path(key))

    def objects(self, key: str, most: int, read: Callable[[Reader], T]) -> tuple[T, ...]:
        """A list of objects, each read by ``read``, which need not call ``finish``."""
        found = []
        for i, value in enumerate(self._list(key, most)):
            reader = Reader(value, f"{self.path(key)}[{i}]")
            found.append(read(reader))
            reader.finish()
        return tuple(found)

    def integers(self, key: str, most: int, low: int, high: int) -> tuple[int, ...]:
        """A list of whole numbers."""
        return tuple(
            self._checked_integer(f"{key}[{i}]", value, low, high)
            for i, value in enumerate(self._list(key, most))
        )

    def lines(self, key: str, most: int, longest: int) -> tuple[str, ...]:
        """A list of lines."""
        return tuple(
            self._checked_line(f"{key}[{i}]", value, longest, False)
            for i, value in enumerate(self._list(key, most))
        )

    def named_integers(self, key: str, most: int) -> dict[str, int]:
        """An object whose values are whole numbers."""
        reader = self.section(key)
        if len(reader._values) > most:
            raise self.fail(key, f"has {len(reader._values):,} entries; at most {most:,} are possible")
        for name in reader._values:
            if not name.isidentifier():
                raise self.fail(key, f"has the name {quoted(name)}, which is no option's")
        return {name: reader.integer(name) for name in reader._values}

    def _list(self, key: str, most: int) -> list[Any]:
        value = self.raw(key, "a list in brackets")
        if not isinstance(value, list):
            raise self.fail(key, f"is {shown(value)}; give a list in brackets")
        if len(value) > most:
            raise self.fail(key, f"has {len(value):,} entries; at most {most:,} are possible")
        return value

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._values:
            if key not in self._seen:
                near = get_close_matches(key, self._seen, n=1)
                question = f"; did you mean {near[0]}?" if near else ""
                raise self.fail(key, f"is not known here{question} (known: {', '.join(sorted(self._seen))})")


def _whole(low: int, high: int) -> str:
    if (low, high) == (LOWEST_INTEGER, HIGHEST_INTEGER):
        return "a whole number of 64 bits"
    if high >= 1 << 53:
        return f"a whole number from {low:,} on"
    return f"a whole number from {low:,} to {high:,}"
