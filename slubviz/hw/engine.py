"""The engine: one loop that executes micro-ops of all CPUs in clock order.

``run(S, code, P, micro_op_limit, millicycle_limit)`` works on the state array ``S`` (see layout.py), the
program ``code`` (int64 rows, see isa.py) and the parameters ``P``; it returns a Status and leaves
everything else in ``S``. There is no other state, no wall clock and no randomness, so the same arrays give
the same run, bit for bit.

Time is in millicycles.  A micro-op costs its plain instruction cost (``F_COST``), plus what memory, locks
and the store buffer add.  Loads and locked operations wait for their line; plain stores go to a store
buffer (``buffer_store``), which stalls the CPU when it is a window behind; a locked operation waits until it
is empty.  A prefetch asks for its line and waits for nothing.

Left out: out-of-order execution and branch prediction (their mean is in the plain cost), instruction
caches.
"""

from __future__ import annotations

from slubviz.hw.caches import access_slow
from slubviz.hw.interrupts import hold_sources, take_due
from slubviz.hw.isa import (
    BREAK_BIT,
    FRAME_FUNCTION,
    FRAME_KIND,
    FRAME_RESULT_REGISTER,
    FRAME_RETURN_PC,
    FRAME_RETURN_WINDOW,
    FRAME_SAVED,
    FRAME_WORDS,
    KIND_CALL,
    KIND_FIRST,
    KIND_INTERRUPT,
    WORDS,
    Fault,
    Op,
    Status,
)
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_ARRIVED,
    C_CLOCK,
    C_CONTENDED,
    C_FUNCTION,
    C_IRQ_CYCLE,
    C_IRQ_DEPTH,
    C_IRQ_ENABLED,
    C_IRQ_MICRO_OP,
    C_L1_BASE,
    C_MICRO_OPS,
    C_NODE,
    C_PC,
    C_PREEMPT,
    C_STACK_BASE,
    C_STACK_END,
    C_STATE,
    C_STORE_BUSY,
    C_WAIT_ADDRESS,
    C_WAIT_SINCE,
    C_WINDOW,
    C_WOKEN,
    CPU_WORDS,
    FRAME_GRANULE_MASK,
    FRAME_NODE_MASK,
    FRAME_NODE_SHIFT,
    FRAME_SLOT_SHIFT,
    FUNCTION_WORDS,
    H_COUNTER_WORDS,
    H_COUNTERS,
    H_CPU_BLOCKS,
    H_CPUS,
    H_CURRENT_CPU,
    H_EVENT_CPU,
    H_FAULT,
    H_FAULT_ADDRESS,
    H_FAULT_CPU,
    H_FAULT_PC,
    H_FRAMES,
    H_IRQS_USED,
    H_KEYS,
    H_L1_SETS,
    H_L1_WAYS,
    H_LEAVES,
    H_LINE_SHIFT,
    H_MICRO_OPS,
    H_OWN_SLOTS,
    H_OWNERS,
    H_OWNERS_SIZE,
    H_PAGE_FRAMES,
    H_PAGE_SHIFT,
    H_POLLED_HIT,
    H_RENDEZVOUS,
    H_SKIP_BREAK,
    H_STARTED,
    H_STATIC_ADDRESS,
    H_STATUS,
    H_TRACE_HASH,
    H_TREE,
    HARDWARE_COUNTERS,
    I_ARGUMENT,
    I_FUNCTION,
    I_MORE_ARGUMENTS,
    MILLI,
    N_CMPXCHG_FAILED,
    N_INTERRUPTS,
    N_LOCK_WAIT_MILLICYCLES,
    N_LOCKED_OPS,
    N_LOCKS_CONTENDED,
    N_LOCKS_TAKEN,
    N_STORE_STALL_MILLICYCLES,
    NEVER,
    OWNER_SHIFT,
    P_COUNT,
    P_INTERRUPT_ENTRY,
    P_INTERRUPT_EXIT,
    P_STORE_MISS_PER_MILLE,
    P_STORE_WINDOW,
)
from slubviz.hw.locks import (
    holds_lock,
    lock_dropped,
    lock_row,
    lock_taken,
    rush,
    start_waiting,
    stop_waiting,
    wake_one,
)
from slubviz.hw.memory import set_page_granule, word_index
from slubviz.hw.scheduler import may_run_until, replay, set_key

