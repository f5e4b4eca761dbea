r"""A strength for every block of columns, each integrated out like the one of :mod:`smaller.searches.evidence`.

    M = NLL + sum_b W_b log E_b,      alpha_b = W_b / E_b,      E_b = sum of r_j |w_jk| over the columns of block b

A state is self-consistent where ``f_b = alpha_b E_b / W_b`` is 1 for every block that has weights, and no block without
weights has such a strength of its own. Blocks take turns: with the others fixed, f_b is followed down from the strength
that empties the block to where it falls through 1, as for a single strength. Substitution of W_b / E_b for alpha_b
would run in circles, since W_b jumps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from smaller.arrays import Array, to_host
from smaller.priors import ElasticNet
from smaller.problem import Point, Problem, Solution, Status
from smaller.searches.evidence import (
    Grid,
    Others,
    count_weights,
    find_crossing,
    find_strength,
    log_evidence,
    meets,
)
from smaller.solvers import make_stepper
from smaller.solvers.driver import Progress, Run, descend

__all__ = ["BlockFit", "find_strengths"]

_SETTLED = 1e-2  # of log alpha: what further rounds would move, or two states that are one
_MOST_ROUNDS = 12
_BEYOND = 1e3  # times the largest gradient there can be: the strength of a block without weights


@dataclass(frozen=True)
class BlockFit:
    """Where a search for several strengths ended."""

    solution: Solution
    alphas: Array  # (B,); infinite: a block without weights; not a number: nothing in it is penalised
    n_active: Array  # (B,) W of every block
    log_evidence: float  # not a number where there is no fixed point
    strengths: Array  # (d, 1) finite ones at which the solution is the optimum
    n_rounds: int

    @property
    def alpha(self) -> float:
        """The strength if there is only one."""
        return float(self.alphas[0]) if len(self.alphas) == 1 else math.nan


def find_strengths(
    problem: Problem,
    blocks: Array,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    fallback: str = "max_f",
    progress: Progress | None = None,
    canonical: bool = True,
    finest: int = 1,
    count: int | None = None,
    start: Array | None = None,
) -> BlockFit:
    """Find a self-consistent strength for every block; ``problem`` has unit strength.

    ``blocks`` (d,) numbers the block of every column; there are ``count``, some perhaps without columns. A single one
    is :func:`find_strength`; several begin with its strength (``fallback`` is its own), or with those of ``start``. If
    no block keeps a weight, the model without features is returned.
    """
    count = int(blocks.max(initial=-1)) + 1 if count is None else count
    search = _Search(problem, blocks, count, tol, max_iter, progress, canonical, finest)
    if start is not None:
        return search.go(search.only_penalised(start), problem.null())
    one = find_strength(
        problem,
        tol=tol,
        max_iter=max_iter,
        fallback=fallback,
        progress=search.report,
        canonical=canonical,
        finest=finest,
    )
    alphas = search.only_penalised(np.full(count, one.alpha))
    if len(search.blocks) == 1 or search.stopped:
        counts = search.count(one.solution.w, one.solution.b)
        return BlockFit(one.solution, alphas, counts, one.log_evidence, np.full((problem.n_columns, 1), one.alpha), 0)
    return search.go(alphas, problem.at(one.solution.w, one.solution.b))


class _Search:
    """Blocks taking turns, from the single strength of all of them."""

    def __init__(
        self,
        problem: Problem,
        blocks: Array,
        count: int,
        tol: float,
        max_iter: int,
        progress: Progress | None,
        canonical: bool,
        finest: int,
    ) -> None:
        assert isinstance(problem.prior, ElasticNet)
        self.problem, self.prior = problem, problem.prior
        self.tol, self.max_iter, self.canonical, self.finest = tol, max_iter, canonical, finest
        self.of_column = blocks
        self.blocks = [blocks == b for b in range(count)]
        slope = np.broadcast_to(to_host(self.prior.slope), (problem.n_columns, 1))[:, 0]
        self.penalised = np.array([bool((slope[inside] > 0).any()) for inside in self.blocks])
        self.beyond = _BEYOND * np.array([_largest_gradient(problem, slope, inside) for inside in self.blocks])
        self.null = problem.null()
        self.scale = max(self.null.loss, 1e-300)
        self.stepper = make_stepper(problem)
        self._progress, self.stopped = progress, False
        self.report = None if progress is None else self._report

    def _report(self, iteration: int, certificate: object) -> bool:
        """Ask the caller whether to stop; then every search stops."""
        assert self._progress is not None
        self.stopped = self.stopped or bool(self._progress(iteration, certificate))  # type: ignore[arg-type]
        return self.stopped

    def only_penalised(self, alphas: Array) -> Array:
        """Return the strengths, not a number for blocks of free columns; nothing is left of a block without columns."""
        empty = np.array([not inside.any() for inside in self.blocks])
        return np.where(self.penalised, alphas, np.where(empty, math.inf, math.nan))

    def strengths(self, alphas: Array) -> Array:
        """Return the strength of every column (d, 1), finite for a block without weights, too."""
        alphas = np.where(np.isinf(alphas), self.beyond, np.where(np.isnan(alphas), 1.0, alphas))
        return alphas[self.of_column][:, None]

    def count(self, w: Array, b: Array) -> Array:
        return np.array([count_weights(self.problem, w, b, self.canonical, inside)[0] for inside in self.blocks])

    def go(self, alphas: Array, point: Point) -> BlockFit:
        """Take rounds until no strength would move any more."""
        before: list[Array] = []
        move = math.inf
        for n_rounds in range(1, _MOST_ROUNDS + 1):
            before.append(alphas.copy())
            for b in np.flatnonzero(self.penalised):
                alphas[b], point = self._turn(int(b), alphas, point)
            last, move = move, _distance(alphas, before[-1])
            if self.stopped or _to_come(last, move) <= _SETTLED:
                return self._end(alphas, point, n_rounds)
            met = [i for i, state in enumerate(before) if _distance(alphas, state) <= _SETTLED]
            if met:
                before = before[met[0] :]
                break
        return min((self._end(state, point, n_rounds, circled=True) for state in before), key=_size)

    def _turn(self, b: int, alphas: Array, point: Point) -> tuple[float, Point]:
        """Return the self-consistent strength of block ``b``, infinite if there is none, and the optimum there."""
        inside = self.blocks[b]
        without = alphas.copy()
        without[b] = math.inf
        w = to_host(point.w).copy()
        penalised = inside & (np.broadcast_to(to_host(self.prior.slope), (len(w), 1))[:, 0] > 0)
        w[penalised] = 0.0
        run = self._solve(without, self.problem.at(w, point.b))
        if self.stopped:
            return float(alphas[b]), point
        strengths = np.where(inside[:, None], 0.0, self.strengths(alphas))
        others = Others(inside, strengths, run.point, run.G)
        grid = Grid(self.problem, self.tol, self.max_iter, self.report, self.canonical, others, self.finest)
        found, _ = find_crossing(grid)
        return (math.inf, run.point) if found is None else (found.alpha, found.run.point)

    def _solve(self, alphas: Array, point: Point) -> Run:
        prior = ElasticNet(self.strengths(alphas) * self.prior.slope)
        # Intercepts that belonged to a block now empty can be worse than none of the others either.
        point = point if point.loss + prior.penalty(point.w) <= self.null.loss else self.null
        return descend(
            self.problem.with_prior(prior),
            self.stepper,
            replace(point, penalty=prior.penalty(point.w)),
            scale=self.scale,
            tol=self.tol,
            max_iter=self.max_iter,
            progress=self.report,
        )

    def _end(self, alphas: Array, point: Point, n_rounds: int, *, circled: bool = False) -> BlockFit:
        """Certify the optimum at the strengths found, and say how it ended."""
        run = self._solve(alphas, point)
        strengths = self.strengths(alphas)
        problem = self.problem.with_prior(ElasticNet(strengths * self.prior.slope))
        solution = run.solution(problem, self.stepper.name, self.scale)
        if not self.canonical:
            solution = replace(solution, w=run.point.w, b=run.point.b)
        if solution.status is Status.CONVERGED:
            status = Status.STOPPED if self.stopped else self._status(alphas, run.point, circled)
            solution = replace(solution, status=status)
        evidence = math.nan
        if solution.status in (Status.CONVERGED, Status.KINK) and self.finest == 1:
            evidence = log_evidence(self.problem, solution.w, solution.b, self.blocks)
        counts = self.count(solution.w, solution.b)
        return BlockFit(solution, alphas, counts, evidence, strengths, n_rounds)

    def _status(self, alphas: Array, point: Point, circled: bool) -> Status:
        if not np.isfinite(alphas).any():
            return Status.NO_FIXED_POINT
        for alpha, inside in zip(alphas, self.blocks, strict=True):
            W, total = count_weights(self.problem, point.w, point.b, self.canonical, inside)
            if np.isfinite(alpha) and (circled or not W or not meets(math.log(alpha * total / W))):
                return Status.KINK
        return Status.CONVERGED


def _size(fit: BlockFit) -> tuple[int, float]:
    """Return what the sparser of two fits has less of."""
    return int(fit.n_active.sum()), fit.solution.objective


def _largest_gradient(problem: Problem, slope: Array, inside: Array) -> float:
    """Bound the strength at which some weight of a block could be other than zero, whatever the other weights.

    ``|x_j' diag(c) r| <= (sum c_i x_ij^2)^1/2 (sum c_i)^1/2``, since no residual exceeds 1.
    """
    c = np.ones(len(problem.y)) if problem.weight is None else to_host(problem.weight)
    columns = np.flatnonzero(inside & (slope > 0))
    if len(columns) == 0:
        return 0.0
    squares = to_host(problem.design.take(columns).squares(c[:, None]))[:, 0]
    return float(np.max(np.sqrt(squares * c.sum()) / slope[columns]))


def _to_come(last: float, move: float) -> float:
    """Bound what is still to come after two moves, the last of ``move``: nothing more, or a geometric series' rest."""
    rate = move / last if move < last < math.inf else 1.0
    return min(move, move * rate / (1.0 - rate)) if rate < 1.0 else move


def _distance(alphas: Array, others: Array) -> float:
    """Return the largest change of a logarithm; a block that goes or comes back is infinitely far."""
    away = [
        0.0 if a == b else math.inf if math.isinf(a) or math.isinf(b) else abs(math.log(a / b))
        for a, b in zip(alphas.tolist(), others.tolist(), strict=True)
        if not math.isnan(a)
    ]
    return max(away, default=0.0)
