"""A way to call the command line in this process and one to start it in its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slubviz.cli import backend, main
from tests.cli import fake_runner

CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    """What a command gave."""

    code: int
    out: str
    err: str


Invoke = Callable[..., Outcome]
Start = Callable[..., "subprocess.Popen[bytes]"]


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the run has begun; the process's end (a failure) ends the wait too."""
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.01)


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Invoke:
    """``invoke("run", ...)``: the real entry point on the fake runner, in this process."""
    monkeypatch.setattr(backend, "load_runner", lambda: fake_runner)

    def call(*arguments: str) -> Outcome:
        code = main(list(arguments))
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def start() -> Start:
    """``start("run", ..., environment={...}, **popen)``: the same in a process of its own."""

    def call(
        *arguments: str, environment: dict[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[bytes]:
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.cli.fake_runner", *arguments],
            env={**os.environ, **(environment or {})},
            cwd=CHECKOUT,
            **popen,
        )

    return call
