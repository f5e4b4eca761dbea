"""Rows that belong together: no split, permutation or interval may take them apart.

Three kinds: rows that stand alone, copies (rows equal in every feature and in the label), and the groups that the user
names: a patient's visits, a plate's wells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array

__all__ = ["Units", "chance_pairs", "copies_of", "shuffled_labels"]

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Units:
    """Which rows belong together, and why.

    Parameters
    ----------
    codes : ndarray of shape (n,), optional
        Number of the unit of every row; None: every row stands alone. With ``ordered`` larger is later.
    column : str, optional
        The column that names the groups (or the time); None for copies.
    copies : int
        Rows that repeat an earlier one exactly.
    ordered : bool
        Whether the units follow each other in time.
    """

    codes: Array | None = None
    column: str | None = None
    copies: int = 0
    ordered: bool = False

    @property
    def grouped(self) -> Array | None:
        """The units that an interval must take as one draw; time alone makes no units."""
        return None if self.ordered else self.codes

    @property
    def count(self) -> int:
        """Number of units."""
        return 0 if self.codes is None else len(np.unique(self.codes))

    def take(self, rows: Array) -> Array | None:
        """Return the codes of some rows."""
        return None if self.codes is None else self.codes[rows]

    @property
    def sentence(self) -> str | None:
        """What is kept together, for the reader."""
        if self.codes is None:
            return None
        if self.ordered:
            return f"Every part was predicted from rows that come before it in {self.column!r}."
        if self.column is not None:
            return f"All rows of one {self.column!r} ({self.count:,} of them) stayed on one side of every split."
        return f"Identical rows ({self.copies:,} repeat another one) stayed on one side of every split."


def copies_of(X: Any, y: Array) -> Array:
    """Return, for every row, the number of the first row with the same features and label.

    Rows are hashed to 64 bits; what shares a hash is compared in full.

    Examples
    --------
    >>> copies_of(np.array([[1.0], [2.0], [1.0], [np.nan], [np.nan]]), np.array([0, 0, 0, 1, 1]))
    array([0, 1, 0, 3, 3])
    """
    codes = np.unique(y, return_inverse=True)[1].astype(np.uint64)
    if sparse.issparse(X):
        X = sparse.csr_array(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        keys = _mixed(_bits(X.data), X.indices.astype(np.uint64))
        sums = np.zeros(len(y), dtype=np.uint64)
        np.add.at(sums, np.repeat(np.arange(len(y)), np.diff(X.indptr)), keys)
        hashes = _mixed(sums, codes)
    else:
        hashes = _mixed(codes, np.uint64(X.shape[1]))
        for j in range(X.shape[1]):
            hashes = _mixed(hashes, _bits(X[:, j]))
    order = np.argsort(hashes, kind="stable")
    starts = np.r_[True, hashes[order][1:] != hashes[order][:-1]]
    first = np.empty(len(y), dtype=np.int64)
    first[order] = order[np.flatnonzero(starts)[np.cumsum(starts) - 1]]
    doubtful = np.flatnonzero(first != np.arange(len(y)))
    if len(doubtful):
        same = codes[doubtful] == codes[first[doubtful]]
        difference = X[doubtful] != X[first[doubtful]]
        if sparse.issparse(X):
            same &= np.diff(sparse.csr_array(difference).indptr) == 0
        else:
            difference &= ~(np.isnan(X[doubtful]) & np.isnan(X[first[doubtful]]))
            same &= ~difference.any(axis=1)
        first[doubtful[~same]] = doubtful[~same]
    return first


def _bits(values: Array) -> Array:
    """Return numbers as 64 bits, one pattern for each value (also for zero and NaN)."""
    values = np.asarray(values, dtype=np.float64) + 0.0
    return np.where(np.isnan(values), np.nan, values).view(np.uint64)


def _mixed(a: Array, b: Any) -> Array:
    mixed = (a ^ (b + _ODD + (a << np.uint64(6)) + (a >> np.uint64(2)))) * np.uint64(0xFF51AFD7ED558CCD)
    return np.asarray(mixed ^ (mixed >> np.uint64(33)))


def chance_pairs(X: Any, y: Array) -> float:
    """Return how many pairs of equal rows chance would give if the columns were independent.

    Where it is large (few columns of few values) equal rows are no sign of copies.
    """
    n = len(y)
    expected = n * (n - 1) / 2.0 * _match(y)
    for j in range(X.shape[1]):
        if expected < 1e-9:
            break
        column = X[:, [j]].toarray().ravel() if sparse.issparse(X) else X[:, j]
        expected *= _match(column)
    return expected


def _match(values: Array) -> float:
    """Return the probability that two different rows drawn at random agree."""
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1.0)).sum() / (len(values) * (len(values) - 1.0)))


def shuffled_labels(y: Array, units: Array | None, rng: np.random.Generator) -> Array:
    """Return the labels permuted between units, never within one.

    Where every unit has one label, units exchange labels. Where labels vary within units, whole runs of labels change
    places; units of unequal size then share the runs at their borders.
    """
    if units is None:
        return y[rng.permutation(len(y))]
    _, codes, first = _relabelled(units)
    constant = (y == y[first][codes]).all()
    if constant:
        return np.asarray(y[first][rng.permutation(len(first))][codes])
    order = np.argsort(codes, kind="stable")
    rank = rng.permutation(len(first))[codes]
    result = np.empty_like(y)
    result[order] = y[np.argsort(rank, kind="stable")]
    return result


def _relabelled(units: Array) -> tuple[Array, Array, Array]:
    names, first, codes = np.unique(units, return_index=True, return_inverse=True)
    return names, codes, first
