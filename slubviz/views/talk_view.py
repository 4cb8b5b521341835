"""A scenario on the whole screen, for a room full of people.

Below, what happens in this step, in large letters; above, the call stack, the source and the slabs at that
moment.  PgDn and PgUp, the keys of a presenter's remote, go through the steps; after the last one comes
the outcome.  All sizes go with the height of the window.
"""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QCloseEvent, QFont, QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLayout, QStackedWidget, QVBoxLayout, QWidget

from slubviz.views.call_stack import CallStackPanel
from slubviz.views.call_stack_content import stack_content
from slubviz.views.lock_panel import LockPanel
from slubviz.views.panel import Panel
from slubviz.views.slab_layout import TileLimits
from slubviz.views.slab_map import SlabMap
from slubviz.views.source_panel import SourcePanel
from slubviz.views.source_panel_content import source_content
from slubviz.views.talk_outcome import OutcomeSlide
from slubviz.views.talk_text import FittedText
from slubviz.views.theme import Theme, palette_of, style_sheet_of
from slubviz.views.travel_view import ScenarioView
from slubviz.views.view_update import ViewUpdate

_FORWARDS = (Qt.Key.Key_PageDown, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Space, Qt.Key.Key_Return)
_BACKWARDS = (Qt.Key.Key_PageUp, Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Backspace)
_LEAVE = (Qt.Key.Key_Escape, Qt.Key.Key_Q)
#: Shares of the height of the window, in hundredths.
_TITLE, _CAPTION_BOX, _CAPTION, _MARGIN = 6.0, 27.0, 6.2, 2.0
#: Height of text in the panels in hundredths of the window's height.
_TEXT = 2.1
#: What the locks that are held take of the height at most, in hundredths.
_LOCKS = 22.0
_LOCK_TEXT = 1.75
#: The few slabs of a scenario are as large as there is room.
_TILES = TileLimits(least=10, largest=520, largest_cpu=520)
#: The scale of panels is held within what they can do.
_SMALLEST_SCALE, _LARGEST_SCALE = 0.8, 6.0


class _Picture(QWidget):
    # Its panels would ask for more height the narrower they are; they take what the caption leaves.

    def hasHeightForWidth(self) -> bool:
        return False


