"""What the buckets of an overview say of each CPU, as shares for the lanes.

What a CPU does at the end of a bucket stands for all of the bucket: one sample, so shares are as good as the
number of buckets in a pixel or in the part of a run that is looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slubviz.model.travel.activity import Activity
from slubviz.model.travel.timeline import Overview
from slubviz.views.timeline_raster import BucketTable

#: Buckets times CPUs; more would take too long between two pictures, and have no pixels of their own.
MOST_CELLS = 60_000


def bucket_table(overview: Overview, most_cells: int = MOST_CELLS) -> BucketTable:
    """An overview's buckets as shares of what each CPU did, summed up for look-ups.

    Parameters
    ----------
    overview : Overview
        Of a run.
    most_cells : int
        With more buckets times CPUs than this, some buckets become one, with the shares of all of them.
    """
    buckets, cpus = overview.max_depth.shape
    starts = _starts(buckets, cpus, most_cells)
    edges = np.append(starts, buckets)
    positions = np.asarray(overview.positions, dtype=np.float64)
    lengths = np.diff(positions)[:, None]
    samples = np.asarray(overview.activity[1:], dtype=np.uint8)
    running = np.zeros((len(Activity), starts.size + 1, cpus))
    if buckets:
        for activity in Activity:
            amounts = (samples == activity) * lengths
            np.cumsum(np.add.reduceat(amounts, starts, axis=0), axis=0, out=running[activity, 1:])
    depth = np.minimum(_deepest(overview.max_depth, starts), 255).astype(np.uint8)
    return BucketTable(positions[edges], running, depth)


def coarsened(overview: Overview, most_cells: int = MOST_CELLS) -> Overview:
    """The same counts in fewer, longer buckets if there are more than ``most_cells``; see above."""
    buckets, cpus = overview.max_depth.shape
    starts = _starts(buckets, cpus, most_cells)
    if starts.size == buckets:
        return overview
    edges = np.append(starts, buckets)

    def summed(counts: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.add.reduceat(counts, starts, axis=0))

    return Overview(
        positions=overview.positions[edges],
        clock_cycles=overview.clock_cycles[edges],
        fast_ops=summed(overview.fast_ops),
        slow_ops=summed(overview.slow_ops),
        wait_cycles=summed(overview.wait_cycles),
        interrupts=summed(overview.interrupts),
        retries=summed(overview.retries),
        contended=summed(overview.contended),
        max_depth=_deepest(overview.max_depth, starts),
        phases=overview.phases,
        activity=overview.activity[edges],
    )


def _starts(buckets: int, cpus: int, most_cells: int) -> NDArray[np.int64]:
    step = max(-(-buckets * cpus // most_cells), 1)
    return np.arange(0, buckets, step)


def _deepest(depth: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    return np.asarray(np.maximum.reduceat(depth, starts, axis=0)) if starts.size else depth
