"""The SLAB oracle checked against closed formulas, and against what can be worked out by hand."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from .slab import GEOMETRY, QUEUES, REAP_TICKS, Object, Slab24

#: list_lock taken for the cache itself, and slabs made, in 10,000 allocations on one CPU from nothing.
LOCKS_AND_GROWS = {
    4096: {
        32: (450, 90), 64: (681, 170), 128: (1337, 334), 256: (2668, 667), 512: (5000, 1250),
        1024: (10000, 2500), 2048: (20000, 5000), 4096: (40000, 10000),
    },
    16384: {
        64: (294, 42), 1024: (2668, 667), 2048: (5000, 1250), 4096: (10000, 2500), 16384: (40000, 10000),
    },
}  # fmt: skip


def places(oracle: Slab24) -> Counter[Object]:
    """How often each object is on a chain or in an array."""
    found: Counter[Object] = Counter()
    for cache in oracle.caches.values():
        arrays = [*cache.cpus]
        for lists in cache.nodes:
            arrays += [lists.shared] if lists.shared else []
            arrays += lists.alien.values()
            for slab in lists.slabs:
                found.update(Object(slab.number, index) for index in slab.chain)
        for array in arrays:
            assert len(array.entries) <= array.limit
            found.update(array.entries)
    return found


def assert_sound(oracle: Slab24, live: set[Object]) -> None:
    """Every object of every slab is in one place: live, structure of a slab, on a chain or in an array."""
    found = places(oracle)
    found.update(live)
    found.update(slab.management for slab, _ in oracle.slabs.values() if slab.management is not None)
    expected = {Object(n, i) for n, (slab, _) in oracle.slabs.items() for i in range(slab.objects)}
    assert set(found) == expected
    assert set(found.values()) <= {1}
    for slab, cache in oracle.slabs.values():
        lists = cache.nodes[slab.node]
        right = lists.free if slab.inuse == 0 else lists.partial if slab.chain else lists.full
        assert [slab in which for which in (lists.free, lists.partial, lists.full)].count(True) == 1
        assert slab in right


@pytest.mark.parametrize(
    ("page_size", "size", "expected"),
    [(page, size, row) for page, rows in LOCKS_AND_GROWS.items() for size, row in rows.items()],
)
def test_locks_and_grows_of_ten_thousand_allocations(
    page_size: int, size: int, expected: tuple[int, int]
) -> None:
    oracle = Slab24(page_size)
    for _ in range(10000):
        oracle.alloc(0, size)
    counted = oracle.caches[size].counters
    assert (counted["LIST_LOCK"], counted["GROWN"]) == expected
    objects = GEOMETRY[page_size][size][0]
    assert counted["GROWN"] == -(-10000 // objects)
    refills = counted["REFILL_SLABS"]
    assert counted["LIST_LOCK"] == refills + 3 * counted["GROWN"]
    if objects <= QUEUES[page_size][size][1] and objects <= 16:
        assert refills == counted["GROWN"]  # each refill empties one slab


def test_first_batch_is_16_and_objects_come_newest_first() -> None:
    oracle = Slab24(cpus=1)
    got = [oracle.alloc(0, 32).index for _ in range(17)]
    assert got == [*range(15, -1, -1), 75]
    assert len(oracle.caches[32].cpus[0].entries) == 59


def test_a_full_array_flushes_its_oldest_batch_to_the_shared_array() -> None:
    oracle = Slab24(cpus=2)
    things = [oracle.alloc(0, 32) for _ in range(200)]
    for thing in things:
        oracle.free(1, thing)
    shared = oracle.caches[32].nodes[0].shared
    assert shared is not None
    assert shared.entries == things[:120]
    assert oracle.caches[32].cpus[1].entries == things[120:]
    taken = oracle.alloc(0, 32)  # CPU 0 has objects of its own still
    assert taken not in things
    oracle.caches[32].cpus[0].entries.clear()
    assert oracle.alloc(0, 32) == things[119]
    assert shared.entries == things[:60]


def test_emptied_slabs_beyond_the_limit_are_given_back() -> None:
    oracle = Slab24(cpus=1)
    things = [oracle.alloc(0, 4096) for _ in range(200)]
    for thing in things:
        oracle.free(0, thing)
    cache = oracle.caches[4096]
    lists = cache.nodes[0]
    # (1 + 1 CPU) * batch + 1 object; 24 and less stay in the array, nothing is shared on one CPU.
    assert lists.free_limit == 25
    assert lists.free_objects == 25
    assert cache.counters["DESTROYED"] == cache.counters["GROWN"] - 25 - len(cache.cpus[0].entries)
    assert_sound(oracle, set())


def test_remote_frees_are_collected_by_twelves() -> None:
    oracle = Slab24(cpus=4, nodes=2)
    things = [oracle.alloc(0, 256) for _ in range(25)]
    for thing in things:
        oracle.free(3, thing)
    alien = oracle.caches[256].nodes[1].alien[0]
    shared = oracle.caches[256].nodes[0].shared
    assert alien.entries == things[24:]
    assert shared is not None
    assert shared.entries == things[:24]
    assert oracle.counters["ACOVERFLOW"] == 2


def test_the_reaper_takes_a_fifth_of_the_limit_of_an_idle_array() -> None:
    oracle = Slab24(cpus=1)
    things = [oracle.alloc(0, 32) for _ in range(60)]
    for thing in things:
        oracle.free(0, thing)
    array = oracle.caches[32].cpus[0]
    before = list(array.entries)
    oracle.reap(0)
    assert array.entries == before
    oracle.reap(0)
    assert array.entries == before[24:]


steps = st.lists(
    st.tuples(
        st.sampled_from(["alloc", "free", "reap"]),
        st.integers(0, 3),
        st.sampled_from([32, 256, 512, 2048, 4096]),
        st.integers(1, 90),
        st.one_of(st.none(), st.integers(0, 1)),
    ),
    max_size=25,
)


@pytest.mark.parametrize("alien_caches", [True, False])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(todo=steps)
def test_every_object_is_in_one_place(
    alien_caches: bool, todo: list[tuple[str, int, int, int, int | None]]
) -> None:
    oracle = Slab24(cpus=4, nodes=2, alien_caches=alien_caches)
    live: list[Object] = []
    for what, cpu, size, times, node in todo:
        for i in range(times):
            if what == "alloc":
                live.append(oracle.alloc(cpu, size, node))
            elif what == "free" and live:
                oracle.free(cpu, live.pop(i * 7 % len(live)))
        if what == "reap":
            oracle.jiffies += REAP_TICKS
            oracle.reap(cpu)
        assert len(live) == len(set(live))
        assert_sound(oracle, set(live))
