"""Where the cells of a comparison's heat map go: panels, columns grouped by test, rows of sizes.

Pure arithmetic on cell names in logical pixels; no Qt.  A panel holds the tests of one machine that sweep the
same points; a test with one number for all sizes stands beside the others of its mail as tall cells.  Panels
flow from left to right and from top to bottom.  The layout is made of the cells that are wanted, so nothing
moves while they are measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slubviz.views.fidelity_report import ALL_POINTS, cell_title, point_label

if TYPE_CHECKING:
    from slubviz.model.compare_table import CellKey

#: Between two tests of a panel, and between panels.
_GROUP_GAP, _PANEL_GAP = 10, 28
_LABEL_GAP = 8
_WIDEST_COLUMN = 132
#: Lines of a panel's head: machine, test, median, kernels.
_HEAD_LINES = 4


@dataclass(frozen=True)
class HeatMeasures:
    """Sizes of text in logical pixels."""

    line: int  #: height of a line
    width: Callable[[str], int]  #: of a text
    bold_width: Callable[[str], int]  #: of a text in bold

    @property
    def row(self) -> int:
        """Height of a row of cells."""
        return self.line + 6

    @property
    def narrowest(self) -> int:
        """Width of the narrowest column: a number of three digits and short names of kernels fit."""
        return max(self.width("+000") + 8, self.width("slub-o") + 4)


@dataclass(frozen=True)
class HeatCell:
    """One published cell's rectangle."""

    key: CellKey
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class HeatGroup:
    """The columns of one test: its title, above the names of the kernels."""

    machine: str
    test: str
    operation: str
    x: int
    y: int
    width: int
    cells: tuple[CellKey, ...]

    @property
    def title(self) -> str:
        """Test and operation."""
        return cell_title(self.test, self.operation)


@dataclass(frozen=True)
class HeatText:
    """A label in a rectangle."""

    text: str
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class HeatLayout:
    """All of it, and the size of the whole."""

    width: int = 0
    height: int = 0
    cells: tuple[HeatCell, ...] = ()
    groups: tuple[HeatGroup, ...] = ()
    titles: tuple[HeatText, ...] = ()  #: names of machines
    kernels: tuple[HeatText, ...] = ()  #: above the columns
    points: tuple[HeatText, ...] = ()  #: left of the rows

    def cell_at(self, x: int, y: int) -> HeatCell | None:
        """The cell at a point."""
        for cell in self.cells:
            if cell.x <= x < cell.x + cell.width and cell.y <= y < cell.y + cell.height:
                return cell
        return None

    def group_at(self, x: int, y: int, height: int) -> HeatGroup | None:
        """The test whose title, ``height`` tall, is at a point."""
        for group in self.groups:
            if group.x <= x < group.x + group.width and group.y <= y < group.y + height:
                return group
        return None

    def neighbour(self, key: CellKey, right: int, down: int) -> CellKey:
        """The nearest cell in a direction; the same one where there is none."""
        here = next(cell for cell in self.cells if cell.key == key)
        x, y = here.x + here.width / 2, here.y + min(here.height / 2, here.width / 4)
        best, nearest = key, math.inf
        for cell in self.cells:
            dx = max(cell.x - x, x - cell.x - cell.width, 0)
            dy = max(cell.y - y, y - cell.y - cell.height, 0)
            ahead = (cell.x + cell.width / 2 - x) * right + (cell.y + cell.height / 2 - y) * down
            aside = dy if right else dx
            if cell is not here and ahead > 1 and ahead + 8 * aside < nearest:
                best, nearest = cell.key, ahead + 8 * aside
        return best


@dataclass(frozen=True)
class _Column:
    test: str
    operation: str
    kernel: str
    keys: tuple[CellKey, ...]


@dataclass(frozen=True)
class _Panel:
    machine: str
    points: tuple[int, ...]
    columns: tuple[_Column, ...]

    @property
    def groups(self) -> list[list[_Column]]:
        """Columns by test and operation."""
        found: dict[tuple[str, str], list[_Column]] = {}
        for column in self.columns:
            found.setdefault((column.test, column.operation), []).append(column)
        return list(found.values())


def lay_out_heat_map(keys: Sequence[CellKey], width: int, measures: HeatMeasures) -> HeatLayout:
    """Place every cell.

    Parameters
    ----------
    keys
        The wanted cells, in the order of the tables.
    width
        Room in logical pixels; the layout is wider where the columns would become too narrow.
    measures
        Sizes of text.
    """
    builder = _Builder(width, measures)
    for panel in _panels(keys):
        builder.add(panel)
    return builder.layout()


