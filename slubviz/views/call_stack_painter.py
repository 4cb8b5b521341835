"""Painting of call stacks: cards of frames, boxes of interrupts around them, pending interrupts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen, QPolygonF

from slubviz.views.call_stack_content import Card, Level
from slubviz.views.call_stack_layout import Amount, Box, CardBox, LevelBox, Measures, StackLayout
from slubviz.views.cpu_layout import scrolled
from slubviz.views.theme import MINIMUM_POINT_SIZE, Theme

if TYPE_CHECKING:
    from slubviz.model.travel.call_stack import VariableValue

_PAD = 8
_RADIUS = 6.0
_VCENTER = Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | _VCENTER
_RIGHT = Qt.AlignmentFlag.AlignRight | _VCENTER
#: How much of an interrupt's colour the ground of its box has, and that of its header.
_TINT_LIGHT, _TINT_DARK, _HEADER_DARK = 0.10, 0.13, 0.42
#: A column of variables is at least so many characters wide.
_COLUMN_CHARACTERS = 21
_SHADOW = ((3.0, 20), (1.5, 34))


@dataclass(frozen=True)
class StackFonts:
    """Fonts of the panel at one scale, with their metrics."""

    name: QFont
    text: QFont
    bold: QFont
    code: QFont
    name_metrics: QFontMetricsF
    text_metrics: QFontMetricsF
    bold_metrics: QFontMetricsF
    code_metrics: QFontMetricsF

    def measures(self) -> Measures:
        """Heights of the parts of a card."""
        text = self.text_metrics.height()
        row = max(text, self.code_metrics.height())
        return Measures(
            name=round(self.name_metrics.height() + 8),
            slim=round(row + 4),
            code=round(row + 7),
            row=round(row + 3),
            note=round(row + 3),
            header=round(self.bold_metrics.height() + text + 7),
            header_slim=round(self.bold_metrics.height() + 6),
            ghost=round(row + 8),
            pad=5,
            column=round(self.code_metrics.horizontalAdvance("0") * _COLUMN_CHARACTERS),
        )


def stack_fonts(text: QFont, code: QFont, scale: float = 1.0) -> StackFonts:
    """Measure the fonts; ``scale`` makes everything larger for a talk."""
    fonts = []
    for base, factor, weight in (
        (text, 1.18, QFont.Weight.DemiBold),
        (text, 1.0, QFont.Weight.Normal),
        (text, 1.0, QFont.Weight.DemiBold),
        (code, 1.0, QFont.Weight.Normal),
    ):
        font = QFont(base)
        size = base.pointSizeF() if base.pointSizeF() > 0 else MINIMUM_POINT_SIZE
        font.setPointSizeF(max(MINIMUM_POINT_SIZE, size * scale * factor))
        font.setWeight(weight)
        fonts.append(font)
    name, plain, bold, mono = fonts
    return StackFonts(name, plain, bold, mono, *(QFontMetricsF(font) for font in (name, plain, bold, mono)))


def blend(ground: QColor, colour: QColor, share: float) -> QColor:
    """A colour between two."""
    return QColor(
        *(
            round(a + (b - a) * share)
            for a, b in zip(ground.getRgb()[:3], colour.getRgb()[:3], strict=True)  # type: ignore[index]
        )
    )


def header_ground(theme: Theme, number: int) -> QColor:
    """Ground of an interrupt's header; in a dark room a full one would outshine what stands below it."""
    accent = theme.level_color(number)
    return blend(theme.color("panel"), accent, _HEADER_DARK) if theme.dark else accent


def variable_width(fonts: StackFonts, variable: VariableValue) -> int:
    """Room that a variable needs."""
    return round(fonts.code_metrics.horizontalAdvance(f"{variable.name} = {variable.text}")) + 14


def variables_top(card: Card, place: CardBox, measures: Measures) -> int:
    """Distance of the first row of variables from the card's top."""
    top = measures.slim if card.frame.inlined else measures.name
    return top + (measures.code if card.code else 0)


