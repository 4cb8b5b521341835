"""Whether a Qt window can be opened here, told in one line if not.

``python -m slubviz.cli.qt_check`` prints that line and exits with 1; with ``--packages`` it prints only the
Debian packages to install, for scripts.  Only Linux's shared libraries are looked into.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping

from slubviz.model.errors import UserError, quoted

#: What Qt loads on import and for rendering without a display, with its Debian package.
BASE_LIBRARIES: Mapping[str, str] = {
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libX11.so.6": "libx11-6",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libzstd.so.1": "libzstd1",
    "libz.so.1": "zlib1g",
}
#: What Qt's X11 plugin loads besides.
X11_LIBRARIES: Mapping[str, str] = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb.so.1": "libxcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


class QtMissing(UserError):
    """Qt cannot be used.  ``packages`` are the Debian packages that would mend it."""

    def __init__(self, message: str, packages: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.packages = packages


def display_is_set(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a display server is named in the environment."""
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def require_display(environment: Mapping[str, str] = os.environ) -> None:
    """Fail where Linux has no display, one that does not answer, or lacks what Qt needs to use it.

    A ``QT_QPA_PLATFORM`` other than xcb overrides.

    Raises
    ------
    UserError
        One line that says what to do instead.
    """
    if not _may_use_x11(environment):
        return
    instead = "use `slubviz run`, or `slubviz gui --screenshot FILE` for a picture of the window"
    if not display_is_set(environment):
        raise UserError(f"no display (DISPLAY and WAYLAND_DISPLAY are not set): {instead}")
    if environment.get("WAYLAND_DISPLAY"):
        return
    display = environment.get("DISPLAY", "")
    if not _x11_answers(display):
        raise UserError(f"the display {quoted(display)} does not answer: check DISPLAY, or {instead}")
    if packages := missing_packages([*BASE_LIBRARIES.items(), *X11_LIBRARIES.items()]):
        raise QtMissing(missing_libraries_message(packages), packages)


def _may_use_x11(environment: Mapping[str, str]) -> bool:
    return sys.platform.startswith("linux") and environment.get("QT_QPA_PLATFORM", "") in ("", "xcb")


def _x11_answers(display: str) -> bool:
    local = re.fullmatch(r"(?:unix)?:(\d+)(?:\.\d+)?", display)
    if local is None:
        return True  # on another machine: Qt may try
    # X servers listen on a file, on Linux also on a name without a file.
    path = f"/tmp/.X11-unix/X{local[1]}"
    return any(_accepts(address) for address in (path, "\0" + path))


def _accepts(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(2.0)
        try:
            connection.connect(address)
        except OSError:
            return False
    return True


def missing_packages(libraries: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The Debian packages of those ``(soname, package)`` that do not load, each once."""
    missing: dict[str, None] = {}
    for soname, package in libraries:
        try:
            ctypes.CDLL(soname)
        except OSError:
            missing[package] = None
    return tuple(missing)


def require_qt(with_x11: bool = False) -> None:
    """Fail if PySide6, pyqtgraph or a shared library that they need is missing.

    Qt is imported in a process of its own, as a failed import cannot be taken back.

    Raises
    ------
    QtMissing
        One line naming what to install.
    """
    for module, package in (("PySide6", "PySide6-Essentials"), ("pyqtgraph", "pyqtgraph")):
        if importlib.util.find_spec(module) is None:
            raise QtMissing(
                f"the window needs {package}, which is not installed: pip install {package} "
                "(`slubviz run`, `list` and `bench` work without it)"
            )
    libraries = [*BASE_LIBRARIES.items(), *(X11_LIBRARIES.items() if with_x11 else ())]
    if sys.platform.startswith("linux") and (packages := missing_packages(libraries)):
        raise QtMissing(missing_libraries_message(packages), packages)
    probe = subprocess.run(
        [sys.executable, "-c", "import PySide6.QtWidgets"], capture_output=True, text=True, check=False
    )
    if probe.returncode != 0:
        raise QtMissing(f"Qt does not load: {last_line(probe.stderr)}")


def missing_libraries_message(packages: tuple[str, ...]) -> str:
    """The line that names missing system libraries."""
    return (
        "Qt lacks system libraries; on Debian or Ubuntu install them with: "
        f"apt-get install {' '.join(packages)}"
    )


def explain_import_error(error: ImportError) -> QtMissing:
    """What to tell after ``import PySide6`` or a module of it failed."""
    try:
        require_qt()
    except QtMissing as reason:
        return reason
    return QtMissing(f"Qt does not load: {last_line(str(error))}")


def last_line(text: str) -> str:
    """The last line that is not blank, or "no reason given"."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def main(arguments: list[str]) -> int:
    """Print what is missing; 0 if nothing is."""
    only_packages = "--packages" in arguments
    try:
        require_qt(with_x11=display_is_set())
    except QtMissing as reason:
        if only_packages:
            print(" ".join(reason.packages))
        else:
            print(f"slubviz: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
