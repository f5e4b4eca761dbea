"""The whole regularisation path: decreasing strengths, each solve started from the last.

Every strength ends with its own certificate over all coordinates. Between two strengths the sequential strong rule
(Tibshirani et al. 2012) guesses which weights will move; the certificate catches what it missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from smaller.arrays import Array, to_host
from smaller.designs import Csc
from smaller.priors import ElasticNet
from smaller.problem import Certificate, Point, Problem, Solution, Status, rounding
from smaller.solvers import Method, Stepper, make_stepper
from smaller.solvers.blockwise import Blockwise
from smaller.solvers.coordinate import Coordinate
from smaller.solvers.driver import Progress, canonical_end, descend
from smaller.solvers.small import Small

__all__ = ["PathPoint", "alpha_grid", "outlook", "trace_path"]


@dataclass(frozen=True, slots=True)
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


def alpha_grid(largest: float, count: int, ratio: float) -> Array:
    """Return ``count`` strengths, log-spaced from ``largest`` down to ``ratio * largest``."""
    if count == 1:
        return np.array([largest])
    return largest * np.exp(np.linspace(0.0, math.log(ratio), count))


def trace_path(
    problem: Problem,
    alphas: Array,
    *,
    method: Method = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    progress: Progress | None = None,
    until: Callable[[PathPoint], bool] = lambda point: False,
) -> list[PathPoint]:
    """Solve ``problem`` with its prior multiplied by each of the decreasing ``alphas``.

    The path ends before the first point of which ``until`` is true.
    """
    null = problem.null()
    scale = problem.scale(null)
    stepper = make_stepper(problem, method)
    small = Small(problem) if stepper.name == "coordinate" and Small.suits(problem) else None
    walk = _Walk(problem, stepper, null, scale)
    path: list[PathPoint] = []
    for alpha in map(float, alphas):
        reach, ratio = outlook([known.alpha for known in path[-2:]], alpha)
        if small is not None:
            found = small.solve(alpha, reach, ratio, aim=tol * scale, max_iter=max_iter, progress=progress)
            if found is None:
                walk = _Walk(problem, stepper, problem.at(small.w, small.b), scale)
                small = None
            else:
                point = _keep_small(alpha, small, *found)
        if small is None:
            point = walk.solve(alpha, reach, ratio, tol=tol, max_iter=max_iter, progress=progress)
        if until(point):
            break
        path.append(point)
    return path


def outlook(before: list[float], alpha: float) -> tuple[float, float]:
    """Return how far gradients may move towards the slope, as a fraction of it, and how far to extrapolate.

    ``|G_j|`` changes by at most about the change of alpha: whatever may then reach the slope is let in. Solutions are
    nearly linear in log alpha.
    """
    reach = min(before[-1] / alpha - 1.0, 1.0) if before else 0.0
    if len(before) < 2 or before[0] == before[1]:
        return reach, 0.0
    return reach, math.log(before[1] / alpha) / math.log(before[0] / before[1])


class _Walk:
    """The general way along a path: one strength after another, each from the last solution.

    Of sparse columns only those take part that may be needed: passes over the weights of all of them would take most of
    the time. The gradient over all columns then shows which ones the strong rule has missed; where it shows none, the
    certificate of the part is the certificate of the whole.
    """

    def __init__(self, problem: Problem, stepper: Stepper, start: Point, scale: float) -> None:
        self._problem, self._prior, self._stepper, self._scale = problem, problem.prior, stepper, scale
        self._partial = isinstance(problem.design, Csc) and isinstance(self._stepper, Coordinate)
        self._columns = np.arange(problem.n_columns)  # that take part
        self._last = self._earlier = start  # the last two solutions
        self._G: Array | None = None  # gradient of the loss over all columns, at the last one

    def solve(
        self, alpha: float, reach: float, ratio: float, *, tol: float, max_iter: int, progress: Progress | None
    ) -> PathPoint:
        """Go on to the next strength; see `outlook` for ``reach`` and ``ratio``."""
        whole = part = self._problem.with_prior(self._prior.times(alpha))
        G = self._G
        if self._partial:
            steepest = self._look() if self._G is None else self._steepest
            part = self._admit(whole, steepest > (1.0 - reach) * self._slope(alpha))
            G = None if G is None else G[self._columns]
        start = replace(self._last, penalty=part.prior.penalty(self._last.w))
        if isinstance(self._stepper, Coordinate | Blockwise):
            self._stepper.lookahead = reach
            if ratio > 0.0 and self._earlier is not self._last:
                start = _predict(part, start, self._earlier, ratio)
        run = descend(part, self._stepper, start, G, scale=self._scale, tol=tol, max_iter=max_iter, progress=progress)
        self._earlier, self._last, self._G = self._last, run.point, run.G
        n_iter = run.n_iter
        while self._partial:
            missed = self._look() > self._slope(alpha)
            missed[self._columns] = False
            if not missed.any():
                break
            part = self._admit(whole, missed)
            assert self._G is not None
            G = self._G[self._columns]
            if run.status is not Status.CONVERGED:
                run = replace(run, point=self._last, certificate=part.certify(self._last, G))
                break
            limit = max(max_iter - n_iter, 1)
            run = descend(
                part, self._stepper, self._last, G, scale=self._scale, tol=tol, max_iter=limit, progress=progress
            )
            self._last = run.point
            n_iter += run.n_iter
        return self._keep(alpha, replace(run, n_iter=n_iter).solution(part, self._stepper.name, self._scale))

    def _look(self) -> Array:
        """Compute the gradient over all columns; returns its largest entry in each."""
        self._G = self._problem.design.adjoint(self._last.residual)
        self._steepest = np.abs(self._G).max(axis=1)
        return self._steepest

    def _slope(self, alpha: float) -> Array:
        slope, _ = self._prior.linearise(np.zeros((self._problem.n_columns, 1)), "l1")
        return alpha * slope[:, 0]

    def _admit(self, whole: Problem, wanted: Array) -> Problem:
        """Return the problem of the columns that are wanted, or in use; the last two solutions are brought into it."""
        rows = [np.flatnonzero(point.w.any(axis=1)) for point in (self._earlier, self._last)]
        for used in rows:
            wanted[self._columns[used]] = True
        if not wanted.any():
            wanted[0] = True
        columns = np.flatnonzero(wanted)
        points = []
        for point, used in zip((self._earlier, self._last), rows, strict=True):
            w = np.zeros((len(columns), point.w.shape[1]))
            w[np.searchsorted(columns, self._columns[used])] = point.w[used]
            points.append(replace(point, w=w, G=None))
        same = self._earlier is self._last
        self._earlier, self._last = points
        if same:
            self._earlier = self._last
        self._columns = columns
        return replace(whole, design=whole.design.take(columns), prior=whole.prior.take(columns))

    def _keep(self, alpha: float, solution: Solution) -> PathPoint:
        w = to_host(solution.w)
        used = np.flatnonzero((w != 0).any(axis=1))
        return PathPoint(
            alpha,
            self._columns[used],
            w[used],
            self._problem.n_columns,
            to_host(solution.b),
            solution.objective,
            self._last.loss,
            solution.gap,
            solution.violation,
            solution.status,
            solution.n_iter,
        )


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
    problem, b = small.problem, small.b
    columns, values = small.used()
    objective, gap = certificate.objective, certificate.gap
    if problem.likelihood.shift_invariant:
        prior = problem.prior.take(columns)
        assert isinstance(prior, ElasticNet)
        part = problem.with_prior(prior.times(alpha))
        values, b, objective, gap = canonical_end(part, values, b, small.loss, certificate)
    violation, d = certificate.violation, problem.n_columns
    return PathPoint(alpha, columns, values, d, b, objective, small.loss, gap, violation, status, n_iter)
