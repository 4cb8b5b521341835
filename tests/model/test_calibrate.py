"""Fits of the simulator to numbers that it made itself; the text of machine files; hold-outs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from slubviz.hw.machine_file import MachineSpec, parse_machine
from slubviz.model.calibrate import (
    MOST_PARAMETERS,
    Calibration,
    FitRequest,
    Workload,
    bounds_of,
    calibrated_names,
    calibration_cells,
    check_request,
    column_weights,
    evaluate,
    evaluate_many,
    fit_machine,
    log_error,
)
from slubviz.model.calibrate_file import shown_value, with_values
from slubviz.model.calibrate_fit import FitSettings
from slubviz.model.calibrate_report import (
    SPLITS,
    calibration_json,
    correlated_pairs,
    error_lines,
    hold_outs,
    parameter_lines,
)
from slubviz.model.compare_pool import ProcessPool
from slubviz.model.compare_table import ALL_POINTS, CellKey, PublishedCell
from slubviz.model.errors import RequestError, UserError
from slubviz.model.machines import load_machine, machine_files

TRUE = {"instruction": 0.9, "irq_save": 30.0, "irq_restore": 31.0, "locked_operation": 50.0}
NAMES = ("instruction", "irq_save", "locked_operation")
SMALL = Workload(ops=60)
KEY = CellKey("e5345_8p", "slub", "A", "kmalloc", 64)


@pytest.fixture(scope="module")
def machine() -> MachineSpec:
    return load_machine("e5345_8p")


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    with ProcessPool(2) as workers:
        yield workers


def simulated_as_published(
    machine: MachineSpec, cells: Sequence[PublishedCell], pool: ProcessPool
) -> list[PublishedCell]:
    cycles = evaluate(machine, cells, pool, SMALL)
    return [PublishedCell(cell.key, cycles[cell.key], cycles[cell.key]) for cell in cells]


@pytest.fixture(scope="module")
def recovered(machine: MachineSpec, pool: ProcessPool) -> Calibration:
    """A fit from the file's values to what the machine gives with other values."""
    cells = [
        cell
        for cell in calibration_cells(machine, tests=["A", "B", "C"], kernels=["slub", "slub+"])
        if cell.key.point in (8, 64, 512, ALL_POINTS)
    ]
    known = {name: TRUE[name] for name in NAMES}
    made = simulated_as_published(machine.with_costs(known), cells, pool)
    request = FitRequest(NAMES, FitSettings(evaluations=40, smallest_gain=1e-6), SMALL)
    return fit_machine(machine, made, pool, request)


def test_known_costs_are_recovered(recovered: Calibration) -> None:
    assert recovered.solution.start_loss > 1e-3
    for name in NAMES:
        assert recovered.fitted[name] == pytest.approx(TRUE[name], rel=0.03), name
    assert max(abs(recovered.solution.residuals)) < 0.005
    assert recovered.start["instruction"] == recovered.machine.costs["instruction"].value
    assert recovered.fitted_machine.costs["instruction"].value == recovered.fitted["instruction"]


def test_what_a_fit_says(recovered: Calibration) -> None:
    lines = {line.name: line for line in parameter_lines(recovered)}
    assert tuple(lines) == NAMES
    assert all(line.note == "" and line.error_percent < 20 for line in lines.values())
    assert (lines["instruction"].low, lines["instruction"].high) == (0.33, 1.2)
    assert correlated_pairs(recovered) == []
    summary = error_lines(recovered.cells, recovered.before, recovered.after)
    assert [(line.test, line.kernel) for line in summary][-3:] == [("", "slub"), ("", "slub+"), ("", "")]
    assert summary[-1].cells == len(recovered.cells) == 14
    assert summary[-1].median_before > 2 > 0.5 > summary[-1].median_after
    document = json.loads(calibration_json(recovered, [], "1.0"))
    assert [entry["name"] for entry in document["parameters"]] == list(NAMES)


def test_the_same_fit_again(recovered: Calibration, pool: ProcessPool) -> None:
    request = FitRequest(NAMES, FitSettings(evaluations=6), SMALL)
    with ProcessPool(1) as one:
        fits = [
            fit_machine(recovered.machine, recovered.cells, workers, request).fitted
            for workers in (pool, one)
        ]
    assert fits[0] == fits[1]


