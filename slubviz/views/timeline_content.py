"""What a timeline shows, and what it prepares from it once: clock, buckets, spans, marks, and texts.

Overview and Detail are large and come rarely; the position comes with every picture.  ``Prepared`` turns the
large parts into arrays when they change and not otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.model.travel.activity import Activity
from slubviz.model.travel.bookmarks import Bookmark
from slubviz.model.travel.branches import Branch
from slubviz.model.travel.changes import Change
from slubviz.model.travel.timeline import Detail, MarkKind, Overview
from slubviz.views import numbers
from slubviz.views.timeline_buckets import bucket_table, coarsened
from slubviz.views.timeline_marks import (
    NO_CPU,
    MarkTable,
    PlacedMarks,
    Sign,
    count_text,
    joined,
    no_marks,
    signs_of,
)
from slubviz.views.timeline_raster import BucketTable, SpanArrays, lane_spans
from slubviz.views.timeline_window import ClockScale, no_clock

_LANE_SIGNS = {
    MarkKind.SLOW_PATH: Sign.SLOW_PATH,
    MarkKind.RETRY: Sign.RETRY,
    MarkKind.CONTENDED: Sign.CONTENDED,
    MarkKind.INTERRUPT: Sign.INTERRUPT,
}
ACTIVITY_TEXT = {
    Activity.IDLE: "idle",
    Activity.WORKLOAD: "workload",
    Activity.FAST_PATH: "fast path",
    Activity.SLOW_PATH: "slow path",
    Activity.WAITING: "waiting for a lock",
}


@dataclass(frozen=True, eq=False)
class TimelineContent:
    """A run as a timeline shows it.

    Attributes
    ----------
    cpus : int
        Lanes.
    position, end : int
        Cursor and end of the recording, in micro-ops.
    clock_cycles : float
        At the cursor.
    overview : Overview or None
        The same object as long as nothing has changed.
    detail : Detail or None
        Exact spans of a part of the run; the same object as long as nothing has changed.
    bookmarks, changes : tuple
        Of the branch at the cursor and its ancestors.
    branches : tuple of Branch
        All of them; ``branch`` is the number of the one at the cursor.
    fault : tuple of int and str, or None
        Where the kernel program failed, and how.
    functions : tuple of str
        What each CPU executes at the cursor; may be empty.
    run : int
        Another number for another run: the view begins anew, without markers.
    """

    cpus: int
    position: int
    end: int
    clock_cycles: float = 0.0
    overview: Overview | None = None
    detail: Detail | None = None
    bookmarks: tuple[Bookmark, ...] = ()
    changes: tuple[Change, ...] = ()
    branches: tuple[Branch, ...] = ()
    branch: int = 0
    fault: tuple[int, str] | None = None
    functions: tuple[str, ...] = ()
    run: int = 0


class Prepared:
    """A content's large parts as arrays for drawing and for looking up."""

    def __init__(self) -> None:
        self.clock: ClockScale = no_clock()
        self.overview: Overview | None = None  #: in fewer buckets if it has very many
        self.buckets: BucketTable | None = None
        self.spans: SpanArrays | None = None
        self.lane_marks: MarkTable = no_marks()
        self.run_marks: MarkTable = no_marks()
        self.signs: list[Sign] = []  #: kinds of marks that there are
        self._taken: Overview | None = None
        self._detail: Detail | None = None
        self._run_key: object = None

    def take(self, content: TimelineContent) -> bool:
        """Bring everything up to date; returns whether anything but the cursor changed."""
        overview, detail = content.overview, content.detail
        new_overview, new_detail = overview is not self._taken, detail is not self._detail
        self._taken, self._detail = overview, detail
        if new_overview:
            self.overview = coarsened(overview) if overview else None
            self.buckets = bucket_table(overview) if overview else None
        if new_detail:
            self.spans = _spans(detail, content.cpus) if detail else None
        if new_overview or new_detail:
            self.clock = _clock(overview, detail)
            self.lane_marks = _lane_marks(self.overview, detail)
        key = (content.bookmarks, content.changes, content.branches, content.branch, content.fault)
        if new_overview or key != self._run_key:
            self._run_key = key
            self.run_marks = _run_marks(content)
        elif not new_detail:
            return False
        self.signs = signs_of(self.lane_marks, self.run_marks)
        return True


