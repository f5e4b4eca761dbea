"""What the weights multiply: the features themselves, or kernels centred on training rows.

A basis is frozen and turns any X into a :class:`~smaller.designs.Design`. ``Whitened`` is the kernel basis in which the
RKHS norm is the plain Euclidean one: ``K_SS = L L'``, ``phi(x) = L^-1 k_S(x)``, so the KLR and IVM penalty is an
ordinary Normal prior and adding a centre appends one column without changing any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import linalg, sparse

from smaller.arrays import Array
from smaller.designs import Dense, Design, KernelBlocks, as_design
from smaller.grams import blocks
from smaller.kernels import Kernel as KernelFunction

__all__ = ["Basis", "Kernel", "Linear", "Whitened"]

LARGEST_MATRIX_BYTES = 4 << 30  # kernel matrices above this are computed block by block when needed


class Basis(Protocol):
    """Contract of a basis."""

    def expand(self, X: Any) -> Design:
        """Return the design (n, d) of the rows of ``X``."""

    def take(self, columns: Array) -> Basis:
        """Return the basis of some columns; ``take`` and ``expand`` commute."""


@dataclass(frozen=True)
class Linear:
    """The features themselves (or some of them)."""

    columns: Array | None = None

    def expand(self, X: Any) -> Design:
        return as_design(X if self.columns is None else X[:, self.columns])

    def take(self, columns: Array) -> Linear:
        return Linear(columns if self.columns is None else self.columns[columns])


@dataclass(frozen=True)
class Kernel:
    """One column ``K(x, c)`` per centre ``c``; with a precomputed kernel a centre is a column index of X."""

    kernel: KernelFunction
    centers: Any  # (m, p) rows, or (m,) column indices

    def expand(self, X: Any) -> Design:
        n, m = X.shape[0], self.centers.shape[0]
        if 8 * n * m <= LARGEST_MATRIX_BYTES:
            return Dense(np.asfortranarray(self.kernel(X, self.centers)))
        return KernelBlocks(lambda index: self.kernel(X, self.centers[index]), (n, m))

    def take(self, columns: Array) -> Kernel:
        return Kernel(self.kernel, self.centers[columns])

    def diagonal(self, X: Any) -> Array:
        """Return ``K(x_i, x_i)`` (n,)."""
        return self.kernel.diagonal(X)

    def rescale(self, theta: Array) -> Kernel:
        """Return the basis with other feature scales."""
        return Kernel(self.kernel.rescale(theta), self.centers)

    def pullback(self, X: Any, residual: Array, w: Array, block: Array | None = None) -> Array:
        """Return the derivative of a loss in the feature scales, from its gradient in eta (n, q) and ``w`` (m, q).

        Only centres with a weight enter; ``block`` is the kernel matrix when it is at hand.
        """
        used = np.flatnonzero(w.any(axis=1))
        cotangent = residual @ w[used].T
        return self.kernel.pullback(X, self.centers[used], cotangent, None if block is None else block[:, used])


@dataclass(frozen=True)
class Whitened:
    """Kernel basis with orthonormal metric; grow it with :meth:`append`."""

    kernel: KernelFunction
    centers: Any
    factor: Array  # (m, m) lower triangular, K(centers, centers) = factor factor'

    @classmethod
    def empty(cls, kernel: KernelFunction, X: Any) -> Whitened:
        """Return the basis without centres for rows like those of ``X``."""
        return cls(kernel, X[:0], np.zeros((0, 0)))

    def expand(self, X: Any) -> Dense:
        if self.centers.shape[0] == 0:
            return Dense(np.zeros((X.shape[0], 0), order="F"))
        return Dense(_whiten(self.factor, self.kernel(X, self.centers)))

    def take(self, columns: Array) -> Whitened:
        if not np.array_equal(columns, np.arange(len(columns))):
            raise ValueError("A whitened basis can only be cut at the end: columns must be 0..m-1.")
        m = len(columns)
        return Whitened(self.kernel, self.centers[:m], self.factor[:m, :m])

    def remainder(self, X: Any, phi: Array) -> Array:
        """Return ``K(x, x) - |phi(x)|^2`` (n,): zero marks rows that add nothing (duplicates)."""
        return np.maximum(self.kernel.diagonal(X) - np.einsum("ij,ij->i", phi, phi), 0.0)

    def append(self, center: Any) -> Whitened:
        """Return the basis with one more centre (1, p); raises when it is a combination of the others."""
        phi = self.expand(center).X[0]
        rest = float(self.remainder(center, phi[None, :])[0])
        if rest <= 1e-12 * float(self.kernel.diagonal(center)[0]):
            raise ValueError("This centre adds nothing: it repeats centres that are already there.")
        m = len(phi)
        factor = np.zeros((m + 1, m + 1))
        factor[:m, :m], factor[m, :m], factor[m, m] = self.factor, phi, np.sqrt(rest)
        return Whitened(self.kernel, _stack(self.centers, center), factor)

    def dual_coef(self, w: Array) -> Array:
        """Return the weights on the plain kernel columns: ``factor'^-1 w``."""
        return linalg.solve_triangular(self.factor, w, lower=True, trans="T")


def _whiten(factor: Array, K: Array) -> Array:
    """Return ``K factor'^-1`` some rows at a time: between two of them Ctrl-C is noticed."""
    phi = np.empty(K.shape, order="F")
    for rows in blocks(len(K), 64 * len(factor)):
        phi[rows] = linalg.solve_triangular(factor, K[rows].T, lower=True).T
    return phi


def _stack(rows: Any, more: Any) -> Any:
    return sparse.vstack([rows, more], format="csr") if sparse.issparse(more) else np.concatenate([rows, more])
