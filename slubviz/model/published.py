"""The published tables.

- Christoph Lameter, October 2007: tests A to F.  Tests C and E were published as one range for all sizes; a
  cell of F is the time of all frees divided by the operations of one CPU.
- Mathieu Desnoyers, March 2008: kmalloc-kfree and kmalloc-kfree-pairs on a 3 GHz Pentium 4, without
  ("baseline") and with the sequence number ("cmpxchg_local").
- Mathieu Desnoyers, October 2007: irq-cmpxchg.  Only what he measured; the rough figures that he answers to
  are in the file too.
- Jesper Dangaard Brouer, 2015: bulk, with the fallback and with bulk free.

Values are cycles per operation as the mails print them.  Joonsoo Kim's figures of 2012 are of a whole
benchmark and not per operation; they are not read here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache

from slubviz.model.assets import asset

_ALL_POINTS = 0  # stands for the empty size of a row that holds for every size
_ANY = ""  # any kernel, or the only operation of a test
#: What the tables of 2008 call a kernel and a test.
_KERNELS_2008 = {"baseline": "slub-2.6.25", "cmpxchg_local": "slub-seq"}
_TESTS_2008 = {"kmalloc_then_kfree": "kmalloc-kfree", "alloc_free_pair": "kmalloc-kfree-pairs"}
_MACHINES_2007 = {"IA32 (P4)": "p4_2007", "x86_64 AMD64": "amd64"}
_OPERATIONS_2007 = {
    "sti_cycles": "irq_restore",
    "cli_cycles": "irq_save",
    "cmpxchg_local_cycles": "cmpxchg_local",
}
_COLUMNS_2015 = {"fallback_cycles": "slub-bulk-fallback", "patched_cycles": "slub-bulk"}

#: machine, test, kernel, operation, point
_Key = tuple[str, str, str, str, int]


def _rows(name: str) -> Iterator[dict[str, str]]:
    with asset("published", name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _lameter() -> Iterator[tuple[_Key, float, float]]:
    for row in _rows("lameter_2007_tests_A-F.csv"):
        point = int(row["size_bytes"] or _ALL_POINTS)
        key = (row["machine"], row["test"], row["kernel"].lower(), _ANY, point)
        yield key, float(row["cycles_low"]), float(row["cycles_high"])


def _desnoyers_2008() -> Iterator[tuple[_Key, float, float]]:
    for row in _rows("desnoyers_2008_p4_up.csv"):
        test, kernel = _TESTS_2008[row["test"]], _KERNELS_2008[row["kernel"]]
        cycles = float(row["cycles"])
        yield ("p4_3ghz_up", test, kernel, row["operation"], int(row["size_bytes"])), cycles, cycles


def _desnoyers_2007() -> Iterator[tuple[_Key, float, float]]:
    for row in _rows("desnoyers_2007_irq_vs_cmpxchg.csv"):
        if row["source"] != "desnoyers_measured":
            continue
        for column, operation in _OPERATIONS_2007.items():
            cycles = float(row[column])
            yield (
                (_MACHINES_2007[row["machine"]], "irq-cmpxchg", _ANY, operation, _ALL_POINTS),
                cycles,
                cycles,
            )


def _brouer() -> Iterator[tuple[_Key, float, float]]:
    for row in _rows("brouer_2015_bulk_free_i7-4790k.csv"):
        for column, kernel in _COLUMNS_2015.items():
            cycles = float(row[column])
            yield ("i7_4790k", "bulk", kernel, _ANY, int(row["bulk_objects"])), cycles, cycles


@cache
def published_table() -> Mapping[_Key, tuple[float, float]]:
    """Every published number: (machine, test, kernel, operation, point) -> low and high end in cycles.

    A kernel or operation of "" stands for any kernel and for the only operation; a point of 0 for all.
    """
    sources = (_lameter, _desnoyers_2008, _desnoyers_2007, _brouer)
    return {key: (low, high) for source in sources for key, low, high in source()}


def lookup(
    machine: str, test: str, kernel: str, size_bytes: int, *, operation: str = "", objects: int | None = None
) -> tuple[float, float] | None:
    """What was published for a cell.

    Parameters
    ----------
    machine, test
        E.g. ``"e5345_8p"`` and ``"A"``.
    kernel
        E.g. ``"slab"``, ``"slub+"``; irq-cmpxchg does not depend on it.
    size_bytes
        Any size for C and E; for the other size-swept tests one of the published sizes.
    operation
        Tells the cells of kmalloc-kfree, kmalloc-kfree-pairs and irq-cmpxchg apart.
    objects
        Objects per call, for bulk.

    Returns
    -------
    tuple of float or None
        Low and high end in cycles per operation, equal where one number was published; None where
        nothing was.
    """
    table = published_table()
    point = size_bytes if objects is None else objects
    for named_kernel, named_operation, named_point in (
        (kernel, _ANY, point),
        (kernel, _ANY, _ALL_POINTS),
        (kernel, operation, point),
        (_ANY, operation, _ALL_POINTS),
    ):
        found = table.get((machine, test, named_kernel, named_operation, named_point))
        if found is not None:
            return found
    return None
