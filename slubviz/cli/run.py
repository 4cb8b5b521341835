"""``slubviz run``: run tests without a window and write what they gave.

Order of work: everything that can be refused is refused first (names, sizes, output paths), then the
cells run, then all files are written together, then the table is printed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace

import click
from click.core import ParameterSource

from slubviz import __version__
from slubviz.cli import backend
from slubviz.cli.progress import progress_reporter
from slubviz.cli.replay import record_first
from slubviz.cli.statistics import require_statistics, slabinfo_text
from slubviz.cli.tables import print_results
from slubviz.model import selection
from slubviz.model.atomic_file import check_writable, write_all
from slubviz.model.errors import OutputError, RequestError
from slubviz.model.patches import with_patches
from slubviz.model.results import CellResult, RunRequest, counters_csv, results_json, runs_csv, totals

_EXAMPLES = """
\b
Examples:
  slubviz run
  slubviz run --kernel slub,slub+ --test A,D --size 96,192 --png d.png
  slubviz run --test A-F --size 8:4096 --csv runs.csv --counters counters.csv
  slubviz run --kernel ./my_slub.py --option slub_max_order=3 --json
  slubviz run --kernel slub-cpu-partial --test hackbench --seeds 1-30 --slabinfo
  slubviz run --machine i7_4790k --kernel slub-bulk --test bulk --objects 30,32
