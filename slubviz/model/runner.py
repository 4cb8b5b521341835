"""Runs cells without a window: in which order, on how many threads.

Interface: ``run_cells``; ``validate`` and the catalog of names come from ``requests``.  The unit of work is
one boot: a kernel and the tests that share a boot, over all sizes (or one size, with ``fresh_boot``). Boots
do not influence each other, so the number of threads changes nothing in the results.  Threads do, because
the engine runs without Python's lock.  The engine is loaded, and the first time ever compiled, only when
cells run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from slubviz.model.kernels import load_kernel
from slubviz.model.plan import WORKLOADS
from slubviz.model.requests import (
    SessionSpec,
    default_sizes,
    known_kernels,
    known_machines,
    known_tests,
    runnable_tests,
    session_specs,
    validate,
)
from slubviz.model.results import CellResult, Progress, RunRequest
from slubviz.model.workload import NO_POINT

if TYPE_CHECKING:
    from slubviz.model.session import Session

__all__ = [
    "default_sizes",
    "known_kernels",
    "known_machines",
    "known_tests",
    "run_cells",
    "runnable_tests",
    "validate",
]

_POLL_SECONDS = 0.1


class _Runs:
    """The boots of a request on their way; counts cells and micro-ops for the progress report."""

    def __init__(self, request: RunRequest, report: Callable[[Progress], None]) -> None:
        self.specs = session_specs(request)
        self.report = report
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.total_cells = sum(_cells(spec) for spec in self.specs)
        self.done_cells = 0
        self.micro_ops = 0

    def one(self, spec: SessionSpec) -> list[CellResult]:
        from slubviz.model.session import Session

        session = Session(spec)
        session.boot()
        session.run_to_end(self.stop, self._advanced)
        return session.results

    def _advanced(self, session: Session, new_cells: int, new_micro_ops: int) -> None:
        with self.lock:
            self.done_cells += new_cells
            self.micro_ops += new_micro_ops
            phase = session.phase
            shown = phase or session.phases[-1]
            self.report(
                Progress(
                    self.done_cells,
                    self.total_cells,
                    session.variant.name,
                    shown.test,
                    shown.size_bytes,
                    self.micro_ops,
                    objects=shown.objects,
                )
            )


def run_cells(request: RunRequest, progress: Callable[[Progress], None] | None = None) -> list[CellResult]:
    """Run every cell of a request.

    Parameters
    ----------
    request : what to run; see ``requests.validate``
    progress : called, one call at a time, whenever cells or micro-ops were done

    Returns
    -------
    list of CellResult, by kernel in the asked order, then test, point, operation and seed; one for each
    seed (``results.over_seeds`` brings them together).

    Raises
    ------
    UserError
        As ``validate``, or when a kernel program fails.
    """
    from slubviz.hw.jit import cache_is_warm

    runs = _Runs(request, progress or (lambda _: None))
    if not cache_is_warm():
        runs.report(
            Progress(0, runs.total_cells, message="compiling the simulator (only this time, some seconds)")
        )
    if request.jobs == 1:
        found = [runs.one(spec) for spec in runs.specs]
    else:
        found = _run_on_threads(runs, request.jobs)
    kernels = {name: place for place, name in enumerate(_kernel_names(runs.specs))}
    tests = {name: place for place, name in enumerate(WORKLOADS)}
    cells = [cell for boot in found for cell in boot]
    # Stable: the cells of one point keep the order in which they were measured, then that of the seeds.
    return sorted(cells, key=lambda cell: (kernels[cell.kernel], tests[cell.test], cell.point, _place(cell)))


def _cells(spec: SessionSpec) -> int:
    workloads = [WORKLOADS[test] for test in spec.asked_tests]
    points = len(spec.sizes or spec.objects or (NO_POINT,))
    return points * sum(len(workload.operations) for workload in workloads)


def _place(cell: CellResult) -> int:
    return WORKLOADS[cell.test].operations.index(cell.operation)


def _kernel_names(specs: list[SessionSpec]) -> list[str]:
    return list(dict.fromkeys(load_kernel(spec.kernel).name for spec in specs))


def _run_on_threads(runs: _Runs, jobs: int) -> list[list[CellResult]]:
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures: list[Future[list[CellResult]]] = [pool.submit(runs.one, spec) for spec in runs.specs]
        try:
            pending = set(futures)
            while pending:
                # A bounded wait, so that Ctrl-C reaches this thread.
                done, pending = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        except BaseException:
            runs.stop.set()
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]
