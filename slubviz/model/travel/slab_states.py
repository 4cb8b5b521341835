"""Slabs that become frozen, partial, full or empty, as their own words in memory say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.search_codes import SEVERAL
from slubviz.hw.search_engine import Words
from slubviz.model.booted import BootedKernel
from slubviz.model.page_lists import page_flag
from slubviz.model.slab_memory import read_slab_structs

IntArray = NDArray[np.int64]
FROZEN, PARTIAL, FULL, EMPTY = 1, 2, 4, 8
STATE_BITS = {"frozen": FROZEN, "partial": PARTIAL, "full": FULL, "empty": EMPTY}
_INUSE, _OBJECTS_SHIFT, _OBJECTS, _FROZEN_SHIFT = 0xFFFF, 16, 0x7FFF, 31
#: Fields of struct page that say whether it is a slab, of which cache and how full.
_PAGE_FIELDS = ("flags", "inuse", "slab", "slab_counters")


def slab_states(kernel: BootedKernel, index: int, frames: IntArray) -> NDArray[np.uint8]:
    """The state of some page frames as bits; 0 for those that are not the first page of the cache's slabs.

    Parameters
    ----------
    index : of the cache in ``kmalloc_caches``
    frames : page frame numbers, shape (n,)
    """
    pages = kernel.memory.global_structs("mem_map")
    of_slab = "slab" in kernel.program.structs
    cache = kernel.cache_address(index)
    names = pages["lru"]["next"] if of_slab else pages["slab"]
    candidates = np.flatnonzero(names[frames] == cache)
    found = np.zeros(len(frames), dtype=np.uint8)
    rows = frames[candidates]
    flags = pages["flags"][rows].astype(np.int64)
    is_slab = page_flag(kernel, flags, "PG_slab")
    if of_slab:
        tail = kernel.program.constants["PAGE_TAIL"]
        is_slab &= flags & tail != tail
    candidates, rows, flags = candidates[is_slab], rows[is_slab], flags[is_slab]
    record = kernel.memory.one(cache, "kmem_cache")
    frozen = np.zeros(len(rows), dtype=np.bool_)
    if of_slab:
        values, readable = read_slab_structs(kernel, pages["lru"]["prev"][rows].astype(np.int64))
        inuse = np.where(readable, values["inuse"], 0)
        objects = np.full(len(rows), int(record["num"]), dtype=np.int64)
    elif "slab_counters" in kernel.program.struct("page").fields:
        counters = pages["slab_counters"][rows].astype(np.int64)
        inuse, objects = counters & _INUSE, counters >> _OBJECTS_SHIFT & _OBJECTS
        frozen = counters >> _FROZEN_SHIFT & 1 == 1
    else:
        inuse = pages["inuse"][rows].astype(np.int64)
        objects = np.full(len(rows), int(record["objects"]), dtype=np.int64)
        frozen = page_flag(kernel, flags, "PG_active")
    found[candidates] = np.where(inuse <= 0, EMPTY, np.where(inuse >= objects, FULL, PARTIAL))
    found[candidates[frozen]] |= FROZEN
    return found


def state_words(kernel: BootedKernel, frames: IntArray) -> IntArray:
    """The words that ``slab_states`` reads of some page frames: rows of address and mask."""
    page, pages = kernel.program.struct("page"), kernel.program.globals["mem_map"]
    names = [*_PAGE_FIELDS, "lru"] if "slab" in kernel.program.structs else list(_PAGE_FIELDS)
    fields = [page.fields[name] for name in names if name in page.fields]
    halves = sorted({f.offset_bytes + i for f in fields for i in range(0, f.size_bytes, 4)})
    bases = pages.address + frames * pages.stride_bytes
    words = masked_words((bases[:, np.newaxis] + np.array(halves)).reshape(-1))
    # Locking a slab sets a bit of its flags; that is no change of its state.
    flags = page.fields["flags"]
    unseen = ~_flag_bits(kernel) & ((1 << 8 * flags.size_bytes) - 1)
    low = (words[:, 0] - pages.address) % pages.stride_bytes == flags.offset_bytes & ~7
    if pages.stride_bytes % 8 == 0 and flags.offset_bytes % 8 == 0:
        words[low, 1] &= ~np.int64(unseen - (1 << 64) if unseen >> 63 else unseen)
    return words


def _flag_bits(kernel: BootedKernel) -> int:
    """The bits of a page's flags that ``slab_states`` reads."""
    constants = kernel.program.constants
    bits = 1 << constants["PG_slab"]
    if "slab" in kernel.program.structs:
        return bits | constants["PAGE_TAIL"]
    return bits | 1 << constants["PG_active"] if "PG_active" in constants else bits