def _panels(keys: Sequence[CellKey]) -> list[_Panel]:
    panels = []
    for machine in dict.fromkeys(key.machine for key in keys):
        own = [key for key in keys if key.machine == machine]
        swept: dict[str, tuple[int, ...]] = {}
        for test in dict.fromkeys(key.test for key in own):
            swept[test] = tuple(sorted({k.point for k in own if k.test == test} - {ALL_POINTS}))
        first = next((points for points in swept.values() if points), ())
        groups: dict[tuple[int, ...], list[CellKey]] = {}
        for key in own:
            # Tests C and E, one number for all sizes, stand beside the others of their mail.
            points = swept[key.test] or (first if len(key.test) == 1 else ())
            groups.setdefault(points, []).append(key)
        panels += [
            _Panel(machine, points or (ALL_POINTS,), _columns(members)) for points, members in groups.items()
        ]
    return panels


def _columns(keys: Sequence[CellKey]) -> tuple[_Column, ...]:
    found: dict[tuple[str, str, str], list[CellKey]] = {}
    for key in keys:
        found.setdefault((key.test, key.operation, key.kernel), []).append(key)
    # Operations of a test lie cell by cell between each other in some tables.
    order = list(dict.fromkeys((test, operation) for test, operation, _ in found))
    columns = [_Column(*names, tuple(members)) for names, members in found.items()]
    return tuple(sorted(columns, key=lambda column: order.index((column.test, column.operation))))


class _Builder:
    """Places panels one after the other."""

    def __init__(self, width: int, measures: HeatMeasures) -> None:
        self._room = width
        self._measures = measures
        self._x, self._y, self._line_height = 0, 0, 0
        self._right = 0
        self._cells: list[HeatCell] = []
        self._groups: list[HeatGroup] = []
        self._titles: list[HeatText] = []
        self._kernels: list[HeatText] = []
        self._points: list[HeatText] = []

    def layout(self) -> HeatLayout:
        """What was placed."""
        return HeatLayout(
            self._right,
            self._y + self._line_height,
            tuple(self._cells),
            tuple(self._groups),
            tuple(self._titles),
            tuple(self._kernels),
            tuple(self._points),
        )

    def add(self, panel: _Panel) -> None:
        """Place a panel to the right of the last one, or below."""
        measures = self._measures
        test = panel.columns[0].test
        labels = ["" if panel.points == (ALL_POINTS,) else point_label(test, p) for p in panel.points]
        label_width = max(measures.width(label) for label in labels)
        label_width += _LABEL_GAP if label_width else 0
        groups = panel.groups
        column = self._column_width(panel, self._room - label_width)
        width = label_width + column * len(panel.columns) + _GROUP_GAP * (len(groups) - 1)
        width = max(width, measures.bold_width(panel.machine) + 4)
        height = _HEAD_LINES * measures.line + measures.row * len(panel.points)
        if self._x and self._x + width > self._room:
            self._x, self._y, self._line_height = 0, self._y + self._line_height + _PANEL_GAP // 2, 0
        top = self._y + _HEAD_LINES * measures.line
        self._titles.append(HeatText(panel.machine, self._x, self._y, width, measures.line))
        for row, label in enumerate(labels):
            place = (self._x, top + row * measures.row, label_width - _LABEL_GAP, measures.row)
            self._points.append(HeatText(label, *place))
        x = self._x + label_width
        for group in groups:
            x = self._add_group(panel, group, x, top, column) + _GROUP_GAP
        self._right = max(self._right, self._x + width)
        self._x += width + _PANEL_GAP
        self._line_height = max(self._line_height, height)

    def _column_width(self, panel: _Panel, room: int) -> int:
        # As wide as the names need, if there is room; else what there is, down to the narrowest.
        measures = self._measures
        wanted = max(measures.width(column.kernel) + 10 for column in panel.columns)
        for group in panel.groups:
            title = measures.bold_width(cell_title(group[0].test, group[0].operation)) + 6
            wanted = max(wanted, -(-max(title, measures.width("median 00 %")) // len(group)))
        wanted = max(min(wanted, _WIDEST_COLUMN), measures.narrowest)
        fits = (room - _GROUP_GAP * (len(panel.groups) - 1)) // len(panel.columns)
        # Wide panels take all of the width, which makes large numbers of columns easy to read.
        return max(measures.narrowest, min(fits, max(wanted, min(fits, 72))))

    def _add_group(self, panel: _Panel, group: Sequence[_Column], x: int, top: int, column: int) -> int:
        measures = self._measures
        keys = tuple(key for one in group for key in one.keys)
        place = (x, top - 3 * measures.line, column * len(group))
        self._groups.append(HeatGroup(panel.machine, group[0].test, group[0].operation, *place, keys))
        for one in group:
            self._kernels.append(HeatText(one.kernel, x, top - measures.line, column, measures.line))
            for key in one.keys:
                tall = key.point not in panel.points
                row = 0 if tall else panel.points.index(key.point)
                rows = len(panel.points) if tall else 1
                height = rows * measures.row
                self._cells.append(HeatCell(key, x, top + row * measures.row, column, height))
            x += column
        return x
