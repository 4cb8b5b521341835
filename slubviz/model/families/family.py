"""What the boot, the checks and the views ask of a kind of allocator.

A *family* is what allocators with the same structures have in common: which kmalloc caches there are, how
they are started, where their slabs, objects and locks are found, and what must hold in them.  Everything
else of the model works with any family.  Importing a family does not load the engine; what reads a
machine's memory imports that when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.geometry import OrderOptions
from slubviz.model.lang import Program
from slubviz.model.snapshot import SlabTable

if TYPE_CHECKING:
    from slubviz.model.booted import BootedKernel


#: What else a kernel keeps for a CPU: pairs of name and value.
CpuExtra = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CacheSlabs:
    """The slabs of one cache as a snapshot shows them."""

    table: SlabTable
    nr_partial: NDArray[np.int64]  #: per node
    nr_slabs: NDArray[np.int64]  #: per node
    cpu_extra: tuple[CpuExtra, ...] = ()  #: per CPU; empty if there is nothing to tell


@dataclass(frozen=True)
class CachesCheck:
    """What a look through all kmalloc caches found."""

    problems: list[str]  #: one line each
    allocated: int  #: objects handed out from kmalloc caches
    slab_pages: int  #: pages that slabs of these (and of management caches) hold


class Family(Protocol):
    """One kind of allocator."""

    name: str

    def cache_sizes(self, spec: MachineSpec) -> Mapping[int, int]:
        """Index in ``kmalloc_caches`` -> object size in bytes."""

    def cache_index(self, size_bytes: int, spec: MachineSpec) -> int | None:
        """Index of the cache that serves a request; None: the page allocator serves it."""

    def cache_name(self, index: int, spec: MachineSpec) -> str:
        """What the kernel calls a cache, ``kmalloc-64`` or ``size-64``."""

    def default_orders(self, spec: MachineSpec) -> OrderOptions:
        """slub_min_order, slub_max_order and slub_min_objects, where the user gives none."""

    def pages_for(self, size_bytes: int, objects: int, spec: MachineSpec, orders: OrderOptions) -> int:
        """Pages that so many objects of one CPU take at the worst."""

    def check_contract(self, kernel: str, program: Program, spec: MachineSpec) -> None:
        """Raise UserError, one line, if a program lacks what the boot, the workloads or the checks need."""

    def start(self, kernel: BootedKernel) -> None:
        """Bring the caches into the state after start-up; the page allocator is running."""

    def read_slabs(self, kernel: BootedKernel, index: int) -> CacheSlabs:
        """Slabs of a cache, at any moment; ValueError if its lists make no sense just now."""

    def check(self, kernel: BootedKernel) -> CachesCheck:
        """Everything wrong in the caches while no CPU is inside the allocator."""

    def lock_name(self, kernel: BootedKernel, path: str) -> str | None:
        """What people call the lock at a path like ``cache_nodes[0][3].list_lock``; None if not one of
        this family's."""
