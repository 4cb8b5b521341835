"""The lines below the row of CPUs: what the chosen CPU does, and its flags, depth and locks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from slubviz.views import numbers
from slubviz.views.call_stack_content import CpuTab
from slubviz.views.call_stack_painter import StackFonts
from slubviz.views.theme import Theme

if TYPE_CHECKING:
    from slubviz.model.travel.call_stack import CallStackView

_GAP, _INSET = 5, 7


@dataclass(frozen=True)
class Pill:
    """A fact in a rounded frame."""

    text: str
    colour: str  #: a meaning of the theme
    filled: bool = False


def pills_of(stack: CallStackView) -> tuple[Pill, ...]:
    """Flags, preempt count, depth and locks of a CPU, the most important first."""
    pills = [Pill("next", "accent", filled=True)] if stack.next else []
    pills.append(
        Pill("irq on", "text_muted") if stack.irq_enabled else Pill("irq off", "interrupts_off", filled=True)
    )
    if stack.depth:
        pills.append(Pill(f"depth {stack.depth}", f"interrupt_{(stack.depth - 1) % 3 + 1}", True))
    pills.append(Pill(f"preempt {stack.preempt_count}", "text" if stack.preempt_count else "text_muted"))
    pills += [Pill(f"holds {name}", "lock_held") for name in stack.held_locks]
    return tuple(pills)


def fitting_pills(widths: Sequence[float], room: float, rest: float) -> int:
    """How many pills are drawn whole.

    Parameters
    ----------
    widths : sequence of float
        Of all pills, in order.
    rest : float
        Width of the pill that counts those left out.
    """
    used = 0.0
    for count, width in enumerate(widths):
        last = count == len(widths) - 1
        if used + width + (0.0 if last else rest + _GAP) > room:
            return count
        used += width + _GAP
    return len(widths)


class StackStatus(QWidget):
    """Paints them; three lines if what the CPU does, such as waiting for a lock, is too long for one."""

    def __init__(self, theme: Theme, fonts: StackFonts, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._fonts = theme, fonts
        self._stack: CallStackView | None = None
        self._tab: CpuTab | None = None
        self._corner: QWidget | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._grow()

    def set_look(self, theme: Theme, fonts: StackFonts) -> None:
        """Change colours and fonts."""
        self._theme, self._fonts = theme, fonts
        self._grow()

    def show_stack(self, stack: CallStackView | None, tab: CpuTab | None) -> None:
        """Show a CPU; its tab tells of it what the stack, which may not be known, does not."""
        if (stack, tab) == (self._stack, self._tab):
            return
        self._stack, self._tab = stack, tab
        self.setAccessibleDescription(self.full_text())
        self._grow()

    def set_corner(self, widget: QWidget) -> None:
        """A small widget at the right of the first line."""
        widget.setParent(self)
        self._corner = widget
        self._place_corner()

    def headline(self) -> str:
        """What the CPU does."""
        if self._stack is not None:
            return f"CPU {self._stack.cpu}: {self._stack.state_text}"
        return f"CPU {self._tab.number}: {self._tab.text}" if self._tab is not None else ""

    def full_text(self) -> str:
        """Everything, as lines."""
        if self._stack is None:
            return self.headline()
        return "\n".join(
            [
                self.headline(),
                f"clock {numbers.cycles(self._stack.clock_cycles)}",
                *(pill.text for pill in pills_of(self._stack)),
            ]
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._grow()

    def _place_corner(self) -> None:
        if self._corner is not None:
            size = self._corner.sizeHint()
            self._corner.setGeometry(self.width() - size.width(), 0, size.width(), size.height())

    def sizeHint(self) -> QSize:
        return QSize(200, self.height())

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.full_text(), self)
            return True
        return super().event(event)

    def _grow(self) -> None:
        fonts = self._fonts
        self._place_corner()
        first = fonts.bold_metrics.height() * self.headline_lines()
        height = round(first + fonts.text_metrics.height() + 14)
        if self.minimumHeight() != height:
            self.setFixedHeight(height)
        self.update()

    def headline_lines(self) -> int:
        """Lines that the first text needs: one or two."""
        width = self._fonts.bold_metrics.horizontalAdvance(self.headline())
        return 1 if width <= self._headline_room() else 2

    def _headline_room(self) -> float:
        return self.width() - 2 - (self._corner.width() + 8 if self._corner is not None else 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        text = self.headline()
        if not text:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        fonts = self._fonts
        height = fonts.bold_metrics.height() * self.headline_lines()
        line = QRectF(1, 2, self._headline_room(), height)
        self._draw_headline(painter, line, text)
        if self._stack is not None:
            top = line.bottom() + 4
            row = QRectF(1, top, self.width() - 2, fonts.text_metrics.height() + 4)
            self._draw_pills(painter, row, pills_of(self._stack))
        painter.end()

    def _draw_headline(self, painter: QPainter, line: QRectF, text: str) -> None:
        # Wrapped lines are not filled to the end: a text that is too long even for two gives way a little
        # before that.
        metrics = self._fonts.bold_metrics
        room = line.width() * (1.0 if self.headline_lines() == 1 else 1.85)
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
        painter.setFont(self._fonts.bold)
        painter.setPen(self._theme.color(self._tab.colour if self._tab is not None else "text"))
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextWordWrap
        painter.drawText(line, flags, shown)

    def _draw_pills(self, painter: QPainter, row: QRectF, pills: Sequence[Pill]) -> None:
        metrics = self._fonts.text_metrics
        widths = [metrics.horizontalAdvance(pill.text) + 2 * _INSET for pill in pills]
        rest = metrics.horizontalAdvance("+00") + 2 * _INSET
        count = fitting_pills(widths, row.width(), rest)
        shown = list(pills[:count])
        if count < len(pills):
            shown.append(Pill(f"+{len(pills) - count}", "text_muted"))
            widths[count] = rest
        x = row.left()
        for pill, width in zip(shown, widths, strict=False):
            self._draw_pill(painter, QRectF(x, row.top(), width, row.height()), pill)
            x += width + _GAP

    def _draw_pill(self, painter: QPainter, rect: QRectF, pill: Pill) -> None:
        colour = self._theme.color(pill.colour)
        painter.setPen(QPen(colour if pill.colour != "text_muted" else self._theme.color("border"), 1))
        painter.setBrush(colour if pill.filled else Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), rect.height() / 2, rect.height() / 2)
        painter.setPen(self._theme.color("on_interrupt") if pill.filled else colour)
        painter.setFont(self._fonts.text)
        painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, pill.text)
