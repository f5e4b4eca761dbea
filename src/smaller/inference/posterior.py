r"""Ranges of probabilities: a normal approximation on the chosen weights, and a hull around what shrinkage moved.

    C = H^-1 of the NLL in the active weights and the free block,      theta1 = theta - C grad NLL(theta)
    log-odds of a class:   [min(m, m1, shown) - q s,  max(m, m1, shown) + q s],      s^2 = J' C J

m belongs to the penalised weights, m1 to theta1 (one step takes the shrinkage out), "shown" to what the model predicts:
three centres where no one of them is right, and no range excludes the probability beside it. The Laplace prior is flat
but for its sign, so that C has no part of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg, special

from smaller.arrays import Array, to_host
from smaller.bases import Basis
from smaller.designs import blocks
from smaller.inference.logits import gradients, logits, probabilities
from smaller.inference.reach import reach
from smaller.likelihoods import Likelihood
from smaller.problem import Problem, Status
from smaller.searches.refit import Active
from smaller.telling import tell
from smaller.validation import check_number

__all__ = ["BEYOND_REACH", "ENOUGH_ROWS", "SOUND_REACH", "Chosen", "Posterior", "approximate", "quantile"]

BEYOND_REACH = 4.0  # of `reach`: above, no range of a single probability is to be believed
SOUND_REACH, ENOUGH_ROWS = 1.5, 400
_SINGULAR = 1e-12  # pivots of the Hessian, scaled to unit diagonal


@dataclass(frozen=True)
class Chosen:
    """The columns that active weights multiply, as the user's X gives them."""

    basis: Basis
    scales: Array  # (u,) exact factors of these columns
    shifts: Array  # (u,) subtracted from them first
    columns: Array  # (m,) of every active parameter; u stands for a column of ones
    outputs: Array  # (m,)

    def values(self, X: Any) -> Array:
        """Return the value that every active parameter multiplies (n, m)."""
        matrix = self.basis.expand(X).matrix
        Z = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else to_host(matrix), dtype=np.float64)
        return np.column_stack([(Z - self.shifts) * self.scales, np.ones(len(Z))])[:, self.columns]

    def eta(self, Z: Array, theta: Array, n_outputs: int) -> Array:
        """Return the outputs (n, q) that parameters ``theta`` give."""
        return Z @ (theta[:, None] * (self.outputs[:, None] == np.arange(n_outputs)))


@dataclass(frozen=True)
class Posterior:
    """What a fit keeps for its ranges: as many numbers as the square of the active weights."""

    chosen: Chosen
    likelihood: Likelihood
    theta: Array = field(repr=False)  # (m,)
    moved: Array = field(repr=False)  # theta1
    factor: Array | None = field(repr=False)  # of the Hessian, in units of `unit`; None where it is singular
    unit: Array = field(repr=False)  # (m,)
    reach: float | None  # None where the prior gives no variance to what was left out
    n_rows: int  # with any weight
    status: Status

    takes_nothing_as_given = False

    @property
    def beyond_reach(self) -> bool:
        """Whether nothing can be said about a single probability."""
        return self.status is Status.NO_FIXED_POINT or (self.reach is not None and not self.reach <= BEYOND_REACH)

    @property
    def sound(self) -> bool:
        """Whether simulated coverage is that of the level: enough rows, two classes, little left out."""
        enough = self.n_rows >= ENOUGH_ROWS and self.likelihood.n_outputs == 1
        return enough and self.reach is not None and self.reach < SOUND_REACH

    def interval(self, X: Any, shown: Array, level: float) -> tuple[Array, Array]:
        """Return the ends (n, K) of the ranges; ``shown`` are the outputs of the model as it predicts."""
        q = quantile(level)
        n, K = len(shown), logits(self.likelihood, shown[:1]).shape[1]
        if self.beyond_reach:
            why = (
                "no strength of the penalty is self-consistent"
                if self.status is Status.NO_FIXED_POINT
                else f"reach_ is {self.reach:.2g}, above {BEYOND_REACH:g}"
            )
            tell(
                f"There are too few samples for so many features to say how sure a single probability is ({why}): "
                "every range is 0 to 1.",
            )
            return np.zeros((n, K)), np.ones((n, K))
        if self.factor is None:
            tell(
                "The chosen columns depend on each other, so that the data do not determine their weights: the ranges "
                "are not a number. Leave duplicated features out.",
            )
            return np.full((n, K), np.nan), np.full((n, K), np.nan)
        low, high = np.empty((n, K)), np.empty((n, K))
        for rows in blocks(n, 8 * (K + 2) * max(len(self.theta), 1)):
            low[rows], high[rows] = self._ends(X[rows], shown[rows], q)
        return low, high

    def standard_errors(self, X: Any) -> Array:
        """Return s (n, K), of the log-odds of every class (of the probit's own scale with two classes)."""
        return self._spread(self.chosen.values(X))[1]

    def _ends(self, X: Any, shown: Array, q: float) -> tuple[Array, Array]:
        Z = self.chosen.values(X)
        eta, s = self._spread(Z)
        moved = self.chosen.eta(Z, self.moved, self.likelihood.n_outputs)
        centres = np.stack([logits(self.likelihood, part) for part in (eta, moved, shown)])
        low, high = centres.min(axis=0) - q * s, centres.max(axis=0) + q * s
        return probabilities(self.likelihood, low), probabilities(self.likelihood, high)

    def _spread(self, Z: Array) -> tuple[Array, Array]:
        """Return the outputs of the penalised weights, and s."""
        eta = self.chosen.eta(Z, self.theta, self.likelihood.n_outputs)
        g = gradients(self.likelihood, eta)
        s = np.zeros(g.shape[:2])
        for k in range(g.shape[1]):
            if g.shape[1] == 2 and k == 1:  # two classes have one s
                s[:, 1] = s[:, 0]
                break
            J = Z * g[:, k, self.chosen.outputs] / self.unit
            s[:, k] = np.sqrt((linalg.solve_triangular(self.factor, J.T, lower=True) ** 2).sum(axis=0))
        return eta, s


