"""Which micro-op a step of the engine has executed, on which CPU, and which interrupts came with it.

Interface: ``note_next`` before a step, the rest after it; ``new_notes`` makes the array of notes.

Which CPU executes next is known before it does, unless an interrupt is due on that CPU: entering it may take
so long that another CPU comes first.  Then all CPUs are noted before, and looked at after.  An interrupt can
come before and after the micro-op of one step; which micro-op was executed is in the trace hash.
"""

from __future__ import annotations

import numpy as np

from slubviz.hw.engine import CLOCK_FACTOR, HASH_FACTOR
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_CLOCK,
    C_FUNCTION,
    C_IRQ_CYCLE,
    C_IRQ_ENABLED,
    C_IRQ_MICRO_OP,
    C_MICRO_OPS,
    C_PC,
    C_STATE,
    C_WINDOW,
    CPU_WORDS,
    H_COUNTER_WORDS,
    H_COUNTERS,
    H_CPU_BLOCKS,
    H_CPUS,
    H_KEYS,
    H_TRACE_HASH,
    N_CMPXCHG_FAILED,
    N_INTERRUPTS,
    N_LOCK_WAIT_MILLICYCLES,
    N_LOCKS_CONTENDED,
    NEVER,
    P_INTERRUPT_ENTRY,
)
from slubviz.hw.machine import IntArray
from slubviz.hw.stepping import next_cpu

_RUNNING = 1
#: K: what was so before a micro-op: whether all CPUs were noted, the trace hash, and words for each CPU.
K_ALL, K_TRACE, K_CPUS = 0, 1, 2
K_DONE, K_PC, K_WINDOW, K_FUNCTION, K_START = 0, 1, 2, 3, 4
K_FAILED, K_CONTENDED, K_INTERRUPTS, K_WAITED = 5, 6, 7, 8
K_WORDS = 9
#: What undoes the multiplication by HASH_FACTOR, as a signed number.
_HASH_INVERSE = pow(HASH_FACTOR, -1, 1 << 64)
HASH_INVERSE = _HASH_INVERSE - (1 << 64) if _HASH_INVERSE >> 63 else _HASH_INVERSE


@njit("void(int64[::1], int64[::1], int64)", internal=True)
def note_before(S, K, cpu):
    """Note a CPU before a micro-op."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    counters = S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS]
    at = K_CPUS + cpu * K_WORDS
    K[at + K_DONE] = S[block + C_MICRO_OPS]
    K[at + K_PC] = S[block + C_PC]
    K[at + K_WINDOW] = S[block + C_WINDOW]
    K[at + K_FUNCTION] = S[block + C_FUNCTION]
    start = S[block + C_CLOCK]
    if S[block + C_STATE] != _RUNNING and S[S[H_KEYS] + cpu] < NEVER:
        start = max(start, S[S[H_KEYS] + cpu])  # an interrupt begins then
    K[at + K_START] = start
    K[at + K_FAILED] = S[counters + N_CMPXCHG_FAILED]
    K[at + K_CONTENDED] = S[counters + N_LOCKS_CONTENDED]
    K[at + K_INTERRUPTS] = S[counters + N_INTERRUPTS]
    K[at + K_WAITED] = S[counters + N_LOCK_WAIT_MILLICYCLES]


@njit("int64(int64[::1], int64[::1])", internal=True)
def note_next(S, K):
    """Note the CPUs that may execute the next micro-op; returns the one that does unless interrupted."""
    cpu = next_cpu(S)
    note_before(S, K, cpu)
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    may_enter = 0 if S[block + C_STATE] == _RUNNING else 1
    if S[block + C_IRQ_ENABLED]:
        if S[block + C_CLOCK] >= S[block + C_IRQ_CYCLE]:
            may_enter = 1
        if S[block + C_MICRO_OPS] >= S[block + C_IRQ_MICRO_OP]:
            may_enter = 1
    K[K_ALL] = may_enter
    K[K_TRACE] = S[H_TRACE_HASH]
    if may_enter:
        for other in range(S[H_CPUS]):
            note_before(S, K, other)
    return cpu


@njit("int64(int64[::1], int64[::1], int64)", internal=True)
def executed_cpu(S, K, cpu):
    """The CPU that executed the micro-op, most likely ``cpu``; -1 if none did."""
    if S[S[H_CPU_BLOCKS] + cpu * CPU_WORDS + C_MICRO_OPS] != K[K_CPUS + cpu * K_WORDS + K_DONE]:
        return cpu
    if K[K_ALL]:
        for other in range(S[H_CPUS]):
            if S[S[H_CPU_BLOCKS] + other * CPU_WORDS + C_MICRO_OPS] != K[K_CPUS + other * K_WORDS + K_DONE]:
                return other
    return -1


@njit("int64(int64[::1], int64[::1], int64)", internal=True)
def entered(S, K, cpu):
    """How many interrupts a CPU that was noted has entered."""
    counters = S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS]
    return S[counters + N_INTERRUPTS] - K[K_CPUS + cpu * K_WORDS + K_INTERRUPTS]


@njit("int64(int64[::1], int64[::1], int64, int64)", internal=True)
def hashed_pc(S, K, cpu, clock):
    """The micro-op that went into the trace hash, if it ended at ``clock``; else any number."""
    return ((S[H_TRACE_HASH] * HASH_INVERSE) ^ K[K_TRACE]) - (cpu << 24) - clock * CLOCK_FACTOR


@njit("int64(int64[::1], int64[::1], int64[::1], int64, int64)", internal=True)
def executed_pc(S, P, K, cpu, count):
    """The micro-op that a CPU has executed; the program has ``count``."""
    if entered(S, K, cpu) == 0:
        return K[K_CPUS + cpu * K_WORDS + K_PC]
    clock = S[S[H_CPU_BLOCKS] + cpu * CPU_WORDS + C_CLOCK]
    pc = hashed_pc(S, K, cpu, clock)
    return pc if 0 <= pc < count else hashed_pc(S, K, cpu, clock - P[P_INTERRUPT_ENTRY])


@njit("int64(int64[::1], int64[::1], int64, int64)", internal=True)
def entered_after(S, K, cpu, pc):
    """How many interrupts a CPU has entered after micro-op ``pc`` that it has executed: 0 or 1."""
    before = 1 if pc != K[K_CPUS + cpu * K_WORDS + K_PC] else 0
    return entered(S, K, cpu) - before


def new_notes(cpus: int) -> IntArray:
    """Room for notes of so many CPUs."""
    return np.zeros(K_CPUS + cpus * K_WORDS, dtype=np.int64)
