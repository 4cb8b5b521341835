"""Two tables: the cells measured so far, and the kernel's counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QTableView, QWidget

from slubviz.views import numbers
from slubviz.views.progress_plot import has_published_ops, range_text, value_text

if TYPE_CHECKING:
    from slubviz.model.results import CellResult

Index = QModelIndex | QPersistentModelIndex
_RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
_LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)


class TextTable(QAbstractTableModel):
    """A read-only table of texts; the first ``left_columns`` columns are left-aligned."""

    def __init__(self, headers: Sequence[str], left_columns: int = 1) -> None:
        super().__init__()
        self._headers = tuple(headers)
        self._left_columns = left_columns
        self._rows: tuple[tuple[str, ...], ...] = ()

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """All texts."""
        return self._rows

    def set_headers(self, headers: Sequence[str]) -> None:
        """Show other columns; the rows go with the old ones."""
        if tuple(headers) != self._headers:
            self.beginResetModel()
            self._headers = tuple(headers)
            self._rows = ()
            self.endResetModel()

    def set_rows(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Show other rows; keeps the view where it is when only texts change."""
        new = tuple(rows)
        if new == self._rows:
            return
        if len(new) == len(self._rows):
            self._rows = new
            last = self.index(len(new) - 1, len(self._headers) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
            return
        self.beginResetModel()
        self._rows = new
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  (Qt's signature)
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._headers)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):  # narrow columns are cut
            return self._rows[index.row()][index.column()]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _LEFT if index.column() < self._left_columns else _RIGHT
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Vertical:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._headers[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _LEFT if section < self._left_columns else _RIGHT
        return None


class TableView(QTableView):
    """A table without a grid, as wide as its panel; says ``empty`` while it has no rows."""

    def __init__(self, model: TextTable, name: str, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._empty = empty
        self.setModel(model)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setAlternatingRowColors(True)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 8)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setHighlightSections(False)
        header.setMinimumSectionSize(40)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.model().rowCount() == 0:
            painter = QPainter(self.viewport())
            painter.setPen(self.palette().placeholderText().color())
            painter.drawText(self.viewport().rect(), Qt.AlignmentFlag.AlignCenter, self._empty)
            painter.end()


RESULT_HEADERS = ("Test", "Point", "Cycles/op", "Published")


def result_rows(results: Sequence[CellResult]) -> list[tuple[str, ...]]:
    """One row of text per measured cell."""
    return [
        (
            f"{cell.test}  {cell.operation}",
            numbers.point(cell.size_bytes, cell.objects),
            value_text(cell.cycles_per_op),
            _published(cell),
        )
        for cell in results
    ]


def _published(cell: CellResult) -> str:
    if cell.published_low is None or cell.error_percent is None:
        return "–"
    high = cell.published_low if cell.published_high is None else cell.published_high
    text = range_text(cell.published_low, high)
    # Where the published tables are of one number of operations, a distance from another means nothing.
    comparable = has_published_ops(cell.test, cell.ops)
    return f"{text}  {numbers.signed_percent(cell.error_percent)}" if comparable else text


COUNTER_HEADERS = ("Counter", "Value")


def counter_rows(counters: Mapping[str, int]) -> list[tuple[str, ...]]:
    """One row of text per counter that is not zero, in the model's order."""
    return [(name, numbers.integer(value)) for name, value in counters.items() if value]
