r"""The strength integrated out (Cawley, Talbot, Girolami 2006): alpha follows from the weights themselves.

    p(w) = int p(w | alpha) d alpha / alpha   gives   M = NLL + W log E_W,     E_W = sum r_j |w_jk|

with W the number of active penalised weights. M itself has no minimum (it falls without bound as E_W shrinks); what
the method means are the *self-consistent* points: optima w(alpha) of the L1 problem with

    f(alpha) = alpha E_W(alpha) / W(alpha) = 1                                               (5)

E_W is continuous in alpha, W is not, so f may jump across 1 (a kink). Towards large alpha f tends to 0 as well: the
crossing nearest to the null model is unstable, the one below it, where f falls through 1 as alpha decreases, is meant.

* :func:`find_strength`: certified solves along the path, bracket and bracket search; the default.
* :mod:`smaller.searches.blocks`: a strength for every block of columns.
* :mod:`smaller.papers.greedy`: the paper's own scheme, one weight at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import linalg, special

from smaller.arrays import Array, to_host
from smaller.designs import Coordinates
from smaller.likelihoods import Likelihood
from smaller.priors import ElasticNet
from smaller.problem import Certificate, Point, Problem, Solution, Status
from smaller.row_problem import RowProblem
from smaller.solvers import make_stepper
from smaller.solvers.coordinate import Coordinate
from smaller.solvers.driver import Progress, descend

_OVERFLOW = "X has columns so small that their weights overflow: multiply them by a constant."
_LARGEST = float(np.finfo(np.float64).max)
__all__ = [
    "EvidenceFit",
    "Grid",
    "Others",
    "Solved",
    "Strengths",
    "bracket_tol",
    "count_weights",
    "find_crossing",
    "find_strength",
    "integrated",
    "laplace",
    "log_evidence",
    "meets",
    "outcome",
    "position",
]

_COARSE = 10.0 ** (-1.0 / 15.0)  # the bracket: 15 strengths a decade
_FINE = 2048  # grid steps in a coarse one; neighbours differ by 7.5e-5
_FLAT = 1e-2  # |f - 1| beyond this at neighbouring strengths is a jump of W
_BRACKET_TOL = 1e-4  # while only the side of 1 matters
_DOUBTFUL = 0.1  # |log f| below which a loose solve cannot tell the side
_DECADES_BELOW_ONE, _DECADES = 3, 8  # searched while f never exceeded 1, and in all
_FULL = 0.9  # of the rows: with so many weights in all, a block is followed no further
_SINGULAR = 1e-12  # pivots of the Hessian, scaled to unit diagonal


@dataclass(frozen=True)
class EvidenceFit:
    """Where an evidence search ended."""

    solution: Solution
    alpha: float
    n_active: int  # W: penalised weights that are not zero
    log_evidence: float  # not a number where there is no fixed point, or it was not asked for

    @property
    def strengths(self) -> float:
        """What the prior was multiplied by."""
        return self.alpha


@dataclass(frozen=True)
class Others:
    """The columns that keep their strengths while that of a block is looked for."""

    inside: Array  # (d,) bool: the block
    strengths: Array  # (d, 1) of the others; 0 inside
    start: Point  # the optimum without the block
    G: Array  # (d, q) gradient of the loss there


@dataclass(frozen=True)
class Solved:
    """The optimum at position ``k`` of the grid of strengths."""

    k: int
    alpha: float
    run: Any  # of a solver: where another solve can go on
    n_active: int
    total: float  # E_W

    @property
    def log_f(self) -> float:
        return math.log(self.alpha * self.total / self.n_active) if self.n_active else -math.inf

    @property
    def above(self) -> bool:
        return self.log_f > 0.0


class Strengths(Protocol):
    """Optima along a grid of strengths, as the search for the crossing asks for them."""

    finest: int  # grid steps between the two sides of f = 1 that are near enough
    largest: float  # strength, at which all weights are zero
    stopped: bool  # by the caller

    def at(self, k: int, start: Solved | None, *, loose: bool = False) -> Solved:
        """Solve at position ``k``, going on from ``start``."""

    def full(self, solved: Solved) -> bool:
        """Whether the model is about as large as the rows allow."""


def position(largest: float, k: int) -> float:
    """Return the strength at position ``k`` of the grid below ``largest``."""
    return largest * math.pow(_COARSE, k / _FINE)


def bracket_tol(tol: float) -> float:
    """Return the tolerance while only the side of 1 matters."""
    return max(tol, _BRACKET_TOL)


class Grid:
    """Optima on a fixed geometric grid below ``alpha_max``, each solve started from another's end.

    Only strengths of the grid are ever tried, so rounding (the order of rows, say) cannot move the answer. With
    ``others`` the strength is that of a block, and ``alpha_max`` that which empties it.
    """

    def __init__(
        self,
        problem: Problem,
        tol: float,
        max_iter: int,
        progress: Progress | None,
        canonical: bool,
        others: Others | None = None,
        finest: int = 1,
    ) -> None:
        assert isinstance(problem.prior, ElasticNet)
        self.finest = finest
        self.problem, self.prior = problem, problem.prior
        self.tol, self.max_iter, self.canonical = tol, max_iter, canonical
        self.stopped = False
        self._progress, self._others = progress, others
        self.null = problem.null()
        self.scale = max(self.null.loss, 1e-300)
        self.largest = problem.alpha_max() if others is None else _emptying(problem, others)
        self.stepper = make_stepper(problem)

    def alpha(self, k: int) -> float:
        return position(self.largest, k)

    def prior_at(self, alpha: float) -> ElasticNet:
        """Return the prior with the strength ``alpha``."""
        if alpha > _LARGEST / float(np.max(self.prior.slope, initial=1.0)):
            raise ValueError(_OVERFLOW)
        if self._others is None:
            return self.prior.times(alpha)
        strengths = np.where(self._others.inside[:, None], alpha, self._others.strengths)
        return ElasticNet(strengths * self.prior.slope)

    def at(self, k: int, start: Solved | None, *, loose: bool = False) -> Solved:
        """Solve at position ``k``, going on from ``start``."""
        alpha = self.alpha(k)
        problem = self.problem.with_prior(self.prior_at(alpha))
        point, G = self._start() if start is None else (start.run.point, start.run.G)
        if isinstance(self.stepper, Coordinate):  # the sequential strong rule, as along any path
            self.stepper.lookahead = 0.0 if start is None else min(max(start.alpha / alpha - 1.0, 0.0), 1.0)
        run = descend(
            problem,
            self.stepper,
            replace(point, penalty=problem.prior.penalty(point.w)),
            G,
            scale=self.scale,
            tol=bracket_tol(self.tol) if loose else self.tol,
            max_iter=self.max_iter,
            progress=None if self._progress is None else self._report,
        )
        inside = None if self._others is None else self._others.inside
        return Solved(k, alpha, run, *count_weights(self.problem, run.point.w, run.point.b, self.canonical, inside))

    def _start(self) -> tuple[Point, Array | None]:
        return (self.null, None) if self._others is None else (self._others.start, self._others.G)

    def full(self, solved: Solved) -> bool:
        """Whether a block has made the model about as large as the rows allow."""
        if self._others is None:
            return False
        weight = self.problem.weight
        n = len(self.problem.y) if weight is None else int(np.count_nonzero(to_host(weight)))
        point, likelihood = solved.run.point, self.problem.likelihood
        determined = likelihood.n_outputs - likelihood.shift_invariant
        return count_weights(self.problem, point.w, point.b, self.canonical)[0] > _FULL * n * determined

    def _report(self, iteration: int, certificate: Certificate) -> bool:
        """Ask the caller whether to stop; then all solves stop."""
        assert self._progress is not None
        self.stopped = bool(self._progress(iteration, certificate))
        return self.stopped

    def solution(self, solved: Solved, status: Status) -> Solution:
        """Return the solution in the search's words; a solve that did not converge keeps its own."""
        problem = self.problem.with_prior(self.prior_at(solved.alpha))
        solution: Solution = solved.run.solution(problem, self.stepper.name, self.scale)
        if not self.canonical:
            solution = replace(solution, w=solved.run.point.w, b=solved.run.point.b)
        return replace(solution, status=status) if solution.status is Status.CONVERGED else solution


