"""Finds the places of a run at which something happens: one micro-op at a time, looking at the state between.

``search`` is a loop for ``Machine.run``.  Two kinds of things are found:

* What a micro-op changed.  Position n (micro-ops executed) is a hit if the states at n - 1 and n differ in
  what is asked for: where a CPU is (another line or frame), interrupts, locks, counters, words of memory.
  A state includes what was done to it from outside at its position, so a loop that is called in pieces
  decides about the last micro-op of a piece when it is called again.
* What a micro-op is about to do.  Micro-ops can be marked (``BREAK_BIT``); position n is a hit if the next
  micro-op, number n + 1, is marked.  A search for nothing else runs at the engine's own speed.

A search stops at the first hit, or notes the last one and goes on.  It changes nothing in the run.  All it
needs is in the arrays that ``search_engine`` makes; ``W_*`` are words of its own state.
"""

from __future__ import annotations

from slubviz.hw.isa import (
    BREAK_BIT,
    FRAME_KIND,
    KIND_INTERRUPT,
    WORDS,
    Op,
    Status,
)
from slubviz.hw.jit import njit
from slubviz.hw.layout import (
    C_FUNCTION,
    C_HELD,
    C_IRQ_DEPTH,
    C_MICRO_OPS,
    C_PC,
    C_STATE,
    C_WINDOW,
    CPU_WORDS,
    FUNCTION_WORDS,
    H_COUNTER_WORDS,
    H_COUNTERS,
    H_CPU_BLOCKS,
    H_CPUS,
    H_MICRO_OPS,
    H_SKIP_BREAK,
    K_COUNT,
    N_INTERRUPTS,
    NEVER,
    P_COUNT,
)
from slubviz.hw.locks import lock_row
from slubviz.hw.memory import word_index
from slubviz.hw.search_codes import (
    CPU_ROW,
    EQUAL,
    GREATER,
    IS_CONSTANT,
    IS_UNKNOWN,
    LESS,
    LESS_EQUAL,
    NOT_EQUAL,
    SEVERAL,
    SUBJECT_CPU,
    SUBJECT_CPU_WORD,
    SUBJECT_REGISTER,
    T_FIRST_TERM,
    T_TERMS,
    TERM_WORDS,
    TRIGGER_WORDS,
    W_ADDRESS,
    W_BEFORE,
    W_CHANGED,
    W_COLUMNS,
    W_CPU,
    W_CPU_ROWS,
    W_EARLY,
    W_EXECUTED,
    W_FIRST,
    W_HIT,
    W_LOCKS,
    W_NEXT,
    W_PC,
    W_RESTARTED,
    W_STOP,
    W_WANT,
    W_WORDS,
    WANT_ALL_HALTED,
    WANT_ENTERED,
    WANT_GONE,
    WANT_INTERRUPT_IN,
    WANT_INTERRUPT_OUT,
    WANT_INTO,
    WANT_PLACE,
    WANT_RELEASED,
)
from slubviz.hw.search_frames import check_place, look_at_cpu, note_hit
from slubviz.hw.stepping import ARRAY, next_cpu, stepping_loop

_HALTED = 0
_ST, _UNLOCK_LOCKED, _GRANULE = int(Op.ST), int(Op.UNLOCK_LOCKED), int(Op.GRANULE)
_DOUBLE_LOCAL, _DOUBLE = int(Op.CMPXCHG_DOUBLE_LOCAL), int(Op.CMPXCHG_DOUBLE)
_MICRO_OPS, _BREAKPOINT = int(Status.MICRO_OPS), int(Status.BREAKPOINT)
_ALL_HALTED = int(Status.HALTED)
_FRAME_WANTS = WANT_PLACE | WANT_INTO | WANT_GONE | WANT_ENTERED


