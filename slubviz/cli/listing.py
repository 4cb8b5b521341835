"""``slubviz list``: the names that ``run`` takes."""

from __future__ import annotations

from collections.abc import Mapping

import click

from slubviz.cli import backend
from slubviz.model.errors import unknown_name

_KINDS = ("machines", "kernels", "tests")


@click.command("list", short_help="List machines, kernels or tests.")
@click.argument("kind", required=False, metavar="[machines|kernels|tests]")
def list_names(kind: str | None) -> None:
    """List the machines, kernels or tests that `slubviz run` knows; all three if none is named."""
    if kind is not None and kind not in _KINDS:
        raise unknown_name("list", kind, _KINDS)
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


def _aligned(names: Mapping[str, str], indent: str = "") -> str:
    width = max(map(len, names), default=0)
    return "".join(f"{indent}{name:<{width}}  {text}".rstrip() + "\n" for name, text in names.items())
