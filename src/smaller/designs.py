"""What the weights multiply, stored in different ways: dense, sparse, or kernel columns computed when asked.

Symbols: n rows, d columns, q outputs; ``w`` (d, q), ``R`` (n, q). Column index d stands for a virtual column of
ones (the intercept), so no design ever carries one. Float32 data stay float32; products with them are
accumulated in float64, a block of columns at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from smaller.arrays import Array, array_namespace, is_numpy_array

__all__ = ["BLOCK_BYTES", "Coordinates", "Csc", "Dense", "Design", "KernelBlocks", "as_design", "blocks", "take_rows"]

BLOCK_BYTES = 1 << 24  # size of temporary blocks: large enough for BLAS, small enough for the memory
Coordinates = tuple[Array, Array]  # columns (m,) and outputs (m,)


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

    def rows(self, index: Array) -> Design:
        """Return the design of some rows."""

    @property
    def leverage(self) -> Array:
        """What part of the columns' variances each row holds (n,), summed over columns."""

    def gram(self, curvature: RowCurvature, left: Coordinates, right: Coordinates | None = None) -> Array:
        """Return the Hessian between two sets of coordinates (right = left if None)."""


def take_rows(X: Any, index: Array) -> Any:
    """Return some rows of a matrix; what is stored column by column stays so, which is faster than it looks."""
    if isinstance(X, np.ndarray) and X.flags.f_contiguous:
        return np.take(X.T, index, axis=1).T
    return X[index]


def blocks(count: int, bytes_each: int) -> Iterator[slice]:
    """Split ``count`` things of ``bytes_each`` into runs that fit into a temporary block."""
    step = max(1, BLOCK_BYTES // max(bytes_each, 1))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


class _ByOutput:
    """Coordinates sorted by output, so that those of one output are neighbours."""

    def __init__(self, at: Coordinates, q: int) -> None:
        order = np.argsort(at[1], kind="stable")
        self.columns = at[0][order]
        first = np.searchsorted(at[1][order], np.arange(q + 1))
        self.spans = [slice(first[k], first[k + 1]) for k in range(q)]
        self.original = np.empty_like(order)  # where each coordinate went
        self.original[order] = np.arange(len(order))


def _gram(
    columns_of: Callable[[slice, Array], Array],
    n: int,
    curvature: RowCurvature,
    left: Coordinates,
    right: Coordinates | None,
) -> Array:
    """Accumulate a block of the Hessian over blocks of rows: two BLAS-3 products a block, whatever q.

    ``columns_of(rows, columns)`` returns one column per coordinate for a block of rows, to be changed at will.
    """
    q = curvature.d.shape[1]
    near = _ByOutput(left, q)
    far = near if right is None else _ByOutput(right, q)
    H = np.zeros((len(near.columns), len(far.columns)))
    for rows in blocks(n, 8 * sum(H.shape)):
        A = columns_of(rows, near.columns)
        B = A if right is None else columns_of(rows, far.columns)
        for k, (mine, theirs) in enumerate(zip(near.spans, far.spans, strict=True)):
            root = np.sqrt(curvature.d[rows, k])[:, None]
            part = A[:, mine] * root
            # NumPy recognises part.T @ part and does half the work.
            H[mine, theirs] += part.T @ (part if right is None else B[:, theirs] * root)
            if curvature.u is not None:
                u = curvature.u[rows, k, None]
                A[:, mine] *= u
                if right is not None:
                    B[:, theirs] *= u
        if curvature.u is not None:
            H -= A.T @ B
    return H[np.ix_(near.original, far.original)]


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
        if not self._narrow:
            return (R.T @ self.X).T  # BLAS likes the short side first
        n, d = self.shape
        return np.concatenate([self.X[:, block].astype(np.float64).T @ R for block in blocks(d, 8 * n)])

    def take(self, columns: Array) -> Dense:
        return Dense(self.X[:, columns])

    def rows(self, index: Array) -> Dense:
        return Dense(take_rows(self.X, index))

    @cached_property
    def leverage(self) -> Array:
        n, d = self.shape
        total = np.zeros(n)
        for block in blocks(d, 8 * n):
            square = self.X[:, block].astype(np.float64)
            square -= square.mean(axis=0)
            square *= square
            variance = square.sum(axis=0)
            total += square @ np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0.0)
        return total

    def squares(self, h: Array) -> Array:
        if not is_numpy_array(self.X):
            xp = array_namespace(self.X)
            return xp.matmul(xp.matrix_transpose(self.X**2), h)
        n, d = self.shape
        return np.concatenate([(self.X[:, block].astype(np.float64) ** 2).T @ h for block in blocks(d, 8 * n)])

    def gram(self, curvature: RowCurvature, left: Coordinates, right: Coordinates | None = None) -> Array:
        n, d = self.shape

        def columns_of(rows: slice, columns: Array) -> Array:
            A = np.take(self.X[rows].T, columns, axis=0, mode="clip").T  # whole columns, as they are stored
            A = A.astype(np.float64, order="F", copy=False)
            A[:, columns == d] = 1.0
            return A

        return _gram(columns_of, n, curvature, left, right)

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

    def rows(self, index: Array) -> Csc:
        return Csc(self.X[index])

    @property
    def leverage(self) -> Array:
        square = self.X.multiply(self.X)
        total = np.asarray(square.sum(axis=0)).ravel()
        return np.asarray(square @ np.divide(1.0, total, out=np.zeros_like(total), where=total > 0.0))

    def squares(self, h: Array) -> Array:
        squared = self.X.astype(np.float64)
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

        return _gram(columns_of, n, curvature, left, right)

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

    @property
    def leverage(self) -> Array:
        return np.full(self.shape[0], self.shape[1] / self.shape[0])  # every row is a centre, more or less

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
