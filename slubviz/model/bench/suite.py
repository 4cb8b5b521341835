"""The whole benchmark, group by group.

Interface: ``validate``, ``measure``.  Figures come in the order of ``figures.GROUPS``; any group can be left
out, except that "as many SimPy timeouts as micro-ops" needs the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slubviz.hw.jit import jit_enabled
from slubviz.model.bench.engine_rates import RATE_TESTS, measure_rates, rate_name, rate_session
from slubviz.model.bench.figures import GROUPS, BenchRequest, Figure, Report
from slubviz.model.bench.host import describe_host
from slubviz.model.bench.processes import measure_compile, measure_scrubbing, measure_window
from slubviz.model.bench.session_times import measure_matrix, measure_session
from slubviz.model.bench.simpy_rates import measure_simpy
from slubviz.model.bench.time_travel import measure_time_travel
from slubviz.model.bench.timing import Tell
from slubviz.model.errors import RequestError, unknown_name


def validate(request: BenchRequest) -> None:
    """Refuse what cannot be measured before anything runs.

    Raises
    ------
    UserError
        For an unknown group, machine or kernel, an impossible number of CPUs, or a JIT that is switched off.
    """
    for group in request.groups:
        if group not in GROUPS:
            raise unknown_name("group", group, GROUPS)
    if request.work.simpy_timeouts is None and "simpy" in request.groups and "engine" not in request.groups:
        raise RequestError("as many SimPy timeouts as micro-ops: measure the group engine in the same run")
    if not jit_enabled:
        raise RequestError("NUMBA_DISABLE_JIT is set: nothing would be compiled; unset it to measure")
    if min(request.cpus, default=0) < 1 or request.repeat < 1:
        raise RequestError("give at least 1 sample, and numbers of CPUs of at least 1")
    for cpus in request.cpus:
        for test in RATE_TESTS:
            rate_session(request, test, cpus)


def measure(request: BenchRequest, tell: Callable[[str], None] | None = None) -> Report:
    """Measure everything that is asked for; some minutes, or some ten seconds with ``QUICK_WORK``.

    Parameters
    ----------
    request : what to measure; see ``validate``
    tell : called with a few words whenever something new is measured

    Raises
    ------
    UserError
        If a kernel program fails.
    """
    host = describe_host()  # before the work, for the load of the others
    return Report(request, host, tuple(_figures(request, tell or (lambda _: None))))


def _figures(request: BenchRequest, tell: Tell) -> list[Figure]:
    figures: list[Figure] = []
    for group in GROUPS:
        if group not in request.groups:
            continue
        if group == "simpy":
            figures.extend(measure_simpy(request, _micro_ops(request, figures), tell))
        else:
            figures.extend(_MEASURES[group](request, tell))
    return figures


def _micro_ops(request: BenchRequest, figures: list[Figure]) -> dict[int, int]:
    """CPUs -> micro-ops of test D; 0 where that was not measured."""
    counts = {figure.name: figure.count for figure in figures if figure.samples}
    return {cpus: counts.get(rate_name("D", cpus), 0) for cpus in request.cpus}


def _measure_travel(request: BenchRequest, tell: Tell) -> Iterator[Figure]:
    yield from measure_time_travel(request, tell)
    yield from measure_scrubbing(request, tell)


_MEASURES: dict[str, Callable[[BenchRequest, Tell], Iterator[Figure]]] = {
    "engine": measure_rates,
    "matrix": measure_matrix,
    "session": measure_session,
    "compile": measure_compile,
    "window": measure_window,
    "time-travel": _measure_travel,
}
