"""What the tracers write down is what the reference machine does, micro-op by micro-op."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.counting import AS_CALLER
from slubviz.hw.isa import CpuState, Op, Status
from slubviz.hw.tracing import (
    M_CONTENDED,
    M_INTERRUPT,
    M_RETRY,
    T_RETURNS,
    T_TAKES,
    CallFinder,
    CostCounter,
    Tracer,
)
from tests.hw.assemble import Assembler, small_machine
from tests.hw.compare import Pair
from tests.hw.programs import injections, statements
from tests.hw.reference import ReferenceCpu, ReferenceMachine
from tests.hw.test_random_programs import MACHINES, pair_of

WORKLOAD, FAST, SLOW, WAITING, IDLE = 1, 2, 3, 4, 0


@dataclass
class Log:
    """What the reference machine did since it was looked at first."""

    times: Counter[int] = field(default_factory=Counter)
    millicycles: Counter[int] = field(default_factory=Counter)
    waited: Counter[int] = field(default_factory=Counter)
    marks: list[tuple[int, int, int]] = field(default_factory=list)  #: position, CPU, kind


class WatchedReference(ReferenceMachine):
    """The reference machine with a log."""

    log: Log

    def _execute(self, this: ReferenceCpu) -> None:
        pc, clock = this.pc, this.clock
        counts = self.counters[this.number].copy()
        super()._execute(this)
        now = self.counters[this.number]
        self.log.times[pc] += 1
        if Op(self.image.code[pc * 8]) != Op.RENDEZVOUS:
            self.log.millicycles[pc] += this.clock - clock
        self.log.waited[pc] += now["lock_wait"] - counts["lock_wait"]
        for name, kind in (("cmpxchg_failed", M_RETRY), ("locks_contended", M_CONTENDED)):
            if now[name] != counts[name]:
                self.log.marks.append((self.micro_ops, this.number, kind))

    def _interrupt(self, this: ReferenceCpu) -> bool:
        turn = self._turn(this)
        clock = max(this.clock, turn if turn is not None else 0)
        if not super()._interrupt(this):
            return False
        self.log.millicycles[this.pc] += this.clock - clock
        self.log.marks.append((self.micro_ops, this.number, M_INTERRUPT))
        return True


def watched(pair: Pair) -> Log:
    """Log what the pair's reference machine does from now on."""
    pair.reference.__class__ = WatchedReference
    log = pair.reference.log = Log()
    return log


def nonzero(values: Any) -> dict[int, int]:
    return {int(at): int(values[at]) for at in np.flatnonzero(values)}


def runs(cpus: int) -> Any:
    bodies = st.lists(statements, min_size=min(2, cpus), max_size=min(4, cpus))
    return st.tuples(bodies, injections(cpus, 8), st.integers(0, 2))


