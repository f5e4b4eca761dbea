r"""How far to trust a refit: two weights, judged on rows that took no part in choosing the support.

    (a, c) = argmin over a, c >= 0   NLL(a E0 + c E1; y) + ((a - 1)^2 + c^2) / (2 tau^2),      tau = 1/2

E0 are the left-out outputs of the penalised fit, E1 those of its refit (:mod:`smaller.searches.refit`). The folds must
repeat the *whole* procedure. Evidence cannot judge the refit: it takes as given a support that the same rows chose.
"""

from __future__ import annotations

import numpy as np

from smaller.arrays import Array, log_partition

__all__ = ["blend_weights"]

_PRECISION = 4.0  # 1 / tau^2
_START = np.array([1.0, 0.0])  # the penalised fit alone
_MOST_STEPS = 100


def blend_weights(E0: Array, E1: Array, Y: Array, weight: Array | None = None) -> tuple[float, float]:
    """Return (a, c). Scores and targets are (n, K); a number added to a row of scores changes nothing.

    The sum is convex: where its minimum has a negative weight, the best point lies on one of the two edges.
    """
    scores = np.stack([E0, E1], axis=2)
    weight = np.ones(len(Y)) if weight is None else weight
    inside, _ = _minimum(scores, Y, weight, np.array([0, 1]))
    if (inside >= 0.0).all():
        return float(inside[0]), float(inside[1])
    edges = [_minimum(scores, Y, weight, np.array([k])) for k in (0, 1)]
    best = min(edges, key=lambda edge: edge[1])[0]
    return float(best[0]), float(best[1])


def _minimum(scores: Array, Y: Array, weight: Array, free: Array) -> tuple[Array, float]:
    """Minimise over some of the two weights, the other being zero; on an edge no weight becomes negative."""
    x = np.zeros(2)
    x[free] = np.where(len(free) == 2, _START[free], 0.5)
    value, g, H = _at(scores, Y, weight, x)
    for _ in range(_MOST_STEPS):
        step = np.zeros(2)
        step[free] = -np.linalg.solve(H[np.ix_(free, free)], g[free])
        if len(free) == 1:
            step = np.maximum(step, -x)
        slope = float(step @ g)
        if -slope <= 1e-12 * max(value, 1.0):
            break
        t = 1.0
        while _at(scores, Y, weight, x + t * step)[0] > value + 1e-4 * t * slope and t > 1e-10:
            t /= 2.0
        x = x + t * step
        value, g, H = _at(scores, Y, weight, x)
    return x, value


def _at(scores: Array, Y: Array, weight: Array, x: Array) -> tuple[float, Array, Array]:
    """Return the sum, its gradient and its Hessian in the two weights."""
    eta = scores @ x
    lse, P = log_partition(eta, pinned=False)
    away = x - _START
    value = float(weight @ (lse - np.sum(Y * eta, axis=1))) + 0.5 * _PRECISION * float(away @ away)
    gradient = np.einsum("i,ik,ikj->j", weight, P - Y, scores) + _PRECISION * away
    mean = np.einsum("ik,ikj->ij", P, scores)
    H = np.einsum("i,ik,ikj,ikl->jl", weight, P, scores, scores, optimize=True) - (mean * weight[:, None]).T @ mean
    return value, gradient, H + _PRECISION * np.eye(2)
