"""The fidelity page as a user works it, with a comparison that makes up its numbers."""

from __future__ import annotations

import csv
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from slubviz.model.compare import CompareRequest, plan_comparison, run_comparison
from slubviz.model.compare_files import COMPARE_COLUMNS, compare_csv
from slubviz.model.compare_table import ALL_POINTS, CellKey, published_cells, published_machines
from slubviz.model.errors import UserError
from slubviz.model.workload import Sweep
from slubviz.views.app import real_catalog
from slubviz.views.bridge import Bridge
from slubviz.views.fidelity_bridge import FidelityBridge
from slubviz.views.fidelity_report import ERROR_HEADERS, Report, report_of
from slubviz.views.fidelity_worker import CompareState, CompareWorker
from slubviz.views.heat_map import cell_facts, error_colour, error_text
from slubviz.views.main_window import MainWindow, ThemeMode, job_of
from slubviz.views.multi_choice import MultiChoice
from slubviz.views.theme import DARK, LIGHT, Theme
from slubviz.views.worker import WorkerState
from tests.views.fake_comparison import DyingBackend, FakeBackend, factor
from tests.views.fake_session import FakeSession, fake_job
from tests.views.test_theme_and_actions import VISION, contrast, lab, linear
from tests.views.test_window import inside_all_ancestors

BOTH = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


