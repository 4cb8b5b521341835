"""What the source panel shows, and where variables are named in a program's text; no painting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slubviz.model.snapshot import SourceSpan
from slubviz.views import numbers
from slubviz.views.call_stack_content import definition_line, parameters_of

if TYPE_CHECKING:
    from slubviz.model.travel.breakpoints import Breakpoint
    from slubviz.model.travel.call_stack import CallStackView, Frame, VariableValue
    from slubviz.model.travel.heat import Heat
    from slubviz.views.travel_view import TravelView

_NAME = re.compile(r"[A-Za-z_]\w*")
_STRING_OR_COMMENT = re.compile(r"\"[^\"]*\"|'[^']*'|#.*")


@dataclass(frozen=True)
class CpuPlace:
    """The expression that a CPU executes next."""

    cpu: int
    span: SourceSpan


@dataclass(frozen=True)
class LineValue:
    """A variable's value at the end of a line."""

    name: str
    text: str


@dataclass(frozen=True)
class SourceContent:
    """What to show.

    Attributes
    ----------
    sources : mapping of str to tuple of str
        Lines of every file of the program, in the order of the tabs.
    code_lines : mapping of str to frozenset of int
        Lines, from 1, where a breakpoint can be.
    places : tuple of CpuPlace
        What each CPU executes next, the chosen CPU's too.
    cpu : int
        The chosen CPU.
    frame : Frame, optional
        The chosen frame: the panel goes to its line and shows its variables.
    innermost : bool
        Whether that frame is the one that executes.
    breakpoints : mapping of (str, int) to bool
        File and line of each breakpoint, and whether it is enabled.
    heat : Heat, optional
        Executions and cycles of each line.
    moment : object
        Equal as long as the run stands at the same place.
    """

    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    code_lines: Mapping[str, frozenset[int]] = field(default_factory=dict)
    places: tuple[CpuPlace, ...] = ()
    cpu: int = 0
    frame: Frame | None = None
    innermost: bool = True
    breakpoints: Mapping[tuple[str, int], bool] = field(default_factory=dict)
    heat: Heat | None = None
    moment: object = None


def source_content(travel: TravelView, frame: Frame | None, *, innermost: bool) -> SourceContent:
    """What the panel shows of a recording at its cursor, with the frame that the call stack has chosen."""
    if travel.branch is None:
        return SourceContent()
    return SourceContent(
        travel.program.sources,
        travel.program.code_lines,
        places_of(travel.call_stacks),
        travel.cpu,
        frame,
        innermost,
        line_breakpoints(travel.breakpoints),
        travel.heat if travel.heat_branch == travel.branch.number else None,
        (travel.branch.number, travel.position, len(travel.changes)),
    )


def places_of(stacks: Iterable[CallStackView]) -> tuple[CpuPlace, ...]:
    """Where each CPU is that executes something."""
    return tuple(CpuPlace(stack.cpu, stack.frames[-1].span) for stack in stacks if stack.frames)


def line_breakpoints(breakpoints: Iterable[Breakpoint]) -> dict[tuple[str, int], bool]:
    """File and line of the breakpoints that are in the source; enabled if one on the line is."""
    result: dict[tuple[str, int], bool] = {}
    for point in breakpoints:
        if str(point.kind) == "line":
            key = (point.file, point.line)
            result[key] = result.get(key, False) or point.enabled
    return result


def values_of(frame: Frame, lines: Sequence[str]) -> dict[int, tuple[LineValue, ...]]:
    """Values to show at the ends of lines.

    Parameters at the line of the definition; other variables where they were last given a value, above the
    line that executes; and at that line all that it names.

    Parameters
    ----------
    frame : Frame
        Whose variables they are.
    lines : sequence of str
        Of its file.

    Returns
    -------
    dict of int to tuple of LineValue
        By line, from 1.
    """
    first = definition_line(lines, frame.function)
    if not 1 <= first <= frame.line <= len(lines):
        return {}
    result: dict[int, list[LineValue]] = {}
    known = {variable.name: variable for variable in frame.variables}
    for name in parameters_of(lines, frame.function):
        if name in known:
            result.setdefault(first, []).append(_value(known[name]))
    for name, variable in known.items():
        line = _last_assignment(lines, name, first + 1, frame.line)
        if line:
            result.setdefault(line, []).append(_value(variable))
    here = [_value(known[name]) for name in _names_in(lines[frame.line - 1]) if name in known]
    if here:
        result[frame.line] = here
    return {line: tuple(values) for line, values in result.items()}


def _value(variable: VariableValue) -> LineValue:
    return LineValue(variable.name, variable.text)


def _last_assignment(lines: Sequence[str], name: str, first: int, end: int) -> int:
    pattern = re.compile(rf"^\s*(?:{name}\s*(?::[^=]+)?[-+*|&^/%<>]*=(?!=)|for\s+{name}\s+in\b)")
    return next((line for line in range(end - 1, first - 1, -1) if pattern.match(lines[line - 1])), 0)


def _names_in(line: str) -> list[str]:
    # In order, each once; a field after a dot is no variable.
    plain = _STRING_OR_COMMENT.sub("", line)
    found = [m.group() for m in _NAME.finditer(plain) if m.start() == 0 or plain[m.start() - 1] != "."]
    return list(dict.fromkeys(found))


def heat_text(heat: Heat, file: str, line: int) -> str:
    """The exact numbers of a line; empty if it was not executed."""
    found = heat.of_line(file, line)
    if found is None:
        return ""
    share = 100 * found.cycles / heat.cycles if heat.cycles else 0.0
    lines = [
        f"{numbers.cycles(found.cycles)}, {share:.1f}{numbers.THIN}% of all",
        f"executed {numbers.plural(found.times, 'time')}, {numbers.plural(found.micro_ops, 'micro-op')}",
        f"from micro-op {numbers.integer(heat.first)} to {numbers.integer(heat.last)}",
    ]
    if found.wait_cycles:
        lines.insert(1, f"and {numbers.cycles(found.wait_cycles)} of waiting for a lock")
    return "\n".join(lines)


def hottest(heat: Heat) -> float:
    """Cycles of the hottest line, waiting included; at least a little."""
    return max((line.cycles + line.wait_cycles for line in heat.lines.values()), default=0.0) or 1.0
