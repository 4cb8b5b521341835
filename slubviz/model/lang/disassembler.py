"""Micro-ops as readable lines, with the names of variables where a register has one."""

from __future__ import annotations

from slubviz.hw.isa import (
    BREAK_BIT,
    F_A,
    F_AUX,
    F_B,
    F_C,
    F_IMM,
    F_OP,
    F_SIZE,
    FRAME_WORDS,
    WORDS,
    Op,
)  # fmt: skip
from slubviz.model.lang.program import Function, Program

_SIGNS: dict[Op, str] = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "//", Op.MOD: "%", Op.AND: "&", Op.OR: "|", Op.XOR: "^",
    Op.SHL: "<<", Op.SHR: ">>", Op.SEQ: "==", Op.SNE: "!=", Op.SLT: "<", Op.SLE: "<=",
}  # fmt: skip
_IMMEDIATE_SIGNS: dict[Op, str] = {
    Op.ADDI: "+", Op.MULI: "*", Op.DIVI: "//", Op.MODI: "%", Op.ANDI: "&", Op.ORI: "|", Op.XORI: "^",
    Op.SHLI: "<<", Op.SHRI: ">>",
}  # fmt: skip
_BRANCH_SIGNS: dict[Op, str] = {
    Op.BEQ: "==", Op.BNE: "!=", Op.BLT: "<", Op.BLE: "<=", Op.BEQI: "==", Op.BNEI: "!=", Op.BLTI: "<",
    Op.BLEI: "<=", Op.BGTI: ">", Op.BGEI: ">=",
}  # fmt: skip
_PLAIN: dict[Op, str] = {
    Op.NOP: "nop", Op.IRQ_DISABLE: "irq_disable", Op.IRQ_ENABLE: "irq_enable",
    Op.PREEMPT_DISABLE: "preempt_disable", Op.PREEMPT_ENABLE: "preempt_enable",
    Op.RENDEZVOUS: "rendezvous", Op.PAUSE: "cpu_relax",
}  # fmt: skip
_READS: dict[Op, str] = {
    Op.IRQ_SAVE: "irq_save", Op.RDTSC: "rdtsc", Op.CPU_ID: "smp_processor_id", Op.NODE_ID: "numa_node_id",
    Op.PREEMPT_COUNT: "preempt_count",
}  # fmt: skip
_BARRIERS = ("barrier", "smp_wmb", "smp_rmb", "smp_mb")


class _Row:
    """One micro-op and the names of its registers."""

    def __init__(self, program: Program, pc: int) -> None:
        row = [int(v) for v in program.code[pc * WORDS : (pc + 1) * WORDS]]
        self.op = Op(row[F_OP] & ~BREAK_BIT)
        self.numbers = {"a": row[F_A], "b": row[F_B], "c": row[F_C], "x": row[F_AUX]}
        self.imm, self.aux, self.size = row[F_IMM], row[F_AUX], row[F_SIZE]
        self.program, self.pc = program, pc
        self.function = program.function_at(pc)

    def name(self, field: str, offset: int = 0) -> str:
        """The register in ``field`` (plus ``offset``), by its variable's name if it has one now."""
        return register_name(self.function, self.numbers[field] + offset, self.pc, written=field == "a")

    def memory(self, offset: int | None = None) -> str:
        """The address ``[b+imm]``."""
        value = self.imm if offset is None else offset
        return f"[{self.name('b')}{value:+d}]"


def register_name(function: Function, register: int, pc: int, *, written: bool = False) -> str:
    """Name of a register at micro-op ``pc``: a variable, ``arg0`` of the next call, or ``r5``.

    Parameters
    ----------
    written
        The micro-op writes the register, so a variable that starts right after it counts too.
    """
    if register >= function.locals_count + FRAME_WORDS:
        return f"arg{register - function.locals_count - FRAME_WORDS}"
    best = ""
    best_site = -2
    for variable in function.variables:
        known = variable.first_pc <= pc + written and pc < variable.end_pc
        if known and variable.register == register and variable.value == 0 and best_site < 0:
            best, best_site = variable.name, variable.site
    return best or f"r{register}"


def disassemble(program: Program, pc: int) -> str:
    """Micro-op ``pc`` as one readable line.

    Raises
    ------
    IndexError
        If the program has no such micro-op.
    """
    if not 0 <= pc < program.micro_ops:
        raise IndexError(f"micro-op {pc} is outside 0 .. {program.micro_ops - 1}")
    row = _Row(program, pc)
    for part in (_register_text, _flow_text, _memory_text, _other_text):
        text = part(row)
        if text:
            return text
    return row.op.name.lower()


