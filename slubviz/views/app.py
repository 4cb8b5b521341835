"""Start the window, or draw one picture of it without a display.

The only place that knows the real session and the real catalog; everything else in the views
takes them as arguments.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication

from slubviz.model.atomic_file import write_atomic
from slubviz.model.errors import UserError
from slubviz.model.snapshot import Snapshot
from slubviz.model.workload import Sweep
from slubviz.views.bridge import Bridge
from slubviz.views.commands import OpenScenario, OpenSession
from slubviz.views.export import picture_of, png_bytes
from slubviz.views.job import Catalog, JobSpec, RecordingFactory, RecordingLike
from slubviz.views.looks import Looks
from slubviz.views.main_window import MainWindow
from slubviz.views.real_travel import RealTravel
from slubviz.views.slab_summary import summarise
from slubviz.views.theme import text_font
from slubviz.views.theme_mode import ThemeMode
from slubviz.views.travel_model import TravelModel
from slubviz.views.traveller import Traveller
from slubviz.views.worker import ViewUpdate, WorkerState

_NAME = "slubviz"
DEFAULT_MEGABYTES = 512
#: Pictures at least this tall are drawn at twice the size, as a 4K screen would show them.
_TALL_PICTURE = 1800
_SMALLEST_SCALE, _LARGEST_SCALE = 0.5, 4.0
_SCREENSHOT_SHARE = 0.6
_COARSE_MICRO_OPS = 20_000
_FINE_MICRO_OPS, _FINE_TRIES = 37, 400


class WindowOptions(Protocol):
    """What the command line says about the window.

    Attributes
    ----------
    machine, kernel, test, sizes, ops, seed, cpus
        The job that is chosen at first; ``sizes`` None means the machine's own.
    theme : str
        ``"system"``, ``"light"`` or ``"dark"``.
    scale : float
        Size of everything, relative to the desktop's.
    width_pixels, height_pixels : int
        Of the picture.
    screenshot : str or None
        File for a picture instead of a window.
    scenario, session : str or None
        A scenario or a session file to open at first.
    memory_megabytes : int
        For the checkpoints of a recording.
    handler_files : tuple of str
        Kernel-language files with interrupt handlers.
    """

    @property
    def machine(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def test(self) -> str: ...
    @property
    def sizes(self) -> tuple[int, ...] | None: ...
    @property
    def ops(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def cpus(self) -> int | None: ...
    @property
    def theme(self) -> str: ...
    @property
    def scale(self) -> float: ...
    @property
    def width_pixels(self) -> int: ...
    @property
    def height_pixels(self) -> int: ...
    @property
    def screenshot(self) -> str | None: ...
    @property
    def scenario(self) -> str | None: ...
    @property
    def session(self) -> str | None: ...
    @property
    def memory_megabytes(self) -> int: ...
    @property
    def handler_files(self) -> tuple[str, ...]: ...


def run_window(options: WindowOptions) -> int:
    """Show the window, or draw it into a file; the exit code.  The caller has seen to a display.

    Raises
    ------
    UserError
        If an option is wrong or the file cannot be written.
    """
    catalog = real_catalog()
    job = first_job(options, catalog)
    if options.screenshot is None:
        memory, handlers = options.memory_megabytes, options.handler_files
        return main(
            job,
            options.theme,
            options.scale,
            catalog=catalog,
            opened=_first_command(options),
            make_recording=partial(real_recording, memory_megabytes=memory, handler_files=handlers),
            model=RealTravel(memory << 20),
        )
    size = (options.width_pixels, options.height_pixels)
    # The command line's 1 means that nothing was asked for.
    scale = None if options.scale == 1 else options.scale
    screenshot(Path(options.screenshot), *size, options.theme, job, catalog=catalog, scale=scale)
    return 0


def _first_command(options: WindowOptions) -> OpenScenario | OpenSession | None:
    if options.scenario is not None:
        return OpenScenario(options.scenario)
    return OpenSession(options.session) if options.session is not None else None


def first_job(options: WindowOptions, catalog: Catalog) -> JobSpec:
    """The job that is chosen at first: of the asked sizes, or of all points of the test."""
    sweep = catalog.sweep(options.test)
    points = tuple(catalog.points(options.machine, options.test))
    sizes = points if options.sizes is None else options.sizes
    return JobSpec(
        machine=options.machine,
        kernel=options.kernel,
        test=options.test,
        sizes=sizes if sweep == Sweep.SIZE else (),
        ops=options.ops,
        seed=options.seed,
        cpus=options.cpus,
        objects=points if sweep == Sweep.OBJECTS else (),
    )


def main(
    job: JobSpec,
    theme: str = "system",
    scale: float = 1.0,
    *,
    make_recording: RecordingFactory | None = None,
    catalog: Catalog | None = None,
    opened: OpenScenario | OpenSession | None = None,
    model: TravelModel | None = None,
) -> int:
    """Show the window until it is closed; the exit code.  ``opened`` is opened at first.

    Raises
    ------
    UserError
        If the theme or the scale is wrong.
    """
    mode = _theme_mode(theme)
    _apply_scale(scale)
    application = configured_application()
    bridge = Bridge(make_recording or real_recording, model=model or _model_for(make_recording))
    settings = QSettings(_NAME, _NAME)
    window = MainWindow(bridge, catalog or real_catalog(), job, mode, settings)
    window.show()
    bridge.start()
    if opened is not None:
        bridge.send(opened)
    with _signals_close(window):
        code = application.exec()
        # Does nothing if that is what ended the loop; ends every thread and process.
        window.close_without_asking()
        bridge.shutdown()
    return int(code)


@contextmanager
def _signals_close(window: MainWindow) -> Iterator[None]:
    """Ctrl-C and SIGTERM close the window; the signal is raised again when it has closed.

    An exception from a handler would be lost in whichever Qt callback runs at that moment.
    """
    received: list[int] = []

    def close(number: int, _frame: object) -> None:
        received.append(number)
        window.close_without_asking()  # nobody may be there to be asked

    heard = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, close) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])


def screenshot(
    path: Path,
    width: int,
    height: int,
    theme: str,
    spec: JobSpec,
    *,
    make_recording: RecordingFactory | None = None,
    catalog: Catalog | None = None,
    scale: float | None = None,
) -> None:
    """Run a job to a telling moment and write a picture of the window; needs no display.

    Parameters
    ----------
    path : Path
        PNG file to write.
    width, height : int
        Of the picture in pixels.
    theme : str
        ``"light"`` or ``"dark"``; ``"system"`` is light without a desktop.
    spec : JobSpec
        What is run.
    scale : float or None
        Pixels per logical pixel; None chooses 2 for tall pictures, else 1.

    Raises
    ------
    UserError
        If the job or the size is wrong, or the file cannot be written.
    """
    if not (320 <= width <= 16384 and 240 <= height <= 16384):
        raise UserError(
            f"picture of {width}x{height} pixels: width 320 to 16384 and height 240 to 16384 are possible"
        )
    mode = _theme_mode(theme)
    factor = scale or (2.0 if height >= _TALL_PICTURE else 1.0)
    if QApplication.instance() is None:
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
        _apply_scale(factor)
    configured_application()
    recording = (make_recording or real_recording)(spec)
    recording.boot()
    run_to_telling_moment(recording)
    bridge = Bridge(make_recording or real_recording)  # never started: the picture has been taken already
    window = MainWindow(bridge, catalog or real_catalog(), spec, mode)
    window.resize(round(width / factor), round(height / factor))
    window.show()
    bridge.adopt(window.bar.job())  # the job that runs is the one in the bar: nothing has been chosen since
    window.show_update(update_of(recording, spec, _model_for(make_recording)))
    QApplication.processEvents()
    image = picture_of(window, factor)
    window.close()
    write_atomic(path, png_bytes(image.copy(0, 0, width, height)))


def run_to_telling_moment(recording: RecordingLike) -> None:
    """Run until a measured phase is well under way, if possible with CPUs that wait for a lock."""
    session = recording.session
    while not (session.finished or session.fault or _late_enough(session.snapshot())):
        recording.run(_COARSE_MICRO_OPS)
    for _ in range(_FINE_TRIES):
        if session.finished or session.fault or any(lock.waiters for lock in session.snapshot().locks):
            return
        recording.run(_FINE_MICRO_OPS)


def _late_enough(snapshot: Snapshot) -> bool:
    phase = snapshot.phase
    if phase is None or not phase.measured:
        return False
    return sum(cpu.operations for cpu in snapshot.cpus) >= _SCREENSHOT_SHARE * phase.operations_total


def update_of(recording: RecordingLike, spec: JobSpec, model: TravelModel | None = None) -> ViewUpdate:
    """The update that the worker would publish for a paused session."""
    session = recording.session
    snapshot = session.snapshot()
    files = {frame.file for cpu in snapshot.cpus for frame in cpu.frames}
    files |= {cpu.span.file for cpu in snapshot.cpus if cpu.span is not None}
    state = (
        WorkerState.FAULTED
        if session.fault
        else WorkerState.FINISHED
        if session.finished
        else WorkerState.PAUSED
    )
    used = model or TravelModel()
    traveller = Traveller(used)
    traveller.take(recording)
    travel = Looks(used).view(traveller, 0, fast=False)
    return ViewUpdate(
        state=state,
        job=spec,
        snapshot=snapshot,
        summary=summarise(snapshot.slabs),
        sources={file: tuple(session.source_text(file).splitlines()) for file in sorted(files)},
        results=tuple(session.results),
        travel=replace(travel, clock_cycles=snapshot.clock_cycles),
    )


def configured_application() -> QApplication:
    """The QApplication with style and font; made on the first call."""
    existing = QApplication.instance()
    application = existing if isinstance(existing, QApplication) else QApplication(sys.argv[:1])
    if application.applicationName() != _NAME:  # a style given twice makes every widget anew
        application.setApplicationName(_NAME)
        application.setStyle("Fusion")
        application.setFont(text_font())
    return application


def _model_for(make_recording: RecordingFactory | None) -> TravelModel:
    """The model that goes with the recordings: a test's own ones have no program."""
    return RealTravel() if make_recording is None else TravelModel()


