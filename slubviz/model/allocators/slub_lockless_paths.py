"""SLUB with the lockless slow path: giving slabs up, the CPU's chain of partial slabs, allocation and free.

See slub_lockless.py, which has the structures and options.
"""


# --- a cpu slab is given up ----------------------------------------------------------------------------


@inline
def push_back(page: page, object: free_object):
    """One object from the CPU's freelist back to its frozen slab's own."""
    while True:
        prior = page.freelist
        counters = page.counters
        set_freepointer(object, prior)
        if __cmpxchg_double_slab(page, prior, counters, object, counters - 1):
            return


def deactivate_slab(s: kmem_cache, page: page, freelist: free_object):
    """Give up a frozen slab with what is left of the CPU's freelist.

    All objects but the last go back one by one.  The last exchange also unfreezes the slab; a slab that
    has free objects is on the list before, which nobody sees because the list is locked.
    """
    n = get_node(s, page_to_nid(page))
    tail = 0
    if page.freelist != NULL:
        count(DEACTIVATE_REMOTE_FREES)
        tail = 1
    if freelist != NULL:
        following = cast(free_object, get_freepointer(freelist))
        while following != NULL:
            push_back(page, freelist)
            freelist = following
            following = cast(free_object, get_freepointer(freelist))
    locked = 0
    listed = 0
    full_noted = 0
    while True:
        old_freelist = page.freelist
        old_counters = page.counters
        new_freelist = old_freelist
        new_counters = old_counters & ~FROZEN
        if freelist != NULL:
            new_counters -= 1
            set_freepointer(freelist, old_freelist)
            new_freelist = freelist
        give_back = 0
        if new_counters & INUSE == 0:
            give_back = enough_partial(s, n)
        wants_list = give_back == 0 and new_freelist != NULL
        if wants_list and locked == 0:
            locked = 1
            list_lock(n)
        if listed and not wants_list:
            remove_partial(n, page)
            listed = 0
        if wants_list and not listed:
            add_partial(n, page, tail)
            listed = 1
            if tail:
                count(DEACTIVATE_TO_TAIL)
            else:
                count(DEACTIVATE_TO_HEAD)
        if new_freelist == NULL and full_noted == 0:
            full_noted = 1
            count(DEACTIVATE_FULL)
        if __cmpxchg_double_slab(page, old_freelist, old_counters, new_freelist, new_counters):
            break
    if locked:
        list_unlock(n)
    if give_back:
        count(DEACTIVATE_EMPTY)
        discard_slab(s, page)
        count(FREE_SLAB)


def flush_slab(s: kmem_cache, c: kmem_cache_cpu):
    count(CPUSLAB_FLUSH)
    deactivate_slab(s, c.page, cast(free_object, c.freelist))
    c.tid = next_tid(c.tid)
    c.page = NULL
    c.freelist = NULL


def flush_cpu_slab(s: kmem_cache):
    """Give up everything that this CPU has of a cache: its slab and its chain."""
    flags = irq_save()
    c = this_cpu_slab(s)
    if c.page != NULL:
        flush_slab(s, c)
    unfreeze_partials(s, c)
    irq_restore(flags)


# --- a CPU's chain of partial slabs --------------------------------------------------------------------


@inline
def discard_chain(s: kmem_cache, first: page):
    """Give back the empty slabs that unfreeze_partials has collected; no lock is held."""
    page = first
    while page != NULL:
        following = page.chain.next
        count(DEACTIVATE_EMPTY)
        discard_slab(s, page)
        count(FREE_SLAB)
        page = following


@inline
def switch_lock(held: kmem_cache_node, wanted: kmem_cache_node):
    """Go from one node's list to another's."""
    if held != NULL:
        list_unlock(held)
    list_lock(wanted)


