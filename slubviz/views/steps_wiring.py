"""Connects the panels of the page Steps with the bridge: every signal of a panel becomes a command."""

from __future__ import annotations

from slubviz.views import commands as C
from slubviz.views.bridge import Bridge
from slubviz.views.steps_page import StepsPage
from slubviz.views.travel_control import TravelControl


def connect_steps(page: StepsPage, bridge: Bridge, control: TravelControl) -> None:
    """Connect everything; once."""
    _connect_stack_and_source(page, bridge, control)
    _connect_inspector(page, bridge, control)
    _connect_lists(page, bridge, control)


def _connect_stack_and_source(page: StepsPage, bridge: Bridge, control: TravelControl) -> None:
    send = bridge.send

    def inspect_variable(cpu: int, index: int, name: str) -> None:
        stack = bridge.latest.travel.stack_of(cpu)
        if stack is None or not 0 <= index < len(stack.frames):
            return
        for variable in stack.frames[index].variables:
            if variable.name == name and variable.address is not None:
                page.raise_panel("inspector")
                send(C.Inspect(f"{variable.address:#x}"))

    page.stack.cpu_chosen.connect(lambda cpu: send(C.ChooseCpu(int(cpu))))
    page.stack.frame_chosen.connect(lambda _cpu, _index: page.show_frame())
    page.stack.variable_chosen.connect(inspect_variable)
    page.source.breakpoint_toggled.connect(lambda file, line: send(C.ToggleBreakpoint(file, int(line))))
    control.heat_toggles.append(page.source.heat)
    page.source.heat_wanted.connect(control.set_heat)


def _connect_inspector(page: StepsPage, bridge: Bridge, control: TravelControl) -> None:
    send, panel = bridge.send, page.inspector

    def inspect(text: str) -> None:
        send(C.Inspect(text))
        page.raise_panel("inspector")

    def watch(text: str) -> None:
        texts = tuple(value.item for value in bridge.latest.travel.watches)
        if text not in texts:
            send(C.SetWatches((*texts, text)))
        send(C.ChooseWatched(text))
        page.raise_panel("watch")

    def next_change(watched: object) -> None:
        send(C.ChooseWatched(watched))
        control.move("watched", +1)

    page.map.object_clicked.connect(lambda frame, number: inspect(f"{frame}/{number}"))
    page.map.slab_clicked.connect(lambda frame: inspect(f"{frame}"))
    panel.inspected.connect(lambda target: send(C.Inspect(target)))
    panel.seek.connect(lambda position: send(C.Seek(int(position))))
    panel.history_wanted.connect(lambda address: send(C.WantHistory(int(address))))
    panel.watch_wanted.connect(watch)
    panel.break_wanted.connect(lambda text: send(C.AddBreakpoint(text)))
    panel.change_wanted.connect(next_change)
    panel.edit_wanted.connect(lambda address: control.ask_edit(int(address)))


def _connect_lists(page: StepsPage, bridge: Bridge, control: TravelControl) -> None:
    send = bridge.send
    page.watch.changed.connect(lambda texts: send(C.SetWatches(tuple(texts))))
    page.watch.chosen.connect(lambda text: send(C.ChooseWatched(text)))
    page.watch.moved.connect(lambda direction: control.move("watched", int(direction)))
    points = page.breakpoints
    points.added.connect(lambda text: send(C.AddBreakpoint(text)))
    points.edited.connect(lambda number, text: send(C.ChangeBreakpoint(int(number), text)))
    points.switched.connect(lambda number, on: send(C.EnableBreakpoint(int(number), bool(on))))
    points.removed.connect(lambda number: send(C.RemoveBreakpoint(number)))
    points.moved.connect(lambda direction: control.move("breakpoint", int(direction)))
    branches = page.branches
    branches.switched.connect(lambda number: send(C.SwitchBranch(int(number))))
    branches.renamed.connect(lambda number, name: send(C.RenameBranch(int(number), name)))
    branches.go.connect(lambda branch, position: send(C.GoToBookmark(int(branch), int(position))))
    branches.bookmark_renamed.connect(lambda name, new_name: send(C.EditBookmark(name, new_name)))
    branches.bookmark_removed.connect(lambda name: send(C.RemoveBookmark(name)))
    branches.bookmark_wanted.connect(control.ask_bookmark)
