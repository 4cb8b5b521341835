"""Random programs that mean the same to Python and to the kernel language, and Python's verdict on them.

The same text is compiled, and run by Python after a small rewriting: integers become ``Int64`` (wrap at
64 bits, shifts use 6 bits), ``and`` / ``or`` give 0 or 1, and ``m`` is a list that records its accesses.
"""

from __future__ import annotations

import ast
from typing import Any

from hypothesis import strategies as st

from slubviz.model.lang.arithmetic import wrap

MEMORY_WORDS = 8


class Int64(int):
    """An integer whose operators wrap like the machine's."""

    def __new__(cls, value: int = 0) -> Int64:
        return super().__new__(cls, wrap(int(value)))

    def __add__(self, other: int) -> Int64:
        return Int64(int(self) + int(other))

    def __sub__(self, other: int) -> Int64:
        return Int64(int(self) - int(other))

    def __mul__(self, other: int) -> Int64:
        return Int64(int(self) * int(other))

    def __floordiv__(self, other: int) -> Int64:
        return Int64(int(self) // int(other))

    def __mod__(self, other: int) -> Int64:
        return Int64(int(self) % int(other))

    def __and__(self, other: int) -> Int64:
        return Int64(int(self) & int(other))

    def __or__(self, other: int) -> Int64:
        return Int64(int(self) | int(other))

    def __xor__(self, other: int) -> Int64:
        return Int64(int(self) ^ int(other))

    def __lshift__(self, other: int) -> Int64:
        return Int64(int(self) << (int(other) & 63))

    def __rshift__(self, other: int) -> Int64:
        return Int64(int(self) >> (int(other) & 63))

    def __neg__(self) -> Int64:
        return Int64(-int(self))

    def __invert__(self) -> Int64:
        return Int64(~int(self))


class Memory:
    """The global ``m``; remembers every access in order."""

    def __init__(self) -> None:
        self.words = [Int64(0)] * MEMORY_WORDS
        self.accesses: list[tuple[str, int]] = []

    def __getitem__(self, index: int) -> Int64:
        self.accesses.append(("LD", int(index)))
        return self.words[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.accesses.append(("ST", int(index)))
        self.words[index] = Int64(value)


class _Rewriter(ast.NodeTransformer):
    """Makes Python compute as the machine does."""

    def _wrapped(self, node: ast.expr) -> ast.expr:
        return ast.Call(func=ast.Name("Int64", ast.Load()), args=[node], keywords=[])

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._wrapped(node) if isinstance(node.value, int) else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        truth = ast.Call(func=ast.Name("bool", ast.Load()), args=[node], keywords=[])
        return self._wrapped(truth)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        return self._wrapped(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._wrapped(node)

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        assert isinstance(node.target, ast.Name)
        name = node.target.id
        copy = ast.Assign([ast.Name(name, ast.Store())], self._wrapped(ast.Name(name, ast.Load())))
        node.body.insert(0, copy)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.decorator_list = []
        node.body.append(ast.Return(self._wrapped(ast.Constant(0))))  # falling off the end gives 0
        return node


def python_run(text: str, arguments: tuple[int, ...]) -> tuple[Any, Memory]:
    """What Python makes of ``f(*arguments)``: its result, or the name of its exception."""
    tree = _Rewriter().visit(ast.parse(text))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    memory = Memory()
    names: dict[str, Any] = {"Int64": Int64, "m": memory}
    exec(compile(ast.fix_missing_locations(tree), "random program", "exec"), names)
    try:
        result = names["f"](*(Int64(a) for a in arguments))
    except ZeroDivisionError:
        return "division by zero", memory
    return wrap(int(result)), memory


# --- expressions -------------------------------------------------------------------------------
NUMBERS = st.one_of(
    st.integers(-10, 10),
    st.sampled_from([0, 1, 2, 8, 64, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**63 - 1]),
    st.integers(-(2**63), 2**63 - 1),
)
ARGUMENTS = st.tuples(NUMBERS, NUMBERS, NUMBERS)
_ARITHMETIC = ["+", "-", "*", "//", "%", "&", "|", "^"]
_COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]


@st.composite
def expressions(draw: st.DrawFn, names: tuple[str, ...], calls: tuple[str, ...] = (), depth: int = 3) -> str:
    """The text of a random expression over ``names``, memory ``m`` and the functions ``calls``."""

    def inner() -> str:
        return draw(expressions(names, calls, depth - 1))

    kinds = ["name", "number"]
    if depth > 0:
        kinds += ["binary", "binary", "compare", "bool", "unary", "choice", "shift", "constant"]
        if calls:
            kinds += ["memory", "call", "call", "call"]
    kind = draw(st.sampled_from(kinds))
    if kind == "name":
        return draw(st.sampled_from(names))
    if kind == "binary":
        return f"({inner()} {draw(st.sampled_from(_ARITHMETIC))} {inner()})"
    if kind == "constant":
        return f"({inner()} {draw(st.sampled_from(_ARITHMETIC))} {draw(st.sampled_from([1, 2, 8, 3, 1024]))})"
    if kind == "shift":
        amount = draw(st.one_of(st.integers(0, 63).map(str), st.sampled_from(names)))
        return f"({inner()} {draw(st.sampled_from(['<<', '>>']))} {amount})"
    if kind == "compare":
        return f"({inner()} {draw(st.sampled_from(_COMPARISONS))} {inner()})"
    if kind == "bool":
        return f"({inner()} {draw(st.sampled_from(['and', 'or']))} {inner()})"
    if kind == "unary":
        return f"({draw(st.sampled_from(['-', '~', 'not ']))}{inner()})"
    if kind == "choice":
        return f"({inner()} if {inner()} else {inner()})"
    if kind == "memory":
        return f"m[{inner()} & 7]"
    if kind == "call":
        return f"{draw(st.sampled_from(calls))}({inner()}, {inner()})"
    return f"({draw(NUMBERS)})"


# --- statements --------------------------------------------------------------------------------
class _Writer:
    """Writes one function; every loop ends because a counter of its own limits it."""

    def __init__(self, draw: st.DrawFn, calls: tuple[str, ...]) -> None:
        self.draw, self.calls = draw, calls
        self.lines: list[str] = []
        self.loops = 0

    def expression(self, names: tuple[str, ...], depth: int = 2) -> str:
        return self.draw(expressions(names, self.calls, depth))

    def condition(self, names: tuple[str, ...], depth: int = 2) -> str:
        """Often two variables compared: the forms that branches have."""
        if self.draw(st.booleans()):
            first, second = (self.draw(st.sampled_from(names)) for _ in range(2))
            return f"{first} {self.draw(st.sampled_from(_COMPARISONS))} {second}"
        return self.expression(names, depth)

    def block(self, names: tuple[str, ...], indent: int, depth: int, in_loop: bool) -> None:
        for _ in range(self.draw(st.integers(1, 3))):
            self.statement(names, indent, depth, in_loop)

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def statement(self, names: tuple[str, ...], indent: int, depth: int, in_loop: bool) -> None:
        kinds = ["assign", "assign", "augment", "store", "augment_store", "call", "result", "result"]
        if depth > 0:
            kinds += ["if", "if", "while", "for", "for", "for", "return"] + ["leave"] * in_loop
        kind = self.draw(st.sampled_from(kinds))
        variable = self.draw(st.sampled_from(["x", "y", "a"]))
        operator = self.draw(st.sampled_from(["+", "-", "*", "&", "|", "^"]))
        if kind == "assign":
            self.write(indent, f"{variable} = {self.expression(names)}")
        elif kind == "augment":
            self.write(indent, f"{variable} {operator}= {self.expression(names)}")
        elif kind == "store":
            self.write(indent, f"m[{self.expression(names)} & 7] = {self.expression(names)}")
        elif kind == "augment_store":
            self.write(indent, f"m[{self.expression(names)} & 7] {operator}= {self.expression(names)}")
        elif kind in ("call", "result") and self.calls:
            called = self.draw(st.sampled_from(self.calls))
            target = f"{variable} = " if kind == "result" else ""
            self.write(indent, f"{target}{called}({self.expression(names)}, {self.expression(names)})")
        elif kind == "if":
            self._if(names, indent, depth, in_loop)
        elif kind == "while":
            self._while(names, indent, depth)
        elif kind == "for":
            self._for(names, indent, depth)
        elif kind == "return":
            self.write(indent, f"if {self.condition(names)}:")
            self.write(indent + 1, f"return {self.expression(names)}")
        elif kind == "leave":
            self.write(indent, f"if {self.condition(names, 1)}:")
            self.write(indent + 1, self.draw(st.sampled_from(["break", "continue"])))
        else:
            self.write(indent, "pass")

    def _if(self, names: tuple[str, ...], indent: int, depth: int, in_loop: bool) -> None:
        self.write(indent, f"if {self.condition(names)}:")
        self.block(names, indent + 1, depth - 1, in_loop)
        shape = self.draw(st.integers(0, 2))
        if shape == 2:
            self.write(indent, f"elif {self.condition(names)}:")
            self.block(names, indent + 1, depth - 1, in_loop)
        if shape:
            self.write(indent, "else:")
            self.block(names, indent + 1, depth - 1, in_loop)

    def _while(self, names: tuple[str, ...], indent: int, depth: int) -> None:
        self.loops += 1
        limit = f"n{self.loops}"
        self.write(indent, f"{limit} = {self.draw(st.integers(0, 4))}")
        self.write(indent, f"while {limit} > 0 and {self.condition(names)}:")
        self.write(indent + 1, f"{limit} -= 1")
        self.block((*names, limit), indent + 1, depth - 1, True)

    def _for(self, names: tuple[str, ...], indent: int, depth: int) -> None:
        self.loops += 1
        counter = f"i{self.loops}"
        step = self.draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        start, end = self.draw(st.integers(-3, 3)), self.draw(st.integers(-3, 6))
        low = f"({self.draw(st.sampled_from(names))} & 3) + {start}"
        shape = self.draw(st.integers(0, 3))
        if shape == 0:
            bounds = str(end)
        elif shape == 1:
            bounds = f"{low}, {end}"
        else:
            # the end is a variable, which the body may assign: range looks at it once
            self.write(indent, f"y = {start} + ({self.draw(st.sampled_from(names))} & 7)")
            bounds = f"{low}, y, {step}"
        self.write(indent, f"for {counter} in range({bounds}):")
        self.block((*names, counter), indent + 1, depth - 1, True)


@st.composite
def functions(draw: st.DrawFn, name: str, params: tuple[str, ...], calls: tuple[str, ...], depth: int) -> str:
    """The text of a random function that returns something."""
    writer = _Writer(draw, calls)
    writer.write(0, f"def {name}({', '.join(params)}):")
    start = [p for p in ("x", "y", "a") if p not in params]
    for variable in start:
        writer.write(1, f"{variable} = {draw(st.sampled_from((*params, '0', '7')))}")
    names = (*params, *start)
    writer.block(names, 1, depth, False)
    if draw(st.booleans()):
        writer.write(1, f"return {draw(st.sampled_from(['x', 'y', writer.expression(names)]))}")
    return "\n".join(writer.lines)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program with functions ``g``, ``h`` (inline or not) and ``f(a, b, c)``; call chains are acyclic."""
    parts = [f"m: array[word, {MEMORY_WORDS}]"]
    known: tuple[str, ...] = ()
    for name, params in (("g", ("a", "b")), ("h", ("p", "q"))):
        mark = draw(st.sampled_from(["@inline\n", ""]))
        parts.append(mark + draw(functions(name, params, known, 1)))
        known = (*known, name)
    parts.append(draw(functions("f", ("a", "b", "c"), known, 2)))
    return "\n\n".join(parts) + "\n"
