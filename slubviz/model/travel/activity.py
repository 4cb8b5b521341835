"""What a CPU is doing, told from the micro-op that it executes next.

A fast path is all of kmalloc and kfree (and of the functions for one cache) that is not a slow path.  A slow
path is the functions below, its *roots*, and all that they call.  A function that both paths call, or that
the workload calls too, belongs to whoever called it.  Of inlined functions the innermost decides that can.
A kernel file with other names has a slow path as far as it uses one of the roots.
"""

from __future__ import annotations

from collections.abc import Mapping
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
#: Functions that return an object.
ALLOCATING = ("kmalloc", "kmalloc_node", "kmem_cache_alloc", "kmem_cache_alloc_node")
#: Functions that take an object, and which of their parameters it is.
FREEING = {"kfree": 0, "kmem_cache_free": 1}
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
    "flush_cpu_slab",
    "__get_free_pages",
    "__alloc_pages",
    "__free_pages",
    "put_page",
    "drain_local_pages",
)
#: Instead of an activity: the micro-op belongs to whoever called its function.
AS_CALLER = -1


def activity_of_micro_ops(program: Program) -> NDArray[np.int64]:
    """WORKLOAD, FAST_PATH, SLOW_PATH or AS_CALLER of each micro-op, shape (micro-ops,)."""
    of_function = _of_functions(program)
    # The innermost function of each inline site that can say; sites come after the one they are part of.
    of_site: list[int] = []
    for site in program.inline_sites:
        own = of_function[site.function]
        outer = of_site[site.parent] if 0 <= site.parent < len(of_site) else AS_CALLER
        of_site.append(outer if own == AS_CALLER else own)
    found = np.empty(program.micro_ops, dtype=np.int64)
    for function in program.functions:
        found[function.entry_pc : function.end_pc] = of_function[function.index]
    sites = np.array([*of_site, AS_CALLER], dtype=np.int64)[program.inline_site]
    return np.where(sites == AS_CALLER, found, sites)


def _of_functions(program: Program) -> list[int]:
    """The activity of each function that belongs to one alone, AS_CALLER for the others."""
    callees = _callees(program)
    entries, roots = _indices(program, ENTRIES), _indices(program, SLOW_ROOTS)
    known = dict.fromkeys(entries, Activity.FAST_PATH) | dict.fromkeys(roots, Activity.SLOW_PATH)
    called = {callee for caller, found in callees.items() for callee in found if callee != caller}
    # What nobody calls is started from outside, unless an option has left it without a use.
    of_allocator = {function.file for function in program.functions if function.index in known}
    contexts: list[set[Activity]] = [set() for _ in program.functions]
    for function in program.functions:
        if function.index in known:
            _spread(function.index, known[function.index], callees, known, contexts)
        elif function.index not in called and function.file not in of_allocator:
            _spread(function.index, Activity.WORKLOAD, callees, known, contexts)
    return [
        int(known[i]) if i in known else int(next(iter(found))) if len(found) == 1 else AS_CALLER
        for i, found in enumerate(contexts)
    ]


def _spread(
    function: int,
    activity: Activity,
    callees: Mapping[int, set[int]],
    known: Mapping[int, Activity],
    contexts: list[set[Activity]],
) -> None:
    """Note an activity for a function and for all that it calls, but for those that have one of their own."""
    todo = [function]
    while todo:
        here = todo.pop()
        if activity in contexts[here]:
            continue
        contexts[here].add(activity)
        todo += [callee for callee in callees.get(here, ()) if callee not in known]


def _callees(program: Program) -> dict[int, set[int]]:
    """Function -> functions that it calls or that are expanded in it."""
    found: dict[int, set[int]] = {}
    owners = program.spans[:, 5].astype(np.int64)
    rows = program.code.reshape(-1, WORDS)
    for pc in np.flatnonzero(rows[:, F_OP] == Op.CALL):
        found.setdefault(int(owners[pc]), set()).add(int(rows[pc, F_C]))
    for site in program.inline_sites:
        found.setdefault(site.caller, set()).add(site.function)
    return found


def _indices(program: Program, names: tuple[str, ...]) -> set[int]:
    return {function.index for function in program.functions if function.name in names}
