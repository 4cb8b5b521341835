"""SLAB's caches, slab layouts and queue lengths: the values of 2.6.24 for two machines, and what must hold on
any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.model.families.slab_geometry import (
    BUFCTL_BYTES,
    Shape,
    alignment,
    cache_index,
    malloc_sizes,
    pages_for,
    queue_sizes,
    slab_layout,
)
from tests.model.slab_driver import SlabDriver, small_machine

X86 = Shape(page_size_bytes=4096, word_bytes=8, line_bytes=64, cpus=8)
IA64 = Shape(page_size_bytes=16384, word_bytes=8, line_bytes=128, cpus=8)
SHAPES = st.builds(
    Shape,
    st.sampled_from([4096, 16384, 65536]),
    st.sampled_from([4, 8]),
    st.sampled_from([32, 64, 128]),
    st.integers(1, 64),
)

#: Object size -> objects, order, off slab, management bytes, colours, limit, batch, shared entries.
LAYOUTS = {
    X86: {
        32: (112, 0, False, 512, 0, 120, 60, 480),
        64: (59, 0, False, 320, 0, 120, 60, 480),
        128: (30, 0, False, 192, 1, 120, 60, 480),
        192: (20, 0, False, 128, 2, 120, 60, 480),
        256: (15, 0, False, 128, 2, 120, 60, 480),
        512: (8, 0, True, 80, 0, 54, 27, 216),
        1024: (4, 0, True, 64, 0, 54, 27, 216),
        2048: (2, 0, True, 56, 0, 24, 12, 96),
        4096: (1, 0, True, 52, 0, 24, 12, 96),
        8192: (1, 1, True, 52, 0, 8, 4, 0),
        16384: (1, 2, True, 52, 0, 8, 4, 0),
        262144: (1, 6, True, 52, 0, 1, 1, 0),
    },
    IA64: {
        64: (240, 0, False, 1024, 0, 120, 60, 480),
        128: (123, 0, False, 640, 0, 120, 60, 480),
        256: (62, 0, False, 384, 1, 120, 60, 480),
        512: (31, 0, False, 256, 2, 54, 27, 216),
        1024: (15, 0, False, 128, 7, 54, 27, 216),
        2048: (8, 0, True, 80, 0, 24, 12, 96),
        4096: (4, 0, True, 64, 0, 24, 12, 96),
        8192: (2, 0, True, 56, 0, 24, 12, 96),
        16384: (1, 0, True, 52, 0, 24, 12, 96),
        32768: (1, 1, True, 52, 0, 8, 4, 0),
    },
}


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [(shape, size, row) for shape, rows in LAYOUTS.items() for size, row in rows.items()],
)
def test_layouts_and_queues_of_the_two_machines(
    shape: Shape, size: int, expected: tuple[int, int, bool, int, int, int, int, int]
) -> None:
    layout, queues = slab_layout(size, shape), queue_sizes(size, shape)
    assert (
        layout.objects,
        layout.order,
        layout.off_slab,
        layout.management_bytes,
        layout.colours,
        queues.limit,
        queues.batch,
        queues.shared_entries,
    ) == expected


@pytest.mark.parametrize(
    ("shape", "served"),
    [
        (X86, {8: 32, 16: 32, 32: 32, 33: 64, 96: 128, 128: 128, 192: 192, 193: 256, 4096: 4096, 4097: 8192}),
        (IA64, {8: 64, 32: 64, 64: 64, 96: 128, 192: 256, 16384: 16384}),
        (Shape(4096, 4, 32, 1), {64: 64, 96: 96, 192: 192}),  # a line of 32 bytes brings size-96
        (Shape(4096, 4, 128, 1), {96: 128, 192: 256}),
    ],
)
def test_which_cache_serves_a_request(shape: Shape, served: dict[int, int]) -> None:
    for request, size in served.items():
        index = cache_index(request, shape)
        assert index is not None
        assert malloc_sizes(shape)[index] == size


def test_the_largest_cache_is_the_largest_block_of_pages() -> None:
    assert malloc_sizes(X86)[-1] == 4096 << 10
    assert malloc_sizes(IA64)[-1] == 16384 << 10
    assert malloc_sizes(Shape(65536, 8, 128, 8))[-1] == 1 << 25
    assert cache_index((4096 << 10) + 1, X86) is None


def test_alignment_is_the_line_halved_for_small_objects() -> None:
    assert [alignment(size, 64) for size in (32, 64, 96, 192, 256)] == [32, 64, 64, 64, 64]
    assert [alignment(size, 128) for size in (64, 96, 128)] == [64, 128, 128]


def test_one_cpu_has_no_shared_arrays() -> None:
    one = Shape(4096, 8, 64, 1)
    assert all(queue_sizes(size, one).shared_entries == 0 for size in malloc_sizes(one))


@given(shape=SHAPES, pick=st.integers(0, 10**6))
def test_objects_and_management_fit_and_do_not_overlap(shape: Shape, pick: int) -> None:
    sizes = malloc_sizes(shape)
    size = sizes[pick % len(sizes)]
    layout = slab_layout(size, shape)
    slab_bytes = shape.page_size_bytes << layout.order
    in_front = 0 if layout.off_slab else layout.management_bytes
    used = in_front + layout.objects * size
    assert layout.objects >= 1
    assert used <= slab_bytes
    assert layout.management_bytes >= shape.slab_struct_bytes + BUFCTL_BYTES * layout.objects
    # Every colour fits, and one more would not.
    assert used + layout.colours * layout.colour_bytes <= slab_bytes
    assert used + (layout.colours + 1) * layout.colour_bytes > slab_bytes
    assert (in_front % layout.align_bytes, layout.colour_bytes % layout.align_bytes) == (0, 0)


@given(shape=SHAPES, pick=st.integers(0, 10**6), objects=st.integers(1, 20000))
def test_the_estimate_of_pages_covers_the_slabs_and_their_structures(
    shape: Shape, pick: int, objects: int
) -> None:
    sizes = malloc_sizes(shape)
    size = sizes[pick % len(sizes)]
    layout = slab_layout(size, shape)
    slabs = -(-objects // layout.objects)
    pages = slabs << layout.order
    if layout.off_slab:
        serving = cache_index(layout.management_bytes, shape)
        assert serving is not None
        pages += slabs // slab_layout(sizes[serving], shape).objects
    assert pages_for(size, objects, shape) > pages


def test_the_booted_structures_hold_these_values() -> None:
    driver = SlabDriver(small_machine(4, 2))
    for size, (objects, order, off_slab, management, colours, limit, batch, shared) in LAYOUTS[X86].items():
        cache = driver.cache(size)
        assert (int(cache["num"]), int(cache["gfporder"]), int(cache["colour"])) == (objects, order, colours)
        assert (int(cache["limit"]), int(cache["batchcount"])) == (limit, batch)
        assert int(cache["slab_size"]) == management
        assert bool(cache["flags"]) == off_slab
        lists = driver.lists(size, 1)
        assert int(lists["free_limit"]) == (1 + 2) * batch + objects
        assert bool(lists["shared"]) == bool(shared)
        if shared:
            assert int(driver.array(size, "shared array of node 1")["limit"]) == shared
        alien = driver.array(size, "alien cache of node 0 for node 1")
        assert int(alien["limit"]) == (12 if limit > 1 else 1)
    serving = {80: 128, 64: 64, 56: 64, 52: 64}
    for size in (512, 1024, 2048, 4096):
        management = LAYOUTS[X86][size][3]
        expected = driver.kernel.cache_address(driver.index(serving[management]))
        assert int(driver.cache(size)["slabp_cache"]) == expected


def test_struct_layouts_are_those_of_the_kernel() -> None:
    structs = SlabDriver().program.structs
    assert structs["slab"].size_bytes == 48
    assert structs["array_cache"].fields["entry"].offset_bytes == 24
    offsets = {name: field.offset_bytes for name, field in structs["kmem_list3"].fields.items()}
    assert offsets == {
        "slabs_partial": 0, "slabs_full": 16, "slabs_free": 32, "free_objects": 48, "free_limit": 56,
        "colour_next": 60, "list_lock": 64, "shared": 72, "alien": 80, "next_reap": 88, "free_touched": 96,
    }  # fmt: skip
