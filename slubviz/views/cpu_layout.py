"""Where the CPU cards go, and what text they carry; arithmetic and words, no painting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from slubviz.hw.isa import CpuState
from slubviz.model.snapshot import CpuView, FrameView
from slubviz.views import numbers

_GAP = 4
_WIDEST_SINGLE_COLUMN = 860
#: Lines of text in the smallest and the largest card, and in one that was clicked.
_FEWEST_LINES, _MOST_LINES, _FOCUS_LINES = 3, 30, 34
#: Border and padding above and below the lines.
_EDGE = 6
#: A card in focus is this many times as tall as the others, room permitting.
_FOCUS_WEIGHT = 2.6


class Pace(IntEnum):
    """How fast a run goes for the eye."""

    FAST = 0  #: whose turn it is changes too often to be shown
    SLOW = 1  #: every micro-op can be followed
    STILL = 2  #: paused, or stepped by hand


@dataclass(frozen=True)
class CardPlace:
    """A card in logical pixels of the scrolled content."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class CardLayout:
    """All cards, by position in the list of CPUs, and the height of the whole content."""

    places: tuple[CardPlace, ...]
    content_height: int

    def card_at(self, x: int, y: int) -> int:
        """Position of the card at a point, -1 for none."""
        for index, place in enumerate(self.places):
            if place.x <= x < place.x + place.width and place.y <= y < place.y + place.height:
                return index
        return -1


def lay_out_cards(
    idle: Sequence[bool], width: int, height: int, focus: int = -1, line: int = 18
) -> CardLayout:
    """Place a card per CPU; scrolls when they do not fit at the smallest size.

    Parameters
    ----------
    idle : sequence of bool
        For each CPU whether it has nothing to show: its card is one line tall.
    width, height : int
        Of the visible part, in logical pixels.
    focus : int
        Position of the card that gets more room, -1 for none.
    line : int
        Height of a line of text in pixels.
    """
    count = len(idle)
    if count == 0:
        return CardLayout((), 0)
    columns = 2 if width > _WIDEST_SINGLE_COLUMN and count > 1 else 1
    rows = math.ceil(count / columns)
    card_width = (width - (columns - 1) * _GAP) // columns
    idle_rows = [all(idle[row * columns : (row + 1) * columns]) for row in range(rows)]
    heights = _row_heights(idle_rows, height, focus // columns if 0 <= focus < count else -1, line)
    places: list[CardPlace] = []
    y = 0
    for row in range(rows):
        filled = min(columns, count - row * columns)
        places += [CardPlace(x * (card_width + _GAP), y, card_width, heights[row]) for x in range(filled)]
        y += heights[row] + _GAP
    return CardLayout(tuple(places), y - _GAP)


def _row_heights(idle: Sequence[bool], height: int, focus: int, line: int) -> list[int]:
    smallest = _FEWEST_LINES * line + _EDGE
    compact = line + _EDGE
    busy = [row for row in range(len(idle)) if not idle[row] or row == focus]
    room = height - (len(idle) - 1) * _GAP - (len(idle) - len(busy)) * compact
    weight = len(busy) + (_FOCUS_WEIGHT - 1 if focus >= 0 else 0.0)
    plain = min(max(int(room / weight) if busy else 0, smallest), _MOST_LINES * line + _EDGE)
    rest = room - (len(busy) - 1) * plain
    tall = min(max(rest, plain, smallest + 4 * line), _FOCUS_LINES * line + _EDGE)
    return [tall if row == focus else plain if row in busy else compact for row in range(len(idle))]


@dataclass(frozen=True)
class StateText:
    """A CPU's state in words, and the theme's colour for it."""

    text: str
    colour: str


def state_text(cpu: CpuView, now_cycles: float) -> StateText:
    """What a CPU is doing.

    Parameters
    ----------
    now_cycles : float
        Latest clock of any CPU: a waiting CPU's own clock stands still.
    """
    state = CpuState(cpu.state)
    if state is CpuState.WAITING_LOCK:
        waited = max(0.0, max(now_cycles, cpu.clock_cycles) - cpu.waits_since_cycles)
        return StateText(f"waits {numbers.cycles(waited)} for {cpu.waits_for}", "cpu_waiting")
    if state is CpuState.WAITING_RENDEZVOUS:
        return StateText("waits for the other CPUs", "cpu_rendezvous")
    if state is CpuState.HALTED:
        return StateText("halted", "cpu_halted")
    if cpu.interrupt_depth:
        return StateText("in an interrupt", "interrupt")
    return StateText("running", "cpu_running")


def next_cpu(cpus: Sequence[CpuView]) -> int:
    """Position of the CPU that executes next: the smallest clock of the running ones, ties by number.

    Returns
    -------
    int
        -1 if none is running.
    """
    running = [
        (cpu.clock_cycles, cpu.number, index)
        for index, cpu in enumerate(cpus)
        if cpu.state == CpuState.RUNNING
    ]
    return min(running)[2] if running else -1


def stepped_cpu(before: Sequence[CpuView], after: Sequence[CpuView]) -> int:
    """Number of the CPU that executed the one micro-op between two pictures; -1 if it was not just one."""
    if len(before) != len(after):
        return -1
    gained = {b.number: b.micro_ops - a.micro_ops for a, b in zip(before, after, strict=True)}
    moved = [number for number, count in gained.items() if count]
    return moved[0] if len(moved) == 1 and gained[moved[0]] == 1 else -1


def scrolled(text: str, start: int, end: int, columns: int) -> tuple[str, int, int]:
    """Shift a line of code to the left until a part of it is inside.

    Parameters
    ----------
    text : str
        The line; what is cut off at its left is replaced by an ellipsis of one column.
    start, end : int
        Columns of the part, from 0, end exclusive.  The start stays visible if the part is too long.
    columns : int
        How many columns are visible.

    Returns
    -------
    text, start, end
        The shifted line, and where the part is in it.
    """
    last = end + (end < len(text))  # a column for the ellipsis of what follows
    cut = min(last - columns, start - 1)
    if cut <= 0:
        return text, start, end
    return "…" + text[cut + 1 :], start - cut, end - cut


def flags_text(cpu: CpuView) -> str:
    """Interrupt flag and preempt count."""
    irq = "irq on" if cpu.interrupts_enabled else "irq off"
    return f"{irq}  preempt {cpu.preempt_count}"


def crumbs(frames: tuple[FrameView, ...]) -> list[tuple[str, int]]:
    """Function names from the outermost in, each with its interrupt level."""
    level, result = 0, []
    for frame in frames:
        level += frame.interrupt
        result.append((frame.function, level))
    return result


def fitting_crumbs(widths: list[int], separator: int, ellipsis: int, room: int) -> int:
    """How many outer crumbs must give way so that the rest fits; the innermost always stays.

    Parameters
    ----------
    widths : list of int
        Width of each crumb in pixels, outermost first.
    separator, ellipsis : int
        Width of the mark between two crumbs, and of the mark for those left out.
    room : int
        Width to fill.
    """
    total = sum(widths) + separator * max(0, len(widths) - 1)
    dropped = 0
    while dropped < len(widths) - 1 and total + (ellipsis if dropped else 0) > room:
        total -= widths[dropped] + separator
        dropped += 1
    return dropped