# Plain ints: an IntEnum member inside jitted code would compile a second version of everything it touches.
(
    NOP, MOV, LI, LI64, ADD, SUB, MUL, DIV, MOD, AND, OR, XOR, SHL, SHR, ADDI, MULI, DIVI, MODI, ANDI,
    ORI, XORI, SHLI, SHRI, NEG, NOT, FLS, SEQ, SNE, SLT, SLE, JMP, BEQ, BNE, BLT, BLE, BEQI, BNEI, BLTI,
    BLEI, BGTI, BGEI, CALL, RET, LD, LDS, ST, CMPXCHG_LOCAL, CMPXCHG, CMPXCHG_DOUBLE_LOCAL,
    CMPXCHG_DOUBLE, XCHG, ATOMIC_ADD, ATOMIC_ADD_LOCAL, LOCK, LOCK_IRQSAVE, TRYLOCK, UNLOCK,
    UNLOCK_LOCKED, LOCK_NOTE, IRQ_SAVE, IRQ_RESTORE, IRQ_DISABLE, IRQ_ENABLE, PREEMPT_DISABLE,
    PREEMPT_ENABLE, BARRIER, RDTSC, CPU_ID, NODE_ID, COUNT, INSTRUCTIONS, GRANULE, RENDEZVOUS, PAUSE,
    BUG, PREEMPT_COUNT, COUNT_N, OWNER_NOTE, PREFETCH,
) = (int(op) for op in Op)  # fmt: skip
S_MICRO_OPS = int(Status.MICRO_OPS)
S_CYCLE = int(Status.CYCLE)
S_BREAKPOINT = int(Status.BREAKPOINT)
S_HALTED = int(Status.HALTED)
S_DEADLOCK = int(Status.DEADLOCK)
S_FAULT = int(Status.FAULT)
S_NEED_MEMORY = int(Status.NEED_MEMORY)
F_BUG = int(Fault.BUG)
F_BAD_ADDRESS = int(Fault.BAD_ADDRESS)
F_BAD_OPCODE = int(Fault.BAD_OPCODE)
F_DIVISION = int(Fault.DIVISION_BY_ZERO)
F_STACK = int(Fault.STACK_OVERFLOW)
F_UNLOCK_FREE = int(Fault.UNLOCK_FREE)
F_SELF_DEADLOCK = int(Fault.SELF_DEADLOCK)
HALTED, RUNNING, WAITING_LOCK, WAITING_RENDEZVOUS = 0, 1, 2, 3
INTERRUPT_PREEMPT = 65536
HASH_FACTOR = 0x100000001B3
CLOCK_FACTOR = 0x1E3779B97F4A7C15  # spreads the clock over all bits, apart from pc and CPU
LOW_32 = 0xFFFFFFFF
ALL_BITS = -1  # mask of a lock that was taken by other means


@njit("int64(int64[::1], int64, int64)", internal=True)
def load_word(S, index, part):
    """The 8-byte word at an index (part 0), or its low (1) or high (2) half, zero-extended."""
    if part == 0:
        return S[index]
    if part == 1:
        return S[index] & LOW_32
    return (S[index] >> 32) & LOW_32


@njit("void(int64[::1], int64, int64, int64)", internal=True)
def store_word(S, index, part, value):
    """Write an 8-byte word (part 0), or its low (1) or high (2) half."""
    if part == 0:
        S[index] = value
    elif part == 1:
        S[index] = (S[index] & ~LOW_32) | (value & LOW_32)
    else:
        S[index] = (S[index] & LOW_32) | (value << 32)


@njit("int64(int64[::1], int64[::1], int64, int64, int64, int64)", internal=True)
def buffer_store(S, P, block, counters, clock, latency):
    """A plain store missed: the store buffer gets behind.  Returns the clock, later if the CPU stalls.

    Stores end in order.  One that misses takes its latency, but the misses of a burst overlap: each ends a
    share of its latency after the one before.
    """
    busy = max(
        S[block + C_STORE_BUSY] + latency * P[P_STORE_MISS_PER_MILLE] // 1000,
        clock + latency,
    )
    S[block + C_STORE_BUSY] = busy
    stall = busy - clock - P[P_STORE_WINDOW]
    if stall > 0:
        S[counters + N_STORE_STALL_MILLICYCLES] += stall
        clock += stall
    return clock


@njit("void(int64[::1], int64[::1], int64, int64, int64)", internal=True)
def after_polled_write(S, P, address, cpu, clock):
    """A line that waiters poll was written: whoever waits for exactly this word may be able to go on.

    A lock word is 4 or 8 bytes wide; waiters are queued by its address.
    """
    for at in (address, address + 4):
        if lock_row(S, at, 0) < 0:
            continue
        index = word_index(S, at & ~7, 8, 0)
        if index >= 0:
            wake_one(S, P, at, load_word(S, index, 2 if at & 4 else 0), cpu, clock)


