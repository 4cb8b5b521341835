"""Many states of one machine in little memory: pages that did not change are kept once.

A checkpoint is a table that names, for each page of the state array, a page of a common pool.  Adding one
compares the state with the *mirror*, the content of the checkpoint that was added or restored last; only
pages that differ are stored.  Between two checkpoints of a run of a million micro-ops about a fifth of the
pages change.  A pool has a fixed number of pages, its budget; who adds must drop others when it is full.

Leaves out: compression, which takes longer than running the machine again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.construction import SPARSE_BYTES
from slubviz.hw.jit import njit
from slubviz.hw.machine import IntArray, zeroed_words

PAGE_WORDS = 512
PAGE_BYTES = PAGE_WORDS * 8
#: The page of the pool that is all zeros; untouched parts of large states are of it.
ZERO_PAGE = 0

#: Arrays that are kept for states of other lengths.
MOST_SPARES = 2

PageTable = NDArray[np.int32]


@njit("int64(int64[:,::1], int64[:,::1], int64[::1])")
def changed_pages(state, mirror, changed):
    """Numbers of the rows in which two arrays of equal shape differ, into ``changed``; their count."""
    found = 0
    for page in range(state.shape[0]):
        ours, theirs = state[page], mirror[page]
        difference = 0
        for i in range(PAGE_WORDS):
            difference |= ours[i] ^ theirs[i]
        if difference != 0:
            changed[found] = page
            found += 1
    return found


@njit("void(int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1])")
def keep_pages(state, mirror, pool, places):
    """Copy pages of the state to the pool and to the mirror; rows of ``places`` are page, pool page."""
    for k in range(places.shape[0]):
        ours, theirs, kept = state[places[k, 0]], mirror[places[k, 0]], pool[places[k, 1]]
        for i in range(PAGE_WORDS):
            value = ours[i]
            theirs[i] = value
            kept[i] = value


@njit("void(int64[:,::1], int64[:,::1], int64[:,::1])")
def fetch_pages(mirror, pool, places):
    """Copy pages of the pool to the mirror; rows of ``places`` are page, pool page."""
    for k in range(places.shape[0]):
        theirs, kept = mirror[places[k, 0]], pool[places[k, 1]]
        for i in range(PAGE_WORDS):
            theirs[i] = kept[i]


@njit("void(int64[:,::1], int64[:,::1], int32[::1])")
def copy_pages(mirror, state, table):
    """Copy the mirror to the state; where the table says that a page is zeros, write only what is not.

    Untouched pages of a large state take no memory; writing zeros would give them some.
    """
    for page in range(state.shape[0]):
        ours, theirs = state[page], mirror[page]
        if table[page] != ZERO_PAGE:
            for i in range(PAGE_WORDS):
                ours[i] = theirs[i]
            continue
        found = 0
        for i in range(PAGE_WORDS):
            found |= ours[i]
        if found != 0:
            for i in range(PAGE_WORDS):
                ours[i] = 0


@njit("int64(int64[:,::1])")
def count_used_pages(state):
    """Number of rows that are not all zeros."""
    used = 0
    for page in range(state.shape[0]):
        found = 0
        for i in range(PAGE_WORDS):
            found |= state[page, i]
        used += found != 0
    return used


@njit("void(int64[:,::1], int64[:,::1])")
def copy_used_pages(source, target):
    """Copy the pages that are not zeros to an array of zeros."""
    for page in range(source.shape[0]):
        theirs = source[page]
        found = 0
        for i in range(PAGE_WORDS):
            found |= theirs[i]
        if found != 0:
            ours = target[page]
            for i in range(PAGE_WORDS):
                ours[i] = theirs[i]


def used_pages(state: IntArray) -> int:
    """Number of pages of a state that are not all zeros."""
    whole = len(state) // PAGE_WORDS * PAGE_WORDS
    found = int(count_used_pages(state[:whole].reshape(-1, PAGE_WORDS)))
    return found + int(state[whole:].any())


def copied_state(state: IntArray) -> IntArray:
    """A copy of a state; what is untouched in a large one stays so in the copy."""
    if state.nbytes < SPARSE_BYTES:
        return state.copy()
    copy = zeroed_words(len(state))
    whole = len(state) // PAGE_WORDS * PAGE_WORDS
    copy_used_pages(state[:whole].reshape(-1, PAGE_WORDS), copy[:whole].reshape(-1, PAGE_WORDS))
    copy[whole:] = state[whole:]
    return copy


@njit("void(int32[::1], int32[::1])")
def use_pages(uses, table):
    """Count one more use of every page of a table."""
    for page in table:
        uses[page] += 1


@njit("int64(int32[::1], int32[::1], int64[::1])")
def unuse_pages(uses, table, freed):
    """Count one use less of every page of a table; pages without uses go into ``freed``; their count."""
    found = 0
    for page in table:
        uses[page] -= 1
        if uses[page] == 0:
            freed[found] = page
            found += 1
    return found


@dataclass(frozen=True)
class Checkpoint:
    """One kept state."""

    table: PageTable  #: pool page of each page of the state
    words: int  #: length of the state


class PoolFull(Exception):
    """The pool has no room for another checkpoint; drop one and try again."""


class CheckpointPool:
    """Keeps states; see the module.

    Parameters
    ----------
    budget_bytes : memory for the pool, the mirror included
    state : a state of the machine; the budget is raised to three such states if it is less, to three times
        what is used of a large one
    """

    def __init__(self, budget_bytes: int, state: IntArray) -> None:
        pages = _pages(len(state)) if state.nbytes < SPARSE_BYTES else used_pages(state)
        least = 3 * (pages + 1) * PAGE_BYTES
        self.budget_bytes = max(budget_bytes, least)
        self._capacity = self.budget_bytes // PAGE_BYTES
        # Filled from the front, so huge pages, which take fewer page faults, cost no memory.
        self._pool = _zeroed_pages(self._capacity)
        self._uses = np.zeros(self._capacity, dtype=np.int32)
        self._uses[ZERO_PAGE] = 1  # for ever
        self._first_unused = 1  # pages from here on were never used
        self._freed: list[int] = []
        self._spares: dict[int, IntArray] = {}  # arrays of other lengths, filled before
        self._mirror = _zeroed_pages(_pages(len(state)))
        self._mirror_table: PageTable = np.full(len(self._mirror), ZERO_PAGE, dtype=np.int32)
        self._uses[ZERO_PAGE] += len(self._mirror_table)

    @property
    def used_bytes(self) -> int:
        """Memory of the pages in use, of the mirror and of arrays kept for later."""
        return self._pages_in_use * PAGE_BYTES + self._beside_bytes

    @property
    def _pages_in_use(self) -> int:
        return self._first_unused - len(self._freed)

    @property
    def _beside_bytes(self) -> int:
        mirrored = int(np.count_nonzero(self._mirror_table != ZERO_PAGE)) * PAGE_BYTES
        return mirrored + sum(len(spare) for spare in self._spares.values()) * 8

    def add(self, state: IntArray) -> Checkpoint:
        """Keep a state.

        Raises
        ------
        PoolFull
            If there is no room; nothing has changed then.
        """
        self._resize_mirror(_pages(len(state)))
        whole = len(state) // PAGE_WORDS
        rows = state[: whole * PAGE_WORDS].reshape(-1, PAGE_WORDS)
        changed = np.empty(whole, dtype=np.int64)
        count = int(changed_pages(rows, self._mirror[:whole], changed))
        rest = state[whole * PAGE_WORDS :]
        rest_changed = int(not np.array_equal(rest, self._mirror[whole:].reshape(-1)[: len(rest)]))
        taken = self._take(count + rest_changed)
        places = np.column_stack((changed[:count], taken[:count]))
        keep_pages(rows, self._mirror, self._pool, places)
        table = self._mirror_table.copy()
        table[places[:, 0]] = places[:, 1]
        if rest_changed:
            self._mirror[whole, : len(rest)] = rest
            self._pool[taken[-1]] = self._mirror[whole]
            table[whole] = taken[-1]
        self._move_mirror_to(table)
        self._use(table)
        return Checkpoint(table, len(state))

    def drop(self, checkpoint: Checkpoint) -> None:
        """Forget a kept state."""
        self._unuse(checkpoint.table)

    def restore(self, checkpoint: Checkpoint, state: IntArray) -> IntArray:
        """The kept state, in the given array if it has the right length, else in another one.

        The pool may use the given array again; whoever gave it must forget it.
        """
        self._resize_mirror(len(checkpoint.table))
        differ = np.flatnonzero(self._mirror_table != checkpoint.table)
        places = np.column_stack((differ, checkpoint.table[differ])).astype(np.int64)
        fetch_pages(self._mirror, self._pool, places)
        self._move_mirror_to(checkpoint.table.copy())
        if len(state) != checkpoint.words:
            # A new array costs ten times what filling an old one does; few lengths occur in a run.
            if state.nbytes < SPARSE_BYTES:
                self._spares[len(state)] = state
            spare = self._spares.pop(checkpoint.words, None)
            state = zeroed_words(checkpoint.words) if spare is None else spare
            while len(self._spares) > MOST_SPARES:
                del self._spares[next(iter(self._spares))]
        whole = checkpoint.words // PAGE_WORDS
        rows = state[: whole * PAGE_WORDS].reshape(-1, PAGE_WORDS)
        copy_pages(self._mirror[:whole], rows, self._mirror_table[:whole])
        rest = state[whole * PAGE_WORDS :]
        rest[:] = self._mirror[whole:].reshape(-1)[: len(rest)]
        return state

    def _resize_mirror(self, pages: int) -> None:
        if pages == len(self._mirror):
            return
        # The last page of a shorter state is filled up with zeros, as its kept page is.
        mirror = _zeroed_pages(pages)
        kept = min(pages, len(self._mirror))
        used = np.flatnonzero(self._mirror_table[:kept] != ZERO_PAGE)  # the others are zeros here too
        mirror[used] = self._mirror[used]
        table = np.full(pages, ZERO_PAGE, dtype=np.int32)
        table[:kept] = self._mirror_table[:kept]
        self._mirror = mirror
        self._move_mirror_to(table)

    def _move_mirror_to(self, table: PageTable) -> None:
        self._use(table)  # first, so that pages of both are not given back between
        self._unuse(self._mirror_table)
        self._mirror_table = table

    def _take(self, count: int) -> NDArray[np.int64]:
        room = (self.budget_bytes - self._beside_bytes) // PAGE_BYTES  # less when states have grown
        if self._pages_in_use + count > min(self._capacity, room):
            raise PoolFull
        again = min(count, len(self._freed))
        taken = np.empty(count, dtype=np.int64)
        if again:
            taken[:again] = self._freed[-again:]
            del self._freed[-again:]
        new = count - again
        taken[again:] = np.arange(self._first_unused, self._first_unused + new)
        self._first_unused += new
        return taken

    def _use(self, table: PageTable) -> None:
        use_pages(self._uses, table)

    def _unuse(self, table: PageTable) -> None:
        freed = np.empty(len(table), dtype=np.int64)
        count = int(unuse_pages(self._uses, table, freed))
        self._freed += freed[:count].tolist()


def _pages(words: int) -> int:
    return -(-words // PAGE_WORDS)


def _zeroed_pages(count: int) -> IntArray:
    return zeroed_words(count * PAGE_WORDS).reshape(count, PAGE_WORDS)
