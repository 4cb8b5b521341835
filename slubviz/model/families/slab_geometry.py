"""Which kmalloc caches SLAB has, how its slabs are laid out, and how long its queues are.

The rules of mm/slab.c of 2.6.24 (kmem_cache_create, calculate_slab_order, cache_estimate,
enable_cpucache) and of kmalloc_sizes.h.  Everything follows from the page size, the word size, the
cache line and the number of CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from slubviz.hw.machine_file import MachineSpec

#: An index of the chain of free objects (kmem_bufctl_t), bytes.
BUFCTL_BYTES = 4
#: Orders below this one must not waste more than an eighth (slab_break_gfp_order, memory above 32 MB).
BREAK_ORDER = 1
LARGEST_ORDER = 10
#: No kmalloc cache is larger, whatever the pages.
LARGEST_SIZE_SHIFT = 25
LEAST_ALIGN_BYTES = 8
SHARED_FACTOR = 8


@dataclass(frozen=True)
class Shape:
    """What the layout of a machine's slabs depends on."""

    page_size_bytes: int
    word_bytes: int
    line_bytes: int
    cpus: int

    @classmethod
    def of(cls, spec: MachineSpec) -> Shape:
        """The shape of a machine."""
        return cls(spec.page_size_bytes, spec.word_bytes, spec.line_bytes, spec.cpus)

    @property
    def slab_struct_bytes(self) -> int:
        """struct slab: two pointers, two words, two indices and a node number."""
        return 48 if self.word_bytes == 8 else 28


@dataclass(frozen=True)
class SlabLayout:
    """How the slabs of a cache are laid out."""

    size_bytes: int
    align_bytes: int
    order: int
    objects: int
    off_slab: bool  #: the management is an object of another cache
    management_bytes: int  #: struct slab and chain; rounded up to the alignment in front of the objects
    colours: int  #: different starts of the objects; 0 and 1 both mean one
    colour_bytes: int  #: distance of one start to the next


@dataclass(frozen=True)
class QueueSizes:
    """How many free objects the arrays of a cache hold."""

    limit: int  #: of a CPU's array
    batch: int  #: moved at once
    shared_entries: int  #: of the array that a node's CPUs share; 0: there is none


def malloc_sizes(shape: Shape) -> tuple[int, ...]:
    """Object sizes of the kmalloc caches in bytes, ascending."""
    top = min(LARGEST_ORDER + shape.page_size_bytes.bit_length() - 1, LARGEST_SIZE_SHIFT)
    sizes = [1 << bit for bit in range(6, top + 1)]
    if shape.page_size_bytes == 4096:
        sizes.append(32)
    if shape.line_bytes < 64:
        sizes.append(96)
    if shape.line_bytes < 128:
        sizes.append(192)
    return tuple(sorted(sizes))


def cache_index(size_bytes: int, shape: Shape) -> int | None:
    """Index of the first cache that is large enough; None if there is none."""
    fitting = (index for index, size in enumerate(malloc_sizes(shape)) if size >= size_bytes)
    return next(fitting, None)


def alignment(size_bytes: int, line_bytes: int) -> int:
    """A cache line, halved as long as the object fits into the half."""
    align = line_bytes
    while size_bytes <= align // 2:
        align //= 2
    return max(align, LEAST_ALIGN_BYTES)


def _on_slab_management(objects: int, align: int, shape: Shape) -> int:
    unaligned = shape.slab_struct_bytes + BUFCTL_BYTES * objects
    return -(-unaligned // align) * align


def _estimate(size: int, align: int, order: int, off_slab: bool, shape: Shape) -> tuple[int, int]:
    """Objects in a slab of an order, and the bytes that are left over."""
    slab_bytes = shape.page_size_bytes << order
    if off_slab:
        return divmod(slab_bytes, size)
    objects = (slab_bytes - shape.slab_struct_bytes) // (size + BUFCTL_BYTES)
    if _on_slab_management(objects, align, shape) + objects * size > slab_bytes:
        objects -= 1
    return objects, slab_bytes - objects * size - _on_slab_management(objects, align, shape)


@cache
def slab_layout(size_bytes: int, shape: Shape) -> SlabLayout:
    """Order, objects, place of the management and colours of a kmalloc cache.

    Parameters
    ----------
    size_bytes : one of ``malloc_sizes``
    shape : of the machine

    Raises
    ------
    ValueError
        If not even one object fits into a slab of the largest order.
    """
    align = alignment(size_bytes, shape.line_bytes)
    off_slab = size_bytes >= shape.page_size_bytes // 8
    most_off_slab = (size_bytes - shape.slab_struct_bytes) // BUFCTL_BYTES
    best: tuple[int, int, int] | None = None
    for order in range(LARGEST_ORDER + 1):
        objects, left_over = _estimate(size_bytes, align, order, off_slab, shape)
        if objects <= 0:
            continue
        if off_slab and objects > most_off_slab:
            break
        best = (order, objects, left_over)
        if order >= BREAK_ORDER or left_over * 8 <= shape.page_size_bytes << order:
            break
    if best is None:
        raise ValueError(f"no object of {size_bytes} bytes fits into a slab of order {LARGEST_ORDER}")
    order, objects, left_over = best
    management = _on_slab_management(objects, align, shape)
    if off_slab and left_over >= management:
        off_slab = False
        left_over -= management
    if off_slab:
        management = shape.slab_struct_bytes + BUFCTL_BYTES * objects
    colour = max(shape.line_bytes, align)
    return SlabLayout(size_bytes, align, order, objects, off_slab, management, left_over // colour, colour)


def queue_sizes(size_bytes: int, shape: Shape) -> QueueSizes:
    """Limits of the arrays; larger objects have shorter ones."""
    if size_bytes > 131072:
        limit = 1
    elif size_bytes > shape.page_size_bytes:
        limit = 8
    elif size_bytes > 1024:
        limit = 24
    elif size_bytes > 256:
        limit = 54
    else:
        limit = 120
    batch = (limit + 1) // 2
    shared = SHARED_FACTOR if size_bytes <= shape.page_size_bytes and shape.cpus > 1 else 0
    return QueueSizes(limit, batch, shared * batch)


def pages_for(size_bytes: int, objects: int, shape: Shape) -> int:
    """Pages that so many objects of one CPU take at the worst, with what the arrays and the lists of free
    slabs may hold besides, and with the management of the slabs."""
    index = cache_index(size_bytes, shape)
    if index is None:
        return objects * (size_bytes // shape.page_size_bytes + 1)
    size = malloc_sizes(shape)[index]
    layout, queues = slab_layout(size, shape), queue_sizes(size, shape)
    spare = queues.limit + queues.shared_entries + 2 * queues.batch + 2 * layout.objects
    slabs = -(-(objects + spare) // layout.objects)
    pages = slabs << layout.order
    if layout.off_slab:
        pages += pages_for(layout.management_bytes, slabs, shape)
    return pages