class Page:
    """A window with its fidelity page in front."""

    def __init__(self, qtbot: QtBot, backend: FakeBackend) -> None:
        self.qtbot, self.backend = qtbot, backend
        self.saved_path = ""
        self.sessions: list[FakeSession] = []
        self.bridge = FidelityBridge(backend)
        self.window = MainWindow(
            Bridge(self._session),
            real_catalog(),
            fake_job(),
            ThemeMode.LIGHT,
            ask_path=lambda *_: self.saved_path,
            fidelity=self.bridge,
        )
        self.window.resize(1280, 720)
        self.window.show()
        self.window._bridge.start()
        self.do("view_fidelity")
        self.page = self.window.fidelity

    def _session(self, job):  # type: ignore[no-untyped-def]
        self.sessions.append(FakeSession(job))
        return self.sessions[-1]

    def do(self, *names: str) -> None:
        for name in names:
            self.window.commands[name].trigger()

    def until(self, condition: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(condition, timeout=20_000)

    def enabled(self, *names: str) -> list[bool]:
        return [self.window.commands[name].isEnabled() for name in names]

    def choose(self, machine: str, tests: tuple[str, ...] = (), kernels: tuple[str, ...] = ()) -> None:
        controls = self.page.controls
        controls.machine.setCurrentIndex(controls.machine.findData(machine))
        controls.tests.choose(tests)
        controls.kernels.choose(kernels)

    def compare(self) -> None:
        """Run what is chosen to its end."""
        self.do("compare")
        self.until(lambda: self.bridge.latest.state is CompareState.DONE and not self.bridge.busy)


@pytest.fixture
def make_page(qtbot: QtBot) -> Iterator[Callable[..., Page]]:
    pages: list[Page] = []

    def make(backend: FakeBackend | None = None) -> Page:
        pages.append(Page(qtbot, backend or FakeBackend()))
        return pages[-1]

    yield make
    for page in pages:
        page.window.close()
        assert page.bridge.shutdown(10.0), "the comparison's thread did not end"
        assert page.window._bridge.shutdown(10.0)
        page.window.deleteLater()
        page.bridge.deleteLater()
    QApplication.sendPostedEvents(None, int(QEvent.Type.DeferredDelete))


MakePage = Callable[..., Page]
ALL_CELLS = len(published_cells())
A_OF_E5345 = ("e5345_8p", ("A",), ("slab", "slub", "slub+"))


def test_first_it_says_what_to_press_and_how_long_it_takes(make_page: MakePage) -> None:
    page = make_page()
    assert page.page.stack.currentWidget() is page.page.empty
    page.until(lambda: str(ALL_CELLS) in page.page.empty.text)
    assert "second" in page.page.empty.text or "minute" in page.page.empty.text
    labels = [label.text() for label in page.page.empty.findChildren(QLabel)]
    assert "or press F7" in labels
    assert page.enabled("compare", "compare_cancel", "export_csv", "export_png") == [
        True,
        False,
        False,
        False,
    ]
    page.choose(*A_OF_E5345)
    page.until(lambda: "There are 30 of them" in page.page.empty.text)
    page.qtbot.mouseClick(page.page.empty.button, Qt.MouseButton.LeftButton)
    page.until(lambda: page.bridge.latest.state is CompareState.DONE)
    assert page.page.stack.currentWidget() is not page.page.empty


def test_choices_are_what_is_published(make_page: MakePage) -> None:
    page = make_page()
    controls = page.page.controls
    machines = [controls.machine.itemData(i) for i in range(controls.machine.count())]
    assert machines == ["all", *published_machines()]
    assert {"e5345_8p", "ia64_8p_4n", "p4_3ghz_up", "amd64", "i7_4790k"} <= set(machines)
    page.choose("ia64_8p_4n", ("D", "F"), ("slab", "slub+"))
    controls.ops.setValue(700)
    controls.seeds.setText("1-3")
    assert controls.request() == CompareRequest("ia64_8p_4n", ("slab", "slub+"), ("D", "F"), 700, (1, 2, 3))
    assert controls.kernels.text() == "2 of 9 kernels"
    controls.kernels.choose_all()
    request = controls.request()
    assert request is not None
    assert request.kernels is None
    assert controls.kernels.text() == "All kernels"


def test_ticking_names_and_all(qtbot: QtBot) -> None:
    choice = MultiChoice("tests")
    qtbot.addWidget(choice)
    choice.set_names(["A", "B", "C"])
    changes: list[tuple[str, ...] | None] = []
    choice.changed.connect(lambda: changes.append(choice.chosen))
    everything, _separator, first, second, third = choice.menu().actions()
    for action in (second, first, third, everything, third, third):
        action.trigger()
    assert changes == [("B",), ("A", "B"), None, None, ("C",), None]
    assert everything.isChecked()  # whatever is ticked: none means all
    choice.set_names(["A", "B", "C"])  # the same names keep what is ticked
    choice.choose(["B"])
    choice.set_names(["A", "B", "C"])
    assert choice.chosen == ("B",)
    assert choice.text() == "B"


def test_cells_table_has_the_known_errors_and_verdicts(make_page: MakePage) -> None:
    page = make_page()
    page.choose(*A_OF_E5345)
    page.compare()
    table = page.page.cells
    headers = [table.headerData(i, Qt.Orientation.Horizontal) for i in range(table.columnCount())]
    assert headers[:3] == ["Size", "Verdict\nauthor's", "\nours"]
    assert [header.split("\n")[0] for header in headers[3::3]] == ["slab", "slub", "slub+"]
    assert len(table.rows) == 10
    assert table.rows[0][0] == "8\u202fB"
    for row in table.rows:
        assert [row[i] for i in (5, 8, 11)] == ["+10.0\u202f%", "+5.0\u202f%", "\u221220.0\u202f%"]
    errors = {row[:3]: row[3:] for row in page.page.errors.rows}
    assert len(next(iter(errors.values()))) == len(ERROR_HEADERS) - 3
    assert errors["e5345_8p", "A", "slub+"][:2] == ("10", "20.0\u202f%")
    assert errors["e5345_8p", "all", "all"][0] == "30"
    assert "30 of 30 cells" in page.page._heat_panel.info()
    goals = {row[0]: row for row in page.page.goals.rows}
    assert goals["E5345, tests A to F"][3:] == ("30 of 168", "not all was run")


def test_the_whole_comparison_has_every_test_and_goal(make_page: MakePage) -> None:
    page = make_page()
    page.until(lambda: page.bridge.latest.choice is not None)
    page.compare()
    comparison = page.bridge.latest.comparison
    assert comparison is not None
    assert len(comparison.cells) == comparison.wanted == ALL_CELLS
    titles = {page.page.tests.item(i).text() for i in range(page.page.tests.count())}
    assert {"A  kmalloc\ne5345_8p", "bulk  alloc+free\ni7_4790k"} <= titles
    assert "hackbench  unfreeze_partials\ni7_4790k" in titles
    assert len(page.page.heat_map.heat_layout.cells) == ALL_CELLS
    assert "not all was run" not in {row[4] for row in page.page.goals.rows}
    page.page.show_test("i7_4790k", "bulk  alloc+free")
    assert page.page.cells.rows[0][0] == "N=1"
    page.page.show_test("i7_4790k", "hackbench  unfreeze_partials")
    assert page.page.cells.rows[0][1:3] == ("100", "99")
    page.page.show_test("e5345_8p", "C  kmalloc+kfree")
    assert page.page.cells.rows[0][0] == "all"


def test_several_seeds_show_their_spread(make_page: MakePage) -> None:
    page = make_page()
    page.choose("e5345_8p", ("A",), ("slub",))
    page.page.controls.seeds.setText("1-3")
    page.compare()
    assert page.page.cells.rows[0][1].endswith(" ± 1")
    key = next(iter(page.bridge.latest.published))
    assert "mean of 3\u202fseeds; ± 1" in page.page.heat_map.tooltip_at(
        page.page.heat_map.rect_of(key).center()
    )


def test_first_cells_appear_while_it_runs_and_stop_keeps_them(make_page: MakePage) -> None:
    backend = FakeBackend()
    backend.hold = threading.Event()
    page = make_page(backend)
    page.choose("e5345_8p")
    page.do("compare")
    page.until(lambda: bool(page.page.cells.rows))
    assert page.bridge.latest.state is CompareState.RUNNING
    assert page.enabled("compare", "compare_cancel", "export_csv") == [False, True, True]
    assert not page.page.controls.machine.isEnabled()
    assert "measurements" in page.page.controls.status.text()
    assert len(page.page.heat_map.heat_layout.cells) == 168  # the wanted ones have their places
    page.do("compare")  # again: nothing happens
    page.do("compare_cancel")
    page.until(lambda: page.bridge.latest.state is CompareState.STOPPED)
    comparison = page.bridge.latest.comparison
    assert comparison is not None
    assert 0 < len(comparison.cells) < 168
    assert page.page.cells.rows
    assert len(backend.requests) == 1
    assert page.enabled("compare", "compare_cancel") == [True, False]
    assert "Stopped after" in page.page.controls.status.text()
    backend.hold = None
    page.compare()
    assert len(backend.requests) == 2


def test_a_changed_choice_keeps_what_was_found(make_page: MakePage) -> None:
    page = make_page()
    page.choose(*A_OF_E5345)
    page.compare()
    found = page.page.cells.rows
    page.choose("i7_4790k", ("bulk",))
    page.until(lambda: "28" in page.page.controls.status.text())
    assert page.page.cells.rows == found
    page.compare()
    assert page.page.cells.rows != found
    assert len(page.page.heat_map.heat_layout.cells) == 28


def test_an_impossible_choice_is_told_and_can_be_mended(make_page: MakePage) -> None:
    page = make_page()
    page.choose("i7_4790k", ("A",))
    page.until(lambda: "nothing can be compared" in page.window.messages.text)
    page.do("compare")
    page.until(lambda: page.bridge.latest.error_serial >= 2)
    assert page.page.stack.currentWidget() is page.page.empty
    page.page.controls.seeds.setText("1,1,x")
    page.do("compare")
    assert "'x'" in page.window.messages.text
    page.page.controls.seeds.setText("1")
    page.choose(*A_OF_E5345)
    page.until(lambda: page.bridge.latest.choice is not None)
    assert page.window.messages.text == ""
    page.compare()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UserError("a worker process ended by signal 9"), "a worker process ended by signal 9"),
        (ZeroDivisionError("oops\nmore"), "Internal error in the comparison: ZeroDivisionError: oops"),
    ],
)
def test_an_error_in_the_middle_keeps_what_was_found(
    make_page: MakePage, error: Exception, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = FakeBackend()
    backend.error = error
    page = make_page(backend)
    page.choose("e5345_8p")
    page.do("compare")
    page.until(lambda: page.bridge.latest.state is CompareState.STOPPED)
    page.until(lambda: page.window.messages.text == words)
    assert page.page.cells.rows
    assert ("Traceback" in capfd.readouterr().err) == isinstance(error, ZeroDivisionError)
    backend.error = None
    page.compare()
    assert page.window.messages.text == ""


def test_a_click_on_a_cell_loads_it(make_page: MakePage) -> None:
    page = make_page()
    page.choose("ia64_8p_4n", ("D", "E"))
    page.page.controls.ops.setValue(300)
    page.page.controls.seeds.setText("7")
    page.compare()
    heat = page.page.heat_map
    key = CellKey("ia64_8p_4n", "slub+", "D", "kmalloc", 128)
    assert "Error \u221216.2\u202f%" in heat.tooltip_at(heat.rect_of(key).center())
    page.qtbot.mouseClick(heat.viewport(), Qt.MouseButton.LeftButton, pos=heat.rect_of(key).center())
    assert not page.window.shows_fidelity
    wanted = fake_job(machine="ia64_8p_4n", kernel="slub+", test="D", sizes=(128,), ops=300, seed=7)
    assert page.window.bar.job() == wanted
    page.until(lambda: page.window._bridge.latest.state is WorkerState.PAUSED)
    assert [session.spec for session in page.sessions] == [wanted]
    assert page.window.status.hint_text == ""  # it is loaded: Run goes on from here


def test_a_click_does_not_throw_a_run_away(make_page: MakePage) -> None:
    page = make_page()
    page.choose(*A_OF_E5345)
    page.compare()
    page.do("view_laboratory")
    page.window.bar.set_job(fake_job(ops=1_000_000))
    page.do("run")
    page.until(lambda: page.window._bridge.latest.state is WorkerState.RUNNING)
    page.do("view_fidelity")
    assert page.enabled("run", "step", "reset", "pause") == [False, False, False, True]
    page.window.load_cell(CellKey("e5345_8p", "slab", "A", "kmalloc", 64))
    assert page.window._bridge.latest.state is WorkerState.RUNNING
    assert "choice has changed" in page.window.status.hint_text
    assert len(page.sessions) == 1


@pytest.mark.parametrize(
    ("key", "sizes", "objects"),
    [
        (CellKey("e5345_8p", "slab", "A", "kmalloc", 64), (64,), ()),
        (CellKey("i7_4790k", "slub-bulk", "bulk", "alloc+free", 30), (), (30,)),
        (CellKey("amd64", "slub", "irq-cmpxchg", "irq_save", ALL_POINTS), (), ()),
        (CellKey("e5345_8p", "slub", "C", "kmalloc+kfree", ALL_POINTS), tuple(8 << i for i in range(10)), ()),
    ],
)
def test_every_kind_of_cell_becomes_a_job(
    key: CellKey, sizes: tuple[int, ...], objects: tuple[int, ...]
) -> None:
    job = job_of(key, real_catalog(), 500, 2)
    assert (job.machine, job.kernel, job.test) == (key.machine, key.kernel, key.test)
    assert (job.sizes, job.objects, job.ops, job.seed) == (sizes, objects, 500, 2)


def test_arrow_keys_reach_cells_and_return_chooses(make_page: MakePage) -> None:
    page = make_page()
    page.choose(*A_OF_E5345)
    page.compare()
    heat = page.page.heat_map
    heat.setFocus()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Up):
        page.qtbot.keyClick(heat, key)
    assert heat.current == CellKey("e5345_8p", "slub", "A", "kmalloc", 16)
    assert "Published" in heat.accessibleDescription()
    page.qtbot.keyClick(heat, Qt.Key.Key_Left)
    page.qtbot.keyClick(heat, Qt.Key.Key_Left)  # there is nothing further
    assert heat.current == CellKey("e5345_8p", "slab", "A", "kmalloc", 16)
    page.qtbot.keyClick(heat, Qt.Key.Key_Return)
    assert page.window.bar.job().sizes == (16,)
    assert page.window.bar.job().kernel == "slab"