def _register_text(row: _Row) -> str:
    op = row.op
    if op in _SIGNS:
        return f"{row.name('a')} = {row.name('b')} {_SIGNS[op]} {row.name('c')}"
    if op in _IMMEDIATE_SIGNS:
        if op is Op.ADDI and row.imm < 0:
            return f"{row.name('a')} = {row.name('b')} - {-row.imm}"
        return f"{row.name('a')} = {row.name('b')} {_IMMEDIATE_SIGNS[op]} {row.imm}"
    if op is Op.MOV:
        return f"{row.name('a')} = {row.name('b')}"
    if op is Op.LI:
        return f"{row.name('a')} = {row.imm}"
    if op is Op.LI64:
        return f"{row.name('a')} = {(row.aux << 32) | (row.imm & 0xFFFFFFFF):#x}"
    if op in (Op.NEG, Op.NOT):
        return f"{row.name('a')} = {'-' if op is Op.NEG else '~'}{row.name('b')}"
    return f"{row.name('a')} = fls({row.name('b')})" if op is Op.FLS else ""


def _flow_text(row: _Row) -> str:
    op = row.op
    if op is Op.JMP:
        return f"goto {row.aux}"
    if op in _BRANCH_SIGNS:
        right = str(row.imm) if op.name.endswith("I") else row.name("c")
        return f"if {row.name('b')} {_BRANCH_SIGNS[op]} {right} goto {row.aux}"
    if op is Op.CALL:
        called = row.program.functions[row.numbers["c"]]
        arguments = ", ".join(f"arg{k}" for k in range(len(called.params)))
        result = "" if row.numbers["a"] < 0 else f"{row.name('a')} = "
        return f"{result}call {called.name}({arguments})"
    if op is Op.RET:
        return "return" if row.numbers["b"] < 0 else f"return {row.name('b')}"
    return ""


def _memory_text(row: _Row) -> str:
    op, name = row.op, row.op.name.lower()
    if op in (Op.LD, Op.LDS):
        return f"{row.name('a')} = {'signed ' if op is Op.LDS else ''}{row.memory()}"
    if op is Op.ST:
        return f"{row.memory()} = {row.name('c')}"
    if op in (Op.CMPXCHG, Op.CMPXCHG_LOCAL):
        return f"{row.name('a')} = {name} {row.memory()} {row.name('c')} -> {row.name('x')}"
    if op in (Op.CMPXCHG_DOUBLE, Op.CMPXCHG_DOUBLE_LOCAL):
        old1, old2, new1, new2 = (row.name("c", k) for k in range(4))
        return f"{row.name('a')} = {name} {row.memory()} {old1}, {old2} -> {new1}, {new2}"
    if op in (Op.XCHG, Op.ATOMIC_ADD):
        return f"{row.name('a')} = {name} {row.memory()} {row.name('c')}"
    if op in (Op.LOCK, Op.UNLOCK, Op.UNLOCK_LOCKED):
        return f"{name} {row.memory()} bits {row.aux:#x}"
    if op in (Op.TRYLOCK, Op.LOCK_IRQSAVE):
        return f"{row.name('a')} = {name} {row.memory()} bits {row.aux:#x}"
    if op is Op.LOCK_NOTE:
        return f"{('lock_released', 'lock_acquired', 'lock_contended')[row.imm]} {row.memory(row.aux)}"
    return ""


def _other_text(row: _Row) -> str:
    op = row.op
    if op in _PLAIN:
        return _PLAIN[op]
    if op in _READS:
        return f"{row.name('a')} = {_READS[op]}"
    if op is Op.IRQ_RESTORE:
        return f"irq_restore {row.name('b')}"
    if op is Op.BARRIER:
        return _BARRIERS[row.imm]
    if op in (Op.COUNT, Op.COUNT_N):
        counter = row.program.counters[row.imm]
        return f"count {counter}" if op is Op.COUNT else f"count {counter} += {row.name('b')}"
    if op is Op.INSTRUCTIONS:
        return f"instructions {row.imm}"
    if op is Op.GRANULE:
        return f"granule {row.name('b')}, {row.name('c')} bytes, one word per {row.name('x')}"
    if op is Op.PREFETCH:
        return f"prefetch {row.name('b')}"
    if op is Op.OWNER_NOTE:
        return f"owner_note {row.name('b')}"
    if op is Op.BUG:
        return f'bug "{row.program.bug_messages[row.imm]}"'
    return ""
