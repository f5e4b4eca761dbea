"""The 2005 paper's own updates, as published (and corrected); NumPy, no claim of speed.

* :class:`Block`: (7), (10), (13), the bound-optimisation step for all weights at once, with adaptive over-relaxation
  (Salakhutdinov & Roweis 2003). Zero is absorbing in (13) and exact zeros are never reached, so negligible weights
  that satisfy their optimality condition are set to zero and wrongly killed ones are seeded again.
* :class:`Componentwise`: (15), (16), one weight at a time with the exact softmax after every change.

Signs: the paper's B is negative definite; here ``beta = -B_kk > 0``, so w moves by ``-gradient / beta``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smaller.arrays import Array, soft_threshold
from smaller.likelihoods import Multinomial
from smaller.problem import Certificate, Point, Problem
from smaller.solvers.reweighted import bound_gram, majorised_minimiser

__all__ = ["Block", "Componentwise"]


_RESOLUTION = 1e-13  # relative differences of the objective below this are rounding


class Block:
    """Majorise-minimise with the Boehning bound and over-relaxation; monotone by construction."""

    name = "block"
    _UPDATES = 50  # between two certificates
    _GROWTH = 1.1

    def __init__(self, *, over_relaxation: bool = True) -> None:
        self._relaxation = 1.0
        self._growth = self._GROWTH if over_relaxation else 1.0
        self._gram: Array | None = None

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Seed by the optimality conditions, then a block of updates, then prune."""
        point = self._seed(problem, point, G)
        for _ in range(self._UPDATES):
            point = self.update(problem, point)
        return self._prune(problem, point)

    def update(self, problem: Problem, point: Point) -> Point:
        """One over-relaxed update; falls back to the plain one, which cannot raise the objective."""
        if self._gram is None:  # the bound does not depend on the point: form its matrix once
            self._gram = bound_gram(problem, point)
        w, b = majorised_minimiser(problem, point, problem.gradient(point), bound=True, gram=self._gram)
        dw, db = w - point.w, b - point.b
        delta = problem.design.forward(dw) + db
        t = self._relaxation
        new = problem.at(point.w + t * dw, point.b + t * db, point.eta + t * delta)
        if t > 1.0 and not _descends(problem, point, new, dw, delta):
            self._relaxation = 1.0
            return problem.at(w, b, point.eta + delta)
        self._relaxation *= self._growth
        return new

    def _prune(self, problem: Problem, point: Point) -> Point:
        """Set negligible weights to zero where zero is optimal, if that does not raise the objective."""
        size = np.abs(point.w)
        would_stay = problem.prior.violation(0.0 * point.w, problem.gradient(point)) == 0.0
        for threshold in (1e-3, 1e-8):
            small = (size > 0) & (size < threshold * size.max(initial=0.0)) & would_stay
            pruned = problem.at(np.where(small, 0.0, point.w), point.b)
            if pruned.objective <= point.objective * (1.0 + _RESOLUTION):
                return pruned
        return point

    def _seed(self, problem: Problem, point: Point, G: Array) -> Point:
        """Move wrongly zero weights off zero, downhill; all of them at the start."""
        killed = (point.w == 0) & (problem.prior.violation(point.w, G) > 0)
        if not killed.any():
            return point
        size = 1e-2 * max(float(np.abs(point.w).max(initial=0.0)), 1e-2)
        while True:
            seeded = problem.at(np.where(killed, -size * np.sign(G), point.w), point.b)
            if seeded.objective <= point.objective or size < 1e-12:
                return seeded
            size /= 10.0


def _descends(problem: Problem, old: Point, new: Point, dw: Array, delta: Array) -> bool:
    """Whether the objective falls along a step; where values cannot tell, the slope at its end does (convexity)."""
    change = new.objective - old.objective
    if abs(change) > _RESOLUTION * abs(old.objective):
        return change < 0.0
    slope, ridge = problem.prior.linearise(new.w, "l1")
    return float(np.sum(new.residual * delta) + np.sum((slope * np.sign(new.w) + ridge * new.w) * dw)) <= 0.0


