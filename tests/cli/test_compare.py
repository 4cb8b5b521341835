"""``slubviz compare``: what it refuses, prints and writes, and how it ends."""

from __future__ import annotations

import csv
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slubviz.cli import main
from slubviz.cli.compare_tables import print_comparison
from slubviz.model.compare import ComparedCell, CompareRequest, Comparison
from slubviz.model.compare_redos import RedoComparison
from slubviz.model.compare_table import Skipped, published_cells
from tests.cli.conftest import CHECKOUT

SMALL = ("compare", "--machine", "e5345_8p", "--kernel", "slab,slub+", "--test", "A,C", "--ops", "30")
LONG = (
    "compare",
    "--machine",
    "e5345_8p",
    "--kernel",
    "slub,slub+",
    "--test",
    "D",
    "-j",
    "2",
    "--ops",
    "200000",
)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--machine", "e5345"), "unknown machine 'e5345'; did you mean e5345_8p?"),
        (("--machine", "e5345_8p", "--kernel", "slip"), "unknown kernel with published values: 'slip'"),
        (("--kernel", ""), "--kernel"),
        (("--test", "Q"), "unknown test 'Q'"),
        (("--test", "F-A"), "runs backwards"),
        (("--ops", "0"), "--ops '0' must be a whole number"),
        (("--ops", "many"), "--ops 'many' must be a whole number"),
        (("--seeds", "5-1"), "--seeds"),
        (("-j", "0"), "--jobs '0' must be a whole number"),
        (("--machine", "amd64", "--test", "A"), "nothing can be compared: nothing is published for it"),
        (("--csv", "/no/such/folder/x.csv"), "the folder '/no/such/folder' does not exist"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["compare", *arguments])
    out, err = capfd.readouterr()
    assert code != 0
    assert out == ""
    assert err.startswith("slubviz: ")
    assert err.count("\n") == 1
    assert text in err


def test_a_machine_file_without_published_values(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = (CHECKOUT / "assets/machines/e5345_8p.toml").read_text(encoding="utf-8")
    path = tmp_path / "own.toml"
    path.write_text(text.replace('name = "e5345_8p"', 'name = "own"'), encoding="utf-8")
    assert main(["compare", "--machine", str(path)]) == 2
    assert "unknown machine with published values: 'own'" in capfd.readouterr().err


def test_tables_files_and_progress(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table, picture = tmp_path / "cells.csv", tmp_path / "errors.png"
    assert main([*SMALL, "-j", "2", "--csv", str(table), "--png", str(picture)]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("machine e5345_8p, 30 operations per CPU, seed 1\n")
    assert "test A, kmalloc" in out
    assert "published for all sizes at once" in out
    assert "winner, slab or slub+: as the author has it in" in out
    assert "E5345, tests A to F" in out
    assert "not all was run" in out
    assert "40 of 40 cells" in err  # both kernels, tests A and C, ten sizes
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 2 * 11
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main([*SMALL, "-j", "1"]) == 0
    assert capfd.readouterr().out == out  # processes change nothing


def test_json(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--test", "C", "--seeds", "1-2", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [(cell["kernel"], len(cell["samples"])) for cell in document["cells"]] == [
        ("slab", 2),
        ("slub+", 2),
    ]
    assert document["request"]["seeds"] == [1, 2]


def test_every_table_of_a_full_comparison(capfd: pytest.CaptureFixture[str]) -> None:
    cells = tuple(
        ComparedCell(c.key, c.low, c.high, (c.low * 1.1, c.low * 1.3), c.low, c.high)
        for c in published_cells()
    )
    redos = RedoComparison((200, 220), (190, 215), 182685, 177995)
    skipped = (Skipped("there is no kernel slob", 3),)
    print_comparison(Comparison(CompareRequest(seeds=(1, 2)), cells, 424, skipped, redos))
    out = capfd.readouterr().out
    assert "…" not in out  # nothing was cut to fit
    assert max(map(len, out.splitlines())) <= 160
    # A at 8 bytes: SLAB 96 published, 105.6 and 124.8 simulated.
    row = next(line for line in out.splitlines() if line.split()[:1] == ["8"])
    assert row.split()[:5] == ["8", "115.2", "±13.6", "96", "+20.0"]
    assert "182685" in out
    assert "after less before: -7.5, standard error 2.5; fewer with 2 seeds" in out
    assert "left out: 3 cells, because there is no kernel slob" in out


# --- a process of its own -----------------------------------------------------------------------------


def children_of(pid: int) -> set[int]:
    """Ids of a process's children."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, process: subprocess.Popen[bytes], seconds: float = 60) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)


def start_long(**popen) -> subprocess.Popen[bytes]:  # type: ignore[no-untyped-def]
    return subprocess.Popen([sys.executable, "-m", "slubviz", *LONG], cwd=CHECKOUT, **popen)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 130, b"slubviz: interrupted\n"),
        (signal.SIGTERM, 143, b"slubviz: terminated\n"),
    ],
)
@pytest.mark.parametrize("when", ["starting", "running"])
def test_a_signal_ends_every_process_at_once(when: str, number: int, code: int, line: bytes) -> None:
    process = start_long(stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    wait_until(lambda: len(children_of(process.pid)) == (1 if when == "starting" else 2), process)
    if when == "running":
        time.sleep(1.0)
    children = children_of(process.pid)
    os.killpg(process.pid, number)  # to every process of the group, as a terminal does
    stdout, stderr = process.communicate(timeout=10)
    assert (process.returncode, stdout, stderr) == (code, b"", line)
    assert children
    assert not any(is_alive(child) for child in children)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_workers_end_when_their_parent_is_killed() -> None:
    process = start_long(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(children_of(process.pid)) == 2, process)
    children = children_of(process.pid)
    time.sleep(1.0)
    process.kill()
    process.wait()
    end = time.monotonic() + 60
    while any(is_alive(child) for child in children):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_terminal_sees_errors_while_it_runs(tmp_path: Path) -> None:
    parent, child = pty.openpty()
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "slubviz", *SMALL, "--ops", "2000"],
            cwd=CHECKOUT,
            stdout=out,
            stderr=child,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(parent)
    assert process.wait() == 0
    assert b"cells" in shown
    assert b" s\r\n" in shown  # how long it took, at the end
    assert b"machine e5345_8p" in (tmp_path / "out").read_bytes()
