"""The other run that the one at the cursor is held against: a branch, another kernel, a session file.

Lives on the worker thread.  What it shows takes a seek in the other run, so it is computed while nothing
moves.  Leaves out the page that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from slubviz.model.errors import UserError
from slubviz.views import commands as C
from slubviz.views import numbers
from slubviz.views.compare_view import CompareSide, CompareView
from slubviz.views.job import JobSpec, RecordingFactory, RecordingLike
from slubviz.views.slab_summary import summarise
from slubviz.views.travel_model import Progress, Stop, Stopped, TravelModel

if TYPE_CHECKING:
    from slubviz.model.travel.divergence import By, Side
    from slubviz.model.travel.recording import Recording

#: So much of another kernel's run is recorded for a comparison; to its end, if that comes before.
_MOST_MICRO_OPS, _PIECE_MICRO_OPS = 100_000_000, 1_000_000


@dataclass(frozen=True)
class Other:
    """The other run."""

    title: str
    recording: RecordingLike
    branch: int


class Comparer:
    """Holds the other run and makes the picture of both; see the module."""

    def __init__(self, make_recording: RecordingFactory, model: TravelModel) -> None:
        self._make_recording = make_recording
        self._model = model
        self._other: Other | None = None
        self._by = "operation"
        self._view: CompareView | None = None
        self._key: object = None
        self._parting_wanted = False
        self._parting: tuple[str, int | None] = ("", None)
        self._parting_key: object = None
        self._searched: float | None = None  # share done

    @property
    def view(self) -> CompareView | None:
        """Both runs, as they were computed last."""
        if self._view is None:
            return None
        text, position = self._parting
        return replace(self._view, parting=text, parting_position=position, searching=self._searched)

    def give_up(self) -> None:
        """The user does not want to wait for where they part."""
        self._parting_wanted, self._searched = False, None

    def forget(self) -> None:
        """Nothing is compared."""
        self._other, self._view, self._key = None, None, None
        self._forget_parting()

    def _forget_parting(self) -> None:
        self._parting, self._parting_key = ("", None), None
        self.give_up()

    def obey(
        self,
        command: C.Compare,
        recording: RecordingLike,
        job: JobSpec,
        stop: Stop,
        progress: Progress,
        scenario_text: str = "",
    ) -> None:
        """Choose the other run, how moments correspond, or ask where they part.

        Raises
        ------
        UserError
            If there is no such run.
        Stopped
            When it was given up while it was recorded.
        """
        match command:
            case C.CompareBranch(number):
                branches = {branch.number: branch for branch in recording.branches}
                if number not in branches:
                    raise UserError(f"there is no branch {number}")
                self._take(Other(branches[number].name, recording, number), "micro-op")
            case C.CompareKernel(kernel):
                make = self._make_recording
                other = self._model.with_kernel(recording, job, kernel, scenario_text, make, stop)
                self._record(other, recording.end, stop, progress)
                self._take(Other(PurePath(kernel).name, other, other.branch.number))
            case C.CompareFile(path):
                opened = self._model.open_session(path, stop, progress)
                self._take(Other(opened.title, opened.recording, opened.recording.branch.number))
            case C.CompareBy(by):
                self._by = by
                self._forget_parting()
            case C.FindParting():
                self._forget_parting()
                self._parting_wanted, self._searched = True, 0.0
            case C.CloseCompare():
                self.forget()

    def _take(self, other: Other, by: str = "operation") -> None:
        self.forget()
        self._other, self._by = other, by

    @staticmethod
    def _record(other: RecordingLike, about: int, stop: Stop, progress: Progress) -> None:
        # ``about`` as long as the run beside it, as far as anybody can know.
        while not other.over and other.position < _MOST_MICRO_OPS:
            if stop.is_set():
                raise Stopped
            other.run(_PIECE_MICRO_OPS)
            progress(min(other.position / max(about, 1), 0.99))

    # Slow parts

    def wants(self, recording: RecordingLike) -> bool:
        """Whether something is to be computed."""
        return self._other is not None and (
            self._moment(recording) != self._key
            or (self._parting_wanted and self._ends(recording) != self._parting_key)
        )

    def work(self, recording: RecordingLike, own_title: str, stop: Stop, progress: Progress) -> None:
        """Compute the picture, or where they part; leaves things as they were when ``stop`` gets set."""
        if self._other is None:
            return
        moment = self._moment(recording)
        if moment != self._key or self._view is None:
            self._view, self._key = self._look(recording, own_title, stop), moment
            return

        def advanced(fraction: float) -> None:
            self._searched = fraction
            progress(fraction)

        self._searched = 0.0
        self._parting = self._part(recording, stop, advanced)
        self._parting_key, self._searched = self._ends(recording), None

    def failed(self, recording: RecordingLike) -> None:
        """What was wanted cannot be had: do not ask again until something changes."""
        self._key = self._moment(recording)
        self.give_up()

    def _moment(self, recording: RecordingLike) -> object:
        other = self._other
        return (id(other), self._by, recording.branch.number, recording.position, len(recording.changes))

    def _ends(self, recording: RecordingLike) -> object:
        return (id(self._other), self._by, recording.branch.number, recording.end, len(recording.changes))

    def _sides(self, recording: RecordingLike) -> tuple[Side, Side, By]:
        from slubviz.model.travel.divergence import By, Side

        assert self._other is not None
        own = Side(cast("Recording", recording), recording.branch.number)
        other = Side(cast("Recording", self._other.recording), self._other.branch)
        return own, other, By(self._by)

    def _look(self, recording: RecordingLike, own_title: str, stop: Stop) -> CompareView:
        from slubviz.model.travel.divergence import (
            CompareCancelled,
            aligned_position,
            cursors_kept,
            differences,
        )

        assert self._other is not None
        own, other, by = self._sides(recording)
        first = _side(recording, own_title, own.end)
        try:
            position = aligned_position(own, other, by, recording.position, stop=stop)
            with cursors_kept(own, other):
                other.go(position, stop)
                second = _side(self._other.recording, self._other.title, other.end)
                over = self._other.recording.over
        except CompareCancelled as error:
            raise Stopped from error
        note = ""
        if second.position >= second.end and first.position < first.end:
            ends = "ends here" if over else "is not recorded further"
            note = f"The other run {ends}, at micro-op {numbers.integer(second.end)}."
        return CompareView(
            first, second, self._by, tuple(differences(first.snapshot, second.snapshot)), note=note
        )

    def _part(self, recording: RecordingLike, stop: Stop, progress: Progress) -> tuple[str, int | None]:
        from slubviz.model.travel.divergence import CompareCancelled, first_divergence

        own, other, by = self._sides(recording)
        try:
            found = first_divergence(own, other, by, stop=stop, progress=progress)
        except CompareCancelled as error:
            raise Stopped from error
        if found is None:
            return "They never part, as far as both are recorded.", None
        return found.text(), found.position_a


def _side(recording: RecordingLike, title: str, end: int) -> CompareSide:
    session = recording.session
    snapshot = session.snapshot()
    files = {frame.file for cpu in snapshot.cpus for frame in cpu.frames}
    return CompareSide(
        title,
        snapshot.micro_ops,
        end,
        snapshot.clock_cycles,
        snapshot,
        summarise(snapshot.slabs),
        {file: tuple(session.source_text(file).splitlines()) for file in sorted(files)},
    )