@njit("void(int64[::1], int64)", internal=True)
def release_rendezvous(S, last):
    """Everybody has arrived (``last`` just now): all go on together, at the latest clock."""
    latest = S[S[H_CPU_BLOCKS] + last * CPU_WORDS + C_CLOCK]
    for cpu in range(S[H_CPUS]):
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        if S[block + C_ARRIVED] == 1 and S[block + C_STATE] == WAITING_RENDEZVOUS:
            latest = max(latest, S[block + C_CLOCK])
    for cpu in range(S[H_CPUS]):
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        if S[block + C_ARRIVED] == 1:
            S[block + C_ARRIVED] = 2
            if S[block + C_STATE] == WAITING_RENDEZVOUS:
                S[block + C_CLOCK] = latest
                S[block + C_STATE] = RUNNING
                set_key(S, cpu, latest)
    S[S[H_CPU_BLOCKS] + last * CPU_WORDS + C_CLOCK] = latest
    S[H_RENDEZVOUS] = 0


@njit("int64(int64[::1], int64[::1], int64, int64, int64, int64)", internal=True)
def enter_interrupt(S, P, cpu, row, pc, clock):
    """Push the handler's frame of a due interrupt; returns its entry pc, or -1 if the stack is full."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    handler = S[row + I_FUNCTION]
    state = S[block + C_STATE]
    if state == HALTED:
        window = S[block + C_STACK_BASE] + FRAME_WORDS
    else:
        running = P_COUNT + S[block + C_FUNCTION] * FUNCTION_WORDS
        window = S[block + C_WINDOW] + P[running + 1] + FRAME_WORDS
    if window + P[P_COUNT + handler * FUNCTION_WORDS + 1] >= S[block + C_STACK_END]:
        return -1
    S[window + FRAME_RETURN_PC] = -1 if state == HALTED else pc
    S[window + FRAME_RETURN_WINDOW] = S[block + C_WINDOW]
    S[window + FRAME_RESULT_REGISTER] = -1
    S[window + FRAME_KIND] = KIND_INTERRUPT
    S[window + FRAME_FUNCTION] = S[block + C_FUNCTION]
    S[window + FRAME_SAVED] = S[block + C_IRQ_ENABLED]
    for i in range(1 + S[row + I_MORE_ARGUMENTS]):
        S[window + i] = S[row + I_ARGUMENT + i]
    S[block + C_WINDOW] = window
    S[block + C_FUNCTION] = handler
    S[block + C_STATE] = RUNNING
    S[block + C_IRQ_ENABLED] = 0
    S[block + C_IRQ_DEPTH] += 1
    S[block + C_PREEMPT] += INTERRUPT_PREEMPT
    S[block + C_CLOCK] = clock + P[P_INTERRUPT_ENTRY]
    S[S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS] + N_INTERRUPTS] += 1
    return P[P_COUNT + handler * FUNCTION_WORDS]


@njit("void(int64[::1], int64[::1], int64, int64)", internal=True)
def pass_on_wake(S, P, cpu, clock):
    """A CPU that was woken for a lock is interrupted before it retried: wake another, or all might
    sleep."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    S[block + C_WOKEN] = 0
    address = S[block + C_WAIT_ADDRESS]
    index = word_index(S, address & ~7, 8, 0)
    if index >= 0:
        wake_one(S, P, address, load_word(S, index, 2 if address & 4 else 0), cpu, clock)


@njit("int64(int64[::1], int64, int64, int64, int64)", internal=True)
def note_fault(S, fault, cpu, pc, address):
    """Record a program error; returns the status to stop with."""
    S[H_FAULT] = fault
    S[H_FAULT_CPU] = cpu
    S[H_FAULT_PC] = pc
    S[H_FAULT_ADDRESS] = address
    S[H_STATUS] = S_FAULT
    return S_FAULT


@njit("int64(int64[::1], int64, int64, int64)", internal=True)
def format_memory(S, address, size, granule):
    """GRANULE: 0 done, 1 the backing store is full, 2 not page memory."""
    page_shift = S[H_PAGE_SHIFT]
    first = address >> page_shift
    last = (address + size - 1) >> page_shift
    shift = 0
    while (2 << shift) <= granule:
        shift += 1
    if first <= 0 or last >= S[H_PAGE_FRAMES]:
        return 2
    for frame in range(first, last + 1):
        slot = S[S[H_FRAMES] + frame] >> FRAME_SLOT_SHIFT
        if slot < S[H_OWN_SLOTS]:
            return 2
        if set_page_granule(S, frame, shift):
            return 1
    return 0


