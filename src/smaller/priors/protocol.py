"""The contract of a prior, and what several of them need."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from smaller.arrays import Array, array_namespace
from smaller.priors.terms import Terms

__all__ = ["Prior", "inverse_magnitude"]


class Prior(Protocol):
    """Contract of a prior; methods see whole arrays."""

    @property
    def separable(self) -> bool:
        """Whether the penalty is a sum over single weights."""

    @property
    def limited(self) -> bool:
        """Whether weights have limits, of which `linearise` says nothing."""

    def penalty(self, w: Array) -> float:
        """Return ``-log p(w)`` up to a constant."""

    def linearise(self, w: Array, form: str) -> tuple[Array, Array]:
        """Return (slope, ridge), each (d, q), of the majoriser at ``w``; ``form`` "l1" or "l2" says which to use."""

    def shrink(self, a: Array, step: Array | float) -> Array:
        """Return the minimiser of ``(w - a)^2 / (2 step) + penalty(w)``."""

    def violation(self, w: Array, G: Array) -> Array:
        """Return how far each weight is from stationarity (d, q), in units of the gradient."""

    def conjugate(self, G: Array) -> float:
        """Return the penalty's conjugate at ``-G`` (finite for feasible ``G``)."""

    def feasible(self, G: Array) -> float:
        """Return the largest s in [0, 1] such that ``s G`` lies where the conjugate is finite."""

    def critical(self, G: Array) -> float:
        """Return the factor of the penalty from which on zero weights, with gradient ``G``, are stationary."""

    def center(self, w: Array) -> Array:
        """Return the canonical one among weights that differ by a shift common to all outputs of a column."""

    def times(self, alpha: float) -> Prior:
        """Return the prior with the penalty multiplied by ``alpha``."""

    def take(self, columns: Array) -> Prior:
        """Return the prior of some columns."""

    def change(self, old: Array, new: Array) -> float:
        """Return by how much the penalty rises from one to the other, in small steps too."""

    def groups(self, n_columns: int) -> Array:
        """Return for every column a number that all columns share whose weights the penalty ties together."""

    def terms(self, shape: tuple[int, int]) -> Terms:
        """Return the penalty of weights (d, q) written out, row after row; columns must be sorted by group."""

    def free(self, n_columns: int) -> np.ndarray[Any, Any]:
        """Return the indices of the columns, out of ``n_columns``, without any penalty."""


def inverse_magnitude(w: Array) -> Array:
    """Return ``1 / |w|``, infinite at zero, without a warning."""
    xp = array_namespace(w)
    zero = w == 0
    return xp.where(zero, xp.inf + 0.0 * w, 1.0 / xp.where(zero, 1.0 + 0.0 * w, xp.abs(w)))
