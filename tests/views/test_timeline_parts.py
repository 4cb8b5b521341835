"""The timeline's numbers: windows, rulers, clocks, columns of pixels, marks; held against slow oracles."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPointF

from slubviz.model.travel.activity import Activity
from slubviz.model.travel.branches import Branch
from slubviz.views.theme import DARK, LIGHT, Theme
from slubviz.views.timeline_buckets import bucket_table, coarsened
from slubviz.views.timeline_content import forks
from slubviz.views.timeline_layout import lay_out
from slubviz.views.timeline_markers import Markers
from slubviz.views.timeline_marks import (
    BIN_PIXELS,
    NO_CPU,
    MarkTable,
    Sign,
    hit,
    joined,
    place_marks,
    shape_of_sign,
)
from slubviz.views.timeline_raster import (
    STACK,
    BucketTable,
    Columns,
    LaneSpans,
    SpanArrays,
    bucket_columns,
    colours_of,
    lane_pixels,
    lane_spans,
    shape_of,
    span_columns,
)
from slubviz.views.timeline_window import ClockScale, TimeWindow, nice_step, ticks, whole, with_room
from tests.views.fake_timeline import fake_overview
from tests.views.test_theme_and_actions import VISION, lab, linear

END = 10_000_000
THIN = "\u202f"
windows = st.builds(
    lambda first, visible: TimeWindow(first, visible).clamped(END),
    st.floats(0, END),
    st.floats(1, END),
)


# --- windows and rulers -------------------------------------------------------------------------------
@given(windows, st.floats(1, 1000), st.floats(0, 1))
def test_zooming_in_keeps_the_position_under_the_pointer(
    window: TimeWindow, factor: float, place: float
) -> None:
    zoomed = window.zoomed(factor, place, END)
    assert zoomed.visible == pytest.approx(max(window.visible / factor, 1.0))
    assert zoomed.position_at(place) == pytest.approx(
        window.position_at(place), abs=1e-6 * window.visible + 1e-6
    )


@given(windows, st.floats(0.001, 1000), st.floats(0, 1), st.floats(-2 * END, 2 * END))
def test_a_window_never_leaves_the_run(window: TimeWindow, factor: float, place: float, by: float) -> None:
    for one in (window.zoomed(factor, place, END), window.panned(by, END)):
        assert 0 <= one.first <= one.last <= END + 1e-6
        assert 1 <= one.visible <= END


def test_from_the_whole_run_to_one_micro_op_and_back() -> None:
    window = whole(END)
    assert (window.first, window.last) == (0, END)
    for _ in range(100):
        window = window.zoomed(1.25, 0.3, END)
    assert window.visible == 1
    for _ in range(100):
        window = window.zoomed(0.8, 0.3, END)
    assert window == whole(END)


def test_a_run_without_micro_ops_has_a_window() -> None:
    assert whole(0) == TimeWindow(0, 1)
    assert whole(0).zoomed(2, 0.5, 0) == TimeWindow(0, 1)


def test_revealing_leaves_room_ahead() -> None:
    window = TimeWindow(1000, 100)
    assert window.revealing(1050, END) is window
    assert window.revealing(1200, END) == TimeWindow(1180, 100)  # forwards: 80 % ahead
    assert window.revealing(900, END) == TimeWindow(820, 100)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(1, 40))
def test_ticks_are_round_inside_and_not_too_many(first: float, length: float, most: int) -> None:
    values = ticks(first, first + length, most)
    assert len(values) <= most + 1
    assert all(first - 1e-3 <= value <= first + length + 1e-3 for value in values)
    steps = set(np.diff(values).tolist())
    assert len(steps) <= 1
    assert all(str(step).rstrip("0") in ("1", "2", "5") for step in steps)


@pytest.mark.parametrize(("least", "step"), [(0.2, 1), (1, 1), (1.1, 2), (2, 2), (3, 5), (6, 10), (101, 200)])
def test_steps(least: float, step: float) -> None:
    assert nice_step(least) == step


def test_labels_that_would_meet_are_left_out() -> None:
    assert with_room([0, 20, 24, 50, 90], [20, 10, 5, 10, 11], 100, 4) == [True, False, True, True, False]
    assert with_room([], [], 100, 4) == []


def test_clock_between_and_at_noted_positions() -> None:
    clock = ClockScale(np.array([0, 100, 200]), np.array([50.0, 350.0, 400.0]))
    assert clock.cycles_at(100) == 350
    assert clock.cycles_at(50) == 200
    assert clock.position_of(375) == 150
    assert clock.is_exact(100)
    assert not clock.is_exact(50)


def test_clocks_of_single_cpus_refine_but_never_turn_the_clock_back() -> None:
    clock = ClockScale(
        np.array([0, 100]), np.array([0.0, 300.0]), np.array([50, 10, 100]), np.array([290.0, 20.0, 250.0])
    )
    assert clock.cycles_at(50) == 290
    assert clock.cycles_at(10) == 20
    assert clock.cycles_at(100) == 300
    assert not clock.is_exact(50)


def test_nothing_is_known_of_no_clock() -> None:
    clock = ClockScale(np.empty(0, dtype=np.int64), np.empty(0))
    assert clock.empty
    assert (clock.cycles_at(5), clock.position_of(5), clock.is_exact(0)) == (0, 0, False)


# --- markers --------------------------------------------------------------------------------------------
def test_difference_of_markers_is_exact_once_both_clocks_are_known() -> None:
    clock = ClockScale(np.array([0, 1000]), np.array([0.0, 5000.0]))
    markers = Markers()
    markers.set("B", 1000, None)  # where the clock was noted
    assert markers.difference(clock) is None
    assert markers.difference_text(clock) == ""
    markers.set("A", 333, None)
    assert markers.difference(clock) == (667, 5000 - 1665.0, False)
    assert f"667{THIN}micro-ops, ≈{THIN}3{THIN}335{THIN}cycles" in markers.difference_text(clock)
    markers.learn(334, 1.0)  # another place
    assert not markers.difference(clock)[2]  # type: ignore[index]
    markers.learn(333, 1234.0)
    assert markers.difference(clock) == (667, 3766.0, True)
    assert markers.difference_text(clock) == f"B − A: 667{THIN}micro-ops, 3{THIN}766{THIN}cycles"
    markers.learn(333, 9.0)  # known already
    assert markers.difference(clock) == (667, 3766.0, True)


def test_markers_in_the_other_order_give_a_negative_difference() -> None:
    markers = Markers()
    markers.set("A", 10, 100.0)
    markers.set("B", 9, 70.0)
    empty = ClockScale(np.empty(0, dtype=np.int64), np.empty(0))
    assert markers.difference(empty) == (-1, -30.0, True)
    assert markers.difference_text(empty) == f"B − A: −1{THIN}micro-op, −30{THIN}cycles"
    with pytest.raises(KeyError):
        markers.set("C", 0, 0.0)
    markers.clear()
    assert markers.positions() == {}


# --- columns from spans -----------------------------------------------------------------------------------
@st.composite
def some_spans(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    edges = sorted(set(draw(st.lists(st.integers(100, 400), min_size=2, max_size=30))))
    result = []
    for low, high in pairwise(edges):
        if draw(st.integers(0, 5)):  # sometimes a gap
            result.append((low, high, draw(st.integers(0, 4)), draw(st.integers(0, 5))))
    return result


def lane_of(spans: list[tuple[int, int, int, int]]) -> LaneSpans:
    columns = np.array(spans, dtype=np.int64).reshape(-1, 4).T
    return lane_spans(*columns)


def oracle(
    spans: list[tuple[int, int, int, int]], window: TimeWindow, columns: int
) -> tuple[np.ndarray, np.ndarray]:
    shares, depth = np.zeros((5, columns)), np.zeros(columns)
    scale = Fraction(window.visible) / columns
    for column in range(columns):
        left = Fraction(window.first) + column * scale
        for low, high, activity, level in spans:
            part = min(Fraction(high), left + scale) - max(Fraction(low), left)
            if part > 0:
                shares[activity, column] += part
                depth[column] = max(depth[column], level)
        if shares[:, column].sum():
            shares[:, column] /= shares[:, column].sum()
    return shares, depth


@given(some_spans(), st.integers(50, 400), st.integers(60, 350), st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_columns_hold_what_the_spans_cover(
    spans: list[tuple[int, int, int, int]], first: int, visible: int, columns: int
) -> None:
    window = TimeWindow(first, visible)  # at least one micro-op per column
    found = span_columns(SpanArrays(100, 400, (lane_of(spans),)), window, columns, range(1), 0, columns)
    shares, depth = oracle(spans, window, columns)
    np.testing.assert_allclose(found.shares[0], shares, atol=1e-5)
    np.testing.assert_array_equal(found.depth[0], depth)


def test_a_span_that_ended_before_a_column_is_not_of_it() -> None:
    lane = lane_of([(100, 101, 3, 4), (104, 110, 2, 0)])
    found = span_columns(SpanArrays(100, 110, (lane,)), TimeWindow(102, 8), 4, range(1), 0, 4)
    assert found.depth[0].tolist() == [0, 0, 0, 0]
    assert found.shares[0, Activity.FAST_PATH].tolist() == [0, 1, 1, 1]
    assert not found.shares[0, Activity.SLOW_PATH].any()


def test_wide_micro_ops_show_one_span_in_each_pixel() -> None:
    lane = lane_of([(10, 12, 2, 0), (12, 13, 3, 2), (14, 15, 4, 0)])
    found = span_columns(SpanArrays(0, 20, (lane,)), TimeWindow(10, 5), 50, range(1), 0, 50)
    expected = [2] * 20 + [3] * 10 + [None] * 10 + [4] * 10
    for column, activity in enumerate(expected):
        wanted = np.zeros(5)
        if activity is not None:
            wanted[activity] = 1
        np.testing.assert_array_equal(found.shares[0, :, column], wanted)
    np.testing.assert_array_equal(found.depth[0], [0] * 20 + [2] * 10 + [0] * 20)


def test_only_the_columns_and_lanes_asked_for() -> None:
    lanes = tuple(lane_of([(0, 100, activity, 0)]) for activity in range(4))
    found = span_columns(SpanArrays(0, 100, lanes), TimeWindow(0, 100), 100, range(2, 6), 10, 30)
    assert found.shares.shape == (4, 5, 20)
    assert found.shares[0, 2].tolist() == [1] * 20
    assert found.shares[1, 3].tolist() == [1] * 20
    assert not found.shares[2:].any()  # CPUs without spans


# --- columns from buckets -----------------------------------------------------------------------------------
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_columns_hold_what_the_buckets_hold(data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(1, 299), min_size=1, max_size=20, unique=True))
    positions = np.array([0, *sorted(cuts), 300], dtype=np.float64)
    count = positions.size - 1
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    shares = random.random((count, 2, 5))
    shares /= shares.sum(axis=2, keepdims=True)
    running = np.zeros((5, count + 1, 2))
    running[:, 1:] = np.moveaxis(np.cumsum(shares * np.diff(positions)[:, None, None], axis=0), 2, 0)
    depth = random.integers(0, 4, (count, 2)).astype(np.uint8)
    first = data.draw(st.integers(0, 250))
    columns = data.draw(st.integers(1, 40))
    window = TimeWindow(first, data.draw(st.integers(1, 300 - first)))
    found = bucket_columns(BucketTable(positions, running, depth), window, columns, range(2))
    scale = Fraction(int(window.visible), columns)
    for column in range(columns):
        left = first + column * scale
        wanted, deepest = np.zeros((2, 5)), np.zeros(2)
        for bucket in range(count):
            part = min(Fraction(int(positions[bucket + 1])), left + scale) - max(
                Fraction(int(positions[bucket])), left
            )
            if part > Fraction(1, 10**6):
                wanted += float(part) * shares[bucket]
                deepest = np.maximum(deepest, depth[bucket])
        wanted /= wanted.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.shares[:, :, column], wanted, atol=1e-4)
        assert (found.depth[:, column] == deepest).all()


def test_nothing_is_drawn_behind_the_last_bucket() -> None:
    running = np.zeros((5, 2, 1))
    running[Activity.IDLE, 1] = 10
    table = BucketTable(np.array([0.0, 10.0]), running, np.full((1, 1), 3, dtype=np.uint8))
    found = bucket_columns(table, TimeWindow(0, 20), 20, range(1))
    assert found.shares[0].sum(axis=0).tolist() == [1] * 10 + [0] * 10
    assert found.depth[0].tolist() == [3] * 10 + [0] * 10


# --- what buckets say ---------------------------------------------------------------------------------------
def test_a_bucket_is_what_the_cpu_does_at_its_end() -> None:
    overview = replace(
        fake_overview(60, 3, 2),
        positions=np.array([0, 10, 40, 60]),
        activity=np.array([[4, 4], [2, 0], [3, 0], [2, 1]]),
        max_depth=np.array([[0, 1], [2, 0], [0, 300]]),
    )
    table = bucket_table(overview)
    assert table.positions.tolist() == [0, 10, 40, 60]
    assert table.running[Activity.FAST_PATH].tolist() == [[0, 0], [10, 0], [10, 0], [30, 0]]
    assert table.running[Activity.SLOW_PATH].tolist() == [[0, 0], [0, 0], [30, 0], [30, 0]]
    assert table.running[Activity.IDLE].tolist() == [[0, 0], [0, 10], [0, 40], [0, 40]]
    assert table.running[Activity.WORKLOAD].tolist() == [[0, 0], [0, 0], [0, 0], [0, 20]]
    assert not table.running[Activity.WAITING].any()  # what was at the start is of no bucket
    assert table.depth.tolist() == [[0, 1], [2, 0], [0, 255]]


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 100), st.integers(1, 30))
@settings(deadline=None)
def test_fewer_buckets_hold_the_same(buckets: int, cpus: int, seed: int, most_cells: int) -> None:
    overview = fake_overview(10_000, buckets, cpus, seed)
    fewer = coarsened(overview, most_cells)
    step = -(-buckets * cpus // most_cells)
    assert fewer.positions.tolist() == [*overview.positions[:-1:step].tolist(), overview.positions[-1]]
    assert fewer.clock_cycles.size == fewer.positions.size
    for name in ("fast_ops", "slow_ops", "wait_cycles", "interrupts", "retries", "contended", "max_depth"):
        before, after = getattr(overview, name), getattr(fewer, name)
        assert after.shape == (fewer.positions.size - 1, cpus)
        for row in range(after.shape[0]):
            part = before[row * step : (row + 1) * step]
            expected = part.max(axis=0) if name == "max_depth" else part.sum(axis=0)
            np.testing.assert_allclose(after[row], expected)
    assert fewer.activity.tolist() == overview.activity[[*range(0, buckets, step), buckets]].tolist()
    table, all_of_it = bucket_table(overview, most_cells), bucket_table(overview)
    assert table.positions.tolist() == fewer.positions.tolist()
    assert table.depth.tolist() == fewer.max_depth.tolist()
    for activity in Activity:  # every sample counts
        at_edges = all_of_it.running[activity, [*range(0, buckets, step), buckets]]
        np.testing.assert_allclose(table.running[activity], at_edges)


def test_few_buckets_stay_as_they_are() -> None:
    overview = fake_overview(10_000, 10, 2)
    assert coarsened(overview, 20) is overview
    empty = fake_overview(0, 0, 2)
    assert coarsened(empty, 1) is empty
    assert bucket_table(empty).running.shape == (5, 1, 2)


# --- pixels -------------------------------------------------------------------------------------------------
def columns_of(*lanes: list[tuple[dict[Activity, float], int]]) -> Columns:
    width = len(lanes[0])
    shares = np.zeros((len(lanes), 5, width), dtype=np.float32)
    depth = np.zeros((len(lanes), width), dtype=np.uint8)
    for row, lane in enumerate(lanes):
        for column, (parts, level) in enumerate(lane):
            depth[row, column] = level
            for activity, part in parts.items():
                shares[row, activity, column] = part
    return Columns(shares, depth)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_shares_are_stacked_and_rare_ones_are_not_lost(theme: Theme) -> None:
    shape, colours = shape_of(50), colours_of(theme)
    fast, slow, idle = Activity.FAST_PATH, Activity.SLOW_PATH, Activity.IDLE
    lane = [({fast: 1.0}, 0), ({fast: 0.5, idle: 0.5}, 0), ({fast: 0.999, slow: 0.001}, 0), ({}, 0)]
    pixels = lane_pixels(columns_of(lane), shape, colours)
    colour = {activity: colours.layers[index] for index, activity in enumerate(STACK)}
    counts = [{int(c): int((pixels[:, x] == c).sum()) for c in np.unique(pixels[:, x])} for x in range(4)]
    background = 50 - shape.base
    assert counts[0] == {int(colour[fast]): shape.base, colours.background: background}
    assert counts[1][int(colour[fast])] == pytest.approx(shape.base / 2, abs=1)
    assert counts[1][int(colour[fast])] + counts[1][int(colour[idle])] == shape.base
    assert counts[2][int(colour[slow])] == 1
    assert counts[3] == {colours.background: 50}
    bottom = np.flatnonzero(pixels[:, 0] == colour[fast])[-1]
    assert pixels[bottom, 2] == colour[slow]  # the slow path is below the fast path


@pytest.mark.parametrize("pitch", range(6, 80))
def test_every_lane_has_room_for_three_levels(pitch: int) -> None:
    shape = shape_of(pitch)
    assert shape.base >= 2
    assert shape.levels >= 3
    assert shape.step >= 1
    assert shape.height <= pitch


def test_nested_interrupts_are_steps_and_very_deep_ones_stay_in_the_lane() -> None:
    shape, colours = shape_of(13), colours_of(LIGHT)
    lane = [({Activity.WORKLOAD: 1.0}, depth) for depth in (0, 1, 2, 3, 200)]
    pixels = lane_pixels(columns_of(lane, lane), shape, colours)
    assert pixels.shape == (26, 5)
    for row in (0, 13):
        steps = np.isin(pixels[row : row + 13], colours.levels).sum(axis=0)
        assert steps.tolist() == [0, shape.step, 2 * shape.step, 3 * shape.step, 3 * shape.step]


def test_waiting_is_hatched() -> None:
    colours = colours_of(LIGHT)
    pixels = lane_pixels(columns_of([({Activity.WAITING: 1.0}, 0)] * 60), shape_of(20), colours)
    waiting, hatch = (pixels == colours.layers[0]).sum(), (pixels == colours.hatch).sum()
    assert waiting > hatch > 0.2 * waiting


def test_pixels_are_drawn_into_an_array_that_fits_and_only_into_that() -> None:
    columns, shape, colours = columns_of([({}, 0)] * 3), shape_of(12), colours_of(LIGHT)
    right, wrong = np.zeros((12, 3), dtype=np.uint32), np.zeros((12, 4), dtype=np.uint32)
    assert lane_pixels(columns, shape, colours, right) is right
    assert lane_pixels(columns, shape, colours, wrong) is not wrong
    assert (right == colours.background).all()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_activities_are_told_apart_by_everyone(theme: Theme, vision: str) -> None:
    meanings = ["activity_idle", "activity_workload", "activity_slow", "activity_fast", "activity_waiting"]
    seen = [lab(VISION[vision] @ linear(getattr(theme, meaning))) for meaning in meanings]
    for index, one in enumerate(seen):
        for other in seen[index + 1 :]:
            assert np.linalg.norm(one - other) > 13


# --- marks ------------------------------------------------------------------------------------------------
def marks_at(*rows: tuple[int, int, Sign], count: int = 1, length: int = 0) -> MarkTable:
    position, cpu, sign = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return joined(
        [MarkTable(position, position + length, cpu, sign, np.full(position.size, count, dtype=np.int64))]
    )


def test_near_marks_become_one_of_the_kind_that_matters_most() -> None:
    table = marks_at(
        (100, 0, Sign.SLOW_PATH), (103, 0, Sign.RETRY), (104, 0, Sign.RETRY), (900, 0, Sign.SLOW_PATH)
    )
    placed = place_marks(table, TimeWindow(0, 1000), 1000, range(2))
    assert placed.x.tolist() == [103, 900]
    assert placed.sign.tolist() == [Sign.RETRY, Sign.SLOW_PATH]
    assert placed.count.tolist() == [2, 1]
    assert table.position[placed.first].tolist() == [103, 900]
    assert placed.exact.all()


def test_far_marks_stay_apart_and_lanes_do_not_mix() -> None:
    table = marks_at(
        (100, 0, Sign.RETRY), (100, 1, Sign.RETRY), (130, 1, Sign.INTERRUPT), (100, 5, Sign.RETRY)
    )
    placed = place_marks(table, TimeWindow(0, 1000), 1000, range(2))
    assert list(zip(placed.row.tolist(), placed.x.tolist(), strict=True)) == [(0, 100), (1, 100), (1, 130)]
    shifted = place_marks(table, TimeWindow(90, 100), 1000, range(1, 2))
    assert shifted.x.tolist() == [100, 400]


def test_a_kind_that_would_cover_a_lane_is_left_out_there() -> None:
    many = [(position, 0, Sign.SLOW_PATH) for position in range(0, 1000, 5)]
    table = marks_at(*many, (500, 0, Sign.RETRY), (700, 1, Sign.SLOW_PATH))
    placed = place_marks(table, TimeWindow(0, 1000), 1000, range(2))
    assert [(int(r), int(s)) for r, s in zip(placed.row, placed.sign, strict=True)] == [
        (0, Sign.RETRY),
        (1, Sign.SLOW_PATH),
    ]
    near = place_marks(table, TimeWindow(0, 20), 1000, range(2))
    assert near.x.tolist() == [0, 250, 500, 750, 1000]


def test_marks_of_the_run_are_never_left_out() -> None:
    table = marks_at(*[(position, NO_CPU, Sign.BOOKMARK) for position in range(0, 1000, 20)])
    placed = place_marks(table, TimeWindow(0, 1000), 1000, range(NO_CPU, NO_CPU + 1))
    assert placed.x.size == 50


def test_counts_of_buckets_are_summed_and_not_exact() -> None:
    table = marks_at((100, 0, Sign.RETRY), (102, 0, Sign.RETRY), count=3, length=2)
    placed = place_marks(table, TimeWindow(0, 1000), 1000, range(1))
    assert placed.count.tolist() == [6]
    assert not placed.exact.any()


def test_the_nearest_mark_of_the_row_is_hit() -> None:
    table = marks_at((100, 0, Sign.RETRY), (100 + 2 * BIN_PIXELS, 0, Sign.RETRY), (105, 1, Sign.RETRY))
    placed = place_marks(table, TimeWindow(0, 1000), 1000, range(2))
    assert hit(placed, 103, 0, 5) == 0
    assert hit(placed, 120, 0, 5) == 1
    assert hit(placed, 103, 1, 5) == 2
    assert hit(placed, 110, 0, 5) == -1
    assert hit(place_marks(joined([]), TimeWindow(0, 1), 10, range(1)), 0, 0, 5) == -1


def test_every_mark_has_a_shape_of_its_own() -> None:
    def raster(sign: Sign) -> frozenset[tuple[int, int]]:
        path = shape_of_sign(sign)
        return frozenset(
            (x, y) for x in range(-9, 10) for y in range(-9, 10) if path.contains(QPointF(x / 9, y / 9))
        )

    shapes = {sign: raster(sign) for sign in Sign}
    for one in Sign:
        for other in Sign:
            if one < other:
                union = shapes[one] | shapes[other]
                assert len(shapes[one] & shapes[other]) < 0.72 * len(union), (one, other)


# --- forks, layout ------------------------------------------------------------------------------------------
def test_forks_that_can_be_seen_from_a_branch() -> None:
    branches = (
        Branch(0, None, 0, (), "main", 1000),
        Branch(1, 0, 400, (), "one", 900),
        Branch(2, 1, 600, (), "two", 900),
        Branch(3, 0, 500, (), "three", 900),
        Branch(4, 1, 450, (), "four", 900),
    )
    assert forks(branches, 0) == [(400, "one begins"), (500, "three begins")]
    # From branch 2: main only up to 400, one only up to 600.
    assert forks(branches, 2) == [(400, "one leaves main"), (600, "two leaves one"), (450, "four begins")]
    assert forks((), 0) == []


@pytest.mark.parametrize("unit", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("cpus", [1, 8, 64, 300])
@pytest.mark.parametrize("height", [60, 176, 700])
def test_lanes_are_inside_and_all_can_be_reached(unit: float, cpus: int, height: int) -> None:
    layout = lay_out(1280, height, cpus, unit, 17, 70)
    assert layout.all_cpus == cpus
    assert 1 <= len(layout.cpus) <= cpus
    if height >= 176:
        assert layout.lanes_y + layout.lanes_height <= height
    last = lay_out(1280, height, cpus, unit, 17, 70, first_cpu=cpus)
    assert last.cpus.stop == cpus
    for cpu in last.cpus:
        assert last.cpu_at(last.lane_y(cpu)) == cpu
    assert last.cpu_at(last.lanes_y - 1) == -1
    assert last.cpu_at(last.lanes_y + last.lanes_height + 1) == -1


def test_eight_lanes_fit_into_the_usual_height() -> None:
    assert lay_out(1280, 176, 8, 1.0, 17, 70).cpus == range(8)


def test_a_low_timeline_gives_its_height_to_the_lanes() -> None:
    layouts = {height: lay_out(1280, height, 8, 1.0, 17, 70) for height in (176, 150, 130, 112, 70)}
    heads = {height: (one.has_legend, one.has_cycles) for height, one in layouts.items()}
    assert heads == {
        176: (True, True),
        150: (False, True),
        130: (False, False),
        112: (False, False),
        70: (False, False),
    }
    assert [len(layouts[height].cpus) for height in (176, 150, 130, 112)] == [8, 8, 8, 8]
    assert len(layouts[70].cpus) < 8
    many = lay_out(1280, 176, 64, 1.0, 17, 70)
    assert (many.has_legend, many.has_cycles) == (True, True)


def test_buckets_of_an_empty_overview() -> None:
    table = BucketTable(np.zeros(1), np.zeros((5, 1, 3)), np.zeros((0, 3), dtype=np.uint8))
    found = bucket_columns(table, TimeWindow(0, 1), 10, range(3))
    assert found.shares.shape == (3, 5, 10)
    assert not found.shares.any()
