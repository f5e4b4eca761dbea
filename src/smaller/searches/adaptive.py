"""Adaptive sparseness: EM under a prior that needs no strength (Figueiredo 2003).

The E-step replaces the prior by a ridge per weight, ``1/w^2`` (Jeffreys) or ``alpha/|w|`` (Laplace), and a probit
likelihood by its bound; the M-step is one step of :mod:`smaller.solvers.reweighted`:

    sigma^2 <- |y - H w|^2 / n             (regression with unknown noise, at the current w)
    w       <- U (sigma^2 I + U H'H U)^-1 U H'z,      U = diag(ridge)^-1/2

Zero is absorbing, so columns leave and the systems shrink. The posterior is not convex: where EM starts decides where
it ends. It starts from a nearly unpenalised ridge fit, or, where features far outnumber rows, from a rough Laplace fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from smaller.arrays import Array
from smaller.likelihoods import Gaussian, Likelihood
from smaller.priors import ElasticNet, Jeffreys, Laplace, Normal
from smaller.problem import Point, Problem, Solution, Status
from smaller.solvers import solve
from smaller.solvers.driver import Progress
from smaller.solvers.reweighted import Reweighted, bound_gram, majorised_minimiser

__all__ = ["Adapted", "NoisePrior", "Rules", "adapt", "expectation_maximisation", "ridge_start"]

_LARGEST_DIRECT = 8000  # columns (or rows, if fewer) up to which systems are factored: no CG on nearly singular kernels
_RESTARTS = 3
_FINER = 1e-2  # factor on the initial ridge after a collapse
# Strength, relative to alpha_max, of the Laplace fit that starts EM where columns exceed rows. Noise that is estimated
# from too rich a fit vanishes, so a regression starts from fewer columns.
_FIRST_STRENGTH = {"classes": 0.003, "regression": 0.1}
_EXACT = 1e-2  # times ``tol``: tolerance of exact solves, since objectives are flat where weights still move
_FIRST_TOL = 3e-2  # of that fit
_CALM = 10  # EM steps without a column leaving, after which the exact curvature takes over
_FLOOR = 1e-12  # of the response's variance: below, the noise counts as zero
# The same under the Laplace prior, whose objective falls without end as the noise of an interpolating fit vanishes: the
# exact solver's answers lose their digits before the prior's floor would be reached.
_CONVEX_FLOOR = 1e-6
_STATIONARY = 0.02  # |1 + w_j dloss/dw_j| of a stationary point
_STILL = 1e-3  # times ``tol``: steps so short change nothing more
_SETTLED = 1e-12  # of the null model's loss: what the intercept may leave
_NOTHING = 1e-9  # times the noise: contributions of weights that the exact solver leaves short of zero


@dataclass(frozen=True)
class NoisePrior:
    """Inverse-gamma prior of the noise variance; its mode is taken in the logarithm, so (0, 0) is no prior at all."""

    shape: float = 0.0
    scale: float = 0.0

    def update(self, likelihood: Likelihood, eta: Array, y: Array, weight: Array | None, floor: float) -> Gaussian:
        """Return the likelihood with the most probable variance at ``eta``."""
        refreshed = likelihood.refresh(eta, y, weight)
        assert isinstance(refreshed, Gaussian)
        total = float(len(y) if weight is None else weight.sum())
        variance = (0.5 * total * refreshed.variance + self.scale) / (0.5 * total + self.shape)
        return replace(refreshed, variance=max(variance, floor))


@dataclass(frozen=True)
class Rules:
    """When EM stops and what it drops.

    ``tol`` bounds the relative change of the weights in a step; a weight whose contribution ``|w_j| rms(H_j)`` is below
    ``prune`` times the largest is set to zero; ``init_eps`` is the ridge of the start relative to the columns' size.
    """

    tol: float = 1e-6
    max_iter: int = 1000
    prune: float = 1e-5
    init_eps: float = 1e-6


@dataclass(frozen=True)
class Adapted:
    """A stationary or optimal point, with the likelihood (its noise variance) it belongs to."""

    solution: Solution
    likelihood: Likelihood
    interpolates: bool = False  # the noise variance fell to its floor


def adapt(
    problem: Problem,
    *,
    noise: NoisePrior | None = None,
    kernel: bool = False,
    rules: Rules | None = None,
    progress: Progress | None = None,
) -> Adapted:
    """Fit a Jeffreys or Laplace problem; ``noise`` says that the Gaussian's variance is to be estimated.

    Laplace with nothing else to estimate is convex and goes straight to the exact solver, with a certificate.
    """
    rules = rules or Rules()
    convex = isinstance(problem.prior, ElasticNet)
    if convex and noise is None:
        solution = solve(problem, tol=_EXACT * rules.tol, max_iter=rules.max_iter, progress=progress)
        return Adapted(solution, problem.likelihood)
    # Under the Laplace prior EM ends slowly, by a constant factor a step: its last change is far below what is left.
    patient = replace(rules, tol=_EXACT * rules.tol) if convex else rules
    run = _from_start(problem, noise, kernel, patient, progress)
    if convex:
        run = _polish(run, noise, rules)
    return _adapted(run)


@dataclass(frozen=True)
class _Run:
    """Where EM stands."""

    problem: Problem  # all columns, the likelihood as estimated last
    point: Point
    n_iter: int
    converged: bool
    history: tuple[float, ...]
    floor: float  # of the noise variance; 0 where that is not estimated
    stuck: bool = False  # an exact optimum on the way could not be reached


def _from_start(
    problem: Problem, noise: NoisePrior | None, kernel: bool, rules: Rules, progress: Progress | None
) -> _Run:
    """Run EM from the start that suits the design; outputs whose model empties get another start.

    A ridge fit comes first. Of more features than rows it interpolates, so a regression that estimates its noise starts
    from a Laplace fit, and so does a class whose thousands of tiny weights were all killed; others get a finer ridge.
    """
    wide = problem.n_columns > problem.design.shape[0] and not kernel
    gram = _unit_gram(problem)

    def started(attempt: int) -> tuple[Array, Array]:
        if wide and (attempt > 0 or noise is not None):
            return _laplace_start(problem, rules.init_eps)
        return ridge_start(problem, _FINER**attempt * rules.init_eps, by_column=not kernel, gram=gram)

    def run_from(w: Array, b: Array) -> _Run:
        return expectation_maximisation(problem, w, b, noise=noise, rules=rules, gram=gram, progress=progress)

    run = run_from(*started(0))
    restarts = 0 if not isinstance(problem.prior, Jeffreys) else 1 if wide else _RESTARTS
    for attempt in range(1, restarts + 1):
        empty = ~run.point.w.any(axis=0)
        if not empty.any():
            break
        w, b = started(attempt)
        run = run_from(np.where(empty, w, run.point.w), np.where(empty, b, run.point.b))
    return run


def ridge_start(
    problem: Problem, eps: float, *, by_column: bool = False, gram: Array | None = None
) -> tuple[Array, Array]:
    """Return the ridge fit to the targets with penalty ``eps`` times the mean squared norm of the columns.

    ``by_column`` uses every column's own norm instead: features in other units then start from the same fit.
    """
    c = np.ones((len(problem.y), 1)) if problem.weight is None else problem.weight[:, None]
    squares = problem.design.squares(c)
    ridge = eps * (squares if by_column else np.full_like(squares, squares.mean()))
    likelihood = Gaussian(1.0, problem.likelihood.n_outputs)
    easy = replace(problem, likelihood=likelihood, prior=Normal(1.0, np.where(ridge > 0, ridge, 1.0)))
    null = easy.null()
    G = easy.gradient(null)
    return majorised_minimiser(easy, null, G, bound=True, gram=gram, largest_direct=_LARGEST_DIRECT)


def _laplace_start(problem: Problem, eps: float) -> tuple[Array, Array]:
    """Return a rough Laplace fit by EM, where a ridge fit is useless.

    Rough on purpose: the exact optimum has dropped columns already that the Jeffreys prior would have kept.
    """
    likelihood, strength = problem.likelihood, _FIRST_STRENGTH["classes"]
    if isinstance(likelihood, Gaussian):
        likelihood, strength = replace(likelihood, variance=1.0), _FIRST_STRENGTH["regression"]
    easy = replace(problem, likelihood=likelihood, prior=Laplace(1.0))
    easy = easy.with_prior(Laplace(strength * easy.alpha_max()))
    run = expectation_maximisation(easy, *ridge_start(easy, eps, by_column=True), rules=Rules(tol=_FIRST_TOL))
    return run.point.w, run.point.b


def expectation_maximisation(
    problem: Problem,
    w: Array,
    b: Array,
    *,
    noise: NoisePrior | None = None,
    rules: Rules | None = None,
    gram: Array | None = None,
    progress: Progress | None = None,
) -> _Run:
    """Run EM from (w, b); ``gram`` is the unit-variance matrix of all columns where it is at hand."""
    rules = rules or Rules()
    floor = 0.0 if noise is None else _noise_floor(problem)
    size = _column_sizes(problem)
    columns = np.arange(problem.n_columns)
    local, history, converged, iteration, calm, change = problem, [], False, 0, 0, np.inf
    while True:
        used = np.flatnonzero(w.any(axis=1))
        if len(used) == 0:
            converged = True
            break
        if 4 * len(used) <= 3 * len(columns) or (gram is None and len(used) <= len(problem.y) < len(columns)):
            local, gram = _narrowed(local, used, gram)
            columns, size, w = columns[used], size[used], w[used]
        point = local.at(w, b)
        if noise is not None:
            local = replace(local, likelihood=noise.update(local.likelihood, point.eta, local.y, local.weight, floor))
            point = local.at(w, b, point.eta)
        G = local.gradient(point)
        converged = change < rules.tol and (change < _STILL * rules.tol or _is_stationary(local, point, G))
        if converged or iteration >= rules.max_iter:
            break
        history.append(point.objective)
        if progress is not None and progress(iteration, local.certify(point, G)):
            break
        new, b = _step(local, point, G, gram, exact=calm >= _CALM)
        new = _pruned(new, size, rules.prune)
        calm = calm + 1 if np.array_equal(new == 0, w == 0) else 0
        change = _relative_change(w, new, size)
        w = new
        iteration += 1
    full = np.zeros((problem.n_columns, w.shape[1]))
    full[columns] = w
    return _Run(*_final(problem, full, b, noise, floor), iteration, converged, tuple(history), floor)


def _step(problem: Problem, point: Point, G: Array, gram: Array | None, *, exact: bool) -> tuple[Array, Array]:
    """Return the M-step's weights; ``exact`` takes the likelihood's own curvature, where that is not the bound.

    The bound of saturated rows is far above their curvature, so that EM on well separated classes crawls at the end.
    """
    if exact and not isinstance(problem.likelihood, Gaussian):
        moved = Reweighted().advance(problem, point, G, problem.certify(point, G), 0.0)
        if moved is not point:
            return moved.w, moved.b
    gram = _scaled(gram, problem.likelihood)
    return majorised_minimiser(problem, point, G, bound=True, gram=gram, largest_direct=_LARGEST_DIRECT)


def _narrowed(problem: Problem, used: Array, gram: Array | None) -> tuple[Problem, Array | None]:
    """Return the problem of the columns in use, and its matrix."""
    local = replace(problem, design=problem.design.take(used), prior=problem.prior.take(used))
    if gram is None:
        return local, _unit_gram(local)
    kept = np.append(used, problem.n_columns) if problem.fit_intercept else used
    return local, gram[np.ix_(kept, kept)]


def _unit_gram(problem: Problem) -> Array | None:
    """Return ``H'CH`` (with the column of ones) at variance 1; None where columns exceed rows."""
    n, d = problem.design.shape
    if d > n:
        return None
    likelihood = Gaussian(1.0, problem.likelihood.n_outputs)
    unit = replace(problem, likelihood=likelihood)
    return bound_gram(unit, unit.null(), largest_direct=_LARGEST_DIRECT)


