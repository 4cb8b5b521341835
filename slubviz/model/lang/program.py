"""What the compiler delivers: micro-ops, and all that a loader, a viewer and a test know of them.

Everything is read-only and built in one order: the same files, target and options give the same program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slubviz.model.lang.types import Type
from slubviz.model.snapshot import SourceSpan

__all__ = [
    "Field",
    "Function",
    "Global",
    "InlineSite",
    "Option",
    "Program",
    "SourceSpan",
    "Struct",
    "Target",
    "Variable",
]


@dataclass(frozen=True)
class Target:
    """The machine a program is compiled for."""

    word_bytes: int  #: 8 or 4: size of ptr and word
    constants: Mapping[str, int]  #: predefined names: PAGE_SIZE, NR_CPUS, NR_NODES, ...
    static_base: int  #: first address for globals
    line_bytes: int = 64  #: cache line; every global starts on one
    #: alignment and spacing of the elements of per-CPU and per-node globals; 0: cache lines.  A page lets
    #: each element lie in its own node's memory.
    element_align_bytes: int = 0


@dataclass(frozen=True)
class Field:
    """One field of a struct."""

    name: str
    offset_bytes: int
    size_bytes: int  #: of all elements together
    type: str  #: of one element, as written: "word", "ptr[page]", "list_head"
    count: int  #: elements; 1 if it is not an array
    shape: Type = field(repr=False)  #: the whole type


@dataclass(frozen=True)
class Struct:
    """The layout of a struct."""

    name: str
    size_bytes: int
    align: int  #: bytes
    fields: Mapping[str, Field]


@dataclass(frozen=True)
class Global:
    """A variable at a fixed address."""

    name: str
    address: int
    type: str  #: of one element
    size_bytes: int  #: of all elements, with the space between them
    count: int  #: elements: of the array, or one per CPU or node
    stride_bytes: int  #: from one element to the next
    per: str  #: "", "cpu" or "node"
    shape: Type = field(repr=False)  #: the whole type; of one element for per-CPU and per-node globals


@dataclass(frozen=True)
class Option:
    """A compile-time choice."""

    name: str
    value: int
    default: int
    doc: str


@dataclass(frozen=True)
class Variable:
    """Where a parameter or local lives, and over which micro-ops.

    ``register`` is -1 for an inlined function's parameter that is a constant, then ``value`` is that
    constant.  If ``register`` is not -1, the variable is ``register`` plus ``value`` (0 but for an
    inlined parameter like ``addressof(n.partial)``, which is never computed on its own).
    """

    name: str
    register: int
    type_name: str
    first_pc: int
    end_pc: int  #: exclusive
    site: int = -1  #: inline site whose frame it belongs to, -1 for the function's own
    value: int = 0


@dataclass(frozen=True)
class Function:
    """One function.  Inline functions have code of their own too, for whoever starts one directly."""

    name: str
    index: int
    entry_pc: int
    end_pc: int  #: exclusive
    params: tuple[str, ...]
    locals_count: int  #: registers for parameters, locals and temporaries
    window_words: int  #: locals_count and the room for callees' header and arguments
    variables: tuple[Variable, ...]
    file: str
    line: int
    inline: bool
    doc: str = ""


@dataclass(frozen=True)
class InlineSite:
    """One expansion of an inline function."""

    function: int  #: index of the function that was expanded
    call: SourceSpan  #: the call that was replaced
    caller: int  #: index of the function whose source holds that call
    parent: int  #: inline site that the call itself is part of, -1 for none


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled program.

    Attributes
    ----------
    code
        int32, shape ``(n * WORDS,)``: the micro-ops, see ``slubviz.hw.isa``.
    spans
        int32, shape ``(n, 6)``: file index, line, column, end line, end column (1-based, end
        exclusive), index of the function whose source it is (an inlined function's own).
    inline_site
        int32, shape ``(n,)``: index in ``inline_sites`` of the innermost expansion that the micro-op
        is part of, -1 for none.
    """

    code: NDArray[np.int32]
    spans: NDArray[np.int32]
    inline_site: NDArray[np.int32]
    inline_sites: tuple[InlineSite, ...]
    functions: tuple[Function, ...]
    structs: Mapping[str, Struct]
    globals: Mapping[str, Global]
    static_base: int
    static_end: int  #: first address after the globals
    counters: tuple[str, ...]  #: index = counter number
    bug_messages: tuple[str, ...]  #: index = message number
    options: Mapping[str, Option]
    constants: Mapping[str, int]  #: the program's own and the target's
    files: tuple[str, ...]  #: names, in file-index order
    sources: Mapping[str, str]  #: file name -> text
    target: Target
    _by_name: dict[str, Function] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {f.name: f for f in self.functions})

    @property
    def micro_ops(self) -> int:
        """Number of micro-ops."""
        return len(self.spans)

    def function(self, name: str) -> Function:
        """The function of that name.

        Raises
        ------
        KeyError
            If there is none.
        """
        return self._by_name[name]

    def struct(self, name: str) -> Struct:
        """The struct of that name.

        Raises
        ------
        KeyError
            If there is none.
        """
        return self.structs[name]

    def span(self, pc: int) -> SourceSpan:
        """The source of micro-op ``pc``: the expression it computes."""
        index, line, column, end_line, end_column, _ = (int(v) for v in self.spans[pc])
        return SourceSpan(self.files[index], line, column, end_line, end_column)

    def function_at(self, pc: int) -> Function:
        """The function whose code holds micro-op ``pc`` (not the inlined one; see ``inline_stack``).

        Raises
        ------
        IndexError
            If no function holds it.
        """
        low, high = 0, len(self.functions)
        while low < high:  # functions lie in index order
            middle = (low + high) // 2
            if self.functions[middle].end_pc <= pc:
                low = middle + 1
            else:
                high = middle
        if pc < 0 or low == len(self.functions):
            raise IndexError(f"no function holds micro-op {pc}")
        return self.functions[low]

    def inline_stack(self, pc: int) -> tuple[tuple[Function, SourceSpan], ...]:
        """The frames a viewer shows for micro-op ``pc``, outermost first.

        Each is a function and the place in it: the call for the outer ones, the executing expression
        for the innermost.  Without inlining there is one.
        """
        frames: list[tuple[Function, SourceSpan]] = []
        place = self.span(pc)
        site = int(self.inline_site[pc])
        while site >= 0:
            record = self.inline_sites[site]
            frames.append((self.functions[record.function], place))
            place, site = record.call, record.parent
        frames.append((self.function_at(pc), place))
        return tuple(reversed(frames))
