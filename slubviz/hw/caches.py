"""Cache lines: which caches hold them, who owns them, and what an access costs.

Set-associative L1s (one per ``cpus_per_l1`` CPUs) and L2s (one per ``cpus_per_l2``), true LRU within a set,
physical addresses; an L2 includes its L1s.  A directory (hash table) knows for each cached line which L2s
hold it, whether one of them holds it modified, and how many waiting CPUs poll it.  Beyond 46 L2s a bit of
the directory's mask stands for several L2s, as in the coarse vectors of large NUMA machines.

On a machine with three levels what is called L2 here is its L3, and its own L2s are the middle level of
inner_caches.py.  A line that another middle cache under the same L2 may write, or that a CPU wants to write
while one holds it, is fetched from there at the cost of a transfer within the L2; of several such transfers
the dearest counts.

Each node has a bus to its memory.  A line that comes from memory or from another outer cache occupies the bus
of the node that its memory is on; so does a line that falls out of an outer cache to make room, and one that
the adjacent-line prefetcher brings.  A request waits until the bus is free.

Two prefetchers, both optional.  The stream prefetcher follows walks of a short constant stride through a page
(``stream_lead``) and shortens what a miss of the outer cache takes (``after_prefetch``).  The adjacent-line
prefetcher brings the other line of an aligned pair with each such miss (``fetch_neighbour``).

Lines that waiting CPUs poll are served one request after another (``contended_access``): writes, and reads
that the reader's outer cache cannot answer.

What is left out: instruction fetches, translation look-aside buffers.  Writing a line back takes its turn on
the bus whether the line was modified or not, at the node of the line that takes its place, and no time of the
CPU.  A line that was prefetched is in the cache at once.  The bus and a polled line serve requests in the
order in which the engine executes them, which is that of the clocks but for CPUs that have just waited.

Entries of L2 tags: ``line``.  0 is empty (line 0 is the NULL page, never accessed).  Within a set the most
recently used way comes first.  Directory row: ``line, info``;
info = ``mask << 16 | pollers << 1 | modified``.
"""

from __future__ import annotations

from slubviz.hw.inner_caches import (
    inner_change,
    l1_change,
    l1_elsewhere,
    l1_place,
    middle_allow,
    middle_elsewhere,
    middle_insert,
    middle_touch,
    middles_change,
)
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_GROUP,
    C_L1_BASE,
    C_L2,
    C_NODE,
    C_PACKAGE,
    C_POLLED_LINE,
    C_POLLED_UNTIL,
    C_STORE_BUSY,
    CPU_WORDS,
    H_BUS,
    H_COARSE_SHIFT,
    H_COUNTER_WORDS,
    H_COUNTERS,
    H_CPU_BLOCKS,
    H_CPUS_PER_L2,
    H_DIRECTORY,
    H_DIRECTORY_SIZE,
    H_L1_SETS,
    H_L1_WAYS,
    H_L2,
    H_L2_COUNT,
    H_L2_PER_PACKAGE,
    H_L2_SETS,
    H_L2_WAYS,
    H_LINE_BUSY,
    H_LINE_SHIFT,
    H_MIDDLE_WAYS,
    H_PAGE_SHIFT,
    H_POLLED_HIT,
    H_STRIDE_ENTRIES,
    H_STRIDES,
    LINE_BUSY_ENTRIES,
    N_L2_EVICTION,
    N_L2_HIT,
    N_L3_EVICTION,
    N_L3_HIT,
    N_MEMORY_LOCAL,
    N_MEMORY_REMOTE,
    N_PREFETCHED,
    N_TRANSFER_L3,
    N_TRANSFER_NODE,
    N_TRANSFER_PACKAGE,
    N_TRANSFER_SIBLING,
    N_TRANSFER_SYSTEM,
    N_UPGRADE,
    P_ADJACENT_LINE,
    P_BUS_TRANSACTION,
    P_L2_HIT,
    P_MEMORY_LOCAL,
    P_MEMORY_REMOTE,
    P_MIDDLE_HIT,
    P_PREFETCH_LEFT_PER_MILLE,
    P_PREFETCH_REACH,
    P_SPINNER_REREAD,
    P_TRANSFER_MIDDLE,
    P_TRANSFER_NODE,
    P_TRANSFER_PACKAGE,
    P_TRANSFER_SIBLING,
    P_TRANSFER_SYSTEM,
    STRIDE_WORDS,
)

