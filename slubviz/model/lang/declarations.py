"""Reads the outermost level of source files into a ``Unit``: who is called what, nothing compiled yet."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from slubviz.model.lang import constants, layout
from slubviz.model.lang.arithmetic import wrap
from slubviz.model.lang.errors import KernelLanguageError, did_you_mean
from slubviz.model.lang.program import Option, Target
from slubviz.model.lang.refusals import refuse_statement
from slubviz.model.lang.source import Source
from slubviz.model.lang.types import INT, TYPE_NAMES, Array, StructRef
from slubviz.model.lang.unit import ConstantDecl, FunctionDecl, GlobalDecl, OptionDecl, StructDecl, Unit

RESERVED = frozenset(
    [*TYPE_NAMES, *constants.BUILT_IN, *"struct counter option at range inline override".split()]
)


def read_declarations(
    sources: Sequence[Source], target: Target, options: Mapping[str, int], intrinsics: frozenset[str]
) -> tuple[Unit, int]:
    """Read all files.

    Parameters
    ----------
    intrinsics
        Names that functions may not take.

    Returns
    -------
    Unit
        With every layout, constant, option and signature worked out.
    int
        The first address after the globals.
    """
    unit = Unit(target, list(sources))
    reserved = RESERVED | intrinsics
    for source in sources:
        body = source.tree.body[1:] if ast.get_docstring(source.tree) is not None else source.tree.body
        for statement in body:
            _read_statement(unit, source, statement, reserved)
    _settle_options(unit, options)
    for name, constant in unit.constants.items():
        constants.named(unit, constant.source, constant.node, name)
    for name, struct in unit.struct_decls.items():
        layout.struct_layout(unit, struct.source, struct.node, name)
    static_end = layout.lay_out_globals(unit)
    for index, function in enumerate(unit.functions.values()):
        function.index = index
        _read_signature(unit, function)
    return unit, static_end


def _read_statement(unit: Unit, source: Source, node: ast.stmt, reserved: frozenset[str]) -> None:
    if isinstance(node, ast.FunctionDef):
        _read_function(unit, source, node, reserved)
    elif isinstance(node, ast.ClassDef):
        _read_struct(unit, source, node, reserved)
    elif isinstance(node, ast.AnnAssign):
        _read_global(unit, source, node, reserved)
    elif isinstance(node, ast.Assign):
        _read_assignment(unit, source, node, reserved)
    elif isinstance(node, ast.Pass):
        return
    else:
        refuse_statement(source, node)
        hint = "outside functions: constants, counters, options, structs, globals and functions"
        raise source.error(node, "this statement is possible only in a function", hint)


def _claim(unit: Unit, source: Source, node: ast.AST, name: str, reserved: frozenset[str]) -> None:
    """Take a module-level name; a second taker is an error."""
    if name in reserved:
        raise source.error(node, f"{name} is a name of the language", "choose another name")
    if name in unit.target.constants:
        hint = "it comes from the machine; choose another name"
        raise source.error(node, f"{name} is predefined as {unit.target.constants[name]}", hint)
    if name in unit.places:
        first, where = unit.places[name]
        line = first.position(where)[0]
        raise source.error(node, f"{name} is already defined at {first.name}:{line}", "choose another name")
    unit.places[name] = (source, node)


def _read_function(unit: Unit, source: Source, node: ast.FunctionDef, reserved: frozenset[str]) -> None:
    marks = set()
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Name) or decorator.id not in ("inline", "override"):
            raise source.error(decorator, "unknown decorator", "only @inline and @override exist")
        marks.add(decorator.id)
    decl = FunctionDecl(source, node, "inline" in marks, "override" in marks)
    earlier = unit.functions.get(node.name)
    if decl.override:
        if earlier is None:
            hint = did_you_mean(
                node.name, unit.functions, "remove @override, or give the file it is in first"
            )
            raise source.error(node, f"@override: there is no earlier function {node.name}", hint)
        unit.places[node.name] = (source, node)
    elif earlier is not None:
        place = f"{earlier.source.name}:{earlier.node.lineno}"
        raise source.error(
            node, f"function {node.name} is already defined at {place}", "write @override to replace it"
        )
    else:
        _claim(unit, source, node, node.name, reserved)
    unit.functions[node.name] = decl


def _read_struct(unit: Unit, source: Source, node: ast.ClassDef, reserved: frozenset[str]) -> None:
    bases = node.bases
    if len(bases) != 1 or not isinstance(bases[0], ast.Name) or bases[0].id != "struct":
        raise source.error(node, "a class must be a struct", f"write class {node.name}(struct):")
    if node.decorator_list:
        raise source.error(node.decorator_list[0], "a struct has no decorators")
    if node.name in reserved:
        raise source.error(node, f"{node.name} is a name of the language", "choose another name")
    if node.name in unit.struct_decls:
        first = unit.struct_decls[node.name]
        place = f"{first.source.name}:{first.node.lineno}"
        raise source.error(node, f"struct {node.name} is already defined at {place}", "choose another name")
    given: dict[str, ast.expr] = {}
    for keyword in node.keywords:
        if keyword.arg not in ("size", "align"):
            raise source.error(keyword, "unknown argument of a struct", "only size= and align= exist")
        given[keyword.arg] = keyword.value
    unit.struct_decls[node.name] = StructDecl(source, node, given.get("size"), given.get("align"))


def _read_global(unit: Unit, source: Source, node: ast.AnnAssign, reserved: frozenset[str]) -> None:
    if not isinstance(node.target, ast.Name):
        raise source.error(node, "a global is a plain name", "write name: type")
    if node.value is not None:
        hint = "set it in a function; for a constant write NAME = value without a type"
        raise source.error(node, "a global starts at zero and has no initial value", hint)
    name, annotation, per = node.target.id, node.annotation, ""
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        if annotation.value.id in ("per_cpu", "per_node"):
            per, annotation = annotation.value.id.removeprefix("per_"), annotation.slice
    _claim(unit, source, node.target, name, reserved)
    unit.global_decls[name] = GlobalDecl(source, node, name, annotation, per)


def _read_assignment(unit: Unit, source: Source, node: ast.Assign, reserved: frozenset[str]) -> None:
    if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        raise source.error(node, "one name is defined at a time", "write NAME = constant expression")
    target, value = node.targets[0], node.value
    _claim(unit, source, target, target.id, reserved)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        if value.func.id == "counter":
            constants.plain_arguments(source, value, 0, 0, "NAME = counter()")
            unit.counters[target.id] = len(unit.counters)
            return
        if value.func.id == "option":
            ranged = len(value.args) > 2
            usage = f'NAME = option(default, "what it chooses"{", lowest, highest" if ranged else ""})'
            default, doc, *limits = constants.plain_arguments(source, value, 2, 4 if ranged else 2, usage)
            if not isinstance(doc, ast.Constant) or not isinstance(doc.value, str):
                raise source.error(doc, "an option's description is text", f"write {usage}")
            if len(limits) == 1:
                raise source.error(limits[0], "a range has two ends", f"write {usage}")
            unit.option_decls[target.id] = OptionDecl(source, target, default, doc.value, tuple(limits))
            return
    unit.constants[target.id] = ConstantDecl(source, target, value)


def _settle_options(unit: Unit, overrides: Mapping[str, int]) -> None:
    """Give options their values; a default may use constants and options defined above."""
    for name in overrides:
        if name not in unit.option_decls:
            known = ", ".join(unit.option_decls) or "none"
            hint = did_you_mean(name, unit.option_decls)
            listed = f"known options: {known}"
            raise KernelLanguageError(
                f"unknown option {name}",
                file="options",
                line=0,
                column=0,
                text="",
                suggestion=f"{hint} {listed}".strip(),
            )
    for name, decl in unit.option_decls.items():
        default = constants.evaluate(unit, decl.source, decl.default)
        value = wrap(int(overrides.get(name, default)))
        if decl.limits:
            lowest, highest = (constants.evaluate(unit, decl.source, limit) for limit in decl.limits)
            if not lowest <= value <= highest:
                message = f"option {name} goes from {lowest} to {highest}, not {value}"
                if name in overrides:
                    raise KernelLanguageError(message, file="options", line=0, column=0, text="")
                raise decl.source.error(decl.node, message)
        unit.options[name] = Option(name, value, default, decl.doc)


def _read_signature(unit: Unit, decl: FunctionDecl) -> None:
    source, node = decl.source, decl.node
    arguments = node.args
    for extra in (arguments.vararg, arguments.kwarg, *arguments.posonlyargs, *arguments.kwonlyargs):
        if extra is not None:
            raise source.error(extra, "only plain parameters are possible", "write def name(a, b: type):")
    if arguments.defaults:
        raise source.error(arguments.defaults[0], "parameters have no defaults", "pass every argument")
    if getattr(node, "type_params", None):
        raise source.error(node, "functions have no type parameters")
    for argument in arguments.args:
        _read_parameter(unit, decl, argument)
    if isinstance(node.returns, ast.Constant) and node.returns.value is None:
        decl.return_type = None
    elif node.returns is not None:
        decl.return_type = constants.read_type(unit, source, node.returns, embed=False)
    stored: list[ast.Name] = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Return):
            decl.returns.append(inner)
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            stored.append(inner)
    decl.returns.sort(key=_place_in_text)
    decl.assigned = list(dict.fromkeys(name.id for name in sorted(stored, key=_place_in_text)))


def _place_in_text(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _read_parameter(unit: Unit, decl: FunctionDecl, argument: ast.arg) -> None:
    source = decl.source
    kind = unit.kind_of(argument.arg)
    if kind in ("constant", "counter", "option"):
        raise source.error(argument, f"{argument.arg} is a {kind}", "choose another name")
    if argument.annotation is None:
        decl.params.append((argument.arg, INT, argument))
        return
    read = constants.read_type(unit, source, argument.annotation, embed=False)
    assert not isinstance(read, (StructRef, Array))
    decl.params.append((argument.arg, read, argument))
