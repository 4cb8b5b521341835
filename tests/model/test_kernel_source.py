"""``slubviz source``: the printed program is the kernel, and a user's copy keeps what is not in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slubviz.model.errors import UserError
from slubviz.model.kernel_source import allocator_text, base_kernel, defined_options
from slubviz.model.kernels import KERNELS, load_kernel
from slubviz.model.machines import load_machine
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session

NAMES = [*KERNELS, "slub[1,6,8]"]


def saved(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def trace_hashes(kernel: str, *, fast: bool = True, **options: int) -> list[str]:
    machine = replace(load_machine("e5345_8p"), cpus=3, fast_cmpxchg_local=fast)
    made = Session(SessionSpec("x", kernel, "D", (64, 1024, 4096), 40, 1, options=options), machine)
    made.run_to_end()
    assert len(made.results) == 3
    return [cell.trace_hash for cell in made.results]


@pytest.mark.parametrize("kernel", NAMES)
def test_a_saved_copy_runs_micro_op_for_micro_op_like_the_kernel(kernel: str, tmp_path: Path) -> None:
    copy = saved(tmp_path, allocator_text(load_kernel(kernel)))
    assert trace_hashes(copy) == trace_hashes(kernel)


@pytest.mark.parametrize("kernel", ["slub+", "slub-seq"])
def test_and_with_the_same_options(kernel: str, tmp_path: Path) -> None:
    copy = saved(tmp_path, allocator_text(load_kernel(kernel)))
    options = {"CONFIG_PREEMPT": 1, "PATCH_01": 0, "slub_max_order": 2, "slub_min_objects": 9}
    assert trace_hashes(copy, **options) == trace_hashes(kernel, **options) != trace_hashes(kernel)


@pytest.mark.parametrize("kernel", ["slub+", "slub+pekka", "slub[6,8]"])
def test_and_on_a_machine_without_a_fast_cmpxchg_local(kernel: str, tmp_path: Path) -> None:
    copy = saved(tmp_path, allocator_text(load_kernel(kernel)))
    assert trace_hashes(copy, fast=False) == trace_hashes(kernel, fast=False)
    forced = trace_hashes(copy, fast=False, PATCH_08=1)
    assert forced == trace_hashes(kernel, fast=False, PATCH_08=1) != trace_hashes(copy, fast=False)


def test_what_is_printed() -> None:
    text = allocator_text(load_kernel("slub+"))
    assert text.startswith("# slubviz: based on kernel slub+\n")
    assert 'PATCH_09 = option(1, "' in text
    assert 'MIN_PARTIAL = option(2, "' in text
    assert "# === slub_fastpath.py ===" in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert defined_options(text) >= {f"PATCH_{n:02}" for n in range(1, 11)}
    assert allocator_text(load_kernel("slub[8,6]")).startswith("# slubviz: based on kernel slub\n")


def test_a_copy_of_a_copy_is_the_same(tmp_path: Path) -> None:
    text = allocator_text(load_kernel("slub-seq"))
    assert allocator_text(load_kernel(saved(tmp_path, text))) == text


def test_a_users_file_with_patches_prints_them(tmp_path: Path) -> None:
    path = saved(tmp_path, allocator_text(load_kernel("slub")))
    kernel = load_kernel(f"{path}[1,6]")
    assert kernel.name == "mine[1,6]"
    text = allocator_text(kernel)
    assert text == allocator_text(load_kernel("slub[1,6]"))


def test_a_copy_keeps_the_family_and_the_boot_parameters(tmp_path: Path) -> None:
    kernel = load_kernel(saved(tmp_path, allocator_text(load_kernel("slub-o"))))
    assert kernel.orders == KERNELS["slub-o"].orders
    kernel = load_kernel(saved(tmp_path, allocator_text(load_kernel("slub-seq"))))
    assert (kernel.name, kernel.family) == ("mine", "slub-2.6.25")
    assert kernel.options == {"CONFIG_PREEMPT": 1}  # the page allocator's, which is not in the text
    assert not kernel.takes_patches
    assert not kernel.faulty


def test_a_file_without_the_line_is_slub(tmp_path: Path) -> None:
    text = allocator_text(load_kernel("slub"))
    bare = text.split("\n", 1)[1]
    assert base_kernel(bare) is None
    assert trace_hashes(saved(tmp_path, bare)) == trace_hashes("slub")


def test_an_unknown_base_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, "# slubviz: based on kernel slubb\n")
    with pytest.raises(
        UserError, match=r"unknown kernel, named in .*mine\.py as its base: 'slubb'"
    ) as raised:
        load_kernel(path)
    assert "did you mean slub" in str(raised.value)


def test_a_file_that_is_no_text_is_refused_when_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not a text file in UTF-8"):
        load_kernel(str(path))
