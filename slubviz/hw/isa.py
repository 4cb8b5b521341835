"""The micro-ops of the simulated machine and how they are encoded.

A micro-op is the unit of atomicity: another CPU or an interrupt can come between any two,
never inside one.  The encoding is a row of ``WORDS`` int32 numbers; a program is one flat
array of rows, so micro-op number ``pc`` starts at ``code[pc * WORDS]``.

Row layout (``F_*`` are offsets into the row)::

    op  a  b  c  imm  aux  size  cost

``a``, ``b``, ``c`` are register numbers relative to the frame of the running function, unless the table
below says otherwise.  ``imm`` is a 32-bit signed number, ``aux`` a register, a target or a further number,
``size`` the access width in bytes (4 or 8).  ``cost`` is the plain instruction cost in millicycles; the
loader fills it in from the machine file, a compiler leaves it 0.

Notation: ``r[x]`` is a register, ``m[x]`` memory at byte address ``x``, ``ea = r[b] + imm``.
"""

from __future__ import annotations

from enum import IntEnum

WORDS = 8
F_OP, F_A, F_B, F_C, F_IMM, F_AUX, F_SIZE, F_COST = range(WORDS)

#: Added to ``op`` by the session to mark a breakpoint on a micro-op.
BREAK_BIT = 256

#: Words between the end of a function's locals and the first argument of a callee: the callee's frame
#: header (see ``FRAME_*``).  The register window of a callee therefore starts at ``caller_window + imm``
#: where ``imm`` of CALL is ``number_of_locals + FRAME_WORDS``.
FRAME_WORDS = 6
#: Header words, counted backwards from a window's register 0.
FRAME_RETURN_PC = -1  #: micro-op to continue at
FRAME_RETURN_WINDOW = -2  #: caller's window (absolute index in the state)
FRAME_RESULT_REGISTER = -3  #: caller's register that takes the result, -1 for none
FRAME_KIND = -4  #: see ``KIND_*``
FRAME_FUNCTION = -5  #: index of the running function
FRAME_SAVED = -6  #: an interrupt's saved interrupt flag; else 0
#: How a frame came about.
KIND_CALL, KIND_INTERRUPT, KIND_FIRST = 0, 1, 2


