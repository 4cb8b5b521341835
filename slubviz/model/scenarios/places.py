"""Finds the micro-ops of an anchor in a compiled program, from its debug information.

A place is a set of *groups* of micro-ops: one for each micro-op of an operation or call, one for each line
or expanded function (all its micro-ops, those expanded in it too).  A CPU is at the place when it comes into
a group, and after it when it has left the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from slubviz.hw.isa import F_AUX, F_C, F_IMM, F_OP, WORDS, Op
from slubviz.model.errors import quoted
from slubviz.model.lang import Program
from slubviz.model.scenarios.anchors import OPERATIONS, Anchor, AnchorError, Kind, When

_BRANCHES = range(int(Op.BEQ), int(Op.BGEI) + 1)


@dataclass(frozen=True)
class Group:
    """Micro-ops that are entered and left together."""

    pcs: frozenset[int]
    successors: frozenset[int]  #: that may follow the last of them, in the same function
    returns: bool  #: whether the function may be left in it


@dataclass(frozen=True)
class Place:
    """All groups of an anchor."""

    groups: tuple[Group, ...]

    @property
    def stops(self) -> frozenset[int]:
        """The micro-ops before which to stop."""
        return frozenset().union(*(group.pcs | group.successors for group in self.groups))


@dataclass(frozen=True)
class _Level:
    """One of the functions that a micro-op belongs to: the function itself, or one expanded in it."""

    names: tuple[str, ...]  #: of the function and all that it is expanded in, outermost first
    instance: tuple[int, int]  #: function and inline site, which tell one expansion from another
    file: str
    line: int


@dataclass
class PlaceFinder:
    """Looks anchors up in one program."""

    program: Program
    _levels: list[tuple[_Level, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._rows = self.program.code.reshape(-1, WORDS)
        self._ops: list[int] = self._rows[:, F_OP].tolist()
        self._levels = [self._levels_of(pc) for pc in range(self.program.micro_ops)]

    def _levels_of(self, pc: int) -> tuple[_Level, ...]:
        program = self.program
        sites = []
        site = int(program.inline_site[pc])
        while site >= 0:
            sites.append(site)
            site = program.inline_sites[site].parent
        instances = [-1, *reversed(sites)]
        whole = program.function_at(pc).index
        levels: list[_Level] = []
        names: tuple[str, ...] = ()
        for instance, (function, span) in zip(instances, program.inline_stack(pc), strict=True):
            names = (*names, function.name)
            levels.append(_Level(names, (whole, instance), span.file, span.line))
        return tuple(levels)

    def find(self, anchor: Anchor) -> Place:
        """The place of an anchor.

        Raises
        ------
        AnchorError
            If the program has none; says what is near.
        """
        if anchor.function:
            self._check_function(anchor.function, anchor)
        for name in anchor.inside:
            self._check_function(name, anchor)
        find: dict[Kind, Callable[[Anchor], Iterable[frozenset[int]]]] = {
            Kind.FUNCTION: lambda a: self._function(a.function, ""),
            Kind.CALL: lambda a: self._calls(a),
            Kind.LINE: lambda a: self._lines(a),
            Kind.RETURN: lambda a: self._matching(a, self._is_return),
            Kind.OPERATION: lambda a: self._matching(a, self._is_operation),
            Kind.COUNT: lambda a: self._counts(a),
            Kind.LOAD: lambda a: self._matching(a, self._is_load),
            Kind.STORE: lambda a: self._matching(a, self._is_store),
        }
        groups = tuple(self._group(pcs) for pcs in find[anchor.kind](anchor))
        if not groups:
            raise self._nothing(anchor)
        if anchor.kind == Kind.RETURN and anchor.when == When.ENTRY:
            raise AnchorError(f"{quoted(anchor.text)}: give before return or after return")
        return Place(groups)

    def _check_function(self, name: str, anchor: Anchor) -> None:
        known = [function.name for function in self.program.functions]
        if name not in known:
            near = get_close_matches(name, known, n=1)
            question = f"; did you mean {near[0]}?" if near else ""
            raise AnchorError(f"{quoted(anchor.text)}: there is no function {name} in the program{question}")

    # --- kinds -------------------------------------------------------------------------------------
    def _belongs(self, pc: int, function: str) -> bool:
        return not function or function in self._levels[pc][-1].names

    def _matching(self, anchor: Anchor, matches: Callable[[int, Anchor], bool]) -> list[frozenset[int]]:
        return [
            frozenset([pc])
            for pc in range(self.program.micro_ops)
            if matches(pc, anchor) and self._belongs(pc, anchor.function)
        ]

    def _is_return(self, pc: int, anchor: Anchor) -> bool:
        own = self.program.function_at(pc)
        wanted = not anchor.function or own.name == anchor.function
        return self._ops[pc] == Op.RET and wanted and not own.inline

    def _is_operation(self, pc: int, anchor: Anchor) -> bool:
        ops, number = OPERATIONS[anchor.thing]
        return self._ops[pc] in ops and (number is None or int(self._rows[pc, F_IMM]) == number)

    def _counts(self, anchor: Anchor) -> list[frozenset[int]]:
        counters = self.program.counters
        if anchor.thing not in counters:
            near = get_close_matches(anchor.thing, counters, n=1)
            question = f"; did you mean {near[0]}?" if near else ""
            raise AnchorError(f"{quoted(anchor.text)}: there is no counter {anchor.thing}{question}")
        number = counters.index(anchor.thing)
        return self._matching(
            anchor,
            lambda pc, _: self._ops[pc] in (Op.COUNT, Op.COUNT_N) and int(self._rows[pc, F_IMM]) == number,
        )

    def _is_load(self, pc: int, anchor: Anchor) -> bool:
        return self._ops[pc] in (Op.LD, Op.LDS) and self._segment(pc) == anchor.thing

    def _is_store(self, pc: int, anchor: Anchor) -> bool:
        """The micro-op's text is the assignment, or its left side."""
        text = self._segment(pc).split("=")[0].rstrip(" +-*/%&|^<>")
        return self._ops[pc] == Op.ST and text == anchor.thing

    def _segment(self, pc: int) -> str:
        span = self.program.span(pc)
        line = self._line_text(span.file, span.line)
        end = span.end_column - 1 if span.end_line == span.line else len(line)
        return " ".join(line[span.column - 1 : end].split())

    def _line_text(self, file: str, line: int) -> str:
        lines = self.program.sources[file].splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def _function(self, name: str, caller: str) -> list[frozenset[int]]:
        """Where a function begins: its own first micro-op, or each expansion of it in ``caller``."""
        function = self.program.function(name)
        if not function.inline:
            return [frozenset([function.entry_pc])]
        expansions: dict[tuple[int, int], set[int]] = {}
        for pc, levels in enumerate(self._levels):
            for level in levels:
                outer = level.names[:-1]
                if level.names[-1] == name and (not caller or caller in outer):
                    expansions.setdefault(level.instance, set()).add(pc)
        return [frozenset(pcs) for pcs in expansions.values()]

    def _calls(self, anchor: Anchor) -> list[frozenset[int]]:
        self._check_function(anchor.thing, anchor)
        called = self.program.function(anchor.thing)
        if called.inline:
            found = self._function(anchor.thing, anchor.function)
            return [pcs for pcs in found if min(pcs) < called.entry_pc or min(pcs) >= called.end_pc]
        return self._matching(
            anchor, lambda pc, _: self._ops[pc] == Op.CALL and int(self._rows[pc, F_C]) == called.index
        )

    def _lines(self, anchor: Anchor) -> list[frozenset[int]]:
        matching: dict[tuple[str, int], bool] = {}
        groups: dict[tuple[tuple[int, int], str, int], set[int]] = {}
        for pc, levels in enumerate(self._levels):
            for level in levels:
                key = (level.file, level.line)
                if key not in matching:
                    matching[key] = anchor.thing in " ".join(self._line_text(*key).split())
                if matching[key] and (not anchor.function or anchor.function in level.names):
                    groups.setdefault((level.instance, *key), set()).add(pc)
        lines = sorted({(file, line) for _, file, line in groups})
        if len(lines) > 1:
            listed = ", ".join(f"{file}:{line}" for file, line in lines[:4])
            raise AnchorError(
                f"{quoted(anchor.text)} matches {len(lines)} lines ({listed}): give more of the text, "
                "or the function"
            )
        return [frozenset(pcs) for pcs in groups.values()]

    # --- groups -------------------------------------------------------------------------------------
    def _group(self, pcs: frozenset[int]) -> Group:
        following: set[int] = set()
        for pc in pcs:
            following |= self._following(pc)
        returns = any(self._ops[pc] == Op.RET for pc in pcs)
        return Group(pcs, frozenset(following - pcs), returns)

    def _following(self, pc: int) -> set[int]:
        op = self._ops[pc]
        target = int(self._rows[pc, F_AUX])
        if op == Op.JMP:
            return {target}
        if op in _BRANCHES:
            return {target, pc + 1}
        if op in (Op.RET, Op.BUG):
            return set()
        return {pc + 1}

    # --- complaints ---------------------------------------------------------------------------------
    def _nothing(self, anchor: Anchor) -> AnchorError:
        where = f" in {anchor.function}" if anchor.function else " in the program"
        near = ""
        if anchor.kind == Kind.LINE or anchor.kind in (Kind.LOAD, Kind.STORE):
            near = self._near_lines(anchor)
        elif anchor.kind == Kind.OPERATION and anchor.function:
            near = self._near_operations(anchor)
        elif anchor.kind == Kind.COUNT:
            near = self._where_counted(anchor)
        elif anchor.kind == Kind.CALL:
            near = self._near_callers(anchor)
        elif anchor.kind == Kind.RETURN and self.program.function(anchor.function).inline:
            near = f": it is expanded in place; write after call of {anchor.function}"
        what = anchor.place.rpartition(", ")[2]
        return AnchorError(f"{quoted(anchor.text)}: there is no place {quoted(what)}{where}{near}")

    def _near_lines(self, anchor: Anchor) -> str:
        lines: set[str] = set()
        for levels in self._levels:
            lines.update(
                " ".join(self._line_text(level.file, level.line).split())
                for level in levels
                if not anchor.function or anchor.function in level.names
            )
        near = get_close_matches(anchor.thing, sorted(lines), n=1, cutoff=0.4)
        return f"; near is {quoted(near[0])}" if near else ""

    def _near_operations(self, anchor: Anchor) -> str:
        """Other operations of the function, and other functions with the operation."""
        here, elsewhere = [], set()
        for name in OPERATIONS:
            other = Anchor("", Kind.OPERATION, When.BEFORE, thing=name)
            for pc in range(self.program.micro_ops):
                if self._is_operation(pc, other):
                    if self._belongs(pc, anchor.function) and name not in here:
                        here.append(name)
                    if name == anchor.thing:
                        elsewhere.add(self._levels[pc][-1].names[-1])
        found = f"; it has {', '.join(here)}" if here else ""
        if elsewhere:
            found += f"; {anchor.thing} is in {', '.join(sorted(elsewhere)[:6])}"
        return found

    def _where_counted(self, anchor: Anchor) -> str:
        everywhere = self._counts(Anchor("", Kind.COUNT, When.BEFORE, thing=anchor.thing))
        functions = sorted({self._levels[min(pcs)][-1].names[-1] for pcs in everywhere})
        return f"; it is counted in {', '.join(functions[:6])}" if functions else "; nothing counts it"

    def _near_callers(self, anchor: Anchor) -> str:
        plain = Anchor("", Kind.CALL, When.BEFORE, thing=anchor.thing)
        callers = sorted({self._levels[min(pcs)][-1].names[-1] for pcs in self._calls(plain)})
        return f"; {anchor.thing} is called in {', '.join(callers[:6])}" if callers else "; nobody calls it"
