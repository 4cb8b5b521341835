"""A runner that makes up results from a formula, for tests of everything around the simulator.

``python fake_runner.py ARGUMENTS`` is the command line on top of it, for tests that need a process.
Environment: ``FAKE_SLEEP_SECONDS`` makes each cell take that long; ``FAKE_STARTED`` names a file to make
once the first cell runs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from slubviz.model.errors import RequestError, unknown_name
from slubviz.model.published import lookup
from slubviz.model.results import CellResult, Progress, RunRequest, error_percent

OPERATIONS = {
    "A": "kmalloc",
    "B": "kfree",
    "C": "kmalloc+kfree",
    "D": "kmalloc",
    "E": "kmalloc+kfree",
    "F": "kfree",
}
SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_FACTORS = {"slub": 1.0, "slub+": 0.6}


def known_machines() -> dict[str, str]:
    return {"e5345_8p": "Dual Xeon E5345, 8 CPUs", "tiny": "two CPUs"}


def known_kernels() -> dict[str, str]:
    return {"slub": "SLUB of 2.6.24-rc1", "slub+": "SLUB with ten patches"}


def known_tests() -> dict[str, str]:
    return dict(OPERATIONS)


def runnable_tests(request: RunRequest) -> tuple[str, ...]:
    return tuple(test for test in OPERATIONS if test != "F" or (request.cpus or 8) > 1)


def default_sizes(machine: str) -> tuple[int, ...]:
    return SIZES


def validate(request: RunRequest) -> None:
    if request.machine not in known_machines():
        raise unknown_name("machine", request.machine, known_machines(), "or the path of a .toml file")
    for kernel in request.kernels:
        if kernel not in known_kernels():
            raise unknown_name("kernel", kernel, known_kernels(), "or the path of a .py file")
    if request.ops * (request.cpus or 8) > 100_000_000:
        raise RequestError(f"--ops {request.ops} needs more memory than there is")


def run_cells(request: RunRequest, progress: Callable[[Progress], None] | None = None) -> list[CellResult]:
    sizes = request.sizes or SIZES
    names = [
        (kernel, test, size, seed)
        for kernel in request.kernels
        for test in request.tests
        for size in sizes
        for seed in request.asked_seeds
    ]
    cells: list[CellResult] = []
    for kernel, test, size, seed in names:
        if not cells and "FAKE_STARTED" in os.environ:
            Path(os.environ["FAKE_STARTED"]).touch()
        time.sleep(float(os.environ.get("FAKE_SLEEP_SECONDS", "0")))
        cells.append(_cell(request, kernel, test, size, seed))
        if progress is not None:
            progress(Progress(len(cells), len(names), kernel, test, size, 1000 * len(cells)))
    return cells


def _cell(request: RunRequest, kernel: str, test: str, size: int, seed: int) -> CellResult:
    cycles = _FACTORS[kernel] * (80 + size / 8 + seed) * (3 if test in "DF" else 1)
    published = lookup(request.machine, test, kernel, size)
    low, high = published if published is not None else (None, None)
    return CellResult(
        machine=request.machine,
        kernel=kernel,
        test=test,
        operation=OPERATIONS[test],
        size_bytes=size,
        cpus=request.cpus or 8,
        ops=request.ops,
        cycles_per_op=cycles,
        cycles_per_op_min_cpu=cycles - 1,
        cycles_per_op_max_cpu=cycles + 1.25,
        published_low=low,
        published_high=high,
        error_percent=error_percent(cycles, published),
        counters={"ALLOC_FASTPATH": request.ops - 1, "ALLOC_SLOWPATH": seed},
        micro_ops=30 * request.ops,
        simulated_seconds=cycles * request.ops / 2.33e9,
        seed=seed,
    )


if __name__ == "__main__":
    from slubviz.cli import backend, main

    backend.load_runner = lambda: sys.modules["__main__"]  # type: ignore[assignment,return-value]
    sys.exit(main())
