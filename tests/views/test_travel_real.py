"""The worker with real recordings: what is shown, found, changed, kept and compared is the model's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slubviz.hw.layout import N_INTERRUPTS
from slubviz.model.travel.changes import Inject
from slubviz.model.travel.recording import Recording
from slubviz.views import commands as C
from slubviz.views.app import real_recording
from slubviz.views.job import JobSpec
from slubviz.views.real_travel import RealTravel
from slubviz.views.view_update import ViewUpdate, WorkerState
from slubviz.views.worker import SessionWorker
from tests.views.test_travel_worker import Rig, picture

JOB = JobSpec("e5345_8p", "slub", "D", (64,), 40, 1, cpus=2)


class RealRig(Rig):
    """A worker with the model of the application."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []
        self.worker = SessionWorker(self._make, RealTravel())
        self.updates: list[ViewUpdate] = []
        self.worker.start()

    def _make(self, job: JobSpec) -> Recording:  # type: ignore[override]
        recording = real_recording(job)
        assert isinstance(recording, Recording)
        self.recordings.append(recording)
        return recording

    def load(self, job: JobSpec = JOB, recorded: int = 3000) -> None:  # type: ignore[override]
        self.worker.send(C.Load(job))
        self.until(lambda u: u.state is WorkerState.PAUSED)
        self.recordings[-1].run(recorded)
        self.worker.send(C.Seek(recorded))
        self.at(recorded)

    def note(self) -> str:
        return self.latest.travel.note

    def settle(self, command: C.Command) -> ViewUpdate:
        """Send a command and return the update that is left when nothing is left to do."""
        self.worker.send(command)
        self.worker.send(C.ChooseCpu(1 - self.latest.travel.cpu))
        wanted = 1 - self.latest.travel.cpu
        return self.until(lambda u: u.travel.cpu == wanted and u.travel.moving is None)


@pytest.fixture(scope="module")
def shared() -> Iterator[RealRig]:
    made = RealRig()
    yield made
    made.worker.stop()
    made.worker.join(20)
    assert not made.worker.is_alive()


@pytest.fixture
def rig(shared: RealRig) -> RealRig:
    shared.load()
    return shared


def test_steps_forth_and_back_show_equal_pictures_and_stacks(rig: RealRig) -> None:
    seen = {}
    for position in range(3001, 3031):
        rig.worker.send(C.Step())
        update = rig.at(position)
        seen[position] = (picture(update), update.travel.call_stacks)
    for position in range(3029, 3000, -1):
        rig.worker.send(C.StepBack())
        update = rig.at(position)
        assert (picture(update), update.travel.call_stacks) == seen[position]
    assert {stack.cpu for stack in rig.latest.travel.call_stacks} == {0, 1}


def test_scrubbing_shows_the_same_as_seeking(rig: RealRig) -> None:
    seen = {}
    for position in (17, 1234, 2999):
        rig.worker.send(C.Seek(position))
        seen[position] = picture(rig.at(position))
    for position in (2999, 17, 1234):
        rig.worker.send(C.Scrub(position))
        assert picture(rig.at(position)) == seen[position]


def test_a_line_forwards_and_back_is_where_it_was(rig: RealRig) -> None:
    rig.worker.send(C.MoveBy("line", +1))  # type: ignore[arg-type]
    first = rig.until(lambda u: u.travel.position > 3000 and u.state is WorkerState.PAUSED).travel.position
    rig.worker.send(C.MoveBy("line", +1))  # type: ignore[arg-type]
    rig.until(lambda u: u.travel.position > first and u.state is WorkerState.PAUSED)
    rig.worker.send(C.MoveBy("line", -1))  # type: ignore[arg-type]
    rig.at(first)


def test_a_run_stops_at_a_breakpoint_and_finds_it_again_backwards(rig: RealRig) -> None:
    rig.worker.send(C.Seek(0))
    rig.at(0)
    rig.worker.send(C.AddBreakpoint("function __slab_alloc"))
    update = rig.until(lambda u: bool(u.travel.breakpoints))
    number = update.travel.breakpoints[0].number
    rig.worker.send(C.SetRate(float("inf")))
    rig.worker.send(C.Run())
    hit = rig.until(lambda u: u.state is WorkerState.PAUSED and u.travel.position > 0)
    assert f"Breakpoint {number}, function __slab_alloc" in hit.travel.note
    innermost = {stack.frames[-1].function for stack in hit.travel.call_stacks if stack.frames}
    assert "__slab_alloc" in innermost
    rig.worker.send(C.MoveBy("breakpoint", +1))  # type: ignore[arg-type]
    rig.until(lambda u: u.travel.position > hit.travel.position and u.state is WorkerState.PAUSED)
    rig.worker.send(C.MoveBy("breakpoint", -1))  # type: ignore[arg-type]
    rig.at(hit.travel.position)
    rig.worker.send(C.RemoveBreakpoint(None))
    rig.until(lambda u: not u.travel.breakpoints)


