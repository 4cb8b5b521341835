"""Names of the counters and where each is counted.

Names in capitals are the kernel's.  Statistics came with 2.6.25; the 2007 versions have none, so
each is put where that kernel has it, in the same function and branch.  Lower-case names
count what no kernel of the time counted.
"""

from __future__ import annotations

from collections.abc import Iterable

Counters = dict[str, int]

#: Kernel statistics: name -> where the count is taken.
KERNEL_COUNTERS: dict[str, str] = {
    "ALLOC_FASTPATH": "slab_alloc, object popped from the cpu freelist",
    "ALLOC_SLOWPATH": "__slab_alloc, at its exit: every successful slow allocation, whatever it found",
    "FREE_FASTPATH": "slab_free, object pushed on the cpu freelist: it lies in this CPU's cpu slab",
    "FREE_SLOWPATH": "__slab_free, at its entry: every other free",
    "FREE_FROZEN": "__slab_free, the slab is some CPU's cpu slab",
    "FREE_ADD_PARTIAL": "__slab_free, after adding the slab to its node's partial list: it was full, "
    "is not frozen and has other objects in use",
    "FREE_REMOVE_PARTIAL": "__slab_free, after unlisting a slab that became empty and was listed before",
    "ALLOC_FROM_PARTIAL": "__slab_alloc, get_partial gave a slab",
    "ALLOC_SLAB": "__slab_alloc, new_slab gave a slab; counted even if the slab is then dropped",
    "ALLOC_REFILL": "__slab_alloc, the cpu slab's own freelist had objects (remote frees). 3.1 counts here; "
    "2.6.25 counts before it looks at the freelist: see alloc_refill_tried",
    "FREE_SLAB": "an empty slab goes back: __slab_free, or unfreeze_slab when there are partial slabs enough",
    "CPUSLAB_FLUSH": "flush_slab, at its entry",
    "DEACTIVATE_FULL": "unfreeze_slab, objects in use and none on the slab's freelist",
    "DEACTIVATE_EMPTY": "unfreeze_slab, no object in use, whether the slab is then kept or given back",
    "DEACTIVATE_TO_HEAD": "unfreeze_slab, partly used slab added at the head; not counted for an empty slab",
    "DEACTIVATE_TO_TAIL": "unfreeze_slab, partly used slab added at the tail; not counted for an empty slab",
    "DEACTIVATE_REMOTE_FREES": "deactivate_slab, at its entry: the slab's own freelist has objects "
    "(the corrected test of 2.6.25-rc5)",
}

#: Counters of this model: name -> where the count is taken.
MODEL_COUNTERS: dict[str, str] = {
    "alloc_refill_tried": "__slab_alloc, the CPU had a slab of the right node, whose freelist is not yet "
    "looked at: where 2.6.25 has ALLOC_REFILL",
    "deactivate_empty_kept": "unfreeze_slab, an empty slab went to the tail of a short partial list",
    "new_slab_dropped": "__slab_alloc, a new slab given back because the CPU got another one meanwhile; "
    "no kernel statistic counts this free",
    "alloc_retried": "__slab_alloc, after that: the other slab had no free object either, start over",
    "list_lock": "acquisitions of list_lock",
    "slab_lock": "acquisitions of the per-slab lock, by lock or trylock",
    "locked_ops": "locked instructions of SLUB on x86: slab_lock 1, slab_unlock 1 (0 with patch 09), "
    "list_lock 1 per acquisition, nr_slabs 1 per change; the page allocator's are not in it",
    "zone_lock": "acquisitions of zone->lock",
    "pcp_refill": "a batch of pages moved from the zone to a per-cpu list",
    "pcp_drain": "a batch of pages moved from a per-cpu list to the zone",
    "page_alloc": "blocks of pages taken, of any order, for slabs and for large objects",
    "page_free": "blocks of pages given back",
    "large_alloc": "kmalloc above half a page, handed to the page allocator",
    "large_free": "kfree of such an object",
}

#: All counters: name -> where the count is taken.
COUNTER_MEANING: dict[str, str] = {**KERNEL_COUNTERS, **MODEL_COUNTERS}


def zero_counters() -> Counters:
    """Every counter, at 0."""
    return dict.fromkeys(COUNTER_MEANING, 0)


def counters_delta(after: Counters, before: Counters) -> Counters:
    """What was counted between two readings, every counter."""
    return {name: after[name] - before[name] for name in COUNTER_MEANING}


def counters_sum(parts: Iterable[Counters]) -> Counters:
    """Sum of several readings, every counter."""
    total = zero_counters()
    for part in parts:
        for name, value in part.items():
            total[name] += value
    return total
