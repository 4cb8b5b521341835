"""The machine's own operations as the language names them: interrupts, locks, atomics, counters.

Each entry of ``INTRINSICS`` is one name: its usage line, number of arguments, whether it gives a value,
and the function that compiles it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from slubviz.hw.isa import Op
from slubviz.model.lang import conditions, constants, expressions, layout
from slubviz.model.lang.arithmetic import wrap
from slubviz.model.lang.builder import Builder, Label, Value, integer
from slubviz.model.lang.errors import did_you_mean
from slubviz.model.lang.program import Global
from slubviz.model.lang.types import INT, SCALAR_NAMES, Array, Pointer, Scalar, StructRef

#: Compiles a call that has the right number of arguments; the last parameter is the destination.
Compile = Callable[[Builder, ast.Call, int | None], Value | None]


@dataclass(frozen=True)
class Intrinsic:
    """One intrinsic function."""

    usage: str
    least: int
    most: int
    gives_value: bool
    compile: Compile


def compile_intrinsic(
    b: Builder, node: ast.Call, known: Intrinsic, dest: int | None, *, wanted: bool, raw: bool
) -> Value | None:
    """Compile a call of an intrinsic."""
    constants.plain_arguments(b.source, node, known.least, known.most, known.usage)
    if wanted and not known.gives_value:
        raise b.error(node, f"{_name(node)} gives no value", f"write {known.usage} as a statement")
    given = known.compile(b, node, dest)
    if wanted and not raw and given is not None and given.reg is not None:
        if isinstance(given.type, Scalar) and given.type.signed and given.type.size_bytes == 4:
            # an atomic operation on an int32: the micro-op gives its 32 bits without the sign
            b.emit(Op.SHLI, node, a=given.reg, b=given.reg, imm=32)
            b.emit(Op.SHRI, node, a=given.reg, b=given.reg, imm=32)
    return given


def _name(node: ast.Call) -> str:
    assert isinstance(node.func, ast.Name)
    return node.func.id


def _target(b: Builder, dest: int | None) -> int:
    return b.temporary() if dest is None else dest


def _plain(op: Op, imm: int = 0) -> Compile:
    """An operation without operands."""

    def compile_plain(b: Builder, node: ast.Call, dest: int | None) -> None:
        b.emit(op, node, imm=imm)

    return compile_plain


def _read(op: Op) -> Compile:
    """An operation that only fills a register."""

    def compile_read(b: Builder, node: ast.Call, dest: int | None) -> Value:
        target = _target(b, dest)
        b.emit(op, node, a=target)
        return Value(target, 0, INT)

    return compile_read


def _number(b: Builder, node: ast.Call, dest: int | None, op: Op, constant: str) -> Value:
    """Number of this CPU or node; on a machine that has one, it is 0 as in a kernel built for that."""
    if b.unit.target.constants.get(constant) == 1:
        return integer(0)
    target = _target(b, dest)
    b.emit(op, node, a=target)
    return Value(target, 0, INT)


def _processor_id(b: Builder, node: ast.Call, dest: int | None) -> Value:
    return _number(b, node, dest, Op.CPU_ID, "NR_CPUS")


def _node_id(b: Builder, node: ast.Call, dest: int | None) -> Value:
    return _number(b, node, dest, Op.NODE_ID, "NR_NODES")


def _irq_restore(b: Builder, node: ast.Call, dest: int | None) -> None:
    b.emit(Op.IRQ_RESTORE, node, b=expressions.register(b, node.args[0]))


def _in_interrupt(b: Builder, node: ast.Call, dest: int | None) -> Value:
    """A value that is not 0 in an interrupt: the preempt count's share of interrupts."""
    target = _target(b, dest)
    b.emit(Op.PREEMPT_COUNT, node, a=target)
    b.emit(Op.SHRI, node, a=target, b=target, imm=16)
    return Value(target, 0, INT)


def _fls(b: Builder, node: ast.Call, dest: int | None) -> Value:
    given = expressions.value(b, node.args[0])
    if given.constant:
        return integer((given.number & (1 << 64) - 1).bit_length())
    source = expressions.to_register(b, given, node.args[0])
    target = _target(b, dest)
    b.emit(Op.FLS, node, a=target, b=source)
    return Value(target, 0, INT)


# --- memory ------------------------------------------------------------------------------------
def _reach(b: Builder, node: ast.expr) -> tuple[int, int, int]:
    """Register, offset and access size of an lvalue argument."""
    where = expressions.place(b, node)
    size = expressions.access_bytes(b, where, node)
    base, imm = expressions.address(b, where, node)
    return base, imm, size


