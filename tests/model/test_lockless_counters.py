"""The counters of whole tests, lockless SLUB held against its oracle."""

from __future__ import annotations

import pytest

from slubviz.model.results import CellResult
from tests.model.helpers import session
from tests.oracle.lockless import COUNTERS, Lockless, Place, Shape

SIZES = (8, 96, 256, 1024, 4096, 8192)
PAGE_COUNTERS = {
    "ZONE_LOCK": "zone_lock",
    "PCP_REFILL": "pcp_refill",
    "PCP_DRAIN": "pcp_drain",
    "PAGE_ALLOC": "page_alloc",
    "PAGE_FREE": "page_free",
}
KERNELS: dict[str, tuple[str, dict[str, int], Shape]] = {
    "3.6": ("slub-cpu-partial", {}, Shape(cpus=8)),
    "3.5": ("slub-cpu-partial", {"UNFREEZE_REWRITE": 0}, Shape(cpus=8, locks_first=False)),
    "3.1": ("slub-cpu-partial", {"CPU_PARTIAL": 0}, Shape(cpus=8, chains=False)),
    "4.3": ("slub-bulk", {}, Shape(cpus=8, late=True, bulk=1)),
}


class Counted:
    """The oracle, with the counters since a moment."""

    def __init__(self, shape: Shape) -> None:
        self.oracle = Lockless(shape)
        self.before = self._now()

    def _now(self) -> dict[str, int]:
        pages = {ours: self.oracle.page_counters[theirs] for ours, theirs in PAGE_COUNTERS.items()}
        return {**self.oracle.counters, **pages}

    def since(self) -> dict[str, int]:
        """What was counted since the last call."""
        before, self.before = self.before, self._now()
        return {name: value - before[name] for name, value in self.before.items()}


def counters_of(cell: CellResult) -> dict[str, int]:
    return {name: cell.counters[name] for name in (*COUNTERS, *PAGE_COUNTERS)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("variant", KERNELS)
def test_allocating_and_freeing_on_one_cpu(variant: str, size: int) -> None:
    kernel, options, shape = KERNELS[variant]
    made = session("AB", (size,), 600, kernel, **options)
    made.run_to_end()
    counted = Counted(shape)
    places = [counted.oracle.alloc(0, size) for _ in range(600)]
    assert counters_of(made.results[0]) == counted.since()
    for place in places:
        counted.oracle.free(0, place)
    assert counters_of(made.results[1]) == counted.since()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("variant", KERNELS)
def test_one_cpu_frees_what_the_others_allocated(variant: str, size: int) -> None:
    kernel, options, shape = KERNELS[variant]
    made = session("F", (size,), 200, kernel, **options)
    made.run_to_end()
    counted = Counted(shape)
    places: list[Place] = []
    for cpu in range(1, 8):
        places += [counted.oracle.alloc(cpu, size) for _ in range(200)]
    counted.since()
    for place in places:
        counted.oracle.free(0, place)
    assert counters_of(made.results[0]) == counted.since()


def test_one_object_at_a_time_never_leaves_the_fast_path() -> None:
    made = session("C", (256,), 500, "slub-cpu-partial")
    made.run_to_end()
    counters = made.results[0].counters
    assert (counters["ALLOC_FASTPATH"], counters["FREE_FASTPATH"], counters["ALLOC_SLAB"]) == (499, 500, 1)
    assert counters["LIST_LOCK"] == counters["CMPXCHG_DOUBLE_FAIL"] == 0
