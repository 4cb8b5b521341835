"""What a session file holds, and its text: JSON, described in docs/session-files.md.

``encode`` and ``decode`` are each other's inverse.  ``decode`` checks everything that can be checked without
a machine: types, bounds, order, and that what one part says agrees with the others.  Nothing in a file is
ever executed here; the programs in it are in the kernel language and run on the simulated machine alone.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from slubviz import __version__
from slubviz.model.travel.bookmarks import Bookmark
from slubviz.model.travel.changes import (
    Change,
    Inject,
    Migrate,
    SetOption,
    What,
    WriteRegister,
    WriteWord,
)
from slubviz.model.travel.session_file_reader import HIGHEST_INTEGER, Reader, SessionFileError, parse

FORMAT = 1

MOST_BRANCHES = 1_000
MOST_CHANGES = 10_000  #: of all branches together
MOST_BOOKMARKS = 10_000
MOST_LINES = 1_000  #: breakpoints, watches
MOST_POSITION = 1 << 50
MOST_SOURCE = 2 << 20  #: characters of a program or of a machine file
MOST_NOTE = 10_000
MOST_NAME = 200
MOST_CPUS = 4096
MOST_CYCLES = 1e15


@dataclass(frozen=True)
class Proof:
    """What shows that a moment is the same one again."""

    trace_hash: str  #: 16 hexadecimal digits: every micro-op until then
    state_hash: str  #: 64 hexadecimal digits: the whole machine


@dataclass(frozen=True)
class SavedText:
    """A file by content."""

    name: str
    text: str = field(repr=False)

    @property
    def sha256(self) -> str:
        """Hash of the content, hexadecimal."""
        return sha256(self.text)


@dataclass(frozen=True)
class SavedMachine:
    """A machine by content."""

    name: str
    cpus: int | None  #: asked for; None for those of the machine file
    text: str = field(repr=False)


@dataclass(frozen=True)
class SavedWorkload:
    """What is run."""

    test: str
    tests: tuple[str, ...]
    sizes: tuple[int, ...]
    objects: tuple[int, ...]
    ops: int
    seed: int
    warm_up: bool
    check: bool
    options: Mapping[str, int]


@dataclass(frozen=True)
class SavedBranch:
    """One future of the run."""

    name: str
    parent: int | None
    fork_position: int
    changes: tuple[Change, ...]
    end: int
    fault: str  #: how the kernel program failed at the end, "" if it did not
    proof: Proof  #: of its end


@dataclass(frozen=True)
class SavedCursor:
    """Where the user was."""

    branch: int
    position: int
    proof: Proof


@dataclass(frozen=True)
class SessionFile:
    """The content of a session file."""

    version: str  #: of the slubviz that wrote it
    machine: SavedMachine
    kernel: SavedText
    other_programs: str  #: SHA-256 of all programs beside the allocator and the handler files
    workload: SavedWorkload
    handlers: bool  #: whether interrupt handlers are linked
    handler_files: tuple[SavedText, ...]
    scenario: str  #: text of the scenario that the run came from, "" if of none
    branches: tuple[SavedBranch, ...]
    bookmarks: tuple[Bookmark, ...]
    breakpoints: tuple[str, ...]
    watches: tuple[str, ...]
    cursor: SavedCursor


def sha256(text: str) -> str:
    """Hash of a text, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- writing -----------------------------------------------------------------------------------------


