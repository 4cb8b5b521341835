"""What only a process of its own shows: signals, pipes, full disks, closed streams, terminals."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Start, wait_for


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 130, b"slubviz: interrupted\n"),
        (signal.SIGTERM, 143, b"slubviz: terminated\n"),
    ],
)
def test_a_signal_in_a_run(start: Start, tmp_path: Path, number: int, code: int, line: bytes) -> None:
    started, out = tmp_path / "started", tmp_path / "out"
    out.mkdir()
    (out / "runs.csv").write_bytes(b"old")
    process = start(
        "run",
        "--csv",
        str(out / "runs.csv"),
        "--png",
        str(out / "runs.png"),
        environment={"FAKE_SLEEP_SECONDS": "60", "FAKE_STARTED": str(started)},
    )
    wait_for(started, process)
    process.send_signal(number)
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (code, b"", line)
    assert [path.name for path in out.iterdir()] == ["runs.csv"]
    assert (out / "runs.csv").read_bytes() == b"old"


def test_a_reader_that_leaves(start: Start, tmp_path: Path) -> None:
    # Far more than a pipe holds, so that the writer meets the closed end.
    process = start(
        "run", "--json", "--size", ",".join(map(str, range(1, 400))), "--csv", str(tmp_path / "a.csv")
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    assert (tmp_path / "a.csv").read_bytes().count(b"\n") == 1 + 2 * 6 * 399
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("run",), ("run", "--json"), ("list",), ("--version",), ("--help",)])
def test_a_full_standard_output(start: Start, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        process = start(*arguments, stdout=full)
        _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr == b"slubviz: cannot write to standard output: no space left on device\n"


def test_closed_standard_streams(tmp_path: Path) -> None:
    program = (
        f'exec "{sys.executable}" -m tests.cli.fake_runner run --test A --csv "{tmp_path}/a.csv" >&- 2>&-'
    )
    assert subprocess.run(["sh", "-c", program], check=False).returncode == 0
    assert (tmp_path / "a.csv").stat().st_size > 0


def test_a_run_into_a_file_that_is_also_its_csv(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "all"
    with path.open("wb") as file:
        process = start("run", "--test", "A", "--csv", str(path), stdout=file)
        process.communicate()
    assert process.returncode == 0
    text = path.read_text()
    assert text.startswith("machine,kernel,")
    assert "20 cells" in text


def test_nothing_but_results_in_a_pipe(start: Start) -> None:
    process = start("run", "--test", "A", environment={"LC_ALL": "C", "COLUMNS": "20"})
    narrow, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, b"")
    wide, _ = start("run", "--test", "A", environment={"COLUMNS": "300"}).communicate()
    assert narrow == wide
    assert b"\x1b" not in narrow


def test_a_terminal_without_unicode_gets_plain_rules(start: Start) -> None:
    stdout, stderr = start("list", "kernels", environment={"PYTHONIOENCODING": "ascii"}).communicate()
    assert b"slub+" in stdout
    stdout, stderr = start("run", "--test", "A", environment={"PYTHONIOENCODING": "ascii"}).communicate()
    assert stderr == b""
    assert b"20 cells" in stdout


def read_all(descriptor: int, process: subprocess.Popen[bytes]) -> bytes:
    data = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], 0.1)
        try:
            part = os.read(descriptor, 65536) if ready else b""
        except OSError:  # the other side has closed
            part = b""
        data += part
        if not part and process.poll() is not None:
            return data


def test_a_terminal_gets_a_progress_bar_and_the_wall_time(start: Start, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = start(
        "run",
        "--test",
        "A",
        "--csv",
        str(tmp_path / "a.csv"),
        stderr=theirs,
        environment={"FAKE_SLEEP_SECONDS": "0.02", "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    shown = read_all(ours, process).decode()
    os.close(ours)
    assert "cells" in shown
    assert "slub test A" in shown
    assert "million micro-ops/s" in shown
    assert f"wrote {tmp_path / 'a.csv'}" in shown
    assert process.stdout is not None
    assert b"million" not in process.stdout.read()
    process.stdout.close()


def test_the_module_is_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "slubviz", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("slubviz ")
