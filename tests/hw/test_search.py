"""Searches find exactly the positions of a slow oracle, in whatever pieces, and change nothing of the run.

The machine is that of ``test_replay``: four CPUs share a lock, are interrupted all the time and nest.  Where
CPUs are in a program with source lines and inlined functions is tested with real kernels, in the tests of
the movements.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw import search_codes as W
from slubviz.hw.engine import CLOCK_FACTOR, HASH_FACTOR
from slubviz.hw.isa import F_OP, WORDS, CpuState, Op, Status
from slubviz.hw.machine import FIRST_STORE_WORDS, Machine
from slubviz.hw.search_engine import Question, SearchEngine, Term
from tests.hw.assemble import LINE_BYTES, PAGE_BYTES, PAGES, STATIC, Assembler, small_machine
from tests.hw.test_replay import CPUS, busy_machine, outcome

ROUNDS = 12
LOCK, SHARED, ATOMIC = STATIC, STATIC + LINE_BYTES, STATIC + 2 * LINE_BYTES


@dataclass(frozen=True)
class Moment:
    """What one position shows."""

    counters: np.ndarray
    blocks: np.ndarray
    words: tuple[int, ...]  #: LOCK, SHARED, ATOMIC
    trace: int
    first_register: tuple[int, ...]


@cache
def moments() -> list[Moment]:
    machine = busy_machine(ROUNDS)
    found = []
    while True:
        blocks = machine.cpu_blocks().copy()
        found.append(
            Moment(
                machine.counters().copy(),
                blocks,
                tuple(machine.read(address) for address in (LOCK, SHARED, ATOMIC)),
                machine.trace_hash,
                tuple(int(machine.state[window]) for window in blocks[:, L.C_WINDOW]),
            )
        )
        if machine.step() == Status.HALTED:
            break
    found.append(
        Moment(
            machine.counters().copy(),
            machine.cpu_blocks().copy(),
            tuple(machine.read(address) for address in (LOCK, SHARED, ATOMIC)),
            machine.trace_hash,
            (),
        )
    )
    assert len(found) == machine.micro_ops + 1
    return found


def where(differs: Callable[[Moment, Moment], bool]) -> list[int]:
    """Positions n at which the moments n - 1 and n differ so."""
    known = moments()
    return [n for n in range(1, len(known)) if differs(known[n - 1], known[n])]


def per_cpu(column: int, cpu: int | None = None) -> list[int]:
    which = slice(None) if cpu is None else cpu
    return where(lambda a, b: bool(np.any(a.counters[which, column] != b.counters[which, column])))


def exits(a: Moment, b: Moment, cpu: int) -> bool:
    came = b.counters[cpu, L.N_INTERRUPTS] - a.counters[cpu, L.N_INTERRUPTS]
    return bool(a.blocks[cpu, L.C_IRQ_DEPTH] + came > b.blocks[cpu, L.C_IRQ_DEPTH])


def waiters(moment: Moment) -> int:
    waits = moment.blocks[:, L.C_STATE] == CpuState.WAITING_LOCK
    return int(np.sum(waits & (moment.blocks[:, L.C_WAIT_ADDRESS] == LOCK)))


QUESTIONS: dict[str, tuple[Question, Callable[[], list[int]]]] = {
    "contended": (
        Question(columns=[(L.N_LOCKS_CONTENDED, 0)]),
        lambda: per_cpu(L.N_LOCKS_CONTENDED),
    ),
    "contended on CPU 2": (
        Question(
            columns=[(L.N_LOCKS_CONTENDED, 0)], triggers=[[Term(W.SUBJECT_CPU, 0, W.EQUAL, 2)]]
        ),
        lambda: per_cpu(L.N_LOCKS_CONTENDED, 2),
    ),
    "own counter": (
        Question(columns=[(L.HARDWARE_COUNTERS + 1, 0)]),
        lambda: per_cpu(L.HARDWARE_COUNTERS + 1),
    ),
    "interrupt on CPU 1": (
        Question(W.WANT_INTERRUPT_IN, 1),
        lambda: per_cpu(L.N_INTERRUPTS, 1),
    ),
    "return from interrupt on CPU 1": (
        Question(W.WANT_INTERRUPT_OUT, 1),
        lambda: where(lambda a, b: exits(a, b, 1)),
    ),
    "return from interrupt": (
        Question(W.WANT_INTERRUPT_OUT),
        lambda: where(lambda a, b: any(exits(a, b, cpu) for cpu in range(CPUS))),
    ),
    "released": (
        Question(W.WANT_RELEASED),
        lambda: where(lambda a, b: bool(np.any(a.blocks[:, L.C_HELD] > b.blocks[:, L.C_HELD]))),
    ),
    "shared word": (
        Question(words=[(SHARED, -1, 0)]),
        lambda: where(lambda a, b: a.words[1] != b.words[1]),
    ),
    "low bits of two words": (
        Question(words=[(ATOMIC, 3, 0), (SHARED, 1, 0)]),
        lambda: where(lambda a, b: a.words[2] & 3 != b.words[2] & 3 or a.words[1] & 1 != b.words[1] & 1),
    ),
    "lock": (
        Question(words=[(LOCK, -1, 0)], locks=[(LOCK, 0)]),
        lambda: where(lambda a, b: a.words[0] != b.words[0] or waiters(a) != waiters(b)),
    ),
    "everything halted": (
        Question(W.WANT_ALL_HALTED),
        lambda: [len(moments()) - 1],
    ),
}  # fmt: skip


def settle(machine: Machine, search: SearchEngine) -> None:
    search.engine(machine.state, machine.code, machine.parameters, machine.micro_ops, L.NEVER)


def all_hits(machine: Machine, search: SearchEngine, pieces: list[int]) -> list[int]:
    """Every hit, going on behind each, the run cut into pieces."""
    found, cuts = [], iter(pieces)
    while True:
        limit = machine.micro_ops + next(cuts, 100_000)
        status = machine.run(limit, engine=search.engine)
        if status in (Status.HALTED, Status.FAULT):
            settle(machine, search)
        if search.hit >= 0:
            assert search.hit in (machine.micro_ops, machine.micro_ops - 1)
            found.append(search.hit)
            search.go_on(search.hit + 1)
        elif status in (Status.HALTED, Status.FAULT):
            return found


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_hit_is_found_and_the_run_stays_the_same(name):
    question, expected = QUESTIONS[name]
    machine, alone = busy_machine(ROUNDS), busy_machine(ROUNDS)
    search = SearchEngine(question, CPUS, stop=True, first=1)
    assert all_hits(machine, search, []) == expected()
    assert expected()
    alone.run()
    assert outcome(machine) == outcome(alone)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(QUESTIONS)),
    st.lists(st.integers(0, 60), max_size=40),
    st.integers(0, 1200),
    st.integers(0, 1500),
)
def test_the_first_and_the_last_in_any_pieces(name, pieces, start, length):
    question, expected = QUESTIONS[name]
    hits = expected()
    machine = busy_machine(ROUNDS)
    machine.run(start)
    first = [n for n in hits if n > start]
    search = SearchEngine(question, CPUS, stop=True, first=start + 1)
    again = machine.copy_state()
    assert all_hits(machine, search, pieces)[:1] == first[:1]
    machine.restore_state(again)
    last = min(start + length, len(moments()) - 1)
    within = [n for n in hits if start < n <= last]
    search = SearchEngine(question, CPUS, stop=False, first=start + 1, last=last)
    for piece in pieces:
        machine.run(min(machine.micro_ops + piece, last), engine=search.engine)
    machine.run(last, engine=search.engine)
    settle(machine, search)
    assert (search.hit, search.hits) == (within[-1] if within else -1, len(within))
    assert machine.trace_hash == moments()[last].trace


# --- marked micro-ops --------------------------------------------------------------------------------------
@cache
def executed() -> list[tuple[int, int]]:
    """(CPU, micro-op) from each position; the trace hash tells where interrupts make it unclear."""
    machine = busy_machine(ROUNDS)
    known, mask = moments(), (1 << 64) - 1
    entry = int(machine.parameters[L.P_INTERRUPT_ENTRY])
    found = []
    for n in range(len(known) - 1):
        a, b = known[n], known[n + 1]
        (cpu,) = np.flatnonzero(a.blocks[:, L.C_MICRO_OPS] != b.blocks[:, L.C_MICRO_OPS]).tolist()
        clock = int(b.blocks[cpu, L.C_CLOCK])
        for pc in (int(a.blocks[cpu, L.C_PC]), machine.image.entry_pc[0]):
            traces = [
                (a.trace ^ (pc + (cpu << 24) + (clock - late) * CLOCK_FACTOR)) * HASH_FACTOR & mask
                for late in (0, entry, 2 * entry)
            ]
            if b.trace & mask in traces:
                found.append((cpu, pc))
                break
        # The rendezvous sets the clock of the last one to arrive after it was hashed.
        else:
            found.append((cpu, int(a.blocks[cpu, L.C_PC])))
    return found


def rows_of(op: Op) -> list[int]:
    machine = busy_machine(ROUNDS)
    return [pc for pc in range(len(machine.code) // WORDS) if machine.code[pc * WORDS + F_OP] == op]


@pytest.mark.parametrize("op", [Op.COUNT, Op.UNLOCK, Op.IRQ_ENABLE, Op.RET, Op.LOCK])
@pytest.mark.parametrize("mixed", [False, True])
def test_marked_micro_ops(op, mixed):
    """Alone, at the engine's own speed, and together with a counter that is watched."""
    pcs = rows_of(op)
    hits = {n for n, (_, pc) in enumerate(executed()) if pc in pcs}
    columns = [(L.HARDWARE_COUNTERS + 1, 1)] if mixed else []
    if mixed:
        hits |= set(per_cpu(L.HARDWARE_COUNTERS + 1))
    question = Question(marks={pc: [0] for pc in pcs}, columns=columns, triggers=[[], []])
    machine, alone = busy_machine(ROUNDS), busy_machine(ROUNDS)
    found = all_hits(machine, SearchEngine(question, CPUS, stop=True, first=0), [])
    assert found == sorted(hits)
    alone.run()
    assert outcome(machine) == outcome(alone)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([W.EQUAL, W.NOT_EQUAL, W.LESS, W.LESS_EQUAL, W.GREATER, W.GREATER_EQUAL]),
    st.integers(0, 4),
    st.integers(0, CPUS - 1),
    st.lists(st.integers(0, 90), max_size=30),
)
def test_marks_with_conditions(comparison, value, cpu, pieces):
    """The leaf function's argument, on one CPU, by register and by a table of variables."""
    pc = busy_machine(ROUNDS).image.entry_pc[1]
    holds = {
        W.EQUAL: lambda x: x == value,
        W.NOT_EQUAL: lambda x: x != value,
        W.LESS: lambda x: x < value,
        W.LESS_EQUAL: lambda x: x <= value,
        W.GREATER: lambda x: x > value,
        W.GREATER_EQUAL: lambda x: x >= value,
    }[comparison]
    expected = [
        n
        for n, (who, at) in enumerate(executed())
        if at == pc and who == cpu and holds(moments()[n].first_register[cpu])
    ]
    table = np.full((pc + 1, 2), W.IS_UNKNOWN, dtype=np.int64)
    table[pc] = (0, 0)
    for subject in (W.SUBJECT_REGISTER, W.SUBJECT_VARIABLE):
        terms = [Term(subject, 0, comparison, value), Term(W.SUBJECT_CPU, 0, W.EQUAL, cpu)]
        question = Question(marks={pc: [0]}, triggers=[terms], variables=[table.reshape(-1)])
        search = SearchEngine(question, CPUS, stop=True, first=0)
        assert all_hits(busy_machine(ROUNDS), search, pieces) == expected


