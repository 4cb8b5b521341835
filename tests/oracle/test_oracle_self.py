"""Tests of the oracle itself: worked examples with every count, bad input, damage that check() must see."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from . import Address, Counters, SlabState, Slub, cache_size, expected_counters, run_test

VARIANTS = ("SLUB", "SLUB+", "SLUB-o")


def counted(slub: Slub, action: Callable[[], object]) -> Counters:
    """The counters that `action` changes, and by how much."""
    before = slub.counters
    action()
    after = slub.counters
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


def free_all(slub: Slub, cpu: int, objects: Iterable[int]) -> None:
    for obj in objects:
        slub.free(cpu, obj)


def places(slub: Slub, objects: list[int]) -> list[tuple[int, int]]:
    """Slab number and index of each object."""
    return [(address.slab, address.slot) for address in map(slub.address, objects)]


def listed(slub: Slub, size: int) -> list[int]:
    """Slab numbers on the only node's partial list, the head first."""
    views = [view for view in slub.slabs(size) if view.partial_position is not None]
    return [view.number for view in sorted(views, key=lambda view: view.partial_position or 0)]


# --- worked examples: 1024 bytes on 4K pages, four objects in a slab -----------------------------------


def test_first_allocation() -> None:
    slub = Slub(variant="SLUB", cpus=2)
    made = counted(slub, lambda: slub.alloc(0, 1024))
    assert made == {
        "ALLOC_SLOWPATH": 1,
        "ALLOC_SLAB": 1,
        "slab_lock": 1,
        "locked_ops": 3,  # lock, unlock, nr_slabs
        "page_alloc": 1,
        "pcp_refill": 1,
        "zone_lock": 1,
    }
    assert [int(state) for state in SlabState] == [0, 1, 2]  # empty, partial, full, as the viewer codes them
    (slab,) = slub.slabs()
    assert (slab.inuse, slab.state, slab.cpu) == (4, SlabState.FULL, 0)
    assert (slab.allocated, slab.cpu_freelist, slab.freelist) == ((0,), (1, 2, 3), ())
    slub.check()


@pytest.mark.parametrize(("variant", "locked_ops"), [("SLUB", 5), ("SLUB+", 3)])
def test_replacing_a_full_cpu_slab(variant: str, locked_ops: int) -> None:
    slub = Slub(variant=variant, cpus=2)
    objects = [slub.alloc(0, 1024) for _ in range(4)]
    made = counted(slub, lambda: objects.append(slub.alloc(0, 1024)))
    assert made == {
        "ALLOC_SLOWPATH": 1,
        "ALLOC_SLAB": 1,
        "DEACTIVATE_FULL": 1,
        "alloc_refill_tried": 1,
        "slab_lock": 2,
        "locked_ops": locked_ops,
        "page_alloc": 1,
    }
    assert places(slub, objects) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    slub.check()


def test_local_frees_come_back_last_in_first_out() -> None:
    slub = Slub(cpus=1)
    a, b, c = (slub.alloc(0, 1024) for _ in range(3))
    freed = counted(slub, lambda: free_all(slub, 0, (b, a, c)))
    assert freed == {"FREE_FASTPATH": 3}
    assert slub.slabs()[0].cpu_freelist == (2, 0, 1, 3)
    assert [slub.alloc(0, 1024) for _ in range(3)] == [c, a, b]
    slub.check()


def test_remote_free_to_a_cpu_slab_and_refill() -> None:
    slub = Slub(cpus=2)
    objects = [slub.alloc(0, 1024) for _ in range(4)]
    freed = counted(slub, lambda: free_all(slub, 1, objects[:2]))
    assert freed == {"FREE_SLOWPATH": 2, "FREE_FROZEN": 2, "slab_lock": 2, "locked_ops": 4}
    assert slub.slabs()[0].freelist == (1, 0)
    assert slub.slabs()[0].state == SlabState.PARTIAL
    refilled: list[int] = []
    made = counted(slub, lambda: refilled.append(slub.alloc(0, 1024)))
    assert made == {
        "ALLOC_SLOWPATH": 1,
        "ALLOC_REFILL": 1,
        "alloc_refill_tried": 1,
        "slab_lock": 1,
        "locked_ops": 2,
    }
    refilled.append(slub.alloc(0, 1024))
    assert refilled == [objects[1], objects[0]]
    slub.check()


