"""``slubviz replay``: run a session file again without a window and tell what there is at its cursor.

The run is the saved one or it is not: the exit code says so, and what differs is told.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from slubviz.model import selection
from slubviz.model.atomic_file import check_writable, write_atomic
from slubviz.model.errors import RequestError
from slubviz.model.results import RunRequest, runs_csv

if TYPE_CHECKING:
    from slubviz.model.snapshot import CpuView, LockView, PhaseView
    from slubviz.model.travel.branches import Branch
    from slubviz.model.travel.recording import Recording
    from slubviz.model.travel.session_file import LoadedSession

_EXAMPLES = """
\b
Examples:
  slubviz replay talk.slubviz
  slubviz replay talk.slubviz --to 12000
  slubviz replay talk.slubviz --json --csv cells.csv
"""

_ANOTHER_RUN = 1
_HIGHEST_POSITION = 1 << 50


@click.command(epilog=_EXAMPLES, short_help="Run a session file again and show its cursor.")
@click.argument("file", metavar="FILE")
@click.option("--to", "to", default=None, metavar="N", help="Go to micro-op N of the cursor's branch.")
@click.option("--csv", default=None, metavar="FILE", help="Write the results measured until there as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def replay(file: str, to: str | None, csv: str | None, as_json: bool) -> None:
    """Run the session in FILE again and print the state at its cursor.

    The exit code is 1 if it is not the run that was saved, for example because another version of slubviz
    saved it; the text says what differs.
    """
    position = None if to is None else selection.parse_count(to, "--to", 0, _HIGHEST_POSITION)
    if csv is not None:
        check_writable([csv], inputs=[file])
    from slubviz.model.scenarios.job import scenario_session
    from slubviz.model.travel.session_file import load_session  # loads the engine

    with _share_reporter() as report:
        loaded = load_session(file, progress=report, scenario_session=scenario_session)
    if position is not None:
        _go_to(loaded.recording, position)
    if csv is not None:
        write_atomic(csv, runs_csv(loaded.recording.session.results))
    found = description(loaded)
    sys.stdout.write(f"{json.dumps(found, indent=2)}\n" if as_json else as_text(found))
    if loaded.mismatch:
        raise click.exceptions.Exit(_ANOTHER_RUN)


def _go_to(recording: Recording, position: int) -> None:
    recording.seek(position)
    if recording.position != position:
        raise RequestError(
            f"--to {position}: the run ends at micro-op {recording.position} of branch "
            f"{recording.branch.number}; give a position up to there"
        )


@contextmanager
def _share_reporter() -> Iterator[Callable[[float], None] | None]:
    """A function to call with the done share, or None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("replaying"), BarColumn(bar_width=None), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replaying", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def record_first(request: RunRequest, path: str) -> None:
    """Run the first boot of a request from start to end and save it as a session file.

    Raises
    ------
    UserError
        If it cannot be run or saved.
    """
    from slubviz.model.requests import session_specs
    from slubviz.model.session import Session
    from slubviz.model.travel.recording import Recording
    from slubviz.model.travel.session_file import save_session

    recording = Recording(Session(session_specs(request)[0]))
    recording.boot()
    while not recording.over:
        recording.run(_HIGHEST_POSITION)
    recording.seek(0)
    save_session(recording, path)


# --- what there is -----------------------------------------------------------------------------------------


def description(loaded: LoadedSession) -> dict[str, Any]:
    """Everything that is printed, as plain values."""
    recording, file = loaded.recording, loaded.file
    session = recording.session
    picture = session.snapshot()
    return {
        "saved_by": file.version,
        "same_run": loaded.mismatch is None,
        "mismatch": loaded.mismatch,
        "notes": list(loaded.notes),
        "machine": session.machine_spec.name,
        "machine_cpus": session.machine_spec.cpus,
        "kernel": session.variant.name,
        "scenario": bool(file.scenario),
        "tests": list(session.spec.asked_tests),
        "ops": session.spec.ops,
        "seed": session.spec.seed,
        "options": dict(session.spec.options),
        "branch": recording.branch.number,
        "position": recording.position,
        "clock_cycles": picture.clock_cycles,
        "trace_hash": f"{recording.trace_hash & 0xFFFFFFFFFFFFFFFF:016x}",
        "phase": _phase_text(picture.phase),
        "finished": picture.finished,
        "fault": picture.fault,
        "cpus": [_cpu(cpu) for cpu in picture.cpus],
        "locks": [_lock(lock) for lock in picture.locks],
        "branches": [_branch(branch) for branch in recording.branches],
        "bookmarks": [vars(mark) for mark in recording.bookmarks],
        "breakpoints": list(file.breakpoints),
        "watches": list(file.watches),
    }


def _phase_text(phase: PhaseView | None) -> str:
    if phase is None:
        return ""
    size = f" of {phase.size_bytes} bytes" if phase.size_bytes else ""
    return f"test {phase.test}, {phase.operation}{size} (phase {phase.index + 1} of {phase.count})"


