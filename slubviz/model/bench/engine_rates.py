"""How many micro-ops the engine executes per second, with caches, locks and the store buffer priced.

Two kinds of work on one machine file with as many CPUs as asked.  Test D is hard: every CPU allocates new
slabs, so all meet at the zone lock, and objects and page structures are touched for the first time.  Test E
is easy: each CPU takes and gives back the object on top of its own freelist.  The boot is not in the rate;
growing the simulated memory is.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

from slubviz.model.bench.figures import BenchRequest, Figure, Timing, rate_figure
from slubviz.model.bench.timing import Tell, stopwatch
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session

RATE_TESTS = ("D", "E")
SIZE_BYTES = 64
#: Least micro-ops per second with the whole cost model on.
GOALS = {8: 25e6, 1024: 8e6}
_WHAT = {
    "D": "{ops:,} objects of {size} B allocated, then freed",
    "E": "{ops:,} allocations of {size} B, each freed at once",
}
_UNIT = "micro-ops/s"


def rate_name(test: str, cpus: int) -> str:
    """The name of the figure of a test and a number of CPUs."""
    return f"micro_ops_per_second_{test}_{cpus}_cpus"


def rate_session(request: BenchRequest, test: str, cpus: int) -> Session:
    """The session whose micro-ops are counted, not yet booted."""
    ops = request.work.ops_per_cpu(test, cpus)
    return Session(SessionSpec(request.machine, request.kernel, test, (SIZE_BYTES,), ops, 1, cpus))


def measure_rates(request: BenchRequest, tell: Tell) -> Iterator[Figure]:
    """A figure for each number of CPUs and test."""
    for cpus in request.cpus:
        for test in RATE_TESTS:
            yield _one_rate(request, test, cpus, tell)


def _one_rate(request: BenchRequest, test: str, cpus: int, tell: Tell) -> Figure:
    name = rate_name(test, cpus)
    title = f"test {test}, {cpus:,} CPU{'s' if cpus > 1 else ''}"
    timings: list[Timing] = []
    micro_ops = size_bytes = 0
    try:
        for i in range(request.repeat):
            tell(f"{title} ({i + 1} of {request.repeat})")
            session = rate_session(request, test, cpus)
            session.boot()
            with stopwatch() as watch:
                session.run_to_end()
            timings.append(watch.timing)
            micro_ops, size_bytes = session.machine.micro_ops, session.machine.state.nbytes
            del session  # a thousand CPUs take a gigabyte: never keep two
            gc.collect()
    except MemoryError:
        reason = "this computer has not enough memory"
        return Figure(
            name, "engine", title, _UNIT, higher_is_better=True, goal=GOALS.get(cpus), reason=reason
        )
    ops = request.work.ops_per_cpu(test, cpus)
    what = _WHAT[test].format(ops=ops, size=SIZE_BYTES)
    detail = f"{what} per CPU; {micro_ops:,} micro-ops; state {size_bytes / 1e6:,.0f} MB reserved"
    return rate_figure(name, "engine", title, _UNIT, micro_ops, timings, goal=GOALS.get(cpus), detail=detail)
