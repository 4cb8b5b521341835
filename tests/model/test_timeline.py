"""Overview, detail, heat and object histories of a run are those that stepping through it shows."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.hw.isa import FRAME_KIND, FRAME_RESULT_REGISTER, KIND_CALL, CpuState
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.snapshot_builder import call_stack
from slubviz.model.travel import timeline
from slubviz.model.travel.activity import ENTRIES, SLOW_ROOTS, Activity, activity_of_micro_ops
from slubviz.model.travel.changes import Inject
from slubviz.model.travel.heat import trace_heat
from slubviz.model.travel.object_history import ObjectEvent, object_history
from slubviz.model.travel.places import slab_of_frame
from slubviz.model.travel.recording import Recording
from slubviz.model.travel.timeline import MarkKind, trace_detail

SMALL = SessionSpec("e5345_8p", "slub", "D", (64,), ops=20, seed=1, cpus=3, handlers=True)
SPECS = [
    SMALL,
    replace(SMALL, kernel="slub-2.6.25", test="E"),
    replace(SMALL, kernel="slab", test="F"),
    replace(SMALL, kernel="slub-cpu-partial", test="D"),
    replace(SMALL, kernel="slub-bulk", test="bulk", sizes=(), objects=(8,), machine="i7_4790k", cpus=None),
]


def recorded(spec: SessionSpec, *changes: tuple[int, Inject]) -> Recording:
    """A recording of a whole run with interrupts."""
    recording = Recording(Session(spec))
    recording.boot()
    for position, what in changes:
        recording.run(position - recording.position)
        recording.change(what)
    recording.run(10**7)
    assert recording.over
    assert not recording.session.fault
    return recording


def interrupted(spec: SessionSpec) -> Recording:
    return recorded(
        spec,
        (300, Inject(0, "irq_alloc_alloc_free_first", (64,))),
        (900, Inject(1, "softirq_batch", (3, 64))),
        (950, Inject(1, "irq_alloc", (64,))),
        (1200, Inject(2, "irq_alloc", (64,), period_cycles=3000, spread_cycles=900, seed=4, count=5)),
    )


# --- overview -----------------------------------------------------------------------------------------
def counters_at(spec: SessionSpec, position: int) -> np.ndarray:
    session = Session(spec)
    session.boot()
    session.run(position)
    assert session.machine.micro_ops == position
    return session.machine.counters().copy()


@pytest.mark.parametrize("most", [4096, 16])
def test_overview_counts_what_the_counters_say_at_its_edges(most, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_BUCKETS", most)
    recording = recorded(SMALL)
    overview = recording.overview()
    buckets = len(overview.positions) - 1
    assert (most == 16) == (buckets <= 16)
    assert overview.positions[0] == 0
    assert overview.positions[-1] == recording.end
    lengths = np.diff(overview.positions)
    assert len(set(lengths[:-1].tolist())) == 1
    assert lengths[-1] <= lengths[0]
    names = recording.session.counter_names()
    columns = {
        "fast_ops": [names.index("ALLOC_FASTPATH"), names.index("FREE_FASTPATH")],
        "slow_ops": [names.index("ALLOC_SLOWPATH"), names.index("FREE_SLOWPATH")],
        "interrupts": [L.N_INTERRUPTS],
        "retries": [L.N_CMPXCHG_FAILED],
        "contended": [L.N_LOCKS_CONTENDED],
    }
    for edge in (1, buckets // 2, buckets - 1, buckets):
        expected = counters_at(SMALL, int(overview.positions[edge]))
        for name, numbers in columns.items():
            assert getattr(overview, name)[:edge].sum(axis=0).tolist() == expected[:, numbers].sum(1).tolist()
        waited = overview.wait_cycles[:edge].sum(axis=0)
        assert np.allclose(waited, expected[:, L.N_LOCK_WAIT_MILLICYCLES] / 1000)
    assert overview.slow_ops.sum() > 0
    assert overview.contended.sum() > 0


@settings(max_examples=3)
@given(st.integers(1, 3000))
def test_overview_does_not_depend_on_how_the_run_was_cut(piece):
    whole = recorded(SMALL).overview()
    recording = Recording(Session(SMALL))
    recording.boot()
    while not recording.over:
        recording.run(piece)
    cut = recording.overview()
    for name in ("positions", "clock_cycles", "fast_ops", "slow_ops", "wait_cycles", "activity", "max_depth"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name
    assert whole.phases == cut.phases


def test_phases_begin_where_the_session_starts_them():
    spec = replace(SMALL, test="A", sizes=(8, 16, 32))
    session = Session(spec)
    session.boot()
    expected = [(0, 0)]
    while not session.finished:
        before = session.phase_index
        session.run(10**7, stop_at_phase_end=True)
        if session.phase_index != before and not session.finished:
            expected.append((session.phase_index, session.machine.micro_ops))
    assert len(expected) > 4
    for piece in (10**7, 777):
        recording = Recording(Session(spec))
        recording.boot()
        while not recording.over:
            recording.run(piece)
        assert [phase.position for phase in recording.overview().phases] == [at for _, at in expected]
        assert recording.overview().phases[0].name == "A kmalloc 8"


def test_a_branch_has_an_overview_of_its_own():
    recording = recorded(SMALL)
    first = recording.overview()
    fork = recording.end // 2
    recording.seek(fork)
    recording.change(Inject(1, "irq_alloc", (64,)))
    recording.run(10**7)
    second = recording.overview()
    same = int(np.searchsorted(first.positions, fork, side="right")) - 1
    assert same > 10
    for name in ("fast_ops", "slow_ops", "interrupts"):
        assert np.array_equal(getattr(first, name)[:same], getattr(second, name)[:same])
    assert second.positions[-1] == recording.end != first.positions[-1]
    assert second.interrupts.sum() == 1
    assert second.max_depth.max() == 1
    recording.switch(0)
    assert recording.overview().interrupts.sum() == 0


# --- detail -------------------------------------------------------------------------------------------
def activity(session: Session, cpu: int) -> tuple[int, int]:
    """The oracle: the nearest function on the stack with a say, up to the interrupt."""
    block = session.machine.cpu_blocks()[cpu]
    depth = int(block[L.C_IRQ_DEPTH])
    if block[L.C_STATE] == CpuState.WAITING_LOCK:
        return Activity.WAITING, depth
    if block[L.C_STATE] != CpuState.RUNNING:
        return Activity.IDLE, depth
    program = session.booted.program
    for pc, interrupt in call_stack(session.machine, program, cpu):
        for function, _ in reversed(program.inline_stack(pc)):
            if function.name in SLOW_ROOTS:
                return Activity.SLOW_PATH, depth
            if function.name in ENTRIES:
                return Activity.FAST_PATH, depth
        if interrupt:
            break
    return Activity.WORKLOAD, depth


def stepped(
    spec: SessionSpec, recording: Recording, first: int, last: int
) -> dict[int, list[tuple[int, int]]]:
    """Position -> activity and depth of each CPU, by stepping through a part of the run."""
    alone = Session(spec)
    alone.boot()
    changes = list(recording.changes)
    found = {}
    while True:
        position = alone.machine.micro_ops
        while changes and changes[0].position == position:
            changes.pop(0).what.apply(alone)
        if position >= first:
            found[position] = [activity(alone, cpu) for cpu in range(alone.machine_spec.cpus)]
        if position >= last or alone.finished:
            return found
        following = min(changes[0].position if changes else first, first)
        alone.run(following - position if following > position else 1)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.kernel}-{spec.test}")
def test_detail_is_what_stepping_shows(spec):
    recording = interrupted(spec)
    end = recording.end
    recording.seek(end // 3)
    before = (recording.position, recording.state_hash(), recording.branch)
    for first, last in ((250, 3000), (end - 900, end)):
        expected = stepped(spec, recording, first, last)
        detail = trace_detail(recording, first, last)
        assert (recording.position, recording.state_hash(), recording.branch) == before
        assert (detail.first, detail.last) == (first, last)
        for cpu in range(recording.session.machine_spec.cpus):
            mine = detail.cpu == cpu
            starts, ends = detail.first_position[mine], detail.last_position[mine]
            assert starts[0] == first
            assert ends[-1] == last
            assert np.array_equal(starts[1:], ends[:-1])
            kinds = list(zip(detail.activity[mine].tolist(), detail.depth[mine].tolist(), strict=True))
            for start, stop, kind in zip(starts.tolist(), ends.tolist(), kinds, strict=True):
                assert {tuple(map(int, expected[at][cpu])) for at in range(start, stop)} == {kind}
            assert (detail.last_cycle[mine] >= detail.first_cycle[mine]).all()
    whole = trace_detail(recording, 0, end)
    assert whole.depth.max() >= 1
    recording.seek(end)
    counters = recording.session.machine.counters().sum(axis=0)
    assert int((whole.mark_kind == MarkKind.INTERRUPT).sum()) == counters[L.N_INTERRUPTS] >= 4
    assert int((whole.mark_kind == MarkKind.CONTENDED).sum()) == counters[L.N_LOCKS_CONTENDED]
    assert int((whole.mark_kind == MarkKind.RETRY).sum()) == counters[L.N_CMPXCHG_FAILED]
    assert (np.diff(whole.mark_position) >= 0).all()


def test_slow_path_marks_are_at_entries():
    recording = recorded(SMALL)
    detail = trace_detail(recording, 0, recording.end)
    marks = detail.mark_position[detail.mark_kind == MarkKind.SLOW_PATH]
    cpus = detail.mark_cpu[detail.mark_kind == MarkKind.SLOW_PATH]
    starts = Counter(zip(detail.cpu.tolist(), detail.first_position.tolist(), strict=True))
    assert len(marks) == int((recording.overview().slow_ops).sum())
    for cpu, position in zip(cpus.tolist(), marks.tolist(), strict=True):
        assert starts[cpu, position] == 1
        recording.seek(position)
        assert activity(recording.session, cpu)[0] == Activity.SLOW_PATH
        recording.seek(position - 1)
        assert activity(recording.session, cpu)[0] == Activity.FAST_PATH


@pytest.mark.parametrize(
    ("kernel", "slow", "fast"),
    [
        (
            "slub",
            "__slab_alloc __slab_free new_slab deactivate_slab get_partial rmqueue_bulk",
            "kmalloc kfree slab_alloc",
        ),
        (
            "slub-2.6.25",
            "__slab_alloc unfreeze_slab add_partial_to __alloc_pages",
            "kmalloc slab_free get_slab",
        ),
        (
            "slub-cpu-partial",
            "__slab_alloc ___slab_alloc __slab_free deactivate_slab allocate_slab",
            "kfree slab_alloc",
        ),
        (
            "slab",
            "cache_alloc_refill cache_flusharray cache_grow alloc_slabmgmt free_remote drain_array",
            "kmalloc kmem_cache_free __cache_free",
        ),
    ],
)
def test_which_functions_are_slow(kernel, slow, fast):
    program = Session(replace(SMALL, kernel=kernel)).booted.program
    classes = activity_of_micro_ops(program)
    for names, wanted in (
        (slow, Activity.SLOW_PATH),
        (fast, Activity.FAST_PATH),
        ("test_alloc irq_alloc", Activity.WORKLOAD),
    ):
        for name in names.split():
            function = program.function(name)
            own = program.spans[:, 5] == function.index
            # Where it is expanded in others too, its own part is of that kind wherever it has a say.
            assert {int(kind) for kind in classes[own]} == {int(wanted)}, name


def test_a_stop_ends_everything_early():
    recording = recorded(SMALL)
    stop = threading.Event()
    stop.set()
    assert trace_detail(recording, 0, recording.end, stop) is None
    assert trace_heat(recording, 0, recording.end, stop) is None
    assert object_history(recording, 0x1000, stop) is None
    assert recording.position == recording.end


# --- heat ---------------------------------------------------------------------------------------------
def test_heat_of_parts_adds_up_to_that_of_the_whole():
    recording = interrupted(SMALL)
    end, middle = recording.end, recording.end * 2 // 5
    whole = trace_heat(recording, 0, end)
    parts = [trace_heat(recording, 0, middle), trace_heat(recording, middle, end)]
    assert sum(line.micro_ops for line in whole.lines.values()) == end
    assert (parts[0].first, parts[0].last, parts[1].last) == (0, middle, end)
    for key, line in whole.lines.items():
        of_parts = [part.of_line(*key) for part in parts if part.of_line(*key)]
        assert line.micro_ops == sum(part.micro_ops for part in of_parts)
        assert line.cycles == pytest.approx(sum(part.cycles for part in of_parts))
        assert line.wait_cycles == pytest.approx(sum(part.wait_cycles for part in of_parts))
    assert (
        whole.wait_cycles * 1000 == recording.session.machine.counters()[:, L.N_LOCK_WAIT_MILLICYCLES].sum()
    )
    assert whole.of_line("slub.py", 1) is None


def test_heat_of_one_cpu_is_all_of_its_time():
    recording = recorded(
        replace(SMALL, cpus=1, test="A", machine="p4_3ghz_up"), (500, Inject(0, "irq_alloc", (64,)))
    )
    heat = trace_heat(recording, 0, recording.end)
    assert heat.cycles == pytest.approx(recording.session.machine.clock_millicycles / 1000)
    assert heat.wait_cycles == 0
    source = recording.session.booted.program.sources["tests_a_to_f.py"].splitlines()
    free = heat.of_line("tests_a_to_f.py", 1 + source.index("            kfree(kept.of[i])"))
    assert (free.times, free.micro_ops) == (20, 80)  # once an object, four micro-ops each
    source = recording.session.booted.program.sources["slub.py"].splitlines()
    first = heat.of_line(
        "slub.py",
        1 + source.index("    if size > KMALLOC_MAX:", source.index("def kmalloc(size, gfpflags) -> ptr:")),
    )
    assert first.times == 21  # the test's 20 and the interrupt's


# --- histories ----------------------------------------------------------------------------------------
def histories_by_stepping(spec: SessionSpec) -> dict[int, list[tuple[int, int, bool]]]:
    """The oracle: object -> (position, CPU, allocated), from windows that come and go."""
    session = Session(spec)
    session.boot()
    program, found = session.booted.program, {}
    kmalloc, kfree = program.function("kmalloc").index, program.function("kfree").index
    last: dict[int, tuple[int, int]] = {}
    while not session.finished:
        state = session.machine.state
        for cpu, block in enumerate(session.machine.cpu_blocks()):
            window, function = int(block[L.C_WINDOW]), int(block[L.C_FUNCTION])
            before = last.get(cpu, (window, function))
            position = session.machine.micro_ops
            if window > before[0] and state[window + FRAME_KIND] == KIND_CALL and function == kfree:
                found.setdefault(int(state[window]), []).append((position, cpu, False))
            if window < before[0] and before[1] == kmalloc:
                value = int(state[window + int(state[before[0] + FRAME_RESULT_REGISTER])])
                found.setdefault(value, []).append((position, cpu, True))
            last[cpu] = (window, function)
        session.run(1)
    return found


@pytest.mark.parametrize("kernel", ["slub", "slab", "slub-cpu-partial", "slub-seq"])
def test_histories_are_what_stepping_shows(kernel):
    spec = replace(SMALL, kernel=kernel, test="F")
    expected = histories_by_stepping(spec)
    recording = recorded(spec)
    recording.seek(1000)
    busiest = sorted(expected, key=lambda address: -len(expected[address]))[:4] + sorted(expected)[:4]
    assert len(expected) >= 20
    for address in busiest:
        events = object_history(recording, address)
        assert [(e.position, e.cpu, e.allocated) for e in events] == expected[address]
        assert recording.position == 1000
    half = recording.end // 2
    assert [e.position for e in object_history(recording, busiest[0], first=half)] == [
        position for position, _, _ in expected[busiest[0]] if position > half
    ]


def test_a_history_says_who_did_it():
    recording = recorded(
        SMALL, (400, Inject(0, "irq_alloc", (64,))), (9000, Inject(2, "irq_free_remote", (0,)))
    )
    session = recording.session
    recording.seek(8000)
    held = session.booted.memory.global_structs("held")
    address = int(held[0]["of"][0])
    events = object_history(recording, address)
    # The same object may be used by the test before and after; the handlers' part is exact.
    ours = [e for e in events if e.in_interrupt]
    assert [(e.cpu, e.allocated, e.function, e.caller) for e in ours] == [
        (0, True, "kmalloc", "irq_alloc"),
        (2, False, "kfree", "irq_free_remote"),
    ]
    assert all(e.caller_line > 0 and e.caller_file in session.booted.program.sources for e in events)
    assert ours[0].position > 400
    recording.seek(ours[0].position)
    assert recording.session.booted.program is not None


@pytest.mark.parametrize("form", [0, 1, 2])
def test_objects_of_bulk_calls_have_a_history(form):
    """In form 0 the bulk functions call the single ones; the object is handed out once all the same."""
    recording = recorded(replace(SPECS[-1], options={"BULK": form}))
    kernel = recording.session.booted
    recording.seek(recording.end * 9 // 10)  # slabs that are empty at the end are given back
    found: list[ObjectEvent] = []
    for frame in range(kernel.program.globals["mem_map"].count):
        slab = slab_of_frame(kernel, frame)
        if slab and slab.page_frame == frame and not found:
            for index in range(0, slab.objects, 5):
                events = object_history(recording, slab.first_object + index * slab.size_bytes)
                assert all(before.allocated != after.allocated for before, after in pairwise(events))
                found += events
    functions = {(event.function, event.allocated) for event in found}
    assert ("kmem_cache_alloc_bulk", True) in functions
    assert ("kmem_cache_free_bulk", False) in functions
