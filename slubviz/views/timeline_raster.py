"""The lanes of a timeline as pixels: numpy only, all lanes and columns at once.

A pixel column stands for an interval of the run.  What a CPU did in it is stacked from the bottom: waiting,
slow path, fast path, workload, idle, each as high as its share; waiting is hatched as well, and neither
waiting nor the slow path is ever rounded away.  Above that, one step for each level of nested interrupts.

Spans are known exactly and are used where a detail covers the column, elsewhere the buckets of the overview.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.model.travel.activity import Activity
from slubviz.views.theme import Theme
from slubviz.views.timeline_window import TimeWindow

Pixels = NDArray[np.uint32]
FloatArray = NDArray[np.floating]

#: From the bottom of a lane to its top.
STACK = (
    Activity.WAITING,
    Activity.SLOW_PATH,
    Activity.FAST_PATH,
    Activity.WORKLOAD,
    Activity.IDLE,
)
_ALWAYS_SEEN = (Activity.WAITING, Activity.SLOW_PATH)
MEANINGS = {
    Activity.IDLE: "activity_idle",
    Activity.WORKLOAD: "activity_workload",
    Activity.FAST_PATH: "activity_fast",
    Activity.SLOW_PATH: "activity_slow",
    Activity.WAITING: "activity_waiting",
}
_ACTIVITIES = len(Activity)
_HATCH_LAYER = _ACTIVITIES + 1
#: With fewer micro-ops per pixel than this, each pixel shows one span.
_SNAP_BELOW = 0.5
_HATCH_PITCH = 6
_EDGE_DIGITS = 6


@dataclass(frozen=True)
class LaneColours:
    """A theme's colours as numbers."""

    background: int
    layers: Pixels  #: by place in STACK, then the background, then the hatch of waiting
    levels: Pixels  #: of the odd and the even interrupt levels

    @property
    def hatch(self) -> int:
        """The colour of the stripes over waiting."""
        return int(self.layers[_HATCH_LAYER])


def colours_of(theme: Theme) -> LaneColours:
    """Pick a theme's colours for the lanes."""
    panel, interrupt = theme.argb("panel"), theme.argb("interrupt")
    layers = [theme.argb(MEANINGS[activity]) for activity in STACK]
    layers += [panel, _mixed(theme.argb("activity_waiting"), panel, 0.45)]
    levels = np.array([interrupt, _mixed(interrupt, panel, 0.4)], dtype=np.uint32)
    return LaneColours(panel, np.array(layers, dtype=np.uint32), levels)


def _mixed(one: int, other: int, share: float) -> int:
    result = 0xFF
    for shift in (16, 8, 0):
        a, b = one >> shift & 255, other >> shift & 255
        result = result << 8 | round(a + (b - a) * share)
    return result


@dataclass(frozen=True)
class LaneShape:
    """Heights of one lane in pixels; all lanes are alike."""

    pitch: int  #: from lane to lane
    base: int  #: of what is stacked by share
    step: int  #: of one interrupt level
    levels: int  #: levels that have room; deeper ones are drawn like the last

    @property
    def height(self) -> int:
        """Without the gap to the next lane."""
        return self.base + self.step * self.levels


