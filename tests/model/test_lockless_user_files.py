"""A user's own file based on a lockless kernel: the same program, or one clear line about what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from slubviz.model.errors import UserError
from slubviz.model.kernel_source import allocator_text
from slubviz.model.kernels import load_kernel
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session


def session_of(kernel: str) -> Session:
    return Session(SessionSpec("e5345_8p", kernel, "F", (256,), 60, 1, cpus=4))


def write(folder: Path, *changes: tuple[str, str]) -> str:
    """A copy of slub-bulk with pieces of text replaced."""
    text = allocator_text(load_kernel("slub-bulk"))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_copy_runs_as_the_kernel_does(tmp_path: Path) -> None:
    hashes = []
    for kernel in ("slub-bulk", write(tmp_path)):
        made = session_of(kernel)
        made.run_to_end()
        hashes.append(made.machine.trace_hash)
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ([("ORDER_SHIFT", "SHIFT_OF_ORDER")], "constant ORDER_SHIFT"),
        ([("MIN_PARTIAL = option(", "LEAST_PARTIAL = option(")], "option MIN_PARTIAL"),
        ([("kmalloc_table", "table_of_caches")], "global kmalloc_table"),
        ([("tid: word", "transaction: word"), ("c.tid", "c.transaction"), ("now.tid", "now.transaction")],
         "field kmem_cache_cpu.tid"),
        ([("remote_node_defrag_ratio", "defrag")], "field kmem_cache.remote_node_defrag_ratio"),
    ],
)  # fmt: skip
def test_what_a_file_lacks_is_named(tmp_path: Path, changes: list[tuple[str, str]], lacks: str) -> None:
    present = allocator_text(load_kernel("slub-bulk"))
    kept = [change for change in changes if change[0] in present]
    with pytest.raises(UserError) as caught:
        session_of(write(tmp_path, *kept)).boot()
    message = str(caught.value)
    assert "\n" not in message
    assert "the kernel file lacks" in message
    assert lacks in message
    assert message.endswith("compare it with what slubviz source slub-cpu-partial prints")


def test_a_table_that_is_too_small_is_named(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        ("KMALLOC_CACHES = PAGE_SHIFT + 2", "KMALLOC_CACHES = 4"),
        ("CPU_SLOTS = 16 if KMALLOC_CACHES <= 16 else 32", "CPU_SLOTS = 16"),
    )
    with pytest.raises(UserError, match="global kmalloc_caches is too small: the boot fills 14 structures"):
        session_of(path).boot()
