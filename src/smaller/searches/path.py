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
from smaller.problem import Certificate, Point, Problem, Solution, Status, rounding
from smaller.solvers import ALL_SOLVERS, choose
from smaller.solvers.coordinate import Coordinate
from smaller.solvers.driver import Progress, canonical_end, descend
from smaller.solvers.small import Small

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
    small = Small(problem) if name == "coordinate" and Small.suits(problem) else None
    point, earlier, G = null, null, None
    path: list[PathPoint] = []
    for alpha in map(float, alphas):
        reach, ratio = _outlook([known.alpha for known in path[-2:]], alpha)
        if small is not None:
            found = small.solve(alpha, reach, ratio, aim=tol * scale, max_iter=max_iter, progress=progress)
            if found is not None:
                path.append(_keep_small(alpha, small, *found))
                continue
            point = earlier = problem.at(small.w.copy(), small.b.copy())
            small = None
        scaled = problem.with_prior(prior.times(alpha))
        start = replace(point, penalty=scaled.prior.penalty(point.w))
        if isinstance(stepper, Coordinate):
            stepper.lookahead = reach
            if ratio > 0.0 and earlier is not point:
                start = _predict(scaled, start, earlier, ratio)
        run = descend(scaled, stepper, start, G, scale=scale, tol=tol, max_iter=max_iter, progress=progress)
        earlier, point, G = point, run.point, run.G
        path.append(_keep(alpha, point.loss, run.solution(scaled, name, scale)))
    return path


def _outlook(before: list[float], alpha: float) -> tuple[float, float]:
    """Return how far gradients may move towards the slope, as a fraction of it, and how far to extrapolate.

    ``|G_j|`` changes by at most about the change of alpha: whatever may then reach the slope is let in. Solutions are
    nearly linear in log alpha.
    """
    reach = min(before[-1] / alpha - 1.0, 1.0) if before else 0.0
    if len(before) < 2 or before[0] == before[1]:
        return reach, 0.0
    return reach, math.log(before[1] / alpha) / math.log(before[0] / before[1])


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


def _keep_small(alpha: float, small: Small, certificate: Certificate, status: Status, n_iter: int) -> PathPoint:
    w, b, problem = small.w, small.b.copy(), small.problem
    used = w != 0
    columns = np.flatnonzero(used.any(axis=1) if w.shape[1] > 1 else used)
    values, objective, gap = w[columns], certificate.objective, certificate.gap
    if problem.likelihood.shift_invariant:
        prior = problem.prior.take(columns)
        assert isinstance(prior, ElasticNet)
        part = problem.with_prior(prior.times(alpha))
        values, b, objective, gap = canonical_end(part, values, b, small.loss, certificate)
    violation = certificate.violation
    return PathPoint(alpha, columns, values, len(w), b, objective, small.loss, gap, violation, status, n_iter)


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
