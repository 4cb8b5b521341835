"""Short runs of every family, with nested interrupts, for tests that search through them."""

from __future__ import annotations

from dataclasses import replace

from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.travel.changes import Change, Inject
from slubviz.model.travel.movements import MoveResult
from slubviz.model.travel.recording import Recording
from tests.model.movement_oracle import Oracle

COLD = SessionSpec("e5345_8p", "slub", "D", (64,), ops=24, seed=1, cpus=2, handlers=True)
BASE = replace(COLD, sizes=(1024,), ops=40)
#: Where the oracle begins to look, and at what: slabs exist by then, but for the first one.
RUNS = {
    "cold": (0, COLD),
    "slub": (9000, BASE),
    "slub+": (7000, replace(BASE, kernel="slub+", test="E", ops=120)),
    "slub-seq": (2000, replace(BASE, kernel="slub-seq", test="A")),
    "slab": (8800, replace(BASE, kernel="slab", test="F")),
    "slub-cpu-partial": (4000, replace(BASE, kernel="slub-cpu-partial", test="F")),
}
MICRO_OPS = 2600


def changes_of(name: str) -> tuple[Change, ...]:
    """Softirqs with interrupts on, and interrupts that nest in them."""
    start = RUNS[name][0]
    return (
        Change(start + 150, Inject(0, "softirq_batch", (2, 1024))),
        Change(start + 170, Inject(0, "irq_hold", (1024, 1))),
        Change(start + 300, Inject(1, "softirq_batch", (1, 1024), 2500.0, 500.0, 3, 0)),
        Change(start + 300, Inject(1, "irq_nothing", (), 1100.0, 400.0, 4, 0)),
        Change(start + 900, Inject(0, "irq_free_remote", (1,))),
    )


def recording_of(name: str, *, recorded: int = MICRO_OPS, keep_every: int = 400) -> Recording:
    """The same run, recorded, with checkpoints that make backward searches cross several pieces."""
    start, spec = RUNS[name]
    recording = Recording(Session(spec))
    recording.boot()
    recording.run(start)
    changes = changes_of(name)
    kept = range(start, start + recorded, keep_every)
    for position in sorted({*(c.position for c in changes), *kept, start + recorded}):
        if position > start + recorded:
            break
        recording.run(position - recording.position)
        for change in changes:
            if change.position == position:
                recording.change(change.what)
        if position in kept:
            recording._keep()
    assert len(recording.branches) == 1
    return recording


def check_result(
    oracle: Oracle,
    recording: Recording,
    cursor: int,
    direction: int,
    expected: int | None,
    result: MoveResult,
) -> None:
    """The run goes on where the oracle's list of moments ends, and began before it."""
    assert result.position == recording.position
    if expected is not None:
        assert (result.found, result.position) == (True, expected)
        assert recording.trace_hash == oracle.moments[expected].trace
    elif result.found:
        assert result.position > oracle.end if direction > 0 else result.position <= oracle.start
    else:
        assert result.position == cursor
