"""Taking the time of a piece of work, by the wall clock and by this process's CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slubviz.model.bench.figures import Timing

#: Told what is measured now.
Tell = Callable[[str], None]


class Stopwatch:
    """Filled when the ``stopwatch`` block ends."""

    timing = Timing(0.0, 0.0)


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Take the time of a ``with`` block; nothing is recorded if it raises."""
    watch = Stopwatch()
    wall, cpu = time.perf_counter(), time.process_time()
    yield watch
    watch.timing = Timing(time.perf_counter() - wall, time.process_time() - cpu)


def repeated(work: Callable[[], object], times: int) -> list[Timing]:
    """The time of each of several calls."""
    timings = []
    for _ in range(times):
        with stopwatch() as watch:
            work()
        timings.append(watch.timing)
    return timings
