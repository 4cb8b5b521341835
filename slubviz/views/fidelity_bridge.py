"""The one object between the comparison's thread and the fidelity page.

As ``bridge`` for the session: the page calls its methods and listens to ``updated``; a timer fetches the
newest update, so the number of signals does not grow with the number of cells.  Files are written on a
thread of their own, because drawing the heat map takes a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from slubviz.model.atomic_file import write_atomic
from slubviz.model.errors import UserError
from slubviz.views.fidelity_worker import CompareState, CompareUpdate, CompareWorker, ModelBackend

if TYPE_CHECKING:
    from slubviz.model.compare import CompareRequest, Comparison

_POLL_MILLISECONDS = 50


class FidelityBridge(QObject):
    """Sends commands to the worker and emits its updates on the UI thread.

    Parameters
    ----------
    backend
        Plans and runs comparisons; by default the model.
    """

    updated = Signal(object)  # CompareUpdate
    exported = Signal(str)  # path of a file that was written
    export_failed = Signal(str)  # why one was not

    def __init__(self, backend: ModelBackend | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._worker = CompareWorker(backend)
        self._started = False
        self._latest = CompareUpdate()
        self._asked = False
        self._exports: list[threading.Thread] = []
        self._export_ends: list[tuple[str, str]] = []  # path and error; appended by the threads
        self._timer = QTimer(self)
        self._timer.setInterval(_POLL_MILLISECONDS)
        self._timer.timeout.connect(self.poll)

    @property
    def latest(self) -> CompareUpdate:
        """The update emitted last."""
        return self._latest

    @property
    def busy(self) -> bool:
        """Whether a comparison runs, or was asked for."""
        return self._asked or self._latest.state is CompareState.RUNNING

    def plan(self, request: CompareRequest) -> None:
        """Ask what a request means."""
        self._start()
        if not self.busy:
            self._worker.plan(request)

    def compare(self, request: CompareRequest) -> None:
        """Run a request, unless a comparison runs."""
        self._start()
        if not self.busy:
            self._asked = True
            self._worker.start_comparison(request)

    def cancel(self) -> None:
        """Stop the comparison that runs, keeping what it has found."""
        self._worker.cancel()

    def export_csv(self, path: Path) -> None:
        """Write the comparison as ``slubviz compare --csv`` does; ``exported`` tells when."""
        from slubviz.model.compare_files import compare_csv

        self._export(path, compare_csv)

    def export_png(self, path: Path) -> None:
        """Draw the heat map as ``slubviz compare --png`` does; ``exported`` tells when."""
        from slubviz.model.heatmap import heat_map_png

        self._export(path, heat_map_png)

    def shutdown(self, wait_seconds: float = 0.0) -> bool:
        """End the thread and every process; whether the thread has ended within the time."""
        self._timer.stop()
        self._worker.stop()
        if self._started:
            self._worker.join(wait_seconds)
        return not self._worker.is_alive()

    def poll(self) -> None:
        """Fetch the newest update, if there is one, and what became of the exports."""
        update = self._worker.take()
        if update is not None:
            self._latest = update
            if update.error or update.state in (
                CompareState.RUNNING,
                CompareState.DONE,
                CompareState.STOPPED,
            ):
                self._asked = False
            self.updated.emit(update)
        while self._export_ends:
            path, error = self._export_ends.pop(0)
            if error:
                self.export_failed.emit(error)
            else:
                self.exported.emit(path)

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._worker.start()
            self._timer.start()

    def _export(self, path: Path, content: Callable[[Comparison], bytes]) -> None:
        comparison = self._latest.comparison
        if comparison is None or not comparison.cells:
            raise UserError("Nothing is compared yet: press Compare, then export.")

        def write() -> None:
            try:
                write_atomic(path, content(comparison))
            except UserError as error:
                self._export_ends.append((str(path), str(error)))
            except OSError as error:
                self._export_ends.append((str(path), f"cannot write {path}: {error.strerror or error}"))
            except Exception as error:  # the user must hear of it, whatever it is
                self._export_ends.append((str(path), f"cannot write {path}: {type(error).__name__}: {error}"))
            else:
                self._export_ends.append((str(path), ""))

        self._exports = [thread for thread in self._exports if thread.is_alive()]
        self._exports.append(threading.Thread(target=write, name="export"))
        self._exports[-1].start()
