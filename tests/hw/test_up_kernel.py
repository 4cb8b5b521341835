"""A kernel for one CPU: what only SMP needs is not there, and costs nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slubviz.hw import layout as L
from slubviz.hw.isa import F_OP, WORDS, Op, Status
from slubviz.hw.machine import Machine
from slubviz.hw.pricing import machine_code
from tests.hw.assemble import STATIC, Assembler, small_machine
from tests.hw.test_timelines import clocks

UP = small_machine(1, smp_kernel=False)
SMP = small_machine(1)


def program(rows: Callable[[Assembler], None]) -> tuple[Assembler, int]:
    out = Assembler()
    function = out.function("main")
    rows(out)
    out.ret()
    return out, function


def run(rows: Callable[[Assembler], None]) -> tuple[list[int], Machine]:
    """Clock after each micro-op, r0 = STATIC; and the machine."""
    out, function = program(rows)
    machine = out.load(UP)
    machine.start(0, function, [STATIC])
    return clocks(machine), machine


def test_spin_locks_are_nothing() -> None:
    def rows(out: Assembler) -> None:
        out.op(Op.LOCK, b=0, aux=1)
        out.op(Op.LOCK, b=0, aux=1)  # not even a self-deadlock
        out.op(Op.UNLOCK, b=0, aux=1)
        out.op(Op.UNLOCK_LOCKED, b=0, aux=1)
        out.op(Op.UNLOCK, b=0, aux=1)  # nor an unlock of a free lock

    times, machine = run(rows)
    assert times == [0, 0, 0, 0, 0, 5]
    assert machine.read(STATIC) == 0
    counters = machine.counters()[0]
    assert counters[: L.HARDWARE_COUNTERS].sum() == 0  # no line was fetched, no lock taken
    assert machine.cpu_word(0, L.C_HELD) == 0


def test_what_a_lock_saves_is_left() -> None:
    def rows(out: Assembler) -> None:
        out.op(Op.LOCK_IRQSAVE, a=2, b=0, aux=1)
        out.op(Op.LOCK_IRQSAVE, a=3, b=0, aux=1)
        out.op(Op.ST, b=0, c=2, imm=8)
        out.op(Op.ST, b=0, c=3, imm=16)

    times, machine = run(rows)
    assert times[:2] == [9, 18]  # irq_save
    assert [machine.read(STATIC + at) for at in (0, 8, 16)] == [0, 1, 0]


def test_a_trylock_succeeds_always() -> None:
    def rows(out: Assembler) -> None:
        out.op(Op.TRYLOCK, a=2, b=0, aux=1)
        out.op(Op.TRYLOCK, a=3, b=0, aux=1)
        out.op(Op.ADD, a=2, b=2, c=3)
        out.op(Op.ST, b=0, c=2, imm=8)

    times, machine = run(rows)
    assert times[:3] == [1, 2, 3]
    assert machine.read(STATIC + 8) == 2
    assert machine.read(STATIC) == 0


@pytest.mark.parametrize(
    ("op", "cost", "locked"),
    [
        (Op.CMPXCHG, 7, False),
        (Op.CMPXCHG_LOCAL, 7, False),
        (Op.CMPXCHG_DOUBLE, 8, False),
        (Op.ATOMIC_ADD, 7, False),
        (Op.XCHG, 19, True),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_there_is_no_lock_prefix(op: Op, cost: int, locked: bool) -> None:
    def rows(out: Assembler) -> None:
        out.op(Op.ST, b=0, c=1)  # leaves the store buffer busy until 506
        out.op(op, a=4, b=0, c=2, aux=3)

    times, machine = run(rows)
    assert times[:2] == [6, (506 if locked else 6 + cost)]
    assert machine.counters()[0, L.N_LOCKED_OPS] == int(locked)


def test_the_effect_of_read_modify_writes_is_the_same() -> None:
    def rows(out: Assembler) -> None:
        for register, value in enumerate((5, 0, 6, 7), 4):
            out.op(Op.LI, a=register, imm=value)
        out.op(Op.ATOMIC_ADD, a=8, b=0, c=4)  # 5
        out.op(Op.CMPXCHG, a=9, b=0, c=4, aux=6)  # 6
        out.op(Op.ATOMIC_ADD, a=10, b=0, c=4)  # 11
        out.op(Op.ATOMIC_ADD, a=11, b=0, c=4, imm=12, size=4)  # 5 in an upper half
        for register in (8, 9, 10, 11):
            out.op(Op.ST, b=0, c=register, imm=8 * register)

    _, machine = run(rows)
    assert [machine.read(STATIC + 8 * n) for n in (0, 8, 9, 10, 11)] == [11, 5, 5, 11, 5]
    assert machine.read(STATIC + 12, 4) == 5


def test_barriers_are_for_the_compiler() -> None:
    def rows(out: Assembler) -> None:
        out.op(Op.ST, b=0, c=1)
        for kind in (0, 1, 2, 3):
            out.op(Op.BARRIER, imm=kind)

    assert run(rows)[0] == [6, 6, 6, 6, 6, 11]


def test_an_interrupt_enters_the_critical_section() -> None:
    """What a lock with interrupts on would deadlock on under SMP goes unnoticed here."""
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.LI, a=1, imm=STATIC)
    out.op(Op.LOCK, b=1, aux=1)
    out.op(Op.COUNT)
    out.op(Op.UNLOCK, b=1, aux=1)
    out.ret()
    main = out.function("main")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=10)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.ret()
    ends = []
    for spec in (SMP, UP):
        machine = out.load(spec)
        machine.start(0, main, [STATIC])
        machine.inject(0, handler, at_micro_op=2)
        ends.append((machine.run(), int(machine.counters()[0, L.HARDWARE_COUNTERS])))
    assert ends == [(Status.FAULT, 0), (Status.HALTED, 1)]


def test_rows_stay_where_they_are() -> None:
    """Debug information is by row; and a row that is not about SMP is the same in both kernels."""
    out = Assembler()
    for op in Op:
        out.op(op, a=1, b=2, c=3, imm=4, aux=5)
    code = np.array(out.rows, dtype=np.int32).reshape(-1)
    up, smp = (machine_code(spec, code).reshape(-1, WORDS) for spec in (UP, SMP))
    changed = {Op(int(op)) for op in smp[(up != smp).any(axis=1), F_OP]}
    assert changed == {
        Op.CMPXCHG,
        Op.CMPXCHG_DOUBLE,
        Op.ATOMIC_ADD,
        Op.LOCK,
        Op.LOCK_IRQSAVE,
        Op.TRYLOCK,
        Op.UNLOCK,
        Op.UNLOCK_LOCKED,
        Op.BARRIER,
    }
    assert (code.reshape(-1, WORDS)[:, F_OP] == list(Op)).all()  # the program itself is untouched
