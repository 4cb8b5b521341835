"""A comparison as a heat map: one panel per machine and kind of test, every error printed in its cell.

Rows are sizes (or objects per bulk call), columns are kernels grouped by test.  Colour is the error,
clipped at ±50 %: blue is too fast, red too slow, white right; blue and red are told apart with every common
colour vision, and the printed number says what the colour says.  A number that stands for all sizes is one
tall cell.  Drawn with matplotlib's Agg renderer; the same comparison gives the same bytes.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from slubviz.model.charts import size_label
from slubviz.model.compare import ComparedCell, Comparison
from slubviz.model.compare_summary import statistics_of
from slubviz.model.compare_table import ALL_POINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

#: Errors beyond this have the darkest colour.
CLIP_PERCENT = 50.0
#: Blue, white, red: the ends of ColorBrewer's RdBu, which is safe for colour-blind readers.
_COLOURS = ("#2166AC", "#67A9CF", "#D1E5F0", "#F7F7F7", "#FDDBC7", "#EF8A62", "#B2182B")
_INK, _MUTED = "#222222", "#666666"
_DARK, _LIGHT = "#000000", "#FFFFFF"  #: numbers in cells: one of them always has a contrast above 4.5
_DPI = 100
_ROW_PIXELS, _HEADER_PIXELS, _TITLE_PIXELS, _MARGIN_PIXELS = 34, 150, 84, 26
_LABEL_PIXELS, _LEGEND_PIXELS = 96, 60
_WIDEST_COLUMN_PIXELS = 130
_LETTER_PIXELS = 9  #: of a column's title, about
_CENTRED: dict[str, Any] = {"ha": "center", "va": "bottom", "parse_math": False}
_GROUP_GAP = 0.25  #: between the columns of two tests, in columns


@dataclass(frozen=True)
class _Column:
    """One kernel in one test."""

    test: str
    operation: str
    kernel: str


@dataclass(frozen=True)
class _Panel:
    """Cells that share their rows."""

    machine: str
    cells: tuple[ComparedCell, ...]

    @property
    def points(self) -> list[int]:
        """Rows, ascending; one row where nothing is swept."""
        found = sorted({cell.key.point for cell in self.cells} - {ALL_POINTS})
        return found or [ALL_POINTS]

    @property
    def columns(self) -> list[_Column]:
        """Columns, those of a test side by side."""
        keys = [cell.key for cell in self.cells]
        columns = dict.fromkeys(_Column(key.test, key.operation, key.kernel) for key in keys)
        groups = list(dict.fromkeys((column.test, column.operation) for column in columns))
        return sorted(columns, key=lambda column: groups.index((column.test, column.operation)))

    @property
    def height_pixels(self) -> int:
        """Header and rows."""
        return _HEADER_PIXELS + _ROW_PIXELS * len(self.points) + _MARGIN_PIXELS


def _panels(comparison: Comparison) -> list[_Panel]:
    """Tests that sweep the same points share a panel; tests that sweep nothing have their own."""
    panels: list[_Panel] = []
    for machine in comparison.machines:
        groups: dict[tuple[int, ...], list[ComparedCell]] = {}
        cells = comparison.of_machine(machine)
        points = {
            test: tuple(sorted({c.key.point for c in cells if c.key.test == test} - {ALL_POINTS}))
            for test in dict.fromkeys(cell.key.test for cell in cells)
        }
        swept = [own for own in points.values() if own]
        for cell in cells:
            own = points[cell.key.test]
            # Tests C and E stand beside the others of their mail.
            if not own and len(cell.key.test) == 1 and swept:
                own = swept[0]
            groups.setdefault(own, []).append(cell)
        panels += [_Panel(machine, tuple(group)) for group in groups.values()]
    return panels


def heat_map_png(comparison: Comparison, width_pixels: int = 1600) -> bytes:
    """The heat map as a PNG.

    Parameters
    ----------
    comparison
        With at least one cell.
    width_pixels
        Width; the height follows from the number of rows.

    Returns
    -------
    bytes
        A PNG without date or version in it.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    panels = _panels(comparison)
    if not panels:
        raise ValueError("no cell was compared: there is nothing to draw")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # its notes are nothing the user can act on
    os.environ["MPLBACKEND"] = "agg"
    import matplotlib
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = _TITLE_PIXELS + _LEGEND_PIXELS + sum(panel.height_pixels for panel in panels)
    with matplotlib.rc_context(), style.context("default"):
        figure = Figure(figsize=(width_pixels / _DPI, height / _DPI), dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        _draw(figure, comparison, panels, width_pixels, height)
        png = io.BytesIO()
        figure.savefig(png, format="png", dpi=_DPI, metadata={"Software": None})
    return png.getvalue()


@cache
def _colour_map() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("error", _COLOURS)


def _draw(figure: Figure, comparison: Comparison, panels: Sequence[_Panel], width: int, height: int) -> None:
    _draw_title(figure, comparison, height)
    top = _TITLE_PIXELS
    for panel in panels:
        _draw_panel(figure, panel, width, height, top)
        top += panel.height_pixels
    _draw_legend(figure, width, height, top)


def _draw_title(figure: Figure, comparison: Comparison, height: int) -> None:
    request = comparison.request
    seeds = f"seed {request.seeds[0]}" if len(request.seeds) == 1 else f"mean of {len(request.seeds)} seeds"
    found = statistics_of(comparison.cells)
    assert found is not None
    left = 0.012
    figure.text(
        left,
        1 - 34 / height,
        "Simulated against published cycles, error in percent",
        fontsize=17,
        fontweight="bold",
        color=_INK,
        va="center",
    )
    figure.text(
        left,
        1 - 68 / height,
        f"{found.cells} cells: median {found.median:.1f} %, 90th percentile {found.p90:.1f} %, "
        f"bias {found.bias:+.1f} %   ({request.ops:,} operations per CPU, {seeds})",
        fontsize=12,
        color=_MUTED,
        va="center",
    )


def _draw_panel(figure: Figure, panel: _Panel, width: int, height: int, top: int) -> None:
    columns, points = panel.columns, panel.points
    places = _column_places(columns)
    span = places[-1] + 1
    room = width - _LABEL_PIXELS - _MARGIN_PIXELS
    column_pixels = min(room / span, _WIDEST_COLUMN_PIXELS)
    rows_top = top + _HEADER_PIXELS
    axes = figure.add_axes(
        (
            _LABEL_PIXELS / width,
            1 - (rows_top + _ROW_PIXELS * len(points)) / height,
            column_pixels * span / width,
            _ROW_PIXELS * len(points) / height,
        )
    )
    axes.set_xlim(0, span)
    axes.set_ylim(len(points), 0)
    axes.axis("off")
    _draw_cells(axes, panel, columns, places)
    for row, point in enumerate(points):
        label = "" if point == ALL_POINTS else str(point) if _counts_objects(panel) else size_label(point)
        axes.text(-0.12, row + 0.5, label, ha="right", va="center", fontsize=12, color=_INK)
    _draw_headers(axes, panel, columns, places, column_pixels)


def _counts_objects(panel: _Panel) -> bool:
    return panel.cells[0].key.test == "bulk"


def _column_places(columns: Sequence[_Column]) -> list[float]:
    """Left edge of each column: a gap where the test changes."""
    places: list[float] = []
    for index, column in enumerate(columns):
        if index == 0:
            places.append(0.0)
            continue
        before = columns[index - 1]
        gap = _GROUP_GAP if (before.test, before.operation) != (column.test, column.operation) else 0.0
        places.append(places[-1] + 1 + gap)
    return places


def _draw_cells(axes: Axes, panel: _Panel, columns: Sequence[_Column], places: Sequence[float]) -> None:
    from matplotlib.patches import Rectangle

    rows = {point: row for row, point in enumerate(panel.points)}
    for cell in panel.cells:
        key = cell.key
        left = places[columns.index(_Column(key.test, key.operation, key.kernel))]
        tall = key.point not in rows
        row, height = (0, len(rows)) if tall else (rows[key.point], 1)
        error = cell.error_percent
        colour = colour_of(error)
        axes.add_patch(Rectangle((left, row), 1, height, facecolor=colour, edgecolor="white", linewidth=1.5))
        axes.text(
            left + 0.5,
            row + height / 2,
            error_text(error),
            ha="center",
            va="center",
            fontsize=12,
            color=text_colour(colour),
        )


def colour_of(error_percent: float) -> tuple[float, float, float, float]:
    """Red, green, blue and opacity (0 to 1) of an error, clipped at ``CLIP_PERCENT``."""
    clipped = min(max(error_percent, -CLIP_PERCENT), CLIP_PERCENT)
    red, green, blue, opacity = _colour_map()((clipped / CLIP_PERCENT + 1) / 2)
    return (float(red), float(green), float(blue), float(opacity))


def error_text(error_percent: float) -> str:
    """``+7``, ``-0.4``, ``0``: short enough for a cell."""
    if error_percent == 0:
        return "0"
    return f"{error_percent:+.1f}" if abs(error_percent) < 0.95 else f"{error_percent:+.0f}"


def text_colour(background: Sequence[float]) -> str:
    """Dark or light ink, whichever has the greater contrast (WCAG 2) on a background of red, green, blue."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in background[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return _DARK if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else _LIGHT


def _draw_headers(
    axes: Axes, panel: _Panel, columns: Sequence[_Column], places: Sequence[float], column_pixels: float
) -> None:
    for column, left in zip(columns, places, strict=True):
        size = 12 if len(column.kernel) * _LETTER_PIXELS < column_pixels else 10
        axes.text(
            left + 0.5, -0.2, _wrapped(column.kernel, column_pixels), fontsize=size, color=_INK, **_CENTRED
        )
    groups: dict[tuple[str, str], list[float]] = {}
    for column, left in zip(columns, places, strict=True):
        groups.setdefault((column.test, column.operation), []).append(left)
    for (test, operation), own in groups.items():
        found = statistics_of([c for c in panel.cells if (c.key.test, c.key.operation) == (test, operation)])
        assert found is not None
        axes.plot([own[0] + 0.06, own[-1] + 0.94], [-1.2, -1.2], color=_MUTED, linewidth=1, clip_on=False)
        title = test if len(test) == 1 else f"{test}\n{operation}"
        middle, room = (own[0] + own[-1] + 1) / 2, column_pixels * len(own)
        size = 14 if len(test) * _LETTER_PIXELS < room else 10
        axes.text(middle, -2.0, title, fontsize=size, fontweight="bold", color=_INK, **_CENTRED)
        axes.text(middle, -1.37, f"median {found.median:.0f} %", fontsize=10.5, color=_MUTED, **_CENTRED)
    axes.text(0, -3.6, panel.machine, ha="left", va="bottom", fontsize=14, color=_INK, fontweight="bold")


def _wrapped(kernel: str, column_pixels: float) -> str:
    """A kernel's name, on two lines where it does not fit on one."""
    if len(kernel) * _LETTER_PIXELS < column_pixels or "-" not in kernel:
        return kernel
    head, _, tail = kernel.rpartition("-")
    return f"{head}-\n{tail}"


def _draw_legend(figure: Figure, width: int, height: int, top: int) -> None:
    import numpy as np

    left, bar_width, bar_height = _LABEL_PIXELS, 420, 16
    axes = figure.add_axes(
        (left / width, 1 - (top + 14 + bar_height) / height, bar_width / width, bar_height / height)
    )
    axes.imshow(np.linspace(0, 1, 256)[None, :], aspect="auto", cmap=_colour_map())
    axes.axis("off")
    for share, text in ((0, "-50 % or less"), (0.5, "0"), (1, "+50 % or more")):
        axes.text(255 * share, 0.75, text, ha="center", va="top", fontsize=11, color=_MUTED)
    figure.text(
        (left + bar_width + 110) / width,
        1 - (top + 22) / height,
        "simulated too fast (blue) or too slow (red); a tall cell stands for all sizes",
        fontsize=11,
        color=_MUTED,
        va="center",
    )
