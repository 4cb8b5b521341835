"""Connects what the user does about time, in menus, transport bar and timeline, with the bridge.

Knows which command each action sends and when it makes sense.  The panels of the page Steps are connected in
``steps_wiring``, files in ``session_files``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QWidget

from slubviz.views import commands as C
from slubviz.views import speed
from slubviz.views.bridge import Bridge
from slubviz.views.change_dialogs import (
    BookmarkDialog,
    ChangeDialog,
    EditDialog,
    InjectDialog,
    MigrateDialog,
    TextDialog,
)
from slubviz.views.move_texts import MOVE_WORDS
from slubviz.views.travel_pane import TravelPane
from slubviz.views.travel_view import TravelView
from slubviz.views.view_update import ViewUpdate, WorkerState

if TYPE_CHECKING:
    from slubviz.model.travel.movements import Move

#: Actions that go back in time, and need something behind the cursor.
_BACK = ("run_back", "step_back", "go_start")
#: Actions that only need a recording.
_ANYWHERE = (
    "go_to",
    "bookmark",
    "marker_a",
    "marker_b",
    "zoom_all",
    "break_here",
    "add_breakpoint",
    "edit",
    "migrate",
    "heat",
)
_BUSY = (WorkerState.LOADING, WorkerState.EMPTY)


class TravelControl:
    """See the module.

    Parameters
    ----------
    window : QWidget
        Parent of the dialogs.
    actions : mapping of str to QAction
        All of the window's.
    palette : callable
        Opens the command palette with a text.
    """

    def __init__(
        self,
        window: QWidget,
        bridge: Bridge,
        actions: Mapping[str, QAction],
        pane: TravelPane,
        palette: Callable[[str], object],
    ) -> None:
        self._window = window
        self._bridge = bridge
        self._actions = actions
        self._pane = pane
        self._palette = palette
        self.heat_toggles: list[QAbstractButton] = []  # buttons elsewhere that say the same
        self._connect_actions()
        self._connect_pane()

    @property
    def _travel(self) -> TravelView:
        return self._bridge.latest.travel

    # Speed

    @property
    def rate(self) -> float:
        """Micro-ops per second; infinity for no limit."""
        return self._pane.transport.speed_field.rate

    def set_rate(self, rate: float) -> None:
        """Choose a speed."""
        self._pane.transport.speed_field.set_rate(rate)
        self._bridge.set_rate(rate)

    # Actions

    def _connect_actions(self) -> None:
        send = self._bridge.send
        for kind in MOVE_WORDS:
            if kind == "micro_op":
                continue
            self._on(f"go_{kind}", partial(self.move, kind, +1))
            self._on(f"back_{kind}", partial(self.move, kind, -1))
        for name, handler in (
            ("run_back", lambda: send(C.Play(-1))),
            ("step_back", lambda: send(C.StepBack())),
            ("cancel", lambda: send(C.Cancel())),
            ("slower", lambda: self.set_rate(speed.neighbour(self.rate, -1))),
            ("faster", lambda: self.set_rate(speed.neighbour(self.rate, +1))),
            ("unlimited", lambda: self.set_rate(speed.rate_of(speed.UNLIMITED))),
            ("go_to", lambda: self._palette(">")),
            ("go_start", lambda: self.move("start", -1)),
            ("go_end", lambda: self.move("end", +1)),
            ("bookmark", self.ask_bookmark),
            ("go_bookmark", lambda: self._go_bookmark(+1)),
            ("back_bookmark", lambda: self._go_bookmark(-1)),
            ("marker_a", lambda: self._pane.timeline.set_marker("A")),
            ("marker_b", lambda: self._pane.timeline.set_marker("B")),
            ("zoom_all", self._pane.timeline.show_whole),
            ("break_here", self._break_here),
            ("add_breakpoint", self._ask_breakpoint),
            ("clear_breakpoints", lambda: send(C.RemoveBreakpoint(None))),
            ("inject", self.ask_interrupt),
            ("edit", lambda: self.ask_edit(None)),
            ("migrate", self._ask_migrate),
            ("heat", lambda: self.set_heat(self._actions["heat"].isChecked())),
            ("scenario_next", lambda: send(C.ScenarioStep(+1))),
            ("scenario_back", lambda: send(C.ScenarioStep(-1))),
        ):
            self._on(name, handler)

    def _on(self, name: str, handler: Callable[[], object]) -> None:
        self._actions[name].triggered.connect(lambda *_checked: handler())

    def _connect_pane(self) -> None:
        bridge, bar, timeline = self._bridge, self._pane.transport, self._pane.timeline
        bar.moved.connect(lambda move, direction: self.move(str(move), direction))
        bar.seek.connect(lambda position: bridge.send(C.Seek(int(position))))
        bar.seek_cycle.connect(lambda cycle: bridge.send(C.SeekCycle(float(cycle))))
        bar.play.connect(lambda direction: bridge.send(C.Play(int(direction))))
        bar.pause.connect(bridge.pause)
        bar.speed.connect(bridge.set_rate)
        bar.cancel.connect(lambda: bridge.send(C.Cancel()))
        timeline.scrubbed.connect(lambda position: bridge.send(C.Scrub(int(position))))
        timeline.seek.connect(lambda position: bridge.send(C.Seek(int(position))))
        timeline.wanted_detail.connect(lambda first, last: bridge.send(C.WantDetail(int(first), int(last))))

    def move(self, kind: str, direction: int) -> None:
        """Go to the next or previous place of a kind."""
        if kind == "micro_op":
            self._bridge.send(C.Step() if direction > 0 else C.StepBack())
        else:
            self._bridge.send(C.MoveBy(cast("Move", kind), direction))

    # What makes sense

    def enable(self, update: ViewUpdate, here: bool) -> None:
        """Enable what makes sense; ``here`` if a page that shows the run is in front."""
        travel = update.travel
        there = here and travel.exists and update.state not in _BUSY
        at_start, at_end = travel.position == 0, travel.position >= travel.end
        over = at_end and travel.complete
        wanted = dict.fromkeys(_ANYWHERE, there)
        wanted |= dict.fromkeys(_BACK, there and not at_start)
        for kind in MOVE_WORDS:
            if kind != "micro_op":
                wanted[f"go_{kind}"] = there and not over
                wanted[f"back_{kind}"] = there and not at_start
        wanted["go_end"] = there and not at_end
        wanted["inject"] = there and not over
        wanted["cancel"] = travel.moving is not None or update.state is WorkerState.RUNNING or is_slow(travel)
        wanted["clear_breakpoints"] = there and bool(travel.breakpoints)
        wanted["go_bookmark"] = there and self._bookmark(+1) is not None
        wanted["back_bookmark"] = there and self._bookmark(-1) is not None
        steps = len(travel.scenario.steps) if travel.scenario is not None else 0
        step = travel.scenario.step if travel.scenario is not None else 0
        wanted["talk"] = there and steps > 0
        wanted["scenario_next"] = there and step < steps - 1
        wanted["scenario_back"] = there and steps > 0 and step > 0
        for name, enabled in wanted.items():
            if self._actions[name].isEnabled() != enabled:
                self._actions[name].setEnabled(enabled)

    # Bookmarks and breakpoints

    def _bookmark(self, direction: int) -> tuple[int, int] | None:
        """(branch, position) of the next or previous bookmark of the cursor's branch and those before it."""
        travel = self._travel
        limits = lineage(travel)
        places = sorted(
            (mark.position, mark.branch)
            for mark in travel.bookmarks
            if mark.branch in limits and mark.position <= limits[mark.branch]
        )
        if direction > 0:
            found = [place for place in places if place[0] > travel.position][:1]
        else:
            found = [place for place in places if place[0] < travel.position][-1:]
        return (found[0][1], found[0][0]) if found else None

    def _go_bookmark(self, direction: int) -> None:
        place = self._bookmark(direction)
        if place is not None:
            # A place before the fork is in the cursor's branch too: stay in it.
            self._bridge.send(C.Seek(place[1]))

    def ask_bookmark(self) -> None:
        """Ask for the name of a bookmark at the cursor."""
        travel = self._travel
        stack = travel.stack_of(travel.cpu)
        where = stack.frames[-1].function if stack is not None and stack.frames else ""
        name = f"{where}, micro-op {travel.position:,}" if where else f"micro-op {travel.position:,}"
        self._bridge.pause()
        dialog = BookmarkDialog(name, parent=self._window)
        self._open(dialog, lambda result: self._bridge.send(C.AddBookmark(*cast("tuple[str, str]", result))))

    def _break_here(self) -> None:
        stack = self._travel.stack_of(self._travel.cpu)
        if stack is not None and stack.frames:
            frame = stack.frames[-1]
            self._bridge.send(C.ToggleBreakpoint(frame.file, frame.line))

    def _ask_breakpoint(self) -> None:
        dialog = TextDialog(
            "Breakpoint",
            "Where",
            "slub.py:120, or a function, counter, word, slab …",
            "Add",
            parent=self._window,
        )
        self._open(dialog, lambda result: self._bridge.send(C.AddBreakpoint(cast("tuple[str]", result)[0])))

    def set_heat(self, wanted: bool) -> None:
        """Show or hide the heat of the lines."""
        self._actions["heat"].setChecked(wanted)
        for panel in self.heat_toggles:
            if panel.isChecked() != wanted:
                panel.setChecked(wanted)
        self._bridge.send(C.WantHeat(wanted))

    # Changes

    def ask_interrupt(self) -> None:
        """Ask for an interrupt at the cursor."""
        travel = self._travel
        dialog = InjectDialog(
            travel.program.handlers, self._cpus(), travel.cpu, self._window, self._size_bytes()
        )
        self._open_change(dialog)

    def ask_edit(self, address: int | None) -> None:
        """Ask for another value of something."""
        travel = self._travel
        self._open_change(EditDialog(travel.call_stacks, travel.cpu, address, self._window))

    def _ask_migrate(self) -> None:
        self._open_change(MigrateDialog(self._cpus(), self._travel.cpu, self._window))

    def _cpus(self) -> int:
        snapshot = self._bridge.latest.snapshot
        return max(len(snapshot.cpus), 1) if snapshot is not None else 1

    def _size_bytes(self) -> int:
        """Of the objects that are allocated now."""
        update = self._bridge.latest
        if update.snapshot is not None and update.snapshot.phase is not None:
            return update.snapshot.phase.size_bytes
        return update.job.sizes[0] if update.job is not None and update.job.sizes else 64

    def _open_change(self, dialog: ChangeDialog) -> None:
        self._bridge.pause()  # what is chosen is meant for the moment that the user sees
        self._open(dialog, lambda what: self._bridge.send(C.Apply(what)))  # type: ignore[arg-type]

    def _open(self, dialog: ChangeDialog, chosen: Callable[[object], object]) -> None:
        dialog.chosen.connect(chosen)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()


def is_slow(travel: TravelView) -> bool:
    """Whether something is computed that one may not want to wait for."""
    searching = travel.compare is not None and travel.compare.searching is not None
    return searching or (travel.history is not None and travel.history.reading)


def lineage(travel: TravelView) -> dict[int, int]:
    """Branch number -> the last position of it that leads to the cursor's branch."""
    branches = {branch.number: branch for branch in travel.branches}
    branch = travel.branch
    limits: dict[int, int] = {}
    limit = 1 << 62
    while branch is not None:
        limits[branch.number] = limit
        limit = min(limit, branch.fork_position)
        branch = branches.get(branch.parent) if branch.parent is not None else None
    return limits
