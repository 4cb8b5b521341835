"""Families of allocators: what allocators with the same structures have in common."""

from __future__ import annotations

from slubviz.model.families.family import CachesCheck, CacheSlabs, Family
from slubviz.model.families.slub import SlubFamily
from slubviz.model.kernels import KernelVariant

__all__ = ["FAMILIES", "CacheSlabs", "CachesCheck", "Family", "family_of"]

FAMILIES: dict[str, Family] = {family.name: family for family in (SlubFamily(),)}


def family_of(variant: KernelVariant) -> Family:
    """The family of a kernel."""
    return FAMILIES[variant.family]
