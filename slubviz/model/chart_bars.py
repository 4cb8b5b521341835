"""Bars for tests that sweep nothing: a group for each operation, in it a bar for each kernel.

What was published for a bar is an outline over it; the spread over seeds a line in its middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slubviz.model.results import CellResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Share of the distance between groups that their bars take.
_GROUP_WIDTH = 0.7
_INK = "#222222"
_MUTED = "#666666"


def draw_bars(axes: Axes, cells: Sequence[CellResult], colours: Mapping[str, str]) -> None:
    """Draw the cells of one test.

    Parameters
    ----------
    axes : an empty panel
    cells : of one test, one for each kernel and operation
    colours : of the kernels, in the order of the bars
    """
    operations = list(dict.fromkeys(cell.operation for cell in cells))
    kernels = [kernel for kernel in colours if any(cell.kernel == kernel for cell in cells)]
    width = _GROUP_WIDTH / len(kernels)
    for cell in cells:
        place = kernels.index(cell.kernel) - (len(kernels) - 1) / 2
        _draw_bar(axes, cell, operations.index(cell.operation) + place * width, width, colours[cell.kernel])
    axes.set_xticks(range(len(operations)), operations)
    axes.set_xlim(-0.6, len(operations) - 0.4)
    axes.margins(y=0.16)


def _draw_bar(axes: Axes, cell: CellResult, x: float, width: float, colour: str) -> None:
    axes.bar(x, cell.cycles_per_op, width * 0.86, color=colour, zorder=2)
    top = cell.cycles_per_op
    if cell.published_high is not None:
        axes.bar(
            x,
            cell.published_high,
            width * 0.98,
            fill=False,
            edgecolor=_MUTED,
            linestyle=(0, (2.5, 2)),
            linewidth=1.8,
            zorder=3,
        )
        top = max(top, cell.published_high)
    if cell.spread is not None:
        axes.vlines(x, cell.spread.lowest, cell.spread.highest, color=_INK, linewidth=1.6, zorder=4)
        top = max(top, cell.spread.highest)
    axes.annotate(
        f"{cell.cycles_per_op:,.0f}",
        xy=(x, top),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        fontsize=14,
        color=_INK,
    )
