"""A look through all kmalloc caches, the same for all families whose slabs carry their own freelists."""

from __future__ import annotations

from collections.abc import Callable

from slubviz.model.booted import BootedKernel
from slubviz.model.families.family import CachesCheck

#: What a look at one cache found: problems, objects handed out, pages that its slabs hold.
Look = Callable[[int], tuple[list[str], int, int]]


def check_each_cache(kernel: BootedKernel, look: Look) -> CachesCheck:
    """Add up what ``look`` finds in every cache; one whose lists make no sense is a problem by itself.

    Parameters
    ----------
    look : takes a cache's index; raises ValueError if the cache cannot be read
    """
    problems: list[str] = []
    allocated = slab_pages = 0
    for index in kernel.family.cache_sizes(kernel.machine.spec):
        try:
            found, objects, pages = look(index)
        except ValueError as error:
            problems.append(f"{kernel.cache_name(index)}: {error}")
            continue
        problems += found
        allocated += objects
        slab_pages += pages
    return CachesCheck(problems, allocated, slab_pages)