@njit("int64(int64[::1], int64, int64, int64[::1], int64[::1], int64[::1])", internal=True)
def terms_hold(S, cpu, trigger, triggers, terms, variables):
    """Whether a trigger's conditions hold for a CPU."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    window = S[block + C_WINDOW]
    first = triggers[trigger * TRIGGER_WORDS + T_FIRST_TERM]
    for i in range(first, first + triggers[trigger * TRIGGER_WORDS + T_TERMS]):
        subject = terms[i * TERM_WORDS]
        argument = terms[i * TERM_WORDS + 1]
        comparison = terms[i * TERM_WORDS + 2]
        wanted = terms[i * TERM_WORDS + 3]
        if subject == SUBJECT_CPU:
            value = cpu
        elif subject == SUBJECT_CPU_WORD:
            value = S[block + argument]
        elif S[block + C_STATE] == _HALTED:
            return 0
        elif subject == SUBJECT_REGISTER:
            value = S[window + argument]
        else:
            at = argument + 2 * S[block + C_PC]
            register = variables[at]
            if register == IS_UNKNOWN:
                return 0
            value = variables[at + 1]
            if register != IS_CONSTANT:
                value += S[window + register]
        if comparison == EQUAL:
            holds = value == wanted
        elif comparison == NOT_EQUAL:
            holds = value != wanted
        elif comparison == LESS:
            holds = value < wanted
        elif comparison == LESS_EQUAL:
            holds = value <= wanted
        elif comparison == GREATER:
            holds = value > wanted
        else:
            holds = value >= wanted
        if not holds:
            return 0
    return 1


@njit(
    "void(int64[::1], int64[::1], int64, int64, int64, int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1])",
    internal=True,
)
def check_cpu(S, W, cpu, position, force, places, parents, columns, values, triggers, terms, variables):
    """What of one CPU has changed."""
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    counters = S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS]
    row = W_CPU_ROWS + cpu * CPU_ROW
    interrupts = S[counters + N_INTERRUPTS] - W[row + 2]
    if S[block + C_MICRO_OPS] != W[row]:
        W[W_EXECUTED] = cpu
    elif interrupts == 0 and force == 0:
        return
    want = W[W_WANT]
    if W[W_CPU] < 0 or W[W_CPU] == cpu:
        if want & WANT_INTERRUPT_IN and interrupts > 0:
            note_hit(W, position, -WANT_INTERRUPT_IN, cpu)
        if want & WANT_INTERRUPT_OUT and W[row + 3] + interrupts > S[block + C_IRQ_DEPTH]:
            note_hit(W, position, -WANT_INTERRUPT_OUT, cpu)
        if want & WANT_RELEASED and S[block + C_HELD] < W[row + 1]:
            note_hit(W, position, -WANT_RELEASED, cpu)
        if want & _FRAME_WANTS and W[W_CPU] == cpu:
            check_place(S, W, position, force and W[W_RESTARTED], interrupts, places, parents)
    W[row] = S[block + C_MICRO_OPS]
    W[row + 1] = S[block + C_HELD]
    W[row + 2] += interrupts
    W[row + 3] = S[block + C_IRQ_DEPTH]
    for i in range(W[W_COLUMNS]):
        at = i * S[H_CPUS] + cpu
        value = S[counters + columns[2 * i]]
        if value != values[at]:
            values[at] = value
            if terms_hold(S, cpu, columns[2 * i + 1], triggers, terms, variables):
                note_hit(W, position, columns[2 * i + 1], cpu)


@njit("int64(int64[::1], int64, int64)", internal=True)
def word_at(S, address, mask):
    """Bits of the 8-byte word at an address; 0 where nothing is stored."""
    index = word_index(S, address, 8, 0)
    return S[index] & mask if index >= 0 else 0


@njit(
    "void(int64[::1], int64[::1], int64, int64, int64, int64[::1], int64[::1], int64[::1], int64[::1])",
    internal=True,
)
def check_words(S, W, position, first, end, words, triggers, terms, variables):
    """Which of some listed words have another value."""
    count = W[W_WORDS]
    for i in range(first, end):
        value = word_at(S, words[i], words[count + i])
        if value != words[2 * count + i]:
            words[2 * count + i] = value
            W[W_CHANGED] = words[i] if W[W_CHANGED] == 0 else SEVERAL
            trigger = words[3 * count + i]
            if terms_hold(S, W[W_EXECUTED], trigger, triggers, terms, variables):
                note_hit(W, position, trigger, W[W_EXECUTED])


@njit("int64(int64[::1], int64, int64)", internal=True)
def first_word(words, count, address):
    """Where words from an address on begin in the sorted table."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < address:
            low = middle + 1
        else:
            high = middle
    return low


@njit(
    "void(int64[::1], int64[::1], int64[::1], int64, int64, int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1])",
    internal=True,
)
def check_tables(S, W, code, position, simple, words, locks, triggers, terms, variables):
    """Words of memory and waiters for locks."""
    count = W[W_WORDS]
    if count:
        op = code[W[W_PC] * WORDS] & (BREAK_BIT - 1)
        first, end = 0, count
        if simple and op != _GRANULE:  # only what the micro-op may have written
            first, end = 0, 0
            if _ST <= op <= _UNLOCK_LOCKED:
                last = (W[W_ADDRESS] | 7) + (8 if op == _DOUBLE or op == _DOUBLE_LOCAL else 0)
                first = first_word(words, count, W[W_ADDRESS] & ~7)
                end = first_word(words, count, last)
        W[W_CHANGED] = 0
        check_words(S, W, position, first, end, words, triggers, terms, variables)
    for i in range(W[W_LOCKS]):
        row = lock_row(S, locks[3 * i], 0)
        waiters = S[row + K_COUNT] if row >= 0 else 0
        if waiters != locks[3 * i + 1]:
            locks[3 * i + 1] = waiters
            note_hit(W, position, locks[3 * i + 2], W[W_EXECUTED])


