"""Builds a Snapshot from a session: CPUs with their frames, locks with holders and waiters, the shown
cache's slabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slubviz.hw import layout as L
from slubviz.hw.isa import (
    FRAME_KIND,
    FRAME_RETURN_PC,
    FRAME_RETURN_WINDOW,
    KIND_CALL,
    KIND_FIRST,
    KIND_INTERRUPT,
    CpuState,
)
from slubviz.hw.machine import Machine
from slubviz.model.families import CacheSlabs
from slubviz.model.families.family import CpuExtra
from slubviz.model.lang import Program, disassemble
from slubviz.model.snapshot import CpuView, FrameView, LockView, SlabTable, Snapshot
from slubviz.model.symbols import lock_name

if TYPE_CHECKING:
    from slubviz.model.session import Session

_INTERRUPT_SHARE = 65536
_MOST_FRAMES = 256


def call_stack(machine: Machine, program: Program, cpu: int) -> list[tuple[int, bool]]:
    """(micro-op, pushed by an interrupt) of each frame of a CPU, innermost first.

    The micro-op is the next one for the innermost frame, the call or the interrupted one for the others.
    """
    found = call_stack_windows(machine, program, cpu)
    return [(pc, int(machine.state[window + FRAME_KIND]) == KIND_INTERRUPT) for pc, window in found]


def call_stack_windows(machine: Machine, program: Program, cpu: int) -> list[tuple[int, int]]:
    """(micro-op, index of register 0 in the state) of each frame of a CPU, innermost first."""
    state = machine.state
    pc, window = machine.cpu_word(cpu, L.C_PC), machine.cpu_word(cpu, L.C_WINDOW)
    frames: list[tuple[int, int]] = []
    while 0 <= pc < program.micro_ops and len(frames) < _MOST_FRAMES:
        kind = int(state[window + FRAME_KIND])
        frames.append((pc, window))
        if kind == KIND_FIRST:
            break
        pc = int(state[window + FRAME_RETURN_PC]) - (1 if kind == KIND_CALL else 0)
        window = int(state[window + FRAME_RETURN_WINDOW])
    return frames


def frame_views(machine: Machine, program: Program, cpu: int) -> tuple[FrameView, ...]:
    """A CPU's frames, outermost first, with inlined functions as frames of their own."""
    views: list[FrameView] = []
    for pc, interrupt in reversed(call_stack(machine, program, cpu)):
        for i, (function, place) in enumerate(program.inline_stack(pc)):
            views.append(FrameView(function.name, place.file, place.line, interrupt and i == 0))
    return tuple(views)


def _cpu_views(session: Session, names: dict[int, str], extra: Sequence[CpuExtra]) -> tuple[CpuView, ...]:
    machine, program = session.machine, session.booted.program
    operations = session.operations_done()
    slow = _slow_path_operations(session)
    views = []
    for cpu, block in enumerate(machine.cpu_blocks()):
        pc = int(block[L.C_PC])
        runs = 0 <= pc < program.micro_ops
        waits = int(block[L.C_STATE]) == CpuState.WAITING_LOCK
        preempt = int(block[L.C_PREEMPT])
        depth = int(block[L.C_IRQ_DEPTH])
        views.append(
            CpuView(
                number=cpu,
                node=int(block[L.C_NODE]),
                state=int(block[L.C_STATE]),
                clock_cycles=int(block[L.C_CLOCK]) / L.MILLI,
                micro_ops=int(block[L.C_MICRO_OPS]),
                interrupts_enabled=bool(block[L.C_IRQ_ENABLED]),
                preempt_count=preempt - depth * _INTERRUPT_SHARE,
                interrupt_depth=depth,
                frames=frame_views(machine, program, cpu) if runs else (),
                span=program.span(pc) if runs else None,
                micro_op_text=disassemble(program, pc) if runs else "",
                waits_for=names.get(int(block[L.C_WAIT_ADDRESS]), "") if waits else "",
                waits_since_cycles=int(block[L.C_WAIT_SINCE]) / L.MILLI if waits else 0.0,
                operations=int(operations[cpu]),
                slow_path_operations=int(slow[cpu]),
                extra=extra[cpu] if extra else (),
            )
        )
    return tuple(views)


