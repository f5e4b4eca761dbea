r"""The weights of a chosen support again, without the shrinkage that chose it.

    min over w_S, b    NLL + rho/2 sum_S (r_j w_jk)^2,        rho = gamma / sum_S (r_j w_jk)^2

S holds the pairs (column, output) whose weight is not zero; ``gamma = W - rho tr (A^-1 R^2)_SS`` is the number of
weights that the data determine (MacKay 1992), A the Hessian of the whole sum. The ridge is the floor that a support on
which the classes are separable needs. Symmetric coding: the weights are canonical first, then the last intercept (and
the last weight of every free column) is pinned to zero, which leaves no flat direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from smaller.arrays import Array, solve_symmetric, to_host
from smaller.designs import Design
from smaller.likelihoods import Curvature
from smaller.priors import ElasticNet, Prior
from smaller.problem import Problem

__all__ = ["Active", "Refit", "inverse", "refit"]

_SMALLEST, _LARGEST = 1e-6, 1e6  # of rho
_SETTLED, _MOST_ROUNDS = 1e-3, 50  # of log rho
_ROUGH, _EXACT = 1e-7, 1e-13  # Newton decrement relative to the null loss, while rho is open and at the end
_MOST_STEPS = 100  # at one rho


@dataclass(frozen=True)
class Active:
    """The parameters of a fitted problem that are not zero, flat directions pinned: a small design of their own.

    ``theta`` holds the weights, then the free block; coordinates count columns of ``design``, ones behind the last.
    """

    problem: Problem
    used: Array  # columns of the problem's design that take part
    design: Design  # these columns
    columns: Array  # (m,) of ``design``
    outputs: Array  # (m,)
    n_weights: int  # W: how many coordinates are penalised; they come first
    theta: Array = field(repr=False)  # (m,)

    @classmethod
    def of(cls, problem: Problem, w: Array, b: Array) -> Active:
        """Collect what is not zero at ``(w, b)``."""
        w, b = (to_host(part) for part in problem.canonical(w, b))
        q = problem.likelihood.n_outputs
        determined = q - problem.likelihood.shift_invariant
        free = to_host(problem.prior.free(problem.n_columns))
        if determined < q:
            w = w.copy()
            w[free] -= w[free, -1:]
            b = b - b[-1]
        columns, outputs = np.divmod(np.flatnonzero(w), q)
        if len(free):
            penalised = ~np.isin(columns, free)
            columns, outputs = columns[penalised], outputs[penalised]
        n_weights, used = len(columns), np.union1d(columns, free).astype(np.int64)
        theta = np.concatenate([w[columns, outputs], w[free, :determined].ravel(), b[:determined]])
        block = np.append(free, problem.n_columns)
        if not problem.fit_intercept:
            theta, block = theta[: len(theta) - determined], free
        columns = np.append(columns, np.repeat(block, determined))
        outputs = np.append(outputs, np.tile(np.arange(determined), len(block)))
        # A virtual column of ones sorts behind all real ones, in the small design too.
        return cls(problem, used, problem.design.take(used), np.searchsorted(used, columns), outputs, n_weights, theta)

    def weights(self, theta: Array) -> tuple[Array, Array]:
        """Return ``theta`` as weights (len(used), q) and intercepts (q,)."""
        values = np.zeros((len(self.used) + 1, self.problem.likelihood.n_outputs))
        values[self.columns, self.outputs] = theta
        return values[:-1], values[-1]

    def place(self, theta: Array) -> tuple[Array, Array]:
        """Return ``theta`` as the problem's weights and intercepts, in canonical form."""
        w = np.zeros((self.problem.n_columns, self.problem.likelihood.n_outputs))
        w[self.used], b = self.weights(theta)
        if self.problem.likelihood.shift_invariant:
            free = to_host(self.problem.prior.free(self.problem.n_columns))
            w[free] -= w[free].mean(axis=1, keepdims=True)
            b = b - b.mean() if self.problem.fit_intercept else b
        return w, b

    def eta(self, theta: Array) -> Array:
        w, b = self.weights(theta)
        eta: Array = self.design.forward(w) + b
        return eta if self.problem.offset is None else eta + self.problem.offset

    def gradient(self, residual: Array) -> Array:
        """Return the gradient in theta of the loss whose gradient in eta is ``residual``."""
        everything = np.vstack([self.design.adjoint(residual), residual.sum(axis=0)])
        gradient: Array = everything[self.columns, self.outputs]
        return gradient

    def hessian(self, curvature: Curvature) -> Array:
        return self.design.gram(curvature, (self.columns, self.outputs))

    def per_weight(self, values: Array | float) -> Array:
        """Return per-column values (d, 1), or a number, for every coordinate; zero in the free block."""
        d = self.problem.n_columns
        of_column = np.broadcast_to(np.asarray(to_host(values), dtype=np.float64), (d, 1))[:, 0]
        out = np.zeros(len(self.theta))
        out[: self.n_weights] = of_column[self.used[self.columns[: self.n_weights]]]
        return out