def test_costs_that_act_together_or_not_at_all_are_told(machine: MachineSpec, pool: ProcessPool) -> None:
    cells = calibration_cells(machine, tests=["C"], kernels=["slub"])
    names = ("irq_save", "irq_restore", "transfer_other_package")
    fit = fit_machine(machine, cells, pool, FitRequest(names, FitSettings(evaluations=6), SMALL))
    first, second, third = (line.note for line in parameter_lines(fit))
    assert first.startswith("undetermined")
    assert second.startswith("undetermined")
    assert third == "without effect on these cells"
    assert [pair[:2] for pair in correlated_pairs(fit)] == [("irq_save", "irq_restore")]


def test_many_machines_at_once_give_what_each_gives(machine: MachineSpec, pool: ProcessPool) -> None:
    cells = calibration_cells(machine, tests=["C"], kernels=["slub", "slub+"])
    dear = machine.with_costs({"instruction": 1.1})
    both = evaluate_many([machine, dear], cells, pool, SMALL)
    assert both == [evaluate(machine, cells, pool, SMALL), evaluate(dear, cells, pool, SMALL)]
    assert all(both[1][cell.key] > both[0][cell.key] for cell in cells)


def test_seeds_are_averaged(machine: MachineSpec, pool: ProcessPool) -> None:
    cells = calibration_cells(machine, tests=["A"], kernels=["slub"])
    one, two, mean = (
        evaluate(machine, cells, pool, replace(SMALL, seeds=seeds)) for seeds in ((1,), (2,), (1, 2))
    )
    assert all(mean[key] == pytest.approx((one[key] + two[key]) / 2) for key in mean)


def test_a_quick_workload_changes_only_c_and_e(machine: MachineSpec, pool: ProcessPool) -> None:
    cells = calibration_cells(machine, tests=["A", "C"], kernels=["slub"])
    full = evaluate(machine, cells, pool, Workload(ops=200))
    quick = evaluate(machine, cells, pool, Workload(ops=200, quick=True))
    assert {key.test for key in full if full[key] != quick[key]} == {"C"}


# --- cells, weights, errors ---------------------------------------------------------------------------


def test_the_cells_to_fit(machine: MachineSpec) -> None:
    assert len(calibration_cells(machine)) == 168
    assert len(calibration_cells(machine, tests=["A", "C"], kernels=["slab"])) == 11
    assert len(calibration_cells(load_machine("i7_4790k"))) == 28


def test_columns_count_alike_or_cells_do(machine: MachineSpec) -> None:
    cells = calibration_cells(machine, tests=["A", "C"], kernels=["slab", "slub"])
    by_column = column_weights(cells)
    assert by_column.sum() == pytest.approx(1)
    for test in ("A", "C"):
        for kernel in ("slab", "slub"):
            own = [
                w
                for w, c in zip(by_column, cells, strict=True)
                if (c.key.test, c.key.kernel) == (test, kernel)
            ]
            assert sum(own) == pytest.approx(0.25)
    assert column_weights(cells, by_column=False) == pytest.approx(np.full(22, 1 / 22))


@pytest.mark.parametrize(
    ("cycles", "expected"), [(105, 0), (100, 0), (110, 0), (50, math.log(0.5)), (220, math.log(2))]
)
def test_the_error_in_logarithms(cycles: float, expected: float) -> None:
    assert log_error(cycles, PublishedCell(KEY, 100, 110)) == pytest.approx(expected)


def test_bounds_are_the_plausible_ranges(machine: MachineSpec) -> None:
    low, high = bounds_of(machine, ("instruction", "barrier_write"))
    assert np.exp(low[0]) == pytest.approx(0.33)
    assert np.exp(high) == pytest.approx([1.2, 10])
    assert np.exp(low[1]) == pytest.approx(0.01)  # the range begins at 0, its logarithm cannot


def test_requests_that_are_refused(machine: MachineSpec) -> None:
    cells = calibration_cells(machine, tests=["C"])
    twenty_one = tuple(machine.costs)[: MOST_PARAMETERS + 1]
    for request, used, text in (
        (FitRequest(("instructoin",)), cells, "did you mean instruction"),
        (FitRequest(()), cells, "marks no cost"),
        (FitRequest(twenty_one), cells, "at most 20"),
        (FitRequest(("load",)), [], "nothing published"),
        (FitRequest(("load",), FitSettings(evaluations=2)), cells, "give at least 3"),
    ):
        with pytest.raises(RequestError, match=text):
            check_request(machine, used, request)
    assert check_request(machine, cells, FitRequest()) == calibrated_names(machine)


# --- hold-outs ----------------------------------------------------------------------------------------


