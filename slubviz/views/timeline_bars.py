"""The scroll bars of a timeline: through the run and, with more lanes than fit, through the CPUs."""

from __future__ import annotations

from PySide6.QtCore import QObject, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QScrollBar, QWidget

from slubviz.views.timeline_layout import BAR_PIXELS, RIGHT_PAD, TimelineLayout
from slubviz.views.timeline_window import TimeWindow

#: A scroll bar counts in 32 bits, a run does not.
_STEPS = 1_000_000


class TimelineBars(QObject):
    """Two scroll bars inside a widget; hidden while there is nothing to scroll."""

    panned = Signal(float)  # where the visible part is to begin, as a share of the run
    scrolled = Signal(int)  # the uppermost lane

    def __init__(self, inside: QWidget) -> None:
        super().__init__(inside)
        self._inside = inside
        self.run = QScrollBar(Qt.Orientation.Horizontal, inside)
        self.lanes = QScrollBar(Qt.Orientation.Vertical, inside)
        for bar in (self.run, self.lanes):
            bar.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            bar.hide()
        self.run.valueChanged.connect(lambda value: self.panned.emit(value / _STEPS))
        self.lanes.valueChanged.connect(self.scrolled.emit)

    def place(self, layout: TimelineLayout, window: TimeWindow, end: int, has_run: bool) -> None:
        """Put both where they belong and at what is visible, without announcing it."""
        blockers = [QSignalBlocker(bar) for bar in (self.run, self.lanes)]
        self._place_run(layout, window, end)
        self.run.setVisible(has_run and window.visible < end)
        hidden = layout.all_cpus - len(layout.cpus)
        x = round(layout.width - RIGHT_PAD / 2 - BAR_PIXELS)
        self.lanes.setGeometry(x, round(layout.lanes_y), BAR_PIXELS, round(layout.lanes_height))
        self.lanes.setRange(0, hidden)
        self.lanes.setPageStep(len(layout.cpus))
        self.lanes.setValue(layout.cpus.start)
        self.lanes.setVisible(has_run and hidden > 0)
        for blocker in blockers:
            blocker.unblock()

    def _place_run(self, layout: TimelineLayout, window: TimeWindow, end: int) -> None:
        bottom = round(layout.height) - BAR_PIXELS - 1
        self.run.setGeometry(round(layout.plot_x), bottom, round(layout.plot_width), BAR_PIXELS)
        scale = _STEPS / max(end, 1)
        page = max(round(window.visible * scale), 1)
        self.run.setRange(0, max(_STEPS - page, 0))
        self.run.setPageStep(page)
        self.run.setSingleStep(max(page // 10, 1))
        self.run.setValue(round(window.first * scale))