@pytest.mark.parametrize("name", ["one", "two_share_l2", "four_packages", "eight_two_nodes"])
def test_costs_are_those_of_the_reference_machine(name: str) -> None:
    spec = MACHINES[name]

    @settings(max_examples=25)
    @given(runs(spec.cpus), st.integers(1, 400))
    def compare(run: Any, first: int) -> None:
        pair = pair_of(spec, *run)
        log = watched(pair)
        counter = CostCounter(len(pair.engine.code) // 8, spec.cpus)
        limit = pair.engine.micro_ops
        status = Status.MICRO_OPS
        while status == Status.MICRO_OPS:  # in pieces: where they are cut must not matter
            limit += first
            status = pair.engine.run(limit, engine=counter.engine)
        assert status == Status.HALTED
        pair.reference.run(pair.engine.micro_ops)
        pair.check_cpus()
        assert nonzero(counter.times) == dict(log.times)
        assert nonzero(counter.millicycles) == {pc: cost for pc, cost in log.millicycles.items() if cost}
        assert nonzero(counter.waited_millicycles) == {pc: cost for pc, cost in log.waited.items() if cost}

    compare()


@pytest.mark.parametrize("name", ["one", "four_share_l1", "eight_two_nodes"])
def test_marks_are_those_of_the_reference_machine(name: str) -> None:
    spec = MACHINES[name]

    @settings(max_examples=25)
    @given(runs(spec.cpus))
    def compare(run: Any) -> None:
        pair = pair_of(spec, *run)
        log = watched(pair)
        tracer = Tracer(np.full(len(pair.engine.code) // 8, WORKLOAD), spec.cpus)
        tracer.begin(pair.engine.state)
        assert pair.engine.run(20_000, engine=tracer.engine) == Status.HALTED
        pair.reference.run(20_000)
        found = [(row[0], row[2], row[3]) for row in tracer.marks().tolist()]
        by_kind = [
            sorted(m for m in found if m[2] != M_INTERRUPT),
            sorted(log_marks(log, M_INTERRUPT, False)),
        ]
        assert by_kind[0] == by_kind[1]
        # An interrupt comes between two micro-ops; the engine says after which one or with which one.
        interrupts = sorted((m[1], m[0]) for m in found if m[2] == M_INTERRUPT)
        expected = sorted((m[1], m[0]) for m in log_marks(log, M_INTERRUPT, True))
        assert [cpu for cpu, _ in interrupts] == [cpu for cpu, _ in expected]
        assert all(
            at in (wanted, wanted + 1) for (_, at), (_, wanted) in zip(interrupts, expected, strict=True)
        )

    compare()


def log_marks(log: Log, kind: int, equal: bool) -> list[tuple[int, int, int]]:
    return [mark for mark in log.marks if (mark[2] == kind) == equal]


def slow_spans(pair: Pair, classes: np.ndarray) -> list[list[int]]:
    """The spans, found by stepping and looking at the whole machine between any two micro-ops."""
    machine = pair.engine
    cpus = range(machine.spec.cpus)

    def doing() -> list[tuple[int, int]]:
        found = []
        for block in machine.cpu_blocks():
            state, pc = int(block[L.C_STATE]), int(block[L.C_PC])
            if state == CpuState.RUNNING:
                # Only micro-ops that have a class of their own here: callers are another test's.
                found.append(
                    (WAITING if block[L.C_CONTENDED] else int(classes[pc]), int(block[L.C_IRQ_DEPTH]))
                )
            else:
                found.append((WAITING if state == CpuState.WAITING_LOCK else IDLE, int(block[L.C_IRQ_DEPTH])))
        return found

    start = machine.micro_ops
    last, begun = doing(), [start] * machine.spec.cpus
    clocks = [machine.cpu_word(cpu, L.C_CLOCK) for cpu in cpus]
    spans: list[list[int]] = []
    status = Status.MICRO_OPS
    while status == Status.MICRO_OPS:
        status = machine.step()
        now = doing()
        for cpu in cpus:
            if now[cpu] != last[cpu]:
                clock = machine.cpu_word(cpu, L.C_CLOCK)
                spans.append([cpu, begun[cpu], machine.micro_ops, clocks[cpu], clock, *last[cpu]])
                begun[cpu], clocks[cpu] = machine.micro_ops, clock
        last = now
    for cpu in cpus:
        end = max(clocks[cpu], machine.cpu_word(cpu, L.C_CLOCK))
        spans.append([cpu, begun[cpu], machine.micro_ops, clocks[cpu], end, *last[cpu]])
    return sorted(span for span in spans if span[2] > span[1])


@pytest.mark.parametrize("name", ["one", "four_packages", "eight_two_nodes"])
def test_spans_are_those_of_stepping(name: str) -> None:
    spec = MACHINES[name]

    @settings(max_examples=15)
    @given(runs(spec.cpus), st.integers(0, 1000))
    def compare(run: Any, seed: int) -> None:
        pair = pair_of(spec, *run)
        # Long stretches of one class, as programs have.
        classes = np.repeat(np.random.default_rng(seed).integers(1, 4, 400), 4)[: len(pair.engine.code) // 8]
        before = pair.engine.copy_state()
        expected = slow_spans(pair, classes)
        pair.engine.restore_state(before)
        tracer = Tracer(classes, spec.cpus)
        tracer.begin(pair.engine.state)
        assert pair.engine.run(engine=tracer.engine) == Status.HALTED
        tracer.end(pair.engine.state)
        assert sorted(tracer.spans(pair.engine.micro_ops).tolist()) == expected

    compare()


@settings(max_examples=15)
@given(runs(4))
def test_a_traced_run_ends_in_the_same_state(run: Any) -> None:
    pair = pair_of(MACHINES["four_packages"], *run)
    before = pair.engine.copy_state()
    assert pair.engine.run() == Status.HALTED
    plain = pair.engine.state_hash()
    micro_ops, functions = len(pair.engine.code) // 8, len(pair.engine.image.entry_pc)
    for tracer in (
        Tracer(np.full(micro_ops, WORKLOAD), 4),
        CostCounter(micro_ops, 4),
        CallFinder(np.zeros((functions, 3)), 1, 8, 4),
    ):
        pair.engine.restore_state(before)
        assert pair.engine.run(engine=tracer.engine) == Status.HALTED
        assert pair.engine.state_hash() == plain


def test_a_caller_that_is_shared_does_what_its_caller_does() -> None:
    """outer (slow) calls shared, workload calls shared: the spans of shared follow who called."""
    out = Assembler()
    out.function("shared", 1)
    out.op(Op.ADDI, a=0, b=0, imm=1)
    out.ret(0)
    out.function("slow", 1)
    out.call("shared", result=0)
    out.ret(0)
    main = out.function("main", 2)
    out.call("shared", result=0)
    out.call("slow", result=0)
    out.ret(0)
    pair = Pair.of(out, small_machine(1))
    classes = np.full(len(pair.engine.code) // 8, WORKLOAD)
    for name, value in (("shared", AS_CALLER), ("slow", SLOW)):
        entry = out.functions[name].entry_pc
        classes[entry : entry + 2] = value
    pair.start(0, main)
    tracer = Tracer(classes, 1)
    tracer.begin(pair.engine.state)
    assert pair.engine.run(engine=tracer.engine) == Status.HALTED
    tracer.end(pair.engine.state)
    # main: call; shared: 2; main: call -> slow: call; shared: 2; slow: ret; main: ret
    rows = [(row[1], row[2], row[5]) for row in tracer.spans(pair.engine.micro_ops).tolist()]
    assert rows == [(0, 4, WORKLOAD), (4, 8, SLOW), (8, 9, WORKLOAD)]
    assert [(row[0], row[3]) for row in tracer.marks().tolist()] == [(4, 0)]


def test_interrupts_nested_three_deep_are_three_levels() -> None:
    out = Assembler()
    handler = out.function("handler", 1)
    out.op(Op.IRQ_ENABLE)
    for _ in range(4):
        out.op(Op.INSTRUCTIONS, imm=1)
    out.op(Op.IRQ_DISABLE)
    out.ret()
    main = out.function("main", 1)
    for _ in range(6):
        out.op(Op.INSTRUCTIONS, imm=1)
    out.ret()
    pair = Pair.of(out, small_machine(1))
    pair.start(0, main)
    for at in (2, 5, 8):
        pair.inject(0, handler, at_micro_op=at)
    tracer = Tracer(np.full(len(pair.engine.code) // 8, WORKLOAD), 1)
    tracer.begin(pair.engine.state)
    assert pair.engine.run(engine=tracer.engine) == Status.HALTED
    tracer.end(pair.engine.state)
    # Each handler runs 3 micro-ops, then the next comes; each has 4 left after it; main has 5 left.
    spans = [(row[1], row[2], row[6]) for row in tracer.spans(pair.engine.micro_ops).tolist()]
    assert spans == [(0, 2, 0), (2, 5, 1), (5, 8, 2), (8, 15, 3), (15, 19, 2), (19, 23, 1), (23, 28, 0)]
    assert [(row[0], row[3]) for row in tracer.marks().tolist()] == [(at, M_INTERRUPT) for at in (2, 5, 8)]


def test_an_interrupt_on_an_idle_cpu_is_traced() -> None:
    out = Assembler()
    handler = out.function("handler", 1)
    out.op(Op.INSTRUCTIONS, imm=1)
    out.ret()
    main = out.function("main", 1)
    for _ in range(200):
        out.op(Op.INSTRUCTIONS, imm=100)
    out.ret()
    pair = Pair.of(out, small_machine(2))
    pair.start(0, main)
    pair.inject(1, handler, at_cycle=50)
    log = watched(pair)
    counter = CostCounter(len(pair.engine.code) // 8, 2)
    before = pair.engine.copy_state()
    assert pair.engine.run(engine=counter.engine) == Status.HALTED
    pair.reference.run(10_000)
    assert nonzero(counter.times) == dict(log.times)
    assert nonzero(counter.millicycles) == {pc: cost for pc, cost in log.millicycles.items() if cost}
    pair.engine.restore_state(before)
    tracer = Tracer(np.full(len(pair.engine.code) // 8, WORKLOAD), 2)
    tracer.begin(pair.engine.state)
    pair.engine.run(engine=tracer.engine)
    tracer.end(pair.engine.state)
    on_idle = [row for row in tracer.spans(pair.engine.micro_ops).tolist() if row[0] == 1]
    assert [(row[5], row[6]) for row in on_idle] == [(IDLE, 0), (WORKLOAD, 1), (IDLE, 0)]
    assert on_idle[1][3] >= 50 * L.MILLI


def objects_program() -> tuple[Assembler, int, int]:
    """``make`` returns the number that it is given plus 8, ``drop`` takes one as its second argument."""
    out = Assembler()
    out.function("make", 1)
    out.op(Op.ADDI, a=0, b=0, imm=8)
    out.ret(0)
    out.function("drop", 3)
    out.op(Op.LI, a=1)  # the first micro-op overwrites the argument
    out.ret()
    main = out.function("main", 3)
    for number in (0x100, 0x200, 0x100):
        out.op(Op.LI, a=out.outgoing(0), imm=number - 8)
        out.call("make", result=1)
        out.op(Op.MOV, a=out.outgoing(1), b=1)
        out.call("drop")
    out.ret()
    handler = out.function("handler", 2)
    out.op(Op.LI, a=out.outgoing(0), imm=0x100 - 8)
    out.call("make", result=1)
    out.ret()
    return out, main, handler


@settings(max_examples=40)
@given(st.lists(st.integers(0, 60), max_size=6), st.sampled_from([1, 3, 10_000]))
def test_calls_that_hand_over_an_object(places: list[int], piece: int) -> None:
    """Whatever interrupts come in between, before, inside and after the calls."""
    out, main, handler = objects_program()
    pair = Pair.of(out, small_machine(1))
    pair.start(0, main)
    for place in places:
        pair.inject(0, handler, at_micro_op=place)
    kinds = np.zeros((len(pair.engine.image.entry_pc), 3), dtype=np.int64)
    kinds[out.functions["make"].number, 0] = T_RETURNS
    kinds[out.functions["drop"].number] = (T_TAKES, 1, 0)
    expected = []
    make_ret = out.functions["make"].entry_pc + 1
    drop_entry = out.functions["drop"].entry_pc
    while pair.reference.next_cpu() is not None:  # the oracle looks at the reference machine's own frames
        this = pair.reference.cpus[0]
        if pair.reference._interrupt(this):
            continue
        pc, depth, window = this.pc, this.irq_depth, this.frames[-1].window
        if pc == make_ret and this.registers[window] == 0x100:
            expected.append((pair.reference.micro_ops + 1, "make", depth))
        pair.reference._execute(this)
        called = Op(pair.reference.image.code[pc * 8]) == Op.CALL and this.pc == drop_entry
        if called and this.registers[this.frames[-1].window + 1] == 0x100:
            expected.append((pair.reference.micro_ops, "drop", depth))
    finder = CallFinder(kinds, 0x100, 8, 1)
    limit, status = 0, Status.MICRO_OPS
    while status == Status.MICRO_OPS:
        limit += piece
        status = pair.engine.run(limit, engine=finder.engine)
    assert status == Status.HALTED
    names = {function.number: name for name, function in out.functions.items()}
    found = [(row[0], names[row[3]], row[5]) for row in finder.calls().tolist()]
    assert found == expected
    assert len([one for one in found if one[2] == 0]) == 4  # main makes and drops it twice


def test_more_events_than_there_is_room_for_at_once() -> None:
    """Every micro-op changes the class, so buffers fill up again and again."""
    out = Assembler()
    main = out.function("main", 2)
    out.op(Op.LI, a=0, imm=30_000)
    out.label("again")
    out.op(Op.ADDI, a=0, b=0, imm=-1)
    out.op(Op.BGTI, b=0, imm=0, aux="again")
    out.ret()
    pair = Pair.of(out, small_machine(1))
    pair.start(0, main)
    classes = np.array([WORKLOAD, FAST, SLOW, WORKLOAD])
    tracer = Tracer(classes, 1)
    tracer.begin(pair.engine.state)
    assert pair.engine.run(engine=tracer.engine) == Status.HALTED
    tracer.end(pair.engine.state)
    spans = tracer.spans(pair.engine.micro_ops)
    assert len(spans) == 60_002
    assert spans[:, 1].tolist() == list(range(60_002))
    assert len(tracer.marks()) == 30_000  # each time the slow part is entered
