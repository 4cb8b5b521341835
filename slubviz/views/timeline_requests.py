"""When a timeline asks for a detail of what is visible, and of how much.

Once for each part of the run, after the view has come to rest; not while all that is visible is covered by
the detail there is, or by one that was asked for.
"""

from __future__ import annotations

import math

from PySide6.QtCore import QObject, QTimer, Signal

from slubviz.views.timeline_raster import SpanArrays
from slubviz.views.timeline_window import TimeWindow

#: A detail is asked for when no more than this is visible, and with so much more on both sides.
DETAIL_MICRO_OPS = 200_000
_MARGIN = 0.25
REST_MILLISECONDS = 120


class DetailRequests(QObject):
    """Watches what is visible."""

    wanted = Signal(object, object)  # first and last position

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._window: TimeWindow | None = None
        self._end = 0
        self._needed: tuple[int, int] | None = None
        self._asked: tuple[int, int] | None = None
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(REST_MILLISECONDS)
        self._rest.timeout.connect(self._ask)

    def forget(self) -> None:
        """What was asked for is of another run."""
        self._asked = self._needed = None
        self._rest.stop()

    def consider(self, window: TimeWindow, end: int, spans: SpanArrays | None) -> None:
        """Look at what is visible now; ask for its detail if it stays like that.

        Parameters
        ----------
        window : TimeWindow
            What is visible of a run of ``end`` micro-ops.
        spans : SpanArrays or None
            The detail that there is.
        """
        self._window, self._end = window, end
        needed = _needed(window, end, spans)
        if needed is None or (self._asked is not None and _covers(self._asked, needed)):
            self._needed = None
            self._rest.stop()
        elif needed != self._needed:
            self._needed = needed
            self._rest.start()

    def _ask(self) -> None:
        if self._needed is None or self._window is None:
            return
        margin = int(self._window.visible * _MARGIN)
        first, last = self._needed
        self._asked = max(first - margin, 0), min(last + margin, self._end)
        self._needed = None
        self.wanted.emit(*self._asked)


def _needed(window: TimeWindow, end: int, spans: SpanArrays | None) -> tuple[int, int] | None:
    # The visible part, if it is small enough for a detail and none covers it.
    if window.visible > DETAIL_MICRO_OPS or end == 0:
        return None
    needed = max(math.floor(window.first), 0), min(math.ceil(window.last), end)
    return None if spans is not None and _covers((spans.first, spans.last), needed) else needed


def _covers(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and outer[1] >= inner[1]
