"""SLUB with the lockless slow path: Linux 3.1 to 4.3.

The fast paths exchange the pair {freelist, tid} of the CPU at once; the transaction id moves on with
every change, so that whatever came between makes the exchange fail.  A slab's own freelist and its
counters {inuse, objects, frozen} are one pair as well, exchanged by a locked operation; the only lock left
is the partial list's.  Since 3.2 a CPU that frees into a full slab freezes it and keeps it on a chain of
its own, without any lock.

``CPU_PARTIAL=0`` is the form of 3.1, without those chains.  ``UNFREEZE_REWRITE`` chooses unfreeze_partials
as it was before and after the patch of June 2012 (3.6).  ``LINUX_4_3`` turns on what changed between 3.6
and 4.3: a free that finds the lock no longer needed drops it, empty slabs are kept only while there are
*fewer* than min_partial, what was taken for a CPU's chain is counted right, a slab is built with
interrupts on, and ALLOC_SLOWPATH counts slow allocations instead of looks at a cpu slab's freelist.

Left out: debugging, the full lists, merging, memory cgroups, pfmemalloc, cpu hotplug, zeroing; moving a
task to another CPU between two micro-ops.  The page allocator below is that of 2.6.24.  Counters are
those of 3.5 and later.
"""

CPU_PARTIAL = option(1, "per-CPU chains of partial slabs; 0: as in 3.1", 0, 1)
UNFREEZE_REWRITE = option(1, "unfreeze_partials locks before its loop (3.6); 0: inside, as before", 0, 1)
LINUX_4_3 = option(0, "details as in 4.3; 0: as in 3.6", 0, 1)
HAVE_CMPXCHG_DOUBLE = option(1, "the machine exchanges two words at once; 0: under the slab's bit lock", 0, 1)
FALLBACK_IRQS_OFF = option(1, "without it, interrupts are off under that lock; 0: the fault of 3.1-rc", 0, 1)
MIN_PARTIAL = option(-1, "empty slabs kept on a node's list; -1: by object size", -1, 1_000_000)
CPU_PARTIAL_OBJECTS = option(-1, "free objects kept on a CPU's chain; -1: by object size", -1, 1_000_000)

INUSE = 0xFFFF
OBJECTS_SHIFT = 16
OBJECTS = 0x7FFF
FROZEN = 1 << 31
ORDER_SHIFT = 16
KMALLOC_CACHES = PAGE_SHIFT + 2
KMALLOC_MAX = 2 * PAGE_SIZE
CPU_DISTANCE = PAGE_SIZE if NR_NODES > 1 else sizeof(cpu_structures)
CPU_SLOTS = 16 if KMALLOC_CACHES <= 16 else 32
ZERO_SIZE_PTR = 16

ALLOC_FASTPATH = counter()
ALLOC_SLOWPATH = counter()
FREE_FASTPATH = counter()
FREE_SLOWPATH = counter()
FREE_FROZEN = counter()
FREE_ADD_PARTIAL = counter()
FREE_REMOVE_PARTIAL = counter()
ALLOC_FROM_PARTIAL = counter()
ALLOC_SLAB = counter()
ALLOC_REFILL = counter()
ALLOC_NODE_MISMATCH = counter()
FREE_SLAB = counter()
CPUSLAB_FLUSH = counter()
DEACTIVATE_FULL = counter()
DEACTIVATE_EMPTY = counter()
DEACTIVATE_TO_HEAD = counter()
DEACTIVATE_TO_TAIL = counter()
DEACTIVATE_REMOTE_FREES = counter()
DEACTIVATE_BYPASS = counter()
ORDER_FALLBACK = counter()
CMPXCHG_DOUBLE_CPU_FAIL = counter()
CMPXCHG_DOUBLE_FAIL = counter()
CPU_PARTIAL_ALLOC = counter()
CPU_PARTIAL_FREE = counter()
CPU_PARTIAL_NODE = counter()
CPU_PARTIAL_DRAIN = counter()
LIST_LOCK = counter()
SLAB_LOCK = counter()
LARGE_ALLOC = counter()
LARGE_FREE = counter()


class free_object(struct):
    next: ptr


