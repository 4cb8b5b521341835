"""``slub[1,6,8]``: which patches a name means, what is refused, and what each patch changes."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slubviz.hw.layout import (
    HARDWARE_COUNTERS,
    N_L2_HIT,
    N_MEMORY_LOCAL,
    N_TRANSFER_PACKAGE,
    N_TRANSFER_SIBLING,
    N_TRANSFER_SYSTEM,
)
from slubviz.model.errors import RequestError
from slubviz.model.kernels import KERNELS, load_kernel
from slubviz.model.patches import PATCHES, parse_patches, patch_label, split_patches, with_patches
from slubviz.model.results import CellResult
from slubviz.model.selection import parse_kernels
from tests.model.driver import Driver
from tests.model.helpers import session

NO_EFFECT = {2, 5}  # they change how the C compiler lays out the code
SIZES = (1024,)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,6,8", {1, 6, 8}),
        ("1-10", set(range(1, 11))),
        (" all ", set(range(1, 11))),
        ("None", set()),
        ("6 , 8-9,9", {6, 8, 9}),
        ("01", {1}),
        ("3-3", {3}),
    ],
)
def test_numbers(text: str, numbers: set[int]) -> None:
    assert parse_patches(text) == numbers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "there is no patch 0; there are 1 to 10"),
        ("11", "there is no patch 11"),
        ("1-20", "there is no patch 20"),
        ("8", "patch 8 needs patch 6: .*; give 6,8"),
        ("7-10", "patch 8 needs patch 6: .*; give 6-10"),
        ("5-3", "range 5-3 runs backwards"),
        ("", "'' is no patch: give numbers such as 1,6,8"),
        ("1,,2", "'' is no patch"),
        ("a", "'a' is no patch"),
        ("-1", "'-1' is no patch"),
        ("1;2", "'1;2' is no patch"),
        ("١", "is no patch"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as raised:
        parse_patches(text)
    assert "\n" not in str(raised.value)


@given(st.sets(st.integers(1, 10)))
def test_a_label_reads_back_as_what_it_stands_for(numbers: set[int]) -> None:
    if 8 in numbers:
        numbers.add(6)
    assert parse_patches(patch_label(numbers)) == numbers
    assert split_patches(f"slub[{patch_label(numbers)}]") == ("slub", numbers)


def test_names_with_patches() -> None:
    assert split_patches("slub") == ("slub", None)
    assert split_patches("a[1]/b.py") == ("a[1]/b.py", None)
    assert with_patches(("slub", "./my.py"), "6,7,8") == ("slub[6-8]", "./my.py[6-8]")
    assert parse_kernels(("slub[1,6,8],slub", "slub+")) == ("slub[1,6,8]", "slub", "slub+")
    with pytest.raises(RequestError, match="names its patches"):
        with_patches(("slub[1]",), "2")


def test_a_kernel_with_patches() -> None:
    kernel = load_kernel("SLUB[8,6,01]")
    assert kernel.name == "slub[1,6,8]"
    assert {name for name, value in kernel.options.items() if value} == {"PATCH_01", "PATCH_06", "PATCH_08"}
    assert len(kernel.options) == 10
    assert kernel.files == KERNELS["slub"].files


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "slub"])
def test_other_kernels_take_no_patches(kernel: str) -> None:
    with pytest.raises(RequestError, match="takes no list of patches; give kernel slub"):
        load_kernel(f"{kernel}[1]")


def test_the_options_and_the_list_are_of_the_same_patches() -> None:
    options = session("C", (8,), 1).booted.program.options
    assert {name for name in options if name.startswith("PATCH_")} == {f"PATCH_{n:02}" for n in PATCHES}
    for number, text in PATCHES.items():
        assert text.removesuffix("; needs 6") == options[f"PATCH_{number:02}"].doc


@cache
def cells(*patches: int) -> tuple[CellResult, ...]:
    """Tests A, B and D with these patches."""
    kernel = f"slub[{patch_label(patches)}]"
    found: list[CellResult] = []
    for tests in ("AB", "D"):
        made = session(tests, SIZES, 200, kernel, cpus=4)
        made.run_to_end()
        found += made.results
    assert {cell.kernel for cell in found} == {kernel}
    return tuple(found)


def test_none_and_all_are_slub_and_slub_plus_but_are_not_compared() -> None:
    for name, patches in (("slub", ()), ("slub+", tuple(PATCHES))):
        made = session("AB", SIZES, 200, name, cpus=4)
        made.run_to_end()
        hashes = [cell.trace_hash for cell in made.results]
        assert hashes == [cell.trace_hash for cell in cells(*patches)[:2]]
    # On all CPUs, where values are published.
    whole = session("C", (64,), 10, "slub[none]")
    whole.run_to_end()
    assert whole.results[0].published_low is None
    compared = session("C", (64,), 10, "slub")
    compared.run_to_end()
    assert compared.results[0].published_low is not None
    assert compared.results[0].trace_hash == whole.results[0].trace_hash


@pytest.mark.parametrize("number", PATCHES)
def test_each_patch_has_an_effect_of_its_own(number: int) -> None:
    base = (6,) if number == 8 else ()
    before, after = cells(*base), cells(*base, number)
    changed = {
        what
        for old, new in zip(before, after, strict=True)
        for what in ("micro_ops", "cycles_per_op", "trace_hash")
        if getattr(old, what) != getattr(new, what)
    }
    if number in NO_EFFECT | {7}:  # 07 reads another cache line, which the tests have in their caches
        assert changed == set()
    else:
        assert {"cycles_per_op", "trace_hash"} <= changed
    counted = {
        name
        for old, new in zip(before, after, strict=True)
        for name in ("DEACTIVATE_TO_HEAD", "DEACTIVATE_TO_TAIL", "SLAB_LOCK", "LOCKED_OPERATIONS")
        if old.counters[name] != new.counters[name]
    }
    if number == 9:  # an unlock that is no locked operation
        assert "LOCKED_OPERATIONS" in counted


def misses_of_a_cold_refill(kernel: str) -> int:
    """Lines that CPU 1 misses when it takes a slab off the partial list, its first use of the cache.

    The kmem_cache of 256 bytes begins a cache line, so that its number of objects begins the second one.
    """
    driver = Driver(kernel, 2)
    assert driver.kernel.cache_address(driver.index(256)) % 64 == 0
    assert driver.program.struct("kmem_cache").fields["objects"].offset_bytes == 64
    objects = [driver.alloc(0, 256) for _ in range(17)]
    driver.free(0, objects[0])
    before = driver.machine.counters()[1, :HARDWARE_COUNTERS].copy()
    driver.alloc(1, 256)
    assert driver.counters()["ALLOC_FROM_PARTIAL"] == 1
    gained = driver.machine.counters()[1, :HARDWARE_COUNTERS] - before
    return int(
        gained[[N_L2_HIT, N_TRANSFER_SIBLING, N_TRANSFER_PACKAGE, N_TRANSFER_SYSTEM, N_MEMORY_LOCAL]].sum()
    )


def test_patch_7_spares_a_cache_line_of_the_slow_path() -> None:
    assert misses_of_a_cold_refill("slub[7]") == misses_of_a_cold_refill("slub[none]") - 1
