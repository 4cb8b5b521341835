"""Per-slab numbers that the slab map needs, computed once per snapshot off the UI thread.

Pads the ragged object states of a SlabTable to a rectangle and counts the objects of each
state, so that painting only looks colours up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.model.snapshot import ByteArray, IntArray, ObjectState, SlabState, SlabTable

#: State of the cells beyond a slab's last object.
NO_OBJECT = 3
#: Frame code: SlabState, and these flags; NO_SLAB is an unused place in a grid.  A slab on a CPU's chain of
#: partial slabs is frozen too, but only a CPU's own slab has the frozen flag.
FROZEN_FLAG = 4
LOCKED_FLAG = 8
CHAINED_FLAG = 16
NO_SLAB = 32


@dataclass(frozen=True)
class SlabSummary:
    """Rectangular view of a SlabTable; S slabs of at most N objects.

    Attributes
    ----------
    states : (S, N) uint8
        ObjectState, or NO_OBJECT behind a slab's last object.
    objects : (S,) int64
        Objects of each slab.
    allocated, cpu_free : (S,) int64
        Objects of each slab in that state.
    frame : (S,) uint8
        How full and in whose hands: see FROZEN_FLAG and the other flags.
    """

    states: ByteArray
    objects: IntArray
    allocated: IntArray
    cpu_free: IntArray
    frame: ByteArray

    @property
    def slabs(self) -> int:
        return int(self.states.shape[0])

    @property
    def objects_per_slab(self) -> int:
        return int(self.states.shape[1])


def summarise(table: SlabTable) -> SlabSummary:
    """Count and pad the objects of every slab; see SlabSummary."""
    objects = np.diff(table.first_object)
    widest = max(int(objects.max()) if objects.size else 1, 1)
    if objects.size and bool((objects == widest).all()):
        first = int(table.first_object[0])
        states = table.object_state[first : first + objects.size * widest].reshape(objects.size, widest)
    else:
        states = np.full((objects.size, widest), NO_OBJECT, dtype=np.uint8)
        states[_inside(objects, widest)] = table.object_state[
            int(table.first_object[0]) : int(table.first_object[-1])
        ]
    return SlabSummary(
        states=states,
        objects=objects,
        allocated=np.count_nonzero(states == int(ObjectState.ALLOCATED), axis=1).astype(np.int64),
        cpu_free=np.count_nonzero(states == int(ObjectState.CPU_FREE), axis=1).astype(np.int64),
        frame=_frame_codes(table),
    )


def _inside(objects: IntArray, widest: int) -> NDArray[np.bool_]:
    # Which cells of the rectangle are objects.
    return np.arange(widest)[None, :] < objects[:, None]


def _frame_codes(table: SlabTable) -> ByteArray:
    code = np.minimum(table.state, int(SlabState.FULL)).astype(np.uint8)
    chained = table.on_cpu_partial >= 0
    code += (table.frozen & ~chained).astype(np.uint8) * np.uint8(FROZEN_FLAG)
    code += chained.astype(np.uint8) * np.uint8(CHAINED_FLAG)
    code += table.locked.astype(np.uint8) * np.uint8(LOCKED_FLAG)
    return code