@njit(
    "void(int64[::1], int64[::1], int64[::1], int64, int64, int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])",
    internal=True,
)
def evaluate(
    S, W, code, position, force, places, parents, columns, values, words, locks, triggers, terms, variables
):
    """Compare the state at a position with the one before, and take it as the one before.

    ``force``: something from outside may have happened too.
    """
    cpu = W[W_NEXT]
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    row = W_CPU_ROWS + cpu * CPU_ROW
    interrupts = S[S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS] + N_INTERRUPTS]
    simple = force == 0 and S[block + C_MICRO_OPS] != W[row] and interrupts == W[row + 2]
    first, end = cpu, cpu + 1
    if not simple:  # whoever was to be next may have been interrupted, and another one have run
        first, end = 0, S[H_CPUS]
    for who in range(first, end):
        check_cpu(S, W, who, position, force, places, parents, columns, values, triggers, terms, variables)
    check_tables(S, W, code, position, simple, words, locks, triggers, terms, variables)
    if W[W_WANT] & WANT_ALL_HALTED and W[W_RESTARTED]:
        note_hit(W, position, -WANT_ALL_HALTED, -1)
    W[W_RESTARTED] = 0
    W[W_BEFORE] = position


@njit("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])", internal=True)
def nothing_changed(S, W, code, columns, values):
    """Whether the micro-op was an ordinary one of whoever was to be next, of no interest; most are."""
    cpu = W[W_NEXT]
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    counters = S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS]
    row = W_CPU_ROWS + cpu * CPU_ROW
    if S[block + C_MICRO_OPS] == W[row] or S[counters + N_INTERRUPTS] != W[row + 2]:
        return 0
    if S[block + C_HELD] != W[row + 1] or S[block + C_IRQ_DEPTH] != W[row + 3] or W[W_LOCKS]:
        return 0
    if cpu == W[W_CPU] and W[W_WANT] & _FRAME_WANTS:
        return 0
    if W[W_WORDS]:
        op = code[W[W_PC] * WORDS] & (BREAK_BIT - 1)
        if _ST <= op <= _UNLOCK_LOCKED or op == _GRANULE:
            return 0
    for i in range(W[W_COLUMNS]):
        if S[counters + columns[2 * i]] != values[i * S[H_CPUS] + cpu]:
            return 0
    W[row] = S[block + C_MICRO_OPS]
    W[W_EXECUTED] = cpu
    return 1


@njit("void(int64[::1], int64[::1], int64[::1])")
def read_words(S, W, words):
    """Take the values of the listed words as those before."""
    count = W[W_WORDS]
    for i in range(count):
        words[2 * count + i] = word_at(S, words[i], words[count + i])


@njit(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])", internal=True
)
def capture(S, W, places, columns, values, words, locks):
    """Take the state as the one before."""
    cpus = S[H_CPUS]
    for cpu in range(cpus):
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        counters = S[H_COUNTERS] + cpu * S[H_COUNTER_WORDS]
        row = W_CPU_ROWS + cpu * CPU_ROW
        W[row] = S[block + C_MICRO_OPS]
        W[row + 1] = S[block + C_HELD]
        W[row + 2] = S[counters + N_INTERRUPTS]
        W[row + 3] = S[block + C_IRQ_DEPTH]
        for i in range(W[W_COLUMNS]):
            values[i * cpus + cpu] = S[counters + columns[2 * i]]
    for i in range(W[W_LOCKS]):
        row = lock_row(S, locks[3 * i], 0)
        locks[3 * i + 1] = S[row + K_COUNT] if row >= 0 else 0
    read_words(S, W, words)
    if W[W_WANT] & _FRAME_WANTS:
        look_at_cpu(S, W, places)
    W[W_RESTARTED] = 0
    W[W_BEFORE] = S[H_MICRO_OPS]


