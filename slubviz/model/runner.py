"""Runs cells without a window: which there are, in which order, on how many threads.

Interface: ``validate``, ``run_cells``, ``known_machines``, ``known_kernels``, ``known_tests``,
``default_sizes``.  The unit of work is
one boot: a kernel and the tests that share a boot, over all sizes (or one size, with ``fresh_boot``).
Boots do not influence each other, so
the number of threads changes nothing in the results.  Threads do, because the engine runs without Python's
lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from slubviz.hw.jit import cache_is_warm
from slubviz.model.kernels import KERNELS
from slubviz.model.machines import load_machine, machine_files
from slubviz.model.plan import TESTS, boot_groups
from slubviz.model.results import CellResult, Progress, RunRequest
from slubviz.model.session import Session, SessionSpec

_POLL_SECONDS = 0.1


def known_machines() -> Mapping[str, str]:
    """Name and one-line description of each machine."""
    return {name: load_machine(name).title for name in machine_files()}


def known_kernels() -> Mapping[str, str]:
    """Name and one-line description of each kernel."""
    return {kernel.name: kernel.title for kernel in KERNELS.values()}


def known_tests() -> Mapping[str, str]:
    """Name and one-line description of each test."""
    return dict(TESTS)


def default_sizes(machine: str) -> tuple[int, ...]:
    """The sizes in bytes that stand for "all": powers of two from 8 to one page."""
    page = load_machine(machine).page_size_bytes
    return tuple(1 << bit for bit in range(3, page.bit_length()))


def _session_specs(request: RunRequest) -> list[SessionSpec]:
    sizes = request.sizes if request.sizes is not None else default_sizes(request.machine)
    steps = [(size,) for size in sizes] if request.fresh_boot else [tuple(sizes)]
    return [
        SessionSpec(
            machine=request.machine,
            kernel=kernel,
            test=tests[0],
            sizes=step,
            ops=request.ops,
            seed=request.seed,
            cpus=request.cpus,
            options=request.options,
            tests=tests,
            check=request.check,
        )
        for kernel in request.kernels
        for tests in boot_groups(request.tests)
        for step in steps
    ]


def validate(request: RunRequest) -> None:
    """Refuse what cannot run, before anything runs; kernel files are compiled.

    Raises
    ------
    UserError
        One line: what is wrong, where, what to do.
    """
    compiled: set[str] = set()
    for spec in _session_specs(request):
        session = Session(spec)
        if spec.kernel not in compiled:
            session.check_program()
            compiled.add(spec.kernel)


class _Runs:
    """The boots of a request on their way; counts cells and micro-ops for the progress report."""

    def __init__(self, request: RunRequest, report: Callable[[Progress], None]) -> None:
        self.specs = _session_specs(request)
        self.report = report
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.total_cells = sum(len(spec.asked_tests) * len(spec.sizes) for spec in self.specs)
        self.done_cells = 0
        self.micro_ops = 0

    def one(self, spec: SessionSpec) -> list[CellResult]:
        session = Session(spec)
        session.boot()
        session.run_to_end(self.stop, self._advanced)
        return session.results

    def _advanced(self, session: Session, new_cells: int, new_micro_ops: int) -> None:
        with self.lock:
            self.done_cells += new_cells
            self.micro_ops += new_micro_ops
            phase = session.phase
            size = phase.size_bytes if phase else session.spec.sizes[-1]
            test = phase.test if phase else session.spec.asked_tests[-1]
            self.report(
                Progress(self.done_cells, self.total_cells, session.variant.name, test, size, self.micro_ops)
            )


def run_cells(request: RunRequest, progress: Callable[[Progress], None] | None = None) -> list[CellResult]:
    """Run every cell of a request.

    Parameters
    ----------
    request : what to run; see ``validate``
    progress : called, one call at a time, whenever cells or micro-ops were done

    Returns
    -------
    list of CellResult, by kernel in the asked order, then test, then size.

    Raises
    ------
    UserError
        As ``validate``, or when a kernel program fails.
    """
    runs = _Runs(request, progress or (lambda _: None))
    if not cache_is_warm():
        runs.report(
            Progress(0, runs.total_cells, message="compiling the simulator (only this time, some seconds)")
        )
    if request.jobs == 1:
        found = [runs.one(spec) for spec in runs.specs]
    else:
        found = _run_on_threads(runs, request.jobs)
    order = {name: place for place, name in enumerate(_kernel_names(runs.specs))}
    cells = [cell for boot in found for cell in boot]
    return sorted(cells, key=lambda cell: (order[cell.kernel], cell.test, cell.size_bytes))


def _kernel_names(specs: list[SessionSpec]) -> list[str]:
    return list(dict.fromkeys(Session(spec).variant.name for spec in specs))


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
