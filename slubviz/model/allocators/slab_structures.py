"""SLAB's structures, of Linux 2.6.24: constants, options, counters, and what lies in memory.

Layouts are those of a kernel without debugging and statistics.  What the real kernel takes from kmalloc
when it makes a cache (the arrays, the lists of a node) lies in globals here, in the sizes that kmalloc
would give.  ``slab.py`` says what is left out.
"""

USE_ALIEN_CACHES = option(1, "alien caches collect objects of other nodes; 0: noaliencache", 0, 1)
HZ = option(250, "timer ticks a second, in which the reaper's intervals are counted", 1, 10_000)

BATCHREFILL_LIMIT = 16
ALIEN_LIMIT = 12 if USE_ALIEN_CACHES else 0
REAPTIMEOUT_LIST3 = 4 * HZ
BUFCTL_END = 0xFFFFFFFF
CFLGS_OFF_SLAB = 0x80000000
ZERO_SIZE_PTR = 16
MALLOC_SIZES = 24
#: What kmalloc gives for an array of 120, of 480 and of 12 entries, and for a kmem_list3.
CPU_ARRAY_BYTES = 128 * WORD_BYTES
SHARED_ARRAY_BYTES = 512 * WORD_BYTES
ALIEN_ARRAY_BYTES = 128
LIST3_BYTES = 16 * WORD_BYTES

ALLOC_FASTPATH = counter()
ALLOC_SLOWPATH = counter()
FREE_FASTPATH = counter()
FREE_SLOWPATH = counter()
LIST_LOCK = counter()
ALIEN_LOCK = counter()
REFILL_SHARED = counter()
REFILL_SLABS = counter()
REFILL_EMPTY = counter()
FLUSH_SHARED = counter()
FLUSH_SLABS = counter()
GROWN = counter()
DESTROYED = counter()
REAPED = counter()
NODEALLOCS = counter()
NODEFREES = counter()
ACOVERFLOW = counter()


class free_object(struct):
    """What kfree takes.  SLAB keeps nothing in a free object."""
    next: ptr


class slab(struct):
    """A slab's structure; the chain of its free objects follows it, one index an object."""
    list: list_head
    colouroff: word
    s_mem: ptr
    inuse: uint32
    free: uint32
    nodeid: uint32


class array_cache(struct):
    """A stack of free objects; of one CPU, of a node's CPUs, or of a node for another one."""
    avail: uint32
    limit: uint32
    batchcount: uint32
    touched: uint32
    lock: uint32
    entry: array[ptr, 1]


class cpu_array(struct, size=CPU_ARRAY_BYTES):
    cache: array_cache


class shared_array(struct, size=SHARED_ARRAY_BYTES):
    cache: array_cache


class alien_array(struct, size=ALIEN_ARRAY_BYTES):
    cache: array_cache


class alien_table(struct):
    """A node's alien caches, by the node whose objects they hold; NULL for the node itself."""
    of: array[ptr[array_cache], NR_NODES]


class alien_arrays(struct):
    of: array[alien_array, NR_NODES]


class kmem_list3(struct, size=LIST3_BYTES):
    """A cache's slabs on one node.  With 64-bit words and cache lines of 64 bytes the lock is in another
    line than the list heads; with larger lines whoever waits for it reads the line that its holder
    writes."""
    slabs_partial: list_head
    slabs_full: list_head
    slabs_free: list_head
    free_objects: word
    free_limit: uint32
    colour_next: uint32
    list_lock: uint32
    shared: ptr[array_cache]
    alien: ptr[alien_table]
    next_reap: word
    free_touched: int32


class kmem_cache(struct, align=CACHE_LINE_BYTES):
    array: array[ptr[array_cache], NR_CPUS]
    batchcount: uint32
    limit: uint32
    shared: uint32
    buffer_size: uint32
    reciprocal_buffer_size: uint32
    flags: uint32
    num: uint32
    gfporder: uint32
    gfpflags: uint32
    colour: word
    colour_off: uint32
    slabp_cache: ptr[kmem_cache]
    slab_size: uint32
    dflags: uint32
    ctor: ptr
    name: ptr
    next: list_head
    nodelists: array[ptr[kmem_list3], NR_NODES]


class cache_sizes(struct):
    """One row of the table of kmalloc's caches."""
    cs_size: word
    cs_cachep: ptr[kmem_cache]
    cs_dmacachep: ptr[kmem_cache]


malloc_sizes: array[cache_sizes, MALLOC_SIZES + 1]
kmalloc_caches: array[kmem_cache, MALLOC_SIZES]
cpu_arrays: per_cpu[array[cpu_array, MALLOC_SIZES]]
cache_list3: per_node[array[kmem_list3, MALLOC_SIZES]]
shared_arrays: per_node[array[shared_array, MALLOC_SIZES]]
alien_caches: per_node[array[alien_arrays, MALLOC_SIZES]]
alien_tables: per_node[array[alien_table, MALLOC_SIZES]]
cache_chain: list_head
cache_chain_mutex: uint32
jiffies: word
reap_node: per_cpu[word]


@inline
def cpu_cache_get(cachep: kmem_cache) -> ptr[array_cache]:
    return cachep.array[smp_processor_id()]


@inline
def take_list_lock(l3: kmem_list3):
    """Interrupts are off already."""
    count(LIST_LOCK)
    preempt_off()
    spin_lock(l3.list_lock)


@inline
def drop_list_lock(l3: kmem_list3):
    spin_unlock(l3.list_lock)
    preempt_on()
