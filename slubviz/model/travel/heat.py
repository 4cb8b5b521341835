"""How often every source line was executed over a part of a run, and how many cycles it took.

Found by running that part again.  The cycles of a micro-op are those by which its CPU's clock moves on when
it is executed, cache misses and the store buffer included; entering an interrupt counts for the first line
of its handler.  Waiting for a lock is counted apart, for the line that took it in the end.  Waiting for the
other CPUs of a test is left out, as idle time is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.layout import MILLI
from slubviz.model.lang import Program

if TYPE_CHECKING:
    from slubviz.model.travel.recording import Recording

#: Micro-ops between two looks at the stop flag.
PIECE_MICRO_OPS = 200_000


@dataclass(frozen=True)
class LineHeat:
    """One source line."""

    times: int  #: executions of the line, by any CPU, all places where it is expanded together
    micro_ops: int  #: executions of its micro-ops
    cycles: float  #: of all CPUs, without waiting
    wait_cycles: float  #: until a lock that is taken here was free


@dataclass(frozen=True)
class Heat:
    """All lines over the micro-ops after ``first`` up to ``last``.

    Inlined code counts for the lines on which it is written, not for the call.
    """

    first: int  #: position, micro-ops
    last: int
    lines: Mapping[tuple[str, int], LineHeat]  #: by file and line, from 1; only those that were executed
    cycles: float  #: of all lines together, without waiting
    wait_cycles: float

    def of_line(self, file: str, line: int) -> LineHeat | None:
        """A line's heat; None if it was not executed."""
        return self.lines.get((file, line))


def trace_heat(
    recording: Recording,
    first: int,
    last: int,
    stop: threading.Event | None = None,
    progress: Callable[[float], None] | None = None,
) -> Heat | None:
    """Heat between two positions; the cursor stays where it is.

    Parameters
    ----------
    first, last : positions in micro-ops, as far as the run is recorded
    stop : give up when it is set
    progress : called with the done share

    Returns
    -------
    Heat, or None if ``stop`` was set.
    """
    from slubviz.hw.tracing import CostCounter

    first = max(0, min(first, recording.end))
    last = max(first, min(last, recording.end))
    with recording.excursion() as session:
        if not recording.seek(first, stop=stop, prepare=False):
            return None
        program = session.booted.program
        counter = CostCounter(program.micro_ops, session.machine_spec.cpus)
        while recording.position < last and not recording.over:
            if stop and stop.is_set():
                return None
            recording.run(min(last - recording.position, PIECE_MICRO_OPS), engine=counter.engine)
            if progress:
                progress((recording.position - first) / (last - first))
        costs = np.column_stack((counter.times, counter.millicycles, counter.waited_millicycles))
        return heat_of_lines(program, costs, first, recording.position)


def heat_of_lines(program: Program, costs: NDArray[np.int64], first: int, last: int) -> Heat:
    """From micro-ops to lines.

    Parameters
    ----------
    costs : executions, millicycles and waited millicycles of each micro-op, shape (micro-ops, 3)
    """
    # A place where a line is expanded: the same line, function and inline site.  It is executed as often as
    # the micro-op of it that is executed most.
    functions = np.empty(program.micro_ops, dtype=np.int64)
    for function in program.functions:
        functions[function.entry_pc : function.end_pc] = function.index
    keys = np.column_stack((program.spans[:, :2], functions, program.inline_site))
    used = np.flatnonzero(costs.any(axis=1))
    places, place_of = np.unique(keys[used], axis=0, return_inverse=True)
    place_of = place_of.reshape(-1)  # numpy 2.0 gives it a second axis
    times = np.zeros(len(places), dtype=np.int64)
    np.maximum.at(times, place_of, costs[used, 0])
    sums = np.zeros((len(places), 3), dtype=np.int64)
    np.add.at(sums, place_of, costs[used])
    lines: dict[tuple[str, int], LineHeat] = {}
    for (file, line, _, _), executed, (micro_ops, cycles, waited) in zip(
        places.tolist(), times.tolist(), sums.tolist(), strict=True
    ):
        key = (program.files[file], line)
        before = lines.get(key, LineHeat(0, 0, 0.0, 0.0))
        lines[key] = LineHeat(
            before.times + executed,
            before.micro_ops + micro_ops,
            before.cycles + cycles / MILLI,
            before.wait_cycles + waited / MILLI,
        )
    total = costs.sum(axis=0)
    return Heat(first, last, lines, int(total[1]) / MILLI, int(total[2]) / MILLI)
