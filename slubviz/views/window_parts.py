"""Parts of the window that are made from what there is: the command palette, entries of menus that vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from slubviz.views.bridge import Bridge
from slubviz.views.job import Catalog
from slubviz.views.palette import Palette
from slubviz.views.palette_entries import command_entries, file_entries, place_offers, travel_entries
from slubviz.views.session_files import SessionFiles
from slubviz.views.steps_page import StepsPage


def palette_for(
    window: QWidget,
    bridge: Bridge,
    actions: Mapping[str, QAction],
    catalog: Catalog,
    files: SessionFiles,
    show_source: Callable[[str, int], object],
    text: str,
) -> Palette:
    """Open the command palette with something typed already."""
    travel = bridge.latest.travel
    entries = [
        *command_entries(actions),
        *travel_entries(travel, bridge.send, show_source),
        *file_entries(catalog.scenarios(), files.recent(), files.open_scenario, files.open_session),
    ]
    palette = Palette(entries, lambda query: place_offers(query, bridge.latest.travel, bridge.send), window)
    palette.ask(text)
    palette.open()
    return palette


def add_to_menus(
    menus: Mapping[str, QMenu],
    actions: Mapping[str, QAction],
    catalog: Catalog,
    files: SessionFiles,
    steps: StepsPage,
) -> None:
    """Recent sessions, scenarios, and the panels that can be hidden."""
    menus["File"].insertMenu(actions["save_session"], files.recent_menu)
    scenarios = menus["Scenario"].addMenu("&Known scenarios")
    scenarios.aboutToShow.connect(partial(_fill_scenarios, scenarios, catalog, files))
    panels = menus["View"].addMenu("Pa&nels of Steps")
    for dock in steps.docks.values():
        panels.addAction(dock.toggleViewAction())


def _fill_scenarios(menu: QMenu, catalog: Catalog, files: SessionFiles) -> None:
    if menu.isEmpty():
        for name, title in catalog.scenarios().items():
            menu.addAction(title).triggered.connect(partial(_open_scenario, files, name))


def _open_scenario(files: SessionFiles, name: str, *_checked: bool) -> None:
    files.open_scenario(name)