def _emptying(problem: Problem, others: Others) -> float:
    """Return the strength of a block at which all its weights are zero, the others as they are."""
    slope = _slopes(problem, others.G)[:, 0]
    steepest = np.abs(to_host(others.G)).max(axis=1)
    counted = others.inside & (slope > 0)
    return float(np.max(steepest[counted] / slope[counted], initial=0.0))


def count_weights(
    problem: Problem | RowProblem, w: Array, b: Array, canonical: bool = True, inside: Array | None = None
) -> tuple[int, float]:
    """Return W and E_W of the weights, in canonical form if asked for; ``problem`` has unit strength.

    ``inside`` (d,) says which columns count; None: all.
    """
    w = to_host(problem.canonical(w, b)[0] if canonical else w)
    slope = _slopes(problem, w)
    if inside is not None:
        w, slope = w[inside], slope[inside]
    with np.errstate(over="ignore"):
        total = float(np.sum(slope * np.abs(w)))
    if not math.isfinite(total):
        raise ValueError(_OVERFLOW)
    return int(np.count_nonzero((w != 0) & (slope > 0))), total


def find_strength(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    fallback: str = "max_f",
    progress: Progress | None = None,
    canonical: bool = True,
    finest: int = 1,
) -> EvidenceFit:
    """Find the largest strength at which f falls through 1; ``problem`` has unit strength.

    Where there is none, ``fallback`` says what is returned: the optimum with the largest f, or the null model. With an
    even number of classes W depends on which of several optima is counted; ``canonical=False`` takes the one the solver
    ends with, as the paper does. ``finest`` steps of the grid, 7.5e-5 of the strength each, may be left open; with more
    than one the evidence is left open, too.
    """
    grid = Grid(problem, tol, max_iter, progress, canonical, finest=finest)
    return _fit(grid, *outcome(grid, fallback))


