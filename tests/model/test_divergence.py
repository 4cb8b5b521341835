"""Where two runs part, against an oracle that steps both in Python and compares what it sees."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.travel.changes import Change, Inject, SetOption, WriteRegister, WriteWord
from slubviz.model.travel.divergence import (
    By,
    CompareCancelled,
    Side,
    aligned_position,
    differences,
    differing_objects,
    first_divergence,
    next_executed,
    next_millicycles,
    operations_done,
)
from slubviz.model.travel.operation_log import OperationLog, read_operations
from slubviz.model.travel.recording import Recording

SMALL = SessionSpec("e5345_8p", "slub", "D", (64,), ops=8, seed=1, cpus=2)
KERNELS = ["slub", "slub+", "slub-seq", "slub-cpu-partial", "slab"]


def recording_of(spec: SessionSpec, micro_ops: int = 10**9) -> Recording:
    recording = Recording(Session(spec), budget_bytes=16 << 20)
    recording.boot()
    recording.run(micro_ops)
    return recording


def forked(spec: SessionSpec, position: int, cpu: int = 0, what=None) -> Recording:
    """A run to its end on branch 0, and with a change on branch 1."""
    recording = recording_of(spec)
    recording.seek(position)
    recording.change(what or Inject(cpu, "irq_alloc", (64,)))
    recording.run(10**9)
    return recording


class Walk:
    """The oracle: a run that is stepped in Python, with what is seen after each micro-op.

    States are large, so only those at some positions are kept.
    """

    def __init__(
        self, spec: SessionSpec, changes: tuple[Change, ...] = (), kept: tuple[int, ...] = ()
    ) -> None:
        session = Session(spec)
        session.boot()
        self.seen: list[tuple[int, int, int]] = []  # CPU, its clock before, trace hash
        self.states: dict[int, np.ndarray] = {}
        self._kept = kept
        self.clocks: list[int] = []  # of the next CPU
        self.operations: list[np.ndarray] = []
        self.session = session
        self._column = L.HARDWARE_COUNTERS + session.booted.program.counters.index("OPERATIONS")
        self._note(changes)
        while not (session.finished or session.fault):
            before = session.machine.cpu_blocks().copy()
            position = session.machine.micro_ops
            session.step()
            if session.machine.micro_ops == position:
                continue
            blocks = session.machine.cpu_blocks()
            (cpu,) = np.flatnonzero(blocks[:, L.C_MICRO_OPS] != before[:, L.C_MICRO_OPS])
            self.seen.append((int(cpu), int(before[cpu, L.C_CLOCK]), session.machine.trace_hash))
            self._note(changes)

    def _note(self, changes: tuple[Change, ...]) -> None:
        session = self.session
        for change in changes:
            if change.position == session.machine.micro_ops:
                change.what.apply(session)
        state = session.machine.state
        if session.machine.micro_ops in self._kept:
            self.states[session.machine.micro_ops] = state.copy()
            self.states[session.machine.micro_ops][[L.H_STATUS, L.H_SKIP_BREAK]] = 0
        keys, tree = int(state[L.H_KEYS]), int(state[L.H_TREE])
        following = int(state[keys + state[tree + 1]])
        self.clocks.append(following if following < L.NEVER else session.machine.clock_millicycles)
        self.operations.append(session.machine.counters()[:, self._column].copy())

    def parts_from(self, other: Walk) -> int | None:
        """How many micro-ops are the same."""
        for position, (mine, theirs) in enumerate(zip(self.seen, other.seen, strict=False)):
            if mine[2] != theirs[2]:
                return position
        return None if len(self.seen) == len(other.seen) else min(len(self.seen), len(other.seen))

    def same_state_as(self, other: Walk, position: int) -> bool:
        return np.array_equal(self.states[position], other.states[position])


@lru_cache(maxsize=64)
def _plain_walk(kernel: str, test: str, ops: int) -> Walk:
    return Walk(replace(SMALL, kernel=kernel, test=test, ops=ops))


def plain_walk(spec: SessionSpec) -> Walk:
    """The oracle without changes, made once."""
    assert spec == replace(SMALL, kernel=spec.kernel, test=spec.test, ops=spec.ops)
    return _plain_walk(spec.kernel, spec.test, spec.ops)


# --- by micro-op -----------------------------------------------------------------------------------------


def open_to_interrupts(recording: Recording, position: int) -> tuple[int, int]:
    """Go to the first position from one on at which the next CPU takes interrupts; that and the CPU."""
    recording.seek(position)
    while True:
        cpu = int(recording.session.machine.state[L.H_CURRENT_CPU])
        if recording.session.machine.cpu_word(cpu, L.C_IRQ_ENABLED):
            return recording.position, cpu
        recording.step()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_fork_parts_exactly_where_the_interrupt_was_injected(kernel: str) -> None:
    spec = replace(SMALL, kernel=kernel)
    recording = recording_of(spec)
    position, next_cpu = open_to_interrupts(recording, recording.end // 3)
    recording.change(Inject(next_cpu, "irq_alloc", (64,)))
    recording.run(300)
    found = first_divergence(Side(recording, 0), Side(recording, 1))
    assert found is not None
    assert (found.position_a, found.position_b, found.changed_at) == (position, position, position)
    assert found.cycles_a == found.cycles_b
    assert found.a != found.b
    assert found.a.startswith(f"CPU {next_cpu}: ")
    walk = Walk(spec, (Change(position, Inject(next_cpu, "irq_alloc", (64,))),))
    cpu = walk.seen[position][0]
    assert found.b.startswith(f"CPU {cpu}: ")
    assert found.text().startswith(f"they part after micro-op {position:,}, cycle ")


@settings(max_examples=5, deadline=None)
@given(
    kernel=st.sampled_from(KERNELS),
    share=st.floats(0, 0.99),
    cpu=st.integers(0, 1),
    later=st.integers(0, 400),
)
def test_forks_part_where_the_oracle_says(kernel: str, share: float, cpu: int, later: int) -> None:
    """Also on a CPU that does not run next, or has interrupts off: it shows later."""
    spec = replace(SMALL, kernel=kernel, ops=4)
    recording = recording_of(spec)
    position = int(share * recording.end)
    recording.seek(position)
    recording.change(Inject(cpu, "irq_alloc", (64,)))
    recording.run(later)
    if not recording.over:
        recording.change(Inject(cpu, "irq_alloc", (32,)))
    recording.run(10**9)
    kept = (0, position // 2, max(position - 1, 0), position)
    plain, changed = Walk(spec, (), kept), Walk(spec, recording.changes, kept)
    assert [plain.same_state_as(changed, place) for place in kept] == [place < position for place in kept]
    assert changed.session.fault == recording.session.fault
    for by in (By.MICRO_OP, By.CYCLE):
        found = first_divergence(Side(recording, 0), Side(recording, 1), by)
        assert found is not None
        assert found.by == by
        assert found.position_a == found.position_b == plain.parts_from(changed)
        assert found.changed_at == position
        assert found.cycles_a == plain.clocks[found.position_a] / 1000
        assert found.cycles_b == changed.clocks[found.position_b] / 1000
    assert recording.position == recording.end  # nothing has moved


@pytest.mark.parametrize(
    "other",
    [
        replace(SMALL, seed=2),
        replace(SMALL, options={"MIN_PARTIAL": 1}),
        replace(SMALL, options={"slub_max_order": 1, "slub_min_order": 1}),
        replace(SMALL, kernel="slub-2.6.25"),
        replace(SMALL, kernel="slab"),
        replace(SMALL, ops=9),
        replace(SMALL, sizes=(32,)),
        replace(SMALL, test="A"),
    ],
    ids=["seed", "option", "order", "kernel", "slab", "ops", "size", "test"],
)
def test_runs_of_other_requests_part_where_the_oracle_says(other: SessionSpec) -> None:
    a, b = recording_of(SMALL), recording_of(other)
    expected = plain_walk(SMALL).parts_from(Walk(other))
    found = first_divergence(Side(a), Side(b))
    assert (found and found.position_a) == expected
    assert found is None or found.changed_at is None


def test_the_same_run_does_not_part() -> None:
    a, b = recording_of(SMALL), recording_of(SMALL)
    a.seek(100)
    for by in By:
        assert first_divergence(Side(a), Side(b), by) is None
        assert first_divergence(Side(a), Side(a), by) is None
    assert a.position == 100
    short = recording_of(SMALL, 500)  # recorded to there, and the same until there
    assert first_divergence(Side(a), Side(short)) is None


def test_an_edit_that_changes_nothing_is_passed_over() -> None:
    recording = recording_of(SMALL)
    recording.seek(300)
    address = recording.session.booted.memory.global_address("results", 0)
    value = recording.session.machine.read(address)
    recording.change(WriteWord(address, value))
    recording.run(200)
    assert first_divergence(Side(recording, 0), Side(recording, 1)) is None
    recording.change(Inject(0, "irq_alloc", (64,)))
    recording.run(10**9)
    found = first_divergence(Side(recording, 1), Side(recording, 0))
    assert found is not None
    assert found.changed_at == 500


def test_another_option_of_the_program_counts_as_a_change() -> None:
    spec = replace(SMALL, kernel="slub-2.6.25")
    recording = forked(spec, 200, what=SetOption("MIN_PARTIAL", 2))
    found = first_divergence(Side(recording, 0), Side(recording, 1))
    walk = Walk(spec, (Change(200, SetOption("MIN_PARTIAL", 2)),))
    assert (found and found.position_a) == Walk(spec).parts_from(walk)
    if found:
        assert found.changed_at == 200


def test_a_run_that_fails_parts_from_one_that_goes_on() -> None:
    recording = recording_of(replace(SMALL, cpus=1, test="A"))
    end = recording.end
    recording.seek(end // 2)
    for register in range(6):
        recording.change(WriteRegister(0, 0, register, 3))
    recording.run(10**9)
    assert recording.session.fault
    found = first_divergence(Side(recording, 0), Side(recording, 1))
    walks = [Walk(recording.session.spec, changes) for changes in ((), recording.changes)]
    assert found is not None
    assert found.position_a == walks[0].parts_from(walks[1])
    assert found.changed_at == end // 2


def test_a_search_can_be_cancelled_and_leaves_the_cursor() -> None:
    recording = forked(SMALL, 500)
    recording.switch(1, 700)
    state = recording.session.machine.state.copy()
    stop = threading.Event()
    stop.set()
    for by in By:
        with pytest.raises(CompareCancelled):
            first_divergence(Side(recording, 0), Side(recording, 1), by, stop=stop)
    with pytest.raises(CompareCancelled):
        aligned_position(Side(recording, 0), Side(recording, 1), By.CYCLE, 600, stop=stop)
    assert (recording.branch.number, recording.position) == (1, 700)
    np.testing.assert_array_equal(recording.session.machine.state, state)
    shares: list[float] = []
    first_divergence(Side(recording, 0), Side(recording, 1), stop=threading.Event(), progress=shares.append)
    assert all(0 <= share <= 1 for share in shares)


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_was_executed_is_read_from_the_trace(kernel: str) -> None:
    """Against the program counters before each step; where an interrupt begins, its entry."""
    recording = recording_of(replace(SMALL, kernel=kernel, ops=3))
    injected_at, cpu = open_to_interrupts(recording, 100)
    recording.change(Inject(cpu, "irq_alloc", (64,)))
    recording.run(10**9)
    handler = recording.session.booted.program.function("irq_alloc").entry_pc
    entered = 0
    for position in (*range(injected_at - 5, injected_at + 90), *range(recording.end - 20, recording.end)):
        recording.seek(position)
        machine = recording.session.machine
        blocks, trace_hash = machine.cpu_blocks().copy(), machine.trace_hash
        executed = next_executed(recording)
        assert (machine.micro_ops, machine.trace_hash) == (position, trace_hash)
        assert executed is not None
        assert executed.pc in (int(blocks[executed.cpu, L.C_PC]), handler)
        entered += executed.pc == handler
        assert executed.text.startswith(f"CPU {executed.cpu}: ")
    assert entered == 1


# --- operations ------------------------------------------------------------------------------------------


def rows(log: OperationLog) -> list[tuple[int, ...]]:
    columns = (log.cpu, log.number, log.position, log.clock_millicycles)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def oracle_rows(walk: Walk) -> list[tuple[int, ...]]:
    found = []
    for position in range(1, len(walk.operations)):
        gained = walk.operations[position] - walk.operations[position - 1]
        for cpu in np.flatnonzero(gained):
            clock = walk.seen[position - 1][1]  # counting takes no time
            found.append((int(cpu), int(walk.operations[position][cpu]), position, clock))
    return found


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("test", ["C", "D"])
def test_operations_are_those_that_the_counters_show(kernel: str, test: str) -> None:
    spec = replace(SMALL, kernel=kernel, test=test)
    recording = recording_of(spec)
    log = read_operations(recording, 0, recording.end)
    assert log is not None
    assert rows(log) == oracle_rows(plain_walk(spec))
    part = read_operations(recording, 400, 900)
    assert part is not None
    assert rows(part) == [row for row in rows(log) if 400 < row[2] <= 900]


def test_cycles_of_operations_add_up_to_the_measured_result() -> None:
    spec = replace(SMALL, test="A", tests=("A", "B"), cpus=1, ops=50)
    recording = recording_of(spec)
    log = read_operations(recording, 0, recording.end)
    assert log is not None
    for result, first in zip(recording.session.results, (0, 50), strict=True):
        measured = log.millicycles[first : first + 50].sum() / 1000 / 50
        # The first one counts from the start of the phase, before the program reads its clock.
        assert result.cycles_per_op == pytest.approx(measured, rel=0.02)
    assert (log.millicycles > 0).all()
    np.testing.assert_array_equal(log.number, np.arange(1, 101))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_objects_are_those_that_the_workload_keeps(kernel: str) -> None:
    spec = replace(SMALL, kernel=kernel, test="A", tests=("A", "B"), cpus=1, ops=40)
    recording = recording_of(spec)
    memory = recording.session.booted.memory
    log = read_operations(recording, 0, recording.end)
    assert log is not None
    kept = memory.global_address("objects", 0)
    addresses = [recording.session.machine.read(kept + 8 * i) for i in range(40)]
    assert log.object.tolist() == addresses * 2  # B frees them in the same order
    places = log.objects_by_appearance(12)
    assert places[0][0] == 0
    assert places[:40] == places[40:]
    assert len(set(places[:40])) == 40
    assert {place[0] for place in places} == set(range(len({a >> 12 for a in addresses})))


def test_objects_of_interrupts_are_not_taken_for_those_of_the_workload() -> None:
    spec = replace(SMALL, test="A", cpus=1, ops=6)
    recording = recording_of(spec)
    for position in range(40, recording.end, 97):
        recording.seek(position)
        recording.change(Inject(0, "irq_alloc", (64,)))
        recording.run(10**9)
        log = read_operations(recording, 0, recording.end)
        assert log is not None
        kept = recording.session.booted.memory.global_address("objects", 0)
        assert log.object.tolist()[:6] == [recording.session.machine.read(kept + 8 * i) for i in range(6)]
        recording.switch(0)


@settings(max_examples=5, deadline=None)
@given(kernel=st.sampled_from(KERNELS), share=st.floats(0, 0.9), cpu=st.integers(0, 1))
def test_the_first_operation_that_differs_is_the_oracles(kernel: str, share: float, cpu: int) -> None:
    spec = replace(SMALL, kernel=kernel)
    recording = recording_of(spec)
    recording.seek(int(share * recording.end))
    recording.change(Inject(cpu, "irq_alloc", (64,)))
    recording.run(10**9)
    changed = {row[:2]: row for row in oracle_rows(Walk(spec, recording.changes))}
    expected = next(
        (
            row
            for row in oracle_rows(plain_walk(spec))
            if row[:2] in changed and row[3] != changed[row[:2]][3]
        ),
        None,
    )
    found = first_divergence(Side(recording, 0), Side(recording, 1), By.OPERATION)
    if expected is None:  # then it can differ in its object only
        assert found is None or found.cycles_a == found.cycles_b
        return
    assert found is not None
    assert found.position_a <= expected[2]
    if found.cycles_a != found.cycles_b:
        assert (found.cpu, found.operation, found.position_a) == expected[:3]
        assert (found.cpu, found.operation, found.position_b) == changed[expected[:2]][:3]
        assert found.text().startswith(f"operation {found.operation} of CPU {found.cpu} is the first")


def test_operations_of_two_kernels_are_beside_each_other() -> None:
    a, b = recording_of(replace(SMALL, ops=30)), recording_of(replace(SMALL, kernel="slab", ops=30))
    found = first_divergence(Side(a), Side(b), By.OPERATION)
    assert found is not None
    first = read_operations(a, 0, a.end)
    assert first is not None
    assert (found.operation, found.position_a) == (1, int(first.position[0]))
    assert "cycles" in found.a


# --- positions that belong together ----------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_aligned_positions_are_the_first_ones_that_are_so_far(data: st.DataObject) -> None:
    first, second = (
        replace(SMALL, kernel=data.draw(st.sampled_from(KERNELS)), test=data.draw(st.sampled_from("CD")))
        for _ in range(2)
    )
    a, b = recording_of(first), recording_of(second)
    walk_a, walk_b = plain_walk(first), plain_walk(second)
    at = data.draw(st.integers(0, a.end))
    cpu = data.draw(st.sampled_from([None, 0, 1]))
    sides = Side(a), Side(b)
    assert aligned_position(*sides, By.MICRO_OP, at) == min(at, b.end)
    by_cycle = next((i for i, clock in enumerate(walk_b.clocks) if clock >= walk_a.clocks[at]), b.end)
    assert aligned_position(*sides, By.CYCLE, at) == by_cycle

    def done(walk: Walk, position: int) -> int:
        counts = walk.operations[position]
        return int(counts.sum() if cpu is None else counts[cpu])

    by_operation = next((i for i in range(b.end + 1) if done(walk_b, i) >= done(walk_a, at)), b.end)
    assert aligned_position(*sides, By.OPERATION, at, cpu=cpu) == by_operation
    assert (a.position, b.position) == (a.end, b.end)


def test_clocks_and_operations_at_the_cursor() -> None:
    recording = recording_of(SMALL)
    walk = plain_walk(SMALL)
    for position in range(0, recording.end, 61):
        recording.seek(position)
        assert next_millicycles(recording) == walk.clocks[position]
        assert operations_done(recording) == walk.operations[position].sum()
        assert operations_done(recording, 1) == walk.operations[position][1]


# --- two pictures ----------------------------------------------------------------------------------------


def test_equal_pictures_have_no_differences() -> None:
    recording = recording_of(SMALL, 700)
    picture = recording.session.snapshot()
    assert differences(picture, recording.session.snapshot()) == ()
    assert differing_objects(picture, picture) == {}


def test_differences_name_the_thing_and_both_values() -> None:
    recording = recording_of(SMALL, 5_000)
    before = recording.session.snapshot()
    table = before.slabs
    assert len(table.page_frame) > 0
    states = table.object_state.copy()
    states[0] ^= 1
    inuse = table.inuse.copy()
    inuse[0] += 1
    cpus = (
        replace(before.cpus[0], state=0 if before.cpus[0].state else 1, preempt_count=5),
        *before.cpus[1:],
    )
    after = replace(
        before,
        fault="broken",
        cpus=cpus,
        locks=(),
        slabs=replace(table, object_state=states, inuse=inuse),
        nr_slabs=before.nr_slabs + 1,
    )
    found = {difference.what: (difference.a, difference.b) for difference in differences(before, after)}
    frame = int(table.page_frame[0])
    objects = int(table.objects[0])
    state = found.pop("CPU 0 state")
    assert state[0] != state[1]
    assert found.pop("CPU 0 preempt count") == (str(before.cpus[0].preempt_count), "5")
    assert found.pop("fault") == ("none", "broken")
    assert found.pop(f"slab {frame} inuse") == (f"{inuse[0] - 1} of {objects}", f"{inuse[0]} of {objects}")
    marks = found.pop(f"slab {frame} objects")
    assert marks[0][0] != marks[1][0]
    assert marks[0][1:] == marks[1][1:]
    assert len(marks[0]) == objects
    assert found.pop("node 0 slabs") == (str(before.nr_slabs[0]), str(before.nr_slabs[0] + 1))
    for lock in before.locks:
        found.pop(f"{lock.name} holder", None)
        found.pop(f"{lock.name} waiters", None)
    assert found == {}
    differ = differing_objects(before, after)
    assert list(differ) == [frame]
    assert differ[frame].tolist() == [True] + [False] * (objects - 1)


def test_what_only_one_picture_has_is_shown_as_missing() -> None:
    recording = recording_of(replace(SMALL, ops=200), 5_000)
    some = recording.session.snapshot()
    recording.seek(0)
    none = recording.session.snapshot()
    found = differences(some, none)
    slabs = [difference for difference in found if difference.kind == "slab"]
    assert {difference.key for difference in slabs} >= set(some.slabs.page_frame.tolist()) - set(
        none.slabs.page_frame.tolist()
    )
    assert all(difference.b == "-" for difference in slabs if difference.key not in none.slabs.page_frame)
    flipped = {(d.what, d.b, d.a) for d in differences(none, some)}
    assert flipped == {(d.what, d.a, d.b) for d in found}
