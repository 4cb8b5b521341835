"""Where everything of a machine's state lies in its one int64 array.

A machine is one array ``S``; one copy is a checkpoint, one hash names a state.  The first ``HEADER_WORDS``
words say where the regions start, so jitted code needs no other description. Regions, in order: header, CPU
blocks, scheduler keys and tree, register stacks, counters, stride tables, buses, polled lines, L1 tags,
middle tags, L2 tags, line directory, lock table, interrupt table, owner notes, page frame table, static
memory, one own slot per page frame, backing store.  The backing store is last, so that it can grow by
appending.

Names: ``H_*`` header words, ``C_*`` words of a CPU block, ``N_*`` hardware counters, ``I_*`` words of an
interrupt table row, ``K_*`` words of a lock table row.  In names of header words, CPU words and parameters
``L2`` is the outer level, which takes part in the directory: the L2 of a machine file, or its L3 if it has
one.  ``MIDDLE`` is then that file's L2.  Counters have the names of the machine file.
"""

from __future__ import annotations

HEADER_WORDS = 128

# --- header -----------------------------------------------------------------------------
H_CPUS = 0
H_CPU_BLOCKS = 1
H_KEYS = 2
H_TREE = 3
H_LEAVES = 4  # number of leaves of the tree, a power of two
H_STACKS = 5
H_COUNTERS = 7
H_COUNTER_WORDS = 8
H_STRIDES = 9
H_L1 = 10
H_L1_SETS = 11
H_L1_WAYS = 12
H_L2 = 13
H_L2_SETS = 14
H_L2_WAYS = 15
H_L2_COUNT = 16
H_DIRECTORY = 17
H_DIRECTORY_SIZE = 18  # entries, a power of two
H_LOCKS = 19
H_LOCKS_SIZE = 20
H_IRQS = 21
H_IRQS_SIZE = 22
H_FRAMES = 23  # page frame table
H_PAGE_FRAMES = 24
H_PAGE_SHIFT = 25
H_LINE_SHIFT = 26
H_OWN_SLOTS = 27
H_STATIC = 28
H_STORE = 29  # backing store
H_STORE_WORDS = 30
H_STORE_USED = 31
H_STORE_FREE = 32  # .. +24: free lists of the backing store by granule shift; 0 = none
H_MICRO_OPS = 60
H_TRACE_HASH = 61
H_STATUS = 62
H_CURRENT_CPU = 63
H_FAULT = 64
H_FAULT_CPU = 65
H_FAULT_PC = 66
H_FAULT_ADDRESS = 67
H_STARTED = 68  # CPUs that take part in a rendezvous
H_RENDEZVOUS = 69  # CPUs that have arrived
H_POLLED_HIT = 70  # scratch: the last access touched a line that waiters poll
H_CPUS_PER_L1 = 72
H_CPUS_PER_L2 = 73
H_L2_PER_PACKAGE = 74
H_CPUS_PER_GROUP = 75  # CPUs whose L1s lie under the same next cache: a middle one, or the L2
H_COARSE_SHIFT = 76  # L2 number >> this = bit in a directory mask
H_SKIP_BREAK = 77  # 1: do not stop at the breakpoint of the very next micro-op
H_MIDDLE_WAYS = 78  # 0: there is no middle level
H_STRIDE_ENTRIES = 79
H_EVENT_CPU = 80  # scratch: a CPU that became runnable during this micro-op, -1 none
H_SEQUENCE = 81  # interrupts injected so far, and sources set for their next one
H_OWNERS = 82  # who claimed a structure last (OWNER_NOTE): CPU + 1 per OWNER_GRANULE bytes of static memory
H_OWNERS_SIZE = 83
H_STATIC_ADDRESS = 84  # byte address of the first word of static memory
H_MIDDLE = 85
H_MIDDLE_SETS = 86
H_MIDDLE_COUNT = 87
H_MIDDLES_PER_L2 = 88
H_BUS = 89  # per node: millicycles at which its bus is free again
H_LINE_BUSY = 90  # LINE_BUSY_ENTRIES words: millicycles until which requests for a polled line are served
H_IRQS_USED = 91  # rows of the interrupt table from here on have never been used
H_SOURCES_HELD = 92  # 1: some CPU's key leaves out sources of interrupts that stand still