def unfreeze_partials_locking_inside(s: kmem_cache, c: kmem_cache_cpu):
    """unfreeze_partials of 3.2 to 3.5: what becomes of a slab is decided, and the list changed, within
    the loop of the exchange.

    An empty slab that comes first is given back without a look at the node, and without its lock.  A later
    one is judged by the node that happens to be locked, which need not be its own.
    """
    n = cast(kmem_cache_node, NULL)
    empty = cast(page, NULL)
    page = c.partial
    while page != NULL:
        c.partial = page.chain.next
        listed = 0
        while True:
            freelist = page.freelist
            counters = page.counters
            wants_list = 1
            if counters & INUSE == 0:
                wants_list = 0
                if n != NULL:
                    wants_list = not enough_partial(s, n)
            if wants_list:
                wanted = get_node(s, page_to_nid(page))
                if n != wanted:
                    switch_lock(n, wanted)
                    n = wanted
            if wants_list != listed:
                if listed:
                    remove_partial(n, page)
                    count(FREE_REMOVE_PARTIAL)
                else:
                    add_partial(n, page, 1)
                    count(FREE_ADD_PARTIAL)
                listed = wants_list
            if cmpxchg_double_slab(page, freelist, counters, freelist, counters & ~FROZEN):
                break
        if listed == 0:
            page.chain.next = empty
            empty = page
        page = c.partial
    if n != NULL:
        list_unlock(n)
    discard_chain(s, empty)


def unfreeze_partials_locking_before(s: kmem_cache, c: kmem_cache_cpu):
    """unfreeze_partials of 3.6: the node is locked before the loop, for every slab; the loop only
    exchanges."""
    n = cast(kmem_cache_node, NULL)
    empty = cast(page, NULL)
    page = c.partial
    while page != NULL:
        c.partial = page.chain.next
        wanted = get_node(s, page_to_nid(page))
        if n != wanted:
            switch_lock(n, wanted)
            n = wanted
        while True:
            freelist = page.freelist
            counters = page.counters
            if __cmpxchg_double_slab(page, freelist, counters, freelist, counters & ~FROZEN):
                break
        give_back = 0
        if counters & INUSE == 0:
            give_back = enough_partial(s, n)
        if give_back:
            page.chain.next = empty
            empty = page
        else:
            add_partial(n, page, 1)
            count(FREE_ADD_PARTIAL)
        page = c.partial
    if n != NULL:
        list_unlock(n)
    discard_chain(s, empty)


@inline
def unfreeze_partials(s: kmem_cache, c: kmem_cache_cpu):
    """Move a CPU's chain to the nodes' lists; interrupts are off."""
    if UNFREEZE_REWRITE:
        unfreeze_partials_locking_before(s, c)
    else:
        unfreeze_partials_locking_inside(s, c)


@inline
def drain_chain(s: kmem_cache, c: kmem_cache_cpu):
    """All slabs of the chain go to the nodes' lists."""
    flags = irq_save()
    unfreeze_partials(s, c)
    irq_restore(flags)


@inline
def push_on_chain(s: kmem_cache, page: page, drain):
    """Put a frozen slab first on this CPU's chain.  Its first slab carries what the whole chain has."""
    c = this_cpu_slab(s)
    while True:
        first = c.partial
        pages = 1
        pobjects = 0
        if first != NULL:
            pages = first.chain.pages + 1
            pobjects = first.chain.pobjects
            if drain:
                if pobjects > s.cpu_partial:
                    drain_chain(s, c)
                    count(CPU_PARTIAL_DRAIN)
                    first = cast(page, NULL)
                    pages = 1
                    pobjects = 0
        pobjects += free_of(page.counters)
        page.chain.pages = pages
        page.chain.pobjects = pobjects
        page.chain.next = first
        if cmpxchg_local(c.partial, first, page) == first:
            return pobjects


def put_cpu_partial(s: kmem_cache, page: page, drain):
    """Put a frozen slab on this CPU's chain.  Returns how many free objects the chain has, as it thinks:
    each slab's were counted when it came.  A cache of 4.3 that may keep none gives it up at once.
    """
    if not LINUX_4_3:
        return push_on_chain(s, page, drain)
    preempt_off()
    pobjects = push_on_chain(s, page, drain)
    if s.cpu_partial == 0:
        drain_chain(s, this_cpu_slab(s))
    preempt_on()
    return pobjects


