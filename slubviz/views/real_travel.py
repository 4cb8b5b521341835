"""The model of the application: moves, looks and files by ``slubviz.model.travel``.

Everything is imported when it is first used, because it loads the engine.  All that is asked of the model
about a recording goes through here, so a change of its interfaces is a change of this file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from slubviz.model.errors import UserError
from slubviz.views.job import JobSpec, RecordingFactory, RecordingLike
from slubviz.views.travel_model import Found, Opened, Progress, Stop, Stopped, TravelModel
from slubviz.views.travel_view import ProgramView, ScenarioView

if TYPE_CHECKING:
    from slubviz.model.requests import SessionSpec
    from slubviz.model.scenarios.run import ScenarioResult
    from slubviz.model.session import Session
    from slubviz.model.travel.breakpoint_search import BreakpointSearch
    from slubviz.model.travel.breakpoints import Breakpoint
    from slubviz.model.travel.call_stack import CallStackView
    from slubviz.model.travel.heat import Heat
    from slubviz.model.travel.inspector import Inspection, Target
    from slubviz.model.travel.movements import Move
    from slubviz.model.travel.object_history import ObjectEvent
    from slubviz.model.travel.recording import Recording
    from slubviz.model.travel.timeline import Detail, Overview
    from slubviz.model.travel.watch import WatchValue
    from slubviz.model.travel.watched import Watched


_Result = TypeVar("_Result")


class RealTravel(TravelModel):
    """See ``TravelModel``.

    Parameters
    ----------
    budget_bytes : for the checkpoints of a session file
    """

    def __init__(self, budget_bytes: int = 512 << 20) -> None:
        self._budget_bytes = budget_bytes
        self._watch_moment: object = None
        self._watch_before: tuple[WatchValue, ...] = ()
        self._watch_values: tuple[WatchValue, ...] = ()
        self._sought: tuple[tuple[Breakpoint, ...], Recording, BreakpointSearch] | None = None

    # Moving

    def move(
        self,
        recording: RecordingLike,
        kind: Move,
        direction: int,
        *,
        cpu: int,
        watched: object | None,
        breakpoints: tuple[Breakpoint, ...],
        stop: Stop,
        progress: Progress,
    ) -> Found:
        from slubviz.model.travel.movements import Move as Kind
        from slubviz.model.travel.movements import move

        chosen = self._watched_thing(recording, watched, cpu) if kind == Kind.WATCHED else None
        result = move(
            _real(recording),
            Kind(kind),
            direction,
            cpu=cpu,
            watched=chosen,
            breakpoints=breakpoints,
            stop=stop,
            progress=progress,
        )
        if result.cancelled:
            raise Stopped
        return Found(result.found, result.text)

    @staticmethod
    def _watched_thing(recording: RecordingLike, watched: object | None, cpu: int) -> Watched | None:
        """An expression stands for the word that it reads now; other things are what they are."""
        if not isinstance(watched, str):
            return cast("Watched | None", watched)
        if not watched:
            return None
        from slubviz.model.travel.watch import word_of
        from slubviz.model.travel.watched import WatchedWord

        return WatchedWord(*word_of(_session(recording), watched, cpu))

    def may_stop(self, recording: RecordingLike, breakpoints: tuple[Breakpoint, ...]) -> bool:
        return any(point.enabled for point in breakpoints)

    def run_to_breakpoint(
        self, recording: RecordingLike, micro_ops: int, breakpoints: tuple[Breakpoint, ...], cpu: int
    ) -> Found:
        from slubviz.model.travel.breakpoint_search import BreakpointSearch
        from slubviz.model.travel.movements import run_to_breakpoint

        real = _real(recording)
        if self._sought is None or self._sought[0] is not breakpoints or self._sought[1] is not real:
            self._sought = (breakpoints, real, BreakpointSearch(real.session, breakpoints))
        result = run_to_breakpoint(real, micro_ops, self._sought[2])
        return Found(result.found, result.text)

    def breakpoint(self, recording: RecordingLike, number: int, text: str) -> Breakpoint:
        from slubviz.model.travel.breakpoints import parse

        return parse(text, _session(recording).booted.program, number)

    def seek_cycle(self, recording: RecordingLike, cycle: float, stop: Stop, progress: Progress) -> None:
        if not _real(recording).seek_cycle(max(cycle, 0.0), stop=stop, progress=progress):
            raise Stopped

    # Looking

    def cpus(self, recording: RecordingLike) -> int:
        return _session(recording).machine_spec.cpus

    def program(self, recording: RecordingLike) -> ProgramView:
        from slubviz.model.handlers import handlers_of

        program = _session(recording).booted.program
        lines: dict[str, frozenset[int]] = {}
        for index, file in enumerate(program.files):
            rows = program.spans[program.spans[:, 0] == index]
            lines[file] = frozenset(np.unique(rows[:, 1]).tolist())
        return ProgramView(
            sources={file: tuple(text.splitlines()) for file, text in program.sources.items()},
            code_lines=lines,
            functions={function.name: (function.file, function.line) for function in program.functions},
            counters=tuple(program.counters),
            handlers=handlers_of(program),
        )

    def overview(self, recording: RecordingLike) -> Overview | None:
        return _real(recording).overview()

    def detail(self, recording: RecordingLike, first: int, last: int, stop: Stop) -> Detail | None:
        from slubviz.model.travel.timeline import trace_detail

        return _unless_stopped(trace_detail(_real(recording), first, last, stop))

    def call_stacks(
        self, recording: RecordingLike, cpus: tuple[int, ...] | None
    ) -> tuple[CallStackView, ...]:
        from slubviz.model.travel.call_stack import call_stack

        session = _session(recording)
        wanted = range(session.machine_spec.cpus) if cpus is None else cpus
        return tuple(call_stack(session, cpu) for cpu in wanted)

    def watch(self, recording: RecordingLike, texts: tuple[str, ...], cpu: int) -> tuple[WatchValue, ...]:
        from slubviz.model.travel.watch import watch

        moment = (id(recording), recording.branch.number, recording.position, len(recording.changes))
        if moment != self._watch_moment:  # "changed" is against the moment that was looked at before
            self._watch_moment, self._watch_before = moment, self._watch_values
        self._watch_values = watch(_session(recording), texts, cpu, self._watch_before)
        return self._watch_values

    def inspect(
        self, recording: RecordingLike, target: object, history: tuple[ObjectEvent, ...] | None
    ) -> Inspection | None:
        from slubviz.model.travel.inspector import Inspection as Facts
        from slubviz.model.travel.inspector import Row, find_target, inspect, with_history

        session = _session(recording)
        found = find_target(session, target) if isinstance(target, str) else cast("Target", target)
        try:
            facts = inspect(session, found)
        except UserError as error:  # the slab is not there now; it may come back
            return Facts("Not there now", (Row("", str(error)),), found)
        return with_history(facts, history, recording.position) if history is not None else facts

    def heat(self, recording: RecordingLike, first: int, last: int, stop: Stop) -> Heat | None:
        from slubviz.model.travel.heat import trace_heat

        return _unless_stopped(trace_heat(_real(recording), first, last, stop))

    def history(
        self, recording: RecordingLike, address: int, stop: Stop, progress: Progress
    ) -> tuple[ObjectEvent, ...]:
        from slubviz.model.travel.object_history import object_history

        return _unless_stopped(object_history(_real(recording), address, stop, progress))

    # Files

    def open_session(self, path: str, stop: Stop, progress: Progress) -> Opened:
        from slubviz.model.scenarios.job import scenario_session
        from slubviz.model.travel.session_file import load_session
        from slubviz.model.travel.session_file_replay import LoadCancelled

        try:
            loaded = load_session(
                path, stop, progress, budget_bytes=self._budget_bytes, scenario_session=scenario_session
            )
        except LoadCancelled as error:
            raise Stopped from error
        recording = cast("RecordingLike", loaded.recording)
        points, lost = [], []
        for number, text in enumerate(loaded.file.breakpoints, 1):
            try:
                points.append(self.breakpoint(recording, number, text))
            except UserError as error:
                lost.append(f"breakpoint {text}: {error}")
        notes = [*([loaded.mismatch] if loaded.mismatch else []), *loaded.notes, *lost]
        return Opened(
            recording,
            job_of_spec(loaded.spec),
            PurePath(path).name,
            "; ".join(notes),
            tuple(points),
            tuple(loaded.file.watches),
            self._scenario_of(loaded.file.scenario, stop, progress),
            same_run=loaded.mismatch is None,
        )

    @staticmethod
    def _scenario_of(text: str, stop: Stop, progress: Progress) -> ScenarioView | None:
        """The steps of a scenario that a session file holds: found by playing it once more."""
        if not text:
            return None
        from slubviz.model.scenarios import parse_scenario
        from slubviz.model.scenarios.run import ScenarioCancelled, ScenarioRun

        try:
            result = ScenarioRun(parse_scenario(text, "scenario", "the scenario in the file")).play(
                stop, progress
            )
        except ScenarioCancelled as error:
            raise Stopped from error
        except UserError:
            return None  # the run itself is there; only its captions are not
        return _view_of(result)

    def with_kernel(
        self,
        recording: RecordingLike,
        job: JobSpec,
        kernel: str,
        scenario_text: str,
        make: RecordingFactory,
        stop: Stop,
    ) -> RecordingLike:
        from slubviz.model.session import Session
        from slubviz.model.travel.recording import Recording

        spec = _session(recording).spec
        # Options, and a text in the place of a kernel file, are that kernel's own.
        same = kernel == spec.kernel
        if scenario_text:
            return cast("RecordingLike", _scenario_with(scenario_text, kernel, not same, stop))
        wanted = spec if same else replace(spec, kernel=kernel, kernel_text="", options={})
        other = Recording(Session(wanted))
        other.boot()
        return cast("RecordingLike", other)

    def save_session(
        self,
        recording: RecordingLike,
        path: str,
        breakpoints: tuple[Breakpoint, ...],
        watches: tuple[str, ...],
        scenario: ScenarioView | None,
    ) -> None:
        from slubviz.model.travel.session_file import SessionExtras, save_session

        extras = SessionExtras(
            tuple(point.text() for point in breakpoints), watches, scenario.text if scenario else ""
        )
        save_session(_real(recording), path, extras)

    def open_scenario(self, name: str, stop: Stop, progress: Progress) -> Opened:
        from slubviz.model.scenarios import load_scenario
        from slubviz.model.scenarios.run import ScenarioCancelled, ScenarioRun

        try:
            result = ScenarioRun(load_scenario(name)).play(stop, progress)
        except ScenarioCancelled as error:
            raise Stopped from error
        view = _view_of(result)
        recording = result.recording
        recording.seek(view.steps[0].position if view.steps else 0)
        return Opened(
            cast("RecordingLike", recording),
            job_of_spec(recording.session.spec),
            view.title,
            "" if result.as_expected else "; ".join(result.outcome.differences),
            scenario=view,
            same_run=result.as_expected,
            cpu=view.steps[0].cpu if view.steps else 0,
        )


def _scenario_with(text: str, kernel: str, other_options: bool, stop: Stop) -> Recording:
    """A scenario played with another kernel: its interrupts, without its steps."""
    from slubviz.model.scenarios import parse_scenario
    from slubviz.model.scenarios.run import ScenarioCancelled, ScenarioRun

    scenario = parse_scenario(text, "scenario", "the scenario")
    played = replace(
        scenario,
        kernel=kernel,
        options={} if other_options else scenario.options,
        steps=(),
        beside=(),
        expected=replace(scenario.expected, counters={}),
    )
    try:
        return ScenarioRun(played).play(stop).recording
    except ScenarioCancelled as error:
        raise Stopped from error


def _view_of(result: ScenarioResult) -> ScenarioView:
    scenario = result.scenario
    return ScenarioView(
        scenario.name, scenario.title, scenario.summary, result.steps, 0, result, scenario.text
    )


def job_of_spec(spec: SessionSpec) -> JobSpec:
    """What the bar shows of a request; options and texts have no place in it."""
    return JobSpec(
        machine=spec.machine,
        kernel=spec.kernel,
        test=spec.test,
        sizes=tuple(spec.sizes),
        ops=spec.ops,
        seed=spec.seed,
        cpus=spec.cpus,
        objects=tuple(spec.objects),
    )


def _real(recording: RecordingLike) -> Recording:
    return cast("Recording", recording)


def _session(recording: RecordingLike) -> Session:
    return _real(recording).session


def _unless_stopped(result: _Result | None) -> _Result:
    if result is None:
        raise Stopped
    return result
