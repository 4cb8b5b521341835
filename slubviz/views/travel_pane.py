"""The transport bar and the timeline, which stand below the pages that show a run."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtWidgets import QVBoxLayout, QWidget

from slubviz.views.theme import Theme
from slubviz.views.timeline import TimelineView
from slubviz.views.timeline_content import TimelineContent
from slubviz.views.transport import TransportBar, TransportState
from slubviz.views.travel_view import TravelView
from slubviz.views.view_update import ViewUpdate


class TravelPane(QWidget):
    """Both, filled from one update; their signals are connected by the window."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.transport = TransportBar(theme)
        self.timeline = TimelineView(theme)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.transport)
        layout.addWidget(self.timeline, 1)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self.transport.set_theme(theme)
        self.timeline.set_theme(theme)

    def set_shortcuts(self, shortcuts: Mapping[str, str]) -> None:
        """Name the keys in the tooltips."""
        self.transport.set_shortcuts(shortcuts)

    def show_update(self, update: ViewUpdate) -> None:
        """Show where the run is."""
        travel = update.travel
        self.transport.show_state(transport_state(travel))
        snapshot = update.snapshot
        cpus = len(snapshot.cpus) if snapshot is not None else 0
        fault = (travel.end, snapshot.fault) if snapshot is not None and snapshot.fault else None
        self.timeline.show_content(timeline_content(travel, cpus, fault))


def transport_state(travel: TravelView) -> TransportState:
    """What the bar shows of a recording."""
    return TransportState(
        position=travel.position,
        end=travel.end,
        clock_cycles=travel.clock_cycles,
        ready=travel.exists,
        finished=travel.complete,
        playing=travel.direction,
        branch=travel.branch.name if travel.branch is not None and len(travel.branches) > 1 else "",
        moving=travel.moving.text if travel.moving is not None else "",
        progress=travel.moving.fraction if travel.moving is not None else None,
    )


def timeline_content(
    travel: TravelView, cpus: int, fault: tuple[int, str] | None = None
) -> TimelineContent | None:
    """What the timeline shows of a recording; None if there is none."""
    if travel.branch is None or cpus == 0:
        return None
    return TimelineContent(
        cpus=cpus,
        position=travel.position,
        end=travel.end,
        clock_cycles=travel.clock_cycles,
        overview=travel.overview,
        detail=travel.detail if travel.detail_branch == travel.branch.number else None,
        bookmarks=travel.bookmarks,
        changes=travel.changes,
        branches=travel.branches,
        branch=travel.branch.number,
        fault=fault,
        functions=functions_of(travel, cpus),
    )


def functions_of(travel: TravelView, cpus: int) -> tuple[str, ...]:
    """What each CPU executes at the cursor; empty while not all stacks are known."""
    if len(travel.call_stacks) != cpus:
        return ()
    return tuple(stack.frames[-1].function if stack.frames else "" for stack in travel.call_stacks)
