"""Absolute values and squares: the Laplace prior, the Normal prior, and both together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.arrays import Array, array_namespace, positive_part, soft_threshold, to_host
from smaller.priors.protocol import inverse_magnitude
from smaller.priors.terms import Terms

__all__ = ["ElasticNet", "Laplace", "Normal"]


def _column(values: Array, columns: Array) -> Array:
    """Pick per-feature values (d, 1); a number stands for all columns."""
    return values[columns] if getattr(values, "ndim", 0) == 2 else values


def _is_zero(part: Array | float) -> bool:
    return isinstance(part, float) and part == 0.0


@dataclass(frozen=True)
class ElasticNet:
    """``sum slope |w| + ridge w^2 / 2``; slope and ridge are numbers or per-feature columns (d, 1).

    :func:`Laplace` and :func:`Normal` are its two ends.
    """

    slope: Array | float
    ridge: Array | float = 0.0

    separable = True
    limited = False

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
        with np.errstate(over="ignore"):  # an infinite ridge holds a weight at zero
            ridge = slope * inverse_magnitude(xp.where(slope > 0, w, 1.0 + zero))
        return zero, xp.where(slope > 0, ridge, zero) + self.ridge

    def shrink(self, a: Array, step: Array | float) -> Array:
        with np.errstate(over="ignore"):  # a step without a bound along a column that is next to nothing
            return soft_threshold(a, step * self.slope + 0.0 * a) / (1.0 + step * self.ridge)

    def violation(self, w: Array, G: Array) -> Array:
        xp = array_namespace(w)
        gradient = G if _is_zero(self.ridge) else G + self.ridge * w
        if isinstance(w, np.ndarray):  # few weights are in use: no pass over all of them but one
            found = np.abs(gradient)
            found -= self.slope
            np.maximum(found, 0.0, out=found)
            used = np.unravel_index(np.flatnonzero(w != 0), w.shape)  # of booleans: far faster than of numbers
            found[used] = np.abs(gradient[used] + np.broadcast_to(self.slope, w.shape)[used] * np.sign(w[used]))
            return found
        at_zero = positive_part(xp.abs(gradient) - self.slope)
        return xp.where(w == 0, at_zero, xp.abs(gradient + self.slope * xp.sign(w)))

    def conjugate(self, G: Array) -> float:
        if _is_zero(self.ridge):
            return 0.0
        xp = array_namespace(G)
        excess = positive_part(xp.abs(G) - self.slope)
        ridge = xp.zeros_like(G) + self.ridge
        with np.errstate(over="ignore"):  # an infinite conjugate is an infinite gap: nothing is claimed
            square = excess**2 / (2.0 * xp.where(ridge > 0, ridge, 1.0 + 0.0 * ridge))
            return float(xp.sum(xp.where(ridge > 0, square, 0.0 * G)))

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

    def critical(self, G: Array) -> float:
        xp = array_namespace(G)
        size = xp.abs(G)
        slope, ridge = (xp.zeros_like(G) + part for part in (self.slope, self.ridge))
        penalised = (slope > 0) | (ridge > 0)
        ratio = xp.where(penalised, size / xp.where(slope > 0, slope, 1.0 + 0.0 * slope), 0.0 * size)
        # No factor of a ridge alone holds a weight at zero.
        ratio = xp.where(penalised & (slope == 0) & (size > 0), xp.inf + 0.0 * size, ratio)
        return float(xp.max(ratio)) if ratio.size else 0.0

    def center(self, w: Array) -> Array:
        xp = array_namespace(w)
        q = w.shape[1]
        if isinstance(w, np.ndarray):  # columns without weights are in the middle already
            used = np.flatnonzero(np.abs(w) @ np.ones(q))
            if 2 * len(used) < len(w):
                centred = w.copy()
                centred[used] = self.take(used).center(w[used])
                return centred
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

    def change(self, old: Array, new: Array) -> float:
        steps = self.slope * (np.abs(new) - np.abs(old)) + 0.5 * self.ridge * (new - old) * (new + old)
        return float(np.sum(steps))

    def groups(self, n_columns: int) -> Array:
        return np.arange(n_columns)

    def terms(self, shape: tuple[int, int]) -> Terms:
        m = shape[0] * shape[1]
        slope, ridge = (np.full(shape, part).reshape(-1) for part in (self.slope, self.ridge))
        endless = np.full(m, np.inf)
        return Terms(np.arange(m + 1), np.zeros(m), slope, ridge, -endless, endless)

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
