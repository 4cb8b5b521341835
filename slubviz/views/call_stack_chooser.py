"""The row of CPUs above a call stack: a dot for the state, the number, and which one runs next.

Two rows at most; of more CPUs, those around the chosen one are shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from slubviz.views.call_stack_content import CpuTab
from slubviz.views.call_stack_painter import StackFonts
from slubviz.views.theme import Theme

_MOST_ROWS = 2
_GAP = 4


@dataclass(frozen=True)
class ChipRow:
    """Which chips are shown, and how many in a row."""

    first: int
    last: int  #: exclusive
    columns: int

    @property
    def rows(self) -> int:
        """Rows that are filled."""
        return max(1, math.ceil((self.last - self.first) / self.columns))


def chip_rows(count: int, chosen: int, width: int, chip: int) -> ChipRow:
    """Which chips of ``count`` fit into two rows; the chosen one is always among them.

    Parameters
    ----------
    chosen : int
        Position of the chosen chip.
    width, chip : int
        Of the widget and of a chip, in pixels.
    """
    columns = max(1, (width + _GAP) // (chip + _GAP))
    room = columns * _MOST_ROWS
    if count <= room:
        return ChipRow(0, count, columns)
    first = min(max(0, chosen - room // 2), count - room)
    return ChipRow(first, first + room, columns)


class CpuChooser(QWidget):
    """Lets one choose a CPU with the mouse, with the arrow keys or with its digit."""

    cpu_chosen = Signal(int)  # number

    def __init__(self, theme: Theme, fonts: StackFonts, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._fonts = theme, fonts
        self._tabs: tuple[CpuTab, ...] = ()
        self._cpu = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("CPU whose call stack is shown")

    def set_look(self, theme: Theme, fonts: StackFonts) -> None:
        """Change colours and fonts."""
        self._theme, self._fonts = theme, fonts
        self._grow()

    def show_tabs(self, tabs: tuple[CpuTab, ...], cpu: int) -> None:
        """Show the CPUs and which one is chosen."""
        if (tabs, cpu) == (self._tabs, self._cpu):
            return
        recount = len(tabs) != len(self._tabs)
        self._tabs, self._cpu = tabs, cpu
        chosen = self._chosen()
        if chosen < len(tabs):
            self.setAccessibleDescription(f"CPU {tabs[chosen].number}: {tabs[chosen].text}")
        if recount:
            self._grow()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self._height())

    def cpu_at(self, position: QPointF) -> int:
        """Number of the CPU at a point, -1 for none."""
        shown = self._shown()
        for index in range(shown.first, shown.last):
            if self._chip_rect(shown, index).contains(position):
                return self._tabs[index].number
        return -1

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._grow()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        number = self.cpu_at(event.position())
        if event.button() is Qt.MouseButton.LeftButton and number >= 0:
            self.cpu_chosen.emit(number)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier or not self._tabs:
            super().keyPressEvent(event)
        elif step is not None:
            self.choose_beside(step)
        elif event.text().isdigit() and any(tab.number == int(event.text()) for tab in self._tabs):
            self.cpu_chosen.emit(int(event.text()))
        else:
            super().keyPressEvent(event)

    def choose_beside(self, step: int) -> None:
        """Choose the CPU before or after the chosen one, as far as there is one."""
        place = self._chosen() + step
        if 0 <= place < len(self._tabs):
            self.cpu_chosen.emit(self._tabs[place].number)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.update()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.tooltip_at(QPointF(event.pos())), self)
            return True
        return super().event(event)

    def tooltip_at(self, position: QPointF) -> str:
        """What a CPU does, and why it is marked."""
        number = self.cpu_at(position)
        tab = next((tab for tab in self._tabs if tab.number == number), None)
        if tab is None:
            return ""
        text = f"CPU {tab.number}: {tab.text}"
        if tab.depth:
            text += f"\n{tab.depth} nested interrupt{'s' if tab.depth > 1 else ''}"
        return text + ("\nExecutes the next micro-op" if tab.next else "")

    # Geometry

    def _chosen(self) -> int:
        return next((i for i, tab in enumerate(self._tabs) if tab.number == self._cpu), 0)

    def _chip(self) -> tuple[int, int]:
        # One size for all, so that nothing moves when the mark of the next one moves on.
        metrics = self._fonts.bold_metrics
        widest = max((len(str(tab.number)) for tab in self._tabs), default=1)
        dot = metrics.height() * 0.6
        return round(dot + metrics.horizontalAdvance("0" * widest) + 24), round(metrics.height() + 9)

    def _shown(self) -> ChipRow:
        return chip_rows(len(self._tabs), self._chosen(), self.width(), self._chip()[0])

    def _height(self) -> int:
        rows = self._shown().rows
        return rows * self._chip()[1] + (rows - 1) * _GAP

    def _grow(self) -> None:
        if self.minimumHeight() != self._height():
            self.setFixedHeight(self._height())
        self.updateGeometry()
        self.update()

    def _chip_rect(self, shown: ChipRow, index: int) -> QRectF:
        width, height = self._chip()
        row, column = divmod(index - shown.first, shown.columns)
        return QRectF(column * (width + _GAP), row * (height + _GAP), width, height)

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        shown = self._shown()
        for index in range(shown.first, shown.last):
            self._draw_chip(painter, self._chip_rect(shown, index), self._tabs[index])
        painter.end()

    def _draw_chip(self, painter: QPainter, rect: QRectF, tab: CpuTab) -> None:
        theme = self._theme
        chosen = tab.number == self._cpu
        ground = theme.color("accent" if chosen else "panel")
        edge = theme.color("accent" if chosen or tab.next else "border")
        painter.setPen(QPen(edge, 1.5 if tab.next and not chosen else 1.0))
        painter.setBrush(ground)
        painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), 6, 6)
        if chosen and self.hasFocus():
            painter.setPen(QPen(theme.color("on_accent"), 1.0, Qt.PenStyle.DotLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(3, 3, -3, -3), 4, 4)
        size = self._fonts.bold_metrics.height() * 0.3
        centre = QPointF(rect.left() + 8 + size, rect.center().y())
        self._draw_dot(painter, centre, size, tab, theme.on_accent if chosen else getattr(theme, tab.colour))
        text = "on_accent" if chosen else "text_muted" if tab.halted else "text"
        painter.setPen(theme.color(text))
        painter.setFont(self._fonts.bold)
        place = rect.adjusted(2 * size + 9, 0, -8, 0)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, str(tab.number))
        if tab.next:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("on_accent" if chosen else "accent"))
            bar = QRectF(rect.left() + 8, rect.bottom() - 5, rect.width() - 16, 2.5)
            painter.drawRoundedRect(bar, 1.2, 1.2)

    @staticmethod
    def _draw_dot(painter: QPainter, centre: QPointF, size: float, tab: CpuTab, colour: str) -> None:
        # The form says it too: a ring is halted, a square waits, a triangle is in an interrupt, a disc runs.
        if tab.halted:
            painter.setPen(QPen(QColor(colour), 1.6))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(centre, size - 0.8, size - 0.8)
            return
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        if tab.colour in ("cpu_waiting", "cpu_rendezvous"):
            painter.drawRect(
                QRectF(centre.x() - size * 0.85, centre.y() - size * 0.85, size * 1.7, size * 1.7)
            )
        elif tab.colour == "interrupt":
            points = [(0.0, -size), (size, size * 0.8), (-size, size * 0.8)]
            painter.drawPolygon(QPolygonF([centre + QPointF(x, y) for x, y in points]))
        else:
            painter.drawEllipse(centre, size, size)
