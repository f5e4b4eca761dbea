"""The weights and the scale of every feature together: JCFO (Krishnapuram et al. 2004).

The sum, F in `scaled`, is not convex in (w, theta), so the way down matters. From a ridge fit: (1) EM, whose M-step
minimises over the scales with the best weights for each of them (16)-(19): it looks far, but creeps; (2) L-BFGS-B on F
itself over (w+, w-, theta) >= 0, which makes exact zeros and revives what EM wrongly killed; (3) exact L1 weights at
fixed scales, in turn with (2) on what is left, until neither weights nor scales can move. F never rises within a phase.

Where few of many features matter, the start matters too: a rival start is judged by F after a few rounds of EM. Where
there are many centres, all of this is done with few of them, and (3) then takes in the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.problem import Point, Solution, Status
from smaller.searches.projected import bounded, projected_newton
from smaller.searches.scaled import Journal, ScaledProblem, ScaledSolution, State
from smaller.searches.scaled_em import warm_up
from smaller.solvers import solve
from smaller.solvers.driver import Progress

__all__ = [
    "Journal",
    "ScaledProblem",
    "ScaledSolution",
    "State",
    "exact_weights",
    "finish",
    "newton",
    "polish",
    "search_scales",
    "warm_up",
]

_JUDGED = 5  # EM rounds after which the lower of several starts goes on
_MOST_NEWTON = 200  # variables up to which the end of the descent is Newton's
_LARGER = 10.0  # factor on the starting scales after a collapse
_ROUNDING = 1e-13  # relative rise of F that means nothing
_ROUGH = 1e-3  # tolerance of a first stage: enough to know the features
_CREEP, _PATIENCE = 1e-8, 3  # a relative fall of F that is next to none, and how often in a row it is borne


# --- phase 2: descent on F itself ---


def polish(
    scaled: ScaledProblem,
    state: State,
    journal: Journal,
    *,
    phase: str = "polish",
    tol: float = 1e-3,
    ftol: float = 1e-7,
    max_iter: int = 300,
) -> State:
    """Run L-BFGS-B over (w+, w-, theta, b): exact zeros at the bounds, and zeros may come back."""
    shape, p = state.w.shape, len(state.theta)
    d, q = state.w.size, len(state.b)
    unit = float(state.theta.max(initial=0.0)) or 1.0

    def read(x: Array) -> tuple[Array, Array, Array]:
        return (x[:d] - x[d : 2 * d]).reshape(shape), unit * x[2 * d : 2 * d + p], x[2 * d + p :]

    def evaluate(x: Array) -> tuple[float, Array]:
        w, theta, b = read(x)
        loss, G, slope, free = scaled.gradients(theta, w, b)
        # w+ and w- are penalised one by one: at the optimum one of them is zero.
        value = loss + scaled.alpha * float(x[: 2 * d].sum()) + scaled.rate * float(theta.sum())
        return value, np.concatenate([G.ravel() + scaled.alpha, scaled.alpha - G.ravel(), unit * slope, free])

    def note(intermediate_result: Any) -> None:
        journal.note(phase, float(intermediate_result.fun))
        if journal.stopped:
            raise StopIteration

    x = np.concatenate([np.maximum(state.w, 0).ravel(), np.maximum(-state.w, 0).ravel(), state.theta / unit, state.b])
    least = np.concatenate([np.zeros(2 * d + p), np.full(q, -np.inf)])
    gtol = tol * min(scaled.alpha, unit * scaled.rate)
    journal.note(phase, state.objective)
    w, theta, b = read(bounded(evaluate, x, least, note, maxiter=max_iter, ftol=ftol, gtol=gtol))
    moved = scaled.state(theta, w, b)
    return moved if moved.objective <= state.objective else state


# --- phase 3: exact weights, in turn with the scales ---


def exact_weights(scaled: ScaledProblem, state: State, tol: float) -> State:
    """Solve the convex problem in the weights at fixed scales until its violation is at most ``tol * alpha``."""
    problem = scaled.at(state.theta)
    steepest = float(np.abs(problem.gradient(problem.null())).max(initial=scaled.alpha))
    start: Solution | Point = problem.at(state.w, state.b)
    inner = tol * scaled.alpha / steepest
    for _ in range(4):  # a duality gap bounds the violation only through its square root
        solution = solve(problem, start=start, tol=inner)
        if solution.violation <= tol * scaled.alpha or not solution.converged:
            break
        start, inner = solution, 1e-2 * inner
    # Without a kernel in use no scale has anything to do.
    theta = state.theta if len(scaled.used(solution.w)) else np.zeros_like(state.theta)
    return State(theta, solution.w, solution.b, solution.objective + scaled.rate * float(theta.sum()))


def newton(scaled: ScaledProblem, state: State, *, tol: float) -> State:
    """Run a projected Newton method over the weights that are not zero, all scales and the intercepts.

    Few variables are left by now. L-BFGS-B would take thousands of steps where kernels are nearly collinear.
    """
    nonzero = state.w != 0
    k, p = int(nonzero.sum()), len(state.theta)
    # Of intercepts that only count up to a common shift, the last one stays.
    q = len(state.b) - scaled.likelihood.shift_invariant if scaled.fit_intercept and not scaled.penalized else 0
    signs = np.concatenate([np.sign(state.w[nonzero]), np.ones(p), np.zeros(q)])
    units = np.repeat([scaled.alpha, scaled.rate, scaled.alpha], [k, p, q])

    def read(x: Array) -> tuple[Array, Array, Array]:
        w, b = np.zeros_like(state.w), state.b.copy()
        w[nonzero], b[:q] = x[:k], x[k + p :]
        return x[k : k + p], w, b

    def evaluate(x: Array) -> tuple[float, Array]:
        theta, w, b = read(x)
        loss, G, slope, free = scaled.gradients(theta, w, b)
        signed = scaled.alpha * signs[:k]
        value = loss + float(signed @ x[:k]) + scaled.rate * float(theta.sum())
        return value, np.concatenate([G[nonzero] + signed, slope, free[:q]])

    start = np.concatenate([state.w[nonzero], state.theta, state.b[:q]])
    if not 0 < len(start) <= _MOST_NEWTON:
        return state
    x = projected_newton(evaluate, start, signs, units, tol=tol)
    moved = state if x is start else scaled.state(*read(x))
    return moved if moved.objective <= state.objective + _ROUNDING * abs(state.objective) else state


def finish(
    scaled: ScaledProblem, state: State, journal: Journal, *, tol: float, max_iter: int
) -> tuple[State, float, float, Status]:
    """Alternate exact weights with a descent over the few centres and features that are left."""
    status, last, least, crept = Status.MAX_ITER, (np.inf, np.inf), np.inf, 0
    for left in reversed(range(max_iter)):
        state = exact_weights(scaled, state, 0.3 * tol)
        weights, scales, slope = scaled.violations(state)
        here = state.objective, max(weights, scales)
        journal.note("alternation", *here)
        if here[1] <= tol:
            status = Status.STATIONARY
            break
        if journal.stopped or not left:
            break
        slow = here[1] > 0.5 * least
        crept = crept + 1 if slow and last[0] - here[0] <= _CREEP * abs(here[0]) else 0
        if (here[0] >= last[0] and here[1] >= last[1]) or crept == _PATIENCE:
            status = Status.STALLED
            break
        last, least = here, min(least, here[1])
        entering = (state.theta == 0) & (slope < -tol * scaled.rate)
        centers, features = scaled.used(state.w), np.flatnonzero((state.theta > 0) | entering)
        part, rows = scaled.restrict(centers, features), scaled.rows(centers)
        inner = State(state.theta[features], state.w[rows], state.b, state.objective)
        moved = inner if slow else newton(part, inner, tol=0.1 * tol)
        if moved is inner:
            rough = max(0.1 * tol, 1e-2 * here[1])
            moved = polish(part, inner, journal, phase="alternation", tol=rough, ftol=0.0)
        state = state.embed(moved, rows, features)
    return state, weights, scales, status


def search_scales(
    scaled: ScaledProblem,
    thetas: Iterable[Array],
    *,
    rivals: Iterable[Array] = (),
    warm: ScaledSolution | None = None,
    few: Array | None = None,
    em_iter: int = 30,
    tol: float = 1e-6,
    max_iter: int = 100,
    progress: Progress | None = None,
) -> ScaledSolution:
    """Return the best of the stationary points reached from each of the starting scales.

    ``rivals`` are further starts, judged against the first of ``thetas`` after a few rounds of EM: only the lower goes
    on. A ``warm`` solution, of the same data under other strengths, is the only start unless nothing is left at its
    end. With ``few`` of the centres the search goes in two stages, unless nothing is left at the end of the first.
    """
    thetas, rivals = list(thetas), list(rivals)
    if few is not None and warm is None:
        how: dict[str, Any] = {"em_iter": em_iter, "tol": max(tol, _ROUGH), "max_iter": max_iter, "progress": progress}
        rough = search_scales(scaled.restrict(few, np.arange(scaled.shape[1])), thetas, rivals=rivals, **how)
        if rough.scales.any():
            return _widened(scaled, rough, few, Journal(progress), tol=tol, max_iter=max_iter)

    def descend(start: State, em_iter: int, journal: Journal | None = None) -> ScaledSolution:
        journal = Journal(progress) if journal is None else journal
        return _descend(scaled, start, em_iter, journal, tol=tol, max_iter=max_iter)

    ends = []
    if warm is not None and len(scaled.used(warm.w)):
        state, journal = scaled.state(warm.scales, warm.w, warm.b), Journal(progress)
        # What changes little needs phase 3 alone.
        ends.append(_ended(scaled, finish(scaled, state, journal, tol=tol, max_iter=max_iter), journal))
        if not ends[-1].converged and not journal.stopped:
            ends.append(descend(state, 0))
        if len(scaled.used(ends[-1].w)):
            return min(ends, key=lambda end: end.objective)
    for i, theta in enumerate(thetas):
        contenders = list(rivals) if i == 0 and em_iter else []
        if contenders:
            state, journal = _judged(scaled, [theta, *contenders], min(em_iter, _JUDGED), progress)
            ends.append(descend(state, max(em_iter - _JUDGED, 0), journal))
            if len(scaled.used(ends[-1].w)):
                continue
        # An empty model may be a dead end of the way taken: then the other way, and larger scales, get a chance.
        for scales, iterations in ((theta, em_iter), (theta, 0 if em_iter else 30), (_LARGER * theta, em_iter)):
            ends.append(descend(scaled.start(scales), iterations))
            if len(scaled.used(ends[-1].w)):
                break
    return min(ends, key=lambda end: end.objective)


def _judged(
    scaled: ScaledProblem, thetas: list[Array], rounds: int, progress: Progress | None
) -> tuple[State, Journal]:
    """Return where EM stands after a few rounds from the start for which F is lowest then, and its journal."""
    runs = []
    for theta in thetas:
        journal = Journal(progress)
        runs.append((warm_up(scaled, scaled.start(theta), rounds, journal), journal))
        if journal.stopped:
            break
    return min(runs, key=lambda run: run[0].objective)


def _descend(
    scaled: ScaledProblem, state: State, em_iter: int, journal: Journal, *, tol: float, max_iter: int
) -> ScaledSolution:
    if em_iter and not journal.stopped:
        state = warm_up(scaled, state, em_iter, journal)
    state = polish(scaled, state, journal)
    return _ended(scaled, finish(scaled, state, journal, tol=tol, max_iter=max_iter), journal)


def _widened(
    scaled: ScaledProblem, rough: ScaledSolution, few: Array, journal: Journal, *, tol: float, max_iter: int
) -> ScaledSolution:
    """Go on from the end of a search with few of the centres: phase 3 alone, with all of them."""
    w = np.zeros((scaled.shape[0] + scaled.penalized, rough.w.shape[1]))
    w[scaled.rows(few)] = rough.w
    journal.phases |= {name: list(values) for name, values in rough.phases.items()}
    start = scaled.state(rough.scales, w, rough.b)
    return _ended(scaled, finish(scaled, start, journal, tol=tol, max_iter=max_iter), journal)


def _ended(scaled: ScaledProblem, end: tuple[State, float, float, Status], journal: Journal) -> ScaledSolution:
    state, weights, scales, status = end
    phases = {name: tuple(values) for name, values in journal.phases.items()}
    return ScaledSolution(
        state.w,
        state.b,
        state.objective,
        max(weights, scales),
        None,
        sum(map(len, phases.values())),
        status,
        "scales",
        max(scaled.at(state.theta).null().loss, 1e-300),
        sum(phases.values(), ()),
        state.theta,
        weights,
        scales,
        phases,
    )
