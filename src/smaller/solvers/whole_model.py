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
from smaller.solvers.hessian import Reduced
from smaller.solvers.model import Step
from smaller.solvers.working_set import WorkingSet, minimise_quadratic

__all__ = ["WholeModel"]

_STALE = 0.3  # a step that leaves more of the violation asks for a new Hessian
_FEW = 500  # coordinates whose model is fetched and swept by the core: it is done before launches are
_MANY = 3000  # coordinates for which sweeps are still possible
_PRECISE = 0.01  # of the violation that a step may leave: sweeps to the end cost less than another step
_CONSTANT = 1e-10  # of a column's curvature left beside the free numbers: rounding


class _Known:
    """The Hessian of some coordinates, out of which the free numbers have been minimised; on the device."""

    def __init__(self, problem: RowProblem, point: RowPoint, ws: WorkingSet) -> None:
        d, q, free = problem.n_columns, problem.rows.likelihood.n_outputs, problem.n_free
        self._q, m = q, len(ws.columns)
        self._position = np.full(d * q, -1)
        self._position[ws.columns * q + ws.outputs] = np.arange(m)
        at = np.append(ws.columns, np.full(free, d)), np.append(ws.outputs, np.arange(free))
        H: Any = problem.rows.gram(problem.place(point.w, point.b), at)  # type: ignore[attr-defined]
        xp = array_namespace(H)
        self.across, self.inverse, whole = H[m:, :m], H[m:, m:], H[:m, :m]
        if free:
            inverse = solve_symmetric(to_host(self.inverse), np.eye(free))
            self.inverse = from_host(inverse, H)
            left = whole - xp.matmul(xp.matrix_transpose(self.across), xp.matmul(self.inverse, self.across))
            varies = xp.linalg.diagonal(left) > _CONSTANT * xp.linalg.diagonal(whole)
            whole = left if bool(xp.all(varies)) else left * xp.astype(varies[:, None] & varies[None, :], H.dtype)
        self.H = whole

    def part(self, ws: WorkingSet) -> Reduced | None:
        """Return the Hessian of a working set; None if some of its coordinates are not here."""
        index = self._position[ws.columns * self._q + ws.outputs]
        if (index < 0).any():
            return None
        if len(index) == self.H.shape[0]:
            return Reduced(self.H, self.across, self.inverse)
        xp, at = array_namespace(self.H), from_host(index, self.H)
        H = xp.take(xp.take(self.H, at, axis=0), at, axis=1)
        return Reduced(H, xp.take(self.across, at, axis=1), self.inverse)


class WholeModel:
    """The Hessian of all rows at the last place where it was made."""

    margin = 0.1

    def __init__(self) -> None:
        self._known: _Known | None = None
        self._part: tuple[WorkingSet, Reduced, tuple[Array, Array]] | None = None
        self._few = _FEW  # up to so many coordinates are swept on the host

    def begin(self) -> None:
        """Begin another descent: a Hessian costs less than the steps that one of another strength would waste."""
        self.forget()

    def another(self) -> WholeModel:
        """Return a model that knows nothing yet."""
        return WholeModel()

    def head_start(self, problem: RowProblem, tol: float) -> tuple[Array, Array] | None:
        """Return None: a look at all rows costs little here, and going down through strengths is a better start."""
        return None

    def step(self, problem: RowProblem, point: RowPoint, ws: WorkingSet, tol: float) -> Step:
        """Return the step to the minimiser of model and penalty over a working set."""
        model, (slope, ridge) = self._at(problem, point, ws)
        m, old, here = len(ws.columns), point.w[ws.at], point.gb[: problem.n_free]
        brought = from_host(np.concatenate([point.G[ws.at], old, here]), model.H)
        g, w, gb = brought[:m], brought[m : 2 * m], brought[2 * m :]
        reduced, new = model.gradient(g, gb), w
        if m > self._few:
            new, found = minimise_in_bulk(model.H, reduced, slope, ridge, w, tol)
            if not found and m <= _MANY:  # nearly collinear columns: sweeps get there, now and later
                self._few, self._part = _MANY, None
                return self.step(problem, point, ws, tol)
        elif m:
            new = w.copy()
            minimise_quadratic(model.H, reduced, slope, ridge, new, _PRECISE * tol)
        answer = to_host(array_namespace(new).concat([new, model.intercepts(new - w, gb)]))
        return Step.to(problem, point, ws, answer[:m], answer[m:])

    def _at(self, problem: RowProblem, point: RowPoint, ws: WorkingSet) -> tuple[Reduced, tuple[Array, Array]]:
        if self._part is None or self._part[0] is not ws:
            model = None if self._known is None else self._known.part(ws)
            if self._known is None or model is None:
                self._known = _Known(problem, point, ws)
                model = self._known.part(ws)
            assert model is not None
            if len(ws.columns) <= self._few:
                model = Reduced(*map(to_host, (model.H, model.across, model.inverse)))
            self._part = ws, model, (from_host(ws.slope, model.H), from_host(ws.ridge, model.H))
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
