"""Every kind of mistake has one message: file, line, column, what is wrong, the text, what to do."""

from __future__ import annotations

import ast

import pytest

from slubviz.model.errors import UserError
from slubviz.model.lang import KernelLanguageError, SourceFile, Target, compile_program
from tests.lang.helpers import TARGET, compiled, error_of


def body_error(body: str) -> str:
    """The message for a function body, without its file name; the body starts in line 4."""
    lines = "\n".join("    " + line for line in body.split("\n"))
    text = f"X = counter()\nK = 5\ndef f(a, b):\n{lines}\ndef g(x):\n    return x\n"
    return error_of(text).removeprefix("t.py:")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        # names
        ("return c", "4:12: unknown name c: `c`"),
        ("return kx", "4:12: unknown name kx: `kx`"),
        ("size = 1\nreturn sise", "5:12: unknown name sise: `sise` (did you mean size?)"),
        ("return PAGE_SISE", "4:12: unknown name PAGE_SISE: `PAGE_SISE` (did you mean PAGE_SIZE?)"),
        ("x = y\ny = 1", "4:9: y is used before it is assigned: `y` (assign it first)"),
        ("c += 1", "4:5: c is used before it is assigned: `c` (assign it first)"),
        ("objekt = 1\nobject = object + objekt",
         "5:14: object is used before it is assigned: `object` (did you mean objekt?)"),
        ("x: word\nreturn x", "5:12: x has no value yet: `x` (assign it first)"),
        ("while g(x):\n    x = 1", "4:13: x is used before it is assigned: `x` (assign it first)"),
        ("K = 3", "4:5: K is a constant and cannot be assigned: `K` (choose another name)"),
        ("X = 3", "4:5: X is a counter and cannot be assigned: `X` (choose another name)"),
        ("PAGE_SIZE += 3", "4:5: PAGE_SIZE is a constant and cannot be assigned: `PAGE_SIZE` "
                           "(choose another name)"),
        ("NULL = 3", "4:5: NULL is a constant and cannot be assigned: `NULL` (choose another name)"),
        ("return g", "4:12: g is a function, not a value: `g` (call it: g(...))"),
        # operators
        ("return a / b", "4:12: `/` gives fractions: `a / b` (write // for integer division)"),
        ("a /= b", "4:5: `/` gives fractions: `a /= b` (write // for integer division)"),
        ("return a ** b", "4:12: `**` is not part of the language: `a ** b` "
                          "(write 1 << n for powers of two)"),
        ("return a is b", "4:12: `is` is not part of the language: `a is b` (compare with ==)"),
        ("return a is not b", "4:12: `is not` is not part of the language: `a is not b` (compare with !=)"),
        ("if a in b:\n    pass", "4:8: `in` is not part of the language: `a in b` "
                                 "(compare with == or loop)"),
        ("return 1 < a < 3", "4:12: comparisons cannot be chained: `1 < a < 3` (write a < b and b < c)"),
        ("return a // 0", "4:12: division by zero: `a // 0`"),
        ("return a % (K - 5)", "4:12: division by zero: `a % (K - 5)`"),
        ("return a << 64", "4:12: shift by 64: a shift goes from 0 to 63: `a << 64`"),
        ("a >>= -1", "4:5: shift by -1: a shift goes from 0 to 63: `a >>= -1`"),
        # values
        ("return None", "4:12: None is not part of the language: `None` (write NULL)"),
        ("return 1.5", "4:12: the language has integers only: `1.5` (write a whole number)"),
        ("return 'x'", "4:12: text is not a value: `'x'` "
                       "(text is allowed only as a message: bug(...), bug_on(..., ...), assert ..., ...)"),
        ("return f'{a}'", "4:12: text is not a value: `f'{a}'` "
                          "(messages are plain text without placeholders)"),
        ("return ...", "4:12: this is not a value: `...`"),
        ("return 0x1_0000_0000_0000_0000", "4:12: the number does not fit in 64 bits: "
                                           "`0x1_0000_0000_0000_0000`"),
        ("return (a, b)", "4:12: tuples are not part of the language: `(a, b)` "
                          "(use one variable for each value)"),
        ("return [a, b]", "4:12: lists are not part of the language: `[a, b]` "
                          "(declare a global: name: array[type, length])"),
        ("return {a: b}", "4:12: dictionaries are not part of the language: `{a: b}`"),
        ("return lambda: a", "4:12: `lambda` is not part of the language: `lambda: a` "
                             "(write an @inline function)"),
        ("return [x for x in a]", "4:12: comprehensions are not part of the language: "
                                  "`[x for x in a]` (write a for loop)"),
        ("return (c := a)", "4:13: `:=` is not part of the language: `c := a` "
                            "(assign in a statement of its own)"),
        # calls
        ("g(1, 2)", "4:5: 1 argument expected, 2 given: `g(1, 2)` (write g(x))"),
        ("g(x=1)", "4:5: arguments cannot be named: `g(x=1)` (write g(x))"),
        ("g(*a)", "4:7: `*` is not part of the language: `*a` (write g(x))"),
        ("h(1)", "4:5: unknown function h: `h(1)`"),
        ("print(a)", "4:5: unknown function print: `print(a)` (count events with count(COUNTER))"),
        ("a.g(1)", "4:5: there are no methods: `a.g(1)` (write g(a, ...))"),
        ("g(1)(2)", "4:5: only functions can be called: `g(1)(2)`"),
        ("x = range(3)", "4:9: unknown function range: `range(3)` "
                         "(range is possible only in: for i in range(...))"),
        # statements
        ("a + 1", "4:5: the expression has no effect: `a + 1` (only calls stand alone)"),
        ("a == 1", "4:5: the expression has no effect: `a == 1` (write = to assign)"),
        ("a = b = 1", "4:5: one variable is assigned at a time: `a = b = 1` (write one assignment a line)"),
        ("a, b = b, a", "4:5: one variable is assigned at a time: `a, b` (write one assignment a line)"),
        ("f(a)[0] = 1", "4:5: 2 arguments expected, 1 given: `f(a)` (write f(a, b))"),
        ("for i in a:\n    pass", "4:14: for goes over range only: `a` (write for i in range(count):)"),
        ("for i in range(a, b, a):\n    pass",
         "4:26: the step is not a constant other than 0: `a` (use while)"),
        ("for i in range(a, b, 0):\n    pass",
         "4:26: the step is not a constant other than 0: `0` (use while)"),
        ("for i in range():\n    pass", "4:14: 1 to 3 arguments expected, 0 given: `range()` "
                                        "(write range(start, end, step))"),
        ("for i, j in range(3):\n    pass", "4:9: for counts a local: `i, j` (write for i in range(count):)"),
        ("for i in range(3):\n    i = 5", "5:9: i is counted by its for loop: `i` "
                                          "(use while to change it yourself)"),
        ("for i in range(3):\n    i += 5", "5:9: i is counted by its for loop: `i` "
                                           "(use while to change it yourself)"),
        ("for i in range(3):\n    for i in range(2):\n        pass",
         "5:13: i is counted by an outer for loop: `i` (choose another name)"),
        ("for i in range(3):\n    pass\nelse:\n    a = 2",
         "7:9: `else` of a loop is not part of the language: `a = 2` (use a flag)"),
        ("while a:\n    pass\nelse:\n    a = 2",
         "7:9: `else` of a loop is not part of the language: `a = 2` (use a flag)"),
        ("break", "4:5: `break` outside a loop: `break`"),
        ("if a:\n    continue", "5:9: `continue` outside a loop: `continue`"),
        ("assert a, b", "4:15: a message is plain text: `b` (write assert condition, \"message\")"),
        ("import os", "4:5: `import` is not part of the language: `import os` "
                      "(give the files to the compiler in order)"),
        ("try:\n    pass\nfinally:\n    pass", "4:5: `try` is not part of the language: `try` "
                                               "(return a code and test it)"),
        ("with a:\n    pass", "4:5: `with` is not part of the language: `with` "
                              "(write the lock and unlock calls)"),
        ("raise a", "4:5: `raise` is not part of the language: `raise a` (write bug(\"message\"))"),
        ("global a", "4:5: `global` is not needed: `global a` "
                     "(assigning to the name of a global stores to it)"),
        ("del a", "4:5: `del` is not part of the language: `del a`"),
        ("def h():\n    pass", "4:5: this statement is not possible in a function: `def h` "
                               "(define it outside the function)"),
        ("a: word = 1", "4:5: a already has a type: `a` (annotate the first assignment only)"),
        ("a.b: word = 1", "4:5: only locals are annotated in a function: `a.b` "
                          "(its type comes from its struct)"),
        ("x: array[word, 3] = 1", "4:8: an array cannot be kept in a register: `array[word, 3]` "
                                  "(use a pointer: ptr[type])"),
    ],
)  # fmt: skip
def test_errors_in_functions(body: str, message: str) -> None:
    assert body_error(body) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from other import *\n",
         "t.py:1:1: `import` is not part of the language: `from other import *` "
         "(give the files to the compiler in order)"),
        ("if 1:\n    pass\n",
         "t.py:1:1: this statement is possible only in a function: `if 1` "
         "(outside functions: constants, counters, options, structs, globals and functions)"),
        ("A = B\n", "t.py:1:5: unknown name B: `B`"),
        ("PAGES = PAGE_SIZ * 2\n",
         "t.py:1:9: unknown name PAGE_SIZ: `PAGE_SIZ` (did you mean PAGE_SIZE?)"),
        ("A = B\nB = A\n", "t.py:2:5: the constant A is defined by itself: `A`"),
        ("A = 1 // 0\n", "t.py:1:5: division by zero: `1 // 0`"),
        ("x: word\nA = x + 1\n", "t.py:2:5: a global is not a constant: `x`"),
        ("A = f()\ndef f():\n    pass\n",
         "t.py:1:5: this is not a constant expression: `f()` "
         "(use numbers, constants, sizeof and operators)"),
        ("A = 1\nA = 2\n", "t.py:2:1: A is already defined at t.py:1: `A` (choose another name)"),
        ("A = 1\ndef A():\n    pass\n",
         "t.py:2:1: A is already defined at t.py:1: `def A` (choose another name)"),
        ("PAGE_SIZE = 1\n",
         "t.py:1:1: PAGE_SIZE is predefined as 4096: `PAGE_SIZE` "
         "(it comes from the machine; choose another name)"),
        ("spin_lock = 1\n",
         "t.py:1:1: spin_lock is a name of the language: `spin_lock` (choose another name)"),
        ("A, B = 1, 2\n",
         "t.py:1:1: one name is defined at a time: `A, B = 1, 2` (write NAME = constant expression)"),
        ("A = option(1)\n",
         "t.py:1:5: 2 arguments expected, 1 given: `option(1)` "
         "(write NAME = option(default, \"what it chooses\"))"),
        ("A = option(1, 2)\n",
         "t.py:1:15: an option's description is text: `2` "
         "(write NAME = option(default, \"what it chooses\"))"),
        ("A = counter(1)\n",
         "t.py:1:5: 0 arguments expected, 1 given: `counter(1)` (write NAME = counter())"),
        ("def f():\n    pass\ndef f():\n    pass\n",
         "t.py:3:1: function f is already defined at t.py:1: `def f` (write @override to replace it)"),
        ("def slab_alloc():\n    pass\n@override\ndef slab_aloc():\n    pass\n",
         "t.py:4:1: @override: there is no earlier function slab_aloc: `def slab_aloc` "
         "(did you mean slab_alloc?)"),
        ("@noinline\ndef f():\n    pass\n",
         "t.py:1:2: unknown decorator: `noinline` (only @inline and @override exist)"),
        ("def f(a=1):\n    pass\n",
         "t.py:1:9: parameters have no defaults: `1` (pass every argument)"),
        ("def f(*a):\n    pass\n",
         "t.py:1:8: only plain parameters are possible: `a` (write def name(a, b: type):)"),
        ("A = 1\ndef f(A):\n    pass\n", "t.py:2:7: A is a constant: `A` (choose another name)"),
        ("async def f():\n    pass\n",
         "t.py:1:1: `async` is not part of the language: `async` (write def)"),
        ("def f(a: pag):\n    pass\nclass page(struct):\n    x: word\n",
         "t.py:1:10: unknown type pag: `pag` (did you mean page?)"),
        ("def f() -> None:\n    return 1\n",
         "t.py:2:5: f is declared -> None: `return 1` (remove the value or the declaration)"),
        ("def f() -> None:\n    pass\ndef g():\n    return f()\n",
         "t.py:4:12: f gives no value: `f()` (it is declared -> None)"),
        ("class page(struct):\n    x: word\nclass node(struct):\n    y: word\n"
         "def f(p: page, n: node):\n    q = p\n    q = n\n",
         "t.py:7:9: q is a ptr[page], this is a ptr[node]: `n` (write cast(page, n) if it is meant)"),
        ("class page(struct):\n    next: ptr[page]\nclass node(struct):\n    y: word\n"
         "def f(p: page, n: node):\n    p.next = n\n",
         "t.py:6:14: p.next is a ptr[page], this is a ptr[node]: `n` "
         "(write cast(page, n) if it is meant)"),
        ("class page(struct):\n    x: word\nclass node(struct):\n    y: word\n"
         "def f(n: node) -> page:\n    return n\n",
         "t.py:6:12: the result of f is a ptr[page], this is a ptr[node]: `n` "
         "(write cast(page, n) if it is meant)"),
        ("class page(struct):\n    x: word\np: page\ndef f():\n    p = 1\n",
         "t.py:5:5: a whole page cannot be assigned: `p` (assign its parts one by one)"),
        ("x: word\ndef f():\n    x: word = 1\n",
         "t.py:3:5: x is a global: `x` (assign it without a type, or choose another name)"),
        ("x: word\ndef f():\n    for x in range(3):\n        pass\n",
         "t.py:3:9: for counts a local: `x` (write for i in range(count):)"),
        # what Python itself cannot read
        ("def f(:\n    pass\n", "t.py:1:7: syntax error: invalid syntax: `def f(:`"),
        ("def f():\nreturn 1\n",
         "t.py:2:1: syntax error: expected an indented block after function definition on line 1: "
         "`return 1`"),
    ],
)  # fmt: skip
def test_errors_outside_functions(text: str, message: str) -> None:
    assert error_of(text) == message


