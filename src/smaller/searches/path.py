"""The whole regularisation path: decreasing strengths, each solve started from the last.

Every strength ends with its own certificate over all coordinates. Between two strengths the sequential strong rule
(Tibshirani et al. 2012) guesses which weights will move; the certificate catches what it missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array, to_host
from smaller.priors import ElasticNet
from smaller.problem import Point, Problem, Solution, Status, rounding
from smaller.solvers import ALL_SOLVERS, choose
from smaller.solvers.coordinate import Coordinate
from smaller.solvers.driver import Progress, descend

__all__ = ["PathPoint", "alpha_grid", "trace_path"]


@dataclass(frozen=True)
class PathPoint:
    """The solution at one strength; only rows of the weights that are not all zero are stored."""

    alpha: float
    columns: Array  # (m,) indices of the columns in use
    values: Array  # (m, q) their weights
    n_columns: int
    b: Array  # (q,)
    objective: float
    loss: float
    gap: float | None
    violation: float
    status: Status
    n_iter: int

    @property
    def n_active(self) -> int:
        """Number of non-zero weights."""
        return int(np.count_nonzero(self.values))

    @property
    def w(self) -> Array:
        """The weights as a dense array (d, q)."""
        w = np.zeros((self.n_columns, self.values.shape[1]))
        w[self.columns] = self.values
        return w

    @property
    def weights(self) -> Any:
        """The weights as a sparse array (d, q)."""
        present = self.values != 0
        first = np.zeros(self.n_columns + 1, dtype=np.int64)
        first[self.columns + 1] = present.sum(axis=1)
        shape = (self.n_columns, self.values.shape[1])
        return sparse.csr_array((self.values[present], np.nonzero(present)[1], np.cumsum(first)), shape=shape)


def alpha_grid(largest: float, count: int, ratio: float) -> Array:
    """Return ``count`` strengths, log-spaced from ``largest`` down to ``ratio * largest``."""
    if count == 1:
        return np.array([largest])
    return largest * np.exp(np.linspace(0.0, math.log(ratio), count))


def trace_path(
    problem: Problem,
    alphas: Array,
    *,
    method: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    progress: Progress | None = None,
) -> list[PathPoint]:
    """Solve ``problem`` with its prior multiplied by each of the decreasing ``alphas``."""
    prior = problem.prior
    assert isinstance(prior, ElasticNet)
    null = problem.null()
    scale = max(null.loss, 1e-300)
    name = choose(problem) if method == "auto" else method
    stepper = ALL_SOLVERS[name]()
    point, earlier, G, previous = null, null, None, math.inf
    path: list[PathPoint] = []
    for alpha in alphas:
        scaled = problem.with_prior(prior.times(float(alpha)))
        if isinstance(stepper, Coordinate):
            # |G_j| changes by at most about previous - alpha: whatever may then reach the slope is let in.
            stepper.lookahead = min(max(previous / alpha - 1.0, 0.0), 1.0) if math.isfinite(previous) else 0.0
        start = replace(point, penalty=scaled.prior.penalty(point.w))
        if isinstance(stepper, Coordinate) and len(path) > 1:
            start = _predict(scaled, start, earlier, math.log(previous / alpha) / math.log(path[-2].alpha / previous))
        run = descend(scaled, stepper, start, G, scale=scale, tol=tol, max_iter=max_iter, progress=progress)
        earlier, point, G, previous = point, run.point, run.G, float(alpha)
        path.append(_keep(float(alpha), point.loss, run.solution(scaled, name, scale)))
    return path


def _predict(problem: Problem, point: Point, earlier: Point, ratio: float) -> Point:
    """Extrapolate the last two solutions linearly in log alpha, if that is a better start than the last one."""
    w, b, eta = (
        now + ratio * (now - then)
        for now, then in ((point.w, earlier.w), (point.b, earlier.b), (point.eta, earlier.eta))
    )
    # Drift grows in steps from solution to solution, until eta is formed anew.
    grown = point.drift - earlier.drift if point.drift >= earlier.drift else point.drift + earlier.drift
    guess = problem.at(w, b, eta, point.drift + ratio * grown + rounding(eta))
    return guess if guess.objective < point.objective else point


def _keep(alpha: float, loss: float, solution: Solution) -> PathPoint:
    w = to_host(solution.w)
    columns = np.unique(np.nonzero(w)[0])
    return PathPoint(
        alpha,
        columns,
        w[columns],
        len(w),
        to_host(solution.b),
        solution.objective,
        loss,
        solution.gap,
        solution.violation,
        solution.status,
        solution.n_iter,
    )
