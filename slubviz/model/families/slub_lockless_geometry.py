"""Slabs and size classes of SLUB from 2.6.26 on: what a cache's slabs look like and which caches there are.

``slab_geometry`` is the rule of 2.6.26 to 4.x (calculate_order): as many objects as 4 x (bits of the number
of CPUs + 1) unless a boot option says otherwise, at most what fits the largest order; for an accepted waste
of 1/16, then 1/8, then 1/4, the smallest order that wastes no more; else one object fewer.  Caches go up to
two pages.
"""

from __future__ import annotations

from slubviz.model.geometry import LARGEST_ORDER, OrderOptions, SlabGeometry, page_order, smallest_order

#: A slab's counters have 15 bits for its objects.
MOST_OBJECTS = 32767
MAX_ORDER_DEFAULT = 3
PRIVATE_CACHE, PRIVATE_CACHE_SIZE = 0, 256
LOWEST_MIN_PARTIAL, HIGHEST_MIN_PARTIAL = 5, 10


def default_orders(cpus: int) -> OrderOptions:
    """slub_min_order, slub_max_order and slub_min_objects as the kernel chooses them."""
    return OrderOptions(0, MAX_ORDER_DEFAULT, 4 * (cpus.bit_length() + 1))


def _order_for(
    size: int, objects: int, fraction: int, max_order: int, options: OrderOptions, page: int
) -> int:
    """The order that slab_order gives; more than ``max_order`` if none is good."""
    if (page << options.min_order) // size > MOST_OBJECTS:
        return page_order(size * MOST_OBJECTS, page) - 1
    found = smallest_order(size, objects, max_order, fraction, options.min_order, page)
    return max_order + 1 if found is None else found


def slab_geometry(size_bytes: int, page_size_bytes: int, options: OrderOptions) -> SlabGeometry:
    """Order and objects of a cache's slabs.

    Parameters
    ----------
    size_bytes : object size, a multiple of the word size
    page_size_bytes : size of a page
    options : boot options, see `default_orders`

    Raises
    ------
    ValueError
        If not even one object fits into the largest order.
    """

    def slab(order: int) -> SlabGeometry:
        return SlabGeometry(order, (page_size_bytes << order) // size_bytes)

    wanted = min(options.min_objects, (page_size_bytes << options.max_order) // size_bytes)
    for objects in range(wanted, 1, -1):
        for fraction in (16, 8, 4):
            order = _order_for(size_bytes, objects, fraction, options.max_order, options, page_size_bytes)
            if order <= options.max_order:
                return slab(order)
    for limit in (options.max_order, LARGEST_ORDER):
        order = _order_for(size_bytes, 1, 1, limit, options, page_size_bytes)
        if order <= limit:
            return slab(order)
    raise ValueError(f"an object of {size_bytes} bytes does not fit into a slab of order {LARGEST_ORDER}")


def smallest_slab(size_bytes: int, page_size_bytes: int) -> SlabGeometry:
    """The slab that is tried when there are no pages for the wanted one."""
    order = page_order(size_bytes, page_size_bytes)
    return SlabGeometry(order, (page_size_bytes << order) // size_bytes)


def cache_sizes(page_size_bytes: int) -> dict[int, int]:
    """Index in kmalloc_caches -> object size: the private cache at 0, 96 at 1, 192 at 2, then powers of two
    from 8 to two pages."""
    sizes = {PRIVATE_CACHE: PRIVATE_CACHE_SIZE, 1: 96, 2: 192}
    sizes.update({index: 1 << index for index in range(3, (2 * page_size_bytes).bit_length())})
    return sizes


def cache_index(size_bytes: int, page_size_bytes: int) -> int | None:
    """Index of the cache that serves a request, None for the page allocator."""
    if size_bytes > 2 * page_size_bytes:
        return None
    sizes = cache_sizes(page_size_bytes)
    return min((size, index) for index, size in sizes.items() if size >= size_bytes and index)[1]


def min_partial(size_bytes: int) -> int:
    """Slabs that a node keeps although they are empty: half the binary logarithm of the size, 5 to 10."""
    return min(max((size_bytes.bit_length() - 1) // 2, LOWEST_MIN_PARTIAL), HIGHEST_MIN_PARTIAL)


def cpu_partial(size_bytes: int, page_size_bytes: int) -> int:
    """Free objects that a CPU keeps on its chain."""
    for at_least, objects in ((page_size_bytes, 2), (1024, 6), (256, 13)):
        if size_bytes >= at_least:
            return objects
    return 30


def pages_for(size_bytes: int, objects: int, page_size_bytes: int, options: OrderOptions) -> int:
    """Pages that so many objects of one CPU take."""
    index = cache_index(size_bytes, page_size_bytes)
    if index is None:
        return objects << page_order(size_bytes, page_size_bytes)
    geometry = slab_geometry(cache_sizes(page_size_bytes)[index], page_size_bytes, options)
    return -(-objects // geometry.objects) << geometry.order
