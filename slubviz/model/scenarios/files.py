"""Reads scenario files: those that come with slubviz, by name, and a user's own, by path.

Reading executes nothing and needs no engine.  Everything has a bound; every complaint names the file, the
table and the key.  What depends on the compiled program (functions, anchors) is checked when it is played.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from slubviz.hw.machine_file import MachineSpec
from slubviz.hw.toml_text import parse_toml
from slubviz.model.assets import assets_folder
from slubviz.model.errors import RequestError, UserError, quoted_path, unknown_name
from slubviz.model.patches import split_patches
from slubviz.model.scenarios.anchors import Anchor, AnchorError, Kind, parse_anchor
from slubviz.model.scenarios.scenario import (
    Beside,
    CpuStart,
    Edit,
    Expected,
    Focus,
    OutcomeKind,
    Relation,
    Scenario,
    ScenarioError,
    Step,
    Strike,
)
from slubviz.model.scenarios.tables import Table

FORMAT = 1
MOST_BYTES = 256 << 10
MOST_TABLES = 200
MOST_CPUS = 128
MOST_ARGUMENTS = 8
MOST_HANDLER_ARGUMENTS = 3
DEFAULT_MICRO_OPS, MOST_MICRO_OPS = 1_000_000, 20_000_000
LARGEST_SIZE_BYTES = 1 << 20
#: The order in which they are listed, as a talk would take them; others follow by name.
ORDER = (
    "life-of-a-slab",
    "four-ways-to-free",
    "partial-lists",
    "aba",
    "aba-caught",
    "null-end-marker",
    "counter-wraps",
    "small-error",
    "lost-local-objects",
    "preempt-count-drifts",
    "cpu-number-too-early",
    "abba-deadlock",
    "add-partial-after-unlock",
    "list-lock-contention",
    "remote-frees",
    "unfreeze-partials",
    "bulk-free-window",
    "bulk-alloc-and-tid",
    "three-deep-retries",
)
_PROGRAM = re.compile(r"^[ \t]*program[ \t]*=[ \t]*(\"\"\"|'''|\"|')(\r?\n)?", re.MULTILINE)


def scenario_files() -> dict[str, Path]:
    """The scenarios that come with slubviz: name -> file, in the order in which to show them."""
    folder = assets_folder() / "scenarios"
    found = {path.stem: path for path in sorted(folder.glob("*.toml"))} if folder.is_dir() else {}
    ordered = [name for name in ORDER if name in found]
    return {name: found[name] for name in [*ordered, *(name for name in found if name not in ORDER)]}


def known_scenarios() -> dict[str, str]:
    """Name and title of each scenario that comes with slubviz."""
    # Not by load_scenario, which looks for all files each time: the window asks for this while it is used.
    return {name: parse_scenario(_read(path), name).title for name, path in scenario_files().items()}


def load_scenario(path_or_name: str) -> Scenario:
    """A scenario by name, or from a file by path.

    Raises
    ------
    UserError
        If there is none of that name, or the file cannot be read or is wrong.
    """
    files = scenario_files()
    path = files.get(path_or_name)
    if path is None:
        if not (path_or_name.endswith(".toml") or "/" in path_or_name):
            raise unknown_name("scenario", path_or_name, files, "or the path of a .toml scenario file")
        path = Path(path_or_name)
    return parse_scenario(_read(path), path.stem, path.name if path_or_name in files else str(path))


def _read(path: Path) -> str:
    shown = quoted_path(path)
    try:
        if not path.is_file():
            raise RequestError(f"scenario file {shown} does not exist or is not a file")
        if path.stat().st_size > MOST_BYTES:
            raise ScenarioError(f"{shown} is too large; a scenario file has at most {MOST_BYTES:,} bytes")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{shown}: not a text file in UTF-8 (byte {error.start:,})") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ScenarioError(f"scenario file {shown} cannot be read: {reason}") from error


def parse_scenario(text: str, name: str, where: str = "") -> Scenario:
    """A scenario from the text of its file.

    Parameters
    ----------
    name : of the scenario
    where : of the file, for messages

    Raises
    ------
    ScenarioError
        One line: the file, the table and key, what is wrong, what to write.
    """
    where = where or name
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise ScenarioError(f"{where}: is too large; a scenario file has at most {MOST_BYTES:,} bytes")
    try:
        document = parse_toml(text)
    except ValueError as error:
        raise ScenarioError(f"{where}: not TOML: {str(error)[:200]}") from error
    return _Reading(Table(document, where), text, name, where).scenario()


class _Reading:
    def __init__(self, root: Table, text: str, name: str, where: str) -> None:
        self.root, self.text, self.name, self.where = root, text, name, where

    def scenario(self) -> Scenario:
        root = self.root
        version = root.integer("format", 1, 1 << 31)
        if version != FORMAT:
            raise root.fail("format", f"is {version}; this slubviz reads format {FORMAT}")
        title, summary = root.paragraph("title", 200), root.paragraph("summary", 2000)
        spec = self._machine()
        kernel, options = self._kernel()
        scenario = Scenario(
            name=self.name,
            where=self.where,
            text=self.text,
            title=title,
            summary=summary,
            machine=self._machine_name,
            cpus=spec.cpus,
            kernel=kernel,
            options=options,
            edits=self._edits(),
            size_bytes=root.integer("size", 1, LARGEST_SIZE_BYTES),
            program=root.text("program", MOST_BYTES),
            program_line=self._program_line(),
            starts=self._starts(spec),
            strikes=self._strikes(spec),
            steps=self._steps(spec),
            expected=self._expected(),
            beside=self._beside(),
            micro_op_limit=root.integer("micro_op_limit", 1, MOST_MICRO_OPS, DEFAULT_MICRO_OPS),
            seed=root.integer("seed", 0, 1 << 31, 1),
        )
        root.finish()
        return scenario

    # --- machine and kernel --------------------------------------------------------------------------
    def _machine(self) -> MachineSpec:
        from slubviz.model.machines import load_machine, machine_files  # late: loads numpy

        table = self.root.section("machine", required=True)
        self._machine_name = table.choice("name", list(machine_files()))
        cpus = table.integer("cpus", 1, MOST_CPUS) if table.has("cpus") else None
        table.finish()
        try:
            return load_machine(self._machine_name, cpus)
        except UserError as error:
            raise table.fail("cpus", str(error)) from error

    def _kernel(self) -> tuple[str, Mapping[str, int]]:
        table = self.root.section("kernel", required=True)
        name = self._kernel_name(table)
        options = table.section("options").named_integers(MOST_TABLES)
        table.finish()
        return name, options

    def _kernel_name(self, table: Table) -> str:
        from slubviz.model.kernels import KERNELS, load_kernel  # late: loads the compiler

        name = table.text("name", 100)
        try:
            plain, _ = split_patches(name)
            if plain.lower() not in KERNELS:  # no paths: a scenario is complete in itself, with its edits
                raise unknown_name("kernel", plain, KERNELS)
            load_kernel(name)
        except UserError as error:
            raise table.fail("name", str(error)) from error
        return name

    def _edits(self) -> tuple[Edit, ...]:
        return tuple(
            Edit(
                table.text("file", 100, ""),
                table.text("find", MOST_BYTES),
                table.text("replace", MOST_BYTES, "", empty=True),
            )
            for table in self.root.tables("edit", MOST_TABLES)
        )

    def _program_line(self) -> int:
        found = _PROGRAM.search(self.text)
        if not found:
            return 1
        return self.text.count("\n", 0, found.end()) + 1

    # --- what happens --------------------------------------------------------------------------------
    def _cpu(self, table: Table, key: str, spec: MachineSpec) -> int:
        return table.integer(key, 0, spec.cpus - 1)

    def _starts(self, spec: MachineSpec) -> tuple[CpuStart, ...]:
        starts: list[CpuStart] = []
        for table in self.root.tables("cpu", spec.cpus + 1):
            start = CpuStart(
                self._cpu(table, "number", spec),
                table.name("run", "the name of a function of the program"),
                table.integers("arguments", MOST_ARGUMENTS),
            )
            if any(start.cpu == other.cpu for other in starts):
                raise table.fail("number", f"CPU {start.cpu} has a table already; it runs one function")
            starts.append(start)
        if not starts:
            raise ScenarioError(f"{self.where}: nothing is executed; give at least one [[cpu]] with run")
        return tuple(starts)

    def _anchor(self, table: Table, *, strike: bool) -> Anchor:
        try:
            anchor = parse_anchor(table.text("at", 400))
        except AnchorError as error:
            raise table.fail("at", str(error)) from error
        if strike and anchor.kind in (Kind.START, Kind.END, Kind.LATER):
            raise table.fail("at", f"{anchor.text!r} is for steps; give a place in the source")
        return anchor

    def _strikes(self, spec: MachineSpec) -> tuple[Strike, ...]:
        strikes = []
        for table in self.root.tables("interrupt", MOST_TABLES):
            cpu = self._cpu(table, "cpu", spec)
            strikes.append(
                Strike(
                    cpu,
                    self._anchor(table, strike=True),
                    table.name("handler", "the name of a handler"),
                    table.integers("arguments", MOST_HANDLER_ARGUMENTS),
                    place=table.place[:-1],
                )
            )
        for table in self.root.tables("migrate", MOST_TABLES):
            cpu, to_cpu = self._cpu(table, "cpu", spec), self._cpu(table, "to", spec)
            if cpu == to_cpu:
                raise table.fail("to", f"is {to_cpu}, where the task runs; give another CPU")
            strikes.append(
                Strike(cpu, self._anchor(table, strike=True), "", (), to_cpu, place=table.place[:-1])
            )
        return tuple(strikes)

    def _steps(self, spec: MachineSpec) -> tuple[Step, ...]:
        steps = []
        for table in self.root.tables("step", MOST_TABLES):
            focus = table.choice("focus", list(Focus), "")
            steps.append(
                Step(
                    self._anchor(table, strike=False),
                    self._cpu(table, "cpu", spec) if table.has("cpu") else None,
                    table.paragraph("caption", 1000),
                    Focus(focus) if focus else None,
                    place=table.place[:-1],
                )
            )
        return tuple(steps)

    # --- what comes of it ----------------------------------------------------------------------------
    def _expected(self) -> Expected:
        table = self.root.section("outcome", required=True)
        expected = Expected(
            OutcomeKind(table.choice("kind", list(OutcomeKind))),
            table.paragraph("text", 500, ""),
            table.section("counters").named_integers(MOST_TABLES),
            table.paragraph("explanation", 3000),
        )
        table.finish()
        return expected

    def _beside(self) -> tuple[Beside, ...]:
        found = []
        for table in self.root.tables("beside", 8):
            compare = table.section("compare")
            options = table.section("options")
            found.append(
                Beside(
                    table.paragraph("title", 200),
                    self._kernel_name_or(table),
                    options.named_integers(MOST_TABLES),
                    table.flag("edits", True),
                    OutcomeKind(table.choice("kind", list(OutcomeKind))),
                    {
                        name: Relation(word)
                        for name, word in compare.named_choices(MOST_TABLES, list(Relation)).items()
                    },
                    table.paragraph("explanation", 2000, ""),
                )
            )
        return tuple(found)

    def _kernel_name_or(self, table: Table) -> str:
        """The kernel of a run beside, "" for the scenario's own."""
        if not table.has("kernel"):
            return ""
        section = Table({"name": table.text("kernel", 100)}, self.where, table.place)
        return self._kernel_name(section)
