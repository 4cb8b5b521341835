"""Names that are no file names, folders that are gone, signals that get lost in a library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slubviz.cli import entry
from slubviz.model.atomic_file import check_writable, write_atomic
from slubviz.model.errors import OutputError
from tests.cli.conftest import CHECKOUT


@pytest.mark.parametrize("make", [False, True])
def test_a_name_that_ends_like_a_folder_is_no_file(tmp_path: Path, make: bool) -> None:
    if make:
        (tmp_path / "a").write_text("old")
    for use in (lambda path: check_writable([path]), lambda path: write_atomic(path, b"new")):
        with pytest.raises(OutputError, match="it names a folder; give a file name"):
            use(f"{tmp_path}/a/")
    assert [path.read_text() for path in tmp_path.iterdir()] == (["old"] if make else [])


def test_a_nul_in_a_name_is_told(tmp_path: Path) -> None:
    for use in (lambda path: check_writable([path]), lambda path: write_atomic(path, b"new")):
        with pytest.raises(OutputError, match=r"a\\x00b' is not a file name"):
            use(f"{tmp_path}/a\0b")


def test_a_relative_name_in_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(OutputError, match="cannot write 'a': no such file or directory"):
        check_writable(["a"])


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "slubviz: interrupted\n"), (signal.SIGTERM, 143, "slubviz: terminated\n")],
)
def test_a_signal_that_a_library_turns_into_another_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], number: int, code: int, said: str
) -> None:
    def half_loaded(_arguments: list[str]) -> int:
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        except BaseException as lost:
            raise ImportError("failed to import") from lost
        return 0

    monkeypatch.setattr(entry, "_run", half_loaded)
    before = signal.getsignal(number)
    assert entry.main([]) == code
    assert capfd.readouterr().err == said
    assert signal.getsignal(number) is before


def test_an_error_without_a_signal_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_arguments: list[str]) -> int:
        raise ImportError("failed to import")

    monkeypatch.setattr(entry, "_run", broken)
    with pytest.raises(ImportError):
        entry.main([])


def test_an_ignored_ctrl_c_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_arguments: list[str]) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return 7

    monkeypatch.setattr(entry, "_run", interrupted)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert entry.main([]) == 7
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_chart_does_not_need_the_backend_that_the_user_chose() -> None:
    program = (
        "from slubviz.model.charts import results_png; from slubviz.model.results import RunRequest;"
        "request = RunRequest('e5345_8p', ('slub',), ('A',), (8,), 10, 1);"
        "from tests.cli.fake_runner import run_cells;"
        "print(results_png(request, run_cells(request))[:4])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "MPLBACKEND": "nonsense"},
        cwd=CHECKOUT,
        capture_output=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (b"b'\\x89PNG'\n", b"")
