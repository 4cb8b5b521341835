"""The frames of a CPU as a person reads them: functions, interrupts, variables with what they point to.

Inlined functions are frames of their own, though they have no window.  Left out: temporaries, and the values
that variables had before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from slubviz.hw import layout as L
from slubviz.hw.injection import PendingInterrupt, pending_interrupts
from slubviz.hw.isa import F_A, F_OP, FRAME_KIND, FRAME_SAVED, KIND_INTERRUPT, WORDS, CpuState, Op
from slubviz.model.booted import BootedKernel
from slubviz.model.lang import Program, disassemble
from slubviz.model.lang.program import Function, Variable
from slubviz.model.snapshot import SourceSpan
from slubviz.model.snapshot_builder import call_stack_windows
from slubviz.model.symbols import lock_name
from slubviz.model.travel.places import PlaceKind, place_of

if TYPE_CHECKING:
    from slubviz.model.session import Session

#: How often the preempt count counts an interrupt.
INTERRUPT_SHARE = 65536


@dataclass(frozen=True)
class VariableValue:
    """A parameter or local variable that is live."""

    name: str
    type: str  #: as written in the program, "ptr[page]"; "int" for a computed number
    value: int  #: signed, 64 bits
    text: str  #: for people: "-3", "NULL", "page of pfn 812", "object 3 of slab 812"
    register: int | None  #: register of the frame's window, for a change; None if it is in none
    address: int | None = None  #: what can be inspected there; None if the value leads to nothing known


@dataclass(frozen=True)
class Frame:
    """One frame.  An inlined function is a frame of its own, in the window of the one before it."""

    function: str
    file: str
    line: int  #: where it goes on, or the call or interrupted expression in it, from 1
    span: SourceSpan
    level: int  #: interrupts it is inside of: 0 the task, 1 the first interrupt's handler, ...
    interrupt: bool  #: an interrupt pushed it
    inlined: bool
    variables: tuple[VariableValue, ...]
    saved_irq_enabled: bool | None  #: of an interrupt's frame: whether interrupts were on; else None
    interrupted: bool = False  #: an interrupt came before this expression: the next frame is a handler's


@dataclass(frozen=True)
class CallStackView:
    """What one CPU does at one moment."""

    cpu: int
    state_text: str  #: "idle", "runs", "waits for list_lock kmalloc-64, held by CPU 2, for 310 cycles"
    irq_enabled: bool
    preempt_count: int  #: without the share of interrupts
    depth: int  #: interrupts that have not returned
    pending: tuple[str, ...]  #: interrupts that are to come on this CPU, the next one first
    frames: tuple[Frame, ...]  #: outermost first; none when idle
    clock_cycles: float = 0.0
    held_locks: tuple[str, ...] = ()  #: names, in the order in which they were taken
    micro_op_text: str = ""  #: the micro-op that executes next, readable
    next: bool = False  #: this CPU executes the next micro-op of the machine


def call_stack(session: Session, cpu: int) -> CallStackView:
    """The call stack of a CPU at the cursor.

    Raises
    ------
    MachineError
        If there is no such CPU.
    """
    machine, kernel = session.machine, session.booted
    pc, depth = machine.cpu_word(cpu, L.C_PC), machine.cpu_word(cpu, L.C_IRQ_DEPTH)
    runs = 0 <= pc < kernel.program.micro_ops
    return CallStackView(
        cpu=cpu,
        state_text=state_text(kernel, cpu),
        irq_enabled=bool(machine.cpu_word(cpu, L.C_IRQ_ENABLED)),
        preempt_count=machine.cpu_word(cpu, L.C_PREEMPT) - depth * INTERRUPT_SHARE,
        depth=depth,
        pending=tuple(_pending_texts(kernel, cpu)),
        frames=tuple(_frames(kernel, cpu)),
        clock_cycles=machine.cpu_word(cpu, L.C_CLOCK) / L.MILLI,
        held_locks=tuple(lock_name(kernel, address) for address, _ in held_locks(kernel, cpu)),
        micro_op_text=disassemble(kernel.program, pc) if runs else "",
        next=not session.finished and not session.fault and cpu == next_cpu(kernel),
    )


def next_cpu(kernel: BootedKernel) -> int:
    """The CPU that executes the next micro-op; -1 if nobody can."""
    state = kernel.machine.state
    cpu = int(state[state[L.H_TREE] + 1])
    return cpu if state[state[L.H_KEYS] + cpu] < L.NEVER else -1


# --- what a CPU does ---------------------------------------------------------------------------------
def state_text(kernel: BootedKernel, cpu: int) -> str:
    """What a CPU does and, if it waits, for what, for whom and since when."""
    machine = kernel.machine
    state = machine.cpu_word(cpu, L.C_STATE)
    if state == CpuState.HALTED:
        return "idle"
    if state == CpuState.WAITING_LOCK:
        return f"waits for {_wait_text(kernel, cpu)}"
    if state == CpuState.WAITING_RENDEZVOUS:
        there, wanted = int(machine.state[L.H_RENDEZVOUS]), int(machine.state[L.H_STARTED])
        return f"waits for the other CPUs: {there} of {wanted} are there"
    if machine.cpu_word(cpu, L.C_CONTENDED):
        return "runs, and tries to take a lock that was found taken"
    return "runs"


def _wait_text(kernel: BootedKernel, cpu: int) -> str:
    machine = kernel.machine
    address = machine.cpu_word(cpu, L.C_WAIT_ADDRESS)
    cycles = max(0, _now(kernel, cpu) - machine.cpu_word(cpu, L.C_WAIT_SINCE)) // L.MILLI
    holder = lock_holder(kernel, address)
    held = f", held by CPU {holder}" if holder >= 0 else ", which is free again"
    return f"{lock_name(kernel, address)}{held}, for {cycles:,} cycles"


def _now(kernel: BootedKernel, cpu: int) -> int:
    """Millicycles: a CPU's clock; one that does not run is at least where the CPU is that is next."""
    machine = kernel.machine
    own = machine.cpu_word(cpu, L.C_CLOCK)
    if machine.cpu_word(cpu, L.C_STATE) == CpuState.RUNNING:
        return own
    following = next_cpu(kernel)
    return own if following < 0 else max(own, machine.cpu_word(following, L.C_CLOCK))


