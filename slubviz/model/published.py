"""The published tables: Christoph Lameter's mail of 28 October 2007, tests A to F.

Values are cycles per operation as the mail prints them.  Tests C and E were published as one range for
all sizes.  A cell of F is the time of all frees divided by the operations of one CPU.  The other tables
in ``assets/published`` (Desnoyers 2007 and 2008, Kim 2012, Brouer 2015) are not read here.
"""

from __future__ import annotations

import csv
from functools import cache

from slubviz.model.assets import asset

_TABLE = "lameter_2007_tests_A-F.csv"
_ALL_SIZES = 0  # stands for the empty size of a row that holds for every size


@cache
def _table() -> dict[tuple[str, str, str, int], tuple[float, float]]:
    with asset("published", _TABLE).open(encoding="utf-8", newline="") as file:
        return {
            (
                row["machine"],
                row["test"],
                row["kernel"].lower(),
                int(row["size_bytes"] or _ALL_SIZES),
            ): (float(row["cycles_low"]), float(row["cycles_high"]))
            for row in csv.DictReader(file)
        }


def lookup(machine: str, test: str, kernel: str, size_bytes: int) -> tuple[float, float] | None:
    """What was published for a cell.

    Parameters
    ----------
    machine, test
        E.g. ``"e5345_8p"`` and ``"A"``.
    kernel
        ``"slab"``, ``"slub"``, ``"slub+"`` or ``"slub-o"``.
    size_bytes
        Any size for C and E; for the other tests one of the published sizes.

    Returns
    -------
    tuple of float or None
        Low and high end in cycles per operation, equal where one number was published; None where
        nothing was.
    """
    table = _table()
    found = table.get((machine, test, kernel, size_bytes))
    return found if found is not None else table.get((machine, test, kernel, _ALL_SIZES))
