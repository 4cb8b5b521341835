"""Debug information: spans to the very expression, variables and their ranges, readable micro-ops."""

from __future__ import annotations

import pytest

from slubviz.hw.isa import BREAK_BIT, WORDS, Op
from slubviz.model.lang import Program, SourceFile, compile_program, disassemble
from tests.lang.helpers import TARGET, compiled, listing, span_text

FREE = """
FREE_FASTPATH = counter()
class page(struct):
    inuse: int32
class kmem_cache_cpu(struct):
    freelist: ptr
    page: ptr[page]
class free_object(struct):
    next: ptr

def fallback(p: page, x):
    pass

def slab_free(c: kmem_cache_cpu, p: page, x: free_object):
    flags = irq_save()
    if p == c.page:
        x.next = c.freelist
        c.freelist = x
        count(FREE_FASTPATH)
    elif p.inuse > 1:
        cmpxchg(p.inuse, 1, p.inuse - 1)
    else:
        fallback(p, cast(word, x) + 8)
    irq_restore(flags)
"""


def spans(program: Program, name: str) -> list[tuple[str, str]]:
    """(micro-op, source text) of a function."""
    function = program.function(name)
    texts = [span_text(program, pc) for pc in range(function.entry_pc, function.end_pc)]
    return list(zip(listing(program, name), texts, strict=True))


def test_every_micro_op_marks_the_expression_it_computes() -> None:
    assert spans(compiled(FREE), "slab_free") == [
        ("flags = irq_save", "irq_save()"),
        ("r4 = [c+8]", "c.page"),
        ("if p != r4 goto 8", "p == c.page"),
        ("r4 = [c+0]", "c.freelist"),
        ("[x+0] = r4", "x.next"),
        ("[c+0] = x", "c.freelist"),
        ("count FREE_FASTPATH", "count(FREE_FASTPATH)"),
        ("goto 18", "elif"),
        ("r4 = signed [p+0]", "p.inuse"),
        ("if r4 <= 1 goto 15", "p.inuse > 1"),
        ("r4 = 1", "1"),
        ("r5 = signed [p+0]", "p.inuse"),
        ("r6 = r5 - 1", "p.inuse - 1"),
        ("r7 = cmpxchg [p+0] r4 -> r6", "cmpxchg(p.inuse, 1, p.inuse - 1)"),
        ("goto 18", "else"),
        ("arg0 = p", "p"),
        ("arg1 = x + 8", "cast(word, x) + 8"),
        ("call fallback(arg0, arg1)", "fallback(p, cast(word, x) + 8)"),
        ("irq_restore flags", "irq_restore(flags)"),
        ("return", "def slab_free"),
    ]


def test_spans_of_loops_stay_on_their_header() -> None:
    program = compiled("""
        def f(n):
            x = 0
            for i in range(n):
                x += i
            while x > 3:
                x -= 1
            while True:
                break
            return x
    """)
    assert spans(program, "f") == [
        ("x = 0", "0"),
        ("i = 0", "range(n)"),
        ("if n <= 0 goto 6", "range(n)"),
        ("x = x + i", "x += i"),
        ("i = i + 1", "i"),
        ("if i < n goto 3", "range(n)"),
        ("if x <= 3 goto 9", "x > 3"),
        ("x = x - 1", "x -= 1"),
        ("if x > 3 goto 7", "x > 3"),
        ("return x", "return x"),
    ]


def test_spans_over_lines_and_with_accents() -> None:
    program = compiled("def f(a):\n    'größer'\n    return (a *\n            a)  # größer\n")
    first = program.span(0)
    assert (first.file, first.line, first.column, first.end_line, first.end_column) == ("t.py", 3, 13, 4, 14)
    program = compiled("X = counter()\ndef f(größe, b):\n    return größe * b\n")
    assert span_text(program, 0) == "größe * b"


def test_spans_are_those_of_the_file_that_holds_the_code() -> None:
    files = [
        SourceFile("a.py", "@inline\ndef g(x):\n    return x * 3\n"),
        SourceFile("b.py", "def f(x):\n    return g(x) * 5\n"),
    ]
    program = compile_program(files, TARGET)
    f = program.function("f")
    assert [program.span(pc).file for pc in range(f.entry_pc, f.end_pc)] == ["a.py", "b.py", "b.py"]
    assert program.function_at(f.entry_pc) is f
    assert program.sources["b.py"] == files[1].text


