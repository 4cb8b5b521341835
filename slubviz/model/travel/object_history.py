"""Every allocation and free of one object over a run.

Found by running it again and looking at calls and returns of the functions that hand objects over.  An
allocation is at the return, a free at the call.  Left out: functions that a kernel file expands inline in its
callers, and objects that go from one function of the allocator to another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.isa import F_A, F_OP, WORDS, Op
from slubviz.hw.layout import MILLI
from slubviz.model.lang import Program
from slubviz.model.lang.program import Function
from slubviz.model.travel.activity import ALLOCATING, ENTRIES, FREEING

if TYPE_CHECKING:
    from slubviz.model.travel.recording import Recording

#: Micro-ops between two looks at the stop flag.
PIECE_MICRO_OPS = 200_000
#: Functions that fill or take an array: (which parameter is the number of objects, which the array).
ALLOCATING_MANY = {"kmem_cache_alloc_bulk": (2, 3)}
FREEING_MANY = {"kmem_cache_free_bulk": (1, 2)}
_WRITES_NOTHING = frozenset((Op.ST, Op.COUNT, Op.COUNT_N, Op.RET, Op.JMP, Op.UNLOCK, Op.UNLOCK_LOCKED))


@dataclass(frozen=True)
class ObjectEvent:
    """The object was handed out, or given back."""

    position: int  #: micro-ops; the micro-op that ends there returned it, or called to free it
    cycle: float  #: clock of its CPU
    cpu: int
    allocated: bool  #: False: freed
    function: str  #: kmalloc, kfree, kmem_cache_alloc_bulk, ...
    caller: str  #: function that called it
    in_interrupt: bool
    caller_file: str = ""
    caller_line: int = 0  #: of the call, from 1


def object_history(
    recording: Recording,
    address: int,
    stop: threading.Event | None = None,
    progress: Callable[[float], None] | None = None,
    first: int = 0,
) -> tuple[ObjectEvent, ...] | None:
    """All that was done with an object from a position to the recorded end; the cursor stays where it is.

    Parameters
    ----------
    address : the object's first byte
    stop : give up when it is set
    progress : called with the done share
    first : position, micro-ops

    Returns
    -------
    Events by position, or None if ``stop`` was set.
    """
    from slubviz.hw.tracing import CallFinder

    last = recording.end
    first = max(0, min(first, last))
    with recording.excursion() as session:
        if not recording.seek(first, stop=stop, prepare=False):
            return None
        program = session.booted.program
        cpus, word_bytes = session.machine_spec.cpus, program.target.word_bytes
        finder = CallFinder(function_kinds(program), address, word_bytes, cpus)
        while recording.position < last and not recording.over:
            if stop and stop.is_set():
                return None
            recording.run(min(last - recording.position, PIECE_MICRO_OPS), engine=finder.engine)
            if progress:
                progress((recording.position - first) / (last - first))
        return tuple(_event(program, row) for row in finder.calls().tolist() if not _is_part(program, row))


def function_kinds(program: Program) -> NDArray[np.int64]:
    """What each function does with objects, for ``CallFinder``; shape (functions, 3)."""
    from slubviz.hw import tracing as T

    kinds = np.zeros((len(program.functions), 3), dtype=np.int64)
    for function in program.functions:
        name, count = function.name, len(function.params)
        if name in ALLOCATING:
            kinds[function.index, 0] = T.T_RETURNS
        elif name in FREEING and FREEING[name] < count:
            kinds[function.index] = (T.T_TAKES, FREEING[name], 0)
        elif name in FREEING_MANY and max(FREEING_MANY[name]) < count:
            kinds[function.index] = (T.T_TAKES_MANY, *FREEING_MANY[name])
        elif name in ALLOCATING_MANY and _keeps(program, function, ALLOCATING_MANY[name]):
            kinds[function.index] = (T.T_RETURNS_MANY, *ALLOCATING_MANY[name])
    return kinds


def _keeps(program: Program, function: Function, params: tuple[int, ...]) -> bool:
    """Whether a function has these parameters, and their registers keep them until it returns."""
    if max(params) >= len(function.params):
        return False
    rows = program.code.reshape(-1, WORDS)[function.entry_pc : function.end_pc]
    written = {int(row[F_A]) for row in rows if Op(int(row[F_OP])) not in _WRITES_NOTHING}
    return not written & set(params)


def _is_part(program: Program, row: list[int]) -> bool:
    """Whether a bulk function did it on behalf of its own caller, for whom it counts."""
    call = row[4]
    if not 0 <= call < program.micro_ops:
        return False
    return program.function_at(call).name in {**ALLOCATING_MANY, **FREEING_MANY}


def _event(program: Program, row: list[int]) -> ObjectEvent:
    position, millicycles, cpu, function, call, depth = row
    name = program.functions[function].name
    caller, place = program.inline_stack(call)[-1] if 0 <= call < program.micro_ops else (None, None)
    return ObjectEvent(
        position=position,
        cycle=millicycles / MILLI,
        cpu=cpu,
        allocated=name in ALLOCATING or name in ALLOCATING_MANY,
        function=name,
        caller=caller.name if caller else "",
        in_interrupt=depth > 0,
        caller_file=place.file if place else "",
        caller_line=place.line if place else 0,
    )


assert set(ENTRIES) == {*ALLOCATING, *FREEING, *ALLOCATING_MANY, *FREEING_MANY}
