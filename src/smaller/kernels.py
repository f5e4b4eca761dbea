"""Kernels K(x, c) with one scale per feature, and their derivatives in those scales.

Every kernel with scales sees its inputs only through ``theta_k x_k``-weighted sums, so blocks and derivatives
are matrix products; no (n, m, p) array is ever formed. Work proceeds in blocks of rows, in float64, so
temporaries stay bounded and float32 data lose nothing to cancellation; the result has the data's precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NoReturn, Protocol, TypeAlias, runtime_checkable

import array_api_compat.numpy as numpy_namespace
import numpy as np
from array_api_compat import array_namespace, device
from scipy import sparse

__all__ = [
    "RBF",
    "FromCallable",
    "Kernel",
    "Linear",
    "Polynomial",
    "Precomputed",
    "make_kernel",
    "resolve_gamma",
    "squared_distances",
]

Array: TypeAlias = Any  # an array of any array-API library, or a SciPy sparse matrix where said

BLOCK_ELEMENTS = 2**20  # 8 MB of float64: large enough for BLAS-3, small enough to stay in cache for exp
MINIMUM_ROWS = 16  # however wide: what is done once per block must not dominate
DIAGONAL_ROWS = 32  # rows per call when a callable's diagonal is cut out of square blocks


@runtime_checkable
class Kernel(Protocol):
    """What a kernel offers; X is (n, p), C holds the m centres as rows."""

    @property
    def mercer(self) -> bool:
        """Whether the kernel is known to be positive semidefinite."""

    def __call__(self, X: Array, C: Array) -> Array:
        """K(x_i, c_j), an (n, m) array."""

    def diagonal(self, X: Array) -> Array:
        """K(x_i, x_i), an (n,) array."""

    def rescale(self, theta: Array) -> Kernel:
        """Return the same kernel with per-feature scales ``theta`` (p,), all >= 0."""

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> Array:
        """Differentiate sum(cotangent * K) in theta: a float64 (p,) array; ``K`` is the block if known."""


@dataclass(frozen=True, eq=False)
class RBF:
    """K(x, c) = exp(-sum_k gamma_k (x_k - c_k)^2).

    Parameters
    ----------
    gamma : float or array of shape (p,)
        Scales, all >= 0; a number serves every feature.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> RBF(gamma=0.5)(X, X[:1]).round(3)
    array([[1.   ],
           [0.082]])
    """

    gamma: float | Array = 1.0
    mercer: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_scales(self.gamma)

    def __call__(self, X: Array, C: Array) -> Array:
        """K(x_i, c_j), an (n, m) array."""
        return _evaluate(X, C, self.gamma, lambda xp, A, B: xp.exp(-_distances(xp, A, B)), center=True)

    def diagonal(self, X: Array) -> Array:
        """K(x_i, x_i), an (n,) array."""
        xp = _namespace(X)
        return xp.ones(X.shape[0], dtype=_result_dtype(xp, X), device=_device(X))

    def rescale(self, theta: Array) -> RBF:
        """Return the kernel with scales ``theta`` (p,)."""
        return RBF(gamma=theta)

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> Array:
        """-[(G 1)' X^2 + (G' 1)' C^2 - 2 colsum(X o (G C))], G = cotangent o K."""
        _check_pair(X, C)
        xp, on, shift = _namespace(X, C), _device(X, C), _center(X, C)
        X, C = _by_rows(X), _by_rows(C)
        moved = _shifted(xp, C, shift)  # against cancellation between the three sums
        total = xp.zeros(X.shape[1], dtype=xp.float64, device=on)
        column_sums = xp.zeros(C.shape[0], dtype=xp.float64, device=on)
        for rows in _row_blocks(X.shape[0], max(C.shape)):
            block = self(X[rows, :], C) if K is None else K[rows, :]
            G = _float64(xp, cotangent[rows, :]) * _float64(xp, block)
            A = _shifted(xp, X[rows, :], shift)
            total += 2.0 * _column_dot(xp, A, G @ moved) - _weighted_squares(A, xp.sum(G, axis=1))
            column_sums += xp.sum(G, axis=0)
        return total - _weighted_squares(moved, column_sums)


