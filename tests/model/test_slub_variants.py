"""The other kernels of the SLUB family: counters against the oracle, slab geometry, what 2.6.25 changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slubviz.hw.isa import Status
from slubviz.model.errors import UserError
from slubviz.model.invariants import check
from slubviz.model.kernels import KERNELS
from slubviz.model.machines import load_machine
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.slub_view import read_cache
from tests.model.driver import OLD_ORDERS, Driver
from tests.model.helpers import session
from tests.model.test_geometry import ON_4K, ON_4K_HIGH_ORDERS, ON_16K, ON_16K_HIGH_ORDERS
from tests.model.test_interrupts import SIZE, Scene, alloc_with_an_exhausted_cpu_slab
from tests.oracle.counters import KERNEL_COUNTERS
from tests.oracle.runs import run_test

VARIANTS = {
    "slub-o": "SLUB-o",
    "slub+pekka": "SLUB+",
    "slub-2.6.25": "SLUB-2.6.25",
    "slub-seq": "SLUB-seq",
}
OPERATIONS = {
    "A": "kmalloc",
    "B": "kfree",
    "C": "kmalloc+kfree",
    "D": "kmalloc",
    "E": "kmalloc+kfree",
    "F": "kfree",
}
OTHER_COUNTERS = {"LIST_LOCK": "list_lock", "SLAB_LOCK": "slab_lock", "PAGE_ALLOC": "page_alloc"}


@pytest.mark.parametrize("kernel", VARIANTS)
@pytest.mark.parametrize(("tests", "ops"), [("AB", 500), ("C", 100), ("D", 150), ("E", 30), ("F", 150)])
def test_counters_equal_the_oracles(tests: str, ops: int, kernel: str) -> None:
    orders = OLD_ORDERS if kernel in ("slub-2.6.25", "slub-seq") else {}
    made = session(tests, (8, 96, 512, 2048, 4096, 8192), ops, kernel, cpus=4, **orders)
    made.run_to_end()
    assert check(made.booted, expected_allocated=0) == []
    assert {cell.test for cell in made.results} == set(tests)
    for cell in made.results:
        expected = run_test(cell.test, cell.size_bytes, ops, cpus=4, variant=VARIANTS[kernel])
        want = expected[OPERATIONS[cell.test]]
        pairs = {name: name for name in KERNEL_COUNTERS} | OTHER_COUNTERS
        got = {ours: cell.counters[ours] for ours in pairs}
        assert got == {ours: want[theirs] for ours, theirs in pairs.items()}, (cell.test, cell.size_bytes)


@pytest.mark.parametrize("tests", ["AB", "C"])
def test_counters_by_the_letter_of_the_mail(tests: str) -> None:
    made = session(tests, (8, 96, 512, 2048, 4096), 300, "slub-seq", cpus=2, LAST_OBJECT_SLOW=1, **OLD_ORDERS)
    made.run_to_end()
    for cell in made.results:
        expected = run_test(cell.test, cell.size_bytes, 300, cpus=2, variant="SLUB-seq-letter")
        want = expected[OPERATIONS[cell.test]]
        assert {name: cell.counters[name] for name in KERNEL_COUNTERS} == {
            name: want[name] for name in KERNEL_COUNTERS
        }


def test_slabs_with_one_object_left_wander_between_cpus() -> None:
    """A slab is on the node's list for its last object; another CPU may be faster.  Sums still hold."""
    made = session("D", (512, 2048, 4096), 200, "slub-seq", cpus=4, LAST_OBJECT_SLOW=1)
    made.run_to_end()
    for cell in made.results:
        counters = cell.counters
        assert counters["ALLOC_FASTPATH"] + counters["ALLOC_SLOWPATH"] == 4 * 200
        assert counters["DEACTIVATE_TO_HEAD"] >= counters["ALLOC_FROM_PARTIAL"] > 0
        assert counters["ALLOC_SLOWPATH"] == counters["ALLOC_SLAB"] + counters["ALLOC_FROM_PARTIAL"]


# --- geometry ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "page_size", "table"),
    [
        ("slub", 4096, ON_4K),
        ("slub+", 4096, ON_4K),
        ("slub-o", 4096, ON_4K_HIGH_ORDERS),
        ("slub", 16384, ON_16K),
        ("slub-o", 16384, ON_16K | ON_16K_HIGH_ORDERS),
        ("slub-2.6.25", 4096, ON_4K | {512: (1, 16), 1024: (2, 16), 2048: (3, 16), 4096: (3, 8)}),
        ("slub-seq", 16384, ON_16K | {2048: (1, 16), 4096: (2, 16), 8192: (3, 16), 16384: (3, 8)}),
    ],
)
def test_orders_and_objects_of_a_booted_kernel(
    kernel: str, page_size: int, table: dict[int, tuple[int, int]]
) -> None:
    machine = replace(load_machine("e5345_8p"), page_size_bytes=page_size, cpus=2)
    booted = Session(SessionSpec("x", kernel, "C", (8,), 1, 1), machine).booted
    caches = booted.family.cache_sizes(booted.machine.spec)
    records = {
        size: booted.memory.one(booted.cache_address(index), "kmem_cache") for index, size in caches.items()
    }
    assert {size: (int(r["order"]), int(r["objects"])) for size, r in records.items()} == table


