"""Slab tiles as pixels: numpy only, all tiles of a grid at once.

The picture is an array of 32-bit colours that a QImage wraps without a copy.  Frames tell how
full a slab is by their pattern: solid = full, dashed = partial, dots at the corners = empty.  A
frozen slab has a thick frame with a filled corner, a slab on a CPU's partial chain a thick frame open in the
middle of its sides with a filled corner below, a locked one a square in the corner on the right, so that
nothing depends on colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.model.snapshot import ByteArray, IntArray, ObjectState, SlabState
from slubviz.views.slab_layout import Detail, Grid, MapLayout, TileStyle
from slubviz.views.slab_summary import (
    CHAINED_FLAG,
    FROZEN_FLAG,
    LOCKED_FLAG,
    NO_OBJECT,
    NO_SLAB,
    SlabSummary,
)
from slubviz.views.theme import Theme

Pixels = NDArray[np.uint32]


@dataclass(frozen=True)
class RasterColours:
    """The theme's colours as numbers, indexed by state."""

    background: int
    objects: Pixels  #: by ObjectState and NO_OBJECT
    frames: Pixels  #: by SlabState
    frozen: int
    locked: int
    chained: int


def colours_of(theme: Theme) -> RasterColours:
    """Pick a theme's colours for the raster."""
    objects = np.zeros(4, dtype=np.uint32)
    objects[ObjectState.FREE] = theme.argb("object_free")
    objects[ObjectState.CPU_FREE] = theme.argb("object_cpu_free")
    objects[ObjectState.ALLOCATED] = theme.argb("object_allocated")
    objects[NO_OBJECT] = theme.argb("panel")
    frames = np.zeros(3, dtype=np.uint32)
    frames[SlabState.EMPTY] = theme.argb("slab_empty")
    frames[SlabState.PARTIAL] = theme.argb("slab_partial")
    frames[SlabState.FULL] = theme.argb("slab_full")
    return RasterColours(
        theme.argb("panel"),
        objects,
        frames,
        theme.argb("slab_frozen"),
        theme.argb("slab_locked"),
        theme.argb("slab_chained"),
    )


class SlabRaster:
    """The map's picture; keeps it between snapshots and draws only the tiles that changed.

    Attributes
    ----------
    pixels : (height, width) uint32
        The picture, colours as QImage.Format_RGB32 has them.
    tiles_drawn : int
        Tiles drawn by the last ``update``; lets a test see that unchanged ones were left alone.
    """

    def __init__(self) -> None:
        self.pixels: Pixels = np.zeros((1, 1), dtype=np.uint32)
        self.tiles_drawn = 0
        self._drawn: list[tuple[Grid, NDArray[np.uint8]]] = []
        self._colours: RasterColours | None = None

    def update(self, layout: MapLayout, summary: SlabSummary, colours: RasterColours) -> None:
        """Bring the picture up to date with a layout and a snapshot's summary."""
        keep = (
            self._colours is colours
            and self.pixels.shape == (layout.height, layout.width)
            and len(self._drawn) == len(layout.grids)
            and all(_same_place(old, new) for (old, _), new in zip(self._drawn, layout.grids, strict=True))
        )
        if not keep:
            self.pixels = np.full((layout.height, layout.width), colours.background, dtype=np.uint32)
            self._colours = colours
        self.tiles_drawn = 0
        previous = [looks for _, looks in self._drawn] if keep else [None] * len(layout.grids)
        drawn = []
        for grid, old in zip(layout.grids, previous, strict=True):
            looks = looks_of(grid.style, summary, grid.slabs)
            self.tiles_drawn += _draw_changed(self.pixels, grid, looks, old, colours)
            drawn.append((grid, looks))
        self._drawn = drawn


def _same_place(old: Grid, new: Grid) -> bool:
    return (old.x, old.y, old.columns, old.style) == (new.x, new.y, new.columns, new.style)