def masked_words(halves: IntArray) -> IntArray:
    """The 8-byte words that some half words lie in: rows of address and mask of their bits."""
    addresses, which = np.unique(halves & ~7, return_inverse=True)
    masks = np.zeros(len(addresses), dtype=np.int64)
    np.bitwise_or.at(masks, which, np.where(halves & 4, ~0xFFFFFFFF, 0xFFFFFFFF))
    return np.column_stack([addresses, masks]).astype(np.int64)


@dataclass(frozen=True)
class Sought:
    """A state that is looked for."""

    page_frame: int | None  #: None: any slab of the cache
    state: str  #: a name in ``STATE_BITS``
    holds: Callable[[int], bool]  #: whether further conditions hold for the CPU that did it


class SlabTracker:
    """Decides which changes of memory are changes of slabs' states; see ``finder.Tracker``.

    Parameters
    ----------
    index : the shown cache in ``kmalloc_caches``, None if the objects come from no cache
    sought : what each trigger looks for
    trigger : of the changed words
    """

    def __init__(self, index: int | None, sought: Mapping[int, Sought], trigger: int) -> None:
        self._index, self._sought, self._trigger = index, sought, trigger
        self._states: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)
        self._frames: IntArray = np.zeros(0, dtype=np.int64)
        self._page_words: IntArray = np.zeros((0, 3), dtype=np.int64)
        self._moved = False  # whether a page structure changed, so that there may be other slabs
        self._own: dict[int, int] = {}  # word of a struct slab -> place among the frames

    def begin(self, kernel: BootedKernel) -> Words:
        """Take note of all states."""
        named = [one.page_frame for one in self._sought.values()]
        count = kernel.program.globals["mem_map"].count
        every = None in named
        self._frames = np.arange(count) if every else np.array(sorted({f for f in named if f is not None}))
        self._page_words = self._rows(state_words(kernel, self._frames))
        self._states = self._look(kernel)
        return self._words(kernel)

    def strikes(self, kernel: BootedKernel, trigger: int, cpu: int, changed: int) -> int:
        """The trigger whose state was reached, -1 for none; other triggers always strike."""
        before = self._states
        self._states = self._look(kernel, changed)
        if trigger != self._trigger:
            return trigger
        for number, one in self._sought.items():
            bit = STATE_BITS[one.state]
            came = (self._states & bit != 0) & (before & bit == 0)
            mine = came if one.page_frame is None else came[self._frames == one.page_frame]
            if np.any(mine) and one.holds(cpu):
                return number
        return -1

    def words_now(self, kernel: BootedKernel) -> Words | None:
        """In SLAB the words of slabs' own structures, which come and go."""
        if "slab" not in kernel.program.structs or not self._moved:
            return None
        return self._words(kernel)

    def _look(self, kernel: BootedKernel, changed: int = SEVERAL) -> NDArray[np.uint8]:
        """The states, those alone looked at anew that a changed word is about."""
        if self._index is None:
            return np.zeros(len(self._frames), dtype=np.uint8)
        at = self._about(kernel, changed)
        self._moved = True
        if at is None:
            return slab_states(kernel, self._index, self._frames)
        self._moved = changed not in self._own
        states = self._states.copy()
        states[at] = slab_states(kernel, self._index, self._frames[at])
        return states

    def _about(self, kernel: BootedKernel, changed: int) -> slice | None:
        """Places of the page frames whose state a word may say; None for all."""
        pages = kernel.program.globals["mem_map"]
        if not len(self._states) or changed <= 0:
            return None
        if changed in self._own:
            at = self._own[changed]
            return slice(at, at + 1)
        if not pages.address - 8 < changed < pages.address + pages.count * pages.stride_bytes:
            return None
        # An 8-byte word can lie in two page structures.
        frames = [(changed + i - pages.address) // pages.stride_bytes for i in (0, 7)]
        first, end = np.searchsorted(self._frames, [frames[0], frames[1] + 1])
        return slice(int(first), int(end))

    def _words(self, kernel: BootedKernel) -> Words:
        if "slab" not in kernel.program.structs:
            return self._page_words
        field = kernel.program.struct("slab").fields["inuse"]
        pages = kernel.memory.global_structs("mem_map")
        places = np.flatnonzero(self._states)
        own = pages["lru"]["prev"][self._frames[places]].astype(np.int64) + field.offset_bytes
        self._own = dict(zip((own & ~7).tolist(), places.tolist(), strict=True))
        return np.concatenate([self._page_words, self._rows(masked_words(own))])

    def _rows(self, words: IntArray) -> IntArray:
        return np.column_stack([words, np.full(len(words), self._trigger, dtype=np.int64)])