def test_columns_count_characters_not_bytes() -> None:
    message = error_of("def f(a):\n    assert a, 'größer'; return unbekannt\n")
    assert message == "t.py:2:32: unknown name unbekannt: `unbekannt`"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_system(end: str) -> None:
    text = f"X = 1{end}# a form feed \x0c and a line separator \u2028 do not end a line{end}Y = Z{end}"
    assert error_of(text) == "t.py:3:5: unknown name Z: `Z`"


def test_a_byte_order_mark_is_ignored() -> None:
    assert compiled("\ufeffX = 3\n").constants["X"] == 3


def test_long_and_broken_text_is_cut_to_one_line() -> None:
    message = error_of("def f(a):\n    return unknown(a +\n        1)\n")
    assert message == "t.py:2:12: unknown function unknown: `unknown(a + ...`"
    message = error_of("def f(a):\n    return a / (" + "a + " * 40 + "a)\n")
    assert "` (write // for integer division)" in message
    assert len(message) < 160


def test_error_carries_its_parts() -> None:
    with pytest.raises(KernelLanguageError) as caught:
        compiled("def f(count_of):\n    return cuont_of\n")
    error = caught.value
    assert isinstance(error, UserError)
    assert (error.file, error.line, error.column) == ("t.py", 2, 12)
    assert (error.text, error.message) == ("cuont_of", "unknown name cuont_of")
    assert error.suggestion == "did you mean count_of?"