def shape_of(pitch: int) -> LaneShape:
    """Divide a lane: about half for what the CPU does, the rest for three levels, four if it is high."""
    gap = 1 if pitch < 16 else pitch // 8
    inner = max(pitch - gap, 1)
    levels = 3 if inner < 24 else 4
    step = max(1 if inner >= 5 else 0, 2 if inner >= 10 else 0, inner * 3 // 20)
    return LaneShape(pitch, inner - step * levels, step, levels)


@dataclass(frozen=True)
class LaneSpans:
    """What one CPU did, span by span in the order of time; they do not overlap.

    Attributes
    ----------
    first_position, last_position : (n,) int64
    activity, depth : (n,) int64
    running : (n + 1, activities) float64
        Micro-ops of all CPUs that passed during each activity, up to the beginning of each span.
    """

    first_position: NDArray[np.int64]
    last_position: NDArray[np.int64]
    activity: NDArray[np.int64]
    depth: NDArray[np.uint8]
    running: NDArray[np.float64]


@dataclass(frozen=True)
class SpanArrays:
    """Exact spans of a part of the run, by CPU."""

    first: int  #: the part that is covered
    last: int
    lanes: tuple[LaneSpans, ...]


def lane_spans(
    first_position: NDArray[np.int64],
    last_position: NDArray[np.int64],
    activity: NDArray[np.int64],
    depth: NDArray[np.int64],
) -> LaneSpans:
    """Prepare one CPU's spans, given in the order of time."""
    gaps = np.flatnonzero(first_position[1:] > last_position[:-1])
    if gaps.size:  # an empty span in each, so that a look-up in the gap does not find the span before it
        first_position = np.insert(first_position, gaps + 1, last_position[gaps])
        last_position = np.insert(last_position, gaps + 1, last_position[gaps])
        activity = np.insert(activity, gaps + 1, int(Activity.IDLE))
        depth = np.insert(depth, gaps + 1, 0)
    count = first_position.size
    lengths = np.zeros((count + 1, _ACTIVITIES))
    lengths[np.arange(1, count + 1), activity] = last_position - first_position
    deep = np.minimum(depth, 255).astype(np.uint8)
    return LaneSpans(first_position, last_position, activity, deep, np.cumsum(lengths, axis=0))


@dataclass(frozen=True)
class Columns:
    """What every CPU did in every pixel column.

    Attributes
    ----------
    shares : (cpus, activities, columns) float32
        Parts of the column's interval, in sum 1 where something is known and 0 elsewhere.
    depth : (cpus, columns) uint8
        The deepest nesting of interrupts in it.
    """

    shares: FloatArray
    depth: NDArray[np.uint8]


def span_columns(
    spans: SpanArrays, window: TimeWindow, columns: int, cpus: range, first: int, last: int
) -> Columns:
    """Shares and depths from exact spans.

    Parameters
    ----------
    spans : SpanArrays
        Of a part of the run.
    window : TimeWindow
        Shown by ``columns`` pixels.
    cpus : range
        The lanes wanted.
    first, last : int
        The columns wanted, ``last`` not included.

    Notes
    -----
    The sums up to the edges of the columns are looked up and subtracted, so the work hardly depends on the
    number of spans.  Where micro-ops are wider than pixels, the middle of a column decides.
    """
    scale = window.visible / columns
    edges = _edges(window, columns)[first : last + 1]
    shares = np.zeros((len(cpus), _ACTIVITIES, last - first), dtype=np.float32)
    depth = np.zeros((len(cpus), last - first), dtype=np.uint8)
    for row, cpu in enumerate(cpus):
        if cpu >= len(spans.lanes) or spans.lanes[cpu].first_position.size == 0:
            continue
        lane = spans.lanes[cpu]
        if scale < _SNAP_BELOW:
            _sampled(lane, edges[:-1] + scale / 2, shares[row], depth[row])
        else:
            _summed(lane, edges, shares[row], depth[row])
    return Columns(shares, depth)


def _sampled(lane: LaneSpans, middles: FloatArray, shares: FloatArray, depth: NDArray[np.uint8]) -> None:
    place = np.searchsorted(lane.first_position, middles, side="right") - 1
    inside = np.flatnonzero((place >= 0) & (middles < lane.last_position[place]))
    place = place[inside]
    shares[lane.activity[place], inside] = 1.0
    depth[inside] = lane.depth[place]


def _summed(lane: LaneSpans, edges: FloatArray, shares: FloatArray, depth: NDArray[np.uint8]) -> None:
    place = np.maximum(np.searchsorted(lane.first_position, edges, side="right") - 1, 0)
    at_edges = lane.running[place]
    part = np.clip(edges - lane.first_position[place], 0, (lane.last_position - lane.first_position)[place])
    at_edges[np.arange(edges.size), lane.activity[place]] += part
    amounts = (at_edges[1:] - at_edges[:-1]).T
    total = amounts.sum(axis=0)
    known = total > 0
    np.divide(amounts, total, out=shares, where=known, casting="same_kind")
    deepest = _deepest(lane.depth, place)
    # The span at the right edge belongs to the column too, unless it only begins there.
    begun = edges[1:] > lane.first_position[place[1:]]
    np.maximum(deepest, lane.depth[place[1:]], out=deepest, where=begun)
    np.copyto(depth, deepest, where=known)


def _edges(window: TimeWindow, columns: int) -> NDArray[np.float64]:
    # Rounded so that an edge at a micro-op is exactly there.
    edges: NDArray[np.float64] = np.round(
        window.first + np.arange(columns + 1) * (window.visible / columns), _EDGE_DIGITS
    )
    return edges


def _deepest(depth: NDArray[np.uint8], place: NDArray[np.intp]) -> NDArray[np.uint8]:
    # Of each column, from where its left edge is to before where its right edge is.
    stop = max(int(place[-1]), int(place[-2]) + 1)
    return np.asarray(np.maximum.reduceat(depth[:stop], place[:-1], axis=0))


@dataclass(frozen=True)
class BucketTable:
    """The overview's buckets, prepared once so that any part at any scale is a few look-ups.

    Attributes
    ----------
    positions : (buckets + 1,) float64
        Where they begin and where the last one ends.
    running : (activities, buckets + 1, cpus) float64
        Shares times the bucket's length, summed from the start.
    depth : (buckets, cpus) uint8
    """

    positions: NDArray[np.float64]
    running: NDArray[np.float64]
    depth: NDArray[np.uint8]


def bucket_columns(table: BucketTable, window: TimeWindow, columns: int, cpus: range) -> Columns:
    """Shares and depths from buckets, for all columns."""
    count = len(cpus)
    buckets = table.positions.size - 1
    if buckets < 1 or columns < 1:
        shares = np.zeros((count, _ACTIVITIES, columns), dtype=np.float32)
        return Columns(shares, np.zeros((count, columns), dtype=np.uint8))
    edges = _edges(window, columns)
    place = np.clip(np.searchsorted(table.positions, edges, side="right") - 1, 0, buckets - 1)
    length = np.maximum(table.positions[place + 1] - table.positions[place], 1e-9)
    part = np.clip((edges - table.positions[place]) / length, 0, 1)[:, None]
    lanes = slice(cpus.start, cpus.stop)
    shares = np.zeros((count, _ACTIVITIES, columns), dtype=np.float32)
    for activity in Activity:
        low = table.running[activity, place, lanes]
        at_edges = low + (table.running[activity, place + 1, lanes] - low) * part
        shares[:, activity] = np.diff(at_edges, axis=0).T
    total = shares.sum(axis=1)
    known = total > 0
    np.divide(shares, total[:, None, :], out=shares, where=known[:, None, :])
    # Of each column the buckets from that of its left edge to that of its right edge.
    depth = _deepest(table.depth[:, lanes], place)
    np.maximum(depth, table.depth[place[1:], lanes], out=depth, where=part[1:] > 0)
    depth[~known.T] = 0
    return Columns(shares, np.ascontiguousarray(depth.T))


def lane_pixels(
    columns: Columns, shape: LaneShape, colours: LaneColours, into: Pixels | None = None
) -> Pixels:
    """Draw lanes.

    Parameters
    ----------
    into : (cpus * shape.pitch, columns) uint32, optional
        An array to draw into; one of another shape is not used.

    Returns
    -------
    (cpus * shape.pitch, columns) uint32
        Colours as QImage.Format_RGB32 has them, the first CPU on top.
    """
    count, _, width = columns.shares.shape
    if into is None or into.shape != (count * shape.pitch, width):
        into = np.empty((count * shape.pitch, width), dtype=np.uint32)
    pixels = into.reshape(count, shape.pitch, width)
    pixels[:] = colours.background
    bottom = (shape.pitch + shape.height) // 2  # the row below the lane's last one
    pixels[:, bottom - shape.base : bottom] = _stacked(columns.shares, shape.base, colours)
    if shape.step:
        shown = np.minimum(columns.depth, shape.levels)
        for level in range(1, int(shown.max(initial=0)) + 1):
            top = bottom - shape.base - level * shape.step
            block = pixels[:, top : top + shape.step]
            np.copyto(block, colours.levels[(level - 1) % 2], where=(shown >= level)[:, None, :])
    return into


def _stacked(shares: FloatArray, height: int, colours: LaneColours) -> Pixels:
    above_floor = np.arange(height - 1, -1, -1)[None, :, None]
    tops = _tops(shares, height)
    if height < 255:  # narrow numbers are compared faster
        above_floor, tops = above_floor.astype(np.uint8), [top.astype(np.uint8) for top in tops]
    # A pixel's layer is the number of layers that end below it; a column of which nothing is known has none.
    layer = (above_floor >= tops[0][:, None, :]).view(np.uint8)
    for top in tops[1:]:
        layer += (above_floor >= top[:, None, :]).view(np.uint8)
    layer += np.where(shares.any(axis=1), np.uint8(0), np.uint8(1))[:, None, :]
    _hatch(layer)
    return np.take(colours.layers, layer, mode="clip")


def _tops(shares: FloatArray, height: int) -> list[NDArray[np.integer]]:
    # Of all layers but the uppermost, in pixels above the floor.
    floor = np.zeros((shares.shape[0], shares.shape[2]), dtype=np.float32)
    taken = np.zeros(floor.shape, dtype=np.int16)
    tops: list[NDArray[np.integer]] = []
    for activity in STACK[:-1]:
        share = shares[:, activity]
        floor += share
        top = np.rint(floor * height).astype(np.int16)
        if activity in _ALWAYS_SEEN:
            np.maximum(top, taken + 1, out=top, where=share > 0)
        np.maximum(top, taken, out=top)
        np.minimum(top, height, out=top)
        tops.append(top)
        taken = top
    return tops


def _hatch(layer: NDArray[np.uint8]) -> None:
    # Diagonal stripes over waiting, so that it is told apart without colours.
    _, height, width = layer.shape
    waiting = layer == STACK.index(Activity.WAITING)
    if height < 4 or not waiting.any():
        return
    diagonal = (np.arange(height)[:, None] + np.arange(width)[None, :]) % _HATCH_PITCH < _HATCH_PITCH // 3
    np.copyto(layer, np.uint8(_HATCH_LAYER), where=waiting & diagonal)
