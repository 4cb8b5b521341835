"""``slubviz compare``: run everything that was published for a machine and print it beside the simulated.

On a terminal the errors so far are shown while it runs; elsewhere a line on standard error tells when a
test on a kernel is done.  Ctrl-C ends it, and every process of it, at once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from slubviz import __version__
from slubviz.cli.progress import describe
from slubviz.model import selection
from slubviz.model.atomic_file import check_writable, write_all
from slubviz.model.errors import OutputError
from slubviz.model.results import Progress

if TYPE_CHECKING:
    from slubviz.model.compare import CompareRequest, Comparison, RunningComparison

Watch = Callable[[Progress, "RunningComparison"], None]
#: Seconds between two pictures of the live table.
_REDRAW_SECONDS = 0.5
_EXAMPLES = """
\b
Examples:
  slubviz compare --machine e5345_8p
  slubviz compare --machine e5345_8p --kernel slab,slub+ --test A-F --csv cells.csv --png errors.png
  slubviz compare --test D --seeds 1-5
"""


@click.command(epilog=_EXAMPLES, short_help="Run what the mails published and print the errors.")
@click.option(
    "--machine",
    default="all",
    metavar="NAME",
    show_default=True,
    help="Machine, the path of a .toml file, or all that have published values.",
)
@click.option("--kernel", "kernels", multiple=True, metavar="NAMES", help="Only these kernels, by commas.")
@click.option("--test", default=None, metavar="TESTS", help="Only these tests: A,D or A-F.")
@click.option("--ops", default="10000", metavar="N", show_default=True, help="Operations per CPU.")
@click.option("--seeds", default="1", metavar="LIST", show_default=True, help="Seeds: 1-5 or 1,7.")
@click.option("-j", "--jobs", default=None, metavar="N", help="Processes; one per processor by default.")
@click.option("--csv", default=None, metavar="FILE", help="Write a row per cell as CSV.")
@click.option("--png", default=None, metavar="FILE", help="Draw the errors as a heat map.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def compare(
    machine: str,
    kernels: tuple[str, ...],
    test: str | None,
    ops: str,
    seeds: str,
    jobs: str | None,
    csv: str | None,
    png: str | None,
    as_json: bool,
) -> None:
    """Run every published cell and print it beside the simulated one, with the error.

    The same command prints the same bytes, whatever the number of processes.
    """
    request = _request(machine, kernels, test, ops, seeds, jobs)
    paths = [path for path in (csv, png) if path is not None]
    check_writable(paths)
    from slubviz.model.compare import plan_comparison, run_comparison  # loads the compiler of kernels

    plan = plan_comparison(request)
    started = time.perf_counter()
    with _watcher() as watch:
        comparison = run_comparison(plan, watch)
    elapsed_seconds = time.perf_counter() - started
    try:
        write_all(_files(comparison, csv, png))
    except OutputError:
        _print(comparison, as_json)  # the run took its time: show it even if it could not be saved
        raise
    _print(comparison, as_json)
    if sys.stderr.isatty():
        sys.stdout.flush()
        wrote = f"; wrote {', '.join(paths)}" if paths else ""
        click.echo(f"{elapsed_seconds:.1f} s{wrote}", err=True)


def _request(
    machine: str, kernels: tuple[str, ...], test: str | None, ops: str, seeds: str, jobs: str | None
) -> CompareRequest:
    from slubviz.model.compare import CompareRequest
    from slubviz.model.compare_redos import REDO_TEST
    from slubviz.model.compare_table import published_cells

    tests = [*dict.fromkeys(cell.key.test for cell in published_cells()), REDO_TEST]
    return CompareRequest(
        machine=machine,
        kernels=selection.parse_kernels(kernels) if kernels else None,
        tests=None if test is None else selection.parse_tests(test, tests),
        ops=selection.parse_count(ops, "--ops", 1, selection.LARGEST_OPS),
        seeds=selection.parse_seeds(seeds),
        jobs=parse_jobs(jobs),
    )


def parse_jobs(jobs: str | None) -> int | None:
    """The value of ``-j``; None for one process per processor."""
    return None if jobs is None else selection.parse_count(jobs, "--jobs", 1, 1024)


def _files(comparison: Comparison, csv: str | None, png: str | None) -> list[tuple[str, bytes]]:
    from slubviz.model.compare_files import compare_csv

    files = [(csv, compare_csv(comparison))] if csv is not None else []
    if png is not None:
        from slubviz.model.heatmap import heat_map_png  # matplotlib loads slowly

        files.append((png, heat_map_png(comparison)))
    return files


def _print(comparison: Comparison, as_json: bool) -> None:
    if as_json:
        from slubviz.model.compare_files import compare_json

        sys.stdout.write(compare_json(comparison, __version__).decode())
    else:
        from slubviz.cli.compare_tables import print_comparison

        print_comparison(comparison)


@contextmanager
def _watcher() -> Iterator[Watch]:
    """What to call while the comparison runs."""
    if not sys.stderr.isatty():
        yield _line_writer()
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from slubviz.cli.compare_tables import live_table

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("cells"),
        TimeElapsedColumn(),
    )
    bar = Bar(*columns)
    task = bar.add_task("starting", total=None)
    last = 0.0
    with Live(bar, console=Console(stderr=True), transient=True, refresh_per_second=4) as live:

        def watch(progress: Progress, running: RunningComparison) -> None:
            nonlocal last
            bar.update(
                task,
                completed=progress.done_cells,
                total=progress.total_cells,
                description=describe(progress),
            )
            now = time.monotonic()
            if now - last > _REDRAW_SECONDS and progress.done_cells:
                last = now
                live.update(Group(live_table(running.comparison()), bar))

        yield watch


def _line_writer() -> Watch:
    """Tells on standard error, without a terminal: a line whenever a tenth of the cells is done."""
    told = 0

    def watch(progress: Progress, _running: RunningComparison) -> None:
        nonlocal told
        if progress.message and told == 0:
            return
        tenth = 10 * progress.done_cells // max(progress.total_cells, 1)
        if tenth > told:
            told = tenth
            text = f"{progress.done_cells} of {progress.total_cells} cells: {describe(progress)}"
            click.echo(text, err=True)

    return watch