def test_unknown_option_lists_the_known_ones() -> None:
    text = 'DEBUG = option(0, "d")\nMAX_ORDER = option(PAGE_SHIFT - 9, "m")\n'
    assert error_of(text, options={"MAX_ODER": 1}) == (
        "options: unknown option MAX_ODER (did you mean MAX_ORDER? known options: DEBUG, MAX_ORDER)"
    )
    assert error_of("X = 1\n", options={"A": 1}) == "options: unknown option A (known options: none)"
    program = compiled(text, options={"DEBUG": 7})
    assert {name: option.value for name, option in program.options.items()} == {"DEBUG": 7, "MAX_ORDER": 3}


def test_errors_name_the_right_file() -> None:
    files = [
        SourceFile("base.py", "def f(x):\n    return x\n"),
        SourceFile("more.py", "\ndef f(x):\n    pass\n"),
    ]
    with pytest.raises(KernelLanguageError) as caught:
        compile_program(files, TARGET)
    assert str(caught.value).startswith("more.py:2:1: function f is already defined at base.py:1:")
    inlined = [
        SourceFile("a.py", "class s(struct):\n    x: word\n@inline\ndef g(p: s):\n    return p.x\n"),
        SourceFile("b.py", "class t(struct):\n    x: word\ndef f(q: t):\n    return g(q)\n"),
    ]
    with pytest.raises(KernelLanguageError, match=r"^b\.py:4:14: parameter p is a ptr\[s\]"):
        compile_program(inlined, TARGET)


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    text = "def f(a):\n    return " + "-" * 5000 + "a\n"
    assert "nested too deeply" in error_of(text) or "syntax error" in error_of(text)
    text = "def f(a):\n    return " + " + ".join(["a"] * 5000) + "\n"
    try:
        compiled(text)
    except KernelLanguageError as error:
        assert "nested too deeply" in str(error)  # noqa: PT017 - either outcome is fine, a crash is not