@dataclass(frozen=True, eq=False)
class Polynomial:
    """K(x, c) = (coef0 + sum_k gamma_k x_k c_k)^degree.

    Parameters
    ----------
    degree : int, at least 1
    gamma : float or array of shape (p,)
        Scales, all >= 0; a number serves every feature.
    coef0 : float
        The kernel is known to be positive semidefinite only for ``coef0 >= 0``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> Polynomial(degree=2)(X, X)
    array([[  4.,  16.],
           [ 16., 196.]])
    """

    degree: int = 3
    gamma: float | Array = 1.0
    coef0: float = 1.0

    def __post_init__(self) -> None:
        if not _is_number(self.degree) or self.degree % 1 or self.degree < 1:
            raise ValueError(f"degree must be an integer of at least 1, got {self.degree!r}")
        if not _is_number(self.coef0) or not math.isfinite(self.coef0):
            raise ValueError(f"coef0 must be a finite number, got {self.coef0!r}")
        _check_scales(self.gamma)

    @property
    def mercer(self) -> bool:
        """Whether the kernel is known to be positive semidefinite."""
        return self.coef0 >= 0

    def __call__(self, X: Array, C: Array) -> Array:
        """K(x_i, c_j), an (n, m) array."""
        return _evaluate(X, C, self.gamma, lambda xp, A, B: (self.coef0 + _products(xp, A, B)) ** self.degree)

    def diagonal(self, X: Array) -> Array:
        """K(x_i, x_i), an (n,) array."""
        xp = _namespace(X)
        value = (self.coef0 + _weighted_norms(X, self.gamma)) ** self.degree
        return xp.astype(value, _result_dtype(xp, X), copy=False)

    def rescale(self, theta: Array) -> Polynomial:
        """Return the kernel with scales ``theta`` (p,)."""
        return Polynomial(degree=self.degree, gamma=theta, coef0=self.coef0)

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> Array:
        """colsum(X o (D C)), D = degree * cotangent o B^(degree - 1), B = coef0 + (X o theta) C'."""
        if self.degree == 1:  # D needs no kernel block
            return _product_pullback(X, C, cotangent)
        lower = Polynomial(degree=self.degree - 1, gamma=self.gamma, coef0=self.coef0)
        return self.degree * _product_pullback(X, C, cotangent, lower)


@dataclass(frozen=True, eq=False)
class Linear:
    """K(x, c) = sum_k gamma_k x_k c_k.

    Parameters
    ----------
    gamma : float or array of shape (p,)
        Scales, all >= 0; a number serves every feature.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> Linear(gamma=np.array([1.0, 0.5]))(X, X)
    array([[0.5, 1.5],
           [1.5, 8.5]])
    """

    gamma: float | Array = 1.0
    mercer: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_scales(self.gamma)

    def __call__(self, X: Array, C: Array) -> Array:
        """K(x_i, c_j), an (n, m) array."""
        return _evaluate(X, C, self.gamma, _products)

    def diagonal(self, X: Array) -> Array:
        """K(x_i, x_i), an (n,) array."""
        xp = _namespace(X)
        return xp.astype(_weighted_norms(X, self.gamma), _result_dtype(xp, X), copy=False)

    def rescale(self, theta: Array) -> Linear:
        """Return the kernel with scales ``theta`` (p,)."""
        return Linear(gamma=theta)

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> Array:
        """colsum(X o (cotangent C))."""
        return _product_pullback(X, C, cotangent)


@dataclass(frozen=True, eq=False)
class Precomputed:
    """The kernel block itself stands in for the data: X is K(rows, centres), C picks columns.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> Precomputed()(K, np.array([1]))
    array([[1.],
           [3.]])
    """

    mercer: ClassVar[bool] = False  # not known

    def __call__(self, X: Array, C: Array | None = None) -> Array:
        """Columns ``C`` (indices; None: all) of X."""
        xp = self._check(X)
        if C is None:
            return X
        return xp.take(X, xp.asarray(C, dtype=xp.int64, device=device(X)), axis=1)

    def diagonal(self, X: Array) -> Array:
        """K(x_i, x_i), an (n,) array."""
        xp = self._check(X)
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be a square kernel matrix to have a diagonal, got shape {X.shape}")
        return xp.linalg.diagonal(X)

    def rescale(self, theta: Array) -> NoReturn:
        """Not defined: there are no features to scale."""
        _refuse_scales("precomputed")

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> NoReturn:
        """Not defined: there are no features to scale."""
        _refuse_scales("precomputed")

    @staticmethod
    def _check(X: Array) -> Any:
        if _is_sparse(X):
            raise TypeError("X must be a dense kernel matrix with kernel='precomputed'; use X.toarray()")
        if X.ndim != 2:
            raise ValueError(f"X must be a 2-dimensional kernel matrix, got shape {X.shape}")
        return array_namespace(X)


