"""Parts of the engine alone: scheduler tree, line directory, lock table, page granules, backing store."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.caches import directory_delete, directory_find, directory_home, directory_row
from slubviz.hw.construction import new_state
from slubviz.hw.isa import Op, Status
from slubviz.hw.locks import lock_row, lock_row_delete
from slubviz.hw.machine import FIRST_STORE_WORDS, Machine, MemoryPlan
from slubviz.hw.memory import set_page_granule, word_index
from slubviz.hw.scheduler import may_run_until, set_key
from tests.hw.assemble import FIRST_FRAME, PAGE_BYTES, PAGE_FRAMES, PAGES, STATIC, Assembler, small_machine

NEVER = L.NEVER


def empty_machine(cpus: int = 1, **shape: Any) -> Machine:
    out = Assembler()
    out.function("main")
    out.ret()
    return out.load(small_machine(cpus, **shape))


# --- scheduler ------------------------------------------------------------------------------------
def check_tree(machine: Machine, keys: list[int]) -> None:
    """The tree's winner, and how long it may run, against a plain minimum."""
    state = machine.state
    first = min(range(len(keys)), key=lambda cpu: (keys[cpu], cpu))
    tree, leaves, at = int(state[L.H_TREE]), int(state[L.H_LEAVES]), int(state[L.H_KEYS])
    if keys[first] != NEVER:
        assert state[tree + 1] == first
    others = [key - (cpu < first) for cpu, key in enumerate(keys) if cpu != first]
    assert may_run_until(state, at, tree, leaves, first) == min(
        [NEVER - (first > 0 and len(keys) > 1), *others]
    )


@pytest.mark.parametrize("cpus", [1, 2, 3, 5, 8, 64, 100])
def test_scheduler_tree(cpus: int) -> None:
    machine = empty_machine(cpus)

    @settings(max_examples=20)
    @given(st.lists(st.tuples(st.integers(0, cpus - 1), st.integers(0, 5) | st.just(NEVER)), max_size=60))
    def compare(changes: list[tuple[int, int]]) -> None:
        machine.state = new_state(machine.spec, machine.image, machine.memory)
        keys = [NEVER] * cpus
        for cpu, key in changes:
            set_key(machine.state, cpu, key)
            keys[cpu] = key
            if min(keys) != NEVER:
                check_tree(machine, keys)

    compare()


@pytest.mark.parametrize("cpus", [1000, 4096])
def test_scheduler_tree_of_many_cpus(cpus: int) -> None:
    machine = empty_machine(cpus)
    generator = random.Random(cpus)
    keys = [NEVER] * cpus
    for _ in range(1500):
        cpu, key = generator.randrange(cpus), generator.choice((generator.randrange(300), NEVER))
        set_key(machine.state, cpu, key)
        keys[cpu] = key
        if generator.random() < 0.2 and min(keys) != NEVER:
            check_tree(machine, keys)


# --- hash tables --------------------------------------------------------------------------------------
def colliding_lines(state: np.ndarray, count: int) -> list[int]:
    """Lines whose rows want to be near the end of the directory, so that runs wrap around."""
    size = int(state[L.H_DIRECTORY_SIZE])
    found: list[int] = []
    line = 1
    while len(found) < count:
        if directory_home(state, line) in (size - 2, size - 1, 0, 1):
            found.append(line)
        line += 1
    return found


_table_changes = st.lists(st.tuples(st.booleans(), st.integers(0, 11)), max_size=80)


@settings(max_examples=150)
@given(_table_changes)
def test_line_directory(changes: list[tuple[bool, int]]) -> None:
    state = empty_machine().state
    lines = colliding_lines(state, 12)
    expected: dict[int, int] = {}
    for number, (insert, which) in enumerate(changes, 1):
        line = lines[which]
        if insert:
            row = directory_row(state, line)
            assert state[row + 1] == expected.get(line, 0)
            state[row + 1] = number
            expected[line] = number
        elif line in expected:
            directory_delete(state, directory_find(state, line))
            del expected[line]
        for each in lines:
            row = directory_find(state, each)
            assert (int(state[row + 1]) if row >= 0 else None) == expected.get(each)
    base, size = int(state[L.H_DIRECTORY]), int(state[L.H_DIRECTORY_SIZE])
    assert np.count_nonzero(state[base : base + 2 * size : 2]) == len(expected)


@settings(max_examples=150)
@given(_table_changes)
def test_lock_table(changes: list[tuple[bool, int]]) -> None:
    state = empty_machine(8).state
    addresses = [STATIC + 4 * i for i in range(12)]
    expected: dict[int, int] = {}
    for number, (insert, which) in enumerate(changes, 1):
        address = addresses[which]
        if insert and (len(expected) < 8 or address in expected):  # one row per waiting CPU at most
            row = lock_row(state, address, 1)
            assert state[row + L.K_COUNT] == expected.get(address, 0)
            state[row + L.K_COUNT] = number
            expected[address] = number
        elif not insert and address in expected:
            lock_row_delete(state, lock_row(state, address, 0))
            del expected[address]
        for each in addresses:
            row = lock_row(state, each, 0)
            assert (int(state[row + L.K_COUNT]) if row >= 0 else None) == expected.get(each)


