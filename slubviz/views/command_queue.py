"""What stands between the window's thread and the worker's: commands one way, the newest update the other.

Knows which commands take the place of waiting ones and which flags a new command sets: a movement gives way
to a newer one, slow work to any command.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from slubviz.views import commands as C
from slubviz.views.move_stop import MoveStop
from slubviz.views.view_update import ViewUpdate

#: Commands that put another run in the place of the one that is there.
RUNS = (C.Load, C.OpenSession, C.OpenScenario)
#: Movements that do not start from the cursor.
_TO_A_PLACE = (*RUNS, C.Reset, C.Seek, C.Scrub, C.SeekCycle, C.GoToBookmark, C.ScenarioStep)


class CommandQueue:
    """See the module.

    Attributes
    ----------
    move_stop : MoveStop
        For the movement that is under way.
    slow_stop : threading.Event
        For what is computed while nothing moves.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._commands: deque[C.Command] = deque()
        self._slot: ViewUpdate | None = None
        self._moving: C.Movement | None = None
        self.stop_asked = False
        self.move_stop = MoveStop()
        self.slow_stop = threading.Event()

    # The window's side

    def send(self, command: C.Command) -> None:
        """Queue a command; see ``SessionWorker.send``."""
        with self._condition:
            self.slow_stop.set()
            if isinstance(command, C.Cancel | C.Pause):
                self.move_stop.set()
                self._drop_waiting_movements()
            elif isinstance(command, C.Movement) and self._moving is not None:
                # Scrubs follow each other faster than they can be done: each one is, or none would be shown.
                if not (isinstance(command, C.Scrub) and isinstance(self._moving, C.Scrub)):
                    self.move_stop.give_way(isinstance(command, _TO_A_PLACE))
            if isinstance(command, C.Scrub | C.Seek):
                while self._commands and isinstance(self._commands[-1], C.Scrub | C.Seek):
                    self._commands.pop()
            self._commands.append(command)
            self._condition.notify()

    def take(self) -> ViewUpdate | None:
        """The newest update, once."""
        with self._condition:
            update, self._slot = self._slot, None
            return update

    def stop(self) -> None:
        """Let the worker end."""
        with self._condition:
            self.stop_asked = True
            self.move_stop.set()
            self.slow_stop.set()
            self._condition.notify()

    def _drop_waiting_movements(self) -> None:
        if not any(isinstance(command, RUNS) for command in self._commands):
            # A change of the run is no way to another place: what the user has asked for is done.
            self._commands = deque(
                c for c in self._commands if isinstance(c, C.Apply) or not isinstance(c, C.Movement)
            )

    # The worker's side

    def next(self, seconds_to_wait: Callable[[], float | None]) -> C.Command | None:
        """The next command; None if there is none after waiting.

        Parameters
        ----------
        seconds_to_wait : callable
            How long to wait when there is no command; None until one comes.
        """
        with self._condition:
            if not self._commands and not self.stop_asked:
                seconds = seconds_to_wait()
                if seconds != 0:
                    self._condition.wait(seconds)
            if not self._commands:
                if not self.stop_asked:
                    self.slow_stop.clear()
                return None
            command = self._commands.popleft()
            if isinstance(command, C.Movement | C.Compare):
                self._begin(command)
            return command

    def _begin(self, command: C.Command) -> None:
        self.move_stop.begin()
        if isinstance(command, C.Movement):
            self._moving = command
        later = next((c for c in self._commands if isinstance(c, C.Movement)), None)
        if later is not None:
            self.move_stop.give_way(isinstance(later, _TO_A_PLACE))
        if self.stop_asked:
            self.move_stop.set()

    def done(self) -> None:
        """The command that came last has been obeyed."""
        with self._condition:
            self._moving = None

    def waits(self, kinds: tuple[type[C.Command], ...] = (C.Command,)) -> bool:
        """Whether a command, or one of some kinds, waits."""
        with self._condition:
            return any(isinstance(command, kinds) for command in self._commands)

    def leave(self, update: ViewUpdate) -> None:
        """Leave an update in the place of one that was not taken."""
        with self._condition:
            self._slot = update

    def is_taken(self) -> bool:
        """Whether the last update was taken."""
        with self._condition:
            return self._slot is None
