"""Random linear rules: how often they err, exactly, by Monte Carlo, or under a Gaussian approximation.

A weight vector is drawn from independent Laplace densities around `center` with rates `eta`, and a row x
is given to the positive class if x'w > 0 (ties go to the negative class, as in `predict`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import ndtr

from .divergence import Floats, binary_kl_inverse

__all__ = ["error_probabilities", "gaussian_probabilities", "monte_carlo_risk", "positive_probabilities"]

REACH = 12.0  # scores further than this many standard deviations from zero are as good as certain
_ELEMENTS = 1 << 16  # of a block: small enough for the second-level cache


def _tail(reach: float) -> float:
    """Chernoff bound on P(S > reach) for any sum S of independent Laplace variables with variance 1.

    prod 1/(1 - a_j s^2) <= 1/(1 - s^2/2) because the a_j add up to 1/2: one variable has the heaviest tail.
    """
    u = (np.sqrt(1.0 + 2.0 * reach**2) - 1.0) / (np.sqrt(2.0) * reach)
    return float(np.exp(-np.sqrt(2.0) * reach * u) / (1.0 - u**2))


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy.sparse matrix or array."""
    return bool(issparse(X))


def dense_rows(X: Any, rows: slice | NDArray[np.intp], n_weights: int) -> Floats:
    """Rows of a dense or sparse matrix as float64; a column of ones is added if there is a weight for it."""
    block = X[rows]
    block = np.asarray(block.toarray() if is_sparse(block) else block, dtype=float)
    if block.shape[1] == n_weights:
        return block
    return np.hstack([block, np.ones((block.shape[0], 1))])


def _block_rows(n_weights: int) -> int:
    return max(16, _ELEMENTS // n_weights)


def row_blocks(X: Any, n_weights: int) -> Iterator[tuple[slice, Floats]]:
    """All rows, as `dense_rows`, in blocks that fit the cache."""
    size = _block_rows(n_weights)
    for start in range(0, X.shape[0], size):
        rows = slice(start, min(start + size, X.shape[0]))
        yield rows, dense_rows(X, rows, n_weights)


def laplace_sum_cdf(z: Floats, shares: Floats, tol: float) -> tuple[Floats, Floats]:
    r"""P(S_i < z_i) for sums of independent Laplace variables with unit variance, with an error bound.

    .. math:: P(S < z) = \frac12 + \sum_{k \ge 0} \frac{\sin(t_k z)}{\pi (k + 1/2)} \prod_j
              \frac{1}{1 + a_j t_k^2}, \qquad t_k = (k + 1/2)\,\pi / \mathrm{REACH}

    Gil-Pelaez inversion by the midpoint rule (Davies 1973). The rule's own error is a tail probability
    beyond REACH. What is cut off after K terms is at most phi(t)/(pi p), t = K pi/REACH, where p is the
    rate at which phi decays there on a log-log scale, because it decays ever faster further out.

    Parameters
    ----------
    z : ndarray of shape (n,)
        Points.
    shares : ndarray of shape (d, n)
        Half of the share of each variable in the variance of the sum: columns add up to 1/2.
    tol : float
        Terms are added, up to 2048, until the cut-off part is below this.
    """
    z = np.clip(z, -REACH, REACH)
    cdf = np.full(z.shape, 0.5)
    error = np.zeros(z.shape)
    rows, start, stop = np.arange(z.size), 0, 16
    while rows.size:
        with np.errstate(over="ignore"):  # an infinite product is a vanished characteristic function
            for k in range(start, stop):
                t = (k + 0.5) * np.pi / REACH
                cdf[rows] += np.sin(t * z[rows]) / (np.pi * (k + 0.5) * _inverse_phi(shares, t))
            t = stop * np.pi / REACH
            decay = np.sum(2.0 - 2.0 / (1.0 + t * t * shares), axis=0)
            error[rows] = 1.0 / (np.pi * decay * _inverse_phi(shares, t))
        open_ = error[rows] > tol if stop < 2048 else np.zeros(rows.size, dtype=bool)
        rows, shares = rows[open_], shares[:, open_]
        start, stop = stop, 2 * stop
    return np.clip(cdf, 0.0, 1.0), error + 2.0 * _tail(REACH)


def _inverse_phi(shares: Floats, t: float) -> Floats:
    factors = shares * (t * t)
    factors += 1.0
    return np.asarray(np.multiply.reduce(factors, axis=0))


def positive_probabilities(X: Any, center: Floats, eta: Floats, tol: float = 1e-4) -> tuple[Floats, Floats]:
    """P(x'w > 0) for every row, and how far each value may be off.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Rows.
    center, eta : ndarray of shape (d,)
        Centre and rates of the Laplace densities of the weights.
    tol : float
        Error aimed at in every row.

    Returns
    -------
    probability, error : ndarray of shape (n,)
        The true probability lies within `error` of `probability`.
    """
    probability, error = np.empty(X.shape[0]), np.zeros(X.shape[0])
    for rows, block in row_blocks(X, center.size):
        score = block @ center
        variances = np.ascontiguousarray((block / eta).T) ** 2
        total = variances.sum(axis=0)
        spread = total > 0.0
        p = (score > 0.0).astype(float)  # a row of zeros has the same score, 0, under every draw
        e = np.zeros_like(p)
        shares = 0.5 * variances[:, spread] / total[spread]
        p[spread], e[spread] = laplace_sum_cdf(score[spread] / np.sqrt(2.0 * total[spread]), shares, tol)
        probability[rows], error[rows] = p, e
    return probability, error


def gaussian_probabilities(X: Any, center: Floats, eta: Floats) -> Floats:
    """P(x'w > 0) as if x'w were Gaussian: quick, but no certificate, least of all if few columns dominate."""
    probability = np.empty(X.shape[0])
    for rows, block in row_blocks(X, center.size):
        score, deviation = block @ center, np.sqrt(2.0 * (block * block) @ eta**-2.0)
        spread = deviation > 0.0
        p = (score > 0.0).astype(float)
        p[spread] = ndtr(score[spread] / deviation[spread])
        probability[rows] = p
    return probability


def error_probabilities(probability: Floats, positive: NDArray[np.bool_]) -> Floats:
    """P(the random rule errs) from P(it says positive) and the truth."""
    return np.where(positive, 1.0 - probability, probability)


def monte_carlo_risk(
    X: Any,
    positive: NDArray[np.bool_],
    center: Floats,
    eta: Floats,
    *,
    n_draws: int,
    delta: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    r"""Frequency of errors in independent draws of (row, weights), and its upper confidence limit.

    .. math:: R \le \sup\{p : \mathrm{kl}(\hat R\|p) \le \ln(1/\delta) / m\}

    Rows are drawn too, so the cost depends on the number of draws m, not on the size of the sample.
    """
    errors = 0
    size = _block_rows(center.size)
    for start in range(0, n_draws, size):
        rows = np.sort(rng.integers(X.shape[0], size=min(size, n_draws - start)))
        block = dense_rows(X, rows, center.size)
        w = center + rng.laplace(size=block.shape) / eta
        errors += int(np.count_nonzero((np.einsum("ij,ij->i", block, w) > 0.0) != positive[rows]))
    frequency = errors / n_draws
    return frequency, float(binary_kl_inverse(frequency, np.log(1.0 / delta) / n_draws))
