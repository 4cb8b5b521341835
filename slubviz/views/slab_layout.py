"""Where every slab's tile goes: groups by owner, one tile size that fits all.

Pure arithmetic on a SlabTable, in device pixels; no Qt.  Slabs are grouped by the CPU that owns
them (its cpu slabs, its chain of partial slabs, then the slabs it owned last) and by the node whose
partial list they are on.  Slabs of SLAB, which belong to no CPU, are grouped by the three lists of
their node.
All tiles of the map have the same size, the largest at which everything fits; the cpu slabs alone
keep a larger one, because there are few of them and they are what changes.
Where tiles may not get smaller than a limit, the map may be higher than its place.
With more CPUs than rows fit, neighbouring CPUs share a group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np

from slubviz.model.snapshot import IntArray, SlabState, SlabTable
from slubviz.views import numbers

#: Tile sizes to try, largest first, in logical pixels.
_LARGE_TILES = (520, 440, 380, 320, 280, 240, 200, 168, 144, 120, 108, 96, 80, 64, 56, 48, 40, 36, 32)
_TILE_SIZES = (*_LARGE_TILES, 28, 24, 20, 18, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1)
_LARGEST_PLAIN_TILE = 56
_SMALLEST_FRAMED = 8
_SMALLEST_CPU_TILE = 18
_LARGEST_CPU_TILE = 88
#: Shares of the height that the cpu slabs may take; smaller ones are tried while the other slabs' tiles are
#: smaller than _GOOD_TILE logical pixels.
_CPU_SHARES = (1.0, 0.7, 0.5)
_GOOD_TILE = 12
#: Share of the height for cpu slabs that lie side by side.
_CELLS_SHARE = 0.4
_ROW_SPACE = 8
_SMALLEST_ROW = 26
_CPU_SLABS_PER_ROW = 8


#: SLAB's three lists.
_LIST_NAMES = ((SlabState.FULL, "Full"), (SlabState.PARTIAL, "Partial"), (SlabState.EMPTY, "Free"))


#: Share of the width beside the labels that the cpu slabs may take, if there are others.
_CPU_WIDTH_SHARE = 0.6


@dataclass(frozen=True)
class TileLimits:
    """What tiles may become, in logical pixels; and labels above the tiles, in device pixels."""

    least: int = 0  #: the map gets higher than its place rather than with smaller tiles; 0 if it may not
    largest: int = _LARGEST_PLAIN_TILE
    largest_cpu: int = _LARGEST_CPU_TILE
    label_height: int = 0  #: of a label above each group's tiles; 0 for labels on the left
    least_cell: int = 0  #: width that a label needs where groups lie side by side


#: For small maps whose slabs shall be large enough for the pointer.
CLICKABLE = TileLimits(least=10)
_PLAIN = TileLimits()


class Detail(IntEnum):
    """How much of a slab a tile shows."""

    OBJECTS = 0  #: every object a cell
    BAR = 1  #: a bar of the allocated and cpu-free objects
    DOT = 2  #: one colour


class GroupKind(IntEnum):
    """What the slabs of a group have in common."""

    CPU = 0
    PARTIAL = 1
    OTHER = 2
    LIST = 3  #: one of SLAB's three lists


@dataclass(frozen=True)
class Group:
    """Slabs with a common owner; indices into the SlabTable."""

    kind: GroupKind
    title: str
    cpu_slabs: IntArray
    slabs: IntArray
    active: bool = True  #: gets room for a cpu slab even when it has none just now

    @property
    def count(self) -> int:
        return int(self.cpu_slabs.size + self.slabs.size)


@dataclass(frozen=True)
class TileStyle:
    """A tile in device pixels: ``columns`` x ``rows`` cells inside a frame."""

    width: int
    height: int
    gap: int
    frame: int
    padding: int
    detail: Detail
    columns: int
    rows: int
    cell_width: int
    cell_height: int
    cell_gap: int

    @property
    def pitch_x(self) -> int:
        return self.width + self.gap

    @property
    def pitch_y(self) -> int:
        return self.height + self.gap


@dataclass(frozen=True)
class Grid:
    """Tiles in rows from the left; ``slabs`` are indices into the table."""

    x: int
    y: int
    columns: int
    style: TileStyle
    slabs: IntArray

    @property
    def rows(self) -> int:
        return -(-int(self.slabs.size) // self.columns)


@dataclass(frozen=True)
class Row:
    """One group's part of the map, in device pixels: a band, or a cell of a band."""

    x: int
    y: int
    width: int
    height: int
    group: Group


