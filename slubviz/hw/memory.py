"""Word memory: from a byte address to the word that stores it, and the backing store.

Addresses are physical bytes.  A page frame table entry says where a page's words are and how many bytes
share one stored word (the granule): 8 bytes for pages of structures and small objects (every word is
stored), the object size rounded down to a power of two for larger objects, of which an allocator writes one
word.  A page with granules larger than a word stores, before each word, the offset it belongs to, so that a
program that writes a second word into a granule is told so.
"""

from __future__ import annotations

from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    FRAME_GRANULE_MASK,
    FRAME_NODE_MASK,
    FRAME_NODE_SHIFT,
    FRAME_SLOT_SHIFT,
    H_FRAMES,
    H_OWN_SLOTS,
    H_PAGE_FRAMES,
    H_PAGE_SHIFT,
    H_STORE,
    H_STORE_FREE,
    H_STORE_USED,
    H_STORE_WORDS,
)

WORD_SHIFT = 3
FAULT_NULL = -1
FAULT_ADDRESS = -2
FAULT_MISALIGNED = -3
FAULT_GRANULE = -4


@njit("int64(int64[::1], int64, int64, int64)")
def word_index(S, address, size, write):
    """Index in S of the word that stores ``address``, or a negative fault number.

    A granule's offset tag is set by the first write; reading a granule that was never written gives 0.
    """
    if address & (size - 1):
        return FAULT_MISALIGNED
    page_shift = S[H_PAGE_SHIFT]
    frame = address >> page_shift
    if frame <= 0 or frame >= S[H_PAGE_FRAMES]:
        return FAULT_NULL if frame == 0 else FAULT_ADDRESS
    entry = S[S[H_FRAMES] + frame]
    if entry == 0:
        return FAULT_ADDRESS  # a gap between the regions
    shift = entry & FRAME_GRANULE_MASK
    offset = address & ((1 << page_shift) - 1)
    if shift == WORD_SHIFT:
        return (entry >> FRAME_SLOT_SHIFT) + (offset >> WORD_SHIFT)
    slot = (entry >> FRAME_SLOT_SHIFT) + ((offset >> shift) << 1)
    tag = (offset >> WORD_SHIFT) + 1
    if S[slot] != tag:
        if S[slot] == 0:
            if write:
                S[slot] = tag
        else:
            return FAULT_GRANULE
    return slot + 1


@njit("int64(int64[::1], int64)", internal=True)
def chunk_words(S, shift):
    """Words that a page of this granule needs in the backing store."""
    count = 1 << (S[H_PAGE_SHIFT] - shift)
    return count if shift == WORD_SHIFT else 2 * count


@njit("int64(int64[::1], int64, int64)")
def set_page_granule(S, frame, shift):
    """Give a page storage for one word per ``1 << shift`` bytes; its old words are lost.

    0 done; 1 the backing store is full (nothing was changed).
    """
    page_shift = S[H_PAGE_SHIFT]
    entry_at = S[H_FRAMES] + frame
    entry = S[entry_at]
    old_shift = entry & FRAME_GRANULE_MASK
    old_slot = entry >> FRAME_SLOT_SHIFT
    shift = min(max(shift, WORD_SHIFT), page_shift)
    node_bits = entry & (FRAME_NODE_MASK << FRAME_NODE_SHIFT)
    if old_shift == shift:
        slot = old_slot
    else:
        if shift == page_shift:
            slot = S[H_OWN_SLOTS] + 2 * frame
        else:
            words = chunk_words(S, shift)
            slot = S[H_STORE_FREE + shift]
            if slot != 0:
                S[H_STORE_FREE + shift] = S[slot]
            else:
                if S[H_STORE_USED] + words > S[H_STORE_WORDS]:
                    return 1
                slot = S[H_STORE] + S[H_STORE_USED]
                S[H_STORE_USED] += words
        if old_shift != page_shift:
            S[old_slot] = S[H_STORE_FREE + old_shift]
            S[H_STORE_FREE + old_shift] = old_slot
    for i in range(chunk_words(S, shift)):
        S[slot + i] = 0
    S[entry_at] = (slot << FRAME_SLOT_SHIFT) | node_bits | shift
    return 0
