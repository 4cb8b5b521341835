"""Makes the session of a scenario: its machine and kernel with the edits, its program as the one phase.

Nothing runs here, and nothing needs the engine but ``session_of``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from slubviz.model.assets import program_folder
from slubviz.model.errors import UserError, quoted, unknown_name
from slubviz.model.lang import KernelLanguageError, Program, SourceFile
from slubviz.model.requests import SessionJob, SessionSpec, compile_kernel, session_job
from slubviz.model.scenarios.files import parse_scenario
from slubviz.model.scenarios.scenario import Beside, Edit, Scenario
from slubviz.model.workload import Phase, Start

if TYPE_CHECKING:
    from slubviz.model.session import Session

#: Objects per CPU that the functions of the tests can keep, for programs that call them.
OBJECTS_PER_CPU = 256
#: The name under which the program of any scenario is shown; breakpoints are kept by it.
PROGRAM_FILE = "program.scenario"
_PLACES_FILE = "scenario_objects.py"
TEST = "scenario"


def scenario_spec(scenario: Scenario, beside: Beside | None = None) -> SessionSpec:
    """The request for a scenario's session, or for the one beside it."""
    options = dict(scenario.options)
    kernel = scenario.kernel
    if beside:
        # Options of another kernel are its own; those of the same kernel are changed.
        options = dict(beside.options) if beside.kernel else {**options, **beside.options}
        kernel = beside.kernel or kernel
    return SessionSpec(
        machine=scenario.machine,
        kernel=kernel,
        test="A",
        sizes=(scenario.size_bytes,),
        ops=OBJECTS_PER_CPU,
        seed=scenario.seed,
        cpus=scenario.cpus,
        options=options,
        handlers=True,
    )


def scenario_job(scenario: Scenario, spec: SessionSpec | None = None, *, edits: bool = True) -> SessionJob:
    """The checked job of a scenario.

    Parameters
    ----------
    spec : the request, ``scenario_spec`` by default; another machine or kernel, e.g. from a session file
    edits : whether to make the scenario's edits

    Raises
    ------
    UserError
        If the kernel has no such options or a text to edit is not there exactly once.
    """
    try:
        job = session_job(spec or scenario_spec(scenario))
    except UserError as error:
        raise scenario.fail("", str(error)) from error
    own = SourceFile(PROGRAM_FILE, scenario.program)
    places = (program_folder("workloads") / _PLACES_FILE).read_text(encoding="utf-8")
    starts = tuple(Start(start.cpu, start.function, start.arguments) for start in scenario.starts)
    phase = Phase(TEST, scenario.name, scenario.size_bytes, False, starts, len(starts), 1)
    return replace(
        job,
        phases=(phase,),
        programs=(SourceFile(_PLACES_FILE, places), own),
        edited=_edited(scenario, job) if edits else {},
    )


def _edited(scenario: Scenario, job: SessionJob) -> Mapping[str, str]:
    """File -> its text after all edits, which are made one after the other."""
    texts = {source.name: source.text for source in job.variant.sources()}
    originals = dict(texts)
    for number, edit in enumerate(scenario.edits, 1):
        file = _edited_file(scenario, edit, number, texts, whole_file=job.variant.user_file is not None)
        texts[file] = texts[file].replace(edit.find, edit.replace)
    return {file: text for file, text in texts.items() if text != originals[file]}


def _edited_file(
    scenario: Scenario, edit: Edit, number: int, texts: Mapping[str, str], *, whole_file: bool
) -> str:
    place = f"[[edit]] {number}"
    # A kernel that is one file has all texts in that.
    if edit.file and edit.file not in texts and not whole_file:
        known = ", ".join(texts)
        raise scenario.fail(
            place, f"kernel {scenario.kernel} has no file {quoted(edit.file)} (it has {known})"
        )
    searched = [edit.file] if edit.file in texts else list(texts)
    counts = {file: texts[file].count(edit.find) for file in searched}
    total = sum(counts.values())
    where = edit.file or f"the files of kernel {scenario.kernel}"
    if total != 1:
        first = next(line for line in edit.find.splitlines() if line.strip())
        what = "is not there" if total == 0 else f"is there {total} times"
        raise scenario.fail(
            place,
            f"find must be in {where} exactly once, with its indentation; {quoted(first.strip())} {what}",
        )
    return next(file for file, count in counts.items() if count)


