"""The state of compiling one function: emitted micro-ops, registers, scopes and variables.

The code generators (``expressions``, ``conditions``, ``calls``, ``intrinsics``, ``statements``) are
functions that take a ``Builder`` and a syntax node.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from slubviz.hw.isa import Op
from slubviz.model.lang.errors import KernelLanguageError
from slubviz.model.lang.source import Position, Source
from slubviz.model.lang.types import INT, Type
from slubviz.model.lang.unit import FunctionDecl, Unit

#: Register numbers from here on stand for a callee's parameters: ARGUMENT_BASE + k is argument k.  They
#: become real numbers when the function's own register count is known.
ARGUMENT_BASE = 1 << 20
#: A function that grows beyond this has inline functions that multiply.
_MOST_MICRO_OPS = 20_000


@dataclass(eq=False, slots=True)
class Label:
    """A place in the code: a branch target, or where a variable's life starts or ends."""

    pc: int = -1


@dataclass(eq=False, slots=True)
class Instruction:
    """One micro-op before its target is known."""

    op: Op
    a: int
    b: int
    c: int
    imm: int
    aux: int
    size: int
    target: Label | None
    file: int
    position: Position
    function: int  #: index of the function whose source this is
    site: int  #: inline site, -1 for none


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression gives: ``number``, or a register plus ``number``.

    The sum is not computed until a register is needed, because most are addresses and a load or store
    adds a constant for nothing.
    """

    reg: int | None
    number: int
    type: Type

    @property
    def constant(self) -> bool:
        """Known at compile time."""
        return self.reg is None

    def typed(self, kind: Type) -> Value:
        """The same value seen as another type."""
        return Value(self.reg, self.number, kind)


@dataclass(frozen=True, slots=True)
class Place:
    """Something in memory: at a register plus an offset, or at a fixed address."""

    reg: int | None
    offset: int
    type: Type


@dataclass(eq=False, slots=True)
class Local:
    """A parameter or local; ``value`` is where it lives."""

    name: str
    value: Value
    declared: bool  #: its type was written, so it does not follow what is assigned
    assigned: bool
    start: Label
    is_loop_counter: bool = False

    @property
    def type(self) -> Type:
        """The local's type as known so far."""
        return self.value.type


@dataclass(eq=False, slots=True)
class Returns:
    """What ``return`` does in a scope: leave the function, or continue where it was expanded."""

    kind: str  #: "function", "value" (into dest), "effect" (drop it) or "branch" (by truth)
    end: Label
    dest: int = -1
    if_true: Label | None = None
    if_false: Label | None = None


@dataclass(eq=False, slots=True)
class Scope:
    """One function body being compiled: the function's own, or an inline expansion."""

    decl: FunctionDecl
    site: int
    returns: Returns
    locals: dict[str, Local] = field(default_factory=dict)
    loops: list[tuple[Label, Label]] = field(default_factory=list)  #: (continue, break)
    #: Registers of the locals that the body assigns.  All are taken when the scope opens: a local that
    #: lives across a loop's iterations must not share one with a temporary used earlier in the loop.
    registers: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Site:
    """An inline expansion, before unused ones are dropped."""

    function: int
    file: int
    position: Position
    caller: int
    parent: int


@dataclass(eq=False, slots=True)
class VariableRange:
    """A variable and the labels between which it is valid."""

    local: Local
    site: int
    end: Label


class Builder:
    """Compiles one function; holds what the generators share."""

    def __init__(self, unit: Unit, decl: FunctionDecl, sites: list[Site]) -> None:
        self.unit = unit
        self.decl = decl
        self.sites = sites
        self.items: list[Instruction | Label] = []
        self.scopes: list[Scope] = []
        self.variables: list[VariableRange] = []
        #: Registers to free at the end of each statement that is being compiled, outermost first.
        self.temporaries: list[list[int]] = [[]]
        #: Inside code that a constant condition excludes: arithmetic there may not make sense.
        self.dead = 0
        self._free: list[int] = []  # a heap
        self._registers = 0

    # --- scope ---------------------------------------------------------------------------------
    @property
    def scope(self) -> Scope:
        """The innermost function body."""
        return self.scopes[-1]

    @property
    def source(self) -> Source:
        """The file of the innermost function body."""
        return self.scope.decl.source

    def error(self, node: ast.AST, message: str, suggestion: str = "") -> KernelLanguageError:
        """An error at ``node`` of the innermost function body."""
        return self.source.error(node, message, suggestion)

    def open_scope(self, scope: Scope, params: Sequence[str], kept_in_result: str = "") -> None:
        """Enter a function body and take registers for its locals.

        Parameters
        ----------
        params
            Names that have a register already.
        kept_in_result
            A local to be kept right in ``scope.returns.dest``, "" for none.
        """
        for name in scope.decl.assigned:
            if name == kept_in_result:
                scope.registers[name] = scope.returns.dest
            elif name not in params and name not in self.unit.globals:
                scope.registers[name] = self.temporary()
        self.scopes.append(scope)

    def declare(self, name: str, value: Value, *, declared: bool, assigned: bool = True) -> Local:
        """Make a local known, from here on."""
        local = Local(name, value, declared, assigned, self.place(Label()))
        self.scope.locals[name] = local
        return local

    def close_scope(self) -> None:
        """Leave the innermost function body; its variables end here."""
        end = self.place(Label())
        scope = self.scopes.pop()
        self.variables += [VariableRange(local, scope.site, end) for local in scope.locals.values()]

    # --- registers -----------------------------------------------------------------------------
    @property
    def registers_used(self) -> int:
        """Registers that the function needs, the highest count so far."""
        return self._registers

    def take_registers(self, count: int) -> int:
        """The first of ``count`` neighbouring free registers, lowest numbers first."""
        if count == 1 and self._free:
            return heappop(self._free)
        free = sorted(self._free)
        for place, start in enumerate(free):
            if free[place : place + count] == list(range(start, start + count)):
                self._free = free[:place] + free[place + count :]  # sorted, so still a heap
                return start
        start = self._registers
        self._registers += count
        return start

    def temporary(self, count: int = 1) -> int:
        """Registers that are free again at the end of the running statement."""
        start = self.take_registers(count)
        self.temporaries[-1] += range(start, start + count)
        return start

    def begin_statement(self) -> None:
        """Temporaries from here on belong to a new statement."""
        self.temporaries.append([])

    def end_statement(self) -> None:
        """Free the statement's temporaries."""
        for register in self.temporaries.pop():
            heappush(self._free, register)

    # --- code ----------------------------------------------------------------------------------
    def emit(
        self,
        op: Op,
        node: ast.AST,
        *,
        a: int = 0,
        b: int = 0,
        c: int = 0,
        imm: int = 0,
        aux: int = 0,
        size: int = 0,
        target: Label | None = None,
        position: Position | None = None,
    ) -> None:
        """Append a micro-op that computes ``node``."""
        if len(self.items) > _MOST_MICRO_OPS:
            hint = "inline functions that call inline functions multiply; make some of them plain functions"
            raise self.error(node, f"function {self.decl.name} becomes too large", hint)
        scope, source = self.scope, self.source
        position = position or source.position(node)
        self.items.append(
            Instruction(
                op, a, b, c, imm, aux, size, target, source.index, position, scope.decl.index, scope.site
            )
        )

    def place(self, label: Label) -> Label:
        """Put a label here."""
        self.items.append(label)
        return label

    def jump(self, node: ast.AST, target: Label) -> None:
        """Continue at ``target``."""
        self.emit(Op.JMP, node, target=target)


def integer(number: int) -> Value:
    """A constant of no particular type."""
    return Value(None, number, INT)
