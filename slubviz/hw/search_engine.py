"""What is searched for, as the arrays that ``search`` takes, and an engine for ``Machine.run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slubviz.hw import search_codes as W
from slubviz.hw.isa import BREAK_BIT, F_OP, WORDS
from slubviz.hw.layout import NEVER
from slubviz.hw.machine import IntArray
from slubviz.hw.search import read_words, search
from slubviz.hw.stepping import STEP

#: Words of memory with masks and triggers: rows, or an array of shape (n, 3).
Words = Sequence[tuple[int, int, int]] | IntArray
_NOTHING: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Term:
    """A condition of a trigger: a subject (``SUBJECT_*``) compared with a number."""

    subject: int
    argument: int  #: register, or number of the variable among ``Question.variables``
    comparison: int  #: EQUAL, ...
    value: int


@dataclass(frozen=True, eq=False)
class Question:
    """What is searched for; see ``search``.  A trigger is named by its place in ``triggers``."""

    want: int = 0  #: bits WANT_*
    cpu: int = -1
    places: IntArray = field(default_factory=lambda: _NOTHING)  #: five numbers for each micro-op
    parents: IntArray = field(default_factory=lambda: _NOTHING)
    deepest_window: int = NEVER
    deepest_site: int = -1
    columns: Sequence[tuple[int, int]] = ()  #: counter, trigger
    words: Words = ()  #: address (a multiple of 8), mask, trigger
    locks: Sequence[tuple[int, int]] = ()  #: address, trigger; a hit when the number of waiters changes
    triggers: Sequence[Sequence[Term]] = ()  #: the conditions of each, all of which must hold
    variables: Sequence[IntArray] = ()  #: pairs (register, number to add) for each micro-op, flat
    marks: Mapping[int, Sequence[int]] = field(default_factory=dict)  #: micro-op -> triggers

    def and_words(self, words: Words) -> Question:
        """The same with further words of memory."""
        return replace(self, words=np.concatenate([_rows(self.words), _rows(words)]))


class SearchEngine:
    """Searches while a machine runs; see ``search``.

    Parameters
    ----------
    cpus : of the machine
    stop : stop at the first hit; else the last one is noted
    first, last : positions from .. to which hits count
    """

    def __init__(self, question: Question, cpus: int, *, stop: bool, first: int, last: int = NEVER) -> None:
        if not question.triggers:
            question = replace(question, triggers=((),))
        self._question = question
        self._cpus = cpus
        self._w: IntArray = np.zeros(W.W_CPU_ROWS + W.CPU_ROW * cpus, dtype=np.int64)
        tables = question.columns or len(question.words) or question.locks
        self._w[W.W_WANT] = question.want | (W.WANT_TABLES if tables else 0)
        self._w[W.W_STOP] = stop
        self._w[W.W_CPU] = question.cpu
        self._w[W.W_DEEPEST_WINDOW] = question.deepest_window
        self._w[W.W_DEEPEST_SITE] = question.deepest_site
        self._w[W.W_PCS] = len(question.places) // 5
        self._set_tables()
        self._marked_of: IntArray | None = None
        self._marked: IntArray = _NOTHING
        self.begin(first, last)

    def begin(self, first: int, last: int = NEVER) -> None:
        """Search again, wherever the machine is."""
        self._w[W.W_BEFORE] = -1
        self._w[W.W_RESTARTED] = self._w[W.W_EARLY] = self._w[W.W_HITS] = 0
        self.go_on(first, last)

    def go_on(self, first: int, last: int = NEVER) -> None:
        """Forget the hit; later ones count."""
        self._w[W.W_HIT] = -1
        self._w[W.W_FIRST], self._w[W.W_LAST] = first, last

    def watch(self, words: Words, state: IntArray) -> None:
        """Watch these words from now on in the place of all others, the state being that of the last hit."""
        self._question = replace(self._question, words=words)
        self._w[W.W_WANT] |= W.WANT_TABLES
        self._set_words()
        read_words(state, self._w, self._words)

    @property
    def hit(self) -> int:
        """Position of the hit, -1 for none."""
        return int(self._w[W.W_HIT])

    @property
    def hits(self) -> int:
        """Positions hit since ``begin``."""
        return int(self._w[W.W_HITS])

    @property
    def cause(self) -> int:
        """Of the hit: a trigger, or minus the bit that was wanted."""
        return int(self._w[W.W_CAUSE])

    @property
    def cpu(self) -> int:
        """The CPU that it happened to, -1 for none in particular."""
        return int(self._w[W.W_HIT_CPU])

    @property
    def changed(self) -> int:
        """Address of the listed word that changed last; 0 for none, SEVERAL for more at once."""
        return int(self._w[W.W_CHANGED])

    def engine(self, S: IntArray, code: IntArray, P: IntArray, limit: int, millicycle_limit: int) -> int:
        """For ``Machine.run``; returns BREAKPOINT at a hit, or just after it if the micro-op had begun."""
        if code is not self._marked_of:  # the first time, and after a change of an option
            self._marked_of, self._marked = code, code
            if self._question.marks:
                self._marked = code.copy()
                self._marked[np.array(list(self._question.marks)) * WORDS + F_OP] += BREAK_BIT
        with np.errstate(over="ignore"):
            return int(
                search(
                    STEP,
                    S,
                    self._marked,
                    P,
                    limit,
                    self._w,
                    self._question.places,
                    self._question.parents,
                    self._columns,
                    self._values,
                    self._words,
                    self._locks,
                    self._triggers,
                    self._terms,
                    self._variables,
                    self._marks,
                )
            )

    def _set_tables(self) -> None:
        question = self._question
        self._columns = _flat(question.columns)
        self._w[W.W_COLUMNS] = len(question.columns)
        self._values: IntArray = np.zeros(len(question.columns) * self._cpus, dtype=np.int64)
        self._set_words()
        self._locks = _flat([(address, 0, trigger) for address, trigger in question.locks])
        self._w[W.W_LOCKS] = len(question.locks)
        terms = [term for trigger in question.triggers for term in trigger]
        firsts = np.cumsum([0, *(len(trigger) for trigger in question.triggers)])
        self._triggers = _flat(
            [
                (int(first), len(trigger))
                for first, trigger in zip(firsts[:-1], question.triggers, strict=True)
            ]
        )
        starts = np.cumsum([0, *(len(table) for table in question.variables)])
        self._terms = _flat(
            [
                (
                    term.subject,
                    int(starts[term.argument]) if term.subject == W.SUBJECT_VARIABLE else term.argument,
                    term.comparison,
                    term.value,
                )
                for term in terms
            ]
        )
        self._variables: IntArray = np.concatenate([_NOTHING, *question.variables])
        self._marks = _mark_table(question.marks)

    def _set_words(self) -> None:
        words = _rows(self._question.words)
        words = words[np.argsort(words[:, 0], kind="stable")]
        self._w[W.W_WORDS] = len(words)
        self._words: IntArray = np.zeros(4 * len(words), dtype=np.int64)
        self._words.reshape(4, -1)[[0, 1, 3]] = words.T


def _rows(words: Words) -> IntArray:
    return np.asarray(words, dtype=np.int64).reshape(-1, 3)


def _flat(rows: Sequence[tuple[int, ...]]) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(-1)


def _mark_table(marks: Mapping[int, Sequence[int]]) -> IntArray:
    """See ``search``: heads for all micro-ops up to the last marked one, then the chains."""
    table = [-1] * (max(marks, default=-1) + 1)
    for pc, triggers in marks.items():
        for trigger in reversed(triggers):
            table += [trigger, table[pc]]
            table[pc] = len(table) - 2
    return np.array(table, dtype=np.int64)