@dataclass(frozen=True)
class MapLayout:
    """All of it; ``hidden`` slabs had no room even as dots."""

    width: int
    height: int
    label_width: int
    rows: tuple[Row, ...]
    grids: tuple[Grid, ...]
    hidden: int

    def slab_at(self, x: int, y: int) -> int:
        """Index of the slab whose tile covers a device pixel, -1 if none does."""
        return self.place_at(x, y)[0]

    def place_at(self, x: int, y: int) -> tuple[int, int]:
        """Slab index and object number under a device pixel; -1 where there is none."""
        for grid in self.grids:
            style = grid.style
            column, inside_x = divmod(x - grid.x, style.pitch_x)
            row, inside_y = divmod(y - grid.y, style.pitch_y)
            if not 0 <= column < grid.columns or row < 0:
                continue
            place = row * grid.columns + column
            if place < grid.slabs.size and inside_x < style.width and inside_y < style.height:
                return int(grid.slabs[place]), _object_at(style, inside_x, inside_y)
        return -1, -1


def _object_at(style: TileStyle, x: int, y: int) -> int:
    if style.detail is not Detail.OBJECTS:
        return -1
    inset = style.frame + style.padding
    column = (x - inset) // style.cell_width
    row = (y - inset) // style.cell_height
    if 0 <= column < style.columns and 0 <= row < style.rows:
        return row * style.columns + column
    return -1