def _compare_exchange(op: Op) -> Compile:
    def compile_exchange(b: Builder, node: ast.Call, dest: int | None) -> Value:
        where = expressions.place(b, node.args[0])
        size = expressions.access_bytes(b, where, node.args[0])
        base, imm = expressions.address(b, where, node.args[0])
        old = expressions.register(b, node.args[1])
        new = expressions.register(b, node.args[2])
        target = _target(b, dest)
        b.emit(op, node, a=target, b=base, c=old, imm=imm, aux=new, size=size)
        return Value(target, 0, where.type)

    return compile_exchange


def _compare_exchange_double(op: Op) -> Compile:
    def compile_exchange(b: Builder, node: ast.Call, dest: int | None) -> Value:
        base, imm, size = _reach(b, node.args[0])
        first = b.temporary(4)
        for k in range(4):
            expressions.into(b, node.args[k + 1], first + k)
        target = _target(b, dest)
        b.emit(op, node, a=target, b=base, c=first, imm=imm, size=size)
        return Value(target, 0, INT)

    return compile_exchange


def _xchg(b: Builder, node: ast.Call, dest: int | None) -> Value:
    where = expressions.place(b, node.args[0])
    size = expressions.access_bytes(b, where, node.args[0])
    base, imm = expressions.address(b, where, node.args[0])
    new = expressions.register(b, node.args[1])
    target = _target(b, dest)
    b.emit(Op.XCHG, node, a=target, b=base, c=new, imm=imm, size=size)
    return Value(target, 0, where.type)


def _atomic_add(change: int | None) -> Compile:
    """Atomic addition of the second argument, or of ``change``."""

    def compile_add(b: Builder, node: ast.Call, dest: int | None) -> Value:
        where = expressions.place(b, node.args[0])
        size = expressions.access_bytes(b, where, node.args[0])
        base, imm = expressions.address(b, where, node.args[0])
        if change is None:
            amount = expressions.register(b, node.args[1])
        else:
            amount = expressions.to_register(b, integer(change), node)
        target = _target(b, dest)
        b.emit(Op.ATOMIC_ADD, node, a=target, b=base, c=amount, imm=imm, size=size)
        return Value(target, 0, where.type)

    return compile_add


# --- locks -------------------------------------------------------------------------------------
def _lock(op: Op, *, bit: bool = False, note: int | None = None) -> Compile:
    """A lock operation on bit 0, or on the bit that the second argument names."""

    def compile_lock(b: Builder, node: ast.Call, dest: int | None) -> Value | None:
        base, imm, size = _reach(b, node.args[0])
        if note is not None:  # the micro-op's imm says acquired, released or contended; the offset is in aux
            b.emit(op, node, b=base, imm=note, aux=imm, size=size)
            return None
        bits = _bit(b, node.args[1]) if bit else 1
        if op not in (Op.TRYLOCK, Op.LOCK_IRQSAVE):
            b.emit(op, node, b=base, imm=imm, aux=bits, size=size)
            return None
        target = _target(b, dest)
        b.emit(op, node, a=target, b=base, imm=imm, aux=bits, size=size)
        return Value(target, 0, INT)

    return compile_lock


def _bit(b: Builder, node: ast.expr) -> int:
    number = _constant(b, node, "a bit number")
    if not 0 <= number <= 30:
        raise b.error(node, f"a lock's bit goes from 0 to 30, not {number}")
    return 1 << number


def _constant(b: Builder, node: ast.expr, what: str) -> int:
    given = expressions.value(b, node)
    if not given.constant:
        raise b.error(node, f"{what} must be a constant")
    return given.number


# --- notes and stops ---------------------------------------------------------------------------
def _count(b: Builder, node: ast.Call, dest: int | None) -> None:
    name = node.args[0]
    if not isinstance(name, ast.Name) or name.id not in b.unit.counters:
        text = b.source.segment(name)
        hint = did_you_mean(text, b.unit.counters, f"define it outside functions: {text} = counter()")
        raise b.error(name, f"{text} is not a counter", hint)
    number = b.unit.counters[name.id]
    if len(node.args) == 1:
        b.emit(Op.COUNT, node, imm=number)
        return
    amount = expressions.value(b, node.args[1])
    if amount.constant and amount.number == 1:
        b.emit(Op.COUNT, node, imm=number)
        return
    b.emit(Op.COUNT_N, node, b=expressions.to_register(b, amount, node.args[1]), imm=number)


