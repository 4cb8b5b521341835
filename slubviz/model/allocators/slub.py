"""SLUB of Linux 2.6.24-rc1, with the ten patches of the cover mail of October 2007 (SLUB+) or without, and
SLUB of 2.6.25: structures, slow paths, kmalloc.

How a CPU's freelist is kept, and the fast paths on it, are in a file of their own (slub_fastpath.py or
another), so that variants exchange just that.  Each patch is an option, ``PATCH_01`` to ``PATCH_10``;
none gives "SLUB", all of them give "SLUB+".  02 and 05 only change the shape of the compiled code, which this
compiler does not have.  08 is in slub_fastpath.py and needs 06: its compare-and-exchange relies on end marks
that differ from slab to slab.  Four more options, MIN_PARTIAL=5 and patch 01 give 2.6.25-rc4.

Two faults of the posted code are here as they were.  A slab that an interrupt installed while interrupts were
on for new_slab is preferred to the new one, and its local freelist is lost (FLUSH_INSTALLED_SLAB is the
remedy).  With patch 10 that slab need not have an object left: its end marker is handed out then.

Left out: debugging (red zones, tracking, the full list), sysfs, merging, cpu hotplug, zeroing on
allocation.  Counters are those of 2.6.25, where the same code counts; 2.6.24 had none.  ALLOC_REFILL
counts refills, as in 3.1; 2.6.25 counted before it looked whether there was anything to refill from.
"""

PATCH_01 = option(0, "deactivated slabs with local objects go to the list's head, others to its tail", 0, 1)
PATCH_02 = option(0, "rarely used functions are not expanded in place (no effect here)", 0, 1)
PATCH_03 = option(0, "the node is looked up inside add_partial", 0, 1)
PATCH_04 = option(0, "no test for a valid object on the fast path", 0, 1)
PATCH_05 = option(0, "a single exit of __slab_alloc (no effect here)", 0, 1)
PATCH_06 = option(0, "an end marker of its own for each slab", 0, 1)
PATCH_07 = option(0, "objects per slab copied to the per-cpu structure", 0, 1)
PATCH_09 = option(0, "own slab lock: one locked operation, unlock by a plain store", 0, 1)
PATCH_10 = option(0, "slow path in the order in which it usually runs", 0, 1)

FLUSH_INSTALLED_SLAB = option(0, "2.6.24-rc2: a slab installed while pages were fetched is flushed", 0, 1)
FREE_TO_TAIL = option(0, "2.6.24: a full slab that gets an object back goes to the list's tail", 0, 1)
PLAIN_BIT_UNLOCK = option(0, "2.6.25-rc1: the slab lock's bit is cleared without a locked operation", 0, 1)
KMALLOC_4K = option(0, "2.6.25-rc2: kmalloc caches up to one page; see kernel slub-2.6.25", 0, 1)

FROZEN = 1 << PG_active
LOCKED = 1 << PG_locked
MIN_PARTIAL = option(2, "slabs kept on a node's partial list even when empty", 0, 1_000_000)
KMALLOC_CACHES = PAGE_SHIFT + (1 if KMALLOC_4K else 0)
KMALLOC_MAX = PAGE_SIZE if KMALLOC_4K else PAGE_SIZE // 2
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
FREE_SLAB = counter()
CPUSLAB_FLUSH = counter()
DEACTIVATE_FULL = counter()
DEACTIVATE_EMPTY = counter()
DEACTIVATE_TO_HEAD = counter()
DEACTIVATE_TO_TAIL = counter()
DEACTIVATE_REMOTE_FREES = counter()
LIST_LOCK = counter()
SLAB_LOCK = counter()
SLAB_LOCK_SPIN = counter()
LARGE_ALLOC = counter()
LARGE_FREE = counter()


class free_object(struct):
    next: ptr


class kmem_cache_node(struct):
    list_lock: uint32
    nr_partial: word
    nr_slabs: word
    partial: list_head