class StackPainter:
    """Paints with one theme and one set of fonts."""

    def __init__(self, painter: QPainter, theme: Theme, fonts: StackFonts) -> None:
        self._painter = painter
        self._theme = theme
        self._fonts = fonts
        self._measures = fonts.measures()

    # Boxes of interrupts

    def level(self, place: LevelBox, level: Level, offset: int, saved_irq_enabled: bool | None) -> None:
        """A box with its header, without the cards in it."""
        accent = self._theme.level_color(level.number)
        box, head = _rect(place.box, offset), _rect(place.header, offset)
        self._shadow(box)
        painter = self._painter
        tint = _TINT_DARK if self._theme.dark else _TINT_LIGHT
        painter.setPen(QPen(accent, 1.5))
        painter.setBrush(blend(self._theme.color("panel"), accent, tint))
        painter.drawRoundedRect(box.adjusted(0.75, 0.75, -0.75, -0.75), _RADIUS, _RADIUS)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(header_ground(self._theme, level.number))
        painter.drawRoundedRect(head, _RADIUS, _RADIUS)
        painter.drawRect(head.adjusted(0, _RADIUS, 0, 0))
        self._header_text(head, level, saved_irq_enabled)

    def _header_text(self, head: QRectF, level: Level, saved: bool | None) -> None:
        fonts = self._fonts
        ink = "text" if self._theme.dark else "on_interrupt"
        inner = head.adjusted(_PAD + 2, 2, -_PAD, -2)
        first = QRectF(inner.left(), inner.top(), inner.width(), fonts.bold_metrics.height() + 1)
        right = 0.0
        if saved is not None:
            note = "saved irq on" if saved else "saved irq off"
            width = fonts.text_metrics.horizontalAdvance(note)
            if width < inner.width() * 0.35:
                self._text(first, note, ink, fonts.text, _RIGHT)
                right = width + 10
        self._elided(first.adjusted(0, 0, -right, 0), f"⚡ {level.title}", ink, fonts.bold)
        second = QRectF(inner.left(), first.bottom(), inner.width(), inner.bottom() - first.bottom())
        if second.height() >= fonts.text_metrics.height() - 2:
            fits = fonts.text_metrics.horizontalAdvance(level.arrival) <= second.width()
            self._elided(second, level.arrival if fits else level.short, ink, fonts.text)

    def pointer(self, header: Box, offset: int, number: int, x: float) -> None:
        """A tip on a header's upper edge, that points at the interrupted expression."""
        top = header.y - offset
        x = min(max(x, header.x + 14.0), header.x + header.width - 14.0)
        self._painter.setPen(Qt.PenStyle.NoPen)
        self._painter.setBrush(header_ground(self._theme, number))
        self._painter.drawPolygon(
            QPolygonF([QPointF(x - 9, top + 1), QPointF(x, top - 11), QPointF(x + 9, top + 1)])
        )

    # Cards

    def card(
        self, rect: QRectF, card: Card, place: CardBox, *, chosen: bool, focused: bool, note: str = ""
    ) -> float:
        """A card; gives the middle of the marked expression in pixels."""
        self._ground(rect, card, chosen, focused)
        m = self._measures
        head_height = m.slim if card.frame.inlined else m.name
        inner = rect.adjusted(_PAD, 0, -_PAD, 0)
        self._head(QRectF(inner.left(), rect.top(), inner.width(), head_height), card)
        middle = inner.left() + 20
        y = rect.top() + head_height
        if place.amount >= Amount.CODE and card.code:
            strip = QRectF(rect.left() + 5, y, rect.width() - 10, m.code - 3)
            middle = self._code(strip, card)
            y += m.code
        if place.amount is Amount.ALL:
            self._variables(inner.left(), y, card, place)
            y += place.rows * m.row
            if note:
                line = QRectF(inner.left(), y, inner.width(), m.note)
                self._elided(line, f"next: {note}", "text_muted", self._fonts.code)
        return middle

    def _ground(self, rect: QRectF, card: Card, chosen: bool, focused: bool) -> None:
        painter, theme = self._painter, self._theme
        edge = 1.0 if chosen else 0.5
        pen = QPen(theme.color("accent" if chosen else "border"), 2.0 if chosen else 1.0)
        if card.frame.inlined and not chosen:
            pen.setStyle(Qt.PenStyle.DashLine)
        ground = theme.color("panel")
        if card.frame.inlined:
            ground = blend(ground, theme.color("sunken"), 0.7)
        painter.setPen(pen)
        painter.setBrush(ground)
        painter.drawRoundedRect(rect.adjusted(edge, edge, -edge, -edge), _RADIUS, _RADIUS)
        if chosen and focused:
            painter.setPen(QPen(theme.color("accent"), 1.0, Qt.PenStyle.DotLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(3, 3, -3, -3), _RADIUS - 2, _RADIUS - 2)

    def _head(self, place: QRectF, card: Card) -> None:
        fonts, frame = self._fonts, card.frame
        font, metrics = (
            (fonts.text, fonts.text_metrics) if frame.inlined else (fonts.name, fonts.name_metrics)
        )
        x = place.left()
        if card.innermost:
            x += self._now(place)
        name = frame.function
        name_width = metrics.horizontalAdvance(name) + 2
        where = self._where(card, place.right() - x - name_width - 14)
        where_width = fonts.text_metrics.horizontalAdvance(where)
        room = max(0.0, place.right() - x - (where_width + 10 if where else 0))
        self._elided(QRectF(x, place.top(), room, place.height()), name, "text", font, metrics)
        if where:
            self._text(place, where, "text_muted", fonts.text, _RIGHT)
        if card.hidden and room > name_width + 20:
            inside = QRectF(x + name_width, place.top(), room - name_width, place.height())
            self._elided(inside, " › " + " › ".join(card.hidden), "text_muted", fonts.text)

    def _now(self, place: QRectF) -> float:
        # The triangle of the frame that executes; gives its width.
        size = self._fonts.text_metrics.height() * 0.36
        y = place.center().y()
        self._painter.setPen(Qt.PenStyle.NoPen)
        self._painter.setBrush(self._theme.color("cpu_running"))
        self._painter.drawPolygon(
            QPolygonF(
                [
                    QPointF(place.left(), y - size),
                    QPointF(place.left() + size * 1.6, y),
                    QPointF(place.left(), y + size),
                ]
            )
        )
        return size * 1.6 + 6

    def _where(self, card: Card, room: float) -> str:
        # As much as there is room for beside the name, which comes first.
        frame = card.frame
        inlined = "inlined  " if frame.inlined else ""
        for text in (f"{inlined}{frame.file}:{frame.line}", f"{frame.file}:{frame.line}", f":{frame.line}"):
            if self._fonts.text_metrics.horizontalAdvance(text) <= room:
                return text
        return ""

    def _code(self, strip: QRectF, card: Card) -> float:
        painter, metrics = self._painter, self._fonts.code_metrics
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("sunken"))
        painter.drawRoundedRect(strip, 4, 4)
        body = strip.adjusted(5, 0, -4, 0)
        columns = max(1, int(body.width() / metrics.horizontalAdvance("0")))
        text, start, end = scrolled(card.code, *card.mark, columns)
        left = body.left() + metrics.horizontalAdvance(text[:start])
        right = body.left() + metrics.horizontalAdvance(text[:end])
        mark = QRectF(left - 2, strip.top() + 1.5, right - left + 4, strip.height() - 3)
        mark = mark.intersected(strip.adjusted(1, 0, -1, 0))
        self._mark(mark, card)
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, body.width())
        self._text(body, shown, "text", self._fonts.code)
        return mark.center().x()

    def _mark(self, mark: QRectF, card: Card) -> None:
        painter, theme = self._painter, self._theme
        painter.setPen(Qt.PenStyle.NoPen)
        if card.innermost:
            painter.setBrush(theme.color("code_mark"))
        elif card.frame.interrupted:
            accent = theme.level_color(card.frame.level + 1)
            painter.setPen(QPen(accent, 1.5))
            painter.setBrush(blend(theme.color("panel"), accent, 0.16))
        else:
            painter.setBrush(blend(theme.color("sunken"), theme.color("accent"), 0.16))
        painter.drawRoundedRect(mark, 3, 3)

    def _variables(self, left: float, top: float, card: Card, place: CardBox) -> None:
        variables = card.frame.variables
        counted = sum(cell.index >= 0 for cell in place.cells)
        for cell in place.cells:
            rect = QRectF(
                left + cell.x, top + cell.row * self._measures.row, cell.width - 6, self._measures.row
            )
            if cell.index < 0:
                self._elided(rect, f"+{len(variables) - counted} more", "text_muted", self._fonts.text)
            else:
                variable = variables[cell.index]
                self._variable(rect, variable, variable.name in card.changed)

    def _variable(self, rect: QRectF, variable: VariableValue, changed: bool) -> None:
        metrics = self._fonts.code_metrics
        name = f"{variable.name} = "
        name_width = min(metrics.horizontalAdvance(name), rect.width() * 0.6)
        value = QRectF(rect.left() + name_width, rect.top(), rect.width() - name_width, rect.height())
        shown = metrics.elidedText(variable.text, Qt.TextElideMode.ElideRight, value.width())
        if changed:
            ground = QRectF(value.left() - 3, value.top() + 1, metrics.horizontalAdvance(shown) + 6, 0)
            ground.setHeight(value.height() - 2)
            self._painter.setPen(Qt.PenStyle.NoPen)
            self._painter.setBrush(self._theme.color("value_changed"))
            self._painter.drawRoundedRect(ground, 3, 3)
        self._elided(QRectF(rect.left(), rect.top(), name_width, rect.height()), name, "text_muted")
        self._text(value, shown, "text", self._fonts.code)

    def fold(self, rect: QRectF, names: Sequence[str]) -> None:
        """A row with the names of frames that have no room for cards."""
        painter, theme = self._painter, self._theme
        painter.setPen(QPen(theme.color("border"), 1.0))
        painter.setBrush(blend(theme.color("panel"), theme.color("sunken"), 0.7))
        painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), _RADIUS, _RADIUS)
        metrics = self._fonts.text_metrics
        inner = rect.adjusted(_PAD, 0, -_PAD, 0)
        text = " › ".join(names)
        if metrics.horizontalAdvance(text) > inner.width():
            count = f"{len(names)} frames"
            self._text(inner, count, "text_muted", self._fonts.text, _RIGHT)
            inner.setRight(inner.right() - metrics.horizontalAdvance(count) - 10)
            text = metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, inner.width())
        self._text(inner, text, "text", self._fonts.text)

    def ghost(self, rect: QRectF, text: str, number: int) -> None:
        """A pending interrupt: where its box will be."""
        painter = self._painter
        accent = self._theme.level_color(number)
        pen = QPen(accent, 1.3)
        pen.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), _RADIUS, _RADIUS)
        self._elided(
            rect.adjusted(_PAD + 2, 0, -_PAD, 0), f"⚡ to come: {text}", "text_muted", self._fonts.text
        )

    def raised(self, rect: QRectF, level: int) -> None:
        """The ground of the innermost card when it is held in view above what is scrolled."""
        self._shadow(rect)
        accent = self._theme.level_color(level) if level else self._theme.color("border")
        self._painter.setPen(QPen(accent, 1.5))
        self._painter.setBrush(self._theme.color("panel"))
        self._painter.drawRoundedRect(rect.adjusted(0.75, 0.75, -0.75, -0.75), _RADIUS, _RADIUS)

    def _shadow(self, box: QRectF) -> None:
        self._painter.setPen(Qt.PenStyle.NoPen)
        for spread, alpha in _SHADOW:
            self._painter.setBrush(QColor(0, 0, 0, alpha * (3 if self._theme.dark else 1)))
            self._painter.drawRoundedRect(
                box.adjusted(-spread * 0.5, -spread * 0.2, spread * 0.5, spread), _RADIUS + 1, _RADIUS + 1
            )

    # Text

    def _elided(
        self,
        place: QRectF,
        text: str,
        colour: str,
        font: QFont | None = None,
        metrics: QFontMetricsF | None = None,
    ) -> None:
        used = font if font is not None else self._fonts.code
        known = metrics or {
            id(self._fonts.text): self._fonts.text_metrics,
            id(self._fonts.bold): self._fonts.bold_metrics,
            id(self._fonts.name): self._fonts.name_metrics,
        }.get(id(used), self._fonts.code_metrics)
        shown = known.elidedText(text, Qt.TextElideMode.ElideRight, place.width())
        self._text(place, shown, colour, used)

    def _text(
        self, place: QRectF, text: str, colour: str, font: QFont, flags: Qt.AlignmentFlag = _LEFT
    ) -> None:
        self._painter.setFont(font)
        self._painter.setPen(self._theme.color(colour))
        self._painter.drawText(place, flags, text)


