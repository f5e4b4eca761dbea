"""The yardstick: a ridge model of all features, which says what it costs to use few."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from smaller.app.study.models import LARGE_FOLDS, Procedure, preparation
from smaller.arrays import Array

__all__ = ["RIDGE", "fit_ridge"]

RIDGE = "rmlr"
STRENGTHS = np.geomspace(1e2, 1e-3, 7)  # times the number of features, each of variance one
SEARCH_ROWS = 2_000
_LEAST = np.finfo(np.float64).eps


class _Rotated:
    """A ridge model in coordinates of the rows: with more features than rows it is the same model, and small."""

    def __init__(self, before: Any, rotation: Array | None, model: Any) -> None:
        self.before, self.rotation, self.model = before, rotation, model
        self.classes_ = model.classes_

    def predict_proba(self, X: Any) -> Array:
        Z = self.before.transform(X)
        return np.asarray(self.model.predict_proba(Z if self.rotation is None else Z @ self.rotation))


def fit_ridge(X: Any, y: Array, how: Procedure, units: Array | None = None) -> tuple[Any, Any]:
    """Fit RMLR to all features, its strength chosen by cross-validated log-loss; return it twice, as `fit_model` does.

    The penalty does not change when the coordinates are rotated, so wide data are rotated into as many columns as rows.
    """
    from smaller import RMLR

    before = Pipeline(preparation(X, how.gaps)).fit(X)
    Z, rotation = before.transform(X), None
    if not sparse.issparse(Z) and Z.shape[1] > Z.shape[0]:
        rotation = np.linalg.svd(Z, full_matrices=False)[2].T
        Z = Z @ rotation
    rows = np.arange(len(y))
    if len(rows) > SEARCH_ROWS:
        rows = np.sort(np.random.default_rng(how.seed).choice(rows, SEARCH_ROWS, replace=False))
    losses = np.zeros(len(STRENGTHS))
    few = None if units is None else units[rows]
    for train, test in how.folds(LARGE_FOLDS, y[rows], few).split(rows, y[rows], few):
        learn, judge = rows[train], rows[test]
        if len(np.unique(y[learn])) < 2:
            continue
        for i, strength in enumerate(STRENGTHS * X.shape[1]):
            model = RMLR(alpha=strength, tol=1e-3).fit(Z[learn], y[learn])
            P = np.full((len(judge), len(model.classes_) + 1), _LEAST)
            P[:, :-1] = np.maximum(model.predict_proba(Z[judge]), _LEAST)
            at = np.searchsorted(model.classes_, y[judge]).clip(max=len(model.classes_) - 1)
            at[model.classes_[at] != y[judge]] = len(model.classes_)
            losses[i] -= np.log(P[np.arange(len(judge)), at]).sum()
    best = STRENGTHS[int(losses.argmin())] * X.shape[1] * len(y) / len(rows)
    fitted = _Rotated(before, rotation, RMLR(alpha=best, tol=1e-4).fit(Z, y))
    return fitted, fitted
