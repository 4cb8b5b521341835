"""The command group: global options and the list of commands."""

from __future__ import annotations

import click

from slubviz import __version__
from slubviz.cli.bench import bench
from slubviz.cli.calibrate import calibrate
from slubviz.cli.compare import compare
from slubviz.cli.gui import gui
from slubviz.cli.listing import list_names
from slubviz.cli.replay import replay
from slubviz.cli.run import run
from slubviz.cli.scenario import scenario
from slubviz.cli.source import source


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="slubviz", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Run the Linux slab allocators on a simulated machine and look at what they do.

    Without a command the window opens.
    """
    if context.invoked_subcommand is None:
        context.invoke(gui)


cli.add_command(run)
cli.add_command(replay)
cli.add_command(scenario)
cli.add_command(list_names)
cli.add_command(source)
cli.add_command(bench)
cli.add_command(compare)
cli.add_command(calibrate)
cli.add_command(gui)
