"""Every shipped machine runs the tests with sound caches, and its cheap mechanisms cost what was measured."""

from __future__ import annotations

import pytest

from slubviz.hw import layout as L
from slubviz.model.errors import UserError
from slubviz.model.machines import load_machine, machine_files
from slubviz.model.requests import SessionSpec
from slubviz.model.results import CellResult, RunRequest
from slubviz.model.runner import run_cells
from slubviz.model.session import Session

MACHINES = sorted(machine_files())
WITH_L3 = [name for name in MACHINES if load_machine(name).l3]


def cells(
    machine: str, kernel: str, tests: tuple[str, ...], sizes: tuple[int, ...], ops: int
) -> list[CellResult]:
    return run_cells(RunRequest(machine, (kernel,), tests, sizes, ops, 1, check=True))


@pytest.mark.parametrize("kernel", ["slub", "slub+"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_and_c_with_invariants(machine: str, kernel: str) -> None:
    page = load_machine(machine).page_size_bytes
    found = cells(machine, kernel, ("A", "C"), (8, 256, page), 300)
    assert [(cell.test, cell.size_bytes) for cell in found] == [(t, s) for t in "AC" for s in (8, 256, page)]
    assert all(10 < cell.cycles_per_op < 5000 for cell in found)
    assert found == cells(machine, kernel, ("A", "C"), (8, 256, page), 300)


@pytest.mark.parametrize("machine", [name for name in MACHINES if load_machine(name).cpus > 1])
def test_d_and_f_with_invariants(machine: str) -> None:
    alone, freed, together, elsewhere = (
        cells(machine, "slub", (test,), (64,), 300)[0].cycles_per_op for test in "ABDF"
    )
    assert alone < together
    others = load_machine(machine).cpus - 1
    assert freed < elsewhere / others  # a cell of F is the time of the frees of all other CPUs' objects


@pytest.mark.parametrize("machine", WITH_L3)
def test_every_level_of_three_is_used(machine: str) -> None:
    session = Session(SessionSpec(machine, "slub", "F", (512,), 1000, 1))
    session.run_to_end()
    counters = session.machine.counters().sum(axis=0)
    assert (counters[[L.N_L2_HIT, L.N_L3_HIT, L.N_L2_EVICTION, L.N_MEMORY_LOCAL]] > 0).all()


def test_no_lock_is_taken_in_a_kernel_for_one_cpu() -> None:
    session = Session(SessionSpec("p4_3ghz_up", "slub", "A", (1024,), 200, 1))
    session.run_to_end()
    assert session.machine.counters()[0, [L.N_LOCKS_TAKEN, L.N_LOCKED_OPS]].sum() == 0
    assert session.booted.program.constants["CONFIG_SMP"] == 0
    with pytest.raises(UserError, match=r"cpus must be 1, not 2: p4_3ghz_up runs a kernel for one CPU"):
        load_machine("p4_3ghz_up", 2)


#: Cycles of the mail of October 2007, the loop of the measurement included.
MEASURED = {
    "p4_2007": {"irq_restore": 112, "irq_save": 82, "cmpxchg_local": 26},
    "amd64": {"irq_restore": 125, "irq_save": 102, "cmpxchg_local": 19},
}


@pytest.mark.parametrize("machine", MEASURED)
def test_the_micro_test_comes_out_as_measured(machine: str) -> None:
    found = run_cells(RunRequest(machine, ("slub",), ("irq-cmpxchg",), None, 10_000, 1))
    assert {cell.operation: round(cell.cycles_per_op) for cell in found} == MEASURED[machine]
