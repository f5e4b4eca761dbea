"""A quadratic model with absolute values, minimised by whole sets of weights at a time, where the matrix is.

    g'(v - w) + (v - w)' H (v - w) / 2 + sum slope |v| + ridge v^2 / 2

All zero weights that ask for it enter at once, one factor of the Hessian finds the minimiser with signs held, and
whatever crosses zero on the way stays there. A minimum takes a few large products and factors, which is what a device
is good at; sweeps from weight to weight (`minimise_quadratic`) are what a processor is good at.

Nearly collinear columns leave the minimiser undetermined: the solve runs off along a flat direction, and nothing on the
way is lower. Then a ridge grows until something is (Levenberg's rule); it makes the next minimum a proximal one.
"""

from __future__ import annotations

import numpy as np

from smaller.arrays import Array, array_namespace, from_host, solve_positive, to_host

__all__ = ["minimise_in_bulk"]

_LEAST, _MOST = 1e-11, 1e4  # of the added ridge, relative to the diagonal
_UP, _DOWN = 1e4, 10.0
_FLAT = 1e-3  # of the largest diagonal entry: what the ridge is for a column without any curvature
_FRACTIONS = 0.5 ** np.arange(8.0)  # of a solve, tried in one product


def minimise_in_bulk(
    H: Array, g: Array, slope: Array, ridge: Array, w: Array, tol: float, solves: int = 8
) -> tuple[Array, bool]:
    """Return the minimiser v (m,), or a lower place on the way; and whether its violation is at most ``tol``."""
    xp = array_namespace(H)
    diagonal = xp.linalg.diagonal(H)
    unit, fractions = diagonal + _FLAT * xp.max(diagonal), from_host(_FRACTIONS[None, :], H)
    v, gradient, damping = w, g + ridge * w, _LEAST
    sign, size = xp.sign(v), xp.abs(gradient)
    for _ in range(solves):
        used = xp.where(v == 0, xp.where(size > slope + tol, -xp.sign(gradient), 0.0 * v), sign)
        (support,) = xp.nonzero(used)
        if support.shape[0] == 0:
            return v, True
        if damping > _MOST:
            break
        cross = xp.take(H, support, axis=0)
        inner = xp.take(cross, support, axis=1)
        parts = xp.take(xp.stack([used, v, gradient, slope, ridge, damping * unit]), support, axis=1)
        moved = _solved(inner, parts, fractions)
        if moved is None:
            damping *= _UP
            continue
        change, values, move = moved
        trial = _spread(used, values)
        slid = gradient + xp.matmul(move, cross) + ridge * (trial - v)
        turned, steep = xp.sign(trial), xp.abs(slid)
        violation = xp.where(trial == 0, steep - slope, xp.abs(slid + slope * turned))
        fell, worst = to_host(xp.stack([change, xp.max(violation)])).tolist()
        if not fell < 0.0:
            damping *= _UP
            continue
        v, gradient, sign, size = trial, slid, turned, steep
        if worst <= tol:
            return v, True
        damping = max(damping / _DOWN, _LEAST)
    return v, False


def _solved(inner: Array, parts: Array, fractions: Array) -> tuple[Array, Array, Array] | None:
    """Return by how much the model falls, the weights there and their move; None if there is no minimum.

    ``parts`` are signs, weights, gradients, slopes, ridges and added ridges (6, s) of the weights in use, signs held.
    What crosses zero stays at zero. Of several fractions of the way the lowest is taken, by one product.
    """
    xp = array_namespace(inner)
    sign, old, pull, slope, ridge, added = (parts[i, :] for i in range(6))
    curved = inner + xp.eye(sign.shape[0], dtype=inner.dtype, device=inner.device) * (ridge + added)
    push = pull + slope * sign
    step = solve_positive(curved, push)
    if step is None:
        return None
    there = old[:, None] - fractions * step[:, None]
    there = there * xp.astype(there * sign[:, None] > 0, there.dtype)
    moves = there - old[:, None]
    # No sign turns: the penalty is linear on the way. The added ridge is no part of the model.
    change = xp.sum(moves * (push[:, None] + 0.5 * (xp.matmul(curved, moves) - added[:, None] * moves)), axis=0)
    best = xp.reshape(xp.argmin(change), (1,))
    chosen = xp.take(xp.concat([there, moves, change[None, :]]), best, axis=1)[:, 0]
    size = sign.shape[0]
    return chosen[2 * size], chosen[:size], chosen[size : 2 * size]


def _spread(sign: Array, values: Array) -> Array:
    """Return an array with the values, in order, where ``sign`` is not zero."""
    xp = array_namespace(sign)
    used = xp.astype(sign != 0, xp.int64)
    position = xp.clip(xp.cumulative_sum(used) - 1, 0, None)
    return xp.take(values, position) * xp.astype(used, values.dtype)
