"""The commands in this process, on a fake runner: output, exit codes, one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

import slubviz
from slubviz.cli.app import cli
from slubviz.model.errors import UserError
from tests.cli import fake_runner
from tests.cli.conftest import Invoke, Outcome


def assert_one_line_error(outcome: Outcome, code: int, *parts: str) -> None:
    assert outcome.code == code
    assert outcome.out == ""
    assert outcome.err.startswith("slubviz: ")
    assert outcome.err.count("\n") == 1
    for part in parts:
        assert part in outcome.err


def test_version(invoke: Invoke) -> None:
    assert invoke("--version") == Outcome(0, f"slubviz {slubviz.__version__}\n", "")


def test_every_command_has_help_and_every_option_too() -> None:
    with click.Context(cli) as context:
        for name, command in cli.commands.items():
            assert command.get_short_help_str(), name
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert parameter.help, f"{name} {parameter.opts}"
            assert command.get_help(context)


def test_run_prints_cells_errors_and_totals(invoke: Invoke) -> None:
    outcome = invoke("run", "--test", "A,C", "--size", "64", "--ops", "100", "--seed", "3")
    assert (outcome.code, outcome.err) == (0, "")
    words = [line.split() for line in outcome.out.splitlines() if line]
    assert words[0] == "machine e5345_8p, 100 operations per CPU, seed 3".split()
    assert words[1] == "kernel test operation size CPUs cycles/op min CPU max CPU published error".split()
    # slub, A, 64 bytes: 80 + 64/8 + 3 = 91.0 against 129
    assert "slub A kmalloc 64 8 91.0 90.0 92.2 129 -29.5 %".split() in words
    # slub+, C: 0.6 * 91 = 54.6 against 68-72
    assert "slub+ C kmalloc+kfree 64 8 54.6 53.6 55.9 68-72 -19.7 %".split() in words
    assert "slub A 1 29.5 % -29.5 % 64".split() in words
    assert words[-1][:4] == "4 cells, 12000 micro-ops,".split()


def test_the_same_command_prints_the_same_bytes_and_files(invoke: Invoke, tmp_path: Path) -> None:
    def once(folder: str) -> list[object]:
        (tmp_path / folder).mkdir()
        files = {name: tmp_path / folder / name for name in ("csv", "counters", "png")}
        arguments = [word for name, path in files.items() for word in (f"--{name}", str(path))]
        outcome = invoke("run", "--test", "A,D", *arguments)
        return [outcome, *(path.read_bytes() for path in files.values())]

    assert once("first") == once("second")


def test_the_default_is_the_whole_matrix_of_both_kernels(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    assert invoke("run", "--csv", str(path)).code == 0
    rows = path.read_text().splitlines()[1:]
    cells = [tuple(row.split(",")[1:5]) for row in rows]
    expected = [
        (kernel, test, operation, str(size))
        for kernel in ("slub", "slub+")
        for test, operation in fake_runner.OPERATIONS.items()
        for size in fake_runner.SIZES
    ]
    assert cells == expected


def test_json(invoke: Invoke) -> None:
    outcome = invoke(
        "run", "--json", "--test", "A", "--size", "8:16", "--option", "X=1", "--fresh-boot", "-j", "2"
    )
    document = json.loads(outcome.out)
    assert document["request"]["options"] == {"X": 1}
    assert document["request"]["fresh_boot"] is True
    assert document["request"]["jobs"] == 2
    assert [cell["size_bytes"] for cell in document["cells"]] == [8, 16, 8, 16]


def test_kernels_can_be_given_one_by_one(invoke: Invoke) -> None:
    outcome = invoke("run", "--json", "--kernel", "slub+", "--kernel", "slub", "--test", "A", "--size", "8")
    assert [cell["kernel"] for cell in json.loads(outcome.out)["cells"]] == ["slub+", "slub"]


@pytest.mark.parametrize("kind", ["machines", "kernels", "tests"])
def test_list(invoke: Invoke, kind: str) -> None:
    outcome = invoke("list", kind)
    known = getattr(fake_runner, f"known_{kind}")()
    assert [line.split(maxsplit=1) for line in outcome.out.splitlines()] == [
        list(item) for item in known.items()
    ]


def test_list_everything(invoke: Invoke) -> None:
    out = invoke("list").out
    assert [line for line in out.splitlines() if line.endswith(":")] == ["machines:", "kernels:", "tests:"]
    assert "  slub+  SLUB with ten patches\n" in out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("run", "--size", "0"), ("size '0'", "out of range")),
        (("run", "--size", "-8"), ("size '-8'",)),
        (("run", "--size", "99999999999999999999999"), ("out of range",)),
        (("run", "--size", "big"), ("'big'", "not a whole number")),
        (("run", "--ops", "0"), ("--ops '0'", "from 1 to")),
        (("run", "--ops", "many"), ("--ops 'many'",)),
        (("run", "--ops", "999999999"), ("more memory",)),
        (("run", "--seed", "-1"), ("--seed '-1'",)),
        (("run", "--cpus", "0"), ("--cpus '0'", "from 1 to 4096")),
        (("run", "--cpus", "4097"), ("from 1 to 4096",)),
        (("run", "-j", "0"), ("--jobs '0'",)),
        (
            ("run", "--machine", "e5345"),
            ("unknown machine 'e5345'", "did you mean e5345_8p?", "known: e5345_8p, tiny"),
        ),
        (("run", "--kernel", "slob"), ("unknown kernel 'slob'", "known: slub, slub+", ".py file")),
        (("run", "--test", "Z"), ("unknown test 'Z'", "known: A, B, C, D, E, F")),
        (("run", "--option", "X"), ("NAME=NUMBER",)),
        (("run", "--sise", "8"), ("No such option", "--sise")),
        (("run", "--size"), ("--size", "requires an argument")),
        (("run", "extra"), ("extra",)),
        (("rum",), ("No such command", "rum")),
        (("list", "machine"), ("unknown list 'machine'", "did you mean machines?")),
        (("gui", "--theme", "pink"), ("system, light, dark",)),
        (("gui", "--scale", "nan"), ("from 0.5 to 4",)),
        (("run", "--machine", "a\nb" * 100), ("unknown machine",)),
    ],
)
def test_bad_requests_are_one_line_and_exit_2(
    invoke: Invoke, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    assert_one_line_error(invoke(*arguments), 2, *parts)


@pytest.mark.parametrize("option", ["--csv", "--counters", "--png"])
def test_outputs_are_checked_before_the_run(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the run started")

    monkeypatch.setattr(fake_runner, "run_cells", never)
    assert_one_line_error(
        invoke("run", option, str(tmp_path / "no" / "a")), 1, "cannot write", "does not exist"
    )
    assert_one_line_error(invoke("run", option, str(tmp_path)), 1, "it is a folder")


def test_one_file_for_two_outputs(invoke: Invoke, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    assert_one_line_error(invoke("run", "--csv", path, "--png", path), 2, "two outputs")


def test_a_full_disk_still_shows_the_results(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    outcome = invoke("run", "--test", "A", "--csv", "/dev/full", "--counters", str(path))
    assert outcome.code == 1
    assert outcome.err == "slubviz: cannot write '/dev/full': no space left on device\n"
    assert "20 cells" in outcome.out
    assert list(tmp_path.iterdir()) == []


def test_csv_on_standard_output_comes_before_the_table(invoke: Invoke) -> None:
    outcome = invoke("run", "--test", "A", "--size", "8", "--csv", "/dev/stdout")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].startswith("machine,kernel,test,")
    assert lines[1].startswith("e5345_8p,slub,A,")
    assert lines[3] == "machine e5345_8p, 10000 operations per CPU, seed 1"


def test_errors_of_the_run_keep_their_exit_code(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise UserError("mine.py:3:5: division by zero\nin slab_alloc")

    monkeypatch.setattr(fake_runner, "run_cells", fail)
    assert_one_line_error(invoke("run"), 1, "mine.py:3:5: division by zero in slab_alloc")


def test_an_interrupt_is_one_line_and_130(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake_runner, "run_cells", interrupt)
    assert invoke("run", "--csv", str(tmp_path / "a")) == Outcome(130, "", "slubviz: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_a_defect_is_not_hidden(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(fake_runner, "run_cells", defect)
    with pytest.raises(ZeroDivisionError):
        invoke("run")
