"""Machines and kernels that are the user's own files, in the bar."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from pytestqt.qtbot import QtBot

from slubviz.model.errors import RequestError
from slubviz.views.control_bar import ControlBar
from slubviz.views.job import JobSpec
from tests.views.fake_session import SIZES, fake_catalog, fake_job

_COMMANDS = ("run", "pause", "step", "reset")


def bar_of(qtbot: QtBot, job: JobSpec, gone: set[str]) -> ControlBar:
    def points(machine: str, test: str) -> tuple[int, ...]:
        if machine in gone:
            raise RequestError(f"machine file {machine} does not exist or is not a file")
        return tuple(SIZES)

    catalog = replace(fake_catalog(), points=points)
    bar = ControlBar(catalog, {name: QAction(name) for name in _COMMANDS}, job)
    qtbot.addWidget(bar)
    return bar


def test_a_machine_file_that_has_gone_can_be_chosen_and_told_later(qtbot: QtBot) -> None:
    gone: set[str] = set()
    bar = bar_of(qtbot, fake_job(machine="/home/me/mine.toml"), gone)
    own = bar.machine.currentIndex()
    bar.machine.setCurrentIndex(0)
    gone.add("/home/me/mine.toml")
    told: list[JobSpec] = []
    bar.job_changed.connect(told.append)
    bar.machine.setCurrentIndex(own)
    assert [job.machine for job in told] == ["/home/me/mine.toml"]
    assert told[0].sizes
    bar.machine.setCurrentIndex(0)  # and the bar goes on to tell
    assert [job.machine for job in told] == ["/home/me/mine.toml", "e5345_8p"]


def test_a_path_is_shown_as_the_file_name_with_the_path_as_tip(qtbot: QtBot) -> None:
    bar = bar_of(qtbot, fake_job(kernel="/a/long/way/to/my_slub.py"), set())
    assert bar.kernel.currentText() == "my_slub.py"
    assert bar.kernel.currentData(Qt.ItemDataRole.ToolTipRole) == "/a/long/way/to/my_slub.py"
    assert bar.job().kernel == "/a/long/way/to/my_slub.py"


def test_operations_of_the_command_line_are_not_cut(qtbot: QtBot) -> None:
    assert bar_of(qtbot, fake_job(ops=5_000_000), set()).job().ops == 5_000_000
