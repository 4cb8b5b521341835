"""The part of a slab map that is in view, where the map is higher than its place.  No Qt."""

from __future__ import annotations

from slubviz.views.slab_layout import Grid, MapLayout, Row


def window_of(layout: MapLayout, top: int, height: int) -> MapLayout:
    """The part of a layout that is in view.

    Parameters
    ----------
    layout : MapLayout
        Higher than its place.
    top : int
        Device pixels above the part.
    height : int
        Device pixels of the part.

    Returns
    -------
    MapLayout
        With ``height``, and only the tiles that are in view as a whole; rows may begin above it (``y < 0``).
    """
    grids = []
    for grid in layout.grids:
        y, pitch = grid.y - top, grid.style.pitch_y
        first = max(0, -(y // pitch)) if y < 0 else 0
        end = min(grid.rows, (height - y + grid.style.gap) // pitch)
        if first < end:
            slabs = grid.slabs[first * grid.columns : end * grid.columns]
            grids.append(Grid(grid.x, y + first * pitch, grid.columns, grid.style, slabs))
    rows = [
        Row(row.x, row.y - top, row.width, row.height, row.group)
        for row in layout.rows
        if row.y - top < height and row.y + row.height > top
    ]
    return MapLayout(layout.width, height, layout.label_width, tuple(rows), tuple(grids), layout.hidden)