"""


@dataclass(frozen=True)
class _Outputs:
    csv: str | None
    counters: str | None
    png: str | None
    record: str | None

    def paths(self) -> list[str]:
        given = (self.csv, self.counters, self.png, self.record)
        return [path for path in given if path is not None]


@dataclass(frozen=True)
class _Format:
    json: bool
    slabinfo: bool


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
@click.option(
    "--test",
    default="A-F",
    metavar="TESTS",
    show_default=True,
    help="Tests: A,D or A-F or bulk; all: every one that the kernels and the machine can run.",
)
@click.option(
    "--size",
    default="all",
    metavar="SIZES",
    show_default=True,
    help="Bytes: 96,192, or 8:4096 for the powers of two between, or all.",
)
@click.option(
    "--objects",
    default="all",
    metavar="NUMBERS",
    show_default=True,
    help="Objects per call in test bulk: 1,2,30, or all published ones.",
)
@click.option("--ops", default="10000", metavar="N", show_default=True, help="Operations per CPU.")
@click.option("--seed", default="1", metavar="N", show_default=True, help="Seed of everything random.")
@click.option(
    "--seeds",
    default=None,
    metavar="SEEDS",
    help="Run with each of these seeds, 1-30 or 1,5,9, and print mean and spread.",
)
@click.option("--cpus", default=None, metavar="N", help="CPUs to use; the machine's own number by default.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an option of the kernel or of a test. May be repeated.",
)
@click.option(
    "--patches",
    default=None,
    metavar="NUMBERS",
    help="Apply these of the ten patches to slub: 1,6,8 or 1-10, all, none.",
)
@click.option("--fresh-boot", is_flag=True, help="Boot for every cell, cold: no warm-up.")
@click.option(
    "--check", is_flag=True, help="Check every invariant of the allocator at the end of each phase."
)
@click.option("-j", "--jobs", default="1", metavar="N", show_default=True, help="Threads to use.")
@click.option("--csv", default=None, metavar="FILE", help="Write the results as CSV.")
@click.option("--counters", default=None, metavar="FILE", help="Write every counter as CSV.")
@click.option("--png", default=None, metavar="FILE", help="Draw the results beside the published values.")
@click.option("--record", default=None, metavar="FILE", help="Save the first boot as a session file.")
@click.option(
    "--slabinfo", is_flag=True, help="Print the allocator's statistics of each cell as slabinfo -r does."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def run(
    machine: str,
    kernels: tuple[str, ...],
    test: str,
    size: str,
    objects: str,
    ops: str,
    seed: str,
    seeds: str | None,
    cpus: str | None,
    options: tuple[str, ...],
    patches: str | None,
    fresh_boot: bool,
    check: bool,
    jobs: str,
    csv: str | None,
    counters: str | None,
    png: str | None,
    record: str | None,
    slabinfo: bool,
    as_json: bool,
) -> None:
    """Run tests on the simulated machine without a window.

    The same command prints the same bytes and writes the same files, every time.
    """
    # Cheap checks first: a typing error is told before the simulator loads.
    sizes = selection.parse_sizes(size)
    object_counts = selection.parse_objects(objects)
    seed_list = _seed_list(seeds)
    counts = {
        "ops": selection.parse_count(ops, "--ops", 1, selection.LARGEST_OPS),
        "seed": selection.parse_count(seed, "--seed", 0, selection.LARGEST_SEED),
        "jobs": selection.parse_count(jobs, "--jobs", 1, 1024),
    }
    cpu_count = None if cpus is None else selection.parse_count(cpus, "--cpus", 1, 4096)
    kernel_names = _kernel_names(kernels, patches)
    option_values = selection.parse_options(options)
    outputs = _Outputs(csv, counters, png, record)
    read = [machine, *(name.partition("[")[0] for name in kernel_names)]
    check_writable(outputs.paths(), inputs=read)
    runner = backend.load_runner()
    request = RunRequest(
        machine=machine,
        kernels=kernel_names,
        tests=(),
        sizes=sizes,
        objects=object_counts,
        seeds=seed_list,
        cpus=cpu_count,
        options=option_values,
        fresh_boot=fresh_boot,
        check=check,
        **counts,
    )
    request = replace(request, tests=_tests(runner, request, test))
    runner.validate(request)
    if slabinfo:
        if as_json:
            raise RequestError("--slabinfo prints text and --json does not: give one of them")
        require_statistics(request.kernels)
    _execute(runner, request, outputs, _Format(as_json, slabinfo))


def _tests(runner: backend.Runner, request: RunRequest, text: str) -> tuple[str, ...]:
    known = runner.runnable_tests(request) if text.strip().lower() == "all" else list(runner.known_tests())
    return selection.parse_tests(text, known)


def _seed_list(seeds: str | None) -> tuple[int, ...]:
    """The seeds of --seeds; empty if it is not given."""
    if seeds is None:
        return ()
    if click.get_current_context().get_parameter_source("seed") != ParameterSource.DEFAULT:
        raise RequestError("--seed and --seeds are both given: give one of them")
    return selection.parse_seeds(seeds)


def _kernel_names(kernels: tuple[str, ...], patches: str | None) -> tuple[str, ...]:
    """The kernels to run; patches are for slub alone if no kernel is named."""
    names = selection.parse_kernels(kernels)
    if patches is None:
        return names
    source = click.get_current_context().get_parameter_source("kernels")
    return with_patches(("slub",) if source == ParameterSource.DEFAULT else names, patches)


def _execute(runner: backend.Runner, request: RunRequest, outputs: _Outputs, form: _Format) -> None:
    started = time.perf_counter()
    with progress_reporter() as report:
        cells = runner.run_cells(request, report)
    elapsed_seconds = time.perf_counter() - started
    try:
        write_all(_output_files(request, cells, outputs))
        if outputs.record is not None:
            record_first(request, outputs.record)
    except OutputError:
        # The run took its time: show its results even if they could not be saved.
        _print(request, cells, form)
        raise
    _print(request, cells, form)
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


def _print(request: RunRequest, cells: list[CellResult], form: _Format) -> None:
    if form.json:
        sys.stdout.write(results_json(request, cells, __version__).decode())
        return
    print_results(request, cells)
    if form.slabinfo:
        sys.stdout.write(slabinfo_text(cells))


def _closing_line(cells: list[CellResult], outputs: _Outputs, elapsed_seconds: float) -> str:
    micro_ops = totals(cells).micro_ops
    rate = micro_ops / elapsed_seconds / 1e6 if elapsed_seconds > 0 else 0.0
    line = f"{elapsed_seconds:.1f} s, {rate:.1f} million micro-ops/s"
    return f"{line}; wrote {', '.join(outputs.paths())}" if outputs.paths() else line
