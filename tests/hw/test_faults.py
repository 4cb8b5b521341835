"""Program errors: each is found, named, and located; and results of each arithmetic opcode at its
limits."""

from __future__ import annotations

import pytest

from slubviz.hw import layout as L
from slubviz.hw.isa import Fault, Op, Status
from slubviz.hw.machine import STACK_WORDS, Machine, MachineError
from tests.hw.assemble import PAGE_BYTES, PAGES, STATIC, STATIC_BYTES, Assembler, small_machine
from tests.hw.compare import Pair

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


def run_rows(*rows: tuple[Op, dict[str, int]], arguments: list[int]) -> Machine:
    """Run some rows on one CPU, compared with the reference machine."""
    out = Assembler()
    function = out.function("main")
    for op, fields in rows:
        out.op(op, **fields)
    out.ret()
    pair = Pair.of(out, small_machine())
    pair.start(0, function, arguments)
    pair.run_compared(100)
    return pair.engine


UNMAPPED = [PAGE_BYTES, 10 * PAGE_BYTES, 11 * PAGE_BYTES + 8, STATIC + STATIC_BYTES, 1 << 40, -8]
ACCESSES = [Op.LD, Op.ST, Op.XCHG, Op.CMPXCHG_LOCAL, Op.CMPXCHG_DOUBLE, Op.LOCK, Op.UNLOCK, Op.TRYLOCK]


@pytest.mark.parametrize("op", ACCESSES, ids=lambda op: op.name)
@pytest.mark.parametrize(
    ("address", "fault"),
    [
        (0, Fault.NULL_POINTER),
        (PAGE_BYTES - 8, Fault.NULL_POINTER),
        *((address, Fault.BAD_ADDRESS) for address in UNMAPPED),
        (STATIC + 4, Fault.MISALIGNED),
        (STATIC + 1, Fault.MISALIGNED),
    ],
)
def test_bad_addresses(op: Op, address: int, fault: Fault) -> None:
    machine = run_rows((op, {"a": 8, "b": 0, "c": 1, "aux": 1}), arguments=[address, 0])
    assert machine.fault == fault
    state = machine.state
    assert [int(state[i]) for i in (L.H_FAULT_CPU, L.H_FAULT_PC)] == [0, 0]
    assert int(state[L.H_FAULT_ADDRESS]) == address
    assert machine.micro_ops == 0


