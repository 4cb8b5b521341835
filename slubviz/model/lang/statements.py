"""Code for statements: assignments, branches, loops with the test at the bottom, returns."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from slubviz.hw.isa import Op
from slubviz.model.lang import calls, conditions, constants, expressions, operators
from slubviz.model.lang.builder import Builder, Label, Local, Place, Value, integer
from slubviz.model.lang.refusals import refuse_expression, refuse_statement
from slubviz.model.lang.source import Position
from slubviz.model.lang.types import INT, Array, Pointer, StructRef, Type, compatible

_ELSE = re.compile(r"\s*(else)\b")


def block(b: Builder, body: Sequence[ast.stmt]) -> None:
    """Compile statements one after the other."""
    for node in body:
        b.begin_statement()
        statement(b, node)
        b.end_statement()


def statement(b: Builder, node: ast.stmt) -> None:
    """Compile one statement."""
    if isinstance(node, ast.Assign):
        _assign(b, node)
    elif isinstance(node, ast.AugAssign):
        _augmented(b, node)
    elif isinstance(node, ast.AnnAssign):
        _annotated(b, node)
    elif isinstance(node, ast.Expr):
        _expression(b, node)
    elif isinstance(node, ast.If):
        _if(b, node)
    elif isinstance(node, ast.While):
        _while(b, node)
    elif isinstance(node, ast.For):
        _for(b, node)
    elif isinstance(node, ast.Return):
        _return(b, node)
    elif isinstance(node, (ast.Break, ast.Continue)):
        _leave_loop(b, node)
    elif isinstance(node, ast.Assert):
        _assert(b, node)
    elif not isinstance(node, ast.Pass):
        refuse_statement(b.source, node)
        inner = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        hint = "define it outside the function" if inner else ""
        raise b.error(node, "this statement is not possible in a function", hint)


# --- assignments -------------------------------------------------------------------------------
def _assign(b: Builder, node: ast.Assign) -> None:
    if len(node.targets) != 1:
        raise b.error(node, "one variable is assigned at a time", "write one assignment a line")
    target = node.targets[0]
    if isinstance(target, ast.Name) and not _is_global(b, target.id):
        _assign_local(b, target, node.value)
    elif isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
        given = expressions.value(b, node.value)
        where = expressions.place(b, target)
        _check_stored(b, target, node.value, where, given.type)
        expressions.store(b, where, expressions.to_register(b, given, node.value), target)
    elif isinstance(target, (ast.Tuple, ast.List)):
        raise b.error(target, "one variable is assigned at a time", "write one assignment a line")
    else:
        raise b.error(target, "this cannot be assigned")


def _is_global(b: Builder, name: str) -> bool:
    """Whether an assignment to ``name`` stores to memory."""
    return name not in b.scope.locals and name in b.unit.globals


def _check_stored(b: Builder, target: ast.expr, node: ast.AST, where: Place, given: Type) -> None:
    if isinstance(where.type, (StructRef, Array)):
        raise b.error(target, f"a whole {where.type.name} cannot be assigned", "assign its parts one by one")
    calls.check_assigned(b, node, where.type, given, b.source.segment(target))


def _refuse_other_names(b: Builder, node: ast.AST, name: str) -> None:
    """A local may not hide a constant, counter, option or predefined name."""
    kind = b.unit.kind_of(name)
    if kind in ("constant", "counter", "option"):
        raise b.error(node, f"{name} is a {kind} and cannot be assigned", "choose another name")


def _assign_local(b: Builder, target: ast.Name, node: ast.expr, declared: Type | None = None) -> None:
    name = target.id
    local = b.scope.locals.get(name)
    if local is None:
        _refuse_other_names(b, target, name)
        register = b.scope.registers[name]
        kind = expressions.into(b, node, register)
        if declared is not None:
            calls.check_assigned(b, node, declared, kind, name)
        b.declare(name, Value(register, 0, declared or kind), declared=declared is not None)
        return
    if local.is_loop_counter:
        raise b.error(target, f"{name} is counted by its for loop", "use while to change it yourself")
    assert local.value.reg is not None
    kind = expressions.into(b, node, local.value.reg)
    _note_assigned(b, local, kind, node)


def _note_assigned(b: Builder, local: Local, kind: Type, node: ast.AST) -> None:
    calls.check_assigned(b, node, local.type, kind, local.name)
    local.assigned = True
    if not local.declared and isinstance(kind, Pointer) and compatible(kind, local.type):
        more_telling = not isinstance(local.type, Pointer) or local.type.target is None
        if more_telling:
            local.value = local.value.typed(kind)


def _annotated(b: Builder, node: ast.AnnAssign) -> None:
    target = node.target
    if not isinstance(target, ast.Name):
        hint = "its type comes from its struct"
        raise b.error(target, "only locals are annotated in a function", hint)
    name = target.id
    if _is_global(b, name):
        raise b.error(target, f"{name} is a global", "assign it without a type, or choose another name")
    if name in b.scope.locals:
        hint = "annotate the first assignment only"
        raise b.error(target, f"{name} already has a type", hint)
    kind = constants.read_type(b.unit, b.source, node.annotation, embed=False)
    if node.value is not None:
        _assign_local(b, target, node.value, kind)
        return
    _refuse_other_names(b, target, name)
    b.declare(name, Value(b.scope.registers[name], 0, kind), declared=True, assigned=False)


def _augmented(b: Builder, node: ast.AugAssign) -> None:
    constants.check_operator(b.source, node, node.op)
    target = node.target
    parts = (target, node.value)
    if isinstance(target, ast.Name) and not _is_global(b, target.id):
        left = expressions.value(b, _read_of(target))
        local = b.scope.locals.get(target.id)
        if local is None:
            raise b.error(target, f"{target.id} is a constant and cannot be assigned", "choose another name")
        if local.is_loop_counter:
            hint = "use while to change it yourself"
            raise b.error(target, f"{target.id} is counted by its for loop", hint)
        assert local.value.reg is not None
        right = expressions.value(b, node.value)
        result = operators.binary(b, node.op, left, right, node, parts, local.value.reg)
        expressions.to_register(b, result, node, local.value.reg)
        return
    where = expressions.place(b, target)
    if isinstance(where.type, (StructRef, Array)):
        raise b.error(target, f"a whole {where.type.name} cannot be assigned")
    base, imm = expressions.address(b, where, target)
    where = Place(base, imm, where.type)  # one address for the load and the store
    left = expressions.load(b, where, target)
    right = expressions.value(b, node.value)
    result = operators.binary(b, node.op, left, right, node, parts, left.reg)
    expressions.store(b, where, expressions.to_register(b, result, node), target)


def _read_of(target: ast.Name) -> ast.Name:
    return ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), target)


def _expression(b: Builder, node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Call):
        refuse_expression(b.source, node.value)
        hint = "only calls stand alone"
        if isinstance(node.value, ast.Compare):
            hint = "write = to assign"
        raise b.error(node, "the expression has no effect", hint)
    calls.call(b, node.value, None, wanted=False)


def _assert(b: Builder, node: ast.Assert) -> None:
    text = "assertion failed: " + b.source.segment(node.test)
    if node.msg is not None:
        if not isinstance(node.msg, ast.Constant) or not isinstance(node.msg.value, str):
            raise b.error(node.msg, "a message is plain text", 'write assert condition, "message"')
        text = node.msg.value
    fine = Label()
    conditions.branch(b, node.test, fine, jump_if=True)
    b.emit(Op.BUG, node, imm=b.unit.message_number(text))
    b.place(fine)


# --- control flow ------------------------------------------------------------------------------
def _test(b: Builder, node: ast.expr, label: Label, *, jump_if: bool) -> None:
    """A condition; its temporaries end with it."""
    b.begin_statement()
    conditions.branch(b, node, label, jump_if=jump_if)
    b.end_statement()


def _if(b: Builder, node: ast.If) -> None:
    known = conditions.constant(b, node.test)
    otherwise, end = Label(), Label()
    _test(b, node.test, otherwise, jump_if=False)
    b.dead += known == 0
    block(b, node.body)
    b.dead -= known == 0
    if node.orelse:
        b.emit(Op.JMP, node, target=end, position=_else_word(b, node))
    b.place(otherwise)
    dead = known is not None and known != 0
    b.dead += dead
    block(b, node.orelse)
    b.dead -= dead
    b.place(end)


def _else_word(b: Builder, node: ast.If) -> Position:
    """Where ``else`` or ``elif`` stands: the jump over that part is shown there."""
    first = node.orelse[0]
    line, column = first.lineno, b.source.column(first.lineno, first.col_offset)
    for number in range(node.body[-1].end_lineno or node.lineno, first.lineno + 1):
        word = _ELSE.match(b.source.lines[number - 1])
        if word:
            return number, word.start(1) + 1, number, word.end(1) + 1
    return line, column, line, column + len("elif")


def _loop_body(b: Builder, body: Sequence[ast.stmt], again: Label, end: Label) -> None:
    b.scope.loops.append((again, end))
    block(b, body)
    b.scope.loops.pop()


def _while(b: Builder, node: ast.While) -> None:
    if node.orelse:
        raise b.error(node.orelse[0], "`else` of a loop is not part of the language", "use a flag")
    known = conditions.constant(b, node.test)
    top, again, end = Label(), Label(), Label()
    # A test without calls stands twice, before the loop and at its bottom: one branch an iteration and
    # none to get in.  One with calls stands once, at the bottom.
    twice = known is None and not any(isinstance(n, ast.Call) for n in ast.walk(node.test))
    if twice:
        _test(b, node.test, end, jump_if=False)
    elif known is None:
        for name in ast.walk(node.test):
            if isinstance(name, ast.Name) and name.id in b.scope.registers:
                expressions.value(b, name)  # the body must not be what first assigns it
        b.jump(node, again)
    elif not known:
        b.jump(node, end)
    b.place(top)
    b.dead += known == 0
    _loop_body(b, node.body, again, end)
    b.dead -= known == 0
    b.place(again)
    if known is None:
        _test(b, node.test, top, jump_if=True)
    else:
        b.jump(node, top)
    b.place(end)


def _range_arguments(b: Builder, node: ast.For) -> tuple[ast.expr | None, ast.expr, int]:
    """Start (None: 0), end and step of ``for i in range(...)``."""
    loop = node.iter
    if not (isinstance(loop, ast.Call) and isinstance(loop.func, ast.Name) and loop.func.id == "range"):
        raise b.error(loop, "for goes over range only", "write for i in range(count):")
    arguments = constants.plain_arguments(b.source, loop, 1, 3, "range(start, end, step)")
    if len(arguments) == 1:
        return None, arguments[0], 1
    step = 1
    if len(arguments) == 3:
        known = conditions.constant(b, arguments[2])
        if known is None or known == 0:
            raise b.error(arguments[2], "the step is not a constant other than 0", "use while")
        step = known
    return arguments[0], arguments[1], step


def _for(b: Builder, node: ast.For) -> None:
    if node.orelse:
        raise b.error(node.orelse[0], "`else` of a loop is not part of the language", "use a flag")
    if not isinstance(node.target, ast.Name) or _is_global(b, node.target.id):
        raise b.error(node.target, "for counts a local", "write for i in range(count):")
    first_node, last_node, step = _range_arguments(b, node)
    first = integer(0) if first_node is None else expressions.value(b, first_node)
    last = expressions.value(b, last_node)
    local = _loop_counter(b, node.target)
    counter = local.value.reg
    assert counter is not None
    if not last.constant and (last.number or last.reg == counter or _assigned_in(b, node.body, last)):
        own = b.temporary()
        expressions.to_register(b, last, last_node, own)
        last = Value(own, 0, INT)
    expressions.to_register(b, first, first_node or node.iter, counter)
    local.assigned = local.is_loop_counter = True
    start = first if first.constant else local.value
    top, again, end = Label(), Label(), Label()
    nodes = (node.iter, node.target, last_node)
    running = ast.Lt if step > 0 else ast.Gt
    conditions.branch_compare_values(b, running, start, last, nodes, end, jump_if=False)
    b.place(top)
    _loop_body(b, node.body, again, end)
    b.place(again)
    expressions.to_register(b, Value(counter, step, INT), node.target, counter)
    conditions.branch_compare_values(b, running, local.value, last, nodes, top, jump_if=True)
    b.place(end)
    local.is_loop_counter = False


def _loop_counter(b: Builder, target: ast.Name) -> Local:
    local = b.scope.locals.get(target.id)
    if local is None:
        _refuse_other_names(b, target, target.id)
        register = b.scope.registers[target.id]
        return b.declare(target.id, Value(register, 0, INT), declared=False, assigned=False)
    if local.is_loop_counter:
        raise b.error(target, f"{target.id} is counted by an outer for loop", "choose another name")
    return local


def _assigned_in(b: Builder, body: Sequence[ast.stmt], value: Value) -> bool:
    """Whether the loop's body assigns the local that ``value`` is."""
    names = [local.name for local in b.scope.locals.values() if local.value.reg == value.reg]
    return any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names
        for statement_node in body
        for node in ast.walk(statement_node)
    )