def _rect(box: Box, offset: int) -> QRectF:
    return QRectF(box.x, box.y - offset, box.width, box.height)


def paint_stack(
    painter: StackPainter,
    cards: Sequence[Card],
    levels: Sequence[Level],
    layout: StackLayout,
    *,
    offset: int,
    bottom: int,
    chosen: int,
    focused: bool,
    note: str,
) -> None:
    """Paint what is visible of the boxes, outermost first, and of the cards in them.

    Parameters
    ----------
    offset, bottom : int
        Scrolled by, and height of the visible part.
    chosen : int
        Position of the chosen card.
    """
    pairs = list(zip(levels, layout.levels, strict=True))
    for level, place in pairs:
        if place.box.y - offset < bottom and place.box.bottom > offset:
            painter.level(place, level, offset, cards[level.first].frame.saved_irq_enabled)
    for fold in layout.folds:
        names = [card.frame.function for card in cards[fold.first : fold.last + 1]]
        painter.fold(_rect(fold.box, offset), names)
    middles: dict[int, float] = {}
    for index, (card, at) in enumerate(zip(cards, layout.cards, strict=True)):
        if at.amount is Amount.FOLDED or at.box.bottom <= offset or at.box.y - offset >= bottom:
            continue
        middles[index] = painter.card(
            _rect(at.box, offset),
            card,
            at,
            chosen=index == chosen,
            focused=focused,
            note=note if card.innermost else "",
        )
    for level, place in pairs:
        if level.first:
            middle = middles.get(level.first - 1, place.header.x + 24.0)
            painter.pointer(place.header, offset, level.number, middle)
