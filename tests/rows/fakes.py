"""Row holders and likelihoods written from the protocols alone, to see that nothing else is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.designs import Coordinates
from smaller.likelihoods import Curvature, Likelihood
from smaller.likelihoods.protocol import weighted
from smaller.rows import Fold, HostRows, Local, Place, Reply, Rows, Totals

ROUNDS = ("totals", "at", "line", "dual", "squares", "sample", "hessian", "outputs")


@dataclass(frozen=True, eq=False)
class Strict:
    """The mandatory questions only, each counted; views keep the count of the rows they were made from."""

    inner: Rows
    rounds: Counter[str] = field(default_factory=Counter)

    @property
    def likelihood(self) -> Likelihood:
        return self.inner.likelihood

    @property
    def n_rows(self) -> int:
        return self.inner.n_rows

    @property
    def n_columns(self) -> int:
        return self.inner.n_columns

    @property
    def dtype(self) -> Any:
        return self.inner.dtype

    @property
    def labels(self) -> Array | None:
        return self.inner.labels

    @property
    def features(self) -> Array | None:
        return self.inner.features

    def __smaller_rows__(self, likelihood: Any) -> Strict:
        return replace(self, inner=self.inner.__smaller_rows__(likelihood))

    @property
    def offers(self) -> frozenset[str]:
        return frozenset()

    def totals(self) -> Totals:
        self.rounds["totals"] += 1
        return self.inner.totals()

    def at(self, places: Sequence[Place], columns: Array | None = None) -> list[Reply]:
        self.rounds["at"] += 1
        return self.inner.at(places, columns)

    def line(self, start: Place, end: Place, steps: Array) -> Array:
        self.rounds["line"] += 1
        return self.inner.line(start, end, steps)

    def dual(self, place: Place, scale: float) -> float:
        self.rounds["dual"] += 1
        return self.inner.dual(place, scale)

    def squares(self, place: Place, columns: Array | None = None) -> Array:
        self.rounds["squares"] += 1
        return self.inner.squares(place, columns)

    def sample(self, count: int, totals: Totals, seed: int = 0) -> HostRows:
        self.rounds["sample"] += 1
        return self.inner.sample(count, totals, seed)

    def hessian(self, place: Place, left: Coordinates, right: Coordinates | None = None) -> Array:
        self.rounds["hessian"] += 1
        return self.inner.hessian(place, left, right)

    def outputs(self, place: Place) -> Array:
        self.rounds["outputs"] += 1
        return self.inner.outputs(place)

    def curve(self, place: Place, direction: Place) -> tuple[Array, Array]:
        raise AssertionError("curve was not offered")

    @property
    def local(self) -> Local:
        raise AssertionError("local was not offered")

    def scaled(self, shift: Array, scale: Array) -> Strict:
        return replace(self, inner=self.inner.scaled(shift, scale))

    def take(self, columns: Array) -> Strict:
        return replace(self, inner=self.inner.take(columns))

    def subset(self, rows: Array | Fold) -> Strict:
        return replace(self, inner=self.inner.subset(rows))

    def weighted(self, factors: Any) -> Strict:
        return replace(self, inner=self.inner.weighted(factors))

    def expanded(self, basis: Basis) -> Strict:
        return replace(self, inner=self.inner.expanded(basis))

    def with_likelihood(self, likelihood: Likelihood) -> Strict:
        return replace(self, inner=self.inner.with_likelihood(likelihood))


@dataclass(frozen=True, eq=False)
class Full(Strict):
    """The mandatory questions and all optional ones, counted as well."""

    @property
    def offers(self) -> frozenset[str]:
        return self.inner.offers

    def curve(self, place: Place, direction: Place) -> tuple[Array, Array]:
        self.rounds["curve"] += 1
        return self.inner.curve(place, direction)

    @property
    def local(self) -> Local:
        return self.inner.local


@dataclass(frozen=True)
class Poisson:
    """Counts: ``sum_i c_i (exp eta_i - y_i eta_i)``."""

    n_outputs: int = 1
    n_free: int = 1
    shift_invariant: bool = False

    def encode(self, labels: Array) -> Array:
        return labels[:, None]

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        mean = np.exp(eta)
        return float(np.sum(weighted(mean - y * eta, weight))), weighted(mean - y, weight)

    def curvature(self, eta: Array, y: Array, weight: Array | None, *, bound: bool = False) -> Curvature:
        return Curvature(weighted(np.exp(eta), weight))

    def predict(self, eta: Array) -> Array:
        return np.exp(eta)

    def null(self, y: Array, weight: Array | None) -> Array:
        return np.log(np.average(y, axis=0, weights=weight))

    def dual(self, residual: Array, y: Array, weight: Array | None) -> float | None:
        c = np.ones((len(y), 1)) if weight is None else weight[:, None]
        mean = np.where(c > 0, residual / np.where(c > 0, c, 1.0), 0.0) + y
        return -float(np.sum(c * np.where(mean > 0, mean * np.log(np.where(mean > 0, mean, 1.0)) - mean, 0.0)))

    def refresh(self, eta: Array, y: Array, weight: Array | None) -> Poisson:
        return self


@dataclass(frozen=True)
class Ordinal:
    """Ordered classes by thresholds: P(y > k) = sigma(x'w + b_k), b decreasing; one output, K - 1 free numbers."""

    n_classes: int = 4
    n_outputs: int = 1
    shift_invariant: bool = False

    @property
    def n_free(self) -> int:
        return self.n_classes - 1

    def encode(self, labels: Array) -> Array:
        return np.asfortranarray(np.equal.outer(labels, np.arange(self.n_classes)).astype(np.float64))

    def _edges(self, eta: Array) -> tuple[Array, Array]:
        """Return P(y > k) between certainties, and the classes' probabilities."""
        beyond = np.column_stack([np.ones(len(eta)), 1.0 / (1.0 + np.exp(-eta)), np.zeros(len(eta))])
        return beyond, beyond[:, :-1] - beyond[:, 1:]

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        beyond, P = self._edges(eta)
        chosen = np.sum(y * P, axis=1)
        if len(chosen) and chosen.min() <= 0.0:  # thresholds out of order
            return np.inf, np.zeros_like(eta)
        slope = beyond[:, 1:-1] * (1.0 - beyond[:, 1:-1])
        residual = (y[:, :-1] - y[:, 1:]) * slope / chosen[:, None]
        return float(-np.sum(weighted(np.log(chosen)[:, None], weight))), np.asfortranarray(weighted(residual, weight))

    def curvature(self, eta: Array, y: Array, weight: Array | None, *, bound: bool = False) -> Curvature:
        beyond, _ = self._edges(eta)
        slope = beyond[:, 1:-1] * (1.0 - beyond[:, 1:-1])
        d, u = (y[:, :-1] + y[:, 1:]) * slope, np.zeros_like(eta)
        ratio = np.exp(eta[:, 1:] - eta[:, :-1])
        kink = y[:, 1:-1] * ratio / (1.0 - ratio) ** 2  # of -log(1 - exp(eta_k - eta_(k-1))), for classes in between
        for k in range(self.n_classes - 2):
            d[:, k : k + 2] += 2.0 * kink[:, k, None]
            u[:, k : k + 2] += np.sqrt(kink[:, k, None])
        return Curvature(weighted(d, weight), u if weight is None else u * np.sqrt(weight)[:, None])

    def predict(self, eta: Array) -> Array:
        return self._edges(eta)[1]

    def null(self, y: Array, weight: Array | None) -> Array:
        share = np.average(y, axis=0, weights=weight)
        beyond = 1.0 - np.cumsum(share)[:-1]
        return np.log(beyond / (1.0 - beyond))

    def dual(self, residual: Array, y: Array, weight: Array | None) -> float | None:
        return None

    def refresh(self, eta: Array, y: Array, weight: Array | None) -> Ordinal:
        return self
