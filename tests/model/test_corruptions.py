"""Every invariant is shown to bite: a good state, one thing in memory changed, one complaint."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from slubviz.hw import layout as L
from slubviz.model.invariants import check
from slubviz.model.page_lists import list_frames
from slubviz.model.slub_view import node_addresses
from tests.model.driver import PAGE_SHIFT, Driver

SIZE = 1024  # four objects in a slab of one page
KERNELS = ("slub", "slub+")


@dataclass
class State:
    """A good state on two nodes with two CPUs each.

    CPU 0 has a cpu slab with two free objects and one that CPU 1 freed; CPU 1 has one with three free
    objects; CPU 2, on node 1, has an exhausted one; CPU 3 has none.  Two slabs are on node 0's partial list.
    """

    driver: Driver
    allocated: int
    first: int  #: an object of the first slab on the partial list

    @property
    def cpus(self) -> list[np.void]:
        return [self.driver.cpu_slab(cpu, SIZE) for cpu in range(4)]

    def last_link(self, head: int) -> int:
        """Address of the link that holds a freelist's end."""
        return self.driver.chain(head)[-1]

    def end(self, cpu: int) -> int:
        """What must end a CPU's freelist."""
        return self.driver.machine.read(self.last_link(int(self.cpus[cpu]["freelist"])))

    def partial(self) -> np.void:
        """The page of the first slab on node 0's partial list."""
        return self.driver.page(self.first)

    def node(self) -> np.void:
        """The kmem_cache_node of node 0."""
        return self.driver.memory.one(node_addresses(self.driver.kernel, 10)[0], "kmem_cache_node")


def good_state(kernel: str) -> State:
    driver = Driver(kernel, 4, 2)
    objects = [driver.alloc(0, SIZE) for _ in range(10)]  # two full slabs and half of a third
    held = [driver.alloc(1, SIZE), *(driver.alloc(2, SIZE) for _ in range(4))]
    freed = (0, 4, 5, 8)  # two to the first full slab's list and so on; the last to CPU 0's frozen slab
    for i in freed:
        driver.free(1, objects[i])
    state = State(driver, 10 + len(held) - len(freed), objects[4])
    assert check(driver.kernel, expected_allocated=state.allocated) == []
    return state


Corruption = Callable[[State], None]
CORRUPTIONS: dict[str, tuple[Corruption, str]] = {}
PATCHED_ONLY: set[str] = set()


def corruption(message: str, *, patched_only: bool = False) -> Callable[[Corruption], Corruption]:
    def add(change: Corruption) -> Corruption:
        CORRUPTIONS[change.__name__] = (change, message)
        if patched_only:
            PATCHED_ONLY.add(change.__name__)
        return change

    return add


# --- freelists -------------------------------------------------------------------------------------


def set_last_link(state: State, head: int, value: int) -> None:
    state.driver.machine.write(state.last_link(head), value)


@corruption("cpu freelist that does not end in the slab's own end", patched_only=True)
def cpu_chain_ends_in_null(state: State) -> None:
    set_last_link(state, int(state.cpus[0]["freelist"]), 0)


@corruption("cpu freelist that does not end in the slab's own end")
def cpu_chain_ends_in_another_slabs_marker(state: State) -> None:
    set_last_link(state, int(state.cpus[0]["freelist"]), int(state.cpus[1]["freelist"]) & ~4095 | 1)


@corruption("cpu freelist that does not end in the slab's own end")
def cpu_chain_ends_in_five(state: State) -> None:
    set_last_link(state, int(state.cpus[0]["freelist"]), 5)


@corruption("has a freelist that does not end in the slab's own end", patched_only=True)
def own_chain_ends_in_null(state: State) -> None:
    set_last_link(state, int(state.partial()["freelist"]), 0)


@corruption("has a freelist that does not end in the slab's own end")
def own_chain_ends_in_another_slabs_marker(state: State) -> None:
    set_last_link(state, int(state.partial()["freelist"]), int(state.cpus[1]["freelist"]) & ~4095 | 1)


