"""Statements and the code they become: one branch an iteration, fused conditions, no needless moves."""

from __future__ import annotations

import pytest

from slubviz.hw.isa import Op
from tests.lang.helpers import compiled, listing, machine, operations


def test_assignments_compute_in_place() -> None:
    program = compiled("""
        class s(struct):
            a: word
            b: int32
        def f(p: s, x):
            x = x + 1
            x -= 5
            y = x * 8
            y = y // 4
            y %= 16
            y = p.a
            p.b = y
            p.a += 2
            y = 5000000000
            return y
    """)
    assert listing(program, "f") == [
        "x = x + 1",
        "x = x - 5",
        "y = x << 3",
        "y = y >> 2",
        "y = y & 15",
        "y = [p+0]",
        "[p+8] = y",
        "r3 = [p+0]",
        "r4 = r3 + 2",
        "[p+0] = r4",
        "y = 0x12a05f200",
        "return y",
    ]


def test_constant_offsets_fold_into_loads_and_stores() -> None:
    program = compiled("""
        class inner(struct):
            x: word
            y: array[word, 4]
        class outer(struct):
            head: word
            parts: array[inner, 3]
        table: array[outer, 4]
        def f(p: outer, i):
            p.parts[1].y[2] = addressof(p.parts[2]).x
            table[2].parts[i].y[i + 1] = 0
            return cast(outer, addressof(p.parts) + 16).head
    """)
    at_table = program.globals["table"].address + 2 * 128 + 8 + 8 + 8
    assert listing(program, "f") == [
        "r2 = [p+88]",
        "[p+72] = r2",
        "r2 = i * 40",
        "r3 = i << 3",
        "r4 = r2 + r3",
        "r5 = 0",
        f"[r4+{at_table}] = r5",
        "r2 = [p+24]",
        "return r2",
    ]


def test_while_has_one_branch_an_iteration() -> None:
    program = compiled("""
        def f(n):
            x = 0
            while n > 0:
                x += n
                n -= 1
            return x
    """)
    assert listing(program, "f") == [
        "x = 0",
        "if n <= 0 goto 5",
        "x = x + n",
        "n = n - 1",
        "if n > 0 goto 2",
        "return x",
    ]


def test_while_with_a_call_tests_at_the_bottom() -> None:
    program = compiled("""
        def g(n):
            return n - 1
        def f(n):
            while g(n):
                n -= 1
            return n
    """)
    assert listing(program, "f") == [
        "goto 2",
        "n = n - 1",
        "arg0 = n",
        "r1 = call g(arg0)",
        "if r1 != 0 goto 1",
        "return n",
    ]


def test_for_over_a_constant_range_is_not_tested_before() -> None:
    program = compiled("""
        def f(x):
            for i in range(4):
                x += i
            return x
    """)
    assert listing(program, "f") == ["i = 0", "x = x + i", "i = i + 1", "if i < 4 goto 1", "return x"]


def test_for_counts_up_to_a_variable() -> None:
    program = compiled("""
        def f(n):
            x = 0
            for i in range(2, n, 3):
                x += i
            return x
    """)
    assert listing(program, "f") == [
        "x = 0",
        "i = 2",
        "if n <= 2 goto 6",
        "x = x + i",
        "i = i + 3",
        "if i < n goto 3",
        "return x",
    ]


def test_for_whose_range_is_empty_disappears() -> None:
    program = compiled("""
        def f(x):
            for i in range(5, 5):
                x += i
            return x
    """)
    assert listing(program, "f") == ["i = 5", "return x"]


def test_for_leaves_its_counter_at_the_first_number_outside() -> None:
    run = machine("""
        def f(n):
            for i in range(0, n, 4):
                pass
            return i
    """)
    assert run.call("f", 10) == 12
    assert run.call("f", 0) == 0


def test_for_looks_at_its_end_once() -> None:
    run = machine("""
        def f(n):
            rounds = 0
            for i in range(n):
                n += 1
                rounds += 1
            for i in range(i, i + 3):
                rounds += 100
            return rounds
    """)
    assert run.call("f", 4) == 304


def test_break_and_continue_belong_to_the_inner_loop() -> None:
    run = machine("""
        def f():
            x = 0
            for i in range(10):
                if i == 7:
                    break
                j = 0
                while True:
                    j += 1
                    if j % 2:
                        continue
                    if j > i:
                        break
                    x += 1
                x += 100
            return x
    """)
    expected = 0
    for i in range(7):
        expected += 100 + i // 2
    assert run.call("f") == expected


