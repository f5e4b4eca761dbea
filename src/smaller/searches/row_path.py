"""The path of strengths over rows that live anywhere, as a generator that asks for places.

Paths of several folds are walked side by side (`smaller.solvers.engine.lockstep`), so that all of them share every look
at the data. What a fold holds out is judged by the same looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

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
    prior_at = partial(_at_strength, problem)
    scale, last = yield from begin(prior_at(float(alphas[0])), model, problem.null(), tol=tol)
    earlier, path, judge = last, list[PathPoint](), _HeldOut(problem)
    for alpha in map(float, alphas):
        here = prior_at(alpha)
        reach, ratio = outlook([point.alpha for point in path[-2:]], alpha)
        start, told = yield from _start(here, earlier, last, ratio, judge.places(last) if path else [])
        judge.hear(told)
        run = yield from descend(here, model, start, scale, tol=tol, max_iter=max_iter, progress=progress, reach=reach)
        found = _kept(alpha, here, run, scale)
        if most is not None and len(found.columns) > most:
            break
        path.append(found)
        earlier, last = last, run.point
    if len(judge.losses) < len(path) and (asked := judge.places(last)):
        judge.hear((yield asked))
    return RowPath(tuple(path), scale.loss, np.array(judge.losses or [np.nan] * len(path)))


class _HeldOut:
    """The losses, at each strength, of the rows that a fold leaves out; none without a fold."""

    def __init__(self, problem: RowProblem) -> None:
        fold = problem.fold
        self._outside = None if fold is None else replace(fold, outside=not fold.outside)
        self._problem, self.losses = problem, list[float]()

    def places(self, point: RowPoint) -> list[Place]:
        """Return where to ask about a point."""
        place = self._problem.place(point.w, point.b)
        return [] if self._outside is None else [replace(place, fold=self._outside)]

    def hear(self, replies: Sequence[Reply]) -> None:
        """Take the answers."""
        self.losses.extend(float(reply.loss) for reply in replies)


def _at_strength(problem: RowProblem, alpha: float) -> RowProblem:
    assert isinstance(problem.prior, ElasticNet)
    return problem.with_prior(problem.prior.times(alpha))


def _start(
    problem: RowProblem, earlier: RowPoint, last: RowPoint, ratio: float, beside: list[Place]
) -> Asking[tuple[RowPoint, list[Reply]]]:
    """Return the last solution, or the last two's extrapolation if that is better; and what was asked ``beside``."""
    guesses = [] if ratio == 0.0 else [_between(problem, earlier, last, ratio)]
    replies: list[Reply] = (yield guesses + beside) if guesses or beside else []
    starts = [replace(last, penalty=problem.prior.penalty(last.w))]
    starts += [
        problem.point(place.weights(problem.n_columns), place.b, reply)
        for place, reply in zip(guesses, replies, strict=False)
    ]
    return min(starts, key=lambda point: point.objective), replies[len(guesses) :]


def _between(problem: RowProblem, earlier: RowPoint, last: RowPoint, ratio: float) -> Place:
    """Return the last two solutions' extrapolation, linear in log alpha; what was zero stays so, and no sign turns."""
    w = last.w + ratio * (last.w - earlier.w)
    w[np.sign(w) != np.sign(last.w)] = 0.0
    return problem.place(w, last.b + ratio * (last.b - earlier.b))


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
