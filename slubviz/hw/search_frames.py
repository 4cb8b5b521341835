"""Where a CPU is in its program, for a search: which place, in which frame, and whether it has entered it."""

from __future__ import annotations

from slubviz.hw.isa import (
    FRAME_KIND,
    FRAME_RETURN_PC,
    FRAME_RETURN_WINDOW,
    KIND_FIRST,
    KIND_INTERRUPT,
)
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_PC,
    C_STATE,
    C_WINDOW,
    CPU_WORDS,
    H_CPU_BLOCKS,
)
from slubviz.hw.search_codes import (
    W_CAUSE,
    W_CPU,
    W_DEEPEST_SITE,
    W_DEEPEST_WINDOW,
    W_FIRST,
    W_HIT,
    W_HIT_CPU,
    W_HITS,
    W_LAST,
    W_PCS,
    W_PLACE,
    W_PRESENT,
    W_RAW_SITE,
    W_RAW_WINDOW,
    W_STOP,
    W_TOP,
    W_WANT,
    W_WINDOW,
    WANT_ENTERED,
    WANT_GONE,
    WANT_INTO,
    WANT_PLACE,
)

_HALTED = 0


@njit("void(int64[::1], int64, int64, int64)", internal=True)
def note_hit(W, position, cause, cpu):
    """Note a hit if its position counts; the first cause at a position is kept."""
    if position < W[W_FIRST] or position > W[W_LAST] or (W[W_STOP] and W[W_HIT] >= 0):
        return
    if W[W_HIT] != position:
        W[W_HITS] += 1
        W[W_HIT] = position
        W[W_CAUSE] = cause
        W[W_HIT_CPU] = cpu


@njit("void(int64[::1], int64[::1], int64[::1])", internal=True)
def look_at_cpu(S, W, places):
    """Write down where W_CPU is, as far as W_DEEPEST_* lets one see.

    ``places`` has for each micro-op: its place, its place seen from the deepest frame, how deep it is inlined
    beyond that (0: it is not), the inlined function there, its own inlined function.
    """
    pcs = W[W_PCS]
    block = S[H_CPU_BLOCKS] + W[W_CPU] * CPU_WORDS
    W[W_TOP] = 0
    W[W_PRESENT] = 0
    W[W_WINDOW] = -1
    W[W_PLACE] = -1
    W[W_RAW_WINDOW] = -1
    W[W_RAW_SITE] = -1
    if S[block + C_STATE] == _HALTED:
        return
    window = S[block + C_WINDOW]
    pc = S[block + C_PC]
    W[W_RAW_WINDOW] = window
    W[W_RAW_SITE] = places[4 * pcs + pc]
    deepest = W[W_DEEPEST_WINDOW]
    W[W_TOP] = 1 if window < deepest or (window == deepest and places[2 * pcs + pc] == 0) else 0
    while window > deepest:
        after = S[window + FRAME_RETURN_PC]
        kind = S[window + FRAME_KIND]
        if kind == KIND_FIRST or after < 0:
            return
        pc = after if kind == KIND_INTERRUPT else after - 1
        window = S[window + FRAME_RETURN_WINDOW]
    W[W_WINDOW] = window
    if window < deepest:
        W[W_PLACE] = places[pc]
    else:
        W[W_PLACE] = places[pcs + pc]
        W[W_PRESENT] = 1 if places[3 * pcs + pc] == W[W_DEEPEST_SITE] else 0


@njit("int64(int64[::1], int64[::1], int64, int64, int64)", internal=True)
def entered_frame(W, parents, window, site, interrupted):
    """Whether the CPU is in a frame that it has entered; it was in a window and inlined function before."""
    if W[W_RAW_WINDOW] < 0:
        return 0
    if interrupted or window < 0 or W[W_RAW_WINDOW] > window:
        return 1
    if W[W_RAW_WINDOW] < window or W[W_RAW_SITE] < 0:
        return 0
    while site >= 0:  # going back to an outer one is no entry
        if site == W[W_RAW_SITE]:
            return 0
        site = parents[site]
    return 1


@njit("void(int64[::1], int64[::1], int64, int64, int64, int64[::1], int64[::1])", internal=True)
def check_place(S, W, position, restarted, interrupted, places, parents):
    """Whether W_CPU came to another place, or its frame is gone or was entered."""
    window, place, present = W[W_WINDOW], W[W_PLACE], W[W_PRESENT]
    raw_window, raw_site = W[W_RAW_WINDOW], W[W_RAW_SITE]
    if restarted:
        window, place, present, raw_window, raw_site = -1, -1, 0, -1, -1
    look_at_cpu(S, W, places)
    want, cpu = W[W_WANT], W[W_CPU]
    moved = W[W_TOP] and (W[W_WINDOW] != window or W[W_PLACE] != place)
    if want & WANT_PLACE and moved:
        note_hit(W, position, -WANT_PLACE, cpu)
    if want & WANT_INTO and entered_frame(W, parents, raw_window, raw_site, interrupted):
        note_hit(W, position, -WANT_INTO, cpu)
    if want & WANT_GONE and (W[W_PRESENT] == 0 or restarted):
        note_hit(W, position, -WANT_GONE, cpu)
    if want & WANT_ENTERED and W[W_PRESENT] and not present:
        note_hit(W, position - 1, -WANT_ENTERED, cpu)
