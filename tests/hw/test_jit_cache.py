"""The cache of compiled functions: damage must cost time only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULE = """
from slubviz.hw.jit import njit

@njit("int64(int64)")
def twice(x):
    return 2 * x
"""


def use(folder: Path) -> str:
    environment = dict(
        os.environ,
        SLUBVIZ_CACHE_DIR=str(folder / "cache"),
        PYTHONPATH=os.pathsep.join([str(folder), *sys.path]),
        NUMBA_DISABLE_JIT="0",
    )
    done = subprocess.run(
        [sys.executable, "-c", "import doubling; print(doubling.twice(21))"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_damaged_cache_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(MODULE)
    assert use(tmp_path) == "42"
    index = next((tmp_path / "cache").rglob("*.nbi"))
    sound = index.read_bytes()
    index.write_bytes(sound[:10])
    assert use(tmp_path) == "42"  # compiles, and drops the damaged file
    assert not index.exists()
    assert use(tmp_path) == "42"  # writes a sound one
    assert index.read_bytes() == sound


def test_a_cache_folder_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(MODULE)
    (tmp_path / "cache").write_text("a file, not a folder")
    assert use(tmp_path) == "42"