class TalkView(QWidget):
    """See the module."""

    step = Signal(int)  # +1 or -1
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self._theme = theme
        self._scenario: ScenarioView | None = None
        self._at_outcome = False
        self._lock_count = 0
        self.title = FittedText(theme, "text_muted")
        self.number = FittedText(theme, "text_muted", centred=True)
        self.caption = FittedText(theme)
        self.stack = CallStackPanel(theme)
        self.source = SourcePanel(theme)
        self.map = SlabMap(theme, limits=_TILES, labels_above=True)
        self.locks = LockPanel(theme)
        self.outcome = OutcomeSlide(theme)
        self.slides = QStackedWidget()
        self._build()
        self.set_theme(theme)

    def _build(self) -> None:
        self.setWindowTitle("slubviz talk")
        self.setAccessibleName("Talk")
        self.setMinimumSize(640, 360)
        self._head = QHBoxLayout()
        self._head.addWidget(self.title, 5)
        self._head.addWidget(self.number, 1)
        picture = _Picture()
        self._columns = QHBoxLayout(picture)
        self._columns.setContentsMargins(0, 0, 0, 0)
        slabs = QWidget()
        self._slabs_layout = QVBoxLayout(slabs)
        self._slabs_layout.setContentsMargins(0, 0, 0, 0)
        self._slabs_layout.addWidget(self.map, 1)
        self._slabs_layout.addWidget(self.locks)
        self.locks.hide()
        for content, share in ((self.stack, 30), (self.source, 44), (slabs, 26)):
            self._columns.addWidget(Panel("", content), share)
        step = QWidget()
        self._step_layout = QVBoxLayout(step)
        self._step_layout.setContentsMargins(0, 0, 0, 0)
        self._step_layout.addWidget(picture, 1)
        self._step_layout.addWidget(self.caption)
        self.slides.addWidget(step)
        self.slides.addWidget(self.outcome)
        self._layout = QVBoxLayout(self)
        # The panels' wish for room grows with the text; the window is as large as the screen all the same.
        self._layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self._layout.addLayout(self._head)
        self._layout.addWidget(self.slides, 1)
        for part in (self.stack, self.source, self.map, self.locks, slabs, picture):
            part.setMinimumSize(1, 1)  # the caption has its room first
        for widget in self.findChildren(QWidget):
            widget.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # every key is the talk's
        self.stack.inlined.hide()
        for widget in (self.source.files, self.source.tabs, self.source.follow, self.source.heat):
            widget.hide()
        editor, off = self.source.editor, Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        editor.setVerticalScrollBarPolicy(off)
        editor.setHorizontalScrollBarPolicy(off)
        editor.set_presentation(True)

    # What is shown

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.setStyleSheet(style_sheet_of(theme))
        self.setPalette(palette_of(theme))
        for part in (self.stack, self.source, self.map, self.locks):
            part.set_theme(theme)
        self._look()

    def show_update(self, update: ViewUpdate) -> None:
        """Show the scenario's step and the run at the cursor."""
        travel = update.travel
        scenario = travel.scenario
        before = self._scenario
        self._scenario = scenario
        if before is None or scenario is None or before.step != scenario.step:
            self._at_outcome = False
        self.stack.show_stacks(stack_content(travel, update.snapshot))
        self.source.show_source(source_content(travel, self.stack.chosen(), innermost=self.stack.follows))
        self.map.show_slabs(update.snapshot, update.summary)
        self.locks.show_locks(update.snapshot)
        self._lock_count = len(update.snapshot.locks) if update.snapshot is not None else 0
        self._size_locks()
        self._show_words()

    @property
    def shows_outcome(self) -> bool:
        """Whether the last slide is shown."""
        return self._at_outcome

    def go(self, by: int) -> None:
        """To the next (+1) or previous (-1) slide."""
        scenario = self._scenario
        if scenario is None:
            return
        last = len(scenario.steps) - 1
        if by > 0 and scenario.step >= last:
            self._at_outcome = scenario.result is not None
        elif by < 0 and self._at_outcome:
            self._at_outcome = False
        elif not self._at_outcome and (by > 0 or scenario.step > 0):
            self.step.emit(by)
            return
        self._show_words()

    def _show_words(self) -> None:
        scenario = self._scenario
        if scenario is None:
            self.title.set_text("slubviz")
            self.number.set_text("")
            self.caption.set_text("No scenario is open. Choose one in the menu Scenario.")
            self.slides.setCurrentIndex(0)
            return
        self.title.set_text(scenario.title)
        self.number.set_text("outcome" if self._at_outcome else _number_text(scenario))
        self.caption.set_text(" ".join(scenario.caption.split()))
        if self._at_outcome and scenario.result is not None:
            self.outcome.show_result(scenario.result)
        self.slides.setCurrentIndex(1 if self._at_outcome else 0)

    # Sizes

    def _look(self) -> None:
        unit = self.height() / 100
        margin = round(_MARGIN * unit)
        self._layout.setContentsMargins(2 * margin, margin, 2 * margin, margin)
        for layout in (self._layout, self._head, self._columns, self._step_layout):
            layout.setSpacing(margin)
        for text in (self.title, self.number):
            text.set_look(self._theme, round(3.4 * unit))
            text.setFixedHeight(round(_TITLE * unit))
        self.caption.set_look(self._theme, round(_CAPTION * unit))
        self.caption.setFixedHeight(round(_CAPTION_BOX * unit))
        self.outcome.set_look(self._theme, unit)
        natural = self.fontMetrics().height()
        scale = min(max(_TEXT * 1.25 * unit / natural, _SMALLEST_SCALE), _LARGEST_SCALE)
        self.stack.set_text_scale(scale)
        self.source.set_text_scale(scale)
        font = QFont(self.font())
        font.setPixelSize(max(10, round(_TEXT * unit)))
        self.map.setFont(font)
        font.setPixelSize(max(10, round(_LOCK_TEXT * unit)))
        self.locks.setFont(font)
        self._slabs_layout.setSpacing(margin)
        self._size_locks()

    def _size_locks(self) -> None:
        # As many as there are, as far as the map keeps the larger part.
        room = self.height() * _LOCKS / 100
        self.locks.setFixedHeight(max(1, ceil(min(room, self.locks.height_for(self._lock_count)))))
        self.locks.setVisible(self._lock_count > 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().height() != event.oldSize().height():
            self._look()

    # Keys

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in _LEAVE:
            self.close()
        elif key in _FORWARDS:
            self.go(+1)
        elif key in _BACKWARDS:
            self.go(-1)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self.go(+1)

    def closeEvent(self, event: QCloseEvent) -> None:
        self.closed.emit()
        event.accept()

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ShortcutOverride:
            event.accept()  # keys of the window behind it do not count here
            return True
        return super().event(event)


def _number_text(scenario: ScenarioView) -> str:
    return f"{scenario.step + 1} of {len(scenario.steps)}" if scenario.step >= 0 else "start"
