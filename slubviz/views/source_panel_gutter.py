"""The margin of the source text: breakpoints, the CPUs that are at a line, line numbers, heat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QToolTip, QWidget

from slubviz.views import numbers
from slubviz.views.call_stack_painter import blend
from slubviz.views.source_panel_content import heat_text
from slubviz.views.source_panel_marks import PlacedBlock
from slubviz.views.theme import Theme

if TYPE_CHECKING:
    from slubviz.model.travel.heat import Heat

#: CPUs at one line that have a badge of their own.
_MOST_BADGES = 2
_HEAT_WIDTH = 28.0


@dataclass(frozen=True)
class GutterContent:
    """What the margin shows of one file."""

    file: str = ""
    code_lines: frozenset[int] = frozenset()
    breakpoints: Mapping[int, bool] = field(default_factory=dict)  #: line: enabled
    cpus: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  #: line: CPUs, the chosen one first
    cpu: int = 0  #: the chosen one
    heat: Heat | None = None
    hottest: float = 1.0  #: cycles of the hottest line of the program


class Gutter(QWidget):
    """Left of the text; a click on a line with code asks for a breakpoint."""

    line_clicked = Signal(int)  # from 1

    def __init__(self, theme: Theme, blocks: Callable[[], Sequence[PlacedBlock]], text: QWidget) -> None:
        super().__init__(text)
        self._theme = theme
        self._blocks = blocks
        self._text = text
        self._content = GutterContent()
        self._lines = 1
        self._hover = 0
        self._compact = False
        self.setMouseTracking(True)
        self.setAccessibleName("Breakpoints and line numbers")

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.update()

    def show_content(self, content: GutterContent, lines: int) -> None:
        """Show another file or moment; ``lines`` is the length of the file."""
        if content != self._content or lines != self._lines:
            self._content, self._lines = content, lines
            self.update()

    def set_compact(self, on: bool) -> None:
        """Without room for breakpoints and second CPUs, as long as there are none."""
        self._compact = on
        self.update()

    @property
    def content(self) -> GutterContent:
        """What is shown."""
        return self._content

    def needed_width(self) -> int:
        """Depends on the font, the length of the file, whether there is heat, what a compact one shows."""
        columns = self._columns()
        return round(columns[-1] + (_HEAT_WIDTH + 6 if self._content.heat is not None else 4))

    def sizeHint(self) -> QSize:
        return QSize(self.needed_width(), 100)

    def _metrics(self) -> QFontMetricsF:
        return QFontMetricsF(self.font())

    def _columns(self) -> tuple[float, float, float]:
        # Where the column of breakpoints, that of CPUs and that of line numbers end.
        metrics = self._metrics()
        dots = metrics.height() + 2
        badge = metrics.height() * 0.95
        most, least_digits = _MOST_BADGES, 3
        if self._compact:
            least_digits = 2
            dots = dots if self._content.breakpoints else 3.0
            most = min(most, max((len(cpus) for cpus in self._content.cpus.values()), default=1))
        badges = dots + most * (badge + 2)
        digits = metrics.horizontalAdvance("0") * max(least_digits, len(str(self._lines)))
        return dots, badges, badges + digits + 8

    # Events

    def line_at(self, position: QPointF) -> int:
        """The line at a point, 0 for none."""
        for placed in self._blocks():
            if placed.rect.top() <= position.y() < placed.rect.bottom():
                return placed.number
        return 0

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        line = self.line_at(event.position())
        can = line in self._content.code_lines or line in self._content.breakpoints
        self.setCursor(Qt.CursorShape.PointingHandCursor if can else Qt.CursorShape.ArrowCursor)
        if line != self._hover:
            self._hover = line
            self.update()

    def leaveEvent(self, event: QEvent) -> None:
        self._hover = 0
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        line = self.line_at(event.position())
        if event.button() is Qt.MouseButton.LeftButton and line:
            self.line_clicked.emit(line)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def wheelEvent(self, event: QWheelEvent) -> None:
        QApplication.sendEvent(self._text.viewport(), event)  # type: ignore[attr-defined]

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            line = self.line_at(QPointF(event.pos()))
            QToolTip.showText(event.globalPos(), self.tooltip_of(line), self)
            return True
        return super().event(event)

    def tooltip_of(self, line: int) -> str:
        """What there is to say of a line."""
        content = self._content
        if line == 0:
            return ""
        texts = [f"{content.file}:{line}"]
        if line in content.breakpoints:
            state = "" if content.breakpoints[line] else ", disabled"
            texts.append(f"Breakpoint{state}; click to take it away")
        elif line in content.code_lines:
            texts.append("Click to set a breakpoint")
        else:
            texts.append("No code here")
        cpus = content.cpus.get(line, ())
        if cpus:
            texts.append("Here: " + ", ".join(f"CPU {cpu}" for cpu in cpus))
        if content.heat is not None:
            texts.append(heat_text(content.heat, content.file, line) or "not executed")
        return "\n".join(texts)

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(event.rect(), self._theme.color("sunken"))
        columns = self._columns()
        painter.setFont(self.font())
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.Bold)
        for placed in self._blocks():
            if placed.rect.bottom() < event.rect().top() or placed.rect.top() > event.rect().bottom():
                continue
            self._draw_breakpoint(painter, placed, columns[0])
            painter.setFont(bold)
            self._draw_badges(painter, placed, columns[0])
            painter.setFont(self.font())
            self._draw_number(painter, placed, columns[1], columns[2])
            if self._content.heat is not None:
                self._draw_heat(painter, placed, columns[2], self._content.heat)
        painter.end()

    def _draw_breakpoint(self, painter: QPainter, placed: PlacedBlock, width: float) -> None:
        line, content = placed.number, self._content
        hovered = line == self._hover and line in content.code_lines
        if line not in content.breakpoints and not hovered:
            return
        colour = self._theme.color("breakpoint")
        radius = min(width, placed.rect.height()) * 0.32
        centre = QPointF(width / 2, placed.rect.center().y())
        if line not in content.breakpoints:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(blend(self._theme.color("sunken"), colour, 0.35))
        elif content.breakpoints[line]:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
        else:
            painter.setPen(QPen(colour, 1.6))
            painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawEllipse(centre, radius, radius)

    def _draw_badges(self, painter: QPainter, placed: PlacedBlock, left: float) -> None:
        cpus = self._content.cpus.get(placed.number, ())
        if not cpus:
            return
        size = self._metrics().height() * 0.95
        shown = cpus if len(cpus) <= _MOST_BADGES else cpus[: _MOST_BADGES - 1]
        x = left
        y = placed.rect.center().y() - size / 2
        for cpu in shown:
            rect = QRectF(x, y, size, size)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._theme.cpu_color(cpu))
            painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
            painter.setPen(self._theme.color("on_cpu"))
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, str(cpu))
            x += size + 2
        if len(shown) < len(cpus):
            painter.setPen(self._theme.color("text"))
            rect = QRectF(x, y, size + 4, size)
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, f"+{len(cpus) - len(shown)}")

    def _draw_number(self, painter: QPainter, placed: PlacedBlock, left: float, right: float) -> None:
        theme = self._theme
        colour = theme.color("text_muted")
        if placed.number not in self._content.code_lines:
            colour = blend(theme.color("sunken"), colour, 0.5)
        if self._content.cpu in self._content.cpus.get(placed.number, ()):
            colour = theme.color("text")
        painter.setPen(colour)
        rect = QRectF(left, placed.rect.top(), right - left - 5, placed.rect.height())
        flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(rect, flags, str(placed.number))

    def _draw_heat(self, painter: QPainter, placed: PlacedBlock, left: float, heat: Heat) -> None:
        found = heat.of_line(self._content.file, placed.number)
        if found is None:
            return
        scale = _HEAT_WIDTH / self._content.hottest
        width = max(2.0, min(_HEAT_WIDTH, found.cycles * scale))
        bar = QRectF(left, placed.rect.top() + 2, width, placed.rect.height() - 4)
        ground, hot = self._theme.color("sunken"), self._theme.color("heat")
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(blend(ground, hot, 0.35 + 0.65 * width / _HEAT_WIDTH))
        painter.drawRoundedRect(bar, 2, 2)
        if found.wait_cycles:
            rest = max(2.0, min(left + _HEAT_WIDTH - bar.right(), found.wait_cycles * scale))
            painter.setBrush(self._theme.color("activity_waiting"))
            painter.drawRoundedRect(QRectF(bar.right(), bar.top(), rest, bar.height()), 2, 2)


def heat_summary(heat: Heat | None) -> str:
    """One line about the part of the run that the heat is of."""
    if heat is None:
        return ""
    first, last = numbers.integer(heat.first), numbers.integer(heat.last)
    waited = f" and {numbers.cycles(heat.wait_cycles)} of waiting" if heat.wait_cycles else ""
    return f"{numbers.cycles(heat.cycles)}{waited} in micro-ops {first} to {last}"