def test_several_triggers_of_one_micro_op():
    pc = rows_of(Op.UNLOCK)[0]
    triggers = [[Term(W.SUBJECT_CPU, 0, W.EQUAL, cpu)] for cpu in range(CPUS)]
    question = Question(marks={pc: list(range(CPUS))}, triggers=triggers)
    machine = busy_machine(ROUNDS)
    search = SearchEngine(question, CPUS, stop=True, first=0)
    for _ in range(20):
        assert machine.run(engine=search.engine) == Status.BREAKPOINT
        assert search.cause == search.cpu == executed()[search.hit][0]
        search.go_on(search.hit + 1)


# --- what else can happen on the way ------------------------------------------------------------------------
def test_a_store_that_has_to_grow_is_no_obstacle():
    out = Assembler()
    function = out.function("main")
    for _ in range(3):
        out.op(Op.GRANULE, b=0, c=1, aux=2)
        out.op(Op.ST, b=0, c=2)
    out.ret()

    def machine() -> Machine:
        made = out.load(small_machine(1))
        made.state[L.H_STORE_USED] = made.state[L.H_STORE_WORDS] = 0
        made.start(0, function, [PAGES, PAGE_BYTES, 8])
        return made

    assert FIRST_STORE_WORDS > 0
    question = Question(words=[(PAGES, -1, 0)], marks={1: [1]}, triggers=[[], []])
    searched, alone = machine(), machine()
    assert all_hits(searched, SearchEngine(question, 1, stop=True, first=0), []) == [1, 2, 3, 4, 5, 6]
    alone.run()
    assert outcome(searched) == outcome(alone)


