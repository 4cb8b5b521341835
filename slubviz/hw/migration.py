"""Moving a running task, with all its frames, from one CPU to an idle one.

The rules are those of a kernel's scheduler: it takes a task away only where that task can be preempted.
Registers move as they are, so a pointer to per-CPU data or a CPU number that was read before the move now
belongs to the wrong CPU; that is for the program to mind, by disabling preemption or interrupts.

Left out: the cost of the switch, and the store buffer of the CPU that the task leaves, whose stores were
done in order anyway.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.isa import FRAME_KIND, FRAME_RETURN_WINDOW, FRAME_WORDS, KIND_FIRST, CpuState

#: What belongs to the task, not to the CPU: changes places with what the idle CPU had.
_TASK_WORDS = (L.C_PC, L.C_FUNCTION, L.C_STATE, L.C_IRQ_ENABLED, L.C_PREEMPT)


def why_not(block: NDArray[np.int64], target: NDArray[np.int64]) -> str:
    """Why the task of a CPU cannot move to another one now, one sentence; empty if it can.

    Parameters
    ----------
    block, target : the CPU blocks, shape (CPU_WORDS,)
    """
    if target[L.C_STATE] != CpuState.HALTED:
        return "the CPU that it should move to is busy"
    reasons = (
        (block[L.C_STATE] == CpuState.HALTED, "no task runs there"),
        (block[L.C_IRQ_DEPTH] > 0, "the CPU is in an interrupt handler"),
        (not block[L.C_IRQ_ENABLED], "interrupts are disabled there"),
        (block[L.C_PREEMPT] > 0, f"preemption is disabled there (preempt count {block[L.C_PREEMPT]})"),
        (block[L.C_STATE] == CpuState.WAITING_LOCK or block[L.C_WOKEN] > 0, "the task waits for a lock"),
        (block[L.C_CONTENDED] > 0, "the task waits for a lock"),
        (block[L.C_ARRIVED] > 0, "the task waits for the others at a rendezvous"),
        (block[L.C_HELD] > 0, "the task holds a lock"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def move_task(
    state: NDArray[np.int64],
    block: NDArray[np.int64],
    target: NDArray[np.int64],
    window_words: tuple[int, ...],
) -> None:
    """Move the task; the caller has asked ``why_not`` and gives both CPUs their keys afterwards.

    Parameters
    ----------
    state : the machine's state
    block, target : views of the CPU blocks in it, shape (CPU_WORDS,)
    window_words : words of each function's window
    """
    base, to_base = int(block[L.C_STACK_BASE]), int(target[L.C_STACK_BASE])
    window, moved = int(block[L.C_WINDOW]), to_base - base
    end = window + window_words[int(block[L.C_FUNCTION])]
    state[to_base : to_base + end - base] = state[base:end]
    at = window + moved
    while state[at + FRAME_KIND] != KIND_FIRST:
        state[at + FRAME_RETURN_WINDOW] += moved
        at = int(state[at + FRAME_RETURN_WINDOW])
    target[L.C_CLOCK] = max(block[L.C_CLOCK], target[L.C_CLOCK])
    target[L.C_WINDOW] = window + moved
    block[L.C_WINDOW] = base + FRAME_WORDS
    for word in _TASK_WORDS:
        block[word], target[word] = int(target[word]), int(block[word])
