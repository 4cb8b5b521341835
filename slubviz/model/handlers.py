"""Which interrupt handlers a program has, and handler files that a user brings along.

A handler is a function whose description begins with ``Handler:``; the sentence after it is its title.  Any
file in the kernel language can hold some: it is compiled behind the kernel and its workloads, sees all their
names, and may add functions, structs and globals, but replaces nothing.  Like every kernel-language file it
is parsed and compiled, never executed.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slubviz.model.assets import program_folder
from slubviz.model.errors import UserError, quoted, quoted_path
from slubviz.model.lang import Program, SourceFile

if TYPE_CHECKING:
    from slubviz.model.booted import BootedKernel

MARK = "Handler:"
#: Arguments that an interrupt passes at most.
MOST_PARAMETERS = 3
#: A handler file larger than this is not read.
MOST_FILE_BYTES = 1 << 20
#: The handlers that come with a session which asks for them; in the ``workloads`` folder.
PACKAGED_FILE = "handlers.py"


@dataclass(frozen=True)
class Handler:
    """An interrupt handler of a program."""

    name: str
    title: str  #: one phrase, without a full stop
    parameters: tuple[str, ...]
    description: str = ""  #: what else its description says, on one line
    file: str = ""


def handlers_of(program: Program) -> tuple[Handler, ...]:
    """All interrupt handlers of a program, in the order of their files and texts."""
    found = []
    for function in program.functions:
        text = " ".join(function.doc.split())
        if not function.inline and text.startswith(MARK):
            title, _, rest = text.removeprefix(MARK).strip().partition(". ")
            found.append(
                Handler(function.name, title.removesuffix("."), function.params, rest, function.file)
            )
    return tuple(found)


def handler_sources(
    packaged: bool,
    paths: Sequence[str] = (),
    texts: Sequence[tuple[str, str]] = (),
    taken: Sequence[str] = (),
) -> list[SourceFile]:
    """The files to compile behind a kernel and its workloads, in order.

    Parameters
    ----------
    packaged : whether slubviz's own handlers are among them; they are whenever there are others
    paths : a user's handler files; each must have a name (without folders) of its own
    texts : handler files by name and content
    taken : names of the other files of the program

    Raises
    ------
    UserError
        If a file cannot be read, its name is taken, or it replaces functions.
    """
    if not (packaged or paths or texts):
        return []
    own = program_folder("workloads") / PACKAGED_FILE
    sources = [SourceFile(PACKAGED_FILE, own.read_text(encoding="utf-8"))]
    given = [(Path(path).name, _read(Path(path))) for path in paths]
    for name, text in (*given, *texts):
        if name in (*taken, *(source.name for source in sources)):
            raise UserError(f"handler file {quoted(name)}: the program has a file of that name; rename it")
        _refuse_overrides(name, text)
        sources.append(SourceFile(name, text))
    return sources


def _read(path: Path) -> str:
    try:
        if path.is_file() and path.stat().st_size > MOST_FILE_BYTES:
            raise UserError(
                f"handler file {quoted_path(path)} is larger than {MOST_FILE_BYTES:,} bytes; "
                "a handler file is kernel-language source"
            )
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"handler file {quoted_path(path)}: not a text file in UTF-8; "
            "a handler file is kernel-language source"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"handler file {quoted_path(path)} cannot be read: {reason}") from error


def _refuse_overrides(name: str, text: str) -> None:
    """Handlers are added to a kernel; one that changed it would be another kernel."""
    try:
        tree = ast.parse(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return  # the compiler says what is wrong, and where
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(mark, ast.Name) and mark.id == "override" for mark in node.decorator_list
        ):
            raise UserError(
                f"{name}:{node.lineno}: {node.name} is an @override; a handler file adds to a kernel "
                "and replaces nothing: give the function another name, or change the kernel file"
            )


def check_handlers(program: Program, sources: Sequence[SourceFile]) -> None:
    """Refuse handler files without a handler, and handlers that no interrupt can call.

    Parameters
    ----------
    program : compiled with the files
    sources : what ``handler_sources`` gave

    Raises
    ------
    UserError
        Naming the file, and the line of the handler.
    """
    handlers = handlers_of(program)
    for source in sources:
        if not any(handler.file == source.name for handler in handlers):
            raise UserError(
                f'{source.name}: holds no interrupt handler; begin the description of one with "{MARK}", '
                f'as in def irq_mine(size): """{MARK} what it does."""'
            )
    for handler in handlers:
        if len(handler.parameters) > MOST_PARAMETERS:
            line = program.function(handler.name).line
            raise UserError(
                f"{handler.file}:{line}: handler {handler.name} has {len(handler.parameters)} parameters; "
                f"an interrupt passes {MOST_PARAMETERS} at most"
            )


@dataclass(frozen=True)
class HeldObjects:
    """What the handlers of one CPU keep; they free it again when they are asked to."""

    cpu: int
    addresses: tuple[int, ...]  #: the oldest first
    dropped: int  #: objects for which there was no room
    missed: int  #: frees that found nothing to free, allocations that failed


def held_objects(kernel: BootedKernel) -> tuple[HeldObjects, ...]:
    """What the handlers of each CPU keep, by CPU."""
    found = []
    for cpu in range(kernel.machine.spec.cpus):
        record = kernel.memory.one(kernel.memory.global_address("held", cpu), "held_objects")
        slots = record["of"][: int(record["count"])]
        addresses = tuple(int(address) for address in slots if address)
        found.append(HeldObjects(cpu, addresses, int(record["dropped"]), int(record["missed"])))
    return tuple(found)


def held_slab_objects(kernel: BootedKernel) -> int:
    """How many of the held objects are of slabs, not of the page allocator."""
    pages, constants = kernel.memory.global_structs("mem_map"), kernel.program.constants
    map_address = kernel.memory.global_address("mem_map")
    page_bytes = kernel.program.struct("page").size_bytes
    tail, slab = constants["PAGE_TAIL"], 1 << constants["PG_slab"]
    number = 0
    for address in (address for held in held_objects(kernel) for address in held.addresses):
        frame = address // constants["PAGE_SIZE"]
        if not 0 <= frame < len(pages):
            continue  # a program has written over the slot; the invariants say more
        page = pages[frame]
        if int(page["flags"]) & tail == tail:
            first = (int(page["first_page"]) - map_address) // page_bytes
            page = pages[first] if 0 <= first < len(pages) else page
        number += bool(int(page["flags"]) & slab)
    return number
