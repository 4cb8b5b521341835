"""Loops that execute one micro-op at a time and look at the state between.

Such a loop gets the engine as an argument and calls it through a pointer.  Called by name it would be
compiled into every loop once more, which takes seconds each time; the pointer costs some nanoseconds a
micro-op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types

from slubviz.hw.engine import run
from slubviz.hw.jit import jit_enabled, njit
from slubviz.hw.layout import H_TREE
from slubviz.hw.machine import plain_engine

INT = types.int64
ARRAY = types.Array(types.int64, 1, "C")
#: The engine as an argument: (state, code, parameters, micro-op limit, millicycle limit) -> status.
ENGINE = types.FunctionType(INT(ARRAY, ARRAY, ARRAY, INT, INT))

#: What a loop is given as its engine.  Made once: making one of a jitted function at each call takes longer
#: than a thousand micro-ops.
_compiled: Any = run
STEP: Any = (
    types.CompileResultWAP(_compiled.get_compile_result(ENGINE.signature)) if jit_enabled else plain_engine
)


def stepping_loop(*more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a loop ``(step, S, code, P, limit, *more) -> int64``.

    Parameters
    ----------
    more : numba types of further arguments, ``ARRAY`` or ``INT``
    """
    return njit(INT(ENGINE, ARRAY, ARRAY, ARRAY, INT, *more))


@njit("int64(int64[::1])", internal=True)
def next_cpu(S):
    """The CPU that executes the next micro-op, as far as can be said before it is executed."""
    return S[S[H_TREE] + 1]
