"""Interrupts that are due: the table of pending ones, and each CPU's next.

An interrupt is scheduled by time (millicycles) or by a CPU's own micro-op count, with a handler function
and one argument. It is delivered before the first micro-op at or after that point at which the CPU has
interrupts enabled.
"""

from __future__ import annotations

from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_IRQ_CYCLE,
    C_IRQ_MICRO_OP,
    CPU_WORDS,
    H_CPU_BLOCKS,
    H_IRQS,
    H_IRQS_SIZE,
    I_ACTIVE,
    I_BY_MICRO_OP,
    I_CPU,
    I_SEQUENCE,
    I_WHEN,
    IRQ_ROW,
    NEVER,
)


@njit("void(int64[::1], int64)")
def refresh_due(S, cpu):
    """Recompute when a CPU's next interrupts are due."""
    next_cycle = NEVER
    next_micro_op = NEVER
    for i in range(S[H_IRQS_SIZE]):
        row = S[H_IRQS] + i * IRQ_ROW
        if S[row + I_ACTIVE] and S[row + I_CPU] == cpu:
            if S[row + I_BY_MICRO_OP]:
                next_micro_op = min(next_micro_op, S[row + I_WHEN])
            else:
                next_cycle = min(next_cycle, S[row + I_WHEN])
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    S[block + C_IRQ_CYCLE] = next_cycle
    S[block + C_IRQ_MICRO_OP] = next_micro_op


@njit("int64(int64[::1], int64, int64, int64)", internal=True)
def take_due(S, cpu, clock, micro_ops):
    """Row of the due interrupt that was injected first, taken out of the table; -1 for none."""
    best = -1
    for i in range(S[H_IRQS_SIZE]):
        row = S[H_IRQS] + i * IRQ_ROW
        if S[row + I_ACTIVE] == 0 or S[row + I_CPU] != cpu:
            continue
        now = micro_ops if S[row + I_BY_MICRO_OP] else clock
        if S[row + I_WHEN] <= now and (best < 0 or S[row + I_SEQUENCE] < S[best + I_SEQUENCE]):
            best = row
    if best >= 0:
        S[best + I_ACTIVE] = 0
        refresh_due(S, cpu)
    return best