class kmem_cache(struct):
    """A cache.  On one-node machines its node structure lies inside, in the first cache line."""
    flags: word
    size: int32
    objsize: int32
    offset: int32
    order: int32
    local_node: kmem_cache_node
    objects: int32
    refcount: int32
    ctor: ptr
    inuse: int32
    align: int32
    names_and_links: array[word, 12]
    defrag_ratio: int32
    node: array[ptr[kmem_cache_node], NR_NODES]
    cpu_slab: array[ptr[kmem_cache_cpu], NR_CPUS]


class cpu_structures(struct):
    """A CPU's pool of kmem_cache_cpu structures."""
    slot: array[kmem_cache_cpu, KMALLOC_CACHES + 2]


class kmalloc_array(struct):
    cache: array[kmem_cache, KMALLOC_CACHES]


kmalloc_caches: kmalloc_array
size_index: array[uint32, 24]
cache_cpus: per_cpu[cpu_structures]
cache_nodes: per_node[array[kmem_cache_node, KMALLOC_CACHES]]


@inline
def get_node(s: kmem_cache, node) -> ptr[kmem_cache_node]:
    if NR_NODES > 1:
        return s.node[node]
    return addressof(s.local_node)


@inline
def get_cpu_slab(s: kmem_cache) -> ptr[kmem_cache_cpu]:
    return s.cpu_slab[smp_processor_id()]


@inline
def node_match(c: kmem_cache_cpu, node):
    if NR_NODES > 1:
        return node == -1 or c.node == node
    return 1


# --- the lock of a slab: bit PG_locked of page->flags ---------------------------------------------


@inline
def slab_lock(page: page):
    """The page's state; with patch 09 the callers carry it until the unlock writes it back."""
    count(SLAB_LOCK)
    preempt_off()
    if PATCH_09:
        state = page.flags & ~LOCKED
        while cmpxchg(page.flags, state, state | LOCKED) != state:
            lock_contended(page.flags)
            count(SLAB_LOCK_SPIN)
            state = page.flags & ~LOCKED
        lock_acquired(page.flags)
        return state
    bit_spin_lock(page.flags, PG_locked)
    return 0


@inline
def slab_trylock(page: page):
    """The page's state (never 0), or 0 if somebody has the lock."""
    preempt_off()
    if PATCH_09:
        state = page.flags & ~LOCKED
        if cmpxchg(page.flags, state, state | LOCKED) != state:
            preempt_on()
            return 0
        lock_acquired(page.flags)
        count(SLAB_LOCK)
        return state
    if bit_spin_trylock(page.flags, PG_locked):
        count(SLAB_LOCK)
        return 1
    preempt_on()
    return 0


@inline
def slab_unlock(page: page, state):
    if PATCH_09:
        smp_wmb()
        lock_released(page.flags)
        page.flags = state
    elif PLAIN_BIT_UNLOCK:
        bit_spin_unlock_nonatomic(page.flags, PG_locked)
    else:
        bit_spin_unlock(page.flags, PG_locked)
    preempt_on()


@inline
def set_frozen(page: page, state):
    """Exempt a locked slab from list handling; with patch 09 only the carried state changes."""
    if PATCH_09:
        return state | FROZEN
    page.flags |= FROZEN
    return state


@inline
def clear_frozen(page: page, state):
    if PATCH_09:
        return state & ~FROZEN
    page.flags &= ~FROZEN
    return state


@inline
def is_frozen(page: page, state):
    if PATCH_09:
        return state & FROZEN
    return page.flags & FROZEN


# --- slabs from and to the page allocator --------------------------------------------------------


@inline
def set_freepointer(object: free_object, next):
    """The link lies in the first word: kmalloc caches have no constructor, so their offset is 0."""
    object.next = next


