"""Proximal Newton on a growing working set; the inner quadratic problem is solved by coordinate descent in C++.

One step: pick the working set from the violations, then a few proximal Newton iterations on it. Each builds the
quadratic model of the loss at the current point, exact in the coupling between outputs, and minimises model plus
penalty in one of two ways that differ in cost only:

* *columns*: keep the residual up to date; a coordinate costs the length of its column;
* *gram*: form the Hessian of the working set once by BLAS; a coordinate costs the size of the working set.

The line search then works on eta alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.designs import Csc, Dense, Design
from smaller.problem import Certificate, Point, Problem, Solution, rounding
from smaller.solvers import core
from smaller.solvers.driver import drive, line_search, needs_host, only_single_weights
from smaller.solvers.hessian import Reduced, Snapshot, gram_price
from smaller.solvers.working_set import WorkingSet, choose, minimise_quadratic

__all__ = ["Coordinate", "head_start"]

_BUDGET = 1e8  # element visits before control returns to Python, some tens of milliseconds
_TALL, _ROUGH = 20_000, 1e-2  # rows from which on a sample is solved first, and its tolerance
_OUTSIDE = 3.0  # times the violation in the working set: enough to choose a new one
_STALE = 0.5  # a step that does not halve the violation asks for a fresh Hessian
_LEAST_DAMPING, _FAR_DAMPING = 1e-4, 1e-2  # where damping begins: for all rows, for those that a step carries far
_SHORT_STEP, _FAR = 0.5, 2.0  # in eta: the curvature hardly changes; the quadratic model says little about a row
_TRIFLE = 4e6  # multiplications: a Hessian this small is renewed at every step
_SOON = 0.1  # on a path: coordinates for which the Hessian is made in advance, as a fraction of those in use
_CHEAP = 6  # a Hessian that costs no more sweeps than this is made at once
_LARGEST_PRICE = 200.0  # beyond this (3400 coordinates) it would be too large to keep


@dataclass(frozen=True)
class _Step:
    """From a point to the minimiser of a model: ``delta``, if ``change`` is given plus ``X change``, in eta."""

    new: Array  # (m,) weights of the working set
    delta: Array  # (n, q), or (q,) if it is the intercepts' part
    db: Array  # (q,)
    change: Array | None = None  # (columns in use, q) of the weights


class Coordinate:
    """Working sets, proximal Newton, coordinate descent; the default for NumPy and SciPy data."""

    name = "coordinate"
    pace = 20

    def __init__(self) -> None:
        self._hessian: Snapshot | None = None
        self._level = 0.0  # of damping
        self._far: Array | None = None  # rows (n,) that are damped, if not all of them
        self.lookahead = 0.0  # admit zero weights whose gradient is within this fraction of the slope, once

    @staticmethod
    def suits(problem: Problem) -> str | None:
        return only_single_weights("coordinate", problem) or needs_host("coordinate", problem)

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Lower the objective over the coordinates that matter now."""
        point = _without_flat_part(problem, point)
        ws, complete = self._choose(problem, point, G)
        if len(ws.columns) == 0:
            return point
        local = _Local(problem, ws)
        # On a path G belongs to the last solution, good enough for the choice, and the point may be a prediction.
        g = G[ws.columns, ws.outputs] if self.lookahead == 0.0 else local.gradient(point)
        self.lookahead = 0.0
        violation = ws.worst(point.w, g)
        target = 0.1 * violation
        if complete:  # no violator was left out: go all the way, to a gap of about violation * |w|_1
            target = min(target, 0.9 * aim / max(float(np.abs(point.w).sum()), 1e-300))
        if core.is_small(problem) and self._hessian is None:
            point, slow = self._compiled_newton(local, point, target)
            if not slow:
                return point
            g = local.gradient(point)
        for _ in range(core.NEWTON_STEPS):
            previous = violation
            step = self._minimise_model(local, point, g, previous, target)
            before = point
            point, taken, found = local.search(point, g, step) or (point, 0.0, None)
            if taken == 0.0 and self._level >= 1.0:
                break
            self._adapt(local, point, step, taken)
            if taken == 0.0:
                continue
            old, g = g, local.gradient(point) if found is None else local.pick(found)
            used = None if self._hessian is None else self._hessian.last(ws.at)
            if used is not None:
                local.learn(used, before, old, point, g)
            violation = ws.worst(point.w, g)
            if violation <= target or _worse_outside(problem, point, violation):
                break
            if self._hessian is not None and (local.trifle or violation > _STALE * previous):
                # After a short step the curvature is the same: more rows are needed.
                more = 2 if np.abs(point.eta - before.eta).max() < _SHORT_STEP else 1
                self._hessian = self._hessian.renewed(problem, point, self._damping, more=more)
        return point

    def _choose(self, problem: Problem, point: Point, G: Array) -> tuple[WorkingSet, bool]:
        def soon(m: int) -> int:
            """Return for how many coordinates more the Hessian is to be made in advance."""
            worth = self.lookahead > 0.0 and not core.is_small(problem) and _price(problem, m) <= _LARGEST_PRICE
            return int(_SOON * m) if worth else 0

        room = core.room(problem, self.lookahead)
        return choose(problem.prior, point.w, G, room=room, margin=self.lookahead, soon=soon)

    def _compiled_newton(self, local: _Local, point: Point, target: float) -> tuple[Point, bool]:
        """Take all Newton steps in the core; returns the point, and whether the columns were too correlated."""
        problem, ws = local.problem, local.ws
        w, b = point.w[ws.columns, ws.outputs], point.b.copy()
        old = w.copy()
        eta, residual = point.eta.T.copy(), np.empty_like(point.eta.T)
        _, loss, self._level, _, slow = core.call(
            "newton",
            local.design,
            (ws.first, local.index, ws.slope, ws.ridge, w, b, eta, residual, problem.y.T, problem.weight),
            (not problem.likelihood.shift_invariant, problem.fit_intercept, self._level, target),
            (core.NEWTON_STEPS, core.MOST_SWEEPS),
        )
        weights = point.w.copy()
        weights[ws.columns, ws.outputs] = w
        penalty = point.penalty + ws.penalty_change(old, w)
        drift = point.drift + core.NEWTON_STEPS * rounding(eta)
        return Point(weights, b, eta.T, loss, residual.T, penalty, drift), slow

    def _minimise_model(self, local: _Local, point: Point, g: Array, violation: float, target: float) -> _Step:
        """Return the step to the quadratic model's minimiser, by the cheaper of the two ways."""
        problem, price = local.problem, local.price
        if price > _LARGEST_PRICE:
            self._hessian = None
        if self._hessian is None and price <= _CHEAP:
            self._hessian = Snapshot(problem, point, len(g), self._damping)
        if self._hessian is not None:
            return local.solve_gram(point, self._hessian, g, max(0.03 * violation, 0.3 * target))
        # Rent before buying: as many sweeps as the Hessian would cost; if they do not do, it is worth having.
        sweeps = int(min(max(price, _CHEAP), core.MOST_SWEEPS))
        step, done = local.solve_columns(point, g, max(0.1 * violation, target), sweeps, self._damping)
        if not done and price <= _LARGEST_PRICE:
            self._hessian = Snapshot(problem, point, len(g), self._damping)
        return step

    @property
    def _damping(self) -> Any:
        """What is added to the curvature of each row; a number where all rows get the same."""
        return self._level if self._far is None else self._level * self._far

    def _adapt(self, local: _Local, point: Point, step: _Step, taken: float) -> None:
        """Learn from the fraction of a step that could be taken.

        A model that promises too much saw rows where there is hardly any curvature, but would be some on the way: such
        rows are damped. If the step carries no row far, the model is made of too few rows.
        """
        if taken == 1.0:
            self._level = self._level / 10.0 if self._level > _LEAST_DAMPING else 0.0
        if taken >= 0.5:
            return
        far = np.abs(local.delta(step)).max(axis=1) > _FAR
        if self._hessian is not None and self._hessian.sampled and not far.any():
            self._hessian = self._hessian.renewed(local.problem, point, self._damping, more=4)
            return
        if self._level == 0.0 or not far.any():
            self._far = far if far.any() else None
        elif self._far is not None:
            self._far |= far
        self._level = max(10.0 * self._level, _FAR_DAMPING if far.any() else _LEAST_DAMPING)
        self._hessian = None


