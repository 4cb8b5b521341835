"""Anchors: a place in a run, said by what the source does there, so that it survives edits of the source.

``slab_alloc, before cmpxchg_local, 3rd time, on cpu 0``: words between commas, in any order.  The grammar is
in docs/scenarios.md.  This module reads anchors; ``places`` finds their micro-ops in a program and
``tracker`` notices when a run meets them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from slubviz.hw.isa import Op
from slubviz.model.errors import UserError, quoted

MOST_CHARACTERS = 300
MOST_TIMES = 1_000_000

#: Operation as written in the source -> opcodes that it may become, and their ``imm`` if it matters.
OPERATIONS: dict[str, tuple[tuple[Op, ...], int | None]] = {
    "cmpxchg": ((Op.CMPXCHG,), None),
    "cmpxchg_local": ((Op.CMPXCHG_LOCAL,), None),
    "cmpxchg_double": ((Op.CMPXCHG_DOUBLE,), None),
    "cmpxchg_double_local": ((Op.CMPXCHG_DOUBLE_LOCAL,), None),
    "xchg": ((Op.XCHG,), None),
    "atomic_add": ((Op.ATOMIC_ADD,), None),
    "spin_lock": ((Op.LOCK,), None),
    "spin_lock_irqsave": ((Op.LOCK_IRQSAVE,), None),
    "spin_trylock": ((Op.TRYLOCK,), None),
    "spin_unlock": ((Op.UNLOCK, Op.UNLOCK_LOCKED), None),
    "irq_save": ((Op.IRQ_SAVE,), None),
    "irq_restore": ((Op.IRQ_RESTORE,), None),
    "irq_disable": ((Op.IRQ_DISABLE,), None),
    "irq_enable": ((Op.IRQ_ENABLE,), None),
    "preempt_disable": ((Op.PREEMPT_DISABLE,), None),
    "preempt_enable": ((Op.PREEMPT_ENABLE,), None),
    "barrier": ((Op.BARRIER,), 0),
    "smp_wmb": ((Op.BARRIER,), 1),
    "smp_rmb": ((Op.BARRIER,), 2),
    "smp_mb": ((Op.BARRIER,), 3),
    "smp_processor_id": ((Op.CPU_ID,), None),
    "numa_node_id": ((Op.NODE_ID,), None),
    "rdtsc": ((Op.RDTSC,), None),
    "rendezvous": ((Op.RENDEZVOUS,), None),
    "prefetch": ((Op.PREFETCH,), None),
    "cpu_relax": ((Op.PAUSE,), None),
}
#: Other words for some of them; bit locks are the same micro-ops.
_SYNONYMS = {
    "bit_spin_lock": "spin_lock",
    "bit_spin_trylock": "spin_trylock",
    "bit_spin_unlock": "spin_unlock",
    "bit_spin_unlock_nonatomic": "spin_unlock",
    "atomic_inc": "atomic_add",
    "atomic_dec": "atomic_add",
}
_ORDINALS = {"first": 1, "second": 2, "third": 3}

_NAME = r"[A-Za-z_]\w*"
_THING = re.compile(
    rf"(?:(?P<call>call of (?P<called>{_NAME}))|(?P<line>line matching `(?P<line_text>[^`]+)`)"
    rf"|(?P<load>load of `(?P<load_text>[^`]+)`)|(?P<store>store of `(?P<store_text>[^`]+)`)"
    rf"|(?P<count>count of (?P<counter>{_NAME}))|(?P<operation>{_NAME}))"
)
_TIME = re.compile(r"(?P<ordinal>first|second|third|next|\d+(?:st|nd|rd|th)) time")
_LATER = re.compile(r"(\d+) micro-ops? later")


class AnchorError(UserError):
    """An anchor cannot be read, or there is no such place; says what is near."""


class When(StrEnum):
    """On which side of a thing the place is."""

    ENTRY = "at"
    BEFORE = "before"
    AFTER = "after"


class Kind(StrEnum):
    """What kind of thing an anchor names."""

    FUNCTION = "function"
    OPERATION = "operation"
    CALL = "call"
    LINE = "line"
    LOAD = "load"
    STORE = "store"
    COUNT = "count"
    RETURN = "return"
    START = "start"
    END = "end"
    LATER = "later"


@dataclass(frozen=True)
class Anchor:
    """A place in a run."""

    text: str  #: as written
    kind: Kind
    when: When = When.ENTRY
    function: str = ""  #: that the micro-op belongs to, itself or expanded in it; "" for any
    thing: str = ""  #: name of the operation, call or counter; text of the line, load or store
    time: int = 0  #: 1 for the first time; 0 for the first one that counts, see docs/scenarios.md
    cpu: int | None = None
    inside: tuple[str, ...] = ()  #: functions that must be on the CPU's stack
    interrupt: bool | None = None  #: whether the CPU must be in an interrupt
    depth: int | None = None  #: how many interrupts deep it must be
    later_micro_ops: int = 0

    @property
    def place(self) -> str:
        """The place alone, without CPU, time and what is around it."""
        parts = [self.function] if self.function else []
        if self.kind != Kind.FUNCTION:
            parts.append(f"{self.when} {self._thing_text()}")
        return ", ".join(parts)

    def _thing_text(self) -> str:
        if self.kind in (Kind.LINE, Kind.LOAD, Kind.STORE):
            words = "line matching" if self.kind == Kind.LINE else f"{self.kind} of"
            return f"{words} `{self.thing}`"
        if self.kind in (Kind.CALL, Kind.COUNT):
            return f"{self.kind} of {self.thing}"
        return self.thing or str(self.kind)


def parse_anchor(text: str) -> Anchor:
    """Read an anchor.

    Raises
    ------
    AnchorError
        Saying which part is not understood and what may be meant.
    """
    written = " ".join(text.split())
    if not written or len(text) > MOST_CHARACTERS:
        raise AnchorError(f"an anchor has 1 to {MOST_CHARACTERS} characters")
    if written in ("start", "end"):
        return Anchor(written, Kind(written))
    later = _LATER.fullmatch(written)
    if later:
        if len(later[1]) > 7:
            raise AnchorError(f"{quoted(later[1])} micro-ops later is too far")
        return Anchor(written, Kind.LATER, later_micro_ops=int(later[1]))
    found: dict[str, object] = {}
    for part in _parts(written):
        for name, value in _read_part(part).items():
            if name == "inside":
                found["inside"] = (*_as_tuple(found.get("inside")), value)
            elif name in found:
                raise AnchorError(f"{quoted(part)} says again what another part says")
            else:
                found[name] = value
    if "kind" not in found and "function" not in found:
        raise AnchorError(
            f"{quoted(written)} names no place: give a function, before or after something in it, or both"
        )
    found.setdefault("kind", Kind.FUNCTION)
    return Anchor(text=written, **found)  # type: ignore[arg-type]


def _as_tuple(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def _parts(text: str) -> list[str]:
    """The parts between commas; a comma between backquotes does not count."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        raise AnchorError(f"{quoted(text)} has a backquote ` without its partner")
    parts, current = [], ""
    for i, piece in enumerate(pieces):
        if i % 2:
            current += f"`{piece}`"
            continue
        first, *others = piece.split(",")
        current += first
        for other in others:
            parts.append(current.strip())
            current = other
    parts.append(current.strip())
    if "" in parts:
        raise AnchorError(f"{quoted(text)} has an empty part between commas")
    return parts


def _read_part(part: str) -> dict[str, object]:
    if re.fullmatch(_NAME, part):
        return {"function": part}
    word, _, rest = part.partition(" ")
    if word in ("before", "after"):
        return {"when": When(word), **_read_thing(rest)}
    if re.match(r"(line matching|call of|load of|store of|count of) ", part):
        return {"when": When.BEFORE, **_read_thing(part)}
    time = _TIME.fullmatch(part)
    if time:
        return {"time": _ordinal(time["ordinal"])}
    if match := re.fullmatch(r"on cpu (\d{1,4})", part, re.IGNORECASE):
        return {"cpu": int(match[1])}
    if match := re.fullmatch(rf"inside ({_NAME})", part):
        return {"inside": match[1]}
    if part in ("in task", "in interrupt"):
        return {"interrupt": part == "in interrupt"}
    if match := re.fullmatch(r"depth (\d{1,3})", part):
        return {"depth": int(match[1])}
    raise AnchorError(f"{quoted(part)} is not understood{_near_part(part)}")


def _ordinal(word: str) -> int:
    if word == "next":
        return 0
    number = _ORDINALS.get(word) or (int(word[:-2]) if len(word) <= 9 else 0)
    if not 1 <= number <= MOST_TIMES:
        raise AnchorError(f"{quoted(word)} time: give 1st to {MOST_TIMES}th")
    return number


def _read_thing(text: str) -> dict[str, object]:
    found = _THING.fullmatch(text)
    if not found:
        raise AnchorError(
            f"{quoted(text)} is not understood: give an operation such as cmpxchg_local, call of FUNCTION, "
            "line matching `TEXT`, load of `TEXT`, store of `TEXT`, count of COUNTER or return"
        )
    if found["call"]:
        return {"kind": Kind.CALL, "thing": found["called"]}
    if found["count"]:
        return {"kind": Kind.COUNT, "thing": found["counter"]}
    for kind in (Kind.LINE, Kind.LOAD, Kind.STORE):
        if found[str(kind)]:
            return {"kind": kind, "thing": " ".join(found[f"{kind}_text"].split())}
    name = found["operation"]
    if name == "return":
        return {"kind": Kind.RETURN}
    name = _SYNONYMS.get(name, name)
    if name not in OPERATIONS:
        near = get_close_matches(name, [*OPERATIONS, *_SYNONYMS, "return"], n=1)
        question = f"; did you mean {near[0]}?" if near else f"; for a function write call of {name}"
        raise AnchorError(f"{quoted(name)} is no operation{question}")
    return {"kind": Kind.OPERATION, "thing": name}


def _near_part(part: str) -> str:
    words = ("before", "after", "on", "inside", "in", "depth", "line", "load", "store", "count", "call")
    near = get_close_matches(part.partition(" ")[0].lower(), words, n=1, cutoff=0.75)
    if near and near[0] != part.partition(" ")[0]:
        return f"; did you mean {near[0]}?"
    return (
        ": give a function, before or after something, on cpu N, inside FUNCTION, in task, in interrupt, "
        "depth N or 3rd time"
    )
