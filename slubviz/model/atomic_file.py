"""Writing output files whole or not at all.

A regular file is written to a temporary file in the same folder, forced to disk and renamed over its
target, so a reader sees the old file or the new one and never a part.  Several files are made together:
none is renamed before all are on disk.  What cannot be replaced (a device, a pipe, this process's own
standard output) is written in place.  Leaves out: keeping ownership, extended attributes and hard links.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from slubviz.model.errors import OutputError, RequestError, quoted_path

_TEMPORARY_PREFIX = ".slubviz-"


def check_writable(
    paths: Iterable[str | os.PathLike[str]], inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Fail now if one of ``paths`` could not be written later.

    Existing files stay as they are; a probe file is made and removed in each folder.

    Parameters
    ----------
    inputs : what is read, which no output may take the place of; names that are no paths of files do no harm

    Raises
    ------
    OutputError
        One line naming the file, the reason and what to do.
    RequestError
        If two paths stand for one regular file, or one for an input.
    """
    seen: set[Path] = set()
    named = [os.fspath(path) for path in inputs]
    read = [path for path in named if _is_path(path) and os.path.isfile(path)]
    for given in paths:
        text = os.fspath(given)
        target = _resolve(text)
        if _written_in_place(text):
            if not os.access(text, os.W_OK):
                raise OutputError(f"cannot write {quoted_path(text)}: permission denied")
            continue
        if target in seen:
            raise RequestError(f"{quoted_path(text)} is named for two outputs: give each its own file")
        seen.add(target)
        _check_regular(text, target)
        if target.exists() and any(os.path.samefile(target, path) for path in read):
            raise RequestError(f"{quoted_path(text)} is read here: give another file to write")


def _is_path(name: str) -> bool:
    """Whether a name stands for a file, rather than for a known kernel, machine or scenario."""
    return os.sep in name or bool(os.path.splitext(name)[1])


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path`` whole or not at all.

    Raises
    ------
    OutputError
        One line naming the file and the reason; the old file, if any, is unchanged.
    """
    write_all([(path, data)])


def write_all(files: Sequence[tuple[str | os.PathLike[str], bytes]]) -> None:
    """Write several files together: if one cannot be written, none is replaced.

    Parameters
    ----------
    files
        Pairs of path and content.  Devices and pipes are written before any regular file is
        renamed, and what reached them stays there.

    Raises
    ------
    OutputError
        One line naming the file that failed and the reason.
    BrokenPipeError
        If the reader of a pipe has gone; the other files are written all the same.
    """
    named = [(os.fspath(path), data) for path, data in files]
    temporaries: list[tuple[str, Path, Path]] = []
    reader_gone: BrokenPipeError | None = None
    try:
        for text, data in named:
            if not _written_in_place(text):
                target = _resolve(text)
                temporaries.append((text, _write_temporary(text, target, data), target))
        for text, data in named:
            if _written_in_place(text):
                try:
                    _write_in_place(text, data)
                except BrokenPipeError as error:  # no reason to withhold the other files
                    reader_gone = error
        while temporaries:
            _rename(*temporaries[0])
            temporaries.pop(0)
    finally:
        for _, temporary, _ in temporaries:
            temporary.unlink(missing_ok=True)
    if reader_gone is not None:
        raise reader_gone


def _resolve(text: str) -> Path:
    """The file a path stands for: links are followed, so that a link is kept and its target replaced."""
    if not text or "\0" in text:
        raise OutputError(f"{quoted_path(text)} is not a file name")
    try:
        target = os.path.realpath(text)
    except OSError as error:  # a relative path in a working folder that is gone
        raise _output_error(text, error) from error
    if text.endswith(os.sep) and not os.path.isdir(target):
        raise OutputError(f"cannot write {quoted_path(text)}: it names a folder; give a file name")
    if os.path.islink(target):
        raise OutputError(f"cannot write {quoted_path(text)}: the link leads to itself")
    return Path(target)


def _written_in_place(text: str) -> bool:
    """Whether ``text`` names something that a rename must not replace."""
    try:
        mode = os.stat(text).st_mode
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or _own_stream(text) is not None


def _own_stream(text: str) -> int | None:
    """1 or 2 if ``text`` is this process's standard output or error, else None."""
    for number in (1, 2):
        try:
            if os.path.samestat(os.fstat(number), os.stat(text)):
                return number
        except OSError:
            continue
    return None


def _check_regular(text: str, target: Path) -> None:
    folder = target.parent
    if os.path.isdir(target):
        raise OutputError(f"cannot write {quoted_path(text)}: it is a folder; give a file name")
    if not os.path.exists(folder):
        raise OutputError(
            f"cannot write {quoted_path(text)}: the folder {quoted_path(folder)} does not exist"
        )
    try:
        os.stat(target)  # refuses what can never be a file: a name too long, a file in the place of a folder
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _output_error(text, error) from error
    else:
        if not os.access(target, os.W_OK):
            raise OutputError(f"cannot write {quoted_path(text)}: the file is write-protected")
    try:
        descriptor, name = tempfile.mkstemp(prefix=_TEMPORARY_PREFIX, suffix=".tmp", dir=folder)
    except OSError as error:
        raise _output_error(text, error) from error
    os.close(descriptor)
    os.unlink(name)


def _write_temporary(text: str, target: Path, data: bytes) -> Path:
    temporary: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=_TEMPORARY_PREFIX, suffix=".tmp", dir=target.parent)
        temporary = Path(name)
        with open(descriptor, "wb") as file:
            os.fchmod(file.fileno(), _mode_for(target))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _output_error(text, error) from error
        raise
    return temporary


def _mode_for(target: Path) -> int:
    """The mode of the file that is replaced, or what a new file would get."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _write_in_place(text: str, data: bytes) -> None:
    try:
        number = _own_stream(text)
        if number is not None:
            (sys.stdout if number == 1 else sys.stderr).flush()
            _write_descriptor(number, data)
        else:
            with open(text, "wb", buffering=0) as file:
                _write_descriptor(file.fileno(), data)
    except BrokenPipeError:
        raise  # the caller's business: nobody is left to tell
    except OSError as error:
        raise _output_error(text, error) from error


def _write_descriptor(number: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(number, rest) :]


def _rename(text: str, temporary: Path, target: Path) -> None:
    try:
        os.replace(temporary, target)
    except OSError as error:
        raise _output_error(text, error) from error
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    # The rename itself must reach the disk; not every file system lets a folder be synced.
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _output_error(text: str, error: OSError) -> OutputError:
    reason = (error.strerror or str(error)).lower()
    return OutputError(f"cannot write {quoted_path(text)}: {reason}")
