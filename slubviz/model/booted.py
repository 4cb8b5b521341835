"""A machine with a kernel in it, ready to run: what the boot makes, and what views and checks read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slubviz.hw.machine import Machine
from slubviz.model.geometry import OrderOptions
from slubviz.model.kernel_memory import KernelMemory
from slubviz.model.kernels import KernelVariant
from slubviz.model.lang import Program

if TYPE_CHECKING:
    from slubviz.model.families.family import Family


@dataclass
class BootedKernel:
    """A machine with a kernel in it, ready to run."""

    machine: Machine
    program: Program
    memory: KernelMemory
    variant: KernelVariant
    family: Family
    orders: OrderOptions

    def cache_address(self, index: int) -> int:
        """Address of a kmalloc cache by its index."""
        base = self.memory.global_address("kmalloc_caches")
        return base + index * self.program.struct("kmem_cache").size_bytes

    def cache_name(self, index: int) -> str:
        """Name of a kmalloc cache."""
        return self.family.cache_name(index, self.machine.spec)


def link(memory: KernelMemory, head: int, entries: list[int]) -> None:
    """A circular list of list_heads: head, then the entries in order."""
    ring = [head, *entries]
    for here, following in zip(ring, [*ring[1:], head], strict=True):
        memory.one(here, "list_head")["next"] = following
        memory.one(following, "list_head")["prev"] = here
