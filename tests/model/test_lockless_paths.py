"""Lockless SLUB: layouts, slabs of each size, and the paths that tell its versions apart, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slubviz.hw.isa import Status
from slubviz.hw.layout import C_CLOCK, C_PC
from slubviz.hw.machine_file import CacheGeometry
from slubviz.hw.scheduler import set_key
from slubviz.model.families import FAMILIES, slub_lockless_geometry
from slubviz.model.geometry import OrderOptions
from slubviz.model.invariants import check
from slubviz.model.kernels import KERNELS
from slubviz.model.machines import load_machine
from slubviz.model.requests import SessionSpec, compile_kernel, session_job
from slubviz.model.session import Session
from slubviz.model.slub_view import cpu_slabs
from tests.model.helpers import session
from tests.model.lockless import PRIVATE, SMALL_SLABS, LocklessDriver, Shape, pair
from tests.oracle.lockless import kept_on_chain, kept_slabs, slab_shape

KERNEL_NAMES = ("slub-cpu-partial", "slub-bulk")


def test_structures_have_the_sizes_of_the_kernel() -> None:
    structs = session("A", (64,), 10, "slub-cpu-partial").booted.program.structs
    page = structs["page"]
    assert (page.size_bytes, page.align) == (64, 16)
    assert {name: field.offset_bytes for name, field in page.fields.items()} == {
        "flags": 0, "mapping": 8, "freelist": 16, "_mapcount": 24, "counters": 24, "slab_counters": 24,
        "_count": 28, "lru": 32, "chain": 32, "private": 48, "slab": 48, "first_page": 48,
    }  # fmt: skip
    assert (structs["kmem_cache_cpu"].size_bytes, structs["kmem_cache_cpu"].align) == (32, 16)
    assert structs["kmem_cache_node"].size_bytes == 64
    assert structs["chain_link"].size_bytes == structs["list_head"].size_bytes


def test_the_other_kernels_keep_their_page_structure() -> None:
    assert session("A", (64,), 10, "slub").booted.program.struct("page").size_bytes == 56


#: What /proc/slabinfo of a machine with 8 CPUs shows: size, order, objects in a slab.
SLABS_OF_8_CPUS = {
    8: (0, 512), 16: (0, 256), 32: (0, 128), 64: (0, 64), 96: (0, 42), 128: (0, 32), 192: (0, 21),
    256: (1, 32), 512: (2, 32), 1024: (3, 32), 2048: (3, 16), 4096: (3, 8), 8192: (3, 4),
}  # fmt: skip


@pytest.mark.parametrize(("size", "slab"), SLABS_OF_8_CPUS.items())
def test_slabs_of_8_cpus(size: int, slab: tuple[int, int]) -> None:
    options = slub_lockless_geometry.default_orders(8)
    assert options == OrderOptions(0, 3, 20)
    made = slub_lockless_geometry.slab_geometry(size, 4096, options)
    assert (made.order, made.objects) == slab


@pytest.mark.parametrize("page_size", [4096, 16384, 65536])
@pytest.mark.parametrize("cpus", [1, 2, 3, 8, 64])
def test_slabs_agree_with_the_oracle(page_size: int, cpus: int) -> None:
    options = slub_lockless_geometry.default_orders(cpus)
    for index, size in slub_lockless_geometry.cache_sizes(page_size).items():
        made = slub_lockless_geometry.slab_geometry(size, page_size, options)
        assert (made.order, made.objects) == slab_shape(Shape(cpus=cpus, page_size=page_size), size), index
        assert slub_lockless_geometry.min_partial(size) == kept_slabs(size)
        shape = Shape(page_size=page_size)
        assert slub_lockless_geometry.cpu_partial(size, page_size) == kept_on_chain(shape, size)


def test_a_slab_never_has_more_objects_than_its_counters_can_say() -> None:
    made = slub_lockless_geometry.slab_geometry(8, 65536, OrderOptions(3, 3, 20))
    assert made.objects <= slub_lockless_geometry.MOST_OBJECTS


@pytest.mark.parametrize(
    ("size", "index"),
    [(1, 3), (8, 3), (65, 1), (97, 7), (129, 2), (193, 8), (4096, 12), (8192, 13), (8193, None)],
)
def test_which_cache_serves_a_size(size: int, index: int | None) -> None:
    family, spec = FAMILIES["slub_lockless"], load_machine("e5345_8p")
    assert family.cache_index(size, spec) == index
    driver = LocklessDriver("slub-cpu-partial", 2)
    large = driver.all_counters()["LARGE_ALLOC"]
    address = driver.alloc(0, size)
    assert driver.all_counters()["LARGE_ALLOC"] - large == (index is None)
    if index is not None:
        assert address >> 12 in driver.view(size).table.page_frame


def test_names_of_caches() -> None:
    family, spec = FAMILIES["slub_lockless"], load_machine("e5345_8p")
    names = [family.cache_name(index, spec) for index in family.cache_sizes(spec)]
    assert names[0] == "test_cache"
    assert names[1:] == [f"kmalloc-{size}" for size in (96, 192, *(1 << bit for bit in range(3, 14)))]


def test_names_of_locks() -> None:
    family = FAMILIES["slub_lockless"]
    for nodes, suffix in ((1, ""), (2, " node 0")):
        kernel = LocklessDriver("slub-cpu-partial", 2, nodes).kernel
        assert family.lock_name(kernel, "cache_nodes[0][10].list_lock") == f"list_lock kmalloc-1024{suffix}"
        assert family.lock_name(kernel, "cache_nodes[0][0].list_lock") == f"list_lock test_cache{suffix}"
        assert family.lock_name(kernel, "zones[0].lock") is None


# --- unfreeze_partials before and after the patch of June 2012 --------------------------------------


def chain_of(kernel_options: dict[str, int], empty: list[bool]) -> LocklessDriver:
    """CPU 0 has a chain of slabs, the first to be unfrozen first; the others listed hold an object each."""
    driver = LocklessDriver(
        "slub-cpu-partial", 2, MIN_PARTIAL=0, CPU_PARTIAL_OBJECTS=1000, **SMALL_SLABS, **kernel_options
    )
    objects = [driver.alloc(1, 1024) for _ in range(4 * len(empty) + 1)]
    for number, is_empty in enumerate(reversed(empty)):
        for address in objects[4 * number : 4 * number + (4 if is_empty else 1)]:
            driver.free(0, address)
    return driver


def flushed(driver: LocklessDriver) -> dict[str, int]:
    """What flushing CPU 0 counts."""
    before = driver.all_counters()
    driver.flush(0, 1024)
    assert check(driver.kernel) == []
    after = driver.all_counters()
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


@pytest.mark.parametrize(
    ("rewrite", "empty", "locks", "listed", "given_back"),
    [
        # An empty slab that comes first never meets the node before the patch: no lock, whatever nr_partial.
        (0, [True], 0, 0, 1),
        (1, [True], 1, 1, 0),
        (0, [True, True, True], 0, 0, 3),
        (1, [True, True, True], 1, 1, 2),
        # Once a slab has been listed both look at nr_partial, which is more than 0 then.
        (0, [False, True], 1, 1, 1),
        (1, [False, True], 1, 1, 1),
        (0, [True, False, True], 1, 1, 2),
        (1, [True, False, True], 1, 2, 1),
        (0, [False, False], 1, 2, 0),
        (1, [False, False], 1, 2, 0),
    ],
)
def test_what_the_rewrite_of_unfreeze_partials_changed(
    rewrite: int, empty: list[bool], locks: int, listed: int, given_back: int
) -> None:
    driver = chain_of({"UNFREEZE_REWRITE": rewrite}, empty)
    gained = flushed(driver)
    assert gained.get("LIST_LOCK", 0) == locks
    assert gained.get("FREE_ADD_PARTIAL", 0) == listed
    assert gained.get("FREE_SLAB", 0) == gained.get("DEACTIVATE_EMPTY", 0) == given_back
    assert gained.get("FREE_REMOVE_PARTIAL", 0) == 0


@pytest.mark.parametrize("rewrite", [0, 1])
def test_slabs_of_two_nodes_in_turn_switch_the_lock_each_time(rewrite: int) -> None:
    driver = LocklessDriver(
        "slub-cpu-partial", 4, 2, CPU_PARTIAL_OBJECTS=1000, UNFREEZE_REWRITE=rewrite, **SMALL_SLABS
    )
    objects = [driver.alloc(1, 1024, node) for node, number in ((0, 8), (1, 9)) for _ in range(number)]
    for first in (0, 8, 4, 12):
        driver.free(0, objects[first])
    assert len(driver.view(1024).chains[0]) == 4
    assert flushed(driver)["LIST_LOCK"] == 4
    assert [len(frames) for frames in driver.view(1024).partial_pages.values()] == [2, 2]


def hold_up(driver: LocklessDriver, function: str, after: str) -> None:
    """Step CPU 0 until it is in a function, past the first micro-op of another expanded in it; then let it
    fall behind by a million cycles, so that another CPU does all it has to do first."""
    machine, program = driver.machine, driver.program
    been_inside = False
    while True:
        names = [found.name for found, _ in program.inline_stack(machine.cpu_word(0, C_PC))]
        been_inside = been_inside or (function in names and after in names)
        if been_inside and function in names:
            break
        assert machine.step() == Status.MICRO_OPS
    machine.cpu_blocks()[0, C_CLOCK] += 10**9
    set_key(machine.state, 0, machine.cpu_word(0, C_CLOCK))


def gained_by_both(driver: LocklessDriver, function: str, *arguments: int) -> dict[str, int]:
    """Let CPU 1 run a function, then CPU 0 go on; what that counts."""
    before = driver.all_counters()
    driver.machine.start(1, driver.program.function(function).index, arguments)
    assert driver.machine.run() == Status.HALTED
    after = driver.all_counters()
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


@pytest.mark.parametrize(("rewrite", "taken_back"), [(0, 1), (1, 0)])
def test_a_slab_that_becomes_empty_while_it_is_unfrozen(rewrite: int, taken_back: int) -> None:
    """CPU 1 frees the last object between CPU 0's read of the pair and the exchange, which then fails.

    Before the patch the slab is listed by then; the retry sees that it is empty and the node has enough
    (itself), takes it off the list again and gives it back.  After the patch it is looked at when the
    exchange has succeeded, and listed: nothing is on the list.
    """
    driver = LocklessDriver("slub-cpu-partial", 2, MIN_PARTIAL=0, UNFREEZE_REWRITE=rewrite, **SMALL_SLABS)
    objects = [driver.alloc(1, 1024) for _ in range(5)]
    for address in objects[:3]:
        driver.free(0, address)
    driver.machine.write(driver.kept[1], objects[3])
    unfreeze = "unfreeze_partials_locking_before" if rewrite else "unfreeze_partials_locking_inside"
    driver.start(0, "flush_cpu_slab", driver.cache(1024))
    hold_up(driver, unfreeze, "__cmpxchg_double_slab")
    listed_before = driver.counters()["FREE_ADD_PARTIAL"]
    gained = gained_by_both(driver, "test_free", 1, 2, 1)
    assert listed_before == taken_back
    assert driver.counters()["FREE_ADD_PARTIAL"] == 1
    assert gained["CMPXCHG_DOUBLE_FAIL"] == 1
    assert gained["FREE_FROZEN"] == 1
    assert gained.get("FREE_REMOVE_PARTIAL", 0) == gained.get("FREE_SLAB", 0) == taken_back
    assert check(driver.kernel, expected_allocated=1) == []


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_a_slab_that_is_taken_from_the_list_while_its_last_object_is_freed(kernel: str) -> None:
    """CPU 0 has seen that the slab becomes empty and wants the list's lock; before it has it, CPU 1 makes the
    slab its own.  CPU 0 then finds it frozen and only unlocks."""
    driver = LocklessDriver(kernel, 2, MIN_PARTIAL=0, **SMALL_SLABS)
    objects = [driver.alloc(1, 1024) for _ in range(4)]
    for address in objects[:3]:
        driver.free(1, address)
    driver.flush(1, 1024)
    driver.machine.write(driver.kept[0], objects[3])
    driver.start(0, "test_free", 0, 1, 1)
    while "list_lock" not in driver.program.inline_stack(driver.machine.cpu_word(0, C_PC))[-1][0].name:
        driver.machine.step()
    hold_up(driver, "__slab_free", "list_lock")
    gained = gained_by_both(driver, "test_alloc", 1024, 1)
    assert gained["ALLOC_FROM_PARTIAL"] == 1
    assert gained["CMPXCHG_DOUBLE_FAIL"] == 1
    assert gained["FREE_FROZEN"] == 1
    assert "FREE_SLAB" not in gained
    assert check(driver.kernel, expected_allocated=1) == []


# --- how many slabs stay ------------------------------------------------------------------------------


@pytest.mark.parametrize("min_partial", [0, 1, 2, 5])
@pytest.mark.parametrize(("kernel", "one_more"), [("slub-cpu-partial", 1), ("slub-bulk", 0)])
def test_3_6_keeps_one_empty_slab_more_than_min_partial(kernel: str, one_more: int, min_partial: int) -> None:
    """4.3 keeps as many as the parameter says (fixed in 3.17)."""
    driver = LocklessDriver(kernel, 8, MIN_PARTIAL=min_partial, **SMALL_SLABS)
    for cpu in range(8):
        driver.free(cpu, driver.alloc(cpu, 1024))
    for cpu in range(8):
        driver.flush(cpu, 1024)
    assert driver.view(1024).nr_partial.tolist() == [min_partial + one_more]
    assert driver.counters()["DEACTIVATE_EMPTY"] == 8 - min_partial - one_more
    assert check(driver.kernel, expected_allocated=0) == []


def test_the_freeing_cpu_keeps_the_slab() -> None:
    driver = LocklessDriver("slub-cpu-partial", 3, **SMALL_SLABS)
    objects = [driver.alloc(0, 1024) for _ in range(5)]
    driver.free(2, objects[1])
    table = driver.view(1024).table
    first = int(table.page_frame.tolist().index(objects[0] >> 12))
    assert (table.cpu[first], table.on_cpu_partial[first], bool(table.frozen[first])) == (-1, 2, True)
    assert not table.on_partial_list[first]
    assert driver.counters()["LIST_LOCK"] == 0


def test_an_emptied_slab_of_one_object_is_parked_and_not_given_back() -> None:
    driver = LocklessDriver("slub-cpu-partial", 2, **SMALL_SLABS)
    objects = [driver.alloc(0, 8192) for _ in range(2)]
    driver.free(1, objects[0])
    assert driver.counters()["FREE_SLAB"] == 0
    assert [len(chain) for chain in driver.view(8192).chains.values()] == [0, 1]


def test_a_cache_that_may_keep_no_object_on_chains() -> None:
    """3.6 keeps the last slab all the same; 4.3 gives it up at once."""
    kept = {}
    for kernel in KERNEL_NAMES:
        driver = LocklessDriver(kernel, 2, CPU_PARTIAL_OBJECTS=0, **SMALL_SLABS)
        objects = [driver.alloc(1, 1024) for _ in range(13)]
        for address in objects[:12:4]:
            driver.free(0, address)
        kept[kernel] = (len(driver.view(1024).chains[0]), driver.view(1024).nr_partial.tolist())
        assert check(driver.kernel, expected_allocated=10) == []
    assert kept == {"slub-cpu-partial": (1, [2]), "slub-bulk": (0, [3])}


def test_what_is_taken_from_a_node_for_the_chain() -> None:
    """Slabs with one free object each: 3.6 counts only what is on the chain, 4.3 the cpu slab's too, and
    both stop when there is more than half of what the chain may promise, 3 of 6."""
    taken = {}
    for kernel in KERNEL_NAMES:
        driver = LocklessDriver(kernel, 2, **SMALL_SLABS)
        objects = [driver.alloc(1, 1024) for _ in range(40)]
        for i in range(0, 40, 4):
            driver.free(1, objects[i])
        driver.flush(1, 1024)
        driver.alloc(0, 1024)
        taken[kernel] = len(driver.view(1024).chains[0])
        assert driver.counters()["CPU_PARTIAL_NODE"] == taken[kernel]
    assert taken == {"slub-cpu-partial": 4, "slub-bulk": 3}


def test_smaller_slabs_when_there_are_no_large_blocks() -> None:
    """Order 3 is wanted; only blocks of order 2 are free: slabs of one page with four objects are made."""
    driver = LocklessDriver("slub-cpu-partial", 8)
    hoard = []
    while address := driver.alloc(0, 4 << 12):
        hoard.append(address)
    for address in hoard:
        if address >> 14 & 1:
            driver.free(0, address)
    objects = []
    while driver.counters()["ORDER_FALLBACK"] < 3:  # a few larger blocks may be there still
        objects.append(driver.alloc(0, 1024))
    assert 0 not in objects
    sizes = driver.view(1024).table.objects.tolist()
    assert sizes.count(4) == 3
    assert sizes.count(32) == len(sizes) - 3
    assert len(objects) == 32 * (len(sizes) - 3) + 4 + 4 + 1
    assert check(driver.kernel, expected_allocated=len(objects)) == []
    for address in objects:
        driver.free(1, address)
    driver.flush(0, 1024)
    driver.flush(1, 1024)
    assert check(driver.kernel, expected_allocated=0) == []


# --- concurrency --------------------------------------------------------------------------------------


def spread_out(driver: LocklessDriver, size: int, each: int) -> None:
    """CPU 0 allocates for all CPUs, each in turn, so that a slab's objects are with many."""
    cpus = driver.machine.spec.cpus
    for i in range(each):
        for cpu in range(cpus):
            address = driver.alloc(0, size)
            driver.machine.write(driver.kept[cpu] + 8 * (i + 1), address)
    for cpu in range(cpus):  # slot 0 was used for allocating
        for i in range(each):
            driver.machine.write(
                driver.kept[cpu] + 8 * i, driver.machine.read(driver.kept[cpu] + 8 * (i + 1))
            )