def test_the_splits(machine: MachineSpec) -> None:
    cells = calibration_cells(machine)
    without_ef, without_slab = ([c for c in cells if split.holds_out(c)] for split in SPLITS)
    assert {c.key.test for c in without_ef} == {"E", "F"}
    assert len(without_ef) == 4 * (1 + 10)
    assert {c.key.kernel for c in without_slab} == {"slab"}
    assert len(without_slab) == 42


def test_a_hold_out_predicts_what_it_did_not_see(machine: MachineSpec, pool: ProcessPool) -> None:
    cells = calibration_cells(machine, tests=["C", "E"], kernels=["slub", "slub+"])
    made = simulated_as_published(machine.with_costs({"instruction": 0.9}), cells, pool)
    request = FitRequest(("instruction",), FitSettings(evaluations=20, smallest_gain=1e-6), SMALL)
    (found,) = hold_outs(machine, made, pool, request)
    assert (found.title, found.fitted_cells, found.held_cells) == ("without tests E and F", 2, 2)
    assert found.parameters["instruction"] == pytest.approx(0.9, rel=0.02)
    assert found.held_median < 1 < found.by_group[-1].median_before
    # What was held out has no part in the fit: other values for it leave the parameters as they are.
    wrong = [PublishedCell(c.key, 9 * c.low, 9 * c.high) if c.key.test == "E" else c for c in made]
    (again,) = hold_outs(machine, wrong, pool, request)
    assert again.parameters == found.parameters
    assert again.held_median > 80


def test_a_hold_out_without_both_sides_is_refused(machine: MachineSpec, pool: ProcessPool) -> None:
    cells = calibration_cells(machine, tests=["A"], kernels=["slub"])
    with pytest.raises(RequestError, match="--hold-out needs"):
        hold_outs(machine, cells, pool, FitRequest())


# --- machine files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(machine_files()))
def test_only_the_values_change_in_the_text(name: str) -> None:
    text = machine_files()[name].read_text(encoding="utf-8")
    before = parse_machine(text, name)
    values = {cost: (spec.plausible_low + spec.plausible_high) / 2 for cost, spec in before.costs.items()}
    wanted = {cost: values[cost] for cost in list(values)[::3]}
    after_text = with_values(text, wanted, name)
    after = parse_machine(after_text, name)
    for cost, spec in before.costs.items():
        if cost in wanted:
            assert after.costs[cost].value == pytest.approx(wanted[cost], rel=1e-3)
            assert replace(after.costs[cost], value=0) == replace(spec, value=0)
        else:
            assert after.costs[cost] == spec
    lines = list(zip(text.splitlines(), after_text.splitlines(), strict=True))
    changed = [(old, new) for old, new in lines if old != new]
    assert all(old.startswith("value =") and new.startswith("value =") for old, new in changed)
    assert 0 < len(changed) <= len(wanted)
    assert with_values(text, {}, name) == text


def test_comments_behind_a_value_and_other_line_ends_stay() -> None:
    text = machine_files()["e5345_8p"].read_text(encoding="utf-8")
    odd = re.sub(r"\[cost\.load\]\nvalue = \S+\n", "[ cost . load ] # ours\r\n  value=1.0   # why\r\n", text)
    assert odd != text
    assert "  value=1.5   # why\r\n" in with_values(odd, {"load": 1.5}, "x")


def test_a_value_that_cannot_be_replaced_is_told() -> None:
    text = machine_files()["e5345_8p"].read_text(encoding="utf-8")
    inline = re.sub(
        r'\[cost\.load\]\nvalue = \S+\nunit = "cycles"\n',
        "[cost.load]\nunit = 'cycles'\n'value' = 1.0\n",
        text,
    )
    assert inline != text
    with pytest.raises(UserError, match=r"my\.toml: cost\.load: its value cannot be replaced"):
        with_values(inline, {"load": 1.5}, "my.toml")
    with pytest.raises(UserError, match=r"my\.toml: not a TOML file"):
        with_values("[", {}, "my.toml")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (450.0, "450"),
        (1234.56, "1235"),
        (123456.0, "123500"),
        (9.99999, "10"),
        (0.00001, "0.00001"),
    ],
)
def test_how_a_value_is_written(value: float, text: str) -> None:
    assert shown_value(value, 0, 1e6) == text


def test_rounding_never_leaves_the_range() -> None:
    assert float(shown_value(1.23456, 0.1, 1.23456)) <= 1.23456
    assert float(shown_value(0.123449, 0.123449, 1)) >= 0.123449
