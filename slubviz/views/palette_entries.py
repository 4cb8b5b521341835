"""What the command palette offers: every command, places in the run, names in the program, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtGui import QAction

from slubviz.views import commands as C
from slubviz.views import numbers
from slubviz.views.actions import ACTIONS, plain_text
from slubviz.views.change_dialogs import parse_integer
from slubviz.views.palette import Entry
from slubviz.views.transport_position import ToPosition, parse_place
from slubviz.views.travel_view import TravelView

#: The palette itself is no choice in it.
_NOT_OFFERED = ("palette",)

#: What can follow ``>``.
_PLACES = f"Go to: micro-op N, +N, {numbers.MINUS}N, cycle N"

Send = Callable[[C.Command], object]


def command_entries(actions: Mapping[str, QAction]) -> list[Entry]:
    """Every command of the table; one that makes no sense now is shown but cannot be chosen."""
    return [
        Entry(
            f"{spec.menu.replace('&', '')}: {plain_text(spec)}",
            spec.shortcut,
            actions[spec.id].trigger,
            actions[spec.id].isEnabled(),
        )
        for spec in ACTIONS
        if spec.id not in _NOT_OFFERED
    ]


def travel_entries(travel: TravelView, send: Send, show_source: Callable[[str, int], object]) -> list[Entry]:
    """Bookmarks, branches, scenario steps and functions of a recording."""
    entries = [
        Entry(
            f"Bookmark: {mark.name}",
            f"micro-op {numbers.integer(mark.position)}",
            partial(send, C.GoToBookmark(mark.branch, mark.position)),
        )
        for mark in travel.bookmarks
    ]
    entries += [
        Entry(
            f"Branch: {branch.name}",
            f"from micro-op {numbers.integer(branch.fork_position)}",
            partial(send, C.SwitchBranch(branch.number)),
        )
        for branch in travel.branches
        if len(travel.branches) > 1
    ]
    if travel.scenario is not None:
        entries += [
            Entry(
                f"Step {index + 1}: {step.caption}",
                f"micro-op {numbers.integer(step.position)}",
                partial(send, C.ScenarioStep(number=index)),
            )
            for index, step in enumerate(travel.scenario.steps)
        ]
    entries += [
        Entry(f"Function: {name}", f"{file}:{line}", partial(show_source, file, line))
        for name, (file, line) in sorted(travel.program.functions.items())
    ]
    return entries


def file_entries(
    scenarios: Mapping[str, str],
    recent: Sequence[str],
    open_scenario: Callable[[str], object],
    open_session: Callable[[str], object],
) -> list[Entry]:
    """Scenarios and session files."""
    entries = [
        Entry(f"Scenario: {title}", name, partial(open_scenario, name), name=name)
        for name, title in scenarios.items()
    ]
    entries += [
        Entry(f"Session: {Path(path).name}", str(Path(path).parent), partial(open_session, path))
        for path in recent
    ]
    return entries


def place_offers(query: str, travel: TravelView, send: Send) -> list[Entry]:
    """Go to a micro-op or cycle whose number is typed, e.g. ``1234``, ``>1234``, ``>+100``, ``cycle 5000``.

    After a mere ``>`` an entry that cannot be chosen says what can follow.
    """
    if query.strip() == ">":
        hint = f"recorded to {numbers.integer(travel.end)}" if travel.exists else "nothing is recorded yet"
        return [Entry(_PLACES, hint, lambda: None, enabled=False)]
    text = query.strip().lstrip(">").strip().casefold()
    if not travel.exists or not text:
        return []
    if text[0] in f"+-{numbers.MINUS}":  # relative to the cursor
        place = parse_place(text, travel.position)
        return _places(place.position, "micro-op", travel, send) if isinstance(place, ToPosition) else []
    for word, unit in (("cycle", "cycle"), ("t", "cycle"), ("micro-op", "micro-op"), ("", "")):
        if text.startswith(word):
            value = parse_integer(text[len(word) :].strip())
            if value is not None and value >= 0:
                return _places(value, unit, travel, send)
    return []


def _places(value: int, unit: str, travel: TravelView, send: Send) -> list[Entry]:
    hint = f"recorded to {numbers.integer(travel.end)}"
    position = min(value, travel.end)
    to_position = Entry(f"Go to micro-op {numbers.integer(position)}", hint, lambda: send(C.Seek(position)))
    to_cycle = Entry(
        f"Go to cycle {numbers.integer(value)}",
        "the first micro-op then",
        lambda: send(C.SeekCycle(float(value))),
    )
    if unit == "cycle":
        return [to_cycle]
    return [to_position] if unit == "micro-op" else [to_position, to_cycle]
