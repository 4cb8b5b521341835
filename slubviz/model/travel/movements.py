"""Movements through a recorded run, forwards and backwards.

``move`` goes to the next or the previous position of a kind.  Each kind is a question about the states at
n - 1 and n, so that forwards and backwards find the same positions: forwards the first one after the cursor,
backwards the last one before it.  What counts for each kind is said at ``Move``; ``OUT`` alone asks
something else in each direction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from slubviz.model.errors import RequestError

if TYPE_CHECKING:
    from slubviz.hw.search_engine import Question
    from slubviz.model.session import Session
    from slubviz.model.travel.breakpoint_search import BreakpointSearch
    from slubviz.model.travel.breakpoints import Breakpoint
    from slubviz.model.travel.finder import Finder, Hit
    from slubviz.model.travel.recording import Recording
    from slubviz.model.travel.watched import Watched

Progress = Callable[[float], None]


class Move(StrEnum):
    """A kind of movement.  "The CPU" is the chosen one; a frame is a function, an inlined one too."""

    MICRO_OP = "micro_op"  #: the next or previous position
    LINE = "line"  #: the CPU starts to execute another source line, or comes into another frame
    INTO = "into"  #: the CPU comes into a frame that it has entered: a call, an inlined one, an interrupt
    #: like LINE, but only in the CPU's frame and those around it: what these call, and interrupts, are passed
    #: over, and coming back to the line of the call is nothing new
    OVER = "over"
    #: forwards: the CPU's frame has returned; backwards: the position before it was entered
    OUT = "out"
    INTERRUPT_ENTRY = "interrupt_entry"  #: the CPU has taken an interrupt
    INTERRUPT_EXIT = "interrupt_exit"  #: an interrupt handler on the CPU has returned
    #: on the CPU: a slow path, retry, contended lock, a lock taken or released, an interrupt taken or
    #: returned from; or a phase of the workload begins
    EVENT_THIS_CPU = "event_this_cpu"
    EVENT_ANY_CPU = "event_any_cpu"  #: the same on any CPU
    WATCHED = "watched"  #: what is watched has changed, by whomever
    SLOW_PATH = "slow_path"  #: a CPU has counted a slow path: ALLOC_SLOWPATH or FREE_SLOWPATH
    RETRY = "retry"  #: a compare-and-exchange of a CPU failed
    CONTENDED = "contended"  #: a CPU found a lock taken and starts to wait
    BREAKPOINT = "breakpoint"  #: a breakpoint strikes; see ``breakpoints``
    PHASE = "phase"  #: a phase of the workload begins, or the last one has ended
    START = "start"  #: position 0
    END = "end"  #: of what is recorded


@dataclass(frozen=True)
class MoveResult:
    """Where a movement ended."""

    position: int  #: of the cursor
    found: bool
    text: str  #: one line: what is there, or why the cursor did not move
    breakpoint: int = 0  #: number of the breakpoint that struck
    cancelled: bool = False


SLOW_COUNTERS = ("ALLOC_SLOWPATH", "FREE_SLOWPATH")
#: Beside the machine's own counter of failed compare-and-exchanges: those done under a lock.
RETRY_COUNTERS = ("CMPXCHG_DOUBLE_FAIL", "CMPXCHG_DOUBLE_CPU_FAIL")

_WHAT = {
    Move.LINE: "another source line",
    Move.INTO: "call or interrupt",
    Move.OVER: "another source line",
    Move.OUT: "frame that this one returns to",
    Move.INTERRUPT_ENTRY: "interrupt",
    Move.INTERRUPT_EXIT: "return from an interrupt",
    Move.EVENT_THIS_CPU: "event on this CPU",
    Move.EVENT_ANY_CPU: "event",
    Move.WATCHED: "change of what is watched",
    Move.SLOW_PATH: "slow path",
    Move.RETRY: "failed compare-and-exchange",
    Move.CONTENDED: "contended lock",
    Move.BREAKPOINT: "breakpoint that strikes",
    Move.PHASE: "phase",
}


def move(
    recording: Recording,
    kind: Move,
    direction: int = 1,
    *,
    cpu: int = 0,
    watched: Watched | None = None,
    breakpoints: Iterable[Breakpoint] | None = None,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> MoveResult:
    """Go to the next (+1) or previous (-1) position of a kind.  Forwards the run is recorded as needed.

    Parameters
    ----------
    cpu : the chosen CPU
    watched : for WATCHED
    breakpoints : for BREAKPOINT
    stop : when it is set, the search is given up
    progress : called with the searched share, every tenth of a second or so

    Returns
    -------
    MoveResult
        If nothing was found, or it was cancelled, the cursor is where it was.

    Raises
    ------
    UserError
        For a CPU that does not exist, or when nothing is watched or no breakpoint is set.
    """
    kind = Move(kind)
    cpus = recording.session.machine_spec.cpus
    if not 0 <= cpu < cpus:
        raise RequestError(f"CPU {cpu} does not exist; this machine has CPUs 0 to {cpus - 1}")
    match kind:
        case Move.START | Move.END:
            return _to_edge(recording, 0 if kind == Move.START else recording.end, stop, progress)
        case Move.MICRO_OP:
            return _one_micro_op(recording, direction)
        case Move.PHASE:
            return _to_phase(recording, direction, stop, progress)
    finder, describe = _finder(recording, kind, direction, cpu, watched, breakpoints, stop, progress)
    return search(recording, finder, direction, describe, _WHAT[kind])


def search(
    recording: Recording,
    finder: Finder,
    direction: int,
    describe: Callable[[Hit], tuple[str, int]],
    what: str,
) -> MoveResult:
    """Go to the next or previous hit of a finder, or stay.

    Parameters
    ----------
    describe : the text of a hit at the cursor, and the number of its breakpoint
    what : is searched for, for the text if there is none
    """
    from slubviz.model.travel.finder import Cancelled

    cursor = recording.position
    try:
        hit = finder.forward() if direction > 0 else finder.backward(cursor - 1)
    except Cancelled:
        _back_to(recording, cursor)
        return MoveResult(cursor, False, "Cancelled: the cursor is where it was", cancelled=True)
    if hit is None:
        _back_to(recording, cursor)
        side = "after" if direction > 0 else "before"
        return MoveResult(cursor, False, f"There is no {what} {side} the cursor: it is where it was")
    if recording.position != hit.position:
        recording.seek(hit.position)
    text, number = describe(hit)
    return MoveResult(hit.position, True, text, number)


def run_to_breakpoint(
    recording: Recording,
    micro_ops: int,
    breakpoints: Iterable[Breakpoint] | BreakpointSearch,
    *,
    stop: threading.Event | None = None,
) -> MoveResult:
    """Run forwards to the next breakpoint, but no more than so many micro-ops; for playing.

    Unlike ``move`` it leaves the cursor where it came to, also when no breakpoint struck.  Called again it
    goes on from there and misses none.

    Parameters
    ----------
    breakpoints : those of the run, or the search for them, which a player keeps from call to call

    Raises
    ------
    UserError
        If no breakpoint is set.
    """
    from slubviz.model.travel.breakpoint_search import BreakpointSearch
    from slubviz.model.travel.finder import Cancelled

    if isinstance(breakpoints, BreakpointSearch):
        sought = breakpoints
    else:
        sought = BreakpointSearch(recording.session, breakpoints)
    finder = sought.finder(recording, stop)
    try:
        hit = finder.forward(recording.position + micro_ops) or finder.here()
    except Cancelled:
        return MoveResult(recording.position, False, "Stopped", cancelled=True)
    if hit is None:
        return MoveResult(recording.position, False, "")
    text, number = sought.describe(hit)
    return MoveResult(hit.position, True, text, number)


def _back_to(recording: Recording, cursor: int) -> None:
    if recording.position != cursor:
        recording.seek(cursor)


# --- the simple ones ------------------------------------------------------------------------------------
def _to_edge(
    recording: Recording, position: int, stop: threading.Event | None, progress: Progress | None
) -> MoveResult:
    cursor = recording.position
    if not recording.seek(position, stop=stop, progress=progress):
        _back_to(recording, cursor)
        return MoveResult(cursor, False, "Cancelled: the cursor is where it was", cancelled=True)
    return MoveResult(position, True, "The start" if position == 0 else "The end of what is recorded")


def _one_micro_op(recording: Recording, direction: int) -> MoveResult:
    before = recording.position
    if direction > 0:
        recording.step()
    else:
        recording.step_back()
    found = recording.position != before
    edge = "The run ends here" if direction > 0 else "The run starts here"
    return MoveResult(recording.position, found, "" if found else edge)


def _to_phase(
    recording: Recording, direction: int, stop: threading.Event | None, progress: Progress | None
) -> MoveResult:
    """A phase begins where its session says; the first one at position 0."""
    session, cursor = recording.session, recording.position
    if direction < 0:
        if cursor and _phase_begin(session) >= cursor:
            recording.seek(cursor - 1, prepare=False)
        begin = _phase_begin(session)
        if cursor == 0:
            return MoveResult(cursor, False, "There is no phase before the cursor: it is where it was")
        recording.seek(begin)
        return MoveResult(begin, True, phase_text(session))
    phase = session.phase_index
    while session.phase_index == phase and not recording.over:
        if stop and stop.is_set():
            _back_to(recording, cursor)
            return MoveResult(cursor, False, "Cancelled: the cursor is where it was", cancelled=True)
        recording.run(1_000_000, stop=stop, stop_at_phase_end=True)
        if progress:
            progress(min((recording.position - cursor) / max(recording.end - cursor, 1), 1.0))
    if session.phase_index == phase:
        _back_to(recording, cursor)
        return MoveResult(cursor, False, "There is no phase after the cursor: it is where it was")
    recording.seek(recording.position)
    return MoveResult(recording.position, True, phase_text(session))


def _phase_begin(session: Session) -> int:
    """Where the phase began that runs; after the end, where the end is."""
    return session.machine.micro_ops if session.finished else session.progress().micro_ops_before


def phase_text(session: Session) -> str:
    """Which phase runs."""
    phase = session.phase
    if phase is None:
        return "The run is finished"
    size = f" of {phase.size_bytes} bytes" if phase.size_bytes else ""
    number = f"{session.phase_index + 1} of {len(session.phases)}"
    return f"Phase {number} begins: test {phase.test}, {phase.operation}{size}"


# --- the searches ----------------------------------------------------------------------------------------
def _finder(
    recording: Recording,
    kind: Move,
    direction: int,
    cpu: int,
    watched: Watched | None,
    breakpoints: Iterable[Breakpoint] | None,
    stop: threading.Event | None,
    progress: Progress | None,
) -> tuple[Finder, Callable[[Hit], tuple[str, int]]]:
    from slubviz.model.travel import questions as Q
    from slubviz.model.travel.breakpoint_search import BreakpointSearch
    from slubviz.model.travel.finder import Finder
    from slubviz.model.travel.hit_texts import HitTexts
    from slubviz.model.travel.watched import WatchedLock, WatchedWord, WatchTracker

    session = recording.session
    texts = HitTexts(session, cpu)
    counters: Sequence[int] | None = None
    question: Question
    match kind:
        case Move.BREAKPOINT:
            sought = BreakpointSearch(session, breakpoints or ())
            return sought.finder(recording, stop, progress), sought.describe
        case Move.WATCHED:
            if watched is None:
                raise RequestError("nothing is watched: choose a word, slab, lock or list first")
            tracker = None if isinstance(watched, WatchedWord | WatchedLock) else WatchTracker(watched)
            question = Q.about_watched(session, watched)
            finder = Finder(recording, question, tracker=tracker, stop=stop, progress=progress)
            return finder, lambda hit: (f"{watched.text()} changed{texts.by(hit.cpu)}", 0)
        case Move.LINE | Move.INTO | Move.OVER | Move.OUT:
            question = Q.about_frames(session, kind, cpu, direction)
        case Move.INTERRUPT_ENTRY | Move.INTERRUPT_EXIT:
            question, counters = Q.about_interrupts(session, cpu, entry=kind == Move.INTERRUPT_ENTRY)
        case Move.EVENT_THIS_CPU:
            question = Q.about_events(session, cpu)
        case Move.EVENT_ANY_CPU:
            question = Q.about_events(session, None)
        case _:
            question, counters = Q.about_counters(session, kind)
    finder = Finder(recording, question, counters=counters, stop=stop, progress=progress)
    return finder, texts.describe
