"""Pages on lists and flags of pages, read out of a machine: the same for every allocator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.model.booted import BootedKernel
from slubviz.model.memory_scan import walk_list

IntArray = NDArray[np.int64]


def page_flag(kernel: BootedKernel, flags: IntArray, name: str) -> NDArray[np.bool_]:
    """Which of some words of page flags have a flag set, by its name in the kernel, ``"PG_slab"``."""
    found: NDArray[np.bool_] = flags >> kernel.program.constants[name] & 1 == 1
    return found


def list_frames(kernel: BootedKernel, head: int, *, strict: bool = True) -> IntArray:
    """Page frames on a list of pages linked through ``lru``.

    Parameters
    ----------
    head : address of the list's head
    strict : check back pointers too; not while the list may be changing

    Raises
    ------
    ValueError
        If the list is broken.
    """
    out = np.zeros(kernel.machine.memory.page_frames + 1, dtype=np.int64)
    length = int(walk_list(kernel.machine.state, head, kernel.program.target.word_bytes, int(strict), out))
    if length < 0:
        raise ValueError("a back pointer is wrong" if length == -1 else "it does not come back to its head")
    page = kernel.program.struct("page")
    first = kernel.memory.global_address("mem_map") + page.fields["lru"].offset_bytes
    frames, rest = np.divmod(out[:length] - first, page.size_bytes)
    if np.any(rest != 0) or np.any((frames < 0) | (frames >= kernel.program.globals["mem_map"].count)):
        raise ValueError("it leads to something that is no page")
    return frames
