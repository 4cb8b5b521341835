"""The speed of playing: a logarithmic slider and a field that shows and takes the exact value.

From one micro-op a second to unlimited.  Only the scale, the text and the two widgets; who plays is told by
a signal.
"""

from __future__ import annotations

import math
import re

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QSlider, QWidget

from slubviz.views import numbers

#: The slider has this many steps per factor of ten, so 1, 10, 100 … are on it.
STEPS_PER_DECADE = 20
_DECADES = 8
#: The slider's last position: no limit.  The one before it is the fastest limit there is.
UNLIMITED_STEP = STEPS_PER_DECADE * _DECADES + 1
FASTEST = 10.0**_DECADES
_SLOWEST = 1.0
_SUFFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_RATE = re.compile(r"(\d+(?:[.,]\d+)?)([kmg]?)(?:(?:micro-?ops?)?/s)?")
_UNLIMITED_WORDS = ("unlimited", "max", "∞", "inf")
#: Digits of the speeds on the slider; the field takes any.
_SIGNIFICANT = 2


def rate_of_step(step: int) -> float:
    """Micro-ops per second of a slider position, rounded to two digits; infinity for the last one."""
    if step >= UNLIMITED_STEP:
        return math.inf
    rate = 10.0 ** (max(step, 0) / STEPS_PER_DECADE)
    digits = _SIGNIFICANT - 1 - math.floor(math.log10(rate) + 1e-9)
    return max(_SLOWEST, float(round(rate, digits)))


def step_of_rate(rate: float) -> int:
    """The slider position nearest to a rate."""
    if math.isinf(rate):
        return UNLIMITED_STEP
    step = round(STEPS_PER_DECADE * math.log10(min(max(rate, _SLOWEST), FASTEST)))
    return min(step, UNLIMITED_STEP - 1)


def rate_text(rate: float) -> str:
    """``12``, ``1.5 k``, ``200 k``, ``unlimited``: the exact value, as the field shows it."""
    if math.isinf(rate):
        return "unlimited"
    for divisor, suffix in ((1e6, "M"), (1e3, "k")):
        if rate >= divisor:
            return f"{rate / divisor:.12g}{numbers.THIN}{suffix}"
    return f"{rate:.12g}"


def parse_rate(text: str) -> float | None:
    """Micro-ops per second as typed: ``50``, ``1.5k``, ``2 M``, ``unlimited``; None if it is no speed.

    A speed below one micro-op a second is no speed; one above the fastest limit is unlimited.
    """
    word = "".join(text.split()).replace(numbers.THIN, "").lower()
    if word in _UNLIMITED_WORDS:
        return math.inf
    match = _RATE.fullmatch(word)
    if match is None:
        return None
    rate = float(match.group(1).replace(",", ".")) * _SUFFIXES[match.group(2)]
    if rate < _SLOWEST:
        return None
    return math.inf if rate > FASTEST else rate


class SpeedField(QWidget):
    """Slider and field, always at the same speed."""

    rate_changed = Signal(float)  # micro-ops per second, infinity for no limit
    entered = Signal()  # Return was pressed, and it is a speed

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rate = 0.0
        self._quiet = False
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, UNLIMITED_STEP)
        self.slider.setPageStep(STEPS_PER_DECADE)
        self.slider.setAccessibleName("Playing speed")
        self.slider.setToolTip("Playing speed: from one micro-op a second to as fast as this computer can")
        self.slider.setMinimumWidth(70)
        self.field = QLineEdit()
        self.field.setAccessibleName("Micro-ops per second")
        self.field.setToolTip("Micro-ops per second: 1, 250, 1.5k, 2M or unlimited")
        self.field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.field.setFixedWidth(self.fontMetrics().horizontalAdvance("unlimited ") + 16)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.slider, 1)
        layout.addWidget(self.field)
        self.slider.valueChanged.connect(self._slid)
        self.field.editingFinished.connect(self._typed)
        self.field.returnPressed.connect(self._return_pressed)
        self.set_rate(100.0)

    @property
    def rate(self) -> float:
        """Micro-ops per second; infinity for no limit."""
        return self._rate

    def set_rate(self, rate: float) -> None:
        """Show a speed without announcing it."""
        self._rate = rate
        self._quiet = True
        self.slider.setValue(step_of_rate(rate))
        self._quiet = False
        self.field.setText(rate_text(rate))
        mark_valid(self.field, valid=True)

    def _slid(self, step: int) -> None:
        if not self._quiet:
            self._choose(rate_of_step(step))

    def _typed(self) -> None:
        text = self.field.text()
        if text == rate_text(self._rate):
            return
        rate = parse_rate(text)
        if rate is None:
            mark_valid(self.field, valid=False)
        else:
            self._choose(rate)

    def _return_pressed(self) -> None:
        self._typed()  # Qt says that editing has finished after this
        if not self.field.property("invalid"):
            self.entered.emit()

    def _choose(self, rate: float) -> None:
        changed = rate != self._rate
        self.set_rate(rate)
        if changed:
            self.rate_changed.emit(rate)


def mark_valid(field: QLineEdit, valid: bool) -> None:
    """Let the style sheet draw a field as invalid, or as valid again."""
    # It must look again after the property has changed.
    if bool(field.property("invalid")) == (not valid):
        return
    field.setProperty("invalid", not valid)
    field.style().unpolish(field)
    field.style().polish(field)
