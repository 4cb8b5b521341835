"""The scrolling stack of cards: painting of what is visible, choosing with mouse and keys, tooltips.

The innermost frame can always be seen: when one scrolls away from it, its card is held at the lower edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolTip, QWidget

from slubviz.views.call_stack_content import Card, Level
from slubviz.views.call_stack_layout import Amount, CardNeed, StackLayout, lay_out_stack
from slubviz.views.call_stack_painter import (
    StackFonts,
    StackPainter,
    paint_stack,
    variable_width,
    variables_top,
)
from slubviz.views.theme import Theme

if TYPE_CHECKING:
    from slubviz.model.travel.call_stack import VariableValue

#: Of a pinned card from the lower edge.
_PIN_GAP = 4
_WORD = (1 << 64) - 1
_FOLD_HELP = "Click to see each as a card"


@dataclass(frozen=True)
class Stack:
    """What is painted."""

    cards: tuple[Card, ...] = ()
    levels: tuple[Level, ...] = ()
    pending: tuple[str, ...] = ()
    note: str = ""  #: the next micro-op
    empty: str = ""  #: what stands there if there are no cards


class StackView(QAbstractScrollArea):
    """Paints a stack; the panel around it decides which card is the chosen one."""

    card_chosen = Signal(int)  # position among the cards
    variable_chosen = Signal(int, str)  # position among the cards, name
    cpu_wanted = Signal(int)  # -1 the one before, 1 the one after

    def __init__(self, theme: Theme, fonts: StackFonts, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._fonts = theme, fonts
        self._stack = Stack()
        self._chosen = -1
        self._unfolded = False
        self._layout = StackLayout()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setAutoFillBackground(False)
        self.setAccessibleName("Call stack")

    @property
    def stack_layout(self) -> StackLayout:
        """Where the cards are, in the coordinates of the scrolled content."""
        return self._layout

    @property
    def stack(self) -> Stack:
        """What is shown."""
        return self._stack

    def set_look(self, theme: Theme, fonts: StackFonts) -> None:
        """Change colours and fonts."""
        self._theme, self._fonts = theme, fonts
        self._place()

    def show_stack(self, stack: Stack, chosen: int, *, follow: bool) -> None:
        """Show a stack with one card chosen.

        Parameters
        ----------
        follow : bool
            Scroll so that the innermost card and, if there is room, the chosen one are in view.
        """
        self._stack, self._chosen = stack, chosen
        if chosen == len(stack.cards) - 1:  # who goes back to the innermost card is done with the others
            self._unfolded = False
        self._describe()
        self._place()
        if follow:
            self._scroll_to_innermost()

    def sizeHint(self) -> QSize:
        return QSize(420, 480)

    # What is where

    def pinned(self) -> QRectF | None:
        """Where the innermost card is held in view, in the visible part; None if it is in its place."""
        if not self._layout.cards:
            return None
        place = self._layout.cards[-1]
        bottom = self.viewport().height()
        if place.box.bottom - self._offset() <= bottom:
            return None
        height = place.box.height
        return QRectF(place.box.x, max(0, bottom - height - _PIN_GAP), place.box.width, height)

    def card_at(self, position: QPoint) -> int:
        """Position of the card at a point of the visible part, -1 for none."""
        pinned = self.pinned()
        if pinned is not None and pinned.contains(QPointF(position)):
            return len(self._layout.cards) - 1
        return self._layout.card_at(position.x(), position.y() + self._offset())

    def card_rect(self, index: int) -> QRectF:
        """Where a card is in the visible part."""
        pinned = self.pinned()
        if pinned is not None and index == len(self._layout.cards) - 1:
            return pinned
        box = self._layout.cards[index].box
        return QRectF(box.x, box.y - self._offset(), box.width, box.height)

    def variable_at(self, position: QPoint) -> tuple[int, VariableValue] | None:
        """Card and variable at a point of the visible part."""
        index = self.card_at(position)
        if index < 0:
            return None
        place, card, rect = self._layout.cards[index], self._stack.cards[index], self.card_rect(index)
        measures = self._fonts.measures()
        x = position.x() - rect.left() - 8
        row = (position.y() - rect.top() - variables_top(card, place, measures)) // measures.row
        for cell in place.cells:
            if cell.index >= 0 and cell.row == row and cell.x <= x < cell.x + cell.width - 6:
                return index, card.frame.variables[cell.index]
        return None

    def tooltip_at(self, position: QPoint) -> str:
        """What is elided or left out at a point."""
        found = self.variable_at(position)
        if found is not None:
            variable = found[1]
            number = f"{variable.value} ({variable.value & _WORD:#x})"
            return f"{variable.name}: {variable.type}\n{variable.text}\n{number}"
        index = self.card_at(position)
        if index >= 0 and self._layout.cards[index].amount is not Amount.FOLDED:
            return card_facts(self._stack.cards[index])
        for fold in self._layout.folds:
            if fold.first <= index <= fold.last:
                cards = self._stack.cards[fold.first : fold.last + 1]
                return "\n".join([*(card.frame.function for card in cards), _FOLD_HELP])
        y = position.y() + self._offset()
        for level, place in zip(self._stack.levels, self._layout.levels, strict=True):
            if place.header.holds(position.x(), y):
                return f"{level.title}\n{level.arrival}"
        for text, box in zip(self._ghost_texts(), self._layout.ghosts, strict=True):
            if box.holds(position.x(), y):
                return f"To come: {text}"
        return ""

    def _ghost_texts(self) -> tuple[str, ...]:
        # One for each that is placed: where there is little room, one for all.
        pending = self._stack.pending
        return pending if len(self._layout.ghosts) == len(pending) else (", ".join(pending),)

    # Events

    def keyPressEvent(self, event: QKeyEvent) -> None:
        # Home and End belong to the run.
        key = Qt.Key(event.key())
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        last = len(self._stack.cards) - 1
        plain = {
            Qt.Key.Key_Up: self._chosen - 1,
            Qt.Key.Key_Down: self._chosen + 1,
            Qt.Key.Key_Return: self._chosen,
            Qt.Key.Key_Enter: self._chosen,
        }
        with_control = {Qt.Key.Key_Up: 0, Qt.Key.Key_Down: last}
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(key)
        control = modifiers == Qt.KeyboardModifier.ControlModifier
        target = with_control.get(key) if control else None if modifiers else plain.get(key)
        if step is not None and not modifiers:
            self.cpu_wanted.emit(step)
        elif target is None or last < 0:
            event.ignore()
        elif 0 <= target <= last:
            self._choose(target)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is not Qt.MouseButton.LeftButton:
            return
        position = event.position().toPoint()
        index = self.card_at(position)
        if index < 0:
            return
        if self._layout.cards[index].amount is Amount.FOLDED:
            self._unfolded = True
        found = self.variable_at(position)
        self._choose(index)
        if found is not None:
            self.variable_chosen.emit(index, found[1].name)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.tooltip_at(event.pos()), self.viewport())
            return True
        return super().viewportEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        at_end = self._offset() == self.verticalScrollBar().maximum()
        self._place()
        if at_end:
            self._scroll_to_innermost()

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._stack.cards or self._stack.pending:
            self._paint_cards(StackPainter(painter, self._theme, self._fonts))
        if not self._stack.cards:
            painter.setFont(self._fonts.name)
            painter.setPen(self._theme.color("text_muted"))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(
                QRectF(self.viewport().rect()).adjusted(12, 12, -12, -12), flags, self._stack.empty
            )
        painter.end()

    def _paint_cards(self, painter: StackPainter) -> None:
        stack, layout, offset = self._stack, self._layout, self._offset()
        pinned = self.pinned()
        bottom = self.viewport().height()
        paint_stack(
            painter,
            stack.cards,
            stack.levels,
            layout,
            offset=offset,
            bottom=bottom,
            chosen=self._chosen,
            focused=self.hasFocus(),
            note=stack.note,
        )
        depth = stack.cards[-1].frame.level if stack.cards else 0
        for index, (text, box) in enumerate(zip(self._ghost_texts(), layout.ghosts, strict=True)):
            if box.bottom > offset and box.y - offset < bottom:
                painter.ghost(QRectF(box.x, box.y - offset, box.width, box.height), text, depth + 1 + index)
        if pinned is not None:
            last = len(stack.cards) - 1
            painter.raised(pinned.adjusted(-3, -3, 3, 3), stack.cards[last].frame.level)
            painter.card(
                pinned,
                stack.cards[last],
                layout.cards[last],
                chosen=last == self._chosen,
                focused=self.hasFocus(),
                note=stack.note,
            )

    # Inside

    def _choose(self, index: int) -> None:
        self.card_chosen.emit(index)
        self._show_card(index)

    def _offset(self) -> int:
        return self.verticalScrollBar().value()

    def _describe(self) -> None:
        # For whoever cannot see it: the chosen card.
        if 0 <= self._chosen < len(self._stack.cards):
            card = self._stack.cards[self._chosen]
            self.setAccessibleDescription(f"{card.frame.function}, line {card.frame.line}: {card.code}")
        else:
            self.setAccessibleDescription(self._stack.empty)

    def _place(self) -> None:
        size = self.viewport().size()
        needs = [self._need(index, card) for index, card in enumerate(self._stack.cards)]
        self._layout = lay_out_stack(
            needs,
            len(self._stack.pending),
            size.width(),
            size.height(),
            self._fonts.measures(),
            fold=not self._unfolded,
        )
        bar = self.verticalScrollBar()
        bar.setRange(0, max(0, self._layout.height - size.height()))
        bar.setPageStep(size.height())
        bar.setSingleStep(40)
        self.viewport().update()

    def _need(self, index: int, card: Card) -> CardNeed:
        frame = card.frame
        return CardNeed(
            level=frame.level,
            widths=tuple(variable_width(self._fonts, variable) for variable in frame.variables),
            has_code=bool(card.code),
            slim=frame.inlined,
            note=card.innermost and bool(self._stack.note),
            key=card.innermost or index == self._chosen,
            asked=index == self._chosen and not card.innermost,
            interrupted=frame.interrupted,
            header=frame.interrupt,
        )

    def _scroll_to_innermost(self) -> None:
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())
        if 0 <= self._chosen < len(self._layout.cards):
            self._show_card(self._chosen)

    def _show_card(self, index: int) -> None:
        # The pinned innermost card covers the lower edge: a chosen card shall be above it.
        if not 0 <= index < len(self._layout.cards):
            return
        box, last = self._layout.cards[index].box, self._layout.cards[-1].box
        bar = self.verticalScrollBar()
        cover = last.height + 2 * _PIN_GAP if index < len(self._layout.cards) - 1 else 0
        lowest = box.bottom + _PIN_GAP + cover - self.viewport().height()
        header = self._fonts.measures().header if self._stack.cards[index].frame.interrupt else 0
        value = min(max(bar.value(), lowest), box.y - header - _PIN_GAP)
        if index == len(self._layout.cards) - 1:
            value = bar.maximum()
        bar.setValue(value)


def card_facts(card: Card) -> str:
    """What a card's tooltip says."""
    frame = card.frame
    lines = [
        f"{frame.function}  {frame.file}:{frame.line}" + ("  (inlined)" if frame.inlined else ""),
        card.code,
        "An interrupt came before the marked expression" if frame.interrupted else "",
        f"Hidden inside: {', '.join(card.hidden)}" if card.hidden else "",
        *(f"{variable.name} = {variable.text}" for variable in frame.variables),
    ]
    return "\n".join(line for line in lines if line)
