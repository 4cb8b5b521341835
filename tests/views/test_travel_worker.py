"""The worker about time: steps back, seeks that come in storms, cancelling, branches, playing backwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from slubviz.hw.isa import CpuState
from slubviz.model.errors import UserError
from slubviz.model.travel.bookmarks import Bookmark
from slubviz.model.travel.changes import Inject, WriteWord
from slubviz.views import commands as C
from slubviz.views.job import RecordingLike
from slubviz.views.move_stop import MoveStop
from slubviz.views.travel_model import Found, Opened, Progress, Stop, Stopped, TravelModel
from slubviz.views.travel_view import ScenarioView
from slubviz.views.view_update import ViewUpdate, WorkerState
from slubviz.views.worker import SessionWorker
from tests.views.fake_session import FakeSession, fake_job

LONG = fake_job(ops=100_000)


class FakeTravel(TravelModel):
    """Finds a place every 100 micro-ops, and takes its time if told to."""

    def __init__(self) -> None:
        self.search_seconds = 0.0
        self.details: list[tuple[int, int]] = []
        self.detail_gate: threading.Event | None = None
        self.saved: list[str] = []

    def move(
        self,
        recording: RecordingLike,
        kind: Any,
        direction: int,
        *,
        cpu: int,
        watched: object | None,
        breakpoints: tuple[Any, ...],
        stop: Stop,
        progress: Progress,
    ) -> Found:
        if str(kind) in ("start", "end", "micro_op"):
            return super().move(
                recording,
                kind,
                direction,
                cpu=cpu,
                watched=watched,
                breakpoints=breakpoints,
                stop=stop,
                progress=progress,
            )
        if str(kind) == "watched" and not watched:
            raise UserError("nothing is watched")
        for part in range(50 if self.search_seconds else 0):
            time.sleep(self.search_seconds / 50)
            progress(part / 50)
            if stop.is_set():
                recording.seek(recording.position + 7)
                raise Stopped
        here = recording.position
        wanted = (here // 100 + 1) * 100 if direction > 0 else (here - 1) // 100 * 100
        if wanted < 0:
            return Found(False, "there is none before")
        recording.seek(wanted)
        return Found(True, f"{kind} at {wanted}")

    def detail(self, recording: RecordingLike, first: int, last: int, stop: Stop) -> Any:
        if self.detail_gate is not None:
            while not self.detail_gate.wait(0.005):
                if stop.is_set():
                    raise Stopped
        self.details.append((first, last))
        return ("detail", first, last)

    def watch(self, recording: RecordingLike, texts: tuple[str, ...], cpu: int) -> tuple[Any, ...]:
        return tuple(f"{text} = {recording.position}" for text in texts)

    def save_session(self, recording: Any, path: str, *_rest: Any) -> None:
        if path == "/nowhere":
            raise UserError("cannot write /nowhere")
        self.saved.append(path)

    def open_scenario(self, name: str, stop: Stop, progress: Progress) -> Opened:
        if name != "aba":
            raise UserError(f"unknown scenario {name!r}")
        session = FakeSession(fake_job())
        session.boot()
        session.run(900)
        session.seek(0)
        steps = tuple(_Step(position, f"at {position}", position % 4) for position in (0, 120, 800))
        scenario = ScenarioView("aba", "The ABA", "summary", steps, 0)  # type: ignore[arg-type]
        return Opened(session, fake_job(), "The ABA", scenario=scenario)


class _Step:
    def __init__(self, position: int, caption: str, cpu: int) -> None:
        self.position, self.caption, self.cpu = position, caption, cpu


class Rig:
    """A worker, its sessions and every update that it left."""

    def __init__(self) -> None:
        self.sessions: list[FakeSession] = []
        self.prepare: Callable[[FakeSession], object] = lambda _session: None
        self.model = FakeTravel()
        self.worker = SessionWorker(self._make, self.model)
        self.updates: list[ViewUpdate] = []
        self.worker.start()

    def _make(self, job: Any) -> FakeSession:
        self.sessions.append(FakeSession(job))
        self.prepare(self.sessions[-1])
        return self.sessions[-1]

    @property
    def session(self) -> FakeSession:
        return self.sessions[-1]

    @property
    def latest(self) -> ViewUpdate:
        return self.updates[-1]

    def until(self, condition: Callable[[ViewUpdate], bool]) -> ViewUpdate:
        """The first update for which a condition holds."""
        limit = time.monotonic() + 15
        while time.monotonic() < limit:
            update = self.worker.take()
            if update is None:
                time.sleep(0.002)
                continue
            self.updates.append(update)
            if condition(update):
                return update
        raise AssertionError(f"never came; the last one: {self.updates[-1:]}")

    def at(self, position: int) -> ViewUpdate:
        """The update at a position, standing still."""
        return self.until(
            lambda u: (
                u.travel.position == position
                and u.state in (WorkerState.PAUSED, WorkerState.FINISHED, WorkerState.FAULTED)
            )
        )

    def load(self, job: Any = LONG, recorded: int = 1000) -> None:
        """Load and record some micro-ops."""
        self.worker.send(C.Load(job))
        self.until(lambda u: u.state is WorkerState.PAUSED)
        self.session.run(recorded)
        self.worker.send(C.Seek(recorded))
        self.at(recorded)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.worker.stop()
    made.worker.join(10)
    assert not made.worker.is_alive(), "the session's thread did not end"


def picture(update: ViewUpdate) -> tuple[Any, ...]:
    snapshot = update.snapshot
    assert snapshot is not None
    return (
        snapshot.micro_ops,
        snapshot.cpus,
        snapshot.locks,
        snapshot.slabs.object_state.tobytes(),
        snapshot.slabs.page_frame.tobytes(),
        snapshot.counters,
        update.results,
    )


def test_steps_forth_and_back_show_equal_pictures(rig: Rig) -> None:
    rig.load(recorded=500)
    seen = {500: picture(rig.latest)}
    for position in range(501, 511):
        rig.worker.send(C.Step())
        seen[position] = picture(rig.at(position))
    for position in range(509, 499, -1):
        rig.worker.send(C.StepBack())
        assert picture(rig.at(position)) == seen[position]
    assert len({repr(p) for p in seen.values()}) == 11
    assert rig.latest.travel.end == 510


def test_of_a_storm_of_scrubs_the_last_one_counts_and_few_are_done(rig: Rig) -> None:
    rig.load(recorded=5000)
    rig.session.seek_seconds = 0.03
    rig.session.seeks.clear()
    for position in range(200):
        rig.worker.send(C.Scrub(position * 7))
        time.sleep(0.001)
    rig.at(199 * 7)
    assert rig.session.seeks[-1] == 199 * 7
    assert len(rig.session.seeks) < 60  # 200 of them would take six seconds
    assert all(a < b for a, b in zip(rig.session.seeks, rig.session.seeks[1:], strict=False))
    rig.worker.send(C.Step())
    rig.at(199 * 7 + 1)


def test_scrubs_that_wait_for_each_other_still_show_pictures_on_the_way(rig: Rig) -> None:
    rig.load(recorded=5000)
    rig.session.seek_seconds = 0.4  # longer than the patience with a movement
    rig.updates.clear()
    for position in range(60):
        rig.worker.send(C.Scrub(100 + position))
        time.sleep(0.015)
        update = rig.worker.take()
        if update is not None:
            rig.updates.append(update)
    rig.at(159)
    assert len({u.travel.position for u in rig.updates} - {5000, 159}) >= 1


def test_of_a_storm_of_seeks_the_last_one_counts(rig: Rig) -> None:
    rig.load(recorded=5000)
    rig.session.seek_seconds = 0.02
    for position in range(200):
        rig.worker.send(C.Seek(5000 - position))
    rig.at(4801)
    time.sleep(0.1)
    rig.worker.send(C.ChooseCpu(1))
    assert rig.until(lambda u: u.travel.cpu == 1).travel.position == 4801


def test_a_search_tells_how_far_it_is_and_can_be_cancelled(rig: Rig) -> None:
    rig.load(recorded=350)
    rig.model.search_seconds = 30.0
    rig.worker.send(C.MoveBy("retry", +1))  # type: ignore[arg-type]
    moving = rig.until(lambda u: u.state is WorkerState.MOVING and (u.travel.moving is not None))
    assert moving.travel.moving is not None
    assert moving.travel.moving.text == "Looking for the next retry"
    assert moving.travel.position == 350
    assert moving.snapshot is not None
    later = rig.until(lambda u: u.travel.moving is not None and (u.travel.moving.fraction or 0) > 0.02)
    assert 0 < (later.travel.moving.fraction or 0) < 1  # type: ignore[union-attr]
    rig.worker.send(C.Cancel())
    after = rig.at(350)  # although the search had moved the cursor on its way
    assert after.travel.moving is None
    assert "Cancelled" in after.travel.note


def test_a_newer_movement_takes_the_place_of_a_long_one(rig: Rig) -> None:
    rig.load(recorded=350)
    rig.model.search_seconds = 30.0
    rig.worker.send(C.MoveBy("retry", +1))  # type: ignore[arg-type]
    rig.until(lambda u: u.state is WorkerState.MOVING)
    rig.worker.send(C.Seek(77))
    rig.at(77)


def test_quick_movements_in_a_row_are_all_done(rig: Rig) -> None:
    rig.load(recorded=350)
    rig.model.search_seconds = 0.02
    for _ in range(6):
        rig.worker.send(C.MoveBy("line", +1))  # type: ignore[arg-type]
    rig.at(900)
    for _ in range(20):
        rig.worker.send(C.StepBack())
    rig.at(880)


def test_moves_find_places_in_both_directions_and_say_so(rig: Rig) -> None:
    rig.load(recorded=350)
    rig.worker.send(C.MoveBy("event_any_cpu", -1))  # type: ignore[arg-type]
    assert rig.at(300).travel.note == "event_any_cpu at 300"
    rig.worker.send(C.MoveBy("start", -1))  # type: ignore[arg-type]
    rig.at(0)
    rig.worker.send(C.MoveBy("line", -1))  # type: ignore[arg-type]
    update = rig.until(lambda u: u.travel.note == "there is none before")
    assert update.travel.position == 0
    rig.worker.send(C.MoveBy("end", 1))  # type: ignore[arg-type]
    rig.at(350)
    rig.worker.send(C.MoveBy("watched", 1))  # type: ignore[arg-type]
    assert rig.until(lambda u: u.error != "").error == "nothing is watched"


def test_close_in_the_middle_of_a_search_ends_the_thread() -> None:
    rig = Rig()
    rig.load(recorded=100)
    rig.model.search_seconds = 60.0
    rig.worker.send(C.MoveBy("retry", +1))  # type: ignore[arg-type]
    rig.until(lambda u: u.state is WorkerState.MOVING)
    rig.worker.stop()
    rig.worker.join(5)
    assert not rig.worker.is_alive()


def test_close_in_the_middle_of_slow_work_ends_the_thread() -> None:
    rig = Rig()
    rig.load(recorded=100)
    rig.model.detail_gate = threading.Event()
    rig.worker.send(C.WantDetail(0, 100))
    time.sleep(0.05)
    rig.worker.stop()
    rig.worker.join(5)
    assert not rig.worker.is_alive()


def test_a_seek_beyond_the_recorded_end_runs_on_and_a_drag_does_not(rig: Rig) -> None:
    rig.load(recorded=500)
    rig.worker.send(C.Scrub(800))
    assert rig.at(500).travel.end == 500
    rig.worker.send(C.Seek(800))
    assert rig.at(800).travel.end == 800
    rig.worker.send(C.Seek(-5))
    rig.at(0)


def test_a_step_back_is_prepared_wherever_the_run_stands_still(rig: Rig) -> None:
    rig.load(recorded=500)
    calls = rig.session.recording.calls if hasattr(rig.session, "recording") else rig.session.calls

    def prepared(times: int) -> bool:
        limit = time.monotonic() + 5
        while calls.count("prepare") < times and time.monotonic() < limit:
            time.sleep(0.005)
        return calls.count("prepare") == times

    assert prepared(calls.count("prepare") or 1)
    known = calls.count("prepare")
    rig.worker.send(C.Scrub(300))
    rig.at(300)
    assert prepared(known + 1)
    rig.worker.send(C.SetRate(100.0))  # nothing moves: once is enough
    time.sleep(0.05)
    assert prepared(known + 1)


def test_a_change_that_waits_is_made_even_if_what_moves_is_cancelled(rig: Rig) -> None:
    rig.load(recorded=500)
    rig.model.search_seconds = 0.3
    rig.worker.send(C.MoveBy("slow_path", +1))  # type: ignore[arg-type]
    rig.worker.send(C.Apply(WriteWord(8, 1)))
    rig.worker.send(C.Cancel())
    rig.until(lambda u: bool(u.travel.changes))


def test_a_change_before_the_end_makes_a_branch_and_the_old_future_stays(rig: Rig) -> None:
    rig.load(recorded=500)
    rig.worker.send(C.Seek(200))
    rig.at(200)
    rig.worker.send(C.Apply(Inject(2, "irq_alloc", (64,))))
    update = rig.until(lambda u: len(u.travel.branches) == 2)
    travel = update.travel
    assert travel.branch is not None
    assert (travel.branch.number, travel.branch.fork_position, travel.position) == (1, 200, 200)
    assert [c.what.text() for c in travel.changes] == ["interrupt on CPU 2: irq_alloc(64)"]
    assert travel.unsaved
    assert travel.note == "interrupt on CPU 2: irq_alloc(64); a new branch, branch 1"
    rig.worker.send(C.SwitchBranch(0, 450))
    back = rig.at(450).travel
    assert back.branch is not None
    assert (back.branch.number, back.end, back.changes) == (0, 500, ())
    rig.worker.send(C.RenameBranch(1, "with an interrupt"))
    assert rig.until(lambda u: u.travel.branches[1].name == "with an interrupt")


def test_a_change_while_running_does_not_stop_the_run(rig: Rig) -> None:
    rig.load()
    rig.worker.send(C.Run())
    rig.until(lambda u: u.state is WorkerState.RUNNING)
    rig.worker.send(C.Apply(WriteWord(64, 1)))
    update = rig.until(lambda u: bool(u.travel.changes))
    assert update.state is WorkerState.RUNNING
    assert len(update.travel.branches) == 1  # nothing was recorded behind it


def test_playing_backwards_comes_to_the_start_and_stops(rig: Rig) -> None:
    rig.load(recorded=3000)
    rig.worker.send(C.SetRate(20_000.0))
    rig.worker.send(C.Play(-1))
    playing = rig.until(lambda u: u.travel.direction == -1)
    assert playing.state is WorkerState.RUNNING
    rig.at(0)
    positions = [u.travel.position for u in rig.updates if u.travel.direction == -1]
    assert positions == sorted(positions, reverse=True)
    assert len(set(positions)) > 2
    rig.worker.send(C.Play(-1))  # nothing is behind the start
    rig.worker.send(C.Play(+1))
    rig.until(lambda u: u.travel.direction == 1)


def test_playing_backwards_slowly_goes_one_by_one_and_pause_stops_it(rig: Rig) -> None:
    rig.load(recorded=300)
    rig.worker.send(C.SetRate(15.0))
    rig.worker.send(C.Play(-1))
    rig.until(lambda u: u.travel.position == 297)
    rig.worker.send(C.Pause())
    stopped = rig.until(lambda u: u.state is WorkerState.PAUSED).travel.position
    assert "step_back" in rig.session.calls
    time.sleep(0.15)
    rig.worker.send(C.ChooseCpu(3))
    assert rig.until(lambda u: u.travel.cpu == 3).travel.position == stopped


def test_running_on_after_a_step_back_does_not_change_what_is_recorded(rig: Rig) -> None:
    rig.load(recorded=1000)
    end = picture(rig.latest)
    rig.worker.send(C.Seek(900))
    rig.at(900)
    rig.worker.send(C.SetRate(5_000.0))
    rig.worker.send(C.Play(+1))
    rig.until(lambda u: u.travel.position > 1000)
    rig.worker.send(C.Pause())
    rig.until(lambda u: u.state is WorkerState.PAUSED)
    rig.worker.send(C.Seek(1000))
    assert picture(rig.at(1000)) == end


def test_bookmarks_are_kept_in_order_and_can_be_visited(rig: Rig) -> None:
    rig.load(recorded=500)
    rig.worker.send(C.AddBookmark("late", "here it breaks"))
    rig.worker.send(C.Seek(100))
    rig.at(100)
    rig.worker.send(C.AddBookmark("early"))
    travel = rig.until(lambda u: len(u.travel.bookmarks) == 2).travel
    assert travel.bookmarks == (Bookmark(0, 100, "early"), Bookmark(0, 500, "late", "here it breaks"))
    assert travel.unsaved
    rig.worker.send(C.GoToBookmark(0, 500))
    rig.at(500)
    rig.worker.send(C.EditBookmark("early", "first", "n"))
    rig.worker.send(C.RemoveBookmark("late"))
    assert rig.until(lambda u: u.travel.bookmarks == (Bookmark(0, 100, "first", "n"),))


def test_saving_clears_unsaved_and_a_failure_does_not(rig: Rig) -> None:
    rig.load(recorded=50)
    rig.worker.send(C.AddBookmark("x"))
    rig.worker.send(C.SaveSession("/nowhere"))
    assert rig.until(lambda u: u.error != "").travel.unsaved
    rig.worker.send(C.SaveSession("good.slubviz"))
    update = rig.until(lambda u: not u.travel.unsaved)
    assert update.travel.path == "good.slubviz"
    assert rig.model.saved == ["good.slubviz"]
    assert update.error == ""


def test_detail_is_computed_when_nothing_moves_and_once(rig: Rig) -> None:
    rig.load(recorded=800)
    rig.worker.send(C.WantDetail(100, 5000))
    update = rig.until(lambda u: u.travel.detail is not None)
    assert update.travel.detail == ("detail", 100, 800)  # type: ignore[comparison-overlap]
    rig.worker.send(C.Seek(300))
    rig.at(300)
    rig.worker.send(C.Seek(400))
    rig.at(400)
    assert rig.model.details == [(100, 800)]
    rig.worker.send(C.WantDetail(100, 700))
    rig.until(lambda u: u.travel.detail == ("detail", 100, 700))


def test_slow_work_gives_way_to_a_command_and_is_done_afterwards(rig: Rig) -> None:
    rig.load(recorded=800)
    rig.model.detail_gate = threading.Event()
    rig.worker.send(C.WantDetail(0, 800))
    rig.worker.send(C.Seek(10))
    rig.at(10)  # although the detail does not come to an end
    rig.worker.send(C.Seek(20))
    rig.at(20)
    assert rig.model.details == []
    rig.model.detail_gate.set()
    rig.until(lambda u: u.travel.detail is not None)


def test_slow_work_that_fails_is_told_once_and_not_tried_again(rig: Rig) -> None:
    rig.load(recorded=800)
    asked: list[int] = []

    def fail(_recording: Any, first: int, _last: int, _stop: Any) -> Any:
        asked.append(first)
        raise UserError("no detail here")

    rig.model.detail = fail  # type: ignore[method-assign]
    rig.worker.send(C.WantDetail(3, 800))
    update = rig.until(lambda u: u.error != "")
    assert (update.error, update.state) == ("no detail here", WorkerState.PAUSED)
    time.sleep(0.1)
    assert asked == [3]


def test_a_scenario_is_walked_by_its_steps(rig: Rig) -> None:
    rig.worker.send(C.OpenScenario("aba"))
    opened = rig.at(0)
    assert opened.travel.scenario is not None
    assert (opened.travel.scenario.step, opened.travel.title) == (0, "The ABA")
    assert opened.travel.opened_serial == 1
    for position, step in ((120, 1), (800, 2), (800, 2)):
        rig.worker.send(C.ScenarioStep(+1))
        update = rig.at(position)
        assert update.travel.scenario is not None
        assert update.travel.scenario.step == step
        assert update.travel.cpu == position % 4
    rig.worker.send(C.ScenarioStep(-1))
    rig.at(120)
    rig.worker.send(C.Seek(799))
    assert rig.at(799).travel.scenario.step == 1  # type: ignore[union-attr]
    rig.worker.send(C.ScenarioStep(number=0))
    rig.at(0)


def test_an_idle_cpu_gives_way_to_the_next_one_unless_it_was_chosen(rig: Rig) -> None:
    idle = {0, 2}
    whole = FakeSession._cpu

    def cpu(session: FakeSession, number: int, moment: Any, clock: float) -> Any:
        view = whole(session, number, moment, clock)
        if number not in idle:
            return replace(view, state=int(CpuState.RUNNING), clock_cycles=50.0 if number == 3 else 90.0)
        return replace(view, state=int(CpuState.HALTED), frames=(), span=None)

    rig.prepare = lambda session: setattr(session, "_cpu", partial(cpu, session))
    rig.load(recorded=10)
    assert rig.latest.travel.cpu == 3
    rig.worker.send(C.ChooseCpu(2))
    rig.until(lambda u: u.travel.cpu == 2)
    rig.worker.send(C.Step())
    assert rig.at(11).travel.cpu == 2
    rig.worker.send(C.Reset())  # a new start: nobody has chosen yet
    assert rig.at(0).travel.cpu == 3
    idle.clear()
    rig.worker.send(C.Reset())
    assert rig.until(lambda u: u.travel.cpu != 3).travel.cpu == 0
    idle.update({0, 3})
    rig.worker.send(C.Step())
    assert rig.at(1).travel.cpu == 1


def test_what_was_saved_is_noted_until_another_run_comes(rig: Rig) -> None:
    for command in (C.Load(LONG), C.OpenScenario("aba")):
        rig.load(recorded=10)
        rig.worker.send(C.SaveSession("good.slubviz"))
        rig.until(lambda u: u.travel.note == "Saved good.slubviz")
        rig.worker.send(command)
        assert rig.at(0).travel.note == ""


def test_a_file_that_cannot_be_opened_leaves_what_is_there(rig: Rig) -> None:
    rig.load(recorded=500)
    rig.worker.send(C.OpenScenario("no such"))
    update = rig.until(lambda u: u.error != "")
    assert update.error == "unknown scenario 'no such'"
    assert (update.travel.position, update.travel.end, update.state) == (500, 500, WorkerState.PAUSED)
    rig.worker.send(C.StepBack())
    rig.at(499)


def test_a_fault_can_be_left_backwards(rig: Rig) -> None:
    rig.worker.send(C.Load(LONG))
    rig.until(lambda u: u.state is WorkerState.PAUSED)
    rig.session.fault_at = 60
    rig.worker.send(C.SetRate(float("inf")))
    rig.worker.send(C.Run())
    rig.until(lambda u: u.state is WorkerState.FAULTED)
    rig.worker.send(C.StepBack())
    assert rig.at(59).state is WorkerState.PAUSED
    rig.worker.send(C.Step())
    assert rig.at(60).state is WorkerState.FAULTED


def test_watches_follow_the_cursor(rig: Rig) -> None:
    rig.load(recorded=500)
    rig.worker.send(C.SetWatches(("a", "b")))
    rig.until(lambda u: u.travel.watches == ("a = 500", "b = 500"))
    rig.worker.send(C.StepBack())
    assert rig.at(499).travel.watches == ("a = 499", "b = 499")


def test_a_stop_flag_has_patience_with_a_newer_movement_but_not_with_cancel() -> None:
    stop = MoveStop(patience_seconds=0.05)
    stop.begin()
    stop.give_way()
    assert not stop.is_set()
    time.sleep(0.06)
    assert stop.is_set()
    stop.begin()
    assert not stop.is_set()
    stop.set()
    assert stop.is_set()
