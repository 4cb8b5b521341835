"""``slubviz source`` and ``slubviz run --patches``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from slubviz.cli import main

SHORT = ("--test", "A", "--size", "64", "--ops", "30")


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_source_round_trip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my_slub.py"
    path.write_text(output(capsys, "source", "slub+"), encoding="utf-8")
    run = ("run", "--json", *SHORT, "--kernel", f"{path},slub+")
    mine, named = json.loads(output(capsys, *run))["cells"]
    assert (mine["kernel"], named["kernel"]) == ("my_slub", "slub+")
    assert mine["trace_hash"] == named["trace_hash"]
    assert mine["published_low"] is None


def test_source_of_an_unknown_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown kernel 'slubb'; did you mean slub?" in refusal(capsys, "source", "slubb")
    assert "Missing argument" in refusal(capsys, "source")


def test_patches_say_which_in_every_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "runs.csv"
    out = output(capsys, "run", "--patches", "8,6,1", "--csv", str(table), *SHORT)
    assert "slub[1,6,8]" in out
    (row,) = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
    assert (row["kernel"], row["published_low"], row["error_percent"]) == ("slub[1,6,8]", "", "")


def test_patches_in_kernel_names(capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(output(capsys, "run", "--json", "--kernel", "slub[1,6],slub,slub[all]", *SHORT))[
        "cells"
    ]
    assert [cell["kernel"] for cell in cells] == ["slub[1,6]", "slub", "slub[1-10]"]
    assert [cell["published_low"] is None for cell in cells] == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--patches", "8"), "patch 8 needs patch 6"),
        (("--patches", "11"), "there is no patch 11"),
        (("--patches", "1", "--kernel", "slub+"), "kernel slub+ takes no list of patches; give kernel slub"),
        (("--patches", "1", "--kernel", "slab"), "kernel slab takes no list of patches"),
        (("--kernel", "slub[12]"), "there is no patch 12"),
        (("--kernel", "slub-seq", "--option", "SEQUENCE_BITS=40"), "SEQUENCE_BITS goes from 4 to 32, not 40"),
        (("--kernel", "slub", "--option", "PATCH_06=-1"), "PATCH_06 goes from 0 to 1, not -1"),
        (("--kernel", "slub", "--option", "MIN_PARTIAL=-1"), "MIN_PARTIAL goes from 0 to 1000000, not -1"),
        (("--kernel", "slub-bulk", "--option", "BULK=3"), "BULK goes from 0 to 2, not 3"),
        (("--kernel", "slab", "--option", "HZ=0"), "HZ goes from 1 to 10000, not 0"),
        (("--machine", "p4_3ghz_up", "--cpus", "2"), "cpus must be 1, not 2: p4_3ghz_up runs a kernel"),
        (("--seed", "5", "--seeds", "1-2"), "--seed and --seeds are both given: give one of them"),
    ],
)
def test_refusals(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refusal(capsys, "run", *arguments, *SHORT)


def test_the_list_tells_known_faults(capsys: pytest.CaptureFixture[str]) -> None:
    lines = output(capsys, "list", "kernels").splitlines()
    (line,) = [line for line in lines if line.startswith("slub+ ")]
    assert "Known fault:" in line
    assert "ABA" in line