@pytest.mark.parametrize(
    "options",
    [{}, {"UNFREEZE_REWRITE": 0}, {"CPU_PARTIAL": 0}, {"HAVE_CMPXCHG_DOUBLE": 0}, {"MIN_PARTIAL": 0}],
    ids=str,
)
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_8_cpus_free_to_the_same_slabs_at_the_same_time(kernel: str, options: dict[str, int]) -> None:
    driver = LocklessDriver(kernel, 8, **options)
    spread_out(driver, 256, 24)
    assert check(driver.kernel, expected_allocated=192) == []
    before = driver.all_counters()
    driver.machine.align_clocks()
    for cpu in range(8):
        driver.machine.start(cpu, driver.program.function("test_free").index, (cpu, cpu + 1, 24))
    assert driver.machine.run() == Status.HALTED
    after = driver.all_counters()
    assert check(driver.kernel, expected_allocated=0) == []
    freed = sum(after[name] - before[name] for name in ("FREE_FASTPATH", "FREE_SLOWPATH"))
    assert freed == 192
    redos = after["CMPXCHG_DOUBLE_FAIL"] - before["CMPXCHG_DOUBLE_FAIL"]
    assert redos > 0
    assert (after["SLAB_LOCK"] > before["SLAB_LOCK"]) == ("HAVE_CMPXCHG_DOUBLE" in options)


