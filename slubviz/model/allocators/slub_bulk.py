"""Allocation and free of many objects at once, as SLUB got it in 4.3 and 4.4, and the fallback.

``BULK=0`` is the fallback: a loop over the ordinary functions.  ``BULK=1`` is the form of 4.3: one pair of
interrupt off and on around a loop over the CPU's own freelist; the slow paths are called with interrupts
on.  ``BULK=2`` is the form of 4.4: allocation calls its slow path with interrupts off, and free looks for
objects of the same slab, chains them and frees the chain by one exchange.

Whoever turns interrupts on in between must move the transaction id on first, or an operation that began
before can take the freelist for unchanged.  Free did so from the start, allocation only since 2020:
``BULK_ALLOC_TID=0``, the default, is how it was.

Left out: the debugging fallback, memory cgroups, zeroing.
"""

BULK = option(0, "bulk operations: 0 a loop over single ones, 1 the form of 4.3, 2 the form of 4.4", 0, 2)
BULK_ALLOC_TID = option(0, "bulk allocation moves the transaction id on before its slow path (2020)", 0, 1)

LOOK_AHEAD = 3


def kmem_cache_alloc(s: kmem_cache, gfpflags) -> ptr:
    """One object of a cache."""
    object = slab_alloc(s, gfpflags, -1)
    instructions(1)  # trace point
    return object


def kmem_cache_free(s: kmem_cache, object: free_object):
    instructions(2)  # test of the memory cgroup and debug flags
    slab_free(s, virt_to_head_page(object), object, object, 1)
    instructions(1)  # trace point


@inline
def private_cache() -> ptr[kmem_cache]:
    """A cache of 256-byte objects that nobody shares, as without merging."""
    return addressof(kmalloc_caches.cache[0])


@inline
def free_one_by_one(s: kmem_cache, n, array: ptr[ptr]):
    for i in range(n):
        kmem_cache_free(s, array[i])


@inline
def alloc_one_by_one(s: kmem_cache, gfpflags, n, array: ptr[ptr]):
    for i in range(n):
        object = kmem_cache_alloc(s, gfpflags)
        array[i] = object
        if object == NULL:
            free_one_by_one(s, i, array)
            return 0
    return n


@inline
def alloc_from_cpu_freelist(s: kmem_cache, gfpflags, n, array: ptr[ptr]):
    """Pop the CPU's freelist with interrupts off; where it is empty the slow path gives one object and
    fills it again."""
    irq_disable()
    c = this_cpu_slab(s)
    failed_at = -1
    for i in range(n):
        object = cast(free_object, c.freelist)
        if object != NULL:
            c.freelist = get_freepointer(object)
            array[i] = object
            continue
        if BULK_ALLOC_TID:
            c.tid = next_tid(c.tid)
        if BULK == 1:
            irq_enable()
            object = cast(free_object, __slab_alloc(s, gfpflags, -1))
            irq_disable()
        else:
            object = cast(free_object, ___slab_alloc(s, gfpflags, -1))
        if object == NULL:
            failed_at = i
            break
        array[i] = object
        c = this_cpu_slab(s)
    c.tid = next_tid(c.tid)
    irq_enable()
    if failed_at >= 0:
        free_one_by_one(s, failed_at, array)
        return 0
    return n


def kmem_cache_alloc_bulk(s: kmem_cache, gfpflags, n, array: ptr[ptr]) -> word:
    """Allocate n objects.  Interrupts must be on.  Returns n, or 0 without memory, when it keeps nothing."""
    if BULK == 0:
        return alloc_one_by_one(s, gfpflags, n, array)
    return alloc_from_cpu_freelist(s, gfpflags, n, array)


@inline
def free_to_cpu_freelist(s: kmem_cache, n, array: ptr[ptr]):
    """The form of 4.3: objects of the cpu slab are linked in with interrupts off, each other one takes
    the slow path with interrupts on."""
    irq_disable()
    c = this_cpu_slab(s)
    for i in range(n):
        object = cast(free_object, array[i])
        bug_on(object == NULL, "NULL in an array of objects to free")
        page = virt_to_head_page(object)
        bug_on(page.slab != s, "an object to free is of another cache")
        if c.page == page:
            set_freepointer(object, c.freelist)
            c.freelist = object
        else:
            c.tid = next_tid(c.tid)
            irq_enable()
            __slab_free(s, page, object, object, 1)
            irq_disable()
            c = this_cpu_slab(s)
    c.tid = next_tid(c.tid)
    irq_enable()


@inline
def free_detached(s: kmem_cache, n, array: ptr[ptr]):
    """The form of 4.4: from the end of the array, chain objects of one slab, step over up to two others,
    free the chain at once; then again from the first that was stepped over.  Clears the array."""
    left = n
    while left > 0:
        left -= 1
        tail = cast(free_object, array[left])
        if tail == NULL:
            continue
        set_freepointer(tail, NULL)
        array[left] = NULL
        page = virt_to_head_page(tail)
        head = tail
        nr_objects = 1
        again_from = 0
        misses = 0
        at = left
        while at > 0:
            at -= 1
            object = cast(free_object, array[at])
            if object == NULL:
                continue
            if virt_to_head_page(object) == page:
                set_freepointer(object, head)
                head = object
                nr_objects += 1
                array[at] = NULL
                continue
            misses += 1
            if misses == LOOK_AHEAD:
                break
            if again_from == 0:
                again_from = at + 1
        left = again_from
        slab_free(s, page, head, tail, nr_objects)


def kmem_cache_free_bulk(s: kmem_cache, n, array: ptr[ptr]) -> None:
    """Free n objects.  Interrupts must be on; the array may be cleared."""
    if BULK == 0:
        free_one_by_one(s, n, array)
    elif BULK == 1:
        free_to_cpu_freelist(s, n, array)
    else:
        free_detached(s, n, array)