def test_playing_stops_at_the_same_breakpoints_at_every_speed() -> None:
    """A player runs in pieces, of one micro-op when it is slow; a piece may end right before a breakpoint."""
    stops = []
    for piece in (1, 7, 1000):
        recording, model = real_recording(JOB), RealTravel()
        recording.boot()
        points = (model.breakpoint(recording, 1, "kmalloc"), model.breakpoint(recording, 2, "kfree"))
        found = []
        while recording.position < 200:
            if model.run_to_breakpoint(recording, piece, points, 0).found:
                found.append(recording.position)
        stops.append([position for position in found if position < 200])
    assert len(stops[0]) == 2  # each CPU comes to its first allocation
    assert stops[0] == stops[1] == stops[2]


def test_breakpoints_on_lines_toggle_and_nonsense_is_one_message(rig: RealRig) -> None:
    program = rig.latest.travel.program
    file, line = program.functions["__slab_alloc"]
    wanted = min(number for number in program.code_lines[file] if number > line)
    rig.worker.send(C.ToggleBreakpoint(file, wanted))
    rig.until(lambda u: [(p.file, p.line) for p in u.travel.breakpoints] == [(file, wanted)])
    rig.worker.send(C.ToggleBreakpoint(file, wanted))
    rig.until(lambda u: not u.travel.breakpoints)
    rig.worker.send(C.AddBreakpoint("function no_such_function"))
    assert "no_such_function" in rig.until(lambda u: u.error != "").error


def test_an_interrupt_forks_and_the_branches_are_compared(rig: RealRig) -> None:
    rig.recordings[-1].run(4000)
    rig.worker.send(C.Seek(1500))
    rig.at(1500)
    rig.worker.send(C.Apply(Inject(0, "irq_alloc", (64,))))
    rig.until(lambda u: len(u.travel.branches) == 2)
    rig.worker.send(C.SetRate(float("inf")))
    rig.worker.send(C.Play(+1))
    rig.until(lambda u: u.travel.position > 7000)
    rig.worker.send(C.Pause())
    rig.until(lambda u: u.state is not WorkerState.RUNNING)
    rig.worker.send(C.CompareBranch(0))
    rig.worker.send(C.FindParting())
    rig.worker.send(C.Seek(1490))
    before = rig.until(
        lambda u: (
            u.travel.compare is not None
            and u.travel.compare.a.position == 1490
            and u.travel.compare.parting != ""
        )
    ).travel.compare
    assert before is not None
    assert before.b.position == 1490
    assert before.differences == ()
    assert before.parting_position is not None
    assert 1500 <= before.parting_position < 7000
    rig.worker.send(C.Seek(6900))
    after = rig.until(lambda u: u.travel.compare is not None and u.travel.compare.a.position == 6900)
    assert after.travel.compare is not None
    assert after.travel.compare.differences
    rig.worker.send(C.CloseCompare())
    rig.until(lambda u: u.travel.compare is None)


def test_watches_inspection_and_history_are_those_of_the_cursor(rig: RealRig) -> None:
    rig.worker.send(C.SetWatches(("kmalloc_caches", "no such thing")))
    update = rig.until(lambda u: len(u.travel.watches) == 2)
    assert update.travel.watches[1].error
    rig.worker.send(C.Inspect("cpu 1"))
    assert rig.until(lambda u: u.travel.inspection is not None).travel.inspection.title == "CPU 1"  # type: ignore[union-attr]
    rig.worker.send(C.Inspect("nothing of that name"))
    assert rig.until(lambda u: u.error != "").travel.inspection is None
    snapshot = rig.latest.snapshot
    assert snapshot is not None
    slab = int(snapshot.slabs.page_frame[0])
    rig.worker.send(C.Inspect(f"{slab}/0"))
    inspection = rig.until(lambda u: u.travel.inspection is not None).travel.inspection
    assert inspection is not None
    rig.worker.send(C.WantHistory(inspection.target.address))  # type: ignore[union-attr]
    history = rig.until(
        lambda u: u.travel.history is not None and not u.travel.history.reading
    ).travel.history
    assert history is not None
    assert all(0 < event.position <= 3000 for event in history.events)
    rig.worker.send(C.SetWatches(()))
    rig.until(lambda u: u.travel.watches == ())


def test_heat_and_detail_cover_what_was_asked_for(rig: RealRig) -> None:
    rig.worker.send(C.WantDetail(100, 900))
    detail = rig.until(lambda u: u.travel.detail is not None).travel.detail
    assert detail is not None
    assert (detail.first, detail.last) == (100, 900)
    rig.worker.send(C.WantHeat(True))
    heat = rig.until(lambda u: u.travel.heat is not None).travel.heat
    assert heat is not None
    assert (heat.first, heat.last) == (0, 3000)
    assert sum(line.micro_ops for line in heat.lines.values()) == 3000
    rig.worker.send(C.WantHeat(False))
    rig.until(lambda u: u.travel.heat is None)
    assert rig.latest.travel.position == 3000


