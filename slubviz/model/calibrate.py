"""Fits the calibrated costs of a machine file to the published cells.

Interface: ``evaluate`` (what a machine gives for cells), ``fit_machine`` -> ``Calibration``.  The
parameters are the costs marked ``calibrated = true``, within their plausible ranges; no value belongs to a
size, a test or a kernel.  A residual is log(simulated / published), 0 inside a published range.  By default
every column of the published tables (a test on a kernel) has the same weight, whatever its number of cells.
Every set of parameters runs as a simulation of its own, all of them in one process pool; the same inputs
give the same fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.calibrate_fit import FitSettings, Problem, Solution, Vector, fit
from slubviz.model.compare_pool import ProcessPool, Task
from slubviz.model.compare_table import (
    PUBLISHED_OPS,
    Boot,
    CellKey,
    PublishedCell,
    boots_for,
    central,
    published_cells,
    simulated_values,
    split_runnable,
)
from slubviz.model.errors import RequestError, unknown_name
from slubviz.model.results import CellResult

MOST_PARAMETERS = 20
#: Where a range begins at zero, the logarithm begins at this share of its end.
_SMALLEST_SHARE = 1e-3
#: Tests that measure the same at every size and soon: a quick fit runs few sizes and operations.
_STEADY_TESTS = ("C", "E")
_QUICK_STEADY_OPS = 3_000
_QUICK_STEADY_POINTS = 5


@dataclass(frozen=True)
class Workload:
    """How the cells are run while fitting."""

    ops: int = PUBLISHED_OPS
    seeds: tuple[int, ...] = (1,)
    quick: bool = False  #: fewer operations and sizes in tests C and E, whose cells hardly depend on them


def calibration_cells(
    machine: MachineSpec,
    tests: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
) -> list[PublishedCell]:
    """The published cells of a machine that can be run here, all or those of some tests and kernels."""
    own = [cell for cell in published_cells() if cell.key.machine == machine.name]
    runnable, _ = split_runnable(own, (machine.name,))
    return [
        cell
        for cell in runnable
        if (tests is None or cell.key.test in tests) and (kernels is None or cell.key.kernel in kernels)
    ]


def evaluate(
    machine: MachineSpec,
    cells: Iterable[PublishedCell],
    pool: ProcessPool,
    workload: Workload = Workload(),
) -> dict[CellKey, float]:
    """What a machine gives for published cells.

    Parameters
    ----------
    machine
        Possibly with other costs than its file's: ``MachineSpec.with_costs``.
    cells
        Published cells of this machine, see ``calibration_cells``.
    pool
        Runs the simulations; may be used again.
    workload
        Operations and seeds.

    Returns
    -------
    dict
        Cycles per cell, the mean over the seeds.

    Raises
    ------
    UserError
        If a simulation fails.
    """
    return evaluate_many([machine], list(cells), pool, workload)[0]


def evaluate_many(
    machines: Sequence[MachineSpec], cells: Sequence[PublishedCell], pool: ProcessPool, workload: Workload
) -> list[dict[CellKey, float]]:
    """As ``evaluate``, for several machines at once: no process waits for the last boot of each."""
    boots = [
        (place, _quickened(boot, workload))
        for place, machine in enumerate(machines)
        for seed in workload.seeds
        for boot in boots_for(cells, machine, seed, workload.ops)
    ]
    boots.sort(key=lambda pair: -pair[1].work)
    tasks = [
        Task(number, boot.session_spec(machines[place].name), machines[place])
        for number, (place, boot) in enumerate(boots)
    ]
    results: dict[tuple[int, int], list[CellResult]] = {}
    for event in pool.run(tasks):
        if event is not None:
            place, boot = boots[event.key]
            results.setdefault((place, boot.seed), []).extend(event.cells)
    return [
        _mean_over_seeds(
            [simulated_values(cells, results.get((place, seed), []), machine) for seed in workload.seeds]
        )
        for place, machine in enumerate(machines)
    ]


def _quickened(boot: Boot, workload: Workload) -> Boot:
    if workload.quick and boot.tests[0] in _STEADY_TESTS:
        points = boot.points[:_QUICK_STEADY_POINTS]
        ops = min(boot.ops, _QUICK_STEADY_OPS)
        work = boot.work * ops * len(points) // (boot.ops * len(boot.points))
        return replace(boot, ops=ops, points=points, work=work)
    return boot


def _mean_over_seeds(values: Sequence[Mapping[CellKey, tuple[float, ...]]]) -> dict[CellKey, float]:
    return {key: sum(central(one[key]) for one in values) / len(values) for key in values[0]}


# --- the fit --------------------------------------------------------------------------------------


def log_error(cycles: float, cell: PublishedCell) -> float:
    """log(simulated / published), against the nearest end of a range and 0 inside it."""
    return math.log(cycles / min(max(cycles, cell.low), cell.high))


def calibrated_names(machine: MachineSpec) -> tuple[str, ...]:
    """The costs to fit.

    Raises
    ------
    RequestError
        If the machine file marks none, or more than ``MOST_PARAMETERS``.
    """
    names = tuple(name for name, cost in machine.costs.items() if cost.calibrated)
    return _checked_names(machine, names)


def _checked_names(machine: MachineSpec, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in machine.costs:
            raise unknown_name("cost", name, machine.costs)
    if not names:
        raise RequestError(f"{machine.name} marks no cost as calibrated: set calibrated = true where one is")
    if len(names) > MOST_PARAMETERS:
        raise RequestError(
            f"{len(names)} costs of {machine.name} are to be fitted; at most {MOST_PARAMETERS} may be"
        )
    return tuple(dict.fromkeys(names))


def bounds_of(machine: MachineSpec, names: Sequence[str]) -> tuple[Vector, Vector]:
    """Logarithms of the ends of the plausible ranges."""
    highs = np.array([machine.costs[name].plausible_high for name in names])
    lows = np.array([machine.costs[name].plausible_low for name in names])
    highs = np.maximum(highs, 1e-9)
    return np.log(np.maximum(lows, highs * _SMALLEST_SHARE)), np.log(highs)


def column_weights(cells: Sequence[PublishedCell], by_column: bool = True) -> Vector:
    """Weight of each cell, their sum 1: columns (a test and operation on a kernel) alike, or cells alike."""
    columns = [(cell.key.kernel, cell.key.test, cell.key.operation) for cell in cells]
    weights = np.array([1 / columns.count(column) if by_column else 1.0 for column in columns])
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class FitRequest:
    """What to fit and how."""

    parameters: tuple[str, ...] | None = None  #: None: those that the machine file marks
    settings: FitSettings = field(default_factory=FitSettings)
    workload: Workload = field(default_factory=Workload)
    weight_by_column: bool = True
    start_in_the_middle: bool = False  #: of the plausible ranges, instead of the file's values


@dataclass(frozen=True)
class Calibration:
    """A fit of one machine."""

    machine: MachineSpec  #: as it was before
    names: tuple[str, ...]
    start: dict[str, float]
    fitted: dict[str, float]
    cells: tuple[PublishedCell, ...]  #: that were fitted
    weights: Vector
    before: dict[CellKey, float]  #: simulated cycles at the start
    after: dict[CellKey, float]
    loss_scale: float
    solution: Solution

    @property
    def fitted_machine(self) -> MachineSpec:
        """The machine with the fitted costs."""
        return self.machine.with_costs(self.fitted)


class _Simulation:
    """Turns parameters into residuals and remembers what each set of parameters gave."""

    def __init__(
        self,
        machine: MachineSpec,
        names: Sequence[str],
        cells: Sequence[PublishedCell],
        pool: ProcessPool,
        workload: Workload,
    ) -> None:
        self.machine, self.names, self.cells = machine, names, cells
        self.pool, self.workload = pool, workload
        self.known: dict[bytes, dict[CellKey, float]] = {}

    def values(self, point: Vector) -> dict[str, float]:
        low, high = bounds_of(self.machine, self.names)
        return {
            name: float(min(max(value, math.exp(low[i])), math.exp(high[i])))
            for i, (name, value) in enumerate(zip(self.names, np.exp(point), strict=True))
        }

    def residuals(self, points: Vector) -> Vector:
        machines = [self.machine.with_costs(self.values(point)) for point in points]
        found = evaluate_many(machines, self.cells, self.pool, self.workload)
        self.known.update({point.tobytes(): cycles for point, cycles in zip(points, found, strict=True)})
        return np.array(
            [[log_error(cycles[cell.key], cell) for cell in self.cells] for cycles in found], dtype=np.float64
        )


def check_request(
    machine: MachineSpec, cells: Sequence[PublishedCell], request: FitRequest
) -> tuple[str, ...]:
    """Names of the costs to fit, after everything that can be refused was checked.

    Raises
    ------
    RequestError
        For unknown costs, none or too many of them, no cells, or too few evaluations.
    """
    given = request.parameters
    names = calibrated_names(machine) if given is None else _checked_names(machine, given)
    if not cells:
        raise RequestError(f"nothing published for {machine.name} can be run with these tests and kernels")
    needed = len(names) + 2  # the start, one per derivative, one step
    if request.settings.evaluations < needed:
        raise RequestError(
            f"{request.settings.evaluations} evaluations are too few for {len(names)} costs: "
            f"give at least {needed}"
        )
    return names


def fit_machine(
    machine: MachineSpec,
    cells: Sequence[PublishedCell],
    pool: ProcessPool,
    request: FitRequest = FitRequest(),
    tell: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Fit costs of a machine to published cells.

    Parameters
    ----------
    machine
        The machine; its costs are the start unless the request says otherwise.
    cells
        What to fit, see ``calibration_cells``.
    pool
        Runs the simulations.
    request
        Which costs, and how.
    tell
        Hears one line per step.

    Raises
    ------
    RequestError
        As ``check_request``.
    UserError
        If a simulation fails.
    """
    names = check_request(machine, cells, request)
    low, high = bounds_of(machine, names)
    values = np.array([max(machine.costs[name].value, 1e-9) for name in names])
    start = (low + high) / 2 if request.start_in_the_middle else np.clip(np.log(values), low, high)
    weights = column_weights(cells, request.weight_by_column)
    simulation = _Simulation(machine, names, cells, pool, request.workload)
    solution = fit(Problem(start, low, high, weights, simulation.residuals), request.settings, tell)
    return Calibration(
        machine=machine,
        names=names,
        start=simulation.values(start),
        fitted=simulation.values(solution.parameters),
        cells=tuple(cells),
        weights=weights,
        before=simulation.known[start.tobytes()],
        after=simulation.known[solution.parameters.tobytes()],
        loss_scale=request.settings.loss_scale,
        solution=solution,
    )
