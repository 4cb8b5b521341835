"""``slubviz gui``: open the window, or draw it into a file without a display.

Qt is imported here and only here.  What Qt would answer with an abort (no display, a plugin that does
not load) becomes one line.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import click

from slubviz.cli import backend, qt_check
from slubviz.model import selection
from slubviz.model.atomic_file import check_writable
from slubviz.model.errors import RequestError, UserError, quoted
from slubviz.model.plan import takes_sizes
from slubviz.model.results import RunRequest

_THEMES = ("system", "light", "dark")


@dataclass(frozen=True)
class WindowOptions:
    """How the window looks and what it is set to run at first."""

    machine: str
    kernel: str
    test: str
    sizes: tuple[int, ...] | None  #: None: the machine's default sizes
    ops: int
    seed: int
    cpus: int | None
    theme: str
    scale: float  #: 1 leaves the size to the desktop
    width_pixels: int
    height_pixels: int
    screenshot: str | None
    scenario: str | None = None  #: to play at first: a known one, or a file
    session: str | None = None  #: a session file to open at first
    memory_megabytes: int = 512  #: for checkpoints
    handler_files: tuple[str, ...] = ()  #: kernel-language files with interrupt handlers


@click.command(short_help="Open the window.")
@click.option(
    "--machine", default="e5345_8p", metavar="NAME", show_default=True, help="Machine to start with."
)
@click.option("--kernel", default="slub", metavar="NAME", show_default=True, help="Kernel to start with.")
@click.option("--test", default="D", metavar="TEST", show_default=True, help="Test to start with.")
@click.option("--size", default="64", metavar="SIZES", show_default=True, help="Sizes as in `slubviz run`.")
@click.option("--ops", default="10000", metavar="N", show_default=True, help="Operations per CPU.")
@click.option("--seed", default="1", metavar="N", show_default=True, help="Seed of everything random.")
@click.option("--cpus", default=None, metavar="N", help="CPUs; the machine's own number by default.")
@click.option(
    "--scenario", default=None, metavar="NAME|FILE", help="Play a scenario and show its first step."
)
@click.option("--session", default=None, metavar="FILE", help="Open a session file.")
@click.option(
    "--handlers", multiple=True, metavar="FILE", help="Interrupt handlers of your own; may be repeated."
)
@click.option(
    "--memory", default="512", metavar="MB", show_default=True, help="Memory for going back in time."
)
@click.option("--theme", default="system", metavar="THEME", show_default=True, help="system, light or dark.")
@click.option("--scale", default="1", metavar="FACTOR", show_default=True, help="Size of text and controls.")
@click.option(
    "--screenshot", default=None, metavar="FILE", help="Run a job, draw the window, exit. No display needed."
)
@click.option("--width", default="1920", metavar="PIXELS", show_default=True, help="Width of the picture.")
@click.option("--height", default="1080", metavar="PIXELS", show_default=True, help="Height of the picture.")
@click.pass_context
def gui(
    context: click.Context,
    machine: str,
    kernel: str,
    test: str,
    size: str,
    ops: str,
    seed: str,
    cpus: str | None,
    scenario: str | None,
    session: str | None,
    handlers: tuple[str, ...],
    memory: str,
    theme: str,
    scale: str,
    screenshot: str | None,
    width: str,
    height: str,
) -> None:
    """Open the window."""
    if theme not in _THEMES:
        raise RequestError(f"--theme {quoted(theme)} is not one of {', '.join(_THEMES)}")
    options = WindowOptions(
        machine=machine,
        kernel=kernel,
        test=test,
        sizes=selection.parse_sizes(size),
        ops=selection.parse_count(ops, "--ops", 1, selection.LARGEST_OPS),
        seed=selection.parse_count(seed, "--seed", 0, (1 << 63) - 1),
        cpus=None if cpus is None else selection.parse_count(cpus, "--cpus", 1, 4096),
        theme=theme,
        scale=_parse_scale(scale),
        width_pixels=selection.parse_count(width, "--width", 640, 16384),
        height_pixels=selection.parse_count(height, "--height", 400, 16384),
        screenshot=screenshot,
        scenario=scenario,
        session=session,
        memory_megabytes=selection.parse_count(memory, "--memory", 1, 1 << 20),
        handler_files=handlers,
    )
    if sum(name is not None for name in (scenario, session, screenshot)) > 1:
        raise RequestError("--scenario, --session and --screenshot exclude each other: give one of them")
    _check_opened(scenario, session)
    if screenshot is not None:
        check_writable([screenshot])
        os.environ["QT_QPA_PLATFORM"] = "offscreen"  # whatever the desktop prefers
    qt_check.require_display()
    context.exit(_start(options))


def _check_opened(scenario: str | None, session: str | None) -> None:
    """Refuse a file that cannot be opened before a window opens."""
    if scenario is not None:
        from slubviz.model.scenarios import load_scenario

        load_scenario(scenario)
    if session is not None:
        from slubviz.model.travel.session_file import read_session

        read_session(session)


def _parse_scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0.5 <= scale <= 4.0:  # False for nan as well
        raise RequestError(f"--scale {quoted(text)} must be a number from 0.5 to 4")
    return scale


def _start(options: WindowOptions) -> int:
    try:
        _one_line_for_fatal_errors()
        from slubviz.views import app
    except ImportError as error:
        if error.name and error.name.split(".")[0] == "slubviz":
            raise  # a defect of ours, not a missing library
        raise qt_check.explain_import_error(error) from error
    validated = _validated(options)
    with _signals_end_the_window():
        return app.run_window(validated)


def _validated(options: WindowOptions) -> WindowOptions:
    """Refuse unknown names before a window opens, with the words of ``slubviz run``."""
    runner = backend.load_runner()
    tests = selection.parse_tests(options.test, list(runner.known_tests()))
    if len(tests) != 1:
        raise RequestError(
            f"--test {quoted(options.test)} names {len(tests)} tests: the window runs one at a time"
        )
    request = RunRequest(
        machine=options.machine,
        kernels=(options.kernel,),
        tests=tests,
        sizes=options.sizes if takes_sizes(tests[0]) else None,
        ops=options.ops,
        seed=options.seed,
        cpus=options.cpus,
    )
    runner.validate(request)
    if options.handler_files:
        _check_handlers(options, tests[0])
    return replace(options, test=tests[0])


def _check_handlers(options: WindowOptions, test: str) -> None:
    """Compile the user's handlers once before a window opens."""
    from slubviz.model.requests import SessionSpec, compile_kernel, session_job

    spec = SessionSpec(
        options.machine,
        options.kernel,
        test,
        (options.sizes or (64,)) if takes_sizes(test) else (),
        options.ops,
        options.seed,
        options.cpus,
        handlers=True,
        handler_files=options.handler_files,
    )
    compile_kernel(session_job(spec))


