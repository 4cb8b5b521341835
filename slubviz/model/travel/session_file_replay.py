"""Runs the content of a session file again, and says whether it is the same run.

The kernel of the file is the built-in one of that name if its text is the same, else the text in the file;
so is the machine.  Branches are made again in their order, each with its changes; the hashes at their ends
and at the cursor show whether everything happened again.  Where it did not, what can be reached is kept.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from slubviz import __version__
from slubviz.hw import layout as L
from slubviz.model.errors import UserError, unknown_name
from slubviz.model.kernel_source import allocator_text
from slubviz.model.kernels import KernelVariant, load_kernel
from slubviz.model.machines import load_machine, machine_files
from slubviz.model.requests import SessionSpec
from slubviz.model.session import Session
from slubviz.model.travel.changes import Change, Inject, Migrate, SetOption, WriteRegister
from slubviz.model.travel.recording import DEFAULT_BUDGET_BYTES, Recording
from slubviz.model.travel.session_file_format import Proof, SessionFile, plain_text, sha256
from slubviz.model.travel.session_file_reader import SessionFileError

#: From the text of a scenario and a request to the session that runs it.
SessionMaker = Callable[[str, SessionSpec], Session]

#: Where the messages of a failure name the program of a scenario.
_SCENARIO_FILE = re.compile(r"[^\s:]+\.scenario:")

#: Words of the header that tell how the machine was stopped last, not where it is.
_NOT_OF_THE_MOMENT = (L.H_STATUS, L.H_SKIP_BREAK)


_CANCELLED = "opening the session was cancelled"


class LoadCancelled(UserError):
    """The user has ended the loading of a session."""


class _OtherRun(Exception):
    """The run takes another way than the one that was saved; says where."""


@dataclass(frozen=True)
class LoadedSession:
    """A session from a file, at its cursor."""

    recording: Recording
    file: SessionFile
    mismatch: str | None  #: why it is not the run that was saved; None if it is
    notes: tuple[str, ...]  #: what is not as it is in this slubviz, though the run is the same

    @property
    def spec(self) -> SessionSpec:
        """The request that the session was made of."""
        return self.recording.session.spec


# --- hashes -------------------------------------------------------------------------------------------


def proof_of(session: Session) -> Proof:
    """Hashes of a session at this moment, whichever way it was reached."""
    machine = session.machine
    header = machine.state[: L.HEADER_WORDS].copy()
    header[list(_NOT_OF_THE_MOMENT)] = 0
    digest = hashlib.sha256(header.data)
    digest.update(machine.state[L.HEADER_WORDS :].data)
    return Proof(f"{machine.trace_hash & 0xFFFFFFFFFFFFFFFF:016x}", digest.hexdigest())


def other_programs_hash(session: Session, handler_files: Sequence[str]) -> str:
    """SHA-256 of every program of a session that a file does not hold: page allocator, workloads."""
    sources = session.booted.program.sources
    own = {*allocator_files(session.variant), *handler_files}
    # Without names: the program of a scenario has another one when it comes from a session file.
    return sha256("\n".join(sorted(text for name, text in sources.items() if name not in own)))


def fault_text(session: Session) -> str:
    """How the kernel program failed, "" if it did not, in words that do not depend on a scenario's name."""
    return _SCENARIO_FILE.sub("scenario:", plain_text(session.fault))


def allocator_files(variant: KernelVariant) -> list[str]:
    """Names of the files of the allocator in a program."""
    if variant.user_file:
        return [variant.user_file.name]
    return [name.rpartition("/")[2] for name in variant.files]


# --- what to run -----------------------------------------------------------------------------------------


def request_of(file: SessionFile) -> tuple[SessionSpec, tuple[str, ...]]:
    """The request that a file stands for, and notes on what it brings along.

    Raises
    ------
    SessionFileError
        If its machine or kernel is wrong.
    """
    machine_text, machine_note = _machine_text(file)
    kernel_text, kernel_note = _kernel_text(file)
    workload = file.workload
    spec = SessionSpec(
        machine=file.machine.name,
        kernel=file.kernel.name,
        test=workload.test,
        sizes=workload.sizes,
        ops=workload.ops,
        seed=workload.seed,
        cpus=file.machine.cpus,
        options=dict(workload.options),
        warm_up=workload.warm_up,
        check=workload.check,
        tests=workload.tests,
        objects=workload.objects,
        machine_text=machine_text,
        kernel_text=kernel_text,
        handlers=file.handlers,
        handler_texts=tuple((handler.name, handler.text) for handler in file.handler_files),
    )
    return spec, tuple(note for note in (machine_note, kernel_note) if note)


