"""``slubviz calibrate``: what it refuses, prints and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slubviz.cli import main
from slubviz.hw.machine_file import parse_machine
from slubviz.model.machines import machine_files

MACHINE = machine_files()["e5345_8p"]


def own_machine(folder: Path, calibrated: tuple[str, ...]) -> Path:
    """A copy of a machine file in which just these costs are marked."""
    lines, section = [], ""
    for line in MACHINE.read_text(encoding="utf-8").splitlines():
        if line.startswith("calibrated"):
            continue
        lines.append(line)
        if line.startswith("[cost."):
            section = line.removeprefix("[cost.").rstrip("]")
        if line.startswith("value") and section in calibrated:
            lines.append("calibrated = true")
    path = folder / "own.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--machine", "vax"), "unknown machine 'vax'"),
        (("--fit", "Q"), "unknown test 'Q'"),
        (("--kernel", "slib"), "unknown kernel with published values: 'slib'"),
        (("--kernel", "slub-seq"), "unknown kernel with published values: 'slub-seq'"),
        (("--evaluations", "1"), "--evaluations '1' must be a whole number from 2"),
        (("--evaluations", "3"), "3 evaluations are too few for"),
        (("--ops", "-1"), "--ops '-1' must be a whole number"),
        (("--seeds", "x"), "--seeds"),
        (("--weights", "rows"), "unknown value of --weights: 'rows'"),
        (("--start", "here"), "unknown value of --start: 'here'"),
        (("-j", "x"), "--jobs 'x' must be a whole number"),
        (("--write", "/no/such/folder/x.toml"), "the folder '/no/such/folder' does not exist"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["calibrate", *arguments])
    out, err = capfd.readouterr()
    assert code != 0
    assert out == ""
    assert err.startswith("slubviz: ")
    assert err.count("\n") == 1
    assert text in err


def test_machines_that_cannot_be_fitted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    none = own_machine(tmp_path, ())
    assert main(["calibrate", "--machine", str(none)]) == 2
    assert "marks no cost as calibrated" in capfd.readouterr().err
    text = none.read_text(encoding="utf-8").replace('name = "e5345_8p"', 'name = "own"')
    none.write_text(text, encoding="utf-8")
    assert main(["calibrate", "--machine", str(none)]) == 2
    assert "nothing is published for machine own" in capfd.readouterr().err


def test_a_fit_is_printed_and_a_copy_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = own_machine(tmp_path, ("instruction", "irq_save"))
    original = path.read_bytes()
    written = tmp_path / "fitted.toml"
    command = ["calibrate", "--machine", str(path), "--fit", "C", "--kernel", "slub,slub+", "--ops", "50"]
    assert main([*command, "--evaluations", "12", "-j", "2", "--write", str(written)]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("machine e5345_8p: 2 parameters fitted to 2 cells")
    assert "absolute error in percent" in out
    assert err.startswith("evaluation 4: loss ")
    assert path.read_bytes() == original
    before = parse_machine(original.decode(), "before")
    after = parse_machine(written.read_text(encoding="utf-8"), "after")
    changed = {name for name, cost in after.costs.items() if cost.value != before.costs[name].value}
    assert changed
    assert changed <= {"instruction", "irq_save"}
    assert main([*command, "--evaluations", "12", "-j", "1", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    fitted = {entry["name"]: entry["fitted"] for entry in document["parameters"]}
    for name, value in fitted.items():
        assert after.costs[name].value == pytest.approx(value, rel=1e-3)
    assert document["hold_outs"] == []


def test_a_hold_out_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = own_machine(tmp_path, ("instruction",))
    command = ["calibrate", "--machine", str(path), "--fit", "C,E", "--kernel", "slab,slub", "--ops", "30"]
    assert main([*command, "--evaluations", "6", "-j", "2", "--hold-out"]) == 0
    out = capfd.readouterr().out
    assert "hold-out without tests E and F, from the middle of the ranges: 2 cells fitted" in out
    assert "hold-out without SLAB, from the middle of the ranges: 2 cells fitted" in out
    command[command.index("slab,slub")] = "slub"
    assert main([*command, "--fit", "C", "--evaluations", "6", "--hold-out"]) == 2
    assert "--hold-out needs cells" in capfd.readouterr().err
