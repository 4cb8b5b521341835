"""Time travel as a user works it: keys, palette, bar, timeline, files, what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QSettings, Qt, QUrl
from pytestqt.qtbot import QtBot

from slubviz.model.travel.changes import Inject, Migrate, SetOption, WriteWord
from slubviz.views import actions
from slubviz.views import commands as C
from slubviz.views.bridge import Bridge
from slubviz.views.change_dialogs import (
    BookmarkDialog,
    EditDialog,
    InjectDialog,
    MigrateDialog,
    parse_integer,
)
from slubviz.views.main_window import FIDELITY, LABORATORY, STEPS, MainWindow
from slubviz.views.move_texts import MOVE_WORDS
from slubviz.views.palette import Palette
from slubviz.views.session_files import Unsaved
from slubviz.views.speed import BackPacer, neighbour
from slubviz.views.theme_mode import ThemeMode
from slubviz.views.view_update import WorkerState
from tests.views.conftest import Lab
from tests.views.fake_session import FakeSession, fake_catalog, fake_job

MakeLab = Callable[..., Lab]
LONG = fake_job(ops=100_000)


def position(lab: Lab) -> int:
    return lab.bridge.latest.travel.position


def record(lab: Lab, micro_ops: int) -> None:
    """Load the job, record, and stand at the end of that."""
    lab.do("step")
    lab.until(lambda: lab.bridge.latest.travel.exists and position(lab) == 1)
    lab.session.run(micro_ops - 1)
    lab.bridge.send(C.Seek(micro_ops))
    lab.until(lambda: position(lab) == micro_ops)


def palette_of(lab: Lab) -> Palette:
    found = [palette for palette in lab.window.findChildren(Palette) if palette.isVisible()]
    assert len(found) == 1
    return found[0]


def test_only_what_makes_sense_is_enabled(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    commands = lab.window.commands
    for name in ("step_back", "go_line", "inject", "bookmark", "go_to", "save_session", "cancel", "go_end"):
        assert not commands[name].isEnabled(), name
    for name in ("open_session", "palette", "open_scenario", "view_steps", "full_screen"):
        assert commands[name].isEnabled(), name
    record(lab, 50)
    assert commands["step_back"].isEnabled()
    assert commands["back_retry"].isEnabled()
    assert not commands["go_end"].isEnabled()  # it is there
    lab.do("go_start")
    lab.until(lambda: position(lab) == 0)
    assert not commands["step_back"].isEnabled()
    assert not commands["run_back"].isEnabled()
    assert not commands["back_line"].isEnabled()
    assert commands["go_end"].isEnabled()
    lab.do("view_fidelity")
    assert not commands["go_end"].isEnabled()
    assert not lab.window.travel.isVisible()


def test_step_back_and_go_end_by_their_keys(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 20)
    lab.window.activateWindow()
    lab.until(lab.window.isActiveWindow)
    lab.qtbot.keyClick(lab.window, Qt.Key.Key_F10, Qt.KeyboardModifier.ShiftModifier)
    lab.until(lambda: position(lab) == 19)
    lab.qtbot.keyClick(lab.window, Qt.Key.Key_Home)
    lab.until(lambda: position(lab) == 0)
    lab.qtbot.keyClick(lab.window, Qt.Key.Key_End)
    lab.until(lambda: position(lab) == 20)


def test_the_bar_and_the_timeline_move_the_run(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 400)
    pane = lab.window.travel
    pane.transport.buttons["step_back"].click()
    lab.until(lambda: position(lab) == 399)
    pane.transport.buttons["to_start"].click()
    lab.until(lambda: position(lab) == 0)
    pane.timeline.scrubbed.emit(123)
    lab.until(lambda: position(lab) == 123)
    pane.timeline.seek.emit(200)
    lab.until(lambda: position(lab) == 200)
    pane.transport.play.emit(-1)
    lab.until(lambda: position(lab) == 0)
    assert lab.bridge.latest.travel.end == 400


def test_a_storm_of_scrubs_ends_at_the_last(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 4000)
    lab.session.seek_seconds = 0.02
    for number in range(200):
        lab.window.travel.timeline.scrubbed.emit(number * 10)
    lab.until(lambda: position(lab) == 1990)
    assert lab.window.status.state_text == "Paused"


def test_every_command_can_be_found_in_the_palette(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    lab.do("palette")
    palette = palette_of(lab)
    for spec in actions.ACTIONS:
        if spec.id == "palette":
            continue
        text = f"{spec.menu.replace('&', '')}: {actions.plain_text(spec)}"
        palette.ask(text)
        assert palette.texts[0] == text
    palette.close()


def test_the_palette_triggers_commands_and_goes_to_places(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 300)
    lab.do("palette")
    palette = palette_of(lab)
    palette.ask("step back")
    assert palette.texts[0] == "Run: Step back"
    lab.qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    lab.until(lambda: position(lab) == 299)
    lab.do("go_to")
    palette = palette_of(lab)
    lab.qtbot.keyClicks(palette.field, "1 23")
    assert palette.texts[:2] == ["Go to micro-op 123", "Go to cycle 123"]
    lab.qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    lab.until(lambda: position(lab) == 123)


def test_the_palette_offers_bookmarks_branches_and_scenarios(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 300)
    lab.bridge.send(C.AddBookmark("the retry"))
    lab.bridge.send(C.Seek(100))
    lab.until(lambda: position(lab) == 100 and bool(lab.bridge.latest.travel.bookmarks))
    lab.bridge.send(C.Apply(WriteWord(64, 1)))
    lab.until(lambda: len(lab.bridge.latest.travel.branches) == 2)
    lab.do("palette")
    palette = palette_of(lab)
    palette.ask("branch: first")
    assert palette.texts[0] == "Branch: first"
    palette.ask("scenario aba")
    assert palette.texts[0] == "Scenario: The ABA"
    palette.ask("the retry")
    assert palette.texts[0] == "Bookmark: the retry"
    lab.qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    lab.until(lambda: position(lab) == 300)
    assert lab.bridge.latest.travel.branch.number == 0  # type: ignore[union-attr]


def test_bookmarks_of_the_way_to_the_cursor_are_visited_in_order(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 300)
    for place in (100, 200, 250):
        lab.bridge.send(C.Seek(place))
        lab.until(lambda place=place: position(lab) == place)
        lab.bridge.send(C.AddBookmark(f"at {place}"))
        lab.until(lambda place=place: any(m.position == place for m in lab.bridge.latest.travel.bookmarks))
    lab.do("back_bookmark")
    lab.until(lambda: position(lab) == 200)
    lab.bridge.send(C.Apply(WriteWord(64, 1)))  # a fork: the bookmark at 250 is in another future
    lab.until(lambda: len(lab.bridge.latest.travel.branches) == 2)
    assert not lab.window.commands["go_bookmark"].isEnabled()
    lab.do("back_bookmark")
    lab.until(lambda: position(lab) == 100)
    assert lab.bridge.latest.travel.branch.number == 1  # type: ignore[union-attr]
    lab.do("go_bookmark")
    lab.until(lambda: position(lab) == 200)


def test_a_bookmark_is_asked_for_its_name(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 30)
    lab.do("bookmark")
    dialog = lab.window.findChild(BookmarkDialog)
    assert dialog.name.text() == "micro-op 30"
    dialog.name.setText("  ")
    assert dialog.complaint == "A bookmark needs a name."
    assert not dialog.accept_button.isEnabled()
    dialog.name.setText("here")
    dialog.note.setPlainText("look at CPU 3")
    dialog.accept_button.click()
    lab.until(lambda: bool(lab.bridge.latest.travel.bookmarks))
    mark = lab.bridge.latest.travel.bookmarks[0]
    assert (mark.branch, mark.position, mark.name, mark.note) == (0, 30, "here", "look at CPU 3")


def test_clicking_through_an_interrupt_forks_and_the_other_future_can_be_reached(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 300)
    lab.bridge.send(C.Seek(150))
    lab.until(lambda: position(lab) == 150)
    lab.bridge.send(C.Apply(Inject(0, "irq_alloc", (64,))))
    lab.until(lambda: len(lab.bridge.latest.travel.branches) == 2)
    assert lab.window.travel.transport.side_text() == "branch 1"
    assert "a new branch" in lab.window.status.hint_text


# --- dialogs -----------------------------------------------------------------------------------------


class Handler:
    def __init__(self, name: str, title: str, *parameters: str) -> None:
        self.name, self.title, self.parameters = name, title, parameters


HANDLERS: Any = [Handler("irq_nothing", "nothing"), Handler("irq_burst", "a burst", "count", "size")]


def test_the_interrupt_dialog_makes_once_periodic_and_random_interrupts(qtbot: QtBot) -> None:
    dialog = InjectDialog(HANDLERS, 8, 5)
    qtbot.addWidget(dialog)
    made: list[Any] = []
    dialog.chosen.connect(made.append)
    assert dialog.result_or_complaint() == Inject(5, "irq_nothing")
    dialog.handler.setCurrentIndex(1)
    dialog.arguments[0].setText("7")
    dialog.arguments[1].setText("0x80")
    assert dialog.result_or_complaint() == Inject(5, "irq_burst", (7, 128))
    dialog.often.setCurrentIndex(1)
    dialog.period.setText("2 500")
    dialog.count.setText("0")
    assert dialog.result_or_complaint() == Inject(5, "irq_burst", (7, 128), 2500.0, count=0)
    dialog.often.setCurrentIndex(2)
    dialog.spread.setText("300")
    dialog.seed.setText("42")
    dialog.cpu.setCurrentIndex(1)
    dialog.accept_button.click()
    assert made == [Inject(1, "irq_burst", (7, 128), 2500.0, 300.0, 42, 0)]


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("period", "0", "period"),
        ("period", "x", "period"),
        ("count", "-1", "How many"),
        ("seed", "-3", "seed"),
    ],
)
def test_the_interrupt_dialog_refuses_nonsense(qtbot: QtBot, field: str, text: str, words: str) -> None:
    dialog = InjectDialog(HANDLERS, 2, 0)
    qtbot.addWidget(dialog)
    dialog.often.setCurrentIndex(2)
    assert dialog.complaint == ""
    getattr(dialog, field).setText(text)
    assert words in dialog.complaint
    assert not dialog.accept_button.isEnabled()


def test_without_handlers_the_dialog_says_so(qtbot: QtBot) -> None:
    dialog = InjectDialog([], 2, 0)
    qtbot.addWidget(dialog)
    assert "no interrupt handlers" in dialog.complaint


def test_the_edit_dialog_makes_words_and_options(qtbot: QtBot) -> None:
    dialog = EditDialog((), 0, 0x4010)
    qtbot.addWidget(dialog)
    dialog.value.setText("0xff")
    assert dialog.result_or_complaint() == WriteWord(0x4010, 255, 8)
    dialog.word_bytes.setCurrentIndex(1)
    assert dialog.result_or_complaint() == WriteWord(0x4010, 255, 4)
    dialog.what.setCurrentIndex(2)
    assert "Option" in dialog.complaint
    dialog.option.setText("MIN_PARTIAL")
    assert dialog.result_or_complaint() == SetOption("MIN_PARTIAL", 255)
    dialog.what.setCurrentIndex(1)
    assert dialog.complaint == "No variable is live where this CPU is"


def test_a_task_cannot_move_to_where_it_is(qtbot: QtBot) -> None:
    dialog = MigrateDialog(4, 2)
    qtbot.addWidget(dialog)
    assert dialog.result_or_complaint() == Migrate(2, 0)
    dialog.target.setCurrentIndex(2)
    assert dialog.complaint == "It is there already."


def test_numbers_are_read_as_they_are_written_here() -> None:
    assert parse_integer("1\u202f234") == 1234
    assert parse_integer("1,234 567") == 1234567
    assert parse_integer("0x1F") == 31
    assert parse_integer("-5") == -5
    for bad in ("", "abc", "1.5", "0x", "9" * 40):
        assert parse_integer(bad) is None


# --- files -------------------------------------------------------------------------------------------


def test_closing_asks_about_what_is_not_saved(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 30)
    lab.bridge.send(C.AddBookmark("x"))
    lab.until(lambda: lab.bridge.latest.travel.unsaved)
    lab.unsaved = Unsaved.CANCEL
    lab.window.close()
    assert lab.window.isVisible()
    lab.do("reset")
    assert position(lab) == 30
    lab.unsaved = Unsaved.SAVE  # no name is given: nothing is lost
    lab.window.close()
    assert lab.window.isVisible()
    lab.unsaved = Unsaved.DISCARD
    lab.window.close()
    assert not lab.window.isVisible()


def test_dropped_files_are_told_apart(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    for name, wanted in (("a.slubviz", True), ("b.toml", True), ("c.png", False)):
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(f"/some/{name}")])
        assert bool(lab.window.files.dropped_path(data)) == wanted
    other = QMimeData()
    other.setText("text")
    assert lab.window.files.dropped_path(other) == ""


def test_an_unreadable_file_is_one_message_and_the_run_stays(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 40)
    lab.opened_path = "/no/such.slubviz"
    lab.do("open_session")
    lab.until(lambda: lab.window.messages.kind == "error" and lab.window.messages.text != "")
    assert position(lab) == 40


def test_page_and_panels_and_recent_files_are_remembered(qtbot: QtBot, tmp_path: Path) -> None:
    settings = QSettings(f"{tmp_path}/settings.ini", QSettings.Format.IniFormat)

    def window() -> MainWindow:
        made = MainWindow(Bridge(FakeSession), fake_catalog(), fake_job(), ThemeMode.LIGHT, settings)
        qtbot.addWidget(made)
        made.resize(1280, 760)
        made.show()
        return made

    first = window()
    assert first.views.currentIndex() == LABORATORY
    first.show_view(STEPS)
    first.steps.docks["locks"].setVisible(False)
    first.files.open_session("/some/where.slubviz")
    first.close()
    second = window()
    assert second.views.currentIndex() == STEPS
    assert second.steps.docks["locks"].isHidden()
    assert not second.steps.docks["slabs"].isHidden()
    assert second.files.recent() == ["/some/where.slubviz"]
    second.commands["reset_panels"].trigger()
    assert not second.steps.docks["locks"].isHidden()
    second.close()
    settings.setValue("page", "seven")
    settings.setValue("steps_layout", "nonsense")
    settings.setValue("recent_sessions", 5)
    third = window()
    assert third.views.currentIndex() in (LABORATORY, STEPS, FIDELITY)
    assert third.files.recent() == []
    third.close()


# --- words and speeds --------------------------------------------------------------------------------


def test_every_movement_has_words_and_commands_in_both_directions() -> None:
    from slubviz.model.travel.movements import Move

    assert set(MOVE_WORDS) == {str(move) for move in Move} - {"start", "end"}
    ids = {spec.id for spec in actions.ACTIONS}
    for kind in set(MOVE_WORDS) - {"micro_op"}:
        assert {f"go_{kind}", f"back_{kind}"} <= ids


def test_the_next_speed_is_on_the_scale() -> None:
    assert neighbour(200_000.0, +1) == 500_000.0
    assert neighbour(200_000.0, -1) == 100_000.0
    assert neighbour(150.0, +1) == 200.0
    assert neighbour(1.0, -1) == 1.0
    assert neighbour(float("inf"), +1) == float("inf")
    assert neighbour(float("inf"), -1) == 50e6


def test_going_back_keeps_the_rate_on_the_whole() -> None:
    pacer = BackPacer(90.0)
    total, now = 0, 0.0
    while now < 2.0:
        total += pacer.due(now, 10**6)
        now += 0.005
    assert abs(total - 180) <= 5
    fast = BackPacer()
    assert fast.due(0.0, 3_000_000) == 1
    assert fast.due(0.01, 3_000_000) == 0
    assert fast.due(0.05, 3_000_000) == 15_000  # a two-hundredth of ten seconds


def test_states_are_named(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 3000)
    lab.window.control.set_rate(1000.0)
    lab.do("run_back")
    lab.until(lambda: lab.bridge.latest.travel.direction == -1)
    assert lab.window.status.state_text == "Running backwards"
    lab.do("pause")
    lab.until(lambda: lab.bridge.latest.state is WorkerState.PAUSED)
    assert position(lab) < 3000


# --- scenarios, talk, comparison ----------------------------------------------------------------------


def scenario_update(step: int) -> Any:
    """An update of a run that came from a scenario, standing at a step."""
    from slubviz.views.travel_view import ScenarioView, TravelView
    from tests.views.helpers import update_with

    session = FakeSession(fake_job())
    session.run(200)
    steps: Any = tuple(Slide(place, f"caption {place}") for place in (0, 50, 200))
    scenario = ScenarioView("aba", "The ABA", "summary", steps, step)
    travel = TravelView(
        position=200, end=200, branch=session.branch, branches=session.branches, scenario=scenario
    )
    from dataclasses import replace

    return replace(update_with(session.snapshot()), travel=travel)


class Slide:
    def __init__(self, place: int, caption: str) -> None:
        self.position, self.caption, self.cpu, self.focus = place, caption, 0, None


def test_captions_stand_above_the_source_and_keys_walk_them(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    lab.do("view_steps")
    assert lab.window.steps.caption.text == ""
    lab.window.show_update(scenario_update(1))
    assert lab.window.steps.caption.text == "caption 50"
    commands = lab.window.commands
    assert commands["scenario_next"].isEnabled()
    assert commands["scenario_back"].isEnabled()
    lab.window.show_update(scenario_update(2))
    assert lab.window.steps.caption.text == "caption 200"
    assert not commands["scenario_next"].isEnabled()
    lab.window.show_update(scenario_update(0))
    assert not commands["scenario_back"].isEnabled()
    assert actions_by_key()["PgDown"] == "scenario_next"
    assert actions_by_key()["PgUp"] == "scenario_back"


def actions_by_key() -> dict[str, str]:
    return {spec.shortcut: spec.id for spec in actions.ACTIONS if spec.shortcut}


def test_the_talk_opens_follows_and_closes_with_the_window(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    lab.window.show_update(scenario_update(1))
    assert lab.window.commands["talk"].isEnabled()
    lab.do("talk")
    view = lab.window.talk.view
    assert view is not None
    assert view.isVisible()
    lab.bridge.updated.emit(scenario_update(2))
    assert view.caption.text == "caption 200"
    lab.qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert lab.window.talk.view is None
    lab.window.show_update(scenario_update(2))
    lab.do("talk")
    lab.window.close()
    assert lab.window.talk.view is None


def test_comparing_shows_the_page_and_an_empty_one_at_first(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(LONG)
    record(lab, 100)
    lab.do("view_compare")
    assert lab.window.views.currentWidget() is lab.window.compare_page
    assert lab.window.travel.isVisible()
    lab.do("view_steps")
    sent: list[C.Command] = []
    monkeypatch.setattr(lab.bridge, "_worker", SimpleNamespace(send=sent.append))
    lab.window.steps.branches.compared.emit(0)
    monkeypatch.undo()
    assert sent == [C.CompareBranch(0)]
    assert lab.window.views.currentWidget() is lab.window.compare_page


def test_letters_that_are_keys_can_be_typed_in_fields(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 100)
    lab.window.activateWindow()
    lab.until(lab.window.isActiveWindow)
    field = lab.window.travel.transport.speed_field.field
    field.setFocus()
    field.clear()
    lab.qtbot.keyClicks(field, "insrlpmab0")
    assert field.text() == "insrlpmab0"
    assert position(lab) == 100
    assert not lab.window.findChildren(BookmarkDialog)


@pytest.mark.parametrize("name", ["speed", "position"])
def test_after_return_in_a_field_the_keys_are_commands_again(make_lab: MakeLab, name: str) -> None:
    lab = make_lab(LONG)
    record(lab, 100)
    lab.do("view_steps")
    lab.window.activateWindow()
    lab.until(lab.window.isActiveWindow)
    bar = lab.window.travel.transport
    field = bar.speed_field.field if name == "speed" else bar.position
    field.setFocus()
    field.selectAll()
    lab.qtbot.keyClicks(field, "nonsense")
    lab.qtbot.keyClick(field, Qt.Key.Key_Return)
    assert field.hasFocus()  # it is wrong, and to be mended
    field.selectAll()
    lab.qtbot.keyClicks(field, "50")
    lab.qtbot.keyClick(field, Qt.Key.Key_Return)
    page = lab.window.views.currentWidget()
    assert page is not None
    assert page.hasFocus()
    if name == "position":
        lab.until(lambda: position(lab) == 50)
    else:
        assert lab.window.control.rate == 50.0
    lab.qtbot.keyClick(page, Qt.Key.Key_M)
    lab.until(lambda: bool(lab.window.findChildren(BookmarkDialog)))


def test_a_size_in_the_interrupt_dialog_is_that_of_the_run(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(fake_job(ops=100_000, sizes=(512,)))
    record(lab, 10)
    program = SimpleNamespace(handlers=HANDLERS)
    latest = lab.bridge.latest
    seen = replace(latest, travel=replace(latest.travel, program=program))  # type: ignore[arg-type]
    monkeypatch.setattr(Bridge, "latest", property(lambda _self: seen))
    lab.window.control.ask_interrupt()
    monkeypatch.undo()
    (dialog,) = lab.window.findChildren(InjectDialog)
    dialog.handler.setCurrentIndex(1)
    assert [field.text() for field in dialog.arguments[:2]] == ["4", "512"]
    dialog.reject()


def test_what_was_saved_is_told_until_another_run_comes(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    record(lab, 10)
    lab.window.messages.show_notice("Saved x.png")
    lab.do("step")
    lab.until(lambda: position(lab) == 11)
    assert lab.window.messages.text == "Saved x.png"
    lab.bridge.reset(fake_job(ops=200_000))
    lab.until(lambda: position(lab) == 0)
    assert lab.window.messages.text == ""
    lab.window.messages.show_error("wrong")
    lab.bridge.reset(fake_job(ops=300_000))
    lab.until(lambda: lab.bridge.latest.job == fake_job(ops=300_000) and position(lab) == 0)
    assert lab.window.messages.text == "wrong"
