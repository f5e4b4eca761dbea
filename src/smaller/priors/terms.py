"""What solvers are told of a penalty that ties weights together, or keeps them within limits."""

from __future__ import annotations

from dataclasses import dataclass

from smaller.arrays import Array

__all__ = ["Terms"]


@dataclass(frozen=True)
class Terms:
    """``sum_b norm_b ||w_b|| + sum slope |w| + ridge w^2 / 2`` for ``lower <= w <= upper``.

    The weights of a block stand side by side; limits go with blocks of one weight.
    """

    first: Array  # (blocks + 1,) int64, where each block begins
    norm: Array  # (blocks,)
    slope: Array  # (m,)
    ridge: Array  # (m,)
    lower: Array  # (m,)
    upper: Array  # (m,)
