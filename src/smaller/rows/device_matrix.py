"""A dense matrix on a device (torch, CuPy, or whatever follows the array API standard), as a design.

Work stays where the matrix is. What crosses is what a solver holds: weights, coordinates, numbers of columns. Float32
entries stay float32 in memory; products with them are taken block by block in float64, where sums are exact enough for
a certificate. No product in a shorter format (TF32) ever enters a sum.

Symbols: n rows, d columns, q outputs; column index d stands for a virtual column of ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from smaller.arrays import Array, array_namespace, from_host, to_host
from smaller.designs import Coordinates, Design, Moments, reciprocal
from smaller.grams import RowCurvature

__all__ = ["DeviceMatrix"]

_BYTES = 1 << 29  # of temporary blocks: few enough launches, little beside the data
_FEW = 4  # columns in use are picked out if there are so many times fewer of them than columns


@dataclass(frozen=True, eq=False)
class DeviceMatrix:
    """``(X - shift) / scale`` (n, d), float32 or float64; shift and scale (d,) are float64 on the device, or None."""

    X: Array
    shift: Array | None = None
    scale: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> Any:
        return self.X.dtype

    @property
    def matrix(self) -> Array:
        """All entries, as they are stored; or a copy in other units."""
        return self.X if self.scale is None else self._block(slice(None))

    @cached_property
    def xp(self) -> Any:
        """The namespace of the entries."""
        return array_namespace(self.X)

    def here(self, a: np.ndarray[Any, Any]) -> Array:
        """Return a host array on the device."""
        return from_host(np.ascontiguousarray(a), self.X)

    # ---- products ----

    def forward(self, w: Array) -> Array:
        if self.scale is not None:
            w = w / self.scale[:, None]
        parts = [self.xp.matmul(A, w) for _, A in self._stored()]
        eta = parts[0] if len(parts) == 1 else self.xp.concat(parts)
        return eta if self.shift is None else eta - self.xp.sum(self.shift[:, None] * w, axis=0)

    def of_columns(self, columns: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> Array:
        """Return `forward` of weights (c, q) on the host that some columns have."""
        d = self.shape[1]
        if _FEW * len(columns) <= d:
            return self.take(columns).forward(self.here(values))
        w = np.zeros((d, values.shape[1]))
        w[columns] = values
        return self.forward(self.here(w))

    def adjoint(self, R: Array) -> Array:
        G = self._sum(self.xp.matmul(self.xp.matrix_transpose(A), R[rows, :]) for rows, A in self._stored())
        if self.shift is not None:
            G = G - self.shift[:, None] * self.xp.sum(R, axis=0)
        return G if self.scale is None else G / self.scale[:, None]

    def squares(self, h: Array) -> Array:
        return self._sum(self.xp.matmul(self.xp.matrix_transpose(A**2), h[rows, :]) for rows, A in self._units())

    def gram(self, curvature: RowCurvature, left: Coordinates, right: Coordinates | None = None) -> Array:
        """Return the Hessian between two sets of coordinates, on the device.

        ``H = diag_k(A_k' diag(d_k) A_k) - (u A)'(u A)``: products of large matrices, whatever q.
        """
        xp, n = self.xp, self.shape[0]
        near = _ByOutput(self, left, curvature.d.shape[1])
        far = near if right is None else _ByOutput(self, right, curvature.d.shape[1])
        root = xp.sqrt(curvature.d)
        step = max(1, _BYTES // (8 * max(near.size + far.size, 1)))
        total = None
        for first in range(0, max(n, 1), step):
            rows = slice(first, min(first + step, n))
            A = near.columns_of(rows)
            B = A if far is near else far.columns_of(rows)
            if curvature.u is None:
                H = xp.zeros((near.size, far.size), dtype=xp.float64, device=self.X.device)
            else:
                u = near.times(A, curvature.u[rows, :])
                H = -xp.matmul(xp.matrix_transpose(u), u if far is near else far.times(B, curvature.u[rows, :]))
            mine = near.times(A, root[rows, :])
            theirs = mine if far is near else far.times(B, root[rows, :])
            for here, there in zip(near.spans, far.spans, strict=True):
                H[here, there] += xp.matmul(xp.matrix_transpose(mine[:, here]), theirs[:, there])
            total = H if total is None else total + H
        return far.restored(near.restored(total, 0), 1)

    # ---- views ----

    def take(self, columns: Array) -> DeviceMatrix:
        return self.taken(self.here(np.asarray(columns, dtype=np.int64)))

    def taken(self, index: Array) -> DeviceMatrix:
        """Return `take` of columns that are named on the device."""
        shift, scale = (None if part is None else self.xp.take(part, index) for part in (self.shift, self.scale))
        return DeviceMatrix(self.xp.take(self.X, index, axis=1), shift, scale)

    def rows(self, index: Array) -> DeviceMatrix:
        return replace(self, X=self.xp.take(self.X, self.here(np.asarray(index, dtype=np.int64)), axis=0))

    def joined(self, others: Sequence[Design]) -> DeviceMatrix:
        return replace(self, X=self.xp.concat([self.X, *(other.X for other in others)]))  # type: ignore[attr-defined]

    def scaled(self, shift: np.ndarray[Any, Any], scale: np.ndarray[Any, Any]) -> DeviceMatrix:
        """Return the columns ``(x - shift) / scale``, without a copy."""
        m, s = self.here(np.asarray(shift, dtype=np.float64)), self.here(np.asarray(scale, dtype=np.float64))
        if self.shift is None or self.scale is None:
            return DeviceMatrix(self.X, m, s)
        return DeviceMatrix(self.X, self.shift + self.scale * m, self.scale * s)

    # ---- what one look at the columns tells, on the host ----

    @property
    def leverage(self) -> Array:
        moments = self.moments(None)
        return self.spread(moments.mean, reciprocal(moments.M2))

    def moments(self, weight: Array | None) -> Moments:
        xp, (n, d) = self.xp, self.shape
        weight = xp.ones(n, dtype=xp.float64, device=self.X.device) if weight is None else weight
        light, c = (weight == 0)[:, None], weight[:, None]
        total = max(float(xp.sum(weight)), 1e-300)
        low, high, finite = np.full(d, np.inf), np.full(d, -np.inf), np.full(d, True)
        with np.errstate(over="ignore", invalid="ignore"):  # of namespaces that compute by NumPy
            mean = self._sum(xp.sum(A * c[rows, :], axis=0) for rows, A in self._units()) / total
            M2 = self._sum(xp.sum((A - mean) ** 2 * c[rows, :], axis=0) for rows, A in self._units())
            for rows, A in self._units():
                if A.shape[0] == 0:
                    continue
                zero = xp.zeros_like(A)
                low = np.minimum(low, to_host(xp.min(xp.where(light[rows, :], zero + xp.inf, A), axis=0)))
                high = np.maximum(high, to_host(xp.max(xp.where(light[rows, :], zero - xp.inf, A), axis=0)))
                finite &= to_host(xp.all(xp.isfinite(A), axis=0))
        return Moments(to_host(mean), to_host(M2), low, high, finite)

    def spread(self, mean: Array, factor: Array) -> Array:
        m, f = self.here(mean), self.here(factor)
        parts = [self.xp.sum((A - m) ** 2 * f, axis=1) for _, A in self._units()]
        return parts[0] if len(parts) == 1 else self.xp.concat(parts)

    # ---- blocks of rows ----

    def _sum(self, parts: Iterator[Array]) -> Array:
        total = next(parts)
        for part in parts:
            total = total + part
        return total

    def _slices(self) -> Iterator[slice]:
        n, d = self.shape
        step = max(1, _BYTES // (8 * max(d, 1)))
        yield from (slice(first, min(first + step, n)) for first in range(0, max(n, 1), step))

    def _stored(self) -> Iterator[tuple[slice, Array]]:
        """Yield the entries as they are stored, in float64: all at once if they are."""
        if self.X.dtype == self.xp.float64:
            yield slice(None), self.X
            return
        for rows in self._slices():
            yield rows, self.xp.astype(self.X[rows, :], self.xp.float64)

    def _units(self) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of rows in the units of this view, in float64."""
        for rows in self._slices():
            yield rows, self._block(rows)

    def _block(self, rows: slice) -> Array:
        A = self.xp.astype(self.X[rows, :], self.xp.float64, copy=False)
        if self.shift is not None:
            A = A - self.shift
        return A if self.scale is None else A / self.scale


class _ByOutput:
    """Coordinates on the device, sorted by output, so that those of one output are neighbours."""

    def __init__(self, design: DeviceMatrix, at: Coordinates, q: int) -> None:
        order = np.argsort(at[1], kind="stable")
        columns, outputs = at[0][order], at[1][order]
        edges = np.searchsorted(outputs, np.arange(q + 1))
        self.spans = [slice(int(edges[k]), int(edges[k + 1])) for k in range(q)]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        self.size = len(order)
        # Where each coordinate went; None if all stayed, which those of solvers do.
        self._original = None if (back[1:] > back[:-1]).all() else design.here(back)
        self._outputs = design.here(outputs)
        real = columns < design.shape[1]
        self._ones = None if real.all() else design.here(~real)
        self._columns = design.here(np.where(real, columns, 0))
        self._design = design

    def columns_of(self, rows: slice) -> Array:
        """Return one column for each coordinate."""
        xp, X = self._design.xp, self._design.X
        if X.shape[1] == 0:
            return xp.ones((X[rows, :].shape[0], self.size), dtype=xp.float64, device=X.device)
        A = replace(self._design, X=X[rows, :]).taken(self._columns).matrix
        A = xp.astype(A, xp.float64, copy=False)
        return A if self._ones is None else xp.where(self._ones, xp.ones_like(A), A)

    def times(self, A: Array, factor: Array) -> Array:
        """Return all coordinates, each multiplied by the factor (n, q) of its output."""
        return A * self._design.xp.take(factor, self._outputs, axis=1)

    def restored(self, H: Array, axis: int) -> Array:
        """Return a matrix with the coordinates along an axis in their own order again."""
        return H if self._original is None else self._design.xp.take(H, self._original, axis=axis)
