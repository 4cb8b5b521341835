"""What a CPU is doing, told from the micro-op that it executes next.

A fast path is all of kmalloc and kfree (and of the functions for one cache) that is not a slow path.  The
slow path is what only the functions below, its *roots*, lead to: a function that others call too is not of
it, unless it is called from nowhere else.  The micro-op's innermost inlined function decides.  A kernel file
with other names has a slow path as far as it uses one of them.

Leaves out: which call led to a function that both paths share.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.isa import F_C, F_OP, WORDS, Op
from slubviz.model.lang import Program


class Activity(IntEnum):
    """What a CPU is doing."""

    IDLE = 0  #: nothing to run, or waiting for the others of a test
    WORKLOAD = 1  #: the test itself, an interrupt handler itself
    FAST_PATH = 2
    SLOW_PATH = 3
    WAITING = 4  #: for a lock


#: Where an allocation or a free enters the allocator.
ENTRIES = (
    "kmalloc",
    "kmalloc_node",
    "kfree",
    "kmem_cache_alloc",
    "kmem_cache_alloc_node",
    "kmem_cache_free",
    "kmem_cache_alloc_bulk",
    "kmem_cache_free_bulk",
)
#: Where the slow path begins.
SLOW_ROOTS = (
    "__slab_alloc",
    "__slab_free",
    "cache_alloc_refill",
    "cache_flusharray",
    "cache_grow",
    "fallback_alloc",
    "____cache_alloc_node",
    "free_remote",
    "cache_reap",
    "__alloc_pages",
    "__free_pages",
    "put_page",
    "drain_local_pages",
)


def activity_of_micro_ops(program: Program) -> NDArray[np.int64]:
    """WORKLOAD, FAST_PATH or SLOW_PATH of each micro-op, shape (micro-ops,)."""
    owners = _innermost_functions(program)
    calls = _calls(program, owners)
    entries = _indices(program, ENTRIES)
    slow_roots = _indices(program, SLOW_ROOTS)
    # Slow is what cannot be reached from outside but through a root.
    called_by_others = {callee for caller, callee in calls if caller != callee}
    everywhere = set(range(len(program.functions))) - called_by_others
    not_slow = _reached((everywhere | entries) - slow_roots, calls, slow_roots)
    inside = _reached(entries | slow_roots, calls, set())
    of_function = np.full(len(program.functions), int(Activity.WORKLOAD), dtype=np.int64)
    for function in inside:
        of_function[function] = Activity.FAST_PATH if function in not_slow else Activity.SLOW_PATH
    return of_function[owners]


def _innermost_functions(program: Program) -> NDArray[np.int64]:
    """Index of the function, inlined ones too, whose source each micro-op is of."""
    owners: NDArray[np.int64] = program.spans[:, 5].astype(np.int64)
    return owners


def _calls(program: Program, owners: NDArray[np.int64]) -> set[tuple[int, int]]:
    """(caller, callee) of every call, an inlined one too."""
    rows = program.code.reshape(-1, WORDS)
    real = np.flatnonzero(rows[:, F_OP] == Op.CALL)
    found = {(int(owners[pc]), int(rows[pc, F_C])) for pc in real}
    return found | {(site.caller, site.function) for site in program.inline_sites}


def _reached(start: set[int], calls: set[tuple[int, int]], barred: set[int]) -> set[int]:
    """What calls lead to from ``start`` without entering ``barred``."""
    callees: dict[int, list[int]] = {}
    for caller, callee in calls:
        callees.setdefault(caller, []).append(callee)
    found, todo = set(start), list(start)
    while todo:
        for callee in callees.get(todo.pop(), ()):
            if callee not in found and callee not in barred:
                found.add(callee)
                todo.append(callee)
    return found


def _indices(program: Program, names: tuple[str, ...]) -> set[int]:
    return {function.index for function in program.functions if function.name in names}
