"""Grades: ordered classes, cut out of one output by thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from smaller.arrays import Array, array_namespace, positive_part
from smaller.likelihoods.protocol import Curvature, by_column, means, weighted

__all__ = ["Ordinal"]

_LARGEST = 700.0  # distance of two edges beyond which they know nothing of each other; exp of it is finite
_LEAST = 1e-300


@dataclass(frozen=True)
class Ordinal:
    """Proportional odds: ``P(y > k) = 1 / (1 + exp(-eta_k))``, ``eta_k = x'w + b_k``, with b decreasing in k.

    The thresholds of the scale x'w are ``-b``. All K - 1 columns of eta share one output, so that only
    `smaller.rows` know this likelihood. With the edges ``up = eta_(y-1)`` and ``down = eta_y`` of a row's class,

        loss = log(1 + exp(-up)) + log(1 + exp(down)) - log(1 - exp(down - up)),

    jointly convex, and infinite where thresholds are out of order. The lowest class has no ``up`` (it is infinite), the
    highest no ``down``.
    """

    n_classes: int

    @property
    def n_outputs(self) -> int:
        return 1

    @property
    def n_free(self) -> int:
        return self.n_classes - 1

    @property
    def shift_invariant(self) -> bool:
        return False

    def encode(self, labels: Array) -> Array:
        """Return which thresholds a class lies above, (n, K - 1): their means are the shares above each."""
        xp = array_namespace(labels)
        codes = xp.arange(self.n_free, device=labels.device)
        return by_column(xp.astype(labels[:, None] > codes[None, :], xp.float64))

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        xp = array_namespace(eta)
        edges = _Edges(eta, y)
        rows = _log1p_exp(-edges.up) + _log1p_exp(edges.down) - xp.log(-xp.expm1(-edges.width))
        broken = edges.broken if weight is None else edges.broken & (weight > 0)
        residual = edges.below * (_logistic(edges.down) + edges.pull)[:, None]
        residual -= edges.above * (_logistic(-edges.up) + edges.pull)[:, None]
        if bool(xp.any(broken)):
            return float("inf"), weighted(residual, weight)
        return float(xp.sum(rows if weight is None else rows * weight)), weighted(residual, weight)

    def curvature(self, eta: Array, y: Array, weight: Array | None, *, bound: bool = False) -> Curvature:
        if bound:
            raise ValueError("Ordered classes have no bound on their curvature: thresholds may come close without end.")
        xp = array_namespace(eta)
        edges = _Edges(eta, y)
        kink = edges.pull * (1.0 + edges.pull)  # of -log(1 - exp(down - up)), in the difference of the two edges
        d = edges.below * (_slope(edges.down) + 2.0 * kink)[:, None]
        d += edges.above * (_slope(edges.up) + 2.0 * kink)[:, None]
        u = (edges.above + edges.below) * xp.sqrt(kink)[:, None]
        return Curvature(weighted(d, weight), u if weight is None else u * xp.sqrt(weight)[:, None])

    def predict(self, eta: Array) -> Array:
        return array_namespace(eta).exp(self.log_predict(eta))

    def log_predict(self, eta: Array) -> Array:
        """Return the logarithms of the class probabilities: of F(up) - F(down), as a product."""
        xp = array_namespace(eta)
        zeros = xp.zeros_like(eta[:, :1])
        above = xp.concat([zeros, -_log1p_exp(-eta)], axis=1)
        below = xp.concat([-_log1p_exp(eta), zeros], axis=1)
        inner = xp.log(-xp.expm1(-positive_part(eta[:, :-1] - eta[:, 1:])) + _LEAST)
        return above + below + xp.concat([zeros, inner, zeros], axis=1)

    def null(self, y: Array, weight: Array | None) -> Array:
        xp = array_namespace(y)
        share = means(y, weight)
        return xp.log(share) - xp.log1p(-share)

    def dual(self, residual: Array, y: Array, weight: Array | None) -> float | None:
        """Return minus the sum of conjugates.

        With p a row's residual at ``down`` and -s that at ``up``, the conjugate is ``-p logit A + s logit B + log D``,
        ``D = sqrt(1 + 4 p s) - p - s``, ``2 A = 1 - p + s + D``, ``2 B = 1 - p + s - D``: A and B are the probabilities
        below the class's edges whose residual this is.
        """
        xp = array_namespace(y)
        if weight is not None:
            residual = residual / xp.where(weight > 0, weight, xp.ones_like(weight))[:, None]
        above, below = _positions(y)
        p, s = positive_part(xp.sum(below * residual, axis=1)), positive_part(-xp.sum(above * residual, axis=1))
        root = xp.sqrt(1.0 + 4.0 * p * s)
        total = root + p + s
        # e = p - s; everything below is written as sums and products of what is positive.
        more, less = positive_part(1.0 + (p - s)) + _LEAST, positive_part(1.0 - (p - s)) + _LEAST
        log_d = xp.log(more) + xp.log(less) - xp.log(total)
        d = more * less / total
        log_a, log_not_b = xp.log(0.5 * (less + d)), xp.log(0.5 * (more + d))
        log_not_a = xp.log(more * p * (1.0 + 2.0 * s / (root + 1.0)) / total + _LEAST)
        log_b = xp.log(less * s * (1.0 + 2.0 * p / (root + 1.0)) / total + _LEAST)
        conjugate = -p * (log_a - log_not_a) + s * (log_b - log_not_b) + log_d
        return -float(xp.sum(conjugate if weight is None else conjugate * weight))

    def refresh(self, eta: Array, y: Array, weight: Array | None) -> Ordinal:
        return self


class _Edges:
    """Where each row's class begins and ends among its K - 1 columns of eta."""

    def __init__(self, eta: Array, y: Array) -> None:
        xp = array_namespace(eta)
        self.above, self.below = _positions(y)  # one-hot (n, K - 1): the column of `up`, and of `down`
        lowest, highest = y[:, 0] == 0, y[:, -1] == 1
        up, down = xp.sum(self.above * eta, axis=1), xp.sum(self.below * eta, axis=1)
        width = xp.where(lowest | highest, _LARGEST + 0.0 * up, up - down)
        self.broken = width <= 0.0
        self.width = xp.where(self.broken, 1.0 + 0.0 * width, xp.where(width > _LARGEST, _LARGEST, width))
        self.up = xp.where(lowest, _LARGEST + 0.0 * up, up)
        self.down = xp.where(highest, -_LARGEST + 0.0 * down, down)
        # 1 / (exp(up - down) - 1): how the nearness of the other edge pulls at each
        self.pull = 1.0 / xp.expm1(self.width)


def _positions(y: Array) -> tuple[Array, Array]:
    """Return one-hot arrays of the threshold under each row's class, and of the one over it."""
    xp = array_namespace(y)
    zeros = xp.zeros_like(y[:, :1])
    padded = xp.concat([zeros + 1.0, y, zeros], axis=1)
    steps = padded[:, :-1] - padded[:, 1:]  # one at the row's class
    return by_column(steps[:, 1:]), by_column(steps[:, :-1])


def _logistic(a: Array) -> Array:
    xp = array_namespace(a)
    small = xp.exp(-xp.abs(a))
    return xp.where(a >= 0, 1.0 / (1.0 + small), small / (1.0 + small))


def _slope(a: Array) -> Array:
    """Return the derivative of `_logistic`."""
    xp = array_namespace(a)
    small = xp.exp(-xp.abs(a))
    return small / (1.0 + small) ** 2


def _log1p_exp(a: Array) -> Array:
    xp = array_namespace(a)
    return positive_part(a) + xp.log1p(xp.exp(-xp.abs(a)))
