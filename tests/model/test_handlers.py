"""Interrupt handlers: which there are, what each does, files of a user's own, and any of them at any time."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from slubviz.hw import layout as L
from slubviz.hw.isa import Status
from slubviz.model.errors import UserError
from slubviz.model.handlers import handlers_of, held_objects
from slubviz.model.invariants import check
from slubviz.model.requests import SessionSpec, compile_kernel, session_job
from slubviz.model.session import Session, SimulationFault
from tests.model.handler_bench import HandlerBench

SIZE = 1024
HELD = 64
PACKAGED = {
    "irq_alloc_free": ("size",),
    "irq_alloc": ("size",),
    "irq_alloc_alloc_free_first": ("size",),
    "irq_free": (),
    "irq_nested": ("size",),
    "irq_nothing": (),
    "irq_hold": ("size", "n"),
    "irq_free_remote": ("from_cpu",),
    "irq_burst": ("count", "size"),
    "softirq_batch": ("count", "size"),
}
ALWAYS = tuple(PACKAGED)[:5]


@cache
def bench(kernel: str, cpus: int = 4, nodes: int = 1) -> HandlerBench:
    return HandlerBench(kernel, cpus, nodes)


@pytest.fixture(params=["slab", "slub-2.6.25", "slub-cpu-partial"])
def idle(request: pytest.FixtureRequest) -> HandlerBench:
    """An idle machine of each kind of allocator."""
    found = bench(request.param)
    found.again()
    return found


# --- which there are --------------------------------------------------------------------------------


def test_the_handlers_of_a_program() -> None:
    found = handlers_of(bench("slub-2.6.25").program)
    assert {handler.name: handler.parameters for handler in found} == PACKAGED
    assert [handler.name for handler in found] == list(PACKAGED)
    titles = [handler.title for handler in found]
    assert len(set(titles)) == len(titles)
    assert all(title and not title.endswith(".") and "\n" not in title for title in titles)
    assert found[2].title == "allocate two, free the first"
    assert found[2].description.startswith("The head is the same")


def test_without_handlers_only_those_of_every_run_are_there() -> None:
    job = session_job(SessionSpec("e5345_8p", "slub", "A", (64,), 10, 1))
    assert tuple(handler.name for handler in handlers_of(compile_kernel(job))) == ALWAYS


@pytest.mark.parametrize(
    ("machine", "kernel", "test", "points"),
    [
        ("e5345_8p", "slab", "D", {"sizes": (64,)}),
        ("e5345_8p", "slub+", "F", {"sizes": (256,)}),
        ("ia64_8p_4n", "slub-2.6.25", "A", {"sizes": (64,)}),
        ("p4_3ghz_up", "slub", "C", {"sizes": (64,)}),
        ("i7_4790k", "slub-bulk", "bulk", {"sizes": (), "objects": (16,)}),
    ],
)
def test_handlers_that_are_linked_and_not_used_change_nothing(
    machine: str, kernel: str, test: str, points: dict[str, Any]
) -> None:
    """Not a single word of the state: the same trace, clocks, memory and caches."""
    states = []
    for handlers in (False, True):
        spec = SessionSpec(machine, kernel, test, ops=100, seed=1, handlers=handlers, **points)
        session = Session(spec)
        session.boot()
        session.run_to_end()
        states.append((session.results, session.machine.trace_hash, session.machine.state_hash()))
    assert states[0] == states[1]
    assert states[0][0]


# --- what each does -----------------------------------------------------------------------------------


def test_alloc_hold_and_free_newest_first(idle: HandlerBench) -> None:
    idle.interrupt(1, "irq_alloc", SIZE)
    idle.interrupt(1, "irq_hold", SIZE, 3)
    idle.interrupt(1, "irq_alloc_alloc_free_first", SIZE)
    held = idle.held()[1].addresses
    assert len(set(held)) == 5
    assert idle.problems() == []
    for left in (4, 3, 2, 1, 0, 0):
        idle.interrupt(1, "irq_free")
        assert idle.held()[1].addresses == held[:left]
        assert idle.problems() == []
    assert [idle.held()[cpu].missed for cpu in range(4)] == [0, 1, 0, 0]


def test_what_does_not_fit_is_dropped_and_counted(idle: HandlerBench) -> None:
    idle.interrupt(2, "irq_hold", SIZE, HELD + 6)
    held = idle.held()[2]
    assert (len(held.addresses), held.dropped, held.missed) == (HELD, 6, 0)
    idle.interrupt(2, "irq_alloc", SIZE)
    idle.interrupt(2, "irq_alloc_alloc_free_first", SIZE)
    assert idle.held()[2].addresses == held.addresses
    assert idle.held()[2].dropped == 8
    assert idle.problems() == []


def test_an_allocation_that_fails_is_missed(idle: HandlerBench) -> None:
    idle.interrupt(0, "irq_hold", 4 << 20, 30)  # blocks of 4 MB: there are not that many
    held = idle.held()[0]
    assert held.missed == 30 - len(held.addresses) > 0
    idle.interrupt(0, "irq_burst", 30, 4 << 20)
    assert idle.held()[0].missed == held.missed + 1
    assert idle.problems() == []


def test_remote_frees_take_the_newest_and_leave_holes(idle: HandlerBench) -> None:
    idle.interrupt(0, "irq_hold", SIZE, 4)
    held = idle.held()[0].addresses
    idle.interrupt(3, "irq_free_remote", 0)
    assert idle.held()[0].addresses == held[:3]
    idle.interrupt(0, "irq_alloc", SIZE)  # the fifth slot: the fourth is a hole
    assert len(idle.held()[0].addresses) == 4
    assert idle.held()[0].addresses[:3] == held[:3]
    for left in (3, 2):
        idle.interrupt(0, "irq_free")
        assert idle.held()[0].addresses == held[:left]
    for _ in range(2):
        idle.interrupt(3, "irq_free_remote", 0)
    assert idle.held()[0].addresses == ()
    assert idle.problems() == []
    for from_cpu in (0, 1, 4, -1):
        idle.interrupt(3, "irq_free_remote", from_cpu)
    assert idle.held()[3].missed == 4
    assert idle.problems() == []


def test_a_remote_free_goes_to_the_slab_of_the_other_cpu() -> None:
    idle = bench("slub-2.6.25")
    idle.again()
    idle.interrupt(0, "irq_hold", SIZE, 2)
    assert idle.interrupt(0, "irq_free")["FREE_FASTPATH"] == 1
    assert idle.interrupt(1, "irq_free_remote", 0)["FREE_FROZEN"] == 1


def calls(idle: HandlerBench, handler: str, *arguments: int) -> tuple[list[str], int]:
    """Calls of kmalloc and kfree in an interrupt of an idle CPU, in order; how often interrupts were on."""
    entries = {idle.program.function(name).entry_pc: name for name in ("kmalloc", "kfree")}
    idle.machine.align_clocks()
    idle.machine.inject(1, idle.index(handler), arguments)
    found, enabled = [], 0
    while True:
        pc = idle.machine.cpu_word(1, L.C_PC)
        if pc in entries:
            found.append(entries[pc])
            enabled += idle.machine.cpu_word(1, L.C_IRQ_ENABLED)
        if idle.machine.step() == Status.HALTED:
            return found, enabled


def test_a_burst_frees_what_it_took(idle: HandlerBench) -> None:
    assert calls(idle, "irq_burst", 30, SIZE) == (["kmalloc"] * 30 + ["kfree"] * 30, 0)
    assert idle.held()[1].addresses == ()
    assert idle.problems() == []


def test_a_softirq_batch_allocates_with_interrupts_on(idle: HandlerBench) -> None:
    assert calls(idle, "softirq_batch", 7, SIZE) == (["kmalloc", "kfree"] * 7, 14)
    assert idle.problems() == []


def test_a_softirq_batch_is_interrupted_by_hard_interrupts(idle: HandlerBench) -> None:
    idle.machine.align_clocks()
    idle.machine.inject(0, idle.index("softirq_batch"), (20, SIZE))
    deepest, nested = 0, 0
    while idle.machine.step() != Status.HALTED:
        depth = idle.machine.cpu_word(0, L.C_IRQ_DEPTH)
        deepest = max(deepest, depth)
        if depth == 1 and nested < 8 and idle.machine.cpu_word(0, L.C_IRQ_ENABLED):
            idle.machine.inject(0, idle.index("irq_alloc"), SIZE)
            nested += 1
    assert (deepest, nested) == (2, 8)
    assert len(idle.held()[0].addresses) == 8
    assert idle.problems() == []


def test_nothing_costs_entry_return_and_exit(idle: HandlerBench) -> None:
    before = idle.machine.align_clocks()
    assert idle.interrupt(0, "irq_nothing") == {}
    costs = idle.machine.spec.costs
    cycles = sum(costs[name].value for name in ("interrupt_entry", "return", "interrupt_exit"))
    assert idle.machine.cpu_word(0, L.C_CLOCK) - before == round(1000 * cycles)


# --- files of a user's own -------------------------------------------------------------------------------

MINE = '''"""A handler of mine."""

MINE_CALLS = counter()


class mine_state(struct):
    last: ptr


mine: per_cpu[mine_state]


def irq_mine(size, times):
    """Handler: hold two a time, noted.  Uses what the kernel and its handlers have."""
    for i in range(times):
        this_cpu(mine).last = kmalloc(size, GFP_ATOMIC)
        hold(this_cpu(mine).last)
        irq_hold(size, 1)
        count(MINE_CALLS)


def helper():
    """No handler."""
'''


def spec_with(*paths: str, **more: Any) -> SessionSpec:
    return SessionSpec("e5345_8p", "slub-2.6.25", "A", (64,), 10, 1, handler_files=paths, **more)


def test_a_handler_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE, encoding="utf-8")
    sessions = [
        Session(spec_with(str(path))),
        Session(spec_with(handler_texts=(("mine.py", MINE),))),
    ]
    for session in sessions:
        session.boot()
        mine = handlers_of(session.booted.program)[-1]
        assert (mine.name, mine.title, mine.parameters) == (
            "irq_mine", "hold two a time, noted", ("size", "times"),
        )  # fmt: skip
        assert mine.file == "mine.py"
        session.machine.inject(0, session.booted.program.function("irq_mine").index, (64, 3))
        session.run_to_end()
        assert session.fault == ""
        column = L.HARDWARE_COUNTERS + session.booted.program.counters.index("MINE_CALLS")
        assert session.machine.counters()[:, column].tolist() == [3] + [0] * 7
    assert sessions[0].machine.state_hash() == sessions[1].machine.state_hash()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def helper():\n    pass\n", "bad.py: holds no interrupt handler; begin the description"),
        ('def h(a, b, c, d):\n    """Handler: x."""\n', "bad.py:1: handler h has 4 parameters"),
        ("def broken(:\n", "bad.py:1:.*syntax error"),
        ('def h():\n    """Handler: x."""\n    kmallock(8, 1)\n', "bad.py:3:.*kmallock"),
        ('\n@override\ndef kfree(x):\n    """Handler: x."""\n', "bad.py:3: kfree is an @override"),
        ('def kfree(x):\n    """Handler: x."""\n', "bad.py:1:.*already defined"),
        ("import os\n", "bad.py:1:"),
        ("", "bad.py: holds no interrupt handler"),
    ],
)
def test_handler_files_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        Session(spec_with(str(path))).boot()
    assert str(tmp_path) not in str(caught.value)


def test_handler_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.py").write_text("#" * ((1 << 20) + 1))
    (tmp_path / "slub.py").write_text(MINE)
    for name, message in (
        ("missing.py", "cannot be read"),
        ("", "cannot be read"),
        ("binary.py", "not a text file in UTF-8"),
        ("large.py", "larger than"),
        ("slub.py", "a file of that name; rename it"),
        ("a\0b.py", "cannot be read"),
    ):
        with pytest.raises(UserError, match=message):
            Session(spec_with(str(tmp_path / name))).boot()
    with pytest.raises(UserError, match="rename it"):
        Session(spec_with(handler_texts=(("mine.py", MINE), ("mine.py", MINE)))).boot()


def test_the_handler_of_the_documentation() -> None:
    document = Path(__file__).parents[2] / "docs" / "kernel-language.md"
    section = document.read_text(encoding="utf-8").partition("## Interrupt handlers")[2]
    text = section.partition("```python\n")[2].partition("```")[0]
    session = Session(spec_with(handler_texts=(("receive.py", text),)))
    session.boot()
    program, machine = session.booted.program, session.machine
    receive = handlers_of(program)[-1]
    assert (receive.name, receive.title) == ("irq_receive", "receive packets")
    machine.inject(1, program.function("irq_receive").index, (256, 20))
    session.run_to_end()
    column = L.HARDWARE_COUNTERS + program.counters.index("PACKETS")
    assert machine.counters()[1, column] == 20
    ring = session.booted.memory.one(session.booted.memory.global_address("rings", 1), "ring_state")
    assert int(ring["next"]) == 20
    assert len({int(address) for address in ring["buffers"]}) == 16
    assert check(session.booted, expected_allocated=16) == []


def test_the_guide_names_every_handler() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "user-guide.md").read_text(encoding="utf-8")
    for name, parameters in PACKAGED.items():
        assert f"| `{name}({', '.join(parameters)})` |" in guide


# --- any of them at any time -------------------------------------------------------------------------------

CPUS = 4
_cpu = st.integers(0, CPUS - 1)
_size = st.sampled_from((96, 512, 1024, 2048))
_few = st.integers(1, 6)
_call = st.one_of(
    st.tuples(st.sampled_from(("irq_alloc", "irq_alloc_free", "irq_nested")), st.tuples(_size)),
    st.tuples(st.just("irq_alloc_alloc_free_first"), st.tuples(_size)),
    st.tuples(st.sampled_from(("irq_free", "irq_nothing")), st.just(())),
    st.tuples(st.just("irq_hold"), st.tuples(_size, _few)),
    st.tuples(st.just("irq_free_remote"), st.tuples(_cpu)),
    st.tuples(st.sampled_from(("irq_burst", "softirq_batch")), st.tuples(_few, _size)),
)
_period = st.tuples(st.integers(6_000, 40_000), st.integers(0, 30_000), st.integers(0, 2**32))
_sources = st.lists(st.tuples(_cpu, _call, _period), min_size=1, max_size=8)
_task = st.tuples(st.sampled_from(("test_pairs", "test_alloc")), _size)
_tasks = st.lists(_task, min_size=1, max_size=CPUS)


def with_sources(machine: HandlerBench, sources: Any, tasks: Any, ops: int, count: int = 0) -> None:
    """Run a task on each of the first CPUs while the sources interrupt, to the end."""
    machine.again()
    machine.machine.align_clocks()
    for cpu, (function, size) in enumerate(tasks):
        machine.start(cpu, function, size, min(ops, 64) if function == "test_alloc" else ops)
    for cpu, (handler, arguments), (period, spread, seed) in sources:
        machine.machine.inject(
            cpu, machine.index(handler), arguments, period_cycles=period, spread_cycles=spread, seed=seed,
            count=count,
        )  # fmt: skip
    assert machine.machine.run(20_000_000) == Status.HALTED


#: A sound kernel of each family.  SLUB of 2.6.24 loses objects that an interrupt takes while it gets pages.
SOUND = ("slab", "slub-2.6.25", "slub-seq", "slub-cpu-partial", "slub-bulk-fallback")


@pytest.mark.parametrize("kernel", SOUND)
def test_random_sources_break_no_invariant(kernel: str) -> None:
    machine = bench(kernel, CPUS, 2)

    @settings(max_examples=40)
    @given(_sources, _tasks)
    def run(sources: Any, tasks: Any) -> None:
        with_sources(machine, sources, tasks, 600, count=100)  # an end, as many may be too fast together
        kept = sum(64 for function, _ in tasks if function == "test_alloc")
        assert machine.problems(kept) == []
        assert machine.machine.counters()[:, L.N_INTERRUPTS].sum() >= 1

    run()


@pytest.mark.parametrize("kernel", ["slub", *SOUND])
def test_sources_are_the_same_each_time_and_others_with_another_seed(kernel: str) -> None:
    """Handlers of a size of their own, which SLUB of 2.6.24 stands too."""
    machine = bench(kernel)
    tasks = [("test_pairs", 96)] * CPUS

    def outcome(seed: int) -> tuple[int, str, int]:
        sources = [
            (0, ("irq_alloc", (SIZE,)), (9_000, 5_000, seed)),
            (1, ("irq_free_remote", (0,)), (11_000, 9_000, seed + 1)),
            (2, ("irq_burst", (6, SIZE)), (15_000, 0, 0)),
            (3, ("softirq_batch", (4, SIZE)), (20_000, 20_000, seed)),
        ]
        with_sources(machine, sources, tasks, 700)
        assert machine.problems() == []
        interrupts = machine.machine.counters()[:, L.N_INTERRUPTS]
        assert (interrupts > 0).all()
        return machine.machine.trace_hash, machine.machine.state_hash(), int(interrupts.sum())

    first = outcome(5)
    assert outcome(5) == first
    assert outcome(6)[:2] != first[:2]


def test_a_source_finds_the_fault_of_a_kernel() -> None:
    """The reverted cmpxchg_local fast path: sooner or later an interrupt leaves the same head."""
    machine = bench("slub+")
    for seed in range(40):
        sources = [
            (0, ("irq_alloc_alloc_free_first", (SIZE,)), (600, 900, seed)),
            (0, ("irq_free", ()), (700, 900, seed)),
        ]
        machine.again()
        machine.start(0, "test_pairs", SIZE, 300)
        for cpu, (handler, arguments), (period, spread, seed_) in sources:
            machine.machine.inject(
                cpu, machine.index(handler), arguments, period_cycles=period, spread_cycles=spread,
                seed=seed_, count=0,
            )  # fmt: skip
        if machine.machine.run(2_000_000) != Status.HALTED or machine.problems():
            return
    raise AssertionError("no seed shows the race")


@pytest.mark.parametrize(
    ("machine", "kernel"),
    [("e5345_8p", "slub-2.6.25"), ("ia64_8p_4n", "slab"), ("p4_3ghz_up", "slub-seq"), ("p4_2007", "slab")],
)
def test_a_checked_session_knows_what_handlers_keep(machine: str, kernel: str) -> None:
    """On words of four bytes, on one CPU and on four nodes too."""
    session = Session(SessionSpec(machine, kernel, "A", (64,), 200, 1, check=True, handlers=True))
    cpu = session.machine_spec.cpus - 1

    def boot() -> None:
        session.boot()
        hold, large = (session.booted.program.function(name).index for name in ("irq_hold", "irq_alloc"))
        session.machine.inject(0, hold, (64, 2), period_cycles=3000, count=5)
        # twice a page: SLUB has these from the page allocator, SLAB from a cache of slabs of several pages
        session.machine.inject(
            cpu, large, 2 * session.machine_spec.page_size_bytes, period_cycles=3000, count=5
        )

    boot()
    session.run_to_end()
    assert session.finished
    expected = [0] * session.machine_spec.cpus
    expected[0] += 10
    expected[cpu] += 5
    assert [len(held.addresses) for held in held_objects(session.booted)] == expected
    # A word written over a held object's slot makes one object too many: the check is alive.
    boot()
    session.run(5_000)
    memory = session.booted.memory
    address = memory.field_address(memory.global_address("held", 0), "held_objects", "of")
    word = session.machine_spec.word_bytes
    assert session.machine.read(address, word)
    session.machine.write(address, 0, word)
    with pytest.raises(SimulationFault, match="objects are handed out"):
        session.run_to_end()


@pytest.mark.parametrize("kernel", ["slab", "slub-2.6.25"])
def test_phases_end_in_spite_of_endless_sources_wherever_the_run_stops(kernel: str) -> None:
    """Test A has its task on CPU 0; the idle CPUs are interrupted as long as it runs, in every phase."""
    outcomes = []
    for piece in (10**9, 777, 3_001):
        spec = SessionSpec("e5345_8p", kernel, "A", (64, 256), 300, 1, handlers=True, check=True)
        session = Session(spec)
        session.boot()
        program, machine = session.booted.program, session.machine
        for cpu in range(session.machine_spec.cpus):
            handler = program.function("irq_alloc" if cpu % 2 else "irq_free_remote").index
            machine.inject(
                cpu, handler, 64 if cpu % 2 else cpu + 1, period_cycles=4_000, spread_cycles=2_000, seed=cpu,
                count=0,
            )  # fmt: skip
        while not (session.finished or session.fault):
            session.run(piece)
            machine.restore_state(machine.copy_state())
        assert session.fault == ""
        assert (machine.counters()[:, L.N_INTERRUPTS] > 10).all()
        outcomes.append((session.results, machine.trace_hash, machine.state_hash()))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert len(outcomes[0][0]) == 2
