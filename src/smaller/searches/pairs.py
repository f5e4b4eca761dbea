"""Which features act, alone or in pairs: a screen that sees rings and exclusive-or.

For every pair of features (i, j), i = j included, the product of the two standardised columns is compared over the
classes:

    z_ij = sum_n v_n x_ni x_nj / sqrt(sum_n (x_ni x_nj)^2 - N (mean of x_i x_j)^2),     v: standardised 1[y = class]

about N(0, 1) where the labels know nothing of the pair. A feature scores its largest |z|, or that of its own mean if
larger. All pairs are matrix products, O(n p^2). Interactions of three or more features stay unseen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array

__all__ = ["pair_scores"]

_FAR = 3.0  # standard deviations at which a value is clipped: one outlier must not make a pair
_FLAT = 1e-9  # relative variance below which a column, or a product of two, counts as constant
_BLOCK = 1024  # columns whose products are formed at a time


def pair_scores(X: Any, members: Array, weight: Array | None) -> Array:
    """Return the score (p,) of every feature of ``X`` (n, p), dense or sparse, for class indicators ``members`` (n, K).

    A row of weight two counts as two rows.
    """
    c = np.ones(X.shape[0]) if weight is None else weight
    total = float(c.sum())
    V = _standardised(np.asarray(members, dtype=np.float64), c) * c[:, None]
    X = X.tocsc() if sparse.issparse(X) else X
    p = X.shape[1]
    blocks = [slice(start, min(start + _BLOCK, p)) for start in range(0, p, _BLOCK)]
    scores = np.zeros(p)
    for i, rows in enumerate(blocks):
        Z = _clipped(X[:, rows], c)
        scores[rows] = np.maximum(scores[rows], np.abs(Z.T @ V).max(axis=1, initial=0.0) / math.sqrt(total))
        for columns in blocks[i:]:
            other = Z if columns is rows else _clipped(X[:, columns], c)
            strength = _strengths(Z, other, V, c, total)
            scores[rows] = np.maximum(scores[rows], strength.max(axis=1, initial=0.0))
            scores[columns] = np.maximum(scores[columns], strength.max(axis=0, initial=0.0))
    return scores


def _strengths(Z: Array, other: Array, V: Array, c: Array, total: float) -> Array:
    """Return ``max over classes |z_ij|`` of the pairs between two blocks of standardised columns."""
    squares = (c[:, None] * Z**2).T @ other**2
    variance = squares - ((c[:, None] * Z).T @ other) ** 2 / total
    constant = variance <= _FLAT * squares  # products of two signs, say, that always agree
    scale = np.sqrt(np.where(constant, np.inf, variance))
    largest = np.zeros_like(variance)
    for v in V.T:
        np.maximum(largest, np.abs((v[:, None] * Z).T @ other), out=largest)
    strength: Array = largest / scale
    return strength


def _clipped(block: Any, c: Array) -> Array:
    Z = _standardised(block.toarray() if sparse.issparse(block) else np.asarray(block, dtype=np.float64), c)
    return np.clip(Z, -_FAR, _FAR, out=Z)


def _standardised(X: Array, c: Array) -> Array:
    """Return the columns at mean zero and variance one; zero where they are constant."""
    share = c / c.sum()
    mean = share @ X
    Z: Array = X - mean
    deviation = np.sqrt(share @ Z**2)
    constant = deviation <= _FLAT * np.abs(mean)
    Z /= np.where(constant, np.inf, deviation)
    return Z