INFO_MODIFIED = 1
INFO_POLLER = 2  # one poller
INFO_POLLERS_MASK = 0xFFFE
INFO_MASK_SHIFT = 16


@njit("int64(int64[::1], int64)")
def directory_home(S, line):
    """First row index to look at for a line.

    Blocks of 64 lines are hashed, lines within a block stay neighbours: a walk through memory then walks
    through the directory, and a directory that is used sparsely keeps most of its memory untouched.
    """
    block = ((line >> 6) * 0x9E3779B1) >> 12
    return ((block << 6) | (line & 63)) & (S[H_DIRECTORY_SIZE] - 1)


@njit("int64(int64[::1], int64)")
def directory_find(S, line):
    """Index in S of a line's row, -1 when no cache holds it."""
    base = S[H_DIRECTORY]
    mask = S[H_DIRECTORY_SIZE] - 1
    i = directory_home(S, line)
    while True:
        key = S[base + 2 * i]
        if key == line:
            return base + 2 * i
        if key == 0:
            return -1
        i = (i + 1) & mask


@njit("int64(int64[::1], int64)")
def directory_row(S, line):
    """Index in S of a line's row, made empty when there was none."""
    base = S[H_DIRECTORY]
    mask = S[H_DIRECTORY_SIZE] - 1
    i = directory_home(S, line)
    while True:
        key = S[base + 2 * i]
        if key == line:
            return base + 2 * i
        if key == 0:
            S[base + 2 * i] = line
            S[base + 2 * i + 1] = 0
            return base + 2 * i
        i = (i + 1) & mask


@njit("void(int64[::1], int64)")
def directory_delete(S, row):
    """Remove a row, moving later rows of its run back so that no tombstone is needed."""
    base = S[H_DIRECTORY]
    mask = S[H_DIRECTORY_SIZE] - 1
    hole = (row - base) >> 1
    i = hole
    while True:
        i = (i + 1) & mask
        key = S[base + 2 * i]
        if key == 0:
            break
        home = directory_home(S, key)
        if ((i - home) & mask) >= ((i - hole) & mask):
            S[base + 2 * hole] = key
            S[base + 2 * hole + 1] = S[base + 2 * i + 1]
            hole = i
    S[base + 2 * hole] = 0
    S[base + 2 * hole + 1] = 0


@njit("int64(int64[::1], int64, int64)", internal=True)
def l2_touch(S, l2, line):
    """1 and make it most recent if the L2 holds the line, else 0."""
    ways = S[H_L2_WAYS]
    t = S[H_L2] + (l2 * S[H_L2_SETS] + (line & (S[H_L2_SETS] - 1))) * ways
    for w in range(ways):
        entry = S[t + w]
        if entry == line:
            for k in range(w, 0, -1):
                S[t + k] = S[t + k - 1]
            S[t] = line
            return 1
        if entry == 0:
            return 0
    return 0


@njit("int64(int64[::1], int64, int64)", internal=True)
def l2_remove(S, l2, line):
    """Take a line out of an L2 and the caches above it; 1 if it was there."""
    ways = S[H_L2_WAYS]
    t = S[H_L2] + (l2 * S[H_L2_SETS] + (line & (S[H_L2_SETS] - 1))) * ways
    for w in range(ways):
        entry = S[t + w]
        if entry == 0:
            return 0
        if entry == line:
            for k in range(w, ways - 1):
                S[t + k] = S[t + k + 1]
            S[t + ways - 1] = 0
            inner_change(S, l2, line, 0)
            return 1
    return 0


@njit("int64(int64[::1], int64, int64)", internal=True)
def l2_holds(S, l2, line):
    """Whether an L2 holds a line; changes nothing."""
    ways = S[H_L2_WAYS]
    t = S[H_L2] + (l2 * S[H_L2_SETS] + (line & (S[H_L2_SETS] - 1))) * ways
    for w in range(ways):
        if S[t + w] == line:
            return 1
    return 0


@njit("void(int64[::1], int64, int64)", internal=True)
def directory_forget(S, l2, line):
    """An L2 no longer holds a line: clear its bit (unless another of its group still holds it)."""
    row = directory_find(S, line)
    if row < 0:
        return
    shift = S[H_COARSE_SHIFT]
    if shift > 0:
        first = (l2 >> shift) << shift
        last = min(first + (1 << shift), S[H_L2_COUNT])
        for other in range(first, last):
            if other != l2 and l2_holds(S, other, line):
                return
    info = S[row + 1]
    bit = 1 << (INFO_MASK_SHIFT + (l2 >> shift))
    info = info & ~bit & ~INFO_MODIFIED
    if info == 0:
        directory_delete(S, row)
    else:
        S[row + 1] = info


