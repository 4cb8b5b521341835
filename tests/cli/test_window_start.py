"""What happens where the window cannot open: one line that says why and what to do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slubviz.cli import qt_check
from slubviz.cli.qt_check import QtMissing
from slubviz.model.errors import UserError
from tests.cli.conftest import CHECKOUT, Invoke, Start, wait_for

#: Read by Python at its start: an import of Qt then fails as if it were not installed.
WITHOUT_QT = "import sys\nfor name in ('PySide6', 'shiboken6', 'pyqtgraph'):\n    sys.modules[name] = None\n"


@pytest.fixture
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_display")
@pytest.mark.parametrize("arguments", [(), ("gui",)])
def test_no_display(invoke: Invoke, arguments: tuple[str, ...]) -> None:
    outcome = invoke(*arguments)
    assert outcome.code == 1
    assert outcome.err == (
        "slubviz: no display (DISPLAY and WAYLAND_DISPLAY are not set): use `slubviz run`, "
        "or `slubviz gui --screenshot FILE` for a picture of the window\n"
    )


@pytest.mark.parametrize(
    "environment",
    [{"DISPLAY": "elsewhere:0"}, {"WAYLAND_DISPLAY": "wayland-0"}, {"QT_QPA_PLATFORM": "offscreen"}],
)
def test_a_display_or_a_chosen_platform_is_enough(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qt_check, "BASE_LIBRARIES", {})
    monkeypatch.setattr(qt_check, "X11_LIBRARIES", {})
    qt_check.require_display(environment)
    with pytest.raises(UserError):
        qt_check.require_display(dict.fromkeys(environment, ""))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="X11 is Linux's here")
def test_a_display_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qt_check, "BASE_LIBRARIES", {})
    monkeypatch.setattr(qt_check, "X11_LIBRARIES", {})
    number = 100_000 + os.getpid()
    environment = {"DISPLAY": f":{number}.0"}
    with pytest.raises(UserError, match="does not answer"):
        qt_check.require_display(environment)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(f"\0/tmp/.X11-unix/X{number}")
        server.listen()
        qt_check.require_display(environment)
        monkeypatch.setattr(qt_check, "X11_LIBRARIES", {"libno-such-1.so": "pkg1"})
        with pytest.raises(QtMissing, match="apt-get install pkg1"):
            qt_check.require_display(environment)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="X11 is Linux's here")
def test_a_display_that_does_does_not_answer(start: Start) -> None:
    process = start("gui", environment={"DISPLAY": ":987", "WAYLAND_DISPLAY": "", "QT_QPA_PLATFORM": "xcb"})
    stdout, stderr = process.communicate()
    lines = stderr.decode().splitlines()
    assert (process.returncode, stdout) == (1, b"")
    assert len(lines) == 1
    assert lines[0].startswith("slubviz: the display ':987' does not answer")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="X11 is Linux's here")
def test_what_qt_would_answer_with_an_abort(start: Start) -> None:
    # A platform plugin that does not exist: Qt calls abort().
    process = start("gui", environment={"DISPLAY": "elsewhere:1", "QT_QPA_PLATFORM": "no-such-plugin"})
    stdout, stderr = process.communicate()
    lines = stderr.decode().splitlines()
    assert (process.returncode, stdout) == (1, b"")
    assert lines[-1].startswith("slubviz: the window cannot open: ")
    assert "Traceback" not in stderr.decode()


#: In place of the real window: an event loop with a timer, as the real one has, that tells when it runs.
WINDOW = """
import sys, types
from PySide6.QtCore import QCoreApplication, QTimer
def run_window(options):
    application = QCoreApplication([])
    timer = QTimer(interval=10)
    timer.timeout.connect(lambda: open({started!r}, "w").close())
    timer.start()
    application.exec()
    print("closed", flush=True)
    return 0
sys.modules["slubviz.views.app"] = types.SimpleNamespace(run_window=run_window)
import slubviz.views
slubviz.views.app = sys.modules["slubviz.views.app"]
from slubviz.cli import backend, main
from tests.cli import fake_runner
backend.load_runner = lambda: fake_runner
sys.exit(main(["gui"]))
"""


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [(signal.SIGINT, 130, b"slubviz: interrupted\n"), (signal.SIGTERM, 143, b"slubviz: terminated\n")],
)
def test_a_signal_closes_the_window(tmp_path: Path, number: int, code: int, line: bytes) -> None:
    started = tmp_path / "started"
    process = subprocess.Popen(
        [sys.executable, "-c", WINDOW.format(started=str(started))],
        cwd=CHECKOUT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for(started, process)
    process.send_signal(number)
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (code, b"closed\n", line)


def test_a_picture_s_path_is_checked_first(invoke: Invoke, tmp_path: Path) -> None:
    outcome = invoke("gui", "--screenshot", str(tmp_path / "no" / "a.png"))
    assert outcome.code == 1
    assert "does not exist" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--kernel", "slob"), "known: slub, slub+"),
        (("--machine", "pdp11"), "known: e5345_8p, tiny"),
        (("--test", "Q"), "known: A, B, C, D, E, F"),
        (("--test", "A-F"), "names 6 tests"),
        (("--size", "0"), "out of range"),
        (("--width", "10"), "from 640 to"),
        (("--memory", "0"), "--memory '0' must be a whole number"),
        (("--scenario", "abba"), "abba-deadlock"),
        (("--scenario", "aba", "--session", "x.slubviz"), "exclude each other"),
    ],
)
def test_bad_requests_never_open_a_window(invoke: Invoke, arguments: tuple[str, ...], part: str) -> None:
    outcome = invoke("gui", *arguments)
    assert outcome.code == 2
    assert part in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--session", "/no/such.slubviz"), "'/no/such.slubviz': cannot be read: no such file"),
        (("--scenario", "./nowhere.toml"), "nowhere.toml"),
    ],
)
def test_a_file_that_cannot_be_opened_never_opens_a_window(
    invoke: Invoke, arguments: tuple[str, ...], part: str
) -> None:
    outcome = invoke("gui", *arguments)
    assert outcome.code in (1, 2)
    assert part in outcome.err
    assert outcome.err.count("\n") == 1


def test_without_qt(tmp_path: Path, start: Start) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_QT)
    environment = {"PYTHONPATH": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"}
    process = start("gui", environment=environment)
    _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr.decode().startswith(
        "slubviz: the window needs PySide6-Essentials, which is not installed: pip install"
    )
    assert stderr.count(b"\n") == 1
    process = start("run", "--test", "A", "--png", str(tmp_path / "a.png"), environment=environment)
    _, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, b"")
    assert (tmp_path / "a.png").stat().st_size > 0


def test_missing_libraries_are_named_by_package_each_once() -> None:
    libraries = [
        ("libno-such-1.so", "pkg1"),
        ("libc.so.6", "libc6"),
        ("libno-such-2.so", "pkg2"),
        ("libno-3.so", "pkg1"),
    ]
    assert qt_check.missing_packages(libraries) == ("pkg1", "pkg2")


def test_missing_libraries_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(qt_check, "BASE_LIBRARIES", {"libno-such-1.so": "pkg1", "libno-such-2.so": "pkg2"})
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(QtMissing, match="apt-get install pkg1 pkg2"):
        qt_check.require_qt()
    assert qt_check.main(["--packages"]) == 1
    assert capsys.readouterr().out == "pkg1 pkg2\n"
    assert qt_check.main([]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_last_line() -> None:
    assert qt_check.last_line("a\nb\n\n") == "b"
    assert qt_check.last_line(" \n") == "no reason given"
