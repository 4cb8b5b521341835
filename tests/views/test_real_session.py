"""What the window relies on in a real session: whose turn is next, stops between phases, curve points."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.hw.isa import Status
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.views.cpu_layout import next_cpu, stepped_cpu
from slubviz.views.job import SessionLike
from slubviz.views.worker import is_clean_up, is_last_measured

SPEC = SessionSpec("e5345_8p", "slub", "D", (64,), 40, 1, cpus=4)


def booted(spec: SessionSpec = SPEC) -> Session:
    session = Session(spec)
    session.boot()
    return session


def points(session: Session) -> list[tuple[int, float]]:
    series = session.progress_series()
    return list(zip(series.operations.tolist(), series.cycles_per_op.tolist(), strict=True))


def micro_op_of_a_point(number: int) -> int:
    """The micro-op after which the point of that number is taken."""
    session = booted()
    while len(points(session)) < number:
        session.run(100)
    return session.machine.micro_ops


def run_measured(session: Session) -> None:
    assert session.run(1 << 40, stop_at_phase_end=True) is Status.MICRO_OPS


@pytest.mark.parametrize("begin", [0, 1000, 6000])
def test_the_cpu_said_to_be_next_is_the_one_that_steps(begin: int) -> None:
    session = booted()
    session.run(begin)
    before = session.snapshot().cpus
    for _ in range(300):
        session.step()
        after = session.snapshot().cpus
        assert stepped_cpu(before, after) == before[next_cpu(before)].number
        before = after


def test_a_run_stops_between_the_phases_when_asked_to() -> None:
    session: SessionLike = booted()
    assert is_last_measured(session.phase_view())
    session.run(1 << 40, stop_at_phase_end=True)
    view = session.phase_view()
    assert is_clean_up(view)
    assert not session.finished
    assert [result.operation for result in session.results] == ["kmalloc"]
    snapshot = session.snapshot()
    assert sum(cpu.operations for cpu in snapshot.cpus) == 0  # nothing of the clean-up has run
    assert int((snapshot.slabs.object_state == 2).sum()) == 4 * 40  # and all objects are still there
    assert session.run(1 << 40, stop_at_phase_end=True) is Status.HALTED
    assert session.finished
    assert session.phase_view() is None


def test_a_stop_between_phases_changes_nothing_of_the_run() -> None:
    through, stopped = booted(), booted()
    through.run(1 << 40)
    while not stopped.finished:
        stopped.run(1 << 40, stop_at_phase_end=True)
    assert through.machine.trace_hash == stopped.machine.trace_hash
    assert through.results == stopped.results


@pytest.mark.parametrize(
    ("test", "ops", "at_least"), [("A", 20, 4), ("D", 20, 10), ("D", 500, 50), ("F", 100, 10), ("E", 50, 10)]
)
def test_small_runs_have_a_curve_that_ends_with_the_phase(test: str, ops: int, at_least: int) -> None:
    session = booted(replace(SPEC, test=test, ops=ops))
    while not session.results:
        session.run(1 << 40, stop_at_phase_end=True)
    phase = next(phase for phase in session.phases if phase.measured)
    curve = points(session)
    assert len(curve) >= at_least
    assert curve[-1][0] == phase.operations_total
    assert [done for done, _ in curve] == sorted(done for done, _ in curve)
    assert len(set(curve)) == len(curve)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.one_of(st.integers(1, 60), st.sampled_from([199, 200, 400, 3000])), max_size=30))
def test_the_points_do_not_depend_on_how_the_run_is_cut(pieces: list[int]) -> None:
    whole, cut = booted(), booted()
    run_measured(whole)
    for piece in pieces:
        if cut.results:
            break
        if piece <= 3:
            for _ in range(piece):
                cut.step()
        else:
            cut.run(piece, stop_at_phase_end=True)
    if not cut.results:
        run_measured(cut)
    assert points(cut) == points(whole)


def test_a_point_that_a_step_reaches_is_taken() -> None:
    whole, stepped = booted(), booted()
    run_measured(whole)
    due = micro_op_of_a_point(5)
    stepped.run(due - 10)
    taken = len(points(stepped))
    for _ in range(10):
        stepped.step()
    assert len(points(stepped)) == taken + 1
    run_measured(stepped)
    assert points(stepped) == points(whole)


def test_phases_tell_their_operations_per_cpu() -> None:
    view = booted(replace(SPEC, test="F", ops=100)).phase_view()
    assert view is not None
    assert view.ops == 100
