"""The window: puts the parts together, turns commands into calls of the bridge.

Knows which page is shown and which commands make sense; shows nothing of a run by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, Qt
from PySide6.QtGui import QCloseEvent, QGuiApplication
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QLayout,
    QMainWindow,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from slubviz.model.errors import UserError
from slubviz.views import actions as action_table
from slubviz.views.bridge import Bridge
from slubviz.views.control_bar import ControlBar
from slubviz.views.dashboard import Dashboard
from slubviz.views.export import export_csv, export_png
from slubviz.views.help_dialogs import about_dialog, keys_dialog
from slubviz.views.icons import icon
from slubviz.views.job import Catalog, JobSpec
from slubviz.views.message_bar import MessageBar
from slubviz.views.pages import CompilePage, WelcomePage
from slubviz.views.status_strip import StatusStrip
from slubviz.views.theme import DARK, LIGHT, Theme, code_font, palette_of, style_sheet_of
from slubviz.views.worker import ViewUpdate, WorkerState

#: Asks for a file name: title, suggested name, filter; "" when the user cancels.
AskPath = Callable[[QWidget, str, str, str], str]


class ThemeMode(Enum):
    """Which theme the user wants."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


def ask_save_path(parent: QWidget, title: str, suggested: str, name_filter: str) -> str:
    """Ask with the desktop's file dialog."""
    return QFileDialog.getSaveFileName(parent, title, suggested, name_filter)[0]


