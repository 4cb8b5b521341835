"""What the benchmark ran on: processor, cores, load, versions.

Leaves out the clock frequency, which changes while one looks.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("numpy", "numba", "simpy", "PySide6-Essentials")


def processor_name(cpuinfo: Iterable[str] | None = None) -> str:
    """The processor's name as the system tells it; "unknown" if it does not.

    Parameters
    ----------
    cpuinfo : lines of ``/proc/cpuinfo``; None reads them
    """
    for line in _read_cpuinfo() if cpuinfo is None else cpuinfo:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def _read_cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_average() -> float | None:
    """Mean number of programs that wanted a core in the last minute; None where the system does not tell."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def package_version(name: str) -> str | None:
    """Version of an installed package, None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def describe_host() -> dict[str, str | int | float | None]:
    """Processor, cores, load, system and versions, for the head of a report."""
    return {
        "processor": processor_name(),
        "cores": usable_cores(),
        "load_average": load_average(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name.lower().replace("-", "_"): package_version(name) for name in _PACKAGES},
    }
