"""The state after boot, and what a kernel does first."""

from __future__ import annotations

import numpy as np
import pytest

from slubviz.hw.isa import Status
from slubviz.model.errors import UserError
from slubviz.model.invariants import check, check_page_allocator
from slubviz.model.requests import SessionSpec, compile_kernel, session_job
from slubviz.model.session import Session
from slubviz.model.slub_view import cpu_slabs, read_cache
from tests.model.driver import Driver
from tests.model.helpers import session


def test_a_booted_machine_breaks_no_rule() -> None:
    made = session("D", (64, 4096), 100)
    assert check_page_allocator(made.booted, slab_pages=0) == []
    for index in range(1, 12):
        assert len(read_cache(made.booted, index).table.page_frame) == 0


def test_structures_have_the_sizes_of_the_kernel() -> None:
    structs = session("A", (64,), 10).booted.program.structs
    assert structs["page"].size_bytes == 56
    assert {name: field.offset_bytes for name, field in structs["page"].fields.items()} == {
        "flags": 0, "_count": 8, "inuse": 12, "private": 16, "slab": 16, "first_page": 16,
        "mapping": 24, "end": 24,
        "index": 32, "freelist": 32, "lru": 40,
    }  # fmt: skip
    assert structs["kmem_cache_cpu"].size_bytes == 32
    assert structs["kmem_cache_node"].size_bytes == 40
    # The zone's lock shares a cache line with the free lists of orders 0 and 1.
    fields = structs["zone"].fields
    assert fields["lock"].offset_bytes // 64 == (fields["free_area"].offset_bytes + 47) // 64


def test_freelist_of_a_new_slab_ascends() -> None:
    made = session("A", (512,), 3)
    assert made.machine.run() == Status.HALTED
    objects = made.booted.memory.global_address("objects", 0)
    kept = [made.machine.read(objects + 8 * i) for i in range(3)]
    assert kept == [kept[0], kept[0] + 512, kept[0] + 1024]
    assert kept[0] % 4096 == 0
    free = int(cpu_slabs(made.booted, 9)[0]["freelist"])
    chain = []
    while free and not free & 1:
        chain.append(free)
        free = made.machine.read(free)
    assert chain == [kept[0] + 512 * i for i in range(3, 8)]


def test_first_allocation_takes_one_batch_of_pages() -> None:
    made = session("A", (64,), 1)
    made.run_to_end()
    counters = made.results[0].counters
    assert (counters["PCP_REFILL"], counters["ZONE_LOCK"], counters["PAGE_ALLOC"]) == (1, 1, 1)
    pageset = made.booted.memory.one(made.booted.memory.global_address("pagesets", 0), "per_cpu_pageset")
    assert int(pageset["pcp"]["batch"]) == 31
    assert int(pageset["pcp"]["high"]) == 186
    assert check(made.booted, expected_allocated=0) == []


@pytest.mark.parametrize("min_partial", [0, 1, 2, 5])
@pytest.mark.parametrize("kernel", ["slub", "slub+"])
def test_min_partial_slabs_are_kept_when_cpus_give_up_empty_slabs(kernel: str, min_partial: int) -> None:
    driver = Driver(kernel, 8, 2, MIN_PARTIAL=min_partial)
    for cpu in range(4):  # each CPU of node 0 has a slab of its own without an object in use
        driver.free(cpu, driver.alloc(cpu, 1024))
    kept = []
    for cpu in range(4):
        driver.alloc(cpu, 1024, 1)  # a slab of the other node takes its place
        view = read_cache(driver.kernel, 10)
        kept.append(int(view.nr_partial[0]))
        assert view.nr_slabs[0] == 3 - cpu + kept[-1]
    assert kept == [min(cpu + 1, min_partial) for cpu in range(4)]
    counters = driver.counters()
    assert counters["DEACTIVATE_EMPTY"] == 4
    assert counters["FREE_SLAB"] == 4 - kept[-1]
    assert check(driver.kernel, expected_allocated=4) == []


@pytest.mark.parametrize("min_partial", [0, 1, 2, 5])
def test_a_node_that_is_searched_from_afar_keeps_min_partial_slabs(min_partial: int) -> None:
    """get_any_partial takes slabs of another node only from what it has beyond MIN_PARTIAL."""
    driver = Driver("slub", 8, 2, MIN_PARTIAL=min_partial)
    driver.memory.one(driver.kernel.cache_address(10), "kmem_cache")["defrag_ratio"] = 1024  # always looks
    objects = [driver.alloc(4, 1024) for _ in range(4 * 4 + 1)]
    for i in range(0, 4 * 4, 4):
        driver.free(4, objects[i])
    left = []
    for _ in range(6):  # one free object in each slab of node 1
        driver.alloc(0, 1024)
        left.append(int(read_cache(driver.kernel, 10).nr_partial[1]))
    assert left == [max(4 - taken, min(4, min_partial)) for taken in range(1, 7)]


def free_blocks(driver: Driver) -> list[int]:
    """Free blocks of each order, with nothing on the per-CPU lists."""
    for cpu in range(driver.machine.spec.cpus):
        driver.run(cpu, "drain_local_pages")
    zone = driver.memory.one(driver.memory.global_address("zones", 0), "zone")
    return [int(area["nr_free"]) for area in zone["free_area"]]


def test_blocks_that_were_split_are_merged_again() -> None:
    driver = Driver("slub", 2)
    before = free_blocks(driver)
    objects = [driver.alloc(i % 2, size) for i in range(40) for size in (4096, 8192, 16384)]
    assert free_blocks(driver) != before
    for i in (*range(1, len(objects), 2), *range(0, len(objects), 2)):
        driver.free(i % 3 % 2, objects[i])
    assert free_blocks(driver) == before
    assert check(driver.kernel, expected_allocated=0) == []


def free_frames(made: Session) -> np.ndarray:
    pages = made.booted.memory.global_structs("mem_map")
    return np.flatnonzero(pages["flags"].astype(np.int64) >> made.booted.program.constants["PG_buddy"] & 1)


def test_the_seed_decides_which_memory_is_fragmented() -> None:
    one, again, other = (free_frames(session("D", (2048,), 4000, seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_boot_parameters_change_the_slabs() -> None:
    made = session("A", (1024,), 40, slub_max_order=3, slub_min_objects=20)
    made.run_to_end()
    assert made.results[0].counters["ALLOC_SLAB"] == 2  # 32 objects in a slab of order 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slub_max_order": 11}, "slub_max_order=11"),
        ({"slub_min_order": 2, "slub_max_order": 1}, "0 <= min <= max"),
        ({"slub_min_objects": 0}, "slub_min_objects=0"),
        ({"NO_SUCH": 1}, "NO_SUCH"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        compile_kernel(session_job(SessionSpec("e5345_8p", "slub", "A", (64,), 10, 1, options=options)))
    assert "\n" not in str(caught.value)
