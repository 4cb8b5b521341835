"""SLUB with the lockless slow path: 3.1 to 4.3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.families import slub_lockless_geometry as geometry
from slubviz.model.families.family import CachesCheck, CacheSlabs
from slubviz.model.families.slub_lockless_start import check_contract, start_caches
from slubviz.model.geometry import OrderOptions
from slubviz.model.lang import Program

if TYPE_CHECKING:
    from slubviz.model.booted import BootedKernel

_NODE_LOCK = re.compile(r"cache_nodes\[(\d+)\]\[(\d+)\]\.list_lock$")


class SlubLocklessFamily:
    """See ``family.Family``."""

    name = "slub_lockless"

    def cache_sizes(self, spec: MachineSpec) -> Mapping[int, int]:
        """A private cache at 0, 96 at 1, 192 at 2, then powers of two from 8 to two pages."""
        return geometry.cache_sizes(spec.page_size_bytes)

    def cache_index(self, size_bytes: int, spec: MachineSpec) -> int | None:
        """None above two pages."""
        return geometry.cache_index(size_bytes, spec.page_size_bytes)

    def cache_name(self, index: int, spec: MachineSpec) -> str:
        """``kmalloc-64``; ``test_cache`` is the private one."""
        if index == geometry.PRIVATE_CACHE:
            return "test_cache"
        return f"kmalloc-{self.cache_sizes(spec)[index]}"

    def default_orders(self, spec: MachineSpec) -> OrderOptions:
        """By the number of CPUs."""
        return geometry.default_orders(spec.cpus)

    def pages_for(self, size_bytes: int, objects: int, spec: MachineSpec, orders: OrderOptions) -> int:
        """Whole slabs, or blocks of pages above two pages."""
        return geometry.pages_for(size_bytes, objects, spec.page_size_bytes, orders)

    def check_contract(self, kernel: str, program: Program, spec: MachineSpec) -> None:
        """Functions, globals, structs and fields."""
        check_contract(kernel, program, spec.page_size_bytes)

    def start(self, kernel: BootedKernel) -> None:
        """All caches empty."""
        start_caches(kernel)

    def read_slabs(self, kernel: BootedKernel, index: int) -> CacheSlabs:
        """From the page structures, the per-CPU slabs and the per-CPU chains."""
        from slubviz.model.slub_lockless_view import read_cache

        view = read_cache(kernel, index, strict=False)
        chains = (len(view.chains.get(cpu, ())) for cpu in range(kernel.machine.spec.cpus))
        extra = tuple((("partial slabs", str(count)),) if count else () for count in chains)
        return CacheSlabs(view.table, view.nr_partial, view.nr_slabs, extra)

    def check(self, kernel: BootedKernel) -> CachesCheck:
        """Chains, counters, list membership, per-CPU structures."""
        from slubviz.model.slub_lockless_invariants import check_caches

        return check_caches(kernel)

    def lock_name(self, kernel: BootedKernel, path: str) -> str | None:
        """The list_lock of a node; the bit lock of the fallback has a name in every family."""
        if match := _NODE_LOCK.match(path):
            node = f" node {match[1]}" if kernel.machine.spec.nodes > 1 else ""
            return f"list_lock {kernel.cache_name(int(match[2]))}{node}"
        return None
