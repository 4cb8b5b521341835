"""The exact text of the statistics report, kernel by kernel."""

from __future__ import annotations

import pytest

from slubviz.model.kernels import KERNELS
from slubviz.model.slabinfo import ERAS, slabinfo_report

COUNTERS = {
    "ALLOC_FASTPATH": 1999,
    "ALLOC_SLOWPATH": 1001,
    "FREE_FASTPATH": 200,
    "FREE_SLOWPATH": 1800,
    "FREE_FROZEN": 700,
    "FREE_ADD_PARTIAL": 31,
    "FREE_REMOVE_PARTIAL": 13,
    "ALLOC_FROM_PARTIAL": 44,
    "ALLOC_SLAB": 90,
    "FREE_SLAB": 60,
    "ALLOC_REFILL": 12,
    "ALLOC_NODE_MISMATCH": 3,
    "CPUSLAB_FLUSH": 5,
    "DEACTIVATE_FULL": 40,
    "DEACTIVATE_EMPTY": 1,
    "DEACTIVATE_TO_HEAD": 2,
    "DEACTIVATE_TO_TAIL": 17,
    "DEACTIVATE_REMOTE_FREES": 6,
    "DEACTIVATE_BYPASS": 140,
    "CPU_PARTIAL_ALLOC": 300,
    "CPU_PARTIAL_FREE": 311,
    "CPU_PARTIAL_NODE": 21,
    "CPU_PARTIAL_DRAIN": 9,
    "CMPXCHG_DOUBLE_FAIL": 182685,
    "CMPXCHG_DOUBLE_CPU_FAIL": 1,
}
UP_TO_REMOVE_PARTIAL = """\
Slabcache: kmalloc-256

Slab Perf Counter       Alloc     Free %Al %Fr
--------------------------------------------------
Fastpath                 1999      200  66  10
Slowpath                 1001     1800  33  90
Page Alloc                 90       60   3   3
Add partial                19       31   0   1
Remove partial             44       13   1   0
"""
FROM_REMOTE_FREES = """\
RemoteObj/SlabFrozen        6      700   0  35
Total                    3000     2000

Flushes        5
"""
DEACTIVATION_3_1 = """\

Slab Deactivation             Ocurrences  %
-------------------------------------------------
Slab full                          40   20%
Slab empty                          1    0%
Moved to head of partial list       2    1%
Moved to tail of partial list      17    8%
Deactivation bypass               140   70%
Refilled from foreign frees        12    6%
Node mismatch                       3    1%
"""
REDOS = """\

Cmpxchg_double Looping
------------------------
Locked Cmpxchg Double redos   182685
Unlocked Cmpxchg Double redos 1
"""
CPU_PARTIAL = "Cpu partial list          300      311  10  15\n"
LINE_2_6_25 = "Refill       12\nDeactivate Full=40(66%) Empty=1(1%) ToHead=2(3%) ToTail=17(28%)\n"


@pytest.mark.parametrize(
    ("era", "text"),
    [
        ("2.6.25", UP_TO_REMOVE_PARTIAL + FROM_REMOTE_FREES + LINE_2_6_25),
        ("3.1", UP_TO_REMOVE_PARTIAL + FROM_REMOTE_FREES + DEACTIVATION_3_1 + REDOS),
        ("3.2", UP_TO_REMOVE_PARTIAL + CPU_PARTIAL + FROM_REMOTE_FREES + DEACTIVATION_3_1 + REDOS),
        ("3.5", UP_TO_REMOVE_PARTIAL + CPU_PARTIAL + FROM_REMOTE_FREES + DEACTIVATION_3_1 + REDOS),
    ],
)
def test_report_of_each_era(era: str, text: str) -> None:
    assert slabinfo_report(COUNTERS, era, "kmalloc-256") == text


def test_the_lines_of_repeated_exchanges_stand_without_their_heading_when_there_were_none() -> None:
    report = slabinfo_report({"ALLOC_FASTPATH": 5}, "3.5", "kmalloc-8")
    assert report.endswith(
        "Total                       5        0\n\n"
        "Locked Cmpxchg Double redos   0\nUnlocked Cmpxchg Double redos 0\n"
    )
    assert "Looping" not in report
    assert "Flushes" not in report


@pytest.mark.parametrize("era", ERAS)
def test_nothing_freed_and_nothing_allocated(era: str) -> None:
    assert "Fastpath                    7        0 100   0\n" in slabinfo_report(
        {"ALLOC_FASTPATH": 7}, era, "x"
    )
    assert slabinfo_report({"FREE_SLOWPATH": 7}, era, "x") == "Slabcache: x\n"


def test_an_unknown_era_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'2\.4'; known: 2\.6\.25, 3\.1, 3\.2, 3\.5"):
        slabinfo_report(COUNTERS, "2.4", "kmalloc-256")


def test_every_kernel_has_statistics_that_the_report_knows_or_none() -> None:
    assert {kernel.statistics_era for kernel in KERNELS.values()} <= {"", *ERAS}
    assert KERNELS["slub"].statistics_era == "2.6.25"
    assert KERNELS["slub-cpu-partial"].statistics_era == KERNELS["slub-bulk"].statistics_era == "3.5"
