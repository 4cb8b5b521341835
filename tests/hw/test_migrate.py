"""A running task moves to an idle CPU: what moves, what stays, and when it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState, Op, Status
from slubviz.hw.machine import STACK_WORDS, Machine, MachineError
from tests.hw.assemble import LINE_BYTES, STATIC, Assembler, small_machine
from tests.hw.compare import Pair
from tests.hw.programs import Builder, statements

DEPTH = 5


def recursive(out: Assembler) -> int:
    """A task that calls itself DEPTH deep and adds up on the way back; it notes its CPU at the bottom."""
    out.function("down", 4)
    out.op(Op.BLEI, b=0, imm=0, aux="bottom")
    out.op(Op.ADDI, a=out.outgoing(0), b=0, imm=-1)
    out.call("down", result=1)
    out.op(Op.ADD, a=0, b=0, c=1)
    out.ret(0)
    out.label("bottom")
    out.op(Op.CPU_ID, a=2)
    out.op(Op.LI, a=3, imm=STATIC)
    out.op(Op.ST, b=3, c=2)
    out.ret(0)
    task = out.function("task", 4)
    out.op(Op.LI, a=out.outgoing(0), imm=DEPTH)
    out.call("down", result=1)
    out.op(Op.CPU_ID, a=2)
    out.op(Op.LI, a=3, imm=STATIC)
    out.op(Op.ST, b=3, c=1, imm=8)
    out.op(Op.ST, b=3, c=2, imm=16)
    out.ret()
    return task


def stack(machine: Machine, cpu: int) -> list[int]:
    base = machine.cpu_word(cpu, L.C_STACK_BASE)
    found: list[int] = machine.state[base : base + STACK_WORDS].tolist()
    return found


#: Micro-ops of the whole task: 2 + 3 a level + 5 at the bottom + 2 a level back + 5.
LENGTH = 2 + 3 * DEPTH + 5 + 2 * DEPTH + 5


@pytest.mark.parametrize("at", range(LENGTH))
def test_at_every_depth_the_task_ends_as_if_it_had_stayed(at: int) -> None:
    out = Assembler()
    task = recursive(out)
    pair = Pair.of(out, small_machine(4, cpus_per_node=2))
    pair.start(0, task)
    assert pair.run_compared(at) == Status.MICRO_OPS
    clock = pair.engine.cpu_word(0, L.C_CLOCK)
    pair.migrate(0, 3)
    machine = pair.engine
    assert machine.cpu_word(0, L.C_STATE) == CpuState.HALTED
    assert machine.cpu_word(0, L.C_PC) == -1
    assert machine.cpu_word(3, L.C_STATE) == CpuState.RUNNING
    assert [machine.cpu_word(cpu, L.C_CLOCK) for cpu in (0, 3)] == [clock, clock]
    pair.check_cpus()
    assert pair.run_compared(200) == Status.HALTED
    assert machine.micro_ops == LENGTH
    assert machine.read(STATIC + 8) == sum(range(DEPTH + 1))
    where = [machine.read(STATIC), machine.read(STATIC + 16)]
    # The CPU is read as micro-op 2 + 3 * DEPTH + 1, and again as the third of the last five.
    assert where == [3 if at <= 2 + 3 * DEPTH + 1 else 0, 3 if at <= LENGTH - 5 else 0]
    # The CPU that the task left can be used again, and the other one too.
    for cpu in (0, 3):
        pair.start(cpu, task)
        assert pair.run_compared(200) == Status.HALTED
        assert machine.read(STATIC + 16) == cpu


def test_the_words_that_move() -> None:
    out = Assembler()
    task = recursive(out)
    machine = out.load(small_machine(2))
    machine.start(0, task)
    machine.run(2 + 3 * DEPTH)
    before = stack(machine, 0)
    base, to_base = (machine.cpu_word(cpu, L.C_STACK_BASE) for cpu in (0, 1))
    window = machine.cpu_word(0, L.C_WINDOW)
    end = window - base + machine.image.window_words[machine.cpu_word(0, L.C_FUNCTION)]
    machine.migrate(0, 1)
    after = stack(machine, 1)
    assert machine.cpu_word(1, L.C_WINDOW) == window - base + to_base
    # All words are equal but for the saved windows: one a call, each by the distance of the stacks.
    differing = {at: after[at] - before[at] for at in range(end) if after[at] != before[at]}
    assert set(differing.values()) == {to_base - base}
    assert len(differing) == DEPTH + 1
    assert after[end:] == [0] * (STACK_WORDS - end)


@pytest.mark.parametrize("ahead", [0, 5000])
def test_the_clock_is_the_later_one_of_both(ahead: int) -> None:
    out = Assembler()
    task = recursive(out)
    waste = out.function("waste")
    out.op(Op.INSTRUCTIONS, imm=ahead)
    out.ret()
    pair = Pair.of(out, small_machine(2))
    pair.start(1, waste)
    pair.run_compared(5)
    pair.start(0, task)
    pair.run_compared(4)
    here, there = (pair.engine.cpu_word(cpu, L.C_CLOCK) for cpu in (0, 1))
    assert (here < there) == (ahead > 0)
    pair.migrate(0, 1)
    assert pair.engine.cpu_word(1, L.C_CLOCK) == max(here, there)
    assert pair.engine.cpu_word(0, L.C_CLOCK) == here
    assert pair.run_compared(100) == Status.HALTED


def test_interrupts_stay_with_their_cpu() -> None:
    """By cycle and from sources they come where they were sent to, by count too."""
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.COUNT, imm=0)
    out.ret()
    task = out.function("task")
    for _ in range(30):
        out.op(Op.INSTRUCTIONS, imm=100)
    out.ret()
    pair = Pair.of(out, small_machine(3))
    pair.start(0, task)
    pair.inject(0, handler, at_cycle=1500)
    pair.inject(0, handler, at_cycle=100, period_cycles=1000, count=0)
    pair.inject(1, handler, at_micro_op=5)
    assert pair.run_compared(10) == Status.MICRO_OPS
    pair.migrate(0, 1)
    assert pair.run_compared(100) == Status.HALTED
    taken = pair.engine.counters()[:, L.HARDWARE_COUNTERS].tolist()
    # 3005 cycles and the interrupts in between: at 100, 1100, 1500, 2100, 3100 on CPU 0.
    assert taken == [5, 1, 0]


def test_a_preempt_count_below_zero_moves_with_its_task() -> None:
    """A kernel that enables preemption once too often: its scheduler notices nothing."""
    out = Assembler()
    task = out.function("task")
    out.op(Op.PREEMPT_ENABLE)
    out.op(Op.NOP)
    out.op(Op.PREEMPT_COUNT, a=1)
    out.op(Op.LI, a=2, imm=STATIC)
    out.op(Op.ST, b=2, c=1)
    out.ret()
    pair = Pair.of(out, small_machine(2))
    pair.start(0, task)
    pair.run_compared(1)
    pair.migrate(0, 1)
    assert [pair.engine.cpu_word(cpu, L.C_PREEMPT) for cpu in (0, 1)] == [0, -1]
    assert pair.run_compared(20) == Status.HALTED
    assert pair.engine.read(STATIC) == -1


def test_a_task_that_read_its_cpu_too_early_uses_the_wrong_one() -> None:
    """What the move is for: per-CPU data addressed with a CPU number from before it."""
    out = Assembler()
    task = out.function("task")
    out.op(Op.CPU_ID, a=1)
    out.op(Op.MULI, a=1, b=1, imm=LINE_BYTES)
    out.op(Op.ADD, a=1, b=1, c=0)
    out.op(Op.LI, a=2, imm=1)
    out.op(Op.ST, b=1, c=2)
    out.ret()
    for at, expected in ((0, [0, 1]), (1, [1, 0]), (4, [1, 0])):
        pair = Pair.of(out, small_machine(2))
        pair.start(0, task, [STATIC])
        pair.run_compared(at)
        pair.migrate(0, 1)
        assert pair.run_compared(20) == Status.HALTED
        assert [pair.engine.read(STATIC + cpu * LINE_BYTES) for cpu in (0, 1)] == expected


# --- refusals -------------------------------------------------------------------------------------------


def _one(*ops: tuple[Op, dict[str, int]]) -> Callable[[Assembler], int]:
    def build(out: Assembler) -> int:
        task = out.function("task")
        for op, fields in ops:
            out.op(op, **fields)
        for _ in range(4):
            out.op(Op.INSTRUCTIONS, imm=100)
        out.ret()
        return task

    return build


REFUSALS: dict[str, tuple[Callable[[Assembler], int], int, str]] = {
    "irqs off": (_one((Op.IRQ_DISABLE, {})), 2, "interrupts are disabled"),
    "preemption": (_one((Op.PREEMPT_DISABLE, {})), 2, r"preemption is disabled there \(preempt count 1\)"),
    "lock": (_one((Op.LOCK, {"b": 0, "aux": 1})), 2, "holds a lock"),
    "noted lock": (_one((Op.LOCK_NOTE, {"b": 0, "imm": 1})), 2, "holds a lock"),
    "found taken": (_one((Op.LOCK_NOTE, {"b": 0, "imm": 2})), 2, "waits for a lock"),
    "rendezvous": (_one((Op.RENDEZVOUS, {})), 1, "rendezvous"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_a_scheduler_could_not_take_away(name: str) -> None:
    build, micro_ops, message = REFUSALS[name]
    out = Assembler()
    task = build(out)
    machine = out.load(small_machine(3))
    machine.expect_rendezvous(2)
    machine.start(0, task, [STATIC])
    machine.run(micro_ops)
    refused(machine, 0, 1, f"the task of CPU 0 cannot move to CPU 1: .*{message}")


def refused(machine: Machine, cpu: int, to_cpu: int, message: str) -> None:
    before = machine.state_hash()
    with pytest.raises(MachineError, match=message):
        machine.migrate(cpu, to_cpu)
    assert machine.state_hash() == before


def test_refusals_that_depend_on_others() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.IRQ_ENABLE)
    out.op(Op.INSTRUCTIONS, imm=100)
    out.ret()
    task = out.function("task")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=3000)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=3000)
    out.op(Op.NOP)
    out.ret()
    machine = out.load(small_machine(4))
    refused(machine, 0, 1, "no task runs there")
    refused(machine, 0, 4, "CPU 4 does not exist")
    refused(machine, -1, 0, "CPU -1 does not exist")
    machine.start(0, task, [STATIC])
    machine.start(1, task, [STATIC])
    refused(machine, 0, 1, "is busy")
    refused(machine, 0, 0, "is busy")
    while machine.cpu_word(1, L.C_STATE) != CpuState.WAITING_LOCK:
        machine.step()
    refused(machine, 1, 2, "waits for a lock")
    while not machine.cpu_word(1, L.C_WOKEN):
        machine.step()
    refused(machine, 1, 2, "waits for a lock")  # it may try again now, and has not
    machine.migrate(0, 2)
    machine.inject(2, handler)
    machine.inject(3, handler)
    while not (machine.cpu_word(2, L.C_IRQ_DEPTH) and machine.cpu_word(3, L.C_IRQ_DEPTH)):
        machine.step()
    refused(machine, 2, 0, "in an interrupt handler")
    refused(machine, 3, 0, "in an interrupt handler")
    assert machine.run() == Status.HALTED


# --- random programs -------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(statements, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 150), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12),
    st.integers(1, 2000),
)
def test_random_programs_with_moves(bodies: list[Any], moves: list[tuple[int, int, int]], first: int) -> None:
    """Compared after every micro-op; whatever the engine allows, the reference machine does too."""
    builder = Builder()
    functions = [builder.cpu_function(cpu, body) for cpu, body in enumerate(bodies)]
    pair = Pair.of(builder.out, small_machine(4, cpus_per_node=2))
    numbers = {name: function.number for name, function in builder.out.functions.items()}
    pair.start(0, numbers["format"])
    assert pair.run_to_end(100) == Status.HALTED
    for cpu, function in enumerate(functions):
        pair.start(cpu, function)
    pair.inject(0, numbers["nesting"], at_cycle=first, period_cycles=2000, count=0)

    def interfere(number: int) -> None:
        for when, cpu, to_cpu in moves:
            if when != number:
                continue
            try:
                pair.engine.migrate(cpu, to_cpu)
            except MachineError:
                continue
            pair.reference.migrate(cpu, to_cpu)

    assert pair.run_compared(4000, interfere) == Status.HALTED
