"""Random multi-CPU programs: hypothesis draws statements, ``Builder`` turns them into rows.

Registers 0 .. 5 are data, 6 .. 9 operands of the double-word operations (8 and 9 also of walks), 10 is the
base of shared memory, 11 of the CPU's own line, 12 and 13 loop counters, 14 a saved interrupt flag, 15
scratch.  Shared lines are chosen to collide in the small caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from slubviz.hw.isa import Op
from tests.hw.assemble import LINE_BYTES, PAGE_BYTES, PAGE_FRAMES, PAGES, STATIC, Assembler

SHARED_LINES = (0, 1, 2, 8, 16, 24)
LOCK_LINE = 40
#: Two locks in one line (one of them 4 bytes wide, in an upper half), one in its own; taken in this order.
LOCKS = ((LOCK_LINE * LINE_BYTES, 8, 1), (LOCK_LINE * LINE_BYTES + 12, 4, 4), (41 * LINE_BYTES, 8, 1 << 20))
IRQ_LOCK = 0  #: handlers take it, so everybody else takes it with interrupts off
OWN_LINE = 48
SHARED, OWN, FLAGS, SCRATCH = 10, 11, 14, 15
FAR = 99  #: stands for page memory of the last node, reached from SHARED
FAR_OFFSET = PAGES + 6 * PAGE_BYTES - STATIC
COUNTERS = 8

Statement = tuple[Any, ...]  # (kind, …)

_data = st.integers(0, 5)
_immediate = st.integers(-(2**31), 2**31 - 1)
_small = st.integers(-4, 70)
_where = st.tuples(st.sampled_from((SHARED, OWN, FAR)), st.sampled_from(SHARED_LINES), st.integers(0, 3))

_alu = st.tuples(
    st.just("alu"),
    st.sampled_from(
        [
            Op.ADD,
            Op.SUB,
            Op.MUL,
            Op.AND,
            Op.OR,
            Op.XOR,
            Op.SHL,
            Op.SHR,
            Op.SEQ,
            Op.SNE,
            Op.SLT,
            Op.SLE,
            Op.MOV,
            Op.NEG,
            Op.NOT,
            Op.FLS,
        ]
    ),
    _data,
    _data,
    _data,
)
_alu_immediate = st.tuples(
    st.just("alui"),
    st.sampled_from([Op.LI, Op.ADDI, Op.MULI, Op.ANDI, Op.ORI, Op.XORI]),
    _data,
    _data,
    _immediate | _small,
)
_shift = st.tuples(st.just("alui"), st.sampled_from([Op.SHLI, Op.SHRI]), _data, _data, st.integers(0, 63))
_divide = st.tuples(
    st.just("alui"),
    st.sampled_from([Op.DIVI, Op.MODI]),
    _data,
    _data,
    st.sampled_from([1, 2, 7, -3, 64, -1000]),
)
_memory = st.tuples(
    st.just("memory"), st.sampled_from([Op.LD, Op.LDS, Op.ST, Op.ST]), _where, st.sampled_from([4, 8]), _data
)
_modify = st.tuples(
    st.just("modify"),
    st.sampled_from([Op.CMPXCHG_LOCAL, Op.CMPXCHG, Op.XCHG, Op.ATOMIC_ADD]),
    _where,
    st.sampled_from([4, 8]),
    _data,
    _data,
    _data,
)
_double = st.tuples(
    st.just("double"),
    st.sampled_from([Op.CMPXCHG_DOUBLE_LOCAL, Op.CMPXCHG_DOUBLE]),
    _where,
    st.sampled_from([4, 8]),
    _data,
)
_plain = st.tuples(
    st.just("plain"),
    st.sampled_from([Op.NOP, Op.PREEMPT_DISABLE, Op.PREEMPT_ENABLE, Op.PAUSE])
    | st.sampled_from([Op.CPU_ID, Op.NODE_ID, Op.RDTSC, Op.PREEMPT_COUNT, Op.COUNT, Op.COUNT_N]),
    _data,
    st.integers(0, COUNTERS - 1),
)
_imm_only = st.tuples(st.just("barrier"), st.integers(0, 3)) | st.tuples(
    st.just("instructions"), st.integers(0, 40)
)
_call = st.tuples(st.just("call"), st.sampled_from(["leaf", "outer"]), _data, _data)
_walk = st.tuples(
    st.just("walk"),
    st.sampled_from([Op.LD, Op.ST]),
    st.integers(0, 14),
    st.integers(-2, 3),
    st.integers(2, 6),
)
_branch = st.tuples(
    st.just("skip"),
    st.sampled_from([Op.BEQ, Op.BNE, Op.BLT, Op.BLE, Op.BEQI, Op.BNEI, Op.BLTI, Op.BLEI, Op.BGTI, Op.BGEI]),
    _data,
    _data,
    _small,
)
_prefetch = st.tuples(st.just("prefetch"), _where | st.none(), _data)
simple = st.one_of(
    _prefetch,
    _memory,
    _memory,
    _modify,
    _walk,
    _double,
    _alu,
    _alu_immediate,
    _shift,
    _divide,
    _plain,
    _imm_only,
    _call,
    _branch,
)
_body = st.lists(simple, min_size=1, max_size=5)
#: A holder whom handlers may interrupt must not be somebody a holder of the handlers' lock waits for.
_locks = st.sampled_from([(0,), (1,), (2,), (1, 2)])
statement = st.one_of(
    simple,
    st.tuples(st.just("section"), _locks, st.booleans(), _body),
    st.tuples(st.just("irqsave_section"), st.sampled_from(range(3)), _body),
    st.tuples(st.just("try"), st.sampled_from(range(3)), _body),
    st.tuples(st.just("loop"), st.integers(1, 4), _body),
    st.tuples(st.just("irqs_off"), _body),
)
statements = st.lists(statement, min_size=1, max_size=8)


@dataclass(frozen=True)
class Injection:
    """An interrupt of a random run."""

    cpu: int
    handler: str
    argument: int
    at_micro_op: int | None
    at_cycle: int | None


HANDLERS = ("touching", "locking", "nesting")


def injections(cpus: int, most: int = 4) -> st.SearchStrategy[list[Injection]]:
    """Interrupts at random places."""
    by_count = st.tuples(st.integers(0, 60), st.none())
    by_cycle = st.tuples(st.none(), st.integers(0, 8000))
    one = st.builds(
        lambda cpu, handler, argument, when: Injection(cpu, handler, argument, *when),
        st.integers(0, cpus - 1),
        st.sampled_from(HANDLERS),
        st.integers(0, 5),
        by_count | by_cycle,
    )
    return st.lists(one, max_size=most)


class Builder:
    """Rows of one random program: leaf functions, interrupt handlers, and one function per CPU."""

    def __init__(self) -> None:
        self.out = Assembler(counters=COUNTERS)
        self._labels = 0
        self._leaf_functions()
        self._handlers()

    def _label(self) -> str:
        self._labels += 1
        return f"l{self._labels}"

    def _leaf_functions(self) -> None:
        out = self.out
        out.function("format", 3)  # every word of page memory is stored
        for register, value in enumerate((PAGES, PAGE_FRAMES * PAGE_BYTES, 8)):
            out.op(Op.LI, a=register, imm=value)
        out.op(Op.GRANULE, b=0, c=1, aux=2)
        out.ret()
        out.function("leaf", 4)
        out.op(Op.LI, a=1, imm=STATIC + 3 * LINE_BYTES)
        out.op(Op.LD, a=2, b=1)
        out.op(Op.ADD, a=2, b=2, c=0)
        out.op(Op.ST, b=1, c=2)
        out.ret(2)
        out.function("outer", 3)
        out.op(Op.ADDI, a=out.outgoing(0), b=0, imm=1)
        out.call("leaf", result=2)
        out.op(Op.SUB, a=2, b=2, c=0)
        out.ret(2)

    def _handlers(self) -> None:
        out = self.out
        out.function("touching", 4)
        out.op(Op.LI, a=1, imm=STATIC)
        out.op(Op.ST, b=1, c=0, imm=8 * LINE_BYTES)
        out.op(Op.LD, a=2, b=1)
        out.op(Op.ADDI, a=out.outgoing(0), b=2)
        out.call("leaf", result=3)
        out.ret(3)
        address, size, mask = LOCKS[IRQ_LOCK]
        out.function("locking", 4)
        out.op(Op.LI, a=1, imm=STATIC + address)
        out.op(Op.LOCK, b=1, aux=mask, size=size)
        out.op(Op.COUNT, imm=0)
        out.op(Op.INSTRUCTIONS, imm=30)
        out.op(Op.UNLOCK, b=1, aux=mask, size=size)
        out.ret()
        out.function("nesting", 4)
        out.op(Op.LI, a=1, imm=STATIC)
        out.op(Op.IRQ_ENABLE)
        out.op(Op.ATOMIC_ADD, a=2, b=1, c=0, imm=16 * LINE_BYTES)
        out.op(Op.INSTRUCTIONS, imm=20)
        out.op(Op.PREEMPT_COUNT, a=3)
        out.op(Op.IRQ_DISABLE)
        out.ret(2)

    def cpu_function(self, cpu: int, body: list[Statement], meetings: int = 0) -> int:
        """A function for one CPU, with so many rendezvous spread over it."""
        out = self.out
        number = out.function(f"cpu{cpu}", 16)
        for register in range(10):
            out.op(Op.LI, a=register, imm=3 * register - 7)
        out.op(Op.LI, a=SHARED, imm=STATIC)
        out.op(Op.LI, a=OWN, imm=STATIC + (OWN_LINE + cpu % 8) * LINE_BYTES)
        for register in range(12, 16):
            out.op(Op.LI, a=register)
        for part in range(meetings + 1):
            first, last = (len(body) * at // (meetings + 1) for at in (part, part + 1))
            self._emit_all(body[first:last], 12)
            if part < meetings:
                out.op(Op.RENDEZVOUS)
        out.ret(0)
        return number

    def _emit_all(self, body: list[Statement], counter: int) -> None:
        for item in body:
            getattr(self, "_" + item[0])(*item[1:], **({"counter": counter} if item[0] == "loop" else {}))

    # --- one method per kind of statement --------------------------------------------------------
    def _alu(self, op: Op, a: int, b: int, c: int) -> None:
        self.out.op(op, a=a, b=b, c=c)

    def _alui(self, op: Op, a: int, b: int, imm: int) -> None:
        self.out.op(op, a=a, b=b, imm=imm)

    def _offset(self, base: int, line: int, word: int, unit: int) -> int:
        """Of a word from register ``_base(base)``."""
        lines = {SHARED: line * LINE_BYTES, OWN: 0, FAR: FAR_OFFSET + line * LINE_BYTES}
        return lines[base] + word * unit

    def _base(self, base: int) -> int:
        return SHARED if base == FAR else base

    def _memory(self, op: Op, where: tuple[int, int, int], size: int, register: int) -> None:
        base, line, word = where
        if op == Op.LDS:
            size = 4
        self.out.op(
            op,
            a=register,
            b=self._base(base),
            c=register,
            imm=self._offset(base, line, word, size),
            size=size,
        )

    def _modify(self, op: Op, where: tuple[int, int, int], size: int, a: int, c: int, new: int) -> None:
        base, line, word = where
        self.out.op(
            op, a=a, b=self._base(base), c=c, imm=self._offset(base, line, word, size), aux=new, size=size
        )

    def _double(self, op: Op, where: tuple[int, int, int], size: int, a: int) -> None:
        """Reads the two words first, so that the exchange succeeds unless somebody comes between."""
        base, line, word = where
        at = self._offset(base, line, word % 2, 2 * size)
        self.out.op(Op.LD, a=6, b=self._base(base), imm=at, size=size)
        self.out.op(Op.LD, a=7, b=self._base(base), imm=at + size, size=size)
        self.out.op(op, a=a, b=self._base(base), c=6, imm=at, size=size)

    def _plain(self, op: Op, register: int, counter: int) -> None:
        self.out.op(op, a=register, b=register, imm=counter)

    def _walk(self, op: Op, line: int, step: int, times: int) -> None:
        """The same micro-op on one line after the other, as long as they are in page memory."""
        out = self.out
        label = self._label()
        out.op(Op.ADDI, a=SCRATCH, b=SHARED, imm=FAR_OFFSET + line * LINE_BYTES)
        out.op(Op.LI, a=8, imm=times)
        out.label(label)
        out.op(op, a=9, b=SCRATCH, c=8)
        out.op(Op.ADDI, a=SCRATCH, b=SCRATCH, imm=step * LINE_BYTES)
        out.op(Op.ADDI, a=8, b=8, imm=-1)
        out.op(Op.BGTI, b=8, imm=0, aux=label)

    def _prefetch(self, where: tuple[int, int, int] | None, register: int) -> None:
        """Of a line of the program's, or of whatever address is in a data register."""
        if where is not None:
            base, line, word = where
            self.out.op(Op.ADDI, a=SCRATCH, b=self._base(base), imm=self._offset(base, line, word, 8))
            register = SCRATCH
        self.out.op(Op.PREFETCH, b=register)

    def _barrier(self, kind: int) -> None:
        self.out.op(Op.BARRIER, imm=kind)

    def _instructions(self, number: int) -> None:
        self.out.op(Op.INSTRUCTIONS, imm=number)

    def _call(self, name: str, argument: int, result: int) -> None:
        self.out.op(Op.MOV, a=self.out.outgoing(0), b=argument)
        self.out.call(name, result=result)

    def _skip(self, op: Op, b: int, c: int, imm: int) -> None:
        label = self._label()
        self.out.op(op, b=b, c=c, imm=imm, aux=label)
        self.out.op(Op.ADDI, a=b, b=b, imm=1)
        self.out.label(label)

    def _section(self, locks: tuple[int, ...], locked_unlock: bool, body: list[Statement]) -> None:
        out = self.out
        if IRQ_LOCK in locks:
            out.op(Op.IRQ_SAVE, a=FLAGS)
        for lock in locks:
            address, size, mask = LOCKS[lock]
            out.op(Op.LOCK, b=SHARED, imm=address, aux=mask, size=size)
        self._emit_all(body, 13)
        for lock in reversed(locks):
            address, size, mask = LOCKS[lock]
            kind = Op.UNLOCK_LOCKED if locked_unlock else Op.UNLOCK
            out.op(kind, b=SHARED, imm=address, aux=mask, size=size)
        if IRQ_LOCK in locks:
            out.op(Op.IRQ_RESTORE, b=FLAGS)

    def _irqsave_section(self, lock: int, body: list[Statement]) -> None:
        out = self.out
        address, size, mask = LOCKS[lock]
        out.op(Op.LOCK_IRQSAVE, a=FLAGS, b=SHARED, imm=address, aux=mask, size=size)
        self._emit_all(body, 13)
        out.op(Op.UNLOCK, b=SHARED, imm=address, aux=mask, size=size)
        out.op(Op.IRQ_RESTORE, b=FLAGS)

    def _try(self, lock: int, body: list[Statement]) -> None:
        out = self.out
        label = self._label()
        address, size, mask = LOCKS[lock]
        out.op(Op.IRQ_SAVE, a=FLAGS)
        out.op(Op.TRYLOCK, a=SCRATCH, b=SHARED, imm=address, aux=mask, size=size)
        out.op(Op.BEQI, b=SCRATCH, imm=0, aux=label)
        self._emit_all(body, 13)
        out.op(Op.UNLOCK, b=SHARED, imm=address, aux=mask, size=size)
        out.label(label)
        out.op(Op.IRQ_RESTORE, b=FLAGS)

    def _loop(self, times: int, body: list[Statement], counter: int) -> None:
        label = self._label()
        self.out.op(Op.LI, a=counter, imm=times)
        self.out.label(label)
        self._emit_all(body, counter + 1)
        self.out.op(Op.ADDI, a=counter, b=counter, imm=-1)
        self.out.op(Op.BGTI, b=counter, imm=0, aux=label)

    def _irqs_off(self, body: list[Statement]) -> None:
        self.out.op(Op.IRQ_DISABLE)
        self._emit_all(body, 13)
        self.out.op(Op.IRQ_ENABLE)
