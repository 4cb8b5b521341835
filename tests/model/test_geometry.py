"""Orders, objects per slab and size classes against a table worked out from the kernel's rule by hand."""

from __future__ import annotations

import pytest

from slubviz.model.geometry import (
    OrderOptions,
    kmalloc_cache_sizes,
    kmalloc_index,
    page_order,
    pages_for,
    slab_geometry,
)

ON_4K = {
    8: (0, 512), 16: (0, 256), 32: (0, 128), 64: (0, 64), 96: (0, 42), 128: (0, 32), 192: (0, 21),
    256: (0, 16),
    512: (0, 8), 1024: (0, 4), 2048: (1, 4),
}  # fmt: skip
ON_4K_HIGH_ORDERS = {
    8: (0, 512), 16: (0, 256), 32: (0, 128), 64: (0, 64), 96: (0, 42), 128: (0, 32), 192: (0, 21),
    256: (1, 32),
    512: (2, 32), 1024: (3, 32), 2048: (3, 16),
}  # fmt: skip
ON_16K = {
    8: (0, 2048), 16: (0, 1024), 32: (0, 512), 64: (0, 256), 96: (0, 170), 128: (0, 128), 192: (0,
    85), 256: (0, 64),
    512: (0, 32), 1024: (0, 16), 2048: (0, 8), 4096: (1, 8), 8192: (2, 8),
}  # fmt: skip
ON_16K_HIGH_ORDERS = {1024: (1, 32), 2048: (2, 32), 4096: (3, 32), 8192: (3, 16)}


@pytest.mark.parametrize(
    ("page", "options", "table"),
    [
        (4096, None, ON_4K),
        (4096, OrderOptions(0, 3, 20), ON_4K_HIGH_ORDERS),
        (16384, None, ON_16K),
        (16384, OrderOptions(0, 3, 20), ON_16K_HIGH_ORDERS),
    ],
)
def test_order_and_objects(
    page: int, options: OrderOptions | None, table: dict[int, tuple[int, int]]
) -> None:
    got = {size: slab_geometry(size, page, options) for size in table}
    assert {size: (g.order, g.objects) for size, g in got.items()} == table


def test_size_classes_on_4k_pages() -> None:
    assert sorted(kmalloc_cache_sizes(4096).values()) == [8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048]
    assert max(kmalloc_cache_sizes(16384).values()) == 8192


@pytest.mark.parametrize(
    ("request_bytes", "served"),
    [
        (1, 8),
        (8, 8),
        (9, 16),
        (65, 96),
        (96, 96),
        (97, 128),
        (129, 192),
        (192, 192),
        (193, 256),
        (2048, 2048),
    ],
)
def test_request_goes_to_the_smallest_cache_that_fits(request_bytes: int, served: int) -> None:
    index = kmalloc_index(request_bytes, 4096)
    assert index is not None
    assert kmalloc_cache_sizes(4096)[index] == served


def test_above_half_a_page_the_page_allocator_serves() -> None:
    assert kmalloc_index(2049, 4096) is None
    assert kmalloc_index(8192, 16384) is not None
    assert [page_order(size, 4096) for size in (2049, 4096, 4097, 8192, 16384)] == [0, 0, 1, 1, 2]


def test_pages_for_a_workload() -> None:
    assert pages_for(64, 10_000, 4096) == 157
    assert pages_for(2048, 10_000, 4096) == 5000
    assert pages_for(4096, 10_000, 4096) == 10_000
    assert pages_for(8192, 10, 4096) == 20
