"""Opens the talk, feeds it with updates and obeys it; knows no more of the window than its screen."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from slubviz.views import commands as C
from slubviz.views.bridge import Bridge
from slubviz.views.talk_view import TalkView
from slubviz.views.theme import Theme
from slubviz.views.view_update import ViewUpdate


class TalkControl(QObject):
    """One talk at a time."""

    def __init__(self, window: QWidget, bridge: Bridge) -> None:
        super().__init__(window)
        self._window = window
        self._bridge = bridge
        self.view: TalkView | None = None
        bridge.updated.connect(self._show_update)

    def open(self, theme: Theme) -> TalkView:
        """Show the talk on the whole screen on which the window is."""
        view = self.view
        if view is None:
            view = self.view = TalkView(theme)
            view.step.connect(lambda by: self._bridge.send(C.ScenarioStep(int(by))))
            view.closed.connect(self._closed)
            view.setGeometry(self._window.screen().geometry())
            view.show_update(self._bridge.latest)
        view.showFullScreen()
        view.activateWindow()
        return view

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        if self.view is not None:
            self.view.set_theme(theme)

    def close(self) -> None:
        """End the talk, e.g. because the window closes."""
        if self.view is not None:
            self.view.close()

    def _closed(self) -> None:
        view, self.view = self.view, None
        if view is not None:
            view.deleteLater()
            self._window.activateWindow()

    def _show_update(self, update: ViewUpdate) -> None:
        if self.view is not None:
            self.view.show_update(update)