@pytest.mark.parametrize("rewrite", [0, 1])
def test_allocation_and_remote_frees_at_the_same_time(rewrite: int) -> None:
    """Rounds in which half of the CPUs allocate, the other half frees what was allocated the round before."""
    driver = LocklessDriver("slub-cpu-partial", 8, UNFREEZE_REWRITE=rewrite, **SMALL_SLABS)
    alloc, free = (driver.program.function(name).index for name in ("test_alloc", "test_free"))
    for turn in range(6):
        makers, takers = (range(4), range(4, 8)) if turn % 2 == 0 else (range(4, 8), range(4))
        driver.machine.align_clocks()
        for cpu in makers:
            driver.machine.start(cpu, alloc, (1024, 60))
        if turn:
            for cpu in takers:
                partner = (cpu + 1) % 4 + takers[0]
                driver.machine.start(cpu, free, (partner, partner + 1, 60))
        assert driver.machine.run() == Status.HALTED
        assert check(driver.kernel, expected_allocated=240) == []
    assert driver.counters()["CPU_PARTIAL_DRAIN"] > 0
    assert driver.counters()["FREE_SLAB"] > 0


def test_the_same_run_twice_is_the_same_bit_for_bit() -> None:
    hashes = []
    for _ in range(2):
        driver = LocklessDriver("slub-bulk", 8)
        spread_out(driver, 256, 8)
        driver.machine.align_clocks()
        for cpu in range(8):
            driver.machine.start(cpu, driver.program.function("test_free").index, (cpu, cpu + 1, 8))
        assert driver.machine.run() == Status.HALTED
        hashes.append(driver.machine.state_hash())
    assert hashes[0] == hashes[1]


