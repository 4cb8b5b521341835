"""The page allocator under the slab allocators, in the form of Linux 2.6.24.

Order-0 pages go through a per-CPU list (``per_cpu_pages``) that is refilled and drained in batches
under the zone's lock; higher orders take the lock each time and come from the buddy lists directly.
One zone per node.

Left out: all migrate types but one, reclaim, watermarks beyond the first
test, the cold list, highmem; waiting for the zone's lock with interrupts on, as spin_lock_irqsave does.
``instructions(n)`` stands for straight-line code whose effect is not modelled; what it is, is said
beside it.  Structure layouts are those of 2.6.24 on the machine's word size; struct page has a file of its
own (page_struct.py), because later allocators need another.
"""

MAX_ORDER = 11

GFP_WAIT = 1
GFP_THISNODE = 2
GFP_KERNEL = GFP_WAIT
GFP_ATOMIC = 0

CONFIG_PREEMPT = option(0, "a preemptible kernel: preempt_disable and preempt_enable count", 0, 1)

PG_locked = 0
PG_active = 6
PG_slab = 7
PG_compound = 14
PG_reclaim = 17
PG_buddy = 19
NODE_SHIFT = 20

PAGE_TAIL = (1 << PG_compound) | (1 << PG_reclaim)
PAGE_IN_USE = (1 << PG_locked) | (1 << PG_active) | (1 << PG_slab) | (1 << PG_buddy)

ZONE_LOCK = counter()
PCP_REFILL = counter()
PCP_DRAIN = counter()
PAGE_ALLOC = counter()
PAGE_FREE = counter()


class list_head(struct):
    next: ptr[list_head]
    prev: ptr[list_head]


class free_area(struct):
    """The free blocks of one order.  The kernel keeps a list for each of five migrate types; slabs are
    unmovable, the first type, and only that list is used here."""
    free_list: list_head
    lists_of_other_migrate_types: array[word, 8]
    nr_free: word


class per_cpu_pages(struct):
    count: int32
    high: int32
    batch: int32
    list: list_head


class per_cpu_pageset(struct):
    pcp: per_cpu_pages
    stat_threshold: int32
    nr_free_diff: int32
    nr_slab_diff: int32


class cpu_pagesets(struct):
    of_node: array[per_cpu_pageset, NR_NODES]


