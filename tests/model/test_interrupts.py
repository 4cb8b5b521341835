"""An interrupt at every single micro-op of an operation: what must hold, and the races that must show."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slubviz.hw.isa import F_OP, WORDS, Fault, Op, Status
from slubviz.hw.layout import C_IRQ_DEPTH, C_IRQ_ENABLED, C_MICRO_OPS, C_PC, H_FAULT_PC, N_INTERRUPTS
from slubviz.model.invariants import check
from tests.model.driver import Driver

SIZE = 1024  # four objects in a slab of one page
LARGE = 4096  # from the page allocator
HANDLERS = ("irq_alloc_free", "irq_alloc", "irq_alloc_alloc_free_first", "irq_free", "irq_nested")


class Scene:
    """A machine whose CPU 0 is about to run one operation.

    Parameters
    ----------
    driver : a machine that is idle
    allocated : objects of kmalloc caches that are handed out after the operation, without interrupts
    function, arguments : the operation
    """

    def __init__(self, driver: Driver, allocated: int, function: str, *arguments: int) -> None:
        self.driver, self.machine, self.allocated = driver, driver.machine, allocated
        self.handler_size = SIZE
        driver.start(0, function, *arguments)
        self.checkpoint = self.machine.copy_state()
        self.first = self.machine.cpu_word(0, C_MICRO_OPS)
        before = self.machine.micro_ops
        assert self.machine.run() == Status.HALTED
        self.length = self.machine.micro_ops - before
        assert self.broken() == []

    def broken(self) -> list[str]:
        """What the invariants say, objects that interrupts kept included."""
        kept = self.machine.read(self.driver.memory.global_address("held", 0))
        return check(self.driver.kernel, expected_allocated=self.allocated + kept)

    def trace(self) -> tuple[list[int], list[bool]]:
        """The micro-ops of the undisturbed operation, and whether interrupts are enabled before each."""
        self.machine.restore_state(self.checkpoint)
        pcs, enabled = [], []
        for _ in range(self.length):
            pcs.append(self.machine.cpu_word(0, C_PC))
            enabled.append(bool(self.machine.cpu_word(0, C_IRQ_ENABLED)))
            self.machine.step()
        return pcs, enabled

    def functions_at(self, pc: int) -> list[str]:
        """Names of the functions, inlined ones too, that a micro-op belongs to, outermost first."""
        return [function.name for function, _ in self.driver.program.inline_stack(pc)]

    def interrupt(self, offset: int, handler: str, times: int = 1) -> Status:
        """Run the operation with interrupts before its micro-op ``offset``."""
        function = self.driver.program.function(handler).index
        self.machine.restore_state(self.checkpoint)
        for _ in range(times):
            self.machine.inject(0, function, self.handler_size, at_micro_op=self.first + offset)
        return self.machine.run()

    def places(self) -> list[int]:
        """Where an interrupt makes a difference.

        One that comes while interrupts are disabled waits until they are enabled: of such micro-ops in a
        row only the first is a place.
        """
        _, enabled = self.trace()
        return [at for at in range(self.length) if enabled[at] or at == 0 or enabled[at - 1]]

    def interrupt_everywhere(self, handler: str, times: int = 1) -> tuple[list[int], list[int]]:
        """Places where an interrupt breaks an invariant, and places where it makes the machine stop."""
        broken, faults = [], []
        for offset in self.places():
            status = self.interrupt(offset, handler, times)
            if status == Status.FAULT:
                faults.append(offset)
                assert self.machine.fault == Fault.MISALIGNED
                assert "load_freelist" in self.functions_at(int(self.machine.state[H_FAULT_PC]))
                continue
            assert status == Status.HALTED
            assert self.machine.counters()[0, N_INTERRUPTS] == times
            if self.broken():
                broken.append(offset)
        return broken, faults


def _alloc_scene(driver: Driver, allocated: int, size: int = SIZE) -> Scene:
    return Scene(driver, allocated + (size == SIZE), "test_alloc", size, 1)


def _free_scene(driver: Driver, allocated: int, address: int, size: int = SIZE) -> Scene:
    driver.machine.write(driver.kept[0], address)
    return Scene(driver, allocated - (size == SIZE), "test_free", 0, 1, 1)


def alloc_from_a_cpu_slab(driver: Driver) -> Scene:
    for _ in range(2):
        driver.alloc(0, SIZE)
    return _alloc_scene(driver, 2)


def alloc_with_an_exhausted_cpu_slab(driver: Driver) -> Scene:
    for _ in range(4):
        driver.alloc(0, SIZE)
    return _alloc_scene(driver, 4)


def alloc_without_a_cpu_slab(driver: Driver) -> Scene:
    return _alloc_scene(driver, 0)


def alloc_of_what_was_freed_remotely(driver: Driver) -> Scene:
    objects = [driver.alloc(0, SIZE) for _ in range(4)]
    driver.free(1, objects[1])
    return _alloc_scene(driver, 3)


def alloc_from_the_partial_list(driver: Driver) -> Scene:
    objects = [driver.alloc(1, SIZE) for _ in range(5)]
    driver.free(1, objects[2])
    return _alloc_scene(driver, 4)


def alloc_of_a_large_object(driver: Driver) -> Scene:
    return _alloc_scene(driver, 0, LARGE)


def free_to_the_cpu_slab(driver: Driver) -> Scene:
    objects = [driver.alloc(0, SIZE) for _ in range(2)]
    return _free_scene(driver, 2, objects[0])


def free_to_the_exhausted_cpu_slab(driver: Driver) -> Scene:
    objects = [driver.alloc(0, SIZE) for _ in range(4)]
    return _free_scene(driver, 4, objects[0])


def remote_free_to_a_full_cpu_slab(driver: Driver) -> Scene:
    objects = [driver.alloc(1, SIZE) for _ in range(4)]
    return _free_scene(driver, 4, objects[1])


def first_free_of_a_full_slab(driver: Driver) -> Scene:
    objects = [driver.alloc(1, SIZE) for _ in range(5)]
    return _free_scene(driver, 5, objects[0])


def last_free_of_a_slab(driver: Driver) -> Scene:
    objects = [driver.alloc(1, SIZE) for _ in range(5)]
    for address in objects[:3]:
        driver.free(1, address)
    return _free_scene(driver, 2, objects[3])


def free_of_a_large_object(driver: Driver) -> Scene:
    return _free_scene(driver, 0, driver.alloc(0, LARGE), LARGE)


#: Scene -> a counter that shows that the operation takes the way it should.
SCENES: dict[Callable[[Driver], Scene], str] = {
    alloc_from_a_cpu_slab: "ALLOC_FASTPATH",
    alloc_with_an_exhausted_cpu_slab: "ALLOC_SLAB",
    alloc_without_a_cpu_slab: "ALLOC_SLAB",
    alloc_of_what_was_freed_remotely: "ALLOC_REFILL",
    alloc_from_the_partial_list: "ALLOC_FROM_PARTIAL",
    alloc_of_a_large_object: "LARGE_ALLOC",
    free_to_the_cpu_slab: "FREE_FASTPATH",
    free_to_the_exhausted_cpu_slab: "FREE_FASTPATH",
    remote_free_to_a_full_cpu_slab: "FREE_FROZEN",
    first_free_of_a_full_slab: "FREE_ADD_PARTIAL",
    last_free_of_a_slab: "FREE_REMOVE_PARTIAL",
    free_of_a_large_object: "LARGE_FREE",
}
NEW_SLAB = (alloc_with_an_exhausted_cpu_slab, alloc_without_a_cpu_slab)


def name_of(scene: object) -> str:
    return str(getattr(scene, "__name__", scene))


@pytest.mark.parametrize("kernel", ["slub", "slub+"])
@pytest.mark.parametrize("make", SCENES, ids=name_of)
def test_a_scene_takes_the_path_that_it_is_named_for(make: Callable[[Driver], Scene], kernel: str) -> None:
    scene = make(Driver(kernel, 2))
    counter = SCENES[make]
    after = scene.driver.all_counters()[counter]
    scene.machine.restore_state(scene.checkpoint)
    assert after - scene.driver.all_counters()[counter] == 1


@pytest.mark.parametrize("make", SCENES, ids=name_of)
@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("kernel", ["slub", "slub+"])
def test_interrupt_before_every_micro_op(kernel: str, handler: str, make: Callable[[Driver], Scene]) -> None:
    scene = make(Driver(kernel, 2))
    broken, faults = scene.interrupt_everywhere(handler)
    aba = kernel == "slub+" and handler == "irq_alloc_alloc_free_first" and make is alloc_from_a_cpu_slab
    window = kernel == "slub+" and handler != "irq_free" and make in NEW_SLAB
    # ABA of the cmpxchg_local fast path: between reading the head's successor and the compare-and-exchange.
    assert bool(broken) == aba
    # Patch 10 does not look whether the slab that an interrupt installed has an object left.
    assert bool(faults) == window


@pytest.mark.parametrize("make", NEW_SLAB, ids=name_of)
@pytest.mark.parametrize("handler", ["irq_alloc", "irq_alloc_free"])
def test_an_allocation_while_pages_are_fetched_faults_with_patch_10_only(
    handler: str, make: Callable[[Driver], Scene]
) -> None:
    """It faults exactly where the interrupt comes between irq_enable and irq_disable of get_new_slab."""
    scene = make(Driver("slub+", 2))
    broken, faults = scene.interrupt_everywhere(handler)
    assert broken == []
    pcs, enabled = scene.trace()
    function = scene.driver.program.function("get_new_slab")
    ops = scene.driver.program.code.reshape(-1, WORDS)[:, F_OP]
    own = [i for i, pc in enumerate(pcs) if function.entry_pc <= pc < function.end_pc]
    (opens,) = [i for i in own if ops[pcs[i]] == Op.IRQ_ENABLE]
    (closes,) = [i for i in own if ops[pcs[i]] == Op.IRQ_DISABLE]
    # What comes while interrupts are disabled waits until they are enabled.
    comes = [next((i for i in range(at, len(pcs)) if enabled[i]), len(pcs)) for at in range(len(pcs))]
    assert faults == [at for at in scene.places() if opens < comes[at] <= closes]
    without = make(Driver("slub+", 2, PATCH_10=0))
    assert without.length > max(faults)
    assert without.interrupt_everywhere(handler) == ([], [])


@pytest.mark.parametrize("end_markers", [False, True])
def test_the_lockless_free_needs_end_markers_that_differ(end_markers: bool) -> None:
    """Interrupts exhaust another slab between the read of the freelist and the compare-and-exchange.

    The freelist was NULL and is NULL again, so the object goes to the freelist of the wrong slab.
    """
    scene = free_to_the_exhausted_cpu_slab(Driver("slub", 2, PATCH_08=1, PATCH_06=int(end_markers)))
    broken, faults = scene.interrupt_everywhere("irq_alloc", times=4)
    assert faults == []
    assert bool(broken) == (not end_markers)
    pcs, _ = scene.trace()
    lines = {scene.driver.program.span(pcs[offset]).line for offset in broken}
    source = scene.driver.program.sources["slub_fastpath.py"].splitlines()
    first = next(i for i, line in enumerate(source, 1) if "freelist = c.freelist" in line)
    last = next(
        i for i, line in enumerate(source, 1) if "cmpxchg_local(c.freelist, freelist, object)" in line
    )
    assert all(first <= line <= last for line in lines)


def test_aba_hands_out_an_object_that_the_interrupt_holds() -> None:
    """The race that got the cmpxchg_local fast path reverted, found by trying every place."""
    scene = alloc_from_a_cpu_slab(Driver("slub+", 2))
    machine, memory = scene.machine, scene.driver.memory
    held_address = memory.field_address(memory.global_address("held", 0), "held_objects", "of")
    handed_out_twice = []
    for offset in range(scene.length):
        scene.interrupt(offset, "irq_alloc_alloc_free_first")
        held = machine.read(held_address)
        if scene.driver.alloc(0, SIZE) == held:
            handed_out_twice.append(offset)
    assert handed_out_twice, "no place shows the race"
    program = scene.driver.program
    pcs, _ = scene.trace()
    lines = {program.span(pcs[offset]).line for offset in handed_out_twice}
    source = program.sources["slub_fastpath.py"].splitlines()
    assert all("cmpxchg_local" in source[line - 1] for line in lines)


def test_interrupts_nest_three_deep_in_the_fast_path() -> None:
    scene = alloc_from_a_cpu_slab(Driver("slub+", 2))
    machine = scene.machine
    machine.restore_state(scene.checkpoint)
    function = scene.driver.program.function("irq_nested").index
    deepest = 0
    for _ in range(3):
        machine.inject(0, function, SIZE)
        for _ in range(30):
            machine.step()
            deepest = max(deepest, machine.cpu_word(0, C_IRQ_DEPTH))
    assert deepest == 3
    frames = scene.driver.session.snapshot().cpus[0].frames
    assert sum(frame.interrupt for frame in frames) == machine.cpu_word(0, C_IRQ_DEPTH)
    assert machine.run() == Status.HALTED
    assert scene.broken() == []
