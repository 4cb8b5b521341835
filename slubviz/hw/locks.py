"""Waiting for locks: queues of spinning CPUs, and who is next when a lock is released.

A CPU that finds a lock taken spins.  Spinning costs no micro-ops here: the CPU leaves the scheduler, the
lock's cache line is marked as polled (see ``contended_access`` in caches.py: writing it costs a transfer,
and requests for it queue), and on release one waiter gets to retry after the time it takes to read the line
again.  With its retry, whether it gets the lock or not, all other waiters try in vain too, each of which
occupies the line for a while: whoever wants it next, be it to release the lock, waits.  The lock is not
handed over: between release and retry any CPU may take it, as with the byte locks of 2.6.24.

The head of the queue retries first; a waiter that loses its retry queues again at the end, but its waiting
time goes on.  An interrupt takes a waiter out of the queue; it queues anew when it comes back.  LOCK waits
with the interrupt flag as it is, LOCK_IRQSAVE as it was before it.

What is left out: ticket locks (2.6.25 and later on x86), which are handed over in order of arrival.
"""

from __future__ import annotations

from slubviz.hw.caches import polling_changes
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_CLOCK,
    C_GROUP,
    C_HELD,
    C_HELD_ADDRESS,
    C_HELD_MASK,
    C_HELD_SINCE,
    C_IRQ_CYCLE,
    C_IRQ_ENABLED,
    C_L2,
    C_NODE,
    C_PACKAGE,
    C_STATE,
    C_WAIT_ADDRESS,
    C_WAIT_MASK,
    C_WAIT_NEXT,
    C_WAIT_PREVIOUS,
    C_WAIT_SINCE,
    C_WOKEN,
    CPU_WORDS,
    H_COUNTER_WORDS,
    H_COUNTERS,
    H_CPU_BLOCKS,
    H_EVENT_CPU,
    H_LINE_BUSY,
    H_LINE_SHIFT,
    H_LOCKS,
    H_LOCKS_SIZE,
    HELD_MAX,
    K_ADDRESS,
    K_COUNT,
    K_HEAD,
    K_TAIL,
    LINE_BUSY_ENTRIES,
    LOCK_ROW,
    N_LOCK_WAIT_MILLICYCLES,
    NEVER,
    P_SPINNER_RETRY,
    P_TRANSFER_MIDDLE,
    P_TRANSFER_NODE,
    P_TRANSFER_PACKAGE,
    P_TRANSFER_SIBLING,
    P_TRANSFER_SYSTEM,
)
from slubviz.hw.scheduler import set_key

_RUNNING = 1
_WAITING_LOCK = 2


@njit("int64(int64[::1], int64, int64)")
def lock_row(S, address, create):
    """Index in S of a lock's row; -1 when nobody waits for it and create is 0."""
    base = S[H_LOCKS]
    mask = S[H_LOCKS_SIZE] - 1
    i = ((address >> 2) * 0x9E3779B1 >> 12) & mask
    while True:
        row = base + i * LOCK_ROW
        key = S[row + K_ADDRESS]
        if key == address:
            return row
        if key == 0:
            if create == 0:
                return -1
            S[row + K_ADDRESS] = address
            S[row + K_HEAD] = 0
            S[row + K_TAIL] = 0
            S[row + K_COUNT] = 0
            return row
        i = (i + 1) & mask


@njit("void(int64[::1], int64)")
def lock_row_delete(S, row):
    """Remove a row without leaving a tombstone."""
    base = S[H_LOCKS]
    mask = S[H_LOCKS_SIZE] - 1
    hole = (row - base) // LOCK_ROW
    i = hole
    while True:
        i = (i + 1) & mask
        key = S[base + i * LOCK_ROW]
        if key == 0:
            break
        home = ((key >> 2) * 0x9E3779B1 >> 12) & mask
        if ((i - home) & mask) >= ((i - hole) & mask):
            for k in range(LOCK_ROW):
                S[base + hole * LOCK_ROW + k] = S[base + i * LOCK_ROW + k]
            hole = i
    for k in range(LOCK_ROW):
        S[base + hole * LOCK_ROW + k] = 0


@njit("void(int64[::1], int64, int64, int64, int64)", internal=True)
def start_waiting(S, cpu, address, mask, clock):
    """A CPU found the lock taken: queue it, poll the line, leave the scheduler."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    row = lock_row(S, address, 1)
    tail = S[row + K_TAIL]
    S[block + C_WAIT_PREVIOUS] = tail
    S[block + C_WAIT_NEXT] = 0
    if tail == 0:
        S[row + K_HEAD] = cpu + 1
    else:
        S[S[H_CPU_BLOCKS] + (tail - 1) * CPU_WORDS + C_WAIT_NEXT] = cpu + 1
    S[row + K_TAIL] = cpu + 1
    S[row + K_COUNT] += 1
    if S[block + C_WOKEN] == 0:
        S[block + C_WAIT_SINCE] = clock
    S[block + C_WOKEN] = 0
    S[block + C_WAIT_ADDRESS] = address
    S[block + C_WAIT_MASK] = mask
    S[block + C_STATE] = _WAITING_LOCK
    S[block + C_CLOCK] = clock
    polling_changes(S, address >> S[H_LINE_SHIFT], 1)
    set_key(S, cpu, S[block + C_IRQ_CYCLE] if S[block + C_IRQ_ENABLED] else NEVER)


@njit("void(int64[::1], int64)", internal=True)
def stop_waiting(S, cpu):
    """Take a CPU out of the queue it waits in; it will run again."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    address = S[block + C_WAIT_ADDRESS]
    row = lock_row(S, address, 0)
    previous = S[block + C_WAIT_PREVIOUS]
    following = S[block + C_WAIT_NEXT]
    if previous == 0:
        S[row + K_HEAD] = following
    else:
        S[S[H_CPU_BLOCKS] + (previous - 1) * CPU_WORDS + C_WAIT_NEXT] = following
    if following == 0:
        S[row + K_TAIL] = previous
    else:
        S[S[H_CPU_BLOCKS] + (following - 1) * CPU_WORDS + C_WAIT_PREVIOUS] = previous
    S[row + K_COUNT] -= 1
    if S[row + K_COUNT] == 0:
        lock_row_delete(S, row)
    S[block + C_WAIT_NEXT] = 0
    S[block + C_WAIT_PREVIOUS] = 0
    S[block + C_STATE] = _RUNNING
    polling_changes(S, address >> S[H_LINE_SHIFT], -1)


