"""The caches above the outer level: the L1s, and between them and it an optional middle level.

A *group* is the CPUs whose L1s lie under the same next cache.  Without a middle level that cache is the L2
(outer level) and these functions work on its L1s.  With one, each group has a middle cache: set-associative,
true LRU, including its L1s, included by the L2.  A hit in an L1 does not refresh the line in the middle
cache, nor a hit there the line in the L2.

Entries of L1 and middle tags: ``line << 1 | writable``, 0 empty; the most recent way of a set first and no
holes.  A middle entry is writable while no other middle cache may hold the line, so the line's L1 entries
outside its group are gone; a writable L1 entry has a writable middle entry under it.

What is left out: write-back traffic (an evicted modified line costs nothing), and middle caches that keep
an L1's lines when they lose their own copy.
"""

from __future__ import annotations

from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_L1_BASE,
    CPU_WORDS,
    H_CPU_BLOCKS,
    H_CPUS,
    H_CPUS_PER_GROUP,
    H_CPUS_PER_L1,
    H_L1_SETS,
    H_L1_WAYS,
    H_MIDDLE,
    H_MIDDLE_COUNT,
    H_MIDDLE_SETS,
    H_MIDDLE_WAYS,
    H_MIDDLES_PER_L2,
    N_L2_EVICTION,
)


@njit("void(int64[::1], int64, int64, int64, int64)", internal=True)
def l1_change(S, group, line, keep_l1_base, to_shared):
    """In the L1s of a group (except keep_l1_base): drop a line, or make it read-only."""
    ways = S[H_L1_WAYS]
    set_offset = (line & (S[H_L1_SETS] - 1)) * ways
    per_l1 = S[H_CPUS_PER_L1]
    first = group * S[H_CPUS_PER_GROUP]
    last = min(first + S[H_CPUS_PER_GROUP], S[H_CPUS])
    cpu = first
    while cpu < last:
        l1 = S[S[H_CPU_BLOCKS] + cpu * CPU_WORDS + C_L1_BASE]
        cpu += per_l1
        if l1 == keep_l1_base:
            continue
        t = l1 + set_offset
        for w in range(ways):
            entry = S[t + w]
            if entry == 0:
                break
            if entry >> 1 == line:
                if to_shared:
                    S[t + w] = line << 1
                else:
                    for k in range(w, ways - 1):
                        S[t + k] = S[t + k + 1]
                    S[t + ways - 1] = 0
                break


@njit("int64(int64[::1], int64, int64, int64)", internal=True)
def l1_elsewhere(S, group, line, own_l1_base):
    """0: no other L1 of this group holds the line, 1: one does read-only, 2: writable."""
    ways = S[H_L1_WAYS]
    set_offset = (line & (S[H_L1_SETS] - 1)) * ways
    per_l1 = S[H_CPUS_PER_L1]
    first = group * S[H_CPUS_PER_GROUP]
    last = min(first + S[H_CPUS_PER_GROUP], S[H_CPUS])
    found = 0
    cpu = first
    while cpu < last:
        l1 = S[S[H_CPU_BLOCKS] + cpu * CPU_WORDS + C_L1_BASE]
        cpu += per_l1
        if l1 == own_l1_base:
            continue
        t = l1 + set_offset
        for w in range(ways):
            entry = S[t + w]
            if entry == 0:
                break
            if entry >> 1 == line:
                found = max(found, 1 + (entry & 1))
                break
    return found


@njit("void(int64[::1], int64, int64, int64)", internal=True)
def l1_place(S, l1, line, writable):
    """Make a line the most recent of its L1 set, with or without the right to write."""
    ways = S[H_L1_WAYS]
    t = l1 + (line & (S[H_L1_SETS] - 1)) * ways
    last = ways - 1
    for w in range(ways):
        entry = S[t + w]
        if entry >> 1 == line or entry == 0:
            last = w
            break
    for k in range(last, 0, -1):
        S[t + k] = S[t + k - 1]
    S[t] = (line << 1) | writable