def quantile(level: float) -> float:
    """Return the normal quantile of a two-sided level."""
    level = check_number("level", level, least=0.0, most=1.0, open_left=True)
    if level == 1.0:
        raise ValueError("level must be a number between 0 and 1, both excluded, got 1.0: no range but 0 to 1 is sure.")
    return float(special.ndtri(0.5 + 0.5 * level))


def approximate(
    problem: Problem,
    w: Array,
    b: Array,
    status: Status,
    basis: Basis,
    origin: tuple[Array, Array, Array],
    *,
    measured: bool = True,
) -> Posterior:
    """Approximate the posterior of the active weights at the optimum of ``problem``.

    ``origin`` names, for every column of the design, the column of ``basis`` behind it, the exact factor between the
    two and what is subtracted first; a column number that the basis does not have is a column of ones. ``measured``:
    whether `reach` applies.
    """
    active = Active.of(problem, w, b)
    eta = active.eta(active.theta)
    _, residual = problem.evaluate(eta)
    H = active.hessian(problem.likelihood.curvature(eta, problem.y, problem.weight))
    factor, unit = _factored(H)
    moved = active.theta
    if factor is not None and len(unit):
        step = linalg.cho_solve((factor, True), active.gradient(residual) / unit) / unit
        moved = active.theta - step
    n_rows = len(eta) if problem.weight is None else int(np.count_nonzero(to_host(problem.weight)))
    found = reach(active, eta) if measured else None
    chosen = _in_the_users_units(active, basis, origin)
    return Posterior(chosen, problem.likelihood, active.theta, moved, factor, unit, found, n_rows, status)


def _in_the_users_units(active: Active, basis: Basis, origin: tuple[Array, Array, Array]) -> Chosen:
    """Translate the active columns; ones behind the last, whether the intercept is free or penalised."""
    names, scales, shifts = (part[active.used] for part in origin)
    real = names >= 0
    place = np.append(np.where(real, np.cumsum(real) - 1, real.sum()), real.sum())
    return Chosen(basis.take(names[real]), scales[real], shifts[real], place[active.columns], active.outputs)


def _factored(H: Array) -> tuple[Array | None, Array]:
    """Return the factor of a Hessian scaled to unit diagonal, and the scale; None where it is singular."""
    diagonal = H.diagonal()
    if not (np.isfinite(diagonal).all() and (diagonal > 0).all()):
        return None, np.ones(len(H))
    unit = np.sqrt(diagonal)
    try:
        L = linalg.cholesky(H / np.outer(unit, unit), lower=True) if len(H) else np.zeros((0, 0))
    except linalg.LinAlgError:
        return None, unit
    return (L, unit) if (L.diagonal() ** 2 > _SINGULAR).all() and math.isfinite(L.sum()) else (None, unit)
