"""The timeline of a recorded run: lanes of all CPUs, rulers, marks, cursor, A and B.

The wheel zooms around the pointer, from the whole run to one micro-op; dragging scrubs; a click on a mark
goes there.  Zoomed out it shows the overview's buckets; zoomed in it asks for a detail of the visible part,
once it has come to rest, and shows the overview until the detail comes.

Gets a TimelineContent, emits signals; geometry, pixels and marks are in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from slubviz.views import numbers
from slubviz.views.theme import Theme
from slubviz.views.timeline_bars import TimelineBars
from slubviz.views.timeline_content import Prepared, TimelineContent, facts_at, legend_text, mark_facts
from slubviz.views.timeline_layout import TimelineLayout, lay_out
from slubviz.views.timeline_markers import Markers
from slubviz.views.timeline_marks import NO_CPU, PlacedMarks, hit
from slubviz.views.timeline_painter import MARK_PIXELS, Picture, Scene, TimelinePainter
from slubviz.views.timeline_raster import LaneColours, colours_of
from slubviz.views.timeline_requests import DetailRequests
from slubviz.views.timeline_window import TimeWindow, whole

_WHEEL_FACTOR = 1.25
_KEY_FACTOR = 1.6
_PAN_SHARE = 0.2
#: The pointer moves at least so far before a press becomes a drag.
_DRAG_PIXELS = 4


class TimelineView(QWidget):
    """Shows where in a run what happened, and where the cursor is."""

    scrubbed = Signal(object)  # position in micro-ops, again and again while dragging
    seek = Signal(object)  # position in micro-ops
    wanted_detail = Signal(object, object)  # first and last position

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._colours: LaneColours = colours_of(theme)
        self._prepared = Prepared()
        self._content: TimelineContent | None = None
        self._window = whole(0)
        self._whole = True
        self._first_cpu = 0
        self._markers = Markers()
        self._layout = self._lay_out()
        self._picture: Picture | None = None
        self._painter: TimelinePainter | None = None
        self._pictures = 0
        self._cursor: int | None = None  # while scrubbing, ahead of the content
        self._press: QPointF | None = None
        self._dragged = self._space = False
        self._pan_from: float | None = None
        self._bars = TimelineBars(self)
        self._requests = DetailRequests(self)
        self._build()

    # --- what is shown ------------------------------------------------------------------------------
    def show_content(self, content: TimelineContent | None) -> None:
        """Show a run; None shows none.

        The view follows the end of the run as long as all of it is visible, and the cursor when it leaves a
        view in which it was.
        """
        before, self._content = self._content, content
        if self._press is None:
            self._cursor = None
        if content is None:
            self._forget()
            return
        changed = self._prepared.take(content)
        if before is None or (before.cpus, before.run) != (content.cpus, content.run):
            self._begin()
            changed = True
        if changed or before is None or before.end != content.end:
            self._picture = None
        self._markers.learn(content.position, content.clock_cycles)
        if before is not None and (before.branch != content.branch or content.end < before.end):
            self._requests.forget()
        self._follow(before, content)
        self._refresh()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self._colours = colours_of(theme)
        self._painter = None
        self._refresh()

    @property
    def window_shown(self) -> TimeWindow:
        """The visible part of the run."""
        return self._window

    @property
    def layout_shown(self) -> TimelineLayout:
        """Where everything is."""
        return self._layout

    @property
    def pictures_drawn(self) -> int:
        """How often the unmoving part was drawn; lets a test see that the cursor does not cost a picture."""
        return self._pictures

    @property
    def placed_marks(self) -> tuple[PlacedMarks, PlacedMarks]:
        """The marks that are drawn in the lanes, and those of the run."""
        picture = self._draw_if_needed()
        return picture.lane_marks, picture.run_marks

    @property
    def cursor_position(self) -> int:
        """Where the cursor is drawn."""
        if self._cursor is not None:
            return self._cursor
        return self._content.position if self._content else 0

    def difference_text(self) -> str:
        """What is between the A and B markers; empty while one is missing."""
        return self._markers.difference_text(self._prepared.clock)

    def x_of(self, position: float) -> float:
        """Logical pixels from the left edge of the widget."""
        return self._layout.plot_x + self._window.fraction_of(position) * self._layout.plot_width

    def position_at(self, x: float) -> int:
        """The position nearest to a place, inside the run."""
        position = round(self._window.position_at(self._layout.fraction(x)))
        return min(max(position, 0), self._content.end if self._content else 0)

    def sizeHint(self) -> QSize:
        return QSize(960, 176)

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 110)

    # --- commands ---------------------------------------------------------------------------------
    def show_whole(self) -> None:
        """Zoom out to the whole run, and follow its end."""
        self._whole = True
        self._set_window(whole(self._end()))

    def zoom(self, factor: float, x: float | None = None) -> None:
        """Show less (above 1) or more of the run around a place, without one around the cursor."""
        if x is None:
            place = self._window.fraction_of(self.cursor_position)
            fraction = place if 0 <= place <= 1 else 0.5
        else:
            fraction = min(max(self._layout.fraction(x), 0.0), 1.0)
        self._set_window(self._window.zoomed(factor, fraction, self._end()))

    def show_range(self, first: float, last: float) -> None:
        """Show a part of the run."""
        self._set_window(TimeWindow(first, last - first).clamped(self._end()))

    def reveal_cursor(self) -> None:
        """Move the view so that the cursor is inside."""
        self._set_window(self._window.revealing(self.cursor_position, self._end()))

    def set_marker(self, name: str, position: int | None = None) -> None:
        """Set marker ``"A"`` or ``"B"``, without a position at the cursor."""
        if self._content is None:
            return
        at_cursor = position is None or position == self._content.position
        where = self.cursor_position if position is None else position
        cycles = self._content.clock_cycles if at_cursor and where == self._content.position else None
        self._markers.set(name, where, cycles)
        self.update()

    def clear_markers(self) -> None:
        """Take both markers away."""
        self._markers.clear()
        self.update()

    # --- painting ---------------------------------------------------------------------------------
    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self._content is None or self._content.cpus < 1:
            painter.fillRect(self.rect(), self._theme.color("panel"))
            painter.setPen(self._theme.color("text_muted"))
            painter.drawText(
                self.rect(), Qt.AlignmentFlag.AlignCenter, "The timeline of a run is shown here."
            )
        else:
            painter.drawPixmap(0, 0, self._draw_if_needed().pixmap)
            self._draw_moving(painter)
        if self.hasFocus():
            painter.setPen(self._theme.color("accent"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _draw_if_needed(self) -> Picture:
        if self._picture is None:
            scene = Scene(
                self._window,
                self._layout,
                self._prepared.clock,
                self._prepared.buckets,
                self._prepared.spans,
                self._prepared.lane_marks,
                self._prepared.run_marks,
            )
            self._picture = self._drawing().picture(scene)
            self._pictures += 1
        return self._picture

    def _drawing(self) -> TimelinePainter:
        if self._painter is None:
            self._painter = TimelinePainter(self._theme, self.font(), self.devicePixelRatioF(), self._colours)
        return self._painter

    def _draw_moving(self, painter: QPainter) -> None:
        drawing, layout = self._drawing(), self._layout
        text = self.difference_text()
        width = self.fontMetrics().horizontalAdvance(text)
        right = layout.plot_x + layout.plot_width
        if layout.has_legend:
            drawing.draw_legend(painter, layout, self._prepared.signs, right - (width + 24 if text else 0))
        if text:
            place = QRectF(right - width - 2, layout.legend_y, width + 2, layout.line)
            painter.fillRect(place, self._theme.color("panel"))
            painter.setPen(self._theme.color("accent"))
            painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, text)
        painter.setClipRect(QRectF(layout.plot_x - 6, 0, layout.plot_width + 12, self.height()))
        places = {name: self.x_of(position) for name, position in self._markers.positions().items()}
        if len(places) == 2:
            drawing.draw_between(painter, layout, min(places.values()), max(places.values()))
        drawing.draw_end(painter, layout, self.x_of(self._end()))
        for name, x in places.items():
            drawing.draw_marker(painter, layout, x, name)
        drawing.draw_cursor(painter, layout, self.x_of(self.cursor_position))
        painter.setClipping(False)

    # --- pointer and keys -------------------------------------------------------------------------
    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        if self._content is None:
            return
        place, button = event.position(), event.button()
        if button == Qt.MouseButton.MiddleButton or (button == Qt.MouseButton.LeftButton and self._space):
            self._pan_from = place.x()
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
        elif button == Qt.MouseButton.LeftButton and place.x() >= self._layout.plot_x - MARK_PIXELS:
            self._press, self._dragged = place, False
            if self.mark_at(place) is None:
                self._scrub(place.x())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        place = event.position()
        if self._pan_from is not None:
            moved = self._pan_from - place.x()
            self._pan_from = place.x()
            self._set_window(
                self._window.panned(moved / self._layout.plot_width * self._window.visible, self._end())
            )
        elif self._press is not None:
            self._dragged = self._dragged or abs(place.x() - self._press.x()) >= _DRAG_PIXELS
            if self._dragged:
                self._scrub(place.x())
        else:
            over = self._content is not None and self.mark_at(place) is not None
            self.setCursor(Qt.CursorShape.PointingHandCursor if over else Qt.CursorShape.ArrowCursor)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._pan_from is not None:
            self._pan_from = None
            self.unsetCursor()
            return
        press, self._press = self._press, None
        if press is None or self._dragged:
            return
        mark = self.mark_at(press)
        if mark is not None:
            self.seek.emit(mark[0])

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton or self._content is None:
            return
        place = event.position()
        if place.x() < self._layout.plot_x - MARK_PIXELS:
            return
        mark = self.mark_at(place)
        shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        self.set_marker("B" if shift else "A", mark[0] if mark else self.position_at(place.x()))

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self._content is None:
            event.ignore()
            return
        delta, x = event.angleDelta(), event.position().x()
        sideways = delta.x() if delta.x() else delta.y()
        if x < self._layout.plot_x and self._bars.lanes.isVisible():
            self._bars.lanes.setValue(self._bars.lanes.value() - (1 if delta.y() > 0 else -1))
        elif delta.x() or event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._pan(-sideways / 120 * _PAN_SHARE / 2)
        elif delta.y():
            self.zoom(_WHEEL_FACTOR ** (delta.y() / 120), x)
        event.accept()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            # With the focus here its keys come before commands of the window on the same keys.
            if self._content is not None and self._command_of(event) is not None:
                event.accept()
                return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            text = self.tooltip_at(QPointF(event.pos()))
            QToolTip.showText(event.globalPos(), text, self) if text else QToolTip.hideText()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        command = self._command_of(event) if self._content is not None else None
        if command is None:
            super().keyPressEvent(event)
        else:
            command()

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Space and not event.isAutoRepeat():
            self._space = False
            self.unsetCursor()
        super().keyReleaseEvent(event)

    def _command_of(self, event: QKeyEvent) -> Callable[[], None] | None:
        keys, shift = Qt.Key, bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier):
            return None
        commands: dict[int, Callable[[], None]] = {
            keys.Key_Plus: lambda: self.zoom(_KEY_FACTOR),
            keys.Key_Equal: lambda: self.zoom(_KEY_FACTOR),
            keys.Key_Minus: lambda: self.zoom(1 / _KEY_FACTOR),
            keys.Key_Home: self.show_whole,
            keys.Key_A: lambda: self.set_marker("A"),
            keys.Key_B: lambda: self.set_marker("B"),
            keys.Key_Left: lambda: self._pan(-_PAN_SHARE) if shift else self._step(-1),
            keys.Key_Right: lambda: self._pan(_PAN_SHARE) if shift else self._step(+1),
            keys.Key_Space: self._hold_space,
        }
        if self._markers.positions():
            commands[keys.Key_Escape] = self.clear_markers
        return commands.get(event.key())

    def _hold_space(self) -> None:
        self._space = True
        self.setCursor(Qt.CursorShape.OpenHandCursor)

    def _step(self, direction: int) -> None:
        target = min(max(self.cursor_position + direction, 0), self._end())
        if target != self.cursor_position:
            self.seek.emit(target)

    def _pan(self, share: float) -> None:
        self._set_window(self._window.panned(share * self._window.visible, self._end()))

    def _scrub(self, x: float) -> None:
        position = self.position_at(x)
        if position == self.cursor_position and self._dragged:
            return
        self._cursor = position
        self.update()
        self.scrubbed.emit(position)

    # --- marks and facts ----------------------------------------------------------------------------
    def mark_at(self, place: QPointF) -> tuple[int, str] | None:
        """Position and facts of the mark at a place; None if there is none."""
        if self._content is None:
            return None
        picture, layout = self._draw_if_needed(), self._layout
        if layout.in_flags(place.y()):
            row, marks, table = NO_CPU, picture.run_marks, self._prepared.run_marks
        else:
            row, marks, table = layout.cpu_at(place.y()), picture.lane_marks, self._prepared.lane_marks
            if row < 0:
                return None
        index = hit(marks, place.x() - layout.plot_x, row, MARK_PIXELS / 2 + 1)
        if index < 0:
            return None
        position = int(table.position[marks.first[index]])
        return position, mark_facts(marks, table, index, self._prepared.clock)

    def tooltip_at(self, place: QPointF) -> str:
        """The facts at a place, as lines of text; empty outside of everything."""
        content, layout = self._content, self._layout
        if content is None:
            return ""
        if place.y() < layout.ruler_y or (place.y() < layout.flags_y and place.x() < layout.plot_x):
            return legend_text()
        mark = self.mark_at(place)
        if mark is not None:
            return mark[1]
        if place.x() < layout.plot_x or place.y() > layout.lanes_y + layout.lanes_height:
            return ""
        return facts_at(content, self._prepared, layout.cpu_at(place.y()), self.position_at(place.x()))

    # --- keeping up -------------------------------------------------------------------------------
    def resizeEvent(self, event: QResizeEvent) -> None:
        self._refresh()

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.FontChange:
            self._painter = None
            self._refresh()
        super().changeEvent(event)

    def _build(self) -> None:
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setAccessibleName("Timeline")
        self._bars.panned.connect(self._pan_to)
        self._bars.scrolled.connect(self._scroll_to)
        self._requests.wanted.connect(self.wanted_detail)

    def _forget(self) -> None:
        self._prepared = Prepared()
        self._press = self._pan_from = None
        self._begin()
        self._refresh()

    def _begin(self) -> None:
        self._whole, self._window = True, whole(self._end())
        self._first_cpu = 0
        self._markers.clear()
        self._requests.forget()

    def _end(self) -> int:
        return self._content.end if self._content else 0

    def _follow(self, before: TimelineContent | None, content: TimelineContent) -> None:
        if self._whole:
            self._window = whole(content.end)
        elif before is not None:
            window = self._window.clamped(content.end)
            was_seen = self._window.first <= before.position <= self._window.last
            if was_seen and self._press is None and self._pan_from is None:
                window = window.revealing(content.position, content.end)
            if window != self._window:
                self._window, self._picture = window, None

    def _set_window(self, window: TimeWindow) -> None:
        if window == self._window:
            return
        self._window, self._picture = window, None
        self._whole = window == whole(self._end())
        self._refresh()

    def _refresh(self) -> None:
        layout = self._lay_out()
        if layout != self._layout or self._painter is None:
            self._picture = None
        self._layout = layout
        self._bars.place(layout, self._window, self._end(), self._content is not None)
        if self._content is not None:
            self._requests.consider(self._window, self._end(), self._prepared.spans)
        self.setAccessibleDescription(self._description())
        self.update()

    def _lay_out(self) -> TimelineLayout:
        metrics = self.fontMetrics()
        label = max(metrics.horizontalAdvance(text) for text in ("micro-ops", f"CPU{numbers.THIN}888")) + 20
        cpus = max(self._content.cpus if self._content else 1, 1)
        unit, line = self.devicePixelRatioF(), float(metrics.height())
        return lay_out(self.width(), self.height(), cpus, unit, line, label, self._first_cpu)

    def _description(self) -> str:
        content = self._content
        if content is None:
            return "No run"
        first, last = numbers.integer(self._window.first), numbers.integer(self._window.last)
        return (
            f"Cursor at micro-op {numbers.integer(self.cursor_position)} of {numbers.integer(content.end)}; "
            f"micro-ops {first} to {last} are visible. {self.difference_text()}"
        ).strip()

    def _pan_to(self, share: float) -> None:
        first = share * self._end()
        self._set_window(TimeWindow(first, self._window.visible).clamped(self._end()))

    def _scroll_to(self, cpu: int) -> None:
        self._first_cpu = cpu
        self._refresh()
