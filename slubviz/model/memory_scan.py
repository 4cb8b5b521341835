"""Jitted walks over freelists in a machine's memory, for snapshots and checks."""

from __future__ import annotations

from slubviz.hw.jit import njit
from slubviz.hw.memory import word_index

#: What a negative result of ``walk_freelist`` means: a freelist that ...
WALK_ERRORS = {
    -1: "leads out of the slab or is misaligned",
    -2: "holds an object twice, or one that another list holds",
    -3: "cannot be read",
    -4: "does not end in the slab's own end",
}


@njit("int64(int64[::1], int64, int64)")
def read_pointer(S, address, word_bytes):
    """The pointer at an address, -1 if nothing is stored there."""
    index = word_index(S, address & ~7, 8, 0)
    if index < 0 or address & (word_bytes - 1):
        return -1
    if word_bytes == 8:
        return S[index]
    return (S[index] >> (32 if address & 4 else 0)) & 0xFFFFFFFF


@njit("int64(int64[::1], int64, int64, int64, int64, int64, int64, uint8[::1], int64)")
def walk_freelist(S, head, end, base, size, count, word_bytes, state, mark):
    """Follow a freelist from ``head`` and mark its objects.

    Parameters
    ----------
    head : first object, or an end (NULL, or any value with bit 0 set)
    end : the end that this slab's lists must have
    base, size, count : address of the slab's first object, object size, objects
    state : uint8, shape (count,): what is known of the objects; 2 is "not seen yet"
    mark : written for each object of this list

    Returns
    -------
    Length of the list; or negative: -1 leaves the slab or is misaligned, -2 an object is met twice, -3
    unreadable, -4 ends in another value than ``end``.
    """
    length = 0
    object_address = head
    while object_address != 0 and object_address & 1 == 0:
        offset = object_address - base
        if offset < 0 or offset >= size * count or offset % size != 0:
            return -1
        index = offset // size
        if state[index] != 2:
            return -2
        state[index] = mark
        length += 1
        following = read_pointer(S, object_address, word_bytes)
        if following == -1:
            return -3
        object_address = following
    if object_address != end:
        return -4
    return length


@njit(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, int64, uint8[::1],"
    " int64[::1], int64)"
)
def walk_freelists(S, heads, ends, bases, counts, offsets, size, word_bytes, states, lengths, mark):
    """``walk_freelist`` for every slab of a cache.

    Parameters
    ----------
    heads, ends, bases, counts : int64, shape (S,)
    offsets : int64, shape (S,): where a slab's objects start in ``states``
    states : uint8, all objects end to end
    lengths : int64, shape (S,): receives the result per slab
    """
    for i in range(len(heads)):
        first = offsets[i]
        lengths[i] = walk_freelist(
            S,
            heads[i],
            ends[i],
            bases[i],
            size,
            counts[i],
            word_bytes,
            states[first : first + counts[i]],
            mark,
        )


@njit("int64(int64[::1], int64, int64, int64, int64[::1])")
def walk_list(S, head, word_bytes, strict, out):
    """Entries of a circular list of list_heads, into ``out``.

    With ``strict`` back pointers are checked.  Without, the list may be in the middle of a change: an entry
    is put in and taken out so that the forward chain is whole at every moment.

    Returns the length; -1 if a pointer is wrong, -2 if it does not come back to its head within len(out)
    entries.
    """
    count = 0
    previous = head
    entry = read_pointer(S, head, word_bytes)
    while entry != head:
        if count >= len(out):
            return -2
        if strict and read_pointer(S, entry + word_bytes, word_bytes) != previous:
            return -1
        out[count] = entry
        count += 1
        previous = entry
        entry = read_pointer(S, entry, word_bytes)
        if entry <= 0:
            return -1
    if strict and read_pointer(S, head + word_bytes, word_bytes) != previous:
        return -1
    return count
