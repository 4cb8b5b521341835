"""Plays a scenario: runs its program, strikes with its interrupts, notes where its steps are.

The run is recorded, with interrupts and moves of tasks as changes, so that afterwards any position of it can
be visited.  It is played on a copy of the code in which the micro-ops of anchors are marked as breakpoints.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slubviz.hw import layout as L
from slubviz.hw.isa import BREAK_BIT, F_OP, FRAME_KIND, KIND_INTERRUPT, WORDS, CpuState, Status
from slubviz.hw.machine import IntArray, plain_engine
from slubviz.model.errors import UserError
from slubviz.model.scenarios.anchors import Anchor, AnchorError, Kind
from slubviz.model.scenarios.job import PROGRAM_FILE, boot_told, line_in_file, scenario_spec, session_of
from slubviz.model.scenarios.outcome import (
    Found,
    PlayedBeside,
    PlayedOutcome,
    compared,
    differences,
    find_outcome,
)
from slubviz.model.scenarios.places import Place, PlaceFinder
from slubviz.model.scenarios.scenario import Beside, Focus, Scenario, ScenarioError, Step, Strike
from slubviz.model.scenarios.tracker import Moment, Tracker, Watched
from slubviz.model.session import Session
from slubviz.model.snapshot_builder import call_stack
from slubviz.model.travel.changes import ChangeError, Inject, Migrate
from slubviz.model.travel.recording import DEFAULT_BUDGET_BYTES, Recording

#: Micro-ops between two looks at the stop flag.
PIECE_MICRO_OPS = 1_000_000
_CANCELLED = "the scenario was cancelled"


class ScenarioCancelled(UserError):
    """The user has ended the scenario."""


@dataclass(frozen=True)
class PlayedStep:
    """A step, with its place in the run."""

    position: int  #: micro-ops
    caption: str
    cpu: int
    focus: Focus | None
    anchor: str  #: as written


@dataclass(frozen=True)
class ScenarioResult:
    """A played scenario."""

    scenario: Scenario
    steps: tuple[PlayedStep, ...]
    outcome: PlayedOutcome
    beside: tuple[PlayedBeside, ...]
    recording: Recording  #: of the run, at its end

    @property
    def as_expected(self) -> bool:
        """Whether the scenario and all runs beside it ended as they should."""
        return self.outcome.as_expected and all(other.outcome.as_expected for other in self.beside)


class ScenarioRun:
    """One scenario to be played.

    Parameters
    ----------
    budget_bytes : memory of the recording
    """

    def __init__(self, scenario: Scenario, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self.scenario = scenario
        self._budget_bytes = budget_bytes

    def play(
        self,
        stop: threading.Event | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> ScenarioResult:
        """Play it from start to end.

        Parameters
        ----------
        stop : ends it early when it is set
        progress : called with the done share

        Raises
        ------
        ScenarioCancelled
            If ``stop`` was set.
        UserError
            If the scenario does not fit the kernel, an anchor never happens, or it does not come to an end.
        """
        scenario = self.scenario
        runs = 1 + len(scenario.beside)
        report = progress or (lambda share: None)
        session = session_of(scenario)
        playing = _Playing(scenario, session, self._budget_bytes, stop)
        playing.run(scenario.steps)
        report(1 / runs)
        found = find_outcome(session)
        expected = scenario.expected
        self._check_counters(found)
        outcome = PlayedOutcome(
            expected.kind,
            found,
            expected.explanation,
            differences(found, expected.kind, expected.text, expected.counters),
        )
        beside = []
        for number, other in enumerate(scenario.beside, 2):
            beside.append(self._beside(other, found, stop))
            report(number / runs)
        return ScenarioResult(scenario, tuple(playing.steps), outcome, tuple(beside), playing.recording)

    def _check_counters(self, found: Found) -> None:
        for name in self.scenario.expected.counters:
            if name not in found.counters:
                raise self._unknown_counter("[outcome.counters]", name, found)
        for number, other in enumerate(self.scenario.beside, 1):
            for name in other.compare:
                if name not in found.counters:
                    raise self._unknown_counter(f"[[beside]] {number}, compare", name, found)

    def _unknown_counter(self, place: str, name: str, found: Found) -> ScenarioError:
        from difflib import get_close_matches

        near = get_close_matches(name, found.counters, n=1)
        return self.scenario.fail(
            place, f"there is no counter {name}" + (f"; did you mean {near[0]}?" if near else "")
        )

    def _beside(self, other: Beside, own: Found, stop: threading.Event | None) -> PlayedBeside:
        spec = scenario_spec(self.scenario, other)
        session = session_of(self.scenario, spec, edits=other.edits)
        playing = _Playing(self.scenario, session, self._budget_bytes, stop)
        playing.run(())
        found = find_outcome(session)
        values, wrong = compared(own, found, other.compare)
        wrong = (*differences(found, other.kind), *wrong)
        outcome = PlayedOutcome(other.kind, found, other.explanation, wrong)
        return PlayedBeside(other.title, session.variant.name, outcome, values)


@dataclass
class _Pending:
    """A strike or step whose place is waited for."""

    what: Strike | Step
    watched: Watched
    met: tuple[int, int] | None = None  #: position and CPU

    def meet(self, position: int, cpu: int) -> None:
        """A step's place has been met: it keeps the time that is asked for, else the last one until the
        step is settled."""
        if self.watched.anchor.time in (0, self.watched.times):
            self.met = (position, cpu)


class _Playing:
    """One run of a scenario's program."""

    def __init__(
        self, scenario: Scenario, session: Session, budget_bytes: int, stop: threading.Event | None
    ) -> None:
        self.scenario, self.session, self._stop = scenario, session, stop
        self.recording = Recording(session, budget_bytes)
        self.steps: list[PlayedStep] = []
        boot_told(scenario, session, self.recording.boot)
        self._finder: PlaceFinder | None = None

    def run(self, steps: Sequence[Step]) -> None:
        """Run to the end, or until the machine stops; all steps and strikes must have happened then."""
        self._strikes = [self._pending(strike, strike.cpu) for strike in self.scenario.strikes]
        self._waiting_steps = [self._pending(step, step.cpu) for step in steps]
        self._not_struck = list(self._strikes)
        self._tracker = Tracker([one.watched for one in (*self._strikes, *self._waiting_steps)])
        self._due: list[_Pending] = []
        self._marked = self.session.machine.code.copy()
        for pc in self._tracker.stops:
            self._marked[pc * WORDS + F_OP] += BREAK_BIT
        self._run_to_end()
        if self._not_struck:
            raise self._never(self._not_struck[0])
        self._settle(ended=True)
        end = self.recording.end
        self.steps = [replace(step, position=min(step.position, end)) for step in self.steps]

    def _pending(self, what: Strike | Step, cpu: int | None) -> _Pending:
        anchor = what.at
        if anchor.kind in (Kind.START, Kind.END, Kind.LATER):
            place = Place(())
        else:
            if self._finder is None:
                self._finder = PlaceFinder(self.session.booted.program)
            try:
                place = self._finder.find(anchor)
            except AnchorError as error:
                raise self.scenario.fail(f"{what.place}, at", str(error)) from error
        wanted = anchor.cpu if anchor.cpu is not None else cpu
        return _Pending(what, Watched(anchor, place, wanted))

    # --- running -------------------------------------------------------------------------------------
    def _run_to_end(self) -> None:
        recording, limit = self.recording, self.scenario.micro_op_limit
        while not recording.over:
            if self._stop and self._stop.is_set():
                raise ScenarioCancelled(_CANCELLED)
            if recording.position >= limit:
                raise self._endless(limit)
            recording.run(min(PIECE_MICRO_OPS, limit - recording.position), engine=self._engine)
            due, self._due = self._due, []
            for one in due:
                self._strike(one)

    def _engine(self, S: IntArray, code: IntArray, P: IntArray, limit: int, clock_limit: int) -> int:
        """The machine's engine on marked code; goes back to the recording only for a strike."""
        while True:
            status = plain_engine(S, self._marked, P, limit, clock_limit)
            if status != Status.BREAKPOINT:
                return status
            if self._stop and self._stop.is_set():
                raise ScenarioCancelled(_CANCELLED)
            moment = self._moment_of(int(S[L.H_CURRENT_CPU]))
            if self._meet(self._tracker.stopped(moment), moment):
                return status  # stops here again afterwards, and counts no second time
            self._tracker.goes_on(moment)
            S[L.H_SKIP_BREAK] = 1
            if not self._tracker.returns_at(moment.pc):
                continue
            status = plain_engine(S, self._marked, P, int(S[L.H_MICRO_OPS]) + 1, clock_limit)
            if self._has_returned(moment) and self._meet(
                self._tracker.returned(moment.pc, moment), self._moment_of(moment.cpu)
            ):
                return int(Status.BREAKPOINT)
            if status != Status.MICRO_OPS or S[L.H_MICRO_OPS] >= limit:
                return status

    def _has_returned(self, moment: Moment) -> bool:
        machine = self.session.machine
        window = machine.cpu_word(moment.cpu, L.C_WINDOW)
        return window < moment.window or machine.cpu_word(moment.cpu, L.C_STATE) == CpuState.HALTED

    def _moment_of(self, cpu: int) -> Moment:
        machine = self.session.machine
        return Moment(
            cpu,
            machine.cpu_word(cpu, L.C_WINDOW),
            machine.cpu_word(cpu, L.C_PC),
            machine.cpu_word(cpu, L.C_IRQ_DEPTH),
            lambda: self._functions(cpu),
        )

    def _functions(self, cpu: int) -> frozenset[str]:
        program = self.session.booted.program
        frames = call_stack(self.session.machine, program, cpu)
        return frozenset(f.name for pc, _ in frames for f, _ in program.inline_stack(pc))

    def _meet(self, met: Sequence[Watched], moment: Moment) -> bool:
        """Note the steps that are met; whether a strike is due."""
        position = self.session.machine.micro_ops
        if met and self._enters_interrupt(moment):
            position += 1  # at the position itself the interrupt is seen as one that is due
        for one in self._waiting_steps:
            if any(one.watched is other for other in met):
                one.meet(position, moment.cpu)
        if met:
            self._settle(ended=False)
        self._due += [
            one
            for one in self._not_struck
            if any(one.watched is other for other in met)
            and one.watched.times == max(one.watched.anchor.time, 1)
        ]
        return bool(self._due)

    def _enters_interrupt(self, moment: Moment) -> bool:
        machine = self.session.machine
        function = self.session.booted.program.function_at(moment.pc)
        kind = int(machine.state[moment.window + FRAME_KIND])
        return kind == KIND_INTERRUPT and moment.pc == function.entry_pc

    def _strike(self, one: _Pending) -> None:
        self._not_struck.remove(one)
        strike = one.what
        assert isinstance(strike, Strike)
        try:
            self._make(strike)
        except ChangeError as error:
            raise self.scenario.fail(strike.place, str(error)) from error

    def _make(self, strike: Strike) -> None:
        machine = self.session.machine
        if strike.to_cpu is None:
            self.recording.change(Inject(strike.cpu, strike.handler, strike.arguments))
            return
        self.recording.change(Migrate(strike.cpu, strike.to_cpu))
        moved = machine.cpu_word(strike.to_cpu, L.C_STACK_BASE) - machine.cpu_word(strike.cpu, L.C_STACK_BASE)
        self._tracker.moved(strike.cpu, strike.to_cpu, moved)

    # --- steps ----------------------------------------------------------------------------------------
    def _settle(self, *, ended: bool) -> None:
        """Where the steps are, one after the other, as far as is known now."""
        while len(self.steps) < len(self._waiting_steps):
            one = self._waiting_steps[len(self.steps)]
            step = one.what
            assert isinstance(step, Step)
            before, cpu = self._last_step()
            found = self._position_of(one, before, cpu, ended=ended)
            if found is None:
                if ended:
                    raise self._never(one, 0 if step.at.time else before)
                return
            position, met_on = found
            if position < before:
                raise self.scenario.fail(
                    f"{step.place}, at",
                    f"{step.at.text!r} happens at micro-op {position:,}, before the step above it "
                    f"({before:,}): put the steps in order",
                )
            cpu = met_on if step.cpu is None else step.cpu
            self.steps.append(PlayedStep(position, step.caption, cpu, step.focus, step.at.text))

    def _last_step(self) -> tuple[int, int]:
        """Position and CPU of the last step that is settled."""
        if self.steps:
            return self.steps[-1].position, self.steps[-1].cpu
        return 0, self.scenario.starts[0].cpu

    def _position_of(self, one: _Pending, before: int, cpu: int, *, ended: bool) -> tuple[int, int] | None:
        """Position and CPU of a step that follows one at ``before``; None if that is not known yet."""
        anchor = one.watched.anchor
        if anchor.kind == Kind.START:
            return 0, self.scenario.starts[0].cpu
        if anchor.kind == Kind.LATER:
            return before + anchor.later_micro_ops, cpu
        if anchor.kind == Kind.END:
            return (max(before, self.recording.end), cpu) if ended else None
        if one.met is not None and (anchor.time or one.met[0] >= before):
            return one.met
        return None

    # --- complaints ------------------------------------------------------------------------------------
    def _never(self, one: _Pending, after: int = 0) -> ScenarioError:
        watched, fault = one.watched, self.session.fault
        anchor = watched.anchor
        times = watched.times
        happened = "never happened" if times == 0 else f"happened {_times(times)}"
        if watched.cpu is not None:
            happened += f" on CPU {watched.cpu}"
        wanted = f"the {_ordinal(anchor.time)} is asked for" if anchor.time else "once is needed"
        if after:
            wanted = f"and not after the step above it, at micro-op {after:,}"
        elsewhere = watched.all_times - times
        more = f" ({_times(elsewhere)} on other CPUs or called from elsewhere)" if elsewhere else ""
        ran = f"ran until the machine stopped ({fault})" if fault else "ran to the end"
        return self.scenario.fail(
            f"{one.what.place}, at", f"{ran}: {_place(anchor)} {happened}{more}, {wanted}"
        )

    def _endless(self, limit: int) -> ScenarioError:
        moment = self._moment_of(int(self.session.machine.state[L.H_CURRENT_CPU]))
        program = self.session.booted.program
        span = program.span(moment.pc)
        place = f"{span.file}:{span.line}"
        if span.file == PROGRAM_FILE:
            place = f"line {line_in_file(self.scenario, span.line)} of the file"
        return self.scenario.fail(
            "",
            f"does not come to an end within {limit:,} micro-ops; CPU {moment.cpu} is at "
            f"{place} (micro_op_limit in the file allows more)",
        )


def _place(anchor: Anchor) -> str:
    return anchor.place or anchor.text


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


__all__ = ["PlayedStep", "ScenarioCancelled", "ScenarioResult", "ScenarioRun"]
