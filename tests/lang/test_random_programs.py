"""Random programs: the compiled code computes what Python computes, and touches memory in Python's order."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from slubviz.model.lang import KernelLanguageError, Program
from slubviz.model.lang.arithmetic import wrap
from tests.lang.helpers import compiled
from tests.lang.programs import ARGUMENTS, MEMORY_WORDS, expressions, programs, python_run
from tests.lang.reference_machine import ReferenceMachine

_COMPILE_TIME = ("division by zero", "a shift goes from 0 to 63")
_SETTINGS = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def compiled_or_none(text: str) -> Program | None:
    """None if the compiler sees a division by a constant zero or such, which Python meets only later."""
    try:
        return compiled(text)
    except KernelLanguageError as error:
        if any(reason in str(error) for reason in _COMPILE_TIME):
            event("refused at compile time")
            return None
        raise


def machine_run(program: Program, arguments: tuple[int, ...]) -> tuple[object, ReferenceMachine]:
    machine = ReferenceMachine(program)
    try:
        return machine.call("f", *arguments), machine
    except ZeroDivisionError:
        return "division by zero", machine


def accesses(machine: ReferenceMachine) -> list[tuple[str, int]]:
    base = machine.program.globals["m"].address
    return [(kind, (address - base) // 8) for kind, address, _ in machine.accesses]


def words(machine: ReferenceMachine) -> list[int]:
    base = machine.program.globals["m"].address
    return [wrap(machine.read(base + 8 * k, 8)) for k in range(MEMORY_WORDS)]


@_SETTINGS
@given(text=expressions(("a", "b", "c"), (), 4), arguments=ARGUMENTS)
def test_expression_gives_pythons_value(text: str, arguments: tuple[int, ...]) -> None:
    source = f"def f(a, b, c):\n    return {text}\n"
    program = compiled_or_none(source)
    if program is not None:
        assert machine_run(program, arguments)[0] == python_run(source, arguments)[0]


@_SETTINGS
@given(text=expressions(("a", "b", "c"), (), 3), arguments=ARGUMENTS)
def test_condition_branches_as_its_value_says(text: str, arguments: tuple[int, ...]) -> None:
    source = f"def f(a, b, c):\n    if {text}:\n        return 1\n    return 0\n"
    program = compiled_or_none(source)
    if program is not None:
        assert machine_run(program, arguments)[0] == python_run(source, arguments)[0]


@_SETTINGS
@given(text=expressions(("a", "b", "c"), (), 3), arguments=ARGUMENTS)
def test_constant_folding_equals_running(text: str, arguments: tuple[int, ...]) -> None:
    """The same expression over constants is folded to one value."""
    a, b, c = arguments
    folded = f"a = {a}\nb = {b}\nc = {c}\ndef f():\n    return {text}\n"
    program = compiled_or_none(folded)
    if program is None:
        return
    source = f"def f(a, b, c):\n    return {text}\n"
    expected = python_run(source, arguments)[0]
    assert ReferenceMachine(program).call("f") == expected
    function = program.function("f")
    assert function.end_pc - function.entry_pc <= 2  # at most: load the constant, return


@_SETTINGS
@given(text=programs(), arguments=ARGUMENTS)
def test_program_equals_python(text: str, arguments: tuple[int, ...]) -> None:
    program = compiled_or_none(text)
    if program is None:
        return
    result, memory = python_run(text, arguments)
    got, machine = machine_run(program, arguments)
    assert got == result
    assert accesses(machine) == memory.accesses
    assert words(machine) == [int(word) for word in memory.words]


@_SETTINGS
@given(text=programs(), arguments=ARGUMENTS)
def test_inline_changes_nothing_but_the_calls(text: str, arguments: tuple[int, ...]) -> None:
    body = text.replace("@inline\n", "")
    without = compiled_or_none(body)
    within = compiled_or_none(body.replace("def g", "@inline\ndef g").replace("def h", "@inline\ndef h"))
    if without is None or within is None:
        return
    first, plain = machine_run(without, arguments)
    second, expanded = machine_run(within, arguments)
    assert first == second
    assert accesses(plain) == accesses(expanded)
    assert words(plain) == words(expanded)
    assert expanded.program.function("f").window_words == expanded.program.function("f").locals_count


@_SETTINGS
@given(text=programs())
def test_every_micro_op_is_well_formed(text: str) -> None:
    program = compiled_or_none(text)
    if program is None:
        return
    for function in program.functions:
        assert function.entry_pc < function.end_pc
        assert int(program.code[(function.end_pc - 1) * 8]) == 42  # RET
        assert function.locals_count <= function.window_words
        for variable in function.variables:
            assert function.entry_pc <= variable.first_pc < variable.end_pc <= function.end_pc
            assert -1 <= variable.register < function.locals_count
        for pc in range(function.entry_pc, function.end_pc):
            assert program.function_at(pc) is function
            stack = program.inline_stack(pc)
            assert stack[0][0] is function
            assert program.functions[int(program.spans[pc, 5])] is stack[-1][0]


@pytest.mark.parametrize("text", ["a and b", "a or b", "not a", "a < b", "not (a or b)"])
@given(a=st.integers(-2, 2), b=st.integers(-2, 2))
@settings(deadline=None, max_examples=25)
def test_truth_is_kept_as_0_or_1(text: str, a: int, b: int) -> None:
    program = compiled(f"def f(a, b):\n    x = {text}\n    return x\n")
    expected = int(bool(eval(text, {"a": a, "b": b})))
    assert ReferenceMachine(program).call("f", a, b) == expected
