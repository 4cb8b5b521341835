"""Speed of a run: the slider's scale, and the pacer that turns a rate into micro-ops due.

The scale is logarithmic, from one micro-op a second to unlimited.  Nothing here reads a
clock: the caller passes the time, so a test can pass its own.
"""

from __future__ import annotations

import math
from collections import deque

from slubviz.views import numbers

#: Slider steps per factor of ten; 1, 2 and 5 are all on the scale.
_STEPS = (1, 2, 5)
_DECADES = 8
#: The slider's last position: no limit.
UNLIMITED = len(_STEPS) * _DECADES
#: Where the slider starts: 200 k micro-ops a second, at which the default job takes about 40 seconds.
START = 16
START_RATE = 200_000.0
#: A chunk may not keep the worker from its commands for longer than about this.
CHUNK_SECONDS = 0.008
_LARGEST_CHUNK = 20_000_000
#: Backwards: time between two pictures, and for the whole run when the speed has no limit.
_PICTURE_SECONDS = 1 / 30
_WHOLE_RUN_SECONDS = 10.0


def rate_of(position: int) -> float:
    """Micro-ops per second of a slider position, infinity at the last one."""
    if position >= UNLIMITED:
        return math.inf
    decade, step = divmod(max(position, 0), len(_STEPS))
    return float(_STEPS[step] * 10**decade)


def neighbour(rate: float, direction: int) -> float:
    """The next faster (+1) or slower (-1) rate of the scale; the last ones stay."""
    rates = [rate_of(position) for position in range(UNLIMITED + 1)]
    if direction > 0:
        return next((r for r in rates if r > rate), math.inf)
    return next((r for r in reversed(rates) if r < rate), rates[0])


def label_of(position: int) -> str:
    """Text beside the slider."""
    rate = rate_of(position)
    if math.isinf(rate):
        return "unlimited"
    return f"{numbers.short(rate)}{numbers.THIN}micro-ops/s" if rate != 1 else f"1{numbers.THIN}micro-op/s"


class Pacer:
    """Says how many micro-ops may run now so that a rate is kept in chunks of about 8 ms.

    Parameters
    ----------
    rate : float
        Micro-ops per wall-clock second; infinity for no limit.
    """

    def __init__(self, rate: float = math.inf) -> None:
        self._rate = rate
        self._credit = 0.0
        self._last_seconds: float | None = None
        # Grows and shrinks with what a chunk was seen to take; small at first so that the first one is short.
        self._chunk = 20_000

    @property
    def rate(self) -> float:
        return self._rate

    def set_rate(self, rate: float) -> None:
        """Change the rate; what had been saved up at the old rate is forgotten."""
        self._rate = rate
        self._credit = 0.0
        self._last_seconds = None

    def restart(self) -> None:
        """Call when a run starts again after a pause, so that the pause earns nothing."""
        self._credit = 0.0
        self._last_seconds = None

    def due(self, now_seconds: float) -> int:
        """Micro-ops to run now; 0 means wait for ``wait_seconds``."""
        if math.isinf(self._rate):
            return self._chunk
        if self._last_seconds is None:
            self._credit = 1.0  # the first micro-op of a slow run comes at once
        else:
            self._credit += (now_seconds - self._last_seconds) * self._rate
        self._last_seconds = now_seconds
        count = min(int(self._credit), self._chunk)
        # A machine slower than the asked rate must not save up a debt that it then races to pay.
        self._credit = min(self._credit - count, max(1.0, self._rate * CHUNK_SECONDS * 4))
        return count

    def ran(self, micro_ops: int, took_seconds: float) -> None:
        """Report what a chunk took, to size the next one."""
        if micro_ops <= 0:
            return
        if took_seconds <= 0:
            wanted = micro_ops * 2.0
        else:
            wanted = micro_ops * CHUNK_SECONDS / took_seconds
        # One chunk may be slow because another process ran: follow at most a factor of two each time.
        wanted = min(max(wanted, self._chunk / 2), self._chunk * 2)
        self._chunk = int(min(max(wanted, 1_000), _LARGEST_CHUNK))

    def wait_seconds(self) -> float:
        """Time until the next micro-op is due, bounded so that commands are seen soon."""
        if math.isinf(self._rate) or self._credit >= 1.0:
            return 0.0
        missing = 1.0 - self._credit
        return min(max(missing / self._rate, CHUNK_SECONDS), 0.05)


class BackPacer:
    """Says how many micro-ops to go back for the next picture.

    Going back costs the same however far it is, so that pictures are what is rationed: at most 30 a second,
    each as far back as the rate says.  Without a limit the whole run takes ten seconds.

    Parameters
    ----------
    rate : float
        Micro-ops per wall-clock second; infinity for no limit.
    """

    def __init__(self, rate: float = math.inf) -> None:
        self._rate = rate
        self._last_seconds: float | None = None
        self._credit = 0.0

    def set_rate(self, rate: float) -> None:
        """Change the rate."""
        self._rate = rate
        self.restart()

    def restart(self) -> None:
        """Call when playing starts: the first micro-op comes at once."""
        self._last_seconds = None
        self._credit = 0.0

    def due(self, now_seconds: float, end: int) -> int:
        """Micro-ops to go back now, of a run of ``end``; 0 means wait for ``wait_seconds``."""
        if self._last_seconds is None:
            self._last_seconds = now_seconds
            return 1
        elapsed = now_seconds - self._last_seconds
        if elapsed < _PICTURE_SECONDS:
            return 0
        self._last_seconds = now_seconds
        # A long picture shall not be followed by a leap.
        elapsed = min(elapsed, 4 * _PICTURE_SECONDS)
        if math.isinf(self._rate):
            return max(1, round(end * elapsed / _WHOLE_RUN_SECONDS))
        self._credit += elapsed * self._rate
        count = int(self._credit)
        self._credit -= count
        return count

    def wait_seconds(self) -> float:
        """Time between two pictures."""
        return 0.0 if self._last_seconds is None else _PICTURE_SECONDS / 2


class RateMeter:
    """Micro-ops per second over about the last second."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def restart(self) -> None:
        """Forget what was counted."""
        self._samples.clear()

    def add(self, micro_ops: int, now_seconds: float) -> None:
        """So many were executed until now."""
        self._samples.append((now_seconds, micro_ops))
        while now_seconds - self._samples[0][0] > 1.0 and len(self._samples) > 2:
            self._samples.popleft()

    def rate(self) -> float:
        """Micro-ops per second; 0 while that is not known."""
        if len(self._samples) < 2:
            return 0.0
        elapsed = self._samples[-1][0] - self._samples[0][0]
        counted = sum(count for _, count in list(self._samples)[1:])
        return counted / elapsed if elapsed > 0 else 0.0
