"""SLAB of Linux 2.6.24, as it was compared with SLUB in October 2007.

Every CPU has an array of free objects of each cache (``array_cache``) and works on it alone, with
interrupts disabled and without a lock.  An empty array is refilled and a full one flushed in batches
under the node's ``list_lock``: from and to an array that the CPUs of the node share, or from and to the
slabs, which are on one of three lists (full, partial, free).  What is free in a slab is a chain of
indices beside the slab's structure, so objects are not read or written; a new one is prefetched.  That
structure with its chain lies at the start of the slab, or for large objects in an object of another
cache.  On machines with several nodes an object of another node goes to an array for that node (the
alien caches).

Left out: debugging and statistics, constructors, SLAB_DESTROY_BY_RCU, tuning at run time, cpu hotplug,
memory policies, zeroing on allocation, caches other than kmalloc's.  Slabs of several pages are compound
pages, whose first page alone names cache and slab.

Counters: ALLOC_FASTPATH and FREE_FASTPATH are allochit and freehit of /proc/slabinfo; the slow paths are
allocmiss and freemiss, and what goes to or comes from another node (nodeallocs, nodefrees).  They hold
the allocations that SLAB makes for itself too, of slab structures.
"""


def copy_entries(target, source, entries):
    """Copy pointers, the first one first, eight in a turn as the kernel's memcpy does."""
    while entries >= 8:
        to = cast(ptr[ptr], target)
        at = cast(ptr[ptr], source)
        to[0] = at[0]
        to[1] = at[1]
        to[2] = at[2]
        to[3] = at[3]
        to[4] = at[4]
        to[5] = at[5]
        to[6] = at[6]
        to[7] = at[7]
        target += 8 * WORD_BYTES
        source += 8 * WORD_BYTES
        entries -= 8
    while entries > 0:
        cast(ptr[ptr], target)[0] = cast(ptr[ptr], source)[0]
        target += WORD_BYTES
        source += WORD_BYTES
        entries -= 1
    instructions(2)  # test for bytes that are left


# --- from an address to its cache and slab --------------------------------------------------------


@inline
def check_slab_page(page: page):
    bug_on(page.flags & (1 << PG_slab) == 0, "an object that is freed lies in no slab")


@inline
def virt_to_cache(objp) -> ptr[kmem_cache]:
    page = virt_to_head_page(objp)
    check_slab_page(page)
    return cast(kmem_cache, page.lru.next)


@inline
def virt_to_slab(objp) -> ptr[slab]:
    page = virt_to_head_page(objp)
    check_slab_page(page)
    return cast(slab, page.lru.prev)


# --- the objects of a slab ------------------------------------------------------------------------


@inline
def slab_bufctl(slabp: slab) -> ptr[uint32]:
    """The chain: for each object the index of the next free one."""
    return cast(ptr[uint32], slabp + sizeof(slab))


@inline
def slab_get_obj(cachep: kmem_cache, slabp: slab) -> ptr:
    """Take the first free object off the chain."""
    index = slabp.free
    slabp.inuse += 1
    slabp.free = slab_bufctl(slabp)[index]
    return slabp.s_mem + cachep.buffer_size * index


@inline
def slab_put_obj(cachep: kmem_cache, slabp: slab, objp):
    """Put an object at the head of the chain; the division is a multiplication by the reciprocal."""
    index = ((objp - slabp.s_mem) * cachep.reciprocal_buffer_size) >> 32
    slab_bufctl(slabp)[index] = slabp.free
    slabp.free = index
    slabp.inuse -= 1


@inline
def list_slab_after_alloc(l3: kmem_list3, slabp: slab):
    """Move a slab that has given objects to the head of the list where it belongs now."""
    list_del(addressof(slabp.list))
    if slabp.free == BUFCTL_END:
        list_add(addressof(slabp.list), addressof(l3.slabs_full))
    else:
        list_add(addressof(slabp.list), addressof(l3.slabs_partial))


@inline
def first_slab_with_free_objects(l3: kmem_list3) -> ptr[slab]:
    """The first partial slab, else the first free one, else NULL."""
    entry = l3.slabs_partial.next
    if entry == addressof(l3.slabs_partial):
        l3.free_touched = 1
        entry = l3.slabs_free.next
        if entry == addressof(l3.slabs_free):
            return NULL
    return container_of(entry, slab, list)


