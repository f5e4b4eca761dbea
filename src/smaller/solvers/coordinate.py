"""Proximal Newton on a growing working set; the inner quadratic problem is solved by coordinate descent in C++.

The only file that imports the compiled core. Coordinates are pairs (column j, output k), sorted by output.

One step: pick the working set from the violations, then a few proximal Newton iterations on it. Each builds the
quadratic model of the loss at the current point, exact in the coupling between outputs, and minimises model plus
penalty in one of two ways that differ in cost only:

* *columns*: keep the residual up to date; a coordinate costs the length of its column;
* *gram*: form the Hessian of the working set once by BLAS; a coordinate costs the size of the working set.

The line search then works on eta alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import smaller._core as _core
from smaller.arrays import Array, solve_symmetric
from smaller.designs import Csc, Dense, Design
from smaller.likelihoods import Curvature
from smaller.problem import Certificate, Point, Problem
from smaller.solvers.driver import line_search

__all__ = ["Coordinate"]

_BUDGET = 1e8  # element visits before control returns to Python, some tens of milliseconds
_SMALLEST_SET = 64  # coordinates admitted to the first working set
_NEWTON_STEPS = 8


@dataclass(frozen=True)
class _WorkingSet:
    """Coordinates sorted by output, with their penalty."""

    columns: Array  # (m,) int64
    outputs: Array  # (m,) int64
    first: Array  # (q + 1,) int64
    slope: Array  # (m,)
    ridge: Array  # (m,)

    def violation(self, w: Array, g: Array) -> Array:
        gradient = g + self.ridge * w
        at_zero = np.maximum(np.abs(gradient) - self.slope, 0.0)
        return np.where(w == 0, at_zero, np.abs(gradient + self.slope * np.sign(w)))

    def penalty_change(self, old: Array, new: Array) -> float:
        return float(self.slope @ (np.abs(new) - np.abs(old)) + 0.5 * (self.ridge @ ((new - old) * (new + old))))


class Coordinate:
    """Working sets, proximal Newton, coordinate descent; the default for NumPy and SciPy data."""

    name = "coordinate"

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Lower the objective over the coordinates that matter now."""
        ws = _choose(problem, point, G)
        if len(ws.columns) == 0:
            return point
        local = _Local(problem, ws)
        g = G[ws.columns, ws.outputs]
        start = float(np.max(ws.violation(point.w[ws.columns, ws.outputs], g)))
        for _ in range(_NEWTON_STEPS):
            moved = local.newton(point, g)
            if moved is None:
                break
            point = moved
            g = local.gradient(point)
            if np.max(ws.violation(point.w[ws.columns, ws.outputs], g)) <= 0.1 * start:
                break
        return point


def _choose(problem: Problem, point: Point, G: Array) -> _WorkingSet:
    """All non-zero weights, and as many of the worst violators again."""
    violation = problem.prior.violation(point.w, G)
    active = point.w != 0
    active[problem.prior.free(problem.n_columns)] = True
    candidates = np.flatnonzero((violation > 0).ravel() & ~active.ravel())
    room = max(_SMALLEST_SET, int(active.sum()))
    if len(candidates) > room:
        worst = np.argpartition(violation.ravel()[candidates], -room)[-room:]
        candidates = candidates[worst]
    chosen = active.ravel()
    chosen[candidates] = True
    outputs, columns = np.nonzero(chosen.reshape(active.shape).T)  # sorted by output
    q = active.shape[1]
    slope, ridge = problem.prior.linearise(point.w, "l1")
    return _WorkingSet(
        columns.astype(np.int64),
        outputs.astype(np.int64),
        np.searchsorted(outputs, np.arange(q + 1)).astype(np.int64),
        np.ascontiguousarray(slope[columns, outputs]),
        np.ascontiguousarray(ridge[columns, outputs]),
    )


