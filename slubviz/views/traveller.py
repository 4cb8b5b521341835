"""What the worker keeps of a run beside its recording, and how it obeys each command about time.

Lives on the worker thread.  Leaves out playing, which the worker paces, and pictures: see ``looks``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from slubviz.model.errors import UserError
from slubviz.model.travel.bookmarks import add_bookmark, remove_bookmark, rename_bookmark
from slubviz.views import commands as C
from slubviz.views.cpu_layout import next_cpu
from slubviz.views.job import RecordingLike
from slubviz.views.move_stop import MoveStop
from slubviz.views.travel_model import Opened, Progress, Stop, Stopped, TravelModel
from slubviz.views.travel_view import ScenarioView

if TYPE_CHECKING:
    from slubviz.model.snapshot import CpuView
    from slubviz.model.travel.breakpoints import Breakpoint

#: A movement that ends within one step, and needs no name while it is under way.
_QUICK = (C.Step, C.StepBack)


class Traveller:
    """A recording, its breakpoints and watches, the scenario that it came from.

    Attributes
    ----------
    note : str
        What the last command has to say; one line.
    unsaved : bool
        A change or a bookmark is in memory only.
    """

    def __init__(self, model: TravelModel) -> None:
        self.model = model
        self.recording: RecordingLike | None = None
        self.cpu = 0
        self._cpu_by_hand = False
        self.breakpoints: tuple[Breakpoint, ...] = ()
        self.watches: tuple[str, ...] = ()
        self.watched: object | None = None  # an expression of the list, or a thing in memory
        self.scenario: ScenarioView | None = None
        self.title = ""
        self.path = ""
        self.unsaved = False
        self.opened_serial = 0
        self.note = ""
        self.note_serial = 0
        self._next_breakpoint = 1

    # A run comes and goes

    def take(self, recording: RecordingLike) -> None:
        """Travel in another run.  Breakpoints and watches stay as far as they fit its program."""
        self.recording = recording
        self.scenario, self.title, self.path, self.unsaved = None, "", "", False
        self.cpu, self._cpu_by_hand = 0, False
        self.tell("")
        self._keep_what_fits(recording)

    def take_again(self, recording: RecordingLike) -> None:
        """Travel in the same run, which was started anew.

        A scenario's interrupts are gone, and with them its steps; its program is still what runs, so its text
        still belongs to what is saved.
        """
        scenario = self.scenario
        self.take(recording)
        if scenario is not None:
            title = f"{scenario.title}, started again without its interrupts"
            self.scenario = replace(scenario, title=title, steps=(), step=-1, result=None)
            self.title = scenario.title

    def take_opened(self, opened: Opened, path: str) -> None:
        """Travel in what a file held."""
        self.take(opened.recording)
        self.breakpoints = opened.breakpoints
        self._next_breakpoint = 1 + max((point.number for point in self.breakpoints), default=0)
        self.watches = opened.watches
        self.watched = None
        self.scenario, self.title, self.path = opened.scenario, opened.title, path
        self.cpu = opened.cpu
        self._follow_scenario(opened.recording)
        self.opened_serial += 1
        self.tell(opened.note)

    def drop(self) -> None:
        """There is no run."""
        self.recording, self.scenario, self.title, self.path = None, None, "", ""
        self.unsaved = False

    def leave_idle_cpu(self, cpus: Sequence[CpuView]) -> None:
        """Choose the CPU that is next if nothing runs on the chosen one, unless it was chosen on purpose."""
        chosen = next((cpu for cpu in cpus if cpu.number == self.cpu), None)
        index = next_cpu(cpus)
        if not self._cpu_by_hand and index >= 0 and (chosen is None or not chosen.frames):
            self.cpu = cpus[index].number

    def tell(self, note: str) -> None:
        """Say something about the last command; nothing is no news."""
        if note != self.note:
            self.note, self.note_serial = note, self.note_serial + 1

    def _keep_what_fits(self, recording: RecordingLike) -> None:
        kept = []
        for point in self.breakpoints:
            try:
                fitting = self.model.breakpoint(recording, point.number, point.text())
            except UserError:
                continue
            kept.append(replace(fitting, enabled=point.enabled))
        self.breakpoints = tuple(kept)

    # Movements

    def move(self, command: C.Movement, stop: Stop, progress: Progress) -> None:
        """Obey a movement; a cancelled one leaves the cursor where it was.

        Raises
        ------
        UserError
            If there is no such place.
        """
        recording = self.recording
        if recording is None:
            return
        if not isinstance(command, _QUICK):
            self.tell("")
        branch, position = recording.branch.number, recording.position
        try:
            self._go(recording, command, stop, progress)
        except Stopped:
            if not (isinstance(stop, MoveStop) and stop.replaced):
                self._take_back(recording, branch, position)
                self.tell("Cancelled: the cursor is where it was")
        self._follow_scenario(recording)

    @staticmethod
    def _take_back(recording: RecordingLike, branch: int, position: int) -> None:
        if recording.branch.number != branch:
            recording.switch(branch, position)
        elif recording.position != position:
            recording.seek(position)

    def _go(self, recording: RecordingLike, command: C.Movement, stop: Stop, progress: Progress) -> None:
        match command:
            case C.Step():
                recording.step()
            case C.StepBack():
                recording.step_back()
            case C.MoveBy(kind, direction):
                found = self.model.move(
                    recording,
                    kind,
                    direction,
                    cpu=self.cpu,
                    watched=self.watched,
                    breakpoints=self.breakpoints,
                    stop=stop,
                    progress=progress,
                )
                self.tell(found.text)
            case C.Seek(position) | C.Scrub(position):
                # Nobody steps back from a place that is only passed.
                prepare = isinstance(command, C.Seek)
                if not prepare:  # dragging never runs on
                    position = min(position, recording.end)
                self._seek(recording, max(position, 0), stop, progress, prepare)
            case C.SeekCycle(cycle):
                self.model.seek_cycle(recording, cycle, stop, progress)
            case C.SwitchBranch(number, position) | C.GoToBookmark(number, position):
                self._check_branch(recording, number)
                if not recording.switch(number, position, stop=stop):
                    raise Stopped
            case C.ScenarioStep():
                self._scenario_step(recording, command, stop, progress)
            case C.Apply(what):
                branch = recording.branch.number
                made = recording.change(what)
                self.unsaved = True
                fork = f"; a new branch, {made.name}" if made.number != branch else ""
                self.tell(f"{what.text()}{fork}")

    @staticmethod
    def _check_branch(recording: RecordingLike, number: int) -> None:
        if not 0 <= number < len(recording.branches):  # a command from before Reset
            raise UserError(f"there is no branch {number} any more")

    @staticmethod
    def _seek(
        recording: RecordingLike, position: int, stop: Stop, progress: Progress, prepare: bool = True
    ) -> None:
        if not recording.seek(position, stop=stop, progress=progress, prepare=prepare):
            raise Stopped

    def _scenario_step(
        self, recording: RecordingLike, command: C.ScenarioStep, stop: Stop, progress: Progress
    ) -> None:
        scenario = self.scenario
        if scenario is None or not scenario.steps:
            return
        wanted = scenario.step + command.by if command.number is None else command.number
        wanted = min(max(wanted, 0), len(scenario.steps) - 1)
        step = scenario.steps[wanted]
        if recording.branch.number != 0:  # the scenario itself is the first branch
            if not recording.switch(0, step.position, stop=stop):
                raise Stopped
        else:
            self._seek(recording, step.position, stop, progress)
        if step.cpu is not None:
            self.cpu, self._cpu_by_hand = step.cpu, True  # the scenario's author chose it
        self.scenario = replace(scenario, step=wanted)

    def _follow_scenario(self, recording: RecordingLike) -> None:
        """The caption is that of the last step that lies behind the cursor."""
        scenario = self.scenario
        if scenario is None or not scenario.steps:
            return
        position = recording.position
        if 0 <= scenario.step < len(scenario.steps) and scenario.steps[scenario.step].position == position:
            return  # steps at the same position are told apart by how one got there
        behind = [index for index, step in enumerate(scenario.steps) if step.position <= position]
        self.scenario = replace(scenario, step=behind[-1] if behind else -1)

    # What is kept with the session

    def keep(self, command: C.Command) -> bool:
        """Obey a command about bookmarks, breakpoints, watches or names; False if it is none of them."""
        recording = self.recording
        match command:
            case C.ChooseCpu(cpu):
                if recording is None or 0 <= cpu < self.model.cpus(recording):  # else of the run before
                    self.cpu, self._cpu_by_hand = cpu, True
            case C.ChooseWatched(what):
                self.watched = what
            case C.SetWatches(texts):
                self.watches = texts
                if isinstance(self.watched, str) and self.watched not in texts:
                    self.watched = None
            case _ if recording is None:
                return False
            case C.AddBookmark() | C.EditBookmark() | C.RemoveBookmark():
                self._bookmark(recording, command)
            case C.RenameBranch(number, name):
                self._check_branch(recording, number)
                recording.rename(number, name)
                self.unsaved = True
            case C.SaveSession(path):
                self.model.save_session(recording, path, self.breakpoints, self.watches, self.scenario)
                self.path, self.unsaved = path, False
                self.tell(f"Saved {path}")
            case _:
                return self._break(recording, command)
        return True

    def _bookmark(
        self, recording: RecordingLike, command: C.AddBookmark | C.EditBookmark | C.RemoveBookmark
    ) -> None:
        marks = recording.bookmarks
        match command:
            case C.AddBookmark(name, note):
                add_bookmark(marks, recording.branch.number, recording.position, name, note)
            case C.EditBookmark(name, new_name, note):
                rename_bookmark(marks, name, new_name, note)
            case C.RemoveBookmark(name):
                remove_bookmark(marks, name)
        self.unsaved = True

    def _break(self, recording: RecordingLike, command: C.Command) -> bool:
        match command:
            case C.AddBreakpoint(text):
                point = self.model.breakpoint(recording, self._next_breakpoint, text)
                self._add(point)
            case C.ToggleBreakpoint(file, line):
                point = self.model.line_breakpoint(recording, self._next_breakpoint, file, line)
                plain = replace(point, number=0)
                same = [p.number for p in self.breakpoints if replace(p, number=0, enabled=True) == plain]
                if same:
                    self.breakpoints = tuple(p for p in self.breakpoints if p.number not in same)
                else:
                    self._add(point)
            case C.EnableBreakpoint(number, enabled):
                self.breakpoints = tuple(
                    replace(p, enabled=enabled) if p.number == number else p for p in self.breakpoints
                )
            case C.ChangeBreakpoint(number, text):
                changed = self.model.breakpoint(recording, number, text)
                self.breakpoints = tuple(
                    replace(changed, enabled=p.enabled) if p.number == number else p for p in self.breakpoints
                )
            case C.RemoveBreakpoint(number):
                self.breakpoints = tuple(p for p in self.breakpoints if number not in (None, p.number))
            case _:
                return False
        return True

    def _add(self, point: Breakpoint) -> None:
        self.breakpoints = (*self.breakpoints, point)
        self._next_breakpoint += 1
