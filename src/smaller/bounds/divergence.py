"""Divergences of the bounds: between Laplace densities, and between coins, with its inverse."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

Floats = NDArray[np.float64]

__all__ = ["binary_kl", "binary_kl_inverse", "divergence_ceiling", "laplace_divergence", "optimal_eta"]


def laplace_divergence(w: ArrayLike, lam: ArrayLike, eta: ArrayLike | None = None) -> float:
    r"""Divergence of Laplace densities around `w` from the Laplace prior around zero.

    .. math::

        D(q\|p) = \sum_j \ln\frac{\eta_j}{\lambda_j} - 1
                  + \frac{\lambda_j}{\eta_j} e^{-\eta_j |w_j|} + \lambda_j |w_j|

    Parameters
    ----------
    w : array-like of shape (d,)
        Centre of `q`.
    lam : float or array-like of shape (d,)
        Rates of the prior `p`, positive.
    eta : float or array-like of shape (d,), optional
        Rates of `q`, positive. By default those with the smallest divergence, see `optimal_eta`.

    Returns
    -------
    float
        The divergence in nats, never negative.

    See Also
    --------
    optimal_eta : The rates for which it is smallest.
    divergence_ceiling : A bound that is worked out by hand.

    Examples
    --------
    >>> laplace_divergence([0.0, 0.0], 2.0)
    0.0
    >>> round(laplace_divergence([1.0, -0.5], 2.0, eta=2.0), 6)
    1.503215
    """
    w, lam = np.broadcast_arrays(np.abs(_finite(w, "w")), _positive(lam, "lam"))
    eta = optimal_eta(w, lam) if eta is None else _positive(eta, "eta")
    ratio = lam / eta
    u = eta * w
    # (23), regrouped into two sums of non-negative terms: nothing cancels at eta = lam or w = 0.
    return float(np.sum(ratio - 1.0 - np.log(ratio)) + np.sum(ratio * (np.expm1(-u) + u)))


def optimal_eta(w: ArrayLike, lam: ArrayLike) -> Floats:
    r"""Rates of the Laplace density around `w` that is nearest to the prior.

    .. math:: \frac{u e^u}{1 + u} = \lambda |w|, \qquad u = \eta |w|, \qquad \eta = \lambda \text{ at } w = 0

    Parameters
    ----------
    w : array-like of shape (d,)
        Centre.
    lam : float or array-like of shape (d,)
        Rates of the prior.

    Returns
    -------
    ndarray of shape (d,)
        The unique minimiser of (24); never above `lam`.

    See Also
    --------
    laplace_divergence : What is minimised.

    Examples
    --------
    >>> optimal_eta([0.0, 1.0], 2.0).round(6).tolist()
    [2.0, 1.272904]
    """
    w, lam = np.broadcast_arrays(np.abs(_finite(w, "w")), _positive(lam, "lam"))
    eta = np.array(lam, dtype=float)
    moved = lam * w > 1e-12
    c = lam[moved] * w[moved]
    # In v = ln u the equation is increasing and convex, so Newton's method cannot leave the root again.
    v = np.log(np.where(c < 1.0, c, np.log1p(c)))
    for _ in range(60):
        u = np.exp(v)
        step = (u - np.log1p(u) + v - np.log(c)) / (u + 1.0 / (1.0 + u))
        v -= step
        if np.all(np.abs(step) <= 1e-15 * (1.0 + np.abs(v))):
            break
    eta[moved] = np.minimum(np.exp(v) / w[moved], lam[moved])
    return eta


def divergence_ceiling(w: ArrayLike, lam: ArrayLike) -> float:
    r"""Largest value the smallest divergence can take, on the back of an envelope.

    .. math:: \min_\eta D(q\|p) \le \sum_j \lambda_j |w_j|

    with equality only at `w = 0`.

    See Also
    --------
    laplace_divergence : The divergence itself.

    Examples
    --------
    >>> divergence_ceiling([1.0, -0.5], 2.0)
    3.0
    """
    return float(np.sum(_positive(lam, "lam") * np.abs(_finite(w, "w"))))


def binary_kl(q: ArrayLike, p: ArrayLike) -> Floats:
    r"""Divergence of a coin with bias `q` from a coin with bias `p`.

    .. math:: \mathrm{kl}(q\|p) = q \ln\frac{q}{p} + (1-q) \ln\frac{1-q}{1-p}

    with :math:`0 \ln 0 = 0`; infinite where `p` excludes what `q` allows.

    See Also
    --------
    binary_kl_inverse : The largest risk within a divergence.

    Examples
    --------
    >>> round(float(binary_kl(0.1, 0.3)), 6)
    0.116322
    """
    q, p = np.asarray(q, dtype=float), np.asarray(p, dtype=float)
    return np.asarray(rel_entr(q, p) + rel_entr(1.0 - q, 1.0 - p))


def binary_kl_inverse(q: ArrayLike, c: ArrayLike) -> Floats:
    r"""Largest bias that an observed frequency `q` leaves possible.

    .. math:: \sup\{p \ge q : \mathrm{kl}(q\|p) \le c\}

    Parameters
    ----------
    q : array-like
        Observed frequencies; clipped to [0, 1].
    c : array-like
        Non-negative allowances, in nats.

    Returns
    -------
    ndarray
        The upper end of the last bracket of a bisection, so rounding never makes the answer too small.

    See Also
    --------
    binary_kl : The divergence.
    pac_bayes_bound : Uses it.

    Examples
    --------
    >>> round(float(binary_kl_inverse(0.0, 0.1)), 6)  # 1 - exp(-c)
    0.095163
    """
    q, c = np.broadcast_arrays(np.clip(np.asarray(q, dtype=float), 0.0, 1.0), np.asarray(c, dtype=float))
    if np.any(~(c >= 0.0)):
        raise ValueError("c must be non-negative: it is the allowed divergence.")
    low, high = np.array(q), np.ones_like(q)
    for _ in range(60):
        middle = 0.5 * (low + high)
        possible = binary_kl(q, middle) <= c
        low = np.where(possible, middle, low)
        high = np.where(possible, high, middle)
    return high


def _finite(values: ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=float)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite.")
    return array


def _positive(values: ArrayLike, name: str) -> Floats:
    array = _finite(values, name)
    if not np.all(array > 0.0):
        raise ValueError(f"{name} must be positive: a Laplace density needs a rate above zero.")
    return array