@corruption("has a freelist that does not end in the slab's own end")
def own_chain_ends_in_five(state: State) -> None:
    set_last_link(state, int(state.partial()["freelist"]), 5)


@corruption("cpu freelist that does not end in the slab's own end")
def exhausted_cpu_freelist_has_another_slabs_marker(state: State) -> None:
    state.cpus[2]["freelist"] = int(state.cpus[1]["freelist"]) & ~4095 | 1


@corruption("cpu freelist that leads out of the slab")
def cpu_chain_leads_to_another_slab(state: State) -> None:
    set_last_link(state, int(state.cpus[0]["freelist"]), state.first)


@corruption("has a freelist that leads out of the slab or is misaligned")
def own_chain_leads_between_objects(state: State) -> None:
    state.partial()["freelist"] = int(state.partial()["freelist"]) + 8


@corruption("cpu freelist that holds an object twice")
def cpu_chain_is_a_circle(state: State) -> None:
    set_last_link(state, int(state.cpus[0]["freelist"]), int(state.cpus[0]["freelist"]))


@corruption("cpu freelist that holds an object twice, or one that another list holds")
def an_object_is_on_both_lists(state: State) -> None:
    own = int(state.driver.page(int(state.cpus[0]["freelist"]))["freelist"])
    set_last_link(state, int(state.cpus[0]["freelist"]), own)


@corruption("objects are handed out")
def cpu_freelist_loses_an_object(state: State) -> None:
    state.cpus[0]["freelist"] = state.driver.machine.read(int(state.cpus[0]["freelist"]))


@corruption("use count that does not match")
def inuse_is_one_too_many(state: State) -> None:
    state.partial()["inuse"] += 1


@corruption("use count that does not match")
def own_freelist_loses_an_object(state: State) -> None:
    state.partial()["freelist"] = state.driver.machine.read(int(state.partial()["freelist"]))


# --- end markers --------------------------------------------------------------------------------------


@corruption("has the same end marker as another slab", patched_only=True)
def two_slabs_have_one_end_marker(state: State) -> None:
    state.partial()["end"] = state.end(0)


@corruption("has no end marker", patched_only=True)
def end_marker_without_a_mark(state: State) -> None:
    state.partial()["end"] = 0


# --- per-CPU structures -----------------------------------------------------------------------------------


@corruption("CPU 1 has the same cpu slab as CPU 0")
def two_cpus_own_one_slab(state: State) -> None:
    state.cpus[1]["page"] = state.cpus[0]["page"]


@corruption("CPU 3 has the same cpu slab as CPU 2")
def two_cpus_own_one_exhausted_slab(state: State) -> None:
    state.cpus[3]["page"], state.cpus[3]["node"] = state.cpus[2]["page"], 1
    state.cpus[3]["freelist"] = state.cpus[2]["freelist"]


@corruption("CPU 2 has a cpu slab .* that is no slab of this cache")
def cpu_slab_is_a_free_page(state: State) -> None:
    driver = state.driver
    zone = (
        driver.memory.global_address("zones", 0)
        + driver.program.struct("zone").fields["free_area"].offset_bytes
        + 10 * driver.program.struct("free_area").size_bytes
    )
    state.cpus[2]["page"] = driver.page_address(int(list_frames(driver.kernel, zone)[0]))


@corruption("CPU 2 has a cpu slab .* that is no slab of this cache")
def cpu_slab_is_no_page_at_all(state: State) -> None:
    state.cpus[2]["page"] = int(state.cpus[2]["page"]) + 8


@corruption("CPU 2 has a cpu slab .* that is no slab of this cache")
def cpu_slab_is_another_caches(state: State) -> None:
    state.cpus[2]["page"] = state.driver.cpu_slab(2, 8)["page"]


@corruption("is frozen but no CPU owns it")
def cpu_forgets_its_slab(state: State) -> None:
    state.cpus[2]["page"] = 0
    state.cpus[2]["freelist"] = state.cpus[3]["freelist"]


@corruption("CPU 2 notes node 0 for a cpu slab of node 1")
def cpu_notes_the_wrong_node(state: State) -> None:
    state.cpus[2]["node"] = 0


