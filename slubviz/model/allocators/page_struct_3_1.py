"""struct page of Linux 3.1 and later: freelist and counters next to one another.

A slab's freelist and its counters {inuse: 16 bits, objects: 15, frozen: 1} are exchanged by one
compare-and-exchange of two words.  For that the pair is aligned to its size and the structure to two
words; on 64-bit machines it grows from 56 to 64 bytes, one cache line.  The upper half of the counters
word is the page's reference count there, as in the kernel.

A slab that a CPU keeps on its partial chain is linked through ``chain`` in the place of ``lru``.  The
kernel's ``pages`` and ``pobjects`` have 16 bits on 32-bit machines; here they have 32 everywhere, which
makes the structure larger there.
"""


class chain_link(struct):
    """Link of a CPU's partial chain; pages and pobjects count the chain from this page on."""
    next: ptr[page]
    pages: int32
    pobjects: int32


class page(struct, align=2 * WORD_BYTES):
    """One page frame."""
    flags: word
    mapping: ptr
    freelist: ptr
    _mapcount: int32
    _count: int32
    counters: word = at("_mapcount")
    slab_counters: uint32 = at("_mapcount")
    lru: list_head
    chain: chain_link = at("lru")
    private: word
    slab: ptr[kmem_cache] = at("private")
    first_page: ptr[page] = at("private")
