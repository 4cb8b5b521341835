"""Interrupt handlers that use the allocator: what a device driver's handler does to the code it
interrupts.

Most take the object size.  Objects that a handler keeps are in ``held``, one slot per CPU and kept object;
NULL is a slot that is empty.  Handlers of other CPUs may take an object out, so a slot is emptied with
``xchg``: whoever gets the pointer frees the object.  ``count`` is one more than the highest slot in use.
"""

HELD_OBJECTS = 64


class held_objects(struct):
    count: word
    of: array[ptr, HELD_OBJECTS]
    dropped: word  # objects for which there was no room
    missed: word  # frees that found nothing to free, allocations that failed


held: per_cpu[held_objects]


@inline
def hold(object):
    """Keep an object, as long as there is room; else free it again."""
    h = this_cpu(held)
    kept = h.count
    if object == NULL:
        h.missed += 1
    elif kept < HELD_OBJECTS:
        h.of[kept] = object
        h.count = kept + 1
    else:
        h.dropped += 1
        kfree(cast(free_object, object))


def irq_alloc_free(size):
    """Handler: allocate and free.  The freelist's head is the same afterwards."""
    kfree(cast(free_object, kmalloc(size, GFP_ATOMIC)))


def irq_alloc(size):
    """Handler: allocate and hold."""
    hold(kmalloc(size, GFP_ATOMIC))


def irq_alloc_alloc_free_first(size):
    """Handler: allocate two, free the first.  The head is the same afterwards, what follows it is not."""
    first = kmalloc(size, GFP_ATOMIC)
    second = kmalloc(size, GFP_ATOMIC)
    kfree(cast(free_object, first))
    hold(second)


def irq_free():
    """Handler: free the newest object held.  Of those that handlers of this CPU keep, if any."""
    h = this_cpu(held)
    while h.count > 0:
        h.count -= 1
        object = xchg(h.of[h.count], NULL)
        if object != NULL:
            kfree(cast(free_object, object))
            return
    h.missed += 1


def irq_nested(size):
    """Handler: allocate and free with interrupts on.  So that the handler itself can be interrupted."""
    irq_enable()
    object = kmalloc(size, GFP_ATOMIC)
    kfree(cast(free_object, object))
    irq_disable()