@corruption("CPU 3 notes 5 objects per slab, not 4")
def cpu_notes_the_wrong_number_of_objects(state: State) -> None:
    state.cpus[3]["objects"] = 5


@corruption("CPU 0 notes objects of 512 bytes, not 1024")
def cpu_notes_the_wrong_size(state: State) -> None:
    state.cpus[0]["objsize"] = 512


@corruption("CPU 3 has a freelist without a slab")
def freelist_without_a_slab(state: State) -> None:
    state.cpus[3]["freelist"] = state.first


@corruption("CPU 3 has (NULL|an end marker) where (NULL|an end marker) belongs")
def empty_cpu_freelist_of_the_wrong_kind(state: State) -> None:
    state.cpus[3]["freelist"] = int(state.cpus[3]["freelist"]) ^ 1


# --- slabs and lists --------------------------------------------------------------------------------------


def flip(page: np.void, driver: Driver, name: str) -> None:
    page["flags"] = int(page["flags"]) ^ 1 << driver.program.constants[name]


@corruption("has a page reference count that is not 1")
def slab_without_a_reference(state: State) -> None:
    state.partial()["_count"] = 0


@corruption("has a page reference count that is not 1")
def slab_with_two_references(state: State) -> None:
    state.partial()["_count"] = 2


@corruption("is a cpu slab but not frozen")
def cpu_slab_is_not_frozen(state: State) -> None:
    flip(state.driver.page(int(state.cpus[0]["freelist"])), state.driver, "PG_active")


@corruption("is frozen but no CPU owns it")
def listed_slab_is_frozen(state: State) -> None:
    flip(state.partial(), state.driver, "PG_active")


@corruption("is locked")
def slab_stays_locked(state: State) -> None:
    flip(state.partial(), state.driver, "PG_locked")


@corruption("nr_partial of node 0 is 3, the list has 2")
def nr_partial_is_one_too_many(state: State) -> None:
    state.node()["nr_partial"] += 1


@corruption("nr_slabs of node 0 is 3, there are 4 slabs")
def nr_slabs_is_one_too_few(state: State) -> None:
    state.node()["nr_slabs"] -= 1


@corruption("has free objects but is on no list")
def slab_falls_off_the_list(state: State) -> None:
    lru = state.partial()["lru"]
    state.driver.memory.one(int(lru["next"]), "list_head")["prev"] = lru["prev"]
    state.driver.memory.one(int(lru["prev"]), "list_head")["next"] = lru["next"]


@corruption("a back pointer is wrong")
def back_pointer_of_the_partial_list(state: State) -> None:
    state.partial()["lru"]["prev"] = 0


# --- page allocator ------------------------------------------------------------------------------------


def area(driver: Driver, order: int) -> int:
    zone = driver.memory.global_address("zones", 0)
    areas = driver.program.struct("zone").fields["free_area"].offset_bytes
    return zone + areas + order * driver.program.struct("free_area").size_bytes


def put_on_list(driver: Driver, frame: int, order: int) -> None:
    """A free block at the head of a buddy list, marked and counted."""
    page = driver.memory.one(driver.page_address(frame), "page")
    page["flags"] = int(page["flags"]) | 1 << driver.program.constants["PG_buddy"]
    page["private"] = order
    entry = driver.page_address(frame) + driver.program.struct("page").fields["lru"].offset_bytes
    head = driver.memory.one(area(driver, order), "list_head")
    first = int(head["next"])
    page["lru"]["next"], page["lru"]["prev"] = first, area(driver, order)
    driver.memory.one(first, "list_head")["prev"] = entry
    head["next"] = entry
    driver.memory.one(area(driver, order), "free_area")["nr_free"] += 1


def take_first(driver: Driver, order: int) -> int:
    frame = int(list_frames(driver.kernel, area(driver, order))[0])
    lru = driver.memory.one(driver.page_address(frame), "page")["lru"]
    driver.memory.one(int(lru["next"]), "list_head")["prev"] = lru["prev"]
    driver.memory.one(int(lru["prev"]), "list_head")["next"] = lru["next"]
    driver.memory.one(area(driver, order), "free_area")["nr_free"] -= 1
    return frame


