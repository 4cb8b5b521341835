"""Every command of the window in one table: id, text, shortcut, tooltip, icon, menu.

Menus, buttons and the Keys page are made from it, so a command is described once.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QWidget

from slubviz.views.icons import icon
from slubviz.views.theme import Theme


@dataclass(frozen=True)
class ActionSpec:
    """One command.  Specs of the same ``group`` exclude each other and are checkable.

    A ``toggle`` is checkable by itself and starts on.
    """

    id: str
    menu: str
    text: str
    shortcut: str
    tooltip: str
    icon: str = ""
    group: str = ""
    toggle: bool = False
    separator_before: bool = False


ACTIONS: tuple[ActionSpec, ...] = (
    ActionSpec("export_png", "&File", "Export &PNG…", "Ctrl+E", "Save a picture of the window", "picture"),
    ActionSpec(
        "export_csv", "&File", "Export &CSV…", "Ctrl+Shift+E", "Save the measured cells as a table", "table"
    ),
    ActionSpec(
        "quit", "&File", "&Quit", "Ctrl+Q", "Stop the run and close the window", separator_before=True
    ),
    ActionSpec("run", "&Run", "&Run", "F5", "Run the chosen job, or run on after a pause", "run"),
    ActionSpec("pause", "&Run", "&Pause", "F6", "Stop before the next micro-op", "pause"),
    ActionSpec("step", "&Run", "&Step", "F10", "Pause and execute one micro-op", "step"),
    ActionSpec("reset", "&Run", "R&eset", "Ctrl+R", "Back to the start of the chosen job", "reset"),
    ActionSpec("slower", "&Run", "S&lower", "Ctrl+Left", "Fewer micro-ops a second", separator_before=True),
    ActionSpec("faster", "&Run", "&Faster", "Ctrl+Right", "More micro-ops a second"),
    ActionSpec("unlimited", "&Run", "&Unlimited speed", "Ctrl+End", "As fast as this computer can"),
    ActionSpec(
        "pause_measured",
        "&Run",
        "Pause after the &measured phase",
        "",
        "Keep the full picture: stop before a clean-up that is not measured",
        toggle=True,
        separator_before=True,
    ),
    ActionSpec(
        "compare",
        "Fi&delity",
        "&Compare",
        "F7",
        "Simulate the chosen published numbers in processes of their own",
        "run",
    ),
    ActionSpec("compare_cancel", "Fi&delity", "&Stop", "Shift+F7", "Stop, keeping what was found", "stop"),
    ActionSpec(
        "view_laboratory", "&View", "La&boratory", "Ctrl+1", "One run, live and step by step", group="page"
    ),
    ActionSpec(
        "view_fidelity",
        "&View",
        "F&idelity",
        "Ctrl+2",
        "Simulated beside published numbers, as a heat map and tables",
        group="page",
    ),
    ActionSpec(
        "theme_system",
        "&View",
        "&Follow the system",
        "",
        "Light or dark as the desktop is",
        group="theme",
        separator_before=True,
    ),
    ActionSpec("theme_light", "&View", "&Light", "Ctrl+Shift+L", "Dark text on light ground", group="theme"),
    ActionSpec("theme_dark", "&View", "&Dark", "Ctrl+Shift+D", "Light text on dark ground", group="theme"),
    ActionSpec("keys", "&Help", "&Keys", "F1", "All keys of this window"),
    ActionSpec("about", "&Help", "&About slubviz", "", "Version and what it simulates"),
)


#: Commands whose buttons have the ground of the accent colour.
_ON_ACCENT = ("run", "compare")


def make_actions(parent: QWidget, theme: Theme) -> dict[str, QAction]:
    """A QAction for every row of the table, by id."""
    actions: dict[str, QAction] = {}
    groups: dict[str, QActionGroup] = {}
    for spec in ACTIONS:
        action = QAction(spec.text, parent)
        action.setObjectName(spec.id)
        if spec.shortcut:
            action.setShortcut(QKeySequence(spec.shortcut))
        action.setToolTip(tooltip_of(spec))
        # No status tip: it would hide the line that tells the state for as long as the pointer rests.
        action.setCheckable(bool(spec.group) or spec.toggle)
        action.setChecked(spec.toggle)
        if spec.group:
            group = groups.setdefault(spec.group, QActionGroup(parent))
            group.addAction(action)
        actions[spec.id] = action
    recolour_icons(actions, theme)
    return actions


def recolour_icons(actions: dict[str, QAction], theme: Theme) -> None:
    """Draw the icons in a theme's colours."""
    for spec in ACTIONS:
        if spec.icon:
            actions[spec.id].setIcon(icon(spec.icon, theme, on_accent=spec.id in _ON_ACCENT))
            actions[spec.id].setIconVisibleInMenu(False)


def fill_menus(bar: QMenuBar, actions: dict[str, QAction]) -> None:
    """Menus in the order in which the table names them first."""
    menus: dict[str, QMenu] = {}
    for spec in ACTIONS:
        menu = menus.get(spec.menu)
        if menu is None:
            menu = menus[spec.menu] = bar.addMenu(spec.menu)
            menu.setToolTipsVisible(True)
        if spec.separator_before:
            menu.addSeparator()
        menu.addAction(actions[spec.id])


def tooltip_of(spec: ActionSpec) -> str:
    """What the command does, with its key."""
    return f"{spec.tooltip} ({spec.shortcut})" if spec.shortcut else spec.tooltip


def plain_text(spec: ActionSpec) -> str:
    """Its text without the mnemonic mark and the dots."""
    return spec.text.replace("&", "").rstrip("…")
