"""Painting over and under the text of the source panel: executing expressions, and values at line ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPen, QTextBlock

from slubviz.model.snapshot import SourceSpan
from slubviz.views.call_stack_painter import blend
from slubviz.views.source_panel_content import CpuPlace, LineValue
from slubviz.views.theme import Theme

_BAND, _OTHER_CPU = 0.10, 0.26
_GAP = 26.0
#: Of a value that is cut, at least so many characters remain.
_LEAST_VALUE = 10


@dataclass(frozen=True)
class Marks:
    """What is marked in one file."""

    places: tuple[CpuPlace, ...] = ()  #: executing expressions in this file
    cpu: int = 0  #: the chosen CPU
    span: SourceSpan | None = None  #: of the chosen frame, if it is in this file
    innermost: bool = True
    values: Mapping[int, Sequence[LineValue]] = field(default_factory=dict)  #: by line

    @property
    def line(self) -> int:
        """Where the chosen frame is; 0 if that is in another file."""
        return self.span.line if self.span is not None else 0


@dataclass(frozen=True)
class PlacedBlock:
    """A visible line of text."""

    number: int  #: from 1
    block: QTextBlock
    rect: QRectF  #: in the viewport


def span_rect(placed: PlacedBlock, span: SourceSpan) -> QRectF:
    """Where the part of a span is that lies in one line."""
    text = placed.block.text()
    start = span.column - 1 if placed.number == span.line else len(text) - len(text.lstrip())
    end = span.end_column - 1 if placed.number == span.end_line else len(text.rstrip())
    line = placed.block.layout().lineAt(0)
    left = _x_of(line, min(start, len(text)))
    right = _x_of(line, min(max(start, end), len(text)))
    origin = placed.rect.left() + placed.block.layout().position().x()
    return QRectF(origin + left - 2, placed.rect.top() + 1, right - left + 4, placed.rect.height() - 2)


def _x_of(line: object, column: int) -> float:
    # The binding gives the place alone or with the column, depending on its version.
    x = line.cursorToX(column)  # type: ignore[attr-defined]
    return float(x[0] if isinstance(x, tuple) else x)


def paint_under(
    painter: QPainter, blocks: Sequence[PlacedBlock], marks: Marks, theme: Theme, width: int
) -> None:
    """The band of the chosen line, and the expression of each CPU, the chosen CPU's last."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    others = [place for place in marks.places if place.cpu != marks.cpu]
    own = [place for place in marks.places if place.cpu == marks.cpu]
    for placed in blocks:
        if placed.number == marks.line:
            band = QRectF(0, placed.rect.top(), width, placed.rect.height())
            painter.fillRect(band, blend(theme.color("panel"), theme.cpu_color(marks.cpu), _BAND))
    for place in (*others, *own):
        for placed in _within(blocks, place.span):
            _mark(painter, span_rect(placed, place.span), theme, place.cpu, place.cpu == marks.cpu)
    if marks.span is not None and not marks.innermost:
        painter.setPen(QPen(theme.cpu_color(marks.cpu), 1.4, Qt.PenStyle.DashLine))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for placed in _within(blocks, marks.span):
            painter.drawRoundedRect(span_rect(placed, marks.span), 3, 3)


def _within(blocks: Sequence[PlacedBlock], span: SourceSpan) -> list[PlacedBlock]:
    return [placed for placed in blocks if span.line <= placed.number <= span.end_line]


def _mark(painter: QPainter, rect: QRectF, theme: Theme, cpu: int, chosen: bool) -> None:
    colour = theme.cpu_color(cpu)
    if chosen:
        painter.setPen(QPen(colour, 1.8))
        painter.setBrush(theme.color("code_mark"))
    else:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(blend(theme.color("panel"), colour, _OTHER_CPU))
    painter.drawRoundedRect(rect, 3, 3)


def paint_values(
    painter: QPainter,
    blocks: Sequence[PlacedBlock],
    marks: Marks,
    theme: Theme,
    font: QFont,
    width: int,
) -> None:
    """Values of the chosen frame's variables, each line's behind its text."""
    metrics = QFontMetricsF(font)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setFont(font)
    for placed in blocks:
        values = marks.values.get(placed.number)
        if not values:
            continue
        line = placed.block.layout().lineAt(0)
        x = placed.rect.left() + placed.block.layout().position().x() + line.naturalTextWidth() + _GAP
        shown = fitting_values(values, width - x - 10, metrics)
        if not shown:
            continue
        rect = QRectF(x - 6, placed.rect.top() + 1.5, metrics.horizontalAdvance(shown) + 12, 0)
        rect.setHeight(placed.rect.height() - 3)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("sunken" if placed.number != marks.line else "panel"))
        painter.drawRoundedRect(rect, 4, 4)
        painter.setPen(theme.color("text" if placed.number == marks.line else "text_muted"))
        painter.drawText(rect.adjusted(6, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, shown)


def fitting_values(values: Sequence[LineValue], room: float, metrics: QFontMetricsF) -> str:
    """As many values as there is room for; a single one may be cut if enough of it is left."""
    texts = [f"{value.name} = {value.text}" for value in values]
    while len(texts) > 1 and metrics.horizontalAdvance("   ".join(texts)) > room:
        texts.pop()
    least = metrics.horizontalAdvance(values[0].name) + _LEAST_VALUE * metrics.averageCharWidth()
    if metrics.horizontalAdvance(texts[0]) > room and room < least:
        return ""
    return metrics.elidedText("   ".join(texts), Qt.TextElideMode.ElideRight, room)
