"""Calls: windows, arguments that call, results, recursion, and what inlining leaves of a call."""

from __future__ import annotations

import pytest

from slubviz.hw.isa import FRAME_WORDS, WORDS, Op
from slubviz.model.lang import SourceFile, compile_program
from tests.lang.helpers import TARGET, compiled, error_of, listing, machine, operations

LIST = """
class list_head(struct):
    next: ptr[list_head]
    prev: ptr[list_head]
class page(struct):
    flags: word
    inuse: int32
    lru: list_head
heads: array[list_head, 2]
"""


def test_window_of_a_callee_starts_behind_locals_and_header() -> None:
    program = compiled("""
        def g(a, b, c):
            return a
        def f(x):
            y = x + 1
            return g(y, 2, x)
    """)
    f = program.function("f")
    calls = [row for row in program.code.reshape(-1, WORDS).tolist() if row[0] == Op.CALL]
    assert len(calls) == 1
    assert calls[0][4] == f.locals_count + FRAME_WORDS
    assert calls[0][3] == program.function("g").index
    assert calls[0][5] == program.function("g").entry_pc
    assert f.window_words == f.locals_count + FRAME_WORDS + 3
    assert program.function("g").window_words == program.function("g").locals_count == 3


def test_arguments_go_straight_to_the_callee() -> None:
    program = compiled("""
        def g(a, b, c):
            return a
        def f(x, y):
            g(x + 1, x * y, 7)
    """)
    assert listing(program, "f") == [
        "arg1 = x * y",
        "arg0 = x + 1",
        "arg2 = 7",
        "call g(arg0, arg1, arg2)",
        "return",
    ]


def test_arguments_survive_calls_in_later_arguments() -> None:
    run = machine("""
        def g(a, b):
            return a * 10 + b
        def f(x, y):
            return g(x * y, g(g(x - y, y - x), g(y, x)))
    """)

    def g(a: int, b: int) -> int:
        return a * 10 + b

    assert run.call("f", 3, 5) == g(15, g(g(-2, 2), g(5, 3)))


def test_result_of_a_call_goes_straight_to_its_destination() -> None:
    program = compiled("""
        def g(a):
            return a
        def f(x):
            y = g(g(x))
            return y
    """)
    assert listing(program, "f") == ["arg0 = x", "arg0 = call g(arg0)", "y = call g(arg0)", "return y"]


def test_recursion() -> None:
    run = machine("""
        def fib(n):
            if n < 2:
                return n
            return fib(n - 1) + fib(n - 2)
    """)
    assert run.call("fib", 12) == 144


def test_functions_may_be_used_before_they_are_defined_and_across_files() -> None:
    files = [
        SourceFile("a.py", "def f(x):\n    return g(x) + K\n"),
        SourceFile("b.py", "K = 3\ndef g(x):\n    return x * 2\n"),
    ]
    program = compile_program(files, TARGET)
    assert [f.file for f in program.functions] == ["a.py", "b.py"]
    assert program.span(program.function("g").entry_pc).file == "b.py"


def test_falling_off_the_end_returns_0() -> None:
    run = machine("""
        def g(x):
            if x:
                return 5
        @inline
        def h(x):
            if x:
                return 5
        def f(x):
            return g(x) * 10 + h(x)
    """)
    assert run.call("f", 1) == 55
    assert run.call("f", 0) == 0


def test_override_replaces_a_function_everywhere() -> None:
    base = SourceFile("base.py", "def g():\n    return 1\ndef f():\n    return g()\n")
    patch = SourceFile("patch.py", "@override\ndef g():\n    return 2\n")
    from tests.lang.reference_machine import ReferenceMachine

    program = compile_program([base, patch], TARGET)
    assert ReferenceMachine(program).call("f") == 2
    assert [f.name for f in program.functions] == ["g", "f"]
    assert program.function("g").file == "patch.py"


