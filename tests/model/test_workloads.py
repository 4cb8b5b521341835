"""Every workload on the real simulator: exact phases, counts, invariants, what a cell divides by."""

from __future__ import annotations

from functools import cache

import pytest

from slubviz.model.invariants import check
from slubviz.model.kernels import KERNELS
from slubviz.model.plan import WORKLOADS
from slubviz.model.requests import SessionSpec, runnable_tests
from slubviz.model.results import CellResult, RunRequest
from slubviz.model.session import Session
from slubviz.model.workload_table import BULK_SHARED_SLABS
from tests.model.helpers import all_idle

SMALL_HACKBENCH = {"GROUPS": 2, "SENDERS": 3, "RECEIVERS": 2, "QUEUE_DEPTH": 4}


def run(
    test: str,
    kernel: str = "slub",
    *,
    sizes: tuple[int, ...] = (),
    objects: tuple[int, ...] = (),
    ops: int = 200,
    cpus: int | None = None,
    seed: int = 1,
    checked: bool = True,
    **options: int,
) -> Session:
    """A finished session on the E5345 machine."""
    spec = SessionSpec(
        "e5345_8p",
        kernel,
        test,
        sizes,
        ops,
        seed,
        cpus=cpus,
        options=options,
        check=checked,
        tests=(test,),
        objects=objects,
    )
    made = Session(spec)
    made.run_to_end()
    assert all_idle(made)
    return made


def measured(made: Session, cpu: int = 0) -> int:
    """Cycles between the two readings of the time stamp counter on a CPU, of the last function it ran."""
    memory = made.booted.memory
    record = memory.one(memory.global_address("results", cpu), "result")
    return int(record["stop"]) - int(record["start"])


# --- kmalloc-kfree -----------------------------------------------------------------------------------


def test_kmalloc_kfree_has_two_cells_per_size_which_are_those_of_a_and_b() -> None:
    sizes = (8, 192, 2048, 16384)
    made = run("kmalloc-kfree", sizes=sizes)
    assert [(c.test, c.operation, c.size_bytes, c.objects, c.ops) for c in made.results] == [
        ("kmalloc-kfree", operation, size, None, 200) for size in sizes for operation in ("kmalloc", "kfree")
    ]
    spec = SessionSpec("e5345_8p", "slub", "A", sizes, 200, 1, tests=("A", "B"))
    same = Session(spec)
    same.run_to_end()
    assert [(c.operation, c.cycles_per_op, c.counters) for c in made.results] == [
        (c.operation, c.cycles_per_op, c.counters) for c in same.results
    ]


def test_pairs_are_those_of_test_c() -> None:
    made = run("kmalloc-kfree-pairs", sizes=(64, 8192))
    same = run("C", sizes=(64, 8192))
    assert [c.cycles_per_op for c in made.results] == [c.cycles_per_op for c in same.results]
    assert {c.operation for c in made.results} == {"kmalloc+kfree"}


# --- irq-cmpxchg -------------------------------------------------------------------------------------


def test_the_three_loops_cost_what_they_do_and_the_loop_itself() -> None:
    one, two = (run("irq-cmpxchg", LOOPS=loops) for loops in (1000, 2000))
    costs = one.machine_spec.costs
    assert [c.operation for c in one.results] == ["cmpxchg_local", "irq_restore", "irq_save"]
    assert {c.counters["OPERATIONS"] for c in one.results} == {1000}
    assert {(c.ops, c.size_bytes) for c in two.results} == {(2000, 0)}
    # What a thousand rounds more take: first touches fall away.
    rounds = [
        second.cycles_per_op * 2 - first.cycles_per_op
        for first, second in zip(one.results, two.results, strict=True)
    ]
    instruction = costs["instruction"].value
    loop = 2 * instruction  # the counter; compare and branch
    assert rounds == pytest.approx(
        [
            costs["cmpxchg_local"].value + instruction + loop,  # and the expected value is loaded each time
            costs["irq_restore"].value + loop,
            costs["irq_save"].value + loop,
        ],
        abs=0.003,
    )


def test_twenty_thousand_rounds_unless_said_otherwise() -> None:
    made = run("irq-cmpxchg", ops=5)
    assert {c.ops for c in made.results} == {20_000}


