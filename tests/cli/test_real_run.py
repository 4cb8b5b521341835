"""The command line on the real simulator: short runs, same bytes, right counts."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from slubviz.cli import main


def run(folder: Path, *arguments: str) -> dict[str, bytes]:
    folder.mkdir()
    files = {name: folder / name for name in ("csv", "counters", "png")}
    outputs = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    assert main(["run", *arguments, *outputs]) == 0
    return {name: path.read_bytes() for name, path in files.items()}


def test_the_same_command_gives_the_same_bytes_with_any_number_of_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--test", "A,D,F", "--size", "64,2048", "--ops", "300", "--seed", "7")
    first = run(tmp_path / "first", *arguments)
    first_table = capsys.readouterr()
    assert run(tmp_path / "again", *arguments) == first
    assert capsys.readouterr() == first_table
    assert run(tmp_path / "jobs", *arguments, "-j", "2") == first
    assert capsys.readouterr() == first_table
    assert first_table.err == ""


def test_the_counts_of_test_a_are_exact(tmp_path: Path) -> None:
    # 64 objects of 64 bytes fill a page: 1,000 objects take 16 slabs, each taken on the slow path.
    files = run(tmp_path / "out", "--kernel", "slub", "--test", "A", "--size", "64", "--ops", "1000")
    rows = csv.DictReader(files["counters"].decode().splitlines())
    counters = {row["counter"]: int(row["value"]) for row in rows}
    assert counters["ALLOC_SLAB"] == 16
    assert counters["ALLOC_SLOWPATH"] == 16
    assert counters["ALLOC_FASTPATH"] == 1000 - 16


def test_test_f_is_the_time_of_all_frees_over_the_operations_of_one_cpu(tmp_path: Path) -> None:
    arguments = ("--kernel", "slub", "--test", "B,F", "--size", "64", "--ops", "500")
    rows = {
        row["test"]: row
        for row in csv.DictReader(run(tmp_path / "out", *arguments)["csv"].decode().splitlines())
    }
    # Seven CPUs' objects are freed, each free dearer than that of a local object: at least seven times B.
    assert float(rows["F"]["cycles_per_op"]) > 7 * float(rows["B"]["cycles_per_op"])


def test_a_published_cell_carries_its_value_and_error(tmp_path: Path) -> None:
    files = run(tmp_path / "out", "--kernel", "slub+", "--test", "A", "--size", "96,64", "--ops", "200")
    small, odd = csv.DictReader(files["csv"].decode().splitlines())
    assert (small["size_bytes"], small["published_low"], small["published_high"]) == ("64", "82.0", "82.0")
    expected = (float(small["cycles_per_op"]) - 82) / 82 * 100
    assert float(small["error_percent"]) == pytest.approx(expected, abs=0.12)
    assert (odd["size_bytes"], odd["published_low"], odd["error_percent"]) == ("96", "", "")
