"""``slubviz list``: the names that ``run`` takes, and all there is to know of one test."""

from __future__ import annotations

from collections.abc import Mapping

import click

from slubviz.cli import backend
from slubviz.model.errors import unknown_name
from slubviz.model.plan import WORKLOADS, Sweep, Workload

#: Only the ratio of the sizes to it is shown.
_EXAMPLE_PAGE_BYTES = 4096
_KINDS = ("machines", "kernels", "tests")


@click.command("list", short_help="List machines, kernels or tests.")
@click.argument("kind", required=False, metavar="[machines|kernels|tests|TEST]")
def list_names(kind: str | None) -> None:
    """List the machines, kernels or tests that `slubviz run` knows; all three if none is named.

    With the name of a test: what it sweeps, measures and needs, and its options.
    """
    if kind is not None and kind not in _KINDS:
        workload = {name.lower(): found for name, found in WORKLOADS.items()}.get(kind.lower())
        if workload is None:
            raise unknown_name("list", kind, [*_KINDS, *WORKLOADS], "the last ones being names of tests")
        click.echo(describe(workload), nl=False)
        return
    runner = backend.load_runner()
    names: dict[str, Mapping[str, str]] = {
        "machines": runner.known_machines(),
        "kernels": runner.known_kernels(),
        "tests": runner.known_tests(),
    }
    if kind is not None:
        click.echo(_aligned(names[kind]), nl=False)
        return
    click.echo("\n".join(f"{title}:\n{_aligned(names[title], '  ')}" for title in _KINDS), nl=False)


def describe(workload: Workload) -> str:
    """A test on some lines: what it sweeps, measures, needs and takes."""
    lines = {"test": f"{workload.name}: {workload.title}", "point": _points_text(workload)}
    lines["cells"] = ", ".join(workload.operations)
    if workload.panel[1]:
        lines["measured"] = workload.panel[1]
    lines["CPUs"] = f"at least {workload.cpus}"
    lines["kernel"] = f"with {', '.join(workload.needs)}" if workload.needs else "any"
    lines["published"] = workload.published or "nothing in cycles per operation"
    text = _aligned(lines)
    if workload.parameters:
        options = {
            f"{p.name}={p.default}": f"{p.text} ({p.lowest} to {p.highest})" for p in workload.parameters
        }
        text += f"options:\n{_aligned(options, '  ')}"
    return text


def _points_text(workload: Workload) -> str:
    """The swept parameter, its unit and what "all" stands for."""
    if workload.sweep == Sweep.NOTHING:
        return "none"
    points = workload.points(_EXAMPLE_PAGE_BYTES)
    if workload.sweep == Sweep.OBJECTS:
        return f"--objects, objects per call: {', '.join(map(str, points))}"
    pages = points[-1] // _EXAMPLE_PAGE_BYTES
    return (
        f"--size, bytes: powers of two from {points[0]} to {'one page' if pages == 1 else f'{pages} pages'}"
    )


def _aligned(names: Mapping[str, str], indent: str = "") -> str:
    width = max(map(len, names), default=0)
    return "".join(f"{indent}{name:<{width}}  {text}".rstrip() + "\n" for name, text in names.items())