# --- bulk ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bulk", "fast_alloc", "slow_alloc", "fast_free", "slow_free", "steps"),
    [
        # 40 objects of 256 bytes, 32 in a slab: the first 32 are freed to a slab that has been given up.
        (0, 38, 2, 8, 32, 48),
        (1, 0, 0, 0, 32, 2 + 1 + 32 + 1),
        (2, 0, 0, 1, 1, 2 + 1 + 1),
    ],
)
def test_exact_counts_of_a_bulk_allocation_and_free(
    bulk: int, fast_alloc: int, slow_alloc: int, fast_free: int, slow_free: int, steps: int
) -> None:
    driver = LocklessDriver("slub-bulk", 8, BULK=bulk)
    driver.free_bulk(0, PRIVATE, driver.alloc_bulk(0, PRIVATE, 40))
    counters = driver.counters()
    assert counters["ALLOC_SLAB"] == 2
    assert (counters["ALLOC_FASTPATH"], counters["ALLOC_SLOWPATH"]) == (fast_alloc, slow_alloc)
    assert (counters["FREE_FASTPATH"], counters["FREE_SLOWPATH"]) == (fast_free, slow_free)
    assert driver.tid_steps(0, PRIVATE) == steps
    assert check(driver.kernel, expected_allocated=0) == []


