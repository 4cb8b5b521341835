"""The slab map: every slab of the cache a tile, one picture, a few draw calls.

Layout and pixels come from ``slab_layout`` and ``slab_raster``; this widget keeps them up to date,
draws the picture and the labels beside it, and tells the facts of the slab under the pointer.
The number of draw calls depends on the number of groups, not on the number of slabs.
With a least size of tiles it scrolls instead of making them smaller; only what is in view is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFont,
    QFontMetrics,
    QHelpEvent,
    QImage,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QScrollBar, QSizePolicy, QToolTip, QWidget

from slubviz.hw.isa import CpuState
from slubviz.model.snapshot import ObjectState, SlabState, SlabTable, Snapshot
from slubviz.views import numbers
from slubviz.views.slab_layout import (
    Group,
    GroupKind,
    MapLayout,
    Row,
    TileLimits,
    group_by_lists,
    group_slabs,
    lay_out,
)
from slubviz.views.slab_raster import RasterColours, SlabRaster, colours_of
from slubviz.views.slab_summary import SlabSummary
from slubviz.views.slab_window import window_of
from slubviz.views.theme import Theme

_STATE_TEXT = {SlabState.EMPTY: "empty", SlabState.PARTIAL: "partial", SlabState.FULL: "full"}
#: Where an object is, for SLUB and for SLAB.
_OBJECT_TEXT = {
    ObjectState.FREE: "free, on the slab's freelist",
    ObjectState.CPU_FREE: "free, on the CPU's freelist",
    ObjectState.ALLOCATED: "allocated",
}
_OBJECT_TEXT_SLAB = {
    **_OBJECT_TEXT,
    ObjectState.FREE: "free, on the slab's own chain",
    ObjectState.CPU_FREE: "free, in the array of a CPU, the shared array or an alien cache",
}
#: Families whose free objects wait in arrays, and whose slabs belong to nodes.
ARRAY_FAMILIES = ("slab",)
_ROW_HEIGHT_FOR_GROUPS = 36
#: Outlines beyond that would hide the slabs, and take long to draw.
MOST_MARKED = 1_000


class SlabMap(QWidget):
    """Shows the slabs of a snapshot."""

    object_clicked = Signal(int, int)  # page frame of its slab, number of the object
    slab_clicked = Signal(int)  # page frame; a click between its objects

    def __init__(
        self,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        limits: TileLimits | None = None,
        labels_above: bool = False,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._limits = limits or TileLimits()
        self._may_label_above = labels_above  # where that leaves more room for tiles
        self._above = False
        self._colours: RasterColours = colours_of(theme)
        self._raster = SlabRaster()
        self._snapshot: Snapshot | None = None
        self._summary: SlabSummary | None = None
        self._layout: MapLayout | None = None
        self._seen_active: list[bool] = []
        self._no_objects = False
        self._marked: frozenset[int] = frozenset()
        self.bar = QScrollBar(Qt.Orientation.Vertical, self)
        self.bar.setAccessibleName("Slabs in view")
        self.bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.bar.hide()
        self.bar.valueChanged.connect(self._refresh)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(280, 160)
        self.setAccessibleName("Slab map")
        self.setAccessibleDescription("Every slab of the cache, by CPU and partial list")

    @property
    def map_layout(self) -> MapLayout | None:
        """The layout that is shown; None before the first snapshot."""
        return self._layout

    @property
    def tiles_drawn(self) -> int:
        """Tiles drawn for the snapshot shown last."""
        return self._raster.tiles_drawn

    def sizeHint(self) -> QSize:
        return QSize(640, 480)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self._colours = colours_of(theme)
        self._refresh()

    def show_slabs(self, snapshot: Snapshot | None, summary: SlabSummary | None) -> None:
        """Show a snapshot's slabs; None clears the map."""
        self._note_active(snapshot)
        self._note_objects(snapshot)
        self._snapshot, self._summary = snapshot, summary
        self._refresh()

    def set_marked(self, page_frames: Collection[int]) -> None:
        """Outline the slabs at some page frames, e.g. those that another run does not have like that."""
        if self._marked != set(page_frames):
            self._marked = frozenset(page_frames)
            self.update()

    def facts(self) -> str:
        """One line about the cache, for the panel's head."""
        snapshot = self._snapshot
        if snapshot is None:
            return ""
        if not self.has_slabs():
            return "no slabs"
        shown = int(snapshot.slabs.page_frame.size)
        total = max(snapshot.total_slabs, shown)
        parts = [numbers.plural(total, "slab")]
        hidden = self._layout.hidden if self._layout else 0
        if hidden:
            parts.append(f"newest {numbers.integer(shown - hidden)} shown")
        partial = int(snapshot.nr_partial.sum())
        parts.append(f"{numbers.integer(partial)} on partial lists")
        chained = int((snapshot.slabs.on_cpu_partial >= 0).sum())
        if chained:
            parts.append(f"{numbers.integer(chained)} on CPUs' chains")
        return "  ·  ".join(parts)

    def has_slabs(self) -> bool:
        """Whether the test works with objects and they come from slabs; True before the first snapshot."""
        return self._snapshot is None or (bool(self._snapshot.cache_name) and not self._no_objects)

    def why_empty(self) -> str:
        """What stands in the place of the map when there are no slabs; empty otherwise."""
        if self._snapshot is None or self.has_slabs():
            return ""
        if self._no_objects:
            return "This test times single instructions: it has no objects"
        size = numbers.integer(self._snapshot.cache_size_bytes)
        return f"{size}-byte objects come straight from the page allocator: no slabs"

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        self.draw(painter)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._refresh()

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.FontChange:
            self._refresh()
        super().changeEvent(event)

    def draw(self, painter: QPainter) -> None:
        """Paint the map: one image, then a few texts and lines per group."""
        if self._layout is None:
            painter.fillRect(self.rect(), self._theme.color("panel"))
            self._draw_why_empty(painter)
            return
        pixels = self._raster.pixels
        height, width = pixels.shape
        image = QImage(pixels.data, width, height, width * 4, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(self._unit())
        painter.drawImage(QPoint(0, 0), image)
        for row in self._layout.rows:
            self._draw_label(painter, row)
        if self._marked:
            self._draw_marks(painter)

    def _draw_marks(self, painter: QPainter) -> None:
        painter.setPen(QPen(self._theme.color("difference"), 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRects(self.marked_places())

    def marked_places(self) -> list[QRectF]:
        """Where the outlined slabs are, in logical pixels; at most ``MOST_MARKED``."""
        if self._layout is None or self._snapshot is None:
            return []
        unit, frames = self._unit(), self._snapshot.slabs.page_frame
        marked = np.isin(frames, np.fromiter(self._marked, dtype=np.int64, count=len(self._marked)))
        places: list[QRectF] = []
        for grid in self._layout.grids:
            style = grid.style
            for place in np.flatnonzero(marked[grid.slabs])[: MOST_MARKED - len(places)].tolist():
                row, column = divmod(place, grid.columns)
                left, top = grid.x + column * style.pitch_x, grid.y + row * style.pitch_y
                rect = QRectF(left / unit, top / unit, style.width / unit, style.height / unit)
                places.append(rect.adjusted(-1, -1, 1, 1))
        return places

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            text = self.tooltip_at(event.pos())
            if text:
                QToolTip.showText(event.globalPos(), text, self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.bar.isHidden():
            super().wheelEvent(event)
        else:
            QApplication.sendEvent(self.bar, event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self._click(event.position().toPoint())
        super().mouseReleaseEvent(event)

    def _click(self, position: QPoint) -> None:
        index, object_number = self._place_at(position)
        if index < 0 or self._snapshot is None:
            return
        slabs = self._snapshot.slabs
        page_frame = int(slabs.page_frame[index])
        if 0 <= object_number < int(slabs.objects[index]):
            self.object_clicked.emit(page_frame, object_number)
        else:
            self.slab_clicked.emit(page_frame)

    def _place_at(self, position: QPoint) -> tuple[int, int]:
        # Slab and object at a position in logical pixels, -1 for none.
        if self._layout is None:
            return -1, -1
        unit = self._unit()
        return self._layout.place_at(int(position.x() * unit), int(position.y() * unit))

    def tooltip_at(self, position: QPoint) -> str:
        """The facts of the slab at a position in logical pixels; empty if none is there."""
        index, object_number = self._place_at(position)
        if index < 0 or self._snapshot is None or self._summary is None:
            return ""
        slabs, family = self._snapshot.slabs, self._snapshot.family
        return slab_facts(slabs, self._summary, index, object_number, family)

    def _unit(self) -> float:
        return self.devicePixelRatioF()

    def _refresh(self) -> None:
        if self._snapshot is None or self._summary is None or not self.has_slabs():
            self._layout = None
            self.bar.hide()
            self.update()
            return
        groups = self._groups(self._snapshot)
        objects = self._summary.objects_per_slab
        height = max(1, int(self.height() * self._unit()))
        layout = self._lay_out(groups, objects, self.width())
        if layout.height > height:
            layout = self._lay_out(groups, objects, self.width() - self.bar.sizeHint().width() - 4)
        self._layout = self._in_view(layout, height)
        self._raster.update(self._layout, self._summary, self._colours)
        self.update()

    def _lay_out(self, groups: Sequence[Group], objects: int, logical_width: int) -> MapLayout:
        unit, limits = self._unit(), self._limits
        width, height = max(1, int(logical_width * unit)), max(1, int(self.height() * unit))
        label_width = round(self._label_width(groups) * unit)
        beside = lay_out(groups, objects, width, height, unit, label_width, limits)
        self._above = False
        if not self._may_label_above:
            return beside
        line = round((self.fontMetrics().height() + 8) * unit)
        limits = replace(limits, label_height=line, least_cell=label_width)
        above = lay_out(groups, objects, width, height, unit, 0, limits)
        self._above = _largest_tile(above) >= _largest_tile(beside) and above.height <= beside.height
        return above if self._above else beside

    def _in_view(self, layout: MapLayout, height: int) -> MapLayout:
        # Of a layout that is higher than the widget, the part that the bar chooses.
        beyond = layout.height - height
        self.bar.blockSignals(True)
        self.bar.setRange(0, max(0, beyond))
        self.bar.setPageStep(height)
        self.bar.setSingleStep(max(1, height // 8))
        self.bar.blockSignals(False)
        self.bar.setVisible(beyond > 0)
        if beyond <= 0:
            return layout
        wide = self.bar.sizeHint().width()
        self.bar.setGeometry(self.width() - wide, 0, wide, self.height())
        part = window_of(layout, self.bar.value(), height)
        return replace(part, width=max(1, int(self.width() * self._unit())))

    def _groups(self, snapshot: Snapshot) -> list[Group]:
        if snapshot.family in ARRAY_FAMILIES:
            return group_by_lists(snapshot.slabs)
        most_groups = max(4, self.height() // _ROW_HEIGHT_FOR_GROUPS - 2)
        cpu_numbers = [cpu.number for cpu in snapshot.cpus]
        return group_slabs(snapshot.slabs, cpu_numbers, self._seen_active, most_groups)

    def _note_objects(self, snapshot: Snapshot | None) -> None:
        # Between phases and after the last one nothing tells: it stays as it was.
        if snapshot is None:
            self._no_objects = False
        elif snapshot.phase is not None:
            self._no_objects = snapshot.phase.size_bytes == 0

    def _note_active(self, snapshot: Snapshot | None) -> None:
        # A CPU that has once run keeps its room until the run starts anew: the rows stay where they are.
        now = [] if snapshot is None else [cpu.state != CpuState.HALTED for cpu in snapshot.cpus]
        before = self._snapshot
        goes_on = snapshot and before and snapshot.micro_ops >= before.micro_ops
        if goes_on and len(now) == len(self._seen_active):
            now = [a or b for a, b in zip(now, self._seen_active, strict=True)]
        self._seen_active = now

    def _label_width(self, groups: Sequence[Group]) -> int:
        metrics = QFontMetrics(self._bold_font())
        widest = max((metrics.horizontalAdvance(group.title) for group in groups), default=0)
        # Room for a count of five digits, so that the tiles do not move while it grows.
        return max(widest, self.fontMetrics().horizontalAdvance("00 000 slabs")) + 16

    def _bold_font(self) -> QFont:
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.DemiBold)
        return bold

    def _draw_why_empty(self, painter: QPainter) -> None:
        painter.setPen(self._theme.color("text_muted"))
        flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
        painter.drawText(self.rect().adjusted(32, 0, -32, 0), flags, self.why_empty())

    def _draw_label(self, painter: QPainter, row: Row) -> None:
        assert self._layout is not None
        unit = self._unit()
        left, top, width = row.x / unit, row.y / unit, self._layout.label_width / unit
        bottom = (row.y + row.height) / unit
        if row.y > 0:
            painter.setPen(self._theme.color("plot_grid"))
            painter.drawLine(round(left), round(top), round((row.x + row.width) / unit), round(top))
        line = self.fontMetrics().height()
        if self._above:
            self._draw_label_above(painter, row, line)
            return
        if top < 0:  # the label stays in view as long as its row does
            top = min(0.0, bottom - 2 * line - 4)
        painter.setFont(self._bold_font())
        painter.setPen(self._theme.color("text"))
        painter.drawText(QRectF(left, top + 4, width - 8, line), Qt.AlignmentFlag.AlignLeft, row.group.title)
        if bottom - top < 2 * line + 4:
            return
        painter.setFont(self.font())
        painter.setPen(self._theme.color("text_muted"))
        place = QRectF(left, top + 4 + line, width - 8, line)
        painter.drawText(place, Qt.AlignmentFlag.AlignLeft, _count_text(row))

    def _draw_label_above(self, painter: QPainter, row: Row, line: int) -> None:
        unit = self._unit()
        place = QRectF(row.x / unit, row.y / unit + 4, row.width / unit - 4, line)
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.setFont(self._bold_font())
        painter.setPen(self._theme.color("text"))
        painter.drawText(place, flags, row.group.title)
        used = QFontMetrics(self._bold_font()).horizontalAdvance(row.group.title) + line // 2
        painter.setFont(self.font())
        painter.setPen(self._theme.color("text_muted"))
        painter.drawText(place.adjusted(used, 0, 0, 0), flags, _count_text(row))


def _largest_tile(layout: MapLayout) -> int:
    return max((grid.style.width for grid in layout.grids), default=0)


def _count_text(row: Row) -> str:
    group = row.group
    if group.kind is GroupKind.CPU and group.count == 0:
        return "no slab"
    return numbers.plural(group.count, "slab")


def slab_facts(
    table: SlabTable, summary: SlabSummary, index: int, object_number: int = -1, family: str = "slub"
) -> str:
    """What the tooltip says of a slab, as lines of text.

    Parameters
    ----------
    index : int
        Of the slab in the table.
    object_number : int
        Of the object under the pointer, -1 for none.
    family : str
        Kind of allocator.
    """
    arrays = family in ARRAY_FAMILIES
    state = _STATE_TEXT[SlabState(int(table.state[index]))]
    flags = [state]
    if table.frozen[index]:
        flags.append("frozen")
    if table.locked[index]:
        flags.append("locked")
    objects = int(table.objects[index])
    allocated, cpu_free = int(summary.allocated[index]), int(summary.cpu_free[index])
    own_free = objects - allocated - cpu_free
    counts = (
        f"{allocated} allocated, {cpu_free} in arrays, {own_free} on the slab's chain"
        if arrays
        else f"{allocated} allocated, {cpu_free} on the CPU freelist, {own_free} on the slab freelist"
    )
    lines = [
        f"Slab at page frame {numbers.integer(int(table.page_frame[index]))}, node {int(table.node[index])}",
        ", ".join(flags).capitalize(),
        _list_text(table, index) if arrays else _owner_text(table, index),
        f"{numbers.plural(objects, 'object')}: {counts}",
        f"Counter inuse: {int(table.inuse[index])}",
    ]
    if 0 <= object_number < objects:
        where = ObjectState(int(summary.states[index, object_number]))
        lines.append(f"Object {object_number}: {(_OBJECT_TEXT_SLAB if arrays else _OBJECT_TEXT)[where]}")
    return "\n".join(line for line in lines if line)


def _list_text(table: SlabTable, index: int) -> str:
    # SLAB moves a slab between its lists by the counter, to which objects in arrays are in use.
    if table.on_partial_list[index]:
        return "On slabs_partial"
    return "On slabs_full" if table.inuse[index] >= table.objects[index] else "On slabs_free, or being built"


def _owner_text(table: SlabTable, index: int) -> str:
    if table.cpu[index] >= 0:
        return f"Cpu slab of CPU {int(table.cpu[index])}"
    if table.on_cpu_partial[index] >= 0:
        return f"On the chain of partial slabs of CPU {int(table.on_cpu_partial[index])}"
    last = int(table.last_cpu[index])
    owned = f"last cpu slab of CPU {last}" if last >= 0 else "last owner unknown"
    if table.on_partial_list[index]:
        return f"On the partial list of node {int(table.node[index])}, {owned}"
    return owned.capitalize().replace("cpu slab of cpu", "cpu slab of CPU")
