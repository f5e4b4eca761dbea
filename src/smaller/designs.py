"""What the weights multiply, stored in different ways: dense, sparse, or kernel columns computed when asked.

Symbols: n rows, d columns, q outputs; ``w`` (d, q), ``R`` (n, q). Column index d stands for a virtual column of
ones (the intercept), so no design ever carries one. Float32 data stay float32; products with them are
accumulated in float64, a block of columns at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from smaller.arrays import Array, array_namespace, is_numpy_array
from smaller.grams import BLOCK_BYTES, Coordinates, RowCurvature, accumulate_gram, blocks

__all__ = [
    "BLOCK_BYTES",
    "Coordinates",
    "Csc",
    "Dense",
    "Design",
    "KernelBlocks",
    "Moments",
    "as_design",
    "blocks",
    "reciprocal",
    "take_rows",
]

_CACHED = 1 << 17  # entries of temporary blocks that are gone over several times: they stay in the cache


@dataclass(frozen=True)
class Moments:
    """What one look at the columns tells; mean and deviations are weighted, ranges leave out rows without weight."""

    mean: Array  # (d,)
    M2: Array  # (d,) sums of squared deviations from the mean
    low: Array  # (d,) smallest entry, +inf where there is none
    high: Array  # (d,) largest entry
    finite: Array  # (d,) bool: neither nan nor infinite, in any row


class Design(Protocol):
    """Contract of a design matrix."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns (n, d)."""

    @property
    def dtype(self) -> Any:
        """Type of the entries."""

    @property
    def matrix(self) -> Any:
        """The entries (n, d), dense or sparse, as they are stored where they are."""

    def forward(self, w: Array) -> Array:
        """Return ``X w`` (n, q)."""

    def adjoint(self, R: Array) -> Array:
        """Return ``X' R`` (d, q)."""

    def take(self, columns: Array) -> Design:
        """Return the design of some columns."""

    def squares(self, h: Array) -> Array:
        """Return ``sum_i h_ik x_ij^2`` (d, q)."""

    def rows(self, index: Array) -> Design:
        """Return the design of some rows."""

    def joined(self, others: Sequence[Design]) -> Design:
        """Return the rows of this design and of others of its kind, in this order."""

    @property
    def leverage(self) -> Array:
        """What part of the columns' variances each row holds (n,), summed over columns."""

    def moments(self, weight: Array | None) -> Moments:
        """Return mean, deviations and range of every column."""

    def spread(self, mean: Array, factor: Array) -> Array:
        """Return ``sum_j factor_j (x_ij - mean_j)^2`` (n,)."""

    def gram(self, curvature: RowCurvature, left: Coordinates, right: Coordinates | None = None) -> Array:
        """Return the Hessian between two sets of coordinates (right = left if None)."""


def take_rows(X: Any, index: Array) -> Any:
    """Return some rows of a matrix; what is stored column by column stays so, which is faster than it looks."""
    if isinstance(X, np.ndarray) and X.flags.f_contiguous:
        return np.take(X.T, index, axis=1).T
    return X[index]


def reciprocal(a: Array) -> Array:
    """Return ``1 / a`` where ``a`` is positive, else 0."""
    return np.divide(1.0, a, out=np.zeros_like(a), where=a > 0.0)


@dataclass(frozen=True)
class _Stored:
    """A matrix as it is stored."""

    X: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    @property
    def matrix(self) -> Any:
        return self.X


