"""The thread that owns the recording: obeys commands, plays in bounded chunks, leaves the latest picture.

One thread makes every call into the recording, so it needs no locks.  While playing it looks for commands
between chunks of about 8 ms, so Pause and Close are obeyed at once.  A long movement looks at a stop flag and
tells how far it is.  When nothing else is to do, what is slow to compute for the picture is computed, and
left again when a command comes.  What the window shows is left in a slot that holds only the newest
ViewUpdate; the window fetches it when it has time.
Leaves out: cancelling a compile, which runs to its end (the window stays alive meanwhile).
"""

from __future__ import annotations

import threading
import time
import traceback
from dataclasses import replace
from functools import partial

from slubviz.model.errors import UserError
from slubviz.views import commands as C
from slubviz.views.command_queue import RUNS, CommandQueue
from slubviz.views.commands import Command
from slubviz.views.comparer import Comparer
from slubviz.views.job import JobSpec, RecordingFactory, RecordingLike
from slubviz.views.looks import Looks
from slubviz.views.move_texts import text_of
from slubviz.views.speed import BackPacer, Pacer, RateMeter
from slubviz.views.travel_model import Opened, Progress, Stopped, TravelModel
from slubviz.views.travel_view import Moving
from slubviz.views.traveller import Traveller
from slubviz.views.view_update import ViewUpdate, WorkerState
from slubviz.views.worker_pictures import Pictures, is_clean_up, is_last_measured

__all__ = [
    "SessionWorker",
    "ViewUpdate",
    "WorkerState",
    "is_clean_up",
    "is_last_measured",
]

#: No more pictures a second than a screen shows.
_PUBLISH_SECONDS = 0.020
#: A picture comes after a run of so many times what the last one took, but not later than the longest.
_RUN_SHARE = 4.0
_LONGEST_PUBLISH_SECONDS = 0.25
#: A movement that takes longer says what it does.
_TELL_SECONDS = 0.15
#: Above this speed nobody reads stacks: only the chosen CPU's is shown.
_READABLE_RATE = 2_000.0

#: Something is loaded and stands still.
_HELD = (WorkerState.PAUSED, WorkerState.MEASURED, WorkerState.FINISHED, WorkerState.FAULTED)