class Componentwise:
    """Cyclic or adaptive visits to single weights; every update lowers the objective.

    With ``visitation="cyclic"`` a weight that is zero is visited with a probability that decays by ``decay`` with
    every visit that leaves it zero. With ``"adaptive"`` (section 6.4) the weight with the greatest expected decrease is
    updated. Sweeps come in blocks, which grow; the last sweep of a block visits every weight.
    """

    name = "componentwise"
    _LONGEST = 128  # sweeps between two certificates

    def __init__(self, *, visitation: str = "cyclic", decay: float = 0.9, random_state: Any = None) -> None:
        if visitation not in ("cyclic", "adaptive"):
            raise ValueError(f"visitation must be 'cyclic' or 'adaptive', got {visitation!r}.")
        self.visitation, self.decay = visitation, decay
        self._random = np.random.default_rng(random_state)
        self._probability: Array | None = None
        self._columns: Array | None = None
        self._length = 1

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Run one block of sweeps, each of at most as many updates as there are weights."""
        if self._columns is None:
            self._columns = np.asfortranarray(problem.design.forward(np.eye(problem.n_columns)))
            self._probability = np.ones_like(point.w)
        state = Components(problem, point, self._columns)
        for sweep in range(self._length):
            self._sweep(state, full=sweep == self._length - 1)
        self._length = min(2 * self._length, self._LONGEST)
        return problem.at(state.w, state.b)

    def _sweep(self, state: Components, *, full: bool) -> None:
        if self.visitation == "adaptive" and not full:
            for _ in range(state.w.size):
                state.update(*state.steepest())
        else:
            visits = (state.w != 0) | (self._random.random(state.w.shape) < self._probability)
            if full:
                visits[:] = True
            for j, k in np.argwhere(visits):
                state.update(j, k)
            decayed = np.where(visits, self.decay, 1.0) * self._probability
            self._probability = np.where(state.w == 0, decayed, 1.0)
        state.balance()
        state.refresh()


class Components:
    """Weights with the softmax kept up to date, so that one component costs O(n)."""

    def __init__(self, problem: Problem, point: Point, X: Array) -> None:
        if not isinstance(problem.likelihood, Multinomial):
            raise TypeError("solver='componentwise' is for the multinomial likelihood only: use 'coordinate'.")
        self.problem, self.X = problem, X
        self.w, self.b, self.eta = point.w.copy(), point.b.copy(), np.asfortranarray(point.eta.copy())
        self.slope, self.ridge = problem.prior.linearise(point.w, "l1")
        self.weight = np.ones(len(X)) if problem.weight is None else problem.weight
        # One coordinate moves alone, so the curvature bound is p(1 - p) <= 1/4, not the joint bound 1/2 (1 - 1/K).
        self.beta = 0.25 * (self.weight @ X**2)
        self.refresh()

    @property
    def objective(self) -> float:
        return self.problem.at(self.w, self.b).objective

    def refresh(self) -> None:
        """Shift by the row maximum and add up anew: the running sums drift."""
        pinned = not self.problem.likelihood.shift_invariant
        top = self.eta.max(axis=1)
        if pinned:
            top = np.maximum(top, 0.0)
        self._E = np.exp(self.eta - top[:, None])
        self._S = self._E.sum(axis=1) + (np.exp(-top) if pinned else 0.0)

    def update(self, j: int, k: int) -> None:
        """(15), (16): exact in one coordinate, so no bound on the prior is needed."""
        beta, old = self.beta[j], self.w[j, k]
        if beta <= 0.0:
            return
        target = beta * old - self.X[:, j] @ self._residual(k)
        new = math.copysign(max(abs(target) - self.slope[j, k], 0.0), target) / (beta + self.ridge[j, k])
        if new != old:
            self.w[j, k] = new
            self._move(k, self.X[:, j] * (new - old))

    def balance(self) -> None:
        """Give the intercepts, if they are free, the same update without a penalty."""
        if not self.problem.fit_intercept:
            return
        for k in range(len(self.b)):
            step = -4.0 * self._residual(k).sum() / self.weight.sum()
            self.b[k] += step
            self._move(k, np.full(len(self.X), step))

    def _residual(self, k: int) -> Array:
        return self.weight * (self._E[:, k] / self._S - self.problem.y[:, k])

    def _move(self, k: int, delta: Array) -> None:
        self.eta[:, k] += delta
        if delta.max() > 30.0:
            self.refresh()
            return
        grown = self._E[:, k] * np.exp(delta)
        self._S += grown - self._E[:, k]
        self._E[:, k] = grown
        if self._S.min() < 1e-3 or self._S.max() > 1e13:  # the shift no longer fits
            self.refresh()

    def steepest(self) -> tuple[int, int]:
        """Return the coordinate whose update lowers the bound most."""
        residual = self.weight[:, None] * (self._E / self._S[:, None] - self.problem.y)
        G = self.X.T @ residual
        beta = np.where(self.beta > 0, self.beta, np.inf)[:, None]
        new = soft_threshold(self.w - G / beta, self.slope / beta) / (1.0 + self.ridge / beta)
        step = new - self.w
        finite = np.where(np.isfinite(beta), beta, 0.0)
        decrease = -(
            G * step
            + 0.5 * finite * step**2
            + self.slope * (np.abs(new) - np.abs(self.w))
            + 0.5 * self.ridge * (new**2 - self.w**2)
        )
        j, k = np.unravel_index(int(np.argmax(decrease)), decrease.shape)
        return int(j), int(k)
