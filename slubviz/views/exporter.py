"""File → Export: asks for a name, writes a picture or a table, says what became of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QWidget

from slubviz.model.errors import UserError
from slubviz.views.bridge import Bridge
from slubviz.views.export import export_csv, export_png
from slubviz.views.fidelity_bridge import FidelityBridge
from slubviz.views.message_bar import MessageBar
from slubviz.views.session_files import AskPath

_PICTURES, _TABLES = "PNG pictures (*.png)", "CSV tables (*.csv)"


class Exporter:
    """Exports the run, or the comparison where the fidelity page is in front.

    Parameters
    ----------
    window, center : QWidget
        Parent of the dialogs, and what a picture shows.
    """

    def __init__(
        self,
        window: QWidget,
        center: QWidget,
        bridge: Bridge,
        fidelity: FidelityBridge,
        ask_path: AskPath,
        messages: MessageBar,
    ) -> None:
        self._window = window
        self._center = center
        self._bridge = bridge
        self._fidelity = fidelity
        self._ask_path = ask_path
        self._messages = messages
        fidelity.exported.connect(lambda path: messages.show_notice(f"Saved {path}"))
        fidelity.export_failed.connect(messages.show_error)

    def png(self, of_fidelity: bool) -> None:
        """A picture of the window, or of the heat map."""
        if of_fidelity:
            path = self._ask_path(self._window, "Export heat map", "compare.png", _PICTURES)
            self._export(path, ".png", self._fidelity.export_png, at_once=False)
            return
        path = self._ask_path(self._window, "Export PNG", "slubviz.png", _PICTURES)
        self._export(path, ".png", lambda target: export_png(self._center, target))

    def csv(self, of_fidelity: bool) -> None:
        """The measured cells, or the compared ones."""
        if of_fidelity:
            path = self._ask_path(self._window, "Export comparison", "compare.csv", _TABLES)
            self._export(path, ".csv", self._fidelity.export_csv, at_once=False)
            return
        results = self._bridge.latest.results
        path = self._ask_path(self._window, "Export CSV", "runs.csv", _TABLES)
        self._export(path, ".csv", lambda target: export_csv(results, target))

    def _export(self, path: str, suffix: str, write: Callable[[Path], None], at_once: bool = True) -> None:
        if not path:
            return
        target = Path(path)
        if not target.suffix and not target.exists():
            target = target.with_suffix(suffix)
        try:
            write(target)
        except UserError as error:
            self._messages.show_error(str(error))
        except OSError as error:
            self._messages.show_error(f"cannot write {target}: {error.strerror or error}")
        else:
            if at_once:  # else the bridge tells when it is written
                self._messages.show_notice(f"Saved {target}")
