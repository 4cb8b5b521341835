"""The text of one file: read only, with marks under it, values behind it and a margin beside it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)
from PySide6.QtWidgets import QFrame, QPlainTextDocumentLayout, QPlainTextEdit, QTextEdit, QWidget

from slubviz.model.snapshot import SourceSpan
from slubviz.views.source_panel_gutter import Gutter, GutterContent
from slubviz.views.source_panel_marks import Marks, PlacedBlock, paint_under, paint_values, span_rect
from slubviz.views.source_panel_syntax import Colouring
from slubviz.views.theme import MINIMUM_POINT_SIZE, Theme

#: A line that is gone to is at least so many lines away from the upper and lower edge.
_MARGIN_LINES = 4
_MARGIN_PIXELS = 24
#: Where spans are fitted, letters shrink to no less than this share before the text is scrolled.
_SMALLEST_SHARE = 0.75
#: So many lines above and below it count as those around it.
_AROUND = 7
#: So many places that are found are marked.
_MOST_FOUND = 400
_KEYS = {
    (Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier): "find",
    (Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier): "line",
    (Qt.Key.Key_PageUp, Qt.KeyboardModifier.ControlModifier): "previous_file",
    (Qt.Key.Key_PageDown, Qt.KeyboardModifier.ControlModifier): "next_file",
    (Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier): "breakpoint",
}


class SourceEditor(QPlainTextEdit):
    """Shows a text; see the module."""

    key_command = Signal(str)  # one of _KEYS

    def __init__(self, theme: Theme, code_font: QFont, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._marks = Marks()
        self._code_font = code_font
        self._fits_spans = self._fitting = False
        self._fitted: SourceSpan | None = None
        self._placed: list[PlacedBlock] | None = None
        self._no_document = self._plain_document()
        self._colourings: dict[QTextDocument, Colouring] = {}
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Program text")
        self.setFont(code_font)
        self.gutter = Gutter(theme, self.visible_lines, self)
        self.gutter.setFont(code_font)
        self.updateRequest.connect(self._scrolled)
        self.verticalScrollBar().valueChanged.connect(self._moved)

    # Documents

    def _plain_document(self) -> QTextDocument:
        document = QTextDocument(self)
        document.setDocumentLayout(QPlainTextDocumentLayout(document))
        return document

    def make_document(self, lines: Sequence[str]) -> QTextDocument:
        """A document for ``set_document``."""
        document = QTextDocument(self)
        document.setDocumentLayout(QPlainTextDocumentLayout(document))
        document.setDefaultFont(self.font())
        document.setPlainText("\n".join(lines))
        self._colourings[document] = Colouring(lines, self._theme)
        return document

    def set_document(self, document: QTextDocument) -> None:
        """Show another document."""
        if document is not self.document():
            if document.defaultFont() != self.font():
                document.setDefaultFont(self.font())
            self._exchange(document)
        self._forget_lines()
        self._colour()

    def _exchange(self, document: QTextDocument) -> None:
        # From the top: Qt may adjust the scroll bar without end when a line in view is not in the new one.
        self.verticalScrollBar().setValue(0)
        self.setDocument(document)

    def forget_documents(self) -> None:
        """The documents that were made are not shown any more."""
        self._exchange(self._no_document)
        for document in self._colourings:
            document.deleteLater()
        self._colourings = {}
        self._forget_lines()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.gutter.set_theme(theme)
        self._colour()
        self.viewport().update()

    def _colour(self) -> None:
        # Only what is in view: a long file takes longer than a picture may.
        colouring = self._colourings.get(self.document())
        if colouring is None:
            return
        colouring.set_theme(self._theme)
        changed = [placed.block for placed in self.visible_lines() if colouring.colour(placed.block)]
        if changed:
            first, last = changed[0], changed[-1]
            length = last.position() + last.length() - first.position()
            self.document().markContentsDirty(first.position(), length)
            self._forget_lines()

    def set_code_font(self, font: QFont) -> None:
        """Change font or size."""
        self._code_font = font
        self._use_font(font)
        self._fit_again()

    def _use_font(self, font: QFont) -> None:
        self.setFont(font)
        self.document().setDefaultFont(font)
        self.gutter.setFont(font)
        self._resize_gutter()
        self._colour()

    def set_presentation(self, on: bool) -> None:
        """For a talk: a narrow margin, and an expression that is gone to is seen from its beginning.

        Where it is too wide the letters get smaller; then the text is scrolled, by its indentation at most.
        """
        self._fits_spans = on
        self.gutter.set_compact(on)
        self._resize_gutter()
        self._fit_again()

    # What is marked

    def show_marks(self, marks: Marks, gutter: GutterContent) -> None:
        """Mark expressions, values and what is in the margin."""
        if marks != self._marks:
            self._marks = marks
            self.viewport().update()
        width = self.gutter.needed_width()
        self.gutter.show_content(gutter, self.blockCount())
        if self.gutter.needed_width() != width or self.viewportMargins().left() != width:
            self._resize_gutter()

    @property
    def marks(self) -> Marks:
        """What is marked."""
        return self._marks

    def show_line(self, line: int) -> None:
        """Scroll until a line is in view and not at its edge; does nothing if it is."""
        bar = self.verticalScrollBar()
        shown = max(1, self.viewport().height() // max(1, round(self._line_height())))
        margin = min(_MARGIN_LINES, (shown - 1) // 3)
        top = bar.value()
        if top + margin <= line - 1 < top + shown - margin:
            return
        bar.setValue(max(0, line - 1 - shown // 2))

    def show_span(self, span: SourceSpan) -> None:
        """Scroll until an expression is in view; its beginning if it is too wide."""
        if self._fits_spans:
            self._fitted = span
            self._fit_again()
            return
        self.show_line(span.line)
        self._forget_lines()
        placed = next((line for line in self.visible_lines() if line.number == span.line), None)
        if placed is None:
            return
        bar, width = self.horizontalScrollBar(), self.viewport().width()
        rect = span_rect(placed, span).translated(bar.value(), 0)
        if rect.right() <= width:
            bar.setValue(0)
        elif not bar.value() <= rect.left() <= rect.right() <= bar.value() + width:
            bar.setValue(round(min(rect.right() - width + _MARGIN_PIXELS, rect.left() - _MARGIN_PIXELS)))

    def _fit_again(self) -> None:
        # Another font changes the margin, and that the size, which comes back here: once is enough.
        if self._fits_spans and not self._fitting:
            self._fitting = True
            self._fit()
            self._fitting = False

    def _fit(self) -> None:
        span = self._fitted
        block = self.document().findBlockByNumber(span.line - 1) if span is not None else None
        if span is None or block is None or not block.isValid():
            return
        text = block.text()
        end = span.end_column - 1 if span.end_line == span.line else len(text)
        indent, common = _indent(text), self._common_indent(span.line)
        room = self.viewport().width() - _MARGIN_PIXELS
        font = self._font_for(text[common:end], room)
        if abs(font.pointSizeF() - self.font().pointSizeF()) > 0.05:
            self._use_font(font)
        self.show_line(span.line)
        metrics = QFontMetricsF(self.font())
        beyond = metrics.horizontalAdvance(text[:end]) - room
        self.horizontalScrollBar().setValue(
            round(max(0.0, min(beyond, metrics.horizontalAdvance(text[:indent]))))
        )
        self._forget_lines()

    def _font_for(self, text: str, room: float) -> QFont:
        # Widths of letters are rounded: the size that ought to fit may still be too large, hence two rounds.
        font, share = QFont(self._code_font), 1.0
        for _ in range(2):
            wide = QFontMetricsF(font).horizontalAdvance(text)
            share = min(share, max(_SMALLEST_SHARE, share * room / max(wide, 1.0)))
            font.setPointSizeF(max(MINIMUM_POINT_SIZE, self._code_font.pointSizeF() * share))
        return font

    def _common_indent(self, line: int) -> int:
        # Of the lines around one: scrolling by that cuts nothing of them.
        block, indents = self.document().findBlockByNumber(max(0, line - 1 - _AROUND)), []
        while block.isValid() and block.blockNumber() <= line - 1 + _AROUND:
            if block.text().strip():
                indents.append(_indent(block.text()))
            block = block.next()
        return min(indents, default=0)

    def go_to_line(self, line: int) -> None:
        """Put the caret into a line and show it."""
        block = self.document().findBlockByNumber(min(max(1, line), self.blockCount()) - 1)
        self.setTextCursor(QTextCursor(block))
        self.show_line(block.blockNumber() + 1)

    def caret_line(self) -> int:
        """The line of the caret, from 1."""
        return self.textCursor().blockNumber() + 1

    # Finding

    def find_all(self, text: str) -> list[QTextCursor]:
        """Every place of a text, upper and lower case alike."""
        found: list[QTextCursor] = []
        if not text:
            return found
        cursor = QTextCursor(self.document())
        while len(found) < _MOST_FOUND:
            cursor = self.document().find(text, cursor)
            if cursor.isNull():
                break
            found.append(cursor)
        return found

    def search_start(self) -> int:
        """Where a search begins: at the caret if that is in view, else at the first line in view."""
        cursor = self.textCursor()
        numbers = [placed.number for placed in self.visible_lines()]
        if not numbers or numbers[0] <= self.caret_line() <= numbers[-1]:
            return cursor.selectionStart()
        return self.firstVisibleBlock().position()

    def mark_found(self, found: Sequence[QTextCursor]) -> None:
        """Give the places that were found a ground."""
        selections = []
        form = QTextCharFormat()
        form.setBackground(self._theme.color("value_changed"))
        for cursor in found:
            selection = QTextEdit.ExtraSelection()
            selection.cursor, selection.format = cursor, form
            selections.append(selection)
        self.setExtraSelections(selections)

    # Lines in view

    def visible_lines(self) -> Sequence[PlacedBlock]:
        """The lines that are in view."""
        if self._placed is None:
            placed = []
            block = self.firstVisibleBlock()
            offset = self.contentOffset()
            bottom = self.viewport().height()
            while block.isValid():
                rect = self.blockBoundingGeometry(block).translated(offset)
                if rect.top() > bottom:
                    break
                placed.append(PlacedBlock(block.blockNumber() + 1, block, QRectF(rect)))
                block = block.next()
            self._placed = placed
        return self._placed

    def _line_height(self) -> float:
        return max(1.0, self.blockBoundingRect(self.document().firstBlock()).height())

    def _moved(self) -> None:
        self._forget_lines()
        self._colour()

    def _forget_lines(self) -> None:
        self._placed = None

    # Events

    def paintEvent(self, event: QPaintEvent) -> None:
        self._forget_lines()
        lines = self.visible_lines()
        width = self.viewport().width()
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), self._theme.color("panel"))
        paint_under(painter, lines, self._marks, self._theme, width)
        painter.end()
        super().paintEvent(event)
        if self._marks.values:
            painter = QPainter(self.viewport())
            paint_values(painter, lines, self._marks, self._theme, self.font(), width)
            painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._resize_gutter()
        self._colour()
        if event.size().width() != event.oldSize().width():
            self._fit_again()

    def event(self, event: QEvent) -> bool:
        # While the text has the focus, these keys are its own and not the window's.
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and _command(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        command = _command(event)
        if command:
            self.key_command.emit(command)
        else:
            super().keyPressEvent(event)

    def _resize_gutter(self) -> None:
        width = self.gutter.needed_width()
        self.setViewportMargins(width, 0, 0, 0)
        area = self.contentsRect()
        self.gutter.setGeometry(QRect(area.left(), area.top(), width, self.viewport().height()))
        self._forget_lines()
        self.gutter.update()

    def _scrolled(self, rect: QRect, dy: int) -> None:
        self._forget_lines()
        if dy:
            self.gutter.update()
        else:
            self.gutter.update(0, rect.y(), self.gutter.width(), rect.height())


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _command(event: QKeyEvent) -> str:
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return _KEYS.get((Qt.Key(event.key()), modifiers), "")
