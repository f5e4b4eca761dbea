"""Proximal Newton for penalties that tie weights together (groups) or keep them within limits.

One step: choose groups of columns from the violations, form the Hessian of all their weights, minimise the quadratic
model plus penalty by descent over blocks in C++ (`block_model`), and search along the way there. What `coordinate` has
beyond this (sweeps without a Hessian, whole rounds in the core) knows single weights only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smaller.arrays import Array
from smaller.designs import Coordinates, Design
from smaller.priors import Prior
from smaller.problem import Certificate, Point, Problem
from smaller.solvers import core
from smaller.solvers.block_model import BlockModel
from smaller.solvers.driver import line_search, needs_host
from smaller.solvers.hessian import Snapshot

__all__ = ["Blockwise"]

_FEWEST = 16  # groups that a working set has room for, at least
_STALE = 0.5  # a step that does not halve the violation asks for a fresh Hessian
_LEAST_DAMPING = 1e-3
_TRIFLE = 4e6  # multiplications: a Hessian this small is renewed at every step
_NOTHING = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class _Part:
    """Some columns of a problem, sorted by group, with all their weights."""

    problem: Problem
    columns: Array  # (m,)
    at: Coordinates  # every output of every column
    design: Design
    prior: Prior
    complete: bool  # whether no violator is left out

    @classmethod
    def of(cls, problem: Problem, point: Point, G: Array, margin: float) -> _Part:
        """Choose the groups in use, and those whose gradient is, or by the strong rule may soon be, too steep."""
        prior, d = problem.prior, problem.n_columns
        group = prior.groups(d)
        now = _largest(prior.violation(point.w, G), group)
        steep = _largest(prior.times(max(1.0 - margin, 0.0)).violation(point.w, G), group) if margin > 0.0 else now
        used = np.zeros(len(now), dtype=bool)
        used[group[point.w.any(axis=1)]] = True
        used[group[prior.free(d)]] = True
        room = max(core.room(problem, margin) // point.w.shape[1], _FEWEST, int(np.count_nonzero(used)))
        new = np.flatnonzero((steep > 0.0) & ~used)
        left_out = new[:0]
        if len(new) > room:
            order = np.argpartition(steep[new], -room)
            left_out, new = new[order[:-room]], new[order[-room:]]
        used[new] = True
        columns = np.flatnonzero(used[group])
        columns = columns[np.argsort(group[columns], kind="stable")]
        q = point.w.shape[1]
        at = np.repeat(columns, q), np.tile(np.arange(q), len(columns))
        complete = not now[left_out].any()
        return cls(problem, columns, at, problem.design.take(columns), prior.take(columns), complete)

    def gradient(self, point: Point) -> Array:
        return self.design.adjoint(point.residual)

    def worst(self, point: Point, g: Array) -> float:
        return float(np.max(self.prior.violation(point.w[self.columns], g)))

    def search(self, point: Point, g: Array, new: Array, db: Array) -> tuple[Point, float, Array | None] | None:
        """Search on the way to the weights ``new`` of these columns; see `line_search`."""
        w = point.w[self.columns]

        def move(t: float) -> tuple[Callable[[], Array], float]:
            trial = new if t == 1.0 else np.clip(w + t * (new - w), np.minimum(w, new), np.maximum(w, new))

            def weights() -> Array:
                moved = point.w.copy()
                moved[self.columns] = trial
                return moved

            return weights, self.prior.change(w, trial)

        slope = float(np.sum(g * (new - w)) + point.gb @ db)
        return line_search(self.problem, point, slope, db, db, move, self.design, new - w)


class Blockwise:
    """Working sets of groups, proximal Newton, descent over blocks; for NumPy and SciPy data."""

    name = "blockwise"
    pace = 20

    def __init__(self) -> None:
        self._hessian: Snapshot | None = None
        self._damping = 0.0
        self.lookahead = 0.0  # admit groups whose gradient is within this fraction of its limit, once

    @staticmethod
    def suits(problem: Problem) -> str | None:
        return needs_host("blockwise", problem)

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Lower the objective over the groups that matter now."""
        part = _Part.of(problem, point, G, self.lookahead)
        if len(part.columns) == 0:
            return point
        # On a path G belongs to the last solution, good enough for the choice, and the point may be a prediction.
        g = G[part.columns] if self.lookahead == 0.0 else part.gradient(point)
        self.lookahead = 0.0
        violation = part.worst(point, g)
        target = 0.1 * violation
        if part.complete:  # go all the way, to a gap of about violation * |w|_1
            target = min(target, 0.9 * aim / max(float(np.abs(point.w).sum()), 1e-300))
        trifle = problem.design.shape[0] * len(part.at[0]) ** 2 <= _TRIFLE
        for _ in range(core.NEWTON_STEPS):
            new, db = self._minimise_model(part, point, g, max(0.03 * violation, 0.3 * target))
            found = part.search(point, g, new, db)
            before, previous = point, violation
            if found is None:
                if self._damping >= 1.0:
                    break
                self._damp()
                continue
            point, taken, gradient = found
            old, g = g, part.gradient(point) if gradient is None else gradient
            violation = part.worst(point, g)
            self._learn(part, before, old, point, g)
            if taken < 0.5:
                self._damp()
            elif taken == 1.0:
                self._damping = self._damping / 10.0 if self._damping > _LEAST_DAMPING else 0.0
            if violation <= target:
                break
            if self._hessian is not None and (trifle or violation > _STALE * previous):
                self._hessian = self._hessian.renewed(problem, point, self._damping, more=2)
        return point

    def _damp(self) -> None:
        self._damping = max(10.0 * self._damping, _LEAST_DAMPING)
        self._hessian = None

    def _minimise_model(self, part: _Part, point: Point, g: Array, tol: float) -> tuple[Array, Array]:
        """Return the weights of the part (m, q) at the model's minimum, and the intercepts' step."""
        problem, q = part.problem, point.w.shape[1]
        if self._hessian is None:
            self._hessian = Snapshot(problem, point, len(part.at[0]), self._damping)
        reduced = self._hessian.reduced(part.at, (_NOTHING, _NOTHING))
        gb = point.gb if problem.fit_intercept else np.zeros(0)
        w = point.w[part.columns].reshape(-1)
        new = w.copy()
        model = BlockModel(reduced.H, part.prior, part.prior.terms((len(part.columns), q)), q)
        model.minimise(reduced.gradient(g.reshape(-1), gb), new, tol)
        db = reduced.intercepts(new - w, gb) if problem.fit_intercept else np.zeros(q)
        return new.reshape(-1, q), db

    def _learn(self, part: _Part, before: Point, old: Array, after: Point, new: Array) -> None:
        """Correct the Hessian by what was found between two points."""
        reduced = None if self._hessian is None else self._hessian.last(part.at)
        if reduced is None:
            return
        turn = after.gb - before.gb if part.problem.fit_intercept else np.zeros(0)
        reduced.learn((after.w - before.w)[part.at], reduced.gradient((new - old).reshape(-1), turn))


def _largest(violation: Array, group: Array) -> Array:
    """Return the largest violation of every group."""
    worst = np.zeros(int(group.max(initial=-1)) + 1)
    np.maximum.at(worst, group, violation.max(axis=1, initial=0.0))
    return worst
