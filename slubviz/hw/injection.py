"""From what a caller wants of an interrupt or a source to a row of the machine's interrupt table, and back.

Times are given in cycles or in micro-ops of the interrupted CPU, and kept in millicycles or micro-ops (see
``interrupts``).  What makes no sense is refused here, before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.errors import MachineError
from slubviz.hw.pricing import millicycles

#: Longest period and largest spread, in millicycles or micro-ops: sums of them stay far below NEVER.
MOST_PERIOD = 1 << 46


@dataclass(frozen=True)
class Timing:
    """When an interrupt comes, in the units of a row: millicycles, or micro-ops of its CPU.

    ``when`` is None for now.  Without a period it comes once; else ``count`` times, endlessly for 0.
    """

    by_micro_op: bool = False
    when: int | None = None
    period: int = 0
    spread: int = 0
    seed: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        unit = "micro-ops" if self.by_micro_op else "millicycles"
        if not (0 <= self.period <= MOST_PERIOD and 0 <= self.spread <= MOST_PERIOD):
            raise MachineError(f"period and spread of a source must be from 0 to {MOST_PERIOD:,} {unit}")
        if self.count < 0:
            raise MachineError(f"a source cannot give {self.count} interrupts; 0 stands for no end")
        if self.period == 0 and (self.spread or self.count != 1):
            raise MachineError("only a source has a spread or a count: give it a period too")


def timing(
    at_micro_op: int | None,
    at_cycle: float | None,
    cycles: tuple[float, float],
    micro_ops: tuple[int, int],
    seed: int,
    count: int,
) -> Timing:
    """The timing of an interrupt.

    Parameters
    ----------
    at_micro_op, at_cycle : when it comes (first); at most one of them; neither is now
    cycles, micro_ops : period and spread of a source in either unit; zeros in the other
    seed : of the source's random numbers, any integer
    count : interrupts that the source gives, 0 for no end

    Raises
    ------
    MachineError
        If that makes no sense, e.g. a period in cycles and a start by micro-ops.
    """
    if not all(math.isfinite(value) for value in (*cycles, at_cycle or 0)):
        raise MachineError("times of an interrupt must be numbers")
    by_micro_op = at_micro_op is not None or any(micro_ops)
    if by_micro_op and (at_cycle is not None or any(cycles)):
        raise MachineError("an interrupt comes by cycles or by micro-ops, not by both")
    if by_micro_op:
        period, spread = micro_ops
        when = at_micro_op
    else:
        period, spread = (millicycles(value) for value in cycles)
        when = None if at_cycle is None else millicycles(at_cycle)
    if period == 0 and (cycles[0] or micro_ops[0]):
        raise MachineError("the period of a source is at least a thousandth of a cycle")
    signed_seed = ((seed + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
    return Timing(by_micro_op, when, period, spread, signed_seed, count)


def row_words(
    cpu: int, function: int, arguments: Sequence[int], timing: Timing, now: int, sequence: int
) -> list[int]:
    """The words of a table row, ``layout.IRQ_ROW`` of them.

    Parameters
    ----------
    now : millicycles or micro-ops, for an interrupt that comes now
    sequence : number in the order of injections
    """
    row = [0] * L.IRQ_ROW
    row[L.I_ACTIVE] = 1
    row[L.I_CPU] = cpu
    row[L.I_BY_MICRO_OP] = int(timing.by_micro_op)
    row[L.I_WHEN] = now if timing.when is None else timing.when
    row[L.I_FUNCTION] = function
    row[L.I_ARGUMENT : L.I_ARGUMENT + len(arguments)] = arguments
    row[L.I_MORE_ARGUMENTS] = max(0, len(arguments) - 1)
    row[L.I_SEQUENCE] = sequence
    row[L.I_PERIOD] = timing.period
    row[L.I_SPREAD] = timing.spread
    row[L.I_SEED] = timing.seed
    row[L.I_LEFT] = timing.count
    return row


@dataclass(frozen=True)
class PendingInterrupt:
    """A row of the interrupt table, for whoever looks."""

    cpu: int
    function: int  #: number of the handler
    arguments: tuple[int, ...]
    timing: Timing  #: ``when`` is when it is due next, ``count`` how many a source still gives, 0 for no end
    sequence: int  #: of several that are due the lowest comes first


def pending_interrupts(state: NDArray[np.int64]) -> tuple[PendingInterrupt, ...]:
    """All interrupts that have not come yet and sources that are not at their end, in order of injection.

    Parameters
    ----------
    state : a machine's state
    """
    first, used = int(state[L.H_IRQS]), int(state[L.H_IRQS_USED])
    rows = state[first : first + used * L.IRQ_ROW].reshape(used, L.IRQ_ROW)
    found = []
    for row in rows[rows[:, L.I_ACTIVE] != 0].tolist():
        times = Timing(
            bool(row[L.I_BY_MICRO_OP]),
            row[L.I_WHEN],
            row[L.I_PERIOD],
            row[L.I_SPREAD],
            row[L.I_SEED],
            row[L.I_LEFT],
        )
        arguments = tuple(row[L.I_ARGUMENT : L.I_ARGUMENT + 1 + row[L.I_MORE_ARGUMENTS]])
        found.append(PendingInterrupt(row[L.I_CPU], row[L.I_FUNCTION], arguments, times, row[L.I_SEQUENCE]))
    return tuple(sorted(found, key=lambda one: one.sequence))