def test_a_session_file_brings_everything_back(rig: RealRig, tmp_path: Path) -> None:
    path = str(tmp_path / "run.slubviz")
    rig.worker.send(C.Seek(1500))
    rig.at(1500)
    rig.worker.send(C.Apply(Inject(1, "irq_alloc", (64,))))
    rig.worker.send(C.AddBookmark("here", "why"))
    rig.worker.send(C.AddBreakpoint("function __slab_alloc"))
    rig.worker.send(C.SetWatches(("kmalloc_caches",)))
    rig.until(lambda u: bool(u.travel.watches) and len(u.travel.branches) == 2)
    before = picture(rig.latest)
    rig.worker.send(C.SaveSession(path))
    assert not rig.until(lambda u: u.travel.path == path).travel.unsaved
    opened = rig.latest.travel.opened_serial
    rig.worker.send(C.Load(JOB))
    rig.until(lambda u: u.state is WorkerState.PAUSED and u.travel.end == 0)
    rig.worker.send(C.RemoveBreakpoint(None))
    rig.worker.send(C.OpenSession(path))
    update = rig.until(lambda u: u.travel.opened_serial == opened + 1 and u.state is WorkerState.PAUSED)
    travel = update.travel
    assert update.error == ""
    assert update.job == JOB
    assert picture(update) == before
    assert (travel.position, len(travel.branches), travel.branch.number) == (1500, 2, 1)  # type: ignore[union-attr]
    assert [mark.name for mark in travel.bookmarks] == ["here"]
    assert [point.text() for point in travel.breakpoints] == ["function __slab_alloc"]
    assert [value.item for value in travel.watches] == ["kmalloc_caches"]
    assert [change.what for change in travel.changes] == [Inject(1, "irq_alloc", (64,))]
    rig.worker.send(C.RemoveBreakpoint(None))
    rig.worker.send(C.SetWatches(()))
    rig.until(lambda u: u.travel.watches == ())


def test_a_scenario_opens_at_its_first_step_and_is_walked(rig: RealRig, tmp_path: Path) -> None:
    opened = rig.latest.travel.opened_serial
    rig.worker.send(C.OpenScenario("aba"))
    travel = rig.until(lambda u: u.travel.opened_serial == opened + 1 and u.travel.moving is None).travel
    scenario = travel.scenario
    assert scenario is not None
    assert scenario.result is not None
    assert scenario.result.as_expected
    assert travel.position == scenario.steps[0].position
    for number in range(1, len(scenario.steps)):
        rig.worker.send(C.ScenarioStep(+1))
        update = rig.until(lambda u, n=number: u.travel.scenario is not None and u.travel.scenario.step == n)
        assert update.travel.position == scenario.steps[number].position
        assert update.travel.cpu == scenario.steps[number].cpu
    path = str(tmp_path / "aba.slubviz")
    rig.worker.send(C.SaveSession(path))
    rig.until(lambda u: u.travel.path == path)
    rig.worker.send(C.OpenSession(path))
    again = rig.until(lambda u: u.travel.opened_serial == opened + 2 and u.travel.moving is None).travel
    assert again.scenario is not None
    assert again.scenario.step == len(scenario.steps) - 1
    assert [step.caption for step in again.scenario.steps] == [step.caption for step in scenario.steps]


def test_where_the_chosen_cpu_is_idle_the_next_one_is_shown(rig: RealRig, tmp_path: Path) -> None:
    """In test F CPU 0 has nothing to do until the others have allocated everything."""

    def shows_a_busy_cpu(update: ViewUpdate) -> bool:
        snapshot = update.snapshot
        assert snapshot is not None
        stack = update.travel.stack_of(update.travel.cpu)
        return not snapshot.cpus[0].frames and stack is not None and bool(stack.frames)

    rig.load(replace(JOB, test="F", cpus=3), recorded=600)
    assert shows_a_busy_cpu(rig.latest)
    path = str(tmp_path / "f.slubviz")
    rig.worker.send(C.SaveSession(path))
    opened = rig.until(lambda u: u.travel.path == path).travel.opened_serial
    rig.worker.send(C.ChooseCpu(0))
    rig.until(lambda u: u.travel.cpu == 0)
    rig.worker.send(C.Step())
    assert rig.at(601).travel.cpu == 0  # as the user wanted
    rig.worker.send(C.OpenSession(path))
    assert shows_a_busy_cpu(rig.until(lambda u: u.travel.opened_serial == opened + 1))


