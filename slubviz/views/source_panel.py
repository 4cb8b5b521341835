"""The source panel: the program that runs, with what every CPU executes marked in its text.

One tab for each file.  With "Follow" on, it goes to the line of the chosen frame whenever the run has moved.
Shows a SourceContent and emits what the user asks for.
"""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QIcon, QPainter, QPixmap, QTextCursor, QTextDocument
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QMenu,
    QStackedLayout,
    QTabBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from slubviz.model.snapshot import SourceSpan
from slubviz.views.source_panel_content import CpuPlace, SourceContent, hottest, values_of
from slubviz.views.source_panel_editor import SourceEditor
from slubviz.views.source_panel_find import FindBar
from slubviz.views.source_panel_gutter import GutterContent, heat_summary
from slubviz.views.source_panel_marks import Marks
from slubviz.views.theme import MINIMUM_POINT_SIZE, Theme, code_font

#: CPUs that have a dot on the tab of a file.
_MOST_DOTS = 4
_LEAST_WIDTH, _LEAST_HEIGHT = 300, 140


class SourcePanel(QWidget):
    """Shows the program text with marks."""

    breakpoint_toggled = Signal(str, int)  # file, line
    heat_wanted = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, font: QFont | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._font = font or code_font()
        self._content = SourceContent()
        self._file = ""
        self._documents: dict[str, QTextDocument] = {}
        self._tops: dict[str, int] = {}
        self._icons: dict[str, tuple[int, ...]] = {}
        self._hottest = 1.0
        self._found: list[QTextCursor] = []
        self._at = 0
        self.tabs = QTabBar()
        self.follow = self._toggle("Follow", "Go to the line of the chosen frame when the run has moved")
        self.heat = self._toggle("Heat", "Show the cycles that each line took")
        self.files = QToolButton()
        self.editor = SourceEditor(theme, self._font)
        self.find_bar = FindBar()
        self.empty = QLabel("No program yet: start a run")
        self._build()
        self.follow.setChecked(True)
        self._show_file()

    @staticmethod
    def _toggle(text: str, tip: str) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip)
        button.setCheckable(True)
        button.setProperty("toggle", True)
        return button

    def _build(self) -> None:
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setElideMode(Qt.TextElideMode.ElideNone)
        self.tabs.setAccessibleName("Files of the program")
        self.files.setText("☰")
        self.files.setToolTip("Files of the program")
        self.files.setAccessibleName("Files of the program")
        self.files.setProperty("toggle", True)
        self.files.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.files.setMenu(QMenu(self.files))
        self.empty.setObjectName("muted")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.empty.setWordWrap(True)
        top = QHBoxLayout()
        top.setContentsMargins(8, 2, 6, 2)
        top.setSpacing(4)
        top.addWidget(self.files)
        top.addWidget(self.tabs, 1)
        top.addWidget(self.follow)
        top.addWidget(self.heat)
        self._stack = QStackedLayout()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.editor)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(top)
        layout.addLayout(self._stack, 1)
        layout.addWidget(self.find_bar)
        self.setFocusProxy(self.editor)
        self.setMinimumSize(_LEAST_WIDTH, _LEAST_HEIGHT)  # the same with the find bar and without
        self.tabs.currentChanged.connect(self._tab_chosen)
        self.heat.toggled.connect(self._heat_toggled)
        self.follow.toggled.connect(self._follow_toggled)
        self.editor.gutter.line_clicked.connect(self._line_clicked)
        self.editor.key_command.connect(self._key_command)
        self.find_bar.changed.connect(self._find)
        self.find_bar.step.connect(self._next_found)
        self.find_bar.line_entered.connect(self.editor.go_to_line)
        self.find_bar.closed.connect(lambda: self.editor.setFocus(Qt.FocusReason.OtherFocusReason))

    def sizeHint(self) -> QSize:
        return QSize(640, 480)

    # What is shown

    def show_source(self, content: SourceContent) -> None:
        """Show where the run is; files that are the same keep their place."""
        before, self._content = self._content, content
        if content.sources is not before.sources and dict(content.sources) != dict(before.sources):
            self._new_program()
        if content.heat is not before.heat:
            self._hottest = hottest(content.heat) if content.heat is not None else 1.0
            self.heat.setToolTip(heat_summary(content.heat) or "Show the cycles that each line took")
        self._mark_tabs()
        moved = (content.moment, content.cpu, content.frame) != (before.moment, before.cpu, before.frame)
        if moved and self.follow.isChecked() and content.frame is not None:
            self._go_to_span(content.frame.span)
        self._show_marks()

    @property
    def file(self) -> str:
        """The file that is shown, "" if none is."""
        return self._file

    def go_to(self, file: str, line: int) -> bool:
        """Show a line of a file; False if the program has no such file."""
        if file not in self._content.sources:
            return False
        if file != self._file:
            self._choose(file)
        self.editor.show_line(line)
        return True

    def _go_to_span(self, span: SourceSpan) -> None:
        if self.go_to(span.file, span.line):
            self.editor.show_span(span)

    def toggle_breakpoint(self) -> None:
        """Ask for a breakpoint at the caret's line, or for its end, if the line has code."""
        self._line_clicked(self.editor.caret_line())

    def open_find(self) -> None:
        """Open the bar that finds a text, with what is selected."""
        self.find_bar.open_for(self.editor.textCursor().selectedText())

    def open_go_to_line(self) -> None:
        """Open the bar that goes to a line."""
        self.find_bar.open_for(":")

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.editor.set_theme(theme)
        self._icons = {}
        self._mark_tabs()
        self.editor.mark_found(self._found)

    def set_text_scale(self, scale: float) -> None:
        """Make the text larger, for a talk; 1 is the normal size.

        Raises
        ------
        ValueError
            If the scale is not between 0.5 and 6.
        """
        if not 0.5 <= scale <= 6:
            raise ValueError(f"a scale of {scale} is not between 0.5 and 6")
        font = QFont(self._font)
        font.setPointSizeF(max(MINIMUM_POINT_SIZE, self._font.pointSizeF() * scale))
        self.editor.set_code_font(font)

    # Files

    def _new_program(self) -> None:
        self.editor.forget_documents()
        self._documents, self._tops = {}, {}
        self._icons = {}
        self._found = []
        self.tabs.blockSignals(True)
        while self.tabs.count():
            self.tabs.removeTab(0)
        self.files.menu().clear()
        for file in self._content.sources:
            self.tabs.addTab(file)
            self.files.menu().addAction(file).triggered.connect(lambda _=False, f=file: self._choose(f))
        self.tabs.blockSignals(False)
        files = list(self._content.sources)
        keep = self._file if self._file in files else files[0] if files else ""
        self._file = ""
        self._choose(keep)

    def _choose(self, file: str) -> None:
        if self._file:
            self._tops[self._file] = self.editor.verticalScrollBar().value()
        self._file = file
        files = list(self._content.sources)
        if file in files:
            self.tabs.blockSignals(True)
            self.tabs.setCurrentIndex(files.index(file))
            self.tabs.blockSignals(False)
        self._show_file()

    def _show_file(self) -> None:
        if not self._file:
            self._stack.setCurrentWidget(self.empty)
            return
        document = self._documents.get(self._file)
        if document is None:
            document = self.editor.make_document(self._content.sources[self._file])
            self._documents[self._file] = document
        self.editor.set_document(document)
        self._stack.setCurrentWidget(self.editor)
        self._show_marks()
        self.editor.verticalScrollBar().setValue(self._tops.get(self._file, 0))
        if not self.find_bar.isHidden():
            self._find(self.find_bar.field.text())

    def _tab_chosen(self, index: int) -> None:
        files = list(self._content.sources)
        if 0 <= index < len(files):
            self._choose(files[index])

    def _mark_tabs(self) -> None:
        # A dot for each CPU that executes something in the file.
        for index, file in enumerate(self._content.sources):
            cpus = tuple(place.cpu for place in self._content.places if place.span.file == file)[:_MOST_DOTS]
            if self._icons.get(file) != cpus:
                self._icons[file] = cpus
                self.tabs.setTabIcon(index, _dots([self._theme.cpu_color(cpu) for cpu in cpus]))

    # Marks

    def _show_marks(self) -> None:
        content, file = self._content, self._file
        if not file:
            return
        frame = content.frame if content.frame is not None and content.frame.file == file else None
        here = tuple(place for place in content.places if place.span.file == file)
        marks = Marks(
            here,
            content.cpu,
            frame.span if frame is not None else None,
            content.innermost,
            values_of(frame, content.sources[file]) if frame is not None else {},
        )
        gutter = GutterContent(
            file,
            content.code_lines.get(file, frozenset()),
            {line: on for (name, line), on in content.breakpoints.items() if name == file},
            _by_line(here, content.cpu),
            content.cpu,
            content.heat if self.heat.isChecked() else None,
            self._hottest,
        )
        self.editor.show_marks(marks, gutter)

    def _heat_toggled(self, on: bool) -> None:
        self._show_marks()
        self.heat_wanted.emit(on)

    def _follow_toggled(self, on: bool) -> None:
        frame = self._content.frame
        if on and frame is not None:
            self._go_to_span(frame.span)

    def _line_clicked(self, line: int) -> None:
        content = self._content
        has_code = line in content.code_lines.get(self._file, frozenset())
        if has_code or (self._file, line) in content.breakpoints:
            self.breakpoint_toggled.emit(self._file, line)

    # Keys and finding

    def _key_command(self, name: str) -> None:
        step = {"previous_file": -1, "next_file": 1}.get(name, 0)
        if name == "find":
            self.open_find()
        elif name == "line":
            self.open_go_to_line()
        elif name == "breakpoint":
            self.toggle_breakpoint()
        elif 0 <= self.tabs.currentIndex() + step < self.tabs.count():
            self.tabs.setCurrentIndex(self.tabs.currentIndex() + step)

    def _find(self, text: str) -> None:
        self._found = self.editor.find_all(text) if not text.startswith(":") else []
        self.editor.mark_found(self._found)
        start = self.editor.search_start()
        self._at = next((i for i, c in enumerate(self._found) if c.selectionStart() >= start), 0)
        self._show_found()

    def _next_found(self, step: int) -> None:
        if self._found:
            self._at = (self._at + step) % len(self._found)
            self._show_found()

    def _show_found(self) -> None:
        self.find_bar.show_count(self._at + 1, len(self._found))
        if self._found:
            cursor = self._found[self._at]
            self.editor.setTextCursor(cursor)
            self.editor.show_line(cursor.blockNumber() + 1)


def _by_line(places: tuple[CpuPlace, ...], chosen: int) -> dict[int, tuple[int, ...]]:
    # The chosen CPU first: where there are many it shall keep its badge.
    result: dict[int, tuple[int, ...]] = {}
    for place in sorted(places, key=lambda place: (place.cpu != chosen, place.cpu)):
        result[place.span.line] = (*result.get(place.span.line, ()), place.cpu)
    return result


def _dots(colours: list[QColor]) -> QIcon:
    if not colours:
        return QIcon()
    pixmap = QPixmap(32, 32)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    size = 16.0 if len(colours) > 1 else 20.0
    for index, colour in enumerate(colours):
        painter.setBrush(colour)
        x, y = (index % 2 * 16.0, index // 2 * 16.0) if len(colours) > 2 else (index * 16.0, 8.0)
        x, y = (6.0, 6.0) if len(colours) == 1 else (x, y)
        painter.drawEllipse(int(x) + 1, int(y) + 1, int(size) - 2, int(size) - 2)
    painter.end()
    return QIcon(pixmap)
