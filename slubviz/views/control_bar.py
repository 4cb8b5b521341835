"""The bar on top: what to run, the buttons, the speed.

Knows the catalog and a JobSpec; emits signals when the user changes something and otherwise does
nothing by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QPaintEvent, QResizeEvent, QValidator
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QSlider,
    QSpinBox,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from slubviz.model.errors import UserError
from slubviz.views import numbers, speed
from slubviz.views.job import Catalog, JobSpec

_FIELD_HEIGHT = 28
#: On a narrower bar the buttons have no text, so that all of the speed field is inside.
_TEXT_BUTTONS_PIXELS = 1160
_MOST_OPS = 1_000_000
#: Sizes that are no powers of two but have caches of their own.
_MORE_SIZES = (96, 192)


class CountBox(QSpinBox):
    """A spin box that groups digits with thin spaces, and reads any grouping."""

    def textFromValue(self, value: int) -> str:
        return numbers.integer(value)

    def valueFromText(self, text: str) -> int:
        return int(_digits(text) or "0")

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        if not _digits(text):
            return (QValidator.State.Intermediate, text, position)
        good = _digits(text).isascii() and _digits(text).isdigit() and int(_digits(text)) <= self.maximum()
        return (QValidator.State.Acceptable if good else QValidator.State.Invalid, text, position)


def _digits(text: str) -> str:
    return "".join(text.split()).replace(numbers.THIN, "").replace(",", "")


class ControlBar(QFrame):
    """Fields, buttons and the speed slider."""

    job_changed = Signal(object)  # JobSpec
    speed_changed = Signal(float)  # micro-ops per second

    def __init__(
        self, catalog: Catalog, actions: Mapping[str, QAction], job: JobSpec, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("bar")
        self._catalog = catalog
        self._seed, self._cpus = job.seed, job.cpus
        self._quiet = True
        self.machine = _combo(catalog.machines, "Machine")
        self.kernel = _combo(catalog.kernels, "Kernel")
        self.test = _combo(catalog.tests, "Test", describe=True)
        self.size_box = QComboBox()
        self.size_box.setAccessibleName("Size")
        self.ops = CountBox()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self._speed_label = QLabel()
        self.buttons: dict[str, QToolButton] = {}
        self._build(actions)
        self.set_job(job)
        self._connect()
        self._quiet = False

    def job(self) -> JobSpec:
        """What is chosen."""
        return JobSpec(
            machine=str(self.machine.currentData()),
            kernel=str(self.kernel.currentData()),
            test=str(self.test.currentData()),
            sizes=tuple(self.size_box.currentData() or ()),
            ops=self.ops.value(),
            seed=self._seed,
            cpus=self._cpus,
        )

    def set_job(self, job: JobSpec) -> None:
        """Choose a job; names that the catalog does not know are added."""
        before, self._quiet = self._quiet, True
        self._seed, self._cpus = job.seed, job.cpus
        for combo, name in ((self.machine, job.machine), (self.kernel, job.kernel), (self.test, job.test)):
            _choose(combo, name, PurePath(name).name, tip=name)  # of a path, the file's name tells most
        self._fill_sizes()
        text = numbers.size(job.sizes[0]) if len(job.sizes) == 1 else f"{len(job.sizes)} sizes"
        _choose(self.size_box, job.sizes, text)
        self.ops.setMaximum(max(_MOST_OPS, job.ops))
        self.ops.setValue(job.ops)
        self._quiet = before

    def rate(self) -> float:
        """The chosen speed in micro-ops per second; infinity for no limit."""
        return speed.rate_of(self.slider.value())

    def speed_text(self) -> str:
        """The label beside the slider."""
        return self._speed_label.text()

    def change_speed(self, steps: int) -> None:
        """Move the slider."""
        self.slider.setValue(self.slider.value() + steps)

    def set_unlimited(self) -> None:
        """Move the slider to its end."""
        self.slider.setValue(speed.UNLIMITED)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        style = Qt.ToolButtonStyle.ToolButtonTextBesideIcon
        if event.size().width() < _TEXT_BUTTONS_PIXELS:
            style = Qt.ToolButtonStyle.ToolButtonIconOnly
        for button in self.buttons.values():
            button.setToolButtonStyle(style)

    def _build(self, actions: Mapping[str, QAction]) -> None:
        self.ops.setRange(1, _MOST_OPS)
        self.ops.setSingleStep(1000)
        self.ops.setAccessibleName("Operations per CPU")
        self.ops.setToolTip("Measured operations of each CPU")
        self.ops.setKeyboardTracking(False)
        self.slider.setRange(0, speed.UNLIMITED)
        self.slider.setPageStep(3)
        self.slider.setValue(speed.START)
        self.slider.setAccessibleName("Speed")
        self.slider.setToolTip("From one micro-op a second to as fast as this computer can")
        self.slider.setMinimumWidth(120)
        self._speed_label.setMinimumWidth(self.fontMetrics().horizontalAdvance("500 M micro-ops/s") + 4)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 8, 16, 8)
        layout.setSpacing(8)
        for caption, field, stretch in (
            ("Machine", self.machine, 3),
            ("Kernel", self.kernel, 2),
            ("Test", self.test, 3),
            ("Size", self.size_box, 1),
            ("Ops per CPU", self.ops, 1),
        ):
            layout.addLayout(_captioned(caption, field), stretch)
        layout.addSpacing(8)
        for name in ("run", "pause", "step", "reset"):
            layout.addWidget(self._button(name, actions[name]), 0, Qt.AlignmentFlag.AlignBottom)
        layout.addSpacing(8)
        layout.addLayout(self._speed_field(), 2)

    def _button(self, name: str, action: QAction) -> QToolButton:
        button = QToolButton()
        button.setDefaultAction(action)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setFixedHeight(_FIELD_HEIGHT)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setProperty("command", "true")
        button.setProperty("primary", "true" if name == "run" else "false")
        self.buttons[name] = button
        return button

    def _speed_field(self) -> QVBoxLayout:
        head = QHBoxLayout()
        head.addWidget(_caption("Speed"))
        head.addStretch(1)
        self._speed_label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        head.addWidget(self._speed_label)
        field = QVBoxLayout()
        field.setSpacing(2)
        field.addLayout(head)
        self.slider.setFixedHeight(_FIELD_HEIGHT)
        field.addWidget(self.slider)
        self._speed_label.setText(speed.label_of(self.slider.value()))
        return field

    def _connect(self) -> None:
        self.machine.currentIndexChanged.connect(self._machine_changed)
        for combo in (self.kernel, self.test, self.size_box):
            combo.currentIndexChanged.connect(self._announce)
        self.ops.valueChanged.connect(self._announce)
        self.slider.valueChanged.connect(self._speed_moved)

    def _machine_changed(self) -> None:
        before = self.size_box.currentData()
        self._quiet = True
        self._fill_sizes()
        index = _index_of(self.size_box, before)
        self.size_box.setCurrentIndex(max(index, 0))
        self._quiet = False
        self._announce()

    def _announce(self) -> None:
        if not self._quiet:
            self.job_changed.emit(self.job())

    def _speed_moved(self, position: int) -> None:
        self._speed_label.setText(speed.label_of(position))
        self.speed_changed.emit(speed.rate_of(position))

    def _fill_sizes(self) -> None:
        try:
            default = tuple(self._catalog.sizes(str(self.machine.currentData())))
        except UserError:  # a machine file that has gone: Run tells what is wrong with it
            return
        self.size_box.clear()
        for size_bytes in sorted({*default, *_MORE_SIZES}):
            self.size_box.addItem(numbers.size(size_bytes), (size_bytes,))
        self.size_box.addItem("All sizes", default)


class ElidedCombo(QComboBox):
    """A combo box that shortens a text that does not fit instead of cutting it."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        style = QStyle.SubControl.SC_ComboBoxEditField
        field = self.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, style, self)
        room = field.width() - 6
        option.currentText = self.fontMetrics().elidedText(
            self.currentText(), Qt.TextElideMode.ElideRight, room
        )
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()