# --- inlining ----------------------------------------------------------------------------------
def test_inline_function_leaves_no_call_and_no_move() -> None:
    program = compiled(
        LIST
        + """
@inline
def list_add(new: list_head, head: list_head):
    first = head.next
    first.prev = new
    new.next = first
    new.prev = head
    head.next = new

def f(p: list_head, h: list_head):
    list_add(p, h)
"""
    )
    assert listing(program, "f") == [
        "first = [head+0]",
        "[first+8] = new",
        "[new+0] = first",
        "[new+8] = head",
        "[head+0] = new",
        "return",
    ]


def test_inline_condition_branches_directly() -> None:
    program = compiled("""
        @inline
        def outside(x, low, high):
            return x < low or x > high
        def f(x):
            if outside(x, 3, 9):
                return 1
            return 2
    """)
    assert listing(program, "f") == [
        "if x < 3 goto 2",
        "if x <= 9 goto 4",
        "r1 = 1",
        "return r1",
        "r1 = 2",
        "return r1",
    ]


def test_inline_function_with_constant_argument_folds_away() -> None:
    program = compiled("""
        class page(struct):
            node: int32
        @inline
        def node_match(p: page, node):
            if node != -1 and p.node != node:
                return 0
            return 1
        def f(p: page):
            if node_match(p, -1):
                return 5
            return 6
    """)
    assert listing(program, "f") == ["r1 = 5", "return r1"]


def test_inline_result_is_kept_in_its_destination() -> None:
    program = compiled("""
        class cpu(struct):
            freelist: ptr
            slow: word
        def refill(c: cpu) -> ptr:
            return c.slow
        @inline
        def alloc(c: cpu) -> ptr:
            object = c.freelist
            if object == NULL:
                object = refill(c)
            return object
        def f(c: cpu):
            x = alloc(c)
            return x
    """)
    assert listing(program, "f") == [
        "object = [c+0]",
        "if object != 0 goto 4",
        "arg0 = c",
        "object = call refill(arg0)",
        "return x",
    ]
    f = program.function("f")
    registers = {v.name: v.register for v in f.variables}
    assert registers["object"] == registers["x"]


def test_destination_that_the_body_still_reads_is_not_overwritten_early() -> None:
    run = machine("""
        @inline
        def mix(p, q):
            v = q + 1
            if p > 3:
                v = v * p
            return v
        def f(x, y):
            x = mix(x, y)
            y = mix(y, x)
            return x * 1000 + y
    """)
    assert run.call("f", 5, 2) == 15 * 1000 + (15 + 1)
    assert run.call("f", 5, 7) == 40 * 1000 + 41 * 7


def test_inlined_result_as_argument_survives_the_calls_in_its_body() -> None:
    run = machine("""
        def g(a, b):
            return a - b
        @inline
        def twice(x):
            v = g(x, 1)
            w = g(x, 2)
            if w > 100:
                return w
            return v
        def f(x):
            return g(twice(x), 3)
    """)
    assert run.call("f", 10) == 9 - 3
    assert run.call("f", 1000) == 998 - 3


def test_inline_parameter_that_is_assigned_is_a_copy() -> None:
    run = machine("""
        @inline
        def countdown(n):
            total = 0
            while n > 0:
                total += n
                n -= 1
            return total
        def f(x):
            y = countdown(x)
            return y * 100 + x
    """)
    assert run.call("f", 4) == 1004


def test_address_used_twice_in_an_inlined_body_is_computed_once() -> None:
    program = compiled(
        LIST
        + """
@inline
def init(h: list_head):
    h.next = h
    h.prev = h
def f():
    init(addressof(heads[1]))
"""
    )
    address = program.globals["heads"].address + 16
    assert listing(program, "f") == [
        f"h = {address}",
        "[h+0] = h",
        "[h+8] = h",
        "return",
    ]


