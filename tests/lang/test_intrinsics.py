"""Intrinsics: each becomes its micro-op with the right operands, and does what its name says."""

from __future__ import annotations

import pytest

from slubviz.hw.isa import WORDS, Op
from tests.lang.helpers import TARGET_32, compiled, error_of, listing, machine, operations

STRUCT = """
A = counter()
B = counter()
class s(struct):
    first: word
    second: word
    lock: uint32
    refs: int32
"""


def row(body: str, op: Op, params: str = "p: s, x, y") -> list[int]:
    """The one micro-op ``op`` in a function with that body: [op, a, b, c, imm, aux, size, cost]."""
    program = compiled(STRUCT + f"def f({params}):\n    {body}\n")
    rows = [r for r in program.code.reshape(-1, WORDS).tolist() if r[0] == op]
    assert len(rows) == 1
    found: list[int] = rows[0]
    return found


@pytest.mark.parametrize(
    ("body", "op"),
    [
        ("irq_disable()", Op.IRQ_DISABLE),
        ("irq_enable()", Op.IRQ_ENABLE),
        ("preempt_disable()", Op.PREEMPT_DISABLE),
        ("preempt_enable()", Op.PREEMPT_ENABLE),
        ("cpu_relax()", Op.PAUSE),
        ("rendezvous()", Op.RENDEZVOUS),
        ("barrier()", Op.BARRIER),
    ],
)
def test_plain_operations(body: str, op: Op) -> None:
    program = compiled(f"def f():\n    {body}\n")
    assert operations(program, "f") == [op, Op.RET]


@pytest.mark.parametrize(("name", "imm"), [("barrier", 0), ("smp_wmb", 1), ("smp_rmb", 2), ("smp_mb", 3)])
def test_barriers(name: str, imm: int) -> None:
    assert row(f"{name}()", Op.BARRIER)[4] == imm


def test_interrupt_flag_is_saved_and_restored() -> None:
    run = machine("""
        def f():
            flags = irq_save()
            inside = irq_save()
            irq_restore(flags)
            return flags * 10 + inside
    """)
    assert run.call("f") == 10
    assert run.irqs_enabled == 1


def test_reads_of_the_machine() -> None:
    run = machine("""
        def f():
            return smp_processor_id() * 100 + numa_node_id() * 10 + preempt_count()
        def g():
            start = rdtsc()
            return rdtsc() - start
        def h():
            if in_interrupt():
                return 5
            return in_interrupt()
    """, cpu=3, node=2)  # fmt: skip
    run.preempt = 4
    assert run.call("f") == 324
    assert run.call("g") == 1
    assert run.call("h") == 0
    run.preempt = 65536
    assert run.call("h") == 5


def test_compare_and_exchange() -> None:
    text = (
        STRUCT
        + """
def f(p: s, old, new):
    return cmpxchg_local(p.second, old, new)
def g(p: s, old, new):
    if cmpxchg(p.second, old, new) == old:
        return 1
    return 0
"""
    )
    run = machine(text)
    assert run.call("f", 4096, 0, 7) == 0
    assert run.call("f", 4096, 0, 8) == 7
    assert run.call("g", 4096, 7, 9) == 1
    assert run.read(4096 + 8, 8) == 9
    assert listing(run.program, "f") == ["r3 = cmpxchg_local [p+8] old -> new", "return r3"]
    assert listing(run.program, "g")[0] == "r3 = cmpxchg [p+8] old -> new"


def test_compare_and_exchange_of_two_words() -> None:
    text = (
        STRUCT
        + """
def f(p: s, a, b):
    return cmpxchg_double(p.first, a, b, b, a + b)
def g(p: s, a, b):
    return cmpxchg_double_local(p.first, a, b, 0, p.first)
"""
    )
    run = machine(text)
    run.write(4096, 8, 3)
    run.write(4104, 8, 4)
    assert run.call("f", 4096, 3, 5) == 0
    assert run.call("f", 4096, 3, 4) == 1
    assert [run.read(4096, 8), run.read(4104, 8)] == [4, 7]
    assert run.call("g", 4096, 4, 7) == 1
    assert [run.read(4096, 8), run.read(4104, 8)] == [0, 4]
    narrow = machine(text, TARGET_32)
    narrow.write(4096, 4, 3)
    narrow.write(4100, 4, 4)
    assert narrow.call("f", 4096, 3, 4) == 1
    assert [narrow.read(4096, 4), narrow.read(4100, 4)] == [4, 7]


