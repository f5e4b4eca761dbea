"""Products and distances of rows, in blocks; dense or sparse, whatever the array library.

Work proceeds in blocks of rows, in float64, so temporaries stay in the cache and float32 data lose nothing to
cancellation; the result has the data's precision, and its columns lie one after the other, as a design wants them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import array_api_compat.numpy as numpy_namespace
import numpy as np
from array_api_compat import array_namespace, device
from scipy import sparse

from smaller.arrays import Array
from smaller.kernels.protocol import Kernel

__all__ = [
    "as_float64",
    "as_vector",
    "by_rows",
    "center_of",
    "check_matrix",
    "check_pair",
    "check_scales",
    "column_dot",
    "device_of",
    "distances",
    "evaluate",
    "is_number",
    "is_sparse",
    "namespace_of",
    "product_pullback",
    "products",
    "result_dtype",
    "row_blocks",
    "row_squares",
    "scale_rows",
    "shifted",
    "slices",
    "squared_distances",
    "weighted_norms",
    "weighted_squares",
]

BLOCK_ELEMENTS = 2**18  # 2 MB of float64: large enough for BLAS-3, small enough to stay in cache for exp
MOSTLY_FILLED = 0.5  # share of stored entries from which a sparse matrix may as well be full
MINIMUM_ROWS = 16  # however wide: what is done once per block must not dominate


def squared_distances(X: Array, C: Array, gamma: float | Array = 1.0) -> Array:
    """D_ij = sum_k gamma_k (x_ik - c_jk)^2, as |a|^2 + |c|^2 - 2 a'c after moving the mean centre to zero.

    Distances below the rounding error of that form are set to zero, so identical rows are at distance exactly
    zero and nothing is negative. Sparse inputs are not moved, as this would fill them.

    Parameters
    ----------
    X, C : arrays of shape (n, p) and (m, p), dense or SciPy sparse
    gamma : float or array of shape (p,)

    Returns
    -------
    array of shape (n, m), float32 if both inputs are

    Examples
    --------
    >>> import numpy as np
    >>> squared_distances(np.array([[0.0, 3.0]]), np.array([[4.0, 0.0], [0.0, 3.0]]))
    array([[25.,  0.]])
    """
    check_scales(gamma)
    return evaluate(X, C, gamma, distances, center=True)


# --- blocks of rows ---


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Cut n rows into blocks whose widest temporary has about `BLOCK_ELEMENTS` entries."""
    return slices(n, max(MINIMUM_ROWS, BLOCK_ELEMENTS // max(1, width)))


def slices(n: int, step: int) -> Iterator[slice]:
    """Cut n rows into slices of ``step``."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def evaluate(
    X: Array,
    C: Array,
    gamma: float | Array,
    value: Callable[[Any, Array, Array], Array],
    center: bool = False,
) -> Array:
    """Fill an (n, m) array with value(B, A)' by blocks; A and B are rows of X and C scaled by sqrt(gamma)."""
    check_pair(X, C)
    xp, on, (n, p), m = namespace_of(X, C), device_of(X, C), X.shape, C.shape[0]
    theta, shift = as_vector(xp, gamma, p, on), center_of(X, C) if center else None
    X, C = by_rows(X), by_rows(C)
    K = xp.empty((m, n), dtype=result_dtype(xp, X, C), device=on)
    width = m if is_sparse(X) and shift is None else max(m, p)
    with np.errstate(over="ignore", invalid="ignore"):
        B = scale_rows(xp, C, theta, shift)
        for rows in row_blocks(n, width):
            K[:, rows] = xp.astype(value(xp, B, scale_rows(xp, X[rows, :], theta, shift)), K.dtype, copy=False)
    return finite(xp, K).T


def products(xp: Any, A: Array, B: Array) -> Array:
    """Return ``A B'``, dense."""
    product = A @ B.T
    return product.toarray() if is_sparse(product) else product


def distances(xp: Any, A: Array, B: Array) -> Array:
    """|a|^2 + |b|^2 - 2 a'b, zero where that is rounding noise."""
    norms, D = row_squares(xp, A)[:, None] + row_squares(xp, B)[None, :], products(xp, A, B)
    D *= -2.0
    D += norms
    # A priori error of the three sums of p terms, at most (p + 4) eps (|a|^2 + |b|^2).
    norms *= (A.shape[1] + 4) * float(xp.finfo(xp.float64).eps)
    D[norms >= D] = 0.0  # in this order NaN stays NaN
    return D


def product_pullback(X: Array, C: Array, cotangent: Array, slope: Kernel | None = None) -> Array:
    """colsum(X o (D C)), D = cotangent o slope(X, C)."""
    check_pair(X, C)
    xp = namespace_of(X, C)
    X, C = by_rows(X), as_float64(xp, by_rows(C))
    total = xp.zeros(X.shape[1], dtype=xp.float64, device=device_of(X, C))
    for rows in row_blocks(X.shape[0], max(C.shape)):
        D = as_float64(xp, cotangent[rows, :])
        D = D if slope is None else D * slope(X[rows, :], C)
        total += column_dot(xp, as_float64(xp, X[rows, :]), D @ C)
    return total


# --- dense or sparse, whatever the array library ---


def is_sparse(A: Array) -> bool:
    """Whether A is a SciPy sparse matrix."""
    return bool(sparse.issparse(A))


def namespace_of(*arrays: Array) -> Any:
    """Return the namespace of the dense ones among the arrays; NumPy where all are sparse."""
    dense = [A for A in arrays if not is_sparse(A)]
    return array_namespace(*dense) if dense else numpy_namespace


def device_of(*arrays: Array) -> Any:
    """Return the device of the dense ones among the arrays."""
    return next((device(A) for A in arrays if not is_sparse(A)), "cpu")


def result_dtype(xp: Any, *arrays: Array) -> Any:
    """Return float32 if all arrays are, else float64."""
    return xp.float32 if all(A.dtype == xp.float32 for A in arrays) else xp.float64


def as_float64(xp: Any, A: Array) -> Array:
    """Return A in double precision."""
    return A.astype(np.float64, copy=False) if is_sparse(A) else xp.astype(A, xp.float64, copy=False)


def by_rows(A: Array) -> Array:
    """Return A so that its rows can be sliced."""
    return sparse.csr_array(A) if is_sparse(A) else A


def as_vector(xp: Any, value: Array, size: int, on: Any) -> Array:
    """Return ``value``, one number or ``size`` of them, as a float64 vector on the data's device."""
    if is_number(value):
        return xp.full(size, float(value), dtype=xp.float64, device=on)
    if value.shape != (size,):
        raise ValueError(f"gamma or weight must be one number or {size}, got an array of shape {value.shape}")
    return xp.asarray(value, dtype=xp.float64, device=on)


def center_of(X: Array, C: Array) -> Array | None:
    """Mean of C, or None where moving it to zero would fill a sparse matrix.

    Differences do not see a shift, cancellation does. X has no part in the mean: a row's kernel values must
    not depend on the rows beside it.
    """
    if is_sparse(C):
        filled = C.nnz >= MOSTLY_FILLED * math.prod(C.shape)
        return C.toarray().sum(axis=0) / max(1, C.shape[0]) if filled else None
    if is_sparse(X):
        return None
    xp = namespace_of(C)
    return xp.sum(as_float64(xp, C), axis=0) / max(1, C.shape[0])


def shifted(xp: Any, A: Array, shift: Array | None) -> Array:
    """Return the rows of A less ``shift``, in double precision."""
    if shift is None:
        return as_float64(xp, A)
    return as_float64(xp, A.toarray() if is_sparse(A) else A) - shift


def scale_rows(xp: Any, A: Array, theta: Array, shift: Array | None = None) -> Array:
    """sqrt(theta) o (a - shift) in float64, for every row a; columns with theta_k = 0 are left out."""
    A, active = shifted(xp, A, shift), xp.nonzero(theta > 0)[0]
    scale = xp.sqrt(xp.take(theta, active))
    if is_sparse(A):
        A = A[:, active]
        return sparse.csr_array((A.data * scale[A.indices], A.indices, A.indptr), shape=A.shape)
    return (A if active.shape[0] == A.shape[1] else xp.take(A, active, axis=1)) * scale


def row_squares(xp: Any, A: Array) -> Array:
    """Return ``sum_k a_ik^2``, for every row."""
    return A.power(2).sum(axis=1) if is_sparse(A) else xp.sum(A * A, axis=1)


def weighted_squares(A: Array, weight: Array) -> Array:
    """sum_i weight_i a_ik^2."""
    return A.power(2).T @ weight if is_sparse(A) else weight @ (A * A)


def column_dot(xp: Any, A: Array, B: Array) -> Array:
    """sum_i a_ik b_ik."""
    return A.multiply(B).sum(axis=0) if is_sparse(A) else xp.sum(A * B, axis=0)


def weighted_norms(X: Array, gamma: float | Array) -> Array:
    """sum_k gamma_k x_ik^2, for every row."""
    check_matrix(X, "X")
    xp = namespace_of(X)
    with np.errstate(over="ignore", invalid="ignore"):
        return row_squares(xp, scale_rows(xp, by_rows(X), as_vector(xp, gamma, X.shape[1], device_of(X))))


# --- checks ---


def finite(xp: Any, K: Array) -> Array:
    """Return kernel values as they are, or refuse them: infinite ones turn into NaN in whatever comes next."""
    with np.errstate(over="ignore", invalid="ignore"):
        summed = float(xp.sum(K))
    if not math.isfinite(summed):
        raise ValueError(
            "The kernel returned values that are not finite: scale the features, or choose a smaller gamma or degree."
        )
    return K


def is_number(value: Any) -> bool:
    """Whether ``value`` is a real number."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_scales(gamma: Array) -> None:
    """Refuse scales that are negative, infinite or not a vector."""
    if is_number(gamma):
        valid = 0 <= gamma < math.inf
    else:
        xp = array_namespace(gamma)
        if gamma.ndim != 1:
            raise ValueError(f"gamma must be a number or a 1-dimensional array, got shape {gamma.shape}")
        valid = bool(xp.all((gamma >= 0) & xp.isfinite(gamma)))
    if not valid:
        raise ValueError(f"gamma must be finite and >= 0, got {gamma!r}")


def check_matrix(A: Array, name: str) -> None:
    """Refuse what is no matrix."""
    if A.ndim != 2:
        raise ValueError(f"{name} must be 2-dimensional, got shape {A.shape}")


def check_pair(X: Array, C: Array) -> None:
    """Refuse rows and centres that do not belong together."""
    check_matrix(X, "X")
    check_matrix(C, "C")
    if X.shape[1] != C.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features but the centres have {C.shape[1]}; they must agree")
