"""The slow oracle of movements and breakpoints: every moment of a short run, written down in plain Python.

A session is stepped one micro-op at a time, without a recording; what counts as a hit is then said by looking
at the list of moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slubviz.hw import layout as L
from slubviz.hw.engine import CLOCK_FACTOR, HASH_FACTOR
from slubviz.hw.isa import (
    FRAME_KIND,
    FRAME_RETURN_PC,
    FRAME_RETURN_WINDOW,
    KIND_FIRST,
    KIND_INTERRUPT,
    CpuState,
)
from slubviz.model.session import Session
from slubviz.model.travel.changes import Change
from slubviz.model.travel.movements import RETRY_COUNTERS, SLOW_COUNTERS, Move

REGISTERS = 16


@dataclass(frozen=True)
class Frame:
    """A function, or an inlined one, on a CPU's stack."""

    window: int
    site: int
    depth: int  #: how deep it is inlined
    place: tuple[str, int, str]  #: file, line, function

    @property
    def identity(self) -> tuple[int, int]:
        return self.window, self.site

    @property
    def level(self) -> tuple[int, int]:
        return self.window, self.depth


@dataclass(frozen=True)
class CpuMoment:
    """One CPU at one position."""

    halted: bool
    pc: int
    frames: tuple[Frame, ...]  #: outermost first; empty when it is idle
    irq_depth: int
    interrupts: int
    held: int
    counters: np.ndarray
    slow: int  #: slow paths, failed compare-and-exchanges, contended locks, locks taken so far
    retries: int
    contended: int
    taken: int
    micro_ops: int
    clock: int
    registers: tuple[int, ...]
    waits_for: int


@dataclass(frozen=True)
class Moment:
    """Everything at one position, changes included."""

    phase: int
    cpus: tuple[CpuMoment, ...]
    trace: int
    extra: tuple  #: whatever the test looks at


