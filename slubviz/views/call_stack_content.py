"""What the call stack panel shows, prepared from the model's call stacks: tabs, cards, interrupt levels.

Words and numbers only, no painting.  A card is a frame with the line of source that it stands at; a level
is an interrupt with all that runs inside of it, deeper interrupts included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from slubviz.hw.isa import CpuState
from slubviz.model.snapshot import CpuView, SourceSpan
from slubviz.views import numbers
from slubviz.views.cpu_layout import state_text

if TYPE_CHECKING:
    from slubviz.model.snapshot import Snapshot
    from slubviz.model.travel.call_stack import CallStackView, Frame
    from slubviz.model.travel.timeline import Detail
    from slubviz.views.travel_view import TravelView

Sources = Mapping[str, tuple[str, ...]]

#: Longer expressions are cut in a level's header.
_MOST_EXPRESSION = 60


@dataclass(frozen=True)
class CpuTab:
    """A CPU in the chooser."""

    number: int
    colour: str  #: the theme's meaning of its state
    text: str  #: its state in words
    halted: bool
    depth: int  #: interrupts that have not returned
    next: bool  #: it executes the next micro-op


@dataclass(frozen=True)
class StackContent:
    """What to show.

    Attributes
    ----------
    stacks : tuple of CallStackView
        Of as many CPUs as are known.
    tabs : tuple of CpuTab
        Of all CPUs.
    cpu : int
        The chosen one.
    moment : object
        Equal as long as the run stands at the same place; values that differ from those of the moment
        before are marked.
    arrivals : mapping of int to int
        For interrupt levels of the chosen CPU, from 1, the position at which they came, where it is known.
    """

    stacks: tuple[CallStackView, ...] = ()
    tabs: tuple[CpuTab, ...] = ()
    cpu: int = 0
    sources: Sources = field(default_factory=dict)
    moment: object = None
    arrivals: Mapping[int, int] = field(default_factory=dict)

    @property
    def stack(self) -> CallStackView | None:
        """The chosen CPU's."""
        return next((stack for stack in self.stacks if stack.cpu == self.cpu), None)


@dataclass(frozen=True)
class Card:
    """One frame."""

    index: int  #: in ``CallStackView.frames``
    frame: Frame
    code: str  #: the line of source, without indentation; "" if it is not known
    mark: tuple[int, int]  #: columns of the expression in ``code``, end exclusive
    innermost: bool
    changed: frozenset[str] = frozenset()  #: variables that had another value the moment before
    hidden: tuple[str, ...] = ()  #: inlined functions inside of it whose cards are not shown


@dataclass(frozen=True)
class Level:
    """One interrupt."""

    number: int  #: from 1
    first: int  #: position among the cards of the handler's
    title: str  #: "Interrupt level 2: irq_alloc(64)"
    arrival: str  #: where it came
    short: str  #: the same in fewer words


def stack_content(travel: TravelView, snapshot: Snapshot | None) -> StackContent:
    """What the panel shows of a recording at its cursor."""
    if snapshot is None or travel.branch is None:
        return StackContent()
    known = travel.detail if travel.detail_branch == travel.branch.number else None
    return StackContent(
        travel.call_stacks,
        tabs_of(snapshot.cpus, travel.call_stacks, snapshot.clock_cycles),
        travel.cpu,
        travel.program.sources,
        (travel.branch.number, travel.position, len(travel.changes)),
        arrivals_of(known, travel.cpu, travel.position) if known is not None else {},
    )


def arrivals_of(detail: Detail, cpu: int, position: int) -> dict[int, int]:
    """After which micro-op each interrupt came that a CPU is in.

    Parameters
    ----------
    detail : Detail
        Of a part of the run; interrupts that came before it are left out.

    Returns
    -------
    dict of int to int
        By interrupt level, from 1.
    """
    if not detail.first <= position <= detail.last:
        return {}
    rows = np.flatnonzero((detail.cpu == cpu) & (detail.first_position <= position))
    if not len(rows):
        return {}
    depths = detail.depth[rows]
    arrived = {}
    for level in range(1, int(depths[-1]) + 1):
        outside = np.flatnonzero(depths < level)
        if len(outside):
            arrived[level] = int(detail.first_position[rows[outside[-1] + 1]])
    return arrived


def tabs_of(
    cpus: Sequence[CpuView], stacks: Sequence[CallStackView], clock_cycles: float
) -> tuple[CpuTab, ...]:
    """A tab for every CPU of a snapshot."""
    following = {stack.cpu for stack in stacks if stack.next}
    tabs = []
    for cpu in cpus:
        state = state_text(cpu, clock_cycles)
        tabs.append(
            CpuTab(
                cpu.number,
                state.colour,
                state.text,
                cpu.state == CpuState.HALTED,
                cpu.interrupt_depth,
                cpu.number in following,
            )
        )
    return tuple(tabs)


