"""Imports point down only, and everything below the views works where Qt is not installed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "slubviz"
QT = {"PySide6", "shiboken6", "pyqtgraph"}
#: Programs in the kernel language: never imported.
PROGRAM_FOLDERS = (PACKAGE / "model" / "allocators", PACKAGE / "model" / "workloads")


def python_files(*folders: str) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (PACKAGE / folder).rglob("*.py")
        if not any(path.is_relative_to(programs) for programs in PROGRAM_FOLDERS)
    )


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_there_is_something_to_check() -> None:
    assert len(python_files("hw", "model", "cli")) > 10
    assert any(name.startswith("PySide6") for path in python_files("views") for name in imported(path))


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("hw", ("slubviz.model", "slubviz.views", "slubviz.cli")),
        ("model", ("slubviz.views", "slubviz.cli")),
        ("views", ("slubviz.cli",)),
    ],
)
def test_imports_point_down(folder: str, forbidden: tuple[str, ...]) -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in python_files(folder)
        for name in imported(path)
        if name.startswith(forbidden)
    ]
    assert wrong == []


def test_nothing_below_the_views_names_qt() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in python_files("hw", "model")
        for name in imported(path)
        if name.split(".")[0] in QT
    ]
    assert wrong == []


def test_everything_below_the_views_imports_without_qt() -> None:
    modules = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in python_files("hw", "model", "cli")
    ]
    program = f"""
import importlib, sys
for name in {sorted(QT)!r}:
    sys.modules[name] = None  # an import of it fails
for name in {modules!r}:
    importlib.import_module(name)
print(len({modules!r}), "imported")
"""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{len(modules)} imported\n"


def test_the_command_line_loads_neither_numba_nor_matplotlib_for_help() -> None:
    program = (
        "import sys; from slubviz.cli import main; main(['run', '--help']);"
        "print([m for m in ('numba', 'numpy', 'matplotlib', 'PySide6') if m in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert result.stderr == "[]\n"