def test_a_wild_store_changes_no_memory() -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.ST, b=0, c=1)
    out.ret()
    for address in (PAGE_BYTES + 8 * word for word in range(PAGE_BYTES // 8)):
        machine = out.load(small_machine())
        machine.start(0, function, [address, 77])
        before = machine.copy_state()
        assert machine.run() == Status.FAULT
        changed = set((before != machine.state).nonzero()[0].tolist())
        block = int(machine.state[L.H_CPU_BLOCKS])
        told = {
            L.H_FAULT,
            L.H_FAULT_PC,
            L.H_FAULT_ADDRESS,
            L.H_STATUS,
            block + L.C_CLOCK,
            int(machine.state[L.H_KEYS]),
        }
        assert changed <= told, address


@pytest.mark.parametrize("op", [Op.CMPXCHG_DOUBLE, Op.CMPXCHG_DOUBLE_LOCAL], ids=lambda op: op.name)
def test_double_words_are_aligned_to_both(op: Op) -> None:
    assert run_rows((op, {"a": 8, "b": 0, "c": 1}), arguments=[STATIC + 8, 0, 0]).fault == Fault.MISALIGNED
    assert run_rows((op, {"a": 8, "b": 0, "c": 1}), arguments=[STATIC + 16, 0, 0, 5, 6]).fault == Fault.NONE
    row = (op, {"a": 8, "b": 0, "c": 1, "size": 4})
    assert run_rows(row, arguments=[STATIC + 8, 0, 0, 5, 6]).read(STATIC + 8) == 6 << 32 | 5
    assert run_rows(row, arguments=[STATIC + 4, 0, 0, 5, 6]).fault == Fault.MISALIGNED


@pytest.mark.parametrize("op", [Op.DIV, Op.MOD], ids=lambda op: op.name)
def test_division_by_zero(op: Op) -> None:
    machine = run_rows((Op.NOP, {}), (op, {"a": 8, "b": 0, "c": 1}), arguments=[5, 0])
    assert machine.fault == Fault.DIVISION_BY_ZERO
    assert int(machine.state[L.H_FAULT_PC]) == 1


@pytest.mark.parametrize("op", [Op.DIVI, Op.MODI], ids=lambda op: op.name)
def test_division_by_an_immediate_zero(op: Op) -> None:
    assert run_rows((op, {"a": 8, "b": 0, "imm": 0}), arguments=[5]).fault == Fault.DIVISION_BY_ZERO


def test_a_granule_keeps_one_word() -> None:
    format_page = (Op.GRANULE, {"b": 0, "c": 1, "aux": 2})
    store = [(Op.ST, {"b": 0, "c": 1, "imm": offset}) for offset in (0, 32, 72)]
    arguments = [PAGES, PAGE_BYTES, 32]
    machine = run_rows(format_page, *store, arguments=arguments)
    assert machine.fault == Fault.NONE
    assert [machine.read(PAGES + at) for at in (0, 32, 72)] == [PAGE_BYTES] * 3
    for other in ((Op.ST, {"b": 0, "c": 1, "imm": 64}), (Op.LD, {"a": 8, "b": 0, "imm": 64})):
        machine = run_rows(format_page, *store, other, arguments=arguments)
        assert machine.fault == Fault.GRANULE
        assert int(machine.state[L.H_FAULT_ADDRESS]) == PAGES + 64
    # Formatting again forgets.
    machine = run_rows(format_page, *store, format_page, other, arguments=arguments)
    assert machine.fault == Fault.NONE
    assert machine.read(PAGES) == 0


@pytest.mark.parametrize("address", [0, PAGE_BYTES, 10 * PAGE_BYTES, STATIC, PAGES + 7 * PAGE_BYTES + 512])
def test_granules_are_for_page_memory(address: int) -> None:
    machine = run_rows((Op.GRANULE, {"b": 0, "c": 1, "aux": 2}), arguments=[address, PAGE_BYTES, 8])
    assert machine.fault == Fault.BAD_ADDRESS


def test_unlock_of_a_free_lock_and_self_deadlock() -> None:
    for op in (Op.UNLOCK, Op.UNLOCK_LOCKED):
        assert run_rows((op, {"b": 0, "aux": 1}), arguments=[STATIC]).fault == Fault.UNLOCK_FREE
    lock = (Op.LOCK, {"b": 0, "aux": 1})
    machine = run_rows(lock, lock, arguments=[STATIC])
    assert machine.fault == Fault.SELF_DEADLOCK
    assert int(machine.state[L.H_FAULT_PC]) == 1


def test_bug_carries_its_message_number() -> None:
    machine = run_rows((Op.BUG, {"imm": 42}), arguments=[])
    assert (machine.fault, int(machine.state[L.H_FAULT_ADDRESS])) == (Fault.BUG, 42)


def test_endless_recursion_overflows_the_stack() -> None:
    out = Assembler()
    function = out.function("main", 20)
    out.call("main")
    out.ret()
    pair = Pair.of(out, small_machine())
    pair.start(0, function)
    assert pair.run_compared(STACK_WORDS) == Status.FAULT
    assert pair.engine.fault == Fault.STACK_OVERFLOW
    assert 15 < pair.engine.micro_ops < STACK_WORDS // 26 + 1


def test_a_fault_does_not_hide_what_other_cpus_did() -> None:
    out = Assembler()
    good = out.function("good")
    out.op(Op.INSTRUCTIONS, imm=5)
    out.op(Op.ST, b=0, c=0)
    out.ret()
    bad = out.function("bad")
    out.op(Op.INSTRUCTIONS, imm=10)
    out.op(Op.LD, a=1, b=0)
    out.ret()
    machine = out.load(small_machine(2))
    machine.start(0, good, [STATIC])
    machine.start(1, bad, [0])
    assert machine.run() == Status.FAULT
    assert int(machine.state[L.H_FAULT_CPU]) == 1
    assert machine.read(STATIC) == STATIC


def test_a_deadlock_of_two_locks_is_told() -> None:
    out = Assembler()
    function = out.function("main")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=1000)
    out.op(Op.LOCK, b=1, aux=1)
    out.ret()
    machine = out.load(small_machine(2))
    machine.start(0, function, [STATIC, STATIC + 64])
    machine.start(1, function, [STATIC + 64, STATIC])
    assert machine.run() == Status.DEADLOCK


ARITHMETIC: list[tuple[Op, int, int, int]] = [
    (Op.ADD, HIGHEST, 1, LOWEST),
    (Op.SUB, LOWEST, 1, HIGHEST),
    (Op.MUL, 1 << 62, 4, 0),
    (Op.MUL, -3, 7, -21),
    (Op.DIV, 7, 2, 3),
    (Op.DIV, -7, 2, -4),
    (Op.DIV, 7, -2, -4),
    (Op.DIV, -7, -2, 3),
    (Op.DIV, LOWEST, 1, LOWEST),
    (Op.DIV, LOWEST, -1, LOWEST),
    (Op.MOD, 7, 3, 1),
    (Op.MOD, -7, 3, 2),
    (Op.MOD, 7, -3, -2),
    (Op.MOD, LOWEST, -1, 0),
    (Op.AND, -1, 12, 12),
    (Op.OR, 5, 10, 15),
    (Op.XOR, -1, 1, -2),
    (Op.SHL, 1, 63, LOWEST),
    (Op.SHL, 1, 64, 1),
    (Op.SHL, 3, -1, LOWEST),
    (Op.SHR, -8, 1, -4),
    (Op.SHR, LOWEST, 63, -1),
    (Op.SHR, 8, 65, 4),
    (Op.SEQ, 4, 4, 1),
    (Op.SEQ, 4, 5, 0),
    (Op.SNE, 4, 5, 1),
    (Op.SLT, -1, 0, 1),
    (Op.SLT, 0, -1, 0),
    (Op.SLT, 2, 2, 0),
    (Op.SLE, 2, 2, 1),
    (Op.NEG, LOWEST, 0, LOWEST),
    (Op.NEG, 5, 0, -5),
    (Op.NOT, 0, 0, -1),
    (Op.FLS, 0, 0, 0),
    (Op.FLS, 1, 0, 1),
    (Op.FLS, 4096, 0, 13),
    (Op.FLS, -1, 0, 64),
    (Op.FLS, HIGHEST, 0, 63),
    (Op.MOV, LOWEST, 0, LOWEST),
]


@pytest.mark.parametrize(("op", "left", "right", "expected"), ARITHMETIC)
def test_arithmetic(op: Op, left: int, right: int, expected: int) -> None:
    store = (Op.ST, {"b": 0, "c": 3})
    machine = run_rows((op, {"a": 3, "b": 1, "c": 2}), store, arguments=[STATIC, left, right])
    assert machine.read(STATIC) == expected


IMMEDIATES: list[tuple[Op, int, dict[str, int], int]] = [
    (Op.LI, 0, {"imm": -5}, -5),
    (Op.LI64, 0, {"imm": -1, "aux": 1}, (1 << 32) | 0xFFFFFFFF),
    (Op.LI64, 0, {"imm": 7, "aux": -(1 << 31)}, LOWEST + 7),
    (Op.ADDI, HIGHEST, {"imm": 1}, LOWEST),
    (Op.MULI, 1 << 62, {"imm": -2}, LOWEST),
    (Op.DIVI, -7, {"imm": 2}, -4),
    (Op.DIVI, LOWEST, {"imm": -1}, LOWEST),
    (Op.MODI, -7, {"imm": 5}, 3),
    (Op.MODI, LOWEST, {"imm": -1}, 0),
    (Op.ANDI, -1, {"imm": -16}, -16),
    (Op.ORI, 1, {"imm": -16}, -15),
    (Op.XORI, 3, {"imm": 1}, 2),
    (Op.SHLI, 3, {"imm": 63}, LOWEST),
    (Op.SHRI, -1, {"imm": 63}, -1),
]


@pytest.mark.parametrize(("op", "left", "fields", "expected"), IMMEDIATES)
def test_immediates(op: Op, left: int, fields: dict[str, int], expected: int) -> None:
    row = (op, {"a": 3, "b": 1} | fields)
    machine = run_rows(row, (Op.ST, {"b": 0, "c": 3}), arguments=[STATIC, left])
    assert machine.read(STATIC) == expected


@pytest.mark.parametrize(
    ("op", "offset", "expected"), [(Op.LD, 0, 0xFFFFFFFE), (Op.LDS, 0, -2), (Op.LDS, 4, 9)]
)
def test_four_byte_loads(op: Op, offset: int, expected: int) -> None:
    rows = [
        (Op.ST, {"b": 0, "c": 1, "size": 4}),
        (Op.ST, {"b": 0, "c": 2, "size": 4, "imm": 4}),
        (op, {"a": 3, "b": 0, "size": 4, "imm": offset}),
        (Op.ST, {"b": 0, "c": 3, "imm": 8}),
    ]
    machine = run_rows(*rows, arguments=[STATIC, -2, 9])
    assert machine.read(STATIC + 8) == expected
    assert machine.read(STATIC, 4) == 0xFFFFFFFE
    assert machine.read(STATIC, 4, signed=True) == -2
    assert machine.read(STATIC + 4, 4) == 9


def test_memory_from_outside() -> None:
    machine = run_rows(arguments=[])
    machine.write(STATIC + 4, -1, 4)
    machine.write(STATIC, 5, 4)
    assert machine.read(STATIC) == -(1 << 32) + 5
    machine.write(PAGES + 16, LOWEST)
    assert machine.read(PAGES + 16) == LOWEST
    for address, size in (
        (0, 8),
        (PAGE_BYTES, 8),
        (STATIC + 4, 8),
        (STATIC + 2, 4),
        (-8, 8),
        (PAGES + 24, 8),
    ):
        with pytest.raises(MachineError, match="no memory at address"):
            machine.read(address, size)
        with pytest.raises(MachineError, match="no memory at address"):
            machine.write(address, 1, size)


def test_impossible_requests() -> None:
    out = Assembler()
    function = out.function("main")
    out.ret()
    machine = out.load(small_machine(2))
    for cpu in (-1, 2):
        with pytest.raises(MachineError, match="this machine has CPUs 0 to 1"):
            machine.start(cpu, function)
        with pytest.raises(MachineError, match="does not exist"):
            machine.inject(cpu, function)
    machine.start(0, function)
    with pytest.raises(MachineError, match="CPU 0 is busy"):
        machine.start(0, function)
    for _ in range(256):
        machine.inject(1, function, at_cycle=1e9)
    with pytest.raises(MachineError, match="256 interrupts are pending"):
        machine.inject(1, function)