class kmem_cache_cpu(struct, align=2 * WORD_BYTES):
    """A CPU's slab and its chain of partial slabs; freelist and tid are one pair."""
    freelist: ptr
    tid: word
    page: ptr[page]
    partial: ptr[page]


class kmem_cache_node(struct):
    list_lock: uint32
    nr_partial: word
    partial: list_head
    nr_slabs: word
    total_objects: word
    full: list_head


class kmem_cache(struct, align=CACHE_LINE_BYTES):
    """A cache.  ``cpu_slab`` is the structure of CPU 0; ``oo`` and ``min`` hold order and objects of a slab,
    wanted and smallest, in one word."""
    cpu_slab: word
    flags: word
    min_partial: word
    size: int32
    objsize: int32
    offset: int32
    cpu_partial: int32
    oo: word
    max: word
    min: word
    allocflags: int32
    refcount: int32
    ctor: ptr
    inuse: int32
    align: int32
    reserved: int32
    names_and_links: array[word, 12]
    remote_node_defrag_ratio: int32
    node: array[ptr[kmem_cache_node], NR_NODES]


class cpu_structures(struct):
    """A CPU's kmem_cache_cpu structures, one for each cache, as the per-CPU allocator places them.  A power
    of two in size, for the distance from CPU to CPU."""
    slot: array[kmem_cache_cpu, CPU_SLOTS]


class kmalloc_array(struct):
    """The caches; number 0 is a private one, which no size class uses."""
    cache: array[kmem_cache, KMALLOC_CACHES]


kmalloc_caches: kmalloc_array
kmalloc_table: array[ptr[kmem_cache], KMALLOC_CACHES]
size_index: array[uint32, 24]
cache_cpus: per_cpu[cpu_structures]
cache_nodes: per_node[array[kmem_cache_node, KMALLOC_CACHES]]


def __phys_addr_function(address) -> ptr:
    """As in 2.6.24: a function of its own on x86-64."""
    instructions(3)  # tells the kernel's text from the direct mapping
    return address


@override
@inline
def __phys_addr(address) -> ptr:
    """Expanded in place since 3.9."""
    if LINUX_4_3:
        instructions(3)
        return address
    return __phys_addr_function(address)


@inline
def get_node(s: kmem_cache, node) -> ptr[kmem_cache_node]:
    return s.node[node]


@inline
def this_cpu_slab(s: kmem_cache) -> ptr[kmem_cache_cpu]:
    """The kernel adds the CPU's offset from a segment register; a shift of its number stands for that."""
    return cast(kmem_cache_cpu, s.cpu_slab + smp_processor_id() * CPU_DISTANCE)


@inline
def node_match(page: page, node):
    if NR_NODES > 1:
        return node == -1 or page_to_nid(page) == node
    return 1


@inline
def next_tid(tid):
    """The step keeps the CPU's number in the low part, where a task may move to another CPU."""
    if CONFIG_PREEMPT:
        return tid + (1 << fls(NR_CPUS - 1))
    return tid + 1


@inline
def objects_of(counters):
    return (counters >> OBJECTS_SHIFT) & OBJECTS


@inline
def free_of(counters):
    """Free objects on the slab's own freelist."""
    return objects_of(counters) - (counters & INUSE)


@inline
def enough_partial(s: kmem_cache, n: kmem_cache_node):
    """Whether a node has so many slabs that an empty one is given back.  3.6 keeps one more."""
    if LINUX_4_3:
        return n.nr_partial >= s.min_partial
    return n.nr_partial > s.min_partial


@inline
def get_freepointer(object: free_object) -> ptr:
    instructions(1)  # load of the link's offset, which is 0: no cache here has a constructor
    return object.next


@inline
def set_freepointer(object: free_object, next):
    instructions(1)  # load of the link's offset
    object.next = next


# --- the pair {freelist, counters} of a slab ----------------------------------------------------------


@inline
def slab_lock(page: page):
    count(SLAB_LOCK)
    preempt_off()
    bit_spin_lock(page.flags, PG_locked)


@inline
def slab_unlock(page: page):
    bit_spin_unlock_nonatomic(page.flags, PG_locked)
    preempt_on()


