"""The component-wise updates of the 2005 paper, (15), (16): one weight at a time, the softmax exact after each.

Signs: the paper's B is negative definite; here ``beta = -B_kk > 0``, so w moves by ``-gradient / beta``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.arrays import Array, soft_threshold
from smaller.likelihoods import Multinomial
from smaller.problem import Certificate, Point, Problem
from smaller.solvers.driver import needs_host, only_single_weights

__all__ = ["ComponentSweeps", "Components", "Componentwise"]


@dataclass(frozen=True, kw_only=True)
class Componentwise:
    """The component-wise updates (15), (16) with their options, for ``solver=``; every update lowers the objective.

    Parameters
    ----------
    visitation : {"cyclic", "adaptive"}, default="cyclic"
        "cyclic": one weight after the other. "adaptive" (section 6.4): the weight whose update lowers the objective
        most, as far as the bound can tell.
    decay : float in (0, 1], default=0.9
        A weight that is zero is visited with a probability that is multiplied by ``decay`` after every visit that
        leaves it zero. The last sweep before a certificate visits every weight whatever its probability.
    bound : {"single", "printed"}, default="single"
        Bound of the second derivative in one weight. "printed": the diagonal of (8), ``(1 - 1/m)/2 sum_i x_ij^2`` for m
        classes. "single": ``1/4 sum_i x_ij^2``, which is valid because one weight moves alone, and smaller for m > 2;
        for two classes the two are one.
    random_state : int or None, default=None
        For the visits to weights that are zero.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR
    >>> from smaller.papers import Componentwise
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SMLR(alpha=5.0, solver=Componentwise(visitation="adaptive", bound="printed"), tol=1e-4).fit(X, y)
    >>> model.solution_.converged
    True
    """

    visitation: str = "cyclic"
    decay: float = 0.9
    bound: str = "single"
    random_state: Any = None

    def __post_init__(self) -> None:
        for name, choices in (("visitation", ("cyclic", "adaptive")), ("bound", ("single", "printed"))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be {choices[0]!r} or {choices[1]!r}, got {getattr(self, name)!r}.")
        if not 0.0 < self.decay <= 1.0:
            raise ValueError(f"decay must be above 0 and at most 1, got {self.decay!r}.")

    def __call__(self) -> ComponentSweeps:
        """Return the solver's steps for one problem."""
        return ComponentSweeps(self)


class ComponentSweeps:
    """Visits to single weights; sweeps come in blocks, which grow."""

    name = "componentwise"
    pace = 0
    _LONGEST = 128  # sweeps between two certificates

    def __init__(self, options: Componentwise) -> None:
        self.options = options
        self._random = np.random.default_rng(options.random_state)
        self._probability: Array | None = None
        self._columns: Array | None = None
        self._length = 1

    @staticmethod
    def suits(problem: Problem) -> str | None:
        if not isinstance(problem.likelihood, Multinomial):  # the updates keep sums of the softmax
            return "solver='componentwise' is for the multinomial likelihood only: use 'auto' or 'coordinate'."
        return only_single_weights("componentwise", problem) or needs_host("componentwise", problem)

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Run one block of sweeps, each of at most as many updates as there are weights."""
        if self._columns is None:
            self._columns = np.asfortranarray(problem.design.forward(np.eye(problem.n_columns)))
            self._probability = np.ones_like(point.w)
        state = Components(problem, point, self._columns, self.options.bound)
        for sweep in range(self._length):
            self._sweep(state, full=sweep == self._length - 1)
        self._length = min(2 * self._length, self._LONGEST)
        return problem.at(state.w, state.b)

    def _sweep(self, state: Components, *, full: bool) -> None:
        if self.options.visitation == "adaptive" and not full:
            for _ in range(state.w.size):
                state.update(*state.steepest())
        else:
            visits = (state.w != 0) | (self._random.random(state.w.shape) < self._probability)
            if full:
                visits[:] = True
            for j, k in np.argwhere(visits):
                state.update(j, k)
            decayed = np.where(visits, self.options.decay, 1.0) * self._probability
            self._probability = np.where(state.w == 0, decayed, 1.0)
        state.balance()
        state.refresh()


class Components:
    """Weights with the softmax kept up to date, so that one component costs O(n)."""

    def __init__(self, problem: Problem, point: Point, X: Array, bound: str = "single") -> None:
        self.problem, self.X = problem, X
        self.w, self.b, self.eta = point.w.copy(), point.b.copy(), np.asfortranarray(point.eta.copy())
        self.slope, self.ridge = problem.prior.linearise(point.w, "l1")
        self.weight = np.ones(len(X)) if problem.weight is None else problem.weight
        # One coordinate moves alone, so p(1 - p) <= 1/4 bounds its curvature; the diagonal of (8) bounds it jointly.
        n_classes = point.w.shape[1] + (not problem.likelihood.shift_invariant)
        self._bound = 0.25 if bound == "single" else 0.5 * (1.0 - 1.0 / n_classes)
        self.beta = self._bound * (self.weight @ X**2)
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
            step = -self._residual(k).sum() / (self._bound * self.weight.sum())
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
