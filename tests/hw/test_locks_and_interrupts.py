"""No wake-up of a lock is lost, whatever interrupts whom.

Interrupts nest, wait while they are disabled, and come back to where they were.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState, Fault, Op, Status
from slubviz.hw.machine import Machine
from tests.hw.assemble import LINE_BYTES, STATIC, Assembler, small_machine
from tests.hw.compare import Pair

ROUNDS = 3


def lock_user(out: Assembler, name: str, *, irqs_off: bool, locked_unlock: bool = False) -> int:
    """ROUNDS times: take the lock at r0, add 1 to the word next to it without any atomicity, release."""
    number = out.function(name)
    out.op(Op.LI, a=3, imm=ROUNDS)
    out.label(name)
    if irqs_off:
        out.op(Op.IRQ_SAVE, a=4)
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.LD, a=1, b=0, imm=8)
    out.op(Op.INSTRUCTIONS, imm=25)
    out.op(Op.ADDI, a=1, b=1, imm=1)
    out.op(Op.ST, b=0, c=1, imm=8)
    out.op(Op.UNLOCK_LOCKED if locked_unlock else Op.UNLOCK, b=0, aux=1)
    if irqs_off:
        out.op(Op.IRQ_RESTORE, b=4)
    out.op(Op.ADDI, a=3, b=3, imm=-1)
    out.op(Op.BGTI, b=3, imm=0, aux=name)
    out.ret()
    return number


def locking_handler(out: Assembler) -> int:
    """An interrupt handler that takes the lock (its argument) once and adds 1 as well."""
    number = out.function("handler")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.LD, a=1, b=0, imm=8)
    out.op(Op.ADDI, a=1, b=1, imm=1)
    out.op(Op.ST, b=0, c=1, imm=8)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.ret()
    return number


_when = st.tuples(st.none(), st.integers(0, 6000)) | st.tuples(st.integers(0, 35), st.none())


@settings(max_examples=150)
@given(
    st.integers(2, 6),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), _when), max_size=8),
    st.booleans(),
)
def test_no_wake_up_is_lost(
    cpus: int, locked: bool, interrupts: list[tuple[int, bool, tuple[int | None, int | None]]], quick: bool
) -> None:
    """Handlers that only take time may interrupt the holder; those that take the lock, everybody else."""
    out = Assembler()
    handler = locking_handler(out)
    idle = out.function("idle")
    out.op(Op.INSTRUCTIONS, imm=1 if quick else 900)
    out.ret()
    open_user = lock_user(out, "open", irqs_off=False, locked_unlock=locked)
    closed_user = lock_user(out, "closed", irqs_off=True, locked_unlock=locked)
    pair = Pair.of(out, small_machine(6, cpus_per_node=2))
    takers = {cpu % cpus for cpu, takes, _ in interrupts if takes}
    for cpu in range(cpus):
        pair.start(cpu, closed_user if cpu in takers else open_user, [STATIC])
    extra = 0
    for cpu, takes, (at_micro_op, at_cycle) in interrupts:
        pair.inject(
            cpu % cpus, handler if takes else idle, STATIC, at_micro_op=at_micro_op, at_cycle=at_cycle
        )
        extra += takes and at_micro_op is None
    status = pair.run_to_end(20_000)
    assert status == Status.HALTED
    # Every round was counted, and every interrupt; those by count may come after the end of their CPU.
    total = pair.engine.read(STATIC + 8)
    assert cpus * ROUNDS + extra <= total <= cpus * ROUNDS + len(interrupts)
    taken = int(pair.engine.counters()[:, L.N_LOCKS_TAKEN].sum())
    assert taken == total
    assert pair.engine.read(STATIC) == 0


def waiting_pair(cpus: int) -> tuple[Machine, int, int]:
    """CPU 0 holds the lock, the others wait for it; interrupts stay enabled."""
    out = Assembler()
    handler = locking_handler(out)
    user = out.function("user")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=500)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.op(Op.COUNT, imm=0)
    out.ret()
    machine = out.load(small_machine(cpus))
    for cpu in range(cpus):
        machine.start(cpu, user, [STATIC])
    while sum(machine.cpu_word(cpu, L.C_STATE) == CpuState.WAITING_LOCK for cpu in range(cpus)) < cpus - 1:
        assert machine.step() == Status.MICRO_OPS
    return machine, handler, user


def woken_cpu(machine: Machine) -> int | None:
    return next((cpu for cpu in range(machine.spec.cpus) if machine.cpu_word(cpu, L.C_WOKEN)), None)


@pytest.mark.parametrize("cpus", [2, 3, 5])
def test_a_woken_waiter_is_interrupted_by_a_handler_that_takes_the_same_lock(cpus: int) -> None:
    machine, handler, _ = waiting_pair(cpus)
    while (woken := woken_cpu(machine)) is None:
        assert machine.step() == Status.MICRO_OPS
    before = machine.cpu_word(woken, L.C_MICRO_OPS)
    machine.inject(woken, handler, STATIC)
    others = [cpu for cpu in range(1, cpus) if cpu != woken]
    while machine.cpu_word(woken, L.C_MICRO_OPS) == before:
        assert machine.step() in (Status.MICRO_OPS, Status.HALTED)
    # The chance went on to another waiter, if there is one.
    assert machine.cpu_word(woken, L.C_IRQ_DEPTH) == 1
    states = [machine.cpu_word(cpu, L.C_STATE) for cpu in others]
    assert states.count(CpuState.WAITING_LOCK) == max(0, len(others) - 1)
    assert machine.run() == Status.HALTED
    assert machine.read(STATIC + 8) == 1
    assert machine.read(STATIC) == 0
    assert (machine.counters()[:, L.HARDWARE_COUNTERS] == 1).all()


def test_a_waiter_in_a_handler_tries_again_when_it_comes_back() -> None:
    machine, _, _ = waiting_pair(2)
    out_of_queue = machine.cpu_word(1, L.C_MICRO_OPS)
    out = Assembler()
    locking_handler(out)
    # A long handler: the lock is released meanwhile, and nobody is there to be woken.
    machine.inject(1, 1, STATIC)  # the user function takes the lock, holds it for 500 cycles and releases it
    assert machine.run() == Status.HALTED
    assert machine.cpu_word(1, L.C_MICRO_OPS) > out_of_queue
    assert list(machine.counters()[:, L.HARDWARE_COUNTERS]) == [1, 2]


@pytest.mark.parametrize("enabled", [1, 0])
def test_a_lock_that_saves_the_flag_waits_with_interrupts_as_they_were(enabled: int) -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.RDTSC, a=1)
    out.op(Op.ST, b=0, c=1, imm=64)
    out.ret()
    holder = out.function("holder")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=9000)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.ret()
    waiter = out.function("waiter")
    out.op(Op.INSTRUCTIONS, imm=2000)
    out.op(Op.IRQ_ENABLE if enabled else Op.IRQ_DISABLE)
    out.op(Op.LOCK_IRQSAVE, a=4, b=0, aux=1)
    out.op(Op.RDTSC, a=5)
    out.op(Op.IRQ_SAVE, a=6)  # finds them disabled, whatever they were
    out.op(Op.UNLOCK, b=0, aux=1)
    for offset, register in ((128, 4), (136, 5), (144, 6)):
        out.op(Op.ST, b=0, c=register, imm=offset)
    out.op(Op.IRQ_RESTORE, b=4)
    out.op(Op.NOP)
    out.op(Op.IRQ_ENABLE)
    out.ret()
    pair = Pair.of(out, small_machine(2))
    pair.start(0, holder, [STATIC])
    pair.start(1, waiter, [STATIC])
    pair.inject(1, handler, STATIC, at_cycle=5000)
    assert pair.run_compared(200) == Status.HALTED
    flag, acquired, inside = (pair.engine.read(STATIC + offset) for offset in (128, 136, 144))
    assert (flag, inside) == (enabled, 0)
    assert acquired > 9000
    handled = pair.engine.read(STATIC + 64)
    assert (5000 < handled < 6000) if enabled else handled > acquired
    assert pair.engine.counters()[1, L.N_LOCKS_CONTENDED] == 1 + enabled


def test_the_holder_interrupted_by_a_taker_of_its_lock_is_told() -> None:
    machine, handler, _ = waiting_pair(2)
    machine.inject(0, handler, STATIC)
    assert machine.run() == Status.FAULT
    assert machine.fault == Fault.SELF_DEADLOCK
    assert int(machine.state[L.H_FAULT_CPU]) == 0


@pytest.mark.parametrize(
    "write", [Op.ST, Op.XCHG, Op.CMPXCHG, Op.CMPXCHG_LOCAL, Op.ATOMIC_ADD], ids=lambda op: op.name
)
def test_any_write_that_frees_the_word_wakes_a_waiter(write: Op) -> None:
    out = Assembler()
    waits = out.function("waits")
    out.op(Op.LOCK, b=0, aux=1)
    out.ret()
    writes = out.function("writes")
    out.op(Op.INSTRUCTIONS, imm=5000)
    # The word holds 1: -1 + 1, or 0 stored.
    out.op(write, a=5, b=0, c=1 if write in (Op.CMPXCHG, Op.CMPXCHG_LOCAL) else 2, aux=3)
    out.ret()
    pair = Pair.of(out, small_machine(2))
    pair.engine.write(STATIC, 1)
    pair.reference.memory.write(STATIC, 8, 1)
    pair.start(0, waits, [STATIC])
    pair.start(1, writes, [STATIC, 1, -1 if write == Op.ATOMIC_ADD else 0, 0])
    assert pair.run_compared(50) == Status.HALTED
    assert pair.engine.counters()[0, L.N_LOCKS_TAKEN] == 1


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("lock_offset", [0, 4, 8, 12])
def test_a_double_word_exchange_that_frees_a_lock_wakes_its_waiter(size: int, lock_offset: int) -> None:
    """The lock may be any word that the exchange writes."""
    out = Assembler()
    waits = out.function("waits")
    out.op(Op.LOCK, b=0, aux=1, size=4)
    out.ret()
    writes = out.function("writes")
    out.op(Op.INSTRUCTIONS, imm=5000)
    out.op(Op.LD, a=2, b=0, size=size)
    out.op(Op.LD, a=3, b=0, imm=size, size=size)
    out.op(Op.CMPXCHG_DOUBLE, a=1, b=0, c=2, size=size)
    out.ret(1)
    pair = Pair.of(out, small_machine(2))
    base = STATIC + (lock_offset & 8 if size == 4 else 0)
    pair.engine.write(STATIC + lock_offset, 1, 4)
    pair.reference.memory.write(STATIC + lock_offset, 4, 1)
    pair.start(0, waits, [STATIC + lock_offset])
    pair.start(1, writes, [base, 0, 0, 0, 0, 0])
    assert pair.run_compared(50) == Status.HALTED
    assert pair.engine.counters()[0, L.N_LOCKS_TAKEN] == 1


def test_two_bits_of_one_word_are_two_locks() -> None:
    """CPU 0 keeps bit 1 until CPU 2 has bit 0; the waiter for bit 1 came first and must not hide CPU 2."""
    out = Assembler()
    keeper = out.function("keeper")
    out.op(Op.LOCK, b=0, aux=2)
    out.op(Op.INSTRUCTIONS, imm=3000)
    out.op(Op.RENDEZVOUS)
    out.op(Op.UNLOCK, b=0, aux=2)
    out.ret()
    waits_for_keeper = out.function("waits_for_keeper")
    out.op(Op.INSTRUCTIONS, imm=1000)
    out.op(Op.LOCK, b=0, aux=2)
    out.op(Op.UNLOCK, b=0, aux=2)
    out.ret()
    other_bit = out.function("other_bit")
    out.op(Op.INSTRUCTIONS, imm=2000)
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.RENDEZVOUS)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.ret()
    releaser = out.function("releaser")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=5000)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.ret()
    pair = Pair.of(out, small_machine(4))
    pair.expect_rendezvous(2)
    for cpu, function in enumerate((keeper, waits_for_keeper, other_bit, releaser)):
        pair.start(cpu, function, [STATIC])
    assert pair.run_compared(100) == Status.HALTED
    assert pair.engine.read(STATIC) == 0


def test_holding_one_bit_and_waiting_for_another_is_no_deadlock() -> None:
    out = Assembler()
    first = out.function("first")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=2000)
    out.op(Op.LOCK, b=0, aux=2)
    out.ret()
    second = out.function("second")
    out.op(Op.LOCK, b=0, aux=2)
    out.op(Op.INSTRUCTIONS, imm=5000)
    out.op(Op.UNLOCK, b=0, aux=2)
    out.ret()
    machine = out.load(small_machine(2))
    machine.start(0, first, [STATIC])
    machine.start(1, second, [STATIC])
    assert machine.run() == Status.HALTED
    assert machine.read(STATIC) == 3


def test_interrupts_wait_until_they_are_enabled_and_come_in_order_of_injection() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.LI, a=1, imm=STATIC)
    out.op(Op.LD, a=2, b=1)
    out.op(Op.MULI, a=2, b=2, imm=10)
    out.op(Op.ADD, a=2, b=2, c=0)
    out.op(Op.ST, b=1, c=2)
    out.ret()
    function = out.function("main")
    out.op(Op.IRQ_DISABLE)
    for _ in range(5):
        out.op(Op.NOP)
    out.op(Op.LI, a=0, imm=STATIC)
    out.op(Op.LD, a=1, b=0)
    out.op(Op.IRQ_ENABLE)
    out.op(Op.LD, a=2, b=0)
    out.op(Op.ST, b=0, c=1, imm=8)
    out.op(Op.ST, b=0, c=2, imm=16)
    out.ret()
    pair = Pair.of(out, small_machine())
    pair.start(0, function)
    for argument, when in ((3, 15.0), (1, 14.0), (2, 13.0)):
        pair.inject(0, handler, argument, at_cycle=when)
    pair.inject(0, handler, 4, at_micro_op=2)
    assert pair.run_compared(100) == Status.HALTED
    assert [pair.engine.read(STATIC + 8 * i) for i in range(3)] == [3124, 0, 3124]


def test_nested_interrupts_unwind() -> None:
    out = Assembler()
    depth = out.function(
        "depth"
    )  # counts its nesting: argument n enables interrupts and is interrupted by n - 1
    out.op(Op.IRQ_ENABLE)
    out.op(Op.PREEMPT_COUNT, a=1)
    out.op(Op.LI, a=2, imm=STATIC)
    out.op(Op.MULI, a=3, b=0, imm=8)
    out.op(Op.ADD, a=2, b=2, c=3)
    out.op(Op.ST, b=2, c=1)
    out.op(Op.INSTRUCTIONS, imm=200)
    out.op(Op.IRQ_SAVE, a=4)
    out.op(Op.ST, b=2, c=4, imm=LINE_BYTES)
    out.ret()
    function = out.function("main")
    out.op(Op.INSTRUCTIONS, imm=50)
    out.op(Op.NOP)
    out.op(Op.PREEMPT_DISABLE)
    out.op(Op.PREEMPT_COUNT, a=1)
    out.op(Op.IRQ_SAVE, a=2)
    out.op(Op.LI, a=3, imm=STATIC)
    out.op(Op.ST, b=3, c=1, imm=512)
    out.op(Op.ST, b=3, c=2, imm=520)
    out.ret()
    pair = Pair.of(out, small_machine())
    pair.start(0, function)
    for level in range(4):
        pair.inject(0, depth, level, at_micro_op=1 + level)
    assert pair.run_compared(200) == Status.HALTED
    machine = pair.engine
    levels = [machine.read(STATIC + 8 * level) >> 16 for level in range(4)]
    # Level 0 comes after one micro-op; its IRQ_ENABLE is the second: level 1 comes then, and so on.
    assert levels == [1, 2, 3, 4]
    assert [machine.read(STATIC + LINE_BYTES + 8 * level) for level in range(4)] == [1] * 4
    assert [machine.read(STATIC + at) for at in (512, 520)] == [1, 1]
    assert machine.cpu_word(0, L.C_PREEMPT) == 1
    assert machine.cpu_word(0, L.C_IRQ_DEPTH) == 0


def test_an_interrupt_in_a_called_function_comes_back_to_it() -> None:
    out = Assembler()
    handler = out.function("handler", 12)
    for register in range(12):
        out.op(Op.LI, a=register, imm=-1)
    out.ret()
    out.function("inner", 3)
    out.op(Op.ADDI, a=1, b=0, imm=1)
    out.op(Op.ADD, a=2, b=1, c=0)
    out.ret(2)
    out.function("outer", 3)
    out.op(Op.ADDI, a=out.outgoing(0), b=0, imm=10)
    out.call("inner", result=1)
    out.op(Op.ADD, a=1, b=1, c=0)
    out.ret(1)
    function = out.function("main", 4)
    out.op(Op.LI, a=out.outgoing(0), imm=5)
    out.call("outer", result=2)
    out.op(Op.LI, a=1, imm=STATIC)
    out.op(Op.ST, b=1, c=2)
    out.ret()
    for when in range(14):
        pair = Pair.of(out, small_machine())
        pair.start(0, function)
        pair.inject(0, handler, at_micro_op=when)
        assert pair.run_compared(200) == Status.HALTED
        assert pair.engine.read(STATIC) == (16 + 15) + 5, when


def test_interrupts_of_an_idle_cpu() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.COUNT, imm=0)
    out.ret()
    function = out.function("main")
    out.op(Op.INSTRUCTIONS, imm=10)
    out.ret()
    pair = Pair.of(out, small_machine(2))
    pair.inject(1, handler, at_cycle=1000)
    pair.start(0, function)
    assert pair.run_compared(10) == Status.HALTED
    assert pair.engine.cpu_word(1, L.C_CLOCK) == (1000 + 150 + 5 + 70) * 1000
    # Idle again, and usable.
    pair.start(1, function)
    assert pair.run_compared(10) == Status.HALTED
    assert pair.engine.cpu_word(1, L.C_CLOCK) == (1225 + 15) * 1000


@pytest.mark.parametrize("at_cycle", [20, 300, 690, 3000])
def test_an_interrupted_waiter_at_a_rendezvous_comes_back(at_cycle: int) -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.INSTRUCTIONS, imm=400)
    out.op(Op.COUNT, imm=0)
    out.ret()
    function = out.function("main")
    out.label("again")
    out.op(Op.INSTRUCTIONS, imm=100)
    out.op(Op.ADDI, a=0, b=0, imm=-1)
    out.op(Op.BGTI, b=0, imm=0, aux="again")
    out.op(Op.RENDEZVOUS)
    out.op(Op.RDTSC, a=1)
    out.ret()
    pair = Pair.of(out, small_machine(4))
    pair.expect_rendezvous(4)
    for cpu, rounds in enumerate((1, 9, 3, 1)):
        pair.start(cpu, function, [rounds])
    pair.inject(0, handler, at_cycle=at_cycle)
    pair.inject(3, handler, at_cycle=at_cycle + 37)
    assert pair.run_compared(400) == Status.HALTED
    # Nobody passed before the last one came, at 9 * 102.
    assert min(pair.engine.cpu_word(cpu, L.C_CLOCK) for cpu in range(4)) >= (918 + 21 + 5) * 1000


def test_a_lock_taken_by_other_means_is_contended_once_until_it_is_acquired() -> None:
    out = Assembler()
    main = out.function("main")
    for note in (2, 2, 2, 1, 0, 1, 0, 2, 1):
        out.op(Op.LOCK_NOTE, b=0, imm=note)
        out.op(Op.INSTRUCTIONS, imm=10)
    out.ret()
    machine = out.load(small_machine(1))
    machine.start(0, main, [STATIC])
    assert machine.run() == Status.HALTED
    counters = machine.counters()[0]
    assert counters[L.N_LOCKS_TAKEN] == 3
    assert counters[L.N_LOCKS_CONTENDED] == 2
    instruction = round(machine.spec.costs["instruction"].value * 1000)
    assert counters[L.N_LOCK_WAIT_MILLICYCLES] == (30 + 10) * instruction
