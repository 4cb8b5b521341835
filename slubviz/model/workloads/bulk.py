"""Bulk allocation and free: N objects of 256 bytes with one call each, as in the module behind Jesper
Dangaard Brouer's mail of 2015 (there N objects of an sk_buff's size, on one CPU, without sleeping).

With MERGE the objects come from kmalloc-256, of whose slabs other users hold some objects; without it from
a cache that nobody else uses (the kernel's spare cache, number 0).  An operation is one object allocated and
freed.  Objects are not written by the test.
"""

BULK_OBJECT_BYTES = 256
KMALLOC_256 = 8
BULK_CACHE = KMALLOC_256 if MERGE else 0


class bulk_pointers(struct):
    of: array[ptr, MOST_BULK_OBJECTS]


class bulk_object(struct):
    """What an allocated object holds here."""
    next: ptr[bulk_object]


bulk_objects: per_cpu[bulk_pointers]


def bulk_share(slabs, in_partial, in_cpu_slab):
    """Other users: of each of a number of slabs they keep the first objects and free the rest.  The
    last slab stays the cpu slab; all others are partial ones then."""
    s = addressof(kmalloc_caches.cache[BULK_CACHE])
    rest: bulk_object = NULL
    slab = NULL
    filled = 0
    inside = 0
    while filled < slabs or inside < in_cpu_slab:
        object = cast(bulk_object, kmem_cache_alloc(s, GFP_KERNEL))
        bug_on(object == NULL, "no memory for the other users' objects")
        page = cast(ptr, virt_to_head_page(cast(ptr, object)))
        if page != slab:
            slab = page
            filled += 1
            inside = 0
        inside += 1
        if inside > in_partial and filled < slabs:
            object.next = rest
            rest = object
    while rest != NULL:
        object = rest
        rest = object.next
        kmem_cache_free(s, cast(ptr, object))


def test_bulk(n, calls):
    """Allocate n objects and free them, both in bulk, calls times."""
    s = addressof(kmalloc_caches.cache[BULK_CACHE])
    r = this_cpu(results)
    kept = this_cpu(bulk_objects)
    r.start = rdtsc()
    for i in range(calls):
        allocated = kmem_cache_alloc_bulk(s, GFP_ATOMIC, n, addressof(kept.of))
        if not allocated:
            break
        kmem_cache_free_bulk(s, n, addressof(kept.of))
        count(OPERATIONS, n)
    r.stop = rdtsc()