@inline
def exchange_under_lock(page: page, freelist_old, counters_old, freelist_new, counters_new):
    """What a machine without the instruction does: compare and store under the slab's bit lock."""
    done = 0
    slab_lock(page)
    if page.freelist == freelist_old and page.counters == counters_old:
        page.freelist = freelist_new
        page.counters = counters_new
        done = 1
    slab_unlock(page)
    return done


@inline
def __cmpxchg_double_slab(page: page, freelist_old, counters_old, freelist_new, counters_new):
    """Exchange the pair if nobody changed it; interrupts are off."""
    instructions(1)  # test of the cache's flag for the instruction
    if HAVE_CMPXCHG_DOUBLE:
        if cmpxchg_double(page.freelist, freelist_old, counters_old, freelist_new, counters_new):
            return 1
    else:
        if exchange_under_lock(page, freelist_old, counters_old, freelist_new, counters_new):
            return 1
    cpu_relax()
    count(CMPXCHG_DOUBLE_FAIL)
    return 0


@inline
def cmpxchg_double_slab(page: page, freelist_old, counters_old, freelist_new, counters_new):
    """The same where interrupts may be on; the lock of the fallback needs them off."""
    if HAVE_CMPXCHG_DOUBLE or not FALLBACK_IRQS_OFF:
        return __cmpxchg_double_slab(page, freelist_old, counters_old, freelist_new, counters_new)
    flags = irq_save()
    done = __cmpxchg_double_slab(page, freelist_old, counters_old, freelist_new, counters_new)
    irq_restore(flags)
    return done


# --- slabs from and to the page allocator --------------------------------------------------------------


@inline
def set_up_objects(s: kmem_cache, page: page, nr_objects):
    """Chain a slab's objects in ascending order of address."""
    start = page_address(page)
    size = s.size
    end = start + nr_objects * size
    last = start
    object = start
    while object < end:
        instructions(4)  # setup_object's tests; size is read each time
        set_freepointer(last, object)
        last = object
        object += size
    set_freepointer(last, NULL)
    page.freelist = start


def allocate_slab(s: kmem_cache, gfpflags, node) -> ptr[page]:
    """Pages for a slab, of the smallest possible order if the wanted one is not to be had.

    Interrupts are on meanwhile if the caller may wait; in 4.3 the freelist is built within that time.
    """
    if gfpflags & GFP_WAIT:
        irq_enable()
    nid = node
    if node == -1:
        nid = numa_node_id()
    instructions(4)  # allocation flags
    oo = s.oo
    page = __alloc_pages(gfpflags, oo >> ORDER_SHIFT, nid)
    if page == NULL:
        oo = s.min
        page = __alloc_pages(gfpflags, oo >> ORDER_SHIFT, nid)
        if page != NULL:
            count(ORDER_FALLBACK)
    if page != NULL:
        nr_objects = oo & OBJECTS
        granule(page_address(page), PAGE_SIZE << (oo >> ORDER_SHIFT), s.size)
        page.slab_counters = FROZEN | (nr_objects << OBJECTS_SHIFT) | nr_objects
        if LINUX_4_3:
            page.slab = s
            page.flags |= 1 << PG_slab
            set_up_objects(s, page, nr_objects)
    if gfpflags & GFP_WAIT:
        irq_disable()
    if page != NULL:
        mod_zone_page_state(page_zone(page), 1 << (oo >> ORDER_SHIFT))
    return page


@inline
def new_slab(s: kmem_cache, gfpflags, node) -> ptr[page]:
    """A slab of free objects, frozen, all of them counted as in use."""
    page = allocate_slab(s, gfpflags, node)
    if page != NULL:
        nr_objects = objects_of(page.slab_counters)
        n = get_node(s, page_to_nid(page))
        atomic_inc(n.nr_slabs)
        atomic_add(n.total_objects, nr_objects)
        if not LINUX_4_3:
            page.slab = s
            page.flags |= 1 << PG_slab
            instructions(2)  # test of the debug flags
            set_up_objects(s, page, nr_objects)
    return page


@inline
def compound_order(page: page):
    if page.flags & (1 << PG_compound):
        second = cast(page, page + sizeof(page))
        return second.lru.prev
    return 0


