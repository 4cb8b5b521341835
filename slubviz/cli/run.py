"""``slubviz run``: run tests without a window and write what they gave.

Order of work: everything that can be refused is refused first (names, sizes, output paths), then the
cells run, then all files are written together, then the table is printed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import click

from slubviz import __version__
from slubviz.cli import backend
from slubviz.cli.progress import progress_reporter
from slubviz.cli.tables import print_results
from slubviz.model import selection
from slubviz.model.atomic_file import check_writable, write_all
from slubviz.model.errors import OutputError
from slubviz.model.results import CellResult, RunRequest, counters_csv, results_json, runs_csv, totals

_EXAMPLES = """
\b
Examples:
  slubviz run
  slubviz run --kernel slub,slub+ --test A,D --size 96,192 --png d.png
  slubviz run --test A-F --size 8:4096 --csv runs.csv --counters counters.csv
  slubviz run --kernel ./my_slub.py --option slub_max_order=3 --json
"""


@dataclass(frozen=True)
class _Outputs:
    csv: str | None
    counters: str | None
    png: str | None

    def paths(self) -> list[str]:
        return [path for path in (self.csv, self.counters, self.png) if path is not None]


@click.command(epilog=_EXAMPLES, short_help="Run tests and print, save or plot the results.")
@click.option(
    "--machine",
    default="e5345_8p",
    metavar="NAME",
    show_default=True,
    help="Machine, or the path of a .toml file.",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    default=("slub,slub+",),
    metavar="NAMES",
    show_default="slub,slub+",
    help="Kernels separated by commas, or paths of .py files.",
)
@click.option("--test", default="A-F", metavar="TESTS", show_default=True, help="Tests: A,D or A-F or all.")
@click.option(
    "--size",
    default="all",
    metavar="SIZES",
    show_default=True,
    help="Bytes: 96,192, or 8:4096 for the powers of two between, or all.",
)
@click.option("--ops", default="10000", metavar="N", show_default=True, help="Operations per CPU.")
@click.option("--seed", default="1", metavar="N", show_default=True, help="Seed of everything random.")
@click.option("--cpus", default=None, metavar="N", help="CPUs to use; the machine's own number by default.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an option of the kernel. May be repeated.",
)
@click.option("--fresh-boot", is_flag=True, help="Boot for every cell, cold: no warm-up.")
@click.option(
    "--check", is_flag=True, help="Check every invariant of the allocator at the end of each phase."
)
@click.option("-j", "--jobs", default="1", metavar="N", show_default=True, help="Threads to use.")
@click.option("--csv", default=None, metavar="FILE", help="Write the results as CSV.")
@click.option("--counters", default=None, metavar="FILE", help="Write every counter as CSV.")
@click.option("--png", default=None, metavar="FILE", help="Draw the results beside the published values.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def run(
    machine: str,
    kernels: tuple[str, ...],
    test: str,
    size: str,
    ops: str,
    seed: str,
    cpus: str | None,
    options: tuple[str, ...],
    fresh_boot: bool,
    check: bool,
    jobs: str,
    csv: str | None,
    counters: str | None,
    png: str | None,
    as_json: bool,
) -> None:
    """Run tests on the simulated machine without a window.

    The same command prints the same bytes and writes the same files, every time.
    """
    # Cheap checks first: a typing error is told before the simulator loads.
    sizes = selection.parse_sizes(size)
    counts = {
        "ops": selection.parse_count(ops, "--ops", 1, selection.LARGEST_OPS),
        "seed": selection.parse_count(seed, "--seed", 0, (1 << 63) - 1),
        "jobs": selection.parse_count(jobs, "--jobs", 1, 1024),
    }
    cpu_count = None if cpus is None else selection.parse_count(cpus, "--cpus", 1, 4096)
    kernel_names = selection.parse_kernels(kernels)
    option_values = selection.parse_options(options)
    outputs = _Outputs(csv, counters, png)
    check_writable(outputs.paths())
    runner = backend.load_runner()
    request = RunRequest(
        machine=machine,
        kernels=kernel_names,
        tests=selection.parse_tests(test, list(runner.known_tests())),
        sizes=sizes,
        cpus=cpu_count,
        options=option_values,
        fresh_boot=fresh_boot,
        check=check,
        **counts,
    )
    runner.validate(request)
    _execute(runner, request, outputs, as_json)


def _execute(runner: backend.Runner, request: RunRequest, outputs: _Outputs, as_json: bool) -> None:
    started = time.perf_counter()
    with progress_reporter() as report:
        cells = runner.run_cells(request, report)
    elapsed_seconds = time.perf_counter() - started
    try:
        write_all(_output_files(request, cells, outputs))
    except OutputError:
        # The run took its time: show its results even if they could not be saved.
        _print(request, cells, as_json)
        raise
    _print(request, cells, as_json)
    if sys.stderr.isatty():
        sys.stdout.flush()
        click.echo(_closing_line(cells, outputs, elapsed_seconds), err=True)


def _output_files(request: RunRequest, cells: list[CellResult], outputs: _Outputs) -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    if outputs.csv is not None:
        files.append((outputs.csv, runs_csv(cells)))
    if outputs.counters is not None:
        files.append((outputs.counters, counters_csv(cells)))
    if outputs.png is not None:
        from slubviz.model.charts import results_png  # matplotlib loads slowly

        files.append((outputs.png, results_png(request, cells)))
    return files


def _print(request: RunRequest, cells: list[CellResult], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(results_json(request, cells, __version__).decode())
    else:
        print_results(request, cells)


def _closing_line(cells: list[CellResult], outputs: _Outputs, elapsed_seconds: float) -> str:
    micro_ops = totals(cells).micro_ops
    rate = micro_ops / elapsed_seconds / 1e6 if elapsed_seconds > 0 else 0.0
    line = f"{elapsed_seconds:.1f} s, {rate:.1f} million micro-ops/s"
    return f"{line}; wrote {', '.join(outputs.paths())}" if outputs.paths() else line
