"""Rows whose law is known: normal columns, a few weights that are not zero, labels by the logistic law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

Array = Any


@dataclass(frozen=True)
class Drawn:
    """Training rows, new rows, and the truth: weights (p,) or (p, K) and log-odds (n, K) of the new rows."""

    X: Array
    y: Array
    X_new: Array
    weights: Array
    log_odds: Array

    @property
    def proba(self) -> Array:
        return special.expit(self.log_odds)


def draw(
    seed: int,
    n: int,
    p: int,
    signal: int,
    *,
    size: float = 1.0,
    rho: float = 0.0,
    group: int = 0,
    classes: int = 2,
    n_new: int = 400,
) -> Drawn:
    """Draw rows; neighbours correlate by ``rho``, or with ``group`` all columns of a group by .8.

    The columns that count are spread evenly (or one for each of the first groups); weights are ``size`` with a random
    sign, for every class if there are more than two.
    """
    rng = np.random.default_rng([seed, n, p, signal, classes])
    X = columns(rng, n + n_new, p, rho, group)
    where = np.arange(signal) * (group or max(p // signal, 1)) + (0 if group else min(1, p // signal - 1))
    q = 1 if classes == 2 else classes
    weights = np.zeros((p, q))
    weights[where] = size * rng.choice([-1.0, 1.0], (signal, q))
    scores = X @ weights
    scores = np.column_stack([np.zeros(len(X)), scores]) if classes == 2 else scores
    y = np.argmax(scores[:n] + rng.gumbel(size=(n, classes)), axis=1)
    y[:classes] = np.arange(classes)
    P = special.softmax(scores[n:], axis=1)
    others = np.log(np.maximum(1.0 - P, 1e-300))
    return Drawn(X[:n], y, X[n:], weights[:, 0] if q == 1 else weights, np.log(P) - others)


def columns(rng: np.random.Generator, n: int, p: int, rho: float, group: int) -> Array:
    """Return normal columns of variance 1."""
    X = rng.normal(size=(n, p))
    if group:
        common = np.repeat(rng.normal(size=(n, -(-p // group))), group, axis=1)[:, :p]
        return np.sqrt(0.2) * X + np.sqrt(0.8) * common
    for j in range(1, p if rho else 0):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    return X