def test_cpu_slab_emptied_from_afar_stays() -> None:
    slub = Slub(cpus=2)
    objects = [slub.alloc(0, 1024) for _ in range(4)]
    for obj in objects:
        slub.free(1, obj)
    (slab,) = slub.slabs()
    assert (slab.inuse, slab.state, slab.cpu, slab.partial_position) == (0, SlabState.EMPTY, 0, None)
    slub.check()


def test_life_of_a_full_slab_that_is_freed() -> None:
    slub = Slub(variant="SLUB+", cpus=2)
    objects = [slub.alloc(0, 1024) for _ in range(5)]
    first = counted(slub, lambda: slub.free(0, objects[0]))
    assert first == {
        "FREE_SLOWPATH": 1,
        "FREE_ADD_PARTIAL": 1,
        "slab_lock": 1,
        "list_lock": 1,
        "locked_ops": 2,
    }
    assert slub.nr_partial(1024) == [1]
    middle = counted(slub, lambda: free_all(slub, 1, objects[1:3]))
    assert middle == {"FREE_SLOWPATH": 2, "slab_lock": 2, "locked_ops": 2}
    slub.check()
    last = counted(slub, lambda: slub.free(0, objects[3]))
    assert last == {
        "FREE_SLOWPATH": 1,
        "FREE_REMOVE_PARTIAL": 1,
        "FREE_SLAB": 1,
        "slab_lock": 1,
        "list_lock": 1,
        "locked_ops": 3,
        "page_free": 1,
    }
    assert (slub.nr_partial(1024), slub.nr_slabs(1024)) == ([0], [1])
    slub.check()


def test_frees_list_at_the_head_and_the_head_is_taken_first() -> None:
    slub = Slub(cpus=2)
    objects = [slub.alloc(0, 1024) for _ in range(13)]  # slabs 0, 1, 2 full, 3 is the cpu slab
    for slab in (1, 0, 2):
        slub.free(0, objects[4 * slab + 1])
    assert [view.partial_position for view in slub.slabs()] == [1, 2, 0, None]
    taken: list[int] = []
    made = counted(slub, lambda: taken.append(slub.alloc(1, 1024)))
    assert made == {
        "ALLOC_SLOWPATH": 1,
        "ALLOC_FROM_PARTIAL": 1,
        "slab_lock": 1,
        "list_lock": 1,
        "locked_ops": 3,
    }
    taken += [slub.alloc(1, 1024) for _ in range(2)]
    assert places(slub, taken) == [(2, 1), (0, 1), (1, 1)]
    slub.check()


def test_one_object_slabs_never_see_a_list() -> None:
    one = Slub(max_order=0, min_objects=1, cpus=1)
    one.caches[2048].objects = 1  # no kmalloc cache has such slabs; make one
    objects = [one.alloc(0, 2048) for _ in range(3)]
    freed = counted(one, lambda: free_all(one, 0, objects[:2]))
    assert freed == {"FREE_SLOWPATH": 2, "FREE_SLAB": 2, "slab_lock": 2, "locked_ops": 6, "page_free": 2}
    one.check()


