"""What is compared, how a cell is made of results, and that processes change nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from collections import Counter
from dataclasses import replace

import pytest

from slubviz.model.compare import (
    ComparedCell,
    CompareRequest,
    Comparison,
    RunningComparison,
    plan_comparison,
    run_comparison,
)
from slubviz.model.compare_files import COMPARE_COLUMNS, compare_csv, compare_json, read_compare_csv
from slubviz.model.compare_pool import ProcessPool, Task
from slubviz.model.compare_redos import RedoComparison, redo_boots, redo_comparison
from slubviz.model.compare_summary import (
    goal_results,
    statistics_of,
    summarise,
    verdict_rows,
    winner_agreement,
)
from slubviz.model.compare_table import (
    ALL_POINTS,
    Boot,
    CellKey,
    PublishedCell,
    boots_for,
    published_cells,
    simulated_values,
    split_runnable,
)
from slubviz.model.errors import RequestError, UserError
from slubviz.model.machines import load_machine
from slubviz.model.requests import SessionSpec
from slubviz.model.results import CellResult, Progress, RunRequest
from slubviz.model.runner import run_cells


def cell(
    kernel: str = "slub",
    test: str = "A",
    point: int = 64,
    cycles: tuple[float, ...] = (110.0,),
    published: tuple[float, float] = (100.0, 100.0),
    machine: str = "e5345_8p",
) -> ComparedCell:
    key = CellKey(machine, kernel, test, "kmalloc", point)
    return ComparedCell(key, *published, cycles, cycles[0], cycles[0])


def comparison(*cells: ComparedCell, seeds: tuple[int, ...] = (1,)) -> Comparison:
    return Comparison(CompareRequest("e5345_8p", seeds=seeds), cells, len(cells))


def everything(factor: float) -> Comparison:
    """Every published cell, simulated off by a factor from its lower end."""
    cells = [
        ComparedCell(c.key, c.low, c.high, (c.low * factor,), c.low * factor, c.low * factor)
        for c in published_cells()
    ]
    return Comparison(CompareRequest("all"), tuple(cells), len(cells))


# --- the table ------------------------------------------------------------------------------------


def test_the_number_of_published_cells() -> None:
    count = Counter((c.key.machine, "A-F" if len(c.key.test) == 1 else c.key.test) for c in published_cells())
    assert count == {
        ("e5345_8p", "A-F"): 168,
        ("ia64_8p_4n", "A-F"): 150,
        ("p4_3ghz_up", "kmalloc-kfree"): 48,
        ("p4_3ghz_up", "kmalloc-kfree-pairs"): 24,
        ("p4_2007", "irq-cmpxchg"): 3,
        ("amd64", "irq-cmpxchg"): 3,
        ("i7_4790k", "bulk"): 28,
    }
    keys = {c.key: (c.low, c.high) for c in published_cells()}
    assert len(keys) == 424
    assert keys[CellKey("e5345_8p", "slab", "C", "kmalloc+kfree", ALL_POINTS)] == (137, 146)
    assert keys[CellKey("p4_3ghz_up", "slub-seq", "kmalloc-kfree", "kfree", 8)] == (178, 178)
    assert keys[CellKey("i7_4790k", "slub-bulk-fallback", "bulk", "alloc+free", 250)] == (102, 102)


def test_boots_share_tests_and_the_longest_comes_first() -> None:
    machine = load_machine("e5345_8p")
    cells = [c for c in published_cells() if c.key.machine == machine.name and c.key.kernel == "slub"]
    boots = boots_for(cells, machine, seed=3, ops=100)
    assert [boot.tests for boot in boots] == [("D",), ("F",), ("E",), ("A", "B"), ("C",)]
    assert [boot.work for boot in boots] == sorted((boot.work for boot in boots), reverse=True)
    assert all(boot.points == (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096) for boot in boots)
    assert {(boot.seed, boot.ops) for boot in boots} == {(3, 100)}
    assert boots[3].measured_cells == 20


def test_a_boot_runs_only_the_points_that_are_asked_for() -> None:
    machine = load_machine("i7_4790k")
    cells = [c for c in published_cells() if c.key.test == "bulk" and c.key.point in (1, 30)]
    boots = boots_for(cells, machine, 1, 100)
    assert [(boot.kernel, boot.points) for boot in boots] == [
        ("slub-bulk-fallback", (1, 30)),
        ("slub-bulk", (1, 30)),
    ]
    spec = boots[0].session_spec(machine.name)
    assert (spec.sizes, spec.objects) == ((), (1, 30))


def test_what_does_not_exist_is_left_out_with_a_note() -> None:
    known = published_cells()[0]
    strange = [
        PublishedCell(replace(known.key, kernel="slob"), 1, 1),
        PublishedCell(replace(known.key, test="Z"), 1, 1),
        PublishedCell(replace(known.key, machine="pdp11"), 1, 1),
        PublishedCell(replace(known.key, machine="pdp11", kernel="slob"), 1, 1),
    ]
    runnable, skipped = split_runnable([known, *strange], {"e5345_8p": None})
    assert runnable == [known]
    assert [(note.reason, note.cells) for note in skipped] == [
        ("there is no kernel slob", 1),
        ("there is no test Z", 1),
        ("there is no machine pdp11", 2),
    ]


def result(size: int, cycles: float, test: str = "C", kernel: str = "slub") -> CellResult:
    return CellResult("e5345_8p", kernel, test, "kmalloc+kfree", size, 8, 10, cycles, cycles, cycles)


def test_a_cell_for_all_sizes_is_the_median_of_those_from_slab_caches() -> None:
    machine = load_machine("e5345_8p")
    published = [PublishedCell(CellKey("e5345_8p", "slub", "C", "kmalloc+kfree", ALL_POINTS), 100, 110)]
    results = [result(8, 90), result(64, 120), result(2048, 104), result(4096, 900)]
    values = simulated_values(published, results, machine)
    assert values == {published[0].key: (90, 120, 104)}  # SLUB has no cache for 4096 bytes
    slab = [PublishedCell(replace(published[0].key, kernel="slab"), 100, 110)]
    found = simulated_values(slab, [replace(r, kernel="slab") for r in results], machine)
    assert found == {slab[0].key: (90, 120, 104, 900)}  # SLAB has


# --- errors ---------------------------------------------------------------------------------------


def test_the_error_of_a_range_is_the_distance_to_its_nearest_end() -> None:
    inside, below, above = (
        cell(cycles=(cycles,), published=(100, 110)).error_percent for cycles in (105, 90, 121)
    )
    assert (inside, below) == (0, pytest.approx(-10))
    assert above == pytest.approx(10)


def test_mean_and_spread_over_seeds() -> None:
    found = cell(cycles=(90.0, 100.0, 140.0))
    assert found.mean == 110
    assert found.sd == pytest.approx(700**0.5)
    assert found.error_percent == pytest.approx(10)
    assert cell(cycles=(90.0,)).sd == 0


def test_statistics() -> None:
    found = statistics_of([cell(cycles=(c,)) for c in (50.0, 100.0, 105.0, 110.0, 200.0)])
    assert found is not None
    assert (found.cells, found.median, found.worst) == (5, pytest.approx(10), pytest.approx(100))
    assert found.p90 == pytest.approx(80)  # four tenths of the way from 50 to 100
    assert found.bias == pytest.approx(100 * ((0.5 * 1 * 1.05 * 1.1 * 2) ** 0.2 - 1))
    assert statistics_of([]) is None


def test_the_summary_has_every_group_once() -> None:
    lines = summarise(comparison(cell("slub", "A"), cell("slab", "A"), cell("slub", "B")))
    assert [(line.test, line.kernel, line.statistics.cells) for line in lines] == [
        ("A", "slub", 1),
        ("A", "slab", 1),
        ("A", "", 2),
        ("B", "slub", 1),
        ("B", "", 1),
        ("", "slub", 2),
        ("", "slab", 1),
        ("", "", 3),
    ]


# --- verdicts and goals ------------------------------------------------------------------------------


def test_verdicts_beside_the_authors() -> None:
    cells = (
        cell("slab", "A", 8, (90.0,)),
        cell("slub+", "A", 8, (45.0,)),
        cell("slab", "B", 64, (100.0,)),
        cell("slub+", "B", 64, (90.0,)),
        cell("slab", "B", 8, (100.0,)),
        cell("slub+", "B", 8, (100.0,)),
        cell("slab", "B", 16, (100.0,)),
    )
    keyed = [
        replace(c, key=replace(c.key, operation="kfree" if c.key.test == "B" else "kmalloc")) for c in cells
    ]
    rows = verdict_rows(comparison(*keyed))
    assert [
        (row.test, row.point, row.author, row.from_published, row.simulated, row.agrees) for row in rows
    ] == [
        ("A", 8, "2 *", "2 *", "2 *", True),
        ("B", 8, "=", "=", "=", True),
        ("B", 64, "-", "--", "+", False),
    ]
    agreement = winner_agreement(rows)
    assert (agreement.rows, agreement.right, agreement.all_rows, agreement.all_right) == (2, 1, 3, 2)
    assert agreement.percent == 50


def test_goals_of_a_perfect_model() -> None:
    goals = goal_results(everything(1.0))
    assert [(goal.cells, goal.wanted, goal.reached) for goal in goals] == [
        (168, 168, True),
        (150, 150, True),
        (72, 72, True),
        (28, 28, True),
        (6, 6, True),
        (92, 92, True),
    ]
    assert goals[5].found == "98.8 % (84 of 85)"


def test_goals_of_a_model_that_is_off() -> None:
    assert [goal.reached for goal in goal_results(everything(1.3))][:5] == [False] * 5
    # Everything off by the same factor changes no winner.
    assert goal_results(everything(1.3))[5].reached is True


def test_a_goal_of_which_a_part_was_run_is_open() -> None:
    (goal,) = goal_results(comparison(cell()))
    assert (goal.cells, goal.wanted, goal.reached) == (1, 168, None)


# --- redos of unfreeze_partials ---------------------------------------------------------------------


def test_redos_are_paired_by_seed() -> None:
    boots = redo_boots(100)
    assert len(boots) == 60
    empty = CellResult("i7_4790k", "slub-cpu-partial", "hackbench", "message", 256, 8, 10, 1, 1, 1)
    counts = {(0, 1): 50, (1, 1): 40, (0, 2): 10, (1, 2): 20, (0, 3): 99}
    results = [
        (boot, replace(empty, counters={"CMPXCHG_DOUBLE_FAIL": counts[boot.options[0][1], boot.seed]}))
        for boot in boots
        if (boot.options[0][1], boot.seed) in counts
    ]
    found = redo_comparison(results)
    assert found is not None
    assert (found.before, found.after, found.fewer) == ((50, 10), (40, 20), 1)
    assert found.difference == (0, pytest.approx(10))
    assert found.change_percent == 0
    assert (found.published_before, found.published_after) == (182685, 177995)
    assert redo_comparison(results[:1]) is None


def test_the_goal_of_the_redos() -> None:
    thirty = RedoComparison((10,) * 30, (9,) * 29 + (12,), 100, 90)
    (goal,) = goal_results(replace(comparison(), redos=thirty))
    assert (goal.cells, goal.reached) == (30, True)
    (goal,) = goal_results(replace(comparison(), redos=replace(thirty, after=(11,) * 30)))
    assert goal.reached is False


# --- files ------------------------------------------------------------------------------------------


def test_csv_round_trip() -> None:
    cells = (
        cell("slab", "A", 8, (95.0, 97.0), (96, 96)),
        cell("slub+", "A", 8, (50.0, 52.0), (45, 45)),
        cell("slub", "C", ALL_POINTS, (140.5, 141.5), (137, 146)),
    )
    data = compare_csv(comparison(*cells, seeds=(1, 2)))
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert tuple(rows[0]) == COMPARE_COLUMNS
    assert rows[0]["simulated_sd"] == f"{2**0.5:.3f}"
    assert (rows[0]["simulated_min"], rows[0]["simulated_max"], rows[0]["seeds"]) == (
        "95.000",
        "97.000",
        "1 2",
    )
    assert (rows[0]["author_verdict"], rows[0]["our_verdict"]) == ("2 *", "++++")
    assert (rows[2]["point"], rows[2]["author_verdict"]) == ("", "")
    back = read_compare_csv(data)
    assert [(c.kernel, c.test, c.point, c.simulated_mean, c.error_percent) for c in back] == [
        ("slab", "A", 8, 96, 0),
        ("slub+", "A", 8, 51, 13.333),
        ("slub", "C", ALL_POINTS, 141, 0),
    ]
    assert [(c.published_low, c.published_high) for c in back] == [(96, 96), (45, 45), (137, 146)]


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a,b\n1,2\n", compare_csv(comparison(cell()))[:-40] + b"x\n"])
def test_another_table_is_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="slubviz compare"):
        read_compare_csv(data)


def test_json_holds_every_part_and_not_the_number_of_processes() -> None:
    one = comparison(cell("slab", "A", 8), cell("slub+", "A", 8))
    data = compare_json(one, "1.0")
    document = json.loads(data)
    assert set(document) >= {"cells", "errors", "verdicts", "winner_agreement", "goals", "skipped"}
    assert document["cells"][0]["error_percent"] == 10.0
    assert compare_json(replace(one, request=replace(one.request, jobs=7)), "1.0") == data


# --- requests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (CompareRequest("e5345"), "unknown machine 'e5345'"),
        (CompareRequest("e5345_8p", kernels=("slop",)), "did you mean slub"),
        (CompareRequest("e5345_8p", kernels=("slub-seq",)), "nothing can be compared"),
        (CompareRequest("e5345_8p", tests=("Z",)), "unknown test with published values: 'Z'"),
        (CompareRequest("e5345_8p", seeds=(1, 1)), "every seed once"),
        (CompareRequest("e5345_8p", seeds=()), "at least one"),
    ],
)
def test_requests_that_are_refused(request_: CompareRequest, text: str) -> None:
    with pytest.raises(RequestError, match=text):
        plan_comparison(request_)


def test_the_plan_of_everything() -> None:
    plan = plan_comparison(CompareRequest())
    assert len(plan.cells) == 424
    assert plan.skipped == ()
    assert sum(bool(boot.options) for _, boot in plan.boots) == 60
    own = [(name, boot) for name, boot in plan.boots if not boot.options]
    assert len(own) == 20 + 15 + 4 + 2 + 2
    assert own[0][1].tests == ("D",)


# --- running ----------------------------------------------------------------------------------------

SMALL = CompareRequest("e5345_8p", kernels=("slub", "slub+"), tests=("A", "C"), ops=40, jobs=1)


def test_processes_and_seeds_change_no_cell() -> None:
    one = run_comparison(plan_comparison(SMALL))
    two = run_comparison(plan_comparison(replace(SMALL, jobs=2)))
    assert two.cells == one.cells
    assert len(one.cells) == one.wanted == 2 * (10 + 1)
    both = run_comparison(plan_comparison(replace(SMALL, seeds=(1, 2))))
    assert [c.samples[0] for c in both.cells] == [c.samples[0] for c in one.cells]
    # The same as what `slubviz run` measures, on another way through the program.
    cells = run_cells(RunRequest("e5345_8p", ("slub",), ("A",), None, 40, 1))
    expected = [c.cycles_per_op for c in cells]
    assert [c.mean for c in one.cells if c.key.kernel == "slub" and c.key.test == "A"] == expected


def test_results_arrive_one_by_one_and_a_caller_can_end_the_run() -> None:
    seen: list[int] = []
    partial: list[Comparison] = []

    def watch(progress: Progress, running: RunningComparison) -> bool:
        seen.append(progress.done_cells)
        if progress.done_cells >= 10:
            partial.append(running.comparison())
            return False
        return True

    plan = plan_comparison(replace(SMALL, ops=20))
    with ProcessPool(1) as pool:
        ended = run_comparison(plan, watch, pool)
        assert pool.process_ids() == []
    assert seen == sorted(seen)
    assert 0 < len(ended.cells) < len(plan.cells)
    assert ended == partial[0]


def test_an_error_in_a_worker_reaches_the_caller_and_ends_all() -> None:
    wrong = SessionSpec("e5345_8p", "slub", "A", (64,), 10, 1, options={"NO_SUCH_OPTION": 1})
    good = Boot("slub", ("E",), (64,), ops=100_000).session_spec("e5345_8p")
    with ProcessPool(2) as pool:
        with pytest.raises(UserError, match="NO_SUCH_OPTION"):
            list(pool.run([Task(0, good), Task(1, wrong)]))
        assert pool.process_ids() == []


def test_a_defect_in_a_worker_shows_its_traceback() -> None:
    broken = SessionSpec("e5345_8p", "slub", "A", (64,), "ten", 1)  # type: ignore[arg-type]
    with ProcessPool(1) as pool, pytest.raises(RuntimeError, match="TypeError"):
        list(pool.run([Task(0, broken)]))


def test_a_worker_that_is_killed_is_told_and_the_others_end() -> None:
    long = Boot("slub", ("E",), (64,), ops=1_000_000).session_spec("e5345_8p")
    with ProcessPool(2) as pool:
        events = pool.run([Task(0, long), Task(1, long)], pause_seconds=0.01)
        while len(pool.process_ids()) < 2:
            next(events)
        first, second = pool.process_ids()
        os.kill(first, signal.SIGKILL)
        with pytest.raises(UserError, match="by signal 9"):
            list(events)
        with pytest.raises(ProcessLookupError):  # reaped, not a zombie
            os.kill(second, 0)


def test_workers_are_kept_between_runs() -> None:
    task = Task(5, Boot("slub", ("C",), (64,), ops=10).session_spec("e5345_8p"))
    with ProcessPool(1) as pool:
        first = [event for event in pool.run([task]) if event]
        ids = pool.process_ids()
        second = [event for event in pool.run([task]) if event]
        assert pool.process_ids() == ids
    assert first == second
    assert first[-1].finished
    assert sum(len(event.cells) for event in first) == 1