def test_a_click_on_a_test_shows_its_table(make_page: MakePage) -> None:
    page = make_page()
    page.choose("e5345_8p", ("A", "D"))
    page.compare()
    heat = page.page.heat_map
    group = heat.heat_layout.groups[-1]
    page.page.tabs.setCurrentIndex(2)
    position = QPoint(group.x + group.width // 2, group.y + 4)
    page.qtbot.mouseClick(heat.viewport(), Qt.MouseButton.LeftButton, pos=position)
    assert page.page.tabs.currentIndex() == 0
    assert page.page.tests.currentItem().text() == "D  kmalloc\ne5345_8p"


def test_exports_are_those_of_the_command_line(make_page: MakePage, tmp_path: Path) -> None:
    page = make_page()
    page.choose(*A_OF_E5345)
    page.compare()
    page.saved_path = str(tmp_path / "compare")
    page.do("export_csv")
    page.until(lambda: page.window.messages.text == f"Saved {tmp_path / 'compare.csv'}")
    data = (tmp_path / "compare.csv").read_bytes()
    assert page.bridge.latest.comparison is not None
    assert data == compare_csv(page.bridge.latest.comparison)
    rows = list(csv.DictReader(data.decode().splitlines()))
    assert tuple(rows[0]) == COMPARE_COLUMNS
    assert len(rows) == 30
    page.do("export_png")
    page.until(lambda: page.window.messages.text == f"Saved {tmp_path / 'compare.png'}")
    assert QImage(str(tmp_path / "compare.png")).width() == 1600


@pytest.mark.parametrize("command", ["export_csv", "export_png"])
def test_an_export_that_fails_is_told_and_leaves_nothing(
    make_page: MakePage, tmp_path: Path, command: str
) -> None:
    page = make_page()
    page.choose(*A_OF_E5345)
    page.compare()
    page.saved_path = str(tmp_path / "missing" / "file.x")
    page.do(command)
    page.until(lambda: page.window.messages.kind == "error" and page.window.messages.text != "")
    assert "\n" not in page.window.messages.text
    assert list(tmp_path.iterdir()) == []


def test_closing_in_the_middle_ends_the_thread(make_page: MakePage) -> None:
    backend = FakeBackend()
    backend.hold = threading.Event()
    page = make_page(backend)
    page.choose("e5345_8p")
    page.do("compare")
    page.until(lambda: page.bridge.latest.state is CompareState.RUNNING)
    page.window.close()
    assert page.bridge.shutdown(10.0)


@pytest.mark.parametrize("way", ["close", "stop"])
def test_neither_close_nor_stop_waits_for_a_process_that_compiles(make_page: MakePage, way: str) -> None:
    # A real process stands for the worker that compiles; the thread hears of its end, as from the pool.
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    gone = threading.Event()
    waiter = threading.Thread(target=lambda: (process.wait(), gone.set()))
    waiter.start()
    backend = DyingBackend(gone)
    page = make_page(backend)
    page.choose("e5345_8p")
    page.do("compare")
    page.until(lambda: len(backend.pools) == 1)
    backend.pools[0].process_ids = lambda: [process.pid]  # type: ignore[method-assign]
    if way == "close":
        page.window.close()
        assert page.bridge.shutdown(10.0)
    else:
        page.until(lambda: page.window.commands["compare_cancel"].isEnabled())
        page.do("compare_cancel")
        page.until(lambda: page.bridge.latest.state is CompareState.STOPPED)
        assert page.window.messages.text == ""  # the process ended because it was to end
        assert page.page.stack.currentWidget() is page.page.empty
        assert page.enabled("compare", "compare_cancel") == [True, False]
    waiter.join(10)
    assert process.returncode == -9


def test_real_processes_are_gone_when_the_window_is(qtbot: QtBot) -> None:
    worker = CompareWorker()
    worker.start()
    worker.start_comparison(CompareRequest("e5345_8p", ("slub",), ("D",), 10_000, jobs=1))
    qtbot.waitUntil(lambda: worker._pool is not None and bool(worker._pool.process_ids()), timeout=30_000)
    assert worker._pool is not None
    ids = worker._pool.process_ids()
    worker.stop()
    worker.join(20)
    assert not worker.is_alive()
    assert all(not Path(f"/proc/{process_id}").exists() for process_id in ids)


def test_a_real_comparison_runs_in_processes_to_its_end(qtbot: QtBot) -> None:
    request = CompareRequest("e5345_8p", ("slub",), ("C",), 40, jobs=1)
    backend = FakeBackend()
    backend.run = lambda plan, watch, pool: run_comparison(plan, watch, pool)  # type: ignore[method-assign]
    worker = CompareWorker(backend)
    worker.start()
    worker.start_comparison(request)
    updates = []

    def done() -> bool:
        update = worker.take()
        updates.extend([] if update is None else [update])
        return bool(updates) and updates[-1].state in (CompareState.DONE, CompareState.STOPPED)

    qtbot.waitUntil(done, timeout=60_000)
    worker.stop()
    worker.join(10)
    assert updates[-1].error == ""
    comparison = updates[-1].comparison
    assert comparison is not None
    (cell,) = comparison.cells
    assert (cell.published_low, cell.published_high) == (151, 151)
    assert cell.points_low <= cell.mean <= cell.points_high
    assert updates[-1].report == report_of(comparison)
    assert updates[-1].progress is not None
    assert updates[-1].progress.done_cells == updates[-1].progress.total_cells == 10


def test_a_report_of_nothing_is_empty() -> None:
    plan = plan_comparison(CompareRequest("e5345_8p"))
    from slubviz.model.compare import RunningComparison

    assert report_of(RunningComparison(plan).comparison()) == Report()


# --- colours and places ---------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("vision", ["normal", "protanopia", "deuteranopia"])
def test_too_fast_and_too_slow_are_told_apart_by_everyone(theme: Theme, vision: str) -> None:
    def seen(error: float) -> list[float]:
        return list(lab(VISION[vision] @ linear(error_colour(theme, error).name())))

    for error in (15.0, 25.0, 50.0):
        distance = sum((a - b) ** 2 for a, b in zip(seen(error), seen(-error), strict=True)) ** 0.5
        assert distance > 14, error


@BOTH
def test_colours_grow_away_from_zero_and_numbers_can_be_read(theme: Theme) -> None:
    from slubviz.views.heat_map import ink_on

    middle = lab(linear(error_colour(theme, 0).name()))
    for sign in (1, -1):
        distances = [
            sum((lab(linear(error_colour(theme, sign * e).name())) - middle) ** 2) for e in range(0, 51, 5)
        ]
        assert all(a < b for a, b in pairwise(distances))
    for error in range(-60, 61):
        ground = error_colour(theme, error)
        assert contrast(ink_on(ground).name(), ground.name()) >= 4.5
    assert error_colour(theme, 400) == error_colour(theme, 50)
    assert error_colour(theme, -99) == error_colour(theme, -50)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (0, "0"),
        (0.04, "0"),
        (-0.4, "\u22120.4"),
        (7.4, "+7"),
        (-12.6, "\u221213"),
        (0.95, "+1"),
        (345, "+345"),
    ],
)
def test_numbers_in_cells_are_short(error: float, text: str) -> None:
    assert error_text(error) == text


