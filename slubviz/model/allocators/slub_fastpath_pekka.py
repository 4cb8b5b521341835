"""Pekka Enberg's refactoring of patch 08 as he posted it for review, October 2007; never merged.  Faulty.

``do_slab_alloc`` and ``do_slab_free`` hold what differs between a machine with a fast cmpxchg_local and
one without, so that ``slab_alloc`` and ``slab_free`` are free of conditional code.  The file replaces those
two of slub_fastpath.py; structures, slow paths and the other patches are the series' own.  Of patch 08
itself only these fast paths are replaced: with it off, both are the irq-saving forms.

The faults, each an option, on as posted
    ``PEKKA_MISSPELT``: the condition of do_slab_alloc says CONFIG_FAST_CMPXHG_LOCAL.  Nobody defines that, so
    that allocation saves and disables interrupts as before, while __slab_alloc, whose own condition is
    spelt right, still takes preemption to have been disabled: it enables it on entry and disables it on
    exit.  With CONFIG_PREEMPT the preempt count is one too low inside of each slow allocation, -1 for a
    task.  (As a side effect the ABA of the lockless allocation cannot happen.)
    ``PEKKA_UNMATCHED_PUT_CPU``: the lockless do_slab_alloc ends in put_cpu() without a get_cpu() (Andrew
    Morton: "Unmatched put_cpu()").  Each allocation lowers the preempt count by one for good.  It shows
    only where the name is spelt right, PEKKA_MISSPELT=0.
    ``PEKKA_EARLY_CPU``: the CPU's structure is looked up before interrupts, or preemption, are disabled
    (Andrew Morton: "smp_processor_id() in preemptible code").  A task that is moved to another CPU in
    between works on the other CPU's freelist, which two CPUs then change at once.  This machine does not
    move tasks by itself; a test puts the number of the other CPU into the register, which is the state of
    a task that was moved.

Also as posted: slab_alloc tests the object again, which patch 04 had saved.
"""

PEKKA_MISSPELT = option(1, "the condition of do_slab_alloc is misspelt: it disables interrupts", 0, 1)
PEKKA_UNMATCHED_PUT_CPU = option(1, "the lockless do_slab_alloc has put_cpu without get_cpu", 0, 1)
PEKKA_EARLY_CPU = option(1, "the CPU number is read while the task can still be moved", 0, 1)

LOCKLESS_ALLOC = PATCH_08 and not PEKKA_MISSPELT


@inline
def do_slab_alloc(s: kmem_cache, c: kmem_cache_cpu, gfpflags, node) -> ptr:
    """Pop the CPU's own freelist, or take the slow path."""
    if LOCKLESS_ALLOC:
        if not PEKKA_UNMATCHED_PUT_CPU:
            preempt_off()
        if not PEKKA_EARLY_CPU:
            c = get_cpu_slab(s)
        while True:
            object = cast(free_object, c.freelist)
            if is_end(object) or not node_match(c, node):
                object = cast(free_object, __slab_alloc(s, gfpflags, node, c))
                break
            if cmpxchg_local(c.freelist, object, object.next) == object:
                count(ALLOC_FASTPATH)
                break
        preempt_on()
    else:
        flags = irq_save()
        if not PEKKA_EARLY_CPU:
            c = get_cpu_slab(s)
        object = cast(free_object, c.freelist)
        if is_end(object) or not node_match(c, node):
            object = cast(free_object, __slab_alloc(s, gfpflags, node, c))
        else:
            c.freelist = object.next
            count(ALLOC_FASTPATH)
        irq_restore(flags)
    return object


@override
@inline
def slab_alloc(s: kmem_cache, gfpflags, node) -> ptr:
    """Allocation, free of conditional code."""
    c: kmem_cache_cpu = NULL
    if PEKKA_EARLY_CPU:
        c = get_cpu_slab(s)
    object = do_slab_alloc(s, c, gfpflags, node)
    instructions(2)  # tests for a valid object and for zeroing
    return object


@inline
def do_slab_free(s: kmem_cache, page: page, object: free_object):
    """Push the object on the CPU's own freelist, or take the slow path."""
    if PATCH_08:
        preempt_off()
        c = get_cpu_slab(s)
        while True:
            # The freelist is read before the slab, as in patch 08.
            freelist = c.freelist
            barrier()
            if page != c.page or c.node < 0:
                __slab_free(s, page, object)
                break
            object.next = freelist
            if cmpxchg_local(c.freelist, freelist, object) == freelist:
                count(FREE_FASTPATH)
                break
        preempt_on()
    else:
        if PEKKA_EARLY_CPU:
            c = get_cpu_slab(s)
        flags = irq_save()
        if not PEKKA_EARLY_CPU:
            c = get_cpu_slab(s)
        if page == c.page and c.node >= 0:
            object.next = c.freelist
            c.freelist = object
            count(FREE_FASTPATH)
        else:
            __slab_free(s, page, object)
        irq_restore(flags)


@override
@inline
def slab_free(s: kmem_cache, page: page, object: free_object):
    """Free, free of conditional code."""
    do_slab_free(s, page, object)