@njit("int64(int64[::1], int64, int64, int64)", internal=True)
def l2_insert(S, l2, line, counters):
    """Put a line in front of its set; the last way falls out, and out of the caches above: 1 if it held
    one."""
    ways = S[H_L2_WAYS]
    t = S[H_L2] + (l2 * S[H_L2_SETS] + (line & (S[H_L2_SETS] - 1))) * ways
    victim = S[t + ways - 1]
    evicted = 0
    if victim != 0:
        evicted = 1
        S[counters + (N_L3_EVICTION if S[H_MIDDLE_WAYS] else N_L2_EVICTION)] += 1
        inner_change(S, l2, victim, 0)
        S[t + ways - 1] = 0
        directory_forget(S, l2, victim)
    for k in range(ways - 1, 0, -1):
        S[t + k] = S[t + k - 1]
    S[t] = line
    return evicted


@njit("int64(int64[::1], int64[::1], int64, int64, int64)", internal=True)
def transfer_cost(S, P, counters, block, l2):
    """Millicycles to bring a line from another L2 to this CPU; counts the kind.  counters < 0: do not
    count."""
    per_l2 = S[H_CPUS_PER_L2]
    if l2 // S[H_L2_PER_PACKAGE] == S[block + C_PACKAGE]:
        if counters >= 0:
            S[counters + N_TRANSFER_PACKAGE] += 1
        return P[P_TRANSFER_PACKAGE]
    other = S[H_CPU_BLOCKS] + l2 * per_l2 * CPU_WORDS
    if S[other + C_NODE] == S[block + C_NODE]:
        if counters >= 0:
            S[counters + N_TRANSFER_SYSTEM] += 1
        return P[P_TRANSFER_SYSTEM]
    if counters >= 0:
        S[counters + N_TRANSFER_NODE] += 1
    return P[P_TRANSFER_NODE]


@njit("int64(int64[::1], int64[::1], int64, int64, int64, int64, int64)", internal=True)
def take_from_others(S, P, row, line, block, counters, write):
    """Make the other L2s give up (write) or share (read) a line.

    Returns the dearest transfer among the L2s that had to answer, in millicycles; for a read of a clean
    line 0: memory answers, not a cache.
    """
    own = S[block + C_L2]
    info = S[row + 1]
    modified = info & INFO_MODIFIED
    if write == 0 and modified == 0:
        return 0
    shift = S[H_COARSE_SHIFT]
    mask = info >> INFO_MASK_SHIFT
    dearest = 0
    dearest_l2 = -1
    group = 0
    while mask != 0:
        if mask & 1:
            first = group << shift
            last = min(first + (1 << shift), S[H_L2_COUNT])
            for l2 in range(first, last):
                if l2 == own or not l2_holds(S, l2, line):
                    continue
                cost = transfer_cost(S, P, -1, block, l2)
                if cost > dearest:
                    dearest = cost
                    dearest_l2 = l2
                if write:
                    l2_remove(S, l2, line)
                else:
                    inner_change(S, l2, line, 1)
        mask >>= 1
        group += 1
    if dearest_l2 >= 0:
        transfer_cost(S, P, counters, block, dearest_l2)
    return dearest


@njit("int64(int64[::1], int64, int64, int64, int64)", internal=True)
def stream_lead(S, cpu, line, reach, now):
    """How long ago the stream prefetcher may have asked for this line, in millicycles; below 0: it has not.

    It has when the accesses of this page that missed the L1, whichever cache answered, had the same stride
    of 1 to ``reach`` lines, up or down, three times in a row, this time included.  It asks for the next line
    when the one before is accessed (a store: when it leaves the store buffer, which may be later than ``now``
    of a load).  Remembers this access; one of the same line as before changes only the time.  Pages share
    the table's entries, by their last bits.
    """
    entries = S[H_STRIDE_ENTRIES]
    page = line >> (S[H_PAGE_SHIFT] - S[H_LINE_SHIFT])
    e = S[H_STRIDES] + (cpu * entries + (page & (entries - 1))) * STRIDE_WORDS
    stride = line - S[e]
    lead = -1
    if S[e] >> (S[H_PAGE_SHIFT] - S[H_LINE_SHIFT]) != page or abs(stride) > reach:
        S[e + 1] = 0
        S[e + 2] = 0
    elif stride != 0 and stride == S[e + 1]:
        S[e + 2] += 1
        if S[e + 2] >= 2:
            lead = now - S[e + 3]
    elif stride != 0:
        S[e + 1] = stride
        S[e + 2] = 0
    S[e] = line
    S[e + 3] = now
    return lead


