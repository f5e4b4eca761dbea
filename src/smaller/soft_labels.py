"""Labels that are not certain: rows of class probabilities in the place of classes.

A row with the shares ``p_ik`` has the loss ``-sum_k p_ik log P(k | x_i)``: what the row would cost if it were there
once for every class, with the shares as weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import validate_data

from smaller.arrays import Array
from smaller.validation import (
    TrainingData,
    check_classification_data,
    check_magnitudes,
    check_weight,
    finite_numbers,
    refuse_rows,
    sparse_formats,
)

__all__ = ["check_offset", "expected_accuracy", "is_soft", "training_data"]

_SUM = 1e-6  # how far from one a row may add up to


def is_soft(y: Any) -> bool:
    """Whether labels are rows of class probabilities: two dimensions, two columns or more."""
    if sparse.issparse(y):
        return False
    try:
        return np.ndim(y) == 2 and np.shape(y)[1] > 1
    except (TypeError, ValueError):  # rows of different lengths, no array: left to the ordinary check
        return False


def training_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any, class_weight: Any, *, offset: Any = None, soft: bool = True
) -> TrainingData:
    """Check the training data of a classifier that takes offsets and, with ``soft``, soft labels."""
    check = _soft_data if soft and is_soft(y) else check_classification_data
    data = check(estimator, X, y, sample_weight, class_weight)
    if offset is None:
        return data
    values = check_offset(offset, data.X.shape[0], len(data.classes))
    return replace(data, offset=np.column_stack([np.zeros(len(values)), values]) if values.ndim == 1 else values)


def _soft_data(estimator: Any, X: Any, y: Any, sample_weight: Any, class_weight: Any) -> TrainingData:
    """Check training data with soft labels; classes of which no row has a share are as if absent."""
    if class_weight is not None:
        raise ValueError("class_weight belongs to class labels: with rows of class probabilities leave it out.")
    refuse_rows(estimator, X, y, sample_weight)
    X = validate_data(
        estimator, X, accept_sparse=sparse_formats(estimator), dtype=[np.float64, np.float32], accept_large_sparse=True
    )
    check_consistent_length(X, y)
    shares = _checked(y)
    weight = check_weight(sample_weight, X.shape[0])
    if weight is not None:
        check_magnitudes(weight)
    present = (shares if weight is None else shares[weight > 0]).any(axis=0)
    if present.sum() < 2:
        raise ValueError("y as rows of class probabilities needs at least 2 classes with a share above zero.")
    shares = np.asfortranarray(shares[:, present])
    return TrainingData(X, shares.argmax(axis=1), weight, _names(y)[present], shares)


def _names(y: Any) -> Array:
    """Return the classes: the names of a table's columns, or their numbers."""
    columns = getattr(y, "columns", None)
    return np.arange(np.shape(y)[1]) if columns is None else np.asarray(columns)


def _checked(y: Any) -> Array:
    shares = finite_numbers("y", y)
    if (shares < 0).any():
        row = int(np.flatnonzero((shares < 0).any(axis=1))[0])
        raise ValueError(f"y as rows of class probabilities must be >= 0: row {row} has a negative entry.")
    sums = shares.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1.0) > _SUM)
    if len(wrong):
        raise ValueError(
            f"y as rows of class probabilities must sum to one: row {wrong[0]} sums to {sums[wrong[0]]:.6g}. "
            "With counts, divide each row by its sum, and pass the sums as sample_weight."
        )
    return shares / sums[:, None]


def check_offset(offset: Any, n: int, n_classes: int) -> Array:
    """Return an offset as float64: (n,) for two classes, in favour of the second; (n, K) for more."""
    values = finite_numbers("offset", offset)
    shape = (n,) if n_classes == 2 else (n, n_classes)
    if values.shape != shape:
        each = "one number a row for two classes" if n_classes == 2 else "one number for every row and class"
        raise ValueError(f"offset must hold {each}, {shape}; its shape is {values.shape}.")
    return values


def expected_accuracy(y: Any, answers: Array, sample_weight: Any) -> float:
    """Return the mean share of the class that was answered."""
    shares = _checked(y)
    at = {name: k for k, name in enumerate(_names(y).tolist())}
    columns = np.array([at[answer] for answer in answers.tolist()])
    return float(np.average(shares[np.arange(len(shares)), columns], weights=check_weight(sample_weight, len(shares))))