# --- memory --------------------------------------------------------------------------------------------
_frame = st.integers(FIRST_FRAME, FIRST_FRAME + PAGE_FRAMES - 1)
_memory_changes = st.lists(
    st.one_of(
        st.tuples(st.just("granule"), _frame, st.integers(0, 11)),
        st.tuples(st.just("write"), _frame, st.integers(0, PAGE_BYTES // 8 - 1)),
        st.tuples(st.just("write"), _frame, st.sampled_from([0, 1, 4, 64])),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(_memory_changes)
def test_page_granules(changes: list[tuple[str, int, int]]) -> None:
    state = empty_machine().state
    shift = dict.fromkeys(range(FIRST_FRAME, FIRST_FRAME + PAGE_FRAMES), 10)  # a whole page
    stored: dict[tuple[int, int], tuple[int, int]] = {}  # (frame, granule) -> (word, value)
    for number, (kind, frame, operand) in enumerate(changes, 1):
        if kind == "granule":
            assert set_page_granule(state, frame, operand) == 0
            shift[frame] = min(max(operand, 3), 10)
            stored = {cell: word for cell, word in stored.items() if cell[0] != frame}
        else:
            cell = (frame, 8 * operand >> shift[frame])
            index = word_index(state, frame * PAGE_BYTES + 8 * operand, 8, 1)
            if stored.get(cell, (operand, 0))[0] != operand:
                assert index == -4
            else:
                state[index] = number
                stored[cell] = (operand, number)
        for (where, granule), (word, value) in stored.items():
            index = word_index(state, where * PAGE_BYTES + 8 * word, 8, 0)
            assert state[index] == value, (where, granule)
    slots = [int(state[int(state[L.H_FRAMES]) + frame]) >> L.FRAME_SLOT_SHIFT for frame in shift]
    assert len(set(slots)) == len(slots)


def growing_program() -> tuple[Assembler, int]:
    """Format pages r0 .. r1, write each one's address into its first and last word, add them up in r5."""
    out = Assembler()
    function = out.function("main")
    out.op(Op.LI, a=2, imm=PAGE_BYTES)
    out.op(Op.LI, a=3, imm=8)
    out.op(Op.LI, a=5)
    out.label("again")
    out.op(Op.GRANULE, b=0, c=2, aux=3)
    out.op(Op.ST, b=0, c=0)
    out.op(Op.ST, b=0, c=0, imm=PAGE_BYTES - 8)
    out.op(Op.LD, a=4, b=0, imm=PAGE_BYTES - 8)
    out.op(Op.ADD, a=5, b=5, c=4)
    out.op(Op.ADD, a=0, b=0, c=2)
    out.op(Op.BLE, b=0, c=1, aux="again")
    out.op(Op.LI, a=4, imm=STATIC)
    out.op(Op.ST, b=6, c=5)
    out.ret()
    return out, function


def growing_machine(pages: int) -> tuple[Machine, int]:
    out, function = growing_program()
    static = (FIRST_FRAME + pages + 1) * PAGE_BYTES
    plan = MemoryPlan(FIRST_FRAME, pages, static, PAGE_BYTES, np.zeros(pages, dtype=np.int64))
    machine = Machine(small_machine(), out.image(), plan)
    machine.start(0, function, [PAGES, PAGES + (pages - 1) * PAGE_BYTES, 0, 0, 0, 0, static])
    return machine, static


def test_growth_of_the_backing_store_changes_nothing_else() -> None:
    pages = 3 * FIRST_STORE_WORDS // (PAGE_BYTES // 8) + 5
    machine, static = growing_machine(pages)
    roomy, _ = growing_machine(pages)
    for _ in range(2):
        roomy._grow_store()
    for each in (machine, roomy):
        assert each.run() == Status.HALTED
    assert machine.state[L.H_STORE_WORDS] == 4 * FIRST_STORE_WORDS  # it had to grow twice
    assert machine.state_hash() == roomy.state_hash()
    addresses = [PAGES + i * PAGE_BYTES for i in range(pages)]
    assert machine.read(static) == sum(addresses)
    assert all(machine.read(a) == a == machine.read(a + PAGE_BYTES - 8) for a in addresses)


def test_a_step_that_needs_memory_is_one_step() -> None:
    pages = FIRST_STORE_WORDS // (PAGE_BYTES // 8) + 2
    machine, _ = growing_machine(pages)
    words = int(machine.state[L.H_STORE_WORDS])
    while machine.state[L.H_STORE_WORDS] == words:
        before = machine.micro_ops
        assert machine.step() == Status.MICRO_OPS
        assert machine.micro_ops == before + 1


def test_a_step_passes_a_breakpoint_on_a_micro_op_that_needs_memory() -> None:
    pages = FIRST_STORE_WORDS // (PAGE_BYTES // 8) + 2
    machine, _ = growing_machine(pages)
    granule = next(pc for pc in range(20) if machine.code[pc * 8] == Op.GRANULE)
    machine.set_breakpoint(granule)
    for number in range(pages):
        assert machine.run() == Status.BREAKPOINT
        before = machine.micro_ops
        assert machine.step() == Status.MICRO_OPS, number
        assert machine.micro_ops == before + 1
    assert machine.run() == Status.HALTED
