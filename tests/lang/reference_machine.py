"""An obvious, slow interpreter of the micro-ops: one CPU, bytes in a dict, no costs, no cache.

It follows the comments of ``slubviz.hw.isa`` and shares no code with the engine, so that compiled
programs can be tested without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from slubviz.hw.isa import FRAME_WORDS, WORDS, Op
from slubviz.model.lang import Program

MASK = (1 << 64) - 1


def signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class MachineFault(Exception):
    """The program did something a machine refuses."""


class ReferenceMachine:
    """Runs one function at a time; memory, counters and interrupt state stay between calls."""

    def __init__(self, program: Program, cpu: int = 0, node: int = 0) -> None:
        self.program = program
        self.rows = program.code.reshape(-1, WORDS).tolist()
        self.bytes: dict[int, int] = {}
        self.cpu, self.node = cpu, node
        self.irqs_enabled = 1
        self.preempt = 0
        self.clock = 0
        self.counters: Counter[str] = Counter()
        self.executed: list[int] = []
        #: (kind, address, size) of every access in order
        self.accesses: list[tuple[str, int, int]] = []
        self.notes: list[tuple[int, int]] = []
        self.granules: list[tuple[int, int, int]] = []
        self.instructions = 0
        #: Called before each micro-op with its pc; may change memory like another CPU would.
        self.on_step: Callable[[int], None] | None = None

    # --- memory --------------------------------------------------------------------------------
    def read(self, address: int, size: int) -> int:
        return sum(self.bytes.get(address + k, 0) << (8 * k) for k in range(size))

    def write(self, address: int, size: int, value: int) -> None:
        for k in range(size):
            self.bytes[address + k] = (value >> (8 * k)) & 0xFF

    def _access(self, kind: str, address: int, size: int) -> None:
        if size not in (4, 8):
            raise MachineFault(f"access of {size} bytes")
        if not 0 < address < 1 << 63:
            raise MachineFault(f"bad address {address:#x}")
        if address % size:
            raise MachineFault(f"misaligned {address:#x} size {size}")
        self.accesses.append((kind, address, size))

    # --- running -------------------------------------------------------------------------------
    def call(self, name: str, *arguments: int, limit: int = 200_000) -> int:
        """Run a function to its end and return its result, signed."""
        function = self.program.function(name)
        assert len(arguments) == len(function.params)
        # every register starts as rubbish: a program that reads one it never wrote shows it
        self.registers: dict[int, int] = {k: signed(v) for k, v in enumerate(arguments)}
        self.stack: list[tuple[int, int, int, int]] = []
        self.window, self.function_index, self.pc = 0, function.index, function.entry_pc
        self.result, self.running = 0, True
        while self.running:
            if limit == 0:
                raise MachineFault("runs too long")
            limit -= 1
            self.step()
        return self.result

    def get(self, register: int) -> int:
        self._check(register)
        return self.registers.get(self.window + register, 0x5BAD5BAD)

    def put(self, register: int, value: int) -> None:
        self._check(register)
        self.registers[self.window + register] = signed(value)

    def _check(self, register: int) -> None:
        function = self.program.functions[self.function_index]
        if not 0 <= register < function.window_words:
            raise MachineFault(f"register {register} is outside the window of {function.name}")
        outgoing = function.locals_count + FRAME_WORDS
        if function.locals_count <= register < outgoing:
            raise MachineFault(f"register {register} is in a callee's frame header")

    def step(self) -> None:
        pc = self.pc
        if not 0 <= pc < len(self.rows):
            raise MachineFault(f"pc {pc}")
        function = self.program.functions[self.function_index]
        if not function.entry_pc <= pc < function.end_pc:
            raise MachineFault(f"pc {pc} is outside {function.name}")
        if self.on_step is not None:
            self.on_step(pc)
        self.executed.append(pc)
        self.clock += 1
        self.pc = pc + 1
        number, a, b, c, imm, aux, size, cost = self.rows[pc]
        assert cost == 0
        op = Op(number)
        if op in _BINARY:
            self.put(a, _BINARY[op](self.get(b), self.get(c)))
        elif op in _IMMEDIATE:
            self.put(a, _IMMEDIATE[op](self.get(b), imm))
        elif op in _BRANCH:
            if _BRANCH[op](self.get(b), self.get(c)):
                self.pc = aux
        elif op in _BRANCH_IMMEDIATE:
            if _BRANCH_IMMEDIATE[op](self.get(b), imm):
                self.pc = aux
        elif Op.LD <= op <= Op.LOCK_NOTE:
            self._memory(op, a, b, c, imm, aux, size)
        else:
            self._other(op, a, b, c, imm, aux)

    def _memory(self, op: Op, a: int, b: int, c: int, imm: int, aux: int, size: int) -> None:
        if op is Op.LOCK_NOTE:
            self.notes.append((imm, self.get(b) + aux))
            return
        address = self.get(b) + imm
        self._access(op.name, address, size)
        old = self.read(address, size)
        mask = (1 << (8 * size)) - 1
        if op is Op.LD:
            self.put(a, old)
        elif op is Op.LDS:
            assert size == 4
            self.put(a, signed(old, 32))
        elif op is Op.ST:
            self.write(address, size, self.get(c))
        elif op in (Op.CMPXCHG, Op.CMPXCHG_LOCAL):
            if old == self.get(c) & mask:
                self.write(address, size, self.get(aux))
            self.put(a, old)
        elif op in (Op.CMPXCHG_DOUBLE, Op.CMPXCHG_DOUBLE_LOCAL):
            expected = [self.get(c + k) & mask for k in range(2)]
            swapped = [old, self.read(address + size, size)] == expected
            if swapped:
                self.write(address, size, self.get(c + 2))
                self.write(address + size, size, self.get(c + 3))
            self.put(a, int(swapped))
        elif op is Op.XCHG:
            new = self.get(c)
            self.put(a, old)
            self.write(address, size, new)
        elif op is Op.ATOMIC_ADD:
            new = old + self.get(c)
            self.write(address, size, new)
            self.put(a, new & mask)  # like a load, without the sign
        elif op in (Op.LOCK, Op.LOCK_IRQSAVE, Op.TRYLOCK):
            free = old & aux == 0
            if free:
                self.write(address, size, old | aux)
            elif op is not Op.TRYLOCK:
                raise MachineFault("waits for a lock that nobody will release")
            if op is Op.TRYLOCK:
                self.put(a, int(free))
            elif op is Op.LOCK_IRQSAVE:
                self.put(a, self.irqs_enabled)
                self.irqs_enabled = 0
        else:
            assert op in (Op.UNLOCK, Op.UNLOCK_LOCKED)
            if old & aux != aux:
                raise MachineFault("unlock of a free lock")
            self.write(address, size, old & ~aux)

    def _other(self, op: Op, a: int, b: int, c: int, imm: int, aux: int) -> None:
        if op is Op.MOV:
            self.put(a, self.get(b))
        elif op is Op.LI:
            self.put(a, imm)
        elif op is Op.LI64:
            self.put(a, (aux << 32) | (imm & 0xFFFFFFFF))
        elif op is Op.NEG:
            self.put(a, -self.get(b))
        elif op is Op.NOT:
            self.put(a, ~self.get(b))
        elif op is Op.FLS:
            self.put(a, (self.get(b) & MASK).bit_length())
        elif op is Op.JMP:
            self.pc = aux
        elif op is Op.CALL:
            self._call(a, c, imm, aux)
        elif op is Op.RET:
            self._return(0 if b == -1 else self.get(b))
        elif op is Op.IRQ_SAVE:
            self.put(a, self.irqs_enabled)
            self.irqs_enabled = 0
        elif op is Op.IRQ_RESTORE:
            self.irqs_enabled = self.get(b)
        elif op in (Op.IRQ_DISABLE, Op.IRQ_ENABLE):
            self.irqs_enabled = int(op is Op.IRQ_ENABLE)
        elif op in (Op.PREEMPT_DISABLE, Op.PREEMPT_ENABLE):
            self.preempt += 1 if op is Op.PREEMPT_DISABLE else -1
        elif op is Op.PREEMPT_COUNT:
            self.put(a, self.preempt)
        elif op is Op.RDTSC:
            self.put(a, self.clock)
        elif op is Op.CPU_ID:
            self.put(a, self.cpu)
        elif op is Op.NODE_ID:
            self.put(a, self.node)
        elif op is Op.COUNT:
            self.counters[self.program.counters[imm]] += 1
        elif op is Op.COUNT_N:
            self.counters[self.program.counters[imm]] += self.get(b)
        elif op is Op.INSTRUCTIONS:
            self.instructions += imm
        elif op is Op.GRANULE:
            self.granules.append((self.get(b), self.get(c), self.get(aux)))
        elif op is Op.BUG:
            raise MachineFault(f"BUG: {self.program.bug_messages[imm]}")
        elif op not in (Op.BARRIER, Op.PAUSE, Op.RENDEZVOUS, Op.NOP, Op.OWNER_NOTE, Op.PREFETCH):
            raise MachineFault(f"unknown micro-op {op}")

    def _call(self, a: int, c: int, imm: int, aux: int) -> None:
        callee, caller = self.program.functions[c], self.program.functions[self.function_index]
        assert aux == callee.entry_pc
        assert imm == caller.locals_count + FRAME_WORDS
        self.stack.append((self.pc, self.window, a, self.function_index))
        self.window += imm
        for register in range(len(callee.params), callee.window_words):
            self.registers.pop(self.window + register, None)
        self.function_index, self.pc = c, aux

    def _return(self, value: int) -> None:
        if not self.stack:
            self.result, self.running = value, False
            return
        self.pc, self.window, register, self.function_index = self.stack.pop()
        if register >= 0:
            self.put(register, value)


_BINARY: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda x, y: x + y,
    Op.SUB: lambda x, y: x - y,
    Op.MUL: lambda x, y: x * y,
    Op.DIV: lambda x, y: x // y,
    Op.MOD: lambda x, y: x % y,
    Op.AND: lambda x, y: x & y,
    Op.OR: lambda x, y: x | y,
    Op.XOR: lambda x, y: x ^ y,
    Op.SHL: lambda x, y: x << (y & 63),
    Op.SHR: lambda x, y: x >> (y & 63),
    Op.SEQ: lambda x, y: int(x == y),
    Op.SNE: lambda x, y: int(x != y),
    Op.SLT: lambda x, y: int(x < y),
    Op.SLE: lambda x, y: int(x <= y),
}
_IMMEDIATE: dict[Op, Callable[[int, int], int]] = {
    Op.ADDI: lambda x, y: x + y,
    Op.MULI: lambda x, y: x * y,
    Op.DIVI: lambda x, y: x // y,
    Op.MODI: lambda x, y: x % y,
    Op.ANDI: lambda x, y: x & y,
    Op.ORI: lambda x, y: x | y,
    Op.XORI: lambda x, y: x ^ y,
    Op.SHLI: lambda x, y: x << y,
    Op.SHRI: lambda x, y: x >> y,
}
_BRANCH: dict[Op, Callable[[int, int], bool]] = {
    Op.BEQ: lambda x, y: x == y,
    Op.BNE: lambda x, y: x != y,
    Op.BLT: lambda x, y: x < y,
    Op.BLE: lambda x, y: x <= y,
}
_BRANCH_IMMEDIATE: dict[Op, Callable[[int, int], bool]] = {
    Op.BEQI: lambda x, y: x == y,
    Op.BNEI: lambda x, y: x != y,
    Op.BLTI: lambda x, y: x < y,
    Op.BLEI: lambda x, y: x <= y,
    Op.BGTI: lambda x, y: x > y,
    Op.BGEI: lambda x, y: x >= y,
}
