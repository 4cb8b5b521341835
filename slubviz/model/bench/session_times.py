"""What a user of a session waits for: boot, a step, a copy of the state, a snapshot, the whole matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slubviz.model.bench.figures import BenchRequest, Figure, Timing, Work, time_figure
from slubviz.model.bench.timing import Tell, repeated, stopwatch
from slubviz.model.requests import SessionSpec
from slubviz.model.results import RunRequest
from slubviz.model.runner import default_sizes, run_cells
from slubviz.model.session import Session

MATRIX_GOAL_SECONDS = 6.0
_TESTS = ("A", "B", "C", "D", "E", "F")
_SIZE_BYTES = 64


def _session(request: BenchRequest) -> Session:
    spec = SessionSpec(request.machine, request.kernel, "D", (_SIZE_BYTES,), request.work.session_ops, 1)
    return Session(spec)


def measure_session(request: BenchRequest, tell: Tell) -> Iterator[Figure]:
    """Boot, single step, state size and copy, snapshot; test D on the machine's own CPUs."""
    work = request.work
    tell("boot, single step, state copy, snapshot")
    session = _session(request)
    what = f"test D, {session.machine_spec.cpus} CPUs, {work.session_ops:,} objects of {_SIZE_BYTES} B each"
    boots = repeated(session.boot, request.repeat)
    yield time_figure("boot", "session", "boot, compiling the kernel included", boots, detail=what)
    steps = [_steps_timing(session, work) for _ in range(request.repeat)]
    detail = f"mean of {work.steps:,} calls of Session.step"
    yield time_figure("step", "session", "one step of one micro-op", steps, count=work.steps, detail=detail)
    size = float(session.machine.state.nbytes)
    yield Figure("state_size", "session", "size of the whole state", "bytes", (size,), detail=what)
    yield from _copy_times(session, request)
    slabs = session.snapshot().total_slabs
    yield time_figure(
        "snapshot",
        "session",
        "one snapshot for the views",
        repeated(lambda: [session.snapshot() for _ in range(work.snapshots)], request.repeat),
        count=work.snapshots,
        detail=f"mean of {work.snapshots} calls of Session.snapshot; {slabs:,} slabs shown",
    )


def _copy_times(session: Session, request: BenchRequest) -> Iterator[Figure]:
    """A checkpoint into new memory, which the system has to hand out page by page, and into an old one's."""
    work, state = request.work, session.machine.state

    def copy_and_keep() -> None:
        kept = [session.machine.copy_state() for _ in range(work.copies)]
        kept.clear()

    old = session.machine.copy_state()

    def copy_over() -> None:
        for _ in range(work.copies):
            np.copyto(old, state)

    for name, title, copy, detail in (
        ("state_copy", "one copy of the whole state", copy_and_keep, "calls of Machine.copy_state, all kept"),
        ("state_copy_over", "the same over an older copy", copy_over, "copies into one array"),
    ):
        timings = repeated(copy, request.repeat)
        detail = f"mean of {work.copies} {detail}"
        yield time_figure(name, "session", title, timings, count=work.copies, detail=detail)


def _steps_timing(session: Session, work: Work) -> Timing:
    session.reset()
    session.run(work.warm_up_micro_ops)
    with stopwatch() as watch:
        for _ in range(work.steps):
            session.step()
    if session.finished:
        raise RuntimeError("the session ended while it was stepped: give it more operations")
    return watch.timing


def measure_matrix(request: BenchRequest, tell: Tell) -> Iterator[Figure]:
    """The whole matrix of tests and sizes of one kernel, on one core.

    The goal is for 10,000 operations at all sizes; less work has none.
    """
    work = request.work
    sizes = work.matrix_sizes or default_sizes(request.machine)
    asked = RunRequest(request.machine, (request.kernel,), _TESTS, sizes, work.matrix_ops, 1)
    timings: list[Timing] = []
    micro_ops = 0
    for i in range(request.repeat):
        tell(f"tests A to F at {len(sizes)} sizes ({i + 1} of {request.repeat})")
        with stopwatch() as watch:
            cells = run_cells(asked)
        timings.append(watch.timing)
        micro_ops = sum(cell.micro_ops for cell in cells)
    full = work.matrix_ops >= 10_000 and work.matrix_sizes is None
    yield time_figure(
        "matrix",
        "matrix",
        f"tests A to F, {len(sizes)} sizes, {work.matrix_ops:,} operations",
        timings,
        goal=MATRIX_GOAL_SECONDS if full else None,
        detail=f"{request.kernel} on {request.machine}; {micro_ops:,} micro-ops in the measured phases",
    )
