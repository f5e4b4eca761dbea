"""Triangular factors of dense matrices, made in pieces so short that Ctrl-C between two of them is noticed at once.

LAPACK itself would do each of these in one call, during which Python handles no signal: seconds, with some thousand
columns. Matrices up to `AT_ONCE` go to it as they are.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import linalg

from smaller.arrays import Array

__all__ = ["cholesky", "lower_inverse", "pivoted_cholesky", "weighted_gram"]

AT_ONCE = 1024  # columns that take a few hundredths of a second
PIECE = 2**32  # multiplications in one call of BLAS: some tenths of a second
PANEL = 128  # pivots between two updates of what is left


def weighted_gram(X: Array, weight: Array) -> Array:
    """Return the lower triangle of ``X' diag(weight) X`` (d, d), ``weight >= 0``; what is above it is not defined."""
    n, d = X.shape
    root = np.sqrt(weight)[:, None]
    gram = np.zeros((d, d), order="F")
    if not d:  # an intercept alone; BLAS takes no empty matrix
        return gram
    for rows in _pieces(n, d * d):
        block = np.asfortranarray(X[rows] * root[rows])
        gram = linalg.blas.dsyrk(1.0, block, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)
    return gram


def cholesky(A: Array) -> Array:
    """Return lower triangular L with ``A = L L'``, from the lower triangle of ``A``; what is above L's is zero.

    Examples
    --------
    >>> import numpy as np
    >>> cholesky(np.array([[4.0, 0.0], [2.0, 10.0]]))
    array([[2., 0.],
           [1., 3.]])
    """
    L = np.array(A, dtype=np.float64, order="F")
    n = len(L)
    for start in range(0, n, AT_ONCE):
        end = min(start + AT_ONCE, n)
        corner, failed = linalg.lapack.dpotrf(L[start:end, start:end], lower=1)
        if failed:
            raise np.linalg.LinAlgError("The matrix is not positive definite.")
        L[start:end, start:end] = corner
        if end < n:
            L[end:, start:end] = linalg.blas.dtrsm(1.0, corner, L[end:, start:end], side=1, lower=1, trans_a=1)
            _downdate(L[end:, end:], L[end:, start:end])
    return np.tril(L) if n > AT_ONCE else L


def lower_inverse(L: Array) -> Array:
    """Return the inverse of a lower triangular matrix with a diagonal that is not zero."""
    n = len(L)
    if n <= AT_ONCE:
        return linalg.lapack.dtrtri(L, lower=1)[0] if n else L
    half = n // 2
    inverse = np.zeros((n, n), order="F")
    inverse[:half, :half], inverse[half:, half:] = lower_inverse(L[:half, :half]), lower_inverse(L[half:, half:])
    for columns in _pieces(half, half * n):
        coupled = L[half:, :half] @ inverse[:half, columns]
        inverse[half:, columns] = -(inverse[half:, half:] @ coupled)
    return inverse


def pivoted_cholesky(K: Array, *, max_rank: int | None = None) -> tuple[Array, Array]:
    """Factor ``K[order][:, order] = L L'``, largest remaining diagonal first, until rounding is left.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semi-definite; anything else is an error.
    max_rank : int, default=None
        Stop at this rank.

    Returns
    -------
    order : ndarray of shape (n,)
        Rows in the order of their choice; the first ``r`` are the pivots.
    L : ndarray of shape (n, r)
        Lower trapezoidal.

    Examples
    --------
    >>> import numpy as np
    >>> order, L = pivoted_cholesky(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]))
    >>> int(order[0]), L.shape
    (2, (3, 2))
    """
    n = len(K)
    scale = float(np.abs(K).max(initial=0.0))
    least = n * np.finfo(np.float64).eps * scale
    if n <= AT_ONCE:
        factor, order, rank, _ = linalg.lapack.dpstrf(K, lower=1, tol=least)
        order = order.astype(np.int64) - 1
    else:
        factor, order, rank = _pivoted_in_panels(K, least)
    L = np.tril(factor)[:, :rank]
    # One probe sees a matrix that is not symmetric, or not semi-definite: LL' then differs from it.
    probe = np.cos(np.arange(1.0, n + 1.0))
    product = np.empty(n)
    product[order] = L @ (L.T @ probe[order])
    error, skew = np.abs(K @ probe - product), np.abs(K @ probe - K.T @ probe)
    if max(error.max(initial=0.0), skew.max(initial=0.0)) > 1e-6 * scale * math.sqrt(n):
        raise ValueError(
            "kernel must be symmetric and positive semi-definite, and this one is not: choose another kernel, or SMLR, "
            "which takes any."
        )
    return order, L[:, :max_rank]


def _pivoted_in_panels(K: Array, least: float) -> tuple[Array, Array, int]:
    """Return the factor below the diagonal, the order of the pivots and the rank."""
    n = len(K)
    A, order, left = np.array(K, dtype=np.float64, order="F"), np.arange(n), np.diag(K).copy()
    for start in range(0, n, PANEL):
        end = min(start + PANEL, n)
        for j in range(start, end):
            pivot = j + int(left[j:].argmax())
            if left[pivot] <= least:
                return A, order, j
            _swap(A, j, pivot)
            order[[j, pivot]], left[[j, pivot]] = order[[pivot, j]], left[[pivot, j]]
            # The columns of this panel that came before are not yet taken out of what is left.
            A[j:, j] -= A[j:, start:j] @ A[j, start:j]
            A[j, j] = root = math.sqrt(left[j])
            A[j + 1 :, j] /= root
            left[j + 1 :] -= A[j + 1 :, j] ** 2
        if end < n:
            _downdate(A[end:, end:], A[end:, start:end])
    return A, order, n


def _swap(A: Array, j: int, i: int) -> None:
    """Exchange rows and columns j < i of a symmetric matrix of which only the lower triangle is kept."""
    if i == j:
        return
    A[[j, i], :j] = A[[i, j], :j]
    A[i + 1 :, [j, i]] = A[i + 1 :, [i, j]]
    between = A[j + 1 : i, j].copy()
    A[j + 1 : i, j], A[i, j + 1 : i] = A[i, j + 1 : i], between
    A[j, j], A[i, i] = A[i, i], A[j, j]


def _downdate(A: Array, L: Array) -> None:
    """Subtract ``L L'`` from the lower triangle of ``A``."""
    n, k = L.shape
    for columns in _pieces(n, max(n * k, PIECE // AT_ONCE)):
        A[columns.start :, columns] -= L[columns.start :] @ L[columns].T


def _pieces(count: int, work_each: int) -> list[slice]:
    """Split ``count`` rows or columns, each of so many multiplications."""
    step = max(1, PIECE // max(work_each, 1))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