@pytest.mark.parametrize(
    ("condition", "lines"),
    [
        ("a == b", ["if a != b goto 2"]),
        ("a < b", ["if b <= a goto 2"]),
        ("a > b", ["if a <= b goto 2"]),
        ("a <= 5", ["if a > 5 goto 2"]),
        ("5 <= a", ["if a < 5 goto 2"]),
        ("not a", ["if a != 0 goto 2"]),
        ("a", ["if a == 0 goto 2"]),
        ("not (a < 3 or b > 4)", ["if a < 3 goto 3", "if b > 4 goto 3"]),
        ("a and not b", ["if a == 0 goto 3", "if b != 0 goto 3"]),
        ("a == 1 or b", ["if a == 1 goto 2", "if b == 0 goto 3"]),
        ("a & 4", ["r2 = a & 4", "if r2 == 0 goto 3"]),
        ("a == 10000000000", ["r2 = 0x2540be400", "if a != r2 goto 3"]),
    ],
)
def test_conditions_are_fused_with_branches(condition: str, lines: list[str]) -> None:
    program = compiled(f"X = counter()\ndef f(a, b):\n    if {condition}:\n        count(X)\n")
    assert listing(program, "f") == [*lines, "count X", "return"]


def test_options_exclude_code() -> None:
    text = """
        DEBUG = option(0, "check more")
        X = counter()
        def g():
            pass
        def f(a):
            if DEBUG and a > 3:
                g()
            elif not DEBUG:
                count(X)
            else:
                g()
            while DEBUG:
                a += 1
    """
    assert listing(compiled(text), "f") == ["count X", "return"]
    program = compiled(text, options={"DEBUG": 1})
    # an endless loop; a function ends in RET all the same
    assert operations(program, "f")[-3:] == [Op.ADDI, Op.JMP, Op.RET]
    assert program.options["DEBUG"].value == 1
    assert program.options["DEBUG"].default == 0
    assert program.options["DEBUG"].doc == "check more"


def test_excluded_code_is_still_checked_but_its_arithmetic_is_not() -> None:
    assert listing(
        compiled("""
            N = option(0, "how many")
            def f(x):
                if N > 0:
                    return x % N + 10 // N
                return x
        """),
        "f",
    ) == ["return x"]


def test_scalar_globals_live_in_memory() -> None:
    program = compiled("""
        total: word
        def f(x):
            total = x
            total += 2
            return total
    """)
    address = program.globals["total"].address
    assert listing(program, "f") == [
        f"r1 = {address}",
        "[r1+0] = x",
        f"r1 = {address}",
        "r2 = [r1+0]",
        "r3 = r2 + 2",
        "[r1+0] = r3",
        f"r1 = {address}",
        "r2 = [r1+0]",
        "return r2",
    ]


def test_assert_and_bug_stop_with_their_message() -> None:
    text = """
        def f(x):
            assert x != 1, "one is wrong"
            bug_on(x == 2, "two is wrong")
            if x == 3:
                bug("one is wrong")
            assert x < 9
            return x
    """
    run = machine(text)
    assert run.program.bug_messages == ("one is wrong", "two is wrong", "assertion failed: x < 9")
    assert run.call("f", 5) == 5
    for x, message in ((1, "one is wrong"), (2, "two is wrong"), (3, "one is wrong"), (9, "failed: x < 9")):
        with pytest.raises(Exception, match=message):
            run.call("f", x)


def test_a_local_keeps_its_value_across_iterations_that_do_not_assign_it() -> None:
    """Its register must not serve as a temporary earlier in the loop."""
    run = machine("""
        def f(n):
            total = 0
            i = 0
            while i < n:
                total += (i * 3 + 1) * (i * 5 + 2)
                if i == 0:
                    kept = 1000
                total += kept
                i += 1
            return total
    """)
    assert run.call("f", 4) == sum((i * 3 + 1) * (i * 5 + 2) + 1000 for i in range(4))


def test_types_follow_assignments() -> None:
    run = machine("""
        class page(struct):
            flags: word
            next: ptr[page]
        first: page
        def f():
            p = NULL
            p = addressof(first)
            p.next = p
            q: page = p.next.next
            r: ptr[page]
            r = cast(ptr, q)
            return r.next == p and r[0].next == q
    """)
    assert run.call("f") == 1
    types = {v.name: v.type_name for v in run.program.function("f").variables}
    assert types == {"p": "ptr[page]", "q": "ptr[page]", "r": "ptr[page]"}


def test_scalar_pointers_are_indexed_by_their_size() -> None:
    run = machine("""
        class s(struct):
            a: array[uint32, 4]
            b: array[word, 2]
        v: s
        def f(i):
            p = addressof(v.a)
            p[i] = 7
            q = cast(ptr[word], addressof(v.b))
            q[i - 1] = 9
            w = cast(uint32, addressof(v))
            return w[2] + addressof(v.b[1])[0]
    """)
    assert run.call("f", 2) == 16


def test_compilation_is_deterministic() -> None:
    text = """
        A = counter()
        class s(struct):
            x: word
        @inline
        def g(p: s):
            for i in range(3):
                p.x += i
            return p.x
        def f(p: s):
            count(A)
            y = g(p)
            return y
    """
    first, second = compiled(text), compiled(text)
    assert first.code.tobytes() == second.code.tobytes()
    assert first.spans.tobytes() == second.spans.tobytes()
    assert first.functions == second.functions
    assert first.inline_sites == second.inline_sites
