"""Frames, variables and waiting of CPUs, as a person reads them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.snapshot_builder import call_stack_windows, frame_views
from slubviz.model.travel.call_stack import CallStackView, call_stack
from slubviz.model.travel.changes import Inject, WriteRegister
from slubviz.model.travel.recording import Recording
from tests.model.handler_bench import HandlerBench

KERNELS = ("slub", "slub-2.6.25", "slub-seq", "slab", "slub-cpu-partial")


def spec_of(kernel: str, cpus: int = 4, **more: object) -> SessionSpec:
    return SessionSpec("e5345_8p", kernel, "E", (64,), ops=40, seed=1, cpus=cpus, handlers=True, **more)


def stack_of(bench: HandlerBench, cpu: int) -> CallStackView:
    return call_stack(bench.session, cpu)


def run_until(bench: HandlerBench, cpu: int, function: str) -> None:
    """Step until a CPU is inside a function."""
    for _ in range(5000):
        bench.machine.step()
        if any(frame.function == function for frame in stack_of(bench, cpu).frames):
            return
    raise AssertionError(f"CPU {cpu} never comes to {function}")


def test_an_idle_cpu_has_no_frames():
    bench = HandlerBench("slub", cpus=2)
    stack = stack_of(bench, 1)
    assert (stack.state_text, stack.frames, stack.depth, stack.micro_op_text) == ("idle", (), 0, "")
    assert not stack.next


def test_interrupts_nested_three_deep():
    bench = HandlerBench("slub", cpus=2)
    bench.start(0, "test_alloc", 64, 4)
    run_until(bench, 0, "kmalloc")
    for level in (1, 2):
        bench.machine.inject(0, bench.index("softirq_batch"), (2, 64))
        while stack_of(bench, 0).depth < level or not stack_of(bench, 0).irq_enabled:
            bench.machine.step()
    bench.machine.inject(0, bench.index("irq_alloc"), 64)
    while stack_of(bench, 0).depth < 3:
        bench.machine.step()
    stack = stack_of(bench, 0)
    handlers = [(f.function, f.level, f.saved_irq_enabled) for f in stack.frames if f.interrupt]
    assert handlers == [("softirq_batch", 1, True), ("softirq_batch", 2, True), ("irq_alloc", 3, True)]
    assert [frame.level for frame in stack.frames] == sorted(frame.level for frame in stack.frames)
    assert stack.frames[0].function == "test_alloc"
    assert stack.frames[0].level == 0
    assert stack.frames[0].saved_irq_enabled is None
    # The frame before each handler is the one that it interrupted, and no other is.
    for frame, following in zip(stack.frames, stack.frames[1:], strict=False):
        assert frame.interrupted == following.interrupt
    assert not stack.frames[-1].interrupted
    assert (stack.depth, stack.irq_enabled, stack.next) == (3, False, True)
    outermost = {v.name: v.text for v in stack.frames[0].variables}
    assert outermost["size"] == "64"
    assert outermost["n"] == "4"
    of_handler = next(f for f in stack.frames if f.function == "irq_alloc")
    assert [(v.name, v.value, v.register) for v in of_handler.variables] == [("size", 64, 0)]
    batch = next(f for f in stack.frames if f.function == "softirq_batch")
    assert [(v.name, v.value) for v in batch.variables][:2] == [("count", 2), ("size", 64)]


def test_an_interrupted_inlined_function_is_the_one_that_is_marked():
    bench = HandlerBench("slub", cpus=1)
    bench.start(0, "test_alloc", 64, 4)
    while True:
        bench.machine.step()
        stack = stack_of(bench, 0)
        if stack.frames[-1].function == "slab_alloc" and stack.irq_enabled:
            break
    before = stack.frames
    assert before[-1].inlined
    bench.machine.inject(0, bench.index("irq_alloc"), 64)
    bench.machine.step()
    frames = stack_of(bench, 0).frames
    at = next(i for i, frame in enumerate(frames) if frame.interrupt)
    assert [frame.interrupted for frame in frames[:at]] == [False] * (at - 1) + [True]
    assert frames[at - 1].function == "slab_alloc"
    assert [(f.function, f.span, f.variables) for f in frames[:at]] == [
        (f.function, f.span, f.variables) for f in before
    ]


def test_an_interrupt_on_an_idle_cpu_is_level_one():
    bench = HandlerBench("slab", cpus=2)
    bench.machine.inject(1, bench.index("irq_alloc"), 64)
    bench.machine.step()
    stack = stack_of(bench, 1)
    outermost = stack.frames[0]
    assert (outermost.function, outermost.level, outermost.interrupt) == ("irq_alloc", 1, True)
    assert stack.state_text == "runs"


@pytest.mark.parametrize("kernel", KERNELS)
def test_frames_and_variables_at_any_moment(kernel):
    """Frames are the snapshot's; each register is the one that a change of it would write."""
    recording = Recording(Session(spec_of(kernel)))
    recording.boot()
    recording.run(700)
    recording.change(Inject(1, "irq_alloc", (64,), period_cycles=900, spread_cycles=500, seed=3, count=20))
    recording.run(10**6)

    @settings(max_examples=25)
    @given(st.integers(0, recording.end - 1))
    def check(position: int) -> None:
        recording.seek(position, prepare=False)
        machine, program = recording.session.machine, recording.session.booted.program
        assert sum(call_stack(recording.session, cpu).next for cpu in range(4)) == 1
        for cpu in range(4):
            stack = call_stack(recording.session, cpu)
            seen = [(f.function, f.file, f.line, f.interrupt) for f in stack.frames]
            assert seen == [
                (v.function, v.file, v.line, v.interrupt) for v in frame_views(machine, program, cpu)
            ]
            assert stack.depth == sum(frame.interrupt for frame in stack.frames)
            assert stack.depth == (stack.frames[-1].level if stack.frames else 0)
            assert bool(stack.frames) == (machine.cpu_word(cpu, L.C_STATE) != CpuState.HALTED)
            windows = call_stack_windows(machine, program, cpu)[::-1]
            real = -1
            for frame in stack.frames:
                real += not frame.inlined
                for variable in frame.variables:
                    assert variable.text
                    if variable.register is not None:
                        assert variable.value == machine.state[windows[real][1] + variable.register]

    check()