class _Local:
    """The problem restricted to a working set."""

    def __init__(self, problem: Problem, ws: _WorkingSet) -> None:
        self.problem, self.ws = problem, ws
        self.distinct, self.place = np.unique(ws.columns, return_inverse=True)
        # A copy of the few columns in use is small and contiguous; half of the design or more is used in place.
        self.whole = 4 * len(self.distinct) > problem.n_columns and isinstance(problem.design, Dense | Csc)
        self.design: Design = problem.design if self.whole else problem.design.take(self.distinct)
        self.index = ws.columns if self.whole else self.place.astype(np.int64)

    def gradient(self, point: Point) -> Array:
        return self.design.adjoint(point.residual)[self.index, self.ws.outputs]

    def newton(self, point: Point, g: Array) -> Point | None:
        """One proximal Newton iteration; None when no step lowers the objective any more."""
        ws, problem = self.ws, self.problem
        w = np.ascontiguousarray(point.w[ws.columns, ws.outputs])
        violation = float(np.max(ws.violation(w, g)))
        if violation == 0.0:
            return None
        curvature = problem.curvature(point)
        n, m = problem.design.shape[0], len(w)
        if self._prefers_gram(n, m):
            new, delta, db = self._solve_gram(point, curvature, w, g, 0.03 * violation)
        else:
            new, delta, db = self._solve_columns(point, curvature, w, g, 0.1 * violation)

        def move(t: float) -> tuple[Callable[[], Array], float]:
            trial = new if t == 1.0 else w + t * (new - w)

            def weights() -> Array:
                moved = point.w.copy()
                moved[ws.columns, ws.outputs] = trial
                return moved

            return weights, ws.penalty_change(w, trial)

        return line_search(problem, point, delta, db, move)

    def _prefers_gram(self, n: int, m: int) -> bool:
        if isinstance(self.design, Csc):
            return False
        return m <= 1500

    def _solve_columns(
        self, point: Point, curvature: Curvature, w: Array, g: Array, tol: float
    ) -> tuple[Array, Array, Array]:
        ws, problem = self.ws, self.problem
        n, q = point.eta.shape
        m = len(w)
        delta = np.zeros((q, n))
        db = np.zeros(q)
        progress = np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        new = w.copy()
        arguments = (
            ws.first,
            self.index,
            g,
            ws.slope,
            ws.ridge,
            new,
            np.zeros(m),
            np.zeros(m),
            np.ascontiguousarray(curvature.d.T),
            None if curvature.u is None else np.ascontiguousarray(curvature.u.T),
            delta,
            None if curvature.u is None else np.zeros(n),
            point.residual.sum(axis=0) if problem.fit_intercept else None,
            db,
            progress,
            100,
            tol,
            _BUDGET,
        )
        while not _run(self.design, arguments):
            pass
        return new, delta.T, db

    def _solve_gram(
        self, point: Point, curvature: Curvature, w: Array, g: Array, tol: float
    ) -> tuple[Array, Array, Array]:
        ws, problem = self.ws, self.problem
        m, q = len(w), point.eta.shape[1]
        columns, outputs = self.index, ws.outputs
        if problem.fit_intercept:
            columns = np.append(columns, np.full(q, self.design.shape[1]))
            outputs = np.append(outputs, np.arange(q))
        H = self.design.gram(curvature, columns, outputs)
        db = np.zeros(q)
        if problem.fit_intercept:  # minimise the intercepts out of the model
            gb = point.residual.sum(axis=0)
            across = solve_symmetric(H[m:, m:], np.column_stack([H[m:, :m], gb]))
            gradient = g - H[:m, m:] @ across[:, m]
            reduced = np.ascontiguousarray(H[:m, :m] - H[:m, m:] @ across[:, :m])
        else:
            gradient, reduced = g.copy(), H
        new = w.copy()
        _core.descend_gram(reduced, gradient, ws.slope, ws.ridge, new, 1000, tol)
        change = np.zeros((self.design.shape[1], q))
        change[self.index, ws.outputs] = new - w
        delta = self.design.forward(change)
        if problem.fit_intercept:
            db = -(across[:, :m] @ (new - w)) - across[:, m]
            delta += db
        return new, delta, db


def _run(design: Design, arguments: tuple[Any, ...]) -> bool:
    if isinstance(design, Csc):
        return bool(_core.descend_sparse(design.X.data, design.X.indices, design.X.indptr, *arguments))
    assert isinstance(design, Dense)
    return bool(_core.descend(design.X, *arguments))
