"""Changes from outside to a running session: interrupts, edits, a task that moves to another CPU.

A run is a function of what it was started with and of its changes, each at a position: the number of
micro-ops that all CPUs have executed.  So a change is all that a recording, a session file or a scenario
needs to keep of it.  A change says what is to happen, not how the machine does it; ``apply`` does it to the
session as it is at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slubviz.model.errors import UserError, unknown_name

if TYPE_CHECKING:
    from slubviz.model.lang import Function, Program
    from slubviz.model.session import Session


class ChangeError(UserError):
    """A change cannot be made at this moment; says why."""


@dataclass(frozen=True)
class Inject:
    """An interrupt now, or a source of interrupts from now on.

    With ``period_cycles`` the interrupt comes again and again, each time after the period and a random part
    of ``spread_cycles`` (the same for the same ``seed``), ``count`` times in all, endlessly for 0.
    """

    cpu: int
    handler: str
    arguments: tuple[int, ...] = ()
    period_cycles: float = 0.0
    spread_cycles: float = 0.0
    seed: int = 0
    count: int = 1

    def apply(self, session: Session) -> None:
        """Schedule it.

        Raises
        ------
        ChangeError
            For a CPU or handler that does not exist, wrong arguments, or too many pending interrupts.
        """
        from slubviz.hw.machine import MachineError

        _check_cpu(session, self.cpu)
        function = _handler(session.booted.program, self.handler, self.arguments)
        try:
            session.machine.inject(
                self.cpu,
                function.index,
                self.arguments,
                period_cycles=self.period_cycles,
                spread_cycles=self.spread_cycles,
                seed=self.seed,
                count=self.count,
            )
        except MachineError as error:
            raise ChangeError(str(error)) from error

    def text(self) -> str:
        """One line."""
        arguments = ", ".join(str(value) for value in self.arguments)
        call = f"interrupt on CPU {self.cpu}: {self.handler}({arguments})"
        if not self.period_cycles:
            return call
        spread = f" to {self.period_cycles + self.spread_cycles:g}" if self.spread_cycles else ""
        times = f", {self.count} times" if self.count else ""
        return f"{call} every {self.period_cycles:g}{spread} cycles{times}"


@dataclass(frozen=True)
class WriteWord:
    """Another value in memory, without cost and without waking anybody."""

    address: int
    value: int
    size_bytes: int = 8

    def apply(self, session: Session) -> None:
        """Write it.

        Raises
        ------
        ChangeError
            If nothing is stored there.
        """
        from slubviz.hw.machine import MachineError

        low, high = (-(1 << 63), 1 << 63) if self.size_bytes == 8 else (-(1 << 31), 1 << 32)
        if self.size_bytes not in (4, 8) or not low <= self.value < high:
            raise ChangeError(f"{self.value} does not fit a word of {self.size_bytes} bytes (4 and 8 exist)")
        try:
            session.machine.write(self.address, self.value, self.size_bytes)
        except (MachineError, OverflowError) as error:
            raise ChangeError(str(error)) from error

    def text(self) -> str:
        """One line."""
        return f"memory {self.address:#x} = {self.value:#x}"


@dataclass(frozen=True)
class WriteRegister:
    """Another value in a register of a frame; frame 0 is the innermost, inlined functions share theirs."""

    cpu: int
    frame: int
    register: int
    value: int

    def apply(self, session: Session) -> None:
        """Write it.

        Raises
        ------
        ChangeError
            If there is no such frame or register.
        """
        from slubviz.model.snapshot_builder import call_stack_windows

        _check_cpu(session, self.cpu)
        frames = call_stack_windows(session.machine, session.booted.program, self.cpu)
        if not 0 <= self.frame < len(frames):
            raise ChangeError(f"CPU {self.cpu} has {len(frames)} frames, so there is no frame {self.frame}")
        pc, window = frames[self.frame]
        function = session.booted.program.function_at(pc)
        if not 0 <= self.register < function.locals_count:
            raise ChangeError(f"{function.name} has registers 0 to {function.locals_count - 1}")
        if not -(1 << 63) <= self.value < 1 << 63:
            raise ChangeError(f"{self.value} does not fit a register of 64 bits")
        session.machine.state[window + self.register] = self.value

    def text(self) -> str:
        """One line."""
        return f"CPU {self.cpu}, frame {self.frame}: register {self.register} = {self.value:#x}"


@dataclass(frozen=True)
class SetOption:
    """Another value of an option of the kernel program, from now on.

    Only for options that are values in the program; one that chooses which code is compiled moves every
    micro-op behind it, so it needs a run of its own.
    """

    name: str
    value: int

    def apply(self, session: Session) -> None:
        """Put the program with that value in the place of the running one.

        Raises
        ------
        ChangeError
            If the program would have other code, or the same as now.
        UserError
            If there is no such option, or it cannot have that value.
        """
        from slubviz.hw.isa import F_IMM, WORDS
        from slubviz.hw.pricing import machine_code
        from slubviz.model.requests import compile_kernel

        running = session.booted.program
        if self.name not in running.options:
            raise unknown_name("option of the kernel program", self.name, running.options)
        # As they are now: options that were changed before stay so.
        options = {name: option.value for name, option in running.options.items()}
        changed = compile_kernel(replace(session.job, options={**options, self.name: self.value}))
        kept = [column for column in range(WORDS) if column != F_IMM]
        before, after = (program.code.reshape(-1, WORDS) for program in (running, changed))
        same_code = before.shape == after.shape and bool((before[:, kept] == after[:, kept]).all())
        if not same_code or running.globals != changed.globals or running.functions != changed.functions:
            raise ChangeError(
                f"{self.name} = {self.value} gives other code, which cannot take the place of running code: "
                "start a run with that option and compare the two"
            )
        if bool((before == after).all()):
            raise ChangeError(
                f"{self.name} = {self.value} changes nothing of the running code; if it is read at boot, "
                "start a run with that option and compare the two"
            )
        session.use_program(changed, machine_code(session.machine_spec, changed.code))

    def text(self) -> str:
        """One line."""
        return f"option {self.name} = {self.value}"


@dataclass(frozen=True)
class Migrate:
    """The running task of a CPU goes on on another one, which must be idle."""

    cpu: int
    to_cpu: int

    def apply(self, session: Session) -> None:
        """Move it.

        Raises
        ------
        ChangeError
            If the scheduler of a kernel could not do that now.
        """
        from slubviz.hw.machine import MachineError

        _check_cpu(session, self.cpu)
        _check_cpu(session, self.to_cpu)
        try:
            session.machine.migrate(self.cpu, self.to_cpu)
        except MachineError as error:
            raise ChangeError(str(error)) from error

    def text(self) -> str:
        """One line."""
        return f"the task of CPU {self.cpu} moves to CPU {self.to_cpu}"


What = Inject | WriteWord | WriteRegister | SetOption | Migrate


@dataclass(frozen=True)
class Change:
    """Something done to a run before the micro-op after ``position``."""

    position: int
    what: What


def _handler(program: Program, name: str, arguments: tuple[int, ...]) -> Function:
    try:
        function = program.function(name)
    except KeyError:
        raise unknown_name("handler", name, [function.name for function in program.functions]) from None
    if len(function.params) != len(arguments):
        takes = f"takes ({', '.join(function.params)})" if function.params else "takes no argument"
        raise ChangeError(f"{name} {takes}; {len(arguments)} arguments are given")
    if not all(-(1 << 63) <= value < 1 << 63 for value in arguments):
        raise ChangeError(f"an argument of {name} does not fit 64 bits")
    return function


def _check_cpu(session: Session, cpu: int) -> None:
    cpus = session.machine_spec.cpus
    if not 0 <= cpu < cpus:
        raise ChangeError(f"CPU {cpu} does not exist; this machine has CPUs 0 to {cpus - 1}")
