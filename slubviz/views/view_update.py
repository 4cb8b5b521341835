"""What the worker leaves for the window: one picture of everything, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from slubviz.model.snapshot import Snapshot
from slubviz.views.job import JobSpec
from slubviz.views.slab_summary import SlabSummary
from slubviz.views.travel_view import TravelView

if TYPE_CHECKING:
    from slubviz.model.results import CellResult


class WorkerState(IntEnum):
    """What the worker is doing."""

    EMPTY = 0  #: no session yet
    LOADING = 1  #: the session is being built; may compile
    PAUSED = 2
    RUNNING = 3  #: playing, in either direction
    FINISHED = 4
    FAULTED = 5  #: the simulated machine stopped with a fault
    MEASURED = 6  #: paused between the last measured phase and its clean-up
    MOVING = 7  #: a search or a long way to another position is under way


@dataclass(frozen=True)
class ViewUpdate:
    """Everything the widgets show at one moment."""

    state: WorkerState = WorkerState.EMPTY
    job: JobSpec | None = None  #: of the session that is loaded
    snapshot: Snapshot | None = None
    summary: SlabSummary | None = None
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: lines of each file seen
    results: tuple[CellResult, ...] = ()
    micro_ops_per_second: float = 0.0  #: measured while running, else 0
    asked_rate: float = 0.0
    error: str = ""  #: one line; stays until the next command
    error_serial: int = 0  #: grows with each new error
    travel: TravelView = field(default_factory=TravelView)
