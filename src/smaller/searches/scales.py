"""The weights and the scale of every feature together: JCFO (Krishnapuram et al. 2004).

    F(w, b, theta) = sum_i c_i loss(y_i, eta_i) + alpha |w|_1 + rate sum_k theta_k,    theta >= 0
    eta = K_theta(X, C) w + b                                            (a penalised intercept is a row of w)

The sum is not convex in (w, theta), so the way there matters. From a ridge fit: (1) EM, whose M-step minimises over the
scales with the best weights for each of them (16)-(19): it looks far, but creeps; (2) L-BFGS-B on F itself over
(w+, w-, theta) >= 0, which makes exact zeros and revives what EM wrongly killed; (3) exact L1 weights at fixed scales,
in turn with (2) on what is left, until neither weights nor scales can move. F never rises within a phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import optimize

from smaller.arrays import Array
from smaller.bases import Kernel
from smaller.designs import Dense
from smaller.likelihoods import Gaussian, Likelihood
from smaller.priors import Laplace
from smaller.problem import Certificate, Point, Problem, Solution, Status
from smaller.searches.adaptive import ridge_start
from smaller.searches.projected import projected_newton
from smaller.solvers import solve
from smaller.solvers.driver import Progress
from smaller.solvers.reweighted import bound_gram, majorised_minimiser

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

_START_RIDGE = 1e-4  # of the first weights, relative to the columns' mean square
_INNER = 8  # L-BFGS-B iterations in one M-step: any decrease will do
_INNER_TOL = 1e-4  # and its relative tolerance
_PRUNE = 1e-4  # of the largest weight or scale: smaller ones are dropped during EM
_MAY_RISE = 1e-6  # relative rise of F that pruning may cost
_EM_TOL = 1e-3  # relative decrease of F below which EM hands over
_MOST_NEWTON = 200  # variables up to which the end of the descent is Newton's
_LARGER = 10.0  # factor on the starting scales after a collapse
_ROUNDING = 1e-13  # relative rise of F that means nothing
_MEMORY = 20  # pairs that L-BFGS-B keeps


@dataclass(frozen=True)
class State:
    """Scales, weights, and F there."""

    theta: Array  # (p,)
    w: Array  # (m, q), one row more with a penalised intercept
    b: Array  # (q,)
    objective: float


@dataclass(frozen=True)
class ScaledSolution(Solution):
    """A solution with its scales; both violations are relative to the strength they work against."""

    scales: Array = field(default_factory=lambda: np.zeros(0))  # (p,)
    weights_violation: float = np.inf
    scales_violation: float = np.inf
    phases: dict[str, tuple[float, ...]] = field(default_factory=dict, repr=False)  # F after every step


@dataclass(frozen=True)
class ScaledProblem:
    """The module's F as a function of (theta, w, b)."""

    X: Any  # (n, p)
    basis: Kernel  # its own scales do not matter
    y: Array  # (n, q)
    weight: Array | None
    likelihood: Likelihood
    alpha: float
    rate: float
    fit_intercept: bool = True
    penalize_intercept: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of centres and of features."""
        return int(self.basis.centers.shape[0]), int(self.X.shape[1])

    @property
    def penalized(self) -> bool:
        """Whether the intercept is the last row of w."""
        return self.fit_intercept and self.penalize_intercept

    def at(self, theta: Array) -> Problem:
        """Return the convex problem in the weights at fixed scales."""
        design: Any = self.basis.rescale(theta).expand(self.X)
        design = design.with_ones() if self.penalized else design
        free = self.fit_intercept and not self.penalized
        return Problem(design, self.y, self.weight, self.likelihood, Laplace(self.alpha), free)

    def state(self, theta: Array, w: Array, b: Array) -> State:
        """Evaluate F."""
        return State(theta, w, b, self.at(theta).at(w, b).objective + self.rate * float(theta.sum()))

    def slope(self, problem: Problem, theta: Array, residual: Array, w: Array) -> Array:
        """Return the derivative of a loss in the scales (p,), from its gradient ``residual`` in eta; (18)."""
        m = self.shape[0]
        block = problem.design.X[:, :m] if isinstance(problem.design, Dense) else None
        return self.basis.rescale(theta).pullback(self.X, residual, w[:m], block)

    def gradients(self, theta: Array, w: Array, b: Array) -> tuple[float, Array, Array, Array]:
        """Return the loss, its gradient in w, dF/dtheta (p,) and dF/db (q,)."""
        problem = self.at(theta)
        point = problem.at(w, b)
        slope = self.slope(problem, theta, point.residual, w) + self.rate
        free = point.residual.sum(axis=0) if problem.fit_intercept else np.zeros(len(b))
        return point.loss, problem.gradient(point), slope, free

    def violations(self, state: State) -> tuple[float, float, Array]:
        """Return how far weights and scales are from stationarity relative to the strengths, and dF/dtheta."""
        _, G, slope, free = self.gradients(state.theta, state.w, state.b)
        weights = max(float(Laplace(self.alpha).violation(state.w, G).max(initial=0.0)), float(np.abs(free).max()))
        scales = np.where(state.theta > 0, np.abs(slope), np.maximum(-slope, 0.0))
        return weights / self.alpha, float(scales.max(initial=0.0)) / self.rate, slope

    def restrict(self, centers: Array, features: Array) -> ScaledProblem:
        """Return the problem of some centres and features; everything else is zero in it."""
        basis = Kernel(self.basis.kernel, self.basis.centers[centers][:, features])
        return replace(self, X=self.X[:, features], basis=basis)

    def used(self, w: Array) -> Array:
        """Return the centres that have a weight."""
        return np.flatnonzero(w[: self.shape[0]].any(axis=1))

    def rows(self, centers: Array) -> Array:
        """Return the rows of w that belong to some centres; a penalised intercept always stays."""
        return np.append(centers, self.shape[0]) if self.penalized else centers

    def start(self, theta: Array) -> State:
        """Return a ridge fit to the labels: not the L1 fit, which is often empty at small scales, and not zero."""
        problem = self.at(theta)
        # Minus the gradient at eta = 0 points to every row's label: exactly -1 and 1 for two classes.
        _, residual = self.likelihood.evaluate(np.zeros(self.y.shape), self.y, None)
        targets = -residual / np.abs(residual).max()
        w, b = ridge_start(replace(problem, y=targets), _START_RIDGE)
        return self.state(theta, w, b)


class Journal:
    """Records F in every phase and reports it; ``stopped`` once a callback has asked for the end."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.phases: dict[str, list[float]] = {}
        self.stopped = False
        self._progress = progress
        self._count = 0

    def note(self, phase: str, objective: float, violation: float = np.inf) -> None:
        self.phases.setdefault(phase, []).append(objective)
        self._count += 1
        if self._progress is not None and self._progress(self._count, Certificate(objective, violation, None)):
            self.stopped = True