def test_another_kernel_is_recorded_and_compared_by_operation(rig: RealRig) -> None:
    rig.worker.send(C.CompareKernel("slub+"))
    compare = rig.until(lambda u: u.travel.compare is not None).travel.compare
    assert compare is not None
    assert compare.by == "operation"
    assert compare.a.position == 3000
    assert compare.b.snapshot.kernel == "slub+"
    done = [sum(cpu.operations for cpu in side.snapshot.cpus) for side in (compare.a, compare.b)]
    assert done[0] == done[1]
    rig.worker.send(C.CompareKernel("no such kernel"))
    assert "no such kernel" in rig.until(lambda u: u.error != "").error
    rig.worker.send(C.CloseCompare())
    rig.until(lambda u: u.travel.compare is None)


def test_a_scenario_that_was_started_again_can_be_saved_and_opened(rig: RealRig, tmp_path: Path) -> None:
    rig.worker.send(C.OpenScenario("aba"))
    opened = rig.until(lambda u: u.travel.scenario is not None and u.travel.moving is None)
    before = opened.travel.opened_serial
    rig.worker.send(C.Reset())
    again = rig.until(lambda u: u.travel.scenario is not None and not u.travel.scenario.steps)
    assert (again.travel.position, again.travel.end, again.travel.scenario.result) == (0, 0, None)
    rig.worker.send(C.ScenarioStep(+1))  # there is none: nothing happens
    rig.worker.send(C.Step())
    rig.worker.send(C.SaveSession(str(tmp_path / "again.slubviz")))
    saved = rig.until(lambda u: "Saved" in u.travel.note or bool(u.error))
    assert (saved.error, saved.travel.position) == ("", 1)
    rig.worker.send(C.OpenSession(str(tmp_path / "again.slubviz")))
    rig.until(lambda u: u.travel.opened_serial > before and u.travel.moving is None)
    assert (rig.latest.error, rig.latest.travel.position, rig.latest.travel.end) == ("", 1, 1)


def test_commands_about_what_an_earlier_run_had_change_nothing(rig: RealRig) -> None:
    """They may be on their way while another run comes: a click on CPU 7 of the machine before."""
    for cpu in (-1, 99):
        rig.worker.send(C.ChooseCpu(cpu))
    for command in (C.RenameBranch(9, "gone"), C.SwitchBranch(9, 0), C.SwitchBranch(-1, 0)):
        serial = rig.latest.error_serial
        rig.worker.send(command)
        failed = rig.until(lambda u, serial=serial: u.error_serial > serial)
        assert "any more" in failed.error
    assert (failed.travel.cpu, failed.travel.position) == (0, 3000)


def test_a_cycle_beyond_every_run_ends_at_the_end(rig: RealRig) -> None:
    rig.load(JobSpec("e5345_8p", "slub", "A", (64,), 5, 1, 1), recorded=100)
    rig.worker.send(C.SeekCycle(10**30))
    ended = rig.until(lambda u: u.state is WorkerState.FINISHED and u.travel.moving is None)
    assert ended.error == ""
    assert ended.travel.position == ended.travel.end > 0


def test_two_mistakes_at_once_lose_nothing(rig: RealRig) -> None:
    """The first is still to be told when the second fails: the run stays as it is."""
    for number in range(10):
        serial = rig.latest.error_serial
        rig.worker.send(C.ChooseCpu(number % 2))  # has its picture, so that the next one has none at once
        rig.worker.send(C.Inspect(f"cpu {90 + number}"))
        rig.worker.send(C.RemoveBookmark("none"))
        told = rig.until(lambda u, serial=serial: u.error_serial > serial and "bookmark" in u.error)
        assert (told.state, told.travel.end) == (WorkerState.PAUSED, 3000)


def test_memory_and_handlers_of_the_user_s_own_reach_the_recording(tmp_path: Path) -> None:
    from slubviz.model.handlers import handlers_of

    file = tmp_path / "mine.py"
    file.write_text(
        '"""Mine."""\n\n\ndef my_irq(size):\n    """Handler: allocate and free."""\n'
        "    kfree(cast(free_object, kmalloc(size, GFP_ATOMIC)))\n"
    )
    job = JobSpec("e5345_8p", "slub", "A", (64,), 20, 1)
    recording = real_recording(job, memory_megabytes=80, handler_files=(str(file),))
    recording.boot()
    program = recording.session.booted.program  # type: ignore[attr-defined]
    assert "my_irq" in [handler.name for handler in handlers_of(program)]
    assert recording.stats().budget_bytes == 80 << 20  # type: ignore[attr-defined]
    recording.run(500)
    recording.change(Inject(0, "my_irq", (64,)))
    recording.run(5000)  # interrupts are off while a slab is built
    counters = recording.session.machine.counters()  # type: ignore[attr-defined]
    assert counters[0, N_INTERRUPTS] == 1
