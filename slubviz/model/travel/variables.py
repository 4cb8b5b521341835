"""Which variables there are at a micro-op, and where: as tables for a search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.search_codes import IS_CONSTANT, IS_UNKNOWN
from slubviz.model.lang import Program, Variable
from slubviz.model.travel.code_places import code_places


def variables_at(program: Program, pc: int) -> dict[str, Variable]:
    """The variables that a micro-op can see, by name: the innermost inlined function's hide others."""
    chain = (-1, *code_places(program).chain(pc))
    seen = [v for v in program.function_at(pc).variables if v.first_pc <= pc < v.end_pc and v.site in chain]
    seen.sort(key=lambda variable: chain.index(variable.site))
    return {variable.name: variable for variable in seen}


def variable_table(program: Program, name: str) -> NDArray[np.int64]:
    """Register and number to add at each micro-op, flat; ``IS_UNKNOWN`` where there is no such variable."""
    table = np.zeros((program.micro_ops, 2), dtype=np.int64)
    table[:, 0] = IS_UNKNOWN
    found = [(v, f) for f in program.functions for v in f.variables if v.name == name]
    for pc in sorted({pc for v, _ in found for pc in range(v.first_pc, v.end_pc)}):
        variable = variables_at(program, pc).get(name)
        if variable is not None:
            register = IS_CONSTANT if variable.register < 0 else variable.register
            table[pc] = (register, variable.value)
    return table.reshape(-1)
