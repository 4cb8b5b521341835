"""The reviewed refactoring of patch 08: each fault that the reviewers name shows, and only where it is."""

from __future__ import annotations

import pytest

from slubviz.hw.isa import F_A, F_OP, WORDS, Op, Status
from slubviz.hw.layout import C_IRQ_ENABLED, C_PC, C_PREEMPT, C_WINDOW
from slubviz.model.invariants import check
from slubviz.model.kernels import KERNELS
from tests.model.driver import Driver
from tests.model.test_interrupts import SIZE, alloc_from_a_cpu_slab, free_to_the_cpu_slab

KERNEL = "slub+pekka"
SMALL = 64


def preempt_count(driver: Driver, cpu: int = 0) -> int:
    return driver.machine.cpu_word(cpu, C_PREEMPT)


def lowest_preempt_count(driver: Driver, size: int) -> int:
    """Lowest count of CPU 0 during one allocation."""
    driver.start(0, "test_alloc", size, 1)
    lowest = preempt_count(driver)
    while driver.machine.step() != Status.HALTED:
        lowest = min(lowest, preempt_count(driver))
    return lowest


def test_it_is_listed_as_faulty() -> None:
    assert KERNELS[KERNEL].faulty
    assert "Known fault" in KERNELS[KERNEL].description


def test_misspelt_the_slow_path_runs_one_below_the_callers_preempt_count() -> None:
    """__slab_alloc enables preemption that its caller, which disabled interrupts, had not disabled."""
    driver = Driver(KERNEL, 2, CONFIG_PREEMPT=1)
    assert lowest_preempt_count(driver, SIZE) == -1  # a new slab
    assert driver.counters()["ALLOC_SLOWPATH"] == 1
    assert lowest_preempt_count(driver, SIZE) == 0
    assert driver.counters()["ALLOC_FASTPATH"] == 1
    # It disables preemption again before it returns, so that nothing is left of it.
    assert preempt_count(driver) == 0
    assert check(driver.kernel, expected_allocated=2) == []


@pytest.mark.parametrize(("size", "slow"), [(SMALL, 1), (SIZE, 3)])
def test_spelt_right_each_allocation_lowers_the_preempt_count_for_good(size: int, slow: int) -> None:
    """put_cpu without get_cpu, in fast and slow allocations alike; frees are balanced."""
    driver = Driver(KERNEL, 2, CONFIG_PREEMPT=1, PEKKA_MISSPELT=0)
    before = preempt_count(driver)
    objects = [driver.alloc(0, size) for _ in range(9)]
    assert driver.counters()["ALLOC_SLOWPATH"] == slow
    assert preempt_count(driver) == before - 9
    for address in objects:
        driver.free(0, address)
    assert preempt_count(driver) == before - 9
    problems = check(driver.kernel, expected_allocated=0)
    assert f"CPU 0 has a preempt count of {before - 9}, not 0" in problems
    # The session's own first phase had each CPU allocate 64 objects.
    assert before == -64
    assert len(problems) == 2


@pytest.mark.parametrize("options", [{"PEKKA_UNMATCHED_PUT_CPU": 0}, {"PATCH_08": 0, "PATCH_06": 0}])
def test_without_the_unmatched_put_cpu_it_is_balanced(options: dict[str, int]) -> None:
    driver = Driver(KERNEL, 2, CONFIG_PREEMPT=1, PEKKA_MISSPELT=0, **options)
    assert lowest_preempt_count(driver, SIZE) == 0
    for _ in range(8):
        driver.alloc(0, SIZE)
    assert check(driver.kernel, expected_allocated=9) == []


@pytest.mark.parametrize("misspelt", [0, 1])
def test_the_misspelling_happens_to_prevent_the_aba(misspelt: int) -> None:
    """Allocation with interrupts off cannot be interrupted; frees are lockless and need no number."""
    scene = alloc_from_a_cpu_slab(Driver(KERNEL, 2, PEKKA_MISSPELT=misspelt))
    broken, faults = scene.interrupt_everywhere("irq_alloc_alloc_free_first")
    assert (bool(broken), faults) == (not misspelt, [])
    scene = free_to_the_cpu_slab(Driver(KERNEL, 2, PEKKA_MISSPELT=misspelt))
    assert scene.interrupt_everywhere("irq_alloc_alloc_free_first") == ([], [])


def reads_of_the_cpu_number(driver: Driver) -> list[bool]:
    """For each read in one allocation of CPU 0, whether interrupts were on: the task could be moved."""
    program, machine = driver.program, driver.machine
    ops = program.code.reshape(-1, WORDS)[:, F_OP]
    driver.start(0, "test_alloc", SMALL, 1)
    found, status = [], Status.MICRO_OPS
    while status != Status.HALTED:
        pc = machine.cpu_word(0, C_PC)
        inside = "slab_alloc" in [function.name for function, _ in program.inline_stack(pc)]
        if ops[pc] == Op.CPU_ID and inside:
            found.append(bool(machine.cpu_word(0, C_IRQ_ENABLED)))
        status = machine.step()
    return found


@pytest.mark.parametrize(("early", "enabled"), [(1, [True]), (0, [False])])
def test_the_cpu_number_is_read_while_the_task_can_be_moved(early: int, enabled: list[bool]) -> None:
    driver = Driver(KERNEL, 2, PEKKA_EARLY_CPU=early)
    driver.alloc(0, SMALL)
    assert reads_of_the_cpu_number(driver) == enabled


def test_a_task_that_was_moved_takes_an_object_off_another_cpus_freelist() -> None:
    """CPU 1's task read its CPU number on CPU 0: interrupts off does not keep CPU 0 away from CPU 0's list.

    The machine does not move tasks.  That this task was moved is the number 0 in its register.
    """
    driver = Driver(KERNEL, 2)
    for cpu in range(2):
        driver.alloc(cpu, SMALL)
    program, machine = driver.program, driver.machine
    rows = program.code.reshape(-1, WORDS)
    for cpu in range(2):
        driver.start(cpu, "test_alloc", SMALL, 1)
    moved = 0
    status = Status.MICRO_OPS
    while status != Status.HALTED:
        pc, micro_ops = machine.cpu_word(1, C_PC), machine.micro_ops
        window = machine.cpu_word(1, C_WINDOW)
        inside = "slab_alloc" in [function.name for function, _ in program.inline_stack(pc)]
        status = machine.step()
        executed = machine.cpu_word(1, C_PC) != pc and machine.micro_ops > micro_ops
        if executed and inside and rows[pc, F_OP] == Op.CPU_ID:
            machine.state[window + rows[pc, F_A]] = 0
            moved += 1
    assert moved == 1
    assert machine.read(driver.kept[0]) == machine.read(driver.kept[1])  # both have the same object
    assert check(driver.kernel, expected_allocated=4) != []
