"""Facts, watches, breakpoints and branches that are made up, for the tests of the panels."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from slubviz.model.travel.bookmarks import Bookmark
from slubviz.model.travel.branches import Branch
from slubviz.model.travel.breakpoints import Breakpoint, BreakpointKind, Comparison, Condition
from slubviz.model.travel.changes import Change, Inject
from slubviz.model.travel.inspector import CpuTarget, Inspection, ObjectTarget, Row, SlabTarget
from slubviz.model.travel.object_history import ObjectEvent
from slubviz.model.travel.watch import WatchValue
from slubviz.views.theme import LIGHT, Theme, style_sheet_of
from slubviz.views.travel_view import HistoryView, ProgramView, TravelView

ADDRESS = 0x32C0C0
OBJECT = Inspection(
    "object 3 of slab 812 (kmalloc-64)",
    (
        Row("address", "0x32c0c0"),
        Row("slab", "812, cpu slab of CPU 0", SlabTarget(812)),
        Row("owner", "test_kmalloc on CPU 0", CpuTarget(0)),
        Row("allocated at", "micro-op 12 410", None, 12_410),
        Row("escaped", "a < b & c"),
    ),
    ObjectTarget(ADDRESS),
)
SLAB = Inspection("slab 812", (Row("objects", "64"),), SlabTarget(812))
CPU = Inspection("CPU 0", (Row("state", "running"),), CpuTarget(0))


def event(position: int, allocated: bool, *, cpu: int = 0, in_interrupt: bool = False) -> ObjectEvent:
    """An allocation or a free."""
    caller = "irq_alloc" if in_interrupt else "test_kmalloc"
    function = "kmalloc" if allocated else "kfree"
    return ObjectEvent(position, 3.0 * position, cpu, allocated, function, caller, in_interrupt)


HISTORY = HistoryView(
    ADDRESS,
    (event(100, True), event(4_000, False, cpu=2), event(12_410, True, in_interrupt=True)),
)
WATCHES = (
    WatchValue("page(812).inuse", "3", 3, True, "", 0x1234, 8, "word"),
    WatchValue("cpu0.freelist", "object 4 of slab 812", ADDRESS, False, "", 0x8080, 8, "ptr"),
    WatchValue("foo.bar", "", None, False, "there is no variable foo"),
)
BREAKPOINTS = (
    Breakpoint(1, BreakpointKind.FUNCTION, name="__slab_alloc"),
    Breakpoint(
        4,
        BreakpointKind.LINE,
        file="slub.py",
        line=120,
        condition=Condition((Comparison("cpu", "==", 2),)),
    ),
    Breakpoint(7, BreakpointKind.COUNTER, name="FREE_SLOWPATH", enabled=False),
)
PROGRAM = ProgramView(functions={"kmalloc": ("slub.py", 1)}, counters=("ALLOC_FASTPATH",))
INTERRUPT = Inject(0, "irq_alloc", (64,))
BRANCHES = (
    Branch(0, None, 0, (), "main", 1_000_000),
    Branch(1, 0, 12_410, (Change(12_410, INTERRUPT),), "with an interrupt", 80_000),
    Branch(2, 1, 30_000, (Change(30_000, INTERRUPT),), "branch 2", 60_000),
)
BOOKMARKS = (Bookmark(0, 5_000, "the refill", "the first slow path"), Bookmark(1, 15_000, "in the handler"))
TRAVEL = TravelView(
    position=20_100,
    end=80_000,
    branch=BRANCHES[1],
    branches=BRANCHES,
    changes=BRANCHES[1].changes,
    bookmarks=BOOKMARKS,
)


def show_docked(qtbot: QtBot, panel: QWidget, theme: Theme = LIGHT, width: int = 340) -> QWidget:
    """Show a panel inside another widget, as in a dock: it is no window of its own."""
    host = QWidget()
    host.setStyleSheet(style_sheet_of(theme))
    panel.setParent(host)
    panel.resize(width, 560)
    host.resize(width, 560)
    qtbot.addWidget(host)
    host.show()
    return host
