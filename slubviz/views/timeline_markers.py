"""The A and B markers of a timeline, and what is between them.

A difference in micro-ops is always exact.  One in cycles is as soon as the clock at both markers is known;
until then it is marked as approximate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slubviz.views import numbers
from slubviz.views.timeline_window import ClockScale

NAMES = ("A", "B")


@dataclass(frozen=True)
class Marker:
    """A place, and the clock there if it is known exactly."""

    position: int
    clock_cycles: float | None


class Markers:
    """At most one of each name."""

    def __init__(self) -> None:
        self._markers: dict[str, Marker] = {}

    def set(self, name: str, position: int, clock_cycles: float | None) -> None:
        """Set or move a marker.

        Raises
        ------
        KeyError
            If there is no marker of that name.
        """
        if name not in NAMES:
            raise KeyError(name)
        self._markers[name] = Marker(position, clock_cycles)

    def clear(self) -> None:
        """Take all away."""
        self._markers.clear()

    def positions(self) -> dict[str, int]:
        """Where they are, A first."""
        return {name: self._markers[name].position for name in NAMES if name in self._markers}

    def learn(self, position: int, clock_cycles: float) -> None:
        """Note the clock at a position for markers that stand there."""
        for name, marker in self._markers.items():
            if marker.position == position and marker.clock_cycles is None:
                self._markers[name] = replace(marker, clock_cycles=clock_cycles)

    def difference(self, clock: ClockScale) -> tuple[int, float, bool] | None:
        """B minus A: micro-ops, cycles, and whether the cycles are exact; None while a marker is missing."""
        if len(self._markers) < len(NAMES):
            return None
        a, b = (self._markers[name] for name in NAMES)
        (a_cycles, a_exact), (b_cycles, b_exact) = (_clock_at(marker, clock) for marker in (a, b))
        return b.position - a.position, b_cycles - a_cycles, a_exact and b_exact

    def difference_text(self, clock: ClockScale) -> str:
        """``B − A: 4 444 micro-ops, 12 345 cycles``; empty while a marker is missing."""
        difference = self.difference(clock)
        if difference is None:
            return ""
        micro_ops, cycles, exact = difference
        about = "" if exact else f"≈{numbers.THIN}"
        count = f"{numbers.integer(micro_ops)}{numbers.THIN}micro-op{'' if abs(micro_ops) == 1 else 's'}"
        return f"B {numbers.MINUS} A: {count}, {about}{numbers.cycles(cycles)}"


def _clock_at(marker: Marker, clock: ClockScale) -> tuple[float, bool]:
    if marker.clock_cycles is not None:
        return marker.clock_cycles, True
    return clock.cycles_at(marker.position), clock.is_exact(marker.position)
