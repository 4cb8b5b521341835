"""What the page Compare shows of two runs at one moment; made on the worker thread, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slubviz.model.snapshot import Snapshot
    from slubviz.model.travel.picture_differences import Difference
    from slubviz.views.slab_summary import SlabSummary

#: Three columns of longer numbers have no room beside the pictures.
_SHORT_FROM = 10_000_000
#: Of the characters in ``picture_differences``.
_OBJECT_WORDS = {".": "free", ":": "on a CPU's list", "#": "allocated"}


@dataclass(frozen=True)
class CompareSide:
    """One of the two runs."""

    title: str  #: "slub, branch 1"
    position: int  #: micro-ops
    end: int
    clock_cycles: float
    snapshot: Snapshot
    summary: SlabSummary
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class CompareView:
    """Two runs side by side.

    Attributes
    ----------
    a, b : CompareSide
        The run at the cursor, and the other one at the moment that corresponds to it.
    by : str
        What makes them correspond: "micro-op", "operation" or "cycle".
    differences : tuple of Difference
        Between the two pictures.
    parting : str
        Where the runs part for the first time, one line; "" if nobody asked.
    parting_position : int or None
        Of ``a``, for going there.
    searching : float or None
        Share done of the search for where they part; None if nobody searches.
    note : str
        Why the other run is not at the corresponding moment; "" if it is.
    """

    a: CompareSide
    b: CompareSide
    by: str
    differences: tuple[Difference, ...] = ()
    parting: str = ""
    parting_position: int | None = None
    searching: float | None = None
    note: str = ""


def difference_rows(view: CompareView, most: int) -> list[tuple[str, str, str]]:
    """Rows of thing, first, second; objects one by one; ``most`` rows, and how many more there are."""
    rows: list[tuple[str, str, str]] = []
    for one in view.differences:
        if one.kind == "slab" and one.field == "objects":
            rows += _object_rows(one)
        else:
            rows.append((one.what, _thin(one.a), _thin(one.b)))
    rest = len(rows) - most
    return [*rows[:most], (f"and {_whole(rest)} more", "", "")] if rest > 0 else rows


def _object_rows(one: Difference) -> list[tuple[str, str, str]]:
    # The states of a slab's objects, one character each; a slab that only one run has is told by its state.
    if len(one.a) != len(one.b):
        return []
    pairs = enumerate(zip(one.a, one.b, strict=True))
    return [
        (f"slab {one.key} object {number}", _OBJECT_WORDS[a], _OBJECT_WORDS[b])
        for number, (a, b) in pairs
        if a != b
    ]


def number_rows(view: CompareView) -> list[tuple[str, ...]]:
    """Rows of name, first, second, difference: clocks, operations, lock waits, counters."""
    first, second = view.a, view.b
    rows: list[tuple[str, float, float]] = [
        ("micro-ops", first.position, second.position),
        ("cycles", first.clock_cycles, second.clock_cycles),
        ("operations", _operations(first.snapshot), _operations(second.snapshot)),
        ("slabs", first.snapshot.total_slabs, second.snapshot.total_slabs),
        ("CPUs waiting for a lock", _waiters(first.snapshot), _waiters(second.snapshot)),
    ]
    names = dict.fromkeys((*first.snapshot.counters, *second.snapshot.counters))
    for name in names:
        values = first.snapshot.counters.get(name, 0), second.snapshot.counters.get(name, 0)
        if any(values):
            rows.append((name, *values))
    return [(name, _whole(a), _whole(b), _signed(b - a)) for name, a, b in rows]


def _operations(snapshot: Snapshot) -> int:
    return sum(cpu.operations for cpu in snapshot.cpus)


def _waiters(snapshot: Snapshot) -> int:
    return sum(len(lock.waiters) for lock in snapshot.locks)


def _thin(text: str) -> str:
    from slubviz.views import numbers

    return numbers.thin(text)


def _whole(value: float) -> str:
    from slubviz.views import numbers

    return numbers.integer(value) if abs(value) < _SHORT_FROM else numbers.short(value)


def _signed(value: float) -> str:
    from slubviz.views import numbers

    if round(value) == 0:
        return "="
    return f"{'+' if value > 0 else numbers.MINUS}{_whole(abs(value))}"
