"""What a kernel offers."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from smaller.arrays import Array

__all__ = ["Kernel"]


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
