"""What the worker shows of a recording: the quick parts with every picture, the slow ones when nothing moves.

Quick: the stack of the chosen CPU, bookmarks, branches; when time stands still also all stacks, watches and
what is inspected.  Slow: the timeline's detail, heat, the history of an object.  A part is computed again
only when what it depends on has changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slubviz.model.errors import UserError
from slubviz.views.job import RecordingLike
from slubviz.views.travel_model import Progress, Stop, Stopped, TravelModel
from slubviz.views.travel_view import HistoryView, ProgramView, TravelView

if TYPE_CHECKING:
    from slubviz.model.travel.call_stack import CallStackView
    from slubviz.model.travel.object_history import ObjectEvent
    from slubviz.views.traveller import Traveller

#: While a run is recorded its timeline grows: it is read no more often than this.
_OVERVIEW_SECONDS = 0.1
#: Heat is that of so many micro-ops up to the end of the branch, two seconds' work.
_HEAT_MICRO_OPS = 20_000_000

#: Computes a part; its result is shown, and looked for again only when its key changes.
Work = Callable[[RecordingLike, Stop, Progress], Any]


@dataclass
class _Slow:
    """A slow part: what is wanted, and what was computed for which key."""

    key: object = None
    value: Any = None
    branch: int = 0


class Looks:
    """Makes TravelViews and remembers their parts."""

    def __init__(self, model: TravelModel) -> None:
        self._model = model
        self._detail_wanted: tuple[int, int] | None = None
        self._heat_wanted = False
        self._history_wanted: int | None = None
        self._inspected: object | None = None
        self.forget()

    def forget(self) -> None:
        """Another run: nothing that was computed holds."""
        self._program: ProgramView | None = None
        self._overview: Any = None
        self._overview_key: object = None
        self._overview_time = 0.0
        self._stacks: tuple[CallStackView, ...] = ()
        self._stacks_key: object = None
        self._inspection: Any = None
        self._inspection_key: object = None
        self._detail, self._heat, self._history = _Slow(), _Slow(), _Slow()
        self._history_fraction = 0.0
        self._detail_wanted, self._history_wanted, self._inspected = None, None, None

    # What is wanted

    def want_detail(self, first: int, last: int) -> None:
        """Every activity between two positions."""
        self._detail_wanted = (first, last)

    def want_heat(self, wanted: bool) -> None:
        """Heat of the recorded run, or none."""
        self._heat_wanted = wanted

    def want_history(self, address: int) -> None:
        """Allocations and frees of an object."""
        self._history_wanted = address

    def inspect(self, target: object | None) -> None:
        """Facts about something; the history of another thing goes."""
        self._inspected = target
        self._history_wanted = None

    # The picture

    def view(self, travel: Traveller, direction: int, *, fast: bool) -> TravelView:
        """All parts as they are known now.

        Parameters
        ----------
        fast : bool
            More pictures follow at once: only what a moving picture needs is computed.
        """
        recording = travel.recording
        if recording is None:
            return TravelView(note=travel.note, note_serial=travel.note_serial, cpu=travel.cpu)
        moment = _moment(recording)
        stacks = self._stacks_at(recording, moment, travel.cpu, fast)
        if not fast:
            self._inspect_at(recording, moment)
        return TravelView(
            position=recording.position,
            end=recording.end,
            complete=recording.over,
            direction=direction,
            cpu=travel.cpu,
            branch=recording.branch,
            branches=recording.branches,
            changes=recording.changes,
            bookmarks=tuple(recording.bookmarks),
            program=self.program(recording),
            overview=self._overview_at(recording, fast),
            detail=self._detail.value,
            detail_branch=self._detail.branch,
            call_stacks=stacks,
            heat=self._heat.value if self._heat_wanted else None,
            heat_branch=self._heat.branch,
            breakpoints=travel.breakpoints,
            watches=self._model.watch(recording, travel.watches, travel.cpu) if travel.watches else (),
            watched=travel.watched if isinstance(travel.watched, str) else "",
            inspection=self._inspection if self._inspected is not None else None,
            history=self._history_view(),
            scenario=travel.scenario,
            note=travel.note,
            note_serial=travel.note_serial,
            title=travel.title,
            opened_serial=travel.opened_serial,
            path=travel.path,
            unsaved=travel.unsaved,
        )

    def program(self, recording: RecordingLike) -> ProgramView:
        """The program, read once."""
        if self._program is None:
            self._program = self._model.program(recording)
        return self._program

    def _overview_at(self, recording: RecordingLike, fast: bool) -> Any:
        key = (recording.branch.number, recording.end, len(recording.branches))
        now = time.monotonic()
        due = not fast or now - self._overview_time > _OVERVIEW_SECONDS
        if key != self._overview_key and due:
            self._overview = self._model.overview(recording)
            self._overview_key, self._overview_time = key, now
        return self._overview

    def _stacks_at(
        self, recording: RecordingLike, moment: object, cpu: int, fast: bool
    ) -> tuple[CallStackView, ...]:
        key = (moment, cpu) if fast else moment
        if key != self._stacks_key:
            self._stacks = self._model.call_stacks(recording, (cpu,) if fast else None)
            self._stacks_key = key
        return self._stacks

    def _inspect_at(self, recording: RecordingLike, moment: object) -> None:
        history = self._known_history()
        key = (moment, self._inspected, id(history))
        if key == self._inspection_key:
            return
        self._inspection_key = key
        self._inspection = None
        if self._inspected is not None:
            try:
                self._inspection = self._model.inspect(recording, self._inspected, history)
            except UserError:
                self._inspected = None  # it names nothing: say so once
                raise

    def _history_view(self) -> HistoryView | None:
        wanted = self._history_wanted
        if wanted is None:
            return None
        known = self._known_history()
        if known is not None:
            return HistoryView(wanted, known)
        return HistoryView(wanted, (), True, self._history_fraction)

    def _known_history(self) -> tuple[ObjectEvent, ...] | None:
        """Of the object that is wanted; None while it is not read."""
        wanted = self._history_wanted
        if wanted is None or not isinstance(self._history.key, tuple) or self._history.key[0] != wanted:
            return None
        return self._history.value or ()

    # Slow parts

    def slow_work(self, recording: RecordingLike) -> Callable[[Stop, Progress], None] | None:
        """The next slow part that is wanted and not known; None if there is none.

        What it returns computes that part, and leaves things as they were when ``stop`` gets set.
        """
        branch = (recording.branch.number, len(recording.changes))
        if self._detail_wanted is not None:
            first, last = self._detail_wanted
            key: object = (branch, first, min(last, recording.end))
            if key != self._detail.key:
                return self._work(
                    recording,
                    self._detail,
                    key,
                    lambda r, stop, _p: self._model.detail(r, first, min(last, r.end), stop),
                )
        if self._heat_wanted:
            key = (branch, recording.end)
            if key != self._heat.key:
                return self._work(
                    recording,
                    self._heat,
                    key,
                    lambda r, stop, _p: self._model.heat(r, max(0, r.end - _HEAT_MICRO_OPS), r.end, stop),
                )
        if self._history_wanted is not None:
            address = self._history_wanted
            key = (address, branch, recording.end)
            if key != self._history.key:
                return self._work(
                    recording,
                    self._history,
                    key,
                    lambda r, stop, progress: self._model.history(r, address, stop, progress),
                )
        return None

    def slow_parts(self, view: TravelView) -> TravelView:
        """The same moment with the slow parts as they are known now."""
        return replace(
            view,
            detail=self._detail.value,
            detail_branch=self._detail.branch,
            heat=self._heat.value if self._heat_wanted else None,
            heat_branch=self._heat.branch,
            history=self._history_view(),
        )

    def give_up(self) -> None:
        """The user does not want to wait for what is being computed."""
        self._detail_wanted = None
        self._heat_wanted = False
        history = self._history_view()
        if history is not None and history.reading:
            self._history_wanted = None

    def _work(
        self, recording: RecordingLike, part: _Slow, key: object, compute: Work
    ) -> Callable[[Stop, Progress], None]:
        def run(stop: Stop, progress: Progress) -> None:
            def advanced(fraction: float) -> None:
                if part is self._history:
                    self._history_fraction = fraction
                progress(fraction)

            try:
                value = compute(recording, stop, advanced)
            except Stopped:
                return
            except Exception:  # told once: what cannot be had is not asked for again and again
                part.key, part.value, part.branch = key, None, recording.branch.number
                raise
            if not stop.is_set():
                part.key, part.value, part.branch = key, value, recording.branch.number

        return run


def _moment(recording: RecordingLike) -> object:
    """What the state at the cursor depends on."""
    return (recording.branch.number, recording.position, len(recording.changes))
