"""What every row would bring as the next import point.

One Newton step that adds candidate l to the submodel lowers H by ``num_l^2 / (2 s_l)``, summed over outputs, where

    num_l = k_l' r + alpha phi_l' w - V_l' C^-1 g ,   V_l = C^-1 (D'W k_l + alpha [0; phi_l]) ,
    s_l   = k_l' W k_l + alpha K_ll - |V_l|^2 ,       r = dloss/deta

(symbols as in `submodel`). ``V`` grows by a row with every point, so an addition costs two products with the
candidates' kernel columns. The third term of ``num`` takes out what the submodel itself still has to gain: without it
selection is wrong unless the submodel is fully converged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.kernels import Kernel, Precomputed
from smaller.searches.submodel import Submodel

__all__ = ["Candidates"]

DOUBLE_BYTES = 1 << 23  # candidate columns up to this size are held in double precision, larger ones in single
CHUNK_BYTES = 1 << 24  # kernel columns computed at a time
CACHE_BYTES = 1 << 22  # held columns worked on at a time


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
                block = self.kernel(self.X[rows], self.X)
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
        capacity = model._inverse.shape[1]
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

    def extend(self, model: Submodel, rows: Array, diagonal: Array) -> None:
        """Append the row of V that belongs to the model's last column."""
        j = model.d - 1
        if j >= self.V.shape[1]:
            self.V = np.concatenate([self.V, np.empty_like(self.V)], axis=1)
        psi = model.D[:, j]
        cross = self.products(model.W * psi[:, None]).T + model.alpha * psi[self.rows]
        for k, (v, c) in enumerate(zip(rows, diagonal, strict=True)):
            new = (cross[k] - v.astype(self.dtype) @ self.V[k, :j]) / c
            self.V[k, j] = new
            self.s[k] -= new * new

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

    def whitened(self, model: Submodel, index: int) -> Array:
        """Return the column ``psi`` of a candidate (n,)."""
        row = self.rows[index]
        phi = model.phi[row]
        psi = self.column(self.rows[index : index + 1])[:, 0] - model.phi @ phi
        return psi / math.sqrt(psi[row])

    def forget(self, psi: Array) -> None:
        """Lower ``rho`` by a column that was added; a clearly negative value means that the kernel is indefinite."""
        self.rho -= psi[self.rows] ** 2
        if self.rho.min() < -1e-6 * float(np.abs(self.diagonal).max()):
            raise ValueError(
                "kernel must be positive semi-definite for import vectors, and this one is not: choose another kernel, "
                "or SMLR, which takes any."
            )
