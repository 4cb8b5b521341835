"""Orders and objects per slab of SLUB, and the kmalloc size classes.

``slab_geometry`` is the rule of 2.6.24 (calculate_order): for a wanted number of objects, halved down to
two, and for an accepted waste of 1/8 and then 1/4, the smallest order whose waste is small enough.
Source: mm/slub.c and slub_def.h of 2.6.24-rc1.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_ORDER = 11
LARGEST_ORDER = MAX_ORDER - 1


@dataclass(frozen=True)
class SlabGeometry:
    """How many pages and objects a slab has."""

    order: int
    objects: int


@dataclass(frozen=True)
class OrderOptions:
    """slub_min_order, slub_max_order and slub_min_objects."""

    min_order: int
    max_order: int
    min_objects: int

    @classmethod
    def default(cls, page_size_bytes: int) -> OrderOptions:
        """The kernel's own: 0, 1, 4 on 4 KB pages; 0, 2, 8 on larger ones."""
        return cls(0, 1, 4) if page_size_bytes == 4096 else cls(0, 2, 8)


def smallest_order(
    size: int, min_objects: int, max_order: int, fraction: int, min_order: int, page_size: int
) -> int | None:
    """Smallest order up to ``max_order`` whose waste is at most 1 / ``fraction``; None if there is none."""
    start = max(min_order, (min_objects * size - 1).bit_length() - (page_size.bit_length() - 1))
    for order in range(max(start, 0), max_order + 1):
        slab_bytes = page_size << order
        if slab_bytes < min_objects * size:
            continue
        if slab_bytes % size <= slab_bytes // fraction:
            return order
    return None


def slab_geometry(size_bytes: int, page_size_bytes: int, options: OrderOptions | None = None) -> SlabGeometry:
    """Order and objects of a cache's slabs.

    Parameters
    ----------
    size_bytes : object size, a multiple of the word size
    page_size_bytes : size of a page
    options : boot options; None for the kernel's defaults

    Raises
    ------
    ValueError
        If not even one object fits into the largest order.
    """
    chosen = options or OrderOptions.default(page_size_bytes)
    wanted = chosen.min_objects
    while wanted > 1:
        for fraction in (8, 4):
            order = smallest_order(
                size_bytes, wanted, chosen.max_order, fraction, chosen.min_order, page_size_bytes
            )
            if order is not None:
                return SlabGeometry(order, (page_size_bytes << order) // size_bytes)
        wanted //= 2
    for limit in (chosen.max_order, LARGEST_ORDER):
        order = smallest_order(size_bytes, 1, limit, 1, chosen.min_order, page_size_bytes)
        if order is not None:
            return SlabGeometry(order, (page_size_bytes << order) // size_bytes)
    raise ValueError(f"an object of {size_bytes} bytes does not fit into a slab of order {LARGEST_ORDER}")


def kmalloc_cache_sizes(page_size_bytes: int, largest_bytes: int | None = None) -> dict[int, int]:
    """Index in kmalloc_caches -> object size: 96 at 1, 192 at 2, then powers of two from 8 to
    ``largest_bytes``, by default half a page."""
    sizes = {1: 96, 2: 192}
    largest = largest_bytes or page_size_bytes // 2
    sizes.update({index: 1 << index for index in range(3, largest.bit_length())})
    return sizes


def kmalloc_index(size_bytes: int, page_size_bytes: int, largest_bytes: int | None = None) -> int | None:
    """Index of the cache that serves a request, None for the page allocator."""
    if size_bytes > (largest_bytes or page_size_bytes // 2):
        return None
    sizes = kmalloc_cache_sizes(page_size_bytes, largest_bytes)
    return min((size, index) for index, size in sizes.items() if size >= size_bytes)[1]


def page_order(size_bytes: int, page_size_bytes: int) -> int:
    """Order of the block that the page allocator gives for a size."""
    return max(0, (size_bytes - 1).bit_length() - (page_size_bytes.bit_length() - 1))


def pages_for(
    size_bytes: int,
    objects: int,
    page_size_bytes: int,
    options: OrderOptions | None = None,
    largest_bytes: int | None = None,
) -> int:
    """Pages that so many objects of one CPU take; ``largest_bytes`` as for ``kmalloc_cache_sizes``."""
    index = kmalloc_index(size_bytes, page_size_bytes, largest_bytes)
    if index is None:
        return objects << page_order(size_bytes, page_size_bytes)
    size = kmalloc_cache_sizes(page_size_bytes, largest_bytes)[index]
    geometry = slab_geometry(size, page_size_bytes, options)
    return -(-objects // geometry.objects) << geometry.order
