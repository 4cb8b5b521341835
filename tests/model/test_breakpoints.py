"""Breakpoints: their text, and that they strike exactly where a slow oracle says, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slubviz.hw import layout as L
from slubviz.model.errors import UserError
from slubviz.model.session import Session
from slubviz.model.travel.breakpoints import (
    Breakpoint,
    BreakpointKind,
    BreakpointTable,
    marked_micro_ops,
    parse,
)
from slubviz.model.travel.code_places import code_places
from slubviz.model.travel.movements import Move, move, run_to_breakpoint
from slubviz.model.travel.recording import Recording
from tests.model.movement_oracle import CpuMoment, Oracle, after, before
from tests.model.movement_runs import RUNS, changes_of, check_result, recording_of

MICRO_OPS = 1600
EMPTY, PARTIAL, FULL = 0, 1, 2


@cache
def program_of(name: str = "cold"):
    session = Session(RUNS[name][1])
    session.boot()
    return session.booted.program


def look(session: Session) -> tuple:
    """Slabs of the shown cache as its family reads them: page frame -> (frozen, in use, objects)."""
    table = session.booted.family.read_slabs(session.booted, session.shown_cache()).table
    columns = (table.page_frame, table.frozen, table.inuse, table.objects)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    pages = session.booted.memory.global_structs("mem_map")["flags"][table.page_frame]
    return tuple(rows), dict(zip(table.page_frame.tolist(), pages.astype(int).tolist(), strict=True))


@cache
def oracle_of(name: str) -> Oracle:
    start, spec = RUNS[name]
    return Oracle(Session(spec), changes_of(name), start, MICRO_OPS, look)


@cache
def shared_recording(name: str) -> Recording:
    return recording_of(name)


def check_breakpoint(name: str, text: str, hits: list[int], *, cursors: int = 3) -> None:
    """The breakpoint strikes at these positions and nowhere else, seen from many places."""
    oracle, recording = oracle_of(name), shared_recording(name)
    point = parse(text, oracle.program, 7)
    assert parse(point.text(), oracle.program, 7) == point
    near = [n + d for n in hits[:: max(1, len(hits) // cursors)] for d in (-1, 0, 1)]
    edges = [oracle.start, oracle.start + 401, oracle.start + 900, oracle.end]
    for cursor in sorted({*near, *edges}):
        if not oracle.start <= cursor <= oracle.end:
            continue
        for direction, expected in ((1, after(hits, cursor)), (-1, before(hits, cursor))):
            if direction > 0 and expected is None:
                continue  # the run goes on where the oracle ends
            recording.seek(cursor)
            result = move(recording, Move.BREAKPOINT, direction, breakpoints=[point])
            check_result(oracle, recording, cursor, direction, expected, result)
            if expected is not None:
                assert result.breakpoint == 7
                assert point.text() in result.text


def state_hash(name: str, position: int) -> str:
    """Of a run in one piece."""
    recording = Recording(Session(RUNS[name][1]))
    recording.boot()
    for change in changes_of(name):
        if change.position <= position:
            recording.run(change.position - recording.position)
            recording.change(change.what)
    recording.run(position - recording.position)
    return recording.state_hash()


def about_to(oracle: Oracle, pcs: list[int], holds: Callable[[CpuMoment, int, bool], bool] | None = None):
    """Positions from which one of some micro-ops is executed."""
    return [
        n
        for n, (cpu, pc, early) in oracle.executed.items()
        if pc in pcs and (holds is None or holds(oracle.moments[n].cpus[cpu], cpu, early))
    ]


def changed(oracle: Oracle, column: int, holds: Callable[[CpuMoment, int], bool] | None = None) -> list[int]:
    return [
        n
        for n, a, b, _ in oracle.pairs()
        if any(
            x.counters[column] != y.counters[column] and (holds is None or holds(y, cpu))
            for cpu, (x, y) in enumerate(zip(a.cpus, b.cpus, strict=True))
        )
    ]


# --- where they strike -----------------------------------------------------------------------------------
ALLOC = {"slub": "slab_alloc", "slub+": "slab_alloc", "slub-seq": "slab_alloc", "slab": "__cache_alloc"}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("function", ["kmalloc", "kfree", "irq_nothing"])
def test_function(name, function):
    oracle = oracle_of(name)
    pcs = marked_micro_ops(parse(function, oracle.program), oracle.program)
    assert oracle.program.function(function).entry_pc in pcs
    check_breakpoint(name, f"function {function}", about_to(oracle, pcs))


@pytest.mark.parametrize("name", ["slub", "slab", "slub-seq"])
def test_inlined_function_and_its_first_line(name):
    oracle, function = oracle_of(name), oracle_of(name).program.function(ALLOC[name])
    assert function.inline
    pcs = marked_micro_ops(parse(function.name, oracle.program), oracle.program)
    hits = about_to(oracle, pcs)
    # Each entry into an inlined copy, by an independent rule: its first micro-op after one outside of it.
    entered = [
        n + 1
        for n, (cpu, pc, early) in oracle.executed.items()
        if not early
        and oracle.moments[n + 1].cpus[cpu].frames
        and inside(oracle, cpu, n + 1, function.name) > inside(oracle, cpu, n, function.name)
    ]
    assert len(hits) == pytest.approx(len(entered), abs=2)
    assert len(hits) > 3
    check_breakpoint(name, function.name, hits)


def inside(oracle: Oracle, cpu: int, n: int, function: str) -> int:
    return sum(frame.place[2] == function for frame in oracle.moments[n].cpus[cpu].frames)


@pytest.mark.parametrize("name", RUNS)
def test_line(name):
    oracle = oracle_of(name)
    executed = {pc for _, pc, _ in oracle.executed.values()}
    places = sorted({(s.file, s.line) for pc in executed if (s := oracle.program.span(pc))})
    for file, line in places[:: len(places) // 4]:
        pcs = code_places(oracle.program).line_starts(file, line)
        check_breakpoint(name, f"{file}:{line}", about_to(oracle, pcs), cursors=2)


def arrivals_on_lines(oracle: Oracle) -> dict[tuple[str, int], set[int]]:
    """By looking at each executed micro-op: where a frame comes to another line, or begins with one."""
    found: dict[tuple[str, int], set[int]] = {}
    lines: list[dict[tuple[int, int], tuple[str, int]]] = [{}, {}]  # per CPU: of each frame, the last line
    unknown = [True, True]
    for n, (cpu, _, early) in oracle.executed.items():
        frames = oracle.moments[n].cpus[cpu].frames
        if early or unknown[cpu]:
            unknown[cpu] = early  # the moment shows the CPU before the interrupt
            lines[cpu] = {f.identity: f.place[:2] for f in frames}
            continue
        before, lines[cpu] = lines[cpu], {}
        for frame in frames:
            line = frame.place[:2]
            if frame.window != frames[-1].window:  # it waits for what it called, or is interrupted
                lines[cpu][frame.identity] = before.get(frame.identity, line)
                continue
            lines[cpu][frame.identity] = line
            if before.get(frame.identity) != line:
                found.setdefault(line, set()).add(n)
    return found


@pytest.mark.parametrize("name", RUNS)
def test_a_line_strikes_at_every_arrival(name):
    """And at hardly anything else: a line that jumps within itself may strike again."""
    oracle = oracle_of(name)
    expected = arrivals_on_lines(oracle)
    more, total = 0, 0
    for (file, line), arrivals in expected.items():
        hits = set(about_to(oracle, code_places(oracle.program).line_starts(file, line)))
        assert arrivals <= hits, (file, line, sorted(arrivals - hits))
        more, total = more + len(hits - arrivals), total + len(arrivals)
    assert total > 100
    assert more <= total // 20 + 12


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("counter", ["ALLOC_FASTPATH", "OPERATIONS", "INTERRUPTS"])
def test_counter(name, counter):
    oracle = oracle_of(name)
    names = oracle.program.counters
    hardware = {text: column for column, text in L.HARDWARE_COUNTER_NAMES.items()}
    column = L.HARDWARE_COUNTERS + names.index(counter) if counter in names else hardware[counter]
    check_breakpoint(name, f"counter {counter}", changed(oracle, column))


@pytest.mark.parametrize("name", ["slub", "slub-cpu-partial", "slab"])
def test_conditions_of_cpu_and_depth(name):
    oracle = oracle_of(name)
    pcs = marked_micro_ops(parse("kmalloc", oracle.program), oracle.program)
    hits = about_to(oracle, pcs, lambda cpu, number, early: number == 1 and cpu.irq_depth >= 1)
    assert hits
    check_breakpoint(name, "kmalloc if cpu == 1 and depth >= 1", hits)
    taken = changed(oracle, L.N_LOCKS_TAKEN, lambda cpu, number: number == 0 and cpu.irq_depth == 0)
    check_breakpoint(name, "counter LOCKS_TAKEN if cpu == 0 and depth == 0", taken)


@pytest.mark.parametrize("name", ["slub", "slab"])
@pytest.mark.parametrize("how", ["==", "!=", "<", "<=", ">", ">="])
def test_conditions_of_registers_and_variables(name, how):
    oracle = oracle_of(name)
    pc = oracle.program.function("kfree").entry_pc
    values = sorted(
        oracle.moments[n].cpus[cpu].registers[0] for n, (cpu, at, _) in oracle.executed.items() if at == pc
    )
    middle = values[len(values) // 2]
    hits = about_to(oracle, [pc], lambda cpu, *_: compare(cpu.registers[0], how, middle))
    parameter = oracle.program.function("kfree").params[0]
    check_breakpoint(name, f"kfree if r0 {how} {middle:#x}", hits, cursors=2)
    check_breakpoint(name, f"kfree if {parameter} {how} {middle}", hits, cursors=2)


def compare(value: int, how: str, other: int) -> bool:
    return {
        "==": value == other,
        "!=": value != other,
        "<": value < other,
        "<=": value <= other,
        ">": value > other,
        ">=": value >= other,
    }[how]


@pytest.mark.parametrize("name", ["slub", "slab", "slub-cpu-partial"])
@pytest.mark.parametrize("state", ["frozen", "partial", "full", "empty"])
def test_slab_states(name, state):
    oracle = oracle_of(name)
    seen: dict[int, list[int]] = {}
    for n, a, b, _ in oracle.pairs():
        old, new = dict_of(a.extra[0]), dict_of(b.extra[0])
        for frame, facts in new.items():
            if state in states(*facts) and (frame not in old or state not in states(*old[frame])):
                seen.setdefault(frame, []).append(n)
    anywhere = sorted({n for hits in seen.values() for n in hits})
    check_breakpoint(name, f"slab any {state}", anywhere, cursors=3)
    for frame, hits in list(seen.items())[:2]:
        check_breakpoint(name, f"slab {frame} {state}", hits, cursors=2)
    if (name, state) in {("slab", "partial"), ("slub", "frozen"), ("slub-cpu-partial", "partial")}:
        assert anywhere


def dict_of(rows: tuple) -> dict[int, tuple]:
    return {frame: tuple(facts) for frame, *facts in rows}


def states(frozen: bool, inuse: int, objects: int) -> set[str]:
    found = {"frozen"} if frozen else set()
    return found | {"empty" if inuse <= 0 else "full" if inuse >= objects else "partial"}


def test_a_slab_breakpoint_with_a_condition():
    oracle = oracle_of("slub")
    hits = []
    for n, a, b, _ in oracle.pairs():
        old, new = dict_of(a.extra[0]), dict_of(b.extra[0])
        came = [
            f
            for f in new
            if "frozen" in states(*new[f]) and (f not in old or "frozen" not in states(*old[f]))
        ]
        if came and oracle.executed[n - 1][0] == 1:
            hits.append(n)
    assert hits
    check_breakpoint("slub", "slab any frozen if cpu == 1", hits)


@pytest.mark.parametrize("size", [4, 8])
def test_word(size):
    """A word that the kernel program itself writes often: the first one of a page structure."""
    oracle = oracle_of("slub")
    frame = oracle.moments[oracle.end].extra[0][0][0]
    address = oracle.program.globals["mem_map"].address + frame * oracle.program.struct("page").size_bytes
    values = [moment and moment.extra[1].get(frame, 0) for moment in oracle.moments]
    mask = (1 << 8 * size) - 1
    hits = [n for n, *_ in oracle.pairs() if values[n] & mask != values[n - 1] & mask]
    assert len(hits) > 2
    suffix = "" if size == 8 else ":4"
    check_breakpoint("slub", f"word {address:#x}{suffix}", hits)


@pytest.mark.parametrize("name", ["slub", "slub-seq", "slab", "slub-cpu-partial"])
def test_objects_allocated_and_freed(name):
    oracle = oracle_of(name)
    entry = oracle.program.function("kfree").entry_pc
    freed: dict[int, list[int]] = {}
    for n, (cpu, pc, _) in oracle.executed.items():
        if pc == entry:
            freed.setdefault(oracle.moments[n].cpus[cpu].registers[0], []).append(n)
    function = oracle.program.function("kmalloc")
    returned: dict[int, list[int]] = {}
    for n, (cpu, pc, _) in oracle.executed.items():
        row = oracle.program.code.reshape(-1, 8)[pc]
        if function.entry_pc <= pc < function.end_pc and row[0] == 42:  # RET
            value = oracle.moments[n].cpus[cpu].registers[int(row[2])]
            returned.setdefault(value, []).append(n)
    assert freed
    assert returned
    for address, hits in list(freed.items())[:3]:
        check_breakpoint(name, f"object {address:#x} freed", hits, cursors=2)
    for address, hits in list(returned.items())[:3]:
        check_breakpoint(name, f"object {address:#x} allocated", hits, cursors=2)


def test_contended_locks():
    oracle = oracle_of("cold")
    hits = changed(oracle, L.N_LOCKS_CONTENDED)
    assert hits
    check_breakpoint("cold", "lock contended", hits)
    n = hits[0]
    lock = next(cpu.waits_for for cpu in oracle.moments[n].cpus if cpu.waits_for)
    own = changed(oracle, L.N_LOCKS_CONTENDED, lambda cpu, number: cpu.waits_for == lock)
    check_breakpoint("cold", f"lock {lock:#x} contended", own)
    check_breakpoint("cold", f"lock {lock + 64:#x} contended", [])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["slub", "slab", "slub-cpu-partial"]),
    st.lists(
        st.sampled_from(["kfree", "counter LOCKS_TAKEN", "slab any partial", "kmalloc if cpu == 0"]),
        min_size=1,
        unique=True,
    ),
    st.integers(0, MICRO_OPS),
)
def test_several_breakpoints_are_the_union(name, texts, offset):
    oracle, recording = oracle_of(name), shared_recording(name)
    cursor = min(oracle.start + offset, oracle.end)
    points = [parse(text, oracle.program, i) for i, text in enumerate(texts)]
    for direction, choose in ((1, min), (-1, max)):
        alone = []
        for point in points:
            recording.seek(cursor)
            result = move(recording, Move.BREAKPOINT, direction, breakpoints=[point])
            alone += [result.position] if result.found else []
        recording.seek(cursor)
        result = move(recording, Move.BREAKPOINT, direction, breakpoints=points)
        assert result.position == (choose(alone) if alone else cursor)


def test_playing_misses_none_however_it_is_cut():
    oracle, recording = oracle_of("slub"), shared_recording("slub")
    points = [parse("kfree", oracle.program, 1), parse("counter LOCKS_TAKEN", oracle.program, 2)]
    expected = sorted(
        {*about_to(oracle, [oracle.program.function("kfree").entry_pc]), *changed(oracle, L.N_LOCKS_TAKEN)}
    )
    for piece in (7, 250, 10_000):
        recording.seek(oracle.start)
        found = []
        while recording.position < oracle.start + 1200:
            result = run_to_breakpoint(recording, piece, points)
            assert result.position == recording.position
            if result.found:
                found.append(result.position)
                assert result.breakpoint in (1, 2)
        assert found == [n for n in expected if oracle.start < n <= recording.position]


def test_disabled_ones_do_not_strike():
    recording = shared_recording("slub")
    recording.seek(RUNS["slub"][0])
    table = BreakpointTable().added("kfree", program_of()).added("kmalloc", program_of()).switched(1, False)
    assert [point.enabled for point in table] == [False, True]
    result = move(recording, Move.BREAKPOINT, 1, breakpoints=table)
    assert result.breakpoint == 2
    with pytest.raises(UserError, match="no breakpoint"):
        move(recording, Move.BREAKPOINT, 1, breakpoints=table.switched(2, False))
    assert len(table.removed(1)) == 1
    assert [point.number for point in table.removed(1).added("kfree", program_of())] == [2, 3]


# --- their text --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", ["word " + "1" * 9_000, "kfree if cpu == " + "9" * 9_000, "kfree " * 1_000])
def test_a_text_that_is_too_long_is_refused(text):
    with pytest.raises(UserError, match="at most 1,000 characters"):
        parse(text, program_of())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kfree", Breakpoint(1, BreakpointKind.FUNCTION, name="kfree")),
        (" function  slab_alloc ", Breakpoint(1, BreakpointKind.FUNCTION, name="slab_alloc")),
        ("counter FREE_SLOWPATH", Breakpoint(1, BreakpointKind.COUNTER, name="FREE_SLOWPATH")),
        ("counter CMPXCHG_FAILED", Breakpoint(1, BreakpointKind.COUNTER, name="CMPXCHG_FAILED")),
        ("word 0x1238", Breakpoint(1, BreakpointKind.WORD, address=0x1238)),
        ("word 4660:4", Breakpoint(1, BreakpointKind.WORD, address=0x1234, size_bytes=4)),
        ("slab 1023 full", Breakpoint(1, BreakpointKind.SLAB_STATE, name="full", page_frame=1023)),
        ("slab any frozen", Breakpoint(1, BreakpointKind.SLAB_STATE, name="frozen")),
        ("lock contended", Breakpoint(1, BreakpointKind.CONTENTION)),
        ("lock 0x40 contended", Breakpoint(1, BreakpointKind.CONTENTION, address=0x40)),
        ("object 0x4000 freed", Breakpoint(1, BreakpointKind.OBJECT, name="freed", address=0x4000)),
        ("object 16384 allocated", Breakpoint(1, BreakpointKind.OBJECT, name="allocated", address=0x4000)),
    ],
)
def test_text(text, expected):
    program = program_of()
    assert parse(text, program) == expected
    assert parse(expected.text(), program) == expected


def test_conditions_are_read():
    point = parse("kmalloc if cpu == 2 and depth >= 1 and size < 0x80 and r3 != NULL", program_of())
    shown = [(c.subject, c.comparison, c.value) for c in point.condition.comparisons]
    assert shown == [("cpu", "==", 2), ("depth", ">=", 1), ("size", "<", 128), ("r3", "!=", 0)]
    assert point.text() == "function kmalloc if cpu == 2 and depth >= 1 and size < 128 and r3 != 0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "missing"),
        ("slub_bulk.py:3", "no file 'slub_bulk.py'"),
        ("slob.py:120", "did you mean slub.py"),
        ("slub.py:1", "nearest lines"),
        ("slub.py:99999999999999999999", "nothing is executed in line"),
        ("slab_aloc", "did you mean slab_alloc"),
        ("function", "is no breakpoint"),
        ("counter FREE_SLOWPAHT", "did you mean FREE_SLOWPATH"),
        ("word 0x1234", "cannot lie at 0x1234"),
        ("word 0x1230:3", "3 bytes"),
        ("word here", "give a number"),
        ("word -8", "give a number"),
        ("word 0xffffffffffffffffffff", "too large"),
        ("slab 99999999 full", "no page frame"),
        ("slab any sticky", "known: frozen, partial, full, empty"),
        ("slab full", "is no breakpoint"),
        ("lock free", "is no breakpoint"),
        ("object 0x4000 lost", "known: allocated, freed"),
        ("kfree if", "there is no function|is no breakpoint"),
        ("kfree if cpu", "is no condition"),
        ("kfree if cpu == x", "neither a number nor a constant"),
        ("kfree if cpu = 2", "is no condition"),
        ("kfree if flavour == 2", "no variable 'flavour'"),
        ("kmalloc if sise == 2", "did you mean size"),
        ("kfree if r900 == 2", "no register r900"),
        ("kfree if cpu == 99999999999999999999999", "64 bits"),
        ("__import__('os') if cpu == 1", "no function"),
    ],
)
def test_wrong_text_is_told_in_one_line(text, words):
    with pytest.raises(UserError, match=words) as caught:
        parse(text, program_of())
    assert "\n" not in str(caught.value)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        point = parse(text, program_of())
    except UserError:
        return
    assert parse(point.text(), program_of()) == point


def test_memory_that_does_not_exist_is_told():
    recording = shared_recording("slub")
    with pytest.raises(UserError, match="no memory at 0x4000000000"):
        move(recording, Move.BREAKPOINT, 1, breakpoints=[parse("word 0x4000000000", program_of())])


def test_a_table_never_changes():
    table = BreakpointTable()
    more = table.added("kfree", program_of())
    assert (len(table), len(more)) == (0, 1)
    assert more.switched(1, False) != more
    assert replace(next(iter(more)), enabled=False) == next(iter(more.switched(1, False)))


@pytest.mark.parametrize("function", ["irq_nothing", "softirq_batch", "kfree"])
def test_the_state_is_that_of_the_position(function):
    """Also where an interrupt arrives just before the micro-op that strikes."""
    oracle, recording = oracle_of("slub"), shared_recording("slub")
    entry = oracle.program.function(function).entry_pc
    hits = [n for n in about_to(oracle, [entry]) if n > oracle.start + 310][:3]
    assert hits
    for n in hits:
        recording.seek(n - 1)
        result = move(recording, Move.BREAKPOINT, 1, breakpoints=[parse(function, oracle.program)])
        assert result.position == n
        assert recording.state_hash() == state_hash("slub", n)
