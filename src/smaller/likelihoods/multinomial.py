"""Classes: the softmax of the outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import smaller._core as _core
from smaller.arrays import Array, array_namespace, log_partition, positive_part
from smaller.likelihoods.protocol import Curvature, by_column, means, weighted

__all__ = ["Multinomial"]


def _plogp(p: Array) -> Array:
    xp = array_namespace(p)
    positive = positive_part(p)
    return positive * xp.log(xp.where(positive > 0, positive, xp.ones_like(positive)))


@dataclass(frozen=True)
class Multinomial:
    """Softmax: ``-sum_i c_i (eta_{i,y_i} - log sum_k exp eta_ik)``.

    Two classes need one output (class 1 against class 0, which is pinned to 0). More classes have one output each
    (``coding="symmetric"``) or pin the last class to 0 (``coding="reference"``, the 2005 paper).
    """

    n_classes: int
    coding: str = "symmetric"

    def __post_init__(self) -> None:
        if self.coding not in ("symmetric", "reference"):
            raise ValueError(f"coding must be 'symmetric' or 'reference', got {self.coding!r}.")

    @property
    def n_free(self) -> int:
        return self.n_outputs

    @property
    def shift_invariant(self) -> bool:
        return self.coding == "symmetric" and self.n_classes > 2

    @property
    def n_outputs(self) -> int:
        return self.n_classes if self.shift_invariant else self.n_classes - 1

    @property
    def _estimated(self) -> slice:
        """The classes that have an output: for two classes the second, as scikit-learn has it."""
        if self.n_classes == 2:
            return slice(1, 2)
        return slice(0, self.n_outputs)

    def encode(self, labels: Array) -> Array:
        xp = array_namespace(labels)
        if labels.ndim == 2:  # soft labels: a row of class probabilities
            return by_column(labels[:, self._estimated])
        codes = xp.arange(self.n_classes, device=labels.device)[self._estimated]
        if xp is np or isinstance(labels, np.ndarray):
            return by_column((labels[:, None] == codes).astype(np.float64))
        return xp.astype(labels[:, None] == codes[None, :], xp.float64)

    def contrasts(self, scores: Array) -> Array:
        """Return the outputs (n, q) with the class probabilities of ``scores`` (n, K)."""
        xp = array_namespace(scores)
        if self.shift_invariant:
            return by_column(scores - xp.mean(scores, axis=1)[:, None])
        pinned = 0 if self.n_classes == 2 else -1
        return by_column((scores - scores[:, pinned][:, None])[:, self._estimated])

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        if isinstance(eta, np.ndarray):
            residual = np.empty_like(eta, order="F")
            return _core.softmax(by_column(eta), by_column(y), weight, residual, not self.shift_invariant), residual
        xp = array_namespace(eta)
        lse, P = log_partition(eta, pinned=not self.shift_invariant)
        # lse - eta_y, never log(P_y): that underflows on separable data.
        rows = lse - xp.sum(y * eta, axis=1)
        if weight is not None:
            rows = rows * weight
        P -= y
        return float(xp.sum(rows)), weighted(P, weight)

    def curvature(self, eta: Array, y: Array, weight: Array | None, *, bound: bool = False) -> Curvature:
        xp = array_namespace(eta)
        K, q = self.n_classes, self.n_outputs
        if bound:  # (8): 1/2 (I - 11'/K), K classes whatever the number of outputs
            c = xp.ones_like(eta) if weight is None else xp.ones_like(eta) * weight[:, None]
            if q == 1:
                return Curvature(c / 4.0)
            return Curvature(c / 2.0, xp.sqrt(c / (2.0 * K)))
        _, P = log_partition(eta, pinned=not self.shift_invariant)
        if q == 1:
            return Curvature(weighted(P * (1.0 - P), weight))
        return Curvature(weighted(P, weight), P if weight is None else P * xp.sqrt(weight)[:, None])

    def predict(self, eta: Array) -> Array:
        xp = array_namespace(eta)
        lse, P = log_partition(eta, pinned=not self.shift_invariant)
        if self.shift_invariant:
            return P
        pinned = xp.exp(-lse)[:, None]
        return xp.concat([pinned, P] if self.n_classes == 2 else [P, pinned], axis=1)

    def null(self, y: Array, weight: Array | None) -> Array:
        xp = array_namespace(y)
        frequency = means(y, weight)
        if self.shift_invariant:
            b = xp.log(frequency)
            return b - xp.mean(b)
        rest = means(1.0 - xp.sum(y, axis=1, keepdims=True), weight)  # exact where one less the others would be zero
        return xp.log(frequency) - xp.log(rest)

    def dual(self, residual: Array, y: Array, weight: Array | None) -> float | None:
        xp = array_namespace(y)
        if weight is None:
            Q = residual + y
        else:
            safe = xp.where(weight > 0, weight, xp.ones_like(weight))
            Q = residual / safe[:, None] + y
        negentropy = xp.sum(_plogp(Q), axis=1)
        if not self.shift_invariant:
            negentropy = negentropy + _plogp(1.0 - xp.sum(Q, axis=1))
        return -float(xp.sum(negentropy if weight is None else negentropy * weight))

    def refresh(self, eta: Array, y: Array, weight: Array | None) -> Multinomial:
        return self