@dataclass(frozen=True, eq=False)
class FromCallable:
    """K(X, C) = function(X, C, **params), an (n, m) array; need not be positive semidefinite.

    Examples
    --------
    >>> import numpy as np
    >>> def tanh_kernel(X, C, slope):
    ...     return np.tanh(slope * X @ C.T)
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> FromCallable(tanh_kernel, {"slope": 0.1})(X, X).round(2)
    array([[0.1 , 0.29],
           [0.29, 0.86]])
    """

    function: Callable[..., Array]
    params: Mapping[str, Any] = field(default_factory=dict)
    mercer: ClassVar[bool] = False  # not known

    def __call__(self, X: Array, C: Array) -> Array:
        """K(x_i, c_j), an (n, m) array."""
        xp, shape = _namespace(X, C), (X.shape[0], C.shape[0])
        K = self.function(X, C, **self.params)
        K = K.toarray() if _is_sparse(K) else K
        K = xp.asarray(K, dtype=_result_dtype(xp, X, C), device=_device(X, C))
        if tuple(K.shape) != shape:
            raise ValueError(
                f"kernel must return an array of shape {shape}, a row per row of X and a column per centre, "
                f"got {tuple(K.shape)}; a function of two single rows has to be vectorised first"
            )
        if not bool(xp.all(xp.isfinite(K))):
            raise ValueError("kernel returned NaN or infinity; check its parameters and the scale of X")
        return K

    def diagonal(self, X: Array) -> Array:
        """K(x_i, x_i), an (n,) array."""
        xp, X = _namespace(X), _by_rows(X)
        parts = (X[rows, :] for rows in _slices(X.shape[0], DIAGONAL_ROWS))
        return xp.concat([xp.linalg.diagonal(self(part, part)) for part in parts])

    def rescale(self, theta: Array) -> NoReturn:
        """Not defined: there are no features to scale."""
        _refuse_scales("a callable")

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> NoReturn:
        """Not defined: there are no features to scale."""
        _refuse_scales("a callable")


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
    _check_scales(gamma)
    return _evaluate(X, C, gamma, _distances, center=True)


def make_kernel(
    kernel: str | Callable[..., Array],
    *,
    gamma: float | str,
    degree: int,
    coef0: float,
    kernel_params: Mapping[str, Any] | None,
    X: Array,
    weight: Array | None = None,
) -> Kernel:
    """Build a kernel from an estimator's arguments.

    Parameters
    ----------
    kernel : "rbf", "poly", "linear", "precomputed" or callable
    gamma : float, "scale" or "auto"
        Read by "rbf" and "poly" alone; see `resolve_gamma`.
    degree, coef0 : int, float
        Read by "poly" alone.
    kernel_params : mapping or None
        Keyword arguments of a callable kernel.
    X : array of shape (n, p)
        The training rows.
    weight : array of shape (n,) or None
        Their weights.

    Examples
    --------
    >>> import numpy as np
    >>> make_kernel("rbf", gamma="auto", degree=3, coef0=1.0, kernel_params=None, X=np.eye(4))
    RBF(gamma=0.25)
    """
    if callable(kernel):
        return FromCallable(kernel, dict(kernel_params or {}))
    if kernel == "rbf":
        return RBF(gamma=resolve_gamma(gamma, X, weight))
    if kernel == "poly":
        return Polynomial(degree=degree, gamma=resolve_gamma(gamma, X, weight), coef0=coef0)
    if kernel == "linear":
        return Linear()
    if kernel == "precomputed":
        return Precomputed()
    raise ValueError(f"kernel must be 'rbf', 'poly', 'linear', 'precomputed' or a callable, got {kernel!r}")


