"""The one outer loop: free block, certificate, budget. What happens between two certificates is the stepper's.

A *stepper* lowers the objective from one point to the next and knows nothing about stopping; the driver knows nothing
about how the objective is lowered. Control returns to Python between steps, so Ctrl-C and callbacks work everywhere.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from smaller.arrays import Array, array_namespace, is_numpy_array
from smaller.designs import Design
from smaller.problem import Certificate, Point, Problem, Solution, Status, rounding
from smaller.solvers import core

__all__ = [
    "Progress",
    "Run",
    "Stepper",
    "canonical_end",
    "descend",
    "drive",
    "line_search",
    "needs_host",
    "only_single_weights",
    "progressed",
]

_log = logging.getLogger("smaller")

# Called after every certificate with (iteration, certificate); returning True stops the fit.
Progress = Callable[[int, Certificate], bool | None]

_PATIENCE = 5  # iterations without any progress before rounding is blamed


class Stepper(Protocol):
    """Contract of a solver's step."""

    name: str
    pace: int  # iterations in which what is left must halve or the objective fall by a hundredth; 0: it may crawl

    @staticmethod
    def suits(problem: Problem) -> str | None:
        """Return None, or the sentence that tells the user why this solver cannot solve the problem."""

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Return a point that is no worse; ``G`` is the gradient in w, ``aim`` the objective's allowed excess."""


@dataclass(frozen=True)
class Run:
    """Where a descent ended; another one can go on from here."""

    point: Point
    G: Array  # gradient of the loss in w at the point
    certificate: Certificate
    status: Status
    n_iter: int
    history: tuple[float, ...]

    def solution(self, problem: Problem, solver: str, scale: float) -> Solution:
        """Return the canonical solution; moving to it can only lower the objective, and the gap with it."""
        w, b, objective, gap = canonical_end(problem, self.point.w, self.point.b, self.point.loss, self.certificate)
        violation = self.certificate.violation
        return Solution(w, b, objective, violation, gap, self.n_iter, self.status, solver, scale, self.history)


def canonical_end(
    problem: Problem, w: Array, b: Array, loss: float, certificate: Certificate
) -> tuple[Array, Array, float, float | None]:
    """Return the canonical weights and intercepts, their objective and their gap."""
    w, b = problem.canonical(w, b)
    objective, gap = loss + problem.prior.penalty(w), certificate.gap
    return w, b, objective, None if gap is None else max(gap - (certificate.objective - objective), 0.0)


def drive(
    problem: Problem,
    stepper: Stepper,
    start: Solution | Point | None = None,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    progress: Progress | None = None,
) -> Solution:
    """Minimise ``problem`` until the gap is at most ``tol`` times its scale, the null model's loss.

    Without a dual (probit) the largest violation relative to the null model's gradient takes the gap's place.
    """
    null = problem.null()
    scale = problem.scale(null)
    point = null if start is None else problem.at(start.w, start.b)
    if point.objective > null.objective:
        point = null
    run = descend(problem, stepper, point, scale=scale, tol=tol, max_iter=max_iter, progress=progress)
    return run.solution(problem, stepper.name, scale)


