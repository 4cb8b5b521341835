"""Lockless SLUB with an interrupt at every single micro-op of an operation: it must not matter; and the
faults that kernels of the time had."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slubviz.hw.isa import CpuState, Fault, Status
from slubviz.hw.layout import (
    C_CLOCK,
    C_FUNCTION,
    C_IRQ_ENABLED,
    C_PC,
    C_PREEMPT,
    C_STACK_BASE,
    C_STACK_END,
    C_STATE,
    C_WINDOW,
)
from slubviz.hw.machine import IntArray, Machine
from slubviz.hw.scheduler import set_key
from slubviz.model.invariants import check, check_cpus, check_page_allocator
from slubviz.model.slub_lockless_invariants import check_cache
from slubviz.model.slub_lockless_view import read_cache
from slubviz.model.snapshot import ObjectState
from tests.model.lockless import SMALL_SLABS, LocklessDriver
from tests.model.test_interrupts import Scene

SIZE = 1024  # four objects in a slab of one page
LARGE = 16384  # from the page allocator
KERNELS: dict[str, tuple[str, dict[str, int]]] = {
    "3.6": ("slub-cpu-partial", {}),
    "3.5": ("slub-cpu-partial", {"UNFREEZE_REWRITE": 0}),
    "3.1": ("slub-cpu-partial", {"CPU_PARTIAL": 0}),
    "3.6 without the instruction": ("slub-cpu-partial", {"HAVE_CMPXCHG_DOUBLE": 0}),
    "4.3": ("slub-bulk", {}),
}
WITHOUT_CHAINS = "3.1"


def driver(variant: str, **options: int) -> LocklessDriver:
    kernel, own = KERNELS[variant]
    return LocklessDriver(kernel, 2, MIN_PARTIAL=0, **SMALL_SLABS, **own, **options)


class LocklessScene(Scene):
    """See ``Scene``; looks only at the cache that is used, which is much faster."""

    def broken(self) -> list[str]:
        """What the invariants say of CPUs, pages and the one cache, objects that interrupts kept included."""
        kernel = self.driver.kernel
        index = self.driver.index(SIZE)
        view = read_cache(kernel, index)
        found = [*check_cpus(kernel), *check_page_allocator(kernel), *check_cache(kernel, index, view)]
        kept = self.machine.read(self.driver.memory.global_address("held", 0))
        allocated = int((view.table.object_state == int(ObjectState.ALLOCATED)).sum())
        if allocated != self.allocated + kept:
            found.append(f"{allocated} objects are handed out, not {self.allocated + kept}")
        return found


def _alloc(made: LocklessDriver, allocated: int, size: int = SIZE) -> Scene:
    return LocklessScene(made, allocated + (size == SIZE), "test_alloc", size, 1)


def _free(made: LocklessDriver, allocated: int, address: int, size: int = SIZE) -> Scene:
    made.machine.write(made.kept[0], address)
    return LocklessScene(made, allocated - (size == SIZE), "test_free", 0, 1, 1)


def alloc_from_a_cpu_slab(made: LocklessDriver) -> Scene:
    for _ in range(2):
        made.alloc(0, SIZE)
    return _alloc(made, 2)


def alloc_with_an_exhausted_cpu_slab(made: LocklessDriver) -> Scene:
    for _ in range(4):
        made.alloc(0, SIZE)
    return _alloc(made, 4)


def alloc_without_a_cpu_slab(made: LocklessDriver) -> Scene:
    return _alloc(made, 0)


def alloc_of_what_was_freed_remotely(made: LocklessDriver) -> Scene:
    objects = [made.alloc(0, SIZE) for _ in range(4)]
    made.free(1, objects[1])
    return _alloc(made, 3)


def alloc_from_the_node(made: LocklessDriver) -> Scene:
    """Three slabs are listed: one becomes the cpu slab, others go to the chain."""
    objects = [made.alloc(1, SIZE) for _ in range(13)]
    for address in objects[:12:4]:
        made.free(1, address)
    made.flush(1, SIZE)
    return _alloc(made, 10)


def alloc_from_the_chain(made: LocklessDriver) -> Scene:
    objects = [made.alloc(1, SIZE) for _ in range(5)]
    made.free(0, objects[2])
    return _alloc(made, 4)


def alloc_of_a_large_object(made: LocklessDriver) -> Scene:
    return _alloc(made, 0, LARGE)


def free_to_the_cpu_slab(made: LocklessDriver) -> Scene:
    objects = [made.alloc(0, SIZE) for _ in range(2)]
    return _free(made, 2, objects[0])


def free_to_the_exhausted_cpu_slab(made: LocklessDriver) -> Scene:
    objects = [made.alloc(0, SIZE) for _ in range(4)]
    return _free(made, 4, objects[0])


def remote_free_to_a_cpu_slab(made: LocklessDriver) -> Scene:
    objects = [made.alloc(1, SIZE) for _ in range(4)]
    return _free(made, 4, objects[1])


def first_free_of_a_full_slab(made: LocklessDriver) -> Scene:
    objects = [made.alloc(1, SIZE) for _ in range(5)]
    return _free(made, 5, objects[0])


def free_that_drains_the_chain(made: LocklessDriver) -> Scene:
    """The chain may promise 6 objects; it has two slabs that were empty when they came, and one of them
    still is."""
    objects = [made.alloc(1, SIZE) for _ in range(33)]
    for address in objects[:28:4]:
        made.free(0, address)
    for address in objects[1:4]:
        made.free(0, address)
    return _free(made, 23, objects[28])


def last_free_of_a_listed_slab(made: LocklessDriver) -> Scene:
    objects = [made.alloc(1, SIZE) for _ in range(5)]
    for address in objects[:3]:
        made.free(1, address)
    made.flush(1, SIZE)
    return _free(made, 2, objects[3])


def free_of_a_large_object(made: LocklessDriver) -> Scene:
    return _free(made, 0, made.alloc(0, LARGE), LARGE)


#: Scene -> a counter that shows that the operation takes the way it should.
SCENES: dict[Callable[[LocklessDriver], Scene], str] = {
    alloc_from_a_cpu_slab: "ALLOC_FASTPATH",
    alloc_with_an_exhausted_cpu_slab: "ALLOC_SLAB",
    alloc_without_a_cpu_slab: "ALLOC_SLAB",
    alloc_of_what_was_freed_remotely: "ALLOC_REFILL",
    alloc_from_the_node: "ALLOC_FROM_PARTIAL",
    alloc_from_the_chain: "CPU_PARTIAL_ALLOC",
    alloc_of_a_large_object: "LARGE_ALLOC",
    free_to_the_cpu_slab: "FREE_FASTPATH",
    free_to_the_exhausted_cpu_slab: "FREE_FASTPATH",
    remote_free_to_a_cpu_slab: "FREE_FROZEN",
    first_free_of_a_full_slab: "CPU_PARTIAL_FREE",
    free_that_drains_the_chain: "CPU_PARTIAL_DRAIN",
    last_free_of_a_listed_slab: "FREE_REMOVE_PARTIAL",
    free_of_a_large_object: "LARGE_FREE",
}
#: The way without per-CPU chains.
WITHOUT_CHAIN = {
    alloc_from_the_chain: "ALLOC_FROM_PARTIAL",
    first_free_of_a_full_slab: "FREE_ADD_PARTIAL",
    free_that_drains_the_chain: "FREE_ADD_PARTIAL",
}


def name_of(scene: object) -> str:
    return str(getattr(scene, "__name__", scene))


@pytest.mark.parametrize("variant", KERNELS)
@pytest.mark.parametrize("make", SCENES, ids=name_of)
def test_a_scene_takes_the_path_that_it_is_named_for(
    make: Callable[[LocklessDriver], Scene], variant: str
) -> None:
    scene = make(driver(variant))
    counter = SCENES[make]
    if variant == WITHOUT_CHAINS:
        counter = WITHOUT_CHAIN.get(make, counter)
    after = scene.driver.all_counters()[counter]
    scene.machine.restore_state(scene.checkpoint)
    assert after - scene.driver.all_counters()[counter] == 1


def handlers_for(variant: str) -> tuple[str, ...]:
    """Several for one kernel; for the others the one that changes most."""
    most = "irq_alloc_alloc_free_first"
    return (most, "irq_free", "irq_nested") if variant == "3.6" else (most,)


#: Scenes that are the same code in all kernels.
_SAME_EVERYWHERE = (
    alloc_from_a_cpu_slab,
    alloc_without_a_cpu_slab,
    alloc_of_a_large_object,
    free_to_the_cpu_slab,
    free_to_the_exhausted_cpu_slab,
    free_of_a_large_object,
)
INTERRUPTED = [
    (variant, make)
    for variant in KERNELS
    for make in SCENES
    if make is not free_that_drains_the_chain and (variant == "3.6" or make not in _SAME_EVERYWHERE)
]


@pytest.mark.parametrize(("variant", "make"), INTERRUPTED, ids=name_of)
def test_interrupt_before_every_micro_op(variant: str, make: Callable[[LocklessDriver], Scene]) -> None:
    scene = make(driver(variant))
    for handler in handlers_for(variant):
        assert scene.interrupt_everywhere(handler) == ([], [])


@pytest.mark.parametrize("variant", KERNELS)
def test_only_the_count_of_a_chain_can_go_wrong(variant: str) -> None:
    """put_cpu_partial exchanges the chain's first slab, without an id.

    An interrupt takes that slab off the chain, uses its last object, frees it again, and so puts the slab
    back in front of a chain that is shorter by one.  The exchange finds the slab that it expects.  If the
    length had been read before, it is one too many; nothing but statistics depends on it.
    """
    scene = free_that_drains_the_chain(driver(variant))
    for handler in handlers_for(variant):
        broken, faults = scene.interrupt_everywhere(handler)
        assert faults == []
        same_first = variant != WITHOUT_CHAINS and handler == "irq_alloc_alloc_free_first"
        assert bool(broken) == same_first
        for offset in broken:
            scene.interrupt(offset, handler)
            (problem,) = scene.broken()
            assert problem.startswith("kmalloc-1024: the partial chain of CPU 0 counts ")
            pcs, _ = scene.trace()
            assert "put_cpu_partial" in scene.functions_at(pcs[offset])


def test_an_exchange_that_an_interrupt_spoils_is_repeated() -> None:
    """The unlocked pair fails where the interrupt comes between the id and the exchange."""
    scene = alloc_from_a_cpu_slab(driver("3.6"))
    before = scene.driver.all_counters()["CMPXCHG_DOUBLE_CPU_FAIL"]
    spoiled = []
    for offset in scene.places():
        scene.interrupt(offset, "irq_alloc_free")
        spoiled.append(scene.driver.all_counters()["CMPXCHG_DOUBLE_CPU_FAIL"] - before)
    assert set(spoiled) == {0, 1}
    first = spoiled.index(1)
    assert spoiled[first : first + sum(spoiled)] == [1] * sum(spoiled), "the places are not one stretch"


@pytest.mark.parametrize("irqs_off", [1, 0])
def test_the_bit_lock_of_the_fallback_needs_interrupts_off(irqs_off: int) -> None:
    """With them on, an interrupt that frees to the same slab waits for a lock that it interrupted."""
    made = driver("3.6 without the instruction", FALLBACK_IRQS_OFF=irqs_off)
    objects = [made.alloc(1, SIZE) for _ in range(4)]
    held = made.memory.global_address("held", 0)
    made.machine.write(held + 8, objects[2])
    made.machine.write(held, 1)  # the interrupt handler will free it
    scene = _free(made, 3, objects[1])
    statuses = [scene.interrupt(offset, "irq_free") for offset in scene.places()]
    deadlocks = statuses.count(Status.FAULT)
    assert bool(deadlocks) == (not irqs_off)
    assert statuses.count(Status.HALTED) == len(statuses) - deadlocks
    if deadlocks:
        scene.interrupt(scene.places()[statuses.index(Status.FAULT)], "irq_free")
        assert made.machine.fault == Fault.SELF_DEADLOCK


# --- bulk -----------------------------------------------------------------------------------------


def bulk_alloc(made: LocklessDriver) -> Scene:
    """Two objects from the cpu slab, then a new slab, four of it, then another."""
    for _ in range(2):
        made.alloc(0, SIZE)
    return LocklessScene(made, 9, "kmem_cache_alloc_bulk", made.cache(SIZE), 1, 7, made.kept[0])


def bulk_free(made: LocklessDriver) -> Scene:
    """Of three slabs, the last is the cpu slab."""
    objects = [made.alloc(0, SIZE) for _ in range(10)]
    for i, address in enumerate(objects[:9]):
        made.machine.write(made.kept[0] + 8 * i, address)
    return LocklessScene(made, 1, "kmem_cache_free_bulk", made.cache(SIZE), 9, made.kept[0])


@pytest.mark.parametrize("make", [bulk_alloc, bulk_free], ids=name_of)
@pytest.mark.parametrize("bulk", [1, 2])
def test_interrupts_in_bulk_operations(bulk: int, make: Callable[[LocklessDriver], Scene]) -> None:
    scene = make(driver("4.3", BULK=bulk))
    for handler in handlers_for("4.3"):
        assert scene.interrupt_everywhere(handler) == ([], [])


# --- a task switch in the window of bulk allocation --------------------------------------------------

_TASK_WORDS = (C_PC, C_WINDOW, C_STATE, C_IRQ_ENABLED, C_FUNCTION, C_PREEMPT)


class Task:
    """What CPU 0 was doing, taken off it so that another can run there: a task switch by hand."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.words = {word: machine.cpu_word(0, word) for word in _TASK_WORDS}
        self.stack = self._stack().copy()
        machine.cpu_blocks()[0, C_STATE] = CpuState.HALTED

    def _stack(self) -> IntArray:
        first, end = (self.machine.cpu_word(0, word) for word in (C_STACK_BASE, C_STACK_END))
        return self.machine.state[first:end]

    def resume(self) -> None:
        """Put it back on CPU 0, which must be idle."""
        assert self.machine.cpu_word(0, C_STATE) == CpuState.HALTED
        self._stack()[:] = self.stack
        for word, value in self.words.items():
            self.machine.cpu_blocks()[0, word] = value
        set_key(self.machine.state, 0, self.machine.cpu_word(0, C_CLOCK))


