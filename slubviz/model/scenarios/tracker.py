"""Notices when a run comes to the places of anchors, and counts how often.

The run is stopped before each micro-op of a place (and before those that may follow it); ``stopped`` is then
told which CPU is next.  Whether a CPU *comes into* a group of micro-ops is decided by whether it was in it
already in the same frame: so a line that is interrupted, or a lock that is tried again after a wait, counts
once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slubviz.model.scenarios.anchors import Anchor, Kind, When
from slubviz.model.scenarios.places import Place


@dataclass
class Watched:
    """An anchor, and how often a run has come to it."""

    anchor: Anchor
    place: Place
    cpu: int | None  #: the CPU that counts, None for any
    times: int = 0  #: that count
    all_times: int = 0  #: on any CPU and wherever called from


@dataclass(frozen=True)
class Moment:
    """A CPU that is about to execute a micro-op."""

    cpu: int
    window: int  #: its frame: index of register 0 in the state
    pc: int
    depth: int  #: interrupts that it is in
    functions: Callable[[], frozenset[str]]  #: names on its stack


@dataclass
class Tracker:
    """All watched anchors of a run."""

    watched: list[Watched]
    _inside: set[tuple[int, int, int]] = field(default_factory=set)  # (group, CPU, window)

    def __post_init__(self) -> None:
        self._groups = {id(group): group for one in self.watched for group in one.place.groups}
        self._entered: dict[int, list[int]] = {}
        self._left: dict[int, list[int]] = {}
        for number, group in self._groups.items():
            for pc in group.pcs:
                self._entered.setdefault(pc, []).append(number)
            for pc in group.successors:
                self._left.setdefault(pc, []).append(number)

    @property
    def stops(self) -> frozenset[int]:
        """Micro-ops before which the run must stop."""
        return frozenset(self._entered) | frozenset(self._left)

    def stopped(self, moment: Moment) -> list[Watched]:
        """The run has stopped; gives the anchors that are met now and count."""
        after, before = [], []
        for number in self._left.get(moment.pc, ()):
            key = (number, moment.cpu, moment.window)
            if key in self._inside:
                self._inside.discard(key)
                after.append(number)
        for number in self._entered.get(moment.pc, ()):
            key = (number, moment.cpu, moment.window)
            if key not in self._inside:
                self._inside.add(key)
                before.append(number)
        return [*self._met(after, moment, after=True), *self._met(before, moment, after=False)]

    def returns_at(self, pc: int) -> bool:
        """Whether the moment after a return is watched there."""
        return any(
            one.anchor.kind == Kind.RETURN
            and one.anchor.when == When.AFTER
            and any(pc in group.pcs for group in one.place.groups)
            for one in self.watched
        )

    def goes_on(self, moment: Moment) -> None:
        """The micro-op is executed next; one that leaves the function leaves its groups too."""
        for number in self._entered.get(moment.pc, ()):
            if self._groups[number].returns:
                self._inside.discard((number, moment.cpu, moment.window))

    def returned(self, pc: int, moment: Moment) -> list[Watched]:
        """The return at ``pc`` was executed; gives the anchors that are met."""
        numbers = [n for n in self._entered.get(pc, ()) if pc in self._groups[n].pcs]
        return [one for one in self._met(numbers, moment, after=True) if one.anchor.kind == Kind.RETURN]

    def moved(self, cpu: int, to_cpu: int, by_words: int) -> None:
        """A task with its frames has moved to another CPU."""
        self._inside = {
            (number, to_cpu, window + by_words) if where == cpu else (number, where, window)
            for number, where, window in self._inside
        }

    def _met(self, numbers: list[int], moment: Moment, *, after: bool) -> list[Watched]:
        met = []
        for one in self.watched:
            if (one.anchor.when == When.AFTER) != after:
                continue
            if not any(id(group) in numbers for group in one.place.groups):
                continue
            one.all_times += 1
            if self._counts(one, moment):
                one.times += 1
                met.append(one)
        return met

    def _counts(self, one: Watched, moment: Moment) -> bool:
        anchor = one.anchor
        if one.cpu is not None and moment.cpu != one.cpu:
            return False
        if anchor.interrupt is not None and anchor.interrupt != (moment.depth > 0):
            return False
        if anchor.depth is not None and anchor.depth != moment.depth:
            return False
        return not anchor.inside or set(anchor.inside) <= moment.functions()