def test_interrupts_and_preemption_are_as_before_after_the_loops() -> None:
    made = run("irq-cmpxchg", LOOPS=10, CONFIG_PREEMPT=1)
    assert check(made.booted, expected_allocated=0) == []


# --- bulk --------------------------------------------------------------------------------------------


@cache
def bulk_cells(kernel: str, merge: int, others: int = 1) -> dict[int, CellResult]:
    points = (1, 3, 30, 31, 32, 33, 64, 250)
    made = run("bulk", kernel, objects=points, ops=2000, MERGE=merge, OTHER_OBJECTS=others)
    assert [c.objects for c in made.results] == list(points)
    return {c.point: c for c in made.results}


@pytest.mark.parametrize("kernel", ["slub-bulk", "slub-bulk-fallback", "slub-cpu-partial"])
@pytest.mark.parametrize("merge", [0, 1])
def test_about_ops_objects_are_handled_at_each_point_by_whole_calls(kernel: str, merge: int) -> None:
    for objects, cell in bulk_cells(kernel, merge).items():
        calls = 2000 // objects
        assert cell.ops == calls * objects == cell.counters["OPERATIONS"]
        assert (cell.operation, cell.size_bytes, cell.test) == ("alloc+free", 256, "bulk")


@pytest.mark.parametrize("kernel", ["slub-bulk", "slub-bulk-fallback"])
def test_other_users_objects_move_the_step_from_33_to_32(kernel: str) -> None:
    """A slab has 32 objects: what does not fit the cpu slab is freed on the slow path."""
    for merge, last_that_fits in ((0, 32), (1, 31)):
        for objects, cell in bulk_cells(kernel, merge).items():
            slow = cell.counters["FREE_SLOWPATH"]
            assert (slow == 0) == (objects <= last_that_fits), (merge, objects, slow)


