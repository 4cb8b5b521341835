"""Colours that can be read and told apart, and commands whose keys do not clash."""

from __future__ import annotations

from dataclasses import fields
from itertools import combinations

import numpy as np
import pytest
from PySide6.QtCore import QSettings
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QApplication, QMenuBar, QWidget
from pytestqt.qtbot import QtBot

from slubviz.views import actions
from slubviz.views.bridge import Bridge
from slubviz.views.icons import icon
from slubviz.views.main_window import MainWindow
from slubviz.views.theme import DARK, LIGHT, MINIMUM_POINT_SIZE, Theme, code_font, text_font
from slubviz.views.theme_mode import ThemeMode, theme_for
from tests.views.fake_session import FakeSession, fake_catalog, fake_job

BOTH = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])

#: Linear RGB as seen with a missing cone type (Viénot, Brettel, Mollon 1999, for the first two).
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
    "deuteranopia": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
    "greyscale": np.tile(np.array([0.2126, 0.7152, 0.0722]), (3, 1)),
}


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ np.array([0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = matrix @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@BOTH
def test_all_colours_are_hex(theme: Theme) -> None:
    for field in fields(theme):
        if field.name not in ("name", "dark"):
            value = getattr(theme, field.name)
            assert len(value) == 7
            assert value[0] == "#"
            assert int(value[1:], 16) >= 0


@BOTH
@pytest.mark.parametrize(
    "meaning",
    [
        "text",
        "text_muted",
        "cpu_running",
        "cpu_waiting",
        "cpu_rendezvous",
        "cpu_halted",
        "interrupt",
        "interrupts_off",
        "lock_contended",
        "plot_published",
        "accent",
    ],
)
def test_text_can_be_read_on_every_surface(theme: Theme, meaning: str) -> None:
    for surface in (theme.panel, theme.sunken):
        assert contrast(getattr(theme, meaning), surface) >= 4.5


@BOTH
def test_text_on_coloured_ground_can_be_read(theme: Theme) -> None:
    assert contrast(theme.error_text, theme.error_surface) >= 4.5
    assert contrast(theme.notice_text, theme.notice_surface) >= 4.5
    assert contrast(theme.on_accent, theme.accent) >= 4.5
    assert contrast(theme.text, theme.code_mark) >= 4.5
    assert contrast(theme.text, theme.window) >= 4.5


@BOTH
@pytest.mark.parametrize("vision", VISION)
def test_object_states_are_told_apart_by_everyone(theme: Theme, vision: str) -> None:
    seen = {
        name: lab(VISION[vision] @ linear(getattr(theme, name)))
        for name in ("object_allocated", "object_cpu_free", "object_free")
    }
    for one, other in combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 14, (one, other)


@BOTH
@pytest.mark.parametrize("vision", ["protanopia", "deuteranopia"])
def test_running_and_waiting_are_told_apart_by_everyone(theme: Theme, vision: str) -> None:
    running, waiting = (lab(VISION[vision] @ linear(c)) for c in (theme.cpu_running, theme.cpu_waiting))
    assert np.linalg.norm(running - waiting) > 14


def test_fonts_are_not_too_small_and_code_has_fixed_width() -> None:
    assert text_font().pointSizeF() >= MINIMUM_POINT_SIZE
    assert code_font().pointSizeF() >= MINIMUM_POINT_SIZE
    panel = QWidget()
    panel.setFont(code_font())
    assert panel.fontMetrics().horizontalAdvance("iiii") == panel.fontMetrics().horizontalAdvance("MMMM")


def test_modes_choose_the_theme() -> None:
    assert theme_for(ThemeMode.LIGHT) is LIGHT
    assert theme_for(ThemeMode.DARK) is DARK
    assert theme_for(ThemeMode.SYSTEM) in (LIGHT, DARK)


def test_no_two_commands_share_a_key_or_an_id() -> None:
    keys = [QKeySequence(spec.shortcut).toString() for spec in actions.ACTIONS if spec.shortcut]
    assert all(keys)
    assert len(keys) == len(set(keys))
    ids = [spec.id for spec in actions.ACTIONS]
    assert len(ids) == len(set(ids))


def test_no_two_entries_of_a_menu_share_a_mnemonic() -> None:
    marked = [spec for spec in actions.ACTIONS if "&" in spec.text]
    marks = [(spec.menu, spec.text[spec.text.index("&") + 1].lower()) for spec in marked]
    assert len(marks) == len(set(marks))
    menus = {spec.menu for spec in actions.ACTIONS}
    assert len({menu[menu.index("&") + 1].lower() for menu in menus}) == len(menus)


def test_every_command_has_a_tooltip_with_its_key_and_a_known_icon() -> None:
    for spec in actions.ACTIONS:
        assert spec.tooltip
        assert spec.shortcut in actions.tooltip_of(spec)
        if spec.icon:
            assert not icon(spec.icon, LIGHT).isNull()
    with pytest.raises(KeyError):
        icon("no such icon", LIGHT)


def test_menus_hold_every_command_once(qtbot: QtBot) -> None:
    owner = QWidget()
    qtbot.addWidget(owner)
    bar = QMenuBar(owner)
    made = actions.make_actions(owner, LIGHT)
    actions.fill_menus(bar, made)
    found = [
        action.objectName()
        for menu in bar.actions()
        for action in menu.menu().actions()
        if action.objectName()
    ]
    assert found == [spec.id for spec in actions.ACTIONS]


def test_every_command_does_something(qtbot: QtBot) -> None:
    window = MainWindow(Bridge(FakeSession), fake_catalog(), fake_job(), ThemeMode.LIGHT)
    qtbot.addWidget(window)
    for spec in actions.ACTIONS:
        assert window.commands[spec.id].receivers("2triggered(bool)") >= 1, spec.id


def test_theme_and_place_are_remembered(qtbot: QtBot, tmp_path: object) -> None:
    settings = QSettings(f"{tmp_path}/settings.ini", QSettings.Format.IniFormat)
    first = MainWindow(Bridge(FakeSession), fake_catalog(), fake_job(), ThemeMode.SYSTEM, settings)
    qtbot.addWidget(first)
    first.resize(1111, 666)
    first.set_mode(ThemeMode.DARK)
    first.show()
    first.close()
    second = MainWindow(Bridge(FakeSession), fake_catalog(), fake_job(), ThemeMode.SYSTEM, settings)
    qtbot.addWidget(second)
    assert second.theme is DARK
    assert second.height() == 666  # the width is cut to the screen, which is small here
    asked = MainWindow(Bridge(FakeSession), fake_catalog(), fake_job(), ThemeMode.LIGHT, settings)
    qtbot.addWidget(asked)
    assert asked.theme is LIGHT  # what was asked for comes first


def test_a_spoilt_settings_file_is_no_error(qtbot: QtBot, tmp_path: object) -> None:
    settings = QSettings(f"{tmp_path}/settings.ini", QSettings.Format.IniFormat)
    settings.setValue("theme", "pink")
    settings.setValue("geometry", "nonsense")
    window = MainWindow(Bridge(FakeSession), fake_catalog(), fake_job(), ThemeMode.SYSTEM, settings)
    qtbot.addWidget(window)
    assert window.theme in (LIGHT, DARK)
    QApplication.processEvents()
