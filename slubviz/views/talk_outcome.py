"""The last slide of a talk: what the scenario came to, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QVBoxLayout, QWidget

from slubviz.views.talk_text import FittedText
from slubviz.views.theme import Theme

if TYPE_CHECKING:
    from slubviz.model.scenarios.run import ScenarioResult

#: Evidence beyond that is counted, not listed.
_MOST_EVIDENCE = 4


class OutcomeSlide(QWidget):
    """Expected and found, the explanation, the evidence, and runs beside it."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.verdict = FittedText(theme, bold=True)
        self.explanation = FittedText(theme)
        self.evidence = FittedText(theme, "text_muted")
        self.beside = FittedText(theme)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.verdict, 3)
        layout.addWidget(self.explanation, 6)
        layout.addWidget(self.evidence, 3)
        layout.addWidget(self.beside, 3)

    def set_look(self, theme: Theme, unit: float) -> None:
        """Change the colours and sizes; ``unit`` is a hundredth of the window's height in pixels."""
        self.verdict.set_look(theme, round(8 * unit))
        self.explanation.set_look(theme, round(6 * unit))
        self.evidence.set_look(theme, round(3.6 * unit))
        self.beside.set_look(theme, round(3.6 * unit))

    def show_result(self, result: ScenarioResult) -> None:
        """Show how a scenario ended."""
        outcome = result.outcome
        self.verdict.set_text(verdict(result), "cpu_running" if result.as_expected else "cpu_waiting")
        self.explanation.set_text(" ".join(outcome.explanation.split()))
        self.evidence.set_text("\n".join(evidence(result)))
        self.beside.set_text(
            "\n".join(f"{other.title}: {other.outcome.found.kind!s}" for other in result.beside)
        )
        self.beside.setVisible(bool(result.beside))


def verdict(result: ScenarioResult) -> str:
    """Expected and found in one line."""
    outcome = result.outcome
    expected, found = str(outcome.expected), str(outcome.found.kind)
    if expected == found:
        return f"Found as expected: {found}"
    return f"Expected: {expected}. Found: {found}"


def evidence(result: ScenarioResult) -> list[str]:
    """What the machine and the checks say, and what is not as expected; a few lines."""
    lines = list(result.outcome.found.evidence)
    for outcome in (result.outcome, *(other.outcome for other in result.beside)):
        lines += outcome.differences
    rest = len(lines) - _MOST_EVIDENCE
    return [*lines[:_MOST_EVIDENCE], *([f"and {rest} more"] if rest > 0 else [])]
