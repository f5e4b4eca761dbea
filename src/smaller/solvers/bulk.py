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

_SOLVES = 40
_LEAST, _MOST = 1e-11, 1e4  # of the added ridge, relative to the diagonal
_UP, _DOWN = 1e4, 10.0
_FLAT = 1e-3  # of the largest diagonal entry: what the ridge is for a column without any curvature
_FRACTIONS = 0.5 ** np.arange(8.0)  # of a solve, tried in one product


def minimise_in_bulk(H: Array, g: Array, slope: Array, ridge: Array, w: Array, tol: float) -> Array:
    """Return the minimiser v (m,) up to a violation of ``tol``, or a lower place on the way; all on one device."""
    xp = array_namespace(H)
    diagonal = xp.linalg.diagonal(H)
    unit = diagonal + _FLAT * xp.max(diagonal)
    v, gradient, damping = w, g + ridge * w, _LEAST
    for _ in range(_SOLVES):
        enters = (v == 0) & (xp.abs(gradient) > slope + tol)
        sign = xp.where(enters, -xp.sign(gradient), xp.sign(v))
        (support,) = xp.nonzero(sign)
        if support.shape[0] == 0 or damping > _MOST:
            break
        part = _Part(H, support, sign, v, gradient, slope, ridge)
        moved = part.solved(damping * xp.take(unit, support))
        if moved is None:
            damping *= _UP
            continue
        change, values, move = moved
        trial = _spread(sign, values)
        slid = gradient + xp.matmul(move, part.cross) + ridge * (trial - v)
        violation = xp.where(trial == 0, xp.abs(slid) - slope, xp.abs(slid + slope * xp.sign(trial)))
        fell, worst = to_host(xp.stack([change, xp.max(violation)])).tolist()
        if not fell < 0.0:
            damping *= _UP
            continue
        v, gradient = trial, slid
        if worst <= tol:
            break
        damping = max(damping / _DOWN, _LEAST)
    return v


class _Part:
    """The model in the weights that are in use, signs held."""

    def __init__(
        self, H: Array, support: Array, sign: Array, v: Array, gradient: Array, slope: Array, ridge: Array
    ) -> None:
        self._xp = xp = array_namespace(H)
        self.cross = xp.take(H, support, axis=0)
        self._sign, self._old, self._pull, self._slope, kept = (
            xp.take(one, support) for one in (sign, v, gradient, slope, ridge)
        )
        self._eye = xp.eye(support.shape[0], dtype=H.dtype, device=H.device)
        self._inner = xp.take(self.cross, support, axis=1) + self._eye * kept

    def solved(self, added: Array) -> tuple[Array, Array, Array] | None:
        """Return by how much the model falls, the weights there and their move; None if there is no minimum.

        What crosses zero stays at zero. Of several fractions of the way the lowest is taken, by one product.
        """
        xp, sign, old = self._xp, self._sign[:, None], self._old[:, None]
        step = solve_positive(self._inner + self._eye * added, -(self._pull + self._slope * self._sign))
        if step is None:
            return None
        there = old + from_host(_FRACTIONS, step)[None, :] * step[:, None]
        there = xp.where(there * sign > 0, there, xp.zeros_like(there))
        moves = there - old
        curved = xp.matmul(self._inner, moves)
        sizes = xp.abs(there) - xp.abs(old)
        change = xp.sum(moves * (self._pull[:, None] + 0.5 * curved) + self._slope[:, None] * sizes, axis=0)
        best = xp.reshape(xp.argmin(change), (1,))
        values, move = (xp.take(one, best, axis=1)[:, 0] for one in (there, moves))
        return xp.take(change, best)[0], values, move


def _spread(sign: Array, values: Array) -> Array:
    """Return an array with the values, in order, where ``sign`` is not zero."""
    xp = array_namespace(sign)
    used = sign != 0
    position = xp.clip(xp.cumulative_sum(xp.astype(used, xp.int64)) - 1, 0, None)
    return xp.where(used, xp.take(values, position), xp.zeros_like(sign))
