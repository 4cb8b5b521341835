"""The published effect of rewriting ``unfreeze_partials``: fewer failed exchanges of a page's counters.

Joonsoo Kim's mail of June 2012 gives the "Locked Cmpxchg Double redos" of one cache over 33 runs of
``hackbench 50 process 4000``, before and after.  What is compared is the direction: our runs are far
shorter, and redos vary with the seed by far more than the 2.6 % of the mail, so both kernels run with the
same 30 seeds.  The groups are those of the mail; with the few groups of the workload's defaults (2 of 8
senders and 8 receivers) slabs are drained so seldom that no difference shows.  The mail does not name its
machine; it kept 8 CPUs busy at 3.7 GHz, and the nearest machine here is the i7-4790K.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from slubviz.model.assets import asset
from slubviz.model.compare_table import Boot
from slubviz.model.results import CellResult

REDO_MACHINE, REDO_KERNEL, REDO_TEST = "i7_4790k", "slub-cpu-partial", "hackbench"
REDO_SEEDS = tuple(range(1, 31))
_OPTION = "UNFREEZE_REWRITE"
#: What "hackbench 50 process" means: 50 groups of 20 senders and 20 receivers.
_AS_PUBLISHED = (("GROUPS", 50), ("SENDERS", 20), ("RECEIVERS", 20))
_COUNTER = "CMPXCHG_DOUBLE_FAIL"
_TABLE, _METRIC = "kim_2012_unfreeze_partials.csv", "locked_cmpxchg_double_redos"


def redo_boots(ops: int) -> list[Boot]:
    """Both kernels with every seed."""
    return [
        Boot(REDO_KERNEL, (REDO_TEST,), (), seed, ops, ops, ((_OPTION, rewritten), *_AS_PUBLISHED))
        for seed in REDO_SEEDS
        for rewritten in (0, 1)
    ]


@dataclass(frozen=True)
class RedoComparison:
    """Redos before and after the rewrite, one number per seed, in the same order."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    published_before: int
    published_after: int

    @property
    def seeds(self) -> int:
        """How many seeds gave both numbers."""
        return len(self.before)

    @property
    def change_percent(self) -> float:
        """Change of the mean; negative: fewer after."""
        return 100 * (fmean(self.after) / fmean(self.before) - 1) if sum(self.before) else 0.0

    @property
    def published_change_percent(self) -> float:
        """The same in the mail."""
        return 100 * (self.published_after / self.published_before - 1)

    @property
    def difference(self) -> tuple[float, float]:
        """Mean of after less before, and its standard error over the seeds (0 for a single one)."""
        differences = [late - early for early, late in zip(self.before, self.after, strict=True)]
        error = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0
        return fmean(differences), error

    @property
    def fewer(self) -> int:
        """Seeds with fewer redos after than before."""
        return sum(late < early for early, late in zip(self.before, self.after, strict=True))


def redo_comparison(results: Sequence[tuple[Boot, CellResult]]) -> RedoComparison | None:
    """Pair the results by seed; None before the first pair is complete."""
    found: dict[int, dict[int, int]] = {0: {}, 1: {}}
    for boot, cell in results:
        found[dict(boot.options)[_OPTION]][boot.seed] = cell.counters[_COUNTER]
    seeds = sorted(set(found[0]) & set(found[1]))
    if not seeds:
        return None
    with asset("published", _TABLE).open(encoding="utf-8", newline="") as file:
        row = next(row for row in csv.DictReader(file) if row["metric"] == _METRIC)
    return RedoComparison(
        before=tuple(found[0][seed] for seed in seeds),
        after=tuple(found[1][seed] for seed in seeds),
        published_before=int(row["before"]),
        published_after=int(row["after"]),
    )
