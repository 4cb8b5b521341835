"""Tests of the oracle's size classes, slab orders and page allocator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import Slub, cache_size, kmalloc_sizes, slab_geometry
from .counters import zero_counters
from .geometry import Limits, calculate_order, default_limits, page_order
from .pages import PageAllocator, default_pcp_batch

PAGE_SIZES = (4096, 16384)


# --- geometry ----------------------------------------------------------------------------------

#: (page size, variant) -> size, order, objects of every cache, worked out by hand from the boot options.
GEOMETRIES = {
    (4096, "SLUB"): """
        8 0 512,  16 0 256,  32 0 128,  64 0 64,  96 0 42,  128 0 32,  192 0 21,
        256 0 16,  512 0 8,  1024 0 4,  2048 1 4""",
    (4096, "SLUB-o"): """
        8 0 512,  16 0 256,  32 0 128,  64 0 64,  96 0 42,  128 0 32,  192 0 21,
        256 1 32,  512 2 32,  1024 3 32,  2048 3 16""",
    (16384, "SLUB"): """
        8 0 2048,  16 0 1024,  32 0 512,  64 0 256,  96 0 170,  128 0 128,  192 0 85,
        256 0 64,  512 0 32,  1024 0 16,  2048 0 8,  4096 1 8,  8192 2 8""",
    (16384, "SLUB-o"): """
        8 0 2048,  16 0 1024,  32 0 512,  64 0 256,  96 0 170,  128 0 128,  192 0 85,
        256 0 64,  512 0 32,  1024 1 32,  2048 2 32,  4096 3 32,  8192 3 16""",
}


@pytest.mark.parametrize(("page_size", "variant"), GEOMETRIES)
def test_geometry_table(page_size: int, variant: str) -> None:
    rows = GEOMETRIES[page_size, variant].split(",")
    expected = [tuple(int(number) for number in row.split()) for row in rows]
    sizes = kmalloc_sizes(page_size)
    assert [slab_geometry(page_size, size, variant) for size in sizes] == expected


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_patches_do_not_change_geometry(page_size: int) -> None:
    for size in kmalloc_sizes(page_size):
        assert slab_geometry(page_size, size, "SLUB+") == slab_geometry(page_size, size, "SLUB")


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1, 8), (8, 8), (9, 16), (64, 64), (65, 96), (96, 96), (97, 128), (129, 192), (193, 256), (2048, 2048)],
)
def test_cache_size(size: int, expected: int) -> None:
    assert cache_size(4096, size) == expected


def test_above_half_a_page_no_cache() -> None:
    assert cache_size(4096, 2049) is None
    assert cache_size(16384, 8192) == 8192
    assert cache_size(16384, 8193) is None


@given(
    page_size=st.sampled_from(PAGE_SIZES),
    size=st.integers(1, 8192),
    max_order=st.integers(0, 5),
    min_objects=st.integers(1, 100),
)
def test_order_holds_what_it_promises(page_size: int, size: int, max_order: int, min_objects: int) -> None:
    geometry = slab_geometry(page_size, size, "SLUB", max_order, min_objects)
    if geometry is None:
        assert size > page_size // 2
        return
    slab_bytes = page_size << geometry.order
    assert geometry.order <= max_order  # half a page always fits
    assert geometry.objects * geometry.size_bytes <= slab_bytes < (geometry.objects + 1) * geometry.size_bytes
    if geometry.objects < min_objects:
        # fewer than asked for: then no allowed order holds them within a quarter of waste
        for order in range(max_order + 1):
            block = page_size << order
            assert block < min_objects * geometry.size_bytes or block % geometry.size_bytes > block // 4


@pytest.mark.parametrize(
    ("size", "limits", "order"),
    [
        (896, Limits(0, 1, 4), 0),  # wastes exactly an eighth; order 1 would waste less
        (3000, Limits(0, 3, 2), 2),  # two objects wanted: the first order to waste at most an eighth
        (3000, Limits(0, 3, 1), 0),  # one wanted: waste does not matter
        (2816, Limits(0, 1, 2), 0),  # two would waste more than a quarter: one object, smallest order
        (9000, Limits(0, 0, 1), 2),  # no allowed order holds it
    ],
)
def test_calculate_order(size: int, limits: Limits, order: int) -> None:
    assert calculate_order(4096, size, limits) == order


def test_no_order_holds_it() -> None:
    assert calculate_order(4096, 4096 << 10, Limits(0, 0, 1)) == 10
    with pytest.raises(ValueError, match="no order below 11"):
        calculate_order(4096, (4096 << 10) + 1, Limits(0, 0, 1))


def test_default_limits() -> None:
    assert default_limits(4096, "SLUB") == default_limits(4096, "SLUB+") == (0, 1, 4)
    assert default_limits(16384, "SLUB") == default_limits(8192, "SLUB+") == (0, 2, 8)
    assert default_limits(4096, "SLUB-o") == default_limits(16384, "SLUB-o") == (0, 3, 20)
    assert default_limits(4096, "SLUB-o", max_order=5, min_objects=2, min_order=1) == (1, 5, 2)


def test_page_order() -> None:
    assert [page_order(4096, size) for size in (1, 4096, 4097, 8192, 8193, 16385)] == [0, 0, 1, 1, 2, 3]


def test_sizes_at_the_ends() -> None:
    assert kmalloc_sizes(8192)[-1] == 4096
    assert kmalloc_sizes(65536)[-1] == 32768
    assert cache_size(4096, 1 << 22) is None  # the largest block


def test_min_order_is_a_floor() -> None:
    geometry = slab_geometry(4096, 64, "SLUB", max_order=3, min_order=2)
    assert geometry == (64, 2, 256)


# --- page allocator ------------------------------------------------------------------------------


def test_default_batches() -> None:
    assert default_pcp_batch(4096) == 31
    assert [default_pcp_batch(size) for size in (8192, 16384, 32768, 65536)] == [15, 7, 3, 1]
    slub = Slub(page_size=16384)
    assert (slub.pages.batch, slub.pages.high) == (7, 42)


def test_pages_refill_drain_and_reuse() -> None:
    counters = zero_counters()
    pages = PageAllocator(cpus=2, nodes=1, batch=3, high=5, counters=counters)
    frames = [pages.alloc(0, 0, 0) for _ in range(4)]
    assert (counters["pcp_refill"], counters["zone_lock"]) == (2, 2)
    for frame in frames:  # cpu 1 gets them: 4 pages, below the limit of 5
        pages.free(1, frame)
    assert (counters["pcp_drain"], counters["zone_lock"]) == (0, 2)
    assert pages.alloc(1, 0, 0) == frames[3]  # the page freed last comes first
    pages.free(1, frames[3])
    extra = pages.alloc(0, 0, 0)  # cpu 0 still has 2
    pages.free(1, extra)  # the fifth: 3 go back, the coldest
    assert (counters["pcp_drain"], counters["zone_lock"]) == (1, 3)
    assert pages.pcp[1, 0] == [extra, frames[3]]
    assert sorted(pages.zones[0].free_blocks[0]) == sorted(frames[:3])
    assert pages.alloc(0, 0, 0) not in frames  # the last page of cpu 0's list
    assert pages.alloc(0, 0, 0) in frames[:3]  # the zone gives back what it got
    pages.check()


def test_higher_orders_take_the_zone_lock_each_way() -> None:
    counters = zero_counters()
    pages = PageAllocator(cpus=1, nodes=1, batch=31, high=186, counters=counters)
    frame = pages.alloc(0, 0, 1)
    assert pages.alloc(0, 0, 1) != frame
    pages.free(0, frame)
    assert counters["zone_lock"] == 3
    assert counters["pcp_refill"] == counters["pcp_drain"] == 0
    pages.check()