def group_slabs(
    table: SlabTable, cpu_numbers: Sequence[int], active: Sequence[bool], largest_groups: int = 64
) -> list[Group]:
    """Sort the slabs into groups, each in the order of the table.

    Parameters
    ----------
    table : SlabTable
        All slabs.
    cpu_numbers : sequence of int
        The CPUs, ascending; each has a group even without slabs.
    active : sequence of bool
        For each CPU whether it takes part; the others need no room for a cpu slab.
    largest_groups : int
        CPUs are merged into ranges when there are more.

    Returns
    -------
    list of Group
        CPUs, then the partial list of each node that has slabs or a CPU group, then the rest.
    """
    cpus = len(cpu_numbers)
    merge = max(1, math.ceil(cpus / max(1, largest_groups)))
    cpu_groups = math.ceil(cpus / merge)
    nodes = int(table.node.max()) + 1 if table.node.size else 1
    chained = table.on_cpu_partial >= 0
    last = np.where(chained, table.on_cpu_partial, np.where(table.cpu >= 0, table.cpu, table.last_cpu))
    known = (last >= 0) & (last < cpus)
    other = cpu_groups + nodes
    key = np.where(known, last // merge, other)
    key = np.where(table.on_partial_list & (table.cpu < 0), cpu_groups + table.node, key)
    order = np.argsort(key, kind="stable")
    bounds = np.searchsorted(key[order], np.arange(other + 2))
    groups = []
    for index in range(other + 1):
        members = order[bounds[index] : bounds[index + 1]]
        if index < cpu_groups:
            members = members[np.argsort(~chained[members], kind="stable")]
            owned = table.cpu[members] >= 0
            title = _cpu_title(cpu_numbers, index * merge, merge)
            takes_part = any(active[index * merge : (index + 1) * merge])
            groups.append(Group(GroupKind.CPU, title, members[owned], members[~owned], takes_part))
        elif index < other:
            title = _list_title("Partial", index - cpu_groups, nodes)
            groups.append(Group(GroupKind.PARTIAL, title, members[:0], members))
        elif members.size:
            groups.append(Group(GroupKind.OTHER, "On no list", members[:0], members))
    return groups


def group_by_lists(table: SlabTable) -> list[Group]:
    """Sort the slabs of SLAB by node and list, each in the order of the table.

    A slab that is being built is on no list yet; like those on the free list it has handed out nothing.
    """
    nodes = int(table.node.max()) + 1 if table.node.size else 1
    full = table.inuse >= table.objects
    which = np.where(
        table.on_partial_list, SlabState.PARTIAL, np.where(full, SlabState.FULL, SlabState.EMPTY)
    )
    groups = []
    for node in range(nodes):
        for state, name in _LIST_NAMES:
            members = np.flatnonzero((table.node == node) & (which == state))
            groups.append(Group(GroupKind.LIST, _list_title(name, node, nodes), members[:0], members))
    return groups


def _list_title(name: str, node: int, nodes: int) -> str:
    if nodes == 1:
        return f"{name} list"
    return f"{name}{numbers.THIN}list, node{numbers.THIN}{node}"


def _cpu_title(cpu_numbers: Sequence[int], first: int, count: int) -> str:
    last = min(first + count, len(cpu_numbers)) - 1
    if last == first:
        return f"CPU{numbers.THIN}{cpu_numbers[first]}"
    return f"CPU{numbers.THIN}{cpu_numbers[first]}–{cpu_numbers[last]}"


@lru_cache(maxsize=64)
def cells_of(objects: int) -> tuple[int, int]:
    """Columns and rows for a slab's objects: without empty cells if that stays near a square."""
    square = math.isqrt(objects - 1) + 1
    for columns in range(square, 2 * square + 1):
        rows, rest = divmod(objects, columns)
        if rest == 0 and columns <= 2 * rows:
            return columns, rows
    return square, math.ceil(objects / square)


def tile_style(objects: int, size: int, unit: float) -> TileStyle:
    """The tile of about ``size`` device pixels for slabs of ``objects`` objects.

    Shows every object if each can have 2 x 2 pixels, else a bar, else a dot.
    """
    logical = size / unit
    frame = max(1, round(unit * (2 if logical >= 24 else 1))) if logical >= _SMALLEST_FRAMED else 0
    padding = round(unit * (2 if logical >= 40 else 1)) if logical >= 16 else 0
    gap = round(unit * (6 if logical >= 40 else 4 if logical >= 20 else 2 if logical >= 10 else 1))
    if logical < 3:
        gap = 0 if size < 3 else 1
    inner = max(1, size - 2 * (frame + padding))
    columns, rows = cells_of(objects)
    cell_width, cell_height = inner // columns, inner // rows
    if frame and min(cell_width, cell_height) >= 2:
        cell_gap = 1 if min(cell_width, cell_height) >= 3 else 0
        cell_gap = round(unit) if min(cell_width, cell_height) >= 6 * unit else cell_gap
        width = columns * cell_width - cell_gap + 2 * (frame + padding)
        height = rows * cell_height - cell_gap + 2 * (frame + padding)
        return TileStyle(
            width,
            height,
            gap,
            frame,
            padding,
            Detail.OBJECTS,
            columns,
            rows,
            cell_width,
            cell_height,
            cell_gap,
        )
    detail = Detail.BAR if size >= 4 else Detail.DOT
    return TileStyle(size, size, gap, frame, 0, detail, 1, 1, size - 2 * frame, size - 2 * frame, 0)


def lay_out(
    groups: Sequence[Group],
    objects: int,
    width: int,
    height: int,
    unit: float,
    label_width: int,
    limits: TileLimits = _PLAIN,
) -> MapLayout:
    """Find the largest tile at which every slab fits, and place all.

    Parameters
    ----------
    groups : sequence of Group
        From ``group_slabs``.
    objects : int
        Objects of the largest slab.
    width, height : int
        Room in device pixels.
    unit : float
        Device pixels of a logical pixel.
    label_width : int
        Device pixels kept free on the left for the labels.
    limits : TileLimits
        With a least size the result may be higher than ``height``.
    """
    if _owners_unknown(groups):
        return _lay_out_in_cells(groups, objects, (width, height, label_width), unit, limits)
    best: tuple[TileStyle, TileStyle, list[int]] | None = None
    for share in _CPU_SHARES:
        cpu_room = (width - label_width, share * height)
        cpu_style = _cpu_slab_style(groups, objects, cpu_room, unit, limits)
        room = max(1, width - label_width - _cpu_column_width(groups, cpu_style))
        style, heights = _largest_style(groups, objects, (room, height), cpu_style, unit, limits)
        flatter = best is not None and height < sum(heights) < sum(best[2])
        if best is None or style.width > best[0].width or (limits.least and flatter):
            best = style, cpu_style, heights
        if style.width >= _GOOD_TILE * unit:
            break
    assert best is not None
    style, cpu_style, heights = best
    cpu_width = _cpu_column_width(groups, cpu_style)
    if limits.least:
        height = max(height, sum(heights))
    return _place(groups, style, cpu_style, heights, (width, height, label_width, cpu_width), unit, limits)


def _largest_style(
    groups: Sequence[Group],
    objects: int,
    room: tuple[int, int],
    cpu_style: TileStyle,
    unit: float,
    limits: TileLimits,
) -> tuple[TileStyle, list[int]]:
    # The largest tile at which all groups fit, with the height of each; the smallest if none does.
    style, heights = tile_style(objects, 1, unit), [0] * len(groups)
    for logical in _TILE_SIZES:
        if logical < limits.least:
            break
        size = max(1, round(logical * unit))
        smallest = logical <= max(1, limits.least)
        if not smallest and (size > cpu_style.height or logical > limits.largest or size > room[0]):
            continue
        style = tile_style(objects, size, unit)
        heights = [_group_height(group, style, cpu_style, room[0], unit, limits) for group in groups]
        if sum(heights) <= room[1]:
            break
    return style, heights


def _cpu_slab_style(
    groups: Sequence[Group], objects: int, room: tuple[float, float], unit: float, limits: TileLimits
) -> TileStyle:
    # The largest tile for cpu slabs at which the bands without their other slabs fit.
    width, height = room
    if any(group.slabs.size for group in groups):
        width *= _CPU_WIDTH_SHARE
    style = tile_style(objects, max(1, round(limits.largest_cpu * unit)), unit)
    for logical in range(limits.largest_cpu, _SMALLEST_CPU_TILE - 1, -2):
        style = tile_style(objects, max(1, round(logical * unit)), unit)
        fits = _cpu_column_width(groups, style) <= width
        if fits and sum(_least_height(group, style, unit, limits) for group in groups) <= height:
            break
    return style


def _least_height(group: Group, cpu_style: TileStyle, unit: float, limits: TileLimits) -> int:
    # Of a group's band without its other slabs.
    rows = -(-int(group.cpu_slabs.size) // _CPU_SLABS_PER_ROW)
    if group.kind is GroupKind.CPU and (group.active or group.count):
        rows = max(rows, 1)
    space = round(_ROW_SPACE * unit)
    if limits.label_height:
        return rows * cpu_style.pitch_y + limits.label_height + space
    return max(rows * cpu_style.pitch_y, round(_SMALLEST_ROW * unit)) + space


def _cpu_column_width(groups: Sequence[Group], cpu_style: TileStyle) -> int:
    if not any(group.kind is GroupKind.CPU for group in groups):
        return 0
    most = max((int(group.cpu_slabs.size) for group in groups), default=0)
    return max(1, min(most, _CPU_SLABS_PER_ROW)) * cpu_style.pitch_x + 2 * cpu_style.gap


def _columns(style: TileStyle, room: int) -> int:
    return max(1, (room + style.gap) // style.pitch_x)


def _group_height(
    group: Group, style: TileStyle, cpu_style: TileStyle, room: int, unit: float, limits: TileLimits
) -> int:
    rows = -(-int(group.slabs.size) // _columns(style, room))
    own = rows * style.pitch_y + limits.label_height + round(_ROW_SPACE * unit)
    return max(own, _least_height(group, cpu_style, unit, limits))


def _owners_unknown(groups: Sequence[Group]) -> bool:
    # No CPU has slabs besides its cpu slabs, because nothing tells who had the others.
    other = any(group.kind is GroupKind.OTHER and group.slabs.size for group in groups)
    return other and not any(group.slabs.size for group in groups if group.kind is GroupKind.CPU)


def _lay_out_in_cells(
    groups: Sequence[Group], objects: int, box: tuple[int, int, int], unit: float, limits: TileLimits
) -> MapLayout:
    # The CPUs side by side, since each has little to show; the other groups in bands below.
    width, height, label_width = box
    cpus = [group for group in groups if group.kind is GroupKind.CPU]
    rest = [group for group in groups if group.kind is not GroupKind.CPU]
    cpu_style, columns, tall = tile_style(objects, 1, unit), 1, 0
    for logical in range(_LARGEST_PLAIN_TILE, _SMALLEST_CPU_TILE - 1, -2):
        cpu_style = tile_style(objects, max(1, round(logical * unit)), unit)
        cell_width = max(label_width + _cpu_column_width(cpus, cpu_style), limits.least_cell)
        columns = max(1, min(len(cpus), width // cell_width))
        tall = max(_least_height(group, cpu_style, unit, limits) for group in cpus)
        if -(-len(cpus) // columns) * tall <= _CELLS_SHARE * height:
            break
    columns = -(-len(cpus) // -(-len(cpus) // columns))  # as many in the last row as in the others, nearly
    rows, grids = [], []
    for index, group in enumerate(cpus):
        line, column = divmod(index, columns)
        x = width * column // columns
        rows.append(Row(x, line * tall, width * (column + 1) // columns - x, tall, group))
        if group.cpu_slabs.size:
            top = line * tall + limits.label_height + round(_ROW_SPACE / 2 * unit)
            grids.append(Grid(x + label_width, top, _CPU_SLABS_PER_ROW, cpu_style, group.cpu_slabs))
    used = -(-len(cpus) // columns) * tall
    room = (width - label_width, height - used)
    style, heights = _largest_style(rest, objects, room, cpu_style, unit, limits)
    if limits.least:
        height = max(height, used + sum(heights))
    bands = _place(rest, style, cpu_style, heights, (width, height, label_width, 0), unit, limits, used)
    return MapLayout(width, height, label_width, (*rows, *bands.rows), (*grids, *bands.grids), bands.hidden)


def _place(
    groups: Sequence[Group],
    style: TileStyle,
    cpu_style: TileStyle,
    heights: Sequence[int],
    box: tuple[int, int, int, int],
    unit: float,
    limits: TileLimits,
    y: int = 0,
) -> MapLayout:
    width, height, label_width, cpu_width = box
    rows, grids, hidden = [], [], 0
    columns = _columns(style, max(1, width - label_width - cpu_width))
    inset = round(_ROW_SPACE / 2 * unit) + limits.label_height
    # Room that is left over is shared out, so that the map fills its place evenly.
    spare = max(0, height - y - sum(heights)) // max(1, len(groups))
    spare = min(spare, round(24 * unit))
    for group, tall in zip(groups, heights, strict=True):
        tall = min(tall + spare, max(0, height - y))
        rows.append(Row(0, y, width, tall, group))
        top = y + inset + (0 if limits.label_height else spare // 2)
        if group.cpu_slabs.size:
            grids.append(Grid(label_width, top, _CPU_SLABS_PER_ROW, cpu_style, group.cpu_slabs))
        visible = group.slabs
        fit = max(0, (y + tall - top) // style.pitch_y) * columns
        if visible.size > fit:
            hidden += int(visible.size) - fit
            visible = visible[visible.size - fit :]
        if visible.size:
            grids.append(Grid(label_width + cpu_width, top, columns, style, visible))
        y += tall
    return MapLayout(width, height, label_width, tuple(rows), tuple(grids), hidden)
