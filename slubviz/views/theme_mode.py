"""Which theme the user wants, and which one that is on this desktop."""

from __future__ import annotations

from enum import Enum

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from slubviz.views.theme import DARK, LIGHT, Theme


class ThemeMode(Enum):
    """Which theme the user wants."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


def theme_for(mode: ThemeMode) -> Theme:
    """The theme of a mode; SYSTEM asks the desktop, light if it does not say."""
    if mode is ThemeMode.SYSTEM:
        dark = QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark
        return DARK if dark else LIGHT
    return DARK if mode is ThemeMode.DARK else LIGHT
