"""``slubviz replay`` and ``slubviz run --record`` on the real simulator: what is printed, exit codes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slubviz.cli import main
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.travel.bookmarks import add_bookmark
from slubviz.model.travel.changes import Inject
from slubviz.model.travel.recording import Recording
from slubviz.model.travel.session_file import SessionExtras, load_session, save_session

SPEC = SessionSpec("e5345_8p", "slub", "D", (64,), ops=20, seed=3, cpus=2, options={"MIN_PARTIAL": 3})

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """The command in this process: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recording]:
    """A session on branch 1, inside an interrupt, and its file."""
    recording = Recording(Session(SPEC), budget_bytes=16 << 20)
    recording.boot()
    recording.run(4_000)
    recording.seek(3_000)
    recording.change(Inject(0, "irq_alloc", (64,)))
    while recording.session.machine.cpu_blocks()[0][12] == 0:  # the interrupt depth
        recording.step()
    add_bookmark(recording.bookmarks, 1, recording.position, "inside", "CPU 0 is\nin a handler")
    recording.rename(1, "with an interrupt")
    path = tmp_path_factory.mktemp("sessions") / "talk.slubviz"
    save_session(recording, path, SessionExtras(("slab_alloc",), ("page(812).inuse",)))
    return path, recording


def test_the_cursor_is_printed_with_stacks_branches_and_bookmarks(
    saved: tuple[Path, Recording], call: Call
) -> None:
    path, recording = saved
    code, out, err = call("replay", str(path))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == (
        "machine e5345_8p with 2 CPUs, kernel slub, test D, 20 operations per CPU, seed 3, MIN_PARTIAL=3"
    )
    assert lines[1] == "the same run as the saved one: every hash agrees"
    assert lines[2].startswith(f"branch 1, micro-op {recording.position:,}, cycle ")
    assert lines[2].endswith(": test D, kmalloc of 64 bytes (phase 1 of 2)")
    stack = lines[lines.index("CPUs:") :]
    assert stack[1].startswith("  CPU 0 on node 0: running, cycle ")
    assert "    test_alloc (tests_a_to_f.py:42)" in stack
    handler = next(line for line in stack if "interrupt: irq_alloc (interrupt_handlers.py:" in line)
    assert handler.startswith("      interrupt")  # deeper than what it interrupts
    assert "  0 main, until micro-op 4,000" in lines
    where = f"from branch 0 at micro-op 3,000, until micro-op {recording.position:,}"
    assert f"  1 with an interrupt, {where}" in lines
    assert "    3,000: interrupt on CPU 0: irq_alloc(64)" in lines
    assert lines[lines.index("bookmarks:") + 1 :][:3] == [
        f"  inside: branch 1, micro-op {recording.position:,}",
        "    CPU 0 is",
        "    in a handler",
    ]
    assert lines[lines.index("breakpoints:") + 1] == "  slab_alloc"
    assert lines[lines.index("watches:") + 1] == "  page(812).inuse"
    assert call("replay", str(path)) == (code, out, err)


