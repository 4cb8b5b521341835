"""Groups and places of the slab map: every slab once, nothing over anything, nothing outside."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.views.slab_layout import (
    CLICKABLE,
    Detail,
    Grid,
    GroupKind,
    MapLayout,
    TileLimits,
    cells_of,
    group_slabs,
    lay_out,
    tile_style,
)
from slubviz.views.slab_summary import NO_OBJECT, summarise
from slubviz.views.slab_window import window_of
from tests.views.helpers import A, C, F, many_slabs, table

EIGHT = list(range(8))
ALL = [True] * 8
THIN = "\u202f"


def layout_of(count: int, width: int, height: int, objects: int = 16, unit: float = 1.0) -> MapLayout:
    groups = group_slabs(many_slabs(count, objects), EIGHT, ALL)
    return lay_out(groups, objects, width, height, unit, 100)


def rectangles(grid: Grid) -> list[tuple[int, int, int, int]]:
    places = np.arange(grid.slabs.size)
    rows, columns = np.divmod(places, grid.columns)
    x, y = grid.x + columns * grid.style.pitch_x, grid.y + rows * grid.style.pitch_y
    return [
        (int(a), int(b), int(a) + grid.style.width, int(b) + grid.style.height)
        for a, b in zip(x, y, strict=True)
    ]


def test_slabs_are_grouped_by_owner() -> None:
    slabs = table(
        [[A, C], [A, A], [A, F], [A, A], [F, F]],
        cpu=[1, -1, -1, -1, -1],
        last_cpu=[1, 1, 0, 0, -1],
        partial=[False, False, True, False, False],
    )
    groups = group_slabs(slabs, [0, 1], [True, True])
    found = [(g.kind, g.title, g.cpu_slabs.tolist(), g.slabs.tolist()) for g in groups]
    assert found == [
        (GroupKind.CPU, f"CPU{THIN}0", [], [3]),
        (GroupKind.CPU, f"CPU{THIN}1", [0], [1]),
        (GroupKind.PARTIAL, "Partial list", [], [2]),
        (GroupKind.OTHER, "On no list", [], [4]),
    ]


def test_partial_lists_are_by_node() -> None:
    slabs = table([[A, F]] * 3, last_cpu=[0, 0, 0], partial=[True] * 3, node=[1, 0, 1])
    groups = group_slabs(slabs, [0], [True])
    found = [g.slabs.tolist() for g in groups if g.kind is GroupKind.PARTIAL]
    assert found == [[1], [0, 2]]


def test_many_cpus_share_groups() -> None:
    slabs = table([[A]] * 4, cpu=[0, 63, 64, 4095], last_cpu=[0, 63, 64, 4095])
    groups = group_slabs(slabs, list(range(4096)), [True] * 4096, largest_groups=64)
    cpu_groups = [g for g in groups if g.kind is GroupKind.CPU]
    assert len(cpu_groups) == 64
    assert cpu_groups[0].title == f"CPU{THIN}0–63"
    assert [g.cpu_slabs.tolist() for g in cpu_groups[:2]] == [[0, 1], [2]]
    assert cpu_groups[63].cpu_slabs.tolist() == [3]


@pytest.mark.parametrize(
    ("objects", "cells"),
    [(1, (1, 1)), (2, (2, 1)), (8, (4, 2)), (21, (5, 5)), (42, (7, 6)), (64, (8, 8)), (512, (32, 16))],
)
def test_cells(objects: int, cells: tuple[int, int]) -> None:
    assert cells_of(objects) == cells


@given(st.integers(1, 4096))
def test_all_objects_have_a_cell(objects: int) -> None:
    columns, rows = cells_of(objects)
    assert columns * rows >= objects
    assert columns * (rows - 1) < objects


@given(st.integers(1, 600), st.integers(1, 200), st.sampled_from([1.0, 1.5, 2.0, 3.0]))
def test_a_tile_is_not_larger_than_asked(objects: int, size: int, unit: float) -> None:
    style = tile_style(objects, size, unit)
    assert 1 <= style.width <= size
    assert 1 <= style.height <= size
    if style.detail is Detail.OBJECTS:
        inset = 2 * (style.frame + style.padding)
        assert style.columns * style.cell_width - style.cell_gap + inset == style.width
        assert style.rows * style.cell_height - style.cell_gap + inset == style.height
        assert style.cell_width - style.cell_gap >= 2 or style.cell_gap == 0 or style.cell_width >= 3
        assert style.columns * style.rows >= objects


def test_detail_goes_from_objects_to_bars_to_dots() -> None:
    details = [tile_style(64, size, 1.0).detail for size in (64, 20, 12, 4, 3, 1)]
    assert details == [Detail.OBJECTS, Detail.OBJECTS, Detail.BAR, Detail.BAR, Detail.DOT, Detail.DOT]


@given(
    st.integers(0, 3000),
    st.integers(280, 1600),
    st.integers(330, 1400),
    st.sampled_from([1, 8, 64, 512]),
    st.sampled_from([1.0, 2.0]),
)
def test_every_slab_has_one_place_inside_and_free_of_others(
    count: int, width: int, height: int, objects: int, unit: float
) -> None:
    layout = layout_of(count, round(width * unit), round(height * unit), objects, unit)
    shown = np.concatenate([grid.slabs for grid in layout.grids]) if layout.grids else np.zeros(0, dtype=int)
    assert layout.hidden == 0
    assert sorted(shown.tolist()) == list(range(count))
    taken = np.zeros((layout.height, layout.width), dtype=np.int32)
    for grid in layout.grids:
        for left, top, right, bottom in rectangles(grid):
            assert left >= 0
            assert right <= layout.width
            assert top >= 0
            assert bottom <= layout.height
            taken[top:bottom, left:right] += 1
    assert taken.max(initial=0) <= 1


def test_the_pointer_finds_slab_and_object() -> None:
    layout = layout_of(40, 900, 700, 16)
    for grid in layout.grids:
        style = grid.style
        for (left, top, _, _), slab in zip(rectangles(grid), grid.slabs, strict=True):
            assert layout.place_at(left, top) == (slab, -1)  # the frame belongs to no object
            inset = style.frame + style.padding
            assert layout.place_at(left + inset, top + inset) == (slab, 0)
            last = (left + inset + 3 * style.cell_width, top + inset + 3 * style.cell_height)
            assert layout.place_at(*last) == (slab, 15)
    assert layout.slab_at(1, 1) == -1
    assert layout.slab_at(899, 699) == -1


def test_tiles_shrink_as_slabs_come() -> None:
    sizes = [
        max(
            grid.style.width
            for grid in layout_of(count, 800, 600).grids
            if grid.columns != 8 or grid.slabs.size > 1
        )
        for count in (50, 500, 5_000, 50_000)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 4
    assert layout_of(50_000, 800, 600).hidden == 0


def test_what_has_no_room_even_as_dots_is_counted() -> None:
    layout = layout_of(400_000, 300, 330)
    shown = sum(int(grid.slabs.size) for grid in layout.grids)
    assert layout.hidden > 0
    assert shown + layout.hidden == 400_000


def test_a_cpu_that_takes_no_part_needs_no_room() -> None:
    slabs = many_slabs(100, 64, cpus=1)
    idle = lay_out(group_slabs(slabs, EIGHT, [True] + [False] * 7), 64, 800, 700, 1.0, 100)
    busy = lay_out(group_slabs(slabs, EIGHT, ALL), 64, 800, 700, 1.0, 100)
    assert idle.rows[1].height < busy.rows[1].height
    assert idle.grids[1].style.width > busy.grids[1].style.width


@given(st.integers(1, 3000), st.integers(1, 40), st.integers(420, 1600), st.integers(400, 1200))
def test_slabs_of_unknown_owners_get_the_room_below_the_cpus(
    count: int, cpus: int, width: int, height: int
) -> None:
    slabs = many_slabs(count + cpus, 32, cpus)
    slabs = replace(slabs, last_cpu=slabs.cpu)
    groups = group_slabs(slabs, list(range(cpus)), [True] * cpus, largest_groups=8)
    layout = lay_out(groups, 32, width, height, 1.0, 100)
    shown = np.concatenate([grid.slabs for grid in layout.grids])
    assert sorted(shown.tolist()) == list(range(count + cpus))
    taken = np.zeros((height, width), dtype=np.int32)
    for grid in layout.grids:
        for left, top, right, bottom in rectangles(grid):
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
            taken[top:bottom, left:right] += 1
    assert taken.max() == 1
    for one, other in pairwise(layout.rows):
        assert other.y >= one.y + one.height or (other.y == one.y and other.x == one.x + one.width)


def test_summary_of_equal_slabs() -> None:
    summary = summarise(table([[A, C, F, F], [A, A, A, A]], cpu=[2, -1], locked=[False, True]))
    assert summary.states.tolist() == [[A, C, F, F], [A, A, A, A]]
    assert summary.allocated.tolist() == [1, 4]
    assert summary.cpu_free.tolist() == [1, 0]
    assert summary.frame.tolist() == [1 + 4, 2 + 8]


def test_summary_of_unequal_slabs_is_padded() -> None:
    summary = summarise(table([[A], [C, F, A], []]))
    assert summary.states.tolist() == [[A, NO_OBJECT, NO_OBJECT], [C, F, A], [NO_OBJECT] * 3]
    assert summary.allocated.tolist() == [1, 1, 0]
    assert summary.objects.tolist() == [1, 3, 0]


def test_summary_of_nothing() -> None:
    summary = summarise(table([]))
    assert summary.slabs == 0
    assert summary.objects_per_slab == 1


def clickable(count: int, width: int, height: int, unit: float = 1.0) -> MapLayout:
    groups = group_slabs(many_slabs(count, 32), EIGHT, ALL)
    return lay_out(groups, 32, width, height, unit, round(100 * unit), CLICKABLE)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 4000), st.integers(280, 900), st.integers(60, 400), st.sampled_from([1.0, 2.0]))
def test_a_small_map_gets_higher_rather_than_its_tiles_too_small_to_click(
    count: int, width: int, height: int, unit: float
) -> None:
    layout = clickable(count, round(width * unit), round(height * unit), unit)
    assert layout.hidden == 0
    assert layout.height >= round(height * unit)
    shown = np.concatenate([grid.slabs for grid in layout.grids]) if layout.grids else np.zeros(0, dtype=int)
    assert sorted(shown.tolist()) == list(range(count))
    for grid in layout.grids:
        assert min(grid.style.width, grid.style.height) >= 8 * unit
        assert max(bottom for *_, bottom in rectangles(grid)) <= layout.height


def test_where_there_is_room_a_least_size_changes_nothing() -> None:
    groups = group_slabs(many_slabs(50, 32), EIGHT, ALL)
    free, limited = lay_out(groups, 32, 800, 700, 1.0, 100), clickable(50, 800, 700)
    assert limited.height == 700
    assert [grid.style for grid in limited.grids] == [grid.style for grid in free.grids]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1400), st.integers(40, 300))
def test_a_window_has_the_tiles_that_are_wholly_in_view_where_they_were(top: int, height: int) -> None:
    layout = clickable(3000, 500, 120)
    assert layout.height == 1346
    part = window_of(layout, top, height)
    wanted = {
        (left, upper - top, right, bottom - top, int(slab))
        for grid in layout.grids
        for (left, upper, right, bottom), slab in zip(rectangles(grid), grid.slabs, strict=True)
        if top <= upper and bottom <= top + height
    }
    found = {
        (*rect, int(slab))
        for grid in part.grids
        for rect, slab in zip(rectangles(grid), grid.slabs, strict=True)
    }
    assert found == wanted
    assert part.height == height
    assert [row.group.title for row in part.rows] == [
        row.group.title for row in layout.rows if row.y < top + height and row.y + row.height > top
    ]


def test_labels_above_leave_their_lines_free() -> None:
    groups = group_slabs(many_slabs(3, 32, cpus=1), [0], [True])
    layout = lay_out(groups, 32, 300, 400, 1.0, 0, TileLimits(largest=240, largest_cpu=240, label_height=30))
    assert max(grid.style.width for grid in layout.grids) > 88
    for grid in layout.grids:
        row = next(row for row in layout.rows if row.y <= grid.y < row.y + row.height)
        assert grid.y >= row.y + 30
        assert grid.x + grid.style.width <= 300