def _leave_loop(b: Builder, node: ast.Break | ast.Continue) -> None:
    word = "break" if isinstance(node, ast.Break) else "continue"
    if not b.scope.loops:
        raise b.error(node, f"`{word}` outside a loop")
    again, end = b.scope.loops[-1]
    b.jump(node, end if isinstance(node, ast.Break) else again)


def _return(b: Builder, node: ast.Return) -> None:
    returns, decl = b.scope.returns, b.scope.decl
    if node.value is not None and decl.return_type is None:
        raise b.error(node, f"{decl.name} is declared -> None", "remove the value or the declaration")
    if returns.kind == "function":
        _return_from_function(b, node)
    elif returns.kind == "branch":
        assert returns.if_true is not None
        assert returns.if_false is not None
        if node.value is not None:
            conditions.branch(b, node.value, returns.if_true, jump_if=True)
        b.jump(node, returns.if_false)
    elif returns.kind == "value":
        given = integer(0) if node.value is None else expressions.value(b, node.value, returns.dest)
        calls.check_return(b, node.value or node, given.type)
        expressions.to_register(b, given, node.value or node, returns.dest)
        b.jump(node, returns.end)
    else:
        _evaluate_for_effect(b, node.value)
        b.jump(node, returns.end)


def _evaluate_for_effect(b: Builder, node: ast.expr | None) -> None:
    """The result is dropped, but calls and loads in it still happen."""
    if isinstance(node, ast.Call):
        decl = b.unit.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        calls.call(b, node, None, wanted=decl is None)
    elif node is not None:
        expressions.value(b, node)


def _return_from_function(b: Builder, node: ast.Return) -> None:
    if node.value is None:
        b.emit(Op.RET, node, b=-1)
        return
    given = expressions.value(b, node.value)
    calls.check_return(b, node.value, given.type)
    if given.constant and given.number == 0:
        b.emit(Op.RET, node, b=-1)
        return
    b.emit(Op.RET, node, b=expressions.to_register(b, given, node.value))


def function_body(b: Builder) -> None:
    """Compile the whole function of ``b``."""
    decl = b.scope.decl
    block(b, decl.body)
    b.emit(Op.RET, decl.node, b=-1)  # shown at "def name": the end has no text of its own