# --- CPU block ----------------------------------------------------------------------------
CPU_WORDS = 56
# What every change of CPU reads and writes comes first: it fits two cache lines of the host.
C_CLOCK = 0  # millicycles
C_PC = 1
C_WINDOW = 2  # absolute index in S of register 0
C_STATE = 3
C_IRQ_ENABLED = 4
C_IRQ_CYCLE = 5  # millicycles: next interrupt due by time, NEVER if none
C_IRQ_MICRO_OP = 6  # next interrupt due by this CPU's micro-op count
C_MICRO_OPS = 7
C_L1_BASE = 8
C_STORE_BUSY = 9  # millicycles: when the store buffer is empty
C_FUNCTION = 10
C_PREEMPT = 11  # interrupts count 65536 each
C_IRQ_DEPTH = 12
C_STACK_END = 13
C_NODE = 14
C_WOKEN = 15  # a released lock woke this CPU; it has not retried yet
C_WAIT_ADDRESS = 16
C_WAIT_MASK = 17
C_WAIT_NEXT = 18  # CPU + 1, 0 none
C_WAIT_PREVIOUS = 19
C_WAIT_SINCE = 20
C_HELD = 21  # locks held
C_HELD_ADDRESS = 22  # .. +8
C_HELD_SINCE = 30  # .. +8
HELD_MAX = 8
C_L2 = 38  # number of its L2
C_GROUP = 39  # number of the next cache under its L1: the middle one, or the L2
C_PACKAGE = 40
C_ARRIVED = 41  # at a rendezvous: 1 waits, 2 released
C_POLLED_LINE = 42  # the line polled by waiters that this CPU wrote last
C_POLLED_UNTIL = 43  # millicycles: until then it may write it again, before the waiters have it back
C_HELD_MASK = 44  # .. +8: the bits of each held lock
C_CONTENDED = 52  # a lock taken by other means was found taken, and not acquired yet
C_STACK_BASE = 53

# --- counters kept by the hardware; a program's own follow -------------------------------------
N_L2_HIT = 0
N_TRANSFER_SIBLING = 1
N_TRANSFER_PACKAGE = 2
N_TRANSFER_SYSTEM = 3
N_TRANSFER_NODE = 4
N_MEMORY_LOCAL = 5
N_MEMORY_REMOTE = 6
N_UPGRADE = 7
N_PREFETCHED = 8
N_LOCKS_TAKEN = 9
N_LOCKS_CONTENDED = 10
N_LOCK_WAIT_MILLICYCLES = 11
N_INTERRUPTS = 12
N_LOCKED_OPS = 13
N_STORE_STALL_MILLICYCLES = 14
N_CMPXCHG_FAILED = 15
N_L2_EVICTION = 16
N_L3_HIT = 17
N_TRANSFER_L3 = 18
N_L3_EVICTION = 19
HARDWARE_COUNTERS = 24

