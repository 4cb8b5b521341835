"""What only a fresh process can tell: importing the engine, compiled or not, and the window's first frame.

Each child gets folders of its own for compiled code or settings where it would disturb the user's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slubviz.model.bench.figures import BenchRequest, Figure, Timing, time_figure
from slubviz.model.bench.timing import Tell, repeated
from slubviz.model.requests import SessionSpec, compile_kernel, session_job

COLD_COMPILE_GOAL_SECONDS = 10.0
FIRST_FRAME_GOAL_SECONDS = 2.0
SCRUBBING_GOAL = 30.0
SCRUBBING_SECONDS = 5.0
_LONGEST_SECONDS = 600
_PACKAGE_PARENT = Path(__file__).resolve().parents[3]
_WINDOW_MODULES = (("PySide6", "Qt"), ("pyqtgraph", "pyqtgraph"))

#: Prints what importing took, numba and numpy apart from the engine.
IMPORT_PROGRAM = """
import json, time
marks = [(time.perf_counter(), time.process_time())]
import numba, numpy
marks.append((time.perf_counter(), time.process_time()))
import slubviz.model.session
marks.append((time.perf_counter(), time.process_time()))
print(json.dumps(marks))
"""


class ChildFailed(Exception):
    """A child process ended badly; the text says in a few words why."""


def run_child(arguments: list[str], environment: Mapping[str, str]) -> Any:
    """Start Python with ``arguments``; what it printed last, read as JSON.

    Raises
    ------
    ChildFailed
        If it fails, hangs or prints something else.
    """
    path = os.pathsep.join(filter(None, (str(_PACKAGE_PARENT), os.environ.get("PYTHONPATH", ""))))
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": path, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ChildFailed(f"no answer after {_LONGEST_SECONDS} s") from error
    except OSError as error:
        raise ChildFailed(f"Python cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        raise ChildFailed(_last_line(done.stderr) or f"exit code {done.returncode}")
    try:
        return json.loads(_last_line(done.stdout))
    except ValueError as error:
        raise ChildFailed("the child's answer is not what was expected") from error


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def measure_compile(request: BenchRequest, tell: Tell) -> Iterator[Figure]:
    """Import of the engine into an empty cache and again; compile of the kernel file."""
    cold: list[Timing] = []
    warm: list[Timing] = []
    libraries: list[Timing] = []
    reason = ""
    try:
        for i in range(request.repeat):
            tell(f"compiling the engine ({i + 1} of {request.repeat})")
            with tempfile.TemporaryDirectory(prefix="slubviz-bench-") as folder:
                cold.append(_import_times(folder)[1])
                first, second = _import_times(folder)
                libraries.append(first)
                warm.append(second)
    except ChildFailed as error:
        reason = str(error)
    rows = (
        ("engine_compile_cold", "engine import, nothing compiled yet", cold, COLD_COMPILE_GOAL_SECONDS),
        ("engine_import_warm", "engine import, compiled before", warm, None),
        ("libraries_import", "numba and numpy import, before that", libraries, None),
    )
    for name, title, timings, goal in rows:
        if reason:
            yield Figure(name, "compile", title, "s", goal=goal, reason=reason)
        else:
            yield time_figure(name, "compile", title, timings, goal=goal)
    tell("compiling the kernel file")
    job = session_job(SessionSpec(request.machine, request.kernel, "D", (64,), request.work.session_ops, 1))
    timings = repeated(lambda: compile_kernel(job), request.repeat)
    title = f"kernel-language compile of {request.kernel}"
    what = "page allocator, slab allocator and tests"
    yield time_figure("kernel_compile", "compile", title, timings, detail=what)


def _import_times(cache_folder: str) -> tuple[Timing, Timing]:
    """Time to import the libraries, and then the engine, with this folder for compiled code."""
    marks = run_child(["-c", IMPORT_PROGRAM], {"SLUBVIZ_CACHE_DIR": cache_folder})
    start, between, end = marks
    return _difference(start, between), _difference(between, end)


def _difference(start: list[float], end: list[float]) -> Timing:
    return Timing(end[0] - start[0], end[1] - start[1])


def measure_window(request: BenchRequest, tell: Tell) -> Iterator[Figure]:
    """From starting ``slubviz gui`` to its first painted frame, the engine compiled before and not.

    Drawn off screen unless ``QT_QPA_PLATFORM`` says otherwise, so that it can be measured anywhere.
    """
    warm: list[Timing] = []
    cold: list[Timing] = []
    reason = _missing_library()
    try:
        if not reason:
            tell("start to the first frame, nothing compiled yet")
            with tempfile.TemporaryDirectory(prefix="slubviz-bench-") as folder:
                cold.append(_first_frame_time({"SLUBVIZ_CACHE_DIR": folder}))
            _first_frame_time({})  # not counted: whatever the disk must fetch is at hand afterwards
        for i in range(0 if reason else request.repeat):
            tell(f"start to the first frame ({i + 1} of {request.repeat})")
            warm.append(_first_frame_time({}))
    except ChildFailed as error:
        reason = str(error)
    detail = f"slubviz gui, Qt platform {os.environ.get('QT_QPA_PLATFORM', 'offscreen')}"
    rows = (
        ("first_frame", "first frame", warm, FIRST_FRAME_GOAL_SECONDS),
        ("first_frame_cold", "first frame, nothing compiled yet", cold, None),
    )
    for name, title, timings, goal in rows:
        if reason:
            yield Figure(name, "window", title, "s", goal=goal, reason=reason)
        else:
            yield time_figure(name, "window", title, timings, goal=goal, detail=detail)


def measure_scrubbing(request: BenchRequest, tell: Tell) -> Iterator[Figure]:
    """Pictures a second while the pointer is dragged over the timeline of a long run, in a real window.

    Drawn off screen unless ``QT_QPA_PLATFORM`` says otherwise.
    """
    tell("dragging over the timeline")
    title = "pictures while scrubbing"
    reason = _missing_library()
    answers: list[Any] = []
    try:
        answers = [_scrub(request.work.travel_ops) for _ in range(0 if reason else request.repeat)]
    except ChildFailed as error:
        reason = str(error)
    if reason:
        yield Figure("scrubbing", "time-travel", title, "pictures/s", goal=SCRUBBING_GOAL, reason=reason)
        return
    busy = min(answer["longest_busy_seconds"] for answer in answers) * 1e3
    detail = (
        f"window of 1920 x 1080, Qt platform {os.environ.get('QT_QPA_PLATFORM', 'offscreen')}; "
        f"busy for at most {busy:.0f} ms at once"
    )
    yield Figure(
        "scrubbing",
        "time-travel",
        title,
        "pictures/s",
        tuple(answer["pictures"] / answer["seconds"] for answer in answers),
        (),
        True,
        SCRUBBING_GOAL,
        detail,
        count=answers[-1]["pictures"],
    )


def _scrub(ops: int) -> Any:
    with tempfile.TemporaryDirectory(prefix="slubviz-bench-") as settings:
        platform = os.environ.get("QT_QPA_PLATFORM", "offscreen")
        changes = {"QT_QPA_PLATFORM": platform, "XDG_CONFIG_HOME": settings}
        return run_child(["-m", "slubviz.cli.scrubbing", str(ops), str(SCRUBBING_SECONDS)], changes)


def module_is_installed(name: str) -> bool:
    """Whether a module can be found; it is not imported."""
    return importlib.util.find_spec(name) is not None


def _missing_library() -> str:
    missing = [name for module, name in _WINDOW_MODULES if not module_is_installed(module)]
    return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed" if missing else ""


def _first_frame_time(environment: Mapping[str, str]) -> Timing:
    with tempfile.TemporaryDirectory(prefix="slubviz-bench-") as settings:
        platform = os.environ.get("QT_QPA_PLATFORM", "offscreen")
        changes = {"QT_QPA_PLATFORM": platform, "XDG_CONFIG_HOME": settings, **environment}
        started = time.monotonic()  # the same clock in every process of this computer
        answer = run_child(["-m", "slubviz.cli.first_frame"], changes)
    return Timing(answer["monotonic_seconds"] - started, answer["cpu_seconds"])
