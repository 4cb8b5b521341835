"""Runs a machine and writes down its counters at the edges of buckets of equal length.

The engine runs from edge to edge at full speed, so this costs next to nothing.
"""

from __future__ import annotations

from slubviz.hw.isa import (
    FRAME_KIND,
    FRAME_RETURN_PC,
    FRAME_RETURN_WINDOW,
    KIND_CALL,
    CpuState,
    Status,
)
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_CLOCK,
    C_IRQ_DEPTH,
    C_PC,
    C_STATE,
    C_WINDOW,
    CPU_WORDS,
    H_COUNTER_WORDS,
    H_COUNTERS,
    H_CPU_BLOCKS,
    H_CPUS,
    H_MICRO_OPS,
    NEVER,
)
from slubviz.hw.stepping import ARRAY, stepping_loop

#: W: edges written, length of a bucket in micro-ops, most edges, number of totals; then the columns.
W_EDGES, W_LENGTH, W_MOST, W_TOTALS, W_COLUMNS = 0, 1, 2, 3, 4
_GOES_ON = int(Status.MICRO_OPS)
_FULL = int(Status.BREAKPOINT)
_RUNNING, _WAITING_LOCK = int(CpuState.RUNNING), int(CpuState.WAITING_LOCK)
#: As the viewers number activities.
IDLE, WORKLOAD, SLOW_PATH, WAITING = 0, 1, 3, 4
#: Class of a micro-op that does what its caller does.
AS_CALLER = -1


@njit("int64(int64[::1], int64, int64[::1])", internal=True)
def class_of(S, block, classes):
    """The class of the micro-op that a CPU executes next, that of a caller if it has none of its own."""
    pc = S[block + C_PC]
    window = S[block + C_WINDOW]
    while 0 <= pc < len(classes):
        if classes[pc] != AS_CALLER:
            return classes[pc]
        if S[window + FRAME_KIND] != KIND_CALL:
            break
        pc = S[window + FRAME_RETURN_PC] - 1
        window = S[window + FRAME_RETURN_WINDOW]
    return WORKLOAD


@njit("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def write_edge(S, W, classes, positions, clocks, totals, depths, doing):
    """Write the state's totals as the next edge, and what each CPU does.

    ``W[W_COLUMNS:]`` holds, for each total, the number of counters that it sums, and those counters.
    """
    edge, cpus = W[W_EDGES], S[H_CPUS]
    latest = 0
    for cpu in range(cpus):
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        latest = max(latest, S[block + C_CLOCK])
        depths[edge * cpus + cpu] = S[block + C_IRQ_DEPTH]
        state = S[block + C_STATE]
        if state == _RUNNING:
            doing[edge * cpus + cpu] = class_of(S, block, classes)
        else:
            doing[edge * cpus + cpu] = WAITING if state == _WAITING_LOCK else IDLE
        counters = S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS]
        at = W_COLUMNS
        for total in range(W[W_TOTALS]):
            gained = 0
            for i in range(W[at]):
                gained += S[counters + W[at + 1 + i]]
            at += 1 + W[at]
            totals[(edge * W[W_TOTALS] + total) * cpus + cpu] = gained
    positions[edge] = S[H_MICRO_OPS]
    clocks[edge] = latest
    W[W_EDGES] = edge + 1


@stepping_loop(ARRAY, ARRAY, ARRAY, ARRAY, ARRAY, ARRAY, ARRAY)
def count_buckets(step, S, code, P, limit, W, classes, positions, clocks, totals, depths, doing):
    """Run up to ``limit`` and write an edge at the end of every bucket; BREAKPOINT when there is no room."""
    status = _GOES_ON
    while S[H_MICRO_OPS] < limit:
        if W[W_EDGES] == W[W_MOST]:
            return _FULL
        edge = positions[W[W_EDGES] - 1] + W[W_LENGTH]
        status = step(S, code, P, min(edge, limit), NEVER)
        if S[H_MICRO_OPS] >= edge:
            write_edge(S, W, classes, positions, clocks, totals, depths, doing)
        if status != _GOES_ON:
            return status
    return status