@dataclass(frozen=True)
class Dense(_Stored):
    """A dense matrix of any array namespace; NumPy matrices are stored column by column."""

    @property
    def _narrow(self) -> bool:
        return is_numpy_array(self.X) and self.X.dtype == np.float32

    def forward(self, w: Array) -> Array:
        if not is_numpy_array(self.X):
            return array_namespace(self.X).matmul(self.X, w)
        used = np.flatnonzero(w.any(axis=1))
        n, d = self.shape
        if len(used) == 0:
            return np.zeros((n, w.shape[1]), order="F")
        if 2 * len(used) >= d and not self._narrow:  # a copy of the columns in use would cost more than the zeros
            return (w.T @ self.X.T).T  # column-major, as every pass over eta wants it
        total: Any = 0.0
        for block in blocks(len(used), 8 * n):
            columns = self.X[:, used[block]].astype(np.float64, order="F", copy=False)
            total = total + w[used[block]].T @ columns.T
        return total.T

    def adjoint(self, R: Array) -> Array:
        if not is_numpy_array(self.X):
            xp = array_namespace(self.X)
            return xp.matmul(xp.matrix_transpose(self.X), R)
        if not self._narrow or self.shape[1] == 0:
            return (R.T @ self.X).T  # BLAS likes the short side first
        n, d = self.shape
        return np.concatenate([self.X[:, block].astype(np.float64).T @ R for block in blocks(d, 8 * n)])

    def take(self, columns: Array) -> Dense:
        return Dense(self.X[:, columns])

    def rows(self, index: Array) -> Dense:
        return Dense(take_rows(self.X, index))

    def joined(self, others: Sequence[Design]) -> Dense:
        return Dense(np.asfortranarray(np.concatenate([self.X, *(other.matrix for other in others)])))

    @cached_property
    def leverage(self) -> Array:
        moments = self.moments(None)
        return self.spread(moments.mean, reciprocal(moments.M2))

    def _chunks(self) -> Iterator[tuple[slice, slice, Array]]:
        """Yield blocks of rows and columns, each with a float64 copy that stays in the cache."""
        n, d = self.shape
        width = max(1, min(d, _CACHED // 1024))
        height = _CACHED // width
        for left in range(0, d, width):
            columns = slice(left, min(left + width, d))
            for top in range(0, n, height):
                rows = slice(top, min(top + height, n))
                yield rows, columns, self.X[rows, columns].astype(np.float64, order="F")

    def moments(self, weight: Array | None) -> Moments:
        d = self.shape[1]
        total = float(self.shape[0]) if weight is None else float(weight.sum())
        light = None if weight is None or (weight > 0).all() else weight == 0
        mean, M2, finite = np.zeros(d), np.zeros(d), np.full(d, True)
        low, high = np.full(d, np.inf), np.full(d, -np.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, columns, A in self._chunks():
                mean[columns] += (A.sum(axis=0) if weight is None else weight[rows] @ A) / max(total, 1e-300)
            for rows, columns, A in self._chunks():
                finite[columns] &= np.isfinite(A.min(axis=0)) & np.isfinite(A.max(axis=0))
                seen = A if light is None else A[~light[rows]]
                low[columns] = np.minimum(low[columns], seen.min(axis=0, initial=np.inf))
                high[columns] = np.maximum(high[columns], seen.max(axis=0, initial=-np.inf))
                A -= mean[columns]
                M2[columns] += np.einsum("ij,ij->j", A, A if weight is None else weight[rows, None] * A)
        return Moments(mean, M2, low, high, finite)

    def spread(self, mean: Array, factor: Array) -> Array:
        total = np.zeros(self.shape[0])
        with np.errstate(over="ignore", invalid="ignore"):  # immense columns: what is not finite is known as such
            for rows, columns, A in self._chunks():
                A -= mean[columns]
                A *= A
                total[rows] += A @ factor[columns]
        return total

    def squares(self, h: Array) -> Array:
        if not is_numpy_array(self.X):
            xp = array_namespace(self.X)
            return xp.matmul(xp.matrix_transpose(self.X**2), h)
        n, d = self.shape
        if d == 0:
            return np.zeros((0, h.shape[1]))
        return np.concatenate([(self.X[:, block].astype(np.float64) ** 2).T @ h for block in blocks(d, 8 * n)])

    def gram(self, curvature: RowCurvature, left: Coordinates, right: Coordinates | None = None) -> Array:
        n, d = self.shape

        def columns_of(rows: slice, columns: Array) -> Array:
            if d == 0:
                return np.ones((len(self.X[rows]), len(columns)))
            A = np.take(self.X[rows].T, columns, axis=0, mode="clip").T  # whole columns, as they are stored
            A = A.astype(np.float64, order="F", copy=False)
            A[:, columns == d] = 1.0
            return A

        return accumulate_gram(columns_of, n, curvature, left, right)

    def with_ones(self) -> Dense:
        """Return the design with a real column of ones at the end (a penalised intercept)."""
        xp = array_namespace(self.X)
        ones = xp.ones((self.shape[0], 1), dtype=self.X.dtype, device=self.X.device)
        return Dense(np.asfortranarray(np.hstack([self.X, ones])) if xp is np else xp.concat([self.X, ones], axis=1))


@dataclass(frozen=True)
class Csc(_Stored):
    """A SciPy sparse matrix, column by column; 32- or 64-bit indices, float32 or float64 values."""

    def forward(self, w: Array) -> Array:
        used = np.flatnonzero(w.any(axis=1))
        if len(used) == 0:
            return np.zeros((self.shape[0], w.shape[1]), order="F")
        return np.asfortranarray(self.X[:, used] @ w[used] if len(used) < self.shape[1] else self.X @ w)

    def adjoint(self, R: Array) -> Array:
        return np.asarray(self.X.T @ np.ascontiguousarray(R))

    def take(self, columns: Array) -> Csc:
        return Csc(self.X[:, columns])

    def rows(self, index: Array) -> Csc:
        return Csc(self.X[index])

    def joined(self, others: Sequence[Design]) -> Csc:
        return Csc(sparse.vstack([self.X, *(other.matrix for other in others)], format="csc"))

    @property
    def leverage(self) -> Array:
        square = self.X.multiply(self.X)
        total = np.asarray(square.sum(axis=0)).ravel()
        return np.asarray(square @ reciprocal(total))

    def moments(self, weight: Array | None) -> Moments:
        n, d = self.shape
        weight = np.ones(n) if weight is None else weight
        total, heavy = float(weight.sum()), np.count_nonzero(weight)
        mean, M2, finite = np.zeros(d), np.zeros(d), np.full(d, True)
        low, high = np.full(d, np.inf), np.full(d, -np.inf)
        first = self.X.indptr
        cuts = np.unique(np.append(np.searchsorted(first, np.arange(0, first[-1], _CACHED), side="right") - 1, d))
        with np.errstate(over="ignore", invalid="ignore"):
            for left, right in pairwise(cuts if cuts[0] == 0 else np.append(0, cuts)):
                inside, columns = slice(first[left], first[right]), slice(left, right)
                x, c = self.X.data[inside].astype(np.float64), weight[self.X.indices[inside]]
                at = np.repeat(np.arange(right - left), np.diff(first[left : right + 1]))
                sums = partial(np.bincount, at, minlength=right - left)
                mean[columns] = sums(c * x) / max(total, 1e-300)
                # The zeros deviate by the mean: with them apart no digit is lost to n mean^2.
                rest = np.maximum(total - sums(c), 0.0) * mean[columns] ** 2
                M2[columns] = sums(c * (x - mean[left + at]) ** 2) + rest
                finite[columns] = sums(~np.isfinite(x)) == 0
                at, x = at[c > 0], x[c > 0]
                np.minimum.at(low, left + at, x)
                np.maximum.at(high, left + at, x)
                zeros = left + np.flatnonzero(np.bincount(at, minlength=right - left) < heavy)
                low[zeros], high[zeros] = np.minimum(low[zeros], 0.0), np.maximum(high[zeros], 0.0)
        return Moments(mean, M2, low, high, finite)

    def spread(self, mean: Array, factor: Array) -> Array:
        # (x - m)^2 = m^2 + x (x - 2 m), and x is mostly zero.
        entries = sparse.csc_array(self.X, copy=True, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            entries.data *= entries.data - 2.0 * np.repeat(mean, np.diff(entries.indptr))
            return np.asarray(entries @ factor) + float(factor @ mean**2)

    def squares(self, h: Array) -> Array:
        squared = self.X.astype(np.float64)
        with np.errstate(over="ignore"):
            squared.data **= 2
        return np.asarray(squared.T @ np.ascontiguousarray(h))

    def gram(self, curvature: RowCurvature, left: Coordinates, right: Coordinates | None = None) -> Array:
        n, d = self.shape
        needed = np.unique(left[0] if right is None else np.concatenate([left[0], right[0]]))
        by_row = self.X[:, needed[needed < d]].tocsr()

        def columns_of(rows: slice, columns: Array) -> Array:
            block = by_row[rows].toarray()
            A = np.ones((block.shape[0], len(columns)))
            real = np.flatnonzero(columns < d)
            A[:, real] = block[:, np.searchsorted(needed, columns[real])]
            return A

        return accumulate_gram(columns_of, n, curvature, left, right)

    def with_ones(self) -> Csc:
        """Return the design with a real column of ones at the end (a penalised intercept)."""
        ones = sparse.csc_array(np.ones((self.shape[0], 1), dtype=self.X.dtype))
        return Csc(sparse.hstack([self.X, ones], format="csc"))


@dataclass(frozen=True)
class KernelBlocks:
    """Columns of a kernel matrix that are computed when asked for, so that n x d need never be held.

    ``columns(index)`` returns the kernel columns (n, len(index)) of some centres.
    """

    columns: Callable[[Array], Array]
    shape: tuple[int, int]

    @property
    def dtype(self) -> Any:
        return np.dtype(np.float64)

    @property
    def matrix(self) -> Any:
        return self.columns(np.arange(self.shape[1]))

    def _each(self) -> Iterator[tuple[slice, Dense]]:
        index = np.arange(self.shape[1])
        for block in blocks(self.shape[1], 8 * self.shape[0]):
            yield block, Dense(self.columns(index[block]))

    def forward(self, w: Array) -> Array:
        used = np.flatnonzero(np.asarray(w).any(axis=1))
        return self.take(used).forward(w[used])

    def adjoint(self, R: Array) -> Array:
        return np.concatenate([block.adjoint(R) for _, block in self._each()])

    def take(self, columns: Array) -> Dense:
        return Dense(np.asfortranarray(self.columns(columns)))

    def rows(self, index: Array) -> KernelBlocks:
        return KernelBlocks(lambda columns: self.columns(columns)[index], (len(index), self.shape[1]))

    def joined(self, others: Sequence[Design]) -> Dense:
        return self.take(np.arange(self.shape[1])).joined(others)

    @property
    def leverage(self) -> Array:
        return np.full(self.shape[0], self.shape[1] / self.shape[0])  # every row is a centre, more or less

    def moments(self, weight: Array | None) -> Moments:
        parts = [block.moments(weight) for _, block in self._each()]
        return Moments(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Moments)))

    def spread(self, mean: Array, factor: Array) -> Array:
        total = np.zeros(self.shape[0])
        for columns, block in self._each():
            total += block.spread(mean[columns], factor[columns])
        return total

    def squares(self, h: Array) -> Array:
        return np.concatenate([block.squares(h) for _, block in self._each()])

    def gram(self, curvature: RowCurvature, left: Coordinates, right: Coordinates | None = None) -> Array:
        needed = np.unique(left[0] if right is None else np.concatenate([left[0], right[0]]))
        needed = needed[needed < self.shape[1]]
        # A virtual column of ones sorts behind all real ones, in the small design too.
        near, far = ((np.searchsorted(needed, side[0]), side[1]) if side else None for side in (left, right))
        assert near is not None
        return self.take(needed).gram(curvature, near, far)

    def with_ones(self) -> Dense:
        """Return the design, now dense, with a real column of ones at the end (a penalised intercept)."""
        return self.take(np.arange(self.shape[1])).with_ones()


def as_design(X: Any) -> Dense | Csc:
    """Return a design over ``X`` without a copy where the layout allows it (column-major, or CSC)."""
    if sparse.issparse(X):
        X = X.tocsc()
        X.check_format(full_check=True)  # the core trusts the indices
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return Csc(X)
    return Dense(np.asfortranarray(X)) if is_numpy_array(X) else Dense(X)
