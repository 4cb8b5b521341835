"""The chart of a run: cycles per operation against size, one panel per test, beside what was published.

Drawn with matplotlib's Agg renderer, without Qt and without pyplot's global state; the same results give
the same bytes.  Leaves out counters and the spread between CPUs.
"""

from __future__ import annotations

import io
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slubviz.model.results import CellResult, RunRequest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 100
#: Fixed per kernel, so that a kernel keeps its colour from chart to chart.  Okabe and Ito's palette,
#: told apart with every common colour vision; markers differ as well, for prints in grey.
_KERNEL_STYLES = {
    "slab": ("#D55E00", "s"),
    "slub": ("#0072B2", "o"),
    "slub+": ("#009E73", "^"),
    "slub-o": ("#CC79A7", "D"),
}
_OTHER_STYLES = (("#56B4E9", "v"), ("#E69F00", "P"), ("#000000", "X"), ("#7F7F7F", "*"))
_INK = "#222222"
_MUTED = "#666666"
_GRID = "#E3E3E3"

_LEFT, _RIGHT = 0.055, 0.985
_PUBLISHED_DASHES = (0, (2.5, 2))

#: Title of each test's panel and the note below it.
_TEST_TEXTS = {
    "A": ("kmalloc", "one CPU"),
    "B": ("kfree", "one CPU"),
    "C": ("kmalloc + kfree pairs", "one CPU"),
    "D": ("kmalloc", "all CPUs at once"),
    "E": ("kmalloc + kfree pairs", "all CPUs at once"),
    "F": ("kfree of other CPUs' objects", "all frees / operations of one CPU"),
}
#: Above this ratio of largest to smallest value a panel's y axis is logarithmic.
_LOG_RATIO = 20.0


@dataclass(frozen=True)
class _Style:
    colour: str
    marker: str


def results_png(
    request: RunRequest, cells: Sequence[CellResult], width_pixels: int = 1920, height_pixels: int = 1080
) -> bytes:
    """The chart as a PNG.

    Parameters
    ----------
    request
        Gives operations and seed for the title.
    cells
        Results of one machine; order does not matter.
    width_pixels, height_pixels
        Size of the picture.  Text keeps its share of the height.

    Returns
    -------
    bytes
        A PNG without date or version in it.
    """
    # Its notes ("building the font cache") are nothing the user can act on.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    os.environ["MPLBACKEND"] = "agg"  # no window is opened, and the user's choice may not exist here
    import matplotlib
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    scale = min(width_pixels / 1920, height_pixels / 1080)
    with matplotlib.rc_context(), style.context("default"):
        figure = Figure(
            figsize=(width_pixels / _DPI / scale, height_pixels / _DPI / scale),
            dpi=_DPI * scale,
            facecolor="white",
        )
        FigureCanvasAgg(figure)
        _draw(figure, request, cells)
        png = io.BytesIO()
        figure.savefig(png, format="png", dpi=_DPI * scale, metadata={"Software": None})
    return png.getvalue()


def _draw(figure: Figure, request: RunRequest, cells: Sequence[CellResult]) -> None:
    tests = list(dict.fromkeys(cell.test for cell in cells))
    kernels = list(dict.fromkeys(cell.kernel for cell in cells))
    styles = kernel_styles(kernels)
    columns = 1 if len(tests) == 1 else 2 if len(tests) in (2, 4) else 3
    rows = max(1, math.ceil(len(tests) / columns))
    figure.subplots_adjust(left=_LEFT, right=_RIGHT, top=0.81, bottom=0.085, wspace=0.17, hspace=0.48)
    for index, test in enumerate(tests):
        axes = figure.add_subplot(rows, columns, index + 1)
        _draw_test(axes, test, [cell for cell in cells if cell.test == test], styles)
        if index + columns >= len(tests):
            axes.set_xlabel("object size in bytes", fontsize=15, color=_MUTED)
    _draw_title(figure, request, cells)
    _draw_legend(figure, cells, styles)


def kernel_styles(kernels: Sequence[str]) -> dict[str, _Style]:
    """Colour and marker of each kernel: fixed for the known ones, in turn for others."""
    styles: dict[str, _Style] = {}
    others = 0
    for kernel in kernels:
        if kernel in _KERNEL_STYLES:
            styles[kernel] = _Style(*_KERNEL_STYLES[kernel])
        else:
            styles[kernel] = _Style(*_OTHER_STYLES[others % len(_OTHER_STYLES)])
            others += 1
    return styles


def _draw_test(axes: Axes, test: str, cells: Sequence[CellResult], styles: dict[str, _Style]) -> None:
    values: list[float] = []
    for kernel, style in styles.items():
        own = sorted((cell for cell in cells if cell.kernel == kernel), key=lambda cell: cell.size_bytes)
        if own:
            values += _draw_published(axes, own, style)
            values += _draw_simulated(axes, own, style)
    logarithmic = _set_axes(axes, sorted({cell.size_bytes for cell in cells}), values)
    title, note = _TEST_TEXTS.get(test, ("", ""))
    axes.set_title(
        f"{test}   {title}", loc="left", fontsize=18, color=_INK, pad=34, fontweight="bold", parse_math=False
    )
    axes.annotate(
        ", ".join(part for part in (note, "log scale" if logarithmic else "") if part),
        xy=(0, 1),
        xycoords="axes fraction",
        xytext=(0, 13),
        textcoords="offset points",
        fontsize=14,
        color=_MUTED,
    )


