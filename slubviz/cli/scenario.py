"""``slubviz scenario``: list, show and play scenarios, the prepared runs of docs/scenarios.md.

``run`` is a check: its exit code is 1 if a scenario does not end as its file says.
"""

from __future__ import annotations

import csv as csv_module
import io
import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from slubviz.model.atomic_file import check_writable, write_atomic
from slubviz.model.errors import RequestError
from slubviz.model.scenarios import Scenario, known_scenarios, load_scenario, scenario_files

if TYPE_CHECKING:
    from slubviz.model.scenarios.outcome import PlayedOutcome
    from slubviz.model.scenarios.run import ScenarioResult

_EXAMPLES = """
\b
Examples:
  slubviz scenario list
  slubviz scenario show aba
  slubviz scenario run aba
  slubviz scenario run all --csv steps.csv
  slubviz scenario run ./mine.toml --json
"""
_ALL = "all"
_NOT_AS_EXPECTED = 1
_WIDTH = 100
_CSV_COLUMNS = ("scenario", "step", "position_micro_ops", "cpu", "focus", "anchor", "caption")


@click.group(
    "scenario", epilog=_EXAMPLES, short_help="List, show and play scenarios.", invoke_without_command=True
)
@click.pass_context
def scenario(context: click.Context) -> None:
    """Short prepared runs that show one thing each, told in steps.

    A scenario says how it must end, so that it is a test as well.
    """
    if context.invoked_subcommand is None:
        raise RequestError("say what to do: slubviz scenario list, show NAME or run NAME")


@scenario.command("list", short_help="List the scenarios that come with slubviz.")
def list_scenarios() -> None:
    """Name and title of each scenario that comes with slubviz."""
    known = known_scenarios()
    width = max(map(len, known), default=0)
    for name, title in known.items():
        click.echo(f"{name:<{width}}  {title}")


@scenario.command("show", short_help="Print what a scenario says, without playing it.")
@click.argument("name", metavar="NAME|FILE")
def show(name: str) -> None:
    """Print the machine, kernel, program, steps and outcome of a scenario."""
    click.echo(_description(load_scenario(name)), nl=False)


