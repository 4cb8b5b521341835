"""Vectorised reads of what SLAB keeps in page memory: the slabs' structures and their chains.

Struct slab and its chain lie in pages, not in static memory, so they are found through the page frame
table.  Works at any moment; what cannot be read is reported, not raised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.machine import Machine
from slubviz.hw.memory import WORD_SHIFT
from slubviz.model.booted import BootedKernel
from slubviz.model.families.slab_geometry import BUFCTL_BYTES

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

#: What a chain of free objects can be besides sound, in the place of its length.
CHAIN_OUTSIDE = -1
CHAIN_TWICE = -2
CHAIN_UNREADABLE = -3


def read_words(machine: Machine, addresses: IntArray, size_bytes: int) -> tuple[IntArray, BoolArray]:
    """Values at many addresses at once.

    Parameters
    ----------
    machine : the machine
    addresses : byte addresses, any shape
    size_bytes : 4 or 8; values of 4 bytes are zero-extended

    Returns
    -------
    (values, whether there is such a word), both of the shape of ``addresses``; values are 0 where there is
    none.
    """
    state = machine.state
    shift = int(state[L.H_PAGE_SHIFT])
    frame = addresses >> shift
    sound = (frame > 0) & (frame < int(state[L.H_PAGE_FRAMES])) & (addresses & (size_bytes - 1) == 0)
    entry = state[int(state[L.H_FRAMES]) + np.where(sound, frame, 0)]
    sound &= (entry != 0) & (entry & L.FRAME_GRANULE_MASK == WORD_SHIFT)
    offset = addresses & ((1 << shift) - 1)
    word = state[np.where(sound, (entry >> L.FRAME_SLOT_SHIFT) + (offset >> WORD_SHIFT), 0)]
    if size_bytes == 4:
        word = word >> np.where(addresses & 4, 32, 0) & 0xFFFFFFFF
    return np.where(sound, word, 0), sound


def read_slab_structs(kernel: BootedKernel, addresses: IntArray) -> tuple[dict[str, IntArray], BoolArray]:
    """The scalar fields of many struct slabs.

    Returns
    -------
    (field -> its values, whether the structure can be read), arrays of the shape of ``addresses``
    """
    fields = kernel.program.struct("slab").fields
    readable = np.ones(len(addresses), dtype=np.bool_)
    values = {}
    for name in ("colouroff", "s_mem", "inuse", "free", "nodeid"):
        values[name], sound = read_words(
            kernel.machine, addresses + fields[name].offset_bytes, fields[name].size_bytes
        )
        readable &= sound
    return values, readable


def walk_chains(
    kernel: BootedKernel,
    addresses: IntArray,
    heads: IntArray,
    states: NDArray[np.uint8],
    unseen: int,
    mark: int,
) -> IntArray:
    """Follow the chain of free objects of every slab and mark its objects.

    Parameters
    ----------
    addresses : of the struct slabs, shape (S,)
    heads : index of each chain's first object, shape (S,)
    states : shape (S, objects); ``unseen`` where nothing is known of an object yet
    mark : written for each object that is on its slab's chain

    Returns
    -------
    Length of each chain, shape (S,); or negative: CHAIN_OUTSIDE an index is not of the slab, CHAIN_TWICE an
    object is met twice, CHAIN_UNREADABLE.
    """
    end = kernel.program.constants["BUFCTL_END"]
    first = addresses + kernel.program.struct("slab").size_bytes
    lengths = np.zeros(len(addresses), dtype=np.int64)
    objects = states.shape[1]
    current = heads.copy()
    rows = np.flatnonzero(current != end)
    while len(rows):
        outside = current[rows] >= objects
        lengths[rows[outside]] = CHAIN_OUTSIDE
        rows = rows[~outside]
        twice = states[rows, current[rows]] != unseen
        lengths[rows[twice]] = CHAIN_TWICE
        rows = rows[~twice]
        states[rows, current[rows]] = mark
        lengths[rows] += 1
        following, sound = read_words(
            kernel.machine, first[rows] + BUFCTL_BYTES * current[rows], BUFCTL_BYTES
        )
        current[rows] = following
        lengths[rows[~sound]] = CHAIN_UNREADABLE
        rows = rows[sound & (following != end)]
    return lengths