def held_locks(kernel: BootedKernel, cpu: int) -> list[tuple[int, float]]:
    """Address, and cycle since which it is held, of each lock of a CPU, in the order of taking them."""
    machine = kernel.machine
    held = min(machine.cpu_word(cpu, L.C_HELD), L.HELD_MAX)
    return [
        (machine.cpu_word(cpu, L.C_HELD_ADDRESS + i), machine.cpu_word(cpu, L.C_HELD_SINCE + i) / L.MILLI)
        for i in range(held)
    ]


def lock_holder(kernel: BootedKernel, address: int) -> int:
    """The CPU that holds a lock; -1 if none does."""
    for cpu in range(kernel.machine.spec.cpus):
        if any(held == address for held, _ in held_locks(kernel, cpu)):
            return cpu
    return -1


# --- interrupts to come -------------------------------------------------------------------------------
def _pending_texts(kernel: BootedKernel, cpu: int) -> list[str]:
    machine = kernel.machine
    clock, done = _now(kernel, cpu), machine.cpu_word(cpu, L.C_MICRO_OPS)
    found = [(_left(one, clock, done), one) for one in pending_interrupts(machine.state) if one.cpu == cpu]
    # What is due comes by its number.  Cycles and a CPU's micro-ops cannot be compared: one after the other.
    due = [pair for pair in found if pair[0] <= 0]
    later = sorted(
        (pair for pair in found if pair[0] > 0),
        key=lambda pair: (pair[1].timing.by_micro_op, pair[0], pair[1].sequence),
    )
    enabled = bool(machine.cpu_word(cpu, L.C_IRQ_ENABLED))
    return [_pending_text(kernel.program, one, left, enabled) for left, one in (*due, *later)]


def _left(interrupt: PendingInterrupt, clock: int, micro_ops: int) -> int:
    when = interrupt.timing.when or 0
    return when - (micro_ops if interrupt.timing.by_micro_op else clock)


def _pending_text(program: Program, interrupt: PendingInterrupt, left: int, enabled: bool) -> str:
    function, timing = program.functions[interrupt.function], interrupt.timing
    arguments = ", ".join(str(value) for value in interrupt.arguments[: len(function.params)])
    unit = "micro-ops" if timing.by_micro_op else "cycles"

    def amount(value: int) -> str:
        return f"{value:,}" if timing.by_micro_op else f"{value / L.MILLI:,.0f}"

    text = f"{function.name}({arguments}) "
    if left > 0:
        text += f"in {amount(left)} {unit}"
    else:
        text += "now" if enabled else "as soon as interrupts are on"
    if timing.period:
        longest = f" to {amount(timing.period + timing.spread)}" if timing.spread else ""
        times = f", {timing.count:,} left" if timing.count else ""
        text += f", then every {amount(timing.period)}{longest} {unit}{times}"
    return text


# --- frames ---------------------------------------------------------------------------------------------
def _frames(kernel: BootedKernel, cpu: int) -> list[Frame]:
    machine, program = kernel.machine, kernel.program
    windows = call_stack_windows(machine, program, cpu)[::-1]
    kinds = [int(machine.state[window + FRAME_KIND]) == KIND_INTERRUPT for _, window in windows]
    frames: list[Frame] = []
    level = 0
    for i, (pc, window) in enumerate(windows):
        level += kinds[i]
        saved = bool(machine.state[window + FRAME_SAVED]) if kinds[i] else None
        interrupted = i + 1 < len(windows) and kinds[i + 1]
        frames += _real_frame(kernel, pc, window, level, saved, interrupted)
    return frames


