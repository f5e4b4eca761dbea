"""Rows as kernel centres: in double precision, and fewer of them than there are."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array

__all__ = ["balanced_centers", "double_rows", "short_indices"]


def double_rows(X: Any) -> Any:
    """Return the data ready to be cut by rows, in double precision: descent and factorisations need it."""
    return sparse.csr_array(X).astype(np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)


def balanced_centers(X: Any, codes: Array, count: int, how: str, rng: Any) -> Array:
    """Return ``count`` row indices, equally many of every class as far as its rows go."""
    sizes = np.bincount(codes)
    chosen, left = [], count
    for i, k in enumerate(np.argsort(sizes, kind="stable")):  # what small classes cannot use goes to the larger
        rows = np.flatnonzero(codes == k)
        share = min(len(rows), left // (len(sizes) - i))
        left -= share
        if share == 0:
            continue
        if how == "kmeans" and share < len(rows):
            from sklearn.cluster import KMeans  # slow to import, and seldom used

            points = short_indices(X[rows])
            means = KMeans(share, n_init=1, random_state=rng.randint(2**31 - 1)).fit(points)
            chosen.append(rows[np.unique(means.transform(points).argmin(axis=0))])
        else:
            chosen.append(rng.choice(rows, share, replace=False))
    return np.sort(np.concatenate(chosen))


def short_indices(X: Any) -> Any:
    """Return sparse rows with indices of 32 bits, the only ones that scikit-learn's KMeans takes."""
    if not sparse.issparse(X):
        return X
    return sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
