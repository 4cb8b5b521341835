"""Sources of interrupts: exact times, late CPUs, idle machines, and the reference machine beside them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.injection import PendingInterrupt, Timing, pending_interrupts
from slubviz.hw.isa import CpuState, Op, Status
from slubviz.hw.machine import Machine, MachineError
from tests.hw.assemble import STATIC, Assembler, small_machine
from tests.hw.compare import Pair
from tests.hw.programs import Builder, statements

MULTIPLIER, STEP = 6364136223846793005, 1442695040888963407
ENTRY, EXIT, RETURN = 150, 70, 5
#: Where the handler ``noting`` writes.
TABLE = STATIC + 512


def draws(seed: int, spread_millicycles: int, number: int) -> list[int]:
    """The random parts of the first periods, from the documented rule."""
    found = []
    for _ in range(number):
        seed = (seed * MULTIPLIER + STEP) % (1 << 64)
        found.append((seed >> 16) % (1 << 47) % (spread_millicycles + 1))
    return found


def noting(out: Assembler) -> int:
    """A handler that writes when it began: the first word of TABLE counts, its cycles follow."""
    handler = out.function("noting")
    out.op(Op.RDTSC, a=1)
    out.op(Op.LI, a=2, imm=TABLE)
    out.op(Op.LD, a=3, b=2)
    out.op(Op.ADDI, a=3, b=3, imm=1)
    out.op(Op.ST, b=2, c=3)
    out.op(Op.SHLI, a=3, b=3, imm=3)
    out.op(Op.ADD, a=2, b=2, c=3)
    out.op(Op.ST, b=2, c=1)
    out.ret()
    return handler


def spinning(out: Assembler, name: str = "spinning") -> int:
    """A task of so many rounds; each is two micro-ops of one cycle."""
    function = out.function(name)
    out.label(name)
    out.op(Op.ADDI, a=0, b=0, imm=-1)
    out.op(Op.BGTI, b=0, imm=0, aux=name)
    out.ret()
    return function


def noted(machine: Machine) -> list[int]:
    """Cycles at which the interrupts were delivered."""
    return [machine.read(TABLE + 8 * (1 + n)) - ENTRY - 21 for n in range(machine.read(TABLE))]


def pair_with(rounds: int = 3000) -> tuple[Pair, int]:
    out = Assembler()
    handler, task = noting(out), spinning(out)
    pair = Pair.of(out, small_machine())
    pair.start(0, task, [rounds])
    return pair, handler


def test_a_source_comes_every_period_so_often() -> None:
    pair, handler = pair_with(2500)
    pair.inject(0, handler, at_cycle=1000, period_cycles=1500, count=3)
    assert pair.run_compared(6000) == Status.HALTED
    assert noted(pair.engine) == [1000, 2500, 4000]
    assert pair.engine.cpu_word(0, L.C_IRQ_CYCLE) == L.NEVER


def test_without_a_start_the_first_comes_now_and_without_a_count_one_is_all() -> None:
    pair, handler = pair_with()
    pair.run_compared(40)
    pair.inject(0, handler, period_cycles=800)
    assert pair.run_compared(8000) == Status.HALTED
    assert noted(pair.engine) == [40]


def test_random_times_are_those_of_the_seed() -> None:
    times = {}
    for seed in (0, 1, 77, -5, (1 << 63) + 8):
        pair, handler = pair_with(4000)
        pair.inject(0, handler, at_cycle=100, period_cycles=900, spread_cycles=700, seed=seed, count=5)
        assert pair.run_to_end(20_000) == Status.HALTED
        due = [100_000]
        for chance in draws(seed, 700_000, 4):
            due.append(due[-1] + 900_000 + chance)
        # Each comes before the first micro-op at or after the time at which it is due.
        assert noted(pair.engine) == [-(-when // 1000) for when in due]
        times[seed] = tuple(due)
    assert len(set(times.values())) == len(times)


def test_a_late_cpu_gets_one_interrupt_and_then_the_planned_ones() -> None:
    out = Assembler()
    handler = noting(out)
    spins = spinning(out, "spins")
    task = out.function("task", 4)
    out.op(Op.IRQ_DISABLE)  # 12 cycles
    out.op(Op.INSTRUCTIONS, imm=10_000)
    out.op(Op.IRQ_ENABLE)  # 13 cycles
    out.op(Op.LI, a=out.outgoing(0), imm=3000)
    out.call("spins")
    out.ret()
    pair = Pair.of(out, small_machine())
    assert spins != task
    pair.start(0, task)
    pair.inject(0, handler, at_cycle=1000, period_cycles=2000, count=4)
    assert pair.run_compared(9000) == Status.HALTED
    # Due at 1000, 3000, 5000, 7000 and 9000 with interrupts disabled: one comes for all of them.
    assert noted(pair.engine) == [10_025, 11_000, 13_000, 15_000]


@settings(max_examples=60)
@given(
    st.integers(0, 3000), st.integers(1, 5_000_000), st.integers(0, 3_000_000), st.integers(0, 2**64 - 1),
    st.integers(0, 30_000),
)  # fmt: skip
def test_the_next_time_is_after_now_by_less_than_a_period_and_its_chance(
    at_cycle: int, period: int, spread: int, seed: int, off: int
) -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.NOP)
    out.ret()
    task = out.function("task")
    out.op(Op.IRQ_DISABLE)
    out.op(Op.INSTRUCTIONS, imm=off)
    out.op(Op.IRQ_ENABLE)
    out.op(Op.INSTRUCTIONS, imm=3000)
    out.op(Op.NOP)
    out.ret()
    machine = out.load(small_machine())
    machine.start(0, task)
    machine.inject(
        0, handler, at_cycle=at_cycle, period_cycles=period / 1000, spread_cycles=spread / 1000, seed=seed,
        count=0,
    )  # fmt: skip
    while machine.counters()[0, L.N_INTERRUPTS] == 0:
        machine.step()
    now = machine.cpu_word(0, L.C_CLOCK) - (ENTRY + (machine.cpu_word(0, L.C_PC) != 0)) * 1000
    (chance,) = draws(seed, spread, 1)
    next_due = machine.cpu_word(0, L.C_IRQ_CYCLE)
    assert now < next_due - chance <= max(now, at_cycle * 1000) + period
    assert (next_due - chance - at_cycle * 1000) % period == 0


def test_a_source_by_micro_ops() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.COUNT, imm=0)
    out.op(Op.NOP)
    out.ret()
    task = spinning(out)
    pair = Pair.of(out, small_machine())
    pair.start(0, task, [200])
    pair.inject(0, handler, at_micro_op=10, period_micro_ops=50, spread_micro_ops=20, seed=9, count=4)
    delivered: list[int] = []

    def look(number: int) -> None:
        if pair.engine.counters()[0, L.N_INTERRUPTS] > len(delivered):
            delivered.append(pair.engine.cpu_word(0, L.C_MICRO_OPS))

    assert pair.run_compared(1000, look) == Status.HALTED
    due = [10]
    for chance in draws(9, 20, 3):
        due.append(due[-1] + 50 + chance)
    assert delivered == due


def test_up_to_three_arguments() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.LI, a=5, imm=STATIC)
    for register in range(4):
        out.op(Op.ST, b=5, c=register, imm=8 * register)
    out.ret()
    task = out.function("task")
    out.op(Op.NOP)
    out.ret()
    for arguments in (7, (), (7,), (7, -8), (7, -8, 9)):
        pair = Pair.of(out, small_machine())
        pair.start(0, task)
        pair.inject(0, handler, arguments)
        assert pair.run_compared(30) == Status.HALTED
        given = [arguments] if isinstance(arguments, int) else list(arguments)
        stored = [pair.engine.read(STATIC + 8 * i) for i in range(4)]
        assert stored == given + [0] * (4 - len(given))


# --- who gets interrupts, and until when ------------------------------------------------------------


def test_an_idle_cpu_gets_interrupts_of_a_source_while_another_has_a_task() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.COUNT, imm=0)
    out.ret()
    task = spinning(out)
    pair = Pair.of(out, small_machine(2))
    pair.inject(1, handler, at_cycle=100, period_cycles=1000, count=0)
    pair.start(0, task, [2500])
    assert pair.run_compared(9000) == Status.HALTED
    # 5000 cycles and the return: at 100, 1100, 2100, 3100 and 4100.
    assert pair.engine.counters()[1, L.HARDWARE_COUNTERS] == 5
    assert pair.engine.cpu_word(0, L.C_CLOCK) == 5_005_000
    assert pair.engine.cpu_word(1, L.C_IRQ_CYCLE) == 5_100_000
    # It goes on with the next task; what was missed meanwhile is dropped.
    pair.start(0, task, [1000])
    assert pair.run_compared(9000) == Status.HALTED
    assert pair.engine.counters()[1, L.HARDWARE_COUNTERS] == 5 + 2


def test_a_machine_with_sources_alone_has_halted() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.ret()
    pair = Pair.of(out, small_machine(4))
    for cpu in range(4):
        pair.inject(cpu, handler, at_cycle=10 * cpu, period_cycles=100, count=0)
        pair.inject(cpu, handler, at_micro_op=0, period_micro_ops=5, count=0)
    assert pair.run_compared(5) == Status.HALTED
    assert pair.engine.micro_ops == 0
    # What comes once still comes, "now" is not the time of a source, and only it is delivered.
    pair.inject(2, handler)
    assert pair.run_compared(5) == Status.HALTED
    assert pair.engine.counters()[:, L.N_INTERRUPTS].tolist() == [0, 0, 1, 0]
    assert pair.engine.cpu_word(2, L.C_CLOCK) == (ENTRY + RETURN + EXIT) * 1000


def test_no_source_keeps_a_finished_machine_busy_by_taking_turns() -> None:
    """Handlers on eight CPUs overlap all the time, so that never all are idle at once."""
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.IRQ_ENABLE)
    out.op(Op.INSTRUCTIONS, imm=700)
    out.op(Op.NOP)
    out.ret()
    task = spinning(out)
    pair = Pair.of(out, small_machine(8))
    for cpu in range(8):
        pair.inject(cpu, handler, at_cycle=125 * cpu, period_cycles=1000, count=0)
    pair.start(0, task, [1500])
    assert pair.run_to_end(20_000) == Status.HALTED
    assert (pair.engine.counters()[:, L.N_INTERRUPTS] >= 3).all()
    # The task ends last on CPU 0; what runs elsewhere then takes 150 + 13 + 700 + 1 + 5 + 70 cycles.
    clocks = [pair.engine.cpu_word(cpu, L.C_CLOCK) // 1000 for cpu in range(8)]
    assert clocks[0] < max(clocks) < clocks[0] + 939


def test_a_deadlock_is_noticed_in_spite_of_sources() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.COUNT, imm=0)
    out.ret()
    task = out.function("task")
    out.op(Op.LOCK, b=0, aux=1)
    out.op(Op.INSTRUCTIONS, imm=1000)
    out.op(Op.LOCK, b=1, aux=1)
    out.ret()
    pair = Pair.of(out, small_machine(3))
    pair.start(0, task, [STATIC, STATIC + 64])
    pair.start(1, task, [STATIC + 64, STATIC])
    for cpu in range(3):
        pair.inject(cpu, handler, at_cycle=10 + 70 * cpu, period_cycles=1700, count=0)
    assert pair.run_compared(400) == Status.DEADLOCK
    # An interrupt that comes once reaches a CPU that waits in it.
    taken = int(pair.engine.counters()[0, L.N_INTERRUPTS])
    pair.inject(0, handler)
    assert pair.run_compared(400) == Status.DEADLOCK
    assert pair.engine.counters()[0, L.N_INTERRUPTS] > taken
    assert pair.engine.cpu_word(0, L.C_STATE) == CpuState.WAITING_LOCK


def test_a_fast_source_does_not_shut_out_another() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.op(Op.COUNT, imm=0)
    out.ret()
    other = out.function("other")
    out.op(Op.COUNT, imm=1)
    out.ret()
    task = spinning(out)
    pair = Pair.of(out, small_machine())
    pair.start(0, task, [100])
    pair.inject(0, handler, period_cycles=10, count=30)  # faster than its handler
    pair.inject(0, other, period_cycles=10, count=30)
    assert pair.run_compared(600) == Status.HALTED
    order = pair.engine.counters()[0, L.HARDWARE_COUNTERS : L.HARDWARE_COUNTERS + 2]
    assert order.tolist() == [30, 30]
    machine = Pair.of(out, small_machine()).engine
    machine.start(0, task, [100])
    machine.inject(0, handler, period_cycles=10, count=0)
    machine.inject(0, other, period_cycles=10, count=0)
    machine.run(500)  # a storm: the task does not get on, but both sources get their share
    first, second = machine.counters()[0, L.HARDWARE_COUNTERS : L.HARDWARE_COUNTERS + 2].tolist()
    assert machine.cpu_word(0, L.C_CLOCK) > 10_000
    assert abs(first - second) <= 1
    assert first > 100


def test_what_is_pending() -> None:
    out = Assembler()
    handler = out.function("handler")
    out.ret()
    task = spinning(out)
    machine = out.load(small_machine(3))
    assert pending_interrupts(machine.state) == ()
    machine.inject(2, task, (5,), at_cycle=100)
    machine.inject(0, handler, (1, 2, 3), at_micro_op=4, period_micro_ops=50, spread_micro_ops=1, count=2)
    machine.inject(1, handler, at_cycle=1e6, period_cycles=7, seed=3, count=0)
    once = PendingInterrupt(2, task, (5,), Timing(False, 100_000), 0)
    counted = PendingInterrupt(0, handler, (1, 2, 3), Timing(True, 4, 50, 1, 0, 2), 1)
    endless = PendingInterrupt(1, handler, (0,), Timing(False, 10**9, 7000, 0, 3, 0), 2)
    assert pending_interrupts(machine.state) == (once, counted, endless)
    machine.start(0, task, [40])
    machine.run(20)
    # One is over; the other is set for its next time and its last interrupt, and comes after all others.
    (chance,) = draws(0, 1, 1)
    seed = STEP
    following = PendingInterrupt(0, handler, (1, 2, 3), Timing(True, 54 + chance, 50, 1, seed, 1), 3)
    assert pending_interrupts(machine.state) == (endless, following)
    machine.run()
    assert pending_interrupts(machine.state) == (endless,)


# --- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 5}, "give it a period"),
        ({"spread_cycles": 5}, "give it a period"),
        ({"period_cycles": -1}, "from 0 to"),
        ({"period_cycles": 1, "spread_cycles": -1}, "from 0 to"),
        ({"period_cycles": 1e15}, "from 0 to"),
        ({"period_cycles": 1e-9}, "a thousandth of a cycle"),
        ({"period_cycles": float("nan")}, "numbers"),
        ({"period_cycles": float("inf")}, "numbers"),
        ({"at_cycle": float("nan")}, "numbers"),
        ({"period_cycles": 1, "count": -1}, "-1 interrupts"),
        ({"period_cycles": 1, "period_micro_ops": 1}, "not by both"),
        ({"at_micro_op": 1, "period_cycles": 1}, "not by both"),
        ({"at_cycle": 1, "period_micro_ops": 1}, "not by both"),
        ({"at_cycle": 1, "at_micro_op": 1}, "not by both"),
        ({"argument": (1, 2, 3, 4)}, "takes 3 at most"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    out = Assembler()
    handler = out.function("handler", 0, 0)
    out.ret()
    machine = out.load(small_machine())
    before = machine.state_hash()
    with pytest.raises(MachineError, match=message):
        machine.inject(0, handler, **arguments)
    assert machine.state_hash() == before


def test_more_arguments_than_a_handler_has_registers() -> None:
    out = Assembler()
    handler = out.function("handler", 2)
    out.ret()
    image = out.image()
    machine = out.load(small_machine())
    object.__setattr__(machine.image, "window_words", (2, *image.window_words[1:]))
    machine.inject(0, handler, (1, 2))
    with pytest.raises(MachineError, match="room for 2"):
        machine.inject(0, handler, (1, 2, 3))


# --- random programs -----------------------------------------------------------------------------------

_source = st.fixed_dictionaries(
    {
        "handler": st.sampled_from(("touching", "locking", "nesting")),
        "argument": st.integers(0, 5),
        "count": st.integers(0, 6),
        "seed": st.integers(0, 2**64 - 1),
        "times": st.tuples(
            st.just("cycles"), st.integers(0, 3000), st.integers(1500, 5000), st.integers(0, 900)
        )
        | st.tuples(st.just("micro_ops"), st.integers(0, 60), st.integers(40, 90), st.integers(0, 20)),
    }
)


def runs(cpus: int) -> st.SearchStrategy[Any]:
    cpu = st.integers(0, cpus - 1)
    sources = st.lists(st.tuples(cpu, _source), min_size=1, max_size=5)
    once = st.lists(st.tuples(cpu, st.integers(0, 9000)), max_size=3)
    return st.tuples(st.lists(statements, min_size=1, max_size=cpus), sources, once, st.integers(0, 2))


def start(run: Any, cpus: int) -> Pair:
    bodies, sources, once, meetings = run
    builder = Builder()
    functions = [builder.cpu_function(cpu, body, meetings) for cpu, body in enumerate(bodies)]
    pair = Pair.of(builder.out, small_machine(cpus, cpus_per_node=cpus // 2))
    numbers = {name: function.number for name, function in builder.out.functions.items()}
    pair.start(0, numbers["format"])
    assert pair.run_to_end(100) == Status.HALTED
    pair.expect_rendezvous(len(bodies))
    for cpu, function in enumerate(functions):
        pair.start(cpu, function)
    for cpu, source in sources:
        unit, first, period, spread = source["times"]
        if source["count"] == 0:  # slow enough that handlers leave time for the task
            period += 12_000 if unit == "cycles" else 400
        when = {"at_cycle" if unit == "cycles" else "at_micro_op": first}
        pair.inject(
            cpu, numbers[source["handler"]], source["argument"], **when, count=source["count"],
            seed=source["seed"], **{f"period_{unit}": period, f"spread_{unit}": spread},
        )  # fmt: skip
    for cpu, when_once in once:
        pair.inject(cpu, numbers["touching"], 1, at_cycle=when_once)
    return pair


@settings(max_examples=40)
@given(runs(4))
def test_random_programs_at_every_micro_op(run: Any) -> None:
    assert start(run, 4).run_compared(4000) == Status.HALTED


@settings(max_examples=60)
@given(runs(4), st.lists(st.integers(1, 300), max_size=20))
def test_random_programs_in_pieces_and_from_a_checkpoint_are_the_same(run: Any, pieces: list[int]) -> None:
    whole = start(run, 4)
    assert whole.run_to_end(30_000) == Status.HALTED
    machine = start(run, 4).engine
    for piece in pieces:
        machine.run(machine.micro_ops + piece)
        machine.restore_state(machine.copy_state())
    assert machine.run() == Status.HALTED
    assert machine.trace_hash == whole.engine.trace_hash
    assert machine.state_hash() == whole.engine.state_hash()