class zone(struct):
    """The lock starts a cache line, which holds the free list of order 0 too; the statistics lie apart."""
    pages_low: word
    nid: word
    first_frame: word
    last_frame: word
    read_mostly_padding: array[uint32, CACHE_LINE_BYTES // 4 - WORD_BYTES]
    lock: uint32
    free_area: array[free_area, MAX_ORDER]
    statistics_padding: array[uint32, CACHE_LINE_BYTES // 4]
    nr_free_pages: word
    nr_slab_pages: word


mem_map: array[page, NR_PAGE_FRAMES]
zones: per_node[zone]
pagesets: per_cpu[cpu_pagesets]


@inline
def preempt_off():
    if CONFIG_PREEMPT:
        preempt_disable()


@inline
def preempt_on():
    if CONFIG_PREEMPT:
        preempt_enable()


@inline
def zone_lock(z: zone):
    count(ZONE_LOCK)
    preempt_off()
    spin_lock(z.lock)


@inline
def zone_unlock(z: zone):
    spin_unlock(z.lock)
    preempt_on()


@inline
def list_add(entry: list_head, head: list_head):
    """Insert right behind head."""
    following = head.next
    following.prev = entry
    entry.next = following
    entry.prev = head
    head.next = entry


@inline
def list_add_tail(entry: list_head, head: list_head):
    """Insert right before head."""
    last = head.prev
    head.prev = entry
    entry.next = head
    entry.prev = last
    last.next = entry


@inline
def list_del(entry: list_head):
    following = entry.next
    previous = entry.prev
    following.prev = previous
    previous.next = following


@inline
def page_address(page: page) -> ptr:
    return ((page - addressof(mem_map)) // sizeof(page)) << PAGE_SHIFT


def __phys_addr(address) -> ptr:
    """A function of its own in x86-64: it tells the kernel's text from the direct mapping."""
    instructions(3)
    return address


@inline
def virt_to_page(address) -> ptr[page]:
    physical = address
    if WORD_BYTES == 8:
        physical = __phys_addr(address)
    return cast(page, addressof(mem_map) + (physical >> PAGE_SHIFT) * sizeof(page))


@inline
def virt_to_head_page(address) -> ptr[page]:
    """The page that carries the state: the first one of a compound page."""
    page = virt_to_page(address)
    if page.flags & PAGE_TAIL == PAGE_TAIL:
        page = page.first_page
    return page


@inline
def page_to_nid(page: page):
    if NR_NODES > 1:
        return page.flags >> NODE_SHIFT
    return 0


@inline
def page_zone(page: page) -> ptr[zone]:
    return per_node(zones, page_to_nid(page))


@inline
def set_page_order(page: page, order):
    page.private = order
    page.flags |= 1 << PG_buddy


@inline
def remove_page_order(page: page):
    page.flags &= ~(1 << PG_buddy)
    page.private = 0


def fold_free_pages(z: zone, pageset: per_cpu_pageset):
    atomic_add(z.nr_free_pages, pageset.nr_free_diff)
    pageset.nr_free_diff = 0


@inline
def account_free_pages(z: zone, pages):
    """The zone's count of free pages is kept per CPU and folded in when the difference grows."""
    pageset = addressof(this_cpu(pagesets).of_node[z.nid])
    difference = pageset.nr_free_diff + pages
    pageset.nr_free_diff = difference
    if difference > pageset.stat_threshold or difference < -pageset.stat_threshold:
        fold_free_pages(z, pageset)


def mod_zone_page_state(z: zone, pages):
    """Account slab pages of a zone; safe against interrupts."""
    flags = irq_save()
    pageset = addressof(this_cpu(pagesets).of_node[z.nid])
    difference = pageset.nr_slab_diff + pages
    pageset.nr_slab_diff = difference
    if difference > pageset.stat_threshold or difference < -pageset.stat_threshold:
        atomic_add(z.nr_slab_pages, difference)
        pageset.nr_slab_diff = 0
    irq_restore(flags)


def expand(z: zone, page: page, low, high):
    """Give the upper halves of a block that is too large back to the lists."""
    while high > low:
        high -= 1
        buddy = cast(page, page + (sizeof(page) << high))
        area = addressof(z.free_area[high])
        list_add(addressof(buddy.lru), addressof(area.free_list))
        area.nr_free += 1
        set_page_order(buddy, high)


def __rmqueue(z: zone, order) -> ptr[page]:
    """Take a block off the buddy lists; the zone is locked."""
    current = order
    while current < MAX_ORDER:
        area = addressof(z.free_area[current])
        head = addressof(area.free_list)
        first = area.free_list.next
        if first != head:
            page = container_of(first, page, lru)
            list_del(first)
            remove_page_order(page)
            area.nr_free -= 1
            account_free_pages(z, -(1 << order))
            expand(z, page, order, current)
            return page
        current += 1
    return NULL


@inline
def get_pageblock_migratetype(page: page):
    """Three bits of the block's entry in the zone's bitmap, tested one by one; always unmovable here."""
    instructions(36)
    return 0


@inline
def page_is_buddy(z: zone, buddy: page, frame, order):
    """Whether the neighbour is free as one block of the same order."""
    if frame < z.first_frame or frame >= z.last_frame:
        return 0
    return buddy.flags & (1 << PG_buddy) != 0 and buddy.private == order


def __free_one_page(z: zone, page: page, order):
    """Put a block back, merged with its free neighbours; the zone is locked."""
    if page.flags & (1 << PG_compound):
        destroy_compound_page(page, order)
    get_pageblock_migratetype(page)
    account_free_pages(z, 1 << order)
    frame = (page - addressof(mem_map)) // sizeof(page)
    while order < MAX_ORDER - 1:
        buddy_frame = frame ^ (1 << order)
        buddy = cast(page, addressof(mem_map) + buddy_frame * sizeof(page))
        if not page_is_buddy(z, buddy, buddy_frame, order):
            break
        list_del(addressof(buddy.lru))
        area = addressof(z.free_area[order])
        area.nr_free -= 1
        remove_page_order(buddy)
        frame = frame & buddy_frame
        order += 1
    merged = cast(page, addressof(mem_map) + frame * sizeof(page))
    set_page_order(merged, order)
    area = addressof(z.free_area[order])
    list_add(addressof(merged.lru), addressof(area.free_list))
    area.nr_free += 1


def rmqueue_bulk(z: zone, pcp: per_cpu_pages):
    """Refill a CPU's list with one batch, in the order in which the pages come."""
    count(PCP_REFILL)
    wanted = pcp.batch
    taken = 0
    place = addressof(pcp.list)
    zone_lock(z)
    while taken < wanted:
        page = __rmqueue(z, 0)
        if page == NULL:
            break
        list_add(addressof(page.lru), place)
        place = addressof(page.lru)
        taken += 1
    zone_unlock(z)
    pcp.count += taken


def free_pages_bulk(z: zone, pcp: per_cpu_pages, pages):
    """Move pages, the coldest first, from a CPU's list back to the zone."""
    count(PCP_DRAIN)
    pcp.count -= pages
    zone_lock(z)
    for i in range(pages):
        last = pcp.list.prev
        list_del(last)
        __free_one_page(z, container_of(last, page, lru), 0)
    zone_unlock(z)


@inline
def zone_watermark_ok(z: zone, order):
    """First watermark test: enough pages free, and enough of them in large blocks."""
    free = z.nr_free_pages - (1 << order) + 1
    if free <= z.pages_low:
        return 0
    for o in range(order):
        free -= z.free_area[o].nr_free << o
        if free <= z.pages_low >> (o + 1):
            return 0
    return 1


@inline
def prep_compound_page(page: page, order):
    """Mark all pages of a block as one; the second page keeps the order."""
    page.flags |= 1 << PG_compound
    tail = cast(page, page + sizeof(page))
    tail.lru.prev = cast(list_head, order)
    for i in range(1, 1 << order):
        tail.flags |= PAGE_TAIL
        tail.first_page = page
        tail = cast(page, tail + sizeof(page))


@inline
def destroy_compound_page(page: page, order):
    page.flags &= ~(1 << PG_compound)
    tail = cast(page, page + sizeof(page))
    for i in range(1, 1 << order):
        tail.flags &= ~PAGE_TAIL
        tail = cast(page, tail + sizeof(page))


@inline
def prep_new_page(page: page, order):
    """Check that the page was free, give it its first reference."""
    if page.flags & PAGE_IN_USE != 0:
        bug("a page that was handed out is in use")
    instructions(14)  # the rest of the checks of mapping, count and flags
    page.private = 0
    page._count = 1
    if order > 0:
        prep_compound_page(page, order)


def buffered_rmqueue(z: zone, order) -> ptr[page]:
    flags = irq_save()
    if order == 0:
        pcp = addressof(this_cpu(pagesets).of_node[z.nid].pcp)
        if pcp.count == 0:
            rmqueue_bulk(z, pcp)
            if pcp.count == 0:
                irq_restore(flags)
                return NULL
        first = pcp.list.next
        page = container_of(first, page, lru)
        while page.private != 0:  # of another migrate type
            first = first.next
            page = container_of(first, page, lru)
        list_del(first)
        pcp.count -= 1
    else:
        zone_lock(z)
        page = __rmqueue(z, order)
        zone_unlock(z)
        if page == NULL:
            irq_restore(flags)
            return NULL
    instructions(18)  # event and NUMA statistics of this CPU, migrate type of the page
    irq_restore(flags)
    prep_new_page(page, order)
    return page


def __alloc_pages(gfpflags, order, nid) -> ptr[page]:
    """A block of pages from a node, or from the next nodes when it has none and may be elsewhere."""
    count(PAGE_ALLOC)
    instructions(70)  # allocation flags, might_sleep, memory policy, cpuset and zone list walk
    for step in range(NR_NODES):
        z = per_node(zones, (nid + step) % NR_NODES)
        if zone_watermark_ok(z, order):
            page = buffered_rmqueue(z, order)
            if page != NULL:
                return page
        if NR_NODES > 1:
            if gfpflags & GFP_THISNODE:
                break
    return NULL


def free_hot_page(page: page):
    """Give an order-0 page back to this CPU's list."""
    z = page_zone(page)
    instructions(22)  # checks of mapping, count and flags; event statistics
    flags = irq_save()
    page.private = get_pageblock_migratetype(page)
    pcp = addressof(this_cpu(pagesets).of_node[z.nid].pcp)
    list_add(addressof(page.lru), addressof(pcp.list))
    pcp.count += 1
    if pcp.count >= pcp.high:
        free_pages_bulk(z, pcp, pcp.batch)
    irq_restore(flags)


def drain_local_pages():
    """Give all pages on this CPU's lists back to their zones."""
    flags = irq_save()
    for nid in range(NR_NODES):
        pcp = addressof(this_cpu(pagesets).of_node[nid].pcp)
        if pcp.count > 0:
            free_pages_bulk(per_node(zones, nid), pcp, pcp.count)
    irq_restore(flags)


@inline
def free_pages_check(page: page):
    """A page that is freed belongs to nobody."""
    bug_on(page.flags & PAGE_IN_USE != 0, "a page that is freed is in use")
    bug_on(page._count != 0, "a page that is freed has references")
    instructions(8)  # the rest of the checks of map count, mapping and flags


def __free_pages_ok(page: page, order):
    """Give a block of order 1 or more back to the zone."""
    z = page_zone(page)
    for i in range(1 << order):
        free_pages_check(cast(page, page + i * sizeof(page)))
    instructions(8)  # event statistics
    flags = irq_save()
    zone_lock(z)
    __free_one_page(z, page, order)
    zone_unlock(z)
    irq_restore(flags)


def __free_pages(page: page, order):
    """Drop the last reference of a block and free it."""
    count(PAGE_FREE)
    if atomic_add(page._count, -1) != 0:
        return
    if order == 0:
        free_hot_page(page)
    else:
        __free_pages_ok(page, order)


def put_page(page: page):
    """Drop a reference to a page or compound page that was handed out whole."""
    if page.flags & (1 << PG_compound):
        second = cast(page, page + sizeof(page))
        __free_pages(page, second.lru.prev)
    else:
        __free_pages(page, 0)


def __get_free_pages(gfpflags, order) -> ptr:
    page = __alloc_pages(gfpflags, order, numa_node_id())
    if page == NULL:
        return NULL
    return page_address(page)


@inline
def get_order(size):
    """Smallest order whose block holds size bytes."""
    return fls((size - 1) >> PAGE_SHIFT)
