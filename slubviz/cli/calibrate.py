"""``slubviz calibrate``: fit the calibrated costs of a machine file to the published cells.

Nothing is written unless ``--write`` says where; the given machine file is never changed unless it is named
there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slubviz import __version__
from slubviz.cli.compare import parse_jobs
from slubviz.model import selection
from slubviz.model.atomic_file import check_writable, write_all
from slubviz.model.errors import OutputError, RequestError, unknown_name

if TYPE_CHECKING:
    from slubviz.hw.machine_file import MachineSpec
    from slubviz.model.calibrate import Calibration, FitRequest
    from slubviz.model.calibrate_report import HoldOut
    from slubviz.model.compare_table import PublishedCell

_FEWEST, _MOST = 2, 100_000
_EXAMPLES = """
\b
Examples:
  slubviz calibrate --machine e5345_8p --fit A,B,C
  slubviz calibrate --evaluations 120 --write fitted.toml
  slubviz calibrate --quick --hold-out
  slubviz compare --machine ./fitted.toml
"""


@click.command(epilog=_EXAMPLES, short_help="Fit a machine file's calibrated costs to what was published.")
@click.option("--machine", default="e5345_8p", metavar="NAME", show_default=True, help="Machine, or a file.")
@click.option("--fit", "tests", default="all", metavar="TESTS", show_default=True, help="Tests to fit.")
@click.option("--kernel", "kernels", multiple=True, metavar="NAMES", help="Kernels to fit, by commas.")
@click.option(
    "--hold-out", is_flag=True, help="Also fit without E and F, and without slab, and predict them."
)
@click.option("--evaluations", default="60", metavar="N", show_default=True, help="Sets of costs to try.")
@click.option("--ops", default="10000", metavar="N", show_default=True, help="Operations per CPU.")
@click.option("--seeds", default="1", metavar="LIST", show_default=True, help="Seeds to average over.")
@click.option("--weights", default="columns", metavar="WHAT", show_default=True, help="columns or cells.")
@click.option("--start", default="file", metavar="WHERE", show_default=True, help="file or middle of ranges.")
@click.option("--quick", is_flag=True, help="Fewer sizes and operations in tests C and E.")
@click.option("-j", "--jobs", default=None, metavar="N", help="Processes; one per processor by default.")
@click.option("--write", default=None, metavar="FILE", help="Write a copy of the machine file with the fit.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def calibrate(
    machine: str,
    tests: str,
    kernels: tuple[str, ...],
    hold_out: bool,
    evaluations: str,
    ops: str,
    seeds: str,
    weights: str,
    start: str,
    quick: bool,
    jobs: str | None,
    write: str | None,
    as_json: bool,
) -> None:
    """Fit the costs that a machine file marks as calibrated, within their plausible ranges.

    The same command gives the same fit, whatever the number of processes.
    """
    from slubviz.model.calibrate import check_request
    from slubviz.model.calibrate_file import with_values
    from slubviz.model.machines import load_machine, machine_files

    spec = load_machine(machine)
    path = machine_files().get(machine, Path(machine))
    request = _request(evaluations, ops, seeds, quick, weights, start)
    process_count = parse_jobs(jobs)
    cells = _cells(spec, tests, kernels)
    check_request(spec, cells, request)
    text = path.read_text(encoding="utf-8-sig")
    if write is not None:
        check_writable([write])
    fit, held = _run(spec, cells, request, hold_out, process_count)
    try:
        if write is not None:
            write_all([(write, with_values(text, fit.fitted, str(path)).encode("utf-8"))])
    except OutputError:
        _print(fit, held, as_json)  # the fit took its time: show it even if it could not be saved
        raise
    _print(fit, held, as_json)


def _request(evaluations: str, ops: str, seeds: str, quick: bool, weights: str, start: str) -> FitRequest:
    from slubviz.model.calibrate import FitRequest, Workload
    from slubviz.model.calibrate_fit import FitSettings

    return FitRequest(
        settings=FitSettings(evaluations=selection.parse_count(evaluations, "--evaluations", _FEWEST, _MOST)),
        workload=Workload(
            ops=selection.parse_count(ops, "--ops", 1, selection.LARGEST_OPS),
            seeds=selection.parse_seeds(seeds),
            quick=quick,
        ),
        weight_by_column=_one_of(weights, "--weights", ("columns", "cells")) == "columns",
        start_in_the_middle=_one_of(start, "--start", ("file", "middle")) == "middle",
    )


def _cells(spec: MachineSpec, tests: str, kernels: tuple[str, ...]) -> list[PublishedCell]:
    from slubviz.model.calibrate import calibration_cells
    from slubviz.model.compare_table import published_cells

    keys = [cell.key for cell in published_cells() if cell.key.machine == spec.name]
    if not keys:
        raise RequestError(f"nothing is published for machine {spec.name}: there is nothing to fit to")
    return calibration_cells(
        spec,
        tests=selection.parse_tests(tests, list(dict.fromkeys(key.test for key in keys))),
        kernels=_kernels(kernels, list(dict.fromkeys(key.kernel for key in keys))),
    )


def _one_of(text: str, option: str, choices: Sequence[str]) -> str:
    if text not in choices:
        raise unknown_name(f"value of {option}:", text, choices)
    return text


def _kernels(given: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...] | None:
    if not given:
        return None
    names = selection.parse_kernels(given)
    for name in names:
        if name not in known:
            raise unknown_name("kernel with published values:", name, known)
    return names


def _run(
    spec: MachineSpec, cells: Sequence[PublishedCell], request: FitRequest, hold_out: bool, jobs: int | None
) -> tuple[Calibration, list[HoldOut]]:
    from slubviz.model.calibrate import fit_machine
    from slubviz.model.calibrate_report import hold_outs
    from slubviz.model.compare_pool import ProcessPool

    with ProcessPool(jobs) as pool:
        tell = _teller()
        fit = fit_machine(spec, cells, pool, request, tell)
        held = hold_outs(spec, cells, pool, request, tell) if hold_out else []
    return fit, held


def _teller() -> Callable[[str], None]:
    """Tells on standard error what each step gave."""
    return lambda text: click.echo(text, err=True)


def _print(fit: Calibration, held: Sequence[HoldOut], as_json: bool) -> None:
    if as_json:
        from slubviz.model.calibrate_report import calibration_json

        sys.stdout.write(calibration_json(fit, held, __version__).decode())
    else:
        from slubviz.cli.calibrate_tables import print_calibration

        print_calibration(fit, held)
