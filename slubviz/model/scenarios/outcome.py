"""How a run of a scenario ended, with the evidence, and whether that is what the scenario says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from slubviz.hw import layout as L
from slubviz.hw.isa import Fault
from slubviz.model.booted import BootedKernel
from slubviz.model.handlers import held_objects
from slubviz.model.invariants import check
from slubviz.model.scenarios.scenario import OutcomeKind, Relation
from slubviz.model.session import Session


@dataclass(frozen=True)
class Found:
    """How a run ended."""

    kind: OutcomeKind
    evidence: tuple[str, ...]  #: what the machine or the checks say, one line each
    counters: Mapping[str, int]  #: of all CPUs, the kernel's and the machine's
    micro_ops: int
    cycles: float  #: clock of the last CPU


@dataclass(frozen=True)
class PlayedOutcome:
    """An outcome beside what was expected."""

    expected: OutcomeKind
    found: Found
    explanation: str
    differences: tuple[str, ...]  #: from what was expected, one line each

    @property
    def as_expected(self) -> bool:
        """Whether everything is as the scenario says."""
        return not self.differences


@dataclass(frozen=True)
class PlayedBeside:
    """A run beside the scenario's own."""

    title: str
    kernel: str
    outcome: PlayedOutcome
    compared: tuple[tuple[str, int, int], ...]  #: counter, its value in the scenario and here


def find_outcome(session: Session) -> Found:
    """How a session ended that has finished or failed."""
    kernel = session.booted
    counters = all_counters(session)
    machine = session.machine
    kind, evidence = _kind(session, kernel, counters)
    return Found(kind, evidence, counters, machine.micro_ops, machine.clock_millicycles / L.MILLI)


def _kind(
    session: Session, kernel: BootedKernel, counters: Mapping[str, int]
) -> tuple[OutcomeKind, tuple[str, ...]]:
    if session.fault:
        waits = session.machine.fault in (Fault.NONE, Fault.SELF_DEADLOCK)
        return (OutcomeKind.DEADLOCK if waits else OutcomeKind.FAULT), (session.fault,)
    problems = broken_rules(kernel)
    if problems:
        return OutcomeKind.BROKEN, tuple(problems)
    failed = counters["CMPXCHG_FAILED"]
    if failed:
        times = "once" if failed == 1 else f"{failed} times"
        return OutcomeKind.RETRY, (f"all invariants hold; a compare-and-exchange failed {times}",)
    return OutcomeKind.FINE, ("all invariants hold",)


def broken_rules(kernel: BootedKernel) -> list[str]:
    """All invariants that do not hold, first of all objects that are kept in two places."""
    kept = kept_addresses(kernel)
    problems = []
    for address, times in Counter(kept).items():
        if times > 1:
            problems.append(f"object {address:#x} was handed out {times} times, and nobody has freed it")
    return [*problems, *check(kernel, expected_allocated=sum(_of_slab(kernel, address) for address in kept))]


def kept_addresses(kernel: BootedKernel) -> list[int]:
    """Objects that the program or a handler keeps."""
    kept = kernel.memory.one(kernel.memory.global_address("places"), "scenario_places")
    addresses = [int(address) for address in kept["of"] if address]
    return addresses + [address for held in held_objects(kernel) for address in held.addresses]


def _of_slab(kernel: BootedKernel, address: int) -> bool:
    """Whether an object is of a slab, not of the page allocator."""
    pages, constants = kernel.memory.global_structs("mem_map"), kernel.program.constants
    frame = address // constants["PAGE_SIZE"]
    if frame >= len(pages):
        return True  # no object at all: the checks will miss it
    page = pages[frame]
    if int(page["flags"]) & constants["PAGE_TAIL"] == constants["PAGE_TAIL"]:
        map_address = kernel.memory.global_address("mem_map")
        first = (int(page["first_page"]) - map_address) // kernel.program.struct("page").size_bytes
        if not 0 <= first < len(pages):
            return True
        page = pages[first]
    return bool(int(page["flags"]) & (1 << constants["PG_slab"]))


def all_counters(session: Session) -> dict[str, int]:
    """Every counter since the start, summed over the CPUs."""
    sums = session.machine.counters().sum(axis=0)
    return {name: int(value) for name, value in zip(session.counter_names(), sums, strict=True) if name}


def differences(
    found: Found, kind: OutcomeKind, text: str = "", counters: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """What is not as expected.

    Parameters
    ----------
    kind, text : how it should end, and part of what is said then
    counters : exact values
    """
    wrong = []
    if found.kind != kind:
        wrong.append(f"expected {kind}, found {found.kind}: {found.evidence[0]}")
    elif text and not any(text in line for line in found.evidence):
        wrong.append(f"expected {text!r}, found: {'; '.join(found.evidence[:3])}")
    for name, value in (counters or {}).items():
        if found.counters[name] != value:
            wrong.append(f"expected {name} = {value:,}, found {found.counters[name]:,}")
    return tuple(wrong)


def compared(
    own: Found, beside: Found, relations: Mapping[str, Relation]
) -> tuple[tuple[tuple[str, int, int], ...], tuple[str, ...]]:
    """(counter, own value, value beside) of each, and what is not as expected."""
    values, wrong = [], []
    for name, relation in relations.items():
        here, there = own.counters.get(name, 0), beside.counters.get(name, 0)
        values.append((name, here, there))
        holds = {Relation.LESS: there < here, Relation.MORE: there > here, Relation.EQUAL: there == here}
        if not holds[relation]:
            wrong.append(f"expected {name} to be {relation} here, found {there:,} beside {here:,}")
    return tuple(values), tuple(wrong)
