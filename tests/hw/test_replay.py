"""The state is all there is.

Runs in pieces, from checkpoints, in a new machine and without the compiler are the same run.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import Op, Status
from slubviz.hw.machine import Machine
from tests.hw.assemble import LINE_BYTES, STATIC, Assembler, small_machine, small_memory

CPUS = 4
#: Micro-ops of the whole run; checked below.
ALL = 5000


def busy_machine(rounds: int = 40) -> Machine:
    """Four CPUs on two nodes share a lock and a counter, meet, recurse, and are interrupted all the
    time."""
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.LI, a=1, imm=STATIC)
    out.op(Op.IRQ_ENABLE)
    out.op(Op.ATOMIC_ADD, a=2, b=1, c=0, imm=2 * LINE_BYTES)
    out.op(Op.INSTRUCTIONS, imm=15)
    out.ret()
    out.function("leaf", 4)
    out.op(Op.BLEI, b=0, imm=0, aux="bottom")
    out.op(Op.ADDI, a=out.outgoing(0), b=0, imm=-1)
    out.call("leaf", result=1)
    out.op(Op.ADD, a=0, b=0, c=1)
    out.label("bottom")
    out.ret(0)
    function = out.function("main")
    out.op(Op.RENDEZVOUS)
    out.label("again")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.LD, a=2, b=0, imm=LINE_BYTES)
    out.op(Op.ANDI, a=out.outgoing(0), b=2, imm=3)
    out.call("leaf", result=3)
    out.op(Op.ADD, a=2, b=2, c=3)
    out.op(Op.ADDI, a=2, b=2, imm=1)
    out.op(Op.ST, b=0, c=2, imm=LINE_BYTES)
    out.op(Op.UNLOCK, b=0, aux=1)
    out.op(Op.COUNT, imm=1)
    out.op(Op.ADDI, a=1, b=1, imm=-1)
    out.op(Op.BGTI, b=1, imm=0, aux="again")
    out.ret()
    machine = out.load(small_machine(CPUS, cpus_per_node=2))
    machine.expect_rendezvous(CPUS)
    for cpu in range(CPUS):
        machine.start(cpu, function, [STATIC, rounds])
        for number in range(12):
            # Not before the rendezvous.
            machine.inject(cpu, handler, number + 1, at_micro_op=5 + 17 * number + cpu)
            machine.inject(cpu, handler, 100, at_cycle=700 + 900 * number + 3 * cpu)
    return machine


def outcome(machine: Machine) -> tuple[int, int, str]:
    return machine.micro_ops, machine.trace_hash, machine.state_hash()


@pytest.fixture(scope="module")
def at_once() -> tuple[int, int, str]:
    machine = busy_machine()
    assert machine.run() == Status.HALTED
    counters = machine.counters()
    assert 3000 < machine.micro_ops < ALL
    assert (counters[:, L.N_INTERRUPTS] == 24).all()
    assert (counters[:, L.N_LOCKS_CONTENDED] > 0).all()
    assert (counters[:, L.HARDWARE_COUNTERS + 1] == 40).all()
    return outcome(machine)


def test_step_by_step(at_once: tuple[int, int, str]) -> None:
    machine = busy_machine()
    while machine.step() == Status.MICRO_OPS:
        pass
    assert outcome(machine) == at_once


@settings(max_examples=25)
@given(st.lists(st.integers(0, 400), max_size=30), st.booleans())
def test_in_pieces(pieces: list[int], by_cycle: bool) -> None:
    machine = busy_machine(15)
    whole = busy_machine(15)
    whole.run()
    for piece in pieces:
        before = machine.micro_ops
        if by_cycle:
            limit = machine.clock_millicycles + 1000 * piece
            status = machine.run(millicycle_limit=limit)
            if status == Status.CYCLE:
                assert min(machine.state[int(machine.state[L.H_KEYS]) :][:CPUS]) >= limit
        else:
            status = machine.run(machine.micro_ops + piece)
            assert machine.micro_ops == before + piece or status == Status.HALTED
    assert machine.run() == Status.HALTED
    assert outcome(machine) == outcome(whole)


@pytest.mark.parametrize("at", [0, 1, 777, 2500, ALL])
def test_restored_and_moved_states_go_on_equally(at: int, at_once: tuple[int, int, str]) -> None:
    machine = busy_machine()
    machine.run(at)
    checkpoint = machine.copy_state()
    elsewhere = Machine(machine.spec, machine.image, small_memory(machine.spec))
    elsewhere.restore_state(checkpoint)
    for _ in range(2):
        machine.run()
        assert outcome(machine) == at_once
        machine.restore_state(checkpoint)
        assert (machine.state == checkpoint).all()
    elsewhere.run()
    assert outcome(elsewhere) == at_once
    assert (machine.state == checkpoint).all()


def test_a_changed_word_changes_the_run() -> None:
    machine, changed = busy_machine(), busy_machine()
    changed.write(STATIC + LINE_BYTES, 1)
    machine.run()
    changed.run()
    assert changed.trace_hash != machine.trace_hash
    assert changed.state_hash() != machine.state_hash()


def test_breakpoints_stop_before_the_micro_op(at_once: tuple[int, int, str]) -> None:
    machine = busy_machine()
    pc = next(pc for pc in range(len(machine.code) // 8) if machine.code[8 * pc] == Op.COUNT)
    machine.set_breakpoint(pc)
    stops = 0
    while (status := machine.run()) == Status.BREAKPOINT:
        stops += 1
        counts = machine.counters()[:, L.HARDWARE_COUNTERS + 1]
        assert counts.sum() == stops - 1
        cpu = int(machine.state[L.H_CURRENT_CPU])
        assert machine.cpu_word(cpu, L.C_PC) == pc
        assert machine.run() == Status.BREAKPOINT  # it stays there
        assert counts.sum() == stops - 1
        assert machine.step() in (Status.MICRO_OPS, Status.HALTED)
        assert machine.counters()[:, L.HARDWARE_COUNTERS + 1].sum() == stops
    assert status == Status.HALTED
    assert stops == 40 * CPUS
    assert outcome(machine) == at_once


def test_a_breakpoint_can_be_passed_without_stopping_and_removed(at_once: tuple[int, int, str]) -> None:
    machine = busy_machine()
    pc = next(pc for pc in range(len(machine.code) // 8) if machine.code[8 * pc] == Op.COUNT)
    machine.set_breakpoint(pc)
    machine.set_breakpoint(pc)
    assert machine.run() == Status.BREAKPOINT
    machine.skip_breakpoint()
    assert machine.run() == Status.BREAKPOINT
    assert machine.counters()[:, L.HARDWARE_COUNTERS + 1].sum() == 1
    machine.set_breakpoint(pc, on=False)
    assert machine.run() == Status.HALTED
    assert outcome(machine) == at_once


def test_a_limit_in_the_past_does_nothing() -> None:
    machine = busy_machine()
    machine.run(500)
    before = machine.copy_state()
    assert machine.run(100) == Status.MICRO_OPS
    assert machine.run(millicycle_limit=1) == Status.CYCLE
    before[L.H_STATUS] = machine.state[L.H_STATUS]
    assert (machine.state == before).all()


def test_without_the_compiler(at_once: tuple[int, int, str]) -> None:
    program = (
        "from tests.hw.test_replay import busy_machine, outcome\n"
        "from slubviz.hw.jit import jit_enabled\n"
        "machine = busy_machine()\n"
        "machine.run()\n"
        "print(jit_enabled, *outcome(machine))\n"
    )
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
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
    assert done.stdout.split() == ["False", *map(str, at_once)]
