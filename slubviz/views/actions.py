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

    A ``toggle`` is checkable by itself and starts on; a ``checkable`` one starts off.
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
    checkable: bool = False


_FILE = (
    ActionSpec("open_session", "&File", "&Open session…", "Ctrl+O", "Open a session file (*.slubviz)"),
    ActionSpec(
        "save_session",
        "&File",
        "&Save session",
        "Ctrl+S",
        "Save machine, kernel, seed, changes, bookmarks and cursor; the run itself is computed again",
    ),
    ActionSpec("save_session_as", "&File", "Save session &as…", "Ctrl+Shift+S", "Save under another name"),
    ActionSpec(
        "export_png",
        "&File",
        "Export &PNG…",
        "Ctrl+E",
        "Save a picture of the window",
        "picture",
        separator_before=True,
    ),
    ActionSpec(
        "export_csv", "&File", "Export &CSV…", "Ctrl+Shift+E", "Save the measured cells as a table", "table"
    ),
    ActionSpec(
        "quit", "&File", "&Quit", "Ctrl+Q", "Stop the run and close the window", separator_before=True
    ),
)
_RUN = (
    ActionSpec("run", "&Run", "&Run", "F5", "Run the chosen job, or run on after a pause", "run"),
    ActionSpec("run_back", "&Run", "Run &backwards", "Shift+F5", "Play the run backwards", "run_back"),
    ActionSpec("pause", "&Run", "&Pause", "F6", "Stop before the next micro-op", "pause"),
    ActionSpec("step", "&Run", "&Step", "F10", "Pause and execute one micro-op", "step"),
    ActionSpec("step_back", "&Run", "Step b&ack", "Shift+F10", "Take one micro-op back", "step_back"),
    ActionSpec(
        "reset", "&Run", "R&eset", "Ctrl+R", "Build the chosen job anew and pause at its start", "reset"
    ),
    ActionSpec(
        "cancel",
        "&Run",
        "&Cancel",
        "Esc",
        "Give up the search or computation under way; the cursor stays",
        "stop",
    ),
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
)


def _pair(
    kind: str, text: str, forwards: str, backwards: str, what: str, separator_before: bool = False
) -> tuple[ActionSpec, ActionSpec]:
    """A movement in both directions: ``go_line`` and ``back_line``."""
    plain = text.replace("&", "")
    return (
        ActionSpec(
            f"go_{kind}", "&Go", f"Next {text}", forwards, f"On to {what}", separator_before=separator_before
        ),
        ActionSpec(f"back_{kind}", "&Go", f"Previous {plain}", backwards, f"Back to {what}"),
    )


