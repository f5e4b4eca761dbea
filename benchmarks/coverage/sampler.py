"""The full posterior by Gibbs sampling, and how it compares with the widths and centres of the normal approximation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.papers.engine import Band
from smaller import SBMLR

from .draws import draw
from .engine import Part, Row

Array = Any


def polya_gamma(c: Array, rng: np.random.Generator, terms: int = 60) -> Array:
    """PG(1, c) as a truncated sum of exponentials, the rest by its mean (Polson, Scott, Windle 2013)."""
    k = np.arange(1, terms + 1) - 0.5
    scale = 1.0 / (2.0 * np.pi**2 * (k[None, :] ** 2 + (c[:, None] / (2.0 * np.pi)) ** 2))
    draws = (rng.exponential(size=scale.shape) * scale).sum(axis=1)
    size = np.maximum(np.abs(c), 1e-6)
    mean = np.where(np.abs(c) < 1e-6, 0.25, np.tanh(size / 2) / (2 * size))
    return draws + mean - scale.sum(axis=1)


def gibbs(X: Array, y: Array, alpha: float, X_new: Array, draws: int, seed: int) -> Array:
    """Log-odds (draws, n) of new rows from the full posterior under the Laplace prior (Park and Casella's mixture)."""
    rng = np.random.default_rng(seed)
    X, X_new = (np.column_stack([A, np.ones(len(A))]) for A in (X, X_new))
    beta = np.zeros(X.shape[1])
    kept = []
    for t in range(draws + 200):
        om = polya_gamma(X @ beta, rng)
        inverse_tau = np.zeros(len(beta))
        inverse_tau[:-1] = rng.wald(alpha / np.maximum(np.abs(beta[:-1]), 1e-10), alpha**2)
        A = X.T @ (om[:, None] * X) + np.diag(inverse_tau + 1e-10)
        L = np.linalg.cholesky(A)
        mean = np.linalg.solve(A, X.T @ (y - 0.5))
        beta = mean + np.linalg.solve(L.T, rng.normal(size=len(beta)))
        if t >= 200:
            kept.append(X_new @ beta)
    return np.array(kept)


def everything(model: Any, X: Array, X_new: Array) -> Array:
    """Return s_all of new rows: columns left out keep the variance of their prior (two classes)."""
    P = model.predict_proba(X)[:, 1]
    A, B = (np.column_stack([part, np.ones(len(part))]) for part in (X, X_new))
    H = A.T @ ((P * (1 - P))[:, None] * A)
    left_out = np.flatnonzero(model.coef_[0] == 0)
    H[left_out, left_out] += model.alpha_**2 / 2
    return np.sqrt(np.einsum("ij,jk,ik->i", B, np.linalg.inv(H), B))


def measure(settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Compare on the new rows of one draw."""
    drawn = draw(seed, **settings, n_new=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SBMLR(posterior=True).fit(drawn.X, drawn.y)
    sampled = gibbs(drawn.X, drawn.y, model.alpha_, drawn.X_new, 2000, seed)
    spread = sampled.std(axis=0)
    s = model._posterior.standard_errors(drawn.X_new)[:, 1]
    eta = model.decision_function(drawn.X_new)
    return {
        "s": float(np.median(s / spread)),
        "s_all": float(np.median(everything(model, drawn.X, drawn.X_new) / spread)),
        "centre": float(np.median(np.abs(eta - sampled.mean(axis=0)) / spread)),
    }


_BAND = {"s_all": Band(0.9, 1.15)}
PART = Part(
    "sampler",
    measure,
    {"s": "s / sampled", "s_all": "s_all / sampled", "centre": "difference of centres / sampled"},
    tuple(
        Row(f"{n}, {p}, {signal}", {"n": n, "p": p, "signal": signal}, 12, _BAND)
        for n, p, signal in ((60, 5, 3), (100, 20, 4), (400, 10, 4), (400, 50, 5))
    ),
)
