"""Which CPU is next: the runnable one with the smallest clock, ties by CPU number.

A tournament tree over the CPUs' keys (clock in millicycles, NEVER when the CPU cannot run): a changed clock
costs log2(CPUs) comparisons, so that 4,096 CPUs are as usable as 8.  ``keys[i]`` belongs to CPU i;
``tree[leaves + i]`` is i, an inner node holds the winner of its two children, ``tree[1]`` the next CPU.
"""

from __future__ import annotations

from slubviz.hw.jit import njit
from slubviz.hw.layout import H_KEYS, H_LEAVES, H_TREE, NEVER


@njit("int64(int64[::1], int64, int64, int64, int64, int64)", internal=True)
def replay(S, keys, tree, leaves, cpu, key):
    """Give a CPU a new key and replay its matches up to the root; returns the winner, the next CPU.

    Works from the values at hand and reads only the rivals, so that one level does not wait for the store
    of the one below.
    """
    S[keys + cpu] = key
    winner = cpu
    i = leaves + cpu
    while i > 1:
        rival = S[tree + (i ^ 1)]
        rival_key = S[keys + rival]
        if rival_key < key or (rival_key == key and rival < winner):
            winner = rival
            key = rival_key
        i >>= 1
        S[tree + i] = winner
    return winner


@njit("void(int64[::1], int64, int64)")
def set_key(S, cpu, key):
    """``replay`` for callers that do not need the winner."""
    replay(S, S[H_KEYS], S[H_TREE], S[H_LEAVES], cpu, key)


@njit("int64(int64[::1], int64, int64, int64, int64)")
def may_run_until(S, keys, tree, leaves, cpu):
    """Largest clock at which ``cpu``, the winner, still is the next to run (ties by number)."""
    i = leaves + cpu
    limit = NEVER
    while i > 1:
        rival = S[tree + (i ^ 1)]
        key = S[keys + rival]
        if rival < cpu:
            key -= 1
        limit = min(limit, key)
        i >>= 1
    return limit
