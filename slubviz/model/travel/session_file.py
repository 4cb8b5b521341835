"""Session files, ``*.slubviz``: a recording kept as what it was started with and what was done to it.

``save_session`` writes one, ``load_session`` runs it again and says whether it is the same run.  The format
is in ``session_file_format`` and docs/session-files.md, the re-execution in ``session_file_replay``.  Leaves
out the states of the machine, the time line and results: all of them come out of the run again.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from slubviz import __version__
from slubviz.model.atomic_file import write_atomic
from slubviz.model.errors import UserError, quoted_path
from slubviz.model.kernel_source import allocator_text
from slubviz.model.kernels import KERNELS
from slubviz.model.machine_text import cpus_of, machine_text
from slubviz.model.patches import split_patches
from slubviz.model.session import Session
from slubviz.model.travel.recording import DEFAULT_BUDGET_BYTES, Recording
from slubviz.model.travel.session_file_format import (
    MOST_NOTE,
    SavedBranch,
    SavedCursor,
    SavedMachine,
    SavedText,
    SavedWorkload,
    SessionFile,
    cleaned,
    decode,
    encode,
    one_line,
)
from slubviz.model.travel.session_file_reader import MOST_BYTES, SessionFileError
from slubviz.model.travel.session_file_replay import (
    LoadedSession,
    SessionMaker,
    fault_text,
    other_programs_hash,
    proof_of,
    replay,
)

__all__ = [
    "LoadedSession",
    "SessionExtras",
    "SessionFileError",
    "load_session",
    "read_session",
    "save_session",
    "session_bytes",
]

SUFFIX = ".slubviz"


@dataclass(frozen=True)
class SessionExtras:
    """What belongs to a session beside its recording; plain texts, one entry a line."""

    breakpoints: tuple[str, ...] = ()
    watches: tuple[str, ...] = ()
    scenario: str = field(default="", repr=False)  #: text of the scenario that the run came from


NO_EXTRAS = SessionExtras()


# --- saving ------------------------------------------------------------------------------------------


def save_session(
    recording: Recording, path: str | os.PathLike[str], extras: SessionExtras = NO_EXTRAS
) -> None:
    """Write a session file whole or not at all.  The cursor stays where it is.

    Raises
    ------
    UserError
        If the session cannot be said in a file, or the file cannot be written.
    """
    write_atomic(path, session_bytes(recording, extras))


def session_bytes(recording: Recording, extras: SessionExtras = NO_EXTRAS) -> bytes:
    """The content of a session file; the same session gives the same bytes.

    Visits the end of every branch for its hashes, which takes as long as a seek there.

    Raises
    ------
    UserError
        If the session cannot be said in a file.
    """
    try:
        return encode(_described(recording, extras))
    except (SessionFileError, ValueError) as error:
        raise UserError(f"this session cannot be saved: {error}") from error


def _described(recording: Recording, extras: SessionExtras) -> SessionFile:
    session = recording.session
    spec = session.spec
    if session.job.programs and not extras.scenario:
        raise ValueError("it runs the program of a scenario, whose text is needed")
    text = machine_text(session.machine_spec)
    cursor = SavedCursor(recording.branch.number, recording.position, proof_of(session))
    handler_files = _handler_files(session)
    return SessionFile(
        version=__version__,
        machine=SavedMachine(session.machine_spec.name, cpus_of(session.machine_spec, text), text),
        kernel=SavedText(_kernel_name(session), _kernel_text(session)),
        other_programs=other_programs_hash(session, [file.name for file in handler_files]),
        workload=SavedWorkload(
            test=spec.test,
            tests=tuple(spec.tests),
            sizes=tuple(spec.sizes),
            objects=tuple(spec.objects),
            ops=spec.ops,
            seed=spec.seed,
            warm_up=spec.warm_up,
            check=spec.check,
            options=spec.options,
        ),
        handlers=spec.handlers,
        handler_files=handler_files,
        scenario=extras.scenario,
        branches=_branches(recording),
        bookmarks=tuple(cleaned(mark) for mark in recording.bookmarks),
        breakpoints=_lines(extras.breakpoints),
        watches=_lines(extras.watches),
        cursor=cursor,
    )


def _branches(recording: Recording) -> tuple[SavedBranch, ...]:
    saved = []
    with recording.excursion() as session:
        for branch in recording.branches:
            recording.switch(branch.number, branch.end)
            saved.append(
                SavedBranch(
                    one_line(branch.name) or f"branch {branch.number}",
                    branch.parent,
                    branch.fork_position,
                    branch.changes,
                    branch.end,
                    fault_text(session),
                    proof_of(session),
                )
            )
    return tuple(saved)


def _kernel_name(session: Session) -> str:
    """The name of a known kernel with its patches, or of a user's file without its folder."""
    variant = session.variant
    plain, _ = split_patches(session.spec.kernel)
    if variant.user_file is None or plain in KERNELS:  # the latter with a text of another version
        return variant.name
    return one_line(f"{variant.user_file.stem}.py{session.spec.kernel[len(plain) :]}")