def _spans(detail: Detail, cpus: int) -> SpanArrays:
    cpu = np.asarray(detail.cpu, dtype=np.int64)
    order = np.lexsort((detail.first_position, cpu))
    starts = np.searchsorted(cpu[order], np.arange(cpus + 1))
    first, last, activity, depth = (
        np.asarray(column, dtype=np.int64)[order]
        for column in (detail.first_position, detail.last_position, detail.activity, detail.depth)
    )
    lanes = [
        lane_spans(first[low:high], last[low:high], activity[low:high], depth[low:high])
        for low, high in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]
    return SpanArrays(int(detail.first), int(detail.last), tuple(lanes))


def _clock(overview: Overview | None, detail: Detail | None) -> ClockScale:
    positions: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    cycles: NDArray[np.float64] = np.empty(0)
    if overview is not None:
        positions, cycles = overview.positions, overview.clock_cycles
    if detail is None:
        return ClockScale(positions, cycles)
    return ClockScale(positions, cycles, detail.last_position, detail.last_cycle)


def _lane_marks(overview: Overview | None, detail: Detail | None) -> MarkTable:
    tables = []
    if overview is not None:
        tables.append(_bucket_marks(overview, detail))
    if detail is not None:
        tables.append(_exact_marks(detail))
    return joined(tables)


def _bucket_marks(overview: Overview, detail: Detail | None) -> MarkTable:
    # Buckets that the detail covers are left out: their marks are known exactly.
    positions = np.asarray(overview.positions, dtype=np.int64)
    outside = np.ones(positions.size - 1, dtype=bool)
    if detail is not None:
        outside = (positions[:-1] < detail.first) | (positions[1:] > detail.last)
    tables = []
    for sign, counts in (
        (Sign.SLOW_PATH, overview.slow_ops),
        (Sign.RETRY, overview.retries),
        (Sign.CONTENDED, overview.contended),
        (Sign.INTERRUPT, overview.interrupts),
    ):
        bucket, cpu = np.nonzero(counts * outside[:, None])
        number = np.asarray(counts[bucket, cpu], dtype=np.int64)
        signs = np.full(bucket.size, int(sign))
        tables.append(MarkTable(positions[bucket], positions[bucket + 1], cpu, signs, number))
    return joined(tables)


def _exact_marks(detail: Detail) -> MarkTable:
    sign_of = np.full(max(MarkKind) + 1, -1, dtype=np.int64)
    for kind, sign in _LANE_SIGNS.items():
        sign_of[kind] = sign
    signs = sign_of[np.asarray(detail.mark_kind, dtype=np.int64)]
    known = signs >= 0
    position = np.asarray(detail.mark_position, dtype=np.int64)[known]
    cpu = np.asarray(detail.mark_cpu, dtype=np.int64)[known]
    return MarkTable(position, position, cpu, signs[known], np.ones(position.size, dtype=np.int64))


def _run_marks(content: TimelineContent) -> MarkTable:
    rows: list[tuple[int, Sign, str]] = []
    if content.overview is not None:
        rows += [(phase.position, Sign.PHASE, phase.name) for phase in content.overview.phases]
    rows += [(one.position, Sign.CHANGE, one.what.text()) for one in content.changes]
    rows += [
        (one.position, Sign.BOOKMARK, f"{one.name}\n{one.note}" if one.note else one.name)
        for one in content.bookmarks
    ]
    rows += [(place, Sign.FORK, text) for place, text in forks(content.branches, content.branch)]
    if content.fault is not None:
        rows.append((content.fault[0], Sign.FAULT, content.fault[1]))
    rows.sort(key=lambda row: (row[0], row[1]))
    position = np.array([row[0] for row in rows], dtype=np.int64)
    sign = np.array([int(row[1]) for row in rows], dtype=np.int64)
    cpu = np.full(position.size, NO_CPU, dtype=np.int64)
    ones = np.ones(position.size, dtype=np.int64)
    return MarkTable(position, position, cpu, sign, ones, [row[2] for row in rows])


def forks(branches: Sequence[Branch], current: int) -> list[tuple[int, str]]:
    """Where other branches leave the line that leads to a branch, and where that line leaves its ancestors.

    Returns
    -------
    list of (position, text)
    """
    by_number = {branch.number: branch for branch in branches}
    line: dict[int, float] = {}  # branch -> up to where its run is also that of the current one
    number, until = (current if current in by_number else None), float("inf")
    while number is not None:
        line[number] = until
        until = min(until, by_number[number].fork_position)
        number = by_number[number].parent
    found = []
    for branch in branches:
        if branch.parent is None or branch.parent not in line:
            continue
        if branch.number in line:
            text = f"{branch.name} leaves {by_number[branch.parent].name}"
            found.append((branch.fork_position, text))
        elif branch.fork_position <= line[branch.parent]:
            found.append((branch.fork_position, f"{branch.name} begins"))
    return found


