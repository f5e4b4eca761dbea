"""The quadratic model of a loss whose rows are elsewhere: made from a sample of them, kept by whoever asks.

The sample's Hessian, brought to the exact diagonal of all rows, and corrected (BFGS) by the exact gradients that every
step brings. What it gets wrong costs steps, never accuracy: gradients, losses and certificates are those of all rows.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array
from smaller.designs import Coordinates, as_design
from smaller.problem import Problem
from smaller.row_problem import RowPoint, RowProblem
from smaller.rows.host import HostRows
from smaller.rows.protocol import Place, Rows, Totals
from smaller.rows.scaled import Scaled
from smaller.solvers import solve
from smaller.solvers.hessian import Growing, Reduced
from smaller.solvers.model import Step
from smaller.solvers.working_set import WorkingSet, minimise_quadratic

__all__ = ["SampledModel", "draw", "in_memory"]

_ROWS, _BYTES = 60_000, 1 << 28  # of the sample: as many rows, unless they take more memory
_ALL = 3  # times the rows there are, and every row is in the sample for certain
_REMEMBERED = 12  # steps whose gradients correct the model
_LEAST_DAMPING, _FAR_DAMPING = 1e-4, 1e-2  # where damping begins: for all rows, for those that a step carries far
_ROUGH = 1e-4  # tolerance of the head start on the sample
_FAR = 2.0  # in eta: the quadratic model says little about a row that moves further
_STALE = 0.5  # a step that does not halve the violation speaks against the model
_BAD = 2  # such steps, and the model is made anew where they led
_TRIED, _TIRED = 2, 7  # models of the sample, and steps with them; then the Hessian of all rows is asked for
_LARGEST_EXACT = 1000  # coordinates for which rows answer that question


def draw(rows: Rows, totals: Totals) -> SampledModel:
    """Return a model of rows that are drawn by lot; of all rows, if they are few."""
    if rows.n_rows <= _ROWS and _size(rows, rows.n_rows) <= _BYTES:
        return SampledModel(rows.sample(_ALL * max(rows.n_rows, 1), totals), complete=True)
    fitting = max(int(_BYTES // _size(rows, 1)), 1)
    if fitting >= _ROWS:
        return SampledModel(rows.sample(_ROWS, totals))
    found = rows.sample(fitting, totals)  # of wide data; sparse ones take less than it seems
    taken = max(_bytes(found.design.matrix) / max(found.n_rows, 1), 1.0)
    count = min(int(_BYTES / taken), _ROWS)
    return SampledModel(found if count < 2 * fitting else rows.sample(count, totals))


def _size(rows: Rows, count: int) -> float:
    return float(count * rows.n_columns * np.dtype(rows.dtype).itemsize)


def _bytes(matrix: Any) -> float:
    parts = (matrix.data, matrix.indices, matrix.indptr) if sparse.issparse(matrix) else (matrix,)
    return float(sum(part.nbytes for part in parts))


def in_memory(problem: RowProblem, sample: HostRows) -> Problem | None:
    """Return the problem of the sample alone, for solvers of data in memory; None where they have no word for it."""
    part = sample if problem.fold is None else sample.subset(problem.fold)
    likelihood, design = part.likelihood, part.design
    if part.offset is not None or likelihood.n_free != likelihood.n_outputs or part.n_rows == 0:
        return None
    if isinstance(design, Scaled):
        if _size(part, part.n_rows) > _BYTES:  # sparse data, shifted: all of it is there
            return None
        design = as_design(design.matrix)
    if not np.isfinite(likelihood.null(part.y, part.weight)).all():  # a class is missing
        return None
    weight = None if part.weight is None or (part.weight == 1.0).all() else part.weight
    return Problem(design, part.y, weight, likelihood, problem.prior, problem.fit_intercept)


class _Hessian(Growing):
    """The sample's Hessian at a place, rescaled to the exact diagonal of all rows."""

    def __init__(
        self, sample: HostRows, place: Place, damping: float | Array, n_free: int, exact: Array, sampled: Array
    ) -> None:
        super().__init__(exact.shape, n_free)
        self._sample, self._place, self._damping, self._exact = sample, place, damping, exact
        self._unseen = sampled <= 0.0
        self._scale = np.where(self._unseen, 1.0, np.sqrt(exact / np.where(self._unseen, 1.0, sampled)))

    def _gram(self, left: Coordinates, right: Coordinates | None = None) -> Array:
        H = self._sample.damped_hessian(self._place, self._damping, left, right)
        H *= self._factors(*left)[:, None]
        H *= self._factors(*(left if right is None else right))
        if right is None:  # columns without an entry in the sample: their own curvature is known all the same
            inner = np.flatnonzero(left[0] < len(self._exact))
            at = left[0][inner], left[1][inner]
            inner, values = inner[self._unseen[at]], self._exact[at][self._unseen[at]]
            H[inner, inner] = values
        return H

    def _factors(self, columns: Array, outputs: Array) -> Array:
        factors = np.ones(len(columns))
        inner = columns < len(self._exact)
        factors[inner] = self._scale[columns[inner], outputs[inner]]
        return factors