def new_slab(s: kmem_cache, gfpflags, node) -> ptr[page]:
    """A slab of free objects, chained in ascending order of address."""
    order = s.order
    nid = node
    if node == -1:
        nid = numa_node_id()
    page = __alloc_pages(gfpflags, order, nid)
    if page == NULL:
        return NULL
    mod_zone_page_state(page_zone(page), 1 << order)
    n = get_node(s, page_to_nid(page))
    atomic_inc(n.nr_slabs)
    page.slab = s
    page.flags |= 1 << PG_slab
    instructions(2)  # test of the debug flags
    start = page_address(page)
    granule(start, PAGE_SIZE << order, s.size)
    if PATCH_06:
        page.end = start + 1
    size = s.size
    end = start + s.objects * size
    last = start
    object = start
    while object < end:
        instructions(6)  # setup_object's tests; size and offset are read each time
        set_freepointer(last, object)
        last = object
        object += size
    set_freepointer(last, end_of(page))
    page.freelist = start
    page.inuse = 0
    return page


def discard_slab(s: kmem_cache, page: page):
    """Give an empty slab back."""
    n = get_node(s, page_to_nid(page))
    atomic_dec(n.nr_slabs)
    page.inuse = -1
    page.flags &= ~(1 << PG_slab)
    instructions(2)  # test of the debug flag
    mod_zone_page_state(page_zone(page), -(1 << s.order))
    if PATCH_06:
        page.mapping = NULL
    __free_pages(page, s.order)


# --- the partial list of a node ------------------------------------------------------------------


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
def insert_partial(n: kmem_cache_node, page: page, tail):
    list_lock(n)
    n.nr_partial += 1
    if tail:
        list_add_tail(addressof(page.lru), addressof(n.partial))
    else:
        list_add(addressof(page.lru), addressof(n.partial))
    list_unlock(n)


def add_partial(s: kmem_cache, page: page, tail):
    insert_partial(get_node(s, page_to_nid(page)), page, tail)


def add_partial_to(n: kmem_cache_node, page: page, tail):
    """Before patch 03 the callers looked the node up."""
    insert_partial(n, page, tail)


def remove_partial(s: kmem_cache, page: page):
    n = get_node(s, page_to_nid(page))
    list_lock(n)
    list_del(addressof(page.lru))
    n.nr_partial -= 1
    list_unlock(n)


def get_partial_node(n: kmem_cache_node, c: kmem_cache_cpu):
    """Take the first slab of the list whose lock is free: the cpu slab now, locked and frozen.
    Returns its state, or 0.

    The order of the two locks is the other way round here than on the free path, hence the trylock.
    """
    if n.nr_partial == 0:
        return 0
    list_lock(n)
    entry = n.partial.next
    state = 0
    while entry != addressof(n.partial):
        page = container_of(entry, page, lru)
        state = slab_trylock(page)
        if state != 0:
            list_del(entry)
            n.nr_partial -= 1
            state = set_frozen(page, state)
            c.page = page
            break
        entry = entry.next
    list_unlock(n)
    return state


def get_any_partial(s: kmem_cache, c: kmem_cache_cpu):
    """Now and then, look at the other nodes, which have more than they should keep."""
    if s.defrag_ratio == 0 or rdtsc() % 1024 > s.defrag_ratio:
        return 0
    local = numa_node_id()
    for step in range(NR_NODES):
        n = get_node(s, (local + step) % NR_NODES)
        if n.nr_partial > MIN_PARTIAL:
            state = get_partial_node(n, c)
            if state != 0:
                return state
    return 0


def get_partial(s: kmem_cache, c: kmem_cache_cpu, gfpflags, node):
    searched = node
    if node == -1:
        searched = numa_node_id()
    state = get_partial_node(get_node(s, searched), c)
    if NR_NODES > 1:
        if state == 0 and gfpflags & GFP_THISNODE == 0:
            state = get_any_partial(s, c)
    return state


# --- a cpu slab is given up ----------------------------------------------------------------------