def _scaled(gram: Array | None, likelihood: Likelihood) -> Array | None:
    variance = likelihood.variance if isinstance(likelihood, Gaussian) else 1.0
    return gram if gram is None or variance == 1.0 else gram / variance


def _column_sizes(problem: Problem) -> Array:
    """Return the root mean square (d, 1) of every column: what a weight of 1 contributes to eta."""
    c = np.ones((len(problem.y), 1)) if problem.weight is None else problem.weight[:, None]
    return np.sqrt(problem.design.squares(c) / c.sum())


def _noise_floor(problem: Problem) -> float:
    """Return the variance below which the noise counts as zero."""
    unit = replace(problem, likelihood=Gaussian(1.0, problem.likelihood.n_outputs), fit_intercept=True)
    total = float(len(problem.y) if problem.weight is None else problem.weight.sum())
    share = _CONVEX_FLOOR if isinstance(problem.prior, ElasticNet) else _FLOOR
    return max(share * 2.0 * unit.null().loss / total, 1e-300)


def _variance(problem: Problem) -> float:
    assert isinstance(problem.likelihood, Gaussian)
    return problem.likelihood.variance


def _pruned(w: Array, size: Array, prune: float) -> Array:
    contribution = np.abs(w) * size
    return np.where(contribution < prune * contribution.max(axis=0, initial=0.0), 0.0, w)


