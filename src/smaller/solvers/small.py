"""The path of a small softmax problem: whole rounds in the core, where an interpreter would take most of the time.

The steps are those of ``coordinate`` and ``driver``. Whatever is out of the ordinary (correlated columns, no progress)
is left to them: `Small.solve` then returns None, and where it stands is a good start.
"""

from __future__ import annotations

import numpy as np

from smaller.arrays import Array, is_numpy_array
from smaller.designs import Csc, Dense
from smaller.priors import ElasticNet
from smaller.problem import Certificate, Problem, Status
from smaller.solvers import core
from smaller.solvers.driver import Progress

__all__ = ["Small"]

_PATIENCE = 20  # rounds at one strength


class Small:
    """Solve a problem with its prior multiplied by one strength after another, each starting from the last."""

    def __init__(self, problem: Problem) -> None:
        prior = problem.prior
        assert isinstance(prior, ElasticNet)
        self.problem = problem
        slope, ridge = (np.full((problem.n_columns, 1), part)[:, 0] for part in (prior.slope, prior.ridge))
        b = (
            problem.likelihood.null(problem.y, problem.weight)
            if problem.fit_intercept
            else np.zeros(problem.y.shape[1])
        )
        pinned = not problem.likelihood.shift_invariant
        y = np.ascontiguousarray(problem.y.T)
        arguments = (y, problem.weight, slope, ridge, b, pinned, problem.fit_intercept)
        self._path = core.call("path", problem.design, arguments)

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Whether the core can take the problem on."""
        return (
            core.is_small(problem)
            and is_numpy_array(problem.y)
            and isinstance(problem.design, Dense | Csc)
            and isinstance(problem.prior, ElasticNet)
            and problem.offset is None
            and len(problem.prior.free(problem.n_columns)) == 0
        )

    @property
    def loss(self) -> float:
        return float(self._path.loss)

    @property
    def b(self) -> Array:
        """The intercepts (q,)."""
        return self._path.b

    @property
    def w(self) -> Array:
        """All weights (d, q)."""
        columns, values = self.used()
        w = np.zeros((self.problem.n_columns, values.shape[1]))
        w[columns] = values
        return w

    def used(self) -> tuple[Array, Array]:
        """Return the columns in use (m,) and their weights (m, q)."""
        columns, values = self._path.used()
        return columns, values.T

    def solve(
        self, alpha: float, reach: float, ratio: float, *, aim: float, max_iter: int, progress: Progress | None
    ) -> tuple[Certificate, Status, int] | None:
        """Go down to a gap of ``aim``; returns certificate, status and rounds, or None to give up.

        Zero weights whose gradient is within ``reach`` of the slope are admitted at once; the start lies beyond the
        last solution by ``ratio`` times its distance from the one before.
        """
        self._path.next(alpha, ratio)
        for iteration in range(1, min(max_iter, _PATIENCE) + 1):
            room = core.room(self.problem, reach)
            found = self._path.round(aim, reach, room, core.NEWTON_STEPS, core.MOST_SWEEPS)
            if found is None:
                return None
            certificate = Certificate(*found)
            assert certificate.gap is not None
            if certificate.gap <= aim:
                return certificate, Status.CONVERGED, iteration
            if progress is not None and progress(iteration, certificate):
                return certificate, Status.STOPPED, iteration
            reach = 0.0
        return (certificate, Status.MAX_ITER, max_iter) if max_iter <= _PATIENCE else None