def unfreeze_slab(s: kmem_cache, page: page, tail, state):
    """Hand a slab back to list handling.  Locked on entry, unlocked on exit."""
    if not PATCH_03:
        n = get_node(s, page_to_nid(page))
    state = clear_frozen(page, state)
    if page.inuse:
        if page.freelist != end_of(page):
            if tail:
                count(DEACTIVATE_TO_TAIL)
            else:
                count(DEACTIVATE_TO_HEAD)
            if PATCH_03:
                add_partial(s, page, tail)
            else:
                add_partial_to(n, page, tail)
        else:
            count(DEACTIVATE_FULL)
        slab_unlock(page, state)
        return
    count(DEACTIVATE_EMPTY)
    if PATCH_03:
        n = get_node(s, page_to_nid(page))
    if n.nr_partial < MIN_PARTIAL:
        # An empty slab is kept to spare the page allocator; at the tail, so that others are filled first.
        if PATCH_03:
            add_partial(s, page, 1)
        else:
            add_partial_to(n, page, 1)
        slab_unlock(page, state)
    else:
        slab_unlock(page, state)
        count(FREE_SLAB)
        discard_slab(s, page)


def deactivate_slab(s: kmem_cache, c: kmem_cache_cpu, state):
    """Give up the cpu slab, which is locked: its local objects go back to the slab's own freelist."""
    page = c.page
    tail = 0
    if PATCH_01:
        tail = 1
    if page.freelist != end_of(page):
        count(DEACTIVATE_REMOTE_FREES)
    object = cast(free_object, get_freelist(c))
    while not is_end(object):
        if PATCH_01:
            tail = 0
        following = detach_first(c, object)
        object.next = page.freelist
        page.freelist = object
        page.inuse -= 1
        object = cast(free_object, next_detached(c, following))
    all_detached(c)
    c.page = NULL
    unfreeze_slab(s, page, tail, state)


def flush_slab(s: kmem_cache, c: kmem_cache_cpu):
    count(CPUSLAB_FLUSH)
    state = slab_lock(c.page)
    deactivate_slab(s, c, state)


# --- allocation ----------------------------------------------------------------------------------


@inline
def load_freelist(s: kmem_cache, c: kmem_cache_cpu, state):
    """The locked cpu slab's objects become the CPU's own; the first one is handed out."""
    page = c.page
    owner_note(page)
    object = cast(free_object, page.freelist)
    set_freelist(c, object.next)
    if PATCH_07:
        page.inuse = c.objects
    else:
        page.inuse = s.objects
    page.freelist = end_of(page)
    c.node = page_to_nid(page)
    slab_unlock(page, state)
    count(ALLOC_SLOWPATH)
    return object


def get_new_slab(s: kmem_cache, gfpflags, node):
    """Grow the cache.  Returns the state of the locked cpu slab, or 0 without memory.

    If the caller may wait, interrupts are on meanwhile, so that another task or an interrupt may have
    given this CPU a slab, or the task may run elsewhere.  A cpu slab that fits is then preferred and the
    new one discarded; its local freelist is not looked at, and so is lost.  From 2.6.24-rc2 on it is flushed.
    """
    if gfpflags & GFP_WAIT:
        irq_enable()
    page = new_slab(s, gfpflags, node)
    if gfpflags & GFP_WAIT:
        irq_disable()
    if page == NULL:
        return 0
    count(ALLOC_SLAB)
    c = get_cpu_slab(s)
    if c.page != NULL:
        if not FLUSH_INSTALLED_SLAB and node_match(c, node):
            discard_slab(s, page)
            return slab_lock(c.page) | FROZEN
        flush_slab(s, c)
    if PATCH_09:
        c.page = page
        return slab_lock(page) | FROZEN
    state = slab_lock(page)
    state = set_frozen(page, state)
    c.page = page
    return state | FROZEN