@njit("int64(int64[::1], int64, int64)", internal=True)
def middle_set(S, group, line):
    """Index in S of the first way of a line's set in a group's middle cache."""
    return S[H_MIDDLE] + (group * S[H_MIDDLE_SETS] + (line & (S[H_MIDDLE_SETS] - 1))) * S[H_MIDDLE_WAYS]


@njit("int64(int64[::1], int64, int64)", internal=True)
def middle_touch(S, group, line):
    """1 and make it most recent if a group's middle cache holds the line, else 0."""
    t = middle_set(S, group, line)
    for w in range(S[H_MIDDLE_WAYS]):
        entry = S[t + w]
        if entry == 0:
            return 0
        if entry >> 1 == line:
            for k in range(w, 0, -1):
                S[t + k] = S[t + k - 1]
            S[t] = entry
            return 1
    return 0


@njit("int64(int64[::1], int64, int64, int64)", internal=True)
def middle_elsewhere(S, l2, line, own_group):
    """0: no other middle cache under this L2 holds the line, 1: one does read-only, 2: writable."""
    ways = S[H_MIDDLE_WAYS]
    first = l2 * S[H_MIDDLES_PER_L2]
    last = min(first + S[H_MIDDLES_PER_L2], S[H_MIDDLE_COUNT])
    found = 0
    for group in range(first, last):
        if group == own_group:
            continue
        t = middle_set(S, group, line)
        for w in range(ways):
            entry = S[t + w]
            if entry == 0:
                break
            if entry >> 1 == line:
                found = max(found, 1 + (entry & 1))
                break
    return found


@njit("void(int64[::1], int64, int64, int64)", internal=True)
def middle_change(S, group, line, to_shared):
    """In one middle cache and its L1s: drop a line, or make it read-only."""
    ways = S[H_MIDDLE_WAYS]
    t = middle_set(S, group, line)
    for w in range(ways):
        entry = S[t + w]
        if entry == 0:
            return
        if entry >> 1 == line:
            if to_shared:
                S[t + w] = line << 1
            else:
                for k in range(w, ways - 1):
                    S[t + k] = S[t + k + 1]
                S[t + ways - 1] = 0
            l1_change(S, group, line, -1, to_shared)
            return


@njit("void(int64[::1], int64, int64, int64, int64)", internal=True)
def middles_change(S, l2, line, keep_group, to_shared):
    """In all middle caches under an L2 (except keep_group's) and their L1s: drop a line, or make it
    read-only."""
    first = l2 * S[H_MIDDLES_PER_L2]
    last = min(first + S[H_MIDDLES_PER_L2], S[H_MIDDLE_COUNT])
    for group in range(first, last):
        if group != keep_group:
            middle_change(S, group, line, to_shared)


@njit("void(int64[::1], int64, int64, int64)", internal=True)
def inner_change(S, l2, line, to_shared):
    """In all caches above an L2: drop a line, or make it read-only."""
    if S[H_MIDDLE_WAYS] == 0:
        l1_change(S, l2, line, -1, to_shared)
    else:
        middles_change(S, l2, line, -1, to_shared)


@njit("void(int64[::1], int64, int64, int64)", internal=True)
def middle_allow(S, group, line, writable):
    """Set whether a middle cache's line, which it holds, is writable; its place in the set stays."""
    t = middle_set(S, group, line)
    for w in range(S[H_MIDDLE_WAYS]):
        if S[t + w] >> 1 == line:
            S[t + w] = (line << 1) | writable
            return


@njit("void(int64[::1], int64, int64, int64, int64)", internal=True)
def middle_insert(S, group, line, writable, counters):
    """Put a line in front of its set; the last way falls out, and out of the group's L1s."""
    ways = S[H_MIDDLE_WAYS]
    t = middle_set(S, group, line)
    victim = S[t + ways - 1]
    if victim != 0:
        S[counters + N_L2_EVICTION] += 1
        l1_change(S, group, victim >> 1, -1, 0)
    for k in range(ways - 1, 0, -1):
        S[t + k] = S[t + k - 1]
    S[t] = (line << 1) | writable