def looks_of(style: TileStyle, summary: SlabSummary, slabs: IntArray) -> ByteArray:
    """Everything a tile's look depends on, one row per slab; equal rows look the same.

    Returns
    -------
    (n, K) uint8
        Column 0 is the frame code.  Then the object states, or the heights of the two bars in
        pixels (allocated, allocated plus cpu-free), or the colour of the dot.
    """
    frame = summary.frame[slabs][:, None]
    if style.detail is Detail.OBJECTS:
        return np.concatenate([frame, summary.states[slabs]], axis=1)
    total = np.maximum(summary.objects[slabs], 1)
    allocated = summary.allocated[slabs]
    cpu_free = summary.cpu_free[slabs]
    if style.detail is Detail.BAR:
        return np.concatenate(
            [
                frame,
                _bar(allocated, total, style.cell_height),
                _bar(allocated + cpu_free, total, style.cell_height),
            ],
            axis=1,
        )
    most = np.where(allocated * 2 >= total, int(ObjectState.ALLOCATED), int(ObjectState.FREE))
    most = np.where(cpu_free * 2 > total, int(ObjectState.CPU_FREE), most)
    return np.concatenate([frame, most.astype(np.uint8)[:, None]], axis=1)


def _bar(part: IntArray, total: IntArray, height: int) -> ByteArray:
    # Rounded, but never full unless all are there, and never nothing unless none is.
    pixels = np.rint(part * height / total).astype(np.int64)
    pixels = np.where((part > 0) & (pixels == 0), 1, pixels)
    pixels = np.where((part < total) & (pixels >= height), height - 1, pixels)
    return np.clip(pixels, 0, 255).astype(np.uint8)[:, None]


def _draw_changed(
    pixels: Pixels,
    grid: Grid,
    looks: ByteArray,
    old: ByteArray | None,
    colours: RasterColours,
) -> int:
    places = np.arange(looks.shape[0])
    if old is not None and old.shape[1:] == looks.shape[1:]:
        common = min(old.shape[0], looks.shape[0])
        changed = (old[:common] != looks[:common]).any(axis=1)
        places = np.concatenate([np.flatnonzero(changed), np.arange(common, looks.shape[0])])
        _clear(pixels, grid, np.arange(looks.shape[0], old.shape[0]), colours.background)
    if places.size:
        _scatter(pixels, grid, places, tile_pixels(grid.style, looks[places], colours))
    return int(places.size)


def _corners(grid: Grid, places: IntArray) -> tuple[IntArray, IntArray]:
    row, column = np.divmod(places, grid.columns)
    return grid.y + row * grid.style.pitch_y, grid.x + column * grid.style.pitch_x


def _scatter(pixels: Pixels, grid: Grid, places: IntArray, tiles: Pixels) -> None:
    top, left = _corners(grid, places)
    height, width = tiles.shape[1:]
    # Tiles that stick out (a window of a few pixels) are left away rather than clipped.
    fits = (top + height <= pixels.shape[0]) & (left + width <= pixels.shape[1])
    if not fits.any():
        return
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (height, width), writeable=True)
    windows[top[fits], left[fits]] = tiles[fits]


def _clear(pixels: Pixels, grid: Grid, places: IntArray, background: int) -> None:
    if places.size:
        style = grid.style
        blank = np.full((places.size, style.height, style.width), background, dtype=np.uint32)
        _scatter(pixels, grid, places, blank)


def tile_pixels(style: TileStyle, looks: ByteArray, colours: RasterColours) -> Pixels:
    """Draw tiles.

    Parameters
    ----------
    style : TileStyle
        Geometry of all of them.
    looks : (n, K) uint8
        From ``looks_of``.
    colours : RasterColours
        The theme.

    Returns
    -------
    (n, height, width) uint32
    """
    frame_code = looks[:, 0]
    tiles = _blank_tiles(style, colours)[frame_code]
    if style.detail is Detail.OBJECTS:
        _draw_objects(tiles, style, looks[:, 1:], colours)
    elif style.detail is Detail.BAR:
        _draw_bars(tiles, style, looks[:, 1], looks[:, 2], colours)
    else:
        tiles[:] = colours.objects[looks[:, 1]][:, None, None]
    _draw_marks(tiles, style, frame_code, colours)
    return tiles


def _draw_objects(tiles: Pixels, style: TileStyle, states: ByteArray, colours: RasterColours) -> None:
    count = tiles.shape[0]
    cells = style.columns * style.rows
    padded = np.full((count, cells), NO_OBJECT, dtype=np.uint8)
    padded[:, : states.shape[1]] = states
    colour = colours.objects[padded].reshape(count, style.rows, style.columns)
    inset = style.frame + style.padding
    filled_width, filled_height = style.cell_width - style.cell_gap, style.cell_height - style.cell_gap
    right, bottom = inset + style.columns * style.cell_width, inset + style.rows * style.cell_height
    for dy in range(filled_height):
        for dx in range(filled_width):
            tiles[:, inset + dy : bottom : style.cell_height, inset + dx : right : style.cell_width] = colour