def _relative_change(old: Array, new: Array, size: Array) -> float:
    """Return the largest relative change of an output's weights, measured by what they contribute."""
    length = np.linalg.norm(old * size, axis=0)
    moved = np.linalg.norm((new - old) * size, axis=0)
    return float(np.max(moved / np.where(length > 0, length, 1.0), initial=0.0))


def _is_stationary(problem: Problem, point: Point, G: Array) -> bool:
    """Whether ``w_j dloss/dw_j = -1`` under the Jeffreys prior: heavy rows magnify what small steps leave."""
    if not isinstance(problem.prior, Jeffreys):
        return True
    return bool(np.max(problem.prior.violation(point.w, G) * np.abs(point.w), initial=0.0) <= _STATIONARY)


def _final(problem: Problem, w: Array, b: Array, noise: NoisePrior | None, floor: float) -> tuple[Problem, Point]:
    """Evaluate the end; an output without weights falls back to the null model, a class to its frequency."""
    empty = ~w.any(axis=0)
    if problem.fit_intercept or not isinstance(problem.likelihood, Gaussian):
        b = np.where(empty, problem.likelihood.null(problem.y, problem.weight), b)
    # EM leaves the intercept a little short, and columns far from zero would multiply what it leaves.
    point = problem.settle(problem.at(w, b), tol=_SETTLED * max(problem.null().loss, 1e-300), columns=False)
    if noise is not None:
        likelihood = noise.update(problem.likelihood, point.eta, problem.y, problem.weight, floor)
        problem = replace(problem, likelihood=likelihood)
        point = problem.at(w, point.b, point.eta)
    return problem, point