def test_nested_inlining_shows_every_frame() -> None:
    program = compiled("""
        @inline
        def inner(x):
            return x * 3
        @inline
        def outer(x):
            y = inner(x)
            return y - 1
        def f(a):
            b = outer(a)
            return b
    """)
    f = program.function("f")
    stacks = [program.inline_stack(pc) for pc in range(f.entry_pc, f.end_pc)]
    names = [[function.name for function, _ in stack] for stack in stacks]
    assert names == [["f", "outer", "inner"], ["f", "outer"], ["f"]]
    places = [(span.line, span.column) for _, span in stacks[0]]
    assert places == [(10, 9), (7, 9), (4, 12)]
    inner = program.inline_sites[int(program.inline_site[f.entry_pc])]
    assert program.functions[inner.function].name == "inner"
    assert program.functions[inner.caller].name == "outer"
    outer = program.inline_sites[inner.parent]
    assert (program.functions[outer.caller].name, outer.parent) == ("f", -1)


def test_variables_of_inlined_functions_are_known_with_their_site() -> None:
    program = compiled("""
        @inline
        def g(p, k):
            y = p * k
            return y + 1
        def f(a):
            z = g(a, 4)
            return z
    """)
    f = program.function("f")
    known = {(v.name, v.site >= 0): (v.register, v.value) for v in f.variables}
    assert known["a", False] == (0, 0)
    assert known["p", True] == (0, 0)  # the caller's own register
    assert known["k", True] == (-1, 4)  # a constant has no register
    assert known["z", False][0] != known["a", False][0]


def test_inline_functions_have_code_of_their_own() -> None:
    run = machine("""
        @inline
        def g(x):
            return x + 1
    """)
    assert run.program.function("g").inline
    assert run.call("g", 4) == 5


def test_inlining_recursion_is_refused() -> None:
    assert error_of("""
        @inline
        def g(x):
            return h(x)
        @inline
        def h(x):
            return g(x)
    """) == ("t.py:7:12: inline function g expands itself: g -> h -> g: `g(x)` (remove @inline from one)")


@pytest.mark.parametrize("inline", ["", "@inline"])
def test_pointer_of_another_struct_is_refused_as_argument(inline: str) -> None:
    assert error_of(f"""
        class page(struct):
            flags: word
        class node(struct):
            lock: word
        {inline or "pass"}
        def g(p: page):
            return p.flags
        def f(n: node):
            return g(n)
    """) == (
        "t.py:10:14: parameter p is a ptr[page], this is a ptr[node]: `n` "
        "(write cast(page, n) if it is meant)"
    )


def test_operations_of_a_call_for_effect_drop_the_result() -> None:
    program = compiled("""
        def g():
            return 1
        def f():
            g()
    """)
    assert operations(program, "f") == [Op.CALL, Op.RET]
    assert int(program.code[program.function("f").entry_pc * WORDS + 1]) == -1


def test_result_built_in_an_argument_register_survives_a_call_in_the_inlined_body() -> None:
    run = machine("""
        def g(a, b):
            a = a - b
            return a
        @inline
        def keep(x):
            v = x * 3
            g(v, 1)
            return v
        def f(x):
            return g(keep(x), 2)
    """)
    assert run.call("f", 5) == 13


def test_embedded_address_used_twice_in_an_inlined_body_is_computed_once() -> None:
    program = compiled(
        LIST
        + """
@inline
def init(h: list_head):
    h.next = h
    h.prev = h
@inline
def next_of(h: list_head) -> list_head:
    return h.next
def f(p: page):
    init(addressof(p.lru))
    return next_of(addressof(p.lru))
"""
    )
    assert listing(program, "f") == [
        "h = p + 16",
        "[h+0] = h",
        "[h+8] = h",
        "r1 = [p+16]",  # used once: part of the load
        "return r1",
    ]


def test_an_expansion_without_micro_ops_of_its_own_is_still_a_frame() -> None:
    program = compiled("""
        @inline
        def inner(x):
            return x * x
        @inline
        def outer(x):
            return inner(x)
        def f(a):
            return outer(a)
    """)
    f = program.function("f")
    names = [
        [function.name for function, _ in program.inline_stack(pc)] for pc in (f.entry_pc, f.entry_pc + 1)
    ]
    assert names == [["f", "outer", "inner"], ["f"]]