def test_json_says_the_same_to_programs(saved: tuple[Path, Recording], call: Call) -> None:
    path, recording = saved
    code, out, _ = call("replay", str(path), "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    assert found["same_run"] is True
    assert found["mismatch"] is None
    assert (found["branch"], found["position"]) == (1, recording.position)
    assert found["trace_hash"] == f"{recording.trace_hash & 0xFFFFFFFFFFFFFFFF:016x}"
    picture = recording.session.snapshot()
    for cpu, view in zip(found["cpus"], picture.cpus, strict=True):
        assert [frame["function"] for frame in cpu["call_stack"]] == [f.function for f in view.frames]
        assert cpu["clock_cycles"] == view.clock_cycles
        assert cpu["interrupt_depth"] == view.interrupt_depth
    assert [lock["holder"] for lock in found["locks"]] == [lock.holder for lock in picture.locks]
    assert found["branches"][1]["changes"] == [
        {"position": 3000, "text": "interrupt on CPU 0: irq_alloc(64)"}
    ]
    assert found["bookmarks"][0]["name"] == "inside"


def test_another_position_can_be_asked_for(saved: tuple[Path, Recording], call: Call) -> None:
    path, recording = saved
    code, out, _ = call("replay", str(path), "--to", "3000", "--json")
    assert code == 0
    found = json.loads(out)
    recording.seek(3000)
    assert found["position"] == 3000
    assert found["trace_hash"] == f"{recording.trace_hash & 0xFFFFFFFFFFFFFFFF:016x}"
    code, out, err = call("replay", str(path), "--to", "1000000000")
    assert (code, out) == (2, "")
    assert "the run ends at micro-op " in err
    assert call("replay", str(path), "--to", "-1")[0] == 2
    assert call("replay", str(path), "--to", "x")[2].startswith("slubviz: --to 'x' must be a whole number")


def test_results_are_written_as_csv(saved: tuple[Path, Recording], call: Call, tmp_path: Path) -> None:
    path, _ = saved
    plain = Session(SPEC)
    plain.boot()
    end = 0
    while not plain.finished:
        plain.run(1 << 30)
        end = plain.machine.micro_ops
    target = tmp_path / "cells.csv"
    assert call("replay", str(path), "--csv", str(target))[0] == 0
    assert len(target.read_text().splitlines()) == 1  # nothing is measured until the cursor
    record = tmp_path / "whole.slubviz"
    recording = Recording(Session(SPEC), budget_bytes=16 << 20)
    recording.boot()
    save_session(recording, record)
    assert call("replay", str(record), "--to", str(end), "--csv", str(target))[0] == 0
    rows = list(csv.DictReader(target.read_text().splitlines()))
    assert [row["cycles_per_op"] for row in rows] == [f"{cell.cycles_per_op:.1f}" for cell in plain.results]
    code, _, err = call("replay", str(path), "--csv", str(tmp_path / "none" / "x.csv"))
    assert code == 1
    assert "none" in err


def test_another_run_ends_with_1_and_says_why(
    saved: tuple[Path, Recording], call: Call, tmp_path: Path
) -> None:
    document = json.loads(saved[0].read_text(encoding="utf-8"))
    document["workload"]["seed"] = 4
    path = tmp_path / "other.slubviz"
    path.write_text(json.dumps(document), encoding="utf-8")
    code, out, err = call("replay", str(path))
    assert (code, err) == (1, "")
    assert out.splitlines()[1].startswith("this is not the run that was saved: at the end of branch 0, ")
    code, out, _ = call("replay", str(path), "--json")
    assert code == 1
    assert json.loads(out)["same_run"] is False


def test_a_wrong_file_is_told_in_one_line(saved: tuple[Path, Recording], call: Call, tmp_path: Path) -> None:
    document = json.loads(saved[0].read_text(encoding="utf-8"))
    document["branches"][1]["changes"][0]["cpu"] = 9
    path = tmp_path / "wrong.slubviz"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert call("replay", str(path)) == (
        1,
        "",
        f"slubviz: '{path}': branches[1].changes[0].cpu: 9 does not exist; the machine has CPUs 0 to 1\n",
    )
    code, _, err = call("replay", str(tmp_path / "none.slubviz"))
    assert code == 1
    assert err == f"slubviz: '{tmp_path}/none.slubviz': cannot be read: no such file or directory\n"


def test_run_can_record_its_first_boot(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "run.slubviz"
    arguments = ("--kernel", "slub", "--test", "A,C", "--size", "64,128", "--ops", "50", "--cpus", "2")
    code, out, _ = call("run", *arguments, "--record", str(path), "--json")
    assert code == 0
    cells = json.loads(out)["cells"]
    loaded = load_session(path)
    assert loaded.mismatch is None
    assert loaded.recording.position == 0
    loaded.recording.seek(loaded.recording.end)
    assert loaded.recording.session.finished
    found = [
        (cell.test, cell.size_bytes, f"{cell.cycles_per_op:.3f}") for cell in loaded.recording.session.results
    ]
    assert found == [
        (cell["test"], cell["size_bytes"], f"{cell['cycles_per_op']:.3f}")
        for cell in cells
        if cell["test"] == "A"
    ]
    assert len(found) == 2
    assert call("run", *arguments, "--record", str(tmp_path / "none" / "x"))[0] == 1


def test_help_does_not_load_the_engine() -> None:
    text = "import sys, slubviz.cli as c; c.main(['replay', '-h']); assert 'numba' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_results_never_take_the_place_of_the_session(
    saved: tuple[Path, Recording], call: Call, tmp_path: Path
) -> None:
    path, before = saved[0], saved[0].read_bytes()
    (tmp_path / "link").symlink_to(path)
    for target in (path, tmp_path / "link"):
        assert call("replay", str(path), "--csv", str(target)) == (
            2,
            "",
            f"slubviz: {str(target)!r} is read here: give another file to write\n",
        )
    assert path.read_bytes() == before