class MainWindow(QMainWindow):
    """The slubviz window.

    Parameters
    ----------
    bridge : Bridge
        Not started yet; closed with the window.
    catalog : Catalog
        What can be chosen.
    job : JobSpec
        What is chosen at first.
    mode : ThemeMode
        Theme at first; settings, if given, come before it when it is SYSTEM.
    settings : QSettings or None
        Where place and theme are remembered; None remembers nothing.
    ask_path : AskPath
        Asks for the name of an export.
    """

    def __init__(
        self,
        bridge: Bridge,
        catalog: Catalog,
        job: JobSpec,
        mode: ThemeMode = ThemeMode.SYSTEM,
        settings: QSettings | None = None,
        ask_path: AskPath = ask_save_path,
    ) -> None:
        super().__init__()
        self._bridge = bridge
        self._settings = settings
        self._ask_path = ask_path
        self._mode = self._remembered_mode(mode)
        self._theme = theme_for(self._mode)
        self._told = ("", 0)
        self.setWindowTitle("slubviz")
        self.commands = action_table.make_actions(self, self._theme)
        self.bar = ControlBar(catalog, self.commands, job)
        self.messages = MessageBar()
        self.welcome = WelcomePage(self.commands["run"])
        self.compiling = CompilePage()
        self.dashboard = Dashboard(self._theme, code_font())
        self.pages = QStackedWidget()
        self._center = QWidget()
        self.status = StatusStrip(self._theme)
        self._build()
        self._connect()
        self._apply_theme()
        self.show_update(ViewUpdate())
        self._restore_pause_measured()
        self._restore_place()

    @property
    def theme(self) -> Theme:
        """The theme that is shown."""
        return self._theme

    def show_update(self, update: ViewUpdate) -> None:
        """Show an update in all parts."""
        self.dashboard.show_update(update)
        self.status.show_update(update)
        self.pages.setCurrentWidget(self._page_for(update))
        self._show_messages(update)
        self._enable_commands(update)

    def set_mode(self, mode: ThemeMode) -> None:
        """Change the theme."""
        self._mode = mode
        self._theme = theme_for(mode)
        self._apply_theme()
        if self._settings is not None:
            self._settings.setValue("theme", mode.value)

    def closeEvent(self, event: QCloseEvent) -> None:
        if self._settings is not None:
            self._settings.setValue("geometry", self.saveGeometry())
        # Not waited for here: a compile may take seconds, and the window shall be gone at once.
        self._bridge.shutdown()
        event.accept()

    # Parts

    def _build(self) -> None:
        action_table.fill_menus(self.menuBar(), self.commands)
        for page in (self.welcome, self.compiling, self.dashboard):
            self.pages.addWidget(page)
        layout = QVBoxLayout(self._center)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.bar)
        layout.addWidget(self.messages)
        layout.addWidget(self.pages, 1)
        self.setCentralWidget(self._center)
        self.setStatusBar(self.status)
        # A fixed smallest size instead of one that follows the layout, which would change with every label.
        frame = self.layout()
        assert frame is not None
        frame.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setMinimumSize(960, 560)
        available = self.screen().availableSize()
        self.resize(min(1440, available.width()), min(860, available.height()))

    def _connect(self) -> None:
        self._bridge.updated.connect(self.show_update)
        self._bridge.set_rate(self.bar.rate())
        self.bar.speed_changed.connect(self._bridge.set_rate)
        self.bar.job_changed.connect(lambda _job: self._enable_commands(self._bridge.latest))
        for name, handler in (
            ("run", lambda: self._bridge.run(self.bar.job())),
            ("pause", self._bridge.pause),
            ("step", lambda: self._bridge.step(self.bar.job())),
            ("reset", lambda: self._bridge.reset(self.bar.job())),
            ("slower", lambda: self.bar.change_speed(-1)),
            ("faster", lambda: self.bar.change_speed(1)),
            ("unlimited", self.bar.set_unlimited),
            ("pause_measured", self._pause_measured_chosen),
            ("export_png", self._export_png),
            ("export_csv", self._export_csv),
            ("quit", self.close),
            ("keys", lambda: keys_dialog(self).show()),
            ("about", lambda: about_dialog(self).show()),
            ("theme_system", lambda: self.set_mode(ThemeMode.SYSTEM)),
            ("theme_light", lambda: self.set_mode(ThemeMode.LIGHT)),
            ("theme_dark", lambda: self.set_mode(ThemeMode.DARK)),
        ):
            self.commands[name].triggered.connect(_without_argument(handler))
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_theme_changed)

    # Updates

    def _page_for(self, update: ViewUpdate) -> QWidget:
        if update.state is WorkerState.EMPTY:
            return self.welcome
        if update.snapshot is None:
            return self.compiling
        return self.dashboard

    def _show_messages(self, update: ViewUpdate) -> None:
        fault = update.snapshot.fault if update.snapshot else ""
        wanted = update.error or (f"The simulated machine stopped: {fault}" if fault else "")
        # Only what is new: a message that the user has closed stays closed, one about a file stays.
        new = (wanted, update.error_serial if update.error else 0)
        if new == self._told:
            return
        self._told = new
        if wanted:
            self.messages.show_error(wanted)
        else:
            self.messages.clear()

    def _enable_commands(self, update: ViewUpdate) -> None:
        state = update.state
        changed = update.job is not None and update.job != self.bar.job()
        busy = state is WorkerState.LOADING
        running = state is WorkerState.RUNNING
        ended = state in (WorkerState.FINISHED, WorkerState.FAULTED)
        self.commands["run"].setEnabled((not running and not busy) or changed)
        self.commands["pause"].setEnabled(running)
        self.commands["step"].setEnabled(not busy and (not ended or changed))
        self.commands["reset"].setEnabled((update.job is not None and not busy) or changed)
        self.commands["export_csv"].setEnabled(bool(update.results))
        self.status.show_hint("The choice has changed: Run or Reset starts it." if changed else "")

    # Export

    def _export_png(self) -> None:
        path = self._ask_path(self, "Export PNG", "slubviz.png", "PNG pictures (*.png)")
        self._export(path, ".png", lambda target: export_png(self._center, target))

    def _export_csv(self) -> None:
        results = self._bridge.latest.results
        path = self._ask_path(self, "Export CSV", "runs.csv", "CSV tables (*.csv)")
        self._export(path, ".csv", lambda target: export_csv(results, target))

    def _export(self, path: str, suffix: str, write: Callable[[Path], None]) -> None:
        if not path:
            return
        target = Path(path)
        if not target.suffix and not target.exists():
            target = target.with_suffix(suffix)
        try:
            write(target)
        except UserError as error:
            self.messages.show_error(str(error))
        except OSError as error:
            self.messages.show_error(f"cannot write {target}: {error.strerror or error}")
        else:
            self.messages.show_notice(f"Saved {target}")

    # Theme and place

    def _remembered_mode(self, mode: ThemeMode) -> ThemeMode:
        if self._settings is None or mode is not ThemeMode.SYSTEM:
            return mode
        try:
            return ThemeMode(str(self._settings.value("theme", mode.value)))
        except ValueError:  # a settings file that someone has edited
            return mode

    def _pause_measured_chosen(self) -> None:
        wanted = self.commands["pause_measured"].isChecked()
        self._bridge.set_pause_measured(wanted)
        if self._settings is not None:
            self._settings.setValue("pause_measured", wanted)

    def _restore_pause_measured(self) -> None:
        if self._settings is not None:
            wanted = str(self._settings.value("pause_measured", True)).lower() != "false"
            self.commands["pause_measured"].setChecked(wanted)
            self._bridge.set_pause_measured(wanted)

    def _restore_place(self) -> None:
        geometry = self._settings.value("geometry") if self._settings is not None else None
        if isinstance(geometry, QByteArray):  # not so in a settings file that someone has edited
            self.restoreGeometry(geometry)

    def _system_theme_changed(self, _scheme: Qt.ColorScheme) -> None:
        if self._mode is ThemeMode.SYSTEM:
            self.set_mode(ThemeMode.SYSTEM)

    def _apply_theme(self) -> None:
        QApplication.setPalette(palette_of(self._theme))
        self.setStyleSheet(style_sheet_of(self._theme))
        action_table.recolour_icons(self.commands, self._theme)
        self.commands[f"theme_{self._mode.value}"].setChecked(True)
        self.setWindowIcon(icon("app", self._theme))
        self.dashboard.set_theme(self._theme)
        self.status.set_theme(self._theme)


def theme_for(mode: ThemeMode) -> Theme:
    """The theme of a mode; SYSTEM asks the desktop, light if it does not say."""
    if mode is ThemeMode.SYSTEM:
        dark = QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark
        return DARK if dark else LIGHT
    return DARK if mode is ThemeMode.DARK else LIGHT


def _without_argument(handler: Callable[[], object]) -> Callable[..., None]:
    # QAction.triggered passes whether it is checked.
    def call(*_checked: bool) -> None:
        handler()

    return call
