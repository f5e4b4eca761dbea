"""Kernels that the user brings: a matrix, or a function. Neither has scales of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from array_api_compat import array_namespace, device

from smaller.arrays import Array
from smaller.kernels.blocks import (
    by_rows,
    device_of,
    is_sparse,
    namespace_of,
    result_dtype,
    slices,
)

__all__ = ["FromCallable", "Precomputed"]

DIAGONAL_ROWS = 32  # rows per call when a callable's diagonal is cut out of square blocks


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
        if is_sparse(X):
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
        xp, shape = namespace_of(X, C), (X.shape[0], C.shape[0])
        K = self.function(X, C, **self.params)
        K = K.toarray() if is_sparse(K) else K
        K = xp.asarray(K, dtype=result_dtype(xp, X, C), device=device_of(X, C))
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
        xp, X = namespace_of(X), by_rows(X)
        parts = (X[rows, :] for rows in slices(X.shape[0], DIAGONAL_ROWS))
        return xp.concat([xp.linalg.diagonal(self(part, part)) for part in parts])

    def rescale(self, theta: Array) -> NoReturn:
        """Not defined: there are no features to scale."""
        _refuse_scales("a callable")

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> NoReturn:
        """Not defined: there are no features to scale."""
        _refuse_scales("a callable")


def _refuse_scales(kernel: str) -> NoReturn:
    raise TypeError(f"{kernel} kernel has no feature scales; use kernel='rbf', 'poly' or 'linear'")
