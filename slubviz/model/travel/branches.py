"""Branches of a recording: one past, several futures.

Branch 0 is the run as it started.  A change before the end of a branch makes a new one, which shares all up
to that position and has its own changes from there on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slubviz.model.travel.changes import Change


@dataclass(frozen=True)
class Branch:
    """One future."""

    number: int
    parent: int | None  #: None for the first one
    fork_position: int  #: micro-ops; where it leaves its parent, 0 for the first one
    changes: tuple[Change, ...]  #: its own, in order, from ``fork_position`` on
    name: str
    end: int  #: furthest recorded position

    def renamed(self, name: str) -> Branch:
        """The same under another name."""
        return replace(self, name=name)