def encode(file: SessionFile) -> bytes:
    """The bytes of a session file; the same content gives the same bytes.

    Raises
    ------
    SessionFileError
        If the content is out of the bounds of the format, so that it could not be read back.
    """
    document = {
        "format": FORMAT,
        "slubviz": file.version,
        "machine": {"name": file.machine.name, "cpus": file.machine.cpus, "text": file.machine.text},
        "kernel": _text_document(file.kernel),
        "other_programs_sha256": file.other_programs,
        "workload": _workload_document(file.workload),
        "handlers": {
            "linked": file.handlers,
            "files": [_text_document(handler) for handler in file.handler_files],
        },
        "scenario": file.scenario,
        "branches": [_branch_document(branch) for branch in file.branches],
        "bookmarks": [vars(bookmark) for bookmark in file.bookmarks],
        "breakpoints": list(file.breakpoints),
        "watches": list(file.watches),
        "cursor": {
            "branch": file.cursor.branch,
            "position": file.cursor.position,
            **vars(file.cursor.proof),
        },
    }
    data = (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
    decode(data)  # what is written can be read again
    return data


def _text_document(text: SavedText) -> dict[str, Any]:
    return {"name": text.name, "sha256": text.sha256, "text": text.text}


def _workload_document(workload: SavedWorkload) -> dict[str, Any]:
    return {
        **vars(workload),
        "tests": list(workload.tests),
        "sizes": list(workload.sizes),
        "objects": list(workload.objects),
        "options": dict(sorted(workload.options.items())),
    }


def _branch_document(branch: SavedBranch) -> dict[str, Any]:
    return {
        "name": branch.name,
        "parent": branch.parent,
        "fork_position": branch.fork_position,
        "changes": [_change_document(change) for change in branch.changes],
        "end": branch.end,
        "fault": branch.fault,
        **vars(branch.proof),
    }


def _change_document(change: Change) -> dict[str, Any]:
    kind = next(name for name, made in _CHANGES.items() if made is type(change.what))
    values = {each.name: _plain(each.name, getattr(change.what, each.name)) for each in fields(change.what)}
    return {"position": change.position, "kind": kind, **values}


def _plain(name: str, value: Any) -> Any:
    """One number, one spelling: whoever made the change may have given 500 or 500.0, a tuple or a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return [operator.index(item) for item in value]
    return float(value) if name.endswith("_cycles") else operator.index(value)


# --- reading -----------------------------------------------------------------------------------------


def decode(data: bytes) -> SessionFile:
    """The content of a session file.

    Raises
    ------
    SessionFileError
        One line: the place in the document, what is wrong with it, what to write instead.
    """
    root = Reader(parse(data))
    version = _read_version(root)
    machine = _read_machine(root.section("machine"))
    file = SessionFile(
        version=version,
        machine=machine,
        kernel=_read_text(root.section("kernel")),
        other_programs=root.hexadecimal("other_programs_sha256", 64),
        workload=_read_workload(root.section("workload")),
        **_read_handlers(root.section("handlers")),
        scenario=root.text("scenario", MOST_SOURCE),
        branches=root.objects("branches", MOST_BRANCHES, _read_branch),
        bookmarks=root.objects("bookmarks", MOST_BOOKMARKS, _read_bookmark),
        breakpoints=root.lines("breakpoints", MOST_LINES, MOST_NOTE),
        watches=root.lines("watches", MOST_LINES, MOST_NOTE),
        cursor=_read_cursor(root.section("cursor")),
    )
    root.finish()
    _check_branches(file.branches)
    _check_places(file)
    return file


def _read_version(root: Reader) -> str:
    number = root.integer("format", 1, 1 << 30)
    version = root.line("slubviz", 60)
    if number != FORMAT:
        raise root.fail(
            "format",
            f"is {number}; this slubviz {__version__} reads format {FORMAT}: "
            f"the file needs slubviz {version} or a later one",
        )
    return version


def _read_machine(reader: Reader) -> SavedMachine:
    machine = SavedMachine(
        reader.line("name", MOST_NAME),
        reader.integer_or_none("cpus", 1, MOST_CPUS),
        reader.text("text", MOST_SOURCE),
    )
    if not machine.text.strip():
        raise reader.fail("text", "is empty; give the machine file")
    reader.finish()
    return machine


def _read_text(reader: Reader) -> SavedText:
    saved = SavedText(reader.line("name", MOST_NAME), reader.text("text", MOST_SOURCE))
    if reader.hexadecimal("sha256", 64) != saved.sha256:
        raise reader.fail("sha256", "is not the hash of the text: the file is damaged")
    if not saved.text.strip():
        raise reader.fail("text", "is empty; give the program")
    reader.finish()
    return saved


def _read_handlers(reader: Reader) -> dict[str, Any]:
    found = {
        "handlers": reader.flag("linked"),
        "handler_files": reader.objects("files", MOST_LINES, _read_text),
    }
    reader.finish()
    return found


def _read_workload(reader: Reader) -> SavedWorkload:
    workload = SavedWorkload(
        test=reader.line("test", MOST_NAME),
        tests=reader.lines("tests", MOST_LINES, MOST_NAME),
        sizes=reader.integers("sizes", MOST_LINES, 0, HIGHEST_INTEGER),
        objects=reader.integers("objects", MOST_LINES, 0, HIGHEST_INTEGER),
        ops=reader.integer("ops", 1),
        seed=reader.integer("seed"),
        warm_up=reader.flag("warm_up"),
        check=reader.flag("check"),
        options=reader.named_integers("options", MOST_LINES),
    )
    reader.finish()
    return workload


def _read_branch(reader: Reader) -> SavedBranch:
    return SavedBranch(
        name=reader.line("name", MOST_NAME),
        parent=reader.integer_or_none("parent", 0, MOST_BRANCHES),
        fork_position=reader.integer("fork_position", 0, MOST_POSITION),
        changes=reader.objects("changes", MOST_CHANGES, _read_change),
        end=reader.integer("end", 0, MOST_POSITION),
        fault=reader.text("fault", MOST_NOTE),
        proof=_read_proof(reader),
    )


def _read_proof(reader: Reader) -> Proof:
    return Proof(reader.hexadecimal("trace_hash", 16), reader.hexadecimal("state_hash", 64))


def _read_bookmark(reader: Reader) -> Bookmark:
    return Bookmark(
        reader.integer("branch", 0, MOST_BRANCHES),
        reader.integer("position", 0, MOST_POSITION),
        reader.line("name", MOST_NAME, empty=True),
        reader.text("note", MOST_NOTE),
    )


def _read_cursor(reader: Reader) -> SavedCursor:
    cursor = SavedCursor(
        reader.integer("branch", 0, MOST_BRANCHES),
        reader.integer("position", 0, MOST_POSITION),
        _read_proof(reader),
    )
    reader.finish()
    return cursor


# --- changes -----------------------------------------------------------------------------------------


def _read_change(reader: Reader) -> Change:
    position = reader.integer("position", 0, MOST_POSITION)
    kind = reader.choice("kind", tuple(_CHANGES), "kind of change")
    return Change(position, _READERS[kind](reader))


def _read_inject(reader: Reader) -> What:
    return Inject(
        _cpu(reader),
        reader.line("handler", MOST_NAME),
        reader.integers("arguments", 64, -(1 << 63), HIGHEST_INTEGER),
        reader.number("period_cycles", 0, MOST_CYCLES),
        reader.number("spread_cycles", 0, MOST_CYCLES),
        reader.integer("seed"),
        reader.integer("count", 0),
    )


def _read_word(reader: Reader) -> What:
    return WriteWord(
        reader.integer("address", 0),
        reader.integer("value"),
        reader.integer("size_bytes", 4, 8),
    )


def _read_register(reader: Reader) -> What:
    return WriteRegister(
        _cpu(reader),
        reader.integer("frame", 0),
        reader.integer("register", 0),
        reader.integer("value"),
    )


def _read_option(reader: Reader) -> What:
    return SetOption(reader.line("name", MOST_NAME), reader.integer("value"))


def _read_migrate(reader: Reader) -> What:
    return Migrate(_cpu(reader), _cpu(reader, "to_cpu"))


def _cpu(reader: Reader, key: str = "cpu") -> int:
    return reader.integer(key, 0, MOST_CPUS - 1)


_CHANGES: Mapping[str, type[What]] = {
    "inject": Inject,
    "write_word": WriteWord,
    "write_register": WriteRegister,
    "set_option": SetOption,
    "migrate": Migrate,
}
_READERS = {
    "inject": _read_inject,
    "write_word": _read_word,
    "write_register": _read_register,
    "set_option": _read_option,
    "migrate": _read_migrate,
}


# --- what one part says of another ---------------------------------------------------------------------


def _check_branches(branches: tuple[SavedBranch, ...]) -> None:
    if not branches:
        raise SessionFileError("branches: is empty; a session has at least branch 0")
    if sum(len(branch.changes) for branch in branches) > MOST_CHANGES:
        raise SessionFileError(f"branches: have more than {MOST_CHANGES:,} changes; that many are possible")
    first = branches[0]
    if first.parent is not None or first.fork_position:
        raise SessionFileError("branches[0]: is the run as it started: give parent null and fork_position 0")
    for number, branch in enumerate(branches):
        place = f"branches[{number}]"
        if number:
            _check_fork(branch, branches[:number], place)
        before = branch.fork_position
        for i, change in enumerate(branch.changes):
            if not before <= change.position <= branch.end:
                raise SessionFileError(
                    f"{place}.changes[{i}].position: is {change.position:,}; changes are in order, here from "
                    f"{before:,} to the branch's end at {branch.end:,}"
                )
            before = change.position
        if before > branch.end:
            raise SessionFileError(
                f"{place}.end: is {branch.end:,}, before the branch begins at {branch.fork_position:,}"
            )


def _check_fork(branch: SavedBranch, before: tuple[SavedBranch, ...], place: str) -> None:
    if branch.parent is None or branch.parent >= len(before):
        raise SessionFileError(
            f"{place}.parent: is {'null' if branch.parent is None else branch.parent}; "
            f"give one of the branches before it, 0 to {len(before) - 1}"
        )
    parent = before[branch.parent]
    # Nothing follows the end of a branch: what is changed there changes that branch, unless it has failed.
    last = parent.end if parent.fault else parent.end - 1
    if not parent.fork_position <= branch.fork_position <= last:
        raise SessionFileError(
            f"{place}.fork_position: is {branch.fork_position:,}; branch {branch.parent} "
            f"can be left from {parent.fork_position:,} to {last:,}"
        )
    if not branch.changes or branch.changes[0].position != branch.fork_position:
        raise SessionFileError(f"{place}.changes: a branch begins with a change at its fork_position")


def _check_places(file: SessionFile) -> None:
    # A bookmark may be ahead: a run that was started again is not as long yet as it was.
    places = [(f"bookmarks[{i}]", mark.branch, mark.position) for i, mark in enumerate(file.bookmarks)]
    places.append(("cursor", file.cursor.branch, file.cursor.position))
    for place, branch, position in places:
        if branch >= len(file.branches):
            raise SessionFileError(
                f"{place}.branch: {branch} does not exist; the session has branches 0 to "
                f"{len(file.branches) - 1}"
            )
        if place == "cursor" and position > file.branches[branch].end:
            raise SessionFileError(
                f"{place}.position: is {position:,}; branch {branch} ends at "
                f"{file.branches[branch].end:,} and cannot be at it"
            )


def one_line(text: str, longest: int = MOST_NAME) -> str:
    """A text as a name in a session file: one printable line, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def plain_text(text: str, longest: int = MOST_NOTE) -> str:
    """A text as a note in a session file: without control characters, not too long."""
    kept = "".join(c for c in text if c in "\n\t" or c.isprintable())
    return kept if len(kept) <= longest else kept[: longest - 1] + "…"


def cleaned(bookmark: Bookmark) -> Bookmark:
    """A bookmark whose texts a session file can hold."""
    return replace(bookmark, name=one_line(bookmark.name), note=plain_text(bookmark.note))
