"""A comparison as CSV and as JSON.  Same inputs, same bytes.

The CSV has one row per published cell.  ``point`` is a size in bytes or objects per bulk call, empty where
one number stands for all sizes; then ``points_min`` and ``points_max`` tell how the simulated sizes differ.
Verdicts are those of the row of the published table, the same on every kernel of it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from slubviz.model.compare import ComparedCell, CompareRequest, Comparison
from slubviz.model.compare_summary import VerdictRow, goal_results, summarise, verdict_rows, winner_agreement
from slubviz.model.compare_table import ALL_POINTS
from slubviz.model.errors import UserError

COMPARE_COLUMNS = (
    "machine",
    "kernel",
    "test",
    "operation",
    "point",
    "published_low",
    "published_high",
    "simulated_mean",
    "simulated_sd",
    "simulated_min",
    "simulated_max",
    "points_min",
    "points_max",
    "error_percent",
    "author_verdict",
    "published_verdict",
    "our_verdict",
    "ops",
    "seeds",
)
_DECIMALS = 3


def compare_csv(comparison: Comparison) -> bytes:
    """One row per compared cell, columns ``COMPARE_COLUMNS``; cycles and percent with three decimals."""
    verdicts = {(row.machine, row.test, row.point): row for row in verdict_rows(comparison)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COMPARE_COLUMNS)
    for cell in comparison.cells:
        writer.writerow(_csv_row(cell, verdicts.get(_row_of(cell)), comparison.request))
    return text.getvalue().encode("utf-8")


def _row_of(cell: ComparedCell) -> tuple[str, str, int]:
    return (cell.key.machine, cell.key.test, cell.key.point)


def _csv_row(cell: ComparedCell, verdict: VerdictRow | None, request: CompareRequest) -> Sequence[object]:
    key = cell.key
    return (
        key.machine,
        key.kernel,
        key.test,
        key.operation,
        "" if key.point == ALL_POINTS else key.point,
        f"{cell.published_low:g}",
        f"{cell.published_high:g}",
        *(
            f"{value:.{_DECIMALS}f}"
            for value in (
                cell.mean,
                cell.sd,
                min(cell.samples),
                max(cell.samples),
                cell.points_low,
                cell.points_high,
            )
        ),
        f"{cell.error_percent:+z.{_DECIMALS}f}",
        verdict.author if verdict else "",
        verdict.from_published if verdict else "",
        verdict.simulated if verdict else "",
        request.ops,
        " ".join(map(str, request.seeds)),
    )


@dataclass(frozen=True)
class CsvCell:
    """What ``read_compare_csv`` gives of a row."""

    machine: str
    kernel: str
    test: str
    operation: str
    point: int
    published_low: float
    published_high: float
    simulated_mean: float
    error_percent: float
    author_verdict: str
    our_verdict: str


def read_compare_csv(data: bytes) -> list[CsvCell]:
    """Read back what ``compare_csv`` wrote, for instance to show an earlier comparison.

    Raises
    ------
    UserError
        If it is no such file.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"))))
        return [
            CsvCell(
                machine=row["machine"],
                kernel=row["kernel"],
                test=row["test"],
                operation=row["operation"],
                point=int(row["point"] or ALL_POINTS),
                published_low=float(row["published_low"]),
                published_high=float(row["published_high"]),
                simulated_mean=float(row["simulated_mean"]),
                error_percent=float(row["error_percent"]),
                author_verdict=row["author_verdict"],
                our_verdict=row["our_verdict"],
            )
            for row in rows
        ]
    except (KeyError, ValueError, TypeError, csv.Error) as error:
        raise UserError("not a table that slubviz compare wrote: give the file of its --csv") from error


def compare_json(comparison: Comparison, version: str) -> bytes:
    """The comparison with its summaries, verdicts and goals; floats with three decimals."""
    # How many processes ran says nothing about the result.
    request = asdict(replace(comparison.request, jobs=None))
    request.pop("jobs")
    document = {
        "slubviz": version,
        "request": request,
        "wanted_cells": comparison.wanted,
        "cells": [_cell_record(cell) for cell in comparison.cells],
        "errors": [asdict(line) for line in summarise(comparison)],
        "verdicts": [asdict(row) for row in verdict_rows(comparison)],
        "winner_agreement": asdict(winner_agreement(verdict_rows(comparison))),
        "goals": [asdict(goal) for goal in goal_results(comparison)],
        "unfreeze_partials": asdict(comparison.redos) if comparison.redos else None,
        "skipped": [{"reason": note.reason, "cells": note.cells} for note in comparison.skipped],
    }
    return (json.dumps(_rounded(document), indent=2, allow_nan=False) + "\n").encode("utf-8")


def _cell_record(cell: ComparedCell) -> dict[str, object]:
    record: dict[str, object] = asdict(cell.key)
    own = asdict(cell)
    own.pop("key")
    record.update(own)
    record.update(simulated_mean=cell.mean, simulated_sd=cell.sd, error_percent=cell.error_percent)
    return record


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, _DECIMALS)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
