"""The chart of a run: cycles per operation, one panel per test and operation, beside what was published.

The x axis is the object size, or objects per bulk call; a test that sweeps nothing has bars, one group for
each operation (``chart_bars``).  Drawn with matplotlib's Agg renderer, without Qt and without pyplot's
global state; the same results give the same bytes.  With several seeds the mean is drawn, and a bar from
the lowest to the highest.  Leaves out counters and the spread between CPUs.
"""

from __future__ import annotations

import io
import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slubviz.model.chart_bars import draw_bars
from slubviz.model.plan import WORKLOADS, Sweep
from slubviz.model.results import CellResult, RunRequest, over_seeds, seeds_text

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
_OTHER_COLOURS = ("#56B4E9", "#E69F00", "#000000", "#7F7F7F")
#: More than colours, so that the fifth kernel differs from the first by its marker.
_OTHER_MARKERS = ("v", "P", "X", "*", "<", "h", ">", "p", "d")
_INK = "#222222"
_MUTED = "#666666"
_GRID = "#E3E3E3"

_LEFT, _RIGHT = 0.055, 0.985
_PUBLISHED_DASHES = (0, (2.5, 2))

_X_LABELS = {
    Sweep.SIZE: "object size in bytes",
    Sweep.OBJECTS: "objects per bulk call",
    Sweep.NOTHING: "",
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
    cells = over_seeds(cells)
    panels = _panels(cells)
    kernels = list(dict.fromkeys(cell.kernel for cell in cells))
    styles = kernel_styles(kernels)
    columns = 1 if len(panels) == 1 else 2 if len(panels) in (2, 4) else 3
    rows = max(1, math.ceil(len(panels) / columns))
    figure.subplots_adjust(left=_LEFT, right=_RIGHT, top=0.81, bottom=0.085, wspace=0.17, hspace=0.48)
    x_labels = [_X_LABELS[_sweep(panel[0].test)] for panel in panels]
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, index + 1)
        _draw_panel(axes, panel, styles)
        if index + columns >= len(panels) or x_labels[index + columns] != x_labels[index]:
            axes.set_xlabel(x_labels[index], fontsize=15, color=_MUTED)
    _draw_title(figure, request, cells)
    _draw_legend(figure, cells, styles)


def _panels(cells: Sequence[CellResult]) -> list[list[CellResult]]:
    """The cells by panel: one for each test, and for each of its operations if it sweeps something."""
    panels: dict[tuple[str, str], list[CellResult]] = {}
    for cell in cells:
        operation = "" if _sweep(cell.test) == Sweep.NOTHING else cell.operation
        panels.setdefault((cell.test, operation), []).append(cell)
    return list(panels.values())


def _sweep(test: str) -> Sweep:
    return WORKLOADS[test].sweep if test in WORKLOADS else Sweep.SIZE


def kernel_styles(kernels: Sequence[str]) -> dict[str, _Style]:
    """Colour and marker of each kernel: fixed for the known ones, in turn for others."""
    styles: dict[str, _Style] = {}
    others = 0
    for kernel in kernels:
        if kernel in _KERNEL_STYLES:
            styles[kernel] = _Style(*_KERNEL_STYLES[kernel])
        else:
            styles[kernel] = _Style(
                _OTHER_COLOURS[others % len(_OTHER_COLOURS)], _OTHER_MARKERS[others % len(_OTHER_MARKERS)]
            )
            others += 1
    return styles


def _draw_panel(axes: Axes, cells: Sequence[CellResult], styles: dict[str, _Style]) -> None:
    values: list[float] = []
    test = cells[0].test
    if _sweep(test) == Sweep.NOTHING:
        draw_bars(axes, cells, {kernel: style.colour for kernel, style in styles.items()})
        _set_frame(axes)
        logarithmic = False
    else:
        for kernel, style in styles.items():
            own = sorted((cell for cell in cells if cell.kernel == kernel), key=lambda cell: cell.point)
            if own:
                values += _draw_published(axes, own, style)
                values += _draw_simulated(axes, own, style)
        points = sorted({cell.point for cell in cells})
        logarithmic = _set_axes(axes, points, values, size_label if cells[0].objects is None else str)
    title, note = WORKLOADS[test].panel if test in WORKLOADS else ("", "")
    if not title and _sweep(test) != Sweep.NOTHING:
        title = cells[0].operation
    axes.set_title(
        f"{test}   {title}".rstrip(),
        loc="left",
        fontsize=18,
        color=_INK,
        pad=34,
        fontweight="bold",
        parse_math=False,
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
        [cell.point for cell in cells],
        values,
        color=style.colour,
        marker=style.marker,
        markersize=8,
        linewidth=2.6,
        zorder=3,
    )
    spreads = [(cell.point, cell.spread) for cell in cells if cell.spread is not None]
    if spreads:
        axes.vlines(
            [point for point, _ in spreads],
            [spread.lowest for _, spread in spreads],
            [spread.highest for _, spread in spreads],
            color=style.colour,
            linewidth=1.4,
            zorder=2,
        )
    return [*values, *(end for _, spread in spreads for end in (spread.lowest, spread.highest))]


def _draw_published(axes: Axes, cells: Sequence[CellResult], style: _Style) -> list[float]:
    known = [
        (cell.point, cell.published_low, cell.published_high)
        for cell in cells
        if cell.published_low is not None and cell.published_high is not None
    ]
    if not known:
        return []
    points = [point for point, _, _ in known]
    lows = [low for _, low, _ in known]
    highs = [high for _, _, high in known]
    if lows != highs:
        axes.fill_between(points, lows, highs, color=style.colour, alpha=0.2, linewidth=0, zorder=1)
    middles = [(low + high) / 2 for low, high in zip(lows, highs, strict=True)]
    # One value for all sizes (tests C and E) is a level, not a row of measurements: no markers.
    level = len(points) > 1 and len(set(middles)) == 1
    axes.plot(
        points,
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


def _set_axes(
    axes: Axes, points: Sequence[int], values: Sequence[float], label: Callable[[int], str]
) -> bool:
    """Scales, ticks and frame; returns whether the y axis is logarithmic."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator, StrMethodFormatter

    axes.set_xscale("log", base=2)
    shown = _labelled_points(points)
    axes.xaxis.set_major_locator(FixedLocator([float(point) for point in shown]))
    axes.xaxis.set_major_formatter(FixedFormatter([label(point) for point in shown]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(points[0] / 1.25, points[-1] * 1.25)
    low, high = min(values), max(values)
    logarithmic = low > 0 and high / low > _LOG_RATIO
    if logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.5, high * 1.5)
        _set_log_ticks(axes, low / 1.5, high * 1.5)
    else:
        axes.set_ylim(0, high * 1.12 if high > 0 else 1)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    _set_frame(axes)
    return logarithmic


def _set_frame(axes: Axes) -> None:
    axes.grid(True, axis="y", color=_GRID, linewidth=1)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_MUTED)
    axes.tick_params(axis="both", labelsize=14, labelcolor=_INK, color=_MUTED, length=0, pad=7)


def _set_log_ticks(axes: Axes, low: float, high: float) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, or at powers of ten alone where those are many."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _labelled_points(points: Sequence[int]) -> list[int]:
    """As many points as fit as labels; those too near (in the log) to the one before go without."""
    span = math.log2(points[-1] / points[0]) if len(points) > 1 else 0.0
    nearest = span / 13
    shown: list[int] = []
    for point in points:
        if not shown or math.log2(point / shown[-1]) > nearest:
            shown.append(point)
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
    detail = f"{cpus} CPUs, {request.ops:,} operations per CPU, {seeds_text(request)}"
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
