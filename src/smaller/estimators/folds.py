"""Rows set apart: which, and the training data that are left."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import check_cv

from smaller.arrays import Array
from smaller.designs import take_rows
from smaller.validation import TrainingData

__all__ = ["SMALLEST_PROBABILITY", "classes_in", "folds_of", "part_of"]

SMALLEST_PROBABILITY = np.finfo(np.float64).eps  # what a class absent from a fold gets, as in scikit-learn's log_loss


def folds_of(cv: Any, data: TrainingData, groups: Any) -> list[tuple[Array, Array]]:
    """Return the (train, test) rows of every fold; an integer ``cv`` means stratified ones."""
    n = data.X.shape[0]
    if isinstance(cv, int) and cv > n:
        raise ValueError(f"cv asks for {cv} folds of {n} rows: use fewer folds, or more rows.")
    folds = list(check_cv(cv, data.codes, classifier=True).split(data.X, data.codes, groups))
    if not folds:
        raise ValueError("cv yields no folds.")
    return folds


def classes_in(codes: Array, weight: Array | None) -> Array:
    """Return the classes of a fold's training rows, those of weight zero left out; two are needed."""
    present = np.unique(codes if weight is None else codes[weight > 0])
    if len(present) < 2:
        raise ValueError("A fold of cv holds fewer than two classes: use stratified folds, or fewer of them.")
    return present


def _shared_classes(shares: Array, weight: Array | None) -> Array:
    """Return the classes of which soft labels hold any share."""
    present = np.flatnonzero((shares if weight is None else shares[weight > 0]).any(axis=0))
    if len(present) < 2:
        raise ValueError("A fold of cv holds shares of fewer than two classes: use fewer folds.")
    return present


def part_of(data: TrainingData, train: Array, test: Array, *, pairwise: bool) -> tuple[TrainingData, Any, Array]:
    """Return the training data of a fold, the features of its other rows, and which classes are present.

    ``pairwise``: the features are a square kernel matrix, cut on both sides.
    """
    X = data.X.tocsr() if sparse.issparse(data.X) else data.X
    weight = None if data.weight is None else data.weight[train]
    codes, shares = data.codes[train], None if data.shares is None else data.shares[train]
    present = classes_in(codes, weight) if shares is None else _shared_classes(shares, weight)
    part = TrainingData(
        X[np.ix_(train, train)] if pairwise else take_rows(X, train),
        np.clip(np.searchsorted(present, codes), 0, len(present) - 1),
        weight,
        data.classes[present],
        None if shares is None else shares[:, present],
        None if data.offset is None else data.offset[np.ix_(train, present)],
    )
    return part, X[np.ix_(test, train)] if pairwise else take_rows(X, test), present
