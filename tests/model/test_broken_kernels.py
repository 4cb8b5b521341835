"""A user's kernel programs that hang, lack what the boot fills in, or write nonsense into structures."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from slubviz.hw.isa import Status
from slubviz.model import boot as boot_module
from slubviz.model import session as session_module
from slubviz.model.errors import UserError
from slubviz.model.invariants import check
from slubviz.model.kernel_source import allocator_text
from slubviz.model.kernels import load_kernel
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.slub_view import read_cache

KMALLOC_64 = 6
KernelFile = Callable[[str], Path]


def slub() -> str:
    """The text of SLUB's allocator."""
    return allocator_text(load_kernel("slub"))


def kmalloc_that(statements: str) -> str:
    """SLUB with statements at the beginning of kmalloc."""
    lines = "".join(f"    {line}\n" for line in statements.splitlines())
    changed, count = re.subn(
        r'(\ndef kmalloc\([^\n]*\n    """[^\n]*"""\n)', lambda found: found[1] + lines, slub()
    )
    assert count == 1
    return changed


@pytest.fixture
def kernel_file(tmp_path: Path) -> KernelFile:
    """Writes an allocator file."""

    def write(text: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def session_of(kernel: Path, *, warm_up: bool = False, ops: int = 40) -> Session:
    return Session(SessionSpec("e5345_8p", str(kernel), "A", (64,), ops, 1, warm_up=warm_up))


@pytest.mark.parametrize(
    ("statements", "ending"),
    [
        ("while True:\n    pass", ""),
        ("return 1 // (size - size)", "divides by zero"),
        ("rendezvous()\nspin_lock(stuck)\nspin_lock(stuck)", "waits for a lock that it holds itself"),
    ],
)
def test_what_fails_in_the_warm_up_fails_in_the_first_phase(
    kernel_file: KernelFile, monkeypatch: pytest.MonkeyPatch, statements: str, ending: str
) -> None:
    monkeypatch.setattr(session_module, "PIECE_MICRO_OPS", 1000)
    monkeypatch.setattr(session_module, "MOST_WARM_UP_MICRO_OPS", 5000)
    session = session_of(kernel_file(kmalloc_that(statements) + "\n\nstuck: uint32\n"), warm_up=True)
    session.boot()
    assert session.phase is not None
    assert session.phase.size_bytes == 64
    assert (session.machine.micro_ops, session.fault) == (0, "")
    status = session.run(2000)
    assert status == (Status.FAULT if ending else Status.MICRO_OPS)
    assert ending in session.fault
    assert ("mine.py" in session.fault) == bool(ending)


def test_a_warm_up_that_ends_is_not_given_up(kernel_file: KernelFile) -> None:
    cold, warm = (session_of(kernel_file(slub()), warm_up=warm_up) for warm_up in (False, True))
    for session in (cold, warm):
        session.run_to_end()
    assert warm.results[0].cycles_per_op != cold.results[0].cycles_per_op


@pytest.mark.parametrize(
    "name", ["size", "order", "objects", "refcount", "defrag_ratio", "local_node", "cpu_slab"]
)
def test_a_missing_field_is_named(kernel_file: KernelFile, name: str) -> None:
    session = session_of(kernel_file(re.sub(rf"\b{name}\b", f"{name}_2", slub())))
    with pytest.raises(UserError, match=rf"mine: the kernel file lacks .*kmem_cache\.{name}\b"):
        session.boot()


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("kmalloc_caches", "array[kmem_cache, KMALLOC_CACHES]", "array[kmem_cache, 3]"),
        ("cache_nodes", "array[kmem_cache_node, KMALLOC_CACHES]", "array[kmem_cache_node, 3]"),
        ("cache_cpus", "array[kmem_cache_cpu, KMALLOC_CACHES + 2]", "array[kmem_cache_cpu, 3]"),
    ],
)
def test_a_table_that_the_boot_would_overrun_is_refused(
    kernel_file: KernelFile, table: str, old: str, new: str
) -> None:
    assert old in slub()
    session = session_of(kernel_file(slub().replace(old, new)))
    with pytest.raises(UserError, match=f"mine: global {table} is too small: the boot fills 12 structures"):
        session.boot()