def _combo(names: Mapping[str, str], label: str, describe: bool = False) -> QComboBox:
    combo = ElidedCombo()
    combo.setAccessibleName(label)
    combo.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    combo.setMinimumContentsLength(6)
    for name, description in names.items():
        combo.addItem(f"{name}  {description}" if describe and description else name, name)
        combo.setItemData(combo.count() - 1, description, Qt.ItemDataRole.ToolTipRole)
    width = combo.view().sizeHintForColumn(0)
    combo.view().setMinimumWidth(width + 24)
    return combo


def _choose(combo: QComboBox, data: object, text: str, tip: str = "") -> None:
    index = _index_of(combo, data)
    if index < 0:
        combo.addItem(text, data)
        index = combo.count() - 1
        combo.setItemData(index, tip, Qt.ItemDataRole.ToolTipRole)
    combo.setCurrentIndex(index)


def _index_of(combo: QComboBox, data: object) -> int:
    # findData compares Python tuples by identity.
    wanted = tuple(data) if isinstance(data, tuple | list) else data
    for index in range(combo.count()):
        item = combo.itemData(index)
        if (tuple(item) if isinstance(item, tuple | list) else item) == wanted:
            return index
    return -1


def _caption(text: str) -> QLabel:
    label = QLabel(text)
    label.setObjectName("caption")
    return label


def _captioned(text: str, field: QWidget) -> QVBoxLayout:
    box = QVBoxLayout()
    box.setSpacing(2)
    label = _caption(text)
    label.setBuddy(field)
    box.addWidget(label)
    field.setFixedHeight(_FIELD_HEIGHT)
    box.addWidget(field)
    return box