# --- slabs from and to the page allocator ---------------------------------------------------------


def kmem_getpages(cachep: kmem_cache, flags, nodeid) -> ptr[page]:
    """Pages for a slab, marked as such."""
    order = cachep.gfporder
    nid = nodeid
    if nid == -1:
        nid = numa_node_id()
    instructions(3)  # flags of the cache added, test for reclaimable slabs
    page = __alloc_pages(flags, order, nid)
    if page == NULL:
        return NULL
    mod_zone_page_state(page_zone(page), 1 << order)
    for i in range(1 << order):
        cast(page, page + i * sizeof(page)).flags |= 1 << PG_slab
    return page


def kmem_freepages(cachep: kmem_cache, address):
    """Give a slab's pages back."""
    order = cachep.gfporder
    page = virt_to_page(address)
    mod_zone_page_state(page_zone(page), -(1 << order))
    for i in range(1 << order):
        one = cast(page, page + i * sizeof(page))
        check_slab_page(one)
        one.flags &= ~(1 << PG_slab)
    instructions(2)  # pages are counted if reclaim runs
    __free_pages(page, order)


def alloc_slabmgmt(cachep: kmem_cache, objp, colour_off, local_flags, nodeid) -> ptr[slab]:
    """The slab's structure: in an object of another cache, or in front of its own objects."""
    if cachep.flags & CFLGS_OFF_SLAB:
        granule(objp, PAGE_SIZE << cachep.gfporder, cachep.buffer_size)
        slabp = cast(slab, kmem_cache_alloc_node(cachep.slabp_cache, local_flags & ~GFP_THISNODE, nodeid))
        if slabp == NULL:
            return NULL
    else:
        granule(objp, PAGE_SIZE << cachep.gfporder, 8)
        slabp = cast(slab, objp + colour_off)
        colour_off += cachep.slab_size
    slabp.inuse = 0
    slabp.colouroff = colour_off
    slabp.s_mem = objp + colour_off
    return slabp


@inline
def cache_init_objs(cachep: kmem_cache, slabp: slab):
    """Chain all objects in ascending order."""
    bufctl = slab_bufctl(slabp)
    i = 0
    while i < cachep.num:
        bug_on(cachep.ctor != NULL, "constructors are not modelled")
        following = i + 1
        bufctl[i] = following
        i = following
    bufctl[i - 1] = BUFCTL_END
    slabp.free = 0


def cache_grow(cachep: kmem_cache, flags, nodeid, page: page):
    """Add a slab to a node's free slabs: of the given page, or of new ones.  Returns whether there is one.

    The lock is not held while pages are fetched, and interrupts are on if the caller may wait.  So the
    new slab can be used up by others before the caller comes to it.
    """
    instructions(4)  # the flags are checked, and cut to those for pages
    l3 = cachep.nodelists[nodeid]
    take_list_lock(l3)
    offset = l3.colour_next
    following = offset + 1
    l3.colour_next = following
    if following >= cachep.colour:
        l3.colour_next = 0
    drop_list_lock(l3)
    offset *= cachep.colour_off
    if flags & GFP_WAIT:
        irq_enable()
    instructions(3)  # DMA flags of caller and cache are compared
    if page == NULL:
        page = kmem_getpages(cachep, flags, nodeid)
    slabp = cast(slab, NULL)
    if page != NULL:
        objp = page_address(page)
        slabp = alloc_slabmgmt(cachep, objp, offset, flags, nodeid)
        if slabp == NULL:
            kmem_freepages(cachep, objp)
    if slabp == NULL:
        if flags & GFP_WAIT:
            irq_disable()
        return 0
    slabp.nodeid = nodeid
    page.lru.next = cast(list_head, cachep)
    page.lru.prev = cast(list_head, slabp)
    owner_note(page)
    cache_init_objs(cachep, slabp)
    if flags & GFP_WAIT:
        irq_disable()
    take_list_lock(l3)
    list_add_tail(addressof(slabp.list), addressof(l3.slabs_free))
    count(GROWN)
    l3.free_objects += cachep.num
    drop_list_lock(l3)
    return 1


