"""Runs everything published for a machine and holds what was simulated beside it.

Interface: ``CompareRequest``, ``plan_comparison``, ``run_comparison`` -> ``Comparison``.  Boots run in
processes; after each measured cell the caller is told and can ask for the comparison so far, so that a
command line and a window can show the first results at once.  Leaves out: summaries, verdicts and goals
(``compare_summary``), files (``compare_files``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from slubviz.hw.machine_file import MachineSpec
from slubviz.model.compare_pool import ProcessPool, Task
from slubviz.model.compare_redos import (
    REDO_KERNEL,
    REDO_MACHINE,
    REDO_TEST,
    RedoComparison,
    redo_boots,
    redo_comparison,
)
from slubviz.model.compare_table import (
    PUBLISHED_OPS,
    Boot,
    CellKey,
    PublishedCell,
    Skipped,
    boots_for,
    central,
    published_cells,
    published_machines,
    simulated_values,
    split_runnable,
)
from slubviz.model.errors import RequestError, unknown_name
from slubviz.model.machines import load_machine, machine_files
from slubviz.model.results import CellResult, Progress, error_percent

#: Stands for every machine for which something is published.
ALL_MACHINES = "all"


@dataclass(frozen=True)
class CompareRequest:
    """What to compare."""

    machine: str = ALL_MACHINES  #: a name, the path of a machine file, or ``ALL_MACHINES``
    kernels: tuple[str, ...] | None = None  #: None: all
    tests: tuple[str, ...] | None = None  #: None: all
    ops: int = PUBLISHED_OPS  #: operations per CPU
    seeds: tuple[int, ...] = (1,)
    jobs: int | None = None  #: processes; None: one per processor


@dataclass(frozen=True)
class ComparedCell:
    """One published cell and what was simulated for it."""

    key: CellKey
    published_low: float
    published_high: float
    samples: tuple[float, ...]  #: cycles, one per seed
    points_low: float  #: of a cell that stands for all sizes: the least over these sizes, mean over seeds
    points_high: float

    @property
    def mean(self) -> float:
        """Mean over the seeds, in cycles."""
        return fmean(self.samples)

    @property
    def sd(self) -> float:
        """Standard deviation over the seeds, in cycles; 0 for one seed."""
        return stdev(self.samples) if len(self.samples) > 1 else 0.0

    @property
    def error_percent(self) -> float:
        """Signed error of the mean; 0 inside a published range, else against its nearest end."""
        error = error_percent(self.mean, (self.published_low, self.published_high))
        assert error is not None
        return error


@dataclass(frozen=True)
class Comparison:
    """Simulated beside published; possibly not all of it yet."""

    request: CompareRequest
    cells: tuple[ComparedCell, ...]  #: in the order of the published tables
    wanted: int  #: cells that the whole comparison has
    skipped: tuple[Skipped, ...] = ()
    redos: RedoComparison | None = None  #: of the rewrite of unfreeze_partials

    def of_machine(self, machine: str) -> tuple[ComparedCell, ...]:
        """The cells of one machine."""
        return tuple(cell for cell in self.cells if cell.key.machine == machine)

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of the machines that have cells."""
        return tuple(dict.fromkeys(cell.key.machine for cell in self.cells))


@dataclass(frozen=True)
class ComparePlan:
    """A checked request: which cells are compared, and the boots that give them, the longest first.

    Boots with options of the kernel are those of ``compare_redos``; they give no published cell.
    """

    request: CompareRequest
    machines: Mapping[str, MachineSpec]
    cells: tuple[PublishedCell, ...]
    skipped: tuple[Skipped, ...]
    boots: tuple[tuple[str, Boot], ...]  #: machine name and boot

    @property
    def measured_cells(self) -> int:
        """Numbers that the boots measure; more than ``cells`` where one stands for all sizes, or per seed."""
        return sum(boot.measured_cells for _, boot in self.boots)


def plan_comparison(request: CompareRequest) -> ComparePlan:
    """Check a request and work out what to run.  Does not load the engine.

    Raises
    ------
    UserError
        For names that are not known, or when nothing is left to run; one line.
    """
    every = published_cells()
    _check_names("kernel", request.kernels, [*(cell.key.kernel for cell in every), REDO_KERNEL])
    _check_names("test", request.tests, [*(cell.key.test for cell in every), REDO_TEST])
    if len(set(request.seeds)) != len(request.seeds) or not request.seeds:
        raise RequestError("give every seed once, and at least one")
    machines = _machines(request.machine)
    names = list(machines) if request.machine != ALL_MACHINES else published_machines()
    asked = [cell for cell in every if cell.key.machine in names and _is_asked(cell, request)]
    cells, skipped = split_runnable(asked, machines)
    redos = redo_boots(request.ops) if _asks_for_redos(request, machines) else []
    if not cells and not redos:
        reasons = "; ".join(note.reason for note in skipped) or "nothing is published for it"
        raise RequestError(f"nothing can be compared: {reasons}")
    boots = [
        (name, boot)
        for name, machine in machines.items()
        for seed in request.seeds
        for boot in boots_for(
            [cell for cell in cells if cell.key.machine == name], machine, seed, request.ops
        )
    ]
    boots.sort(key=lambda pair: -pair[1].work)
    boots += [(REDO_MACHINE, boot) for boot in redos]
    return ComparePlan(request, machines, tuple(cells), tuple(skipped), tuple(boots))


