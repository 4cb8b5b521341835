"""``slubviz bench``: measure the simulator itself and hold the figures against their goals.

A goal that is missed is told, not punished: the exit code says only whether the measuring worked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import click

from slubviz import __version__
from slubviz.cli import backend
from slubviz.cli.bench_tables import print_report
from slubviz.model import selection
from slubviz.model.atomic_file import check_writable, write_all
from slubviz.model.bench.figures import (
    DEFAULT_CPUS,
    FULL_WORK,
    GROUPS,
    QUICK_WORK,
    BenchRequest,
    Report,
    report_csv,
    report_json,
)
from slubviz.model.errors import OutputError, RequestError, unknown_name

_LARGEST_CPUS = 4096
_LARGEST_REPEAT = 1000


def _group_help() -> str:
    lines = (f"  {name:<11} {what}" for name, what in GROUPS.items())
    return "\b\nGroups:\n" + "\n".join(lines)


_SHORT_HELP = "Measure the simulator itself: micro-ops per second, start-up, compile time."


@click.command(epilog=_group_help(), short_help=_SHORT_HELP)
@click.option("--quick", is_flag=True, help="A tenth of the work, for a first impression.")
@click.option("--repeat", default="3", metavar="N", show_default=True, help="Samples of each figure.")
@click.option(
    "--cpus",
    default=",".join(map(str, DEFAULT_CPUS)),
    metavar="LIST",
    show_default=True,
    help="Simulated CPUs of the rates.",
)
@click.option("--only", default=None, metavar="GROUPS", help="Measure only these groups , by commas.")
@click.option("--time-travel", is_flag=True, help="Measure only the group time-travel.")
@click.option(
    "--simpy-timeouts",
    default=None,
    metavar="N",
    help="Timeouts that SimPy executes; all: as many as the micro-ops of test D.",
)
@click.option("--json", "json_file", default=None, metavar="FILE", help="Write every sample as JSON.")
@click.option("--csv", "csv_file", default=None, metavar="FILE", help="Write a row per figure as CSV.")
def bench(
    quick: bool,
    repeat: str,
    cpus: str,
    only: str | None,
    time_travel: bool,
    simpy_timeouts: str | None,
    json_file: str | None,
    csv_file: str | None,
) -> None:
    """Measure the simulator itself: micro-ops per second, start-up, compile time.

    Some minutes; with --quick well under one. Run it on a computer that does nothing else.
    """
    work = QUICK_WORK if quick else FULL_WORK
    if simpy_timeouts is not None:
        work = replace(work, simpy_timeouts=_parse_timeouts(simpy_timeouts))
    if time_travel:
        if only is not None:
            raise RequestError("--time-travel stands for --only time-travel: give one of them")
        only = "time-travel"
    request = BenchRequest(
        groups=tuple(GROUPS) if only is None else _parse_groups(only),
        cpus=_parse_cpus(cpus),
        repeat=selection.parse_count(repeat, "--repeat", 1, _LARGEST_REPEAT),
        quick=quick,
        work=work,
    )
    check_writable([path for path in (json_file, csv_file) if path is not None])
    benchmark = backend.load_benchmark()
    benchmark.validate(request)
    with _teller() as tell:
        report = benchmark.measure(request, tell)
    _write_and_print(report, json_file, csv_file)


def _write_and_print(report: Report, json_file: str | None, csv_file: str | None) -> None:
    files: list[tuple[str, bytes]] = []
    if json_file is not None:
        files.append((json_file, report_json(report, __version__)))
    if csv_file is not None:
        files.append((csv_file, report_csv(report)))
    try:
        write_all(files)
    except OutputError:
        print_report(report)  # the measuring took its time: show it even if it could not be saved
        raise
    print_report(report)


def _parse_cpus(text: str) -> tuple[int, ...]:
    counts = (selection.parse_count(item, "--cpus", 1, _LARGEST_CPUS) for item in text.split(","))
    return tuple(sorted(set(counts)))


def _parse_groups(text: str) -> tuple[str, ...]:
    names = [item.strip().lower() for item in text.split(",")]
    for name in names:
        if name not in GROUPS:
            raise unknown_name("group", name, GROUPS)
    return tuple(name for name in GROUPS if name in names)


def _parse_timeouts(text: str) -> int | None:
    if text.strip().lower() == "all":
        return None
    try:
        return selection.parse_count(text, "--simpy-timeouts", 1, selection.LARGEST_OPS)
    except RequestError as error:
        raise RequestError(f"{error}, or all") from error


@contextmanager
def _teller() -> Iterator[Callable[[str], None]]:
    """Says on standard error what is measured now, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda text: status.update(f"measuring: {text}")
