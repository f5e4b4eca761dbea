"""What every row would bring as the next import point.

One Newton step that adds candidate l to the submodel lowers H by ``num_l^2 / (2 s_l)``, summed over outputs, where

    num_l = k_l' r + alpha phi_l' w - V_l' C^-1 g ,   V_l = C^-1 (D'W k_l + alpha [0; phi_l]) ,
    s_l   = k_l' W k_l + alpha K_ll - |V_l|^2 ,       r = dloss/deta

(symbols as in `submodel`). ``V`` grows by a row with every point, so an addition costs two products with the
candidates' kernel columns; several points at a time cost one product of matrices. The third term of ``num`` takes out
what the submodel itself still has to gain: without it selection is wrong unless the submodel is fully converged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import linalg

from smaller.arrays import Array
from smaller.factors import cholesky, lower_inverse
from smaller.kernels import Kernel, Precomputed
from smaller.searches.submodel import Submodel

__all__ = ["Candidates"]

DOUBLE_BYTES = 1 << 23  # candidate columns up to this size are held in double precision, larger ones in single
CHUNK_BYTES = 1 << 24  # kernel columns computed at a time
CACHE_BYTES = 1 << 22  # held columns worked on at a time
_INDEFINITE = (
    "kernel must be positive semi-definite for import vectors, and this one is not: choose another kernel, or SMLR, "
    "which takes any."
)


class Candidates:
    """Kernel columns of the rows that may be chosen, and what each would bring.

    Scores rank and are compared with ``eps H``; single precision is enough for that where the columns are many.
    """

    def __init__(self, kernel: Kernel, X: Any, rows: Array, memory_limit: int) -> None:
        self.kernel, self.X, self.rows = kernel, X, rows
        n = X.shape[0]
        self.diagonal = np.asarray(kernel.diagonal(X), dtype=np.float64)
        self.rho = self.diagonal[rows].copy()
        double = 8 * n * len(rows) <= min(DOUBLE_BYTES, memory_limit)
        self.dtype = np.float64 if double else np.float32
        self.noise = 1e-8 if double else 1e-5
        held = len(rows) * n * np.dtype(self.dtype).itemsize <= memory_limit
        self._held = self._gather(n) if held else None
        self.V = np.zeros((0, 0, len(rows)), dtype=self.dtype)
        self.s = self.d = np.zeros((0, len(rows)))

    def column(self, rows: Array) -> Array:
        """Return ``K(x_i, x_l)`` in double precision (n, len(rows))."""
        centers = rows if isinstance(self.kernel, Precomputed) else self.X[rows]
        return np.asarray(self.kernel(self.X, centers), dtype=np.float64)

    def _gather(self, n: int) -> Array:
        columns = np.empty((len(self.rows), n), dtype=self.dtype)
        for part, block in self._computed(n):
            columns[part] = block
        return columns

    def _computed(self, n: int) -> Iterator[tuple[slice, Array]]:
        step = max(1, CHUNK_BYTES // (8 * n))
        for start in range(0, len(self.rows), step):
            part = slice(start, min(start + step, len(self.rows)))
            rows = self.rows[part]
            if isinstance(self.kernel, Precomputed):
                block = self.kernel(self.X, rows).T
            else:
                block = self.kernel(self.X, self.X[rows]).T
            yield part, block

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield parts of the transposed columns, each (some candidates, n)."""
        if self._held is None:
            yield from self._computed(self.X.shape[0])
            return
        step = max(1, CACHE_BYTES // self._held[:1].nbytes)
        for start in range(0, len(self.rows), step):
            part = slice(start, min(start + step, len(self.rows)))
            yield part, self._held[part]

    def products(self, U: Array, *, squared: bool = False) -> Array:
        """Return ``K_l' U`` (N, r), or with ``squared`` the products with the squared columns."""
        scale = float(np.abs(U).max(initial=0.0)) or 1.0  # residuals of separable data would underflow
        narrow = np.asfortranarray(U / scale, dtype=self.dtype)
        out = np.empty((len(self.rows), U.shape[1]), order="F")
        for part, block in self.blocks():
            block = np.asarray(block, dtype=self.dtype)
            block = block * block if squared else block
            if U.shape[1] > 4:
                out[part] = block @ narrow
            else:  # a thin matrix product is slower than its columns
                for k in range(U.shape[1]):
                    out[part, k] = block @ narrow[:, k]
        return scale * out

    def renew(self, model: Submodel) -> None:
        """Compute V and s from scratch for the model's present factors."""
        h, d = model.W.shape[1], model.d
        capacity = model.capacity
        if self.V.shape[:2] != (h, capacity):
            self.V = np.empty((h, capacity, len(self.rows)), dtype=self.dtype)
        self.d = self.products(model.W, squared=True).T + model.alpha * self.diagonal[self.rows]
        self.s = self.d.copy()
        penalty = model.alpha * model.phi[self.rows].T
        for k in range(h):
            B = self.products(model.D * model.W[:, k, None]).T
            B[model.first :] += penalty
            self.V[k, :d] = model.factors[k] @ B
            self.s[k] -= np.einsum("dl,dl->l", self.V[k, :d], self.V[k, :d], dtype=np.float64)

    def extend(self, model: Submodel, couplings: Array, corners: Array) -> None:
        """Append the rows of V that belong to the model's last columns."""
        r = corners.shape[1]
        old, new = slice(model.d - r), slice(model.d - r, model.d)
        if new.stop > self.V.shape[1]:
            more = model.capacity - self.V.shape[1]
            self.V = np.concatenate([self.V, np.empty_like(self.V, shape=(len(self.V), more, len(self.rows)))], axis=1)
        psi = model.D[:, new]
        for k, (V, c) in enumerate(zip(couplings, corners, strict=True)):
            cross = self.products(model.W[:, k, None] * psi).T + model.alpha * psi[self.rows].T
            rows = lower_inverse(c) @ (cross - V.T.astype(self.dtype) @ self.V[k, old])
            self.V[k, new] = rows
            self.s[k] -= np.einsum("rl,rl->l", rows, rows)

    def numerators(self, model: Submodel, g: Array) -> Array:
        """Return ``num`` (N, q)."""
        num = self.products(model.residual)
        num += model.alpha * (model.eta - model.b)[self.rows]
        for k in range(model.q):
            h = 0 if model.shared else k
            num[:, k] -= (model.factors[h] @ g[:, k]).astype(self.dtype) @ self.V[h, : model.d]
        return num

    def curvatures(self, model: Submodel) -> Array:
        """Return ``s`` (h, N), kept above its rounding error and above its lower bound ``alpha rho``."""
        return np.maximum(np.maximum(self.s, self.noise * self.d), model.alpha * np.maximum(self.rho, 0.0))

    def admissible(self) -> Array:
        """Return which candidates are not yet in the span of the chosen ones (N,): no row is chosen twice."""
        return self.rho > self.noise * self.diagonal[self.rows]

    def couplings(self, model: Submodel, listed: Array) -> tuple[Array, Array]:
        """Return for some candidates what ``s`` is the diagonal of (h, r, r), and the same for ``rho`` (r, r)."""
        rows = self.rows[listed]
        columns = self.column(rows) if self._held is None else self._held[listed].T.astype(np.float64)
        own, phi = columns[rows], model.phi[rows]
        C = np.empty((len(self.s), len(rows), len(rows)))
        for k in range(len(C)):
            V = self.V[k, : model.d, listed].astype(np.float64)  # (r, d)
            C[k] = columns.T @ (model.W[:, k, None] * columns) + model.alpha * own - V @ V.T
        return C, own - phi @ phi.T

    def whitened(self, model: Submodel, chosen: Array) -> Array:
        """Return the columns ``psi`` of some candidates, each whitened against those before it too (n, r)."""
        rows = self.rows[chosen]
        psi = self.column(rows) - model.phi @ model.phi[rows].T
        try:
            L = cholesky(psi[rows])
        except np.linalg.LinAlgError:
            raise ValueError(_INDEFINITE) from None
        return np.asfortranarray(linalg.solve_triangular(L, psi.T, lower=True).T)

    def forget(self, psi: Array) -> None:
        """Lower ``rho`` by columns that were added; a clearly negative value means that the kernel is indefinite."""
        self.rho -= np.sum(psi[self.rows] ** 2, axis=1)
        if self.rho.min() < -1e-6 * float(np.abs(self.diagonal).max()):
            raise ValueError(_INDEFINITE)