_GO = (
    ActionSpec("go_to", "&Go", "&Go to micro-op or cycle…", "Ctrl+G", "Type where to go"),
    ActionSpec("go_start", "&Go", "Start of the run", "Home", "Back to micro-op 0", "to_start"),
    ActionSpec(
        "go_end", "&Go", "End of the recorded run", "End", "On to the last recorded micro-op", "to_end"
    ),
    *_pair("line", "&line", "F11", "Shift+F11", "another source line of the chosen CPU", True),
    *_pair(
        "into", "&function entered", "Ctrl+F11", "Ctrl+Shift+F11", "where the chosen CPU enters a function"
    ),
    *_pair("over", "line &over calls", "F12", "Shift+F12", "another line, past what it calls and interrupts"),
    *_pair("out", "retur&n", "Ctrl+F12", "Ctrl+Shift+F12", "where this function returns or was called"),
    *_pair("event_any_cpu", "&event on any CPU", "]", "[", "a slow path, retry, lock or interrupt", True),
    *_pair("event_this_cpu", "event on &this CPU", "Ctrl+]", "Ctrl+[", "an event of the chosen CPU"),
    *_pair(
        "interrupt_entry", "interr&upt entry", "N", "Shift+N", "where an interrupt strikes the chosen CPU"
    ),
    *_pair("interrupt_exit", "interrupt e&xit", "X", "Shift+X", "where an interrupt of the chosen CPU ends"),
    *_pair("slow_path", "&slow path", "S", "Shift+S", "where a slow path is counted"),
    *_pair("retry", "&retry", "R", "Shift+R", "a compare-and-exchange that fails"),
    *_pair("contended", "&contended lock", "L", "Shift+L", "a lock that somebody else holds"),
    *_pair("watched", "&watched change", "F9", "Shift+F9", "a change of what the watch list has chosen"),
    *_pair("breakpoint", "&breakpoint", "F8", "Shift+F8", "a place where a breakpoint holds"),
    *_pair("phase", "&phase", "P", "Shift+P", "the start of a phase of the test"),
)
_TRAVEL = (
    ActionSpec("bookmark", "&Travel", "Add book&mark…", "M", "Name this place, with a note"),
    ActionSpec(
        "go_bookmark", "&Travel", "&Next bookmark", "Ctrl+M", "On to the next bookmark of this branch"
    ),
    ActionSpec(
        "back_bookmark", "&Travel", "&Previous bookmark", "Ctrl+Shift+M", "Back to the bookmark before"
    ),
    ActionSpec(
        "marker_a",
        "&Travel",
        "Marker &A here",
        "A",
        "First end of a distance on the timeline",
        separator_before=True,
    ),
    ActionSpec("marker_b", "&Travel", "Marker &B here", "B", "Second end of a distance on the timeline"),
    ActionSpec("zoom_all", "&Travel", "&Whole run on the timeline", "0", "Show all that is recorded"),
    ActionSpec(
        "break_here",
        "&Travel",
        "Breakpoint on this &line",
        "Ctrl+B",
        "Set or take away a breakpoint where the chosen CPU is",
        separator_before=True,
    ),
    ActionSpec(
        "add_breakpoint",
        "&Travel",
        "Add b&reakpoint…",
        "Ctrl+Shift+B",
        "A line, function, counter, word, slab …",
    ),
    ActionSpec("clear_breakpoints", "&Travel", "&Clear breakpoints", "", "Forget all breakpoints"),
    ActionSpec(
        "inject",
        "&Travel",
        "&Interrupt…",
        "I",
        "Let an interrupt strike here, once, periodically or at random",
        separator_before=True,
    ),
    ActionSpec("edit", "&Travel", "&Edit…", "E", "Another value for a word, a register or an option"),
    ActionSpec("migrate", "&Travel", "Mo&ve the task…", "", "The chosen CPU's task goes on on an idle CPU"),
    ActionSpec(
        "heat",
        "&Travel",
        "&Heat of the lines",
        "Ctrl+H",
        "Times executed and cycles of each source line",
        checkable=True,
        separator_before=True,
    ),
)
_SCENARIO = (
    ActionSpec(
        "open_scenario", "&Scenario", "&Open scenario file…", "Ctrl+Shift+O", "A scenario of your own"
    ),
    ActionSpec("scenario_next", "&Scenario", "&Next step", "PgDown", "On to the scenario's next step"),
    ActionSpec("scenario_back", "&Scenario", "&Previous step", "PgUp", "Back to the step before"),
    ActionSpec("talk", "&Scenario", "&Talk", "Ctrl+T", "The whole screen for captions, stacks and source"),
)
_FIDELITY = (
    ActionSpec(
        "compare",
        "Fi&delity",
        "&Compare",
        "F7",
        "Simulate the chosen published numbers in processes of their own",
        "run",
    ),
    ActionSpec("compare_cancel", "Fi&delity", "&Stop", "Shift+F7", "Stop, keeping what was found", "stop"),
)
_VIEW = (
    ActionSpec(
        "view_laboratory", "&View", "La&boratory", "Ctrl+1", "One run, live and step by step", group="page"
    ),
    ActionSpec(
        "view_steps", "&View", "&Steps", "Ctrl+2", "Source, call stack and what they work on", group="page"
    ),
    ActionSpec(
        "view_fidelity",
        "&View",
        "F&idelity",
        "Ctrl+3",
        "Simulated beside published numbers, as a heat map and tables",
        group="page",
    ),
    ActionSpec(
        "view_compare",
        "&View",
        "C&ompare runs",
        "Ctrl+4",
        "Two branches, kernels or sessions side by side",
        group="page",
    ),
    ActionSpec(
        "palette",
        "&View",
        "&Command palette…",
        "Ctrl+Shift+P",
        "Find a command, a function, a bookmark, a scenario",
        separator_before=True,
    ),
    ActionSpec(
        "full_screen", "&View", "F&ull screen", "Alt+Return", "The window on the whole screen", checkable=True
    ),
    ActionSpec(
        "reset_panels", "&View", "&Panels as at first", "", "Put the panels of Steps back in their places"
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
)
_HELP = (
    ActionSpec("keys", "&Help", "&Keys", "F1", "All keys of this window"),
    ActionSpec("about", "&Help", "&About slubviz", "", "Version and what it simulates"),
)
ACTIONS: tuple[ActionSpec, ...] = (
    *_FILE,
    *_RUN,
    *_GO,
    *_TRAVEL,
    *_SCENARIO,
    *_FIDELITY,
    *_VIEW,
    *_HELP,
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
        action.setCheckable(bool(spec.group) or spec.toggle or spec.checkable)
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


def fill_menus(bar: QMenuBar, actions: dict[str, QAction]) -> dict[str, QMenu]:
    """Menus in the order in which the table names them first, by their titles without marks."""
    menus: dict[str, QMenu] = {}
    for spec in ACTIONS:
        menu = menus.get(spec.menu)
        if menu is None:
            menu = menus[spec.menu] = bar.addMenu(spec.menu)
            menu.setToolTipsVisible(True)
        if spec.separator_before:
            menu.addSeparator()
        menu.addAction(actions[spec.id])
    return {title.replace("&", ""): menu for title, menu in menus.items()}


def tooltip_of(spec: ActionSpec) -> str:
    """What the command does, with its key."""
    return f"{spec.tooltip} ({spec.shortcut})" if spec.shortcut else spec.tooltip


def plain_text(spec: ActionSpec) -> str:
    """Its text without the mnemonic mark and the dots."""
    return spec.text.replace("&", "").rstrip("…")