def slab_destroy(cachep: kmem_cache, slabp: slab):
    """Give an unlisted slab back.  Its structure, when it is an object, is of another cache than the slab,
    so a list_lock that the caller holds is no obstacle."""
    instructions(2)  # test for slabs that wait for readers
    kmem_freepages(cachep, slabp.s_mem - slabp.colouroff)
    if cachep.flags & CFLGS_OFF_SLAB:
        kmem_cache_free(cachep.slabp_cache, slabp)


# --- allocation -----------------------------------------------------------------------------------


def transfer_objects(to: array_cache, source: array_cache, most):
    """Move the newest objects of one array to another, as many as there are and fit.  Returns how many."""
    moved = source.avail
    if moved > most:
        moved = most
    room = to.limit - to.avail
    if moved > room:
        moved = room
    if moved == 0:
        return 0
    copy_entries(addressof(to.entry[to.avail]), addressof(source.entry[source.avail - moved]), moved)
    source.avail -= moved
    to.avail += moved
    to.touched = 1
    return moved


@inline
def take_from_slabs(cachep: kmem_cache, l3: kmem_list3, ac: array_cache, batchcount):
    """Fill an empty array from partial slabs and then free ones; the lock is held."""
    while batchcount > 0:
        slabp = first_slab_with_free_objects(l3)
        if slabp == NULL:
            break
        bug_on(slabp.inuse >= cachep.num, "a slab without free objects is on a list of such with some")
        while slabp.inuse < cachep.num and batchcount > 0:
            batchcount -= 1
            objp = slab_get_obj(cachep, slabp)
            avail = ac.avail
            ac.entry[avail] = objp
            ac.avail = avail + 1
        list_slab_after_alloc(l3, slabp)
    l3.free_objects -= ac.avail


def cache_alloc_refill(cachep: kmem_cache, flags) -> ptr:
    """This CPU's array is empty: fill it, and if there is nothing to fill it with, grow the cache."""
    node = numa_node_id()
    ac = cpu_cache_get(cachep)
    while True:
        batchcount = ac.batchcount
        if ac.touched == 0 and batchcount > BATCHREFILL_LIMIT:
            batchcount = BATCHREFILL_LIMIT  # after a rest take fewer: an array that is rarely used stays small
        l3 = cachep.nodelists[node]
        bug_on(ac.avail > 0, "an array that is refilled is not empty")
        take_list_lock(l3)
        moved = 0
        if l3.shared != NULL:
            moved = transfer_objects(ac, l3.shared, batchcount)
        if moved == 0:
            take_from_slabs(cachep, l3, ac, batchcount)
        drop_list_lock(l3)
        if ac.avail != 0:
            if moved:
                count(REFILL_SHARED)
            else:
                count(REFILL_SLABS)
            break
        count(REFILL_EMPTY)
        grown = cache_grow(cachep, flags | GFP_THISNODE, node, NULL)
        # Interrupts may have been on: the task may be on another CPU, and that CPU's array refilled.
        ac = cpu_cache_get(cachep)
        if ac.avail != 0:
            break
        if not grown:
            return NULL
    ac.touched = 1
    avail = ac.avail - 1
    ac.avail = avail
    return ac.entry[avail]


@inline
def ____cache_alloc(cachep: kmem_cache, flags) -> ptr:
    """Pop this CPU's array.  Interrupts are off."""
    ac = cpu_cache_get(cachep)
    avail = ac.avail
    if avail != 0:
        count(ALLOC_FASTPATH)
        ac.touched = 1
        avail -= 1
        ac.avail = avail
        return ac.entry[avail]
    count(ALLOC_SLOWPATH)
    return cache_alloc_refill(cachep, flags)


def ____cache_alloc_node(cachep: kmem_cache, flags, nodeid) -> ptr:
    """One object straight from the slabs of a node, which need not be this CPU's.  Interrupts are off."""
    l3 = cachep.nodelists[nodeid]
    while True:
        take_list_lock(l3)
        slabp = first_slab_with_free_objects(l3)
        if slabp != NULL:
            count(NODEALLOCS)
            bug_on(slabp.inuse >= cachep.num, "a slab without free objects is on a list of such with some")
            objp = slab_get_obj(cachep, slabp)
            l3.free_objects -= 1
            list_slab_after_alloc(l3, slabp)
            drop_list_lock(l3)
            return objp
        drop_list_lock(l3)
        if not cache_grow(cachep, flags | GFP_THISNODE, nodeid, NULL):
            break
    return fallback_alloc(cachep, flags)


