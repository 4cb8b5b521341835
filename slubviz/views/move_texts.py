"""The words for each kind of movement, for menus, buttons and what is said while one is under way.

Kinds are the values of ``slubviz.model.travel.movements.Move``; a test holds the two against each other.
"""

from __future__ import annotations

from slubviz.views import commands as C
from slubviz.views import numbers

#: Kind -> what is next or previous.
MOVE_WORDS: dict[str, str] = {
    "micro_op": "micro-op",
    "line": "source line",
    "into": "function or interrupt that is entered",
    "over": "source line, past calls and interrupts",
    "out": "end of the function",
    "interrupt_entry": "interrupt entry",
    "interrupt_exit": "interrupt exit",
    "event_this_cpu": "event on this CPU",
    "event_any_cpu": "event on any CPU",
    "watched": "change of what is watched",
    "slow_path": "slow path",
    "retry": "retry",
    "contended": "contended lock",
    "breakpoint": "breakpoint",
    "phase": "phase",
}


def move_text(kind: str, direction: int) -> str:
    """E.g. "next retry", "previous retry"."""
    if kind == "start":
        return "start"
    if kind == "end":
        return "end of what is recorded"
    words = MOVE_WORDS.get(kind, kind.replace("_", " "))
    return f"{'next' if direction > 0 else 'previous'} {words}"


def text_of(command: C.Movement) -> str:
    """What a command does, said while it is under way."""
    match command:
        case C.MoveBy(kind, direction):
            return f"Looking for the {move_text(str(kind), direction)}"
        case C.Seek(position) | C.Scrub(position):
            return f"Going to micro-op {numbers.integer(position)}"
        case C.SeekCycle(cycle):
            return f"Going to cycle {numbers.integer(cycle)}"
        case C.SwitchBranch() | C.GoToBookmark():
            return "Going to another branch"
        case C.ScenarioStep():
            return "Going to the step"
        case C.OpenSession(path):
            return f"Opening {path}"
        case C.OpenScenario(name):
            return f"Playing {name}"
        case C.Apply(what):
            return what.text()
        case C.StepBack():
            return "One micro-op back"
        case _:
            return "Moving"