@njit("void(int64[::1], int64[::1], int64, int64, int64, int64)", internal=True)
def wake_one(S, P, address, word, cpu, clock):
    """The word at ``address`` has the value ``word`` now: if that frees a lock, let one waiter retry.

    ``cpu`` wrote it at ``clock`` millicycles.  The CPU that may run again is left in ``H_EVENT_CPU``.
    """
    row = lock_row(S, address, 0)
    if row < 0:
        return
    releaser = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    waiter = S[row + K_HEAD] - 1
    block = S[H_CPU_BLOCKS] + waiter * CPU_WORDS
    while word & S[block + C_WAIT_MASK]:
        # The first one waits for another bit of the word.
        waiter = S[block + C_WAIT_NEXT] - 1
        if waiter < 0:
            return
        block = S[H_CPU_BLOCKS] + waiter * CPU_WORDS
    if S[block + C_GROUP] == S[releaser + C_GROUP]:
        reread = P[P_TRANSFER_SIBLING]
    elif S[block + C_L2] == S[releaser + C_L2]:
        reread = P[P_TRANSFER_MIDDLE]
    elif S[block + C_PACKAGE] == S[releaser + C_PACKAGE]:
        reread = P[P_TRANSFER_PACKAGE]
    elif S[block + C_NODE] == S[releaser + C_NODE]:
        reread = P[P_TRANSFER_SYSTEM]
    else:
        reread = P[P_TRANSFER_NODE]
    stop_waiting(S, waiter)
    S[block + C_WOKEN] = 1
    S[block + C_CLOCK] = max(S[block + C_CLOCK], clock + reread)
    set_key(S, waiter, S[block + C_CLOCK])
    S[H_EVENT_CPU] = waiter


@njit("void(int64[::1], int64[::1], int64)", internal=True)
def rush(S, P, address):
    """A woken waiter retries a lock: those that still wait try too, in vain, and occupy its line with it."""
    row = lock_row(S, address, 0)
    if row >= 0:
        busy = S[H_LINE_BUSY] + ((address >> S[H_LINE_SHIFT]) & (LINE_BUSY_ENTRIES - 1))
        S[busy] += S[row + K_COUNT] * P[P_SPINNER_RETRY]


@njit("void(int64[::1], int64, int64, int64, int64)", internal=True)
def lock_taken(S, cpu, address, mask, clock):
    """Note that a CPU holds a lock, for whoever looks; ends its waiting time."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    held = S[block + C_HELD]
    if held < HELD_MAX:  # more than eight at once are not remembered
        S[block + C_HELD_ADDRESS + held] = address
        S[block + C_HELD_MASK + held] = mask
        S[block + C_HELD_SINCE + held] = clock
        S[block + C_HELD] = held + 1
    if S[block + C_WOKEN]:
        counters = S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS]
        S[counters + N_LOCK_WAIT_MILLICYCLES] += clock - S[block + C_WAIT_SINCE]
        S[block + C_WOKEN] = 0


@njit("void(int64[::1], int64, int64, int64)", internal=True)
def lock_dropped(S, cpu, address, mask):
    """Note that a CPU no longer holds a lock (the newest of that address and bits)."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    held = S[block + C_HELD]
    for i in range(held - 1, -1, -1):
        if S[block + C_HELD_ADDRESS + i] == address and S[block + C_HELD_MASK + i] == mask:
            for k in range(i, held - 1):
                S[block + C_HELD_ADDRESS + k] = S[block + C_HELD_ADDRESS + k + 1]
                S[block + C_HELD_SINCE + k] = S[block + C_HELD_SINCE + k + 1]
                S[block + C_HELD_MASK + k] = S[block + C_HELD_MASK + k + 1]
            S[block + C_HELD] = held - 1
            return


@njit("int64(int64[::1], int64, int64, int64)", internal=True)
def holds_lock(S, cpu, address, mask):
    """Whether a CPU is noted as the holder of some of a lock's bits."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    for i in range(min(S[block + C_HELD], HELD_MAX)):
        if S[block + C_HELD_ADDRESS + i] == address and S[block + C_HELD_MASK + i] & mask:
            return 1
    return 0
