"""The path of strengths over rows that live anywhere, as a generator that asks for places.

Paths of several folds are walked side by side (`smaller.solvers.engine.lockstep`), so that all of them share every look
at the data. What a fold holds out is judged by the same looks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from smaller.arrays import Array
from smaller.priors import ElasticNet
from smaller.row_problem import RowPoint, RowProblem
from smaller.rows.protocol import Place, Reply
from smaller.searches.path import PathPoint, outlook
from smaller.solvers.driver import Progress
from smaller.solvers.engine import Asking, RowRun, Scale, begin, descend
from smaller.solvers.model import Model

__all__ = ["RowPath", "walk"]


@dataclass(frozen=True)
class RowPath:
    """Solutions at decreasing strengths; with a fold also the loss of the rows that it leaves out."""

    points: tuple[PathPoint, ...]
    null_loss: float
    held_out: Array  # (n_alphas,) sums of losses; nan without a fold


def walk(
    problem: RowProblem,
    model: Model,
    alphas: Array,
    *,
    tol: float,
    max_iter: int,
    most: int | None = None,
    progress: Progress | None = None,
) -> Asking[RowPath]:
    """Solve with the prior multiplied by each of the decreasing ``alphas``; stop before more than ``most`` columns."""
    prior = problem.prior
    assert isinstance(prior, ElasticNet)
    outside = None if problem.fold is None else replace(problem.fold, outside=not problem.fold.outside)
    scale, last = yield from begin(problem.with_prior(prior.times(float(alphas[0]))), model, problem.null(), tol=tol)
    earlier, path, losses, points = last, list[PathPoint](), list[float](), list[RowPoint]()
    for alpha in map(float, alphas):
        here = problem.with_prior(prior.times(alpha))
        reach, ratio = outlook([point.alpha for point in path[-2:]], alpha)
        wanted = [] if ratio == 0.0 else [_between(here, earlier, last, ratio)]
        if outside is not None and path:
            wanted.append(replace(here.place(last.w, last.b), fold=outside))
        replies: list[Reply] = (yield wanted) if wanted else []
        start = replace(last, penalty=here.prior.penalty(last.w))
        if ratio != 0.0:
            guess = _point_at(here, wanted[0], replies[0])
            start = guess if guess.objective < start.objective else start
        if outside is not None and path:
            losses.append(float(replies[-1].loss))
        run = yield from descend(here, model, start, scale, tol=tol, max_iter=max_iter, progress=progress, reach=reach)
        found = _kept(alpha, here, run, scale)
        if most is not None and len(found.columns) > most:
            break
        path.append(found)
        points.append(run.point)
        earlier, last = last, run.point
    if outside is not None and len(losses) < len(path):
        [reply] = yield [replace(problem.place(last.w, last.b), fold=outside)]
        losses.append(float(reply.loss))
    held_out = np.array(losses) if outside is not None else np.full(len(path), np.nan)
    return RowPath(tuple(path), scale.loss, held_out)


def _between(problem: RowProblem, earlier: RowPoint, last: RowPoint, ratio: float) -> Place:
    """Return the last two solutions' extrapolation, linear in log alpha; what was zero stays so, and no sign turns."""
    w = last.w + ratio * (last.w - earlier.w)
    w[np.sign(w) != np.sign(last.w)] = 0.0
    return problem.place(w, last.b + ratio * (last.b - earlier.b))


def _point_at(problem: RowProblem, place: Place, reply: Reply) -> RowPoint:
    return problem.point(place.weights(problem.n_columns), place.b, reply)


def _kept(alpha: float, problem: RowProblem, run: RowRun, scale: Scale) -> PathPoint:
    solution = run.solution(problem, scale)
    used = np.flatnonzero(solution.w.any(axis=1))
    return PathPoint(
        alpha,
        used,
        solution.w[used],
        problem.n_columns,
        solution.b,
        solution.objective,
        run.point.loss,
        solution.gap,
        solution.violation,
        solution.status,
        solution.n_iter,
    )