def _asks_for_redos(request: CompareRequest, machines: Mapping[str, MachineSpec]) -> bool:
    return (
        REDO_MACHINE in machines
        and (request.kernels is None or REDO_KERNEL in request.kernels)
        and (request.tests is None or REDO_TEST in request.tests)
    )


def _check_names(kind: str, given: Sequence[str] | None, known: Sequence[str]) -> None:
    names = list(dict.fromkeys(known))
    for name in given or ():
        if name not in names:
            raise unknown_name(f"{kind} with published values:", name, names)


def _is_asked(cell: PublishedCell, request: CompareRequest) -> bool:
    return (request.kernels is None or cell.key.kernel in request.kernels) and (
        request.tests is None or cell.key.test in request.tests
    )


def _machines(name: str) -> dict[str, MachineSpec]:
    """The machines to run, by the name under which their numbers were published."""
    if name == ALL_MACHINES:
        return {known: load_machine(known) for known in published_machines() if known in machine_files()}
    machine = load_machine(name)
    if machine.name not in published_machines():
        raise unknown_name(
            "machine with published values:", machine.name, [*published_machines(), ALL_MACHINES]
        )
    return {machine.name: machine}


class RunningComparison:
    """Collects what the boots of a plan give."""

    def __init__(self, plan: ComparePlan) -> None:
        self.plan = plan
        self.results: dict[tuple[str, int], list[CellResult]] = {}
        self.redo_results: list[tuple[Boot, CellResult]] = []
        self.done_cells = 0
        self.micro_ops = 0

    def add(self, machine: str, boot: Boot, cells: Sequence[CellResult], micro_ops: int) -> Progress:
        """Take new results; how far the whole is."""
        if boot.options:
            self.redo_results += [(boot, cell) for cell in cells]
        else:
            self.results.setdefault((machine, boot.seed), []).extend(cells)
        self.done_cells += len(cells)
        self.micro_ops += micro_ops
        last = cells[-1] if cells else None
        return Progress(
            self.done_cells,
            self.plan.measured_cells,
            kernel=boot.kernel,
            test=last.test if last else boot.tests[0],
            size_bytes=last.size_bytes if last else 0,
            micro_ops=self.micro_ops,
            objects=last.objects if last else None,
        )

    def comparison(self) -> Comparison:
        """The comparison so far: the cells that every seed has given."""
        cells: list[ComparedCell] = []
        for name, machine in self.plan.machines.items():
            own = [cell for cell in self.plan.cells if cell.key.machine == name]
            by_seed = [
                simulated_values(own, self.results.get((name, seed), ()), machine)
                for seed in self.plan.request.seeds
            ]
            cells += [_compared(cell, by_seed) for cell in own if all(cell.key in one for one in by_seed)]
        plan = self.plan
        redos = redo_comparison(self.redo_results)
        return Comparison(plan.request, tuple(cells), len(plan.cells), plan.skipped, redos)


def _compared(cell: PublishedCell, by_seed: Sequence[Mapping[CellKey, tuple[float, ...]]]) -> ComparedCell:
    values = [one[cell.key] for one in by_seed]
    return ComparedCell(
        key=cell.key,
        published_low=cell.low,
        published_high=cell.high,
        samples=tuple(central(numbers) for numbers in values),
        points_low=fmean(min(numbers) for numbers in values),
        points_high=fmean(max(numbers) for numbers in values),
    )


def run_comparison(
    plan: ComparePlan,
    watch: Callable[[Progress, RunningComparison], bool | None] = lambda _progress, _so_far: None,
    pool: ProcessPool | None = None,
) -> Comparison:
    """Run a plan.

    Parameters
    ----------
    plan
        From ``plan_comparison``.
    watch
        Called after every measured cell, and about twice a second; when it returns False the run ends
        and what was measured is returned.
    pool
        Processes to use; by default a pool of its own, ended with the run.

    Returns
    -------
    Comparison
        The same for the same request, whatever the number of processes.

    Raises
    ------
    UserError
        If a simulation fails; every process is ended, as with any other exception.
    """
    if pool is None:
        with ProcessPool(plan.request.jobs) as own:
            return run_comparison(plan, watch, own)
    running = RunningComparison(plan)
    total = plan.measured_cells
    progress = Progress(0, total, message="starting")

    def tell(text: str) -> None:
        watch(Progress(0, total, message=text), running)

    tasks = [
        Task(number, boot.session_spec(plan.machines[name].name), plan.machines[name])
        for number, (name, boot) in enumerate(plan.boots)
    ]
    events = pool.run(tasks, tell)
    try:
        for event in events:
            if event is not None:
                progress = running.add(*plan.boots[event.key], event.cells, event.micro_ops)
            if watch(progress, running) is False:
                break
    finally:
        events.close()
    return running.comparison()