def outcome(grid: Strengths, fallback: str) -> tuple[Solved, Status]:
    """Return the optimum at which f falls through 1 or, where it never does, what ``fallback`` says."""
    found, best = find_crossing(grid)
    if found is not None:
        return found, Status.STOPPED if grid.stopped else _end_of(found)
    if best is None or fallback == "null":
        return grid.at(0, None), Status.NO_FIXED_POINT
    return grid.at(best.k, best), Status.NO_FIXED_POINT


def find_crossing(grid: Strengths) -> tuple[Solved | None, Solved | None]:
    """Return where f falls through 1 (or a caller has stopped the search), and the optimum with the largest f."""
    best: Solved | None = None
    entry: Solved | None = None  # where f rose above 1
    for above, below in _brackets(grid):
        best = above if best is None or above.log_f > best.log_f else best
        entry = entry or above if above.above else None
        if grid.stopped:
            return above, best
        if below is not None and entry is not None:
            above, below = _between(grid, above, below)
            # Below a large jump the iteration (5) would leap past the strengths with f > 1, and from there collapse.
            if grid.stopped or math.log(below.alpha) - below.log_f <= math.log(entry.alpha):
                return above, best
    return None, best


def meets(log_f: float) -> bool:
    """Whether f is 1, as far as a fixed point can be told from a jump."""
    return abs(math.expm1(log_f)) < _FLAT


def _end_of(solved: Solved) -> Status:
    """Return what has been found where f falls through 1."""
    return Status.CONVERGED if meets(solved.log_f) else Status.KINK


def _fit(grid: Grid, solved: Solved, status: Status) -> EvidenceFit:
    solution = grid.solution(solved, status)
    valid = status in (Status.CONVERGED, Status.KINK) and grid.finest == 1
    evidence = log_evidence(grid.problem, solution.w, solution.b) if valid else math.nan
    return EvidenceFit(solution, solved.alpha, solved.n_active, evidence)


def _brackets(grid: Strengths) -> Iterator[tuple[Solved, Solved | None]]:
    """Go down the path; yield every optimum, and the next one with it where f falls through 1 between them.

    Loose solves do: only the side of 1 matters here, and where that is in doubt the solve is made tight.
    """
    if grid.largest <= 0.0:
        return
    steps = round(-1.0 / math.log10(_COARSE))
    previous: Solved | None = None
    exceeded = False
    for step in range(1, steps * _DECADES + 1):
        if not exceeded and step > steps * _DECADES_BELOW_ONE:
            return
        solved = grid.at(step * _FINE, previous, loose=True)
        if abs(solved.log_f) < _DOUBTFUL:
            solved = grid.at(solved.k, solved)
        if grid.stopped:
            yield solved, None
            return
        if previous is not None:
            yield previous, (solved if previous.above and not solved.above else None)
        if grid.full(solved):
            return
        exceeded = exceeded or solved.above
        previous = solved
    if previous is not None:
        yield previous, None


