"""The quadratic model of all rows, kept where they are: for rows that answer "gram" (a device).

There the Hessian of all rows costs a few large products, less than the steps that a sample of rows would waste. It is
kept until it serves badly, or a weight outside it must move. What crosses is gradients and weights of the working set.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.arrays import Array, array_namespace, from_host, solve_symmetric, to_host
from smaller.row_problem import RowPoint, RowProblem
from smaller.rows.protocol import Place
from smaller.solvers.bulk import minimise_in_bulk
from smaller.solvers.model import Step
from smaller.solvers.working_set import WorkingSet

__all__ = ["WholeModel"]

_NEAR, _ROOM = 0.4, 64  # zero weights whose gradients are within this fraction of the slope may be wanted soon
_STALE = 0.3  # a step that leaves more of the violation asks for a new Hessian
_CONSTANT = 1e-10  # of a column's curvature left beside the free numbers: rounding


class _Known:
    """The Hessian of some coordinates, out of which the free numbers have been minimised; on the device."""

    def __init__(self, problem: RowProblem, point: RowPoint, ws: WorkingSet) -> None:
        d, q, free = problem.n_columns, problem.rows.likelihood.n_outputs, problem.n_free
        self._q, self._numbers = q, np.union1d(ws.columns * q + ws.outputs, _soon(problem, point, len(ws.columns)))
        m = len(self._numbers)
        columns, outputs = np.divmod(self._numbers, q)
        at = np.append(columns, np.full(free, d)), np.append(outputs, np.arange(free))
        H: Any = problem.rows.gram(problem.place(point.w, point.b), at)  # type: ignore[attr-defined]
        xp = array_namespace(H)
        self.across, self.inverse, whole = H[m:, :m], H[m:, m:], H[:m, :m]
        if free:
            inverse = solve_symmetric(to_host(self.inverse), np.eye(free))
            self.inverse = from_host(inverse, H)
            left = whole - xp.matmul(xp.matrix_transpose(self.across), xp.matmul(self.inverse, self.across))
            before, after = xp.linalg.diagonal(whole), xp.linalg.diagonal(left)
            varies = xp.astype(after > _CONSTANT * before, H.dtype)
            whole = left * varies[:, None] * varies[None, :]
        self.H = whole

    def holds(self, ws: WorkingSet) -> bool:
        """Whether all coordinates of a working set are here."""
        return bool(np.isin(ws.columns * self._q + ws.outputs, self._numbers).all())

    def part(self, ws: WorkingSet) -> tuple[Array, Array, Array]:
        """Return the Hessian of a working set, its block across to the free numbers, and their inverse block."""
        xp = array_namespace(self.H)
        index = from_host(np.searchsorted(self._numbers, ws.columns * self._q + ws.outputs), self.H)
        H = xp.take(xp.take(self.H, index, axis=0), index, axis=1)
        return H, xp.take(self.across, index, axis=1), self.inverse


def _soon(problem: RowProblem, point: RowPoint, m: int) -> Array:
    """Return the numbers of coordinates that may be wanted before long, at most about as many as are wanted now."""
    slope, ridge = problem.prior.linearise(point.w, "l1")
    near = np.ravel(np.abs(point.G + ridge * point.w) - (1.0 - _NEAR) * slope)
    found = np.flatnonzero(near > 0.0)
    most = m + _ROOM
    return found if len(found) <= most else found[np.argpartition(near[found], -most)[-most:]]


class WholeModel:
    """The Hessian of all rows at the last place where it was made."""

    margin = 0.1

    def __init__(self) -> None:
        self._known: _Known | None = None
        self._part: tuple[WorkingSet, tuple[Array, Array, Array], tuple[Array, Array]] | None = None

    def begin(self) -> None:
        """Begin another descent with what is known."""

    def another(self) -> WholeModel:
        """Return a model that knows nothing yet."""
        return WholeModel()

    def head_start(self, problem: RowProblem, tol: float) -> tuple[Array, Array] | None:
        """Return None: a look at all rows costs little here, and going down through strengths is a better start."""
        return None

    def step(self, problem: RowProblem, point: RowPoint, ws: WorkingSet, tol: float) -> Step:
        """Return the step to the minimiser of model and penalty over a working set."""
        (H, across, inverse), (slope, ridge) = self._at(problem, point, ws)
        xp, m, old = array_namespace(H), len(ws.columns), point.w[ws.at]
        brought = from_host(np.concatenate([point.G[ws.at], old, point.gb[: problem.n_free]]), H)
        g, w, gb = brought[:m], brought[m : 2 * m], brought[2 * m :]
        reduced = g - xp.matmul(xp.matmul(inverse, gb), across) if problem.n_free else g
        new = minimise_in_bulk(H, reduced, slope, ridge, w, tol) if m else w
        db = -xp.matmul(inverse, gb + xp.matmul(across, new - w)) if problem.n_free else gb
        answer = to_host(xp.concat([new, db]))
        return Step.to(problem, point, ws, answer[:m], answer[m:])

    def _at(
        self, problem: RowProblem, point: RowPoint, ws: WorkingSet
    ) -> tuple[tuple[Array, Array, Array], tuple[Array, Array]]:
        if self._known is None or not self._known.holds(ws):
            self._known, self._part = _Known(problem, point, ws), None
        if self._part is None or self._part[0] is not ws:
            H = self._known.H
            self._part = ws, self._known.part(ws), (from_host(ws.slope, H), from_host(ws.ridge, H))
        return self._part[1:]

    def learn(self, problem: RowProblem, before: RowPoint, after: RowPoint, step: Step, *, left: float) -> None:
        """Give the Hessian up if it has served badly."""
        if left > _STALE:
            self.forget()

    def forget(self) -> None:
        """Have the Hessian made anew at the next point."""
        self._known = self._part = None

    def damp(self, before: Place, after: Place) -> None:
        """Give the Hessian up: the line search has found where it is still true."""
        self.forget()
