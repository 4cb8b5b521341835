"""A wheel, installed into an environment of its own, finds its assets and programs; a checkout too."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from slubviz.model.assets import asset, assets_folder, program_folder
from slubviz.model.errors import UserError

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it and this one's dependencies behind it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            str(wheel),
        ],
        check=True,
        capture_output=True,
    )
    (site,) = folder.glob("lib/python*/site-packages")
    # A .pth file adds plain folders only: an editable installation of this checkout stays out of reach.
    paths = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths))
    return folder


def run(environment: Path, *command: str) -> str:
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(
        [str(environment / "bin" / command[0]), *command[1:]],
        cwd=environment,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def relative_files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_all_assets_and_programs_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"slubviz/_assets/{name}" for name in relative_files(CHECKOUT / "assets")} <= names
    assert "slubviz/_assets/published/lameter_2007_tests_A-F.csv" in names
    for kind in ("allocators", "workloads"):
        folder = CHECKOUT / "slubviz" / "model" / kind
        assert {f"slubviz/model/{kind}/{name}" for name in relative_files(folder)} <= names
    assert not [
        name for name in names if name.split("/")[0] not in ("slubviz",) and ".dist-info/" not in name
    ]
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]


def test_the_installed_command_uses_the_installed_files(environment: Path) -> None:
    program = (
        "import slubviz; from slubviz.model.assets import assets_folder, program_folder;"
        "from slubviz.model.published import lookup;"
        "print(slubviz.__file__, assets_folder(), program_folder('allocators'), sep='\\n');"
        "print(lookup('e5345_8p', 'A', 'slub', 8))"
    )
    package, assets, programs, published = run(environment, "python", "-c", program).splitlines()
    for path in (package, assets, programs):
        assert Path(path).is_relative_to(environment)
    assert published == "(86.0, 86.0)"


def test_the_installed_command_runs(environment: Path) -> None:
    assert run(environment, "slubviz", "--version") == run(
        environment, "python", "-m", "slubviz", "--version"
    )
    assert "e5345_8p" in run(environment, "slubviz", "list", "machines")


def test_a_checkout_uses_its_own_files() -> None:
    assert assets_folder() == CHECKOUT / "assets"
    assert program_folder("workloads") == CHECKOUT / "slubviz" / "model" / "workloads"


def test_a_missing_asset_is_told_in_one_line() -> None:
    with pytest.raises(UserError, match=r"machines/none\.toml is missing"):
        asset("machines", "none.toml")


# How many numbers each table of the mails has.
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("lameter_2007_tests_A-F.csv", 318),
        ("lameter_2007_verdicts.csv", 92),
        ("desnoyers_2007_irq_vs_cmpxchg.csv", 4),
        ("desnoyers_2008_p4_up.csv", 72),
        ("kim_2012_unfreeze_partials.csv", 11),
        ("brouer_2015_bulk_free_i7-4790k.csv", 14),
    ],
)
def test_published_tables_are_whole(name: str, rows: int) -> None:
    with asset("published", name).open(newline="") as file:
        table = list(csv.reader(file))
    assert len(table) == rows + 1
    assert {len(row) for row in table} == {len(table[0])}


def test_every_dependency_has_both_bounds_and_a_reason() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    lines = [line.strip() for line in text.splitlines()]
    for requirement in project["dependencies"] + project["optional-dependencies"]["dev"]:
        assert ">=" in requirement
        assert ",<" in requirement
        index = next(number for number, line in enumerate(lines) if line.startswith(f'"{requirement}"'))
        assert lines[index - 1].startswith(("#", '"PySide6'))


def test_qt_is_capped_where_it_would_abort() -> None:
    from packaging.requirements import Requirement

    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    qt = [r for r in map(Requirement, project["dependencies"]) if r.name == "PySide6-Essentials"]
    for python, allowed in (("3.11", False), ("3.12", True), ("3.13", True)):
        (requirement,) = [r for r in qt if r.marker is None or r.marker.evaluate({"python_version": python})]
        assert requirement.specifier.contains("6.12.0") is allowed
        assert requirement.specifier.contains("6.11.3")
