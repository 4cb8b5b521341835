"""The CPU cards in one scrolling widget that paints only what is visible.

A click gives a card more room, for more of the source around what it executes; a second click
takes it back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolTip, QWidget

from slubviz.hw.isa import CpuState
from slubviz.model.snapshot import CpuView, Snapshot
from slubviz.views import numbers
from slubviz.views.cpu_card import CardFonts, CardPainter, card_fonts
from slubviz.views.cpu_layout import (
    CardLayout,
    Pace,
    flags_text,
    lay_out_cards,
    next_cpu,
    state_text,
    stepped_cpu,
)
from slubviz.views.theme import Theme

#: A CPU that was halted in so many pictures in a row gets a small card: phases that alternate quickly
#: shall not make the cards jump.
_IDLE_PICTURES = 6
_NEXT_TEXT = "Next to run: the smallest clock of the running CPUs, ties by number"


class CpuPanel(QAbstractScrollArea):
    """Shows every CPU of a snapshot as a card."""

    def __init__(self, theme: Theme, code_font: QFont, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._code_font = code_font
        self._snapshot: Snapshot | None = None
        self._sources: Mapping[str, tuple[str, ...]] = {}
        self._layout = CardLayout((), 0)
        self._focus = -1
        self._next = -1
        self._stepped = -1
        self._pace = Pace.FAST
        self._scrolled_for = -1
        self._halted_for: list[int] = []
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.setMinimumWidth(300)
        self.setAccessibleName("CPUs")

    @property
    def card_layout(self) -> CardLayout:
        """Where the cards are."""
        return self._layout

    @property
    def focus_card(self) -> int:
        """Position of the card that was clicked, -1 if none."""
        return self._focus

    def sizeHint(self) -> QSize:
        return QSize(420, 560)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.viewport().update()

    @property
    def next_card(self) -> int:
        """Position of the card that is marked as the next to run, -1 if none is."""
        return self._next

    def show_cpus(
        self,
        snapshot: Snapshot | None,
        sources: Mapping[str, tuple[str, ...]],
        pace: Pace = Pace.FAST,
    ) -> None:
        """Show a snapshot's CPUs with the lines of their source files; None clears the panel.

        Unless the pace is FAST, the CPU whose turn is next is marked; at STILL it is scrolled into view.
        """
        before = self._idle()
        cpus = snapshot.cpus if snapshot else ()
        self._note_turn(snapshot, pace)
        self._snapshot, self._sources = snapshot, sources
        halted = [cpu.state == CpuState.HALTED for cpu in cpus]
        if len(cpus) == len(self._halted_for):
            counts = zip(halted, self._halted_for, strict=True)
            self._halted_for = [count + 1 if is_halted else 0 for is_halted, count in counts]
        else:
            self._focus = -1
            self._halted_for = [_IDLE_PICTURES * is_halted for is_halted in halted]
        if before != self._idle():
            self._place()
        self._show_next(snapshot)
        self.viewport().update()

    def facts(self) -> str:
        """One line about all CPUs, for the panel's head."""
        if self._snapshot is None:
            return ""
        cpus = self._snapshot.cpus
        if self._next >= 0:
            stepped = f"CPU {self._stepped} stepped  ·  " if self._stepped >= 0 else ""
            return f"{stepped}CPU {cpus[self._next].number} is next"
        running = sum(cpu.state == CpuState.RUNNING for cpu in cpus)
        waiting = sum(cpu.state == CpuState.WAITING_LOCK for cpu in cpus)
        parts = [f"{running} of {len(cpus)} running"]
        if waiting:
            parts.append(f"{waiting} waiting")
        return "  ·  ".join(parts)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.viewport().rect(), self._theme.color("panel"))
        if self._snapshot is not None:
            self._draw_cards(painter, self._snapshot)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._place()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self._card_at(event.position().toPoint())
        if event.button() is Qt.MouseButton.LeftButton and index >= 0:
            self._focus = -1 if index == self._focus else index
            self._place()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()  # belongs to the press

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            text = self.tooltip_at(event.pos())
            QToolTip.showText(event.globalPos(), text, self.viewport())
            return True
        return super().viewportEvent(event)

    def tooltip_at(self, position: QPoint) -> str:
        """All facts of the CPU at a position; empty if none is there."""
        index = self._card_at(position)
        if index < 0 or self._snapshot is None:
            return ""
        text = cpu_facts(self._snapshot.cpus[index], self._snapshot.clock_cycles)
        return f"{text}\n{_NEXT_TEXT}" if index == self._next else text

    def _note_turn(self, snapshot: Snapshot | None, pace: Pace) -> None:
        # Before the new snapshot takes the place of the old one.
        cpus = snapshot.cpus if snapshot else ()
        before = self._snapshot.cpus if self._snapshot else ()
        same = snapshot and self._snapshot and snapshot.micro_ops == self._snapshot.micro_ops
        if not same:  # the same moment shown again still was stepped to
            self._stepped = stepped_cpu(before, cpus)
        self._pace = pace
        self._next = -1 if pace is Pace.FAST else next_cpu(cpus)

    def _show_next(self, snapshot: Snapshot | None) -> None:
        # Once for each moment: whoever scrolls away to look at another card is left alone.
        if snapshot is None or self._pace is not Pace.STILL or self._next < 0:
            self._scrolled_for = -1
            return
        if snapshot.micro_ops == self._scrolled_for or self._next >= len(self._layout.places):
            return
        self._scrolled_for = snapshot.micro_ops
        place, bar = self._layout.places[self._next], self.verticalScrollBar()
        lowest = place.y + place.height - self.viewport().height()
        bar.setValue(min(max(bar.value(), lowest), place.y))

    def _card_at(self, position: QPoint) -> int:
        return self._layout.card_at(position.x(), position.y() + self.verticalScrollBar().value())

    def _idle(self) -> list[bool]:
        return [count >= _IDLE_PICTURES for count in self._halted_for]

    def _fonts(self) -> CardFonts:
        return card_fonts(self.font(), self._code_font)

    def _place(self) -> None:
        size = self.viewport().size()
        line = math.ceil(self._fonts().line)
        self._layout = lay_out_cards(self._idle(), size.width(), size.height(), self._focus, line)
        bar = self.verticalScrollBar()
        bar.setRange(0, max(0, self._layout.content_height - size.height()))
        bar.setPageStep(size.height())
        bar.setSingleStep(40)
        self.viewport().update()

    def _draw_cards(self, painter: QPainter, snapshot: Snapshot) -> None:
        offset = self.verticalScrollBar().value()
        bottom = self.viewport().height()
        cards = CardPainter(painter, self._theme, self._fonts())
        for index, (place, cpu) in enumerate(zip(self._layout.places, snapshot.cpus, strict=False)):
            rect = QRectF(place.x, place.y - offset, place.width, place.height)
            if rect.bottom() < 0 or rect.top() > bottom:
                continue
            cards.draw(
                rect,
                cpu,
                self._sources,
                snapshot.clock_cycles,
                index == self._focus,
                self._pace,
                index == self._next,
            )


def cpu_facts(cpu: CpuView, now_cycles: float) -> str:
    """What the tooltip says of a CPU, as lines of text."""
    stack = " › ".join(frame.function for frame in cpu.frames) or "no function"
    lines = [
        f"CPU {cpu.number}, node {cpu.node}: {state_text(cpu, now_cycles).text}",
        stack,
        f"Next micro-op: {cpu.micro_op_text}" if cpu.micro_op_text else "",
        f"{flags_text(cpu)}  interrupt depth {cpu.interrupt_depth}",
        f"Clock {numbers.cycles(cpu.clock_cycles)}, {numbers.plural(cpu.micro_ops, 'micro-op')}",
        f"{numbers.plural(cpu.operations, 'operation')}, "
        f"{numbers.integer(cpu.slow_path_operations)} on the slow path",
        *(f"{name.capitalize()}: {value}" for name, value in cpu.extra),
    ]
    return "\n".join(line for line in lines if line)
