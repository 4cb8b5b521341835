"""The heat map of a comparison: one widget that paints every cell, with its figures as a tooltip.

Colour is the error, clipped at ±50 %; the number in the cell says the same.  A cell that is not measured
yet is an outline.  A click, or Return on the cell that the arrow keys have reached, chooses a cell; a click
on the title of a test chooses the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QLinearGradient,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QSizePolicy, QToolTip, QWidget

from slubviz.views import numbers
from slubviz.views.fidelity_report import point_label
from slubviz.views.heat_layout import (
    HeatCell,
    HeatGroup,
    HeatLayout,
    HeatMeasures,
    HeatText,
    lay_out_heat_map,
)
from slubviz.views.progress_plot import range_text, value_text
from slubviz.views.theme import Theme

if TYPE_CHECKING:
    from slubviz.model.compare import ComparedCell, Comparison
    from slubviz.model.compare_table import CellKey

#: Errors beyond this have the strongest colour.
CLIP_PERCENT = 50.0
#: Errors at which the theme's colours stand; between them colours are mixed.
_STOPS = (
    (-CLIP_PERCENT, "error_fast_most"),
    (-CLIP_PERCENT / 2, "error_fast"),
    (0.0, "error_none"),
    (CLIP_PERCENT / 2, "error_slow"),
    (CLIP_PERCENT, "error_slow_most"),
)
_CENTER = Qt.AlignmentFlag.AlignCenter
_MARGIN = 4
_DIRECTIONS = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}


def error_colour(theme: Theme, error_percent: float) -> QColor:
    """The colour of an error, clipped at ``CLIP_PERCENT``."""
    clipped = min(max(error_percent, -CLIP_PERCENT), CLIP_PERCENT)
    for (low, first), (high, second) in pairwise(_STOPS):
        if clipped <= high:
            share = (clipped - low) / (high - low)
            one, other = theme.color(first), theme.color(second)
            mixed = [
                round(a + (b - a) * share)
                for a, b in zip(one.getRgb()[:3], other.getRgb()[:3], strict=True)  # type: ignore[index]
            ]
            return QColor(*mixed)
    return theme.color(_STOPS[-1][1])  # not a number


def ink_on(ground: QColor) -> QColor:
    """Black or white, whichever can be read better."""
    from slubviz.model.heatmap import text_colour

    return QColor(text_colour((ground.redF(), ground.greenF(), ground.blueF())))


class HeatMap(QAbstractScrollArea):
    """Shows the cells of a comparison, measured or not."""

    cell_chosen = Signal(object)  # CellKey
    test_chosen = Signal(str, str)  # machine and title of a test

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._published: Mapping[CellKey, tuple[float, float]] = {}
        self._cells: dict[CellKey, ComparedCell] = {}
        self._medians: Mapping[tuple[str, str], str] = {}
        self._layout = HeatLayout()
        self._current: CellKey | None = None
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setAutoFillBackground(False)
        self.viewport().setMouseTracking(True)
        self.setMinimumHeight(120)
        self.setAccessibleName("Heat map of errors")

    @property
    def heat_layout(self) -> HeatLayout:
        """Where the cells are."""
        return self._layout

    @property
    def current(self) -> CellKey | None:
        """The cell that the arrow keys have reached."""
        return self._current

    def sizeHint(self) -> QSize:
        return QSize(960, 320)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.viewport().update()

    def show_cells(
        self,
        published: Mapping[CellKey, tuple[float, float]],
        comparison: Comparison | None,
        medians: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        """Show cells.

        Parameters
        ----------
        published
            The wanted cells with their published range in cycles, in the order of the tables.
        comparison
            What of them is measured; None for nothing.
        medians
            By machine and title of a test, the text below its title.
        """
        if published.keys() != self._published.keys():
            self._current = None
            self._published = published
            self._place()
        self._cells = {cell.key: cell for cell in comparison.cells} if comparison else {}
        self._medians = medians
        self.viewport().update()

    def tooltip_at(self, position: QPoint) -> str:
        """All figures of the cell at a position of the viewport; empty if none is there."""
        cell = self._layout.cell_at(*self._content(position))
        if cell is None:
            return ""
        return cell_facts(cell.key, self._published[cell.key], self._cells.get(cell.key))

    def rect_of(self, key: CellKey) -> QRect:
        """A cell's rectangle in the viewport."""
        cell = next(cell for cell in self._layout.cells if cell.key == key)
        return self._rect(cell)

    # Events

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), self._theme.color("panel"))
        visible = self.viewport().rect()
        for cell in self._layout.cells:
            rect = self._rect(cell)
            if rect.intersects(visible):
                self._draw_cell(painter, rect, cell.key)
        self._draw_texts(painter)
        for group in self._layout.groups:
            self._draw_group(painter, group)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._place()

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.FontChange:
            self._place()
        super().changeEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.tooltip_at(event.pos()), self.viewport())
            return True
        return super().viewportEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        found = self._found(event.position().toPoint())
        shape = Qt.CursorShape.ArrowCursor if found is None else Qt.CursorShape.PointingHandCursor
        self.viewport().setCursor(shape)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            found = self._found(event.position().toPoint())
            if isinstance(found, HeatCell):
                self._current = found.key
                self.cell_chosen.emit(found.key)
            elif found is not None:
                self.test_chosen.emit(found.machine, found.title)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in _DIRECTIONS and self._layout.cells:
            self._go(*_DIRECTIONS[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._current is not None:
            self.cell_chosen.emit(self._current)
        else:
            super().keyPressEvent(event)

    # Parts

    def _go(self, right: int, down: int) -> None:
        if self._current is None:
            self._current = self._layout.cells[0].key
        else:
            self._current = self._layout.neighbour(self._current, right, down)
        self.setAccessibleDescription(
            cell_facts(self._current, self._published[self._current], self._cells.get(self._current))
        )
        rect = self.rect_of(self._current)
        for bar, low, high, room in (
            (self.horizontalScrollBar(), rect.left(), rect.right(), self.viewport().width()),
            (self.verticalScrollBar(), rect.top(), rect.bottom(), self.viewport().height()),
        ):
            bar.setValue(
                bar.value() + min(max(high - room + 8, 0), low) if high > room else bar.value() + min(low, 0)
            )
        self.viewport().update()

    def _found(self, position: QPoint) -> HeatCell | HeatGroup | None:
        x, y = self._content(position)
        line = self.fontMetrics().height()
        return self._layout.cell_at(x, y) or self._layout.group_at(x, y, 2 * line)

    def _content(self, position: QPoint) -> tuple[int, int]:
        return (
            position.x() + self.horizontalScrollBar().value() - _MARGIN,
            position.y() + self.verticalScrollBar().value(),
        )

    def _rect(self, place: HeatCell | HeatText) -> QRect:
        return QRect(
            place.x - self.horizontalScrollBar().value() + _MARGIN,
            place.y - self.verticalScrollBar().value(),
            place.width,
            place.height,
        )

    def _bold(self) -> QFont:
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.DemiBold)
        return bold

    def _place(self) -> None:
        metrics, bold = self.fontMetrics(), QFontMetrics(self._bold())
        measures = HeatMeasures(metrics.height(), metrics.horizontalAdvance, bold.horizontalAdvance)
        size = self.viewport().size()
        self._layout = lay_out_heat_map(list(self._published), size.width() - 2 * _MARGIN, measures)
        for bar, content, room in (
            (self.horizontalScrollBar(), self._layout.width + 2 * _MARGIN, size.width()),
            (self.verticalScrollBar(), self._layout.height + _MARGIN, size.height()),
        ):
            bar.setRange(0, max(0, content - room))
            bar.setPageStep(room)
            bar.setSingleStep(measures.row)
        self.viewport().update()

    def _draw_cell(self, painter: QPainter, rect: QRect, key: CellKey) -> None:
        inner = rect.adjusted(0, 0, -1, -1)
        cell = self._cells.get(key)
        if cell is None:
            painter.setPen(self._theme.color("border"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(inner.adjusted(0, 0, -1, -1))
        else:
            ground = error_colour(self._theme, cell.error_percent)
            painter.fillRect(inner, ground)
            painter.setPen(ink_on(ground))
            painter.setFont(self.font())
            painter.drawText(inner, _CENTER, error_text(cell.error_percent))
        if key == self._current and self.hasFocus():
            painter.setPen(QPen(self._theme.color("text"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(inner.adjusted(1, 1, -1, -1))

    def _draw_texts(self, painter: QPainter) -> None:
        metrics = self.fontMetrics()
        painter.setFont(self._bold())
        painter.setPen(self._theme.color("text"))
        for text in self._layout.titles:
            painter.drawText(self._rect(text), Qt.AlignmentFlag.AlignLeft, text.text)
        painter.setFont(self.font())
        painter.setPen(self._theme.color("text_muted"))
        for text in self._layout.kernels:
            shown = metrics.elidedText(text.text, Qt.TextElideMode.ElideMiddle, text.width - 2)
            painter.drawText(self._rect(text), _CENTER, shown)
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for text in self._layout.points:
            painter.drawText(self._rect(text), right, text.text)

    def _draw_group(self, painter: QPainter, group: HeatGroup) -> None:
        line = self.fontMetrics().height()
        rect = self._rect(HeatText("", group.x, group.y, group.width, line))
        painter.setFont(self._bold())
        painter.setPen(self._theme.color("text"))
        shown = painter.fontMetrics().elidedText(group.title, Qt.TextElideMode.ElideRight, rect.width())
        painter.drawText(rect, _CENTER, shown)
        painter.setFont(self.font())
        painter.setPen(self._theme.color("text_muted"))
        painter.drawText(
            rect.translated(0, line), _CENTER, self._medians.get((group.machine, group.title), "")
        )


def error_text(error_percent: float) -> str:
    """``+7``, ``−0.4``, ``0``: short enough for a cell."""
    if error_percent == 0:
        return "0"
    digits = 1 if abs(error_percent) < 0.95 else 0
    text = f"{error_percent:+.{digits}f}"
    return "0" if float(text) == 0 else text.replace("-", numbers.MINUS)


def cell_facts(key: CellKey, published: tuple[float, float], cell: ComparedCell | None) -> str:
    """What the tooltip says of a cell, as lines of text."""
    where = point_label(key.test, key.point) if key.point else "one number for all sizes"
    lines = [
        f"{key.kernel} on {key.machine}",
        f"Test {key.test}, {key.operation}, {where}",
        f"Published {range_text(*published)} cycles",
    ]
    if cell is None:
        return "\n".join([*lines, "Not measured yet"])
    lines.append(f"Simulated {value_text(cell.mean)} cycles")
    if len(cell.samples) > 1:
        spread = f"± {value_text(cell.sd)}, {range_text(min(cell.samples), max(cell.samples))}"
        lines[-1] += f" (mean of {numbers.plural(len(cell.samples), 'seed')}; {spread})"
    if cell.points_low != cell.points_high:
        lines.append(f"The sizes range over {range_text(cell.points_low, cell.points_high)}")
    within = cell.error_percent == 0 and published[0] != published[1]
    lines.append(
        "Within the published range" if within else f"Error {numbers.signed_percent(cell.error_percent)}"
    )
    return "\n".join([*lines, "Click to load it into the laboratory"])


class HeatLegend(QWidget):
    """The scale of colours with its ends."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Colours: simulated too fast, right, too slow")

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(480, self.fontMetrics().height() + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        metrics = self.fontMetrics()
        painter.setPen(self._theme.color("text_muted"))
        vcenter = Qt.AlignmentFlag.AlignVCenter
        limit = f"{CLIP_PERCENT:.0f}{numbers.THIN}%"
        texts = [f"{numbers.MINUS}{limit}  too fast", f"too slow  +{limit}"]
        x = 0
        painter.drawText(QRect(x, 0, self.width(), self.height()), vcenter, texts[0])
        x += metrics.horizontalAdvance(texts[0]) + 8
        bar = QRectF(x, 3, 160, self.height() - 6)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for percent, _ in _STOPS:
            gradient.setColorAt((percent / CLIP_PERCENT + 1) / 2, error_colour(self._theme, percent))
        painter.fillRect(bar, gradient)
        x += 168
        painter.drawText(QRect(x, 0, self.width(), self.height()), vcenter, texts[1])
        x += metrics.horizontalAdvance(texts[1]) + 24
        rest = "a tall cell stands for all sizes  ·  click a cell to load it, a test for its table"
        room = QRect(x, 0, max(0, self.width() - x), self.height())
        painter.drawText(room, vcenter, metrics.elidedText(rest, Qt.TextElideMode.ElideRight, room.width()))
        painter.end()
