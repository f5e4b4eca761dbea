"""Columns in other units, without a copy: ``(x_j - shift_j) / scale_j``. Sparse data stay sparse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array
from smaller.designs import Design, Moments
from smaller.grams import Coordinates, RowCurvature

__all__ = ["Scaled"]


@dataclass(frozen=True)
class Scaled:
    """A design seen through a shift and a scale (d,) of its columns."""

    inner: Design
    shift: Array
    scale: Array  # > 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def dtype(self) -> Any:
        return self.inner.dtype

    @property
    def matrix(self) -> Array:
        """All columns, copied."""
        inner = self.inner.matrix
        return ((inner.toarray() if sparse.issparse(inner) else inner) - self.shift) / self.scale

    def forward(self, w: Array) -> Array:
        unscaled = w / self.scale[:, None]
        return np.asfortranarray(self.inner.forward(unscaled) - self.shift @ unscaled)

    def adjoint(self, R: Array) -> Array:
        return (self.inner.adjoint(R) - np.outer(self.shift, R.sum(axis=0))) / self.scale[:, None]

    def take(self, columns: Array) -> Scaled:
        return Scaled(self.inner.take(columns), self.shift[columns], self.scale[columns])

    def rows(self, index: Array) -> Scaled:
        return Scaled(self.inner.rows(index), self.shift, self.scale)

    def joined(self, others: Sequence[Design]) -> Scaled:
        inner = [other.inner for other in others]  # type: ignore[attr-defined]
        return Scaled(self.inner.joined(inner), self.shift, self.scale)

    @property
    def leverage(self) -> Array:
        return self.inner.leverage  # shares of variances have no units

    def moments(self, weight: Array | None) -> Moments:
        inner = self.inner.moments(weight)
        mean, low, high = ((part - self.shift) / self.scale for part in (inner.mean, inner.low, inner.high))
        return Moments(mean, inner.M2 / self.scale / self.scale, low, high, inner.finite)  # scale^2 may overflow

    def spread(self, mean: Array, factor: Array) -> Array:
        return self.inner.spread(mean * self.scale + self.shift, factor / self.scale / self.scale)

    def squares(self, h: Array) -> Array:
        # sum h (x - m)^2 = sum h x^2 - 2 m sum h x + m^2 sum h
        cross, m = self.inner.adjoint(h), self.shift[:, None]
        total = self.inner.squares(h) - 2.0 * m * cross + m**2 * h.sum(axis=0)
        return np.maximum(total, 0.0) / self.scale[:, None] ** 2

    def gram(self, curvature: RowCurvature, left: Coordinates, right: Coordinates | None = None) -> Array:
        q = curvature.d.shape[1]
        (near, combine_rows), (far, combine_columns) = (self._with_ones(side, q) for side in (left, right or left))
        H = self.inner.gram(curvature, near, None if right is None else far)
        return combine_rows(combine_columns(H.T).T)

    def _with_ones(self, side: Coordinates, q: int) -> tuple[Coordinates, Callable[[Array], Array]]:
        """Return the coordinates with the ones of every output behind them, and how rows of H are to be combined."""
        columns, outputs = side
        d, m = self.shape[1], len(columns)
        real = columns < d
        shift = np.where(real, np.append(self.shift, 0.0)[columns], 0.0)
        scale = np.where(real, np.append(self.scale, 1.0)[columns], 1.0)
        wider = np.append(columns, np.full(q, d)), np.append(outputs, np.arange(q))

        def combine(H: Array) -> Array:
            return (H[:m] - shift[:, None] * H[m + outputs]) / scale[:, None]

        return wider, combine
