"""How labels arise from the linear predictor ``eta`` (n, q); a likelihood never sees X.

Symbols: ``eta`` (n, q) outputs, ``y`` (n, q) targets as made by ``encode``, ``weight`` (n,) observation weights
``c_i >= 0`` or None for ones, ``P`` probabilities. Every loss is a *sum* over rows.

A row's Hessian in its outputs is ``diag(d_i) - u_i u_i'`` for every likelihood here (:class:`Curvature`), which is
why one inner loop serves them all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import special

import smaller._core as _core
from smaller.arrays import (
    Array,
    array_namespace,
    from_host,
    log_normal_cdf,
    log_partition,
    mills,
    positive_part,
    tilted,
    to_host,
)

__all__ = ["ALL_LIKELIHOODS", "Curvature", "Gaussian", "Likelihood", "Multinomial", "Probit"]


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
        """Number of columns q of ``eta``."""

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


def _weighted(a: Array, weight: Array | None) -> Array:
    return a if weight is None else a * weight[:, None]


def _by_column(a: Array) -> Array:
    """Return NumPy arrays column by column: every later pass runs along the rows of one output."""
    return np.asfortranarray(a) if isinstance(a, np.ndarray) and a.strides[0] != a.itemsize else a


def _means(y: Array, weight: Array | None) -> Array:
    xp = array_namespace(y)
    if weight is None:
        return xp.mean(y, axis=0)
    return xp.sum(_weighted(y, weight), axis=0) / xp.sum(weight)


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
            return _by_column(labels[:, self._estimated])
        codes = xp.arange(self.n_classes, device=labels.device)[self._estimated]
        if xp is np or isinstance(labels, np.ndarray):
            return _by_column((labels[:, None] == codes).astype(np.float64))
        return xp.astype(labels[:, None] == codes[None, :], xp.float64)

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        if isinstance(eta, np.ndarray):
            residual = np.empty_like(eta, order="F")
            return _core.softmax(_by_column(eta), _by_column(y), weight, residual, not self.shift_invariant), residual
        xp = array_namespace(eta)
        lse, P = log_partition(eta, pinned=not self.shift_invariant)
        # lse - eta_y, never log(P_y): that underflows on separable data.
        rows = lse - xp.sum(y * eta, axis=1)
        if weight is not None:
            rows = rows * weight
        P -= y
        return float(xp.sum(rows)), _weighted(P, weight)

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
            return Curvature(_weighted(P * (1.0 - P), weight))
        return Curvature(_weighted(P, weight), P if weight is None else P * xp.sqrt(weight)[:, None])

    def predict(self, eta: Array) -> Array:
        xp = array_namespace(eta)
        lse, P = log_partition(eta, pinned=not self.shift_invariant)
        if self.shift_invariant:
            return P
        pinned = xp.exp(-lse)[:, None]
        return xp.concat([pinned, P] if self.n_classes == 2 else [P, pinned], axis=1)

    def null(self, y: Array, weight: Array | None) -> Array:
        xp = array_namespace(y)
        frequency = _means(y, weight)
        if self.shift_invariant:
            b = xp.log(frequency)
            return b - xp.mean(b)
        return xp.log(frequency) - xp.log(1.0 - xp.sum(frequency))

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


@dataclass(frozen=True)
class Probit:
    """Gaussian link: ``-sum_i c_i log Phi(l_ik eta_ik)``, targets ``l`` in {-1, +1}; outputs are separable.

    With ``n_outputs = K > 2`` this is one-versus-rest in one model; `predict` normalises the K probabilities.
    """

    n_outputs: int = 1

    @property
    def shift_invariant(self) -> bool:
        return False

    def encode(self, labels: Array) -> Array:
        return 2.0 * Multinomial(max(self.n_outputs, 2)).encode(labels) - 1.0

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        xp = array_namespace(eta)
        margin = y * eta
        loss = -float(xp.sum(_weighted(log_normal_cdf(margin), weight)))
        return loss, -_weighted(y * mills(margin), weight)

    def curvature(self, eta: Array, y: Array, weight: Array | None, *, bound: bool = False) -> Curvature:
        xp = array_namespace(eta)
        if bound:  # the E-step of the probit EM is a gradient step with curvature 1
            return Curvature(_weighted(xp.ones_like(eta), weight))
        margin = y * eta
        return Curvature(_weighted(mills(margin) * tilted(margin), weight))

    def predict(self, eta: Array) -> Array:
        xp = array_namespace(eta)
        P = xp.exp(log_normal_cdf(eta))
        if self.n_outputs == 1:
            return xp.concat([xp.exp(log_normal_cdf(-eta)), P], axis=1)
        # Far in every tail all K probabilities underflow; their logarithms still say which is least unlikely.
        _, P = log_partition(log_normal_cdf(eta), pinned=False)
        return P

    def null(self, y: Array, weight: Array | None) -> Array:
        return from_host(special.ndtri(to_host((_means(y, weight) + 1.0) / 2.0)), y)

    def dual(self, residual: Array, y: Array, weight: Array | None) -> float | None:
        return None

    def refresh(self, eta: Array, y: Array, weight: Array | None) -> Probit:
        return self


@dataclass(frozen=True)
class Gaussian:
    """Squared error: ``sum_i c_i (y_i - eta_i)^2 / (2 variance)``."""

    variance: float = 1.0
    n_outputs: int = 1

    @property
    def shift_invariant(self) -> bool:
        return False

    def encode(self, labels: Array) -> Array:
        return labels if labels.ndim == 2 else labels[:, None]

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        xp = array_namespace(eta)
        error = eta - y
        scaled = _weighted(error, weight) / self.variance
        return 0.5 * float(xp.sum(scaled * error)), scaled

    def curvature(self, eta: Array, y: Array, weight: Array | None, *, bound: bool = False) -> Curvature:
        xp = array_namespace(eta)
        return Curvature(_weighted(xp.ones_like(eta) / self.variance, weight))

    def predict(self, eta: Array) -> Array:
        return eta

    def null(self, y: Array, weight: Array | None) -> Array:
        return _means(y, weight)

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


ALL_LIKELIHOODS: tuple[Likelihood, ...] = (
    Multinomial(2),
    Multinomial(3),
    Multinomial(4, coding="reference"),
    Probit(1),
    Probit(3),
    Gaussian(0.7),
)
