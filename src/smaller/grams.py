"""Hessians of a sum over rows, block of rows by block of rows.

Coordinates are pairs (column, output); the Hessian between (j, k) and (l, r) is ``sum_i x_ij x_il H_i[k, r]``, where a
row's own Hessian is ``H_i = diag(d_i) - u_i u_i'``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from smaller.arrays import Array

__all__ = ["BLOCK_BYTES", "Coordinates", "RowCurvature", "accumulate_gram", "blocks"]

BLOCK_BYTES = 1 << 24  # size of temporary blocks: large enough for BLAS, small enough for the memory
Coordinates = tuple[Array, Array]  # columns (m,) and outputs (m,)


class RowCurvature(Protocol):
    """Per-row Hessians ``diag(d_i) - u_i u_i'`` as likelihoods make them."""

    @property
    def d(self) -> Array:
        """(n, q)."""

    @property
    def u(self) -> Array | None:
        """(n, q), or None."""


def blocks(count: int, bytes_each: int) -> Iterator[slice]:
    """Split ``count`` things of ``bytes_each`` into runs that fit into a temporary block."""
    step = max(1, BLOCK_BYTES // max(bytes_each, 1))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


class _ByOutput:
    """Coordinates sorted by output, so that those of one output are neighbours."""

    def __init__(self, at: Coordinates, q: int) -> None:
        order = np.argsort(at[1], kind="stable")
        self.columns = at[0][order]
        first = np.searchsorted(at[1][order], np.arange(q + 1))
        self.spans = [slice(first[k], first[k + 1]) for k in range(q)]
        self.original = np.empty_like(order)  # where each coordinate went
        self.original[order] = np.arange(len(order))


def accumulate_gram(
    columns_of: Callable[[slice, Array], Array],
    n: int,
    curvature: RowCurvature,
    left: Coordinates,
    right: Coordinates | None,
) -> Array:
    """Accumulate a block of the Hessian over blocks of rows: two BLAS-3 products a block, whatever q.

    ``columns_of(rows, columns)`` returns one column per coordinate for a block of rows, to be changed at will.
    """
    q = curvature.d.shape[1]
    near = _ByOutput(left, q)
    far = near if right is None else _ByOutput(right, q)
    H = np.zeros((len(near.columns), len(far.columns)))
    for rows in blocks(n, 8 * sum(H.shape)):
        A = columns_of(rows, near.columns)
        B = A if right is None else columns_of(rows, far.columns)
        for k, (mine, theirs) in enumerate(zip(near.spans, far.spans, strict=True)):
            root = np.sqrt(curvature.d[rows, k])[:, None]
            part = A[:, mine] * root
            # NumPy recognises part.T @ part and does half the work.
            H[mine, theirs] += part.T @ (part if right is None else B[:, theirs] * root)
            if curvature.u is not None:
                u = curvature.u[rows, k, None]
                A[:, mine] *= u
                if right is not None:
                    B[:, theirs] *= u
        if curvature.u is not None:
            H -= A.T @ B
    return H[np.ix_(near.original, far.original)]