def fallback_alloc(cachep: kmem_cache, flags) -> ptr:
    """The wanted node has no memory: what any node has free, else a page from wherever there is one."""
    if flags & GFP_THISNODE:
        return NULL
    local = numa_node_id()
    objp = NULL
    while objp == NULL:
        for step in range(NR_NODES):
            nid = (local + step) % NR_NODES
            instructions(4)  # may this task's memory be there
            if objp == NULL and cachep.nodelists[nid].free_objects != 0:
                objp = ____cache_alloc_node(cachep, flags | GFP_THISNODE, nid)
        if objp != NULL:
            break
        if flags & GFP_WAIT:
            irq_enable()
        page = kmem_getpages(cachep, flags, -1)
        if flags & GFP_WAIT:
            irq_disable()
        if page == NULL:
            break
        nid = page_to_nid(page)
        if not cache_grow(cachep, flags, nid, page):
            break
        objp = ____cache_alloc_node(cachep, flags | GFP_THISNODE, nid)
        # Others may have taken its objects meanwhile: then all over again.
    return objp


@inline
def __cache_alloc(cachep: kmem_cache, flags) -> ptr:
    state = irq_save()
    if NR_NODES > 1:
        instructions(3)  # does this task spread its memory over the nodes
    objp = ____cache_alloc(cachep, flags)
    if NR_NODES > 1:
        if objp == NULL:
            objp = ____cache_alloc_node(cachep, flags, numa_node_id())
    irq_restore(state)
    prefetch(objp)
    instructions(2)  # test for zeroing
    return objp


def kmem_cache_alloc(cachep: kmem_cache, flags) -> ptr:
    return __cache_alloc(cachep, flags)


@inline
def __cache_alloc_node(cachep: kmem_cache, flags, nodeid) -> ptr:
    """Allocate on a node, -1 for the CPU's own; from its array if it is that one."""
    state = irq_save()
    local = numa_node_id()
    if nodeid == -1:
        nodeid = local
    objp = NULL
    if nodeid == local:
        objp = ____cache_alloc(cachep, flags)
    else:
        count(ALLOC_SLOWPATH)
    if objp == NULL:
        objp = ____cache_alloc_node(cachep, flags, nodeid)
    irq_restore(state)
    instructions(2)  # test for zeroing
    return objp


def kmem_cache_alloc_node(cachep: kmem_cache, flags, nodeid) -> ptr:
    if NR_NODES > 1:
        node = nodeid
        return __cache_alloc_node(cachep, flags, node)
    return kmem_cache_alloc(cachep, flags)


# --- free -----------------------------------------------------------------------------------------


@inline
def free_one(cachep: kmem_cache, l3: kmem_list3, objp):
    """Put an object back into its slab; the node's lock is held."""
    slabp = virt_to_slab(objp)
    list_del(addressof(slabp.list))
    slab_put_obj(cachep, slabp, objp)
    l3.free_objects += 1
    if slabp.inuse != 0:
        # To the tail each time, so that its other objects get time to be freed as well.
        list_add_tail(addressof(slabp.list), addressof(l3.slabs_partial))
    elif l3.free_objects > l3.free_limit:
        l3.free_objects -= cachep.num
        count(DESTROYED)
        slab_destroy(cachep, slabp)
    else:
        list_add(addressof(slabp.list), addressof(l3.slabs_free))


def free_block(cachep: kmem_cache, entries: ptr[ptr], freed, node):
    """Put objects back into their slabs, which are all of this node; its lock is held."""
    for i in range(freed):
        free_one(cachep, cachep.nodelists[node], entries[i])


def cache_flusharray(cachep: kmem_cache, ac: array_cache):
    """This CPU's array is full: its oldest objects go to the shared array, or else to their slabs."""
    node = numa_node_id()
    batchcount = ac.batchcount
    l3 = cachep.nodelists[node]
    take_list_lock(l3)
    room = 0
    shared = l3.shared
    if shared != NULL:
        room = shared.limit - shared.avail
    if room != 0:
        if batchcount > room:
            batchcount = room
        copy_entries(addressof(shared.entry[shared.avail]), addressof(ac.entry), batchcount)
        shared.avail += batchcount
        count(FLUSH_SHARED)
    else:
        free_block(cachep, addressof(ac.entry), batchcount, node)
        count(FLUSH_SLABS)
    drop_list_lock(l3)
    ac.avail -= batchcount
    copy_entries(addressof(ac.entry), addressof(ac.entry[batchcount]), ac.avail)


