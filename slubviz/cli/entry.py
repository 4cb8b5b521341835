"""The outermost layer of the command line: every way to end becomes an exit code and at most one line.

Imports are inside ``main`` so that an interrupt while they load also ends in one line.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO, cast

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class _StdoutError(Exception):
    """Standard output cannot be written, for example because its disk is full."""


class _CheckedStdout:
    """Standard output whose failures are told from those of other files."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._failures_told():
            return self._stream.write(text)

    def flush(self) -> None:
        with self._failures_told():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _StdoutError((error.strerror or str(error)).lower()) from error


class _Terminated(BaseException):
    """SIGTERM arrived: unwind, so that temporary files are removed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv
        The words after the program's name; ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        The exit code.  Only defects of the program raise.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_missing_streams()
    received, restore = _raise_on_signals()
    plain_stdout = sys.stdout
    sys.stdout = cast(TextIO, _CheckedStdout(plain_stdout))
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, _Terminated) as signalled:
        return _end_by_signal(signalled)
    except _StdoutError as error:
        _discard_stdout()
        return _end(f"cannot write to standard output: {error}", EXIT_FAILED)
    except BrokenPipeError:
        # The reader has all it wanted (`slubviz run | head`).
        _discard_stdout()
        return EXIT_OK
    except Exception:
        if not received:
            raise
        # A library that was interrupted while it loaded: it tells of a failed import instead.
        return _end_by_signal(received[0])
    finally:
        sys.stdout = plain_stdout
        restore()


def _run(arguments: list[str]) -> int:
    import click

    from slubviz.cli.app import cli
    from slubviz.model.errors import UserError

    try:
        if "_SLUBVIZ_COMPLETE" in os.environ:  # the shell asks for completions
            cli.main(arguments, prog_name="slubviz")
        with cli.make_context("slubviz", arguments) as context:
            cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return _end(error.format_message(), error.exit_code)
    except UserError as error:
        return _end(str(error), error.exit_code)
    except MemoryError:
        return _end("not enough memory: use fewer --ops, --cpus or -j", EXIT_FAILED)
    return EXIT_OK


def _end_by_signal(signalled: BaseException) -> int:
    if isinstance(signalled, _Terminated):
        return _end("terminated", EXIT_TERMINATED)
    return _end("interrupted", EXIT_INTERRUPTED)


def _end(message: str, code: int) -> int:
    """Tell the user in one line on standard error.  What was printed before still goes out."""
    try:
        sys.stdout.flush()
    except (_StdoutError, BrokenPipeError):
        _discard_stdout()
    with suppress(OSError):
        print(f"slubviz: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return code


def _discard_stdout() -> None:
    """Send the rest to nowhere: the interpreter flushes once more at its end and must not fail then."""
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)
    except (OSError, ValueError):
        pass


def _open_missing_streams() -> None:
    # Started with a closed stream (`>&-`), Python sets it to None; whatever prints would then fail.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _raise_on_signals() -> tuple[list[BaseException], Callable[[], None]]:
    """Let SIGINT and SIGTERM raise; what they raised, as it may get lost, and how to go back."""
    received: list[BaseException] = []

    def raise_it(number: int, _frame: FrameType | None) -> None:
        signalled = _Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        received.append(signalled)
        raise signalled

    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, or not ours
        numbers.append(signal.SIGINT)
    try:
        previous = {number: signal.signal(number, raise_it) for number in numbers}
    except ValueError:  # not in the main thread: whoever runs us there handles signals
        return received, lambda: None

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    return received, restore