# --- allocation ----------------------------------------------------------------------------------------


@inline
def get_freelist(page: page) -> ptr:
    """Take all that was freed to the cpu slab from elsewhere.

    If there is nothing, the same exchange unfreezes the slab: it is full, and on no list.
    """
    while True:
        freelist = page.freelist
        counters = page.counters
        taken = (counters & ~(INUSE | FROZEN)) | objects_of(counters)
        if freelist != NULL:
            taken |= FROZEN
        if __cmpxchg_double_slab(page, freelist, counters, NULL, taken):
            return freelist


@inline
def new_slab_objects(s: kmem_cache, gfpflags, node, c: kmem_cache_cpu) -> ptr:
    """Objects from a listed slab or a new one, which is the cpu slab then.

    While the page allocator ran with interrupts on, this CPU may have got a slab: it is given up.
    """
    freelist = get_partial(s, node, c)
    if freelist == NULL:
        page = new_slab(s, gfpflags, node)
        if page != NULL:
            now = this_cpu_slab(s)
            if now.page != NULL:
                flush_slab(s, now)
            # Nobody else knows this slab yet: plain stores.
            freelist = page.freelist
            page.freelist = NULL
            count(ALLOC_SLAB)
            now.page = page
            owner_note(page)
    return freelist


@inline
def ___slab_alloc(s: kmem_cache, gfpflags, node) -> ptr:
    """Slow path, interrupts off: what was freed to the cpu slab, then the CPU's chain, then a listed slab,
    then a new one.  0 without memory."""
    c = this_cpu_slab(s)
    while True:
        page = c.page
        if page != NULL:
            if node_match(page, node):
                # Looked at again: an interrupt may have refilled it before interrupts were off.
                object = cast(free_object, c.freelist)
                if object != NULL:
                    break
                if not LINUX_4_3:
                    count(ALLOC_SLOWPATH)
                object = cast(free_object, get_freelist(page))
                if object != NULL:
                    count(ALLOC_REFILL)
                    break
                c.page = NULL
                count(DEACTIVATE_BYPASS)
            else:
                count(ALLOC_NODE_MISMATCH)
                deactivate_slab(s, page, cast(free_object, c.freelist))
                c.page = NULL
                c.freelist = NULL
        if CPU_PARTIAL:
            page = c.partial
            if page != NULL:
                c.page = page
                c.partial = page.chain.next
                owner_note(page)
                count(CPU_PARTIAL_ALLOC)
                c.freelist = NULL
                continue
        object = cast(free_object, new_slab_objects(s, gfpflags, node, c))
        if object == NULL:
            return NULL
        c = this_cpu_slab(s)  # while pages were fetched, with interrupts on, the task may have moved
        break
    c.freelist = get_freepointer(object)
    c.tid = next_tid(c.tid)
    return object


def __slab_alloc(s: kmem_cache, gfpflags, node) -> ptr:
    flags = irq_save()
    object = ___slab_alloc(s, gfpflags, node)
    irq_restore(flags)
    return object


@inline
def slab_alloc(s: kmem_cache, gfpflags, node) -> ptr:
    """Fast path: pop the CPU's own freelist and move the transaction id on, at once."""
    instructions(2)  # mask of the allowed allocation flags
    while True:
        c = this_cpu_slab(s)
        tid = c.tid
        # The id is read first: whatever happens from here on changes it.
        barrier()
        object = cast(free_object, c.freelist)
        page = c.page
        if object == NULL or not node_match(page, node):
            object = cast(free_object, __slab_alloc(s, gfpflags, node))
            if LINUX_4_3:
                count(ALLOC_SLOWPATH)
            break
        following = get_freepointer(object)
        if cmpxchg_double_local(c.freelist, object, tid, following, next_tid(tid)):
            instructions(1)  # load of the link's offset
            prefetch(following)  # its link is needed next; NULL is no address and does nothing
            count(ALLOC_FASTPATH)
            break
        count(CMPXCHG_DOUBLE_CPU_FAIL)
    instructions(2)  # test for zeroing, hook
    return object


