"""An abstract page allocator: per-cpu lists of single pages over a zone per node.

Models the page allocator of 2.6.24 as far as slabs see it: order 0 through the hot list of (CPU,
zone), refilled and drained by the batch under the zone lock; higher orders straight from the zone,
one acquisition each way.  Leaves out: splitting and merging of blocks, cold lists, migrate types,
watermarks, fallback to other zones, and an end of memory.  Page frame numbers are tokens: they
tell whether a page is reused, not where it lies.
"""

from __future__ import annotations

from .counters import Counters


def fls(value: int) -> int:
    """Position of the highest set bit, from 1; 0 for 0."""
    return value.bit_length()


def default_pcp_batch(page_size: int) -> int:
    """Batch of the per-cpu lists of a large zone, in pages: 31 for 4K pages, 7 for 16K pages.

    A quarter of 512 KiB, then the nearest power of two below one and a half of that, less 1.
    """
    quarter = max(1, 512 * 1024 // page_size // 4)
    return max(1, (1 << (fls(quarter + quarter // 2) - 1)) - 1)


class Zone:
    """The free blocks of one node, by order, and a supply of new ones that never ends."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.free_blocks: dict[int, list[int]] = {}
        self.next_frame = node << 32  # nodes do not share frame numbers

    def take(self, order: int) -> int:
        """First frame of a block; the block given back last comes first."""
        blocks = self.free_blocks.setdefault(order, [])
        if blocks:
            return blocks.pop()
        frame = self.next_frame
        self.next_frame += 1 << order
        return frame

    def give(self, frame: int, order: int) -> None:
        self.free_blocks.setdefault(order, []).append(frame)


class PageAllocator:
    """Pages for all CPUs.

    Parameters
    ----------
    cpus, nodes : int
    batch, high : int
        Of every per-cpu list, in pages; a list that reaches `high` gives a batch back.
    counters : dict
        Where to count zone_lock, pcp_refill, pcp_drain, page_alloc and page_free.
    """

    def __init__(self, cpus: int, nodes: int, batch: int, high: int, counters: Counters) -> None:
        if not 1 <= batch < high:
            raise ValueError(f"pcp batch {batch}, high {high}: need 1 <= batch < high")
        self.batch = batch
        self.high = high
        self.counters = counters
        self.zones = [Zone(node) for node in range(nodes)]
        #: (cpu, node) -> frames, the hottest first
        self.pcp: dict[tuple[int, int], list[int]] = {
            (cpu, node): [] for cpu in range(cpus) for node in range(nodes)
        }
        #: first frame -> (order, node) of every block in use
        self.in_use: dict[int, tuple[int, int]] = {}

    def alloc(self, cpu: int, node: int, order: int) -> int:
        """Take a block of 2**`order` pages of `node`; its first frame."""
        self.counters["page_alloc"] += 1
        zone = self.zones[node]
        if order == 0:
            pages = self.pcp[cpu, node]
            if not pages:
                self.counters["zone_lock"] += 1
                self.counters["pcp_refill"] += 1
                for _ in range(self.batch):
                    pages.append(zone.take(0))
            frame = pages.pop(0)
        else:
            self.counters["zone_lock"] += 1
            frame = zone.take(order)
        self.in_use[frame] = (order, node)
        return frame

    def free(self, cpu: int, frame: int) -> None:
        """Give a block back, from any CPU; a single page goes to that CPU's list of the page's zone."""
        self.counters["page_free"] += 1
        order, node = self.in_use.pop(frame)
        zone = self.zones[node]
        if order > 0:
            self.counters["zone_lock"] += 1
            zone.give(frame, order)
            return
        pages = self.pcp[cpu, node]
        pages.insert(0, frame)
        if len(pages) >= self.high:
            self.counters["zone_lock"] += 1
            self.counters["pcp_drain"] += 1
            for _ in range(self.batch):
                zone.give(pages.pop(), 0)

    def check(self) -> None:
        """AssertionError if a page is in two places or a list is too long."""
        places = list(self.in_use)
        for zone in self.zones:
            for blocks in zone.free_blocks.values():
                places.extend(blocks)
        for (cpu, node), pages in self.pcp.items():
            assert len(pages) < self.high, f"per-cpu list of cpu {cpu} node {node} holds {len(pages)} pages"
            places.extend(pages)
        assert len(places) == len(set(places)), "a page is in two places"