def discard_slab(s: kmem_cache, page: page):
    """Give an empty slab back."""
    n = get_node(s, page_to_nid(page))
    atomic_dec(n.nr_slabs)
    atomic_add(n.total_objects, -objects_of(page.slab_counters))
    order = compound_order(page)
    instructions(4)  # tests of the debug and RCU flags
    mod_zone_page_state(page_zone(page), -(1 << order))
    page.flags &= ~(1 << PG_slab)
    page._mapcount = -1
    __free_pages(page, order)


# --- the partial list of a node ----------------------------------------------------------------------


@inline
def list_lock(n: kmem_cache_node):
    count(LIST_LOCK)
    preempt_off()
    spin_lock(n.list_lock)


@inline
def list_unlock(n: kmem_cache_node):
    spin_unlock(n.list_lock)
    preempt_on()


@inline
def add_partial(n: kmem_cache_node, page: page, tail):
    n.nr_partial += 1
    if tail:
        list_add_tail(addressof(page.lru), addressof(n.partial))
    else:
        list_add(addressof(page.lru), addressof(n.partial))


@inline
def remove_partial(n: kmem_cache_node, page: page):
    list_del(addressof(page.lru))
    n.nr_partial -= 1


@inline
def acquire_slab(n: kmem_cache_node, page: page, counters, for_cpu_slab) -> ptr:
    """Freeze a listed slab: as the cpu slab, which takes all its objects at once, or for the CPU's chain.

    One attempt; a remote free that comes between makes it fail.  The list is locked.
    """
    freelist = page.freelist
    if for_cpu_slab:
        frozen = (counters & ~INUSE) | objects_of(counters) | FROZEN
        taken = __cmpxchg_double_slab(page, freelist, counters, NULL, frozen)
    else:
        taken = __cmpxchg_double_slab(page, freelist, counters, freelist, counters | FROZEN)
    if taken == 0:
        return NULL
    remove_partial(n, page)
    return freelist


def get_partial_node(s: kmem_cache, n: kmem_cache_node, c: kmem_cache_cpu) -> ptr:
    """The first slab of a node's list becomes the cpu slab; with per-CPU chains more go to the chain,
    until it has half of what it may hold.  Returns the cpu slab's objects.
    """
    if n.nr_partial == 0:
        return NULL
    found = NULL
    available = 0
    list_lock(n)
    entry = n.partial.next
    while entry != addressof(n.partial):
        following = entry.next
        page = container_of(entry, page, lru)
        counters = page.counters
        freelist = acquire_slab(n, page, counters, found == NULL)
        if freelist == NULL:
            break
        if LINUX_4_3:
            available += free_of(counters)
        if found == NULL:
            c.page = page
            owner_note(page)
            count(ALLOC_FROM_PARTIAL)
            found = freelist
        elif LINUX_4_3:
            put_cpu_partial(s, page, 0)
            count(CPU_PARTIAL_NODE)
        else:
            # 3.6 counts the whole chain, and nothing for the cpu slab: its objects are in use by now.
            available = put_cpu_partial(s, page, 0)
            count(CPU_PARTIAL_NODE)
        if not CPU_PARTIAL:
            break
        if available > s.cpu_partial // 2:
            break
        entry = following
    list_unlock(n)
    return found


def get_any_partial(s: kmem_cache, c: kmem_cache_cpu) -> ptr:
    """Look at the other nodes, which have more than they should keep."""
    if s.remote_node_defrag_ratio == 0 or rdtsc() % 1024 > s.remote_node_defrag_ratio:
        return NULL
    local = numa_node_id()
    for step in range(NR_NODES):
        n = get_node(s, (local + step) % NR_NODES)
        if n.nr_partial > s.min_partial:
            freelist = get_partial_node(s, n, c)
            if freelist != NULL:
                return freelist
    return NULL


@inline
def get_partial(s: kmem_cache, node, c: kmem_cache_cpu) -> ptr:
    searched = node
    if node == -1:
        searched = numa_node_id()
    freelist = get_partial_node(s, get_node(s, searched), c)
    if NR_NODES > 1:
        if freelist == NULL and node == -1:
            freelist = get_any_partial(s, c)
    return freelist
