"""struct page of Linux 2.6.24, with what SLUB keeps in it."""


class page(struct):
    """One page frame.  56 bytes on 64-bit machines, so that most straddle two cache lines."""
    flags: word
    _count: int32
    inuse: int32
    private: word
    slab: ptr[kmem_cache] = at("private")
    first_page: ptr[page] = at("private")
    mapping: ptr
    end: ptr = at("mapping")
    index: word
    freelist: ptr = at("index")
    lru: list_head