def _cpu(cpu: CpuView) -> dict[str, Any]:
    from slubviz.hw.isa import CpuState

    return {
        "cpu": cpu.number,
        "node": cpu.node,
        "state": CpuState(cpu.state).name.lower().replace("_", " "),
        "clock_cycles": cpu.clock_cycles,
        "interrupts_enabled": cpu.interrupts_enabled,
        "preempt_count": cpu.preempt_count,
        "interrupt_depth": cpu.interrupt_depth,
        "waits_for": cpu.waits_for,
        "next": cpu.micro_op_text,
        "call_stack": [
            {
                "function": frame.function,
                "file": frame.file,
                "line": frame.line,
                "interrupt": frame.interrupt,
            }
            for frame in cpu.frames
        ],
    }


def _lock(lock: LockView) -> dict[str, Any]:
    return {
        "name": lock.name,
        "holder": lock.holder if lock.holder >= 0 else None,
        "held_since_cycles": lock.held_since_cycles,
        "waiters": list(lock.waiters),
    }


def _branch(branch: Branch) -> dict[str, Any]:
    return {
        "number": branch.number,
        "name": branch.name,
        "parent": branch.parent,
        "fork_position": branch.fork_position,
        "end": branch.end,
        "changes": [{"position": change.position, "text": change.what.text()} for change in branch.changes],
    }


# --- as text -----------------------------------------------------------------------------------------------


def as_text(found: dict[str, Any]) -> str:
    """The description for people."""
    lines = [*_heading(found), "", "CPUs:"]
    for cpu in found["cpus"]:
        lines += _cpu_lines(cpu)
    lines += _listed("locks in use:", [_lock_line(lock) for lock in found["locks"]])
    lines += _listed("branches:", [line for branch in found["branches"] for line in _branch_lines(branch)])
    lines += _listed("bookmarks:", [line for mark in found["bookmarks"] for line in _bookmark_lines(mark)])
    lines += _listed("breakpoints:", found["breakpoints"])
    lines += _listed("watches:", found["watches"])
    return "\n".join(lines) + "\n"


def _heading(found: dict[str, Any]) -> list[str]:
    options = "".join(f", {name}={value}" for name, value in found["options"].items())
    cpus = _counted(found["machine_cpus"], "CPU")
    tests = f"test {', '.join(found['tests'])}, {_counted(found['ops'], 'operation')} per CPU"
    runs = "the program of a scenario" if found["scenario"] else tests
    where = f"branch {found['branch']}, micro-op {found['position']:,}, cycle {found['clock_cycles']:,.1f}"
    now = "finished" if found["finished"] else found["phase"]
    return [
        f"machine {found['machine']} with {cpus}, kernel {found['kernel']}, {runs}, "
        f"seed {found['seed']}{options}",
        found["mismatch"] or "the same run as the saved one: every hash agrees",
        *found["notes"],
        f"{where}: {now}" if now else where,
        *([f"the kernel program failed: {found['fault']}"] if found["fault"] else []),
    ]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _listed(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _cpu_lines(cpu: dict[str, Any]) -> list[str]:
    facts = [
        cpu["state"] + (f" ({cpu['waits_for']})" if cpu["waits_for"] else ""),
        f"cycle {cpu['clock_cycles']:,.1f}",
        f"interrupts {'on' if cpu['interrupts_enabled'] else 'off'}",
        f"preempt count {cpu['preempt_count']}",
    ]
    lines = [f"  CPU {cpu['cpu']} on node {cpu['node']}: {', '.join(facts)}"]
    level = 0
    for frame in cpu["call_stack"]:
        level += frame["interrupt"]
        mark = "interrupt: " if frame["interrupt"] else ""
        indent = "  " * (2 + level)
        lines.append(f"{indent}{mark}{frame['function']} ({frame['file']}:{frame['line']})")
    if cpu["next"]:
        lines.append(f"{'  ' * (2 + level)}next: {cpu['next']}")
    return lines


def _lock_line(lock: dict[str, Any]) -> str:
    held = "free" if lock["holder"] is None else f"held by CPU {lock['holder']}"
    if lock["holder"] is not None:
        held += f" since cycle {lock['held_since_cycles']:,.1f}"
    waiters = ", ".join(f"CPU {cpu}" for cpu in lock["waiters"])
    return f"{lock['name']}: {held}" + (f"; waiting: {waiters}" if waiters else "")


def _branch_lines(branch: dict[str, Any]) -> list[str]:
    origin = ""
    if branch["parent"] is not None:
        origin = f", from branch {branch['parent']} at micro-op {branch['fork_position']:,}"
    head = f"{branch['number']} {branch['name']}{origin}, until micro-op {branch['end']:,}"
    return [head, *(f"  {change['position']:,}: {change['text']}" for change in branch["changes"])]


def _bookmark_lines(mark: dict[str, Any]) -> list[str]:
    head = f"{mark['name']}: branch {mark['branch']}, micro-op {mark['position']:,}"
    return [head, *(f"  {line}" for line in mark["note"].splitlines())]
