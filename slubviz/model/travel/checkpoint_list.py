"""The kept moments of a recording: which there are, which is the best to start from, which to give up.

Each branch has a list in order of position.  A branch sees its own and those of its ancestors before it left
them.  When memory is short, one is given up whose neighbours are closest together, so that what is left
stays spread over the whole run; the start is never given up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.checkpoints import Checkpoint
from slubviz.model.session import SessionProgress

_position = attrgetter("position")


@dataclass(frozen=True, eq=False)
class Kept:
    """One moment of a branch, to start from."""

    branch: int
    position: int  #: micro-ops
    next_millicycles: int  #: clock of the CPU that is next; grows with the position
    counters: NDArray[np.int64]  #: all counters, shape (CPUs, counters)
    progress: SessionProgress
    checkpoint: Checkpoint
    near: bool  #: made near the cursor, for steps back; the first to be given up


class CheckpointList:
    """Kept moments of all branches."""

    def __init__(self) -> None:
        self._of_branch: dict[int, list[Kept]] = {0: []}
        self._near: list[Kept] = []  # in order of making

    def __len__(self) -> int:
        return sum(len(kept) for kept in self._of_branch.values())

    def add(self, kept: Kept) -> None:
        """Add one; there must be none at that place."""
        insort(self._of_branch.setdefault(kept.branch, []), kept, key=_position)
        if kept.near:
            self._near.append(kept)

    def remove(self, kept: Kept) -> None:
        """Take one out."""
        self._of_branch[kept.branch].remove(kept)
        if kept.near:
            self._near.remove(kept)

    def has(self, branch: int, position: int) -> bool:
        """Whether a branch has one of its own at exactly that place."""
        own = self._of_branch.get(branch, [])
        at = bisect_left(own, position, key=_position)
        return at < len(own) and own[at].position == position

    def from_on(self, branch: int, position: int) -> list[Kept]:
        """A branch's own ones at and after a position."""
        own = self._of_branch.get(branch, [])
        return own[bisect_left(own, position, key=_position) :]

    def last(self, lineage: list[tuple[int, int]], position: int) -> Kept:
        """The last one at or before a position.

        Parameters
        ----------
        lineage : (branch, position below which it counts), the branch itself first
        """
        for branch, below in lineage:
            own = self._of_branch.get(branch, [])
            at = bisect_right(own, min(position, below - 1), key=_position)
            if at:
                return own[at - 1]
        return self._of_branch[0][0]

    def seen_from(self, lineage: list[tuple[int, int]]) -> list[Kept]:
        """All that a branch sees, in order of position."""
        found = [
            kept
            for branch, below in lineage
            for kept in self._of_branch.get(branch, [])
            if kept.position < below
        ]
        return sorted(found, key=_position)

    def near_ones(self) -> int:
        """How many were made near a cursor."""
        return len(self._near)

    def to_give_up(self, *, near_only: bool = False) -> Kept | None:
        """The one that will be missed least; None if only the start is left."""
        if self._near:
            return self._near[0]
        if near_only:
            return None
        return min(self._candidates(), key=lambda pair: pair[0], default=(0, None))[1]

    def _candidates(self) -> Iterator[tuple[int, Kept]]:
        """(distance of its neighbours, one that may be given up)."""
        for branch, own in self._of_branch.items():
            for i, kept in enumerate(own):
                if branch == 0 and i == 0:
                    continue
                before = own[i - 1].position if i else kept.position
                after = own[i + 1].position if i + 1 < len(own) else kept.position + kept.position - before
                yield after - before, kept
