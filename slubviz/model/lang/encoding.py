"""Which fields of a micro-op are registers, and how branches relate: shared by compiler and disassembler."""

from __future__ import annotations

from slubviz.hw.isa import Op

_BINARY = (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR)
_SET = (Op.SEQ, Op.SNE, Op.SLT, Op.SLE)
_IMMEDIATE = (
    Op.ADDI, Op.MULI, Op.DIVI, Op.MODI, Op.ANDI, Op.ORI, Op.XORI, Op.SHLI, Op.SHRI,
)  # fmt: skip
_BRANCH = (Op.BEQ, Op.BNE, Op.BLT, Op.BLE)
_BRANCH_IMMEDIATE = (Op.BEQI, Op.BNEI, Op.BLTI, Op.BLEI, Op.BGTI, Op.BGEI)

#: The fields that name registers, in the letters of ``slubviz.hw.isa`` ("x" is ``aux``).
REGISTER_FIELDS: dict[Op, str] = {
    **dict.fromkeys(_BINARY + _SET, "abc"),
    **dict.fromkeys(_IMMEDIATE, "ab"),
    **dict.fromkeys(_BRANCH, "bc"),
    **dict.fromkeys(_BRANCH_IMMEDIATE, "b"),
    **dict.fromkeys((Op.MOV, Op.NEG, Op.NOT, Op.FLS, Op.LD, Op.LDS, Op.TRYLOCK, Op.LOCK_IRQSAVE), "ab"),
    **dict.fromkeys((Op.LI, Op.LI64, Op.CALL, Op.IRQ_SAVE, Op.RDTSC, Op.CPU_ID, Op.NODE_ID), "a"),
    **dict.fromkeys((Op.RET, Op.LOCK, Op.UNLOCK, Op.UNLOCK_LOCKED, Op.LOCK_NOTE, Op.IRQ_RESTORE), "b"),
    **dict.fromkeys((Op.CMPXCHG_LOCAL, Op.CMPXCHG), "abcx"),
    **dict.fromkeys((Op.CMPXCHG_DOUBLE_LOCAL, Op.CMPXCHG_DOUBLE, Op.XCHG, Op.ATOMIC_ADD), "abc"),
    Op.ST: "bc",
    Op.GRANULE: "bcx",
    Op.PREEMPT_COUNT: "a",
    Op.COUNT_N: "b",
    Op.OWNER_NOTE: "b",
    Op.PREFETCH: "b",
}

#: Micro-ops that may continue at their target.
BRANCHES = frozenset(_BRANCH + _BRANCH_IMMEDIATE)
#: Micro-ops after which the next one is not reached.
TERMINATORS = frozenset((Op.JMP, Op.RET))

#: The opposite condition, and whether ``b`` and ``c`` change places for it.
INVERSE: dict[Op, tuple[Op, bool]] = {
    Op.BEQ: (Op.BNE, False),
    Op.BNE: (Op.BEQ, False),
    Op.BLT: (Op.BLE, True),
    Op.BLE: (Op.BLT, True),
    Op.BEQI: (Op.BNEI, False),
    Op.BNEI: (Op.BEQI, False),
    Op.BLTI: (Op.BGEI, False),
    Op.BGEI: (Op.BLTI, False),
    Op.BLEI: (Op.BGTI, False),
    Op.BGTI: (Op.BLEI, False),
}
