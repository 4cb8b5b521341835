"""The worker's newest snapshot, with what is derived from it; where a run is in its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slubviz.model.errors import UserError
from slubviz.model.snapshot import PhaseView, Snapshot
from slubviz.views.job import SessionLike
from slubviz.views.slab_summary import SlabSummary, summarise

if TYPE_CHECKING:
    from slubviz.model.results import CellResult


class Pictures:
    """Reads a session; keeps what it read last.

    Attributes
    ----------
    sources : dict of str to tuple of str
        Lines of every file that was named so far; none for one that cannot be read.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Another session."""
        self.snapshot: Snapshot | None = None
        self.summary: SlabSummary | None = None
        self.sources: dict[str, tuple[str, ...]] = {}
        self.results: tuple[CellResult, ...] = ()

    def read(self, session: SessionLike) -> None:
        """Look at a session as it is now."""
        snapshot = session.snapshot()
        self.snapshot = snapshot
        self.summary = summarise(snapshot.slabs)
        self.results = tuple(session.results)
        wanted = {frame.file for cpu in snapshot.cpus for frame in cpu.frames}
        wanted |= {cpu.span.file for cpu in snapshot.cpus if cpu.span is not None}
        for file in wanted - self.sources.keys():
            try:
                self.sources[file] = tuple(session.source_text(file).splitlines())
            except (UserError, OSError, KeyError):
                self.sources[file] = ()  # shown as "source not found"; not worth stopping a run


def is_last_measured(phase: PhaseView | None) -> bool:
    """Whether a phase is measured and one phase, perhaps a clean-up, is left."""
    return phase is not None and phase.measured and phase.index == phase.count - 2


def is_clean_up(phase: PhaseView | None) -> bool:
    """Whether a phase is the last one and not measured."""
    return phase is not None and not phase.measured and phase.index == phase.count - 1
