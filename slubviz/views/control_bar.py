"""The bar on top: what to run, and the buttons that start it.

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
    QSpinBox,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from slubviz.model.errors import UserError
from slubviz.model.workload import Sweep
from slubviz.views import numbers
from slubviz.views.icons import icon
from slubviz.views.job import Catalog, JobSpec
from slubviz.views.theme import LIGHT, Theme

_FIELD_HEIGHT = 28
_BUTTONS = ("run", "reset")
#: On a narrower bar the buttons have no text, so that the names in the fields can be read.
_TEXT_BUTTONS_PIXELS = 900
_MOST_OPS = 1_000_000
#: Sizes that are no powers of two but have caches of their own.
_MORE_SIZES = (96, 192)
_POINT_TIPS = {
    Sweep.SIZE: "Bytes of each object",
    Sweep.OBJECTS: "Objects that each bulk call allocates or frees",
    Sweep.NOTHING: "This test has no sizes to choose from",
}


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
    """Fields, and the buttons that start what they say; the rest is in the transport bar below."""

    job_changed = Signal(object)  # JobSpec

    def __init__(
        self, catalog: Catalog, actions: Mapping[str, QAction], job: JobSpec, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("bar")
        self._catalog = catalog
        self._seed, self._cpus = job.seed, job.cpus
        #: What is chosen in the size box, for each kind of point: the tests take turns in it.
        self._chosen: dict[Sweep, tuple[int, ...]] = {}
        self._filled: Sweep | None = None
        self._quiet = True
        self.machine = _combo(catalog.machines, "Machine")
        self.kernel = _combo(catalog.kernels, "Kernel")
        self.test = _combo(catalog.tests, "Test", describe=True)
        self.size_box = ElidedCombo()
        self.size_caption = _caption("Size")
        self.ops = CountBox()
        self.buttons: dict[str, QToolButton] = {}
        self._build(actions)
        self.set_job(job)
        self._connect()
        self.set_theme(LIGHT)
        self._quiet = False

    def job(self) -> JobSpec:
        """What is chosen."""
        points, sweep = tuple(self.size_box.currentData() or ()), self._sweep()
        return JobSpec(
            machine=str(self.machine.currentData()),
            kernel=str(self.kernel.currentData()),
            test=str(self.test.currentData()),
            sizes=points if sweep == Sweep.SIZE else (),
            ops=self.ops.value(),
            seed=self._seed,
            cpus=self._cpus,
            objects=points if sweep == Sweep.OBJECTS else (),
        )

    def set_theme(self, theme: Theme) -> None:
        """Mark the kernels with known faults in a theme's colours."""
        warning = icon("warning", theme)
        for index in range(self.kernel.count()):
            if self.kernel.itemData(index) in self._catalog.faulty:
                self.kernel.setItemIcon(index, warning)

    def set_job(self, job: JobSpec) -> None:
        """Choose a job; names that the catalog does not know are added."""
        before, self._quiet = self._quiet, True
        self._seed, self._cpus = job.seed, job.cpus
        for combo, name in ((self.machine, job.machine), (self.kernel, job.kernel), (self.test, job.test)):
            _choose(combo, name, PurePath(name).name, tip=name)  # of a path, the file's name tells most
        self._fill_points()
        self._choose_points(job.objects or job.sizes)
        self.ops.setMaximum(max(_MOST_OPS, job.ops))
        self.ops.setValue(job.ops)
        self._quiet = before

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
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 8, 16, 8)
        layout.setSpacing(8)
        for caption, field, stretch in (
            ("Machine", self.machine, 3),
            ("Kernel", self.kernel, 2),
            ("Test", self.test, 3),
            (self.size_caption, self.size_box, 1),
            ("Ops per CPU", self.ops, 1),
        ):
            label = _caption(caption) if isinstance(caption, str) else caption
            layout.addLayout(_captioned(label, field), stretch)
        layout.addSpacing(8)
        for name in _BUTTONS:
            layout.addWidget(self._button(name, actions[name]), 0, Qt.AlignmentFlag.AlignBottom)

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

    def _connect(self) -> None:
        for combo in (self.machine, self.test):
            combo.currentIndexChanged.connect(self._points_changed)
        self.kernel.currentIndexChanged.connect(self._announce)
        self.size_box.currentIndexChanged.connect(self._point_chosen)
        self.ops.valueChanged.connect(self._announce)

    def _sweep(self) -> Sweep:
        return self._catalog.sweep(str(self.test.currentData()))

    def _points_changed(self) -> None:
        if self._quiet:
            return
        self._quiet = True
        self._fill_points()
        index = _index_of(self.size_box, self._chosen.get(self._sweep()))
        self.size_box.setCurrentIndex(max(index, 0))
        self._quiet = False
        self._announce()

    def _point_chosen(self) -> None:
        if not self._quiet:
            self._chosen[self._sweep()] = tuple(self.size_box.currentData() or ())
            self._announce()

    def _announce(self) -> None:
        if not self._quiet:
            self.job_changed.emit(self.job())

    def _choose_points(self, points: tuple[int, ...]) -> None:
        sweep = self._sweep()
        if sweep == Sweep.NOTHING:
            return
        unit = "sizes" if sweep == Sweep.SIZE else "counts"
        text = point_text(sweep, points[0]) if len(points) == 1 else f"{len(points)} {unit}"
        _choose(self.size_box, points, text)
        self._chosen[sweep] = points

    def _fill_points(self) -> None:
        sweep = self._sweep()
        self.size_caption.setText("Objects" if sweep == Sweep.OBJECTS else "Size")
        self.size_box.setAccessibleName("Objects per call" if sweep == Sweep.OBJECTS else "Size")
        self.size_box.setToolTip(_POINT_TIPS[sweep])
        self.size_box.setEnabled(sweep != Sweep.NOTHING)
        try:
            default = tuple(self._catalog.points(*(str(c.currentData()) for c in (self.machine, self.test))))
        except UserError:  # a machine file that has gone: Run tells what is wrong with it
            if sweep == self._filled:
                return
            default = ()
        self._filled = sweep
        self.size_box.clear()
        if sweep == Sweep.NOTHING:
            self.size_box.addItem("–", ())
            return
        for point in sorted({*default, *(_MORE_SIZES if sweep == Sweep.SIZE else ())}):
            self.size_box.addItem(point_text(sweep, point), (point,))
        self.size_box.addItem("All sizes" if sweep == Sweep.SIZE else "All counts", default)


class ElidedCombo(QComboBox):
    """A combo box that shortens a text that does not fit instead of cutting it."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        style = QStyle.SubControl.SC_ComboBoxEditField
        field = self.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, style, self)
        room = field.width() - 6
        if not option.currentIcon.isNull():
            room -= option.iconSize.width() + 4
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


def point_text(sweep: Sweep, point: int) -> str:
    """A size with its unit, or a number of objects."""
    return numbers.size(point) if sweep == Sweep.SIZE else f"N={point}"


def _captioned(label: QLabel, field: QWidget) -> QVBoxLayout:
    box = QVBoxLayout()
    box.setSpacing(2)
    label.setBuddy(field)
    box.addWidget(label)
    field.setFixedHeight(_FIELD_HEIGHT)
    box.addWidget(field)
    return box
