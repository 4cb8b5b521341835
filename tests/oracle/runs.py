"""Tests A to F of the mail on a `Slub`, counted operation by operation.

Left out: time, and what other sizes of the same run leave behind; every call starts on a fresh kernel.
"""

from __future__ import annotations

from typing import Any

from .counters import Counters, counters_delta
from .slub import Slub

TESTS = ("A", "B", "C", "D", "E", "F")


def check_test(test: str, ops: int, cpus: int) -> None:
    """Raise ValueError for a test, a number of operations or of CPUs that cannot be run."""
    if test not in TESTS:
        raise ValueError(f"test {test!r}: give one of {', '.join(TESTS)}")
    if ops < 0:
        raise ValueError(f"{ops} operations: give 0 or more")
    if test == "F" and cpus < 2:
        raise ValueError("test F frees on cpu 0 what other cpus allocated: give at least 2 cpus")


def run_test(test: str, size: int, ops: int, cpus: int = 8, **options: Any) -> dict[str, Counters]:
    """Run one test on a fresh kernel.

    A
        CPU 0 allocates `ops` objects.
    B
        The same, then CPU 0 frees them in the order of allocation.
    C
        CPU 0 allocates and frees `ops` times.
    D
        Every CPU allocates `ops` objects, one each in turn; then every CPU frees its own in the same manner.
    E
        Every CPU allocates and frees `ops` times, one pair each in turn.
    F
        Every CPU but 0 allocates `ops` objects; then CPU 0 frees them all, CPU by CPU.

    Parameters
    ----------
    test : {"A", "B", "C", "D", "E", "F"}
    size, ops, cpus : int
        Bytes; operations of each CPU; CPUs.
    **options
        Further arguments of `Slub`: page_size, variant, nodes, max_order, ...

    Returns
    -------
    dict
        "kmalloc" (A, B, D, F), "kfree" (B, D, F) or "kmalloc+kfree" (C, E) -> what was counted meanwhile, all
        CPUs together.

    Raises
    ------
    ValueError
        An argument is unknown or out of range.
    """
    return run_test_on(Slub(cpus=cpus, **options), test, size, ops)


def run_test_on(slub: Slub, test: str, size: int, ops: int) -> dict[str, Counters]:
    """`run_test` on a kernel of the caller's, which may have run before."""
    check_test(test, ops, slub.cpus)
    everybody = range(slub.cpus)
    if test in ("C", "E"):
        return _pairs(slub, size, ops, range(1) if test == "C" else everybody)
    start = slub.counters
    allocating = {"A": range(1), "B": range(1), "D": everybody, "F": everybody[1:]}[test]
    objects: dict[int, list[int]] = {cpu: [] for cpu in allocating}
    for _ in range(ops):
        for cpu in allocating:
            objects[cpu].append(slub.alloc(cpu, size))
    allocated = slub.counters
    result = {"kmalloc": counters_delta(allocated, start)}
    if test == "A":
        return result
    if test == "F":
        for cpu in allocating:
            for obj in objects[cpu]:
                slub.free(0, obj)
    else:
        for turn in range(ops):
            for cpu in allocating:
                slub.free(cpu, objects[cpu][turn])
    result["kfree"] = counters_delta(slub.counters, allocated)
    return result


def _pairs(slub: Slub, size: int, ops: int, cpus: range) -> dict[str, Counters]:
    start = slub.counters
    for _ in range(ops):
        for cpu in cpus:
            slub.free(cpu, slub.alloc(cpu, size))
    return {"kmalloc+kfree": counters_delta(slub.counters, start)}
