"""Session files and scenarios in the window: open, save, recent and dropped ones, what is not saved yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QMimeData, QSettings
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFileDialog, QMenu, QMessageBox, QWidget

from slubviz.views import commands as C
from slubviz.views.bridge import Bridge
from slubviz.views.view_update import ViewUpdate

SUFFIX = ".slubviz"
_FILTER = f"Sessions (*{SUFFIX})"
_SCENARIO_FILTER = "Scenarios (*.toml)"
_MOST_RECENT = 8

#: Asks for a file name: title, suggested name, filter; "" when the user cancels.
AskPath = Callable[[QWidget, str, str, str], str]


class Unsaved(Enum):
    """What is to become of what is not saved."""

    SAVE = "save"
    DISCARD = "discard"
    CANCEL = "cancel"


def ask_open_path(parent: QWidget, title: str, suggested: str, name_filter: str) -> str:
    """Ask with the desktop's file dialog."""
    return QFileDialog.getOpenFileName(parent, title, suggested, name_filter)[0]


def ask_unsaved(parent: QWidget) -> Unsaved:
    """Ask with a message box."""
    buttons = QMessageBox.StandardButton
    chosen = QMessageBox.question(
        parent,
        "Not saved yet",
        "Changes or bookmarks of this session are not saved. Save them?",
        buttons.Save | buttons.Discard | buttons.Cancel,
        buttons.Save,
    )
    return {buttons.Save: Unsaved.SAVE, buttons.Discard: Unsaved.DISCARD}.get(chosen, Unsaved.CANCEL)


class SessionFiles:
    """Opens and saves; see the module.

    Parameters
    ----------
    window : QWidget
        Parent of the dialogs.
    go_on : callable
        Called after everything was saved, when something waits for that.
    """

    def __init__(
        self,
        window: QWidget,
        bridge: Bridge,
        actions: Mapping[str, QAction],
        settings: QSettings | None,
        ask_save: AskPath,
        ask_open: AskPath,
        ask_about_unsaved: Callable[[QWidget], Unsaved],
    ) -> None:
        self._window = window
        self._bridge = bridge
        self._actions = actions
        self._settings = settings
        self._ask_save = ask_save
        self._ask_open = ask_open
        self._ask_unsaved = ask_about_unsaved
        self._then: Callable[[], object] | None = None
        self._saw_error = 0
        self.recent_menu = QMenu("Open &recent", window)
        for name, handler in (
            ("open_session", self._choose_session),
            ("open_scenario", self._choose_scenario),
            ("save_session", self.save),
            ("save_session_as", self._save_as),
        ):
            actions[name].triggered.connect(lambda *_checked, handler=handler: handler())
        self._fill_recent()

    # Opening

    def open_session(self, path: str) -> None:
        """Open a session file, unless something would be lost."""
        self.unless_lost(lambda: self._open(path))

    def open_scenario(self, name: str) -> None:
        """Play a scenario, unless something would be lost."""
        self.unless_lost(lambda: self._bridge.send(C.OpenScenario(name)))

    def _open(self, path: str) -> None:
        self._remember(path)
        self._bridge.send(C.OpenSession(path))

    def choose_session(self) -> str:
        """Ask for a session file; "" if the user cancels."""
        return self._ask_open(self._window, "Open session", "", _FILTER)

    def _choose_session(self) -> None:
        path = self.choose_session()
        if path:
            self.open_session(path)

    def _choose_scenario(self) -> None:
        path = self._ask_open(self._window, "Open scenario", "", _SCENARIO_FILTER)
        if path:
            self.open_scenario(path)

    @staticmethod
    def dropped_path(data: QMimeData) -> str:
        """The session or scenario among what is dragged; "" if there is none."""
        paths = [url.toLocalFile() for url in data.urls() if url.isLocalFile()]
        return next((path for path in paths if Path(path).suffix in (SUFFIX, ".toml")), "")

    def open_dropped(self, data: QMimeData) -> None:
        """Open what was dropped."""
        path = self.dropped_path(data)
        if path.endswith(SUFFIX):
            self.open_session(path)
        elif path:
            self.open_scenario(path)

    # Saving

    def save(self) -> None:
        """Save under the name that the session has, or ask for one."""
        path = self._bridge.latest.travel.path
        if path:
            self._bridge.send(C.SaveSession(path))
        else:
            self._save_as()

    def _save_as(self) -> bool:
        suggested = self._bridge.latest.travel.path or f"session{SUFFIX}"
        path = self._ask_save(self._window, "Save session", suggested, _FILTER)
        if not path:
            return False
        if not Path(path).suffix:
            path += SUFFIX
        self._remember(path)
        self._bridge.send(C.SaveSession(path))
        return True

    # What is not saved

    def unless_lost(self, action: Callable[[], object]) -> bool:
        """Do something that drops the session; ask first if that loses something.

        Returns
        -------
        bool
            Whether it was done at once; after "Save" it is done when the file is written.
        """
        if not self._bridge.latest.travel.unsaved:
            action()
            return True
        answer = self._ask_unsaved(self._window)
        if answer is Unsaved.DISCARD:
            action()
            return True
        if answer is Unsaved.SAVE:
            self._saw_error = self._bridge.latest.error_serial
            self._then = action
            path = self._bridge.latest.travel.path
            if path:
                self._bridge.send(C.SaveSession(path))
            elif not self._save_as():
                self._then = None
        return False

    def show_update(self, update: ViewUpdate) -> None:
        """Go on with what waited for the file, unless it could not be written."""
        self._actions["save_session"].setEnabled(update.travel.exists)
        self._actions["save_session_as"].setEnabled(update.travel.exists)
        if self._then is None:
            return
        if update.error_serial != self._saw_error:
            self._then = None
        elif not update.travel.unsaved:
            action, self._then = self._then, None
            action()

    # Recent ones

    def recent(self) -> list[str]:
        """Paths, the newest first."""
        if self._settings is None:
            return []
        value = self._settings.value("recent_sessions", [])
        paths = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        return [str(path) for path in paths if path][:_MOST_RECENT]

    def _remember(self, path: str) -> None:
        if self._settings is not None:
            full = str(Path(path).absolute())
            others = [other for other in self.recent() if other != full]
            self._settings.setValue("recent_sessions", [full, *others][:_MOST_RECENT])
        self._fill_recent()

    def _fill_recent(self) -> None:
        self.recent_menu.clear()
        for path in self.recent():
            action = self.recent_menu.addAction(Path(path).name)
            action.setToolTip(path)
            action.triggered.connect(lambda *_checked, path=path: self.open_session(path))
        self.recent_menu.setEnabled(bool(self.recent()))
        self.recent_menu.setToolTipsVisible(True)