def real_recording(
    job: JobSpec, memory_megabytes: int = DEFAULT_MEGABYTES, handler_files: tuple[str, ...] = ()
) -> RecordingLike:
    """A recorded session of the model for a job.

    Parameters
    ----------
    memory_megabytes : for checkpoints
    handler_files : kernel-language files with interrupt handlers beside the known ones
    """
    from slubviz.model.requests import SessionSpec
    from slubviz.model.session import Session  # late: loads the engine
    from slubviz.model.travel.recording import Recording

    spec = SessionSpec(**asdict(job), warm_up=True, handlers=True, handler_files=handler_files)
    return Recording(Session(spec), memory_megabytes << 20)


def real_catalog() -> Catalog:
    """The machines, kernels, tests and points that the model knows."""
    from slubviz.model import requests
    from slubviz.model.kernels import KERNELS
    from slubviz.model.plan import WORKLOADS
    from slubviz.model.scenarios import known_scenarios

    def sweep(test: str) -> Sweep:
        return WORKLOADS[test].sweep if test in WORKLOADS else Sweep.SIZE

    return Catalog(
        machines=requests.known_machines(),
        kernels=requests.known_kernels(),
        tests=requests.known_tests(),
        points=requests.default_sizes,
        sweep=sweep,
        faulty=frozenset(name for name, kernel in KERNELS.items() if kernel.faulty),
        scenarios=cache(known_scenarios),
    )


def _theme_mode(name: str) -> ThemeMode:
    try:
        return ThemeMode(name)
    except ValueError:
        known = ", ".join(mode.value for mode in ThemeMode)
        raise UserError(f"unknown theme {name!r} (known: {known})") from None


def _apply_scale(scale: float) -> None:
    if not _SMALLEST_SCALE <= scale <= _LARGEST_SCALE:
        raise UserError(f"scale {scale:g}: from {_SMALLEST_SCALE:g} to {_LARGEST_SCALE:g} is possible")
    if scale != 1:  # Qt reads it when the application is made
        os.environ["QT_SCALE_FACTOR"] = f"{scale:g}"
