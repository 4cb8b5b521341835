"""The one object between the session's thread and the widgets.

Widgets call its methods and listen to ``updated``; they never talk to the worker nor to each
other.  A timer fetches the newest update about 60 times a second, so the number of signals does
not grow with the speed of the run.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from slubviz.views import commands as C
from slubviz.views.job import JobSpec, RecordingFactory
from slubviz.views.travel_model import TravelModel
from slubviz.views.worker import SessionWorker, ViewUpdate, WorkerState

_POLL_MILLISECONDS = 16


class Bridge(QObject):
    """Sends commands to the worker and emits its updates on the UI thread.

    Parameters
    ----------
    make_recording : RecordingFactory
        Builds a recording for a job; called on the worker thread.
    model : TravelModel or None
        Moves and looks; None is one that knows micro-ops only.
    """

    updated = Signal(object)  # ViewUpdate

    def __init__(
        self,
        make_recording: RecordingFactory,
        parent: QObject | None = None,
        model: TravelModel | None = None,
    ) -> None:
        super().__init__(parent)
        self._worker = SessionWorker(make_recording, model)
        self._started = False
        self._latest = ViewUpdate()
        self._asked_job: JobSpec | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(_POLL_MILLISECONDS)
        self._timer.timeout.connect(self.poll)

    @property
    def latest(self) -> ViewUpdate:
        """The update emitted last."""
        return self._latest

    def start(self) -> None:
        """Start the worker and the timer; once."""
        if not self._started:
            self._started = True
            self._worker.start()
            self._timer.start()

    def shutdown(self, wait_seconds: float = 0.0) -> bool:
        """Stop the timer and ask the worker to end.

        Parameters
        ----------
        wait_seconds : float
            How long to wait for it.

        Returns
        -------
        bool
            True if the worker has ended.
        """
        self._timer.stop()
        self._worker.stop()
        if self._started:
            self._worker.join(wait_seconds)
        return not self._worker.is_alive()

    def poll(self) -> None:
        """Fetch the newest update, if there is one, and emit it."""
        update = self._worker.take()
        if update is not None:
            self._latest = update
            if update.error and update.state is WorkerState.EMPTY:
                self._asked_job = None  # a job that could not be loaded is loaded anew when asked again
            self.updated.emit(update)

    # Commands

    def send(self, command: C.Command) -> None:
        """Send a command that needs nothing else, e.g. a movement of what is loaded."""
        self._worker.send(command)

    def run(self, job: JobSpec) -> None:
        """Run on; a job other than the loaded one, or one that had a fault, is loaded first."""
        if self._must_load(job):
            self._load(C.Load(job, then_run=True))
        else:
            self._worker.send(C.Run())

    def pause(self) -> None:
        """Stop at the next micro-op that a chunk ends with."""
        self._worker.send(C.Pause())

    def step(self, job: JobSpec) -> None:
        """Pause and execute one micro-op."""
        if self._must_load(job):
            self._load(C.Load(job, then_step=True))
        else:
            self._worker.send(C.Step())

    def reset(self, job: JobSpec) -> None:
        """Back to the start, paused; loads the job if it is another one."""
        if self._must_load(job):
            self._load(C.Load(job))
        else:
            self._worker.send(C.Reset())

    def set_rate(self, micro_ops_per_second: float) -> None:
        """Limit the speed; infinity for no limit."""
        self._worker.send(C.SetRate(micro_ops_per_second))

    def set_pause_measured(self, wanted: bool) -> None:
        """Pause, or not, when the last measured phase has ended and a clean-up follows."""
        self._worker.send(C.SetPauseMeasured(wanted))

    def adopt(self, job: JobSpec) -> None:
        """What is loaded came from a file, and ``job`` is how the bar shows it: it is not to be loaded."""
        self._asked_job = job

    def is_loaded(self, job: JobSpec) -> bool:
        """Whether a job is the one that was asked for last, or stands for the file that was opened."""
        return job == self._asked_job

    def keeps(self, job: JobSpec) -> bool:
        """Whether running this job goes on with what is loaded."""
        return not self._must_load(job)

    def _must_load(self, job: JobSpec) -> bool:
        return job != self._asked_job or self._latest.state is WorkerState.FAULTED

    def _load(self, command: C.Load) -> None:
        self._asked_job = command.job
        self._worker.send(command)
