"""The 2006 paper's own training scheme (section 2.2): one weight at a time, the strength renewed after every change.

The weight with the steepest *effective* gradient (zero inside the dead zone of a weight at zero) takes a Newton step in
its own coordinate, truncated at a change of sign; then ``alpha = W / E_W`` (5). An inner loop visits active weights
only, until they have settled; an outer one looks at all weights and admits one.

Corrections: the step uses the effective gradient, where the paper prints that of the loss alone (nothing would become
sparse); the stop is a certified duality gap, where the authors' program stops after one small change, up to a factor
of two away in alpha. Where W jumps across the fixed point a weight would enter and leave for ever, so one that was
truncated to zero more than ten times is left out for good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from smaller.arrays import Array
from smaller.designs import Design
from smaller.likelihoods import Multinomial
from smaller.priors import ElasticNet
from smaller.problem import Certificate, Point, Problem, Solution, Status
from smaller.searches.evidence import EvidenceFit, count_weights, log_evidence
from smaller.solvers.driver import Progress

__all__ = ["find_greedily"]

_SETTLED = 0.1  # the inner loop ends when the active weights' gradients are this fraction of the round's steepest
_MOST_RETURNS = 10  # to zero, before a weight is left out
_HALVINGS = 10
_SMALL = 1e-4  # effective gradient, relative to alpha, that counts as none when weights were left out
_KINK = 0.5  # a weight left out may want to enter by this fraction of alpha: more is no kink but a collapse


class _Greedy:
    """Weights, with the intercepts as their last row if these are free, and the linear predictor kept up to date."""

    def __init__(self, problem: Problem, canonical: bool) -> None:
        assert isinstance(problem.prior, ElasticNet)
        self.problem, self.prior, self.canonical = problem, problem.prior, canonical
        d, q = problem.n_columns, problem.likelihood.n_outputs
        self.point = problem.null()
        self.slope = np.zeros((d + problem.fit_intercept, q))
        self.slope[:d] = self.prior.slope
        self.w = np.vstack([self.point.w, self.point.b]) if problem.fit_intercept else self.point.w.copy()
        self.returns = np.zeros(self.w.shape, dtype=np.int64)
        self.alpha, self.n_active = 0.0, 0
        self.n_updates = 0

    @property
    def banned(self) -> Array:
        return self.returns > _MOST_RETURNS

    def gradient(self) -> Array:
        """Return the gradient of the loss in all weights."""
        return self._with_intercepts(self.problem.gradient(self.point))

    def active_slopes(self, columns: Array, design: Design) -> Array:
        """Return the effective gradients of active weights, zero for others; ``design`` has the active ``columns``."""
        G = np.zeros_like(self.point.w)
        G[columns] = design.adjoint(self.point.residual)
        active = (self.w != 0) | (self.slope == 0)
        return np.where(active, self.effective(self._with_intercepts(G)), 0.0)

    def _with_intercepts(self, G: Array) -> Array:
        return np.vstack([G, self.point.residual.sum(axis=0)]) if self.problem.fit_intercept else G

    def effective(self, G: Array) -> Array:
        """Return the gradient of loss plus penalty, zero where a weight is stable at zero."""
        slope = self.alpha * self.slope
        at_zero = np.sign(G) * np.maximum(np.abs(G) - slope, 0.0)
        return np.where(self.w == 0, at_zero, G + slope * np.sign(self.w))

    def update(self, j: int, k: int, slope: float) -> bool:
        """Take a Newton step in one weight, halved until the objective falls; says whether one was found."""
        x = self._column(j)
        h = self._curvature(x, k)
        old = float(self.w[j, k])
        if h <= 0.0:
            return False
        new = old - slope / h
        # A step that promises less than the objective can resolve is taken on the model's word.
        unresolved = slope * slope / h <= 1e-12 * abs(self.point.loss)
        if old * new < 0.0:
            new = 0.0
        for _ in range(_HALVINGS + 1):
            eta = self.point.eta.copy(order="F")
            eta[:, k] += (new - old) * x
            loss, residual = self.problem.likelihood.evaluate(eta, self.problem.y, self.problem.weight)
            change = loss - self.point.loss + self.alpha * self.slope[j, k] * (abs(new) - abs(old))
            if change < 0.0 or unresolved:
                self._move(j, k, new, eta, loss, residual)
                return True
            new = 0.5 * (old + new)
        return False

    def _move(self, j: int, k: int, new: float, eta: Array, loss: float, residual: Array) -> None:
        self.returns[j, k] += new == 0.0 and self.slope[j, k] > 0.0
        self.w[j, k] = new
        d = self.problem.n_columns
        b = self.w[d] if self.problem.fit_intercept else self.point.b
        self.n_active, total = count_weights(self.problem, self.w[:d], b, self.canonical)
        self.alpha = self.n_active / total if self.n_active else 0.0  # (5)
        self.point = Point(self.w[:d].copy(), b.copy(), eta, loss, residual, self.alpha * total)
        self.n_updates += 1

    def _column(self, j: int) -> Array:
        if j == self.problem.n_columns:
            return np.ones(len(self.point.eta))
        return self.problem.design.take(np.array([j])).forward(np.ones((1, 1)))[:, 0]

    def _curvature(self, x: Array, k: int) -> float:
        """Return ``sum_i c_i x_i^2 p_ik (1 - p_ik)``."""
        residual, weight = self.point.residual[:, k], self.problem.weight
        if weight is not None:
            residual = np.divide(residual, weight, out=np.zeros_like(residual), where=weight > 0)
        p = self.problem.y[:, k] + residual
        h = p * (1.0 - p)
        return float(x**2 @ (h if weight is None else weight * h))

    def certify(self, G: Array) -> tuple[Problem, Certificate]:
        """Return the L1 problem at the strength of the moment and how far the point is from its optimum."""
        problem = self.problem.with_prior(self.prior.times(self.alpha))
        point = replace(self.point, penalty=problem.prior.penalty(self.point.w))
        return problem, problem.certify(point, G[: problem.n_columns])


def find_greedily(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    fallback: str = "max_f",
    progress: Progress | None = None,
    canonical: bool = True,
) -> EvidenceFit:
    """Run the paper's scheme; ``problem`` has unit strength, ``max_iter`` counts sweeps' worth of updates.

    Without a fixed point ``fallback`` says what is returned: what the scheme ends with, or the null model.
    ``canonical=False`` counts the weights as they are, as the paper does.
    """
    if not isinstance(problem.likelihood, Multinomial):
        raise TypeError("mode='greedy' is for the multinomial likelihood only: use 'path'.")
    state = _Greedy(problem, canonical)
    scale = max(state.point.loss, 1e-300)
    history = []
    status = None
    while status is None:
        G = state.gradient()
        scaled, certificate = state.certify(G)
        history.append(certificate.objective)
        slopes = np.where(state.banned, 0.0, state.effective(G))
        status = _judge(state, certificate, slopes, tol * scale)
        if status is None and state.n_updates >= max_iter * state.w.size:
            status = Status.MAX_ITER
        if status is None and progress is not None and progress(len(history) - 1, certificate):
            status = Status.STOPPED
        if status is None and not _round(state, slopes):
            status = Status.STALLED if state.n_active else Status.NO_FIXED_POINT
    if status is Status.NO_FIXED_POINT and (fallback == "null" or not state.n_active):
        state = _Greedy(problem, canonical)
        state.alpha = problem.alpha_max()
        scaled, certificate = state.certify(state.gradient())
    return _finish(state, scaled, certificate, status, scale, tuple(history))


def _judge(state: _Greedy, certificate: Certificate, slopes: Array, aim: float) -> Status | None:
    """Say how the scheme ended, or None if it goes on."""
    if state.n_active and certificate.gap is not None and certificate.gap <= aim:
        return Status.CONVERGED
    if not state.n_active:  # from here only a weight that was not left out can start anew
        return None if slopes[state.slope > 0].any() else Status.NO_FIXED_POINT
    if np.abs(slopes).max() > _SMALL * state.alpha or not state.banned.any():
        return None
    return Status.KINK if certificate.violation <= _KINK * state.alpha else Status.NO_FIXED_POINT


def _round(state: _Greedy, slopes: Array) -> bool:
    """Update the steepest of all weights, then active ones until they have settled; False when nothing moves."""
    settled = _SETTLED * float(np.abs(slopes).max())
    for j, k in _steepest_first(slopes):
        if state.update(j, k, float(slopes[j, k])):
            break
    else:
        return False
    d = state.problem.n_columns
    columns = np.flatnonzero(((state.w != 0) | (state.slope == 0))[:d].any(axis=1))
    design = state.problem.design.take(columns)
    for _ in range(10 * state.w.size):
        slopes = state.active_slopes(columns, design)
        j, k = divmod(int(np.abs(slopes).argmax()), slopes.shape[1])
        if abs(slopes[j, k]) <= settled or not state.update(j, k, float(slopes[j, k])):
            return True
    return True


def _steepest_first(slopes: Array) -> Iterator[tuple[int, int]]:
    order = np.argsort(-np.abs(slopes), axis=None, kind="stable")[: np.count_nonzero(slopes)]
    return ((int(j), int(k)) for j, k in zip(*np.unravel_index(order, slopes.shape), strict=True))


def _finish(
    state: _Greedy,
    scaled: Problem,
    certificate: Certificate,
    status: Status,
    scale: float,
    history: tuple[float, ...],
) -> EvidenceFit:
    w, b = state.point.w, state.point.b
    if state.canonical:
        w, b = scaled.canonical(w, b)
    n_active, _ = count_weights(state.problem, w, b, state.canonical)
    valid = status in (Status.CONVERGED, Status.KINK)
    evidence = log_evidence(state.problem, w, b) if valid else math.nan
    solution = Solution(
        w,
        b,
        certificate.objective,
        certificate.violation,
        certificate.gap,
        state.n_updates,
        status,
        "greedy",
        scale,
        history,
    )
    return EvidenceFit(solution, state.alpha, n_active, evidence)
