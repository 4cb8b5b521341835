"""An independent, slow, obvious model of SLUB, to hold the simulated machine against.

The simulator runs each allocator as a program on a simulated machine.  This package does the same
work a second time with plain Python lists and sets, one whole operation at a time, written from the
mails and sharing no code with the simulator.  Where both give the same counts, slab states and
addresses, a mistake must have been made twice, in two different styles, to go unseen.

What is modelled
    SLUB of 2.6.24-rc1 (``"SLUB"``), the same with all ten patches of October 2007 (``"SLUB+"``), and
    that booted with ``slub_max_order=3 slub_min_objects=20`` (``"SLUB-o"``); the kmalloc caches, the
    order calculation, fast and slow paths, deactivation, the partial lists, the return of slabs; below
    it the per-cpu page lists and a count of zone lock acquisitions.  On any number of CPUs and nodes.

What is left out
    Time.  Interleaving inside an operation: operations run whole, one after the other, so a trylock
    never fails and nobody waits.  The one exception is the window in which SLUB allocates pages with
    interrupts on, into which a caller can put operations (``in_window`` of `Slub.alloc`).  Debugging
    options, constructors, cache merging, ``kmem_cache_shrink``, the merging of free pages, memory
    running out.

How to use it
    One operation at a time:

    >>> slub = Slub(page_size=4096, variant="SLUB+", cpus=8)
    >>> a = slub.alloc(0, 64)
    >>> b = slub.alloc(0, 64)
    >>> slub.address(b)
    Address(slab=0, slot=1)
    >>> slub.free(3, a)
    >>> slub.counters["FREE_FROZEN"]
    1
    >>> view = slub.slabs()[0]
    >>> view.inuse, view.cpu, view.freelist, view.allocated
    (63, 0, (0,), (1,))
    >>> slub.check()

    A whole test of the mail, and what it must count, without running anything:

    >>> delta = run_test("B", size=64, ops=10_000, cpus=8)
    >>> delta["kfree"]["FREE_SLOWPATH"]
    9984
    >>> delta == expected_counters("B", size=64, ops=10_000, cpus=8)
    True

    `COUNTER_MEANING` says for every counter where it is counted.  Names in capitals are the kernel's
    statistics of 2.6.25, put at the same places in the older code; the others are this model's.
    To compare with a machine, sum the machine's counters over CPUs and take the keys of `KERNEL_COUNTERS`.

Files
    ``geometry`` size classes and orders; ``pages`` page allocator; ``counters`` names and meanings; ``slub``
    the allocator; ``invariants`` what `Slub.check` looks at; ``runs`` tests A to F; ``closed_form`` the
    same counts by formula; ``test_oracle_*`` tests of all this.

Source: the ten patches "SLUB: SMP regression tests on Dual Xeon E5345 (8p) and new performance patches"
(linux-mm, 2007-10-28), and for the statistics the patch that adds them in 2.6.25 with its later fix.
"""

from __future__ import annotations

from .closed_form import expected_counters, expected_new_slabs, expected_pcp_drains, expected_pcp_refills
from .counters import COUNTER_MEANING, KERNEL_COUNTERS, MODEL_COUNTERS, Counters, counters_delta
from .geometry import Geometry, cache_size, kmalloc_sizes, slab_geometry
from .runs import TESTS, run_test, run_test_on
from .slub import Address, SlabState, SlabView, Slub

__all__ = [
    "COUNTER_MEANING",
    "KERNEL_COUNTERS",
    "MODEL_COUNTERS",
    "TESTS",
    "Address",
    "Counters",
    "Geometry",
    "SlabState",
    "SlabView",
    "Slub",
    "cache_size",
    "counters_delta",
    "expected_counters",
    "expected_new_slabs",
    "expected_pcp_drains",
    "expected_pcp_refills",
    "kmalloc_sizes",
    "run_test",
    "run_test_on",
    "slab_geometry",
]
