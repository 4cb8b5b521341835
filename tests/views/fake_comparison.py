"""A comparison that makes up its numbers: real plan, no simulation, no processes.

Every simulated number is the published one times a factor that depends on the kernel, so that errors are
known: ``slab`` is 10 % too slow, ``slub+`` 20 % too fast, the others 5 % too slow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from slubviz.model.compare import ComparePlan, CompareRequest, Comparison, RunningComparison, plan_comparison
from slubviz.model.compare_pool import ProcessPool
from slubviz.model.compare_table import Boot, CellKey, published_cells
from slubviz.model.errors import UserError
from slubviz.model.plan import WORKLOADS, Sweep
from slubviz.model.results import CellResult
from slubviz.views.fidelity_worker import ModelBackend, Watch

FACTORS = {"slab": 1.10, "slub+": 0.80}


def factor(kernel: str) -> float:
    """Simulated over published."""
    return FACTORS.get(kernel, 1.05)


class FakeBackend(ModelBackend):
    """Plans for real and runs at once, or holds in the middle.

    Attributes
    ----------
    hold : threading.Event or None
        After the first boot it is waited for, while the watcher is still asked.
    pools : list of ProcessPool
        Of each run.
    error : Exception or None
        Raised after the first boot.
    requests : list of CompareRequest
        What was run.
    """

    def __init__(self) -> None:
        self.hold: threading.Event | None = None
        self.pools: list[ProcessPool] = []
        self.error: Exception | None = None
        self.requests: list[CompareRequest] = []

    def plan(self, request: CompareRequest) -> ComparePlan:
        return plan_comparison(request)

    def run(self, plan: ComparePlan, watch: Watch, pool: ProcessPool) -> Comparison:
        self.pools.append(pool)
        self.requests.append(plan.request)
        running = RunningComparison(plan)
        for number, (machine, boot) in enumerate(plan.boots):
            for cell in cells_of(machine, boot):
                if watch(running.add(machine, boot, [cell], 100), running) is False:
                    return running.comparison()
            if number == 0 and self.error is not None:
                raise self.error
            while number == 0 and self.hold is not None and not self.hold.is_set():
                time.sleep(0.01)
                if watch(running.add(machine, boot, [], 0), running) is False:
                    return running.comparison()
        return running.comparison()


class DyingBackend(FakeBackend):
    """Waits, as for a process that compiles, until the pool's processes are gone."""

    def __init__(self, process_gone: threading.Event) -> None:
        super().__init__()
        self.process_gone = process_gone

    def run(self, plan: ComparePlan, watch: Watch, pool: ProcessPool) -> Comparison:
        self.pools.append(pool)
        assert self.process_gone.wait(20)
        raise UserError("a worker process ended by signal 9: is there enough memory? use a smaller -j")


def cells_of(machine: str, boot: Boot) -> Iterator[CellResult]:
    """What a boot measures, made up from what is published."""
    published = {cell.key: (cell.low + cell.high) / 2 for cell in published_cells()}
    for test in boot.tests:
        workload = WORKLOADS[test]
        for operation in workload.operations:
            for point in boot.points or (0,):
                at, for_all = (CellKey(machine, boot.kernel, test, operation, p) for p in (point, 0))
                cycles = published.get(at, published.get(for_all, 100.0)) * factor(boot.kernel)
                yield CellResult(
                    machine=machine,
                    kernel=boot.kernel,
                    test=test,
                    operation=operation,
                    size_bytes=point if workload.sweep == Sweep.SIZE else 256,
                    objects=point if workload.sweep == Sweep.OBJECTS else None,
                    seed=boot.seed,
                    cpus=8,
                    ops=boot.ops,
                    cycles_per_op=cycles + boot.seed - 1,
                    cycles_per_op_min_cpu=cycles,
                    cycles_per_op_max_cpu=cycles,
                    counters={"CMPXCHG_DOUBLE_FAIL": 100 - dict(boot.options).get("UNFREEZE_REWRITE", 0)},
                )
