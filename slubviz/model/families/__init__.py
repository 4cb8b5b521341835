"""Families of allocators: what allocators with the same structures have in common."""

from __future__ import annotations

from slubviz.model.families.family import CachesCheck, CacheSlabs, Family
from slubviz.model.families.slab import SlabFamily
from slubviz.model.families.slub import Slub25Family, SlubFamily
from slubviz.model.families.slub_lockless import SlubLocklessFamily
from slubviz.model.kernels import KernelVariant

__all__ = ["FAMILIES", "CacheSlabs", "CachesCheck", "Family", "family_of"]

FAMILIES: dict[str, Family] = {
    family.name: family for family in (SlabFamily(), SlubFamily(), Slub25Family(), SlubLocklessFamily())
}


def family_of(variant: KernelVariant) -> Family:
    """The family of a kernel."""
    return FAMILIES[variant.family]