def head_start(problem: Problem) -> Solution | None:
    """Return a rough solution for a sample of rows, from where tall data need fewer passes; None if not worth it."""
    n = problem.design.shape[0]
    if n < _TALL or not isinstance(problem.design, Dense):
        return None
    _, part = problem.sample(n // 16)
    if not np.isfinite(part.likelihood.null(part.y, part.weight)).all():  # a class is missing
        return None
    return drive(part, Coordinate(), head_start(part), tol=_ROUGH)


def _without_flat_part(problem: Problem, point: Point) -> Point:
    """Remove what costs a penalty and moves nothing: with all classes in use, a common shift of a column's weights.

    No step could: along that direction the quadratic model is flat, and Newton's steps run away.
    """
    if not (problem.likelihood.shift_invariant and (point.w != 0).all(axis=1).any()):
        return point
    w, b = problem.canonical(point.w, point.b)
    penalty = problem.prior.penalty(w)
    return replace(point, w=w, b=b, penalty=penalty) if penalty < point.penalty else point


def _worse_outside(problem: Problem, point: Point, violation: float) -> bool:
    """Whether the gradient of all columns, where it came for free, shows more to do outside of the working set."""
    return point.G is not None and float(problem.prior.violation(point.w, point.G).max()) > _OUTSIDE * violation


def _price(problem: Problem, m: int) -> float:
    return gram_price(problem.design, problem.y.shape[1], m)


class _Local:
    """The problem restricted to a working set."""

    def __init__(self, problem: Problem, ws: WorkingSet) -> None:
        self.problem, self.ws = problem, ws
        m = len(ws.columns)
        self.price = _price(problem, m)
        n = problem.design.shape[0]
        self.trifle = n * m * m <= _TRIFLE
        self.distinct, self.place = np.unique(ws.columns, return_inverse=True)
        # A copy of the few columns in use is small and contiguous; half of the design or more is used in place.
        self.whole = 4 * len(self.distinct) > problem.n_columns and isinstance(problem.design, Dense | Csc)
        self.design: Design = problem.design if self.whole else problem.design.take(self.distinct)
        self.index = ws.columns if self.whole else self.place.astype(np.int64)

    def gradient(self, point: Point) -> Array:
        return self.pick(self.design.adjoint(point.residual))

    def pick(self, G: Array) -> Array:
        """Return what belongs to the working set out of the gradient in all weights of its columns."""
        return G[self.index, self.ws.outputs]

    def learn(self, model: Reduced, before: Point, old: Array, after: Point, new: Array) -> None:
        """Correct the Hessian by what was found between two points, ``old`` and ``new`` being the gradients there."""
        turn = after.gb - before.gb if self.problem.fit_intercept else np.zeros(0)
        model.learn((after.w - before.w)[self.ws.at], model.gradient(new - old, turn))

    def solve_columns(self, point: Point, g: Array, tol: float, sweeps: int, damping: Any) -> tuple[_Step, bool]:
        """Minimise the model at ``point`` with the residual kept up to date.

        Returns the step and whether ``tol`` was reached within ``sweeps``.
        """
        ws, problem = self.ws, self.problem
        curvature = problem.curvature(point).damped(damping, problem.weight)
        w = np.ascontiguousarray(point.w[ws.columns, ws.outputs])
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
            point.gb if problem.fit_intercept else None,
            db,
            progress,
            sweeps,
            tol,
            _BUDGET,
        )
        while not core.call("descend", self.design, arguments):
            pass
        return _Step(new, delta.T, db), progress[2] < sweeps

    def solve_gram(self, point: Point, snapshot: Snapshot, g: Array, tol: float) -> _Step:
        """Minimise the model with an explicit Hessian; what that does to eta is left to the line search."""
        ws, problem = self.ws, self.problem
        w = np.ascontiguousarray(point.w[ws.columns, ws.outputs])
        q = point.eta.shape[1]
        model = snapshot.reduced(ws.at, ws.soon)
        gb = point.gb if problem.fit_intercept else np.zeros(0)
        new = w.copy()
        minimise_quadratic(model.H, model.gradient(g, gb), ws.slope, ws.ridge, new, tol)
        change = np.zeros((self.design.shape[1], q))
        change[self.index, ws.outputs] = new - w
        db = model.intercepts(new - w, gb) if problem.fit_intercept else np.zeros(q)
        return _Step(new, db, db, change)

    def delta(self, step: _Step) -> Array:
        """Return the whole step in eta."""
        return step.delta if step.change is None else self.design.forward(step.change) + step.delta

    def search(self, point: Point, g: Array, step: _Step) -> tuple[Point, float, Array | None] | None:
        """Line search towards the model's minimiser; see `line_search`."""
        ws, new = self.ws, step.new
        w = point.w[ws.columns, ws.outputs]

        def move(t: float) -> tuple[Callable[[], Array], float]:
            trial = new if t == 1.0 else w + t * (new - w)

            def weights() -> Array:
                moved = point.w.copy()
                moved[ws.columns, ws.outputs] = trial
                return moved

            return weights, ws.penalty_change(w, trial)

        slope = float(g @ (new - w) + point.gb @ step.db)
        found = line_search(self.problem, point, slope, step.delta, step.db, move, self.design, step.change)
        if found is None or not self.whole or found[2] is None:
            return found
        return replace(found[0], G=found[2]), *found[1:]
