"""The child process of ``compare_pool``: runs one session after another and reports every cell at once.

It ends when its parent closes the connection or is gone, at the latest when the piece of work at hand is
done; a terminal's Ctrl-C does not reach it.
"""

from __future__ import annotations

import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from slubviz.model.compare_pool import COLD, READY, WARM, Event, Failure, Task
from slubviz.model.errors import UserError

if TYPE_CHECKING:
    from slubviz.model.session import Session


class _ParentGoneError(Exception):
    """Nobody waits for the results any more."""


def serve(descriptor: int) -> None:
    """Answer tasks that arrive on an inherited socket until the parent closes it.

    Parameters
    ----------
    descriptor
        Number of the socket's file descriptor.
    """
    connection = Connection(descriptor)
    # The parent had it blocked while it started this process; only Ctrl-C is to stay so.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    with suppress(EOFError, OSError, _ParentGoneError):
        from slubviz.hw.jit import cache_is_warm

        warm = cache_is_warm()
        connection.send(WARM if warm else COLD)
        import slubviz.model.session  # noqa: F401  # loads, and the first time ever compiles, the engine

        connection.send(READY)
        while True:
            task = connection.recv()
            connection.send(_answer(connection, task))
    sys.exit(0)


def _answer(connection: Connection, task: Task) -> Event | Failure:
    try:
        return _run(connection, task)
    except UserError as error:
        return Failure(str(error), True, error.exit_code)
    except MemoryError:
        return Failure("not enough memory: use fewer --ops or a smaller -j", True)
    except (_ParentGoneError, OSError, EOFError):
        raise
    except Exception:
        return Failure(traceback.format_exc(), False)


class _Reporter:
    """Sends what a session has measured since the last time."""

    def __init__(self, connection: Connection, key: int) -> None:
        self.connection = connection
        self.key = key
        self.cells_told = 0
        self.micro_ops_untold = 0

    def advanced(self, session: Session, new_cells: int, new_micro_ops: int) -> None:
        if self.connection.poll():  # nothing is sent to a busy worker: the parent is gone
            raise _ParentGoneError
        self.micro_ops_untold += new_micro_ops
        if not session.finished:
            self.connection.send(self.event(session, False))

    def event(self, session: Session, finished: bool) -> Event:
        event = Event(self.key, tuple(session.results[self.cells_told :]), self.micro_ops_untold, finished)
        self.cells_told, self.micro_ops_untold = len(session.results), 0
        return event


def _run(connection: Connection, task: Task) -> Event:
    from slubviz.model.session import Session

    session = Session(task.spec, task.machine)
    session.boot()
    reporter = _Reporter(connection, task.key)
    session.run_to_end(None, reporter.advanced)
    return reporter.event(session, True)
