"""SLAB runs the tests of the mail: lock and path counts exactly as the oracle says, addresses, equal rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.invariants import check
from slubviz.model.machines import load_machine
from tests.model.slab_driver import SlabDriver, small_machine
from tests.model.slab_pair import pair
from tests.oracle.slab import Object, Slab24

BASE = load_machine("e5345_8p")
LARGE_PAGES = replace(BASE, page_size_bytes=16384, line_bytes=128)
#: list_lock taken for the size's own cache, and slabs made, in 10,000 allocations on an idle machine.
LOCKS_AND_GROWS = {
    32: (450, 90),
    64: (681, 170),
    128: (1337, 334),
    256: (2668, 667),
    512: (5000, 1250),
    1024: (10000, 2500),
    2048: (20000, 5000),
    4096: (40000, 10000),
}


@pytest.mark.parametrize("size", LOCKS_AND_GROWS)
def test_locks_of_ten_thousand_allocations(size: int) -> None:
    oracle = Slab24()
    for _ in range(10000):
        oracle.alloc(0, size)
    own = oracle.caches[size].counters
    assert (own["LIST_LOCK"], own["GROWN"]) == LOCKS_AND_GROWS[size]
    driver = SlabDriver(BASE, 10000)
    driver.run(0, "test_alloc", size, 10000)
    expected = oracle.counters
    assert driver.counters() == {name: expected[name] for name in driver.counters()}


@pytest.mark.parametrize(
    ("machine", "page_size", "sizes"),
    [(BASE, 4096, (8, 64, 192, 512, 2048, 8192)), (LARGE_PAGES, 16384, (32, 128, 1024, 2048, 8192, 32768))],
)
def test_counters_of_tests_a_b_and_c(machine: MachineSpec, page_size: int, sizes: tuple[int, ...]) -> None:
    driver, oracle = SlabDriver(machine, 700), Slab24(page_size)
    for size in sizes:
        driver.run(0, "test_alloc", size, 700)
        kept: list[Object] = [oracle.alloc(0, size) for _ in range(700)]
        assert driver.counters() == {name: oracle.counters[name] for name in driver.counters()}
        driver.run(0, "test_free", 0, 1, 700)
        for thing in kept:
            oracle.free(0, thing)
        assert driver.counters() == {name: oracle.counters[name] for name in driver.counters()}
        driver.run(0, "test_pairs", size, 300)
        for _ in range(300):
            oracle.free(0, oracle.alloc(0, size))
        assert driver.counters() == {name: oracle.counters[name] for name in driver.counters()}
        assert check(driver.kernel, expected_allocated=0) == []


def test_rows_8_16_and_32_are_the_same_cache() -> None:
    """The same operations from the same state take the same time, whatever was asked for."""
    ends = []
    for size in (8, 16, 32):
        driver = SlabDriver(small_machine(1))
        driver.run(0, "test_alloc", size, 60)
        ends.append((driver.machine.clock_millicycles, driver.machine.trace_hash))
    assert len(set(ends)) == 1


@pytest.mark.parametrize(("size", "batch"), [(32, 60), (256, 15), (1024, 4)])
def test_addresses_descend_within_a_batch_of_one_slab(size: int, batch: int) -> None:
    driver = SlabDriver()
    driver.array(size, "CPU 0")["touched"] = 1  # else the first batch is a short one
    addresses = [driver.alloc(0, size) for _ in range(batch)]
    assert addresses == [addresses[0] - size * i for i in range(batch)]


def test_the_first_refill_is_short_and_free_slabs_are_used_in_order_of_age() -> None:
    driver = SlabDriver()
    first = [driver.alloc(0, 32) for _ in range(16)]
    assert len(driver.view(32).arrays[0].entries) == 0
    assert first == sorted(first, reverse=True)
    driver.alloc(0, 32)
    assert len(driver.view(32).arrays[0].entries) == 59


def test_every_path_is_taken_beside_the_oracle() -> None:
    """One long run that counts everything that can be counted."""
    both = pair(4, 2)
    for size, times in ((2048, 130), (256, 60)):
        for cpu in (0, 1, 2):
            for _ in range(times):
                both.alloc(cpu, size, 1 if cpu == 1 else None)
        both.compare()
    for cpu in (0, 2, 1, 3) * 3:
        for pick in range(50):
            if both.live:
                both.free(cpu, 7 * pick)
        both.compare()
        both.reap(cpu, 700)
        both.compare()
    while both.live:
        both.free(0, 0)
    both.compare()
    for _ in range(60):
        both.alloc(0, 2048)
    for _ in range(12):
        for cpu in range(4):
            both.reap(cpu, 1001)
    both.compare()
    assert all(count > 0 for count in both.driver.counters().values()), both.driver.counters()
