"""Weights kept within limits: the elastic net in a box that holds zero."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.priors.elastic_net import ElasticNet
from smaller.priors.terms import Terms

__all__ = ["Limited"]


@dataclass(frozen=True)
class Limited:
    """``sum slope |w| + ridge w^2 / 2`` where ``lower <= w <= upper``, infinite elsewhere; ``lower <= 0 <= upper``.

    All four are columns (d, 1). Where a side is open the weight needs a slope or a ridge, or no limit at all: the dual
    of a linear loss over a half-line is infinite for every residual but the exact one.
    """

    slope: Array
    ridge: Array
    lower: Array
    upper: Array

    separable = True
    limited = True

    @property
    def _inside(self) -> ElasticNet:
        return ElasticNet(self.slope, self.ridge)

    def penalty(self, w: Array) -> float:
        outside = (w < self.lower) | (w > self.upper)
        return float("inf") if outside.any() else self._inside.penalty(w)

    def change(self, old: Array, new: Array) -> float:
        return self._inside.change(old, new)

    def linearise(self, w: Array, form: str) -> tuple[Array, Array]:
        return self._inside.linearise(w, form)

    def shrink(self, a: Array, step: Array | float) -> Array:
        # In one dimension the best point of an interval is the one nearest to the free minimiser.
        return np.clip(self._inside.shrink(a, step), self.lower, self.upper)

    def violation(self, w: Array, G: Array) -> Array:
        pull = -(G + self.ridge * w)  # must be a subgradient of slope |w| plus an outward normal of the box
        least = np.where(w > 0, self.slope, -self.slope)
        most = np.where(w < 0, -self.slope, self.slope)
        least = np.where(w <= self.lower, -np.inf, least)
        most = np.where(w >= self.upper, np.inf, most)
        return np.abs(pull - np.clip(pull, least, most))

    def conjugate(self, G: Array) -> float:
        return self._one_side(-G, self.upper) + self._one_side(G, -self.lower)

    def _one_side(self, pull: Array, limit: Array) -> float:
        """Return ``sum max over 0 <= v <= limit of (pull - slope) v - ridge v^2 / 2``."""
        excess = np.maximum(pull - self.slope, 0.0)
        ridge, limit = (np.broadcast_to(part, excess.shape) for part in (self.ridge, limit))
        best = np.divide(excess, ridge, out=np.full(excess.shape, np.inf), where=ridge > 0)
        best = np.minimum(best, limit)
        # What is open and has no ridge is feasible: its excess is rounding.
        best = np.where(np.isfinite(best), best, 0.0)
        return float(np.sum(excess * best - 0.5 * ridge * best * best))

    def feasible(self, G: Array) -> float:
        return min(1.0, 1.0 / max(self._steepest(G, open_sides=True), 1e-300))

    def critical(self, G: Array) -> float:
        return self._steepest(G, open_sides=False)

    def _steepest(self, G: Array, *, open_sides: bool) -> float:
        """Return the largest pull over slope towards a side that is open, or else towards one that can be moved to."""
        worst = 0.0
        for pull, limit in ((-G, self.upper), (G, -self.lower)):
            asked = (np.isinf(limit) & (self.ridge == 0)) if open_sides else limit > 0
            asked = asked & ((self.slope > 0) | (not open_sides)) & (pull > 0) & ~self._unbound
            slope = np.broadcast_to(self.slope, pull.shape)[asked]
            ratio = np.divide(pull[asked], slope, out=np.full(slope.shape, np.inf), where=slope > 0)
            worst = max(worst, float(ratio.max(initial=0.0)))
        return worst

    @property
    def _unbound(self) -> Array:
        return (self.slope == 0) & (self.ridge == 0) & np.isinf(self.lower) & np.isinf(self.upper)

    def center(self, w: Array) -> Array:
        return w  # limits make a common shift cost something

    def times(self, alpha: float) -> Limited:
        return Limited(alpha * self.slope, alpha * self.ridge, self.lower, self.upper)

    def take(self, columns: Array) -> Limited:
        return Limited(*(part[columns] for part in (self.slope, self.ridge, self.lower, self.upper)))

    def free(self, n_columns: int) -> np.ndarray[Any, Any]:
        return np.flatnonzero(self._unbound)

    def groups(self, n_columns: int) -> Array:
        return np.arange(n_columns)

    def terms(self, shape: tuple[int, int]) -> Terms:
        lower, upper = (np.repeat(part[:, 0], shape[1]) for part in (self.lower, self.upper))
        return replace(self._inside.terms(shape), lower=lower, upper=upper)
