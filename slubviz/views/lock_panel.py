"""Locks that are held or waited for: who, since when, and who queues.

The most contended lock comes first.  Rows that do not fit are counted in the last line, so
nothing is cut through.
"""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from slubviz.model.snapshot import LockView, Snapshot
from slubviz.views import numbers
from slubviz.views.theme import Theme

_PAD = 8
_GAP = 6
_VCENTER = Qt.AlignmentFlag.AlignVCenter


class LockPanel(QWidget):
    """Shows the locks of a snapshot."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._locks: tuple[LockView, ...] = ()
        self._now_cycles = 0.0
        self._since: dict[int, float] = {}
        self._has_snapshot = False
        self.setMinimumHeight(84)
        self.setAccessibleName("Locks")

    def sizeHint(self) -> QSize:
        return QSize(320, 150)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.update()

    def show_locks(self, snapshot: Snapshot | None) -> None:
        """Show a snapshot's locks; None clears the panel."""
        self._has_snapshot = snapshot is not None
        self._locks = sorted_locks(snapshot.locks) if snapshot else ()
        self._now_cycles = snapshot.clock_cycles if snapshot else 0.0
        self._since = {cpu.number: cpu.waits_since_cycles for cpu in snapshot.cpus} if snapshot else {}
        self.setAccessibleDescription(
            "\n".join(" ".join(lock_texts(lock, self._now_cycles, self._since)) for lock in self._locks)
        )
        self.update()

    def facts(self) -> str:
        """One line about all locks, for the panel's head."""
        if not self._has_snapshot:
            return ""
        waiters = sum(len(lock.waiters) for lock in self._locks)
        held = sum(lock.holder >= 0 for lock in self._locks)
        return f"{numbers.integer(held)} held  ·  {numbers.integer(waiters)} waiting"

    def height_for(self, locks: int) -> float:
        """Height in logical pixels at which so many locks fit."""
        return max(0.0, locks * (2 * QFontMetricsF(self.font()).height() + 10 + _GAP) - _GAP)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self._locks:
            painter.setPen(self._theme.color("text_muted"))
            text = "No lock is held." if self._has_snapshot else ""
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, text)
        else:
            self._draw_rows(painter)
        painter.end()

    def _draw_rows(self, painter: QPainter) -> None:
        line = float(QFontMetricsF(self.font()).height())
        row_height = 2 * line + 10
        fit = max(1, int((self.height() + _GAP) // (row_height + _GAP)))
        if fit < len(self._locks):
            fit = max(1, int((self.height() - line) // (row_height + _GAP)))
        for index, lock in enumerate(self._locks[:fit]):
            rect = QRectF(0, index * (row_height + _GAP), self.width(), row_height)
            self._draw_row(painter, rect, lock, line)
        rest = len(self._locks) - fit
        if rest > 0:
            painter.setFont(self.font())
            painter.setPen(self._theme.color("text_muted"))
            place = QRectF(_PAD, fit * (row_height + _GAP), self.width() - _PAD, line)
            painter.drawText(place, _VCENTER, rest_text(rest))

    def _draw_row(self, painter: QPainter, rect: QRectF, lock: LockView, line: float) -> None:
        colour = "lock_contended" if lock.waiters else "lock_held"
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("sunken"))
        painter.drawRoundedRect(rect, 6, 6)
        painter.setBrush(self._theme.color(colour))
        painter.drawRoundedRect(QRectF(rect.left() + 4, rect.top() + 6, 3, rect.height() - 12), 1.5, 1.5)
        name, holder, waiters = lock_texts(lock, self._now_cycles, self._since)
        inner = rect.adjusted(4 + 3 + _PAD, 5, -_PAD, -5)
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.DemiBold)
        metrics, bold_metrics = QFontMetricsF(self.font()), QFontMetricsF(bold)
        first = QRectF(inner.left(), inner.top(), inner.width(), line)
        second = QRectF(inner.left(), inner.top() + line, inner.width(), line)
        elide = Qt.TextElideMode.ElideRight
        painter.setFont(bold)
        painter.setPen(self._theme.color("text"))
        room = inner.width() - metrics.horizontalAdvance(holder) - 12
        room = max(room, inner.width() * 0.45)
        painter.drawText(first, _VCENTER, bold_metrics.elidedText(name, elide, room))
        painter.setFont(self.font())
        painter.setPen(self._theme.color("text_muted"))
        shown = metrics.elidedText(
            holder, elide, inner.width() - min(room, bold_metrics.horizontalAdvance(name)) - 12
        )
        painter.drawText(first, Qt.AlignmentFlag.AlignRight | _VCENTER, shown)
        painter.setPen(self._theme.color(colour if lock.waiters else "text_muted"))
        painter.drawText(second, _VCENTER, metrics.elidedText(waiters, elide, inner.width()))


def sorted_locks(locks: tuple[LockView, ...]) -> tuple[LockView, ...]:
    """Most waiters first, then held longest, then by name."""
    return tuple(sorted(locks, key=lambda lock: (-len(lock.waiters), lock.held_since_cycles, lock.name)))


def rest_text(count: int) -> str:
    """The last line, for locks that there is no room for."""
    return f"and {numbers.integer(count)} more {'lock' if count == 1 else 'locks'}"


def lock_texts(lock: LockView, now_cycles: float, since_cycles: Mapping[int, float]) -> tuple[str, str, str]:
    """Name, holder and waiters of a lock in words.

    Parameters
    ----------
    now_cycles : float
        Latest clock of any CPU.
    since_cycles : mapping
        For each CPU number the clock at which it began to wait.
    """
    if lock.holder >= 0:
        held = numbers.integer(max(0.0, now_cycles - lock.held_since_cycles))
        holder = f"CPU{numbers.THIN}{lock.holder} for {held}{numbers.THIN}cyc"
    else:
        holder = "being handed over"
    if not lock.waiters:
        return lock.name, holder, "nobody waits"
    return lock.name, holder, _waiters_text(lock.waiters, now_cycles, since_cycles)


def _waiters_text(waiters: tuple[int, ...], now_cycles: float, since_cycles: Mapping[int, float]) -> str:
    # The first waiter with the time that it has waited, then the others.
    first, others = waiters[0], waiters[1:]
    waited = numbers.integer(max(0.0, now_cycles - since_cycles.get(first, now_cycles)))
    text = f"CPU{numbers.THIN}{first} waits {waited}{numbers.THIN}cyc"
    if not others:
        return text
    who = ", ".join(str(cpu) for cpu in others[:12]) + (" …" if len(others) > 12 else "")
    return f"{text}, then {'CPU' if len(others) == 1 else 'CPUs'} {who} ({len(waiters)} wait)"
