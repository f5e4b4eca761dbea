"""Responses: the outputs plus Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from smaller.arrays import Array, array_namespace
from smaller.likelihoods.protocol import Curvature, means, weighted

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian:
    """Squared error: ``sum_i c_i (y_i - eta_i)^2 / (2 variance)``."""

    variance: float = 1.0
    n_outputs: int = 1

    @property
    def n_free(self) -> int:
        return self.n_outputs

    @property
    def shift_invariant(self) -> bool:
        return False

    def encode(self, labels: Array) -> Array:
        return labels if labels.ndim == 2 else labels[:, None]

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        xp = array_namespace(eta)
        error = eta - y
        scaled = weighted(error, weight) / self.variance
        return 0.5 * float(xp.sum(scaled * error)), scaled

    def curvature(self, eta: Array, y: Array, weight: Array | None, *, bound: bool = False) -> Curvature:
        xp = array_namespace(eta)
        return Curvature(weighted(xp.ones_like(eta) / self.variance, weight))

    def predict(self, eta: Array) -> Array:
        return eta

    def null(self, y: Array, weight: Array | None) -> Array:
        return means(y, weight)

    def dual(self, residual: Array, y: Array, weight: Array | None) -> float | None:
        # conjugate of c (eta - y)^2 / (2 v) at r: r y + v r^2 / (2 c)
        xp = array_namespace(y)
        squares = residual**2
        if weight is not None:
            squares = squares / xp.where(weight > 0, weight, xp.ones_like(weight))[:, None]
        return -float(xp.sum(residual * y) + 0.5 * self.variance * xp.sum(squares))

    def refresh(self, eta: Array, y: Array, weight: Array | None) -> Gaussian:
        xp = array_namespace(eta)
        total = float(eta.shape[0]) if weight is None else float(xp.sum(weight))
        loss, _ = replace(self, variance=1.0).evaluate(eta, y, weight)
        return replace(self, variance=max(2.0 * loss / (total * self.n_outputs), math.ulp(0.0)))
