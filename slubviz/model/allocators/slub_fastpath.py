"""The CPU's freelist of SLUB as a plain pointer: its structure and the fast paths on it.

Two forms.  Without patch 08 interrupts are off while an object is taken or put back.  With it (Christoph
Lameter's "Optional fast path using cmpxchg_local", October 2007; 2.6.25-rc1, taken out in rc3) only
preemption is off, and a compare-and-exchange without lock prefix finds out whether an interrupt has changed
the freelist meanwhile.

Patch 08's fault, why it was taken out: what is compared is the head alone.  An interrupt that allocates two
objects and frees the first leaves the same head with another successor (ABA); the exchange then succeeds
and the next object to be handed out is one that is in use.

What another form of the freelist must define in the place of this file: ``kmem_cache_cpu``, the constants
below it, the accessors, ``slab_alloc`` and ``slab_free``.
"""

PATCH_08 = option(0, "fast paths with cmpxchg_local instead of disabled interrupts", 0, 1)

#: Whether the slow paths are entered with interrupts on, and the allocating one with preemption off.
LOCKLESS = PATCH_08
ENTERED_WITH_PREEMPT_OFF = PATCH_08
#: Whether an empty slab goes back to the page allocator after interrupts are on again.
DISCARD_WITH_IRQS_ON = PATCH_08
#: What a CPU without a slab has as freelist.
EMPTY_FREELIST = PATCH_06


class kmem_cache_cpu(struct):
    """A CPU's slab.  32 bytes on 64-bit machines; two of them share a cache line."""
    freelist: ptr
    page: ptr[page]
    node: int32
    offset: uint32
    objsize: uint32
    objects: uint32


@inline
def is_end(object):
    """Whether a cpu freelist is empty."""
    if PATCH_06:
        return object & 1
    return object == NULL


@inline
def end_of(page: page):
    """What ends this slab's freelist."""
    if PATCH_06:
        return page.end
    return NULL


# --- the CPU's freelist in the slow paths, with interrupts off -----------------------------------


@inline
def may_refill(c: kmem_cache_cpu):
    """Whether the slab's own freelist may replace the CPU's."""
    return 1


@inline
def set_freelist(c: kmem_cache_cpu, object):
    c.freelist = object


@inline
def get_freelist(c: kmem_cache_cpu):
    return c.freelist


@inline
def detach_first(c: kmem_cache_cpu, object: free_object):
    """Take the first object off a freelist that is given back one by one; gives the rest."""
    following = object.next
    c.freelist = following
    return following


@inline
def next_detached(c: kmem_cache_cpu, following):
    """The object to give back next."""
    return c.freelist


@inline
def all_detached(c: kmem_cache_cpu):
    """All objects are given back: the last one's link, an end, is the freelist already."""
    pass


# --- fast paths ----------------------------------------------------------------------------------


@inline
def slab_alloc(s: kmem_cache, gfpflags, node) -> ptr:
    """Fast path: pop the CPU's own freelist."""
    if PATCH_08:
        preempt_off()
        c = get_cpu_slab(s)
        object = cast(free_object, c.freelist)
        while True:
            if is_end(object) or not node_match(c, node):
                object = cast(free_object, __slab_alloc(s, gfpflags, node, c))
                break
            found = cmpxchg_local(c.freelist, object, object.next)
            if found == object:
                count(ALLOC_FASTPATH)
                break
            object = cast(free_object, c.freelist)
        preempt_on()
    else:
        flags = irq_save()
        c = get_cpu_slab(s)
        object = cast(free_object, c.freelist)
        if is_end(object) or not node_match(c, node):
            object = cast(free_object, __slab_alloc(s, gfpflags, node, c))
        else:
            c.freelist = object.next
            count(ALLOC_FASTPATH)
        irq_restore(flags)
    if PATCH_04:
        instructions(1)  # test for zeroing
    else:
        instructions(2)  # tests for zeroing and for a valid object
    return object


@inline
def slab_free(s: kmem_cache, page: page, object: free_object):
    """Fast path: the object belongs to the cpu slab; push it on the CPU's own freelist."""
    if PATCH_08:
        preempt_off()
        c = get_cpu_slab(s)
        while True:
            # The freelist is read before the slab: if the slab changes after this, the freelist
            # does too.
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
        flags = irq_save()
        c = get_cpu_slab(s)
        if page == c.page and c.node >= 0:
            object.next = c.freelist
            c.freelist = object
            count(FREE_FASTPATH)
        else:
            __slab_free(s, page, object)
        irq_restore(flags)