# --- phase 1: EM ---


def warm_up(scaled: ScaledProblem, state: State, n_iter: int, journal: Journal) -> State:
    """Run EM with the weights solved out of the M-step; zeros stay zeros, and small values are dropped."""
    journal.note("warm-up", state.objective)
    for _ in range(n_iter):
        centers, features = scaled.used(state.w), np.flatnonzero(state.theta)
        if len(centers) == 0 or len(features) == 0 or journal.stopped:
            break
        part = scaled.restrict(centers, features)
        rows = scaled.rows(centers)
        inner = _maximise(part, state.theta[features], state.w[rows], state.b)
        moved = _prune(part, inner)
        if moved.objective > state.objective:
            break
        settled = state.objective - moved.objective <= _EM_TOL * abs(state.objective)
        state = _embed(state, moved, rows, features)
        journal.note("warm-up", state.objective)
        if settled:
            break
    return state


def _maximise(part: ScaledProblem, theta: Array, w: Array, b: Array) -> State:
    """Take one EM step: the loss gives way to squares around v (12), both priors to ridges (13)-(14)."""
    problem = part.at(theta)
    here = problem.at(w, b)
    _, residual = part.likelihood.evaluate(here.eta, part.y, None)
    bound = float(part.likelihood.curvature(here.eta, part.y, None, bound=True).d.max())
    latent = {"y": here.eta - residual / bound, "likelihood": Gaussian(1.0 / bound, len(b))}
    _, ridge = problem.prior.linearise(w, "l2")
    ridge = np.where(np.isfinite(ridge), ridge, 0.0)  # such a weight is zero and stays there
    delta, unit = part.rate / theta, float(theta.max())
    best: tuple[float, Array, Array, Array] = (np.inf, theta, w, b)

    def reduced(u: Array) -> tuple[float, Array]:
        """Return Q after its minimisation over the weights (19); its slope needs no derivative of theirs."""
        nonlocal best
        t = unit * u
        regression = replace(part.at(t), **latent)
        point = regression.at(w, b)
        gram = bound_gram(regression, point) if len(b) > 1 else None
        w_t, b_t = majorised_minimiser(regression, point, regression.gradient(point), bound=True, gram=gram)
        point = regression.at(w_t, b_t)
        value = point.loss + 0.5 * float(np.sum(ridge * w_t**2) + delta @ t**2)
        if value < best[0]:
            best = value, t, w_t, b_t
        return value, unit * (part.slope(regression, t, point.residual, w_t) + delta * t)

    _bounded(reduced, theta / unit, [(0.0, None)] * len(theta), maxiter=_INNER, ftol=_INNER_TOL)
    return part.state(*best[1:])


