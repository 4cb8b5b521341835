"""A damped least-squares fit (Levenberg-Marquardt) of positive parameters within bounds.

Interface: ``Problem``, ``FitSettings``, ``fit`` -> ``Solution``.  Everything is in logarithms: parameters,
because they are costs that are known to a factor, and residuals, log(simulated / published), because a cell
of 50 cycles and one of 50,000 count alike.  The derivatives are finite differences with a large step, since
the simulation is not smooth: a little more cost changes which CPU gets a lock first.  Between two full sets
of differences the derivatives are corrected from what each step showed (Broyden's rank-one update), so most
steps cost one evaluation instead of one per parameter.  Knows nothing of machines or cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
#: Parameters (logs), several sets at once, shape (sets, parameters) -> residuals, shape (sets, cells).
Evaluate = Callable[[Vector], Vector]

_SMALLEST_DAMPING, _LARGEST_DAMPING = 1e-4, 1e4
#: Below this (in logs) a parameter stands at its bound.
_AT_BOUND = 1e-9
#: So many steps in a row that gain little or nothing end the fit, or call for new derivatives.
_POOR_STEPS = 3


@dataclass(frozen=True)
class Problem:
    """What to fit.

    Parameters
    ----------
    start, low, high
        Logarithms of the parameters and their bounds, shape (parameters,).
    weights
        Weight of each squared residual, shape (cells,).
    evaluate
        Residuals of several sets of parameters at once.
    """

    start: Vector
    low: Vector
    high: Vector
    weights: Vector
    evaluate: Evaluate


@dataclass(frozen=True)
class FitSettings:
    """How to fit."""

    evaluations: int = 60  #: sets of parameters to try at most, those of the derivatives included
    step: float = 0.08  #: of a finite difference, in logs
    loss_scale: float = 0.15  #: residuals far above count linearly (soft L1); 0: plain squares
    longest_step: float = 0.5  #: of one parameter in one step, in logs
    smallest_gain: float = 1e-3  #: a share of the loss; a step that gains less is poor


@dataclass(frozen=True)
class Solution:
    """Where the fit ended."""

    parameters: Vector  #: logs
    residuals: Vector
    jacobian: Vector  #: shape (cells, parameters), of the residuals
    loss: float
    start_residuals: Vector
    start_loss: float
    evaluations: int
    reason: str  #: why it ended


def loss_of(residuals: Vector, weights: Vector, scale: float) -> float:
    """Weighted sum of soft-L1 losses: squares near zero, linear far above ``scale``."""
    squares = residuals**2
    if scale > 0:
        squares = 2 * scale**2 * (np.sqrt(1 + squares / scale**2) - 1)
    return float(weights @ squares)


def robust_weights(residuals: Vector, weights: Vector, scale: float) -> Vector:
    """Weights of the squares whose sum has the gradient of ``loss_of`` at these residuals."""
    return weights / np.sqrt(1 + (residuals / scale) ** 2) if scale > 0 else weights


@dataclass
class _State:
    """The best point so far and what is known around it."""

    x: Vector
    residuals: Vector
    loss: float
    jacobian: Vector
    fresh: bool = True  #: the derivatives were measured here
    damping: float = 1e-2
    evaluations: int = 0
    poor_steps: int = 0
    notes: list[str] = field(default_factory=list)


class _Budget(Exception):
    """The evaluations that were allowed are used up."""


class _Fit:
    def __init__(self, problem: Problem, settings: FitSettings, tell: Callable[[str], None]) -> None:
        self.problem = problem
        self.settings = settings
        self.tell = tell
        self.used = 0

    def evaluate(self, points: Vector) -> Vector:
        if self.used + len(points) > self.settings.evaluations:
            raise _Budget
        self.used += len(points)
        return self.problem.evaluate(points)

    def loss(self, residuals: Vector) -> float:
        return loss_of(residuals, self.problem.weights, self.settings.loss_scale)

    def differences(self, x: Vector, with_point: bool) -> Vector:
        """Residuals around ``x``, one row per parameter, the point itself first if asked for."""
        points = np.array(([x] if with_point else []) + [x + row for row in np.diag(self.steps(x))])
        return self.evaluate(points)

    def steps(self, x: Vector) -> Vector:
        """One step per parameter, towards the farther bound where the step would leave the range."""
        step = self.settings.step
        return np.where(x + step <= self.problem.high, step, -step)

    def first_state(self, start: tuple[Vector, Vector] | None) -> _State:
        x = np.clip(self.problem.start, self.problem.low, self.problem.high)
        if start is not None:
            residuals, jacobian = start
        else:
            rows = self.differences(x, with_point=True)
            residuals = rows[0]
            jacobian = ((rows[1:] - residuals) / self.steps(x)[:, None]).T
        return _State(x, residuals, self.loss(residuals), jacobian)

    def refresh(self, state: _State) -> None:
        rows = self.differences(state.x, with_point=False)
        state.jacobian = ((rows - state.residuals) / self.steps(state.x)[:, None]).T
        state.fresh = True

    def wanted_step(self, state: _State) -> Vector:
        """The damped Gauss-Newton step, cut to the bounds; parameters that push against a bound stay."""
        problem, settings = self.problem, self.settings
        weights = robust_weights(state.residuals, problem.weights, settings.loss_scale)
        weighted = state.jacobian * weights[:, None]
        normal = state.jacobian.T @ weighted
        gradient = weighted.T @ state.residuals
        free = ~(
            ((state.x <= problem.low + _AT_BOUND) & (gradient > 0))
            | ((state.x >= problem.high - _AT_BOUND) & (gradient < 0))
        )
        step = np.zeros_like(state.x)
        if not free.any():
            return step
        diagonal = np.diag(normal)[free]
        # A parameter that nothing depends on must stay where it is instead of flying off.
        floor = 1e-6 * max(float(diagonal.max()), 1e-300)
        damped = normal[np.ix_(free, free)] + np.diag(state.damping * np.maximum(diagonal, floor) + floor)
        step[free] = -np.linalg.solve(damped, gradient[free])
        longest = float(np.abs(step).max())
        if longest > settings.longest_step:
            step *= settings.longest_step / longest
        return np.clip(state.x + step, problem.low, problem.high) - state.x

    def advance(self, state: _State) -> str:
        """One step; returns why the fit ends, or nothing."""
        step = self.wanted_step(state)
        if float(np.abs(step).max(initial=0.0)) < 1e-4:
            return self.stuck(state, "no parameter wants to move")
        residuals = self.evaluate((state.x + step)[None, :])[0]
        loss = self.loss(residuals)
        gain = state.loss - loss
        # Broyden: the smallest change of the derivatives that explains what this step did.
        error = residuals - state.residuals - state.jacobian @ step
        state.jacobian = state.jacobian + np.outer(error, step) / float(step @ step)
        state.fresh = False
        if gain <= 0:
            state.damping = min(state.damping * 8, _LARGEST_DAMPING)
            state.poor_steps += 1
        else:
            if gain < self.settings.smallest_gain * state.loss:
                state.poor_steps += 1
            else:
                state.poor_steps = 0
            state.x, state.residuals, state.loss = state.x + step, residuals, loss
            state.damping = max(state.damping / 3, _SMALLEST_DAMPING)
        self.tell(f"evaluation {self.used}: loss {state.loss:.5f}{'' if gain > 0 else ' (step refused)'}")
        return self.stuck(state, "the last steps gained nothing") if state.poor_steps >= _POOR_STEPS else ""

    def stuck(self, state: _State, reason: str) -> str:
        """Measure the derivatives anew before giving up, unless they were measured here."""
        if state.fresh or state.notes[-1:] == [f"{state.loss:.12g}"]:
            return reason
        state.notes.append(f"{state.loss:.12g}")
        self.refresh(state)
        state.poor_steps = 0
        state.damping = min(max(state.damping, 1e-2), 1.0)
        return ""


def fit(
    problem: Problem,
    settings: FitSettings = FitSettings(),
    tell: Callable[[str], None] = lambda _: None,
    start: tuple[Vector, Vector] | None = None,
) -> Solution:
    """Minimise the weighted robust loss.

    Parameters
    ----------
    problem, settings
        What and how.
    tell
        Hears one line per step.
    start
        Residuals and derivatives at the start, where they are known already; else they are measured.

    Returns
    -------
    Solution
        The best point found, also when the evaluations ran out.

    Raises
    ------
    ValueError
        If the evaluations do not even allow for the first derivatives.
    """
    work = _Fit(problem, settings, tell)
    try:
        state = work.first_state(start)
    except _Budget:
        needed = len(problem.start) + 1
        raise ValueError(f"{settings.evaluations} evaluations are too few; {needed} are needed") from None
    first_residuals, first_loss = state.residuals, state.loss
    reason = ""
    try:
        while not reason:
            reason = work.advance(state)
    except _Budget:
        reason = "the evaluations are used up"
    return Solution(
        state.x, state.residuals, state.jacobian, state.loss, first_residuals, first_loss, work.used, reason
    )


@dataclass(frozen=True)
class Determination:
    """How well the cells determine each parameter."""

    standard_errors: Vector  #: in logs; infinite where nothing depends on a parameter
    correlations: Vector  #: shape (parameters, parameters)


def determination(
    jacobian: Vector, residuals: Vector, weights: Vector, bounds: Sequence[float]
) -> Determination:
    """Standard errors and correlations from the derivatives at the solution.

    Parameters
    ----------
    jacobian, residuals, weights
        As in ``Solution`` and ``Problem``; pass robust weights to count far-off cells less.
    bounds
        Width of each parameter's range in logs: a standard error is not told beyond ten times that.

    Returns
    -------
    Determination
        The covariance is s² (JᵀWJ)⁻¹ with s² the weighted mean square of what is left.
    """
    cells, parameters = jacobian.shape
    scaled = weights / weights.mean()
    normal = jacobian.T @ (jacobian * scaled[:, None])
    variance = float(scaled @ residuals**2) / max(cells - parameters, 1)
    widths = np.asarray(bounds, dtype=np.float64)
    # A very weak prior keeps the inverse finite: each parameter is at least known to ten ranges.
    prior = max(variance, 1e-12) / (10 * np.maximum(widths, 1e-3)) ** 2
    covariance = variance * np.linalg.inv(normal + np.diag(prior))
    errors = np.sqrt(np.diag(covariance))
    safe = np.where(errors > 0, errors, 1.0)
    return Determination(errors, covariance / np.outer(safe, safe))