def _machine_text(file: SessionFile) -> tuple[str, str]:
    """The text to use in the place of the machine's name, "" if the name will do; and a note."""
    name, cpus = file.machine.name, file.machine.cpus
    with _at("machine"):
        saved = load_machine(name, cpus, file.machine.text)
    if name not in machine_files():
        return file.machine.text, ""
    try:
        if load_machine(name, cpus) == saved:
            return "", ""
    except UserError:
        pass
    return file.machine.text, f"machine {name} has changed since: the one in the file is used"


def _kernel_text(file: SessionFile) -> tuple[str, str]:
    name, text = file.kernel.name, file.kernel.text
    with _at("kernel"):
        load_kernel(name, text)
    if name.partition("[")[0].endswith(".py"):
        return text, ""
    try:
        if sha256(allocator_text(load_kernel(name))) == file.kernel.sha256:
            return "", ""
    except UserError:
        pass
    return text, f"kernel {name} has changed since: the program in the file is used"


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Let errors from inside name the place in the file."""
    try:
        yield
    except SessionFileError:
        raise
    except UserError as error:
        raise SessionFileError(f"{place}: {error}") from error


# --- running it ------------------------------------------------------------------------------------------


def replay(
    file: SessionFile,
    stop: threading.Event | None = None,
    progress: Callable[[float], None] | None = None,
    *,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
    scenario_session: SessionMaker | None = None,
) -> LoadedSession:
    """Run a session again; parameters, result and errors as ``session_file.load_session``."""
    spec, notes = request_of(file)
    with _at("workload"):
        make = scenario_session or _scenario_session
        session = make(file.scenario, spec) if file.scenario else Session(spec)
    recording = Recording(session, budget_bytes)
    try:
        with _at("kernel"):
            recording.boot()
        _check_changes(file, session)
        mismatch = _Rebuilding(file, recording, stop, progress).run()
    except (MemoryError, OSError) as error:  # OSError: what mmap raises
        raise SessionFileError(
            "machine: this computer has no memory for the run; its size comes from the CPUs and operations"
        ) from error
    return LoadedSession(recording, file, mismatch, notes)


def _scenario_session(text: str, spec: SessionSpec) -> Session:
    from slubviz.model.scenarios.job import scenario_session  # which builds on recordings

    return scenario_session(text, spec)


def _check_changes(file: SessionFile, session: Session) -> None:
    """Refuse changes that no run of this machine and program can take."""
    for number, branch in enumerate(file.branches):
        for i, change in enumerate(branch.changes):
            _check_change(change, session, f"branches[{number}].changes[{i}]")


def _check_change(change: Change, session: Session, place: str) -> None:
    what, program = change.what, session.booted.program
    cpus = session.machine_spec.cpus
    numbers: dict[str, int] = {}
    if isinstance(what, (Inject, WriteRegister, Migrate)):
        numbers["cpu"] = what.cpu
    if isinstance(what, Migrate):
        numbers["to_cpu"] = what.to_cpu
    for key, cpu in numbers.items():
        if cpu >= cpus:
            has = f"CPUs 0 to {cpus - 1}" if cpus > 1 else "CPU 0 alone"
            raise SessionFileError(f"{place}.{key}: {cpu} does not exist; the machine has {has}")
    if isinstance(what, Inject):
        known = {function.name: function for function in program.functions if not function.inline}
        if what.handler not in known:
            raise SessionFileError(f"{place}.handler: {unknown_name('handler', what.handler, known)}")
        takes = len(known[what.handler].params)
        if takes != len(what.arguments):
            raise SessionFileError(
                f"{place}.arguments: are {len(what.arguments)}; {what.handler} takes {takes}"
            )
    if isinstance(what, SetOption) and what.name not in program.options:
        raise SessionFileError(f"{place}.name: {unknown_name('option', what.name, program.options)}")


class _Rebuilding:
    """Makes the branches of a file again in a recording that has just been booted."""

    def __init__(
        self,
        file: SessionFile,
        recording: Recording,
        stop: threading.Event | None,
        progress: Callable[[float], None] | None,
    ) -> None:
        self._file = file
        self._recording = recording
        self._stop = stop
        self._progress = progress
        self._done = 0
        self._total = file.cursor.position + sum(b.end - b.fork_position for b in file.branches)
        self._first_difference = ""

    def run(self) -> str | None:
        """Make everything; returns what differs."""
        file, recording = self._file, self._recording
        made = 0
        try:
            for number in range(len(file.branches)):
                self._make(number)
                made += 1
        except _OtherRun as other:
            self._note(f"{other}; what follows it is left out")
        known = recording.branches
        recording.bookmarks = [mark for mark in file.bookmarks if mark.branch < len(known)]
        self._to_cursor()
        if not self._first_difference:
            return None
        return f"this is not the run that was saved: {self._first_difference}. {self._reason()}"

    def _make(self, number: int) -> None:
        recording, saved = self._recording, self._file.branches[number]
        place = f"branches[{number}]"
        if saved.parent is not None and not recording.switch(
            saved.parent, saved.fork_position, stop=self._stop
        ):
            raise LoadCancelled(_CANCELLED)
        for i, change in enumerate(saved.changes):
            self._advance(change.position, f"{place}.changes[{i}].position")
            self._change(change, f"{place}.changes[{i}]", forks=number > 0 and i == 0)
        recording.rename(number, saved.name)
        self._advance(saved.end, f"{place}.end")
        if saved.fault:
            recording.run(1)
        if fault_text(recording.session) != saved.fault:
            now = recording.session.fault or "the kernel program does not fail"
            self._note(f"at the end of branch {number}: {now}")
        self._compare(saved.proof, f"at the end of branch {number}")

    def _change(self, change: Change, place: str, *, forks: bool) -> None:
        recording = self._recording
        failed = bool(recording.session.fault)
        if (failed or recording.position < recording.end) != forks:
            raise _OtherRun(
                f"{place} meets {'a failed' if failed else 'another'} run at micro-op {change.position:,}"
            )
        try:
            recording.change(change.what)
        except UserError as error:  # a change that is impossible there, or an option without that value
            raise _OtherRun(f"{place} cannot be made: {error}") from error

    def _advance(self, position: int, place: str) -> None:
        recording = self._recording
        first = recording.position

        def report(share: float) -> None:
            if self._progress:
                done = self._done + share * (position - first)
                self._progress(min(1.0, done / max(self._total, 1)))

        if not recording.seek(position, stop=self._stop, progress=report, prepare=False):
            raise LoadCancelled(_CANCELLED)
        self._done += max(0, recording.position - first)
        if recording.position != position:
            how = "fails" if recording.session.fault else "ends"
            raise _OtherRun(
                f"{place}: {position:,} is never reached, the run {how} at {recording.position:,}"
            )

    def _to_cursor(self) -> None:
        recording, cursor = self._recording, self._file.cursor
        if cursor.branch >= len(recording.branches):
            recording.switch(len(recording.branches) - 1)
            return
        recording.switch(cursor.branch, min(cursor.position, recording.branches[cursor.branch].end))
        self._compare(cursor.proof, "at the cursor")

    def _compare(self, saved: Proof, where: str) -> None:
        found = proof_of(self._recording.session)
        position = self._recording.position
        if found.trace_hash != saved.trace_hash:
            self._note(
                f"{where}, micro-op {position:,}, the trace is {found.trace_hash}, it was {saved.trace_hash}"
            )
        elif found != saved:
            self._note(f"{where}, micro-op {position:,}, the machine is in another state")

    def _note(self, difference: str) -> None:
        self._first_difference = self._first_difference or difference

    def _reason(self) -> str:
        """What may be the cause, as far as the file tells."""
        file, session = self._file, self._recording.session
        reasons = []
        if file.version != __version__:
            reasons.append(f"slubviz {file.version} saved it and this is {__version__}")
        now = other_programs_hash(session, [handler.name for handler in file.handler_files])
        if now != file.other_programs:
            reasons.append("the page allocator or the workloads have changed since")
        if not reasons:
            return "Nothing that the file names has changed since: it may have been edited"
        text = " and ".join(reasons)
        return text[0].upper() + text[1:]