@njit("int64(int64[::1], int64[::1], int64, int64, int64, int64)", internal=True)
def after_prefetch(S, P, counters, latency, lead, write):
    """What is left of a latency when the stream prefetcher asked for the line ``lead`` millicycles ago.

    The streamer at the outer cache follows loads and stores; how far it gets ahead is a share of the latency.
    The prefetchers at the L1 follow loads only, so a load is spared the lead as well, down to a hit of the
    outer cache.
    """
    S[counters + N_PREFETCHED] += 1
    latency = latency * P[P_PREFETCH_LEFT_PER_MILLE] // 1000
    if write == 0:
        latency = max(latency - lead, P[P_L2_HIT])
    return latency


@njit("int64(int64[::1], int64, int64, int64)", internal=True)
def fetch_neighbour(S, l2, line, counters):
    """Bring the other line of an aligned pair into an L2, unless a cache has it or a waiter polls it.

    Returns the lines that this moves over the bus: itself, and one that falls out for it.
    """
    neighbour = line ^ 1
    if directory_find(S, neighbour) >= 0:
        return 0
    moved = 1 + l2_insert(S, l2, neighbour, counters)
    row = directory_row(S, neighbour)
    S[row + 1] = 1 << (INFO_MASK_SHIFT + (l2 >> S[H_COARSE_SHIFT]))
    return moved


@njit("int64(int64[::1], int64[::1], int64, int64, int64)", internal=True)
def use_bus(S, P, node, clock, lines):
    """Millicycles until the bus of a node is free; it is busy with so many lines after that."""
    if P[P_BUS_TRANSACTION] == 0:
        return 0
    bus = S[H_BUS] + node
    wait = max(S[bus] - clock, 0)
    S[bus] = clock + wait + P[P_BUS_TRANSACTION] * lines
    return wait


@njit("int64(int64[::1], int64[::1], int64, int64, int64, int64, int64, int64, int64, int64)", internal=True)
def contended_access(S, P, block, line, write, in_l1, pollers, home_node, clock, latency):
    """The latency of an access to a line that waiting CPUs poll.

    Requests for such a line are served one after another, a transfer within the package each.  A store asks
    when the stores before it have ended.  After a write each poller reads the line again, so that the next
    request has to wait for them too; a write of a line that the CPU still has takes it from them with a
    transfer.  But a burst of writes comes before the pollers: for the time of a transfer after the issue of
    one that was paid for, the same CPU writes its line for nothing.
    """
    now = max(clock, S[block + C_STORE_BUSY]) if write else clock
    if write:
        S[H_POLLED_HIT] = 1
        if in_l1:
            if S[block + C_POLLED_LINE] == line and clock <= S[block + C_POLLED_UNTIL]:
                return latency
            latency += P[P_TRANSFER_PACKAGE] + use_bus(S, P, home_node, clock, 1)
    busy = S[H_LINE_BUSY] + (line & (LINE_BUSY_ENTRIES - 1))
    wait = max(S[busy] - now, 0)
    latency += wait
    S[busy] = now + wait + P[P_TRANSFER_PACKAGE]
    if write:
        S[busy] += pollers * P[P_SPINNER_REREAD]
        S[block + C_POLLED_LINE] = line
        S[block + C_POLLED_UNTIL] = clock + P[P_TRANSFER_PACKAGE]
    return latency


