"""The component-wise updates of the 2005 paper, (15), (16): one weight at a time, the softmax exact after each.

Signs: the paper's B is negative definite; here ``beta = -B_kk > 0``, so w moves by ``-gradient / beta``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smaller.arrays import Array, soft_threshold
from smaller.likelihoods import Multinomial
from smaller.problem import Certificate, Point, Problem
from smaller.solvers.driver import needs_host

__all__ = ["Components", "Componentwise"]


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

    @staticmethod
    def suits(problem: Problem) -> str | None:
        if not isinstance(problem.likelihood, Multinomial):  # the updates keep sums of the softmax
            return "solver='componentwise' is for the multinomial likelihood only: use 'auto' or 'coordinate'."
        return needs_host("componentwise", problem)

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
