"""Breakpoints: where a search stops, as the user writes them.

====================================  ==================================================================
``slub.py:212``                       a CPU is about to begin the source line (also each inlined copy)
``slab_alloc``, ``function kfree``    a CPU is about to begin the function (also each inlined copy)
``counter ALLOC_SLOWPATH``            the counter of a CPU has changed; also the machine's own counters
``word 0x1234``, ``word 0x1234:4``    the word of 8 (or 4) bytes has changed
``slab 1023 full``, ``slab any full`` a slab of the shown cache has become frozen, partial, full or empty
``lock contended``                    a CPU found a lock taken and starts to wait
``lock 0x1234 contended``             the same for one lock
``object 0x4000 freed``               a CPU is about to free it, or (``allocated``) to return it
====================================  ==================================================================

Behind each, conditions: ``if cpu == 2 and depth >= 1 and size < 100 and r3 != 0``.  ``cpu`` is the CPU that
does it, ``depth`` how many interrupts it is in, ``r3`` a register of its innermost frame, other names are
variables of the function that it executes.  A name may also stand for a number (``NULL``, constants).

A slab's fullness is what its own counter says; objects that a CPU keeps for itself count as in use.  Object
breakpoints know the functions that allocate and free one object, not those that do many at once.  ``lock
0x1234 contended`` knows spin locks; a slab's own lock, which some kernels take by other means, is seen by
``lock contended`` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum

from slubviz.hw.layout import HARDWARE_COUNTER_NAMES
from slubviz.model.errors import RequestError, quoted
from slubviz.model.lang import Program
from slubviz.model.travel.code_places import code_places


class BreakpointKind(StrEnum):
    """What strikes."""

    LINE = "line"
    FUNCTION = "function"
    COUNTER = "counter"
    WORD = "word"
    SLAB_STATE = "slab_state"
    CONTENTION = "contention"
    OBJECT = "object"


SLAB_EVENTS = ("frozen", "partial", "full", "empty")
OBJECT_EVENTS = ("allocated", "freed")
_WORDS = ("function", "counter", "word", "slab", "lock", "object")
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
_TERM = re.compile(r"\s*([A-Za-z_]\w*)\s*(==|!=|<=|>=|<|>)\s*(\S+)\s*$")
_REGISTER = re.compile(r"r(\d+)$")
_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|[0-9]+)$")
MOST_REGISTERS = 256
#: Longer texts are refused unread; they may come from a file.
MOST_CHARACTERS = 1_000
#: So near to a line without code are lines named that have some.
_NEAR_LINES = 2


@dataclass(frozen=True)
class Comparison:
    """A subject compared with a number."""

    subject: str  #: "cpu", "depth", a register "r3", or a variable's name
    comparison: str  #: ==, !=, <, <=, >, >=
    value: int

    @property
    def register(self) -> int | None:
        """Number of the register, if it is one."""
        match = _REGISTER.match(self.subject)
        return int(match[1]) if match else None

    @property
    def variable(self) -> bool:
        """Whether it is a variable of the program."""
        return self.subject not in ("cpu", "depth") and self.register is None

    def text(self) -> str:
        """As it is written."""
        value = f"{self.value:#x}" if self.value >= 4096 else str(self.value)
        return f"{self.subject} {self.comparison} {value}"


@dataclass(frozen=True)
class Condition:
    """All comparisons must hold; without any it always does."""

    comparisons: tuple[Comparison, ...] = ()

    def text(self) -> str:
        """As it is written, with the ``if``; "" without comparisons."""
        return " if " + " and ".join(c.text() for c in self.comparisons) if self.comparisons else ""


@dataclass(frozen=True)
class Breakpoint:
    """One breakpoint; which fields count depends on the kind."""

    number: int
    kind: BreakpointKind
    file: str = ""  #: of LINE
    line: int = 0  #: of LINE, from 1
    name: str = ""  #: function, counter; state of a slab; "allocated" or "freed"
    address: int | None = None  #: of WORD and OBJECT; of CONTENTION, None for any lock
    size_bytes: int = 8  #: of WORD
    page_frame: int | None = None  #: of SLAB_STATE, None for any slab of the shown cache
    condition: Condition = Condition()
    enabled: bool = True

    def text(self) -> str:
        """As ``parse`` reads it."""
        match self.kind:
            case BreakpointKind.LINE:
                what = f"{self.file}:{self.line}"
            case BreakpointKind.FUNCTION:
                what = f"function {self.name}"
            case BreakpointKind.COUNTER:
                what = f"counter {self.name}"
            case BreakpointKind.WORD:
                what = f"word {self.address:#x}" + ("" if self.size_bytes == 8 else f":{self.size_bytes}")
            case BreakpointKind.SLAB_STATE:
                what = f"slab {'any' if self.page_frame is None else self.page_frame} {self.name}"
            case BreakpointKind.CONTENTION:
                what = "lock contended" if self.address is None else f"lock {self.address:#x} contended"
            case BreakpointKind.OBJECT:
                what = f"object {self.address:#x} {self.name}"
        return what + self.condition.text()


@dataclass(frozen=True)
class BreakpointTable:
    """Breakpoints by number; every change gives a new table."""

    breakpoints: tuple[Breakpoint, ...] = ()

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(self.breakpoints)

    def __len__(self) -> int:
        return len(self.breakpoints)

    def added(self, text: str, program: Program) -> BreakpointTable:
        """With one more, which gets the next number.  Raises as ``parse``."""
        number = 1 + max((point.number for point in self.breakpoints), default=0)
        return BreakpointTable((*self.breakpoints, parse(text, program, number)))

    def removed(self, number: int) -> BreakpointTable:
        """Without one."""
        return BreakpointTable(tuple(p for p in self.breakpoints if p.number != number))

    def switched(self, number: int, enabled: bool) -> BreakpointTable:
        """With one turned on or off."""
        points = (replace(p, enabled=enabled) if p.number == number else p for p in self.breakpoints)
        return BreakpointTable(tuple(points))


def parse(text: str, program: Program, number: int = 1) -> Breakpoint:
    """Read a breakpoint as the user writes it; see the module.

    Raises
    ------
    RequestError
        One line: what is wrong, and what there is instead.
    """
    if len(text) > MOST_CHARACTERS:
        raise RequestError(f"a breakpoint has at most {MOST_CHARACTERS:,} characters, not {len(text):,}")
    what, found, conditions = text.strip().partition(" if ")
    point = _parse_what(what.strip(), program, number)
    if not found:
        return point
    terms = [_comparison(term, program) for term in re.split(r"\s+and\s+", conditions.strip())]
    point = replace(point, condition=Condition(tuple(terms)))
    _check_variables(point, program)
    return point


def _parse_what(what: str, program: Program, number: int) -> Breakpoint:
    words = what.split()
    if not words:
        raise RequestError("a breakpoint is missing: give a place such as slub.py:212, or a function")
    kind, rest = words[0], words[1:]
    match kind, len(rest):
        case "function", 1:
            return _function(rest[0], program, number)
        case "counter", 1:
            return _counter(rest[0], program, number)
        case "word", 1:
            return _word(rest[0], number)
        case "slab", 2:
            return _slab(rest[0], rest[1], program, number)
        case "lock", 1 | 2 if rest[-1] == "contended":
            address = _number(rest[0], "address of a lock") if len(rest) == 2 else None
            return Breakpoint(number, BreakpointKind.CONTENTION, address=address)
        case "object", 2:
            event = _one_of(rest[1], OBJECT_EVENTS, "happens to an object")
            address = _number(rest[0], "address of an object")
            return Breakpoint(number, BreakpointKind.OBJECT, name=event, address=address)
    if len(words) == 1 and kind not in _WORDS:
        place = re.fullmatch(r"(.+):(\d+)", kind)
        return _line(place[1], int(place[2]), program, number) if place else _function(kind, program, number)
    raise RequestError(
        f"{quoted(what)} is no breakpoint; give slub.py:212, function kfree, counter FREE_SLOWPATH, "
        "word 0x1234, slab any full, lock contended or object 0x4000 freed"
    )


def _line(file: str, line: int, program: Program, number: int) -> Breakpoint:
    if file not in program.files:
        raise RequestError(
            f"there is no file {quoted(file)}{_meant(file, program.files)}; "
            f"the program consists of {', '.join(program.files)}"
        )
    places = code_places(program)
    if places.line_starts(file, line):
        return Breakpoint(number, BreakpointKind.LINE, file=file, line=line)
    with_code = places.lines(file)
    below, above = [n for n in with_code if n < line], [n for n in with_code if n > line]
    near = below[-_NEAR_LINES:] + above[:_NEAR_LINES]
    named = ", ".join(str(n) for n in near)
    instead = f"; the nearest lines that have some are {named}" if near else ""
    raise RequestError(f"nothing is executed in line {line} of {file}{instead}")


def _function(name: str, program: Program, number: int) -> Breakpoint:
    names = [function.name for function in program.functions]
    if name not in names:
        raise RequestError(f"there is no function {quoted(name)} in this kernel{_meant(name, names)}")
    return Breakpoint(number, BreakpointKind.FUNCTION, name=name)


def _counter(name: str, program: Program, number: int) -> Breakpoint:
    names = [*program.counters, *HARDWARE_COUNTER_NAMES.values()]
    if name not in names:
        raise RequestError(f"there is no counter {quoted(name)} in this kernel{_meant(name, names)}")
    return Breakpoint(number, BreakpointKind.COUNTER, name=name)


def _word(text: str, number: int) -> Breakpoint:
    address_text, _, size_text = text.partition(":")
    address, size = _number(address_text, "address of a word"), 8
    if size_text:
        size = _number(size_text, "size of a word")
    if size not in (4, 8) or address % size:
        raise RequestError(
            f"a word of {size} bytes cannot lie at {address:#x}: it has 8 bytes, or 4 as in word 0x1234:4, "
            "and its address is a multiple of that"
        )
    return Breakpoint(number, BreakpointKind.WORD, address=address, size_bytes=size)


def _slab(which: str, event: str, program: Program, number: int) -> Breakpoint:
    state = _one_of(event, SLAB_EVENTS, "a slab becomes")
    frame = None
    if which != "any":
        frame = _number(which, "page frame number of a slab, or any,")
        frames = program.globals["mem_map"].count
        if frame >= frames:
            raise RequestError(f"there is no page frame {frame}; there are 0 to {frames - 1}")
    return Breakpoint(number, BreakpointKind.SLAB_STATE, name=state, page_frame=frame)


def _one_of(word: str, known: Iterable[str], what: str) -> str:
    names = list(known)
    if word not in names:
        raise RequestError(f"{quoted(word)} is nothing that {what}; known: {', '.join(names)}")
    return word


def _number(text: str, what: str) -> int:
    if not _NUMBER.match(text) or text.startswith("-"):
        raise RequestError(f"{quoted(text)} is not the {what}: give a number such as 1023 or 0x1234")
    value = int(text, 0) if text[:2].lower() == "0x" else int(text)
    if value >= 1 << 62:
        raise RequestError(f"{quoted(text)} is too large for the {what}")
    return value


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


# --- conditions ------------------------------------------------------------------------------------------
def _comparison(text: str, program: Program) -> Comparison:
    match = _TERM.match(text)
    if not match:
        raise RequestError(
            f"{quoted(text.strip())} is no condition; give cpu, depth, a register such as r3 or a variable, "
            f"one of {' '.join(_COMPARISONS)} and a number, with and between several"
        )
    subject, comparison, value = match.groups()
    register = _REGISTER.match(subject)
    if register and int(register[1]) >= MOST_REGISTERS:
        raise RequestError(f"there is no register {subject}; there are r0 to r{MOST_REGISTERS - 1}")
    return Comparison(subject, comparison, _value(value, program))


def _value(text: str, program: Program) -> int:
    if text == "NULL":
        return 0
    if text in program.constants:
        return program.constants[text]
    if not _NUMBER.match(text):
        raise RequestError(f"{quoted(text)} is neither a number nor a constant of this kernel")
    value = int(text, 0) if "x" in text.lower() else int(text)
    if value >= 1 << 63:
        value -= 1 << 64  # as registers hold it
    if not -(1 << 63) <= value < 1 << 63:
        raise RequestError(f"{quoted(text)} does not fit a register of 64 bits")
    return value


def _check_variables(point: Breakpoint, program: Program) -> None:
    """Every variable must exist where the breakpoint can strike."""
    from slubviz.model.travel.variables import variables_at

    pcs = marked_micro_ops(point, program)
    for comparison in point.condition.comparisons:
        if not comparison.variable:
            continue
        if pcs:
            known = {name for pc in pcs for name in variables_at(program, pc)}
        else:
            known = {variable.name for function in program.functions for variable in function.variables}
        if comparison.subject not in known:
            where = f"there is no variable {quoted(comparison.subject)} at {point.kind} {_place(point)}"
            listed = f"; there are {', '.join(sorted(known))}" if pcs and known else ""
            raise RequestError(f"{where}{_meant(comparison.subject, known)}{listed}")


def _place(point: Breakpoint) -> str:
    return replace(point, condition=Condition()).text().removeprefix(f"{point.kind} ")


def marked_micro_ops(point: Breakpoint, program: Program) -> list[int]:
    """Before which micro-ops a breakpoint of a line or function strikes; empty for other kinds."""
    places = code_places(program)
    if point.kind == BreakpointKind.LINE:
        return places.line_starts(point.file, point.line)
    if point.kind == BreakpointKind.FUNCTION:
        function = program.function(point.name)
        own = [function.entry_pc] if function.end_pc > function.entry_pc else []
        return sorted({*own, *places.site_starts(function.index)})
    return []