def _instructions(b: Builder, node: ast.Call, dest: int | None) -> None:
    number = _constant(b, node.args[0], "the number of instructions")
    if not 0 <= number < 1 << 31:
        raise b.error(node.args[0], f"{number} is not a number of instructions")
    if number:
        b.emit(Op.INSTRUCTIONS, node, imm=number)


def _granule(b: Builder, node: ast.Call, dest: int | None) -> None:
    start, size, step = (expressions.register(b, argument) for argument in node.args)
    b.emit(Op.GRANULE, node, b=start, c=size, aux=step)


def _prefetch(b: Builder, node: ast.Call, dest: int | None) -> None:
    b.emit(Op.PREFETCH, node, b=expressions.register(b, node.args[0]))


def _owner_note(b: Builder, node: ast.Call, dest: int | None) -> None:
    b.emit(Op.OWNER_NOTE, node, b=expressions.register(b, node.args[0]))


def _message(b: Builder, node: ast.expr) -> int:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise b.error(node, "a message is plain text", 'write it in quotes: "what went wrong"')
    return b.unit.message_number(node.value)


def _bug(b: Builder, node: ast.Call, dest: int | None) -> None:
    b.emit(Op.BUG, node, imm=_message(b, node.args[0]))


def _bug_on(b: Builder, node: ast.Call, dest: int | None) -> None:
    number = _message(b, node.args[1])
    fine = Label()
    conditions.branch(b, node.args[0], fine, jump_if=False)
    b.emit(Op.BUG, node, imm=number)
    b.place(fine)


# --- types and addresses -----------------------------------------------------------------------
def _sizeof(b: Builder, node: ast.Call, dest: int | None) -> Value:
    return integer(constants.size_of_call(b.unit, b.source, node))


def _offsetof(b: Builder, node: ast.Call, dest: int | None) -> Value:
    return integer(constants.offset_of_call(b.unit, b.source, node))


def _cast(b: Builder, node: ast.Call, dest: int | None) -> Value:
    kind_node, argument = node.args
    given = expressions.value(b, argument, dest)
    if isinstance(kind_node, ast.Name) and kind_node.id == "word":
        return given.typed(INT)
    kind = constants.read_type(b.unit, b.source, kind_node, embed=False)
    if isinstance(kind_node, ast.Name) and kind_node.id in SCALAR_NAMES:
        kind = Pointer(kind)
    return given.typed(kind)


def _addressof(b: Builder, node: ast.Call, dest: int | None) -> Value:
    argument = node.args[0]
    where = expressions.place(b, argument)
    kind = where.type.element if isinstance(where.type, Array) else where.type
    return Value(where.reg, where.offset, Pointer(kind))


def _container_of(b: Builder, node: ast.Call, dest: int | None) -> Value:
    pointer, struct, path = node.args
    name = constants.struct_name(b.unit, b.source, struct)
    offset, _ = layout.offset_of_path(b.unit, b.source, name, path)
    given = expressions.value(b, pointer)
    return Value(given.reg, wrap(given.number - offset), Pointer(StructRef(name)))


def _per_global(b: Builder, node: ast.expr, per: str) -> Global:
    text = b.source.segment(node)
    made = b.unit.globals.get(node.id) if isinstance(node, ast.Name) else None
    if made is None or made.per != per:
        names = [g.name for g in b.unit.globals.values() if g.per == per]
        hint = did_you_mean(text, names, f"declare it: name: per_{per}[type]")
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            hint = f"for an array write {text}[smp_processor_id()]"
        raise b.error(node, f"{text} is not a per-{per} global", hint)
    return made


def _element_of(b: Builder, made: Global, index: Value, node: ast.Call, index_node: ast.AST) -> Value:
    if index.constant and not 0 <= index.number < made.count and not b.dead:
        raise b.error(node, f"{made.name} has elements 0 to {made.count - 1}, not {index.number}")
    where = expressions.scaled(b, None, made.address, index, made.stride_bytes, made.shape, node, index_node)
    kind = made.shape.element if isinstance(made.shape, Array) else made.shape
    return Value(where.reg, where.offset, Pointer(kind))


def _this_cpu(b: Builder, node: ast.Call, dest: int | None) -> Value:
    made = _per_global(b, node.args[0], "cpu")
    return _element_of(b, made, _processor_id(b, node, None), node, node)


def _per(per: str) -> Compile:
    def compile_per(b: Builder, node: ast.Call, dest: int | None) -> Value:
        made = _per_global(b, node.args[0], per)
        return _element_of(b, made, expressions.value(b, node.args[1]), node, node.args[1])

    return compile_per