def test_large_objects_pass_through() -> None:
    slub = Slub(page_size=4096, cpus=1)
    single = counted(slub, lambda: slub.alloc(0, 4096))
    assert single == {"large_alloc": 1, "page_alloc": 1, "zone_lock": 1, "pcp_refill": 1}
    made: list[int] = []
    double = counted(slub, lambda: made.append(slub.alloc(0, 4097)))
    assert double == {"large_alloc": 1, "page_alloc": 1, "zone_lock": 1}
    assert slub.slabs() == []
    made += [slub.alloc(0, 4096), slub.alloc(0, 64)]
    assert places(slub, made) == [(1, 0), (2, 0), (3, 0)]
    freed = counted(slub, lambda: slub.free(0, made[0]))
    assert freed == {"large_free": 1, "page_free": 1, "zone_lock": 1}
    slub.check()


# --- deactivation ------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_flush_with_local_objects_goes_to_the_head(variant: str) -> None:
    slub = Slub(variant=variant, cpus=2, max_order=1, min_objects=4)
    full = [slub.alloc(0, 1024) for _ in range(5)]
    slub.free(0, full[0])  # slab 0 is listed
    made = counted(slub, lambda: slub.flush(0, 1024))  # slab 1, with objects 1, 2, 3 local
    assert made == {
        "CPUSLAB_FLUSH": 1,
        "DEACTIVATE_TO_HEAD": 1,
        "slab_lock": 1,
        "list_lock": 1,
        "locked_ops": 3 if variant == "SLUB" else 2,
    }
    assert listed(slub, 1024) == [1, 0]
    assert slub.slabs()[1].freelist == (3, 2, 1)  # moved one by one, so reversed
    slub.check()


@pytest.mark.parametrize(
    ("variant", "counter", "order"),
    [("SLUB", "DEACTIVATE_TO_HEAD", [1, 0]), ("SLUB+", "DEACTIVATE_TO_TAIL", [0, 1])],
)
def test_flush_with_remote_frees_only(variant: str, counter: str, order: list[int]) -> None:
    slub = Slub(variant=variant, cpus=2)
    objects = [slub.alloc(0, 1024) for _ in range(8)]
    slub.free(0, objects[0])  # slab 0 is listed
    slub.free(1, objects[5])  # into the cpu slab of cpu 0, whose own list is empty
    made = counted(slub, lambda: slub.flush(0, 1024))
    assert made[counter] == made["DEACTIVATE_REMOTE_FREES"] == made["CPUSLAB_FLUSH"] == 1
    assert listed(slub, 1024) == order
    slub.check()


def test_flush_of_full_slab_lists_nothing() -> None:
    slub = Slub(cpus=1)
    for _ in range(4):
        slub.alloc(0, 1024)
    made = counted(slub, lambda: slub.flush(0, 1024))
    assert made == {"CPUSLAB_FLUSH": 1, "DEACTIVATE_FULL": 1, "slab_lock": 1, "locked_ops": 2}
    assert counted(slub, lambda: slub.flush(0, 1024)) == {}  # nothing to flush
    slub.check()


def test_two_empty_slabs_are_kept_at_the_tail_the_third_goes_back() -> None:
    slub = Slub(variant="SLUB", cpus=4)
    for cpu in range(3):
        slub.free(cpu, slub.alloc(cpu, 1024))
    kept = counted(slub, lambda: slub.flush(0, 1024))
    assert kept == {
        "CPUSLAB_FLUSH": 1,
        "DEACTIVATE_EMPTY": 1,
        "deactivate_empty_kept": 1,
        "slab_lock": 1,
        "list_lock": 1,
        "locked_ops": 3,
    }
    slub.flush(1, 1024)
    assert listed(slub, 1024) == [0, 1]
    assert {view.state for view in slub.slabs() if view.cpu is None} == {SlabState.EMPTY}
    gone = counted(slub, lambda: slub.flush(2, 1024))
    assert gone == {
        "CPUSLAB_FLUSH": 1,
        "DEACTIVATE_EMPTY": 1,
        "FREE_SLAB": 1,
        "slab_lock": 1,
        "locked_ops": 3,
        "page_free": 1,
    }
    assert slub.nr_slabs(1024) == [2]
    slub.check()


