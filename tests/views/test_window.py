"""The window as a user works it: run, pause, step, reset, in sane and in odd orders."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QLabel, QWidget

from slubviz.views.theme import DARK, LIGHT
from slubviz.views.worker import WorkerState
from tests.views.conftest import Lab
from tests.views.fake_session import FakeSession, fake_job
from tests.views.helpers import update_with

MakeLab = Callable[..., Lab]
LONG = fake_job(ops=1_000_000)


def state(lab: Lab) -> WorkerState:
    return lab.bridge.latest.state


def micro_ops(lab: Lab) -> int:
    snapshot = lab.bridge.latest.snapshot
    return -1 if snapshot is None else snapshot.micro_ops


def enabled(lab: Lab) -> set[str]:
    return {
        name
        for name in ("run", "pause", "step", "reset", "export_csv")
        if lab.window.commands[name].isEnabled()
    }


def test_first_start_says_what_to_do_and_only_what_makes_sense_is_enabled(make_lab: MakeLab) -> None:
    lab = make_lab()
    assert lab.window.pages.currentWidget() is lab.window.welcome
    texts = " ".join(label.text() for label in lab.window.welcome.findChildren(QLabel))
    assert "Choose a machine" in texts
    assert "F5" in texts
    assert enabled(lab) == {"run", "step"}
    assert lab.sessions == []
    lab.qtbot.mouseClick(lab.window.welcome.button, Qt.MouseButton.LeftButton)
    lab.until(lambda: state(lab) is WorkerState.FINISHED)


def test_run_to_the_end_shows_everything(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.do("run")
    lab.until(lambda: state(lab) is WorkerState.FINISHED)
    assert lab.window.pages.currentWidget() is lab.window.dashboard
    assert lab.window.status.state_text == "Finished"
    lab.until(lambda: [row[0] for row in lab.window.dashboard.results.rows] == ["D  kmalloc", "D  kfree"])
    assert micro_ops(lab) == 2 * 200 * 8 * 12
    assert enabled(lab) == {"run", "reset", "export_csv"}


def test_run_after_the_end_starts_anew(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.do("run")
    lab.until(lambda: state(lab) is WorkerState.FINISHED)
    lab.do("run")
    lab.until(lambda: lab.session.seeks == [0] and state(lab) is WorkerState.FINISHED)
    assert len(lab.sessions) == 1
    lab.until(lambda: len(lab.window.dashboard.results.rows) == 2)


def test_pause_stops_and_run_goes_on(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    lab.do("run")
    lab.until(lambda: state(lab) is WorkerState.RUNNING and micro_ops(lab) > 0)
    assert "pause" in enabled(lab)
    assert "run" not in enabled(lab)
    lab.do("pause")
    lab.until(lambda: state(lab) is WorkerState.PAUSED)
    stopped = micro_ops(lab)
    assert lab.session.micro_ops == stopped
    lab.do("run")
    lab.until(lambda: micro_ops(lab) > stopped)


def test_step_is_one_micro_op(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.do("step")
    lab.until(lambda: state(lab) is WorkerState.PAUSED and micro_ops(lab) == 1)
    lab.do("step", "step", "step")
    lab.until(lambda: micro_ops(lab) == 4)
    assert lab.session.calls.count("step") == 4
    assert "run" not in lab.session.calls


def test_step_while_running_pauses(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    lab.do("run")
    lab.until(lambda: micro_ops(lab) > 0)
    lab.do("step")
    lab.until(lambda: state(lab) is WorkerState.PAUSED)
    assert lab.session.calls.count("step") == 1
    assert lab.session.micro_ops == micro_ops(lab)


def test_reset_goes_back_to_the_start(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    lab.do("run")
    lab.until(lambda: micro_ops(lab) > 0)
    lab.do("reset")
    lab.until(lambda: state(lab) is WorkerState.PAUSED and micro_ops(lab) == 0)
    assert lab.session.calls.count("boot") == 2
    assert len(lab.sessions) == 1


@pytest.mark.parametrize(
    "order",
    [
        ("run", "run", "run"),
        ("step", "run", "pause", "run"),
        ("run", "pause", "reset", "step", "run"),
        ("reset", "reset", "run"),
        ("run", "step", "reset", "run", "pause", "step", "run"),
    ],
)
def test_clicks_faster_than_the_worker_end_in_a_running_job(
    make_lab: MakeLab, order: tuple[str, ...]
) -> None:
    lab = make_lab(LONG)
    for name in order:  # past disabled buttons, as a key in the same instant would be
        {
            "run": lambda: lab.bridge.run(lab.window.bar.job()),
            "pause": lab.bridge.pause,
            "step": lambda: lab.bridge.step(lab.window.bar.job()),
            "reset": lambda: lab.bridge.reset(lab.window.bar.job()),
        }[name]()
    lab.until(lambda: state(lab) is WorkerState.RUNNING and micro_ops(lab) > 0)
    assert len(lab.sessions) == 1


def test_pause_and_step_without_a_session_do_no_harm(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.bridge.pause()
    lab.do("step", "pause")
    lab.until(lambda: micro_ops(lab) == 1)
    assert lab.window.messages.text == ""


def test_all_calls_come_from_one_other_thread(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.do("step", "run")
    lab.until(lambda: state(lab) is WorkerState.FINISHED)
    assert len(lab.session.threads) == 1
    assert threading.get_ident() not in lab.session.threads


def test_compiling_is_said_and_the_window_lives(make_lab: MakeLab) -> None:
    gate = threading.Event()
    lab = make_lab(prepare=lambda session: setattr(session, "boot_gate", gate))
    lab.do("run")
    lab.until(lambda: state(lab) is WorkerState.LOADING)
    assert lab.window.pages.currentWidget() is lab.window.compiling
    assert lab.window.compiling.text == "Compiling…"
    assert lab.window.status.state_text == "Compiling…"
    assert enabled(lab) == set()
    lab.do("theme_dark")
    assert lab.window.theme is DARK
    gate.set()
    lab.until(lambda: state(lab) is WorkerState.FINISHED)


def test_of_choices_made_during_a_compile_only_the_newest_is_loaded(make_lab: MakeLab) -> None:
    gate = threading.Event()
    lab = make_lab(prepare=lambda session: setattr(session, "boot_gate", gate))
    lab.do("run")
    lab.until(lambda: len(lab.sessions) == 1 and state(lab) is WorkerState.LOADING)
    for ops in (300, 400, 500):
        lab.bridge.run(fake_job(ops=ops))
    gate.set()
    lab.until(lambda: state(lab) is WorkerState.FINISHED and lab.bridge.latest.job == fake_job(ops=500))
    assert [session.spec.ops for session in lab.sessions] == [200, 500]


def test_close_while_running_ends_the_thread(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    lab.do("run")
    lab.until(lambda: micro_ops(lab) > 0)
    lab.window.close()
    assert lab.bridge.shutdown(wait_seconds=10.0)
    ran = lab.session.micro_ops
    lab.qtbot.wait(50)
    assert lab.session.micro_ops == ran


def test_close_during_a_compile_does_not_wait_for_it(make_lab: MakeLab) -> None:
    gate = threading.Event()
    lab = make_lab(prepare=lambda session: setattr(session, "boot_gate", gate))
    lab.do("run")
    lab.until(lambda: state(lab) is WorkerState.LOADING)
    lab.window.close()
    assert not lab.window.isVisible()
    assert not lab.bridge.shutdown(wait_seconds=0.0)  # it still compiles
    gate.set()
    assert lab.bridge.shutdown(wait_seconds=10.0)
    assert "run" not in lab.session.calls


def test_a_bad_job_is_told_in_the_bar_and_can_be_mended(make_lab: MakeLab) -> None:
    lab = make_lab(fake_job(kernel="broken"))
    lab.do("run")
    lab.until(lambda: lab.window.messages.text != "")
    assert lab.window.messages.text == "unknown kernel 'broken' (known: slub, slub+)"
    assert lab.window.messages.kind == "error"
    assert lab.window.pages.currentWidget() is lab.window.welcome
    lab.do("run")  # again: the same error, no hang
    lab.until(lambda: lab.bridge.latest.error_serial == 2)
    lab.window.bar.kernel.setCurrentIndex(0)
    lab.do("run")
    lab.until(lambda: state(lab) is WorkerState.FINISHED)
    assert lab.window.messages.text == ""


def test_a_defect_in_the_session_is_one_line_and_the_window_goes_on(
    make_lab: MakeLab, capfd: pytest.CaptureFixture[str]
) -> None:
    def spoil(session: FakeSession) -> None:
        def fail(micro_ops: int, *, stop_at_phase_end: bool) -> None:
            raise ZeroDivisionError("division by zero\nsecond line")

        session.run = fail  # type: ignore[method-assign, assignment]

    lab = make_lab(prepare=spoil)
    lab.do("run")
    lab.until(lambda: lab.window.messages.text != "")
    text = lab.window.messages.text
    assert text == "Internal error in the simulation: ZeroDivisionError: division by zero"
    assert state(lab) is WorkerState.PAUSED
    lab.do("step")
    lab.until(lambda: micro_ops(lab) == 1)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_fault_of_the_machine_is_shown_and_reset_clears_it(make_lab: MakeLab) -> None:
    lab = make_lab(prepare=lambda session: setattr(session, "fault_at", 5000))
    lab.do("run")
    lab.until(lambda: state(lab) is WorkerState.FAULTED)
    assert "null pointer in slab_alloc" in lab.window.messages.text
    assert lab.window.status.state_text == "Stopped by a fault"
    assert enabled(lab) == {"run", "reset"}
    lab.do("reset")
    lab.until(lambda: state(lab) is WorkerState.PAUSED)
    assert micro_ops(lab) == 0
    assert lab.window.messages.text == ""


def test_a_changed_choice_is_said_and_run_loads_it(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    lab.do("run")
    lab.until(lambda: micro_ops(lab) > 0)
    lab.window.bar.test.setCurrentIndex(0)
    assert "choice has changed" in lab.window.status.hint_text
    assert {"run", "pause", "reset"} <= enabled(lab)
    lab.do("run")
    lab.until(lambda: len(lab.sessions) == 2 and micro_ops(lab) >= 0)
    assert lab.session.spec.test == "A"
    lab.until(lambda: lab.window.status.hint_text == "")


def test_every_field_reaches_the_session(make_lab: MakeLab) -> None:
    lab = make_lab(fake_job(seed=7, cpus=4))
    bar = lab.window.bar
    bar.machine.setCurrentIndex(1)
    bar.kernel.setCurrentIndex(1)
    bar.test.setCurrentIndex(2)
    bar.size_box.setCurrentIndex(bar.size_box.findText("512\u202fB"))
    bar.ops.setValue(321)
    lab.do("reset" if lab.window.commands["reset"].isEnabled() else "step")
    lab.until(lambda: len(lab.sessions) == 1)
    expected = fake_job(machine="ia64_8p_4n", kernel="slub+", test="F", sizes=(512,), ops=321, seed=7, cpus=4)
    assert lab.session.spec == expected


def test_slow_speed_runs_few_micro_ops_and_unlimited_runs_on(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    lab.window.travel.transport.speed_field.slider.setValue(0)
    lab.do("run")
    lab.until(lambda: state(lab) is WorkerState.RUNNING and micro_ops(lab) == 1)
    assert lab.bridge.latest.asked_rate == 1.0
    lab.do("unlimited")
    lab.until(lambda: micro_ops(lab) > 10_000)


def test_speed_keys_move_the_slider(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.do("unlimited", "slower")
    assert lab.window.control.rate == 50e6
    assert lab.window.travel.transport.speed_field.field.text() == "50\u202fM"
    lab.do("faster", "faster")
    assert lab.window.travel.transport.speed_field.field.text() == "unlimited"


def test_a_run_starts_at_a_speed_that_can_be_watched(make_lab: MakeLab) -> None:
    lab = make_lab(LONG)
    assert lab.window.travel.transport.speed_field.field.text() == "200\u202fk"
    lab.do("run")
    lab.until(lambda: micro_ops(lab) > 0)
    assert lab.bridge.latest.asked_rate == 200_000.0


PHASE = 200 * 8 * 12


def with_clean_up(session: FakeSession) -> None:
    session.clean_up = True


def test_a_run_pauses_exactly_between_measurement_and_clean_up(make_lab: MakeLab) -> None:
    lab = make_lab(prepare=with_clean_up)
    lab.do("unlimited", "run")
    lab.until(lambda: state(lab) is WorkerState.MEASURED)
    assert micro_ops(lab) == PHASE
    assert lab.window.status.state_text == "Measured; Run continues with the clean-up"
    lab.until(lambda: [row[0] for row in lab.window.dashboard.results.rows] == ["D  kmalloc"])
    assert enabled(lab) == {"run", "step", "reset", "export_csv"}
    lab.do("run")
    lab.until(lambda: state(lab) is WorkerState.FINISHED)
    assert micro_ops(lab) == 2 * PHASE
    lab.do("run")  # once more: it pauses again
    lab.until(lambda: state(lab) is WorkerState.MEASURED)


def test_step_leaves_the_pause_after_the_measured_phase(make_lab: MakeLab) -> None:
    lab = make_lab(prepare=with_clean_up)
    lab.do("unlimited", "run")
    lab.until(lambda: state(lab) is WorkerState.MEASURED)
    lab.do("step")
    lab.until(lambda: state(lab) is WorkerState.PAUSED)
    assert micro_ops(lab) == PHASE + 1


def test_with_several_sizes_only_the_last_measurement_pauses(make_lab: MakeLab) -> None:
    lab = make_lab(fake_job(sizes=(8, 16, 64)), with_clean_up)
    lab.do("unlimited", "run")
    lab.until(lambda: state(lab) is WorkerState.MEASURED)
    assert micro_ops(lab) == 5 * PHASE


def test_the_pause_after_the_measured_phase_can_be_switched_off(make_lab: MakeLab) -> None:
    lab = make_lab(prepare=with_clean_up)
    states: set[WorkerState] = set()
    lab.bridge.updated.connect(lambda update: states.add(update.state))
    assert lab.window.commands["pause_measured"].isChecked()
    lab.do("pause_measured", "unlimited", "run")
    lab.until(lambda: state(lab) is WorkerState.FINISHED)
    assert micro_ops(lab) == 2 * PHASE
    assert WorkerState.MEASURED not in states


def test_pointing_at_a_command_keeps_the_status_line(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.do("step")
    lab.until(lambda: micro_ops(lab) == 1)
    for command in lab.window.commands.values():
        command.showStatusText(lab.window)
        assert lab.window.status.currentMessage() == ""
        assert lab.window.status.findChild(QLabel, "headline").isVisible()


def test_page_allocator_sizes_have_no_legend(make_lab: MakeLab) -> None:
    lab = make_lab()
    board = lab.window.dashboard
    base = FakeSession(fake_job()).snapshot()
    lab.window.show_update(update_with(replace(base, cache_name="", cache_size_bytes=4096)))
    assert not board.legend.isVisible()
    assert board.map.why_empty() == (
        "4\u202f096-byte objects come straight from the page allocator: no slabs"
    )
    lab.window.show_update(update_with(base))
    assert board.legend.isVisible()
    assert board.map.why_empty() == ""


def test_theme_commands_change_every_part(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.do("step")
    lab.until(lambda: micro_ops(lab) == 1)
    light = lab.window.dashboard.grab().toImage()
    lab.do("theme_dark")
    assert lab.window.theme is DARK
    assert lab.window.commands["theme_dark"].isChecked()
    dark = lab.window.dashboard.grab().toImage()
    lab.do("theme_light")
    assert lab.window.theme is LIGHT
    assert not lab.window.commands["theme_dark"].isChecked()
    assert dark != light
    assert light.pixelColor(2, 2).lightness() > 200 > 60 > dark.pixelColor(2, 2).lightness()


@pytest.mark.parametrize("name", ["keys", "about"])
def test_help_opens_without_blocking(make_lab: MakeLab, name: str) -> None:
    lab = make_lab()
    lab.do(name)
    dialog = lab.window.findChild(QDialog)
    assert dialog is not None
    assert not dialog.isModal()
    texts = [label.text() for label in dialog.findChildren(QLabel)]
    assert ("F10" in texts) == (name == "keys")
    dialog.close()


@pytest.mark.parametrize(("width", "height"), [(960, 620), (1280, 720), (1920, 1080), (3840, 2160)])
@pytest.mark.parametrize("theme", ["theme_light", "theme_dark"])
def test_nothing_sticks_out_at_any_size(make_lab: MakeLab, width: int, height: int, theme: str) -> None:
    lab = make_lab()
    lab.do(theme, "run")
    lab.until(lambda: state(lab) is WorkerState.FINISHED)
    lab.window.resize(width, height)
    lab.qtbot.wait(20)
    board = lab.window.dashboard
    for part in (
        board.cpus,
        board.map,
        board.legend,
        board.locks,
        board.plot,
        lab.window.travel.transport.speed_field.field,
        *([lab.window.travel.timeline] if height > 700 else []),
        *lab.window.bar.buttons.values(),
    ):
        assert inside_all_ancestors(part), type(part).__name__


def inside_all_ancestors(part: QWidget) -> bool:
    ancestor = part.parentWidget()
    while ancestor is not None:
        corner = part.mapTo(ancestor, part.rect().bottomRight())
        first = part.mapTo(ancestor, part.rect().topLeft())
        if not (ancestor.rect().contains(corner) and ancestor.rect().contains(first)):
            return False
        ancestor = None if ancestor.isWindow() else ancestor.parentWidget()
    return True