def test_bulk_operations_of_one_object_leave_one_step_each() -> None:
    driver = LocklessDriver("slub-bulk", 8)
    driver.free_bulk(0, PRIVATE, driver.alloc_bulk(0, PRIVATE, 1))  # the slab is there from now on
    before = driver.tid_steps(0, PRIVATE)
    driver.free_bulk(0, PRIVATE, driver.alloc_bulk(0, PRIVATE, 1))
    assert driver.tid_steps(0, PRIVATE) == before + 2


def test_the_private_cache_is_nobody_elses() -> None:
    driver = LocklessDriver("slub-bulk", 2)
    driver.alloc_bulk(0, PRIVATE, 3)
    assert len(driver.view(256).table.page_frame) == 0
    assert len(driver.view(PRIVATE).table.page_frame) == 1


def test_an_object_of_another_cache_is_refused_by_the_bulk_free_of_4_3() -> None:
    driver = LocklessDriver("slub-bulk", 2)
    driver.machine.write(driver.kept[0], driver.alloc(0, 512))
    driver.start(0, "kmem_cache_free_bulk", driver.cache(PRIVATE), 1, driver.kept[0])
    assert driver.machine.run() == Status.FAULT


# --- without the instruction, with preemption, with other words and pages -----------------------------------


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_without_the_instruction_the_results_are_the_same(kernel: str) -> None:
    """On one CPU, that is: addresses, lists and counters, only the bit lock comes in addition."""
    drivers = [LocklessDriver(kernel, 2, HAVE_CMPXCHG_DOUBLE=has, **SMALL_SLABS) for has in (0, 1)]
    runs = []
    for driver in drivers:
        objects = [driver.alloc(0, 1024) for _ in range(30)]
        for i in range(0, 30, 3):
            driver.free(0, objects[i])
        driver.flush(0, 1024)
        objects += [driver.alloc(0, 1024) for _ in range(7)]
        runs.append((objects, driver.counters(), driver.view(1024).partial_pages[0].tolist()))
    assert runs[0] == runs[1]
    assert drivers[0].all_counters()["SLAB_LOCK"] > 0 == drivers[1].all_counters()["SLAB_LOCK"]