def _prune(part: ScaledProblem, state: State) -> State:
    """Drop what is small against the largest, unless F would notice."""
    m = part.shape[0]
    size = np.abs(state.w[:m]).max(axis=1, initial=0.0)
    w, theta = state.w.copy(), state.theta.copy()
    w[:m][size < _PRUNE * size.max(initial=0.0)] = 0.0
    theta[theta < _PRUNE * theta.max()] = 0.0
    pruned = part.state(theta, w, state.b)
    return pruned if pruned.objective <= state.objective + _MAY_RISE * abs(state.objective) else state


def _embed(state: State, moved: State, rows: Array, features: Array) -> State:
    """Put a restricted problem's state back into the whole one."""
    w, theta = np.zeros_like(state.w), np.zeros_like(state.theta)
    w[rows], theta[features] = moved.w, moved.theta
    return State(theta, w, moved.b, moved.objective)


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
    bounds = [(0.0, None)] * (2 * d + p) + [(None, None)] * q
    gtol = tol * min(scaled.alpha, unit * scaled.rate)
    journal.note(phase, state.objective)
    w, theta, b = read(_bounded(evaluate, x, bounds, note, maxiter=max_iter, ftol=ftol, gtol=gtol))
    moved = scaled.state(theta, w, b)
    return moved if moved.objective <= state.objective else state


def _bounded(
    evaluate: Callable[[Array], tuple[float, Array]],
    x: Array,
    bounds: Iterable[Any],
    callback: Callable[..., None] | None = None,
    **options: float,
) -> Array:
    options |= {"maxcor": _MEMORY}
    found = optimize.minimize(
        evaluate, x, jac=True, method="L-BFGS-B", bounds=bounds, callback=callback, options=options
    )
    return np.asarray(found.x)


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
    status, last = Status.MAX_ITER, (np.inf, np.inf)
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
        if here[0] >= last[0] and here[1] >= last[1]:
            status = Status.STALLED
            break
        last = here
        entering = (state.theta == 0) & (slope < -tol * scaled.rate)
        centers, features = scaled.used(state.w), np.flatnonzero((state.theta > 0) | entering)
        part, rows = scaled.restrict(centers, features), scaled.rows(centers)
        inner = State(state.theta[features], state.w[rows], state.b, state.objective)
        moved = newton(part, inner, tol=0.1 * tol)
        if moved is inner:
            rough = max(0.1 * tol, 1e-2 * here[1])
            moved = polish(part, inner, journal, phase="alternation", tol=rough, ftol=0.0)
        state = _embed(state, moved, rows, features)
    return state, weights, scales, status


def search_scales(
    scaled: ScaledProblem,
    thetas: Iterable[Array],
    *,
    warm: ScaledSolution | None = None,
    em_iter: int = 30,
    tol: float = 1e-6,
    max_iter: int = 100,
    progress: Progress | None = None,
) -> ScaledSolution:
    """Return the best of the stationary points reached from each of the starting scales.

    A ``warm`` solution, of the same data under other strengths, is the only start unless nothing is left at its end.
    """

    def descend(start: State, em_iter: int) -> ScaledSolution:
        return _descend(scaled, start, em_iter, tol=tol, max_iter=max_iter, progress=progress)

    ends = []
    if warm is not None and len(scaled.used(warm.w)):
        ends.append(descend(scaled.state(warm.scales, warm.w, warm.b), 0))
        if len(scaled.used(ends[-1].w)):
            return ends[-1]
    for theta in thetas:
        # An empty model may be a dead end of the way taken: then the other way, and larger scales, get a chance.
        for scales, iterations in ((theta, em_iter), (theta, 0 if em_iter else 30), (_LARGER * theta, em_iter)):
            ends.append(descend(scaled.start(scales), iterations))
            if len(scaled.used(ends[-1].w)):
                break
    return min(ends, key=lambda end: end.objective)


def _descend(
    scaled: ScaledProblem, state: State, em_iter: int, *, tol: float, max_iter: int, progress: Progress | None
) -> ScaledSolution:
    journal = Journal(progress)
    if em_iter:
        state = warm_up(scaled, state, em_iter, journal)
    state = polish(scaled, state, journal)
    state, weights, scales, status = finish(scaled, state, journal, tol=tol, max_iter=max_iter)
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
