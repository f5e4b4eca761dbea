"""The strength integrated out over rows that live anywhere: `smaller.searches.evidence` by questions to them."""

from __future__ import annotations

import math
from dataclasses import replace

from smaller.priors import ElasticNet
from smaller.problem import Certificate, Solution, Status
from smaller.row_problem import RowPoint, RowProblem
from smaller.searches.evidence import (
    EvidenceFit,
    Solved,
    bracket_tol,
    count_weights,
    integrated,
    laplace,
    outcome,
    position,
)
from smaller.solvers.driver import Progress
from smaller.solvers.engine import Asking, RowRun, Scale, alpha_max, begin, descend, lockstep, model_of

__all__ = ["find_row_strength"]


class RowGrid:
    """Optima on the grid of strengths, each descent started from another's end."""

    def __init__(self, problem: RowProblem, tol: float, max_iter: int, progress: Progress | None) -> None:
        self.finest, self.stopped = 1, False
        self.problem, self.tol, self.max_iter, self._progress = problem, tol, max_iter, progress
        self.model = model_of(problem)
        self.largest = alpha_max(problem)

        def null() -> Asking[tuple[Scale, RowPoint]]:
            return (yield from begin(problem, self.model, problem.null(), tol=tol))

        self.scale, self._null = lockstep(problem.rows, [null()])[0]

    def at(self, k: int, start: Solved | None, *, loose: bool = False) -> Solved:
        """Solve at position ``k``, going on from ``start``."""
        alpha = position(self.largest, k)
        problem = self.at_strength(alpha)
        point = self._null if start is None else start.run.point
        [run] = lockstep(
            problem.rows,
            [
                descend(
                    problem,
                    self.model,
                    replace(point, penalty=problem.prior.penalty(point.w)),
                    self.scale,
                    tol=bracket_tol(self.tol) if loose else self.tol,
                    max_iter=self.max_iter,
                    progress=None if self._progress is None else self._report,
                    reach=0.0 if start is None else min(max(start.alpha / alpha - 1.0, 0.0), 1.0),
                )
            ],
        )
        return Solved(k, alpha, run, *count_weights(self.problem, run.point.w, run.point.b))

    def full(self, solved: Solved) -> bool:
        """Whether to go no further: never, as for one strength in memory."""
        return False

    def at_strength(self, alpha: float) -> RowProblem:
        """Return the problem with the strength ``alpha``."""
        prior = self.problem.prior
        assert isinstance(prior, ElasticNet)
        return self.problem.with_prior(prior.times(alpha))

    def _report(self, iteration: int, certificate: Certificate) -> bool:
        assert self._progress is not None
        self.stopped = bool(self._progress(iteration, certificate))
        return self.stopped


def find_row_strength(
    problem: RowProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    fallback: str = "max_f",
    progress: Progress | None = None,
) -> EvidenceFit:
    """Find the largest strength at which f falls through 1, as `smaller.searches.evidence.find_strength` does."""
    grid = RowGrid(problem, tol, max_iter, progress)
    return _fit(grid, *outcome(grid, fallback))


def _fit(grid: RowGrid, solved: Solved, status: Status) -> EvidenceFit:
    run: RowRun = solved.run
    solution: Solution = run.solution(grid.at_strength(solved.alpha), grid.scale)
    if solution.converged:
        solution = replace(solution, status=status)
    evidence = math.nan
    if status in (Status.CONVERGED, Status.KINK):
        at, unit = integrated(grid.problem, grid.problem.rows.likelihood, solution.w)
        H = grid.problem.rows.hessian(grid.problem.place(solution.w, solution.b), at)
        counted = [count_weights(grid.problem, solution.w, solution.b)]
        evidence = laplace(run.point.loss, H, unit, counted)
    return EvidenceFit(solution, solved.alpha, solved.n_active, evidence)