def __drain_alien_cache(cachep: kmem_cache, ac: array_cache, node):
    """Bring a node's objects home: to its shared array as far as there is room, the rest to the slabs."""
    rl3 = cachep.nodelists[node]
    if ac.avail == 0:
        return
    take_list_lock(rl3)
    if rl3.shared != NULL:
        transfer_objects(rl3.shared, ac, ac.limit)
    free_block(cachep, addressof(ac.entry), ac.avail, node)
    ac.avail = 0
    drop_list_lock(rl3)


@inline
def take_alien_lock(alien: array_cache):
    count(ALIEN_LOCK)
    preempt_off()
    spin_lock(alien.lock)


@inline
def drop_alien_lock(alien: array_cache):
    spin_unlock(alien.lock)
    preempt_on()


def free_remote(cachep: kmem_cache, objp, node, nodeid):
    """An object of another node: to this node's alien cache for it, or under that node's own lock."""
    count(NODEFREES)
    count(FREE_SLOWPATH)
    alien = cast(array_cache, NULL)
    table = cachep.nodelists[node].alien
    if table != NULL:
        alien = table.of[nodeid]
    if alien != NULL:
        take_alien_lock(alien)
        if alien.avail == alien.limit:
            count(ACOVERFLOW)
            __drain_alien_cache(cachep, alien, nodeid)
        avail = alien.avail
        alien.entry[avail] = objp
        alien.avail = avail + 1
        drop_alien_lock(alien)
    else:
        l3 = cachep.nodelists[nodeid]
        take_list_lock(l3)
        instructions(5)  # free_block is called, with an array of one
        free_one(cachep, l3, objp)
        drop_list_lock(l3)


@inline
def __cache_free(cachep: kmem_cache, objp):
    """Push onto this CPU's array, if the object is of its node.  Interrupts are off."""
    if NR_NODES > 1:
        instructions(2)  # test whether the machine has several nodes
        nodeid = virt_to_slab(objp).nodeid
        node = numa_node_id()
        if nodeid != node:
            free_remote(cachep, objp, node, nodeid)
            return
    ac = cpu_cache_get(cachep)
    if ac.avail < ac.limit:
        count(FREE_FASTPATH)
    else:
        count(FREE_SLOWPATH)
        cache_flusharray(cachep, ac)
    avail = ac.avail
    ac.entry[avail] = objp
    ac.avail = avail + 1


def kmem_cache_free(cachep: kmem_cache, objp):
    bug_on(virt_to_cache(objp) != cachep, "an object is freed to another cache than its own")
    state = irq_save()
    __cache_free(cachep, objp)
    irq_restore(state)


# --- kmalloc --------------------------------------------------------------------------------------


@inline
def __find_general_cachep(size) -> ptr[kmem_cache]:
    """The first cache of the table that is large enough; NULL stands behind the largest."""
    row = cast(cache_sizes, addressof(malloc_sizes))
    while size > row.cs_size:
        row += sizeof(cache_sizes)
    instructions(2)  # test for memory that devices reach
    return row.cs_cachep


def kmalloc(size, gfpflags) -> ptr:
    """Allocate; more than the largest cache has gives NULL."""
    if size == 0:
        return ZERO_SIZE_PTR
    cachep = __find_general_cachep(size)
    if cachep == NULL:
        return NULL
    return __cache_alloc(cachep, gfpflags)


def kmalloc_node(size, gfpflags, node) -> ptr:
    """Allocate on a node; -1 for any."""
    if size == 0:
        return ZERO_SIZE_PTR
    cachep = __find_general_cachep(size)
    if cachep == NULL:
        return NULL
    return kmem_cache_alloc_node(cachep, gfpflags, node)


def kfree(objp: free_object):
    """Free; the page tells which cache the object is of."""
    if objp <= ZERO_SIZE_PTR:  # NULL too
        return
    state = irq_save()
    __cache_free(virt_to_cache(objp), objp)
    irq_restore(state)
