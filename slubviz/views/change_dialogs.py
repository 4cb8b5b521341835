"""Dialogs that ask for a change of the run: an interrupt, another value, a task that moves; and for names.

Each emits what was chosen when the user accepts, and blocks nothing while it is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from slubviz.model.travel.changes import Inject, Migrate, SetOption, What, WriteRegister, WriteWord
from slubviz.views import numbers

if TYPE_CHECKING:
    from slubviz.model.handlers import Handler
    from slubviz.model.travel.call_stack import CallStackView

_FIELD_WIDTH = 320
_ONCE, _PERIODIC, _RANDOM = range(3)
#: What arguments of handlers are at first, by name; others are 1.
_FIRST_VALUES = {"count": "4", "n": "1", "from_cpu": "0", "cpu": "0"}


def parse_integer(text: str) -> int | None:
    """A number as it is written here: digits in any grouping, or ``0x…``; None if it is none."""
    plain = "".join(text.split()).replace(numbers.THIN, "").replace(",", "").replace("_", "")
    try:
        value = int(plain, 0) if plain.lower().lstrip("+-").startswith("0x") else int(plain, 10)
    except ValueError:
        return None
    return value if -(1 << 63) <= value < 1 << 64 else None


class ChangeDialog(QDialog):
    """A form with OK and Cancel; ``complaint`` says why OK does not work."""

    chosen = Signal(object)

    def __init__(self, title: str, accept_text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.form = QFormLayout()
        self.form.setHorizontalSpacing(16)
        self.form.setVerticalSpacing(8)
        self._complaint = QLabel()
        self._complaint.setObjectName("muted")
        self._complaint.setWordWrap(True)
        self._complaint.setFixedWidth(_FIELD_WIDTH + 100)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.accept_button = QPushButton(accept_text)
        self._buttons.addButton(self.accept_button, QDialogButtonBox.ButtonRole.AcceptRole)
        self._buttons.accepted.connect(self._accept)
        self._buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        layout.setContentsMargins(24, 20, 24, 16)
        layout.setSpacing(12)
        layout.addLayout(self.form)
        layout.addWidget(self._complaint)
        layout.addWidget(self._buttons)

    @property
    def complaint(self) -> str:
        """What is wrong with the fields; "" if nothing is."""
        return self._complaint.text()

    def result_or_complaint(self) -> object | str:
        """What the fields say, or one line about what is wrong."""
        raise NotImplementedError

    def check(self) -> None:
        """Say what is wrong with the fields."""
        result = self.result_or_complaint()
        self._complaint.setText(result if isinstance(result, str) else "")
        self.accept_button.setEnabled(not isinstance(result, str))
        self.adjustSize()

    def _accept(self) -> None:
        result = self.result_or_complaint()
        if not isinstance(result, str):
            self.accept()
            self.chosen.emit(result)

    def _field(self, text: str, label: str) -> QLineEdit:
        field = QLineEdit(text)
        field.setFixedWidth(_FIELD_WIDTH)
        field.setAccessibleName(label)
        field.textChanged.connect(self.check)
        return field

    def _combo(self, label: str, items: Sequence[tuple[str, object]]) -> QComboBox:
        combo = QComboBox()
        combo.setFixedWidth(_FIELD_WIDTH)
        combo.setAccessibleName(label)
        for text, data in items:
            combo.addItem(text, data)
        combo.currentIndexChanged.connect(self.check)
        return combo


class InjectDialog(ChangeDialog):
    """An interrupt: where, which handler, with what, how often.  A size is ``size_bytes`` at first."""

    def __init__(
        self,
        handlers: Sequence[Handler],
        cpus: int,
        cpu: int,
        parent: QWidget | None = None,
        size_bytes: int = 64,
    ) -> None:
        super().__init__("Interrupt", "Interrupt", parent)
        self._handlers = tuple(handlers)
        self._first_values = {**_FIRST_VALUES, "size": str(size_bytes)}
        self.cpu = self._combo("CPU", [(f"CPU {number}", number) for number in range(cpus)])
        self.handler = self._combo(
            "Handler", [(f"{handler.name}  {handler.title}", handler.name) for handler in self._handlers]
        )
        self.arguments = [self._field("", f"Argument {index + 1}") for index in range(3)]
        self.labels = [QLabel() for _ in self.arguments]
        self.often = self._combo(
            "How often", [("Once, now", _ONCE), ("Periodically", _PERIODIC), ("At random times", _RANDOM)]
        )
        self.period = self._field("1000", "Period in cycles")
        self.spread = self._field("1000", "Random part in cycles")
        self.seed = self._field("1", "Seed")
        self.count = self._field("10", "How many")
        self.form.addRow("CPU", self.cpu)
        self.form.addRow("Handler", self.handler)
        for label, field in zip(self.labels, self.arguments, strict=True):
            self.form.addRow(label, field)
        self.form.addRow("How often", self.often)
        self.form.addRow("Period, cycles", self.period)
        self.form.addRow("and up to, cycles", self.spread)
        self.form.addRow("Seed", self.seed)
        self.form.addRow("How many, 0 endless", self.count)
        self.cpu.setCurrentIndex(min(max(cpu, 0), cpus - 1))
        self.handler.currentIndexChanged.connect(self._handler_chosen)
        self.often.currentIndexChanged.connect(self._often_chosen)
        self._handler_chosen()
        self._often_chosen()

    def result_or_complaint(self) -> Inject | str:
        handler = self._chosen_handler()
        if handler is None:
            return "This kernel has no interrupt handlers linked: load a job or a session that has."
        arguments = []
        for name, field in zip(handler.parameters, self.arguments, strict=False):
            value = parse_integer(field.text())
            if value is None:
                return f"{name}: {field.text()!r} is no number"
            arguments.append(value)
        cpu, often = int(self.cpu.currentData()), int(self.often.currentData())
        if often == _ONCE:
            return Inject(cpu, handler.name, tuple(arguments))
        period, count = parse_integer(self.period.text()), parse_integer(self.count.text())
        if period is None or period < 1:
            return "The period is a number of cycles, at least 1."
        if count is None or count < 0:
            return "How many: a number, 0 for endless."
        if often == _PERIODIC:
            return Inject(cpu, handler.name, tuple(arguments), float(period), count=count)
        spread, seed = parse_integer(self.spread.text()), parse_integer(self.seed.text())
        if spread is None or spread < 1:
            return "The random part is a number of cycles, at least 1."
        if seed is None or seed < 0:
            return "The seed is a number, at least 0."
        return Inject(cpu, handler.name, tuple(arguments), float(period), float(spread), seed, count)

    def _chosen_handler(self) -> Handler | None:
        index = self.handler.currentIndex()
        return self._handlers[index] if 0 <= index < len(self._handlers) else None

    def _handler_chosen(self) -> None:
        handler = self._chosen_handler()
        parameters = handler.parameters if handler is not None else ()
        for index, (label, field) in enumerate(zip(self.labels, self.arguments, strict=True)):
            shown = index < len(parameters)
            self.form.setRowVisible(field, shown)
            if shown:
                label.setText(str(parameters[index]))
                field.setText(self._first_values.get(str(parameters[index]), "1"))
        self.check()

    def _often_chosen(self) -> None:
        often = self.often.currentData()
        for field, shown in (
            (self.period, often != _ONCE),
            (self.count, often != _ONCE),
            (self.spread, often == _RANDOM),
            (self.seed, often == _RANDOM),
        ):
            self.form.setRowVisible(field, shown)
        self.check()


class EditDialog(ChangeDialog):
    """Another value for a word in memory, a variable in a register, or an option of the kernel."""

    def __init__(
        self,
        stacks: Sequence[CallStackView],
        cpu: int,
        address: int | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Edit", "Change", parent)
        self._registers = _registers_of(stacks, cpu)
        self.what = self._combo(
            "What", [("A word in memory", 0), ("A variable", 1), ("An option of the kernel", 2)]
        )
        self.address = self._field("" if address is None else f"{address:#x}", "Address")
        self.word_bytes = self._combo("Bytes", [("8 bytes", 8), ("4 bytes", 4)])
        self.variable = self._combo("Variable", [(text, change) for text, change in self._registers])
        self.option = self._field("", "Option")
        self.value = self._field("0", "Value")
        for label, field in (
            ("What", self.what),
            ("Address", self.address),
            ("Bytes", self.word_bytes),
            ("Variable", self.variable),
            ("Option", self.option),
            ("New value", self.value),
        ):
            self.form.addRow(label, field)
        self.what.currentIndexChanged.connect(self._what_chosen)
        self._what_chosen()

    def result_or_complaint(self) -> What | str:
        value = parse_integer(self.value.text())
        if value is None:
            return f"New value: {self.value.text()!r} is no number (0x… is hexadecimal)"
        match self.what.currentData():
            case 0:
                address = parse_integer(self.address.text())
                if address is None or address < 0:
                    return "Address: a number, e.g. 0x1400000"
                return WriteWord(address, value, int(self.word_bytes.currentData()))
            case 1:
                if not self._registers:
                    return "No variable is live where this CPU is"
                frame, register, cpu = self._registers[self.variable.currentIndex()][1]
                return WriteRegister(cpu, frame, register, value)
            case _:
                name = self.option.text().strip()
                return SetOption(name, value) if name else "Option: a name, e.g. MIN_PARTIAL"

    def _what_chosen(self) -> None:
        what = self.what.currentData()
        for field, shown in (
            (self.address, what == 0),
            (self.word_bytes, what == 0),
            (self.variable, what == 1),
            (self.option, what == 2),
        ):
            self.form.setRowVisible(field, shown)
        self.check()


class MigrateDialog(ChangeDialog):
    """The CPU to which a task moves."""

    def __init__(self, cpus: int, cpu: int, parent: QWidget | None = None) -> None:
        super().__init__("Move the task", "Move", parent)
        self.source = self._combo("From", [(f"CPU {number}", number) for number in range(cpus)])
        self.target = self._combo("To", [(f"CPU {number}", number) for number in range(cpus)])
        self.form.addRow("The task of", self.source)
        self.form.addRow("goes on on", self.target)
        self.source.setCurrentIndex(min(max(cpu, 0), cpus - 1))
        self.target.setCurrentIndex(0 if cpu else min(1, cpus - 1))
        self.check()

    def result_or_complaint(self) -> Migrate | str:
        source, target = int(self.source.currentData()), int(self.target.currentData())
        return Migrate(source, target) if source != target else "It is there already."


class BookmarkDialog(ChangeDialog):
    """A name and a note; emits (name, note)."""

    def __init__(self, name: str, note: str = "", parent: QWidget | None = None) -> None:
        super().__init__("Bookmark", "Keep", parent)
        self.name = self._field(name, "Name")
        self.note = QPlainTextEdit(note)
        self.note.setFixedSize(_FIELD_WIDTH, 90)
        self.note.setTabChangesFocus(True)
        self.note.setAccessibleName("Note")
        self.form.addRow("Name", self.name)
        self.form.addRow("Note", self.note)
        self.name.selectAll()
        self.check()

    def result_or_complaint(self) -> tuple[str, str] | str:
        name = self.name.text().strip()
        return (name, self.note.toPlainText().strip()) if name else "A bookmark needs a name."


class TextDialog(ChangeDialog):
    """One line of text."""

    def __init__(
        self, title: str, label: str, hint: str, accept: str, text: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__(title, accept, parent)
        self.field = self._field(text, label)
        self.field.setPlaceholderText(hint)
        self._label = label
        self.form.addRow(label, self.field)
        self.check()

    def result_or_complaint(self) -> tuple[str] | str:
        text = self.field.text().strip()
        return (text,) if text else f"{self._label}: nothing is typed yet."


def _registers_of(stacks: Sequence[CallStackView], cpu: int) -> list[tuple[str, tuple[int, int, int]]]:
    """Text, and (frame, register, CPU), of every variable that is live on a CPU, innermost first."""
    stack = next((stack for stack in stacks if stack.cpu == cpu), None)
    if stack is None:
        return []
    found = []
    real = -1  # inlined functions live in the window of the function that they are part of
    pending_inlined = False
    for frame in reversed(stack.frames):
        if not pending_inlined:
            real += 1
        pending_inlined = frame.inlined
        for variable in frame.variables:
            if variable.register is not None:
                text = f"{variable.name} = {variable.text}   ({frame.function})"
                found.append((text, (real, variable.register, cpu)))
    return found
