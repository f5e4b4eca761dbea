"""The Hessian of a working set, kept over many steps, and what it costs.

Near the optimum the curvature hardly changes, so one Hessian serves many steps; every step still uses the exact
gradient and a line search, so a stale or sampled Hessian costs iterations, never accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.arrays import Array, solve_symmetric
from smaller.designs import Csc, Design
from smaller.problem import Point, Problem

__all__ = ["Reduced", "Snapshot", "gram_price"]

_SAMPLE_ROWS = 30  # rows per coordinate in a sampled Hessian
_BLAS_ADVANTAGE = 17.0  # how much cheaper a multiplication is inside BLAS than inside a sweep


@dataclass(frozen=True)
class Reduced:
    """A Hessian out of which the intercepts have been minimised: they answer every step at once."""

    H: Array  # (m, m)
    across: Array  # (q, m) between intercepts and weights; no rows without intercepts
    inverse: Array  # (q, q) of the intercepts' own block

    def gradient(self, g: Array, gb: Array) -> Array:
        """Return the gradient in the weights once the intercepts have moved to their best place."""
        return g - (self.inverse @ gb) @ self.across

    def intercepts(self, step: Array, gb: Array) -> Array:
        """Return the intercepts' move that belongs to a step of the weights."""
        return -(self.inverse @ (gb + self.across @ step))


class Snapshot:
    """The Hessian as it was at some point, for a growing set of coordinates (the intercepts always among them).

    With many more rows than coordinates a random sample of rows is enough.
    """

    def __init__(self, problem: Problem, point: Point, size: int, damping: float, rows: int | None = None) -> None:
        n, d = problem.design.shape
        q = point.eta.shape[1]
        self._eta = point.eta
        self._design = problem.design
        self._curvature = problem.curvature(point).damped(damping, problem.weight)
        self._count = min(_sampled_rows(n, size) if rows is None else rows, n)
        self._scale = n / self._count
        if self._count < n:
            sample = _sample(n, self._count)
            self._scale = n / len(sample)
            self._design, self._curvature = self._design.rows(sample), self._curvature.rows(sample)
        free = q if problem.fit_intercept else 0
        self._free = np.arange(free)
        self._columns, self._outputs = np.full(free, d), np.arange(free)
        self._position = np.full(d * q, -1)
        self._H = np.zeros((0, 0))
        self._uses = 0
        self._last: tuple[Array, Array, Reduced] | None = None

    def exact_at(self, point: Point) -> bool:
        """Whether this is the true Hessian of ``point``."""
        return self._eta is point.eta and self._scale == 1.0

    def renewed(self, problem: Problem, point: Point, damping: float) -> Snapshot:
        """Return the Hessian at ``point``, from twice the rows if this one was of little use."""
        rows = max(self._count, _sampled_rows(problem.design.shape[0], len(self._columns)))
        return Snapshot(problem, point, len(self._columns), damping, rows if self._uses > 2 else 2 * rows)

    def reduced(self, columns: Array, outputs: Array) -> Reduced:
        """Return the Hessian of some coordinates; the last answer is kept, since a working set asks several times."""
        self._uses += 1
        if self._last is None or self._last[0] is not columns or self._last[1] is not outputs:
            self._last = (columns, outputs, self._reduce(columns, outputs))
        return self._last[2]

    def _reduce(self, columns: Array, outputs: Array) -> Reduced:
        flat = columns * self._curvature.d.shape[1] + outputs
        new = np.flatnonzero(self._position[flat] < 0)
        if len(new):
            size = len(self._columns)
            self._position[flat[new]] = np.arange(size, size + len(new))
            self._extend(columns[new], outputs[new])
        index, free = self._position[flat], self._free
        H = self._H[np.ix_(index, index)]
        across = self._H[np.ix_(free, index)]
        inverse = np.zeros((len(free), len(free)))
        if len(free):
            inverse = solve_symmetric(self._H[np.ix_(free, free)], np.eye(len(free)))
            H -= across.T @ (inverse @ across)
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

    def _gram(self, left: Any, right: Any = None) -> Array:
        return self._scale * self._design.gram(self._curvature, left, right)


def _sample(n: int, count: int) -> Array:
    """Return about ``count`` of n rows, in short runs of neighbours (which memory likes) at random places."""
    run = 32
    starts = np.sort(np.random.default_rng(0).choice(n // run, min(-(-count // run), n // run), replace=False))
    return (run * starts[:, None] + np.arange(run)).ravel()


def _sampled_rows(n: int, m: int) -> int:
    """Rows enough for the Hessian of m coordinates; all of them unless that saves at least half."""
    wanted = max(_SAMPLE_ROWS * m, 4096)
    return n if 2 * wanted >= n else wanted


def gram_price(design: Design, m: int) -> float:
    """Return what a Hessian of m coordinates costs, in sweeps over their columns."""
    if isinstance(design, Csc):
        return float("inf")
    n = design.shape[0]
    return m * _sampled_rows(n, m) / (n * _BLAS_ADVANTAGE)