def _slow_path_operations(session: Session) -> np.ndarray:
    counters = session.booted.program.counters
    columns = [
        L.HARDWARE_COUNTERS + counters.index(name)
        for name in ("ALLOC_SLOWPATH", "FREE_SLOWPATH")
        if name in counters
    ]
    gained: np.ndarray = (session.machine.counters() - session.counters_before())[:, columns].sum(axis=1)
    return gained


def _waiters(machine: Machine) -> dict[int, list[int]]:
    """Lock address -> CPUs that spin on it, in order of arrival."""
    blocks = machine.cpu_blocks()
    waiting = np.flatnonzero(blocks[:, L.C_STATE] == CpuState.WAITING_LOCK)
    found: dict[int, list[int]] = {}
    for cpu in sorted(waiting, key=lambda c: (int(blocks[c, L.C_WAIT_SINCE]), int(c))):
        found.setdefault(int(blocks[cpu, L.C_WAIT_ADDRESS]), []).append(int(cpu))
    return found


def _lock_views(session: Session) -> tuple[LockView, ...]:
    machine = session.machine
    waiters = _waiters(machine)
    holders: dict[int, tuple[int, float]] = {}
    for cpu, block in enumerate(machine.cpu_blocks()):
        for i in range(min(int(block[L.C_HELD]), L.HELD_MAX)):
            holders[int(block[L.C_HELD_ADDRESS + i])] = (cpu, int(block[L.C_HELD_SINCE + i]) / L.MILLI)
    views = []
    for address in sorted(set(waiters) | set(holders)):
        holder, since = holders.get(address, (-1, 0.0))
        name = lock_name(session.booted, address)
        views.append(LockView(name, address, holder, since, tuple(waiters.get(address, ()))))
    return tuple(views)


def _empty_table() -> SlabTable:
    none = np.zeros(0, dtype=np.int64)
    no_bytes, no_flags = np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.bool_)
    return SlabTable(
        none,
        none,
        none,
        no_bytes,
        no_flags,
        no_flags,
        no_flags,
        none,
        none,
        np.zeros(1, dtype=np.int64),
        no_bytes,
        none,
    )


def build_snapshot(session: Session) -> Snapshot:
    """The session as it is now; see ``slubviz.model.snapshot``."""
    machine = session.machine
    locks = _lock_views(session)
    names = {lock.address: lock.name for lock in locks}
    index = session.shown_cache()
    cache: CacheSlabs | None = None
    if index is not None:
        try:
            cache = session.booted.family.read_slabs(session.booted, index)
        except ValueError:
            cache = None  # a broken list; the invariants say more
    table = cache.table if cache else _empty_table()
    none = np.zeros(machine.spec.nodes, dtype=np.int64)
    return Snapshot(
        machine=machine.spec.name,
        kernel=session.variant.name,
        micro_ops=machine.micro_ops,
        clock_cycles=machine.clock_millicycles / L.MILLI,
        finished=session.finished,
        fault=session.fault,
        phase=session.phase_view(),
        cpus=_cpu_views(session, names, cache.cpu_extra if cache else ()),
        locks=locks,
        cache_name=session.booted.cache_name(index) if index is not None else "",
        cache_size_bytes=session.shown_size(),
        slabs=table,
        nr_partial=cache.nr_partial if cache else none,
        nr_slabs=cache.nr_slabs if cache else none,
        counters={} if session.finished else session.phase_counters(),
        progress=session.progress_series(),
        total_slabs=len(table.page_frame),
        family=session.booted.family.name,
    )
