"""Interrupt handlers that use the allocator: what a device driver's handler does to the code it
interrupts.

Each takes the object size.  Objects that a handler keeps are in ``held``, one slot per CPU and
kept object.
"""

HELD_OBJECTS = 64


class held_objects(struct):
    count: word
    of: array[ptr, HELD_OBJECTS]


held: per_cpu[held_objects]


@inline
def hold(object):
    """Keep an object, as long as there is room; else free it again."""
    h = this_cpu(held)
    kept = h.count
    if kept < HELD_OBJECTS:
        h.of[kept] = object
        h.count = kept + 1
    else:
        kfree(cast(free_object, object))


def irq_alloc_free(size):
    """Allocate and free: the freelist's head is the same afterwards."""
    kfree(cast(free_object, kmalloc(size, GFP_ATOMIC)))


def irq_alloc(size):
    """Allocate and keep."""
    hold(kmalloc(size, GFP_ATOMIC))


def irq_alloc_alloc_free_first(size):
    """Allocate two, free the first: the head is the same afterwards, but not what follows it."""
    first = kmalloc(size, GFP_ATOMIC)
    second = kmalloc(size, GFP_ATOMIC)
    kfree(cast(free_object, first))
    hold(second)


def irq_free(size):
    """Free what an earlier interrupt kept, if anything."""
    h = this_cpu(held)
    if h.count > 0:
        h.count -= 1
        kfree(cast(free_object, h.of[h.count]))


def irq_nested(size):
    """Allocate with interrupts on, so that the handler itself can be interrupted; then free."""
    irq_enable()
    object = kmalloc(size, GFP_ATOMIC)
    kfree(cast(free_object, object))
    irq_disable()