def _real_frame(
    kernel: BootedKernel, pc: int, window: int, level: int, saved: bool | None, interrupted: bool
) -> list[Frame]:
    """The frame of a window, and those of the functions that are inlined at its micro-op."""
    parts = _parts(kernel.program, pc)
    frames = []
    for i, part in enumerate(parts):
        values = tuple(_variable_value(kernel, live, window) for live in part.variables)
        frames.append(
            Frame(
                function=part.function.name,
                file=part.place.file,
                line=part.place.line,
                span=part.place,
                level=level,
                interrupt=saved is not None and i == 0,
                inlined=i > 0,
                variables=values,
                saved_irq_enabled=saved if i == 0 else None,
                interrupted=interrupted and i == len(parts) - 1,
            )
        )
    return frames


# --- what the program alone says -------------------------------------------------------------------------
@dataclass(frozen=True)
class _Live:
    """A variable that has a value before a micro-op."""

    variable: Variable
    struct: str | None  #: what it points to, "" if that is not said; None for a number
    is_flag: bool  #: it keeps a saved interrupt flag


@dataclass(frozen=True)
class _Part:
    """A function at a micro-op, inlined or not."""

    function: Function
    place: SourceSpan
    variables: tuple[_Live, ...]


#: Parts of the micro-ops that were asked for; they are the same for as long as the program is.
_KNOWN: WeakKeyDictionary[Program, dict[int, tuple[_Part, ...]]] = WeakKeyDictionary()


def _parts(program: Program, pc: int) -> tuple[_Part, ...]:
    """A micro-op's functions, outermost first."""
    known = _KNOWN.setdefault(program, {})
    if pc not in known:
        live = live_variables(program, pc)
        flags = _flag_registers(program, program.function_at(pc))
        known[pc] = tuple(
            _Part(function, place, tuple(_live(v, live, flags) for v in live if v.site == site))
            for (function, place), site in zip(program.inline_stack(pc), _sites(program, pc), strict=True)
        )
    return known[pc]


def _sites(program: Program, pc: int) -> list[int]:
    """Inline sites of a micro-op, outermost first: -1 for the function itself, then those it is part of."""
    found = []
    site = int(program.inline_site[pc])
    while site >= 0:
        found.append(site)
        site = program.inline_sites[site].parent
    return [-1, *reversed(found)]


def live_variables(program: Program, pc: int) -> list[Variable]:
    """Variables that have a value before micro-op ``pc``, in the order of their declaration."""
    return [v for v in program.function_at(pc).variables if v.first_pc <= pc < v.end_pc]


def _live(variable: Variable, others: list[Variable], flags: set[int]) -> _Live:
    # A parameter without a type, as many inlined functions have, is what its argument is.
    same = [v for v in others if v.register == variable.register >= 0 and v.value == variable.value]
    typed = next((v for v in (variable, *same) if v.type_name.startswith("ptr")), None)
    struct = None if typed is None else typed.type_name[4:-1]
    return _Live(variable, struct, variable.register in flags and variable.value == 0)


def _flag_registers(program: Program, function: Function) -> set[int]:
    """Registers in which a function keeps the interrupt flag and nothing else."""
    rows = program.code.reshape(-1, WORDS)[function.entry_pc : function.end_pc]
    ops = rows[:, F_OP]
    saves = set(rows[(ops == Op.IRQ_SAVE) | (ops == Op.LOCK_IRQSAVE), F_A].tolist())
    return {r for r in saves if sum(v.register == r and v.site < 0 for v in function.variables) <= 1}


# --- values -------------------------------------------------------------------------------------------
def variable_value(kernel: BootedKernel, variable: Variable, window: int) -> int:
    """Its value in a window of the running machine, signed."""
    if variable.register < 0:
        return variable.value
    total = int(kernel.machine.state[window + variable.register]) + variable.value
    return (total + (1 << 63) & (1 << 64) - 1) - (1 << 63)


def _variable_value(kernel: BootedKernel, live: _Live, window: int) -> VariableValue:
    variable = live.variable
    value = variable_value(kernel, variable, window)
    address = None
    if live.is_flag and value in (0, 1):
        text = "interrupts on" if value else "interrupts off"
    elif live.struct is None:
        text = number_text(value)
    else:
        text, address = pointer_text(kernel, live.struct, value)
    register = variable.register if variable.register >= 0 and variable.value == 0 else None
    return VariableValue(variable.name, variable.type_name, value, text, register, address)


def number_text(value: int) -> str:
    """A number for people: in decimal unless it is large."""
    return f"{value:,}" if abs(value) < 1 << 31 else f"{value & (1 << 64) - 1:#x}"


def pointer_text(kernel: BootedKernel, struct: str, value: int) -> tuple[str, int | None]:
    """What a pointer leads to, and its address if that is something known."""
    place = place_of(kernel, value, struct)
    known = place.kind not in (PlaceKind.NULL, PlaceKind.END, PlaceKind.UNKNOWN)
    return place.text, value if known else None