class Op(IntEnum):
    """Opcodes.  The comment of each says what it does, and which row fields it uses."""

    NOP = 0  # nothing
    # --- registers -----------------------------------------------------------------
    MOV = 1  # r[a] = r[b]
    LI = 2  # r[a] = imm
    LI64 = 3  # r[a] = (aux << 32) | (imm & 0xffffffff)
    ADD = 4  # r[a] = r[b] + r[c]        (64-bit, wraps)
    SUB = 5  # r[a] = r[b] - r[c]
    MUL = 6  # r[a] = r[b] * r[c]
    DIV = 7  # r[a] = r[b] // r[c]       (floor; division by zero is a fault)
    MOD = 8  # r[a] = r[b] % r[c]
    AND = 9
    OR = 10
    XOR = 11
    SHL = 12  # r[a] = r[b] << (r[c] & 63)
    SHR = 13  # r[a] = r[b] >> (r[c] & 63)   (arithmetic)
    ADDI = 14  # r[a] = r[b] + imm
    MULI = 15  # r[a] = r[b] * imm
    DIVI = 16  # r[a] = r[b] // imm      (imm != 0)
    MODI = 17  # r[a] = r[b] % imm       (imm != 0)
    ANDI = 18  # r[a] = r[b] & imm       (imm sign-extended)
    ORI = 19
    XORI = 20
    SHLI = 21
    SHRI = 22
    NEG = 23  # r[a] = -r[b]
    NOT = 24  # r[a] = ~r[b]
    FLS = 25  # r[a] = position of the highest set bit of r[b], 1-based; 0 for 0
    SEQ = 26  # r[a] = 1 if r[b] == r[c] else 0
    SNE = 27
    SLT = 28  # signed <
    SLE = 29  # signed <=
    # --- control flow; targets are absolute micro-op numbers in aux ----------------------
    JMP = 30  # pc = aux
    BEQ = 31  # if r[b] == r[c]: pc = aux
    BNE = 32
    BLT = 33
    BLE = 34
    BEQI = 35  # if r[b] == imm: pc = aux
    BNEI = 36
    BLTI = 37
    BLEI = 38
    BGTI = 39
    BGEI = 40
    CALL = 41  # call function number c; entry pc in aux; window += imm; result to r[a] (a = -1: none)
    RET = 42  # return r[b] (b = -1: returns 0)
    # --- memory --------------------------------------------------------------------------
    LD = 43  # r[a] = m[ea], size 8, or size 4 zero-extended
    LDS = 44  # r[a] = m[ea], size 4 sign-extended
    ST = 45  # m[ea] = r[c]
    CMPXCHG_LOCAL = 46  # r[a] = old m[ea]; if it equals r[c]: m[ea] = r[aux].  Not locked
    CMPXCHG = 47  # the same, locked: visible to and safe against other CPUs
    CMPXCHG_DOUBLE_LOCAL = (
        48  # m[ea], m[ea+size] against r[c], r[c+1]; new r[c+2], r[c+3]; r[a] = 1 if swapped
    )
    CMPXCHG_DOUBLE = 49  # the same, locked
    XCHG = 50  # r[a] = old m[ea]; m[ea] = r[c]; locked
    ATOMIC_ADD = 51  # m[ea] += r[c]; r[a] = new value; locked
    ATOMIC_ADD_LOCAL = 52  # the same, not locked; what the loader makes of it for a kernel of one CPU
    # --- locks: the bits `aux` of m[ea] are the lock; clear means free --------------------------
    LOCK = 53  # wait until (m[ea] & aux) == 0, then set the bits; locked
    # LOCK with interrupts off: r[a] = interrupt flag; while it waits, interrupts are as they were before
    LOCK_IRQSAVE = 54
    TRYLOCK = 55  # r[a] = 1 and take it if free, else r[a] = 0; locked
    UNLOCK = 56  # clear the bits with a plain store
    UNLOCK_LOCKED = 57  # clear the bits with a locked operation
    # annotation, free of cost, of a lock at r[b] + aux that is taken by other means:
    # imm 1 acquired, 0 released, 2 found taken
    LOCK_NOTE = 58
    # --- interrupts and preemption ------------------------------------------------------------
    IRQ_SAVE = 59  # r[a] = interrupt flag (1 enabled); disable
    IRQ_RESTORE = 60  # interrupt flag = r[b]
    IRQ_DISABLE = 61
    IRQ_ENABLE = 62
    PREEMPT_DISABLE = 63  # preempt count += 1
    PREEMPT_ENABLE = 64  # preempt count -= 1
    # --- the rest ----------------------------------------------------------------------
    BARRIER = 65  # imm 0 compiler barrier, 1 write, 2 read, 3 full
    RDTSC = 66  # r[a] = clock in cycles
    CPU_ID = 67  # r[a] = number of this CPU
    NODE_ID = 68  # r[a] = node of this CPU
    COUNT = 69  # counter number imm of this CPU += 1; free of cost
    INSTRUCTIONS = 70  # imm straight-line instructions whose effect is not modelled
    GRANULE = 71  # memory r[b] .. r[b]+r[c]-1 keeps one word per r[aux] bytes from now on; free of cost
    RENDEZVOUS = 72  # wait until every started CPU is here; free of cost
    PAUSE = 73  # cpu_relax
    BUG = 74  # stop with fault: message number imm
    PREEMPT_COUNT = 75  # r[a] = preempt count (an interrupt counts 65536 each)
    COUNT_N = 76  # counter number imm of this CPU += r[b]; free of cost
    OWNER_NOTE = 77  # annotation, free of cost: this CPU is the last that claimed the structure at r[b]
    PREFETCH = 78  # ask for the line of address r[b] and go on; ignored where there is no memory


class CpuState(IntEnum):
    """What a CPU is doing."""

    HALTED = 0  #: nothing to run
    RUNNING = 1
    WAITING_LOCK = 2  #: spins on a lock
    WAITING_RENDEZVOUS = 3


class Status(IntEnum):
    """Why the engine returned."""

    RUNNING = 0  #: never returned; initial value
    MICRO_OPS = 1  #: the micro-op limit was reached
    CYCLE = 2  #: every runnable CPU reached the cycle limit
    BREAKPOINT = 3
    HALTED = 4  #: every CPU has halted
    DEADLOCK = 5  #: nobody can run, somebody waits
    FAULT = 6  #: a program error; see Fault
    NEED_MEMORY = 7  #: the backing store must grow; the micro-op has not run


class Fault(IntEnum):
    """Program errors that the machine detects."""

    NONE = 0
    NULL_POINTER = 1
    BAD_ADDRESS = 2
    MISALIGNED = 3
    GRANULE = 4  #: another word of this granule is stored: the page keeps one word per granule
    STACK_OVERFLOW = 5
    DIVISION_BY_ZERO = 6
    BUG = 7
    BAD_OPCODE = 8
    UNLOCK_FREE = 9  #: unlock of a lock that is not held
    SELF_DEADLOCK = 10  #: a CPU waits for a lock it holds itself
