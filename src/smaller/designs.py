"""What the weights multiply, stored in different ways: dense, sparse, or kernel columns computed when asked.

Symbols: n rows, d columns, q outputs; ``w`` (d, q), ``R`` (n, q). Column index d stands for a virtual column of
ones (the intercept), so no design ever carries one. Float32 data stay float32; products with them are
accumulated in float64, a block of columns at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from smaller.arrays import Array, array_namespace, is_numpy_array

__all__ = ["BLOCK_BYTES", "Csc", "Dense", "Design", "KernelBlocks", "as_design"]

BLOCK_BYTES = 1 << 24  # size of temporary blocks: large enough for BLAS, small enough for the cache and the memory


class RowCurvature(Protocol):
    """Per-row Hessians ``diag(d_i) - u_i u_i'`` as likelihoods make them."""

    @property
    def d(self) -> Array:
        """(n, q)."""

    @property
    def u(self) -> Array | None:
        """(n, q), or None."""


class Design(Protocol):
    """Contract of a design matrix."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns (n, d)."""

    def forward(self, w: Array) -> Array:
        """Return ``X w`` (n, q)."""

    def adjoint(self, R: Array) -> Array:
        """Return ``X' R`` (d, q)."""

    def take(self, columns: Array) -> Design:
        """Return the design of some columns."""

    def squares(self, h: Array) -> Array:
        """Return ``sum_i h_ik x_ij^2`` (d, q)."""

    def gram(self, curvature: RowCurvature, columns: Array, outputs: Array) -> Array:
        """Return the Hessian (m, m) between the coordinates ``(columns[a], outputs[a])``."""


def _blocks(count: int, bytes_each: int) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // max(bytes_each, 1))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _gram(rows_of: Callable[[slice], Array], n: int, curvature: RowCurvature, columns: Array, outputs: Array) -> Array:
    """Accumulate the Hessian over blocks of rows: two symmetric rank-k products a block, whatever q.

    ``rows_of(block)`` returns the needed columns (one per coordinate) of a block of rows.
    """
    m = len(columns)
    H = np.zeros((m, m))
    by_output = [np.flatnonzero(outputs == k) for k in range(curvature.d.shape[1])]
    for rows in _blocks(n, 8 * m):
        Z = rows_of(rows)
        # Output by output: sqrt(d) x gives the diagonal part, u x over all coordinates the rank-one part.
        for k, members in enumerate(by_output):
            if len(members):
                part = Z[:, members] * np.sqrt(curvature.d[rows, k])[:, None]
                H[np.ix_(members, members)] += part.T @ part
        if curvature.u is not None:
            Z *= curvature.u[rows][:, outputs]
            H -= Z.T @ Z
    return H


@dataclass(frozen=True)
class Dense:
    """A dense matrix of any array namespace; NumPy matrices are stored column by column."""

    X: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

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
        if len(used) == d and not self._narrow:
            return (w.T @ self.X.T).T  # column-major, as every pass over eta wants it
        total: Any = 0.0
        for block in _blocks(len(used), 8 * n):
            columns = self.X[:, used[block]].astype(np.float64, order="F", copy=False)
            total = total + w[used[block]].T @ columns.T
        return total.T

    def adjoint(self, R: Array) -> Array:
        if not self._narrow:
            xp = array_namespace(self.X)
            return xp.matmul(xp.matrix_transpose(self.X), R)
        n, d = self.shape
        return np.concatenate([self.X[:, block].astype(np.float64).T @ R for block in _blocks(d, 8 * n)])

    def take(self, columns: Array) -> Dense:
        return Dense(self.X[:, columns])

    def squares(self, h: Array) -> Array:
        if not is_numpy_array(self.X):
            xp = array_namespace(self.X)
            return xp.matmul(xp.matrix_transpose(self.X**2), h)
        n, d = self.shape
        return np.concatenate([(self.X[:, block].astype(np.float64) ** 2).T @ h for block in _blocks(d, 8 * n)])

    def gram(self, curvature: RowCurvature, columns: Array, outputs: Array) -> Array:
        n, d = self.shape
        real = columns < d

        def rows_of(rows: slice) -> Array:
            Z = np.ones((rows.stop - rows.start, len(columns)))
            Z[:, real] = self.X[rows][:, columns[real]]
            return Z

        return _gram(rows_of, n, curvature, columns, outputs)

    def with_ones(self) -> Dense:
        """Return the design with a real column of ones at the end (a penalised intercept)."""
        xp = array_namespace(self.X)
        ones = xp.ones((self.shape[0], 1), dtype=self.X.dtype, device=self.X.device)
        return Dense(np.asfortranarray(np.hstack([self.X, ones])) if xp is np else xp.concat([self.X, ones], axis=1))


@dataclass(frozen=True)
class Csc:
    """A SciPy sparse matrix, column by column; 32- or 64-bit indices, float32 or float64 values."""

    X: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    def forward(self, w: Array) -> Array:
        used = np.flatnonzero(w.any(axis=1))
        if len(used) == 0:
            return np.zeros((self.shape[0], w.shape[1]), order="F")
        return np.asfortranarray(self.X[:, used] @ w[used] if len(used) < self.shape[1] else self.X @ w)

    def adjoint(self, R: Array) -> Array:
        return np.asarray(self.X.T @ np.ascontiguousarray(R))

    def take(self, columns: Array) -> Csc:
        return Csc(self.X[:, columns])

    def squares(self, h: Array) -> Array:
        squared = self.X.astype(np.float64)
        squared.data **= 2
        return np.asarray(squared.T @ np.ascontiguousarray(h))

    def gram(self, curvature: RowCurvature, columns: Array, outputs: Array) -> Array:
        n, d = self.shape
        real = columns < d
        by_row = self.X[:, columns[real]].tocsr()

        def rows_of(rows: slice) -> Array:
            Z = np.ones((rows.stop - rows.start, len(columns)))
            Z[:, real] = by_row[rows].toarray()
            return Z

        return _gram(rows_of, n, curvature, columns, outputs)

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

    def _each(self) -> Iterator[tuple[slice, Dense]]:
        index = np.arange(self.shape[1])
        for block in _blocks(self.shape[1], 8 * self.shape[0]):
            yield block, Dense(self.columns(index[block]))

    def forward(self, w: Array) -> Array:
        used = np.flatnonzero(np.asarray(w).any(axis=1))
        return self.take(used).forward(w[used])

    def adjoint(self, R: Array) -> Array:
        return np.concatenate([block.adjoint(R) for _, block in self._each()])

    def take(self, columns: Array) -> Dense:
        return Dense(np.asfortranarray(self.columns(columns)))

    def squares(self, h: Array) -> Array:
        return np.concatenate([block.squares(h) for _, block in self._each()])

    def gram(self, curvature: RowCurvature, columns: Array, outputs: Array) -> Array:
        real = columns[columns < self.shape[1]]
        distinct, place = np.unique(real, return_inverse=True)
        inner = np.full(len(columns), len(distinct))
        inner[columns < self.shape[1]] = place
        return self.take(distinct).gram(curvature, inner, outputs)

    def with_ones(self) -> Dense:
        """Return the design, now dense, with a real column of ones at the end (a penalised intercept)."""
        return self.take(np.arange(self.shape[1])).with_ones()


def as_design(X: Any) -> Dense | Csc:
    """Return a design over ``X`` without a copy where the layout allows it (column-major, or CSC)."""
    if sparse.issparse(X):
        X = X.tocsc()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return Csc(X)
    return Dense(np.asfortranarray(X)) if is_numpy_array(X) else Dense(X)
