"""Colours by meaning, light and dark, and the fonts: the one place where they are chosen.

The object colours differ in lightness as well as in hue, so they stay apart for colour-blind
viewers and in print; a test simulates both.  Widgets ask for a meaning ("object_free"), never
for a colour.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette

#: Text is never smaller than this.
MINIMUM_POINT_SIZE = 10.0


@dataclass(frozen=True)
class Theme:
    """Colours as ``#rrggbb``."""

    name: str
    dark: bool
    # Surfaces and text
    window: str
    panel: str
    sunken: str
    border: str
    text: str
    text_muted: str
    accent: str
    on_accent: str
    # Objects and slabs
    object_allocated: str
    object_cpu_free: str
    object_free: str
    slab_full: str
    slab_partial: str
    slab_empty: str
    slab_frozen: str
    slab_locked: str
    slab_chained: str
    difference: str  #: of two runs that are compared
    # CPUs
    cpu_running: str
    cpu_waiting: str
    cpu_rendezvous: str
    cpu_halted: str
    interrupt: str
    interrupts_off: str
    code_mark: str
    # Locks, numbers, messages
    lock_held: str
    lock_contended: str
    plot_line: str
    plot_published: str
    plot_grid: str
    # Timeline: what a CPU does; from idle to waiting each is darker (lighter) than the one before
    activity_idle: str
    activity_workload: str
    activity_slow: str
    activity_fast: str
    activity_waiting: str
    # Levels of nested interrupts, again from the first after the last; text on their ground
    interrupt_1: str
    interrupt_2: str
    interrupt_3: str
    on_interrupt: str
    # CPUs by number modulo eight; always beside the number itself
    cpu_0: str
    cpu_1: str
    cpu_2: str
    cpu_3: str
    cpu_4: str
    cpu_5: str
    cpu_6: str
    cpu_7: str
    on_cpu: str
    # Source text
    value_changed: str
    breakpoint: str
    heat: str
    syntax_keyword: str
    syntax_string: str
    syntax_comment: str
    syntax_number: str
    syntax_intrinsic: str
    syntax_constant: str
    # Errors of a comparison, from much too fast to much too slow
    error_fast_most: str
    error_fast: str
    error_none: str
    error_slow: str
    error_slow_most: str
    error_surface: str
    error_text: str
    notice_surface: str
    notice_text: str

    def color(self, meaning: str) -> QColor:
        """The QColor of a meaning, e.g. ``"object_free"``."""
        return QColor(getattr(self, meaning))

    def level_color(self, level: int) -> QColor:
        """The colour of an interrupt level, from 1; there are three, used in turn."""
        return self.color(f"interrupt_{(level - 1) % 3 + 1}")

    def cpu_color(self, cpu: int) -> QColor:
        """The colour of a CPU; there are eight, used in turn."""
        return self.color(f"cpu_{cpu % 8}")

    def argb(self, meaning: str) -> int:
        """The colour as the 32-bit number that QImage.Format_RGB32 stores."""
        return 0xFF000000 | int(getattr(self, meaning)[1:], 16)


