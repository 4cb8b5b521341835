"""Small tables and snapshots for the tests of the views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slubviz.model.snapshot import ObjectState, SlabState, SlabTable, Snapshot
from slubviz.views.slab_summary import summarise
from slubviz.views.worker import ViewUpdate, WorkerState
from tests.views.fake_session import FakeSession, fake_job

F, C, A = int(ObjectState.FREE), int(ObjectState.CPU_FREE), int(ObjectState.ALLOCATED)


def table(
    objects: Sequence[Sequence[int]],
    cpu: Sequence[int] | None = None,
    last_cpu: Sequence[int] | None = None,
    partial: Sequence[bool] | None = None,
    node: Sequence[int] | None = None,
    locked: Sequence[bool] | None = None,
) -> SlabTable:
    """A SlabTable of the given object states, one sequence per slab."""
    count = len(objects)
    lengths = [len(states) for states in objects]
    inuse = [sum(state != F for state in states) for states in objects]
    full = [
        SlabState.EMPTY if u == 0 else SlabState.FULL if u == n else SlabState.PARTIAL
        for u, n in zip(inuse, lengths, strict=True)
    ]
    owner = np.array(cpu if cpu is not None else [-1] * count, dtype=np.int64)
    return SlabTable(
        page_frame=np.arange(100, 100 + count),
        node=np.array(node if node is not None else [0] * count, dtype=np.int64),
        cpu=owner,
        state=np.array(full, dtype=np.uint8),
        frozen=owner >= 0,
        locked=np.array(locked if locked is not None else [False] * count, dtype=np.bool_),
        on_partial_list=np.array(partial if partial is not None else [False] * count, dtype=np.bool_),
        objects=np.array(lengths, dtype=np.int64),
        inuse=np.array(inuse, dtype=np.int64),
        first_object=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        object_state=np.array([state for states in objects for state in states], dtype=np.uint8),
        last_cpu=np.array(last_cpu if last_cpu is not None else [-1] * count, dtype=np.int64),
    )


def many_slabs(count: int, objects: int = 16, cpus: int = 8) -> SlabTable:
    """``count`` full slabs dealt out to the CPUs, the last ``cpus`` of them cpu slabs."""
    owner = np.arange(count) % cpus
    is_cpu_slab = np.arange(count) >= count - cpus
    return SlabTable(
        page_frame=np.arange(count),
        node=np.zeros(count, dtype=np.int64),
        cpu=np.where(is_cpu_slab, owner, -1),
        state=np.full(count, int(SlabState.FULL), dtype=np.uint8),
        frozen=is_cpu_slab,
        locked=np.zeros(count, dtype=np.bool_),
        on_partial_list=np.zeros(count, dtype=np.bool_),
        objects=np.full(count, objects),
        inuse=np.full(count, objects),
        first_object=np.arange(count + 1) * objects,
        object_state=np.full(count * objects, A, dtype=np.uint8),
        last_cpu=owner,
    )


def snapshot_of(slabs: SlabTable, **changes: object) -> Snapshot:
    """A snapshot with other slabs."""
    base = FakeSession(fake_job()).snapshot()
    count = int(slabs.page_frame.size)
    return replace(base, slabs=slabs, total_slabs=count, **changes)  # type: ignore[arg-type]


def update_with(snapshot: Snapshot, state: WorkerState = WorkerState.PAUSED) -> ViewUpdate:
    """The update of a snapshot."""
    return ViewUpdate(state=state, job=fake_job(), snapshot=snapshot, summary=summarise(snapshot.slabs))
