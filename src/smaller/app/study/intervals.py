"""Intervals of shares and means when rows are not independent draws.

A unit (a patient, a set of copies) is one draw, and repeats of cross-validation spread; both shrink the number of rows
that the interval may count.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from smaller.arrays import Array

__all__ = ["LEVEL", "binomial_interval", "mean_interval", "share_interval"]

LEVEL = 0.95


def binomial_interval(k: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) interval of a share; ``k`` and ``n`` need not be whole numbers."""
    tail = (1.0 - level) / 2.0
    low = 0.0 if k <= 0 else float(stats.beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k >= n else float(stats.beta.ppf(1.0 - tail, k + 1, n - k))
    return low, high


def share_interval(hits: Array, groups: Array | None = None) -> tuple[float, float]:
    """Return the interval of a share.

    The exact interval at the effective number of rows (Korn and Graubard 1998): the rows divided by the design effect
    of the groups, corrected for their few degrees of freedom. The variance between repeats is added, and the interval
    is widened to hold every repeat's share. Where all rows agree the groups themselves are counted, once each.

    Parameters
    ----------
    hits : ndarray of shape (repeats, n)
        Ones and zeros.
    groups : ndarray of shape (n,), optional
        Which rows are one draw.
    """
    n, shares = hits.shape[1], hits.mean(axis=1)
    share = float(shares.mean())
    effective = float(n)
    if groups is not None:
        size = len(np.unique(groups))
        if 0.0 < share < 1.0:
            variance = _clustered_variance(hits.mean(axis=0), groups)
            few = stats.t.ppf(0.5 + LEVEL / 2, n - 1) / stats.t.ppf(0.5 + LEVEL / 2, size - 1)
            effective = min(float(n), share * (1.0 - share) / max(variance, 1e-300) * few**2)
        else:
            effective = float(size)
    if len(shares) > 1 and 0.0 < share < 1.0:
        effective = share * (1.0 - share) / (share * (1.0 - share) / effective + shares.var(ddof=1))
    low, high = binomial_interval(share * effective, effective)
    return min(low, float(shares.min())), max(high, float(shares.max()))


def mean_interval(values: Array, groups: Array | None = None, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a mean by its t statistic; of groups, by their sums (cluster-robust).

    Parameters
    ----------
    values : ndarray of shape (repeats, n)
        One value a row and repeat.
    groups, level
        As in `share_interval`.
    """
    n, means = values.shape[1], values.mean(axis=1)
    rows = values.mean(axis=0)
    size = n if groups is None else len(np.unique(groups))
    if size < 2:
        return -np.inf, np.inf
    variance = rows.var(ddof=1) / n if groups is None else _clustered_variance(rows, groups)
    if len(means) > 1:
        variance += means.var(ddof=1)
    half = stats.t.ppf(0.5 + level / 2, size - 1) * np.sqrt(variance)
    return float(means.mean() - half), float(means.mean() + half)


def _clustered_variance(values: Array, groups: Array) -> float:
    """Return the variance of the mean when whole groups are drawn (ratio estimator)."""
    codes = np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(codes, weights=values - values.mean())
    G = len(sums)
    return float(G / max(G - 1, 1) * (sums**2).sum() / len(values) ** 2)
