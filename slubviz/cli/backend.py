"""What the command line needs from the simulator, loaded only when a command needs it.

Loading takes numba along, which costs a good part of a second: ``--help`` and ``--version`` do without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from slubviz.model.bench.figures import BenchRequest, Report
from slubviz.model.results import CellResult, Progress, RunRequest


class Runner(Protocol):
    """The part of ``slubviz.model.runner`` that is used here."""

    def validate(self, request: RunRequest) -> None:
        """Raise UserError if ``request`` cannot be run."""

    def run_cells(
        self, request: RunRequest, progress: Callable[[Progress], None] | None = None
    ) -> list[CellResult]:
        """Run every cell; sorted by kernel as asked, test and size."""

    def known_machines(self) -> Mapping[str, str]:
        """Name and one-line description of each machine."""

    def known_kernels(self) -> Mapping[str, str]:
        """Name and one-line description of each kernel."""

    def known_tests(self) -> Mapping[str, str]:
        """Name and one-line description of each test."""

    def runnable_tests(self, request: RunRequest) -> tuple[str, ...]:
        """The tests that all kernels of a request and its machine can run."""


class Benchmark(Protocol):
    """The part of ``slubviz.model.bench.suite`` that is used here."""

    def validate(self, request: BenchRequest) -> None:
        """Raise UserError if ``request`` cannot be measured."""

    def measure(self, request: BenchRequest, tell: Callable[[str], None] | None = None) -> Report:
        """Measure; ``tell`` hears what is measured now."""


def load_runner() -> Runner:
    """The simulator's runner."""
    from slubviz.model import runner

    return runner


def load_benchmark() -> Benchmark:
    """The benchmark."""
    from slubviz.model.bench import suite

    return suite
