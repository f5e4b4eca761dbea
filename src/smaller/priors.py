"""Which weights we expect; a prior never sees data.

Symbols: ``w`` (d, q), ``G`` (d, q) gradient of the loss in w. Penalties are ``-log p(w)`` with constants dropped.
Every prior can be replaced at a point ``w`` by ``sum slope |w| + ridge w^2 / 2`` lying above it and touching there
(``linearise``); solvers know nothing else about priors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from smaller.arrays import Array, array_namespace, positive_part, soft_threshold, to_host

__all__ = ["ALL_PRIORS", "ElasticNet", "Jeffreys", "Laplace", "Normal", "Prior"]


class Prior(Protocol):
    """Contract of a prior; methods see whole arrays."""

    def penalty(self, w: Array) -> float:
        """Return ``-log p(w)`` up to a constant."""

    def linearise(self, w: Array, form: str) -> tuple[Array, Array]:
        """Return (slope, ridge), each (d, q), of the majoriser at ``w``; ``form`` "l1" or "l2" says which to use."""

    def shrink(self, a: Array, step: Array | float) -> Array:
        """Return the minimiser of ``(w - a)^2 / (2 step) + penalty(w)``."""

    def violation(self, w: Array, G: Array) -> Array:
        """Return how far each weight is from stationarity (d, q), in units of the gradient."""

    def conjugate(self, G: Array) -> float:
        """Return the penalty's conjugate at ``G`` (finite for feasible ``G``)."""

    def feasible(self, G: Array) -> float:
        """Return the largest s in [0, 1] such that ``s G`` lies where the conjugate is finite."""

    def center(self, w: Array) -> Array:
        """Return the canonical one among weights that differ by a shift common to all outputs of a column."""

    def take(self, columns: Array) -> Prior:
        """Return the prior of some columns."""

    def free(self, n_columns: int) -> np.ndarray[Any, Any]:
        """Return the indices of the columns, out of ``n_columns``, without any penalty."""


def _column(values: Array, columns: Array) -> Array:
    """Pick per-feature values (d, 1); a number stands for all columns."""
    return values[columns] if getattr(values, "ndim", 0) == 2 else values


def _is_zero(part: Array | float) -> bool:
    return isinstance(part, float) and part == 0.0


def _inverse_magnitude(w: Array) -> Array:
    """Return ``1 / |w|``, infinite at zero, without a warning."""
    xp = array_namespace(w)
    zero = w == 0
    return xp.where(zero, xp.inf + 0.0 * w, 1.0 / xp.where(zero, 1.0 + 0.0 * w, xp.abs(w)))


