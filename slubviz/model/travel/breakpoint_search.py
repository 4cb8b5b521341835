"""Breakpoints as one search: what the engine is asked, and what is said at a hit."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial

import numpy as np

from slubviz.hw import layout as L
from slubviz.hw import search_codes as W
from slubviz.hw.isa import F_B, F_C, F_OP, WORDS, CpuState, Op
from slubviz.hw.machine import IntArray
from slubviz.hw.search_engine import Question, Term
from slubviz.model.errors import RequestError
from slubviz.model.lang import Program
from slubviz.model.session import Session
from slubviz.model.travel.activity import ALLOCATING, FREEING
from slubviz.model.travel.breakpoints import (
    Breakpoint,
    BreakpointKind,
    Comparison,
    Condition,
    marked_micro_ops,
)
from slubviz.model.travel.finder import Finder, Hit, Progress
from slubviz.model.travel.hit_texts import place_text
from slubviz.model.travel.recording import Recording
from slubviz.model.travel.slab_states import SlabTracker, Sought
from slubviz.model.travel.variables import variable_table, variables_at
from slubviz.model.travel.watched import exists, masked

_COMPARISONS = {
    "==": W.EQUAL,
    "!=": W.NOT_EQUAL,
    "<": W.LESS,
    "<=": W.LESS_EQUAL,
    ">": W.GREATER,
    ">=": W.GREATER_EQUAL,
}


class BreakpointSearch:
    """The enabled ones of some breakpoints; the trigger of each is its place among them.

    Raises
    ------
    RequestError
        If there is none, or one names memory that does not exist.
    """

    def __init__(self, session: Session, breakpoints: Iterable[Breakpoint]) -> None:
        self._session = session
        self._points = [point for point in breakpoints if point.enabled]
        if not self._points:
            raise RequestError("no breakpoint is set and turned on: add one first")
        self._triggers: list[list[Term]] = []
        self._variables: list[IntArray] = []
        self._marks: dict[int, list[int]] = {}
        self._columns: list[tuple[int, int]] = []
        self._words: list[tuple[int, int, int]] = []
        self._sought: dict[int, Sought] = {}
        for number, point in enumerate(self._points):
            self._triggers.append([self._term(c) for c in point.condition.comparisons])
            self._add(number, point)

    def finder(
        self, recording: Recording, stop: threading.Event | None = None, progress: Progress | None = None
    ) -> Finder:
        """Looks for them."""
        tracker, triggers = None, self._triggers
        if self._sought:
            tracker = SlabTracker(self._session.shown_cache(), self._sought, len(triggers))
            triggers = [*triggers, []]
        question = Question(
            columns=self._columns,
            words=self._words,
            triggers=triggers,
            variables=self._variables,
            marks=self._marks,
        )
        only_counters = not (self._marks or self._words or self._sought)
        counters = [column for column, _ in self._columns] if only_counters else None
        return Finder(recording, question, tracker=tracker, counters=counters, stop=stop, progress=progress)

    def describe(self, hit: Hit) -> tuple[str, int]:
        """Text of a hit at the cursor, and the number of its breakpoint."""
        point = self._points[hit.cause]
        where = f": CPU {hit.cpu} in {place_text(self._session, hit.cpu)}" if hit.cpu >= 0 else ""
        return f"Breakpoint {point.number}, {point.text()}{where}", point.number

    # --- what each kind asks ----------------------------------------------------------------------
    def _add(self, number: int, point: Breakpoint) -> None:
        program = self._session.booted.program
        match point.kind:
            case BreakpointKind.LINE | BreakpointKind.FUNCTION:
                self._mark(number, marked_micro_ops(point, program))
            case BreakpointKind.COUNTER:
                self._columns.append((counter_column(program, point.name), number))
            case BreakpointKind.CONTENTION:
                self._columns.append((L.N_LOCKS_CONTENDED, number))
                if point.address is not None:
                    waits = Term(W.SUBJECT_CPU_WORD, L.C_WAIT_ADDRESS, W.EQUAL, point.address)
                    self._triggers[number].append(waits)
            case BreakpointKind.WORD:
                assert point.address is not None
                if not exists(self._session.booted, point.address):
                    raise RequestError(f"{point.text()}: there is no memory at {point.address:#x}")
                words = masked(point.address, point.size_bytes)
                self._words += [(address, mask, number) for address, mask in words]
            case BreakpointKind.SLAB_STATE:
                holds = partial(condition_holds, self._session, point.condition)
                self._sought[number] = Sought(point.page_frame, point.name, holds)
            case BreakpointKind.OBJECT:
                self._mark_object(number, point)

    def _mark(self, number: int, pcs: Iterable[int]) -> None:
        for pc in pcs:
            self._marks.setdefault(pc, []).append(number)

    def _mark_object(self, number: int, point: Breakpoint) -> None:
        """The object is in a register at the entry of the function, or at its return."""
        assert point.address is not None
        program = self._session.booted.program
        places = object_returns(program) if point.name == "allocated" else object_entries(program)
        if not places:
            raise RequestError(f"{point.text()}: this kernel has none of the functions that do that")
        registers = np.full((program.micro_ops, 2), W.IS_UNKNOWN, dtype=np.int64)
        for pc, register in places.items():
            registers[pc] = (register, 0)
        self._variables.append(registers.reshape(-1))
        self._triggers[number].append(
            Term(W.SUBJECT_VARIABLE, len(self._variables) - 1, W.EQUAL, point.address)
        )
        self._mark(number, places)

    def _term(self, comparison: Comparison) -> Term:
        how = _COMPARISONS[comparison.comparison]
        if comparison.subject == "cpu":
            return Term(W.SUBJECT_CPU, 0, how, comparison.value)
        if comparison.subject == "depth":
            return Term(W.SUBJECT_CPU_WORD, L.C_IRQ_DEPTH, how, comparison.value)
        if comparison.register is not None:
            return Term(W.SUBJECT_REGISTER, comparison.register, how, comparison.value)
        self._variables.append(variable_table(self._session.booted.program, comparison.subject))
        return Term(W.SUBJECT_VARIABLE, len(self._variables) - 1, how, comparison.value)


def counter_column(program: Program, name: str) -> int:
    """Column of a counter of the program or of the machine."""
    if name in program.counters:
        return L.HARDWARE_COUNTERS + program.counters.index(name)
    return next(column for column, known in L.HARDWARE_COUNTER_NAMES.items() if known == name)


def object_entries(program: Program) -> dict[int, int]:
    """First micro-ops of the functions that free an object, with the register that holds it."""
    found = {}
    for function in program.functions:
        register = FREEING.get(function.name)
        if register is not None and register < len(function.params) and not function.inline:
            found[function.entry_pc] = register
    return found


def object_returns(program: Program) -> dict[int, int]:
    """Returns of the functions that allocate an object, with the register that holds it.

    A function that only passes on what another one of them returned is left out.
    """
    rows = program.code.reshape(-1, WORDS)
    numbers = {f.index for f in program.functions if f.name in ALLOCATING and not f.inline}
    found = {}
    for number in sorted(numbers):
        function = program.functions[number]
        for pc in range(function.entry_pc, function.end_pc):
            before = rows[pc - 1]
            passed_on = pc > function.entry_pc and before[F_OP] == Op.CALL and before[F_C] in numbers
            if rows[pc, F_OP] == Op.RET and rows[pc, F_B] >= 0 and not passed_on:
                found[pc] = int(rows[pc, F_B])
    return found


def condition_holds(session: Session, condition: Condition, cpu: int) -> bool:
    """Whether a condition holds for a CPU at the cursor."""
    return all(_holds(session, comparison, cpu) for comparison in condition.comparisons)


def _holds(session: Session, comparison: Comparison, cpu: int) -> bool:
    value = _subject(session, comparison, cpu)
    if value is None:
        return False
    wanted = comparison.value
    return {
        "==": value == wanted,
        "!=": value != wanted,
        "<": value < wanted,
        "<=": value <= wanted,
        ">": value > wanted,
        ">=": value >= wanted,
    }[comparison.comparison]


def _subject(session: Session, comparison: Comparison, cpu: int) -> int | None:
    machine, program = session.machine, session.booted.program
    if comparison.subject == "cpu":
        return cpu
    if comparison.subject == "depth":
        return machine.cpu_word(cpu, L.C_IRQ_DEPTH)
    if machine.cpu_word(cpu, L.C_STATE) == CpuState.HALTED:
        return None
    window = machine.cpu_word(cpu, L.C_WINDOW)
    if comparison.register is not None:
        return int(machine.state[window + comparison.register])
    variable = variables_at(program, machine.cpu_word(cpu, L.C_PC)).get(comparison.subject)
    if variable is None:
        return None
    return variable.value + (int(machine.state[window + variable.register]) if variable.register >= 0 else 0)