def test_a_register_that_is_shown_can_be_changed():
    recording = Recording(Session(spec_of("slub")))
    recording.boot()
    recording.run(400)
    stack = call_stack(recording.session, 0)
    inner = stack.frames[0]
    variable = next(v for v in inner.variables if v.name == "i")
    depth = sum(not frame.inlined for frame in stack.frames) - 1
    recording.change(WriteRegister(0, depth, variable.register, 17))
    changed = call_stack(recording.session, 0).frames[0].variables
    assert next(v for v in changed if v.name == "i").text == "17"


def test_pointers_say_what_they_lead_to():
    bench = HandlerBench("slub", cpus=2)
    bench.run(0, "test_alloc", 64, 3)
    bench.machine.align_clocks()
    bench.start(0, "test_free", 0, 1, 1)
    run_until(bench, 0, "kfree")
    bench.machine.step()
    free = next(f for f in stack_of(bench, 0).frames if f.function == "kfree")
    object_ = next(v for v in free.variables if v.name == "object")
    assert object_.text.startswith("object ")
    assert object_.address == object_.value
    assert object_.type == "ptr[free_object]"
    run_until(bench, 0, "slab_free")
    while not any(v.name == "c" for v in stack_of(bench, 0).frames[-1].variables):
        bench.machine.step()
    texts = {v.name: v.text for v in stack_of(bench, 0).frames[-1].variables}
    assert texts["c"] == "kmalloc-64 cpu slab of CPU 0"
    assert texts["s"] == "kmalloc-64"
    assert texts["flags"] == "interrupts on"  # what irq_save found
    page = next(v for f in stack_of(bench, 0).frames for v in f.variables if v.name == "page")
    assert page.text == f"page of pfn {object_.value >> 12}"


def test_waiting_says_for_what_and_whom():
    recording = Recording(Session(spec_of("slab", cpus=4)))
    recording.boot()
    recording.run(10**6)
    waiting = None
    for position in range(0, recording.end, 97):
        recording.seek(position, prepare=False)
        blocks = recording.session.machine.cpu_blocks()
        states = blocks[:, L.C_STATE].tolist()
        if CpuState.WAITING_LOCK in states:
            waiting = states.index(CpuState.WAITING_LOCK)
            break
    assert waiting is not None
    block = recording.session.machine.cpu_blocks()[waiting]
    address = int(block[L.C_WAIT_ADDRESS])
    holders = [
        cpu
        for cpu, other in enumerate(recording.session.machine.cpu_blocks())
        if address in other[L.C_HELD_ADDRESS : L.C_HELD_ADDRESS + int(other[L.C_HELD])]
    ]
    stack = call_stack(recording.session, waiting)
    held = call_stack(recording.session, holders[0])
    name = next(lock for lock in held.held_locks if lock in stack.state_text)
    assert stack.state_text.startswith(f"waits for {name}, held by CPU {holders[0]}, for ")
    assert not stack.next


def test_interrupts_to_come_are_told_in_order():
    bench = HandlerBench("slub", cpus=2)
    bench.start(0, "test_alloc", 64, 4)
    bench.machine.step()
    clock = bench.machine.cpu_word(0, L.C_CLOCK) / L.MILLI
    done = bench.machine.cpu_word(0, L.C_MICRO_OPS)
    inject, index = bench.machine.inject, bench.index
    inject(0, index("irq_alloc"), 64, at_cycle=clock + 5000)
    inject(0, index("irq_alloc"), 128, at_cycle=clock + 400)
    inject(0, index("softirq_batch"), (2, 64), at_micro_op=done + 30, period_micro_ops=100, count=3)
    inject(0, index("irq_free"), (), at_cycle=clock + 600, period_cycles=1000, spread_cycles=200, count=0)
    inject(1, index("irq_alloc"), 32, at_cycle=clock + 10)
    assert stack_of(bench, 0).pending == (
        "irq_alloc(128) in 400 cycles",
        "irq_free() in 600 cycles, then every 1,000 to 1,200 cycles",
        "irq_alloc(64) in 5,000 cycles",
        "softirq_batch(2, 64) in 30 micro-ops, then every 100 micro-ops, 3 left",
    )
    assert len(stack_of(bench, 1).pending) == 1


def test_an_interrupt_that_is_held_up_says_so():
    bench = HandlerBench("slub", cpus=1)
    bench.start(0, "test_alloc", 64, 4)
    while stack_of(bench, 0).irq_enabled:
        bench.machine.step()
    bench.machine.inject(0, bench.index("irq_alloc"), 64)
    assert stack_of(bench, 0).pending == ("irq_alloc(64) as soon as interrupts are on",)