@scenario.command("run", short_help="Play scenarios and check how they end.")
@click.argument("names", metavar="NAME|FILE|all", nargs=-1, required=True)
@click.option("--csv", default=None, metavar="FILE", help="Write the steps as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def run(names: tuple[str, ...], csv: str | None, as_json: bool) -> None:
    """Play scenarios from start to end; print their steps with their positions, and how they ended.

    The exit code is 1 if one of them did not end as its file says.
    """
    scenarios = [load_scenario(name) for name in _wanted(names)]
    if csv is not None:
        check_writable([csv], inputs=names)
    documents: list[dict[str, Any]] = []
    rows: list[tuple[object, ...]] = [_CSV_COLUMNS]
    wrong: list[str] = []
    for result in _played(scenarios):  # one at a time: a recording takes memory
        if not as_json:
            _print_result(result)
        documents.append(_as_json(result))
        rows += _step_rows(result)
        if not result.as_expected:
            wrong.append(result.scenario.name)
    if as_json:
        click.echo(json.dumps(documents, indent=2))
    elif len(scenarios) > 1:
        tail = f"; not as expected: {', '.join(wrong)}" if wrong else ", all as expected"
        click.echo(f"{len(scenarios)} scenarios{tail}")
    if csv is not None:
        write_atomic(csv, _csv(rows))
    if wrong:
        raise click.exceptions.Exit(_NOT_AS_EXPECTED)


def _wanted(names: Sequence[str]) -> list[str]:
    if _ALL in names:
        if len(names) > 1:
            raise RequestError("all stands for every scenario that comes with slubviz; give it alone")
        return list(scenario_files())
    return list(dict.fromkeys(names))


def _played(scenarios: Sequence[Scenario]) -> Iterator[ScenarioResult]:
    from slubviz.model.scenarios.run import ScenarioRun  # loads the engine

    with _share_reporter() as report:
        for number, one in enumerate(scenarios):

            def part(share: float, number: int = number) -> None:
                report((number + share) / len(scenarios))

            yield ScenarioRun(one).play(progress=part)


@contextmanager
def _share_reporter() -> Iterator[Callable[[float], None]]:
    """A function to call with the done share; it shows a bar where somebody watches."""
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("playing"), BarColumn(bar_width=None), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("playing", total=1.0)
        yield lambda share: bar.update(task, completed=share)


# --- text --------------------------------------------------------------------------------------------


def _print_result(result: ScenarioResult) -> None:
    lines = [f"{result.scenario.name}: {result.scenario.title}"]
    for number, step in enumerate(result.steps, 1):
        lines.append(_wrapped(f"  {number:>2}. micro-op {step.position:>9,}  CPU {step.cpu}  ", step.caption))
    lines += _outcome_lines(result.outcome)
    for other in result.beside:
        lines.append(_wrapped("  beside: ", f"{other.title} (kernel {other.kernel})"))
        lines += _outcome_lines(other.outcome)
        lines += [f"    {name}: {there:,} beside {here:,}" for name, here, there in other.compared]
    click.echo("\n".join(lines) + "\n")


def _outcome_lines(outcome: PlayedOutcome) -> list[str]:
    lines = [f"  expected {outcome.expected}, found {outcome.found.kind}"]
    lines += [_wrapped("    found: ", line) for line in outcome.found.evidence[:4]]
    if len(outcome.found.evidence) > 4:
        lines.append(f"    and {len(outcome.found.evidence) - 4} more")
    if outcome.explanation:
        lines.append(_wrapped("    why: ", outcome.explanation))
    lines += [_wrapped("    NOT AS EXPECTED: ", line) for line in outcome.differences]
    return lines


def _wrapped(head: str, text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


def _description(one: Scenario) -> str:
    lines = [one.title, "", textwrap.fill(one.summary, _WIDTH), ""]
    options = ", ".join(f"{name}={value}" for name, value in one.options.items())
    lines.append(f"machine  {one.machine}, {one.cpus} CPU{'s' if one.cpus > 1 else ''}")
    lines.append(f"kernel   {one.kernel}{' with ' + options if options else ''}")
    lines.append(f"cache    of {one.size_bytes} bytes")
    for edit in one.edits:
        lines += ["", f"edit of {edit.file or 'the kernel'}:"]
        lines += [f"  - {line}" for line in edit.find.strip("\n").splitlines()]
        lines += [f"  + {line}" for line in edit.replace.strip("\n").splitlines()]
    lines += ["", "program:", textwrap.indent(one.program.strip("\n"), "  "), ""]
    for start in one.starts:
        lines.append(f"CPU {start.cpu} runs {_call(start.function, start.arguments)}")
    for strike in one.strikes:
        what = (
            f"interrupt {_call(strike.handler, strike.arguments)}"
            if strike.to_cpu is None
            else f"the task moves to CPU {strike.to_cpu}"
        )
        lines.append(f"CPU {strike.cpu}: {what} at {strike.at.text}")
    lines += ["", "steps:"]
    for number, step in enumerate(one.steps, 1):
        lines.append(_wrapped(f"  {number:>2}. ", f"{step.caption}  [{step.at.text}]"))
    lines += ["", f"outcome: {one.expected.kind}", textwrap.fill(one.expected.explanation, _WIDTH)]
    lines += [f"beside: {other.title}: {other.kind}" for other in one.beside]
    return "\n".join(lines) + "\n"


def _call(function: str, arguments: Sequence[int]) -> str:
    return f"{function}({', '.join(map(str, arguments))})"


# --- JSON and CSV --------------------------------------------------------------------------------------


def _as_json(result: ScenarioResult) -> dict[str, Any]:
    one = result.scenario
    return {
        "name": one.name,
        "title": one.title,
        "machine": one.machine,
        "cpus": one.cpus,
        "kernel": one.kernel,
        "steps": [
            {
                "position_micro_ops": step.position,
                "cpu": step.cpu,
                "focus": None if step.focus is None else str(step.focus),
                "anchor": step.anchor,
                "caption": step.caption,
            }
            for step in result.steps
        ],
        **_outcome_json(result.outcome),
        "beside": [
            {
                "title": other.title,
                "kernel": other.kernel,
                **_outcome_json(other.outcome),
                "compared": {name: [here, there] for name, here, there in other.compared},
            }
            for other in result.beside
        ],
    }


def _outcome_json(outcome: PlayedOutcome) -> dict[str, Any]:
    found = outcome.found
    return {
        "expected": str(outcome.expected),
        "found": str(found.kind),
        "as_expected": outcome.as_expected,
        "differences": list(outcome.differences),
        "evidence": list(found.evidence),
        "explanation": outcome.explanation,
        "micro_ops": found.micro_ops,
        "cycles": found.cycles,
        "counters": {name: value for name, value in found.counters.items() if value},
    }


def _step_rows(result: ScenarioResult) -> list[tuple[object, ...]]:
    return [
        (result.scenario.name, number, step.position, step.cpu, step.focus or "", step.anchor, step.caption)
        for number, step in enumerate(result.steps, 1)
    ]


def _csv(rows: Sequence[tuple[object, ...]]) -> bytes:
    text = io.StringIO()
    csv_module.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")