def resolve_gamma(gamma: float | str, X: Array, weight: Array | None = None) -> float:
    """Turn the argument ``gamma`` into a number.

    "scale" is 1 / (p * v), v the weighted variance over all entries of X (1 if they are all equal); "auto" is
    1 / p; a number stays.

    Examples
    --------
    >>> import numpy as np
    >>> resolve_gamma("scale", np.array([[-1.0, 1.0], [-1.0, 1.0]]))
    0.5
    """
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / float(X.shape[1])
        if gamma == "scale":
            variance = _weighted_variance(X, weight)
            return 1.0 / float(X.shape[1] * variance) if variance > 0 else 1.0
    elif _is_number(gamma) and 0 < gamma < math.inf:
        return float(gamma)
    raise ValueError(f"gamma must be a finite number > 0, 'scale' or 'auto', got {gamma!r}")


# --- blocks of rows ---


def _row_blocks(n: int, width: int) -> Iterator[slice]:
    """Cut n rows into blocks whose widest temporary has about `BLOCK_ELEMENTS` entries."""
    return _slices(n, max(MINIMUM_ROWS, BLOCK_ELEMENTS // max(1, width)))


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _evaluate(
    X: Array,
    C: Array,
    gamma: float | Array,
    value: Callable[[Any, Array, Array], Array],
    center: bool = False,
) -> Array:
    """Fill an (n, m) array with value(A, B) by blocks; A and B are rows of X and C scaled by sqrt(gamma)."""
    _check_pair(X, C)
    xp, on, (n, p), m = _namespace(X, C), _device(X, C), X.shape, C.shape[0]
    theta, shift = _vector(xp, gamma, p, on), _center(X, C) if center else None
    X, C = _by_rows(X), _by_rows(C)
    B = _scaled(xp, C, theta, shift)
    K = xp.empty((n, m), dtype=_result_dtype(xp, X, C), device=on)
    width = m if _is_sparse(X) else max(m, p)
    for rows in _row_blocks(n, width):
        K[rows, :] = xp.astype(value(xp, _scaled(xp, X[rows, :], theta, shift), B), K.dtype, copy=False)
    return K


def _products(xp: Any, A: Array, B: Array) -> Array:
    product = A @ B.T
    return product.toarray() if _is_sparse(product) else product


def _distances(xp: Any, A: Array, B: Array) -> Array:
    """|a|^2 + |b|^2 - 2 a'b, zero where that is rounding noise."""
    norms = _row_squares(xp, A)[:, None] + _row_squares(xp, B)[None, :]
    D = norms - 2.0 * _products(xp, A, B)
    # A priori error of the three sums of p terms, at most (p + 4) eps (|a|^2 + |b|^2).
    noise = (A.shape[1] + 4) * float(xp.finfo(xp.float64).eps)
    return xp.where(noise * norms >= D, xp.zeros_like(D), D)  # in this order NaN stays NaN


def _product_pullback(X: Array, C: Array, cotangent: Array, slope: Kernel | None = None) -> Array:
    """colsum(X o (D C)), D = cotangent o slope(X, C)."""
    _check_pair(X, C)
    xp = _namespace(X, C)
    X, C = _by_rows(X), _float64(xp, _by_rows(C))
    total = xp.zeros(X.shape[1], dtype=xp.float64, device=_device(X, C))
    for rows in _row_blocks(X.shape[0], max(C.shape)):
        D = _float64(xp, cotangent[rows, :])
        D = D if slope is None else D * slope(X[rows, :], C)
        total += _column_dot(xp, _float64(xp, X[rows, :]), D @ C)
    return total


# --- dense or sparse, whatever the array library ---


def _is_sparse(A: Array) -> bool:
    return bool(sparse.issparse(A))


def _namespace(*arrays: Array) -> Any:
    dense = [A for A in arrays if not _is_sparse(A)]
    return array_namespace(*dense) if dense else numpy_namespace


def _device(*arrays: Array) -> Any:
    return next((device(A) for A in arrays if not _is_sparse(A)), "cpu")


def _result_dtype(xp: Any, *arrays: Array) -> Any:
    return xp.float32 if all(A.dtype == xp.float32 for A in arrays) else xp.float64


def _float64(xp: Any, A: Array) -> Array:
    return A.astype(np.float64, copy=False) if _is_sparse(A) else xp.astype(A, xp.float64, copy=False)


def _by_rows(A: Array) -> Array:
    return sparse.csr_array(A) if _is_sparse(A) else A


def _vector(xp: Any, value: Array, size: int, on: Any) -> Array:
    """Return ``value``, one number or ``size`` of them, as a float64 vector on the data's device."""
    if _is_number(value):
        return xp.full(size, float(value), dtype=xp.float64, device=on)
    if value.shape != (size,):
        raise ValueError(f"gamma or weight must be one number or {size}, got an array of shape {value.shape}")
    return xp.asarray(value, dtype=xp.float64, device=on)


def _center(X: Array, C: Array) -> Array | None:
    """Mean of C, or None where moving it to zero would fill a sparse matrix.

    Differences do not see a shift, cancellation does. X has no part in the mean: a row's kernel values must
    not depend on the rows beside it.
    """
    if _is_sparse(X) or _is_sparse(C):
        return None
    xp = _namespace(C)
    return xp.sum(_float64(xp, C), axis=0) / max(1, C.shape[0])


def _shifted(xp: Any, A: Array, shift: Array | None) -> Array:
    return _float64(xp, A) if shift is None else _float64(xp, A) - shift


def _scaled(xp: Any, A: Array, theta: Array, shift: Array | None = None) -> Array:
    """sqrt(theta) o (a - shift) in float64, for every row a; columns with theta_k = 0 are left out."""
    A, active = _shifted(xp, A, shift), xp.nonzero(theta > 0)[0]
    scale = xp.sqrt(xp.take(theta, active))
    if _is_sparse(A):
        A = A[:, active]
        return sparse.csr_array((A.data * scale[A.indices], A.indices, A.indptr), shape=A.shape)
    return (A if active.shape[0] == A.shape[1] else xp.take(A, active, axis=1)) * scale


def _row_squares(xp: Any, A: Array) -> Array:
    return A.power(2).sum(axis=1) if _is_sparse(A) else xp.sum(A * A, axis=1)


def _weighted_squares(A: Array, weight: Array) -> Array:
    """sum_i weight_i a_ik^2."""
    return A.power(2).T @ weight if _is_sparse(A) else weight @ (A * A)


def _column_dot(xp: Any, A: Array, B: Array) -> Array:
    """sum_i a_ik b_ik."""
    return A.multiply(B).sum(axis=0) if _is_sparse(A) else xp.sum(A * B, axis=0)


def _weighted_norms(X: Array, gamma: float | Array) -> Array:
    """sum_k gamma_k x_ik^2, for every row."""
    _check_matrix(X, "X")
    xp = _namespace(X)
    return _row_squares(xp, _scaled(xp, _by_rows(X), _vector(xp, gamma, X.shape[1], _device(X))))


def _weighted_variance(X: Array, weight: Array | None) -> float:
    """Variance over all entries of X, row i counting weight_i times; two passes against cancellation."""
    _check_matrix(X, "X")
    xp, n, p = _namespace(X), int(X.shape[0]), int(X.shape[1])
    X = _float64(xp, _by_rows(X))
    w = _vector(xp, 1.0 if weight is None else weight, n, _device(X))
    total = p * float(xp.sum(w))
    mean = float(xp.sum(X.T @ w)) / total
    if not _is_sparse(X):
        return float(xp.sum(w @ (X - mean) ** 2)) / total
    entry_weight = np.repeat(w, np.diff(X.indptr))
    unstored = total - float(entry_weight.sum())  # zeros, which all deviate by the mean
    return (float(entry_weight @ (X.data - mean) ** 2) + unstored * mean**2) / total


# --- checks ---


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_scales(gamma: Array) -> None:
    if _is_number(gamma):
        valid = 0 <= gamma < math.inf
    else:
        xp = array_namespace(gamma)
        if gamma.ndim != 1:
            raise ValueError(f"gamma must be a number or a 1-dimensional array, got shape {gamma.shape}")
        valid = bool(xp.all((gamma >= 0) & xp.isfinite(gamma)))
    if not valid:
        raise ValueError(f"gamma must be finite and >= 0, got {gamma!r}")


def _check_matrix(A: Array, name: str) -> None:
    if A.ndim != 2:
        raise ValueError(f"{name} must be 2-dimensional, got shape {A.shape}")


def _check_pair(X: Array, C: Array) -> None:
    _check_matrix(X, "X")
    _check_matrix(C, "C")
    if X.shape[1] != C.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features but the centres have {C.shape[1]}; they must agree")


def _refuse_scales(kernel: str) -> NoReturn:
    raise TypeError(f"{kernel} kernel has no feature scales; use kernel='rbf', 'poly' or 'linear'")
