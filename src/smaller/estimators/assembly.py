"""A problem in the solver's units, and the way back to the user's.

Solvers want columns of ordinary size whose rows differ by more than rounding. What the user has may be a date in
seconds, or a concentration in mol/l: columns are shifted (beside a free intercept, which makes up for it) and scaled by
powers of two (which multiply without rounding), and features that cannot have a weight do not enter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.likelihoods import Likelihood
from smaller.problem import Problem
from smaller.validation import column_ranges, powers_of_two

__all__ = ["Assembly", "Features", "Units", "basis_is_linear", "entering", "survey"]

_FAR = 2e3  # times half its range: a column whose middle lies farther from zero is shifted


@dataclass(frozen=True)
class Features:
    """Which features enter a problem, and in which units."""

    kept: Array  # (d,) bool
    scales: Array  # (d,) powers of two
    shifts: Array  # (d,) subtracted before scaling; zero unless the intercept is free

    @property
    def moved(self) -> bool:
        """Whether any column is shifted."""
        return bool(self.shifts.any())

    def columns(self, X: Any) -> Any:
        """Return the columns that enter, in the solver's units."""
        X = X[:, self.kept]
        scales = self.scales[self.kept].astype(X.dtype)  # float32 has no extreme columns: its scales are all 1
        shifts = self.shifts[self.kept].astype(X.dtype)
        if not sparse.issparse(X):
            return np.asfortranarray((X - shifts) * scales)
        X = X.tocsc()
        stored = np.diff(X.indptr)
        X.data = (X.data - np.repeat(shifts, stored)) * np.repeat(scales, stored)
        return X

    def to_user(self, w: Array, b: Array) -> tuple[Array, Array]:
        """Return the weights of all features, and intercepts that undo the shifts."""
        with np.errstate(over="ignore"):
            scaled = w * self.scales[self.kept, None]
        if not np.isfinite(scaled).all():
            j = int(np.flatnonzero(self.kept)[~np.isfinite(scaled).all(axis=1)][0])
            raise ValueError(
                f"X has columns so small that their weights overflow (column {j}): multiply them by a constant, so "
                "that their entries are nearer to 1."
            )
        full = np.zeros((len(self.kept), w.shape[1]))
        full[self.kept] = scaled
        return full, b - self.shifts @ full

    def from_user(self, w: Array, b: Array) -> tuple[Array, Array]:
        """Return the weights and intercepts of the columns that enter."""
        return w[self.kept] / self.scales[self.kept, None], b + self.shifts @ w


class Units:
    """The way between the solver's units and the user's; a penalised intercept is a column of ones at the end."""

    def __init__(
        self, likelihood: Likelihood, n_columns: int, features: Features | None, penalized_intercept: bool = False
    ) -> None:
        self.likelihood, self._n_columns = likelihood, n_columns
        self._features, self._penalized_intercept = features, penalized_intercept

    @property
    def plain(self) -> bool:
        """Whether the solver's units are the user's."""
        return self._features is None and not self._penalized_intercept

    @property
    def n_features(self) -> int:
        """Number of the user's columns."""
        if self._features is not None:
            return len(self._features.kept)
        return self._n_columns - self._penalized_intercept

    def to_user(self, w: Array, b: Array) -> tuple[Array, Array]:
        """Return weights and intercepts in the user's units; several models may stand side by side."""
        if self._penalized_intercept:
            w, b = w[:-1], w[-1]
        if self._features is None:
            return w, b
        w, b = self._features.to_user(w, b)
        if self._features.moved and self.likelihood.shift_invariant:
            each = b.reshape(-1, self.likelihood.n_outputs)
            b = (each - each.mean(axis=1, keepdims=True)).reshape(b.shape)
        return w, b

    def from_user(self, w: Array, b: Array) -> tuple[Array, Array]:
        """Return weights and intercepts in the solver's units."""
        if self._features is not None:
            w, b = self._features.from_user(w, b)
        return (np.vstack([w, b]), 0.0 * b) if self._penalized_intercept else (w, b)

    def origin(self) -> tuple[Array, Array, Array]:
        """Return for every column of the problem the user's column behind it, -1 for ones, its scale and its shift."""
        features = self._features
        names = np.arange(self.n_features) if features is None else np.flatnonzero(features.kept)
        scales = np.ones(len(names)) if features is None else features.scales[names]
        shifts = np.zeros(len(names)) if features is None else features.shifts[names]
        ones = [0] * self._penalized_intercept
        return (
            np.append(names, np.array(ones, dtype=np.int64) - 1),
            np.append(scales, np.array(ones) + 1.0),
            np.append(shifts, np.array(ones) + 0.0),
        )


class Assembly(Units):
    """A problem in the solver's units, and the way back."""

    def __init__(self, problem: Problem, features: Features | None, penalized_intercept: bool = False) -> None:
        super().__init__(problem.likelihood, problem.n_columns, features, penalized_intercept)
        self.problem = problem


def basis_is_linear(basis: Basis) -> bool:
    """Whether the design holds the features themselves."""
    return not hasattr(basis, "kernel")


def survey(X: Any, weight: Array | None, ridge: Array, free_intercept: bool) -> Features | None:
    """Look at all columns once; None (the usual case) means that X can be used as it is.

    Beside a free intercept a constant feature has weight zero. So, as far as float64 can tell, has an extremely small
    one under an ordinary ridge: in the solver's units its gradient is at most the total weight, its ridge immense.
    """
    total = X.shape[0] if weight is None else weight.sum()
    stored = partial(_fully_stored, X)
    return entering(*column_ranges(X, weight), X.dtype, total, ridge, free_intercept, stored)


def entering(
    low: Array,
    high: Array,
    dtype: Any,
    total: float,
    ridge: Array,
    free_intercept: bool,
    may_shift: Callable[[], Any] = lambda: True,
) -> Features | None:
    """Return which features enter, from the ranges of their columns and the sum of all weights; see `survey`."""
    kept, shifts = np.full(len(low), True), np.zeros(len(low))
    if free_intercept:
        kept = low < high
        shifts = _middles(low, high, dtype) * kept
        if shifts.any():
            shifts *= may_shift()
    with np.errstate(over="ignore"):
        scales = powers_of_two(np.maximum(np.abs(low - shifts), np.abs(high - shifts)))
    if scales is None:
        return None if kept.all() and not shifts.any() else Features(kept, np.ones(len(low)), shifts)
    with np.errstate(over="ignore"):
        immense = ((ridge * scales[:, None] * scales[:, None]) >= 1e100 * total)[:, 0]
    return Features(kept & ~immense, scales, shifts)


def _middles(low: Array, high: Array, dtype: Any) -> Array:
    """Return the middle (d,) of columns that lie far from zero, as a number of their own type; 0 of the others."""
    middle = (0.5 * low + 0.5 * high).astype(dtype).astype(np.float64)
    with np.errstate(over="ignore"):
        far = np.abs(middle) > _FAR * (0.5 * high - 0.5 * low)
    return np.where(far, middle, 0.0)


def _fully_stored(X: Any) -> Any:
    """Tell which columns (d,) have every entry stored: the others hold zeros, which a shift would fill in."""
    return np.diff(X.tocsc().indptr) == X.shape[0] if sparse.issparse(X) else True
