"""Interrupts that are due: the table of pending ones, sources that give one after the other, each CPU's next.

An interrupt is scheduled by time (millicycles) or by a CPU's own micro-op count, with a handler function
and up to three arguments. It is delivered before the first micro-op at or after that point at which the CPU
has interrupts enabled.

A source is a row with a period: when its interrupt is delivered the row is set for the next one, which is
due ``I_PERIOD`` after this one *was due*, plus a random part of 0 to ``I_SPREAD``.  The random numbers are
the row's own (``I_SEED``), so the same seed gives the same times.  A CPU that was late, because it had
interrupts disabled, gets one interrupt: whole periods that have passed meanwhile are dropped (and not counted
in ``I_LEFT``), so the next one is due after the moment of delivery.  Of several that are due the one comes
first that was injected, or set for its next time, first; so no source can shut out the others.

Sources stand still while no CPU has a task (a started function that has not returned): a machine with
nothing left to do halts, however many sources it has.  They also stand still while no CPU runs, so that a
deadlock is noticed.  In both cases interrupts that come once still come.

Left out: priorities of interrupts, and a limit to their rate.  A source that is faster than its handler keeps
the CPU in the handler for good, as an interrupt storm does.
"""

from __future__ import annotations

from slubviz.hw.isa import FRAME_KIND, FRAME_WORDS, KIND_FIRST
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_IRQ_CYCLE,
    C_IRQ_ENABLED,
    C_IRQ_MICRO_OP,
    C_STACK_BASE,
    C_STATE,
    CPU_WORDS,
    H_CPU_BLOCKS,
    H_CPUS,
    H_IRQS,
    H_IRQS_USED,
    H_SEQUENCE,
    H_SOURCES_HELD,
    I_ACTIVE,
    I_BY_MICRO_OP,
    I_CPU,
    I_LEFT,
    I_PERIOD,
    I_SEED,
    I_SEQUENCE,
    I_SPREAD,
    I_WHEN,
    IRQ_ROW,
    NEVER,
)
from slubviz.hw.scheduler import set_key

_HALTED, _RUNNING = 0, 1
#: Where the lowest frame of a stack says how it came about, from the stack's first word.
_FIRST_KIND = FRAME_WORDS + FRAME_KIND
_SEED_FACTOR, _SEED_STEP = 6364136223846793005, 1442695040888963407  # Knuth's MMIX
_SEED_SHIFT, _SEED_MASK = 16, (1 << 47) - 1  # the lowest bits of such a sequence are not random


@njit("void(int64[::1], int64)")
def refresh_due(S, cpu):
    """Recompute when a CPU's next interrupts are due."""
    next_cycle = NEVER
    next_micro_op = NEVER
    for i in range(S[H_IRQS_USED]):
        row = S[H_IRQS] + i * IRQ_ROW
        if S[row + I_ACTIVE] and S[row + I_CPU] == cpu:
            if S[row + I_BY_MICRO_OP]:
                next_micro_op = min(next_micro_op, S[row + I_WHEN])
            else:
                next_cycle = min(next_cycle, S[row + I_WHEN])
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    S[block + C_IRQ_CYCLE] = next_cycle
    S[block + C_IRQ_MICRO_OP] = next_micro_op


@njit("int64(int64[::1], int64)", internal=True)
def sources_stand_still(S, whoever_runs):
    """Whether no CPU has a task, or (unless ``whoever_runs``) no CPU runs."""
    runs = whoever_runs
    task = 0
    for cpu in range(S[H_CPUS]):
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        state = S[block + C_STATE]
        if state != _HALTED:
            if state == _RUNNING:
                runs = 1
            if S[S[block + C_STACK_BASE] + _FIRST_KIND] == KIND_FIRST:
                task = 1
            if runs and task:
                return 0
    return 1


@njit("int64(int64[::1], int64, int64)")
def hold_sources(S, cpu, key):
    """A CPU that does not run is next, for an interrupt due at ``key``: 1 if that must not come.

    It is a source's then, and sources stand still; the CPU gets the key of what else is pending.
    """
    once = NEVER
    for i in range(S[H_IRQS_USED]):
        row = S[H_IRQS] + i * IRQ_ROW
        if S[row + I_ACTIVE] == 0 or S[row + I_CPU] != cpu or S[row + I_BY_MICRO_OP]:
            continue
        if S[row + I_PERIOD] == 0:
            once = min(once, S[row + I_WHEN])
    if once <= key or sources_stand_still(S, 0) == 0:
        return 0
    S[H_SOURCES_HELD] = 1
    set_key(S, cpu, once)
    return 1


@njit("void(int64[::1])")
def release_sources(S):
    """Somebody starts to run: sources count again in the keys of those who do not."""
    if S[H_SOURCES_HELD] == 0:
        return
    S[H_SOURCES_HELD] = 0
    for cpu in range(S[H_CPUS]):
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        if S[block + C_STATE] != _RUNNING and S[block + C_IRQ_ENABLED]:
            set_key(S, cpu, S[block + C_IRQ_CYCLE])


@njit("void(int64[::1], int64, int64)", internal=True)
def set_next(S, row, now):
    """The interrupt of a row is delivered: free the row, or set it for the source's next one."""
    period = S[row + I_PERIOD]
    left = S[row + I_LEFT]
    if period == 0 or left == 1:
        S[row + I_ACTIVE] = 0
        return
    if left > 1:
        S[row + I_LEFT] = left - 1
    seed = S[row + I_SEED] * _SEED_FACTOR + _SEED_STEP
    chance = ((seed >> _SEED_SHIFT) & _SEED_MASK) % (S[row + I_SPREAD] + 1)
    passed = (now - S[row + I_WHEN]) // period  # whole periods that nobody was there for
    S[row + I_SEED] = seed
    S[row + I_WHEN] += (1 + passed) * period + chance
    S[row + I_SEQUENCE] = S[H_SEQUENCE]
    S[H_SEQUENCE] += 1


@njit("int64(int64[::1], int64, int64, int64)", internal=True)
def take_due(S, cpu, clock, micro_ops):
    """Row of the due interrupt that comes first, free or set for its next one; -1 for none."""
    best = -1
    still = -1  # not known yet
    for i in range(S[H_IRQS_USED]):
        row = S[H_IRQS] + i * IRQ_ROW
        if S[row + I_ACTIVE] == 0 or S[row + I_CPU] != cpu:
            continue
        now = micro_ops if S[row + I_BY_MICRO_OP] else clock
        if S[row + I_WHEN] > now or (best >= 0 and S[row + I_SEQUENCE] > S[best + I_SEQUENCE]):
            continue
        if S[row + I_PERIOD] > 0:
            if still < 0:
                still = sources_stand_still(S, 1)
            if still:
                continue
        best = row
    if best >= 0:
        set_next(S, best, micro_ops if S[best + I_BY_MICRO_OP] else clock)
        refresh_due(S, cpu)
        release_sources(S)
    return best