@pytest.mark.parametrize(
    ("field", "value"),
    [("size", 0), ("size", -64), ("objects", -1), ("objects", 0x7FFFFFFF), ("order", -1), ("order", 40)],
)
def test_an_impossible_geometry_is_told_and_can_be_looked_at(
    kernel_file: KernelFile, field: str, value: int
) -> None:
    session = session_of(kernel_file(slub()))
    session.run(3000)
    cache = session.booted.memory.one(session.booted.cache_address(KMALLOC_64), "kmem_cache")
    cache[field] = value
    with pytest.raises(ValueError, match="make no slab of order"):
        read_cache(session.booted, KMALLOC_64)
    assert any("kmalloc-64: " in problem and "make no slab" in problem for problem in check(session.booted))
    assert session.snapshot().total_slabs == 0


def test_a_list_that_leads_out_of_the_pages_is_told(kernel_file: KernelFile) -> None:
    session = session_of(kernel_file(slub()))
    session.run(3000)
    kernel = session.booted
    node = kernel.memory.field_address(kernel.cache_address(KMALLOC_64), "kmem_cache", "local_node")
    head = kernel.memory.field_address(node, "kmem_cache_node", "partial")
    elsewhere = kernel.memory.global_address("size_index")
    for here, following in ((head, elsewhere), (elsewhere, head)):
        kernel.memory.one(here, "list_head")["next"] = following
        kernel.memory.one(following, "list_head")["prev"] = here
    wanted = "kmalloc-64: partial list of node 0 is broken: it leads to something that is no page"
    assert wanted in check(kernel)
    assert session.snapshot().total_slabs == 0


def test_a_reset_that_cannot_be_leaves_the_finished_run(kernel_file: KernelFile) -> None:
    path = kernel_file(slub())
    session = session_of(path)
    session.run_to_end()
    path.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        session.reset()
    assert session.finished
    assert [cell.test for cell in session.results] == ["A"]
    assert session.snapshot().finished


@pytest.mark.parametrize(
    ("kernel", "line", "changed"),
    [
        ("slub", "PATCH_06 = option(0", "PATCH_06 = option(-1"),
        ("slub-cpu-partial", "CPU_PARTIAL_OBJECTS = option(-1", "CPU_PARTIAL_OBJECTS = option(1 << 40"),
    ],
)
def test_a_number_that_does_not_fit_into_its_structure_is_told(
    kernel_file: KernelFile, kernel: str, line: str, changed: str
) -> None:
    text = allocator_text(load_kernel(kernel))
    assert text.count(line) == 1
    without_range = re.sub(rf'^{re.escape(line)}(, "[^"]*").*$', rf"{changed}\1)", text, flags=re.MULTILINE)
    with pytest.raises(UserError, match=r"^mine: the boot cannot fill in the structures") as caught:
        session_of(kernel_file(without_range)).boot()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory")])
def test_too_little_memory_is_one_line(
    kernel_file: KernelFile, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(boot_module, "Machine", refuse)
    with pytest.raises(UserError, match=r"not enough memory to simulate e5345_8p with 8 CPUs"):
        session_of(kernel_file(slub())).boot()


def test_counters_come_in_order_the_kernels_first(kernel_file: KernelFile) -> None:
    more = "".join(f"MINE_{number} = counter()\n" for number in range(50))
    session = session_of(kernel_file(slub() + "\n\n" + more))
    session.run(3000)
    names = list(session.phase_counters())
    own = list(session.booted.program.counters)
    assert names[: len(own)] == own
    assert names[len(own) :] == [name for name in session.counter_names() if name and name not in own]
