"""Who wins, SLAB or SLUB+: the last column of the published tables A to F, and the same from cycles.

The author of the mail of 28 October 2007 marks each row: ``=``, one to four ``+`` (SLUB+ is better) or
``-`` (worse), or ``7 *`` (seven times as fast).  He states no thresholds.  The rule here takes the ratio of
SLAB's cycles to SLUB+'s: within 2.5 % it is ``=``; the signs begin at 1.14, 1.33 and 1.68, the limits that
reproduce most of his marks from his own numbers (45 of 63; he used no sharp ones: 1.05 is ``+`` once and
``++`` twice); from 2 on the ratio is cut to a whole number, above 10 to ``> 10 *``.  What counts is the
winner: with any width of ``=`` from 1 to 2.8 % the rule finds his winner from his own numbers in 84 of the
85 rows in which he sees one.  The row left over is test F at 1024 bytes on the E5345, which he marks ``++``
though SLUB+ takes 2 % more cycles there.
"""

from __future__ import annotations

import csv
from enum import IntEnum
from functools import cache

from slubviz.model.assets import asset

_TABLE = "lameter_2007_verdicts.csv"
_ALL_SIZES = 0
#: Ratios nearer to 1 than this have no winner.
EQUAL_RATIO = 1.025
#: Ratios at which a further sign begins.
SIGN_RATIOS = (1.14, 1.33, 1.68)
_TIMES_RATIO, _LARGEST_TIMES = 2.0, 10.0


class Winner(IntEnum):
    """Who is faster."""

    SLAB = -1
    NEITHER = 0
    SLUB = 1


@cache
def _table() -> dict[tuple[str, str, int], str]:
    with asset("published", _TABLE).open(encoding="utf-8", newline="") as file:
        return {
            (row["machine"], row["test"], int(row["size_bytes"] or _ALL_SIZES)): row["author_verdict"]
            for row in csv.DictReader(file)
        }


def author_verdicts() -> dict[tuple[str, str, int], str]:
    """The author's mark by machine, test and size in bytes (0: one mark for all sizes)."""
    return dict(_table())


def winner_of(verdict: str) -> Winner:
    """Who wins according to a mark.

    Raises
    ------
    ValueError
        If it is no mark.
    """
    if verdict == "=":
        return Winner.NEITHER
    if verdict.startswith("-"):
        return Winner.SLAB
    if verdict.startswith("+") or verdict.endswith("*"):
        return Winner.SLUB
    raise ValueError(f"{verdict!r} is no verdict: =, + to ++++, - to ----, or a number and *")


def verdict_of(slab_cycles: float, slub_cycles: float) -> str:
    """The mark that the rule gives.

    Parameters
    ----------
    slab_cycles, slub_cycles
        Cycles per operation of SLAB and of SLUB+.

    Returns
    -------
    str
        ``=``, signs, or ``N *`` from twice as fast on.  SLAB at least twice as fast is ``----``: the author
        has no mark for it.

    Raises
    ------
    ValueError
        If a cost is not positive.
    """
    if not (slab_cycles > 0 and slub_cycles > 0):
        raise ValueError(f"cycles {slab_cycles} and {slub_cycles} must be positive")
    ratio = slab_cycles / slub_cycles
    if ratio > _LARGEST_TIMES:
        return "> 10 *"
    if ratio >= _TIMES_RATIO:
        return f"{int(ratio)} *"
    advantage = max(ratio, 1 / ratio)
    if advantage <= EQUAL_RATIO:
        return "="
    signs = 1 + sum(advantage >= limit for limit in SIGN_RATIOS)
    return ("+" if ratio > 1 else "-") * signs