def test_last_free_gives_a_listed_slab_back_however_few_there_are() -> None:
    slub = Slub(cpus=2)
    obj = slub.alloc(0, 1024)
    slub.flush(0, 1024)
    assert slub.nr_partial(1024) == [1]
    assert counted(slub, lambda: slub.free(1, obj))["FREE_REMOVE_PARTIAL"] == 1
    assert slub.slabs() == []
    slub.check()


# --- nodes -----------------------------------------------------------------------------------


def test_slabs_stay_with_their_node() -> None:
    slub = Slub(page_size=16384, cpus=8, nodes=4)
    objects = [slub.alloc(cpu, 8192) for cpu in range(8) for _ in range(9)]  # one full, one cpu slab each
    assert slub.nr_slabs(8192) == [4, 4, 4, 4]
    slub.free(0, objects[9 * 7])  # first object of cpu 7: node 3 lists it
    assert slub.nr_partial(8192) == [0, 0, 0, 1]
    slub.check()


@pytest.mark.parametrize("variant", ["SLUB", "SLUB+"])
def test_node_mismatch_deactivates(variant: str) -> None:
    slub = Slub(variant=variant, cpus=2, nodes=2)
    slub.alloc(0, 1024)
    made = counted(slub, lambda: slub.alloc(0, 1024, node=1))
    assert made == {
        "ALLOC_SLOWPATH": 1,
        "ALLOC_SLAB": 1,
        "DEACTIVATE_TO_HEAD": 1,
        "slab_lock": 2,
        "list_lock": 1,
        "locked_ops": 6 if variant == "SLUB" else 4,
        "page_alloc": 1,
        "pcp_refill": 1,  # cpu 0 has a list of its own for node 1's pages
        "zone_lock": 1,
    }
    assert slub.nr_partial(1024) == [1, 0]
    assert [view.node for view in slub.slabs()] == [0, 1]
    slub.check()


def test_remote_partial_slabs_are_taken_only_when_asked_and_only_above_two() -> None:
    answers: list[bool] = []

    def search_remote() -> bool:
        answers.append(wanted)
        return wanted

    slub = Slub(cpus=2, nodes=2, search_remote=search_remote)
    wanted = False
    objects = [slub.alloc(1, 1024) for _ in range(13)]  # node 1: three full slabs and a cpu slab
    for slab in range(2):
        slub.free(1, objects[4 * slab])
    wanted = True
    obj = slub.alloc(0, 1024)
    assert slub.address(obj).slab == 4  # two are not enough: a new slab
    slub.free(1, objects[8])
    assert slub.nr_partial(1024) == [0, 3]
    for _ in range(3):
        slub.alloc(0, 1024)
    taken = slub.alloc(0, 1024)
    assert slub.address(taken) == Address(2, 0)  # the head of node 1's list
    assert slub.slabs()[2].cpu == 0
    assert slub.nr_partial(1024) == [0, 2]
    assert len(answers) == 6  # one for each new slab, one for this
    slub.check()


# --- the window with interrupts on -------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_window_leaves_nothing_when_it_does_nothing(variant: str) -> None:
    slub = Slub(variant=variant, cpus=1)
    calls: list[int] = []
    obj = slub.alloc(0, 1024, in_window=lambda: calls.append(1))
    assert calls == [1]
    assert slub.address(obj) == Address(0, 0)
    slub.check()


def test_window_slub_recovers_when_the_other_slab_has_no_remote_frees() -> None:
    slub = Slub(variant="SLUB", cpus=2)
    inner: list[int] = []
    obj = slub.alloc(0, 1024, in_window=lambda: inner.append(slub.alloc(0, 1024)))
    slub.check()
    assert slub.address(inner[0]) == Address(1, 0)
    # slab 0 was dropped; slab 1 was put on the partial list with its three objects and taken from it
    assert slub.address(obj) == Address(1, 3)
    n = slub.counters
    assert (n["new_slab_dropped"], n["alloc_retried"], n["DEACTIVATE_TO_HEAD"]) == (1, 1, 1)
    assert (n["ALLOC_SLAB"], n["ALLOC_FROM_PARTIAL"], n["ALLOC_SLOWPATH"]) == (2, 1, 2)


