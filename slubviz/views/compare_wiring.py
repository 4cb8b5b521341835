"""Connects the page Compare with the bridge."""

from __future__ import annotations

from collections.abc import Callable

from slubviz.views import commands as C
from slubviz.views.branch_panel import BranchPanel
from slubviz.views.bridge import Bridge
from slubviz.views.compare_page import ComparePage


def connect_compare(
    page: ComparePage,
    branches: BranchPanel,
    bridge: Bridge,
    choose_session: Callable[[], str],
    show: Callable[[], object],
) -> None:
    """Every signal becomes a command; once.

    Parameters
    ----------
    choose_session : asks for a session file, "" if the user cancels
    show : brings the page to the front
    """
    send = bridge.send

    def compare_branch(number: int) -> None:
        send(C.CompareBranch(int(number)))
        show()

    def compare_file(path: str) -> None:
        chosen = path or choose_session()
        if chosen:
            send(C.CompareFile(chosen))

    page.branch_chosen.connect(lambda number: send(C.CompareBranch(int(number))))
    page.kernel_chosen.connect(lambda kernel: send(C.CompareKernel(str(kernel))))
    page.file_chosen.connect(compare_file)
    page.by_chosen.connect(lambda by: send(C.CompareBy(str(by))))
    page.parting_wanted.connect(lambda: send(C.FindParting()))
    page.search_stopped.connect(lambda: send(C.Cancel()))
    page.closed.connect(lambda: send(C.CloseCompare()))
    page.seek.connect(lambda position: send(C.Seek(int(position))))
    branches.compared.connect(compare_branch)