def test_exchange_and_atomic_addition() -> None:
    run = machine(STRUCT + """
def f(p: s, x):
    old = xchg(p.first, x)
    atomic_add(p.refs, 10)
    atomic_dec(p.refs)
    y = atomic_inc(p.refs)
    if atomic_add(p.refs, -y) == 0:
        return old * 100 + y
    return -1
""")  # fmt: skip
    run.write(4096, 8, 6)
    run.write(4096 + 20, 4, 0xFFFFFFFF)  # -1
    assert run.call("f", 4096, 3) == 6 * 100 + 9
    assert run.read(4096, 8) == 3
    assert run.read(4096 + 20, 4) == 0


def test_atomic_results_of_int32_keep_their_sign() -> None:
    run = machine(STRUCT + """
def f(p: s):
    return atomic_dec(p.refs)
def g(p: s):
    return xchg(p.refs, 5)
def h(p: s, x):
    return cmpxchg(p.refs, x, 6) == x
def minus(p: s):
    if cmpxchg(p.refs, -9, 6) == -9:
        return 1
    return 0
def last(p: s):
    if atomic_dec(p.refs) == 0:
        return 1
    return 0
""")  # fmt: skip
    assert run.call("f", 4096) == -1
    assert run.call("h", 4096, -1) == 1
    run.write(4096 + 20, 4, -7)
    assert run.call("g", 4096) == -7
    run.write(4096 + 20, 4, -9)
    assert run.call("minus", 4096) == 1
    assert run.call("minus", 4096) == 0
    run.write(4096 + 20, 4, 5)
    assert [run.call("last", 4096) for _ in range(6)] == [0, 0, 0, 0, 1, 0]
    # where the sign cannot matter it costs nothing
    assert listing(run.program, "last")[1:3] == ["r2 = atomic_add [p+20] r1", "if r2 != 0 goto 5"]
    assert listing(run.program, "f")[1:4] == ["r2 = atomic_add [p+20] r1", "r2 = r2 << 32", "r2 = r2 >> 32"]


def test_owner_note() -> None:
    assert row("owner_note(p)", Op.OWNER_NOTE)[2] == 0


def test_prefetch_takes_an_address_and_gives_nothing() -> None:
    assert row("prefetch(y)", Op.PREFETCH)[:6] == [Op.PREFETCH, 0, 2, 0, 0, 0]
    run = machine(
        STRUCT
        + """
def f(p: s):
    prefetch(p)
    prefetch(p + 16)
    prefetch(NULL)
    return p.first
"""
    )
    run.write(4096, 8, 77)
    assert run.call("f", 4096) == 77
    assert listing(run.program, "f")[0] == "prefetch p"
    assert "prefetch" in error_of("def f():\n    return prefetch(4096)\n")
    assert "prefetch(address)" in error_of("def f():\n    prefetch()\n")


def test_lock_operations() -> None:
    assert row("spin_lock(p.lock)", Op.LOCK) == [Op.LOCK, 0, 0, 0, 16, 1, 4, 0]
    assert row("spin_unlock(p.lock)", Op.UNLOCK) == [Op.UNLOCK, 0, 0, 0, 16, 1, 4, 0]
    assert row("return spin_lock_irqsave(p.lock)", Op.LOCK_IRQSAVE)[2:] == [0, 0, 16, 1, 4, 0]
    assert row("bit_spin_lock(p.first, 3)", Op.LOCK) == [Op.LOCK, 0, 0, 0, 0, 8, 8, 0]
    assert row("bit_spin_unlock(p.second, 0)", Op.UNLOCK_LOCKED) == [Op.UNLOCK_LOCKED, 0, 0, 0, 8, 1, 8, 0]
    assert row("bit_spin_unlock_nonatomic(p.second, 4)", Op.UNLOCK) == [Op.UNLOCK, 0, 0, 0, 8, 16, 8, 0]
    assert row("return spin_trylock(p.lock)", Op.TRYLOCK)[2:] == [0, 0, 16, 1, 4, 0]
    assert row("return bit_spin_trylock(p.first, 30)", Op.TRYLOCK)[5] == 1 << 30
    # the flag is in imm, so the offset is in aux
    assert row("lock_acquired(p.second)", Op.LOCK_NOTE)[2:6] == [0, 0, 1, 8]
    assert row("lock_released(p.second)", Op.LOCK_NOTE)[2:6] == [0, 0, 0, 8]