def test_window_slub_plus_takes_the_end_marker_for_an_object() -> None:
    slub = Slub(variant="SLUB+", cpus=2)
    with pytest.raises(RuntimeError, match="end marker"):
        slub.alloc(0, 1024, in_window=lambda: slub.alloc(0, 1024))


@pytest.mark.parametrize("variant", VARIANTS)
def test_window_with_remote_frees_loses_the_cpu_freelist(variant: str) -> None:
    slub = Slub(variant=variant, cpus=2, max_order=1, min_objects=4)

    def interrupt() -> None:
        a = slub.alloc(0, 1024)
        slub.free(1, a)  # object 0 on the slab's own freelist, 1, 2, 3 on the CPU's

    obj = slub.alloc(0, 1024, in_window=interrupt)
    assert slub.address(obj) == Address(1, 0)
    with pytest.raises(AssertionError, match=r"objects \[1, 2, 3\] are lost"):
        slub.check()


def test_window_with_a_slab_of_the_wrong_node_flushes_it() -> None:
    slub = Slub(variant="SLUB+", cpus=2, nodes=2)
    inner: list[int] = []
    obj = slub.alloc(0, 1024, node=1, in_window=lambda: inner.append(slub.alloc(0, 1024, node=0)))
    slub.check()
    assert [(view.number, view.node, view.cpu) for view in slub.slabs()] == [(0, 1, 0), (1, 0, None)]
    assert (slub.address(obj), slub.address(inner[0])) == (Address(0, 0), Address(1, 0))
    assert slub.counters["CPUSLAB_FLUSH"] == slub.counters["DEACTIVATE_TO_HEAD"] == 1


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: Slub(variant="SLAB"), "variant 'SLAB'"),
        (lambda: Slub(page_size=5000), "page size 5000"),
        (lambda: Slub(cpus=2, nodes=3), "nodes"),
        (lambda: Slub(max_order=11), "max_order"),
        (lambda: Slub(pcp_batch=8, pcp_high=8), "pcp batch"),
        (lambda: Slub().alloc(8, 64), "cpu 8"),
        (lambda: Slub().alloc(0, 64, node=1), "node 1"),
        (lambda: Slub().alloc(0, 0), "size 0"),
        (lambda: Slub().alloc(0, 1 << 23), "largest block"),
        (lambda: Slub().free(0, 5), "not allocated"),
        (lambda: Slub().flush(0, 4096), "no cache"),
        (lambda: cache_size(5000, 8), "page size 5000"),
        (lambda: Slub().alloc(0, (1 << 22) + 1), "largest block is 4194304 bytes"),
        (lambda: Slub(cpus=2).flush(-1, 64), "cpu -1"),
        (lambda: Slub(cpus=2).free(2, 0), "cpu 2"),
        (lambda: Slub().address(0), "object 0"),
        (lambda: run_test("G", 8, 1), "test 'G'"),
        (lambda: run_test("F", 8, 1, cpus=1), "at least 2"),
        (lambda: expected_counters("A", 8, -1), "-1 operations"),
        (lambda: expected_counters("A", 8, 1, cpus=2, nodes=3), "nodes"),
    ],
)
def test_bad_input_is_one_clear_error(action: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        action()


@pytest.mark.parametrize("size", [64, 8192])
def test_double_free(size: int) -> None:
    slub = Slub(cpus=1)
    obj = slub.alloc(0, size)
    slub.free(0, obj)
    with pytest.raises(ValueError, match="freed twice"):
        slub.free(0, obj)


# --- check() notices damage --------------------------------------------------------------------------


def damaged() -> Slub:
    """A state with a full, a listed and a cpu slab, on which each damage below is done."""
    slub = Slub(cpus=2)
    objects = [slub.alloc(0, 1024) for _ in range(10)]  # slabs 0, 1 and the cpu slab 2
    slub.alloc(0, 4096)
    slub.free(0, objects[5])
    slub.check()
    return slub


DAMAGE: dict[str, tuple[Callable[[Slub], object], str]] = {
    "object lost": (lambda s: s.caches[1024].cpu_slabs[0].freelist.pop(), "lost"),
    "object twice on a list": (lambda s: s.caches[1024].slabs[1].freelist.append(1), "two places"),
    "object free and in use": (lambda s: s.caches[1024].slabs[0].freelist.append(0), "two places"),
    "inuse": (lambda s: setattr(s.caches[1024].slabs[0], "inuse", 3), "inuse"),
    "frozen": (lambda s: setattr(s.caches[1024].slabs[2], "frozen", False), "frozen"),
    "two owners": (
        lambda s: setattr(s.caches[1024].cpu_slabs[1], "slab", s.caches[1024].slabs[2]),
        "cpu slab of cpus",
    ),
    "full slab listed": (
        lambda s: s.caches[1024].nodes[0].partial.append(s.caches[1024].slabs[0]),
        "partial lists",
    ),
    "partial slab not listed": (lambda s: s.caches[1024].nodes[0].partial.clear(), "partial lists"),
    "nr_partial": (lambda s: setattr(s.caches[1024].nodes[0], "nr_partial", 0), "nr_partial"),
    "nr_slabs": (lambda s: setattr(s.caches[1024].nodes[0], "nr_slabs", 4), "nr_slabs"),
    "node of cpu slab": (lambda s: setattr(s.caches[1024].cpu_slabs[0], "node", 1), "node 1"),
    "objects without slab": (lambda s: s.caches[1024].cpu_slabs[1].freelist.append(0), "without a cpu slab"),
    "page freed under a slab": (lambda s: s.pages.free(0, s.caches[1024].slabs[0].frame), "pages in use"),
    "page twice": (lambda s: s.pages.zones[0].give(s.caches[1024].slabs[0].frame, 0), "two places"),
    "id misplaced": (lambda s: s.objects.update({3: s.objects[2]}), "object 3 is misplaced"),
    "large object lost": (lambda s: s.large.clear(), "pages in use"),
    "slab on the wrong node": (lambda s: setattr(s.caches[1024].slabs[0], "node", 1), "nr_slabs"),
    "page_alloc": (lambda s: s.page_counters.update(page_alloc=9), "page_alloc"),
    "large_alloc": (lambda s: s.page_counters.update(large_alloc=9), "large_alloc"),
    "long page list": (lambda s: s.pages.pcp[0, 0].extend(range(900, 1100)), "per-cpu list"),
    "id lost": (lambda s: s.objects.pop(3), "ids of objects"),
    **{
        name: (lambda s, name=name: s.caches[1024].counters.update({name: 40}), "by the counters")  # type: ignore[misc]
        for name in (
            "ALLOC_FASTPATH",
            "ALLOC_SLOWPATH",
            "ALLOC_SLAB",
            "ALLOC_REFILL",
            "ALLOC_FROM_PARTIAL",
            "FREE_FASTPATH",
            "FREE_SLOWPATH",
            "FREE_SLAB",
            "FREE_ADD_PARTIAL",
            "FREE_REMOVE_PARTIAL",
            "DEACTIVATE_FULL",
            "DEACTIVATE_EMPTY",
            "DEACTIVATE_TO_HEAD",
            "DEACTIVATE_TO_TAIL",
            "list_lock",
            "slab_lock",
        )
    },
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_check_notices(kind: str) -> None:
    damage, message = DAMAGE[kind]
    slub = damaged()
    damage(slub)
    with pytest.raises(AssertionError, match=message):
        slub.check()
