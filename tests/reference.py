"""Independent arithmetic for the tests: plain NumPy from the formulas, with no help from the package's own parts.

A :class:`Case` is a small multinomial problem. ``evaluate`` recomputes its objective, the largest violation of the
optimality conditions and the duality gap; ``case.problem()`` is the same problem made of the package's parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.priors import ElasticNet
from smaller.problem import Problem

Array = Any


@dataclass(frozen=True)
class Case:
    X: Array  # (n, d)
    labels: Array  # (n,) class codes
    n_classes: int
    slope: Array  # (d, 1)
    ridge: Array  # (d, 1)
    coding: str = "symmetric"
    weight: Array | None = None
    fit_intercept: bool = True
    storage: str = "dense"  # or "csc"

    def problem(self) -> Problem:
        likelihood = Multinomial(self.n_classes, self.coding)
        X = sparse.csc_array(self.X) if self.storage == "csc" else self.X
        return Problem(
            as_design(X),
            likelihood.encode(self.labels),
            self.weight,
            likelihood,
            ElasticNet(self.slope, self.ridge),
            self.fit_intercept,
        )

    @property
    def classes_with_output(self) -> list[int]:
        K = self.n_classes
        if K == 2:
            return [1]
        return list(range(K if self.coding == "symmetric" else K - 1))

    def but(self, **changes: Any) -> Case:
        return replace(self, **changes)


class Judgement(NamedTuple):
    objective: float
    violation: float
    gap: float
    imbalance: float  # gradient left in the free block, which the gap takes to be zero


def penalties(d: int, alpha: float, l1_ratio: float = 1.0, factors: Array | None = None) -> dict[str, Array]:
    """Slope and ridge of an elastic net with per-feature factors."""
    r = np.ones((d, 1)) if factors is None else np.asarray(factors, dtype=float).reshape(d, 1)
    return {"slope": alpha * l1_ratio * r, "ridge": alpha * (1.0 - l1_ratio) * r}


def random_case(seed: int, n: int = 40, d: int = 6, K: int = 3, alpha: float = 1.0, **options: Any) -> Case:
    """Gaussian features; labels from a sparse model with noise, every class present."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = rng.standard_normal((d, K)) * (rng.random((d, K)) < 0.5)
    labels = np.argmax(X @ truth + rng.gumbel(size=(n, K)), axis=1)
    labels[rng.permutation(n)[:K]] = np.arange(K)
    parts = penalties(d, alpha, options.pop("l1_ratio", 1.0), options.pop("factors", None))
    return Case(X, labels, K, **{**parts, **options})


def probabilities(case: Case, w: Array, b: Array) -> tuple[Array, Array]:
    """Return log-probabilities and probabilities over all K classes."""
    full = np.zeros((len(case.X), case.n_classes))
    full[:, case.classes_with_output] = case.X @ w + b
    full -= full.max(axis=1, keepdims=True)
    log_p = full - np.log(np.exp(full).sum(axis=1, keepdims=True))
    return log_p, np.exp(log_p)


def evaluate(case: Case, w: Array, b: Array) -> Judgement:
    """Recompute objective, KKT violation and duality gap (spec section 2 and decision 3)."""
    n, K = len(case.X), case.n_classes
    c = np.ones(n) if case.weight is None else case.weight
    Y = np.eye(K)[case.labels]
    log_p, P = probabilities(case, w, b)
    nll = -np.sum(c * log_p[np.arange(n), case.labels])
    objective = nll + np.sum(case.slope * np.abs(w)) + 0.5 * np.sum(case.ridge * w**2)

    estimated = case.classes_with_output
    G = case.X.T @ (c[:, None] * (P - Y)[:, estimated])
    effective = G + case.ridge * w
    violation = np.where(
        w != 0, np.abs(effective + case.slope * np.sign(w)), np.maximum(np.abs(effective) - case.slope, 0.0)
    )
    free = (case.slope + case.ridge).ravel() == 0
    left = [np.abs(G[free]).max(initial=0.0)]
    if case.fit_intercept:
        left.append(np.abs((c[:, None] * (P - Y)[:, estimated]).sum(axis=0)).max())
    imbalance = float(max(left))

    hard = np.broadcast_to((case.ridge == 0) & (case.slope > 0), G.shape)  # only a ridge lifts the box |G| <= slope
    s = min(1.0, np.min((np.broadcast_to(case.slope, G.shape) / np.maximum(np.abs(G), 1e-300))[hard], initial=1.0))
    Q = s * P + (1.0 - s) * Y
    entropy = -np.sum(c[:, None] * Q * np.log(np.where(Q > 0, Q, 1.0)))
    excess = np.maximum(np.abs(s * G) - case.slope, 0.0) ** 2
    soft = case.ridge > 0
    conjugate = np.sum(np.where(soft, excess / np.where(soft, 2.0 * case.ridge, 1.0), 0.0))
    return Judgement(
        float(objective),
        float(max(violation.max(initial=0.0), imbalance)),
        float(objective - entropy + conjugate),
        imbalance,
    )