def free_across_a_bulk_allocation(fixed: int) -> tuple[list[int], list[str]]:
    """A free is left at each of its micro-ops; another task on the CPU allocates more than the CPU has, and
    is left where it has turned interrupts on; the free ends; then the allocation.

    Returns the places of the free where that breaks something, and the names of the functions there.
    """
    made = driver("4.3", BULK_ALLOC_TID=fixed)
    machine = made.machine
    first = made.alloc(0, SIZE)
    free = _free(made, 1, first)
    machine.restore_state(free.checkpoint)
    broken, functions = [], []
    for offset in range(free.length):
        machine.restore_state(free.checkpoint)
        for _ in range(offset):
            machine.step()
        place = machine.cpu_word(0, C_PC)
        freeing = Task(machine)
        made.start(0, "kmem_cache_alloc_bulk", made.cache(SIZE), 1, 5, made.kept[1])
        while machine.cpu_word(0, C_IRQ_ENABLED):
            machine.step()
        while not machine.cpu_word(0, C_IRQ_ENABLED):
            machine.step()
        allocating = Task(machine)
        freeing.resume()
        assert machine.run() == Status.HALTED
        allocating.resume()
        assert machine.run() == Status.HALTED
        if check(made.kernel, expected_allocated=5):
            broken.append(offset)
            functions.append(free.functions_at(place)[-1])
    return broken, functions


def test_a_free_that_began_before_a_bulk_allocation_takes_the_freelist_for_unchanged() -> None:
    """The fault that bulk allocation had from 4.3 until 2020: it emptied the freelist and let others run
    without having moved the transaction id on.  The free had linked its object before the old first one, and
    reads the freelist again for the exchange: empty, as it is.  So its object leads to objects in use."""
    broken, functions = free_across_a_bulk_allocation(0)
    assert broken == list(range(broken[0], broken[-1] + 1))
    assert set(functions) <= {"slab_free", "set_freepointer", "next_tid"}
    assert free_across_a_bulk_allocation(1) == ([], [])
