"""The sum to be minimised over rows that may live anywhere, a point in it, and what is known of its gap.

    F(w, b) = sum_i c_i loss(y_i, eta_i) + penalty(w),      eta_i = offset_i + X_i w + b

The twin of `smaller.problem` for whoever holds weights, free numbers and prior, and asks `Rows` for everything else.

The duality gap costs a question only where it is in doubt. Minus the sum of conjugates at ``s`` times the residual,
``D(s)``, is concave in s; ``D(0)`` (the entropy of soft labels) and ``D(1) = entropy`` are known, and by Fenchel
``D'(1) = entropy - loss``. So

    (1 - s) D(0) + s D(1)  <=  D(s)  <=  D(1) - (1 - s) (entropy - loss).

Symbols: d columns, q outputs, m free numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from smaller.arrays import Array
from smaller.priors import Prior
from smaller.problem import Certificate, canonical_place
from smaller.rows.protocol import Fold, Place, Reply, Rows, Totals

__all__ = ["Bounds", "RowPoint", "RowProblem"]


@dataclass(frozen=True, eq=False)
class RowPoint:
    """Weights with the answer of all rows about them."""

    w: Array  # (d, q)
    b: Array  # (m,)
    loss: float
    entropy: float  # the dual value of the residual; nan without a dual
    gb: Array  # (m,) gradient of the loss in b
    G: Array  # (d, q) gradient of the loss in w
    penalty: float

    @property
    def objective(self) -> float:
        return self.loss + self.penalty


@dataclass(frozen=True)
class Bounds:
    """What is known about a point without a further question: ``low <= gap <= high``, nan without a dual."""

    violation: float
    scale: float  # of the residual at the dual point
    above: float  # the gap is this minus D(scale)
    low: float
    high: float


@dataclass(frozen=True)
class RowProblem:
    """Rows and a prior put together; with ``fold`` only its rows count."""

    rows: Rows
    prior: Prior
    fit_intercept: bool = True
    fold: Fold | None = None

    @property
    def n_columns(self) -> int:
        return self.rows.n_columns

    @property
    def n_free(self) -> int:
        """Number of free numbers that may move."""
        return self.rows.likelihood.n_free if self.fit_intercept else 0

    def with_prior(self, prior: Prior) -> RowProblem:
        changed = replace(self, prior=prior)
        changed.__dict__["totals"] = self.totals  # what all rows said once
        return changed

    @cached_property
    def totals(self) -> Totals:
        """What one look at the rows tells."""
        return (self.rows if self.fold is None else self.rows.subset(self.fold)).totals()

    def place(self, w: Array, b: Array) -> Place:
        return Place.of(w, b, self.fold)

    def point(self, w: Array, b: Array, reply: Reply) -> RowPoint:
        """Return the point that a reply is about."""
        return RowPoint(w, b, float(reply.loss), float(reply.entropy), reply.gb, reply.G, self.prior.penalty(w))

    def null(self) -> tuple[Array, Array]:
        """Return no weights, and the free numbers that are best then (where rows have no offsets)."""
        likelihood = self.rows.likelihood
        b = likelihood.null(self.totals.target_means, None)
        return np.zeros((self.n_columns, likelihood.n_outputs)), b if self.fit_intercept else np.zeros(len(b))

    def bounds(self, point: RowPoint) -> Bounds:
        """Return violation and bounds of the gap at a point; see the module's formula.

        What the free numbers and the columns without a penalty have left over enters as in `Problem.certify`.
        """
        prior, G = self.prior, point.G
        violation = float(np.max(prior.violation(point.w, G))) if G.size else 0.0
        imbalance = np.abs(point.gb) if self.fit_intercept else np.zeros(len(point.gb))
        violation = max(violation, float(imbalance.max(initial=0.0)))
        s = prior.feasible(G)
        if np.isnan(point.entropy) or s == 0.0:
            return Bounds(violation, s, np.nan, np.nan, np.nan)
        slack = float(imbalance @ np.abs(point.b))
        if len(self._free):
            slack += float(np.sum(np.abs(G[self._free]) * (np.abs(point.w[self._free]) + self._free_units)))
        above = point.objective + prior.conjugate(s * G) + slack
        if s == 1.0:
            return Bounds(violation, s, above, above - point.entropy, above - point.entropy)
        chord = (1.0 - s) * self.totals.entropy + s * point.entropy
        tangent = point.entropy - (1.0 - s) * (point.entropy - point.loss)
        return Bounds(violation, s, above, above - tangent, above - chord)

    def certificate(self, point: RowPoint, bounds: Bounds, *, exact: bool) -> Certificate:
        """Return the certificate; the gap is its upper bound, or ``exact`` at the price of one question."""
        gap = bounds.high
        if exact and bounds.scale < 1.0 and not np.isnan(bounds.above):
            gap = bounds.above - self.rows.dual(self.place(point.w, point.b), bounds.scale)
        return Certificate(point.objective, bounds.violation, None if np.isnan(gap) else max(gap, 0.0))

    @cached_property
    def _free(self) -> Array:
        """Indices of the columns without a penalty."""
        return self.prior.free(self.n_columns)

    @cached_property
    def _free_units(self) -> Array:
        """The change of each free column's weights that moves eta by one, as a root mean square over rows (m, 1)."""
        totals = self.totals
        square = (totals.M2 / totals.weight + totals.mean**2)[self._free]
        return np.where(square > 0, 1.0 / np.sqrt(np.where(square > 0, square, 1.0)), 0.0)[:, None]

    def separable(self, point: RowPoint) -> bool:
        """Whether weights without a penalty are running away to infinity: the loss itself vanishes."""
        return len(self._free) > 0 and not np.isnan(point.entropy) and point.loss < 1e-6 * self.totals.weight

    def canonical(self, w: Array, b: Array) -> tuple[Array, Array]:
        """Return the canonical point among equivalent ones (symmetric coding has flat directions)."""
        return canonical_place(self.rows.likelihood, self.prior, self.fit_intercept, w, b)
