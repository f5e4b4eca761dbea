"""Certified descent for rows that live anywhere, in few rounds: a round is one question to all rows.

A step is one round: ask for the point where the model's minimiser is, and believe the answer if the objective fell as
promised (Armijo); only after a refusal a second question looks along the step. The gap costs a round only when it is
in doubt (`smaller.row_problem`). What needs no exact sums happens on a sample of the rows: the head start, the growth
of the working set, the damping.

A descent is a generator that asks for places and is sent their replies, so that several (the folds of a
cross-validation) share every look at the data: `lockstep`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from smaller.arrays import Array
from smaller.problem import Certificate, Solution, Status
from smaller.row_problem import RowPoint, RowProblem
from smaller.rows.protocol import Place, Reply, Rows
from smaller.solvers.driver import Progress, progressed
from smaller.solvers.model import Model
from smaller.solvers.sampled import draw
from smaller.solvers.whole_model import WholeModel
from smaller.solvers.working_set import WorkingSet, choose

__all__ = [
    "RowRun",
    "Scale",
    "alpha_max",
    "begin",
    "descend",
    "lockstep",
    "model_of",
    "no_weights",
    "solve_rows",
    "suits",
]

_log = logging.getLogger("smaller")

_ROOM = 512  # zero weights that a working set has room for, at least
_PATIENCE = 5  # steps without any progress before rounding is blamed
_FRACTIONS = 0.5 ** np.arange(1.0, 13.0)  # of a step that was refused
_ARMIJO = 1e-4
_PRECISE = 0.01  # times the violation: how well the minimiser of the model is found
_PROHIBITIVE = 1e200  # times the prior: no penalised weight moves

T = TypeVar("T")
Asking = Generator[list[Place], list[Reply], T]  # asks for places, is sent replies, and ends with a T


class Scale(NamedTuple):
    """What tolerances are relative to: the model without weights."""

    loss: float
    steepest: float  # largest gradient there, for likelihoods without a dual


@dataclass(frozen=True)
class RowRun:
    """Where a descent ended; another one can go on from here."""

    point: RowPoint
    certificate: Certificate
    status: Status
    n_iter: int
    history: tuple[float, ...]

    def solution(self, problem: RowProblem, scale: Scale) -> Solution:
        """Return the canonical solution; moving to it can only lower the objective, and the gap with it."""
        w, b = problem.canonical(self.point.w, self.point.b)
        objective, gap = self.point.loss + problem.prior.penalty(w), self.certificate.gap
        if gap is not None:
            gap = max(gap - (self.certificate.objective - objective), 0.0)
        violation = self.certificate.violation
        return Solution(w, b, objective, violation, gap, self.n_iter, self.status, "engine", scale.loss, self.history)


def lockstep(rows: Rows, descents: Sequence[Asking[T]]) -> list[T]:
    """Run descents side by side: what they ask at the same time is one look at the data."""
    ended: dict[int, T] = {}

    def go_on(i: int, replies: list[Reply] | None) -> list[Place]:
        try:
            return next(descents[i]) if replies is None else descents[i].send(replies)
        except StopIteration as end:
            ended[i] = end.value
            return []

    asked = {i: go_on(i, None) for i in range(len(descents))}
    while len(ended) < len(descents):
        waiting = [i for i in asked if i not in ended]
        replies = iter(rows.at([place for i in waiting for place in asked[i]]))
        answers = {i: [next(replies) for _ in asked[i]] for i in waiting}
        asked = {i: go_on(i, answer) for i, answer in answers.items()}
    return [ended[i] for i in range(len(descents))]


def suits(problem: RowProblem) -> str | None:
    """Return None, or the sentence that tells the user why the problem cannot be solved by questions to rows."""
    if problem.prior.separable and not problem.prior.limited:
        return None
    return "Rows that are elsewhere are fitted under penalties of single weights without limits: leave those out."


def model_of(problem: RowProblem) -> Model:
    """Return the model that suits the rows: of all of them where they make it themselves, else of a sample."""
    return WholeModel() if "gram" in problem.rows.offers else draw(problem.rows, problem.totals)


def solve_rows(
    problem: RowProblem,
    *,
    start: tuple[Array, Array] | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    progress: Progress | None = None,
) -> Solution:
    """Minimise a convex problem to a duality gap of ``tol`` times the loss of the model without weights.

    Without a dual the largest violation, relative to the gradient of that model, takes the gap's place.
    """
    reason = suits(problem)
    if reason is not None:
        raise ValueError(reason)
    model = model_of(problem)

    def fit() -> Asking[Solution]:
        scale, point = yield from begin(problem, model, start, tol=tol)
        run = yield from descend(problem, model, point, scale, tol=tol, max_iter=max_iter, progress=progress)
        return run.solution(problem, scale)

    return lockstep(problem.rows, [fit()])[0]


def begin(
    problem: RowProblem, model: Model, start: tuple[Array, Array] | None = None, *, tol: float
) -> Asking[tuple[Scale, RowPoint]]:
    """Return the scale of all tolerances, and the better of the null model and a start; None starts on the sample."""
    starts = [problem.null()]
    better = model.head_start(problem, tol) if start is None else start
    if better is not None:
        starts.append(better)
    replies = yield [problem.place(w, b) for w, b in starts]
    points = [problem.point(w, b, reply) for (w, b), reply in zip(starts, replies, strict=True)]
    null = points[0]
    scale = Scale(max(null.loss, 1e-300), float(np.abs(null.G).max(initial=0.0)) or 1.0)
    return scale, min(reversed(points), key=lambda point: point.objective)


def no_weights(problem: RowProblem, *, tol: float = 1e-10) -> RowPoint:
    """Return the best point at which all penalised weights are zero."""
    empty = problem.with_prior(problem.prior.times(_PROHIBITIVE))
    model = model_of(problem)

    def fit() -> Asking[RowPoint]:
        scale, point = yield from begin(empty, model, problem.null(), tol=tol)
        run = yield from descend(empty, model, point, scale, tol=tol, max_iter=100)
        return run.point

    return lockstep(problem.rows, [fit()])[0]


def alpha_max(problem: RowProblem) -> float:
    """Return the factor by which the penalty must be multiplied for all penalised weights to be zero."""
    return problem.prior.critical(no_weights(problem).G)


def descend(
    problem: RowProblem,
    model: Model,
    point: RowPoint,
    scale: Scale,
    *,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
    reach: float = 0.0,
) -> Asking[RowRun]:
    """Go down from ``point``; on a path zero weights whose gradient is within ``reach`` of the slope are let in."""
    aim, limit = tol * scale.loss, tol * scale.steepest
    history: list[float] = []
    stalled, best = 0, (math.inf, math.inf)
    ws: WorkingSet | None = None
    iteration = 0
    model.begin()
    while True:
        bounds = problem.bounds(point)
        doubt = bounds.low <= aim < bounds.high
        certificate = problem.certificate(point, bounds, exact=doubt)
        history.append(point.objective)
        _log.debug("engine %d: %s", iteration, certificate)
        stalled = 0 if progressed(certificate, best) else stalled + 1
        status = _status(problem, point, certificate, aim, limit)
        if status is None and iteration >= max_iter:
            status = Status.MAX_ITER
        if status is None and progress is not None and progress(iteration, certificate):
            status = Status.STOPPED
        if status is None and stalled >= _PATIENCE:
            status = Status.STALLED
        if status is not None:
            if not doubt:
                certificate = problem.certificate(point, bounds, exact=True)
            return RowRun(point, certificate, status, iteration, tuple(history))
        best = min(best[0], certificate.objective), min(best[1], certificate.violation)
        ws, reach = _working_set(problem, point, ws, max(reach, model.margin)), 0.0
        point = yield from _advance(problem, model, point, ws)
        iteration += 1


def _status(problem: RowProblem, point: RowPoint, certificate: Certificate, aim: float, limit: float) -> Status | None:
    if problem.separable(point):
        return Status.SEPARABLE
    met = certificate.violation <= limit if certificate.gap is None else certificate.gap <= aim
    return Status.CONVERGED if met else None


def _working_set(problem: RowProblem, point: RowPoint, last: WorkingSet | None, margin: float) -> WorkingSet:
    """Return the weights that may move; the last ones, with all that was learnt of them, if none is missing there."""
    if last is not None:
        q = point.w.shape[1]
        wanted, _ = choose(problem.prior, point.w, point.G, room=_ROOM)
        if np.isin(wanted.at[0] * q + wanted.at[1], last.at[0] * q + last.at[1]).all():
            return last
        if margin == 0.0:
            return wanted
    return choose(problem.prior, point.w, point.G, room=_ROOM, margin=margin)[0]


def _advance(problem: RowProblem, model: Model, point: RowPoint, ws: WorkingSet) -> Asking[RowPoint]:
    """Return the point where the model's minimiser is, or one on the way there; or the same, if that is no better."""
    violation = _worst(problem, point, ws)
    step = model.step(problem, point, ws, _PRECISE * violation)
    if not step.promise < 0.0:
        model.forget()
        return point
    here, there = problem.place(point.w, point.b), problem.place(step.w, step.b)
    [reply] = yield [there]
    trial = problem.point(step.w, step.b, reply)
    # A step that promises less than the objective can resolve is taken on the model's word.
    unresolved = -step.promise <= 1e-12 * abs(point.objective)
    if unresolved or (trial.loss - point.loss) + step.penalty_change(1.0) <= _ARMIJO * step.promise:
        model.learn(problem, point, trial, step, left=_worst(problem, trial, ws) / violation)
        return trial
    losses = problem.rows.line(here, there, _FRACTIONS)
    model.damp(here, there)
    for t, loss in zip(_FRACTIONS, losses, strict=True):
        if (loss - point.loss) + step.penalty_change(t) <= _ARMIJO * t * step.promise:
            w, b = point.w + t * (step.w - point.w), point.b + t * (step.b - point.b)
            [reply] = yield [problem.place(w, b)]
            return problem.point(w, b, reply)
    return point


def _worst(problem: RowProblem, point: RowPoint, ws: WorkingSet) -> float:
    """Return the largest violation among the weights that may move, and the free numbers."""
    inner = float(ws.violation(point.w[ws.at], point.G[ws.at]).max(initial=0.0))
    return max(inner, float(np.abs(point.gb[: problem.n_free]).max(initial=0.0)))