def _polish(run: _Run, noise: NoisePrior | None, rules: Rules) -> _Run:
    """Alternate the exact Laplace optimum and the noise variance until neither moves, or the noise vanishes."""
    assert noise is not None
    problem, point, converged, stuck = run.problem, run.point, False, False
    for _ in range(rules.max_iter):
        variance = _variance(problem)
        # Under a small noise the null model's loss is huge beside what is left: the gap is measured by the latter.
        share = min(point.objective / problem.scale(problem.null()), 1.0)
        solution = solve(problem, start=point, tol=_EXACT * rules.tol * share, max_iter=rules.max_iter)
        problem, point = _final(problem, solution.w, solution.b, noise, run.floor)
        settled = abs(_variance(problem) - variance) <= rules.tol * variance
        converged = settled and solution.converged
        stuck = solution.status is Status.STALLED
        if settled or stuck or _variance(problem) <= run.floor:
            break
    contribution = np.abs(point.w) * _column_sizes(problem)
    w = np.where(contribution < _NOTHING * np.sqrt(_variance(problem)), 0.0, point.w)
    return replace(run, problem=problem, point=problem.at(w, point.b), converged=converged, stuck=stuck)


def _adapted(run: _Run) -> Adapted:
    problem, point = run.problem, run.point
    G = problem.gradient(point)
    certificate = problem.certify(point, G)
    likelihood = problem.likelihood
    interpolates = isinstance(likelihood, Gaussian) and likelihood.variance <= run.floor
    status = Status.STATIONARY if run.converged else Status.MAX_ITER
    if run.stuck or (run.converged and not _is_stationary(problem, point, G)):
        status = Status.STALLED
    if interpolates and isinstance(problem.prior, ElasticNet):
        status = Status.INTERPOLATES
    solution = Solution(
        point.w,
        point.b,
        point.objective,
        certificate.violation,
        None,
        run.n_iter,
        status,
        "em",
        max(problem.null().loss, 1e-300),
        run.history,
    )
    return Adapted(solution, likelihood, interpolates)
