"""The counters of every test and size, held against the independent slow oracle."""

from __future__ import annotations

import pytest

from slubviz.model.invariants import check
from slubviz.model.results import CellResult
from tests.model.helpers import session
from tests.oracle.counters import KERNEL_COUNTERS, Counters
from tests.oracle.runs import run_test

SIZES = (8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)
#: Our counters beyond the kernel's own -> the oracle's name.
OTHER_COUNTERS = {
    "LIST_LOCK": "list_lock",
    "SLAB_LOCK": "slab_lock",
    "ZONE_LOCK": "zone_lock",
    "PCP_REFILL": "pcp_refill",
    "PCP_DRAIN": "pcp_drain",
    "PAGE_ALLOC": "page_alloc",
    "PAGE_FREE": "page_free",
    "LARGE_ALLOC": "large_alloc",
    "LARGE_FREE": "large_free",
}
KERNELS = {"slub": "SLUB", "slub+": "SLUB+"}


def compare(cell: CellResult, expected: Counters) -> None:
    """Every counter that both sides know, by name."""
    pairs = {name: name for name in KERNEL_COUNTERS} | OTHER_COUNTERS
    got = {ours: cell.counters[ours] for ours in pairs}
    want = {ours: expected[theirs] for ours, theirs in pairs.items()}
    assert got == want, f"{cell.kernel} {cell.test} {cell.size_bytes}"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("tests", "ops"), [("AB", 1000), ("C", 300), ("D", 300), ("E", 60), ("F", 300)])
def test_counters_equal_the_oracles(tests: str, ops: int, size: int, kernel: str) -> None:
    made = session(tests, (size,), ops, kernel)
    made.run_to_end()
    assert [cell.test for cell in made.results] == list(tests)
    for cell in made.results:
        expected = run_test(cell.test, size, ops, cpus=8, variant=KERNELS[kernel])
        compare(cell, expected[cell.operation])


def test_a_ten_thousand_objects_of_64_bytes_take_157_slabs() -> None:
    made = session("AB", (64,), 10_000)
    made.run_to_end()
    a, b = made.results
    assert a.counters["ALLOC_SLAB"] == 157
    assert a.counters["ALLOC_SLOWPATH"] == 157
    assert a.counters["ALLOC_FASTPATH"] == 10_000 - 157
    assert a.counters["DEACTIVATE_FULL"] == 156
    # The 16 objects of the last slab, which still is the cpu slab, go the fast way back.
    assert b.counters["FREE_FASTPATH"] == 10_000 - 156 * 64
    assert b.counters["FREE_SLOWPATH"] == 156 * 64
    assert b.counters["FREE_SLAB"] == 156


@pytest.mark.parametrize("kernel", KERNELS)
def test_c_never_leaves_the_fast_path_after_the_first_object(kernel: str) -> None:
    made = session("C", (8, 96, 1024, 2048), 500, kernel)
    made.run_to_end()
    for cell in made.results:
        assert cell.counters["ALLOC_SLOWPATH"] == 1
        assert cell.counters["ALLOC_FASTPATH"] == 499
        assert cell.counters["FREE_FASTPATH"] == 500
        assert cell.counters["FREE_SLOWPATH"] == 0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("tests", "ops"), [("AB", 1000), ("C", 300), ("D", 300), ("F", 300)])
@pytest.mark.parametrize("size", [8, 64, 2048, 4096])
def test_a_warm_up_changes_no_counter(size: int, tests: str, ops: int, kernel: str) -> None:
    """Page counters too: the warm-up gives its pages back."""
    made = session(tests, (size,), ops, kernel, warm_up=True)
    assert made.machine.micro_ops == 0
    assert check(made.booted, expected_allocated=0) == []
    made.run_to_end()
    for cell in made.results:
        expected = run_test(cell.test, size, ops, cpus=8, variant=KERNELS[kernel])
        compare(cell, expected[cell.operation])
    assert check(made.booted, expected_allocated=0) == []


def test_sizes_in_one_sequence_count_as_if_each_were_alone() -> None:
    made = session("AB", (8, 64, 512, 4096), 700)
    made.run_to_end()
    pages = {"ZONE_LOCK", "PCP_REFILL", "PCP_DRAIN"}  # what the size before left on the page lists
    for cell in made.results:
        expected = run_test(cell.test, cell.size_bytes, 700, cpus=8, variant="SLUB")[cell.operation]
        for ours, theirs in ({name: name for name in KERNEL_COUNTERS} | OTHER_COUNTERS).items():
            if ours not in pages:
                assert cell.counters[ours] == expected[theirs], (cell.test, cell.size_bytes, ours)
