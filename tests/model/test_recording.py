"""A recording gives every moment of a run again, exactly: forwards, backwards, in branches, in any order."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slubviz.hw.isa import BREAK_BIT, WORDS, Status
from slubviz.hw.machine import plain_engine
from slubviz.model.errors import UserError
from slubviz.model.requests import SessionSpec
from slubviz.model.scenarios import load_scenario
from slubviz.model.scenarios.run import ScenarioRun
from slubviz.model.session import Session
from slubviz.model.travel.bookmarks import Bookmark
from slubviz.model.travel.changes import (
    ChangeError,
    Inject,
    SetOption,
    WriteRegister,
    WriteWord,
)
from slubviz.model.travel.recording import Recording

SMALL = SessionSpec("e5345_8p", "slub", "D", (64,), ops=60, seed=1, cpus=4)
SPECS = [
    SMALL,
    replace(SMALL, kernel="slub+", test="E"),
    replace(SMALL, kernel="slab", test="F"),
    replace(SMALL, kernel="slub-cpu-partial", test="F", machine="ia64_8p_4n", cpus=8),
    replace(SMALL, kernel="slub-seq", test="A", tests=("A", "B")),
    replace(SMALL, kernel="slub-bulk", test="bulk", sizes=(), objects=(8,), machine="i7_4790k", cpus=None),
    replace(SMALL, kernel="slub-2.6.25", test="C"),
]


def recording_of(spec: SessionSpec, budget_bytes: int = 512 << 20) -> Recording:
    recording = Recording(Session(spec), budget_bytes)
    recording.boot()
    return recording


def facts(recording: Recording) -> tuple:
    """Everything that a moment consists of."""
    session = recording.session
    progress = session.progress()
    return (
        recording.position,
        recording.state_hash(),
        progress.results,
        progress.fault,
        progress.finished,
        progress.phase_index,
        progress.counters_before.tobytes(),
        progress.clock_before_millicycles,
        progress.micro_ops_before,
        progress.sample_operations,
        progress.sample_cycles,
    )


def run_alone(spec: SessionSpec, position: int) -> Session:
    """The oracle: a session that was never recorded, run in one piece."""
    session = Session(spec)
    session.boot()
    session.run(position)
    return session


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.kernel}-{spec.test}")
def test_every_place_is_the_same_as_in_a_run_that_was_never_recorded(spec):
    recording = recording_of(spec)
    recording.run(10**9)
    assert recording.over
    assert not recording.session.fault
    end = recording.end
    for position in (0, end // 2, end // 2 - 1, end - 1, end // 3, end):
        assert recording.seek(position)
        assert recording.position == position
        alone = run_alone(spec, position)
        np.testing.assert_array_equal(recording.session.machine.state, alone.machine.state)
        assert recording.session.results == alone.results
        assert recording.session.progress().sample_cycles == alone.progress().sample_cycles


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.kernel}-{spec.test}")
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_forth_back_and_forth_is_equal_in_every_array(spec, data):
    """Random steps, seeks and interrupts; each place that is seen again is the same again."""
    recording = recording_of(spec)
    seen: dict[tuple[int, int], tuple] = {}
    for _ in range(data.draw(st.integers(4, 12))):
        move = data.draw(st.sampled_from(["run", "step", "back", "seek", "inject", "switch", "thin"]))
        if move == "run":
            recording.run(data.draw(st.integers(1, 20_000)))
        elif move == "step":
            recording.step()
        elif move == "back":
            recording.step_back()
        elif move == "seek":
            recording.seek(data.draw(st.integers(0, recording.end)))
        elif move == "switch":
            recording.switch(data.draw(st.integers(0, len(recording.branches) - 1)))
        elif move == "thin":
            for kept in recording._kept.seen_from(recording._lineage())[1:]:
                recording._give_up(kept)
        elif not recording.over:
            # What was seen at this place of this branch is another moment from now on.
            seen.pop((recording.branch.number, recording.position), None)
            cpu = data.draw(st.integers(0, recording.session.machine_spec.cpus - 1))
            recording.change(Inject(cpu, "irq_alloc", (64,)))
        here = (recording.branch.number, recording.position)
        now = facts(recording)
        assert seen.setdefault(here, now) == now
    for (branch, position), before in seen.items():
        recording.switch(branch, position)
        assert facts(recording) == before


def test_a_step_back_undoes_a_step_at_every_micro_op_of_a_stretch():
    recording = recording_of(replace(SMALL, ops=2, cpus=2))
    recording.run(100)
    moments = {100: facts(recording)}
    for _ in range(150):
        recording.step()
        moments[recording.position] = facts(recording)
    assert list(moments) == list(range(100, 251))
    for expected in reversed(list(moments.values())[:-1]):
        assert recording.step_back()
        assert facts(recording) == expected
    recording.seek(0)
    assert not recording.step_back()


def test_a_small_budget_thins_checkpoints_and_keeps_the_start(monkeypatch):
    monkeypatch.setattr("slubviz.model.travel.checkpoint_keeper.RUN_SHARE", 0.0)  # as often as can be
    recording = recording_of(replace(SMALL, ops=20_000), budget_bytes=1)
    recording.run(10**9)
    stats = recording.stats()
    assert stats.used_bytes <= stats.budget_bytes
    kept = recording.checkpoints()
    assert kept[0] == 0
    assert 3 <= len(kept) < recording.end // 20_000 - 5  # one was due every 20,000 micro-ops
    widest = max(after - before for before, after in zip(kept, [*kept[1:], recording.end], strict=True))
    assert widest < recording.end / 2  # spread over the run
    recording.seek(recording.end // 2)
    alone = run_alone(recording.session.spec, recording.end // 2)
    np.testing.assert_array_equal(recording.session.machine.state, alone.machine.state)


def test_a_change_in_the_past_makes_a_branch_and_keeps_the_old_future():
    recording = recording_of(SMALL)
    recording.run(10**9)
    end, end_hash = recording.end, recording.trace_hash
    recording.seek(4000)
    before = recording.state_hash()
    branch = recording.change(Inject(1, "irq_alloc", (64,)))
    assert (branch.number, branch.parent, branch.fork_position, branch.end) == (1, 0, 4000, 4000)
    assert recording.state_hash() != before
    recording.run(10**9)
    assert recording.trace_hash != end_hash
    assert recording.session.results != []
    recording.switch(0, end)
    assert recording.trace_hash == end_hash
    assert recording.changes == ()
    recording.switch(1, 3999)
    alone = run_alone(SMALL, 3999)
    np.testing.assert_array_equal(recording.session.machine.state, alone.machine.state)
    assert [change.position for change in recording.changes] == [4000]
    recording.switch(0, 4000)
    assert recording.state_hash() == before


def test_a_change_at_the_end_of_what_is_recorded_belongs_to_the_branch():
    recording = recording_of(SMALL)
    recording.run(1000)
    branch = recording.change(Inject(0, "irq_alloc", (64,)))
    assert branch.number == 0
    recording.run(1000)
    after = recording.state_hash()
    recording.seek(0)
    recording.seek(2000)
    assert recording.state_hash() == after


def test_changes_at_one_place_are_made_in_their_order():
    recording = recording_of(SMALL)
    recording.run(1000)
    address = recording.session.booted.memory.global_address("results", 3)
    for value in (5, 7):
        recording.change(WriteWord(address, value))
    recording.run(10)
    recording.seek(500)
    recording.seek(1000)
    assert recording.session.machine.read(address) == 7


def test_changes_of_a_grandchild_include_those_of_its_ancestors():
    recording = recording_of(SMALL)
    recording.run(5000)
    recording.seek(1000)
    recording.change(Inject(0, "irq_alloc", (64,)))
    recording.run(4000)
    recording.seek(3000)
    recording.change(Inject(1, "irq_alloc", (64,)))
    recording.run(2000)
    expected = recording.state_hash()
    assert [change.position for change in recording.changes] == [1000, 3000]
    assert [branch.parent for branch in recording.branches] == [None, 0, 1]
    recording.switch(0, 5000)
    recording.switch(2, 5000)
    assert recording.state_hash() == expected


def test_a_change_that_is_impossible_changes_nothing():
    recording = recording_of(SMALL)
    recording.run(5000)
    recording.seek(2000)
    before = facts(recording)
    for what, said in [
        (Inject(9, "irq_alloc", (64,)), "CPU 9 does not exist"),
        (Inject(0, "irq_aloc", (64,)), "irq_alloc"),
        (Inject(0, "irq_alloc"), "takes"),
        (WriteWord(3, 1), "no memory"),
        (WriteWord(8, 1 << 70), "does not fit"),
        (WriteRegister(0, 50, 0, 1), "no frame 50"),
        (WriteRegister(0, 0, 5000, 1), "registers 0 to"),
        (SetOption("NO_SUCH", 1), "NO_SUCH"),
        (SetOption("PATCH_08", 1), "other code"),
    ]:
        with pytest.raises(UserError, match=said):
            recording.change(what)
        assert facts(recording) == before
        assert len(recording.branches) == 1


def test_an_option_that_is_a_value_can_be_changed_while_it_runs():
    recording = recording_of(replace(SMALL, test="F", ops=400))
    recording.run(10**9)
    last = recording.session.results
    recording.seek(10)
    recording.change(SetOption("FREE_TO_TAIL", 1))
    recording.run(10**9)
    changed = recording.session.results
    asked = Session(replace(recording.session.spec, options={"FREE_TO_TAIL": 1}))
    asked.run(10**9)
    assert [cell.counters for cell in changed] == [cell.counters for cell in asked.results]
    assert [cell.cycles_per_op for cell in changed] != [cell.cycles_per_op for cell in last]
    recording.switch(0, recording.branches[0].end)
    assert recording.session.results == last
    assert recording.session.booted.program.options["FREE_TO_TAIL"].value == 0


def test_an_option_that_is_read_at_boot_is_refused():
    recording = recording_of(replace(SMALL, kernel="slub-cpu-partial"))
    with pytest.raises(ChangeError, match="changes nothing of the running code"):
        recording.change(SetOption("CPU_PARTIAL_OBJECTS", 2))


def test_a_finished_run_takes_no_change():
    recording = recording_of(SMALL)
    recording.run(10**9)
    with pytest.raises(ChangeError, match="finished"):
        recording.change(Inject(0, "irq_alloc", (64,)))


def test_where_a_program_fails_the_place_shows_it_and_can_be_left_and_mended():
    recording = recording_of(SMALL)
    recording.run(2000)
    program = recording.session.booted.program
    per_cpu = program.globals["cache_cpus"]
    for word in range(0, per_cpu.stride_bytes, 8):  # a head of a freelist that is no object
        recording.change(WriteWord(per_cpu.address + word, 3))
    recording.run(10**9)
    assert recording.session.fault
    place, said = recording.position, recording.session.fault
    recording.seek(100)
    assert not recording.session.fault
    recording.seek(place)
    assert recording.session.fault == said
    assert recording.step_back()
    assert not recording.session.fault
    recording.seek(10**12)
    assert (recording.position, recording.session.fault) == (place, said)
    branch = recording.change(Inject(0, "irq_alloc", (64,)))
    assert branch.number == 1
    assert branch.fork_position == place
    recording.switch(0, place)
    assert recording.session.fault == said


def test_seek_by_cycle_gives_the_first_place_at_which_the_next_cpu_has_reached_it():
    recording = recording_of(replace(SMALL, ops=20))
    clocks = []
    while not recording.over:
        clocks.append(recording._next_millicycles())
        recording.step()
    for wanted in (0, 1, 500, 2000.5, clocks[-1] / 1000):
        recording.seek_cycle(wanted)
        expected = next(i for i, clock in enumerate(clocks) if clock >= wanted * 1000)
        assert recording.position == expected
    assert recording.seek_cycle(1e15)
    assert recording.session.finished


def test_a_seek_that_is_stopped_ends_at_a_sound_place():
    recording = recording_of(replace(SMALL, ops=2000))
    recording.run(10**9)
    recording.seek(0)
    stop = threading.Event()

    def after_a_while(done: float) -> None:
        if done > 0.3:
            stop.set()

    for kept in recording._kept.seen_from([(0, 1 << 62)])[1:]:  # no checkpoints: it has to run
        recording._give_up(kept)
    assert not recording.seek(recording.end, stop=stop, progress=after_a_while)
    assert 0 < recording.position < recording.end
    alone = run_alone(recording.session.spec, recording.position)
    np.testing.assert_array_equal(recording.session.machine.state, alone.machine.state)


def test_an_excursion_ends_where_it_began():
    recording = recording_of(SMALL)
    recording.run(6000)
    recording.seek(3000)
    before = facts(recording)
    with recording.excursion():
        recording.seek(5000)
        recording.step_back()
        recording.seek(100)
    assert facts(recording) == before
    recording.run(10)
    alone = run_alone(SMALL, 3010)
    np.testing.assert_array_equal(recording.session.machine.state, alone.machine.state)


def test_recording_changes_nothing_of_the_run():
    recording = recording_of(SMALL)
    recording.run(10**9)
    alone = run_alone(SMALL, 10**9)
    assert recording.trace_hash == alone.machine.trace_hash
    assert recording.session.results == alone.results


def test_an_engine_that_stops_inside_an_interrupt_s_entry_or_at_a_phase_s_end_leaves_the_same_moment():
    recording = recording_of(SMALL)
    session = recording.session
    entries = [session.booted.program.function(name).entry_pc for name in ("irq_alloc", "test_alloc")]
    marked = session.machine.code.copy()
    for pc in entries:
        marked[pc * WORDS] |= BREAK_BIT

    def engine(S, code, P, limit, millicycles):
        return plain_engine(S, marked, P, limit, millicycles)

    for cpu in range(4):
        for at in (300, 1500, 6001):
            session.machine.inject(cpu, session.booted.program.function("irq_alloc").index, 64, at_cycle=at)
    recording._give_up(recording._kept.last([(0, 1)], 0))
    recording._keep()  # the start, with the interrupts pending
    stops = []
    while not recording.over:
        status = recording.run(10**9, engine=engine)
        if status != Status.BREAKPOINT:
            break
        stops.append(facts(recording))
        recording.step()
    assert len(stops) >= 12
    for expected in stops:
        recording.seek(expected[0])
        assert facts(recording) == expected


def test_phases_of_the_overview_begin_where_they_begin():
    recording = recording_of(replace(SMALL, test="A", tests=("A", "B")))
    begins = [0]
    while not recording.over:
        recording.step()
        if recording.session.phase_index != len(begins) - 1 and not recording.over:
            begins.append(recording.position)
    again = recording_of(recording.session.spec)
    again.run(10**9)
    assert [phase.position for phase in again.overview().phases] == begins
    assert len(begins) == len(again.session.phases)


def test_a_change_before_the_fork_of_the_cursors_branch_makes_a_branch_of_the_one_it_came_from():
    """Before its fork a branch is its parent, so what was done to the parent later does not count."""
    recording = recording_of(SMALL)
    recording.run(6000)
    recording.change(Inject(2, "irq_alloc", (64,)))
    recording.run(4000)
    recording.seek(8000)
    recording.change(Inject(0, "irq_alloc", (64,)))
    recording.run(2000)
    recording.seek(4000)
    made = recording.change(Inject(1, "irq_alloc", (64,)))
    assert (made.number, made.parent, made.fork_position) == (2, 0, 4000)
    assert [change.position for change in recording.changes] == [4000]
    for kept in recording._kept.from_on(2, 0):  # so that the way there is one through the parent
        recording._give_up(kept)
    recording.seek(0)
    recording.seek(7000)
    alone = recording_of(SMALL)
    alone.run(4000)
    alone.change(Inject(1, "irq_alloc", (64,)))
    alone.run(3000)
    np.testing.assert_array_equal(recording.session.machine.state, alone.session.machine.state)


def test_a_second_option_leaves_the_first_one_changed():
    recording = recording_of(SMALL)
    for name, value in (("FREE_TO_TAIL", 1), ("MIN_PARTIAL", 7)):
        recording.change(SetOption(name, value))
    options = recording.session.booted.program.options
    assert (options["FREE_TO_TAIL"].value, options["MIN_PARTIAL"].value) == (1, 7)
    asked = Session(replace(SMALL, options={"FREE_TO_TAIL": 1, "MIN_PARTIAL": 7}))
    np.testing.assert_array_equal(recording.session.machine.code, asked.machine.code)


def test_bookmarks_of_branches_go_with_them_when_the_run_starts_again():
    recording = recording_of(SMALL)
    recording.run(2000)
    recording.seek(1000)
    recording.change(Inject(1, "irq_alloc", (64,)))
    recording.bookmarks += [Bookmark(0, 2000, "main"), Bookmark(1, 1000, "gone")]
    recording.boot()
    assert recording.bookmarks == [Bookmark(0, 2000, "main")]


def test_a_deadlock_takes_no_change_and_the_moment_before_does():
    recording = ScenarioRun(load_scenario("abba-deadlock")).play().recording
    before = facts(recording)
    assert "deadlock" in recording.session.fault
    with pytest.raises(ChangeError, match="go back"):
        recording.change(Inject(0, "irq_nothing"))
    assert facts(recording) == before
    assert len(recording.branches) == 1
    recording.step_back()
    assert recording.change(Inject(0, "irq_nothing")).number == 1


def test_a_moment_that_is_given_up_for_one_near_the_cursor_is_not_used_any_more(monkeypatch):
    monkeypatch.setattr("slubviz.model.travel.checkpoint_keeper.MOST_NEAR_MICRO_OPS", 2_000)
    monkeypatch.setattr("slubviz.model.travel.checkpoint_keeper.MOST_NEAR", 1)
    recording = recording_of(replace(SMALL, ops=400))
    recording.run(10**9)
    for kept in recording._kept.seen_from(recording._lineage())[1:]:
        recording._give_up(kept)
    recording.seek(20_000)
    assert recording.checkpoints() == [0, 18_000]
    recording.seek(18_100)
    assert recording.checkpoints() == [0, 16_000]
    np.testing.assert_array_equal(
        recording.session.machine.state, run_alone(recording.session.spec, 18_100).machine.state
    )


def test_a_seek_to_where_the_cursor_is_prepares_steps_back(monkeypatch):
    monkeypatch.setattr("slubviz.model.travel.checkpoint_keeper.MOST_NEAR_MICRO_OPS", 2_000)
    recording = recording_of(replace(SMALL, ops=400))
    recording.run(20_000)
    for kept in recording._kept.seen_from(recording._lineage())[1:]:
        recording._give_up(kept)
    before = facts(recording)
    recording.seek(20_000)
    assert recording.checkpoints() == [0, 18_000]
    assert facts(recording) == before
    recording.run(10_000)
    recording.seek_cycle(recording._next_millicycles() / 1000)
    assert recording.checkpoints()[-1] == recording.position - 2_000