@contextmanager
def _signals_end_the_window() -> Iterator[None]:
    """SIGINT and SIGTERM close a window in an orderly way and then do what they did before.

    An exception raised inside a slot would be printed by Qt's binding and lost.
    """
    from PySide6.QtCore import QCoreApplication, QThread

    received: list[int] = []
    previous = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def act_as_before(number: int, frame: FrameType | None) -> None:
        handler = previous[number]
        if callable(handler):
            handler(number, frame)

    def end(number: int, frame: FrameType | None) -> None:
        if QThread.currentThread().loopLevel() > 0:
            received.append(number)
            QCoreApplication.quit()
        else:
            act_as_before(number, frame)

    for number in previous:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    for number in received[:1]:
        act_as_before(number, None)


def _one_line_for_fatal_errors() -> None:
    """Qt aborts the process when it cannot start; end it in an orderly way instead."""
    from PySide6.QtCore import QtMsgType, qInstallMessageHandler

    def handle(kind: QtMsgType, _context: Any, message: str) -> None:
        if kind != QtMsgType.QtFatalMsg:
            print(message, file=sys.stderr)
            return
        packages = qt_check.missing_packages(
            [*qt_check.BASE_LIBRARIES.items(), *qt_check.X11_LIBRARIES.items()]
        )
        reason = qt_check.missing_libraries_message(packages) if packages else " ".join(message.split())
        print(f"slubviz: the window cannot open: {reason}", file=sys.stderr, flush=True)
        os._exit(UserError.exit_code)  # Qt calls abort() as soon as this returns

    qInstallMessageHandler(handle)
