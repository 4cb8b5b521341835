"""The caption of a scenario's step, above the source, with the way on and back."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from slubviz.views.travel_view import ScenarioView

_LARGER = 1.15


class CaptionBar(QFrame):
    """Hidden while no scenario is open."""

    def __init__(self, actions: Mapping[str, QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("bar")
        self._shown: tuple[str, int] | None = None
        self._title = QLabel()
        self._title.setObjectName("muted")
        self._caption = QLabel()
        self._caption.setTextFormat(Qt.TextFormat.PlainText)
        self._caption.setWordWrap(True)
        self._outcome = QLabel()
        self._outcome.setTextFormat(Qt.TextFormat.PlainText)
        self._outcome.setWordWrap(True)
        self._outcome.setObjectName("headline")
        font = QFont(self._caption.font())
        font.setPointSizeF(font.pointSizeF() * _LARGER)
        self._caption.setFont(font)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        for label in (self._title, self._caption, self._outcome):
            # Else a long word would make the window wider.
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
            texts.addWidget(label)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 6, 12, 8)
        layout.setSpacing(8)
        layout.addLayout(texts, 1)
        for name in ("scenario_back", "scenario_next"):
            button = QToolButton()
            actions[name].setIconText("‹" if name == "scenario_back" else "›")
            button.setDefaultAction(actions[name])
            button.setFixedWidth(36)
            button.setProperty("command", "true")
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            layout.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    @property
    def text(self) -> str:
        """The caption; empty while hidden."""
        return "" if self.isHidden() else self._caption.text()

    @property
    def outcome_text(self) -> str:
        """What the scenario came to; said at its last step."""
        return "" if self._outcome.isHidden() else self._outcome.text()

    def show_scenario(self, scenario: ScenarioView | None) -> None:
        """Show the caption of the step that is reached."""
        shown = None if scenario is None else (scenario.title, scenario.step)
        if shown == self._shown:
            return
        self._shown = shown
        self.setVisible(scenario is not None)
        if scenario is None:
            return
        count = len(scenario.steps)
        number = f"step {scenario.step + 1} of {count}" if scenario.step >= 0 else f"{count or 'no'} steps"
        self._title.setText(f"{scenario.title}  ·  {number}")
        self._caption.setText(scenario.caption)
        outcome = outcome_text(scenario) if scenario.step == count - 1 else ""
        self._outcome.setText(outcome)
        self._outcome.setVisible(bool(outcome))


def outcome_text(scenario: ScenarioView) -> str:
    """How the scenario ended and why; "" if nobody knows."""
    if scenario.result is None:
        return ""
    outcome = scenario.result.outcome
    found = outcome.found
    evidence = f": {found.evidence[0]}" if found.evidence else ""
    if outcome.as_expected:
        return f"Outcome: {found.kind}{evidence}. {outcome.explanation}".strip()
    return f"Not what was expected: {'; '.join(outcome.differences)}"
