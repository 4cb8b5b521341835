"""The other run of a comparison, on small real sessions: aligned moments, where they part, giving up."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from slubviz.model.errors import UserError
from slubviz.model.travel.changes import Inject
from slubviz.views import commands as C
from slubviz.views.app import real_recording
from slubviz.views.compare_view import CompareView
from slubviz.views.comparer import Comparer
from slubviz.views.job import JobSpec, RecordingLike
from slubviz.views.real_travel import RealTravel
from slubviz.views.travel_model import Stopped

JOB = JobSpec("e5345_8p", "slub", "D", (64,), ops=20, cpus=2)
NEVER = threading.Event()


class Rig:
    """A recorded run with its cursor in the middle, and what holds another one against it."""

    def __init__(self) -> None:
        self.recording: RecordingLike = real_recording(JOB)
        self.recording.boot()
        self.recording.run(6_000)
        self.recording.seek(3_000)
        self.comparer = Comparer(real_recording, RealTravel())
        self.fractions: list[float] = []

    def obey(self, command: C.Compare, stop: threading.Event = NEVER) -> None:
        self.comparer.obey(command, self.recording, JOB, stop, self.fractions.append)

    def settle(self, stop: threading.Event = NEVER) -> CompareView:
        """Compute all that is wanted."""
        while self.comparer.wants(self.recording):
            self.comparer.work(self.recording, "slub, main", stop, self.fractions.append)
        view = self.comparer.view
        assert view is not None
        return view

    def fork(self, at: int = 2_000, to: int = 5_000) -> None:
        """Another branch, with an interrupt; the cursor is in it then."""
        self.recording.seek(at)
        self.recording.change(Inject(0, "irq_alloc", (64,)))
        self.recording.run(to - at)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_branch_is_beside_the_run_and_the_cursor_stays(rig: Rig) -> None:
    rig.fork()
    rig.recording.seek(1_500)
    rig.obey(C.CompareBranch(0))
    view = rig.settle()
    assert (view.by, view.a.title, view.b.title) == ("micro-op", "slub, main", "main")
    assert (view.a.position, view.b.position) == (1_500, 1_500)
    assert (view.a.end, view.b.end) == (5_000, 6_000)
    assert view.differences == ()  # the interrupt is still to come
    assert (rig.recording.branch.number, rig.recording.position) == (1, 1_500)
    rig.recording.seek(5_000)
    assert rig.comparer.wants(rig.recording)
    assert rig.settle().differences != ()
    assert (rig.recording.branch.number, rig.recording.position) == (1, 5_000)


def trace_hashes(rig: Rig, branch: int, first: int, last: int) -> list[int]:
    """The hash of the trace at each position, one micro-op after the other."""
    recording: Any = rig.recording
    recording.switch(branch, first)
    hashes = [recording.trace_hash]
    for _ in range(first, last):
        recording.run(1)
        hashes.append(recording.trace_hash)
    return hashes


def test_where_they_part_is_the_last_micro_op_with_the_same_trace(rig: Rig) -> None:
    rig.fork(at=2_000)
    traces = zip(trace_hashes(rig, 0, 2_000, 5_000), trace_hashes(rig, 1, 2_000, 5_000), strict=True)
    parted = next(2_000 + n for n, (one, other) in enumerate(traces) if one != other) - 1
    rig.obey(C.CompareBranch(0))
    assert rig.settle().parting == ""
    rig.obey(C.FindParting())
    assert rig.comparer.view is not None
    assert rig.comparer.view.searching == 0.0
    view = rig.settle()
    assert view.searching is None
    assert view.parting_position == parted
    assert f"{parted:,}" in view.parting
    assert "changed from outside at 2,000" in view.parting
    assert (rig.recording.branch.number, rig.recording.position) == (1, 5_000)
    rig.obey(C.CompareBy("cycle"))  # what was found by micro-op is not told for cycles
    assert rig.settle().parting == ""


def test_another_kernel_has_as_many_operations_done(rig: Rig) -> None:
    rig.obey(C.CompareKernel("slub+"))
    assert rig.fractions  # its recording told how far it was
    assert all(0 <= fraction <= 0.99 for fraction in rig.fractions)
    view = rig.settle()
    assert view.by == "operation"
    assert view.b.title == "slub+"
    first, second = (sum(cpu.operations for cpu in one.snapshot.cpus) for one in (view.a, view.b))
    assert first == second
    rig.obey(C.CompareBy("micro-op"))
    assert rig.settle().b.position == 3_000
    rig.obey(C.CompareBy("cycle"))
    by_cycle = rig.settle()
    assert abs(by_cycle.b.clock_cycles - by_cycle.a.clock_cycles) < 0.2 * by_cycle.a.clock_cycles


def test_a_run_that_is_shorter_is_at_its_end_and_says_so(rig: Rig) -> None:
    rig.fork(at=2_000, to=2_500)
    rig.recording.switch(0, 3_000)
    rig.obey(C.CompareBranch(1))
    view = rig.settle()
    assert view.b.position == 2_500
    assert view.note == "The other run is not recorded further, at micro-op 2\u202f500."
    rig.recording.seek(2_400)
    assert rig.settle().note == ""


def test_recording_the_other_run_can_be_cancelled_and_leaves_nothing(rig: Rig) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        rig.obey(C.CompareKernel("slub+"), stop)
    assert rig.comparer.view is None
    assert not rig.comparer.wants(rig.recording)


def test_a_picture_that_is_cancelled_leaves_the_cursor_and_is_wanted_again(rig: Rig) -> None:
    rig.fork()
    rig.obey(C.CompareBranch(0))
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        rig.settle(stop)
    assert (rig.recording.branch.number, rig.recording.position) == (1, 5_000)
    assert rig.comparer.wants(rig.recording)


def test_a_search_that_is_given_up_is_not_taken_up_again(rig: Rig) -> None:
    rig.fork()
    rig.obey(C.CompareBranch(0))
    rig.settle()
    rig.obey(C.FindParting())
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        rig.settle(stop)
    assert rig.comparer.wants(rig.recording)  # only interrupted: it goes on
    rig.comparer.give_up()
    assert not rig.comparer.wants(rig.recording)
    view = rig.comparer.view
    assert view is not None
    assert (view.searching, view.parting) == (None, "")
    assert rig.recording.position == 5_000


def test_what_does_not_exist_is_refused(rig: Rig) -> None:
    with pytest.raises(UserError, match="there is no branch 5"):
        rig.obey(C.CompareBranch(5))
    with pytest.raises(UserError, match="no such kernel"):
        rig.obey(C.CompareKernel("no such kernel"))
    with pytest.raises(UserError):
        rig.obey(C.CompareFile("no such file.slubviz"))


def test_closing_forgets_the_other_run(rig: Rig) -> None:
    rig.fork()
    rig.obey(C.CompareBranch(0))
    rig.settle()
    rig.obey(C.CloseCompare())
    assert rig.comparer.view is None
    assert not rig.comparer.wants(rig.recording)


def test_a_scenario_is_played_with_the_other_kernel_interrupts_included() -> None:
    opened = RealTravel().open_scenario("aba", NEVER, lambda _fraction: None)
    assert opened.scenario is not None
    comparer = Comparer(real_recording, RealTravel())

    def compare(kernel: str) -> None:
        comparer.obey(
            C.CompareKernel(kernel),
            opened.recording,
            opened.job,
            NEVER,
            lambda _fraction: None,
            opened.scenario.text if opened.scenario else "",
        )

    compare("slub+")  # its own: the same run, so nothing may differ
    end = opened.recording.end
    opened.recording.seek(end)
    comparer.obey(C.CompareBy("micro-op"), opened.recording, opened.job, NEVER, lambda _fraction: None)
    comparer.obey(C.FindParting(), opened.recording, opened.job, NEVER, lambda _fraction: None)
    while comparer.wants(opened.recording):
        comparer.work(opened.recording, "aba", NEVER, lambda _fraction: None)
    view = comparer.view
    assert view is not None
    assert view.b.end == end
    assert view.differences == ()
    assert view.parting == "They never part, as far as both are recorded."
    with pytest.raises(UserError, match="there is no place 'before cmpxchg_local' in slab_alloc"):
        compare("slub")


def test_another_kernel_gets_the_request_but_not_the_options_of_the_first(rig: Rig) -> None:
    rig.obey(C.CompareKernel("slub+"))
    other: Any = rig.comparer._other  # what was recorded is seen nowhere else
    own: Any = rig.recording
    spec, first = other.recording.session.spec, own.session.spec
    assert (spec.kernel, spec.options, spec.kernel_text) == ("slub+", {}, "")
    kept = ("machine", "test", "sizes", "ops", "seed", "cpus", "warm_up", "handlers")
    assert all(getattr(spec, name) == getattr(first, name) for name in kept)
