"""The contract of a likelihood, the second derivative that all of them share, and their common arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from smaller.arrays import Array, array_namespace

__all__ = ["Curvature", "Likelihood", "by_column", "means", "weighted"]


@dataclass(frozen=True)
class Curvature:
    """Second derivatives of a loss, row by row: ``diag(d_i) - u_i u_i'``; ``u=None`` means diagonal."""

    d: Array  # (n, q)
    u: Array | None = None  # (n, q)

    def apply(self, V: Array) -> Array:
        """Multiply every row of ``V`` (n, q) by its Hessian."""
        if self.u is None:
            return self.d * V
        xp = array_namespace(V)
        return self.d * V - self.u * xp.sum(self.u * V, axis=1)[:, None]

    def diagonal(self) -> Array:
        """Return the diagonals (n, q)."""
        return self.d if self.u is None else self.d - self.u**2

    def block(self, k: int, l: int) -> Array:  # noqa: E741
        """Return entry (k, l) of every row's Hessian (n,)."""
        entry = self.d[:, k] if k == l else 0.0 * self.d[:, k]
        return entry if self.u is None else entry - self.u[:, k] * self.u[:, l]

    def damped(self, mu: float | Array, weight: Array | None) -> Curvature:
        """Return the curvature with ``mu_i c_i`` added on the diagonal; one number stands for all rows."""
        if not np.any(mu):
            return self
        added = np.reshape(mu if weight is None else mu * weight, (-1, 1))
        return Curvature(self.d + added, self.u)


class Likelihood(Protocol):
    """Contract of a likelihood; all methods are pure."""

    @property
    def n_outputs(self) -> int:
        """Number of columns q of the weights."""

    @property
    def n_free(self) -> int:
        """Number m of free numbers b: one intercept for each output, or thresholds that share one output, or none."""

    @property
    def shift_invariant(self) -> bool:
        """Whether adding one number to all outputs of a row changes nothing (symmetric coding)."""

    def encode(self, labels: Array) -> Array:
        """Turn class codes (n,), class probabilities (n, K) or responses (n,) into targets (n, q)."""

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        """Return the loss and its gradient in ``eta`` (n, q)."""

    def curvature(self, eta: Array, y: Array, weight: Array | None, *, bound: bool = False) -> Curvature:
        """Return the Hessian, or with ``bound`` a constant matrix above it for every ``eta``."""

    def predict(self, eta: Array) -> Array:
        """Return class probabilities (n, K), or the mean (n, q)."""

    def null(self, y: Array, weight: Array | None) -> Array:
        """Return the intercepts (q,) that are best when there is nothing else."""

    def dual(self, residual: Array, y: Array, weight: Array | None) -> float | None:
        """Return minus the sum of the losses' conjugates at ``-residual``; None where there is no usable dual."""

    def refresh(self, eta: Array, y: Array, weight: Array | None) -> Likelihood:
        """Return the likelihood with its own parameters re-estimated at ``eta``."""


def weighted(a: Array, weight: Array | None) -> Array:
    """Multiply every row by its weight."""
    return a if weight is None else a * weight[:, None]


def by_column(a: Array) -> Array:
    """Return NumPy arrays column by column: every later pass runs along the rows of one output."""
    return np.asfortranarray(a) if isinstance(a, np.ndarray) and a.strides[0] != a.itemsize else a


def means(y: Array, weight: Array | None) -> Array:
    """Return the weighted means of the columns."""
    xp = array_namespace(y)
    if weight is None:
        return xp.mean(y, axis=0)
    return xp.sum(weighted(y, weight), axis=0) / xp.sum(weight)
