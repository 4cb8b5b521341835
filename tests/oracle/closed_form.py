"""Tests A to F counted by formula, for a fresh kernel.

Nothing here runs an allocator.  With N objects in a slab, n operations of one CPU need s = ceil(n / N)
slabs, and the last slab holds r = n - (s - 1) N objects; all else follows from these three.
The formulas hold for any size, order, number of CPUs and nodes; a hypothesis test compares
them with the model.  They assume that a batch of the per-cpu lists is smaller than their limit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .counters import Counters, counters_sum, zero_counters
from .geometry import page_order, slab_geometry
from .pages import default_pcp_batch
from .runs import check_test


class Shape(NamedTuple):
    """What the formulas need to know of one size on one kernel."""

    objects: int  #: in a slab; 0 for large objects
    order: int  #: of a slab or a large object
    slab_lock_ops: int  #: locked instructions of a pair of slab_lock and slab_unlock
    batch: int  #: of the per-cpu page lists
    high: int


def expected_new_slabs(ops: int, objects: int) -> int:
    """Slabs that `ops` allocations of one CPU take, with `objects` in a slab."""
    return -(-ops // objects)


def expected_pcp_refills(pages: int, batch: int) -> int:
    """Batches that one CPU takes from the zone for `pages` single pages, its list empty at first."""
    return -(-pages // batch)


def expected_pcp_drains(pages: int, batch: int, high: int, start: int = 0) -> int:
    """Batches that one CPU gives back to the zone while it frees `pages` single pages.

    Its list holds `start` pages at first, gives a batch back each time that it reaches `high`.
    """
    if start + pages < high:
        return 0
    return 1 + (start + pages - high) // batch


def expected_counters(
    test: str,
    size: int,
    ops: int,
    cpus: int = 8,
    nodes: int = 1,
    page_size: int = 4096,
    variant: str = "SLUB",
    pcp_batch: int | None = None,
    pcp_high: int | None = None,
    **limits: Any,
) -> dict[str, Counters]:
    """What `run_test` with the same arguments returns, by formula.

    Raises
    ------
    ValueError
        An argument is unknown or out of range.
    """
    check_test(test, ops, cpus)
    if not 1 <= nodes <= cpus:
        raise ValueError(f"{cpus} cpus, {nodes} nodes: need 1 <= nodes <= cpus")
    batch = default_pcp_batch(page_size) if pcp_batch is None else pcp_batch
    geometry = slab_geometry(page_size, size, variant, **limits)
    shape = Shape(
        objects=0 if geometry is None else geometry.objects,
        order=page_order(page_size, size) if geometry is None else geometry.order,
        slab_lock_ops=2 if variant == "SLUB" else 1,
        batch=batch,
        high=6 * batch if pcp_high is None else pcp_high,
    )
    active = {"A": 1, "B": 1, "C": 1, "D": cpus, "E": cpus, "F": cpus - 1}[test]
    if test in ("C", "E"):
        return {"kmalloc+kfree": counters_sum([_pairs(shape, ops)] * active)}
    result = {"kmalloc": counters_sum([_allocations(shape, ops)] * active)}
    if test in ("B", "D"):
        result["kfree"] = counters_sum([_local_frees(shape, ops)] * active)
    elif test == "F":
        remote_cpus = [0] * nodes
        for cpu in range(1, cpus):
            remote_cpus[cpu * nodes // cpus] += 1
        result["kfree"] = counters_sum(_remote_frees(shape, ops, count) for count in remote_cpus)
    return result


def _slabs(shape: Shape, ops: int) -> tuple[int, int]:
    """Slabs that one CPU fills and gives up, and objects in its last one, the cpu slab."""
    if shape.objects == 0 or ops == 0:
        return 0, 0
    full = expected_new_slabs(ops, shape.objects) - 1
    return full, ops - full * shape.objects


def _blocks(shape: Shape, ops: int) -> int:
    """Blocks of pages that one CPU takes for `ops` allocations."""
    return ops if shape.objects == 0 else expected_new_slabs(ops, shape.objects)


def _allocations(shape: Shape, ops: int) -> Counters:
    """One CPU allocates."""
    blocks = _blocks(shape, ops)
    refills = expected_pcp_refills(blocks, shape.batch) if shape.order == 0 else 0
    n = zero_counters()
    n["page_alloc"] = blocks
    n["pcp_refill"] = refills
    n["zone_lock"] = refills if shape.order == 0 else blocks
    if shape.objects == 0:
        n["large_alloc"] = ops
        return n
    given_up, _ = _slabs(shape, ops)
    n["ALLOC_SLAB"] = n["ALLOC_SLOWPATH"] = blocks
    n["ALLOC_FASTPATH"] = ops - blocks
    n["DEACTIVATE_FULL"] = n["alloc_refill_tried"] = given_up
    n["slab_lock"] = blocks + given_up  # each new slab once, each full one once
    n["locked_ops"] = n["slab_lock"] * shape.slab_lock_ops + blocks
    return n


def _free_blocks(shape: Shape, blocks: int, start: int) -> Counters:
    """CPU 0 gives `blocks` blocks of pages back; its list of that zone holds `start` pages at first."""
    drains = expected_pcp_drains(blocks, shape.batch, shape.high, start) if shape.order == 0 else 0
    n = zero_counters()
    n["page_free"] = blocks
    n["pcp_drain"] = drains
    n["zone_lock"] = drains if shape.order == 0 else blocks
    return n


def _frees_of_full_slabs(shape: Shape, slabs: int) -> Counters:
    """Every object of full slabs that are nobody's cpu slab is freed, the slabs with them.

    The first free lists the slab and the last unlists it, unless it is the same one.
    """
    n = zero_counters()
    n["FREE_SLOWPATH"] = n["slab_lock"] = slabs * shape.objects
    if shape.objects > 1:
        n["FREE_ADD_PARTIAL"] = n["FREE_REMOVE_PARTIAL"] = slabs
    n["FREE_SLAB"] = slabs
    n["list_lock"] = n["FREE_ADD_PARTIAL"] + n["FREE_REMOVE_PARTIAL"]
    n["locked_ops"] = n["slab_lock"] * shape.slab_lock_ops + n["list_lock"] + slabs
    return n


def _local_frees(shape: Shape, ops: int) -> Counters:
    """The CPU that made `ops` allocations frees them all, in any order.

    Any order: a slab that is not the cpu slab stays listed from its first free to its last.
    """
    taken = _blocks(shape, ops)
    left = expected_pcp_refills(taken, shape.batch) * shape.batch - taken
    if shape.objects == 0:
        n = _free_blocks(shape, ops, left)
        n["large_free"] = ops
        return n
    given_up, last = _slabs(shape, ops)
    n = counters_sum([_frees_of_full_slabs(shape, given_up), _free_blocks(shape, given_up, left)])
    n["FREE_FASTPATH"] = last
    return n


def _remote_frees(shape: Shape, ops: int, cpus: int) -> Counters:
    """CPU 0, which has allocated nothing, frees what `cpus` other CPUs of one node allocated."""
    if shape.objects == 0:
        n = _free_blocks(shape, ops * cpus, 0)
        n["large_free"] = ops * cpus
        return n
    given_up, last = _slabs(shape, ops)
    n = counters_sum(
        [_frees_of_full_slabs(shape, given_up * cpus), _free_blocks(shape, given_up * cpus, 0)],
    )
    n["FREE_SLOWPATH"] += last * cpus  # the last slabs are still cpu slabs
    n["FREE_FROZEN"] = last * cpus
    n["slab_lock"] += last * cpus
    n["locked_ops"] += last * cpus * shape.slab_lock_ops
    return n


def _pairs(shape: Shape, ops: int) -> Counters:
    """One CPU allocates and frees: the first allocation makes a slab, which serves all the others."""
    if ops == 0:
        return zero_counters()
    if shape.objects > 0:
        n = _allocations(shape, 1)
        # A slab of one object has an empty freelist only between the two halves of a pair.
        n["ALLOC_FASTPATH"] = ops - 1
        n["FREE_FASTPATH"] = ops
        return n
    n = zero_counters()
    n["page_alloc"] = n["page_free"] = n["large_alloc"] = n["large_free"] = ops
    n["pcp_refill"] = 1 if shape.order == 0 else 0
    n["zone_lock"] = 1 if shape.order == 0 else 2 * ops
    return n
