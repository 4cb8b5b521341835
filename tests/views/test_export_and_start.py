"""Exports read back, pictures without a display, and what the command line asks for."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from slubviz.model.errors import UserError
from slubviz.model.results import RUNS_COLUMNS, runs_csv
from slubviz.views import app
from slubviz.views import commands as C
from slubviz.views.actions import make_actions
from slubviz.views.app import run_to_telling_moment, run_window, screenshot, update_of
from slubviz.views.control_bar import ControlBar
from slubviz.views.export import export_csv
from slubviz.views.main_window import MainWindow
from slubviz.views.session_files import Unsaved
from slubviz.views.theme import LIGHT
from slubviz.views.travel_model import TravelModel
from slubviz.views.worker import WorkerState
from tests.views.conftest import Lab
from tests.views.fake_session import FakeSession, fake_catalog, fake_job

MakeLab = Callable[..., Lab]


def finished(lab: Lab) -> Lab:
    lab.do("run")
    lab.until(lambda: lab.bridge.latest.state is WorkerState.FINISHED)
    return lab


def test_csv_reads_back_as_the_results(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = finished(make_lab(fake_job(sizes=(64, 128))))
    lab.saved_path = str(tmp_path / "runs.csv")
    lab.do("export_csv")
    assert lab.window.messages.kind == "notice"
    with open(lab.saved_path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == RUNS_COLUMNS
    assert [(row["operation"], row["size_bytes"]) for row in rows] == [
        ("kmalloc", "64"),
        ("kfree", "64"),
        ("kmalloc", "128"),
        ("kfree", "128"),
    ]
    assert Path(lab.saved_path).read_bytes() == runs_csv(lab.bridge.latest.results)


def test_png_reads_back_as_the_window_at_twice_its_size(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = finished(make_lab())
    lab.saved_path = str(tmp_path / "window")  # the ending is added
    lab.do("export_png")
    image = QImage(str(tmp_path / "window.png"))
    center = lab.window.centralWidget()
    assert (image.width(), image.height()) == (2 * center.width(), 2 * center.height())
    colours = {image.pixel(x, y) for x in range(0, image.width(), 7) for y in range(0, image.height(), 7)}
    assert LIGHT.argb("panel") in colours
    assert len(colours) > 20


def test_a_cancelled_dialog_writes_nothing(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = finished(make_lab())
    lab.saved_path = ""
    lab.do("export_csv", "export_png")
    assert list(tmp_path.iterdir()) == []
    assert lab.window.messages.text == ""


@pytest.mark.parametrize("target", ["missing/folder/runs.csv", ".", "/dev/full"])
@pytest.mark.parametrize("command", ["export_csv", "export_png"])
def test_what_cannot_be_written_is_told_in_one_line(
    make_lab: MakeLab, tmp_path: Path, target: str, command: str
) -> None:
    lab = finished(make_lab())
    lab.saved_path = str(tmp_path / target)
    lab.do(command)
    assert lab.window.messages.kind == "error"
    assert lab.window.messages.text
    assert "\n" not in lab.window.messages.text
    assert list(tmp_path.iterdir()) == []


def test_an_error_about_a_file_stays_while_the_run_goes_on(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = finished(make_lab())
    lab.saved_path = str(tmp_path / "missing" / "runs.csv")
    lab.do("export_csv")
    text = lab.window.messages.text
    lab.do("reset")
    lab.until(lambda: lab.bridge.latest.state is WorkerState.PAUSED)
    lab.do("step")
    lab.until(lambda: lab.bridge.latest.snapshot is not None and lab.bridge.latest.snapshot.micro_ops == 1)
    assert lab.window.messages.text == text != ""


def test_nothing_measured_is_nothing_to_export(make_lab: MakeLab, tmp_path: Path) -> None:
    assert not make_lab().window.commands["export_csv"].isEnabled()
    with pytest.raises(UserError, match="No cell is measured yet"):
        export_csv([], tmp_path / "runs.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080), (3840, 2160)])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_screenshot_has_the_asked_size_and_theme(tmp_path: Path, width: int, height: int, theme: str) -> None:
    path = tmp_path / "window.png"
    screenshot(path, width, height, theme, fake_job(), make_recording=FakeSession, catalog=fake_catalog())
    image = QImage(str(path))
    assert (image.width(), image.height()) == (width, height)
    assert (image.pixelColor(width // 2, 4).lightness() < 80) == (theme == "dark")


@pytest.mark.parametrize("sizes", [(64,), (48,), (64, 128)])
def test_a_picture_does_not_say_that_the_choice_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]
) -> None:
    hints = []
    picture_of = app.picture_of

    def look(window: MainWindow, scale: float) -> QImage:
        hints.append(window.status.hint_text)
        return picture_of(window, scale)

    monkeypatch.setattr(app, "picture_of", look)
    job = fake_job(sizes=sizes, cpus=2)
    screenshot(
        tmp_path / "x.png", 1280, 720, "light", job, make_recording=FakeSession, catalog=fake_catalog()
    )
    assert hints == [""]


@pytest.mark.parametrize(
    ("width", "height", "theme", "words"),
    [(10, 720, "light", "10x720"), (1280, 720, "pink", "unknown theme 'pink'")],
)
def test_screenshot_refuses_nonsense(tmp_path: Path, width: int, height: int, theme: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        screenshot(tmp_path / "x.png", width, height, theme, fake_job(), make_recording=FakeSession)
    assert list(tmp_path.iterdir()) == []


def test_the_telling_moment_is_late_in_a_phase_and_has_waiters() -> None:
    session = FakeSession(fake_job(ops=2000))
    run_to_telling_moment(session)
    snapshot = session.snapshot()
    assert sum(cpu.operations for cpu in snapshot.cpus) >= 0.6 * 2000 * 8 - 8
    assert any(lock.waiters for lock in snapshot.locks)
    update = update_of(session, fake_job(ops=2000))
    assert update.state is WorkerState.PAUSED
    assert set(update.sources) == {"slub.py"}


@pytest.mark.parametrize("fault_at", [None, 3])
def test_the_telling_moment_of_a_short_or_broken_run_is_its_end(fault_at: int | None) -> None:
    session = FakeSession(fake_job(test="A", ops=1))
    session.fault_at = fault_at
    run_to_telling_moment(session)
    assert session.finished or session.fault


@dataclass(frozen=True)
class Options:
    machine: str = "e5345_8p"
    kernel: str = "slub+"
    test: str = "A"
    sizes: tuple[int, ...] | None = None
    ops: int = 50
    seed: int = 3
    cpus: int | None = None
    theme: str = "dark"
    scale: float = 1.0
    width_pixels: int = 1280
    height_pixels: int = 720
    screenshot: str | None = None


def test_the_command_line_gets_its_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []

    def make(job):  # type: ignore[no-untyped-def]
        jobs.append(job)
        return FakeSession(job)

    monkeypatch.setattr(app, "real_recording", make)
    monkeypatch.setattr(app, "RealTravel", TravelModel)
    monkeypatch.setattr(app, "real_catalog", fake_catalog)
    path = tmp_path / "window.png"
    assert run_window(Options(screenshot=str(path))) == 0
    assert QImage(str(path)).width() == 1280
    assert jobs == [
        fake_job(kernel="slub+", test="A", sizes=tuple(fake_catalog().points("", "")), ops=50, seed=3)
    ]


def test_scale_out_of_range_is_refused() -> None:
    with pytest.raises(UserError, match=r"scale 9: from 0.5 to 4"):
        app.main(fake_job(), scale=9.0, make_recording=FakeSession, catalog=fake_catalog())


MakeBar = Callable[..., ControlBar]


@pytest.fixture
def make_bar() -> Iterator[MakeBar]:
    owners: list[QWidget] = []  # keeps them alive

    def make(**changes: object) -> ControlBar:
        owners.append(QWidget())
        return ControlBar(fake_catalog(), make_actions(owners[-1], LIGHT), fake_job(**changes), owners[-1])

    yield make
    for owner in owners:
        owner.deleteLater()


def test_the_bar_gives_back_the_job_it_was_given(make_bar: MakeBar) -> None:
    for changes in (
        {},
        {"sizes": (8, 64, 512)},
        {"kernel": "my_slub.py"},
        {"cpus": 2, "seed": 9},
        {"sizes": (96,)},
    ):
        assert make_bar(**changes).job() == fake_job(**changes)


def test_the_bar_announces_each_change_once(make_bar: MakeBar) -> None:
    bar = make_bar()
    seen = []
    bar.job_changed.connect(seen.append)
    bar.machine.setCurrentIndex(1)
    bar.ops.setValue(77)
    assert [(job.machine, job.ops) for job in seen] == [("ia64_8p_4n", 200), ("ia64_8p_4n", 77)]
    assert seen[0].sizes == (64,)  # the size is kept when the machine has it


@pytest.mark.parametrize(
    ("typed", "value"), [("12345", 12345), ("12\u202f345", 12345), ("12,345", 12345), ("9 999", 9999)]
)
def test_operations_can_be_typed_in_any_grouping(make_bar: MakeBar, typed: str, value: int) -> None:
    ops = make_bar().ops
    ops.lineEdit().setText(typed)
    ops.interpretText()
    assert ops.value() == value
    assert ops.text().replace("\u202f", "") == str(value)


@pytest.mark.parametrize("typed", ["0", "-5", "abc", "1e3", "99999999999", "²"])
def test_operations_that_are_no_count_are_not_taken(make_bar: MakeBar, typed: str) -> None:
    ops = make_bar().ops
    ops.lineEdit().setText(typed)
    ops.interpretText()
    assert 1 <= ops.value() <= 1_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_the_window_and_then_is_what_it_was(
    make_lab: MakeLab, number: signal.Signals
) -> None:
    lab = make_lab()
    heard: list[int] = []
    before = signal.signal(number, lambda got, _frame: heard.append(got))
    try:
        with app._signals_close(lab.window):
            signal.raise_signal(number)
            lab.until(lambda: not lab.window.isVisible())
            assert heard == []
        assert heard == [number]
    finally:
        signal.signal(number, before)


def test_a_signal_does_not_ask_about_what_is_not_saved(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.do("step")
    lab.until(lambda: lab.bridge.latest.travel.exists)
    lab.bridge.send(C.AddBookmark("x"))
    lab.until(lambda: lab.bridge.latest.travel.unsaved)
    lab.unsaved = Unsaved.CANCEL
    lab.window.close()
    assert lab.window.isVisible()
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with app._signals_close(lab.window):
            signal.raise_signal(signal.SIGTERM)
            lab.until(lambda: not lab.window.isVisible())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_empty_window_does_not_wait_for_the_engine() -> None:
    program = (
        "import sys\n"
        "from slubviz.views.app import *\n"
        "application = configured_application()\n"
        "job = JobSpec('e5345_8p', 'slub', 'D', (64,), 200)\n"
        "window = MainWindow(Bridge(real_recording), real_catalog(), job, ThemeMode.LIGHT)\n"
        "window.show()\n"
        "for page in range(window.views.count()):\n"
        "    window.show_view(page)\n"
        "    application.processEvents()\n"
        "print('numba' in sys.modules)\n"
        "window.close_without_asking()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False\n"
