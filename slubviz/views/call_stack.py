"""The call stack panel: interrupt nesting of one CPU, frame by frame.

A row of CPUs, two lines of facts about the chosen one, and its frames as cards.  Shows a StackContent and
emits what the user chooses; what follows from that is the window's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from slubviz.views.call_stack_cards import Stack, StackView
from slubviz.views.call_stack_chooser import CpuChooser
from slubviz.views.call_stack_content import Card, StackContent, cards_of, levels_of
from slubviz.views.call_stack_painter import StackFonts, stack_fonts
from slubviz.views.call_stack_status import StackStatus
from slubviz.views.theme import Theme, code_font, text_font

if TYPE_CHECKING:
    from slubviz.model.travel.call_stack import CallStackView, Frame

_LEAST_WIDTH, _LEAST_HEIGHT = 240, 160


class CallStackPanel(QWidget):
    """Shows the frames of a CPU as cards, interrupts as nested boxes."""

    cpu_chosen = Signal(int)  # number
    frame_chosen = Signal(int, int)  # CPU, index in its CallStackView.frames
    variable_chosen = Signal(int, int, str)  # CPU, index of the frame, name

    def __init__(
        self, theme: Theme, parent: QWidget | None = None, *, fonts: tuple[QFont, QFont] | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._text_font, self._code_font = fonts or (text_font(), code_font())
        self._scale = 1.0
        self._content = StackContent()
        self._before: dict[int, CallStackView] = {}
        self._cards: tuple[Card, ...] = ()
        self._frame: int | None = None  # chosen by the user; None follows the innermost
        made = self._fonts()
        self.chooser = CpuChooser(theme, made)
        self.status = StackStatus(theme, made)
        self.view = StackView(theme, made)
        self.inlined = QCheckBox("Inlined")
        self.inlined.setChecked(True)
        self.inlined.setToolTip("Show inlined functions as cards of their own")
        self._build()

    def _build(self) -> None:
        self.status.set_corner(self.inlined)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 6)
        layout.setSpacing(4)
        layout.addWidget(self.chooser)
        layout.addWidget(self.status)
        layout.addWidget(self.view, 1)
        self.chooser.cpu_chosen.connect(self._cpu_wanted)
        self.view.cpu_wanted.connect(self.chooser.choose_beside)
        self.view.card_chosen.connect(self._card_chosen)
        self.view.variable_chosen.connect(self._variable_chosen)
        self.inlined.toggled.connect(self._inlined_toggled)
        self.setFocusProxy(self.view)
        # Not that of its parts, which changes with the number of CPUs: the window shall not change with it.
        self.setMinimumSize(_LEAST_WIDTH, _LEAST_HEIGHT)

    def sizeHint(self) -> QSize:
        return QSize(440, 560)

    # What is shown

    def show_stacks(self, content: StackContent) -> None:
        """Show the call stack of the chosen CPU.

        The chosen frame stays chosen as long as it is there and the CPU is the same; else it is the
        innermost.
        """
        moved = content.moment != self._content.moment or content.cpu != self._content.cpu
        if moved and content.moment != self._content.moment:
            self._before = {stack.cpu: stack for stack in self._content.stacks}
        if content.cpu != self._content.cpu or not self._same_frame(content):
            self._frame = None
        self._content = content
        self._refresh(follow=moved)

    def chosen_frame(self) -> int:
        """Index of the chosen frame in ``CallStackView.frames``, -1 if there is none."""
        place = self._chosen_place()
        return self._cards[place].index if place >= 0 else -1

    def chosen(self) -> Frame | None:
        """The chosen frame."""
        place = self._chosen_place()
        return self._cards[place].frame if place >= 0 else None

    @property
    def follows(self) -> bool:
        """Whether the chosen frame is the innermost one; True if there is none."""
        place = self._chosen_place()
        return place < 0 or self._cards[place].innermost

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards that are shown, outermost first."""
        return self._cards

    def choose_frame(self, step: int) -> None:
        """Choose the frame above (-1) or below (+1) the chosen one, as far as there is one."""
        place = self._chosen_place() + step
        if self._cards and 0 <= place < len(self._cards):
            self._card_chosen(place)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self._look()

    def set_text_scale(self, scale: float) -> None:
        """Make everything larger, for a talk; 1 is the normal size.

        Raises
        ------
        ValueError
            If the scale is not between 0.5 and 6.
        """
        if not 0.5 <= scale <= 6:
            raise ValueError(f"a scale of {scale} is not between 0.5 and 6")
        self._scale = scale
        self._look()

    # Inside

    def _fonts(self) -> StackFonts:
        return stack_fonts(self._text_font, self._code_font, self._scale)

    def _look(self) -> None:
        made = self._fonts()
        self.inlined.setFont(made.text)
        for part in (self.chooser, self.status, self.view):
            part.set_look(self._theme, made)

    def _refresh(self, *, follow: bool) -> None:
        content = self._content
        stack = content.stack
        tab = next((tab for tab in content.tabs if tab.number == content.cpu), None)
        self.chooser.show_tabs(content.tabs, content.cpu)
        self.status.show_stack(stack, tab)
        shown = Stack(empty=self._empty_text(stack))
        self._cards = ()
        if stack is not None:
            self._cards = cards_of(
                stack, content.sources, self._before.get(content.cpu), inlined=self.inlined.isChecked()
            )
            levels = levels_of(self._cards, content.sources, content.arrivals)
            shown = Stack(self._cards, levels, stack.pending, stack.micro_op_text, shown.empty)
        self.view.show_stack(shown, self._chosen_place(), follow=follow)

    def _empty_text(self, stack: CallStackView | None) -> str:
        if not self._content.tabs and stack is None:
            return "No run yet"
        if stack is None:
            return ""
        return f"CPU {stack.cpu}: {stack.state_text or 'idle'}\nNo function runs on it"

    def _same_frame(self, content: StackContent) -> bool:
        # Whether the chosen frame is still there, with the same function in the same place.
        if self._frame is None:
            return True
        old, new = self._content.stack, content.stack
        index = self._frame
        if old is None or new is None or index >= min(len(old.frames), len(new.frames)):
            return False
        pairs = zip(old.frames[: index + 1], new.frames[: index + 1], strict=True)
        return all((a.function, a.level) == (b.function, b.level) for a, b in pairs)

    def _chosen_place(self) -> int:
        if self._frame is None:
            return len(self._cards) - 1
        places = [place for place, card in enumerate(self._cards) if card.index <= self._frame]
        return places[-1] if places else len(self._cards) - 1

    def _cpu_wanted(self, number: int) -> None:
        if number != self._content.cpu:
            self.cpu_chosen.emit(number)

    def _card_chosen(self, place: int) -> None:
        card = self._cards[place]
        self._frame = None if card.innermost else card.index
        self._refresh(follow=False)
        self.frame_chosen.emit(self._content.cpu, card.index)

    def _variable_chosen(self, place: int, name: str) -> None:
        self.variable_chosen.emit(self._content.cpu, self._cards[place].index, name)

    def _inlined_toggled(self) -> None:
        self._refresh(follow=True)