@njit("int64(int64[::1], int64[::1], int64, int64, int64, int64, int64)", internal=True)
def access_slow(S, P, cpu, line, write, home_node, clock):
    """An access that the first way of the L1 set did not satisfy.  Returns its latency in millicycles.

    ``write`` 0 for a load, 1 for any access that needs the line exclusively.
    """
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    counters = S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS]
    l1 = S[block + C_L1_BASE]
    l2 = S[block + C_L2]
    ways = S[H_L1_WAYS]
    t = l1 + (line & (S[H_L1_SETS] - 1)) * ways
    S[H_POLLED_HIT] = 0
    in_l1 = 0
    for w in range(ways):
        entry = S[t + w]
        if entry == 0:
            break
        if entry >> 1 == line:
            if write == 0 or entry & 1:
                for k in range(w, 0, -1):
                    S[t + k] = S[t + k - 1]
                S[t] = entry
                return 0
            in_l1 = 1
            break

    group = S[block + C_GROUP]
    middle = S[H_MIDDLE_WAYS]
    latency = 0
    polled = 0
    lead = -1
    if P[P_PREFETCH_REACH] and in_l1 == 0:
        now = max(clock, S[block + C_STORE_BUSY]) if write else clock
        lead = stream_lead(S, cpu, line, P[P_PREFETCH_REACH], now)
    bit = 1 << (INFO_MASK_SHIFT + (l2 >> S[H_COARSE_SHIFT]))
    in_group = in_l1
    if middle and in_l1 == 0 and middle_touch(S, group, line):
        in_group = 1
        latency = P[P_MIDDLE_HIT]
        S[counters + N_L2_HIT] += 1
    if in_group or l2_touch(S, l2, line):
        if in_group == 0:
            latency = P[P_L2_HIT]
            S[counters + (N_L3_HIT if middle else N_L2_HIT)] += 1
        sibling = l1_elsewhere(S, group, line, l1)
        if sibling == 2 or (sibling == 1 and write):
            latency = P[P_TRANSFER_SIBLING]
            S[counters + N_TRANSFER_SIBLING] += 1
            l1_change(S, group, line, l1, 1 - write)
        if middle and (write or in_group == 0):
            elsewhere = middle_elsewhere(S, l2, line, group)
            if elsewhere == 2 or (elsewhere == 1 and write):
                latency = max(latency, P[P_TRANSFER_MIDDLE])
                S[counters + N_TRANSFER_L3] += 1
                middles_change(S, l2, line, group, 1 - write)
        if write:
            row = directory_row(S, line)
            if S[row + 1] & INFO_MODIFIED == 0:
                transfer = take_from_others(S, P, row, line, block, counters, 1)
                if transfer > 0:
                    latency += transfer + use_bus(S, P, home_node, clock, 1)
                if latency > 0 and in_l1:
                    S[counters + N_UPGRADE] += 1
            polled = S[row + 1] & INFO_POLLERS_MASK
            S[row + 1] = polled | bit | INFO_MODIFIED
    else:
        # First make room: an eviction moves directory rows.
        bus_lines = fetch_neighbour(S, l2, line, counters) if P[P_ADJACENT_LINE] else 0
        bus_lines += 1 + l2_insert(S, l2, line, counters)
        row = directory_row(S, line)
        latency = take_from_others(S, P, row, line, block, counters, write)
        if latency == 0:
            if home_node == S[block + C_NODE]:
                latency = P[P_MEMORY_LOCAL]
                S[counters + N_MEMORY_LOCAL] += 1
            else:
                latency = P[P_MEMORY_REMOTE]
                S[counters + N_MEMORY_REMOTE] += 1
        if lead >= 0:
            latency = after_prefetch(S, P, counters, latency, lead, write)
        latency += use_bus(S, P, home_node, clock, bus_lines)
        info = S[row + 1]
        polled = info & INFO_POLLERS_MASK
        if write:
            S[row + 1] = polled | bit | INFO_MODIFIED
        else:
            S[row + 1] = (info | bit) & ~INFO_MODIFIED
    if polled:
        latency = contended_access(
            S, P, block, line, write, in_l1, polled // INFO_POLLER, home_node, clock, latency
        )
    writable = 1 if (write and polled == 0) else 0
    if middle:
        if in_group == 0:
            middle_insert(S, group, line, writable, counters)
        elif write:
            middle_allow(S, group, line, writable)
    l1_place(S, l1, line, writable)
    return latency


@njit("void(int64[::1], int64, int64)", internal=True)
def polling_changes(S, line, change):
    """A CPU starts (+1) or stops (-1) polling a line."""
    row = directory_row(S, line)
    info = S[row + 1] + change * INFO_POLLER
    S[row + 1] = info
    if change > 0:
        # Nobody may write it silently while others keep reading it.
        mask = info >> INFO_MASK_SHIFT
        shift = S[H_COARSE_SHIFT]
        group = 0
        while mask != 0:
            if mask & 1:
                first = group << shift
                last = min(first + (1 << shift), S[H_L2_COUNT])
                for l2 in range(first, last):
                    inner_change(S, l2, line, 1)
            mask >>= 1
            group += 1
    elif info == 0:
        directory_delete(S, row)
