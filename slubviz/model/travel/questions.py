"""What each movement asks of the states of a run, in the terms of ``slubviz.hw.search``."""

from __future__ import annotations

from collections.abc import Sequence

from slubviz.hw import layout as L
from slubviz.hw import search_codes as W
from slubviz.hw.isa import CpuState
from slubviz.hw.search_engine import Question, Term
from slubviz.model.errors import RequestError
from slubviz.model.session import Session
from slubviz.model.travel.code_places import code_places
from slubviz.model.travel.movements import RETRY_COUNTERS, SLOW_COUNTERS, Move
from slubviz.model.travel.watched import Watched, WatchedLock, WatchedWord, watched_words

#: Trigger numbers of the questions about counters and events.
CAUSE_SLOW, CAUSE_RETRY, CAUSE_CONTENDED, CAUSE_TAKEN = 0, 1, 2, 3


def about_frames(session: Session, kind: Move, cpu: int, direction: int) -> Question:
    """LINE, INTO, OVER, OUT.

    Raises
    ------
    RequestError
        For OUT on a CPU that is in no function.
    """
    program, machine = session.booted.program, session.machine
    places = code_places(program)
    pc, window = machine.cpu_word(cpu, L.C_PC), machine.cpu_word(cpu, L.C_WINDOW)
    idle = machine.cpu_word(cpu, L.C_STATE) == CpuState.HALTED
    if kind == Move.OUT and idle:
        raise RequestError(f"CPU {cpu} is idle: there is no function to come out of")
    if kind in (Move.LINE, Move.INTO) or idle:
        want = W.WANT_INTO if kind == Move.INTO else W.WANT_PLACE
        return Question(want, cpu, places.table(0), places.parents)
    depth = len(places.chain(pc))
    gone = W.WANT_GONE if direction > 0 else W.WANT_ENTERED
    return Question(
        W.WANT_PLACE if kind == Move.OVER else gone,
        cpu,
        places.table(depth),
        places.parents,
        deepest_window=window,
        deepest_site=places.frame_site(pc, depth),
    )


def about_interrupts(session: Session, cpu: int, *, entry: bool) -> tuple[Question, Sequence[int] | None]:
    """Interrupts of a CPU, and the counters without which there are none."""
    if entry:
        return Question(W.WANT_INTERRUPT_IN, cpu), (L.N_INTERRUPTS,)
    return Question(W.WANT_INTERRUPT_OUT, cpu), None


def about_events(session: Session, cpu: int | None) -> Question:
    """Events of one CPU, or of all."""
    own = () if cpu is None else (Term(W.SUBJECT_CPU, 0, W.EQUAL, cpu),)
    columns = [
        *((column, CAUSE_SLOW) for column in program_columns(session, SLOW_COUNTERS)),
        *((column, CAUSE_RETRY) for column in retry_columns(session)),
        (L.N_LOCKS_CONTENDED, CAUSE_CONTENDED),
        (L.N_LOCKS_TAKEN, CAUSE_TAKEN),
    ]
    want = W.WANT_INTERRUPT_IN | W.WANT_INTERRUPT_OUT | W.WANT_RELEASED | W.WANT_ALL_HALTED
    return Question(want, -1 if cpu is None else cpu, columns=columns, triggers=(own, own, own, own))


def about_watched(session: Session, watched: Watched) -> Question:
    """What is watched, if its words stay the same; see ``WatchTracker`` for the rest.

    Raises
    ------
    RequestError
        If there is no memory at its address.
    """
    words = [(address, mask, 0) for address, mask in watched_words(session.booted, watched)]
    if isinstance(watched, WatchedWord):
        return Question(words=words)
    if isinstance(watched, WatchedLock):
        return Question(words=words, locks=[(watched.address, 0)])
    return Question()


def about_counters(session: Session, kind: Move) -> tuple[Question, Sequence[int]]:
    """SLOW_PATH, RETRY, CONTENDED on any CPU, and the columns of their counters.

    Raises
    ------
    RequestError
        If the kernel program does not count slow paths.
    """
    if kind == Move.SLOW_PATH:
        cause, columns = CAUSE_SLOW, program_columns(session, SLOW_COUNTERS)
        if not columns:
            missing = " and no ".join(SLOW_COUNTERS)
            raise RequestError(f"this kernel counts no slow paths: it has no {missing}")
    elif kind == Move.RETRY:
        cause, columns = CAUSE_RETRY, retry_columns(session)
    else:
        cause, columns = CAUSE_CONTENDED, [L.N_LOCKS_CONTENDED]
    return Question(columns=[(column, cause) for column in columns], triggers=((), (), (), ())), columns


def program_columns(session: Session, names: Sequence[str]) -> list[int]:
    """Columns of a program's own counters, of those names that it has."""
    known = session.booted.program.counters
    return [L.HARDWARE_COUNTERS + known.index(name) for name in names if name in known]


def retry_columns(session: Session) -> list[int]:
    """Columns of the counters of failed compare-and-exchanges."""
    return [L.N_CMPXCHG_FAILED, *program_columns(session, RETRY_COUNTERS)]
