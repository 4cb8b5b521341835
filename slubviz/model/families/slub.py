"""SLUB before the lockless slow path: 2.6.24 with and without the ten patches, and what was tried on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.families.family import CachesCheck, CacheSlabs
from slubviz.model.families.slub_start import check_contract, start_caches
from slubviz.model.geometry import OrderOptions, kmalloc_cache_sizes, kmalloc_index, pages_for
from slubviz.model.lang import Program

if TYPE_CHECKING:
    from slubviz.model.booted import BootedKernel

_CACHE_LOCK = re.compile(r"kmalloc_caches\.cache\[(\d+)\]\.local_node\.list_lock$")
_NODE_LOCK = re.compile(r"cache_nodes\[(\d+)\]\[(\d+)\]\.list_lock$")


class SlubFamily:
    """See ``family.Family``."""

    name = "slub"

    def largest_bytes(self, spec: MachineSpec) -> int:
        """Object size of the largest kmalloc cache."""
        return spec.page_size_bytes // 2

    def cache_sizes(self, spec: MachineSpec) -> Mapping[int, int]:
        """96 at 1, 192 at 2, then powers of two from 8 to the largest."""
        return kmalloc_cache_sizes(spec.page_size_bytes, self.largest_bytes(spec))

    def cache_index(self, size_bytes: int, spec: MachineSpec) -> int | None:
        """None above the largest."""
        return kmalloc_index(size_bytes, spec.page_size_bytes, self.largest_bytes(spec))

    def cache_name(self, index: int, spec: MachineSpec) -> str:
        """``kmalloc-64``."""
        return f"kmalloc-{self.cache_sizes(spec)[index]}"

    def default_orders(self, spec: MachineSpec) -> OrderOptions:
        """By page size."""
        return OrderOptions.default(spec.page_size_bytes)

    def pages_for(self, size_bytes: int, objects: int, spec: MachineSpec, orders: OrderOptions) -> int:
        """Whole slabs, or blocks of pages above the largest."""
        return pages_for(size_bytes, objects, spec.page_size_bytes, orders, self.largest_bytes(spec))

    def check_contract(self, kernel: str, program: Program, spec: MachineSpec) -> None:
        """Functions, globals, structs and fields, and how large the largest cache is."""
        check_contract(kernel, program, max(self.cache_sizes(spec)) + 1, self.largest_bytes(spec))

    def start(self, kernel: BootedKernel) -> None:
        """All caches empty."""
        start_caches(kernel)

    def read_slabs(self, kernel: BootedKernel, index: int) -> CacheSlabs:
        """From the page structures and the per-CPU slabs."""
        from slubviz.model.slub_view import read_cache

        view = read_cache(kernel, index, strict=False)
        return CacheSlabs(view.table, view.nr_partial, view.nr_slabs)

    def check(self, kernel: BootedKernel) -> CachesCheck:
        """Chains, counts, list membership, per-CPU structures."""
        from slubviz.model.slub_invariants import check_caches

        return check_caches(kernel)

    def lock_name(self, kernel: BootedKernel, path: str) -> str | None:
        """The list_lock of a node; slab locks have a name in every family."""
        if match := _CACHE_LOCK.match(path):
            return f"list_lock {kernel.cache_name(int(match[1]))}"
        if match := _NODE_LOCK.match(path):
            return f"list_lock {kernel.cache_name(int(match[2]))} node {match[1]}"
        return None


class Slub25Family(SlubFamily):
    """SLUB from 2.6.25-rc2 on: kmalloc caches up to one page.

    Slab orders are those of 2.6.26.  The tree of the mail of March 2008 was on its way there: its patch
    is made against functions that only the new orders need (objects of a small and of a usual slab).
    """

    name = "slub-2.6.25"

    def default_orders(self, spec: MachineSpec) -> OrderOptions:
        """Up to order 3, and more objects a slab the more CPUs there are."""
        return OrderOptions(0, 3, 4 * (spec.cpus.bit_length() + 1))

    def largest_bytes(self, spec: MachineSpec) -> int:
        """One page."""
        return spec.page_size_bytes