HARDWARE_COUNTER_NAMES: dict[int, str] = {
    N_L2_HIT: "CACHE_MISS_L1_HIT_L2",
    N_TRANSFER_SIBLING: "CACHE_MISS_TRANSFER_SAME_L2",
    N_TRANSFER_PACKAGE: "CACHE_MISS_TRANSFER_SAME_PACKAGE",
    N_TRANSFER_SYSTEM: "CACHE_MISS_TRANSFER_OTHER_PACKAGE",
    N_TRANSFER_NODE: "CACHE_MISS_TRANSFER_OTHER_NODE",
    N_MEMORY_LOCAL: "CACHE_MISS_MEMORY_LOCAL",
    N_MEMORY_REMOTE: "CACHE_MISS_MEMORY_REMOTE",
    N_UPGRADE: "CACHE_UPGRADES",
    N_PREFETCHED: "CACHE_MISS_PREFETCHED",
    N_LOCKS_TAKEN: "LOCKS_TAKEN",
    N_LOCKS_CONTENDED: "LOCKS_CONTENDED",
    N_LOCK_WAIT_MILLICYCLES: "LOCK_WAIT_MILLICYCLES",
    N_INTERRUPTS: "INTERRUPTS",
    N_LOCKED_OPS: "LOCKED_OPERATIONS",
    N_STORE_STALL_MILLICYCLES: "STORE_BUFFER_STALL_MILLICYCLES",
    N_CMPXCHG_FAILED: "CMPXCHG_FAILED",
    N_L2_EVICTION: "CACHE_L2_EVICTIONS",
    N_L3_HIT: "CACHE_MISS_L2_HIT_L3",
    N_TRANSFER_L3: "CACHE_MISS_TRANSFER_SAME_L3",
    N_L3_EVICTION: "CACHE_L3_EVICTIONS",
}

# --- lock table: one row per lock that somebody waits for -----------------------------------------
LOCK_ROW = 4
K_ADDRESS = 0
K_HEAD = 1
K_TAIL = 2
K_COUNT = 3

# --- interrupt table ---------------------------------------------------------------------------
IRQ_ROW = 16
I_ACTIVE = 0
I_CPU = 1
I_BY_MICRO_OP = 2  # 1: I_WHEN, I_PERIOD and I_SPREAD count the CPU's micro-ops, 0: millicycles
I_WHEN = 3
I_FUNCTION = 4
I_ARGUMENT = 5  # .. +MOST_ARGUMENTS
I_SEQUENCE = 8  # order of injection, breaks ties
I_PERIOD = 9  # at least so long from one interrupt of a source to the next; 0: it comes once
I_SPREAD = 10  # what chance may add to it
I_SEED = 11  # state of the row's random numbers
I_LEFT = 12  # interrupts that a source still has to give; 0: no end
I_MORE_ARGUMENTS = 13  # arguments beyond the first
MOST_ARGUMENTS = 3

OWNER_SHIFT = 5  # one owner per 32 bytes; structures that are noted are at least that large
LINE_BUSY_ENTRIES = 64  # polled lines share them by their last bits
STRIDE_WORDS = 4  # of a page: last line, stride, times it was repeated, millicycles of the last access
STRIDE_TIME = 3

# --- page frame table entry: slot base << 16 | node << 6 | granule shift ----------------------------
FRAME_SLOT_SHIFT = 16
FRAME_NODE_SHIFT = 6
FRAME_NODE_MASK = 0x3FF
FRAME_GRANULE_MASK = 0x3F

NEVER = (1 << 62) - 1  # a clock or count that is never reached
MILLI = 1000  # millicycles in a cycle

# --- parameters (P array) --------------------------------------------------------------------
P_L2_HIT = 0
P_TRANSFER_SIBLING = 1
P_TRANSFER_PACKAGE = 2
P_TRANSFER_SYSTEM = 3
P_TRANSFER_NODE = 4
P_MEMORY_LOCAL = 5
P_MEMORY_REMOTE = 6
P_STORE_MISS_PER_MILLE = 7
P_STORE_WINDOW = 8
P_PREFETCH_LEFT_PER_MILLE = 9
P_PREFETCH_REACH = 10  # lines
P_SPINNER_REREAD = 11
P_INTERRUPT_ENTRY = 12
P_INTERRUPT_EXIT = 13
P_MIDDLE_HIT = 14
P_TRANSFER_MIDDLE = 15  # from another middle cache under the same L2
P_BUS_TRANSACTION = 16
P_ADJACENT_LINE = 17  # 1: a miss brings the other line of its aligned pair along
P_SPINNER_RETRY = 18
P_COUNT = 19
#: After the parameters: 3 words per function: entry pc, window words, locals.
FUNCTION_WORDS = 3