@pytest.mark.parametrize("cpus", [2, 3, 8])
def test_transaction_ids_of_a_preemptible_kernel_tell_the_cpu(cpus: int) -> None:
    driver = LocklessDriver("slub-cpu-partial", cpus, CONFIG_PREEMPT=1)
    for cpu in range(cpus):
        driver.free(cpu, driver.alloc(cpu, 64))
    step = 1 << (cpus - 1).bit_length()
    tids = cpu_slabs(driver.kernel, driver.index(64))["tid"]
    assert [int(tid) % step for tid in tids] == list(range(cpus))
    cpu_slabs(driver.kernel, driver.index(64))[1]["tid"] += 1
    problem = f"kmalloc-64: CPU 1 has transaction id {int(tids[1])}, which is not one of its own"
    assert problem in check(driver.kernel)


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_words_of_32_bits_and_pages_of_16_kb(kernel: str) -> None:
    for change in ({"word_bytes": 4}, {"page_size_bytes": 16384}):
        machine = replace(load_machine("e5345_8p"), l2=CacheGeometry(64 * 1024, 16), **change)
        for test in ("A", "F"):
            made = Session(SessionSpec("x", kernel, test, (8, 1024, 8192), 100, 1, check=True), machine)
            made.run_to_end()
            assert check(made.booted, expected_allocated=0) == []


