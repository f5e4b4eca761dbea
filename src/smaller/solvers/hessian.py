"""The Hessian of a working set, kept over many steps, and what it costs.

Near the optimum the curvature hardly changes, so one Hessian serves many steps; every step still uses the exact
gradient and a line search, so a stale or sampled Hessian costs iterations, never accuracy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.arrays import Array, solve_symmetric
from smaller.designs import Coordinates, Csc, Design
from smaller.problem import Point, Problem
from smaller.solvers import core

__all__ = ["Growing", "Reduced", "Snapshot", "gram_price"]

_FEWEST_ROWS, _MOST_ROWS = 10.0, 60.0  # per coordinate in a sampled Hessian
_ROWS_PER_COLUMN = 100.0  # enough as well, since a row tells something about every output
_SMALLEST_SAMPLE = 1024
_PASSES = 10  # over the data, that a sampled Hessian may cost
_BLAS_ADVANTAGE = 17.0  # how much cheaper a multiplication is inside BLAS than inside a sweep


@dataclass(frozen=True)
class Reduced:
    """A Hessian out of which the intercepts have been minimised: they answer every step at once."""

    H: Array  # (m, m), corrected in place as steps show what it should have been
    across: Array  # (q, m) between intercepts and weights; no rows without intercepts
    inverse: Array  # (q, q) of the intercepts' own block

    def gradient(self, g: Array, gb: Array) -> Array:
        """Return the gradient in the weights once the intercepts have moved to their best place."""
        return g - (self.inverse @ gb) @ self.across

    def intercepts(self, step: Array, gb: Array) -> Array:
        """Return the intercepts' move that belongs to a step of the weights."""
        return -(self.inverse @ (gb + self.across @ step))

    def learn(self, step: Array, change: Array) -> None:
        """Correct H (BFGS) by what a step did to the `gradient`.

        This takes the better part of what sampling and age have spoilt out of the following steps.
        """
        along = self.H @ step
        expected, found = float(step @ along), float(step @ change)
        if found > 1e-8 * expected > 0.0:
            core.correct(self.H, change, found, along, expected)


class Growing(ABC):
    """Interface of a Hessian at some place, for a growing set of coordinates (the free numbers always among them)."""

    def __init__(self, shape: tuple[int, int], n_free: int) -> None:
        d, self._q = shape
        self._free = np.arange(n_free)
        self._columns, self._outputs = np.full(n_free, d), np.arange(n_free)
        self._position = np.full(d * self._q, -1)
        self._H = np.zeros((0, 0))
        self._uses = 0
        self._last: tuple[Coordinates, Reduced] | None = None

    @abstractmethod
    def _gram(self, left: Coordinates, right: Coordinates | None = None) -> Array:
        """Return the Hessian between two sets of coordinates (right = left if None)."""

    def reduced(self, at: Coordinates, soon: Coordinates) -> Reduced:
        """Return the Hessian of some coordinates; the last answer is kept, since a working set asks several times.

        Whenever the Hessian must grow, those expected ``soon`` are taken along.
        """
        self._uses += 1
        answer = self.last(at)
        if answer is None:
            answer = self._reduce(at, soon)
            self._last = (at, answer)
        return answer

    def last(self, at: Coordinates) -> Reduced | None:
        """Return the last answer if it was about these coordinates."""
        return self._last[1] if self._last is not None and self._last[0] is at else None

    def _reduce(self, at: Coordinates, soon: Coordinates) -> Reduced:
        q = self._q
        flat = at[0] * q + at[1]
        if np.any(self._position[flat] < 0):
            wanted = np.concatenate([flat, soon[0] * q + soon[1]])
            new = wanted[self._position[wanted] < 0]
            self._position[new] = np.arange(len(self._columns), len(self._columns) + len(new))
            self._extend(*np.divmod(new, q))
        index, free = self._position[flat], self._free
        H, across = self._H[np.ix_(index, index)], self._H[np.ix_(free, index)]
        if len(free) == 0:
            return Reduced(H, across, np.zeros((0, 0)))
        inverse = solve_symmetric(self._H[np.ix_(free, free)], np.eye(len(free)))
        before = H.diagonal().copy()
        H -= across.T @ (inverse @ across)
        # What rounding leaves of a column that is constant in the sample is no curvature.
        flat = np.flatnonzero(H.diagonal() <= 1e-10 * before)
        H[flat, flat] = 0.0
        return Reduced(H, across, inverse)

    def _extend(self, columns: Array, outputs: Array) -> None:
        old, new = (self._columns, self._outputs), (columns, outputs)
        self._columns, self._outputs = np.append(old[0], columns), np.append(old[1], outputs)
        size = len(self._H)
        if size == 0:
            self._H = self._gram((self._columns, self._outputs))
            return
        H = np.empty((len(self._columns),) * 2)
        H[:size, :size] = self._H
        H[size:, size:] = self._gram(new)
        H[size:, :size] = self._gram(new, old)
        H[:size, size:] = H[size:, :size].T
        self._H = H


class Snapshot(Growing):
    """The Hessian as it was at some point of a problem in memory.

    With many more rows than coordinates a random sample of rows is enough.
    """

    def __init__(self, problem: Problem, point: Point, size: int, damping: Any, rows: int | None = None) -> None:
        n, d = problem.design.shape
        q = point.eta.shape[1]
        super().__init__((d, q), q if problem.fit_intercept else 0)
        self._count = min(_sampled_rows(problem.design, q, size) if rows is None else rows, n)
        self.sampled = self._count < n  # whether some rows are left out
        used: Any = slice(None)
        if self.sampled:
            used, problem = problem.sample(self._count)
        curvature = problem.likelihood.curvature(point.eta[used], problem.y, problem.weight)
        self._curvature = curvature.damped(damping if np.ndim(damping) == 0 else damping[used], problem.weight)
        self._design = problem.design

    def renewed(self, problem: Problem, point: Point, damping: Any, *, more: int) -> Snapshot:
        """Return the Hessian at ``point``, from ``more`` times the rows if this one was of little use."""
        rows = max(self._count, _sampled_rows(problem.design, point.eta.shape[1], len(self._columns)))
        return Snapshot(problem, point, len(self._columns), damping, rows if self._uses > 2 else more * rows)

    def _gram(self, left: Coordinates, right: Coordinates | None = None) -> Array:
        return self._design.gram(self._curvature, left, right)


def _sampled_rows(design: Design, q: int, m: int) -> int:
    """Rows enough for the Hessian of m coordinates; all of them unless that saves at least half."""
    n, d = design.shape
    affordable = _PASSES * n * d * q / max(m, 1) ** 2
    fewest = min(_FEWEST_ROWS, _ROWS_PER_COLUMN / q)
    wanted = max(int(min(max(affordable, fewest * m), _MOST_ROWS * m)), _SMALLEST_SAMPLE)
    return n if 2 * wanted >= n else wanted


def gram_price(design: Design, q: int, m: int) -> float:
    """Return what a Hessian of m coordinates costs, in sweeps over their columns."""
    if isinstance(design, Csc):
        return float("inf")
    return m * _sampled_rows(design, q, m) / (design.shape[0] * _BLAS_ADVANTAGE)