def _kernel_text(session: Session) -> str:
    """The allocator as it was compiled: a user may have changed the file since."""
    variant = session.variant
    if variant.user_file is None:
        return allocator_text(variant)
    if variant.user_file.name in session.job.edited:  # by a scenario, which will do so again
        return variant.allocator_sources()[0].text
    return session.booted.program.sources[variant.user_file.name]


def _handler_files(session: Session) -> tuple[SavedText, ...]:
    """As they were compiled: a user may have changed a file since."""
    spec, sources = session.spec, session.booted.program.sources
    names = [*(Path(path).name for path in spec.handler_files), *(name for name, _ in spec.handler_texts)]
    return tuple(SavedText(name, sources[name]) for name in names)


def _lines(texts: Iterable[str]) -> tuple[str, ...]:
    lines = (one_line(text, MOST_NOTE) for text in texts)
    return tuple(line for line in lines if line)


# --- loading -----------------------------------------------------------------------------------------


def read_session(path: str | os.PathLike[str]) -> SessionFile:
    """Read and check a session file without running anything.

    Raises
    ------
    SessionFileError
        One line: the file, the place in it, what is wrong.
    """
    try:
        # Without waiting: a pipe that nobody writes to must not hold up whoever opens files.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SessionFileError(f"{quoted_path(path)}: is no regular file; give a session file")
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SessionFileError(f"{quoted_path(path)}: cannot be read: {reason}") from error
    except ValueError as error:  # a path with a zero byte
        raise SessionFileError(f"{quoted_path(path)}: is no path of a file") from error
    with _named(path):
        return decode(data)


def load_session(
    path: str | os.PathLike[str],
    stop: threading.Event | None = None,
    progress: Callable[[float], None] | None = None,
    *,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
    scenario_session: SessionMaker | None = None,
) -> LoadedSession:
    """Read a session file, run it again to the cursor and compare the hashes.

    Parameters
    ----------
    stop : when it is set, loading ends
    progress : called with the done share
    budget_bytes : of the recording
    scenario_session : makes the session of a file that came from a scenario, from the scenario's text and
        the file's request; that of ``model.scenarios`` by default

    Returns
    -------
    LoadedSession
        ``mismatch`` says what differs when it is not the run that was saved; it is open all the same.

    Raises
    ------
    SessionFileError
        If the file is wrong.
    LoadCancelled
        If ``stop`` ended it.
    """
    file = read_session(path)
    with _named(path):
        return replay(file, stop, progress, budget_bytes=budget_bytes, scenario_session=scenario_session)


@contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let complaints name the file."""
    try:
        yield
    except SessionFileError as error:
        raise SessionFileError(f"{quoted_path(path)}: {error}") from error
