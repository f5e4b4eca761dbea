"""What a kernel model does with a feature: partial dependence of the strongest ones (Friedman 2001).

f_k(v)  =  (1/n) sum_i P(k | x_i with feature j set to v)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array

__all__ = ["partial_dependence"]

STRONGEST, POINTS = 6, 12
ROWS, FIRST_ROWS = 200, 60  # averaged over; fewer to find the strongest features
MOST_LOOKED_AT = 300  # features; of more, those whose means differ most between the classes
_ENDS = (5.0, 95.0)  # percent of the rows between which a feature is moved


def partial_dependence(pipeline: Any, X: Any, y: Array, names: list[str], seed: int) -> list[dict[str, Any]] | None:
    """Return values and mean probabilities (classes, values) of the features that move a model most, strongest first.

    Features are ranked by how far they move any class on their way from low to high values. None for sparse tables.
    """
    if sparse.issparse(X):
        return None
    rows = np.random.default_rng(seed).permutation(len(X))[:ROWS]
    some, looked_at = X[rows], _promising(X, y)
    moved = [np.ptp(_curve(pipeline, some[:FIRST_ROWS], j, _grid(X[:, j], 4)), axis=1).max() for j in looked_at]
    strongest = looked_at[np.argsort(-np.asarray(moved), kind="stable")[:STRONGEST]]
    found = []
    for j in strongest.tolist():
        grid = _grid(X[:, j], POINTS)
        found.append({"name": names[j], "values": grid.tolist(), "proba": _curve(pipeline, some, j, grid).tolist()})
    return found


def _grid(values: Array, count: int) -> Array:
    """Return the values a feature is set to: all of them if they are few, else equally spaced ones."""
    present = np.unique(values[~np.isnan(values)])
    if len(present) <= count:
        return present
    low, high = np.percentile(values[~np.isnan(values)], _ENDS)
    return np.asarray(np.linspace(low, high, count))


def _curve(pipeline: Any, rows: Array, j: int, grid: Array) -> Array:
    """Return the mean probabilities (classes, values) with feature ``j`` set to each value."""
    moved = np.repeat(rows[None], len(grid), axis=0)
    moved[:, :, j] = grid[:, None]
    P = pipeline.predict_proba(moved.reshape(-1, rows.shape[1]))
    return np.asarray(P.reshape(len(grid), len(rows), -1).mean(axis=1).T)


def _promising(X: Array, y: Array) -> Array:
    """Return the features to look at."""
    every = np.flatnonzero([np.isfinite(column).sum() > 1 and np.nanstd(column) > 0 for column in X.T])
    if len(every) <= MOST_LOOKED_AT:
        return every
    means = np.array([np.nanmean(X[y == label][:, every], axis=0) for label in np.unique(y)])
    spread = means.std(axis=0) / np.nanstd(X[:, every], axis=0)
    return np.sort(every[np.argsort(-spread, kind="stable")[:MOST_LOOKED_AT]])