class _Exact(Growing):
    """The Hessian of all rows at a place: a question whenever it grows. Damped on its diagonal."""

    def __init__(self, problem: RowProblem, place: Place, level: float) -> None:
        super().__init__((problem.n_columns, problem.rows.likelihood.n_outputs), problem.n_free)
        self._rows, self._place, self._level = problem.rows, place, level

    def _gram(self, left: Coordinates, right: Coordinates | None = None) -> Array:
        H = self._rows.hessian(self._place, left, right)
        if right is None:
            H[np.diag_indices_from(H)] *= 1.0 + self._level
        return H


class SampledModel:
    """The model at the last place where it was made, and what the steps since then have taught."""

    margin = 0.0

    def __init__(self, sample: HostRows, complete: bool = False) -> None:
        self.sample, self.complete = sample, complete  # whether the sample is all rows
        self._hessian: Growing | None = None
        self._models = self._steps = 0  # models made, and steps taken, in this descent
        self._pairs: deque[tuple[Array, Array, Array, Array]] = deque(maxlen=_REMEMBERED)
        self._reduced: tuple[Coordinates, Reduced] | None = None
        self._level = 0.0  # of damping
        self._far: Array | None = None  # rows that are damped, if not all of them
        self._bad = 0

    def begin(self) -> None:
        """Begin another descent with what is known."""
        self._models = self._steps = 0

    def another(self) -> SampledModel:
        """Return a model of the same sample that knows nothing yet."""
        return SampledModel(self.sample, self.complete)

    def head_start(self, problem: RowProblem, tol: float) -> tuple[Array, Array] | None:
        """Return the solution of the sample alone: to the last digit wanted, if it is all there is."""
        part = in_memory(problem, self.sample)
        if part is None:
            return None
        found = solve(part, tol=0.5 * tol if self.complete else max(tol, _ROUGH))
        return found.w, found.b

    def step(self, problem: RowProblem, point: RowPoint, ws: WorkingSet, tol: float) -> Step:
        """Return the step to the minimiser of model and penalty over a working set."""
        model = self._model(problem, point, ws)
        free = problem.n_free
        old = np.ascontiguousarray(point.w[ws.at])
        new, g, gb = old.copy(), point.G[ws.at], point.gb[:free]
        if len(new):
            minimise_quadratic(model.H, model.gradient(g, gb), ws.slope, ws.ridge, new, tol)
        return Step.to(problem, point, ws, new, model.intercepts(new - old, gb))

    def _model(self, problem: RowProblem, point: RowPoint, ws: WorkingSet) -> Reduced:
        if self._hessian is None:
            self._hessian, self._reduced = self._made(problem, point, len(ws.columns)), None
            self._models += 1
        if self._reduced is None or self._reduced[0] is not ws.at:
            model = self._hessian.reduced(ws.at, ws.soon)
            for pair in self._pairs:
                _learn(model, ws, *pair)
            self._reduced = ws.at, model
        return self._reduced[1]

    def _made(self, problem: RowProblem, point: RowPoint, size: int) -> Growing:
        place = problem.place(point.w, point.b)
        if (self._models >= _TRIED or self._steps >= _TIRED) and size <= _LARGEST_EXACT:
            return _Exact(problem, place, self._level)
        damping = self._level if self._far is None else self._level * self._far
        exact, sampled = problem.rows.squares(place), self.sample.squares(place)
        return _Hessian(self.sample, place, damping, problem.n_free, exact, sampled)

    def learn(self, problem: RowProblem, before: RowPoint, after: RowPoint, step: Step, *, left: float) -> None:
        """Correct the model by two points of a full step; ``left`` is the part of the violation that is left."""
        free = problem.n_free
        pair = (after.w - before.w, after.b[:free] - before.b[:free], after.G - before.G, (after.gb - before.gb)[:free])
        self._pairs.append(pair)
        if self._reduced is not None and self._reduced[0] is step.ws.at:
            _learn(self._reduced[1], step.ws, *pair)
        self._level = self._level / 10.0 if self._level > _LEAST_DAMPING else 0.0
        self._bad = 0 if left <= _STALE else self._bad + 1
        self._steps += 1
        if self._bad >= _BAD or self._steps == _TIRED:
            self.forget()

    def forget(self) -> None:
        """Have the Hessian made anew at the next point."""
        self._hessian, self._reduced, self._bad = None, None, 0
        self._pairs.clear()

    def damp(self, before: Place, after: Place) -> None:
        """Learn from a step that could not be taken: it carried rows to where the quadratic model knows nothing."""
        move = self.sample.outputs(after) - self.sample.outputs(before)
        far = np.abs(move).max(axis=1, initial=0.0) > _FAR
        if self._level == 0.0 or not far.any():
            self._far = far if far.any() else None
        elif self._far is not None:
            self._far = self._far | far
        self._level = max(10.0 * self._level, _FAR_DAMPING if far.any() else _LEAST_DAMPING)
        self.forget()


def _learn(model: Reduced, ws: WorkingSet, dw: Array, db: Array, dG: Array, dgb: Array) -> None:
    moved = dw[ws.at]
    if moved.any():
        model.learn(moved, model.gradient(dG[ws.at], dgb))
