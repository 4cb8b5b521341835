"""The window: puts the parts together, turns commands into calls of the bridge.

Knows which page is shown and which commands make sense; shows nothing of a run by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QLayout,
    QMainWindow,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from slubviz.views import actions as action_table
from slubviz.views.bridge import Bridge
from slubviz.views.compare_page import ComparePage
from slubviz.views.compare_wiring import connect_compare
from slubviz.views.control_bar import ControlBar
from slubviz.views.dashboard import Dashboard
from slubviz.views.exporter import Exporter
from slubviz.views.fidelity_bridge import FidelityBridge
from slubviz.views.fidelity_page import FidelityPage
from slubviz.views.help_dialogs import about_dialog, keys_dialog
from slubviz.views.icons import icon
from slubviz.views.job import Catalog, JobSpec, job_of
from slubviz.views.message_bar import MessageBar
from slubviz.views.pages import ActionPage, CompilePage, WelcomePage
from slubviz.views.session_files import AskPath, SessionFiles, Unsaved, ask_open_path, ask_unsaved
from slubviz.views.speed import START_RATE
from slubviz.views.status_strip import StatusStrip
from slubviz.views.steps_page import StepsPage
from slubviz.views.steps_wiring import connect_steps
from slubviz.views.talk_control import TalkControl
from slubviz.views.theme import Theme, code_font, palette_of, style_sheet_of
from slubviz.views.theme_mode import ThemeMode, theme_for
from slubviz.views.travel_control import TravelControl
from slubviz.views.travel_pane import TravelPane
from slubviz.views.view_update import ViewUpdate, WorkerState
from slubviz.views.window_parts import add_to_menus, palette_for
from slubviz.views.window_settings import read_flag, read_index, read_mode, restore_bytes

if TYPE_CHECKING:
    from slubviz.model.compare_table import CellKey

__all__ = ["COMPARE", "FIDELITY", "LABORATORY", "STEPS", "MainWindow", "ThemeMode", "ask_save_path", "job_of"]

#: Commands that choose a page, in the order of the pages.
_VIEWS = ("view_laboratory", "view_steps", "view_fidelity", "view_compare")
LABORATORY, STEPS, FIDELITY, COMPARE = range(4)
_LOW_WINDOW = 715
_TIMELINE_SHARE, _LOWEST_TIMELINE, _HIGHEST_TIMELINE = 0.2, 112, 200
_NO_STEPS = (
    "Run starts the job that is chosen on the page Laboratory. Then every micro-op can be visited here."
)


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
    ask_open : AskPath
        Asks for the name of a file to open.
    ask_about_unsaved : callable
        Asks what is to become of a session that would be lost.
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
        ask_open: AskPath = ask_open_path,
        ask_about_unsaved: Callable[[QWidget], Unsaved] = ask_unsaved,
    ) -> None:
        super().__init__()
        self._bridge = bridge
        self._catalog = catalog
        self._fidelity_bridge = fidelity or FidelityBridge(parent=self)
        self._settings = settings
        self._mode = read_mode(settings, mode)
        self._theme = theme_for(self._mode)
        self._told = ("", 0)
        self._noted = 0
        self._opened = 0
        self._seen_job: JobSpec | None = None
        self._may_close = False
        self._split_by_user = False
        self._closing = False
        self.setWindowTitle("slubviz")
        self.commands = action_table.make_actions(self, self._theme)
        self.bar = ControlBar(catalog, self.commands, job)
        self.messages = MessageBar()
        self.welcome = WelcomePage(self.commands["run"])
        self.compiling = CompilePage()
        self.dashboard = Dashboard(self._theme, code_font())
        self.steps = StepsPage(self._theme, self.commands)
        self.no_steps = ActionPage("Nothing to step through yet", self.commands["run"])
        self.fidelity = FidelityPage(self._fidelity_bridge, self.commands, self._theme)
        self.compare_page = ComparePage(self._theme, code_font(), tuple(catalog.kernels))
        self.travel = TravelPane(self._theme)
        self.pages = QStackedWidget()
        self.steps_pages = QStackedWidget()
        self.views = QStackedWidget()
        self.view_tabs = QTabBar()
        self._center = QWidget()
        self.status = StatusStrip(self._theme)
        self._split = QSplitter(Qt.Orientation.Vertical)
        self.talk = TalkControl(self, bridge)
        self.exporter = Exporter(self, self._center, bridge, self._fidelity_bridge, ask_path, self.messages)
        self._menus = action_table.fill_menus(self.menuBar(), self.commands)
        self.control = TravelControl(self, bridge, self.commands, self.travel, self.open_palette)
        self.files = SessionFiles(
            self, bridge, self.commands, settings, ask_path, ask_open, ask_about_unsaved
        )
        self._build()
        self._connect()
        self._apply_theme()
        self.control.set_rate(START_RATE)
        self.show_update(ViewUpdate())
        self._restore_pause_measured()
        self._restore_place()

    @property
    def theme(self) -> Theme:
        """The theme that is shown."""
        return self._theme

    def show_update(self, update: ViewUpdate) -> None:
        """Show an update in all parts."""
        self._adopt(update)
        page = self.views.currentIndex()
        if page == LABORATORY:  # what cannot be seen is drawn when it can
            self.dashboard.show_update(update)
        if page == COMPARE:
            self.compare_page.show_compare(update.travel.compare, update.travel)
        if page == STEPS and update.snapshot is not None:
            self.steps.show_update(update)
        if page != FIDELITY:
            self.travel.show_update(update)
        self.status.show_update(update)
        self.pages.setCurrentWidget(self._page_for(update))
        self.steps_pages.setCurrentWidget(self.no_steps if update.snapshot is None else self.steps)
        self._show_messages(update)
        self._show_note(update)
        self.files.show_update(update)
        self._enable_commands(update)

    def set_mode(self, mode: ThemeMode) -> None:
        """Change the theme."""
        self._mode = mode
        self._theme = theme_for(mode)
        self._apply_theme()
        if self._settings is not None:
            self._settings.setValue("theme", mode.value)

    def close_without_asking(self) -> None:
        """Close, whatever is not saved."""
        self._may_close = True
        if not self._closing:
            self.close()

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._may_close:
            self._closing = True
            self.files.unless_lost(self.close_without_asking)
            self._closing = False
        if not self._may_close:
            event.ignore()
            return
        self._remember()
        # Not waited for here: a compile may take seconds, and the window shall be gone at once.
        self.talk.close()
        self._bridge.shutdown()
        self._fidelity_bridge.shutdown()
        event.accept()

    # Parts

    def _build(self) -> None:
        add_to_menus(self._menus, self.commands, self._catalog, self.files, self.steps)
        for page in (self.welcome, self.compiling, self.dashboard):
            self.pages.addWidget(page)
        laboratory = QWidget()
        inside = QVBoxLayout(laboratory)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(0)
        inside.addWidget(self.bar)
        inside.addWidget(self.pages, 1)
        self.no_steps.set_text(_NO_STEPS)
        self.steps_pages.addWidget(self.no_steps)
        self.steps_pages.addWidget(self.steps)
        for view in (laboratory, self.steps_pages, self.fidelity, self.compare_page):
            self.views.addWidget(view)
        self._split.addWidget(self.views)
        self._split.addWidget(self.travel)
        self._split.setStretchFactor(0, 1)
        self._split.setStretchFactor(1, 0)
        self._split.setChildrenCollapsible(False)
        self._split.setHandleWidth(5)
        self._split.splitterMoved.connect(self._user_split)
        self.setAcceptDrops(True)
        self._build_tabs()
        layout = QVBoxLayout(self._center)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.messages)
        layout.addWidget(self._split, 1)
        self.setCentralWidget(self._center)
        self.setStatusBar(self.status)
        # A fixed smallest size instead of one that follows the layout, which would change with every label.
        frame = self.layout()
        assert frame is not None
        frame.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setMinimumSize(960, 620)
        available = self.screen().availableSize()
        self.resize(min(1440, available.width()), min(860, available.height()))

    def _user_split(self) -> None:
        self._split_by_user = True

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_timeline()

    def _place_timeline(self) -> None:
        # A low window has no room for it beside the laboratory's panels.
        low = self.height() < _LOW_WINDOW and self.views.currentIndex() == LABORATORY
        self.travel.timeline.setVisible(not low)
        if not self._split_by_user:  # shares of the window until the user drags the border
            height = self._split.height()
            wanted = min(max(round(height * _TIMELINE_SHARE), _LOWEST_TIMELINE), _HIGHEST_TIMELINE)
            pane = self.travel.transport.sizeHint().height() + (0 if low else wanted)
            self._split.setSizes([height - pane, pane])

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
        """Show the page Laboratory, Steps or Fidelity."""
        self.views.setCurrentIndex(index)
        self.travel.setVisible(index != FIDELITY)
        self._place_timeline()
        self.view_tabs.setCurrentIndex(index)
        self.commands[_VIEWS[index]].setChecked(True)
        self.show_update(self._bridge.latest)

    @property
    def shows_fidelity(self) -> bool:
        """Whether the fidelity page is in front."""
        return self.views.currentWidget() is self.fidelity

    def _connect(self) -> None:
        self._bridge.updated.connect(self.show_update)
        self.bar.job_changed.connect(lambda _job: self._enable_commands(self._bridge.latest))
        for name, handler in (
            ("run", lambda: self._with_job(self._bridge.run)),
            ("pause", self._bridge.pause),
            ("step", lambda: self._with_job(self._bridge.step)),
            ("reset", lambda: self.files.unless_lost(lambda: self._bridge.reset(self.bar.job()))),
            ("pause_measured", self._pause_measured_chosen),
            ("export_png", lambda: self.exporter.png(self.shows_fidelity)),
            ("export_csv", lambda: self.exporter.csv(self.shows_fidelity)),
            ("quit", self.close),
            ("compare", self._compare),
            ("compare_cancel", self._fidelity_bridge.cancel),
            ("view_laboratory", lambda: self.show_view(LABORATORY)),
            ("view_steps", lambda: self.show_view(STEPS)),
            ("view_fidelity", lambda: self.show_view(FIDELITY)),
            ("view_compare", lambda: self.show_view(COMPARE)),
            ("palette", lambda: self.open_palette("")),
            ("full_screen", self._toggle_full_screen),
            ("reset_panels", self.steps.reset_layout),
            ("talk", lambda: self.talk.open(self._theme)),
            ("keys", lambda: keys_dialog(self).show()),
            ("about", lambda: about_dialog(self).show()),
            ("theme_system", lambda: self.set_mode(ThemeMode.SYSTEM)),
            ("theme_light", lambda: self.set_mode(ThemeMode.LIGHT)),
            ("theme_dark", lambda: self.set_mode(ThemeMode.DARK)),
        ):
            self.commands[name].triggered.connect(_without_argument(handler))
        self.travel.transport.entered.connect(self._focus_page)
        connect_steps(self.steps, self._bridge, self.control)
        connect_compare(
            self.compare_page,
            self.steps.branches,
            self._bridge,
            self.files.choose_session,
            lambda: self.show_view(COMPARE),
        )
        self.fidelity.cell_chosen.connect(self.load_cell)
        self.fidelity.problem.connect(self._show_problem)
        self._fidelity_bridge.updated.connect(lambda _update: self._enable_commands(self._bridge.latest))
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_theme_changed)

    def _focus_page(self) -> None:
        page = self.views.currentWidget()
        if page is not None:
            page.setFocus(Qt.FocusReason.OtherFocusReason)

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
        if update.state is WorkerState.LOADING or update.job != self._seen_job:
            self.messages.clear_notice()  # it is about what was there before
        self._seen_job = update.job
        if new == self._told:
            return
        self._told = new
        if wanted:
            self.messages.show_error(wanted)
        else:
            self.messages.clear()

    def _enable_commands(self, update: ViewUpdate) -> None:
        state = update.state
        changed = update.job is not None and not self._bridge.is_loaded(self.bar.job())
        busy = state is WorkerState.LOADING
        running = state is WorkerState.RUNNING
        ended = state in (WorkerState.FINISHED, WorkerState.FAULTED)
        here = not self.shows_fidelity  # keys do nothing to a run that is out of sight, but Pause
        self.commands["run"].setEnabled(here and ((not running and not busy) or changed))
        self.commands["pause"].setEnabled(running or state is WorkerState.MOVING)
        self.commands["step"].setEnabled(here and not busy and (not ended or changed))
        self.commands["reset"].setEnabled(here and ((update.job is not None and not busy) or changed))
        compared = self._fidelity_bridge.latest.comparison
        cells = update.results if here else compared.cells if compared else ()
        self.commands["export_csv"].setEnabled(bool(cells))
        self.commands["export_png"].setEnabled(here or bool(cells))
        self.status.show_hint("The choice has changed: Run or Reset starts it." if changed else "")
        self.control.enable(update, here)

    def _with_job(self, act: Callable[[JobSpec], None]) -> None:
        """Do something with the chosen job; ask first if another session would be lost by it."""
        job = self.bar.job()
        if self._bridge.keeps(job):
            act(job)
        else:
            self.files.unless_lost(lambda: act(job))

    def _adopt(self, update: ViewUpdate) -> None:
        """A session file or scenario has been opened: the bar shows its job, and Run goes on with it."""
        travel = update.travel
        if travel.opened_serial == self._opened or update.job is None:
            return
        self._opened = travel.opened_serial
        self.messages.clear_notice()
        self.bar.set_job(update.job)
        self._bridge.adopt(self.bar.job())
        self.setWindowTitle(f"{travel.title} – slubviz" if travel.title else "slubviz")
        self.show_view(STEPS)

    def _show_note(self, update: ViewUpdate) -> None:
        """What the last movement found goes beside the state."""
        travel = update.travel
        if travel.note_serial != self._noted:
            self._noted = travel.note_serial
        self.status.show_note(travel.note)

    # Palette and full screen

    def open_palette(self, text: str) -> None:
        """Open the command palette with something typed already."""
        palette_for(self, self._bridge, self.commands, self._catalog, self.files, self._show_source, text)

    def _show_source(self, file: str, line: int) -> None:
        self.show_view(STEPS)
        self.steps.show_source(file, line)

    def _toggle_full_screen(self) -> None:
        if self.commands["full_screen"].isChecked():
            self.showFullScreen()
        else:
            self.showNormal()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if self.files.dropped_path(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        self.files.open_dropped(event.mimeData())

    # Fidelity

    def _compare(self) -> None:
        self.show_view(FIDELITY)
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
        self.show_view(LABORATORY)
        if self._bridge.latest.state is not WorkerState.RUNNING:
            self.files.unless_lost(lambda: self._bridge.reset(job))

    # Theme and place

    def _pause_measured_chosen(self) -> None:
        wanted = self.commands["pause_measured"].isChecked()
        self._bridge.set_pause_measured(wanted)
        if self._settings is not None:
            self._settings.setValue("pause_measured", wanted)

    def _restore_pause_measured(self) -> None:
        if self._settings is not None:
            wanted = read_flag(self._settings, "pause_measured", True)
            self.commands["pause_measured"].setChecked(wanted)
            self._bridge.set_pause_measured(wanted)

    def _restore_place(self) -> None:
        if self._settings is None:
            return
        restore_bytes(self._settings, "geometry", self.restoreGeometry)
        restore_bytes(self._settings, "steps_layout", self.steps.restore_layout)
        self._split_by_user = restore_bytes(self._settings, "timeline_split", self._split.restoreState)
        self.show_view(read_index(self._settings, "page", self.views.count()))

    def _remember(self) -> None:
        if self._settings is None:
            return
        self._settings.setValue("geometry", self.saveGeometry())
        self._settings.setValue("page", self.views.currentIndex())
        self._settings.setValue("steps_layout", self.steps.layout_bytes())
        if self._split_by_user:
            self._settings.setValue("timeline_split", self._split.saveState())

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
        self.steps.set_theme(self._theme)
        self.compare_page.set_theme(self._theme)
        self.talk.set_theme(self._theme)
        self.travel.set_theme(self._theme)
        self.fidelity.set_theme(self._theme)
        self.status.set_theme(self._theme)


def _without_argument(handler: Callable[[], object]) -> Callable[..., None]:
    # QAction.triggered passes whether it is checked.
    def call(*_checked: bool) -> None:
        handler()

    return call
