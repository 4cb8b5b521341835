"""The window: puts the parts together, turns commands into calls of the bridge.

Knows which page is shown and which commands make sense; shows nothing of a run by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSettings, Qt
from PySide6.QtGui import QCloseEvent, QGuiApplication
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QLayout,
    QMainWindow,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from slubviz.model.errors import UserError
from slubviz.model.workload import Sweep
from slubviz.views import actions as action_table
from slubviz.views.bridge import Bridge
from slubviz.views.control_bar import ControlBar
from slubviz.views.dashboard import Dashboard
from slubviz.views.export import export_csv, export_png
from slubviz.views.fidelity_bridge import FidelityBridge
from slubviz.views.fidelity_page import FidelityPage
from slubviz.views.help_dialogs import about_dialog, keys_dialog
from slubviz.views.icons import icon
from slubviz.views.job import Catalog, JobSpec
from slubviz.views.message_bar import MessageBar
from slubviz.views.pages import CompilePage, WelcomePage
from slubviz.views.status_strip import StatusStrip
from slubviz.views.theme import DARK, LIGHT, Theme, code_font, palette_of, style_sheet_of
from slubviz.views.worker import ViewUpdate, WorkerState

if TYPE_CHECKING:
    from slubviz.model.compare_table import CellKey

#: Asks for a file name: title, suggested name, filter; "" when the user cancels.
AskPath = Callable[[QWidget, str, str, str], str]


#: Commands that choose a page, in the order of the pages.
_VIEWS = ("view_laboratory", "view_fidelity")


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
    fidelity : FidelityBridge or None
        Runs comparisons; closed with the window.  None makes one.
    """

    def __init__(
        self,
        bridge: Bridge,
        catalog: Catalog,
        job: JobSpec,
        mode: ThemeMode = ThemeMode.SYSTEM,
        settings: QSettings | None = None,
        ask_path: AskPath = ask_save_path,
        fidelity: FidelityBridge | None = None,
    ) -> None:
        super().__init__()
        self._bridge = bridge
        self._catalog = catalog
        self._fidelity_bridge = fidelity or FidelityBridge(parent=self)
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
        self.fidelity = FidelityPage(self._fidelity_bridge, self.commands, self._theme)
        self.pages = QStackedWidget()
        self.views = QStackedWidget()
        self.view_tabs = QTabBar()
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
        self._fidelity_bridge.shutdown()
        event.accept()

    # Parts

    def _build(self) -> None:
        action_table.fill_menus(self.menuBar(), self.commands)
        for page in (self.welcome, self.compiling, self.dashboard):
            self.pages.addWidget(page)
        laboratory = QWidget()
        inside = QVBoxLayout(laboratory)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(0)
        inside.addWidget(self.bar)
        inside.addWidget(self.pages, 1)
        self.views.addWidget(laboratory)
        self.views.addWidget(self.fidelity)
        self._build_tabs()
        layout = QVBoxLayout(self._center)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.messages)
        layout.addWidget(self.views, 1)
        self.setCentralWidget(self._center)
        self.setStatusBar(self.status)
        # A fixed smallest size instead of one that follows the layout, which would change with every label.
        frame = self.layout()
        assert frame is not None
        frame.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setMinimumSize(960, 560)
        available = self.screen().availableSize()
        self.resize(min(1440, available.width()), min(860, available.height()))

    def _build_tabs(self) -> None:
        # In the menu's line, where they take no room.
        self.view_tabs.setObjectName("pages")
        self.view_tabs.setDrawBase(False)
        self.view_tabs.setExpanding(False)
        self.view_tabs.setAccessibleName("Pages")
        for name in _VIEWS:
            index = self.view_tabs.addTab(self.commands[name].text().replace("&", ""))
            self.view_tabs.setTabToolTip(index, self.commands[name].toolTip())
        self.view_tabs.currentChanged.connect(self.show_view)
        self.menuBar().setCornerWidget(self.view_tabs)
        self.commands[_VIEWS[0]].setChecked(True)

    def show_view(self, index: int) -> None:
        """Show the laboratory (0) or the fidelity page (1)."""
        self.views.setCurrentIndex(index)
        self.view_tabs.setCurrentIndex(index)
        self.commands[_VIEWS[index]].setChecked(True)
        self._enable_commands(self._bridge.latest)

    @property
    def shows_fidelity(self) -> bool:
        """Whether the fidelity page is in front."""
        return self.views.currentWidget() is self.fidelity

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
            ("compare", self._compare),
            ("compare_cancel", self._fidelity_bridge.cancel),
            ("view_laboratory", lambda: self.show_view(0)),
            ("view_fidelity", lambda: self.show_view(1)),
            ("keys", lambda: keys_dialog(self).show()),
            ("about", lambda: about_dialog(self).show()),
            ("theme_system", lambda: self.set_mode(ThemeMode.SYSTEM)),
            ("theme_light", lambda: self.set_mode(ThemeMode.LIGHT)),
            ("theme_dark", lambda: self.set_mode(ThemeMode.DARK)),
        ):
            self.commands[name].triggered.connect(_without_argument(handler))
        self.fidelity.cell_chosen.connect(self.load_cell)
        self.fidelity.problem.connect(self._show_problem)
        self._fidelity_bridge.updated.connect(lambda _update: self._enable_commands(self._bridge.latest))
        self._fidelity_bridge.exported.connect(lambda path: self.messages.show_notice(f"Saved {path}"))
        self._fidelity_bridge.export_failed.connect(self.messages.show_error)
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
        here = not self.shows_fidelity  # keys do nothing to a run that is out of sight, but Pause
        self.commands["run"].setEnabled(here and ((not running and not busy) or changed))
        self.commands["pause"].setEnabled(running)
        self.commands["step"].setEnabled(here and not busy and (not ended or changed))
        self.commands["reset"].setEnabled(here and ((update.job is not None and not busy) or changed))
        compared = self._fidelity_bridge.latest.comparison
        cells = update.results if here else compared.cells if compared else ()
        self.commands["export_csv"].setEnabled(bool(cells))
        self.commands["export_png"].setEnabled(here or bool(cells))
        self.status.show_hint("The choice has changed: Run or Reset starts it." if changed else "")

    # Fidelity

    def _compare(self) -> None:
        self.show_view(1)
        self.fidelity.compare()

    def _show_problem(self, text: str) -> None:
        if text:
            self.messages.show_error(text)
        else:
            self.messages.clear()

    def load_cell(self, key: CellKey) -> None:
        """Choose a compared cell in the laboratory, and load it unless a run would be lost."""
        job = job_of(key, self._catalog, self.fidelity.ops, self.fidelity.seed)
        self.bar.set_job(job)
        self.show_view(0)
        if self._bridge.latest.state is not WorkerState.RUNNING:
            self._bridge.reset(job)

    # Export

    def _export_png(self) -> None:
        if self.shows_fidelity:
            path = self._ask_path(self, "Export heat map", "compare.png", "PNG pictures (*.png)")
            self._export(path, ".png", self._fidelity_bridge.export_png, at_once=False)
            return
        path = self._ask_path(self, "Export PNG", "slubviz.png", "PNG pictures (*.png)")
        self._export(path, ".png", lambda target: export_png(self._center, target))

    def _export_csv(self) -> None:
        if self.shows_fidelity:
            path = self._ask_path(self, "Export comparison", "compare.csv", "CSV tables (*.csv)")
            self._export(path, ".csv", self._fidelity_bridge.export_csv, at_once=False)
            return
        results = self._bridge.latest.results
        path = self._ask_path(self, "Export CSV", "runs.csv", "CSV tables (*.csv)")
        self._export(path, ".csv", lambda target: export_csv(results, target))

    def _export(self, path: str, suffix: str, write: Callable[[Path], None], at_once: bool = True) -> None:
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
            if at_once:  # else the bridge tells when it is written
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
        self.bar.set_theme(self._theme)
        self.dashboard.set_theme(self._theme)
        self.fidelity.set_theme(self._theme)
        self.status.set_theme(self._theme)


def job_of(key: CellKey, catalog: Catalog, ops: int, seed: int) -> JobSpec:
    """The job that measures a published cell: its point, or all where one number stands for all."""
    sweep = catalog.sweep(key.test)
    points = (key.point,) if key.point else tuple(catalog.points(key.machine, key.test))
    return JobSpec(
        machine=key.machine,
        kernel=key.kernel,
        test=key.test,
        sizes=points if sweep == Sweep.SIZE else (),
        ops=ops,
        seed=seed,
        objects=points if sweep == Sweep.OBJECTS else (),
    )


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
