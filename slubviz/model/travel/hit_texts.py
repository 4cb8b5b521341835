"""Says what was found, in one line, while the cursor is there."""

from __future__ import annotations

from slubviz.hw import layout as L
from slubviz.hw import search_codes as W
from slubviz.hw.isa import CpuState
from slubviz.model.session import Session
from slubviz.model.symbols import lock_name
from slubviz.model.travel.finder import Hit
from slubviz.model.travel.questions import CAUSE_CONTENDED, CAUSE_RETRY, CAUSE_SLOW

_WANTED = {
    W.WANT_PLACE: "",
    W.WANT_INTO: "entered ",
    W.WANT_GONE: "back in ",
    W.WANT_ENTERED: "before the call, in ",
    W.WANT_INTERRUPT_IN: "an interrupt arrived; now in ",
    W.WANT_INTERRUPT_OUT: "an interrupt handler returned; now in ",
    W.WANT_RELEASED: "a lock was released; now in ",
}
_CAUSES = {
    CAUSE_SLOW: "slow path, in ",
    CAUSE_RETRY: "a compare-and-exchange failed, in ",
    CAUSE_CONTENDED: "finds a lock taken, in ",
}


def place_text(session: Session, cpu: int) -> str:
    """Where a CPU is: ``__slab_alloc, slub.py:480``."""
    machine, program = session.machine, session.booted.program
    if machine.cpu_word(cpu, L.C_STATE) == CpuState.HALTED:
        return "nothing (idle)"
    pc = machine.cpu_word(cpu, L.C_PC)
    if not 0 <= pc < program.micro_ops:
        return "nothing"
    span = program.span(pc)
    return f"{program.inline_stack(pc)[-1][0].name}, {span.file}:{span.line}"


class HitTexts:
    """For the movements of one search."""

    def __init__(self, session: Session, cpu: int) -> None:
        self._session = session
        self._cpu = cpu

    def by(self, cpu: int) -> str:
        """ " by CPU 2 in kfree, slub.py:590"."""
        return f" by CPU {cpu} in {place_text(self._session, cpu)}" if cpu >= 0 else ""

    def describe(self, hit: Hit) -> tuple[str, int]:
        """The text of a hit of a movement, and no breakpoint."""
        if hit.cpu < 0:
            return "A phase of the workload ends here", 0
        what = _WANTED.get(-hit.cause, "") if hit.cause < 0 else _CAUSES.get(hit.cause, "lock taken, in ")
        text = f"CPU {hit.cpu}: {what}{place_text(self._session, hit.cpu)}"
        if hit.cause == CAUSE_CONTENDED:
            text += self._lock(hit.cpu)
        return text, 0

    def _lock(self, cpu: int) -> str:
        machine = self._session.machine
        if machine.cpu_word(cpu, L.C_STATE) != CpuState.WAITING_LOCK:
            return ""
        return f", waits for {lock_name(self._session.booted, machine.cpu_word(cpu, L.C_WAIT_ADDRESS))}"