@corruption("node 0, free list of order 9: a block and its buddy are both free and not merged")
def buddies_that_were_not_merged(state: State) -> None:
    frame = take_first(state.driver, 10)
    put_on_list(state.driver, frame, 9)
    put_on_list(state.driver, frame + 512, 9)


@corruption("a block is not aligned to its size")
def misaligned_block(state: State) -> None:
    frame = take_first(state.driver, 10)
    flip(state.driver.memory.one(state.driver.page_address(frame), "page"), state.driver, "PG_buddy")
    put_on_list(state.driver, frame + 1, 9)


@corruption("a block is not marked as free with this order")
def unmarked_block(state: State) -> None:
    frame = int(list_frames(state.driver.kernel, area(state.driver, 10))[0])
    flip(state.driver.memory.one(state.driver.page_address(frame), "page"), state.driver, "PG_buddy")


@corruption("nr_free does not match its length")
def nr_free_of_a_list(state: State) -> None:
    state.driver.memory.one(area(state.driver, 10), "free_area")["nr_free"] += 1


@corruption("the zones count 1 more free pages than their lists hold")
def free_pages_of_the_zone(state: State) -> None:
    zone = state.driver.memory.one(state.driver.memory.global_address("zones", 0), "zone")
    zone["nr_free_pages"] += 1


@corruption("is free and has references")
def free_page_with_a_reference(state: State) -> None:
    frame = int(list_frames(state.driver.kernel, area(state.driver, 10))[0])
    state.driver.memory.one(state.driver.page_address(frame), "page")["_count"] = 1


@corruption("is free twice")
def page_is_free_twice(state: State) -> None:
    put_on_list(state.driver, int(list_frames(state.driver.kernel, area(state.driver, 10))[0]) + 4, 2)


@corruption("page list of CPU 1 for node 0 has .* pages, its count says")
def count_of_a_page_list(state: State) -> None:
    address = state.driver.memory.global_address("pagesets", 1)
    state.driver.memory.one(address, "per_cpu_pageset")["pcp"]["count"] += 1


# --- CPUs -----------------------------------------------------------------------------------------------


@corruption("CPU 1 has interrupts disabled")
def interrupts_stay_disabled(state: State) -> None:
    state.driver.machine.cpu_blocks()[1, L.C_IRQ_ENABLED] = 0


@corruption("CPU 1 has a preempt count of 1, not 0")
def preempt_count_stays(state: State) -> None:
    state.driver.machine.cpu_blocks()[1, L.C_PREEMPT] = 1


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_reported(name: str, kernel: str) -> None:
    if name in PATCHED_ONLY and kernel == "slub":
        pytest.skip("only kernels with end markers have this")
    change, message = CORRUPTIONS[name]
    state = good_state(kernel)
    change(state)
    found = check(state.driver.kernel, expected_allocated=state.allocated)
    assert found, "nothing is reported"
    assert any(re.search(message, line) for line in found), found


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_good_state_has_every_kind_of_slab(kernel: str) -> None:
    state = good_state(kernel)
    lengths = [len(state.driver.chain(int(cpu["freelist"]))) for cpu in state.cpus]
    assert lengths == [2, 3, 0, 0]
    assert [int(cpu["page"]) != 0 for cpu in state.cpus] == [True, True, True, False]
    assert len(state.driver.chain(int(state.driver.page(int(state.cpus[0]["freelist"]))["freelist"]))) == 1
    head = state.driver.memory.field_address(
        node_addresses(state.driver.kernel, 10)[0], "kmem_cache_node", "partial"
    )
    listed = list_frames(state.driver.kernel, head).tolist()
    assert listed[0] == state.first >> PAGE_SHIFT
    assert len(listed) == 2


def test_an_old_end_marker_without_a_slab_is_legal() -> None:
    """After a failed allocation SLUB+ leaves the end marker of the slab that it gave up."""
    state = good_state("slub+")
    state.cpus[3]["freelist"] = state.first & ~4095 | 1
    assert check(state.driver.kernel, expected_allocated=state.allocated) == []