def legend_text() -> str:
    """The legend in words, for what has no room."""
    return (
        "Height of a colour: its share of the micro-ops\n"
        "Steps above a lane: nested interrupts\n"
        "▲ slow path  ▼ interrupt  ■ lock contended  ◆ retry\n"
        "Hollow marks: somewhere in a stretch; zoom in for the exact place\n"
        "Marks so many that they would cover a lane are left out there; zoom in to see them\n"
        "A and B set the markers, Esc removes them; Home shows the whole run"
    )


def mark_facts(marks: PlacedMarks, table: MarkTable, index: int, clock: ClockScale) -> str:
    """What the tooltip says of a drawn mark, as lines of text."""
    first, count, sign = int(marks.first[index]), int(marks.count[index]), Sign(int(marks.sign[index]))
    position = int(table.position[first])
    name = count_text(sign, count).capitalize()
    cpu = int(marks.row[index])
    if table.texts:
        text = table.texts[first]
        head = f"{name}: {text}" if count == 1 else f"{name}, the first one: {text}"
    else:
        head = f"{name} on CPU {cpu}"
    if not marks.exact[index]:
        last = int(table.last_position[first])
        return f"{head}\nBetween micro-ops {numbers.integer(position)} and {numbers.integer(last)}"
    where = place_text(position, clock)
    return f"{head}\n{where[0].upper()}{where[1:]}"


def place_text(position: int, clock: ClockScale) -> str:
    """``micro-op 1 234, cycle ≈ 5 678``."""
    if clock.empty:
        return f"micro-op {numbers.integer(position)}"
    about = "" if clock.is_exact(position) else f"≈{numbers.THIN}"
    return f"micro-op {numbers.integer(position)}, cycle {about}{numbers.integer(clock.cycles_at(position))}"


def facts_at(content: TimelineContent, prepared: Prepared, cpu: int, position: int) -> str:
    """What the tooltip says of a place in a lane (or, for CPU -1, of a position), as lines of text."""
    where = place_text(position, prepared.clock)
    if not 0 <= cpu < content.cpus:
        return where[0].upper() + where[1:]
    lines = [f"CPU {cpu}, {where}"]
    lines.append(_span_text(prepared.spans, cpu, position) or _bucket_text(prepared.overview, cpu, position))
    if position == content.position and cpu < len(content.functions) and content.functions[cpu]:
        lines.append(f"In {content.functions[cpu]}")
    return "\n".join(line for line in lines if line)


def _span_text(spans: SpanArrays | None, cpu: int, position: int) -> str:
    if spans is None or not spans.first <= position <= spans.last:
        return ""
    lane = spans.lanes[cpu]
    index = int(np.searchsorted(lane.first_position, position, side="right")) - 1
    if index < 0 or (position >= lane.last_position[index] and position != spans.last):
        return ""
    text = ACTIVITY_TEXT[Activity(int(lane.activity[index]))].capitalize()
    depth = int(lane.depth[index])
    first, last = int(lane.first_position[index]), int(lane.last_position[index])
    nested = f", interrupt depth {depth}" if depth else ""
    return f"{text}{nested}, micro-ops {numbers.integer(first)} to {numbers.integer(last)}"


def _bucket_text(overview: Overview | None, cpu: int, position: int) -> str:
    if overview is None or overview.positions.size < 2 or position > overview.positions[-1]:
        return ""
    index = int(np.searchsorted(overview.positions, position, side="right")) - 1
    index = min(max(index, 0), overview.positions.size - 2)
    first, last = (numbers.integer(int(overview.positions[index + step])) for step in (0, 1))
    parts = [
        f"{numbers.integer(int(counts[index, cpu]))} {name}"
        for name, counts in (
            ("fast", overview.fast_ops),
            ("slow", overview.slow_ops),
            ("interrupts", overview.interrupts),
            ("retries", overview.retries),
        )
        if counts[index, cpu]
    ]
    waited = float(overview.wait_cycles[index, cpu])
    if waited:
        parts.append(f"{numbers.cycles(waited)} of waits ended")
    return f"Micro-ops {first} to {last}: {', '.join(parts) or 'nothing ended'}"