def __slab_alloc(s: kmem_cache, gfpflags, node, c: kmem_cache_cpu) -> ptr:
    """Slow path: the CPU's own freelist is empty or of the wrong node."""
    flags = 0
    if LOCKLESS:
        flags = irq_save()
        if ENTERED_WITH_PREEMPT_OFF:
            preempt_on()
        elif CONFIG_PREEMPT:
            c = get_cpu_slab(s)  # the task may run elsewhere by now
    object = NULL
    state = 0
    if c.page != NULL:
        state = slab_lock(c.page)
        if node_match(c, node) and may_refill(c):
            if c.page.freelist != end_of(c.page):
                count(ALLOC_REFILL)
                object = load_freelist(s, c, state)
        if object == NULL:
            deactivate_slab(s, c, state)
    while object == NULL:
        state = get_partial(s, c, gfpflags, node)
        if state != 0:
            count(ALLOC_FROM_PARTIAL)
        else:
            state = get_new_slab(s, gfpflags, node)
            if state == 0:
                break
            c = get_cpu_slab(s)
        if PATCH_10:
            # Not looked at again: a slab from either source should have a free object.  One that
            # an interrupt installed may have none.
            object = load_freelist(s, c, state)
        elif c.page.freelist != end_of(c.page):
            object = load_freelist(s, c, state)
        else:
            deactivate_slab(s, c, state)
    if LOCKLESS:
        if ENTERED_WITH_PREEMPT_OFF:
            preempt_off()
        irq_restore(flags)
    return object


# --- free ----------------------------------------------------------------------------------------


def __slab_free(s: kmem_cache, page: page, object: free_object):
    """Slow path: the object goes to its slab's own freelist, under the slab's lock."""
    flags = 0
    if LOCKLESS:
        flags = irq_save()
    count(FREE_SLOWPATH)
    state = slab_lock(page)
    instructions(1)  # test of the debug flag
    prior = page.freelist
    object.next = prior
    page.freelist = object
    inuse = page.inuse - 1
    page.inuse = inuse
    if is_frozen(page, state):
        count(FREE_FROZEN)
    elif inuse == 0:
        if prior != end_of(page):
            count(FREE_REMOVE_PARTIAL)
            remove_partial(s, page)
        slab_unlock(page, state)
        if DISCARD_WITH_IRQS_ON:
            irq_restore(flags)
        count(FREE_SLAB)
        discard_slab(s, page)
        if LOCKLESS and not DISCARD_WITH_IRQS_ON:
            irq_restore(flags)
        return
    elif prior == end_of(page):
        # The slab was full, so it was on no list.
        count(FREE_ADD_PARTIAL)
        if PATCH_03:
            add_partial(s, page, FREE_TO_TAIL)
        else:
            add_partial_to(get_node(s, page_to_nid(page)), page, FREE_TO_TAIL)
    slab_unlock(page, state)
    if LOCKLESS:
        irq_restore(flags)


# --- kmalloc -------------------------------------------------------------------------------------


@inline
def get_slab(size) -> ptr[kmem_cache]:
    """The cache of a size: 96 and 192 come from a table, larger ones are powers of two."""
    if size <= 192:
        index = size_index[(size - 1) >> 3]
    else:
        index = fls(size - 1)
    return addressof(kmalloc_caches.cache[index])


def kmalloc(size, gfpflags) -> ptr:
    """Allocate; more than half a page comes straight from the page allocator."""
    if size > KMALLOC_MAX:
        count(LARGE_ALLOC)
        return __get_free_pages(gfpflags, get_order(size))
    if size == 0:
        return ZERO_SIZE_PTR
    return slab_alloc(get_slab(size), gfpflags, -1)


def kmalloc_node(size, gfpflags, node) -> ptr:
    """Allocate on a node; -1 for any.  Large sizes do not look at the node, as in the kernel."""
    if size > KMALLOC_MAX:
        count(LARGE_ALLOC)
        return __get_free_pages(gfpflags, get_order(size))
    if size == 0:
        return ZERO_SIZE_PTR
    return slab_alloc(get_slab(size), gfpflags, node)


def kfree(object: free_object):
    """Free; the page tells whether a slab or the page allocator gave the object out."""
    if object <= ZERO_SIZE_PTR:  # NULL too
        return
    page = virt_to_head_page(object)
    if page.flags & (1 << PG_slab):
        slab_free(page.slab, page, object)
    else:
        count(LARGE_FREE)
        put_page(page)