def test_with_a_cache_of_its_own_two_slabs_are_full_at_64() -> None:
    cell = bulk_cells("slub-bulk", 0)[64]
    # 31 calls: the slab that is not the cpu slab gives back its 32 objects one by one.
    assert cell.counters["FREE_SLOWPATH"] == (2000 // 64) * 32


def test_other_users_keep_their_objects() -> None:
    for partial, own in ((1, 1), (5, 2)):
        made = run(
            "bulk", "slub-bulk", objects=(8,), ops=100, OTHER_OBJECTS=own, OTHER_PARTIAL=partial, checked=True
        )
        held = (BULK_SHARED_SLABS - 1) * partial + own
        assert [phase.kept_after for phase in made.phases] == [held, held, held]
        assert check(made.booted, expected_allocated=held) == []


def test_a_cache_of_its_own_ends_empty_of_users() -> None:
    made = run("bulk", "slub-bulk", objects=(100,), ops=300, MERGE=0)
    assert [phase.operation for phase in made.phases] == ["setup", "alloc+free"]
    assert check(made.booted, expected_allocated=0) == []


def test_the_bulk_kernels_differ_only_where_they_should() -> None:
    fallback, patched = (bulk_cells(kernel, 1) for kernel in ("slub-bulk-fallback", "slub-bulk"))
    assert patched[30].cycles_per_op < 0.5 * fallback[30].cycles_per_op
    assert patched[1].cycles_per_op > patched[3].cycles_per_op > patched[30].cycles_per_op
    # Each object of the fallback takes the fast path twice.
    assert fallback[30].counters["ALLOC_FASTPATH"] == fallback[30].ops
    assert fallback[30].counters["FREE_FASTPATH"] == fallback[30].ops


# --- hackbench ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_hackbench_runs_on_every_kernel_and_loses_nothing(kernel: str) -> None:
    made = run("hackbench", kernel, ops=60, cpus=4, **SMALL_HACKBENCH)
    (cell,) = made.results
    messages = 60 * 4 // 12 * 12
    assert cell.counters["OPERATIONS"] == messages
    assert cell.ops == messages // 4
    assert check(made.booted, expected_allocated=0) == []


def test_a_cell_of_hackbench_is_the_cycles_of_all_cpus_over_the_messages() -> None:
    made = run("hackbench", ops=50, cpus=3, **SMALL_HACKBENCH)
    messages = 50 * 3 // 12 * 12
    total = sum(measured(made, cpu) for cpu in range(3))
    assert made.results[0].cycles_per_op == pytest.approx(total / messages, rel=1e-12)


def test_senders_and_receivers_can_share_one_cpu() -> None:
    made = run("hackbench", ops=36, cpus=1, **{**SMALL_HACKBENCH, "QUEUE_DEPTH": 1})
    cell = made.results[0]
    assert cell.counters["OPERATIONS"] == 36
    assert cell.counters["QUEUE_FULL"] > 0
    assert cell.counters["QUEUE_EMPTY"] > 0


def test_messages_are_freed_by_another_cpu_than_their_sender_s() -> None:
    one, eight = (run("hackbench", ops=400, cpus=cpus, checked=False) for cpus in (1, 8))
    far, near = (c.results[0].counters for c in (eight, one))
    assert far["FREE_SLOWPATH"] / far["OPERATIONS"] > 0.5
    assert far["FREE_SLOWPATH"] / far["OPERATIONS"] > near["FREE_SLOWPATH"] / near["OPERATIONS"]


def test_cpu_partial_lists_are_used() -> None:
    counters = run("hackbench", "slub-cpu-partial", ops=1000, checked=False).results[0].counters
    for name in ("CPU_PARTIAL_FREE", "CPU_PARTIAL_ALLOC", "CMPXCHG_DOUBLE_FAIL", "FREE_FROZEN"):
        assert counters[name] > 0, name


def test_the_seed_moves_the_start_of_the_cpus_and_nothing_else_is_random() -> None:
    def starts(seed: int, **options: int) -> list[int]:
        made = Session(SessionSpec("e5345_8p", "slub", "hackbench", (), 100, seed, options=options))
        return [start.arguments[0] for start in made.phases[-1].starts]

    assert starts(1) == starts(1) != starts(2)
    assert all(0 <= delay <= 300 for seed in range(20) for delay in starts(seed))
    assert max(delay for seed in range(20) for delay in starts(seed)) > 250
    assert starts(1, START_JITTER=0) == [0] * 8
    again, once, other = (run("hackbench", ops=40, seed=seed, **SMALL_HACKBENCH) for seed in (1, 1, 2))
    assert again.results == once.results
    assert again.machine.state_hash() == once.machine.state_hash()
    assert other.results[0].trace_hash != once.results[0].trace_hash


def test_every_sender_sends_as_much_to_every_receiver() -> None:
    made = run("hackbench", ops=60, cpus=4, **SMALL_HACKBENCH)
    memory, program = made.booted.memory, made.booted.program
    size = program.struct("hackbench_task").size_bytes
    tasks = [
        memory.one(memory.global_address("hackbench_tasks") + i * size, "hackbench_task") for i in range(10)
    ]
    assert [int(task["remaining"]) for task in tasks] == [0] * 10
    # A whole number of rounds over its receivers: everybody is back where he began.
    assert [int(task["receiver"]) for task in tasks[:3]] == [0, 1, 0]


# --- all ---------------------------------------------------------------------------------------------


def test_a_kernel_runs_what_it_has_the_functions_for() -> None:
    def able(kernel: str, cpus: int | None = None) -> tuple[str, ...]:
        return runnable_tests(RunRequest("e5345_8p", (kernel,), (), None, 10, 1, cpus=cpus))

    everything = tuple(WORKLOADS)
    assert able("slub-bulk") == everything
    assert able("slub") == tuple(name for name in everything if name != "bulk")
    assert able("slub", 1) == tuple(name for name in everything if name not in ("bulk", "F"))


@pytest.mark.parametrize("test", list(WORKLOADS))
def test_pieces_of_any_length_give_the_same_run(test: str) -> None:
    def session() -> Session:
        sizes, objects = ((64,), ()) if WORKLOADS[test].boot not in ("bulk",) else ((), (5,))
        options = {"LOOPS": 20} if test == "irq-cmpxchg" else SMALL_HACKBENCH if test == "hackbench" else {}
        return Session(
            SessionSpec("e5345_8p", "slub-bulk", test, sizes, 30, 1, options=options, objects=objects)
        )

    whole, pieces = session(), session()
    whole.run_to_end()
    length = 1
    while not pieces.finished:
        pieces.run(length)
        length = length * 7 % 1009 + 1
    assert pieces.results == whole.results
    assert pieces.machine.state_hash() == whole.machine.state_hash()
