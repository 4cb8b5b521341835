"""Runs a machine and writes down its counters at the edges of buckets of equal length.

The engine runs from edge to edge at full speed, so this costs next to nothing.
"""

from __future__ import annotations

from slubviz.hw.isa import Status
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_CLOCK,
    C_IRQ_DEPTH,
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


@njit("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def write_edge(S, W, positions, clocks, totals, depths):
    """Write the state's totals as the next edge.

    ``W[W_COLUMNS:]`` holds, for each total, the number of counters that it sums, and those counters.
    """
    edge, cpus = W[W_EDGES], S[H_CPUS]
    latest = 0
    for cpu in range(cpus):
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        latest = max(latest, S[block + C_CLOCK])
        depths[edge * cpus + cpu] = S[block + C_IRQ_DEPTH]
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


@stepping_loop(ARRAY, ARRAY, ARRAY, ARRAY, ARRAY)
def count_buckets(step, S, code, P, limit, W, positions, clocks, totals, depths):
    """Run up to ``limit`` and write an edge at the end of every bucket; BREAKPOINT when there is no room."""
    status = _GOES_ON
    while S[H_MICRO_OPS] < limit:
        if W[W_EDGES] == W[W_MOST]:
            return _FULL
        edge = positions[W[W_EDGES] - 1] + W[W_LENGTH]
        status = step(S, code, P, min(edge, limit), NEVER)
        if S[H_MICRO_OPS] >= edge:
            write_edge(S, W, positions, clocks, totals, depths)
        if status != _GOES_ON:
            return status
    return status
