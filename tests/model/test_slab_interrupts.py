"""SLAB with an interrupt at the micro-ops of an operation, every single one: nothing may break."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slubviz.hw.isa import Status
from slubviz.hw.layout import C_IRQ_ENABLED, C_MICRO_OPS, C_PC, N_INTERRUPTS
from slubviz.model.invariants import check
from tests.model.slab_driver import SlabDriver, small_machine
from tests.model.slab_pair import pair

SIZE = 1024  # four objects in a slab, its structure in an object of size-64
HANDLERS = ("irq_alloc_free", "irq_alloc", "irq_alloc_alloc_free_first", "irq_free", "irq_nested")


class Scene:
    """A machine whose CPU 0 is about to run one operation.

    Parameters
    ----------
    driver : a machine that is idle
    allocated : objects that are handed out after the operation, without interrupts
    function, arguments : the operation
    """

    def __init__(self, driver: SlabDriver, allocated: int, function: str, *arguments: int) -> None:
        self.driver, self.machine, self.allocated = driver, driver.machine, allocated
        driver.start(0, function, *arguments)
        self.checkpoint = self.machine.copy_state()
        self.first = self.machine.cpu_word(0, C_MICRO_OPS)
        before = self.machine.micro_ops
        counted = driver.counters()
        assert self.machine.run() == Status.HALTED
        self.length = self.machine.micro_ops - before
        after = driver.counters()
        self.gained = {name for name in after if after[name] > counted[name]}
        assert self.broken() == []

    def broken(self) -> list[str]:
        """What the invariants say, objects that interrupts kept included."""
        kept = self.machine.read(self.driver.memory.global_address("held", 0))
        return check(self.driver.kernel, expected_allocated=self.allocated + kept)

    def places(self) -> list[int]:
        """Micro-ops before which an interrupt makes a difference; while interrupts are disabled all wait."""
        self.machine.restore_state(self.checkpoint)
        enabled = []
        for _ in range(self.length):
            enabled.append(bool(self.machine.cpu_word(0, C_IRQ_ENABLED)))
            self.machine.step()
        return [at for at in range(self.length) if enabled[at] or at == 0 or enabled[at - 1]]

    def interrupt(self, offset: int, handler: str) -> Status:
        """Run the operation with an interrupt before its micro-op ``offset``."""
        self.machine.restore_state(self.checkpoint)
        function = self.driver.program.function(handler).index
        self.machine.inject(0, function, SIZE, at_micro_op=self.first + offset)
        return self.machine.run()


def alloc_from_the_array(driver: SlabDriver) -> Scene:
    for _ in range(2):
        driver.alloc(0, SIZE)
    return Scene(driver, 3, "test_alloc", SIZE, 1)


def alloc_that_grows_two_caches(driver: SlabDriver) -> Scene:
    """The cache has no slab, and neither has the one that the slab's structure comes from."""
    return Scene(driver, 1, "test_alloc", SIZE, 1)


def alloc_that_refills_from_a_partial_slab(driver: SlabDriver) -> Scene:
    driver.array(SIZE, "CPU 1")["batchcount"] = 2
    driver.alloc(1, SIZE)
    driver.array(SIZE, "CPU 1")["batchcount"] = 27
    return Scene(driver, 2, "test_alloc", SIZE, 1)


def alloc_that_refills_from_the_shared_array(driver: SlabDriver) -> Scene:
    objects = [driver.alloc(1, SIZE) for _ in range(56)]
    for address in objects:
        driver.free(1, address)
    return Scene(driver, 1, "test_alloc", SIZE, 1)


def free_to_the_array(driver: SlabDriver) -> Scene:
    return free_scene(driver, [driver.alloc(0, SIZE) for _ in range(2)], 0)


def free_that_fills_the_shared_array(driver: SlabDriver) -> Scene:
    objects = [driver.alloc(0, SIZE) for _ in range(56)]
    return free_scene(driver, objects, 54)


def free_that_destroys_slabs(driver: SlabDriver) -> Scene:
    """The shared array is full, and as many objects as a node may keep are free."""
    objects = [driver.alloc(0, SIZE) for _ in range(460)]
    return free_scene(driver, objects, 54 + 216 + 27 * 3)


def free_scene(driver: SlabDriver, objects: list[int], already: int) -> Scene:
    """Some objects are freed, then the next one is about to be."""
    for address in objects[:already]:
        driver.free(0, address)
    driver.machine.write(driver.kept[0], objects[already])
    return Scene(driver, len(objects) - already - 1, "test_free", 0, 1, 1)


