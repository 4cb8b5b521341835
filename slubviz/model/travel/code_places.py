"""Where each micro-op of a program lies, as tables: source line, inlined function, and where lines begin.

A *place* is a source line within one inlined function (or within none) of one function: two micro-ops of the
same place belong together for somebody who steps by lines.  An inlined function has a place of its own for
each place that it is called from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.isa import F_AUX, F_OP, WORDS, Op
from slubviz.model.lang import Program

IntArray = NDArray[np.int64]
_JUMPS = range(int(Op.JMP), int(Op.BGEI) + 1)
_NO_FOLLOWER = {int(Op.JMP), int(Op.RET), int(Op.BUG)}


class CodePlaces:
    """The tables of one program.

    Attributes
    ----------
    place : for each micro-op, shape (n,)
    site : its innermost inlined function, -1 for none
    parents : of each inlined function, the one around it, -1 for none
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._numbers: dict[tuple[int, int, int, int], int] = {}
        self._file_index = {name: i for i, name in enumerate(program.files)}
        self.parents: IntArray = np.array([site.parent for site in program.inline_sites], dtype=np.int64)
        self.site: IntArray = program.inline_site.astype(np.int64)
        self._function = np.zeros(program.micro_ops, dtype=np.int64)
        for function in program.functions:
            self._function[function.entry_pc : function.end_pc] = function.index
        self.place: IntArray = np.array(
            [
                self._number(int(span[0]), int(span[1]), int(self.site[pc]), int(self._function[pc]))
                for pc, span in enumerate(program.spans)
            ],
            dtype=np.int64,
        )
        self._chains = [self._chain(site) for site in range(len(self.parents))]
        self._followed: list[list[int]] = [[] for _ in range(program.micro_ops)]
        self._find_predecessors()
        #: place -> its micro-ops, those of inlined functions that are called there included
        self._members: defaultdict[int, set[int]] = defaultdict(set)
        for pc in range(program.micro_ops):
            for depth in range(len(self.chain(pc)) + 1):
                self._members[self.place_from(pc, depth)].add(pc)

    def _number(self, file: int, line: int, site: int, function: int) -> int:
        return self._numbers.setdefault((file, line, site, function), len(self._numbers))

    def _chain(self, site: int) -> tuple[int, ...]:
        """An inlined function and those around it, the outermost first."""
        chain: list[int] = []
        while site >= 0:
            chain.append(site)
            site = int(self.parents[site])
        return tuple(reversed(chain))

    def chain(self, pc: int) -> tuple[int, ...]:
        """The inlined functions that a micro-op is part of, the outermost first."""
        site = int(self.site[pc])
        return self._chains[site] if site >= 0 else ()

    def frame_site(self, pc: int, depth: int) -> int:
        """The inlined function around a micro-op that is ``depth`` deep (1 is the outermost); -1 for none."""
        chain = self.chain(pc)
        return chain[depth - 1] if 1 <= depth <= len(chain) else -1

    def place_from(self, pc: int, depth: int) -> int:
        """The place for somebody who does not look deeper into inlined functions: that of the call there."""
        chain = self.chain(pc)
        if len(chain) <= depth:
            return int(self.place[pc])
        call = self._program.inline_sites[chain[depth]].call
        around = chain[depth - 1] if depth else -1
        return self._number(self._file_index[call.file], call.line, around, int(self._function[pc]))

    @lru_cache(maxsize=16)  # noqa: B019 - lives as long as the program does
    def table(self, depth: int) -> IntArray:
        """What ``slubviz.hw.search`` takes, with inlined functions down to a depth as the deepest frame."""
        pcs = range(self._program.micro_ops)
        return np.concatenate(
            [
                self.place,
                np.array([self.place_from(pc, depth) for pc in pcs], dtype=np.int64),
                np.array([max(len(self.chain(pc)) - depth, 0) for pc in pcs], dtype=np.int64),
                np.array([self.frame_site(pc, depth) for pc in pcs], dtype=np.int64),
                self.site,
            ]
        )

    # --- where something begins ------------------------------------------------------------------
    def _find_predecessors(self) -> None:
        rows = self._program.code.reshape(-1, WORDS)
        for function in self._program.functions:
            for pc in range(function.entry_pc, function.end_pc):
                op = int(rows[pc, F_OP])
                if op in _JUMPS:
                    self._followed[int(rows[pc, F_AUX])].append(pc)
                if op not in _NO_FOLLOWER and pc + 1 < function.end_pc:
                    self._followed[pc + 1].append(pc)

    def line_starts(self, file: str, line: int) -> list[int]:
        """Micro-ops with which a source line begins: reached from elsewhere than from the line itself.

        Inlined functions that the line calls belong to it.  So a line may begin with a micro-op of one, and
        coming back from a call is no beginning.
        """
        return sorted({pc for place in self._places_of((file, line)) for pc in self._beginnings(place)})

    def lines(self, file: str) -> list[int]:
        """The lines of a file that are executed, ascending."""
        index = self._file_index.get(file, -1)
        return sorted({key[1] for key in self._numbers if key[0] == index})

    def _places_of(self, line: tuple[str, int]) -> list[int]:
        wanted = (self._file_index.get(line[0], -1), line[1])
        return [place for key, place in self._numbers.items() if key[:2] == wanted]

    def _beginnings(self, place: int) -> Iterable[int]:
        members = self._members[place]
        for pc in members:
            before = self._followed[pc]
            if not before or any(other not in members for other in before):
                yield pc

    def site_starts(self, function: int) -> list[int]:
        """Micro-ops with which the inlined copies of a function begin."""
        sites = [i for i, site in enumerate(self._program.inline_sites) if site.function == function]
        return sorted(pc for site in sites for pc in self._starts_of(site))

    def _starts_of(self, site: int) -> Iterable[int]:
        for pc in range(self._program.micro_ops):
            before = self._followed[pc]
            if site in self.chain(pc) and (not before or any(site not in self.chain(o) for o in before)):
                yield pc


@lru_cache(maxsize=4)
def code_places(program: Program) -> CodePlaces:
    """The tables of a program."""
    return CodePlaces(program)