LIGHT = Theme(
    name="light",
    dark=False,
    window="#eef1f5",
    panel="#ffffff",
    sunken="#f5f7fa",
    border="#d3dae3",
    text="#17202b",
    text_muted="#566273",
    accent="#0b5cad",
    on_accent="#ffffff",
    object_allocated="#1f6fb4",
    object_cpu_free="#f0a830",
    object_free="#dfe5ec",
    slab_full="#123f68",
    slab_partial="#5f6c7d",
    slab_empty="#9aa6b4",
    slab_frozen="#111820",
    slab_locked="#c8401a",
    slab_chained="#8a3ea0",
    difference="#b0235a",
    cpu_running="#0a7d5c",
    cpu_waiting="#b8400e",
    cpu_rendezvous="#8a4a86",
    cpu_halted="#5c6878",
    interrupt="#8a3ea0",
    interrupts_off="#b8400e",
    code_mark="#ffe3a3",
    lock_held="#0b5cad",
    lock_contended="#b8400e",
    plot_line="#1f6fb4",
    plot_published="#a8480a",
    plot_grid="#e3e8ee",
    activity_idle="#e9edf2",
    activity_workload="#bac6d4",
    activity_slow="#dd8d18",
    activity_fast="#2672b5",
    activity_waiting="#7a1f3d",
    interrupt_1="#7b3fa8",
    interrupt_2="#0a7177",
    interrupt_3="#b0235a",
    on_interrupt="#ffffff",
    cpu_0="#0b5cad",
    cpu_1="#8f5600",
    cpu_2="#0a7550",
    cpu_3="#a8327a",
    cpu_4="#5d6100",
    cpu_5="#6a4fc0",
    cpu_6="#0a6f88",
    cpu_7="#a83a24",
    on_cpu="#ffffff",
    value_changed="#cdeede",
    breakpoint="#c62828",
    heat="#e07b2e",
    syntax_keyword="#0b5cad",
    syntax_string="#4f6b1d",
    syntax_comment="#66717f",
    syntax_number="#9a4a00",
    syntax_intrinsic="#0a7177",
    syntax_constant="#7a3f8f",
    error_fast_most="#1f5fa8",
    error_fast="#86bde0",
    error_none="#eef1f4",
    error_slow="#f5a878",
    error_slow_most="#a92518",
    error_surface="#fde8e1",
    error_text="#8a2408",
    notice_surface="#e3eefa",
    notice_text="#0b4682",
)

DARK = Theme(
    name="dark",
    dark=True,
    window="#11161d",
    panel="#1a212b",
    sunken="#151b23",
    border="#303b4a",
    text="#e8edf3",
    text_muted="#a0aebf",
    accent="#5cabf5",
    on_accent="#08131f",
    object_allocated="#3f8fd8",
    object_cpu_free="#ffc95c",
    object_free="#37424f",
    slab_full="#9dccf7",
    slab_partial="#a0aebf",
    slab_empty="#64717f",
    slab_frozen="#ffffff",
    slab_locked="#ff7a4d",
    slab_chained="#d29be8",
    difference="#ff7fb0",
    cpu_running="#3ecf9e",
    cpu_waiting="#ff8a5c",
    cpu_rendezvous="#d79ad2",
    cpu_halted="#8693a3",
    interrupt="#d29be8",
    interrupts_off="#ff8a5c",
    code_mark="#6b4e12",
    lock_held="#5cabf5",
    lock_contended="#ff8a5c",
    plot_line="#5cabf5",
    plot_published="#ffb27a",
    plot_grid="#2a3441",
    activity_idle="#232c37",
    activity_workload="#485667",
    activity_slow="#ffd27a",
    activity_fast="#3f8ad0",
    activity_waiting="#ff8f88",
    interrupt_1="#c79bf0",
    interrupt_2="#6fe3dd",
    interrupt_3="#f5789f",
    on_interrupt="#10161f",
    cpu_0="#5cabf5",
    cpu_1="#ffc15c",
    cpu_2="#3ecf9e",
    cpu_3="#f08cc8",
    cpu_4="#cfd35a",
    cpu_5="#b39cff",
    cpu_6="#55c8e6",
    cpu_7="#ff8a70",
    on_cpu="#10161f",
    value_changed="#174a36",
    breakpoint="#ff6b6b",
    heat="#ff9f5a",
    syntax_keyword="#74b8ff",
    syntax_string="#b5cf86",
    syntax_comment="#93a1b2",
    syntax_number="#ffb27a",
    syntax_intrinsic="#5fd0cf",
    syntax_constant="#d5a6ea",
    error_fast_most="#7cc0ff",
    error_fast="#356496",
    error_none="#2c3643",
    error_slow="#8e4a2a",
    error_slow_most="#ff9c6b",
    error_surface="#43211a",
    error_text="#ffc2ad",
    notice_surface="#1b3047",
    notice_text="#b9dcff",
)


