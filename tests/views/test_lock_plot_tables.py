"""The panels on the right: locks, plot, results, counters; and the line at the bottom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from slubviz.model.results import CellResult
from slubviz.model.snapshot import LockView, PhaseView, ProgressSeries, Snapshot
from slubviz.views.lock_panel import LockPanel, lock_texts, rest_text, sorted_locks
from slubviz.views.progress_plot import ProgressPlot, range_text, thinned, value_range
from slubviz.views.status_strip import counts_text, phase_text
from slubviz.views.tables import TextTable, counter_rows, result_rows
from slubviz.views.theme import LIGHT
from slubviz.views.worker import ViewUpdate, WorkerState
from tests.views.fake_session import FakeSession, fake_job

THIN = "\u202f"
BASE = FakeSession(fake_job()).snapshot()


def lock(name: str, holder: int = 1, since: float = 100.0, waiters: tuple[int, ...] = ()) -> LockView:
    return LockView(name, 64, holder, since, waiters)


def phase(**changes: object) -> PhaseView:
    return replace(PhaseView(0, 2, "D", "kmalloc", 64, True, 1000, 129.0, 129.0, 10_000), **changes)  # type: ignore[arg-type]


def measured(points: list[tuple[int, float]], micro_ops: int = 10, **changes: object) -> Snapshot:
    series = ProgressSeries(
        np.array([x for x, _ in points], dtype=np.int64), np.array([y for _, y in points])
    )
    return replace(BASE, phase=phase(**changes), progress=series, micro_ops=micro_ops)


def plot(qtbot: QtBot) -> ProgressPlot:
    widget = ProgressPlot(LIGHT)
    qtbot.addWidget(widget)
    widget.resize(400, 300)
    return widget


def test_most_contended_lock_first() -> None:
    locks = (lock("b", since=50), lock("a", since=50), lock("c", since=10), lock("d", waiters=(2, 5)))
    assert [one.name for one in sorted_locks(locks)] == ["d", "c", "a", "b"]


@pytest.mark.parametrize(
    ("one", "texts"),
    [
        (lock("z"), ("z", f"CPU{THIN}1 for 1{THIN}900{THIN}cyc", "nobody waits")),
        (
            lock("z", waiters=(4,)),
            ("z", f"CPU{THIN}1 for 1{THIN}900{THIN}cyc", f"CPU{THIN}4 waits 472{THIN}cyc"),
        ),
        (
            lock("z", holder=-1, waiters=(6, 2)),
            ("z", "being handed over", f"CPU{THIN}6 waits 1{THIN}200{THIN}cyc, then CPU 2 (2 wait)"),
        ),
        (
            lock("z", holder=-1, waiters=(4, 6, 2)),
            ("z", "being handed over", f"CPU{THIN}4 waits 472{THIN}cyc, then CPUs 6, 2 (3 wait)"),
        ),
    ],
)
def test_locks_in_words(one: LockView, texts: tuple[str, str, str]) -> None:
    assert lock_texts(one, 2000.0, {2: 1999.0, 4: 1528.0, 6: 800.0}) == texts


def test_locks_without_room_are_counted() -> None:
    assert [rest_text(count) for count in (1, 2)] == ["and 1 more lock", "and 2 more locks"]


def test_lock_panel_counts_and_describes(qtbot: QtBot) -> None:
    panel = LockPanel(LIGHT)
    qtbot.addWidget(panel)
    panel.resize(300, 120)
    assert panel.facts() == ""
    many = tuple(lock(f"list_lock {index}", waiters=(index,)) for index in range(40))
    panel.show_locks(replace(BASE, locks=many))
    assert panel.facts() == "40 held  ·  40 waiting"
    assert "list_lock 7" in panel.accessibleDescription()
    waits = replace(BASE.cpus[7], waits_since_cycles=BASE.clock_cycles - 333.0)
    panel.show_locks(replace(BASE, locks=many, cpus=(*BASE.cpus[:7], waits)))
    assert f"CPU{THIN}7 waits 333{THIN}cyc" in panel.accessibleDescription()
    crowded = panel.grab().toImage()
    panel.show_locks(replace(BASE, locks=()))
    assert panel.facts() == "0 held  ·  0 waiting"
    assert panel.grab().toImage() != crowded


def test_plot_shows_curve_value_and_published_line(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    assert widget.value_text == "–"
    assert widget.reference is None
    widget.show_progress(measured([(10, 150.0), (100, 140.0), (500, 132.5)]))
    x, y = widget.curve
    assert x.tolist() == [10, 100, 500]
    assert y.tolist() == [150.0, 140.0, 132.5]
    assert widget.value_text == "132.5"
    assert widget.reference == (129.0, 129.0)
    assert widget.reference_text == "published 129"
    assert widget.compare_text == f"published 129  ·  +2.7{THIN}%"
    assert widget.facts() == f"kmalloc, 64{THIN}B"


def test_plot_shows_a_published_range_as_a_band(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(measured([(10, 135.0)], published_high=140.0))
    assert widget.reference == (129.0, 140.0)
    assert widget.reference_text == "published 129–140"
    assert widget.compare_text == "published 129–140  ·  within"


def test_plot_without_a_published_value(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(measured([(10, 135.0)], published_low=None, published_high=None))
    assert widget.reference is None
    assert widget.reference_text == ""
    assert widget.compare_text == "nothing published"


def test_other_numbers_of_operations_are_not_compared_in_percent(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(measured([(10, 150.0)], ops=200))
    assert widget.reference == (129.0, 129.0)
    assert widget.reference_text == f"published (10{THIN}000 ops)"
    assert widget.compare_text == f"published 129 (10{THIN}000 ops)"


@pytest.mark.parametrize(("mean", "above"), [(150.0, False), (100.0, True), (5000.0, True)])
def test_the_label_is_where_the_curve_is_not_and_inside(qtbot: QtBot, mean: float, above: bool) -> None:
    widget = plot(qtbot)
    widget.show_progress(measured([(10, mean)]))
    assert (widget._published_text.anchor[1] == 1) == above


def test_axes_come_with_the_first_point(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(replace(BASE, phase=phase(), progress=None, micro_ops=0))
    assert not widget.axes_visible
    empty = widget.grab().toImage()
    widget.show_progress(measured([(10, 150.0)]))
    assert widget.axes_visible
    assert widget.grab().toImage() != empty
    widget.show_progress(None)
    assert not widget.axes_visible


def test_a_single_point_is_seen(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(measured([(500, 150.0)], published_low=None, published_high=None))
    line = LIGHT.color("plot_line").rgb()
    image = widget.grab().toImage()
    assert any(image.pixel(x, y) == line for x in range(image.width()) for y in range(60, image.height()))


def test_plot_keeps_the_last_measured_phase_until_there_is_another(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(measured([(10, 150.0), (20, 140.0)], micro_ops=100))
    widget.show_progress(measured([(5, 1.0)], micro_ops=200, measured=False, operation="cleanup"))
    assert widget.value_text == "140"
    widget.show_progress(replace(BASE, phase=None, progress=None, micro_ops=300))
    assert widget.value_text == "140"
    widget.show_progress(measured([(7, 99.5)], micro_ops=400, operation="kfree"))
    assert widget.value_text == "99.5"
    assert widget.facts() == f"kfree, 64{THIN}B"


def test_plot_is_cleared_when_the_run_goes_back(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(measured([(10, 150.0)], micro_ops=100))
    widget.show_progress(replace(BASE, phase=phase(), progress=None, micro_ops=0))
    assert widget.value_text == "–"
    assert widget.curve[0].size == 0
    widget.show_progress(measured([(10, 150.0)], micro_ops=100))
    widget.show_progress(None)
    assert widget.value_text == "–"


def test_a_finished_cell_replaces_its_running_mean(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(measured([(10, 150.0), (20, 140.0)], micro_ops=100))
    done = cell(test="D", cycles_per_op=135.6)
    widget.show_progress(replace(BASE, phase=None, progress=None, micro_ops=300), done)
    assert widget.value_text == "135.6"
    assert widget.curve[1].tolist() == [150.0, 140.0]  # the curve is of the same cell
    assert widget.mean_line == 135.6
    widget.show_progress(measured([(5, 90.0)], micro_ops=400, operation="kfree"), done)
    assert widget.value_text == "90"
    assert widget.mean_line is None


def test_a_cell_too_quick_to_be_watched_still_shows_its_mean(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(replace(BASE, phase=None, progress=None, micro_ops=300), cell())
    assert widget.value_text == "133.0"
    assert widget.reference == (129.0, 129.0)
    assert widget.curve[0].size == 0
    assert widget.facts() == f"kmalloc, 64{THIN}B"
    widget.show_progress(replace(BASE, phase=phase(), progress=None, micro_ops=0), None)
    assert widget.value_text == "–"


def test_a_phase_too_quick_to_be_watched_still_shows_its_curve(qtbot: QtBot) -> None:
    widget = plot(qtbot)
    widget.show_progress(measured([(100, 140.0)], micro_ops=50))  # the end of it goes unseen
    later = measured([(100, 140.0), (1000, 133.1)], micro_ops=300, measured=False, operation="cleanup")
    widget.show_progress(later, cell(test="D"))
    assert widget.curve[0].tolist() == [100, 1000]
    assert widget.value_text == "133.0"
    widget.show_progress(replace(later, phase=None, micro_ops=400), cell(test="D"))
    assert widget.curve[1].tolist() == [140.0, 133.1]


@given(st.integers(1, 20_000))
def test_thinning_keeps_first_and_last(count: int) -> None:
    x, y = thinned(ProgressSeries(np.arange(count), np.arange(count) * 1.5))
    assert x.size == y.size == min(count, 2000)
    assert (x[0], x[-1]) == (0, count - 1)
    assert np.array_equal(y, x * 1.5)


@given(
    st.lists(st.floats(1, 1e5), max_size=50),
    st.one_of(st.none(), st.floats(1, 1e5).map(lambda low: (low, low * 1.1))),
)
def test_the_axis_holds_what_matters(values: list[float], limits: tuple[float, float] | None) -> None:
    bottom, top = value_range(np.array(values), limits)
    assert 0 <= bottom < top
    if limits:
        assert bottom <= limits[0] < limits[1] < top
    if values:
        assert bottom <= values[-1] < top


def test_an_early_outlier_does_not_squeeze_the_curve() -> None:
    assert value_range(np.array([90_000.0, *[130.0] * 99]), (129.0, 129.0))[1] < 200


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(86.0, 86.0, "86"), (94.0, 104.5, "94–104.5"), (11420.0, 11420.0, f"11{THIN}420")],
)
def test_published_ranges_in_words(low: float, high: float, text: str) -> None:
    assert range_text(low, high) == text


def cell(**changes: object) -> CellResult:
    base = CellResult("m", "slub", "A", "kmalloc", 64, 1, 10_000, 133.04, 130.0, 135.0, 129.0, 129.0, 3.13)
    return replace(base, **changes)  # type: ignore[arg-type]


def test_result_rows() -> None:
    assert result_rows([cell(), cell(published_low=None, published_high=None, error_percent=None)]) == [
        ("A  kmalloc", f"64{THIN}B", "133.0", f"129  +3.1{THIN}%"),
        ("A  kmalloc", f"64{THIN}B", "133.0", "–"),
    ]
    assert result_rows([cell(ops=200)])[0][-1] == "129"


def test_counter_rows_leave_out_zeros_and_keep_the_order() -> None:
    assert counter_rows({"B": 1200, "ZERO": 0, "A": 3}) == [("B", f"1{THIN}200"), ("A", "3")]


def test_table_tells_its_view_what_changed(qtbot: QtBot) -> None:
    model = TextTable(("Counter", "Value"))
    model.set_rows([("A", "1"), ("B", "2")])
    with qtbot.assertNotEmitted(model.dataChanged), qtbot.assertNotEmitted(model.modelReset):
        model.set_rows([("A", "1"), ("B", "2")])
    with qtbot.waitSignal(model.dataChanged), qtbot.assertNotEmitted(model.modelReset):
        model.set_rows([("A", "1"), ("B", "3")])  # a view keeps its place
    with qtbot.waitSignal(model.modelReset):
        model.set_rows([("A", "1")])
    assert model.data(model.index(0, 1)) == "1"
    assert model.headerData(1, Qt.Orientation.Horizontal) == "Value"
    assert (model.rowCount(), model.columnCount()) == (1, 2)


def test_the_phase_in_words() -> None:
    cpus = tuple(replace(cpu, operations=50) for cpu in BASE.cpus)
    snapshot = replace(BASE, cpus=cpus, phase=phase())
    assert phase_text(snapshot) == f"test D: kmalloc, 64{THIN}B  ·  40{THIN}%  ·  phase 1 of 2"
    setup = replace(BASE, phase=phase(measured=False, operation="setup"))
    assert phase_text(setup) == f"test D: setup, 64{THIN}B, not measured  ·  phase 1 of 2"
    assert phase_text(replace(BASE, phase=None)) == ""


def test_counts_say_the_speed_only_while_running() -> None:
    snapshot = replace(BASE, micro_ops=1_000, clock_cycles=2_500.0)
    counts = f"1{THIN}000{THIN}micro-ops  ·  clock 2{THIN}500{THIN}cycles"
    paused = ViewUpdate(state=WorkerState.PAUSED, snapshot=snapshot, micro_ops_per_second=4e6)
    assert counts_text(paused) == counts
    running = replace(paused, state=WorkerState.RUNNING)
    assert counts_text(running) == f"4.00{THIN}M{THIN}micro-ops/s  ·  {counts}"
    assert counts_text(ViewUpdate()) == ""