def _between(grid: Strengths, above: Solved, below: Solved) -> tuple[Solved, Solved]:
    """Narrow a bracket to neighbours of the grid, or as near as is asked for.

    Interpolation of log f against log alpha; after a step that did not halve the bracket, its middle.
    """
    halved = True
    while below.k - above.k > grid.finest and not grid.stopped:
        width = below.k - above.k
        if halved:
            share = above.log_f / (above.log_f - max(below.log_f, -1.0))
            k = above.k + min(max(round(share * width), 1), width - 1)
        else:
            k = above.k + width // 2
        solved = grid.at(k, above if k - above.k < below.k - k else below)
        above, below = (solved, below) if solved.above else (above, solved)
        halved = 2 * (below.k - above.k) <= width
    return grid.at(above.k, above), below


def log_evidence(problem: Problem, w: Array, b: Array, blocks: Sequence[Array | None] = (None,)) -> float:
    r"""Return the logarithm of the evidence at a self-consistent point, in Laplace's approximation.

    .. math:: \log P(D) = -NLL - W \log E_W + \log\Gamma(W) - W \log 2 - \tfrac12 \log|A| + \tfrac m2 \log 2\pi

    A is the Hessian of the NLL in the m parameters integrated over: the active weights (in units of their penalty
    factors, which makes the result independent of the scale of a column) and the free block, under a flat prior. The
    paper counts the last term among the constants, but m differs between models. Symmetric coding leaves one free
    parameter per column undetermined: the last class is left out, and by symmetry it does not matter which. With a
    strength for each of several ``blocks`` (masks of columns), the terms with W are a sum over them.
    """
    w, b = problem.canonical(w, b)
    point = problem.at(w, b)
    at, unit = integrated(problem, problem.likelihood, to_host(w))
    H = to_host(problem.design.gram(problem.curvature(point), at))
    counted = [count_weights(problem, w, b, inside=block) for block in blocks]
    return laplace(point.loss, H, unit, counted)


def integrated(problem: Problem | RowProblem, likelihood: Likelihood, w: Array) -> tuple[Coordinates, Array]:
    """Return the coordinates of the parameters that are integrated over, and their units."""
    slope = np.broadcast_to(_slopes(problem, w), w.shape)
    columns, outputs = np.nonzero((w != 0) & (slope > 0))
    free = problem.prior.free(problem.n_columns)
    if problem.fit_intercept:
        free = np.append(free, problem.n_columns)
    determined = likelihood.n_outputs - likelihood.shift_invariant
    unit = np.append(slope[columns, outputs], np.ones(len(free) * determined))
    columns = np.append(columns, np.repeat(free, determined))
    outputs = np.append(outputs, np.tile(np.arange(determined), len(free)))
    return (columns, outputs), unit


def laplace(loss: float, H: Array, unit: Array, counted: Sequence[tuple[int, float]]) -> float:
    """Return the formula of `log_evidence` from the Hessian and each block's W and E_W."""
    prior = sum(float(special.gammaln(W)) - W * math.log(2.0 * total) for W, total in counted if W)
    # log |H / (unit unit')|, whose entries would overflow where features are in extreme units
    determinant = _log_determinant(H) - 2.0 * float(np.sum(np.log(unit)))
    return -loss + prior - 0.5 * determinant + 0.5 * len(H) * math.log(2.0 * math.pi)


def _log_determinant(A: Array) -> float:
    """Return log |A|, or not a number where columns depend on each other: then no density is defined."""
    diagonal = np.diag(A).copy()
    if not (diagonal > 0).all():
        return math.nan
    root = np.sqrt(diagonal)
    try:
        pivots = np.diag(linalg.cholesky(A / np.outer(root, root), lower=True))
    except linalg.LinAlgError:
        return math.nan
    return 2.0 * float(np.sum(np.log(pivots) + np.log(root))) if (pivots**2 > _SINGULAR).all() else math.nan


def _slopes(problem: Problem | RowProblem, w: Array) -> Array:
    """Return the penalty factors as a column (d, 1); the prior has unit strength."""
    assert isinstance(problem.prior, ElasticNet)
    return np.broadcast_to(np.asarray(to_host(problem.prior.slope)), (w.shape[0], 1))
