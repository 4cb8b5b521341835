"""Numbers that say what a search looks for and what it found; see ``search``."""

from __future__ import annotations

#: What is asked of the states; bits of W_WANT.
WANT_PLACE = 1  #: the CPU came to another place, no deeper than W_DEEPEST_*
WANT_INTO = 2  #: it came into a frame that it has entered just now
WANT_GONE = 4  #: the frame at W_DEEPEST_* is gone
WANT_ENTERED = 8  #: the frame there was entered; the hit is the position before
WANT_INTERRUPT_IN = 16  #: an interrupt was taken
WANT_INTERRUPT_OUT = 32  #: an interrupt handler has returned
WANT_RELEASED = 64  #: a lock was released
WANT_ALL_HALTED = 128  #: all CPUs had nothing more to do: a phase ended
WANT_TABLES = 256  #: counters, words or locks are listed

W_STOP = 0  #: 1: stop at the first hit
W_HIT = 1  #: position of the first or last hit, -1
W_HITS = 2  #: positions hit so far
W_CAUSE = 3  #: number of the trigger, or minus the bit that was wanted
W_HIT_CPU = 4
W_BEFORE = 5  #: position of the state that is known as the one before, -1 for none
W_FIRST, W_LAST = 6, 7  #: only hits from .. to count
W_WANT = 8
W_CPU = 9  #: the CPU that is asked about; -1: every one, for interrupts and locks
W_RESTARTED = 10
W_NEXT, W_PC, W_ADDRESS = 11, 12, 13  #: before the micro-op: who is next, with which, what that touches
W_DEEPEST_WINDOW, W_DEEPEST_SITE = 14, 15
W_WINDOW, W_PLACE, W_TOP, W_PRESENT = 16, 17, 18, 19  #: where the CPU is, seen from W_DEEPEST_*
W_RAW_WINDOW, W_RAW_SITE = 20, 21
W_EARLY = 22  #: 1: the hit's state may already have an interrupt that belongs to the next micro-op
W_COLUMNS, W_WORDS, W_LOCKS, W_PCS = 23, 24, 25, 26  #: entries in the tables
W_EXECUTED = 27  #: CPU that executed the last micro-op
W_CHANGED = 28  #: address of the listed word that changed last, SEVERAL for more than one at once
SEVERAL = -1
W_CPU_ROWS = 32  #: per CPU: micro-ops, locks held, interrupts, interrupt depth
CPU_ROW = 4

T_FIRST_TERM, T_TERMS = 0, 1
TRIGGER_WORDS = 2
#: Subjects of a term; a term is subject, argument, comparison, value.
SUBJECT_CPU, SUBJECT_CPU_WORD, SUBJECT_REGISTER, SUBJECT_VARIABLE = 0, 1, 2, 3
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = 0, 1, 2, 3, 4, 5
TERM_WORDS = 4
#: In place of a variable's register: it is a constant, or there is no such variable.
IS_CONSTANT, IS_UNKNOWN = -1, -2