def test_nul_bytes_are_an_error() -> None:
    assert "t.py:1:1:" in error_of("X = 1\0\n")


def test_inline_functions_that_multiply_are_stopped() -> None:
    text = "def g(x):\n    return x\n@inline\ndef f0(x):\n    return g(x) + g(x)\n"
    for number in range(1, 25):
        text += f"@inline\ndef f{number}(x):\n    return f{number - 1}(x) + f{number - 1}(x)\n"
    message = error_of(text)
    assert "becomes too large" in message
    assert "make some of them plain functions" in message


def test_wrong_targets_are_refused() -> None:
    with pytest.raises(ValueError, match="a word has 4 or 8 bytes"):
        compile_program([], Target(2, {}, 4096))
    with pytest.raises(ValueError, match="two files have the same name"):
        compile_program([SourceFile("a", ""), SourceFile("a", "")], TARGET)


def test_source_is_never_executed() -> None:
    """Not even names that Python would look up: a file may say anything."""
    text = "A = __import__('os').system('false')\n"
    assert ast.parse(text)
    assert "this is not a constant expression" in error_of(text)


def test_an_empty_program_compiles() -> None:
    program = compile_program([], TARGET)
    assert program.micro_ops == 0
    assert program.functions == ()
    with pytest.raises(IndexError):
        program.function_at(0)
