"""What each CPU does at the edges of an overview's buckets, held against a run that stops there."""

from __future__ import annotations

import numpy as np
import pytest

from slubviz.hw import layout as L
from slubviz.hw.isa import FRAME_KIND, FRAME_RETURN_PC, FRAME_RETURN_WINDOW, KIND_CALL, CpuState
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.travel.activity import Activity, activity_of_micro_ops
from slubviz.model.travel.recording import Recording


def expected_activity(session: Session, block: np.ndarray, classes: np.ndarray) -> int:
    if block[L.C_STATE] != CpuState.RUNNING:
        waits = block[L.C_STATE] == CpuState.WAITING_LOCK
        return int(Activity.WAITING if waits else Activity.IDLE)
    state, pc, window = session.machine.state, int(block[L.C_PC]), int(block[L.C_WINDOW])
    while classes[pc] < 0:  # a function of both paths does what its caller does
        if state[window + FRAME_KIND] != KIND_CALL:
            return int(Activity.WORKLOAD)
        pc, window = int(state[window + FRAME_RETURN_PC]) - 1, int(state[window + FRAME_RETURN_WINDOW])
    return int(classes[pc])


@pytest.mark.parametrize(("kernel", "test"), [("slub", "D"), ("slab", "C")])
def test_activity_at_every_edge(kernel: str, test: str) -> None:
    spec = SessionSpec("e5345_8p", kernel, test, (64,), ops=200, seed=3, cpus=3)
    recording = Recording(Session(spec))
    recording.boot()
    while not recording.over:
        recording.run(77_777)
    overview = recording.overview()
    session = Session(spec)
    session.boot()
    classes = activity_of_micro_ops(session.booted.program)
    for edge, position in enumerate(overview.positions.tolist()):
        if position > session.machine.micro_ops:
            session.run(position - session.machine.micro_ops)
        expected = [expected_activity(session, block, classes) for block in session.machine.cpu_blocks()]
        assert overview.activity[edge].tolist() == expected, position
    seen = set(overview.activity.ravel().tolist())
    assert {Activity.IDLE, Activity.FAST_PATH, Activity.SLOW_PATH} <= seen
    if test == "D":  # all CPUs use the same lock at the end
        assert Activity.WAITING in seen
