"""Runs that never were, for the tests of the timeline: overview, detail, and all else that it shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slubviz.model.travel.activity import Activity
from slubviz.model.travel.bookmarks import Bookmark
from slubviz.model.travel.branches import Branch
from slubviz.model.travel.changes import Change, Inject
from slubviz.model.travel.timeline import Detail, MarkKind, Overview, Phase
from slubviz.views.timeline_content import TimelineContent

#: Cycles that each micro-op of a made-up run takes.
CYCLES_PER_MICRO_OP = 3
END = 1_000_000


def fake_overview(end: int = END, buckets: int = 1000, cpus: int = 8, seed: int = 1) -> Overview:
    """A run of two phases; the second is contended and has interrupts, its odd CPUs nested ones."""
    random = np.random.default_rng(seed)
    positions = np.linspace(0, end, buckets + 1).astype(np.int64)
    shape = (buckets, cpus)
    late = (np.arange(buckets) >= buckets // 2)[:, None] & np.ones(shape, dtype=bool)
    length = np.diff(positions * CYCLES_PER_MICRO_OP)[:, None]
    slow = np.where(random.random(shape) < 0.2, random.integers(1, 5, shape), 0)
    rare = random.random(shape) < 0.01
    depth = np.where(late & (random.random(shape) < 0.1), 1 + np.arange(cpus) % 3, 0)
    return Overview(
        positions=positions,
        clock_cycles=positions.astype(np.float64) * CYCLES_PER_MICRO_OP,
        fast_ops=random.integers(5, 20, shape),
        slow_ops=slow,
        wait_cycles=np.where(late, random.random(shape) * 0.6, 0.0) * length,
        interrupts=np.where(depth > 0, depth, 0),
        retries=np.where(rare, 1, 0),
        contended=np.where(late & (random.random(shape) < 0.02), 2, 0),
        max_depth=depth,
        activity=random.choice(len(Activity), (buckets + 1, cpus), p=[0.05, 0.2, 0.5, 0.15, 0.1]),
        phases=(Phase(0, "warm-up"), Phase(end // 2, "measured: kmalloc 64")),
    )


def fake_detail(
    first: int, last: int, spans: int, cpus: int = 8, seed: int = 2, marks: int | None = None
) -> Detail:
    """``spans`` spans, dealt out evenly, that leave no gap between ``first`` and ``last``."""
    random = np.random.default_rng(seed)
    each = max(spans // cpus, 1)
    columns: list[list[np.ndarray]] = [[] for _ in range(5)]
    for cpu in range(cpus):
        inner = (
            np.sort(random.integers(first + 1, last, each - 1)) if each > 1 else np.empty(0, dtype=np.int64)
        )
        edges = np.concatenate([[first], inner, [last]]).astype(np.int64)
        activity = random.choice([int(a) for a in Activity], each, p=[0.05, 0.25, 0.45, 0.15, 0.1])
        depth = np.where(random.random(each) < 0.1, random.integers(1, 4, each), 0)
        for column, part in zip(
            columns, (np.full(each, cpu), edges[:-1], edges[1:], activity, depth), strict=True
        ):
            column.append(part)
    cpu_of, low, high, activity, depth = (np.concatenate(column) for column in columns)
    order = np.argsort(low, kind="stable")
    count = spans // 20 if marks is None else marks
    place = np.sort(random.integers(first + 1, last, count)) if count else np.empty(0, dtype=np.int64)
    kinds = [MarkKind.SLOW_PATH, MarkKind.RETRY, MarkKind.CONTENDED, MarkKind.INTERRUPT]
    return Detail(
        first=first,
        last=last,
        cpu=cpu_of[order],
        first_position=low[order],
        last_position=high[order],
        first_cycle=low[order] * float(CYCLES_PER_MICRO_OP),
        last_cycle=high[order] * float(CYCLES_PER_MICRO_OP),
        activity=activity[order],
        depth=depth[order],
        mark_position=place,
        mark_cycle=place * float(CYCLES_PER_MICRO_OP),
        mark_cpu=random.integers(0, cpus, count),
        mark_kind=random.choice([int(kind) for kind in kinds], count),
    )


def exact_detail(
    first: int,
    last: int,
    cpus: int,
    rows: Sequence[tuple[int, int, int, int, int]] = (),
    marks: Sequence[tuple[int, int, str]] = (),
) -> Detail:
    """A detail of the given spans (CPU, first, last, activity, depth) and marks (position, CPU, kind).

    Without spans every CPU does its workload all the time.
    """
    spans = rows or [(cpu, first, last, int(Activity.WORKLOAD), 0) for cpu in range(cpus)]
    cpu, low, high, activity, depth = np.array(spans, dtype=np.int64).T
    place = np.array([mark[0] for mark in marks], dtype=np.int64)
    return Detail(
        first=first,
        last=last,
        cpu=cpu,
        first_position=low,
        last_position=high,
        first_cycle=low * float(CYCLES_PER_MICRO_OP),
        last_cycle=high * float(CYCLES_PER_MICRO_OP),
        activity=activity,
        depth=depth,
        mark_position=place,
        mark_cycle=place * float(CYCLES_PER_MICRO_OP),
        mark_cpu=np.array([mark[1] for mark in marks], dtype=np.int64),
        mark_kind=np.array([int(MarkKind[mark[2]]) for mark in marks], dtype=np.int64),
    )


def fake_content(
    end: int = END, cpus: int = 8, position: int = 420_000, **changes: object
) -> TimelineContent:
    """A run with everything in it."""
    values: dict[str, object] = {
        "cpus": cpus,
        "position": position,
        "end": end,
        "clock_cycles": float(position * CYCLES_PER_MICRO_OP),
        "overview": fake_overview(end, cpus=cpus),
        "bookmarks": (Bookmark(0, end // 4, "first refill", "the partial list is empty"),),
        "changes": (Change(end * 7 // 10, Inject(0, "irq_alloc", (64,))),),
        "branches": (
            Branch(0, None, 0, (), "main", end),
            Branch(1, 0, end * 6 // 10, (), "with an interrupt", end),
        ),
    }
    return TimelineContent(**{**values, **changes})  # type: ignore[arg-type]