class SessionWorker(threading.Thread):
    """Runs a recording; see the module.

    Parameters
    ----------
    make_recording : RecordingFactory
        Called on this thread for each Load; raises UserError for a bad job.
    model : TravelModel or None
        Moves and looks; None is one that knows micro-ops only.

    Notes
    -----
    The thread is no daemon: a process that ends while a compile runs waits for it, which is better than
    an interpreter that is torn down under a running compiler.
    """

    def __init__(self, make_recording: RecordingFactory, model: TravelModel | None = None) -> None:
        super().__init__(name="session")
        self._make_recording = make_recording
        self._queue = CommandQueue()
        self._move_stop, self._slow_stop = self._queue.move_stop, self._queue.slow_stop
        # Below: this thread only.
        self._model = model or TravelModel()
        self._travel = Traveller(self._model)
        self._looks = Looks(self._model)
        self._comparer = Comparer(make_recording, self._model)
        self._job: JobSpec | None = None
        self._state = WorkerState.EMPTY
        self._direction = 0
        self._pacer = Pacer()
        self._back_pacer = BackPacer()
        self._pause_measured = True
        self._pictures = Pictures()
        self._last_update = ViewUpdate()
        self._last_published = 0.0
        self._last_picture = 0.0
        self._publish_took = 0.0
        self._command_began = 0.0
        self._meter = RateMeter()
        self._error = ""
        self._error_serial = 0
        self._prepared_at: tuple[int, int, int] | None = None

    # Interface: any thread

    def send(self, command: Command) -> None:
        """Queue a command; one that takes the place of a waiting one, or of a running movement, does so."""
        self._queue.send(command)

    def take(self) -> ViewUpdate | None:
        """The newest update, once; None if there is none that was not taken already."""
        return self._queue.take()

    def stop(self) -> None:
        """Ask the thread to end after the chunk that runs; does not wait."""
        self._queue.stop()

    # The thread

    def run(self) -> None:
        while True:
            command = self._next_command()
            if self._queue.stop_asked:
                return
            try:
                if command is not None:
                    self._obey(command)
                elif self._state is WorkerState.RUNNING:
                    self._play_chunk()
                else:
                    self._do_slow_work()
            except UserError as error:
                self._fail(str(error))
            except Exception as error:  # the window must outlive a defect in the simulation
                traceback.print_exc()
                self._fail(
                    f"Internal error in the simulation: {type(error).__name__}: {error}".split("\n")[0]
                )

    def _next_command(self) -> Command | None:
        return self._queue.next(self._seconds_to_wait)

    def _seconds_to_wait(self) -> float | None:
        """Without a command: how long to wait for one; None is until one comes, 0 not at all."""
        if self._state is WorkerState.RUNNING:
            return self._wait_seconds()
        return None if self._slow_work() is None else 0.0

    def _wait_seconds(self) -> float:
        return self._back_pacer.wait_seconds() if self._direction < 0 else self._pacer.wait_seconds()

    def _obey(self, command: Command) -> None:
        if not isinstance(command, _QUIET):
            self._error = ""
        self._command_began = time.monotonic()
        try:
            self._do(command)
        finally:
            self._queue.done()
        self._publish_unless_outdated()

    def _do(self, command: Command) -> None:
        match command:
            case C.Load() | C.OpenSession() | C.OpenScenario():
                if not self._queue.waits(RUNS):  # a compile takes seconds: only the newest choice is worth it
                    self._load(command)
            case C.SetRate(rate):
                self._pacer.set_rate(rate)
                self._back_pacer.set_rate(rate)
                self._meter.restart()
            case C.SetPauseMeasured(wanted):
                self._pause_measured = wanted
            case C.Run():
                self._start()
            case C.Play(direction):
                self._play(direction)
            case C.Pause():
                self._halt()
            case C.Cancel():
                self._halt()
                self._looks.give_up()
                self._comparer.give_up()
            case C.Reset():
                self._reset()
            case C.Movement():
                self._move(command)
            case _:
                self._look_or_keep(command)

    def _look_or_keep(self, command: Command) -> None:
        match command:
            case C.Inspect(target):
                self._looks.inspect(target)
            case C.WantDetail(first, last):
                self._looks.want_detail(first, last)
            case C.WantHeat(wanted):
                self._looks.want_heat(wanted)
            case C.WantHistory(address):
                self._looks.want_history(address)
            case C.Compare():
                self._compare(command)
            case _:
                self._travel.keep(command)

    def _compare(self, command: C.Compare) -> None:
        if self._recording is None or self._job is None:
            return
        self._halt()
        before, self._state = self._state, WorkerState.MOVING
        try:
            told = partial(self._tell_progress, "Recording the other run")
            scenario = self._travel.scenario
            text = scenario.text if scenario is not None else ""
            self._comparer.obey(command, self._recording, self._job, self._move_stop, told, text)
        except Stopped:
            self._travel.tell("Cancelled: nothing is compared")
        finally:
            self._state = before

    # Runs come and go

    @property
    def _recording(self) -> RecordingLike | None:
        return self._travel.recording

    def _load(self, command: C.Load | C.OpenSession | C.OpenScenario) -> None:
        if isinstance(command, C.Load):
            self._load_job(command)
            return
        before = (self._state, self._job)
        self._state, self._direction = WorkerState.LOADING, 0
        self._publish()
        try:
            opened = self._open(command)
        except (UserError, Stopped) as error:
            # What was there stays, so that a file chosen by mistake costs nothing.
            self._state, self._job = before
            if before[0] is WorkerState.RUNNING:
                self._halt()
            if isinstance(error, UserError):
                raise
            return
        self._forget_picture()
        self._job = opened.job
        self._travel.take_opened(opened, command.path if isinstance(command, C.OpenSession) else "")
        self._settle()
        if not opened.same_run:  # open all the same, but nobody shall take it for what it is not
            self._error = opened.note
            self._error_serial += 1

    def _open(self, command: C.OpenSession | C.OpenScenario) -> Opened:
        if isinstance(command, C.OpenSession):
            return self._model.open_session(command.path, self._move_stop, self._advanced(command))
        return self._model.open_scenario(command.name, self._move_stop, self._advanced(command))

    def _load_job(self, command: C.Load) -> None:
        self._state, self._direction = WorkerState.LOADING, 0
        self._job = command.job
        self._travel.drop()
        self._forget_picture()
        self._publish()
        recording = self._make_recording(command.job)
        recording.boot()
        self._travel.take(recording)
        self._state = WorkerState.PAUSED
        if command.then_run:
            self._start()
        elif command.then_step:
            self._move(C.Step())

    def _forget_picture(self) -> None:
        self._pictures.forget()
        self._looks.forget()
        self._comparer.forget()

    def _reset(self) -> None:
        recording = self._recording
        if recording is None:
            return
        recording.boot()
        self._forget_picture()
        self._travel.take_again(recording)
        self._travel.unsaved = bool(recording.bookmarks)  # those of the first branch stay
        self._state, self._direction = WorkerState.PAUSED, 0

    # Playing

    def _start(self) -> None:
        recording = self._recording
        if recording is None or self._state not in _HELD:
            return
        if self._state is WorkerState.FINISHED:  # Run after the end means once more
            recording.seek(0, stop=self._move_stop)
        if not recording.session.fault:
            self._play(+1)

    def _play(self, direction: int) -> None:
        recording = self._recording
        if recording is None:
            return
        self._settle()
        if direction < 0 and recording.position == 0:
            return
        if direction > 0 and self._state is not WorkerState.PAUSED:
            return
        self._travel.tell("")
        self._direction = direction
        self._pacer.restart()
        self._back_pacer.restart()
        self._meter.restart()
        self._state = WorkerState.RUNNING

    def _halt(self) -> None:
        if self._state is WorkerState.RUNNING:
            self._settle()

    def _play_chunk(self) -> None:
        played = self._play_back() if self._direction < 0 else self._play_on()
        if self._state is not WorkerState.RUNNING or self._slot_is_due(played):
            self._publish()

    def _play_on(self) -> int:
        recording = self._recording
        assert recording is not None
        before = time.monotonic()
        count = self._pacer.due(before)
        if count == 0:
            return 0
        session = recording.session
        may_pause = self._pause_measured and is_last_measured(session.phase_view())
        if self._model.may_stop(recording, self._travel.breakpoints):
            hit = self._model.run_to_breakpoint(recording, count, self._travel.breakpoints, self._travel.cpu)
            if hit.found:
                self._travel.tell(hit.text)
                self._settle()
        else:
            recording.run(count, stop_at_phase_end=may_pause)
        after = time.monotonic()
        self._pacer.ran(count, after - before)
        self._meter.add(count, after)
        if session.finished or session.fault:
            self._settle()
        elif self._state is WorkerState.RUNNING and may_pause and is_clean_up(session.phase_view()):
            self._state, self._direction = WorkerState.MEASURED, 0
        return count

    def _play_back(self) -> int:
        recording = self._recording
        assert recording is not None
        now = time.monotonic()
        count = min(self._back_pacer.due(now, recording.end), recording.position)
        if count > 0:
            self._move_stop.begin()
            if count == 1:
                recording.step_back()
            else:
                recording.seek(recording.position - count, stop=self._move_stop)
            self._meter.add(count, time.monotonic())
        if recording.position == 0:
            self._settle()
        return count

    # Moving

    def _move(self, command: C.Movement) -> None:
        if self._recording is None:
            return
        keep_playing = isinstance(command, C.Apply) and self._state is WorkerState.RUNNING
        if not keep_playing:
            self._settle()
        try:
            self._travel.move(command, self._move_stop, self._advanced(command))
        finally:
            if not keep_playing:
                self._settle()

    def _advanced(self, command: C.Movement) -> Progress:
        return partial(self._tell_progress, text_of(command))

    def _tell_progress(self, text: str, fraction: float) -> None:
        """Say that a movement is under way; called on this thread by what moves."""
        now = time.monotonic()
        if now - self._command_began < _TELL_SECONDS or now - self._last_published < _PUBLISH_SECONDS:
            return
        state = WorkerState.LOADING if self._state is WorkerState.LOADING else WorkerState.MOVING
        travel = replace(self._last_update.travel, moving=Moving(text, fraction), direction=0)
        self._leave(replace(self._last_update, state=state, travel=travel, micro_ops_per_second=0.0))

    def _settle(self) -> None:
        """Stand still in the state that the session is in."""
        self._direction = 0
        recording = self._recording
        if recording is None:
            self._state = WorkerState.EMPTY
        elif recording.session.fault:
            self._state = WorkerState.FAULTED
        elif recording.session.finished:
            self._state = WorkerState.FINISHED
        else:
            self._state = WorkerState.PAUSED

    # What is slow

    def _slow_work(self) -> object:
        recording = self._recording
        if recording is None or self._state not in _HELD:
            return None
        return (
            not self._is_prepared(recording)
            or self._looks.slow_work(recording)
            or self._comparer.wants(recording)
            or None
        )

    def _is_prepared(self, recording: RecordingLike) -> bool:
        """Whether a step back from here is fast; it is not right after playing or scrubbing."""
        return self._prepared_at == (id(recording), recording.branch.number, recording.position)

    def _do_slow_work(self) -> None:
        recording = self._recording
        if recording is None or self._state not in _HELD:
            return
        if not self._is_prepared(recording):
            recording.prepare_steps_back()
            self._prepared_at = (id(recording), recording.branch.number, recording.position)
            return
        work = self._looks.slow_work(recording)
        if work is not None:
            work(self._slow_stop, lambda _fraction: self._publish_slow())
        elif self._comparer.wants(recording):
            self._compare_slowly(recording)
        else:
            return
        self._publish()

    def _compare_slowly(self, recording: RecordingLike) -> None:
        job = self._job
        title = f"{job.kernel if job else ''}, {recording.branch.name}"
        try:
            self._comparer.work(recording, title, self._slow_stop, lambda _fraction: self._publish_slow())
        except Stopped:
            return
        except Exception:  # told once, and not asked for again and again
            self._comparer.failed(recording)
            raise

    def _publish_slow(self) -> None:
        # How far it is, beside the picture of before: the recording is elsewhere now.
        if time.monotonic() - self._last_published > _LONGEST_PUBLISH_SECONDS:
            travel = replace(self._looks.slow_parts(self._last_update.travel), compare=self._comparer.view)
            self._leave(replace(self._last_update, travel=travel))

    # Pictures

    def _slot_is_due(self, count: int) -> bool:
        # A picture of very many slabs takes long: most of the time is for the run.
        interval = min(max(_PUBLISH_SECONDS, _RUN_SHARE * self._publish_took), _LONGEST_PUBLISH_SECONDS)
        if count == 0 or time.monotonic() - self._last_published < interval:
            return False
        return self._queue.is_taken()

    def _fail(self, message: str) -> None:
        self._error = message
        self._error_serial += 1
        if self._recording is None:
            self._job = None
        self._settle()
        try:
            try:
                self._publish()
            except UserError:  # what was to be inspected names nothing here; it is given up now
                self._publish()
        except Exception:  # a session that cannot be looked at is dropped, the window stays
            traceback.print_exc()
            self._travel.drop()
            self._forget_picture()
            self._job, self._state, self._direction = None, WorkerState.EMPTY, 0
            self._publish()

    def _publish_unless_outdated(self) -> None:
        # Of commands that come faster than pictures can be shown, the last one has its picture always.
        if self._queue.waits() and time.monotonic() - self._last_picture < _PUBLISH_SECONDS:
            return
        self._publish()

    def _publish(self) -> None:
        started = time.monotonic()
        running = self._state is WorkerState.RUNNING
        recording, pictures = self._recording, self._pictures
        if recording is not None and self._state is not WorkerState.LOADING:
            pictures.read(recording.session)
            if not running and pictures.snapshot is not None:
                self._travel.leave_idle_cpu(pictures.snapshot.cpus)
        fast = self._queue.waits() or (running and self._pacer.rate > _READABLE_RATE)
        travel = self._looks.view(self._travel, self._direction, fast=fast)
        if pictures.snapshot is not None:
            clock = pictures.snapshot.clock_cycles
            travel = replace(travel, clock_cycles=clock, compare=self._comparer.view)
        self._leave(
            ViewUpdate(
                state=self._state,
                job=self._job,
                snapshot=pictures.snapshot,
                summary=pictures.summary,
                sources=dict(pictures.sources),
                results=pictures.results,
                micro_ops_per_second=self._meter.rate() if running else 0.0,
                asked_rate=self._pacer.rate,
                error=self._error,
                error_serial=self._error_serial,
                travel=travel,
            )
        )
        self._last_picture = self._last_published
        self._publish_took = self._last_published - started

    def _leave(self, update: ViewUpdate) -> None:
        self._queue.leave(update)
        self._last_update = replace(update, travel=replace(update.travel, moving=None))
        self._last_published = time.monotonic()


#: Commands that do not answer the error that is shown.
_QUIET = (C.SetRate, C.SetPauseMeasured, C.WantDetail, C.WantHeat, C.WantHistory, C.ChooseCpu)
