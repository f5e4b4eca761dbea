"""The 2005 paper's own updates, as published (and corrected); NumPy, no claim of speed.

* :class:`Block`: (7), (10), (13), the bound-optimisation step for all weights at once, with adaptive over-relaxation
  (Salakhutdinov & Roweis 2003). Zero is absorbing in (13) and exact zeros are never reached, so negligible weights
  that satisfy their optimality condition are set to zero and wrongly killed ones are seeded again.
* :class:`Componentwise`: (15), (16), one weight at a time with the exact softmax after every change.

Signs: the paper's B is negative definite; here ``beta = -B_kk > 0``, so w moves by ``-gradient / beta``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.arrays import Array, soft_threshold
from smaller.problem import Certificate, Point, Problem
from smaller.solvers.reweighted import majorised_minimiser

__all__ = ["Block", "Componentwise"]


class Block:
    """Majorise-minimise with the Boehning bound and over-relaxation; monotone by construction."""

    name = "block"
    _UPDATES = 50  # between two certificates
    _GROWTH = 1.1

    def __init__(self, *, over_relaxation: bool = True) -> None:
        self._relaxation = 1.0
        self._growth = self._GROWTH if over_relaxation else 1.0

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Prune and seed by the optimality conditions, then a block of updates."""
        point = self._seed(problem, self._prune(problem, point, G), G)
        for _ in range(self._UPDATES):
            point = self.update(problem, point)
        return point

    def update(self, problem: Problem, point: Point) -> Point:
        """One over-relaxed update; falls back to the plain one, which cannot raise the objective."""
        w, b = majorised_minimiser(problem, point, problem.gradient(point), bound=True)
        dw, db = w - point.w, b - point.b
        delta = problem.design.forward(dw) + db
        while True:
            t = self._relaxation
            new = problem.at(point.w + t * dw, point.b + t * db, point.eta + t * delta)
            if new.objective <= point.objective:
                self._relaxation *= self._growth
                return new
            if t == 1.0:
                return point  # below the resolution of the objective
            self._relaxation = 1.0

    def _prune(self, problem: Problem, point: Point, G: Array) -> Point:
        """Set negligible weights to zero where zero is optimal, if that does not raise the objective."""
        size = np.abs(point.w)
        would_stay = problem.prior.violation(0.0 * point.w, G) == 0.0
        small = (size > 0) & (size < 1e-3 * size.max(initial=0.0)) & would_stay
        if not small.any():
            return point
        pruned = problem.at(np.where(small, 0.0, point.w), point.b)
        return pruned if pruned.objective <= point.objective else point

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


class Componentwise:
    """Cyclic or adaptive visits to single weights; every update lowers the objective.

    With ``visitation="cyclic"`` a weight that is zero is visited with a probability that decays by ``decay`` with
    every visit that leaves it zero. With ``"adaptive"`` (section 6.4) the weight with the greatest expected decrease is
    updated. Both end in full sweeps, since the driver asks for a certificate over all weights.
    """

    name = "componentwise"

    def __init__(self, *, visitation: str = "cyclic", decay: float = 0.9, random_state: Any = None) -> None:
        if visitation not in ("cyclic", "adaptive"):
            raise ValueError(f"visitation must be 'cyclic' or 'adaptive', got {visitation!r}.")
        self.visitation, self.decay = visitation, decay
        self._random = np.random.default_rng(random_state)
        self._probability: Array | None = None
        self._columns: Array | None = None

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """One sweep (as many updates as there are weights), at a random schedule or by greatest decrease."""
        state = _Components(problem, point, self._dense(problem))
        d, q = point.w.shape
        if self._probability is None:
            self._probability = np.ones((d, q))
        if self.visitation == "adaptive":
            for _ in range(d * q):
                state.update(*state.steepest())
        else:
            visits = (point.w != 0) | (self._random.random((d, q)) < self._probability)
            if not (visits & (problem.prior.violation(point.w, G) > 0)).any():
                visits[:] = True  # the schedule skipped every violator: a full sweep
            for j, k in zip(*np.nonzero(visits), strict=True):
                state.update(int(j), int(k))
            still_zero = visits & (state.w == 0)
            self._probability = np.where(
                still_zero,
                self.decay * self._probability,
                1.0 * (state.w != 0) + self._probability * (state.w == 0),
            )
        new = problem.at(state.w, state.b)
        return new if new.objective <= point.objective else point

    def _dense(self, problem: Problem) -> Array:
        if self._columns is None:
            self._columns = np.asfortranarray(problem.design.forward(np.eye(problem.n_columns)))
        return self._columns


class _Components:
    """Weights with eta kept up to date, so that one component costs O(n q)."""

    def __init__(self, problem: Problem, point: Point, X: Array) -> None:
        self.problem, self.X = problem, X
        self.w, self.b, self.eta = point.w.copy(), point.b.copy(), point.eta.copy()
        self.slope, self.ridge = problem.prior.linearise(point.w, "l1")
        # One coordinate moves alone, so the curvature bound is p(1 - p) <= 1/4, not the joint bound 1/2 (1 - 1/K).
        weight = np.ones(len(X)) if problem.weight is None else problem.weight
        largest = np.max(problem.likelihood.curvature(0.0 * point.eta, problem.y, None, bound=True).diagonal())
        self.beta = min(
            largest,
            0.25 if problem.likelihood.dual(0.0 * point.residual, problem.y, None) is not None else largest,
        ) * (weight @ X**2)

    def update(self, j: int, k: int) -> None:
        """(15), (16): exact in one coordinate, so no bound on the prior is needed."""
        if self.beta[j] <= 0.0:
            return
        _, residual = self.problem.likelihood.evaluate(self.eta, self.problem.y, self.problem.weight)
        new = self._target(self.w[j, k], self.X[:, j] @ residual[:, k], j, k)
        if new != self.w[j, k]:
            self.eta[:, k] += self.X[:, j] * (new - self.w[j, k])
            self.w[j, k] = new

    def _target(self, w: Any, gradient: Any, j: Any, k: Any) -> Any:
        beta = self.beta[j]
        return soft_threshold(np.asarray(w * beta - gradient), self.slope[j, k]) / (beta + self.ridge[j, k])

    def steepest(self) -> tuple[int, int]:
        """Return the coordinate whose update lowers the bound most."""
        _, residual = self.problem.likelihood.evaluate(self.eta, self.problem.y, self.problem.weight)
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
