"""The CPU's freelist of SLUB as sequence number and offset: Mathieu Desnoyers, March 2008, never merged.

After "Implement slub fastpath with sequence number", for 2.6.25-rc4.  The word that is compared and
exchanged holds in its low half the low half of the first object's address, and above it a number that
each change of the freelist increments.  ``base`` in the CPU's structure holds the high half of the address.
An interrupt that leaves the same head behind leaves another number, so that the exchange fails (no ABA).

Rules that keep the number honest
    At its maximum nobody takes the fast path.  The slow path increments it too, and only outside of
    interrupts does it let it wrap; an interrupt leaves the maximum in place.  So a number that an interrupt
    found cannot come back while the interrupted fast path waits.
    A pointer whose high half is not ``base`` takes the slow path.
    The freelist is read again after ``base``, before the two are put together to a pointer that is followed.

Options for what went before: without ``OVERFLOW_CHECK`` the number wraps wherever it is; ``SMALL_ERROR`` is
the version before the last, in which a task's fast path that finds the maximum wraps it itself.
Interrupts, which cannot count on from the maximum, may have changed the first object's successor meanwhile.

Two options follow the letter of the mail where the default does not.
    ``LAST_OBJECT_SLOW``: the posted code looks for ``base`` in the link that it read, too.  The end, 1, never
    has it, so the last object of every slab takes the slow path, which gives the slab up and takes it from
    the node's list again.  The mail's own figures say that what was measured did not do this: the gain
    over the old code falls with the share of other objects in a slab as if the last one were one of them
    (95 cycles with 512 objects a slab, 67 and 69 with four, 41 with two).
    ``LOSES_LOCAL_OBJECTS``: when the fast path has turned away from objects (the last one, or any at the
    maximum) and others lie on the slab's own freelist, a refill takes those and forgets the CPU's.  The
    mail shows only parts of that function; by default the CPU's objects are given back first.

The kernel's addresses start at PAGE_OFFSET, those of this machine at 0, so that on 64-bit machines the end
mark 1 would have the high half of ordinary addresses; there it has one that no address has.

Left out: the form for machines without a fast cmpxchg_local; CONFIG_DEBUG_VM's warning when the
number moved by more than half its range.  The fast-path counters are taken before the exchange, as in the
mail: an attempt that an interrupt spoilt counts too.
"""

HALF_BITS = 4 * WORD_BYTES
SEQUENCE_BITS = option(HALF_BITS, "width of the sequence number", 4, HALF_BITS)
OVERFLOW_CHECK = option(1, "at the maximum of the sequence number everybody takes the slow path", 0, 1)
SMALL_ERROR = option(0, "a task's fast path wraps the sequence number itself (the version before)", 0, 1)
LAST_OBJECT_SLOW = option(0, "the last object of a list takes the slow path", 0, 1)
LOSES_LOCAL_OBJECTS = option(0, "a refill forgets objects that are left on the CPU's freelist", 0, 1)

ONE = 1 << HALF_BITS
OFFSET_MASK = ONE - 1
SEQUENCE_MASK = ((1 << SEQUENCE_BITS) - 1) << HALF_BITS
BASE_MASK = ~OFFSET_MASK
END = 1 if WORD_BYTES == 4 else (1 << 62) + 1

#: Whether the slow paths are entered with interrupts on, and the allocating one with preemption off.
LOCKLESS = 1
ENTERED_WITH_PREEMPT_OFF = 0
#: Whether an empty slab goes back to the page allocator after interrupts are on again.
DISCARD_WITH_IRQS_ON = 0
#: What a CPU without a slab has as freelist: the end, set once.
EMPTY_FREELIST = ONE + 1


class kmem_cache_cpu(struct):
    """A CPU's slab.  40 bytes on 64-bit machines."""
    freelist: word  # sequence number and offset
    page: ptr[page]
    base: word
    node: int32
    offset: uint32
    objsize: uint32
    objects: uint32  # read by patch 07 only


