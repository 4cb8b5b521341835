"""What the report's head says about the computer."""

from __future__ import annotations

import platform

import numpy
import pytest

from slubviz.model.bench import host


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["processor\t: 0", "model name\t: Some CPU @ 2.33GHz"], "Some CPU @ 2.33GHz"),
        (["processor : 0", "Hardware : X", "Model : Board 4"], "Board 4"),
        (["model name :", "model name : second"], "second"),
    ],
)
def test_the_processor_name_is_read_from_cpuinfo(lines: list[str], name: str) -> None:
    assert host.processor_name(lines) == name


def test_without_cpuinfo_the_architecture_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert host.processor_name([]) == "riscv64"
    monkeypatch.setattr(platform, "machine", lambda: "")
    assert host.processor_name([]) == "unknown"


def test_the_head_names_versions_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.package_version("no-such-package-at-all") is None
    described = host.describe_host()
    assert described["numpy"] == numpy.__version__
    assert described["python"] == platform.python_version()
    assert isinstance(described["cores"], int)
    assert described["cores"] >= 1


def test_a_system_without_load_average(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError

    monkeypatch.setattr("os.getloadavg", fail)
    assert host.load_average() is None