def descend(
    problem: Problem,
    stepper: Stepper,
    point: Point,
    G: Array | None = None,
    *,
    scale: float,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> Run:
    """Go down from ``point``; ``scale`` is the null loss.

    ``G`` is given when the point comes settled from a neighbouring problem, together with its gradient: the first
    certificate, which could only say that there is something to do, is then left out.
    """
    aim = tol * scale
    steepest: float | None = None
    history: list[float] = []
    marks = [(math.inf, math.inf)]  # objective, and smallest gap (or violation) so far, of every iteration
    stalled, best = 0, (float("inf"), float("inf"))
    iteration, fresh = 0, False
    if G is not None:
        point, iteration = stepper.advance(problem, point, G, Certificate(point.objective, math.inf, None), aim), 1
    while True:
        point = problem.settle(point, tol=1e-1 * aim)
        G = problem.gradient(point)
        certificate = problem.certify(point, G)
        history.append(point.objective)
        _log.debug("%s %d: %s", stepper.name, iteration, certificate)
        if certificate.gap is None and steepest is None:
            steepest = _steepest(problem)
        if _separable(problem, point):
            status = Status.SEPARABLE
            break
        met = _met(certificate, aim, tol, steepest)
        stalled = 0 if progressed(certificate, best) else stalled + 1
        if not fresh and (stalled or (met and not _trusted(point, aim))):
            # Many small steps leave rounding behind in eta: nothing is claimed before it is formed anew.
            point, fresh = problem.at(point.w, point.b), True
            continue
        if met:
            status = Status.CONVERGED
            break
        if iteration >= max_iter:
            status = Status.MAX_ITER
            break
        if progress is not None and progress(iteration, certificate):
            status = Status.STOPPED
            break
        left = certificate.violation if certificate.gap is None else certificate.gap
        marks.append((point.objective, min(left, marks[-1][1])))
        if stalled >= _PATIENCE or _crawls(marks, stepper.pace, scale):
            status = Status.STALLED
            break
        best = min(best[0], certificate.objective), min(best[1], certificate.violation)
        point, fresh = stepper.advance(problem, point, G, certificate, aim), False
        iteration += 1
    return Run(point, G, certificate, status, iteration, tuple(history))


def line_search(
    problem: Problem,
    point: Point,
    slope: float,
    delta: Array,
    db: Array,
    move: Callable[[float], tuple[Callable[[], Array], float]],
    design: Design,
    change: Array | None = None,
) -> tuple[Point, float, Array | None] | None:
    """Armijo backtracking on eta: only the first trial may cost products with the design, in one pass over its rows.

    The full step is ``delta`` in eta, with ``change`` plus ``design @ change``, and ``db`` in the intercepts; ``slope``
    is the derivative of the loss along it. ``move(t)`` returns a function that makes the weights after a fraction t of
    the step, and the change of their penalty (a sum of differences, since a difference of sums would drown in rounding
    near the optimum). Returns the new point, the fraction taken and, if that is the whole step, the gradient in the
    weights of ``design``; or None when nothing lowers the objective.
    """
    slope += move(1.0)[1]
    if not slope < 0.0:
        return None
    t, full = 1.0, point.eta + delta
    loss, residual, gradient = core.evaluate(problem, full, design, change)
    eta = full
    for _ in range(40):
        make, penalty_change = move(t)
        # A step that promises less than the objective can resolve is taken on the model's word.
        unresolved = t == 1.0 and -slope <= 1e-12 * abs(point.objective)
        if unresolved or (loss - point.loss) + penalty_change <= 1e-4 * t * slope:
            penalty, drift = point.penalty + penalty_change, point.drift + rounding(eta)
            return Point(make(), point.b + t * db, eta, loss, residual, penalty, drift), t, gradient
        t /= 2.0
        eta = point.eta + t * (full - point.eta)
        (loss, residual), gradient = problem.evaluate(eta), None
    return None


def needs_host(name: str, problem: Problem) -> str | None:
    """Return the sentence with which a solver for NumPy and SciPy data refuses arrays of other libraries."""
    if is_numpy_array(problem.y):
        return None
    return f"solver={name!r} works on NumPy and SciPy data only: use 'auto' or 'proximal', or convert the arrays."


def only_single_weights(name: str, problem: Problem) -> str | None:
    """Return the sentence with which a solver refuses penalties it does not know; None if it knows this one."""
    if problem.prior.separable and not problem.prior.limited:
        return None
    return (
        f"solver={name!r} knows penalties of single weights without limits: use 'auto' or 'blockwise' for groups and "
        "limits."
    )


def _trusted(point: Point, aim: float) -> bool:
    """Whether rounding in eta is far too small to change what the certificate says."""
    xp = array_namespace(point.residual)
    return point.drift * float(xp.sum(xp.abs(point.residual))) <= 1e-3 * aim


def _met(certificate: Certificate, aim: float, tol: float, steepest: float | None) -> bool:
    if certificate.gap is not None:
        return certificate.gap <= aim
    return certificate.violation <= tol * (steepest or 1.0)


def _crawls(marks: list[tuple[float, float]], pace: int, scale: float) -> bool:
    """Whether hundreds of iterations more would bring next to nothing."""
    if not pace or len(marks) <= pace:
        return False
    (before, much), (now, left) = marks[-1 - pace], marks[-1]
    return left > 0.5 * much and before - now < 1e-2 * scale


def _steepest(problem: Problem) -> float:
    null = problem.null()
    xp = array_namespace(null.w)
    G = problem.gradient(null)
    return float(xp.max(xp.abs(G))) if G.size else 1.0


def progressed(certificate: Certificate, best: tuple[float, float]) -> bool:
    """Progress is a lower objective, as far as rounding shows it, or a clearly smaller violation."""
    objective, violation = best
    return certificate.objective < objective - 1e-14 * abs(objective) or certificate.violation < 0.9 * violation


def _separable(problem: Problem, point: Point) -> bool:
    """Whether unpenalised weights are running away to infinity: the loss itself vanishes."""
    if len(problem.prior.free(problem.n_columns)) == 0:
        return False
    xp = array_namespace(point.eta)
    total = float(point.eta.shape[0]) if problem.weight is None else float(xp.sum(problem.weight))
    return point.loss < 1e-6 * total and problem.likelihood.dual(point.residual, problem.y, problem.weight) is not None
