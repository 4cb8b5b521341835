"""Each of the ten patches alone and each left out: all tests run, break nothing, count what they should."""

from __future__ import annotations

import pytest

from slubviz.model.invariants import check
from tests.model.helpers import session
from tests.oracle.counters import KERNEL_COUNTERS
from tests.oracle.runs import run_test

NUMBERS = range(1, 11)
#: 08 relies on the end markers of 06.
ALONE = {f"{n:02}_alone": {n, 6} if n == 8 else {n} for n in NUMBERS}
WITHOUT = {f"without_{n:02}": set(NUMBERS) - ({6, 8} if n == 6 else {n}) for n in NUMBERS}
SETS = {"none": set(), "all": set(NUMBERS)} | ALONE | WITHOUT
OPERATIONS = {
    "A": "kmalloc",
    "B": "kfree",
    "C": "kmalloc+kfree",
    "D": "kmalloc",
    "E": "kmalloc+kfree",
    "F": "kfree",
}
SIZES = (64, 1024, 2048, 4096)
OPS = 40


def run(tests: str, patches: set[int], preempt: int) -> None:
    options = {f"PATCH_{n:02}": int(n in patches) for n in NUMBERS}
    made = session(tests, SIZES, OPS, "slub", cpus=4, CONFIG_PREEMPT=preempt, **options)
    made.run_to_end()
    assert check(made.booted, expected_allocated=0) == []
    assert len(made.results) == len(SIZES) * len(tests)
    # Of all patches only the first decides where a slab goes; none changes a count of these tests.
    variant = "SLUB+" if 1 in patches else "SLUB"
    for cell in made.results:
        expected = run_test(cell.test, cell.size_bytes, OPS, cpus=4, variant=variant)[OPERATIONS[cell.test]]
        got = {name: cell.counters[name] for name in KERNEL_COUNTERS}
        assert got == {name: expected[name] for name in KERNEL_COUNTERS}, (cell.test, cell.size_bytes)


@pytest.mark.parametrize("tests", ["AB", "C", "D", "E", "F"])
@pytest.mark.parametrize("name", SETS)
def test_every_combination_runs_and_breaks_nothing(name: str, tests: str) -> None:
    run(tests, SETS[name], 0)


@pytest.mark.parametrize("tests", ["AB", "C", "D", "E", "F"])
@pytest.mark.parametrize("name", ["none", "all", "08_alone", "09_alone"])
def test_a_preemptible_kernel_breaks_nothing(name: str, tests: str) -> None:
    run(tests, SETS[name], 1)
