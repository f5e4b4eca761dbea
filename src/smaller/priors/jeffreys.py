"""The prior without a parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.arrays import Array, array_namespace, positive_part
from smaller.priors.protocol import inverse_magnitude
from smaller.priors.terms import Terms

__all__ = ["Jeffreys"]


@dataclass(frozen=True)
class Jeffreys:
    """``sum log |w|``: sparse without a parameter (Figueiredo 2003). Not convex, and zero is absorbing.

    The penalty falls to minus infinity at zero, so a solution is judged by its stationarity, never by the penalty.
    """

    separable = True
    limited = False

    def penalty(self, w: Array) -> float:
        xp = array_namespace(w)
        magnitude = xp.abs(w)
        nonzero = magnitude > 0
        return float(xp.sum(xp.where(nonzero, xp.log(xp.where(nonzero, magnitude, 1.0 + 0.0 * w)), 0.0 * w)))

    def linearise(self, w: Array, form: str) -> tuple[Array, Array]:
        xp = array_namespace(w)
        zero = xp.zeros_like(w)
        inverse = inverse_magnitude(w)
        if form == "l1":
            return inverse, zero
        with np.errstate(over="ignore"):  # the square of a weight below 1e-154 is zero, and its ridge infinite
            return zero, inverse**2

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

    def critical(self, G: Array) -> float:
        raise TypeError("alpha_max needs a penalty with a strength; Jeffreys' prior has none.")

    def center(self, w: Array) -> Array:
        return w

    def times(self, alpha: float) -> Jeffreys:
        raise TypeError("Jeffreys' prior has no strength to multiply.")

    def change(self, old: Array, new: Array) -> float:
        return self.penalty(new) - self.penalty(old)

    def groups(self, n_columns: int) -> Array:
        return np.arange(n_columns)

    def terms(self, shape: tuple[int, int]) -> Terms:
        raise TypeError("Jeffreys' prior is no sum of norms, absolute values and squares.")

    def take(self, columns: Array) -> Jeffreys:
        return self

    def free(self, n_columns: int) -> np.ndarray[Any, Any]:
        return np.empty(0, dtype=np.int64)
