"""The benchmark's table on standard output: figures with units a person reads, beside their goals."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from slubviz.model.bench.figures import GROUPS, BenchRequest, Figure, Report, Verdict

_WIDTH = 110
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def unit_of(figure: Figure) -> tuple[float, str]:
    """Size and name of the unit in which a figure and its goal are printed."""
    if figure.unit == "pictures/s":
        return 1.0, figure.unit
    if figure.unit == "percent":
        return 1.0, "%"
    if figure.unit == "bytes":
        return 1e6, "MB"
    if figure.unit != "s":
        return 1e6, f"M {figure.unit}"
    value = figure.goal or figure.best or 1.0
    return next(((size, name) for size, name in _TIME_UNITS if value >= size), _TIME_UNITS[-1])


def three_digits(value: float) -> str:
    """``value`` with about three significant digits and no exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def print_report(report: Report) -> None:
    """Print the host, a table per group and what each figure stands for."""
    console = Console(file=sys.stdout, width=_WIDTH, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        for line in _head(report):
            console.print(line)
        for group in GROUPS:
            figures = [figure for figure in report.figures if figure.group == group]
            if figures:
                console.print(f"\n{GROUPS[group][0].upper()}{GROUPS[group][1:]}")
                console.print(_table(figures))
                for line in (*_details(figures), *(_ratios(report) if group == "simpy" else ())):
                    console.print(Padding(line, (0, 0, 0, 2)))
        for line in _closing(report):
            console.print(f"\n{line}")
    sys.stdout.write("\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n")


def _head(report: Report) -> Iterable[str]:
    host, request = report.host, report.request
    cores = host["cores"]
    yield f"{host['processor']}, {cores} core{'' if cores == 1 else 's'}, {host['system']}"
    names = ("python", "numba", "numpy", "simpy", "pyside6_essentials")
    yield ", ".join(f"{name} {host.get(name) or 'not installed'}" for name in names)
    yield f"machine {request.machine}, kernel {request.kernel}, {_samples(request)}"
    load = host["load_average"]
    if isinstance(load, (int, float)) and isinstance(cores, int) and load > 0.5 * cores:
        yield f"load average {load:g}: other programs run; the column CPU time is nearer to the truth"


def _samples(request: BenchRequest) -> str:
    count = "1 sample" if request.repeat == 1 else f"best of {request.repeat} samples"
    return f"{count}, quick" if request.quick else count


def _table(figures: list[Figure]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("best", "median", "min", "max", "CPU time"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("goal", justify="right", no_wrap=True)
    table.add_column("")
    for figure in figures:
        table.add_row(figure.title, *_cells(figure))
    return table


def _cells(figure: Figure) -> list[str]:
    size, unit = unit_of(figure)

    def text(value: float | None) -> str:
        return "-" if value is None else three_digits(value / size)

    goal = (
        "" if figure.goal is None else f"{'≥' if figure.higher_is_better else '≤'} {figure.goal / size:.4g}"
    )
    verdict = figure.verdict.value
    if figure.verdict is Verdict.NOT_MEASURED:
        verdict = f"{verdict}: {figure.reason}"
    values = (
        figure.best,
        figure.median,
        min(figure.samples, default=None),
        max(figure.samples, default=None),
        figure.best_by_cpu_time,
    )
    return [*map(text, values), unit, goal, verdict]


def _details(figures: Sequence[Figure]) -> Iterable[str]:
    """What ran: one line for each figure, or one for all if it was the same."""
    details = {figure.detail for figure in figures}
    if len(figures) > 1 and len(details) == 1:
        yield from filter(None, details)
        return
    yield from (f"{figure.title}: {figure.detail}" for figure in figures if figure.detail)


def _ratios(report: Report) -> Iterable[str]:
    best = {figure.name: figure.best for figure in report.figures}
    for cpus in report.request.cpus:
        engine = best.get(f"micro_ops_per_second_D_{cpus}_cpus")
        simpy = best.get(f"simpy_timeouts_per_second_{cpus}_cpus")
        if engine and simpy:
            what = f"{cpus:,} CPU{'s' if cpus > 1 else ''}"
            yield f"{what}: {engine / simpy:.1f} micro-ops of test D in the time of one timeout"


def _closing(report: Report) -> Iterable[str]:
    verdicts = [figure.verdict for figure in report.figures if figure.goal is not None]
    if verdicts:
        yield f"{verdicts.count(Verdict.MET)} of {len(verdicts)} goals met"
