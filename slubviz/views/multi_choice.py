"""A button with a list from which any number of names can be ticked; none ticked means all."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QMouseEvent
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolButton, QWidget


class _StayingMenu(QMenu):
    # Ticking does not close it, so that several names can be ticked in a row.

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        action = self.actionAt(event.position().toPoint())
        if action is not None and action.isCheckable():
            action.trigger()
        else:
            super().mouseReleaseEvent(event)


class MultiChoice(QToolButton):
    """Chooses among names.

    Parameters
    ----------
    noun
        What the names are, in the plural: ``kernels``.
    """

    changed = Signal()

    def __init__(self, noun: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._noun = noun
        self._menu = _StayingMenu(self)
        self._all = QAction(f"All {noun}", self)
        self._items: list[QAction] = []
        self._all.setCheckable(True)
        self._all.triggered.connect(self.choose_all)
        self._menu.addAction(self._all)
        self._menu.addSeparator()
        self.setMenu(self._menu)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setProperty("command", "true")
        self.setProperty("choice", "true")
        self.setAccessibleName(noun.capitalize())
        self._show()

    @property
    def chosen(self) -> tuple[str, ...] | None:
        """The ticked names in the order of the list; None for all."""
        names = tuple(action.text() for action in self._items if action.isChecked())
        return names if 0 < len(names) < len(self._items) else None

    def set_names(self, names: Sequence[str]) -> None:
        """Offer other names; all are chosen then."""
        if [action.text() for action in self._items] == list(names):
            return
        for action in self._items:
            self._menu.removeAction(action)
        self._items = []
        for name in names:
            action = QAction(name, self)
            action.setCheckable(True)
            action.triggered.connect(self._toggled)
            self._menu.addAction(action)
            self._items.append(action)
        self._show()

    def choose(self, names: Sequence[str]) -> None:
        """Tick these names alone."""
        for action in self._items:
            action.setChecked(action.text() in names)
        self._show()
        self.changed.emit()

    def choose_all(self) -> None:
        """Choose every name."""
        self.choose(())

    def _toggled(self) -> None:
        self._show()
        self.changed.emit()

    def _show(self) -> None:
        names = self.chosen
        self._all.setChecked(names is None)
        if names is None:
            self.setText(f"All {self._noun}")
        else:
            self.setText(names[0] if len(names) == 1 else f"{len(names)} of {len(self._items)} {self._noun}")
        self.setToolTip(f"Chosen {self._noun}: {', '.join(names) if names else 'all with published numbers'}")
