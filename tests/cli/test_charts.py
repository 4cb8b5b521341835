"""The chart shows what it is given, and the same bytes each time."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from slubviz.model import charts
from slubviz.model.charts import kernel_styles, results_png, size_label
from slubviz.model.results import CellResult, RunRequest
from tests.cli.fake_runner import run_cells

REQUEST = RunRequest("e5345_8p", ("slub", "slub+"), ("A", "C", "D"), None, 10_000, 1)


def pixels(png: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def drawn(cells: list[CellResult]) -> Figure:
    figure = Figure(figsize=(19.2, 10.8))
    charts._draw(figure, REQUEST, cells)
    return figure


def test_size_and_sameness() -> None:
    cells = run_cells(REQUEST)
    png = results_png(REQUEST, cells)
    assert png == results_png(REQUEST, cells)
    assert pixels(png).shape == (1080, 1920, 3)
    assert pixels(results_png(REQUEST, cells, 3840, 2160)).shape == (2160, 3840, 3)


def test_the_user_s_matplotlib_settings_do_not_matter() -> None:
    cells = run_cells(REQUEST)
    plain = results_png(REQUEST, cells)
    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 40, "axes.facecolor": "red"}):
        assert results_png(REQUEST, cells) == plain


def test_no_date_or_version_is_in_the_file() -> None:
    png = results_png(REQUEST, run_cells(REQUEST))
    assert b"tEXt" not in png
    assert b"tIME" not in png


def test_every_kernel_has_its_colour_in_the_picture() -> None:
    image = pixels(results_png(REQUEST, run_cells(REQUEST)))
    for style in kernel_styles(REQUEST.kernels).values():
        colour = np.round(np.array(to_rgb(style.colour)) * 255)
        assert (np.abs(image - colour).max(axis=2) <= 1).sum() > 500


def test_one_panel_per_test_with_every_simulated_and_published_value() -> None:
    cells = run_cells(REQUEST)
    figure = drawn(cells)
    assert [axes.get_title(loc="left")[0] for axes in figure.axes] == ["A", "C", "D"]
    lines = [sorted(map(tuple, line.get_xydata().tolist())) for line in figure.axes[0].get_lines()]
    for kernel in REQUEST.kernels:
        own = [cell for cell in cells if cell.kernel == kernel and cell.test == "A"]
        assert sorted((cell.size_bytes, cell.cycles_per_op) for cell in own) in lines
        assert sorted((cell.size_bytes, cell.published_low) for cell in own) in lines


def test_a_published_range_is_a_band() -> None:
    figure = drawn(run_cells(REQUEST))
    in_a, in_c = (len(figure.axes[index].collections) for index in (0, 1))
    # SLUB's C was published as one number, SLUB+'s as a range.
    assert (in_a, in_c) == (0, 1)


def test_a_wide_spread_is_drawn_on_a_log_scale() -> None:
    figure = drawn(run_cells(REQUEST))
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "linear", "log"]


def bulk_and_other_cells() -> list[CellResult]:
    """A bulk test with a published value, two operations of one test, a test that sweeps nothing."""

    def cell(test: str, operation: str, size: int, objects: int | None, cycles: float) -> CellResult:
        known = cycles if test != "kmalloc-kfree" else None
        return CellResult(
            "m", "slub", test, operation, size, 1, 10, cycles, cycles, cycles, known, known, objects=objects
        )

    return [
        *(cell("bulk", "alloc+free", 256, n, 100.0 + n) for n in (250, 1, 32)),
        *(
            cell("kmalloc-kfree", op, size, None, size + 1.0)
            for size in (8, 16)
            for op in ("kmalloc", "kfree")
        ),
        *(cell("irq-cmpxchg", op, 0, None, 50.0) for op in ("cmpxchg_local", "irq_restore", "irq_save")),
    ]


def test_a_panel_per_operation_and_bars_where_nothing_is_swept() -> None:
    figure = drawn(bulk_and_other_cells())
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["bulk   alloc+free", "kmalloc-kfree   kmalloc", "kmalloc-kfree   kfree", "irq-cmpxchg"]
    bulk, _, kfree, irq = figure.axes
    assert [(1.0, 101.0), (32.0, 132.0), (250.0, 350.0)] in [
        list(map(tuple, line.get_xydata().tolist())) for line in bulk.get_lines()
    ]
    assert (bulk.get_xlabel(), kfree.get_xlabel(), irq.get_xlabel()) == (
        "objects per bulk call",
        "object size in bytes",
        "",
    )
    heights = [bar.get_height() for bar in irq.patches]
    assert heights == [50.0] * 6  # three simulated, three published outlines
    assert [tick.get_text() for tick in irq.get_xticklabels()] == ["cmpxchg_local", "irq_restore", "irq_save"]
    png = results_png(replace(REQUEST, tests=("bulk", "irq-cmpxchg")), bulk_and_other_cells())
    assert pixels(png).shape == (1080, 1920, 3)


def test_the_mean_over_seeds_is_drawn_with_its_spread() -> None:
    runs = [
        replace(cell, cycles_per_op=cycles, seed=seed)
        for cell in bulk_and_other_cells()
        for seed, cycles in ((1, 90.0), (2, 130.0))
    ]
    figure = drawn(runs)
    lines = [list(map(tuple, line.get_xydata().tolist())) for line in figure.axes[0].get_lines()]
    assert [(1.0, 110.0), (32.0, 110.0), (250.0, 110.0)] in lines
    (spread,) = figure.axes[0].collections
    assert [segment.tolist() for segment in spread.get_segments()] == [
        [[x, 90.0], [x, 130.0]] for x in (1.0, 32.0, 250.0)
    ]


@pytest.mark.parametrize("sizes", [(64,), (96, 192)])
def test_few_sizes_without_published_values(sizes: tuple[int, ...]) -> None:
    request = RunRequest("tiny", ("slub",), ("A",), sizes, 10, 1)
    assert pixels(results_png(request, run_cells(request))).shape == (1080, 1920, 3)


def test_colours_stay_with_their_kernel() -> None:
    assert kernel_styles(["slub+", "mine"])["slub+"] == kernel_styles(["slub+"])["slub+"]
    many = kernel_styles(["slab", "slub", "slub+", "slub-o", "x", "y"])
    assert len(set(many.values())) == 6


def test_labels() -> None:
    assert [size_label(size) for size in (8, 1000, 1024, 1536, 16384)] == ["8", "1000", "1K", "1536", "16K"]


def test_pyplot_and_qt_stay_out() -> None:
    program = (
        "import sys; from slubviz.model.charts import results_png;"
        "from tests.cli.fake_runner import run_cells;"
        "from tests.cli.test_charts import REQUEST; sys.modules.pop('matplotlib.pyplot', None);"
        "results_png(REQUEST, run_cells(REQUEST));"
        "print([m for m in ('matplotlib.pyplot', 'PySide6') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