def _entry(usage: str, compile_call: Compile, *, value: bool = False, least: int | None = None) -> Intrinsic:
    most = usage.count(",") + 1 if "()" not in usage else 0
    return Intrinsic(usage, most if least is None else least, most, value, compile_call)


_ALL = (
    _entry("irq_save()", _read(Op.IRQ_SAVE), value=True),
    _entry("irq_restore(flags)", _irq_restore),
    _entry("irq_disable()", _plain(Op.IRQ_DISABLE)),
    _entry("irq_enable()", _plain(Op.IRQ_ENABLE)),
    _entry("preempt_disable()", _plain(Op.PREEMPT_DISABLE)),
    _entry("preempt_enable()", _plain(Op.PREEMPT_ENABLE)),
    _entry("preempt_count()", _read(Op.PREEMPT_COUNT), value=True),
    _entry("in_interrupt()", _in_interrupt, value=True),
    _entry("smp_processor_id()", _processor_id, value=True),
    _entry("numa_node_id()", _node_id, value=True),
    _entry("rdtsc()", _read(Op.RDTSC), value=True),
    _entry("barrier()", _plain(Op.BARRIER, 0)),
    _entry("smp_wmb()", _plain(Op.BARRIER, 1)),
    _entry("smp_rmb()", _plain(Op.BARRIER, 2)),
    _entry("smp_mb()", _plain(Op.BARRIER, 3)),
    _entry("cpu_relax()", _plain(Op.PAUSE)),
    _entry("cmpxchg_local(field, old, new)", _compare_exchange(Op.CMPXCHG_LOCAL), value=True),
    _entry("cmpxchg(field, old, new)", _compare_exchange(Op.CMPXCHG), value=True),
    _entry(
        "cmpxchg_double_local(first_field, old1, old2, new1, new2)",
        _compare_exchange_double(Op.CMPXCHG_DOUBLE_LOCAL),
        value=True,
    ),
    _entry(
        "cmpxchg_double(first_field, old1, old2, new1, new2)",
        _compare_exchange_double(Op.CMPXCHG_DOUBLE),
        value=True,
    ),
    _entry("xchg(field, new)", _xchg, value=True),
    _entry("atomic_add(field, n)", _atomic_add(None), value=True),
    _entry("atomic_inc(field)", _atomic_add(1), value=True),
    _entry("atomic_dec(field)", _atomic_add(-1), value=True),
    _entry("spin_lock(field)", _lock(Op.LOCK)),
    _entry("spin_unlock(field)", _lock(Op.UNLOCK)),
    _entry("spin_lock_irqsave(field)", _lock(Op.LOCK_IRQSAVE), value=True),
    _entry("spin_trylock(field)", _lock(Op.TRYLOCK), value=True),
    _entry("bit_spin_lock(field, bit)", _lock(Op.LOCK, bit=True)),
    _entry("bit_spin_trylock(field, bit)", _lock(Op.TRYLOCK, bit=True), value=True),
    _entry("bit_spin_unlock(field, bit)", _lock(Op.UNLOCK_LOCKED, bit=True)),
    _entry("bit_spin_unlock_nonatomic(field, bit)", _lock(Op.UNLOCK, bit=True)),
    _entry("lock_acquired(field)", _lock(Op.LOCK_NOTE, note=1)),
    _entry("lock_released(field)", _lock(Op.LOCK_NOTE, note=0)),
    _entry("lock_contended(field)", _lock(Op.LOCK_NOTE, note=2)),
    _entry("count(COUNTER, n)", _count, least=1),
    _entry("instructions(number)", _instructions),
    _entry("granule(address, bytes, granule_bytes)", _granule),
    _entry("owner_note(pointer)", _owner_note),
    _entry("prefetch(address)", _prefetch),
    _entry("rendezvous()", _plain(Op.RENDEZVOUS)),
    _entry('bug("message")', _bug),
    _entry('bug_on(condition, "message")', _bug_on),
    _entry("fls(x)", _fls, value=True),
    _entry("sizeof(type)", _sizeof, value=True),
    _entry("offsetof(struct, field)", _offsetof, value=True),
    _entry("cast(type, x)", _cast, value=True),
    _entry("addressof(field)", _addressof, value=True),
    _entry("container_of(pointer, struct, field)", _container_of, value=True),
    _entry("this_cpu(name)", _this_cpu, value=True),
    _entry("per_cpu(name, cpu)", _per("cpu"), value=True),
    _entry("per_node(name, node)", _per("node"), value=True),
)

INTRINSICS: dict[str, Intrinsic] = {entry.usage.partition("(")[0]: entry for entry in _ALL}
