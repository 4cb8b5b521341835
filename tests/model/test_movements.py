"""Movements find exactly what a slow oracle finds, forwards and backwards, from everywhere."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slubviz.hw.machine import Machine
from slubviz.model.errors import UserError
from slubviz.model.session import Session
from slubviz.model.travel.changes import WriteWord
from slubviz.model.travel.movements import Move, move
from slubviz.model.travel.recording import Recording
from slubviz.model.travel.watched import WatchedList, WatchedLock, WatchedSlab, WatchedWord
from tests.model.movement_oracle import Oracle, after, before
from tests.model.movement_runs import COLD, MICRO_OPS, RUNS, changes_of, check_result, recording_of

SEARCHED = [
    Move.LINE,
    Move.INTO,
    Move.OVER,
    Move.INTERRUPT_ENTRY,
    Move.INTERRUPT_EXIT,
    Move.EVENT_THIS_CPU,
    Move.EVENT_ANY_CPU,
    Move.SLOW_PATH,
    Move.RETRY,
    Move.CONTENDED,
    Move.PHASE,
]


@cache
def oracle_of(name: str) -> Oracle:
    start, spec = RUNS[name]
    return Oracle(Session(spec), changes_of(name), start, MICRO_OPS, look)


def look(session: Session) -> tuple:
    """What the watches below look at."""
    machine, kernel = session.machine, session.booted
    page = kernel.program.struct("page").size_bytes
    pages = kernel.memory.global_address("mem_map")
    raw = kernel.memory.static_bytes()
    first = pages - machine.memory.static_base
    return (
        raw[first : first + page * kernel.program.globals["mem_map"].count].tobytes(),
        machine.read(lock_address(session), 4) & 0xFFFFFFFF,
        members(machine, list_address(session)),
    )


def lock_address(session: Session) -> int:
    return session.booted.memory.field_address(session.booted.memory.global_address("zones"), "zone", "lock")


def list_address(session: Session) -> int:
    """A list that a short run changes."""
    kernel = session.booted
    if "kmem_list3" in kernel.program.structs:
        size = kernel.program.struct("kmem_list3").size_bytes
        head = kernel.memory.global_address("cache_list3") + session.shown_cache() * size
        return kernel.memory.field_address(head, "kmem_list3", "slabs_full")
    size = kernel.program.struct("kmem_cache_node").size_bytes
    head = kernel.memory.global_address("cache_nodes") + session.shown_cache() * size
    return kernel.memory.field_address(head, "kmem_cache_node", "partial")


def members(machine: Machine, head: int) -> tuple[int, ...]:
    found, at = [], machine.read(head)
    while at != head and len(found) < 50:
        found.append(at)
        at = machine.read(at)
    return tuple(found)


@cache
def shared_recording(name: str) -> Recording:
    return recording_of(name)


def check_move(name: str, kind: Move, cpu: int, cursor: int) -> None:
    """Both directions from a cursor, against the oracle; the state there is the oracle's run's."""
    oracle, recording = oracle_of(name), shared_recording(name)
    hits = oracle.hits(kind, cpu, cursor)
    for direction, expected in ((1, after(hits, cursor)), (-1, before(hits, cursor))):
        recording.seek(cursor)
        result = move(recording, kind, direction, cpu=cpu)
        assert "\n" not in result.text
        check_result(oracle, recording, cursor, direction, expected, result)


@pytest.mark.parametrize("name", RUNS)
def test_the_oracle_has_seen_what_the_moves_are_about(name):
    oracle = oracle_of(name)
    start = oracle.start
    assert max(cpu.irq_depth for moment in oracle.moments[start:] for cpu in moment.cpus) >= 2  # nested
    assert oracle.moments[-1].trace == at(name, oracle.end)
    kinds = {kind for kind in SEARCHED if any(oracle.hits(kind, cpu, start) for cpu in range(2))}
    assert kinds >= {Move.LINE, Move.INTO, Move.OVER, Move.INTERRUPT_ENTRY, Move.EVENT_ANY_CPU}
    more = {"cold": Move.CONTENDED, "slub-seq": Move.PHASE, "slub-cpu-partial": Move.RETRY}
    assert more.get(name, Move.SLOW_PATH) in kinds
    assert name == "cold" or Move.INTERRUPT_EXIT in kinds


def at(name: str, position: int) -> int:
    recording = shared_recording(name)
    recording.seek(position)
    return recording.trace_hash


@pytest.mark.parametrize("kind", SEARCHED)
@pytest.mark.parametrize("name", RUNS)
def test_a_move_goes_where_the_oracle_says(name, kind):
    oracle = oracle_of(name)
    start, end = oracle.start, oracle.end
    hits = [n for cpu in range(2) for n in oracle.hits(kind, cpu, start)]
    near = [n + d for n in hits[:: max(1, len(hits) // 3)] for d in (-1, 0, 1)]
    for cpu, cursor in enumerate(sorted({start, start + 150, start + 300, start + 400, end - 1, end, *near})):
        if start <= cursor <= end:
            check_move(name, kind, cpu % 2, cursor)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(RUNS)), st.sampled_from(SEARCHED), st.integers(0, 1), st.integers(0, MICRO_OPS))
def test_from_anywhere(name, kind, cpu, offset):
    oracle = oracle_of(name)
    check_move(name, kind, cpu, min(oracle.start + offset, oracle.end))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(RUNS)), st.integers(0, 1), st.integers(0, MICRO_OPS), st.sampled_from([1, -1]))
def test_out_of_any_frame(name, cpu, offset, direction):
    oracle, recording = oracle_of(name), shared_recording(name)
    cursor = min(oracle.start + offset, oracle.end)
    recording.seek(cursor)
    if oracle.moments[cursor].cpus[cpu].halted:
        with pytest.raises(UserError, match="idle"):
            move(recording, Move.OUT, direction, cpu=cpu)
        return
    expected = oracle.out(cpu, cursor, direction)
    result = move(recording, Move.OUT, direction, cpu=cpu)
    check_result(oracle, recording, cursor, direction, expected, result)


@pytest.mark.parametrize("name", RUNS)
def test_watched_words_slabs_locks_and_lists(name):
    oracle, recording = oracle_of(name), shared_recording(name)
    session, program = recording.session, oracle.program
    page = program.struct("page").size_bytes
    images = [moment and moment.extra[0] for moment in oracle.moments]
    positions = range(oracle.start + 1, oracle.end + 1)
    changed = [n for n in positions if images[n] is not images[n - 1]]
    frames = {frame_of(images[n - 1], images[n], page) for n in changed[len(changed) // 2 :: 7]}
    sought = []
    for frame in sorted(frames)[:3]:
        part = slice(frame * page, (frame + 1) * page)
        if "slab" not in program.structs:
            hits = [n for n in changed if images[n][part] != images[n - 1][part]]
            sought.append((WatchedSlab(frame), hits))
        flags = slice(frame * page, frame * page + 8)
        address = program.globals["mem_map"].address + frame * page
        sought.append(
            (WatchedWord(address), [n for n in changed if images[n][flags] != images[n - 1][flags]])
        )
    lock, chain = lock_address(session), list_address(session)
    values = [m and (m.extra[1], sum(cpu.waits_for == lock for cpu in m.cpus)) for m in oracle.moments]
    sought.append((WatchedLock(lock), [n for n in positions if values[n] != values[n - 1]]))
    lists = [m and m.extra[2] for m in oracle.moments]
    sought.append((WatchedList(chain), [n for n in positions if lists[n] != lists[n - 1]]))
    assert sum(len(hits) for _, hits in sought) >= 5
    edges = [oracle.start + n for n in (0, 400, 1500)]
    for watched, hits in sought:
        for cursor in (*edges, oracle.end, *[n + d for n in hits[:2] for d in (-1, 0, 1)]):
            for direction, expected in ((1, after(hits, cursor)), (-1, before(hits, cursor))):
                recording.seek(cursor)
                result = move(recording, Move.WATCHED, direction, watched=watched)
                check_result(oracle, recording, cursor, direction, expected, result)


def frame_of(first: bytes, second: bytes, page: int) -> int:
    return next(i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b) // page


def test_a_change_from_outside_is_a_change_of_the_word():
    recording = Recording(Session(COLD))
    recording.boot()
    recording.run(500)
    address = recording.session.booted.program.globals["mem_map"].address + 8 * 7 * 4000
    recording.change(WriteWord(address, 77))
    recording.run(300)
    watched = WatchedWord(address)
    for cursor, direction in ((100, 1), (499, 1), (501, -1), (800, -1)):
        recording.seek(cursor)
        result = move(recording, Move.WATCHED, direction, watched=watched)
        assert (result.found, result.position) == (True, 500)
    for cursor, direction in ((500, -1), (500, 1)):
        recording.seek(cursor)
        assert not move(recording, Move.WATCHED, direction, watched=watched).found
        assert recording.position == cursor


def test_forwards_records_what_was_not_recorded():
    start = RUNS["slub"][0]
    known, short = recording_of("slub"), recording_of("slub", recorded=1000)
    assert short.end == start + 1000
    for kind in (Move.SLOW_PATH, Move.INTERRUPT_ENTRY, Move.LINE, Move.PHASE):
        known.seek(start + 1000)
        short.seek(start + 1000)
        assert move(known, kind, 1, cpu=1).position == move(short, kind, 1, cpu=1).position > start + 1000
        assert known.state_hash() == short.state_hash()
        assert short.end >= short.position


@pytest.mark.parametrize("name", ["slub+", "slub-cpu-partial"])
def test_a_hit_is_the_very_state_that_a_seek_gives(name):
    recording, other = recording_of(name), recording_of(name)
    for kind in SEARCHED:
        recording.seek(RUNS[name][0] + 320)
        if move(recording, kind, 1, cpu=1).found:
            other.seek(recording.position)
            assert recording.state_hash() == other.state_hash()
            move(recording, kind, -1, cpu=1)
            other.seek(recording.position)
            assert recording.state_hash() == other.state_hash()


def test_micro_op_start_and_end():
    recording = recording_of("cold", recorded=1000)
    recording.seek(500)
    assert move(recording, Move.MICRO_OP, 1).position == 501
    assert move(recording, Move.MICRO_OP, -1).position == 500
    assert move(recording, Move.END, 1).position == 1000
    assert move(recording, Move.START, -1).position == 0
    result = move(recording, Move.MICRO_OP, -1)
    assert (result.position, result.found) == (0, False)
    assert recording.end == 1000


def test_phases_begin_where_the_session_starts_them():
    recording = recording_of("slub-cpu-partial")
    recording.run(10**7)
    assert recording.over
    begins = [recording.end]
    while True:
        result = move(recording, Move.PHASE, -1)
        if not result.found:
            break
        begins.append(result.position)
        assert recording.session.phase_index == len(recording.session.phases) - len(begins) + 1
    assert begins[-1] == 0
    assert len(begins) == len(recording.session.phases) + 1
    assert [move(recording, Move.PHASE, 1).position for _ in begins[1:]] == begins[-2::-1]
    assert not move(recording, Move.PHASE, 1).found


def test_what_is_not_there_leaves_the_cursor():
    recording = Recording(Session(replace(COLD, handlers=False)))
    recording.boot()
    recording.run(400)
    for direction in (1, -1):
        result = move(recording, Move.INTERRUPT_ENTRY, direction)
        assert not result.found
        assert not result.cancelled
        assert recording.position == result.position == 400
        assert "no interrupt" in result.text
    assert recording.session.phase_index == 0
    assert move(recording, Move.PHASE, 1).found


@pytest.mark.parametrize("direction", [1, -1])
def test_a_cancelled_search_leaves_the_cursor(direction):
    recording = recording_of("cold")
    recording.seek(1500)
    state = recording.state_hash()
    stop = threading.Event()
    stop.set()
    result = move(recording, Move.RETRY, direction, stop=stop)
    assert (result.cancelled, result.found) == (True, False)
    assert recording.position == 1500
    assert recording.state_hash() == state


def test_progress_is_told_and_stays_a_share():
    recording = recording_of("cold")
    told = []
    recording.seek(2000)
    move(recording, Move.INTERRUPT_ENTRY, -1, cpu=1, progress=told.append)
    move(recording, Move.LINE, -1, cpu=1, progress=told.append)
    move(recording, Move.RETRY, 1, progress=told.append)
    assert all(0 <= share <= 1 for share in told)


def test_wrong_requests_are_told():
    recording = recording_of("cold", recorded=300)
    with pytest.raises(UserError, match="CPU 2 does not exist"):
        move(recording, Move.LINE, 1, cpu=2)
    with pytest.raises(UserError, match="nothing is watched"):
        move(recording, Move.WATCHED, 1)
    with pytest.raises(UserError, match="no memory"):
        move(recording, Move.WATCHED, 1, watched=WatchedWord(1 << 50))
    with pytest.raises(UserError, match="no page frame"):
        move(recording, Move.WATCHED, 1, watched=WatchedSlab(1 << 30))
    with pytest.raises(UserError, match="no breakpoint"):
        move(recording, Move.BREAKPOINT, 1)
    assert recording.position == 300
