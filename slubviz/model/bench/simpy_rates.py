"""SimPy beside the engine: as many processes as CPUs, each doing nothing but ``yield env.timeout``.

A timeout is the least that a SimPy model of a CPU does per micro-op; fetching, executing and pricing one
would come on top.  The delays differ a little from process to process, so that the event queue is worked as
by CPUs whose clocks differ.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from slubviz.model.bench.figures import BenchRequest, Figure, Timing, rate_figure
from slubviz.model.bench.timing import Tell, stopwatch

_UNIT = "timeouts/s"


def load_simpy() -> Any:
    """The module, or None where this development dependency is not installed."""
    try:
        return importlib.import_module("simpy")
    except ImportError:
        return None


def run_timeouts(simpy: Any, cpus: int, timeouts: int) -> int:
    """Let ``cpus`` processes execute ``timeouts`` timeouts in all; returns how many were executed."""
    environment = simpy.Environment()
    per_cpu, left = divmod(timeouts, cpus)
    done = [0] * cpus

    def cpu_process(cpu: int, count: int) -> Generator[Any, Any, None]:
        delay = 1.0 + cpu / 4096
        timeout = environment.timeout
        for _ in range(count):
            yield timeout(delay)
        done[cpu] = count

    for cpu in range(cpus):
        environment.process(cpu_process(cpu, per_cpu + (cpu < left)))
    environment.run()
    return sum(done)


def measure_simpy(request: BenchRequest, micro_ops: Mapping[int, int], tell: Tell) -> Iterator[Figure]:
    """A figure for each number of CPUs.

    Parameters
    ----------
    request : what to measure
    micro_ops : CPUs -> micro-ops of test D, for "as many timeouts as micro-ops"
    tell : told what runs
    """
    simpy = load_simpy()
    for cpus in request.cpus:
        title = f"SimPy, {cpus:,} process{'es' if cpus > 1 else ''}"
        name = f"simpy_timeouts_per_second_{cpus}_cpus"
        if simpy is None:
            reason = "SimPy is not installed: pip install simpy"
            yield Figure(name, "simpy", title, _UNIT, higher_is_better=True, reason=reason)
            continue
        count = request.work.simpy_timeouts or micro_ops.get(cpus, 0)
        if count == 0:
            reason = "the engine's micro-ops are not known: measure the engine in the same run"
            yield Figure(name, "simpy", title, _UNIT, higher_is_better=True, reason=reason)
            continue
        timings: list[Timing] = []
        for i in range(request.repeat):
            tell(f"{title} ({i + 1} of {request.repeat})")
            with stopwatch() as watch:
                run_timeouts(simpy, cpus, count)
            timings.append(watch.timing)
        yield rate_figure(name, "simpy", title, _UNIT, count, timings, detail=f"{count:,} bare timeouts")
