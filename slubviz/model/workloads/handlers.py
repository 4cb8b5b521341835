"""More interrupt handlers, for interrupts that are injected into a run: bursts, remote frees, softirqs.

They keep objects where the handlers of ``interrupt_handlers`` do.  Nothing here is linked into a run that
does not ask for handlers, and it defines functions only, so that a run in which none is called is the same
micro-op for micro-op.
"""


def irq_nothing():
    """Handler: nothing.  Entry and exit alone, to see what an interrupt itself costs and disturbs."""


def irq_hold(size, n):
    """Handler: allocate and hold n objects.  Beyond what fits (64 a CPU) they are freed again."""
    for i in range(n):
        hold(kmalloc(size, GFP_ATOMIC))


def irq_free_remote(from_cpu):
    """Handler: free an object held by another CPU.  The newest; a free from afar for that CPU's slab."""
    if from_cpu < 0 or from_cpu >= NR_CPUS:
        this_cpu(held).missed += 1
        return
    h = per_cpu(held, from_cpu)
    slot = h.count
    while slot > 0:
        slot -= 1
        object = xchg(h.of[slot], NULL)
        if object != NULL:
            kfree(cast(free_object, object))
            return
    this_cpu(held).missed += 1


def irq_burst(count, size):
    """Handler: allocate count objects, then free them.  The newest first, as a full receive ring does."""
    newest = cast(free_object, NULL)
    for i in range(count):
        object = cast(free_object, kmalloc(size, GFP_ATOMIC))
        if object == NULL:
            this_cpu(held).missed += 1
            break
        object.next = newest  # the objects are the handler's own: it may write them
        newest = object
    while newest != NULL:
        following = cast(free_object, newest.next)
        kfree(newest)
        newest = following


def softirq_batch(count, size):
    """Handler: count pairs of allocation and free with interrupts on.  Like a softirq on return from a
    hard interrupt: hard interrupts nest in it."""
    irq_enable()
    for i in range(count):
        kfree(cast(free_object, kmalloc(size, GFP_ATOMIC)))
    irq_disable()
