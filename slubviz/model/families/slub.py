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

    def cache_sizes(self, spec: MachineSpec) -> Mapping[int, int]:
        """96 at 1, 192 at 2, then powers of two from 8 to half a page."""
        return kmalloc_cache_sizes(spec.page_size_bytes)

    def cache_index(self, size_bytes: int, spec: MachineSpec) -> int | None:
        """None above half a page."""
        return kmalloc_index(size_bytes, spec.page_size_bytes)

    def cache_name(self, index: int, spec: MachineSpec) -> str:
        """``kmalloc-64``."""
        return f"kmalloc-{self.cache_sizes(spec)[index]}"

    def pages_for(self, size_bytes: int, objects: int, spec: MachineSpec, orders: OrderOptions) -> int:
        """Whole slabs, or blocks of pages above half a page."""
        return pages_for(size_bytes, objects, spec.page_size_bytes, orders)

    def check_contract(self, kernel: str, program: Program, spec: MachineSpec) -> None:
        """Functions, globals, structs and fields."""
        check_contract(kernel, program, spec.page_size_bytes)

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