def cards_of(
    stack: CallStackView,
    sources: Sources,
    before: CallStackView | None = None,
    *,
    inlined: bool = True,
) -> tuple[Card, ...]:
    """The cards of a stack, outermost first.

    Parameters
    ----------
    before : CallStackView, optional
        The same CPU's stack the moment before.
    inlined : bool
        Whether inlined functions have cards of their own; if not, the function that they are part of
        names them.
    """
    cards: list[Card] = []
    last = len(stack.frames) - 1
    for index, frame in enumerate(stack.frames):
        if frame.inlined and not inlined and cards:
            outer = cards[-1]
            cards[-1] = Card(
                outer.index,
                outer.frame,
                outer.code,
                outer.mark,
                index == last,
                outer.changed,
                (*outer.hidden, frame.function),
            )
            continue
        code, mark = source_line(sources, frame.span)
        changed = _changed(frame, _same_frame(before, index, frame))
        cards.append(Card(index, frame, code, mark, index == last, changed))
    return tuple(cards)


def _same_frame(before: CallStackView | None, index: int, frame: Frame) -> Frame | None:
    if before is None or index >= len(before.frames):
        return None
    other = before.frames[index]
    same = (other.function, other.level, other.inlined) == (frame.function, frame.level, frame.inlined)
    return other if same else None


def _changed(frame: Frame, before: Frame | None) -> frozenset[str]:
    # In a frame that was not there before, everything is new and nothing is worth a mark.
    if before is None:
        return frozenset()
    old = {variable.name: variable.value for variable in before.variables}
    return frozenset(v.name for v in frame.variables if v.name not in old or old[v.name] != v.value)


def source_line(sources: Sources, span: SourceSpan) -> tuple[str, tuple[int, int]]:
    """The line a span begins in, without indentation, and the columns of the span in it.

    Returns
    -------
    text, (start, end)
        From 0, end exclusive; an empty text if the line is not known.
    """
    lines = sources.get(span.file, ())
    if not 1 <= span.line <= len(lines):
        return "", (0, 0)
    line = lines[span.line - 1].rstrip()
    text = line.lstrip()
    indent = len(line) - len(text)
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    start = min(max(0, span.column - 1 - indent), len(text))
    return text, (start, min(max(start, end - indent), len(text)))


def expression(sources: Sources, span: SourceSpan) -> str:
    """The text of a span, shortened; where lines end there is a space."""
    lines = sources.get(span.file, ())
    if not 1 <= span.line <= span.end_line <= len(lines):
        return ""
    parts = list(lines[span.line - 1 : span.end_line])
    parts[-1] = parts[-1][: span.end_column - 1]  # the end first: both may be in one line
    parts[0] = parts[0][span.column - 1 :]
    text = " ".join(" ".join(parts).split())
    return text if len(text) <= _MOST_EXPRESSION else text[: _MOST_EXPRESSION - 1] + "…"


def levels_of(
    cards: Sequence[Card], sources: Sources, arrivals: Mapping[int, int] | None = None
) -> tuple[Level, ...]:
    """The interrupts of a stack, outermost first."""
    known = arrivals or {}
    levels: list[Level] = []
    for place, card in enumerate(cards):
        if not card.frame.interrupt:
            continue
        number = card.frame.level
        outer = cards[place - 1] if place else None
        title = f"Interrupt level {number}: {call_text(card.frame, sources)}"
        position = known.get(number)
        levels.append(
            Level(
                number,
                place,
                title,
                arrival_text(outer, sources, position),
                arrival_text(outer, sources, position, short=True),
            )
        )
    return tuple(levels)


def arrival_text(outer: Card | None, sources: Sources, position: int | None, *, short: bool = False) -> str:
    """Where an interrupt came: ``in slab_alloc, before cmpxchg_local(…)``, with the micro-ops if known."""
    parts = []
    if position is not None and short:
        parts.append(f"after micro-op {numbers.integer(position)}")
    elif position is not None:
        first, second = numbers.integer(position), numbers.integer(position + 1)
        parts.append(f"arrived between micro-ops {first} and {second}")
    elif not short:
        parts.append("arrived")
    parts.append(_place_text(outer, sources))
    return (", " if short else " ").join(parts)


def _place_text(outer: Card | None, sources: Sources) -> str:
    if outer is None:
        return "on the idle CPU"
    if outer.hidden:  # a function that is inlined and has no card is where it really came
        return f"in {outer.hidden[-1]}"
    text = expression(sources, outer.frame.span)
    if text.isalnum() or text.isidentifier():  # says little without the line that it is in
        text = f"{text} in “{outer.code}”"
    return f"in {outer.frame.function}, " + (f"before {text}" if text else f"line {outer.frame.line}")


def call_text(frame: Frame, sources: Sources) -> str:
    """A function with the values of its parameters that are live: ``irq_alloc(64)``."""
    names = parameters_of(sources.get(frame.file, ()), frame.function)
    values = {variable.name: variable.text for variable in frame.variables}
    if not names or any(name not in values for name in names):
        return frame.function
    return f"{frame.function}({', '.join(values[name] for name in names)})"


def parameters_of(lines: Sequence[str], function: str) -> tuple[str, ...]:
    """Names of the parameters in the text of a function; empty if it is not there."""
    first = definition_line(lines, function)
    if first == 0:
        return ()
    text = " ".join(lines[first - 1 : first + 9])
    match = re.search(r"\((.*?)\)\s*(?:->[^:]*)?:(?:\s|$)", text)
    if match is None:
        return ()
    return tuple(word.split(":")[0].strip() for word in match.group(1).split(",") if word.strip())


def definition_line(lines: Sequence[str], function: str) -> int:
    """The line, from 1, that defines a function; 0 if none does."""
    start = f"def {function}("
    return next((number for number, line in enumerate(lines, 1) if line.lstrip().startswith(start)), 0)
