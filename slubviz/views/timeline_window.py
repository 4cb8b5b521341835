"""Which part of a run a timeline shows, its rulers, and the clock along it.

Numbers only: nothing here draws or knows a widget.  Positions are micro-ops executed by all CPUs since the
start.  The clock at a position is that of the CPU furthest ahead; between the positions at which it is known
it is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Zooming in ends at one micro-op.
LEAST_VISIBLE = 1.0


@dataclass(frozen=True)
class TimeWindow:
    """The part that is visible."""

    first: float  #: position at the left edge, in micro-ops
    visible: float  #: micro-ops from the left to the right edge

    @property
    def last(self) -> float:
        """Position at the right edge."""
        return self.first + self.visible

    def fraction_of(self, position: float) -> float:
        """Where a position is: 0 at the left edge, 1 at the right one."""
        return (position - self.first) / self.visible

    def position_at(self, fraction: float) -> float:
        """The position at a place; the inverse of ``fraction_of``."""
        return self.first + fraction * self.visible

    def zoomed(self, factor: float, fraction: float, end: int) -> TimeWindow:
        """Another scale, with the position at ``fraction`` where it was unless the run's edge is in the way.

        Parameters
        ----------
        factor : float
            Above 1 shows less of the run.
        fraction : float
            The place that stays.
        end : int
            Where the recorded run ends.
        """
        fixed = self.position_at(fraction)
        visible = min(max(self.visible / factor, LEAST_VISIBLE), max(float(end), LEAST_VISIBLE))
        return TimeWindow(fixed - fraction * visible, visible).clamped(end)

    def panned(self, micro_ops: float, end: int) -> TimeWindow:
        """Moved by micro-ops, to the right for positive ones, not beyond the run."""
        return TimeWindow(self.first + micro_ops, self.visible).clamped(end)

    def clamped(self, end: int) -> TimeWindow:
        """The nearest part that is inside the run."""
        visible = min(max(self.visible, LEAST_VISIBLE), max(float(end), LEAST_VISIBLE))
        first = min(max(self.first, 0.0), max(end - visible, 0.0))
        return TimeWindow(first, visible)

    def revealing(self, position: int, end: int) -> TimeWindow:
        """This part, or if a position is outside one of the same length that shows it and what is ahead."""
        if self.first <= position <= self.last:
            return self
        # What the position moves towards gets most of the room.
        place = 0.2 if position > self.last else 0.8
        return TimeWindow(position - place * self.visible, self.visible).clamped(end)


def whole(end: int) -> TimeWindow:
    """All of a run."""
    return TimeWindow(0.0, max(float(end), LEAST_VISIBLE))


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50 … that is at least ``least``."""
    if least <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    for factor in (1, 2, 5, 10):
        if factor * power >= least * (1 - 1e-9):
            return factor * power
    raise AssertionError("unreachable")


def ticks(first: float, last: float, most: int) -> list[int]:
    """Round whole numbers between two values, at most about ``most`` of them.

    Parameters
    ----------
    first, last : float
        Both ends count as inside.
    most : int
        As many labels have room.
    """
    if last < first or most < 1:
        return []
    step = nice_step((last - first) / most)
    start = math.ceil(first / step)
    stop = math.floor(last / step)
    return [round(index * step) for index in range(start, stop + 1)]


def with_room(lefts: Sequence[float], widths: Sequence[float], right: float, gap: float) -> list[bool]:
    """Which of a row of labels can be drawn without meeting the one drawn before, or the right edge.

    Parameters
    ----------
    lefts, widths : sequences of float
        Of the labels, from left to right.
    right : float
        Where they must end.
    gap : float
        Between two of them.
    """
    shown, taken = [], -math.inf
    for left, width in zip(lefts, widths, strict=True):
        fits = left >= taken and left + width <= right
        shown.append(fits)
        if fits:
            taken = left + width + gap
    return shown


class ClockScale:
    """The clock along a run.

    Parameters
    ----------
    positions : (n,) integers
        At which the clock was noted, ascending.
    clock_cycles : (n,) float
        There.
    more_positions, more_cycles : (m,) arrays, optional
        Clocks of single CPUs in between, in any order; the clock of the run is at least that.
    """

    def __init__(
        self,
        positions: NDArray[np.int64],
        clock_cycles: NDArray[np.float64],
        more_positions: NDArray[np.int64] | None = None,
        more_cycles: NDArray[np.float64] | None = None,
    ) -> None:
        self._noted = np.asarray(positions, dtype=np.int64)
        where = np.asarray(positions, dtype=np.float64)
        cycles = np.asarray(clock_cycles, dtype=np.float64)
        if more_positions is not None and more_cycles is not None:
            where, cycles = np.append(where, more_positions), np.append(cycles, more_cycles)
            order = np.argsort(where, kind="stable")
            where, cycles = where[order], cycles[order]
        cycles = np.maximum.accumulate(cycles)
        # The clock at a position is the last, largest one noted there.
        keep = np.append(np.diff(where) > 0, True) if where.size else np.empty(0, dtype=bool)
        self._positions, self._cycles = where[keep], cycles[keep]

    @property
    def empty(self) -> bool:
        """Whether nothing is known of the clock."""
        return bool(self._positions.size == 0)

    def cycles_at(self, position: float) -> float:
        """The clock at a position, interpolated; 0 if nothing is known."""
        if self.empty:
            return 0.0
        return float(np.interp(position, self._positions, self._cycles))

    def is_exact(self, position: int) -> bool:
        """Whether the clock at a position was noted rather than interpolated."""
        place = int(np.searchsorted(self._noted, position))
        return bool(place < self._noted.size and self._noted[place] == position)

    def position_of(self, clock_cycles: float) -> float:
        """Where the clock shows a value; the inverse of ``cycles_at``, 0 if nothing is known."""
        if self.empty:
            return 0.0
        return float(np.interp(clock_cycles, self._cycles, self._positions))


def no_clock() -> ClockScale:
    """The clock of no run."""
    return ClockScale(np.empty(0, dtype=np.int64), np.empty(0))
