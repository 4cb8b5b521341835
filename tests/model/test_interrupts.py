"""An interrupt at every single micro-op of an operation: what must hold, and the race that must show."""

from __future__ import annotations

import pytest

from slubviz.hw.isa import Status
from slubviz.hw.layout import N_INTERRUPTS
from slubviz.model.invariants import check
from slubviz.model.session import Session
from tests.model.helpers import session

SIZE = 1024  # four objects per slab


def prepared(kernel: str, operation: str) -> tuple[Session, int]:
    """A session whose CPU 0 is about to run one operation; and how many micro-ops that takes
    undisturbed."""
    made = session("A", (SIZE,), 2, kernel, cpus=2, small_caches=True)
    machine, program = made.machine, made.booted.program
    machine.run()
    arguments = (SIZE, 1) if operation == "test_alloc" else (0, 1, 1)
    machine.align_clocks()
    machine.start(0, program.function(operation).index, arguments)
    checkpoint = machine.copy_state()
    before = machine.micro_ops
    assert machine.run() == Status.HALTED
    length = machine.micro_ops - before
    machine.restore_state(checkpoint)
    return made, length


@pytest.mark.parametrize("operation", ["test_alloc", "test_free"])
@pytest.mark.parametrize(
    "handler", ["irq_alloc_free", "irq_alloc", "irq_alloc_alloc_free_first", "irq_nested"]
)
@pytest.mark.parametrize("kernel", ["slub", "slub+"])
def test_interrupt_before_every_micro_op(kernel: str, handler: str, operation: str) -> None:
    made, length = prepared(kernel, operation)
    machine = made.machine
    function = made.booted.program.function(handler).index
    start = int(machine.cpu_blocks()[0, 7])
    checkpoint = machine.copy_state()
    broken: list[int] = []
    for offset in range(length):
        machine.restore_state(checkpoint)
        machine.inject(0, function, SIZE, at_micro_op=start + offset)
        status = machine.run()
        assert status == Status.HALTED
        assert machine.counters()[0, N_INTERRUPTS] == 1
        kept = machine.read(made.booted.memory.global_address("held", 0))
        if check(made.booted, expected_allocated=kept + (3 if operation == "test_alloc" else 1)):
            broken.append(offset)
    aba = kernel == "slub+" and handler == "irq_alloc_alloc_free_first" and operation == "test_alloc"
    if aba:
        # The ABA of the cmpxchg_local fast path: between reading the head's successor and the
        # compare-and-exchange.
        assert broken
    else:
        assert broken == []


def test_aba_hands_out_an_object_that_the_interrupt_holds() -> None:
    """The race that got the cmpxchg_local fast path reverted, found by trying every place."""
    made, length = prepared("slub+", "test_alloc")
    machine, program, memory = made.machine, made.booted.program, made.booted.memory
    function = program.function("irq_alloc_alloc_free_first").index
    start = int(machine.cpu_blocks()[0, 7])
    checkpoint = machine.copy_state()
    held_address = memory.field_address(memory.global_address("held", 0), "held_objects", "of")
    handed_out_twice = []
    for offset in range(length):
        machine.restore_state(checkpoint)
        machine.inject(0, function, SIZE, at_micro_op=start + offset)
        machine.run()
        held = machine.read(held_address)
        machine.start(0, program.function("test_alloc").index, (SIZE, 1))
        machine.run()
        if machine.read(memory.global_address("objects", 0)) == held:
            handed_out_twice.append(offset)
    assert handed_out_twice, "no place shows the race"
    spans = {program.span(_pc_at(made, checkpoint, offset)).line for offset in handed_out_twice}
    source = program.sources["slub.py"].splitlines()
    assert all("cmpxchg_local" in source[line - 1] for line in spans)


def _pc_at(made: Session, checkpoint: object, offset: int) -> int:
    """The micro-op that comes after ``offset`` undisturbed ones."""
    machine = made.machine
    machine.restore_state(checkpoint)  # type: ignore[arg-type]
    machine.run(machine.micro_ops + offset)
    return machine.cpu_word(0, 1)


def test_interrupts_nest_three_deep_in_the_fast_path() -> None:
    made, _ = prepared("slub+", "test_alloc")
    machine, program = made.machine, made.booted.program
    function = program.function("irq_nested").index
    deepest = 0
    for _ in range(3):
        machine.inject(0, function, SIZE)
        for _ in range(30):
            machine.step()
            deepest = max(deepest, machine.cpu_word(0, 12))
    assert deepest == 3
    frames = made.snapshot().cpus[0].frames
    assert sum(frame.interrupt for frame in frames) == machine.cpu_word(0, 12)
    assert machine.run() == Status.HALTED
    assert check(made.booted) == []