def palette_of(theme: Theme) -> QPalette:
    """The Qt palette that makes the standard widgets follow a theme."""
    palette = QPalette()
    role = QPalette.ColorRole
    for which, meaning in (
        (role.Window, "window"),
        (role.WindowText, "text"),
        (role.Base, "panel"),
        (role.AlternateBase, "sunken"),
        (role.Text, "text"),
        (role.Button, "panel"),
        (role.ButtonText, "text"),
        (role.BrightText, "error_text"),
        (role.ToolTipBase, "panel"),
        (role.ToolTipText, "text"),
        (role.PlaceholderText, "text_muted"),
        (role.Highlight, "accent"),
        (role.HighlightedText, "on_accent"),
        (role.Link, "accent"),
        (role.Mid, "border"),
        (role.Dark, "border"),
    ):
        palette.setColor(which, theme.color(meaning))
    disabled = QPalette.ColorGroup.Disabled
    faded = QColor(theme.text_muted)
    faded.setAlphaF(0.55)
    for which in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(disabled, which, faded)
    return palette


def style_sheet_of(theme: Theme) -> str:
    """Style of panels, buttons and tables; everything else is the Fusion style with the palette."""
    return f"""
    QToolTip {{ background: {theme.panel}; color: {theme.text}; border: 1px solid {theme.border};
        padding: 4px 8px; }}
    QFrame#panel {{ background: {theme.panel}; border: 1px solid {theme.border}; border-radius: 8px; }}
    QFrame#bar {{ background: {theme.panel}; border: 0; border-bottom: 1px solid {theme.border}; }}
    QFrame#transport {{ background: {theme.panel}; border: 0; border-top: 1px solid {theme.border}; }}
    QFrame#transport QToolButton {{ padding: 0; }}
    QLabel#refusal {{ color: {theme.cpu_waiting}; }}
    QLineEdit[invalid="true"] {{ border: 1px solid {theme.cpu_waiting}; color: {theme.error_text}; }}
    QFrame#card {{ background: {theme.panel}; border: 1px solid {theme.border}; border-radius: 12px; }}
    QLabel#panelTitle {{ font-weight: 600; }}
    QLabel#panelInfo, QLabel#caption, QLabel#muted {{ color: {theme.text_muted}; }}
    QLabel#headline {{ font-weight: 600; }}
    QFrame#message[kind="error"] {{ background: {theme.error_surface}; border: 0;
        border-bottom: 1px solid {theme.border}; }}
    QFrame#message[kind="error"] QLabel {{ color: {theme.error_text}; }}
    QFrame#message[kind="notice"] {{ background: {theme.notice_surface}; border: 0;
        border-bottom: 1px solid {theme.border}; }}
    QFrame#message[kind="notice"] QLabel {{ color: {theme.notice_text}; }}
    QToolButton[command="true"], QPushButton[command="true"] {{ background: {theme.panel};
        color: {theme.text}; border: 1px solid {theme.border}; border-radius: 6px; padding: 4px 10px; }}
    QToolButton[command="true"]:hover, QPushButton[command="true"]:hover {{ border-color: {theme.accent}; }}
    QToolButton[command="true"]:focus, QPushButton[command="true"]:focus {{ border-color: {theme.accent}; }}
    QToolButton[command="true"]:pressed {{ background: {theme.sunken}; }}
    QToolButton[command="true"]:disabled {{ color: {theme.cpu_halted}; background: {theme.sunken}; }}
    QToolButton[toggle="true"] {{ background: transparent; color: {theme.text_muted}; border-radius: 6px;
        border: 1px solid transparent; padding: 2px 8px; }}
    QToolButton[toggle="true"]:hover, QToolButton[toggle="true"]:focus {{ border-color: {theme.accent}; }}
    QToolButton[toggle="true"]::menu-indicator {{ image: none; }}
    QToolButton[toggle="true"]:checked {{ background: {theme.notice_surface}; color: {theme.notice_text}; }}
    QToolButton[choice="true"] {{ text-align: left; padding-right: 20px; }}
    QToolButton::menu-indicator {{ subcontrol-position: right center; right: 6px; }}
    QProgressBar {{ background: {theme.border}; border: 0; border-radius: 3px; }}
    QProgressBar::chunk {{ background: {theme.accent}; border-radius: 3px; }}
    QListWidget {{ background: {theme.panel}; border: 0; }}
    QListWidget::item {{ padding: 2px 6px; border-radius: 4px; }}
    QListWidget::item:selected {{ background: {theme.accent}; color: {theme.on_accent}; }}
    QCheckBox::indicator:unchecked, QListView::indicator:unchecked {{ border: 1px solid {theme.text_muted};
        border-radius: 2px; background: {theme.panel}; width: 11px; height: 11px; }}
    QCheckBox::indicator:unchecked:disabled {{ border-color: {theme.border}; }}
    QListWidget#breakpoints::indicator {{ width: 10px; height: 10px; border-radius: 7px;
        border: 2px solid {theme.breakpoint}; background: transparent; }}
    QListWidget#breakpoints::indicator:checked {{ background: {theme.breakpoint}; }}
    QListWidget#breakpoints::item:selected, QTableView#watches::item:selected,
    QTreeView#branches::item:selected, QTreeView#branches::branch:selected {{
        background: {theme.notice_surface}; color: {theme.text}; }}
    QPushButton[small="true"] {{ padding: 4px 7px; }}
    QPushButton[command="true"]:pressed {{ background: {theme.sunken}; }}
    QPushButton[command="true"]:disabled {{ color: {theme.cpu_halted}; background: {theme.sunken}; }}
    QTreeView {{ background: {theme.panel}; border: 0; }}
    QDialog#palette {{ background: {theme.window}; border: 1px solid {theme.text_muted}; }}
    QDockWidget {{ color: {theme.text}; }}
    QDockWidget::title {{ background: {theme.window}; padding: 4px 8px; }}
    QMainWindow::separator {{ background: {theme.window}; width: 6px; height: 6px; }}
    QMainWindow::separator:hover {{ background: {theme.border}; }}
    QTabBar#pages {{ background: transparent; }}
    QTabBar#pages::tab {{ padding: 3px 2px; margin: 0 12px 0 0; }}
    QToolButton[primary="true"], QPushButton[primary="true"] {{ background: {theme.accent};
        color: {theme.on_accent}; border-color: {theme.accent}; }}
    QToolButton[primary="true"]:disabled {{ color: {theme.cpu_halted}; background: {theme.sunken};
        border-color: {theme.border}; }}
    QTableView {{ background: {theme.panel}; border: 0; gridline-color: {theme.border};
        alternate-background-color: {theme.sunken}; }}
    QTableView::item {{ padding: 0 8px; }}
    QHeaderView {{ background: {theme.panel}; border: 0; }}
    QHeaderView::section {{ background: {theme.panel}; color: {theme.text_muted}; border: 0;
        border-bottom: 1px solid {theme.border}; padding: 4px 8px; }}
    QTabWidget::pane {{ border: 0; }}
    QTabBar::tab {{ background: transparent; color: {theme.text_muted}; padding: 4px 2px; margin-right: 16px;
        border: 0; border-bottom: 2px solid transparent; }}
    QTabBar::tab:selected {{ color: {theme.text}; border-bottom: 2px solid {theme.accent}; }}
    QSplitter::handle {{ background: transparent; }}
    QStatusBar {{ background: {theme.panel}; border-top: 1px solid {theme.border}; }}
    QStatusBar::item {{ border: 0; }}
    QMenuBar {{ background: {theme.panel}; }}
    QMenuBar::item {{ padding: 4px 10px; background: transparent; color: {theme.text}; }}
    QMenuBar::item:selected {{ background: {theme.sunken}; }}
    """


def text_font() -> QFont:
    """The system's font for user interfaces, not smaller than the minimum."""
    return _at_least_minimum(QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont))


def code_font() -> QFont:
    """The system's monospaced font, not smaller than the minimum."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setStyleHint(QFont.StyleHint.Monospace)
    return _at_least_minimum(font)


def _at_least_minimum(font: QFont) -> QFont:
    if font.pointSizeF() < MINIMUM_POINT_SIZE:
        font.setPointSizeF(MINIMUM_POINT_SIZE)
    return font
