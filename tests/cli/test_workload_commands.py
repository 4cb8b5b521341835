"""The command line of the workloads: points, seeds, statistics, lists."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from slubviz.cli import main
from slubviz.cli.listing import describe
from slubviz.model.plan import WORKLOADS
from tests.cli.conftest import Invoke


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out.splitlines()


def test_bulk_has_a_column_for_n_and_no_size_swept_one_has(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("run", "--ops", "100", "--kernel", "slub-bulk")
    lines = lines_of(capsys, *common, "--test", "bulk", "--objects", "2,32")
    assert lines[1].split()[:6] == ["kernel", "test", "operation", "size", "N", "CPUs"]
    assert [line.split()[2:5] for line in lines if line.startswith("slub-bulk")] == [
        ["alloc+free", "256", "2"],
        ["alloc+free", "256", "32"],
    ]
    lines = lines_of(capsys, *common, "--test", "irq-cmpxchg", "--option", "LOOPS=10")
    assert lines[1].split()[3:5] == ["size", "CPUs"]
    assert [line.split()[2:4] for line in lines if line.startswith("slub-bulk")] == [
        ["cmpxchg_local", "-"],
        ["irq_restore", "-"],
        ["irq_save", "-"],
    ]


def test_seeds_give_mean_and_spread_with_any_number_of_threads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "--kernel", "slub", "--test", "hackbench", "--ops", "20", "--seeds", "1-3"]

    def outcome(name: str, *more: str) -> tuple[str, bytes, bytes]:
        files = [tmp_path / f"{name}.{kind}" for kind in ("runs", "counters")]
        assert main([*arguments, *more, "--csv", str(files[0]), "--counters", str(files[1])]) == 0
        return capsys.readouterr().out, *(file.read_bytes() for file in files)  # type: ignore[return-value]

    table, runs, counters = outcome("one")
    assert outcome("two", "-j", "2") == (table, runs, counters)
    assert table.startswith("machine e5345_8p, 20 operations per CPU, seeds 1-3\n")
    assert table.splitlines()[1].split()[-7:] == "sd min seed max seed published error".split()
    (row,) = csv.DictReader(runs.decode().splitlines())
    assert row["seeds"] == "3"
    mean, low, high = (float(row[f"cycles_per_op{end}"]) for end in ("", "_min_seed", "_max_seed"))
    assert low < mean < high
    seeds = [row["seed"] for row in csv.DictReader(counters.decode().splitlines())]
    assert list(dict.fromkeys(seeds)) == ["1", "2", "3"]
    singles = []
    for seed in (1, 2, 3):
        path = tmp_path / f"{seed}.csv"
        assert main([*arguments[:-2], "--seed", str(seed), "--csv", str(path)]) == 0
        singles.append(float(next(csv.DictReader(path.read_text().splitlines()))["cycles_per_op"]))
    assert (min(singles), max(singles)) == (low, high)


def test_slabinfo_prints_a_report_for_each_cell(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("run", "--kernel", "slub-cpu-partial,slub", "--test", "hackbench", "--ops", "30")
    plain = lines_of(capsys, *arguments)
    lines = lines_of(capsys, *arguments, "--slabinfo")
    assert lines[: len(plain)] == plain
    report = lines[len(plain) :]
    assert [line for line in report if "message" in line] == [
        "slub-cpu-partial, hackbench message 256",
        "slub, hackbench message 256",
    ]
    assert report.count("Slabcache: kmalloc-256") == 2
    assert sum(line.startswith("Locked Cmpxchg Double redos") for line in report) == 1  # the later kernel


def test_slabinfo_says_where_there_is_nothing_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("run", "--kernel", "slub", "--test", "A,B", "--size", "64", "--ops", "30", "--cpus", "1")
    out = "\n".join(lines_of(capsys, *arguments, "--slabinfo"))
    _, allocated, freed = out.split("Slabcache: kmalloc-64\n")
    assert freed.strip() == "(no statistics to print: nothing was allocated from slabs in this cell)"
    assert "Slab Perf Counter" in allocated
    assert "no statistics" not in allocated


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--kernel", "slab", "--slabinfo"), "kernel slab keeps no statistics of SLUB"),
        (("--slabinfo", "--json"), "--slabinfo prints text and --json does not"),
        (("--kernel", "slub", "--test", "bulk"), "kernels that have them: slub-cpu-partial"),
        (("--test", "A", "--objects", "4"), "--objects has no meaning for test A"),
        (("--seeds", "4-1"), "write 1-4"),
        (("--objects", "x"), "--objects 'x'"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], part: str) -> None:
    assert main(["run", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert part in captured.err


def test_all_tests_are_those_that_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(
        capsys,
        "run",
        "--kernel",
        "slub",
        "--cpus",
        "1",
        "--test",
        "all",
        "--ops",
        "20",
        "--option",
        "LOOPS=5",
    )
    ran = list(dict.fromkeys(line.split()[1] for line in lines if line.startswith("slub ")))
    assert [name for name in ran if name in WORKLOADS] == [
        name for name in WORKLOADS if name not in ("F", "bulk")
    ]


def test_list_tells_all_about_a_test(invoke: Invoke) -> None:
    out = invoke("list", "BULK").out
    assert out == describe(WORKLOADS["bulk"])
    assert "--objects, objects per call: 1, 2, 3" in out
    assert "  MERGE=1 " in out
    assert "bytes: powers of two from 8 to 4 pages" in invoke("list", "kmalloc-kfree").out
    outcome = invoke("list", "hackbanch")
    assert (outcome.code, outcome.out) == (2, "")
    assert "unknown list 'hackbanch'; did you mean hackbench?" in outcome.err
