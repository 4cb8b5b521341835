"""Every invariant of SLAB is shown to bite: a good state, one thing in memory changed, one complaint."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from slubviz.model.invariants import check
from tests.model.slab_driver import SlabDriver, small_machine

SIZE, SMALL = 1024, 256  # management in objects of size-64; and in the slab, with two colours


@dataclass
class State:
    """A good state on two nodes with two CPUs each.

    Of SIZE, node 0 has full, partial and free slabs, objects in the arrays of CPUs 0 and 1 and in the
    shared array; node 1 has a partial slab, and its alien cache for node 0 holds an object.  Of SMALL there
    are two slabs with different colours on node 0.
    """

    driver: SlabDriver
    allocated: int

    def listed(self, name: str, size: int = SIZE) -> list[int]:
        """Page frames of the slabs on a list of node 0."""
        return self.driver.listed(size, 0)[name]

    def write(self, address: int, value: int, size_bytes: int = 4) -> None:
        self.driver.machine.write(address, value, size_bytes)

    def read(self, address: int, size_bytes: int = 4) -> int:
        return self.driver.machine.read(address, size_bytes)

    def field(self, frame: int, name: str) -> int:
        return self.driver.slab_field(frame, name)

    def entry(self, name: str, number: int = 0, size: int = SIZE) -> int:
        return self.driver.entry_address(size, name, number)

    def bufctl(self, frame: int, index: int) -> int:
        """Address of an index of a chain."""
        return self.driver.slab_struct(frame) + self.driver.program.struct("slab").size_bytes + 4 * index


def good_state() -> State:
    driver = SlabDriver(small_machine(4, 2))
    own = [driver.alloc(0, SIZE) for _ in range(170)]
    for address in own[4:165]:
        driver.free(0, address)
    held = 4 + 5
    other = driver.alloc(1, SIZE)
    driver.free(1, other)
    driver.alloc(3, SIZE)
    driver.alloc(3, SIZE, 0)
    driver.free(3, own[0])
    held += 2 - 1
    for _ in range(16):
        driver.alloc(0, SMALL)
    held += 16
    state = State(driver, held)
    # Arrays of other lengths than their slabs' objects leave some of each kind; the reaper frees some more.
    for cpu in (0, 0, 0):
        driver.run(cpu, "timer_tick", 2000)
        driver.run(cpu, "cache_reap", cpu)
    assert check(driver.kernel, expected_allocated=state.allocated) == []
    return state


Corruption = Callable[[State], None]
CORRUPTIONS: dict[str, tuple[Corruption, str]] = {}


def corruption(message: str) -> Callable[[Corruption], Corruption]:
    def add(change: Corruption) -> Corruption:
        CORRUPTIONS[change.__name__] = (change, message)
        return change

    return add


# --- chains and structures --------------------------------------------------------------------------


@corruption("chain that leads to an index beyond its objects")
def chain_leads_out(state: State) -> None:
    state.write(state.field(state.listed("slabs_partial")[0], "free"), 4)


@corruption("chain that holds an object twice")
def chain_is_a_circle(state: State) -> None:
    frame = state.listed("slabs_free")[0]
    first = state.read(state.field(frame, "free"))
    state.write(state.bufctl(frame, first), first)


@corruption("use count that does not match the length of its chain")
def chain_is_cut(state: State) -> None:
    frame = state.listed("slabs_free")[0]
    state.write(state.bufctl(frame, state.read(state.field(frame, "free"))), 0xFFFFFFFF)


@corruption("use count that does not match the length of its chain")
def inuse_is_wrong(state: State) -> None:
    address = state.field(state.listed("slabs_full")[0], "inuse")
    state.write(address, state.read(address) - 1)


@corruption("is on slabs_partial with a use count for another list")
def inuse_says_full(state: State) -> None:
    state.write(state.field(state.listed("slabs_partial")[0], "inuse"), 4)


@corruption("notes another node than its pages have")
def nodeid_is_wrong(state: State) -> None:
    state.write(state.field(state.listed("slabs_full")[0], "nodeid"), 1)


@corruption("objects that start elsewhere")
def s_mem_is_wrong(state: State) -> None:
    address = state.field(state.listed("slabs_full")[0], "s_mem")
    state.write(address, state.read(address, 8) + 64, 8)


@corruption("colour that its cache does not have")
def colour_is_wrong(state: State) -> None:
    frame = state.listed("slabs_full")[0]
    for name in ("s_mem", "colouroff"):
        state.write(state.field(frame, name), state.read(state.field(frame, name), 8) + 64, 8)


@corruption("size-256: slab of page .* has its structure at a wrong place")
def structure_and_objects_have_different_colours(state: State) -> None:
    frame = next(iter(state.driver.slabs(SMALL)))
    at, base = state.field(frame, "colouroff"), frame * 4096
    value = 128 if state.read(at, 8) != 128 else 192
    state.write(at, value, 8)
    state.write(state.field(frame, "s_mem"), base + value, 8)


@corruption("structure or a chain that cannot be read")
def structure_is_nowhere(state: State) -> None:
    state.driver.page(state.listed("slabs_full")[0])["lru"]["prev"] = 4096 * 7


@corruption("is no object handed out from size-64")
def structure_is_no_object(state: State) -> None:
    page = state.driver.page(state.listed("slabs_full")[0])
    page["lru"]["prev"] += 8


@corruption("has a structure that is that of size-1024, page .* too")
def two_slabs_share_a_structure(state: State) -> None:
    first, second = state.listed("slabs_full")[:2]
    state.driver.page(first)["lru"]["prev"] = state.driver.slab_struct(second)


@corruption("objects are handed out, .* should be")
def structure_is_freed(state: State) -> None:
    """A slab leaves without its structure: an object of size-64 too many is handed out."""
    frame = state.listed("slabs_free")[-1]
    state.driver.page(frame)["lru"]["next"] = 0


@corruption("page reference count that is not 1")
def page_has_two_references(state: State) -> None:
    state.driver.page(state.listed("slabs_full")[0])["_count"] = 2


# --- lists ----------------------------------------------------------------------------------------------


@corruption("slabs_full of node 0 is broken")
def back_pointer_is_wrong(state: State) -> None:
    state.write(state.field(state.listed("slabs_full")[0], "list") + 8, 4096 * 9, 8)


def unlink(state: State, entry: int) -> None:
    following, previous = state.read(entry, 8), state.read(entry + 8, 8)
    state.write(following + 8, previous, 8)
    state.write(previous, following, 8)


def link_at_head(state: State, entry: int, head: int) -> None:
    first = state.read(head, 8)
    for at, value in ((entry, first), (entry + 8, head), (first + 8, entry), (head, entry)):
        state.write(at, value, 8)


def head_of(state: State, name: str, node: int = 0) -> int:
    from slubviz.model.slab_view import list3_addresses

    driver = state.driver
    address = list3_addresses(driver.kernel, driver.index(SIZE))[node]
    return driver.memory.field_address(address, "kmem_list3", name)


@corruption("is on no list")
def slab_is_on_no_list(state: State) -> None:
    unlink(state, state.field(state.listed("slabs_full")[0], "list"))


@corruption("is on slabs_free with a use count for another list")
def full_slab_is_on_the_free_list(state: State) -> None:
    entry = state.field(state.listed("slabs_full")[0], "list")
    unlink(state, entry)
    link_at_head(state, entry, head_of(state, "slabs_free"))


@corruption("is on a list of node 1, but not of that node")
def slab_is_on_another_nodes_list(state: State) -> None:
    entry = state.field(state.listed("slabs_full")[0], "list")
    unlink(state, entry)
    link_at_head(state, entry, head_of(state, "slabs_full", 1))


@corruption("on slabs_full of node 0 is no slab of it")
def slab_of_another_cache_is_on_a_list(state: State) -> None:
    frame = next(iter(state.driver.slabs(64)))
    entry = state.field(frame, "list")
    unlink(state, entry)
    link_at_head(state, entry, head_of(state, "slabs_full"))


@corruption("node 0: free_objects is")
def free_objects_is_wrong(state: State) -> None:
    state.driver.lists(SIZE)["free_objects"] += 1


@corruption("size-256, node 0: colour_next is 2, there are 2 colours")
def colour_next_is_out_of_range(state: State) -> None:
    state.driver.lists(SMALL)["colour_next"] = 2


@corruption("node 1: free_limit is 7, not")
def free_limit_is_wrong(state: State) -> None:
    state.driver.lists(SIZE, 1)["free_limit"] = 7


@corruption("node 0: list_lock is taken")
def list_lock_stays_taken(state: State) -> None:
    state.driver.lists(SIZE)["list_lock"] = 1


@corruption("node 0: free_touched is 5")
def free_touched_is_no_flag(state: State) -> None:
    state.driver.lists(SIZE)["free_touched"] = 5


# --- arrays ---------------------------------------------------------------------------------------------


@corruption("CPU 0: .* is no object of this cache")
def array_holds_an_object_of_another_cache(state: State) -> None:
    state.write(state.entry("CPU 0"), state.read(state.entry("CPU 0", 0, SMALL), 8), 8)


@corruption("CPU 0: .* is no object of this cache")
def array_holds_the_middle_of_an_object(state: State) -> None:
    state.write(state.entry("CPU 0"), state.read(state.entry("CPU 0"), 8) + 8, 8)


@corruption("is in the arrays more than once")
def object_is_in_two_arrays(state: State) -> None:
    state.write(state.entry("shared array of node 0"), state.read(state.entry("CPU 0"), 8), 8)


@corruption("is in an array and on its chain")
def object_in_an_array_is_free_in_its_slab(state: State) -> None:
    frame = state.listed("slabs_free")[0]
    state.write(state.entry("CPU 0"), frame * 4096, 8)


@corruption("objects are handed out, .* should be")
def object_is_lost(state: State) -> None:
    state.driver.array(SIZE, "CPU 0")["avail"] -= 1


@corruption("CPU 0: 55 objects are more than its limit")
def array_is_over_its_limit(state: State) -> None:
    state.driver.array(SIZE, "CPU 0")["avail"] = 55


@corruption("CPU 1: the limit is 53, not 54")
def limit_is_wrong(state: State) -> None:
    state.driver.array(SIZE, "CPU 1")["limit"] = 53


@corruption("CPU 1: the batch is 0, not 27")
def batch_is_wrong(state: State) -> None:
    state.driver.array(SIZE, "CPU 1")["batchcount"] = 0


@corruption("CPU 1: touched is 2")
def touched_is_no_flag(state: State) -> None:
    state.driver.array(SIZE, "CPU 1")["touched"] = 2


@corruption("alien cache of node 1 for node 0: its lock is taken")
def alien_lock_stays_taken(state: State) -> None:
    state.driver.array(SIZE, "alien cache of node 1 for node 0")["lock"] = 1


@corruption("CPU 3: holds object .* of another node")
def array_holds_an_object_of_another_node(state: State) -> None:
    alien = "alien cache of node 1 for node 0"
    state.write(state.entry("CPU 3"), state.read(state.entry(alien), 8), 8)


# --- caches ---------------------------------------------------------------------------------------------


@corruption("0 objects of 1024 bytes make no slab of order 0")
def cache_has_no_objects(state: State) -> None:
    state.driver.cache(SIZE)["num"] = 0


@corruption("slabp_cache is no kmalloc cache")
def management_cache_is_unknown(state: State) -> None:
    state.driver.cache(SIZE)["slabp_cache"] = 64


@corruption("the zones count .* slab pages, slabs hold")
def page_is_no_slab_any_more(state: State) -> None:
    page = state.driver.page(state.listed("slabs_full")[0])
    page["flags"] = int(page["flags"]) & ~(1 << state.driver.program.constants["PG_slab"])


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_reported(name: str) -> None:
    change, message = CORRUPTIONS[name]
    state = good_state()
    change(state)
    found = check(state.driver.kernel, expected_allocated=state.allocated)
    assert found, "nothing is reported"
    assert any(re.search(message, line) for line in found), found


def test_the_good_state_has_every_kind_of_slab_and_array() -> None:
    state = good_state()
    assert all(len(state.listed(name)) >= 2 for name in ("slabs_full", "slabs_free"))
    assert state.listed("slabs_partial")
    arrays = {array.name: len(array.entries) for array in state.driver.view(SIZE).arrays}
    for name in ("CPU 0", "CPU 3", "shared array of node 0", "alien cache of node 1 for node 0"):
        assert arrays[name] > 0
    view = state.driver.view(SMALL)
    assert len(set(view.colouroff.tolist())) == 2