@dataclass(frozen=True)
class ElasticNet:
    """``sum slope |w| + ridge w^2 / 2``; slope and ridge are numbers or per-feature columns (d, 1).

    :func:`Laplace` and :func:`Normal` are its two ends.
    """

    slope: Array | float
    ridge: Array | float = 0.0

    def penalty(self, w: Array) -> float:
        xp = array_namespace(w)
        size = xp.abs(w)
        total = self.slope * float(xp.sum(size)) if isinstance(self.slope, float) else float(xp.sum(self.slope * size))
        return total if _is_zero(self.ridge) else total + 0.5 * float(xp.sum(self.ridge * w**2))

    def linearise(self, w: Array, form: str) -> tuple[Array, Array]:
        xp = array_namespace(w)
        zero = xp.zeros_like(w)
        slope = zero + self.slope
        if form == "l1":
            return slope, zero + self.ridge
        # A column without a slope keeps a finite ridge at zero: 0 * inf must not poison it.
        return zero, xp.where(
            slope > 0, slope * _inverse_magnitude(xp.where(slope > 0, w, 1.0 + zero)), zero
        ) + self.ridge

    def shrink(self, a: Array, step: Array | float) -> Array:
        return soft_threshold(a, step * self.slope + 0.0 * a) / (1.0 + step * self.ridge)

    def violation(self, w: Array, G: Array) -> Array:
        xp = array_namespace(w)
        gradient = G if _is_zero(self.ridge) else G + self.ridge * w
        at_zero = positive_part(xp.abs(gradient) - self.slope)
        return xp.where(w == 0, at_zero, xp.abs(gradient + self.slope * xp.sign(w)))

    def conjugate(self, G: Array) -> float:
        if _is_zero(self.ridge):
            return 0.0
        xp = array_namespace(G)
        excess = positive_part(xp.abs(G) - self.slope)
        ridge = xp.zeros_like(G) + self.ridge
        return float(
            xp.sum(xp.where(ridge > 0, excess**2 / (2.0 * xp.where(ridge > 0, ridge, 1.0 + 0.0 * ridge)), 0.0 * G))
        )

    def feasible(self, G: Array) -> float:
        xp = array_namespace(G)
        size = xp.abs(G)
        if isinstance(self.slope, float) and _is_zero(self.ridge):
            largest = float(xp.max(size)) if G.size and self.slope > 0 else 0.0
            return 1.0 if largest <= self.slope else self.slope / largest
        zero = xp.zeros_like(G)
        # A ridge makes every gradient feasible; a free column's gradient is zero after its exact solve.
        bounded = ((zero + self.ridge) == 0) & ((zero + self.slope) > 0) & (size > self.slope)
        ratio = xp.where(bounded, self.slope / xp.where(bounded, size, 1.0 + zero), 1.0 + zero)
        return min(1.0, float(xp.min(ratio))) if ratio.size else 1.0

    def center(self, w: Array) -> Array:
        xp = array_namespace(w)
        q = w.shape[1]
        ordered = xp.sort(w, axis=1)
        low, high = ordered[:, (q - 1) // 2], ordered[:, q // 2]
        # Odd q: the median. Even q: every value between the two middle ones costs the same; the smaller one in
        # magnitude leaves a zero behind.
        middle = xp.where(xp.abs(low) <= xp.abs(high), low, high)
        mean = xp.mean(w, axis=1)
        slope, ridge = (xp.zeros_like(mean[:, None]) + part for part in (self.slope, self.ridge))
        # With both parts the optimum is unique already; a free column behaves like a ridge tending to zero.
        shift = xp.where(slope[:, 0] == 0, mean, xp.where(ridge[:, 0] == 0, middle, 0.0 * mean))
        return w - shift[:, None]

    def times(self, alpha: float) -> ElasticNet:
        """Return the prior with both parts multiplied by ``alpha``."""
        return ElasticNet(alpha * self.slope, alpha * self.ridge)

    def take(self, columns: Array) -> ElasticNet:
        return ElasticNet(_column(self.slope, columns), _column(self.ridge, columns))

    def free(self, n_columns: int) -> np.ndarray[Any, Any]:
        if isinstance(self.slope, float) and self.slope > 0.0:
            return np.empty(0, dtype=np.int64)
        unpenalised = (to_host(self.slope) == 0) & (to_host(self.ridge) == 0)
        return np.flatnonzero(np.broadcast_to(unpenalised, (n_columns, 1)))


def Laplace(alpha: float, factors: Array | None = None) -> ElasticNet:  # noqa: N802
    """``alpha sum_j r_j |w_j|``: sparse weights (SMLR)."""
    return ElasticNet(alpha if factors is None else alpha * factors)


def Normal(alpha: float, factors: Array | None = None) -> ElasticNet:  # noqa: N802
    """``alpha/2 sum_j r_j w_j^2``: small weights (RMLR, and the RKHS norm on a whitened basis)."""
    return ElasticNet(0.0, alpha if factors is None else alpha * factors)


@dataclass(frozen=True)
class Jeffreys:
    """``sum log |w|``: sparse without a parameter (Figueiredo 2003). Not convex, and zero is absorbing.

    The penalty falls to minus infinity at zero, so a solution is judged by its stationarity, never by the penalty.
    """

    def penalty(self, w: Array) -> float:
        xp = array_namespace(w)
        magnitude = xp.abs(w)
        nonzero = magnitude > 0
        return float(xp.sum(xp.where(nonzero, xp.log(xp.where(nonzero, magnitude, 1.0 + 0.0 * w)), 0.0 * w)))

    def linearise(self, w: Array, form: str) -> tuple[Array, Array]:
        xp = array_namespace(w)
        zero = xp.zeros_like(w)
        inverse = _inverse_magnitude(w)
        return (inverse, zero) if form == "l1" else (zero, inverse**2)

    def shrink(self, a: Array, step: Array | float) -> Array:
        # Local rule: the larger root of w^2 - |a| w + step = 0 where it is real, else zero.
        xp = array_namespace(a)
        discriminant = a**2 - 4.0 * step
        root = xp.sqrt(positive_part(discriminant))
        return xp.where(discriminant >= 0, xp.sign(a) * (xp.abs(a) + root) / 2.0, 0.0 * a)

    def violation(self, w: Array, G: Array) -> Array:
        xp = array_namespace(w)
        nonzero = w != 0
        return xp.where(nonzero, xp.abs(G + 1.0 / xp.where(nonzero, w, 1.0 + 0.0 * w)), 0.0 * w)

    def conjugate(self, G: Array) -> float:
        return float("inf")

    def feasible(self, G: Array) -> float:
        return 0.0

    def center(self, w: Array) -> Array:
        return w

    def take(self, columns: Array) -> Jeffreys:
        return self

    def free(self, n_columns: int) -> np.ndarray[Any, Any]:
        return np.empty(0, dtype=np.int64)


ALL_PRIORS: tuple[Prior, ...] = (Laplace(0.7), Normal(1.3), ElasticNet(0.5, 0.8), Jeffreys())
