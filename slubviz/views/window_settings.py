"""Reading what the window remembers: a settings file that someone has edited is no error."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QByteArray, QSettings

from slubviz.views.theme_mode import ThemeMode


def read_mode(settings: QSettings | None, asked: ThemeMode) -> ThemeMode:
    """The remembered theme where none was asked for."""
    if settings is None or asked is not ThemeMode.SYSTEM:
        return asked
    try:
        return ThemeMode(str(settings.value("theme", asked.value)))
    except ValueError:
        return asked


def read_flag(settings: QSettings, name: str, default: bool) -> bool:
    """A remembered yes or no."""
    return str(settings.value(name, default)).lower() != "false"


def read_index(settings: QSettings, name: str, count: int) -> int:
    """A remembered number below ``count``; 0 for anything else."""
    text = str(settings.value(name, 0))
    return int(text) if text.isascii() and text.isdigit() and int(text) < count else 0


def restore_bytes(settings: QSettings, name: str, restore: Callable[[QByteArray], bool]) -> bool:
    """Put something back where it was; False if nothing is remembered or it does not fit."""
    value = settings.value(name)
    return isinstance(value, QByteArray) and restore(value)
