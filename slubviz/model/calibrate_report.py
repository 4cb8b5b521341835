"""What a fit says: the parameters and how well each is determined, errors before and after, hold-outs.

Interface: ``parameter_lines``, ``correlated_pairs``, ``error_lines``, ``hold_outs``, ``calibration_json``.
A standard error is relative and comes from the derivatives at the solution, counting far-off cells less, as
the fit does; it holds for small errors and independent cells, so take it as an order of magnitude.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.calibrate import (
    Calibration,
    FitRequest,
    bounds_of,
    evaluate,
    fit_machine,
    log_error,
)
from slubviz.model.calibrate_fit import Determination, determination, robust_weights
from slubviz.model.compare_pool import ProcessPool
from slubviz.model.compare_table import CellKey, PublishedCell
from slubviz.model.errors import RequestError

#: Parameters that correlate more than this cannot be told apart by these cells.
CLOSE_CORRELATION = 0.95
#: A parameter known to less than this factor either way (in logs) is called undetermined.
UNDETERMINED_LOG = math.log(1.5)
_AT_BOUND_LOG = 1e-3


@dataclass(frozen=True)
class ParameterLine:
    """One fitted parameter."""

    name: str
    unit: str
    start: float
    fitted: float
    low: float  #: plausible range
    high: float
    error_percent: float  #: standard error, relative
    note: str  #: "", "undetermined", "at the end of its range" ...


def _determination(fit: Calibration) -> Determination:
    low, high = bounds_of(fit.machine, fit.names)
    solution = fit.solution
    weights = robust_weights(solution.residuals, fit.weights, fit.loss_scale)
    return determination(solution.jacobian, solution.residuals, weights, list(high - low))


def parameter_lines(fit: Calibration) -> list[ParameterLine]:
    """The parameters in the order of the machine file."""
    errors = _determination(fit).standard_errors
    lows, highs = bounds_of(fit.machine, fit.names)
    solution = fit.solution
    lines = []
    for index, name in enumerate(fit.names):
        cost = fit.machine.costs[name]
        value = math.log(fit.fitted[name])
        notes = [] if solution.jacobian[:, index].any() else ["without effect on these cells"]
        if not notes and errors[index] > UNDETERMINED_LOG:
            notes.append("undetermined")
        if min(value - lows[index], highs[index] - value) < _AT_BOUND_LOG:
            notes.append("at the end of its range")
        lines.append(
            ParameterLine(
                name=name,
                unit=cost.unit,
                start=fit.start[name],
                fitted=fit.fitted[name],
                low=cost.plausible_low,
                high=cost.plausible_high,
                error_percent=100 * float(errors[index]),
                note=", ".join(notes),
            )
        )
    return lines


def correlated_pairs(fit: Calibration) -> list[tuple[str, str, float]]:
    """Pairs of parameters that these cells hardly tell apart, with their correlation."""
    matrix = _determination(fit).correlations
    count = len(fit.names)
    return [
        (fit.names[i], fit.names[j], float(matrix[i, j]))
        for i in range(count)
        for j in range(i + 1, count)
        if abs(matrix[i, j]) > CLOSE_CORRELATION
    ]


# --- errors -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorLine:
    """Absolute errors of one group of cells in percent; "" stands for all tests or kernels."""

    test: str
    kernel: str
    cells: int
    median_before: float
    p90_before: float
    median_after: float
    p90_after: float


def percent_errors(cells: Sequence[PublishedCell], cycles: Mapping[CellKey, float]) -> list[float]:
    """Signed errors in percent."""
    return [100 * math.expm1(log_error(cycles[cell.key], cell)) for cell in cells]


def error_lines(
    cells: Sequence[PublishedCell], before: Mapping[CellKey, float], after: Mapping[CellKey, float]
) -> list[ErrorLine]:
    """Errors of each test, each kernel and all."""
    tests = list(dict.fromkeys(cell.key.test for cell in cells))
    kernels = list(dict.fromkeys(cell.key.kernel for cell in cells))
    groups = [*((test, "") for test in tests), *(("", kernel) for kernel in kernels), ("", "")]
    lines = []
    for test, kernel in groups:
        own = [c for c in cells if test in ("", c.key.test) and kernel in ("", c.key.kernel)]
        early, late = np.abs(percent_errors(own, before)), np.abs(percent_errors(own, after))
        lines.append(
            ErrorLine(
                test,
                kernel,
                len(own),
                float(np.median(early)),
                float(np.percentile(early, 90)),
                float(np.median(late)),
                float(np.percentile(late, 90)),
            )
        )
    return lines


# --- hold-outs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """What a hold-out leaves out of the fit."""

    title: str
    tests: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()

    def holds_out(self, cell: PublishedCell) -> bool:
        """Whether a cell is predicted rather than fitted."""
        return cell.key.test in self.tests or cell.key.kernel in self.kernels


SPLITS = (
    Split("without tests E and F", tests=("E", "F")),
    Split("without SLAB", kernels=("slab",)),
)


@dataclass(frozen=True)
class HoldOut:
    """A fit on some cells and what it predicts for the others, absolute errors in percent."""

    title: str
    fitted_cells: int
    held_cells: int
    fitted_median: float
    fitted_p90: float
    held_median: float
    held_p90: float
    by_group: tuple[ErrorLine, ...]  #: of the held-out cells, before the fit and predicted
    parameters: dict[str, float]


def hold_outs(
    machine: MachineSpec,
    cells: Sequence[PublishedCell],
    pool: ProcessPool,
    request: FitRequest,
    tell: Callable[[str], None] = lambda _: None,
) -> list[HoldOut]:
    """Fit without some cells and predict them, for each of ``SPLITS`` that leaves cells on both sides.

    Every fit starts in the middle of the plausible ranges: the file's values may have seen the held-out
    cells.

    Raises
    ------
    RequestError
        If no split leaves cells on both sides.
    UserError
        If a simulation fails.
    """
    results = []
    for split in SPLITS:
        held = [cell for cell in cells if split.holds_out(cell)]
        fitted = [cell for cell in cells if not split.holds_out(cell)]
        if not held or not fitted:
            continue
        tell(f"hold-out {split.title}")
        fit = fit_machine(machine, fitted, pool, replace(request, start_in_the_middle=True), tell)
        before = evaluate(machine.with_costs(fit.start), held, pool, request.workload)
        predicted = evaluate(fit.fitted_machine, held, pool, request.workload)
        own = np.abs(percent_errors(fitted, fit.after))
        theirs = np.abs(percent_errors(held, predicted))
        results.append(
            HoldOut(
                title=split.title,
                fitted_cells=len(fitted),
                held_cells=len(held),
                fitted_median=float(np.median(own)),
                fitted_p90=float(np.percentile(own, 90)),
                held_median=float(np.median(theirs)),
                held_p90=float(np.percentile(theirs, 90)),
                by_group=tuple(error_lines(held, before, predicted)),
                parameters=fit.fitted,
            )
        )
    if not results:
        raise RequestError(
            "--hold-out needs cells of tests E and F, or of slab, beside others: "
            "give more with --fit and --kernel"
        )
    return results


def calibration_json(fit: Calibration, held: Sequence[HoldOut], version: str) -> bytes:
    """Parameters, errors and hold-outs; floats with six decimals."""
    document = {
        "slubviz": version,
        "machine": fit.machine.name,
        "evaluations": fit.solution.evaluations,
        "ended": fit.solution.reason,
        "loss": [fit.solution.start_loss, fit.solution.loss],
        "parameters": [asdict(line) for line in parameter_lines(fit)],
        "correlated": [list(pair) for pair in correlated_pairs(fit)],
        "errors": [asdict(line) for line in error_lines(fit.cells, fit.before, fit.after)],
        "hold_outs": [asdict(result) for result in held],
    }
    return (json.dumps(_rounded(document), indent=2, allow_nan=False) + "\n").encode("utf-8")


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
