"""Kernels with one scale per feature, and their derivatives in those scales.

They see their inputs only through ``theta_k x_k``-weighted sums, so blocks and derivatives are matrix products; no
(n, m, p) array is ever formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smaller.arrays import Array
from smaller.kernels.blocks import (
    as_float64,
    by_rows,
    center_of,
    check_pair,
    check_scales,
    column_dot,
    device_of,
    distances,
    evaluate,
    finite,
    is_number,
    namespace_of,
    product_pullback,
    products,
    result_dtype,
    row_blocks,
    shifted,
    weighted_norms,
    weighted_squares,
)

__all__ = ["RBF", "Linear", "Polynomial"]


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
        check_scales(self.gamma)

    def __call__(self, X: Array, C: Array) -> Array:
        """K(x_i, c_j), an (n, m) array."""
        return evaluate(X, C, self.gamma, lambda xp, A, B: xp.exp(-distances(xp, A, B)), center=True)

    def diagonal(self, X: Array) -> Array:
        """K(x_i, x_i), an (n,) array."""
        xp = namespace_of(X)
        return xp.ones(X.shape[0], dtype=result_dtype(xp, X), device=device_of(X))

    def rescale(self, theta: Array) -> RBF:
        """Return the kernel with scales ``theta`` (p,)."""
        return RBF(gamma=theta)

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> Array:
        """-[(G 1)' X^2 + (G' 1)' C^2 - 2 colsum(X o (G C))], G = cotangent o K."""
        check_pair(X, C)
        xp, on, shift = namespace_of(X, C), device_of(X, C), center_of(X, C)
        X, C = by_rows(X), by_rows(C)
        moved = shifted(xp, C, shift)  # against cancellation between the three sums
        total = xp.zeros(X.shape[1], dtype=xp.float64, device=on)
        column_sums = xp.zeros(C.shape[0], dtype=xp.float64, device=on)
        for rows in row_blocks(X.shape[0], max(C.shape)):
            block = self(X[rows, :], C) if K is None else K[rows, :]
            G = as_float64(xp, cotangent[rows, :]) * as_float64(xp, block)
            A = shifted(xp, X[rows, :], shift)
            total += 2.0 * column_dot(xp, A, G @ moved) - weighted_squares(A, xp.sum(G, axis=1))
            column_sums += xp.sum(G, axis=0)
        return total - weighted_squares(moved, column_sums)


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
        if not is_number(self.degree) or self.degree % 1 or self.degree < 1:
            raise ValueError(f"degree must be an integer of at least 1, got {self.degree!r}")
        if not is_number(self.coef0) or not math.isfinite(self.coef0):
            raise ValueError(f"coef0 must be a finite number, got {self.coef0!r}")
        check_scales(self.gamma)

    @property
    def mercer(self) -> bool:
        """Whether the kernel is known to be positive semidefinite."""
        return self.coef0 >= 0

    def __call__(self, X: Array, C: Array) -> Array:
        """K(x_i, c_j), an (n, m) array."""
        return evaluate(X, C, self.gamma, lambda xp, A, B: (self.coef0 + products(xp, A, B)) ** self.degree)

    def diagonal(self, X: Array) -> Array:
        """K(x_i, x_i), an (n,) array."""
        xp = namespace_of(X)
        with np.errstate(over="ignore"):
            value = (self.coef0 + weighted_norms(X, self.gamma)) ** self.degree
        return xp.astype(finite(xp, value), result_dtype(xp, X), copy=False)

    def rescale(self, theta: Array) -> Polynomial:
        """Return the kernel with scales ``theta`` (p,)."""
        return Polynomial(degree=self.degree, gamma=theta, coef0=self.coef0)

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> Array:
        """colsum(X o (D C)), D = degree * cotangent o B^(degree - 1), B = coef0 + (X o theta) C'."""
        if self.degree == 1:  # D needs no kernel block
            return product_pullback(X, C, cotangent)
        lower = Polynomial(degree=self.degree - 1, gamma=self.gamma, coef0=self.coef0)
        return self.degree * product_pullback(X, C, cotangent, lower)


@dataclass(frozen=True, eq=False)
class Linear:
    """K(x, c) = sum_k gamma_k x_k c_k.

    Parameters
    ----------
    gamma
        As in `RBF`.

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
        check_scales(self.gamma)

    def __call__(self, X: Array, C: Array) -> Array:
        """K(x_i, c_j), an (n, m) array."""
        return evaluate(X, C, self.gamma, products)

    def diagonal(self, X: Array) -> Array:
        """K(x_i, x_i), an (n,) array."""
        xp = namespace_of(X)
        return xp.astype(finite(xp, weighted_norms(X, self.gamma)), result_dtype(xp, X), copy=False)

    def rescale(self, theta: Array) -> Linear:
        """Return the kernel with scales ``theta`` (p,)."""
        return Linear(gamma=theta)

    def pullback(self, X: Array, C: Array, cotangent: Array, K: Array | None = None) -> Array:
        """colsum(X o (cotangent C))."""
        return product_pullback(X, C, cotangent)
