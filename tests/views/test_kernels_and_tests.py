"""Every kernel, machine and test in the window: choices, labels of points, SLAB's lists, chains of slabs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from slubviz.model.kernels import KERNELS
from slubviz.model.machines import machine_files
from slubviz.model.plan import TESTS, WORKLOADS, Sweep
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.snapshot import ObjectState, PhaseView, SlabTable
from slubviz.views.actions import make_actions
from slubviz.views.app import first_job, real_catalog, real_recording
from slubviz.views.control_bar import ControlBar
from slubviz.views.dashboard import map_title
from slubviz.views.job import JobSpec
from slubviz.views.progress_plot import ProgressPlot, axis_text, has_published_ops
from slubviz.views.slab_layout import GroupKind, group_by_lists, group_slabs
from slubviz.views.slab_legend import SlabLegend, entries_of
from slubviz.views.slab_map import SlabMap, slab_facts
from slubviz.views.slab_raster import colours_of, tile_pixels
from slubviz.views.slab_summary import CHAINED_FLAG, FROZEN_FLAG, summarise
from slubviz.views.status_strip import phase_text
from slubviz.views.tables import result_rows
from slubviz.views.theme import DARK, LIGHT, Theme
from tests.views.conftest import Lab
from tests.views.fake_session import FakeSession, fake_job
from tests.views.helpers import A, C, F, snapshot_of, table

MakeBar = Callable[[JobSpec], ControlBar]
JOB = JobSpec("e5345_8p", "slub", "D", (64,), 500)


@pytest.fixture
def make_bar() -> Iterator[MakeBar]:
    owners: list[QWidget] = []

    def make(job: JobSpec) -> ControlBar:
        owners.append(QWidget())
        return ControlBar(real_catalog(), make_actions(owners[-1], LIGHT), job, owners[-1])

    yield make
    for owner in owners:
        owner.deleteLater()


def select(bar: ControlBar, test: str) -> None:
    bar.test.setCurrentIndex(bar.test.findData(test))


def test_the_bar_offers_everything_that_there_is(make_bar: MakeBar) -> None:
    bar = make_bar(JOB)
    assert [bar.kernel.itemData(i) for i in range(bar.kernel.count())] == list(KERNELS)
    assert [bar.machine.itemData(i) for i in range(bar.machine.count())] == list(machine_files())
    assert [bar.test.itemData(i) for i in range(bar.test.count())] == list(TESTS)


def test_kernels_with_known_faults_are_marked_and_say_which(make_bar: MakeBar) -> None:
    bar = make_bar(JOB)
    for index in range(bar.kernel.count()):
        kernel = KERNELS[bar.kernel.itemData(index)]
        assert bar.kernel.itemIcon(index).isNull() == (not kernel.faulty)
        assert bar.kernel.itemData(index, Qt.ItemDataRole.ToolTipRole) == kernel.description
    assert KERNELS["slub+pekka"].faulty
    before = bar.kernel.itemIcon(bar.kernel.findData("slub+pekka")).pixmap(16).toImage()
    bar.set_theme(DARK)
    assert bar.kernel.itemIcon(bar.kernel.findData("slub+pekka")).pixmap(16).toImage() != before


def test_the_size_box_becomes_objects_or_nothing_and_remembers(make_bar: MakeBar) -> None:
    bar = make_bar(JOB)
    seen: list[JobSpec] = []
    bar.job_changed.connect(seen.append)
    select(bar, "bulk")
    assert bar.size_caption.text() == "Objects"
    assert (bar.job().sizes, bar.job().objects) == ((), (1,))
    bar.size_box.setCurrentIndex(bar.size_box.findText("N=30"))
    assert bar.job().objects == (30,)
    select(bar, "irq-cmpxchg")
    assert not bar.size_box.isEnabled()
    assert (bar.job().sizes, bar.job().objects) == ((), ())
    select(bar, "A")
    assert bar.size_caption.text() == "Size"
    assert bar.size_box.isEnabled()
    assert (bar.job().sizes, bar.job().objects) == ((64,), ())
    select(bar, "bulk")
    assert bar.job().objects == (30,)
    assert len(seen) == 5  # one for each change


def test_sizes_go_as_far_as_the_test(make_bar: MakeBar) -> None:
    bar = make_bar(replace(JOB, sizes=(4096,)))
    select(bar, "kmalloc-kfree")
    assert bar.size_box.findText("16\u202f384\u202fB") >= 0
    assert bar.job().sizes == (4096,)
    select(bar, "A")
    assert bar.size_box.findText("16\u202f384\u202fB") < 0


@pytest.mark.parametrize("test", list(TESTS))
def test_every_test_can_be_asked_for(make_bar: MakeBar, test: str) -> None:
    @dataclass(frozen=True)
    class Options:
        machine: str = "i7_4790k"
        kernel: str = "slub-bulk"
        test: str = ""
        sizes: tuple[int, ...] | None = (64,)
        ops: int = 100
        seed: int = 1
        cpus: int | None = None
        theme: str = "light"
        scale: float = 1.0
        width_pixels: int = 1280
        height_pixels: int = 720
        screenshot: str | None = None

    job = first_job(Options(test=test), real_catalog())
    assert make_bar(job).job() == job
    assert (job.sizes == (64,)) == (WORKLOADS[test].sweep == Sweep.SIZE)
    assert (len(job.objects) == 14) == (test == "bulk")
    session = real_recording(job).session
    assert isinstance(session, Session)
    assert session.spec.test == test


# --- labels of points --------------------------------------------------------------------------------


def phase_of(test: str, size: int, objects: int | None, operation: str = "alloc+free") -> PhaseView:
    return PhaseView(0, 3, test, operation, size, True, 100, 18.0, 18.0, 100, objects)


@pytest.mark.parametrize(
    ("phase", "text", "axis"),
    [
        (phase_of("bulk", 256, 30), "test bulk: alloc+free, N=30", "objects"),
        (phase_of("irq-cmpxchg", 0, None, "irq_save"), "test irq-cmpxchg: irq_save", "rounds"),
        (
            phase_of("hackbench", 256, None, "message"),
            "test hackbench: message, 256\u202fB",
            "messages, all CPUs",
        ),
        (phase_of("D", 64, None, "kmalloc"), "test D: kmalloc, 64\u202fB", "operations, all CPUs"),
    ],
)
def test_phases_are_named_by_what_they_sweep(phase: PhaseView, text: str, axis: str) -> None:
    snapshot = replace(FakeSession(fake_job(ops=20)).snapshot(), phase=phase)
    assert phase_text(snapshot).startswith(f"{text}  ·")
    assert axis_text(phase) == axis
    plot = ProgressPlot(LIGHT)
    try:
        session = FakeSession(fake_job(ops=20))
        session.run(500)
        plot.show_progress(replace(session.snapshot(), phase=phase))
        assert plot.axis_text == axis
        assert plot.facts() == text.split(": ")[1]
        assert plot.compare_text.endswith("%") == (phase.test != "D")
    finally:
        plot.deleteLater()


@pytest.mark.parametrize(
    ("test", "ops", "comparable"),
    [("A", 10_000, True), ("A", 500, False), ("bulk", 9_990, True), ("irq-cmpxchg", 20_000, True)],
)
def test_only_the_size_tables_ask_for_as_many_operations(test: str, ops: int, comparable: bool) -> None:
    assert has_published_ops(test, ops) == comparable


@pytest.mark.parametrize(
    ("job", "points"),
    [
        (JobSpec("i7_4790k", "slub-bulk", "bulk", (), 200, objects=(2, 30)), ["N=2", "N=30"]),
        (JobSpec("amd64", "slub", "irq-cmpxchg", (), 100), ["", "", ""]),
    ],
)
def test_cells_of_a_real_run_are_labelled(job: JobSpec, points: list[str]) -> None:
    recording = real_recording(job)
    recording.boot()
    recording.run(1 << 40)
    session = recording.session
    assert session.finished, session.fault
    rows = result_rows(session.results)
    assert [row[1] for row in rows] == points
    assert all(row[3].endswith("%") for row in rows)  # held against what is published
    if not any(points):
        assert [row[0].split("  ")[1] for row in rows] == ["cmpxchg_local", "irq_restore", "irq_save"]


def test_a_test_without_objects_says_so_and_has_no_legend(make_lab: Callable[..., Lab]) -> None:
    window_lab = make_lab()
    board = window_lab.window.dashboard
    base = FakeSession(fake_job()).snapshot()
    from tests.views.helpers import update_with

    without = replace(base, phase=phase_of("irq-cmpxchg", 0, None))
    window_lab.window.show_update(update_with(without))
    assert board.map.why_empty() == "This test times single instructions: it has no objects"
    assert not board.legend.isVisible()
    assert map_title(without) == "Slabs"
    window_lab.window.show_update(update_with(replace(base, phase=None)))  # after the last phase
    assert not board.map.has_slabs()
    window_lab.window.show_update(update_with(base))
    assert board.map.has_slabs()
    assert board.legend.isVisible()


# --- SLAB ------------------------------------------------------------------------------------------


def slab_table() -> SlabTable:
    """Full, full but for arrays, partial, free; on two nodes."""
    slabs = table(
        [[A, A, A], [A, C, C], [A, F, C], [F, F, F], [A, A, A]],
        partial=[False, False, True, False, False],
        node=[0, 0, 0, 0, 1],
    )
    return replace(slabs, inuse=np.array([3, 3, 2, 0, 3]))


def test_slabs_of_slab_are_grouped_by_the_lists_of_their_nodes() -> None:
    groups = group_by_lists(slab_table())
    assert [(group.title.replace("\u202f", " "), group.slabs.tolist()) for group in groups] == [
        ("Full list, node 0", [0, 1]),
        ("Partial list, node 0", [2]),
        ("Free list, node 0", [3]),
        ("Full list, node 1", [4]),
        ("Partial list, node 1", []),
        ("Free list, node 1", []),
    ]
    assert {group.kind for group in groups} == {GroupKind.LIST}
    one_node = group_by_lists(table([[A, A]]))
    assert [group.title for group in one_node] == ["Full list", "Partial list", "Free list"]


def test_facts_of_slabs_speak_of_arrays_and_lists() -> None:
    slabs = slab_table()
    summary = summarise(slabs)
    facts = slab_facts(slabs, summary, 1, 2, "slab")
    assert "On slabs_full" in facts
    assert "3\u202fobjects: 1 allocated, 2 in arrays, 0 on the slab's chain" in facts
    assert "Object 2: free, in the array of a CPU, the shared array or an alien cache" in facts
    assert "On slabs_partial" in slab_facts(slabs, summary, 2, family="slab")
    assert "On slabs_free" in slab_facts(slabs, summary, 3, family="slab")
    for index in range(5):
        assert "CPU freelist" not in slab_facts(slabs, summary, index, 0, "slab")
        assert "frozen" not in slab_facts(slabs, summary, index, 0, "slab")


def test_legends_say_what_a_family_has() -> None:
    legend = SlabLegend(LIGHT)
    try:
        assert "frozen (cpu slab)" in legend.texts
        legend.set_family("slab")
        assert "in a CPU's, the shared or an alien array" in legend.texts
        assert not any("frozen" in text or "locked" in text for text in legend.texts)
        assert "alien array" in legend.accessibleName()
        legend.set_family("slub_lockless")
        assert "on a CPU's partial chain" in legend.texts
        legend.set_family("slub-2.6.25")
        assert legend.texts == tuple(text for text, _, _ in entries_of("slub"))
        assert legend.heightForWidth(200) > legend.heightForWidth(2000)
    finally:
        legend.deleteLater()


def test_a_real_slab_run_shows_arrays_lists_and_cards() -> None:
    session = Session(SessionSpec("e5345_8p", "slab", "A", (256,), 200, 1, cpus=4))
    session.boot()
    session.run(1 << 40, stop_at_phase_end=True)
    session.run(20_000)  # into the frees, which fill the array of CPU 0
    snapshot = session.snapshot()
    assert snapshot.family == "slab"
    (name, value), *rest = snapshot.cpus[0].extra
    assert (name, rest) == ("array", [])
    available, limit = (int(part) for part in value.split(" of "))
    assert 0 < available <= limit == 120
    in_arrays = int((snapshot.slabs.object_state == int(ObjectState.CPU_FREE)).sum())
    assert in_arrays >= available
    groups = group_by_lists(snapshot.slabs)
    assert sum(group.count for group in groups) == len(snapshot.slabs.page_frame) > 0
    assert groups[1].slabs.size == int(snapshot.nr_partial[0])
    view = SlabMap(LIGHT)
    try:
        view.resize(500, 400)
        view.show_slabs(snapshot, summarise(snapshot.slabs))
        layout = view.map_layout
        assert layout is not None
        assert [row.group.title for row in layout.rows] == ["Full list", "Partial list", "Free list"]
        assert layout.hidden == 0
        grid = layout.grids[0]
        position = QPoint(grid.x + grid.style.width // 2, grid.y + grid.style.height // 2)
        assert "slabs_" in view.tooltip_at(position)
    finally:
        view.deleteLater()


def test_every_family_says_its_name() -> None:
    for kernel in ("slab", "slub", "slub-seq", "slub-cpu-partial"):
        session = Session(SessionSpec("i7_4790k", kernel, "A", (64,), 5, 1, cpus=1))
        session.boot()
        assert session.snapshot().family == KERNELS[kernel].family


# --- chains of partial slabs --------------------------------------------------------------------------


def chained_table() -> SlabTable:
    slabs = table(
        [[A, A], [A, C], [A, F], [F, F], [A, F]], cpu=[-1, 0, -1, -1, -1], last_cpu=[0, 0, -1, 1, -1]
    )
    chain = np.array([-1, -1, 1, -1, 0])
    return replace(slabs, on_cpu_partial=chain, frozen=(slabs.cpu >= 0) | (chain >= 0))


def test_chained_slabs_stand_first_in_the_row_of_their_cpu() -> None:
    groups = group_slabs(chained_table(), [0, 1], [True, True])
    assert groups[0].cpu_slabs.tolist() == [1]
    assert groups[0].slabs.tolist() == [4, 0]
    assert groups[1].slabs.tolist() == [2, 3]
    facts = slab_facts(chained_table(), summarise(chained_table()), 2)
    assert "On the chain of partial slabs of CPU 1" in facts
    view = SlabMap(LIGHT)
    try:
        view.resize(500, 400)
        view.show_slabs(snapshot_of(chained_table()), summarise(chained_table()))
        assert view.facts().endswith("2 on CPUs' chains")
    finally:
        view.deleteLater()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("unit", [1.0, 2.0])
def test_chained_and_frozen_tiles_differ_in_shape_and_colour(theme: Theme, unit: float) -> None:
    from slubviz.views.slab_layout import tile_style

    frame = summarise(chained_table()).frame
    assert [bool(code & CHAINED_FLAG) for code in frame] == [False, False, True, False, True]
    assert [bool(code & FROZEN_FLAG) for code in frame] == [False, True, False, False, False]
    style = tile_style(4, round(18 * unit), unit)
    plain, frozen, chained = (
        tile_pixels(style, np.array([[code, A, F, A, F]], dtype=np.uint8), colours_of(theme))[0]
        for code in (1, 1 + FROZEN_FLAG, 1 + CHAINED_FLAG)
    )
    colour = theme.argb("slab_chained")
    assert (chained == colour).any()
    assert not (frozen == colour).any()
    assert not (plain == colour).any()
    middle = style.width // 2
    assert chained[0, middle] != colour  # open in the middle of its sides, where the frozen frame is whole
    assert frozen[0, middle] == theme.argb("slab_frozen")
    inset = style.frame + style.padding  # the objects are the same in all of them
    inner = (slice(inset + style.cell_height, inset + 2 * style.cell_height - 1), slice(-inset - 2, -inset))
    assert (chained[inner] == plain[inner]).all()


def test_a_real_lockless_run_has_chains_in_map_and_cards() -> None:
    session = Session(SessionSpec("i7_4790k", "slub-cpu-partial", "A", (256,), 400, 1, cpus=1))
    session.boot()
    session.run(1 << 40, stop_at_phase_end=True)
    chained = 0
    for _ in range(200):
        session.run(100)
        snapshot = session.snapshot()
        chained = int((snapshot.slabs.on_cpu_partial >= 0).sum())
        if chained and session.phase is not None:
            break
    assert chained > 0
    assert snapshot.cpus[0].extra == (("partial slabs", str(chained)),)
    summary = summarise(snapshot.slabs)
    assert int(((summary.frame & CHAINED_FLAG) > 0).sum()) == chained


def test_a_picture_of_a_slab_run_is_drawn(tmp_path: object) -> None:
    from pathlib import Path

    from slubviz.views.app import screenshot

    path = Path(f"{tmp_path}") / "slab.png"
    screenshot(path, 1280, 720, "light", JobSpec("e5345_8p", "slab", "D", (64,), 60))
    image = QImage(str(path))
    colours = {image.pixel(x, y) for x in range(410, 900, 2) for y in range(120, 620, 2)}
    assert LIGHT.argb("object_allocated") in colours
    assert LIGHT.argb("slab_frozen") not in colours