#: Scene -> a counter that shows that the operation takes the way it should.
SCENES: dict[Callable[[SlabDriver], Scene], str] = {
    alloc_from_the_array: "ALLOC_FASTPATH",
    alloc_that_grows_two_caches: "REFILL_EMPTY",
    alloc_that_refills_from_a_partial_slab: "REFILL_SLABS",
    alloc_that_refills_from_the_shared_array: "REFILL_SHARED",
    free_to_the_array: "FREE_FASTPATH",
    free_that_fills_the_shared_array: "FLUSH_SHARED",
    free_that_destroys_slabs: "DESTROYED",
}


def name_of(scene: object) -> str:
    return str(getattr(scene, "__name__", scene))


@pytest.mark.parametrize("make", SCENES, ids=name_of)
@pytest.mark.parametrize("handler", HANDLERS)
def test_interrupt_before_every_micro_op(handler: str, make: Callable[[SlabDriver], Scene]) -> None:
    scene = make(SlabDriver(small_machine(2)))
    assert SCENES[make] in scene.gained
    places = scene.places()
    assert places
    if len(places) > 200 and handler != "irq_alloc":
        places = places[HANDLERS.index(handler) :: 11]  # one handler everywhere, the others here and there
    for offset in places:
        assert scene.interrupt(offset, handler) == Status.HALTED
        assert scene.machine.counters()[0, N_INTERRUPTS] == 1
        assert scene.broken() == [], offset


def test_interrupts_are_on_while_a_slab_is_made_and_off_else() -> None:
    """Of a slow allocation interrupts are on outside and in cache_grow, with what it calls, only."""
    scene = alloc_that_grows_two_caches(SlabDriver(small_machine(2)))
    machine, program = scene.machine, scene.driver.program
    machine.restore_state(scene.checkpoint)
    refill = program.function("cache_alloc_refill")
    grow = program.function("cache_grow")
    on_in_grow = 0
    for _ in range(scene.length):
        pc, enabled = machine.cpu_word(0, C_PC), machine.cpu_word(0, C_IRQ_ENABLED)
        if refill.entry_pc <= pc < refill.end_pc:
            assert not enabled
        if grow.entry_pc <= pc < grow.end_pc:
            on_in_grow += enabled
        machine.step()
    assert on_in_grow > 0


def test_an_interrupt_refills_the_array_while_pages_are_fetched() -> None:
    """Exactly as the oracle: the outer allocation takes what the interrupt left in the array."""
    both = pair(2)
    driver = both.driver
    machine, program = driver.machine, driver.program
    pages = program.function("__alloc_pages").entry_pc
    machine.set_breakpoint(pages)
    driver.start(0, "test_alloc", SIZE, 1)
    assert machine.run() == Status.BREAKPOINT
    machine.set_breakpoint(pages, False)
    machine.inject(0, program.function("irq_alloc").index, SIZE)
    assert machine.run() == Status.HALTED
    inner = []
    outer = both.oracle.alloc(0, SIZE, in_window=lambda: inner.append(both.oracle.alloc(0, SIZE)))
    assert driver.counters() == {name: both.oracle.counters[name] for name in driver.counters()}
    assert driver.counters()["GROWN"] == 3  # two of this cache, one for their structures
    held = driver.memory.field_address(driver.memory.global_address("held", 0), "held_objects", "of")
    # The interrupt's slab was made first; both objects are of it.
    first, second = driver.machine.read(held), driver.machine.read(driver.kept[0])
    assert outer.slab == inner[0].slab
    assert (first >> 12, first % 4096, second % 4096) == (
        second >> 12,
        inner[0].index * SIZE,
        outer.index * SIZE,
    )
    assert check(driver.kernel, expected_allocated=2) == []


def test_no_memory_gives_null_and_leaves_everything_sound() -> None:
    driver = SlabDriver(small_machine(2), ops=64)
    for node in range(driver.spec.nodes):
        zone = driver.memory.one(driver.memory.global_address("zones", node), "zone")
        zone["pages_low"] = 1 << 30
    assert driver.alloc(0, SIZE) == 0
    assert check(driver.kernel, expected_allocated=0) == []
    driver.free(0, 0)  # and freeing NULL is nothing
    assert check(driver.kernel, expected_allocated=0) == []