def test_facts_of_a_cell_that_is_not_measured() -> None:
    key = CellKey("e5345_8p", "slub", "C", "kmalloc+kfree", ALL_POINTS)
    assert cell_facts(key, (137, 146), None).splitlines() == [
        "slub on e5345_8p",
        "Test C, kmalloc+kfree, one number for all sizes",
        "Published 137–146 cycles",
        "Not measured yet",
    ]


@pytest.mark.parametrize(("width", "height"), [(960, 560), (1280, 720), (1920, 1080), (3840, 2160)])
def test_cells_do_not_overlap_and_nothing_sticks_out(make_page: MakePage, width: int, height: int) -> None:
    page = make_page()
    page.until(lambda: page.bridge.latest.choice is not None)
    page.compare()
    page.window.resize(width, height)
    page.qtbot.wait(20)
    layout = page.page.heat_map.heat_layout
    places = [(c.x, c.y, c.x + c.width, c.y + c.height) for c in layout.cells]
    assert len({(c.x, c.y) for c in layout.cells}) == ALL_CELLS
    assert all(0 <= x0 < x1 <= layout.width and 0 <= y0 < y1 <= layout.height for x0, y0, x1, y1 in places)
    for index, (x0, y0, x1, y1) in enumerate(places):
        for a0, b0, a1, b1 in places[index + 1 :]:
            assert x1 <= a0 or a1 <= x0 or y1 <= b0 or b1 <= y0
    for cell in layout.cells:
        assert layout.cell_at(cell.x + cell.width // 2, cell.y + cell.height // 2) == cell
    parts = (page.page.heat_map, page.page.legend, page.page.tabs, page.page.controls.bar, page.page.tests)
    for part in parts:
        assert inside_all_ancestors(part), type(part).__name__
    bar = page.page.heat_map.horizontalScrollBar()
    assert (bar.maximum() > 0) == (width < 1280)


def test_factors_are_what_the_fake_says() -> None:
    assert [factor(kernel) for kernel in ("slab", "slub+", "slub")] == [1.10, 0.80, 1.05]
    assert real_catalog().sweep("bulk") == Sweep.OBJECTS
