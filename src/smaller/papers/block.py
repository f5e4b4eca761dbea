"""The block updates of the 2005 paper, (7), (10), (13): all weights at once under a bound of the curvature.

With the adaptive over-relaxation of Salakhutdinov & Roweis (2003). Zero is absorbing in (13) and exact zeros are never
reached, so negligible weights that satisfy their optimality condition are set to zero and wrongly killed ones are
seeded again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smaller.arrays import Array
from smaller.problem import Certificate, Point, Problem
from smaller.solvers.driver import needs_host, only_single_weights
from smaller.solvers.reweighted import bound_gram, majorised_minimiser

__all__ = ["Block", "BlockUpdates"]


_RESOLUTION = 1e-13  # relative differences of the objective below this are rounding


@dataclass(frozen=True, kw_only=True)
class Block:
    """The block updates (7), (10), (13) with their option, for ``solver=``; monotone by construction.

    Parameters
    ----------
    over_relaxation : bool, default=True
        Lengthen the steps as long as the objective falls (section 5). False: the updates as they are printed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR
    >>> from smaller.papers import Block
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SMLR(alpha=5.0, solver=Block(over_relaxation=False), tol=1e-4).fit(X, y)
    >>> model.solution_.converged
    True
    """

    over_relaxation: bool = True

    def __call__(self) -> BlockUpdates:
        """Return the solver's steps for one problem."""
        return BlockUpdates(self)


class BlockUpdates:
    """Majorise-minimise with the Boehning bound."""

    name = "block"
    pace = 0
    _UPDATES = 50  # between two certificates
    _GROWTH = 1.1

    def __init__(self, options: Block) -> None:
        self._relaxation = 1.0
        self._growth = self._GROWTH if options.over_relaxation else 1.0
        self._gram: Array | None = None

    @staticmethod
    def suits(problem: Problem) -> str | None:
        return only_single_weights("block", problem) or needs_host("block", problem)

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