@njit("int64(int64[::1], int64[::1], int64[::1], int64, int64)")
def run(S, code, P, micro_op_limit, millicycle_limit):
    """Execute until a limit, a breakpoint, a fault or until nobody can run.

    Parameters
    ----------
    S : int64 array, the state (layout.py)
    code : int64 array, rows of isa.WORDS
    P : int64 array, parameters and function table
    micro_op_limit : total micro-op count at which to stop
    millicycle_limit : millicycles; stop when every runnable CPU's clock has reached it

    Returns
    -------
    int64, a Status
    """
    keys = S[H_KEYS]
    tree = S[H_TREE]
    leaves = S[H_LEAVES]
    cpu_blocks = S[H_CPU_BLOCKS]
    counters_start = S[H_COUNTERS]
    counter_words = S[H_COUNTER_WORDS]
    frames = S[H_FRAMES]
    page_frames = S[H_PAGE_FRAMES]
    page_shift = S[H_PAGE_SHIFT]
    page_mask = (1 << page_shift) - 1
    line_shift = S[H_LINE_SHIFT]
    l1_mask = S[H_L1_SETS] - 1
    l1_ways = S[H_L1_WAYS]
    micro_ops = S[H_MICRO_OPS]
    trace = S[H_TRACE_HASH]
    skip_break = S[H_SKIP_BREAK]
    irqs_used = S[H_IRQS_USED]  # grows only from outside
    status = 0
    if S[H_STATUS] == S_FAULT or S[H_STATUS] == S_NEED_MEMORY:
        S[H_STATUS] = 0

    cpu = S[tree + 1]
    while status == 0:
        key = S[keys + cpu]
        block = cpu_blocks + cpu * CPU_WORDS
        if irqs_used and S[block + C_STATE] != RUNNING and key < NEVER and hold_sources(S, cpu, key):
            cpu = S[tree + 1]
            continue
        if key >= NEVER:
            status = S_HALTED
            for other in range(S[H_CPUS]):
                if S[S[H_CPU_BLOCKS] + other * CPU_WORDS + C_STATE] != HALTED:
                    status = S_DEADLOCK
            break
        if micro_ops >= micro_op_limit:
            status = S_MICRO_OPS
            break
        if key >= millicycle_limit:
            status = S_CYCLE
            break
        limit = min(may_run_until(S, keys, tree, leaves, cpu), millicycle_limit - 1)
        counters = counters_start + cpu * counter_words
        clock = S[block + C_CLOCK]
        pc = S[block + C_PC]
        window = S[block + C_WINDOW]
        irq_enabled = S[block + C_IRQ_ENABLED]
        irq_cycle = S[block + C_IRQ_CYCLE]
        irq_micro_op = S[block + C_IRQ_MICRO_OP]
        cpu_micro_ops = S[block + C_MICRO_OPS]
        l1 = S[block + C_L1_BASE]
        if S[block + C_STATE] != RUNNING:
            # Waiting or idle, and chosen because an interrupt is due now.
            clock = max(clock, key)
            if S[block + C_STATE] == WAITING_LOCK:
                stop_waiting(S, cpu)
        parked = False  # this CPU left the scheduler (or its key is already right)

        while True:
            if irq_enabled and (clock >= irq_cycle or cpu_micro_ops >= irq_micro_op):
                row = take_due(S, cpu, clock, cpu_micro_ops)
                if row >= 0:
                    S[block + C_CLOCK] = clock
                    S[block + C_PC] = pc
                    S[block + C_WINDOW] = window
                    S[block + C_IRQ_ENABLED] = irq_enabled
                    woken = S[block + C_WOKEN]
                    entry_pc = enter_interrupt(S, P, cpu, row, pc, clock)
                    if entry_pc < 0:
                        status = note_fault(S, F_STACK, cpu, pc, 0)
                        break
                    if woken:
                        pass_on_wake(S, P, cpu, clock)
                    pc = entry_pc
                    clock = S[block + C_CLOCK]
                    window = S[block + C_WINDOW]
                    irq_enabled = 0
                    limit = min(may_run_until(S, keys, tree, leaves, cpu), millicycle_limit - 1)
                irq_cycle = S[block + C_IRQ_CYCLE]
                irq_micro_op = S[block + C_IRQ_MICRO_OP]
                if clock > limit:
                    break
            if micro_ops >= micro_op_limit:
                status = S_MICRO_OPS
                break
            i = pc * WORDS
            op = code[i]
            if op >= BREAK_BIT:
                if skip_break == 0:
                    status = S_BREAKPOINT
                    break
                op -= BREAK_BIT
            skip_break = 0
            a = window + code[i + 1]
            rb = window + code[i + 2]
            imm = code[i + 4]
            clock += code[i + 7]
            next_pc = pc + 1

            if op == LD or op == LDS or op == ST:
                address = S[rb] + imm
                size = code[i + 6]
                frame = address >> page_shift
                if address & (size - 1) or frame <= 0 or frame >= page_frames:
                    status = note_fault(S, -word_index(S, address, size, 0), cpu, pc, address)
                    break
                entry = S[frames + frame]
                granule = entry & FRAME_GRANULE_MASK
                if granule == 3:
                    index = (entry >> FRAME_SLOT_SHIFT) + ((address & page_mask) >> 3)
                else:
                    index = word_index(S, address, size, 1 if op == ST else 0)
                    if index < 0:
                        status = note_fault(S, -index, cpu, pc, address)
                        break
                line = address >> line_shift
                held = S[l1 + (line & l1_mask) * l1_ways]
                if op == ST:
                    polled = 0
                    if held != (line << 1 | 1):
                        node = (entry >> FRAME_NODE_SHIFT) & FRAME_NODE_MASK
                        latency = access_slow(S, P, cpu, line, 1, node, clock)
                        polled = S[H_POLLED_HIT]
                        clock = buffer_store(S, P, block, counters, clock, latency)
                    value = S[window + code[i + 3]]
                    if size == 8:
                        S[index] = value
                    elif address & 4:
                        S[index] = (S[index] & LOW_32) | (value << 32)
                    else:
                        S[index] = (S[index] & ~LOW_32) | (value & LOW_32)
                    if polled:
                        S[H_EVENT_CPU] = -1
                        after_polled_write(S, P, address, cpu, max(clock, S[block + C_STORE_BUSY]))
                        if S[H_EVENT_CPU] >= 0:
                            limit = min(may_run_until(S, keys, tree, leaves, cpu), millicycle_limit - 1)
                else:
                    if held >> 1 != line:
                        node = (entry >> FRAME_NODE_SHIFT) & FRAME_NODE_MASK
                        clock += access_slow(S, P, cpu, line, 0, node, clock)
                    value = S[index]
                    if size == 4:
                        if address & 4:
                            value = value >> 32
                        value = value & LOW_32
                        if op == LDS:
                            value = (value ^ 0x80000000) - 0x80000000
                    S[a] = value
            elif op == MOV:
                S[a] = S[rb]
            elif op == LI:
                S[a] = imm
            elif op == ADDI:
                S[a] = S[rb] + imm
            elif op == ADD:
                S[a] = S[rb] + S[window + code[i + 3]]
            elif op == SUB:
                S[a] = S[rb] - S[window + code[i + 3]]
            elif op == BEQI:
                if S[rb] == imm:
                    next_pc = code[i + 5]
            elif op == BNEI:
                if S[rb] != imm:
                    next_pc = code[i + 5]
            elif op == BEQ:
                if S[rb] == S[window + code[i + 3]]:
                    next_pc = code[i + 5]
            elif op == BNE:
                if S[rb] != S[window + code[i + 3]]:
                    next_pc = code[i + 5]
            elif op == BLT:
                if S[rb] < S[window + code[i + 3]]:
                    next_pc = code[i + 5]
            elif op == BLE:
                if S[rb] <= S[window + code[i + 3]]:
                    next_pc = code[i + 5]
            elif op == BLTI:
                if S[rb] < imm:
                    next_pc = code[i + 5]
            elif op == BLEI:
                if S[rb] <= imm:
                    next_pc = code[i + 5]
            elif op == BGTI:
                if S[rb] > imm:
                    next_pc = code[i + 5]
            elif op == BGEI:
                if S[rb] >= imm:
                    next_pc = code[i + 5]
            elif op == JMP:
                next_pc = code[i + 5]
            elif op == ANDI:
                S[a] = S[rb] & imm
            elif op == ORI:
                S[a] = S[rb] | imm
            elif op == XORI:
                S[a] = S[rb] ^ imm
            elif op == SHLI:
                S[a] = S[rb] << (imm & 63)
            elif op == SHRI:
                S[a] = S[rb] >> (imm & 63)
            elif op == MULI:
                S[a] = S[rb] * imm
            elif op == COUNT:
                S[counters + HARDWARE_COUNTERS + imm] += 1
            elif op == CALL:
                callee = code[i + 3]
                new_window = window + imm
                if new_window + P[P_COUNT + callee * FUNCTION_WORDS + 1] >= S[block + C_STACK_END]:
                    status = note_fault(S, F_STACK, cpu, pc, 0)
                    break
                S[new_window + FRAME_RETURN_PC] = next_pc
                S[new_window + FRAME_RETURN_WINDOW] = window
                S[new_window + FRAME_RESULT_REGISTER] = code[i + 1]
                S[new_window + FRAME_KIND] = KIND_CALL
                S[new_window + FRAME_FUNCTION] = S[block + C_FUNCTION]
                S[new_window + FRAME_SAVED] = 0
                S[block + C_FUNCTION] = callee
                window = new_window
                next_pc = code[i + 5]
            elif op == RET:
                value = S[rb] if code[i + 2] >= 0 else 0
                kind = S[window + FRAME_KIND]
                if kind == KIND_FIRST:
                    S[block + C_STATE] = HALTED
                    S[block + C_WINDOW] = window
                    parked = True
                    next_pc = -1
                    set_key(S, cpu, irq_cycle if irq_enabled else NEVER)
                else:
                    result = S[window + FRAME_RESULT_REGISTER]
                    next_pc = S[window + FRAME_RETURN_PC]
                    S[block + C_FUNCTION] = S[window + FRAME_FUNCTION]
                    if kind == KIND_INTERRUPT:
                        irq_enabled = S[window + FRAME_SAVED]
                        S[block + C_IRQ_DEPTH] -= 1
                        S[block + C_PREEMPT] -= INTERRUPT_PREEMPT
                        clock += P[P_INTERRUPT_EXIT]
                    window = S[window + FRAME_RETURN_WINDOW]
                    if kind == KIND_CALL and result >= 0:
                        S[window + result] = value
                    if next_pc < 0:
                        S[block + C_STATE] = HALTED
                        parked = True
                        set_key(S, cpu, irq_cycle if irq_enabled else NEVER)
            elif op == IRQ_SAVE:
                S[a] = irq_enabled
                irq_enabled = 0
            elif op == IRQ_RESTORE:
                irq_enabled = S[rb]
            elif op == IRQ_DISABLE:
                irq_enabled = 0
            elif op == IRQ_ENABLE:
                irq_enabled = 1
            elif op == PREEMPT_DISABLE:
                S[block + C_PREEMPT] += 1
            elif op == PREEMPT_ENABLE:
                S[block + C_PREEMPT] -= 1
            elif op == CPU_ID:
                S[a] = cpu
            elif op == NODE_ID:
                S[a] = S[block + C_NODE]
            elif op == SEQ:
                S[a] = 1 if S[rb] == S[window + code[i + 3]] else 0
            elif op == SNE:
                S[a] = 1 if S[rb] != S[window + code[i + 3]] else 0
            elif op == SLT:
                S[a] = 1 if S[rb] < S[window + code[i + 3]] else 0
            elif op == SLE:
                S[a] = 1 if S[rb] <= S[window + code[i + 3]] else 0
            elif op == AND:
                S[a] = S[rb] & S[window + code[i + 3]]
            elif op == OR:
                S[a] = S[rb] | S[window + code[i + 3]]
            elif op == XOR:
                S[a] = S[rb] ^ S[window + code[i + 3]]
            elif op == SHL:
                S[a] = S[rb] << (S[window + code[i + 3]] & 63)
            elif op == SHR:
                S[a] = S[rb] >> (S[window + code[i + 3]] & 63)
            elif op == MUL:
                S[a] = S[rb] * S[window + code[i + 3]]
            elif op == DIV or op == MOD:
                divisor = S[window + code[i + 3]]
                if divisor == 0:
                    status = note_fault(S, F_DIVISION, cpu, pc, 0)
                    break
                if divisor == -1:  # the quotient of the lowest number wraps; the host's division would not
                    S[a] = -S[rb] if op == DIV else 0
                else:
                    S[a] = S[rb] // divisor if op == DIV else S[rb] % divisor
            elif op == DIVI or op == MODI:
                if imm == 0:
                    status = note_fault(S, F_DIVISION, cpu, pc, 0)
                    break
                if imm == -1:
                    S[a] = -S[rb] if op == DIVI else 0
                else:
                    S[a] = S[rb] // imm if op == DIVI else S[rb] % imm
            elif op == NEG:
                S[a] = -S[rb]
            elif op == NOT:
                S[a] = ~S[rb]
            elif op == FLS:
                value = S[rb]
                bits = 64 if value < 0 else 0
                while value > 0:
                    bits += 1
                    value >>= 1
                S[a] = bits
            elif op == LI64:
                S[a] = (code[i + 5] << 32) | (imm & LOW_32)
            elif (CMPXCHG_LOCAL <= op <= UNLOCK_LOCKED) and op != UNLOCK:
                # Read-modify-write of one word (two for the double forms), with the line held exclusively.
                address = S[rb] + imm
                size = code[i + 6]
                index = word_index(S, address, size, 1)
                double = op == CMPXCHG_DOUBLE or op == CMPXCHG_DOUBLE_LOCAL
                if index >= 0 and double and (address & (2 * size - 1)):
                    index = -3
                if index < 0:
                    status = note_fault(S, -index, cpu, pc, address)
                    break
                if op != CMPXCHG_LOCAL and op != CMPXCHG_DOUBLE_LOCAL and op != ATOMIC_ADD_LOCAL:
                    S[counters + N_LOCKED_OPS] += 1
                    clock = max(clock, S[block + C_STORE_BUSY])
                line = address >> line_shift
                polled = 0
                if S[l1 + (line & l1_mask) * l1_ways] != (line << 1 | 1):
                    node = (S[frames + (address >> page_shift)] >> FRAME_NODE_SHIFT) & FRAME_NODE_MASK
                    clock += access_slow(S, P, cpu, line, 1, node, clock)
                    polled = S[H_POLLED_HIT]
                part = 0 if size == 8 else (2 if address & 4 else 1)
                old = load_word(S, index, part)
                operand = S[window + code[i + 3]]
                if op == CMPXCHG_LOCAL or op == CMPXCHG:
                    if size == 4:
                        operand = operand & LOW_32
                    if old == operand:
                        store_word(S, index, part, S[window + code[i + 5]])
                    else:
                        S[counters + N_CMPXCHG_FAILED] += 1
                    S[a] = old
                elif double:
                    registers = window + code[i + 3]
                    if size == 8:
                        second = word_index(S, address + 8, 8, 1)
                        if second < 0:
                            status = note_fault(S, -second, cpu, pc, address + 8)
                            break
                        same = old == S[registers] and S[second] == S[registers + 1]
                        if same:
                            S[index] = S[registers + 2]
                            S[second] = S[registers + 3]
                    else:
                        expected = (S[registers] & LOW_32) | (S[registers + 1] << 32)
                        same = S[index] == expected
                        if same:
                            S[index] = (S[registers + 2] & LOW_32) | (S[registers + 3] << 32)
                    if not same:
                        S[counters + N_CMPXCHG_FAILED] += 1
                    S[a] = 1 if same else 0
                elif op == XCHG:
                    store_word(S, index, part, operand)
                    S[a] = old
                elif op == ATOMIC_ADD or op == ATOMIC_ADD_LOCAL:
                    store_word(S, index, part, old + operand)
                    S[a] = load_word(S, index, part)
                elif op == UNLOCK_LOCKED:
                    mask = code[i + 5]
                    if old & mask == 0:
                        status = note_fault(S, F_UNLOCK_FREE, cpu, pc, address)
                        break
                    store_word(S, index, part, old & ~mask)
                    lock_dropped(S, cpu, address, mask)
                else:  # LOCK, LOCK_IRQSAVE, TRYLOCK
                    mask = code[i + 5]
                    if old & mask == 0:
                        store_word(S, index, part, old | mask)
                        S[counters + N_LOCKS_TAKEN] += 1
                        if S[block + C_WOKEN]:
                            rush(S, P, address)
                        lock_taken(S, cpu, address, mask, clock)
                        if op == TRYLOCK:
                            S[a] = 1
                        elif op == LOCK_IRQSAVE:
                            S[a] = irq_enabled
                            irq_enabled = 0
                    elif op == TRYLOCK:
                        S[a] = 0
                    else:
                        if holds_lock(S, cpu, address, mask):
                            status = note_fault(S, F_SELF_DEADLOCK, cpu, pc, address)
                            break
                        if S[block + C_WOKEN] == 0:
                            S[counters + N_LOCKS_CONTENDED] += 1
                        else:
                            rush(S, P, address)
                        S[block + C_IRQ_ENABLED] = irq_enabled
                        start_waiting(S, cpu, address, mask, clock)
                        next_pc = pc
                        parked = True
                if polled and not parked:
                    S[H_EVENT_CPU] = -1
                    after_polled_write(S, P, address, cpu, clock)
                    if double and size == 8:
                        after_polled_write(S, P, address + 8, cpu, clock)
                    if S[H_EVENT_CPU] >= 0:
                        limit = min(may_run_until(S, keys, tree, leaves, cpu), millicycle_limit - 1)
            elif op == UNLOCK:
                address = S[rb] + imm
                size = code[i + 6]
                index = word_index(S, address, size, 1)
                if index < 0:
                    status = note_fault(S, -index, cpu, pc, address)
                    break
                line = address >> line_shift
                polled = 0
                if S[l1 + (line & l1_mask) * l1_ways] != (line << 1 | 1):
                    node = (S[frames + (address >> page_shift)] >> FRAME_NODE_SHIFT) & FRAME_NODE_MASK
                    latency = access_slow(S, P, cpu, line, 1, node, clock)
                    polled = S[H_POLLED_HIT]
                    clock = buffer_store(S, P, block, counters, clock, latency)
                part = 0 if size == 8 else (2 if address & 4 else 1)
                old = load_word(S, index, part)
                mask = code[i + 5]
                if old & mask == 0:
                    status = note_fault(S, F_UNLOCK_FREE, cpu, pc, address)
                    break
                store_word(S, index, part, old & ~mask)
                lock_dropped(S, cpu, address, mask)
                if polled:
                    S[H_EVENT_CPU] = -1
                    after_polled_write(S, P, address, cpu, max(clock, S[block + C_STORE_BUSY]))
                    if S[H_EVENT_CPU] >= 0:
                        limit = min(may_run_until(S, keys, tree, leaves, cpu), millicycle_limit - 1)
            elif op == LOCK_NOTE:
                if imm == 1:
                    S[counters + N_LOCKS_TAKEN] += 1
                    lock_taken(S, cpu, S[rb] + code[i + 5], ALL_BITS, clock)
                    if S[block + C_CONTENDED]:
                        S[counters + N_LOCK_WAIT_MILLICYCLES] += clock - S[block + C_WAIT_SINCE]
                        S[block + C_CONTENDED] = 0
                elif imm == 2:
                    if S[block + C_CONTENDED] == 0:
                        S[counters + N_LOCKS_CONTENDED] += 1
                        S[block + C_WAIT_SINCE] = clock
                        S[block + C_CONTENDED] = 1
                else:
                    lock_dropped(S, cpu, S[rb] + code[i + 5], ALL_BITS)
            elif op == BARRIER:
                if imm == 3:
                    clock = max(clock, S[block + C_STORE_BUSY])
            elif op == RDTSC:
                S[a] = clock // MILLI
            elif op == PREEMPT_COUNT:
                S[a] = S[block + C_PREEMPT]
            elif op == COUNT_N:
                S[counters + HARDWARE_COUNTERS + imm] += S[rb]
            elif op == PREFETCH:
                frame = S[rb] >> page_shift
                line = S[rb] >> line_shift
                entry = S[frames + frame] if 0 < frame < page_frames else 0
                if entry != 0 and S[l1 + (line & l1_mask) * l1_ways] >> 1 != line:
                    node = (entry >> FRAME_NODE_SHIFT) & FRAME_NODE_MASK
                    access_slow(S, P, cpu, line, 0, node, clock)  # nobody waits for it
            elif op == OWNER_NOTE:
                owner = (S[rb] - S[H_STATIC_ADDRESS]) >> OWNER_SHIFT
                if 0 <= owner < S[H_OWNERS_SIZE]:
                    S[S[H_OWNERS] + owner] = cpu + 1
            elif op == GRANULE:
                outcome = format_memory(S, S[rb], S[window + code[i + 3]], S[window + code[i + 5]])
                if outcome == 1:
                    status = S_NEED_MEMORY
                    S[H_STATUS] = S_NEED_MEMORY
                    clock -= code[i + 7]
                    break
                if outcome == 2:
                    status = note_fault(S, F_BAD_ADDRESS, cpu, pc, S[rb])
                    break
            elif op == RENDEZVOUS:
                # A waiter comes back to this micro-op when it is released, or after an interrupt.
                if S[block + C_ARRIVED] == 0:
                    S[block + C_ARRIVED] = 1
                    S[H_RENDEZVOUS] += 1
                    if S[H_RENDEZVOUS] >= S[H_STARTED]:
                        S[block + C_CLOCK] = clock
                        release_rendezvous(S, cpu)
                        clock = S[block + C_CLOCK]
                        limit = min(may_run_until(S, keys, tree, leaves, cpu), millicycle_limit - 1)
                if S[block + C_ARRIVED] == 1:
                    S[block + C_STATE] = WAITING_RENDEZVOUS
                    next_pc = pc
                    parked = True
                    set_key(S, cpu, irq_cycle if irq_enabled else NEVER)
                else:
                    S[block + C_ARRIVED] = 0
            elif op == BUG:
                status = note_fault(S, F_BUG, cpu, pc, imm)
                break
            elif op == INSTRUCTIONS or op == PAUSE or op == NOP:
                pass  # only time passes
            else:
                status = note_fault(S, F_BAD_OPCODE, cpu, pc, op)
                break

            micro_ops += 1
            cpu_micro_ops += 1
            trace = (trace ^ (pc + (cpu << 24) + clock * CLOCK_FACTOR)) * HASH_FACTOR
            pc = next_pc
            if parked or clock > limit:
                break

        S[block + C_CLOCK] = clock
        S[block + C_PC] = pc
        S[block + C_WINDOW] = window
        S[block + C_IRQ_ENABLED] = irq_enabled
        S[block + C_MICRO_OPS] = cpu_micro_ops
        cpu = S[tree + 1] if parked else replay(S, keys, tree, leaves, cpu, clock)

    S[H_MICRO_OPS] = micro_ops
    S[H_TRACE_HASH] = trace
    S[H_SKIP_BREAK] = skip_break
    S[H_STATUS] = status
    S[H_CURRENT_CPU] = S[tree + 1]
    return status