def _draw_simulated(axes: Axes, cells: Sequence[CellResult], style: _Style) -> list[float]:
    values = [cell.cycles_per_op for cell in cells]
    axes.plot(
        [cell.size_bytes for cell in cells],
        values,
        color=style.colour,
        marker=style.marker,
        markersize=8,
        linewidth=2.6,
        zorder=3,
    )
    return values


def _draw_published(axes: Axes, cells: Sequence[CellResult], style: _Style) -> list[float]:
    known = [
        (cell.size_bytes, cell.published_low, cell.published_high)
        for cell in cells
        if cell.published_low is not None and cell.published_high is not None
    ]
    if not known:
        return []
    sizes = [size for size, _, _ in known]
    lows = [low for _, low, _ in known]
    highs = [high for _, _, high in known]
    if lows != highs:
        axes.fill_between(sizes, lows, highs, color=style.colour, alpha=0.2, linewidth=0, zorder=1)
    middles = [(low + high) / 2 for low, high in zip(lows, highs, strict=True)]
    # One value for all sizes (tests C and E) is a level, not a row of measurements: no markers.
    level = len(sizes) > 1 and len(set(middles)) == 1
    axes.plot(
        sizes,
        middles,
        color=style.colour,
        linestyle=_PUBLISHED_DASHES,
        linewidth=1.8,
        marker="" if level else style.marker,
        markersize=8,
        markerfacecolor="white",
        markeredgewidth=1.6,
        zorder=2,
    )
    return lows + highs


def _set_axes(axes: Axes, sizes: Sequence[int], values: Sequence[float]) -> bool:
    """Scales, ticks and frame; returns whether the y axis is logarithmic."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator, StrMethodFormatter

    axes.set_xscale("log", base=2)
    shown = _labelled_sizes(sizes)
    axes.xaxis.set_major_locator(FixedLocator([float(size) for size in shown]))
    axes.xaxis.set_major_formatter(FixedFormatter([size_label(size) for size in shown]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
    low, high = min(values), max(values)
    logarithmic = low > 0 and high / low > _LOG_RATIO
    if logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.5, high * 1.5)
        _set_log_ticks(axes, low / 1.5, high * 1.5)
    else:
        axes.set_ylim(0, high * 1.12 if high > 0 else 1)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(True, axis="y", color=_GRID, linewidth=1)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_MUTED)
    axes.tick_params(axis="both", labelsize=14, labelcolor=_INK, color=_MUTED, length=0, pad=7)
    return logarithmic


def _set_log_ticks(axes: Axes, low: float, high: float) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, or at powers of ten alone where those are many."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _labelled_sizes(sizes: Sequence[int]) -> list[int]:
    """As many sizes as fit as labels; those too near (in the log) to the one before go without."""
    span = math.log2(sizes[-1] / sizes[0]) if len(sizes) > 1 else 0.0
    nearest = span / 13
    shown: list[int] = []
    for size in sizes:
        if not shown or math.log2(size / shown[-1]) > nearest:
            shown.append(size)
    return shown


def size_label(size_bytes: int) -> str:
    """``64``, ``1K``, ``16K``: short enough to stand beside its neighbours."""
    return f"{size_bytes // 1024}K" if size_bytes >= 1024 and size_bytes % 1024 == 0 else str(size_bytes)


def _draw_title(figure: Figure, request: RunRequest, cells: Sequence[CellResult]) -> None:
    machine = cells[0].machine if cells else request.machine
    cpus = max((cell.cpus for cell in cells), default=0)
    figure.text(
        _LEFT,
        0.945,
        f"Cycles per operation on {machine}",
        fontsize=28,
        color=_INK,
        fontweight="bold",
        parse_math=False,
    )
    detail = f"{cpus} CPUs, {request.ops:,} operations per CPU, seed {request.seed}"
    figure.text(_LEFT, 0.905, detail, fontsize=17, color=_MUTED, parse_math=False)


def _draw_legend(figure: Figure, cells: Sequence[CellResult], styles: dict[str, _Style]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style.colour, marker=style.marker, markersize=9, linewidth=2.6, label=kernel)
        for kernel, style in styles.items()
    ]
    handles.append(Line2D([], [], color=_MUTED, linewidth=2.6, marker="o", markersize=8, label="simulated"))
    if any(cell.published_low is not None for cell in cells):
        handles.append(
            Line2D(
                [],
                [],
                color=_MUTED,
                linestyle=_PUBLISHED_DASHES,
                linewidth=1.8,
                marker="o",
                markersize=8,
                markerfacecolor="white",
                markeredgewidth=1.6,
                label="published",
            )
        )
    figure.legend(
        handles=handles,
        loc="upper right",
        bbox_to_anchor=(_RIGHT + 0.008, 0.985),
        ncols=min(len(handles), 6),
        frameon=False,
        fontsize=17,
        handlelength=2.6,
        columnspacing=1.8,
    )
