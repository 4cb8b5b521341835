"""Keeps moments of a recording within its memory budget, and at a pace that costs little.

While a run is recorded, a checkpoint is due after so many times what the last ones took to make.  Times are
those of this thread, so that other programs do not matter.  When the budget is used up, the moment that will
be missed least is given up.
"""

from __future__ import annotations

import time

from slubviz.hw import layout as L
from slubviz.hw.checkpoints import CheckpointPool, PoolFull
from slubviz.model.session import Session
from slubviz.model.travel.checkpoint_list import CheckpointList, Kept

#: While a run is recorded, a checkpoint comes after so many times what the last ones took; where they take
#: long, after so many seconds, but never less than the smaller number of times.
RUN_SHARE, LEAST_RUN_SHARE = 8.0, 4.0
LONGEST_APART_SECONDS = 0.03
FEWEST_MICRO_OPS_APART = 20_000
#: A step back runs again for about so long.
NEAR_SECONDS = 0.0008
FEWEST_NEAR_MICRO_OPS, MOST_NEAR_MICRO_OPS = 2_000, 400_000
MOST_NEAR = 24
#: Until they are measured.
_FIRST_RATE, _FIRST_ADD_SECONDS = 20e6, 0.002
_SMOOTHING = 0.2


class CheckpointKeeper:
    """See the module.

    Parameters
    ----------
    session : the recorded one
    budget_bytes : memory; at least three times the state of the machine is taken
    """

    def __init__(self, session: Session, budget_bytes: int) -> None:
        self._session = session
        self.pool = CheckpointPool(budget_bytes, session.machine.state)
        self.list = CheckpointList()
        self._micro_ops_per_second = _FIRST_RATE
        self._add_seconds = _FIRST_ADD_SECONDS
        self._ran_seconds = 0.0  # since the last one

    @property
    def near_micro_ops(self) -> int:
        """How far before the cursor a moment is kept for steps back."""
        wanted = int(self._micro_ops_per_second * NEAR_SECONDS)
        return min(max(wanted, FEWEST_NEAR_MICRO_OPS), MOST_NEAR_MICRO_OPS)

    def is_due(self, seconds: float, micro_ops: int, *, plain: bool) -> bool:
        """Whether a checkpoint is due after a piece of the run; ``plain``: run by the engine alone."""
        if plain and micro_ops >= FEWEST_MICRO_OPS_APART and seconds > 0:
            self._micro_ops_per_second += _SMOOTHING * (micro_ops / seconds - self._micro_ops_per_second)
        self._ran_seconds += seconds
        shortest = max(LONGEST_APART_SECONDS, LEAST_RUN_SHARE * self._add_seconds)
        return self._ran_seconds >= min(RUN_SHARE * self._add_seconds, shortest)

    def keep(self, branch: int, next_millicycles: int, *, near: bool = False) -> None:
        """Keep the moment at which the session is, if there is room.

        Parameters
        ----------
        next_millicycles : clock of the CPU that is next
        near : for steps back from a place close behind
        """
        while near and self.list.near_ones() >= MOST_NEAR:
            oldest = self.list.to_give_up(near_only=True)
            assert oldest is not None
            self.give_up(oldest)
        machine = self._session.machine
        started = time.thread_time()
        while True:
            try:
                checkpoint = self.pool.add(machine.state)
                break
            except PoolFull:
                missed_least = self.list.to_give_up()
                if missed_least is None:
                    return
                self.give_up(missed_least)
        if not near:
            self._add_seconds += _SMOOTHING * (time.thread_time() - started - self._add_seconds)
            self._ran_seconds = 0.0
        self.list.add(
            Kept(
                branch,
                machine.micro_ops,
                next_millicycles,
                machine.counters().copy(),
                self._session.progress(),
                checkpoint,
                near,
            )
        )

    def give_up(self, kept: Kept) -> None:
        """Forget a moment."""
        self.list.remove(kept)
        self.pool.drop(kept.checkpoint)


def next_clock(session: Session) -> int:
    """Clock in millicycles of the CPU that is next."""
    state = session.machine.state
    return int(state[state[L.H_KEYS] + state[state[L.H_TREE] + 1]])
