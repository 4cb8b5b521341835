"""The progress bar: on standard error, and only where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slubviz.model.results import Progress


@contextmanager
def progress_reporter() -> Iterator[Callable[[Progress], None] | None]:
    """A function to call with each step of a run, or None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("cells"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(progress: Progress) -> None:
            bar.update(
                task,
                completed=progress.done_cells,
                total=progress.total_cells,
                description=describe(progress),
            )

        yield report


def describe(progress: Progress) -> str:
    """What runs now, in a few words of steady width."""
    if progress.message:
        return progress.message
    if not progress.test:
        return "running"
    return f"{progress.kernel} test {progress.test} {progress.point_label:>7}".rstrip()
