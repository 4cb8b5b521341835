"""SLAB's reaper, of Linux 2.6.24: what is not in use goes back to the slabs and to the page allocator.

Each CPU has a kernel thread that calls ``cache_reap`` about every two seconds.  Nothing here starts it, and
time in ticks stands still unless ``timer_tick`` is called: a workload does both.  Left out: rounding and
spreading of the intervals, and giving way to other tasks between two caches.
"""


def timer_tick(ticks):
    """Time goes on by so many ticks."""
    jiffies += ticks


def drain_array(cachep: kmem_cache, l3: kmem_list3, ac: array_cache, node):
    """An array that was not refilled since the last time gives a fifth of its limit back.  Interrupts
    are on."""
    if ac == NULL:
        return
    if ac.avail == 0:
        return
    if ac.touched:
        ac.touched = 0
        return
    irq_disable()
    take_list_lock(l3)
    if ac.avail:
        drained = (ac.limit + 4) // 5
        if drained > ac.avail:
            drained = (ac.avail + 1) // 2
        free_block(cachep, addressof(ac.entry), drained, node)
        ac.avail -= drained
        copy_entries(addressof(ac.entry), addressof(ac.entry[drained]), ac.avail)
    drop_list_lock(l3)
    irq_enable()


def drain_freelist(cachep: kmem_cache, l3: kmem_list3, slabs):
    """Give up to so many free slabs back, the oldest first.  Interrupts are on."""
    freed = 0
    while freed < slabs and l3.slabs_free.next != addressof(l3.slabs_free):
        irq_disable()
        take_list_lock(l3)
        entry = l3.slabs_free.prev
        if entry == addressof(l3.slabs_free):
            drop_list_lock(l3)
            irq_enable()
            break
        list_del(entry)
        l3.free_objects -= cachep.num
        drop_list_lock(l3)
        irq_enable()
        count(DESTROYED)
        slab_destroy(cachep, container_of(entry, slab, list))
        freed += 1
    return freed


@inline
def reap_alien(cachep: kmem_cache, l3: kmem_list3):
    """Empty the alien cache for the node whose turn it is, unless somebody works on it."""
    nodeid = this_cpu(reap_node)[0]
    table = l3.alien
    if table == NULL:
        return
    ac = table.of[nodeid]
    if ac == NULL:
        return
    if ac.avail == 0:
        return
    irq_disable()
    preempt_off()
    if spin_trylock(ac.lock):
        count(ALIEN_LOCK)
        __drain_alien_cache(cachep, ac, nodeid)
        spin_unlock(ac.lock)
    preempt_on()
    irq_enable()


def cache_reap(cpu):
    """What a CPU's kernel thread does every two seconds for every cache: shrink what is not in use.

    The shared array and the free slabs have their turn every four seconds of ``jiffies``.  ``cpu`` must
    be this CPU.  To be started with interrupts on; nothing here starts it.
    """
    bug_on(cpu != smp_processor_id(), "cache_reap runs on the CPU whose arrays it drains")
    if xchg(cache_chain_mutex, 1) != 0:
        return  # another CPU reaps: not this time
    lock_acquired(cache_chain_mutex)
    node = numa_node_id()
    entry = cache_chain.next
    while entry != addressof(cache_chain):
        cachep = container_of(entry, kmem_cache, next)
        l3 = cachep.nodelists[node]
        if NR_NODES > 1:
            reap_alien(cachep, l3)
        drain_array(cachep, l3, cpu_cache_get(cachep), node)
        if l3.next_reap - jiffies <= 0:
            l3.next_reap = jiffies + REAPTIMEOUT_LIST3
            drain_array(cachep, l3, l3.shared, node)
            if l3.free_touched:
                l3.free_touched = 0
            else:
                share = 5 * cachep.num
                freed = drain_freelist(cachep, l3, (l3.free_limit + share - 1) // share)
                count(REAPED, freed)
        entry = entry.next
        instructions(3)  # does somebody else want the CPU
    lock_released(cache_chain_mutex)
    cache_chain_mutex = 0
    if NR_NODES > 1:
        this_cpu(reap_node)[0] = (this_cpu(reap_node)[0] + 1) % NR_NODES