def test_a_lock_that_saves_the_flag() -> None:
    run = machine(
        STRUCT
        + """
def f(p: s):
    outer = spin_lock_irqsave(p.lock)
    inner = irq_save()
    held = p.lock
    spin_unlock(p.lock)
    irq_restore(outer)
    return outer * 100 + inner * 10 + held
"""
    )
    assert run.call("f", 4096) == 101
    assert run.read(4096 + 16, 4) == 0
    assert listing(run.program, "f")[0] == "outer = lock_irqsave [p+16] bits 0x1"


def test_trylock_branches_on_success() -> None:
    run = machine(STRUCT + """
def f(p: s):
    if not spin_trylock(p.lock):
        return 1
    spin_unlock(p.lock)
    return 2
""")  # fmt: skip
    assert run.call("f", 4096) == 2
    run.write(4096 + 16, 4, 1)
    assert run.call("f", 4096) == 1


def test_counters() -> None:
    run = machine(STRUCT + """
def f(n):
    count(B)
    count(A, n)
    count(A, n * 2)
    count(B, 1)
""")  # fmt: skip
    run.call("f", 5)
    assert run.counters == {"A": 15, "B": 2}
    assert run.program.counters == ("A", "B")
    assert operations(run.program, "f") == [Op.COUNT, Op.COUNT_N, Op.SHLI, Op.COUNT_N, Op.COUNT, Op.RET]


def test_instructions_and_granule() -> None:
    run = machine("""
        N = 6
        def f(address, size):
            instructions(N * 2)
            instructions(0)
            granule(address, PAGE_SIZE, size)
    """)
    run.call("f", 8192, 64)
    assert run.instructions == 12
    assert run.granules == [(8192, 4096, 64)]
    assert operations(run.program, "f") == [Op.INSTRUCTIONS, Op.LI, Op.GRANULE, Op.RET]


@pytest.mark.parametrize(("x", "expected"), [(0, 0), (1, 1), (4096, 13), (-1, 64), (2**62, 63)])
def test_fls(x: int, expected: int) -> None:
    run = machine(f"def f(x):\n    return fls(x)\ndef g():\n    return fls({x})\n")
    assert run.call("f", x) == expected
    assert run.call("g") == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x = spin_lock(p.lock)", "`spin_lock(p.lock)` (write spin_lock(field) as a statement)"),
        ("spin_lock(p)", "10:15: p is kept in a register and has no address: `p` "
                         "(a field, an element or a global is expected here)"),
        ("spin_lock(p.lock, 1)", "10:5: 1 argument expected, 2 given: `spin_lock(p.lock, 1)` "
                                 "(write spin_lock(field))"),
        ("bit_spin_lock(p.lock, x)", "10:27: a bit number must be a constant: `x`"),
        ("bit_spin_lock(p.lock, 31)", "10:27: a lock's bit goes from 0 to 30, not 31: `31`"),
        ("count(C)", "10:11: C is not a counter: `C` (define it outside functions: C = counter())"),
        ("count(A, 1, 2)", "10:5: 1 to 2 arguments expected, 3 given: `count(A, 1, 2)` "
                           "(write count(COUNTER, n))"),
        ("x = A", "10:9: A is a counter, not a value: `A` (write count(A))"),
        ("instructions(x)", "10:18: the number of instructions must be a constant: `x`"),
        ("instructions(-1)", "10:18: -1 is not a number of instructions: `-1`"),
        ("bug(x)", '10:9: a message is plain text: `x` (write it in quotes: "what went wrong")'),
        ("irq_safe()", "10:5: unknown function irq_safe: `irq_safe()` (did you mean irq_save?)"),
        ("cmpxchg(p.first, new=1)", "10:5: arguments cannot be named: `cmpxchg(p.first, new=1)` "
                                    "(write cmpxchg(field, old, new))"),
        ("addressof(x)", "10:15: x is kept in a register and has no address: `x` "
                         "(a field, an element or a global is expected here)"),
        ("x = addressof(x + 1)", "10:19: this has no address: `x + 1` "
                                 "(a field, an element or a global is expected here)"),
        ("x = container_of(x, t, first)", "10:25: unknown type t: `t` (declare it: class t(struct):)"),
        ("x = container_of(x, s, frist)",
         "10:28: struct s has no field frist: `frist` (did you mean first?)"),
    ],
)  # fmt: skip
def test_errors_of_intrinsics(body: str, message: str) -> None:
    assert error_of(STRUCT + f"def f(p: s, x):\n    {body}\n").endswith(message)