@njit("void(int64[::1], int64[::1], int64[::1])", internal=True)
def look_ahead(S, W, code):
    """Before a micro-op: who is probably next, and what it will touch."""
    cpu = next_cpu(S)
    block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
    pc = S[block + C_PC] if S[block + C_STATE] != _HALTED else 0
    W[W_NEXT] = cpu
    W[W_PC] = pc
    if W[W_WORDS]:
        i = pc * WORDS
        op = code[i] & (BREAK_BIT - 1)
        W[W_ADDRESS] = -1
        if _ST <= op <= _UNLOCK_LOCKED:
            W[W_ADDRESS] = S[S[block + C_WINDOW] + code[i + 2]] + code[i + 4]


@njit("int64(int64[::1], int64[::1])", internal=True)
def interrupt_begins(S, P):
    """Whether some CPU is at the first micro-op of an interrupt handler."""
    for cpu in range(S[H_CPUS]):
        block = S[H_CPU_BLOCKS] + cpu * CPU_WORDS
        if S[block + C_STATE] != _HALTED and S[S[block + C_WINDOW] + FRAME_KIND] == KIND_INTERRUPT:
            if S[block + C_PC] == P[P_COUNT + S[block + C_FUNCTION] * FUNCTION_WORDS]:
                return 1
    return 0


@njit("void(int64[::1], int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])", internal=True)
def check_mark(S, W, position, marks, triggers, terms, variables):
    """A marked micro-op is next: whether one of its triggers holds."""
    cpu = next_cpu(S)
    row = marks[S[S[H_CPU_BLOCKS] + cpu * CPU_WORDS + C_PC]]
    while row >= 0:
        if terms_hold(S, cpu, marks[row], triggers, terms, variables):
            note_hit(W, position, marks[row], cpu)
            return
        row = marks[row + 1]


@stepping_loop(*[ARRAY] * 11)
def search(
    step,
    S,
    code,
    P,
    limit,
    W,
    places,
    parents,
    columns,
    values,
    words,
    locks,
    triggers,
    terms,
    variables,
    marks,
):
    """Run to ``limit`` or to the first hit (if W_STOP); returns a Status.

    Parameters
    ----------
    code : with ``BREAK_BIT`` on the marked micro-ops
    W : state of the search, see ``W_*``
    places, parents : of micro-ops, see ``look_at_cpu``; of inlined functions the one around them
    columns : counter and trigger of each
    values : of these, for each CPU
    words : four columns: addresses (ascending, multiples of 8), masks, values, triggers
    locks : address, number of waiters and trigger of each
    triggers, terms : see ``T_*`` and ``SUBJECT_*``
    variables : pairs of register and number to add, one for each micro-op, for each variable of a term
    marks : for each micro-op the place in this array of its first trigger, -1 for none; then pairs of trigger
        and place of the next pair
    """
    want = W[W_WANT]
    force = 1
    early = W[W_EARLY]
    position = S[H_MICRO_OPS]
    while True:
        if W[W_STOP] and W[W_HIT] >= 0 and not early:
            return _BREAKPOINT  # what the last micro-op changed is looked at when the search goes on
        if want and W[W_BEFORE] >= 0 and position == W[W_BEFORE] + 1:
            evaluate(
                S,
                W,
                code,
                position,
                force,
                places,
                parents,
                columns,
                values,
                words,
                locks,
                triggers,
                terms,
                variables,
            )
        elif want and position != W[W_BEFORE]:
            capture(S, W, places, columns, values, words, locks)
        force = 0
        found = W[W_STOP] and W[W_HIT] >= 0
        if found and not early:
            return _BREAKPOINT
        if position >= limit and not found:
            return _MICRO_OPS
        if position < W[W_FIRST]:
            S[H_SKIP_BREAK] = 1
        if want:
            look_ahead(S, W, code)
        status = step(S, code, P, position + 1 if want or early else limit, NEVER)
        executed = S[H_MICRO_OPS] - position
        position += executed
        if status == _BREAKPOINT:
            # The engine takes a due interrupt before it looks at the mark.  That belongs to the next
            # micro-op, so it is executed too: this position has to be reached in another way.
            S[H_SKIP_BREAK] = 1
            check_mark(S, W, position, marks, triggers, terms, variables)
            if W[W_STOP] and W[W_HIT] >= 0:
                early = interrupt_begins(S, P)
                W[W_EARLY] = early
                if early == 0:
                    S[H_SKIP_BREAK] = 0
            continue
        if executed:
            early = 0
            W[W_EARLY] = 0
            if want:
                W[W_BEFORE] = position - executed
        if status == _ALL_HALTED:
            W[W_RESTARTED] = 1
        if status != _MICRO_OPS:
            S[H_SKIP_BREAK] = 0
            return status
        if position >= limit:
            return _MICRO_OPS
        if want and executed and nothing_changed(S, W, code, columns, values):
            W[W_BEFORE] = position