def compile_scenario(scenario: Scenario, job: SessionJob) -> Program:
    """The program of a job; complaints about the scenario's program name the line of its file.

    Raises
    ------
    UserError
        If it does not compile, or a CPU or interrupt is to run what is no function, with other arguments.
    """
    try:
        program = compile_kernel(job)
    except KernelLanguageError as error:
        raise told_for(scenario, error) from error
    check_calls(scenario, program)
    return program


def check_calls(scenario: Scenario, program: Program) -> None:
    """Refuse CPUs and interrupts that are to run what is no function, or with other arguments."""
    for number, start in enumerate(scenario.starts, 1):
        _check_call(scenario, program, f"[[cpu]] {number}, run", start.function, len(start.arguments))
    for strike in scenario.strikes:
        if strike.to_cpu is None:
            _check_call(scenario, program, f"{strike.place}, handler", strike.handler, len(strike.arguments))


def line_in_file(scenario: Scenario, line: int) -> int:
    """The line of the scenario file of a line of its program."""
    return scenario.program_line + line - 1


def told_for(scenario: Scenario, error: KernelLanguageError) -> UserError:
    """An error of the compiler with the line of the scenario file, if it is in its program."""
    if error.file == PROGRAM_FILE:
        text = str(error).partition(": ")[2]
        return scenario.fail(f"line {line_in_file(scenario, error.line)}, in program", text)
    if scenario.edits and error.line:
        return scenario.fail("", f"the kernel does not compile with the edits: {error}")
    return scenario.fail("", str(error))


def _check_call(scenario: Scenario, program: Program, place: str, name: str, arguments: int) -> None:
    known = [function.name for function in program.functions if not function.inline]
    if name not in known:
        own = [f.name for f in program.functions if f.file == PROGRAM_FILE and not f.inline]
        near = str(unknown_name("function", name, known)).partition(" (known")[0]
        raise scenario.fail(place, f"{near} (functions of the program: {', '.join(own) or 'none'})")
    params = program.function(name).params
    if len(params) != arguments:
        takes = f"takes ({', '.join(params)})" if params else "takes no arguments"
        raise scenario.fail(place, f"{name} {takes}; {arguments} arguments are given")


def session_of(scenario: Scenario, spec: SessionSpec | None = None, *, edits: bool = True) -> Session:
    """The session of a scenario, not booted and not compiled; see ``boot_told``.

    Raises
    ------
    UserError
        As ``scenario_job``.
    """
    from slubviz.model.session import Session

    spec = spec or scenario_spec(scenario)
    return Session(spec, job=scenario_job(scenario, spec, edits=edits))


def scenario_session(text: str, spec: SessionSpec) -> Session:
    """The session of a scenario that a session file holds: from the scenario's text and a request.

    Raises
    ------
    UserError
        If the text is no scenario, or does not fit the kernel of the request.
    """
    scenario = parse_scenario(text, TEST, "the scenario in the file")
    session = session_of(scenario, spec)
    compile_scenario(scenario, session.job)
    return session


def boot_told(scenario: Scenario, session: Session, boot: Callable[[], None]) -> None:
    """Boot a scenario's session; what is wrong with the scenario's program is told with its line.

    Raises
    ------
    UserError
        If it does not compile, or a CPU or interrupt is to run what is no function, with other arguments.
    """
    try:
        boot()
    except KernelLanguageError as error:
        raise told_for(scenario, error) from error
    except UserError as error:
        raise scenario.fail("", str(error)) from error
    except KeyError:  # a CPU is to run what is no function
        compile_scenario(scenario, session.job)
        raise
    check_calls(scenario, session.booted.program)