def test_a_snapshot_shows_cpu_slabs_chains_and_lists() -> None:
    made = session("F", (1024,), 200, "slub-cpu-partial")
    seen = set()
    while not made.finished:
        made.run(20_000)
        table = made.snapshot().slabs
        seen |= {"chain"} if (table.on_cpu_partial >= 0).any() else set()
        seen |= {"list"} if table.on_partial_list.any() else set()
        seen |= {"cpu"} if (table.cpu >= 0).any() else set()
    assert seen == {"chain", "list", "cpu"}


def test_kernels_are_known_with_their_options() -> None:
    assert KERNELS["slub-cpu-partial"].options["UNFREEZE_REWRITE"] == 1
    assert KERNELS["slub-bulk"].options == {"LINUX_4_3": 1, "BULK": 1}
    for name in KERNEL_NAMES:
        program = compile_kernel(session_job(SessionSpec("e5345_8p", name, "A", (64,), 10, 1)))
        assert program.struct("page").align == 16


def test_the_oracle_knows_what_a_slab_of_another_shape_is() -> None:
    both = pair("slub-cpu-partial", Shape(cpus=8))
    for size in (16, 96, 2048):
        for _ in range(slab_shape(both.oracle.shape, size)[1] + 1):
            both.alloc(3, size)
        assert len(both.driver.view(size).table.page_frame) == 2
    both.sizes = (16, 96, 2048)
    both.compare()
