"""The least-squares fit on problems whose answer is known, without a simulator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slubviz.model.calibrate_fit import (
    FitSettings,
    Problem,
    Vector,
    determination,
    fit,
    loss_of,
    robust_weights,
)


def costs(matrix: Vector, true: Vector):  # type: ignore[no-untyped-def]
    """log of a sum of costs, as a cell is: matrix holds how often each cost is paid."""
    published = matrix @ np.exp(true)

    def evaluate(points: Vector) -> Vector:
        return np.log(np.exp(points) @ matrix.T / published)

    return evaluate


def problem(matrix: Vector, true: Vector, start: Vector) -> Problem:
    cells = len(matrix)
    return Problem(start, true - 2, true + 2, np.full(cells, 1 / cells), costs(matrix, true))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_costs_are_recovered_from_exact_cells(seed: int, parameters: int) -> None:
    random = np.random.default_rng(seed)
    matrix = random.uniform(0.1, 1, (4 * parameters, parameters)) + 3 * np.tile(np.eye(parameters), (4, 1))
    true = random.uniform(-1, 4, parameters)
    found = fit(
        problem(matrix, true, true + random.uniform(-1, 1, parameters)),
        FitSettings(evaluations=400, smallest_gain=1e-9),
    )
    assert np.abs(found.parameters - true).max() < 0.01
    assert found.loss < 1e-5 < found.start_loss or found.start_loss < 1e-5


def test_one_far_off_cell_does_not_pull_the_fit_away() -> None:
    matrix = np.ones((9, 1))
    true = np.array([2.0])
    exact = costs(matrix, true)

    def evaluate(points: Vector) -> Vector:
        residuals = exact(points)
        residuals[:, 0] += 3  # twenty times too slow
        return residuals

    flat = Problem(true + 0.5, true - 2, true + 2, np.full(9, 1 / 9), evaluate)
    robust = fit(flat, FitSettings(evaluations=100, loss_scale=0.1))
    square = fit(flat, FitSettings(evaluations=100, loss_scale=0))
    assert abs(robust.parameters[0] - 2) < 0.05
    assert square.parameters[0] == pytest.approx(2 - 3 / 9, abs=1e-3)


def test_bounds_hold_and_a_parameter_without_effect_stays() -> None:
    matrix = np.array([[1.0, 0.0], [2.0, 0.0]])
    true = np.array([3.0, 0.0])
    start = np.array([1.0, 0.7])
    tried: list[Vector] = []
    evaluate = costs(matrix, true)

    def watched(points: Vector) -> Vector:
        tried.append(points)
        return evaluate(points)

    high = np.array([2.5, 0.75])
    found = fit(Problem(start, np.array([0.5, 0.0]), high, np.ones(2), watched), FitSettings())
    assert found.parameters == pytest.approx([2.5, 0.7], abs=1e-6)
    points = np.concatenate(tried)
    assert (points <= high + 1e-12).all()
    assert found.parameters[0] <= 2.5


def test_the_evaluations_are_never_exceeded() -> None:
    matrix = np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 1.0]])
    used = 0
    evaluate = costs(matrix, np.array([1.0, 2.0]))

    def counted(points: Vector) -> Vector:
        nonlocal used
        used += len(points)
        return evaluate(points)

    start = np.array([0.0, 3.0])
    short = Problem(start, start - 3, start + 3, np.ones(3), counted)
    for allowed in (3, 4, 5, 9):
        used = 0
        found = fit(short, FitSettings(evaluations=allowed, smallest_gain=1e-12))
        assert used == found.evaluations <= allowed
    assert found.loss < found.start_loss
    with pytest.raises(ValueError, match="3 are needed"):
        fit(short, FitSettings(evaluations=2))


def test_the_result_is_the_best_point_that_was_tried() -> None:
    def noisy(points: Vector) -> Vector:  # steps of a coarse staircase: derivatives mislead
        return np.floor(points * 7) / 7 - 0.31 + 0.2 * np.sin(40 * points)

    tried: list[float] = []

    def watched(points: Vector) -> Vector:
        residuals = noisy(points)
        tried.extend(loss_of(row, np.ones(1), 0.15) for row in residuals)
        return residuals

    found = fit(Problem(np.array([1.7]), np.array([-2.0]), np.array([2.0]), np.ones(1), watched))
    assert found.loss == loss_of(found.residuals, np.ones(1), 0.15)
    assert found.loss <= found.start_loss
    assert found.loss in tried


def test_the_robust_loss() -> None:
    residuals = np.array([0.001, -10.0])
    assert loss_of(residuals[:1], np.ones(1), 0.1) == pytest.approx(1e-6, rel=1e-3)
    assert loss_of(residuals[1:], np.ones(1), 0.1) == pytest.approx(2 * 0.1 * 10, rel=0.02)
    assert loss_of(residuals, np.ones(2), 0) == pytest.approx(100 + 1e-6)
    # The weights make the sum of squares fall in the same direction: w r = half the loss's derivative.
    step = 1e-6
    slope = (loss_of(residuals + step, np.ones(2), 0.1) - loss_of(residuals - step, np.ones(2), 0.1)) / (
        2 * step
    )
    assert (robust_weights(residuals, np.ones(2), 0.1) * residuals).sum() == pytest.approx(
        slope / 2, rel=1e-4
    )


def test_standard_errors_are_those_of_a_straight_line() -> None:
    random = np.random.default_rng(7)
    x = np.linspace(0, 1, 40)
    jacobian = np.stack([np.ones(40), x], axis=1)
    residuals = random.normal(0, 0.1, 40)
    found = determination(jacobian, residuals, np.full(40, 0.3), [5.0, 5.0])
    variance = (residuals**2).sum() / 38
    expected = np.sqrt(variance / ((x - x.mean()) ** 2).sum())
    assert found.standard_errors[1] == pytest.approx(expected, rel=1e-3)
    assert found.correlations[0, 1] == pytest.approx(-x.mean() / np.sqrt((x**2).mean()), rel=1e-3)


def test_what_no_cell_depends_on_has_a_huge_error() -> None:
    jacobian = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    found = determination(jacobian, np.array([0.1, -0.1, 0.05]), np.ones(3), [1.0, 2.0])
    assert found.standard_errors[0] < 0.2
    assert found.standard_errors[1] == pytest.approx(20)
    assert found.correlations[0, 1] == pytest.approx(0)
