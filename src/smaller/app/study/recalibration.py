r"""Calibration slope and intercepts (Cox 1958): how said log-odds must be changed to fit what was seen.

    P(y = k)  \propto  exp(a_k + b log p_k),        a_0 = 0

The slope b is one where probabilities are neither too cautious (b > 1) nor too bold (b < 1); it is estimated together
with the a_k. The intercepts are the a_k at b = 1, "calibration in the large": with two classes ``a_1 > 0`` says that
class 1 comes more often than was said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, stats
from scipy.special import log_softmax

from smaller.app.study.intervals import LEVEL
from smaller.arrays import Array

__all__ = ["Recalibration", "recalibrate"]

_SMALLEST = 1e-12  # probability: its logarithm must be a number
_STEPS, _SETTLED = 100, 1e-12
_RUNAWAY = 1e3  # a slope beyond: the classes are separated, and no finite one fits best


@dataclass(frozen=True)
class Recalibration:
    """The slope and the intercepts ``a_1, a_2, ...``, with intervals."""

    slope: float
    slope_interval: tuple[float, float]
    intercepts: tuple[float, ...]
    intercept_intervals: tuple[tuple[float, float], ...]


def recalibrate(codes: Array, proba: Array, level: float = LEVEL) -> Recalibration | None:
    """Estimate slope and intercepts by maximum likelihood; None where the rows do not determine them.

    Intervals are Wald's, and take the rows as independent draws.
    """
    n, K = proba.shape
    if (np.bincount(codes, minlength=K) == 0).any():
        return None
    Z = np.zeros((n, K, K))  # of the parameters (b, a_1, ..., a_{K-1}): eta_ik = Z_ik' theta
    Z[:, :, 0] = np.log(np.maximum(proba, _SMALLEST))
    Z[:, np.arange(1, K), np.arange(1, K)] = 1.0
    together, large = _fit(Z, codes, np.arange(K)), _fit(Z, codes, np.arange(1, K))
    if together is None or large is None or abs(together[0][0]) > _RUNAWAY:
        return None
    z = stats.norm.ppf(0.5 + level / 2.0)
    (theta, error), (shifted, errors) = together, large
    ends = tuple((float(a - z * s), float(a + z * s)) for a, s in zip(shifted[1:], errors, strict=True))
    slope = float(theta[0])
    return Recalibration(slope, (slope - z * error[0], slope + z * error[0]), tuple(map(float, shifted[1:])), ends)


def _fit(Z: Array, codes: Array, free: Array) -> tuple[Array, Array] | None:
    """Return all parameters, those that are not ``free`` as said (1, 0, 0, ...), and the errors of the free ones."""
    theta = np.eye(Z.shape[2])[0]
    loss = _loss(Z, codes, theta)
    for _ in range(_STEPS):
        gradient, H = _derivatives(Z, codes, theta)
        step = np.zeros_like(theta)
        try:
            step[free] = linalg.solve(H[np.ix_(free, free)], gradient[free], assume_a="pos")
        except linalg.LinAlgError:
            return None
        t, before = 1.0, loss
        while (loss := _loss(Z, codes, theta - t * step)) > before and t > 1e-10:
            t /= 2.0
        theta = theta - t * step
        if before - loss <= _SETTLED * (1.0 + abs(loss)):
            break
    if loss < 1e-6 * len(codes):  # the classes are separated
        return None
    covariance = linalg.inv(_derivatives(Z, codes, theta)[1][np.ix_(free, free)])
    return theta, np.sqrt(np.diag(covariance))


def _loss(Z: Array, codes: Array, theta: Array) -> float:
    return -float(log_softmax(Z @ theta, axis=1)[np.arange(len(codes)), codes].sum())


def _derivatives(Z: Array, codes: Array, theta: Array) -> tuple[Array, Array]:
    P = np.exp(log_softmax(Z @ theta, axis=1))
    mean = np.einsum("nk,nkp->np", P, Z)
    gradient = (mean - Z[np.arange(len(codes)), codes]).sum(axis=0)
    return gradient, np.einsum("nk,nkp,nkq->pq", P, Z, Z, optimize=True) - mean.T @ mean
