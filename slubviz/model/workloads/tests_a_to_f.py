"""The tests of the cover mail of October 2007, as programs that time themselves with the time
stamp counter.

A: one CPU allocates n objects and keeps the pointers.  B: it frees them in the same order.  C:
pairs of allocation and free. D, E: A and C on every CPU at once.  F: CPUs 1 .. allocate n objects
each, CPU 0 frees them all, CPU by CPU, and writes each object before.  Objects are not written by
the other tests.

That F writes is inferred from its published numbers, as the module of 2007 is not known: SLAB, which
does not touch an object that it frees, pays in F for one remote cache line an object on both machines,
and does not in B.

Every function runs on the CPU that it measures; ``results`` keeps start and stop per CPU.
"""

OPERATIONS = counter()


class result(struct):
    start: word
    stop: word


class written_object(struct):
    first: int32


class pointers(struct):
    of: array[ptr, OBJECTS_PER_CPU]


results: per_cpu[result]
objects: per_cpu[pointers]


def test_alloc(size, n):
    """Allocate n objects, keep the pointers."""
    r = this_cpu(results)
    kept = this_cpu(objects)
    r.start = rdtsc()
    for i in range(n):
        kept.of[i] = kmalloc(size, GFP_KERNEL)
        count(OPERATIONS)
    r.stop = rdtsc()


def test_alloc_node(size, n, node):
    """Allocate n objects on a node, keep the pointers."""
    r = this_cpu(results)
    kept = this_cpu(objects)
    r.start = rdtsc()
    for i in range(n):
        kept.of[i] = kmalloc_node(size, GFP_KERNEL, node)
        count(OPERATIONS)
    r.stop = rdtsc()


def test_free(first_cpu, last_cpu, n):
    """Free what CPUs first_cpu to last_cpu - 1 allocated, in the order of allocation."""
    r = this_cpu(results)
    r.start = rdtsc()
    for cpu in range(first_cpu, last_cpu):
        kept = per_cpu(objects, cpu)
        for i in range(n):
            kfree(kept.of[i])
            count(OPERATIONS)
    r.stop = rdtsc()


def test_free_remote(first_cpu, last_cpu, n):
    """As test_free, but write each object's first word before."""
    r = this_cpu(results)
    r.start = rdtsc()
    for cpu in range(first_cpu, last_cpu):
        kept = per_cpu(objects, cpu)
        for i in range(n):
            cast(written_object, kept.of[i]).first = i
            kfree(kept.of[i])
            count(OPERATIONS)
    r.stop = rdtsc()


def test_pairs(size, n):
    """Allocate and free at once, n times."""
    r = this_cpu(results)
    r.start = rdtsc()
    for i in range(n):
        kfree(kmalloc(size, GFP_KERNEL))
        count(OPERATIONS)
    r.stop = rdtsc()

