"""Painting of one CPU card: state, call stack, and the source line with its next expression.

A card has as many source lines as its height allows; the one that executes is in the middle, the
expression that the next micro-op belongs to is marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPen

from slubviz.hw.isa import CpuState
from slubviz.model.snapshot import CpuView, SourceSpan
from slubviz.views import numbers
from slubviz.views.cpu_layout import Pace, StateText, crumbs, fitting_crumbs, scrolled, state_text
from slubviz.views.theme import Theme

_PAD = 8
_STRIPE = 4
_FACT_GAP = 6
_SEPARATOR = " › "
_ELLIPSIS = "… › "
_VCENTER = Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | _VCENTER
_RIGHT = Qt.AlignmentFlag.AlignRight | _VCENTER

Sources = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class CardFonts:
    """Fonts of a card, with their metrics."""

    text: QFont
    bold: QFont
    code: QFont
    text_metrics: QFontMetricsF
    bold_metrics: QFontMetricsF
    code_metrics: QFontMetricsF

    @property
    def line(self) -> float:
        """Height of a line, the same for all fonts of a card."""
        return max(self.text_metrics.height(), self.code_metrics.height()) + 1


def card_fonts(text: QFont, code: QFont) -> CardFonts:
    """Measure the fonts once for all cards."""
    bold = QFont(text)
    bold.setWeight(QFont.Weight.DemiBold)
    return CardFonts(text, bold, code, QFontMetricsF(text), QFontMetricsF(bold), QFontMetricsF(code))


class CardPainter:
    """Paints cards with one theme and one set of fonts."""

    def __init__(self, painter: QPainter, theme: Theme, fonts: CardFonts) -> None:
        self._painter = painter
        self._theme = theme
        self._fonts = fonts

    def draw(
        self,
        rect: QRectF,
        cpu: CpuView,
        sources: Sources,
        now_cycles: float,
        focused: bool,
        pace: Pace = Pace.FAST,
        is_next: bool = False,
    ) -> None:
        """Paint a card into a rectangle of logical pixels."""
        state = state_text(cpu, now_cycles)
        self._draw_ground(rect, state.colour, focused, is_next)
        line = self._fonts.line
        inner = rect.adjusted(_STRIPE + _PAD, 3, -_PAD, -3)
        lines = max(1, int((inner.height() + 1) // line))
        top = inner.top() + max(0.0, min((inner.height() - lines * line) / 2, 4.0))
        head = QRectF(inner.left(), top, inner.width(), line)
        after_name = self._draw_name(head, cpu.number, is_next)
        self._draw_state(head, after_name, cpu, state, pace, is_next)
        if lines > 1 and not cpu.frames:
            self._text(
                QRectF(inner.left(), top + line, inner.width(), line),
                _totals(cpu),
                "text_muted",
                self._fonts.text,
            )
        if lines < 3 or not cpu.frames:
            return
        self._draw_stack(QRectF(inner.left(), top + line, inner.width(), line), cpu)
        code = QRectF(inner.left(), top + 2 * line + 1, inner.width(), (lines - 2) * line)
        self._draw_source(code, cpu, sources, lines - 2)

    def _draw_ground(self, rect: QRectF, colour: str, focused: bool, is_next: bool) -> None:
        painter = self._painter
        width = 2 if is_next else 1
        painter.setPen(QPen(self._theme.color("accent" if focused or is_next else "border"), width))
        painter.setBrush(self._theme.color("sunken"))
        edge = width / 2
        painter.drawRoundedRect(rect.adjusted(edge, edge, -edge, -edge), 6, 6)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color(colour))
        painter.drawRoundedRect(
            QRectF(rect.left() + 4, rect.top() + 7, _STRIPE - 1, rect.height() - 14), 1.5, 1.5
        )

    def _text(
        self, place: QRectF, text: str, colour: str, font: QFont, flags: Qt.AlignmentFlag = _LEFT
    ) -> None:
        self._painter.setFont(font)
        self._painter.setPen(self._theme.color(colour))
        self._painter.drawText(place, flags, text)

    def _draw_name(self, place: QRectF, number: int, is_next: bool) -> float:
        # Returns where it ends.
        fonts = self._fonts
        name = f"CPU{numbers.THIN}{number}"
        self._text(place, name, "text", fonts.bold)
        x = place.left() + fonts.bold_metrics.horizontalAdvance(name) + 10
        if not is_next:
            return x
        badge = QRectF(
            x - 2, place.top() + 1, fonts.bold_metrics.horizontalAdvance("next") + 12, place.height() - 2
        )
        self._painter.setPen(Qt.PenStyle.NoPen)
        self._painter.setBrush(self._theme.color("accent"))
        self._painter.drawRoundedRect(badge, badge.height() / 2, badge.height() / 2)
        self._text(badge, "next", "on_accent", fonts.bold, Qt.AlignmentFlag.AlignCenter)
        return badge.right() + 8

    def _draw_state(
        self, place: QRectF, x: float, cpu: CpuView, state: StateText, pace: Pace, is_next: bool
    ) -> None:
        # The state comes first; of the facts on the right as many as there is room for.
        metrics = self._fonts.text_metrics
        facts = self._facts(cpu, pace)
        widths = [width for _, _, width in facts]
        # The interrupt flag stays on the narrowest card: the long text of a waiting CPU is shortened.
        needed = metrics.horizontalAdvance(state.text) + 10
        count = fitting_facts(widths, place.right() - x - needed)
        if is_next and count < 2 <= fitting_facts(widths, place.right() - x):
            # The badge says that it runs; the clock says why it is the next one.
            self._draw_facts(place, facts[:2])
            return
        right = self._draw_facts(place, facts[:count])
        room = max(0.0, right - 4 - x)
        shown = metrics.elidedText(state.text, Qt.TextElideMode.ElideRight, room)
        self._text(QRectF(x, place.top(), room, place.height()), shown, state.colour, self._fonts.text)

    def _facts(self, cpu: CpuView, pace: Pace) -> list[tuple[str, str, float]]:
        # Text, colour and width, the most important first.  Clock and operations have places of a fixed
        # width, so that growing numbers do not push the rest about.
        metrics = self._fonts.text_metrics
        flag = ("irq on", "text_muted") if cpu.interrupts_enabled else ("irq off", "interrupts_off")
        facts = [(*flag, metrics.horizontalAdvance("irq off"))]
        waits = cpu.state == CpuState.WAITING_LOCK
        if cpu.state != CpuState.HALTED and (pace is not Pace.FAST or not waits):
            clock = clock_text(cpu.clock_cycles, pace)
            widest = metrics.horizontalAdvance("00.00 M cyc")
            facts.append((clock, "text_muted", max(widest, metrics.horizontalAdvance(clock))))
        if cpu.operations:
            operations = f"{numbers.short(cpu.operations)}{numbers.THIN}ops"
            facts.append((operations, "text_muted", metrics.horizontalAdvance("00.00 k ops")))
        for name, value in cpu.extra:
            text = f"{name} {value}"
            facts.append((text, "text_muted", metrics.horizontalAdvance(text)))
        return facts

    def _draw_facts(self, place: QRectF, facts: list[tuple[str, str, float]]) -> float:
        # From the right edge inwards; returns where they end.
        right = place.right()
        for text, colour, width in facts:
            fact = QRectF(right - width, place.top(), width, place.height())
            self._text(fact, text, colour, self._fonts.text, _RIGHT)
            right -= width + _FACT_GAP
        return right

    def _draw_stack(self, place: QRectF, cpu: CpuView) -> None:
        metrics = self._fonts.text_metrics
        stack = crumbs(cpu.frames)
        separator, ellipsis = metrics.horizontalAdvance(_SEPARATOR), metrics.horizontalAdvance(_ELLIPSIS)
        texts = [f"⚡ {name}" if level else name for name, level in stack]
        widths = [int(metrics.horizontalAdvance(text)) + 1 for text in texts]
        dropped = fitting_crumbs(widths, int(separator), int(ellipsis), int(place.width()))
        x = place.left()
        if dropped:
            self._text(
                QRectF(x, place.top(), ellipsis, place.height()), _ELLIPSIS, "text_muted", self._fonts.text
            )
            x += ellipsis
        for index in range(dropped, len(stack)):
            last = index == len(stack) - 1
            colour = "interrupt" if stack[index][1] else "text" if last else "text_muted"
            room = QRectF(x, place.top(), max(0.0, place.right() - x), place.height())
            shown = metrics.elidedText(texts[index], Qt.TextElideMode.ElideRight, room.width())
            self._text(room, shown, colour, self._fonts.text)
            x += widths[index]
            if not last:
                room = QRectF(x, place.top(), separator, place.height())
                self._text(room, _SEPARATOR, "text_muted", self._fonts.text)
                x += separator

    def _draw_source(self, place: QRectF, cpu: CpuView, sources: Sources, lines: int) -> None:
        span = cpu.span
        if span is None:
            return
        text = sources.get(span.file, ())
        if not 1 <= span.line <= len(text):
            self._text(place, f"{span.file}:{span.line}", "text_muted", self._fonts.code, _LEFT)
            return
        line = self._fonts.line
        shown = lines - 1 if lines >= 4 and cpu.micro_op_text else lines
        first = max(1, min(span.line - shown // 2, len(text) - shown + 1))
        first = max(1, first)
        indent = _common_indent(text[first - 1 : first - 1 + shown])
        gutter = self._fonts.code_metrics.horizontalAdvance("0000 ")
        for offset in range(min(shown, len(text) - first + 1)):
            row = QRectF(place.left(), place.top() + offset * line, place.width(), line)
            self._draw_source_line(row, first + offset, text[first + offset - 1], span, indent, gutter)
        if shown < lines:
            row = QRectF(place.left(), place.top() + shown * line, place.width(), line)
            next_text = f"next: {cpu.micro_op_text}"
            next_text = self._fonts.code_metrics.elidedText(
                next_text, Qt.TextElideMode.ElideRight, row.width()
            )
            self._text(row, next_text, "text_muted", self._fonts.code)

    def _draw_source_line(
        self, row: QRectF, number: int, text: str, span: SourceSpan, indent: int, gutter: float
    ) -> None:
        fonts = self._fonts
        executing = span.line <= number <= span.end_line
        self._text(row, str(number), "text_muted", fonts.code)
        body = row.adjusted(gutter, 0, 0, 0)
        shown = text[indent:].rstrip()
        if executing:
            start = span.column - 1 if number == span.line else len(text) - len(text.lstrip())
            end = span.end_column - 1 if number == span.end_line else len(text.rstrip())
            columns = int(body.width() / fonts.code_metrics.horizontalAdvance("0"))
            shown, start, end = scrolled(shown, max(0, start - indent), max(0, end - indent), columns)
            left = body.left() + fonts.code_metrics.horizontalAdvance(shown[:start])
            width = fonts.code_metrics.horizontalAdvance(shown[start:end])
            mark = QRectF(left - 1, row.top() + 1, width + 2, row.height() - 2).intersected(
                body.adjusted(-1, 0, 0, 0)
            )
            self._painter.setPen(Qt.PenStyle.NoPen)
            self._painter.setBrush(self._theme.color("code_mark"))
            self._painter.drawRoundedRect(mark, 3, 3)
        elided = fonts.code_metrics.elidedText(shown, Qt.TextElideMode.ElideRight, body.width())
        self._text(body, elided, "text" if executing else "text_muted", fonts.code)


def clock_text(clock_cycles: float, pace: Pace) -> str:
    """A clock: short while it runs fast, in full where clocks are compared."""
    value = numbers.short(clock_cycles) if pace is Pace.FAST else numbers.integer(clock_cycles)
    return f"{value}{numbers.THIN}cyc"


def fitting_facts(widths: Sequence[float], room: float) -> int:
    """How many facts, the most important first, have room; the first one always stays."""
    count, used = min(1, len(widths)), sum(widths[:1])
    while count < len(widths) and used + _FACT_GAP + widths[count] <= room:
        used += _FACT_GAP + widths[count]
        count += 1
    return count


def _totals(cpu: CpuView) -> str:
    # What a halted CPU has done.
    if not cpu.micro_ops:
        return "has not run yet"
    ran = numbers.plural(cpu.micro_ops, "micro-op")
    return f"ran {ran} to cycle {numbers.integer(cpu.clock_cycles)}"


def _common_indent(lines: tuple[str, ...]) -> int:
    # Deep code would run out of a narrow card: what all shown lines are indented by is left away.
    filled = [line for line in lines if line.strip()]
    return min((len(line) - len(line.lstrip()) for line in filled), default=0)
