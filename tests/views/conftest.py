"""Widgets are tested without a display, with a session that makes up its pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from slubviz.views.app import configured_application
from slubviz.views.bridge import Bridge
from slubviz.views.job import JobSpec
from slubviz.views.main_window import MainWindow
from slubviz.views.session_files import Unsaved
from slubviz.views.theme_mode import ThemeMode
from tests.views.fake_session import FakeSession, fake_catalog, fake_job


@pytest.fixture(scope="session")
def qapp_cls() -> type[QApplication]:
    return QApplication


@pytest.fixture(autouse=True)
def _application(qapp: QApplication) -> None:
    configured_application()


class Lab:
    """A window with its bridge, and every session that it made."""

    def __init__(
        self, qtbot: QtBot, job: JobSpec, prepare: Callable[[FakeSession], None] | None = None
    ) -> None:
        self.qtbot = qtbot
        self.sessions: list[FakeSession] = []
        self._prepare = prepare
        self.saved_path = ""
        self.opened_path = ""
        self.unsaved = Unsaved.DISCARD
        self.bridge = Bridge(self._make)
        self.window = MainWindow(
            self.bridge,
            fake_catalog(),
            job,
            ThemeMode.LIGHT,
            ask_path=lambda *_: self.saved_path,
            ask_open=lambda *_: self.opened_path,
            ask_about_unsaved=lambda _window: self.unsaved,
        )
        self.window.resize(1280, 720)
        self.window.show()
        self.bridge.start()

    @property
    def session(self) -> FakeSession:
        """The newest session."""
        return self.sessions[-1]

    def do(self, *names: str) -> None:
        """Trigger commands in order."""
        for name in names:
            self.window.commands[name].trigger()

    def until(self, condition: Callable[[], bool]) -> None:
        """Let the window live until a condition holds."""
        self.qtbot.waitUntil(condition, timeout=15_000)

    def _make(self, job: JobSpec) -> FakeSession:
        session = FakeSession(job)
        if self._prepare is not None:
            self._prepare(session)
        self.sessions.append(session)
        return session


@pytest.fixture
def make_lab(qtbot: QtBot) -> Iterator[Callable[..., Lab]]:
    """Makes windows and closes them; a worker that does not end is a failure."""
    labs: list[Lab] = []

    def make(job: JobSpec | None = None, prepare: Callable[[FakeSession], None] | None = None) -> Lab:
        labs.append(Lab(qtbot, job or fake_job(), prepare))
        return labs[-1]

    yield make
    for lab in labs:
        lab.window.close()
        assert lab.bridge.shutdown(wait_seconds=10.0), "the session's thread did not end"
        lab.window.deleteLater()
        lab.bridge.deleteLater()
    QApplication.sendPostedEvents(None, int(QEvent.Type.DeferredDelete))
