"""Rows that are equal to the last bit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array

__all__ = ["first_of_equals", "row_keys"]


def row_keys(X: Any) -> list[bytes]:
    """Return a key for every row; equal rows have equal keys."""
    if not sparse.issparse(X):
        return [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]  # -0.0 + 0.0 is 0.0
    X = X.tocsr(copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    indices = X.indices.astype(np.int64)
    return [indices[i:j].tobytes() + X.data[i:j].tobytes() for i, j in pairwise(X.indptr)]


def first_of_equals(X: Any) -> Array:
    """Return the index of the first of every set of equal rows, in order."""
    first: dict[bytes, int] = {}
    for i, key in enumerate(row_keys(X)):
        first.setdefault(key, i)
    return np.fromiter(first.values(), dtype=np.int64)