# --- free ------------------------------------------------------------------------------------------------


def __slab_free(s: kmem_cache, page: page, head: free_object, tail: free_object, nr_objects):
    """Slow path: a chain of objects goes to its slab's own freelist by one exchange.

    If the slab was full, the exchange freezes it as well, and it goes to this CPU's chain.  Only a slab
    that becomes empty on a list needs the list's lock, which is taken before.
    """
    count(FREE_SLOWPATH)
    instructions(1)  # test of the debug flag
    n = cast(kmem_cache_node, NULL)
    flags = 0
    while True:
        if LINUX_4_3:
            if n != NULL:
                list_unlock(n)
                irq_restore(flags)
                n = cast(kmem_cache_node, NULL)
        prior = page.freelist
        counters = page.counters
        set_freepointer(tail, prior)
        freed = counters - nr_objects
        was_frozen = counters & FROZEN
        if was_frozen == 0 and (freed & INUSE == 0 or prior == NULL):
            if n == NULL:
                if CPU_PARTIAL and prior == NULL:
                    freed |= FROZEN
                else:
                    n = get_node(s, page_to_nid(page))
                    flags = irq_save()
                    list_lock(n)
        if cmpxchg_double_slab(page, prior, counters, head, freed):
            break
    if n == NULL:
        if was_frozen:
            count(FREE_FROZEN)
        elif CPU_PARTIAL and freed & FROZEN:
            put_cpu_partial(s, page, 1)
            count(CPU_PARTIAL_FREE)
        return
    give_back = 0
    if was_frozen:
        # Somebody froze it after the lock was taken for it.
        count(FREE_FROZEN)
    else:
        if freed & INUSE == 0:
            give_back = enough_partial(s, n)
        if give_back:
            if prior != NULL:
                remove_partial(n, page)
                count(FREE_REMOVE_PARTIAL)
        elif prior == NULL:
            add_partial(n, page, 1)
            count(FREE_ADD_PARTIAL)
    list_unlock(n)
    irq_restore(flags)
    if give_back:
        count(FREE_SLAB)
        discard_slab(s, page)


@inline
def slab_free(s: kmem_cache, page: page, head: free_object, tail: free_object, nr_objects):
    """Fast path: a chain of objects of the cpu slab goes before the CPU's own freelist."""
    while True:
        c = this_cpu_slab(s)
        tid = c.tid
        barrier()
        if page != c.page:
            __slab_free(s, page, head, tail, nr_objects)
            break
        set_freepointer(tail, c.freelist)
        # The freelist is read a second time here.
        if cmpxchg_double_local(c.freelist, c.freelist, tid, head, next_tid(tid)):
            count(FREE_FASTPATH)
            break
        count(CMPXCHG_DOUBLE_CPU_FAIL)


# --- kmalloc ---------------------------------------------------------------------------------------------


@inline
def get_slab(size) -> ptr[kmem_cache]:
    """The cache of a size: up to 192 from a table, larger ones are powers of two."""
    if size <= 192:
        index = size_index[(size - 1) >> 3]
    else:
        index = fls(size - 1)
    return kmalloc_table[index]


def kmalloc(size, gfpflags) -> ptr:
    """Allocate; more than two pages come straight from the page allocator."""
    if size > KMALLOC_MAX:
        count(LARGE_ALLOC)
        return __get_free_pages(gfpflags, get_order(size))
    if size == 0:
        return ZERO_SIZE_PTR
    return slab_alloc(get_slab(size), gfpflags, -1)


def kmalloc_node(size, gfpflags, node) -> ptr:
    """Allocate on a node; -1 for any.  Large sizes do not look at the node here."""
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
        slab_free(page.slab, page, object, object, 1)
    else:
        count(LARGE_FREE)
        put_page(page)