class Oracle:
    """All moments of a run from position ``start`` on."""

    def __init__(
        self,
        session: Session,
        changes: Sequence[Change],
        start: int,
        micro_ops: int,
        look: Callable[[Session], tuple] = lambda session: (),
    ) -> None:
        session.boot()
        self.session, self._look = session, look
        self.program = session.booted.program
        session.run(start)
        self.start = start
        self._inlined_at: dict[int, list[tuple[int, tuple[str, int, str]]]] = {}
        self._known: dict[tuple, list[int]] = {}
        self.moments: list[Moment] = [None] * start  # type: ignore[list-item]
        while True:
            for change in changes:
                if change.position == len(self.moments):
                    change.what.apply(session)
            self.moments.append(self._moment())
            if session.finished or session.fault or len(self.moments) > start + micro_ops:
                break
            session.step()
        self.end = len(self.moments) - 1
        #: Position -> what was executed from there.
        self.executed = {n: self._executed(n) for n in range(start, self.end)}

    # --- writing down -------------------------------------------------------------------------------
    def _moment(self) -> Moment:
        machine = self.session.machine
        assert machine.micro_ops == len(self.moments)
        cpus = tuple(self._cpu(cpu) for cpu in range(machine.spec.cpus))
        extra = self._look(self.session)
        if len(self.moments) > self.start:  # what is equal is kept once
            last = self.moments[-1].extra
            extra = tuple(old if old == new else new for old, new in zip(last, extra, strict=True))
        return Moment(self.session.phase_index, cpus, machine.trace_hash, extra)

    def _cpu(self, cpu: int) -> CpuMoment:
        machine = self.session.machine
        block = machine.cpu_blocks()[cpu]
        halted = block[L.C_STATE] == CpuState.HALTED
        counters = machine.counters()[cpu].copy()
        window = int(block[L.C_WINDOW])
        return CpuMoment(
            bool(halted),
            -1 if halted else int(block[L.C_PC]),
            () if halted else tuple(self._frames(int(block[L.C_PC]), window)),
            int(block[L.C_IRQ_DEPTH]),
            int(counters[L.N_INTERRUPTS]),
            int(block[L.C_HELD]),
            counters,
            sum(int(counters[column]) for column in self._columns(SLOW_COUNTERS)),
            sum(int(counters[column]) for column in (L.N_CMPXCHG_FAILED, *self._columns(RETRY_COUNTERS))),
            int(counters[L.N_LOCKS_CONTENDED]),
            int(counters[L.N_LOCKS_TAKEN]),
            int(block[L.C_MICRO_OPS]),
            int(block[L.C_CLOCK]),
            tuple(machine.state[window : window + REGISTERS].tolist()),
            int(block[L.C_WAIT_ADDRESS]) if block[L.C_STATE] == CpuState.WAITING_LOCK else 0,
        )

    def _columns(self, names: Sequence[str]) -> list[int]:
        known = self.program.counters
        return [L.HARDWARE_COUNTERS + known.index(name) for name in names if name in known]

    def _frames(self, pc: int, window: int) -> list[Frame]:
        state = self.session.machine.state
        real = [(window, pc)]
        while state[window + FRAME_KIND] != KIND_FIRST and state[window + FRAME_RETURN_PC] >= 0:
            interrupt = state[window + FRAME_KIND] == KIND_INTERRUPT
            pc = int(state[window + FRAME_RETURN_PC]) - (0 if interrupt else 1)
            window = int(state[window + FRAME_RETURN_WINDOW])
            real.append((window, pc))
        return [frame for window, pc in reversed(real) for frame in self._inlined(window, pc)]

    def _inlined(self, window: int, pc: int) -> list[Frame]:
        if pc not in self._inlined_at:
            program = self.program
            sites = [int(program.inline_site[pc])]
            while sites[-1] >= 0:
                sites.append(program.inline_sites[sites[-1]].parent)
            stack = program.inline_stack(pc)
            self._inlined_at[pc] = [
                (site, (span.file, span.line, function.name))
                for site, (function, span) in zip(reversed(sites), stack, strict=True)
            ]
        return [Frame(window, site, depth, place) for depth, (site, place) in enumerate(self._inlined_at[pc])]

    def _executed(self, n: int) -> tuple[int, int, bool]:
        """(CPU, micro-op, whether it was the first of an interrupt that arrived just then) of n -> n + 1."""
        before, after = self.moments[n], self.moments[n + 1]
        ran = [
            cpu
            for cpu, (a, b) in enumerate(zip(before.cpus, after.cpus, strict=True))
            if b.micro_ops != a.micro_ops
        ]
        assert len(ran) == 1
        cpu = ran[0]
        a, b = before.cpus[cpu], after.cpus[cpu]
        if a.interrupts == b.interrupts:
            return cpu, a.pc, False
        # It was interrupted, before or after its micro-op: the trace hash says what it executed.
        entry = int(self.session.machine.parameters[L.P_INTERRUPT_ENTRY])
        candidates = [(a.pc, False, b.clock), (a.pc, False, b.clock - entry)]
        entries = [function.entry_pc for function in self.program.functions]
        candidates += [(pc, True, b.clock) for pc in entries]
        candidates += [(pc, True, b.clock - entry) for pc in entries]  # let another one in at once
        mask = (1 << 64) - 1
        for pc, early, clock in candidates:
            trace = (before.trace ^ (pc + (cpu << 24) + clock * CLOCK_FACTOR)) * HASH_FACTOR & mask
            if trace == after.trace & mask:
                return cpu, pc, early
        raise AssertionError(f"nobody knows what CPU {cpu} executed at {n}")

    # --- what counts ---------------------------------------------------------------------------------
    def pairs(self) -> Iterable[tuple[int, Moment, Moment, bool]]:
        """(n, state at n - 1, state at n, whether a phase ended between)."""
        for n in range(self.start + 1, self.end + 1):
            before, after = self.moments[n - 1], self.moments[n]
            yield n, before, after, before.phase != after.phase

    def hits(self, kind: Move, cpu: int, cursor: int) -> list[int]:
        """All positions of a kind, as seen from a cursor."""
        level = None
        if kind == Move.OVER:
            frames = self.moments[cursor].cpus[cpu].frames
            level = frames[-1].level if frames else None
        key = (kind, cpu, level)
        if key not in self._known:
            self._known[key] = self._find(kind, cpu, level)
        return self._known[key]

    def _find(self, kind: Move, cpu: int, level: tuple[int, int] | None) -> list[int]:
        match kind:
            case Move.LINE | Move.OVER:
                return self._places(cpu, level)
            case Move.INTO:
                return [n for n, a, b, new in self.pairs() if self._entered(a.cpus[cpu], b.cpus[cpu], new)]
            case Move.PHASE:
                return [n for n, _, _, new in self.pairs() if new]
        return [n for n, a, b, new in self.pairs() if self._counts(kind, cpu, a, b, new)]

    def _places(self, cpu: int, level: tuple[int, int] | None) -> list[int]:
        def seen(moment: CpuMoment) -> tuple | None:
            frames = [f for f in moment.frames if level is None or f.level <= level]
            return (frames[-1].identity, frames[-1].place) if frames else None

        found = []
        for n, before, after, new in self.pairs():
            a, b = before.cpus[cpu], after.cpus[cpu]
            at_top = b.frames and (level is None or b.frames[-1].level <= level)
            if at_top and seen(b) != (None if new else seen(a)):
                found.append(n)
        return found

    @staticmethod
    def _entered(a: CpuMoment, b: CpuMoment, new_phase: bool) -> bool:
        if b.halted:
            return False
        if a.halted or new_phase or b.interrupts > a.interrupts or b.frames[-1].window > a.frames[-1].window:
            return True
        if b.frames[-1].window < a.frames[-1].window:
            return False  # it has returned
        return b.frames[-1].identity not in {frame.identity for frame in a.frames}

    def out(self, cpu: int, cursor: int, direction: int) -> int | None:
        """Where OUT goes."""
        frame = self.moments[cursor].cpus[cpu].frames[-1].identity

        def there(n: int) -> bool:
            return frame in {f.identity for f in self.moments[n].cpus[cpu].frames}

        n = cursor
        while True:
            last, n = n, n + direction
            if not self.start <= n <= self.end:
                return None
            if not there(n) or self.moments[n].phase != self.moments[last].phase:
                return n

    def _counts(self, kind: Move, cpu: int, a: Moment, b: Moment, new_phase: bool) -> bool:
        def exits(i: int) -> bool:
            x, y = a.cpus[i], b.cpus[i]
            return x.irq_depth + y.interrupts - x.interrupts - y.irq_depth > 0

        match kind:
            case Move.INTERRUPT_ENTRY:
                return b.cpus[cpu].interrupts > a.cpus[cpu].interrupts
            case Move.INTERRUPT_EXIT:
                return exits(cpu)
            case Move.SLOW_PATH:
                return any(y.slow != x.slow for x, y in zip(a.cpus, b.cpus, strict=True))
            case Move.RETRY:
                return any(y.retries != x.retries for x, y in zip(a.cpus, b.cpus, strict=True))
            case Move.CONTENDED:
                return any(y.contended != x.contended for x, y in zip(a.cpus, b.cpus, strict=True))
        assert kind in (Move.EVENT_THIS_CPU, Move.EVENT_ANY_CPU)

        def counts(c: CpuMoment) -> tuple[int, ...]:
            return c.slow, c.retries, c.contended, c.taken, c.interrupts

        return new_phase or any(
            counts(a.cpus[i]) != counts(b.cpus[i]) or exits(i) or b.cpus[i].held < a.cpus[i].held
            for i in ([cpu] if kind == Move.EVENT_THIS_CPU else range(len(a.cpus)))
        )


def after(hits: Sequence[int], cursor: int) -> int | None:
    """The first hit after a cursor."""
    return next((n for n in hits if n > cursor), None)


def before(hits: Sequence[int], cursor: int) -> int | None:
    """The last hit before a cursor."""
    return next((n for n in reversed(hits) if n < cursor), None)
