"""JCFO's sum as a function of weights and scales (Krishnapuram et al. 2004).

    F(w, b, theta) = sum_i c_i loss(y_i, eta_i) + alpha |w|_1 + rate sum_k theta_k,    theta >= 0
    eta = K_theta(X, C) w + b                                            (a penalised intercept is a row of w)

`scales` finds where it is low.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.bases import Kernel
from smaller.designs import Dense
from smaller.likelihoods import Likelihood
from smaller.priors import Laplace
from smaller.problem import Certificate, Problem, Solution
from smaller.searches.adaptive import ridge_start
from smaller.solvers.driver import Progress

__all__ = ["Journal", "ScaledProblem", "ScaledSolution", "State"]

_START_RIDGE = 1e-4  # of the first weights, relative to the columns' mean square


@dataclass(frozen=True)
class State:
    """Scales, weights, and F there."""

    theta: Array  # (p,)
    w: Array  # (m, q), one row more with a penalised intercept
    b: Array  # (q,)
    objective: float

    def embed(self, moved: State, rows: Array, features: Array) -> State:
        """Put a restricted problem's state back into this, the whole one."""
        w, theta = np.zeros_like(self.w), np.zeros_like(self.theta)
        w[rows], theta[features] = moved.w, moved.theta
        return State(theta, w, moved.b, moved.objective)


@dataclass(frozen=True)
class ScaledSolution(Solution):
    """A solution with its scales; both violations are relative to the strength they work against."""

    scales: Array = field(default_factory=lambda: np.zeros(0))  # (p,)
    weights_violation: float = np.inf
    scales_violation: float = np.inf
    phases: dict[str, tuple[float, ...]] = field(default_factory=dict, repr=False)  # F after every step


@dataclass(frozen=True)
class ScaledProblem:
    """The module's F as a function of (theta, w, b)."""

    X: Any  # (n, p)
    basis: Kernel  # its own scales do not matter
    y: Array  # (n, q)
    weight: Array | None
    likelihood: Likelihood
    alpha: float
    rate: float
    fit_intercept: bool = True
    penalize_intercept: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of centres and of features."""
        return int(self.basis.centers.shape[0]), int(self.X.shape[1])

    @property
    def penalized(self) -> bool:
        """Whether the intercept is the last row of w."""
        return self.fit_intercept and self.penalize_intercept

    def at(self, theta: Array) -> Problem:
        """Return the convex problem in the weights at fixed scales."""
        design: Any = self.basis.rescale(theta).expand(self.X)
        design = design.with_ones() if self.penalized else design
        free = self.fit_intercept and not self.penalized
        return Problem(design, self.y, self.weight, self.likelihood, Laplace(self.alpha), free)

    def state(self, theta: Array, w: Array, b: Array) -> State:
        """Evaluate F."""
        return State(theta, w, b, self.at(theta).at(w, b).objective + self.rate * float(theta.sum()))

    def slope(self, problem: Problem, theta: Array, residual: Array, w: Array) -> Array:
        """Return the derivative of a loss in the scales (p,), from its gradient ``residual`` in eta; (18)."""
        m = self.shape[0]
        block = problem.design.X[:, :m] if isinstance(problem.design, Dense) else None
        return self.basis.rescale(theta).pullback(self.X, residual, w[:m], block)

    def gradients(self, theta: Array, w: Array, b: Array) -> tuple[float, Array, Array, Array]:
        """Return the loss, its gradient in w, dF/dtheta (p,) and dF/db (q,)."""
        problem = self.at(theta)
        point = problem.at(w, b)
        slope = self.slope(problem, theta, point.residual, w) + self.rate
        free = point.residual.sum(axis=0) if problem.fit_intercept else np.zeros(len(b))
        return point.loss, problem.gradient(point), slope, free

    def violations(self, state: State) -> tuple[float, float, Array]:
        """Return how far weights and scales are from stationarity relative to the strengths, and dF/dtheta."""
        _, G, slope, free = self.gradients(state.theta, state.w, state.b)
        weights = max(float(Laplace(self.alpha).violation(state.w, G).max(initial=0.0)), float(np.abs(free).max()))
        scales = np.where(state.theta > 0, np.abs(slope), np.maximum(-slope, 0.0))
        return weights / self.alpha, float(scales.max(initial=0.0)) / self.rate, slope

    def restrict(self, centers: Array, features: Array) -> ScaledProblem:
        """Return the problem of some centres and features; everything else is zero in it."""
        basis = Kernel(self.basis.kernel, self.basis.centers[centers][:, features])
        return replace(self, X=self.X[:, features], basis=basis)

    def used(self, w: Array) -> Array:
        """Return the centres that have a weight."""
        return np.flatnonzero(w[: self.shape[0]].any(axis=1))

    def rows(self, centers: Array) -> Array:
        """Return the rows of w that belong to some centres; a penalised intercept always stays."""
        return np.append(centers, self.shape[0]) if self.penalized else centers

    def start(self, theta: Array) -> State:
        """Return a ridge fit to the labels: not the L1 fit, which is often empty at small scales, and not zero."""
        problem = self.at(theta)
        # Minus the gradient at eta = 0 points to every row's label: exactly -1 and 1 for two classes.
        _, residual = self.likelihood.evaluate(np.zeros(self.y.shape), self.y, None)
        targets = -residual / np.abs(residual).max()
        w, b = ridge_start(replace(problem, y=targets), _START_RIDGE)
        return self.state(theta, w, b)


class Journal:
    """Records F in every phase and reports it; ``stopped`` once a callback has asked for the end."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.phases: dict[str, list[float]] = {}
        self.stopped = False
        self._progress = progress
        self._count = 0

    def note(self, phase: str, objective: float, violation: float = np.inf) -> None:
        self.phases.setdefault(phase, []).append(objective)
        self._count += 1
        if self._progress is not None and self._progress(self._count, Certificate(objective, violation, None)):
            self.stopped = True