def test_a_boot_parameter_of_the_user_comes_before_the_kernels() -> None:
    orders = session("C", (2048,), 1, "slub-o", slub_max_order=1).job.orders
    assert (orders.min_order, orders.max_order, orders.min_objects) == (0, 1, 20)
    orders = session("C", (2048,), 1, "slub-o").job.orders
    assert (orders.min_order, orders.max_order, orders.min_objects) == (0, 3, 20)


def test_slub_o_is_slub_plus_with_two_boot_parameters() -> None:
    one = session("AB", (64, 2048), 100, "slub-o", cpus=2)
    other = session("AB", (64, 2048), 100, "slub+", cpus=2, slub_max_order=3, slub_min_objects=20)
    for made in (one, other):
        made.run_to_end()
    assert [c.trace_hash for c in one.results] == [c.trace_hash for c in other.results]


def test_4k_caches_need_the_family_that_has_them() -> None:
    with pytest.raises(UserError, match=r"KMALLOC_4K belongs to files based on kernel slub-2\.6\.25"):
        session("C", (8,), 1, "slub", KMALLOC_4K=1)
    with pytest.raises(
        UserError, match="up to 2048 bytes in the kernel file, the boot makes them up to 4096"
    ):
        session("C", (8,), 1, "slub-2.6.25", KMALLOC_4K=0)


# --- 2.6.25 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "kept"), [("slub", 2), ("slub-2.6.25", 5), ("slub-seq", 5)])
def test_so_many_empty_slabs_are_kept(kernel: str, kept: int) -> None:
    """Seven CPUs of node 0 give an empty slab up for one of node 1."""
    driver = Driver(kernel, 16, 2)
    objects = [driver.alloc(cpu, SIZE, 0) for cpu in range(7)]
    for cpu, address in enumerate(objects):
        driver.free(cpu, address)
        driver.alloc(cpu, SIZE, 1)
    assert driver.counters()["DEACTIVATE_EMPTY"] == 7
    assert read_cache(driver.kernel, driver.index(SIZE)).nr_partial[0] == kept
    assert driver.counters()["FREE_SLAB"] == 7 - kept


def test_a_full_slab_that_gets_an_object_back_goes_to_the_tail() -> None:
    orders = {}
    for kernel in ("slub", "slub-2.6.25"):
        driver = Driver(kernel, 2)
        objects = [driver.alloc(0, SIZE) for _ in range(12)]
        for address in (objects[0], objects[4]):
            driver.free(1, address)
        frames = read_cache(driver.kernel, driver.index(SIZE)).partial_pages[0].tolist()
        orders[kernel] = [frames.index(objects[i] >> 12) for i in (0, 4)]
    assert orders == {"slub": [1, 0], "slub-2.6.25": [0, 1]}


def test_an_unlock_by_a_plain_store_saves_a_locked_operation_for_each_lock() -> None:
    found = []
    for plain in (0, 1):
        made = session("AB", (SIZE,), 200, "slub", cpus=2, PLAIN_BIT_UNLOCK=plain)
        made.run_to_end()
        found.append(made.results)
    for locked, plainly in zip(*found, strict=True):
        saved = locked.counters["LOCKED_OPERATIONS"] - plainly.counters["LOCKED_OPERATIONS"]
        assert saved == locked.counters["SLAB_LOCK"] > 0


def lost_objects(kernel: str) -> set[str]:
    """What is broken after an allocation and a remote free came in while pages were fetched."""
    scene: Scene = alloc_with_an_exhausted_cpu_slab(Driver(kernel, 2))
    driver, machine = scene.driver, scene.machine
    machine.restore_state(scene.checkpoint)
    program = driver.program
    pages = program.function("__alloc_pages").entry_pc
    machine.set_breakpoint(pages)
    assert machine.run() == Status.BREAKPOINT
    machine.set_breakpoint(pages, False)
    machine.inject(0, program.function("irq_alloc").index, SIZE)  # installs a slab with objects left
    held = driver.memory.field_address(driver.memory.global_address("held", 0), "held_objects", "of")
    count = driver.memory.global_address("held", 0)
    while machine.read(count) == 0:
        machine.step()
    # Another CPU frees the interrupt's object: the installed slab's own freelist has one now.
    machine.write(driver.kept[1], machine.read(held))
    machine.write(count, 0)
    machine.start(1, program.function("test_free").index, (1, 2, 1))
    assert machine.run() == Status.HALTED
    return set(check(driver.kernel, expected_allocated=scene.allocated))


def test_an_installed_slab_loses_its_objects_until_it_is_flushed() -> None:
    for kernel in ("slub", "slub+", "slub+pekka"):
        assert any("objects are handed out" in problem for problem in lost_objects(kernel))
    assert lost_objects("slub-2.6.25") == set()
    assert lost_objects("slub-seq") == set()


def test_every_kernel_with_a_known_fault_says_so_in_a_sentence() -> None:
    for kernel in KERNELS.values():
        assert "\n" not in kernel.description
        assert not kernel.faulty or kernel.faulty.endswith(".")
    assert {"slub", "slub+", "slub-o", "slub+pekka"} <= {k.name for k in KERNELS.values() if k.faulty}
