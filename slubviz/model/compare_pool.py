"""Runs sessions in several processes, and tells of every cell as soon as it is measured.

Interface: ``Task``, ``ProcessPool`` (``run`` is a generator of ``Event``).  Processes rather than threads,
because booting and compiling kernels hold Python's lock.  The longest tasks should come first; tasks do not
influence each other, so the number of processes changes nothing in the results.  The workers do not hear
Ctrl-C: whoever leaves ``run`` or closes the pool ends them at once.  Leaves out: other computers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.errors import UserError
from slubviz.model.requests import SessionSpec
from slubviz.model.results import CellResult

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]
_CHILD_PROGRAM = "import sys; from slubviz.model.compare_worker import serve; serve(int(sys.argv[1]))"
#: What a worker says while it starts: whether the engine is compiled already, then that it is loaded.
WARM, COLD, READY = "warm", "cold", "ready"


@dataclass(frozen=True)
class Task:
    """One boot to run: the session and, where it is not the file's, the machine."""

    key: int  #: chosen by the caller, comes back in the events
    spec: SessionSpec
    machine: MachineSpec | None = None


@dataclass(frozen=True)
class Event:
    """Something that a worker did for a task."""

    key: int
    cells: tuple[CellResult, ...]  #: measured since the last event of this task
    micro_ops: int  #: executed since the last event of this task
    finished: bool


@dataclass(frozen=True)
class Failure:
    """A task ended badly."""

    text: str
    is_user_error: bool  #: one line for the user; otherwise a traceback
    exit_code: int = 1


def default_jobs() -> int:
    """Processes to use when nobody says: the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM, so that no worker is lost between its start and its place in the list.

    The mask is inherited, also by the started program: a terminal's Ctrl-C reaches the parent alone.  It
    does not do for the parent itself, where another thread may take the signal and Python then raises in
    the main one; so the handlers wait as well.
    """
    numbers = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        with _handlers_deferred(numbers):
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _handlers_deferred(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs handlers in the main thread only
        return
    handlers = {number: signal.getsignal(number) for number in numbers}
    arrived: list[tuple[int, FrameType | None]] = []
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, lambda n, frame: arrived.append((n, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        for received, frame in arrived:
            handler = handlers[signal.Signals(received)]
            assert callable(handler)
            handler(received, frame)


class _Worker:
    """One child process and the connection to it."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        path = os.pathsep.join(filter(None, (str(_PACKAGE_PARENT), os.environ.get("PYTHONPATH", ""))))
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _CHILD_PROGRAM, str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except OSError as error:
            self.connection.close()
            raise UserError(f"cannot start another process: {error.strerror}; use a smaller -j") from error
        finally:
            theirs.close()
        self.task: Task | None = None

    def receive(self) -> object:
        try:
            return self.connection.recv()
        except (EOFError, ConnectionError) as error:
            raise self._death() from error

    def give(self, task: Task) -> None:
        self.task = task
        try:
            self.connection.send(task)
        except OSError as error:
            raise self._death() from error

    def _death(self) -> UserError:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=2)
        code = self.process.returncode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
        return UserError(f"a worker process ended {how}: is there enough memory? use a smaller -j")

    def kill(self) -> None:
        with suppress(OSError):
            self.process.kill()
        self.connection.close()


class ProcessPool:
    """Worker processes, started when first needed and kept until ``close``.

    Parameters
    ----------
    jobs
        How many processes; None means ``default_jobs()``.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs or default_jobs()
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every worker at once, whatever it does."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.process.wait()
        self._workers = []

    def process_ids(self) -> list[int]:
        """Ids of the worker processes."""
        return [worker.process.pid for worker in self._workers]

    def run(
        self, tasks: Sequence[Task], tell: Callable[[str], None] = lambda _: None, pause_seconds: float = 0.5
    ) -> Generator[Event | None, None, None]:
        """Run every task, in the given order as workers become free.

        Parameters
        ----------
        tasks
            The longest first, so that no worker is left with a long one at the end.
        tell
            Hears a few words about what keeps the workers from starting.
        pause_seconds
            None is yielded when nothing happened for so long, so that the caller can look around.

        Yields
        ------
        Event or None
            In the order in which they arrive; every task ends with one that is ``finished``.

        Raises
        ------
        UserError
            If a task fails so, or a worker dies.
        RuntimeError
            If a task meets a defect; the text holds the worker's traceback.
        """
        finished = False
        try:
            yield from self._run(list(tasks), tell, pause_seconds)
            finished = True
        finally:
            if not finished:  # an error, Ctrl-C, or the caller has left: what runs is of no use to anybody
                self.close()

    def _run(
        self, waiting: list[Task], tell: Callable[[str], None], pause_seconds: float
    ) -> Generator[Event | None, None, None]:
        yield from self._start(min(self.jobs, len(waiting)), tell, pause_seconds)
        for worker in self._workers:
            if waiting:
                worker.give(waiting.pop(0))
        while busy := {worker.connection: worker for worker in self._workers if worker.task}:
            arrived = wait(list(busy), timeout=pause_seconds)
            if not arrived:
                yield None
            for connection in arrived:
                assert isinstance(connection, Connection)
                worker = busy[connection]
                message = worker.receive()
                if isinstance(message, str):  # it has started up
                    continue
                event = _checked(message)
                if event.finished:
                    worker.task = None
                    if waiting:
                        worker.give(waiting.pop(0))
                yield event

    def _start(
        self, wanted: int, tell: Callable[[str], None], pause_seconds: float
    ) -> Generator[None, None, None]:
        """Start workers up to the wanted number; the first compiles the engine, should that be needed."""
        if not self._workers and wanted:
            first = self._add_worker()
            if (yield from _first_word(first, pause_seconds)) == COLD:
                tell("compiling the simulator (only this time, some seconds)")
                yield from _first_word(first, pause_seconds)
        for _ in range(wanted - len(self._workers)):
            self._add_worker()

    def _add_worker(self) -> _Worker:
        with _signals_held():
            worker = _Worker()
            self._workers.append(worker)
        return worker


def _first_word(worker: _Worker, pause_seconds: float) -> Generator[None, None, object]:
    while not worker.connection.poll(pause_seconds):
        yield None
    return worker.receive()


def _checked(message: object) -> Event:
    if isinstance(message, Failure):
        if message.is_user_error:
            error = UserError(message.text)
            error.exit_code = message.exit_code
            raise error
        raise RuntimeError(f"a worker process failed:\n{message.text}")
    if not isinstance(message, Event):
        raise RuntimeError(f"a worker process sent {message!r}")
    return message