def test_variables_start_where_they_are_first_assigned() -> None:
    program = compiled("""
        def f(a):
            x = a * 2
            y = x * 3
            return y
    """)
    f = program.function("f")
    ranges = {v.name: (v.register, v.first_pc - f.entry_pc, v.end_pc - f.entry_pc) for v in f.variables}
    assert ranges == {"a": (0, 0, 3), "x": (1, 1, 3), "y": (2, 2, 3)}


def test_functions_carry_their_place_and_text() -> None:
    program = compiled(
        'class s(struct):\n    a: word\n\n@inline\ndef f(p: s, x):\n    """Says what."""\n    pass\n'
    )
    f = program.function("f")
    assert (f.file, f.line, f.params, f.inline, f.doc, f.index) == (
        "t.py",
        5,
        ("p", "x"),
        True,
        "Says what.",
        0,
    )
    assert [(v.name, v.type_name) for v in f.variables] == [("p", "ptr[s]"), ("x", "int")]
    with pytest.raises(KeyError):
        program.function("g")
    with pytest.raises(KeyError):
        program.struct("t")


def test_unused_inline_sites_are_dropped() -> None:
    program = compiled("""
        DEBUG = option(0, "d")
        @inline
        def g(x):
            return x * x
        def f(x):
            if DEBUG:
                return g(x)
            return g(x + 1)
    """)
    (site,) = program.inline_sites
    assert site.call.line == 9
    assert set(program.inline_site.tolist()) == {-1, 0}


def test_disassembly_names_every_kind_of_micro_op() -> None:
    program = compiled("""
        X = counter()
        class s(struct):
            a: word
            b: word
            i: int32
        def g(x):
            pass
        def f(p: s, x):
            y = x // x + x % 7
            y = -x ^ ~x | 3 & x
            y = x << y
            z = x == y
            z = fls(z)
            w = 0x123456789AB
            z = cmpxchg_double_local(p.a, x, y, y, x)
            z = xchg(p.a, x)
            z = atomic_inc(p.b)
            z = spin_trylock(p.i)
            spin_lock(p.i)
            spin_unlock(p.i)
            bit_spin_unlock(p.a, 2)
            lock_acquired(p.b)
            lock_released(p.b)
            irq_disable()
            z = rdtsc()
            smp_wmb()
            cpu_relax()
            count(X, z)
            instructions(3)
            granule(p, x, y)
            rendezvous()
            bug("broken")
            g(x)
    """)
    assert listing(program, "f") == [
        "r5 = x // x",
        "r6 = x % 7",
        "y = r5 + r6",
        "r5 = -x",
        "r6 = ~x",
        "r7 = r5 ^ r6",
        "r8 = x & 3",
        "y = r7 | r8",
        "y = x << y",
        "z = x == y",
        "z = fls(z)",
        "w = 0x123456789ab",
        "r5 = x",
        "r6 = y",
        "r7 = y",
        "r8 = x",
        "z = cmpxchg_double_local [p+0] r5, r6 -> r7, r8",
        "z = xchg [p+0] x",
        "r5 = 1",
        "z = atomic_add [p+8] r5",
        "z = trylock [p+16] bits 0x1",
        "lock [p+16] bits 0x1",
        "unlock [p+16] bits 0x1",
        "unlock_locked [p+0] bits 0x4",
        "lock_acquired [p+8]",
        "lock_released [p+8]",
        "irq_disable",
        "z = rdtsc",
        "smp_wmb",
        "cpu_relax",
        "count X += z",
        "instructions 3",
        "granule p, x bytes, one word per y",
        "rendezvous",
        'bug "broken"',
        "arg0 = x",
        "call g(arg0)",
        "return",
    ]


def test_disassembly_sees_through_breakpoints() -> None:
    program = compiled("def f(x):\n    return x * x\n")
    plain = disassemble(program, 0)
    program.code[0] += BREAK_BIT
    assert disassemble(program, 0) == plain == "r1 = x * x"
    with pytest.raises(IndexError, match=r"micro-op 2 is outside 0 \.\. 1"):
        disassemble(program, 2)


def test_code_and_spans_have_the_agreed_shape() -> None:
    program = compiled(FREE)
    assert program.code.dtype == program.spans.dtype == program.inline_site.dtype == "int32"
    assert program.code.shape == (program.micro_ops * WORDS,)
    assert program.spans.shape == (program.micro_ops, 6)
    assert program.inline_site.shape == (program.micro_ops,)
    rows = program.code.reshape(-1, WORDS)
    assert set(rows[:, 7].tolist()) == {0}  # the cost is the loader's
    assert int(rows[program.function("fallback").end_pc - 1, 0]) == Op.RET