@inline
def is_end(object):
    """Whether a pointer, or the freelist word itself, is an end: END, or its low half under any base."""
    return object & 1


@inline
def end_of(page: page):
    """What ends this slab's freelist: the same for all."""
    return END


@inline
def same_base(base, object):
    return object & BASE_MASK == base


@inline
def make_ptr(base, version):
    return base | (version & OFFSET_MASK)


@inline
def make_version(version, object):
    """The next sequence number with the offset of object."""
    return ((version + ONE) & SEQUENCE_MASK) | (object & OFFSET_MASK)


@inline
def at_maximum(version):
    return version & SEQUENCE_MASK == SEQUENCE_MASK


@inline
def must_go_slow(version):
    """Whether the state of the sequence number forbids the fast path."""
    if not OVERFLOW_CHECK:
        return 0
    if SMALL_ERROR:
        return at_maximum(version) and in_interrupt()
    return at_maximum(version)


# --- the CPU's freelist in the slow paths, with interrupts off -----------------------------------


@inline
def may_refill(c: kmem_cache_cpu):
    """Whether the slab's own freelist may replace the CPU's."""
    if LOSES_LOCAL_OBJECTS:
        return 1
    return is_end(c.freelist)


@inline
def set_freelist(c: kmem_cache_cpu, object):
    """Another freelist; an interrupt does not count on from the maximum."""
    c.base = object & BASE_MASK
    version = c.freelist
    if OVERFLOW_CHECK and at_maximum(version) and in_interrupt():
        c.freelist = SEQUENCE_MASK | (object & OFFSET_MASK)
    else:
        c.freelist = make_version(version, object)


@inline
def get_freelist(c: kmem_cache_cpu):
    return make_ptr(c.base, c.freelist)


@inline
def detach_first(c: kmem_cache_cpu, object: free_object):
    """The rest of a freelist that is given back one by one."""
    return object.next


@inline
def next_detached(c: kmem_cache_cpu, following):
    """The object to give back next."""
    return following


@inline
def all_detached(c: kmem_cache_cpu):
    """All objects are given back: written once, so that it counts once."""
    set_freelist(c, END)


# --- fast paths ----------------------------------------------------------------------------------


@inline
def slab_alloc(s: kmem_cache, gfpflags, node) -> ptr:
    """Fast path: pop the CPU's own freelist."""
    preempt_off()
    c = get_cpu_slab(s)
    while True:
        old = c.freelist
        barrier()  # the number is read before what it stands for
        base = c.base
        if is_end(old) or not node_match(c, node) or must_go_slow(old):
            preempt_on()
            object = cast(free_object, __slab_alloc(s, gfpflags, node, c))
            break
        barrier()
        if c.freelist != old:
            continue
        object = cast(free_object, make_ptr(base, old))
        # If an interrupt has taken the object meanwhile, what is read here may be anything; the number tells.
        following = object.next
        if not same_base(base, following) and (LAST_OBJECT_SLOW or not is_end(following)):
            preempt_on()
            object = cast(free_object, __slab_alloc(s, gfpflags, node, c))
            break
        count(ALLOC_FASTPATH)
        if cmpxchg_local(c.freelist, old, make_version(old, following)) == old:
            preempt_on()
            break
    instructions(2)  # tests for zeroing and for a valid object
    return object


@inline
def slab_free(s: kmem_cache, page: page, object: free_object):
    """Fast path: the object belongs to the cpu slab; push it on the CPU's own freelist."""
    preempt_off()
    c = get_cpu_slab(s)
    while True:
        old = c.freelist
        barrier()  # the number is read before the slab: a change of slab is a change of the number
        base = c.base
        if must_go_slow(old) or not same_base(base, object) or page != c.page or c.node < 0:
            preempt_on()
            __slab_free(s, page, object)
            break
        object.next = make_ptr(base, old)
        count(FREE_FASTPATH)
        if cmpxchg_local(c.freelist, old, make_version(old, object)) == old:
            preempt_on()
            break
