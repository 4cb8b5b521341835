"""SLAB of 2.6.24: arrays of free objects for each CPU, three lists of slabs for each node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.errors import RequestError
from slubviz.model.families import slab_geometry
from slubviz.model.families.family import CachesCheck, CacheSlabs
from slubviz.model.families.slab_geometry import Shape
from slubviz.model.families.slab_start import check_contract, start_caches
from slubviz.model.geometry import OrderOptions
from slubviz.model.lang import Program

if TYPE_CHECKING:
    from slubviz.model.booted import BootedKernel

_LIST_LOCK = re.compile(r"cache_list3\[(\d+)\]\[(\d+)\]\.list_lock$")
_ALIEN_LOCK = re.compile(r"alien_caches\[(\d+)\]\[(\d+)\]\.of\[(\d+)\]\.cache\.lock$")


class SlabFamily:
    """See ``family.Family``."""

    name = "slab"

    def cache_sizes(self, spec: MachineSpec) -> Mapping[int, int]:
        """32 or 64 to the largest block, powers of two and what of 96 and 192 there is."""
        return dict(enumerate(slab_geometry.malloc_sizes(Shape.of(spec))))

    def cache_index(self, size_bytes: int, spec: MachineSpec) -> int | None:
        """None only above the largest block of pages."""
        return slab_geometry.cache_index(size_bytes, Shape.of(spec))

    def cache_name(self, index: int, spec: MachineSpec) -> str:
        """``size-64``."""
        return f"size-{self.cache_sizes(spec)[index]}"

    def default_orders(self, spec: MachineSpec) -> OrderOptions:
        """Those of SLUB; SLAB has its own rule."""
        return OrderOptions.default(spec.page_size_bytes)

    def pages_for(self, size_bytes: int, objects: int, spec: MachineSpec, orders: OrderOptions) -> int:
        """Slabs, their management, and what the arrays hold."""
        if orders != OrderOptions.default(spec.page_size_bytes):
            raise RequestError(
                "slub_min_order, slub_max_order and slub_min_objects are boot parameters of SLUB; "
                "the orders of SLAB cannot be chosen: leave them out"
            )
        return slab_geometry.pages_for(size_bytes, objects, Shape.of(spec))

    def check_contract(self, kernel: str, program: Program, spec: MachineSpec) -> None:
        """Functions, globals, structs and fields."""
        check_contract(kernel, program, Shape.of(spec))

    def start(self, kernel: BootedKernel) -> None:
        """All caches empty."""
        start_caches(kernel)

    def read_slabs(self, kernel: BootedKernel, index: int) -> CacheSlabs:
        """From the page structures, the slabs' structures and the arrays."""
        from slubviz.model.slab_view import read_cache

        view = read_cache(kernel, index, strict=False)
        extra = tuple(
            (
                (
                    "array",
                    f"{len(array.entries)} of {kernel.memory.one(array.address, 'array_cache')['limit']}",
                ),
            )
            for array in view.arrays
            if array.kind == "cpu"
        )
        return CacheSlabs(view.table, view.nr_partial, view.nr_slabs, extra)

    def check(self, kernel: BootedKernel) -> CachesCheck:
        """Chains, counts, lists, arrays, management."""
        from slubviz.model.slab_invariants import check_caches

        return check_caches(kernel)

    def lock_name(self, kernel: BootedKernel, path: str) -> str | None:
        """The list_lock of a cache on a node, the lock of an alien cache, the cache chain's mutex."""
        several = kernel.machine.spec.nodes > 1
        if match := _LIST_LOCK.match(path):
            name = f"list_lock {self._name(kernel, int(match[2]))}"
            return f"{name} node {match[1]}" if several else name
        if match := _ALIEN_LOCK.match(path):
            return f"alien_lock {self._name(kernel, int(match[2]))} node {match[1]} for {match[3]}"
        return "cache_chain_mutex" if path == "cache_chain_mutex" else None

    def _name(self, kernel: BootedKernel, index: int) -> str:
        """A cache's name; a program can lock what is beyond the last cache."""
        known = self.cache_sizes(kernel.machine.spec)
        return f"size-{known[index]}" if index in known else f"cache {index}"