@dataclass(frozen=True)
class Refit:
    """Weights on the support, and the strength of their ridge (not a number without any weight)."""

    w: Array
    b: Array
    strength: float


def refit(problem: Problem, w: Array, b: Array, *, strength: float | None = None, start: float | None = None) -> Refit:
    """Fit the support of ``w`` anew; ``problem`` has unit strength.

    A given ``strength`` is kept; otherwise the search for it begins at ``start``, where there is a good guess.
    """
    active = Active.of(problem, w, b)
    if active.n_weights == 0:
        return Refit(*active.place(active.theta), math.nan)
    factors = active.per_weight(_squared_factors(problem.prior))
    if not np.isfinite(factors).all():
        raise ValueError("X has columns so small that their weights overflow: multiply them by a constant.")
    scale = max(problem.null().loss, 1e-300)
    theta, rho = active.theta, strength
    if rho is None:
        guess = active.n_weights / max(float(factors @ theta**2), 1e-300) if start is None else start
        theta, rho = _self_consistent(active, theta, factors, _within(guess), _ROUGH * scale)
    theta, _ = _newton(active, theta, rho * factors, _EXACT * scale)
    return Refit(*active.place(theta), rho)


def _self_consistent(active: Active, theta: Array, factors: Array, rho: float, aim: float) -> tuple[Array, float]:
    """Solve ``rho = gamma / sum (r w)^2``: repeated substitution, with secant steps in log rho where they are short."""
    before: tuple[float, float] | None = None
    for _ in range(_MOST_ROUNDS):
        theta, A = _newton(active, theta, rho * factors, aim)
        determined = active.n_weights - rho * float(factors @ inverse(A).diagonal())
        here = math.log(rho)
        move = math.log(_within(max(determined, 0.0) / max(float(factors @ theta**2), 1e-300))) - here
        if abs(move) < _SETTLED:
            break
        slope = (move - before[1]) / (here - before[0]) if before is not None and here != before[0] else -1.0
        before = here, move
        # Substitution has slope -1 here; a secant far from that is trusted for a few such steps only.
        stride = move / -slope if slope < 0.0 else move
        rho = _within(math.exp(here + min(max(stride, -3.0 * abs(move)), 3.0 * abs(move))))
    return theta, rho


def _squared_factors(prior: Prior) -> Array:
    """Return the ridge's factor per column: a weight's scale is 1/r under a slope r, 1/sqrt(r) under a ridge r."""
    assert isinstance(prior, ElasticNet)
    slope, ridge = np.broadcast_arrays(*(np.atleast_2d(to_host(part)) for part in (prior.slope, prior.ridge)))
    with np.errstate(over="ignore"):
        return np.where(slope > 0, slope**2, ridge)


def _within(rho: float) -> float:
    return min(max(rho, _SMALLEST), _LARGEST)


def _newton(active: Active, theta: Array, ridge: Array, aim: float) -> tuple[Array, Array]:
    """Minimise ``NLL + sum ridge theta^2 / 2``; returns the minimiser and the last Hessian (before the last step)."""
    problem = active.problem

    def at(theta: Array) -> tuple[float, Array, Array]:
        eta = active.eta(theta)
        loss, residual = problem.evaluate(eta)
        return loss + 0.5 * float(ridge @ theta**2), eta, residual

    value, eta, residual = at(theta)
    A = np.zeros((0, 0))
    for _ in range(_MOST_STEPS):
        A = active.hessian(problem.likelihood.curvature(eta, problem.y, problem.weight))
        A[np.diag_indices_from(A)] += ridge
        g = active.gradient(residual) + ridge * theta
        step = -_solve(A, g)
        decrement = -float(step @ g)
        t = 1.0
        while True:
            moved = at(theta + t * step)
            # A step that promises less than the sum can resolve is taken on the model's word.
            if moved[0] <= value - 1e-4 * t * decrement or decrement <= 1e-12 * abs(value):
                break
            t /= 2.0
            if t < 1e-10:
                return theta, A
        theta, (value, eta, residual) = theta + t * step, moved
        if decrement <= aim:  # and what is left after this step is the square of that
            break
    return theta, A


def _solve(A: Array, g: Array) -> Array:
    try:
        return linalg.cho_solve((linalg.cholesky(A, lower=True, check_finite=False), True), g, check_finite=False)
    except linalg.LinAlgError:
        return solve_symmetric(A, g)


def inverse(A: Array) -> Array:
    """Return the inverse of a positive definite matrix; of a singular one, that of its range."""
    factor, failed = linalg.lapack.dpotrf(A, lower=1)
    if failed:
        return solve_symmetric(A, np.eye(len(A)))
    lower = np.tril(linalg.lapack.dpotri(factor, lower=1)[0])
    return lower + np.tril(lower, -1).T
