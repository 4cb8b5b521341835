"""The stop flag of a movement: cancelled at once by the user, after some patience by a newer movement.

A key that is held asks for the next step before the last one has ended.  If that cancelled it, nothing
would ever be reached; so a newer movement only cancels one that has taken long already.
"""

from __future__ import annotations

import threading
import time

#: What a movement may take before a newer one takes its place.
PATIENCE_SECONDS = 0.25


class MoveStop(threading.Event):
    """Set by ``set`` at once, by ``give_way`` once the movement is older than the patience.

    Attributes
    ----------
    replaced : bool
        What waits does not start from the cursor, so that nobody needs to take it back first.
    """

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        super().__init__()
        self._patience_seconds = patience_seconds
        self._started = 0.0
        self._newer_waits = False
        self.replaced = False

    def begin(self) -> None:
        """A movement starts: forget what was asked of the last one."""
        self.clear()
        self._newer_waits, self.replaced = False, False
        self._started = time.monotonic()

    def give_way(self, replaced: bool = False) -> None:
        """A newer movement waits; ``replaced`` if it goes to a place of its own, wherever the cursor is."""
        self._newer_waits = True
        self.replaced = self.replaced or replaced

    def is_set(self) -> bool:
        """Whether to stop now."""
        if super().is_set():
            return True
        return self._newer_waits and time.monotonic() - self._started > self._patience_seconds