def test_a_fault_is_reported_like_the_engine_does():
    out = Assembler()
    function = out.function("main")
    out.op(Op.COUNT, imm=1)
    out.op(Op.LD, a=1, b=0)
    out.ret()
    machine = out.load(small_machine(1))
    machine.start(0, function, [0])
    search = SearchEngine(Question(columns=[(L.HARDWARE_COUNTERS + 2, 0)]), 1, stop=True, first=1)
    assert machine.run(engine=search.engine) == Status.FAULT
    assert (search.hit, machine.micro_ops) == (-1, 1)


def test_a_word_written_from_outside_counts_where_it_was_written():
    machine = busy_machine(ROUNDS)
    search = SearchEngine(Question(words=[(STATIC + 8 * LINE_BYTES, -1, 0)]), CPUS, stop=True, first=1)
    assert machine.run(300, engine=search.engine) == Status.MICRO_OPS
    machine.write(STATIC + 8 * LINE_BYTES, 5)
    assert machine.run(600, engine=search.engine) == Status.BREAKPOINT
    assert (search.hit, machine.micro_ops) == (300, 300)


def test_without_the_compiler():
    program = (
        "from tests.hw.test_search import *\n"
        "from slubviz.hw.jit import jit_enabled\n"
        "from slubviz.hw.machine import Machine\n"
        "marks = {pc: [0] for pc in rows_of(Op.RET)}\n"
        "question = Question(W.WANT_RELEASED, columns=[(L.N_INTERRUPTS, 0)], marks=marks)\n"
        "machine = busy_machine(1)\n"
        "print(jit_enabled, *all_hits(machine, SearchEngine(question, CPUS, stop=True, first=0), []))\n"
    )
    outputs = []
    for disabled in ("0", "1"):
        environment = os.environ | {
            "NUMBA_DISABLE_JIT": disabled,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.split())
    assert [output[0] for output in outputs] == ["True", "False"]
    assert outputs[0][1:] == outputs[1][1:]
    assert len(outputs[0]) > 100
