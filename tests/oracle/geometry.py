"""Size classes of kmalloc and the order of slabs in SLUB of 2.6.24-rc1.

Left out: caches other than kmalloc's, alignment to cache lines, debugging space behind objects,
and the rules of 2.6.26 and later.
"""

from __future__ import annotations

from typing import NamedTuple

#: Orders of the buddy allocator end below this.
MAX_ORDER = 11
#: Smallest kmalloc cache.
KMALLOC_MIN_SIZE_BYTES = 8
#: Boot defaults of slub_max_order and slub_min_objects, for 4K pages and for larger pages.
DEFAULT_MAX_ORDER_4K, DEFAULT_MIN_OBJECTS_4K = 1, 4
DEFAULT_MAX_ORDER_LARGE, DEFAULT_MIN_OBJECTS_LARGE = 2, 8
#: What the mail's SLUB-o was booted with.
SLUB_O_MAX_ORDER, SLUB_O_MIN_OBJECTS = 3, 20

VARIANTS = ("SLUB", "SLUB+", "SLUB-o")
#: Kernels that count differently; `Slub` knows them, the formulas do not.
LATER_VARIANTS = ("SLUB-2.6.25", "SLUB-seq", "SLUB-seq-letter")


class Geometry(NamedTuple):
    """Shape of the slabs of one cache."""

    size_bytes: int  #: of an object
    order: int  #: a slab is 2**order pages
    objects: int  #: in a slab


class Limits(NamedTuple):
    """Boot options that shape slabs."""

    min_order: int
    max_order: int
    min_objects: int


def check_page_size(page_size: int) -> None:
    """Raise ValueError unless `page_size` (bytes) is a power of two from 4096 to 65536."""
    if page_size not in (4096, 8192, 16384, 32768, 65536):
        raise ValueError(f"page size {page_size}: give a power of two from 4096 to 65536 bytes")


def default_limits(
    page_size: int,
    variant: str,
    max_order: int | None = None,
    min_objects: int | None = None,
    min_order: int | None = None,
) -> Limits:
    """Boot options of a variant; None takes the default of variant and page size.

    Raises
    ------
    ValueError
        Unknown variant or page size, or an option out of range.
    """
    check_page_size(page_size)
    known = VARIANTS + LATER_VARIANTS
    if variant not in known:
        raise ValueError(f"variant {variant!r}: give one of {', '.join(known)}")
    if variant == "SLUB-o":
        default_order, default_objects = SLUB_O_MAX_ORDER, SLUB_O_MIN_OBJECTS
    elif page_size == 4096:
        default_order, default_objects = DEFAULT_MAX_ORDER_4K, DEFAULT_MIN_OBJECTS_4K
    else:
        default_order, default_objects = DEFAULT_MAX_ORDER_LARGE, DEFAULT_MIN_OBJECTS_LARGE
    limits = Limits(
        min_order=0 if min_order is None else min_order,
        max_order=default_order if max_order is None else max_order,
        min_objects=default_objects if min_objects is None else min_objects,
    )
    if not 0 <= limits.min_order <= limits.max_order < MAX_ORDER:
        raise ValueError(
            f"min_order {limits.min_order}, max_order {limits.max_order}: "
            f"need 0 <= min_order <= max_order < {MAX_ORDER}"
        )
    if limits.min_objects < 1:
        raise ValueError(f"min_objects {limits.min_objects}: need at least 1")
    return limits


def largest_cache(page_size: int, variant: str = "SLUB") -> int:
    """Object size in bytes of the largest kmalloc cache: half a page; from 2.6.25-rc2 on a page."""
    return page_size if variant in LATER_VARIANTS else page_size // 2


def kmalloc_sizes(page_size: int, variant: str = "SLUB") -> list[int]:
    """Object sizes in bytes of all kmalloc caches, ascending: powers of two to the largest, and 96, 192."""
    check_page_size(page_size)
    sizes = [96, 192]
    size = KMALLOC_MIN_SIZE_BYTES
    while size <= largest_cache(page_size, variant):
        sizes.append(size)
        size *= 2
    return sorted(sizes)


def cache_size(page_size: int, size: int, variant: str = "SLUB") -> int | None:
    """Object size in bytes of the cache that serves `size` bytes; None above the largest.

    Raises
    ------
    ValueError
        `size` is less than 1, or more than the largest block of pages.
    """
    if size < 1:
        raise ValueError(f"size {size}: give at least 1 byte")
    if size > page_size << (MAX_ORDER - 1):
        raise ValueError(f"size {size}: the largest block is {page_size << (MAX_ORDER - 1)} bytes")
    for candidate in kmalloc_sizes(page_size, variant):
        if size <= candidate:
            return candidate
    return None


def page_order(page_size: int, size: int) -> int:
    """Smallest order whose block holds `size` bytes."""
    order = 0
    while page_size << order < size:
        order += 1
    return order


def _smallest_order(
    page_size: int, size: int, min_objects: int, orders: range, waste_divisor: int
) -> int | None:
    """First of `orders` that holds `min_objects` and wastes at most 1/`waste_divisor`; else None."""
    for order in orders:
        slab_bytes = page_size << order
        holds_enough = slab_bytes >= min_objects * size
        if holds_enough and slab_bytes % size <= slab_bytes // waste_divisor:
            return order
    return None


def calculate_order(page_size: int, size: int, limits: Limits) -> int:
    """Order of the slabs of a cache with objects of `size` bytes.

    Tries to hold `limits.min_objects`, wasting at most an eighth, then a quarter; halves the number of
    objects until it fits; in the end accepts one object at any waste.

    Raises
    ------
    ValueError
        Not even the largest block holds one object.
    """
    wanted_orders = range(limits.min_order, limits.max_order + 1)
    min_objects = limits.min_objects
    while min_objects > 1:
        for waste_divisor in (8, 4):
            order = _smallest_order(page_size, size, min_objects, wanted_orders, waste_divisor)
            if order is not None:
                return order
        min_objects //= 2
    for orders in (wanted_orders, range(limits.min_order, MAX_ORDER)):
        order = _smallest_order(page_size, size, 1, orders, 1)
        if order is not None:
            return order
    raise ValueError(f"object size {size}: no order below {MAX_ORDER} holds one object")


def slab_geometry(
    page_size: int,
    size: int,
    variant: str = "SLUB",
    max_order: int | None = None,
    min_objects: int | None = None,
    min_order: int | None = None,
) -> Geometry | None:
    """Shape of the slabs that serve `size` bytes; None when the page allocator does."""
    limits = default_limits(page_size, variant, max_order, min_objects, min_order)
    object_size = cache_size(page_size, size, variant)
    if object_size is None:
        return None
    order = calculate_order(page_size, object_size, limits)
    return Geometry(object_size, order, (page_size << order) // object_size)
