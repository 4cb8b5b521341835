"""Tests A to F on the oracle: counts worked out by hand, and the formulas against the model."""

from __future__ import annotations

import doctest
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import (
    COUNTER_MEANING,
    TESTS,
    Slub,
    counters_delta,
    expected_counters,
    expected_new_slabs,
    expected_pcp_drains,
    expected_pcp_refills,
    run_test,
    run_test_on,
)

VARIANTS = ("SLUB", "SLUB+", "SLUB-o")
PAGE_SIZES = (4096, 16384)


def test_b_at_64_bytes_as_the_mail_ran_it() -> None:
    """10,000 objects of 64 in a slab: 157 slabs, 16 objects in the last."""
    result = run_test("B", 64, 10_000)
    alloc, free = result["kmalloc"], result["kfree"]
    assert (alloc["ALLOC_SLAB"], alloc["ALLOC_FASTPATH"], alloc["DEACTIVATE_FULL"]) == (157, 9843, 156)
    assert (alloc["slab_lock"], alloc["list_lock"], alloc["zone_lock"]) == (313, 0, 6)
    assert (free["FREE_FASTPATH"], free["FREE_SLOWPATH"]) == (16, 9984)
    assert (free["FREE_ADD_PARTIAL"], free["FREE_REMOVE_PARTIAL"], free["FREE_SLAB"]) == (156, 156, 156)
    assert (free["list_lock"], free["slab_lock"], free["page_free"]) == (312, 9984, 156)
    # 6 refills of 31 leave 29 pages on the list; 156 more make 185, one short of a drain at 186
    assert free["zone_lock"] == 0


def test_f_frees_the_last_slabs_while_frozen() -> None:
    result = run_test("F", 2048, 10, cpus=3)["kfree"]  # order 1, 4 objects: 2 full slabs and 2 objects each
    assert (result["FREE_SLOWPATH"], result["FREE_FROZEN"], result["FREE_FASTPATH"]) == (20, 4, 0)
    assert (result["FREE_SLAB"], result["zone_lock"]) == (4, 4)


def test_pairs_use_one_slab() -> None:
    result = run_test("C", 8, 1000)["kmalloc+kfree"]
    assert (result["ALLOC_SLOWPATH"], result["ALLOC_FASTPATH"], result["FREE_FASTPATH"]) == (1, 999, 1000)
    assert (result["FREE_SLOWPATH"], result["ALLOC_SLAB"]) == (0, 1)


def test_the_examples_of_the_package_docstring() -> None:
    package = sys.modules[str(__package__)]
    result = doctest.testmod(package)
    assert result.attempted > 8
    assert result.failed == 0


@pytest.mark.parametrize("test", TESTS)
def test_every_counter_is_reported(test: str) -> None:
    for delta in run_test(test, 64, 3, cpus=2).values():
        assert delta.keys() == COUNTER_MEANING.keys()


def test_objects_of_a_new_slab_come_in_ascending_order() -> None:
    slub = Slub(cpus=2)
    addresses = [tuple(slub.address(slub.alloc(cpu, 96))) for _ in range(50) for cpu in (0, 1)]
    assert addresses[0::2] == [(0, i) for i in range(42)] + [(2, i) for i in range(8)]
    assert addresses[1::2] == [(1, i) for i in range(42)] + [(3, i) for i in range(8)]


@settings(max_examples=300, deadline=None)
@given(
    test=st.sampled_from(TESTS),
    size=st.one_of(st.integers(1, 20_000), st.sampled_from([8, 64, 96, 192, 256, 1024, 2048, 4096, 8192])),
    ops=st.integers(0, 400),
    cpus=st.integers(2, 8),
    nodes=st.integers(1, 4),
    page_size=st.sampled_from(PAGE_SIZES),
    variant=st.sampled_from(VARIANTS),
    pcp=st.sampled_from([(None, None), (1, 2), (3, 5), (2, 12), (4, 5)]),
)
def test_formulas_agree_with_the_model(
    test: str,
    size: int,
    ops: int,
    cpus: int,
    nodes: int,
    page_size: int,
    variant: str,
    pcp: tuple[int | None, int | None],
) -> None:
    batch, high = pcp
    nodes = min(nodes, cpus)
    found = run_test(
        test,
        size,
        ops,
        cpus,
        nodes=nodes,
        page_size=page_size,
        variant=variant,
        pcp_batch=batch,
        pcp_high=high,
    )
    assert found == expected_counters(test, size, ops, cpus, nodes, page_size, variant, batch, high)


@given(ops=st.integers(0, 10_000), objects=st.integers(1, 2048))
def test_new_slabs_are_just_enough(ops: int, objects: int) -> None:
    slabs = expected_new_slabs(ops, objects)
    assert (slabs - 1) * objects < ops <= slabs * objects or ops == slabs == 0


@given(
    pages=st.integers(0, 500), batch=st.integers(1, 40), over=st.integers(1, 200), start=st.integers(0, 400)
)
def test_refills_and_drains_counted_page_by_page(pages: int, batch: int, over: int, start: int) -> None:
    high = batch + over
    start %= high
    held, drains = start, 0
    for _ in range(pages):
        held += 1
        if held >= high:
            held -= batch
            drains += 1
    assert expected_pcp_drains(pages, batch, high, start) == drains
    held, refills = 0, 0
    for _ in range(pages):
        if held == 0:
            held += batch
            refills += 1
        held -= 1
    assert expected_pcp_refills(pages, batch) == refills


@settings(max_examples=60)
@given(
    size=st.sampled_from([512, 1024, 2048, 4096, 8192]),
    ops=st.integers(0, 60),
    variant=st.sampled_from(VARIANTS),
    remote=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_order_of_frees_does_not_matter(
    size: int, ops: int, variant: str, remote: bool, seed: int
) -> None:
    slub = Slub(cpus=3, variant=variant, pcp_batch=3, pcp_high=5)
    allocating = (1, 2) if remote else (0,)
    objects = [slub.alloc(cpu, size) for _ in range(ops) for cpu in allocating]
    random.Random(seed).shuffle(objects)
    before = slub.counters
    for obj in objects:
        slub.free(0, obj)
    expected = expected_counters(
        "F" if remote else "B", size, ops, cpus=3, variant=variant, pcp_batch=3, pcp_high=5
    )
    assert counters_delta(slub.counters, before) == expected["kfree"]
    slub.check()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_second_run_finds_the_cpu_slab_and_the_pages(variant: str) -> None:
    """Test B leaves one empty cpu slab and no partial slab, so a second A needs one new slab less."""
    slub = Slub(cpus=1, variant=variant)
    slabs = expected_counters("A", 512, 100, cpus=1, variant=variant)["kmalloc"]["ALLOC_SLAB"]
    run_test_on(slub, "B", 512, 100)
    assert [view.inuse for view in slub.slabs()] == [slub.slabs()[0].objects]  # all on the cpu freelist
    assert len(slub.slabs()[0].cpu_freelist) == slub.slabs()[0].objects
    again = run_test_on(slub, "B", 512, 100)
    assert again["kmalloc"]["ALLOC_SLAB"] == slabs - 1
    assert again["kmalloc"]["pcp_refill"] == 0
    slub.check()
