"""A kernel's allocator as one text to copy and change, and what such a text says of itself.

The files of the kernel follow each other in the order in which they are compiled; the values that make the
variant stand in it as defaults of the options.  Its first line names the kernel on which it is based, from
which what is not in the text is taken: the family, struct page, boot parameters, options of the page
allocator.  A user may change or remove that line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from slubviz.model.lang import SourceFile

if TYPE_CHECKING:
    from slubviz.model.kernels import KernelVariant

_BASE = re.compile(r"^# slubviz: based on kernel (\S+)[ \t]*$", re.MULTILINE)
_OPTION = re.compile(r"^([A-Za-z_]\w*)[ \t]*=[ \t]*option\(", re.MULTILINE)


def base_kernel(text: str) -> str | None:
    """The kernel that a file names as its base; None if it names none."""
    match = _BASE.search(text)
    return match[1] if match else None


def defined_options(text: str) -> set[str]:
    """Names of the options that a kernel-language text defines."""
    return set(_OPTION.findall(text))


def allocator_text(variant: KernelVariant) -> str:
    """The whole allocator program of a kernel, to be saved as a file of its own.

    Run with the same options, the file gives the same program as the kernel.

    Raises
    ------
    UserError
        If a user's file cannot be read.
    """
    files = variant.allocator_sources()
    if variant.user_file and defined_options(files[0].text).isdisjoint(variant.options):
        return files[0].text
    parts = [_with_defaults(file.text, variant.options) for file in files]
    parts[1:] = [_as_comment(file, text) for file, text in zip(files[1:], parts[1:], strict=True)]
    # A user's file, which is always one, has the first line already.
    base = "" if variant.user_file else f"# slubviz: based on kernel {variant.name.partition('[')[0]}\n"
    return base + "\n\n\n".join(part.strip() for part in parts) + "\n"


def _with_defaults(text: str, values: Mapping[str, int]) -> str:
    """A text in which the options have other defaults."""
    lines = text.encode("utf-8").splitlines(keepends=True)
    for node in reversed(ast.parse(text).body):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args):
            continue
        target, call = node.targets[0], node.value
        is_option = isinstance(call.func, ast.Name) and call.func.id == "option"
        if not is_option or not isinstance(target, ast.Name) or target.id not in values:
            continue
        default = call.args[0]
        assert default.end_lineno == default.lineno  # the packaged texts write it on one line
        line = lines[default.lineno - 1]
        value = str(values[target.id]).encode()
        lines[default.lineno - 1] = line[: default.col_offset] + value + line[default.end_col_offset :]
    return b"".join(lines).decode("utf-8")


def _as_comment(file: SourceFile, text: str) -> str:
    """A further file's text, its description turned into comments: a program has one description only."""
    first = ast.parse(text).body[0]
    heading = f"# === {file.name} " + "=" * (80 - len(file.name))
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        return f"{heading}\n\n{text}"
    assert first.end_lineno is not None
    described = [f"# {line}".rstrip() for line in str(first.value.value).strip().splitlines()]
    rest = "".join(text.splitlines(keepends=True)[first.end_lineno :])
    return "\n".join([heading, "#", *described, rest])
