"""Checked access to the tables of a scenario file, which may be damaged or hostile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from slubviz.model.errors import quoted
from slubviz.model.scenarios.scenario import ScenarioError

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def shown(value: object) -> str:
    """A value in a message: short, one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 1 << 64 else "a number of more than 64 bits"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return quoted(str(value))


class Table:
    """One table; ``place`` is how its header reads in the file."""

    def __init__(self, values: Mapping[str, Any], where: str, place: str = "") -> None:
        self.place = place
        self._values = values
        self._where = where
        self._seen: list[str] = []

    def fail(self, key: str, what: str) -> ScenarioError:
        """The complaint about a key."""
        name = key if len(key) <= 40 and key.isprintable() else quoted(key)
        return ScenarioError(f"{self._where}: {self.place}{' ' if self.place else ''}{name}: {what}")

    def has(self, key: str) -> bool:
        """Whether the file gives a key."""
        self._seen.append(key)
        return key in self._values

    def _raw(self, key: str, wanted: str) -> Any:
        if not self.has(key):
            raise self.fail(key, f"is missing; give {wanted}")
        return self._values[key]

    def integer(self, key: str, low: int = _LOWEST, high: int = _HIGHEST, default: int | None = None) -> int:
        """A whole number in bounds; ``default`` if it is not given."""
        if default is not None and not self.has(key):
            return default
        wanted = "a whole number" if low == _LOWEST else f"a whole number from {low:,} to {high:,}"
        return self._checked(key, self._raw(key, wanted), wanted, low, high)

    def _checked(self, key: str, value: object, wanted: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fail(key, f"is {shown(value)}; give {wanted}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._values[key] if self.has(key) else default
        if not isinstance(value, bool):
            raise self.fail(key, f"is {shown(value)}; give true or false")
        return value

    def text(self, key: str, longest: int, default: str | None = None, *, empty: bool = False) -> str:
        """A text of any number of lines, without other control characters; not empty unless by default."""
        if default is not None and not self.has(key):
            return default
        value = self._raw(key, "a text in quotes")
        if not isinstance(value, str):
            raise self.fail(key, f"is {shown(value)}; give a text in quotes")
        if len(value) > longest:
            raise self.fail(key, f"has {len(value):,} characters; at most {longest:,} are possible")
        if not value.strip() and not empty:
            raise self.fail(key, "is empty; give a text")
        wrong = next((c for c in value if not c.isprintable() and c not in "\n\t\r"), "")
        if wrong:
            raise self.fail(key, f"has the character {wrong!a}, which no text has")
        return value

    def paragraph(self, key: str, longest: int, default: str | None = None) -> str:
        """A text as one line: line ends and other white space become single spaces."""
        return " ".join(self.text(key, longest, default).split())

    def name(self, key: str, what: str) -> str:
        """A name of the kernel language."""
        value = self._raw(key, what)
        if not isinstance(value, str) or not value.isidentifier():
            raise self.fail(key, f"is {shown(value)}; give {what}")
        return value

    def choice(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        """One of some words."""
        if default is not None and not self.has(key):
            return default
        value = self._raw(key, f"one of {', '.join(known)}")
        if value not in known:
            near = get_close_matches(value, known, n=1) if isinstance(value, str) else []
            question = f"; did you mean {near[0]}?" if near else ""
            raise self.fail(key, f"is {shown(value)}{question} (known: {', '.join(known)})")
        return str(value)

    def integers(self, key: str, most: int) -> tuple[int, ...]:
        """A list of whole numbers of 64 bits; empty if it is not given."""
        value = self._values[key] if self.has(key) else []
        if not isinstance(value, list):
            raise self.fail(key, f"is {shown(value)}; give a list of whole numbers in brackets")
        if len(value) > most:
            raise self.fail(key, f"has {len(value):,} entries; at most {most} are possible")
        return tuple(
            self._checked(key, entry, "whole numbers of 64 bits", _LOWEST, _HIGHEST) for entry in value
        )

    def section(self, key: str, *, required: bool = False) -> Table:
        """A table inside this one; an empty one if it is not given."""
        place = f"{self.place[:-1]}.{key}]" if self.place else f"[{key}]"
        if required and not self.has(key):
            raise ScenarioError(f"{self._where}: the table {place} is missing")
        value = self._values[key] if self.has(key) else {}
        if not isinstance(value, dict):
            raise self.fail(key, f"is {shown(value)}; give a table")
        return Table(value, self._where, place)

    def tables(self, key: str, most: int) -> Iterator[Table]:
        """The tables of an array, ``[[key]]``; each is checked for unknown keys after its use."""
        value = self._values[key] if self.has(key) else []
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.fail(key, f"is {shown(value)}; give tables, [[{key}]]")
        if len(value) > most:
            raise self.fail(key, f"are {len(value):,} tables; at most {most} are possible")
        for number, entry in enumerate(value, 1):
            table = Table(entry, self._where, f"[[{key}]] {number},")
            yield table
            table.finish()

    def named_integers(self, most: int) -> dict[str, int]:
        """This table as names with whole numbers."""
        return {name: self.integer(name) for name in self._names(most)}

    def named_choices(self, most: int, known: Sequence[str]) -> dict[str, str]:
        """This table as names with one of some words each."""
        return {name: self.choice(name, known) for name in self._names(most)}

    def _names(self, most: int) -> list[str]:
        if len(self._values) > most:
            raise ScenarioError(f"{self._where}: {self.place} has more than {most} entries")
        for name in self._values:
            if not name.isidentifier():
                raise self.fail(name, "is no name")
        return list(self._values)

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._values:
            if key not in self._seen:
                near = get_close_matches(key, self._seen, n=1)
                question = f"; did you mean {near[0]}?" if near else ""
                known = ", ".join(dict.fromkeys(self._seen))
                raise self.fail(key, f"is not known here{question} (known: {known})")
