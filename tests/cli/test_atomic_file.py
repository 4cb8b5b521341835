"""Output files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.model import atomic_file
from slubviz.model.atomic_file import check_writable, write_all, write_atomic
from slubviz.model.errors import OutputError, RequestError

needs_full_device = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@given(st.binary(max_size=1000), st.binary(max_size=1000))
def test_the_last_write_wins(tmp_path_factory: pytest.TempPathFactory, first: bytes, second: bytes) -> None:
    path = tmp_path_factory.mktemp("out") / "a"
    write_atomic(path, first)
    assert path.read_bytes() == first
    write_atomic(path, second)
    assert path.read_bytes() == second
    assert names(path.parent) == ["a"]


def test_a_file_that_is_read_meanwhile_is_old_or_new(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_atomic(path, b"new!")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new!"


def test_the_mode_is_kept_or_that_of_a_new_file(tmp_path: Path) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.touch()
    kept.chmod(0o640)
    mask = os.umask(0o027)
    try:
        write_all([(kept, b"x"), (new, b"x")])
    finally:
        os.umask(mask)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to("target")
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_replaced_when_a_later_file_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"old")
    synced: list[int] = []

    def fail_on_the_second(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise error

    monkeypatch.setattr(os, "fsync", fail_on_the_second)
    with pytest.raises((OutputError, KeyboardInterrupt)) as caught:
        write_all([(first, b"new"), (second, b"new")])
    if isinstance(error, OSError):
        assert str(caught.value) == f"cannot write {str(second)!r}: no space left on device"
    assert first.read_bytes() == b"old"
    assert names(tmp_path) == ["first"]


@needs_full_device
def test_a_full_device_keeps_the_other_files_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(OutputError, match=r"'/dev/full': no space left on device"):
        write_all([(path, b"new"), ("/dev/full", b"new")])
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_pipe_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_atomic(pipe, b"data")
    reader.join()
    assert received == [b"data"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_null_device_takes_anything() -> None:
    check_writable(["/dev/null", "/dev/null"])
    write_atomic("/dev/null", b"data")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def _missing(folder: Path) -> Path:
    return folder / "missing" / "a.csv"


def _a_folder(folder: Path) -> Path:
    return folder


def _below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "a.csv"


def _long_name(folder: Path) -> Path:
    return folder / ("a" * 300)


def _link_to_itself(folder: Path) -> Path:
    (folder / "loop").symlink_to("loop")
    return folder / "loop"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_missing, "does not exist"),
        (_a_folder, "it is a folder"),
        (_below_a_file, "not a directory"),
        (_long_name, "file name too long"),
        (_link_to_itself, "the link leads to itself"),
    ],
)
def test_what_cannot_be_written_is_told_before_and_when_writing(
    tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    path = make(tmp_path)
    before = names(tmp_path)
    with pytest.raises(OutputError, match=reason) as caught:
        check_writable([path])
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(OutputError):
        write_atomic(path, b"x")
    assert names(tmp_path) == before


def test_a_write_protected_file_and_folder_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may write anywhere, so the answer of the system is made up.
    path = tmp_path / "a"
    path.touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputError, match="write-protected"):
        check_writable([path])
    monkeypatch.undo()

    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(atomic_file.tempfile, "mkstemp", refuse)
    with pytest.raises(OutputError, match="permission denied"):
        check_writable([path])


def test_a_check_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    check_writable([tmp_path / "old", tmp_path / "new"])
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_two_outputs_cannot_be_one_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(RequestError, match="named for two outputs"):
        check_writable([tmp_path / "a", tmp_path / "link"])


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_impossible_names(name: str) -> None:
    with pytest.raises(OutputError, match="not a file name"):
        check_writable([name])


def test_an_output_is_no_input_unless_that_is_the_name_of_something_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.py", "slub"):
        (tmp_path / name).write_bytes(b"text")
    with pytest.raises(RequestError, match=r"mine\.py' is read here: give another file to write"):
        check_writable([tmp_path / "mine.py"], inputs=["slub", "mine.py"])
    check_writable(["slub", "new"], inputs=["slub", "mine.py", "none.py"])
    assert names(tmp_path) == ["mine.py", "slub"]