def _draw_bars(
    tiles: Pixels, style: TileStyle, allocated: ByteArray, filled: ByteArray, colours: RasterColours
) -> None:
    height = style.cell_height
    level = np.arange(height, 0, -1)[None, :]  # of each pixel row above the floor
    state = np.where(level <= filled[:, None], int(ObjectState.CPU_FREE), int(ObjectState.FREE))
    state = np.where(level <= allocated[:, None], int(ObjectState.ALLOCATED), state)
    f = style.frame
    tiles[:, f : f + height, f : f + style.cell_width] = colours.objects[state][:, :, None]


def _blank_tiles(style: TileStyle, colours: RasterColours) -> Pixels:
    # One empty tile with its frame per frame code.
    blanks = np.full((NO_SLAB, style.height, style.width), colours.background, dtype=np.uint32)
    if style.frame:
        for code in range(NO_SLAB):
            _draw_frame(blanks[code], style, code, colours)
    return blanks


def _draw_frame(tile: Pixels, style: TileStyle, code: int, colours: RasterColours) -> None:
    if code & CHAINED_FLAG:
        tile[_ring(style, style.frame) & _open_sides(style)] = colours.chained
        return
    frozen = bool(code & FROZEN_FLAG)
    # A frozen slab's frame is always whole: how full it is can be seen from its objects, of which the
    # CPU takes some without telling the slab's counter.
    state = int(SlabState.FULL) if frozen else min(code % FROZEN_FLAG, int(SlabState.FULL))
    line = style.frame if frozen else max(1, style.frame // 2)
    colour = colours.frozen if frozen else colours.frames[state]
    tile[_ring(style, line) & _pattern(style, state)] = colour


def _ring(style: TileStyle, line: int) -> NDArray[np.bool_]:
    ring = np.zeros((style.height, style.width), dtype=bool)
    ring[:line], ring[-line:], ring[:, :line], ring[:, -line:] = True, True, True, True
    return ring


def _open_sides(style: TileStyle) -> NDArray[np.bool_]:
    # All but the middle third of each side: the links of a chain.
    x, y = np.arange(style.width), np.arange(style.height)
    near_x = np.minimum(x, x[::-1]) < style.width / 3
    near_y = np.minimum(y, y[::-1]) < style.height / 3
    return near_y[:, None] & near_x[None, :]


def _pattern(style: TileStyle, state: int) -> NDArray[np.bool_]:
    # Which pixels of a frame are drawn: all, dashes, or only the corners.
    if state == SlabState.FULL:
        return np.ones((style.height, style.width), dtype=bool)
    if state == SlabState.PARTIAL:
        dash = max(2, 2 * style.frame)
        x = np.arange(style.width) // dash % 2 == 0
        y = np.arange(style.height) // dash % 2 == 0
        edge = max(1, style.frame)
        pattern = np.zeros((style.height, style.width), dtype=bool)
        pattern[:edge], pattern[-edge:] = x, x
        pattern[:, :edge] |= y[:, None]
        pattern[:, -edge:] |= y[:, None]
        pattern[:edge] &= x
        pattern[-edge:] &= x
        return pattern
    corner = max(2, min(style.width, style.height) // 4)
    near_x = np.minimum(np.arange(style.width), np.arange(style.width)[::-1]) < corner
    near_y = np.minimum(np.arange(style.height), np.arange(style.height)[::-1]) < corner
    return near_y[:, None] & near_x[None, :]


def _draw_marks(tiles: Pixels, style: TileStyle, frame_code: ByteArray, colours: RasterColours) -> None:
    # Small shapes over the corners: a triangle for frozen, a square for locked.  They must not hide objects.
    smaller = min(style.width, style.height)
    side = min(smaller // (4 if smaller >= 24 else 3), 5 * max(style.frame, 1))
    if side < 2:
        return
    frozen = np.flatnonzero(frame_code & FROZEN_FLAG)
    locked = np.flatnonzero(frame_code & LOCKED_FLAG)
    chained = np.flatnonzero(frame_code & CHAINED_FLAG)
    for k in range(side):
        tiles[frozen, k, : side - k] = colours.frozen
        tiles[chained, -1 - k, : side - k] = colours.chained
    if locked.size:
        tiles[locked, :side, -side:] = colours.locked
